"""Fit an image to one channel of a data cube, on a GPU if there is one.

``python one_channel.py`` simulates a sky; ``python one_channel.py logo_cube.npz`` takes
the cube of MPoL's tutorials, which is at https://zenodo.org/records/4498439.
"""

import sys
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn.functional import softplus

from firstlight_imaging import ExactLikelihood, GridCoords, GriddedNet, fit
from firstlight_imaging.data.gridding import Gridder
from firstlight_imaging.fitting.quality import residual_image
from firstlight_imaging.model import losses
from firstlight_imaging.model.gridded_net import SimpleNet

device = torch.device("cpu")
if torch.accelerator.is_available():  # a GPU of any maker
    device = torch.accelerator.current_accelerator()
print("device:", device)

coords = GridCoords(cell_size=0.03, npix=180)
if len(sys.argv) > 1:
    cube, channel = np.load(sys.argv[1]), 4
    u, v = (1e3 * cube[name][channel] for name in ("uu", "vv"))  # they are in kλ
    weight, re, im = (cube[name][channel] for name in ("weight", "data_re", "data_im"))
else:
    from firstlight_imaging import simulate

    sky = [simulate.Ring(0.25, radius=0.6, width=0.2)]  # Jy and arcsec
    track, channels = simulate.uv_track(n_times=8), simulate.channels(230e9, 5e8, 1)
    made = simulate.with_noise(simulate.observe(sky, track, channels), 0.01, seed=1)
    u, v, weight, data = made.uu[0], made.vv[0], made.weight[0], made.data[0]
    re, im = data.real, data.imag

dataset = Gridder(coords, u, v, weight, re, im).to_pytorch_dataset()
dataset = dataset.to(torch.float32).to(device)  # an Apple GPU has no float64
model = SimpleNet(coords, nchan=1).to(device)  # first the move, then the optimizer
config = {"lr": 0.5, "lambda_sparsity": 1e-4, "lambda_TV": 1e-4, "epochs": 600}
optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])

history = []
for _ in range(config["epochs"]):
    optimizer.zero_grad()
    vis = model()
    sky_cube = model.icube.sky_cube
    chi2 = losses.r_chi_squared_gridded(vis, dataset)
    prior = config["lambda_sparsity"] * losses.sparsity(sky_cube)
    prior = prior + config["lambda_TV"] * losses.TV_image(sky_cube)
    loss = chi2 + prior
    loss.backward()
    optimizer.step()
    history.append(loss.detach())  # .item() would wait for the GPU each time

history = torch.stack(history).tolist()
cells = dataset.mask.sum().item()
print(f"reduced chi²: {chi2.item():.3f} of the averages in {cells} cells")
print(f"flux after these epochs: {coords.cell_size**2 * sky_cube.sum().item():.3f} Jy")

# Better: every visibility and no averages, a fit that knows when to stop, and of some
# strengths the largest that leaves no residual above 5 σ.
npix, vis = coords.npix, re + 1j * im
data = ExactLikelihood(u, v, vis, weight, coords.cell_size, npix, device=device)
tv = partial(losses.TV_image, epsilon=1e-7)
for strength in (1e-2, 5e-3, 2.5e-3):
    faint = partial(softplus, beta=100)  # lets pixels be as faint as noise
    dark = torch.zeros(1, npix, npix)
    model = GriddedNet(coords, base_cube=dark, pixel_mapping=faint).to(device)
    how = {"optimizer": "lbfgs", "lambdas": "exact", "progress": False}
    better = fit(model, data, losses={"tv": (strength, tv)}, **how).image.detach()
    left = np.abs(residual_image(better, data)).max()
    flux = coords.cell_size**2 * better.sum().item()
    print(f"strength {strength:g}: {flux:.3f} Jy, and {left:.1f} σ are left over")
    if left < 5:
        break
if len(sys.argv) == 1:
    print(f"flux of the sky that we simulated: {sky[0].flux:.3f} Jy")

fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
axes[0].semilogy(history)
axes[0].set(xlabel="epoch", ylabel="loss")
for ax, image, title in zip(axes[1:], (sky_cube, better), ("loop", "fit"), strict=True):
    ax.imshow(image[0].detach().cpu(), origin="lower", extent=coords.img_ext)
    ax.set(xlabel="arcsec", title=f"Jy / arcsec², by the {title}")
fig.savefig("one_channel.png")
print("drawn: one_channel.png")
