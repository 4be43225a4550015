// The buttons, the words, the tables and the figures of what the reader's GPU did.

const WHY_NOT = {
  insecure: "This page came over plain http. Browsers let a page use the GPU only over https, from localhost, or from a file: open it that way.",
  "no-api": "This browser has no WebGPU, or it is switched off. Chrome and Edge have it from 113 on Windows, macOS and ChromeOS, and from 121 on Android 12; Safari from 26; Firefox from 141 on Windows and 145 on Macs with Apple silicon. On Linux: Chrome from 144 with an Intel GPU and from 147 with an NVIDIA one, or Firefox with dom.webgpu.enabled set to true in about:config.",
  "no-adapter": "This browser has WebGPU, but offers no GPU. Switch on hardware acceleration in its settings, and bring the graphics driver up to date. On Linux, start Chrome with --enable-unsafe-webgpu --enable-features=Vulkan. The page chrome://gpu (in Firefox, about:support) names the reason.",
};
const explain = (error) => error instanceof Stopped ? WHY_NOT[error.message] ?? `Stopped: ${error.message}.` : `It failed: ${error.message}`;

const { quantity, digits } = chart;
const trusted = (rows) => rows.filter(({ verdict }) => verdict !== "coarse");
const best = (rows, what) => Math.max(0, ...trusted(rows).map((row) => (row[what] ?? 0) / row.median));
const by = (rows, label) => rows.filter((row) => row.label.startsWith(label));

const LARGE = 1e6;  // numbers in an array: fewer show the cost of a launch, or a cache
/** The rate of the memory, if the addition came as far as arrays that say something of it; else 0. */
const memoryRate = (rows) => best(rows.filter(({ bench, n }) => bench === "wins-add" && n >= LARGE).slice(-1), "bytes");

/** Title, what the rows say in a sentence (nothing, where too few can be trusted), and the axes of the figure, if a figure
    says more than the table. */
const SHOWN = {
  "wins-add": { title: "Adding two arrays", x: "numbers in an array", y: "rate", unit: "B/s", what: "bytes", ticks: powers(10, 1, 7, 2),
    line: "x + y",
    says: (rows) => {
      const [large, top] = [best(rows.slice(-1), "bytes"), best(rows, "bytes")], n = rows.at(-1).n.toLocaleString("en");
      return large && `Arrays of ${n} numbers are read and written at ${quantity(large, "B/s")}.${top > 1.3 * large ? ` The best rate, ${quantity(top, "B/s")}, is that of smaller ones, which a cache may hold.` : ""}`;
    } },
  launches: { title: "The price of a launch",
    says: (rows) => rows.length < 3 ? "" : `A kernel that does nothing costs ${quantity(rows[0].median, "s")} in one pass, ${quantity(rows[1].median, "s")} in a submission of its own, and ${quantity(rows[2].median, "s")} if you wait for each.` },
  "timing-wrong": { title: "The wrong clock and the right one",
    says: (rows) => rows.length < 2 ? "" : `The same addition: a clock that is stopped before the GPU is done shows ${rows[0].verdict === "coarse" ? "next to nothing" : quantity(rows[0].median, "s")} instead of ${quantity(rows[1].median, "s")}.` },
  transfers: { title: "Transfers", x: "bytes in a transfer", y: "rate", unit: "B/s", what: "bytes", ticks: powers(2, 6, 26, 4),
    says: (rows) => best(rows, "bytes") && `A small transfer takes ${quantity(Math.min(...rows.map(({ median }) => median)), "s")} or more; large ones come near ${quantity(best(rows, "bytes"), "B/s")}. The browser copies between two processes, too.` },
  coalescing: { title: "Reading every s-th number", x: "stride", y: "useful bytes a second", unit: "B/s", what: "bytes", line: "useful bytes", at: ({ label }) => Number(label.split(" ")[1]), ticks: STRIDES,
    says: (rows) => trusted(rows).length < STRIDES.length ? "" : `With a stride of 64, the same memory brings useful bytes at ${quantity(best(rows.slice(-1), "bytes"), "B/s")}, in place of ${quantity(best(rows.slice(0, 1), "bytes"), "B/s")}.` },
  "shared-memory": { title: "A matrix product, one element a thread and in tiles", x: "n, of n × n matrices", y: "rate", unit: "FLOP/s", what: "flops", ticks: powers(2, 6, 11),
    says: (rows) => { const [one, tile] = ["one", "tile"].map((label) => best(by(rows, label), "flops")); return one && tile && `Tiles in the workgroup's memory reach ${quantity(tile, "FLOP/s")}, ${digits(tile / one, 2).toLocaleString("en")} × the rate of one element a thread.`; } },
  roofline: { title: "The roofline of this GPU", x: "operations a byte", y: "rate", unit: "FLOP/s", what: "flops", at: ({ flops, bytes }) => flops / bytes, ticks: powers(2, -2, 8, 2), roofed: true,
    says: (rows) => {
      const [memory, arithmetic] = [best(rows.slice(0, 2), "bytes"), best(rows, "flops")];
      return memory && arithmetic && `Memory brings ${quantity(memory, "B/s")} and arithmetic reaches ${quantity(arithmetic, "FLOP/s")}: below ${digits(arithmetic / memory, 2)} operations a byte, memory is the limit.`;
    } },
};

