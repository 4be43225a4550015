"""Trees, lanes and orders do what the page says of them, and the exercise's check tells right trees from wrong ones."""

import numpy as np
import pytest
import variants
from numba import cuda
from pages import doubles_and_spills, judged
from samples import medians

from firstlight.timing.specs import spec
from firstlight_kernels import trace

PAGE = "3_kernels/08_reductions.py"


# -- Trees that someone may write --------------------------------------------------------------------------------------


GUARDED = """
    by = 1
    while 2 * by < n:
        by *= 2
    while by > 0:
        if t < by and t + by < n:
            part[t] += part[t + by]
        cuda.syncthreads()
        by //= 2
"""
MIDDLE_TWICE = """
    while n > 1:
        half = (n + 1) // 2
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        n = half
"""
ONE_ROUND = """
    if t < n // 2:
        part[t] += part[t + n // 2]
    cuda.syncthreads()
"""
BARRIER_FOR_SOME = """
    while t < n // 2:
        part[t] += part[t + n // 2]
        cuda.syncthreads()
        n //= 2
"""


def tree(lines):
    return variants.compiled(f"@cuda.jit(device=True)\ndef tree(part, t, n):{lines}", {"cuda": cuda})


ALONE = """
    if t == 0:
        for other in range(1, n):
            part[0] += part[other]
    cuda.syncthreads()
"""
EACH_FOR_ITSELF = """
    total = part[0]
    for other in range(1, n):
        total += part[other]
    cuda.syncthreads()
    part[t] = total
    cuda.syncthreads()
"""


WRONG = {
    "one thread adds all": (tree(ALONE), "who else could add"),
    "each thread adds all": (tree(EACH_FOR_ITSELF), "who else could add"),
    "no barrier": (tree(GUARDED.replace("cuda.syncthreads()", "")), "between two rounds"),
    "no guard": (tree(GUARDED.replace(" and t + by < n", "")), "thread that far on"),
    "the middle counts twice": (tree(MIDDLE_TWICE), "twice"),
    "one round": (tree(ONE_ROUND), "64 ones make 2"),
    "only some threads wait": (tree(BARRIER_FOR_SOME), "skip the barrier"),
    "another signature": (cuda.jit(device=True)(lambda part, t: None), "TypeError"),
    "the start": ("any_tree", "64 ones make 1"),
    "the page's first tree": ("sequential", "96 ones make 64"),
    "the page's second tree": ("strided", "96 threads"),
}


test_answers = judged(["any_tree_solution", tree(GUARDED)], WRONG)


# -- What the page claims ----------------------------------------------------------------------------------------------


def test_a_reduction_of_numbas_begins_with_zero(page) -> None:
    values = np.array([-3, -1, -2], np.float32)
    assert page["add_all"](values) == -6
    assert (page["largest"](values), page["largest"](values, init=-np.inf)) == (0, -1)


def test_only_the_atomic_addition_has_no_race(page) -> None:
    x, out = np.ones(70, np.float32), np.zeros(1, np.float32)
    assert trace(page["add_mine"], 3, 32, x, out).races
    out[:] = 0
    assert not trace(page["atomic_each"], 3, 32, x, out).problems
    assert out[0] == 70


def test_lanes_are_added_as_a_tree_adds(page) -> None:
    lanes, out = page["rng"].random(32, dtype=np.float32), np.zeros(1, np.float32)
    trace(page["shuffled"], 1, 32, lanes, out)
    assert out[0] == page["tree_sum"](lanes)


def test_the_stages_of_the_gpu_branch_add_all(page) -> None:
    x, sums, out = page["rng"].random(301, dtype=np.float32), np.full(2, -1, np.float32), np.full(1, -1, np.float32)
    page["stages"](page["staged"]["sequential"], (2, 1), x, sums, out)
    assert out[0] == pytest.approx(x.sum(dtype=float), rel=1e-6)


def test_every_kernel_compiles_to_what_the_text_says(page, compiled) -> None:
    expected = {"strided": (8, 0, 0), "sequential": (8, 0, 0), "shuffles": (1, 10, 0)}
    expected |= {"atomic, a block": (8, 0, 1), "atomic, each": (0, 0, 1)}
    for name, kernel in (page["staged"] | page["atomic"]).items():
        code = compiled(kernel, "float32[::1], float32[::1]")
        assert doubles_and_spills(code) == ([], 0), name
        mix = code.mix
        found = (mix[each] for each in ("bar.sync", "shfl.sync.down.b32", "atom.global.add.f32"))
        assert tuple(found) == expected[name]
        assert mix["ld.global.f32"] == (1 if name == "atomic, each" else 5)


def test_ones_stop_at_two_to_the_24(page) -> None:
    assert page["one_by_one"](page["ones"]) == 2**24
    assert page["kahan"](page["ones"]) == page["all_cores"](page["ones"]) == 2**25


def test_errors_follow_the_models(page) -> None:
    for name, (_, model, *_) in page["WAYS"].items():
        ratios = np.array(page["errors"][name]) / (0.2 * page["EPS"] * model(page["lengths"]))
        assert np.exp(np.mean(np.log(ratios))) == pytest.approx(1, rel=0.6), name
    assert page["gain"] > 10


def test_another_order_gives_another_sum(page) -> None:
    add, pixels = page["one_by_one"], page["pixels"]
    assert len({add(page["rng"].permutation(pixels)) for _ in range(50)}) > 5


def test_the_h100_did_what_the_text_says_of_it() -> None:
    times = medians(PAGE)
    one_each = [times[f"{name}, one each"] for name in ("strided", "sequential", "shuffles")]
    assert one_each == sorted(one_each, reverse=True)
    assert all(0.95 < times[name] / times["torch.sum"] < 1.05 for name in ("strided", "sequential", "atomic, a block"))
    assert 16 * times["atomic, each"] / times["atomic, a block"] == pytest.approx(1300, rel=0.03)
    assert 0.8 < 4 * 2**27 / spec("H100 SXM", "bandwidth") / times["sequential"] < 0.9
    assert times["cuda.reduce"] > 10 * times["sequential"]
