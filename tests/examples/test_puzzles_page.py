"""The page's gaps are empty, its attempts go from wrong to right, and all its solutions are right."""

import inspect
import re

import numpy as np
from numba import cuda, float32
from pages import EXAMPLES

from firstlight_kernels.puzzles import PUZZLES, attempt, tally
from firstlight_kernels.puzzles.attempts import GAP, YOURS, worksheet

PAGE = "3_kernels/14_puzzles.py"


def test_all_gaps_are_empty_and_all_solutions_are_right(page):
    assert {name for name, (_, said) in YOURS.items() if said != GAP} == {"stride"}
    assert YOURS.keys() == PUZZLES.keys()
    assert page["ours"].keys() == PUZZLES.keys()
    assert all(said.startswith("Right") for _, said in page["ours"].values())


def test_the_gaps_take_what_the_puzzles_ask_for_and_come_in_order():
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    gap = r'# (\d+)\. ``([a-z ]+)``\n(?:#[^\n]*\n)*\s+@attempt\("\2"\)\n@cuda.jit\ndef \w+\((.*)\): \.\.\.'
    found = re.findall(gap, text)
    names = list(PUZZLES)
    assert [(int(number), name) for number, name, _ in found] == [
        (number, name) for number, name in enumerate(names, 1) if name not in ("map", "stride")
    ]
    for _, name, parameters in found:
        assert parameters.split(", ") == list(inspect.signature(PUZZLES[name].spec).parameters)


def test_the_three_attempts_at_stride_go_from_wrong_to_costly_to_right(page):
    said = [PUZZLES["stride"].check(page[name]) for name in ("one_each", "pieces", "side_by_side")]
    assert "no thread" in said[0]
    assert "4 would do" in said[1]
    assert said[2].startswith("Right")


def test_a_square_that_reads_twice_does_not_count_as_the_page_says(page, capsys):
    attempt("map", {})(page["square_at_once"])
    said = re.sub(r" \(thread .*\)\s+(?=Hint)", " ", " ".join(capsys.readouterr().out.split()))
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    shown = re.search(r"code-block:: text\n#\n((?:# {4}.*\n)+)", text)[1]
    assert said == " ".join(shown.replace("#", " ").split())


# -- What the page says of the judge -----------------------------------------------------------------------------------


@cuda.jit
def without_a_barrier(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else float32(0)
    for half in (32, 16, 8, 4, 2, 1):
        if t < half:
            part[t] += part[t + half]
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def with_a_barrier_in_an_if(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else float32(0)
    for half in (32, 16, 8, 4, 2, 1):
        if t < 2 * half:
            cuda.syncthreads()
        if t < half:
            part[t] += part[t + half]
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def with_swapped_axes(image, out):
    y, x = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[y, x] = max(image[y, x], float32(0))


@cuda.jit
def with_a_tile_32_wide(x, out):
    tile = cuda.shared.array((32, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = 32 * cuda.blockIdx.x, 32 * cuda.blockIdx.y
    for k in range(ty, 32, 8):
        if top + k < x.shape[0] and left + tx < x.shape[1]:
            tile[k, tx] = x[top + k, left + tx]
    cuda.syncthreads()
    for k in range(ty, 32, 8):
        if left + k < x.shape[1] and top + tx < x.shape[0]:
            out[left + k, top + tx] = tile[tx, k]


def test_the_judge_says_of_four_mistakes_what_the_page_quotes():
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    quoted = [" ".join(words.split()) for words in re.findall(r"\n     - \*([^*]+)\*\n", text)]
    mistakes = {
        "block sum": [without_a_barrier, with_a_barrier_in_an_if],
        "image": [with_swapped_axes],
        "transpose": [with_a_tile_32_wide],
    }
    said = [PUZZLES[name].check(kernel) for name, kernels in mistakes.items() for kernel in kernels]
    plain = [re.sub(r"in line \d+: [^,]+?(?=, and| \(and)", "in line", " ".join(one.split())) for one in said]
    assert len(quoted) == len(plain) == 4
    assert all(re.sub(r"in line \d+", "in line", words) in one for words, one in zip(quoted, plain, strict=True))


def test_the_gridding_in_numpy_on_the_page_is_what_the_puzzle_asks_for():
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    code = re.search(r"code-block:: python\n#\n((?:#    .*\n)+)#\n# - \*Threads:\* one for each visibility", text)[1]
    code = "\n".join(line[5:] for line in code.splitlines())
    puzzle = PUZZLES["gridding"]
    names = list(inspect.signature(puzzle.spec).parameters)
    for launch in puzzle.launches:
        given, asked = (puzzle.inputs(np.random.default_rng(seed=1), *launch.sizes) for _ in range(2))
        exec(code, dict(zip(names, given, strict=True)) | {"np": np, "size": len(given[-1])})
        puzzle.spec(*asked)
        for mine, right in zip(given, asked, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-6)


# -- What a reader solves them with ------------------------------------------------------------------------------------


def test_the_solutions_are_praised_each_in_its_own_words(page, capsys):
    answers, praise = {}, set()
    for name, (kernel, said) in page["ours"].items():
        attempt(name, answers)(kernel)
        printed = " ".join(capsys.readouterr().out.split())
        assert printed.startswith(f"{name}: {' '.join(said.split())}")
        praise.add(printed.removeprefix(f"{name}: {' '.join(said.split())}").strip())
        assert f"{len(answers)} of 16" in tally(answers)
    assert len(praise) == len(PUZZLES)
    assert "" not in praise


def test_what_is_no_kernel_is_judged_without_an_error(capsys):
    for answer in (None, 3, lambda x, out: None):
        attempt("map", {})(answer)
        assert "Not yet" in capsys.readouterr().out


def test_a_wrong_answer_gets_a_hint_of_its_own_that_holds_no_code(capsys):
    hints = set()
    for name in PUZZLES:
        attempt(name, {})(None)
        hints.add(" ".join(capsys.readouterr().out.split()).partition("Hint: ")[2])
    assert len(hints) == len(PUZZLES)
    assert not any("=" in hint or "[" in hint for hint in hints)


def test_the_worksheet_has_each_task_and_a_gap_that_says_nothing(monkeypatch, capsys):
    for name in PUZZLES:
        monkeypatch.delitem(YOURS, name, raising=False)
    sheet = worksheet()
    exec(compile(sheet, "worksheet", "exec"), {})
    assert capsys.readouterr().out.startswith("0 of 16 solved")
    comments = " ".join(re.sub(r"^# ?", "", sheet, flags=re.MULTILINE).split())
    assert not re.search(r"\b_\w+\(", comments), "it calls a helper that readers don't see"
    for puzzle in PUZZLES.values():
        assert puzzle.task in comments
        assert puzzle.constraint in comments
        assert puzzle.stub in sheet
