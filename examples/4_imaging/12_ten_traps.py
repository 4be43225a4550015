"""
Ten mistakes in an image, and what reveals them
===============================================

This page is for you if you have an image of your own data, the :term:`loss` has stopped
falling, and the reduced :math:`\\chi^2` is near 1. The image can still be wrong: of ten
common mistakes, seven can leave :math:`\\chi^2` within a few per cent of 1. Three of
the seven show in the total :term:`flux`, in the distance of :math:`\\chi^2` from 1 in
σ, or in an image of the :term:`residuals <residual>`. Three need a check of their own,
and the sign of the phase shows only against a known sky. Here each mistake is made on
purpose, with a simulated sky, and then corrected.

**You will learn**

- which mistakes :math:`\\chi^2` hides, and which number reveals them;
- how to correct each one;
- which checks to run on your own data.

**Time:** 11 minutes. **Needs:** any computer, and the page :doc:`First light
</tutorials/4_imaging/01_first_light>`.
"""

# %%
# .. list-table:: The ten mistakes; the first seven can leave χ² near 1
#    :header-rows: 1
#    :widths: 28 36 36
#
#    * - Mistake
#      - What reveals it
#      - Remedy
#    * - 1. the wrong sign of the phase
#      - no number; the sky is rotated by 180°
#      - read again, with ``conjugate=``
#    * - 2. a field too wide
#      - too much flux; :math:`\chi^2` many σ below 1
#      - a mask, as ``image`` draws it
#    * - 3. fitted noise
#      - residuals in the source smaller than noise
#      - a larger λ
#    * - 4. a fit that has not converged
#      - an image of the residuals
#      - another start; a smaller tolerance
#    * - 5. channels that share noise
#      - correlation of neighbouring channels
#      - average, *then* ``check_weights``
#    * - 6. averaging over too wide a band or too long a time
#      - ``check_image_grid``, if it is told the widths
#      - average less
#    * - 7. metres read as kilo-lambda
#      - a longest baseline that is not your array's
#      - read again, with ``unit=``
#    * - 8. averages in cells
#      - a warning from ``DataAverager``
#      - ``ExactLikelihood``
#    * - 9. weights wrong by a factor
#      - ``check_weights``
#      - ``scale_weights``
#    * - 10. a field too small
#      - :math:`\chi^2` many σ above 1
#      - image a wide field first
#
# The figure above shows the first four. Here are the numbers of each fit:

# %%

# folded: What is imported

# sphinx_gallery_thumbnail_number = 1
import tempfile
import textwrap
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import softplus

from firstlight.imaging import DataAverager, DirtyImager, ExactLikelihood, GriddedNet
from firstlight.imaging import Point, Ring, check_image_grid, check_weights, convolve
from firstlight.imaging import fit, fit_beam, read_npz, scale_weights, suggest_grid
from firstlight.imaging.model import losses
from firstlight.imaging.coordinates import sky_to_packed
from firstlight.imaging.simulate import alma_antennas, channels, observe
from firstlight.imaging.simulate import protoplanetary_disk, sky_image, sky_visibilities
from firstlight.imaging.simulate import uv_track, with_noise

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

# folded: A fit, its χ², flux and residuals


class Fitted:
    """Fit within a field, and a mask if there is one; then image the residuals."""

    def __init__(self, seen, field=5.4, strength=1.5, mask=None, bend=30, start=0.0):
        self.coords = coords = suggest_grid(seen, field)
        self.count, noise = seen.data.size, seen.weight.sum() ** -0.5
        dirty, psf = dirty_image(seen, coords, weighting="briggs", robust=0.5)
        self.beam = fit_beam(psf, coords.cell_size)
        bright = float(dirty.max()) / self.beam.area  # Jy/arcsec²
        base = torch.full((1, coords.npix, coords.npix), start)
        if mask is not None:
            base[~sky_to_packed(torch.as_tensor(mask)[None])] = -1e4  # dark, for ever
        net = GriddedNet(coords, 1, base, lambda p: bright * softplus(p, beta=bend))
        grid = coords.cell_size, coords.npix
        self.likelihood = ExactLikelihood(*flat(seen), *grid)
        tv = strength * coords.cell_size**2 / noise / self.count, losses.TV_image
        how = {"optimizer": "lbfgs", "lambdas": "exact", "progress": False}
        how |= {"max_iter": 300, "tolerance": 1e-3, "check_every": 10}
        self.found = fit(net, self.likelihood, losses={"tv": tv}, **how)
        self.image, self.chi2 = self.found.image[0].numpy(), self.found.terms["chi2"]
        self.flux = float(self.image.sum()) * coords.cell_size**2
        rest = self.likelihood.residuals(self.found.image).numpy()
        left = replace(seen, data=rest)
        self.left = dirty_image(left, coords, weighting="natural")[0] / noise


