"""Automatic images: skies of known flux, over fields, noise, antennas and places, and what it says of them."""

import io
import math
import re
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from firstlight_imaging import DirtyImager, image, read_npz, suggest_grid
from firstlight_imaging.data.visibilities import select_baselines
from firstlight_imaging.simulate.observation import alma_antennas, channels, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring, protoplanetary_disk, sky_image

FLUX = 0.2


def seen(sky, *, signal, antennas=24, n_times=12, seed=1, frequency=230e9):
    """Observe with as much noise as makes the peak of the natural dirty image so many times higher."""
    track = uv_track(alma_antennas()[:antennas], n_times=n_times, hour_angles=(-2, 2))
    clean = observe(sky, track, frequency)
    unit = replace(clean, weight=np.ones(clean.uu.shape))
    sigma = dirty(unit, clean.data).max() / signal * math.sqrt(clean.data.size)
    return clean, with_noise(clean, sigma, seed=seed)


def dirty(vis, data, coords=None):
    coords = coords or suggest_grid(vis, 6.0)
    u, v, data, weight = (part.ravel() for part in (vis.uu, vis.vv, data, vis.weight))
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
    return imager.get_dirty_image("natural", check_visibility_scatter=False)[0][0]


def rms(values):
    return math.sqrt((values**2).mean())


def loop(signal, field=None, antennas=24, size=0.7, east=0.4, north=-0.5, seed=1, n_times=12):
    """Return the automatic image of a disk: flux over truth, its error, and residuals beside those of the noise."""
    sky = protoplanetary_disk(FLUX, size=size, east=east, north=north)
    clean, noisy = seen(sky, signal=signal, antennas=antennas, n_times=n_times, seed=seed)
    found = image(noisy, field=field and field * 3 * size)
    truth = sky_image(sky, found.coords.cell_size, found.coords.npix)
    source = truth > 0.02 * truth.max()
    noise = dirty(noisy, noisy.data - clean.data, found.coords) / found.noise
    return found, [rms(part[where]) for where in (source, ~source) for part in (found.residual, noise)], noise


def check(found, residuals, noise, signal):
    inside, inside_noise, outside, outside_noise = residuals
    assert abs(found.flux - FLUX) < (0.05 * FLUX if signal >= 50 else 2 * found.flux_error)
    assert abs(inside - inside_noise) < (0.15 if signal >= 50 else 0.25), residuals  # of few beams
    assert abs(outside - outside_noise) < 0.05, residuals
    assert np.abs(found.residual).max() < max(5, np.abs(noise).max() + 0.3)


@pytest.mark.parametrize(("signal", "field"), [(200, None), (50, 6), (20, None)])
def test_flux_and_residuals_are_right(signal, field):
    found, residuals, noise = loop(signal, field)
    check(found, residuals, noise, signal)
    assert found.quality.verdict == "converged", str(found)


@pytest.mark.slow
@pytest.mark.parametrize(("signal", "field", "antennas"), [(8, 5, 43), (20, 10, 43), (50, 2, 43), (200, 5, 24)])
def test_closed_loops(signal, field, antennas):
    """What a wide, positive image would make flux of noise in."""
    found, residuals, noise = loop(signal, field, antennas, size=1.0, east=0.1, north=-0.2, seed=signal + field)
    check(found, residuals, noise, signal)


@pytest.mark.slow
def test_stated_errors_are_of_the_size_of_real_ones():
    pulls = [(found.flux - FLUX) / found.flux_error for found in (loop(30, seed=seed)[0] for seed in range(8))]
    assert 0.4 < rms(np.array(pulls)) < 1.6


def points_between_pixels(signal, antennas, seed, beside=()):
    """Return the image of a point in the middle of four pixels, or nearly."""
    cell = image(seen([Point(FLUX)], signal=signal, antennas=antennas, n_times=4)[1], draws=0).coords.cell_size
    sky = [Point(FLUX, east=(4.5 + 0.1 * seed) * cell, north=3.5 * cell), *beside]
    return image(seen(sky, signal=signal, antennas=antennas, n_times=4, seed=seed)[1], draws=8)