function figure(rows, { title, x, y, unit, what, ticks, line, at = ({ n }) => n, roofed }) {
  const lines = {}, good = trusted(rows);
  for (const row of good) (lines[line ?? row.label] ??= []).push([at(row), row[what] / row.median, row[what] / row.q75, row[what] / row.q25]);
  if (new Set(good.map(at)).size < 2) return "";  // two lines may have come no further than their first point
  const [peak, stream] = [best(rows, "flops"), best(rows.slice(0, 2), "bytes")];
  return drawn(`${title}: ${Object.entries(lines).map(([name, each]) => `${name}, from ${quantity(each[0][1], unit)} to ${quantity(each.at(-1)[1], unit)}`).join("; ")}`,
    { lines, x, y, unit, ticks, roof: roofed && stream && ((value) => Math.min(peak, value * stream)) });
}

const cell = (text) => made("td", {}, text);

function table(rows, title) {
  const heads = ["what", "n", "time", "rate", "spread", "verdict"].map((name) => made("th", { scope: "col" }, name));
  const rate = ({ bytes, flops, median }) => flops ? quantity(flops / median, "FLOP/s") : bytes ? quantity(bytes / median, "B/s") : "–";
  const body = rows.map((row) => made("tr", {}, made("th", { scope: "row" }, row.label), cell(row.n.toLocaleString("en")),
    cell(quantity(row.median, "s")), cell(rate(row)), cell(`± ${(50 * (row.q75 - row.q25) / row.median).toFixed(1)}%`), cell(row.verdict)));
  return made("div", { class: "fl-table", role: "region", tabindex: 0, "aria-label": title },
    made("table", {}, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...body)));
}

function section(name, rows, open) {
  const shown = SHOWN[name];
  return made("section", {}, made("h3", {}, shown.title), made("p", {}, shown.says(rows) || "The time was too short, or the clock too coarse, for all of it."),
    shown.what ? figure(rows, shown) : "", made("details", open ? { open: "" } : {}, made("summary", {}, "The numbers"), table(rows, shown.title)));
}

/** Put the rows into the page's own table of the same experiment, as a column and rows that say whose they are. */
function join(rows, { name }) {
  for (const own of document.querySelectorAll(".fl-timings")) {
    own.querySelectorAll(".fl-webgpu").forEach((one) => one.remove());
    const mine = rows.filter(({ bench, label, n }) => bench === own.dataset.bench && (bench !== "shared-memory" || n === 513) && label && n);
    const head = own.querySelector("thead tr"), columns = head.children.length;
    if (!mine.length) continue;
    const words = made("span", { class: "fl-small" }, `${name}: WebGPU, other kernels; make no ratio with CUDA's`);
    head.append(made("th", { class: "fl-webgpu", scope: "col" }, "Your GPU, in this browser", words));
    own.querySelectorAll("tbody tr").forEach((row) => row.append(made("td", { class: "fl-webgpu" }, "–")));
    for (const row of mine) {
      const rest = Array.from({ length: columns - 1 }, () => cell("–"));
      own.querySelector("tbody").append(made("tr", { class: "fl-webgpu" }, made("th", { scope: "row" }, `WebGPU, ${row.label}, n = ${row.n.toLocaleString("en")}`), ...rest,
        made("td", {}, made("strong", {}, quantity(row.median, "s")), row.verdict === "ok" ? "" : made("em", { class: "fl-verdict" }, row.verdict),
          made("span", { class: "fl-small" }, row.bytes ? quantity(row.bytes / row.median, "B/s") : ""))));
    }
  }
}

