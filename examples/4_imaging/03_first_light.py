"""
First light: can you see the sky that was observed?
===================================================

*First light* is the first image that a new telescope takes. An interferometer, many
antennas that work as one telescope, takes none: it measures *visibilities*, and an
image has to be fitted to them. `An early tutorial of MPoL`__ fits one in 600 steps on a
GPU, and ends with congratulations. Nobody looks at the image, and no time is given.
Here you fit the same way, on whatever you have, then look, and find what is missing.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to fit an image to visibilities, on any device, in a loop that you can read;
- to judge it: by :math:`\\chi^2`, by its flux, by what is left over, and by the truth;
- why a fit can be as good as it gets and the image still wrong, and how to mend it;
- to predict whether a GPU helps at your size.

**Time:** 20 minutes. **Needs:** any computer. With a GPU, the page fits on it too.
"""

# %%
# Predict
# -------
#
# The image has 180 × 180 pixels, and each is a parameter. One step of the fit makes the
# image from the parameters, and visibilities from the image, by a fast Fourier
# transform (FFT). It compares them with the data, follows the gradient back through all
# of it, and moves every parameter a little. How many operations is that? An FFT of
# :math:`N` numbers takes about :math:`5 N \log_2 N` of them, and there is one forth and
# one back. The rest is some tens of operations a pixel. And how many *kernels*, that
# is, starts of work on a GPU? You can count them: each line of such a loop calls a few
# functions of PyTorch, about 120 in all.

import math

npix = 180
fft = 5 * npix**2 * math.log2(npix**2)
rest = 100 * npix**2
steps, kernels = 600, 120

print(f"{2 * fft / 1e6:.1f} million operations in FFTs")
print(f"{rest / 1e6:.1f} million others, if a pixel takes 100")
print(f"{steps * kernels:,} kernels to start in {steps} steps")

# %%
# A GPU does ten million operations in less time than it takes to start one kernel. So
# at this size it will not compute: it will wait for its next start. A CPU starts a
# function sooner than a GPU starts a kernel. Your prediction: *at 180 pixels a GPU wins
# little or nothing*. You will measure it below.
#
# Observe
# -------
#
# The tutorial downloads its data. Here you observe a sky of your own, a disk with rings
# around a young star, so that you know the truth. There are 43 antennas. Each pair is a
# *baseline*. While the Earth turns, for a quarter of a day, each baseline measures the
# sky's Fourier transform along a track. The noise is 5 mJy in each visibility. (A
# *jansky*, Jy, is the unit of flux: how much of the sky's radio light arrives.)

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.imaging import DataAverager, DirtyImager, GridCoords
from firstlight.imaging.simulation import observe, uv_track, with_noise
from firstlight.imaging.skies import protoplanetary_disk, sky_image

device = best_device()
coords = GridCoords(cell_size=0.03, npix=npix)  # a pixel is 0.03 arcsec wide

disk = protoplanetary_disk(flux=0.25, size=1.7)
seen = with_noise(observe(disk, uv_track()), 5e-3, seed=1)
truth = torch.from_numpy(sky_image(disk, coords.cell_size, npix))

measured = (seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag)
print(f"{seen.data.size:,} visibilities, for {truth.numel():,} pixels; on {device}")

# %%
# The transform back of what was measured is the *dirty image*. It is blurred, and full
# of ripples, for the tracks leave most of the Fourier plane empty. It is no image of
# the sky, but it is the first to look at (:doc:`/tutorials/4_imaging/02_dirty_image`),
# and you need it again below: the dirty image of *residuals*, data minus model, shows
# what a fit has left over.

imager = DirtyImager(coords, *measured)
dirty, _ = imager.get_dirty_image(weighting="briggs", robust=0.5, unit="Jy/arcsec^2")


def left_over(model_vis):
    """Image the residuals, in units of the noise that such an image has."""
    rest = seen.data - model_vis
    imager = DirtyImager(coords, *measured[:3], rest.real, rest.imag)
    image, _ = imager.get_dirty_image(weighting="natural")
    return image[0] * math.sqrt(seen.weight.sum())


