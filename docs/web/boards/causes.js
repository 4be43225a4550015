/* The causes of an error, the likeliest first, as firstlight_doctor.errors finds them, from the same table. Everything
   happens in this browser; what is pasted is only ever compared, and never shown. */
"use strict";

globalThis.causes = (() => {
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const best = (matches) => matches.filter(({ said }) => said.length).sort((a, b) => b.score - a.score);

  /** All phrases that a pattern stands for. */
  function spellOut(pattern, lists) {
    const [braces, inner] = pattern.match(/\{([^{}]*)\}/) ?? [];
    if (!braces) return [pattern.trim().split(/\s+/).join(" ")];
    const options = lists[inner] ?? inner.split("|");
    const withOption = (option) => pattern.replace(braces, () => option);
    return options.flatMap((option) => spellOut(withOption(option), lists));
  }

  /** What finds the causes of a text, as errors.causes_of and errors.similar do. */
  function reader(table) {
    const all = (pattern) => new RegExp(pattern, "g");
    const [escapes, decoration, word] = [table.ansi_escape, table.decoration, table.word].map(all);
    const stopWords = new Set(table.stop_words);
    const normalize = (text) =>
      text.slice(-table.tail).replace(escapes, "").normalize("NFKC").replace(decoration, " ").toLowerCase();
    const wordsIn = (text) => [...new Set(text.match(word))].filter((found) => !stopWords.has(found));

    const phrases = new Map();
    function phraseOf(text) {
      if (!phrases.has(text)) {
        const parts = text.split("…").map((part) => normalize(part).trim());
        phrases.set(text, { text, parts, bare: parts.filter(Boolean).join("…"), sharedBy: 0 });
      }
      return phrases.get(text);
    }
    const escaped = (part) => part.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
    function has(text, phrase) {
      const gap = `.{0,${table.gap}}?`;
      phrase.expression ??= new RegExp(table.word_edge + phrase.parts.map(escaped).join(gap) + table.word_edge);
      return phrase.parts.every((part) => text.includes(part)) && phrase.expression.test(text);
    }

    const causes = table.causes.map((cause) => {
      const phrasesOf = (kind) =>
        [...new Set((cause[kind] ?? []).flatMap((pattern) => spellOut(pattern, table.lists)))].map(phraseOf);
      const weighed = Object.entries(table.weights).flatMap(([kind, weight]) =>
        phrasesOf(kind).map((phrase) => ({ weight, phrase })),
      );
      for (const { phrase } of weighed) phrase.sharedBy += 1;
      const words = new Set(weighed.flatMap(({ phrase }) => wordsIn(phrase.bare)));
      return { ...cause, weighed, words, says: phrasesOf("says"), unless: phrasesOf("unless") };
    });
    const idf = (term) => Math.log(causes.length / Math.max(1, causes.filter(({ words }) => words.has(term)).length));

    function match(text, there, atHome, { weighed, says, unless, often = 0, ...cause }) {
      const met = weighed.filter(({ phrase }) => there.has(phrase));
      const isWithin = ({ bare }) => met.some(({ phrase }) => phrase.bare !== bare && phrase.bare.includes(bare));
      const seen = met.filter(({ phrase }) => !isWithin(phrase));
      // Somebody who is still typing, or pasted only a part.
      const typed = text.length > 2 ? says.filter(({ bare }) => bare.includes(text)).slice(0, 1) : [];
      const shown = typed.length > 0 || seen.some(({ phrase }) => says.includes(phrase));
      const excluded = unless.some((phrase) => there.has(phrase));
      const said = !shown || excluded ? [] : seen.length ? seen.map(({ phrase }) => phrase) : typed;
      const own = seen.filter(({ phrase }) => phrase.sharedBy === 1 && says.includes(phrase));
      const isWhole = ({ bare }) => own.some(({ phrase }) => phrase.bare !== bare && bare.includes(phrase.bare));
      return {
        ...cause,
        score: atHome(cause) * (often + sum(seen.map(({ weight, phrase }) => weight / phrase.sharedBy))),
        own: sum(own.map(({ phrase }) => phrase.bare.length)),
        said: said.map((phrase) => phrase.text),
        whole: excluded ? [] : says.filter(isWhole).map((phrase) => phrase.text), // what its own words are a part of
      };
    }

    /** The causes that share most words with the text; one that few causes have counts for more. */
    function similar(text) {
      const terms = wordsIn(text);
      const enough = Math.max(table.min_idf, table.min_share * sum(terms.map(idf)));
      const matches = causes.map(({ words, ...cause }) => {
        const shared = terms.filter((term) => words.has(term));
        const score = sum(shared.map(idf));
        return { ...cause, score, near: true, said: shared.length > 1 && score >= enough ? shared : [] };
      });
      return best(matches).slice(0, 3);
    }

    return function causesOf(pasted, where) {
      const text = normalize(pasted).trim();
      const place = table.places[where] ?? "";
      const whole = place && text ? `${text} ${place} ${text.slice(-table.gap)} ${place}` : text;
      const there = new Set([...phrases.values()].filter((phrase) => has(whole, phrase)));
      const atHome = ({ where: places }) =>
        !place || !places ? 1 : places.includes(where) ? table.at_home : 1 / table.at_home;
      const known = best(causes.map((cause) => match(text, there, atHome, cause)));
      if (text.length < 3) return ["", known];
      const leads = known[0]?.score >= table.min_lead * (known[1]?.score ?? 0);
      if (leads && known[0].own >= table.min_own_letters) return ["The first, most likely.", known];
      if (known.length) return ["One of these, the likeliest first. The doctor tells which it is.", known];
      const near = similar(text);
      const advice = near.length
        ? "These causes share most words with it."
        : "The doctor itself looks further: run it.";
      return [`This text is not known here. ${advice}`, near];
    };
  }

  // The table comes when somebody is about to paste.
  const src = new URL("doctor-causes.js", document.currentScript.src).href;
  let reading;

  /** What to say of an error, and its causes, each with its code, title and the words that were met (`said`).
      Where the program runs is "windows", "wsl", "cluster", "container" or "notebook"; else "". */
  async function of(text, where = "") {
    reading ??= chart.load(src).then(() => reader(window.firstlightCauses));
    return (await reading)(text, where);
  }

  return { of };
})();
