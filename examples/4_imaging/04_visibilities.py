"""
What does an interferometer measure?
====================================

Not an image: each pair of its antennas measures one complex number at a time, a
:term:`visibility`, which is one Fourier component of the sky. Most components are never
measured, so skies that look quite different can fit the same data, and only a
:term:`prior` chooses between them. This page is for anyone who has arrays such as those
of `an early tutorial of MPoL`__ (``uu``, ``vv``, ``weight``, ``data_re``, ``data_im``)
and wants to know what they hold before a GPU makes an image of them. You will make such
arrays yourself, from known skies.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- what one pair of antennas measures, and what changes as the Earth turns;
- to average visibilities, and to check whether their :term:`weights <weight>` are
  right;
- which skies an array cannot tell apart, however its data are processed;
- how much arithmetic the prediction of visibilities takes, and when to use a NUFFT.

**Time:** 12 minutes. **Needs:** any computer. With a GPU, the page measures that too.
"""

# %%
# Predict
# -------
#
# A wave from a source off to the side reaches one antenna before the other. If you
# multiply the two signals, the product depends on how many wavelengths fit into the
# difference of the paths. So a pair at a distance :math:`b`, a :term:`baseline`, sees
# the sky through stripes, a :term:`fringe`, of width :math:`\lambda / b`, where
# :math:`\lambda` is the wavelength.
#
# 43 antennas make 43 · 42 / 2 pairs. Let each pair measure 332 times in a night. A
# visibility with u, v and weight takes 40 bytes. To *predict* one from an image,
# multiply each pixel by a wave and add up: four operations a pixel, if the waves are
# known already.

# sphinx_gallery_thumbnail_number = 4
import math
from dataclasses import replace
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

from firstlight.timing.specs import spec

ARCSEC = math.pi / 180 / 3600
wavelength = 299_792_458 / 230e9  # in metres, at 230 GHz
for metres in (15, 150, 2500):
    waves = metres / wavelength
    print(f"{metres:>5} m: {waves:9,.0f} wavelengths, {1 / waves / ARCSEC:5.2f} arcsec")
npix, nvis = 180, 43 * 42 // 2 * 332
work = 4 * nvis * npix**2
print(f"{nvis:,} visibilities: {40 * nvis / 1e6:.0f} MB")
print(f"from 180 × 180 pixels: {work / 1e9:.0f} billion operations")
for card in ("GTX 1080", "RTX 4090", "H100 SXM"):
    print(f"{card:>8}: at least {1e3 * work / spec(card, 'fp32'):.2f} ms")

# %%
# The data are small (12 GB for a thousand channels), but the arithmetic is not, and it
# suits a GPU. Write down what happens to a visibility if its source
# moves by half a stripe, or is wider than one.
#
# One pair, one number
# --------------------
#
# Let :math:`u` and :math:`v` (``uu``, ``vv``) be how far one antenna is to the east and
# to the north of the other, as seen from the source, in wavelengths. (MPoL's tutorial
# has thousands of them, *kilo-lambda*.) A sky of brightness :math:`I`, with :math:`l`
# to the east and :math:`m` to the north, has the visibility
#
# .. math::
#
#     V(u, v) = \iint I(l, m)\, e^{-2 \pi i (u l + v m)}\, \mathrm{d}l\, \mathrm{d}m.
#
# In radians and Jy per steradian, V is in *jansky*, Jy, the unit of flux density (here:
# *flux*). (The code has arcsec and Jy/arcsec².) The real part (``data_re``) is the sky
# seen through the stripes, the imaginary part (``data_im``) through stripes shifted by
# a quarter of their period. The figure takes two baselines, a point that moves east,
# and a round source that grows.

# figure
from firstlight.display import BLUE, GREEN, GREY, ORANGE
from firstlight.imaging import GridCoords, Point, Ring, plot_image

