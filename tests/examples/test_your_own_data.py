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

from firstlight.imaging import Ring, fit, suggest_grid
from firstlight.imaging.simulation import alma_antennas, channels, observe, uv_track, with_noise
from firstlight.imaging.skies import protoplanetary_disk

PAGE = "4_imaging/09_your_own_data.py"
SCRIPT = Path(__file__).parents[2] / "examples" / PAGE
WRITE = Path(__file__).parents[1] / "imaging" / "pyuvdata_file.py"
LINE = 'your_file = None  # or "my.uvfits", or "my.npz"'
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
    assert pyuvdata_page["found"].terms["chi2"] == pytest.approx(1, abs=0.1)
    assert pyuvdata_page["found"].flux[-1, 0] == pytest.approx(0.3, rel=0.1)
    assert not pyuvdata_page["report"].wrong
    assert not {"sky", "truth", "chi2_true"} & set(pyuvdata_page)  # nothing that a reader does not have


@pytest.mark.slow
def test_its_image_is_where_the_source_is(pyuvdata_page):
    """By the coordinates of the file: the pixels are a fifth of the beam."""
    data, header = fits.getdata(pyuvdata_page["image_fits"], header=True)
    row, column = np.unravel_index(data[0, 0].argmax(), data[0, 0].shape)
    brightest = WCS(header).celestial.pixel_to_world(column, row)
    east, north = SkyCoord(*CENTRE, unit="deg").spherical_offsets_to(brightest)
    assert (east.arcsec, north.arcsec) == pytest.approx((1.5, -0.9), abs=0.25)


@pytest.mark.slow
def test_its_files_are_kept_beside_it_in_the_units_of_casa(pyuvdata_page):
    (model, model_header), (_, header) = (
        fits.getdata(f"theirs.{kind}.fits", header=True) for kind in ("model", "image")
    )
    assert (model_header["BUNIT"], header["BUNIT"]) == ("Jy/pixel", "Jy/beam")
    assert model.sum() == pytest.approx(pyuvdata_page["found"].flux[-1, 0], rel=1e-3)
    assert 3600 * header["BMAJ"] == pytest.approx(pyuvdata_page["beam"].major)
    assert not Path(pyuvdata_page["folder"].name).exists()


def test_npz_goes_through_without_antennas_and_times(tmp_path, capsys):
    track = uv_track(NINE, hour_angles=(-1, 1), n_times=12, declination=CENTRE[1])
    vis = with_noise(observe(SKY, track, channels(100e9, 1e7, 4)), 0.01, seed=5)
    arrays = {"uu": vis.uu, "vv": vis.vv, "data": vis.data, "weight": vis.weight}
    np.savez(tmp_path / "mine.npz", frequencies=vis.frequency, **arrays)
    for page in run_on("mine.npz", tmp_path, until="# The mistake that no number reports"):
        assert page["found"].terms["chi2"] == pytest.approx(1, abs=0.1)
        assert np.isnan(page["report"].worst)
        assert fits.getheader("mine.image.fits")["BUNIT"] == "Jy/beam"
        page["folder"].cleanup()
    assert "Nothing can be told" in capsys.readouterr().out


def test_the_fit_is_near_the_truth_and_leaves_noise(page):
    assert page["found"].why == "settled"
    assert page["found"].terms["chi2"] == pytest.approx(1, abs=0.03)
    assert page["found"].flux[-1, 0] == pytest.approx(0.29, rel=0.05)
    assert page["off_by"] < 0.15
    assert np.abs(page["left"]).max() < 6


def test_positive_noise_is_not_taken_for_flux(page):
    sky = protoplanetary_disk(0.2, size=0.7, east=0.3, north=-0.2)  # 2.1 arcsec across
    track = uv_track(hour_angles=(-0.5, 0.5), n_times=8)
    seen = with_noise(observe(sky, track, channels(230e9, 1e7, 1)), 0.009, seed=2)
    advised, _ = page["source_field"](seen)
    assert 1.5 * 2.1 < advised < 3 * 2.1
    imaging = page["Imaging"](seen, suggest_grid(seen, advised))
    found = fit(imaging.model("cpu"), imaging.likelihood("cpu"), losses={"tv": imaging.tv}, **page["how"])
    assert found.flux[-1, 0] == pytest.approx(0.2, rel=0.05)
    assert "WARNING" not in page["flux_beside_short"](float(found.flux[-1, 0]), seen)
    assert "WARNING" in page["flux_beside_short"](0.44, seen)  # as of the whole field that the antennas see


def test_the_wrong_sign_has_the_same_chi_squared_and_the_turned_image(page):
    assert page["chi2"]["wrong"] == pytest.approx(page["chi2"]["right"], rel=1e-6)
    (_, inner), (_, turned) = page["skies"].values()
    east, north = page["coords"].sky_coordinates()
    for axis in (east, north):
        mean = [float((image[0].double().cpu().numpy() * axis).sum()) for image in (inner, turned)]
        assert mean[0] == pytest.approx(-mean[1], rel=1e-5)
        assert abs(mean[0]) > 1  # it is off the centre


@pytest.mark.parametrize(
    ("trap", "said"),
    [
        ("no UVFITS file", "not a FITS file"),
        ("a file cut off", "bytes of its 8127 rows are missing"),
        ("u, v in kilo-lambda", "Say unit="),
        ("both Hermitian halves", "Hermitian pairs"),
        ("NaN", "not flagged: flag"),
        ("cells too large", "error: beyond"),
        ("channels too wide", "warning: bandwidth"),
        ("integrations too long", "note: time"),
        ("windows at odd times", "differ in time"),
    ],
)
def test_every_trap_speaks_up_until_it_is_mended(page, trap, said):
    mistake, cured = page["sprung"][trap]
    assert said in mistake
    assert cured == "nothing" or cured.startswith("ok: ")


def test_a_field_that_is_too_small_shows_in_chi_squared_alone(page):
    wrong, right = (float(said.split()[-1]) for said in page["sprung"]["field too small"])
    assert wrong > 3
    assert right == pytest.approx(1, abs=0.15)


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
