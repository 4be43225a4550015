"""The page's check tells wrong grids apart; its kernels, its models and its demonstrations are what the prose says."""

import numpy as np
import pytest
from numba import cuda
from pages import doubles_and_spills, judged

from firstlight_kernels import blocks_for, trace

PAGE = "3_kernels/03_grids.py"


def with_ceil(shape, block):
    return int(np.ceil(shape[1] / block[0])), int(np.ceil(shape[0] / block[1]))


WRONG = {
    "swapped": (lambda shape, block: blocks_for(shape[::-1], block)[::-1], "rows"),
    "as NumPy says": (lambda shape, block: blocks_for(shape, block), "rows"),
    "floor": (lambda shape, block: (shape[1] // block[0], shape[0] // block[1]), "up"),
    "rounded": (lambda shape, block: (round(shape[1] / block[0]), round(shape[0] / block[1])), "up"),
    "up in x only": (lambda shape, block: (-(-shape[1] // block[0]), shape[0] // block[1]), "up"),
    "one too many": (lambda shape, block: (shape[1] // block[0] + 1, shape[0] // block[1] + 1), "no pixel"),
    "one too many in y": (lambda shape, block: (-(-shape[1] // block[0]), shape[0] // block[1] + 1), "no pixel"),
    "threads": (lambda shape, block: shape[::-1], "no pixel"),
    "one number": (lambda shape, block: -(-shape[0] * shape[1] // (block[0] * block[1])), "whole numbers"),
    "floats": (lambda shape, block: tuple(np.ceil(np.divide(shape[::-1], block))), "whole numbers"),
    "three": (lambda shape, block: (*with_ceil(shape, block), 1), "whole numbers"),
    "zero": (lambda shape, block: (0, 0), "no thread"),
    "negative": (lambda shape, block: (-1, -1), "no thread"),
    "the start": ("grid_for", ""),
}


test_answers = judged(["grid_for_solution", with_ceil, lambda shape, block: blocks_for(shape[::-1], block)], WRONG)


def test_the_lost_pixels_are_those_outside_the_grid(page):
    assert page["missing"] == {"right": 0, "axes swapped": 29 * (43 - 32), "rounded down": 29 * 43 - 24 * 32}


@pytest.mark.parametrize("name", ["smooth", "smooth_turned", "smooth_any_grid"])
def test_each_kernel_is_right_and_touches_nothing_else(page, name):
    kernel, shape = page[name], (13, 21)
    blocks = blocks_for(shape if name == "smooth_turned" else shape[::-1], (8, 4))
    sky = page["night_sky"](*shape)
    assert page["verdict_on"](kernel, blocks, sky, (8, 4), 2) == "right"
    traced = trace(kernel, blocks, (8, 4), sky, np.zeros(shape, dtype=np.float32))
    assert traced.problems == []
    assert traced.counts("load").sum() == 9 * traced.counts("store").sum()


IMAGES = "float32[:, ::1], float32[:, ::1]"
SIGNATURES = {**dict.fromkeys(("smooth", "smooth_turned", "smooth_any_grid"), IMAGES), "describe": "int64[:, ::1]"}


def test_each_kernel_compiles_without_a_double_or_a_spill(page, compiled):
    for name, types in SIGNATURES.items():
        assert doubles_and_spills(compiled(page[name], types)) == ([], 0), name


def test_the_test_image_tells_a_turned_one(page):
    sky = page["night_sky"](29, 29)
    for other in (sky.T, sky[::-1], sky[:, ::-1], np.rot90(sky), np.rot90(sky, 2)):
        assert np.abs(other - sky).max() > 0.5


HIDDEN = [((16, 16), [0, 0]), ((29, 29), [0, 1]), ((29, 31), [0, 1]), ((29, 43), [1, 1]), ((43, 29), [1, 1])]


@pytest.mark.parametrize(("shape", "found"), HIDDEN)
def test_sides_have_to_need_different_numbers_of_blocks(page, shape, found):
    words = ["right", *("missing" if each else "right" for each in found)]
    for grid, word in zip(page["grids_for"](*shape).values(), words, strict=True):
        assert word in page["verdict_on"](page["smooth"], grid, page["night_sky"](*shape))


def test_the_costs_are_those_the_prose_names(page):
    costs = page["costs"]
    assert costs["turned"]["pieces"] == 32
    assert 4 <= costs["32 × 8"]["pieces"] <= 5
    assert min(costs, key=lambda name: costs[name]["L2"]) == "32 × 8"
    assert costs["256 × 1"]["L2"] > costs["16 × 16"]["L2"]


def test_a_kernel_says_of_its_grid_what_the_text_says(page):
    said = cuda.to_device(np.zeros((3, 2), dtype=np.int64))
    page["describe"][(5, 2), (8, 4)](said)
    assert said.copy_to_host().tolist() == [[5, 2], [8, 4], [5 * 8, 2 * 4]]


@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_a_range_with_a_step_takes_half_as_many_registers_again(page, compiled):
    taken = [compiled(page[name], IMAGES).registers for name in ("smooth", "smooth_any_grid")]
    assert taken in ([32, 48], [None, None])


def test_a_range_with_a_step_costs_two_divisions(page, compiled):
    loop, plain = (compiled(page[name], IMAGES) for name in ("smooth_any_grid", "smooth"))
    assert loop.mix["div.s64"] == 2
    assert not any("div" in name for name in plain.mix)
    assert loop.registers is None or loop.registers > plain.registers
    mean_around = page["mean_around"]

    @cuda.jit
    def with_while(framed, out):
        column, row = cuda.grid(2)
        columns, rows = cuda.gridsize(2)
        while row < out.shape[0]:
            at = column
            while at < out.shape[1]:
                out[row, at] = mean_around(framed, row, at)
                at += columns
            row += rows

    assert any("div" in name for name in compiled(with_while, IMAGES).mix)