# %%

# folded: How the numbers of a fit are printed


def truth_on(coords):
    return sky_image(sky, coords.cell_size, coords.npix)


def source(coords):
    truth = truth_on(coords)
    return truth > 0.02 * truth.max()


def said_of(fitted):
    sigmas = (fitted.chi2 - 1) * np.sqrt(fitted.count)
    return f"χ² {fitted.chi2:.3f} ({sigmas:+5.1f} σ); {fitted.flux:.3f} Jy"


def tell(name, fitted):
    within = fitted.left[source(fitted.coords)].std()
    print(f"{name}: {fitted.found.why}")
    print(f"    {said_of(fitted)}", end="; ")
    print(f"residuals {np.abs(fitted.left).max():4.1f} σ at most", end=", ")
    print(f"{within:.2f} σ rms in the source")


def bright_in(fitted, sigmas=4):
    """Where the image, as the beam shows it, is above the noise."""
    return convolve(fitted.image, fitted.coords, fitted.beam) > sigmas * noise


# %%

threads = torch.get_num_threads()
torch.set_num_threads(1)  # images so small would only wait for a second one
first = Fitted(seen)
right = Fitted(seen, mask=bright_in(first))
conjugated = replace(seen, data=seen.data.conj())
turned = Fitted(conjugated)
mirrored = Fitted(conjugated, mask=bright_in(turned))
wide = Fitted(seen, field=None)  # all that the shortest baseline can see
over = Fitted(seen, strength=0.05)
stuck = Fitted(seen, bend=300, start=-0.02)

# %%

# folded: How they are drawn

import matplotlib.pyplot as plt

from firstlight.imaging import plot_image

truth, flux = truth_on(right.coords), sum(part.flux for part in sky)
look = {"vmin": 0, "vmax": truth.max() / 4, "stretch": "sqrt", "unit": None}
KEYS = "chi2", "flux"


def draw(fits):
    fig, axes = plt.subplots(2, 3, figsize=(7.4, 5.0), layout="constrained")
    plot_image(truth, right.coords, ax=axes[0, 0], **look)
    axes[0, 0].set(xlabel="", ylabel="")
    axes[0, 0].set_title(f"truth: {flux:.2f} Jy", fontsize=9.5)
    for ax, (title, of) in zip(axes.flat[1:], fits.items(), strict=True):
        plot_image(of.image, of.coords, ax=ax, **look)
        ax.set(xlabel="", ylabel="")
        ax.set_title(f"{title}: {of.flux:.2f} Jy", fontsize=9.5)
    fig.supxlabel("arcsec; all panels on one colour scale, saturated at the core")
    chi2, found = ([getattr(of, key) for of in fits.values()] for key in KEYS)
    fig.suptitle(
        f"Five fits with χ² from {min(chi2):.2f} to {max(chi2):.2f} find from "
        f"{min(found):.2f} to {max(found):.2f} Jy; the truth is {flux:.2f} Jy"
    )
    fig.set_label(
        "A disk with rings and a companion: the truth; a correct fit; the sky rotated "
        "by 180 degrees; a small sky in a wide field full of faint noise; a mottled "
        "disk; and a disk with holes, from a fit that has not converged."
    )


# %%

# figure

fits = {"correct": right, "1. wrong sign": mirrored, "2. too wide": wide}
fits |= {"3. fitted noise": over, "4. not converged": stuck}
draw(fits)
plt.show()

# %%

for name, fitted in fits.items():
    tell(name, fitted)

