"""The script that fits on several devices, as a reader launches it."""

import json
import runpy
import sys

import pytest
from pages import EXAMPLES

from firstlight.imaging.processes import VARIABLES

SCRIPT = EXAMPLES / "4_imaging" / "distributed_fit.py"


@pytest.fixture
def script(monkeypatch):
    """Run it as one process, with options."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FIRSTLIGHT_DEVICE", "cpu")

    def run(*options):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, options)])
        return runpy.run_path(str(SCRIPT), run_name="__main__")

    return run


def test_a_file_that_cannot_be_written_is_refused_at_once(script, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        script("--json", tmp_path / "nowhere" / "out.json")
    assert "cannot write" in capsys.readouterr().err


def test_one_process_fits_keeps_its_state_and_goes_on(script, tmp_path):
    for iterations in (20, 25):
        kept = ["--json", tmp_path / "1.json", "--checkpoint", tmp_path / "fit.pt"]
        script("--npix=64", "--channels=3", f"--iterations={iterations}", *kept)
        told = json.loads((tmp_path / "1.json").read_text())
        assert (told["iterations"], told["processes"]) == (iterations, 1)
    assert len(told["end"]["flux"]) == 3
    assert told["end"]["chi2"] < told["start"]["chi2"] / 10
