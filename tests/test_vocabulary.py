"""The page of vocabularies: each name of ours on it is there, a script in its words runs, its numbers are ours."""

import importlib
import re
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
import torch

from firstlight_imaging import coordinates
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data import gridding
from firstlight_imaging.fourier import visibilities
from firstlight_imaging.model import gridded_net as precomposed
from firstlight_imaging.model import losses
from firstlight_imaging.simulate.skies import Point
from firstlight_imaging.units import ARCSEC

DOCS = Path(__file__).parent.parent / "docs"
VOCABULARY, SCOPE = (DOCS / name for name in ("vocabulary.md", "scope.md"))

COORDS = GridCoords(cell_size=0.05, npix=24)
KEPT = COORDS.uv_limit * np.array([0.1, 0.52, -0.9])
DATA = {"uu": KEPT, "vv": KEPT[::-1], "weight": np.ones(3), "data_re": np.ones(3), "data_im": np.zeros(3)}


def rows_under(header: str) -> list[list[str]]:
    """The rows of all tables with a header, a list of its cells each."""
    text = VOCABULARY.read_text(encoding="utf-8")
    tables = re.findall(re.escape(header) + r"\n\|[-|]+\n((?:\|.*\n)+)", text)
    return [[cell.strip() for cell in line.strip("|").split("|")] for table in tables for line in table.splitlines()]


NAMES = [
    re.sub(r"\(.*\)", "", name)
    for row in rows_under("| MPoL | here |")
    for name in re.findall(r"`([^`]*\.[^`]*)`", row[1])
]


def dataset() -> Any:
    return gridding.Gridder(COORDS, **DATA).to_pytorch_dataset()


def here(name: str) -> Any:
    """Import what the page calls by this name."""
    of_data = name.partition("GriddedDataset.")[2]
    return getattr(dataset(), of_data) if of_data else resolve_name(f"firstlight_imaging.{name}")


def test_every_name_of_ours_on_the_page_is_there() -> None:
    assert len(NAMES) == len(set(NAMES)) > 50
    assert [name for name in NAMES if here(name) is None] == []


def test_a_script_in_the_words_of_mpol_runs() -> None:
    data = dataset()
    model = precomposed.SimpleNet(coords=COORDS, nchan=data.nchan)
    loss = losses.nll_gridded(model(), data) + 1e-3 * losses.TV_image(model.icube.sky_cube)
    loss.backward()
    assert model.bcube.base_cube.grad.isfinite().all()
    assert model.icube.flux > 0
    assert model.icube.sky_cube.shape == model.icube.packed_cube.shape == (1, 24, 24)


def test_the_orders_of_pixels_are_those_of_the_table() -> None:
    grid = GridCoords(cell_size=1, npix=4)
    table = rows_under("| order | $m$ of the rows | $l$ of the columns | the phase centre is in |")
    for order, rows, columns, centre in table:
        east, north = getattr(grid, f"{order}_coordinates")()
        m, l = ([int(n) for n in cell.replace("−", "-").split(",")] for cell in (rows, columns))  # noqa: E741
        assert north[:, 0].tolist() == m
        assert east[0].tolist() == l
        i, j = (int(n) for n in re.findall(r"\d", centre))
        assert (east[i, j], north[i, j]) == (0, 0)
    assert len(table) == 3
    assert coordinates.sky_to_packed(grid.sky_coordinates()[0])[0].tolist() == [0, 1, -2, -1]


def test_the_units_and_types_are_those_of_the_table() -> None:
    rows = {row[0]: row[2] for row in rows_under("| what | MPoL | here |")}
    assert rows["a model's numbers"] == "float32"
    assert precomposed.GriddedNet(COORDS)().dtype == torch.complex64
    assert rows["data"].startswith("complex128, and they follow `.to(torch.float32)` as complex64")
    moved = dataset()
    assert moved.vis_indexed.dtype == torch.complex128
    assert moved.to(torch.float32).vis_indexed.dtype == torch.complex64
    assert rows["`base_cube` at the start"] == "−3"


def test_the_sign_is_that_of_the_formula() -> None:
    point = Point(2.0, east=0.1, north=-0.15)
    image = torch.from_numpy(point.image(0.05, 24))[None]
    u, v = KEPT, KEPT[::-1]
    expected = 2 * np.exp(-2j * np.pi * ARCSEC * (u * 0.1 - v * 0.15))
    np.testing.assert_allclose(visibilities(image, u.copy(), v.copy(), 0.05)[0], expected, atol=1e-9)
    assert "e^{-2 \\pi i (u l + v m)}" in VOCABULARY.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [VOCABULARY, SCOPE], ids=lambda page: page.stem)
def test_what_a_page_refers_to_exists(page: Path) -> None:
    for target in re.findall(r"\{py:\w+\}`~?([\w.]+)`", page.read_text(encoding="utf-8")):
        module, name = target.rsplit(".", 1)
        assert callable(getattr(importlib.import_module(module), name))
