"""The page's check accepts what is right and tells what is wrong; what it says of NumPy and PyTorch is so."""

import re
import sys
from textwrap import dedent
from types import ModuleType

import numpy as np
import pytest
import scipy.ndimage
import torch
from pages import EXAMPLES, judged
from samples import medians

PAGE = "2_devices/12_port_your_numpy.py"


def ported(pictures, middle=lambda x: x.quantile(0.5, dim=0), rows=1, correction=0):
    pictures = pictures.flip(rows)
    off = pictures - middle(pictures)
    far = off.abs() > 2 * off.std(dim=0, correction=correction)
    return torch.where(far, 0, off).amax(dim=0)


def by_two_medians(pictures):
    return ported(pictures, lambda x: (x.median(0).values - (-x).median(0).values) / 2)


def in_place(pictures):
    pictures -= pictures.quantile(0.5, dim=0)
    pictures[pictures.abs() > 2 * pictures.std(0, correction=0)] = 0
    return pictures.flip(1).amax(0)


def with_its_indices(pictures):
    return torch.max(pictures.flip(1) - pictures.flip(1).quantile(0.5, dim=0), dim=0)


WRONG = {
    "the lower median": (lambda p: ported(p, lambda x: x.median(0).values), "NumPy's"),
    "the mean": (lambda p: ported(p, lambda x: x.mean(0)), "NumPy's"),
    "n - 1": (lambda p: ported(p, correction=1), "NumPy's"),
    "not turned": (lambda p: ported(p).flip(0), "upside down"),
    "left and right turned": (lambda p: ported(p, rows=2), "NumPy's"),
    "in place": (in_place, "changes the pictures"),
    "in NumPy": ("brightest", "ValueError|TypeError|not a tensor"),
    "NumPy's array": (lambda p: ported(p).numpy(), "not a tensor"),
    "two results": (with_its_indices, "two results"),
    "always float32": (lambda p: ported(p.float()), "float64"),
    "always float64": (lambda p: ported(p.double()), "float32"),
    "the start": ("brightest_torch", "NoneType"),
}


test_answers = judged(["brightest_solution", ported, by_two_medians], WRONG)


def test_photometry_finds_the_truth_and_a_plain_mean_does_not(page) -> None:
    assert 0.7 < page["pull"](*page["exact"]) < 1.5
    assert 0.7 < page["pull"](*page["moved"]) < 1.5
    plain = page["level"](page["read"](page["night"])[0]).mean(axis=0)
    flux, _ = page["photometry"](plain, page["exact_error"], page["stars"], page["box"])
    assert page["pull"](flux, page["exact"][1]) > 5


def test_the_photometry_in_its_fold_is_that_of_the_loop(page) -> None:
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8").replace("\n#", "\n")
    code = re.search(r"\n +def photometry_of_all.*?\.numpy\(\)\n", text, re.DOTALL)
    exec(dedent(code[0]), defined := {"torch": torch})
    image, error, box = map(torch.from_numpy, (page["exact_image"], page["exact_error"], page["box"]))
    got = defined["photometry_of_all"](image, error, page["stars"], box)
    np.testing.assert_allclose(got, page["exact"], rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 5), (2, 7), (15, 3, 11), (16, 3, 11), (8, 1, 1)])
def test_the_medians_are_those_of_numpy(page, shape) -> None:
    values = np.random.default_rng(1).standard_normal(shape)
    for dim in range(len(shape)):
        ours = page["median"](torch.from_numpy(values), dim)
        assert np.array_equal(ours, np.median(values, axis=dim))
    for xp, frames in ((np, values), (torch, torch.from_numpy(values))):
        assert np.array_equal(page["median_by_swaps"](frames, xp), np.median(values, axis=0))


def test_the_lower_median_is_low_for_an_even_number_only(page) -> None:
    values = torch.tensor([[1.0, 2.0, 3.0, 10.0]])
    assert page["lower"](values, 1) == 2
    assert page["lower"](values[:, :3], 1) == page["median"](values[:, :3], 1) == 2
    assert page["lower"](page["t_biases"], 0).mean() < page["median"](page["t_biases"], 0).mean() - 0.3


SAME = ("xp.sum(m, axis=0)", "xp.mean(m, axis=(0, 1))", "(m * 2.0).dtype")
OTHER = ("xp.max(m, axis=0)", "xp.median(v)", "xp.nanmedian(v)", "xp.std(v)", "(m * xp.arange(2)).dtype")
OTHER += ("v.copy().sum()", "(xp.arange(3) / 2).dtype", "v[::-1]")


