"""The counts are those that the page derives, each wrong way is found, and the exercise's check tells tiles apart."""

import re
from pathlib import Path

import numpy as np
import pytest
from numba import cuda
from pages import doubles_and_spills, judged

from firstlight.timing.specs import spec
from firstlight_kernels import trace

PAGE = "3_kernels/07_shared_memory.py"
MATRICES = ", ".join(["float32[:, ::1]"] * 3)  # types of a kernel's arguments


# -- The exercise ------------------------------------------------------------------------------------------------------


def with_tiles(fetch, use="a_tile[k, ty]", end="a.shape[0]", first="cuda.syncthreads()", last="cuda.syncthreads()"):
    """A kernel that multiplies in tiles, like the solution, with some of its lines to choose."""
    source = f"""
def at_b(a, b, c):
    a_tile = cuda.shared.array((8, 8), np.float32)
    b_tile = cuda.shared.array((8, 8), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    mine = 8 * cuda.blockIdx.y + tx
    total = np.float32(0)
    for at in range(0, {end}, 8):
        {fetch}
        inside = at + ty < b.shape[0] and column < b.shape[1]
        b_tile[ty, tx] = b[at + ty, column] if inside else np.float32(0)
        {first}
        for k in range(8):
            total += {use} * b_tile[k, tx]
        {last}
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total
"""
    namespace = {"cuda": cuda, "np": np}
    exec(compile(source, "at_b", "exec"), namespace)
    return cuda.jit(namespace["at_b"])


ALONG_ROWS = "a_tile[ty, tx] = a[at + ty, mine] if at + ty < a.shape[0] and mine < a.shape[1] else np.float32(0)"
TURNED = ALONG_ROWS.replace("[ty, tx]", "[tx, ty]")
DOWN_COLUMNS = "a_tile[ty, tx] = a[at + tx, row] if at + tx < a.shape[0] and row < a.shape[1] else np.float32(0)"


@cuda.jit
def without_a_tile(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[0]):
            total += a[k, row] * b[k, column]
        c[row, column] = total


WRONG = {
    "no tile": (without_a_tile, "loads"),
    "no first barrier": (with_tiles(ALONG_ROWS, first="pass"), "barriers"),
    "no second barrier": (with_tiles(ALONG_ROWS, last="pass"), "barriers"),
    "no guard": (with_tiles("a_tile[ty, tx] = a[at + ty, mine]"), "guard"),
    "down the columns": (with_tiles(DOWN_COLUMNS, "a_tile[ty, k]"), "sectors"),
    "read as in the product": (with_tiles(ALONG_ROWS, "a_tile[ty, k]"), "should be"),
    "fetched and read turned": (with_tiles(TURNED), "should be"),
    "rounds, rounded down": (with_tiles(ALONG_ROWS, end="a.shape[0] // 8 * 8"), "last rows"),
    "a round for each block": (with_tiles(ALONG_ROWS, end="cuda.gridDim.x * 8"), "as many rounds as blocks"),
    "the block's columns of C": (
        with_tiles(ALONG_ROWS.replace("mine", "(8 * cuda.blockIdx.x + tx)")),
        "another row of C",
    ),
    "rows of A for the sum": (with_tiles(ALONG_ROWS.replace("a[at + ty, mine]", "a[mine, at + ty]")), "should be"),
    "the start": ("at_b", "should be"),
}


test_answers = judged(["at_b_solution", with_tiles(ALONG_ROWS), with_tiles(TURNED, "a_tile[ty, k]")], WRONG)


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
    # what they ask of memory
    assert [2 / page["climbed"][name].covers[0] for name in ("tile", "4 x 4 each")] == [1 / 16, 1 / 32]


def test_every_wrong_way_is_right_somewhere_and_found(page) -> None:
    said = {}
    for (way, _), verdict in page["verdicts"].items():
        said.setdefault(way, []).append(verdict == "right")
    assert said == {
        "as above": [True, True, True, True],
        "// T": [True, True, False, False],
        "gridDim.x": [True, False, False, True],
        "one barrier": [True, False, False, False],
    }
    races = str(page["with_a_race"](8, 32, 8)[1][0])
    assert re.match(r"a_tile\[0, 0\]: store by thread 0 .*, and load by thread 1 ", races)
    assert page["with_a_race"](8, 8, 8)[1] == []