# %%
# Predict
# -------
#
# Why does :math:`\chi^2` reveal so little? It is a mean over all
# :term:`visibilities <visibility>`. For :math:`N` complex visibilities its standard
# error is :math:`1/\sqrt N`, whereas a source that the fit has missed, at :math:`s`
# times the noise, adds only :math:`s^2 / 2N`. A field that is too wide adds flux
# instead: because pixels are positive, each empty beam keeps the positive part of its
# noise :math:`\sigma`, which is :math:`0.4\,\sigma` on average, or more.

error = count**-0.5
beams = (wide.coords.npix * wide.coords.cell_size) ** 2 / wide.beam.area
print(f"{count:,} visibilities: the error of χ² is {error:.4f}")
print(f"a missed source of 10 σ adds {10**2 / 2 / count:.4f}")
print(f"noise of {beams:,.0f} beams: {0.4 * beams * noise:.2f} Jy or more", end="; ")
print(f"found {wide.flux - flux:.2f} Jy")

# %%
# A source that is obvious in the residual image is lost in the error of
# :math:`\chi^2`. So print more than :math:`\chi^2`: its distance from 1 *in σ*, the
# flux, the largest residual, and the rms of the residuals in the source: here, where
# the true sky exceeds 2% of its peak; with your data, inside the mask.
#
# Check
# -----
#
# With a simulated sky you can check the observation itself: the true sky fits the data.


def chi2_of_truth(seen):
    off = np.abs(seen.data - sky_visibilities(sky, seen.uu, seen.vv)) ** 2
    return (seen.weight * off).sum() / 2 / seen.data.size


of_truth = chi2_of_truth(seen)
print(f"χ² of the truth: {of_truth:.4f}, {(of_truth - 1) / error:+.1f} σ from 1")
assert abs(of_truth - 1) < 4 * error

# %%
# 1. The wrong sign of the phase
# ------------------------------
#
# There are two conventions for the sign of the phase, and files in both. If yours is
# read in the wrong one, all data are conjugated, which rotates the sky by 180° about
# the :term:`phase centre`. As the second fit above shows, :math:`\chi^2`, flux and
# residuals stay the same, except for where the fit happens to stop.
#
# Compare your image with a catalogue, or with ``tclean`` run with ``niter=0``. To
# correct the sign, read the file again with ``conjugate=True`` (for :term:`UVFITS`,
# ``conjugate=False``).
#
# 2. A field too wide
# -------------------
#
# Each empty beam keeps some of its noise as flux. No single pixel is conspicuous, but
# the sum can exceed the flux of the source. A narrower field also contains less noise,
# but it may cut off a real source (mistake 10). A *mask* does not: it keeps pixels at
# zero unless the first fit, convolved with the beam, exceeds 4 times the noise there.

masked = Fitted(seen, field=None, mask=bright_in(wide))
tell("too wide", wide)
tell("with a mask", masked)

# %%
# If the sky is unknown, two numbers reveal the excess: the total flux disagrees with
# that on your shortest :term:`baselines <baseline>`, and :math:`\chi^2`, although near
# 1, is many σ below.
#
# 3. Fitted noise
# ---------------
#
# With too little regularization the image follows the noise. Its residuals are then
# smaller than noise in the source, where their rms should equal that outside: 1 σ.
#
# 4. A fit that has not converged
# -------------------------------
#
# A fit stops when the relative decrease of its loss is small. A missed source
# contributes only :math:`s^2/2N` to the loss, which falls below any usual tolerance as
# the number of visibilities grows. In this example each pixel is a softplus of its
# parameter, and the parameters started where its slope almost vanishes. Some pixels
# could not rise. Here is the same fit, but for its start:

tell("not converged", stuck)
tell("another start", Fitted(seen, bend=300))
worth = np.abs(stuck.left).max() ** 2 / 2 / count
print(f"the largest residual contributes {worth:.4f} to χ²")

# %%
# Always image the residuals, as ``fit`` does before it reports a verdict. Here that was
# *not converged*.
#
# 5. Channels that share noise
# ----------------------------
#
# By default ALMA's correlator smooths spectra (*Hanning smoothing*): a quarter of each
# neighbour is mixed into every :term:`channel`. The weights can then be right for each
# channel on its own, but if many channels are combined into one image, its noise is
# larger than the weights imply.


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

# folded: How noisy an image is


