"""The fused step against autograd in float64: one loss and gradient, whatever the data and regularizers."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.gridding import DataAverager
from firstlight_imaging.fitting import fused_step
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.fused_step import FusedStep, has_fused_step
from firstlight_imaging.fitting.objective import Objective
from firstlight_imaging.fitting.optimizers import Adam
from firstlight_imaging.fourier import padding
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.model.losses import TSV, TV_image, entropy, sparsity

LOSSES = {
    "sparsity": (1e-3, sparsity),
    "tv": (2e-3, partial(TV_image, epsilon=1e-8)),
    "entropy": (3e-3, partial(entropy, prior=0.02, tot_flux=3.0)),
}
ALLOWED = {torch.float32: 2e-7, torch.float64: 1e-12}


def observed(npix, nchan, kind, dtype):
    """Noise all over the Fourier plane, on its axes and in its corners, and some cells together with their mirrors."""
    rng = np.random.default_rng(npix)
    coords = GridCoords(5.4 / npix, npix)
    u, v = rng.uniform(-1, 1, (2, nchan, 2000)) * 0.99 * coords.uv_limit
    u[:, :100] = v[:, 100:200] = 0
    u[:, 200:202] = v[:, 200:202] = 0
    u[:, 300:400], v[:, 300:400] = -u[:, 400:500], -v[:, 400:500]
    u[:, -1] = v[:, -1] = -0.999 * coords.uv_limit
    data = rng.normal(size=u.shape) + 1j * rng.normal(size=u.shape)
    weight = 100 * rng.uniform(0.5, 2, u.shape)
    if kind == "exact":
        return ExactLikelihood(u, v, data, weight, coords.cell_size, npix, dtype=dtype)
    averager = DataAverager(coords, u, v, weight, data.real, data.imag)
    return averager.to_pytorch_dataset(check_visibility_scatter=False)


def start(npix, nchan, dtype):
    """From black to bright, the edges included, so that nothing is left out unseen."""
    noise = np.random.default_rng(0).normal(-1, 4, (nchan, npix, npix))
    return torch.tensor(noise.astype(np.float32)).to(dtype)


def objective(npix=30, nchan=1, kind="gridded", dtype=torch.float64, losses=LOSSES, separate=False, base=None):
    data = observed(npix, nchan, kind, dtype)
    if kind == "exact":
        data.recentre(torch.rand(nchan, npix, npix, generator=torch.manual_seed(1)).to(dtype))
    base = start(npix, nchan, dtype) if base is None else base
    return Objective(GriddedNet(GridCoords(5.4 / npix, npix), nchan, base_cube=base), data, losses, "gridded", separate)


def value_and_gradient(of):
    """Return a row of the curves, and the gradient."""
    row = of.value_and_grad().double()
    return row, of.model.bcube.base_cube.grad.double().clone()


def assert_agree(of, reference, allowed):
    of.fused_step = FusedStep(of)
    (row, gradient), (autograd_row, autograd_gradient) = value_and_gradient(of), value_and_gradient(reference)
    torch.testing.assert_close(row, autograd_row, rtol=allowed, atol=0)
    assert (gradient - autograd_gradient).norm() <= allowed * autograd_gradient.norm()


@pytest.fixture
def simulated(monkeypatch):
    """Run the kernels as a GPU does, in the simulator: a block a row, a thread a column."""
    pytest.importorskip("firstlight_kernels")
    monkeypatch.setattr(fused_step, "_runs_on_gpu", lambda _: True)
    monkeypatch.setattr(fused_step, "THREADS", 4)


@pytest.mark.parametrize(
    ("npix", "nchan", "kind", "dtype", "number"),
    [
        (2, 1, "gridded", torch.float64, 1),
        (30, 3, "gridded", torch.float64, 1),
        (100, 1, "gridded", torch.float64, 1),
        (30, 3, "exact", torch.float64, 1),
        (72, 2, "exact", torch.float64, 1),
        *(
            pytest.param(npix, nchan, kind, torch.float32, number, marks=pytest.mark.slow)  # compiled anew
            for npix, nchan, number in ((30, 3, 1), (72, 2, 2), (128, 1, 2))
            for kind in ("gridded", "exact")
        ),
    ],
)
def test_loss_and_gradient_are_those_of_autograd(npix, nchan, kind, dtype, number, threads):
    threads(number)
    assert_agree(objective(npix, nchan, kind, dtype), objective(npix, nchan, kind), ALLOWED[dtype])


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_on_a_gpu_they_are_too(kind, monkeypatch):
    monkeypatch.setattr(padding, "_convolve_by_columns", padding._convolve_at_once)
    losses = {"tv": ([1e-3, 1e-2], TV_image), "sparsity": (1e-3, sparsity), "entropy": LOSSES["entropy"]}
    made = [objective(6, 2, kind, losses=losses, separate=True) for _ in range(2)]
    assert_agree(*made, 1e-12)


@pytest.mark.parametrize("gpu", [False, True])
def test_its_adam_is_that_of_pytorch(gpu, request):
    if gpu:
        request.getfixturevalue("simulated")
    of, plain = (objective(6, 2, "gridded") for _ in range(2))
    of.fused_step = FusedStep(of)
    for each in (of, plain):
        Adam(each.model, 0.1).steps(each, 5)
    torch.testing.assert_close(of.model.bcube.base_cube, plain.model.bcube.base_cube, rtol=1e-12, atol=0)


class Launches(TorchDispatchMode):
    """Counts what a GPU would be sent, and hears what the host would wait for."""

    views = ("view", "detach", "unsqueeze", "select", "slice", "expand", "transpose", "t", "unbind", "permute")
    waits = ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal", "unique", "_to_copy")

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name not in self.waits, f"{name} waits"
        if name not in self.views and "record_function" not in name:
            self.names.append(name)
        return function(*args, **(kwargs or {}))

    def run(self, name, function, *arrays):
        self.names.append(name)
        function(*arrays)


@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_a_step_is_few_launches_and_no_wait(kind, monkeypatch):
    monkeypatch.setattr(padding, "_convolve_by_columns", padding._convolve_at_once)  # as on a GPU
    of = objective(kind=kind)
    method = Adam(of.model, 0.1)
    with Launches() as heard:
        for name, run in fused_step.CPU_KERNELS.items():
            monkeypatch.setitem(fused_step.CPU_KERNELS, name, partial(heard.run, name, run))
        of.fused_step = FusedStep(of)
        method.steps(of, 1)  # Adam makes its averages, and the reference is taken over
        heard.names.clear()
        method.steps(of, 1)
    # cuFFT may take a kernel along each of two axes, and a copy of what it overwrites on the way back.
    more = sum({"_fft_r2c": 1, "_fft_c2r": 2}.get(name, 0) for name in heard.names)
    assert 10 < len(heard.names) + more <= 20, " ".join(heard.names)


@pytest.mark.parametrize("names", [[], ["tv"], ["sparsity", "entropy"]], ids=str)
def test_regularizers_may_be_missing(names):
    losses = {name: LOSSES[name] for name in names}
    assert_agree(objective(losses=losses), objective(losses=losses), 1e-12)


@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_separate_fits_have_losses_and_strengths_of_their_own(kind):
    losses = {"tv": ([1e-3, 0, 1e-2], TV_image), "sparsity": (1e-3, sparsity)}
    made = [objective(nchan=3, kind=kind, losses=losses, separate=True) for _ in range(2)]
    assert_agree(*made, 1e-12)


def test_a_channel_without_data_is_shaped_by_the_regularizers():
    made = []
    for _ in range(2):
        of = objective(nchan=2)
        mask = of.data.mask.clone()
        mask[1] = False
        of.data.add_mask(mask)
        of.ncell = len(of.data.index)
        made.append(of)
    assert_agree(*made, 1e-12)


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.float64], ids=str)
@pytest.mark.parametrize("level", [-2000.0, -60.0, 0.0, 19.99, 20.01, 300.0])
def test_black_and_glaring_images(level, dtype):
    """Softplus is zero, or linear as torch has it from 20 on; the entropy of black is finite."""
    ours, plain = (objective(base=torch.full((1, 30, 30), level, dtype=dtype), dtype=dtype) for _ in range(2))
    ours.fused_step = FusedStep(ours)
    (row, gradient), (autograd_row, autograd_gradient) = value_and_gradient(ours), value_and_gradient(plain)
    # Below -30 a pixel is 0 here, and e^-30 at most there.
    allowed, least = {torch.float32: 2e-6, torch.float64: 1e-12}[dtype], 1e-12
    torch.testing.assert_close(row, autograd_row, rtol=allowed, atol=least)
    # Where torch rounds to zero we may still have a number that is hardly one.
    assert (gradient - autograd_gradient).norm() <= allowed * autograd_gradient.norm() + least


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_what_is_not_finite_shows(value, kind):
    of = objective(kind=kind)
    with torch.no_grad():
        of.model.bcube.base_cube[0, 3, 4] = value
    assert not FusedStep(of).value_and_grad()[0].isfinite()


def test_the_likelihood_may_be_centred_anew_on_the_way():
    of, plain = objective(kind="exact"), objective(kind="exact")
    of.fused_step = FusedStep(of)
    first = of.value_and_grad()[0].item()
    sky = torch.rand(1, 30, 30, dtype=torch.float64)
    of.data.recentre(sky)
    assert of.value_and_grad()[0].item() == pytest.approx(first, rel=1e-11)
    plain.data.recentre(sky)
    assert_agree(of, plain, 1e-12)


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"losses": {"mine": (1.0, lambda sky: sky.sum())}}, False),
        ({"losses": {"tsv": (1.0, TSV)}}, False),
        ({"losses": {"s": (1.0, partial(sparsity, mask=torch.ones(30, 30)))}}, False),
        ({"losses": {"e": (1.0, partial(entropy, prior=torch.ones(30, 30)))}}, False),
        ({"losses": {"a": (1.0, TV_image), "b": (2.0, TV_image)}}, False),
        ({"npix": 14}, True),
    ],
)
def test_what_has_no_fused_step_is_refused(change, good):
    of = objective(**change)
    assert has_fused_step(of) is good
    if not good:
        with pytest.raises(ValueError, match="sparsity, TV_image and entropy"):
            FusedStep(of)


def test_another_mapping_or_a_beam_is_not_has_fused_step():
    of = objective()
    of.model.bcube.pixel_mapping = functional.relu
    assert not has_fused_step(of)
    seen = observed(30, 1, "exact", torch.float64)
    given = (seen.u, seen.v, seen.data, seen.weight, 0.18, 30)
    beam = ExactLikelihood(*given, beam=np.ones((30, 30)), dtype=torch.float64)
    net = GriddedNet(GridCoords(0.18, 30), base_cube=start(30, 1, torch.float64))
    assert not has_fused_step(Objective(net, beam, {}, "exact"))


@pytest.mark.slow
def test_the_first_step_leaves_pytorch_its_number_of_threads():
    """Numba's threads start once in a process, so this takes one of its own."""
    code = "import torch; torch.set_num_threads(1)"
    code += "; from firstlight_imaging.fitting.fused_step import _match_torch_threads; _match_torch_threads()"
    ended = subprocess.run([sys.executable, "-c", f"{code}; print(torch.get_num_threads())"], capture_output=True)
    assert ended.stdout.split() == [b"1"], ended.stderr.decode()


@pytest.mark.slow
def test_kernels_of_the_cache_round_as_those_just_compiled(tmp_path):
    code = (
        "from firstlight_imaging.simulate.observation import observe, uv_track\n"
        "from firstlight_imaging.simulate.skies import Ring\n"
        "from firstlight_imaging import ExactLikelihood, GriddedNet, GridCoords, fit\n"
        "from firstlight_imaging.model.losses import TV_image\n"
        "vis = observe([Ring(0.5, 0, 0.5)], uv_track(n_times=2))\n"
        "data = ExactLikelihood(vis.uu, vis.vv, vis.data, vis.weight, 0.05, 54)\n"
        "options = {'losses': {'tv': (1e-4, TV_image)}, 'optimizer': 'lbfgs', 'max_iter': 20, 'progress': False}\n"
        "print(fit(GriddedNet(GridCoords(0.05, 54)), data, **options).image.double().sum().item().hex())\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        )
        for _ in range(2)
    ]
    assert not any(run.returncode for run in runs), runs[0].stderr
    assert runs[0].stdout == runs[1].stdout
