"""
Is RML better than CLEAN, on the same data?
===========================================

CLEAN made nearly every image of ALMA that you have seen. Here are both methods, on the
same visibilities of a sky that is known to the last digit: CASA's ``tclean``, run with
a mask, several scales and patience, and a fit with total variation. The answer has a
trap: whoever adds the residuals, as every published CLEAN image does, adds the same
noise to both.

**You will learn**

- to compare images of two methods at one beam, with and without residuals;
- what each is off by, over several seeds of the noise: in image, flux and profile;
- where the gain of a regularized fit is, and where it is none.

**Time:** 12 minutes. **Needs:** any computer. Not CASA: what it made is on record.
"""

# %%
# The same data
# -------------
#
# CASA's simulator made a measurement set: 43 antennas of ALMA's configuration C43-6 at
# 230 GHz, two hours, one field. The sky is a disk with rings, off the centre, and a
# companion. With CASA in an environment of its own, and a clone of this site, one
# command does all of it anew, from the set to both files that this page reads:
#
# .. code-block:: bash
#
#     pip install casatools casatasks casadata scipy
#     python benchmarks/casa/clean.py docs/_snippets
#
# The files are :download:`clean_by_casa.json </_snippets/clean_by_casa.json>`, numbers
# of every run, and :download:`clean_by_casa.npz </_snippets/clean_by_casa.npz>`, images
# of one. If you run this page outside of a clone, put them beside it.

import json
from pathlib import Path

import numpy as np


def recorded(name):
    """Find a file of the record: in the clone, or beside this page."""
    clone = Path(globals().get("__file__", "a/b/c")).resolve().parents[2]
    for place in (clone / "docs" / "_snippets" / name, Path(name)):
        if place.exists():
            return place
    raise FileNotFoundError(f"{name} is not here: put it beside this page")


record = json.loads(recorded("clean_by_casa.json").read_text())
with np.load(recorded("clean_by_casa.npz")) as file:
    kept = dict(file)

cell_size, npix, seeds = record["cell"], record["npix"], record["seeds"][:3]
versions = ", ".join(f"{name} {said}" for name, said in record["versions"].items())
print(f"{versions}; {record['date']}, {record['cores']} cores")
for name, said in record["tclean"].items():
    print(f"    {name}={said!r}")

# %%
# The set is large, but what is in it is not: u and v of each antenna, the sky, and the
# seeds of the noise. So the very same visibilities can be made here. (Two hands of
# polarization, each with its noise, make Stokes I.)

from firstlight.imaging import GridCoords, Ring
from firstlight.imaging.skies import sky_image, sky_visibilities

sky = [Ring(**ring) for ring in record["sky"]]
coords = GridCoords(cell_size, npix)
truth = sky_image(sky, cell_size, npix)  # Jy/arcsec²
flux = sum(ring.flux for ring in sky)

first, second = np.triu_indices(kept["uv"].shape[-1], 1)
u, v = (kept["uv"][..., second] - kept["uv"][..., first]).reshape(2, -1)
weight = np.full(u.size, record["noise"] ** -2)


def observed(seed):
    parts = np.random.default_rng(seed).standard_normal((2, u.size, 2))
    noise = np.sqrt(2) * record["noise"] * parts.view(complex)[..., 0]
    return sky_visibilities(sky, u, v) + noise.mean(axis=0)


print(f"{u.size:,} visibilities, {npix} × {npix} pixels of {cell_size} arcsec")
print(f"CASA's prediction of this sky differs by {record['casa_predicts_otherwise_by']:.1%}")

# %%
# That difference is the gridding of CASA's prediction, a witness that both speak of the
# same sky with the same signs. Both methods get data that were made in closed form.
#
# What CLEAN was allowed
# ----------------------
#
# What a careful user would do: Briggs' weights, three scales (a point, a beam, three
# beams), a mask of two circles drawn about what the dirty image shows, and three
# depths: to 3, to 2 and to 1 times the noise that ``tclean`` finds. The last is deeper
# than most people dare, and with this mask it is the best that CLEAN does here. So it
# is the one that is shown.
#
# Predict
# -------
#
# A CLEAN image is the model, blurred by the beam, plus what is left over. What is left
# over contains the noise of the data, whatever the method. Nobody who adds it can do
# better than the noise itself. How far off is that?

from firstlight.imaging import Beam, DirtyImager, convolve


def runs(robust, depth):
    chosen = {"robust": robust, "depth": depth}
    return [run for run in record["runs"] if chosen.items() <= run.items()]


def dirty(data, robust):
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
    return imager.get_dirty_image("briggs", robust=robust)[0][0]


def off(image, true):
    return np.linalg.norm(image - true) / np.linalg.norm(true)


