"""The claims clinic: its tests can be run, come to verdicts that the page explains, and lead to pages that exist."""

import re
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import claims
from firstlight.timing.specs import spec

ROOT = Path(__file__).parents[1]


NAMES = [row.judge.__name__ for row in claims.ROWS]
SLOW = dict.fromkeys(("doubles", "fits", "iris", "lock", "no_language", "toolkit"), pytest.mark.slow)


def judged(name: str) -> tuple[str, str]:
    return claims.ROWS[NAMES.index(name)].judge()


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=name, marks=SLOW.get(name, ())) for row, name in zip(claims.ROWS, NAMES, strict=True)]
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
    assert len({(row.source, row.says) for row in claims.ROWS}) == len(claims.ROWS) >= 35
    assert len({row.judge for row in claims.ROWS}) >= len(claims.ROWS) - 1


def test_the_page_is_kind_first_and_names_its_sources() -> None:
    text = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert text.index("is right") < text.index("```{code-cell}")
    assert all(re.search(r"\*[A-Z]|Dive into", about) for about in claims.SOURCES.values()), "no title"
    assert sum("](https://" in about for about in claims.SOURCES.values()) == 4  # what we have of the course has none


def test_a_model_that_moves_as_a_tensor_does_would_be_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged("second_model")[0] == "not so"
    monkeypatch.setattr(nn.Module, "double", lambda model: deepcopy(model)._apply(torch.Tensor.double))
    assert judged("second_model")[0] == "true"


def faster(factor: float, what: str = "") -> object:
    return lambda name, kind: spec(name, kind) * (factor if what in kind else 1)


def test_true_claim_would_be_found_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of a thousand times the bandwidth, or operations, could do what is claimed."""
    names = ("gpu_add", "torch_matvec", "hundred_x", "ten_products")
    assert [judged(name)[0] for name in names] == ["not on these cards"] + ["impossible"] * 3
    monkeypatch.setattr(claims, "spec", faster(1000))
    assert [judged(name)[0] for name in names] == ["true"] * 4
    monkeypatch.setattr(claims, "spec", faster(1e-2))
    assert judged("numba_add")[0] == "true"  # on a card so slow, its bytes take all of the time


def test_cores_are_slower_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "core_rate", lambda: (2.0, 90e9))
    assert judged("slower_cores")[0] == "true, but"
    monkeypatch.setattr(claims, "core_rate", lambda: (2.0, 900e9))
    assert judged("slower_cores")[0] == "true"
    monkeypatch.setattr(claims, "core_rate", lambda: (2.0, 3e9))
    assert judged("slower_cores")[0] == "not so"


def test_doubles_are_slow_where_arithmetic_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged("slower_doubles")[0] == "true, but"
    monkeypatch.setattr(claims, "spec", faster(1e6, "bandwidth"))
    assert judged("slower_doubles")[0] == "true"
    monkeypatch.setattr(claims, "spec", faster(16, "fp64"))
    assert judged("slower_doubles")[0] == "not so"


def test_a_loss_kept_without_backward_keeps_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    found, evidence = judged("kept_graphs")
    assert found == "true, but"
    assert "keep 0 bytes" in evidence
    monkeypatch.setattr(torch.Tensor, "backward", lambda _: None)
    found, evidence = judged("kept_graphs")
    assert found == "not so"
    assert "keep 80000 bytes" in evidence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("installed", "found"), [(["nvidia-cuda-nvrtc-cu12"], "not so"), (["nvidia-cuda-nvcc"], "not so"), ([], "true")]
)
def test_the_compiler_may_have_the_name_of_its_cuda(
    monkeypatch: pytest.MonkeyPatch, installed: list[str], found: str
) -> None:
    monkeypatch.setattr(claims, "distributions", lambda: [SimpleNamespace(name=name) for name in installed])
    got, evidence = judged("toolkit")
    assert got == found
    assert all(name in evidence for name in installed)


def test_the_last_batch_is_not_whole() -> None:
    assert judged("batch_size")[1].count("50,000") == 2


def test_a_machine_without_the_compiler_leaves_its_rows_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise claims.ptx.NoCompilerError("not here")

    kept = [row for row in claims.ROWS if row.judge.__name__ in ("toolkit", "gpu_add")]
    monkeypatch.setattr(claims.ptx, "compile", missing)
    monkeypatch.setattr(claims, "ROWS", kept)
    lines = claims.table(claims.IMAGING).splitlines()
    assert len(lines) == 2 + 1
    assert "99 million" in lines[-1]