# %%
# The fit
# -------
#
# The tutorial sorts the visibilities into the cells of a grid, and averages each cell.
# A model compares its own Fourier transform with these averages. To move the fit to a
# GPU you move both, model and data. That is all: no other line knows of the device.

from firstlight.imaging import GriddedNet, losses

averages = DataAverager(coords, *measured).to_pytorch_dataset()
averages = averages.to(torch.float32).to(device)
model = GriddedNet(coords).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
config = {"epochs": 600, "sparsity": 1e-4, "tv": 1e-4}

# %%
# What is to become small is the *loss*. Its first part says how well the model fits:
# the reduced :math:`\chi^2`, the mean square of data minus model, in units of the
# noise. It is 1 where the model is right and the noise is what you think. The other two
# are the *regularizers*, which say what you expect of an image where the data say
# nothing: little flux (sparsity), and few edges (total variation, TV). How much of them
# is right, :doc:`/tutorials/4_imaging/04_choosing_regularizers` finds out.


def step(model, optimizer):
    optimizer.zero_grad()
    vis = model()
    sky = model.icube.sky_cube
    chi2 = losses.r_chi_squared_gridded(vis, averages)
    loss = chi2 + config["sparsity"] * losses.sparsity(sky)
    loss = loss + config["tv"] * losses.TV_image(sky)
    loss.backward()
    optimizer.step()
    return torch.stack([loss.detach(), chi2.detach(), sky.detach().sum()])


rows = [step(model, optimizer) for _ in range(config["epochs"])]
history = torch.stack(rows).cpu().double()  # the only wait for the device
history[:, 2] *= coords.cell_size**2  # a pixel's flux: Jy/arcsec² times its area

fitted = model.icube.sky_cube.detach().cpu()[0].double()
for epoch in (1, 10, 100, 300, 600):
    loss, chi2, flux = history[epoch - 1].tolist()
    print(f"epoch {epoch:>3}: loss {loss:8.2f}, chi² {chi2:8.2f}, flux {flux:.4f} Jy")

# %%
# The rows stay on the device until the end. ``loss.item()`` in each step would make the
# computer wait for the GPU in each step (:doc:`/tutorials/2_devices/02_queues` counts
# what that costs).
#
# The loss has all but stopped falling. The flux is near the 0.25 Jy of the disk. A loop
# that prints only its loss would end here, with congratulations. Look at the image.

import matplotlib.pyplot as plt

from firstlight.imaging import plot_image


def four(fit, residual, label):
    fig, axes = plt.subplots(2, 2, figsize=(5.6, 5.0), layout="constrained")
    look = {"vmin": 0, "vmax": float(truth.max()), "stretch": "sqrt", "unit": None}
    images = {"truth": truth, "dirty image": dirty[0], "fit": fit}
    for ax, (title, image) in zip(axes.flat, images.items(), strict=False):
        drawn = plot_image(image, coords, ax=ax, **look)
        ax.set_title(title)
    bar = fig.colorbar(drawn, ax=axes[0], label="Jy/arcsec²", shrink=0.9)
    bar.set_ticks([0, 0.05, 0.1, 0.2, 0.3])
    look |= {"vmin": -20, "vmax": 20, "stretch": "linear", "cmap": "PuOr"}
    drawn = plot_image(residual, coords, ax=axes[1, 1], **look)
    axes[1, 1].set_title("left over")
    fig.colorbar(drawn, ax=axes[1], label="times the noise", shrink=0.9)
    fig.set_label(label)


# %%

with torch.no_grad():
    loose = model.cpu().predict_loose_visibilities(*measured[:2]).numpy()
over = left_over(loose)
four(
    fitted,
    over,
    "Truth, dirty image, fit and residuals. The fit shows the rings of the truth, "
    "with a mottled ground. The residuals have a pattern, up to "
    f"{np.abs(over).max():.0f} times the noise.",
)
plt.show()

# %%
# The rings are there: first light. But look at the last panel. Noise alone would stay
# within some 4 times itself, without a pattern.


