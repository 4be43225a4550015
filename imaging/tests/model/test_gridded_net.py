"""What a model predicts for baselines that are not those of its grid."""

import math

import numpy as np
import pytest
import torch

from firstlight_imaging.coordinates import GridCoords, packed_to_sky, sky_to_packed
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.model import losses
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.simulate.skies import Ring, sky_image

COORDS = GridCoords(cell_size=0.05, npix=64)
RINGS = (Ring(0.3, 0.4, 0.15, 40, 30, 0.3, -0.2), Ring(0.1, 0.0, 0.2, east=-0.5, north=0.4))
RNG = np.random.default_rng(6)
U, V = RNG.uniform(-5e5, 5e5, size=(2, 40))


def model_of(*skies):
    """A float64 model whose image, but for the smoothing by a pixel, is that of the skies."""
    net = GriddedNet(COORDS, nchan=len(skies))
    packed = torch.stack([sky_to_packed(torch.from_numpy(sky_image([sky], 0.05, 64))) for sky in skies])
    net.bcube = torch.nn.Module()
    net.bcube.image = torch.nn.Parameter(packed)
    net.bcube.forward = lambda: net.bcube.image
    return net


def hann(u, v):
    """What the smoothing does to a visibility: cos² of half the phase across a pixel, along both axes."""
    x, y = (math.pi * 0.05 * math.pi / 648000 * w for w in (u, v))
    return (np.cos(x) * np.cos(y)) ** 2


def test_they_are_those_of_the_sky():
    net = model_of(*RINGS)
    net()
    expected = np.stack([ring.visibilities(U, V) for ring in RINGS]) * hann(U, V)
    np.testing.assert_allclose(net.predict_loose_visibilities(U, V).detach().numpy(), expected, atol=1e-7)
    assert abs(expected - np.stack([ring.visibilities(-U, V) for ring in RINGS])).max() > 0.1  # mirrored, it shows


def test_at_the_cells_they_are_those_of_the_grid_in_packed_order():
    net = GriddedNet(COORDS, base_cube=torch.from_numpy(RNG.normal(size=(1, 64, 64))))
    packed = net()
    u, v = (x.ravel() for x in COORDS.packed_uv())
    loose = net.predict_loose_visibilities(u, v).reshape(1, 64, 64)
    torch.testing.assert_close(loose, packed, rtol=0, atol=1e-12 * packed.abs().max().item())


def three_channels():
    """Cells of noise, each channel with its own mask."""
    rng = np.random.default_rng(0)
    vis = torch.from_numpy(rng.normal(size=(3, 64, 64)) + 1j * rng.normal(size=(3, 64, 64)))
    mask = torch.from_numpy(rng.uniform(size=(3, 64, 64)) < [[[0.1]], [[0.9]], [[0.5]]])
    return GriddedDataset(coords=COORDS, vis_gridded=vis, weight_gridded=vis.abs(), mask=mask, nchan=3).float()


def all_losses(vis, sky, dataset):
    total = losses.r_chi_squared_gridded(vis, dataset) + 1e-3 * losses.entropy(sky, 1e-7)
    for loss in (losses.sparsity, losses.TV_image, losses.TV_channel, losses.TSV, losses.edge_clamp):
        total = total + 1e-3 * loss(sky)
    return total


def test_a_step_has_no_shapes_that_hang_on_data_and_reads_nothing_on_the_host():
    """On the meta device tensors have shapes and no values: to ask for one is an error."""
    likelihood = ExactLikelihood(U, V, U + 1j * V, np.ones(40), 0.05, 64).to("meta")
    model, single = (GriddedNet(COORDS, nchan=n).to("meta") for n in (3, 1))
    dataset = three_channels().to("meta")
    optimizer = torch.optim.Adam([*model.parameters(), *single.parameters()], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = all_losses(model(), model.icube.sky_cube, dataset)
        single()
        (loss + likelihood(single.icube.sky_cube)).backward()
        optimizer.step()
    assert model.bcube.base_cube.grad.shape == (3, 64, 64)
    with pytest.raises((RuntimeError, NotImplementedError)):
        loss.item()


def test_a_step_is_one_graph():
    """fullgraph=True raises at the first break."""
    dataset, model = three_channels(), GriddedNet(COORDS, nchan=3)

    def step():
        vis = model()
        return all_losses(vis, packed_to_sky(model.icube.packed_cube), dataset)

    torch.testing.assert_close(torch.compile(step, backend="eager", fullgraph=True)(), step())
