// First light, live: the dirty image, and the fit that gets sharper beside the truth.

import { explain } from "./board.js";
import { N, prepare } from "./fit.js";
import { openGpu } from "./gpu.js";
import { controls, digits, element, slider, tell } from "./shared.js";

const MIDDLE = 128; // pixels a side that are shown
const LAST = 2000; // the step after which it rests
// Matplotlib's inferno at even steps; byte by byte red, green and blue.
const INFERNO = [0x000004, 0x280b54, 0x65156e, 0x9f2a63, 0xd44842, 0xf57d15, 0xfac127, 0xfcffa4].map((colour) =>
  [16, 8, 0].map((bits) => (colour >> bits) & 255),
);

const decode = (text, Type) => new Type(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** The middle of a packed image as a map: rows from the south, columns from the east. */
function mapOf(image) {
  return Float32Array.from({ length: MIDDLE ** 2 }, (_, i) => {
    const row = Math.floor(i / MIDDLE) + N - MIDDLE / 2;
    const column = N / 2 + MIDDLE / 2 - 1 - (i % MIDDLE) + N / 2;
    return image[(row % N) * N + (column % N)];
  });
}

/** Paint a map, north up. */
function paint(canvas, sky, top) {
  const pixels = new ImageData(MIDDLE, MIDDLE);
  for (const [i, value] of sky.entries()) {
    const part = Math.sqrt(Math.min(1, Math.max(0, value / top))) * (INFERNO.length - 1);
    const low = Math.min(INFERNO.length - 2, Math.floor(part));
    const colour = INFERNO[low].map((from, at) => from + (part - low) * (INFERNO[low + 1][at] - from));
    const row = MIDDLE - 1 - Math.floor(i / MIDDLE);
    pixels.data.set([...colour, 255], 4 * (row * MIDDLE + (i % MIDDLE)));
  }
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

/** Noise of its weight on each average; the same at every run. */
function noisy({ cells, count, vis, weight, most }, level) {
  let seed = 7;
  function uniform() {
    seed = (seed * 16807) % 2147483647;
    return seed / 2147483647;
  }
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  const weights = new Float32Array(N * N);
  const data = new Float32Array(2 * N * N);
  for (const [i, cell] of cells.entries()) {
    weights[cell] = (weight * count[i]) / level ** 2;
    for (const part of [0, 1])
      data[2 * cell + part] = (vis[2 * i + part] * most) / 32767 + normal() / Math.sqrt(weights[cell]);
  }
  return { weight: weights, data };
}

const total = (values, of = (value, _) => value) => values.reduce((sum, value, i) => sum + of(value, i), 0);

/** How far an image is off, as a part of the truth. */
const errorOf = (image, sky) =>
  Math.sqrt(total(image, (value, i) => (value - sky[i]) ** 2) / total(sky, (value) => value ** 2));

const percent = (part) => `${(100 * part).toFixed(0)}%`;

/**
 * @param {HTMLElement} board
 * @param {any} sky as _ext/sky.py writes it
 */
export function show(board, { cells, count, vis, weight, most, truth, top, frames, ...settings }) {
  const averages = {
    cells: decode(cells, Uint16Array),
    count: decode(count, Uint16Array),
    vis: decode(vis, Int16Array),
  };
  const sky = Float32Array.from(decode(truth, Uint8Array), (value) => top * (value / 255) ** 2);
  const [dirtyCanvas, fitCanvas, truthCanvas] = ["dirty image", "fit", "truth"].map((name) =>
    element("canvas", { width: MIDDLE, height: MIDDLE, role: "img", "aria-label": name }),
  );
  const strength = slider("strength", 0, 8, 3, 0.5);
  const noise = slider("noise", -2, 3, 0, 0.5);
  const start = board.querySelector("button");
  const rest = element("button", { type: "button", disabled: "" }, "Pause");
  const status = element("p", { role: "status" });
  const numbers = element("p", { class: "fl-small" });
  const skies = [dirtyCanvas, fitCanvas, truthCanvas].map((canvas) =>
    element("figure", {}, canvas, element("figcaption", {}, canvas.ariaLabel)),
  );
  start.textContent = "Start again";
  board.classList.add("fl-open");
  board.replaceChildren(
    element("div", { class: "fl-skies" }, ...skies),
    numbers,
    controls({ "Smoothing (total variation)": strength, "Noise, times that of the simulation": noise }),
    element("p", { class: "fl-gpu-buttons" }, start, rest),
    status,
  );
  paint(truthCanvas, sky, top);

  let gpu;
  let fit;
  let turn = 0; // a later press takes over
  let paused = false;

  /** Show frames that the build made. */
  async function instead(why) {
    status.textContent = `${why} These are frames of the same fit, from the build of this page.`;
    turn += 1;
    const mine = turn;
    const sheet = new Image();
    sheet.src = frames.image;
    await sheet.decode();
    for (const control of [strength, noise, rest]) control.disabled = true;
    const draw = (canvas, frame) =>
      canvas.getContext("2d").drawImage(sheet, MIDDLE * frame, 0, MIDDLE, MIDDLE, 0, 0, MIDDLE, MIDDLE);
    draw(dirtyCanvas, 0);
    for (let frame = 1; frame < frames.steps.length && mine === turn; frame++) {
      draw(fitCanvas, frame);
      numbers.textContent = `step ${frames.steps[frame]}, reduced χ² ${frames.chi2[frame]}`;
      await pause(300);
    }
  }

  async function openFit() {
    status.textContent = "Opening the GPU …";
    gpu = await openGpu();
    const { name, software } = gpu.facts;
    status.textContent = software
      ? `This is your CPU: ${name} computes in software what a GPU would.`
      : `On ${name}, in this browser.`;
    fit = await prepare(gpu, { ...settings, weight: new Float32Array(N * N), data: new Float32Array(2 * N * N) });
  }

  async function beginWithNoise() {
    const simulated = noisy({ ...averages, weight, most }, 2 ** noise.value);
    fit.put("weight", simulated.weight);
    fit.put("data", simulated.data);
    fit.choose(0);
    const dirty = mapOf(await fit.dirty());
    paint(dirtyCanvas, dirty, Math.max(...dirty));
    fit.begin();
    return settings.area * settings.share * Math.sqrt(total(simulated.weight)); // of the smoothing at strength 1
  }

  async function goOn(mine) {
    const slope = await beginWithNoise();
    rest.disabled = false;
    let batch = 1;
    let step = 0;
    while (step < LAST && mine === turn) {
      if (paused || document.hidden) {
        await pause(100);
        continue;
      }
      fit.choose(slope * 2 ** strength.value);
      const began = performance.now();
      fit.steps(batch);
      const image = mapOf(await fit.read("image"));
      const chi2 = await fit.reducedChi2();
      const seconds = (performance.now() - began) / 1e3;
      if (mine !== turn) return;
      step += batch;
      paint(fitCanvas, image, top);
      numbers.textContent =
        `step ${step}, reduced χ² ${chi2.toFixed(3)}, off by ${percent(errorOf(image, sky))} of the truth; ` +
        `${digits(batch / seconds, 2).toLocaleString("en")} steps a second, drawing included`;
      batch = Math.max(1, Math.min(50, Math.round(batch * Math.min(2, 0.03 / seconds))));
      await new Promise(requestAnimationFrame);
    }
    if (mine === turn) rest.disabled = true;
  }

  async function run() {
    turn += 1;
    const mine = turn;
    try {
      if (!gpu) await openFit();
      await goOn(mine);
    } catch (error) {
      gpu?.device.destroy();
      gpu = undefined;
      if (mine === turn) await instead(explain(error));
    }
  }

  function tellSettings() {
    tell(strength, digits(2 ** strength.value, 2).toLocaleString("en"));
    tell(noise, `${digits(2 ** noise.value, 2)} ×`);
  }
  function setPaused(value) {
    paused = value;
    rest.textContent = paused ? "Go on" : "Pause";
  }
  for (const input of [strength, noise]) input.addEventListener("input", tellSettings);
  noise.addEventListener("change", run);
  start.addEventListener("click", () => {
    setPaused(false);
    run();
  });
  rest.addEventListener("click", () => setPaused(!paused));
  tellSettings();
  run();
}
