"""
From your measurement set to a FITS image
=========================================

You have calibrated visibilities of one field, as a measurement set of CASA or as a
UVFITS file. You want an image to open in CARTA and to hand back to CASA. This page is
the whole way. It runs on a file that it makes itself; change one line, and it runs on
yours. It also makes every mistake on purpose, so that you know the message, or the
silence, when you meet it.

**You will learn**

- to export, read and check visibilities: signs, units, weights, flags;
- to choose field and cell size, and to fit an image and judge it;
- to write FITS files with the right place, unit and beam;
- which mistake no number reports, and where the time of a whole run goes.

**Time:** 20 minutes. **Needs:** any computer. CASA for the export only. With a GPU, the
fit runs on it.
"""

# %%
# Your file
# ---------
#
# This is the line to change:

your_file = None  # or "my.uvfits", or "my.npz"

# %%
# Two ways lead out of CASA. The first is a task:
#
# .. code-block:: python
#
#     exportuvfits(vis="my.ms", fitsfile="my.uvfits", datacolumn="corrected",
#                  field="0", spw="0~3", multisource=False, padwithflags=True)
#
# (``datacolumn="data"`` if you have split the calibrated data off.) The second is a
# script of 25 lines, :download:`casa_export.py </_snippets/casa_export.py>`. Run it in
# CASA, once for each spectral window; it writes ``my.npz``, in wavelengths and with our
# sign. Take UVFITS if you can: it keeps antennas and times, without which nobody can
# check the weights. Take npz where UVFITS does not go: windows with different numbers
# of channels, more than 255 antennas.
#
# Without a file of yours, here is one. A UVFITS file is a table. A row has a few
# parameters: u and v in *seconds*, so that they hold for every channel, the pair of
# antennas as one number, and the time in days. Then come real part, imaginary part and
# weight of each channel. Both u and v have the other sign than ours.

import numpy as np
from astropy.io import fits


def write_uvfits(path, vis, ra=83.0, dec=-24.0):
    """Write visibilities of one window, in the layout of CASA's exportuvfits."""
    first, second = 1 + vis.antennas.T
    hertz = vis.frequency[0]
    columns = {"UU": -vis.uu[0] / hertz, "VV": -vis.vv[0] / hertz}
    columns |= {"BASELINE": 256 * first + second, "DATE": vis.time / 86400}
    cube = np.stack([vis.data.real, vis.data.imag, vis.weight], axis=-1)
    cube = cube.swapaxes(0, 1)[:, None, None, :, None].astype("f4")
    names, values = list(columns), list(columns.values())
    hdu = fits.GroupsHDU(fits.GroupData(cube, -32, parnames=names, pardata=values))
    step = np.ptp(vis.frequency) / (len(vis.frequency) - 1)
    axes = {"COMPLEX": (1, 1), "STOKES": (1, 1), "FREQ": (hertz, step)}
    axes |= {"RA": (ra, 1), "DEC": (dec, 1)}
    for axis, (name, (start, width)) in enumerate(axes.items(), 2):
        card = {"CTYPE": name, "CRVAL": start, "CDELT": width, "CRPIX": 1}
        hdu.header.update({f"{key}{axis}": value for key, value in card.items()})
    hdu.header["PZERO4"] = 2459000.5  # the day, in Julian days
    hdu.writeto(path)


# %%
# The sky is a disk with rings, off the centre, and a companion in the north-west. There
# are four channels, and one antenna is flagged. And the file lies about its noise, as
# files do: its weights promise half of the noise that there is.

import tempfile
from dataclasses import replace
from pathlib import Path

from firstlight.imaging import Point, Ring, read_npz, read_uvfits
from firstlight.imaging.simulation import channels, observe, uv_track, with_noise
from firstlight.imaging.skies import protoplanetary_disk, sky_image, sky_visibilities
from firstlight.imaging.visibilities import block, flag, join_windows

folder = tempfile.TemporaryDirectory()  # removed at the end
path = Path(your_file or Path(folder.name, "sky.uvfits"))
if your_file is None:
    sky = protoplanetary_disk(0.25, size=0.7, east=0.4, north=-0.5)
    sky = [*sky, Ring(0.04, radius=0, width=0.08, east=-1.3, north=1.2)]
    track = uv_track(hour_angles=(-0.5, 0.5), n_times=16)
    made = with_noise(observe(sky, track, channels(230e9, 5e8, 4)), 0.015, seed=1)
    made = flag(replace(made, weight=4 * made.weight), block(made, antenna=7))
    write_uvfits(path, made)

