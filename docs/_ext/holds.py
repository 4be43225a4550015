"""``.. holds::`` beside a sentence: what it says in words of recorded numbers, as Python that is true while it is.

    Count both, and of the factor of a thousand, less than twenty is left.

    .. holds::

       each, once = median("small-copies/1 event a copy"), median("small-copies/4096 events a copy")
       10 < each / (once + median("collecting/np.stack")) < 20

What has no name is a claim; names are known in the blocks below, too. Where a claim is false, the build of its page
fails, and before that a test, which needs no build. Readers see nothing of it, on the page or in what they download.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from _ext.prose import example_by_bench, row_of
from _ext.records import project_root, warn
from firstlight.records.record import Record, read
from firstlight.records.slices import depends_on
from firstlight.timing.result import Timing
from firstlight.timing.specs import spec

H100 = "nvidia-h100-80gb-hbm3"  # whose numbers most sentences are about
BLOCK = re.compile(r"\n#?\n(?P<at>(?:# )? *)\.\. holds::(?P<body>(?:(?:\n#?)*\n(?P=at) +.*)+)")


class Known(dict[str, Any]):
    """What the claims of a page are written with, and the names that they have given."""

    def __init__(self, root: Path, example: str) -> None:
        given = {"row": self.row, "median": self.median, "printed": self.printed, "code": self.code}
        super().__init__(given, near=near, spec=spec)
        self.root, self.example = root, example
        self.examples = example_by_bench(root)
        self.records: dict[Path, Record] = {}

    def record(self, example: str, machine: str) -> Record:
        """Return the record of an example on a machine."""
        path = self.root / "records" / machine / f"{example}.json"
        if path not in self.records:
            self.records[path] = read(path)
        return self.records[path]

    def row(self, name: str, machine: str = H100) -> Timing:
        """Return a row by its experiment and its label or, where several share that, all of its name."""
        bench, _, label = name.partition("/")
        example = self.examples.get(bench)
        found = row_of(self.record(example, machine), bench, label) if example else None
        if not found:
            raise LookupError(f"{machine} has no row {name!r}")
        return found

    def median(self, name: str, machine: str = H100) -> float:
        """Return the median of a row in seconds."""
        return self.row(name, machine).median

    def printed(self, pattern: str, machine: str = H100, page: str = "") -> list[float]:
        """Return the numbers that the groups of a pattern find in what a page printed, this one if none is named.

        ``^`` begins a line.
        """
        said = "\n".join(self.record(page or self.example, machine).outputs.values())
        return [float(part) for found in re.finditer(pattern, said, re.MULTILINE) for part in found.groups()]

    def code(self, *names: str) -> list[Any]:
        """Return what the page's own code calls so, which runs without the rest of the page."""
        script, made = self.root / "examples" / f"{self.example}.py", dict[str, Any]()

        def gives(statement: ast.stmt) -> bool:
            stored = (node for node in ast.walk(statement) if isinstance(getattr(node, "ctx", None), ast.Store))
            return any(isinstance(node, ast.Name) and node.id in names for node in stored)

        statements = depends_on(script.read_text(encoding="utf-8"), gives)
        with redirect_stdout(StringIO()):
            exec(compile(ast.Module(statements, []), str(script), "exec", dont_inherit=True), made)
        return [made[name] for name in names]


def near(found: float, said: float, part: float) -> bool:
    """Return whether a number is what was said, but for a part of that."""
    return abs(found - said) <= part * abs(said)


def false_in(code: str, known: Known) -> Iterator[tuple[int, str]]:
    """Yield the line of each claim that does not hold, counted from 1, and what is wrong with it."""
    try:
        statements = ast.parse(code).body
    except SyntaxError as error:
        yield error.lineno or 1, f"a claim is no Python: {error.msg}"
        return
    for statement in statements:
        text = ast.unparse(statement)
        try:
            if not isinstance(statement, ast.Expr):
                exec(text, known)
            elif not eval(text, known):
                yield statement.lineno, f"this holds no more: {text}{_values(statement.value, known)}"
        except Exception as error:
            yield statement.lineno, f"nobody can tell whether this holds: {text}: {type(error).__name__}: {error}"


def _values(claim: ast.expr, known: Known) -> str:
    """Return what stands on the sides of a comparison, or between the brackets of a call, in numbers."""
    parts = claim.args if isinstance(claim, ast.Call) else []
    if isinstance(claim, ast.Compare):
        parts = [claim.left, *claim.comparators]
    texts = [ast.unparse(part) for part in parts if not isinstance(part, (ast.Constant, ast.GeneratorExp))]
    return "".join(f"; {text} is {eval(text, known)}" for text in texts)


def false_on(script: Path, root: Path) -> list[str]:
    """Return what does not hold of a page, each with its line in the script."""
    text, problems = script.read_text(encoding="utf-8"), []
    known = Known(root, f"{script.parent.name}/{script.stem}")
    for block in BLOCK.finditer(text):
        before = text.count("\n", 0, block.start("body"))
        for line, said in false_in(dedent(re.sub("^#( |$)", "", block["body"], flags=re.MULTILINE)), known):
            problems.append(f"{script.relative_to(root)}:{before + line}: {said}")
    return problems


class Holds(SphinxDirective):
    """``.. holds::`` says on the lines below what has to be true for the sentence above, and shows nothing."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Warn of each claim that does not hold, which fails a build."""
        example = self.env.docname.removeprefix("tutorials/")
        pages: Any = self.env.current_document  # as untyped as a dictionary
        known: Known = pages.setdefault("firstlight_holds", Known(project_root(self.env), example))
        for line, said in false_in("\n".join(self.content), known):
            warn(self.env, said, (self.env.docname, self.content_offset + line))
        for path in known.records:
            self.env.note_dependency(str(path))
        return []
