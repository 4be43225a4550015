// Sphinx's search and its index weigh as much as a page: they are loaded when the search is first used.
"use strict";
(() => {
    const dialog = document.getElementById("pst-search-dialog");
    const field = dialog.querySelector("input");
    let typed = field.value;  // Sphinx empties the field when its search is loaded
    let asked;
    let words = [];

    const root = document.documentElement.dataset.content_root;

    const load = name => new Promise((done, failed) => {
        const script = document.createElement("script");
        script.async = false;  // in this order
        script.onload = done;
        script.onerror = failed;
        script.src = root + name;
        document.head.append(script);
    });

    // A pasted error holds words of the reader's own machine, or is cut short: look for the message that the site explains.
    const known = text => {
        const pasted = text.toLowerCase().replace(/\s+/g, " ").trim();
        return Object.entries(Search._index.indexentries)
            .filter(([entry, places]) => places.some(([, , main]) => main) && Math.min(entry.length, pasted.length) > 9)
            .map(([entry]) => entry)
            .filter(entry => pasted.includes(entry) || entry.includes(pasted))
            .sort((one, other) => other.length - one.length)[0] ?? text;
    };

    // A place in a page is called by its heading, too.
    const named = result => {
        const [name, title, anchor] = result;
        // The name of a file is the word that its page is about: 03_coalescing, 09_precision.
        if (result[6] != "index") return result[4] + 20 * name.split(/[/_]/).some(part => words.includes(part));
        const page = Search._index.docnames.indexOf(name);
        const heading = Object.entries(Search._index.alltitles)
            .find(([, places]) => places.some(([file, id]) => file == page && "#" + id == anchor));
        if (heading) result[1] = `${title} > ${heading[0]}`;
        return result[4];
    };

    const extend = () => {
        const {query} = Search;
        Search.query = text => {
            words = text.toLowerCase().split(/\W+/);
            return query(known(text));
        };
        Scorer.score = named;
    };

    const start = async () => {
        const [tools, ...others] = ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"].map(load);
        await tools;
        field.value = typed;
        extend();
        await Promise.all(others);
        if (asked && asked == field.value) Search.performSearch(asked);
    };

    if (typeof Search == "undefined") {
        window.Search = {performSearch: text => asked = text};  // what the theme calls while its search is on the way
        field.addEventListener("input", () => typed = field.value);
        field.addEventListener("focus", start, {once: true});
    } else extend();

    // Links start at the root of the site. The theme mends that from the second result on: a single one led nowhere.
    new MutationObserver(() => dialog.querySelectorAll("#search-results .search a").forEach(link => {
        const target = link.getAttribute("href");
        if (!target.startsWith(root)) link.href = root + target;
    })).observe(dialog, {childList: true, subtree: true});

    dialog.addEventListener("keydown", event => {
        const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
        if (!step) return;
        const stops = [field, ...dialog.querySelectorAll("#search-results li > a")];
        event.preventDefault();
        stops.at((stops.indexOf(document.activeElement) + step) % stops.length).focus();
    });
})();