# %%
# Predict
# -------
#
# Where will the time go? To read takes as long as the disk needs for the file, at
# least. To check is a pass over the data. The *set-up* of the exact likelihood
# (:doc:`/tutorials/4_imaging/03_first_light` tells what that is) is three more, each a
# non-uniform FFT, in which a visibility touches some 15 × 15 cells. Then come the
# steps, fifty or so: each a pair of FFTs, twice as wide as the image, whatever the
# number of visibilities.

size, pixels = path.stat().st_size, (2 * 256) ** 2
most = size / 12  # a real part, an imaginary part and a weight, of 4 bytes each
setup = 3 * most * 15**2 * 4  # a complex number, times a weight, added
step = 2 * 5 * pixels * np.log2(pixels)
print(f"the file has {size / 1e6:.1f} MB: at most {most:,.0f} visibilities")
print(f"the set-up: as much arithmetic as {setup / step:.0f} steps of 256 × 256 pixels")

# %%
# Your prediction: which part of the whole is the fit? And what can a GPU gain, if it
# does nothing but the steps?
#
# Read
# ----
#
# An npz file knows neither antennas nor times, so all are 0. Look at the numbers: are
# these your baselines, your noise, your field?

from firstlight.imaging.uvfits import read_phase_centre


def read(path):
    """Give the visibilities, and right ascension and declination in degrees."""
    if path.suffix == ".npz":
        return read_npz(path), (0.0, 0.0)  # type yours: npz has none
    return read_uvfits(path), read_phase_centre(path)


seen, (ra, dec) = read(path)
count = int((~seen.flagged).sum())
lengths = np.hypot(seen.uu, seen.vv)
low, high = seen.frequency.min() / 1e9, seen.frequency.max() / 1e9
sigma = np.median(seen.weight[~seen.flagged]) ** -0.5
print(f"{seen.data.size:,} visibilities, {seen.flagged.mean():.1%} of them flagged")
print(f"{len(seen.frequency)} channels, {low:.2f} to {high:.2f} GHz")
print(f"baselines {lengths.min() / 1e3:.1f} to {lengths.max() / 1e3:.1f} kλ")
print(f"noise {1e3 * sigma:.3g} mJy a visibility, say the weights")
print(f"phase centre {ra:.5f}°, {dec:+.5f}°")

# %%
# The weights
# -----------
#
# A weight should be :math:`1/\sigma^2`, with :math:`\sigma` the noise of the real part,
# and of the imaginary part. If it is off by a factor, so is :math:`\chi^2`, and you
# cannot tell a good fit from a bad one. But the data know: from one integration to the
# next the sky hardly changes, so what does change is noise.

from firstlight.imaging import check_weights, scale_weights

report = check_weights(seen)
print(report)
if report.wrong:
    seen = scale_weights(seen, report)
    sigma = np.median(seen.weight[~seen.flagged]) ** -0.5
    print(f"\nscaled: noise {1e3 * sigma:.3g} mJy a visibility")

# %%
# Check
# -----
#
# Where the sky is known in closed form, one number tells whether signs, units and
# weights are all right: the reduced :math:`\chi^2` of the true sky, which is then 1,
# to within the error of the weights.

if your_file is None:
    off = np.abs(seen.data - sky_visibilities(sky, seen.uu, seen.vv)) ** 2
    chi2_true = (seen.weight * off).sum() / 2 / count
    print(f"reduced chi² of the true sky: {chi2_true:.4f}")
    assert abs(chi2_true - 1) < 0.02

# %%
# The field and the cells
# -----------------------
#
# The image must be wider than all that is bright, for a fit puts every bit of flux
# somewhere. It must not be much wider either: pixels are kept positive, so each empty
# one keeps a little of the noise as flux, and there can be ten thousand of them. So
# look first, coarsely, at all that your shortest baseline can see: the shorter quarter
# of the baselines makes a blurred image of few pixels. The fit, which the next section
# explains, takes the ripples of the dirty image out of it. What is brighter than a
# tenth of the peak is the source. The field is three times as wide, and no narrower
# than it takes to hold a source that is not in the middle.

import textwrap
from functools import partial

