"""
Why not average the data first?
===============================

A night of observing gives you 299,796 visibilities, and your image has 32,400 pixels.
So why not sort them into the cells of a grid and keep one average for each cell? The
gridder of :term:`MPoL`, another program for images, does just that, and :doc:`our first
fit </tutorials/4_imaging/01_first_light>` began with it. The visibilities fill some
3,600 cells: 83 times fewer numbers, each with less noise. MPoL's own `tutorial`__ says
that the results of a fit "will be the same whether or not the likelihood function is
computed using the gridded or ungridded visibilities".

__ https://github.com/MPoL-dev/MPoL/blob/0d7a516afe6783c85eddf50a331b947f9ab9026e/docs/ci-tutorials/optimization.md

**Before you read on, write down a guess. Suppose that we compare the true sky with the
averages. If averaging does no harm, its reduced** :math:`\\chi^2` **will be 1. What
will it really be?** By the end you'll know how to see whether averages are safe, how
much time they save, and how to make better ones.

**Needs:** any computer, and :doc:`first light </tutorials/4_imaging/01_first_light>`.
"""

# folded: The same night as in First light
# sphinx_gallery_thumbnail_number = 1
import warnings
from functools import partial
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn.functional import softplus

from firstlight import best_device
from firstlight_imaging import DataAverager, ExactLikelihood, FourierCube, GridCoords
from firstlight_imaging import GriddedNet, fit, plot_image
from firstlight_imaging.coordinates import sky_to_packed
from firstlight_imaging.fitting.quality import residual_image
from firstlight_imaging.model import losses
from firstlight_imaging.simulate import Ring, observe, protoplanetary_disk, sky_image
from firstlight_imaging.simulate import sky_visibilities, uv_track, with_noise

device = best_device()
disk = protoplanetary_disk(flux=0.25, size=1.7)
seen = with_noise(observe(disk, uv_track()), 5e-3, seed=1)
u, v, weight, vis = seen.uu[0], seen.vv[0], seen.weight[0], seen.data[0]
coords = GridCoords(cell_size=0.03, npix=180)
npix, cell_size = coords.npix, coords.cell_size
truth = sky_image(disk, cell_size, npix)


def chi_squared(u, v, vis, weight, sky=disk):
    """Return the reduced chi² of the true sky, of averages or of single rows."""
    wrong = np.abs(vis - sky_visibilities(sky, u, v)) ** 2
    return float((weight * wrong).sum() / (2 * len(vis)))


def timed(prepare):
    """Return an image, and the fewest seconds of four runs, with the preparation."""
    seconds = []
    for _ in range(4):  # the first one compiles
        start = perf_counter()
        found = image_of(prepare(), strength=0.1)
        seconds.append(perf_counter() - start)
    return found, min(seconds)


# %%
# Try it
# ------
#
# An image of *n* pixels has a Fourier transform of *n* cells, so the grid is there
# already. We call the width of the image on the sky, in radians, the *field*. A cell is
# 1/field wide, so from one cell to the next, one more wave fits across the image. We
# average each cell with the weights, and add the weights up.

width = coords.du  # of a cell, in wavelengths


def average_cells(u, v, vis, weight, width):
    """Return the averages in cells: where they stand, what they are, their weights."""
    cells = np.round(np.stack([u, v]) / width)
    (at_u, at_v), cell = np.unique(cells, axis=1, return_inverse=True)
    cell = cell.ravel()
    total = np.bincount(cell, weight)
    real, imag = (np.bincount(cell, weight * x) / total for x in (vis.real, vis.imag))
    return at_u * width, at_v * width, real + 1j * imag, total


averages = average_cells(u, v, vis, weight, width)
print(f"{len(vis):,} visibilities in {len(averages[0]):,} cells")
print(f"reduced chi² of the truth, single rows: {chi_squared(u, v, vis, weight):.3f}")
print(f"reduced chi² of the truth, averages:    {chi_squared(*averages):.1f}")

# %%
# Seventeen! Compared with the single visibilities, one row each, the true sky fits.
# Compared with the averages, it looks impossible.
#
# Why
# ---
#
# Let's look into the cell that is worst off, in the figure at the top of the page. Each
# dot is a row that was averaged there, and the colours are the true visibility. The
# average of the dots is compared with the colour at the cross, in the centre.

