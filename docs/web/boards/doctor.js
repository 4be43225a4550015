/* Paste an error: the causes that it speaks for, the likeliest first, as firstlight_doctor.errors finds them, from the
   same table. Everything happens in this browser; what is pasted is only ever compared, and never shown. */
"use strict";

(() => {
  const box = Object.assign(document.querySelector(".fl-paste"), { hidden: false });
  const [typed, status, list] = ["textarea", "[role=status]", "ul"].map((part) => box.querySelector(part));
  const made = (name, content) => Object.assign(document.createElement(name), content);

  // The table comes when somebody is about to paste.
  let loading, src = new URL("doctor-causes.js", document.currentScript.src).href;
  const loaded = (onload, onerror) => document.head.append(made("script", { src, onload, onerror }));

  // As firstlight_doctor.errors does, name by name.
  function reader({ causes, lists, stop_words, tail, gap, weights, min_idf, min_share, min_own_letters, min_lead, word_edge, ...patterns }) {
    const [escapes, decoration, word] = ["ansi_escape", "decoration", "word"].map((name) => new RegExp(patterns[name], "g"));
    const normalize = (text) => text.slice(-tail).replace(escapes, "").normalize("NFKC").replace(decoration, " ").toLowerCase();
    const stopWords = new Set(stop_words), wordsIn = (text) => [...new Set(text.match(word))].filter((one) => !stopWords.has(one));

    function spellOut(pattern) {
      const [braces, inner] = pattern.match(/\{([^{}]*)\}/) ?? [];
      if (!braces) return [pattern.trim().split(/\s+/).join(" ")];
      return (lists[inner] ?? inner.split("|")).flatMap((option) => spellOut(pattern.replace(braces, () => option)));
    }
    const phrases = new Map();
    function phrase(text) {
      if (!phrases.has(text)) {
        const parts = text.split("…").map((part) => normalize(part).trim());
        phrases.set(text, { text, parts, bare: parts.filter(Boolean).join("…"), sharedBy: 0 });
      }
      return phrases.get(text);
    }
    const escaped = (part) => part.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
    function has(text, one) {
      one.expression ??= new RegExp(word_edge + one.parts.map(escaped).join(`.{0,${gap}}?`) + word_edge);
      return one.parts.every((part) => text.includes(part)) && one.expression.test(text);
    }

    const table = causes.map(({ code, often = 0, ...cause }) => {
      const of = (kind) => [...new Set((cause[kind] ?? []).flatMap(spellOut))].map(phrase);
      const kinds = Object.keys(weights).map((kind) => [weights[kind], of(kind)]);
      for (const one of kinds.flatMap(([, some]) => some)) one.sharedBy += 1;
      return { code, often, kinds, says: of("says"), unless: of("unless") };
    });
    const wordsOf = table.map(({ kinds }) => new Set(kinds.flatMap(([, some]) => some.flatMap(({ bare }) => wordsIn(bare)))));
    const idf = (one) => Math.log(table.length / Math.max(1, wordsOf.filter((some) => some.has(one)).length));
    const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
    const best = (some) => some.filter(({ said }) => said.length).sort((a, b) => b.score - a.score);

    return function causesOf(pasted) {
      const text = normalize(pasted).trim(), there = new Set([...phrases.values()].filter((one) => has(text, one)));
      const known = best(table.map(({ code, often, kinds, says, unless }) => {
        const all = kinds.flatMap(([weight, some]) => some.filter((one) => there.has(one)).map((one) => ({ weight, one })));
        const within = ({ bare }) => all.some(({ one }) => one.bare !== bare && one.bare.includes(bare));
        const seen = all.filter(({ one }) => !within(one)), isOwn = ({ one }) => one.sharedBy === 1 && says.includes(one);
        const typed = text.length > 2 ? says.filter(({ bare }) => bare.includes(text)).slice(0, 1) : [];
        const shown = (typed.length || seen.some(({ one }) => says.includes(one))) && !unless.some((one) => there.has(one) || has(text, one));
        const said = shown ? (seen.length ? seen.map(({ one }) => one) : typed) : [];
        const score = often + sum(seen.map(({ weight, one }) => weight / one.sharedBy));
        return { code, score, own: sum(seen.filter(isOwn).map(({ one }) => one.bare.length)), said: said.map((one) => one.text) };
      }));
      if (text.length < 3) return ["", known];
      const leads = known[0]?.score >= min_lead * (known[1]?.score ?? 0);
      if (leads && known[0].own >= min_own_letters) return ["The first, most likely.", known];
      if (known.length) return ["One of these, the likeliest first. The doctor tells which it is.", known];

      // The causes that share most words with the text; one that few causes have counts for more.
      const terms = wordsIn(text), enough = Math.max(min_idf, min_share * sum(terms.map(idf)));
      const near = best(table.map(({ code }, at) => {
        const shared = terms.filter((one) => wordsOf[at].has(one)), score = sum(shared.map(idf));
        return { code, score, said: shared.length > 1 && score >= enough ? shared : [] };
      })).slice(0, 3);
      const advice = near.length ? "These causes share most words with it." : "The doctor itself looks further: run it.";
      return [`This text is not known here. ${advice}`, near];
    };
  }

  async function answer() {
    loading ??= new Promise(loaded).then(() => reader(window.firstlightCauses));
    const [words, found] = await loading.then((causesOf) => causesOf(typed.value), () => ["The causes could not be loaded.", []]);
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