import torch
from torch.nn.functional import softplus

from firstlight import Bench, best_device
from firstlight.imaging import DirtyImager, ExactLikelihood, GridCoords, GriddedNet
from firstlight.imaging import check_image_grid, fit, fit_beam, losses, suggest_grid
from firstlight.imaging.visibilities import select_baselines

briggs = {"weighting": "briggs", "robust": 0.5}


def flat(seen):
    """Put all channels of all windows into one row, for one image."""
    return [getattr(seen, name).ravel() for name in ("uu", "vv", "data", "weight")]


def dirty_image(seen, coords, **weighting):
    u, v, data, weight = flat(seen)
    data = np.where(weight > 0, data, 0)  # what is flagged may be anything
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
    return [image[0] for image in imager.get_dirty_image(**weighting)]


# %%


class Imaging:
    """Data and grid, and what a fit needs: a dark image to start from, and λ."""

    def __init__(self, seen, coords):
        self.seen, self.coords = seen, coords
        self.dirty, psf = dirty_image(seen, coords, **briggs)
        self.beam = fit_beam(psf, coords.cell_size)
        self.brightest = float(self.dirty.max()) / self.beam.area  # Jy/arcsec²
        self.noise = seen.weight.sum() ** -0.5  # Jy/beam, with natural weights
        count = int((seen.weight > 0).sum())
        self.tv = coords.cell_size**2 / self.noise / count, losses.TV_image

    def model(self, on):
        dark = torch.full((1, self.coords.npix, self.coords.npix), -0.02)
        positive = partial(bent, brightest=self.brightest)
        return GriddedNet(self.coords, base_cube=dark, pixel_mapping=positive).to(on)

    def likelihood(self, on):
        grid = self.coords.cell_size, self.coords.npix
        return ExactLikelihood(*flat(self.seen), *grid, device=on)


def bent(parameter, brightest):
    return brightest * softplus(parameter, beta=300)


# %%

how = {"optimizer": "lbfgs", "lambdas": "exact", "max_iter": 200, "progress": False}
how |= {"tolerance": 1e-3, "check_every": 10}


def source_field(seen):
    """Three times what is brighter than a tenth of the peak; and the wide image."""
    reach = np.quantile(np.hypot(seen.uu, seen.vv).max(axis=0), 0.25)
    short = select_baselines(seen, longest=reach)
    rough = Imaging(short, suggest_grid(short))
    model, data = rough.model("cpu"), rough.likelihood("cpu")
    image = fit(model, data, losses={"tv": rough.tv}, **how).image[0]
    bright = np.nonzero((image > 0.1 * image.max()).numpy())
    offsets = [axis - rough.coords.npix / 2 for axis in bright]
    widths = [3 * (np.ptp(axis) + 1) for axis in offsets]
    reaches = [2.2 * np.abs(axis).max() for axis in offsets]
    field = max(*widths, *reaches) * rough.coords.cell_size
    return min(field, rough.coords.npix * rough.coords.cell_size), rough


field = None  # or the width in arcsec, of your own choice
advised, rough = source_field(seen)
wide, wide_image = rough.coords, dirty_image(rough.seen, rough.coords)[0]
coords = suggest_grid(seen, field or advised)
print(f"{coords}, of {wide.npix * wide.cell_size:.1f} arcsec that can be seen\n")
for limit in check_image_grid(seen, coords):
    print(textwrap.fill(str(limit), 84, subsequent_indent="    "))

# %%
# ``field`` is a second line that you may change. ``suggest_grid`` takes three cells for
# the finest fringe; the rest says in numbers what your grid, channels and integrations
# cost.
#
# The fit
# -------
#
# All channels make one image: each visibility keeps its own u and v, so nothing is
# smeared. One regularizer is enough, total variation, which prefers few edges. How
# strong? A number from another page means nothing here: it depends on your noise and
# on your pixels. But there is a scale. Noise alone gives the reduced :math:`\chi^2` a
# slope of :math:`a \sqrt{\sum w} / N` along each pixel of area *a*. Start there, then
# try others. Pixels are kept positive, and counted in units of your brightest, so that
# a faint source is no harder to fit. They start dark: a fit that stops early leaves
# where it was what the data do not mind.

