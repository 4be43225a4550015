"""
Off the grid: how many visibilities can you afford?
===================================================

In :doc:`/tutorials/4_imaging/03_first_light` the averages in cells spoiled an image,
and it got better when each visibility counted by itself. There were 300 000. An array
with many antennas, many channels and many nights takes a hundred million. Can each
still count?

**You will learn**

- three ways to compare an image with every visibility, and what each costs in time and
  in memory, from ten thousand visibilities to a hundred million;
- what the cells cost instead: an error that grows with the data;
- how to fit what changes the visibilities themselves, such as the phases of antennas,
  from a few of them at a time;
- why ``float32`` loses :math:`\\chi^2` when the signal is strong, and how to keep it.

**Time:** 20 minutes. **Needs:** any computer. With an NVIDIA GPU and the package
cufinufft, the page goes on to a hundred million, or as far as the memory reaches.
"""

# %%
# Predict
# -------
#
# Each step of a fit asks for the sum over all visibilities,
#
# .. math::
#
#     \chi^2(I) = \sum_k w_k \left| D_k - V_k(I) \right|^2 ,
#
# and for its gradient. There are three ways:
#
# - *NUFFT.* The non-uniform fast Fourier transform predicts every visibility where it
#   lies: an FFT of the image on a grid twice as wide, then for each visibility a
#   weighted sum over the nearest cells, 7 × 7 of them for six digits. The gradient goes
#   the same way back.
# - *Mini-batches.* The same, for a few visibilities at a time, others in each step.
# - *Exact.* :math:`\chi^2` is a quadratic function of the image. Its coefficients are
#   worked out once. After that a step is one pair of FFTs, twice as wide as the image,
#   and does not look at the visibilities at all.
#
# Count the operations of a step, for an image of 256 × 256 pixels:

import math

npix, cells, batch = 256, 7 * 7, 4096
pair = 2 * 5 * (2 * npix) ** 2 * math.log2((2 * npix) ** 2)  # operations of two FFTs


def operations(nvis):
    return pair + 2 * 8 * cells * nvis  # forth and back; complex times real, and add


print("visibilities   NUFFT     mini-batch   exact   (million operations)")
for power in range(4, 9):
    counts = operations(10**power), operations(batch), pair / 2
    nufft, some, exact = (f"{count / 1e6:,.0f}" for count in counts)
    print(f"{10**power:>12,} {nufft:>7} {some:>14} {exact:>7}")

# %%
# (The exact form needs half: its FFTs are of real numbers.) So at ten thousand
# visibilities the three should cost about the same, and at a million the NUFFT should
# take several times as long. At a hundred million it has no chance. The other two do
# not care.
#
# Observe, one night or a hundred
# -------------------------------
#
# A night gives 100 000 visibilities here. Ten nights follow the same tracks with other
# noise: a million. With a GPU there are a thousand nights, if it has room for them:
# ``by_nufft`` below keeps them all there, and ``plan`` says what the exact form needs
# besides.
#
# But a GPU does NUFFTs only with the package cufinufft, which you have to install.
# Without it, the CPU does them. Then the rows *NUFFT* and *mini-batch* below time the
# CPU, with the way there and back, whatever device stands beside them. So does the
# set-up of the exact form.

from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.devices import card
from firstlight.imaging import ExactLikelihood, GridCoords, MiniBatches, plan
from firstlight.imaging.nufft import exact_place, visibilities
from firstlight.imaging.simulation import alma_antennas, observe, uv_track
from firstlight.imaging.skies import protoplanetary_disk, sky_image

device = best_device()
on_gpu = device.type == "cuda" and find_spec("cufinufft") is not None


def has_room(nvis, there=128, here=256):
    """Tell if they fit, with so many bytes for each on the GPU, and on the host."""
    free, host = torch.cuda.mem_get_info(device)[0], card("cpu").memory_bytes
    peak = plan(npix, 1, nvis, device, memory=free).peak
    return peak + there * nvis <= free and here * nvis <= (host or math.inf)


most = max([10**6] + [n for n in (10**7, 10**8) if on_gpu and has_room(n)])
print(f"up to {most:,} visibilities; NUFFTs on the {'GPU' if on_gpu else 'CPU'}")

