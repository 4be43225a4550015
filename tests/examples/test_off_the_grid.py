"""What the page says of the ways without cells, and its checker."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from pages import judged

from firstlight.devices import Card
from firstlight.imaging import ExactLikelihood

PAGE = "4_imaging/10_off_the_grid.py"


def test_cells_get_worse_with_the_data_and_the_exact_form_does_not(page):
    cells, exact = page["of_truth"]["cells"], page["of_truth"]["exact"]
    assert cells[10**4] > 1.3
    assert cells[10**5] > 2 * cells[10**4]
    assert cells[10**6] > 5 * cells[10**5]
    assert all(chi2 == pytest.approx(1, abs=4 / count**0.5) for count, chi2 in exact.items())


@pytest.mark.parametrize(("card", "host", "most"), [(8e9, 64e9, 10**7), (80e9, 64e9, 10**8), (80e9, 8e9, 10**7)])
def test_a_small_card_or_host_gets_the_visibilities_that_it_has_room_for(page, monkeypatch, card, host, most):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (int(card), int(card)))
    monkeypatch.setitem(page["has_room"].__globals__, "card", lambda _: Card("CPU", "cpu", memory_bytes=int(host)))
    assert [page["has_room"](count) for count in (10**7, 10**8)] == [True, most == 10**8]


def test_nights_repeat_the_tracks_with_other_noise(page):
    u, _, data, weight = page["observed"](250_000)
    night = page["night"].data.size
    np.testing.assert_array_equal(u[:1000], u[night : night + 1000])
    assert np.abs(data[:1000] - data[night : night + 1000]).min() > 0
    rest = data[:night] - page["night"].data[0]
    assert np.mean(weight[:night] * np.abs(rest) ** 2) / 2 == pytest.approx(1, abs=0.02)


def test_angles_come_back_and_with_them_the_image(page):
    assert np.degrees(page["wrong"].std()) < 1.5 < 20 < np.degrees(page["there"].std())
    assert page["chi2_before"][-1] > 10
    assert page["chi2_after"][-1] == pytest.approx(1, abs=0.05)
    scatter = page["estimates"][-50:].std()
    assert scatter > 5 * np.std(page["chi2_after"][-20:])
    assert page["off_known"] < page["off_after"] < page["off_before"] / 3


def test_float32_falls_apart_and_re_centred_does_not(page):
    plain, kept = zip(*(level["error"].values() for level in page["levels"]), strict=True)
    assert plain[0] < 1e-4
    assert plain[-1] > 0.03
    assert all(later > 5 * earlier for earlier, later in pairwise(plain))
    assert max(kept) < 1e-4


@pytest.mark.parametrize("size", [1, 7, 40, 41])
def test_the_mean_over_a_pass_is_chi_squared_and_its_gradient(page, size):
    """Weighted by their lengths, as 41 makes no equal batches, the batches of a pass add up to chi²."""
    rng = np.random.default_rng(3)
    u, v = rng.uniform(-9e5, 9e5, (2, 41))
    data, weight = rng.normal(size=41) + 1j * rng.normal(size=41), rng.uniform(0.5, 3, 41)
    sky = torch.from_numpy(rng.uniform(size=(1, 12, 12))).requires_grad_()
    factor = torch.polar(torch.ones(41).double(), torch.linspace(0, 2, 41).double()).requires_grad_()
    right = ExactLikelihood(u, v, data, weight, 0.1, 12, factor=factor.detach().numpy(), dtype=torch.float64)(sky)
    batches = page["deal"](41, size, rng)
    assert sorted(np.concatenate(batches)) == list(range(41))
    assert max(map(len, batches)) <= size
    estimates = [page["chi_squared_of"](at, sky, u, v, data, weight, 0.1, factor[at]) for at in batches]
    total = sum(len(at) / 41 * each for at, each in zip(batches, estimates, strict=True)).sum()
    assert total.item() == pytest.approx(right.item(), rel=1e-10)
    slopes = torch.autograd.grad(total, [sky, factor])
    torch.testing.assert_close(slopes[0], torch.autograd.grad(right.sum(), sky)[0])
    assert slopes[1].abs().min() > 0


def test_a_gradient_over_the_array_and_what_all_share_are_no_phases(page):
    east, north, _ = page["alma_antennas"]().T
    rng = np.random.default_rng(1)
    angles = rng.normal(size=43)
    same = page["phases_alone"](angles + 3 + 0.01 * east - 0.02 * north)
    np.testing.assert_allclose(same, page["phases_alone"](angles), atol=1e-9)
    assert page["phases_alone"](angles).std() > 0.8


def test_the_fits_are_at_their_end_at_every_noise(page):
    residuals = [level["residual"] for level in page["levels"]]
    assert all(0.55 < residual.std() < 1.05 for residual in residuals)
    assert max(residual.abs().max() for residual in residuals) < 5
    off = [level["off"] for level in page["levels"]]
    assert off == sorted(off, reverse=True)


def test_the_line_is_a_parabola_through_the_truth(page):
    for level in page["levels"]:
        right = level["curves"]["float64"]
        curve = np.polyfit(level["along"], right, 2)
        np.testing.assert_allclose(np.polyval(curve, level["along"]), right, atol=1e-6)
        assert right.min() == pytest.approx(1, abs=0.05)


WRONG = [
    (lambda w, r, at: np.sum(w[at] * np.abs(r[at]) ** 2), "times more"),
    (lambda w, r, at: np.mean(w[at] * np.abs(r[at]) ** 2), "sum"),
    (lambda w, r, at: np.sum(w[at] * np.abs(r[at])) * len(w) / len(at), "sum"),
    (lambda w, r, at: np.sum(w[at] * np.abs(r[at]) ** 2) * w.sum() / w[at].sum(), "numbers"),
]


test_answers = judged(["estimate_solution", lambda w, r, at: len(w) * np.mean(w[at] * np.abs(r[at]) ** 2)], WRONG)