depth, weightings = 1.0, (0.5, -0.5)
beams = {robust: Beam(*runs(robust, depth)[0]["beam"]) for robust in weightings}
at_beam = {robust: convolve(truth, coords, beam) for robust, beam in beams.items()}
noise_alone = {
    robust: off(
        dirty(observed(1) - sky_visibilities(sky, u, v), robust) + at_beam[robust],
        at_beam[robust],
    )
    for robust in weightings
}
for robust, beam in beams.items():
    print(f"robust {robust:+}: {beam.major:.3f} × {beam.minor:.3f} arcsec", end="; ")
    print(f"noise alone is {noise_alone[robust]:.1%} of the image")

# %%
# Your prediction: how far off are both methods with residuals, and without?
#
# The fit
# -------
#
# One function. It gives the image with the least :math:`\chi^2/2N` plus λ times total
# variation; λ is of the size of the slope that noise alone would give
# (:doc:`/tutorials/4_imaging/09_your_own_data` tells why). No mask, no scales, no
# threshold, no beam.

from functools import partial

import torch
from torch.nn.functional import softplus

from firstlight import Bench, best_device
from firstlight.imaging import ExactLikelihood, GriddedNet, fit, losses

device = best_device()
brightest = dirty(observed(1), 0.5).max() / beams[0.5].area  # a unit for the pixels
strength = coords.cell_size**2 * weight.sum() ** 0.5 / u.size
how = {"optimizer": "lbfgs", "lambdas": "exact", "max_iter": 300, "progress": False}
how |= {"tolerance": 1e-3, "check_every": 10}


def positive(parameter):
    return brightest * softplus(parameter, beta=300)


def start():
    dark = torch.full((1, npix, npix), -0.02)
    return GriddedNet(coords, base_cube=dark, pixel_mapping=positive).to(device)


def rml(data):
    """Give the image in Jy/arcsec², and the residuals, of visibilities at u and v."""
    seen = ExactLikelihood(u, v, data, weight, cell_size, npix, device=device)
    tv = {"tv": (strength, losses.TV_image)}
    found = fit(start(), seen, losses=tv, **how)
    assert found.why == "settled", found.message
    return found.image[0].double().cpu().numpy(), seen.residuals().cpu().numpy()[0]


# %%
# Each seed of the noise is a fit. Its seconds are of all cores together, as those of
# CLEAN are.

import time

images, residuals, seconds = {}, {}, {}
rml(observed(seeds[0]))  # once for nothing: the first fit on a computer compiles
for seed in seeds:
    used = time.process_time()
    images[seed], residuals[seed] = rml(observed(seed))
    seconds[seed] = time.process_time() - used


# %%
# Check
# -----
#
# That the data are those of this sky, and the weights right: the reduced
# :math:`\chi^2` of the truth is 1. That the record is of this sky, too: from its images
# follow the errors that CASA's Python computed, with another program.

spread = (2 * u.size) ** -0.5 * 2**0.5
for seed in seeds:
    rest = observed(seed) - sky_visibilities(sky, u, v)
    chi2 = (weight * np.abs(rest) ** 2).sum() / 2 / u.size
    print(f"seed {seed}: reduced chi² of the truth {chi2:.4f} ± {spread:.4f}")
    assert abs(chi2 - 1) < 5 * spread

clean, clean_left = {}, {}
for robust in weightings:
    run = runs(robust, depth)[0]
    unit = run["noise"] / record["shades"]  # pixels are kept as whole numbers
    clean[robust] = kept[f"model{robust}"] * unit
    clean_left[robust] = kept[f"left{robust}"] * unit
    again = off(clean[robust], at_beam[robust])
    assert abs(again / run["error_without_residuals"] - 1) < 0.02
    print(f"robust {robust:+}: error {again:.4f}, on record", end=" ")
    print(f"{run['error_without_residuals']:.4f}")

# %%
# The picture
# -----------
#
# Truth, CLEAN and fit at CLEAN's beam, without residuals, and one scale of colours. Below
# is what each left over, in units of the noise, by the same weights. Would you call
# either of them noise?

import matplotlib.pyplot as plt

from firstlight.imaging import plot_image

beam, true = beams[0.5], at_beam[0.5]
blurred = {seed: convolve(images[seed], coords, beam) for seed in seeds}
left = {seed: dirty(residuals[seed], 0.5) for seed in seeds}
noise = runs(0.5, depth)[0]["noise"]  # Jy/beam, of what CLEAN left outside of the mask
top = {"truth": true, "CLEAN": clean[0.5], "RML": blurred[1]}
bottom = {"CLEAN": clean_left[0.5] / noise, "RML": left[1] / noise}
scale = {"stretch": "asinh", "vmin": 0, "vmax": 1e3 * true.max(), "unit": None}


def bar(ax, arcsec=1):
    edge = 0.42 * npix * cell_size
    ax.plot([arcsec - edge, -edge], [-edge, -edge], color="whitesmoke", lw=2)
    ax.text(arcsec / 2 - edge, 0.15 - edge, f"{arcsec}″", color="whitesmoke", ha="center")


