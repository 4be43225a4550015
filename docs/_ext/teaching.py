"""For somebody who teaches: plans in class time, a sheet of guesses, figures to print, and wrong answers to expect."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from _ext.course import course_of
from _ext.downloads import PUZZLES, imports
from _ext.navigation import FINDING, indented, links
from _ext.records import project_root
from firstlight.records.exercise import statements_of
from firstlight_kernels.puzzles.attempts import HINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

EXERCISE = 15  # minutes for a guess and an exercise, on top of a page's reading time
COLLECTOR = "tests/examples/wrong_answers.py"


def class_time(minutes: int) -> int:
    """Return the minutes that a page takes in class, in whole steps of five."""
    return -(-(minutes + EXERCISE) // 5) * 5


def plain(text: str) -> str:
    """Return text as reStructuredText reads it back, on one line."""
    return re.sub(r"([`<\\*_|])", r"\\\1", " ".join(text.split()))


def listed(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in reStructuredText."""
    lines = ["   * - " + "\n     - ".join(cell or "\\" for cell in row) for row in (head, *rows)]
    return "\n".join([f".. list-table:: {title}", "   :header-rows: 1", "", *lines, ""])


class Teaching(SphinxDirective):
    """What the four have in common: they write reStructuredText, which is read again when a script has changed."""

    def source(self, name: str) -> str:
        """Return the script of a page."""
        script = project_root(self.env) / "examples" / f"{name}.py"
        self.env.note_dependency(str(script))
        return script.read_text(encoding="utf-8")

    def parsed(self, text: str) -> list[nodes.Node]:
        """Return the nodes of reStructuredText on a page in Markdown."""
        return self.parse_text_to_nodes(f"````{{eval-rst}}\n{text}\n````")


class Plan(Teaching):
    """``{plan} Ninety minutes``, as a table with the time of day.

    Each line is a page, or ``short course 1 to 3``, or ``10 what else one does for ten minutes``.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], object]]] = {"start": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Add up what each line takes."""
        course, rows = course_of(self.env), list[list[str]]()
        hours, minutes = map(int, str(self.options.get("start", "0:00")).split(":"))
        at = 60 * hours + minutes
        for line in self.lines(course.short):
            if page := course.pages.get(line):
                source = self.source(line)
                _, *tried = imports(ast.Module(statements_of(source), []))
                also = [one for one in imports(ast.parse(source))[1:] if one not in tried]
                needs = ", ".join(tried) or "nothing"
                needs += f"; for the whole page {', '.join(also)}" if also else ""
                took, what = class_time(page.minutes), f":doc:`/tutorials/{line}`"
                rest = [links(page.needs, course) or "nothing", needs]
            else:
                took, what, rest = int(line.split()[0]), plain(line.partition(" ")[2]), ["", ""]
            rows.append([f"{at // 60}:{at % 60:02}", what, f"{took} min", *rest])
            at += took
        rows.append([f"{at // 60}:{at % 60:02}", "The end", "", "", ""])
        return self.parsed(listed(self.arguments[0], ("at", "what", "takes", "read before", "to install"), rows))

    def lines(self, short: list[str]) -> Iterator[str]:
        """Yield the lines, with the pages of the short course in place of their numbers."""
        for line in filter(None, self.content):
            if numbers := re.fullmatch(r"short course (\d+) to (\d+)", line):
                yield from short[int(numbers[1]) - 1 : int(numbers[2])]
            else:
                yield line


class GuessSheet(Teaching):
    """``{guess-sheet} Title`` asks for a guess on each page that it names, else on those of the short course."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Leave the most room for the answer."""
        course = course_of(self.env)
        rows = [[f":doc:`/tutorials/{name}`", course.pages[name].guess, ""] for name in self.content or course.short]
        table = listed(self.arguments[0], ("page", "question", "my guess"), rows)
        return self.parsed(f".. container:: fl-guesses\n\n{indented(table)}")


class FigureSheets(Teaching):
    """``{figure-sheets}`` shows the finding of each page that has one, below the page's question, a sheet each."""

    def run(self) -> list[nodes.Node]:
        """Write them in Markdown, as ``{finding}`` does."""
        names = [name for name in course_of(self.env).pages if FINDING.search(self.source(name))]
        sheet = "::::{{container}} fl-sheet\n{{doc}}`/tutorials/{0}`\n```{{finding}} {0}\n```\n::::"
        return self.parse_text_to_nodes("\n\n".join(map(sheet.format, names)))


class WrongAnswers(Teaching):
    """``{wrong-answers}`` lists what the tests of the pages give to each check, and what the check says to it."""

    def run(self) -> list[nodes.Node]:
        """Let the pages' own checks answer, in a process of their own; a build that runs no page asks none."""
        if not self.config.sphinx_gallery_conf["plot_gallery"]:
            return []
        root = project_root(self.env)
        for test in (root / "tests/examples").glob("*.py"):
            self.env.note_dependency(str(test))
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder, "said.json")
            command = [sys.executable, COLLECTOR, str(kept)]
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
            if done.returncode:
                raise self.severe(f"{COLLECTOR} failed: {done.stderr[-1000:]}")
            said: dict[str, list[tuple[str, str]]] = json.loads(kept.read_text(encoding="utf-8"))
        text = ""
        for name in course_of(self.env).pages:
            self.source(name)
            heads = ("puzzle", "what to ask") if name == PUZZLES else ("what was written", "what the page says")
            if found := HINTS.items() if name == PUZZLES else said.get(name, []):
                rows = [[plain(wrong), plain(hint)] for wrong, hint in found]
                text += listed(f":doc:`/tutorials/{name}`", heads, rows) + "\n"
        return self.parsed(f".. container:: no-search\n\n{indented(text)}")
