/* Paste an error: the causes that show themselves by it, listed. Everything happens in this browser; what is pasted is
   only ever compared, and never shown. */
"use strict";

(() => {
  const box = document.querySelector(".fl-paste");
  const [typed, status, list] = ["textarea", "[role=status]", "ul"].map((part) => box.querySelector(part));
  const plain = (text) => text.toLowerCase().replace(/[\s'"`‘’“”]+/g, " ").trim();
  const wordsOf = (text) => new Set(text.match(/[a-z0-9_]{3,}/g));

  const causes = [...document.querySelectorAll(".fl-cause")].map((section) => {
    const says = [...section.querySelectorAll(".fl-says code")].map((code) => code.textContent);
    return { link: section.querySelector(".headerlink").hash, title: section.querySelector("h4").firstChild.textContent,
             says, words: wordsOf(plain(says.join(" "))) };
  });
  // A word is rare if at most two causes have it; one that is in no prose, such as a number, needs no second one.
  const rare = (word) => causes.filter((cause) => cause.words.has(word)).length < 3;
  const odd = (word) => /\d|_/.test(word);

  // Whether a text has a piece in it; no number may go on at its ends: "error 80" is not in "error 802".
  function has(text, piece) {
    const at = text.indexOf(piece), [before, after] = [text[at - 1], text[at + piece.length]];
    return at >= 0 && piece.length > 2 && ![before + piece[0], piece.at(-1) + after].some((two) => /^\d\d$/.test(two));
  }

  function search(text) {
    const longest = (cause) => cause.says.filter((one) => has(text, plain(one)) || has(plain(one), text))
      .sort((a, b) => b.length - a.length)[0];
    const sure = causes.map((cause) => ({ ...cause, why: longest(cause) })).filter(({ why }) => why)
      .sort((a, b) => b.why.length - a.why.length);
    if (sure.length) return { sure, maybe: [] };
    const words = [...wordsOf(text)].filter(rare);
    const maybe = causes.map((cause) => ({ ...cause, why: words.filter((word) => cause.words.has(word)) }))
      .filter(({ why }) => why.length > 1 || why.some(odd)).sort((a, b) => b.why.length - a.why.length);
    return { sure, maybe: maybe.slice(0, 5).map((cause) => ({ ...cause, why: cause.why.join(" ") })) };
  }

  function line({ link, title, why }) {
    const [item, anchor, code] = ["li", "a", "code"].map((name) => document.createElement(name));
    anchor.href = link;
    anchor.textContent = title;
    code.textContent = why;
    item.append(anchor, " ", code);
    return item;
  }

  typed.addEventListener("input", () => {
    const text = plain(typed.value);
    const { sure, maybe } = text.length < 3 ? { sure: [], maybe: [] } : search(text);
    list.replaceChildren(...[...sure, ...maybe].map(line));
    const count = sure.length || maybe.length;
    const causesFit = `${count} ${count === 1 ? "cause fits" : "causes fit"}`;
    const answer = text.length < 3 ? "" : sure.length ? `${causesFit}.${sure.length > 1 ? " The doctor tells which it is." : ""}`
      : maybe.length ? `No cause has these very words; ${causesFit} some of them.`
      : "No cause here has these words. The doctor itself looks further than at the error: run it.";
    if (status.textContent !== answer) status.textContent = answer;
  });
  box.hidden = false;
})();