# figure
at_u, at_v, average_there, total = averages
there = sky_visibilities(disk, at_u, at_v)  # at the centres
in_sigma = np.abs(average_there - there) * np.sqrt(total)
worst = int(np.argmax(in_sigma))
middle = at_u[worst], at_v[worst]
away = np.stack([u - middle[0], v - middle[1]]) / width
inside = np.abs(away).max(axis=0) < 0.5
lines = np.linspace(-0.5, 0.5, 60)
east, north = np.meshgrid(middle[0] + lines * width, middle[1] + lines * width)
smooth = sky_visibilities(disk, east.ravel(), north.ravel()).reshape(east.shape)
fig, ax = plt.subplots(figsize=(5.2, 4), layout="constrained")
shown = ax.pcolormesh(lines, lines, 1e3 * smooth.real, cmap="PuOr")
ax.plot(*away[:, inside], "k.", markersize=3)
ax.plot(0, 0, "k+", markersize=14)
ax.set(xlabel="u, in cells", ylabel="v, in cells", aspect="equal")
fig.colorbar(shown, label="real part of the true visibility, mJy")
fig.suptitle("One cell: its rows, its centre, and the true visibility")
fig.set_label(
    "One cell of the Fourier plane: the true visibility changes strongly from side to "
    "side; the measured ones lie along a few arcs, and a cross marks the centre."
)
plt.show()

# %%

print(f"average of {inside.sum()} rows:  {1e3 * average_there[worst]:.1f} mJy")
print(f"truth at the centre:  {1e3 * there[worst]:.1f} mJy")
print(f"noise of the average: {1e3 * total[worst] ** -0.5:.2f} mJy")

# %%
# The average is right, for the places where these rows lie. But we compare it with the
# model *at the centre of the cell*, and there the visibility is different. Think of
# asking a hundred people in a county for the temperature, and taking the average for
# that of the capital. If they all live in the mountains, you're wrong, and the more you
# ask, the surer you become.
#
# How quickly does a visibility change? Light from a place that is an angle *x* east of
# the middle of the field contributes a wave, :math:`e^{-2\pi i u x}`. From one side of
# a cell to the other, *u* changes by 1/field. So the wave turns by :math:`2\pi
# x/\text{field}`: for a source in the middle by nothing, and for one at the edge of the
# field by half a turn. And our disk fills the field.
#
# Predict the remedy
# ------------------
#
# If the field is twice as wide, with pixels of the same size, then the cells are half
# as wide, and waves turn half as far in each. **The** :math:`\chi^2` **of the truth was
# 17, which is 16 too much. How much of that will be left in a field twice as wide?**
#
# The error of each average is halved, so its square is a quarter. There are also fewer
# rows in each cell: half as many if they lie along a line, and a quarter if they fill
# the cell. So each average counts for less. Together that makes 8 to 16 times less, so
# 1 to 2 should be left. ``DataAverager`` does this averaging in the package. It
# estimates from neighbouring cells what averaging adds to :math:`\chi^2`, and above 0.1
# it warns you.

of_truth, told = {}, {}
for side in (npix, 2 * npix, 4 * npix):
    grid = GridCoords(cell_size, side)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        averager = DataAverager(grid, u, v, weight, vis.real, vis.imag)
        dataset = averager.to_pytorch_dataset()
    wide = torch.from_numpy(sky_image(disk, cell_size, side))[None]
    model = FourierCube(grid)(sky_to_packed(wide))
    of_truth[side] = losses.r_chi_squared_gridded(model, dataset).item()
    told[side] = [str(warning.message) for warning in said]
    warned = "with a warning" if told[side] else "without a warning"
    print(f"{side:4} pixels: chi² of the truth {of_truth[side]:5.2f}, {warned}")
print("the first warning:", *told[npix][0].split(". "), sep="\n  ")

# %%
# In a field twice as wide, the truth has a :math:`\chi^2` of 2.80. So 1.80 is left, as
# predicted. In one four times as wide, averages are nearly right. But an image of 720 ×
# 720 has sixteen times as many pixels.
#
# What do you gain, and what do you lose?
# ---------------------------------------
#
# Let's fit an image twice, with the same regularizer: once to the averages in the
# narrow field, and once to every single visibility. ``ExactLikelihood`` has no cells,
# so the narrow field is wide enough for it, and :doc:`one pass over the visibilities
# </tutorials/4_imaging/10_off_the_grid>` is enough for all steps. The regularizer's
# strength is 0.1 per cell or, with 83 rows in a cell, the 0.0012 per row of first
# light. **How much time do averages save?**


def averages_of():
    averager = DataAverager(coords, u, v, weight, vis.real, vis.imag)
    data = averager.to_pytorch_dataset(check_visibility_scatter=False)
    return data.to(torch.float32).to(device)


def every_row():
    return ExactLikelihood(u, v, vis, weight, cell_size, npix, device=device)


