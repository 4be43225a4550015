"""
Ten ways in which your own data mislead
=======================================

An image came out, the loss stands still, and the reduced :math:`\\chi^2` is near 1. Is
the image right? Here is one small sky, known to the last digit, and ten mistakes that
happen to everybody, each made on purpose. Seven of them say nothing.

**You will learn**

- which mistakes no number reports, and which number would have;
- what the others say, so that you know the message when you meet it;
- the cure of each, tried.

**Time:** 12 minutes. **Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/03_first_light>`.
"""

# %%
# .. list-table:: The ten; the first seven are silent
#    :header-rows: 1
#    :widths: 28 36 36
#
#    * - Trap
#      - What gives it away
#      - Cure
#    * - 1. the other sign of phase
#      - no number; the sky is turned by 180°
#      - ``conjugate=``
#    * - 2. a field too wide
#      - too much flux; :math:`\chi^2` too small, in σ
#      - light only where the source is
#    * - 3. noise fitted
#      - what is left over in the source is quieter than noise
#      - a stronger regularizer
#    * - 4. a loss that stands still
#      - what is left over, as an image
#      - another start; a smaller tolerance
#    * - 5. channels that share noise
#      - neighbours correlate
#      - average, *then* check the weights
#    * - 6. averaged over too much
#      - what is far out is dim
#      - ``check_image_grid``, with the widths
#    * - 7. metres for kilo-lambda
#      - the longest baseline is not your array's
#      - ``unit=``
#    * - 8. averages in cells
#      - a warning of ``DataAverager``
#      - ``ExactLikelihood``
#    * - 9. weights off by a factor
#      - ``check_weights``
#      - ``scale_weights``
#    * - 10. a field too small
#      - :math:`\chi^2`, in σ
#      - look wide first
#
# How they look, and what is to be known of each:

# %%

# folded: What is imported

import tempfile
import textwrap
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import softplus

from firstlight import Bench
from firstlight.imaging import DataAverager, DirtyImager, ExactLikelihood, GriddedNet
from firstlight.imaging import Point, Ring, convolve, fit, fit_beam, losses, read_npz
from firstlight.imaging import check_image_grid, check_weights, scale_weights
from firstlight.imaging import suggest_grid
from firstlight.imaging.coordinates import sky_to_packed
from firstlight.imaging.simulation import alma_antennas, channels, observe, uv_track
from firstlight.imaging.simulation import with_noise
from firstlight.imaging.skies import protoplanetary_disk, sky_image, sky_visibilities

# %%

# folded: The observation: a disk, a companion in the north-west, and noise

sky = protoplanetary_disk(0.18, size=1.2, east=0.4, north=-0.5)
sky = [*sky, Ring(0.02, radius=0, width=0.15, east=-1.3, north=1.6)]
pads = alma_antennas()
offsets = pads - np.median(pads, axis=0)
pads = pads[np.hypot(*offsets[:, :2].T) < 600]  # metres

track = uv_track(pads, hour_angles=(-2, 2), n_times=48)
seen = with_noise(observe(sky, track, 230e9), 0.02, seed=1)
count, noise = seen.data.size, seen.weight.sum() ** -0.5  # Jy/beam, natural weights


def flat(seen):
    """All channels in one row."""
    return [getattr(seen, name).ravel() for name in ("uu", "vv", "data", "weight")]


def dirty_image(seen, coords, **weighting):
    u, v, data, weight = flat(seen)
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
    made = imager.get_dirty_image(**weighting, check_visibility_scatter=False)
    return [image[0] for image in made]


# %%

# folded: A fit, and what is to be known of it


class Fitted:
    """Fit within a field, and a mask if there is one; then look at what is left."""

    def __init__(self, seen, field=5.4, strength=1.5, mask=None, bend=30, start=0.0):
        self.coords = coords = suggest_grid(seen, field)
        dirty, psf = dirty_image(seen, coords, weighting="briggs", robust=0.5)
        self.beam = fit_beam(psf, coords.cell_size)
        bright = float(dirty.max()) / self.beam.area  # Jy/arcsec²
        base = torch.full((1, coords.npix, coords.npix), start)
        if mask is not None:
            base[~sky_to_packed(torch.as_tensor(mask)[None])] = -1e4  # dark, for ever
        net = GriddedNet(coords, 1, base, lambda p: bright * softplus(p, beta=bend))
        grid = coords.cell_size, coords.npix
        self.likelihood = ExactLikelihood(*flat(seen), *grid)
        tv = strength * coords.cell_size**2 / noise / count, losses.TV_image
        how = {"optimizer": "lbfgs", "lambdas": "exact", "progress": False}
        how |= {"max_iter": 300, "tolerance": 1e-3, "check_every": 10}
        self.found = fit(net, self.likelihood, losses={"tv": tv}, **how)
        self.image, self.chi2 = self.found.image[0].numpy(), self.found.terms["chi2"]
        self.flux = float(self.image.sum()) * coords.cell_size**2
        rest = self.likelihood.residuals().numpy()
        left = replace(seen, data=rest)
        self.left = dirty_image(left, coords, weighting="natural")[0] / noise


