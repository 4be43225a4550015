"""
How does ``image`` choose?
==========================

:doc:`/tutorials/4_imaging/02_your_own_data` makes an image with one command and nothing
to tune. But somebody has to choose where there may be emission, how smooth the image
should be, and how large its errors are. Here we take these steps one at a time, on a
sky that we simulate, so that we know whether each choice was right. If you change one
line, the page does the same with your own data. Before you begin, write down a guess:
how much flux would noise add to an image without a mask?

**You will learn**

- why an image needs a mask, and how much false flux it contains without one;
- how smooth an image should be, and how well its flux is known;
- to judge it when the truth is unknown, and to hand it back to CASA.

**Time:** 10 minutes. **Needs:** any computer. With a GPU, the fits run on it.
"""

# %%
# To use your own data, change the first of these lines:

your_file = None  # or "my.uvfits", "my.npz", "my.ms"
options = {}  # or {"field": 0}, of a measurement set that has several

# %%

# folded: Without a file of yours, make one: a disk with rings, and a companion

# sphinx_gallery_thumbnail_number = 1
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from astropy.io import fits

from firstlight.imaging.data import antenna_mask, flag
from firstlight.imaging.simulate import Point, Ring, channels, observe
from firstlight.imaging.simulate import protoplanetary_disk, sky_image
from firstlight.imaging.simulate import sky_visibilities, uv_track, with_noise

folder = tempfile.TemporaryDirectory()  # removed at the end
path = Path(your_file or Path(folder.name, "sky.uvfits"))
if your_file is None:
    sky = protoplanetary_disk(0.25, size=0.7, east=0.4, north=-0.5)
    sky = [*sky, Ring(0.04, radius=0, width=0.08, east=-1.3, north=1.2)]
    track = uv_track(hour_angles=(-0.5, 0.5), n_times=8)
    made = with_noise(observe(sky, track, channels(230e9, 5e8, 4)), 0.009, seed=1)
    made = flag(replace(made, weight=made.weight / 4), antenna_mask(made, antenna=7))

# %%

# folded: Write it as UVFITS, in the layout of CASA's exportuvfits


def write_uvfits(path, vis, ra=83.0, dec=-24.0):
    """Write one window. Both u and v, in seconds, have the other sign than ours."""
    first, second = 1 + vis.antennas.T
    hertz = vis.frequency[0]
    columns = {"UU": -vis.uu[0] / hertz, "VV": -vis.vv[0] / hertz}
    columns |= {"BASELINE": 256 * first + second, "DATE": vis.time / 86400}
    cube = np.stack([vis.data.real, vis.data.imag, vis.weight], axis=-1)
    cube = cube.swapaxes(0, 1)[:, None, None, :, None].astype("f4")
    names, values = list(columns), list(columns.values())
    hdu = fits.GroupsHDU(fits.GroupData(cube, -32, parnames=names, pardata=values))
    step = vis.frequency[1] - hertz
    axes = {"COMPLEX": (1, 1), "STOKES": (1, 1), "FREQ": (hertz, step)}
    axes |= {"RA": (ra, 1), "DEC": (dec, 1)}
    for axis, (name, (start, width)) in enumerate(axes.items(), 2):
        card = {"CTYPE": name, "CRVAL": start, "CDELT": width, "CRPIX": 1}
        hdu.header.update({f"{key}{axis}": value for key, value in card.items()})
    hdu.header["PZERO4"] = 2459000.5  # the day, in Julian days
    hdu.writeto(path)


if your_file is None:
    write_uvfits(path, made)

# %%
# These lines do all the work: they read the file, compare its :term:`weights <weight>`
# with the scatter of the data, and make the image.

import textwrap
import time

from firstlight import best_device
from firstlight.imaging import check_weights, image, read_visibilities, scale_weights

device = best_device()
seen = read_visibilities(path, **options)
report = check_weights(seen)
if report.wrong:
    seen = scale_weights(seen, report)
began = time.perf_counter()
found = image(seen, draws=8, device=device)
seconds = time.perf_counter() - began


def say(text):
    for line in str(text).splitlines():
        print(textwrap.fill(line, 80, subsequent_indent="    "))


say(found)

# %%

# figure

