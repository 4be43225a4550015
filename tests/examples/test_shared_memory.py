"""The counts are those that the page derives, each wrong way is found, and the exercise's check tells tiles apart."""

import re
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from numba import cuda
from pages import doubles_and_spills, judged

from firstlight.timing.specs import spec
from firstlight_kernels import ptx, trace

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


# -- The same kernels in CUDA C++ --------------------------------------------------------------------------------------

IN_CUDA = [("first_try", None), ("product<32>", "tile"), ("product<16, 4>", "4 x 4 each")]
IN_CUDA += [("product<16, 8>", "8 x 8 each, 128 registers")]
ON_A_CPU = """
#include <barrier>
#include <cstdio>
#include <cmath>
#include <thread>
#include <vector>
#define __global__
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)
struct dim3 { int x, y; };
thread_local dim3 threadIdx, blockIdx, blockDim;
std::barrier<> *everybody;
void __syncthreads() { everybody->arrive_and_wait(); }
KERNELS
template <typename Kernel> bool right(Kernel kernel, int T, int covers, int m, int k, int n) {
    std::vector<float> a(m * k), b(k * n), c(m * n, NAN);
    for (int i = 0; i < m * k; i++) a[i] = i % 7 - 2;
    for (int i = 0; i < k * n; i++) b[i] = i % 5 - 1;
    std::barrier<> all(T * T);
    everybody = &all;
    std::vector<std::thread> threads;
    int across = (n + covers - 1) / covers, down = (m + covers - 1) / covers;
    for (int t = 0; t < T * T; t++) threads.emplace_back([&, t] {
        threadIdx = {t % T, t / T}, blockDim = {T, T};
        for (int block = 0; block < across * down; block++) {
            blockIdx = {block % across, block / across};
            kernel(a.data(), b.data(), c.data(), m, k, n);
            all.arrive_and_wait();
        }
    });
    for (auto &thread : threads) thread.join();
    for (int y = 0; y < m; y++)
        for (int x = 0; x < n; x++) {
            float sum = 0;
            for (int i = 0; i < k; i++) sum += a[y * k + i] * b[i * n + x];
            if (c[y * n + x] != sum) return false;
        }
    return true;
}
int main() {
    int sizes[][3] = {{8, 8, 8}, {5, 33, 9}, {17, 11, 35}};
    for (auto [m, k, n] : sizes)
        std::printf("%d%d%d%d", right(first_try, 4, 4, m, k, n), right(product<4>, 4, 4, m, k, n),
                    right(product<4, 2>, 4, 8, m, k, n), right(product<4, 4>, 4, 16, m, k, n));
}
"""


def text_of_page():
    return (Path(__file__).parents[2] / "examples" / PAGE).read_text(encoding="utf-8")


def shown(language):
    """What the prose of the page shows in a language, without the marks of a comment."""
    found = re.findall(rf"#( +)\.\. code-block:: {language}\n#\n((?:#(?:\1 +.*)?\n)+)", text_of_page())
    return [dedent(re.sub("^#", "", block, flags=re.MULTILINE)) for _, block in found]


