"""The real set that a page images: what tclean made of it is kept whole, and other files are refused."""

from importlib.resources import files
from unittest.mock import Mock

import pytest

from firstlight.lessons import hd142527


def test_what_tclean_made_is_small_and_agrees_with_what_is_said_of_it():
    told, maps = hd142527.by_tclean()
    run = told["by_hand"]
    assert maps["map"].max() == pytest.approx(run["peak"], rel=1e-3)
    assert maps["left"].std() == pytest.approx(run["rms"], rel=1e-3)
    assert all("n-sigma" in told[which]["stopped"] for which in ("by_hand", "defaults", "advised"))
    assert maps["by_hand"].sum() == pytest.approx(run["flux_of_model"])
    # What a clean model leaves out is in the residuals only, so far as the mask goes.
    assert run["flux"] == pytest.approx(run["flux_of_model"], rel=0.02)
    assert len(files("firstlight.lessons").joinpath("hd142527_by_tclean.npz").read_bytes()) < 50_000


def test_files_that_have_changed_are_refused(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.write_bytes(b"404")
    monkeypatch.setattr(hd142527, "download_file", lambda *address, **how: str(other))
    with pytest.raises(ValueError, match="not the set of gpuvmem"):
        hd142527.download(tmp_path)


def test_a_download_that_breaks_off_raises_what_the_page_waits_for(tmp_path, monkeypatch):
    monkeypatch.setattr(hd142527, "download_file", Mock(side_effect=TimeoutError("timed out")))
    with pytest.raises(OSError, match="timed out"):
        hd142527.download(tmp_path)
