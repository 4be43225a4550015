"""The kernels of numba-cuda's own tests give in a trace what they give in the simulator."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firstlight.kernels import simulated


@pytest.mark.slow
@pytest.mark.skipif(not simulated(), reason="the simulator is the other opinion")
def test_kernels_of_numba_cudas_own_tests() -> None:
    script = Path(__file__).with_name("numbas_tests.py")
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    kernels = json.loads(done.stdout.splitlines()[-1])
    assert len(kernels["equal"]) > 250
    assert not kernels.get("failed")