def loudness(seen):
    """The noise of the dirty image, in units of what the weights imply."""
    off = seen.data - sky_visibilities(sky, seen.uu, seen.vv)
    image = dirty_image(replace(seen, data=off), right.coords, weighting="natural")[0]
    return image.std() * seen.weight.sum() ** 0.5


# %%

one = mean_channel(line)
cured = scale_weights(one, check_weights(one))
for name, made in {"16 channels": line, "averaged": one, "checked": cured}.items():
    factor = check_weights(made).worst
    print(f"{name:12} χ² of the truth {chi2_of_truth(made):.3f}", end="; ")
    print(f"weights × {factor:.2f}; noise × {loudness(made):.2f}")
steps = np.diff(line.data.reshape(16, 12, -1), axis=1)  # from time to time: noise
shared = (steps[1:] * steps[:-1].conj()).real.sum() / (np.abs(steps[1:]) ** 2).sum()
print(f"correlation of neighbouring channels: {shared:.2f}")

# %%
# ``check_weights`` finds no fault with the 16 channels, because it compares
# integrations, not channels. After averaging it does. The last number needs no known
# sky: it is 0 if channels are independent.
#
# 6. Too much averaging
# ---------------------
#
# While one visibility is measured, u and v change with time and across its band. The
# phase of a source far from the phase centre changes with them, so that in the average
# its peak is dimmed and its image blurred (:term:`smearing`). Here a point source some
# 8 arcsec from the centre is averaged over a band as wide as both sidebands of a
# receiver, and over a quarter of an hour.

# folded: A point far from the centre, averaged over band and time, and its fit

width, seconds, parts = 16e9, 900, 9
hours = seconds / 3600 * (np.arange(8 * parts) - 4 * parts + 0.5) / parts
corner = suggest_grid(seen, 8 * 2**0.5)
edge = corner.npix * corner.cell_size / 2  # arcsec
far = Point(0.05, east=edge, north=edge)


def observe_far(hours, *band):
    when = {"hour_angles": (hours[0], hours[-1]), "n_times": len(hours)}
    return observe([far], uv_track(pads, **when), *band)


fine = observe_far(hours, channels(230e9, width / parts, parts))
sharp = observe_far(hours.reshape(8, parts).mean(axis=1), 230e9)
mean = fine.data.reshape(parts, 8, parts, -1).mean(axis=(0, 2)).reshape(1, -1)
dimmed = (mean * sharp.data.conj()).real.mean() / far.flux**2
smeared = with_noise(replace(sharp, data=mean), 0.02, seed=6)
east, north = suggest_grid(smeared, 14).sky_coordinates()
near = np.hypot(east - far.east, north - far.north) < 1

# %%

print(f"the peak keeps {dimmed:.0%} of its flux", end="; the fit: ")
print(said_of(Fitted(smeared, 14, mask=near)), f"of {far.flux:.3f} Jy")

# %%


def limit_of(code, seen=seen, coords=corner, **widths):
    limits = check_image_grid(seen, coords, **widths)
    return next(str(limit) for limit in limits if limit.code == code)


def say(text):
    for line in text.splitlines():
        print(textwrap.indent(textwrap.fill(line, 80), "  | "))


say(limit_of("bandwidth"))
say(limit_of("bandwidth", channel_width=width))
say(limit_of("time", integration=seconds))

# %%
# The two losses together explain the dimmed peak. Neither :math:`\chi^2` nor the flux
# reveals them, because the fit takes the source to be extended. The width of a single
# channel cannot be read from its frequency, so pass it to ``check_image_grid``.
#
# 7. Metres read as kilo-lambda
# -----------------------------
#
# Arrays of u and v carry no unit, so only an absurd one is noticed. Of four files, each
# with a mistake, three are refused:

# folded: Four files, each with a mistake

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

for mistake, (said, read) in files.items():
    if read is None:
        print(mistake)
        say(said)

# %%
# Metres that are declared as :term:`kilo-lambda` are accepted. The sky comes out too
# small, and :math:`\chi^2` is as good as before. The check prints *ok*, because it
# cannot know your array, so compare the longest baseline that it prints, in metres,
# with that of *your* array:

_, misread = files["metres"]
_, cured_units = from_npz("metres", uu=u * wave, vv=v * wave)
for made in (misread, cured_units):
    say(limit_of("units", made, suggest_grid(made)))
