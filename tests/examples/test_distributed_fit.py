"""The script that fits on several devices, as a reader launches it."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch.distributed as dist

from firstlight.imaging.simulate import observation as simulation

SCRIPT = Path(__file__).parents[2] / "examples" / "4_imaging" / "distributed_fit.py"
SMALL = ["--npix=64", "--channels=3", "--iterations=40"]


@pytest.fixture
def script(monkeypatch):
    """Run it as one process, with options."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("FIRSTLIGHT_DEVICE", "cpu")

    def run(*options):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, options)])
        return runpy.run_path(str(SCRIPT), run_name="__main__")

    return run


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available(), reason="this PyTorch joins no processes")
def test_two_and_four_processes_find_what_one_does(script, tmp_path, capsys):
    """Of three channels, two and one together; of four processes, two have none."""
    script(*SMALL, "--json", tmp_path / "1.json")
    one = json.loads((tmp_path / "1.json").read_text())
    assert "chi²" in capsys.readouterr().out
    for n in (2, 4):
        torchrun = [sys.executable, "-W", "error", "-m", "torch.distributed.run", "--standalone"]
        torchrun += [f"--nproc-per-node={n}"]
        files = ["--json", tmp_path / f"{n}.json", "--checkpoint", tmp_path / f"fit{n}.pt"]
        done = subprocess.run(
            [*torchrun, SCRIPT, *SMALL, *files],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("chi²") == 1  # the first process speaks for all
        several = json.loads((tmp_path / f"{n}.json").read_text())
        assert (several["processes"], len(several["seconds"]["gradient"])) == (n, 2)
        assert several["start"] == pytest.approx(one["start"], rel=1e-10)
        assert several["end"]["chi2"] == pytest.approx(one["end"]["chi2"], rel=1e-6)
        assert several["end"]["flux"] == pytest.approx(one["end"]["flux"], rel=1e-6)
        assert (several["iterations"], several["visibilities"]) == (one["iterations"], one["visibilities"])
    # One process goes on from what two have left.
    script(*SMALL[:2], "--iterations=45", "--json", tmp_path / "1.json", "--checkpoint", tmp_path / "fit2.pt")
    assert json.loads((tmp_path / "1.json").read_text())["iterations"] == 45


def test_it_takes_as_many_channels_as_the_page_starts_it_with(script, monkeypatch):
    """Their frequencies are positive: the cube is there when the processes begin."""
    few = simulation.uv_track(simulation.alma_antennas()[:5], n_times=2)
    monkeypatch.setattr(simulation, "uv_track", lambda **_: few)
    begin = mock.Mock(side_effect=InterruptedError)
    monkeypatch.setattr("firstlight.imaging.processes", begin)
    page = SCRIPT.with_name("08_more_than_one_gpu.py").read_text(encoding="utf-8")
    most = max(map(int, re.findall(r"--channels (\d+)", page)))
    assert most >= 100
    with pytest.raises(InterruptedError):
        script(f"--channels={most}")
    begin.assert_called_once()


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
