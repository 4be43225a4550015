"""Link the first mention of a glossary's term on each page, and say in the glossary where else a term is used.

Which pages link what is known when all pages were read. So a changed glossary makes Sphinx write those pages anew whose
links change, and read none of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join, logging
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

MOST = 12  # links on a page, so that prose stays calm
ALSO = 3  # pages that an entry names beside the one that explains it
INLINE = nodes.emphasis | nodes.strong
APART = nodes.table | nodes.figure | nodes.topic | nodes.sidebar | addnodes.desc | addnodes.glossary


@dataclass(frozen=True)
class Entry:
    """A term of a glossary: where it stands, how it is written, its gist, and the page that explains it."""

    docname: str
    anchor: str
    forms: tuple[str, ...]
    gist: str
    page: str


@dataclass(frozen=True)
class Glossary:
    """The entries of one page, and for some forms the only places where they mean what it says."""

    entries: tuple[Entry, ...]
    linked_in: dict[str, list[str]]


@dataclass(frozen=True)
class Mention:
    """A stretch of a text, and the entry that it is a form of."""

    text: nodes.Text
    start: int
    end: int
    entry: Entry


# -- From a glossary to mentions on a page -------------------------------------------------------------------------


def items_in(tree: nodes.document) -> Iterable[nodes.definition_list_item]:
    """The terms of a glossary with their definitions."""
    for glossary in tree.findall(addnodes.glossary):
        yield from glossary.findall(nodes.definition_list_item)


def entries_in(tree: nodes.document, docname: str) -> Iterable[Entry]:
    """The entries of the glossaries on a page; an entry's first reference to a page names the one that explains it."""
    for item in items_in(tree):
        terms = list(item.findall(nodes.term))
        first = next(item.findall(nodes.paragraph), nodes.paragraph())
        words = " ".join(first.astext().split())
        sentence = re.match(r".+?[.!?](?=\s|$)", words)
        pages = (link for link in item.findall(addnodes.pending_xref) if link["reftype"] == "doc")
        yield Entry(
            docname,
            terms[0]["ids"][0],
            tuple(term.astext() for term in terms),
            sentence[0] if sentence else words,
            next((docname_join(docname, link["reftarget"]) for link in pages), ""),
        )


def written(form: str) -> str:
    """A pattern for a form: in the plural too, and at the beginning of a sentence, across the end of a line."""
    pattern = r"\s+".join(map(re.escape, form.split())).replace("'", "['’]")
    if form[0].islower():
        pattern = f"[{form[0]}{form[0].upper()}]{pattern[1:]}"
    if re.search("[^aeiou]y$", form):
        return f"{pattern[:-1]}(?:y|ies)"
    return pattern + ("(?:es)?" if re.search("(?:s|x|ch|sh)$", form) else "s?")


