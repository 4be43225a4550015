"""The published schema takes a record with every key there is, and says what is wrong with another."""

import math
from typing import Any

import jsonschema
import pytest
from hostile import HOSTILE
from samples import content

from firstlight.records.schema import SCHEMA, problem


def changed(path: tuple[Any, ...], value: Any) -> Any:
    part = whole = content()
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return whole


def test_a_good_record_has_every_key_that_the_schema_knows() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    good = content()
    assert problem(good) is None
    facts, row = SCHEMA["$defs"]["facts"], SCHEMA["$defs"]["row"]["properties"]["metadata"]
    browsers = {"api", "browser", "clock", "clock_tick", "software"}
    assert set(facts["properties"]) - browsers <= set(good["metadata"])
    states = {name for name in good["benchmarks"][0]["metadata"] if name.endswith(("_before", "_after"))}
    assert set(row["properties"]) | states == set(good["benchmarks"][0]["metadata"])
    assert len(states) == 8


BROWSER = {
    "api": "webgpu", "browser": "Firefox/153", "clock": "wall clock", "clock_tick": 1e-3, "software": False,
    "device_kind": "webgpu",
}  # fmt: skip


def test_a_browsers_record_is_one_unless_a_cpu_computed_it() -> None:
    good = content()
    good["metadata"] |= BROWSER
    assert problem(good) is None
    good["metadata"]["software"] = True
    assert "software" in str(problem(good))


def test_a_figure_is_a_drawing() -> None:
    good = content()
    good["figures"] = {"0123456789abcdef": '<svg width="1"><use href="#m0123456789" style="fill: red"/></svg>'}
    assert problem(good) is None


@pytest.mark.parametrize("svg", HOSTILE)
def test_a_figure_is_nothing_else(svg: str) -> None:
    bad = content()
    bad["figures"] = {"0123456789abcdef": svg}
    told = str(problem(bad))
    assert "figures" in told
    assert told.isprintable()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), "2.0"),
        (("metadata", "record_schema"), 2),
        (("metadata", "machine"), "../../etc"),
        (("metadata", "example"), "1_setup/../../x"),
        (("metadata", "date"), "2026-13-21 08:39:22.000000"),
        (("metadata", "device_name"), "\x1b[31mred"),
        (("metadata", "hostname"), "x"),
        (("metadata", "lib_torch\n"), "2.13"),
        (("metadata", "code_Os"), "0123456789abcdef"),
        (("extra",), 1),
        *(
            (("benchmarks", 0, "metadata", "verdict"), wrong)
            for wrong in ("impossible", "ok, few", "few, ", "fewnoisy")
        ),
        (("benchmarks", 0, "metadata", "slowed_by_after"), "<b>"),
        (("benchmarks", 0, "metadata", "n"), 10**400),
        (("benchmarks", 0, "metadata", "loops"), 1.5),
        (("benchmarks", 0, "metadata", "cores"), True),
        (("benchmarks", 0, "runs", 0, "values"), [math.inf]),
        (("benchmarks", 0, "runs", 0, "warmups"), [[2, 0.5]]),
        (("benchmarks", 0, "runs"), []),
    ],
)
def test_what_differs_is_named(path: tuple[Any, ...], value: Any) -> None:
    told = problem(changed(path, value))
    assert told
    assert ascii(str(path[-1]))[1:-1] in told
    assert told.isprintable()


def test_two_rows_of_one_name_are_refused() -> None:
    (row,) = content()["benchmarks"]
    assert "two rows are called" in (problem(changed(("benchmarks",), [row, row])) or "")
