"""Numba decides once a process whether it simulates: these run in processes where it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the rehearsal's driver is a shared library of Linux"
)


def on_driver(tests: Path, card: str, kept: Path) -> str:
    """Run tests with Numba on the driver without a device."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "driver", f"-ocache_dir={kept}", tests]
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "PYTEST_"))}
    env |= {"PYTHONPATH": path, "REHEARSAL_CARD": card}
    done = subprocess.run(command, cwd=HERE.parent, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_launches_are_checked_and_their_kernels_played(tmp_path):
    assert "skipped" not in on_driver(HERE / "launches.py", "two", tmp_path)


@pytest.mark.slow
def test_the_tests_of_kernels_hold_without_the_simulator(tmp_path):
    assert "passed" in on_driver(HERE.parent / "kernels/tests", "h100", tmp_path)
