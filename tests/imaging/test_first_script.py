"""The script that this project began with: a disk in several channels, its middle one fitted on whatever is there."""

import numpy as np
import pytest
import torch

from firstlight.devices import all_devices
from firstlight.imaging import coordinates, gridding, losses
from firstlight.imaging.observe import channels, observe, uv_track, with_noise
from firstlight.imaging.precomposed import SimpleNet
from firstlight.imaging.skies import protoplanetary_disk, sky_image

COORDS = coordinates.GridCoords(cell_size=0.03, npix=180)
MIDDLE = 1
SIZE = 0.5  # small against the field: averages in cells are then true to 1 %


def sky(frequency):
    """A disk that grows brighter from channel to channel, off-centre, inclined and turned."""
    return protoplanetary_disk(0.25 * (frequency / 230e9) ** 2, size=SIZE)


@pytest.fixture(autouse=True)
def _one_thread():
    """An image as small as this is done nearly as soon by one thread, and sooner where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def cube():
    """Three channels with u and v in kilo-lambda, as old files have them."""
    seen = with_noise(observe(sky, uv_track(n_times=30), channels(230e9, 10e9, 3)), 0.01, seed=4)
    return {
        "uu": seen.uu / 1e3,
        "vv": seen.vv / 1e3,
        "weight": seen.weight,
        "data_re": seen.data.real,
        "data_im": seen.data.imag,
    }


@pytest.mark.parametrize("device", all_devices(), ids=str)
def test_it_finds_the_disk_on_every_device(cube, device):
    middle = {name: values[MIDDLE] for name, values in cube.items()}
    middle["uu"], middle["vv"] = 1e3 * middle["uu"], 1e3 * middle["vv"]
    dataset = gridding.Gridder(coords=COORDS, **middle).to_pytorch_dataset()
    if device.type == "mps":  # has no float64
        dataset = dataset.float()
    dataset = dataset.to(device)
    model = SimpleNet(coords=COORDS, nchan=dataset.nchan).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model.train()
    curve = []
    for _ in range(600):
        model.zero_grad()
        vis = model.forward()
        image = model.icube.sky_cube
        chi2 = losses.nll_gridded(vis, dataset)
        loss = chi2 + 1e-4 * losses.sparsity(image) + 1e-4 * losses.TV_image(image)
        loss.backward()
        optimizer.step()
        curve.append(loss.detach())

    curve = torch.stack(curve).cpu()
    assert curve[0] > 20 * curve[-1]
    assert curve[300:].max() < 1.05 * curve[-1]
    assert chi2.item() == pytest.approx(1, abs=0.1)
    truth = sky_image(sky(230e9), COORDS.cell_size, COORDS.npix)
    found = image.detach().cpu().double()[0].numpy()
    assert np.linalg.norm(found - truth) < 0.2 * np.linalg.norm(truth)
    east, north = COORDS.sky_coordinates()
    disk = np.hypot(east - 0.12, north + 0.2) < 1
    assert found[disk].sum() * COORDS.cell_size**2 == pytest.approx(0.25, rel=0.03)
    # Around it noise adds up, as no pixel can be negative: these regularizers are weak.
    assert 0 < found[~disk].sum() * COORDS.cell_size**2 < 0.06
    bright = np.where(found > 0.3 * found.max(), found, 0)
    assert (bright * east).sum() / bright.sum() == pytest.approx(0.12, abs=0.02)
    assert (bright * north).sum() / bright.sum() == pytest.approx(-0.2, abs=0.02)


def test_kilo_lambda_taken_for_wavelengths_are_refused_with_the_remedy(cube):
    with pytest.raises(ValueError, match="If u and v are in kilo-lambda, multiply them by 1000"):
        gridding.Gridder(coords=COORDS, **{name: values[MIDDLE] for name, values in cube.items()})