def bare(ax, title):
    ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])


# %%


# folded: The profile about the disk's centre, in rings that are round on the disk
ring = sky[0]
east, north = coords.sky_coordinates()
angle = np.radians(ring.position_angle)
x, y = east - ring.east, north - ring.north
along = x * np.sin(angle) + y * np.cos(angle)
across = x * np.cos(angle) - y * np.sin(angle)
radius = np.hypot(along, across / np.cos(np.radians(ring.inclination)))
steps = np.arange(0, 1.4, 0.05)


def profile(image):
    within = [(radius >= at) & (radius < at + 0.05) for at in steps]
    return 1e3 * np.array([image[ring].mean() for ring in within])


# %%

fig, axes = plt.subplots(2, 3, figsize=(7.2, 4.9), layout="constrained")
for ax, (title, image) in zip(axes[0], top.items(), strict=True):
    shown = plot_image(1e3 * image, coords, ax=ax, beam=beam, **scale)
    bare(ax, title)
bar(axes[0, 0])
fig.colorbar(shown, ax=axes[0], label="mJy/beam", ticks=[0, 1, 3, 10, 20], pad=0.01)
for ax, (title, image) in zip(axes[1], bottom.items(), strict=False):
    shown = plot_image(image, coords, ax=ax, stretch="linear", unit=None, cmap="PuOr",
                       vmin=-5, vmax=5)  # fmt: skip
    bare(ax, f"left over by {title}")
fig.colorbar(shown, ax=axes[1, :2], label="σ", ticks=[-5, 0, 5], pad=0.01)
looks = {"truth": "-", "CLEAN": "--", "RML": ":"}
for title, image in top.items():
    axes[1, 2].plot(steps + 0.025, profile(image), looks[title], label=title, lw=1.8)
axes[1, 2].set(xlabel="radius [″]", ylabel="mJy/beam", title="radial profile")
axes[1, 2].legend()
fig.set_label(
    "A disk with two rings and a companion: the truth, CLEAN and RML at the same beam "
    "can hardly be told apart. What they left over looks like noise, fainter within the "
    "mask where CLEAN went below it. The radial profiles lie on each other."
)
plt.show()

# %%
# At this beam you cannot tell. So count.
#
# The score
# ---------
#
# The error is the root of the sum of squares of image less truth, over the field,
# relative to the truth at the same beam. Each number is the median over seeds of the
# noise, then the range. *Robust +0.5* and *-0.5* are two beams, the second narrower.

inside = np.any([np.hypot(east - x, north - y) <= r for x, y, r in record["mask"]], 0)


def rml_row(seed, robust):
    true, beam = at_beam[robust], beams[robust]
    blurred = convolve(images[seed], coords, beam)
    return {
        "error_without_residuals": off(blurred, true),
        "error": off(blurred + dirty(residuals[seed], robust), true),
        "error_of_model": off(images[seed], truth),
        "flux": images[seed][inside].sum() * cell_size**2,
        "cpu_s": seconds[seed],
    }


methods = {f"CLEAN to {d:.0f}σ": partial(runs, depth=d) for d in (3.0, 2.0, 1.0)}
methods["RML"] = lambda robust: [rml_row(seed, robust) for seed in seeds]
score = {(name, r): rows(r) for name, rows in methods.items() for r in weightings}
score = {at: [r for r in rows if r.get("seed", 1) in seeds] for at, rows in score.items()}


def median(name, robust, what):
    return float(np.median([row[what] for row in score[name, robust]]))


def told(name, robust, what, form):
    values = [row[what] for row in score[name, robust]]
    low, high = (format(limit(values), form) for limit in (min, max))
    return f"{median(name, robust, what):{form}} ({low} to {high})"


# %%

columns = {"without residuals": "error_without_residuals", "with": "error"}
for robust in weightings:
    print(f"robust {robust:+}: error at this beam; noise alone {noise_alone[robust]:.1%}")
    print(f"{'':14}{'without residuals':26}with")
    for name in methods:
        cells = [told(name, robust, what, ".1%") for what in columns.values()]
        print(f"{name:14}{cells[0]:26}{cells[1]}")

# %%
# With residuals, all of them are a little off from the noise alone, RML as well: that
# is the trap. Compare a fit *without* residuals with a CLEAN image *with* them, and any
# method looks wonderful.

robust = weightings[0]
print(f"{'':14}{'flux, of ' + format(flux, '.3f') + ' Jy':26}", end="")
print(f"{'truth, not blurred':26}CPU seconds")
for name in methods:
    cells = [told(name, robust, what, form) for what, form in
             {"flux": ".3f", "error_of_model": ".0%", "cpu_s": ".1f"}.items()]  # fmt: skip
    print(f"{name:14}{cells[0]:26}{cells[1]:26}{cells[2]}")
