"""
Ten mistakes in an image, and what reveals them
===============================================

You have an image of your own data at last. The :term:`loss` has stopped falling, the
:term:`reduced χ² <reduced chi²>` is 0.99, and it looks like a disk. Is it right?

Maybe not. We made ten common mistakes on purpose, on a sky that we know, and seven of
them can leave :math:`\\chi^2` within a few per cent of 1. **Write down what else you'd
look at.** By the end you'll know which number gives each mistake away, and you'll have
written a little judge of images that catches four of them.

**Needs:** any computer, and :doc:`First light
</tutorials/4_imaging/01_first_light>`.
"""

# folded: The observation: a disk, a companion in the north-west, and noise
# sphinx_gallery_thumbnail_number = 1
import tempfile
import textwrap
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import softplus

from firstlight_imaging import DataAverager, DirtyImager, ExactLikelihood, GriddedNet
from firstlight_imaging import Point, Ring, check_image_grid, check_weights, convolve
from firstlight_imaging import fit, fit_beam, read_npz, scale_weights, suggest_grid
from firstlight_imaging.model import losses
from firstlight_imaging.coordinates import sky_to_packed
from firstlight_imaging.simulate import alma_antennas, channels, observe
from firstlight_imaging.simulate import protoplanetary_disk, sky_image, sky_visibilities
from firstlight_imaging.simulate import uv_track, with_noise

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


# folded: How its numbers are printed, and six fits, one of them right
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
    print(f"{name}: {fitted.found.status}")
    print(f"    {said_of(fitted)}", end="; ")
    print(f"residuals {np.abs(fitted.left).max():4.1f} σ at most", end=", ")
    print(f"{within:.2f} σ rms in the source")


def bright_in(fitted, sigmas=4):
    """Where the image, as the beam shows it, is above the noise."""
    return convolve(fitted.image, fitted.coords, fitted.beam) > sigmas * noise


def chi2_of_truth(seen):
    off = np.abs(seen.data - sky_visibilities(sky, seen.uu, seen.vv)) ** 2
    return (seen.weight * off).sum() / 2 / seen.data.size


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

u, v, data, weight = flat(seen)
left_over = right.likelihood.residuals(right.found.image).numpy().ravel()
image, cell_size, model = right.image, right.coords.cell_size, data - left_over

# %%
# Copy this
# ---------
#
# ``data``, ``weight``, ``u`` and ``v`` are your :term:`visibilities <visibility>`,
# ``model`` those of your image, and ``image`` is in :term:`Jy/arcsec²`. The ``NuFFT``
# layer of :term:`MPoL` gives you ``model``, and so does :doc:`tclean </tclean>` in the
# column MODEL_DATA, if ``savemodel="modelcolumn"``. If you only do one more thing, make
# a :doc:`dirty image </tutorials/4_imaging/05_dirty_image>` of ``data - model``, and
# look at it.

frequency = 230e9  # Hz: put yours
good = weight > 0  # the others are flagged
length = np.hypot(u, v)[good]
chi2 = np.mean((weight * np.abs(data - model) ** 2)[good]) / 2
short = length < 1.5 * length.min()  # about the flux, if it's small and near the centre
seen_by_short = abs(np.average(data[good][short], weights=weight[good][short]))
print(f"χ² {chi2:.3f}, which is {(chi2 - 1) * np.sqrt(good.sum()):+.1f} σ from 1")
print(f"flux {image.sum() * cell_size**2:.3f} Jy", end=", ")
print(f"shortest baselines {seen_by_short:.3f} Jy")
print(f"longest baseline {length.max() * 299_792_458 / frequency:,.0f} m")

# %%
# Try it: which one is right?
# ---------------------------
#
# One of these five fits to the same data is right. **Which one, and what is wrong with
# the others?**

# figure

import matplotlib.pyplot as plt

from firstlight_imaging import plot_image

truth, flux = truth_on(right.coords), sum(part.flux for part in sky)
fits = {"A": over, "B": stuck, "C": right, "D": wide, "E": mirrored}
fig, axes = plt.subplots(2, 3, figsize=(7.4, 5.0), layout="constrained")
for ax, (letter, of) in zip(axes.flat, fits.items(), strict=False):
    look = {"vmin": 0, "vmax": truth.max() / 4, "stretch": "sqrt", "unit": None}
    plot_image(of.image, of.coords, ax=ax, **look)
    ax.set(xlabel="", ylabel="")
    ax.set_title(f"{letter}: χ² = {of.chi2:.2f}", fontsize=10)
