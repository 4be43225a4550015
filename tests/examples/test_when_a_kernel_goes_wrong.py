"""Each mistake is found as the page says, the cures are right, and the exercise's check names what is wrong."""

import os
import re
import subprocess
import sys
import time
from textwrap import dedent

import numpy as np
import pytest
import variants
from numba import cuda
from pages import EXAMPLES, doubles_and_spills, judged
from samples import recorded

from firstlight_kernels import simulated, trace

PAGE = "3_kernels/09_when_a_kernel_goes_wrong.py"
T = 64
TYPES = "float32[::1], float32[::1]"
WITH_BARRIER = {"first_try", "cured_shared", "power", "power_solution"}


# -- Answers to the exercise -------------------------------------------------------------------------------------------


FILL = "near[t] = x[i] * x[i] if i < x.size else np.float32(0)"


def power(fill=FILL, before=True, inside=False, end="if t == 0:"):
    """The kernel that the exercise asks for, with something else in place of one of its parts."""
    body = f"""
near = cuda.shared.array(T, np.float32)
t, i = cuda.threadIdx.x, cuda.grid(1)
{fill}
half = T // 2
while half > 0:
    {"cuda.syncthreads()" if before else "pass"}
    if t < half:
        near[t] += near[t + half]
        {"cuda.syncthreads()" if inside else "pass"}
    half //= 2
{end}
    out[cuda.blockIdx.x] = near[0]
"""
    source = "@cuda.jit\ndef power(x, out):" + body.replace("\n", "\n    ")
    return variants.compiled(source, {"cuda": cuda, "np": np, "T": T})


WRONG = {
    "no fill": (power("if i < x.size: near[t] = x[i] * x[i]"), "near filled"),
    "all write": (power(end="cuda.syncthreads()\nif True:"), "must wait"),
    "no barrier": (power(before=False), "must wait"),
    "barrier for half": (power(FILL + "\ncuda.syncthreads()", before=False, inside=True), "come to a barrier"),
    "no guard": (power("near[t] = x[i] ** 2"), "guard"),
    "nothing": (cuda.jit(lambda x, out: None), "-1.00"),
    "the start": ("power", "128 samples"),
}


test_answers = judged(["power_solution", power()], WRONG)


def test_the_start_of_the_exercise_has_three_mistakes(page) -> None:
    x, out = np.ones(101, np.float32), np.zeros(2, np.float32)
    found = trace(page["power"], 2, T, x, out).problems
    assert {type(each).__name__ for each in found} == {"Race", "DivergentBarrier", "Uninitialized"}
    assert np.isnan(out[1])


# -- What the page claims ----------------------------------------------------------------------------------------------


KINDS = {"differences": "OutOfBounds", "count_rises": "Race", "shared_differences": "Race"}
KINDS |= {"first_try": "DivergentBarrier"}


def arrays_of(name):
    x = np.linspace(0, 1, 101, dtype=np.float32)
    return (x, np.zeros(1, np.int32)) if name == "count_rises" else (x, np.zeros(100, np.float32))


@pytest.mark.parametrize("name", KINDS)
def test_the_trace_finds_each_mistake_and_the_answer_was_right(page, name) -> None:
    x, out = arrays_of(name)
    found = trace(page[name], 2, T, x, out).problems
    assert {type(each).__name__ for each in found} == {KINDS[name]}
    assert np.allclose(out, 100 if name == "count_rises" else np.diff(x))


def test_with_full_blocks_the_missing_guard_does_not_show(page) -> None:
    x, out = np.linspace(0, 1, 128, dtype=np.float32), np.zeros(127, np.float32)
    assert trace(page["differences"], 2, T, x, out).problems == []


@pytest.mark.skipif(not simulated(), reason="a GPU does not look at indices")
def test_plain_runs_in_the_simulator(page) -> None:
    assert page["is_right"](page["differences"], 128)
    with pytest.raises(IndexError):
        page["is_right"](page["differences"], 101)


def test_pythons_debugger_answers_as_the_page_says(tmp_path) -> None:
    text = re.sub(r"^# ?", "", (EXAMPLES / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)
    script = re.search(r"   import numpy as np\n(?:   .*\n|\n)+", text)[0]
    (tmp_path / "broken.py").write_text(dedent(script), encoding="utf-8")
    session = re.search(r"   \$ NUMBA_ENABLE_CUDASIM=1 .*\n((?:   .*\n)+)", text)[1]
    said = [line.strip() for line in session.splitlines()]
    typed = [line.removeprefix("(Pdb) ") for line in said if line.startswith("(Pdb)")]
    typed = ["next"] * (sys.version_info >= (3, 13)) + typed  # there it stops one line earlier
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    seen = ""
    with subprocess.Popen([sys.executable, "broken.py"], cwd=tmp_path, env=environment, bufsize=0, **pipes) as debugger:
        for line in [*typed, "quit"]:
            while not seen.endswith("(Pdb) "):
                letter = debugger.stdout.read(1).decode()
                assert letter, seen  # another thread has ended the program
                seen += letter
            time.sleep(0.2)  # as slow as a person, so that other threads can fail
            debugger.stdin.write(f"{line}\n".encode())
            seen += "\n"
        seen += debugger.stdout.read().decode()
    for line in said:
        assert line.startswith("(Pdb)") or line in seen, line


def test_on_the_h100_an_access_out_of_bounds_gave_the_right_answer() -> None:
    assert any("101 samples: True" in text for text in recorded(PAGE).outputs.values())


def test_every_kernel_compiles(page, compiled) -> None:
    counts = {"count_rises", "cured_count"}
    differences = {"differences", "shared_differences", "first_try", "cured_differences", "cured_shared"}
    for name in counts | differences | {"power", "power_solution"}:
        code = compiled(page[name], "float32[::1], int32[::1]" if name in counts else TYPES)
        assert doubles_and_spills(code) == ([], 0), name
        said = " ".join(code.mix)
        assert ("atom" in f" {said}" or " red" in f" {said}") == (name == "cured_count"), name
        assert ("bar.sync" in said or "barrier" in said) == (name in WITH_BARRIER), name