device = best_device()
imaging = Imaging(seen, coords)
dirty, beam, noise, tv = imaging.dirty, imaging.beam, imaging.noise, imaging.tv
likelihood = imaging.likelihood(device)
found = fit(imaging.model(device), likelihood, losses={"tv": tv}, **how)
image = found.image.cpu().double()
print(found)

# %%
# Judge it: by the reduced :math:`\chi^2`, near 1 if the weights are right; by the flux,
# near what the shortest baselines see; and by what is *left over*, data less model, as
# a dirty image. That should be noise: hardly above 4 times its size, without a pattern.
# The flux is the one to look at first: too much of it changes neither of the others.


def short_flux(seen):
    """Give the flux that the shortest baselines see, up to twice the least, and σ."""
    lengths = np.where(seen.flagged, np.inf, np.hypot(seen.uu, seen.vv))
    near = lengths <= 2 * lengths.min()
    weight, power = seen.weight[near], np.abs(seen.data[near]) ** 2
    noise = 2 * near.sum() / weight.sum()  # its power adds to that of the sky
    flux = max(np.average(power, weights=weight) - noise, 0) ** 0.5
    return flux, weight.sum() ** -0.5


def flux_beside_short(flux, seen):
    least, error = short_flux(seen)
    said = f"flux {flux:.4g} Jy; the shortest baselines see {least:.4g} ± {error:.1g}"
    if abs(flux - least) > 0.15 * least + 3 * error:
        said += (
            "\nWARNING: they differ: try a narrower field (or wider, if chi² is high)"
        )
    return said


# %%


rest = likelihood.residuals(found.image).cpu().numpy().reshape(seen.data.shape)
residual = replace(seen, data=rest)
left = dirty_image(residual, coords, weighting="natural")[0] / noise
print(f"reduced chi² {found.terms['chi2']:.3f}, of {count:,} visibilities")
print(flux_beside_short(float(found.flux[-1, 0]), seen))
print(f"left over: up to {np.abs(left).max():.1f} times the noise")
if your_file is None:
    truth = torch.from_numpy(sky_image(sky, coords.cell_size, coords.npix))
    off_by = float((image[0] - truth).norm() / truth.norm())
    flux = sum(part.flux for part in sky)
    print(f"the true flux is {flux:.3f} Jy, and the image is off by {off_by:.0%}")

# %%

import matplotlib.pyplot as plt

from firstlight.imaging import plot_image

panels = {
    "all that can be seen": (wide_image, wide, {}),
    "dirty image": (dirty, coords, {"beam": beam}),
    "fit": (image[0], coords, {"stretch": "sqrt"}),
    "left over": (left, coords, {"cmap": "PuOr", "vmin": -6, "vmax": 6}),
}
fig, axes = plt.subplots(2, 2, figsize=(5.6, 5.2), layout="constrained")
for ax, (title, (shown, on, look)) in zip(axes.flat, panels.items(), strict=True):
    plot_image(shown, on, ax=ax, **{"stretch": "linear", "unit": None} | look)
    ax.set_title(title)
edge = coords.npix * coords.cell_size / 2 * np.array([-1, 1, 1, -1, -1])
axes[0, 0].plot(edge, np.roll(edge, 1), "--", color="whitesmoke", lw=1.5)
fig.set_label(
    "All that can be seen, the field dashed in it; the dirty image; the fit, without "
    "the ripples of the dirty image; and what is left over, at most "
    f"{np.abs(left).max():.1f} times the noise."
)
plt.show()

# %%
# To CARTA and CASA
# -----------------
#
# Two files. The *model* is the fit itself, in Jy/pixel, as CASA wants models. The
# *image* is what a telescope with your beam would show of it, with what is left over
# added: in Jy/beam, to hold against the maps of others.

from astropy.wcs import WCS

from firstlight.imaging import convolve, write_image

files = [path.with_suffix(f".{kind}.fits") for kind in ("model", "image")]
model_fits, image_fits = files
where = {"ra": ra, "dec": dec, "overwrite": True}
where["frequencies"] = [seen.frequency.mean()]
restored = convolve(image, coords, beam) + dirty_image(residual, coords, **briggs)[0]
write_image(model_fits, image, coords, unit="Jy/arcsec^2", **where)
write_image(image_fits, restored, coords, unit="Jy/beam", beam=beam, **where)