@pytest.mark.slow
def test_the_error_of_a_flux_knows_that_a_point_may_be_between_pixels():
    cell, pulls = 0.13, []
    for seed in range(1, 4):
        point = Point(FLUX, east=4.25 * cell, north=3.25 * cell)
        found = image(seen([point], signal=100, seed=seed)[1], cell_size=cell, field=48 * cell, draws=8)
        pulls.append((found.flux - FLUX) / found.flux_error)
    assert 0.4 < rms(np.array(pulls)) < 1.6


# Too faint for its image to be called compact, or its pixels too coarse: it is some percent too bright.
@pytest.mark.slow
def test_a_fainter_point_between_pixels_is_as_bright_as_its_error_says():
    found = points_between_pixels(150, 14, seed=0)
    assert found.quality.verdict == "converged", str(found)
    assert abs(found.flux - FLUX) < 3 * found.flux_error < 0.3 * FLUX


@pytest.mark.slow
def test_the_mask_of_a_wide_source_is_not_as_wide_again():
    """Positive pixels turn noise into flux, the more the wider a mask is."""
    track = uv_track(alma_antennas()[:20], n_times=6, hour_angles=(-2, 2))
    width = 6 * suggest_grid(observe([Point(1.0)], track)).cell_size
    clean = observe([Ring(FLUX, 0, width)], track)
    found = image(with_noise(clean, FLUX / 500 * math.sqrt(clean.data.size), seed=38), draws=8)
    assert found.quality.verdict == "converged", str(found)
    assert abs(found.flux - FLUX) < 3 * found.flux_error < 0.2 * FLUX
    assert found.mask.sum() * found.coords.cell_size**2 < 16 * math.pi * width**2


# What is left of it looked like wrong gains.
@pytest.mark.parametrize(
    ("signal", "antennas", "seed"), [(500, 12, 1), pytest.param(1500, 16, 0, marks=pytest.mark.slow)]
)
def test_a_bright_point_between_pixels_has_its_flux(signal, antennas, seed):
    found = points_between_pixels(signal, antennas, seed)
    assert found.quality.verdict == "converged", str(found)
    assert abs(found.flux / FLUX - 1) < 5 / signal + 0.01
    assert abs(found.flux - FLUX) < 3 * found.flux_error


@pytest.mark.slow
@pytest.mark.parametrize("beside", [Point(0.1, east=0.9, north=-0.61), Ring(0.2, 0.7, 0.15), Point(0.2, east=0.62)])
def test_a_bright_point_has_its_flux_beside_other_sources(beside):
    found = points_between_pixels(600, 20, 1, [beside])
    assert abs(found.flux / (FLUX + beside.flux) - 1) < 0.02, str(found)
    assert found.quality.verdict not in ("limited by calibration", "limited by artefacts"), str(found)


def test_only_pixels_of_compact_sources_are_sharper_than_points():
    wide = image(seen(protoplanetary_disk(FLUX, size=0.7), signal=100, n_times=4)[1], draws=0)
    compact = image(seen([Point(FLUX)], signal=100, n_times=4)[1], draws=0)
    assert wide.model.min() == 0 > compact.model.min()