def image_of(data, strength):
    faint = partial(softplus, beta=100)
    dark = torch.zeros(1, npix, npix)
    net = GriddedNet(coords, base_cube=dark, pixel_mapping=faint).to(device)
    smooth = {"tv": (strength, partial(losses.TV_image, epsilon=1e-7))}
    how = {"optimizer": "lbfgs", "max_iter": 600, "progress": False}
    return fit(net, data, losses=smooth, **how)


# %%

spoiled, quick = timed(averages_of)
good, slow = timed(every_row)
exact = every_row()
for name, found in {"averages": spoiled, "every row": good}.items():
    image = found.image.cpu()[0].double().numpy()
    off = np.linalg.norm(image - truth) / np.linalg.norm(truth)
    left = residual_image(found.image, exact)[0]
    print(f"{name:9}: chi² {found.terms['chi2']:5.2f}, off by {off:5.1%}", end="")
    print(f", leaves {np.abs(left).max():3.0f} σ, fit says {found.status}")
print(f"time: {quick:.2f} s for averages, {slow:.2f} s for every row")

# %%

# figure
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.9), layout="constrained")
images = {
    "truth": truth,
    "averages: error": spoiled.image.cpu()[0].double().numpy() - truth,
    "every row: error": good.image.cpu()[0].double().numpy() - truth,
}
wrong = {"vmin": -0.02, "vmax": 0.02, "stretch": "linear", "cmap": "PuOr"}
for ax, (name, image) in zip(axes, images.items(), strict=True):
    look = wrong if "error" in name else {"vmin": 0, "vmax": 0.4, "stretch": "sqrt"}
    drawn = plot_image(image, coords, ax=ax, unit=None, **look)
    ax.set_title(name)
    ax.label_outer()
    if name == "truth":
        fig.colorbar(
            drawn, ax=ax, label="Jy/arcsec²", location="bottom", ticks=[0, 0.1, 0.4]
        )
fig.colorbar(
    drawn,
    ax=axes[1:],
    label="error, Jy/arcsec²",
    location="bottom",
    shrink=0.6,
    ticks=[-0.02, 0, 0.02],
)
fig.suptitle("The truth, and what two fits get wrong")
fig.set_label(
    "The truth, a disk with two rings; the errors of the fit to averages, strong and "
    "all over the disk; and those of the fit to every visibility, mostly in the core."
)
plt.show()

# %%
# On two CPU cores (tab *AMD EPYC*), there's hardly a second to save with 300,000 rows.
# ``ExactLikelihood`` goes through the rows once, which takes a fraction of a second.
# After that, its steps take about as long as those with averages. On the H100 both fits
# took longer than on those two cores, because :doc:`so small an image
# </tutorials/4_imaging/08_faster>` leaves a GPU waiting for Python.
#
# .. holds::
#
#    said = r"time: ([\d.]+) s for averages, ([\d.]+) s for every row"
#    pairs = zip(printed(said), printed(said, "cpu-amd-epyc"), strict=True)
#    all(here > cores for here, cores in pairs)
#
# And you lose the image. Compared with the averages, the truth has a :math:`\chi^2` of
# 17, and the fitted image less than half of that. *The fit has bent the sky until it
# agrees better with wrong data.* More steps don't help: the fit had stopped by itself,
# because the loss didn't fall any more. It calls itself "not converged" because its
# :math:`\chi^2` is still far from 1.
#
# When do averages do little harm?
# --------------------------------
#
# Surely when the source is small? Here's one a tenth as wide as the field. We put it in
# the middle and then farther east, and observe it with our noise and with ten times as
# much. **What is the truth's** :math:`\chi^2` **now?**

for east in (0, 1.2, 2.4):
    blob = [Ring(0.25, radius=0, width=0.2, east=east, north=0)]
    print(f"{east:3.1f}″ from the middle: chi² of the truth", end="")
    for noise in (5e-3, 5e-2):
        night = with_noise(observe(blob, uv_track()), noise, seed=1)
        rows = night.uu[0], night.vv[0], night.data[0], night.weight[0]
        chi2 = chi_squared(*average_cells(*rows, width), sky=blob)
        print(f" {chi2:7.2f} (noise {1e3 * noise:.0f} mJy)", end="")
    print()

# %%
# Small isn't safe: near the edge of the field, the small source does far worse than our
# big disk. More noise makes averages safer, because an error that's smaller than the
# noise does little harm.
#
# But for a source that is small *and* away from the middle there's a remedy of one
# line. If you turn each visibility's phase by a suitable angle, the whole sky shifts,
# and you can centre the source before you average. It's called moving the :term:`phase
# centre`.

