/* Which sectors do 32 lanes ask for? The requests of the page's own kernels, and of any index that the reader types,
   one after the other. Counted as firstlight.lessons.lanes counts, which wrote the requests into the page. */
"use strict";

(() => {
  const { element, text } = chart;
  const [LANES, SECTOR, LINE, WORD] = [32, 32, 128, 4];
  const [BLOCKS, THREADS, MOST] = [2, 128, 2 ** 31]; // of an index of the reader's own
  const TITLE = "Three levels of memory";
  const LEVELS = ["L1 wavefronts", "L2 sectors", "DRAM bytes", "useful bytes"].map((level) => [level, "", ""]);
  const WIDTHS = ["4 (float32)", "8 (float64, complex64)", "16 (complex128)"];
  const LEGEND =
    "Each row below the lanes is a line of 128 bytes, with the number of its first byte, and consists of four " +
    "sectors. Filled: a lane asks for it. Hatched: comes along. Grey with a dashed rim: came with an earlier request " +
    "of the block. Empty: not moved.";

  // -- An index in i, as Python reads it: each operator with its rank; one of a higher rank binds more --------------

  const DO = {
    "|": [0, (a, b) => a | b],
    "^": [1, (a, b) => a ^ b],
    "&": [2, (a, b) => a & b],
    "<<": [3, (a, b) => a * 2 ** b],
    ">>": [3, (a, b) => Math.floor(a / 2 ** b)],
    "+": [4, (a, b) => a + b],
    "-": [4, (a, b) => a - b],
    "*": [5, (a, b) => a * b],
    "//": [5, (a, b) => Math.floor(a / b)],
    "%": [5, (a, b) => a - b * Math.floor(a / b)],
  };

  function parse(text) {
    const tokens = text.match(/\d+|\/\/|<<|>>|\S/g) ?? [];
    const fail = (token) => {
      throw new Error(token ? `“${token}” is not expected there` : "Something is missing");
    };

    function operand() {
      const token = tokens.shift();
      if (token === "i") return (i) => i;
      if (/^\d+$/.test(token)) return () => Number(token);
      if (token === "-") {
        const inner = formula(6);
        return (i) => -inner(i);
      }
      if (token !== "(") fail(token);
      const inner = formula(0);
      if (tokens[0] !== ")") fail(tokens[0]);
      tokens.shift();
      return inner;
    }

    function formula(least) {
      let left = operand();
      while (DO[tokens[0]]?.[0] >= least) {
        const [rank, act] = DO[tokens.shift()];
        const [before, after] = [left, formula(rank + 1)];
        left = (i) => act(before(i), after(i));
      }
      return left;
    }

    const whole = formula(0);
    return tokens.length ? fail(tokens[0]) : whole;
  }

  /** The requests of two blocks of 128 threads. */
  function requestsOf(text, width) {
    const formula = parse(text);
    const run = (thread, lane) => {
      const at = formula(thread);
      if (Number.isInteger(at) && at >= 0 && at * width < MOST) return [lane, at * width, 0, 1];
      throw new Error(`Thread ${thread} leaves the array: its index is ${at}`);
    };
    const requests = Array.from({ length: (BLOCKS * THREADS) / LANES }, (_, warp) => {
      const runs = Array.from({ length: LANES }, (_, lane) => run(warp * LANES + lane, lane));
      return [Math.floor((warp * LANES) / THREADS), ...runs];
    });
    return { loads: true, width, requests };
  }

  // -- Counting as Access.levels does: what one request adds, and all so far ----------------------------------------

  function bytesOf([, ...runs]) {
    const lanes = runs.flatMap(([first, byte, step, count]) =>
      Array.from({ length: count }, (_, at) => [first + at, byte + step * at]),
    );
    return new Map(lanes);
  }

  function segments(lanes, size, width) {
    const ends = [...lanes.values()].flatMap((byte) => [byte, byte + width - 1]);
    return [...new Set(ends.map((byte) => Math.floor(byte / size)))].sort((a, b) => a - b);
  }

  function count({ requests, loads, width }) {
    const [asked, moved, useful] = [new Set(), new Set(), new Set()];
    const total = [0, 0, 0, 0];
    let now;
    let had;
    for (const request of requests) {
      const lanes = bytesOf(request);
      const sectors = segments(lanes, SECTOR, width);
      const before = [moved.size, useful.size];
      had = loads ? sectors.filter((sector) => asked.has(`${request[0]} ${sector}`)) : [];
      for (const sector of sectors) {
        asked.add(`${request[0]} ${sector}`);
        moved.add(sector);
      }
      for (const byte of lanes.values()) useful.add(byte);
      now = [
        segments(lanes, LINE, width).length,
        sectors.length - had.length,
        SECTOR * (moved.size - before[0]),
        width * (useful.size - before[1]),
      ];
      for (const [level, amount] of now.entries()) total[level] += amount;
    }
    return { now, total, had };
  }

  // -- What stands on the page --------------------------------------------------------------------------------------

  const typed = { name: "index", value: "i * 2", maxlength: 60, spellcheck: "false" };
  const controls = (accesses) =>
    chart.controls({
      "Requests of": chart.choice("what", ["an index of your own", ...accesses.map(({ name }) => name)]),
      "Index of x, in thread i": element("input", typed),
      Stride: chart.slider("stride", 0, 64, 2),
      Offset: chart.slider("offset", 0, 32, 0),
      "Bytes of an element of x": chart.choice("width", WIDTHS),
      Request: chart.slider("request", 0, 7, 0),
      Lane: chart.slider("lane", 0, 31, 0),
    });

  function frame() {
    const stripe = element("path", { d: "M1 0V6", stroke: "#d9762b", "stroke-width": 2.2 });
    const units = { patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
    const hatch = element("defs", {}, element("pattern", { id: "fl-hatch", width: 6, height: 6, ...units }, stripe));
    const words = [text(41, 25, "lanes", "end"), text(51, 11, "0"), text(402, 11, "31")];
    return element("svg", { role: "img" }, hatch, ...words, element("g"));
  }

  const levels = chart.table(TITLE, ["", "this request", "so far"], LEVELS, element("caption", {}, TITLE));
  const cells = [...levels.querySelectorAll("tbody td")];
  const { data, inputs, drawing, verdict, hint } = chart.open("lanes", (accesses) => [
    controls(accesses),
    frame(),
    element("p", { class: "fl-small" }, LEGEND),
    chart.status(),
    levels,
  ]);
  const { what, index, width, stride, offset, request, lane } = inputs;

  // -- The picture: a row is a line of 128 bytes --------------------------------------------------------------------

  const [LEFT, CELL, TALL, ROW, TOP, GAP] = [46, 11, 10, 12, 56, 3];
  const box = (x, y, across, look) => element("rect", { x, y, width: across, height: TALL, ...look });

  function draw(lanes, wide, had, chosen) {
    const [lines, sectors, words] = [LINE, SECTOR, WORD].map((size) => segments(lanes, size, wide));
    const x = (byte) => LEFT + ((byte % LINE) / WORD) * CELL + Math.floor((byte % LINE) / SECTOR) * GAP;
    const y = (byte) => TOP + lines.indexOf(Math.floor(byte / LINE)) * ROW;
    const lookOf = (sector) => (had.includes(sector) ? "fl-had" : sectors.includes(sector) ? "fl-along" : "fl-no");
    const parts = Array.from({ length: LANES }, (_, at) =>
      box(LEFT + at * CELL, 16, CELL, { "data-lane": at, class: lanes.has(at) ? "fl-read" : "fl-no" }),
    );
    for (const line of lines) {
      parts.push(text(LEFT - 5, y(line * LINE) + 9, line * LINE, "end"));
      for (let byte = line * LINE; byte < (line + 1) * LINE; byte += SECTOR)
        parts.push(box(x(byte), y(byte), 8 * CELL, { class: lookOf(byte / SECTOR) }));
    }
    for (const word of words) parts.push(box(x(word * WORD), y(word * WORD), CELL, { class: "fl-read" }));
    parts.push(box(LEFT + chosen * CELL, 16, CELL, { class: "fl-chosen" }));
    const to = lanes.get(chosen);
    if (to !== undefined) {
      const [from, there] = [LEFT + (chosen + 0.5) * CELL, x(to) + CELL / 2];
      parts.push(box(x(to), y(to), (CELL * wide) / WORD, { class: "fl-chosen" }));
      parts.push(element("path", { class: "fl-chosen", d: `M${from} 26L${there} ${y(to)}` }));
    }
    drawing.lastElementChild.replaceChildren(...parts);
    drawing.setAttribute("viewBox", `0 0 411 ${TOP + lines.length * ROW + 2}`);
  }

  const many = (amount, name) => `${amount} ${name}${amount === 1 ? "" : "s"}`;

  function update() {
    let access;
    try {
      const own = what.selectedIndex === 0;
      access = own ? requestsOf(index.value, Number.parseInt(width.value, 10)) : data[what.selectedIndex - 1];
      index.ariaInvalid = "false";
    } catch (error) {
      index.ariaInvalid = "true";
      verdict.textContent = `${error.message}.`;
      hint.textContent = "An index is made of i, whole numbers, + - * // % & | ^ << >> and parentheses.";
      return;
    }
    const { requests, width: wide } = access;
    request.max = requests.length - 1;
    const [number, chosen] = [Number(request.value), Number(lane.value)];
    const lanes = bytesOf(requests[number]);
    const byte = lanes.get(chosen);
    const bytes = wide * new Set(lanes.values()).size;
    const [lines, sectors] = [LINE, SECTOR].map((size) => segments(lanes, size, wide).length);
    const useful = Number(((100 * bytes) / (SECTOR * sectors)).toFixed(1));
    const { now, total, had } = count({ ...access, requests: requests.slice(0, number + 1) });
    for (const input of [stride, offset, lane]) chart.tell(input, input.value);
    chart.tell(request, `${number + 1} of ${requests.length}, block ${requests[number][0]}`);
    verdict.textContent =
      `${many(lanes.size, "lane")} ${access.loads ? "ask for" : "write"} ${many(bytes, "byte")} in ` +
      `${many(sectors, "sector")} of ${many(lines, "line")}: ${useful} % useful.`;
    const came = had.length ? `${many(had.length, "sector")} came with an earlier request of the block. ` : "";
    const place = byte === undefined ? " has nothing to do" : `: byte ${byte}, sector ${Math.floor(byte / SECTOR)}`;
    hint.textContent = `${came}Lane ${chosen}${place}.`;
    for (const [at, cell] of cells.entries())
      cell.textContent = [now, total][at % 2][Math.floor(at / 2)].toLocaleString("en");
    drawing.ariaLabel = verdict.textContent;
    draw(lanes, wide, had, chosen);
  }

  function updateOwn() {
    what.selectedIndex = 0;
    update();
  }
  for (const input of [stride, offset])
    input.addEventListener("input", () => {
      index.value = `i * ${stride.value}${Number(offset.value) ? ` + ${offset.value}` : ""}`;
      updateOwn();
    });
  for (const input of [index, width]) input.addEventListener("input", updateOwn);
  for (const input of [request, lane]) input.addEventListener("input", update);
  what.addEventListener("input", () => {
    request.value = 0;
    update();
  });
  drawing.addEventListener("click", ({ target }) => {
    if (!target.dataset.lane) return;
    lane.value = target.dataset.lane;
    update();
  });
  update();
})();