shrunk = seen.lengths.max() / misread.lengths.max()
print(f"metres read as kilo-lambda: the sky has {shrunk:.2f} of its size", end="; ")
print(said_of(Fitted(misread, 5.4 * shrunk)))

# %%
# 8. Averages in cells
# --------------------
#
# A common loss compares averages of the visibilities in the cells of a grid. The
# visibilities of a wide sky vary within a cell, so the averages are biased and even the
# *true* sky does not fit them.

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
# 9. Weights wrong by a factor
# ----------------------------
#
# :term:`CASA`'s ``exportuvfits`` divides weights by the number of channels if a set has
# no ``WEIGHT_SPECTRUM``. A :term:`dirty image` does not depend on such a factor, but
# :math:`\chi^2` and every error do. The data reveal it: a visibility hardly changes
# from one integration to the next, so the differences between neighbours are noise.

light = replace(seen, weight=seen.weight / 4)
report = check_weights(light)
mended = scale_weights(light, report)
print(f"χ² of the truth: {chi2_of_truth(light):.3f}", end=", then ")
print(f"{chi2_of_truth(mended):.3f}; check_weights found {report.worst:.2f} for 4")

# %%
# ``check_weights`` needs antennas and times, and says so if a file lacks them.
#
# 10. A field too small
# ---------------------
#
# Flux from outside the field is aliased into it, or stays in the residuals. The verdict
# *not converged* names only the symptom, residuals larger than noise. Neither more
# steps nor another start would help.

small = Fitted(seen, field=2.8)
tell("too small", small)
tell("wide, masked", masked)

# %%
# The checks on your own data
# ---------------------------
#
# Read your file into ``seen``, and give the width of *your* channels and integrations.
# A fit by ``fit`` or ``image`` has a ``quality``, with the numbers of this page. (What
# ``fit`` takes as the source is each pixel above 5% of the brightest, so that its rms
# there is not the one above.)

factor = check_weights(seen).worst  # 9; and 5, after averaging
print(f"the weights are right, if multiplied by {factor:.2f}")
for limit in check_image_grid(seen, right.coords, channel_width=1e9, integration=300):
    if limit.severity != "ok" or limit.code == "units":
        say(str(limit))  # 6 and 7
say(str(right.found.quality))  # 2, 3, 4 and 10

# %%
# The command of :doc:`/tutorials/4_imaging/02_your_own_data`, ``firstlight image``,
# avoids mistakes 2 and 8, corrects 9, and reports 3, 4 and 10. It reports 6 if the file
# has several channels and times. Check 1, 5 and 7 yourself.
#
# Where this stops being true
# ---------------------------
#
# - *One small sky.* How large the effects are on your data depends on the number of
#   beams, the signal-to-noise ratio, and the size of the source relative to the field.
# - *Calibration.* A miscalibrated antenna leaves stripes or rings in the residuals, and
#   no remedy here removes them.
# - *Positions.* UVFITS does not distinguish ICRS from J2000, which differ by some 20
#   milliarcseconds. ``read_ms`` does.
# - *Which visibilities.* ``tclean`` with ``stokes="I"`` drops those with one
#   polarization flagged. The readers here keep them, so compare with
#   ``stokes="pseudoI"``.
# - *Masks.* A mask can exclude a real source, so check the residuals outside it.
#
# Exercise
# --------
#
# By how many σ does a reduced :math:`\chi^2` of ``count`` complex visibilities differ
# from 1? Return a negative number if it is below 1.


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
        return "Right: 0.968 of 144,480 is 12 σ below 1, which is not a good fit."
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


# %%

print(check(in_sigma))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"1. With a χ² of {stuck.chi2:.3f}, a residual of", end=" ")
print(f"{np.abs(stuck.left).max():.0f} σ remained: image the residuals, and", end=" ")
print("give the distance of χ² from 1 in σ.")
print(f"2. Add up the flux: a field too wide gave {wide.flux:.2f} Jy,", end=" ")
print(f"with a mask {masked.flux:.2f} Jy.")
print("3. No number reveals the sign: compare the image with a known sky.")
folder.cleanup()
torch.set_num_threads(threads)

# %%
# Solution
# --------

# solution


def in_sigma_solution(chi2, count):
    return (chi2 - 1) * count**0.5


print(f"Our solution: {check(in_sigma_solution)}")
