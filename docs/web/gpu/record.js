// The rows as a record of this site: pyperf's JSON. Nothing in it names a person, a host or a file.

const round = (value) => Number(value.toPrecision(4));

export function toRecord(rows, facts, code, now = new Date()) {
  const { userAgentData } = /** @type {any} */ (navigator); // not in all browsers
  const brands = userAgentData?.brands.filter(({ brand }) => !/not.*brand/i.test(brand));
  const browser =
    brands?.map(({ brand, version }) => `${brand} ${version}`).join(", ") ||
    navigator.userAgent.match(/(Firefox|Version|Chrome)\/[\d.]+/)?.[0] ||
    "unknown";
  const plain = facts.name.replace(/[^\x21-\x7e]+/g, " ").trim();
  const name = plain.slice(0, 80) || "unnamed";
  const words = name.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  return {
    version: "1.0",
    outputs: {},
    metadata: {
      unit: "second",
      record_schema: 1,
      helper_api: 1,
      complete: 1,
      date: `${now.toISOString().slice(0, 19).replace("T", " ")}.000000`,
      example: "browser/your_gpu",
      code_sha256: code,
      machine: ["webgpu", ...words].join("-"),
      device_kind: "webgpu",
      device_name: `${name}, WebGPU`,
      api: "webgpu",
      browser: browser.slice(0, 120),
      clock: facts.clock,
      clock_tick: round(facts.tick),
      software: facts.software,
    },
    benchmarks: rows.map(({ bench, label, n, bytes, flops, calls, verdict, first, values }) => ({
      metadata: {
        name: `${bench}/${label}/webgpu/n=${n}`,
        label,
        device: "webgpu",
        loops: calls,
        verdict,
        n,
        ...(bytes && { bytes }),
        ...(flops && { flops }),
      },
      runs: [{ warmups: [[1, round(first)]], values: values.map((value) => Math.max(round(value), 1e-10)) }],
    })),
  };
}
