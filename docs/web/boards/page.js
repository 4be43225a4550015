/* The theme, light or dark, is set before anything is painted. */
"use strict";

((root) => {
  const kept = localStorage.getItem("mode");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.mode = ["light", "dark"].includes(kept) ? kept : "auto";
  root.theme = root.mode !== "auto" ? root.mode : dark ? "dark" : "light";
})(document.documentElement.dataset);
