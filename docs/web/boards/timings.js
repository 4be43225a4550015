/* The reader's machine: a record that is chosen, or dropped on the field, becomes one more column. Everything happens in
   this browser; texts of the record are only ever set as text. */
"use strict";

(() => {
  const tables = [...document.querySelectorAll(".fl-timings")], { example, code } = tables[0].dataset, [, page] = example.split("/");
  const element = (name, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };
  const small = (textContent, className = "fl-small") => element("span", { className, textContent });

  function rowOf({ metadata: { name, ...facts }, runs: [{ warmups: [[, first]], values }] }) {
    const sorted = [...values].sort((a, b) => a - b), at = (part) => { // linear between neighbours, as the tables
      const place = part * (sorted.length - 1), low = Math.floor(place);
      return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
    };
    if (![first, ...values].every((seconds) => seconds > 0) || !values.length) throw new Error("no times");
    return { bench: name.split("/")[0], ...facts, first, median: at(0.5), spread: (at(0.75) - at(0.25)) / at(0.5) };
  }

  const percent = (part) => (part < 0.00995 ? (100 * part).toPrecision(1) : (100 * part).toFixed(0)) + "%";
  function cell(row, old, head) { // as timings.py writes it
    if (!row || row.verdict === "impossible") return element("td", { className: "fl-mine", textContent: "–" });
    const { median, spread, verdict, n, bytes, cores, device, first, of_roof: roof } = row;
    const size = n && !head.includes(n.toLocaleString("en")) && `n = ${n.toLocaleString("en")}`;
    const details = [`± ${percent(spread / 2)}`, bytes && chart.quantity(bytes / median, "B/s") + (roof ? ` (${percent(roof)})` : ""),
                     device === "cpu" && cores && `${cores.toFixed(1)} cores`,
                     first > 2 * median && `first call ${chart.quantity(first, "s")}`, size];
    const made = element("td", { className: "fl-mine" }, element(old ? "s" : "strong", { textContent: chart.quantity(median, "s") }));
    if (verdict !== "ok") made.append(" ", element("em", { className: "fl-verdict", textContent: verdict }));
    made.append(small(details.filter(Boolean).join(", ")));
    return made;
  }

  function show({ version, metadata: { record_schema: schema, example: of, device_name: machine, date, code_sha256 }, benchmarks }) {
    const rows = benchmarks.map(rowOf), old = code_sha256 !== code;
    if (version !== "1.0" || schema !== 1 || of.split("/")[1] !== page || !rows.length) throw new Error("another page's");
    document.querySelectorAll(".fl-mine").forEach((one) => one.remove());
    for (const table of tables) {
      const head = element("th", { className: "fl-mine", scope: "col" }, "Your machine", small(`${machine}, ${String(date).slice(0, 10)}`));
      if (old) head.append(small("recorded with other code", "fl-state fl-stale"));
      table.querySelector("thead tr").append(head);
      for (let fold = table.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      for (const tr of table.querySelectorAll("tbody tr")) tr.append(cell(rows.find(({ bench, label, n }) =>
        bench === table.dataset.bench && label === tr.dataset.label && [undefined, String(n)].includes(tr.dataset.n)), old, tr.cells[0].textContent));
    }
    return `Added ${machine} with ${rows.length} rows.`;
  }

  const status = element("p", { className: "fl-status", role: "status" }), command = `firstlight record ${page}.py --to mine.json`;
  const chosen = element("input", { type: "file", accept: ".json,application/json" });
  chosen.addEventListener("change", async () => {
    const text = await chosen.files[0]?.text();
    try { status.textContent = show(JSON.parse(text)); status.classList.remove("fl-bad"); } catch {
      status.textContent = `This is not a record of this page. Make one with: ${command}`;
      status.classList.add("fl-bad");
    }
  });
  tables[0].after(element("details", { className: "fl-yours" }, element("summary", { textContent: "Put your machine beside these" }),
    element("p", {}, "Run ", element("code", { textContent: command }), " and choose the file, or drop it on the field. Nothing leaves your browser."),
    element("label", {}, "A record: ", chosen), status));
})();