axes[1, 2].set_axis_off()
fig.supxlabel("arcsec")
fig.suptitle("One of these images is right")
fig.set_label(
    "Five images with χ² near 1. A: a mottled disk. B: a disk with holes. C: a disk "
    "with rings, and a companion to the upper right. D: a small disk in a wide field "
    "full of faint noise. E: image C, rotated by half a turn."
)
plt.show()

# %%
# C is right, and if you chose E, nobody can blame you:

what = {"A": "fitted noise", "B": "not converged", "C": "right", "D": "field too wide"}
what["E"] = "wrong sign of the phase"
for letter, of in fits.items():
    tell(f"{letter} ({what[letter]})", of)

# %%
# There are 0.20 Jy in this sky. D found nearly three times as much, and its
# :math:`\chi^2` is 0.96, which many people would call good.
#
# Why doesn't :math:`\chi^2` cry out? It's a mean over all 22,320 visibilities. A source
# that the fit has missed, ten times as bright as the noise of the image, is obvious
# when you look. It adds :math:`10^2` to the sum of squares. But :math:`\chi^2` is the
# mean of :math:`2N` squares, two for each visibility, so it rises by only :math:`10^2 /
# 2N`. That's a third of the error that it has by chance:

error = count**-0.5
print(f"{count:,} visibilities: the error of χ² is {error:.4f}")
print(f"a missed source of 10 σ adds {10**2 / 2 / count:.4f}")
of_truth = chi2_of_truth(seen)
print(f"χ² of the truth: {of_truth:.4f}, {(of_truth - 1) / error:+.1f} σ from 1")

# %%
# So never ask whether :math:`\chi^2` is *near* 1. Check the weights first (mistake 10),
# because with a million visibilities a σ is a tenth of a per cent, and real weights are
# never that good. Then ask: how many σ away from 1 is :math:`\chi^2`? Every fit takes
# in some noise, so a σ or two below 1 is normal. D is more than four σ below the
# :math:`\chi^2` of the truth.
#
# Which number reveals which mistake
# ----------------------------------
#
# .. list-table:: Where each mistake shows
#    :header-rows: 1
#    :widths: 46 54
#
#    * - look at
#      - and find
#    * - the flux, beside that of the shortest :term:`baselines <baseline>`
#      - 1, a field too wide
#    * - an image of the residuals
#      - 2, a field too small; 4, not converged
#    * - the rms of the residuals in the source
#      - 3, fitted noise, if it's too small
#    * - :math:`\chi^2`, in σ from 1
#      - 1 (below), 2 (above), 10 (far off)
#    * - the correlation of neighbouring channels
#      - 5, shared noise
#    * - ``check_image_grid``, if it's told the widths
#      - 6, too much averaging
#    * - a warning of ``DataAverager``
#      - 7, averages in cells
#    * - a known sky
#      - 8, the wrong sign
#    * - the longest baseline, in metres
#      - 9, wrong units
#    * - ``check_weights``
#      - 10, and 5 after averaging
#
# Ripples, or noise in the background: which mistake?
# ---------------------------------------------------
#
# You see something in the image before you look at a number:
#
# .. list-table:: What an image shows, and what to try
#    :header-rows: 1
#    :widths: 34 30 36
#
#    * - you see
#      - likely mistake
#      - what to do
#    * - rings or ripples around a bright point, also in the residuals
#      - wrong gains, or 4, not converged
#      - more steps first; then :doc:`self-calibrate
#        </tutorials/4_imaging/03_real_sky>`
#    * - a bright point with negative neighbours, whatever you do
#      - pixels too wide: it lies between two
#      - half the pixels' width
#    * - grain or blobs on a smooth source
#      - 3, fitted noise
#      - a stronger regularizer, and weights that are right (10)
#    * - faint noise all over the empty background
#      - 1, a field too wide
#      - a mask
#    * - stripes across the whole image
#      - one bad baseline or channel
#      - flag it
#
# If you tell the fit that the noise is lower than it is, the image looks sharper, and
# the ripples may even go, because the fit now follows the noise. So don't choose the
# noise by the look. Measure it, as in mistake 10.
#
# Four mistakes in the fit
# ------------------------
#
# **1. A field too wide (D).** Pixels are positive, so the empty sky keeps only the
# positive part of its noise. You'll see this mistake in the flux, which the shortest
# baselines contradict. The remedy is to keep pixels at zero, unless the first fit, seen
# through the :term:`beam <dirty beam>`, is above four times the noise there. That's
# called a *mask*:

