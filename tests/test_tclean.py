"""The page of tclean's words names options and files that exist, and its snippets run."""

import re
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from firstlight.cli import main
from firstlight_imaging import read_visibilities
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.products.fits_images import read_mask, write_image
from firstlight_imaging.products.whole_set import SUFFIXES

PAGE = (Path(__file__).parents[1] / "docs" / "tclean.md").read_text(encoding="utf-8")
MASK, NPZ, *_ = re.findall(r"^```python\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_its_options_are_those_of_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["image", "--help"])
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_its_files_are_those_that_are_written():
    first = " ".join(re.findall(r"^\| (`my\..*?) \|", PAGE, re.MULTILINE))
    assert set(re.findall(r"`my\.(.+?)`", first)) == set(SUFFIXES)


def test_its_mask_is_a_circle_of_the_image(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coords = GridCoords(0.1, 128)
    Path("images").mkdir()
    where = {"unit": "Jy/pixel", "frequencies": [1e9], "ra": 10.0, "dec": 20.0}
    write_image("images/my.image.fits", np.ones((1, 128, 128)), coords, **where)
    exec(MASK, {"np": np, "fits": fits})
    mask = read_mask("my.mask.fits", (10.0, 20.0))(*coords.sky_coordinates())
    assert mask.sum() == pytest.approx(np.pi * 25**2, rel=0.02)


def test_its_npz_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    u, ones = np.array([2e5, 3e5]), np.ones(2)
    pairs = np.array([[0, 1], [0, 2]])
    exec(NPZ, {"np": np, "u": u, "v": u, "real": ones, "imag": ones, "sigma": ones, "pairs": pairs, "seconds": ones})
    vis = read_visibilities("my.npz")
    assert vis.data.tolist() == [[1 - 1j, 1 - 1j]]
    assert (vis.antennas == pairs).all()
