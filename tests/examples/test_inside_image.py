"""What the page says of masks, smoothness and errors, and its checker."""

import numpy as np
import pytest
from pages import assert_check_tells, parts_of
from scipy import ndimage

PAGE = "4_imaging/14_inside_image.py"
# Its images take half a minute: imaging/tests/automatic judges smaller ones.


@pytest.mark.slow
def test_without_a_mask_noise_becomes_flux(page):
    excess = page["wide_flux"] - page["found"].flux
    assert page["wide_flux"] == pytest.approx(2 * page["found"].flux, rel=0.15)
    assert 0.5 < page["extra"] / excess < 0.8  # two thirds, as the page says
    verdicts = {verdict for verdict, _ in page["everywhere"].quality.faults}
    assert {"over-fitted", "doubtful"} <= verdicts


@pytest.mark.slow
def test_weak_smoothing_fits_noise_and_strong_smoothing_leaves_flux(page):
    weak, right, strong = (page["fit_where"](page["found"].mask, page["coords"], k) for k in (0.1, 1, 30))
    assert weak.quality.inside < 1 / 3 < 0.85 < right.quality.inside < 1.15 < 9 < strong.quality.inside
    assert strong.flux[-1, 0] * page["unit"] < 0.98 * page["found"].flux
    assert page["found"].quality.inside == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_the_scatter_of_repetitions_covers_the_truth(page):
    assert abs(page["found"].flux - page["bias"] - 0.29) < 2 * page["scatter"] < 0.003


def labelled(snr):
    labels, _ = ndimage.label(snr > 2.5, np.ones((3, 3)))
    return np.isin(labels, np.unique(labels[snr > 5]))


def test_answers():
    wrong = [
        (lambda snr: snr > 5, "outskirts"),
        (lambda snr: snr > 2.5, "never reaches"),
        (lambda snr: labelled(abs(snr)), "hole"),
        (lambda snr: ndimage.binary_dilation(snr > 5, iterations=12) & (snr > 0), "too far"),
        (lambda snr: snr > 8, "misses"),
        (lambda snr: labelled(snr)[1:], "shape"),
        (lambda snr: snr.undefined, "raised"),
    ]
    exercise = parts_of(PAGE, "check", "possible_mask")
    assert_check_tells(exercise, ["possible_mask", labelled], wrong)