def mentions(tree: nodes.document, page: str, glossaries: Iterable[Glossary]) -> list[Mention]:
    """The first mention of each entry in the prose of a page: those first that send readers to this page."""
    forms = {
        form: entry
        for glossary in glossaries
        for entry in glossary.entries
        for form in entry.forms
        if any(place in page for place in glossary.linked_in.get(form, [""]))
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
    """Whether a text runs in a paragraph: it is no heading, code, link or caption, and in no table."""
    node = text.parent
    while isinstance(node, INLINE):
        node = node.parent
    if not isinstance(node, nodes.paragraph):
        return False
    while node := node.parent:
        if isinstance(node, APART):
            return False
    return True


# -- What the environment keeps ------------------------------------------------------------------------------------


def glossaries_of(env: BuildEnvironment) -> dict[str, Glossary]:
    """The glossary of each page that has one."""
    found: dict[str, Glossary] = env.__dict__.setdefault("firstlight_glossaries", {})
    return found


def linked_on(env: BuildEnvironment) -> dict[str, list[Entry]]:
    """The entries that each page links."""
    found: dict[str, list[Entry]] = env.__dict__.setdefault("firstlight_linked", {})
    return found


class Glossaries(EnvironmentCollector):
    """Keeps the glossaries in the environment."""

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        """Forget a page."""
        del app
        glossaries_of(env).pop(docname, None)
        linked_on(env).pop(docname, None)

    def merge_other(self, app: Sphinx, env: BuildEnvironment, docnames: Set[str], other: BuildEnvironment) -> None:
        """Take over what another process read."""
        del app
        glossaries_of(env).update({name: one for name, one in glossaries_of(other).items() if name in docnames})

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Note the glossary of a page that was read."""
        page = app.env.docname
        if entries := tuple(entries_in(doctree, page)):
            linked_in = json.loads(app.env.metadata[page].get("linked_in", "{}"))
            glossaries_of(app.env)[page] = Glossary(entries, linked_in)


def find_links(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Find what each page links, and name the pages to write anew: those that link otherwise now, and glossaries."""
    glossaries, linked = glossaries_of(env), linked_on(env)
    before = dict(linked)
    if env.__dict__.get("firstlight_terms") != glossaries:
        env.__dict__["firstlight_terms"] = dict(glossaries)
        linked.clear()
    calm = {app.config.root_doc, *glossaries}
    new = {
        page: [mention.entry for mention in mentions(env.get_doctree(page), page, glossaries.values())]
        for page in env.all_docs.keys() - linked.keys() - calm
        if glossaries
    }
    linked.update(new)
    warn(glossaries, {entry for entries in linked.values() for entry in entries})
    return [page for page in new if new[page] != before.get(page)] + list(glossaries if new else ())


def warn(glossaries: dict[str, Glossary], used: set[Entry]) -> None:
    """Tell, in every build until it is mended, of entries that no page links and of places for forms that are none."""
    for docname, glossary in glossaries.items():
        for entry in glossary.entries:
            if entry not in used:
                message = "no page links to %r: write it as the pages do, mend its linked_in, or take it out"
                logger.warning(message, entry.forms[0], location=docname, type="firstlight", subtype="terms")
        for form in glossary.linked_in.keys() - {form for entry in glossary.entries for form in entry.forms}:
            message = "linked_in names %r, which no entry is called"
            logger.warning(message, form, location=docname, type="firstlight", subtype="terms")


# -- On a page -----------------------------------------------------------------------------------------------------


class LinkTerms(SphinxPostTransform):
    """Link mentions to the glossary, before references are resolved, so that the page is what was searched."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Link the mentions of this page, or tell in a glossary which pages do."""
        page, glossaries = self.env.docname, glossaries_of(self.env)
        if page in glossaries:
            self.name_pages(page, glossaries[page])
        elif page in linked_on(self.env):
            found = mentions(self.document, page, glossaries.values())
            found.sort(key=lambda mention: (id(mention.text), mention.start))
            for _text, group in groupby(found, key=lambda mention: id(mention.text)):
                self.link(page, list(group))

    def link(self, page: str, found: list[Mention]) -> None:
        """Replace a text by its pieces, those links that are mentions."""
        text, at = found[0].text, 0
        pieces: list[nodes.Node] = []
        for mention in found:
            entry, word = mention.entry, nodes.Text(text[mention.start : mention.end])
            link = make_refnode(self.app.builder, page, entry.docname, entry.anchor, word, entry.gist)
            link["classes"].append("fl-term")
            pieces += [nodes.Text(text[at : mention.start]), link]
            at = mention.end
        text.parent.replace(text, [*pieces, nodes.Text(text[at:])])

    def name_pages(self, page: str, glossary: Glossary) -> None:
        """Add to each entry the pages that link it, beside the one that explains it."""
        for item, entry in zip(items_in(self.document), glossary.entries, strict=True):
            pages = sorted(other for other, linked in linked_on(self.env).items() if entry in linked)
            others = [other for other in pages if other != entry.page][:ALSO]
            for number, other in enumerate(others):
                title = nodes.Text(self.env.titles[other].astext())
                last = list(item.findall(nodes.paragraph))[-1]
                last += nodes.Text(", " if number else ", also in ")
                last += make_refnode(self.app.builder, page, other, None, title)


def setup(app: Sphinx) -> None:
    """Watch glossaries, and link to them."""
    app.add_env_collector(Glossaries)
    app.connect("env-updated", find_links)
    app.add_post_transform(LinkTerms)