def fidelity(image):
    """Compare with the truth: 0 is perfect."""
    return float((image - truth).norm() / truth.norm())


print(f"left over: up to {np.abs(over).max():.0f} times the noise")
print(f"reduced chi²: {history[-1, 1]:.2f}, and right would be 1")
print(f"the image is off by {fidelity(fitted):.0%} of the truth")

# %%
# What is wrong?
# --------------
#
# A large :math:`\chi^2` has three usual causes. The fit has not arrived: but the loss
# stands still. The noise is larger than the weights say: but you made it yourself. Or
# *no image can fit*. You have what no astronomer has, the truth. Ask how well that
# fits.

from firstlight.imaging import FourierCube
from firstlight.imaging.coordinates import sky_to_packed

cube = sky_to_packed(truth[None])
with torch.no_grad():
    of_truth = losses.r_chi_squared_gridded(
        FourierCube(coords)(cube), averages.cpu().to(torch.float64)
    )
print(f"reduced chi² of the truth: {of_truth:.2f}")

# %%
# *The truth fits worse than your fit.* So the data are wrong: not the visibilities, but
# their averages. The model is compared at the centre of each cell. The visibilities lie
# anywhere in it, and over the width of a cell the transform of a disk that nearly fills
# the image changes. The more visibilities you average, the smaller the noise of the
# average, and the more such an error weighs. The fit has bent the image to suit the
# averages, away from the truth. More steps would bend it further.
#
# Without cells
# -------------
#
# Why were there cells? Because comparing each visibility by itself takes long, in each
# step. But it need not be done in each step. The sum over all visibilities of
#
# .. math::
#
#     \chi^2(I) = \sum_k w_k \left| D_k - V_k(I) \right|^2
#
# is a quadratic function of the image. What it needs to know of the visibilities fits
# into three things: a number, an image, and the response of the array to a point, twice
# as wide. They are made once, in one pass over the visibilities. After that a step
# takes one pair of FFTs, *for any number of visibilities*, and nothing is averaged.

from firstlight.imaging import ExactLikelihood

likelihood = ExactLikelihood(
    seen.uu,
    seen.vv,
    seen.data,
    seen.weight,
    coords.cell_size,
    npix,
    device=device,
)
sum_of_truth = likelihood(truth[None].float().to(device)).item()
print(f"reduced chi² of the truth: {sum_of_truth / 2 / seen.data.size:.4f}")

# %%
# Check
# -----
#
# Is that the sum? The same by its definition: each visibility of an image, added up one
# by one in float64. Take an image that is nothing like the truth, and a few hundred
# visibilities, an odd number.

few = slice(0, 299_796, 997)
u, v, weight = (values[0, few] for values in measured[:3])
data = seen.data[0, few]
rng = np.random.default_rng(seed=2)
image = rng.uniform(size=(35, 36))
image = np.concatenate([image, np.zeros((1, 36))])  # 36 × 36, lopsided

small = GridCoords(cell_size=0.03, npix=36)
east, north = small.sky_coordinates()
arcsec = np.pi / 180 / 3600
turns = (u[:, None] * east.ravel() + v[:, None] * north.ravel()) * arcsec
by_hand = np.exp(-2j * np.pi * turns) @ image.ravel() * small.cell_size**2
chi2 = np.sum(weight * np.abs(data - by_hand) ** 2)

quick = ExactLikelihood(u, v, data, weight, 0.03, 36, dtype=torch.float64)
error = abs(quick(torch.from_numpy(image)[None]).item() / chi2 - 1)
assert error < 1e-10, error
print(f"{data.size} visibilities: relative error {error:.0e}")

# %%
# The sum is right. Now fit with it. ``fit`` is the loop from above, with a rule when to
# stop, and with L-BFGS in place of Adam, which finds its way in fewer steps. One
# regularizer is enough.

from functools import partial

from torch.nn.functional import softplus

from firstlight.imaging import fit

