"""The search: the text of each page by its sections, and one index of all words, which search.js reads.

Both are scripts that hand over data, because a page that was opened from a folder may load nothing else.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from docutils import nodes
from sphinx import addnodes

from _ext import doctor
from _ext.course import course_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx

# What both sides take a text apart with: its words, and an ending that is no part of a stem.
WORD = r"[\p{L}\p{N}_]+"
ENDING = r"^(.{3,}?)(?:ibilit(?:y|ies)|ib(?:le|ly)|ations?|ments?|[ae]nces?|ness|ings?|ers?|ed|ly|ies|es|s|e|y)$"
# Words that say nothing of what is asked, and with which people ask it.
STOP = """
    a am an and any are as at be been being but by can could did do does for from get had has have how i if in into is
    it its just me my not of on or so some than that the their then there these this to was we what when where which
    while who why will with would you your
    anyone anything ask fix get gets getting give given gives got happen happens help idea kind
    know mean means please possible problem question reason said say says see seem seems something sometimes still
    strange sure thanks think tried try trying understand use used uses using want whether wonder
"""
STOP_WORDS = set(STOP.split())
NAME = r"^(?:\D.+|\d{3,5}|\dd)$"  # what people ask for: of numbers, those like 5090 and 2D
LEVELS = [1, 2, 3, 5, 8, 13, 21, 34, 55]  # how often a word stands in a page, roughly: a letter in the index
WEIGHTS = {"title": 5, "line": 5, "keywords": 2, "heads": 3, "text": 1}
CAUSE = 0.8  # a cause answers only who has that error
# Pages that speak of all others answer few questions themselves.
ABOUT_OTHERS, LOWER = {"doctor", "whats_new", "claims", "where_from", "machines", "how_we_measure", "classroom"}, 0.7
SKIPPED = (nodes.raw, nodes.math_block, nodes.comment, nodes.image, addnodes.index, addnodes.toctree)

Part = tuple[str, str, str]  # a section: its anchor, its heading, and its text, a block a line
CODE = "\t"  # begins a block that a computer wrote or reads, which no hit quotes


@dataclass
class Document:
    """What the search finds: a page, an entry of the glossary, or a cause that the doctor knows."""

    url: str
    title: str
    line: str = ""
    keywords: str = ""
    parts: list[Part] = field(default_factory=list)
    factor: float = 1.0

    @property
    def prose(self) -> str:
        """Return its text without code, whose words say less of what it is about."""
        return "\n".join(line for part in self.parts for line in part[2].split("\n") if not line.startswith(CODE))

    def counts(self) -> Counter[str]:
        """Return how much each word counts here."""
        heads = " ".join(part[1] for part in self.parts)
        said = {"title": self.title, "line": self.line, "keywords": self.keywords, "heads": heads, "text": self.prose}
        found: Counter[str] = Counter()
        for kind, text in said.items():
            for word in words(text):
                found[word] += WEIGHTS[kind]
        return found


def words(text: str) -> Iterator[str]:
    """Return the stems of the words that count, and of the parts of a name; search.js does the same.

    Examples
    --------
    >>> list(words("Why is training slower with pin_memory?"))
    ['train', 'slow', 'pin_memor', 'pin', 'memor']
    """
    for found in re.findall(r"\w+", unicodedata.normalize("NFKC", text.lower())):
        name = found.strip("_")
        parts = [part for part in name.split("_") if part]
        for word in [name, *parts] if len(parts) > 1 else parts:
            if word not in STOP_WORDS and len(word) < 40 and re.search(NAME, word):
                yield re.sub(ENDING, r"\1", word)


def plain(node: nodes.Node) -> str:
    """Return the words of a paragraph in one line, without HTML."""
    texts = (text.astext() for text in node.findall(nodes.Text) if not isinstance(text.parent, nodes.raw))
    return " ".join("".join(texts).split())


def parts_of(page: nodes.document) -> list[Part]:
    """Return the sections of a page that was resolved, entries and names of the reference among them."""
    found: list[tuple[str, str, list[str]]] = [("", "", [])]

    def read(node: nodes.Node) -> None:
        if isinstance(node, SKIPPED) or (isinstance(node, nodes.Element) and "no-search" in node["classes"]):
            return
        if isinstance(node, nodes.title) and isinstance(node.parent, nodes.section):
            found.append((node.parent["ids"][0], plain(node), []))
        elif isinstance(node, (nodes.term, addnodes.desc_signature)) and node["ids"]:
            is_name = isinstance(node, addnodes.desc_signature)
            found.append((node["ids"][0], node["ids"][0] if is_name else plain(node), []))
        elif isinstance(node, nodes.TextElement):
            found[-1][2].append(CODE * node.tagname.endswith("_block") + plain(node))
        else:
            for child in node.children:
                read(child)

    read(page)
    told = ((anchor, head, "\n".join(block for block in blocks if block.strip())) for anchor, head, blocks in found)
    return [part for part in told if part[1] or part[2]]


def file_of(app: Sphinx, page: str) -> Path:
    """Return the script that has the text of a page."""
    return Path(app.outdir, "_static/found", page.replace("/", "~") + ".js")


def write_parts(app: Sphinx, page: str, _template: str, _context: object, doctree: nodes.document | None) -> None:
    """Write the text of a page that is written, which the search shows sentences of."""
    if doctree and "nosearch" not in app.env.metadata[page]:
        content = json.dumps([app.builder.get_target_uri(page), parts_of(doctree)], ensure_ascii=False)
        file_of(app, page).parent.mkdir(parents=True, exist_ok=True)
        file_of(app, page).write_text(f"search.keep({content});\n", encoding="utf-8")


def documents(app: Sphinx) -> Iterator[Document]:
    """Return all that can be found."""
    course, env = course_of(app.env), app.env
    for page in sorted(env.found_docs):
        if not (file := file_of(app, page)).is_file() or "nosearch" in env.metadata[page]:
            continue
        url, parts = json.loads(file.read_text(encoding="utf-8")[len("search.keep(") : -len(");\n")])
        entries = [part for part in parts if part[0].startswith("term-")]
        names: list[tuple[str, str]] = []
        for anchor, head, text in entries:
            names.append((anchor, head))
            if text:  # the definition stands below the last of its names
                title, line = f"Glossary: {', '.join(name for _, name in names)}", text.partition("\n")[0]
                yield Document(f"{url}#{names[0][0]}", title, line, parts=[("", "", text)], factor=LOWER)
                names = []
        about, line = env.metadata[page], env.metadata[page].get("first words", "")
        keywords = about.get("keywords", "")
        if tutorial := course.pages.get(page.removeprefix("tutorials/")):
            chapter = env.titles[f"tutorials/{page.split('/')[1]}/index"].astext()
            line, keywords = f"{chapter}, {tutorial.name}: {tutorial.line}", tutorial.keywords
        factor = LOWER if page in ABOUT_OTHERS or env.toctree_includes.get(page) else 1
        others = [part for part in parts if part not in entries]
        yield Document(url, env.titles[page].astext(), line, keywords, others, factor)
    for cause in doctor.causes(app):
        first_sentence = re.split(r"(?<=[.?]) ", " ".join(cause.story.split()), maxsplit=1)[0]
        yield Document(f"{cause.page}.html", cause.title, first_sentence, parts=[("", "", cause.text)], factor=CAUSE)


def index(found: Iterable[Document]) -> dict[str, Any]:
    """Return what the search reads: the documents, their lengths, and for each word where it stands and how often."""
    shown, lengths, postings = [], [], dict[str, list[tuple[int, int, bool]]]()
    for at, document in enumerate(found):
        shown.append([document.url, document.title, document.line, document.factor])
        lengths.append(sum(1 for _ in words(document.prose)))
        about = {*words(f"{document.title} {document.line} {document.keywords}")}
        for word, count in document.counts().items():
            postings.setdefault(word, []).append((at, count, word in about))
    lines = [f"{word} {','.join(packed(places))}" for word, places in sorted(postings.items())]
    rules = {"word": WORD, "name": NAME, "ending": ENDING, "stop": STOP.split(), "levels": LEVELS}
    return {"documents": shown, "lengths": lengths, "words": "\n".join(lines), **rules}


def packed(places: Iterable[tuple[int, int, bool]]) -> Iterator[str]:
    """Return places as their distances to base 36, each with a letter if the word stands there more than once.

    A word that says what the place is about has an exclamation mark.

    Examples
    --------
    >>> list(packed([(3, 1, False), (40, 6, True)]))
    ['3', '11D!']
    """
    before = 0
    for at, count, about in places:
        level = max(level for level, least in enumerate(LEVELS) if count >= least)
        yield f"{np.base_repr(at - before, 36).lower()}{chr(ord('A') + level) if level else ''}{'!' if about else ''}"
        before = at


def replace_sphinxs(app: Sphinx) -> None:
    """Let Sphinx write no index and no page of its own."""
    if app.builder.format == "html":
        app.builder.search = False  # type: ignore[attr-defined]


def lay(app: Sphinx) -> None:
    """Write the index, when all pages are there."""
    content = json.dumps(index(documents(app)), ensure_ascii=False, separators=(",", ":"))
    Path(app.outdir, "_static/search-index.js").write_text(f"firstlightIndex = {content};\n", encoding="utf-8")
