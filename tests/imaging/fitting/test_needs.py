import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from firstlight.imaging.fitting.needs import Plan, plan


def planned(**changes) -> Plan:
    return plan(**{"npix": 512, "nchan": 4, "nvis": 10**6, "memory": 8e9} | changes)


@pytest.mark.parametrize(("dtype", "shared"), [(torch.float32, True), (torch.float64, True), (torch.float32, False)])
def test_less_memory_means_smaller_chunks_until_it_does_not_fit(dtype, shared):
    options = {"nvis": 10**7, "dtype": dtype, "shared": shared}
    plans = [planned(memory=memory, **options) for memory in np.geomspace(1e7, 1e10, 30)]
    for less, more in pairwise(plans):
        assert less.chunk <= more.chunk
        assert less.channels_at_once <= more.channels_at_once
        assert less.fits <= more.fits
    assert (plans[0].fits, plans[-1].fits) == (False, True)
    assert all(one.peak <= one.memory for one in plans if one.fits)
    assert len({one.chunk for one in plans if one.fits}) > 2
    assert "Fit fewer channels" in str(plans[0])
    for wrong in (0, float("nan")):
        with pytest.raises(ValueError, match="memory"):
            planned(memory=wrong)


def test_own_baselines_need_a_kernel_each_and_cufinufft_the_larger_grid():
    shared, own = (planned(shared=shared).fit for shared in (True, False))
    assert own - shared == 3 * 1024 * 513 * 4
    cuda, cpu = (planned(device=device, nvis=1000).setup for device in ("cuda:3", "cpu"))
    assert cuda - cpu == (2048**2 - 1280**2) * 16


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory of a process")
@pytest.mark.parametrize("case", [1, 3])
def test_the_plan_is_what_is_measured(tmp_path, case):
    scale = Path(__file__).parents[3] / "benchmarks" / "scale.py"
    command = [sys.executable, scale, "--only", "accuracy", "--case", str(case), "--json", tmp_path / "scale.json"]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = json.loads((tmp_path / "scale.json").read_text())["accuracy"]
    assert found["setup"] == pytest.approx(found["handing back"]["setup"], rel=0.15)
    assert found["fit"] == pytest.approx(found["handing back"]["peak"], rel=0.15)