mapping = partial(softplus, beta=100)  # what makes a positive pixel of a parameter
zeros = torch.zeros(1, npix, npix)
better = GriddedNet(coords, base_cube=zeros, pixel_mapping=mapping).to(device)
found = fit(
    better,
    likelihood,
    losses={"tv": (1e-4, losses.TV_image)},
    optimizer="lbfgs",
    lambdas="exact",
    max_iter=50,
    progress=False,
)
sky = found.image.cpu()[0].double()
print(found)

# %%
# On the same scales as before:

with torch.no_grad():
    better.cpu()()
    loose = better.predict_loose_visibilities(*measured[:2]).numpy()
over_exact = left_over(loose)
fig, axes = plt.subplots(1, 2, figsize=(5.6, 2.7), layout="constrained")
look = {"vmin": 0, "vmax": float(truth.max()), "stretch": "sqrt", "unit": None}
plot_image(sky, coords, ax=axes[0], **look)
axes[0].set_title("fit without cells")
look |= {"vmin": -20, "vmax": 20, "stretch": "linear", "cmap": "PuOr"}
drawn = plot_image(over_exact, coords, ax=axes[1], **look)
axes[1].set_title("left over")
fig.colorbar(drawn, ax=axes, label="times the noise", shrink=0.9)
fig.set_label(
    "The fit without cells is as smooth as the truth. What is left over has no "
    f"pattern: it is noise, at most {np.abs(over_exact).max():.1f} times its size."
)
plt.show()

# %%
# Side by side:

print("                cells    exact")
print(f"reduced chi²  {history[-1, 1]:7.2f}  {found.terms['chi2']:7.2f}")
print(f"left over     {np.abs(over).max():7.1f}  {np.abs(over_exact).max():7.1f}")
print(f"flux in Jy    {history[-1, 2]:7.3f}  {found.flux[-1, 0]:7.3f}")
print(f"off by        {fidelity(fitted):7.1%}  {fidelity(sky):7.1%}")
assert fidelity(sky) < fidelity(fitted)

# %%
# Now the residuals are noise, and there is nothing left to find in the data. What the
# image is still off by is what the antennas did not see.
#
# For any number of visibilities
# ------------------------------
#
# A step without cells does not care how many visibilities there are. Is that so? Time
# it for ten thousand, for a hundred thousand and for all. Beside it, time the usual way
# to do without cells: a *non-uniform FFT* (NUFFT) computes each visibility where it
# lies, in each step.


