// The buttons, the words, the tables and the figures of what the reader's GPU did.

import { EXPERIMENTS, powers, runAll, STRIDES } from "./experiments.js";
import { openGpu, Stopped } from "./gpu.js";
import { drawn } from "./plot.js";
import { toRecord } from "./record.js";
import { digits, element, quantity, table } from "./shared.js";

const WHY_NOT = {
  insecure:
    "This page came over plain http. Browsers let a page use the GPU only over https, from localhost, or from a " +
    "file: open it that way.",
  "no-api":
    "This browser has no WebGPU, or it is switched off. Chrome and Edge have it from 113 on Windows, macOS and " +
    "ChromeOS, and from 121 on Android 12; Safari from 26; Firefox from 141 on Windows and 145 on Macs with Apple " +
    "silicon. On Linux: Chrome from 144 with an Intel GPU and from 147 with an NVIDIA one, or Firefox with " +
    "dom.webgpu.enabled set to true in about:config.",
  "no-adapter":
    "This browser has WebGPU, but offers no GPU. Switch on hardware acceleration in its settings, and bring the " +
    "graphics driver up to date. On Linux, start Chrome with --enable-unsafe-webgpu --enable-features=Vulkan. The " +
    "page chrome://gpu (in Firefox, about:support) names the reason.",
};

export function explain(error) {
  if (!(error instanceof Stopped)) return `It failed: ${error.message}`;
  return WHY_NOT[error.message] ?? `Stopped: ${error.message}.`;
}

const trusted = (rows) => rows.filter(({ verdict }) => verdict !== "coarse");
const best = (rows, what) => Math.max(0, ...trusted(rows).map((row) => (row[what] ?? 0) / row.median));
const by = (rows, label) => rows.filter((row) => row.label.startsWith(label));
const count = (n) => n.toLocaleString("en");

const LARGE = 1e6; // numbers in an array: fewer show the cost of a launch, or a cache
/** The rate of the memory, if the addition came as far as arrays that say something of it; else 0. */
const memoryRate = (rows) => best(rows.filter(({ bench, n }) => bench === "wins-add" && n >= LARGE).slice(-1), "bytes");

// -- What the rows say in a sentence; nothing, where too few can be trusted -----------------------------------------

function sayAdding(rows) {
  const [large, top] = [best(rows.slice(-1), "bytes"), best(rows, "bytes")];
  if (!large) return "";
  const cached = `The best rate, ${quantity(top, "B/s")}, is that of smaller ones, which a cache may hold.`;
  const said = `Arrays of ${count(rows.at(-1).n)} numbers are read and written at ${quantity(large, "B/s")}.`;
  return top > 1.3 * large ? `${said} ${cached}` : said;
}

function sayLaunches(rows) {
  if (rows.length < 3) return "";
  const [together, apart, waiting] = rows.map(({ median }) => quantity(median, "s"));
  return (
    `A kernel that does nothing costs ${together} in one pass, ${apart} in a submission of its own, and ${waiting} ` +
    "if you wait for each."
  );
}

function sayClocks(rows) {
  if (rows.length < 2) return "";
  const wrong = rows[0].verdict === "coarse" ? "next to nothing" : quantity(rows[0].median, "s");
  return (
    `The same addition: a clock that is stopped before the GPU is done shows ${wrong} instead of ` +
    `${quantity(rows[1].median, "s")}.`
  );
}

function sayTransfers(rows) {
  const rate = best(rows, "bytes");
  const least = Math.min(...rows.map(({ median }) => median));
  if (!rate) return "";
  return (
    `A small transfer takes ${quantity(least, "s")} or more; large ones come near ${quantity(rate, "B/s")}. The ` +
    "browser copies between two processes, too."
  );
}

function sayStrides(rows) {
  if (trusted(rows).length < STRIDES.length) return "";
  const [last, first] = [rows.slice(-1), rows.slice(0, 1)].map((ends) => quantity(best(ends, "bytes"), "B/s"));
  return `With a stride of 64, the same memory brings useful bytes at ${last}, in place of ${first}.`;
}

