"""What the page of one's own data says of a fault and its cure, and its checker."""

from dataclasses import replace

import numpy as np
import pytest
from pages import assert_check_tells, parts_of

from firstlight_imaging import image
from firstlight_imaging.selfcal import self_calibrate

PAGE = "4_imaging/02_your_own_data.py"
# The page makes images for twenty seconds. What is quick of it runs alone, and imaging/tests/selfcal calibrates less.
REMEDY = {"beyond": "wider field", "none": "publish", "antennas": "self-calibrate"}


@pytest.fixture(scope="module")
def parts():
    return parts_of(PAGE, "handed_out", "PLANTED", "possible_solution", "check")


@pytest.mark.slow
def test_self_calibration_lowers_chi2_and_the_flux_stays(page):
    found, mended = page["found"], page["mended"]
    assert found.quality.verdict == "limited by calibration"
    assert np.isnan(found.flux_error)
    assert mended.quality.chi2 < found.quality.chi2 - 0.1
    assert mended.flux == pytest.approx(found.flux, rel=0.05)


@pytest.mark.slow
def test_the_simulated_set_converges_on_its_flux(page):
    mended = image(self_calibrate(page["simulated"](), field=8, cell_size=0.1).vis, field=8, draws=4)
    assert mended.quality.verdict == "converged"
    assert abs(mended.flux - 7.5) < 2 * mended.flux_error < 0.5


def test_only_the_sky_gives_a_wrong_sign_away_and_wrong_weights_are_blamed(parts):
    seen = parts["handed_out"]("B")
    how = {"field": 8, "draws": 0}
    right, turned, heavy = (
        image(vis, **how) for vis in (seen, replace(seen, data=seen.data.conj()), replace(seen, weight=4 * seen.weight))
    )
    east, _ = right.coords.sky_coordinates()
    assert turned.quality.verdict == right.quality.verdict == "converged"
    assert turned.quality.chi2 == pytest.approx(right.quality.chi2, abs=0.02)
    assert (east * turned.sky).sum() == pytest.approx(-(east * right.sky).sum(), rel=0.3)
    assert heavy.quality.chi2 == pytest.approx(4 * right.quality.chi2, rel=0.02)
    assert "check_weights" in heavy.quality.faults[0][1]


@pytest.mark.parametrize("letter", ["A", "B", pytest.param("C", marks=pytest.mark.slow)])
def test_files_handed_out_have_the_fault_that_check_expects_and_its_remedy_helps(parts, letter):
    vis, planted = parts["handed_out"](letter), parts["PLANTED"][letter]
    assert parts["possible_solution"][letter] == REMEDY[planted]
    quality = image(vis, field=8, draws=0).quality
    assert (quality.verdict == "converged") == (planted == "none")
    said = " ".join(message for _, message in quality.faults)
    assert ("Self-calibrate phases" in said) == (planted == "antennas")
    if planted == "beyond":
        assert "outside of the field" in said
        quality = image(vis, field=18, draws=0).quality
    elif planted == "antennas":
        quality = image(self_calibrate(vis, field=8).vis, field=8, draws=0).quality
    assert quality.verdict == "converged"


def test_answers(parts):
    wrong = [
        ({"A": "wider field", "B": "publish", "C": ...}, "C"),
        ({"A": "self-calibrate", "B": "publish", "C": "self-calibrate"}, "blame antennas"),
        ({"A": "wider field", "B": "self-calibrate", "C": "self-calibrate"}, "no fault"),
        ({"A": "wider field", "B": "publish", "C": "publish"}, "other phases"),
        ({"A": "wider field", "B": "fine", "C": "self-calibrate"}, "none of"),
        ({"A": "wider field"}, "dictionary"),
    ]
    assert_check_tells(parts, ["possible_solution"], wrong)
