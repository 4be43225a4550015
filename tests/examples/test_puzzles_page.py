"""The page's gaps are empty, its attempts go from wrong to right, and all its solutions are right."""

import inspect
import re

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