masked = Fitted(seen, field=None, mask=bright_in(wide))
tell("too wide", wide)
tell("with a mask", masked)

# %%
# **2. A field too small.** This is the opposite, and it does show in :math:`\chi^2`, by
# 20 σ. What lies outside the field has nowhere to go, so it stays in the residuals.
# Image a wide field first, and mask it.

small = Fitted(seen, field=2.8)
tell("too small", small)

# %%
# **3. Fitted noise (A).** With too weak a :term:`regularizer`, the image follows the
# noise. What is left over is then *quieter* than noise. In the source its rms should be
# 1 σ, and here it is 0.10. The remedy is a larger :term:`λ`, the factor in front of the
# regularizer.
#
# **4. A fit that has not converged (B).** The loss had stopped falling. But in the
# image of the :term:`residuals <residual>` a source of 12 σ was left. Each pixel
# follows from its parameter by a curve that is flat below zero and straight above, the
# *softplus*. We had started every pixel far out on the flat part, where there's hardly
# a gradient to follow. Another start helps:

tell("not converged", stuck)
tell("another start", Fitted(seen, bend=300))
worth = np.abs(stuck.left).max() ** 2 / 2 / count
print(f"the largest residual contributes {worth:.4f} to χ²")

# %%
# Three mistakes in the averages
# ------------------------------
#
# **5. Channels that share noise.** The computer that makes ALMA's channels usually
# mixes a quarter of each neighbour into every :term:`channel`. If you average sixteen,
# you expect the noise to fall to a quarter, and it stays higher, because neighbours err
# together. **Will** ``check_weights`` **notice? Before averaging, or after?**

# folded: Sixteen channels, smoothed as ALMA does it, and the noise of their image


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
# Only after. ``check_weights`` compares one time with the next, and for each channel by
# itself the weights are right. So average first, *then* check the weights. The last
# number, the correlation of neighbouring channels, should be 0.
#
# **6. Too much averaging.** While a visibility is measured, u and v change, with time
# and across the band. Far from the :term:`phase centre` the phase turns meanwhile, so a
# source there is dimmed and blurred. We averaged a point 8 arcsec from the centre over
# 2 GHz and an ordinary integration time, and then over 16 GHz and a quarter of an hour:

# folded: A point far from the centre, averaged over band and time, and its fit

corner = suggest_grid(seen, 8 * 2**0.5)
edge = corner.npix * corner.cell_size / 2  # arcsec
far = Point(0.05, east=edge, north=edge)


def averaged(width, seconds, parts=9):
    """Observe it finely and average; and say how much of its peak is left."""
    hours = seconds / 3600 * (np.arange(8 * parts) - 4 * parts + 0.5) / parts

    def observed(hours, *band):
        when = {"hour_angles": (hours[0], hours[-1]), "n_times": len(hours)}
        return observe([far], uv_track(pads, **when), *band)

    fine = observed(hours, channels(230e9, width / parts, parts))
    sharp = observed(hours.reshape(8, parts).mean(axis=1), 230e9)
    mean = fine.data.reshape(parts, 8, parts, -1).mean(axis=(0, 2)).reshape(1, -1)
    kept = (mean * sharp.data.conj()).real.mean() / far.flux**2
    return replace(sharp, data=mean), kept


width, seconds = 16e9, 900
_, usual = averaged(2e9, 30)
blurred, dimmed = averaged(width, seconds)
smeared = with_noise(blurred, 0.02, seed=6)
east, north = suggest_grid(smeared, 14).sky_coordinates()
near = np.hypot(east - far.east, north - far.north) < 1