import matplotlib.pyplot as plt

from firstlight.imaging import DirtyImager, fit_beam, plot_image

counts = ~seen.flagged
rows = [getattr(seen, name)[counts] for name in ("uu", "vv", "data", "weight")]
u, v, data, weight = rows
coords, beam = found.coords, found.beam
imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
dirty, psf = imager.get_dirty_image("briggs", 0.5, check_visibility_scatter=False)
bar = float(f"{coords.npix * coords.cell_size / 6:.1g}")  # arcsec
seen_by = fit_beam(psf[0], coords.cell_size)  # narrower than that of natural weights
panels = {
    "dirty image [mJy/beam]": (1e3 * dirty[0], {"beam": seen_by}),
    "image [mJy/arcsec²]": (1e3 * found.sky, {"scale_bar": bar}),
    "residual [σ]": (found.residual, {"cmap": "PuOr", "vmin": -6, "vmax": 6}),
    "error [mJy/arcsec²]": (1e3 * found.error, {}),
}
for name in ("image", "error"):
    panels[f"{name} [mJy/arcsec²]"][1].update(stretch="sqrt", vmin=0)
fig, axes = plt.subplots(2, 2, figsize=(7.4, 6.4), layout="constrained")
for ax, (title, (shown, look)) in zip(axes.flat, panels.items(), strict=True):
    plot_image(shown, coords, ax=ax, **{"stretch": "linear", "unit": ""} | look)
    ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
most = np.abs(found.residual).max()
fig.suptitle(
    f"{path.name} holds {found.flux:.3f} ± {found.flux_error:.3f} Jy (noise alone); "
    f"no residual exceeds {most:.1f} σ"
)
fig.set_label(
    "The dirty image; the image, without its ripples; the residuals, at most "
    f"{most:.1f} σ, with faint rings at the source; and the error of each pixel, "
    "largest at the edges of the rings."
)
plt.show()

# %%
# The faint rings in the residuals are what :term:`total variation`, explained below,
# smooths away. Their rms is that of noise, but their shape is not.
#
# Read
# ----
#
# Of a measurement set, ``CORRECTED_DATA`` is read if it exists, and ``DATA`` if not;
# ``options = {"column": "DATA"}`` chooses. Check that
# the baselines, frequencies and coordinates are the ones you expect:

lengths = np.hypot(u, v) / 1e3
low, high = seen.frequency.min() / 1e9, seen.frequency.max() / 1e9
print(f"{seen.data.size:,} visibilities, {seen.flagged.mean():.1%} of them flagged")
print(f"{len(seen.frequency)} channels, {low:.2f} to {high:.2f} GHz")
print(f"baselines {lengths.min():.1f} to {lengths.max():.1f} kλ")
print(f"phase centre, right ascension and declination: {seen.phase_centre}")

# %%
# The weights
# -----------
#
# A weight should be :math:`1/\sigma^2`, with σ the noise of the real or imaginary part.
# If the weights are wrong, so is :math:`\chi^2`, and a good fit cannot be told from a
# bad one. The data can check them: a visibility hardly changes from one integration to
# the next, so the differences between neighbours are noise.

print(report)

# %%
# *Scatter* is the noise in the data over the noise that the weights imply, and an
# *execution* is one run of the observation. If the noise is half of what is implied,
# multiply the weights by 4.
#
# The simulated weights were divided by the number of channels, as ``exportuvfits`` does
# if a set has no ``WEIGHT_SPECTRUM``. The check needs antennas and times, so it cannot
# be made for an npz that lacks them.
#
# Check
# -----
#
# If the sky is known, one number checks signs, units and the corrected weights
# together: the reduced :math:`\chi^2` of the true sky must be 1.

if your_file is None:
    chi2_true = (weight * np.abs(data - sky_visibilities(sky, u, v)) ** 2).mean() / 2
    print(f"reduced χ² of the true sky: {chi2_true:.4f} ± {len(u) ** -0.5:.4f}")
    assert abs(chi2_true - 1) < 0.05

# %%
# Predict
# -------
#
# If pixels may only be positive, an empty patch of sky keeps the positive half of its
# noise, and zero for the rest. The mean is then :math:`\sigma/\sqrt{2\pi}`, about 0.4 σ
# in each beam, which is too faint to see. How much flux does it add up to in a field
# three times as wide, and will :math:`\chi^2` warn you?

