"""Run an example block by block, as its page does, and tell its code from its prose."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import sys
import threading
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

OUTPUT_LIMIT = 8_000  # bytes of printed output that a page may record
# What a downloaded script ends with; it is not of the page.
SAVING = """

# Where no window can open, the figures are saved.
from firstlight.display import save_figures

save_figures(__file__)
"""
MARK = "# ?%%"  # begins a block of text
# Where our own names stand is not what runs: a module of ours may move without hiding what was recorded.
OURS = re.compile(r"^(\s*)from firstlight[\w.]* import ", re.MULTILINE)
MEASURED = "# measured figure"  # a line of a block that draws what was measured


@dataclass(frozen=True)
class Block:
    """A piece of an example: prose, or code with the line at which it begins."""

    kind: str  # "text" or "code"
    text: str
    line: int


def split(source: str) -> list[Block]:
    r"""Split an example into its blocks: the docstring, then text under each ``# %%``, and code.

    Examples
    --------
    >>> [(block.kind, block.line) for block in split('"Title"\n\n# %%\n# Prose.\n\nx = 1\n')]
    [('text', 1), ('text', 3), ('code', 5)]
    """
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    body = ast.parse("\n".join(lines)).body
    docstring = body[:1] if body and isinstance(body[0], ast.Expr) and ast.get_docstring(ast.Module(body, [])) else []
    start = (docstring[0].end_lineno or 0) if docstring else 0
    blocks = [Block("text", "\n".join(lines[:start]), 1)] if docstring else []
    first = start
    while first < len(lines):
        kind, ends = ("text", "(?!#)") if re.match(MARK, lines[first]) else ("code", MARK)
        past = next((at for at in range(first + 1, len(lines)) if re.match(ends, lines[at])), len(lines))
        text = "\n".join(lines[first:past])
        if text.strip():
            blocks.append(Block(kind, text, first + 1))
        first = past
    return blocks


def lines_that_run(code: str, without: Collection[int] = ()) -> list[str]:
    """Return the lines of some code without comments of whole lines, blank ones, trailing space and these numbers.

    Lines are compared as text: syntax trees differ between versions of Python. The lines of a string all count: there,
    ``#define`` is no comment.
    """
    in_string: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            in_string.update(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    kept = []
    for number, line in enumerate(code.split("\n"), 1):
        runs = number in in_string or (line.strip() and not line.lstrip().startswith("#"))
        if runs and number not in without:
            kept.append(line if number in in_string else line.rstrip())
    return kept


def without_our_paths(code: str) -> str:
    """Return code in which an import of ours says what it imports, and not from where."""
    return OURS.sub(r"\1import ", code)


def digest(text: str) -> str:
    """Return sixteen hexadecimal digits that change when a text does."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def block_keys(source: str) -> list[str]:
    r"""For each code block, the digest of its code and of all code before it; our modules may move.

    Examples
    --------
    >>> old = block_keys('"Page"\n\nx = 1\n# %%\n# Prose.\n\nprint(x)\n')
    >>> new = block_keys('"Page"\n\nx = 1\n# %%\n# Other prose.\n\nprint(x + 1)\n')
    >>> [one == other for one, other in zip(old, new)]
    [True, False]
    """
    keys, so_far = [], ""
    for block in split(source):
        if block.kind == "code":
            so_far += without_our_paths("\n".join([*lines_that_run(block.text), ""]))
            keys.append(digest(so_far))
    return keys


def ends_with_bench(code: str) -> tuple[str, str] | None:
    """Return a Bench's name and ``show`` or ``plot``, if a block ends with ``bench.show()`` or ``bench.plot()``."""
    last = (lines_that_run(code) or [""])[-1]
    found = re.match(r"(?!plt\b)(\w+)\.(show|plot)\(\)\s*(#|$)", last)
    return (found[1], found[2]) if found else None


@dataclass(frozen=True)
class Run:
    """What an example left behind: its names, what each code block printed, and what some drew, by the block's key."""

    names: dict[str, Any]
    outputs: dict[str, str]
    figures: dict[str, str]


class ExampleError(Exception):
    """An example failed; the message holds its traceback, with the example's own lines."""


