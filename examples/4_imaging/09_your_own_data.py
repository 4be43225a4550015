"""
From your measurement set to a FITS image
=========================================

You have calibrated visibilities of one field: a measurement set, a UVFITS file, or an
npz. One command makes an image of them, with its errors, and nothing to tune:

.. code-block:: bash

    firstlight image my.uvfits --out images   # or my.npz, or my.ms

It writes ``my.image.fits``, the sky without residuals, in Jy/pixel; beside it
``my.error.fits``, ``my.residual.fits`` and ``my.restored.fits``; a picture, ``my.png``;
and a report, ``my.txt``. This page does the same in slow motion, on a sky that is known
or, if you change one line, on yours.

**You will learn**

- why light is allowed only where the data show a source, and what happens otherwise;
- how smooth an image should be, and how sure its flux is;
- to judge it without the truth, and to hand it back to CASA.

**Time:** 12 minutes. **Needs:** any computer. With a GPU, the fits run on it.
"""

# %%
# The first of these lines is the one to change:

your_file = None  # or "my.uvfits", "my.npz", "my.ms"
options = {}  # or {"field": 0}, of a measurement set that has several

# %%

# folded: Without a file of yours, make one: a disk with rings, and a companion

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from astropy.io import fits

from firstlight.imaging import Ring
from firstlight.imaging.simulation import channels, observe, uv_track, with_noise
from firstlight.imaging.skies import Point, protoplanetary_disk, sky_image
from firstlight.imaging.skies import sky_visibilities
from firstlight.imaging.visibilities import block, flag

folder = tempfile.TemporaryDirectory()  # removed at the end
path = Path(your_file or Path(folder.name, "sky.uvfits"))
if your_file is None:
    sky = protoplanetary_disk(0.25, size=0.7, east=0.4, north=-0.5)
    sky = [*sky, Ring(0.04, radius=0, width=0.08, east=-1.3, north=1.2)]
    track = uv_track(hour_angles=(-0.5, 0.5), n_times=8)
    made = with_noise(observe(sky, track, channels(230e9, 5e8, 4)), 0.009, seed=1)
    made = flag(replace(made, weight=made.weight / 4), block(made, antenna=7))

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
# All of it is five lines. They read the file, hold its weights against the scatter of
# the data, and make the image:

from firstlight import Bench, best_device
from firstlight.imaging import check_weights, image, read_visibilities, scale_weights

device = best_device()
seen = read_visibilities(path, **options)
report = check_weights(seen)
if report.wrong:
    seen = scale_weights(seen, report)
found = image(seen, draws=8, device=device)
print(found)

# %%

# folded: Draw it

import matplotlib.pyplot as plt

from firstlight.imaging import DirtyImager, plot_image

counts = ~seen.flagged
rows = [getattr(seen, name)[counts] for name in ("uu", "vv", "data", "weight")]
u, v, data, weight = rows
coords, beam = found.coords, found.beam
imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
dirty, _ = imager.get_dirty_image("briggs", 0.5, check_visibility_scatter=False)
bar = float(f"{coords.npix * coords.cell_size / 6:.1g}")  # arcsec
panels = {
    "dirty image [mJy/beam]": (1e3 * dirty[0], {"stretch": "linear"}),
    "image [Jy/arcsec²]": (found.sky, {"stretch": "sqrt", "scale_bar": bar}),
    "residual [σ]": (found.residual, {"cmap": "PuOr", "vmin": -6, "vmax": 6}),
    "error [Jy/arcsec²]": (found.error, {"stretch": "sqrt"}),
}
fig, axes = plt.subplots(2, 2, figsize=(7.4, 6.4), layout="constrained")
for ax, (title, (shown, look)) in zip(axes.flat, panels.items(), strict=True):
    plot_image(shown, coords, ax=ax, **{"stretch": "linear", "unit": ""} | look)
    ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
most = np.abs(found.residual).max()
fig.set_label(
    "The dirty image; the image, without its ripples; the residuals, at most "
    f"{most:.1f} σ; and the error of each pixel, largest where it is bright."
)
plt.show()