def limit_of(code, seen=seen, coords=corner, **widths):
    limits = check_image_grid(seen, coords, **widths)
    return next(str(limit) for limit in limits if limit.code == code)


def say(text):
    for line in text.splitlines():
        print(textwrap.indent(textwrap.fill(line, 80), "  | "))


# %%

print(f"2 GHz and 30 s: the peak keeps {usual:.1%} of its flux")
print(f"16 GHz and 900 s: {dimmed:.0%}", end="; the fit: ")
print(said_of(Fitted(smeared, 14, mask=near)), f"of {far.flux:.3f} Jy")
say(limit_of("bandwidth", channel_width=width))
say(limit_of("time", integration=seconds))

# %%
# This is called :term:`smearing`. The usual averages cost the peak one per cent. With
# the wide ones, half of the peak is gone, and neither :math:`\chi^2` nor the flux shows
# it: the fit makes the source wider. Only ``check_image_grid`` warns you, and only if
# you tell it how wide your channels and integrations are.
#
# **7. Averages in cells.** Many programs, MPoL's ``DataAverager`` among them, average
# all visibilities in a cell of the :term:`uv plane`. If the sky is as wide as the
# field, they change within a cell, so the averages are wrong, and even the *true* sky
# :doc:`doesn't fit them </tutorials/4_imaging/06_averaging>`:

from firstlight_imaging import FourierCube

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    averager = DataAverager(right.coords, u, v, weight, data.real, data.imag)
    cells = averager.to_pytorch_dataset()
packed = sky_to_packed(torch.from_numpy(truth)[None])
with torch.no_grad():
    vis = FourierCube(right.coords)(packed)
    in_cells = float(losses.r_chi_squared_gridded(vis, cells))
    exact = float(right.likelihood(torch.from_numpy(truth)[None].float())) / 2 / count
print(f"χ² of the truth: {in_cells:.2f} in cells, {exact:.4f} without")
say(str(caught[0].message))

# %%
# Three mistakes in the file
# --------------------------
#
# **8. The wrong sign of the phase (E).** There are two conventions, and files in both.
# If yours is read in the wrong one, the sky is rotated by half a turn about the phase
# centre. The :math:`\chi^2` of E is that of C, and so is its flux, but for the last
# digit. So no check of this page can find it. Compare with a catalogue, or with an
# image by ``tclean`` with ``niter=0``. The remedy is ``np.conj(data)``.
#
# **9. Wrong units of u and v.** Of these four files, two have wrong units, one has
# every visibility twice, and one has NaNs. Three are so absurd that ``read_npz``
# refuses them:

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
# The fourth is read without a warning. It holds metres, and we said that they were
# thousands of wavelengths, :term:`kilo-lambda`. The sky comes out too small, with a
# :math:`\chi^2` as good as ever. Only you know how long your array is. So look at the
# longest baseline:

_, misread = files["metres"]
_, cured_units = from_npz("metres", uu=u * wave, vv=v * wave)
for made in (misread, cured_units):
    say(limit_of("units", made, suggest_grid(made)))
shrunk = seen.lengths.max() / misread.lengths.max()
print(f"metres read as kilo-lambda: the sky has {shrunk:.2f} of its size", end="; ")
print(said_of(Fitted(misread, 5.4 * shrunk)))

# %%
# **10. Weights wrong by a factor.** For example, :term:`CASA`'s ``exportuvfits``
# divides them by the number of channels, if a set has no ``WEIGHT_SPECTRUM``. You won't
# see it in an image, but :math:`\chi^2` and all errors are off. The data themselves
# know better, because apart from its noise, a visibility changes little from one moment
# to the next. If you have read the wrong column of weights, no factor helps. The page
# on :doc:`tclean </tclean>` says which of SIGMA, WEIGHT and WEIGHT_SPECTRUM is which.

light = replace(seen, weight=seen.weight / 4)
report = check_weights(light)
mended = scale_weights(light, report)
print(f"χ² of the truth: {chi2_of_truth(light):.3f}", end=", then ")
print(f"{chi2_of_truth(mended):.3f}; check_weights found {report.worst:.2f} for 4")

