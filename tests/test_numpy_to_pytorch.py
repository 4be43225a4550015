"""The lines in the tables of the page from NumPy to PyTorch do in both libraries what stands there."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

PAGE = Path(__file__).parents[1] / "docs/numpy_to_pytorch.md"
ROWS = [re.findall(r"`([^`]+)`", line) for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
SILENT = [(row[0], row[2], row[1]) for row in ROWS if len(row) > 2]
LOUD = [row for row in ROWS if len(row) == 2]


def result(line: str) -> np.ndarray:
    a = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    b = a.copy()
    b[0, 1] = b[2, 1] = np.nan
    x, y = torch.from_numpy(a.copy()), torch.from_numpy(b.copy())
    raw = np.array([1, 2, -3], ">i2").tobytes()
    return np.asarray(eval(line, {"np": np, "torch": torch, "a": a, "b": b, "x": x, "y": y, "raw": raw}))


def same(one: np.ndarray, other: np.ndarray) -> bool:
    types = one.dtype.newbyteorder("=") == other.dtype or one.dtype.kind == other.dtype.kind == "i"
    return types and one.shape == other.shape and np.allclose(one, other, rtol=1e-6, equal_nan=True)


def test_all_rows_were_read() -> None:
    assert len(SILENT) == 7
    assert len(LOUD) == 10


@pytest.mark.parametrize(("numpy", "namesake", "instead"), SILENT)
def test_a_name_runs_and_means_something_else(numpy: str, namesake: str, instead: str) -> None:
    assert not same(result(numpy), result(namesake))
    assert same(result(numpy), result(instead))


@pytest.mark.parametrize(("numpy", "pytorch"), LOUD)
def test_another_name_does_the_same(numpy: str, pytorch: str) -> None:
    assert same(result(numpy), result(pytorch))


def test_files_of_other_machines_are_refused_and_arrays_share_their_memory() -> None:
    with pytest.raises(ValueError, match="byte order"):
        torch.from_numpy(np.ones(3, ">i2"))
    a = np.ones(3)
    x = torch.from_numpy(a)
    x -= 1
    assert not a.any()
    c, i = torch.zeros(3), torch.tensor([0, 0, 2])
    counts = np.zeros(3)
    np.add.at(counts, i.numpy(), 1)
    assert c.index_put_((i,), torch.tensor(1.0), accumulate=True).tolist() == counts.tolist()