/** Give a board its buttons; the first press has loaded this script, and starts it. */
function open(board) {
  const names = board.dataset.only?.split(" ") ?? Object.keys(EXPERIMENTS), [start] = board.querySelectorAll("button");
  const stop = made("button", { type: "button", disabled: "" }, "Stop"), save = made("button", { type: "button", disabled: "" }, "Save the record");
  const status = made("p", { role: "status" }), facts = made("p", {}), results = made("div", { class: "fl-gpu-results" }), notes = made("ul", {});
  board.classList.add("fl-open");
  board.replaceChildren(made("p", { class: "fl-gpu-buttons" }, start, stop, save), status, facts, results, notes);
  const say = (text) => { status.textContent = text; };
  let gpu, rows = [], about;
  const of = (name) => rows.filter(({ bench }) => bench === name);
  const draw = () => results.replaceChildren(...names.filter((name) => of(name).length).map((name) => section(name, of(name), !board.dataset.only)));

  async function run() {
    let due = 0;
    rows = [];
    notes.replaceChildren();
    start.disabled = true;
    stop.disabled = false;
    say("Opening the GPU …");
    try {
      gpu = await openGpu();
      about = gpu.facts;
      board.classList.toggle("fl-software", about.software);
      facts.textContent = `${about.software ? `This is your CPU: ${about.name} computes in software what a GPU would. The curves are real, and they are a CPU's.` : about.name} Clock: ${about.clock}, tick ${quantity(about.tick, "s")}; an empty round trip takes ${quantity(about.trip, "s")}.`;
      await runAll(gpu, names, {
        seconds: Number(board.dataset.seconds || 9), note: (text) => notes.append(made("li", {}, text)),
        report(row) {
          rows.push(row);
          if (performance.now() > due) { draw(); due = performance.now() + 500; }
          say(`${SHOWN[row.bench].title}: ${row.label}, n = ${row.n.toLocaleString("en")} …`);
        },
      });
      const [memory, arithmetic] = [memoryRate(rows), best(rows, "flops")];
      const most = memory && arithmetic ? ` Memory ${quantity(memory, "B/s")}, float32 arithmetic ${quantity(arithmetic, "FLOP/s")}.`
        : of("wins-add").length ? " There was no time for arrays large enough to show the memory's rate: try again when the computer is less busy." : "";
      say(`Done: ${rows.length} rows.${most} Nothing has left this page.`);
    } catch (error) {
      say(`${explain(error)}${rows.length ? " What was measured until then is shown." : ""}`);
    }
    draw();
    if (about) { join(rows, about); remember(); }
    gpu?.device.destroy();
    gpu = undefined;
    start.disabled = false;
    stop.disabled = true;
    save.disabled = !rows.length;
  }

  function remember() {  // for the calculator of 2_devices/08, in this browser alone; WebGPU has no float64
    const rates = [memoryRate(rows), best(rows, "flops"), null, best(by(of("transfers"), "to"), "bytes")];
    if (rates.includes(0)) return;
    try { localStorage.setItem("firstlight gpu", JSON.stringify({ name: about.name, rates })); } catch { /* not allowed */ }
    dispatchEvent(new Event("firstlight gpu"));
  }

  start.addEventListener("click", run);
  stop.addEventListener("click", () => gpu?.stop("you pressed Stop"));
  document.addEventListener("visibilitychange", () => { if (document.hidden) gpu?.stop("the page was hidden, and browsers slow such pages down"); });
  save.addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([JSON.stringify(toRecord(rows, about, board.dataset.code), null, 1)], { type: "application/json" }));
    made("a", { href: url, download: "your_gpu.json" }).click();
    URL.revokeObjectURL(url);
  });
  run();
}
