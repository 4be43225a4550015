/* The reader's machine: a record that is dropped, chosen or pasted becomes one more column and one more mark in each
   figure. Everything happens in this browser; texts of the record are only ever set as text. */
"use strict";

(() => {
  const tables = [...document.querySelectorAll(".fl-timings")];
  if (!tables.length) return;
  const { example, code } = tables[0].dataset;
  const KEY = `firstlight record ${example}`;
  const VERDICTS = ["ok", "noisy", "few", "launch-bound", "cpu-contended", "in-cache", "above-roof"];

  const element = (name, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };

  // -- Reading a record --------------------------------------------------------------------------------------------

  const fail = (message) => { throw new Error(message); };
  const positive = (value) => typeof value === "number" && Number.isFinite(value) && value > 0;
  const maybe = (value) => value === undefined || positive(value);

  function parse(text) {
    let content;
    try { content = JSON.parse(text); } catch { fail("This is not a record: it is not JSON, or it was cut off."); }
    const meta = content?.metadata;
    if (content?.version !== "1.0" || typeof meta !== "object" || meta === null || !Array.isArray(content.benchmarks))
      fail("This is JSON, but not a record. Make one with: python " + example.split("/")[1] + ".py --record mine.json");
    if (meta.record_schema !== 1) fail("This record has another format than this page reads. Make a new one.");
    // A script that was downloaded lies in no chapter's folder.
    if (![example, `elsewhere/${example.split("/")[1]}`].includes(meta.example)) fail(`This record is of another page, ${String(meta.example)}. This page is ${example}.`);
    const rows = content.benchmarks.map((benchmark) => {
      const { name, label, device, verdict, n, bytes, cores, of_roof } = benchmark?.metadata ?? {};
      const run = benchmark?.runs?.[0];
      const first = run?.warmups?.[0]?.[1];
      const good = [name, label, device].every((one) => typeof one === "string") && VERDICTS.includes(verdict)
        && Array.isArray(run?.values) && run.values.length > 0 && run.values.every(positive)
        && positive(first) && [n, bytes, cores, of_roof].every(maybe);
      if (!good) fail("This record is damaged: a row lacks its name, its times or its verdict.");
      const values = [...run.values].sort((a, b) => a - b);
      const at = (part) => { // linear between neighbours, as the tables of this page
        const place = part * (values.length - 1), low = Math.floor(place);
        return values[low] + (place - low) * ((values[low + 1] ?? values[low]) - values[low]);
      };
      return { bench: name.split("/")[0], label, device, verdict, n, bytes, cores, of_roof, first,
               median: at(0.5), low: at(0.25), high: at(0.75) };
    });
    if (!rows.length) fail("This record holds no times: everything in it ran in the simulator.");
    return { machine: String(meta.device_name), date: String(meta.date).slice(0, 10), rows,
             old: meta.code_sha256 !== code };
  }

  // -- Writing numbers as the tables do ------------------------------------------------------------------------------

  function quantity(value, unit) {
    const prefixes = unit === "s" ? { "-9": "n", "-6": "µ", "-3": "m", "0": "" }
      : { "0": "", "3": "k", "6": "M", "9": "G", "12": "T", "15": "P" };
    value = Number(value.toPrecision(3));
    const powers = Object.keys(prefixes).map(Number);
    const power = Math.min(Math.max(3 * Math.floor(Math.log10(value) / 3 + 1e-12), Math.min(...powers)), Math.max(...powers));
    const scaled = value / 10 ** power;
    return `${scaled.toFixed(Math.max(0, 2 - Math.floor(Math.log10(scaled) + 1e-12)))} ${prefixes[power]}${unit}`;
  }
  const percent = (part) => (part < 0.00995 ? (100 * part).toPrecision(1) : (100 * part).toFixed(0)) + " %";

  // -- Showing -----------------------------------------------------------------------------------------------------

  const mine = (row, tr, bench) => row.bench === bench && row.label === tr.dataset.label
    && (!tr.dataset.n || Number(tr.dataset.n) === row.n);

  function cell(row, old) {
    if (!row) return element("td", { className: "fl-mine", textContent: "–" });
    const rate = row.bytes ? `, ${quantity(row.bytes / row.median, "B/s")}` : "";
    const roof = rate && row.of_roof ? ` (${percent(row.of_roof)})` : "";
    const cores = row.device === "cpu" && row.cores ? `, ${row.cores.toFixed(1)} cores` : "";
    const small = (text) => element("span", { className: "fl-small", textContent: text });
    const made = element("td", { className: "fl-mine" }, element(old ? "s" : "strong", { textContent: quantity(row.median, "s") }));
    if (row.verdict !== "ok") made.append(" ", element("em", { className: "fl-verdict", textContent: row.verdict }));
    made.append(small(`± ${percent((row.high - row.low) / row.median / 2)}${rate}${roof}`),
                small(`first call ${quantity(row.first, "s")}${cores}`));
    if (row.n) made.append(small(`n = ${row.n.toLocaleString("en")}`));
    return made;
  }

  function clear() {
    document.querySelectorAll(".fl-mine").forEach((one) => one.remove());
  }

  function show(record) {
    clear();
    for (const table of tables) {
      const head = element("th", { className: "fl-mine", scope: "col" }, "Your machine",
        element("span", { className: "fl-small", textContent: `${record.machine}, ${record.date}` }));
      if (record.old) head.append(element("span", { className: "fl-state fl-stale", textContent: "recorded with other code" }));
      table.querySelector("thead tr").append(head);
      for (const tr of table.querySelectorAll("tbody tr"))
        tr.append(cell(record.rows.find((row) => mine(row, tr, table.dataset.bench)), record.old));
    }
    if (!record.old) document.querySelectorAll(".fl-figure[data-axes]").forEach((figure) => mark(figure, record));
  }

  // A star for each of the reader's rows, where the figure's own axes put it; outside the axes, at their edge.
  function mark(figure, record) {
    const axes = JSON.parse(figure.dataset.axes);
    const place = ({ log, from, to, start, end }, value) => {
      const scale = log ? Math.log10 : (one) => one;
      const part = (scale(value) - scale(from)) / (scale(to) - scale(from));
      return start + Math.min(1, Math.max(0, part)) * (end - start);
    };
    const svg = (name, attributes, text = "") => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      made.textContent = text;
      return made;
    };
    for (const row of record.rows.filter((one) => one.bench === figure.dataset.bench)) {
      const x = axes.rows ? place(axes.time, row.median) : row.n && place(axes.size, row.n);
      const y = axes.rows ? axes.rows[row.label] : place(axes.time, row.median);
      if (x === undefined || y === undefined) continue;
      const group = svg("g", { class: "fl-mine" });
      group.append(svg("title", {}, `your machine: ${row.label}, ${quantity(row.median, "s")}`),
                   svg("text", { x, y: y + 5, "text-anchor": "middle", "font-size": 16 }, "★"));
      figure.querySelector("svg").append(group);
    }
  }

  // -- The panel -----------------------------------------------------------------------------------------------------

  const status = element("p", { className: "fl-status" });
  status.setAttribute("role", "status");
  const say = (text, bad = false) => { status.textContent = text; status.classList.toggle("fl-bad", bad); };

  function take(text, remember = true) {
    try {
      const record = parse(text);
      show(record);
      let kept = "";
      if (remember) {
        try { localStorage.setItem(KEY, text); kept = " It stays in this browser until you remove it."; } catch { /* not allowed */ }
      }
      const other = record.old ? " It was recorded with other code than this page shows, so its numbers are struck through." : "";
      say(`Added ${record.machine} with ${record.rows.length} rows.${other}${kept}`);
    } catch (error) {
      say(error.message, true);
    }
  }

  async function takeFile(file) {
    if (!file) return;
    if (file.size > 60000) say("This file is too large for a record.", true);
    else take(await file.text());
  }

  const script = `${example.split("/")[1]}.py`;
  const chosen = element("input", { type: "file", accept: ".json,application/json" });
  chosen.addEventListener("change", () => takeFile(chosen.files[0]));
  const pasted = element("textarea", { rows: 3, spellcheck: false });
  const add = element("button", { type: "button", textContent: "Add what I pasted" });
  add.addEventListener("click", () => take(pasted.value));
  const remove = element("button", { type: "button", textContent: "Remove my machine" });
  remove.addEventListener("click", () => {
    clear();
    try { localStorage.removeItem(KEY); } catch { /* nothing was kept */ }
    chosen.value = pasted.value = "";
    say("Your machine was removed from this page and from this browser.");
  });
  const panel = element("details", { className: "fl-yours" },
    element("summary", { textContent: "Put your machine beside these" }),
    element("p", {}, "Run ", element("code", { textContent: `python ${script} --record mine.json` }),
      " and drop the file here, choose it, or paste what is in it. Nothing leaves your browser."),
    element("label", {}, "A record: ", chosen), element("label", {}, "Or its text: ", pasted),
    element("p", {}, add, " ", remove), status);
  tables[0].after(panel);
  for (const target of [panel, ...tables]) {
    target.addEventListener("dragover", (event) => event.preventDefault());
    target.addEventListener("drop", (event) => {
      event.preventDefault();
      panel.open = true;
      takeFile(event.dataTransfer.files[0]);
    });
  }
  try {
    const kept = localStorage.getItem(KEY);
    if (kept) take(kept, false);
  } catch { /* storage is not allowed here */ }
})();
