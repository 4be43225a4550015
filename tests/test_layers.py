"""Imports run downwards only, and never in a circle; those for types count too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
BELOW = {
    "records": {"timing", "devices", "display"},
    "timing": {"devices", "display"},
    "imaging": {"devices", "display", "kernels"},
    "lessons": {"imaging", "kernels", "timing", "devices", "display"},
    "kernels": {"display"},
    "devices": set(),
    "display": set(),
}


def modules() -> dict[str, set[str]]:
    """Of each module of ours, those of ours that it imports, wherever in its text."""
    names = {file: ".".join(file.relative_to(SRC).with_suffix("").parts) for file in SRC.rglob("*.py")}
    trees = {name.removesuffix(".__init__"): ast.parse(file.read_text("utf-8")) for file, name in names.items()}
    found: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                named = (f"{node.module}.{one.name}" for one in node.names)
                found[name].update(one if one in trees else str(node.module) for one in named)
        found[name] &= trees.keys() - {name}
    return found


@pytest.mark.parametrize("part", BELOW)
def test_a_part_imports_from_below_only(part):
    named = set().union(*(found for name, found in modules().items() if name.startswith(f"firstlight.{part}")))
    assert {name.split(".")[1] for name in named if "." in name} <= BELOW[part] | {part}


def test_there_is_no_circle():
    order = list(TopologicalSorter(modules()).static_order())
    assert order.index("firstlight.imaging.fitting.fused_kernels") < order.index("firstlight.imaging.fitting.fit_loop")
