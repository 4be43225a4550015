// Questions put to one GPU. Each checks its answer first, on odd sizes, and then reports rows of timings, under the
// names and with the sizes that the experiments of the site's pages have.

import { Stopped } from "./gpu.js";
import { measure } from "./statistics.js";

const LONGEST = 0.05; // seconds: a dispatch that would last longer may freeze the screen, and is left out
export const STRIDES = [1, 2, 4, 8, 16, 32, 64];
export const powers = (base, from, to, step = 1) =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => base ** (from + i * step));
/** The first n floats of each buffer, for a launch. */
const heads = (buffers, n) => buffers.map((one) => [one, 4 * n]);
const random = (n) => Float32Array.from({ length: n }, () => Math.random() - 0.5);

/** Throw at the first number that is not what it should be: what is wrong is not timed. */
function check(name, got, want, tolerance) {
  got.forEach((value, i) => {
    if (!(Math.abs(value - want(i)) <= tolerance))
      throw new Error(`${name}: number ${i} is ${value}, not ${want(i)}; not timed`);
  });
}

/** Time points in the order of their work, until one would last too long or the experiment's time is over. */
async function sweep(lab, bench, points) {
  let before;
  for (const { work = 1, run, launch, tick, seconds, most, ...row } of points) {
    const expected = before ? (before.median * work) / before.work : 0;
    if (expected > LONGEST)
      return lab.note(`${row.label}, n = ${row.n}: left out, as a call would last more than 50 ms.`);
    if (before && performance.now() > lab.until) return lab.note(`${bench}: cut short, its time was over.`);
    const timing = await measure(run ?? ((blocks, calls) => lab.gpu.time(launch, blocks, calls)), {
      tick: tick ?? lab.gpu.tick,
      seconds,
      most,
    });
    lab.report({ bench, ...row, ...timing });
    before = { median: timing.median, work };
  }
}

/** Time between two readings of the browser's clock. */
const onTheWall = (work) => async (_, calls) => {
  const start = performance.now();
  await work(calls);
  return [Math.max((performance.now() - start) / 1e3, 5e-5)];
};

async function add(lab) {
  const { gpu } = lab;
  const kernel = await gpu.kernel(KERNELS.add);
  const odd = 4 * 2501;
  const [x, y] = [random(odd), random(odd)];
  const out = gpu.buffer(4 * odd + 64);
  gpu.submit(gpu.launch(kernel, [gpu.buffer(x), gpu.buffer(y), [out, 4 * odd]], Math.ceil(odd / 1024)));
  check("x + y", await gpu.read(out), (i) => (i < odd ? Math.fround(x[i] + y[i]) : 0), 0); // and nothing behind the end
  const [a, b, c] = [0, 1, 2].map(() => gpu.buffer(2 ** 27));
  const points = [10, 1e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 2 ** 25].map((n) => {
    const launch = gpu.launch(kernel, heads([a, b, c], 4 * Math.ceil(n / 4)), Math.ceil(n / 1024));
    return { label: "x + y", n, bytes: 12 * n, work: n, launch };
  });
  await sweep(lab, "wins-add", points);
}

async function launches(lab) {
  const { gpu } = lab;
  const empty = gpu.launch(await gpu.kernel("@compute @workgroup_size(1) fn main() {}"), {});
  const styles = {
    "one pass, one wait": (calls) => {
      gpu.submit((pass) => {
        for (let i = 0; i < calls; i++) empty(pass);
      });
      return gpu.wait();
    },
    "a submission each, one wait": (calls) => {
      for (let i = 0; i < calls; i++) gpu.submit(empty);
      return gpu.wait();
    },
    "a submission and a wait each": async (calls) => {
      for (let i = 0; i < calls; i++) {
        gpu.submit(empty);
        await gpu.wait();
      }
    },
  };
  const points = Object.entries(styles).map(([label, work]) => {
    return { label, n: 1, tick: Math.max(2e-4, gpu.trip / 4), seconds: 0.15, run: onTheWall(work) };
  });
  await sweep(lab, "launches", points);
}

async function clocks(lab) {
  const { gpu } = lab;
  const n = 2 ** Math.min(24, lab.log);
  const buffers = [0, 1, 2].map(() => gpu.buffer(4 * n));
  const launch = gpu.launch(await gpu.kernel(KERNELS.add), buffers, Math.ceil(n / 1024));
  const ways = { "clock stopped at the submission": () => {}, "clock stopped when the GPU was done": () => gpu.wait() };
  const points = Object.entries(ways).map(([label, until]) => {
    const timed = onTheWall(() => {
      gpu.submit(launch);
      return until();
    });
    const run = async () => {
      const seconds = await timed();
      await gpu.wait();
      return seconds;
    };
    return { label, n, bytes: 12 * n, tick: 1e-4, most: 1, run };
  });
  await sweep(lab, "timing-wrong", points);
}

async function transfers(lab) {
  const { gpu } = lab;
  const tick = Math.max(1e-4, gpu.trip / 4);
  const there = gpu.buffer(2 ** 26);
  const x = random(1237);
  gpu.queue.writeBuffer(there, 0, x);
  check("there and back", await gpu.read(there, x.byteLength), (i) => x[i], 0);
  const data = new Uint8Array(2 ** 26).fill(1);
  const repeat = (work) =>
    onTheWall(async (calls) => {
      for (let i = 0; i < calls; i++) await work();
    });
  const ways = {
    "to the GPU": (n) => {
      gpu.queue.writeBuffer(there, 0, data, 0, n);
      return gpu.read(there, 4, n - 4);
    },
    "from the GPU": (n) => gpu.read(there, n),
  };
  for (const [label, work] of Object.entries(ways))
    await sweep(
      lab,
      "transfers",
      powers(2, 6, 26, 4).map((n) => ({ label, n, bytes: n, work: n, tick, run: repeat(() => work(n)) })),
    );
}

