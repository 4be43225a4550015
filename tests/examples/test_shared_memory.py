"""The counts are those that the page derives, each wrong way is found, and the exercise's check tells them apart."""

import math

import numpy as np
import pytest
from pages import EXAMPLES, judged

from firstlight.records.runner import split

PAGE = "3_kernels/06_shared_memory.py"


def ceil(size: int, side: int) -> int:
    return -(-size // side)


def with_floats(m, k, n, T, R):
    return m * k * math.ceil(n / (T * R)) + k * n * math.ceil(m / (T * R))


def at_least_one_block(m, k, n, T, R):
    reads = np.array([m * k, k * n]) * [max(1, ceil(n, R * T)), max(1, ceil(m, R * T))]
    return int(reads.sum())


# -- The exercise ------------------------------------------------------------------------------------------------------


WRONG = [
    (lambda m, k, n, T, R: 2 * m * k * n / (T * R), "up"),
    (lambda m, k, n, T, R: m * k * (n // (T * R)) + k * n * (m // (T * R)), "up"),
    (lambda m, k, n, T, _: m * k * ceil(n, T) + k * n * ceil(m, T), "column of blocks"),
    (lambda m, k, n, T, R: m * k * ceil(m, T * R) + k * n * ceil(n, T * R), "column of blocks"),
    (lambda m, k, n, T, R: ceil(m, T * R) * ceil(n, T * R) * ceil(k, T) * 2 * T * T * R, "160"),  # zeros, too
    (lambda m, k, n, T, R: with_floats(m, k, n, T, R) / (m * n), "column of blocks"),
    ("loads", "450"),
    (1234, "not callable"),
]


test_answers = judged(["loads_solution", with_floats, at_least_one_block], WRONG)


# -- What the page claims ----------------------------------------------------------------------------------------------


def test_loads_and_sectors_are_those_of_the_text(page) -> None:
    k = page["fits"][1]
    loads = {name: seen.loads_per_output for name, seen in page["traces"].items()}
    assert list(loads.values()) == [2 * k, 2 * k, 2 * k / 8, 2 * k / 32]
    assert list(page["shared"].values()) == [0, 0, 2, 0.5]
    sectors = {name: seen.sectors_per_load for name, seen in page["traces"].items()}
    assert sectors["row along x"] == {"a": 32, "b": 1}
    assert sectors["column along x"] == {"a": 1, "b": 4}


@pytest.mark.parametrize(("T", "R"), [(4, 1), (4, 2), (16, 1)])
def test_the_formula_holds_for_other_tiles(page, T, R) -> None:
    seen, error = page["run"](page["square"](T, R), 16, 4, 16)
    assert error < 1e-6
    assert seen.counts("load", "global").sum() == 16 * 16 * 2 * 4 / (R * T)


def test_passes_are_those_of_the_trace(page) -> None:
    for name in ("row along x", "column along x"):
        seen = page["traces"][name]
        stores = 32 * 32 / 32 * (32 if name == "row along x" else 1)  # a line for each lane, or one for all
        multiply_adds = math.prod(page["fits"]) / 32  # of warps
        assert (seen.traffic.l1_wavefronts - stores) / multiply_adds == page["passes"][name]
    for name in ("tile", "4 x 4 each"):
        assert page["shared"][name] == page["passes"][name]


def test_the_model_says_what_the_prose_says_of_it(page) -> None:
    at_most, near, far = (page[name] for name in ("at_most", "near", "far"))
    assert at_most["row along x"] < 0.01 < at_most["column along x"] == at_most["tile"] == 1 / 8
    assert (near[1], far[1]) == (near[2], far[2])  # the tile wins nothing
    assert far[2] > 1 / 8  # inside the multiprocessor is the limit that decides
    assert near[4] == max(near) == 1
    assert at_most["8 x 8 each"] == max(at_most.values()) > 5 * at_most["tile"]


def test_what_was_measured_is_of_the_models_card_and_under_it(page) -> None:
    """Kernels 1, 2, 3 and 5 of S. Boehm's repository, in shares of the peak of the card that he used."""
    assert page["A6000"].text("fp32") == "38.7 TFLOP/s"
    shares = {name: share / page["at_most"][name] for name, share in page["reached"].items()}
    assert shares.pop("row along x") == pytest.approx(1, abs=0.06)  # "on its line"
    assert all(0.4 < share < 0.7 for share in shares.values())
    gains = [page["reached"][after] / page["reached"][before] for before, after in
             (("column along x", "tile"), ("tile", "8 x 8 each"))]  # fmt: skip
    assert gains[0] < 2 < 5 < gains[1]  # the first step alone gains less than the second


def test_dynamic_shared_memory_compiles_and_fits(page, compiled) -> None:
    assert compiled(page["reverse"], "float32[::1], float32[::1]").mix
    tiles = [2 * 4 * T * T * R for T, R in ((32, 1), (16, 4), (16, 8))]
    assert max(tiles) <= 48 * 1024


def test_every_wrong_way_is_right_somewhere_and_found(page) -> None:
    runs = page["runs"]
    right = {way: [runs[way, size][1] < 1e-6 for size in page["sizes"]] for way in page["ways"]}
    assert page["sizes"] == ((8, 8, 8), (8, 32, 8), (8, 33, 8))
    assert right == {"rounded up": [True, True, True], "k // T": [True, True, False], "gridDim.x": [True, False, False]}
    there = 8 * 33 + 33 * 8 + 8 * 8
    touched = [runs[way, (8, 33, 8)][0].traffic.useful_bytes // 4 for way in page["ways"]]
    assert touched == [there, there - 16, 3 * 64]


def test_a_padded_tile_frees_the_banks(page) -> None:
    assert page["turns"] == {32: 32, 33: 1}


@pytest.mark.slow
def test_every_kernel_compiles_without_doubles(page, compiled) -> None:
    for kernel in (*(step.kernel for step in page["climbed"].values()), *page["ways"].values()):
        compiled(kernel, ", ".join(["float32[:, ::1]"] * 3))


def test_the_record_is_near_what_the_compiler_makes(page) -> None:
    for key, (registers, _) in page["needs"].items():
        assert registers == pytest.approx(page["RECORDED"][key][0], abs=24), "record it anew"


# -- Where there is no compiler ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_page_shows_the_record(page) -> None:
    cells = split((EXAMPLES / PAGE).read_text(encoding="utf-8"))
    (cell,) = (each.text for each in cells if each.kind != "text" and "RECORDED" in each.text)
    bare = dict(page)
    exec(cell, bare)
    assert bare["needs"] == bare["RECORDED"]
