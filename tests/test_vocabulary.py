"""The page of vocabularies: each name of ours on it is imported and called here, and its numbers are the code's."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

import firstlight.imaging
from firstlight.imaging import coordinates, gridding, losses, precomposed
from firstlight.imaging.beams import Beam
from firstlight.imaging.coordinates import ARCSEC, GridCoords
from firstlight.imaging.observe import observe, uv_track
from firstlight.imaging.skies import Point

DOCS = Path(__file__).parent.parent / "docs"
VOCABULARY, SCOPE = (DOCS / name for name in ("vocabulary.md", "scope.md"))

COORDS = GridCoords(cell_size=0.05, npix=24)
KEPT = COORDS.uv_limit * np.array([0.1, 0.52, -0.9])
DATA = {"uu": KEPT, "vv": KEPT[::-1], "weight": np.ones(3), "data_re": np.ones(3), "data_im": np.zeros(3)}


def tables() -> dict[str, list[list[str]]]:
    """Give the rows of each table by its header, without it."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in VOCABULARY.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            rows = []
        elif not rows:
            header = line
            rows = found.setdefault(header, [])
            rows.append([])
        elif not line.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return {header: [row for row in rows if row] for header, rows in found.items()}


NAMES = [
    re.sub(r"\(.*\)", "", name)
    for row in tables()["| MPoL 0.1 | MPoL 0.3 | here |"]
    for name in re.findall(r"`([^`]*\.[^`]*)`", row[2])
]


def here(name: str) -> Any:
    """Import what the page calls by this name."""
    first, *rest = name.split(".")
    place = getattr(firstlight.imaging, first) if first[0].isupper() else None
    found = place or importlib.import_module(f"firstlight.imaging.{first}")
    for part in rest:
        found = getattr(found, part)
    return found


def dataset() -> Any:
    return here("gridding.DataAverager")(COORDS, **DATA).to_pytorch_dataset()


def model() -> Any:
    made = here("precomposed.GriddedNet")(COORDS)
    made()
    return made


def fourier() -> Any:
    made = here("fourier.FourierCube")(COORDS)
    made(torch.ones(1, 24, 24))
    return made


def an_image() -> Any:
    made = here("images.ImageCube")(COORDS)
    made(torch.ones(1, 24, 24))
    return made


def a_file(folder: Path) -> Any:
    return here("files.write_image")(
        folder / "a.fits", np.ones((1, 24, 24)), COORDS, unit="Jy/pixel", ra=10, dec=5, frequencies=[1e11]
    )


def an_npz(folder: Path) -> Any:
    """Of MPoL 0.1's kind: kilo-lambda, and the two parts of the data apart."""
    np.savez(folder / "a.npz", **DATA | {name: DATA[name] / 1000 for name in ("uu", "vv")})
    return here("npz.read_npz")(folder / "a.npz", unit="kilolambda")


def seen() -> Any:
    return observe([Point(1.0)], uv_track(n_times=20))


def full() -> Any:
    ones = torch.ones(1, 24, 24)
    return here("datasets.GriddedDataset")(coords=COORDS, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())


def exact() -> Any:
    data = DATA["data_re"] + 0j
    return here("exact.ExactLikelihood")(KEPT, KEPT[::-1], data, np.ones(3), COORDS.cell_size, COORDS.npix)


def fitted() -> Any:
    return here("fit.fit")(model(), exact(), max_iter=3, progress=False)


def drawn() -> bool:
    picture = here("plots.plot_image")(np.eye(24), COORDS)
    plt.close(picture.figure)
    return picture.axes.get_xlim() == COORDS.img_ext[:2]


def refused_as_kilo_lambda() -> bool:
    with pytest.raises(ValueError, match="kilo-lambda"):
        COORDS.check_data_fit(KEPT / 1000, KEPT / 1000)
    return True


def refused_as_twice_there() -> bool:
    with pytest.raises(ValueError, match="second time"):
        gridding.refuse_mirrored(*(np.array([[1.0, -1.0]]) for _ in range(2)), np.ones((1, 2)), np.zeros((1, 2)))
    return True


SKY = torch.arange(24.0).repeat(24, 1)[None]
UNITY = torch.ones(1, 24, 24)

