"""Imports run downwards only, and never in a circle, neither of modules nor of folders; those for types count too."""

import ast
import tomllib
from functools import cache
from graphlib import TopologicalSorter

import pytest

from projects import FOLDERS, PACKAGES, ROOT

# What each may import from; the command loads the parts that it needs when it runs.
BELOW = {
    "firstlight.cli": {"firstlight"},
    "firstlight.lessons": {"firstlight_kernels", "firstlight.timing", "firstlight.devices", "firstlight.display"},
    "firstlight.records": {"firstlight.timing", "firstlight.devices", "firstlight.display"},
    "firstlight.timing": {"firstlight.devices", "firstlight.display"},
    "firstlight.devices": set(),
    "firstlight.memory": set(),
    "firstlight.display": set(),
    "firstlight_imaging": {"firstlight_kernels"},
    "firstlight_kernels": set(),
    "firstlight_doctor": set(),
}


@cache
def imports() -> dict[str, set[str]]:
    """Of each module of ours, those of ours that it imports, wherever in its text."""
    trees = {}
    for package in PACKAGES.values():
        for file in package.rglob("*.py"):
            name = ".".join(file.relative_to(package.parent).with_suffix("").parts)
            trees[name.removesuffix(".__init__")] = ast.parse(file.read_text("utf-8"))
    found: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                named = (f"{node.module}.{one.name}" for one in node.names)
                found[name].update(one if one in trees else str(node.module) for one in named)
            elif isinstance(node, ast.Import):
                found[name].update(one.name for one in node.names)
        found[name] &= trees.keys() - {name}
    return found


def part(module: str) -> str:
    """The folder, or the module, right under its package that a module belongs to."""
    return ".".join(module.split(".")[:2])


def test_every_project_is_looked_at():
    assert {name.partition(".")[0] for name in imports()} == PACKAGES.keys()
    assert {folder / "pyproject.toml" for folder in FOLDERS.values()} == {
        *ROOT.glob("pyproject.toml"),
        *ROOT.glob("*/pyproject.toml"),
    }
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]["files"]
    assert {str(package.parent.relative_to(ROOT)) for package in PACKAGES.values()} <= {*checked}


@pytest.mark.parametrize("above", BELOW)
def test_a_part_imports_from_below_only(above):
    def is_in(module, part):
        return f"{module}.".startswith(f"{part}.")

    inside = {name: named for name, named in imports().items() if is_in(name, above)}
    allowed = BELOW[above] | {above}
    assert inside
    assert not [one for named in inside.values() for one in named if not any(is_in(one, part) for part in allowed)]


def test_no_module_imports_itself_through_others():
    TopologicalSorter(imports()).prepare()  # raises a CycleError


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_folders_import_each_other(package):
    folders: dict[str, set[str]] = {}
    for name, named in imports().items():
        if name.startswith(f"{package}."):
            folders.setdefault(part(name), set()).update(map(part, named))
    TopologicalSorter({name: named - {name, package} for name, named in folders.items()}).prepare()  # as above
