"""What the page says of a cube: whose baselines, groups, coupling, velocities; and its checker."""

import numpy as np
import pytest
import torch
from pages import judged
from torch.utils._python_dispatch import TorchDispatchMode
from variants import edited

PAGE = "4_imaging/09_many_channels.py"


class Tally(TorchDispatchMode):
    """Count the operations that do more than give another view."""

    def __init__(self):
        super().__init__()
        self.starts = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.starts += function.name().startswith("aten::") and not function.is_view
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("channels", [1, 7])
def test_a_step_is_about_a_hundred_starts_for_any_number_of_channels(page, channels):
    step = page["make_step"](14, channels, "cpu")
    step()
    with Tally() as tally:
        step()
    assert tally.starts == pytest.approx(page["starts"], rel=0.15)


def test_gas_that_moves_away_has_the_lower_frequency(page):
    assert (np.diff(page["frequency"]) > 0).all()
    assert (np.diff(page["velocity"]) < 0).all()
    moving_away = page["truth"][0].numpy() > 0.1
    assert page["away"][moving_away].min() > 1.5


def test_shared_baselines_stretch_and_a_shared_beam_is_worse(page):
    excess = {apart: np.subtract(chi2[1:], chi2[0]) for apart, chi2 in page["sharing"].items()}
    assert abs(excess[1e-5]).max() < 1e-4
    assert excess[1e-2][0] > 5e-4
    assert excess[1e-2][1] > 10 * excess[1e-2][0]
    assert excess[1e-2][1] / excess[1e-3][1] == pytest.approx(10, rel=0.3)  # linear
    assert excess[1e-3][0] < excess[1e-2][0] / 20  # steeper


def test_the_cube_fits_every_channel_and_not_the_noise(page):
    assert page["result"].chi2.shape[1] == page["nchan"]
    assert page["result"].status == "converged"
    ratio = page["residual"].std(axis=(1, 2)) / page["of_noise"].std(axis=(1, 2))
    assert 0.9 < ratio.min() <= ratio.max() < 1.02
    assert abs(page["residual"]).max() < 5
    assert page["within"] > 0.75


def test_residuals_of_the_truth_are_noise_of_the_size_that_the_weights_say(page):
    assert page["of_noise"].std(axis=(1, 2)) == pytest.approx(1, abs=0.06)
    assert abs(page["chi2_truth"]).max() < 3


def test_the_faint_emission_stays(page):
    assert page["fluxes"] == pytest.approx(page["true_fluxes"], rel=0.08)
    assert page["outer_kept"] > 0.9
    assert max(page["off"](page["cube"])) < 0.23
    assert page["blurred"].max() < 0.08
    assert page["off"](page["truth"]) == pytest.approx(0)


def test_the_groups_fit_and_the_whole_does_not(page):
    assert page["big"] > 8e9 > page["big"] / page["groups"]
    assert 200 // page["groups"] <= page["most"] < 200


def test_a_clip_takes_velocities_from_the_sky_and_too_high_a_one_from_the_disk(page):
    def share(part, where):
        return page["maps"][part][1].isfinite()[page[where]].double().mean()

    assert share(0, "empty") > 0.9
    assert share(0.1, "empty") < 0.02
    assert share(0.1, "disk") > 0.95
    assert share(0.3, "disk") < 0.6
    wrong = (page["maps"][0.1][1] - page["known"])[page["disk"]]
    assert wrong[wrong.isfinite()].abs().median() < 0.08


def test_moments_of_a_line_at_one_velocity(page):
    cube = torch.zeros(page["nchan"], 2, 2, dtype=torch.float64)
    cube[2, 0, 1] = 4
    total, mean = page["moments"](cube, 0.5)
    assert total[0, 1] == 4 * page["width"]
    assert mean[0, 1] == pytest.approx(page["velocity"][2])
    assert mean[0, 0].isnan()


def groups(nchan, most, fit_group):
    images, first, size = [], 0, most
    while first < nchan:
        last = min(first + size, nchan)
        try:
            images.append(fit_group(first, last))
            first = last
        except torch.OutOfMemoryError:
            if last - first == 1:
                raise
            size = (last - first) // 2
    return np.concatenate(images)


def one_by_one(nchan, _, fit_group):
    return np.concatenate([fit_group(k, k + 1) for k in range(nchan)])


def rounded_down(nchan, most, fit_group):
    return np.concatenate([fit_group(k * most, (k + 1) * most) for k in range(nchan // most)])


def past_the_end(nchan, most, fit_group):
    return np.concatenate([fit_group(k, k + most) for k in range(0, nchan, most)])


HALF = "(last - first) // 2"
WRONG = {
    "rounded down": (rounded_down, "only"),
    "past the end": (past_the_end, "there are"),
    "no second try": (edited(groups, ("last - first == 1", "True")), "OutOfMemoryError"),
    "without an end": (edited(groups, ("raise\n", "pass\n"), (HALF, f"max(1, {HALF})")), "more than 50"),
    "from the start again": (edited(groups, (f"size = {HALF}", "images, first, size = [], 0, size // 2")), "twice"),
    "forgets that it halved": (edited(groups, ("first = last", "first, size = last, most")), "should"),
    "one is missing": (edited(groups, ("first < nchan", "first < nchan - 1")), "only"),
    "a list": (edited(groups, ("np.concatenate(images)", "images")), "array"),
    "in reverse": (edited(groups, ("(images)", "(images[::-1])")), "order"),
    "one channel at a time": (one_by_one, "should"),
    "one less": (edited(groups, (HALF, "size - 1")), "should"),
}


test_answers = judged(["fit_in_groups_solution", groups], WRONG)
