/* The buttons that use the reader's GPU: what they need is fetched when one is pressed, and not before. These are classic
   scripts, since a browser loads no modules from a file. */
"use strict";

for (const board of document.querySelectorAll(".fl-gpu")) {
  const [button] = board.querySelectorAll("button"), { scripts, opens } = board.dataset;
  const load = (name) => new Promise((done, failed) => {
    if (document.querySelector(`script[src$="${name}"]`)) { done(); return; }
    const script = Object.assign(document.createElement("script"), { src: name, onload: done, onerror: failed });
    document.head.append(script);
  });
  button.hidden = false;
  button.addEventListener("click", async () => {
    try { for (const name of scripts.split(" ")) await load(name); } catch {
      button.after(" A script of this page could not be loaded. Load the page again.");
      return;
    }
    firstlight[opens](board, globalThis.firstlightSky);
  }, { once: true });
}
