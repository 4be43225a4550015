"""The counts are those that the page derives, each wrong way is found, and the exercise's check tells them apart."""

import math
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from firstlight import Bench
from firstlight.kernels import ptx

PAGE = "3_kernels/04_shared_memory.py"
TYPES = "float32[:, ::1], float32[:, ::1], float32[:, ::1]"


def ceil(size: int, side: int) -> int:
    return -(-size // side)


def with_floats(m, k, n, T, R):
    return m * k * math.ceil(n / (T * R)) + k * n * math.ceil(m / (T * R))


def at_least_one_block(m, k, n, T, R):
    reads = np.array([m * k, k * n]) * [max(1, ceil(n, R * T)), max(1, ceil(m, R * T))]
    return int(reads.sum())


def fractions_of_blocks(m, k, n, T, R):
    return m * k * n / (T * R) + k * n * m / (T * R)


def rounded_down(m, k, n, T, R):
    return m * k * (n // (T * R)) + k * n * (m // (T * R))


def without_registers(m, k, n, T, _R):
    return m * k * ceil(n, T) + k * n * ceil(m, T)


def squared(m, k, n, T, R):
    return m * k * ceil(n, T * R * R) + k * n * ceil(m, T * R * R)


def the_other_way_round(m, k, n, T, R):
    return m * k * ceil(m, T * R) + k * n * ceil(n, T * R)


def with_zeros(m, k, n, T, R):
    return ceil(m, T * R) * ceil(n, T * R) * ceil(k, T) * T * 2 * T * R


def of_one_output(m, k, n, T, R):
    return with_floats(m, k, n, T, R) / (m * n)


# -- The exercise ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [with_floats, at_least_one_block], ids=lambda answer: answer.__name__)
def test_right_answers(page, answer) -> None:
    assert page["check"](answer).startswith("Right")


def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert page["check"](page["loads_solution"]).startswith("Right")
    assert page["check"](page["loads"]) == "Not yet: there are only whole blocks."


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (fractions_of_blocks, "only whole blocks"),
        (rounded_down, "round up"),
        (without_registers, "a thread has R x R outputs"),
        (squared, "a square is R * T wide"),
        (the_other_way_round, "blocks side by side all read A"),
        (with_zeros, "zeros beyond the edge are no loads"),
        (of_one_output, "all are asked for"),
        (lambda *_: 0, "8 x 5 x 16, T = 4, R = 2: you say 0, the trace counts"),
        (lambda *_: math.nan, "you say nan"),
        (lambda *_: "many", "ValueError"),
        (lambda m: m, "TypeError"),
        (lambda *_: None, "TypeError"),
        (1234, "give the function itself"),
        (None, "give the function itself"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_answers_are_told_what_is_wrong(page, answer, says) -> None:
    verdict = page["check"](answer)
    assert verdict.startswith("Not yet")
    assert says in verdict


def test_the_mistakes_differ_from_the_truth_and_from_each_other(page) -> None:
    ways = {hint: [page["mistakes"](*case)[hint] for case in page["cases"]] for hint in page["mistakes"](1, 1, 1, 1, 1)}
    values = [tuple(way) for way in (*ways.values(), page["true"].values())]
    assert len(set(values)) == len(values) == 8


# -- What the page claims ----------------------------------------------------------------------------------------------


def test_loads_and_sectors_are_those_of_the_text(page) -> None:
    k = page["fits"][1]
    loads = {name: seen.loads_per_output for name, seen in page["traces"].items()}
    assert list(loads.values()) == [2 * k, 2 * k, 2 * k / 8, 2 * k / 16, 2 * k / 32]
    assert list(page["shared"].values()) == [0, 0, 2, 1, 0.5]
    sectors = {name: seen.sectors_per_load for name, seen in page["traces"].items()}
    assert sectors["row along x"] == {"a": 32, "b": 1}
    assert sectors["column along x"] == {"a": 1, "b": 4}


def test_no_rung_has_a_conflict_or_a_problem(page) -> None:
    for seen in page["traces"].values():
        assert seen.bank_conflicts == []
        assert seen.problems == []


def test_passes_are_as_predicted(page) -> None:
    assert page["passes"]("row along x") == 33
    assert page["passes"]("column along x") == 2
    for name, (T, R) in {"tile": (8, 1), "2 x 2 each": (8, 2), "4 x 4 each": (8, 4)}.items():
        assert page["passes"](name) == page["predicted"](T, R)


def test_the_model_says_what_the_prose_says_of_it(page) -> None:
    at_most = page["at_most"]
    assert at_most["column along x"] == pytest.approx(1 / 8)
    assert at_most["tile"] == pytest.approx(1 / 8, rel=0.1)
    assert at_most["row along x"] < 0.01
    assert max(at_most, key=at_most.get) == "8 x 8 each"
    assert 0.7 < at_most["8 x 8 each"] < 1


def test_every_wrong_way_is_right_somewhere_and_found(page) -> None:
    runs, (one_tile, thirty_two, thirty_three, numbas) = page["runs"], page["sizes"]
    right = {way: [runs[way, size][1] < 1e-6 for size in page["sizes"]] for way in page["wrong_ways"]}
    assert right == {
        "as it should be": [True, True, True, True],
        "k // T rounds": [True, True, False, False],
        "gridDim.x rounds": [True, False, False, False],
        "no zeros": [True, True, False, False],
        "one barrier": [True, False, False, False],
    }
    assert thirty_two[1] == 32
    assert thirty_three[1] == 33
    assert runs["k // T rounds", thirty_three][0].traffic.useful_bytes == 4 * (page["there"] - 16)
    assert runs["as it should be", thirty_three][0].traffic.useful_bytes == 4 * page["there"]
    assert runs["one barrier", thirty_two][0].races
    for way in set(page["wrong_ways"]) - {"one barrier"}:
        assert all(not runs[way, size][0].races for size in (one_tile, numbas))


def test_the_tile_turns_both_sides_and_padding_frees_the_banks(page) -> None:
    assert page["ways"] == {"plain": 1, "tile, 32 wide": 32, "tile, 33 wide": 1}
    assert page["seen"].bank_conflicts == []


def has_compiler(page) -> bool:
    return page["needs"] is not page["RECORDED"]


@pytest.mark.parametrize("cc", [(7, 5), (9, 0)], ids=["7.5", "9.0"])
def test_every_kernel_compiles_without_doubles(page, cc) -> None:
    if not has_compiler(page):
        pytest.skip("NVIDIA's compiler is not installed")
    ladder = [step.kernel for step in page["climbed"].values()]
    turns = [step.kernel for step in page["turns"].values()]
    for kernel, types in [(each, TYPES) for each in (*ladder, *page["wrong_ways"].values())] + [
        (each, "float32[:, ::1], float32[:, ::1]") for each in turns
    ]:
        code = ptx.compile(kernel, types, cc)
        assert not [name for name in code.mix if "f64" in name or "local" in name]
        assert code.spill_bytes in (0, None)


def test_only_16_x_16_is_spilled(page) -> None:
    assert {key for key, (_, spilled) in page["needs"].items() if spilled} == {(16, (9, 0))}
    assert page["needs"][16, (9, 0)][0] == 255


def test_the_machine_code_has_the_loads_of_the_text(page) -> None:
    for R, least in {1: 1.25, 4: 0.3125}.items():
        sass = page["made"][R, (9, 0)].sass if (R, (9, 0)) in page["made"] else None
        if sass is None:
            pytest.skip("ptxas or nvdisasm is not installed")
        assert least <= sass.count(" LDS") / sass.count(" FFMA") <= 2 / R


def test_the_record_is_near_what_the_compiler_makes(page) -> None:
    for key, (registers, _) in page["needs"].items():
        assert registers == pytest.approx(page["RECORDED"][key][0], abs=24), "record it anew"


def test_figures_say_what_they_show(page) -> None:
    assert "8 x 8 each comes near the roof" in page["fig"].get_label()


# -- Where there is no compiler ----------------------------------------------------------------------------------------


def test_without_a_compiler_the_page_says_so_and_shows_the_record(monkeypatch, tmp_path, capsys) -> None:
    def absent(*_, **__):
        raise ptx.NoCompilerError("NVIDIA's compiler is not to be had here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setattr(Bench.__init__, "__defaults__", (0.2,))
    monkeypatch.setattr(ptx, "compile", absent)
    bare = runpy.run_path(str(Path(__file__).parents[2] / "examples" / PAGE))
    plt.close("all")
    assert "compiled elsewhere" in capsys.readouterr().out
    assert bare["needs"] == bare["RECORDED"]
