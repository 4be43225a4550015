import re
from pathlib import Path

import pytest
from samples import ROOT

from firstlight.records import imports
from firstlight.records.imports import imported_modules, without_docstrings

PACKAGE = {
    "__init__.py": "if TYPE_CHECKING:\n    from firstlight.devices import best_device\n__version__ = '1'\n",
    "devices.py": "import os\n",
    "measure/__init__.py": "from firstlight.imaging.far import unseen\n",
    "kernels/__init__.py": "if TYPE_CHECKING:\n    from firstlight.kernels.cuda import blocks_for, cuda\n",
    "kernels/cuda.py": "from firstlight.kernels.driver import count\n",
    "kernels/driver.py": "count = 1\n",
    "imaging/__init__.py": "from firstlight.imaging.fit import Fit\n",
    "imaging/fit.py": "from firstlight.imaging import images, fit\nfrom firstlight.devices import best_device\n",
    "imaging/images.py": "from firstlight.imaging.fit import Fit\n",
    "imaging/far.py": "unseen = 1\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(imports, "PACKAGE", tmp_path)
    return tmp_path


CUDA = ["kernels.cuda", "kernels.driver"]
FIT = ["imaging.fit", "imaging.images"]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from firstlight import __version__, best_device, nonsense\n", []),
        ("from firstlight.timing import unseen\n", ["imaging.far"]),
        ("from firstlight.kernels import blocks_for\n", CUDA),
        ("import os, firstlight.kernels.driver\n", CUDA[1:]),
        ("from firstlight.imaging import Fit\n", FIT),
        ("from firstlight.imaging.model.cubes import *\n", FIT),
        ("from firstlight.imaging import nothing_here\n", ["imaging", *FIT]),
        ("def later():\n    from firstlight.imaging.far import unseen\n", ["imaging.far"]),
        ("import firstlight_other.kernels\nfrom firstlightly.kernels import cuda\n", []),
    ],
)
def test_modules_of_kernels_and_imaging_are_found_through_others(source: str, expected: list[str]) -> None:
    assert [*imported_modules(source)] == [f"firstlight.{name}" for name in expected]


MODULE = '''"""Words.

More.
"""

X = """
# kept

"""


class Empty(ValueError):
    """Only words."""


def f(x):
    r"""Words."""
    # why
    return x


async def g():
    "Words."
    "no docstring"
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Words", "Other words", True),
        ("More.\n", "More.\n\nAnd more.\n", True),
        ("\n", "\r\n", True),
        ("return x", "return x  ", True),
        ("return x", "return -x", False),
        ("# kept", "# changed", False),
        ('    "no docstring"', '    "still none"', False),
    ],
)
def test_code_counts_and_docstrings_comments_and_white_space_do_not(old: str, new: str, same: bool) -> None:
    assert old in MODULE
    assert (without_docstrings(MODULE.replace(old, new)) == without_docstrings(MODULE)) == same


def test_our_imports_are_absolute() -> None:
    for file in (ROOT / "src" / "firstlight").rglob("*.py"):
        assert not re.search(r"^\s*from \.", file.read_text(encoding="utf-8"), re.MULTILINE), file.name
