/* The reader's machine: a record that is chosen, or dropped on the field, becomes one more column. Everything happens
   in this browser; texts of the record are only ever set as text. */
"use strict";

(() => {
  const { element, quantity } = chart;
  const tables = [...document.querySelectorAll(".fl-timings")];
  const { example, code } = tables[0].dataset;
  const [, page] = example.split("/");

  function rowOf({ metadata: { name, ...facts }, runs: [run] }) {
    const [first, { values }] = [run.warmups[0][1], run];
    if (![first, ...values].every((seconds) => seconds > 0) || !values.length) throw new Error("no times");
    const [q25, median, q75] = chart.quartiles(values);
    return { bench: name.split("/")[0], ...facts, first, median, spread: (q75 - q25) / median };
  }

  function percent(part) {
    return `${part < 0.00995 ? (100 * part).toPrecision(1) : (100 * part).toFixed(0)}%`;
  }

  function detailsOf({ median, spread, n, bytes, cores, device, first, of_roof: roof }, head) {
    const written = n?.toLocaleString("en");
    const details = [`± ${percent(spread / 2)}`];
    if (bytes) details.push(quantity(bytes / median, "B/s") + (roof ? ` (${percent(roof)})` : ""));
    if (device === "cpu" && cores) details.push(`${cores.toFixed(1)} cores`);
    if (first > 2 * median) details.push(`first call ${quantity(first, "s")}`);
    if (n && !head.includes(written)) details.push(`n = ${written}`);
    return details.join(", ");
  }

  /** A cell as timings.py writes it. */
  function cell(row, old, head) {
    if (!row || row.verdict === "impossible") return element("td", { class: "fl-mine" }, "–");
    const made = element("td", { class: "fl-mine" }, element(old ? "s" : "strong", {}, quantity(row.median, "s")));
    if (row.verdict !== "ok") made.append(" ", element("em", { class: "fl-verdict" }, row.verdict));
    made.append(element("span", { class: "fl-small" }, detailsOf(row, head)));
    return made;
  }

  function addColumn(table, rows, machine, date, old) {
    const when = element("span", { class: "fl-small" }, `${machine}, ${String(date).slice(0, 10)}`);
    const head = element("th", { class: "fl-mine", scope: "col" }, "Your machine", when);
    if (old) head.append(element("span", { class: "fl-state fl-stale" }, "recorded with other code"));
    table.querySelector("thead tr").append(head);
    for (const tr of table.querySelectorAll("tbody tr")) {
      const row = rows.find(({ bench, label, n }) => {
        const same = bench === table.dataset.bench && label === tr.dataset.label;
        return same && [undefined, String(n)].includes(tr.dataset.n);
      });
      tr.append(cell(row, old, tr.cells[0].textContent));
    }
    for (let fold = table.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  }

  function show({ version, metadata, benchmarks }) {
    const { record_schema: schema, example: of, device_name: machine, date, code_sha256: recorded } = metadata;
    const rows = benchmarks.map(rowOf);
    if (version !== "1.0" || schema !== 1 || of.split("/")[1] !== page || !rows.length)
      throw new Error("another page's");
    for (const old of document.querySelectorAll(".fl-mine")) old.remove();
    for (const table of tables) addColumn(table, rows, machine, date, !code.split(" ").includes(recorded));
    return `Added ${machine} with ${rows.length} rows.`;
  }

  const command = `firstlight record ${page}.py --to mine.json`;
  const status = element("p", { class: "fl-status", role: "status" });
  const chosen = element("input", { type: "file", accept: ".json,application/json" });
  chosen.addEventListener("change", async () => {
    const text = await chosen.files[0]?.text();
    try {
      status.textContent = show(JSON.parse(text));
      status.classList.remove("fl-bad");
    } catch {
      status.textContent = `This is not a record of this page. Make one with: ${command}`;
      status.classList.add("fl-bad");
    }
  });
  const why = " and choose the file, or drop it on the field. Nothing leaves your browser.";
  const how = element("p", {}, "Run ", element("code", {}, command), why);
  const summary = element("summary", {}, "Put your machine beside these");
  const label = element("label", {}, "A record: ", chosen);
  tables[0].after(element("details", { class: "fl-yours" }, summary, how, label, status));
})();