def test_a_warp_reads_five_sectors_for_a_multiply_add(page) -> None:
    assert page["plain"].sectors_per_load == {"a": 1, "b": 4}


def test_a_cache_hands_out_a_number_for_each_of_32_threads_while_four_slots_pass(page) -> None:
    multiprocessors, bytes_a_cycle, slots = 132, 128, 4
    clock = spec("H100 SXM", "fp32") / 2 / (32 * slots) / multiprocessors
    assert bytes_a_cycle == 32 * 4
    assert page["ms_per_slot"] == pytest.approx(1e3 * page["multiply_adds"] / (multiprocessors * slots * clock))


def transpose_in_tiles(width):
    @cuda.jit
    def transpose(image, out):
        tile = cuda.shared.array((16, width), np.float32)
        x, y = cuda.grid(2)
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = image[y, x]
        cuda.syncthreads()
        y, x = 16 * cuda.blockIdx.x + cuda.threadIdx.y, 16 * cuda.blockIdx.y + cuda.threadIdx.x
        out[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]

    return transpose


def test_a_padded_tile_frees_the_banks() -> None:
    image, out = np.random.default_rng(1).random((32, 32), np.float32), np.zeros((32, 32), np.float32)
    ways = []
    for kernel in (transpose_in_tiles(17), transpose_in_tiles(16)):
        conflicts = trace(kernel, (2, 2), (16, 16), image, out).bank_conflicts
        assert np.array_equal(out, image.T)
        ways.append(max(each.ways for each in conflicts))
    assert ways[0] <= 2 < ways[1]


LIMITED = ("8 x 8 each, 128 registers", "wide loads")


@pytest.mark.slow
def test_every_kernel_compiles_without_doubles(page, compiled) -> None:
    kernels = {name: step.kernel for name, step in page["climbed"].items()} | page["ways"]
    found = {name: doubles_and_spills(compiled(kernel, MATRICES)) for name, kernel in kernels.items()}
    assert not any(doubles for doubles, _ in found.values())
    assert {name for name, (_, spilled) in found.items() if spilled} <= set(LIMITED)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_a_limit_of_registers_is_kept_and_spills_a_little(page, compiled) -> None:
    limited = [compiled(page["climbed"][name].kernel, MATRICES) for name in LIMITED]
    assert [code.registers for code in limited] == [128, 128]
    assert [code.spill_bytes for code in limited] == [40, 8]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_registers_leave_room_for_one_block_or_three(page, compiled) -> None:
    for step, blocks in {"8 x 8 each": 1, "4 x 4 each": 3}.items():
        code = compiled(page["climbed"][step].kernel, MATRICES)
        assert 65536 // (code.registers * 256) == blocks


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_one_instruction_in_36_multiplies_and_with_while_two_in_15(page, compiled) -> None:
    counted = {}
    for name in ("first try", "column along x"):
        sass = compiled(page["ladder"][name].kernel, MATRICES).sass
        if sass is None:
            pytest.skip("no nvdisasm")
        loops = [body for _, body in re.findall(r"(\.L_x_\d+):(.*?)BRA `\(\1\)", sass, re.DOTALL)]
        unrolled = max(loops, key=len)
        counted[name] = (unrolled.count(";") + 1) / unrolled.count("FFMA")
        assert unrolled.count("LDG") == 2 * unrolled.count("FFMA")
    assert counted == {"first try": 36, "column along x": 7.5}