header = fits.getheader(image_fits)
print(f"{header['BUNIT']}, beam {beam.major:.3f} × {beam.minor:.3f} arcsec")
print(f"{fits.getheader(model_fits)['BUNIT']}, {fits.getdata(model_fits).sum():.3f} Jy")
peak = np.unravel_index(np.argmax(restored[0]), restored[0].shape)
there = WCS(header).celestial.pixel_to_world_values(*peak[::-1])
print(f"the peak is at {there[0]:.5f}°, {there[1]:+.5f}°, says astropy")
if your_file is None:
    east = (there[0] - ra) * np.cos(np.radians(dec)) * 3600
    print(f"that is {east:+.2f} east, {(there[1] - dec) * 3600:+.2f} north", end="; ")
    print(f"the disk is at {sky[0].east:+.2f}, {sky[0].north:+.2f}")

# %%
# CARTA opens both. To calibrate on your model in CASA, hand it to ``importfits``, then
# to ``tclean`` as ``startmodel``, with ``niter=0`` and ``savemodel="modelcolumn"``.
#
# The mistake that no number reports
# ----------------------------------
#
# There are two conventions for the sign of a phase, and files of both. With the wrong
# one, all data are conjugated. Does the fit notice? Conjugate yours, turn the image by
# 180° about its centre, and compare.

inner = found.image.clone()
inner[:, 0], inner[:, :, -1] = 0, 0  # pixels without a partner on the other side
turned = inner.flip((-2, -1)).roll((1, -1), (-2, -1))
skies = {"right": (seen, inner)}
skies["wrong"] = replace(seen, data=seen.data.conj()), turned

chi2 = {}
fig, axes = plt.subplots(1, 2, figsize=(5.6, 3.2), layout="constrained")
for ax, (sign, (data, model)) in zip(axes, skies.items(), strict=True):
    likelihood.replace(data.data.ravel())
    likelihood.recentre(model)
    chi2[sign] = likelihood(model).item() / 2 / count
    shown = dirty_image(data, coords, **briggs)[0]
    plot_image(shown, coords, ax=ax, stretch="linear", unit=None)
    ax.plot(0, 0, "+", color="whitesmoke", ms=10, mew=1.5)
    ax.set_title(f"{sign} sign\nχ² = {chi2[sign]:.5f}")
fig.set_label(
    "Dirty images of the data and of their conjugates: the second is the first, turned "
    "by 180 degrees about the cross. The reduced chi² of their fits is the same, "
    f"{chi2['right']:.5f} and {chi2['wrong']:.5f}."
)
plt.show()

# %%
# *The same, to the last digit.* So are flux and noise. You see it in the sky only: hold
# your image against a catalogue, or against ``tclean`` with ``niter=0``. To mend it,
# read again, ``read_uvfits(path, conjugate=False)`` or ``read_npz(…, conjugate=True)``.
#
# All other traps, sprung
# -----------------------
#
# The others speak up, but for one. In a small observation, ``lab``, make each on
# purpose, and see what is said. Then take the cure, and ask again.

two = [Ring(0.5, 0, 0.3, east=0.3), Ring(0.1, 0, 0.3, east=1.6, north=-1.0)]
track = uv_track(hour_angles=(-0.2, 0.2), n_times=9)
lab = with_noise(observe(two, track, channels(230e9, 1e7, 2)), 0.01, seed=3)
later, near = replace(lab, time=lab.time + 60), select_baselines(lab, longest=4e5)
lost = replace(lab, data=np.where(lab.time > 600, np.nan, lab.data))
mended = flag(lost, ~np.isfinite(lost.data))
grid, coarse = suggest_grid(lab, 5.4), GridCoords(cell_size=0.2, npix=32)

u, v, data, weight = flat(lab)
kilo = {"uu": u / 1e3, "vv": v / 1e3, "data": data, "weight": weight}
twice = {"uu": np.r_[u, -u], "vv": np.r_[v, -v], "data": np.r_[data, data.conj()]}
twice["weight"] = np.r_[weight, weight]
half = {name: values[twice["vv"] > 0] for name, values in twice.items()}

notes, good, part, npz = (Path(folder.name, f"lab.{end}") for end in ("txt", *"abc"))
notes.write_text("u v real imaginary")
write_uvfits(good, lab)
part.write_bytes(good.read_bytes()[:50_000])

# %%


def from_npz(arrays, **unit):
    with npz.open("wb") as file:
        np.savez(file, **arrays)
    read_npz(npz, **unit)


