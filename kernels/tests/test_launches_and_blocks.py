"""How many blocks there are, and that the package has no other names than it says."""

import re

import numpy as np
import pytest

from firstlight_kernels import blocks_for


def test_a_name_that_does_not_exist_is_an_attribute_error():
    import firstlight_kernels

    with pytest.raises(AttributeError, match="cudda"):
        _ = firstlight_kernels.cudda


@pytest.mark.parametrize("threads", [1, 16, 31, 1024])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 1023, 1024, 1025, 2**53 + 1])
def test_the_blocks_reach_every_element_and_no_block_is_spare(n, threads):
    blocks = blocks_for(n, threads)
    assert (blocks - 1) * threads < n <= blocks * threads


@pytest.mark.parametrize(("n", "threads", "blocks"), [(0, 128, 1), ((0, 9), (4, 4), (1, 3))])
def test_an_empty_array_still_gets_a_block_because_cuda_launches_none(n, threads, blocks):
    assert blocks_for(n, threads) == blocks


def test_numpys_whole_numbers_will_do_and_do_not_overflow():
    blocks = blocks_for(np.int32(2**31 - 1), np.int8(100))
    assert type(blocks) is int
    assert blocks == 21_474_837
    assert blocks_for((np.int64(100), 100), (np.int8(16), np.int8(16))) == (7, 7)


@pytest.mark.parametrize(
    ("n", "threads", "named"),
    [
        (-1, 16, "n=-1"),
        (37.0, 16, "n=37.0"),
        ("37", 16, "n='37'"),
        ((8, -8), (4, 4), "n=(8, -8)"),
        (37, 0, "threads=0"),
        (37, 16.0, "threads=16.0"),
        (37, 1025, "1024"),
        ((8, 8), (np.int8(100), np.int8(100)), "1024"),
        ((8, 8), 16, "threads"),
        ((8, 8), (4,), "threads"),
        ((), (), "threads"),
        ((1, 1, 1, 1), (1, 1, 1, 1), "threads"),
        (None, 16, "n=None"),
    ],
)
def test_what_cannot_be_launched_is_refused(n, threads, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        blocks_for(n, threads)