# %%
# Predict
# -------
#
# Pixels of an image are positive, so each empty beam keeps the positive half of its
# noise. The mean of that half is :math:`\sigma/\sqrt{2\pi}`, some 0.4 σ: nothing to
# see. But how much flux is it in all, in a field three times as wide?

wide_npix = max(coords.npix, min(3 * coords.npix, 1024))
beams = (wide_npix * coords.cell_size) ** 2 / beam.area
extra = beams * found.noise / np.sqrt(2 * np.pi)
print(f"noise {1e3 * found.noise:.3g} mJy/beam, in {beams:,.0f} beams: {extra:.3f} Jy")
print(f"the image above has {found.flux:.3f} Jy")

# %%
# Your prediction: what flux does a fit of that field find? And will its :math:`\chi^2`
# tell?
#
# Read
# ----
#
# CASA keeps a *measurement set*, a folder of tables. It is read as it is, with
# python-casacore (``pip install python-casacore``). Where there is none for your
# system, take a task of CASA,
#
# .. code-block:: python
#
#     exportuvfits(vis="my.ms", fitsfile="my.uvfits", datacolumn="corrected",
#                  field="0", multisource=False, padwithflags=True)
#
# or, for windows with different numbers of channels, a script to run in CASA,
# :download:`casa_export.py </_snippets/casa_export.py>`: it writes an npz for each
# window, and ``read_visibilities`` joins a list of them. Look at the numbers. Are these
# your baselines, your noise, your place?

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
# A weight should be :math:`1/\sigma^2`. Without right weights, nobody can tell a good
# fit from a bad one. But the data know: from one integration to the next the sky hardly
# changes, so what does change is noise.

print(report)

# %%
# The weights of the file made here were divided by the number of channels.
# ``exportuvfits`` does that where a set has no ``WEIGHT_SPECTRUM``. An npz without
# antennas and times leaves nothing to compare.
#
# Check
# -----
#
# Where the sky is known, one number tells whether signs, units and weights are all
# right: the reduced :math:`\chi^2` of the truth, which is then 1.

if your_file is None:
    chi2_true = (weight * np.abs(data - sky_visibilities(sky, u, v)) ** 2).mean() / 2
    print(f"reduced χ² of the true sky: {chi2_true:.4f} ± {len(u) ** -0.5:.4f}")
    assert abs(chi2_true - 1) < 0.05

# %%
# Where is the source?
# --------------------
#
# Now in slow motion: one fit, of all channels, with total variation (TV) and pixels
# that are positive where light is allowed, and dark elsewhere. TV is counted in units
# of what noise alone does to the slope of :math:`\chi^2`, and brightness in units of
# the noise, so that faint and bright sources are the same task
# (:doc:`/tutorials/4_imaging/03_first_light` explains such a fit).

from functools import partial

import torch

from firstlight.imaging import ExactLikelihood, GriddedNet, GridCoords, fit, losses
from firstlight.imaging.coordinates import sky_to_packed

how = {"optimizer": "lbfgs", "lambdas": "exact", "max_iter": 200, "progress": False}
how |= {"tolerance": 1e-3, "check_every": 10}
unit = found.noise / beam.area  # Jy/arcsec²


def likelihood_on(coords):
    grid = {"cell_size": coords.cell_size, "npix": coords.npix, "device": device}
    return ExactLikelihood(u, v, data / unit, weight * unit**2, progress=False, **grid)


def fit_where(light, coords, strength):
    """Fit light where it is allowed."""
    allowed = sky_to_packed(torch.as_tensor(light)[None])
    model = GriddedNet(coords, base_cube=torch.where(allowed, -3.0, -1e4)).to(device)
    slope = coords.cell_size**2 / beam.area / len(u)
    tv = strength * slope, partial(losses.TV_image, epsilon=1e-2)
    return fit(model, likelihood_on(coords), losses={"tv": tv}, **how)


# %%
# First, the mistake: light everywhere, in a field that is three times as wide.

wide = GridCoords(coords.cell_size, wide_npix)
everywhere = fit_where(np.ones((wide_npix, wide_npix), bool), wide, strength=1)
wide_flux = unit * float(everywhere.flux[-1, 0])
print(f"predicted {found.flux + extra:.3f} Jy, found {wide_flux:.3f} Jy")
print(f"reduced χ² {everywhere.terms['chi2']:.3f}: {everywhere.why}")
for verdict, said in everywhere.quality.faults:
    print(f"    {verdict}: {said}")

