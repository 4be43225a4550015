"""Which parts of our packages a script imports, and a digest of each.

When the digest changes, the script's record has drifted. A part is a folder (``timing``) or a module (``devices``)
right under ``firstlight``, or one of the packages beside it (``firstlight_imaging`` is ``imaging``).
"""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from firstlight.records.runner import digest, lines_that_run, without_our_paths

BESIDE = ("kernels", "imaging")  # with firstlight_ before the name
#: Where each package is, by the name behind ``firstlight_``; only those that are installed.
PACKAGES = {"": Path(__file__).parents[1]} | {
    name: Path(found.origin).parent
    for name in BESIDE
    if (found := find_spec(f"firstlight_{name}")) is not None and found.origin
}
LAZY = ("timing", "devices")  # whose names are those of ``from firstlight import …``
IMPORT = re.compile(rf"^\s*(?:from|import) firstlight(?:\.(\w+)|_({'|'.join(BESIDE)})\b| import)", re.MULTILINE)


def part_digests(source: str) -> dict[str, str]:
    """Return the digest of each part that a script imports, itself or through others, by name.

    Examples
    --------
    >>> list(part_digests("from firstlight_kernels import trace"))
    ['kernels']
    """
    found: dict[str, str] = {}
    waiting = _imports(source)
    while waiting:
        name = waiting.pop()
        if name not in found and (files := files_of(name)):
            found[name] = _digest(files)
            waiting |= _imports("\n".join(file.read_text(encoding="utf-8") for file in files))
    return dict(sorted(found.items()))


def files_of(part: str) -> tuple[Path, ...]:
    """Return the files of a part, data among them."""
    if part in BESIDE and part not in PACKAGES:
        return ()
    folder = PACKAGES.get(part, PACKAGES[""] / part)
    files = (path for path in folder.rglob("*") if path.suffix in (".py", ".toml", ".json"))
    return tuple(sorted(files)) if folder.is_dir() else tuple(folder.parent.glob(f"{part}.py"))


def _imports(source: str) -> set[str]:
    """Return the parts that a source imports something from; our imports are absolute."""
    named = {inside or beside for inside, beside in IMPORT.findall(source)}
    return named - {""} | (set(LAZY) if "" in named else set())


@cache
def _digest(files: tuple[Path, ...]) -> str:
    """Return the digest of what runs in files: neither comments nor docstrings count."""
    texts = (file.read_text(encoding="utf-8").replace("\r\n", "\n") for file in files)
    return digest(
        "".join(_without_docstrings(t) if f.suffix == ".py" else t for f, t in zip(files, texts, strict=True))
    )


def _without_docstrings(source: str) -> str:
    """Return the lines of a module that run."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return without_our_paths("\n".join(lines_that_run(source, without=docstrings)))
