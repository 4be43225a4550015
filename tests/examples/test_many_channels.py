"""What the page says of a cube: whose baselines, groups, coupling, velocities; and its checker."""

import numpy as np
import pytest
import torch
from pages import judged
from torch.utils._python_dispatch import TorchDispatchMode

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


def groups(retry="halve", skip=0, again=False, stack=np.concatenate):
    """Give an answer to the exercise that does right but for one thing."""

    def answer(nchan, most, fit_group):
        images, first, size = [], 0, most
        while first < nchan - skip:
            last = min(first + size, nchan)
            try:
                images.append(fit_group(first, last))
            except torch.OutOfMemoryError:
                if retry == "never" or (last - first == 1 and retry != "always"):
                    raise
                size = {"one less": size - 1, "restart": size // 2}.get(retry, (last - first) // 2)
                size = max(1, size)
                if retry == "restart":
                    images, first = [], 0
                continue
            first, size = last, most if again else size
        return stack(images)

    return answer


def one_by_one(nchan, _, fit_group):
    return np.concatenate([fit_group(k, k + 1) for k in range(nchan)])


def rounded_down(nchan, most, fit_group):
    return np.concatenate([fit_group(k * most, (k + 1) * most) for k in range(nchan // most)])


def past_the_end(nchan, most, fit_group):
    return np.concatenate([fit_group(k, k + most) for k in range(0, nchan, most)])


WRONG = {
    "rounded down": (rounded_down, "only"),
    "past the end": (past_the_end, "there are"),
    "no second try": (groups(retry="never"), "OutOfMemoryError"),
    "without an end": (groups(retry="always"), "more than 50"),
    "from the start again": (groups(retry="restart"), "twice"),
    "forgets that it halved": (groups(again=True), "should"),
    "one is missing": (groups(skip=1), "only"),
    "a list": (groups(stack=list), "array"),
    "in reverse": (groups(stack=lambda images: np.concatenate(images[::-1])), "order"),
    "one channel at a time": (one_by_one, "should"),
    "one less": (groups(retry="one less"), "should"),
}


test_answers = judged(["fit_in_groups_solution", groups()], WRONG)
