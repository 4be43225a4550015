/* The search: a line beside each result says what its page is about, and the pages that say what was asked for in their
   title or in that line come before those that only mention it. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".bd-search-container input").select();
  const asked = new URLSearchParams(location.search).get("q")?.toLowerCase().trim() ?? "";
  const words = asked
    .split(/[\W_]+/)
    .filter((word) => word.length > 2)
    .map((word) => word.replace(/(ing|e?s)$/, ""));
  Scorer.score = (result) => {
    const [page, title, anchor, , score, , kind] = result;
    if (kind === "object") return score - 15; // a name of the reference, which already has words beside it
    const about = ABOUT[page] ?? "";
    const said = `${title} ${about}`.toLowerCase();
    if (anchor.startsWith("#term-")) result[1] = `${title}: ${anchor.slice(6).replaceAll("-", " ")}`;
    else result[3] = about;
    const base = kind === "index" ? score / 8 : score; // a term of the glossary counts as much as a word of a title
    return base + 10 * said.includes(asked) + 4 * words.filter((word) => said.includes(word)).length;
  };
});