wide_npix = max(coords.npix, min(3 * coords.npix, 1024))
beams = (wide_npix * coords.cell_size) ** 2 / beam.area
extra = beams * found.noise / np.sqrt(2 * np.pi)
print(f"noise {1e3 * found.noise:.3g} mJy/beam, in {beams:,.0f} beams: {extra:.3f} Jy")
print(f"the image above has {found.flux:.3f} Jy")

# %%
# Where is the source?
# --------------------
#
# The next function fits one image to all channels. Pixels are positive inside the mask
# and zero outside it, and total variation (TV) keeps the image smooth. The strength of
# TV is in units of the gradient that noise alone gives :math:`\chi^2`, and brightness
# is in units of the noise, so that the same settings suit faint and bright sources
# (:doc:`/tutorials/4_imaging/01_first_light` explains such a fit).

from functools import partial

import torch

from firstlight.imaging import ExactLikelihood, GriddedNet, GridCoords, fit
from firstlight.imaging.model import losses
from firstlight.imaging.coordinates import sky_to_packed

how = {"optimizer": "lbfgs", "lambdas": "exact", "max_iter": 200, "progress": False}
how |= {"tolerance": 1e-3, "check_every": 10}
unit = found.noise / beam.area  # Jy/arcsec²


def likelihood_on(coords):
    grid = {"cell_size": coords.cell_size, "npix": coords.npix, "device": device}
    return ExactLikelihood(u, v, data / unit, weight * unit**2, progress=False, **grid)


def fit_where(light, coords, strength):
    """Fit with positive pixels where the mask ``light`` allows them."""
    allowed = sky_to_packed(torch.as_tensor(light)[None])
    model = GriddedNet(coords, base_cube=torch.where(allowed, -3.0, -1e4)).to(device)
    slope = coords.cell_size**2 / beam.area / len(u)
    tv = strength * slope, partial(losses.TV_image, epsilon=1e-2)
    return fit(model, likelihood_on(coords), losses={"tv": tv}, **how)


# %%
# First the mistake: a field three times as wide, without a mask.

wide = GridCoords(coords.cell_size, wide_npix)
everywhere = fit_where(np.ones((wide_npix, wide_npix), bool), wide, strength=1)
wide_flux = unit * float(everywhere.flux[-1, 0])
print(f"predicted {found.flux + extra:.3f} Jy, found {wide_flux:.3f} Jy")
print(f"reduced χ² {everywhere.terms['chi2']:.3f}", end=", ")
print(f"{everywhere.quality.chi2_off:+.0f} σ from 1: {everywhere.why}")
for verdict, said in everywhere.quality.faults:
    print(f"    {verdict}: {said}")

# %%
# The excess over the flux of the masked image is noise of the empty sky. The prediction
# is rough, because a fit does more than clip a dirty image. A :math:`\chi^2`
# somewhat below 1 may look harmless, but with so many visibilities it is many σ below.
# The verdicts advise a smaller field; a mask keeps the field. ``image`` draws one. It
# contains every place where the dirty image, at any of four scales, rises 5 σ above
# noise and sidelobes, and the surroundings of that place down to 2.5 σ. ``image`` fits
# inside this mask, then searches the residuals twice more for sources that it missed.

print(f"the mask covers {found.mask.mean():.1%} of the image")

# %%

# figure

fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.6), layout="constrained")
faint = {"stretch": "linear", "unit": None, "vmin": 0, "vmax": 5 * unit}
plot_image(unit * everywhere.image, wide, ax=axes[0], scale_bar=2 * bar, **faint)
plot_image(found.sky, coords, ax=axes[1], scale_bar=bar, **faint)
outline = {"extent": coords.img_ext, "colors": "white", "linewidths": 1}
axes[1].contour(found.mask, levels=[0.5], origin="lower", **outline)
half = coords.npix * coords.cell_size / 2
square = np.array([-1, 1, 1, -1, -1]) * half, np.array([-1, -1, 1, 1, -1]) * half
axes[0].plot(*square, color="white", lw=0.8, ls="--")
axes[0].set_title(f"no mask: {wide_flux:.3f} Jy (dashed: right)")
axes[1].set_title(f"inside the mask (line): {found.flux:.3f} Jy")
fig.suptitle(
    f"Without a mask, noise changes the flux by {wide_flux - found.flux:+.2f} Jy"
)
fig.set_label(
    "Both images on the same colour scale, which shows what is faint. Without a mask, "
    "the field is full of faint blobs of noise, which add up to "
    f"{wide_flux - found.flux:.2f} Jy. With a mask, the sky beside the source is dark. "
    "A dashed square on the left is the field on the right."
)
plt.show()