def step_for(count, by_nufft):
    some = slice(None, None, seen.data.size // count)
    u, v, data, weight = (
        values[:, some] for values in (seen.uu, seen.vv, seen.data, seen.weight)
    )
    net = GriddedNet(coords)
    adam = torch.optim.Adam(net.parameters(), lr=0.5)
    quick = ExactLikelihood(u, v, data, weight, coords.cell_size, npix)
    observed, sure = torch.from_numpy(data.copy()), torch.from_numpy(weight.copy())

    def one_step():
        adam.zero_grad()
        net()
        if by_nufft:
            vis = net.predict_loose_visibilities(u, v)
            chi2 = losses.r_chi_squared(vis, observed, sure)
        else:
            chi2 = quick(net.icube.sky_cube) / (2 * data.size)
        chi2.backward()
        adam.step()
        return chi2.item()

    return one_step


# %%
# Both compute the same number, so check that first.

counts = (10_000, 100_000, 299_796)
number = Bench("any-number", budget=1.7)
for count in counts:
    both = {"NUFFT": step_for(count, True), "exact": step_for(count, False)}
    first = [call() for call in both.values()]
    assert abs(first[0] / first[1] - 1) < 1e-4, first
    for name, call in both.items():
        number.time(f"{name}, {count:,}", call, n=count)
number.show()

# %%

fig, ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
many = np.array([1e4, 1e8])
looks = {"NUFFT": ("o", "#d9762b"), "exact": ("s", "#2e7ab0")}
took = {
    name: 1e3 * np.array([number[f"{name}, {count:,}"].median for count in counts])
    for name in looks
}
slope = (took["NUFFT"][-1] - took["NUFFT"][0]) / (counts[-1] - counts[0])
models = {"NUFFT": took["NUFFT"][0] + slope * (np.geomspace(*many) - counts[0])}
models["exact"] = np.full(50, np.median(took["exact"]))
for name, (marker, colour) in looks.items():
    ax.plot(np.geomspace(*many), models[name], "--", color=colour, lw=1.2)
    look = {"ls": "", "marker": marker, "color": colour, "ms": 9, "mec": "black"}
    ax.plot(counts, took[name], label=name, **look)
ax.plot([], [], "--", color="black", lw=1.2, label="model")
ax.set(xscale="log", yscale="log", xlabel="visibilities", ylabel="ms a step")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
fig.set_label(
    "Time of a step against the number of visibilities. With the NUFFT it grows by a "
    f"factor of {took['NUFFT'][-1] / took['NUFFT'][0]:.1f} from 10 000 to 299 796; "
    f"exact, by {took['exact'][-1] / took['exact'][0]:.2f}. Dashed models go on to "
    "a hundred million: one climbs, one stays level."
)
plt.show()

# %%
# What grows is the set-up, one pass over the visibilities. The steps stay as they are.
# :doc:`/tutorials/4_imaging/07_off_the_grid` goes on from here, with sliders to drag.
#
# There is a catch. :math:`\chi^2` is a small rest of large terms that cancel. If the
# signal is far above the noise, ``float32`` has not digits enough for them. The cure is
# to measure from a *reference* image near the answer, not from nothing: then the terms
# are small themselves. ``recentre`` makes an image the reference, and ``fit`` does it
# when needed. Here is the error of :math:`\chi^2` of the truth, from nothing and from a
# reference that is one percent too faint:

clean, near = observe(disk, uv_track(n_times=9)), truth[None].float()
print("noise in mJy   from nothing   re-centred")
digits = {}
for sigma in (30e-3, 5e-3, 0.5e-3, 0.05e-3):
    noisy = with_noise(clean, sigma, seed=1)
    arrays = (noisy.uu, noisy.vv, noisy.data, noisy.weight, coords.cell_size, npix)
    right = ExactLikelihood(*arrays, dtype=torch.float64)(near.double()).item()
    rough = ExactLikelihood(*arrays)
    from_nothing = rough(near).item()
    rough.recentre(0.99 * near)
    digits[sigma] = [abs(x / right - 1) for x in (from_nothing, rough(near).item())]
    print(f"{1e3 * sigma:>12} {digits[sigma][0]:>14.0e} {digits[sigma][1]:>12.0e}")

# %%
# Measure
# -------
#
# How long does a step take, and where? ``bench`` times single steps of the loop and of
# a fit without cells, at 180 × 180 and at 512 × 512 pixels: on the CPU with all its
# cores, and on your GPU if you have one.


def make_step(on, side, exact):
    grid = GridCoords(cell_size=5.4 / side, npix=side)
    net = GriddedNet(grid).to(on)
    adam = torch.optim.Adam(net.parameters(), lr=0.5)
    if exact:
        arrays = (seen.uu, seen.vv, seen.data, seen.weight)
        data = ExactLikelihood(*arrays, grid.cell_size, side, device=on)
    else:
        cells = DataAverager(grid, *measured).to_pytorch_dataset(False)
        data = cells.to(torch.float32).to(on)

    def one_step():
        adam.zero_grad()
        vis = net()
        sky = net.icube.sky_cube
        if exact:
            loss = data(sky) / (2 * seen.data.size)
        else:
            loss = losses.r_chi_squared_gridded(vis, data)
        loss = loss + 1e-4 * losses.sparsity(sky) + 1e-4 * losses.TV_image(sky)
        loss.backward()
        adam.step()

    return one_step


# %%

bench = Bench("first-light", budget=1.2)
for side in (npix, 512):
    for kind in ("cells", "exact"):
        cpu_step = make_step(torch.device("cpu"), side, kind == "exact")
        bench.time(f"{kind}, {side}, CPU", cpu_step, n=side**2)
        if device.type != "cpu":
            gpu_step = make_step(device, side, kind == "exact")
            bench.time(f"{kind}, {side}, GPU", gpu_step, n=side**2, device=device)
bench.show()

# %%
# As a picture:

bench.plot()

# %%
# Compare with your prediction. From 180 to 512 pixels there are eight times as many,
# and the CPU takes longer by about that. A GPU waits for its starts at 180, and hardly
# takes longer at 512: it begins to win where an image is large enough to keep it busy.
# On the newest GPU on record, with cells:
# :timing:`first-light speedup "cells, 180, GPU"/"cells, 180, CPU" @gpu` at 180 pixels,
# and :timing:`first-light speedup "cells, 512, GPU"/"cells, 512, CPU" @gpu` at 512.
#
# And the exact likelihood: its pair of FFTs is twice as wide, so four times as large.
# That is the whole price.

for side in (npix, 512):
    cells, exact = (bench[f"{kind}, {side}, CPU"].median for kind in ("cells", "exact"))
    print(
        f"{side} pixels: without cells, a step takes {exact / cells:.1f} times as long"
    )

# %%
# Where this stops being true
# ---------------------------
#
# - *A small source.* A point at the centre has the same visibility everywhere. The less
#   of the field a source fills, the less its transform changes within a cell, and the
#   smaller the error of averaging. More pixels of the same size make smaller cells too.
# - *Little data, or much noise.* If the noise of an average is larger than the error of
#   averaging, you will not see the difference.
# - *Large images, many channels, sweeps.* There a GPU has enough to do at once, and
#   wins.
# - *The truth.* You had it here. With real data you have :math:`\chi^2`, the flux and
#   the residuals: enough to find out that something is wrong, as you just did.
# - *Noise and weights.* :math:`\chi^2` is 1 only if the weights tell the truth. Real
#   ones are often off by a factor: check them first, as
#   :doc:`/tutorials/4_imaging/09_your_own_data` does.
#
# Exercise
# --------
#
# The image is in Jy/arcsec². What is its flux in Jy? Write a function of an image, as
# a tensor or an array of shape (channels, rows, columns), and of the width of its
# pixels in arcsec. It gives one number for each channel.


def flux(image, cell_size): ...


# %%
# ``check`` tries it on images whose flux is known.


def check(answer):
    rng = np.random.default_rng(seed=3)
    cube = rng.uniform(size=(3, 4, 6))
    point = np.zeros((1, 5, 5))
    point[0, 1, 3] = 100.0
    cases = [
        (point, 0.1, "a pixel has an area: 0.1 arcsec wide, it has 0.01 arcsec²"),
        (point, 2.0, "add the pixels up: do not take their mean"),
        (cube, 1.0, "each channel has a flux of its own"),
        (-point, 0.1, "a pixel below zero counts, with its sign"),
    ]
    for image, cell_size, hint in cases:
        expected = image.sum((1, 2)) * cell_size**2
        try:
            got = np.asarray(answer(image, cell_size), float)
        except Exception as error:
            return f"flux raised {type(error).__name__}: {error}"
        if got.shape != expected.shape:
            return (
                f"flux has the shape {got.shape}, not {expected.shape}. Hint: {hint}."
            )
        if not np.allclose(got, expected, rtol=1e-5):
            return f"flux is {got} and should be {expected}. Hint: {hint}."
    return "Right: the scale of your images is right from now on."


print(check(flux))

# %%

# solution


def flux_solution(image, cell_size):
    return image.sum((1, 2)) * cell_size**2


print(check(flux_solution))

# %%
# Three lines to remember
# -----------------------

print("1. Look: at the image, and at what is left over, in units of its noise.")
print(
    f"2. A fit that has settled can be wrong: chi² stood at {history[-1, 1]:.1f}, and"
)
print(f"   at {of_truth:.1f} for the truth itself. The averages were to blame.")
print(f"3. Without cells, chi² is {found.terms['chi2']:.2f}, and the image off by")
print(f"   {fidelity(sky):.0%}, not {fidelity(fitted):.0%}, whatever the device.")