def limit_of(code, seen, grid, **widths):
    limits = check_image_grid(seen, grid, **widths)
    return next(str(limit) for limit in limits if limit.code == code)


def chi2_within(field):
    grid = suggest_grid(near, field)
    data = ExactLikelihood(*flat(near), grid.cell_size, grid.npix)
    chi2 = fit(GriddedNet(grid), data, **how | {"max_iter": 25}).terms["chi2"]
    return f"nothing, but the reduced chi² is {chi2:.2f}"


# %%

mistakes = {
    "no UVFITS file": lambda: read_uvfits(notes),
    "a file cut off": lambda: read_uvfits(part),
    "u, v in kilo-lambda": lambda: from_npz(kilo),
    "both Hermitian halves": lambda: from_npz(twice),
    "NaN": lambda: limit_of("units", lost, grid),
    "cells too large": lambda: limit_of("beyond", lab, coarse),
    "channels too wide": lambda: limit_of("bandwidth", lab, grid, channel_width=8e9),
    "integrations too long": lambda: limit_of("time", lab, grid, integration=900),
    "windows at odd times": lambda: join_windows([lab, later]),
    "field too small": lambda: chi2_within(2.0),
}
cures = {
    "export it again": lambda: read_uvfits(good),
    "copy it again": lambda: read_uvfits(good),
    'read_npz(…, unit="kilolambda")': lambda: from_npz(kilo, unit="kilolambda"),
    "keep what has v > 0": lambda: from_npz(half),
    "flag(seen, ~np.isfinite(seen.data))": lambda: limit_of("units", mended, grid),
    "suggest_grid(seen, field)": lambda: limit_of("beyond", lab, grid),
    "average less": lambda: limit_of("bandwidth", lab, grid, channel_width=1e8),
    "average less, in time": lambda: limit_of("time", lab, grid, integration=60),
    "append u, v, data, weight": lambda: list(map(np.append, flat(lab), flat(later))),
    "look wide first": lambda: chi2_within(5.0),
}

# %%


def told(attempt):
    try:
        said = attempt()
    except (ValueError, OSError) as error:
        return str(error).replace(folder.name, "…")
    return said if isinstance(said, str) else "nothing"


def spring(first, last):
    for trap, cure in list(zip(mistakes, cures, strict=True))[first:last]:
        sprung[trap] = told(mistakes[trap]), told(cures[cure])
        print(f"{trap}\n{textwrap.indent(textwrap.fill(sprung[trap][0], 76), '  | ')}")
        print(f"  cure: {cure}. Then: {sprung[trap][1].split(':')[0]}.")


sprung = {}
spring(0, 4)

# %%
# Those were files. Next come numbers, cells and channels:

spring(4, 7)

# %%
# And last, times and the field:

spring(7, 10)

# %%
# Only the last is silent, for no check knows how wide your source is:
# :math:`\chi^2` is what you see it by. A file of several fields is refused, too: give
# ``exportuvfits`` one ``field``.
#
# Measure
# -------
#
# How long does each part take? (*Read the bytes* is what the disk, or its cache, needs.
# *Step* is the loss and its gradient, which the fit takes most of its time for.)

bench = Bench("whole-run", budget=1.5)
bench.time("read the bytes", path.read_bytes, bytes=size)
bench.time("read", read, path)
bench.time("check", lambda: (check_weights(seen), check_image_grid(seen, coords)))
bench.time("dirty image", lambda: dirty_image(seen, coords, **briggs))


def step_on(on):
    net, data = imaging.model(on), imaging.likelihood(on)

    def one_step():
        net()
        sky = net.icube.sky_cube
        (data(sky) / (2 * count) + tv[0] * tv[1](sky)).backward()

    return one_step


places = {"CPU": torch.device("cpu")}
if device.type != "cpu":
    places["GPU"] = device
for name, on in places.items():
    bench.time(f"set-up, {name}", imaging.likelihood, on, device=on)
    bench.time(f"step, {name}", step_on(on), n=coords.npix**2, device=on)
bench.show()

# %%
# As a picture:

bench.plot()

# %%
# A whole run is each of these once, and the step as often as the fit took its loss. All
# but the steps grow with the number of visibilities. What of the run is the fit, here
# and, as a *model*, for more visibilities? And what could a GPU gain at most that made
# the steps take no time at all?

