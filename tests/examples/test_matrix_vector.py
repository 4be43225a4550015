"""The page's check knows a shared row from a private one; its counts and its least times are what the prose says."""

import re

import numpy as np
import pytest
import variants
from numba import cuda
from pages import doubles_and_spills, judged
from samples import medians, recorded

from firstlight.timing.specs import spec
from firstlight_kernels import trace

PAGE = "3_kernels/02_matrix_vector.py"


def kernel(body, first="lane", end="m.shape[1]", step="32"):
    """A kernel whose threads go along a row so, and do so with each number and at the end."""
    each, last = body.split("; ")
    lines = ["@cuda.jit", "def mv(m, v, u):", "    row, lane = cuda.blockIdx.x, cuda.threadIdx.x"]
    lines += ["    part = np.float32(0)", "    chunk = (m.shape[1] + 31) // 32"]
    lines += [f"    for j in range({first}, {end}, {step}):", f"        {each}", f"    {last}"]
    return variants.compiled("\n".join(lines), {"cuda": cuda, "np": np})


PART, ADD = "part += m[row, j] * v[j]", "cuda.atomic.add(u, row, part)"


@cuda.jit
def a_row_a_thread(m, v, u):
    row = cuda.grid(1)
    if row < m.shape[0]:
        total = np.float32(0)
        for j in range(m.shape[1]):
            total += m[row, j] * v[j]
        u[row] = total


@cuda.jit
def no_step(m, v, u):
    j = cuda.threadIdx.x
    while j < m.shape[1]:
        cuda.atomic.add(u, cuda.blockIdx.x, m[cuda.blockIdx.x, j] * v[j])


WRONG = {
    "a row a thread": (a_row_a_thread, "numbers of the matrix"),
    "every thread the whole row": (kernel(f"{PART}; {ADD}", first="0", step="1"), "should be"),
    "the first thread alone": (
        kernel(f"{PART}; {ADD}", first="0", end="m.shape[1] * (lane == 0)", step="1"),
        "would do",
    ),
    "a piece each": (
        kernel(f"{PART}; {ADD}", first="lane * chunk", end="min((lane + 1) * chunk, m.shape[1])", step="1"),
        "neighbours",
    ),
    "one step only": (kernel(f"{PART}; {ADD}", end="min(32, m.shape[1])"), "should be"),
    "no guard": (kernel(f"{PART}; {ADD}", end="m.shape[1] + 31"), "m["),
    "not atomic": (kernel(f"{PART}; u[row] += part"), "at once"),
    "the last one wins": (kernel(f"{PART}; u[row] = part"), "at once"),
    "without the vector": (kernel(f"part += m[row, j]; {ADD}"), "should be"),
    "the other index": (kernel(f"part += m[j, row] * v[j]; {ADD}"), "m["),
    "no step": (no_step, "no end"),
    "no kernel": (lambda m, v, u: u.fill(0), "@cuda.jit"),
    "the start": ("mv_together", "should be"),
}
EACH_ADDS = kernel("cuda.atomic.add(u, row, m[row, j] * v[j]); pass")

test_answers = judged(["mv_together_solution", kernel(f"{PART}; {ADD}"), EACH_ADDS], WRONG)


def test_the_two_orders_are_four_and_thirty_two_sectors(page):
    assert page["counts"] == {"ascontiguousarray": 32, "asfortranarray": 4}


def test_the_notebooks_times_are_judged_by_their_bytes(page):
    moved = page["moved"]
    slow, fast, large = (moved / spec(card, "bandwidth") for card in ("GTX 1650", "GTX 1650 GDDR6", "H100 SXM"))
    assert large > 10.4e-6
    assert fast < 264e-6 < slow
    assert 1.25e-3 / fast == pytest.approx(6, abs=0.5)
    assert moved / (12 * 100_000) == pytest.approx(34, abs=0.5)


def test_each_kernel_compiles_without_a_double_or_a_spill(page, compiled):
    for name in ("cu_mv_product", "mv_together_solution"):
        assert doubles_and_spills(compiled(page[name], "float32[:, ::1], float32[::1], float32[::1]")) == ([], 0), name


def test_the_kernel_touches_nothing_else(page):
    arrays = np.ones((33, 7), np.float32), np.ones(7, np.float32), np.zeros(33, np.float32)
    assert trace(page["cu_mv_product"], 2, 32, *arrays).problems == []
    assert np.all(arrays[2] == 7)


def test_the_h100_waited_for_launches_and_a_coalesced_kernel_is_as_fast_as_the_library() -> None:
    record, median = recorded(PAGE), medians("3_kernels/05_coalescing")
    launched, done = (
        float(us) for us in re.findall(r"(?:launched|done): +([\d.]+) µs", "\n".join(record.outputs.values()))
    )
    assert launched == pytest.approx(done, rel=0.1)
    assert record.timings["matrix-vector/kernel, a row a thread/cuda:0/n=100000"].device_seconds < done / 2e6
    assert median["kernel, by rows"] < 0.7 * record.timings["a-warp-a-row/a row a thread/cuda:0/n=1000001"].median
    assert median["kernel, by columns"] < 1.05 * median["torch.mv, by rows"]


def test_a_row_a_thread_misses_an_eighth_and_a_row_a_warp_took_twice_as_long(page) -> None:
    thread, warp = (
        recorded(PAGE).timings[f"a-warp-a-row/a row a {who}/cuda:0/n=1000001"].median for who in ("thread", "warp")
    )
    assert thread / 8 < 0.5 * page["large"] / spec("H100 SXM", "bandwidth")
    assert warp > 2 * thread
