/* Is your number possible? The reader's bytes, time and card become a point on the board's axis, a verdict, and the
   measured chart of the mistake to suspect. The rules are those of firstlight.measure.possible, which wrote them into
   the page; texts are only ever set as text. */
"use strict";

(() => {
  const element = (name, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };

  // -- Charts: what is uncovered from left to right happened in that order ---------------------------------------------

  function withButton(figure) {
    const button = element("button", { type: "button", className: "fl-play", textContent: "Replay" });
    button.addEventListener("click", () => {
      const [bars, hand] = [".fl-bars", ".fl-hand"].map((one) => figure.querySelector(one)), time = { duration: 2500 };
      bars.animate({ clipPath: ["inset(0 100% 0 0)", "inset(0)"] }, time);
      const width = bars.firstElementChild.getAttribute("width");
      hand.animate({ visibility: ["visible", "visible"], transform: ["none", `translateX(${width}px)`] }, time);
    });
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) figure.append(button);
    return figure;
  }

  const charts = {};
  for (const figure of document.querySelectorAll(".fl-replay")) {
    charts[figure.dataset.mistake] = figure.cloneNode(true);
    withButton(figure);
  }

  const board = document.querySelector(".fl-possible");
  if (!board) return;
  const rules = JSON.parse(board.dataset.possible), { axis, places, claims } = rules, state = { ...claims[0] };

  // -- Judging as Claim does, with numbers written as the tables write them --------------------------------------------

  const digits = (value, count) => Number(value.toPrecision(count));
  function quantity(value, unit) {
    const prefixes = unit === "s" ? [[-9, "n"], [-6, "µ"], [-3, "m"], [0, ""]]
      : [[0, ""], [3, "k"], [6, "M"], [9, "G"], [12, "T"], [15, "P"]];
    value = digits(value, 3);
    const wanted = 3 * Math.floor(Math.log10(value) / 3 + 1e-12);
    const [power, prefix] = prefixes.findLast(([one]) => one <= wanted) ?? prefixes[0], scaled = value / 10 ** power;
    return `${scaled.toFixed(Math.max(0, 2 - Math.floor(Math.log10(scaled) + 1e-12)))} ${prefix}${unit}`;
  }
  const times = (ratio) => ratio < 0.001 ? "less than 0.001"
    : ratio < 1e5 ? digits(ratio, 2).toLocaleString("en", { maximumFractionDigits: 6 }) : "more than 100,000";

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

  // -- The reader's number ---------------------------------------------------------------------------------------------

  const drawing = board.querySelector("svg"), mine = board.querySelector(".fl-mine");
  const named = (text, ...controls) => element("label", {}, element("span", { textContent: text }), ...controls);
  const select = (names) => element("select", {}, ...names.map((textContent) => element("option", { textContent })));
  const start = select(["your own number", ...claims.map((one, index) => `${index + 1} ${one.name}`)]);
  const card = select(Object.keys(places));
  const sliders = [["bytes", "Bytes moved", "B", 6, 11], ["seconds", "Time", "s", -6, 1], ["flops", "Operations", "FLOP", 6, 15]]
    .map(([key, text, unit, min, max]) => ({
      key, text, unit, min, output: element("span", { className: "fl-value", ariaHidden: "true" }),
      input: element("input", { type: "range", min, max, step: 0.01, ariaLabel: text }) }));
  const verdict = element("p", { className: "fl-verdict-text" }), advice = element("p");
  const said = element("div", { className: "fl-said", role: "status" }, verdict, advice), chart = element("div");

  function change(changes, from = 0) { // which report it starts from, or 0: the reader's own number
    Object.assign(state, changes);
    start.selectedIndex = from;
    card.value = state.place;
    const { ratio, kind, suspects, sentence } = judge(state), [first, ...others] = suspects.map((name) => rules.mistakes[name]);
    const then = others.map(({ title }) => title).join(", ") || "nothing else";
    verdict.textContent = sentence;
    advice.textContent = `Look first for: ${first.title}. ${first.test} Then for: ${then}.`;
    said.dataset.kind = kind;
    const part = Math.log10(ratio / axis.least) / Math.log10(axis.most / axis.least);
    mine.setAttribute("transform", `translate(${axis.left + Math.min(1, Math.max(0, part)) * (axis.right - axis.left)} ${axis.y})`);
    for (const { key, unit, min, input, output } of sliders) {
      const value = state[key];
      input.value = value ? Math.log10(value) : min;
      output.textContent = input.ariaValueText = value ? quantity(value, unit) : "not counted";
    }
    if (charts[suspects[0]] && chart.firstChild?.dataset.mistake !== suspects[0])
      chart.replaceChildren(withButton(charts[suspects[0]].cloneNode(true)));
  }

  for (const { key, min, input } of sliders)
    input.addEventListener("input", () => change({ [key]: key === "flops" && Number(input.value) <= min ? null : 10 ** input.value }));
  card.addEventListener("change", () => change({ place: card.value }));
  start.addEventListener("change", () => change(claims[start.selectedIndex - 1] ?? {}, start.selectedIndex));

  // The point can be taken with the mouse or a finger: it sets the time.
  mine.addEventListener("pointerdown", (event) => { event.preventDefault(); mine.setPointerCapture(event.pointerId); });
  mine.addEventListener("pointermove", (event) => {
    if (!mine.hasPointerCapture(event.pointerId)) return;
    const box = drawing.getBoundingClientRect();
    const part = ((event.clientX - box.left) / box.width * axis.width - axis.left) / (axis.right - axis.left);
    const ratio = axis.least * (axis.most / axis.least) ** Math.min(1, Math.max(0, part));
    change({ seconds: Math.min(10, Math.max(1e-6, ratio * judge(state).floor)) });
  });

  drawing.before(element("div", { className: "fl-controls" }, named("Start from", start), named("Card", card),
    ...sliders.map(({ text, input, output }) => named(text, input, output))));
  drawing.after(said, chart);
  mine.setAttribute("visibility", "visible");
  board.querySelector("details").open = false;
  change({}, 1);
})();