once = ("read", "check", "dirty image", "set-up, CPU")
passes = sum(bench[part].median for part in once)
one = bench["step, CPU"].median
steps = len(found.loss) * one
print(f"the set-up is {bench['set-up, CPU'].median / one:.0f} steps", end="; ")
print(f"from its arithmetic, {setup / step:.0f}\n")
print("visibilities   the fit   no steps at all would gain")
shares = {}
for times in (1, 10, 100):
    shares[times] = steps / (steps + times * passes)
    gain = 1 / (1 - shares[times])
    print(f"{times * seen.data.size:>12,} {shares[times]:>9.0%} {gain:>12.2f} times")

# %%
# That is the prediction to take home. Since a step no longer sees the visibilities, the
# more you have, the less the fit matters: then a GPU helps where it takes over the
# passes, too (the set-up's FFTs go to a CUDA device if cufinufft is installed), or
# where one set of data is fitted many times: for other regularizers, or for
# cross-validation.
#
# Where this stops being true
# ---------------------------
#
# - *More than total intensity of one small field.* Mosaics, polarization, wide fields:
#   :doc:`/scope` says who does it.
# - *A sky that changes with frequency.* All channels make one image here. Of a line,
#   make one for each channel, of ``seen.uu[[3]]`` and so on.
# - *Positions.* FITS files here are in ICRS. If yours is in FK5, they are off by some
#   milliarcseconds; in B1950, by far more.
# - *A primary beam.* The fit is of the sky as your antennas see it: near the edge of
#   their view it is too faint. ``ExactLikelihood`` takes ``beam=``.
# - *CASA itself* does not run when this page is built: what its tasks make of the files
#   was not seen here. UVFITS files were held against pyuvdata, FITS against astropy.
# - *The weights.* One factor for each window mends the usual fault. Weights that are
#   wrong between antennas need CASA's ``statwt``.
#
# Exercise
# --------
#
# You have read columns of a measurement set by yourself: ``uvw`` in metres, (3, rows),
# ``frequency`` in Hz, (channels), and ``data`` with CASA's sign, (channels, rows). Give
# u and v in wavelengths, (channels, rows), and data that fit *our* sign.


def to_ours(uvw, frequency, data): ...


# %%
# ``check`` hands it a point whose place is known.


def check(answer):
    rng = np.random.default_rng(seed=4)
    uvw, hertz = rng.normal(scale=500, size=(3, 7)), np.array([100e9, 110e9])
    right = [np.outer(hertz / 299_792_458, along) for along in uvw[:2]]
    point = Point(2.0, east=0.3, north=-0.2)
    try:
        u, v, data = answer(uvw, hertz, point.visibilities(*right).conj())
        u, v, data = (np.asarray(part) + np.zeros((2, 7)) for part in (u, v, data))
    except Exception as error:
        return f"to_ours failed, {type(error).__name__}: {error}"
    for got, wanted in zip((u, v), right, strict=True):
        ratio = np.abs(got / wanted)
        if not np.allclose(ratio, ratio[0, 0]):
            return "Each channel has a wavelength of its own: c over its frequency."
        if not np.allclose(ratio, 1):
            return f"They are {ratio[0, 0]:.3g} times too long: metres over wavelength."
    if np.allclose(data, point.visibilities(u, v)):
        return "Right: east is east, and a wavelength is a wavelength."
    if np.allclose(data, point.visibilities(-u, -v)):
        return "The sky is turned by 180°: conjugate data, or turn u and v, not both."
    return "The sky is a mirror image: u and v turn together, or not at all."


print(check(to_ours))

# %%

# solution


def to_ours_solution(uvw, frequency, data):
    u, v, _ = np.multiply.outer(uvw, frequency / 299_792_458).swapaxes(1, 2)
    return u, v, data.conj()


print(check(to_ours_solution))

# %%
# Three lines to remember
# -----------------------

share = f"{shares[1]:.0%} of the run, and {shares[100]:.0%} with 100 times the data"
mended = f"needed a factor of {report.worst:.2f}" if report.wrong else "were right"
print(f"1. Check the weights before you believe a chi²: these {mended}.")
print(f"2. No chi² knows the sign, {chi2['right']:.5f} or {chi2['wrong']:.5f}:")
print("   hold the image against the sky.")
print(f"3. The fit is {share}:")
print("   it is the data that you wait for.")
folder.cleanup()
