"""
First light: can you see the sky that was observed?
===================================================

*First light* is the first image that a new telescope takes. An interferometer, many
antennas that work as one telescope, takes none: it measures *visibilities*, and an
image has to be fitted to them. Below are a sky, the *dirty image*, which the antennas
show at once, and a fit. How would you know that it is right, without the truth?

**You will learn**

- to fit an image to every visibility, on any device, until the fit has settled;
- to tell too much fitted from too little, by the residuals alone;
- what spoils a fit to averages in cells, and when;
- to predict whether a GPU helps at your size.

**Time:** 16 minutes. **Needs:** any computer. With a GPU, the page fits on it.
"""

# folded: Observe: a sky, 43 antennas, noise
import math
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.imaging import DataAverager, DirtyImager, ExactLikelihood, FourierCube
from firstlight.imaging import GridCoords, GriddedNet, convolve, fit, fit_beam, losses
from firstlight.imaging import plot_image
from firstlight.imaging.coordinates import sky_to_packed
from firstlight.imaging.quality import quality_of
from firstlight.imaging.simulation import observe, uv_track, with_noise
from firstlight.imaging.skies import protoplanetary_disk, sky_image

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


def settle(data, k, epsilon=1e-3):
    """Fit with k times the slope of noise as the strength of TV; return both fits."""
    rest, found = 0, []
    variation = partial(losses.TV_image, epsilon=epsilon)
    how = {"optimizer": "lbfgs", "lambdas": "exact", "progress": False}
    how |= {"max_iter": 4000, "tolerance": 1e-4}
    for _ in range(2):
        likelihood.replace(data / unit + rest)
        model = GriddedNet(coords, base_cube=dim).to(device)
        result = fit(model, likelihood, losses={"tv": (k * slope, variation)}, **how)
        assert result.why not in ("max_iter", "not finite"), result.message
        rest = likelihood.residuals(result.image).cpu().numpy()
        found.append(unit * result.image.cpu()[0].double())
    return found


fits = {k: settle(seen.data, k) for k in (64, 32, 8)}
sky = {k: second for k, (first, second) in fits.items()}

# %%

# folded: Draw
imager = DirtyImager(coords, *baselines, seen.data.real, seen.data.imag)
dirty, lobe = imager.get_dirty_image(weighting="briggs", robust=0.5)
beam = fit_beam(lobe[0], coords.cell_size)
dirty = dirty[0] / beam.area  # Jy/arcsec²


def side_by_side(images, label, unit, ticks, columns=3, height=2.8, **look):
    rows = len(images) // columns
    size = (7.6, height * rows)
    fig, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
    for ax, (title, image) in zip(axes.flat, images.items(), strict=True):
        drawn = plot_image(image, coords, ax=ax, unit=None, beam=beam, **look)
        ax.set_title(title)
        ax.label_outer()
    fig.colorbar(drawn, ax=axes, label=unit, shrink=0.8, ticks=ticks)
    fig.set_label(label)


# %%

side_by_side(
    {"truth": truth, "dirty image": dirty, "fit": sky[32]},
    "The truth, a disk with two rings around a star; its dirty image, blurred and with "
    "ripples; and the fit, as sharp as the truth but for the core, without ripples.",
    "Jy/arcsec²",
    [0, 0.05, 0.1, 0.2, 0.3],
    vmin=0,
    vmax=float(truth.max()),
    stretch="sqrt",
    scale_bar=1,
)
plt.show()

# %%
# *Flux* is how much radio light arrives, in jansky (Jy). What each fold holds is said
# below.
#
# Predict
# -------
#
# First: what should be left over? Take from the data what the image explains, and image
# the rest. In units of its noise, such a *residual* of the right image has an rms of 1.
# The largest of *n* independent numbers is near :math:`\sqrt{2 \ln n}`. A dirty image
# has about as many as it has *beams*, and both signs count.
#
# Second: does a GPU help? Each of 180 × 180 pixels is a parameter. A step of a fit
# goes to visibilities by a fast Fourier transform (FFT), and back for the gradient. An
# FFT of :math:`N` numbers takes about :math:`5 N \log_2 N` operations. And every line
# of such a loop starts a few *kernels* on a GPU, about 120 in all.

