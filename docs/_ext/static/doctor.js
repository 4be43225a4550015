/* Paste an error: the causes that it speaks for, the likeliest first, as gpu_doctor.errors finds them, from the
   same table. Everything happens in this browser; what is pasted is only ever compared, and never shown. */
"use strict";

(() => {
  const box = Object.assign(document.querySelector(".fl-paste"), { hidden: false });
  const [typed, status, list] = ["textarea", "[role=status]", "ul"].map((part) => box.querySelector(part));
  const made = (name, content) => Object.assign(document.createElement(name), content);

  // The table is as heavy as the page, so it comes when somebody is about to paste.
  let loading, src = new URL("doctor-causes.js", document.currentScript.src).href;
  const loaded = (onload, onerror) => document.head.append(made("script", { src, onload, onerror }));

  function causesOf(pasted, { causes, rarity, last, sure, enough, ...patterns }) {
    const [colours, blanks, words] = ["terminal", "layout", "word"].map((name) => new RegExp(patterns[name], "g"));
    const plain = pasted.slice(-last).replace(colours, "").normalize("NFKC").replace(blanks, " ").toLowerCase().trim();
    const has = ({ parts, pattern }) => parts.every((part) => plain.includes(part)) && new RegExp(pattern).test(plain);
    const best = (some) => some.filter(({ said }) => said.length).sort((a, b) => b.score - a.score);

    const known = best(causes.filter(({ unless }) => !unless.some(has)).map((cause) => {
      const there = cause.pieces.filter(has);
      // A piece that is a part of another one tells nothing more beside it.
      const seen = there.filter(({ bare }) => !there.some((other) => other.bare !== bare && other.bare.includes(bare)));
      const typed = cause.pieces.filter((one) => plain.length > 2 && one.says && one.bare.includes(plain)).slice(0, 1);
      const said = seen.some(({ says }) => says) || (typed.length && seen.length) ? seen : typed;
      // Letters of pieces that no other cause has: such a piece is worth 3.
      const own = seen.reduce((sum, { value, bare }) => sum + (value === 3 ? bare.length : 0), 0);
      return { ...cause, own, said: said.map(({ text }) => text), score: seen.reduce((sum, { value }) => sum + value, 0) + cause.often };
    }));
    if (plain.length < 3) return ["", known];
    const alone = known[0]?.score >= 4 * (known[1]?.score ?? 0);
    if (alone && known[0].own >= sure) return ["The first, most likely.", known];
    if (known.length) return ["One of these, the likeliest first. The doctor tells which it is.", known];

    // The causes that share most words with the text; one that few causes have counts for more.
    const terms = (text) => [...new Set(text.match(words))].filter((term) => rarity[term] > 0);
    const near = best(causes.map((cause) => {
      const own = new Set(cause.pieces.flatMap(({ bare }) => terms(bare))), said = terms(plain).filter((term) => own.has(term));
      const score = said.reduce((sum, term) => sum + rarity[term], 0);
      return { ...cause, score, said: said.length > 1 && score >= enough ? said : [] };
    })).slice(0, 3);
    const advice = near.length ? "These causes share most words with it." : "The doctor itself looks further: run it.";
    return [`This text is not known here. ${advice}`, near];
  }

  async function answer() {
    const [words, found] = await (loading ??= new Promise(loaded)).then(
      () => causesOf(typed.value, window.firstlightCauses), () => ["The causes could not be loaded.", []]);
    list.replaceChildren(...found.map(({ code, said }) => {
      const item = made("li"), title = document.querySelector(`#${code} summary > *`).firstChild.textContent;
      item.append(made("a", { href: `#${code}`, textContent: title }), " ", made("code", { textContent: said.join(", ") }));
      return item;
    }));
    if (status.textContent !== words) status.textContent = words;
  }
  for (const event of ["focus", "input"]) typed.addEventListener(event, answer);

  // A cause is folded: what leads to it opens it.
  const unfold = (hash) => document
    .getElementById(hash?.slice(1))?.querySelector(":scope.fl-cause > details")?.setAttribute("open", "");
  addEventListener("click", ({ target }) => unfold(target.closest("a")?.hash));
  addEventListener("hashchange", () => unfold(location.hash));
  unfold(location.hash);
})();
