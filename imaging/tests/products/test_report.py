import math
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from astropy.io import fits

from firstlight_imaging import GridCoords, image
from firstlight_imaging.products import report
from firstlight_imaging.products.report import limit_remarks, point_remark, write_products
from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring


@pytest.fixture(scope="module")
def ring():
    """A ring that 20 antennas saw, and its image."""
    seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(alma_antennas()[:20], n_times=4)), 0.03, seed=1)
    return seen, image(seen, draws=2)


def test_the_report_tells_beam_peak_and_rms_and_the_words_fit_into_the_picture(ring, tmp_path, monkeypatch):
    drawn, make = [], report._figure
    monkeypatch.setattr(report, "_figure", lambda *given: drawn.append(make(*given)) or drawn[-1])
    seen, found = ring
    seen = replace(seen, target="HD 1", telescope="ALMA", start=5.0e9)
    coords = GridCoords(found.coords.cell_size / 1000, found.coords.npix)
    small = replace(found, coords=coords, sky=1e6 * found.sky, model=1e6 * found.model, error=np.ones_like(found.sky))
    near = replace(seen, uu=1000 * seen.uu, vv=1000 * seen.vv)
    for name, one, vis, unit in (("wide", found, seen, "arcsec"), ("small", small, near, "mas")):
        products = write_products(one, vis, tmp_path, name, dish=12, robust=-1, head="first\n")
        said = products.paths[-1].read_text()
        assert said == f"first\n{products.report}\n"
        header, restored = (get(tmp_path / f"{name}.restored.fits") for get in (fits.getheader, fits.getdata))
        beam = re.search(rf"robust -1, beam ([\d.]+) × [\d.]+ {unit}", said)
        peak = re.search(r"peak ([\d.]+) Jy/beam", said)
        assert float(beam[1]) == pytest.approx(header["BMAJ"] * 3600 * (1000 if unit == "mas" else 1), rel=0.01)
        assert float(peak[1]) == pytest.approx(restored.max(), rel=0.01)
        assert "primary beam of 12 m" in said
        assert header["OBJECT"] == "HD 1"
        (figure,) = drawn[-1:]
        assert figure.get_suptitle() == f"HD 1, ALMA, 2017-04-27, {seen.mean_frequency / 1e9:.4g} GHz"
        figure.draw_without_rendering()
        width, height = figure.get_size_inches() * figure.dpi
        for ax in figure.axes:
            words = [text for text in (ax.xaxis.label, ax.yaxis.label, ax.title) if text.get_text()]
            boxes = [text.get_window_extent() for text in words]
            assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
            ticks = [text.get_window_extent() for text in ax.get_xticklabels()]
            assert all(left.x1 < right.x0 for left, right in pairwise(sorted(ticks, key=lambda box: box.x0)))


def test_of_a_beam_like_no_gaussian_the_report_says_what_the_command_can_do(ring, tmp_path, monkeypatch):
    monkeypatch.setattr("firstlight_imaging.fourier.beams._MAX_MISFIT", 0.0)
    seen, found = ring
    said = write_products(found, seen, tmp_path, "my", robust=2).report
    assert "--robust below 2" in said


def test_a_field_as_narrow_as_the_source_has_maps_though_two_antennas_are_neighbours(tmp_path):
    """As of ALMA and APEX in the Event Horizon Telescope: their baseline alone makes a beam wider than the field."""
    antennas = 400 * alma_antennas()[:12]
    antennas[1] = antennas[0] + [150, 60, 0]
    clean = observe([Point(1.0)], uv_track(antennas, n_times=10))
    vis = with_noise(clean, [5e-4, 5e-4, *10 * [0.05]], seed=0)
    found = image(vis, field=0.02, draws=0)
    write_products(found, vis, tmp_path, "my")
    assert fits.getheader(tmp_path / "my.restored.fits")["BMAJ"] * 3600 < 3 * found.beam.major


def test_products_are_those_that_it_says_and_none_of_an_impossible_dish(ring, tmp_path):
    seen, found = ring
    for dish in (0.0, -12.0, math.nan):
        with pytest.raises(ValueError, match="dish"):
            write_products(found, seen, tmp_path, "my", dish=dish)
    assert not list(tmp_path.iterdir())
    for _ in range(2):  # the second time, it replaces them
        paths = write_products(found, seen, tmp_path, "m" * 240, dish=12).paths
    assert sorted(paths) == sorted(tmp_path.iterdir())
    assert len(paths) == 9


