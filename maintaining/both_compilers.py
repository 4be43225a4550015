"""Run the pages on kernels with either compiler, and say what differs.

    python maintaining/both_compilers.py [3_kernels/05 ...]

A page imports ``cuda`` from numba-cuda or from numba-cuda-mlir; here it is run as it is, and with the other line. What
a block of code printed is the same, or the same but for its numbers (times, registers, counts of instructions), or
something else, which is then shown. Without a GPU, no page may fail.
"""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from firstlight.display import Table
from firstlight.records.record import COMPILERS, CUDA
from firstlight.records.recorder import example_of, scripts_named

RUN = """
import json, sys
from pathlib import Path
import matplotlib
matplotlib.use("Agg")
from firstlight.records.runner import run
outputs = {name.partition(":")[0]: text for name, text in run(Path(sys.argv[1])).outputs.items()}
Path(sys.argv[2]).write_text(json.dumps(outputs))
"""


def line_with(package: str, line: str) -> str:
    """Return the line of imports with another compiler's cuda and types; njit stays Numba's."""
    names = [name.strip() for name in line.partition(" import ")[2].split(",")]
    types = [name for name in names if re.fullmatch(r"(int|uint|float)\d+", name)]
    others = [name for name in names if name not in (*types, "cuda")]
    parts = (package, ["cuda"]), (f"{package}.types", types), ("numba", others)
    return "; ".join(f"from {module} import {', '.join(taken)}" for module, taken in parts if taken)


def outputs_with(package: str, script: Path) -> dict[str, str] | str:
    """Return what each block of a page prints if its kernels are one compiler's, or how the page ends."""
    source = re.sub(
        CUDA.pattern + ".*", lambda line: line_with(package, line[0]), script.read_text("utf-8"), flags=re.M
    )
    with TemporaryDirectory() as folder:
        page, printed = Path(folder, script.parent.name, script.name), Path(folder, "printed.json")
        page.parent.mkdir()
        page.write_text(source, encoding="utf-8")
        command = [sys.executable, "-c", RUN, str(page), str(printed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode:
            return next((line for line in reversed(done.stderr.splitlines()) if line.strip(" :")), "ended")
        found: dict[str, str] = json.loads(printed.read_text(encoding="utf-8"))
    return found


def row_of(script: Path) -> tuple[str, ...]:
    """Return the row of a page, and print what differs in words."""
    first, second = (outputs_with(package, script) for package in COMPILERS)
    if isinstance(first, str) or isinstance(second, str):
        return example_of(script), *(one if isinstance(one, str) else "runs" for one in (first, second)), "", "", ""
    same = numbers = 0
    others = []
    for block in sorted(first | second):
        texts = first.get(block, ""), second.get(block, "")
        if texts[0] == texts[1]:
            same += 1
        elif len({re.sub(r"[\s\d.,–-]+", "", text) for text in texts}) == 1:
            numbers += 1
        else:
            others.append(block)
            print(f"{example_of(script)}, block {block}:")
            print(*difflib.unified_diff(*(text.splitlines() for text in texts), lineterm="", n=0), sep="\n")
    return example_of(script), "runs", "runs", str(same), str(numbers), str(len(others))


def main() -> None:
    """Run the pages that are named, or all that have kernels."""
    named = scripts_named(sys.argv[1:] or ["3_kernels"])
    pages = [script for script in named if CUDA.search(script.read_text(encoding="utf-8"))]
    head = ("page", *COMPILERS.values(), "blocks alike", "but for numbers", "different")
    print(Table("Either compiler", head, tuple(map(row_of, pages))).text())


if __name__ == "__main__":
    main()
