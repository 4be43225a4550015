"""The law is what a trace counts, models say what the prose says of them, the check knows plausible mistakes."""

import numpy as np
import pytest
from pages import judged

from firstlight.kernels import cuda, trace

PAGE = "3_kernels/05_coalescing.py"


# -- The law -----------------------------------------------------------------------------------------------------------


def test_the_law_holds_for_all_addresses(page) -> None:
    """By brute force, for more strides and offsets than the page traces."""
    for stride in range(130):
        for offset in range(40):
            pieces = {(offset + stride * lane) // 8 for lane in range(32)}
            assert page["sectors"](stride, offset) == len(pieces), (stride, offset)


def test_the_law_is_what_was_counted(page) -> None:
    assert page["wrong"] == []
    assert len(page["counted"]) == 3 * 20


def test_the_kernel_that_is_timed_obeys_the_law_too(page) -> None:
    for stride in (1, 2, 3, 8, 24):
        x, out = np.ones(4 * 64 * stride, np.float32), np.zeros(64, np.float32)
        made = trace(page["strided_sum"], 2, 32, x, stride, 0, out)
        assert made.sectors_per_load["x"] == page["sectors"](stride)
        assert made.problems == []


# -- Three levels ------------------------------------------------------------------------------------------------------


def test_levels_say_what_the_prose_says_of_them(page) -> None:
    assert all(made.problems == [] for made in page["cases"].values())
    excess = {case: tuple(levels.values()) for case, levels in page["excess"].items()}
    assert excess == {
        "stride 1, offset 0": (1, 1, 1),
        "stride 1, offset 1": (2, pytest.approx(9 / 8), pytest.approx(17 / 16)),
        "stride 2, offset 0": (2, 2, 2),
        "stride 8, offset 0": (8, 8, 8),
        "stride 6, offset 0": (6, 6, 6),
        "stride 32, offset 0": (32, 8, 8),
        "matrix by rows": (32, 1, 1),
        "matrix by columns": (1, 1, 1),
        "write columns": (32, 8, 1),
        "read columns": (32, 1, 1),
    }


def test_the_compiler_keeps_the_loads_that_the_trace_counts(page, compiled) -> None:
    two, strided = "float32[:, ::1], float32[:, ::1]", "float32[::1], int64, int64, float32[::1]"
    kernels = {"gather": 1, "write_columns": 1, "read_columns": 1, "strided_sum": 5, "matvec": 10}
    types = {"gather": strided, "strided_sum": strided, "matvec": "float32[:, ::1], float32[::1], float32[::1]"}
    for name, loads in kernels.items():
        assert compiled(page[name], types.get(name, two)).mix["ld.global.f32"] == loads, name


# -- The exercise ------------------------------------------------------------------------------------------------------


def test_what_is_right_agrees_with_a_trace(page) -> None:
    for name, (_, width, _) in page["QUESTIONS"].items():
        made = {"cuda": cuda}
        exec(f"@cuda.jit\ndef asks({name[0]}, out):\n    i = cuda.grid(1)\n    out[i] = {name}", made)
        dtype = np.float32 if width == 4 else np.complex64
        found = trace(made["asks"], 1, 32, np.ones(128, dtype), np.zeros(32, dtype))
        assert found.sectors_per_load[name[0]] == page["solution"][name]


WRONG = [
    ("x[i // 2]", 4, "share"),
    ("x[3 * i]", 3, "93"),
    ("x[3 * i]", 32, "93"),
    ("x[3 * i]", 96, "32"),
    ("x[3 * i]", 0, "at least 1"),
    ("x[i + 6]", 4, "thirty"),
    ("x[i + 6]", 6, "thirty"),
    ("x[i % 4 * 8 + i // 4]", 32, "order"),
    ("z[2 * i]", 8, "skipped"),
    ("z[2 * i]", "16", "no number"),
    ("z[2 * i]", True, "no number"),
]


def test_answers(page) -> None:
    floats = {name: float(count) for name, count in page["solution"].items()} | {"more": 0}
    wrong = [(page["solution"] | {name: given}, says) for name, given, says in WRONG]
    judged(["solution", floats], [*wrong, ("answers", "x[i // 2]: not 4."), ({"x[3 * i]": 12}, "")])(page)


def test_a_kernel_of_the_reader_is_counted(page) -> None:
    said = page["check"](page["mine"])
    assert "20 sectors" in said
    assert "4 sectors" in said


def test_a_kernel_that_cannot_be_counted_is_told_why(page) -> None:
    assert "offset" in page["check"](page["gather"])