# %%
# An empty sky has given that flux. :math:`\chi^2` is near 1, and would please anybody
# who does not ask by how many σ it is *below*. So ``image`` allows light only where a
# source is seen: where the dirty image, at any of four scales, rises 5 σ above its
# noise and its sidelobes, and around that down to 2.5 σ. It fits that, and looks twice
# more, at what is left over.

print(f"light is allowed in {found.source.mean():.1%} of the image")

# %%

# folded: Draw both

fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.6), layout="constrained")
faint = {"stretch": "linear", "unit": None, "vmin": 0, "vmax": 20 * unit}
plot_image(unit * everywhere.image, wide, ax=axes[0], scale_bar=2 * bar, **faint)
plot_image(found.sky, coords, ax=axes[1], scale_bar=bar, **faint)
outline = {"extent": coords.img_ext, "colors": "white", "linewidths": 1}
axes[1].contour(found.source, levels=[0.5], origin="lower", **outline)
axes[0].set_title(f"light everywhere: {wide_flux:.3f} Jy")
axes[1].set_title(f"light within the line: {found.flux:.3f} Jy")
fig.set_label(
    "Both images with the same shades, which show what is faint. With light allowed "
    "everywhere, the field is full of faint blobs of noise, which add up to "
    f"{wide_flux - found.flux:.2f} Jy. With a mask, the sky beside the source is dark."
)
plt.show()

# %%
# How smooth?
# -----------
#
# Within the mask, how strong should TV be? Look at the residuals *in the source*. If
# they are quieter than noise, the image has fitted noise. If they are louder, the fit
# has left flux behind.

print("TV   residual rms in the source   flux, Jy")
for strength in (1, 32):
    one = fit_where(found.source, coords, strength)
    flux = unit * float(one.flux[-1, 0])
    print(f"{strength:>2} {one.quality.inside:>20.2f} σ {flux:>18.4f}")
print(f"image() {found.quality.inside:>15.2f} σ {found.flux:>18.4f}")

# %%
# No strength is right everywhere: one that keeps the disk smooth takes flux off every
# peak. So ``image`` fits with a strong TV, then hands what was left over back to the
# data and fits again, until the residuals of the source are no louder than noise, and
# stops there. ``found.choices`` says what it did.
#
# How sure?
# ---------
#
# The recipe is run again on data that it makes itself: its own image, with fresh noise,
# so many times (``draws``). How those images differ is the error of this one. What they
# have more of, on average, than they were made from is what noise adds to pixels that
# cannot be negative: it is taken off this image, and counts as an error, too.

print(f"flux {found.flux:.4f} ± {found.flux_error:.4f} Jy")
if your_file is None:
    true_flux = sum(part.flux for part in sky)
    truth = sky_image(sky, coords.cell_size, coords.npix)
    off_by = np.linalg.norm(found.sky - truth) / np.linalg.norm(truth)
    off = np.abs(found.sky - truth)[found.source] / found.error[found.source].clip(unit)
    print(f"the truth is {true_flux:.4f} Jy, {(found.flux - true_flux):+.4f} Jy off")
    print(f"{np.mean(off < 2):.0%} of the source's pixels are within 2 of their errors")
    print(f"the image is off by {off_by:.0%}, unblurred")
    assert abs(found.flux - true_flux) < min(2 * found.flux_error, 0.05 * true_flux)

# %%
# The error does not know what no antenna measured: edges that are sharper than the
# beam, or a glow that is wider than the shortest baseline can see.
#
# Judge it
# --------
#
# You will not have the truth. Ask four questions instead. Is the reduced :math:`\chi^2`
# 1, within a few of *its* σ? Are residuals as loud as noise within the source, and
# beside it? Is none above 5 σ? Is the flux what the shortest baselines see?

print(found.quality)
print(f"so: {found.quality.verdict}")
if your_file is None:
    assert abs(found.quality.inside - 1) < 0.2
    assert abs(found.quality.outside - 1) < 0.05

