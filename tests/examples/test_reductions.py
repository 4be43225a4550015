"""Trees, lanes and orders do what the page says of them, and the exercise's check tells right trees from wrong ones."""

import numpy as np
import pytest
import torch
from answers import judge

from firstlight.kernels import cuda, ptx, trace

PAGE = "3_kernels/05_reductions.py"
TYPES = "float32[::1], float32[::1]"


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
STRIDED = """
    by = 1
    while by < n:
        if t % (2 * by) == 0 and t + by < n:
            part[t] += part[t + by]
        cuda.syncthreads()
        by *= 2
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
    scope = {"cuda": cuda}
    exec(f"@cuda.jit(device=True)\ndef tree(part, t, n):{lines}", scope)
    return scope["tree"]


@cuda.jit(device=True)
def two_arguments(part, t):
    part[t] += 1


WRONG = [
    (tree(GUARDED.replace("cuda.syncthreads()", "")), "part["),
    (tree(GUARDED.replace(" and t + by < n", "")), "(96,)"),
    (tree(MIDDLE_TWICE), "twice"),
    (tree(ONE_ROUND), "64 ones make 2"),
    (tree(BARRIER_FOR_SOME), "waits"),
    (two_arguments, "TypeError"),
    (lambda part, t, n: None, "@cuda.jit(device=True)"),
    (None, "@cuda.jit(device=True)"),
]


def test_the_check_tells_right_answers_from_wrong_ones(page) -> None:
    judge(
        page["check"],
        [page["any_tree"], tree(GUARDED), tree(STRIDED)],
        [*WRONG, (page["sequential"], "96 ones make 64"), (page["strided"], "96 threads")],
    )


# -- What the page claims ----------------------------------------------------------------------------------------------


def test_passes_are_those_that_the_trace_finds(page) -> None:
    @cuda.jit(device=True)
    def strided_addresses(part, t, n):
        by = 1
        while by < n:
            if 2 * by * t < n:
                part[2 * by * t] += part[2 * by * t + by]
            cuda.syncthreads()
            by *= 2

    assert page["in_tree"] == {"strided": 23, "strided addresses": 23, "sequential": 8}
    trees = {"strided": page["strided"], "sequential": page["sequential"], "strided addresses": strided_addresses}
    for name, tree in trees.items():
        x, out = np.ones(128, np.float32), np.zeros(1, np.float32)
        seen = trace(page["block_sums"](tree), 1, 128, x, out)
        rounds = [page["RULES"][name](by) for by in page["distances"]]
        adds = sum(adds.astype(int) for adds, _ in rounds)
        loads = seen.counts("load", "shared")
        assert np.array_equal(loads, 2 * adds + (np.arange(128) == 0))  # thread 0 reads the sum, too
        ways = max((found.ways for found in seen.bank_conflicts), default=1)
        assert ways == max(max(page["passes"](*each)) for each in rounds)
        assert out[0] == 128


def test_lanes_are_added_as_a_sequential_tree_adds(page) -> None:
    lanes = page["rng"].random(32, dtype=np.float32)
    added = page["lanes_in_numpy"](lanes)
    assert added[0] == page["tree_sum"](lanes)
    assert added[31] == 32 * lanes[31]
    assert page["out"].dtype == np.float32


def test_the_stages_of_the_gpu_branch_add_all(page) -> None:
    x, sums, out = page["rng"].random(301, dtype=np.float32), np.full(2, -1, np.float32), np.full(1, -1, np.float32)
    page["stages"](page["staged"]["sequential"], (2, 1), x, sums, out)
    assert out[0] == pytest.approx(x.sum(dtype=float), rel=1e-6)


@pytest.mark.parametrize("cc", [(9, 0), pytest.param((7, 5), marks=pytest.mark.slow)], ids=["9.0", "7.5"])
def test_every_kernel_compiles_to_what_the_text_says(page, cc) -> None:
    expected = {"strided": (8, 0, 0), "sequential": (8, 0, 0), "shuffles": (1, 10, 0)}
    expected |= {"atomic, a block": (8, 0, 1), "atomic, each": (0, 0, 1)}
    for name, kernel in (page["staged"] | page["atomic"]).items():
        try:
            code = ptx.compile(kernel, TYPES, cc)
        except ptx.NoCompilerError:
            pytest.skip("NVIDIA's compiler is not installed")
        found = (code.mix[each] for each in ("bar.sync", "shfl.sync.down.b32", "atom.global.add.f32"))
        assert tuple(found) == expected[name]
        assert code.mix["ld.global.f32"] == (1 if name == "atomic, each" else 5)
        assert not [each for each in code.mix if "f64" in each or "local" in each]
        assert code.spill_bytes in (0, None)


def test_ones_stop_at_two_to_the_24(page) -> None:
    assert page["one_by_one"](page["ones"]) == 2**24
    assert page["kahan"](page["ones"]) == page["all_cores"](page["ones"]) == 2**25


def test_errors_follow_the_models(page) -> None:
    one_rounding = 0.2 * page["EPS"]
    for name, (_, model, *_) in page["WAYS"].items():
        ratios = np.array(page["errors"][name]) / (one_rounding * model(page["sizes"]))
        assert np.exp(np.mean(np.log(ratios))) == pytest.approx(1, rel=0.5), name
    growth = np.array(page["equal"]) / page["sizes"]
    assert growth.max() < 10 * growth.min()
    assert np.all(np.array(page["equal"]) <= page["sizes"] * page["EPS"] / 2)
    assert page["lost"]["tree"] < 10 < 100 < page["lost"]["one by one"]


def test_only_a_fixed_order_repeats(page) -> None:
    different = page["different"]
    assert different["two stages"] == 1 < different["atomic, a block"] < different["atomic, each"]


def test_pytorch_still_says_what_the_page_says_of_it() -> None:
    mended, refused = torch.use_deterministic_algorithms.__doc__.split("operations will throw")
    assert all(f"{name}`" in mended for name in ("index_add", "scatter_add_"))
    assert all(f"{name}`" in refused for name in ("bincount", "histc", "cumsum"))
    assert "torch.sum`" not in mended + refused