@pytest.mark.parametrize("line", SAME + OTHER)
def test_what_the_two_libraries_say(page, line) -> None:
    numbers = page["numbers"]
    said = page["reply"](line, np, numbers), page["reply"](line, torch, torch.from_numpy(numbers))
    assert (said[0] == said[1]) is (line in SAME)


def test_the_functions_to_copy_agree(page) -> None:
    for count in (1, 2, 15, 16):
        shots = np.random.default_rng(count).random((count, 7, 5))
        np.testing.assert_allclose(page["run_on_gpu"](page["spread_torch"], shots), page["spread"](shots))


def test_the_lines_for_cupy_run_when_copied(monkeypatch) -> None:
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    copied = re.search(r"code-block:: python\n#\n((?:#(?: {4}.*)?\n)+)", text)[1]
    assert "import cupy" in copied
    cupy = ModuleType("cupy")
    cupy.asarray = cupy.asnumpy = np.asarray
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    exec(dedent(re.sub("^#", "", copied, flags=re.MULTILINE)), defined := {})
    assert defined["back"].shape == (20, 30)


def test_the_prediction_is_amdahls_sum(page) -> None:
    moved = sum(page["profile"][step] for step in page["moving"])
    new = page["old"] - moved + moved / page["gain"] + sum(page["travel"].values())
    assert page["new"] == pytest.approx(new)
    assert page["at_most"] == pytest.approx(1 / (1 - page["share"]))


def test_the_lower_median_moves_most_stars_and_their_mean_hides_it(page) -> None:
    flux, error = page["exact"]
    right, wrong = ((page[name][0] - flux) / error for name in ("moved", "naive"))
    assert np.mean(np.abs(wrong) > 0.1) > 0.4
    assert 0.05 < np.mean(np.abs(wrong) > 0.3) < 0.2
    assert abs(wrong.mean()) < 0.05
    assert np.abs(right).max() < 1e-3


def test_the_h100_did_what_the_text_says_of_it() -> None:
    took = medians(PAGE)
    moving = ("calibrate", "level", "clean", "stack")
    stays = took["read, NumPy"] + took["photometry, NumPy"]
    before, after = (sum(took[f"{step}, {how}"] for step in moving) for how in ("NumPy", "torch"))
    old, airport = before + stays, stays + took["transfers"]
    assert before / old == pytest.approx(0.95, abs=0.01)
    assert 20 < old / stays < 24
    assert [round(old / (airport + before / s)) for s in (20, 90, np.inf)] == [10, 15, 18]
    assert 20 < took["median of frames, NumPy"] / took["median of frames, torch"] < 90
    assert 60 < before / after < 90
    assert round(old / (airport + after)) == 14
    assert took["whole, NumPy"] / took["whole, ported"] == pytest.approx(old / (airport + after), rel=0.15)
    assert airport > 0.75 * took["whole, ported"]
    assert old < took["whole, NumPy"]
    assert took["whole, ported"] < took["whole, torch on all cores"] < took["whole, by swaps"] < took["whole, NumPy"]


class PlayedArray(np.ndarray):
    """An array as CuPy has them, of which NumPy's own functions make others of its kind, on the CPU."""

    def get(self):
        return np.asarray(self)


def test_the_steps_run_as_they_stand_with_the_arrays_of_another_library(page, monkeypatch, capsys) -> None:
    cupy, cupyx = ModuleType("cupy"), ModuleType("cupyx.scipy.ndimage")
    cupy.add, cupy.asarray = np.add, lambda array: np.array(array).view(PlayedArray)
    cupy.stack = lambda arrays: np.stack(arrays).view(PlayedArray)
    cupyx.median_filter = lambda image, size: scipy.ndimage.median_filter(image, size).view(PlayedArray)
    monkeypatch.setitem(sys.modules, "cupyx", ModuleType("cupyx"))
    monkeypatch.setitem(sys.modules, "cupyx.scipy", ModuleType("cupyx.scipy"))
    monkeypatch.setitem(sys.modules, "cupyx.scipy.ndimage", cupyx)
    page["with_cupy"](cupy)
    labels = {timing.label for timing in page["cupy_bench"].timings}
    assert {f"{step}, CuPy" for step in page["moving"]} < labels
    assert len(labels) == 8
    assert "the first median" in capsys.readouterr().out
