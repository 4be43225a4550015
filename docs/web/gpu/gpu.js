// One GPU, opened politely, and the clock that times it.

import { quartiles } from "./shared.js";

export class Stopped extends Error {} // by the reader, by a hidden tab, by the time it took, or by a lost GPU

const SOFTWARE = /swiftshader|llvmpipe|lavapipe|warp|basic render|software/i;
const BLOCKS = 9; // timed passes of one submission, at most
const { STORAGE, COPY_SRC, COPY_DST, MAP_READ, QUERY_RESOLVE } = globalThis.GPUBufferUsage ?? {};

/** Open the faster GPU, or say why there is none: "insecure", "no-api" or "no-adapter". */
export async function openGpu() {
  if (!isSecureContext) throw new Stopped("insecure");
  if (!navigator.gpu) throw new Stopped("no-api");
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new Stopped("no-adapter");
  const stamps = adapter.features.has("timestamp-query");
  const device = await adapter.requestDevice({ requiredFeatures: stamps ? ["timestamp-query"] : [] });
  const gpu = new Gpu(adapter, device, stamps);
  await gpu.calibrate();
  return gpu;
}

class Gpu {
  /**
   * @param {GPUAdapter} adapter
   * @param {GPUDevice} device
   * @param {boolean} stamps whether the GPU can read its own clock
   */
  constructor(adapter, device, stamps) {
    this.adapter = adapter;
    this.device = device;
    this.stamps = stamps;
    this.queue = device.queue;
    this.polled = false;
    /** @type {Map<string, GPUComputePipeline>} */
    this.pipelines = new Map();
    /** @type {GPUBuffer[]} */
    this.buffers = [];
    /** @type {Set<string>} */
    this.errors = new Set();
    this.stopped = new Promise((_, reject) => {
      this.stop = (why) => reject(new Stopped(why));
    });
    this.stopped.catch(() => {});
    device.lost.then(({ reason, message }) => this.stop(`the GPU was lost (${reason || "unknown"}). ${message}`));
    device.addEventListener("uncapturederror", ({ error }) => this.errors.add(error.message));
    if (!stamps) return;
    this.queries = device.createQuerySet({ type: "timestamp", count: 2 * BLOCKS });
    this.resolved = device.createBuffer({ size: 16 * BLOCKS, usage: QUERY_RESOLVE | COPY_SRC });
    this.stampsHere = device.createBuffer({ size: 16 * BLOCKS, usage: MAP_READ | COPY_DST });
  }

  /** What the browser tells about the GPU, which is little: names tell readers apart. */
  get facts() {
    const { vendor, architecture, device, description, isFallbackAdapter } = this.adapter.info ?? {};
    const software = Boolean(isFallbackAdapter) || SOFTWARE.test([vendor, architecture, device, description].join(" "));
    const family = [vendor, architecture].filter(Boolean).join(" ");
    const name = description || family || "a GPU that the browser does not name";
    return { name, software, clock: this.stamps ? "GPU timestamps" : "wall clock", tick: this.tick, trip: this.trip };
  }

  /** Await a promise of the GPU, unless something stops it first. */
  alive(promise) {
    const either = Promise.race([this.stopped, promise]);
    if (this.polled) {
      // Firefox looks every 100 ms, and at each submission (its bug 1870699)
      const nudge = setInterval(() => this.queue.submit([]), 4);
      const over = () => clearInterval(nudge);
      either.then(over, over);
    }
    return either;
  }

  wait() {
    return this.alive(this.queue.onSubmittedWorkDone());
  }

  /** Compile a kernel once; constants fill WGSL's overrides. */
  async kernel(code, constants = {}, entryPoint = "main") {
    const key = code + entryPoint + JSON.stringify(constants);
    if (!this.pipelines.has(key)) {
      const compute = { module: this.device.createShaderModule({ code }), entryPoint, constants };
      this.pipelines.set(key, await this.alive(this.device.createComputePipelineAsync({ layout: "auto", compute })));
    }
    return this.pipelines.get(key);
  }

  /** A buffer of so many bytes, or one with these numbers in it; free() takes all of them away. */
  buffer(content) {
    const size = content.byteLength ?? content;
    const made = this.device.createBuffer({ size, usage: STORAGE | COPY_SRC | COPY_DST });
    if (content.byteLength) this.queue.writeBuffer(made, 0, content);
    this.buffers.push(made);
    return made;
  }

