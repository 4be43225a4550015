/* Is your number possible? The reader's bytes, time and card become a point on the board's axis, a verdict, and the
   measured chart of the mistake to suspect. The rules are those of firstlight.lessons.plausibility, which wrote them into
   the page; texts are only ever set as text. */
"use strict";

(() => {
  // What is uncovered from left to right happened in that order.
  function withButton(figure) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "fl-play", textContent: "Replay" });
    button.addEventListener("click", () => {
      const [bars, hand] = [".fl-bars", ".fl-hand"].map((one) => figure.querySelector(one)), time = { duration: 2500 };
      bars.animate({ clipPath: ["inset(0 100% 0 0)", "inset(0)"] }, time);
      const width = bars.firstElementChild.getAttribute("width");
      hand.animate({ visibility: ["visible", "visible"], transform: ["none", `translateX(${width}px)`] }, time);
    });
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) figure.append(button);
    return figure;
  }
  const replays = {};
  for (const figure of document.querySelectorAll(".fl-replay")) {
    replays[figure.dataset.mistake] = figure.cloneNode(true);
    withButton(figure);
  }

  const { board, data: rules, inputs, drawing, verdict, hint, here } = chart.open("possible");
  if (!board) return;
  const { quantity } = chart, { axis, places, claims } = rules, { start, place: card } = inputs, state = { ...claims[0] };
  const replay = board.querySelector(".fl-chart"), UNITS = { bytes: "B", seconds: "s", flops: "FLOP" };

  // Judging as Claim does, with numbers written as the tables write them.
  const times = (ratio) => ratio < 0.001 ? "less than 0.001"
    : ratio < 1e5 ? chart.digits(ratio, 2).toLocaleString("en", { maximumFractionDigits: 6 }) : "more than 100,000";

  function judge({ bytes, seconds, flops, place }) {
    const { byte_rate, flop_rate, cache, measured } = places[place];
    const memory = bytes / byte_rate, arithmetic = flops && flop_rate ? flops / flop_rate : 0;
    const floor = Math.max(memory, arithmetic), ratio = seconds / floor;
    const tooFast = (least) => least > rules.tolerance * seconds, cached = bytes < rules.caches * cache;
    const computes = arithmetic > memory && tooFast(arithmetic);
    const kind = !tooFast(floor) ? (ratio < rules.atFloor ? "at-floor" : "possible")
      : measured ? (computes || !cached ? "above-roof" : "in-cache")
      : tooFast(memory) && !cached ? (computes ? "impossible-twice" : "impossible")
      : computes ? "above-float32" : "in-cache";
    const suspects = ratio < rules.suspects[0][0] && seconds > rules.long ? rules.longSuspects
      : rules.suspects.find(([limit]) => limit === null || ratio < limit)[1];
    const facts = { seconds: quantity(seconds, "s"), ratio: times(ratio), floor: quantity(floor, "s"),
                    memory: quantity(memory, "s"), bytes: quantity(bytes, "B") };
    return { floor, ratio, kind, suspects, sentence: rules.sentences[kind].replace(/\{(\w+)\}/g, (_, name) => facts[name]) };
  }

  function change(changes, number = 0) { // which report it starts from, or 0: the reader's own number
    Object.assign(state, changes);
    start.selectedIndex = number;
    card.value = state.place;
    const { ratio, kind, suspects, sentence } = judge(state), [first, ...others] = suspects.map((name) => rules.mistakes[name]);
    const then = others.map(({ title }) => title).join(", ") || "nothing else";
    verdict.textContent = sentence;
    hint.textContent = `Most likely: ${first.title}. ${first.test} Otherwise: ${then}.`;
    verdict.parentElement.dataset.kind = kind;
    chart.mark(here, axis, ratio);
    for (const [name, unit] of Object.entries(UNITS)) {
      const value = state[name], input = inputs[name];
      input.value = value ? Math.log10(value) : input.min;
      chart.tell(input, value ? quantity(value, unit) : "not counted");
    }
    if (replays[suspects[0]] && replay.firstChild?.dataset.mistake !== suspects[0])
      replay.replaceChildren(withButton(replays[suspects[0]].cloneNode(true)));
  }

  for (const name of Object.keys(UNITS)) inputs[name].addEventListener("input", ({ target: { value, min } }) =>
    change({ [name]: name === "flops" && Number(value) <= Number(min) ? null : 10 ** value }));
  const SIZES = { n: 1e-9, µ: 1e-6, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  inputs.typed.addEventListener("input", ({ target: { value } }) => {
    const told = [...value.matchAll(/(\d[\d.]*(?:e[+-]?\d+)?)\s*([nµumkMGT]?)(B|s|FLOP)\b/g)].map(([, number, size, unit]) =>
      [Object.keys(UNITS).find((name) => UNITS[name] === unit), number * SIZES[size]]);
    change(Object.fromEntries(told.filter(([, number]) => number > 0 && number < 1e30)));
  });
  card.addEventListener("change", () => change({ place: card.value }));
  start.addEventListener("change", () => change(claims[start.selectedIndex - 1] ?? {}, start.selectedIndex));

  // The point can be taken with the mouse or a finger: it sets the time.
  here.addEventListener("pointerdown", (event) => { event.preventDefault(); here.setPointerCapture(event.pointerId); });
  here.addEventListener("pointermove", (event) => {
    if (!here.hasPointerCapture(event.pointerId)) return;
    const box = drawing.getBoundingClientRect(), place = (event.clientX - box.left) / box.width * drawing.viewBox.baseVal.width;
    change({ seconds: chart.inside(chart.from(axis, place) * judge(state).floor, [1e-6, 10]) });
  });
  change({}, 1);
})();