# %%

# folded: … and how it is told


def truth_on(coords):
    return sky_image(sky, coords.cell_size, coords.npix)


def source(coords):
    truth = truth_on(coords)
    return truth > 0.02 * truth.max()


def tell(name, fitted):
    within = fitted.left[source(fitted.coords)].std()
    sigmas = (fitted.chi2 - 1) * np.sqrt(count)
    print(f"{name:15} χ² {fitted.chi2:.3f} ({sigmas:+5.1f} σ)", end=" ")
    print(f"{fitted.flux:6.3f} Jy", end="  ")
    print(f"left over: {np.abs(fitted.left).max():4.1f} σ at most", end=", ")
    print(f"{within:.2f} σ in the source")


def bright_in(fitted, sigmas=4):
    """Where the image, as the beam shows it, is above the noise."""
    return convolve(fitted.image, fitted.coords, fitted.beam) > sigmas * noise


# %%

threads = torch.get_num_threads()
torch.set_num_threads(1)  # images so small would only wait for a second one
first = Fitted(seen)
right = Fitted(seen, mask=bright_in(first))
turned = Fitted(replace(seen, data=seen.data.conj()))
wide = Fitted(seen, field=None)  # all that the shortest baseline can see
over = Fitted(seen, strength=0.05)
stuck = Fitted(seen, bend=300, start=-0.02)

# %%

# folded: How they are drawn

import matplotlib.pyplot as plt

from firstlight.imaging import plot_image

truth, flux = truth_on(right.coords), sum(part.flux for part in sky)
look = {"vmin": 0, "vmax": truth.max(), "stretch": "sqrt", "unit": None}


def draw(fits):
    fig, axes = plt.subplots(2, 3, figsize=(7.4, 5.0), layout="constrained")
    plot_image(truth, right.coords, ax=axes[0, 0], **look)
    axes[0, 0].set(title=f"truth: {flux:.2f} Jy", xlabel="", ylabel="")
    for ax, (title, of) in zip(axes.flat[1:], fits.items(), strict=True):
        plot_image(of.image, of.coords, ax=ax, **look)
        ax.set(title=f"{title}: {of.flux:.2f} Jy", xlabel="", ylabel="")
    fig.supxlabel("arcsec; one scale of shades")
    fig.set_label(
        "A disk with rings and a companion: the truth; a fit that is right; the sky "
        "turned by 180 degrees; a small sky in a wide field full of faint noise; a "
        "mottled disk; and a disk with holes, of a fit whose loss stands still."
    )


# %%

fits = {"right": right, "1. wrong sign": turned, "2. too wide": wide}
fits |= {"3. noise fitted": over, "4. standing still": stuck}
draw(fits)
plt.show()
for name, fitted in fits.items():
    tell(name, fitted)

# %%
# Predict
# -------
#
# Why is :math:`\chi^2` no judge? It is a mean over all visibilities. That of :math:`N`
# complex ones has an error of :math:`1/\sqrt N`; and a source that the fit has missed,
# at :math:`s` times the noise, adds :math:`s^2 / 2N`. And what does a field do that is
# too wide? Pixels are positive, so of the noise in an empty beam, :math:`\sigma`, they
# keep the part above zero, which is :math:`0.4\,\sigma` on average, or more.

error = count**-0.5
beams = (wide.coords.npix * wide.coords.cell_size) ** 2 / wide.beam.area
print(f"{count:,} visibilities: the error of χ² is {error:.4f}")
print(f"a missed source of 10 σ adds {10**2 / 2 / count:.4f}")
print(f"noise of {beams:,.0f} beams: {0.4 * beams * noise:.2f} Jy or more", end="; ")
print(f"it was {wide.flux - flux:.2f}")

