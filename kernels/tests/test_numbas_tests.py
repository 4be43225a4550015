"""The kernels of numba-cuda's own tests, or of Numba's, give in a trace what they give in the simulator."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firstlight_kernels import simulated


@pytest.mark.slow
@pytest.mark.skipif(not simulated(), reason="the simulator is the other opinion")
def test_kernels_of_numba_cudas_own_tests() -> None:
    script = Path(__file__).with_name("numbas_tests.py")
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    kernels = json.loads(done.stdout.splitlines()[-1])
    assert len(kernels["equal"]) > 250
    assert not kernels.get("failed")
    assert len(kernels.get("refused", ())) < 50  # nearly all for cuda.fp16
    undefined = (
        "costs_func",
        "udt_global",
        "foo",
        "set_",
    )  # read what nobody wrote, or get a class of the test
    assert [name for name in kernels.get("other", ()) if not name.split()[-1].startswith(undefined)] == []
