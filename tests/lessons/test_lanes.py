"""Requests are found in a trace, counted as the trace counts them, and written shortly."""

import json
import re
from html import unescape

import numpy as np
import pytest
from numba import cuda

from firstlight.lessons.lanes import _HEAD, _MAX_REQUESTS, Lanes, _runs
from firstlight_kernels import trace


@cuda.jit
def gather(x, stride, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride]


@cuda.jit
def row_sums(a, out):
    i = cuda.grid(1)
    if i < out.size:
        total = np.float32(0)
        for j in range(a.shape[1]):
            total += a[i, j]
        out[i] = total


def strided(stride, n=64, dtype=np.float32):
    return trace(gather, 2, 32, np.ones(n * stride, dtype), stride, np.zeros(n, dtype))


def by_rows(order="C", columns=32):
    return trace(row_sums, 2, 32, np.zeros((64, columns), np.float32, order=order), np.zeros(64, np.float32))


@pytest.mark.parametrize("made", [strided(1), strided(3), strided(9, dtype=np.float64), by_rows(), by_rows("F", 7)])
def test_counts_are_those_of_the_trace(made) -> None:
    levels = [access.levels() for access in Lanes({"it": made}).accesses]
    total = {name: sum(level[name] for level in levels) for name in levels[0]}
    there = made.traffic
    assert [*total.values()] == [there.l1_wavefronts, there.l2_sectors, there.dram_bytes, there.useful_bytes]


def test_requests_come_block_by_block_and_step_by_step() -> None:
    requests = Lanes({"it": by_rows()})["it: reads a"].requests
    assert [request.block for request in requests] == [0] * 32 + [1] * 32
    assert [request.lanes[0] for request in requests[:3]] == [0, 4, 8]
    access = Lanes({"it": by_rows()})["it: reads a"]
    assert [access.levels(count)["L2 sectors"] for count in (1, 8, 9)] == [32, 32, 64]


@pytest.mark.parametrize("lanes", [{}, {0: 4}, {0: 0, 1: 8, 2: 16, 5: 4}, {3: 9, 4: 9, 5: 9}, {0: 12, 1: 8, 2: 0}])
def test_runs_say_which_lane_wants_which_byte(lanes) -> None:
    told = {first + at: byte + step * at for first, byte, step, count in _runs(lanes) for at in range(count)}
    assert told == lanes


def test_the_page_gets_little_data_and_no_hostile_names() -> None:
    lanes = Lanes({'<img src=x onerror="alert(1)">': by_rows(columns=100)})
    html = lanes._repr_html_()
    assert "<img" not in html
    told = json.loads(unescape(re.search(r'data-lanes="([^"]*)"', html)[1]))
    assert len(told[0]["requests"]) == _MAX_REQUESTS
    assert len(html) < 10_000
    for cell in _HEAD:
        assert cell in str(lanes)


def test_anything_but_traces_is_refused() -> None:
    for wrong in ({}, {"it": gather}):
        with pytest.raises(TypeError):
            Lanes(wrong)