beams = npix**2 * area / beam.area
largest = math.sqrt(2 * math.log(2 * beams))
print(f"{beams:.0f} beams: the largest residual should be near {largest:.1f}")
fft = 5 * npix**2 * math.log2(npix**2)
print(f"a step: {2 * fft / 1e6:.1f} million operations in FFTs, 120 kernels to start")

# %%
# A GPU does ten million operations in less time than it takes to start one kernel. So
# the prediction is: *at 180 pixels a GPU wins little or nothing.*
#
# Observe
# -------
#
# The first fold observes a sky that you know, for a quarter of a day. Each pair of
# antennas, a *baseline*, measures the sky's Fourier transform along a track. The noise
# is 5 mJy in each visibility. Most of the Fourier plane stays empty, and so the dirty
# image (:doc:`/tutorials/4_imaging/02_dirty_image`) has ripples.
#
# Fit
# ---
#
# What the fit in the third fold makes small has two parts. The first is the reduced
# :math:`\chi^2`: the sum over all visibilities
#
# .. math::
#
#     \chi^2(I) = \sum_k w_k \left| D_k - V_k(I) \right|^2
#
# over twice their number. It is a quadratic function of the image. So it needs to know
# of the visibilities a number, an image, and the response to a point, twice as wide.
# ``ExactLikelihood`` makes them in one pass. Then a step is one pair of FFTs, *for any
# number of visibilities*: :doc:`/tutorials/4_imaging/07_off_the_grid` goes to a hundred
# million, and tells when ``float32`` is enough.
#
# The second part is a *regularizer*: total variation (TV), the sum of all steps between
# neighbouring pixels. Noise alone gives the first part a slope of
# :math:`s = a \sqrt{\sum_k w_k} / N` along a pixel of area *a*. So TV gets the strength
# :math:`k s`. Which *k*?
#
# Three tricks. *Units*: a pixel is the softplus of a parameter, so it is positive.
# Softplus bends at 1; far below, fits creep. So count in 0.01 Jy/arcsec². *Settle*:
# ``fit`` goes on until checks of 25 steps lower the loss by less than a part in 10 000.
# A fit that ends after a number of steps gives an image that depends on that number.
# *Fit twice*: TV shrinks what it smooths, and peaks most. So add the residual to the
# data, and fit those. What TV took is put back first, noise last: a `Bregman
# iteration`__.
#
# __ https://doi.org/10.1137/040605412
#
# Judge by what is left over
# --------------------------
#
# Three fits, and no loss falls any more. Forget the truth. Beside them goes noise,
# drawn anew from the weights, through the same imager.


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
    return residual_map(vis), chi2, quality_of(image, likelihood, chi2, nvis).verdict


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


print("     k   rms in      out    largest   reduced χ²  flux, Jy   before")
for k, image in rest.items():
    flux = float(sky[k].sum()) * area
    tell(k, image, f"{chi2[k]:11.4f} {flux:9.4f} {first[k]:6.1f} σ  {verdict[k]}")
tell("noise", noise, f"   1 ± {nvis**-0.5:.4f}")

# %%

