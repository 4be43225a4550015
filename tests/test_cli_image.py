"""`firstlight image`: what it writes, says, and refuses."""

from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from firstlight.cli import main
from firstlight.imaging.simulate.observation import channels, observe, uv_track, with_noise
from firstlight.imaging.simulate.skies import Ring

FLUX = 0.2


@pytest.fixture(scope="module")
def arrays():
    vis = observe([Ring(FLUX, 0, 0.3, east=0.3)], uv_track(n_times=4), channels(230e9, 1e9, 2))
    vis = with_noise(vis, 0.02, seed=1)
    named = {"uu": vis.uu, "vv": vis.vv, "data": vis.data, "weight": 4 * vis.weight, "frequencies": vis.frequency}
    return named | {"antennas": vis.antennas, "time": vis.time}


@pytest.fixture
def npz(arrays, tmp_path):
    path = tmp_path / "my.npz"
    np.savez(path, **arrays)
    return path


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_images_and_says_where(npz, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--field", "4", "--dish", "12", "--phase-centre", "83.8,-5.4"]
    assert main(["image", str(npz), "--out", str(out), *options]) == 0
    said = capsys.readouterr().out
    kinds = ["image", "model", "error", "dirty", "residual", "restored", "pbcor"]
    assert files(out) == {f"my.{kind}.fits" for kind in kinds} | {"my.png", "my.txt"}
    assert all(str(out / name) in said for name in files(out))
    assert "the weights were off" in said
    header, image = fits.getheader(out / "my.image.fits"), fits.getdata(out / "my.image.fits")
    assert header["BUNIT"] == "Jy/pixel"
    assert (header["CRVAL1"], header["CRVAL2"]) == (83.8, -5.4)
    assert header["CDELT2"] == pytest.approx(-header["CDELT1"])
    assert image.sum() == pytest.approx(FLUX, rel=0.05)
    assert fits.getdata(out / "my.pbcor.fits").sum() > image.sum()
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert main(["image", str(npz), "--out", str(out)]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in out.iterdir()}


@pytest.mark.slow
def test_without_a_phase_centre_it_is_no_place_on_the_sky(npz, tmp_path, capsys):
    assert main(["image", str(npz), "--out", str(tmp_path / "out"), "--field", "4"]) == 0
    assert "--phase-centre" in capsys.readouterr().out
    header = fits.getheader(tmp_path / "out/my.image.fits")
    assert not any(str(header[f"CTYPE{axis}"]).startswith(("RA", "DEC")) for axis in (1, 2))
    assert "RADESYS" not in header


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"frequencies": None}, [], "--frequency"),
        ({}, ["--phase-centre", "here"], "two numbers"),
        ({"uu": 1e-3, "vv": 1e-3}, [], "unit='kilolambda'"),
        ({"data": 0j}, ["--field", "4"], "no source is seen"),
    ],
)
def test_what_cannot_be_imaged_is_told_what_to_do(arrays, tmp_path, capsys, change, options, said):
    changed = arrays | {name: None if by is None else by * arrays[name] for name, by in change.items()}
    np.savez(tmp_path / "bad.npz", **{name: values for name, values in changed.items() if values is not None})
    assert main(["image", str(tmp_path / "bad.npz"), "--out", str(tmp_path / "out"), *options]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main(["image", str(tmp_path / "none.uvfits")]) == 1
    assert "none.uvfits" in capsys.readouterr().err
