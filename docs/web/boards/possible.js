/* Is your number possible? The reader's bytes, time and card become a point on an axis of time over floor, and a
   verdict. The rules are those of firstlight.lessons.plausibility, which wrote them into the page. */
"use strict";

(() => {
  const { element, quantity, text: label } = chart;
  const UNITS = { bytes: "B", seconds: "s", flops: "FLOP" };

  // The axis in its drawing: from a ratio to its place and back; what lies beyond is at an end.
  const [LEAST, MOST, START, END, BASE] = [1e-3, 1e3, 24, 376, 124];
  const inside = (value, least, most) => Math.min(most, Math.max(least, value));
  const at = (ratio) =>
    chart.digits(START + ((END - START) * Math.log(inside(ratio, LEAST, MOST) / LEAST)) / Math.log(MOST / LEAST), 6);
  const ratioAt = (x) => LEAST * (MOST / LEAST) ** ((inside(x, START, END) - START) / (END - START));

  // -- Judging as ReportedTime does, with numbers written as the tables write them ----------------------------------

  function formatRatio(ratio) {
    if (ratio < 0.001) return "less than 0.001";
    if (ratio >= 1e5) return "more than 100,000";
    return chart.digits(ratio, 2).toLocaleString("en", { maximumFractionDigits: 6 });
  }

  function kindOf({ memory, arithmetic, ratio, bytes, seconds, card }, rules) {
    const tooFast = (least) => least > rules.tolerance * seconds;
    const cached = !tooFast(Math.max(bytes - card.cache, 0) / card.byte_rate);
    const computes = arithmetic > memory && tooFast(arithmetic);
    if (!tooFast(Math.max(memory, arithmetic))) return ratio < rules.atFloor ? "at-floor" : "possible";
    if (card.measured) return computes || !cached ? "above-roof" : "in-cache";
    if (!cached) return computes ? "impossible-twice" : "impossible";
    return computes ? "above-float32" : "in-cache";
  }

  function suspectsOf(ratio, seconds, { suspects, suspectsIfLonger, longestLaunch }) {
    if (ratio < suspects[0][0] && seconds > longestLaunch) return suspectsIfLonger;
    return suspects.find(([limit]) => limit === null || ratio < limit)[1];
  }

  function judge({ bytes, seconds, flops, hardware }, rules) {
    const card = rules.hardware[hardware];
    const memory = bytes / card.byte_rate;
    const arithmetic = flops && card.flop_rate ? flops / card.flop_rate : 0;
    const floor = Math.max(memory, arithmetic);
    const ratio = seconds / floor;
    const kind = kindOf({ memory, arithmetic, ratio, bytes, seconds, card }, rules);
    const times = Object.entries({ seconds, floor, memory }).map(([name, time]) => [name, quantity(time, "s")]);
    const facts = { ...Object.fromEntries(times), ratio: formatRatio(ratio), bytes: quantity(bytes, "B") };
    const sentence = rules.sentences[kind].replace(/\{(\w+)\}/g, (_, name) => facts[name]);
    return { floor, ratio, kind, suspects: suspectsOf(ratio, seconds, rules), sentence };
  }

  // -- The board ----------------------------------------------------------------------------------------------------

  const title = ({ name }, number) => `${number + 1} ${name}`;

  function axis(rules) {
    const [left, floor, right] = [START - 12, at(1), END + 12];
    const diamond = element("path", { d: `M0 ${BASE - 13}l13 13-13 13-13-13Z` });
    const path = (d, look) => element("path", { d, stroke: "currentColor", ...look });
    const ticks = [-3, -2, -1, 0, 1, 2, 3].flatMap((power) => {
      const x = at(10 ** power);
      return [path(`M${x} ${BASE}v6`), label(x, BASE + 34, power < 0 ? `1/${10 ** -power}` : `${10 ** power}`)];
    });
    const points = rules.reports.flatMap((report, number) => {
      const [x, y] = [at(judge(report, rules).ratio), BASE - 24 * (number + 1)];
      return [
        path(`M${x} ${BASE}V${y}`, { "stroke-opacity": 0.5 }),
        element("circle", { cx: x, cy: y, r: 5 }),
        label(x + 9, y + 5, title(report, number), "start"),
      ];
    });
    const ratios = rules.reports.map((report) => `${report.name}, ${formatRatio(judge(report, rules).ratio)}`);
    const words = `An axis of time over floor; what is below 1 lies in a red zone. ${ratios.join("; ")}.`;
    return element(
      "svg",
      { viewBox: `0 0 400 ${BASE + 58}`, role: "img", "aria-label": words },
      element("rect", { class: "fl-zone", x: left, y: 20, width: floor - left, height: BASE }),
      element("path", { class: "fl-floor", d: `M${floor} 14V${BASE + 20}` }),
      label(floor - 6, 13, "faster than the floor", "end"),
      label(floor + 8, 13, "slower", "start"),
      path(`M${left} ${BASE}H${right}`, { "stroke-width": 1.5 }),
      ...ticks,
      ...points,
      label((left + right) / 2, BASE + 56, "reported time ÷ floor"),
      element("g", { class: "fl-here" }, element("circle", { cy: BASE, r: 26 }), diamond),
    );
  }

  const typing = { name: "typed", type: "text", placeholder: "400 MB, 3.1 ms, 2 GFLOP", autocomplete: "off" };
  const nameOf = (report, number) => `${title(report, number)}, ${report.hardware}`;
  const controls = (rules) =>
    chart.controls({
      "Start from": chart.choice("start", ["your own number", ...rules.reports.map(nameOf)]),
      Card: chart.choice("hardware", Object.keys(rules.hardware)),
      "Type it": element("input", typing),
      "Bytes moved": chart.slider("bytes", 6, 11, 6, 0.01),
      Time: chart.slider("seconds", -6, 1, 1, 0.01),
      Operations: chart.slider("flops", 6, 15, 6, 0.01),
    });

  const { board, data, inputs, drawing, verdict, hint } = chart.open("possible", (rules) => [
    controls(rules),
    axis(rules),
    chart.status(),
  ]);
  const { start, hardware: card } = inputs;
  const here = board.querySelector(".fl-here");
  const state = { ...data.reports[0] };

  /** Take other numbers: those of a report, by its number, or the reader's own, which is 0. */
  function change(changes, number = 0) {
    Object.assign(state, changes);
    start.selectedIndex = number;
    card.value = state.hardware;
    const { ratio, kind, suspects, sentence } = judge(state, data);
    const [first, ...others] = suspects.map((name) => data.mistakes[name]);
    const then = others.map((mistake) => mistake.title).join(", ") || "nothing else";
    verdict.textContent = sentence;
    hint.textContent = `Most likely: ${first.title}. ${first.test} Otherwise: ${then}.`;
    verdict.parentElement.dataset.kind = kind;
    here.setAttribute("transform", `translate(${at(ratio)})`);
    for (const [name, unit] of Object.entries(UNITS)) {
      const value = state[name];
      inputs[name].value = value ? Math.log10(value) : inputs[name].min;
      chart.tell(inputs[name], value ? quantity(value, unit) : "not counted");
    }
  }

  for (const name of Object.keys(UNITS))
    inputs[name].addEventListener("input", ({ target: { value, min } }) => {
      change({ [name]: name === "flops" && Number(value) <= Number(min) ? null : 10 ** value });
    });

  const SIZES = { n: 1e-9, µ: 1e-6, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  inputs.typed.addEventListener("input", ({ target: { value } }) => {
    const quantities = value.matchAll(/(\d[\d.]*(?:e[+-]?\d+)?)\s*([nµumkMGT]?)(B|s|FLOP)\b/g);
    const typed = [...quantities].map(([, number, size, unit]) => {
      return [Object.keys(UNITS).find((name) => UNITS[name] === unit), number * SIZES[size]];
    });
    change(Object.fromEntries(typed.filter(([, number]) => number > 0 && number < 1e30)));
  });
  card.addEventListener("change", () => change({ hardware: card.value }));
  start.addEventListener("change", () => change(data.reports[start.selectedIndex - 1] ?? {}, start.selectedIndex));

  // The point can be taken with the mouse or a finger: it sets the time.
  here.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    here.setPointerCapture(event.pointerId);
  });
  here.addEventListener("pointermove", (event) => {
    if (!here.hasPointerCapture(event.pointerId)) return;
    const box = drawing.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * drawing.viewBox.baseVal.width;
    change({ seconds: inside(ratioAt(place) * judge(state, data).floor, 1e-6, 10) });
  });
  change({}, 1);
})();
