"""Images that come back: a disk of rings across a field of 5.4 arcsec, seen by 43 antennas."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.fit_loop import fit
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.model.losses import TV_image
from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import protoplanetary_disk, sky_image

COORDS = GridCoords(cell_size=0.03, npix=180)
ALL, SOME = 332, 40  # integrations: of a whole track, and of what is computed here
DISK = protoplanetary_disk(0.25, size=1.7)  # as wide as the field
TRUTH = sky_image(DISK, COORDS.cell_size, COORDS.npix)
# Of the whole track. With fewer visibilities of less noise each, reduced chi² weighs more, and so does λ.
LAMBDA = 1e-4


pytestmark = pytest.mark.slow  # fits to convergence


def seen(sigma):
    """As much as 300 000 visibilities of this noise tell, in fewer."""
    return with_noise(observe(DISK, uv_track(n_times=SOME)), sigma * (SOME / ALL) ** 0.5, seed=1)


def exact(observation, dtype=torch.float32):
    given = (observation.uu, observation.vv, observation.data, observation.weight)
    return ExactLikelihood(*given, COORDS.cell_size, COORDS.npix, dtype=dtype)


def recovered(data, lambdas, strength, dtype=torch.float32, max_iter=250):
    """Fit from zero parameters. The softplus bends at 1/100 Jy/arcsec², so that L-BFGS sees nearly the image itself."""
    start = torch.zeros(1, COORDS.npix, COORDS.npix, dtype=dtype)
    model = GriddedNet(COORDS, base_cube=start, pixel_mapping=partial(softplus, beta=100))
    options = {"optimizer": "lbfgs", "max_iter": max_iter, "tolerance": None, "lambdas": lambdas, "progress": False}
    return fit(model, data, losses={"tv": (strength, TV_image)}, **options)


def nrmse(found):
    return np.linalg.norm(found.image[0].double().numpy() - TRUTH) / np.linalg.norm(TRUTH)


@pytest.mark.parametrize(("sigma", "most"), [(5e-3, 0.12), (30e-3, 0.16)])
def test_the_exact_likelihood_brings_the_disk_back(sigma, most):
    likelihood = exact(seen(sigma))
    found = recovered(likelihood, "exact", LAMBDA * ALL / SOME, max_iter=150)
    assert nrmse(found) <= most
    assert found.terms["chi2"] == pytest.approx(1, abs=0.05)
    assert found.flux[-1, 0] == pytest.approx(0.25, rel=0.03)


def test_float32_arrives_where_float64_does():
    """At S/N that float32 could not hold about a reference far away."""
    observation = seen(0.5e-3)
    double = exact(observation, torch.float64)
    ends = {}
    for dtype in (torch.float32, torch.float64):
        likelihood = exact(observation, dtype)
        found = recovered(likelihood, "exact", LAMBDA * ALL / SOME, dtype, max_iter=150)
        image = found.image.double()
        ends[dtype] = double(image).item() / 2 / observation.data.size + LAMBDA * ALL / SOME * TV_image(image).item()
        assert found.terms["loss"] == pytest.approx(ends[dtype], rel=1e-6)
    assert ends[torch.float32] == pytest.approx(ends[torch.float64], rel=1e-3)
