"""
First light: can you see the sky that was observed?
===================================================

*First light* is the first image from a new telescope. An :term:`interferometer`
measures :term:`visibilities <visibility>`, from which the image has to be
reconstructed, here by a fit. You can tell without the truth whether a fit is too
smooth, because its :term:`residual` has peaks above 5 σ, or over-fitted, because its
residual is much weaker than noise. How far the image is from the sky you cannot tell:
no residual shows what the antennas did not measure. This page is for anyone who images
visibilities by a regularized fit (:term:`RML`), as :term:`MPoL` does, on a CPU or a
GPU.

**You will learn**

- to fit an image to every visibility, on any :term:`device`, until it stops by itself;
- to tell an over-fitted image from one that is too smooth, by its residual alone;
- what the residual cannot tell you;
- when a fit to averages in cells goes wrong, and why;
- to predict whether a GPU helps at your size.

**Time:** 13 minutes. **Needs:** any computer. With a GPU, the page fits on it.
"""

# folded: Observe: a sky, 43 antennas, noise
# sphinx_gallery_thumbnail_number = 1
import math
import textwrap
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.imaging import DataAverager, DirtyImager, ExactLikelihood, FourierCube
from firstlight.imaging import GridCoords, GriddedNet, convolve, fit, fit_beam
from firstlight.imaging import plot_image
from firstlight.imaging.coordinates import sky_to_packed
from firstlight.imaging.fitting import assess_image
from firstlight.imaging.model import losses
from firstlight.imaging.simulate import observe, protoplanetary_disk, sky_image
from firstlight.imaging.simulate import uv_track, with_noise
from firstlight.timing.specs import spec

device = best_device()
npix = 180
coords = GridCoords(cell_size=0.03, npix=npix)  # a pixel is 0.03 arcsec wide
disk = protoplanetary_disk(flux=0.25, size=1.7)
quiet = observe(disk, uv_track())
seen = with_noise(quiet, 5e-3, seed=1)
baselines = (seen.uu, seen.vv, seen.weight)
truth = torch.from_numpy(sky_image(disk, coords.cell_size, npix))

# %%

# folded: Units, the likelihood, a start
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

# %%

# folded: Fit, and fit again with the residual added


def fit_twice(data, k, epsilon=1e-3):
    """Fit with k times the slope of noise as the strength of TV; return both fits."""
    residual, found = 0, []
    variation = partial(losses.TV_image, epsilon=epsilon)
    how = {"optimizer": "lbfgs", "lambdas": "exact", "progress": False}
    how |= {"max_iter": 4000, "tolerance": 1e-4}
    for _ in range(2):
        likelihood.replace(data / unit + residual)
        model = GriddedNet(coords, base_cube=dim).to(device)
        result = fit(model, likelihood, losses={"tv": (k * slope, variation)}, **how)
        assert result.why not in ("max_iter", "not finite"), result.message
        residual = likelihood.residuals(result.image).cpu().numpy()
        found.append(unit * result.image.cpu()[0].double())
    return found


fits = {k: fit_twice(seen.data, k) for k in (64, 32, 8)}
sky = {k: second for k, (first, second) in fits.items()}

# %%

# folded: Draw
imager = DirtyImager(coords, *baselines, seen.data.real, seen.data.imag)
dirty, lobe = imager.get_dirty_image(weighting="briggs", robust=0.5)
beam = fit_beam(lobe[0], coords.cell_size)
dirty = dirty[0] / beam.area  # Jy/arcsec²


def side_by_side(finding, images, label, unit, ticks, columns=3, height=2.9, **look):
    rows = len(images) // columns
    size = (7.2, height * rows)
    fig, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
    fig.suptitle(finding)
    for ax, (title, image) in zip(axes.flat, images.items(), strict=True):
        drawn = plot_image(image, coords, ax=ax, unit=None, beam=beam, **look)
        ax.set_title(title)
        ax.label_outer()
    fig.colorbar(drawn, ax=axes, label=unit, shrink=0.8, ticks=ticks)
    fig.set_label(label)