grid = GridCoords(cell_size=0.03, npix=npix)
east, north = grid.sky_coordinates()
steps = np.linspace(0, 0.4, 6)  # arcsec
fig, axes = plt.subplots(2, 2, figsize=(7.2, 6.6), layout="constrained")
for (top, bottom), metres in zip(axes.T, (150, 450), strict=True):
    u = metres / wavelength
    fringe = np.cos(2 * np.pi * u * east * ARCSEC)
    plot_image(fringe, grid, ax=top, stretch="linear", unit=None, cmap="gray")
    top.plot(steps, 0 * steps, "o-", color=BLUE, mec="#fefefe", ms=7)
    top.set(title=f"{metres} m to the east", xlim=(0.9, -0.9), ylim=(-0.9, 0.9))
    moved = np.array([Point(1, east=x).visibilities(u, 0) for x in steps])
    grown = np.array([Ring(1, 0, x + 1e-9).visibilities(u, 0) for x in steps])
    bottom.add_patch(plt.Circle((0, 0), 1, fill=False, ls="--", ec=GREY))
    bottom.plot(moved.real, moved.imag, "o-", color=BLUE, label="moves")
    bottom.plot(grown.real, grown.imag, "s-", color=ORANGE, label="grows")
    bottom.set(aspect="equal", xlabel="real, Jy", ylabel="imaginary, Jy")
axes[1, 0].legend(frameon=False, loc=(0.25, 0.62), fontsize=9)  # inside the circle
fig.suptitle("A shift turns the phase, and a width lowers the amplitude")
fig.set_label(
    "Above, stripes over the sky. Below, the visibility: as a point moves east it runs "
    "along a circle, three times as far for 450 m as for 150 m. As a source grows, V "
    "moves inwards, and only for 450 m to zero."
)
plt.show()

# %%
# *Position sets the phase, and size lowers the amplitude.* A shift by half a stripe
# turns the phase by half a circle and leaves the amplitude as it was. A source wider
# than a stripe covers bright and dark stripes alike, so that its visibility all but
# vanishes. The longer the baseline, the sooner both happen.
#
# The Earth turns
# ---------------
#
# As seen from the source, the array rotates, and each pair traces an arc of an ellipse
# in the :term:`plane of u and v`. Its :term:`mirror image` tells you nothing new:
# because a sky is real, :math:`V(-u, -v)` is the complex conjugate of :math:`V(u, v)`.

# figure
from firstlight.imaging.simulate import observe, uv_track, with_noise

filled, look = {}, {"figsize": (7.2, 5.4), "layout": "constrained"}
fig, axes = plt.subplots(2, 3, sharex=True, sharey=True, **look)
plans = zip((0, 1, 6, 6, 6, 6), (-24, -24, -24, -60, 0, 30), strict=True)
for ax, (hours, declination) in zip(axes.flat, plans, strict=True):
    span = {"hour_angles": (-hours / 2, hours / 2), "n_times": 1 + 10 * hours}
    u, v = uv_track(declination=declination, **span).uvw.T[:2] / wavelength
    cells = grid.packed_cells(np.append(u, -u), np.append(v, -v))
    share = filled[hours, declination] = np.unique(cells).size / npix**2
    for sign, colour in ((1, BLUE), (-1, ORANGE)):
        ax.plot(sign * u[::3] / 1e6, sign * v[::3] / 1e6, ".", ms=0.5, color=colour)
    ax.set(xlim=(2, -2), ylim=(-2, 2), aspect="equal")
    ax.set_title(f"{hours} h, δ = {declination}°\n{share:.1%} filled", fontsize=10)
fig.supxlabel("u to the left, v upwards: million wavelengths", fontsize=11)
fig.suptitle(f"Even six hours fill only {filled[6, -24]:.0%} of the cells (δ = −24°)")
fig.set_label(
    f"The uv plane. In a moment 43 antennas fill {filled[0, -24]:.1%} of the cells, in "
    f"6 hours {filled[6, -24]:.0%}. At declination 0 all tracks are horizontal."
)
plt.show()

