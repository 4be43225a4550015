"""The scripts of *Where do you come from?* run as they stand, but for their sizes, on the CPU and on a played GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from projects import SOURCES

ROOT = Path(__file__).parents[1]
SMALLER = {
    "one_channel": {'"epochs": 600': '"epochs": 30', "npix=180": "npix=96"},
    "cnn": {"(16, 64, 256)": "(256,)"},
    "iris": {},
    "several_gpus": {},
    "trainer": {"10_000 if": "100 if", "else 1_000": "else 100"},
    "two_kernels": {"33_554_433": "5_467", "(100_000, 100)": "(1_000, 20)"},
}
GPU = pytest.param(
    "gpu", marks=[pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="plays on Linux")]
)


@pytest.mark.parametrize("where", ["cpu", GPU])
@pytest.mark.parametrize("name", [pytest.param("cnn", marks=pytest.mark.slow), *sorted({*SMALLER} - {"cnn"})])
def test_it_runs(name: str, where: str, tmp_path: Path) -> None:
    source = (ROOT / "docs" / "scripts" / f"{name}.py").read_text(encoding="utf-8")
    for old, new in SMALLER[name].items():
        assert old in source
        source = source.replace(old, new)
    script = tmp_path / f"{name}.py"
    script.write_text(source, encoding="utf-8")
    play = [str(ROOT / "rehearsal" / "rehearse.py"), "--card", "h100", "--one"]
    command = [sys.executable, *(play if where == "gpu" else []), str(script)]
    alone = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(SOURCES)}
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | alone, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("cuda" in done.stdout) == (where == "gpu") or name == "two_kernels"


def run(script: Path, *arguments: str, folder: Path) -> str:
    """Return what a script prints on the CPU."""
    alone = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(SOURCES)}
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | alone, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_one_channel_says_the_true_flux_and_its_better_way_is_nearer(tmp_path: Path) -> None:
    said = run(ROOT / "docs/scripts/one_channel.py", folder=tmp_path)
    (loop,), (true,) = (re.findall(rf"{of}: (0\.\d+) Jy", said) for of in ("epochs", "simulated"))
    *_, (best, left) = re.findall(r"strength .*: (0\.\d+) Jy, and (\S+) σ", said)
    assert float(left) < 5
    assert abs(float(best) - float(true)) < 0.06 * float(true) < abs(float(loop) - float(true))


TORCHVISION = """
import torch

class transforms:
    Compose = lambda steps: lambda picture: [picture := step(picture) for step in steps][-1]
    ToTensor = lambda: lambda picture: picture
    Normalize = lambda mean, std: lambda picture: (picture - mean[0]) / std[0]

class datasets:
    def CIFAR10(folder, train=True, download=False, transform=None):
        return [(transform(torch.rand(3, 32, 32)), number % 10) for number in range(64 if train else 32)]
"""


@pytest.mark.slow
def test_the_network_takes_cifar10(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text(TORCHVISION)
    (tmp_path / "cnn.py").write_text((ROOT / "docs/scripts/cnn.py").read_text(encoding="utf-8"), encoding="utf-8")
    assert "256 a batch" in run(tmp_path / "cnn.py", "--cifar10", folder=tmp_path)


@pytest.mark.slow
def test_two_processes_train_as_one_does() -> None:
    script = str(ROOT / "docs" / "scripts" / "several_gpus.py")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    losses = []
    for start in ([], torchrun):
        done = subprocess.run(
            [sys.executable, *start, script], capture_output=True, text=True, check=True, timeout=120,
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip
        losses += map(float, re.findall(r"loss (0\.\d{6})", done.stdout))
    assert losses[1:] == pytest.approx([losses[0]] * 2, rel=1e-3)


def test_the_page_shows_every_script() -> None:
    page = (ROOT / "docs" / "where_from.md").read_text(encoding="utf-8")
    scripts = {path.stem for path in (ROOT / "docs" / "scripts").glob("*.py")}
    assert scripts == set(SMALLER)
    assert all(page.count(f"scripts/{name}.py") == 2 for name in scripts)  # shown, and to download
    assert sorted(re.findall(r'^run\("(\w+)"\)$', page, re.MULTILINE)) == sorted(scripts)  # and what it prints
