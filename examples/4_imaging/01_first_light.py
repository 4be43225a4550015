"""
First light: can a GPU find the sky behind these numbers?
=========================================================

Somebody has sent you a file from a radio telescope. It contains 299,796 rows of five
numbers, and no picture. Behind these numbers is a disk around a young star, and a short
loop in PyTorch can find it. The loop comes from a tutorial of the imaging package
:term:`MPoL`, which says that for large images a GPU can be up to a hundred times as
fast.

Is that so? **Write down a guess before you go on: how many times as fast as one core of
a CPU is an NVIDIA H100 at this job?** By the end you'll be able to fit an image to such
data in eight lines, to see from what is left over whether you should believe it, and to
say whether a GPU will make it faster. You need no astronomy. If you have a
:term:`measurement set` of your own and are in a hurry, :doc:`one command
</tutorials/4_imaging/02_your_own_data>` does what ``tclean`` does for you today.

**Needs:** any computer. If you have a GPU, the fits run on it.
"""

# folded: Make the file: a disk, nine channels, 43 antennas, noise
# sphinx_gallery_thumbnail_number = 4
import io
import math
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight_imaging import DirtyImager, ExactLikelihood, GridCoords, GriddedNet
from firstlight_imaging import fit, fit_beam, plot_image
from firstlight_imaging.data.gridding import Gridder
from firstlight_imaging.model import losses
from firstlight_imaging.simulate import Ring, observe, protoplanetary_disk, sky_image
from firstlight_imaging.simulate import uv_track, with_noise
from firstlight_imaging.units import ARCSEC

disk = protoplanetary_disk(flux=0.25, size=1.7)
quiet = observe(disk, uv_track())
seen = with_noise(quiet, 5e-3, seed=1)

line = np.exp(-(((np.arange(9) - 4) / 2) ** 2))[:, None]  # brightest in the middle
nine = line * quiet.data + (seen.data - quiet.data)
same = {"uu": seen.uu / 1e3, "vv": seen.vv / 1e3, "weight": seen.weight}
same = {name: np.tile(values.astype("f4"), (9, 1)) for name, values in same.items()}