CALLS: dict[str, Callable[[Path], Any]] = {
    "coordinates.GridCoords": lambda _: here("coordinates.GridCoords")(0.05, 24) == COORDS,
    "GridCoords.check_data_fit": lambda _: refused_as_kilo_lambda(),
    "GridCoords.du": lambda _: COORDS.du == pytest.approx(1 / (24 * 0.05 * ARCSEC)),
    "GridCoords.uv_centers": lambda _: COORDS.uv_centers[12] == 0,
    "GridCoords.uv_edges": lambda _: len(COORDS.uv_edges) == 25,
    "GridCoords.uv_limit": lambda _: COORDS.uv_limit == pytest.approx(COORDS.uv_edges[-1]),
    "GridCoords.q_max": lambda _: COORDS.q_max > COORDS.uv_limit,
    "GridCoords.img_ext": lambda _: COORDS.img_ext[0] > 0 > COORDS.img_ext[1],
    "GridCoords.vis_ext": lambda _: COORDS.vis_ext[0] == COORDS.uv_edges[0],
    "GridCoords.sky_coordinates": lambda _: COORDS.sky_coordinates()[0][0, 0] > 0,
    "GridCoords.packed_coordinates": lambda _: COORDS.packed_coordinates()[0][0, 0] == 0,
    "GridCoords.ground_uv": lambda _: COORDS.ground_uv()[0][12, 12] == 0,
    "GridCoords.packed_uv": lambda _: COORDS.packed_uv()[0][0, 0] == 0,
    "limits.suggest_grid": lambda _: here("limits.suggest_grid")(seen(), field=2).npix % 2 == 0,
    "coordinates.sky_to_packed": lambda _: here("coordinates.sky_to_packed")(SKY)[0, 0, 0] == 11,
    "coordinates.packed_to_sky": lambda _: here("coordinates.packed_to_sky")(SKY)[0, 12, 11] == 0,
    "coordinates.ground_to_packed": lambda _: here("coordinates.ground_to_packed")(SKY)[0, 0, 0] == 12,
    "coordinates.packed_to_ground": lambda _: here("coordinates.packed_to_ground")(SKY)[0, 12, 12] == 0,
    "gridding.DataAverager": lambda _: here("gridding.DataAverager")(COORDS, **DATA).nchan == 1,
    "gridding.Gridder": lambda _: gridding.Gridder is gridding.DataAverager,
    "DataAverager.to_pytorch_dataset": lambda _: len(dataset().vis_indexed) == 3,
    "datasets.GriddedDataset": lambda _: torch.equal(full()(UNITY), torch.ones(24**2)),
    "GriddedDataset.vis_indexed": lambda _: dataset().vis_indexed.dtype == torch.complex128,
    "GriddedDataset.weight_indexed": lambda _: dataset().weight_indexed.sum() == 3,
    "GriddedDataset.add_mask": lambda _: full().add_mask(torch.eye(24).bool()[None]) is None,
    "dirty.DirtyImager.get_dirty_image": lambda _: (
        here("dirty.DirtyImager")(COORDS, **DATA).get_dirty_image()[1].max() == 1
    ),
    "beams.fit_beam": lambda _: here("beams.fit_beam")(Beam(0.4, 0.3, 20).at(*COORDS.sky_coordinates()), 0.05),
    "Beam.area": lambda _: Beam(0.4, 0.3, 20).area == pytest.approx(0.136, rel=0.01),
    "gridding.refuse_mirrored": lambda _: refused_as_twice_there(),
    "npz.read_npz": lambda folder: np.allclose(an_npz(folder).uu, KEPT),
    "observe.observe": lambda _: abs(here("observe.observe")([Point(1.0)], uv_track(n_times=2)).data).max() <= 1.01,
    "observe.with_noise": lambda _: here("observe.with_noise")(seen(), 0.01, seed=1).weight.max() == pytest.approx(1e4),
    "crossval.split_dartboard": lambda _: len(list(here("crossval.split_dartboard")(full(), seed=1))) == 5,
    "crossval.split_cells": lambda _: len(list(here("crossval.split_cells")(full(), seed=1))) == 5,
    "precomposed.GriddedNet": lambda _: model()().shape == (1, 24, 24),
    "precomposed.SimpleNet": lambda _: precomposed.SimpleNet is precomposed.GriddedNet,
    "GriddedNet.predict_loose_visibilities": lambda _: model().predict_loose_visibilities(KEPT, KEPT).shape == (1, 3),
    "images.BaseCube": lambda _: bool((here("images.BaseCube")(COORDS).base_cube == -3).all()),
    "images.HannConvCube": lambda _: here("images.HannConvCube")(1)(UNITY).shape == (1, 24, 24),
    "images.ImageCube": lambda _: an_image().nchan == 1,
    "ImageCube.sky_cube": lambda _: an_image().sky_cube.shape == (1, 24, 24),
    "ImageCube.packed_cube": lambda _: an_image().packed_cube.shape == (1, 24, 24),
    "ImageCube.flux": lambda _: an_image().flux.item() == pytest.approx((24 * 0.05) ** 2),
    "files.write_image": lambda folder: a_file(folder) is None,
    "beams.convolve": lambda _: here("beams.convolve")(SKY, COORDS, Beam(0.2, 0.1, 0)).shape == (1, 24, 24),
    "fourier.FourierCube": lambda _: fourier().vis[0, 0, 0].real == pytest.approx((24 * 0.05) ** 2),
    "FourierCube.ground_vis": lambda _: fourier().ground_vis.abs().argmax() == 12 * 24 + 12,
    "FourierCube.ground_amp": lambda _: fourier().ground_amp.argmax() == 12 * 24 + 12,
    "FourierCube.ground_phase": lambda _: fourier().ground_phase[0, 12, 12] == 0,
    "nufft.visibilities": lambda _: here("nufft.visibilities")(UNITY, KEPT, KEPT, 0.05).shape == (1, 3),
    "nufft.adjoint": lambda _: here("nufft.adjoint")(torch.ones(1, 3) + 0j, KEPT, KEPT, 0.05, 24).shape == (1, 24, 24),
    "plots.plot_image": lambda _: drawn(),
    "losses.r_chi_squared": lambda _: here("losses.r_chi_squared")(UNITY + 0j, 3j * UNITY, UNITY) == 5,
    "losses.nll": lambda _: losses.nll is losses.r_chi_squared,
    "losses.r_chi_squared_gridded": lambda _: here("losses.r_chi_squared_gridded")(3 * UNITY + 0j, full()) == 2,
    "losses.nll_gridded": lambda _: losses.nll_gridded is losses.r_chi_squared_gridded,
    "losses.sparsity": lambda _: here("losses.sparsity")(-UNITY) == 24**2,
    "losses.TV_image": lambda _: here("losses.TV_image")(SKY).item() == pytest.approx(23**2),
    "losses.TV_channel": lambda _: here("losses.TV_channel")(SKY).item() == 0,
    "losses.TSV": lambda _: here("losses.TSV")(SKY).item() == pytest.approx(23**2),
    "losses.edge_clamp": lambda _: here("losses.edge_clamp")(UNITY) == 4 * 24 - 4,
    "losses.entropy": lambda _: here("losses.entropy")(SKY, prior=SKY + 1, tot_flux=100).isfinite(),
    "fit.fit": lambda _: fitted().why == "max_iter",
    "exact.ExactLikelihood": lambda _: exact()(torch.zeros(1, 24, 24)).item() == pytest.approx(3),
}