shown = {f"k = {k}": rest[k] for k in (64, 32, 8)} | {"noise alone": noise}
side_by_side(
    shown,
    "Residuals of three fits and noise alone, up to 5 sigma. With k = 64 there is "
    "a pattern of rings; with k = 32 faint ones, no stronger than noise; with k = 8 "
    "the disk is a pale oval, for its noise was fitted. Noise is alike everywhere.",
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
# A :math:`\chi^2` near 1 passes them all. The residuals do not:
#
# - *A pattern, above 5 σ: too smooth.* The data have more than the image.
# - *Pale, far below the noise: over-fitted.* The noise has gone into the image. That
#   looks best to whoever looks for large residuals only.
#
# Hence a rule: *take the strongest regularizer that leaves no residual above 5 σ*, and
# see that the rest is as strong as noise, inside the source and outside. ``fit`` gives
# such a verdict itself; here it is on the data without what was added.

best = max(k for k, image in rest.items() if abs(image).max() < 5)
within, around = (rms(rest[best][at]) / rms(noise[at]) for at in (inside, ~inside))
print(f"k = {best}: {within:.2f} times the noise inside, {around:.2f} times outside")
assert best == 32
assert verdict[best] == "settled"
assert abs(within - 1) < 0.12
assert abs(around - 1) < 0.15
assert rms(rest[8][inside]) < 0.7 < 1.3 < rms(rest[64][inside])

# %%
# Now look at the truth
# ---------------------
#
# Fit the same visibilities once more, without their noise. And once with another prior:
# a large ``epsilon`` makes TV mild on small steps, so that slopes may stay slopes.
# Compare with the truth: pixel by pixel, and with both blurred to the beam, since finer
# things the antennas hardly see.

noiseless = settle(quiet.data, best)[1]
gentle = settle(seen.data, 50, epsilon=1)[1]


def compare(image, other):
    """Tell how far apart two images are: pixel by pixel, and at the beam."""
    wrong = image - other
    blurred = [np.linalg.norm(convolve(x, coords, beam)) for x in (wrong, truth)]
    return float(wrong.norm() / truth.norm()), float(blurred[0] / blurred[1])


# %%

print("parts of the truth           by pixel   at the beam")
pairs = {f"fit, k = {k}, off by": (sky[k], truth) for k in sky}
pairs["the best k without noise"] = (noiseless, truth)
pairs["what noise has changed"] = (sky[best], noiseless)
pairs["another prior"] = (gentle, truth)
off = {name: compare(*pair) for name, pair in pairs.items()}
for name, (by_pixel, at_beam) in off.items():
    print(f"{name:<26} {by_pixel:10.1%} {at_beam:13.1%}")
of_gentle, *_ = judge(gentle)
tell("another prior's residual", of_gentle)
fitted, blurred = off[f"fit, k = {best}, off by"]
assert blurred < fitted / 2
assert off["the best k without noise"][0] > off["what noise has changed"][0]
assert off["another prior"][0] < fitted / 2
assert off["fit, k = 8, off by"][0] < fitted
assert abs(of_gentle).max() < 5

# %%
# So three things keep the image from the truth. *What the antennas did not see*: most
# of the error is finer than the beam. *The regularizer*, which fills that in: without
# any noise the image is still off, by terraces that TV makes of slopes. *Noise that was
# fitted*, which here weighs less. And no residual ranks priors: the other one, and even
# the fit that is too quiet, are nearer to this truth, which has no edges. That one has
# to know, or to believe.
#
# Check
# -----
#
# Is the sum right? By its definition: each visibility of an image, added up one by one
# in float64. Take an image that is nothing like the truth, and an odd number of
# visibilities.

few = slice(0, 299_796, 997)
u, v, weight = (values[0, few] for values in baselines)
data = seen.data[0, few]
image = rng.uniform(size=(35, 36))
image = np.concatenate([image, np.zeros((1, 36))])  # 36 × 36, lopsided

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
# `An early tutorial of MPoL`__ has the usual way: sort the visibilities into the cells
# of a grid, and average each. A model is compared at the centre of a cell, though its
# visibilities lie anywhere in it. Does the truth fit? Cells are as wide as the field is
# small. MPoL advises a wide field; try three, with pixels of one size.
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
print("The first warning:", *told[npix])

# %%
# A disk that fills the field is the worst case: its transform changes over the width of
# a cell. In a field of four times the width the averages are nearly right. The exact
# likelihood has no cells, and needs no wider field. What does the worst case do to a
# fit?

cells, _ = average(coords)
strength = best / 8 * slope * nvis / len(cells.index)  # χ² is divided by cells here
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
print(f"fit says {in_cells.why}; reduced χ² {in_cells.terms['chi2']:.1f}")
print(
    f"off by {compare(spoiled, truth)[0]:.0%}, residuals up to {abs(over).max():.0f} σ"
)
assert compare(spoiled, truth)[0] > 2 * compare(sky[best], truth)[0]
assert of_truth[npix] > 1.5 * in_cells.terms["chi2"]

# %%
# *The truth fits the averages worse than this image does.* It has been bent to suit
# them.
#
# Measure
# -------
#
# A step by hand, in the lines of PyTorch that ``fit`` spares you. Moving it to a GPU
# takes ``.to(on)``, twice. It is timed with cells and exactly, on the CPU with all its
# cores, and on your GPU if you have one.

torch.set_num_threads(threads)


def make_step(on, side, exact):
    grid = GridCoords(cell_size=5.4 / side, npix=side)
    net = GriddedNet(grid).to(on)
    adam = torch.optim.Adam(net.parameters(), lr=0.5)
    if exact:
        arrays = (seen.uu, seen.vv, seen.data, seen.weight)
        data = ExactLikelihood(*arrays, grid.cell_size, side, device=on)
    else:
        averager = DataAverager(grid, *baselines, seen.data.real, seen.data.imag)
        data = averager.to_pytorch_dataset(False).to(torch.float32).to(on)

    def one_step():
        adam.zero_grad()
        vis = net()
        sky = net.icube.sky_cube
        if exact:
            loss = data(sky) / (2 * seen.data.size)
        else:
            loss = losses.r_chi_squared_gridded(vis, data)
        loss = loss + 1e-4 * losses.TV_image(sky)
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
# The exact likelihood's FFTs are twice as wide, so four times as large. That is the
# whole price. With eight times as many pixels, how much longer does a step take?

for on in ("CPU", "GPU")[: 1 + (device.type != "cpu")]:
    for kind in ("cells", "exact"):
        few, many = (bench[f"{kind}, {side}, {on}"].median for side in (npix, 512))
        print(f"{kind} on the {on}: {many / few:.1f} times as long")

# %%
# The less a GPU's step grows with the pixels, the longer it has waited for its starts:
# there your prediction holds.
#
# Where this stops being true
# ---------------------------
#
# - *A wide field, a faint source.* Positive pixels then make flux of noise: see
#   :doc:`/tutorials/4_imaging/09_your_own_data`.
# - *Two skies that the array cannot tell apart.* No residual shows which one it was.
# - *Little data, or much noise.* If the noise of an average is larger than the error of
#   averaging, cells do no harm. Nor do they for a small source.
# - *Large images, many channels, sweeps.* There a GPU has enough to do at once.
# - *Noise and weights.* All of this trusts the weights, and real ones are often off by
#   a factor: check them first.
# - *Another rule.* :doc:`/tutorials/4_imaging/04_choosing_regularizers` asks which *k*
#   predicts best what the fit has not seen.
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

print(
    "1. Settle the fit, then look at what is left over, beside noise alone: above 5 σ"
)
print("   it is too smooth, far below the noise it is over-fitted.")
print(f"2. This one has {within:.2f} of the noise inside the disk, at most", end=" ")
print(f"{abs(rest[best]).max():.1f} σ; it is off")
print(f"   by {fitted:.1%}, at the beam by", end=" ")
print(f"{blurred:.1%}: that, no residual shows.")
print(
    f"3. Averages in cells gave the truth a χ² of {of_truth[npix]:.0f}, in a field that"
)
print(f"   it fills; without cells it is {exact:.2f}, for any number of visibilities.")