function sayProducts(rows) {
  const [alone, tiled] = ["one", "tile"].map((label) => best(by(rows, label), "flops"));
  if (!alone || !tiled) return "";
  const [rate, times] = [quantity(tiled, "FLOP/s"), count(digits(tiled / alone, 2))];
  return `Tiles in the workgroup's memory reach ${rate}, ${times} × the rate of one element a thread.`;
}

function sayRoofline(rows) {
  const [memory, arithmetic] = [best(rows.slice(0, 2), "bytes"), best(rows, "flops")];
  if (!memory || !arithmetic) return "";
  return (
    `Memory brings ${quantity(memory, "B/s")} and arithmetic reaches ${quantity(arithmetic, "FLOP/s")}: below ` +
    `${digits(arithmetic / memory, 2)} operations a byte, memory is the limit.`
  );
}

/** Of each experiment its title, its sentence, and the axes of its figure, if a figure says more than the table. */
const SHOWN = {
  "wins-add": {
    title: "Adding two arrays",
    says: sayAdding,
    axes: { x: "numbers in an array", what: "bytes", ticks: powers(10, 1, 7, 2), line: "x + y" },
  },
  launches: { title: "The price of a launch", says: sayLaunches },
  "timing-wrong": { title: "The wrong clock and the right one", says: sayClocks },
  transfers: {
    title: "Transfers",
    says: sayTransfers,
    axes: { x: "bytes in a transfer", what: "bytes", ticks: powers(2, 6, 26, 4) },
  },
  coalescing: {
    title: "Reading every s-th number",
    says: sayStrides,
    axes: {
      x: "stride",
      y: "useful bytes a second",
      what: "bytes",
      line: "useful bytes",
      at: ({ label }) => Number(label.split(" ")[1]),
      ticks: STRIDES,
    },
  },
  "shared-memory": {
    title: "A matrix product, one element a thread and in tiles",
    says: sayProducts,
    axes: { x: "n, of n × n matrices", what: "flops", ticks: powers(2, 6, 11) },
  },
  roofline: {
    title: "The roofline of this GPU",
    says: sayRoofline,
    axes: {
      x: "operations a byte",
      what: "flops",
      at: ({ flops, bytes }) => flops / bytes,
      ticks: powers(2, -2, 8, 2),
      roofed: true,
    },
  },
};

const UNITS = { flops: "FLOP/s", bytes: "B/s" };

// -- Figures and tables ---------------------------------------------------------------------------------------------

function figure(rows, title, { x, y = "rate", what, ticks, line, at = ({ n }) => n, roofed }) {
  const unit = UNITS[what];
  const lines = {};
  const good = trusted(rows);
  for (const row of good) {
    const rates = [row.median, row.q75, row.q25].map((seconds) => row[what] / seconds);
    lines[line ?? row.label] ??= [];
    lines[line ?? row.label].push([at(row), ...rates]);
  }
  if (new Set(good.map(at)).size < 2) return ""; // two lines may have come no further than their first point
  const [peak, stream] = [best(rows, "flops"), best(rows.slice(0, 2), "bytes")];
  const roof = roofed && stream && ((value) => Math.min(peak, value * stream));
  const words = Object.entries(lines).map(([name, points]) => {
    const [from, to] = [points[0], points.at(-1)].map(([, rate]) => quantity(rate, unit));
    return `${name}, from ${from} to ${to}`;
  });
  return drawn(`${title}: ${words.join("; ")}`, { lines, x, y, unit, ticks, roof });
}

function rateOf(row) {
  const what = Object.keys(UNITS).find((name) => row[name]);
  return what ? quantity(row[what] / row.median, UNITS[what]) : "–";
}

function cellsOf(row) {
  const spread = `± ${((50 * (row.q75 - row.q25)) / row.median).toFixed(1)}%`;
  return [row.label, count(row.n), quantity(row.median, "s"), rateOf(row), spread, row.verdict];
}

function section(name, rows, open) {
  const { title, says, axes } = SHOWN[name];
  const words = says(rows) || "The time was too short, or the clock too coarse, for all of it.";
  const body = table(title, ["what", "n", "time", "rate", "spread", "verdict"], rows.map(cellsOf));
  const numbers = element("details", open ? { open: "" } : {}, element("summary", {}, "The numbers"), body);
  const drawing = axes ? figure(rows, title, axes) : "";
  return element("section", {}, element("h3", {}, title), element("p", {}, words), drawing, numbers);
}

