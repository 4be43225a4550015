"""Which modules of ours a script stands on, found in its text without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from firstlight.records.runner import digest, lines_that_run

TRACKED = ("kernels", "imaging")  # when one of these changes, the records of the scripts that import it drift
PACKAGE = Path(__file__).parents[1]


def imported_modules(source: str) -> dict[str, str]:
    """Return the digests of the modules of ``kernels`` and ``imaging`` a script imports, itself or through others."""
    tracked = tuple(f"firstlight.{name}" for name in TRACKED)
    return {name: found for name, found in closure(source).items() if name.startswith(tracked)}


def closure(source: str) -> dict[str, str]:
    """Return the digests of all our modules that a script imports, itself or through others, with data beside them."""
    found: dict[str, str] = {}
    waiting = list(imports_of(source))
    while waiting:
        name = waiting.pop()
        file = module_file(name)
        if name not in found and file is not None:
            text = file.read_text(encoding="utf-8")
            data = file.with_suffix(".toml")
            beside = data.read_text(encoding="utf-8") if data.is_file() else ""
            found[name] = digest(without_docstrings(text) + beside)
            waiting.extend(imports_of(text))
    return dict(sorted(found.items()))


def imports_of(source: str) -> Iterator[str]:
    """Yield every module of ours that a source imports something from; our imports are absolute."""
    for node in import_nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("firstlight."))
        elif (node.module or "").split(".")[0] == "firstlight":
            yield from (provider(str(node.module), alias.name) for alias in node.names)


parsed = cache(ast.parse)  # both functions below ask for it, and a build asks once for each page and each record


@cache
def import_nodes(source: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the import statements of a source."""
    return tuple(node for node in ast.walk(parsed(source)) if isinstance(node, (ast.Import, ast.ImportFrom)))


def provider(module: str, name: str) -> str:
    """Return the module that ``from module import name`` really takes a name from: a package only passes it on."""
    if name.islower() and module_file(f"{module}.{name}"):  # where file names have no case, Fit would find fit.py
        return f"{module}.{name}"
    file = module_file(module)
    if file is not None and file.name == "__init__.py":
        for node in import_nodes(file.read_text(encoding="utf-8")):
            if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
                return provider(node.module, name)
    return module


def module_file(name: str) -> Path | None:
    """Return the file of a module of ours, if it is one."""
    return file_in(PACKAGE, name)


@cache
def file_in(package: Path, name: str) -> Path | None:
    """Return the file of a module in a package's folder; a build asks once for each record."""
    base = package.joinpath(*name.split(".")[1:])
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


@cache
def without_docstrings(source: str) -> str:
    """Return the lines of a module that run."""
    source = source.replace("\r\n", "\n")
    docstrings: set[int] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str:
                docstrings.update(range(first.lineno, (first.end_lineno or 0) + 1))
    return "\n".join(lines_that_run(source, without=docstrings))
