"""The counts are those that the page derives, each wrong way is found, and the exercise's check tells tiles apart."""

import re

import numpy as np
import pytest
from pages import doubles_and_spills, judged

from firstlight.kernels import cuda, trace

PAGE = "3_kernels/07_shared_memory.py"


# -- The exercise ------------------------------------------------------------------------------------------------------


@cuda.jit
def without_a_tile(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[x, y] = image[y, x]


@cuda.jit
def without_a_barrier(image, out):
    tile = cuda.shared.array((16, 16), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        tile[ty, tx] = image[y, x]
    x, y = 16 * cuda.blockIdx.y + tx, 16 * cuda.blockIdx.x + ty
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[tx, ty]


@cuda.jit
def with_one_guard(image, out):
    tile = cuda.shared.array((16, 16), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    inside = y < image.shape[0] and x < image.shape[1]
    if inside:
        tile[ty, tx] = image[y, x]
    cuda.syncthreads()
    if inside:
        out[16 * cuda.blockIdx.x + ty, 16 * cuda.blockIdx.y + tx] = tile[tx, ty]


@cuda.jit
def turned_in_its_tile_only(image, out):
    tile = cuda.shared.array((16, 16), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        tile[ty, tx] = image[y, x]
    cuda.syncthreads()
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[tx, ty]


@cuda.jit
def written_down_columns(image, out):
    tile = cuda.shared.array((16, 16), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        tile[ty, tx] = image[y, x]
    cuda.syncthreads()
    if y < image.shape[0] and x < image.shape[1]:
        out[x, y] = tile[ty, tx]


@cuda.jit
def filled_turned(image, out):
    tile = cuda.shared.array((16, 16), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        tile[tx, ty] = image[y, x]
    cuda.syncthreads()
    x, y = 16 * cuda.blockIdx.y + tx, 16 * cuda.blockIdx.x + ty
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[ty, tx]


WRONG = {
    "no tile": (without_a_tile, "sectors"),
    "no barrier": (without_a_barrier, "barrier"),
    "one guard": (with_one_guard, "guard|barrier|should be"),
    "not elsewhere": (turned_in_its_tile_only, "should be|guard|barrier"),
    "a tile for nothing": (written_down_columns, "sectors"),
    "the start": ("transpose", "should be"),
}


test_answers = judged(["transpose_solution", filled_turned], WRONG)


# -- What the page claims ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("T", "R"), [(4, 1), (4, 2), (8, 1), (16, 1)])
def test_a_tile_divides_the_loads_by_its_side(page, T, R) -> None:
    step = page["square"](T, R)
    a, b, c = (np.ones(shape, np.float32) for shape in ((16, 4), (4, 16), (16, 16)))
    seen = trace(step.kernel, page["grid_of"](step, c), step.threads, a, b, c)
    assert seen.counts("load", "global").sum() == 16 * 16 * 2 * 4 / (R * T)
    assert np.all(c == 4)


def test_counts_are_those_of_the_text(page) -> None:
    plain, tiled = (page[name].counts("load", "global").sum() for name in ("plain", "shared_by_eight"))
    assert plain == 32 * page["a"].size + 32 * page["b"].size == 8 * tiled
    four = trace(page["square"](8, 4).kernel, (1, 1), (8, 8), page["a"], page["b"], page["c"])
    multiply_adds = 32 * 8 * 32
    from_shared = [one.counts("load", "shared").sum() / multiply_adds for one in (page["shared_by_eight"], four)]
    assert from_shared == [2, 8 / 16]


def test_every_wrong_way_is_right_somewhere_and_found(page) -> None:
    said = {}
    for (way, _), verdict in page["verdicts"].items():
        said.setdefault(way, []).append(verdict == "right")
    assert said == {
        "as above": [True, True, True, True],
        "// T": [True, True, False, False],
        "gridDim.x": [True, False, False, True],
    }


def test_a_padded_tile_frees_the_banks(page) -> None:
    image, out = np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)
    ways = []
    for kernel in (page["transpose_solution"], filled_turned):
        conflicts = trace(kernel, (2, 2), (16, 16), image, out).bank_conflicts
        ways.append(max(each.ways for each in conflicts))
    assert ways[0] <= 2 < ways[1]


@pytest.mark.slow
def test_every_kernel_compiles_without_doubles(page, compiled) -> None:
    for kernel in (*(step.kernel for step in page["climbed"].values()), *page["ways"].values()):
        assert doubles_and_spills(compiled(kernel, ", ".join(["float32[:, ::1]"] * 3))) == ([], 0), kernel


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_registers_leave_room_for_one_block_or_three(page, compiled) -> None:
    for step, blocks in {"8 x 8 each": 1, "4 x 4 each": 3}.items():
        code = compiled(page["climbed"][step].kernel, ", ".join(["float32[:, ::1]"] * 3))
        assert 65536 // (code.registers * 256) == blocks


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_one_instruction_in_36_multiplies_and_with_while_two_in_15(page, compiled) -> None:
    counted = {}
    for name in ("first try", "column along x"):
        sass = compiled(page["ladder"][name].kernel, ", ".join(["float32[:, ::1]"] * 3)).sass
        if sass is None:
            pytest.skip("no nvdisasm")
        loops = [body for _, body in re.findall(r"(\.L_x_\d+):(.*?)BRA `\(\1\)", sass, re.DOTALL)]
        unrolled = max(loops, key=len)
        counted[name] = (unrolled.count(";") + 1) / unrolled.count("FFMA")
        assert unrolled.count("LDG") == 2 * unrolled.count("FFMA")
    assert counted == {"first try": 36, "column along x": 7.5}
