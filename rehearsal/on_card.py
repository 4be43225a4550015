"""What the package does on a card; run by test_rehearsal.py in a process that plays one (REHEARSAL_CARD)."""

from __future__ import annotations

import copy
import gc
import os
from functools import partial

import numpy as np
import pytest
import tensors
import torch
from cards import CARDS

from firstlight import best_device
from firstlight.devices import all_devices, card
from firstlight.timing import measure
from firstlight_imaging import ExactLikelihood, GridCoords, GriddedNet, fit
from firstlight_imaging.data.gridding import DataAverager
from firstlight_imaging.fitting.fused_step import FusedStep
from firstlight_imaging.fitting.objective import Objective
from firstlight_imaging.fitting.optimizers import Adam
from firstlight_imaging.fourier.nufft import visibilities
from firstlight_imaging.model.losses import TV_image, entropy, sparsity

PLAYED = CARDS[os.environ["REHEARSAL_CARD"]]
LOSSES = {"tv": (1e-3, TV_image), "s": (1e-3, sparsity), "e": (1e-3, partial(entropy, prior=0.02))}
on_nvidia = pytest.mark.skipif(not PLAYED.numba, reason="Numba has kernels for NVIDIA's cards")


def observed(kind, nchan=2, npix=14):
    """Baselines over most of the grid, the same noise as data in both kinds."""
    rng, coords = np.random.default_rng(3), GridCoords(5.4 / npix, npix)
    u, v = 0.9 * coords.uv_limit * rng.uniform(-1, 1, (2, nchan, 400))
    data, weight = rng.normal(size=u.shape) + 1j * rng.normal(size=u.shape), np.full(u.shape, 100.0)
    if kind == "exact":
        return coords, ExactLikelihood(u, v, data, weight, coords.cell_size, npix)
    averager = DataAverager(coords, u, v, weight, data.real, data.imag)
    return coords, averager.to_pytorch_dataset(check_visibility_scatter=False).float()


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_a_fit_is_that_of_the_cpu(kind, optimizer):
    results = []
    for device in ("cpu", all_devices()[PLAYED.count - 1]):
        coords, data = observed(kind)
        model = GriddedNet(coords, nchan=2).to(device)
        steps = {"max_iter": 7, "check_every": 3, "tolerance": None, "lr": 0.1 if optimizer == "adam" else None}
        results.append(fit(model, data.to(device), losses=LOSSES, optimizer=optimizer, **steps, progress=False))
        assert not [note for note in results[-1].notes if "captured" in note]
        assert model().device.type == results[-1].image.device.type == torch.device(device).type
    assert results[1].terms["loss"] == pytest.approx(results[0].terms["loss"], rel=1e-3)
    if (PLAYED.kind, optimizer) != ("mps", "lbfgs"):  # where sums are in float32, a line search takes other steps
        ours, theirs = (found.image.cpu().numpy() for found in results)
        np.testing.assert_allclose(theirs, ours, rtol=2e-4, atol=1e-4 * np.abs(ours).max())
        np.testing.assert_allclose(results[1].loss, results[0].loss, rtol=1e-4)


@on_nvidia
@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_further_steps_are_one_launch_of_a_graph(kind):
    coords, data = observed(kind)
    objective = Objective(GriddedNet(coords, nchan=2).cuda(), data.cuda(), LOSSES, "gridded")
    objective.fused_step = FusedStep(objective)
    method = Adam(objective.model, 0.1)
    rows = torch.stack(method.steps(objective, 4)).cpu()
    assert method.graph
    assert (rows[1:, 0] < rows[:-1, 0]).all()


def test_a_model_comes_back_whole():
    coords, _ = observed("gridded")
    model = GriddedNet(coords, nchan=2).to(best_device())
    model()
    model.cpu()
    assert model.icube.sky_cube.device.type == model.predict_loose_visibilities(*2 * [np.zeros(3)]).device.type == "cpu"


def test_a_nufft_stays_on_the_card():
    coords, _ = observed("gridded")
    sky = torch.rand(1, coords.npix, coords.npix, device=best_device(), requires_grad=True)
    u, v = torch.linspace(0, coords.uv_limit / 2, 7, dtype=torch.float64).repeat(2, 1)
    vis = visibilities(sky, u, v, coords.cell_size)
    vis.abs().sum().backward()
    assert vis.device == sky.grad.device == best_device()
    alone = visibilities(sky.detach().cpu(), u, v, coords.cell_size)
    torch.testing.assert_close(vis.detach().cpu(), alone, rtol=1e-4, atol=1e-4)


def test_a_timing_knows_the_device():
    x = torch.rand(1001, device=best_device())
    timing = measure(torch.add, x, x)
    assert timing.device == str(best_device())
    assert (timing.device_seconds is not None) == (PLAYED.kind == "cuda")


def test_the_card_says_what_it_is():
    kind = "rocm" if PLAYED.hip else PLAYED.kind
    assert card().kind == kind
    assert [device.index for device in all_devices()[:-1]] == list(range(PLAYED.count))


# What a card refuses, the stand-in has to refuse, or it proves nothing.


def test_tensors_of_two_devices_do_not_mix():
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch.ones(3, device=best_device()) + torch.ones(3)
    with pytest.raises(TypeError, match="to host memory first"):
        torch.ones(3, device=best_device()).numpy()
    if PLAYED.count > 1:
        with pytest.raises(RuntimeError, match="cuda:1 and cuda:0"):
            torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.ones(3, device=f"{PLAYED.kind}:{PLAYED.count}")


@pytest.mark.skipif(PLAYED.kind == "mps", reason="has no pinned memory")
def test_a_copy_that_nobody_waited_for_is_no_result():
    host = torch.zeros(3).pin_memory()
    host.copy_(torch.ones(3, device="cuda"), non_blocking=True)
    assert host.isnan().all()
    torch.cuda.synchronize()
    assert host.tolist() == [1, 1, 1]
    late = torch.ones(3, dtype=torch.int64, device="cuda").to("cpu", non_blocking=True)
    done = torch.cuda.Event()
    done.record()
    assert late.max() > 1
    assert not done.query()
    done.synchronize()
    assert done.query()
    assert late.tolist() == [1, 1, 1]


@pytest.mark.skipif(PLAYED.kind == "mps", reason="has one stream")
def test_a_stream_waits_for_what_it_reads():
    x, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(side), pytest.raises(RuntimeError, match="has not waited"):
        x + 1
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 1
    with pytest.raises(RuntimeError, match="has not waited"):
        y.mul(2)
    side.synchronize()
    assert y.mul(2).tolist() == [4, 4, 4]


def test_a_full_card_says_so():
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        torch.empty(PLAYED.memory // 4, device=best_device())
    gc.collect()  # or what earlier tests left in cycles may go between the two readings
    before = tensors.MEMORY[0].allocated
    x = torch.ones(1000, device=PLAYED.kind)
    y = copy.deepcopy(x)
    assert tensors.MEMORY[0].allocated == before + 8192
    del x, y
    assert tensors.MEMORY[0].allocated == before


@pytest.mark.skipif(PLAYED.kind != "mps", reason="only Apple's GPUs have no float64")
def test_apples_gpu_has_no_float64():
    for make in (lambda: torch.ones(2, device="mps").double(), lambda: torch.zeros(2, dtype=torch.float64).to("mps")):
        with pytest.raises(TypeError, match="float32 instead"):
            make()