# %%
# The cells are those of the Fourier transform of 180 × 180 pixels of 0.03 arcsec. *Most
# of them stay empty.* At declination :math:`\delta = 0` the ellipses become lines with
# empty rows between them.
#
# Noise, and the shortest spacing
# -------------------------------
#
# Observe a ring of 0.25 Jy inside a wide Gaussian glow of 0.5 Jy (``width`` is its
# standard deviation). Every fourth antenna is noisy. The *weight* of a visibility is
# :math:`1/\sigma^2`, where :math:`\sigma` is the noise of the real part and of the
# imaginary part alike. Then move the ring to the centre (``shift_phase_centre``),
# because otherwise its phases would cancel in the means.

from firstlight.imaging.data import shift_phase_centre

place = {"east": 0.5, "north": -0.3}
ring, glow = Ring(flux=0.25, radius=0.8, width=0.12), Ring(flux=0.5, radius=0, width=8)
sky = [replace(part, **place) for part in (ring, glow)]
sigma = np.where(np.arange(43) % 4 == 0, 0.06, 0.02)  # Jy, of each antenna
seen = with_noise(observe(sky, uv_track(n_times=60)), sigma, seed=1)
centred = shift_phase_centre(seen, **place).data[0]
length, weight = np.hypot(seen.uu, seen.vv)[0], seen.weight[0]
q = np.linspace(0, length.max(), 4000)
alone, glowing = ring.visibilities(q, 0).real, glow.visibilities(q, 0).real
look = {"fmt": "o", "ms": 5, "color": BLUE, "capsize": 2}


def means(values, edges):
    total = np.histogram(length, edges, weights=weight)[0]
    return np.histogram(length, edges, weights=weight * values)[0] / total, total**-0.5


# %%
# Which should you average: the amplitudes, as is usual in plots, or the complex
# numbers? Each mean is over baselines of like length in all directions, which
# describes only a *round* source. The lower panel enlarges the left twentieth of the
# upper one.

# figure
found = []
fig, axes = plt.subplots(2, figsize=(7.2, 6.2), layout="constrained")
limits = (length.max(), -0.12, 0.3), (1e5, 0, 0.8)
for ax, (reach, low, high) in zip(axes, limits, strict=True):
    edges = np.quantile(length[length <= reach], np.linspace(0, 1, 40))
    real, error = means(centred.real, edges)
    amplitude, middle = (means(a, edges)[0] for a in (np.abs(centred), length / 1e3))
    found += [amplitude, real, error]
    ax.plot(middle, amplitude, "s", ms=5, color=ORANGE, label="mean of amplitudes")
    ax.errorbar(middle, real, error, **look, label="mean of complex numbers")
    ax.plot(q / 1e3, alone + glowing, color=GREEN, label="analytic")
    ax.plot(q / 1e3, alone, "--", color=GREEN, label="the ring alone")
    ax.axvspan(0, length.min() / 1e3, color=GREY, alpha=0.4, label="not measured")
    ax.set(xlim=(0, reach / 1e3), ylim=(low, high), ylabel="Jy")
axes[0].legend(frameon=False, fontsize=9)
axes[1].set_xlabel("length of the baseline, thousand wavelengths")
bias = f"{1e3 * found[0][-1]:.0f} mJy of noise"
fig.suptitle(f"Averaged amplitudes level off at {bias}; complex means do not")
fig.set_label(
    "Means of complex numbers follow the analytic curve; amplitudes level off. "
    "Below: where nothing is measured, near zero, it rises to 0.75 Jy."
)
plt.show()
faint = [1e3 * values[-1] for values in found[:3]]
print("longest: amplitudes {:.1f} mJy, complex numbers {:.1f} ± {:.1f}".format(*faint))
total = ring.flux + glow.flux
shortest = sum(part.visibilities(length.min(), 0).real for part in (ring, glow))
print(f"shortest pair, without noise: {shortest:.2f} of {total:.2f} Jy")