def machine_code(source, folder):
    """Registers, spilled bytes and machine code of each kernel, as nvcc compiles them for an H100."""
    tools = [ptx._tool(name) for name in ("nvcc", "nvdisasm")]
    if not all([*tools, shutil.which("g++")]):
        pytest.skip("no nvcc, nvdisasm or g++")
    (folder / "kernels.cu").write_text(source, encoding="utf-8")
    command = [tools[0], "-O3", "-cubin", "-arch=sm_90", "-Xptxas=-v", "-o", "kernels.cubin", "kernels.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"function '(\w+)' for.*?(\d+) bytes spill stores.*?Used (\d+) registers", done.stderr, re.DOTALL)
    done = subprocess.run([tools[1], "-c", "kernels.cubin"], cwd=folder, capture_output=True, text=True, check=True)
    codes = dict(re.findall(r"\.section\s+\.text\.(\w+)(.*?)(?=\.section|\Z)", done.stdout, re.DOTALL))
    return {name: (int(registers), int(spilled), codes[name]) for name, spilled, registers in told}


def instructions_a_multiply_add(sass, of_a_round=None):
    """Of the most unrolled loop, or of a whole round, whose inner loop runs until all its multiply-adds are done."""
    bodies = [body for _, body in re.findall(r"(?=(\.L_x_\d+):(.*?)BRA `\(\1\))", sass, re.DOTALL) if "FFMA" in body]
    counts = sorted((body.count(";") + 1, body.count("FFMA")) for body in bodies)
    if of_a_round is None or len(counts) == 1:
        every, multiply_adds = max(counts, key=lambda count: count[1])
        return every / multiply_adds
    (inner, multiply_adds), (outer, _) = counts
    return (outer + (of_a_round // multiply_adds - 1) * inner) / of_a_round


ROUNDS = {"tile": 32, "4 x 4 each": 16 * 16, "8 x 8 each, 128 registers": 16 * 64}


@pytest.mark.slow
@pytest.mark.usefixtures("recorded_compiler")
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_the_table_says_what_both_compilers_make(page, compiled, tmp_path) -> None:
    def by_numba(step):
        code = compiled(page["climbed"][step].kernel, MATRICES)
        return code.registers, instructions_a_multiply_add(code.sass, ROUNDS.get(step))

    wanted = [f"template __global__ void {kernel}(const float *, const float *, float *, int, int, int);"
              for kernel, _ in IN_CUDA[1:]]  # fmt: skip
    source = "\n".join([*shown("cuda"), *wanted])
    codes = machine_code(source, tmp_path)
    mangled = dict(zip(dict(IN_CUDA), ("first_try", "ILi32EE", "Li16ELi4EE", "Li16ELi8EE"), strict=True))

    def by_nvcc(kernel, codes=codes):
        ((registers, spilled, sass),) = (code for name, code in codes.items() if mangled[kernel] in name)
        assert spilled == 0
        return registers, instructions_a_multiply_add(sass, ROUNDS.get(dict(IN_CUDA)[kernel]))

    pairs = [("first try", "first_try"), ("column along x", "first_try"), *((step, of) for of, step in IN_CUDA[1:])]
    table = text_of_page().split("Registers of a thread, and instructions")[1].split("\n# Deeper")[0]
    rows = [re.findall(r"- (?!`)(\S+)$", row, re.MULTILINE) for row in table.split("* - ")[2:]]
    for (step, kernel), row in zip(pairs, rows, strict=True):
        (numba, ours), (nvcc, theirs) = by_numba(step), by_nvcc(kernel)
        assert row == [f"{numba}", f"{nvcc}", "36" if ours == 36 else f"{ours:.1f}", f"{theirs:.1f}"], step
    unbounded = machine_code(source.replace("__launch_bounds__(T * T, 2)", ""), tmp_path)
    assert by_nvcc("product<16, 8>", unbounded)[0] == 128


@pytest.mark.slow
def test_the_kernels_in_cuda_give_the_right_products_on_a_cpu(tmp_path) -> None:
    if not shutil.which("g++"):
        pytest.skip("no g++")
    source = ON_A_CPU.replace("KERNELS", "\n".join(shown("cuda")))
    (tmp_path / "kernels.cpp").write_text(source, encoding="utf-8")
    subprocess.run(["g++", "-std=c++20", "-w", "-pthread", "kernels.cpp", "-o", "kernels"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "kernels"], capture_output=True, text=True, check=True).stdout
    assert said == "1111" * 3


# -- What a reader may do with them ------------------------------------------------------------------------------------


def with_line(line, old="total += a_tile[ty, k] * b_tile[k, tx]"):
    """The kernel of step 3 with another line that adds."""
    source = re.search(r"\ndef tiled\(T\):\n.*?return product\n", text_of_page(), re.DOTALL)[0]
    changed = source.replace(old, line)
    assert changed != source
    exec(compile(changed, "tiled", "exec"), namespace := {"cuda": cuda, "np": np})
    return namespace["tiled"](8)


def test_the_changed_line_cuts_each_difference() -> None:
    (line,) = (code.strip() for code in shown("python") if "min(abs(" in code)
    spectra, templates = (3 * np.random.default_rng(3).normal(size=shape) for shape in ((9, 13), (17, 13)))
    a, b = spectra.astype(np.float32), np.ascontiguousarray(templates.T, np.float32)
    c = np.full((9, 17), np.nan, np.float32)
    seen = trace(with_line(line), (3, 2), (8, 8), a, b, c)
    assert not seen.problems
    differences = np.abs(spectra[:, None] - templates)
    assert differences.min() < 3 < differences.max()
    assert np.allclose(c, np.minimum(differences, 3).sum(-1), rtol=1e-5)


@pytest.mark.slow
def test_only_a_plain_3_makes_doubles(compiled) -> None:
    (line,) = (code.strip() for code in shown("python") if "min(abs(" in code)
    doubles = [
        doubles_and_spills(compiled(with_line(one), MATRICES))[0] for one in (line, line.replace("np.float32(3)", "3"))
    ]
    assert not doubles[0]
    assert doubles[1]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_a_while_changes_nothing_where_a_loop_is_unrolled(page, compiled) -> None:
    counting = "total += a_tile[ty, k] * b_tile[k, tx]"
    source = f"k = 0\n            while k < T:\n                {counting}\n                k += 1"
    changed = with_line(source, f"for k in range(T):\n                {counting}")
    assert loops_of(changed, compiled) == loops_of(page["square"](8).kernel, compiled)


def test_the_launch_in_plain_numba_is_right(page, capsys) -> None:
    (code,) = (code for code in shown("python") if "cuda.to_device" in code)
    small = code.replace("m, k, n = 1000, 2000, 3000", "m, k, n = 9, 17, 11").replace("32)", "8)").replace("32,", "8,")
    small = small.replace("// 32", "// 8").replace("np.float8", "np.float32")
    exec(compile(small, "launch", "exec"), {"tiled": page["tiled"]})
    assert float(capsys.readouterr().out) < 1e-5