# %%
# A source that nobody could overlook is worth a third of the error. So print three
# more numbers than :math:`\chi^2`: its distance from 1 *in σ*, the flux, and what is
# left over, at most and within the source.
#
# Check
# -----
#
# That the observation itself is sound, you can know here: the truth fits.


def chi2_of_truth(seen):
    off = np.abs(seen.data - sky_visibilities(sky, seen.uu, seen.vv)) ** 2
    return (seen.weight * off).sum() / 2 / seen.data.size


of_truth = chi2_of_truth(seen)
print(f"χ² of the truth: {of_truth:.4f}, {(of_truth - 1) / error:+.1f} σ from 1")
assert abs(of_truth - 1) < 4 * error

# %%
# 1. The other sign of phase
# --------------------------
#
# There are two conventions, and files of both. With the wrong one, all data are
# conjugated, and the sky is turned by 180° about the phase centre. Look at the numbers
# above: *nothing else changes*. You see it in the sky alone. Hold your image against a
# catalogue, or against ``tclean`` with ``niter=0``; to mend it, read the file again,
# with ``conjugate=True`` (or ``False``, for UVFITS).
#
# 2. A field too wide
# -------------------
#
# Each empty beam keeps some of its noise as flux. No pixel of it is worth a look, and
# the sum is larger than your source. The cure is not a narrower field, which may cut
# something off, but a *mask*: no light where the first fit, as your beam would show it,
# is not above 4 times the noise.

masked = Fitted(seen, field=None, mask=bright_in(wide))
tell("too wide", wide)
tell("with a mask", masked)

# %%
# Without a known sky, what tells? The flux that your shortest baselines see; and the
# :math:`\chi^2`, which is near 1, but too small by many σ.
#
# 3. Noise fitted
# ---------------
#
# With too little regularization, the image follows the noise: the residuals look
# wonderful. *Too* wonderful. Within the source they should be as loud as outside of it.

tell("noise fitted", over)
tell("right", right)

# %%
# 4. A loss that stands still
# ---------------------------
#
# A fit stops when the loss hardly falls, relative to itself. But a missed source is a
# part of :math:`s^2/2N` of it, which is less than any usual tolerance, the more so the
# more data you have. Here, pixels started so dark that some could not rise: they have
# next to no gradient.

print(stuck.found.message)
tell("standing still", stuck)
tell("another start", right)
worth = np.abs(stuck.left).max() ** 2 / 2 / count
print(f"what is left at the worst place is worth {worth:.4f} of χ²")

# %%
# Of its :math:`\chi^2` nobody could complain. Always image the residuals, as ``fit``
# does before it says *settled*: here it does not.
#
# 5. Channels that share noise
# ----------------------------
#
# ALMA's correlator smooths spectra (*Hanning*): a channel takes a quarter of each of
# its neighbours. Weights may be right for every channel by itself, and yet, where many
# channels make one image, the noise falls more slowly than they promise.


def smooth(noise):
    """By (1/4, 1/2, 1/4) along the channels, in a circle."""
    return noise / 2 + (np.roll(noise, 1, axis=0) + np.roll(noise, -1, axis=0)) / 4


brief = uv_track(pads, hour_angles=(-1, 1), n_times=12)
quiet = observe(sky, brief, channels(230e9, 1e6, 16))
raw = with_noise(quiet, 0.06, seed=4)
smoothed = quiet.data + smooth(raw.data - quiet.data)
line = replace(raw, data=smoothed, weight=raw.weight * 8 / 3)


def mean_channel(seen):
    mean = {name: getattr(seen, name).mean(0)[None] for name in ("uu", "vv", "data")}
    mean |= {"weight": seen.weight.sum(0)[None], "window": seen.window[:1]}
    return replace(seen, **mean, frequency=seen.frequency.mean()[None])


# %%


def loudness(seen):
    """The noise of the dirty image, in units of what the weights promise."""
    off = seen.data - sky_visibilities(sky, seen.uu, seen.vv)
    image = dirty_image(replace(seen, data=off), right.coords, weighting="natural")[0]
    return image.std() * seen.weight.sum() ** 0.5


one = mean_channel(line)
cured = scale_weights(one, check_weights(one))
for name, made in {"16 channels": line, "averaged": one, "checked": cured}.items():
    factor = check_weights(made).worst
    print(f"{name:12} χ² of the truth {chi2_of_truth(made):.3f}", end="; ")
    print(f"weights × {factor:.2f}; noise × {loudness(made):.2f}")
