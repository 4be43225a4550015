"""The page's check tells wrong grids apart; its kernels, its models and its demonstrations are what the prose says."""

import re
from itertools import pairwise

import numpy as np
import pytest

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace

PAGE = "3_kernels/02_grids.py"


def with_ceil(shape, block):
    return int(np.ceil(shape[1] / block[0])), int(np.ceil(shape[0] / block[1]))


RIGHT = {"ceil": with_ceil, "package": lambda shape, block: blocks_for(shape[::-1], block)}
WRONG = {
    "swapped": (lambda shape, block: blocks_for(shape[::-1], block)[::-1], "the rows first"),
    "as NumPy says": (lambda shape, block: blocks_for(shape, block), "the rows first"),
    "floor": (lambda shape, block: (shape[1] // block[0], shape[0] // block[1]), "Round up, in both axes"),
    "rounded": (lambda shape, block: (round(shape[1] / block[0]), round(shape[0] / block[1])), "Round up"),
    "up in x only": (lambda shape, block: (-(-shape[1] // block[0]), shape[0] // block[1]), "Round up"),
    "one too many": (lambda shape, block: (shape[1] // block[0] + 1, shape[0] // block[1] + 1), "no pixel at all"),
    "one too many in y": (lambda shape, block: (-(-shape[1] // block[0]), shape[0] // block[1] + 1), "no pixel"),
    "threads": (lambda shape, block: shape[::-1], "no pixel at all"),
    "one number": (lambda shape, block: -(-shape[0] * shape[1] // (block[0] * block[1])), "two whole numbers"),
    "floats": (lambda shape, block: tuple(np.ceil(np.divide(shape[::-1], block))), "two whole numbers"),
    "three": (lambda shape, block: (*with_ceil(shape, block), 1), "two whole numbers"),
    "zero": (lambda shape, block: (0, 0), "pixels have no thread"),
    "negative": (lambda shape, block: (-1, -1), "pixels have no thread"),
    "raises": (lambda shape, block: shape / block, "raised TypeError"),
    "one argument": (lambda shape: shape, "raised TypeError"),
    "no function": ((3, 4), "raised TypeError"),
    "nothing": (lambda shape, block: None, "gave None"),
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_right_answers(page, answer):
    assert page["check"](answer).startswith("Right")


@pytest.mark.parametrize(("answer", "says"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_why(page, answer, says):
    said = page["check"](answer)
    assert said.startswith("Not yet: grid_for(")
    assert says in said


def test_the_count_of_lost_pixels_is_that_of_a_launch(page):
    said = page["outcome"]((29, 43), (16, 8), (2, 3))
    out = page["run"](page["smooth"], (2, 3), page["framed"])
    assert int(re.match(r"\d+", said)[0]) == np.isnan(out).sum() == page["missing"]["rounded down"]


def test_the_solution_is_right_and_the_start_is_not(page):
    assert page["check"](page["grid_for_solution"]).startswith("Right")
    assert page["check"](page["grid_for"]).startswith("Not yet")


@pytest.mark.parametrize("name", ["smooth", "smooth_turned", "smooth_any_grid"])
def test_each_kernel_is_right_and_touches_nothing_else(page, name):
    kernel, shape = page[name], (13, 21)
    blocks = blocks_for(shape if name == "smooth_turned" else shape[::-1], (8, 4))
    sky = page["night_sky"](*shape)
    assert page["verdict_on"](kernel, blocks, sky, (8, 4), launches=2) == "right"
    traced = trace(kernel, blocks, (8, 4), sky, np.zeros(shape, dtype=np.float32))
    assert traced.problems == []
    assert traced.loads_per_output == 9


IMAGES, INTS = "float32[:, ::1], float32[:, ::1]", "int64[::1], int64[::1], int64[::1]"
SIGNATURES = {
    **dict.fromkeys(("smooth", "smooth_turned", "smooth_any_grid"), IMAGES),
    **dict.fromkeys(("turn_around", "turn_around_hastily"), "int64[::1]"),
    "running_total": INTS,
    "busy": "float32[::1], int64",
}


@pytest.mark.parametrize("cc", [(7, 5), (9, 0)])
@pytest.mark.parametrize("name", SIGNATURES)
def test_each_kernel_compiles_without_a_double_or_a_spill(page, name, cc):
    try:
        compiled = ptx.compile(page[name], SIGNATURES[name], cc)
    except ptx.NoCompilerError as missing:
        pytest.skip(str(missing))
    assert not [instruction for instruction in compiled.mix if "f64" in instruction]
    assert not compiled.spill_bytes


def test_the_test_image_tells_a_turned_one(page):
    sky = page["night_sky"](29, 29)
    for other in (sky.T, sky[::-1], sky[:, ::-1], np.rot90(sky), np.rot90(sky, 2)):
        assert np.abs(other - sky).max() > 0.5


def test_a_square_hides_what_odd_sides_show(page):
    verdicts = {
        shape: [
            page["verdict_on"](page["smooth"], grid, page["night_sky"](*shape))
            for grid in page["grids_for"](*shape).values()
        ]
        for shape in ((16, 16), (29, 43))
    }
    assert verdicts[16, 16] == ["right"] * 3
    assert verdicts[29, 43][0] == "right"
    assert all("missing" in said for said in verdicts[29, 43][1:])


def test_the_costs_are_those_the_prose_names(page):
    costs, model = page["costs"], page["model"]
    turned = "32 × 8,\nturned"
    assert costs[turned]["pieces"] == 32
    assert 4 <= costs["32 × 8"]["pieces"] <= 5
    assert min(costs, key=lambda name: costs[name]["L2"]) == "32 × 8"
    assert costs["256 × 1"]["L2"] > costs["64 × 4"]["L2"] > costs["32 × 8"]["L2"]
    wide = [costs[name]["L1"] for name in ("256 × 1", "64 × 4", "32 × 8")]
    assert max(wide) < min(costs[name]["L1"] for name in ("16 × 16", "8 × 32", turned))
    at = list(costs).index("16 × 16")
    assert model["RTX 4090"][at] == 1
    assert model["H100 SXM"][at] > 1.2
    assert all(heights[-1] > 3 for heights in model.values())


def test_every_block_runs_once_and_a_multiprocessor_runs_one_at_a_time(page):
    durations = page["uneven"]
    runs = page["schedule"](durations, 16)
    assert [lasts for _, _, lasts in runs] == list(durations)
    for number in range(16):
        mine = sorted((start, start + lasts) for where, start, lasts in runs if where == number)
        assert all(end <= start + 1e-12 for (_, end), (start, _) in pairwise(mine))


@pytest.mark.parametrize(("blocks", "multiprocessors"), [(98, 16), (98, 132), (16, 16), (17, 16), (1, 5)])
def test_the_formula_is_what_the_schedule_gives(page, blocks, multiprocessors):
    waves = -(-blocks // multiprocessors)
    assert page["in_use"](np.ones(blocks), multiprocessors) == pytest.approx(blocks / multiprocessors / waves)


def test_the_barrier_needs_all_of_a_block_and_haste_does_not_work(page):
    for name, wrong in (("turn_around", 0), ("turn_around_hastily", 512)):
        line = np.arange(1024)
        traced = trace(page[name], 1, 1024, line)
        assert np.sum(line != np.arange(1024)[::-1]) == wrong
        assert bool(traced.races) == bool(wrong)


@pytest.mark.skipif(not simulated(), reason="on a GPU nobody knows what it gives: that is the point")
def test_the_running_total_is_right_in_the_simulators_order_only(page):
    wrong = page["wrong_totals"]
    assert wrong["in order"] == 0
    assert wrong["backwards"] > 20
    assert wrong["shuffled"] > 20


def test_the_trace_finds_the_dependence_in_every_order(page):
    bright = page["bright"]
    for order in page["orders"].values():
        traced = trace(page["running_total"], bright.size, 1, bright, np.zeros_like(bright), order)
        assert traced.races


def test_independent_blocks_give_the_same_in_any_order(page):
    """The counterpart: one block at a time, forwards and backwards, gives one result."""

    @cuda.jit
    def double(x, out, order):
        block = order[cuda.blockIdx.x]
        out[block] = 2 * x[block]

    bright = page["bright"]
    for order in page["orders"].values():
        out = np.zeros_like(bright)
        assert trace(double, bright.size, 1, bright, out, order).races == []
        assert np.array_equal(out, 2 * bright)


def test_occupancy_is_what_the_prose_says(page):
    held = page["held"]
    assert all(held(32, 32, capability) == 0.5 for capability in page["ROOM"])
    assert all(held(1024, 80, capability) == 0 for capability in page["ROOM"])
    assert held(1024, 38, (8, 9)) == pytest.approx(2 / 3)
    assert held(256, 38, (8, 9)) == 1
    assert held(100, 32, (9, 0)) < 0.8


def test_registers_are_numbers_for_each_capability(page):
    for needs in page["registers"].values():
        assert len(needs) == len(page["ROOM"])
        assert all(16 <= need <= 128 for need in needs)


def test_the_simulator_has_no_time(page):
    if simulated():
        assert page["bench"]["kernel, 32 × 8"].verdict == "simulated"


def test_the_figure_says_what_it_shows(page):
    assert "98 blocks on 16 multiprocessors: 88%" in page["fig"].get_label()
