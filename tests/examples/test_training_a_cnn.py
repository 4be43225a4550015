"""The page's check accepts what is right and tells what is wrong; what it claims without a clock is so."""

import difflib
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import judge
from torch import nn

PAGE = "2_devices/12_training_a_cnn.py"

RIGHT = {
    "as it is": lambda load, compute, calls, c: (load + compute) / (load + calls * c),
    "NumPy's float": lambda load, compute, calls, c: np.divide(load + compute, np.add(load, calls * c)),
    "as a share": lambda load, compute, calls, c: 1 / ((load + calls * c) / (load + compute)),
}
WRONG = {
    "the network alone": (lambda load, compute, calls, c: compute / (calls * c), "loads"),
    "the CPU does not load": (lambda load, compute, calls, c: compute / (load + calls * c), "in both times"),
    "the launches are free": (lambda load, compute, calls, c: (load + compute) / max(load, 5e-4), "small part"),
    "loading hides launching": (lambda load, compute, n, c: (load + compute) / max(load, n * c), "small part"),
    "the GPU never loses": (lambda load, compute, n, c: max(1.0, (load + compute) / (load + n * c)), "lose"),
    "the wrong way round": (lambda load, compute, calls, c: (load + calls * c) / (load + compute), "launches"),
    "one launch": (lambda load, compute, calls, c: (load + compute) / (load + c), "launches"),
    "the time": (lambda load, compute, calls, c: load + calls * c, "launches"),
    "divides by zero": (lambda load, compute, calls, c: (load + compute) / load, "ZeroDivisionError"),
    "not a number": (lambda *_: float("nan"), "launches"),
    "a text": (lambda *_: "200", "not one number"),
    "an array": (lambda *_: np.ones(2), "not one number"),
    "other arguments": (lambda load: load, "TypeError"),
    "no function": (4.0, "TypeError"),
}


def test_the_check_tells_right_answers_from_wrong_ones(page) -> None:
    judge(page["check"], [page["at_most_solution"], *RIGHT.values()], WRONG | {"the start": (page["at_most"], "None")})


# -- The networks ------------------------------------------------------------------------------------------------------