def distance(image):
    return float((torch.as_tensor(image) - truth).norm() / truth.norm())


# %%

# figure
side_by_side(
    f"The fit is off by {distance(sky[32]):.0%} of the truth, "
    f"the dirty image by {distance(dirty):.0%}",
    {"truth": truth, "dirty image": dirty, "fit": sky[32]},
    "The truth, a disk with two rings around a star; its dirty image, blurred and with "
    "ripples; and the fit, as sharp as the truth except in the core, without ripples.",
    "Jy/arcsec²",
    [0, 0.05, 0.1, 0.2, 0.3],
    vmin=0,
    vmax=float(truth.max()),
    stretch="sqrt",
    scale_bar=1,
)
plt.show()

# %%
# Predict
# -------
#
# First, what should the residual be? Subtract from the data what the image explains,
# and image the difference. In units of its noise, such a *residual* of the right image
# has an rms of 1. The largest of *n* independent Gaussian numbers is near
# :math:`\sqrt{2 \ln n}`. A :term:`dirty image` has about as many as it has *beams*, and
# both signs count.

beams = npix**2 * area / beam.area
largest = math.sqrt(2 * math.log(2 * beams))
print(f"{beams:.0f} beams: the largest residual should be near {largest:.1f} σ")

# %%
# Second, does a GPU help? Each pixel is a parameter. A step of a fit goes from the
# image to :math:`\chi^2` by fast Fourier transforms (FFTs), and back for the gradient.
# Written out in PyTorch it makes about 100 calls, and each launches a *kernel* on a
# GPU. (:doc:`/tutorials/4_imaging/08_faster` counts them, and how few are left in
# ``fit``.) A GPU works while the next kernel is launched, so the larger of the two
# counts: the overhead of the launches, or the work, which is mostly to read and write
# images. Both can be estimated beforehand, the launches from published times:

calls, c = 100, spec("PyTorch operation", "seconds")
images = 150  # that a step in PyTorch reads or writes, counted generously; in float32
on_h100 = {}
for side in (npix, 512, 2048):
    work = images * 4 * side**2 / spec("H100 SXM", "bandwidth")  # at the least
    on_h100[side] = max(calls * c, work)
    print(
        f"{side:>4} pixels: launches {1e3 * calls * c:.2f} ms, work {1e3 * work:.3f} ms"
    )

# %%
# So the prediction is: *to a GPU, 512 pixels cost as little as 180*, and it helps where
# a step of your CPU takes longer than the launches.
#
# Observe
# -------
#
# The folded cell *Observe* above simulates a night's observation of a known sky. Each
# pair of antennas, a *baseline*, measures the sky's Fourier transform along a track,
# with a noise of 5 mJy in each visibility. Because most of the Fourier plane stays
# empty, the dirty image (:doc:`/tutorials/4_imaging/05_dirty_image`) has ripples.
#
# Fit
# ---
#
# The :term:`loss` that the fit minimizes has two parts. The first is the reduced
# :math:`\chi^2` of :math:`N` visibilities,
#
# .. math::
#
#     \chi^2(I) = \frac{1}{2N} \sum_k w_k \left| D_k - V_k(I) \right|^2
#
# Because it is a quadratic function of the image, it can be computed from a number, a
# dirty image, and a dirty beam twice as wide. ``ExactLikelihood`` makes these in
# one pass over the visibilities. After that, a step is one pair of FFTs, *for any
# number of visibilities*: :doc:`/tutorials/4_imaging/10_off_the_grid` goes to a hundred
# million, and says when ``float32`` is enough.
#
# The second part is a *regularizer*: total variation (TV), the sum of the differences
# between neighbouring pixels. Noise changes :math:`\chi^2` by about :math:`s = a
# \sqrt{\sum_k w_k} / N` per unit of brightness of a pixel of area *a*. The strength of
# TV is *k* times that. Which *k* should you take?

