/* Any number of visibilities, any noise: two sliders move along what firstlight.lessons.sliders wrote into the page. */
"use strict";

(() => {
  const { board, data, inputs: { count, signal }, verdict, hint, here } = chart.open("sliders");
  const levels = [...board.querySelectorAll(".fl-level")], STEPS = 600;

  function move() {
    const visibilities = chart.digits(data.axis.least * 10 ** Number(count.value), 2);
    const steps = Object.entries(data.costs).map(([name, { start, slope, measured }]) => {
      const near = measured.find(([many]) => Math.abs(many / visibilities - 1) < 0.05);
      return { name, seconds: near ? near[1] : start + slope * visibilities, guessed: !near };
    });
    const list = (times) => steps.map(({ name, seconds }) => `${name} ${chart.quantity(times * seconds, "s", 2)}`).join(", ");
    chart.tell(count, visibilities.toLocaleString("en"));
    chart.mark(here, data.axis, visibilities);
    verdict.textContent = `A step: ${list(1)}.`;
    hint.textContent = `${STEPS} steps: ${list(STEPS)}.${steps.some(({ guessed }) => guessed) ? " By the model." : ""}`;
  }
  function choose() {
    chart.tell(signal, data.signals[signal.value]);
    levels.forEach((level, at) => { level.hidden = at !== Number(signal.value); });
  }

  count.addEventListener("input", move);
  move();
  if (!signal) return;
  signal.addEventListener("input", choose);
  choose();
})();