# The brighter one shows that it is between pixels.
@pytest.mark.parametrize("signal", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_a_source_far_from_the_centre_of_four_channels(signal):
    sky = [Point(0.05, east=-3.1, north=2.2)]
    found = image(seen(sky, signal=signal, antennas=32, frequency=channels(230e9, 2e9, 4))[1])
    at = np.unravel_index(found.sky.argmax(), found.sky.shape)
    east, north = found.coords.sky_coordinates()
    assert np.hypot(east[at] + 3.1, north[at] - 2.2) < 1.5 * found.coords.cell_size
    assert abs(found.flux - 0.05) < 2 * found.flux_error
    assert not found.model[~binary_dilation(found.mask, np.ones((3, 3)))].any()


def test_weights_that_are_far_too_small_do_not_smooth_the_source_away():
    _, noisy = seen(protoplanetary_disk(FLUX, size=0.7), signal=100)
    found = image(replace(noisy, weight=noisy.weight / 5000), draws=0)
    assert abs(found.flux - FLUX) < 0.05 * FLUX
    assert found.quality.verdict == "converged", str(found)
    factor = float(found.choices[0].split(" multiplied by ")[1].split(":")[0])
    assert factor == pytest.approx(5000, rel=0.05)


def test_what_is_flagged_does_not_count():
    _, noisy = seen([Point(0.1)], signal=50)
    spoilt = replace(noisy, data=np.where(noisy.time > 0, np.nan, noisy.data), weight=noisy.weight * (noisy.time <= 0))
    assert abs(image(spoilt, field=4.0, draws=2).flux - 0.1) < 0.02


def test_the_same_data_make_the_same_image_in_whatever_file():
    """A UVFITS has u and v in seconds, as float32."""
    noisy = seen([Point(0.1, east=0.3)], signal=50, antennas=20)[1]
    read = [np.float32(part / noisy.frequency[:, None]) * noisy.frequency[:, None] for part in (noisy.uu, noisy.vv)]
    images = [image(vis, field=4.0, draws=2) for vis in (noisy, noisy, replace(noisy, uu=read[0], vv=read[1]))]
    assert all((other.sky == images[0].sky).all() for other in images)


def test_a_source_that_few_antennas_hardly_see():
    """Their shortest baselines alone have no beam that a Gaussian fits."""
    _, noisy = seen([Point(0.1, east=0.3, north=0.2)], signal=8, antennas=14, n_times=6, seed=2)
    found = image(noisy, draws=4)
    assert abs(found.flux - 0.1) < 3 * found.flux_error
    assert "all that the shortest baseline sees" in found.choices[0]


@pytest.mark.slow
def test_flux_that_no_baseline_sees_is_doubted():
    """Ten antennas, a moment long: light all over the field hides from the shortest baselines."""
    with tarfile.open(Path(__file__).parents[1] / "casa.tar.xz") as archive, TemporaryDirectory() as folder:
        archive.extract("disk.0.npz", folder, filter="data")
        found = image(read_npz(f"{folder}/disk.0.npz"), draws=2)
    assert abs(found.quality.short_flux - 0.6) < 0.03
    assert abs(found.flux - 0.6) < 0.06 or "doubtful" in dict(found.quality.faults)


def turned(vis, degrees, seed=0):
    """Turn the phase of every antenna, at every time by another angle."""
    rng = np.random.default_rng(seed)
    times, when = np.unique(vis.time, return_inverse=True)
    phases = rng.normal(scale=math.radians(degrees), size=(len(times), vis.antennas.max() + 1))
    first, second = (phases[when, antenna] for antenna in vis.antennas.T)
    return replace(vis, data=vis.data * np.exp(1j * (first - second)))


def test_wrong_phases_do_not_make_flux():
    """Artefacts are no noise: they are not taken for sources, and the error of noise is not stated for them."""
    noisy = turned(seen(protoplanetary_disk(FLUX, size=0.7, east=0.4, north=-0.5), signal=400)[1], 15)
    found = image(noisy)
    assert found.quality.verdict == "limited by calibration"
    assert abs(found.flux / FLUX - 1) < 0.1
    assert found.mask.mean() < 0.3
    assert math.isnan(found.flux_error)
    assert np.isnan(found.error).all()
    assert 5 < found.quality.dynamic_range < 400
    assert "outside of the field" not in str(found)


def test_artefacts_of_wrong_amplitudes_are_not_stated_as_flux():
    clean = observe([Point(0.5)], uv_track(alma_antennas()[:9], n_times=12))
    first, second = np.exp(0.6 * np.random.default_rng(0).normal(size=9))[clean.antennas].T
    found = image(with_noise(replace(clean, data=clean.data * first * second), 0.003, seed=1))
    assert found.quality.flux > 2 * found.quality.short_flux
    assert math.isnan(found.flux)
    assert math.isnan(found.flux_error)


def test_a_source_outside_of_the_field_is_told():
    """As of a gravitational lens, of whose images one is in the field; what is said puts both into it."""
    sky = [Point(0.5), Point(0.4, east=4.0, north=-2.0)]
    vis = with_noise(observe(sky, uv_track(alma_antennas()[:20], n_times=6)), 0.02, seed=0)
    found = image(vis, field=2.0)
    [fault] = [message for verdict, message in found.quality.faults if "outside" in message]
    assert re.search("4 arcsec east and 2.* arcsec south", fault)
    assert math.isnan(found.flux_error)
    told = image(vis, field=float(re.search(r"one of (\S+) arcsec", fault)[1]), draws=2)
    assert abs(told.flux - 0.9) < 0.1
    assert "outside" not in str(told)


def test_a_field_is_advised_that_does_not_take_long(monkeypatch):
    """As of a lens whose images are hundreds of beams apart: the longest baselines would make too many pixels."""
    monkeypatch.setattr("firstlight_imaging.automatic.diagnosis.ADVISED_PIXELS", 96)
    sky = [Point(0.5), Point(0.4, east=4.0, north=-2.0)]
    vis = with_noise(observe(sky, uv_track(n_times=3)), 0.02, seed=0)
    [fault] = [message for _, message in image(vis, field=2.0).quality.faults if "outside" in message]
    field, longest = re.search(r"one of (\S+) arcsec, .* up to (\S+) wavelengths", fault).groups()
    assert float(longest) < 0.8 * vis.lengths.max()
    told = image(select_baselines(vis, longest=float(longest)), field=float(field), draws=0)
    assert told.coords.npix <= 100
    assert abs(told.flux - 0.9) < 0.1


def far_jet(seed):
    """Nine antennas anywhere within a kilometre see a core, and two faint blobs that its sidelobes hide."""
    antennas = np.zeros((9, 3))
    antennas[:, :2] = np.random.default_rng(seed).normal(scale=300, size=(9, 2))
    sky = [Point(1.0), Ring(0.3, 0, 0.4, north=-0.8), Ring(0.2, 0, 0.5, north=-1.6)]
    return with_noise(observe(sky, uv_track(antennas, n_times=6)), 0.003, seed=0)


@pytest.mark.slow
def test_a_field_that_was_too_narrow_is_widened():
    found = image(vis := far_jet(6), draws=0)
    narrow = image(vis, field=found.coords.npix * found.coords.cell_size / 2, draws=0)
    assert found.quality.chi2 - 1 < 0.6 * (narrow.quality.chi2 - 1)
    assert abs(found.flux - 1.5) < 0.1 < abs(narrow.flux - 1.5)


def test_what_is_brighter_than_the_deepest_hole_is_let_into_the_mask():
    """The best gains of antennas do not explain it better, but artefacts are as often negative."""
    found = image(far_jet(7), draws=0)
    assert found.flux == pytest.approx(1.5, rel=0.05)
    assert found.quality.chi2 < 20


def test_baselines_within_a_site_do_not_make_the_field():
    """As of the Event Horizon Telescope: an array a city wide, thousands of kilometres from the next."""
    antennas = 400 * alma_antennas()[:12]
    antennas[1] = antennas[0] + [150, 60, 0]
    sky = [Point(0.5), Point(0.5, north=2e-3)]
    vis = with_noise(observe(sky, uv_track(antennas, n_times=10)), 0.05, seed=0)
    found = image(vis, draws=2)
    assert found.coords.npix <= 1024
    assert abs(found.flux - 1) < 0.05
    assert "within a site" in found.choices[0]
    assert float(re.search(r"see (\S+) Jy", found.choices[0])[1]) == pytest.approx(1, rel=0.02)


def test_a_field_that_would_not_fit_into_memory():
    with pytest.raises(ValueError, match="pixels"):
        image(seen([Point(0.1)], signal=50)[1], field=3600.0)


def test_baselines_along_a_line_are_refused_in_true_words():
    """An east-west array at one time, to which a wider field was advised in vain."""
    line = alma_antennas()[:6] * [1, 0, 0]
    vis = with_noise(observe([Point(1.0)], uv_track(line, hour_angles=(0, 0), n_times=1)), 0.01, seed=0)
    for field in (None, 40.0):
        with pytest.raises(ValueError, match=r"along a line, 90 degrees .* other hour\s"):
            image(vis, field=field)


def test_pixels_are_small_enough_for_the_beam_of_few_long_baselines():
    """A third of their fringe was too much, and the user was told to take smaller pixels than the program had."""
    four = np.array([[0, 0, 0], [4000, 400, 0], [4100, 2000, 0], [300, 2300, 0.0]])
    vis = with_noise(observe([Point(1.0)], uv_track(four, hour_angles=(-0.5, 0.5), n_times=8)), 0.01, seed=0)
    found = image(vis, draws=0)
    assert found.beam.minor > 1.5 * found.coords.cell_size


def test_half_the_sky_is_no_flat_image():
    """As of dipoles that stand a few wavelengths apart: it had a flux, with an error."""
    dipoles = np.random.default_rng(0).uniform(-12, 12, (8, 3)) * [1, 1, 0]
    vis = with_noise(observe([Point(1.0)], uv_track(dipoles, n_times=4), 40e6), 0.1, seed=0)
    with pytest.raises(ValueError, match="degrees of sky"):
        image(vis)


def test_cell_and_mask_of_ones_own():
    noisy = seen([Point(0.1, east=0.5)], signal=50, antennas=20)[1]
    found = image(noisy, field=4.0, cell_size=0.04, mask=lambda east, north: np.hypot(east - 0.5, north) < 0.3, draws=2)
    east, north = found.coords.sky_coordinates()
    assert found.coords.cell_size == 0.04
    assert (found.mask == (np.hypot(east - 0.5, north) < 0.3)).all()
    assert not found.model[~binary_dilation(found.mask, np.ones((3, 3)))].any()
    assert abs(found.flux - 0.1) < 0.02


def test_a_field_holds_the_mask_that_is_given():
    """As of an earlier image in a wider field: the source itself asks for less."""
    noisy = seen([Point(0.1, east=0.5)], signal=50, antennas=20)[1]
    narrow = image(noisy, draws=0).coords
    edge = 0.8 * narrow.npix * narrow.cell_size
    found = image(noisy, mask=lambda east, north: np.hypot(east - 0.5, north - 0.5) < edge, draws=0)
    assert found.mask.sum() * found.coords.cell_size**2 == pytest.approx(math.pi * edge**2, rel=0.02)
    endless = image(noisy, mask=lambda east, _: east > 0, draws=0)
    assert endless.coords.npix * endless.coords.cell_size == pytest.approx(narrow.npix * narrow.cell_size)
    assert "the mask reaches beyond" in str(endless)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"cell_size": 1.0}, "finest fringe"),
        ({"cell_size": -0.1}, "cell_size must be above 0"),
        ({"cell_size": 1e-4}, "pixels"),
        ({"mask": lambda east, north: east + north}, "float64"),
        ({"mask": lambda *_: np.ones((4, 4), bool)}, r"\(4, 4\)"),
        ({"mask": lambda east, _: east > 9}, "True somewhere"),
    ],
)
def test_a_cell_or_a_mask_that_cannot_be(asked, said):
    with pytest.raises(ValueError, match=said):
        image(seen([Point(0.1)], signal=50, antennas=12, n_times=4)[1], field=4.0, **asked)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_terminal_shows_what_is_going_on(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", said := stream())
    image(seen([Point(0.1)], signal=50, antennas=12, n_times=4)[1], field=4.0, draws=2)
    stages = [what in said.getvalue() for what in ("where the source is", "iteration 1", "simulated noise")]
    assert stages == [said.isatty()] * 3


def test_absorption_is_told():
    """A source that is negative, and one that is so on one side: positive pixels can show neither."""
    clean, noisy = seen([Point(0.1, east=0.3)], signal=100, n_times=4)
    with pytest.raises(ValueError, match=r"no source is seen.*absorption"):
        image(replace(noisy, data=noisy.data - 2 * clean.data), field=4.0)
    hole = observe([Point(0.09, east=-1.0)], uv_track(alma_antennas()[:24], n_times=4, hour_angles=(-2, 2)))
    found = image(replace(noisy, data=noisy.data - hole.data), field=4.0, draws=0)
    assert any("absorption" in choice for choice in found.choices)


def test_one_draw_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        image(seen([Point(0.1)], signal=50, n_times=4)[1], draws=1)


def test_noise_alone_is_no_source():
    noise = with_noise(observe([Point(0.0)], uv_track(n_times=4)), 0.1, seed=3)
    with pytest.raises(ValueError, match="no source is seen"):
        image(noise, field=4.0)
