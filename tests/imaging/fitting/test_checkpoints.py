"""Checkpoints that were cut off, or changed: the one before them is used, and it is said."""

from pathlib import Path

import pytest
import torch

from firstlight.imaging import ExactLikelihood, GridCoords, GriddedNet, fit
from firstlight.imaging.fitting.checkpoints import before, load, save
from firstlight.imaging.model.losses import sparsity

OLD, NEW = {"iteration": 25, "image": torch.arange(6.0)}, {"iteration": 50, "image": torch.arange(6.0) + 1}


@pytest.fixture
def path(tmp_path) -> Path:
    """The last of two checkpoints."""
    path = tmp_path / "fit.pt"
    for state in (OLD, NEW):
        save(path, state)
    return path


def iteration(path):
    state, note = load(path)
    return state["iteration"], note


@pytest.mark.parametrize("left", [0.0, 1, 10, 100, 0.5, 0.9, -1])
def test_one_that_was_cut_off_gives_way_to_the_one_before_it(path, left):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(left * len(whole)) if isinstance(left, float) else left])
    found, note = iteration(path)
    assert (found, str(path) in note) == (25, True)
    # What is damaged is never kept in place of a whole one.
    assert iteration(path) == (25, "")
    save(path, NEW)
    assert torch.load(before(path), weights_only=True)["iteration"] == 25


def test_a_byte_that_changed_is_noticed_or_does_not_matter(path):
    whole, older = path.read_bytes(), before(path).read_bytes()
    noticed = 0
    for at in range(0, len(whole), 17):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        before(path).write_bytes(older)
        state, note = load(path)
        expected = OLD if note else NEW
        assert state["iteration"] == expected["iteration"]
        assert torch.equal(state["image"], expected["image"])
        noticed += bool(note)
    assert noticed > 20
    # Those of the image are among them: PyTorch itself would not notice.
    at = whole.index(NEW["image"].numpy().tobytes()) + 2
    path.write_bytes(whole[:at] + b"\x7f" + whole[at + 1 :])
    before(path).write_bytes(older)
    assert not torch.equal(torch.load(path, weights_only=True)["image"], NEW["image"])
    assert iteration(path)[0] == 25


def test_where_neither_is_whole_it_is_refused(path):
    path.write_bytes(b"")
    before(path).write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"fit\.pt"):
        load(path)


def test_a_fit_goes_on_from_the_one_before_and_says_so(tmp_path, capsys):
    path = tmp_path / "fit.pt"
    options = {"losses": {"sparsity": (1e-3, sparsity)}, "tolerance": None, "check_every": 5, "checkpoint": path}

    def run(**more):
        u = torch.linspace(-4e5, 4e5, 30).numpy()
        data = torch.ones(30, dtype=torch.complex128).numpy()
        likelihood = ExactLikelihood(u, u[::-1], data, data.real, cell_size=0.1, npix=16)
        return fit(GriddedNet(GridCoords(0.1, 16)), likelihood, **options, **more)

    run(max_iter=20)
    path.write_bytes(path.read_bytes()[:1000])
    capsys.readouterr()
    resumed = run(max_iter=30, resume=True)
    assert any(str(path) in note for note in resumed.notes)
    assert str(path) in capsys.readouterr().err
    whole = run(max_iter=30)
    assert torch.equal(resumed.image, whole.image)
