// What is made of the seconds that calls took. Nothing here knows what a GPU is.

import { quartiles } from "./shared.js";

/** Median, quartiles and verdict: no mean, no minimum, and no outlier is thrown away. */
export function summary(values, fine = true) {
  const [q25, median, q75] = quartiles(values);
  const verdict = !fine ? "coarse" : values.length < 9 ? "few" : q75 - q25 > 0.1 * median ? "noisy" : "ok";
  return { values, median, q25, q75, verdict };
}

/** Time run(blocks, calls), which returns the seconds of each block: the first call alone, then blocks of more and more
    calls until one lasts 20 ticks of the clock, then nine blocks, or as many as the seconds allow. */
export async function measure(run, { tick, seconds = 0.1, most = 2048, now = () => performance.now() / 1e3 }) {
  const [first] = await run(1, 1);
  const end = now() + Math.max(seconds, 60 * tick); // a slow round trip makes long ticks
  let calls = 1;
  let block = Math.min(...(await run(2, 1)));
  while (block < 20 * tick && calls < most && now() < end) {
    calls = Math.min(most, Math.ceil(calls * Math.min(16, Math.max(2, (25 * tick) / Math.max(block, tick / 4)))));
    block = Math.min(...(await run(2, calls)));
  }
  const values = [];
  while (values.length < 9 && (values.length < 3 || now() < end)) {
    const blocks = Math.max(1, Math.min(9 - values.length, Math.floor(0.04 / block))); // 40 ms in one submission
    for (const each of await run(blocks, calls)) values.push(each / calls);
  }
  return { first, calls, ...summary(values, block >= 10 * tick) };
}
