/* The buttons that use the reader's GPU: what they need is fetched when one is pressed, and not before. These are classic
   scripts, since a browser loads no modules from a file. */
"use strict";

const loading = {};
const load = (src) => loading[src] ??= new Promise((onload, onerror) =>
  document.head.append(Object.assign(document.createElement("script"), { src, onload, onerror })));

for (const board of document.querySelectorAll(".fl-gpu")) {
  const [button] = board.querySelectorAll("button"), { scripts, opens } = board.dataset;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try { for (const name of scripts.split(" ")) await load(name); } catch {
      button.after(" A script of this page could not be loaded. Load the page again.");
      return;
    }
    firstlight[opens](board, globalThis.firstlightSky);
  }, { once: true });
}
