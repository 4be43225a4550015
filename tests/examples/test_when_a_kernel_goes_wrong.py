"""Each mistake is found as the page says, the cures are right, and the exercise's check names what is wrong."""

import subprocess
import sys

import numpy as np
import pytest
from pages import judged

from firstlight.kernels import cuda, simulated, trace

PAGE = "3_kernels/08_when_a_kernel_goes_wrong.py"
T = 64
TYPES = "float32[::1], float32[::1]"
WITH_BARRIER = {"kernel_d", "cured_c", "power", "power_solution"}


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
    scope = {"cuda": cuda, "np": np, "T": T}
    exec("@cuda.jit\ndef power(x, out):" + body.replace("\n", "\n    "), scope)
    return scope["power"]


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


def test_the_trace_finds_all_four_and_each_answer_was_right(page) -> None:
    kinds = {"A": "OutOfBounds", "B": "Race", "C": "Race", "D": "DivergentBarrier"}
    for name, kind in kinds.items():
        problems, right = page["found"][name, 101]
        assert ({type(each).__name__ for each in problems}, right) == ({kind}, True)
    spaces = {name: page["found"][name, 101][0][0].array for name in "BC"}
    assert spaces == {"B": "rises", "C": "near"}


def test_with_full_blocks_the_trace_sees_only_the_races(page) -> None:
    assert {name for name in "ABCD" if page["found"][name, 128][0]} == {"B", "C"}
    assert page["caught"][2:].tolist() == [2, 4, 2]


@pytest.mark.skipif(not simulated(), reason="a GPU does not look at indices")
def test_plain_runs_in_the_simulator(page) -> None:
    assert page["ran"]["A", 128] == "right"
    assert page["ran"]["A", 101] == "stopped by IndexError"
    assert page["ran"]["D", 128] == page["ran"]["D", 101] == "right"


def test_a_plain_run_tells_a_wrong_answer_and_a_write_behind_the_end(page) -> None:
    @cuda.jit
    def zeros(x, out):
        i = cuda.grid(1)
        if 0 < i < x.size:
            out[i - 1] = 0

    assert page["plain_run"](zeros, 101) == "WRONG"


@pytest.mark.slow
def test_the_childs_script_runs(page) -> None:
    command = [sys.executable, "-W", "error", "-c", page["CHILD"], "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == " ".join(f"{name}|fine" for name in page["CALLS"]).split(), done.stderr


def test_every_kernel_compiles(page, compiled) -> None:
    types = dict.fromkeys(["kernel_a", "kernel_c", "kernel_d", "cured_a", "cured_c", "steps_aloud"], TYPES)
    types |= dict.fromkeys(["kernel_b", "cured_b"], "float32[::1], int32[::1]")
    types |= dict.fromkeys(["power", "power_solution"], TYPES)
    for name, each in types.items():
        said = " ".join(compiled(page[name], each).mix)
        assert ("atom" in f" {said}" or " red" in f" {said}") == (name == "cured_b"), name
        assert ("bar.sync" in said or "barrier" in said) == (name in WITH_BARRIER), name
