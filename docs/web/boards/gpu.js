/* The buttons that use the reader's GPU: what they need is fetched when one is pressed, and not before. */
"use strict";

for (const board of document.querySelectorAll(".fl-gpu")) {
  const button = board.querySelector("button");
  const { scripts, opens } = board.dataset;
  async function start() {
    try {
      for (const name of scripts.split(" ")) await chart.load(name);
    } catch {
      button.after(" A script of this page could not be loaded. Load the page again.");
      return;
    }
    firstlight[opens](board, globalThis.firstlightSky);
  }
  button.hidden = false;
  button.addEventListener("click", start, { once: true });
}
