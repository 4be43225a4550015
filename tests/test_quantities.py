import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.display import percent, quantity

SCALE = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (999.9e-6, "s", "1.00 ms"),
        (0.9995, "s", "1.00 s"),
        (3e-13, "s", "0.000300 ns"),
        (12_345, "s", "12300 s"),
        (999_500, "B/s", "1.00 MB/s"),
        (0, "s", "0 s"),
        (math.nan, "s", "–"),
        (None, "s", "–"),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@given(st.floats(1e-9, 1e3))
def test_quantity_reads_back_to_three_digits(seconds: float) -> None:
    number, prefix = re.fullmatch(r"([\d.]+) ([nµm]?)s", quantity(seconds, "s")).groups()
    assert float(number) * SCALE[prefix] == pytest.approx(seconds, rel=0.006)
    assert float(number) < 1000 or seconds >= 999


def test_percent() -> None:
    assert [percent(x) for x in (0, 0.004, 0.00999, 0.5, 1.013, None, math.nan)] == [
        "0%", "0.4%", "1%", "50%", "101%", "–", "–",
    ]  # fmt: skip
