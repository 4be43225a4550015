from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from firstlight.imaging.needs import Plan, plan
from firstlight.imaging.nufft import CHUNK


def planned(**changes) -> Plan:
    return plan(**{"npix": 512, "nchan": 4, "nvis": 10**6, "memory": 8e9} | changes)


def test_a_plan_is_read_at_a_glance():
    text = str(planned(bandwidth=2e10))
    for part in ("4 channels", "512 x 512", "cpu", f"chunk={CHUNK}", "a step takes 0.0315 s"):
        assert part in text


@pytest.mark.parametrize(("dtype", "shared"), [(torch.float32, True), (torch.float64, True), (torch.float32, False)])
def test_less_memory_means_smaller_chunks_until_it_does_not_fit(dtype, shared):
    options = {"nvis": 10**7, "dtype": dtype, "shared": shared}
    plans = [planned(memory=memory, **options) for memory in np.geomspace(1e7, 1e10, 30)]
    for less, more in pairwise(plans):
        assert less.chunk <= more.chunk
        assert less.channels_at_once <= more.channels_at_once
        assert less.fits <= more.fits
    assert (plans[0].fits, plans[-1].fits) == (False, True)
    assert all(one.peak <= one.memory and not one.advice for one in plans if one.fits)
    assert len({one.chunk for one in plans if one.fits}) > 2
    with pytest.raises(ValueError, match="too little"):
        plans[0].enough()


def test_what_to_do_where_it_does_not_fit():
    several = planned(nchan=64, npix=1024, memory=1e9, dtype=torch.float64)
    assert not several.fits
    assert "channels" in several.advice
    assert "float32" in several.advice
    alone = planned(nchan=1, npix=4096, memory=1e8)
    assert "channel" not in alone.advice
    assert "float32" not in alone.advice


def test_own_baselines_need_a_kernel_each_and_cufinufft_the_larger_grid():
    shared, own = (planned(shared=shared).fit["kernels"] for shared in (True, False))
    assert own == 4 * shared == 4 * 1024 * 513 * 4
    cuda, cpu = (planned(device=device, nvis=1000).setup["transforms"] for device in ("cuda:3", "cpu"))
    assert cuda - cpu == (2048**2 - 1280**2) * 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"npix": 511}, "npix is 511"),
        ({"npix": 0}, "npix is 0"),
        ({"nchan": 0}, "nchan .* 0"),
        ({"nvis": -1}, "nvis .* -1"),
        ({"device": "mps", "memory": None}, "memory"),
        ({"memory": 0}, "memory is 0"),
        ({"memory": float("nan")}, "memory is nan"),
        ({"dtype": torch.float16}, "dtype is torch.float16"),
        ({"bandwidth": 0}, "bandwidth is 0"),
        ({"chunk": 0}, "chunk is 0"),
    ],
)
def test_what_cannot_be_planned_is_named(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        planned(**changes)


def test_no_visibilities_and_infinite_memory_can_be_planned():
    assert planned(nvis=0).fits
    assert planned(memory=float("inf")).chunk == CHUNK
    assert planned(nvis=3, memory=None).memory > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory of a process")
@pytest.mark.parametrize("case", [1, 3])
def test_the_plan_is_what_is_measured(tmp_path, case):
    scale = Path(__file__).parents[2] / "benchmarks" / "scale.py"
    command = [sys.executable, scale, "--only", "accuracy", "--case", str(case), "--json", tmp_path / "scale.json"]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = json.loads((tmp_path / "scale.json").read_text())["accuracy"]
    assert found["setup"] == pytest.approx(found["handing back"]["setup"], rel=0.15)
    assert found["fit"] == pytest.approx(found["handing back"]["peak"], rel=0.15)
