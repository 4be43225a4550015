"""The kernels copy, the compiler kept their loads apart, the model and the occupancies are those of the prose."""

import re

import numpy as np
import pytest
from pages import judged

from firstlight.kernels import trace

PAGE = "3_kernels/11_bytes_in_flight.py"


# -- The law on a CPU --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [1, 7, 64, 101])
def test_a_linked_table_is_one_cycle_through_all_lines(page, lines) -> None:
    after, at = np.zeros(8 * lines, np.int64), np.zeros(1, np.int64)
    page["link"](after, np.random.default_rng(lines).permutation(lines))
    seen = []
    for _ in range(lines):
        seen.append(at[0])
        page["walk"](after, at, 1)
    assert sorted(seen) == [8 * line for line in range(lines)]
    assert at[0] == 0


# -- The kernels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["four_in_turn", *(f"loads_first({E})" for E in (1, 2, 4, 8))])
def test_every_element_is_copied_once_whatever_the_grid(page, name) -> None:
    for size in (1, 65, 257):
        for blocks, threads in ((1, 3), (3, 16), (5, 33)):
            x, out = np.random.default_rng(size).random(size, dtype=np.float32), np.full(size, -1, np.float32)
            made = trace(page["kernels"][name], blocks, threads, x, out)
            assert made.problems == []
            assert np.array_equal(out, x), (size, blocks, threads)
            assert made.counts("store", "global").sum() == size


def test_loads_first_has_its_loads_before_its_stores_and_in_turn_has_not(page, compiled) -> None:
    begins = {"four_in_turn": "LSLSLSLS", "loads_first(1)": "LS", "loads_first(2)": "LLSS"}
    begins |= {"loads_first(4)": "LLLLSSSS", "loads_first(8)": "LLLLLLLLSSSSSSSS"}
    made = {name: compiled(page["kernels"][name], page["TYPES"]) for name in begins}
    for name, expected in begins.items():
        for text in filter(None, (made[name].text, made[name].sass if "4" in name else None)):
            found = re.findall(r"\b(?:(LD|ST)G\b|(ld|st)\.global)", text)
            assert "".join((a or b)[0].upper() for a, b in found).startswith(expected), name
    assert made["four_in_turn"].mix == made["loads_first(4)"].mix


# -- The model ---------------------------------------------------------------------------------------------------------


def test_the_model_depends_on_bytes_in_flight_alone(page) -> None:
    model = page["model"]
    assert model(1 / 16, 8) == model(1 / 8, 4) == model(1 / 4, 2) == model(1 / 2, 1)
    assert model(1 / 8, 1) == pytest.approx(2 * model(1 / 16, 1))
    assert model(1 / 4, 1) < 0.5
    assert model(1 / 4, 4) == model(1, 1) == 1


def test_occupancies_are_those_of_nvidias_calculator(page) -> None:
    """As ``cuda_occupancy.h`` of CUDA 13 gives them; all blocks of whole KiB agreed, here is a choice."""
    known = {
        ("V100 SXM2", 128, 40, 0): (12 * 128 / 2048, "registers"),
        ("V100 SXM2", 128, 32, 16): (6 * 128 / 2048, "shared"),
        ("RTX 4090", 1024, 32, 0): (1024 / 1536, "threads"),
        ("RTX 4090", 128, 128, 0): (4 * 128 / 1536, "registers"),
        ("RTX 4090", 128, 32, 16): (5 * 128 / 1536, "shared"),
        ("H100 SXM", 32, 32, 0): (32 * 32 / 2048, "blocks"),
        ("H100 SXM", 192, 57, 0): (5 * 192 / 2048, "registers"),
        ("H100 SXM", 128, 32, 16): (13 * 128 / 2048, "shared"),
    }
    for (card, *block), expected in known.items():
        assert page["occupancy"](card, *block) == expected, (card, block)


# -- The exercise ------------------------------------------------------------------------------------------------------


WRONG = {
    "not rounded": (lambda b, c, t: b * c / (8 * t), "up"),
    "rounded down": (lambda b, c, t: b * c // (8 * t), "down"),
    "one more": (lambda b, c, t: b * c // (8 * t) + 1, "4, not 5"),
    "all bytes": (lambda b, c, t: -(-b * c // (4 * t)), "half"),
    "bytes": (lambda b, c, t: b * c / t, "load"),
    "warps": (lambda b, c, t: 32 * b * c / (8 * t), "is 3, not"),
    "nearest": (lambda b, c, t: round(b * c / (8 * t)), "is 1, not 0"),
    "the start": ("loads", "load"),
}


test_answers = judged(["loads_solution", lambda b, clocks, threads: np.ceil(b / 2 * clocks / threads / 4)], WRONG)