likelihood.replace(seen.data / unit)
tv = partial(losses.TV_image, epsilon=1e-3)


def one_fit():
    model = GriddedNet(coords, base_cube=dim).to(device)
    how = {"optimizer": "lbfgs", "lambdas": "exact", "progress": False}
    return fit(model, likelihood, losses={"tv": (32 * slope, tv)}, **how)


one = one_fit()
print(f"{one.iterations} iterations. {one.message}")

# %%
# ``Not converged`` is what ``fit`` calls residuals louder than noise, even where more
# steps do not help: here TV is too strong for a single fit.
#
# The fit needs three precautions:
#
# - *Units.* A pixel is the softplus of a parameter, so that it is positive. Softplus
#   bends at 1, and far below that fits are slow, so brightness is measured in units of
#   0.01 :term:`Jy`/arcsec².
# - *Convergence.* ``fit`` continues until 25 more steps, twice in a row, lower the loss
#   by less than one part in 10 000. If it stopped after a fixed number of steps, the
#   image would depend on that number.
# - *A second fit.* TV flattens what it smooths, peaks most of all. So add the residual
#   to the data and fit again. This restores the structure that TV removed before it
#   restores noise: a `Bregman iteration`__, in the cell *Fit, and fit again*.
#
# __ https://doi.org/10.1137/040605412
#
# Judge by the residual
# ---------------------
#
# Here are three fits. Forget the truth for now. Beside them is noise alone, drawn anew
# from the weights and imaged in the same way. *In* and *out* are the rms inside the
# disk and outside, *before* is the largest residual of the first of the two fits.


def residual_map(vis):
    """Make a dirty image, in units of the noise that it has."""
    imager = DirtyImager(coords, *baselines, vis.real, vis.imag)
    image, _ = imager.get_dirty_image("natural", check_visibility_scatter=False)
    return image[0] * math.sqrt(seen.weight.sum())


def judge(image):
    """Return the residual map of an image, its reduced chi², and a verdict."""
    likelihood.replace(seen.data / unit)
    image = (image[None] / unit).float().to(device)
    vis = unit * likelihood.residuals(image).cpu().numpy()
    chi2 = likelihood(image).item() / 2 / nvis
    return residual_map(vis), chi2, assess_image(image, likelihood, chi2, nvis).verdict


# %%

rng = np.random.default_rng(seed=2)
draw = rng.standard_normal((*seen.data.shape, 2)).view(complex)[..., 0]
noise = residual_map(draw / np.sqrt(seen.weight))
rest, chi2, verdict = {}, {}, {}
for k, image in sky.items():
    rest[k], chi2[k], verdict[k] = judge(image)
first = {k: abs(judge(both[0])[0]).max() for k, both in fits.items()}
inside = (sky[64] > 0.02 * sky[64].max()).numpy()  # the disk, in the smoothest image


def rms(values):
    return float(np.sqrt(np.mean(values**2)))


def tell(name, image, *more):
    print(f"{name:>6} {rms(image[inside]):8.2f} {rms(image[~inside]):8.2f}", end="")
    print(f"{abs(image).max():9.1f} σ", *more)


print("     k   rms in      out    largest         χ²  flux, Jy   before  fit says")
for k, image in rest.items():
    flux = float(sky[k].sum()) * area
    tell(k, image, f"{chi2[k]:11.4f} {flux:9.4f} {first[k]:6.0f} σ  {verdict[k]}")
tell("noise", noise, f"   1 ± {nvis**-0.5:.4f}")

# %%

