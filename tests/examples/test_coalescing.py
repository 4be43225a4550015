"""The rule is what a trace counts, and the check knows plausible mistakes."""

import numpy as np
import pytest
from numba import cuda
from pages import assert_check_tells, doubles_and_spills
from variants import edited

from firstlight_kernels import trace

PAGE = "3_kernels/05_coalescing.py"


# -- The rule ----------------------------------------------------------------------------------------------------------


def test_the_rule_holds_for_all_addresses(page) -> None:
    """By brute force, for more strides and offsets than the page traces."""
    for stride in range(130):
        for offset in range(40):
            pieces = {(offset + stride * lane) // 8 for lane in range(32)}
            assert page["sectors"](stride, offset) == len(pieces), (stride, offset)


def test_the_kernel_that_is_timed_obeys_the_rule_too(page) -> None:
    for stride in (1, 2, 3, 8, 24):
        x, out = np.ones(4 * 64 * stride, np.float32), np.zeros(64, np.float32)
        made = trace(page["strided_sum"], 2, 32, x, stride, 0, out)
        assert made.sectors_per_load["x"] == page["sectors"](stride)
        assert made.problems == []


def test_a_table_is_read_with_a_stride_of_six(page) -> None:
    assert page["noted"].sectors_per_load["table"] == page["sectors"](6) == 24


def test_both_transposes_ask_for_the_same_sectors(page) -> None:
    counts = [
        (made.sectors_per_load["image"], made.sectors_per_store["out"])
        for made in (page["cases"][f"{how} columns"] for how in ("write", "read"))
    ]
    assert counts == [(4, 32), (32, 4)]
    assert all(made.problems == [] for made in page["cases"].values())


@pytest.mark.parametrize("shape", [(1, 1), (33, 7), (31, 65), (64, 32)])
def test_tiles_transpose_every_shape_along_rows_and_without_conflicts(page, shape) -> None:
    image = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    out = np.zeros(shape[::-1], np.float32)
    made = trace(page["through_tiles"], (-(-shape[1] // 32), -(-shape[0] // 32)), (32, 8), image, out)
    assert made.problems == []
    assert np.array_equal(out, image.T)
    if shape == (64, 32):
        assert (made.sectors_per_load["image"], made.sectors_per_store["out"]) == (4, 4)
        assert not made.bank_conflicts


@pytest.mark.slow
@pytest.mark.parametrize(("side", "sectors"), [(63, 4.8), (64, 4)])
def test_rows_of_an_odd_length_cost_tiles_a_fifth_more_sectors_each_way(page, side, sectors) -> None:
    image = np.zeros((side, side), dtype=np.float32)
    seen = trace(page["through_tiles"], (2, 2), (32, 8), image, np.zeros_like(image), limit=200_000)
    assert seen.sectors_per_load["image"] == pytest.approx(sectors, rel=0.02)
    assert seen.sectors_per_store["out"] == pytest.approx(sectors, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [(9, 0)], indirect=True)
def test_tiles_run_few_instructions_for_each_number(page, compiled) -> None:
    """Or they'd wait for those, and not for memory: signed, it's 72 for each of four numbers."""
    code = compiled(page["through_tiles"], "float32[:, ::1], float32[:, ::1]")
    assert doubles_and_spills(code) == ([], 0)
    if code.sass is None:
        pytest.skip("no nvdisasm")
    assert code.sass.count(";") < 4 * 45


def test_the_t4_follows_boxes_of_sixteen(page) -> None:
    """As the figure's title and the prose say of what Modal measured."""
    share = {stride: rate / page["T4"][1] for stride, rate in page["T4"].items()}
    assert all(share[s] == pytest.approx(1 / s, rel=0.35) for s in (2, 4, 8, 16))
    assert share[16] < 0.55 * share[8]


def test_the_compiler_keeps_the_loads_that_the_trace_counts(page, compiled) -> None:
    two, strided = "float32[:, ::1], float32[:, ::1]", "float32[::1], int64, int64, float32[::1]"
    kernels = {"gather": 1, "write_columns": 1, "read_columns": 1, "strided_sum": 5, "matvec": 10}
    types = {"gather": strided, "strided_sum": strided, "matvec": "float32[:, ::1], float32[::1], float32[::1]"}
    for name, loads in kernels.items():
        code = compiled(page[name], types.get(name, two))
        assert doubles_and_spills(code) == ([], 0), name
        assert code.mix["ld.global.f32"] == loads, name


# -- The exercise ------------------------------------------------------------------------------------------------------


@cuda.jit
def records(table, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = table[i, 4] * (table[i, 2] ** 2 + table[i, 3] ** 2)


@cuda.jit
def rows(fields, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = fields[4, i] * (fields[2, i] ** 2 + fields[3, i] ** 2)


three = edited(
    rows, ("fields[4", "fields[w"), ("fields[2", "fields[0"), ("fields[3", "fields[1"), ("fields[w", "fields[2")
)
unguarded = edited(rows, ("if i < out.size", "if True"))
forgets_weight = edited(rows, ("fields[4, i] * ", ""))


def across(table):
    return np.ascontiguousarray(table.T)


WRONG = {
    "as it was": ((lambda table: table, records), "24"),
    "turned on paper only": ((lambda table: table.T, rows), "lies in memory"),
    "a copy that keeps the order": ((lambda table: table.T.copy(order="K"), rows), "lies in memory"),
    "no guard": ((across, unguarded), "guard"),
    "a field left out": ((across, forgets_weight), "should be"),
    "float64": ((lambda table: across(table).astype(float), rows), "float32"),
    "a list": ((lambda table: table.T.tolist(), rows), "float32"),
    "too little": ((lambda table: across(table)[:2], rows), "lost"),
    "the stub": ((lambda _: None, records), "None"),
    "raises": ((lambda _: 1 / 0, records), "ZeroDivisionError"),
}
RIGHT = [(across, rows), (np.asfortranarray, records), (lambda table: across(table[:, 2:5]), three)]


def test_answers(page) -> None:
    mine = page["arrange_solution"], page["power_solution"]
    assert_check_tells(page, [mine, *RIGHT], WRONG | {"the start": ((page["arrange"], page["power"]), "None")})
