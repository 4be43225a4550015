"""The loop that people bring along from MPoL, with the names of its first releases."""

import numpy as np
import pytest
import torch

from firstlight_imaging import coordinates
from firstlight_imaging.data import gridding
from firstlight_imaging.model import losses
from firstlight_imaging.model.gridded_net import SimpleNet
from firstlight_imaging.units import ARCSEC

DEVICES = {torch.device("cpu"), torch.accelerator.current_accelerator() or torch.device("cpu")}
EAST, NORTH, WIDTH, FLUX, SIGMA = 0.9, -0.6, 0.15, 0.3, 0.06


@pytest.fixture(scope="module")
def d():
    """Five channels of a source in the south-east, u and v in kilo-lambda, as old files have them."""
    rng = np.random.default_rng(3)
    u, v = rng.normal(scale=6e5, size=(2, 5, 20_000))
    vis = FLUX * np.exp(-2 * (np.pi * WIDTH * ARCSEC) ** 2 * (u**2 + v**2))
    vis = vis * np.exp(-2j * np.pi * ARCSEC * (u * EAST + v * NORTH))
    vis += SIGMA * (rng.normal(size=u.shape) + 1j * rng.normal(size=u.shape))
    weight = np.full(u.shape, SIGMA**-2)
    return {"uu": u / 1e3, "vv": v / 1e3, "weight": weight, "data_re": vis.real, "data_im": vis.imag}


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_it_finds_the_source(d, device):
    coords = coordinates.GridCoords(cell_size=0.03, npix=180)
    channel = 4
    dataset = gridding.Gridder(
        coords=coords,
        uu=1e3 * d["uu"][channel],
        vv=1e3 * d["vv"][channel],
        weight=d["weight"][channel],
        data_re=d["data_re"][channel],
        data_im=d["data_im"][channel],
    ).to_pytorch_dataset()
    if device.type == "mps":  # has no float64
        dataset = dataset.float()
    model = SimpleNet(coords=coords, nchan=dataset.nchan).to(device)
    dset = dataset.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model.train()
    history = []
    for _ in range(60):
        model.zero_grad()
        vis = model.forward()
        sky_cube = model.icube.sky_cube
        loss = losses.nll_gridded(vis, dset) + 1e-4 * losses.sparsity(sky_cube) + 1e-4 * losses.TV_image(sky_cube)
        loss.backward()
        optimizer.step()
        history.append(loss.item())

    assert history[0] > 4
    assert history[-1] < 1.1
    sky = model.icube.sky_cube.detach().cpu().double()[0].numpy()
    east, north = coords.sky_coordinates()
    bright = np.where(sky > 0.2 * sky.max(), sky, 0)
    assert (bright * east).sum() / bright.sum() == pytest.approx(EAST, abs=0.03)
    assert (bright * north).sum() / bright.sum() == pytest.approx(NORTH, abs=0.03)
    near = np.hypot(east - EAST, north - NORTH) < 4 * WIDTH
    assert sky[near].sum() * coords.cell_size**2 == pytest.approx(FLUX, rel=0.1)
