"""Link the first mention of each of the glossary's terms on each page; the link's title is the gist of its entry."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join

from _ext.watch import to_root

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

GLOSSARY = "glossary"
MOST = 12  # links on a page, so that prose stays calm
INLINE = nodes.emphasis | nodes.strong
APART = nodes.table | nodes.figure | nodes.topic | nodes.sidebar | addnodes.desc | addnodes.glossary


class Entry(NamedTuple):
    """A term of the glossary: where it stands, how it is written, its gist, and the page that explains it."""

    anchor: str
    forms: tuple[str, ...]
    gist: str
    page: str


class Mention(NamedTuple):
    """A stretch of a text, and the entry that it is a form of."""

    text: nodes.Text
    start: int
    end: int
    entry: Entry


def entries_in(tree: nodes.document) -> list[Entry]:
    """Return the entries of a glossary; an entry's first reference to a page names the one that explains it."""
    found = []
    for item in (item for part in tree.findall(addnodes.glossary) for item in part.findall(nodes.definition_list_item)):
        terms = list(item.findall(nodes.term))
        words = " ".join(next(item.findall(nodes.paragraph), nodes.paragraph()).astext().split())
        sentence = re.match(r".+?[.!?](?=\s|$)", words)
        pages = (link["reftarget"] for link in item.findall(addnodes.pending_xref) if link["reftype"] == "doc")
        page = docname_join(GLOSSARY, next(pages, ""))
        forms = tuple(term.astext() for term in terms)
        found.append(Entry(terms[0]["ids"][0], forms, sentence[0] if sentence else words, page))
    return found


def note_entries(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Keep the entries, and for some forms the only places where they mean what it says; all pages follow a change."""
    if GLOSSARY not in env.found_docs:
        return []
    linked_in = json.loads(env.metadata[GLOSSARY].get("linked_in", "{}"))
    glossary = entries_in(env.get_doctree(GLOSSARY)), linked_in
    before, env.__dict__["firstlight_glossary"] = env.__dict__.get("firstlight_glossary"), glossary
    return [] if glossary == before else sorted(env.found_docs)


def written(form: str) -> str:
    """Return a pattern for a form: in the plural too, and at the beginning of a sentence, across the end of a line."""
    pattern = r"\s+".join(map(re.escape, form.split())).replace("'", "['’]")
    if form[0].islower():
        pattern = f"[{form[0]}{form[0].upper()}]{pattern[1:]}"
    if re.search("[^aeiou]y$", form):
        return f"{pattern[:-1]}(?:y|ies)"
    return pattern + ("(?:es)?" if re.search("(?:s|x|ch|sh)$", form) else "s?")


def mentions(tree: nodes.document, page: str, entries: list[Entry], linked_in: dict[str, list[str]]) -> list[Mention]:
    """Return the first mention of each entry in the prose of a page: those first that send readers to this page."""
    forms = {
        form: entry
        for entry in entries
        for form in entry.forms
        if any(place in page for place in linked_in.get(form, [""]))
    }
    longest = sorted(forms, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(f'({written(form)})' for form in longest)})(?![\w-])")
    found: dict[Entry, Mention] = {}
    for text in tree.findall(nodes.Text):
        if forms and is_prose(text):
            for match in pattern.finditer(text):
                entry = forms[longest[(match.lastindex or 0) - 1]]
                found.setdefault(entry, Mention(text, *match.span(), entry))
    return sorted(found.values(), key=lambda mention: mention.entry.page != page)[:MOST]


def is_prose(text: nodes.Text) -> bool:
    """Return whether a text runs in a paragraph: it is no heading, code, link or caption, and in no table."""
    node = text.parent
    while isinstance(node, INLINE):
        node = node.parent
    if not isinstance(node, nodes.paragraph):
        return False
    while node := node.parent:
        if isinstance(node, APART):
            return False
    return True


class LinkTerms(SphinxPostTransform):
    """Link mentions to the glossary."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Replace each text that mentions terms by its pieces, those links that are mentions."""
        page = self.env.docname
        entries, linked_in = self.env.__dict__.get("firstlight_glossary", ([], {}))
        if page in (GLOSSARY, self.config.root_doc):
            return
        found = mentions(self.document, page, entries, linked_in)
        found.sort(key=lambda mention: (id(mention.text), mention.start))
        for _text, group in groupby(found, key=lambda mention: id(mention.text)):
            pieces: list[nodes.Node] = []
            at = 0
            for text, start, end, entry in group:
                address = f"{to_root(self.env)}{GLOSSARY}.html#{entry.anchor}"
                link = nodes.reference("", text[start:end], refuri=address, internal=True, reftitle=entry.gist)
                link["classes"].append("fl-term")
                pieces += [nodes.Text(text[at:start]), link]
                at = end
            text.parent.replace(text, [*pieces, nodes.Text(text[at:])])


def setup(app: Sphinx) -> None:
    """Note the glossary, and link to it."""
    app.connect("env-updated", note_entries)
    app.add_post_transform(LinkTerms)
