"""An answer is judged by what its page says, quickly, and without the rest of the page."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from firstlight.cli import main

PAGE = '''"""Page."""

import time

data = [3, 4]
time.sleep({slow})
raise_later = 1 / {zero}


def total(x):
    {answer}


# %%

# folded: What checks your answer


def check(answer):
    try:
        return "Right." if answer(data) == 7 else "Not yet."
    except TypeError as error:
        return f"It raised {{error}}"


# %%

print(check(total))

# %%

# solution


def total_solution(x):
    return sum(x)


print(check(total_solution))
'''


@pytest.fixture
def answered(tmp_path, capsys):
    """Try an answer; return the status and what was printed."""

    def attempt(answer: str, page: str = PAGE) -> tuple[int, str, str]:
        script = tmp_path / "page.py"
        script.write_text(page.format(answer=answer, slow=1e9, zero=0), encoding="utf-8")
        return (main(["try", str(script)]), *capsys.readouterr())

    return attempt


def test_only_what_the_check_depends_on_is_run_and_only_our_own_answer_is_judged(answered):
    assert answered("...") == (1, "Not yet.\n", "")
    assert answered("return x[0] + x[1]") == (0, "Right.\n", "")
    assert answered("return sum(x, 1)") == (1, "Not yet.\n", "")


def test_a_measurement_on_the_page_is_not_made_for_an_answer(answered):
    timed = PAGE.replace(
        "# %%\n\n# folded", "bench.time('total', total, data, slow=1 / {zero})\n\n\n# %%\n\n# folded", 1
    )
    assert timed != PAGE
    assert answered("return sum(x)", timed) == (0, "Right.\n", "")


def test_an_answer_that_fails_names_its_line_and_one_that_is_no_python_too(answered):
    status, printed, error = answered("return y")
    assert (status, printed) == (1, "")
    assert "line 11 of page.py (return y) raised NameError" in error
    status, printed, error = answered("return (x")
    assert (status, printed) == (1, "")
    assert "line 11" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("end", ["exit()", "raise SystemExit(0)", "raise GeneratorExit"])
def test_an_answer_that_ends_the_program_is_wrong(answered, end):
    status, _, error = answered(end)
    assert status == 1
    assert f"line 11 of page.py ({end}) raised" in error


def test_a_package_that_is_missing_is_no_wrong_answer(answered):
    status, _, error = answered("return sum(x)", "import not_there\n" + PAGE.replace("(data)", "(not_there.data)"))
    assert status == 2
    assert "not_there" in error


HANDED_IN = [
    (0, "def total(x):\n    return sum(x)\n"),
    (0, "import math, operator\nfrom functools import reduce\n\ndef total(x):\n    return reduce(operator.add, x)\n"),
    (0, "START = []\nSTART.append(0)\n\ndef plus(x):\n    return sum(x, START[0])\n\ntotal = plus\n"),
    (0, "data = [1]\n" + PAGE.format(answer="return sum(x)", slow=0, zero=0)),
    (1, "def total(x):\n    return 8\n\ndef check(answer):\n    return 'Right.'\n\nprint(check(total))\n"),
    (0, "import time\n\ndef total(x):\n    return time.monotonic() and sum(x)\n"),
    (1, "data = [8]\n\ndef total(x):\n    return data[0] and 8\n"),
    (2, "total = check = lambda x: 'Right.'\n"),
    (2, "def sum_of(x):\n    return sum(x)\n"),
    (0, "\ufeffdef total(x):\n    return sum(x)\n"),
    (1, "def total(x):\n    exit()\n"),
]


@pytest.mark.parametrize(("status", "handed_in"), HANDED_IN)
def test_the_check_of_the_teachers_copy_counts_and_only_the_answer_of_a_student(tmp_path, status, handed_in):
    page, script = tmp_path / "page.py", tmp_path / "theirs.py"
    text = PAGE.format(answer="...", slow=1e9, zero=0).replace('"Right."', 'time and "Right."')
    page.write_text(text.replace("time.sleep", "slow = lambda: time.sleep"), encoding="utf-8")
    script.write_text(handed_in, encoding="utf-8")
    assert main(["try", str(script), "--check", str(page)]) == status


@pytest.mark.parametrize("page", [None, b"x = 1\n", b"(", b"\xff", b"print(check(another))\n"])
def test_a_mistake_after_check_is_no_wrong_answer(tmp_path, capsys, page):
    script, check = tmp_path / "theirs.py", tmp_path / "page.py"
    script.write_text("def total(x):\n    return sum(x)\n", encoding="utf-8")
    if page is not None:
        check.write_bytes(page)
    assert main(["try", str(script), "--check", str(check)]) == 2
    assert "page.py" in capsys.readouterr().err


@pytest.mark.parametrize("interrupt", [signal.default_int_handler, signal.SIG_IGN])
def test_an_answer_that_never_ends_is_stopped_and_nothing_stays_behind(answered, monkeypatch, interrupt):
    monkeypatch.setattr("firstlight.records.exercise.LIMIT", 1.0)
    before = signal.signal(signal.SIGINT, interrupt)
    status, _, error = answered("i = 0\n    while i < len(x): pass")
    assert status == 1
    assert "line 12 of page.py (while i < len(x): pass)" in error
    answered("return sum(x)")  # its timer has been called off
    assert signal.signal(signal.SIGINT, before) is interrupt
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


@pytest.mark.parametrize("page", ["x = 1\n", "print(check)\n", "# solution\nprint(check(1))\n"])
def test_a_script_without_an_exercise_says_so(answered, page):
    status, _, error = answered("", page)
    assert status == 1
    assert "no exercise" in error


def test_a_file_that_is_missing_or_no_text_is_refused_in_a_line(tmp_path, capsys):
    binary = tmp_path / "page.pyc"
    binary.write_bytes(b"\xff\xfe\x00")
    deep = tmp_path / "deep.py"
    deep.write_text("x = " + "-" * 100_000 + "1\n")
    for file in (tmp_path / "no.py", tmp_path, binary, deep):
        assert main(["try", str(file)]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for file in (str(tmp_path / "pipe"), "/dev/zero"):
        for status, words in ((1, [file]), (2, [__file__, "--check", file])):
            assert main(["try", *words]) == status
            assert "a device" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["imaging", "kernels"])
def test_a_script_older_than_our_projects_is_told_to_be_downloaded_again(name, tmp_path, capsys):
    script = tmp_path / "page.py"
    script.write_text(f"from firstlight.{name}.deep.inside import check\n\nprint(check(1))\n", encoding="utf-8")
    assert main(["try", str(script)]) == 2
    assert f"firstlight_{name}" in capsys.readouterr().err
