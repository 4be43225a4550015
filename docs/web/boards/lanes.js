/* Which sectors do 32 lanes ask for? The requests of the page's own kernels, and of any index that the reader types,
   one after the other. Counted as firstlight.lessons.lanes counts, which wrote the requests and the controls into the
   page; what the reader writes is only ever set as text. */
"use strict";

(() => {
  const { board, data: traced, inputs, drawing, verdict, hint } = chart.open("lanes");
  const { what, index, width, stride, offset, request, lane } = inputs, picture = drawing.lastElementChild;
  const cells = [...board.querySelectorAll(".fl-levels tbody td")];
  const LANES = 32, SECTOR = 32, LINE = 128, WORD = 4, BLOCKS = 2, THREADS = 128, MOST = 2 ** 31;

  // -- An index in i, as Python reads it: each operator with its rank; one of a higher rank binds more -----------------

  const DO = { "|": [0, (a, b) => a | b], "^": [1, (a, b) => a ^ b], "&": [2, (a, b) => a & b],
               "<<": [3, (a, b) => a * 2 ** b], ">>": [3, (a, b) => Math.floor(a / 2 ** b)], "+": [4, (a, b) => a + b],
               "-": [4, (a, b) => a - b], "*": [5, (a, b) => a * b], "//": [5, (a, b) => Math.floor(a / b)],
               "%": [5, (a, b) => a - b * Math.floor(a / b)] };
  function parse(text) {
    const tokens = text.match(/\d+|\/\/|<<|>>|\S/g) ?? [];
    const fail = (token) => { throw new Error(token ? `“${token}” is not expected there` : "Something is missing"); };
    function formula(least) {
      const token = tokens.shift(), inner = token === "-" ? formula(6) : token === "(" ? formula(0) : null;
      if (token === "(" && tokens[0] !== ")") fail(tokens[0]);
      if (token === "(") tokens.shift();
      let left = token === "-" ? (i) => -inner(i) : inner ?? (token === "i" ? (i) => i
        : /^\d+$/.test(token) ? () => Number(token) : fail(token));
      while (DO[tokens[0]]?.[0] >= least) {
        const [rank, act] = DO[tokens.shift()], before = left, after = formula(rank + 1);
        left = (i) => act(before(i), after(i));
      }
      return left;
    }
    const whole = formula(0);
    return tokens.length ? fail(tokens[0]) : whole;
  }
  function own(text, size) { // the requests of two blocks of 128 threads
    const formula = parse(text);
    const lanesOf = (_, warp) => [Math.floor(warp * LANES / THREADS), ...Array.from({ length: LANES }, (_, lane) => {
      const at = formula(warp * LANES + lane);
      if (Number.isInteger(at) && at >= 0 && at * size < MOST) return [lane, at * size, 0, 1];
      throw new Error(`Thread ${warp * LANES + lane} leaves the array: its index is ${at}`);
    })];
    return { loads: true, width: size, requests: Array.from({ length: BLOCKS * THREADS / LANES }, lanesOf) };
  }

  // -- Counting as Access.levels does: what one request adds, and all so far -------------------------------------------

  const bytesOf = ([, ...runs]) => new Map(runs.flatMap(([first, byte, step, count]) =>
    Array.from({ length: count }, (_, at) => [first + at, byte + step * at])));
  const pieces = (lanes, size, wide) => [...new Set([...lanes.values()].flatMap((byte) =>
    [Math.floor(byte / size), Math.floor((byte + wide - 1) / size)]))].sort((a, b) => a - b);
  function count({ requests, loads, width: wide }) {
    const asked = new Set(), moved = new Set(), useful = new Set(), total = [0, 0, 0, 0];
    let now, had;
    for (const each of requests) {
      const lanes = bytesOf(each), sectors = pieces(lanes, SECTOR, wide), before = [moved.size, useful.size];
      had = loads ? sectors.filter((sector) => asked.has(`${each[0]} ${sector}`)) : [];
      for (const sector of sectors) asked.add(`${each[0]} ${sector}`) && moved.add(sector);
      for (const byte of lanes.values()) useful.add(byte);
      now = [pieces(lanes, LINE, wide).length, sectors.length - had.length, SECTOR * (moved.size - before[0]),
             wide * (useful.size - before[1])];
      now.forEach((amount, level) => { total[level] += amount; });
    }
    return { now, total, had };
  }

  // -- The picture: a row is a line of 128 bytes -----------------------------------------------------------------------

  const LEFT = 46, CELL = 11, TALL = 10, ROW = 12, TOP = 56, GAP = 3;
  function draw(lanes, wide, had, chosen) {
    const lines = pieces(lanes, LINE, wide), sectors = pieces(lanes, SECTOR, wide), to = lanes.get(chosen), parts = [];
    const x = (byte) => LEFT + byte % LINE / WORD * CELL + Math.floor(byte % LINE / SECTOR) * GAP, y = (byte) => TOP + lines.indexOf(Math.floor(byte / LINE)) * ROW;
    const box = (left, top, across, look) => parts.push(`<rect x="${left}" y="${top}" width="${across}" height="${TALL}" ${look}/>`);
    for (let at = 0; at < LANES; at++)
      box(LEFT + at * CELL, 16, CELL, `data-lane="${at}" class="${lanes.has(at) ? "fl-read" : "fl-no"}"`);
    for (const line of lines) {
      parts.push(`<text x="${LEFT - 5}" y="${y(line * LINE) + 9}" text-anchor="end">${line * LINE}</text>`);
      for (let sector = line * LINE / SECTOR; sector < (line + 1) * LINE / SECTOR; sector++)
        box(x(sector * SECTOR), y(sector * SECTOR), 8 * CELL,
          `class="${had.includes(sector) ? "fl-had" : sectors.includes(sector) ? "fl-along" : "fl-no"}"`);
    }
    for (const word of pieces(lanes, WORD, wide)) box(x(word * WORD), y(word * WORD), CELL, 'class="fl-read"');
    box(LEFT + chosen * CELL, 16, CELL, 'class="fl-chosen"');
    if (to !== undefined) {
      box(x(to), y(to), CELL * wide / WORD, 'class="fl-chosen"');
      parts.push(`<path class="fl-chosen" d="M${LEFT + (chosen + 0.5) * CELL} 26L${x(to) + CELL / 2} ${y(to)}"/>`);
    }
    picture.innerHTML = parts.join(""); // numbers of ours, and nothing else
    drawing.setAttribute("viewBox", `0 0 411 ${TOP + lines.length * ROW + 2}`);
  }

  function update() {
    let access;
    try {
      access = what.selectedIndex ? traced[what.selectedIndex - 1] : own(index.value, Number.parseInt(width.value, 10));
      index.ariaInvalid = "false";
    } catch (error) {
      index.ariaInvalid = "true";
      verdict.textContent = `${error.message}.`;
      hint.textContent = "An index is made of i, whole numbers, + - * // % & | ^ << >> and parentheses.";
      return;
    }
    request.max = access.requests.length - 1;
    const number = Number(request.value), chosen = Number(lane.value), { requests, width: wide } = access;
    const lanes = bytesOf(requests[number]), byte = lanes.get(chosen), bytes = wide * new Set(lanes.values()).size;
    const sectors = pieces(lanes, SECTOR, wide).length, lines = pieces(lanes, LINE, wide).length;
    const { now, total, had } = count({ ...access, requests: requests.slice(0, number + 1) });
    for (const input of [stride, offset, lane]) chart.tell(input, input.value);
    chart.tell(request, `${number + 1} of ${requests.length}, block ${requests[number][0]}`);
    const { many } = chart;
    verdict.textContent = `${many(lanes.size, "lane")} ${access.loads ? "ask for" : "write"} ${many(bytes, "byte")} in ` +
      `${many(sectors, "sector")} of ${many(lines, "line")}: ${Number((100 * bytes / (SECTOR * sectors)).toFixed(1))} % useful.`;
    hint.textContent = (had.length ? `${many(had.length, "sector")} came with an earlier request of the block. ` : "") +
      (byte === undefined ? `Lane ${chosen} has nothing to do.` : `Lane ${chosen}: byte ${byte}, sector ${Math.floor(byte / SECTOR)}.`);
    cells.forEach((cell, at) => { cell.textContent = [now, total][at % 2][Math.floor(at / 2)].toLocaleString("en"); });
    drawing.ariaLabel = verdict.textContent;
    draw(lanes, wide, had, chosen);
  }

  const mine = () => { what.selectedIndex = 0; update(); };
  for (const input of [stride, offset]) input.addEventListener("input", () => {
    index.value = `i * ${stride.value}${Number(offset.value) ? ` + ${offset.value}` : ""}`;
    mine();
  });
  for (const input of [index, width]) input.addEventListener("input", mine);
  for (const input of [request, lane]) input.addEventListener("input", update);
  what.addEventListener("input", () => { request.value = 0; update(); });
  drawing.addEventListener("click", ({ target }) => { if (target.dataset.lane) { lane.value = target.dataset.lane; update(); } });
  update();
})();
