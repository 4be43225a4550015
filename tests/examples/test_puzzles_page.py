"""Every puzzle is on the page, its gap is told kindly from an answer, and the score and the picture follow answers."""

import ast
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from firstlight.kernels import cuda, ptx
from firstlight.kernels.puzzles import PUZZLES

from numba import float32  # isort: skip  (firstlight.kernels decides first whether there is a device)

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = "3_kernels/11_puzzles.py"
TEXT = (EXAMPLES / PAGE).read_text(encoding="utf-8")
F1, F2 = "float32[::1]", "float32[:, ::1]"
TYPES = {
    "guard": (F1, "float32", "int64", F1),
    "zip": (F1, F1, "float32", "float32"),
    "image": (F2, F2),
    "broadcast": (F1, F1, F2),
    "transpose": (F2, F2),
    "dot": (F1, F1, F1),
    "histogram": ("int32[::1]", "int32[::1]"),
    "matmul": (F2, F2, F2),
    "gridding": (*[F1] * 5, *[F2] * 3),
}


@cuda.jit
def square_by_power(x, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = x[i] ** 2


@cuda.jit
def adds(x, out):
    i = cuda.grid(1)
    value = x[i]
    out[i] += value * value


@cuda.jit
def doubles(x, out):
    i = cuda.grid(1)
    out[i] = 2 * x[i]


@cuda.jit
def in_the_block(x, out):
    i = cuda.threadIdx.x
    value = x[i]
    out[i] = value * value


@cuda.jit
def reads_only(x, out):
    if x[cuda.grid(1)] > 1e9:
        out[0] = 0


def undecorated(x, out):
    out[0] = x[0]


# -- The judge of the page ---------------------------------------------------------------------------------------------


def test_an_answer_in_other_words_is_right(page):
    assert page["check"]("map", square_by_power).startswith("Right")


@pytest.mark.parametrize(
    ("kernel", "hint"),
    [
        (adds, "should be 8.85975, and is -68.1403"),
        (doubles, "out[0] should be"),
        (in_the_block, "a race: out[0]"),
        (reads_only, "no thread has changed it"),  # it touches memory, so it is no gap
        (undecorated, "put @cuda.jit above undecorated"),
        (None, "None is no kernel"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_answer_gets_the_reason(page, kernel, hint):
    said = page["check"]("map", kernel)
    assert said.startswith("Not yet")
    assert hint in said


@pytest.mark.parametrize("name", PUZZLES)
def test_a_gap_is_no_error_and_shows_the_task(page, name, capsys):
    names = ", ".join(page["inspect"].signature(PUZZLES[name].spec).parameters)
    scope = {}
    exec(f"def gap({names}): ...", scope)
    answers = {}
    page["attempt"](name, answers)(cuda.jit(scope["gap"]))
    assert answers[name][1] == "not solved yet."
    said = capsys.readouterr().out
    assert said.startswith(f"{name}: not solved yet.\nIn NumPy:\n\n    ")
    assert " ".join(PUZZLES[name].constraint.split()) in " ".join(said.split())
    for line in PUZZLES[name].stub.strip().splitlines()[2:]:
        assert line in said
    assert "-> None" not in said


# -- What stands on the page -------------------------------------------------------------------------------------------


def kernels_under(decorator):
    found = {}
    for node in ast.parse(TEXT).body:
        for mark in getattr(node, "decorator_list", ()):
            if isinstance(mark, ast.Call) and mark.func.id == decorator:
                found.setdefault(mark.args[0].value, []).append(node)
    return found


def test_every_puzzle_has_a_gap_and_a_solution_and_its_arguments():
    gaps, solutions = kernels_under("attempt"), kernels_under("solution")
    assert gaps.keys() == PUZZLES.keys()
    assert solutions.keys() | {"stride"} == PUZZLES.keys()
    assert list(solutions) == list(gaps)[1:]
    for name, nodes in [*gaps.items(), *solutions.items()]:
        wanted = next(node for node in ast.parse(PUZZLES[name].stub).body if isinstance(node, ast.FunctionDef))
        for node in nodes:
            assert ast.dump(node.args) == ast.dump(wanted.args)
    headings = re.findall(r"^# (\d+)\. ``(.+)``\n# ~+$", TEXT, re.MULTILINE)
    assert headings == [(str(number), name) for number, name in enumerate(solutions, 1)]


def test_all_gaps_are_gaps_and_all_solutions_are_right(page):
    assert {name for name, (_, said) in page["yours"].items() if said != page["GAP"]} == {"stride"}
    assert page["solved"](page["ours"]) == PUZZLES.keys()


def test_no_solution_calculates_in_float64_on_any_card(page):
    for name, (kernel, _) in page["ours"].items():
        for cc in ((7, 5), (9, 0)):
            try:
                mix = ptx.compile(kernel, ", ".join(TYPES.get(name, (F1, F1))), cc).mix
            except ptx.NoCompilerError:
                pytest.skip("there is no compiler")
            assert not [instruction for instruction in mix if "f64" in instruction], name


def test_the_compiler_joins_the_loads_and_finds_the_doubles(page):
    for (kernel, _), (loads, in_double) in page["compiled"].items():
        assert (loads == 1) == (kernel == "square_twice")
        assert (in_double > 0) == (kernel == "plain_numbers")
    assert page["check"]("map", page["square_twice"]).startswith("Not yet: the result is right, but")
    assert page["check"]("stride", page["plain_numbers"]).startswith("Right")


def test_the_three_attempts_at_stride_go_from_wrong_to_dear_to_right(page):
    said = [page["check"]("stride", page[name]) for name in ("one_each", "pieces", "side_by_side")]
    assert "no thread has changed it from -77" in said[0]
    assert said[1].startswith("Not yet: the result is right, but")
    assert "where 4 would do" in said[1]
    assert said[2].startswith("Right")
    first = PUZZLES["stride"].launches[0]
    seen = page["try_out"](PUZZLES["stride"], first, page["pieces"])
    assert (first.sizes, first.in_all, seen.counts("load").max()) == ((21,), 8, 3)
    starts = [seen.notes[seen.notes[:, page["THREAD"]] == thread][0, page["OFFSET"]] // 4 for thread in range(4)]
    assert starts == [0, 3, 6, 9]


def test_the_launches_stay_within_the_budget_of_threads(page):
    assert 2 * page["threads"] < 50_000  # gaps stop at the first launch


# -- Score and picture -------------------------------------------------------------------------------------------------


def test_the_score_counts_and_names_an_existing_page_for_each_puzzle(page, capsys):
    helped = [name for names in page["HELPS"].values() for name in names]
    assert sorted(helped) == sorted(PUZZLES)
    for name in page["HELPS"]:
        assert re.search(rf"/tutorials/3_kernels/{name}|{name}", TEXT)
        assert (EXAMPLES / "3_kernels" / f"{name}.py").is_file()
    page["score"]({"map": (adds, "Not yet: …"), "dot": (adds, "Right: …")})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "1 of 16 solved."
    assert "  read 01_first_kernel for map, guard, zip, neighbours" in said
    assert "  read 05_reductions for warp sum, block sum, scan" in said
    page["score"](page["ours"])
    assert capsys.readouterr().out == "16 of 16 solved.\n"


def test_the_picture_has_all_puzzles_and_tells_kernels_apart(page):
    assert sorted(ax.get_title() for ax in page["axes"].flat) == sorted(PUZZLES)
    assert page["fig"].get_label()

    def points(kernel):
        fig, ax = plt.subplots()
        page["fingerprint"](ax, "tile", kernel)
        plt.close(fig)
        return [line.get_xydata().tolist() for line in ax.lines]

    ours = points(page["ours"]["tile"][0])
    assert max(element for element, _ in ours[0]) == 33  # shared memory, of one block
    assert max(thread for _, thread in ours[0]) == 31
    assert points(another_tile) != ours


def test_the_readers_own_answers_are_drawn_if_they_are_right(page):
    assert page["drawn"].keys() == PUZZLES.keys()
    assert all(said.startswith("Right") for _, said in page["drawn"].values())
    assert page["drawn"]["stride"] is page["yours"]["stride"]


@cuda.jit
def another_tile(x, out):
    tile = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    last = x.size - 1
    if i <= last:
        tile[t + 1] = x[i]
        if t == 0:
            tile[0] = x[max(i - 1, 0)]
        if t == 31 or i == last:
            tile[t + 2] = x[min(i + 1, last)]
    cuda.syncthreads()
    if i <= last:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / float32(3)