def test_the_page_has_all_of_these_names_and_no_others() -> None:
    assert len(NAMES) == len(set(NAMES)) > 50
    assert set(NAMES) == set(CALLS)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_on_the_page_does_what_it_is_there_for(name: str, tmp_path: Path) -> None:
    assert CALLS[name](tmp_path)


def test_the_orders_of_pixels_are_those_of_the_table() -> None:
    grid = GridCoords(cell_size=1, npix=4)
    header = "| order | m of the rows | l of the columns | the phase centre is in | for |"
    for order, rows, columns, centre, _ in tables()[header]:
        east, north = getattr(grid, f"{order}_coordinates")()
        m, l = ([int(n) for n in cell.replace("−", "-").split(",")] for cell in (rows, columns))  # noqa: E741
        assert north[:, 0].tolist() == m
        assert east[0].tolist() == l
        i, j = (int(n) for n in re.findall(r"\d", centre))
        assert (east[i, j], north[i, j]) == (0, 0)
    assert len(tables()[header]) == 3
    assert coordinates.sky_to_packed(grid.sky_coordinates()[0])[0].tolist() == [0, 1, -2, -1]


def test_the_units_and_types_are_those_of_the_table() -> None:
    rows = {row[0]: row[3] for row in tables()["| what | MPoL 0.1 | MPoL 0.3 | here |"]}
    assert rows["a model's numbers"] == "float32"
    assert model()().dtype == torch.complex64
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
    np.testing.assert_allclose(here("nufft.visibilities")(image, u.copy(), v.copy(), 0.05)[0], expected, atol=1e-9)
    assert "e^{-2 \\pi i (u l + v m)}" in VOCABULARY.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [VOCABULARY, SCOPE], ids=lambda page: page.stem)
def test_what_a_page_refers_to_exists(page: Path) -> None:
    for target in re.findall(r"\{py:\w+\}`~?([\w.]+)`", page.read_text(encoding="utf-8")):
        module, name = target.rsplit(".", 1)
        assert callable(getattr(importlib.import_module(module), name))