off = line.data - quiet.data
shared = (off[1:] * off[:-1].conj()).real.sum() / (np.abs(off[1:]) ** 2).sum()
print(f"neighbours share {shared:.2f} of their noise")

# %%
# Of 16 channels nothing is wrong, says ``check_weights``: it compares times. Average
# first, and it sees. (Without a known sky: correlate what two neighbouring channels
# change by from one integration to the next.)
#
# 6. Averaged over too much
# -------------------------
#
# While one visibility is measured, u and v move on, with time and across its band. What
# is far from the phase centre turns in phase meanwhile, and is dimmed. Here is a point,
# 8 arcsec out, averaged over both sidebands of a receiver and a quarter of an hour.

width, seconds, parts = 16e9, 900, 9
hours = seconds / 3600 * (np.arange(8 * parts) - 4 * parts) / parts
ends = {"hour_angles": (hours[0], hours[-1]), "n_times": len(hours)}
far = Point(1.0, east=8.0)
fine = observe([far], uv_track(pads, **ends), channels(230e9, width / parts, parts))


def averaged(cube):
    return cube.reshape(parts, 8, parts, -1).mean(axis=(0, 2)).reshape(1, -1)


u, v, vis = (averaged(cube) for cube in (fine.uu, fine.vv, fine.data))
dimmed = (vis * far.visibilities(u, v).conj()).real.mean()
print(f"the point has {dimmed:.2f} of its flux")

# %%


def limit_of(code, seen=seen, field=16, **widths):
    limits = check_image_grid(seen, suggest_grid(seen, field), **widths)
    return next(str(limit) for limit in limits if limit.code == code)


def say(text):
    print(textwrap.indent(textwrap.fill(text, 80), "  | "))


say(limit_of("bandwidth"))
say(limit_of("bandwidth", channel_width=width))
say(limit_of("time", integration=seconds))

# %%
# One channel does not tell how wide it is. Say it, and you are told what it costs.
#
# 7. Metres for kilo-lambda
# -------------------------
#
# An array of u and v has no unit. Four files, each with a mistake:

folder = tempfile.TemporaryDirectory()  # removed at the end
file = Path(folder.name, "mine.npz")


def from_npz(said=None, **changed):
    """Write arrays and read them; give what is said, and what was read."""
    u, v, data, weight = flat(seen)
    arrays = {"uu": u, "vv": v, "data": data, "weight": weight} | changed
    np.savez(file, **arrays, frequencies=seen.frequency)
    try:
        return "nothing", read_npz(file, unit=said)
    except ValueError as error:
        return str(error).replace(folder.name, "…"), None


u, v, data, weight = flat(seen)
wave = 299_792_458 / 230e9  # metres
twice = {"uu": np.r_[u, -u], "vv": np.r_[v, -v], "data": np.r_[data, data.conj()]}
lost = np.where(np.arange(count) < 9, np.nan, data)
files = {
    "kilo-lambda": from_npz(uu=u / 1e3, vv=v / 1e3),
    "both halves": from_npz(**twice, weight=np.r_[weight, weight]),
    "NaN": from_npz(data=lost),
    "metres": from_npz("kilolambda", uu=u * wave, vv=v * wave),
}

# %%

for mistake, (said, _) in files.items():
    print(mistake)
    say(said)
_, misread = files["metres"]
_, cured_units = from_npz("metres", uu=u * wave, vv=v * wave)
for made in (misread, cured_units):
    say(limit_of("units", made))
shrunk = seen.lengths.max() / misread.lengths.max()
print(f"metres as kilo-lambda: the sky has {shrunk:.2f} of its size")

# %%
# Three are refused. To cure them: ``unit="kilolambda"``; keep what has v > 0;
# ``flag(seen, ~np.isfinite(seen.data))``, or an array ``flag`` in the file. Metres that
# are called kilo-lambda are taken as they are, and the sky comes out too small. How
# long is the longest baseline of *your* array, in metres?
#
# 8. Averages in cells
# --------------------
#
# The usual loss compares averages in the cells of a grid. Within a cell the transform
# of a wide sky changes, so the averages are off, and the *truth* does not fit them.

from firstlight.imaging import FourierCube

u, v, data, weight = flat(seen)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    averager = DataAverager(right.coords, u, v, weight, data.real, data.imag)
    cells = averager.to_pytorch_dataset()