# %%
# A question that none of them answers is the sign: with conjugated data all numbers are
# the same, and the sky is turned by 180°.
# :doc:`/tutorials/4_imaging/10_ten_traps` makes this and nine other mistakes on
# purpose.
#
# To CARTA, and back to CASA
# --------------------------
#
# Two files, in a folder beside your data. The *image* is what CASA calls a model, in
# Jy/pixel. *Restored* is what a telescope with your beam would show of it, with the
# residuals added: in Jy/beam, to hold against the maps of others.

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


if seen.phase_centre is None or np.isnan(seen.frequency).any():
    print(
        "No FITS file is written: phase centre or frequency are not known. Add, as in"
    )
    print("seen = replace(seen, phase_centre=(83.0, -24.0))  # after read_visibilities")
else:
    for file in write_both(path.resolve().with_name(f"{path.stem}_page")):
        unit_of, place = fits.getheader(file)["BUNIT"], str(file)
        print(f"wrote {place.replace(folder.name, '…')}, in {unit_of}")

# %%
# Both open in CARTA. To calibrate on the image in CASA, hand it to ``importfits``, then
# to ``tclean`` as ``startmodel``, with ``niter=0`` and ``savemodel="modelcolumn"``. A
# measurement set needs no detour: this puts the model's visibilities into its column.

from firstlight.imaging import write_ms_column
from firstlight.imaging.nufft import visibilities


def hand_back(path):
    image = torch.from_numpy(found.model[None])
    model = visibilities(image, seen.uu.ravel(), seen.vv.ravel(), coords.cell_size)
    model = replace(seen, data=model.numpy().reshape(seen.data.shape))
    write_ms_column(path, model, "MODEL_DATA", **options)


# %%
# (``hand_back("my.ms")`` changes your set, so the page does not call it.)
#
# Measure
# -------
#
# What is one fit worth, beside reading and checking? An image with its errors is
# several dozens of them.

bench = Bench("whole-run", budget=0.5)
likelihood = likelihood_on(coords)
in_noise = torch.as_tensor(found.sky[None] / unit, dtype=torch.float32).to(device)
bench.time("read", partial(read_visibilities, **options), path)
bench.time("check", check_weights, seen)
bench.time("set-up", likelihood_on, coords, device=device)
bench.time("chi²", likelihood, in_noise, n=coords.npix**2, device=device)
bench.show()

# %%
# :doc:`/tutorials/4_imaging/05_faster` takes a fit apart.
#
# Where this stops being true
# ---------------------------
#
# - *A primary beam.* The fit is of the sky as your antennas see it: near the edge of
#   their view it is too faint. ``ExactLikelihood`` takes ``beam=``; ``image`` does not.
# - *More than total intensity of one small field.* Mosaics, polarization, wide fields:
#   :doc:`/scope` says who does it.
# - *A sky that changes with frequency.* All channels make one image here. Of a line,
#   make one for each channel, or :doc:`a cube </tutorials/4_imaging/06_many_channels>`.
# - *A source that fills the view.* What is wider than the shortest baseline sees is not
#   in the data, and no mask or error knows of it.
# - *Faint sources.* Below 5 σ in the dirty image nothing is found, and ``image`` says
#   so. Of what is little above, the outer parts are cut off by the mask.
# - *Positions.* UVFITS files do not tell ICRS from J2000: those of J2000 are some 20
#   milliarcseconds off. Measurement sets are right.
# - *Weights.* One factor for each spectral window mends the usual fault. Weights that
#   are wrong between antennas need CASA's ``statwt``.
#
# Exercise
# --------
#
# You have read columns of a measurement set by yourself: ``uvw`` in metres, (3, rows),
# ``frequency`` in Hz, (channels), and ``data`` with CASA's sign, (channels, rows). Give
# u and v in wavelengths, (channels, rows), and data that fit *our* sign.


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

told = "were right" if not np.isnan(report.worst) else "could not be checked"
told = f"needed a factor of {report.worst:.2f}" if report.wrong else told
print(f"1. Check the weights before you believe a χ²: these {told}.")
print(f"2. Light everywhere: {wide_flux:.3f} Jy;", end=" ")
print(f"where the data show a source: {found.flux:.3f} Jy.")
print("3. Residuals should be noise, in the source too: neither louder nor quieter.")
folder.cleanup()
