"""The claims clinic: its tests can be run, come to verdicts that the page explains, and lead to pages that exist."""

from __future__ import annotations

import re
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn

from firstlight.measure.specs import spec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import claims  # noqa: E402

NAMES = [row.judge.__name__ for row in claims.ROWS]
SLOW = ("doubles", "fits", "iris", "lock", "toolkit")


def judged(name: str) -> tuple[str, str]:
    return claims.ROWS[NAMES.index(name)].judge()


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for row, name in zip(claims.ROWS, NAMES, strict=True)
    ],
)
def test_claim_is_judged_by_a_test_that_runs(row: claims.Row) -> None:
    found, evidence = row.judge()
    assert found in claims.VERDICTS
    assert re.search(r"\d|`", evidence), "no evidence: a number, or what was said"
    assert "|" not in row.says + row.test + evidence, "it would end a cell of the table"
    assert row.source in claims.SOURCES


@pytest.mark.parametrize("page", sorted({row.page for row in claims.ROWS}))
def test_page_exists(page: str) -> None:
    if page.startswith("/tutorials/"):
        assert (ROOT / "examples" / f"{page.removeprefix('/tutorials/')}.py").exists()
    else:
        assert (ROOT / f"docs{page}.md").exists()


def test_every_document_has_rows_and_none_is_doubled() -> None:
    assert {row.source for row in claims.ROWS} == set(claims.SOURCES)
    assert len(set(NAMES)) == len(NAMES) >= 25


def test_a_model_that_moves_as_a_tensor_does_would_be_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged("second_model")[0] == "not so"
    monkeypatch.setattr(nn.Module, "double", lambda model: deepcopy(model)._apply(torch.Tensor.double))
    assert judged("second_model")[0] == "true"


def test_true_claim_would_be_found_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of a hundred times the bandwidth, or operations, could do what is claimed."""
    assert [judged(name)[0] for name in ("gpu_add", "torch_matvec", "ten_products")] == ["cannot be"] * 3
    monkeypatch.setattr(claims, "spec", lambda name, what: 1000 * spec(name, what))
    assert [judged(name)[0] for name in ("gpu_add", "torch_matvec", "ten_products")] == ["true"] * 3