# %%
# How smooth?
# -----------
#
# How strong should TV be inside the mask? The residuals *in the source* tell. If their
# rms is below 1 σ, the image has fitted noise. If it is above, the image lacks flux
# that the data contain.

print("TV   residual rms in the source   flux, Jy")
for strength in (1, 32):
    one = fit_where(found.mask, coords, strength)
    flux = unit * float(one.flux[-1, 0])
    print(f"{strength:>2} {one.quality.inside:>20.2f} σ {flux:>18.4f}")
print(f"image() {found.quality.inside:>15.2f} σ {found.flux:>18.4f}")

# %%
# No single strength suits the whole image, because a TV that keeps the disk smooth also
# dims every peak. ``image`` therefore fits with a strong TV, adds the residuals back to
# the data and fits again: :term:`Bregman iterations <Bregman iteration>`. It stops when
# the residuals of the source are no larger than noise, by the :term:`discrepancy
# principle`. (Of the last iteration it may take only a part: hence the fraction in its
# report.)
#
# How well is the flux known?
# ---------------------------
#
# ``image`` repeats its fits on simulated data: its own image, with fresh noise,
# ``draws`` times, a :term:`parametric bootstrap`. The scatter of those images is the
# error of this one. If on average they are brighter than the image they were made from,
# the difference is the bias that positive pixels cause. It is subtracted from the image
# and counted as an error, too.

print(f"flux {found.flux:.4f} ± {found.flux_error:.4f} Jy")
if your_file is None:
    true_flux = sum(part.flux for part in sky)
    truth = sky_image(sky, coords.cell_size, coords.npix)
    off_by = np.linalg.norm(found.sky - truth) / np.linalg.norm(truth)
    off = np.abs(found.sky - truth)[found.mask] / found.error[found.mask].clip(unit)
    print(f"true flux {true_flux:.4f} Jy: error {(found.flux - true_flux):+.4f} Jy")
    print(f"{np.mean(off < 2):.0%} of the source's pixels are within 2 of their errors")
    print(f"relative error of the image, at full resolution: {off_by:.0%}")
    assert abs(found.flux - true_flux) < min(2 * found.flux_error, 0.05 * true_flux)

# %%
# If errors were complete, some 95% of the pixels would be within twice their error of
# the truth. They do not cover what no baseline measured: edges sharper than the beam,
# and emission more extended than the shortest baseline can see.
#
# Judge it
# --------
#
# With your own data the truth is unknown, but four questions can still be answered. Is
# the reduced :math:`\chi^2` 1, within a few of *its* σ? Is the rms of the residuals
# that of noise, inside the source and outside it? Are all residuals below 5 σ? Does
# the flux agree with what the shortest baselines measure?

say(found.quality)
print(f"so: {found.quality.verdict}")
if your_file is None:
    assert abs(found.quality.inside - 1) < 0.2
    assert abs(found.quality.outside - 1) < 0.05

# %%
# None of them reveals a wrong sign of the phase: if the data are conjugated, these
# numbers stay the same, but for rounding, and the sky is rotated by 180°.
# :doc:`/tutorials/4_imaging/12_ten_traps` makes this mistake and nine others on
# purpose.
#
# To CARTA, and back to CASA
# --------------------------
#
# The page writes two of the command's files into a folder beside your data. The *image*
# is what CASA calls a model: ``write_image`` converts it from Jy/arcsec² to CASA's
# Jy/pixel. The *restored* image is the model convolved with the beam, plus the
# residuals, in Jy/beam, to be compared with published maps.

# folded: The function that writes both FITS files

