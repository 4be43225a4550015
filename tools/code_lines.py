"""Count the lines of code in each folder, and fail where there are more than CONTRIBUTING.md allows.

Blank lines, comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = re.compile(r"^\|.*?`([\w/.]+)`.*\| ([\d,]+) \|$", re.MULTILINE)  # the folder, and the last column
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


def lines_under(place: Path) -> int:
    """Count the lines of a file, or of all files in a folder."""
    count = {".py": in_python, ".js": in_javascript, ".wgsl": in_javascript}
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(count[file.suffix](file.read_text(encoding="utf-8")) for file in files if file.suffix in count)


def main() -> int:
    """Print a line for each folder."""
    over = 0
    for name, limit in LIMIT.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        lines, most = lines_under(ROOT / name), int(limit.replace(",", ""))
        over += lines > most
        print(f"{lines:7,} of {most:6,}  {name}")
        if lines > most:
            print("    over the limit: take something away, or raise the limit in CONTRIBUTING.md and say why")
    return min(over, 1)


if __name__ == "__main__":
    sys.exit(main())
