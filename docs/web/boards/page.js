/* The theme, light or dark, is set before anything is painted. A button copies the page as Markdown. */
"use strict";

((root) => {
  const kept = localStorage.getItem("mode");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.mode = ["light", "dark"].includes(kept) ? kept : "auto";
  root.theme = root.mode !== "auto" ? root.mode : dark ? "dark" : "light";
})(document.documentElement.dataset);

document.addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector(".fl-copy");
  if (!button || location.protocol === "file:" || !navigator.clipboard) return; // a page on a disk may read no file
  button.hidden = false;
  button.addEventListener("click", async () => {
    // Safari copies only what a click has promised.
    const text = fetch(button.dataset.page)
      .then((answer) => (answer.ok ? answer.blob() : Promise.reject(answer)))
      .then((found) => new Blob([found], { type: "text/plain" }));
    const done = navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
    button.textContent = await done.then(
      () => "Copied",
      () => "It could not be copied",
    );
  });
});
