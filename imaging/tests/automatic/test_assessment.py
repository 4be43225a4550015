"""What is said of images of other programs, and whether it is true."""

import re
from dataclasses import replace

import numpy as np
import pytest

from firstlight_imaging import image
from firstlight_imaging.automatic import assess_model
from firstlight_imaging.automatic.assessment import _STEPS
from firstlight_imaging.data.visibilities import shift_phase_centre
from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import protoplanetary_disk

FLUX = 0.25


@pytest.fixture(scope="module")
def seen():
    track = uv_track(alma_antennas(), n_times=8)
    return with_noise(observe(protoplanetary_disk(FLUX, size=0.7, east=0.4, north=-0.5), track), 0.01, seed=1)


@pytest.fixture(scope="module")
def found(seen):
    return image(seen, draws=0)


def advice(kind: str) -> str:
    return _STEPS[kind]["tclean"].split("{")[0][:25]


def turned(vis, degrees):
    phases = np.radians(degrees) * np.random.default_rng(0).normal(size=50)
    first, second = phases[vis.antennas].T
    return replace(vis, data=vis.data * np.exp(1j * (first - second)))


def test_a_right_image_is_right_and_says_the_same_as_its_own_report(seen, found):
    same = assess_model(seen, found.model, found.coords, program="tclean")
    assert same.verdict == "converged"
    assert same.chi2 == pytest.approx(found.quality.chi2, rel=1e-3)
    assert same.short_flux == pytest.approx(found.quality.short_flux, rel=1e-3)
    assert all(row.chi2 == pytest.approx(1, abs=0.1) for row in same.lengths)
    assert same.lengths[0].ratio == pytest.approx(1, abs=0.02)
    assert same.steps == (_STEPS["right"]["other"],)
    assert "next, in tclean" in str(same)


def test_one_that_leaves_some_of_the_source_is_to_be_cleaned_deeper(seen, found):
    shallow = assess_model(seen, 0.9 * found.model, found.coords, program="tclean")
    assert "not converged" in dict(shallow.faults)
    assert any("threshold='" in step and "mJy" in step for step in shallow.steps)
    assert shallow.lengths[0].ratio == pytest.approx(1 / 0.9, rel=0.02)


def test_noise_that_was_cleaned_is_to_be_left(seen, found):
    """Half of the residuals, put into the model of the source, make it quieter than noise, and partly negative."""
    deep = found.model + 0.5 * found.residual * found.noise / found.beam.area * found.mask
    said = assess_model(seen, deep, found.coords, source=found.mask, program="tclean")
    assert said.inside < assess_model(seen, found.model, found.coords, source=found.mask).inside


def test_negative_components_are_named(seen, found):
    holes = found.model.copy()
    beside = found.coords.npix // 8, found.coords.npix // 8
    assert not found.mask[beside]
    holes[beside] = -0.05 * FLUX / found.coords.cell_size**2
    said = assess_model(seen, holes, found.coords, program="tclean")
    assert said.negative == pytest.approx(-0.05 * FLUX)
    assert any(step.startswith(advice("negative")) for step in said.steps)


def test_pixels_below_zero_beside_a_point_are_no_holes_if_data_do_not_see_them(seen, found):
    model, middle = found.model.copy(), np.unravel_index(found.model.argmax(), found.model.shape)
    flux = 0.2 * FLUX / found.coords.cell_size**2
    model[middle] += flux
    model[middle[0], middle[1] + 1] -= flux
    said = assess_model(seen, model, found.coords, program="tclean")
    assert said.negative < -0.1 * FLUX
    assert not any(step.startswith(advice("negative")) for step in said.steps)


def test_gains_are_to_blame_only_for_what_is_no_fault_of_the_image(seen, found):
    gains = assess_model(turned(seen, 15), found.model, found.coords, program="tclean")
    assert gains.verdict == "limited by calibration"
    assert gains.steps[0].startswith(advice("gains"))
    wrong = np.where(found.model == found.model.max(), found.model.sum(), 0)  # a point is no disc
    image_first = assess_model(seen, wrong, found.coords, program="tclean")
    assert image_first.steps[0].startswith("First of all the image")


def test_an_image_that_lies_beside_its_source_is_told_to_move(seen, found):
    away = shift_phase_centre(seen, -0.3, 0.2)
    said = assess_model(away, found.model, found.coords)
    assert said.steps[0].startswith("The image lies beside")
    east, north = map(float, re.findall(r"([+-][\d.]+) arcsec", said.steps[0]))
    assert (east, north) == pytest.approx((0.3, -0.2), abs=2 * found.coords.cell_size)
