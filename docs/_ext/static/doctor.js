/* Paste an error: the causes that it speaks for, the likeliest first, as firstlight.doctor.errors finds them, from the
   same table. Everything happens in this browser; what is pasted is only ever compared, and never shown. */
"use strict";

(() => {
  const box = document.querySelector(".fl-paste");
  const [typed, status, list] = ["textarea", "[role=status]", "ul"].map((part) => box.querySelector(part));
  const table = JSON.parse(document.querySelector("script.fl-causes").textContent);
  const { causes, last, near, worth, sure, terminal, layout } = table;
  const [colours, blanks] = [terminal, layout].map((pattern) => new RegExp(pattern, "g"));
  const plain = (text) => text.slice(-last).replace(colours, "").normalize("NFKC").replace(blanks, " ").toLowerCase();

  const kinds = Object.keys(worth);
  const pieces = causes.flatMap((cause) => kinds.flatMap((kind) => cause[kind] ?? []));
  const shared = (piece) => pieces.filter((other) => other === piece).length;

  // In a piece, "…" stands for a few words; no number may go on at its ends: "error 80" is not in "error 802".
  function pattern(piece) {
    const parts = piece.split("…").map((part) => plain(part).trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const [before, after] = [/^\d/.test(piece) ? "(?<!\\d)" : "", /\d$/.test(piece) ? "(?!\\d)" : ""];
    return new RegExp(before + parts.join(`.{0,${near}}?`) + after);
  }
  for (const cause of causes) {
    cause.seen = kinds.flatMap((kind) => (cause[kind] ?? []).map((piece) =>
      ({ kind, piece, value: worth[kind] / shared(piece), pattern: pattern(piece) })));
    cause.not = (cause.unless ?? []).map(pattern);
  }

  function search(text) {
    const found = causes.filter((cause) => !cause.not.some((one) => one.test(text)))
      .map((cause) => ({ ...cause, words: cause.seen.filter((one) => one.pattern.test(text)),
                         part: cause.says.filter((piece) => text.length > 2 && plain(piece).includes(text)).slice(0, 1) }))
      .filter(({ words, part }) => part.length || words.some(({ kind }) => kind === "says"))
      .map((cause) => ({ ...cause, score: cause.words.reduce((sum, { value }) => sum + value, cause.often ?? 0) }))
      .sort((a, b) => b.score - a.score);
    return { found, likely: found[0]?.score >= Math.max(sure, 2 * (found[1]?.score ?? 0)) };
  }

  function line({ code, words, part }) {
    const [item, anchor, said] = ["li", "a", "code"].map((name) => document.createElement(name));
    anchor.href = `#${code}`;
    anchor.textContent = document.getElementById(code).querySelector("h4").firstChild.textContent;
    said.textContent = words.map(({ piece }) => piece).join(", ") || part[0];
    item.append(anchor, " ", said);
    return item;
  }

  typed.addEventListener("input", () => {
    const text = plain(typed.value).trim();
    const { found, likely } = search(text);
    list.replaceChildren(...found.map(line));
    const answer = text.length < 3 ? "" : likely ? "The first of these, most likely."
      : found.length ? "One of these, the likeliest first. The doctor tells which it is."
      : "This text is not known here. The doctor itself looks further than at the error: run it.";
    if (status.textContent !== answer) status.textContent = answer;
  });
  box.hidden = false;
})();