# %%
# *Average complex numbers.* An amplitude is never negative, so that in a mean of
# amplitudes the noise adds up and looks like a source. And *the flux is* :math:`V(0,
# 0)`, *which no pair measures*, because two antennas cannot stand closer than their
# diameter. Here even the shortest pair misses more than half of the flux. A Gaussian
# source whose full width at half maximum exceeds 0.6 of the widest stripe (ALMA's
# *maximum recoverable scale*) loses most of its flux. To recover it you need a more
# compact array or a single dish.
#
# Are the weights right?
# ----------------------
#
# Means, :math:`\chi^2` and fits rely on the weights, which in real data are often wrong
# by a factor. ``check_weights`` compares visibilities next to each other in time,
# because what changes from one to the next is mostly noise. Make yours wrong on
# purpose: first by a factor of four, then as if you had read SIGMA instead of WEIGHT
# among `CASA's columns`__.
#
# __ https://casadocs.readthedocs.io/en/stable/notebooks/data_weights.html

from firstlight.imaging import check_weights, scale_weights
from firstlight.imaging.data import antenna_mask, flag

print(check_weights(replace(seen, weight=4 * seen.weight)), end="\n\n")
misread = replace(seen, weight=seen.weight**-0.5)
report = check_weights(misread)
corrected = scale_weights(misread, report)
w = corrected.weight
promised, true = w.sum() ** -0.5, (w**2 / seen.weight).sum() ** 0.5 / w.sum()
print(f"SIGMA: multiply by {report.worst:.3g}. Then the mean of all data has noise of")
print(f"{1e6 * promised:.0f} µJy by its weights, but really {1e6 * true:.0f} µJy")
still = {}
for antenna in (0, 1):
    its_own = flag(corrected, ~antenna_mask(corrected, antenna=antenna))
    still[antenna] = check_weights(its_own).worst
    print(f"antenna {antenna} alone: multiply by another {still[antenna]:.2f}")

# %%
# In the report, *weights x* is the factor to multiply by, here a quarter, and
# ``scale_weights`` applies it. SIGMA is detected, too, but no single factor corrects
# it, because the noisiest antennas now count most. So check antenna by antenna, as in
# the last lines. Where their factors differ, use :math:`1/\mathrm{SIGMA}^2`.
#
# Units, mirror images, and a grid
# --------------------------------
#
# ``DirtyImager`` refuses kilo-lambda, and files that hold each visibility twice, the
# second time as its mirror image. ``check_image_grid`` says what a grid cannot show.

# folded: Wrong units, mirror images and too wide a grid, and what is said of them
from firstlight.imaging import DirtyImager, check_image_grid, suggest_grid

arrays = [seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag]
mirror = [sign * a for sign, a in zip((-1, -1, 1, 1, -1), arrays, strict=True)]
tries = {"kilo-lambda": [arrays[0] / 1e3, arrays[1] / 1e3, *arrays[2:]]}
tries["mirrored"] = [np.hstack(pair) for pair in zip(arrays, mirror, strict=True)]
for name, wrong in tries.items():
    try:
        DirtyImager(grid, *wrong)
    except ValueError as refusal:
        print(fill(f"{name}: {refusal}", 84), end="\n\n")
print(suggest_grid(seen, field=5.4))
wide = check_image_grid(seen, suggest_grid(seen, field=30))
print(fill(str(next(limit for limit in wide if limit.code == "scale")), 84))

# %%
# Two skies, one set of data
# --------------------------
#
# The centre is not the only hole in the uv plane. Take 11 antennas and one hour. Inside
# the coverage, find the point :math:`(u_0, v_0)` that is farthest from all measured
# ones, and multiply a smooth cloud by 1 plus its fringe. This adds half of :math:`V`,
# shifted by :math:`\pm(u_0, v_0)`, into the holes.

