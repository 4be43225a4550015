/* Is your number possible? The reader's bytes, time and card become a point on the board's axis and a verdict, and the
   mistake that is named shows its measured chart. The rules are those of firstlight.measure.possible, which wrote them
   into the page; texts are only ever set as text. */
"use strict";

(() => {
  const element = (name, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };

  // -- Numbers as the tables write them ------------------------------------------------------------------------------

  const digits = (value, count) => Number(value.toPrecision(count));
  function quantity(value, unit) {
    const prefixes = unit === "s" ? [[-9, "n"], [-6, "µ"], [-3, "m"], [0, ""]]
      : [[0, ""], [3, "k"], [6, "M"], [9, "G"], [12, "T"], [15, "P"]];
    value = digits(value, 3);
    const wanted = 3 * Math.floor(Math.log10(value) / 3 + 1e-12);
    const [power, prefix] = prefixes.findLast(([one]) => one <= wanted) ?? prefixes[0];
    const scaled = value / 10 ** power;
    return `${scaled.toFixed(Math.max(0, 2 - Math.floor(Math.log10(scaled) + 1e-12)))} ${prefix}${unit}`;
  }
  const times = (ratio) => ratio < 0.001 ? "less than 0.001" : ratio < 1e5 ? digits(ratio, 2).toLocaleString("en", { maximumFractionDigits: 6 }) : "more than 100,000";

  // -- Judging as Claim does -----------------------------------------------------------------------------------------

  function judge({ bytes, seconds, flops, place }, rules) {
    const { byte_rate, flop_rate, cache, measured } = rules.places[place];
    const memory = bytes / byte_rate, arithmetic = flops && flop_rate ? flops / flop_rate : 0;
    const floor = Math.max(memory, arithmetic), ratio = seconds / floor;
    const tooFast = (least) => least / seconds > rules.tolerance;
    const computes = arithmetic > memory && tooFast(arithmetic), cached = cache && bytes < rules.caches * cache;
    const kind = !tooFast(floor) ? (ratio < rules.suspects[2][0] ? "at-floor" : "possible")
      : measured ? (computes || !cached ? "above-roof" : "in-cache")
      : tooFast(memory) && !cached ? (computes ? "impossible-twice" : "impossible")
      : computes ? "above-float32" : "in-cache";
    const suspects = ratio < rules.suspects[0][0] && seconds > rules.long ? rules.longSuspects
      : rules.suspects.find(([limit]) => limit === null || ratio < limit)[1];
    const facts = { seconds: quantity(seconds, "s"), ratio: times(ratio), floor: quantity(floor, "s"), memory: quantity(memory, "s"), bytes: quantity(bytes, "B") };
    return { ratio, kind, suspects, sentence: rules.sentences[kind].replace(/\{(\w+)\}/g, (_, name) => facts[name]) };
  }

  // -- Replaying a chart ---------------------------------------------------------------------------------------------

  const still = matchMedia("(prefers-reduced-motion: reduce)");
  function replay(figure) {
    const bars = [...figure.querySelectorAll("g[data-start]")], hand = figure.querySelector(".fl-hand");
    const began = performance.now(), run = (figure.dataset.run = String(began)), lasts = 2500, width = 336; // of the axis in the drawing
    const frame = (now) => {
      if (figure.dataset.run !== run) return; // played anew meanwhile
      const part = Math.min(1, Math.max(0, (now - began) / lasts));
      hand.setAttribute("visibility", part < 1 ? "visible" : "hidden");
      hand.setAttribute("transform", `translate(${part * width} 0)`);
      for (const bar of bars) {
        const { start, end } = bar.dataset;
        const shown = part >= 1 ? 1 : Math.min(1, Math.max(0, (part - start) / Math.max(end - start, 1e-9)));
        for (const rect of bar.children) {
          rect.dataset.width ??= rect.getAttribute("width");
          rect.setAttribute("width", rect.dataset.width * shown);
        }
      }
      if (part < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  function withButton(figure) {
    const button = element("button", { type: "button", className: "fl-play", textContent: "Replay" });
    button.addEventListener("click", () => replay(figure));
    if (!still.matches) figure.append(button);
    return figure;
  }

  const charts = Object.fromEntries([...document.querySelectorAll(".fl-replay")].map((one) => [one.dataset.mistake, one.cloneNode(true)]));
  document.querySelectorAll(".fl-replay").forEach(withButton);

  // -- The board -----------------------------------------------------------------------------------------------------

  for (const board of document.querySelectorAll(".fl-possible")) setUp(board, JSON.parse(board.dataset.possible));

  function setUp(board, rules) {
    const state = { ...rules.claims[0] };
    const mine = board.querySelector(".fl-mine"), drawing = board.querySelector("svg");
    const named = (text, control, ...more) => element("label", {}, element("span", { textContent: text }), control, ...more);
    const select = (names) => element("select", {}, ...names.map((name, index) => element("option", { textContent: name, value: index })));

    const claim = select(["your own number", ...rules.claims.map((one, index) => `${index + 1} ${one.name}`)]);
    const places = Object.keys(rules.places), place = select(places);
    const sliders = [["bytes", "Bytes moved", "B", 6, 11], ["seconds", "Time", "s", -6, 1], ["flops", "Operations", "FLOP", 6, 15]]
      .map(([key, text, unit, min, max]) => ({
        key, unit, min, text, input: element("input", { type: "range", min, max, step: 0.01, ariaLabel: text }),
        output: element("span", { className: "fl-value", ariaHidden: "true" }) }));
    const verdict = element("p", { className: "fl-verdict-text" }), advice = element("p");
    const said = element("div", { className: "fl-said" }, verdict, advice);
    said.setAttribute("role", "status");
    const also = element("div", { className: "fl-also", role: "group", ariaLabel: "Show the chart of a mistake" });
    const chart = element("div", { className: "fl-chart" });
    let shown = "", chosen = "";

    for (const [name, mistake] of Object.entries(rules.mistakes).filter(([one]) => charts[one])) {
      const button = element("button", { type: "button", textContent: mistake.title });
      button.dataset.mistake = name;
      button.addEventListener("click", () => { chosen = name; update(); });
      also.append(button);
    }

    function show(name) {
      for (const button of also.children) button.setAttribute("aria-pressed", String(button.dataset.mistake === name));
      if (name === shown || !charts[name]) return;
      shown = name;
      chart.replaceChildren(withButton(charts[name].cloneNode(true)));
    }

    function update() {
      const { ratio, kind, suspects, sentence } = judge(state, rules);
      const [first, ...others] = suspects.map((name) => rules.mistakes[name].title);
      const texts = [sentence, `Look first for: ${first}. ${rules.mistakes[suspects[0]].test} Then for: ${others.join(", ") || "nothing else"}.`];
      [verdict, advice].forEach((line, index) => { if (line.textContent !== texts[index]) line.textContent = texts[index]; });
      said.dataset.kind = kind;
      const { y, left, right, least, most } = rules.axis;
      const part = Math.log10(ratio / least) / Math.log10(most / least);
      mine.setAttribute("transform", `translate(${left + Math.min(1, Math.max(0, part)) * (right - left)} ${y})`);
      place.value = String(places.indexOf(state.place));
      for (const { key, unit, min, input, output } of sliders) {
        const value = state[key], text = value ? quantity(value, unit) : "not counted";
        if (document.activeElement !== input || Math.abs(Number(input.value) - Math.log10(value || 10 ** min)) > 0.02)
          input.value = value ? Math.log10(value) : min;
        output.textContent = text;
        input.setAttribute("aria-valuetext", text);
      }
      show(chosen || suspects[0]);
    }

    const change = (changes, keep = false) => {
      Object.assign(state, changes);
      if (!keep) claim.value = "0";
      chosen = "";
      update();
    };
    for (const { key, min, input } of sliders)
      input.addEventListener("input", () =>
        change({ [key]: key === "flops" && Number(input.value) <= min ? null : 10 ** Number(input.value) }));
    place.addEventListener("change", () => change({ place: places[Number(place.value)] }));
    claim.addEventListener("change", () => claim.value !== "0" && change(rules.claims[claim.value - 1], true));

    // The point can be taken with the mouse or a finger: it sets the time.
    const drag = (event) => {
      const box = drawing.getBoundingClientRect(), { width, left, right, least, most } = rules.axis;
      const part = ((event.clientX - box.left) / box.width * width - left) / (right - left);
      const ratio = least * (most / least) ** Math.min(1, Math.max(0, part));
      const floor = state.seconds / judge(state, rules).ratio;
      change({ seconds: Math.min(10, Math.max(1e-6, ratio * floor)) });
    };
    mine.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      mine.setPointerCapture(event.pointerId);
      mine.addEventListener("pointermove", drag);
    });
    for (const end of ["pointerup", "pointercancel"])
      mine.addEventListener(end, () => mine.removeEventListener("pointermove", drag));

    const controls = element("div", { className: "fl-controls" }, named("Start from", claim), named("Card", place),
      ...sliders.map(({ text, input, output }) => named(text, input, output)));
    const svgPlace = element("div", { className: "fl-axis" });
    drawing.before(controls, svgPlace);
    svgPlace.append(drawing);
    svgPlace.after(said, also, chart);
    mine.setAttribute("visibility", "visible");
    claim.value = "1";
    update();
  }
})();