# %%
# The command :doc:`firstlight image </tutorials/4_imaging/02_your_own_data>` keeps
# clear of too wide a field and of averages in cells, and corrects the weights. It
# reports too small a field, fitted noise and a fit that hasn't converged, and also
# smearing, if the file has several channels and times. Check the other three yourself.
#
# .. dropdown:: Mistakes that aren't among the ten
#
#    If an antenna is miscalibrated, you'll see stripes or rings in the residuals, and
#    no remedy of this page removes them. If the pixels are wider than a third of the
#    beam, the longest baselines don't fit into the image: ``check_image_grid`` says so.
#    Fluxes away from an antenna's centre are too low until you divide by the
#    :term:`primary beam`. If one polarization of a visibility is flagged, ``tclean``
#    drops it for ``stokes="I"``, the total intensity, but ``read_visibilities`` keeps
#    it. So compare with ``stokes="pseudoI"``. And a mask can exclude a real source:
#    look at the residuals outside it.
#
# Your turn
# ---------
#
# The judge gets the reduced ``chi2`` of ``count`` complex visibilities, the ``largest``
# residual in σ, the rms of the residuals ``inside`` the source, also in σ, the ``flux``
# of the image in Jy, and the flux ``short`` that the shortest baselines see. It returns
# a list of what is wrong, which is empty for a good image:
#
# - ``"chi2"``, if :math:`\chi^2` is more than 4 σ from 1, above *or* below;
# - ``"missed"``, if a residual is larger than 5 σ;
# - ``"noise"``, if the rms in the source is below 0.8 σ;
# - ``"flux"``, if the two fluxes differ by more than a tenth of the second.
#
# Put your answer where the dots are, and run ``firstlight try 12_ten_traps.py``.


def judge(chi2, count, largest, inside, flux, short): ...


# %%


# folded: The checker
FITS = {
    "C, which is right": ((0.992, 22_320, 4.0, 0.95, 0.198, 0.197), ""),
    "D, too wide": ((0.962, 22_320, 3.2, 0.92, 0.579, 0.197), "chi2 flux"),
    "A, fitted noise": ((0.979, 22_320, 4.3, 0.10, 0.226, 0.197), "noise flux"),
    "B, not converged": ((1.002, 22_320, 12.2, 2.21, 0.181, 0.197), "missed"),
    "a field too small": ((1.136, 22_320, 9.2, 1.35, 0.165, 0.197), "chi2 missed flux"),
    "a short observation": ((1.05, 900, 3.1, 1.0, 0.2, 0.2), ""),
    "a long night, weights right": ((0.990, 1_000_000, 4.1, 1.0, 0.2, 0.2), "chi2"),
    "an ordinary night": ((1.023, 40_000, 4.4, 1.0, 0.2, 0.2), "chi2"),
    "twice the weights": ((2.0, 900, 4.9, 1.4, 0.2, 0.2), "chi2"),
}


def check(answer):
    for name, (numbers, expected) in FITS.items():
        try:
            said = answer(*numbers)
            if said is None:
                return "judge returns nothing yet."
            said = {str(word) for word in said}
        except Exception as error:
            return f"judge failed, {type(error).__name__}: {error}"
        wrong, sigmas = set(expected.split()), (numbers[0] - 1) * numbers[1] ** 0.5
        if said != wrong:
            hint = f"its χ² is {sigmas:+.1f} σ from 1; of {numbers[1]:,} complex"
            hint += " visibilities, the error of χ² is 1/√N"
            if "chi2" not in said ^ wrong:
                hint = f"look again at {', '.join(sorted(said ^ wrong))}"
            found, right = (
                ", ".join(sorted(one)) or "nothing" for one in (said, wrong)
            )
            return f"Of {name}, it says {found}; it should be {right}. Hint: {hint}."
    return "Right: your judge knows a good image from four kinds of bad ones."


# %%

print(check(judge))

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


def judge_solution(chi2, count, largest, inside, flux, short):
    wrong = {
        "chi2": abs(chi2 - 1) * count**0.5 > 4,
        "missed": largest > 5,
        "noise": inside < 0.8,
        "flux": abs(flux - short) > 0.1 * short,
    }
    return [name for name, is_so in wrong.items() if is_so]


print(f"Our solution: {check(judge_solution)}")