  free() {
    for (const one of this.buffers.splice(0)) one.destroy();
  }

  /** A function that records one dispatch. Buffers by number of their binding, or [buffer, size] for their start. */
  launch(kernel, buffers, x = 1, y = 1) {
    const entries = Object.entries(buffers).map(([binding, one]) => ({
      binding: Number(binding),
      resource: Array.isArray(one) ? { buffer: one[0], size: one[1] } : { buffer: one },
    }));
    const group = entries.length
      ? this.device.createBindGroup({ layout: kernel.getBindGroupLayout(0), entries })
      : null;
    return (pass) => {
      pass.setPipeline(kernel);
      if (group) pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(x, y);
    };
  }

  /** Submit a pass; nothing is waited for. */
  submit(record) {
    const encoder = this.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    record(pass);
    pass.end();
    this.queue.submit([encoder.finish()]);
  }

  /** Bring a buffer here, as float32: this waits. */
  async read(buffer, size = buffer.size, offset = 0) {
    const here = this.device.createBuffer({ size, usage: MAP_READ | COPY_DST });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, offset, here, 0, size);
    this.queue.submit([encoder.finish()]);
    await this.alive(here.mapAsync(1));
    const values = new Float32Array(here.getMappedRange().slice(0));
    here.destroy();
    return values;
  }

  /** Seconds of each of some passes with so many dispatches; without timestamps, of one pass between two waits. */
  async time(record, blocks, calls) {
    const encoder = this.device.createCommandEncoder();
    const passes = this.stamps ? blocks : 1;
    for (let b = 0; b < passes; b++) {
      const places = { beginningOfPassWriteIndex: 2 * b, endOfPassWriteIndex: 2 * b + 1 };
      const timestampWrites = { querySet: this.queries, ...places };
      const pass = encoder.beginComputePass(this.stamps ? { timestampWrites } : {});
      for (let call = 0; call < calls; call++) record(pass);
      pass.end();
    }
    if (this.stamps) {
      encoder.resolveQuerySet(this.queries, 0, 2 * passes, this.resolved, 0);
      encoder.copyBufferToBuffer(this.resolved, 0, this.stampsHere, 0, 16 * passes);
    }
    const commands = encoder.finish();
    const start = performance.now();
    this.queue.submit([commands]);
    await this.alive(this.stamps ? this.stampsHere.mapAsync(1) : this.queue.onSubmittedWorkDone());
    const wall = (performance.now() - start) / 1e3;
    const byWall = [Math.max(wall - this.trip, 1e-7)];
    if (!this.stamps) return byWall;
    const ns = new BigUint64Array(this.stampsHere.getMappedRange().slice(0, 16 * passes));
    this.stampsHere.unmap();
    const seconds = Array.from({ length: passes }, (_, b) => Number(ns[2 * b + 1] - ns[2 * b]) / 1e9);
    const sum = seconds.reduce((a, b) => a + b, 0);
    if (ns[0] && seconds.every((each) => each >= 0) && sum <= 1.1 * wall + 1e-3) return seconds;
    this.stamps = false; // they are zero or nonsense: from now on the wall's clock counts, on blocks that are long
    this.tick = Math.max(1e-3, this.trip / 2);
    return passes > 1 ? this.time(record, 1, calls) : byWall;
  }

  /** Find the time of an empty round trip, and the clock's tick: Chrome rounds timestamps to 100 µs. */
  async calibrate() {
    const empty = this.launch(await this.kernel("@compute @workgroup_size(1) fn main() {}"), {});
    const trips = [];
    this.trip = 0;
    for (let i = 0; i < 12; i++) {
      this.polled ||= trips.at(-1) > 0.05 && i > 1;
      const start = performance.now();
      this.submit(empty);
      await this.wait();
      trips.push((performance.now() - start) / 1e3);
    }
    [, this.trip] = quartiles(trips.slice(4));
    this.tick = Math.max(1e-3, this.trip / 2);
    const ticks = this.stamps ? (await this.time(empty, BLOCKS, 64)).filter(Boolean) : [];
    if (this.stamps) this.tick = Math.min(1e-4, ...ticks);
  }
}
