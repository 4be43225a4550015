"""The code and the published schema of a record say the same."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from samples import RECORDS, content

from firstlight.measure.schema import SCHEMA, problems

VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
VALUES: list[Any] = [
    None, True, 0, -1, 1, 1.0, 2.5, 1e31, 10**400, -math.inf, math.nan, "", " ", "second", "cpu", "ok", "x\n", "é x",
    "\x1b[2J", "\x9b", "../x", "a/b", "A/b", "a/b\n", "a--b", "0123456789abcdef", "9.0", "0123456789ABCDEF",
    "2026-13-21 08:39:22.000000", "2026-11-21 08:39:22.000000\n", [], {}, [1], [[1, 0.5]], [[True, 0.5]], [[2, 0.5]],
    [[1, -0.5]], [[1, 0.5, 1]], [[1, 0.5]] * 2, [0.1, "0.1"], [{}], {"a": 1}, {"0123456789abcdef\n": ""},
]  # fmt: skip
GOOD = json.dumps(content())
UNKNOWN = ["note", "lib_", "lib_torch\n", "lib_Torch", "module_os", "module_firstlight.a/b", "0123456789abcdef"]


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every part of some JSON."""
    yield path
    for key, inner in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield from places(inner, (*path, key))


def at(part: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        part = part[key]
    return part


def changed(path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    whole = json.loads(GOOD)
    at(whole, path[:-1])[path[-1]] = value
    return whole


def mutants() -> Iterator[tuple[str, Any]]:
    """A good record with one thing changed, everywhere and in every way."""
    good = content()
    for path in places(good):
        for value in VALUES:
            yield f"{path} = {value!r}", changed(path, value)
        if path:
            whole = copy.deepcopy(good)
            part = at(whole, path[:-1])
            del part[path[-1]]
            yield f"{path} deleted", whole
            if isinstance(part, list):
                yield f"{path} doubled", changed(path[:-1], [*at(good, path[:-1]), *at(good, path[:-1])])
        if isinstance(at(good, path), dict):
            for key in UNKNOWN:
                for value in ("1", 1, "0123456789abcdef"):
                    yield f"{path}[{key!r}] = {value!r}", changed((*path, key), value)


def is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def test_schema_is_one_and_fits_the_records() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for path in RECORDS:
        assert list(VALIDATOR.iter_errors(json.loads(path.read_text(encoding="utf-8")))) == [], path


def test_a_good_record_has_every_key_that_the_schema_knows() -> None:
    good = content()
    assert list(problems(good)) == []
    assert list(VALIDATOR.iter_errors(good)) == []
    facts, row = SCHEMA["$defs"]["facts"], SCHEMA["$defs"]["row"]["properties"]["metadata"]
    assert set(facts["properties"]) <= set(good["metadata"])
    assert set(row["properties"]) == set(good["benchmarks"][0]["metadata"])


@pytest.mark.slow
def test_schema_and_code_agree_on_every_broken_record() -> None:
    verdicts, disagree = [], []
    for what, mutant in mutants():
        by_code = not any(problems(mutant))
        by_schema = is_json(mutant) and VALIDATOR.is_valid(mutant)
        verdicts.append(by_code)
        names = [row["metadata"]["name"] for row in mutant["benchmarks"]] if by_schema else []
        if by_code != (by_schema and len(set(names)) == len(names)):  # a schema cannot say that names are unique
            disagree.append(f"{what}: code {by_code}, schema {by_schema}")
    assert disagree == []
    assert verdicts.count(False) > 1000
    assert verdicts.count(True) > 100


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "machine"), "../../etc"),
        (("metadata", "example"), "1_setup/../../x"),
        (("metadata", "complete"), True),
        (("metadata", "device_name"), "\x1b[31mred"),
        (("metadata", "hostname"), "x"),
        (("outputs", "../x"), ""),
        (("extra",), 1),
        (("benchmarks", 0, "metadata", "verdict"), "impossible"),
        (("benchmarks", 0, "metadata", "n"), 10**400),
        (("benchmarks", 0, "metadata", "loops"), 1.5),
        (("benchmarks", 0, "runs", 0, "values"), [math.nan]),
        (("benchmarks", 0, "runs"), []),
    ],
)
def test_what_differs_is_named(path: tuple[Any, ...], value: Any) -> None:
    told = "".join(problems(changed(path, value)))
    assert str(path[-1]) in told or str(path[-2]) in told


def test_two_rows_of_one_name_are_refused() -> None:
    (row,) = content()["benchmarks"]
    assert "two rows are called" in next(problems(changed(("benchmarks",), [row, row])))
