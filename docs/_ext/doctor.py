"""The page of the doctor and one for each cause, from its rules and cases, so that they say what the doctor says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import firstlight_doctor as doctor
from _ext.folds import folded
from _ext.meta import LONGEST
from firstlight_doctor import Case, case, errors, examine
from firstlight_doctor.errors import TABLE
from firstlight_doctor.report import remedies, title_of
from firstlight_doctor.rules import QUESTIONS, RULES, UNEXPLAINED, Finding, Rule

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Of a report: the questions up to the first that is broken, the diagnosis, what shows it, and the commands.
CUT = re.compile(r"(?s)(\n✗[^\n]*\n).*?(Diagnosis[^\n]*\n).*?(  Seen here:.*\n    \$ [^\n]*).*")
PAGE = "doctor"  # that lists all causes
WHEELS = "install.html#which-wheel-for-which-driver"


@dataclass(frozen=True)
class Cause:
    """A cause that the doctor knows."""

    code: str
    title: str
    story: str
    known: dict[str, Any]  # what the table of errors says of it

    @property
    def page(self) -> str:
        """Return the name of its page."""
        return f"{PAGE}/{self.code}"

    @property
    def says(self) -> list[str]:
        """Return how it shows itself; of short phrases few are an error by themselves."""
        says: list[str] = self.known.get("says", [])
        return ([text for text in says if len(text) > 8] or says)[:8]

    @property
    def text(self) -> str:
        """Return what the search reads of it: all words of its phrases, each once."""
        phrases = [*self.known.get("says", []), *self.known.get("hints", [])]
        words = dict.fromkeys(word for phrase in phrases for word in phrase.lower().replace("…", " ").split())
        return " ".join([self.story, *self.known.get("fix", []), *words])


@cache
def by_question() -> dict[tuple[str, str], list[Cause]]:
    """Return all causes under the questions that they break, each with its words."""

    def of(rule: Rule) -> Cause:
        return Cause(rule.code, rule.title, rule.story, TABLE.get(rule.code, {}))

    named = [Cause(code, one["title"], one["story"], one) for code, one in TABLE.items() if "title" in one]
    named.sort(key=lambda cause: cause.title)
    found = {(name, words): [of(rule) for rule in RULES if rule.question == name] for name, words in QUESTIONS.items()}
    for name, words, kind in (("own", "Errors of your own program", "your code"), ("error", "Other errors", None)):
        found[name, words] = [cause for cause in named if cause.known.get("kind") == kind]
    found["none", "If nothing of this fits"] = [of(UNEXPLAINED)]
    return {question: some for question, some in found.items() if some}


def causes(app: Sphinx) -> list[Cause]:
    """Return all causes, if the site has the page that lists them."""
    listed = f"doctor-{UNEXPLAINED.code}" in app.env.domains.standard_domain.labels
    return [cause for some in by_question().values() for cause in some] if listed else []


class Rules(SphinxDirective):
    """``.. doctor-rules::`` shows a report, what is met most often, and lists every cause, question by question."""

    def run(self) -> list[nodes.Node]:
        """One section a question; a cause keeps the address that it once had here."""
        for path in Path(doctor.__file__).parent.rglob("*.*[!c]"):  # but what Python compiled
            self.env.note_dependency(path)
        sample = case("no-driver")
        faults = (each.code for each in RULES if each.kind == "problem")  # not what only a program's words tell
        often = sorted(faults, key=lambda code: -TABLE[code].get("often", 0))[:5]
        told: list[nodes.Node] = [
            nodes.paragraph(text=f"Its report, in part, on {sample.title[0].lower()}{sample.title[1:]} (made up):"),
            block(CUT.sub(r"\1…\n\2\3", examine(sample.facts).text(width=88)), "none"),
            nodes.paragraph(text="The most common causes:"),
            listed((link(code) for code in often), classes=["fl-often"]),
            nodes.paragraph(text="All causes, by the question at which the doctor stops:"),
        ]
        for (name, words), some in by_question().items():
            lines = listed((link(cause.code) for cause in some), classes=["fl-causes"])
            for line, cause in zip(lines.children, some, strict=True):
                line["ids"] = [cause.code]  # type: ignore[index]
                labels = self.env.domains.standard_domain.labels
                labels[f"doctor-{cause.code}"] = (cause.page, "", cause.title)
            told.append(section(words, f"question-{name}", lines))
        return told


def link(code: str) -> nodes.reference:
    """Return a link from the page that lists all causes to the one of a cause."""
    return nodes.reference("", title_of(code) if code in TABLE else UNEXPLAINED.title, refuri=f"{PAGE}/{code}.html")


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Return a page for each cause; none is a document, so that no build has to read it."""
    found = causes(app)
    for at, cause in enumerate(found):
        near = {"prev": found[max(at - 1, 0) : at], "next": found[at + 1 : at + 2]}
        words = f"{cause.says[0]} – {cause.title}" if cause.says else cause.title
        described = escape(shorten(f"{cause.title}. {cause.story}", LONGEST, placeholder=" …"))
        context = {
            "title": escape(words),
            "body": app.builder.render_partial(sheet(app, cause))["fragment"],  # type: ignore[attr-defined]
            "parents": [{"link": f"../{PAGE}.html", "title": "Doctor"}],
            "metatags": f'<meta name="description" content="{described}">\n',
            "markdown": f"{cause.code}.md",
            "meta": {"html_theme.sidebar_secondary.remove": "true"},
        }
        for arrow, some in near.items():
            context[arrow] = {"link": f"{some[0].code}.html", "title": escape(some[0].title)} if some else None
        yield cause.page, context, "page.html"


