/* The page of the doctor: paste an error, say where it runs, and get its causes. */
"use strict";

(() => {
  const { element } = chart;
  const box = document.querySelector(".fl-paste");
  const [typed, status, list] = ["textarea", "[role=status]", "ul"].map((part) => box.querySelector(part));
  const places = [...box.querySelectorAll("button")];
  let where = "";

  async function answer() {
    const failed = () => ["The causes could not be loaded.", []];
    const [words, found] = await causes.of(typed.value, where).catch(failed);
    const items = found.map(({ code, title, said }) =>
      element(
        "li",
        {},
        element("a", { href: `doctor/${code}.html` }, title),
        " ",
        element("code", {}, said.join(", ")),
      ),
    );
    list.replaceChildren(...items);
    if (status.textContent !== words) status.textContent = words;
  }
  for (const event of ["focus", "input"]) typed.addEventListener(event, answer);

  // Where it runs: one of the places, or, if that is pressed again, none.
  for (const place of places) {
    place.addEventListener("click", () => {
      where = where === place.value ? "" : place.value;
      for (const each of places) each.setAttribute("aria-pressed", String(each.value === where));
      answer();
    });
  }

  // A cause once stood on this page: its old address leads on.
  function lead() {
    const cause = document.getElementById(location.hash.slice(1));
    if (cause?.closest(".fl-causes")) location.replace(cause.querySelector("a").href);
  }
  addEventListener("hashchange", lead);
  lead();
})();
