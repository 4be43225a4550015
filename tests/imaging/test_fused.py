"""The fused step against the plain form in float64: the same loss and gradient, whatever the cube, data and losses."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstlight.imaging import fused_compiler
from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.exact import ExactLikelihood
from firstlight.imaging.fused import Fused, suits
from firstlight.imaging.gridding import DataAverager
from firstlight.imaging.losses import TSV, TV_image, entropy, sparsity
from firstlight.imaging.objective import Objective
from firstlight.imaging.precomposed import GriddedNet

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


def gradient(of, function):
    of.model.zero_grad()
    loss, row = function()
    loss.backward()
    return loss.item(), row.double(), of.model.bcube.base_cube.grad.double()


def assert_agree(of, reference, allowed):
    loss, row, slope = gradient(of, Fused(of).loss_and_row)
    plain_loss, plain_row, plain_slope = gradient(reference, reference.loss_and_row)
    assert loss == pytest.approx(plain_loss, rel=allowed)
    torch.testing.assert_close(row, plain_row, rtol=allowed, atol=0)
    assert (slope - plain_slope).norm() <= allowed * plain_slope.norm()


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
def test_loss_and_gradient_are_those_of_the_plain_form(npix, nchan, kind, dtype, number, threads):
    threads(number)
    assert_agree(objective(npix, nchan, kind, dtype), objective(npix, nchan, kind), ALLOWED[dtype])


@pytest.mark.parametrize("names", [[], ["tv"], ["sparsity", "entropy"]], ids=str)
def test_regularizers_may_be_missing(names):
    losses = {name: LOSSES[name] for name in names}
    assert_agree(objective(losses=losses), objective(losses=losses), 1e-12)


def test_a_strength_of_zero_is_nothing():
    losses = {name: (0.0, function) for name, (_, function) in LOSSES.items()}
    assert_agree(objective(losses=losses), objective(losses=losses), 1e-12)
    slopes = [gradient(of, Fused(of).loss_and_row)[2] for of in (objective(losses=losses), objective(losses={}))]
    assert torch.equal(*slopes)


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
        made.append(of)
    assert_agree(*made, 1e-12)


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.float64], ids=str)
@pytest.mark.parametrize("level", [-2000.0, -60.0, 0.0, 19.99, 20.01, 300.0])
def test_black_and_glaring_images(level, dtype):
    """Softplus is zero, or linear as torch has it from 20 on; the entropy of black is finite."""
    ours, plain = (objective(base=torch.full((1, 30, 30), level, dtype=dtype), dtype=dtype) for _ in range(2))
    loss, row, slope = gradient(ours, Fused(ours).loss_and_row)
    plain_loss, plain_row, plain_slope = gradient(plain, plain.loss_and_row)
    allowed, least = {torch.float32: 2e-6, torch.float64: 1e-12}[dtype], 1e5 * torch.finfo(dtype).tiny
    assert loss == pytest.approx(plain_loss, rel=allowed)
    torch.testing.assert_close(row, plain_row, rtol=allowed, atol=least)
    # Where torch rounds to zero we may still have a number that is hardly one.
    assert (slope - plain_slope).norm() <= allowed * plain_slope.norm() + least


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_what_is_not_finite_shows(value, kind):
    of = objective(kind=kind)
    with torch.no_grad():
        of.model.bcube.base_cube[0, 3, 4] = value
    assert not Fused(of).loss_and_row()[0].isfinite()


@pytest.mark.slow
def test_float64_does_not_depend_on_the_number_of_threads(threads):
    found = []
    for number in (1, 2):
        threads(number)
        of = objective(128, 2)
        found.append(gradient(of, Fused(of).loss_and_row))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-14)
    torch.testing.assert_close(found[0][2], found[1][2], rtol=1e-12, atol=1e-15 * found[0][2].abs().max().item())


@pytest.mark.parametrize("kind", ["gridded", "exact"])
def test_steps_are_those_of_torchs_adam(kind):
    """And either can go on where the other stopped: the averages are the optimizer's own."""
    ours, plain = objective(kind=kind), objective(kind=kind)
    fused = Fused(ours)
    optimizers = [
        torch.optim.Adam(of.model.parameters(), lr=0.1, betas=(0.8, 0.99), fused=True) for of in (ours, plain)
    ]
    for i in range(12):
        optimizers[1].zero_grad()
        loss, row = plain.loss_and_row()
        loss.backward()
        optimizers[1].step()
        if i in (4, 5):
            optimizers[0].zero_grad()
            fused.loss_and_row()[0].backward()
            optimizers[0].step()
        else:
            torch.testing.assert_close(fused.step(optimizers[0]), row, rtol=1e-9, atol=0)
    cubes = [of.model.bcube.base_cube.detach() for of in (ours, plain)]
    torch.testing.assert_close(*cubes, rtol=1e-9, atol=1e-9)


def test_the_likelihood_may_be_centred_anew_on_the_way():
    of, plain = objective(kind="exact"), objective(kind="exact")
    fused = Fused(of)
    first = fused.loss_and_row()[0].item()
    sky = torch.rand(1, 30, 30, dtype=torch.float64)
    of.data.recentre(sky)
    assert fused.loss_and_row()[0].item() == pytest.approx(first, rel=1e-11)
    plain.data.recentre(sky)
    assert_agree(of, plain, 1e-12)


def test_gradients_of_two_losses_are_kept_apart():
    of = objective()
    fused = Fused(of)
    first, _ = fused.loss_and_row()
    with torch.no_grad():
        of.model.bcube.base_cube += 1
    second, _ = fused.loss_and_row()
    slopes = [torch.autograd.grad(loss, of.model.bcube.base_cube)[0] for loss in (first, second)]
    assert (slopes[0] - slopes[1]).norm() > 0.1 * slopes[0].norm()


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"losses": {"mine": (1.0, lambda sky: sky.sum())}}, False),
        ({"losses": {"tsv": (1.0, TSV)}}, False),
        ({"losses": {"s": (1.0, partial(sparsity, mask=torch.ones(30, 30)))}}, False),
        ({"losses": {"e": (1.0, partial(entropy, prior=torch.ones(30, 30)))}}, False),
        ({"losses": {"a": (1.0, TV_image), "b": (2.0, TV_image)}}, False),
        ({"npix": 14}, False),
    ],
)
def test_what_has_no_fused_form_is_refused(change, good):
    of = objective(**change)
    assert suits(of) is good
    if not good:
        with pytest.raises(ValueError, match="fused"):
            Fused(of)


def test_another_mapping_or_a_beam_has_no_fused_form():
    of = objective()
    of.model.bcube.pixel_mapping = functional.relu
    assert not suits(of)
    seen = observed(30, 1, "exact", torch.float64)
    beam = ExactLikelihood(
        seen.u, seen.v, seen.data, seen.weight, 0.18, 30, beam=np.ones((30, 30)), dtype=torch.float64
    )
    assert not suits(
        Objective(GriddedNet(GridCoords(0.18, 30), base_cube=start(30, 1, torch.float64)), beam, {}, "exact")
    )


def test_compiled_code_does_not_outlive_a_change_of_any_module(tmp_path, monkeypatch):
    """Numba alone would look at the file of the outermost function only."""
    for name in ("fused_compiler.py", "fused_math.py"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(fused_compiler, "__file__", str(tmp_path / "fused_compiler.py"))
    before = fused_compiler.folder.__wrapped__()
    (tmp_path / "fused_math.py").write_text("2")
    assert fused_compiler.folder.__wrapped__() != before
    assert before.parent.is_relative_to(tmp_path) or fused_compiler.library.config.CACHE_DIR