def sheet(app: Sphinx, cause: Cause) -> nodes.section:
    """Return what the page of a cause says: how it shows itself, and what to do, for each machine that had it."""
    page = section(cause.title, cause.code, *(nodes.paragraph(text=text) for text in cause.story.split("\n\n") if text))
    if cause.says:
        says = (nodes.literal(text=text) for text in cause.says)
        page += section("What it looks like", "what-it-looks-like", listed(says, classes=["fl-says"]))
    had, fix = remedies(cause.code), cause.known.get("fix")
    if fix:
        page += section("What to do", "what-to-do", *steps(fix))
    again = ("For example", "for-example") if fix else ("What to do", "what-to-do")
    if len(had) == 1:
        page += section("How to tell", "how-to-tell", *seen_on(had[0][1]))
        page += section(*again, *steps(had[0][0]), *reports_on(had[0][1]))
    elif had:
        page += section(*again, *(machine_and_remedy(*one) for one in had))
    if links := cause.known.get("links"):
        reported = (nodes.reference("", url.removeprefix("https://"), refuri=url) for url in links[:4])
        page += section("Where it was reported", "where-it-was-reported", listed(reported))
    titles = {name: app.env.titles.get(f"tutorials/{name}") for name in cause.known.get("pages", ())}
    read = [(f"../tutorials/{name}.html", title.astext()) for name, title in titles.items() if title]
    read += [(f"{code}.html", title_of(code)) for code in cause.known.get("see", ())]
    if any(re.search("whl/cu|driver 525", step) for remedy in (fix or (), *dict(had)) for step in remedy):
        read.append((f"../{WHEELS}", "Which wheel for which driver and card"))
    if links := [nodes.reference("", title, refuri=address) for address, title in read]:
        page += section("What to read", "what-to-read", listed(links))
    ask = nodes.reference("", "Paste your error, or let the doctor look", refuri=f"../{PAGE}.html")
    page += nodes.paragraph("", "Is it something else? ", ask, nodes.Text("."))
    return page


def machine_and_remedy(fix: Iterable[str], machines: list[tuple[Case, Finding]]) -> nodes.section:
    """Return a section on the machines that have one remedy, titled with the words that tell them, and that remedy."""
    title = f"If {', or '.join(each.when for each, _ in machines)}"
    return section(title, f"on-{machines[0][0].name}", *steps(fix), *seen_on(machines), *reports_on(machines))


def seen_on(machines: list[tuple[Case, Finding]]) -> Iterator[nodes.Node]:
    """Return what shows a cause on each of some machines."""
    for machine, found in machines:
        yield nodes.paragraph(text=f"{machine.title}. What the doctor sees there ({found.certainty}):")
        yield listed(map(nodes.Text, found.evidence))


def reports_on(machines: list[tuple[Case, Finding]]) -> Iterator[nodes.Node]:
    """Return the doctor's whole report on each of some machines, folded, with where its facts come from."""
    for machine, _ in machines:
        source = nodes.reference("", machine.source, refuri=machine.source)
        where = [nodes.Text("A real machine.")] if machine.real else [nodes.Text("Put together from "), source]
        report = block(examine(machine.facts).text(width=84), "none")  # what a fold has room for
        yield from folded([nodes.paragraph("", "", *where), report], f"What the doctor prints: {machine.title}")


def section(title: str, name: str, *content: nodes.Node) -> nodes.section:
    """Return a section that addresses can lead to; quotes and dashes stay as they were written."""
    made = nodes.section("", nodes.title(text=title), *content, ids=[name], names=[name])
    made["support_smartquotes"] = False
    return made


def listed(texts: Iterable[nodes.Node], **attributes: Any) -> nodes.bullet_list:
    """A list; quotes and dashes stay as they were written."""
    lines = (nodes.list_item("", nodes.paragraph("", "", text)) for text in texts)
    return nodes.bullet_list("", *lines, support_smartquotes=False, **attributes)


def block(text: str, language: str) -> nodes.literal_block:
    """Text in its own spacing."""
    return nodes.literal_block(text, text, language=language, force=True)


def steps(fix: Iterable[str]) -> Iterator[nodes.Node]:
    """Sentences as paragraphs; commands that follow each other as one block to copy."""
    for commands, lines in groupby(fix, key=lambda line: line.startswith("$ ")):
        if commands:
            yield block("\n".join(line[2:] for line in lines), "bash")
        else:
            yield from (nodes.paragraph(text=line) for line in lines)


def known() -> dict[str, Any]:
    """Return all that a browser needs to find the causes of an error as the doctor does."""
    table = json.loads(Path(doctor.__file__).with_name("causes.json").read_text("utf-8"))
    causes = [
        {"code": code, "title": title_of(code)}
        | {key: cause[key] for key in ("often", "says", "hints", "unless", "where") if key in cause}
        for code, cause in table["causes"].items()
    ]
    settings = ("tail", "gap", "min_idf", "min_share", "min_own_letters", "min_lead", "at_home")
    numbers = {name: getattr(errors, name.upper()) for name in settings}
    patterns = {name: getattr(errors, name.upper()).pattern for name in ("word", "ansi_escape", "decoration")}
    words = {"weights": errors.WEIGHTS, "word_edge": errors.WORD_EDGE, "stop_words": sorted(errors.STOP_WORDS)}
    return {"causes": causes, "lists": table["lists"], "places": errors.PLACES, **numbers, **patterns, **words}


def lay(app: Sphinx) -> None:
    """Write the table that the page's script reads; not as JSON, which a page opened from a folder may not load."""
    content = json.dumps(known(), ensure_ascii=False, separators=(",", ":"))
    Path(app.outdir, "_static/doctor-causes.js").write_text(f"firstlightCauses = {content};\n", encoding="utf-8")