/** The most floats, as a power of two, that this GPU adds to as many in 4 ms: 2²⁵ at most, which are 128 MiB. */
async function most(gpu) {
  const kernel = await gpu.kernel(KERNELS.add);
  const [a, b, c] = [0, 1, 2].map(() => gpu.buffer(2 ** 27));
  let log = 14;
  for (let seconds = 0; seconds < 2e-3 && log < 25; log++) {
    const n = 2 ** (log + 1);
    seconds = Math.min(...(await gpu.time(gpu.launch(kernel, heads([a, b, c], n), n / 1024), 3, 1)));
  }
  gpu.free();
  return log;
}

async function strides(lab) {
  const { gpu } = lab;
  const small = random(100_003);
  const odd = gpu.buffer(small);
  const totals = gpu.buffer(4 * 2 ** 16);
  const launch = async (x, stride, groups = 256) =>
    gpu.launch(await gpu.kernel(KERNELS.strided_sum, { stride }), [x, totals], groups);
  for (const stride of [1, 7, 64]) {
    gpu.submit(await launch(odd, stride, 3));
    const want = new Float64Array(768);
    for (let at = 0, thread = 0; at < small.length; at += stride, thread = (thread + 1) % 768)
      want[thread] += small[at];
    check("x[::stride]", await gpu.read(totals, 4 * 768), (i) => want[i], 1e-4);
  }
  const x = gpu.buffer(4 * 2 ** lab.log);
  const points = [];
  for (const stride of STRIDES) {
    const n = x.size / 4 / stride;
    points.push({ label: `stride ${stride}`, n, bytes: 4 * n, launch: await launch(x, stride) });
  }
  await sweep(lab, "coalescing", points);
}

async function products(lab) {
  const { gpu } = lab;
  const odd = 67;
  const [p, q] = [random(odd * odd), random(odd * odd)];
  const [a, b, c] = [0, 1, 2].map(() => gpu.buffer(4 * 2048 ** 2));
  const want = (at) => {
    let total = 0;
    for (let k = 0; k < odd; k++) total += p[Math.floor(at / odd) * odd + k] * q[k * odd + (at % odd)];
    return total;
  };
  const codes = { "one element a thread": KERNELS.naive, "tiles of 16 × 16": KERNELS.tiled };
  for (const [label, code] of Object.entries(codes)) {
    const multiply = async (n) =>
      gpu.launch(await gpu.kernel(code, { n }), [a, b, c], Math.ceil(n / 16), Math.ceil(n / 16));
    gpu.queue.writeBuffer(a, 0, p);
    gpu.queue.writeBuffer(b, 0, q);
    gpu.submit(await multiply(odd));
    check(`product, ${label}`, await gpu.read(c, 4 * odd * odd), want, 1e-4);
    const points = [];
    for (const n of [64, 128, 256, 513, 1024, 2048])
      points.push({ label, n, flops: 2 * n ** 3, bytes: 12 * n * n, work: n ** 3, launch: await multiply(n) });
    await sweep(lab, "shared-memory", points);
  }
}

async function roofline(lab) {
  const { gpu } = lab;
  const n = 2 ** Math.min(24, lab.log);
  const x = gpu.buffer(random(n));
  const y = gpu.buffer(4 * n);
  const points = [];
  const launch = async (links, n) =>
    gpu.launch(await gpu.kernel(KERNELS.fma, { links }), heads([x, y], n), Math.ceil(n / 1024));
  gpu.submit(await launch(8, 10_004));
  const from = await gpu.read(x, 4 * 10_004);
  check("fma", await gpu.read(y, 4 * 10_004), (i) => 2 + (from[i] - 2) / 256, 1e-5);
  for (const links of powers(2, 0, 10)) {
    const work = { bytes: 8 * n, flops: 2 * links * n, work: Math.max(16, links) };
    points.push({ label: "fma", n: links, ...work, launch: await launch(links, n) });
  }
  await sweep(lab, "roofline", points);
}

/** What each asks, and its share of the time. */
export const EXPERIMENTS = {
  "wins-add": [add, 0.24],
  launches: [launches, 0.1],
  "timing-wrong": [clocks, 0.06],
  transfers: [transfers, 0.18],
  coalescing: [strides, 0.12],
  "shared-memory": [products, 0.16],
  roofline: [roofline, 0.14],
};

/** Do the named experiments, one after another, within so many seconds; rows and notes are told as they come. */
export async function runAll(gpu, names, { report, note, seconds = 9 }) {
  const lab = { gpu, note, report, log: 0, until: 0 };
  const started = performance.now();
  const alarm = setTimeout(() => gpu.stop("the time was over"), 1e3 * (seconds + 5));
  let parts = names.reduce((sum, name) => sum + EXPERIMENTS[name][1], 0);
  try {
    lab.log = await most(gpu);
    for (const name of names) {
      const [experiment, part] = EXPERIMENTS[name];
      const now = performance.now();
      lab.until = now + (Math.max(300, started + 1e3 * seconds - now) * part) / parts;
      parts -= part;
      try {
        await experiment(lab);
      } catch (error) {
        if (error instanceof Stopped) throw error;
        note(error.message);
      }
      gpu.free();
      await new Promise((done) => setTimeout(done)); // the page draws
    }
  } finally {
    clearTimeout(alarm);
    gpu.free();
    gpu.errors.forEach(note);
  }
}