from firstlight.imaging.simulate import alma_antennas

cloud = Ring(flux=0.25, radius=0, width=0.5, inclination=40, position_angle=60)
few = uv_track(alma_antennas()[::4], hour_angles=(-0.5, 0.5), n_times=20)
u, v = few.uvw.T[:2] / wavelength
side = np.arange(-8e5, 8.1e5, 4e4)
places = np.array([(a, b) for a in side for b in side if math.hypot(a, b) > 3e5])
clear = [np.hypot(np.append(u, -u) - a, np.append(v, -v) - b).min() for a, b in places]
u0, v0 = places[np.argmax(clear)]


def added(u, v):
    return (cloud.visibilities(u - u0, v - v0) + cloud.visibilities(u + u0, v + v0)) / 2


stripes = 1 + np.cos(2 * np.pi * ARCSEC * (u0 * east + v0 * north))
smooth = cloud.image(grid.cell_size, npix)
skies = {"smooth": smooth, "striped": stripes * smooth}
many = np.linspace(-1.5e6, 1.5e6, 151)
change = np.abs(added(*np.meshgrid(many, many))) / cloud.flux

# %%

# figure
from matplotlib.lines import Line2D

fig, axes = plt.subplots(1, 3, figsize=(7.2, 3.5), layout="constrained")
for ax, (name, image) in zip(axes, skies.items(), strict=False):
    plot_image(image, grid, ax=ax, vmax=0.4, stretch="linear", unit=None)
    ax.set(title=name, xlim=(1.4, -1.4), ylim=(-1.4, 1.4), xlabel="arcsec", ylabel="")
key = [Line2D([], [], color=GREEN, label="what the stripes add")]
for sign, colour, name in ((1, BLUE, "measured"), (-1, ORANGE, "mirror image")):
    axes[2].plot(sign * u / 1e6, sign * v / 1e6, ".", ms=1, color=colour)
    key += [Line2D([], [], color=colour, ls="", marker="o", ms=4, label=name)]
fig.legend(handles=key, loc="outside lower right", ncols=3, frameon=False, fontsize=9)
axes[2].contour(many / 1e6, many / 1e6, change, [0.01, 0.1, 0.4], colors=GREEN)
axes[2].set(title="uv plane", xlim=(1.5, -1.5), ylim=(-1.5, 1.5), aspect="equal")
axes[2].set_xlabel("million wavelengths")
differ = np.abs(added(u, v)).max() / cloud.flux
title = "No fit can tell these skies apart: in the data, V differs"
fig.suptitle(f"{title} by {differ:.0e} of the flux")
fig.set_label(
    "A smooth cloud; the same cloud cut into bright and black stripes; and the uv "
    "plane: what the stripes add lies in two wide holes between the measured tracks."
)
plt.show()

# %%
# Does :math:`\chi^2` distinguish the two if the noise is 5 mJy? Do larger arrays?
# (*Total variation*, TV, adds up the differences between neighbouring pixels.)

import torch

from firstlight.imaging.model import losses

data = with_noise(observe([cloud], few), 5e-3, seed=2)
models = {"smooth": cloud.visibilities(u, v)}
models["striped"] = models["smooth"] + added(u, v)
chi2, apart = {}, {}
for name, model in models.items():
    chi2[name] = float((data.weight * np.abs(data.data - model) ** 2).sum())
    tv = losses.TV_image(torch.from_numpy(skies[name])[None])
    print(f"{name:>7}: chi² {chi2[name]:.4f}, of {2 * u.size} numbers; TV {tv:.0f}")
