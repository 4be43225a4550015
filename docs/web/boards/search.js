/* One box for a question or an error: the doctor's causes first if what was typed is an error, then the pages that have
   its words. A page needs not have all of them; a word that few pages have counts for more. Nothing is sent. */
"use strict";

globalThis.search = (() => {
  const here = new URL("./", document.currentScript.src);
  const root = new URL("../", here);
  const { element, load } = chart;
  const SHOWN = 10;
  const WITH_A_SENTENCE = 5; // each fetches the text of its page
  const K = 1.4; // how soon a word that is repeated counts no more (BM25)
  const B = 0.65; // how much of a page's length is taken off
  const ALL = 0.5; // what a page gains that has every word, and in part one that has most of them
  const ABOUT = 1; // what it counts besides that a word is in the title, the line or the keywords of a page
  const HEAD = 3; // the same, of the heading of a section, where a hit lands
  const OPENING = 0.7; // what comes before the first heading asks more than it answers
  const SHORT = 40; // letters: a cell of a table is seldom a sentence
  const NEAR = 0.4; // what a word counts that only begins like the one that was typed

  /** What finds words, as _ext/search.py took them apart. */
  function reader({ documents, lengths, words, word, name, ending, stop, levels }) {
    const [each, asked, end] = [new RegExp(word, "gu"), new RegExp(name, "u"), new RegExp(ending)];
    const skipped = new Set(stop);
    const places = new Map(words.split("\n").map((line) => line.split(" ")));
    const known = [...places.keys()];
    const mean = lengths.reduce((sum, one) => sum + one, 0) / lengths.length;

    function stems(text) {
      const names = text.toLowerCase().normalize("NFKC").match(each) ?? [];
      const all = names.flatMap((found) => {
        const whole = found.replace(/^_+|_+$/g, "");
        const parts = whole.split("_").filter(Boolean);
        return parts.length > 1 ? [whole, ...parts] : parts;
      });
      return all
        .filter((one) => !skipped.has(one) && one.length < 40 && asked.test(one))
        .map((one) => one.replace(end, "$1"));
    }

    function rarity(stem) {
      const having = places.get(stem)?.split(",").length ?? 0;
      return Math.log(1 + (documents.length - having + 0.5) / (having + 0.5));
    }

    /** What a word counts that stands so often in a text, whose length is given in mean lengths. */
    const score = (often, length) => (often * (K + 1)) / (often + K * (1 - B + B * length));

    /** The words of the index that one word stands for: itself, or else those that begin like it. */
    function meant(stem) {
      if (places.has(stem)) return [[stem, 1]];
      if (stem.length < 3) return [];
      const isNear = (one) => one.startsWith(stem) || (stem.length > 5 && one.length > 4 && stem.startsWith(one));
      const near = known.filter(isNear).slice(0, 12);
      return near.map((one) => [one, NEAR]);
    }

    /** The documents that have any of the words, the likeliest first. */
    function find(text) {
      const [scores, matched] = [new Map(), new Map()];
      const typed = [...new Set(stems(text))].slice(0, 40);
      for (const stem of typed) {
        for (const [one, weight] of meant(stem)) {
          const rare = rarity(one);
          let at = 0;
          for (const place of places.get(one).split(",")) {
            const [, step, level, about] = place.match(/^([0-9a-z]+)([A-Z]?)(!?)$/);
            at += Number.parseInt(step, 36);
            const often = levels[level ? level.charCodeAt(0) - 65 : 0];
            const counts = score(often, lengths[at] / mean) + (about ? ABOUT : 0);
            scores.set(at, (scores.get(at) ?? 0) + weight * rare * counts);
            matched.set(at, (matched.get(at) ?? 0) + weight);
          }
        }
      }
      const ranked = [...scores].map(([at, sum]) => {
        const [url, title, line, factor] = documents[at];
        return { url, title, line, score: sum * factor * (1 + (ALL * matched.get(at)) / typed.length) };
      });
      return ranked.sort((a, b) => b.score - a.score);
    }
    return { find, stems, rarity, score };
  }

  let reading;
  function index() {
    reading ??= load(new URL("search-index.js", here).href).then(() => reader(firstlightIndex));
    return reading;
  }

  const texts = new Map();
  const keep = ([url, parts]) => texts.set(url, parts);

  /** The section of a page that is most about the words, and its best sentence, which is no code. */
  async function passage(url, text) {
    const { stems, rarity, score } = await index();
    await load(new URL(`found/${url.replaceAll("/", "~").replace(/html$/, "js")}`, here).href);
    const asked = new Set(stems(text));
    const shared = (words) =>
      [...new Set(stems(words))].filter((stem) => asked.has(stem)).reduce((sum, stem) => sum + rarity(stem), 0);
    const most = (all, score) =>
      all.map((one) => [score(one), one]).reduce((best, one) => (one[0] > best[0] ? one : best), [0])[1];
    const prose = (part) => part[2].split("\n").filter((block) => !block.startsWith("\t"));
    const read = (part) => ({ part, found: stems(prose(part).join(" ")), heads: stems(part[1]) });
    const parts = (texts.get(url) ?? []).map(read);
    const mean = parts.reduce((sum, { found }) => sum + found.length, 0) / parts.length;
    const about = ({ part, found, heads }) => {
      const opening = part === parts[0].part;
      const count = (stem) => score(found.filter((one) => one === stem).length, found.length / mean);
      const all = [...asked].map((stem) => rarity(stem) * (count(stem) + HEAD * (!opening && heads.includes(stem))));
      return all.reduce((sum, one) => sum + one, 0) * (opening ? OPENING : 1);
    };
    const { part } = most(parts, about) ?? {};
    if (!part) return {};
    const sentences = prose(part)
      .flatMap((block) => block.split(/(?<=[.!?:]) /))
      .filter((one) => one.length > SHORT);
    return { anchor: part[0], head: part[1], sentence: most(sentences, shared) ?? prose(part)[0] };
  }

  /** Whether words may come from an error: few people would write them themselves. */
  const isNoProse = (words) => /[^\p{L}\s'’…?]|\p{Ll}\p{Lu}/u.test(words) || words.split(/\s+/).length > 3;

  /** Whether a text says itself that it is an error: a name of one, and what it says. */
  const isError = (text) => /(?:Error|Exception|Warning|error|fatal)\b.*:/.test(text);

  /** All that is found: causes of an error, and documents. */
  async function find(text) {
    const { find: pages } = await index();
    const [, known] = text.split(/\s+/).length > 2 || isNoProse(text) ? await causes.of(text) : ["", []];
    // "no kernel image" could be prose, and is a part of an error.
    const from = ({ said, whole }) => (isNoProse(text) ? [...said, ...whole] : whole);
    const errors = known.filter((one) => !one.near && (isError(text) || from(one).some(isNoProse))).slice(0, 3);
    const urls = new Set(errors.map(({ code }) => `doctor/${code}.html`));
    const others = pages(text).filter(({ url }) => !urls.has(url));
    return { errors, pages: others.slice(0, SHOWN) };
  }

  function item(url, title, ...about) {
    return element("li", {}, element("a", { href: new URL(url, root).href }, title), ...about);
  }

  /** Show where a page says it, and lead there. */
  async function show(line, { url, title }, text) {
    const { anchor, head, sentence } = await passage(url, text);
    if (!sentence) return;
    const link = line.querySelector("a");
    const from = sentence.split(" ").slice(0, 8).join(" ");
    link.href = `${new URL(url, root).href}?${new URLSearchParams({ found: from })}#${anchor}`;
    const said = sentence.length > 200 ? `${sentence.slice(0, 200)} …` : sentence;
    const place = head === title ? [] : [element("b", {}, head), " · "];
    line.append(element("span", { class: "fl-cut" }, ...place, said));
  }

  function open(box) {
    const [typed, status, list] = ["textarea", "[role=status]", "ol"].map((part) => box.querySelector(part));
    let latest = 0;
    async function answer() {
      const text = typed.value.trim();
      latest += 1;
      const mine = latest;
      const { errors, pages } = text.length > 1 ? await find(text) : { errors: [], pages: [] };
      if (mine !== latest) return; // somebody types faster
      const known = errors.map(({ code, title, said }) =>
        item(`doctor/${code}.html`, title, element("span", {}, "A cause of ", element("code", {}, said[0]))),
      );
      const lines = pages.map(({ url, title, line }) => item(url, title, element("span", {}, line)));
      list.replaceChildren(...known, ...lines);
      const found = known.length + lines.length;
      const nothing = "Nothing here has these words. Is it one of these questions?";
      const words = text.length < 2 ? "" : found ? `${found} found, the likeliest first.` : nothing;
      if (status.textContent !== words) status.textContent = words;
      if (words === nothing) {
        const questions = document.querySelector(".fl-questions").cloneNode(true);
        list.append(element("li", {}, questions));
      }
      const paged = pages.map((page, at) => [page, lines[at]]).filter(([{ url }]) => !/#|^doctor\//.test(url));
      for (const [page, line] of paged.slice(0, WITH_A_SENTENCE)) show(line, page, text).catch(() => {});
    }
    let wait;
    typed.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(answer, 150);
    });
    typed.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) event.preventDefault();
    });
    typed.value = new URLSearchParams(location.search).get("q") ?? typed.value;
    answer();
  }

  document.addEventListener("DOMContentLoaded", () => open(document.querySelector(".fl-door")));
  return { find, keep };
})();
