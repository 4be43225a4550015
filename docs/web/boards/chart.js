/* What the widgets have in common: what firstlight.lessons.svg wrote into the page, controls that tell their values, numbers
   with units, and places along an axis. It is loaded before the script of any of them. */
"use strict";

const chart = (() => {
  function open(kind) { // the widget of that kind, if the page has it: shown, with its data and its controls by name
    const board = document.querySelector(`.fl-${kind}`);
    if (!board) return {};
    for (const hidden of board.querySelectorAll(":scope > [hidden]")) hidden.hidden = false;
    board.querySelector("details").open = false;
    const [verdict, hint] = board.querySelectorAll(".fl-said p");
    return { board, data: JSON.parse(board.dataset[kind]), drawing: board.querySelector("svg"), verdict, hint,
             here: board.querySelector(".fl-here"),
             inputs: Object.fromEntries([...board.querySelectorAll("[name]")].map((one) => [one.name, one])) };
  }
  const tell = (input, text) => { input.nextElementSibling.textContent = input.ariaValueText = text; };
  const many = (amount, name) => `${amount} ${name}${amount === 1 ? "" : "s"}`;
  const digits = (value, count) => Number(value.toPrecision(count));

  function quantity(value, unit, count = 3) { // as firstlight.display writes it
    const prefixes = unit === "s" ? [[-9, "n"], [-6, "µ"], [-3, "m"], [0, ""]]
      : [[0, ""], [3, "k"], [6, "M"], [9, "G"], [12, "T"], [15, "P"]];
    if (!value) return `0 ${unit}`;
    value = digits(value, count);
    const wanted = 3 * Math.floor(Math.log10(value) / 3 + 1e-12);
    const [power, prefix] = prefixes.findLast(([one]) => one <= wanted) ?? prefixes[0], scaled = value / 10 ** power;
    return `${scaled.toFixed(Math.max(0, count - 1 - Math.floor(Math.log10(scaled) + 1e-12)))} ${prefix}${unit}`;
  }

  // An axis of powers, as firstlight.lessons.svg.Axis: from a number to its place, from a place to its number, and a mark.
  const inside = (value, ends) => Math.min(Math.max(...ends), Math.max(Math.min(...ends), value));
  const at = ({ least, most, start, end }, value) =>
    start + Math.log(inside(value, [least, most]) / least) / Math.log(most / least) * (end - start);
  const from = ({ least, most, start, end }, place) =>
    least * (most / least) ** ((inside(place, [start, end]) - start) / (end - start));
  function mark(here, axis, value) {
    here.setAttribute("transform", `translate(${digits(at(axis, value), 6)})`);
    here.setAttribute("visibility", "visible");
  }
  return { open, tell, many, digits, quantity, inside, from, mark };
})();