@contextmanager
def nothing_left(script: Path) -> Iterator[None]:
    """Raise an error if what runs meanwhile leaves threads or processes running, or files among the examples."""
    before = _left(script)
    yield
    if left := sorted(_left(script) - before):
        raise ValueError(f"{script.name} leaves {', '.join(left)} behind: wait for what it starts, and write elsewhere")


def _left(script: Path) -> set[str]:
    """Return what a script may leave: what runs, and files of the folder of all examples, but for an editor's own."""
    examples = script.resolve().parent.parent
    files = examples.rglob("[!.]*[!~]") if examples.name == "examples" else ()
    found = {file.relative_to(examples.parent).as_posix() for file in files if "__pycache__" not in file.parts}
    return found | {f"{type(one).__name__} {one.name!r}" for one in still_running()}


def still_running() -> set[Any]:
    """Return the threads and processes that Python waits for at its end, but for pools, which have no work by then."""
    of_threads, of_processes = (
        {*getattr(sys.modules.get(f"concurrent.futures.{name}"), threads, ())}
        for name, threads in (("thread", "_threads_queues"), ("process", "_threads_wakeups"))
    )
    processes = sys.modules.get("multiprocessing")
    children = processes.active_children() if processes and not of_processes else []
    waited_for = {one for one in (*threading.enumerate(), *children) if not one.daemon}
    return waited_for - of_threads - of_processes - {threading.main_thread()}


def run(path: Path) -> Run:
    """Run an example block by block; what it prints is kept, and shown too.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = Path(folder, "sum.py")
    ...     _ = script.write_text("total = 1 + 2; print(total)")
    ...     done = run(script)
    3
    >>> done.names["total"], list(done.outputs.values())
    (3, ['3'])
    """
    module = ModuleType("__main__")
    module.__file__ = str(path)
    outputs: dict[str, str] = {}
    figures: dict[str, str] = {}
    previous = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        source = path.read_text(encoding="utf-8")
        ast.parse(source, str(path))
        blocks = [block for block in split(source) if block.kind == "code"]
        # With the line numbers of the file, and without the __future__ of this one.
        placed = ["\n" * (block.line - 1) + block.text for block in blocks]
        codes = [compile(text, str(path), "exec", dont_inherit=True) for text in placed]
        for number, (block, code, key) in enumerate(zip(blocks, codes, block_keys(source), strict=True), 1):
            printed = _Tee()
            with redirect_stdout(printed):
                exec(code, module.__dict__)
            if ends_with_bench(block.text) is None:  # a table is drawn anew, from its numbers
                outputs[f"{number:02}:{key}"] = printed.getvalue()
            if MEASURED in block.text.splitlines():
                figures[key] = _drawn(key)
    except (Exception, SystemExit) as error:
        frames = traceback.TracebackException.from_exception(error)
        frames.stack = traceback.StackSummary.from_list([f for f in frames.stack if f.filename != __file__])
        raise ExampleError("".join(frames.format())) from None
    finally:
        sys.modules["__main__"] = previous
    return Run(module.__dict__, _within_limit(outputs), figures)


def _drawn(key: str) -> str:
    """Return the figure that was drawn last."""
    import matplotlib.pyplot as plt

    from firstlight.timing.figure import as_svg

    return as_svg(plt.gcf(), key)


class _Tee(io.StringIO):
    """Keeps what is printed and passes it on."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = sys.stdout

    def write(self, text: str) -> int:
        """Keep and show."""
        self.shown.write(text)
        return super().write(text)


def _within_limit(outputs: dict[str, str]) -> dict[str, str]:
    """Leave out what was not printed; cut the longest, and say so: the lines to remember are short, and last."""
    told = {key: data for key, text in outputs.items() if (data := text.rstrip().encode(errors="replace"))}
    kept, left = {}, OUTPUT_LIMIT
    for key, data in sorted(told.items(), key=lambda item: len(item[1])):
        cut = "\n… (cut)" if len(data) > left else ""
        kept[key] = (data[:left].decode(errors="ignore") + cut).removeprefix("\n" if not left else "")
        left = max(0, left - len(data))
    return {key: kept[key] for key in told}
