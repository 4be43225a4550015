/* What the widgets have in common: their data, which Python wrote into the page, elements, controls that tell their
   values, and numbers with units. It is loaded before the script of any of them. */
"use strict";

globalThis.chart = (() => {
  const DRAWN = ["svg", "g", "path", "circle", "rect", "text", "title", "defs", "pattern"];

  /** An element with attributes; what is in it is only ever set as text. */
  function element(name, attributes = {}, ...children) {
    const drawn = DRAWN.includes(name);
    const made = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /** Words in a drawing. */
  const text = (x, y, words, anchor = "middle") => element("text", { x, y, "text-anchor": anchor }, words);

  const loading = {};

  /** Load a classic script, once: from a file, a browser loads no modules. */
  function load(src) {
    loading[src] ??= new Promise((done, failed) => {
      const script = element("script", { src });
      script.addEventListener("load", done);
      script.addEventListener("error", failed);
      document.head.append(script);
    });
    return loading[src];
  }

  const slider = (name, min, max, value, step = 1) => element("input", { name, type: "range", min, max, step, value });
  const choice = (name, options) => element("select", { name }, ...options.map((text) => element("option", {}, text)));

  /** Controls under their labels, each with room for its value. */
  function controls(labelled) {
    const labels = Object.entries(labelled).map(([text, control]) => {
      const value = element("span", { class: "fl-value", "aria-hidden": "true" });
      return element("label", {}, element("span", {}, text), control, value);
    });
    return element("div", { class: "fl-controls" }, ...labels);
  }

  /** Where a script says what it finds. */
  const status = () =>
    element("div", { class: "fl-said", role: "status" }, element("p", { class: "fl-verdict-text" }), element("p"));

  /** The widget of a kind with its data and its controls by name. Its script makes what stands above the table, or
      shows what the page has there. */
  function open(kind, make = () => []) {
    const board = document.querySelector(`.fl-${kind}`);
    const data = JSON.parse(board.dataset[kind]);
    board.prepend(...make(data));
    for (const hidden of board.querySelectorAll(":scope > [hidden]")) hidden.hidden = false;
    board.querySelector("details").open = false;
    const [verdict, hint] = board.querySelectorAll(".fl-said p");
    const inputs = Object.fromEntries([...board.querySelectorAll("[name]")].map((input) => [input.name, input]));
    return { board, data, inputs, drawing: board.querySelector("svg"), verdict, hint };
  }

  function tell(input, text) {
    input.nextElementSibling.textContent = text;
    input.ariaValueText = text;
  }
  const digits = (value, count) => Number(value.toPrecision(count));

  const PREFIXES = ["n", "µ", "m", "", "k", "M", "G", "T", "P"]; // of seconds up to the fourth, else from there on

  /** A number with its unit, as firstlight.display writes it. */
  function quantity(value, unit, count = 3) {
    if (!value) return `0 ${unit}`;
    const rounded = digits(value, count);
    const [least, most] = unit === "s" ? [-3, 0] : [0, 5];
    const thousands = Math.min(most, Math.max(least, Math.floor(Math.log10(rounded) / 3 + 1e-12)));
    const scaled = rounded / 10 ** (3 * thousands);
    const decimals = Math.max(0, count - 1 - Math.floor(Math.log10(scaled) + 1e-12));
    return `${scaled.toFixed(decimals)} ${PREFIXES[thousands + 3]}${unit}`;
  }

  /** The quartiles, linear between neighbours, as the tables have them. */
  function quartiles(values) {
    const sorted = [...values].sort((a, b) => a - b);
    return [0.25, 0.5, 0.75].map((part) => {
      const place = part * (sorted.length - 1);
      const low = Math.floor(place);
      return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
    });
  }

  /** A table that scrolls sideways where it is wide; each row begins with its head. */
  function table(title, heads, rows, ...caption) {
    const head = (scope, text) => (text ? element("th", { scope }, text) : element("td"));
    const cellsOf = ([name, ...cells]) => [head("row", name), ...cells.map((cell) => element("td", {}, cell))];
    const first = element("thead", {}, element("tr", {}, ...heads.map((text) => head("col", text))));
    const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cellsOf(row))));
    const region = { class: "fl-table", role: "region", tabindex: 0, "aria-label": title };
    return element("div", region, element("table", {}, ...caption, first, body));
  }

  return { element, load, slider, choice, controls, status, open, tell, digits, quantity, quartiles, table, text };
})();
