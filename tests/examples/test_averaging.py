"""What the page says of averages in cells, and its checker."""

import numpy as np
import pytest
from pages import judged

PAGE = "4_imaging/06_averaging.py"


def test_the_truth_fits_every_row_and_not_the_averages(page):
    """Not in the narrow field; nearly in the widest one, where the package warns no more."""
    u, v, vis, weight = (page[name] for name in ("u", "v", "vis", "weight"))
    assert page["chi_squared"](u, v, vis, weight) == pytest.approx(1, abs=0.01)
    assert page["of_truth"][180] == pytest.approx(page["chi_squared"](*page["averages"]), rel=0.01)
    assert page["of_truth"][180] > 15 > page["of_truth"][360] > page["of_truth"][720] > 1.1
    assert [bool(page["told"][side]) for side in (180, 360, 720)] == [True, True, False]


def test_what_is_left_in_a_field_twice_as_wide_is_as_predicted(page):
    left = [page["of_truth"][side] - 1 for side in (180, 360, 720)]
    assert 8 < left[0] / left[1] < 16
    assert 8 < left[1] / left[2] < 16


def test_the_worst_cell_is_off_by_more_than_its_noise(page):
    assert page["in_sigma"][page["worst"]] > 100
    assert page["inside"].sum() > 100


def test_the_averages_are_to_blame_and_not_the_fit(page):
    spoiled, good = page["spoiled"], page["good"]
    assert page["of_truth"][180] > 2 * spoiled.terms["chi2"] > 10
    assert good.status == "converged" != spoiled.status
    off = [np.linalg.norm(found.image.cpu()[0].numpy() - page["truth"]) for found in (good, spoiled)]
    assert off[1] > 2 * off[0]


def test_averages_compared_where_their_rows_lie_are_better(page):
    better, width = page["average_solution"], page["width"]
    rows = [page[name] for name in ("u", "v", "vis", "weight")]
    assert page["chi_squared"](*better(*rows, width)) < 3
    assert page["chi_squared"](*better(*rows, width / 2)) < 1.1


def by_truncation(u, v, vis, weight, width):
    cells = (np.stack([u, v]) / width).astype(int)
    return means(cells, u, v, vis, weight)


def means(cells, u, v, vis, weight, count=None):
    cell = np.unique(cells, axis=1, return_inverse=True)[1].ravel()
    by = weight if count is None else count
    total = np.bincount(cell, by)
    mean = [np.bincount(cell, by * x) / total for x in (u, v, vis.real, vis.imag)]
    return mean[0], mean[1], mean[2] + 1j * mean[3], np.bincount(cell, weight)


WRONG = {
    "centres": ("average_cells", "weighted means"),
    "cells of another shape": (by_truncation, "shapes"),
    "without weights": (
        lambda u, v, vis, weight, width: means(
            np.round(np.stack([u, v]) / width), u, v, vis, weight, np.ones(len(u))
        ),
        "twice",
    ),
    "mean weight": (
        lambda *rows: (*(good := means(np.round(np.stack(rows[:2]) / rows[4]), *rows[:4]))[:3], good[3] / 2),
        "sum of the weights",
    ),
    "plain sums of the weights' roots": (
        lambda *rows: (*(good := means(np.round(np.stack(rows[:2]) / rows[4]), *rows[:4]))[:3], np.sqrt(good[3])),
        "sum of the weights|twice",
    ),
    "no cells": (lambda u, v, vis, weight, width: (u, v, vis, weight), "shapes"),
}  # fmt: skip


def right(u, v, vis, weight, width):
    """As the solution, with floor in place of round."""
    return means(np.floor(np.stack([u, v]) / width + 0.5), u, v, vis, weight)


test_answers = judged(["average_solution", right], WRONG)
