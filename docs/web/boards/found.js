/* Who comes from the search lands on the sentence that was found, even in a fold or behind a tab. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const sought = new URLSearchParams(location.search).get("found");
  if (!sought) return;
  const section = document.getElementById(location.hash.slice(1)) ?? document.querySelector("article");
  const has = (one) => one.textContent.replace(/\s+/g, " ").includes(sought);
  const found = [...section.querySelectorAll("p, li, dd, dt, td, th, pre, figcaption")].filter(has);
  const place = found.find((one) => !found.some((other) => other !== one && one.contains(other)));
  if (!place) return;
  for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  place.closest(".sd-tab-content")?.previousElementSibling.click();
  place.classList.add("fl-found");
  place.scrollIntoView({ block: "center" });
});