def saved(**arrays):
    """Return a file of these arrays, in memory: nothing is left behind."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    return file


file = saved(data_re=nine.real.astype("f4"), data_im=nine.imag.astype("f4"), **same)

# %%
# What is in the file
# -------------------
#
# Let's take the middle one of nine channels, and look at a few rows.

cube = np.load(file)
chan = 4  # where the line is brightest
uu, vv = 1e3 * cube["uu"][chan], 1e3 * cube["vv"][chan]  # from kilo-wavelengths
re, im = cube["data_re"][chan], cube["data_im"][chan]
weight = cube["weight"][chan]

print("        u          v     real     imag   weight")
for row in np.argsort(np.hypot(uu, vv))[[0, 1, 2, -3, -2, -1]]:
    print(f"{uu[row]:9.0f}  {vv[row]:9.0f}  {re[row]:+.4f}  {im[row]:+.4f}", end="")
    print(f"  {weight[row]:7.0f}")
print(f"narrowest stripes: {1 / (np.hypot(uu, vv).max() * ARCSEC):.3f} arcsec")

# %%
# The telescope is an :term:`interferometer`: many antennas that work together. Each row
# comes from one pair of them. The first two numbers, *u* and *v*, say how far apart the
# two stand as seen from the source, eastward and northward, in wavelengths.
#
# What does a pair measure? Imagine the sky covered with stripes, bright and dark in
# turn. The pair measures how strongly the sky shows stripes of one width and one
# direction. The farther the antennas are apart, the finer are their stripes. In other
# words, each row is one point of the sky's two-dimensional Fourier transform. It's a
# complex number, called a :term:`visibility`. The last number, the :term:`weight
# <weight>`, tells you how far to trust it: it is :math:`1/\sigma^2` of its noise. The
# page on :doc:`visibilities </tutorials/4_imaging/04_visibilities>` has the rest. Our
# transform has a minus in its exponent. CASA counts phases the other way round, so
# check the sign of :doc:`your own file </tutorials/4_imaging/02_your_own_data>`.
#
# **One question before we go on.** The first three rows are the shortest baselines, and
# their stripes are so wide that nearly the whole disk fits into a bright one. So what
# is the total brightness of the sky, its :term:`flux`?
#
# The real parts of these rows are near 0.24, in :term:`jansky <Jy>`. We made this sky,
# so we know it's 0.25 Jy.

# %%
# Try it
# ------
#
# If you have met `MPoL's GPU tutorial`__, you know this script. It has a *model* of the
# sky, an image of 180 × 180 pixels whose visibilities it compares with the data, and it
# changes the pixels 600 times. We've changed the imports and the line that chooses the
# :term:`device`, and ``nll_gridded`` has its newer name. **Will 600 steps be enough?**
#
# Why are its pixels 0.03″ wide? Our narrowest stripes repeat every 0.107″, as the cell
# above says. An image needs at least two pixels for each of them. People take three to
# five, and 0.03″ makes it three and a half.
#
# __ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

from firstlight_imaging.model.gridded_net import SimpleNet

device = best_device()
npix = 180
coords = GridCoords(cell_size=0.03, npix=npix)  # a pixel is 0.03 arcsec wide

gridder = Gridder(coords, uu=uu, vv=vv, weight=weight, data_re=re, data_im=im)
# False silences an alarm that is right: see "Why not average the data first?"
dataset = gridder.to_pytorch_dataset(check_visibility_scatter=False)
dset = dataset.to(torch.float32).to(device)
model = SimpleNet(coords, nchan=dataset.nchan).to(device)
config = {"lr": 0.5, "lambda_sparsity": 1e-4, "lambda_TV": 1e-4, "epochs": 600}
optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])

history = []
for _ in range(config["epochs"]):
    optimizer.zero_grad()
    vis = model()
    sky_cube = model.icube.sky_cube
    loss = (
        losses.r_chi_squared_gridded(vis, dset)
        + config["lambda_sparsity"] * losses.sparsity(sky_cube)
        + config["lambda_TV"] * losses.TV_image(sky_cube)
    )
    loss.backward()
    optimizer.step()
    history.append(loss.detach())  # without .item(), which would wait for the GPU

# %%

# folded: The dirty image, the beam, and how images are drawn
baselines = (seen.uu, seen.vv, seen.weight)
imager = DirtyImager(coords, *baselines, seen.data.real, seen.data.imag)
dirty, lobe = imager.get_dirty_image(weighting="briggs", robust=0.5)
beam = fit_beam(lobe[0], coords.cell_size)
dirty = dirty[0] / beam.area  # Jy/arcsec²
truth = torch.from_numpy(sky_image(disk, coords.cell_size, npix))
SKY = {"vmin": 0, "vmax": float(truth.max()), "stretch": "sqrt"}
LEFT = {"vmin": -5, "vmax": 5, "stretch": "linear", "cmap": "PuOr"}


def draw(ax, image, title, look, labelled=False):
    drawn = plot_image(image, coords, ax=ax, unit=None, **look)
    ax.set_title(title)
    if not labelled:
        ax.label_outer()
    return drawn


def distance(image):
    return float((torch.as_tensor(image) - truth).norm() / truth.norm())


# %%

# figure
after_600 = sky_cube.detach().cpu()[0].double()
curve = torch.stack(history).tolist()
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.7), layout="constrained")
left, middle, right = axes
left.loglog(range(1, 601), curve)
left.set(xlabel="step", title="loss")
draw(middle, dirty, "dirty image", SKY, labelled=True)
drawn = draw(right, after_600, "after 600 steps", SKY)
fig.colorbar(drawn, ax=(middle, right), label="Jy/arcsec²", ticks=[0, 0.1, 0.2, 0.3])
fig.suptitle("After 600 steps there is a disk with rings")
fig.set_label(
    "The loss against the step, falling by a factor of several hundred and then level; "
    "the dirty image, blurred and with ripples; and the image after 600 steps, a disk "
    "with two rings and many specks."
)
plt.show()

# %%

print(f"loss: {curve[0]:.0f} at first, {curve[-1]:.2f} at the end")
print(f"flux: {after_600.sum() * coords.cell_size**2:.3f} Jy")

# %%
# It works! A disk with two rings and a bright core has come out of the numbers. In the
# middle is the *dirty image*: the Fourier transform of the data and nothing else, with
# a zero wherever no pair of antennas has measured. Its blur and its ripples come from
# those zeros. The loop has done better, because it never assumes that what nobody
# measured is zero. But the image has specks, and its flux isn't 0.25 Jy. Should the
# loop have gone on? Has it got the wrong thing to minimize? Let's go through one step
# by hand.
#
# One step, in slow motion
# ------------------------
#
# We begin with a dark sky, all pixels zero. The :term:`loss` is one number that says
# how badly an image fits the data:
#
# .. math::
#
#     \chi^2 = \frac{1}{2N} \sum_k w_k \left| D_k - V_k \right|^2
#
# Here :math:`D_k` are the *N* measured visibilities, :math:`V_k` those of the image,
# and :math:`w_k` the weights. If an image differs from the data by noise alone, the
# result is 1. ``ExactLikelihood`` computes the sum, we divide by 2\ *N*, and
# ``backward()`` asks PyTorch for the *gradient*: for each pixel, how much the loss
# would grow if that pixel were brighter.

data = ExactLikelihood(
    uu, vv, re + 1j * im, weight, coords.cell_size, npix, device=device
)
image = torch.zeros(1, npix, npix, device=device, requires_grad=True)
loss = data(image) / (2 * len(weight))
loss.backward()
print(f"the loss of a dark sky: {loss.item():.1f}")

# %%
# In ``image.grad`` there is one number for each pixel:

# figure
fig, ax = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
gradient = image.grad.cpu()[0]
look = {"vmin": -0.2, "vmax": 0.2, "stretch": "linear", "cmap": "PuOr"}
drawn = draw(ax, gradient, "The gradient for a dark sky", look)
label = "change of the loss for 1 Jy/arcsec²"
fig.colorbar(drawn, label=label, ticks=[-0.2, -0.1, 0, 0.1, 0.2])
fig.set_label(
    "The gradient for a dark sky: a blurred disk with rings, all of it negative, with "
    "faint positive ripples around it."
)
plt.show()

# %%
# The gradient is minus the dirty image. Where the sky shines and our image is dark, a
# brighter pixel would *lower* the loss, so the gradient is negative there. **Should we
# add the gradient, or subtract it?**

with torch.no_grad():
    for factor in (+0.4, -0.4, -1.0):
        moved = data(image + factor * image.grad) / (2 * len(weight))
        print(f"image {factor:+} × gradient: the loss becomes {moved.item():.1f}")

# %%
# If we add it, the loss rises. The gradient points *uphill*, so we have to subtract it,
# and ``optimizer.step()`` does just that. In the third line we went the right way and
# too far, to the other side of the valley. How far to go is what ``lr``, the learning
# rate, is for. Adam, which the script uses, moves each parameter by about ``lr``,
# however steep the slope.
#
# Now you know the whole loop: ``zero_grad()`` forgets the last gradient, the model
# makes an image and its visibilities, ``loss`` compares, ``backward()`` finds the way
# up, and ``step()`` goes down. There is no network: the image is the parameter. The
# script adds two things. Each pixel is a *softplus* of its parameter, so it can't
# become negative. And two more terms in the loss say what kind of image we'd rather
# have.

# folded: The timed step and the timed fit
unit = 0.01  # Jy/arcsec²: what brightness is measured in
area, nvis = coords.cell_size**2, seen.data.size
slope = area * unit * math.sqrt(seen.weight.sum()) / nvis
dim = torch.zeros(1, npix, npix)  # parameters to start from
threads = torch.get_num_threads()
torch.set_num_threads(1)  # more gain little on an image as small as this
likelihood = ExactLikelihood(
    *(seen.uu, seen.vv, seen.data / unit, seen.weight * unit**2),
    *(coords.cell_size, npix),
    device=device,
)
likelihood.replace(seen.data / unit)
tv = partial(losses.TV_image, epsilon=1e-3)


def one_fit():
    model = GriddedNet(coords, base_cube=dim).to(device)
    how = {"optimizer": "lbfgs", "lambdas": "exact", "progress": False}
    return fit(model, likelihood, losses={"tv": (32 * slope, tv)}, **how)


def make_step(on, side):
    grid = GridCoords(cell_size=5.4 / side, npix=side)
    net = GriddedNet(grid).to(on)
    adam = torch.optim.Adam(net.parameters(), lr=0.5)
    data = ExactLikelihood(
        *(seen.uu, seen.vv, seen.data, seen.weight), grid.cell_size, side, device=on
    )

    def one_step():
        adam.zero_grad()
        net.icube(net.conv_layer(net.bcube()))  # without visibilities in cells
        loss = data(net.icube.sky_cube) / (2 * nvis)
        loss = loss + 1e-4 * losses.TV_image(net.icube.sky_cube)
        loss.backward()
        adam.step()

    return one_step


# %%

# folded: The timings, as a table
bench = Bench("first-light", budget=3)
bench.time("a whole fit, 180", one_fit, n=npix**2, device=device)
for side in (npix, 512):
    bench.time(f"a step, {side}, CPU", make_step(torch.device("cpu"), side), n=side**2)
    if device.type != "cpu":
        step = make_step(device, side)
        bench.time(f"a step, {side}, GPU", step, n=side**2, device=device)
bench.show()

# %%
# Turn the knob, and look at what is left over
# --------------------------------------------
#
# The next fit differs from the script in three ways. It compares the image with every
# single visibility, and not with averages in cells. It uses :term:`L-BFGS`, an
# optimizer that also learns from earlier gradients how the slope changes. And ``fit``
# goes on until the loss stops falling. ``GriddedNet`` is the model. Its parameters,
# ``base_cube``, become pixels by a softplus, and the pixels are smoothed a little over
# their neighbours. ``SimpleNet`` above is its older name.

from torch.nn.functional import softplus


def first_light(data, strength):
    grid = GridCoords(cell_size=data.cell_size, npix=data.npix)
    dark = torch.zeros(1, data.npix, data.npix)
    faint = partial(softplus, beta=100)  # bends at some 0.01 Jy/arcsec², not at 1
    net = GriddedNet(grid, base_cube=dark, pixel_mapping=faint).to(device)
    tv = partial(losses.TV_image, epsilon=1e-7)  # rounded at 0, where it has a kink
    smooth = {"tv": (strength, tv)}
    how = {"optimizer": "lbfgs", "lambdas": "exact"}  # exact: strength × TV, as it is
    return fit(net, data, losses=smooth, progress=False, **how)


found = first_light(data, strength=1.2e-3)
print(f"{found.iterations} iterations: {found.status}")

# %%
# Most of the Fourier plane is empty, so many images fit the data equally well, and the
# loss has to say which of them we prefer. *Total variation* (TV) adds up the
# differences between neighbouring pixels. Adding it to the loss, times a strength,
# favours images that change little from pixel to pixel. Such a term is called a
# :term:`regularizer`, and the whole method *regularized maximum likelihood*, or
# :term:`RML`. The ``strength`` says how much a jump of 1 Jy/arcsec² between neighbours
# costs, in units of :math:`\chi^2`. It depends on your data, so begin with one that
# blurs the image. **What will happen with a strength of zero, and what if it's eight
# times as large?**
#
# In real life you don't have the truth. But you can subtract the visibilities of the
# image from the data, and make a dirty image of the difference, in units of its noise,
# σ. It's called the :term:`residual`. If the image explains everything but the noise,
# the residual should look like noise: an rms of 1, or a little less, since every fit
# takes up some of the noise, and a largest value of about 4, because the map has some
# 1,500 independent places.

from firstlight_imaging.fitting.quality import residual_image

strengths = {1e-2: "too strong", 1.2e-3: "good", 5e-4: "weak", 0: "none"}
fits = {strength: first_light(data, strength) for strength in strengths}
sky = {at: found.image.cpu()[0].double() for at, found in fits.items()}
rest = {at: residual_image(found.image, data)[0] for at, found in fits.items()}
disk_at = (sky[1e-2] > 0.02 * sky[1e-2].max()).numpy()  # in the smoothest image


def rms(values):
    return float(np.sqrt(np.mean(values**2)))


for at, left in rest.items():
    print(f"strength {at:<6g} χ² {fits[at].terms['chi2']:.3f}, residual: rms ", end="")
    print(f"{rms(left[disk_at]):.2f} in the disk, {abs(left).max():4.1f} σ at most")

# %%

# figure
fig, axes = plt.subplots(2, 3, figsize=(7.2, 5), layout="constrained")
for at, (above, below) in zip((1e-2, 1.2e-3, 0), axes.T, strict=True):
    bright = draw(above, sky[at], f"strength {at:g}", SKY)
    dark = draw(below, rest[at], f"rms {rms(rest[at][disk_at]):.2f} inside", LEFT)
fig.colorbar(bright, ax=axes[0], label="Jy/arcsec²", ticks=[0, 0.1, 0.2, 0.3])
fig.colorbar(dark, ax=axes[1], label="σ", ticks=[-5, 0, 5])
fig.suptitle("Three fits, and what they leave over")
fig.set_label(
    "Three fits above, their residuals below. Too strong: blurred rings, and a "
    "residual with strong rings. Good: sharp rings, and a residual of noise. No "
    "regularizer: a disk of specks, and a residual that is blank where the disk is."
)
plt.show()

# %%
# The four values of :math:`\chi^2` differ in the second decimal only, and don't say
# what is wrong. The residuals do:
#
# - *A pattern above 5 σ: too smooth.* There are rings in the residual at the lower
#   left. Where they're positive, the data contain light that the image hasn't got, and
#   where they're negative, the image has too much: it has spread the light of each ring
#   into the gaps beside it.
# - *Much less than noise: over-fitted.* At the lower right the residual is blank where
#   the disk is. Noise can't vanish, so it must be in the image, and there you see it,
#   as specks. Why specks? On the longest baselines the disk is faintest, so they hold
#   mostly noise, and without a regularizer the fit puts that noise into the image, in
#   grains as fine as their fringes.
#
# Hence a rule: **take the strongest regularizer that leaves no residual above 5 σ.**
# Here it chooses 0.0012. Even that residual has faint rings where the disk is, so a
# little of each ring is still in the gaps. The fit inside :doc:`image()
# </tutorials/4_imaging/14_inside_image>` gets rid of them. And the script's image?

script_left = residual_image(after_600[None].float().to(device), data)[0]
print(f"the script's image leaves {abs(script_left).max():.0f} σ")
print(f"its rms is {rms(script_left[disk_at]):.1f} inside the disk, where 1 is noise")

# %%
# The script's image leaves a pattern far above 5 σ, and yet it's full of specks. So
# there's a third case. If the residuals are large *and* the image has specks, the data
# themselves are wrong. The script first averages the rows in the cells of a grid, and
# :doc:`the sky changes within these cells </tutorials/4_imaging/06_averaging>`. To be
# fair, the gridder knew. *We* switched its warning off, with
# ``check_visibility_scatter=False``. MPoL's script leaves it on.
#
# Now look at the truth
# ---------------------
#
# **Which image is nearest to the true sky, would you say? And what would another 600
# steps do to the script's?**

# folded: Another 600 steps
for _ in range(600):
    optimizer.zero_grad()
    vis = model()
    loss = losses.r_chi_squared_gridded(vis, dset)
    loss = loss + config["lambda_sparsity"] * losses.sparsity(model.icube.sky_cube)
    loss = loss + config["lambda_TV"] * losses.TV_image(model.icube.sky_cube)
    loss.backward()
    optimizer.step()
after_1200 = model.icube.sky_cube.detach().cpu()[0].double()
torch.set_num_threads(threads)

# %%

print(f"dirty image           off by {distance(dirty):6.1%} of the truth")
print(f"script,   600 steps   off by {distance(after_600):6.1%}, loss {curve[-1]:.3f}")
print(f"script, 1,200 steps   off by {distance(after_1200):6.1%}, loss {loss:.3f}")
for at, name in strengths.items():
    print(f"strength {at:<12g} off by {distance(sky[at]):6.1%}: {name}")

# %%

# figure
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.9), layout="constrained")
named = {"truth": truth, "dirty image": dirty, "fit": sky[1.2e-3]}
for ax, (name, shown) in zip(axes, named.items(), strict=True):
    drawn = draw(ax, shown, name, SKY | {"beam": beam, "scale_bar": 1})
fig.colorbar(drawn, ax=axes, label="Jy/arcsec²", shrink=0.8, ticks=[0, 0.1, 0.2, 0.3])
fig.suptitle(
    f"The fit is off by {distance(sky[1.2e-3]):.0%} of the truth, "
    f"the dirty image by {distance(dirty):.0%}"
)
fig.set_label(
    "The truth, a disk with two rings around a star; its dirty image, blurred and with "
    "ripples; and the fit, as sharp as the truth except in the core, without ripples."
)
plt.show()

# %%
# Two surprises. First, the script hadn't reached its minimum: another 600 steps lower
# the loss a little, and *the image gets worse*, because its averages describe a
# speckled sky better than the true one.
#
# Second, the weak strength that our rule rejects, 0.0005, gives an image slightly
# *nearer* to the truth than the one it chooses. The residual tells you whether an image
# goes with the data. It can't tell you what the antennas didn't measure, the details
# finer than the telescope can see. The regularizer fills these in by its own taste, and
# nothing in the data protects you from a wrong taste. Go on with :doc:`choosing a
# regularizer </tutorials/4_imaging/07_choosing_regularizers>`, or, if you use
# ``tclean``, with :doc:`RML and CLEAN </tutorials/4_imaging/13_rml_and_clean>`.
#
# .. dropdown:: If you know tclean: what is different here?
#
#    - *The model.* CLEAN has a list of points and blobs. The fit has all pixels, and
#      none of them is negative.
#    - *What you choose.* For CLEAN it's a mask, scales and a threshold. Here it's a
#      strength, and you choose it by the residuals.
#    - *The end.* CLEAN stops at the threshold, and the fit when the loss stops falling.
#    - *The image.* CLEAN's is the model, blurred by a beam, plus the residuals. The
#      fit's is the model itself, in Jy/arcsec², without either.
#
# Will a GPU make it faster?
# --------------------------
#
# Now back to your guess. We timed one step of a loop like the script's, for the image
# above and for one of 512 × 512 pixels.
#
# On a computer with an H100, one core of the CPU took :timing:`first-light median "a
# step, 180, CPU" @nvidia-h100-80gb-hbm3` for a step at 180 × 180 pixels, and the GPU
# took :timing:`first-light median "a step, 180, GPU" @nvidia-h100-80gb-hbm3`. So it was
# no faster! At 512 × 512 pixels, which is eight times as many, the core took
# :timing:`first-light median "a step, 512, CPU" @nvidia-h100-80gb-hbm3`, and the GPU
# :timing:`first-light median "a step, 512, GPU" @nvidia-h100-80gb-hbm3`, hardly more
# than for the small image.
#
# .. holds::
#
#    step = lambda side, on: median(f"first-light/a step, {side}, {on}")
#    step(180, "GPU") > 0.95 * step(180, "CPU")
#    step(512, "GPU") < 1.25 * step(180, "GPU")
#    step(512, "GPU") < step(512, "CPU") / 4
#
# Why? A step of this loop makes about 100 calls of PyTorch, and for each of them the
# CPU has to start a piece of work on the GPU, a :term:`kernel`. The GPU has finished
# most of these before the next call comes. We call such a loop :term:`launch-bound`.
#
# :doc:`Change by change </tutorials/4_imaging/08_faster>`, a step gets down to a dozen
# kernels that are started together. At 512 × 512 pixels that step took the H100
# :timing:`faster-step median "GPU, package" @nvidia-h100-80gb-hbm3`, and the core
# beside it :timing:`faster-step median "CPU, package" @nvidia-h100-80gb-hbm3`. That's
# :timing:`faster-step speedup "GPU, package"/"CPU, package" @nvidia-h100-80gb-hbm3` as
# fast, with the same step on both. **How close was your guess?**
#
# But for *one image of 180 × 180 pixels, stay on the CPU*. A whole fit, like those
# above, took :timing:`first-light median "a whole fit, 180" @nvidia-h100-80gb-hbm3` on
# the H100, and :timing:`first-light median "a whole fit, 180" @cpu-amd-epyc` on one
# core of an AMD EPYC. By our count, each iteration of L-BFGS makes 250 small calls, and
# waits 46 times for a number from the GPU.

# %%
# Your turn
# ---------
#
# Two nights of another, fainter source are below, as ``ExactLikelihood`` objects like
# our ``data``. One night has more noise in each visibility, and more visibilities. So
# the strength that suits one of them won't suit the other: write a function that
# *finds* it, by the rule, and returns the image. ``first_light(data, strength).image``
# makes an image, and ``residual_image(image, data)`` says what is left over.


def find_sky(data): ...


# %%
# Put your lines where the dots are, and run ``firstlight try 01_first_light.py``.
# ``check`` looks at your residuals, and because it knows the sky, at your flux.


# folded: The two nights
def night(noise, n_times):
    """Return the data of a night, for an image of 64 × 64 pixels of 0.05 arcsec."""
    made = with_noise(observe(HIDDEN, uv_track(n_times=n_times)), noise, seed=3)
    return ExactLikelihood(
        made.uu, made.vv, made.data, made.weight, 0.05, 64, device=device
    )


HIDDEN = [
    Ring(0.05, radius=0.5, width=0.25, east=0.15, north=-0.1),
    Ring(0.02, radius=0, width=0.15, east=-0.6, north=0.55),
]
nights = {"first": night(0.02, 60), "second": night(0.005, 8)}

# %%


# folded: The check
def check(answer):
    hidden = sky_image(HIDDEN, 0.05, 64)
    source = hidden > 0.02 * hidden.max()
    for name, data in nights.items():
        said = judge(answer, data, source)
        if said:
            return f"The {name} night: {said}"
    return "Right: you have found both skies, and would know without having the truth."


def judge(answer, data, source):
    """Return what is wrong with the answer's image of a night, or nothing."""
    try:
        image = answer(data)
        if image is None:
            return "find_sky returns nothing yet."
        if hasattr(image, "image"):
            return "that's a whole fit. Return its .image."
        image = torch.as_tensor(image).detach().cpu().float()
        if image.shape != (1, 64, 64):
            return f"the image should have the shape (1, 64, 64), not {image.shape}."
        left = residual_image(image.to(device), data)[0]
    except Exception as error:
        return f"find_sky raised {type(error).__name__}: {error}"
    flux, largest = float(image.sum()) * 0.05**2, float(np.abs(left).max())
    told = f"the flux is {flux:.3f} Jy, and the residual reaches {largest:.1f} σ"
    if not math.isfinite(flux + largest):
        return "some pixels aren't finite."
    if float(image.min()) < -1e-6:
        return "some pixels are negative. Is this a dirty image, or a residual?"
    if not 0.03 < flux < 0.3:
        return f"{told}. An image is in Jy/arcsec², and this one can't be right."
    if largest > 5:
        return f"{told}. Too smooth: take less strength."
    if rms(left[source]) < 0.6 or abs(flux / 0.07 - 1) > 0.07:
        told += f", with an rms of {rms(left[source]):.2f} in the source"
        return f"{told}. Over-fitted: take more strength."
    return ""


# %%

print(check(find_sky))

# %%
# Three lines to remember
# -----------------------

# remember
chosen = rest[1.2e-3]
off = distance(sky[1.2e-3])
print(
    "1. A fit walks down the gradient until only noise is left over. A residual above"
)
print("   5 σ means too smooth, and much less than noise means over-fitted. Ours has")
print(f"   {abs(chosen).max():.1f} σ at most and an rms of {rms(chosen[disk_at]):.2f}.")
print("2. No residual can show what was not measured: this image leaves only noise,")
print(f"   and is off by {off:.1%} of the truth.")
print("3. A small image leaves a GPU waiting for launches: make few, large calls, or")
print("   stay on the CPU.")

# %%
# Solution
# --------

# solution

# From strong to weak, and stop at the first image that leaves nothing above 5 σ.


def find_sky_solution(data):
    for strength in (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4):
        image = first_light(data, strength).image
        if abs(residual_image(image, data)).max() < 5:
            break
    return image


print(f"Our solution: {check(find_sky_solution)}")
