"""Count the lines of code, and fail where a folder of sources has more than before.

Blank lines, comments and docstrings do not count. What there was before is in code_lines.json, which falls with the
count. Tests are counted only: nobody should leave one out to stay small.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from pathlib import Path

from projects import FOLDERS, ROOT

HELD = Path(__file__).with_suffix(".json")
SOURCES = [*(folder / "src" for folder in FOLDERS.values()), ROOT / "docs/_ext", ROOT / "docs/web"]
TESTS = [folder / "tests" for folder in FOLDERS.values()]
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def in_python(text: str) -> int:
    """Count the lines with code."""
    silent: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            silent.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = (token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in SILENT)
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - silent)


def in_javascript(text: str) -> int:
    """Count the lines that are neither blank nor begin as a comment."""
    lines = map(str.strip, text.splitlines())
    return sum(bool(line) and not line.startswith(("//", "/*", "*")) for line in lines)


def lines_in(folders: list[Path]) -> dict[str, int]:
    """Count the lines of each folder, print them, and print their sum."""
    count = {".py": in_python, ".js": in_javascript, ".wgsl": in_javascript}
    lines = {
        folder.relative_to(ROOT).as_posix(): sum(
            count[file.suffix](file.read_text(encoding="utf-8")) for file in folder.rglob("*") if file.suffix in count
        )
        for folder in folders
    }
    for name, number in [*lines.items(), ("together", sum(lines.values()))]:
        print(f"{number:7,}  {name}")
    return lines


def main() -> int:
    """Compare the sources with what they were, and keep the smaller count."""
    held: dict[str, int] = json.loads(HELD.read_text(encoding="utf-8"))
    sources = lines_in(SOURCES)
    lines_in(TESTS)
    least = {name: min(lines, held.get(name, lines)) for name, lines in sources.items()}
    if least != held:
        HELD.write_text(json.dumps(least, indent=2) + "\n", encoding="utf-8")
        print(f"Commit {HELD.relative_to(ROOT)}: a folder is smaller, or new.")
    for name, lines in sources.items():
        if lines > least[name]:
            print(f"{name} has {lines - least[name]} lines of code more than before: take as many away,")
            print(f"or raise its number in {HELD.relative_to(ROOT)} and say why.")
    return int(least != sources)


if __name__ == "__main__":
    sys.exit(main())
