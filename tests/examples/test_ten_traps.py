"""That every trap springs, that its cure cures, and the page's checker."""

import numpy as np
import pytest
from pages import judged

PAGE = "4_imaging/12_ten_traps.py"


def in_source(page, fitted):
    return fitted.left[page["source"](fitted.coords)].std()


def off_by(page, fitted):
    truth = page["truth_on"](fitted.coords)
    return np.linalg.norm(fitted.image - truth) / np.linalg.norm(truth)


def test_the_fit_that_is_right_has_the_flux_and_leaves_noise(page):
    right = page["right"]
    assert right.flux == pytest.approx(page["flux"], rel=0.05)
    assert abs(right.chi2 - 1) < 3 * page["error"]
    assert np.abs(right.left).max() < 5
    assert 0.8 < in_source(page, right) < 1.2


def test_the_sign_turns_the_sky_and_no_number_tells(page):
    first, turned = page["first"], page["turned"]
    assert turned.chi2 == pytest.approx(first.chi2, abs=0.1 * page["error"])
    assert turned.flux == pytest.approx(first.flux, rel=0.01)
    assert off_by(page, turned) > 1
    for axis in first.coords.sky_coordinates():
        east_or_north = [(fitted.image * axis).sum() / fitted.image.sum() for fitted in (first, turned)]
        assert east_or_north[0] == pytest.approx(-east_or_north[1], abs=0.02)


def test_a_wide_field_makes_flux_of_noise_until_it_is_masked(page):
    wide, masked = page["wide"], page["masked"]
    assert wide.flux > 2 * page["flux"]
    assert wide.chi2 < 1 - 4 * page["error"]
    assert wide.found.status == "over-fitted"
    assert masked.flux == pytest.approx(page["flux"], rel=0.05)
    assert abs(masked.chi2 - 1) < 3 * page["error"]
    assert masked.coords == wide.coords


def test_an_image_of_noise_is_quieter_in_the_source_and_further_off(page):
    over, right = page["over"], page["right"]
    assert in_source(page, over) < 0.6
    assert off_by(page, over) > 1.3 * off_by(page, right)


def test_a_fit_that_stopped_can_miss_what_its_chi_squared_does_not_show(page):
    stuck = page["stuck"]
    assert stuck.found.status == "not converged"
    assert np.abs(stuck.left).max() > 7
    assert abs(stuck.chi2 - 1) < 2 * page["error"]
    assert page["worth"] < page["error"]


def test_shared_noise_shows_once_the_channels_are_averaged(page):
    line, one, cured = page["line"], page["one"], page["cured"]
    assert not page["check_weights"](line).wrong
    assert page["check_weights"](one).wrong
    assert page["chi2_of_truth"](line) == pytest.approx(1, abs=0.03)
    assert page["loudness"](line) > 1.4
    assert page["loudness"](cured) == pytest.approx(1, abs=0.15)
    assert page["shared"] == pytest.approx(2 / 3, abs=0.02)


def test_what_is_averaged_is_dimmed_about_as_far_as_the_checks_say(page):
    band, turn = (
        next(
            limit.value
            for limit in page["check_image_grid"](page["seen"], page["suggest_grid"](page["seen"], 16), **widths)
            if limit.code == code
        )
        for code, widths in {"bandwidth": {"channel_width": 16e9}, "time": {"integration": 900}}.items()
    )
    assert (1 - band) * (1 - turn) < page["dimmed"] < 0.8  # they are of the corners, further out
    assert "Pass channel_width" in page["limit_of"]("bandwidth")


@pytest.mark.parametrize(
    ("mistake", "hint"), [("kilo-lambda", "unit="), ("both halves", "Hermitian"), ("NaN", "flag(vis, ")]
)
def test_files_that_no_image_can_be_made_of_are_refused(page, mistake, hint):
    said, read = page["files"][mistake]
    assert hint in said
    assert read is None


def test_metres_pass_for_kilo_lambda_and_are_read_right_as_metres(page):
    assert page["files"]["metres"][0] == "nothing"
    assert page["shrunk"] == pytest.approx(1000 * 230e9 / 299_792_458 / 1e6, rel=1e-6)
    assert np.allclose(page["cured_units"].uu, page["seen"].uu, rtol=1e-12)


def test_the_truth_does_not_fit_averages_in_cells(page):
    assert page["in_cells"] > 1.5
    assert page["exact"] == pytest.approx(page["of_truth"], abs=0.1 * page["error"])


def test_weights_off_by_a_factor_are_found_and_mended(page):
    assert page["report"].worst == pytest.approx(4, rel=0.1)
    assert page["chi2_of_truth"](page["mended"]) == pytest.approx(1, abs=0.1)


def test_a_field_too_small_shows_in_sigmas(page):
    small = page["small"]
    assert small.chi2 > 1 + 3 * page["error"]
    assert np.abs(small.left).max() > 5


def test_the_numbers_of_the_exercise_are_those_of_the_page(page):
    """As far as they are of its fits, and to the digits that it shows."""
    letters = {name[0]: numbers for name, (numbers, _) in page["FITS"].items() if name[0] in page["fits"]}
    assert set(letters) == {"A", "B", "C", "D"}
    for letter, (chi2, count, largest, inside, flux, _) in letters.items():
        fitted = page["fits"][letter]
        assert (fitted.chi2, fitted.flux) == pytest.approx((chi2, flux), abs=4e-3)
        assert np.abs(fitted.left).max() == pytest.approx(largest, abs=0.5)
        assert in_source(page, fitted) == pytest.approx(inside, abs=0.05)
        assert fitted.count == count


def judge(chi2, count, largest, inside, flux, short, most=4, error=None, skip=()):
    """The rule with something else in place of one of its parts."""
    error = error or (lambda n: n**-0.5)
    wrong = [] if abs(chi2 - 1) <= most * error(count) else ["chi2"]
    wrong += ["missed"] * (largest > 5) + ["noise"] * (inside < 0.8)
    wrong += ["flux"] * (not 0.9 <= flux / short <= 1.1)
    return tuple(name for name in wrong if name not in skip)


WRONG = [
    (lambda *a: judge(*a, error=lambda n: 0.01, most=5), "1/√N"),
    (lambda *a: judge(*a, error=lambda n: (2 / n) ** 0.5), "1/√N"),
    (lambda *a: judge(*a, error=lambda n: 1 / n), "1/√N"),
    (lambda chi2, *a: judge(max(chi2, 1), *a), "-5.7 σ"),
    (lambda *a: judge(*a, skip=["flux"]), "flux"),
    (lambda *a: judge(*a, skip=["noise"]), "noise"),
    (lambda *a: judge(*a, skip=["missed"]), "missed"),
    (lambda c, n, largest, inside, f, s: judge(c, n, largest, 2 - inside, f, s), "noise"),
    (lambda c, n, largest, inside, f, s: judge(c, n, largest, inside, max(f, s), s), "flux"),
    (lambda *a: "chi2", "nothing"),
]

test_answers = judged(["judge_solution", judge], WRONG)