# figure
shown = {f"k = {k}": rest[k] for k in (64, 32, 8)} | {"noise alone": noise}
side_by_side(
    f"Too smooth, good, over-fitted: rms {rms(rest[64][inside]):.1f}, "
    f"{rms(rest[32][inside]):.1f} and {rms(rest[8][inside]):.1f} σ inside the disk",
    shown,
    "Residuals of three fits and noise alone, up to 5 sigma. With k = 64 there is "
    "a pattern of rings; with k = 32 faint ones, no stronger than noise; with k = 8 "
    "the disk is a pale oval, since its noise was fitted. Noise is uniform.",
    "σ",
    [-5, 0, 5],
    columns=2,
    height=3.3,
    vmin=-5,
    vmax=5,
    stretch="linear",
    cmap="PuOr",
)
plt.show()

# %%
# All three have a :math:`\chi^2` near 1, so it does not tell them apart. The residuals
# do:
#
# - *A pattern, above 5 σ: too smooth.* The data contain more than the image. (Fainter
#   rings remain at k = 32, below 5 σ: TV still biases the image a little.)
# - *Much weaker than noise: over-fitted.* The noise has gone into the image, although
#   nothing large remains.
#
# Hence a rule: *take the strongest regularizer that leaves no residual above 5 σ*, and
# check that the residual is hardly weaker than noise, inside the source and outside.
# Some noise on large scales always goes into the image. ``fit`` gives such a verdict
# itself; here it judges against the original data, without the residual added.

best = max(k for k, image in rest.items() if abs(image).max() < 5)
within, around = (rms(rest[best][at]) / rms(noise[at]) for at in (inside, ~inside))
print(f"k = {best}: {within:.2f} times the noise inside, {around:.2f} times outside")
assert best == 32
assert verdict[best] == "converged"
assert abs(within - 1) < 0.12
assert abs(around - 1) < 0.15
assert rms(rest[8][inside]) < 0.7 < 1.3 < rms(rest[64][inside])

# %%
# Now look at the truth
# ---------------------
#
# Fit the same visibilities once more, without their noise, and twice with another
# prior: a large ``epsilon`` makes TV mild on small differences, so that slopes can
# remain slopes. Compare each with the truth twice: pixel by pixel, and with both
# convolved with the beam.

noiseless = fit_twice(quiet.data, best)[1]
gentle = {k: fit_twice(seen.data, k, epsilon=1)[1] for k in (50, 100)}


def compare(image, other):
    """Tell how far apart two images are: pixel by pixel, and at the beam."""
    wrong = image - other
    blurred = [np.linalg.norm(convolve(x, coords, beam)) for x in (wrong, truth)]
    return float(wrong.norm() / truth.norm()), float(blurred[0] / blurred[1])


# %%

print("as a part of the truth     by pixel   at the beam")
pairs = {f"fit, k = {k}, off by": (sky[k], truth) for k in sky}
pairs["the best k without noise"] = (noiseless, truth)
pairs["what noise has changed"] = (sky[best], noiseless)
pairs |= {f"another prior, k = {k}": (image, truth) for k, image in gentle.items()}
off = {name: compare(*pair) for name, pair in pairs.items()}
for name, (by_pixel, at_beam) in off.items():
    print(f"{name:<26} {by_pixel:10.1%} {at_beam:13.1%}")
print("residuals of the other prior: rms in, out, largest")
for k, image in gentle.items():
    tell(k, judge(image)[0])
fitted, blurred = off[f"fit, k = {best}, off by"]
assert blurred < fitted / 2
assert off["the best k without noise"][0] > off["what noise has changed"][0]
assert off["another prior, k = 100"][0] < 0.7 * fitted
assert off["fit, k = 8, off by"][0] < fitted
assert rms(judge(gentle[50])[0][inside]) < 0.75
assert abs(judge(gentle[100])[0]).max() > 5

