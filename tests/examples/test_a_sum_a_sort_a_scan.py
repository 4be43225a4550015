"""Our scan is right and moves twice the least, and the check tells places from plausible wrong ones."""

import numpy as np
import pytest
import torch
from pages import judged

from firstlight_kernels import blocks_for, trace

PAGE = "3_kernels/16_a_sum_a_sort_a_scan.py"
WRONG = {
    "counts itself": (lambda keep: keep.cumsum(0), "count itself"),
    "numbers all": (lambda keep: torch.arange(len(keep)), "keep ="),
    "gives floats": (lambda keep: keep.cumsum(0).float() - 1, "integer"),
    "gives the places of the ones": (lambda keep: keep.nonzero().flatten(), "for each|keep ="),
    "a zero in front of all": (lambda keep: torch.cat([torch.zeros(1, dtype=int), keep.cumsum(0)]), "for each"),
    "from the back": (lambda keep: keep.flip(0).cumsum(0) - 1, "keep ="),
}

test_answers = judged(["places_solution", lambda keep: keep.cumsum(0) - keep.long()], WRONG)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4096])
def test_the_three_launches_scan_up_to_a_block_of_blocks(page, n) -> None:
    x = np.random.default_rng(seed=n).integers(0, 9, n).astype(np.float32)
    out, blocks = np.zeros_like(x), blocks_for(n, 64)
    totals, sums, rest = np.zeros(blocks, np.float32), np.zeros(blocks, np.float32), np.zeros(1, np.float32)
    for kernel, size, arrays in (
        ("scan_blocks", blocks, (x, out, totals)),
        ("scan_blocks", 1, (totals, sums, rest)),
        ("add_before", blocks, (out, sums)),
    ):
        assert not trace(page[kernel], size, 64, *arrays, limit=2_000_000).problems
    assert np.array_equal(out, np.cumsum(x))


def test_three_launches_move_twice_the_bytes(page) -> None:
    assert 16 <= page["moved"] < 17


def test_numpy_stops_where_a_float32_does(page) -> None:
    assert page["last"] == {"NumPy": 2**24, "PyTorch": 20_000_000}
