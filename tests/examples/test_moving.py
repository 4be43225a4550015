"""The page's answers about moves hold, and its check accepts what is right and tells what is wrong."""

import numpy as np
import torch
from pages import judged

PAGE = "2_devices/01_moving.py"


def from_a_list(x):
    return np.array(x.tolist(), dtype=np.float64)


def numpy_copies(x):
    return x.detach().cpu().double().numpy().copy()


def to_float32(x):
    return x.detach().cpu().float().numpy().copy()


def shares_float64(x):
    return x.detach().cpu().double().numpy()


def without_detach(x):
    return x.cpu().to(torch.float64, copy=True).numpy()


def numpy_converts(x):
    return x.detach().cpu().numpy().astype(np.float64)


def takes_the_gradient_away(x):
    return from_a_list(x.requires_grad_(False))


def empties(x):
    array = from_a_list(x)
    with torch.no_grad():
        x.zero_()
    return array


WRONG = {
    "the start": ("snapshot", "shares memory"),
    "shares where nothing is to do": (shares_float64, "shares memory"),
    "without detach": (without_detach, "requires grad"),
    "NumPy has no bfloat16": (numpy_converts, "BFloat16"),
    "another type": (to_float32, "float32"),
    "flat": (lambda x: from_a_list(x).ravel(), "another shape"),
    "other numbers": (lambda x: from_a_list(x) + 1e-9, "other numbers"),
    "a tensor": (lambda x: x.detach().cpu().to(torch.float64, copy=True), "Tensor"),
    "a list": (lambda x: x.tolist(), "list"),
    "takes the gradient away": (takes_the_gradient_away, "has changed"),
    "changes the tensor": (empties, "has changed"),
}


test_answers = judged(["snapshot_solution", from_a_list, numpy_copies], WRONG)


def test_each_line_answers_as_its_group_does(page) -> None:
    answers = {line: tuple(yes for yes, _ in answer) for line, answer in page["answers"].items()}
    assert answers.pop("model.to(gpu)") == (False, True, True)
    same, copied, crossed = [(False, False, False)] * 2 + [(True, False, False)] * 3, (True, True, False), (True,) * 3
    assert [*answers.values()] == [*same, *[copied] * 3, *[crossed] * 3]


def test_the_title_of_the_figure_counts_what_waits(page) -> None:
    assert page["found"] == page["crossing"]
    assert page["title"] == page["fig"].get_suptitle()


def test_what_was_kept_is_what_the_page_says_of_a_cpu_and_of_a_gpu(page) -> None:
    kept = [int(value) for value in page["kept"]]
    assert kept == ([1, 2, 3] if page["has_gpu"] else [3, 3, 3])
    assert [int(value) for value in page["copies"]] == [1, 2, 3]


def test_a_list_of_devices_is_never_empty(page, monkeypatch) -> None:
    assert page["try_all_gpus"]()
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    assert page["try_all_gpus"]() == [torch.device("xpu:0"), torch.device("xpu:1")]
