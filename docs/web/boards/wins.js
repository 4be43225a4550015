/* Will a GPU win? The reader's numbers give what on_gpu and on_cpu of the page give, and become a link: they are kept in
   the page's address. The rates are those that the page wrote beside the controls; texts are only ever set as text. */
"use strict";

(() => {
  const { board, data, inputs, verdict, hint } = chart.open("wins");
  if (!board) return;
  const { quantity, digits } = chart, { start, card, cpu: host, precision } = inputs, names = Object.keys(data.units);
  const set = (name, value) => { if (Object.hasOwn(inputs, name)) inputs[name].value = value; };

  function predict({ sent, moved, operations, calls, uses, launch, memory, arithmetic }) {
    const [bytes, single, double, slot] = data.cards[card.value], twice = precision.value === "float64";
    const work = (byteRate, flopRate) => Math.max(moved / byteRate, operations / flopRate);
    const parts = { "launch overhead": calls * launch, "transfer and wait": (data.wait + sent / slot) / uses,
                    work: work(bytes, twice ? double : single) };
    return { cpu: work(memory, arithmetic / (twice ? 2 : 1)), parts };
  }

  function nameHost() {  // whose rates these are, if the page knows it
    const same = ([memory, arithmetic]) => Number(inputs.memory.value) === memory && Number(inputs.arithmetic.value) === arithmetic;
    const found = Object.keys(data.cpus).findIndex((name) => same(data.cpus[name]));
    host.selectedIndex = found < 0 ? host.options.length - 1 : found;
  }

  function offerMine() {  // what a page of this site measured in this browser
    let mine;
    try { mine = JSON.parse(localStorage.getItem("firstlight gpu")); } catch { /* not allowed, or not ours */ }
    if (!(mine?.rates?.length === 4)) return;
    const name = `yours: ${mine.name}, by WebGPU`;
    if (!data.cards[name]) card.append(new Option(name));
    data.cards[name] = mine.rates;
  }

  function tell() {
    const given = Object.fromEntries(names.map((name) => [name, Number(inputs[name].value || NaN)]));
    const wrong = names.find((name) => !(given[name] >= (["sent", "operations"].includes(name) ? 0 : 1e-9) && given[name] < 1e30));
    for (const name of names) {
      inputs[name].ariaInvalid = String(name === wrong);
      const shown = name !== wrong && data.units[name] && given[name] > 0;
      inputs[name].nextElementSibling.textContent = shown ? quantity(given[name], data.units[name]) : "";
    }
    verdict.parentElement.dataset.kind = "";
    verdict.textContent = "Type each number like 1200000 or 1.2e6.";
    hint.textContent = "";
    if (wrong) return;
    if (precision.value === "float64" && !data.cards[card.value][2]) {
      verdict.textContent = "WebGPU has no float64, so your GPU's rate of it is not known. Choose float32, or another card.";
      return;
    }
    const { cpu, parts } = predict(given), { "launch overhead": launch, "transfer and wait": transfer, work } = parts;
    const gpu = launch + transfer + work, gain = cpu / gpu, ratio = digits(Math.max(gain, 1 / gain), 2).toLocaleString("en");
    const most = Object.keys(parts).reduce((one, other) => parts[other] > parts[one] ? other : one);
    const spare = cpu / 2 - launch - work, uses = Math.max(1, Math.ceil(transfer * given.uses / spare));
    verdict.textContent = `${gain >= 2 ? "The GPU wins" : gain > 0.5 ? "About a tie" : "The CPU wins"}: one use takes ` +
      `${quantity(gpu, "s")} on the GPU and ${quantity(cpu, "s")} on the CPU. The ${gain < 1 ? "C" : "G"}PU is ${ratio} × as fast.`;
    verdict.parentElement.dataset.kind = gain >= 2 ? "" : gain > 0.5 ? "in-cache" : "above";
    hint.textContent = `Most of the GPU's time is ${most}: ` +
      `${Object.entries(parts).map(([name, time]) => `${name} ${quantity(time, "s")}`).join(", ")}. ` +
      (spare <= 0 ? "There is no gain of 2 ×, however often the data are used." : uses === 1 ? "A single use of the data gains 2 ×."
        : `For a gain of 2 ×, use the data ${uses.toLocaleString("en")} times or more for each transfer.`);
  }

  start.addEventListener("input", () => Object.entries(data.starts[start.value] ?? {}).forEach(([name, value]) => set(name, value)));
  host.addEventListener("input", () => ["memory", "arithmetic"].forEach((name, i) => set(name, data.cpus[host.value]?.[i] ?? "")));
  const asked = [...new URLSearchParams(location.hash.slice(1))], offered = (name, value) =>
    !inputs[name]?.options || [...inputs[name].options].some((one) => one.value === value);
  offerMine();
  addEventListener("firstlight gpu", () => { offerMine(); tell(); });
  start.selectedIndex = 1;
  start.dispatchEvent(new Event("input"));
  for (const [name, value] of asked) if (offered(name, value)) set(name, value);
  nameHost();
  board.addEventListener("input", ({ target }) => {
    if (["memory", "arithmetic"].includes(target.name)) nameHost();
    else if (target.type === "text") start.selectedIndex = 0;
    tell();
    const link = Object.values(inputs).map((input) => [input.name, input.value]);
    history.replaceState(null, "", `#${new URLSearchParams(link)}`);
  });
  tell();
})();
