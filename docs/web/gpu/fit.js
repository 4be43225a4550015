// The fit of page 4_imaging/01 on the reader's GPU: what is in its buffers, and its step.

export const N = 256; // pixels a side
const BUFFERS = "parameter image across down roots weight data chi2 slope means settings".split(" "); // as they are bound
/** Each with the buffers it touches, and how many workgroups it has.
 * @type {Record<string, [string[], ...number[]]>} */
const DISPATCHES = {
  brighten: [["parameter", "image", "across", "roots"], N],
  compare: [["across", "down", "roots", "weight", "data", "chi2", "settings"], N],
  back_across: [["across", "down", "roots"], N],
  back_down: [["across", "roots", "slope", "settings"], N],
  descend: [["parameter", "image", "slope", "means", "settings"], N / 16, N / 16],
};

/** Prepare a fit to averages in cells: weights and values, packed as an FFT has them, and the settings of its loss. */
export async function prepare(gpu, { weight, data, area, share, epsilon, rate }) {
  const sizes = { parameter: 4, image: 4, across: 8, down: 8, weight: 4, data: 8, slope: 4, means: 16 };
  const buffers = Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, gpu.buffer(size * N * N)]));
  buffers.chi2 = gpu.buffer(4 * N);
  buffers.settings = gpu.buffer(32);
  buffers.roots = gpu.buffer(
    Float32Array.from({ length: 2 * N }, (_, i) => (i % 2 ? Math.sin : Math.cos)((2 * Math.PI * (i >> 1)) / N)),
  );
  const put = (name, values) => gpu.queue.writeBuffer(buffers[name], 0, values);
  put("weight", weight);
  put("data", data);
  const launches = [];
  for (const [name, [touched, ...groups]] of Object.entries(DISPATCHES)) {
    const bound = Object.fromEntries(touched.map((one) => [BUFFERS.indexOf(one), buffers[one]]));
    launches.push(gpu.launch(await gpu.kernel(KERNELS.fit, {}, name), bound, ...groups));
  }
  return {
    put,
    read: (name) => gpu.read(buffers[name]),
    choose: (strength) => put("settings", new Float32Array([area, share, strength, epsilon, rate])),
    begin() {
      put("parameter", new Float32Array(N * N));
      put("means", new Float32Array(4 * N * N));
    },
    steps(count) {
      gpu.submit((pass) => {
        for (let i = 0; i < count; i++) for (const launch of launches) launch(pass);
      });
    },
    reducedChi2: async () => ((await gpu.read(buffers.chi2)).reduce((sum, one) => sum + one, 0) * share) / 2,
    /** The dirty image: the slope of chi² at an empty sky, which the first four dispatches find. */
    async dirty() {
      put("parameter", new Float32Array(N * N).fill(-80));
      gpu.submit((pass) => {
        for (const launch of launches.slice(0, 4)) launch(pass);
      });
      return (await gpu.read(buffers.slope)).map((value) => -value);
    },
  };
}
