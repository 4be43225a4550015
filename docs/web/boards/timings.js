/* The reader's machine: a record that is dropped or chosen becomes one more column. Everything happens in this browser;
   texts of the record are only ever set as text. */
"use strict";

(() => {
  const tables = [...document.querySelectorAll(".fl-timings")];
  if (!tables.length) return;
  const { example, code } = tables[0].dataset;
  const script = `${example.split("/")[1]}.py`;
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
      fail(`This is JSON, but not a record. Make one with: python ${script} --record mine.json`);
    if (meta.record_schema !== 1) fail("This record has another format than this page reads. Make a new one.");
    // A script that was downloaded lies in no chapter's folder.
    if (![example, `elsewhere/${example.split("/")[1]}`].includes(meta.example))
      fail(`This record is of another page, ${String(meta.example)}. This page is ${example}.`);
    const rows = content.benchmarks.map(row);
    if (!rows.length) fail("This record holds no times: everything in it ran in the simulator.");
    return { machine: String(meta.device_name), date: String(meta.date).slice(0, 10), rows,
             old: meta.code_sha256 !== code };
  }

  function row(benchmark) {
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
             median: at(0.5), spread: (at(0.75) - at(0.25)) / at(0.5) };
  }

  // -- Showing it as the tables do -----------------------------------------------------------------------------------

  const percent = (part) => (part < 0.00995 ? (100 * part).toPrecision(1) : (100 * part).toFixed(0)) + "%";
  const small = (text, className = "fl-small") => element("span", { className, textContent: text });

  function cell(row, old) {
    if (!row) return element("td", { className: "fl-mine", textContent: "–" });
    const rate = row.bytes ? `, ${chart.quantity(row.bytes / row.median, "B/s")}` : "";
    const roof = rate && row.of_roof ? ` (${percent(row.of_roof)})` : "";
    const cores = row.device === "cpu" && row.cores ? `, ${row.cores.toFixed(1)} cores` : "";
    const first = row.first > 2 * row.median ? `, first call ${chart.quantity(row.first, "s")}` : "";
    const size = row.n ? `, n = ${row.n.toLocaleString("en")}` : "";
    const made = element("td", { className: "fl-mine" }, element(old ? "s" : "strong", { textContent: chart.quantity(row.median, "s") }));
    if (row.verdict !== "ok") made.append(" ", element("em", { className: "fl-verdict", textContent: row.verdict }));
    made.append(small(`± ${percent(row.spread / 2)}${rate}${roof}${cores}${first}${size}`));
    return made;
  }

  const clear = () => document.querySelectorAll(".fl-mine").forEach((one) => one.remove());

  function show(record) {
    clear();
    for (const table of tables) {
      const head = element("th", { className: "fl-mine", scope: "col" }, "Your machine", small(`${record.machine}, ${record.date}`));
      if (record.old) head.append(small("recorded with other code", "fl-state fl-stale"));
      table.querySelector("thead tr").append(head);
      for (const tr of table.querySelectorAll("tbody tr")) {
        const { label, n } = tr.dataset;
        tr.append(cell(record.rows.find((row) => row.bench === table.dataset.bench && row.label === label
          && (!n || Number(n) === row.n)), record.old));
      }
    }
  }

  // -- The panel -----------------------------------------------------------------------------------------------------

  const status = element("p", { className: "fl-status", role: "status" });
  const say = (text, bad = false) => { status.textContent = text; status.classList.toggle("fl-bad", bad); };
  const storage = (what, ...given) => { try { return localStorage[what](KEY, ...given); } catch { return null; } }; // not allowed

  function take(text) {
    try {
      const record = parse(text);
      show(record);
      storage("setItem", text);
      const kept = storage("getItem") === text ? " It stays in this browser until you remove it." : "";
      const other = record.old ? " It was recorded with other code than this page shows, so its numbers are struck through." : "";
      say(`Added ${record.machine} with ${record.rows.length} rows.${other}${kept}`);
    } catch (error) {
      say(error.message, true);
    }
  }

  async function takeFile(file) {
    if (file?.size > 150000) say("This file is too large for a record.", true);
    else if (file) take(await file.text());
  }

  const chosen = element("input", { type: "file", accept: ".json,application/json" });
  chosen.addEventListener("change", () => takeFile(chosen.files[0]));
  const remove = element("button", { type: "button", textContent: "Remove my machine" });
  remove.addEventListener("click", () => {
    clear();
    storage("removeItem");
    chosen.value = "";
    say("Your machine was removed from this page and from this browser.");
  });
  const panel = element("details", { className: "fl-yours" },
    element("summary", { textContent: "Put your machine beside these" }),
    element("p", {}, "Run ", element("code", { textContent: `python ${script} --record mine.json` }),
      " and drop the file here, or choose it. Nothing leaves your browser."),
    element("label", {}, "A record: ", chosen), element("p", {}, remove), status);
  tables[0].after(panel);
  for (const target of [panel, ...tables]) {
    target.addEventListener("dragover", (event) => event.preventDefault());
    target.addEventListener("drop", (event) => {
      event.preventDefault();
      panel.open = true;
      takeFile(event.dataTransfer.files[0]);
    });
  }
  const kept = storage("getItem");
  if (kept) take(kept);
})();
