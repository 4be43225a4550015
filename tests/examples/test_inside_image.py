"""What the page claims, that it runs on a reader's own files, and its checker."""

import json
import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.wcs import WCS
from pages import judged

from firstlight.imaging import Ring
from firstlight.imaging.simulate.observation import (
    alma_antennas,
    channels,
    observe,
    uv_track,
    with_noise,
)

PAGE = "4_imaging/14_inside_image.py"
SCRIPT = Path(__file__).parents[2] / "examples" / PAGE
WRITE = Path(__file__).parents[1] / "imaging" / "pyuvdata_file.py"
LINE = 'your_file = None  # or "my.uvfits", "my.npz", "my.ms"'
CENTRE = (201.5, -43.0)
NINE = alma_antennas()[::5]
SKY = [Ring(0.3, 0, 0.3, east=1.5, north=-0.9), Ring(0.05, 0, 0.3, east=-1.6, north=1.2)]


def run_on(file, folder, until="\n# Never\n"):
    """Run the page as a reader does who has changed its first line, in the folder of the file."""
    text = SCRIPT.read_text(encoding="utf-8").split(until)[0]
    assert text.count(LINE) == 1
    edited = folder / "page.py"
    edited.write_text(text.replace(LINE, f"your_file = {file!r}"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(plt, "show", lambda: None)
        patch.setattr("firstlight.Bench.time", lambda _bench, _label, call, *args, **_: call(*args))  # once, untimed
        patch.setattr("firstlight.Bench.__getitem__", lambda *_: SimpleNamespace(median=1.0))
        for drawn in ("show", "plot"):
            patch.setattr(f"firstlight.Bench.{drawn}", lambda _: None)
        yield runpy.run_path(str(edited))
        plt.close("all")


@pytest.fixture(scope="module")
def pyuvdata_page(tmp_path_factory):
    if find_spec("pyuvdata") is None:
        pytest.skip("pyuvdata is not installed: it has no wheel for this Python")
    folder = tmp_path_factory.mktemp("theirs")
    place = [CENTRE[0] + 1.5 / 3600 / np.cos(np.radians(CENTRE[1])), CENTRE[1] - 0.9 / 3600]
    frequency = [98e9, 98.01e9, 110e9, 110.01e9]
    given = {"frequency": frequency, "width": [1e7] * 4, "window": [0, 0, 1, 1], "n_times": 13, "sigma": 0.01}
    given |= {
        "antennas": NINE.tolist(),
        "field": CENTRE,
        "source": place,
        "flux": 0.3,
        "width_of_source": 0.3,
        "start": "2020-01-01T10:30:00",
    }
    # A process of its own, without Numba's compiler, which takes longer than all else.
    command = [sys.executable, "-W", "ignore", WRITE, folder]
    plain = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run(command, check=True, env=plain, input=json.dumps(given), text=True)
    yield from run_on("theirs.uvfits", folder)


@pytest.mark.slow
def test_a_file_of_pyuvdata_goes_through(pyuvdata_page):
    assert pyuvdata_page["found"].quality.chi2 == pytest.approx(1, abs=0.1)
    assert pyuvdata_page["found"].flux == pytest.approx(0.3, rel=0.05)
    assert not pyuvdata_page["report"].wrong
    assert not {"sky", "truth", "chi2_true"} & set(pyuvdata_page)  # nothing that a reader does not have


@pytest.mark.slow
def test_its_image_is_where_the_source_is(pyuvdata_page):
    """By the coordinates of the file: the pixels are a fifth of the beam."""
    folder = pyuvdata_page["path"].resolve().parent
    data, header = fits.getdata(folder / "theirs_page" / "theirs.restored.fits", header=True)
    row, column = np.unravel_index(data[0, 0].argmax(), data[0, 0].shape)
    brightest = WCS(header).celestial.pixel_to_world(column, row)
    east, north = SkyCoord(*CENTRE, unit="deg").spherical_offsets_to(brightest)
    assert (east.arcsec, north.arcsec) == pytest.approx((1.5, -0.9), abs=0.25)


@pytest.mark.slow
def test_its_files_are_kept_in_a_folder_of_their_own_in_the_units_of_casa(pyuvdata_page):
    files = {kind: f"theirs_page/theirs.{kind}.fits" for kind in ("image", "restored")}
    (image, of_image), (_, header) = (fits.getdata(file, header=True) for file in files.values())
    assert (of_image["BUNIT"], header["BUNIT"]) == ("Jy/pixel", "Jy/beam")
    assert image.sum() == pytest.approx(pyuvdata_page["found"].flux, rel=1e-3)
    assert 3600 * header["BMAJ"] == pytest.approx(pyuvdata_page["beam"].major)
    assert not Path(pyuvdata_page["folder"].name).exists()


@pytest.mark.parametrize("place", [None, CENTRE])
def test_npz_goes_through_without_antennas_and_times(place, tmp_path, capsys):
    track = uv_track(NINE, hour_angles=(-1, 1), n_times=12, declination=CENTRE[1])
    vis = with_noise(observe(SKY, track, channels(100e9, 1e7, 4)), 0.01, seed=5)
    arrays = {"uu": vis.uu, "vv": vis.vv, "data": vis.data, "weight": vis.weight}
    arrays |= {"phase_centre": place} if place else {}
    np.savez(tmp_path / "mine.npz", frequencies=vis.frequency, **arrays)
    for page in run_on("mine.npz", tmp_path, until="\n# Measure\n"):
        assert abs(page["found"].flux - 0.35) < 2 * page["found"].flux_error < 0.05
        assert np.isnan(page["report"].worst)
        page["folder"].cleanup()
    said = capsys.readouterr().out
    assert "Nothing can be told" in said
    written = {path.name for path in tmp_path.glob("*/*.fits")}
    assert written == ({"mine.image.fits", "mine.restored.fits"} if place else set())
    assert (str(tmp_path) in said) == bool(place)


def test_the_image_is_near_the_truth_and_leaves_noise(page):
    found = page["found"]
    assert found.quality.verdict == "converged"
    assert found.flux == pytest.approx(0.29, rel=0.02)
    assert abs(found.flux - 0.29) < 2 * found.flux_error
    assert found.quality.inside == pytest.approx(1, abs=0.15)
    assert found.quality.outside == pytest.approx(1, abs=0.03)
    assert page["off_by"] < 0.15


def test_weights_that_were_divided_by_the_channels_are_mended(page):
    assert page["report"].worst == pytest.approx(4, rel=0.05)
    assert page["chi2_true"] == pytest.approx(1, abs=0.03)


def test_light_everywhere_takes_noise_for_flux_and_is_called_over_fitted(page):
    assert page["wide_flux"] > 1.3 * page["found"].flux
    assert page["wide_flux"] - page["found"].flux == pytest.approx(page["extra"], rel=0.5)
    verdicts = {verdict for verdict, _ in page["everywhere"].quality.faults}
    assert {"over-fitted", "doubtful"} <= verdicts


def test_a_strong_prior_alone_leaves_flux_and_a_weak_one_fits_noise(page):
    weak, strong = (page["fit_where"](page["found"].mask, page["coords"], strength) for strength in (1, 32))
    assert weak.quality.inside < 0.8 < 2 < strong.quality.inside
    assert strong.flux[-1, 0] * page["unit"] < 0.98 * page["found"].flux


def turn_u_and_v(uvw, frequency, data):
    u, v, _ = np.multiply.outer(uvw, -frequency / 299_792_458).swapaxes(1, 2)
    return u, v, data


def wrong(scale=1.0, u_sign=1, v_sign=1, conjugate=True, mean=False):
    def answer(uvw, frequency, data):
        hertz = np.full_like(frequency, frequency.mean()) if mean else frequency
        u, v, _ = np.multiply.outer(uvw, scale * hertz / 299_792_458).swapaxes(1, 2)
        return u_sign * u, v_sign * v, data.conj() if conjugate else data

    return answer


WRONG = [
    (wrong(conjugate=False), "180°"),
    (wrong(u_sign=-1, v_sign=-1), "180°"),
    (wrong(u_sign=-1), "mirror"),
    (wrong(v_sign=-1, conjugate=False), "mirror"),
    (wrong(scale=1e-3), "0.001"),
    (wrong(scale=299_792_458), "times too long"),
    (wrong(mean=True), "wavelength"),
    (lambda uvw, frequency, data: (uvw[0], uvw[1], data.conj()), "wavelength"),
    (lambda uvw, frequency, data: (uvw.T, uvw.T, data), "failed"),
]


test_answers = judged(["to_ours_solution", turn_u_and_v], WRONG)
