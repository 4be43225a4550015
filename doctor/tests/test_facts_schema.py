"""Facts from anywhere: they either are facts, or a ValueError says in one line why not; and rules take all of them."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstlight_doctor import Facts, examine, schema

few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

WORDS = """
nvidia amd intel apple cuda xpu mps linux windows darwin docker ubuntu debian apt dnf uv right wrong works 0 -1 0,7 9.0
580.95.05 550 2.13.0+cu130 13.0 12.x sm_90 sm_90a compute_90 gfx1100 gfx90a 0x2684 0xzz completed hung: torch numba-cuda
/dev/nvidia0 /dev/nvidia-uvm /dev/kfd /dev/dxg /dev/dri/renderD128 /stubs/ /compat/libcuda.so.580.95.05 libcuda.so.1:
CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH SLURM_JOB_ID HSA_OVERRIDE_GFX_VERSION 11.0.0 ZE_AFFINITY_MASK \x1b[31m
"""
words = st.sampled_from(WORDS.split())
texts = st.one_of(words, st.lists(words, max_size=4).map(" ".join), st.text(max_size=20))
numbers = st.one_of(st.sampled_from([0, 1, 3, 34, 46, 100, 802, 999, 12060, 13000, 8]), st.integers(-(2**70), 2**70))
small = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, 3, 34, 46, 100, 101, 304, 802, 803, 804, 999, 13000])
leaves = st.one_of(st.none(), st.booleans(), numbers, st.floats(), texts)
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


def shaped(kind: str) -> st.SearchStrategy[Any]:
    """JSON that fits a kind, as the schema names it."""
    plain = {"str": texts, "bool": st.booleans(), "int": small, "Mapping[str, str]": st.dictionaries(words, texts)}
    if kind in plain:
        return plain[kind]
    if kind.endswith(" | None"):
        return st.none() | shaped(kind[: -len(" | None")])
    if kind.startswith("tuple["):
        return st.lists(shaped(kind[len("tuple[") : -len(", ...]")]), max_size=3)
    if kind in schema.LIMITS:
        return st.integers(0, schema.LIMITS[kind] - 1)
    if kind == "Capability":
        return st.just([]) | st.lists(st.integers(0, 15), min_size=2, max_size=2)
    if kind in schema.PATTERNS:
        fits = st.from_regex(schema.PATTERNS[kind], fullmatch=True)
        return fits.filter(lambda text: not re.search("[\ud800-\udfff]", text))
    fields = dataclasses.fields(getattr(schema, kind))
    required = {part.name for part in fields if part.default is part.default_factory}
    parts = {part.name: shaped(part.type) for part in fields}
    optional = {name: part for name, part in parts.items() if name not in required}
    return st.fixed_dictionaries({name: parts[name] for name in required}, optional=optional)


@few
@given(anything | st.dictionaries(st.sampled_from([part.name for part in dataclasses.fields(Facts)]), anything))
def test_anything_is_facts_or_a_value_error(content):
    check(content)


@few
@given(st.data())
def test_one_wrong_value_in_good_facts_is_facts_or_a_value_error(data):
    content = data.draw(shaped("Facts"))
    part = data.draw(st.sampled_from(sorted(content) or ["said"]))
    inside = content.get(part)
    if isinstance(inside, dict) and inside:
        inside[data.draw(st.sampled_from(sorted(inside)))] = data.draw(anything)
    check(content)


def check(content: Any) -> None:
    error, facts = "", Facts()
    try:
        facts = Facts.of(content)
    except ValueError as refused:
        error = str(refused)
    if error:
        assert len(error) < 1000
        assert error.isprintable()
    else:
        written = json.loads(json.dumps(facts.content(), allow_nan=False))
        assert Facts.of(written).content() == written


@few
@given(shaped("Facts"))
def test_every_report_of_good_facts_can_be_written(content):
    report = examine(Facts.of(content))
    text = report.text()
    assert "\x1b" not in text
    assert json.dumps(report.content(), allow_nan=False)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([], "facts"),
        ({"\x1b[2J": 1}, r"'\x1b[2J'"),
        ({"gpus": {}}, "facts.gpus"),
        ({"gpus": [{"device": "0x1"}]}, "facts.gpus[0].vendor"),
        ({"cuda": {"init": True}}, "facts.cuda.init"),
        ({"cuda": {"init": 2**64}}, "facts.cuda.init"),
        ({"nvml": {"devices": [{"ecc_errors": -1}]}}, "facts.nvml.devices[0].ecc_errors"),
        ({"numba": {"needs": 100_000}}, "facts.numba.needs"),
        ({"env": {"\x1b\n": 1}}, r"facts.env['\x1b\n']"),
        ({"env": {1: "A"}}, "facts.env"),
        ({"said": "x" * 20_001}, "facts.said"),
        ({"said": "\ud800"}, "facts.said"),
    ],
)
def test_an_error_names_the_place(content, place):
    with pytest.raises(ValueError, match=re.escape(place)):
        Facts.of(content)


def test_what_is_nested_without_end_is_a_value_error():
    content: Any = []
    for _ in range(100_000):
        content = [content]
    with pytest.raises(ValueError, match="facts"):
        Facts.of(content)
    with pytest.raises(ValueError, match="facts"):
        Facts.of({"gpus": [content]})


def test_an_empty_variable_survives_and_what_is_not_known_is_left_out():
    facts = Facts.of({"env": {"CUDA_VISIBLE_DEVICES": ""}, "cuda": {"init": 0, "devices": []}, "nvml": {}})
    assert facts.content()["env"] == {"CUDA_VISIBLE_DEVICES": ""}
    assert facts.content()["cuda"] == {"init": 0}
    assert Facts.of(facts.content()) == facts