// -- The board ------------------------------------------------------------------------------------------------------

function describe({ name, software, clock, tick, trip }) {
  const what = software
    ? `This is your CPU: ${name} computes in software what a GPU would. The curves are real, and they are a CPU's.`
    : name;
  return `${what} Clock: ${clock}, tick ${quantity(tick, "s")}; an empty round trip takes ${quantity(trip, "s")}.`;
}

function conclude(rows) {
  const [memory, arithmetic] = [memoryRate(rows), best(rows, "flops")];
  if (memory && arithmetic)
    return ` Memory ${quantity(memory, "B/s")}, float32 arithmetic ${quantity(arithmetic, "FLOP/s")}.`;
  if (!rows.some(({ bench }) => bench === "wins-add")) return "";
  const why = "There was no time for arrays large enough to show the memory's rate";
  return ` ${why}: try again when the computer is less busy.`;
}

/** Keep the rates for the calculator of 2_devices/11, in this browser alone; WebGPU has no float64. */
function remember(rows, { name }) {
  const transfers = rows.filter(({ bench }) => bench === "transfers");
  const rates = [memoryRate(rows), best(rows, "flops"), null, best(by(transfers, "to"), "bytes")];
  if (rates.includes(0)) return;
  try {
    localStorage.setItem("firstlight gpu", JSON.stringify({ name, rates }));
  } catch {
    // not allowed
  }
  dispatchEvent(new Event("firstlight gpu"));
}

function save(rows, about, code) {
  const content = JSON.stringify(toRecord(rows, about, code), null, 1);
  const href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  element("a", { href, download: "your_gpu.json" }).click();
  URL.revokeObjectURL(href);
}

/** Give a board its buttons; the first press has loaded this script, and starts it. */
export function open(board) {
  const names = board.dataset.only?.split(" ") ?? Object.keys(EXPERIMENTS);
  const start = board.querySelector("button");
  const [stop, saving] = ["Stop", "Save the record"].map((text) =>
    element("button", { type: "button", disabled: "" }, text),
  );
  const [status, facts] = [element("p", { role: "status" }), element("p")];
  const [results, notes] = [element("div", { class: "fl-gpu-results" }), element("ul")];
  board.classList.add("fl-open");
  board.replaceChildren(element("p", { class: "fl-gpu-buttons" }, start, stop, saving), status, facts, results, notes);
  let gpu;
  let about;
  let rows = [];

  function draw() {
    const benches = names.map((name) => [name, rows.filter(({ bench }) => bench === name)]);
    const measured = benches.filter(([, some]) => some.length);
    results.replaceChildren(...measured.map(([name, some]) => section(name, some, !board.dataset.only)));
  }

  let due = 0;
  function report(row) {
    rows.push(row);
    if (performance.now() > due) {
      draw();
      due = performance.now() + 500;
    }
    status.textContent = `${SHOWN[row.bench].title}: ${row.label}, n = ${count(row.n)} …`;
  }

  async function run() {
    due = 0;
    rows = [];
    notes.replaceChildren();
    start.disabled = true;
    stop.disabled = false;
    status.textContent = "Opening the GPU …";
    try {
      gpu = await openGpu();
      about = gpu.facts;
      board.classList.toggle("fl-software", about.software);
      facts.textContent = describe(about);
      const note = (text) => notes.append(element("li", {}, text));
      await runAll(gpu, names, { seconds: Number(board.dataset.seconds || 9), note, report });
      status.textContent = `Done: ${rows.length} rows.${conclude(rows)} Nothing has left this page.`;
    } catch (error) {
      status.textContent = `${explain(error)}${rows.length ? " What was measured until then is shown." : ""}`;
    }
    draw();
    if (about) remember(rows, about);
    gpu?.device.destroy();
    gpu = undefined;
    start.disabled = false;
    stop.disabled = true;
    saving.disabled = !rows.length;
  }

  start.addEventListener("click", run);
  stop.addEventListener("click", () => gpu?.stop("you pressed Stop"));
  saving.addEventListener("click", () => save(rows, about, board.dataset.code));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) gpu?.stop("the page was hidden, and browsers slow such pages down");
  });
  run();
}
