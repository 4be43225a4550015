"""Counts are what the prose says of them, the kernels are right, and the check knows blocks that look good."""

import numpy as np
import pytest
from pages import doubles_and_spills, judged

from firstlight_kernels import trace

PAGE = "3_kernels/06_caches.py"


def test_a_block_fetches_a_matrix_once_in_either_order(page) -> None:
    (by_rows, fetched_by_rows), (by_columns, fetched_by_columns) = page["counts"].values()
    assert (by_rows, by_columns) == (32, 4)
    assert fetched_by_rows == fetched_by_columns


def test_only_scattered_writes_are_sent_again(page) -> None:
    least = 2 * 32 * 64 * 4 // 32
    assert page["asked"] == {"along_rows": least // 2 * 9, "down_columns": least}


@pytest.mark.parametrize(("n", "threads", "rounds"), [(101, 32, 3), (64, 64, 2), (333, 96, 4), (64, 32, 1)])
def test_an_array_is_read_whole_in_every_round(page, n, threads, rounds) -> None:
    numbers, sums = np.arange(1, n + 1, dtype=np.float32), np.zeros(threads, np.float32)
    traced = trace(page["read_again"], threads // 32, 32, numbers, rounds, sums)
    assert traced.problems == []
    assert sums.sum() == rounds * numbers.sum()
    assert traced.counts("load", array="array").sum() == rounds * n


WRONG = [
    ((256, 1), "40"),
    ((1, 1024), "sectors"),
    ((32, 8), "12"),
    ((64, 16), "10.0"),
    ((32, 32), "9.0"),
    ((16, 64), "8.5"),
    ((4, 256), "sectors"),
    ((33, 31), "warp"),
    ((64, 32), "1024|1,024"),
    ((32.0, 31.5), "whole"),
    ((0, 32), "whole"),
    (32, "TypeError"),
    ("block", "TypeError"),
    ((32, 32, 1), "ValueError"),
]


test_answers = judged(["block_solution", [8, 128]], WRONG)


def test_each_kernel_compiles_without_a_double_or_a_spill(page, compiled) -> None:
    images = "float32[:, ::1], float32[:, ::1]"
    types = {
        "row_for_each": "float32[:, ::1], float32[::1], float32[::1]",
        "read_again": "float32[::1], int64, float32[::1]",
        **dict.fromkeys(("along_rows", "down_columns", "mean_of_nine_rows"), images),
    }
    for name, signature in types.items():
        assert doubles_and_spills(compiled(page[name], signature)) == ([], 0), name