# %%

coords = GridCoords(cell_size=5.4 / npix, npix=npix)
disk = protoplanetary_disk(flux=0.25, size=1.7)
truth = torch.from_numpy(sky_image(disk, coords.cell_size, npix))[None]
night = observe(disk, uv_track(n_times=111))
sigma = 5e-3

# %%


def observed(nvis, seed=1):
    """Give u, v, data and weights of so many visibilities: night after night."""
    rng = np.random.default_rng(seed)
    nights = -(-nvis // night.data.size)
    once = slice(None, None, max(1, night.data.size // nvis))
    u, v, clean = (
        np.tile(values[0, once], nights)[:nvis]
        for values in (night.uu, night.vv, night.data)
    )
    noise = rng.normal(scale=sigma, size=(2, u.size))
    return u, v, clean + noise[0] + 1j * noise[1], np.full(u.size, sigma**-2)


# %%
# Check
# -----
#
# Do the three ways compute the same number? Try 299 visibilities, an odd number, and
# an image that is nothing like the truth, against the sum by its definition, in
# ``float64``.

u, v, data, weight = observed(299)
image = torch.zeros(1, 36, 36, dtype=torch.float64)
image[0, :35, 5:] = torch.from_numpy(np.random.default_rng(2).uniform(size=(35, 31)))
east, north = GridCoords(cell_size=0.03, npix=36).sky_coordinates()
turns = (u[:, None] * east.ravel() + v[:, None] * north.ravel()) * np.pi / 180 / 3600
by_hand = np.exp(-2j * np.pi * turns) @ image[0].numpy().ravel() * 0.03**2
right = np.sum(weight * np.abs(data - by_hand) ** 2)

predicted = visibilities(image, u, v, 0.03).numpy()
likelihood = ExactLikelihood(u, v, data, weight, 0.03, 36, dtype=torch.float64)
batches = MiniBatches(u, v, data, weight, 0.03, size=23, seed=1)
parts = [batches.chi_squared(image, at).item() * len(at) / 299 for at in batches]
ways = {
    "NUFFT": np.sum(weight * np.abs(data - predicted) ** 2),
    "exact": likelihood(image).item(),
    f"{len(parts)} mini-batches": sum(parts),
}
for name, chi2 in ways.items():
    assert abs(chi2 / right - 1) < 1e-10, name
    print(f"{name:>15}: relative error {abs(chi2 / right - 1):.0e}")

# %%
# A mini-batch alone gives an *estimate*: its own part of the sum, times the number of
# all visibilities over its own. It scatters, but it is right on average: *unbiased*.
# That is why the parts add up.
#
# Measure
# -------
#
# A step in ``float32``, the gradient included, with each way. For the NUFFT, the
# visibilities wait on the device.

from time import perf_counter

steps = Bench("off-the-grid", budget=1.5)
setup, exact_of = {}, {}


def a_step(chi_squared):
    sky = truth.float().to(device)

    def step():
        image = sky.clone().requires_grad_()
        chi_squared(image).sum().backward()
        return image.grad

    return step


def by_nufft(u, v, data, weight):
    u, v = (torch.from_numpy(x).to(exact_place(device)) for x in (u, v))
    data = torch.from_numpy(data).to(device, torch.complex64)
    weight = torch.from_numpy(weight).to(device, torch.float32)

    def chi_squared(image):
        rest = data - visibilities(image, u, v, coords.cell_size)
        return weight * (rest.real.square() + rest.imag.square())

    return chi_squared


# %%
# (``exact_place`` is the CPU for Apple's GPUs, which have no ``float64``.) The set-up
# of the exact form is timed once for each number.


def measure_all(nvis):
    seen = observed(nvis)
    grid = coords.cell_size, npix
    begin = perf_counter()
    exact_of[nvis] = ExactLikelihood(*seen, *grid, device=device)
    setup[nvis] = perf_counter() - begin
    some = MiniBatches(*seen, coords.cell_size, size=batch, seed=1)
    at = next(iter(some))
    ways = {
        "NUFFT": by_nufft(*seen),
        "mini-batch": lambda image: some.chi_squared(image, at),
        "exact": exact_of[nvis],
    }
    for name, way in ways.items():
        steps.time(f"{name}, {nvis:,}", a_step(way), n=nvis, device=device)


counts = [10**power for power in range(4, 9) if 10**power <= most]
for nvis in counts:
    measure_all(nvis)
steps.show()

# %%
# What stays in memory? For the NUFFT, each visibility: two phases, the datum, its
# weight, the prediction, the residual and its gradient. For the exact form, after the
# set-up, only images: the kernel, the padded FFT forth and back, and a few of the
# image's own size. For a batch, next to nothing.

bytes_each = 2 * 4 + 8 + 4 + 8 + 8 + 8
exact_bytes = 4 * (2 * npix) ** 2 * (1 / 2 + 2) + 4 * 4 * npix**2
keeps = {
    "NUFFT": lambda nvis: bytes_each * nvis + 8 * (2 * npix) ** 2,
    "mini-batch": lambda _: bytes_each * batch + 8 * (2 * npix) ** 2,
    "exact": lambda _: exact_bytes,
}

# %%
# And the error? The ways without cells agree with the definition. The averages in cells
# do not. Ask each how well the *truth* fits: reduced :math:`\chi^2` should be 1.

from firstlight.imaging import DataAverager, FourierCube
from firstlight.imaging.coordinates import sky_to_packed
from firstlight.imaging.losses import r_chi_squared_gridded

of_truth = {"cells": {}, "exact": {}}
for nvis in counts:
    u, v, data, weight = observed(nvis)
    averager = DataAverager(coords, u, v, weight, data.real, data.imag)
    averages = averager.to_pytorch_dataset(check_visibility_scatter=False)
    packed = FourierCube(coords)(sky_to_packed(truth))
    of_truth["cells"][nvis] = r_chi_squared_gridded(packed, averages).item()
    exact_of[nvis].recentre(truth.float().to(device))
    chi2 = exact_of[nvis](truth.float().to(device)).item()
    of_truth["exact"][nvis] = chi2 / (2 * data.size)
    print(
        f"{nvis:>11,}: {of_truth['cells'][nvis]:7.2f} in cells, "
        f"{of_truth['exact'][nvis]:.3f} exact"
    )

# %%
# The cells get worse with every night. Their error is one of the *method*: the model is
# compared at the centre of a cell, and the data lie anywhere in it. The more data, the
# smaller their noise, and the more that error weighs.

looks = {
    "NUFFT": ("o", "#d9762b"),
    "mini-batch": ("^", "#3a8f5a"),
    "exact": ("s", "#2e7ab0"),
    "cells": ("D", "#8a63b3"),
}
took = {
    name: {nvis: steps[f"{name}, {nvis:,}"].median for nvis in counts} for name in keeps
}
first, last = counts[0], counts[-1]
slope = (took["NUFFT"][last] - took["NUFFT"][first]) / (last - first)
lines = {name: (float(np.median([*took[name].values()])), 0.0) for name in keeps}
lines["NUFFT"] = took["NUFFT"][first] - slope * first, slope


def panel(ax, values, line, label):
    for name, points in values.items():
        mark, colour = looks[name]
        ax.plot(*zip(*points.items(), strict=True), mark, color=colour, mec="black")
        if line:
            ax.plot(many, line(name), "--", color=colour, lw=1.2)
    ax.set(xscale="log", yscale="log", ylabel=label)
    ax.spines[["top", "right"]].set_visible(False)


# %%

many = np.geomspace(1e4, 1e8)
fig, axes = plt.subplots(3, sharex=True, figsize=(7.6, 6.8), layout="constrained")
panel(axes[0], took, lambda name: lines[name][0] + lines[name][1] * many, "s a step")
panel(axes[1], {}, None, "bytes kept")
for name, keep in keeps.items():
    axes[1].plot(many, [keep(n) for n in many], "--", color=looks[name][1])
panel(axes[2], of_truth, None, "χ² of the truth")
axes[2].set(xlabel="visibilities", xlim=(6e3, 1.6e8))
handles = [
    plt.Line2D([], [], marker=m, color=c, mec="black") for m, c in looks.values()
]
fig.legend(handles, looks, loc="outside upper center", ncols=4, frameon=False)
fig.set_label(
    "Against the number of visibilities: the time of a step and the memory climb with "
    "the NUFFT, and stay level exact and with mini-batches. The reduced chi² of the "
    f"truth is {of_truth['cells'][last]:.0f} in cells at {last:,} visibilities, and "
    f"{of_truth['exact'][last]:.2f} exact."
)
plt.show()

# %%
# The NUFFT's step climbs in proportion to the visibilities, as predicted. The other two
# stay level. A batch of 4096 costs as much as ten thousand visibilities do, as the FFTs
# and the start of each call are most of it. But those are more than was predicted: by
# operations alone, a NUFFT of ten thousand would be closer to the exact form.

times = took["NUFFT"][first] / took["exact"][first]
print(f"NUFFT over exact, {first:,} visibilities: {times:.1f} times as long,")
print(f"by operations {2 * operations(first) / pair:.1f} times")

# %%
# (A NUFFT also sorts its visibilities, and its FFTs are of complex numbers, in each
# call.)
#
# The exact form has its price at the beginning: one pass over all visibilities, in
# ``float64``. It is paid back within a few steps.

for nvis in counts:
    saved = took["NUFFT"][nvis] - took["exact"][nvis]
    print(
        f"{nvis:>11,} visibilities: set up in {setup[nvis]:.2f} s, "
        f"paid back after {max(1, math.ceil(setup[nvis] / saved)):,} steps"
    )

threads = torch.get_num_threads()
torch.set_num_threads(1)  # more gain nothing on images as small as those below

# %%
# When the visibilities change
# ----------------------------
#
# What are mini-batches for, then? The coefficients of the exact form belong to weights
# and baselines that stay. Suppose they do not: the air above each antenna delays its
# signal, and turns the *phase* of its visibilities by an angle that nobody knows. You
# can fit the 43 angles along with the image, but then the visibilities are others after
# each step. Here is such an observation, and what an image looks like that knows
# nothing of the angles. (Here they stay for hours. ALMA's change within minutes, often
# faster: there, take other angles for each short while. The method is the same.)

from firstlight.imaging import GriddedNet, fit
from firstlight.imaging.losses import TV_image

small = GridCoords(cell_size=0.042, npix=64)
source = protoplanetary_disk(flux=0.25, size=0.85)
target = torch.from_numpy(sky_image(source, small.cell_size, 64))
seen = observe(source, uv_track(n_times=111))
rng = np.random.default_rng(4)
angles = rng.normal(scale=0.5, size=43)
one, other = seen.antennas.T
noise = rng.normal(scale=sigma, size=(2, one.size))
turned = seen.data[0] * np.exp(1j * (angles[one] - angles[other]))
arrays = [seen.uu[0], seen.vv[0], turned + noise[0] + 1j * noise[1]]
arrays.append(np.full(one.size, sigma**-2))


def image_of(found):
    """Fit an image by the exact form, with these angles of the antennas."""
    factor = np.exp(1j * (found[one] - found[other]))
    exact = ExactLikelihood(*arrays, small.cell_size, 64, factor=factor, device=device)
    net = GriddedNet(small).to(device)
    tv = {"tv": (1e-4, TV_image)}
    options = {"lambdas": "exact", "lr": 0.3, "max_iter": 150, "progress": False}
    result = fit(net, exact, losses=tv, **options)
    image = result.image[0].cpu().double()
    return result.chi2, float((image - target).norm() / target.norm()), image


chi2_before, off_before, before = image_of(np.zeros(43))
print(f"angles ignored: chi² {chi2_before[-1]:.2f}, image off by {off_before:.0%}")

# %%
# Now fit both. Each step draws other visibilities, and pays for those alone.

net = GriddedNet(small).to(device)
angle = torch.zeros(43, device=device, requires_grad=True)
groups = [{"params": net.parameters(), "lr": 0.3}, {"params": [angle], "lr": 0.03}]
adam = torch.optim.Adam(groups)
few = MiniBatches(*arrays, small.cell_size, size=2048, seed=1)
history = []
for _ in range(6):
    for at in few:  # a pass: each visibility once
        adam.zero_grad()
        net()
        phase = angle[one[at]] - angle[other[at]]
        factor = torch.polar(torch.ones_like(phase), phase)
        sky = net.icube.sky_cube
        chi2 = few.chi_squared(sky, at, factor=factor).sum() / (2 * one.size)
        (chi2 + 1e-4 * TV_image(sky)).backward()
        adam.step()
        history.append(chi2.detach())

found = angle.detach().cpu().double().numpy()
print(f"{len(history)} steps, or 6 passes: chi² about {history[-1].item():.2f}")

# %%
# How good are the angles? All alike are no phase at all. And a gradient over the array
# looks like a shift of the image, so the data hardly tell the two apart. Take both out.


def phases_alone(angles):
    """Take away what all antennas share, and a gradient over the ground."""
    east, north, _ = alma_antennas().T
    plane = np.stack([np.ones_like(east), east, north], axis=1)
    return angles - plane @ np.linalg.lstsq(plane, angles, rcond=None)[0]


wrong, there = phases_alone(found - angles), phases_alone(angles)
print(
    f"angles off by {np.degrees(wrong.std()):.1f}°, of {np.degrees(there.std()):.0f}°"
)

# %%
# So hand over. With the angles found, the visibilities no longer change, and the exact
# form finishes the image.

chi2_after, off_after, after = image_of(found)
chi2_known, off_known, _ = image_of(angles)
print("                 chi²   off by")
print(f"angles ignored {chi2_before[-1]:6.2f} {off_before:8.1%}")
print(f"angles found   {chi2_after[-1]:6.2f} {off_after:8.1%}")
print(f"angles known   {chi2_known[-1]:6.2f} {off_known:8.1%}")
assert off_after < off_before / 3

# %%

from firstlight.imaging import DirtyImager, fit_beam, plot_image

imager = DirtyImager(small, *arrays[:2], arrays[3], turned.real, turned.imag)
beam = fit_beam(imager.get_dirty_beam("briggs", robust=0.5)[0], small.cell_size)
skies = {"truth": target, "angles ignored": before, "angles found": after}
fig, axes = plt.subplots(1, 3, figsize=(7.6, 2.9), layout="constrained")
for ax, (title, sky) in zip(axes, skies.items(), strict=True):
    look = {"vmin": 0, "vmax": float(target.max()), "stretch": "sqrt", "unit": None}
    look |= {"scale_bar": 0.5} if title == "truth" else {"beam": beam}
    drawn = plot_image(sky, small, ax=ax, **look)
    ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
fig.colorbar(drawn, ax=axes, label="Jy/arcsec²", ticks=[0, 0.1, 0.4, 1], shrink=0.8)
fig.set_label(
    "A disk with rings: as it is; with angles ignored, its outer ring broken up; and "
    f"with the angles found, off by {off_after:.0%}."
)
plt.show()

# %%

fig, ax = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
estimates = torch.stack(history).cpu().numpy()
late = estimates[-50:]
ax.plot(1 + np.arange(len(estimates)), estimates, ".", color="#3a8f5a", label="batches")
ax.plot(1 + np.arange(len(chi2_after)), chi2_after, color="#2e7ab0", label="exact")
ax.axhline(1, color="#8a9199", ls="--")
ax.set(xscale="log", yscale="log", xlabel="step", ylabel="reduced χ²")
ax.set_yticks([1, 3, 10, 30], ["1", "3", "10", "30"])
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
fig.set_label(
    "Reduced chi² against the step. Mini-batches, which fit angles and image, fall to "
    f"{np.median(late):.2f} and scatter by {late.std():.2f} from there on. The exact "
    "form, which goes on with the angles, falls smoothly to 1."
)
plt.show()

# %%
# Near its end a fit by batches does not settle: each pulls another way. The exact form
# does. Fit by batches what changes the visibilities, and by the exact form the rest.
#
# When the signal is strong
# -------------------------
#
# :math:`\chi^2` is a small rest of large terms: what the data hold, minus what the
# model explains. If the source is a thousand times as strong as the noise, the terms
# are a million times as large as the rest, and ``float32`` has seven digits. The cure
# is to measure from a *reference* image near the answer: ``recentre`` makes an image
# the reference, and ``fit`` does it when needed.
#
# To see it, observe a sky of 64 × 64 pixels with less and less noise, so that the truth
# fits perfectly each time. Then walk along a line of images through the truth, each a
# little brighter than the one before. The right :math:`\chi^2` is a parabola.

from functools import partial

from torch.nn.functional import softplus

grid = small.cell_size, 64
seen = observe(source, uv_track(n_times=20))
baselines = seen.uu[0], seen.vv[0]
clean = visibilities(target[None], *baselines, small.cell_size)[0].numpy()
power = float((np.abs(clean) ** 2).sum())
start = torch.full((1, 64, 64), -0.03)

# %%


def fit_at(sigma, noisy):
    """Fit from where the fit with more noise ended."""
    weight = np.full(noisy.size, sigma**-2)
    exact = ExactLikelihood(*baselines, noisy, weight, *grid, device=device)
    positive = partial(softplus, beta=100)
    net = GriddedNet(small, base_cube=start.clone(), pixel_mapping=positive).to(device)
    of_noise = small.cell_size**2 * weight.sum() ** 0.5 / noisy.size  # slope of a pixel
    steps = 300 if sigma > 5e-4 else 600  # a clear signal asks for more digits
    how = {"optimizer": "lbfgs", "lambdas": "exact", "max_iter": steps}
    how |= {
        "losses": {"tv": (of_noise, TV_image)},
        "check_every": 100,
        "tolerance": None,
    }
    result = fit(net, exact, progress=False, **how)
    start.copy_(net.bcube.base_cube.detach())
    exact.recentre(result.image)
    return exact, result.image[0].cpu().double()


# %%


def chi2_along(sigma, noisy, exact):
    """Walk along the line with float64, float32, and float32 re-centred on the fit."""
    arrays = *baselines, noisy, np.full(noisy.size, sigma**-2)
    along = np.linspace(-1, 1, 15)
    brighter = 1 + along * 0.2 * sigma * math.sqrt(noisy.size / power)
    images = target * torch.from_numpy(brighter)[:, None, None]
    right = ExactLikelihood(*arrays, *grid, dtype=torch.float64)
    right.recentre(target[None])
    rough = ExactLikelihood(*arrays, *grid)
    ways = {"float64": right, "float32": rough, "float32, re-centred": exact}
    curves = {}
    for name, way in ways.items():
        chi2 = [way(image[None].to(way.reference)).item() for image in images]
        curves[name] = np.array(chi2) / (2 * noisy.size)
    truth = curves["float64"]
    error = {name: np.abs(c - truth).max() for name, c in curves.items()}
    del error["float64"]
    return along, curves, error


# %%
# Then image what was fitted, and the residual, in units of its noise. No pixel may
# stand out. (It is smaller than noise where the fit took some of it up, as this disk
# fills the field.)

from firstlight.imaging.sliders import Cost, Level, Sliders

residuals = {}


def level(sigma):
    rng = np.random.default_rng(seed=5)
    noise = rng.normal(scale=sigma, size=(2, clean.size))
    noisy = clean + noise[0] + 1j * noise[1]
    exact, image = fit_at(sigma, noisy)
    weight = np.full(clean.size, sigma**-2)
    imager = DirtyImager(small, *baselines, weight, noisy.real, noisy.imag)
    dirty, _ = imager.get_dirty_image("briggs", 0.5, check_visibility_scatter=False)
    rest = exact.dirty[0].cpu() / math.sqrt(weight.sum()) / small.cell_size**2
    residuals[sigma] = float(rest.std()), float(rest.abs().max())
    off = float((image - target).norm() / target.norm())
    bright = float(target.max())
    titles = "truth", "dirty image", f"fit, off by {off:.0%}", "residual"
    images = target / bright, dirty[0] / dirty.max(), image / bright
    shades = [np.sqrt(np.clip(np.asarray(part), 0, 1)) for part in images]
    shades.append(0.5 + rest.double().numpy() / 12)  # ±6 σ
    words = "The disk.", "The disk, blurred.", "The fitted disk.", "Residuals."
    colours = "inferno", "inferno", "inferno", "PuOr"
    pictures = dict(zip(titles, zip(shades, colours, words, strict=True), strict=True))
    return Level(0.25 / sigma, *chi2_along(sigma, noisy, exact), pictures)


# %%

levels = [level(sigma) for sigma in (10e-3, 1e-3, 0.1e-3, 0.03e-3)]
for sigma, (rms, most) in residuals.items():
    print(f"noise {sigma:.0e} Jy: residual {rms:.2f} σ, at most {most:.1f} σ")
    assert most < 5
torch.set_num_threads(threads)

# %%
# Drag the first slider through the visibilities, and the second through the noise.
# (Residuals go from −6 σ to 6 σ.)

ways = {name: Cost(took[name], *lines[name]) for name in ("NUFFT", "exact")}
Sliders(ways, levels, f"{card(device).name}, {threads} threads")

# %%
# Where the source is 25 times as strong as the noise, all three lie on one line. With
# every factor of ten plain ``float32`` goes a hundred times as far astray, until its
# marks have nothing to do with the line. A fit along them stops anywhere. Re-
# centred, ``float32`` keeps to the line, and with it the fits arrive: no residual
# stands out, and the clearer the signal, the closer the image is to the truth.
#
# Where this stops being true
# ---------------------------
#
# - *Few visibilities, large images.* The exact form's FFTs are twice as wide as the
#   image, whatever the data. For some thousand visibilities and 4096 × 4096 pixels, a
#   NUFFT costs no more, and takes less memory.
# - *Weights and baselines that change.* New phases leave the exact form its kernel: it
#   takes data without them instead (``replace``). New amplitudes, weights or
#   baselines need a new one: for a change now and then, make it; for a change in each
#   step, take mini-batches.
# - *Channels.* Baselines are in wavelengths, so each channel has its own, and its own
#   kernel. It must fit into the memory of the device; ``plan`` tells before you try.
# - *Wide fields.* All of this takes the sky for flat. See :doc:`/scope`.
# - *A hundred million on this machine.* Beyond the marks the lines of the figure are
#   models. The data may stay in a file, from which the set-up reads them part by part.
#
# Exercise
# --------
#
# A mini-batch must be right on average. Write an estimate of :math:`\chi^2`, the sum
# of :math:`w\,|r|^2` over all visibilities, from some of them. You get the weights and
# residuals of all, and the places ``at`` of those that you may look at.


def estimate(weight, residual, at): ...


# %%
# ``check`` takes the mean over all batches that there are.

from itertools import combinations


def check(answer):
    rng = np.random.default_rng(seed=3)
    weight = rng.uniform(0.1, 5, size=7)
    residual = rng.normal(size=7) + 1j * rng.normal(size=7)
    chi2 = np.sum(weight * np.abs(residual) ** 2)
    for size in (7, 1, 3):
        try:
            batches = [np.array(some) for some in combinations(range(7), size)]
            got = [float(answer(weight, residual, at)) for at in batches]
        except Exception as error:
            return f"estimate raised {type(error).__name__}: {error}"
        ratio = np.mean(got) / chi2
        if math.isclose(ratio, 1, rel_tol=1e-9):
            continue
        if size == 7:
            return f"Of all visibilities it is {ratio:.3f} times chi²: look at the sum."
        if math.isclose(ratio, size / 7, rel_tol=1e-6):
            return (
                "The batch has only a part of the sum: how many times more are there?"
            )
        return f"On average {ratio:.3f} times chi²: scale by numbers of visibilities."
    return "Right: a fit may follow it, step by step."


print(check(estimate))

# %%

# solution


def estimate_solution(weight, residual, at):
    part = np.sum(weight[at] * np.abs(residual[at]) ** 2)
    return part * len(weight) / len(at)


print(check(estimate_solution))

# %%
# Three lines to remember
# -----------------------

ratio = took["NUFFT"][last] / took["exact"][last]
rough, kept = levels[-1].error.values()
print(f"1. At {last:,} visibilities a NUFFT step takes {ratio:.0f} times an exact one:")
print("   the exact one does not look at them.")
print(f"2. In cells, the truth scores {of_truth['cells'][last]:.0f} there, not 1.")
print("   If weights or phases change, take a few visibilities at a time.")
print(f"3. float32 was off by {rough:.0%} of chi² at the strongest signal, and by")
print(f"   {kept:.0e} from a reference near the answer.")