# %%
# So three things separate the image from the truth:
#
# - *What the antennas did not see.* Most of the error is finer than the beam.
# - *The regularizer*, which fills that in. Even without noise the image is off, because
#   TV turns slopes into terraces.
# - *Noise that was fitted*, which matters less here.
#
# The rule keeps you from fitting noise, but does not find the image nearest to the
# truth. The over-fitted image is nearer, because here TV's bias costs more than fitted
# noise. Nor does the rule rank priors: the other one fails it at both strengths,
# over-fitted or too smooth, and pixel by pixel it is nearer than TV with any *k* here,
# because this truth has no edges. That you would have to know, or assume.
#
# Check
# -----
#
# Is ``ExactLikelihood`` right? Add up the visibilities of an asymmetric image one by
# one, in float64.

# folded: The sum, one visibility at a time
few = slice(0, 299_796, 997)
u, v, weight = (values[0, few] for values in baselines)
data = seen.data[0, few]
image = rng.uniform(size=(35, 36))
image = np.concatenate([image, np.zeros((1, 36))])  # 36 × 36, asymmetric

small = GridCoords(cell_size=0.03, npix=36)
east, north = small.sky_coordinates()
arcsec = np.pi / 180 / 3600
turns = (u[:, None] * east.ravel() + v[:, None] * north.ravel()) * arcsec
by_hand = np.exp(-2j * np.pi * turns) @ image.ravel() * small.cell_size**2
expected = np.sum(weight * np.abs(data - by_hand) ** 2)

quick = ExactLikelihood(u, v, data, weight, 0.03, 36, dtype=torch.float64)
error = abs(quick(torch.from_numpy(image)[None]).item() / expected - 1)
assert error < 1e-10, error
print(f"{data.size} visibilities: relative error {error:.0e}")

# %%
# Averages in cells
# -----------------
#
# `An early tutorial of MPoL`__ does what is usual: it sorts the visibilities into the
# cells of a grid and averages each cell. A model is then compared at the centre of a
# cell, although its visibilities lie anywhere in it. Does the truth fit? The narrower
# the field, the wider the cells. MPoL advises a wide field, so try three, with pixels
# of one size.
#
# __ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

import warnings


def average(grid):
    """Average in cells; return the warning, too, if there is one."""
    scaled = seen.data / unit
    arrays = (*baselines[:2], seen.weight * unit**2, scaled.real, scaled.imag)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cells = DataAverager(grid, *arrays).to_pytorch_dataset()
    return cells, [str(warning.message) for warning in said]


of_truth, told, exact = {}, {}, judge(truth)[1]
for side in (npix, 2 * npix, 4 * npix):
    grid = GridCoords(coords.cell_size, side)
    wide = torch.from_numpy(sky_image(disk, coords.cell_size, side))[None] / unit
    cells, told[side] = average(grid)
    vis = FourierCube(grid)(sky_to_packed(wide))
    of_truth[side] = losses.r_chi_squared_gridded(vis, cells).item()
print("pixels   reduced χ² of the truth, in cells    DataAverager warns")
for side, value in of_truth.items():
    print(f"{side:>6} {value:18.2f} {'yes' if told[side] else 'no':>27}")
print(f" exact {exact:18.2f}")
print(textwrap.fill("The first warning: " + told[npix][0], 80))

# %%
# A disk that fills the field is the worst case, because its transform changes across a
# cell. In a field four times as wide the averages are nearly right. The
# :term:`exact likelihood` has no cells and needs no wider field. What does the worst
# case do to a fit?

cells, _ = average(coords)
strength = 8 * slope * nvis / len(cells.index)  # χ² is divided by cells here
in_cells = fit(
    GriddedNet(coords).to(device),
    cells.to(torch.float32).to(device),
    losses={"tv": (strength, partial(losses.TV_image, epsilon=1e-3))},
    optimizer="lbfgs",
    max_iter=600,
    progress=False,
)
spoiled = unit * in_cells.image.cpu()[0].double()
over, *_ = judge(spoiled)
in_cells_off, exact_off = (compare(x, truth)[0] for x in (spoiled, fits[8][0]))
print(f"fit says {in_cells.why}; reduced χ² {in_cells.terms['chi2']:.1f}")
print(f"off by {in_cells_off:.0%}, residuals up to {abs(over).max():.0f} σ")
print(f"one exact fit with the same TV, k = 8: off by {exact_off:.0%}")
assert in_cells_off > 2 * exact_off
assert of_truth[npix] > 1.5 * in_cells.terms["chi2"]

