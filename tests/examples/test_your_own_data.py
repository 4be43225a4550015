"""What the page of one's own data says of a fault and its cure, where there is no network, and its checker."""

from dataclasses import replace

import numpy as np
import pytest
from pages import judged

PAGE = "4_imaging/02_your_own_data.py"
REMEDY = {"beyond": "wider field", "none": "publish", "antennas": "self-calibrate"}


def test_turned_antennas_limit_the_image_and_self_calibration_cures_it(page):
    found, spoiled, mended = page["found"], page["spoiled"], page["mended"]
    assert found.quality.verdict == mended.quality.verdict == "converged"
    assert spoiled.quality.verdict == "limited by calibration"
    assert np.isnan(spoiled.flux_error)
    assert mended.quality.chi2 < 1.05 < 1.15 < spoiled.quality.chi2


def test_the_flux_of_the_simulated_lens_is_right_within_its_error_before_and_after(page):
    for one in (page["found"], page["mended"]):
        assert abs(one.flux - 0.015) < 2 * one.flux_error < 0.002


def test_only_the_sky_gives_a_wrong_sign_away_and_wrong_weights_are_blamed(page):
    image, seen, found = page["image"], page["seen"], page["found"]
    east, _ = found.coords.sky_coordinates()
    turned = image(replace(seen, data=seen.data.conj()), field=9, draws=0)
    assert turned.quality.verdict == "converged"
    assert turned.quality.chi2 == pytest.approx(found.quality.chi2, abs=0.02)
    assert (east * turned.sky).sum() == pytest.approx(-(east * found.sky).sum(), rel=0.3)
    heavy = image(replace(seen, weight=4 * seen.weight), field=9, draws=0)
    assert heavy.quality.chi2 == pytest.approx(4 * found.quality.chi2, rel=0.02)
    assert "check_weights" in heavy.quality.faults[0][1]
    assert "check_weights" not in page["spoiled"].quality.faults[0][1]


@pytest.mark.parametrize("letter", "ABC")
def test_files_handed_out_have_the_fault_that_check_expects_and_its_remedy_helps(page, letter):
    image, vis, planted = page["image"], page["handed_out"](letter), page["PLANTED"][letter]
    assert page["possible_solution"][letter] == REMEDY[planted]
    quality = image(vis, field=8, draws=0).quality
    assert (quality.verdict == "converged") == (planted == "none")
    said = " ".join(message for _, message in quality.faults)
    assert ("Self-calibrate phases" in said) == (planted == "antennas")
    if planted == "beyond":
        assert "outside of the field" in said
        quality = image(vis, field=18, draws=0).quality
    elif planted == "antennas":
        quality = image(page["self_calibrate"](vis, field=8).vis, field=8, draws=0).quality
    assert quality.verdict == "converged"


test_answers = judged(
    ["possible_solution"],
    [
        ({"A": "wider field", "B": "publish", "C": ...}, "C"),
        ({"A": "self-calibrate", "B": "publish", "C": "self-calibrate"}, "blame antennas"),
        ({"A": "wider field", "B": "self-calibrate", "C": "self-calibrate"}, "no fault"),
        ({"A": "wider field", "B": "publish", "C": "publish"}, "other phases"),
        ({"A": "wider field", "B": "fine", "C": "self-calibrate"}, "none of"),
        ({"A": "wider field"}, "dictionary"),
    ],
)
