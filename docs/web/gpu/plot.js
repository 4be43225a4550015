// A figure of rows as an SVG: both axes are powers, each point has its quartiles, and lines are labelled at their ends.

import { element, quantity, text } from "./shared.js";

const [H, TOP, BOTTOM] = [330, 16, 52];

/** Lines of points [x, y, low, high] by name; roof(x), if given, is drawn dashed. A phone gets a narrower figure. */
export function drawn(words, { lines, x, y, unit, roof, ticks }) {
  const narrow = innerWidth < 600;
  const [W, LEFT, RIGHT] = narrow ? [330, 78, 16] : [660, 100, 150];
  const points = Object.values(lines).flat();
  const ys = points.flatMap(([, , low, high]) => [low, high]);
  const [least, most] = [Math.min(...points.map(([at]) => at)), Math.max(...points.map(([at]) => at))];
  const [lowest, highest] = [Math.floor(Math.log10(Math.min(...ys))), Math.ceil(Math.log10(Math.max(...ys)))];
  const right = W - RIGHT;
  const floor = H - BOTTOM;
  const across = (value) => LEFT + ((right - LEFT) * Math.log(value / least)) / Math.log(most / least || 2);
  const up = (value) => floor - ((floor - TOP) * (Math.log10(value) - lowest)) / (highest - lowest || 1);
  const place = ([at, value]) => `${across(at).toFixed(1)} ${up(value).toFixed(1)}`;
  const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": words });
  const say = (...words) => svg.append(text(...words));
  const short = (value) => (value < 1 ? `1/${1 / value}` : value < 1e4 ? value : quantity(value, "", 2).trim());
  for (const tick of ticks.filter((one) => one >= least && one <= most)) {
    svg.append(element("path", { class: "fl-grid", d: `M${across(tick)} ${TOP}V${floor}` }));
    say(across(tick), floor + 18, short(tick));
  }
  for (let power = lowest; power <= highest; power++) {
    svg.append(element("path", { class: "fl-grid", d: `M${LEFT} ${up(10 ** power)}H${right}` }));
    say(LEFT - 6, up(10 ** power) + 4, quantity(10 ** power, unit, 1), "end");
  }
  say((LEFT + right) / 2, H - 8, x);
  const turned = `translate(14 ${(TOP + floor) / 2}) rotate(-90)`;
  svg.append(element("text", { transform: turned, "text-anchor": "middle" }, y));
  if (roof) {
    const along = Array.from({ length: 60 }, (_, i) => least * (most / least) ** (i / 59)).map((at) => [at, roof(at)]);
    const inside = along.filter(([, value]) => value >= 10 ** lowest && value <= 10 ** highest);
    svg.append(element("path", { class: "fl-roof", d: `M${inside.map(place).join("L")}` }));
  }
  const beside = [];
  Object.entries(lines).forEach(([name, line], i) => {
    const path = element("path", { d: `M${line.map(place).join("L")}` });
    const group = element("g", { class: `fl-line fl-line-${i}` }, path);
    for (const [at, value, low, high] of line) {
      const told = element("title", {}, `${name}: ${quantity(value, unit)}`);
      group.append(element("path", { d: `M${across(at)} ${up(low)}V${up(high)}` }));
      group.append(element("circle", { cx: across(at), cy: up(value), r: 3 }, told));
    }
    let height = up(line.at(-1)[1]) + (narrow ? 20 : 4);
    while (beside.some((other) => Math.abs(other - height) < 15)) height += 15;
    beside.push(height);
    const end = narrow ? { x: right, "text-anchor": "end" } : { x: across(line.at(-1)[0]) + 8 };
    group.append(element("text", { ...end, y: height }, name));
    svg.append(group);
  });
  return svg;
}
