/* Will a GPU win? The reader's numbers give what on_gpu and on_cpu of the page give, and become a link: the page's
   address keeps them. The rates are those that the page wrote beside the controls; texts are only ever set as text. */
"use strict";

(() => {
  const { quantity, digits } = chart;
  const { board, data, inputs, verdict, hint } = chart.open("wins");
  const { start, card, cpu: host, precision } = inputs;
  const names = Object.keys(data.units);
  const RATES = ["memory", "arithmetic"]; // of the reader's CPU

  function predict({ sent, moved, operations, calls, uses, launch, memory, arithmetic }) {
    const [bytes, single, double, slot] = data.cards[card.value];
    const twice = precision.value === "float64";
    const work = (byteRate, flopRate) => Math.max(moved / byteRate, operations / flopRate);
    const parts = {
      "launch overhead": calls * launch,
      "transfer and wait": (data.wait + sent / slot) / uses,
      work: work(bytes, twice ? double : single),
    };
    return { cpu: work(memory, arithmetic / (twice ? 2 : 1)), parts };
  }

  /** Choose the CPU whose rates these are, if the page knows it. */
  function nameHost() {
    const typed = RATES.map((name) => Number(inputs[name].value));
    const found = Object.values(data.cpus).findIndex((rates) => rates.every((rate, i) => rate === typed[i]));
    host.selectedIndex = found < 0 ? host.options.length - 1 : found;
  }

  /** Offer the card that a page of this site measured in this browser. */
  function offerMine() {
    let mine;
    try {
      mine = JSON.parse(localStorage.getItem("firstlight gpu"));
    } catch {
      return; // not allowed, or not ours
    }
    if (mine?.rates?.length !== 4) return;
    const name = `yours: ${mine.name}, by WebGPU`;
    if (!data.cards[name]) card.append(new Option(name));
    data.cards[name] = mine.rates;
  }

  /** The numbers in the fields, and the name of the first that is none; each stands beside its field with its unit. */
  function read() {
    const least = (name) => (["sent", "operations"].includes(name) ? 0 : 1e-9);
    const given = Object.fromEntries(names.map((name) => [name, Number(inputs[name].value || NaN)]));
    const wrong = names.find((name) => !(given[name] >= least(name) && given[name] < 1e30));
    for (const name of names) {
      const shown = name !== wrong && data.units[name] && given[name] > 0;
      inputs[name].ariaInvalid = String(name === wrong);
      inputs[name].nextElementSibling.textContent = shown ? quantity(given[name], data.units[name]) : "";
    }
    return [given, wrong];
  }

  function adviceOn(spare, uses) {
    if (spare <= 0) return "There is no gain of 2 ×, however often the data are used.";
    if (uses === 1) return "A single use of the data gains 2 ×.";
    return `For a gain of 2 ×, use the data ${uses.toLocaleString("en")} times or more for each transfer.`;
  }

  function say(kind, words, more = "") {
    verdict.parentElement.dataset.kind = kind;
    verdict.textContent = words;
    hint.textContent = more;
  }

  function tell() {
    const [given, wrong] = read();
    if (wrong) {
      say("", "Type each number like 1200000 or 1.2e6.");
      return;
    }
    if (precision.value === "float64" && !data.cards[card.value][2]) {
      say("", "WebGPU has no float64, so your GPU's rate of it is not known. Choose float32, or another card.");
      return;
    }
    const { cpu, parts } = predict(given);
    const { "launch overhead": launch, "transfer and wait": transfer, work } = parts;
    const gpu = launch + transfer + work;
    const gain = cpu / gpu;
    const ratio = digits(Math.max(gain, 1 / gain), 2).toLocaleString("en");
    const longest = Object.keys(parts).reduce((one, other) => (parts[other] > parts[one] ? other : one));
    const spare = cpu / 2 - launch - work;
    const uses = Math.max(1, Math.ceil((transfer * given.uses) / spare));
    const winner = gain >= 2 ? "The GPU wins" : gain > 0.5 ? "About a tie" : "The CPU wins";
    const times = Object.entries(parts).map(([name, time]) => `${name} ${quantity(time, "s")}`);
    say(
      gain >= 2 ? "" : gain > 0.5 ? "in-cache" : "above",
      `${winner}: one use takes ${quantity(gpu, "s")} on the GPU and ${quantity(cpu, "s")} on the CPU. ` +
        `The ${gain < 1 ? "C" : "G"}PU is ${ratio} × as fast.`,
      `Most of the GPU's time is ${longest}: ${times.join(", ")}. ${adviceOn(spare, uses)}`,
    );
  }

  function isOffered(name, value) {
    if (!Object.hasOwn(inputs, name)) return false;
    const { options } = inputs[name];
    return !options || [...options].some((option) => option.value === value);
  }

  /** Fill in the numbers of a listed job, whose bytes are those of float32. */
  function fill() {
    const wide = precision.value === "float64" ? 2 : 1;
    for (const [name, value] of Object.entries(data.starts[start.value] ?? {})) {
      inputs[name].value = ["sent", "moved"].includes(name) ? wide * value : value;
    }
  }

  start.addEventListener("input", fill);
  precision.addEventListener("input", fill);
  host.addEventListener("input", () => {
    for (const [i, name] of RATES.entries()) inputs[name].value = data.cpus[host.value]?.[i] ?? "";
  });
  const asked = [...new URLSearchParams(location.hash.slice(1))];
  offerMine();
  addEventListener("firstlight gpu", () => {
    offerMine();
    tell();
  });
  start.selectedIndex = 1;
  start.dispatchEvent(new Event("input"));
  for (const [name, value] of asked) if (isOffered(name, value)) inputs[name].value = value;
  nameHost();
  board.addEventListener("input", ({ target }) => {
    if (RATES.includes(target.name)) nameHost();
    else if (target.type === "text") start.selectedIndex = 0;
    tell();
    const link = Object.values(inputs).map((input) => [input.name, input.value]);
    history.replaceState(null, "", `#${new URLSearchParams(link)}`);
  });
  tell();
})();
