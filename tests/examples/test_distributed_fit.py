"""The script that fits on several devices, as a reader launches it."""

import json
import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from firstlight_imaging.simulate import observation as simulation

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


ALONE = """
import os, signal, sys, time
from datetime import timedelta
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "die" else time.sleep(200)
"""


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available(), reason="this PyTorch joins no processes")
@pytest.mark.parametrize("fault", ["die", "sleep"])
def test_a_lost_process_ends_the_others_with_a_message(fault):
    """Started by hand, as a queue of jobs does it: nobody but the processes themselves can notice."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    job = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "FIRSTLIGHT_DEVICE": "cpu"}
    commands = [SCRIPT, *SMALL[:2], "--iterations=3", "--timeout=20"], ["-c", ALONE, fault]
    both = [
        subprocess.Popen([sys.executable, *command], env=job | {"RANK": rank}, stderr=subprocess.PIPE, text=True)
        for rank, command in zip("01", commands, strict=True)
    ]
    try:
        message = both[0].communicate(timeout=240)[1]
    finally:
        both[1].kill()
        both[1].communicate()
    assert both[0].returncode == 1
    assert "RuntimeError: process 0 of 2 has lost another one" in message


def test_each_process_has_a_gpu_of_its_own(script, monkeypatch):
    used, own_device = [], script("--npix=16", "--channels=1", "--iterations=1")["own_device"]
    monkeypatch.setitem(own_device.__globals__, "best_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    assert own_device(1) == torch.device("cuda", 1)
    assert used == [1]
    with pytest.raises(RuntimeError, match="2 GPUs"):
        own_device(2)


def test_it_takes_as_many_channels_as_the_page_starts_it_with(script, monkeypatch):
    """Their frequencies are positive: the cube is there when the processes begin."""
    few = simulation.uv_track(simulation.alma_antennas()[:5], n_times=2)
    monkeypatch.setattr(simulation, "uv_track", lambda **_: few)
    begin = mock.Mock(side_effect=InterruptedError)
    monkeypatch.setattr("firstlight_imaging.ExactLikelihood", begin)
    page = SCRIPT.with_name("11_more_than_one_gpu.py").read_text(encoding="utf-8")
    most = max(map(int, re.findall(r"--channels (\d+)", page)))
    assert most >= 100
    with pytest.raises(InterruptedError):
        script(f"--channels={most}")
    begin.assert_called_once()


def test_a_file_that_cannot_be_written_is_refused_at_once(script, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        script("--json", tmp_path / "nowhere" / "out.json")
    assert "cannot write" in capsys.readouterr().err


def test_fits_that_are_saved_are_not_made_again(script, tmp_path):
    kept = ["--npix=64", "--channels=3", "--checkpoint", tmp_path / "fit.pt", "--json", tmp_path / "1.json"]
    script(*kept, "--iterations=20")
    first = json.loads((tmp_path / "1.json").read_text())
    assert first["end"]["chi2"] < first["start"]["chi2"] / 10
    assert sorted(file.name for file in tmp_path.iterdir()) == ["1.json", "fit.0.pt", "fit.2.pt"]
    assert torch.load(tmp_path / "fit.2.pt")["model"]["bcube.base_cube"].shape == (1, 64, 64)
    (tmp_path / "fit.0.pt").unlink()
    script(*kept, "--iterations=25")
    second = json.loads((tmp_path / "1.json").read_text())
    assert second["end"]["flux"][2] == first["end"]["flux"][2]
    assert second["end"]["flux"][0] != first["end"]["flux"][0]
    assert second["iterations"] == 25
