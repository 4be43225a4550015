// First light, live: the dirty image, and the fit that gets sharper beside the truth.

const [MIDDLE, MOST] = [128, 2000];  // pixels a side that are shown; steps after which it rests
const INFERNO = [[0, 0, 4], [40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [250, 193, 39], [252, 255, 164]];

const decode = (text, Type) => new Type(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

/** The middle of a packed image as a map: rows from the south, columns from the east. */
const map = (image) => Float32Array.from({ length: MIDDLE ** 2 }, (_, i) => {
  const row = Math.floor(i / MIDDLE) + N - MIDDLE / 2, column = N / 2 + MIDDLE / 2 - 1 - i % MIDDLE + N / 2;
  return image[row % N * N + column % N];
});

function paint(canvas, sky, top) {  // north up
  const pixels = new ImageData(MIDDLE, MIDDLE);
  sky.forEach((value, i) => {
    const part = Math.sqrt(Math.min(1, Math.max(0, value / top))) * (INFERNO.length - 1), low = Math.min(INFERNO.length - 2, Math.floor(part));
    const colour = INFERNO[low].map((from, at) => from + (part - low) * (INFERNO[low + 1][at] - from));
    pixels.data.set([...colour, 255], 4 * ((MIDDLE - 1 - Math.floor(i / MIDDLE)) * MIDDLE + i % MIDDLE));
  });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

/** Noise of its weight on each average; the same at every run. */
function noisy({ cells, count, vis, weight, most }, level) {
  let seed = 7;
  const uniform = () => (seed = seed * 16807 % 2147483647) / 2147483647;
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  const weights = new Float32Array(N * N), data = new Float32Array(2 * N * N);
  cells.forEach((cell, i) => {
    weights[cell] = weight * count[i] / level ** 2;
    for (const part of [0, 1]) data[2 * cell + part] = vis[2 * i + part] * most / 32767 + normal() / Math.sqrt(weights[cell]);
  });
  return { weight: weights, data };
}

function show(board, { cells, count, vis, weight, most, truth, top, frames, ...settings }) {
  const seen = { weight, most, cells: decode(cells, Uint16Array), count: decode(count, Uint16Array), vis: decode(vis, Int16Array) };
  const sky = Float32Array.from(decode(truth, Uint8Array), (value) => top * (value / 255) ** 2), [start] = board.querySelectorAll("button");
  const canvases = ["dirty image", "fit", "truth"].map((name) => made("canvas", { width: MIDDLE, height: MIDDLE, role: "img", "aria-label": name }));
  const slider = (text, attributes) => { const input = made("input", { type: "range", ...attributes }); return [input, made("label", {}, made("span", {}, text), input, made("span", { class: "fl-value" }))]; };
  const [strength, strengthLabel] = slider("Smoothing (total variation)", { min: 0, max: 8, step: 0.5, value: 3 });
  const [noise, noiseLabel] = slider("Noise, times that of the simulation", { min: -2, max: 3, step: 0.5, value: 0 });
  const pause = made("button", { type: "button", disabled: "" }, "Pause"), status = made("p", { role: "status" }), numbers = made("p", { class: "fl-small" });
  start.textContent = "Start again";
  board.classList.add("fl-open");
  board.replaceChildren(made("div", { class: "fl-skies" }, ...canvases.map((canvas) => made("figure", {}, canvas, made("figcaption", {}, canvas.getAttribute("aria-label"))))),
    numbers, made("div", { class: "fl-controls" }, strengthLabel, noiseLabel), made("p", { class: "fl-gpu-buttons" }, start, pause), status);
  paint(canvases[2], sky, top);
  let gpu, fit, turn = 0, paused = false;
  const say = (text) => { status.textContent = text; };

  async function instead(why) {  // frames that the build made
    say(`${why} These are frames of the same fit, from the build of this page.`);
    const mine = ++turn, sheet = new Image();
    sheet.src = frames.image;
    await sheet.decode();
    for (const canvas of [strength, noise, pause]) canvas.disabled = true;
    canvases[0].getContext("2d").drawImage(sheet, 0, 0, MIDDLE, MIDDLE, 0, 0, MIDDLE, MIDDLE);
    for (let i = 1; i < frames.steps.length && mine === turn; i++) {
      canvases[1].getContext("2d").drawImage(sheet, MIDDLE * i, 0, MIDDLE, MIDDLE, 0, 0, MIDDLE, MIDDLE);
      numbers.textContent = `step ${frames.steps[i]}, reduced χ² ${frames.chi2[i]}`;
      await new Promise((done) => setTimeout(done, 300));
    }
  }

  async function run() {
    const mine = ++turn;  // a later press takes over
    try {
      if (!gpu) {
        say("Opening the GPU …");
        gpu = await openGpu();
        const { name, software } = gpu.facts;
        say(software ? `This is your CPU: ${name} computes in software what a GPU would.` : `On ${name}, in this browser.`);
        fit = await prepare(gpu, { ...settings, weight: new Float32Array(N * N), data: new Float32Array(2 * N * N) });
      }
      const level = 2 ** noise.value, { weight, data } = noisy(seen, level);
      const sum = weight.reduce((total, one) => total + one, 0), slope = settings.area * settings.share * Math.sqrt(sum);
      fit.put("weight", weight);
      fit.put("data", data);
      fit.choose(0);
      const dirty = map(await fit.dirty());
      paint(canvases[0], dirty, Math.max(...dirty));
      fit.begin();
      pause.disabled = false;
      for (let done = 0, batch = 1; done < MOST && mine === turn;) {
        if (paused || document.hidden) { await new Promise((later) => setTimeout(later, 100)); continue; }
        fit.choose(slope * 2 ** strength.value);
        const began = performance.now();
        fit.steps(batch);
        const image = map(await fit.read("image")), chi2 = await fit.reducedChi2(), seconds = (performance.now() - began) / 1e3;
        if (mine !== turn) return;
        done += batch;
        paint(canvases[1], image, top);
        const off = Math.sqrt(image.reduce((total, one, i) => total + (one - sky[i]) ** 2, 0) / sky.reduce((total, one) => total + one ** 2, 0));
        numbers.textContent = `step ${done}, reduced χ² ${chi2.toFixed(3)}, off by ${(100 * off).toFixed(0)}% of the truth; ${chart.digits(batch / seconds, 2).toLocaleString("en")} steps a second, drawing included`;
        batch = Math.max(1, Math.min(50, Math.round(batch * Math.min(2, 0.03 / seconds))));
        await new Promise(requestAnimationFrame);
      }
      if (mine === turn) pause.disabled = true;
    } catch (error) {
      gpu?.device.destroy();
      gpu = undefined;
      if (mine === turn) await instead(explain(error));
    }
  }

  const tell = () => { chart.tell(strength, chart.digits(2 ** strength.value, 2).toLocaleString("en")); chart.tell(noise, `${chart.digits(2 ** noise.value, 2)} ×`); };
  for (const input of [strength, noise]) input.addEventListener("input", tell);
  noise.addEventListener("change", run);
  start.addEventListener("click", () => { paused = false; pause.textContent = "Pause"; run(); });
  pause.addEventListener("click", () => { paused = !paused; pause.textContent = paused ? "Go on" : "Pause"; });
  tell();
  run();
}
