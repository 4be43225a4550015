"""Every example in a docstring is run, each name of the reference has one, and the tutorials import no other names."""

import ast
import doctest
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from projects import PACKAGES

ROOT = Path(__file__).parents[1]
WITH_EXAMPLES = [
    ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
    for package in (*PACKAGES.values(), ROOT / "docs/_ext")
    for file in sorted(package.glob("**/*.py"))
    if ">>>" in file.read_text(encoding="utf-8")
]
MEMBERS = re.compile(r"^\.\. automodule:: (\S+)\n +:members: (.+)$", re.MULTILINE)
REFERENCE = [
    (module, name)
    for page in sorted(ROOT.glob("docs/api/*.md"))
    for module, names in MEMBERS.findall(page.read_text(encoding="utf-8"))
    for name in names.split(", ")
]
NOT_RUN = {
    "firstlight.lessons.hd142527.download": "needs a network",
    "firstlight_kernels.ptx.compile": "needs NVIDIA's compiler",
    "firstlight_kernels.ptx.CompileError": "needs NVIDIA's compiler",
    "firstlight_kernels.ptx.NoCompilerError": "needs a machine without NVIDIA's compiler",
}


# The facts are of this machine, with the real PyTorch in a process of its own; closures make a dozen fits.
SLOW = dict.fromkeys(("firstlight_doctor.facts", "firstlight_imaging.selfcal.closures"), pytest.mark.slow)


def test_each_project_has_examples():
    assert {name.partition(".")[0] for name in WITH_EXAMPLES} == {*PACKAGES, "_ext"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in WITH_EXAMPLES])
def test_examples_are_true(name, monkeypatch):
    monkeypatch.chdir(ROOT)  # some read a record
    monkeypatch.setattr(sys, "argv", sys.argv)  # some run a script
    result = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted
    assert result.failed == 0


def has_example(value: object, name: str) -> bool:
    """Whether its own docstring, not only that of a method, has an example, and all of it is run."""
    examples = [one for test in doctest.DocTestFinder(recurse=False).find(value, name) for one in test.examples]
    return bool(examples) and not any(doctest.SKIP in example.options for example in examples)


def test_each_function_of_the_reference_has_an_example():
    values = {f"{module}.{name}": getattr(import_module(module), name) for module, name in REFERENCE}
    assert {name for name, value in values.items() if callable(value) and not has_example(value, name)} == set(NOT_RUN)


def imports_in(text: str) -> set[tuple[str, str]]:
    """What a script or the code on a page imports from the package."""
    lines = re.findall(r"^ *(from firstlight[\w.]* import (?:\([^)]*\)|.*))$", text, re.MULTILINE)
    nodes = (node for line in lines for node in ast.parse(line).body)
    return {(str(node.module), one.name) for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names}


def test_what_pages_import_is_in_the_reference():
    pages = [*ROOT.glob("examples/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "docs/claims.py", ROOT / "README.md"]
    known = [getattr(import_module(module), name) for module, name in REFERENCE]
    known += [import_module(module) for module, _ in REFERENCE]
    for page in pages:
        for module, name in imports_in(page.read_text(encoding="utf-8")):
            there = import_module(module)
            value = getattr(there, name) if hasattr(there, name) else import_module(f"{module}.{name}")
            home = getattr(value, "__module__", getattr(value, "__name__", module))
            if home.startswith("firstlight"):
                assert any(value is one for one in known), f"{page.name} imports {name} from {module}"