def the_course_writes() -> nn.Sequential:
    """The layers of the course's network, in the order in which it lists them."""
    pool = nn.MaxPool2d(2, 2)
    first = [nn.Conv2d(3, 6, 5), nn.ReLU(), pool, nn.Conv2d(6, 16, 5, padding=3), nn.ReLU()]
    second = [nn.Conv2d(16, 16, 5), nn.ReLU(), pool, nn.Conv2d(16, 16, 3), nn.ReLU(), pool, nn.Flatten()]
    last = [nn.Linear(64, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return nn.Sequential(*first, *second, *last)


def test_the_network_is_the_course_s(page) -> None:
    ours, theirs = page["cnn"](page["course"], 64), the_course_writes()
    assert [str(layer) for layer in ours] == [str(layer) for layer in theirs]
    assert sum(weight.numel() for weight in ours.parameters()) == 30_422
    assert theirs(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(
    ("side", "said"),
    [(32, "28, 14, 16, 12, 6, 4, 2,"), (24, "Linear"), (16, "kernel_size=(3, 3)"), (8, "kernel_size=(5, 5)")],
)
def test_shapes_are_followed_to_where_a_picture_does_not_fit(page, side, said) -> None:
    assert said in page["follow"](page["cnn"](page["course"], 64), 3, side)
    if side != 32:
        with pytest.raises(RuntimeError):
            the_course_writes()(torch.zeros(1, 3, side, side))


def test_arithmetic_is_counted_as_by_hand(page) -> None:
    maps = {"course": [(28, 6, 75), (16, 16, 150), (12, 16, 400), (4, 16, 144)], "small": [(8, 16, 9), (4, 32, 144)]}
    dense = {"course": 64 * 120 + 120 * 84 + 84 * 10, "small": 128 * 120 + 120 * 84 + 84 * 10}
    for name, layers in maps.items():
        products = [side**2 * out * window for side, out, window in layers]
        # forward, and twice as much back: for the weights, and for the input, which the first layer does not need
        assert page["flops"][name] == 2 * (3 * (sum(products) + dense[name]) - products[0])
    assert page["calls"]["course"] > page["calls"]["small"] > 20


# -- The training ------------------------------------------------------------------------------------------------------


def test_the_two_functions_differ_in_two_lines(page) -> None:
    cpu, gpu = (inspect.getsource(page[f"train_{place}"]).splitlines()[1:] for place in ("cpu", "gpu"))
    changed = [line for line in difflib.ndiff(cpu, gpu) if line[0] in "+-"]
    assert len(changed) == 2
    assert all(line.startswith("+") and "# new" in line and ".to(device)" in line for line in changed)


def test_both_functions_learn_the_same_on_the_cpu(page) -> None:
    assert torch.equal(*page["learned"])


def test_no_picture_is_in_both_sets(page) -> None:
    assert len(page["train_set"][0]) == 1437
    assert len(page["test_set"][0]) == 360
    assert sorted(page["shuffled"].tolist()) == list(range(1797))


def test_what_the_page_says_of_the_scores(page) -> None:
    scores = page["scores"]
    cnn = scores["small CNN, 8 epochs"]
    assert cnn > scores["nearest mean"] + page["uncertain"](cnn)
    assert cnn <= scores["nearest neighbour"]
    assert page["batches"] == [64, 256, 1024]
    assert page["rights"][-1] < page["rights"][0] - 3 * page["uncertain"](page["rights"][-1])


def test_galaxies_are_the_same_each_time_and_of_two_kinds(page) -> None:
    sky, winds = page["galaxies"](65)
    again, _ = page["galaxies"](65)
    assert sky.shape == (65, 32, 32, 3)
    assert sky.dtype == np.uint8
    assert np.array_equal(sky, again)
    assert set(winds.tolist()) == {0, 1}
    assert sky.max() > 100
    assert (sky == 255).mean() < 0.05


def test_pictures_are_prepared_alike_one_by_one_and_at_once(page) -> None:
    one, many = page["prepare"](page["sky"][3]), page["prepare"](page["sky"][:5])
    assert one.shape == (3, 32, 32)
    assert torch.equal(one, many[3])
    assert many.min() >= -1
    assert many.max() <= 1
    loaded, kinds = page["load_items"](7)
    at_once, same = page["load_at_once"](7)
    assert torch.equal(loaded, at_once)
    assert torch.equal(kinds, same)


# -- Where the time goes -----------------------------------------------------------------------------------------------


def test_the_model_has_a_part_for_each_step_and_one_for_each_picture(page) -> None:
    for name in ("course", "small"):
        four, eight = page["gpu_model"](name, 4), page["gpu_model"](name, 8)
        start = 2 * four - eight
        cost = page["calls"][name] * (page["asking"] + page["c"]) + 2 * page["c"]
        assert start == pytest.approx(cost)
        assert eight > four


def test_the_profiler_sees_no_copy_without_a_gpu(page) -> None:
    assert {"loading", "optimizer"} < set(page["shares"])
    assert page["shares"]["moving"] == 0 or torch.cuda.is_available()


def test_reading_every_step_makes_a_queue_take_turns(page) -> None:
    calls = []

    class Loss:
        def item(self):
            calls.append("read")

    for every, reads in ((1, 50), (50, 1), (51, 0)):
        calls.clear()
        page["fifty"](lambda *_: Loss(), None, None, every)
        assert len(calls) == reads


@pytest.mark.slow
@pytest.mark.parametrize("start", ["", "spawn"])
def test_the_script_with_workers_runs_however_they_are_started(start, tmp_path) -> None:
    source = (Path(__file__).parents[2] / "examples" / PAGE).read_text(encoding="utf-8")
    block = source.partition("This is a whole script::\n")[2].partition("# __ https")[0]
    script = textwrap.dedent("\n".join(line.removeprefix("#").removeprefix(" ") for line in block.splitlines()))
    head, guard, tail = script.partition('if __name__ == "__main__":\n')
    assert guard
    choose = f"    torch.multiprocessing.set_start_method({start!r})\n" if start else ""
    file = tmp_path / "loading.py"
    file.write_text(head + guard + choose + tail, encoding="utf-8")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) == 16  # 512 pictures in batches of 64, twice
    assert printed[-1] == "1 7 torch.Size([64, 3, 32, 32])"


def test_bf16_costs_accuracy_and_float16_loses_small_slopes(page) -> None:
    assert 0 < page["gone"] < 0.1
