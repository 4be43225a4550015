from pathlib import Path

import pytest

from firstlight.records import package_parts
from firstlight.records.package_parts import part_digests

PACKAGE = {
    "firstlight/__init__.py": "import lazy_loader\n",
    "firstlight/devices.py": "import os\n",
    "firstlight/timing/bench.py": "from firstlight.devices import card\n",
    "firstlight_kernels/cuda.py": "count = 1\n",
    "firstlight_imaging/grid.py": '"""Grids."""\n\nCELLS = 4\n',
    "firstlight_imaging/fitting/step.py": "def step():\n    from firstlight_kernels.cuda import count\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    packages = {name: tmp_path / f"firstlight_{name}".rstrip("_") for name in ("", "kernels", "imaging")}
    monkeypatch.setattr(package_parts, "PACKAGES", packages)
    package_parts._digest.cache_clear()
    return tmp_path / "firstlight_imaging"


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from firstlight import Bench\n", ["devices", "timing"]),
        ("from firstlight_imaging import anything\n", ["imaging", "kernels"]),
        ("import os, sys\nimport firstlight_kernels.cuda\n", ["kernels"]),
        ("def later():\n    from firstlight_imaging.grid import CELLS\n", ["imaging", "kernels"]),
        ("import firstlight_other.kernels\nfrom firstlightly.kernels import cuda\n", []),
        ("from firstlight.nowhere import nothing\nimport firstlight_timing\n", []),
    ],
)
def test_parts_are_found_through_others(source: str, expected: list[str]) -> None:
    assert [*part_digests(source)] == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""Better words."""\n\n# A comment.\nCELLS = 4\n', True),
        ('"""Grids."""\r\n\r\nCELLS = 4\r\n', True),
        ('"""Grids."""\n\nCELLS = 5\n', False),
    ],
)
def test_only_what_runs_counts(package: Path, text: str, same: bool) -> None:
    before = part_digests("from firstlight_imaging import CELLS\n")["imaging"]
    (package / "grid.py").write_bytes(text.encode())
    package_parts._digest.cache_clear()
    assert (part_digests("from firstlight_imaging import CELLS\n")["imaging"] == before) == same
