"""The page of the doctor, written from its rules and its cases, so that it says what the doctor says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

import firstlight_doctor as doctor
from _ext.folds import folded
from firstlight_doctor import Case, case, cases, errors, examine
from firstlight_doctor.errors import TABLE
from firstlight_doctor.report import title_of
from firstlight_doctor.rules import QUESTIONS, RULES, UNEXPLAINED, Rule

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Of a report: the questions up to the first that is broken, the diagnosis, what shows it, and the commands.
CUT = re.compile(r"(?s)(\n✗[^\n]*\n).*?(Diagnosis[^\n]*\n).*?(  Seen here:.*\n    \$ [^\n]*).*")


class Rules(SphinxDirective):
    """``.. doctor-rules::`` shows a report, what is met most often, and every cause, question by question."""

    def run(self) -> list[nodes.Node]:
        """One section a question, and in it one section a rule."""
        for path in Path(doctor.__file__).parent.rglob("*.*[!c]"):  # but what Python compiled
            self.env.note_dependency(path)
        kept, sample = [case(name) for name in cases()], case("no-driver")
        faults = (each.code for each in RULES if each.kind == "problem")  # not what only a program's words tell
        often = sorted(faults, key=lambda code: -TABLE[code].get("often", 0))[:5]
        told: list[nodes.Node] = [
            nodes.paragraph(text=f"Its report on {sample.title[0].lower()}{sample.title[1:]}, in part:"),
            block(CUT.sub(r"\1…\n\2\3", examine(sample.facts).text(width=88)), "none"),
            nodes.paragraph(text="The most common causes:"),
            listed((nodes.reference("", title_of(code), refid=code) for code in often), classes=["fl-often"]),
            nodes.paragraph(text="All causes, by the question at which the doctor stops:"),
        ]
        for name, words in QUESTIONS.items():
            if causes := [self.rule(each, kept) for each in RULES if each.question == name]:
                told.append(self.section(words, f"question-{name}", *causes))
        named = sorted((one["title"], code) for code, one in TABLE.items() if "title" in one)
        others = (self.cause(code, title, TABLE[code]["story"], TABLE[code]) for title, code in named)
        last = self.section("If nothing of this fits", "question-none", self.rule(UNEXPLAINED, kept))
        return [*told, self.section("Errors known by their message alone", "question-error", *others), last]

    def rule(self, rule: Rule, kept: list[Case]) -> nodes.section:
        """One cause that facts show: what the doctor sees and prescribes."""
        shown = sorted((each for each in kept if each.cause == rule.code), key=lambda each: each.name != rule.code)
        card = nodes.definition_list()
        if shown:
            seen = next(found for found in examine(shown[0].facts).findings if found.rule.code == rule.code)
            card += item("For example", *(part for each in shown for part in printed(each)))
            card += item(f"What shows it there ({seen.certainty})", listed(map(nodes.Text, seen.evidence)))
            card += item("What to do there", *steps(seen.fix))
        return self.cause(rule.code, rule.title, rule.story, TABLE.get(rule.code, {}), *card)

    def cause(self, code: str, title: str, story: str, known: dict[str, Any], *card: nodes.Node) -> nodes.section:
        """One cause: how it shows itself, and what to do."""
        items = nodes.definition_list()
        if says := known.get("says", ()):
            items += item("You may see", listed((nodes.literal(text=text) for text in says[:2]), classes=["fl-says"]))
        items += item("What to do", *steps(known["fix"])) if "fix" in known else card
        if links := known.get("links"):
            items += item("More", listed(nodes.reference("", url, refuri=url) for url in links[:1]))
        told = (nodes.paragraph(text=text) for text in story.split("\n\n") if text)
        section = self.section(title, code, *told, items)
        section["classes"] += ["fl-cause"]
        section.insert(1, addnodes.index(entries=[("single", term, code, "main", None) for term in says[:5]]))
        return section

    def section(self, title: str, name: str, *content: nodes.Node) -> nodes.section:
        """A section that pages and addresses can lead to; quotes and dashes stay as they were written."""
        section = nodes.section("", nodes.title(text=title), *content, ids=[name], names=[f"doctor-{name}"])
        section["support_smartquotes"] = False
        self.state.document.note_explicit_target(section)
        return section


def item(term: str, *body: nodes.Node) -> nodes.definition_list_item:
    """A labelled part of a section."""
    return nodes.definition_list_item("", nodes.term(text=term), nodes.definition("", *body))


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


def printed(shown: Case) -> list[nodes.Node]:
    """A machine, folded: where its facts come from, and the doctor's whole report on it."""
    source = nodes.reference("", shown.source, refuri=shown.source)
    where = [nodes.Text("A real machine.")] if shown.real else [nodes.Text("Put together from "), source]
    report = block(examine(shown.facts).text(width=84), "none")  # what a fold in a fold has room for
    return folded([nodes.paragraph("", "", *where), report], f"What the doctor prints: {shown.title}")


class FoldCauses(SphinxPostTransform):
    """Make the title of each cause the line that opens it, without a script too; the address stays outside."""

    default_priority: ClassVar[int] = 220
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Put each title into a summary."""
        for cause in (node for node in self.document.findall(nodes.section) if "fl-cause" in node["classes"]):
            title = next(cause.findall(nodes.title))
            before, after = '<details class="fl-fold"><summary>', "</summary>"
            title.replace_self([nodes.raw("", before, format="html"), title, nodes.raw("", after, format="html")])
            cause += nodes.raw("", "</details>", format="html")


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


def lay(app: Sphinx, error: Exception | None) -> None:
    """Write the table that the page's script reads; not as JSON, which a page opened from a folder may not load."""
    if not error and app.builder.format == "html":
        content = json.dumps(known(), ensure_ascii=False, separators=(",", ":"))
        Path(app.outdir, "_static/doctor-causes.js").write_text(f"firstlightCauses = {content};\n", encoding="utf-8")
