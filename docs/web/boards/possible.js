/* Is your number possible? The reader's bytes, time and card become a point on the board's axis, and a verdict. The rules
   are those of firstlight.lessons.plausibility, which wrote them into the page; texts are only ever set as text. */
"use strict";

(() => {
  const { board, data: rules, inputs, drawing, verdict, hint, here } = chart.open("possible");
  if (!board) return;
  const { quantity } = chart, { axis, hardware, reports } = rules, { start, hardware: card } = inputs;
  const state = { ...reports[0] }, UNITS = { bytes: "B", seconds: "s", flops: "FLOP" };

  // Judging as ReportedTime does, with numbers written as the tables write them.
  const formatRatio = (ratio) => ratio < 0.001 ? "less than 0.001"
    : ratio < 1e5 ? chart.digits(ratio, 2).toLocaleString("en", { maximumFractionDigits: 6 }) : "more than 100,000";

  function judge({ bytes, seconds, flops, hardware: name }) {
    const { byte_rate, flop_rate, cache, measured } = hardware[name];
    const memory = bytes / byte_rate, arithmetic = flops && flop_rate ? flops / flop_rate : 0;
    const floor = Math.max(memory, arithmetic), ratio = seconds / floor;
    const tooFast = (least) => least > rules.tolerance * seconds, cached = bytes < rules.caches * cache;
    const computes = arithmetic > memory && tooFast(arithmetic);
    const kind = !tooFast(floor) ? (ratio < rules.atFloor ? "at-floor" : "possible")
      : measured ? (computes || !cached ? "above-roof" : "in-cache")
      : tooFast(memory) && !cached ? (computes ? "impossible-twice" : "impossible")
      : computes ? "above-float32" : "in-cache";
    const suspects = ratio < rules.suspects[0][0] && seconds > rules.longestLaunch ? rules.suspectsIfLonger
      : rules.suspects.find(([limit]) => limit === null || ratio < limit)[1];
    const facts = { seconds: quantity(seconds, "s"), ratio: formatRatio(ratio), floor: quantity(floor, "s"),
                    memory: quantity(memory, "s"), bytes: quantity(bytes, "B") };
    return { floor, ratio, kind, suspects, sentence: rules.sentences[kind].replace(/\{(\w+)\}/g, (_, name) => facts[name]) };
  }

  function change(changes, number = 0) { // which report it starts from, or 0: the reader's own number
    Object.assign(state, changes);
    start.selectedIndex = number;
    card.value = state.hardware;
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
  }

  for (const name of Object.keys(UNITS)) inputs[name].addEventListener("input", ({ target: { value, min } }) =>
    change({ [name]: name === "flops" && Number(value) <= Number(min) ? null : 10 ** value }));
  const SIZES = { n: 1e-9, µ: 1e-6, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  inputs.typed.addEventListener("input", ({ target: { value } }) => {
    const told = [...value.matchAll(/(\d[\d.]*(?:e[+-]?\d+)?)\s*([nµumkMGT]?)(B|s|FLOP)\b/g)].map(([, number, size, unit]) =>
      [Object.keys(UNITS).find((name) => UNITS[name] === unit), number * SIZES[size]]);
    change(Object.fromEntries(told.filter(([, number]) => number > 0 && number < 1e30)));
  });
  card.addEventListener("change", () => change({ hardware: card.value }));
  start.addEventListener("change", () => change(reports[start.selectedIndex - 1] ?? {}, start.selectedIndex));

  // The point can be taken with the mouse or a finger: it sets the time.
  here.addEventListener("pointerdown", (event) => { event.preventDefault(); here.setPointerCapture(event.pointerId); });
  here.addEventListener("pointermove", (event) => {
    if (!here.hasPointerCapture(event.pointerId)) return;
    const box = drawing.getBoundingClientRect(), place = (event.clientX - box.left) / box.width * drawing.viewBox.baseVal.width;
    change({ seconds: chart.inside(chart.from(axis, place) * judge(state).floor, [1e-6, 10]) });
  });
  change({}, 1);
})();