# %%
# *The truth fits the averages worse than this image does*, which the fit has distorted
# to match them.
#
# Measure
# -------
#
# Time the fit above, and then one step written out, in the PyTorch that ``fit`` spares
# you: on one core of the CPU, and on your GPU if you have one.


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

bench = Bench("first-light", budget=3)
bench.time("a whole fit, 180", one_fit, n=npix**2, device=device)
for side in (npix, 512):
    bench.time(f"a step, {side}, CPU", make_step(torch.device("cpu"), side), n=side**2)
    if device.type != "cpu":
        step = make_step(device, side)
        bench.time(f"a step, {side}, GPU", step, n=side**2, device=device)
bench.show()

# %%
# What does the model of the H100 promise for a step? Other programs can only slow a
# step down, so the fastest sample counts.

for side in (npix, 512):
    gain = min(bench[f"a step, {side}, CPU"].values) / on_h100[side]
    print(f"{side} pixels: one core takes {gain:.1f} times as long as the model")

# %%
# It is a model, and the most that an H100 can gain over one core in this loop.

torch.set_num_threads(threads)

# %%
# A step is launches. Others measured what a launch costs, alone and in a large program;
# nobody has published a step of a fit like this one.
#
# .. measured-by-others:: operation-a100 operation-rtx4090 dalle-h100
#
# Where this stops being true
# ---------------------------
#
# - *A wide field, a faint source.* Positive pixels then turn noise into :term:`flux`:
#   see :doc:`/tutorials/4_imaging/02_your_own_data`.
# - *Two skies that the array cannot tell apart.* No residual shows which one it was.
# - *Little data, or much noise.* Cells do no harm if the noise of an average is larger
#   than its error, nor if the source is small.
# - *Many channels, sweeps.* There a GPU has enough work at once, at any size.
# - *Weights.* All of this relies on them, and real ones are often wrong by a factor:
#   check them first.
# - *Another rule.* :doc:`/tutorials/4_imaging/07_choosing_regularizers` asks which
#   strength best predicts data that the fit has not seen.
#
# Exercise
# --------
#
# The image is in Jy/arcsec². What is its flux in Jy? Write a function of an image, a
# tensor or an array of shape (channels, rows, columns), and of the width of its pixels
# in arcsec, that returns one number for each channel.


def flux(image, cell_size): ...


# %%
# ``check`` tries it on images whose flux is known.


# folded: The checker
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
            shapes = f"{got.shape}, not {expected.shape}"
            return f"flux has the shape {shapes}: one number for each channel."
        if not np.allclose(got, expected, rtol=1e-5):
            return f"flux is {got} and should be {expected}. Hint: {hint}."
    return "Right: the scale of your images is right from now on."


# %%

print(check(flux))

# %%

# solution


def flux_solution(image, cell_size):
    return image.sum((1, 2)) * cell_size**2


print(check(flux_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. Compare the residual of a fit with noise: above 5 σ it is too smooth, and if")
print("   it is far weaker than noise it is over-fitted.")
print(f"2. This residual is {within:.2f} times as strong as noise inside the disk, at")
print(
    f"   most {abs(rest[best]).max():.1f} σ. It does not show that the image is off by"
)
print(f"   {fitted:.1%}, and by {blurred:.1%} at the beam.")
print(f"3. Averages in cells gave the truth a χ² of {of_truth[npix]:.0f} in a field")
print(f"   that it fills; without cells it is {exact:.2f}.")
