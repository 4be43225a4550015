"""What the page says of the way without cells, and its checker."""

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "4_imaging/10_off_the_grid.py"


def test_nights_repeat_the_tracks_with_other_noise(page):
    u, _, data, weight = page["observed"](250_000)
    night = page["night"].data.size
    np.testing.assert_array_equal(u[:1000], u[night : night + 1000])
    assert np.abs(data[:1000] - data[night : night + 1000]).min() > 0
    rest = data[:night] - page["night"].data[0]
    assert np.mean(weight[:night] * np.abs(rest) ** 2) / 2 == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("nvis", [299, 4000])
def test_both_ways_agree_with_the_sum_by_its_definition(page, nvis):
    """In float64, with the sum of each visibility written out."""
    u, v, data, weight = page["observed"](nvis)
    image = torch.rand(1, 36, 36, generator=torch.manual_seed(2), dtype=torch.float64)
    east, north = page["GridCoords"](0.03, 36).sky_coordinates()
    turns = np.radians((u[:, None] * east.ravel() + v[:, None] * north.ravel()) / 3600)
    model = np.exp(-2j * np.pi * turns) @ image.numpy().ravel() * 0.03**2
    right = np.sum(weight * np.abs(data - model) ** 2)
    exact = page["ExactLikelihood"](u, v, data, weight, 0.03, 36, dtype=torch.float64)
    assert exact(image).item() == pytest.approx(right, rel=1e-10)
    predicted = page["visibilities"](image, u, v, 0.03).numpy()
    assert np.sum(weight * np.abs(data - predicted) ** 2) == pytest.approx(right, rel=1e-10)


def test_the_gradients_are_the_same(page):
    assert page["apart"] < 1e-5


def test_three_numbers_give_any_fourth(page):
    for factor in (-1, 0.5, 3):
        found = page["at_0"] + factor * page["linear"] + factor**2 * page["square"]
        assert found == pytest.approx(page["chi_squared"](factor * page["sky"]).item(), rel=1e-4)


def test_a_strong_signal_loses_chi_squared_until_it_is_re_centred(page):
    assert abs(page["lost"] - 1) > 0.1
    assert page["kept"] == pytest.approx(1, abs=0.02)


def sums(real=np.real, conjugate=np.conj, twice=2, weigh=True, keep=False):
    """Give an answer to the exercise that does right but for one thing."""

    def answer(matrix, data, weight):
        weights = weight if weigh else np.ones_like(weight)
        kept = matrix.copy() if keep else None
        c = np.sum(weights * np.abs(data) ** 2)
        d = real(conjugate(matrix).T @ (weights * data))
        table = real((conjugate(matrix).T * weights) @ matrix)

        def chi_squared(image):
            assert not keep or kept.size
            return c - twice * d @ image + image @ table @ image

        return chi_squared

    return answer


WRONG = {
    "the data in each step": (lambda m, d, w: lambda image: np.sum(w * np.abs(d - m @ image) ** 2), "keeps"),
    "a copy": (sums(keep=True), "keeps"),
    "no conjugate": (sums(conjugate=np.array), "onjugate the matrix"),
    "nor a real part": (sums(real=np.array, conjugate=np.array), "onjugate the matrix"),
    "complex": (sums(real=np.array), "complex"),
    "once": (sums(twice=1), "comes twice"),
    "the other sign": (sums(twice=-2), "other sign"),
    "no weights": (sums(weigh=False), "dark sky"),
    "a number": (lambda m, d, w: np.sum(w * np.abs(d) ** 2), "function"),
}


test_answers = judged(["exact_form_solution", sums()], WRONG)
