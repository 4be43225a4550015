/* Any number of visibilities, any noise: two sliders move along what firstlight.imaging.sliders wrote into the page. */
"use strict";

(() => {
  const board = document.querySelector(".fl-sliders");
  if (!board) return;
  const { costs, signals } = JSON.parse(board.dataset.sliders), [verdict, more] = board.querySelectorAll(".fl-said p");
  const one = (name) => board.querySelector(`[name="${name}"]`), count = one("count"), signal = one("signal");
  const line = board.querySelector(".fl-here"), levels = [...board.querySelectorAll(".fl-level")];
  const LEFT = 50, RIGHT = 400, FEWEST = 4, STEPS = 600; // the axes of the chart

  const two = (value) => value >= 99.5 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(2)));
  function duration(seconds) {
    const [size, unit] = seconds < 0.9995 ? [1e-3, "ms"] : seconds < 120 ? [1, "s"] : seconds < 7200 ? [60, "minutes"] : [3600, "hours"];
    return `${two(seconds / size)} ${unit}`;
  }
  const tell = (input, text) => { input.nextElementSibling.textContent = input.ariaValueText = text; };

  function move() {
    const power = FEWEST + Number(count.value), visibilities = Number((10 ** power).toPrecision(2));
    const steps = Object.entries(costs).map(([name, { start, slope, measured }]) => {
      const here = measured.find(([many]) => Math.abs(many / visibilities - 1) < 0.05);
      return [name, here ? here[1] : start + slope * visibilities, !here];
    });
    tell(count, visibilities.toLocaleString("en"));
    line.setAttribute("transform", `translate(${LEFT + (RIGHT - LEFT) * Number(count.value) / Number(count.max)})`);
    verdict.textContent = `A step: ${steps.map(([name, seconds]) => `${name} ${duration(seconds)}`).join(", ")}.`;
    const model = steps.some(([, , guessed]) => guessed) ? " By the model." : "";
    more.textContent = `${STEPS} steps: ${steps.map(([name, seconds]) => `${name} ${duration(STEPS * seconds)}`).join(", ")}.${model}`;
  }
  function choose() {
    const chosen = Number(signal.value);
    tell(signal, signals[chosen]);
    levels.forEach((level, at) => { level.hidden = at !== chosen; });
  }

  for (const hidden of board.querySelectorAll(":scope > [hidden]")) hidden.hidden = false;
  line.removeAttribute("visibility");
  board.querySelector("details").open = false;
  count.addEventListener("input", move);
  move();
  if (!signal) return;
  signal.addEventListener("input", choose);
  choose();
})();
