"""What the page says of scores, priors and prices, and its checker."""

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "4_imaging/07_choosing_regularizers.py"


def test_the_recipe_chooses_as_the_page_does(page):
    table, by_page = page["table"], page["lambdas"][page["best"]]
    assert abs(np.log10(min(table, key=table.get) / by_page)) < 0.51  # the next λ at most


def test_the_recipe_leaves_the_middle_out_of_the_score_and_only_there(page):
    with_middle, without = (page["score_of"](page["averages"], 1e-4, cut=cut) for cut in (0, 4))
    assert with_middle > 3 * without
    assert np.isnan(page["score_of"](page["averages"], 1e-4, k=2, cut=99))


def test_every_fold_has_the_same_cells_as_the_data(page):
    """Nine channels for each λ: four folds, four of the dartboard, and all data, which test themselves."""
    k, cells = page["k"], page["averages"].mask
    for first in (0, k):
        for fold in range(first, first + k):
            train, test = page["train"].mask[fold], page["test"].mask[fold]
            assert not (train & test).any()
            assert torch.equal(train | test, cells[0])
        assert torch.equal(page["test"].mask[first : first + k].sum(0), cells[0].long())
    assert torch.equal(page["test"].mask[-1], cells[0])


def test_the_score_of_all_data_is_what_the_fit_calls_chi_squared(page):
    reached = page["found"].chi2[-1].reshape(6, -1)[:, -1]
    assert page["whole"][:, -1] == pytest.approx(reached, rel=0.01)


def test_a_few_cells_in_the_middle_make_the_score(page):
    assert np.mean(page["far"] < 4) < 0.06
    assert page["whole"][0, : page["k"]].mean() > 3 * page["mean"][0]


def test_of_the_outer_cells_the_splits_agree_and_the_bars_are_short(page):
    k, whole, outer = page["k"], page["whole"], page["outer"]
    cells, darts = outer[2:, :k].mean(1), outer[2:, k:-1].mean(1)
    assert cells == pytest.approx(darts, abs=0.02)
    assert (outer[2:, k:-1].std(1) < whole[2:, k:-1].std(1) / 10).all()


def test_the_whole_plane_asks_for_too_much_and_the_outer_cells_for_less(page):
    lambdas, error = page["lambdas"], page["fidelity"](page["full"])
    of_all = page["whole"][:, : page["k"]].mean(1).argmin()
    assert lambdas[of_all] == pytest.approx(0.01)
    assert lambdas[page["best"]] == pytest.approx(10**-2.5)
    assert error[page["best"]] < error[of_all]
    assert error[page["best"]] == pytest.approx(error.min(), rel=0.05)


def test_too_little_adds_flux_and_too_much_takes_what_the_prior_counts(page):
    true = float(page["truth"].max())
    flux = {name: page["flux"](images) for name, images in page["images"].items()}
    peak = {name: images.amax((1, 2)) / true for name, images in page["images"].items()}
    assert all(values[0] > 1.15 * 0.25 for values in flux.values())
    assert flux["sparsity"][-1] < 0.75 * 0.25
    assert peak["sparsity"][-1] > 0.95
    assert flux["tsv"].min() > 0.25
    assert peak["tsv"][-1] < 0.5
    assert sum(values.min() < 0.25 for values in flux.values()) == 3


def test_prices_scale_as_sums_over_pixels_do(page):
    """Half the pixel width has four times the pixels, and half the step from one to the next."""
    for name, times in {"sparsity": 4, "entropy": 4, "tv": 2, "tsv": 1}.items():
        fine = page["PRIORS"][name](page["fine"][None]).item()
        assert fine / page["of_true"][name] == pytest.approx(times, rel=0.12)


def rule(mean=np.mean, axis=1, spread=None, pick=max, clean=True):
    """The rule with something else in place of one of its parts."""
    spread = spread or (lambda row: np.std(row, ddof=1) / np.sqrt(len(row)))

    def answer(lambdas, scores):
        if clean:
            keep = ~np.isnan(scores).any(1)
            lambdas, scores = lambdas[keep], scores[keep]
        means = mean(scores, axis=axis)
        best = np.nanargmin(means)
        return pick(lambdas[means <= means[best] + spread(scores[best])])

    return answer


def errors_of_each(lambdas, scores):
    return lambdas[scores.mean(1) - scores.std(1, ddof=1) / 2 <= np.nanmin(scores.mean(1))].max()


WRONG = {
    "the mean over the wrong axis": (rule(axis=0), "along it"),
    "no tolerance": (rule(spread=lambda row: 0), "worse"),
    "the weakest within it": (rule(pick=min), "worse"),
    "the lowest score": (lambda lambdas, scores: lambdas[np.nanargmin(scores.mean(1))], "worse"),
    "the spread, not divided by the root of k": (rule(spread=np.std), "root"),
    "the spread without ddof=1": (rule(spread=lambda row: np.std(row) / 2), "ddof"),
    "takes the strengths to be in order": (rule(pick=lambda found: found[-1]), "order"),
    "ignores NaN": (rule(mean=np.nanmean, clean=False), "NaN"),
    "the error of each strength": (errors_of_each, "each"),
}


test_answers = judged(["strongest_solution", rule()], WRONG)
