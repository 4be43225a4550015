from __future__ import annotations

import doctest
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

from firstlight.imaging import needs, nufft, streaming
from firstlight.imaging import plan as function
from firstlight.imaging.nufft import CHUNK
from firstlight.imaging.plan import Plan, most_that


def planned(**changes) -> Plan:
    return function(**{"npix": 512, "nchan": 4, "nvis": 10**6, "memory": 8e9} | changes)


def test_a_plan_is_read_at_a_glance() -> None:
    text = str(planned(bandwidth=2e10, points_per_second=1e6))
    for part in ("4 channels", "512 x 512", "cpu", f"chunk={CHUNK}", " 8 s"):
        assert part in text


def test_parts_add_up_to_the_peak() -> None:
    found = planned()
    assert found.peak == max(sum(found.setup.values()), sum(found.fit.values()))
    assert all(n >= 0 for n in (*found.setup.values(), *found.fit.values()))


@pytest.mark.parametrize(
    ("dtype", "fused", "shared"),
    [(torch.float32, True, True), (torch.float64, False, True), (torch.float32, False, False)],
)
def test_less_memory_means_smaller_chunks_until_it_does_not_fit(dtype: torch.dtype, fused: bool, shared: bool) -> None:
    options = {"nvis": 10**7, "dtype": dtype, "fused": fused, "shared": shared}
    found = [planned(memory=memory, **options) for memory in np.geomspace(1e7, 1e10, 30)]
    for less, more in pairwise(found):
        assert less.chunk <= more.chunk
        assert less.channels_at_once <= more.channels_at_once
        assert less.fits <= more.fits
    assert (found[0].fits, found[-1].fits) == (False, True)
    assert all(plan.peak <= plan.memory and not plan.advice for plan in found if plan.fits)
    assert len({plan.chunk for plan in found if plan.fits}) > 2


def test_what_to_do_where_it_does_not_fit() -> None:
    several = planned(nchan=64, npix=1024, memory=1e9, dtype=torch.float64)
    assert not several.fits
    assert "channels" in several.advice
    assert "float32" in several.advice
    alone = planned(nchan=1, npix=4096, memory=1e8)
    assert "channel" not in alone.advice
    assert "float32" not in alone.advice


def test_own_baselines_need_a_kernel_each() -> None:
    shared, own = (planned(shared=shared).fit["kernels"] for shared in (True, False))
    assert own == 4 * shared == 4 * 1024 * 513 * 4


def test_cufinufft_has_the_larger_grid() -> None:
    part = "its fine grid"
    assert planned(device="cuda:3", nvis=1000).setup[part] == 2048**2 * 16
    assert planned(device="cpu", nvis=1000).setup[part] == 1280**2 * 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"npix": 511}, "npix is 511"),
        ({"npix": 0}, "npix is 0"),
        ({"npix": -2}, "npix is -2"),
        ({"nchan": 0}, "nchan .* 0"),
        ({"nvis": -1}, "nvis .* -1"),
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"device": "mps", "memory": None}, "memory"),
        ({"device": "meta", "memory": None}, "meta"),
        ({"memory": 0}, "memory is 0"),
        ({"memory": -5}, "memory is -5"),
        ({"memory": float("nan")}, "memory is nan"),
        ({"dtype": torch.float16}, "dtype is torch.float16"),
        ({"bandwidth": 0}, "bandwidth is 0"),
        ({"points_per_second": float("nan")}, "points_per_second is nan"),
        ({"chunk": 0}, "chunk is 0"),
    ],
)
def test_what_cannot_be_planned_is_named(changes, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        planned(**changes)


def test_no_visibilities_and_infinite_memory_can_be_planned() -> None:
    assert planned(nvis=0).fits
    assert planned(memory=float("inf")).chunk == CHUNK
    assert planned(nvis=3, memory=None).memory > 0


@pytest.mark.parametrize("limit", [0, 1, 5, 99, 1000])
def test_the_largest_number_that_fits(limit: int) -> None:
    assert most_that(lambda n: n <= limit, 1, 100) == max(1, min(limit, 100))


CHILD = """
import sys
import numpy as np, torch
from firstlight.imaging.exact import ExactLikelihood
torch.set_num_threads(2)

def peak():
    return 1024 * int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

def build(n, npix, **options):
    parts = [np.load(f"{sys.argv[1]}/{name}.npy", mmap_mode="r")[:n] for name in "uvdw"]
    return ExactLikelihood(*parts, 0.01, npix, **options)

build(20000, 32)
before = peak()
for n in (100_000, 800_000):
    build(n, 256, memory=6e7)
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory of a process")
def test_memory_stays_within_what_was_stated_and_does_not_grow_with_the_file(tmp_path) -> None:
    rng = np.random.default_rng(1)
    n = 800_000
    for name, values in {
        "u": 1e6 * rng.normal(size=n),
        "v": 1e6 * rng.normal(size=n),
        "d": np.ones(n, complex),
        "w": np.ones(n),
    }.items():
        np.save(tmp_path / f"{name}.npy", values)
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    few, many = map(int, done.stdout.split())
    assert 1e7 < few <= many <= 1.1 * 6e7
    wanted = sum(function(256, 1, n, memory=6e7).setup.values())
    assert many == pytest.approx(wanted, rel=0.15)


def test_examples_in_docstrings() -> None:
    assert all(
        doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0
        for module in (sys.modules[function.__module__], needs, nufft, streaming)
    )
