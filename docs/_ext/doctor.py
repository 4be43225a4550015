"""The page of the doctor, written from its rules and its cases, so that it says what the doctor says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from _ext.folds import folded
from firstlight import doctor
from firstlight.doctor import Case, case, cases, examine
from firstlight.doctor.errors import TABLE
from firstlight.doctor.report import table
from firstlight.doctor.rules import QUESTIONS, RULES, Rule
from firstlight.doctor.rules import UNEXPLAINED as NO_KNOWN_CAUSE

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HEALTHY = "So looks a machine that is well: every question is answered with yes, or does not concern it."
KINDS = {
    "note": "This is a note: the doctor mentions it, and it is no fault by itself.",
    "no-gpu": "This is an answer, not a fault: the exit status is 0.",
}


class Questions(SphinxDirective):
    """``.. doctor-questions::`` lists the questions in their order, each with a link to its causes."""

    def run(self) -> list[nodes.Node]:
        """One line a question."""
        lines = (
            nodes.reference("", words, refid=f"question-{name}", internal=True) for name, words in QUESTIONS.items()
        )
        return [listed(lines, nodes.enumerated_list)]


class Rules(SphinxDirective):
    """``.. doctor-rules::`` tells every cause, question by question, and what a healthy machine looks like."""

    def run(self) -> list[nodes.Node]:
        """One section a question, and in it one section a rule."""
        for path in Path(doctor.__file__).parent.rglob("*"):
            if path.suffix in (".py", ".json"):
                self.env.note_dependency(path)
        kept = [case(name) for name in cases()]
        told: list[nodes.Node] = []
        for name, words in QUESTIONS.items():
            if causes := [self.rule(each, kept) for each in RULES if each.question == name]:
                told.append(self.section(words, f"question-{name}", *causes))
        content = json.dumps(table(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        script = f'<script type="application/json" class="fl-causes">{content}</script>'
        others = (self.cause(code, one["title"], one["story"], one) for code, one in TABLE.items() if "title" in one)
        told.append(self.section("Errors that only their words tell", "question-error", *others))
        told.append(nodes.raw("", script, format="html"))
        told.append(self.section("If nothing of this fits", "question-none", self.rule(NO_KNOWN_CAUSE, kept)))
        if healthy := [part for each in kept if each.cause is None for part in (example(each), *printed(each))]:
            told.append(self.section("If nothing is wrong", "healthy", nodes.paragraph(text=HEALTHY), *healthy))
        return told

    def rule(self, rule: Rule, kept: list[Case]) -> nodes.section:
        """One cause that facts show: what the doctor sees and prescribes."""
        shown = sorted((each for each in kept if each.cause == rule.code), key=lambda each: each.name != rule.code)
        card = nodes.definition_list()
        if shown:
            finding = next(found for found in examine(shown[0].facts).findings if found.rule.code == rule.code)
            seen = listed(map(nodes.Text, finding.seen.evidence))
            others = (part for each in shown[1:] for part in printed(each, example(each)))
            card += item("For example", example(shown[0]), *printed(shown[0]), *others)
            card += item(f"What shows it there ({finding.seen.certainty})", seen)
            card += item("What to do there", *steps(finding.seen.fix))
        return self.cause(
            rule.code, rule.title, f"{rule.story}\n\n{KINDS.get(rule.kind, '')}", TABLE.get(rule.code, {}), *card
        )

    def cause(self, code: str, title: str, story: str, known: dict[str, Any], *card: nodes.Node) -> nodes.section:
        """One cause: how it shows itself, and what to do."""
        items = nodes.definition_list()
        if says := known.get("says", ()):
            items += item("You may see", listed((nodes.literal(text=text) for text in says[:2]), classes=["fl-says"]))
        items += item("What to do", *steps(known["fix"])) if "fix" in known else card
        if links := known.get("links"):
            items += item("More", listed(nodes.reference("", url, refuri=url) for url in links[:1]))
        section = self.section(
            title, code, *(nodes.paragraph(text=text) for text in story.split("\n\n") if text), items
        )
        section["classes"] += ["fl-cause"]
        section.insert(1, addnodes.index(entries=[("single", term, code, "main", None) for term in says]))
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


def listed(
    texts: Iterable[nodes.Node], kind: type[nodes.Element] = nodes.bullet_list, **attributes: Any
) -> nodes.Element:
    """A list; quotes and dashes stay as they were written."""
    lines = (nodes.list_item("", nodes.paragraph("", "", text)) for text in texts)
    return kind("", *lines, support_smartquotes=False, **attributes)


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


def example(shown: Case) -> nodes.paragraph:
    """A machine, and where its facts come from."""
    source = nodes.reference("", shown.source, refuri=shown.source)
    where = [nodes.Text("a real machine")] if shown.real else [nodes.Text("put together from "), source]
    return nodes.paragraph("", f"{shown.title} (", *where, nodes.Text(")"))


def printed(shown: Case, *before: nodes.Node) -> list[nodes.Node]:
    """The doctor's whole report on it, folded."""
    return list(folded([*before, block(examine(shown.facts).text(width=88), "none")], "What the doctor prints"))


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("doctor-questions", Questions)
    app.add_directive("doctor-rules", Rules)