for count, hours, times in ((11, 1, 20), (11, 6, 120), (22, 1, 20), (43, 1, 20)):
    span = {"hour_angles": (-hours / 2, hours / 2), "n_times": times}
    track = uv_track(alma_antennas()[:: 44 // count], **span)
    change = np.abs(added(*track.uvw.T[:2] / wavelength)) ** 2
    apart[count, hours] = float(change.sum()) / 5e-3**2
    print(f"{count} antennas, {hours} h: {apart[count, hours]:.2g} apart in chi²")

# %%
# *As far as these data go, the two are the same sky.* Both are positive, have the same
# flux, and fit, so that no algorithm can find out which is there. If you obtain one of
# them nevertheless, something else has chosen: a *prior*, what you expect of a sky. A
# fit that favours little TV, as in :doc:`First light
# </tutorials/4_imaging/01_first_light>`, prefers the smooth one, right or wrong, and
# :math:`\chi^2` will not tell. More antennas do distinguish them; a longer
# :term:`track` only just (25 apart in :math:`\chi^2` is five sigma). *What you did not
# measure, you must assume*, and say so.
#
# Predicting visibilities from an image
# -------------------------------------
#
# Add up the pixels. The wave separates into :math:`e^{-2 \pi i u l}` times
# :math:`e^{-2 \pi i v m}`, so the sum over columns is a matrix product; the sum over
# rows is not. The waves are computed in float64, because float32 lacks the digits for a
# phase of many turns, and then rounded.


def make_waves(u, v, grid):
    """Cosines, and below them sines, along the columns and along the rows."""
    east, north = grid.sky_coordinates()
    turns = np.outer(u, east[0] * ARCSEC), np.outer(v, north[:, 0] * ARCSEC)
    waves = (np.exp(2j * np.pi * each).astype(np.complex64) for each in turns)
    return [torch.from_numpy(np.vstack([w.real, w.imag])) for w in waves]


def direct_sum(image, along, up, area):
    cosines, sines = (along @ image.T).chunk(2)
    c, s = up.chunk(2)
    parts = torch.stack([c * cosines - s * sines, -c * sines - s * cosines])
    return parts.sum(-1) * area


# %%
# Check
# -----
#
# Compare it with the analytic transform of the striped cloud, at 301 baselines:

image, pixel = torch.from_numpy(skies["striped"]).float(), grid.cell_size**2
waves = make_waves(u[:301], v[:301], grid)
parts = direct_sum(image, *waves, pixel)
worst = np.abs(torch.complex(*parts).numpy() - models["striped"][:301]).max()
assert worst < 1e-6 * cloud.flux, worst
print(f"off by {worst / cloud.flux:.0e} of the flux, at most")
size = sum(each.nbytes for each in waves) / 301  # bytes a visibility
print(f"waves: {size:,.0f} bytes a visibility, {size * nvis / 1e9:.2f} GB in all")

# %%
# Measure
# -------
#
# The alternative is the *non-uniform FFT* (NUFFT): one FFT on a grid twice as wide, and
# some four hundred operations a visibility. So the direct sum should win only if there
# are few visibilities. Its waves are made before the clock starts, which favours it.

from firstlight import Bench, best_device
from firstlight.imaging.fourier import visibilities

device, rng = best_device(), np.random.default_rng(seed=3)
counts = [100, 1000, 10_000] + [100_000] * (device.type != "cpu")
fft = 5 * (2 * npix) ** 2 * math.log2((2 * npix) ** 2)
bench = Bench("predict-visibilities", budget=1.6)
for n in counts:
    a, b = rng.uniform(-1.5e6, 1.5e6, (2, n))
    pieces = [image, *make_waves(a, b, grid)]
    size = {"n": n, "flops": 4 * n * npix**2}
    print(f"{n:>7,}: {size['flops']:.1e} operations, NUFFT {fft + 400 * n:.1e}")
    bench.time("direct sum", direct_sum, *pieces, pixel, **size)
    bench.time("NUFFT", visibilities, image[None], a, b, grid.cell_size, n=n)
    if device.type != "cpu":
        there = [tensor.to(device) for tensor in pieces]
        bench.time("direct sum, GPU", direct_sum, *there, pixel, device=device, **size)
bench.show()

# %%

for n in counts:
    took = [bench[f"{way}/cpu/n={n}"].median for way in ("direct sum", "NUFFT")]
    print(f"{n:>7,}: the direct sum takes {took[0] / took[1]:.2g} times as long")
print(f"the whole night, in proportion: {took[0] * nvis / n:.1f} s by the direct sum")

# %%

bench.plot()

# %%
# By operations the two are equal at about a hundred visibilities. The measured ratio
# passes 1 later if a matrix product sustains more operations per second than an FFT, or
# uses more cores (see the table). *Beyond that, take the NUFFT.* The dashed line is a
# model: the least time that the operations need here.
#
# With ten thousand visibilities, the direct sum on the newest GPU on record, against
# the NUFFT on the CPU beside it: :timing:`predict-visibilities speedup "direct sum,
# GPU/cuda:0/n=10000" / "NUFFT/cpu/n=10000" @gpu`.
#
# Where this stops being true
# ---------------------------
#
# - *Wide fields.* The integral assumes a flat sky (no w term), antennas whose primary
#   beam is constant, and no :term:`smearing` by channel width or integration time.
#   ``check_image_grid`` tells you whether that holds.
# - *Real phases* are also changed by the atmosphere, so that data have to be calibrated
#   before they come here.
# - *Signs.* CASA and UVFITS have :math:`+2 \pi i` in the exponent. With the wrong sign
#   the image is rotated by half a turn (:doc:`/vocabulary`).
#
# Exercise
# --------
#
# Write the visibility of a point source, given its flux in Jy, its offset to the east
# and north in arcsec, the baseline (east, north) in metres as seen from the source, and
# the frequency in Hz.


def visibility(flux, east, north, baseline, frequency): ...


# %%


# folded: The checker
def check(answer):
    (b, c), nu, light = (120.0, -45.0), 115e9, 299_792_458
    for flux, x, y in ((2.0, 0.0, 0.0), (1.0, 0.3, 0.0), (3.0, 0.2, -0.5)):
        waves = (b * x + c * y) * ARCSEC * nu / light
        mistakes = {
            "the exponent is negative": -waves,
            "a whole turn is 2π": waves / (2 * np.pi),
            "arcsec are not radians": waves / ARCSEC,
            "in wavelengths, not in thousands of them": waves / 1e3,
            "u is metres × frequency / c": waves * (light / nu) ** 2,
            "east goes with east": (c * x + b * y) * ARCSEC * nu / light,
        }
        values = {h: flux * np.exp(-2j * np.pi * t) for h, t in mistakes.items()}
        try:
            got = answer(flux, x, y, (b, c), nu)
            if got is None:
                return "Not yet answered: visibility returned nothing."
            got = complex(got)
        except Exception as error:
            return f"visibility raised {type(error).__name__}: {error}"
        if not np.isclose(got, flux * np.exp(-2j * np.pi * waves)):
            hint = "flux × exp(-2πi (u l + v m)), a complex number"
            hint = next((h for h in values if np.isclose(got, values[h])), hint)
            return f"At ({x}, {y}) arcsec it gave {got:.3f}. Hint: {hint}."
    return "Right: you know what a pair of antennas measures."


# %%

print(check(visibility))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. Position sets the phase, size the amplitude. Average complex numbers:")
print(f"   amplitudes gave {faint[0]:.0f} mJy where the sky has nothing.")
print("2. Check units, mirror images and weights before anything else.")
print(f"3. The shortest pair saw {shortest:.2f} of {total:.2f} Jy, and a striped cloud")
print("   fits as well as a smooth one. A prior decides what was not measured.")

# %%
# Solution
# --------

# solution


def visibility_solution(flux, east, north, baseline, frequency):
    u, v = (metres * frequency / 299_792_458 for metres in baseline)
    return flux * np.exp(-2j * np.pi * (u * east + v * north) * ARCSEC)


print(f"Our solution: {check(visibility_solution)}")
