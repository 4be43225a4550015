"""Pages that speak of the same case say the same: one set of constants, one count of launches, one model of a GPU."""

import ast
import re
from typing import Any

import numpy as np
import pytest
from pages import EXAMPLES

from firstlight.records.record import find, read
from firstlight.timing.specs import spec, spec_of

LAUNCH = spec("PyTorch operation", "seconds")


def functions(page: str, *names: str, **given: Any) -> Any:
    """Functions and classes of a page, without running the rest of it."""
    tree = ast.parse((EXAMPLES / f"{page}.py").read_text(encoding="utf-8"))
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names]
    space = {"spec": spec, "spec_of": spec_of, "np": np, "NamedTuple": __import__("typing").NamedTuple} | given
    exec(compile(ast.Module(wanted, []), page, "exec"), space)
    return [space[name] for name in names]


def printed(page: str) -> str:
    """All that a page printed on the newest record."""
    records = map(read, find(EXAMPLES.parent / "records", page))
    return "\n".join(max(records, key=lambda record: record.facts["date"]).outputs.values())


@pytest.mark.parametrize(("calls", "moved"), [(40, 1e3), (40, 1e9), (300, 1e7)])
def test_a_chain_of_small_calls_takes_as_long_on_every_page(calls: int, moved: float) -> None:
    """Page 08 adds launches and work, 13 and 07 take the larger, as a GPU works while it is sent more."""
    job, on_gpu = functions("2_devices/11_when_the_gpu_wins", "Job", "on_gpu", LAUNCH=LAUNCH, WAIT=0)
    (model,) = functions(
        "2_devices/16_fewer_launches", "gpu_model", moved=calls * moved, least=moved, operations=calls, launch=LAUNCH,
        guards=0, bandwidth=spec("H100 SXM", "bandwidth"),
    )  # fmt: skip
    added = sum(on_gpu(job(0, calls * moved, 0, calls), "H100 SXM"))
    larger = float(model(1)["as written"])
    assert larger <= added <= 2 * larger


def test_the_launches_of_a_step_of_the_fit_are_counted_once() -> None:
    counted = re.search(r"(?ms)^as usual +(\d+).*^few passes +(\d+)", printed("4_imaging/08_faster"))
    source = (EXAMPLES / "4_imaging/09_many_channels.py").read_text(encoding="utf-8")
    assumed = re.search(r'spec\("PyTorch operation", "seconds"\), (\d+)', source)
    assert counted
    assert assumed
    assert int(counted[1]) == pytest.approx(int(assumed[1]), rel=0.05)
    assert f"({counted[2]} in this package's" in source


def test_no_page_has_an_overhead_of_its_own() -> None:
    for script in EXAMPLES.glob("*/[0-9][0-9]_*.py"):
        found = re.findall(r"\b(?:launch|overhead|LAUNCH|WAIT)\w* = \d[\de.-]*", script.read_text(encoding="utf-8"))
        assert not found, script.name
