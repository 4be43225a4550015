"""What the page of one's own data says of its faults, where there is no network, and its checker."""

import numpy as np
import pytest
from pages import judged

PAGE = "4_imaging/02_your_own_data.py"


def test_only_the_sky_gives_a_wrong_sign_away(page):
    east = {fault: page["middle"](one) for fault, one in page["images"].items()}
    assert east["sign"] == pytest.approx(-east["as it is"], abs=0.1)
    verdicts = {fault: one.quality.verdict for fault, one in page["images"].items()}
    assert verdicts["as it is"] == verdicts["sign"] == "converged"
    assert verdicts["weights"] == verdicts["antennas"] == "limited by calibration"
    blamed = {fault: page["images"][fault].quality.faults[0][1] for fault in ("weights", "antennas")}
    assert "check_weights" in blamed["weights"]
    assert "check_weights" not in blamed["antennas"]


def test_the_flux_of_the_simulated_lens_is_right_within_its_error(page):
    assert abs(page["again"].flux - 0.015) < 2 * page["again"].flux_error < 0.002
    assert 0.5 < page["within"] < 0.95


@pytest.mark.parametrize("letter", "ABC")
def test_files_handed_out_have_the_fault_that_check_expects(page, letter):
    vis = page["handed_out"](letter)
    one = page["image"](vis, field=8, draws=0)
    where, planted = page["middle"](one), page["PLANTED"][letter]
    assert np.sign(where) == (-1 if planted == "sign" else 1)
    assert (one.quality.verdict == "limited by calibration") == (planted == "antennas")


test_answers = judged(
    ["possible_solution"],
    [
        ({"A": "antennas", "B": "none", "C": ...}, "C"),
        ({"A": "antennas", "B": "none", "C": "none"}, "turned"),
        ({"A": "weights", "B": "none", "C": "sign"}, "blame"),
        ({"A": "antennas", "B": "sign", "C": "sign"}, "B"),
        ({"A": "antennas", "B": "fine", "C": "sign"}, "none of"),
        ({"A": "antennas"}, "dictionary"),
    ],
)