def loops_of(kernel, compiled):
    """The loops of a kernel that multiply and add: instructions, multiply-adds, narrow and wide loads of the tiles."""
    sass = compiled(kernel, MATRICES).sass
    if sass is None:
        pytest.skip("no nvdisasm")
    loops = [body for _, body in re.findall(r"(?=(\.L_x_\d+):(.*?)BRA `\(\1\))", sass, re.DOTALL) if "FFMA" in body]
    return sorted(
        [body.count(";") + 1, body.count("FFMA"), body.count("LDS "), body.count("LDS.128")] for body in loops
    )


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0), (8, 0)], indirect=True)
def test_four_numbers_of_a_come_with_one_load(page, compiled) -> None:
    """A load of four takes two cycles if a warp wants the same four, so six cycles serve for four multiply-adds."""
    *_, (_, multiply_adds, narrow, wide) = loops_of(page["climbed"]["tile"].kernel, compiled)
    assert (multiply_adds, narrow, wide) == (32, 32, 8)
    (_, multiply_adds, narrow, wide), *_ = loops_of(page["climbed"]["4 x 4 each"].kernel, compiled)
    assert [times * 64 / multiply_adds for times in (narrow, wide)] == [16, 4]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_patches_are_read_with_wide_loads(page, compiled) -> None:
    kernels = page["climbed"]["8 x 8 each"].kernel, page["wide"](16)
    (ours, *_), (wide, *_) = (loops_of(kernel, compiled) for kernel in kernels)
    assert ours == [91, 64, 16, 0]
    assert wide == [77, 64, 0, 4]
    assert [compiled(kernel, MATRICES).registers for kernel in kernels] == [146, 137]


@cuda.jit
def copy_four(numbers, out):
    first = 4 * cuda.grid(1)
    if first < out.size:
        for i in range(4):
            out[first + i] = numbers[first + i]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_four_neighbours_in_memory_stay_four_loads(compiled) -> None:
    sass = compiled(copy_four, "float32[::1], float32[::1]").sass
    if sass is None:
        pytest.skip("no nvdisasm")
    assert re.findall(r"LDG\S*", sass) == ["LDG.E"] * 4


def test_a_product_with_wide_loads_is_right(page) -> None:
    random = np.random.default_rng(2)
    for m, k, n in ((9, 11, 33), (32, 8, 32)):
        a, b = (random.uniform(1, 2, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        c = np.full((m, n), np.nan, np.float32)
        seen = trace(page["wide"](4), (-(-n // 32), -(-m // 32)), (4, 4), a, b, c)
        assert not seen.problems
        assert np.allclose(c, a @ b, rtol=1e-5)


def test_the_drawn_slots_are_those_that_the_profiler_counted(page) -> None:
    drawing = (Path(__file__).parents[2] / "docs" / "figures" / "slots.svg").read_text(encoding="utf-8")
    bars = [[float(width) for width in re.findall(r"h([\d.]+)v20", path)] for path in re.findall(r'd="(.+)"', drawing)]
    _, working, others, whole = bars
    profile = page["profile"]
    names = [name for name in profile["issue_active"] if name not in {"0", "wide loads"}]
    for bar, name in enumerate(names):
        used = profile["issue_active"][name] / 100
        share = used * page["multiply_adds"] / profile["inst_executed"][name]
        assert working[bar] / whole[bar] == pytest.approx(share, abs=0.003)
        assert others[bar] / whole[bar] == pytest.approx(used - share, abs=0.003)
    assert len(whole) == len(names)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_half_of_the_instructions_of_a_round_multiply_and_add(page, compiled) -> None:
    inner, outer = loops_of(page["climbed"]["4 x 4 each"].kernel, compiled)  # along the tiles, and over rounds
    times = 16 * 16 // inner[1]  # the 16 steps of a tile, of 4 x 4 multiply-adds
    assert outer[0] + (times - 1) * inner[0] == 508
    assert times * inner[1] == 256
    *_, tile = loops_of(page["climbed"]["tile"].kernel, compiled)
    assert tile[:2] == [129, 32]
    inner, outer = loops_of(page["climbed"]["8 x 8 each"].kernel, compiled)
    assert outer[0] + 15 * inner[0] == 1761


def test_the_steps_of_the_other_ladder_are_those_of_the_repository() -> None:
    five, *rates = 15971.7, 18237.3, 19721, 21779.3  # README.md, da8be69
    source = (Path(__file__).parents[2] / "examples" / PAGE).read_text(encoding="utf-8")
    assert re.findall(r"reached (\d+) %", source) == [f"{100 * rate / 23249.6:.0f}" for rate in rates]
    assert re.search(rf"His step 5 had\s+(# )?{100 * five / 23249.6:.0f} % of the library", source)