say(str(caught[0].message))
packed = sky_to_packed(torch.from_numpy(truth)[None])
with torch.no_grad():
    vis = FourierCube(right.coords)(packed)
    in_cells = float(losses.r_chi_squared_gridded(vis, cells))
    exact = float(right.likelihood(torch.from_numpy(truth)[None].float())) / 2 / count
print(f"χ² of the truth: {in_cells:.2f} in cells, {exact:.4f} without")

# %%
# 9. Weights off by a factor
# --------------------------
#
# CASA's ``exportuvfits`` divides weights by the number of channels if a set has no
# ``WEIGHT_SPECTRUM``. Other factors have other reasons. An image does not mind; but
# :math:`\chi^2` and every error do. The data know: from one integration to the next
# the sky hardly changes, so what does change is noise.

light = replace(seen, weight=seen.weight / 4)
report = check_weights(light)
mended = scale_weights(light, report)
print(f"χ² of the truth: {chi2_of_truth(light):.3f}", end=", then ")
print(f"{chi2_of_truth(mended):.3f}; check_weights found {report.worst:.2f} for 4")

# %%
# It needs antennas and times: of a file without them it says that it cannot tell.
#
# 10. A field too small
# ---------------------
#
# A fit puts every bit of flux somewhere. What lies outside of the field is folded into
# it, or left over. Then :math:`\chi^2` is too large, by a hair, and by many σ.

small = Fitted(seen, field=3.0)
tell("too small", small)
tell("wide, masked", masked)

# %%
# Measure
# -------
#
# What do the looks cost? Each is a pass over the data. Hold them against the fit. (The
# image is so small that all of this page runs on a CPU, in one thread.)

bench = Bench("ten-traps", budget=1.0)
bench.time("fit", Fitted, seen)
bench.time("check_weights", check_weights, seen)
bench.time("check_image_grid", check_image_grid, seen, right.coords)
bench.time("left over, as an image", dirty_image, seen, right.coords)
bench.show()

# %%
# Where this stops being true
# ---------------------------
#
# - *One small sky.* How loud a trap is depends on yours: the number of beams, the
#   signal to noise, the size against the field.
# - *Calibration.* An antenna that is off leaves rings in the residuals, which nothing
#   here mends.
# - *The place.* UVFITS does not tell ICRS from J2000, which is some 20 milliarcseconds
#   off. ``read_ms`` knows.
# - *Which visibilities.* ``tclean`` with ``stokes="I"`` drops those of which one hand
#   is flagged. The readers here keep them, as ``"pseudoI"`` does: compare with that.
# - *A mask can be wrong, too.* What it leaves out, the residuals must show.
#
# Exercise
# --------
#
# How many σ is a reduced :math:`\chi^2` from 1? ``count`` is how many complex
# visibilities it was made from. Below 1 is negative.


def in_sigma(chi2, count): ...


# %%

# folded: What check does


def check(answer):
    cases = ((0.968, 144_480), (1.05, 900))
    try:
        ratios = [float(answer(*c)) / ((c[0] - 1) * c[1] ** 0.5) for c in cases]
    except Exception as error:
        return f"in_sigma failed, {type(error).__name__}: {error}"
    if np.allclose(ratios, 1, rtol=0.01):
        return "Right: 0.968 of 144,480 is 12 σ below, which is no good fit."
    if np.allclose(np.abs(ratios), 1, rtol=0.01):
        return "The sign: below 1, the image has fitted noise."
    if np.allclose(ratios, 2**0.5, rtol=0.01):
        return (
            "The mean of 2N squares has an error of √(2/2N), for a square's own is √2."
        )
    if np.allclose(ratios, 2**-0.5, rtol=0.01):
        return "A complex number is two real ones: χ² is a mean of 2N squares."
    return (
        f"Of 0.968 and 144,480 it should be -12.2; off by a factor of {ratios[0]:.3g}."
    )


print(check(in_sigma))

# %%

# solution


def in_sigma_solution(chi2, count):
    return (chi2 - 1) * count**0.5


print(check(in_sigma_solution))

# %%
# Three lines to remember
# -----------------------

print(f"1. A χ² of {stuck.chi2:.3f} had {np.abs(stuck.left).max():.0f} σ left over:")
print("   image the residuals, and tell χ² in σ.")
print(f"2. {wide.flux:.2f} Jy, or {masked.flux:.2f} with a mask: add up the flux.")
print("3. No number knows the sign: hold the image against the sky.")
folder.cleanup()
torch.set_num_threads(threads)