@pytest.mark.slow
def test_a_primary_beam_is_corrected_where_noise_would_not_hide_it(ring, tmp_path):
    """Of data that know their dish, or an array that has but one; a user's word counts more."""
    seen, found = ring  # a radius of 0.5 arcsec, in a beam of 25 arcsec
    for vis, dish, metres in (
        (seen, None, None),
        (replace(seen, telescope="ALMA"), None, None),  # which loses 0.1 %
        (replace(seen, telescope="VLBA", dish=25.0), None, None),
        (replace(seen, telescope="ALMA", dish=90.0), None, 90),
        (replace(seen, dish=90.0), 7.0, 7),
    ):
        said = write_products(found, vis, tmp_path, "my", dish=dish).report
        assert (metres is None) == ("primary beam" not in said), (vis.telescope, vis.dish)
        assert metres is None or f"primary beam of {metres:g} m" in said


@pytest.mark.parametrize("robust", [-2.0, 0.5])
def test_maps_have_five_pixels_a_beam_and_the_source_where_the_image_has_it(tmp_path, robust):
    """Of a few antennas far apart, the beam of these weights is narrower than three pixels of the image."""
    antennas = 30 * np.random.default_rng(2).uniform(-75, 75, (7, 3)) * [1, 1, 0.05]
    seen = with_noise(observe([Point(0.5, 0.03, -0.02)], uv_track(antennas, n_times=12)), 0.01, seed=1)
    found = image(seen, field=0.3, draws=0)
    write_products(found, seen, tmp_path, "my", robust=robust)
    places, sizes = [], []
    for kind in ("image", "restored"):
        data, header = fits.getdata(tmp_path / f"my.{kind}.fits", header=True)
        sky = np.where(data > data.max() / 3, data, 0).squeeze()
        middle = [(along + 1) @ sky.sum(1 - axis) / sky.sum() for axis, along in enumerate(map(np.arange, sky.shape))]
        places.append([(middle[1 - k] - header[f"CRPIX{k + 1}"]) * header[f"CDELT{k + 1}"] * 3600 for k in (0, 1)])
        sizes.append(header["CDELT2"])
    assert header["BMIN"] >= 0.99 * 5 * sizes[1]
    assert np.abs(np.subtract(*places)).max() < 3600 * header["BMIN"] / 10
    assert places[1] == pytest.approx([0.03, -0.02], abs=3600 * header["BMIN"] / 5)


@pytest.mark.parametrize("far", [0.0, 3.0])
def test_smearing_and_w_are_told_of_the_place_of_the_source(far):
    """A bright point, in channels of 4 GHz: at the centre nothing is lost, 3 arcsec beside it more than the noise."""
    track, wide = uv_track(alma_antennas()[:20], n_times=30), np.array([228e9, 232e9])
    seen = with_noise(observe([Point(1.0, far, 0.0)], track, wide), 0.05, seed=1)
    found = image(seen, field=9, draws=0)
    said = [remark for remark in limit_remarks(found, seen) if "bandwidth" in remark]
    assert len(said) == (far > 0)
    assert all("3 arcsec from the centre" in remark for remark in said)


@pytest.mark.parametrize("frequency", [(100e9,), (99e9, 100e9, 100.5e9, 110e9)])
def test_the_channel_of_an_image_holds_all_that_it_was_made_of(ring, tmp_path, frequency):
    """CASA's `ft` answers "no overlap in frequency" and writes zeros where it doesn't."""
    track = uv_track(alma_antennas()[:20], n_times=4)
    seen = with_noise(observe([Ring(0.5, 0, 0.5)], track, np.array(frequency)), 0.03, seed=1)
    write_products(ring[1], seen, tmp_path, "my")
    header = fits.getheader(tmp_path / "my.model.fits")
    assert np.abs(seen.frequency - header["CRVAL3"]).max() < header["CDELT3"] / 2
    assert header["CDELT3"] < 25e9


@pytest.mark.parametrize("seed", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_of_a_point_between_pixels_the_flux_is_told(seed):
    """Of a sparse array, an image has it within a few percent."""
    rng = np.random.default_rng(seed)
    antennas = rng.uniform(-75, 75, (20, 3)) * [1, 1, 0.05]
    east, north, flux = *rng.uniform(-1, 1, 2), rng.uniform(0.2, 0.6)
    seen = with_noise(observe([Point(flux, east, north)], uv_track(antennas, n_times=8)), 0.05, seed=seed)
    found = image(seen, draws=2)
    (remark,) = point_remark(found, seen)
    told, error = map(float, re.search(r"([\d.e-]+) ± ([\d.e-]+) Jy", remark).groups())
    assert abs(told - flux) < 3 * error < 0.03 * flux
    assert abs(found.flux - flux) < 0.03 * flux
    pair = [Point(flux, east, north), Point(flux / 5, east + 8)]
    two = with_noise(observe(pair, uv_track(antennas, n_times=8)), 0.05, seed=seed)
    assert point_remark(found, two) == []