radians = np.radians(2.4 / 3600)
centred = [Ring(0.25, radius=0, width=0.2, east=0, north=0)]
night = with_noise(observe(blob, uv_track()), 5e-3, seed=1)  # at 2.4″, little noise
turned = night.data[0] * np.exp(2j * np.pi * night.uu[0] * radians)
moved = average_cells(night.uu[0], night.vv[0], turned, night.weight[0], width)
print(f"moved to the middle: chi² of the truth {chi_squared(*moved, sky=centred):.2f}")

# %%
# The truth has a :math:`\chi^2` of 5.70 now, instead of 1,467, as good as if the
# telescope had been pointed there.
#
# So there's no rule such as "a source that fills less than a tenth of the field is
# safe". See whether ``DataAverager`` warns you. Or fit an image to every row, and
# compute its :math:`\chi^2` twice: with the rows, and with the averages. CASA's
# ``tclean`` is safe from all this, because it computes its model at the *u* and *v* of
# every single visibility.
#
# Your turn
# ---------
#
# Nothing forces us to compare at the centre of a cell: we could note *where the rows of
# a cell lie on average*, and compare there. Write ``average``, which takes and returns
# what ``average_cells`` does. The values stay as they are, and each comes with the
# weighted mean of *u* and *v* in its cell.


def average(u, v, vis, weight, width): ...


# %%
# Put your lines where the dots are, and run ``firstlight try 06_averaging.py``.


# folded: The check
def check(answer):
    try:
        return judge(answer)
    except Exception as error:
        return f"average raised {type(error).__name__}: {error}"


def judge(answer):
    rng = np.random.default_rng(seed=5)
    place = rng.uniform(-3, 3, size=(2, 400))
    count, value = rng.uniform(1, 4, 400), place[0] + 1j * place[1]
    got = answer(*place, value, count, 1.0)
    if got is None:
        return "average returns nothing yet."
    at_u, at_v, mean, total = got = [np.asarray(one) for one in got]
    filled = np.unique(np.round(place), axis=1).shape[1]
    if any(one.shape != (filled,) for one in got):
        shapes = ", ".join(str(one.shape) for one in got)
        return f"there are {filled} cells with rows; your arrays have shapes {shapes}."
    if not np.isclose(total.sum(), count.sum()):
        return "the weight of an average is the sum of the weights in its cell."
    if not np.isclose((total * mean).sum(), (count * value).sum()):
        return "a visibility of twice the weight counts twice in the average."
    off = np.abs(at_u + 1j * at_v - mean).max()  # since here V = u + iv
    if not off < 1e-9:
        told = "u and v should be the weighted means of those in the cell"
        return f"{told}: yours are off by up to {off:.2f} cells."
    narrow, wide = (chi_squared(*answer(u, v, vis, weight, width / k)) for k in (1, 2))
    told = f"Right: the truth has a reduced chi² of {narrow:.2f} now, instead of 17"
    return f"{told}, and of {wide:.2f} in a field twice as wide."


# %%

print(check(average))

# %%
# Comparing at the mean place mends the slope of the visibility across a cell, but not
# its curvature. With our solution's averages, in no more cells than before, the truth
# has a :math:`\chi^2` of 2.00 in the narrow field, where it was 17. In a field twice as
# wide it has 1.03, where comparing at the centres gave 2.80.
#
# Three lines to remember
# -----------------------

# remember
narrow, broad = of_truth[npix], of_truth[4 * npix]
print("1. An average in a cell is right for where its rows lie. We compare it with the")
print(f"   centre, and the truth has a χ² of {narrow:.0f} in a field that it fills.")
print(f"   In one four times as wide it has {broad:.2f}, for 16 times the pixels. Or")
print("   compare each average with the model where its rows lie.")
print(
    f"2. An exact likelihood needs no averages. It took {slow:.1f} s for an image here,"
)
print(f"   and averages {quick:.1f} s.")
print("3. A fit to wrong data bends the sky until its χ² is better than the truth's.")

# %%
# Solution
# --------

# solution


def average_solution(u, v, vis, weight, width):
    cells = np.round(np.stack([u, v]) / width)
    cell = np.unique(cells, axis=1, return_inverse=True)[1].ravel()
    total = np.bincount(cell, weight)

    def mean(x):
        return np.bincount(cell, weight * x) / total

    return mean(u), mean(v), mean(vis.real) + 1j * mean(vis.imag), total


print(f"Our solution: {check(average_solution)}")
