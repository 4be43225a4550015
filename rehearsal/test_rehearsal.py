"""The package and a few pages on cards that are not there; `nox -s rehearse` takes all pages."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from projects import SOURCES

HERE = Path(__file__).parent
ROOT = HERE.parent
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the rehearsal needs Linux: its driver is a libcuda.so.1"
)


def run(*command, **environment):
    alone = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *SOURCES])}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env=os.environ | alone | environment,
        capture_output=True,
        text=True,
    )


SLOW = [pytest.param(card, marks=pytest.mark.slow) for card in ("h100", "small", "rocm")]  # two H100s are one, too


@pytest.mark.parametrize("card", ["two", "mps", *SLOW])
def test_the_package_on_a_card(card, tmp_path):
    done = run(
        "-m", "pytest", "-q", "-p", "standin", "-o", f"cache_dir={tmp_path}", HERE / "on_card.py", REHEARSAL_CARD=card
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_a_few_pages():
    done = run(HERE / "rehearse.py", "2_devices/13", "3_kernels/01")
    assert done.returncode == 0, done.stdout + done.stderr


def test_sizes_are_of_texts_that_pages_have():
    for page, sizes in tomllib.loads((HERE / "sizes.toml").read_text()).items():
        text = (ROOT / "examples" / f"{page}.py").read_text()
        assert not [old for old in sizes if old not in text], page
