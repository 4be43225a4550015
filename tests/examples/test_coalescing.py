"""The law is what a trace counts, models say what the prose says of them, the check knows plausible mistakes."""

import numpy as np
import pytest

from firstlight.kernels import cuda, ptx, trace

PAGE = "3_kernels/03_coalescing.py"


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
    assert [page["sectors"](*index) for index in ((1, 0), (2, 0), (8, 0), (64, 0), (1, 1), (0, 0))] == [
        4,
        8,
        32,
        32,
        5,
        1,
    ]


def test_the_order_of_lanes_does_not_matter(page) -> None:
    @cuda.jit
    def turned(x, out):
        i = cuda.grid(1)
        out[i] = x[31 - i]

    made = trace(turned, 1, 32, np.ones(32, np.float32), np.zeros(32, np.float32))
    assert made.sectors_per_load["x"] == page["sectors"](1)


def test_the_kernel_that_is_timed_obeys_the_law_too(page) -> None:
    for stride in (1, 2, 3, 8, 24):
        x, out = np.ones(4 * 64 * stride, np.float32), np.zeros(64, np.float32)
        made = trace(page["strided_sum"], 2, 32, x, stride, 0, out)
        assert made.sectors_per_load["x"] == page["sectors"](stride)
        assert made.problems == []


# -- Three levels ------------------------------------------------------------------------------------------------------


def test_levels_say_what_the_prose_says_of_them(page) -> None:
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


def test_lines_do_not_fit_and_sectors_do(page) -> None:
    for most, kib in page["L1"].values():
        assert most * 32 < 1024 * kib <= most * 128


def test_there_is_enough_to_step_through(page) -> None:
    """The picture's test in a browser steps through more than 20 accesses, and asks for two by name."""
    names = [access.name for access in page["lanes"].accesses]
    assert len(names) > 20
    assert {"matrix by rows: reads a", "write columns: writes out"} <= set(names)


def test_no_kernel_of_the_page_has_a_problem(page) -> None:
    assert all(made.problems == [] for made in page["cases"].values())


@pytest.mark.parametrize("cc", [(7, 5), (9, 0)], ids=["7.5", "9.0"])
def test_the_compiler_keeps_the_loads_that_the_trace_counts(page, cc) -> None:
    two = "float32[:, ::1], float32[:, ::1]"
    kernels = {"gather": 1, "write_columns": 1, "read_columns": 1, "strided_sum": 5, "matvec": 10}
    types = {"gather": page["TYPES"], "strided_sum": page["TYPES"]}
    types |= {"matvec": "float32[:, ::1], float32[::1], float32[::1]"}
    for name, loads in kernels.items():
        try:
            mix = ptx.compile(page[name], types.get(name, two), cc).mix
        except ptx.NoCompilerError:
            pytest.skip("NVIDIA's compiler is not installed")
        assert mix["ld.global.f32"] == loads, name
        assert not any("f64" in instruction for instruction in mix)


# -- What is measured --------------------------------------------------------------------------------------------------


def test_the_same_operations_are_timed_in_several_ways(page) -> None:
    labels = {timing.label for timing in page["bench"].timings}
    assert {f"NumPy, stride {stride}" for stride in page["STRIDES"]} <= labels
    assert {f"{who}, by {order}" for who in ("NumPy", "Numba-CPU") for order in ("rows", "columns")} <= labels
    assert {"torch.mv, by rows", "torch.sum, stride 1"} <= labels


def test_rates_are_of_useful_bytes(page) -> None:
    for stride in page["STRIDES"]:
        assert page["bench"][f"NumPy, stride {stride}"].bytes == 4 * page["x"][::stride].size


def test_figures_say_what_they_show(page) -> None:
    assert "lies on it" in page["fig"].get_label()


# -- The exercise ------------------------------------------------------------------------------------------------------


def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert page["check"](page["solution"]).startswith("Right")
    assert "x[i // 2]: not 4. Hint: two lanes share" in page["check"](page["answers"])


def test_what_is_right_agrees_with_a_trace(page) -> None:
    for name, (_, width, _) in page["QUESTIONS"].items():
        made = {"cuda": cuda}
        exec(f"@cuda.jit\ndef asks({name[0]}, out):\n    i = cuda.grid(1)\n    out[i] = {name}", made)
        dtype = np.float32 if width == 4 else np.complex64
        found = trace(made["asks"], 1, 32, np.ones(128, dtype), np.zeros(32, dtype))
        assert found.sectors_per_load[name[0]] == page["solution"][name]


def test_another_right_answer(page) -> None:
    assert page["check"]({name: float(count) for name, count in page["solution"].items()} | {"more": 0}).startswith(
        "Right"
    )


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("x[i // 2]", 4, "two lanes share a number"),
        ("x[3 * i]", 3, "93 numbers behind"),
        ("x[3 * i]", 32, "93 numbers behind"),
        ("x[3 * i]", 96, "at most 32"),
        ("x[3 * i]", 0, "at least 1 sector"),
        ("x[i + 6]", 4, "thirty follow"),
        ("x[i + 6]", 6, "thirty follow"),
        ("x[i % 4 * 8 + i // 4]", 32, "order does not matter"),
        ("z[2 * i]", 8, "every other is skipped"),
        ("z[2 * i]", "16", "is no number"),
        ("z[2 * i]", None, "is no number"),
        ("z[2 * i]", True, "is no number"),
    ],
)
def test_wrong_answers_get_a_hint(page, name, given, says) -> None:
    said = page["check"](page["solution"] | {name: given})
    assert said.startswith(f"Not yet. {name}: ")
    assert says in said


def test_what_is_no_answer_is_told(page) -> None:
    for wrong in ({}, {"x[3 * i]": 12}, [2, 12, 5, 4, 16], 12, None, "12", lambda i: 3 * i):
        assert page["check"](wrong).startswith("Not yet: give a dictionary")


def test_a_kernel_of_the_reader_is_counted(page) -> None:
    assert page["check"](page["mine"]) == (
        "Your kernel reads x with 20 sectors a request, writes out with 4 sectors a request."
    )


def test_a_kernel_that_cannot_be_counted_is_told_why(page) -> None:
    @cuda.jit
    def never_ends(x, out):
        while True:
            out[0] = x[0]

    assert page["check"](never_ends).startswith("That cannot be counted.")
    assert "offset" in page["check"](page["gather"])