from firstlight.imaging import convolve, write_image


def write_both(out):
    """Write the image, and the same at the beam with its residuals."""
    out.mkdir(exist_ok=True)
    ra, dec = seen.phase_centre
    how = {"ra": ra, "dec": dec, "frequencies": [seen.frequency.mean()]}
    how["overwrite"] = True
    restored = convolve(found.model, coords, beam) + found.noise * found.residual
    files = [out / f"{path.stem}.{kind}.fits" for kind in ("image", "restored")]
    write_image(files[0], found.sky[None], coords, unit="Jy/arcsec^2", **how)
    write_image(files[1], restored[None], coords, unit="Jy/beam", beam=beam, **how)
    return files


# %%

if seen.phase_centre is None or np.isnan(seen.frequency).any():
    print("No FITS file is written: the phase centre or the frequency is unknown. Add")
    print("seen = replace(seen, phase_centre=(83.0, -24.0))  # after read_visibilities")
else:
    for file in write_both(path.resolve().with_name(f"{path.stem}_page")):
        unit_of, place = fits.getheader(file)["BUNIT"], str(file)
        print(f"wrote {place.replace(folder.name, '…')}, in {unit_of}")

# %%
# Both open in CARTA. To self-calibrate in CASA, pass the image to ``importfits``, then
# to ``tclean`` as ``startmodel``, with ``niter=0`` and ``savemodel="modelcolumn"``. It
# writes the model's visibilities into the column ``MODEL_DATA`` of your set, where
# ``gaincal`` looks for them.
#
# Measure
# -------
#
# ``image`` makes dozens of fits. The command takes the errors from 16 simulated images,
# not from 8.

print(f"image() took {seconds:.0f} s on this computer's {device.type}")

# %%
# Where this stops being true
# ---------------------------
#
# - *:term:`Primary beam <primary beam>`.* ``image`` does not correct for it, so sources
#   away from the centre of the field come out too faint. The command's ``--dish
#   METRES`` adds that image divided by a Gaussian beam, and corrects nothing else.
#   ``ExactLikelihood`` takes a primary beam as ``beam=``.
# - *More than total intensity of one small field.* For mosaics, polarization and wide
#   fields, :doc:`/scope` names other programs.
# - *A sky that changes with frequency.* All channels make one image here. For a
#   spectral line, make one image for each channel, or :doc:`a cube
#   </tutorials/4_imaging/09_many_channels>`.
# - *Faint sources.* If nothing exceeds 5 σ in the dirty image, ``image`` finds no
#   source and says so. The mask cuts off the outskirts of a source just above 5 σ.
# - *Positions.* UVFITS files do not distinguish ICRS from J2000, so that positions in
#   J2000 are off by some 20 milliarcseconds. Measurement sets do.
# - *Weights.* If weights are wrong between antennas, use CASA's ``statwt``.
#
# Exercise
# --------
#
# Suppose you have read the columns of a measurement set yourself: ``uvw`` in metres, of
# shape (3, rows), ``frequency`` in Hz, (channels), and ``data``, (channels, rows).
# Return u and v in wavelengths, (channels, rows), and data in *our* sign convention,
# which is the opposite of CASA's.


def to_ours(uvw, frequency, data): ...


# %%

# folded: What check does: it hands over a point whose place is known


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


# %%

print(check(to_ours))

# %%
# Three lines to remember
# -----------------------

# remember
told = "were right" if not np.isnan(report.worst) else "could not be checked"
told = f"needed a factor of {report.worst:.2f}" if report.wrong else told
print(f"1. Check the weights before you trust a χ²: these {told}.")
print(f"2. Use a mask: a wide field without one gave {wide_flux:.3f} Jy,", end=" ")
print(f"the mask that the data draw {found.flux:.3f} Jy.")
print("3. Residuals should look like noise inside the source, too:", end=" ")
print("larger means missing flux, smaller means fitted noise.")
folder.cleanup()

# %%
# Solution
# --------

# solution


def to_ours_solution(uvw, frequency, data):
    u, v, _ = np.multiply.outer(uvw, frequency / 299_792_458).swapaxes(1, 2)
    return u, v, data.conj()


print(f"Our solution: {check(to_ours_solution)}")
