"""
How strong should a regularizer be?
===================================

A fit makes small the misfit to the data, plus :math:`\\lambda` times what you dislike
in an image. `An early tutorial of MPoL`__ takes :math:`\\lambda = 10^{-4}`, twice, from
"a set of parameters that resulted in a strong cross validation score for this
particular dataset". Yours is another. Here you look for your own :math:`\\lambda`, with
dozens of fits at once. And as the truth is known here, you judge the judge.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to cross-validate: leave data out, fit, and see how well they are predicted;
- to run all fits of a sweep as one, and to predict what that saves;
- what too little and too much of a prior do to flux and detail;
- how far to trust the minimum of a score.

**Time:** 20 minutes. **Needs:** any computer, and
:doc:`/tutorials/4_imaging/03_first_light`. With a GPU, the page fits on it.
"""

# %%
# Predict
# -------
#
# *Cross-validation* deals the data into parts, called *folds*. Leave one fold out, fit
# the rest, and ask how well the image predicts what it has not seen. Do so for each
# fold and each :math:`\lambda`. Six :math:`\lambda`, two ways to deal four folds, and a
# fit to all of the data make 54 fits: small ones, of 48 × 48 pixels. Each step starts
# about 120 kernels, as in :doc:`/tutorials/4_imaging/03_first_light`. No fit needs
# another. So stack them, 54 images in one tensor, and let each kernel work on all. What
# does that cost a GPU? As a model, a kernel moves three numbers a pixel, on an H100:

from firstlight.measure.specs import spec

npix, fits, steps, kernels = 48, 54, 200, 120
for at_once in (1, fits):
    moved = kernels * 12 * at_once * npix**2  # bytes, in a step
    least = 1e6 * moved / spec("H100 SXM", "bandwidth")
    starts = fits // at_once * steps * kernels
    print(f"{at_once:>2} at once: {starts:>9,} starts; a step's bytes: {least:.1f} µs")

# %%
# To *start* 120 kernels takes a GPU longer than either. So the prediction is: *54 fits
# at once cost a GPU hardly more than one.* A CPU pays for each call, too, and 2304
# pixels are little work: 54 at once should cost far less than 54 times as much. Guess
# once more: what is the best :math:`\lambda` for the data below?
#
# Observe
# -------
#
# A disk of 0.25 Jy, in the middle of the field. The noise is high, so that there is
# something to choose. Averages in cells can be wrong, as
# :doc:`/tutorials/4_imaging/03_first_light` found, so first ask how well the truth fits
# them. Its :math:`\chi^2` (here always the reduced one) should be 1.

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.imaging import DataAverager, ExactLikelihood, FourierCube, GridCoords
from firstlight.imaging import GriddedNet, fit, losses, plot_image, split_cells
from firstlight.imaging.coordinates import sky_to_packed
from firstlight.imaging.simulation import observe, uv_track, with_noise
from firstlight.imaging.skies import protoplanetary_disk, sky_image

device = best_device()
threads = torch.get_num_threads()
torch.set_num_threads(1)  # more gain next to nothing on tensors as small as here
coords = GridCoords(cell_size=0.05, npix=npix)
disk = protoplanetary_disk(flux=0.25, size=0.5)
seen = with_noise(observe(disk, uv_track(n_times=33)), 0.1, seed=1)
truth = torch.from_numpy(sky_image(disk, coords.cell_size, npix))

arrays = (seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag)
averages = DataAverager(coords, *arrays).to_pytorch_dataset()
cube = FourierCube(coords)(sky_to_packed(truth[None]))
of_truth = losses.r_chi_squared_gridded(cube, averages).item()
print(f"{seen.data.size:,} visibilities in {len(averages.index):,} cells")
print(f"chi² of the truth: {of_truth:.3f} ± {len(averages.index) ** -0.5:.3f}")

# %%
# Leave something out
# -------------------
#
# Which part? *Random cells* are easy to predict: their neighbours are still there. A
# *dartboard* leaves out whole fields of the plane, and so asks whether the image can
# fill a gap. A cell and its mirror image are one measurement, and always go together.

from firstlight.imaging.crossval import split_dartboard, stack, stack_folds

k = 4
averages = averages.to(torch.float32)
cells = stack_folds(averages, k, seed=1)
darts = stack_folds(averages, k, seed=1, split=split_dartboard)
train, test = (stack([cells[i], darts[i], averages]) for i in (0, 1))

# %%
# All at once
# -----------
#
# ``stack`` puts data sets one after the other, as channels: folds and all data, and
# that for each :math:`\lambda`. With ``separate=True``, ``fit`` takes each channel for
# a fit of its own, with its own :math:`\lambda`. Adam's rate, 0.5, is the tutorial's.


def sweep(data, terms, steps, on=device, model=None):
    model = model or GriddedNet(coords, nchan=data.nchan).to(on)
    options = {"separate": True, "max_iter": steps, "tolerance": None}
    found = fit(model, data.to(on), losses=terms, **options, progress=False)
    return found, model


# %%
# The *score* of a fold is the :math:`\chi^2` of its cells, which the fit has not seen:
# a mean over cells. Keep what each cell adds to it. You will need that.

tests = stack([test] * 6)
channel = (tests.index // npix**2).numpy()
far = np.hypot(*(x.ravel() for x in coords.packed_uv())) / coords.du
far = far[tests.index % npix**2]  # from the middle of the plane, in cells


def chi_by_cell(model):
    with torch.no_grad():
        rest = tests.vis_indexed - tests(model().cpu())
    return (tests.weight_indexed * rest.abs() ** 2 / 2).double().numpy()


def score(by_cell, use=slice(None)):
    """Take means over cells: a row for each λ, a column for each fold."""
    sums = np.bincount(channel[use], by_cell[use])
    return (sums / np.bincount(channel[use])).reshape(6, -1)


# %%
# Check
# -----
#
# Is a fit among others the fit that it is alone? Three folds of an odd number of cells,
# two :math:`\lambda`, float64 on the CPU: at once, and as six fits one by one.

folds = [fold.double() for fold, _ in split_cells(averages, 3, seed=2)]


def in_float64(data, strengths):
    net = GriddedNet(coords, nchan=data.nchan).double()
    terms = {"tv": (strengths, losses.TV_image)}
    return sweep(data, terms, 15, "cpu", net)[0].image


at_once = in_float64(stack(folds * 2), np.repeat([0.01, 0.3], 3))
alone = [in_float64(fold, [strength]) for strength in (0.01, 0.3) for fold in folds]
error = float((at_once - torch.cat(alone)).abs().max() / at_once.max())
assert error < 1e-10, error
print(f"at once and one by one: relative difference {error:.0e}")

# %%
# Now the sweep. The prior is *total variation* (TV), the sum of all steps from pixel to
# pixel. Stop half-way, and look at the score: a sweep that has not arrived compares how
# fast fits are, not how good.

lambdas = 10.0 ** np.arange(-4, -1, 0.5)
everything = stack([train] * 6)
tv = {"tv": (np.repeat(lambdas, train.nchan), losses.TV_image)}

_, model = sweep(everything, tv, steps // 2)
half_way = score(chi_by_cell(model))
found, _ = sweep(everything, tv, steps // 2, model=model)
by_cell = chi_by_cell(model)
whole = score(by_cell)
full = found.image[2 * k :: train.nchan].cpu().double()  # the fits to all of the data


def fidelity(images):
    return ((images - truth).norm(dim=(-2, -1)) / truth.norm()).numpy()


def flux(images):
    return (images.sum((-2, -1)) * coords.cell_size**2).numpy()


columns = {"half": half_way[:, :k].mean(1), "cells": whole[:, :k].mean(1)}
columns |= {"darts": whole[:, k:-1].mean(1), "all": whole[:, -1]}
columns |= {"Jy": flux(full), "error": fidelity(full)}
print("    λ" + "".join(f"{name:>6}" for name in columns))
for i, strength in enumerate(lambdas):
    print(f"{strength:.0e}" + "".join(f"{x[i]:6.2f}" for x in columns.values()))

# %%
# The first three columns are scores, means of four folds: random cells half-way, random
# cells at the end, the dartboard. The others belong to the fit to all of the data: its
# :math:`\chi^2`, its flux, and its true error, which nobody knows of real data.
#
# - *Has it arrived?* With a strong prior the score stood still from half-way on. With a
#   weak one it climbs, as the fit goes on to fit noise: it says when you stopped.
# - Random cells are best predicted at :math:`\lambda = 0.01`, and there :math:`\chi^2`
#   of all data is nearly 1. Two rules agree. It would be easy to stop here.
# - But the image is better with a *weaker* prior. And the dartboard is no help.
#
# Where does the score come from?
# -------------------------------
#
# Look at its parts: rings around the middle of the plane, from so many to so many
# cells away from it, all folds together, for the weakest prior and for 0.01.

fold, row = channel % train.nchan, channel // train.nchan
parts = [(fold // k == split) & (row == i) for split in (0, 1) for i in (0, 4)]
print("               random cells   dartboard")
print("   ring  share   weak  0.01   weak  0.01")
for low, high in ((0, 2), (2, 4), (4, 8), (8, 16), (16, 34)):
    ring = (far >= low) & (far < high)
    means = [by_cell[ring & part].mean() for part in parts]
    row_of = "{:7.0%}{:7.1f}{:6.1f}{:7.1f}{:6.1f}".format(ring.mean(), *means)
    print(f"{low:>2} – {high:<2}{row_of}")

# %%
# A few cells in the middle make the score. There lies the flux itself, tens of times
# above the noise. To predict it is to guess the flux from the rest: a little off is
# many times the noise. That is a fair question, but *another* one than how much noise
# to let into an image, and one fold decides it. So ask the question that you have. The
# fits stay. Score the cells from four outwards.

outer = score(by_cell, far >= 4)
mean = outer[:, : 2 * k].mean(1)
best, least = mean.argmin(), fidelity(full).argmin()

# %%

BLUE, ORANGE, PURPLE, GREY = "#2e7ab0", "#d9762b", "#8e5bb5", "#8a9199"
looks = {"random cells": ("o-", BLUE, slice(k))}
looks["dartboard"] = ("s--", ORANGE, slice(k, -1))
fig, axes = plt.subplots(3, 1, figsize=(5.6, 6.4), sharex=True, layout="constrained")
for ax, folds in zip(axes, (whole, outer), strict=False):
    for name, (mark, colour, part) in looks.items():
        bars = folds[:, part].std(1, ddof=1) / k**0.5
        at = lambdas * (1.06 if name == "dartboard" else 1)
        look = {"color": colour, "capsize": 3, "label": name}
        ax.errorbar(at, folds[:, part].mean(1), bars, fmt=mark, **look)
    ax.plot(lambdas, folds[:, -1], "d:", color=GREY, label="all data, none left out")
    ax.axhline(1, color=GREY, lw=1)
axes[0].set(yscale="log", ylim=(0.7, 30), ylabel="score, all cells")
axes[0].set_yticks([1, 3, 10, 30], ["1", "3", "10", "30"])
axes[0].legend(frameon=False)
axes[1].set(ylim=(0.75, 1.4), ylabel="score, outer cells")
axes[2].plot(lambdas, fidelity(full), "o-", color=PURPLE)
axes[2].set(xscale="log", xlabel="λ of total variation", ylabel="true error")
fig.set_label(
    "Scores against λ: of all cells, large error bars, and splits disagree; of outer "
    f"cells, small bars, splits agree, lowest at {lambdas[best]:.4f}, flat up to 0.01. "
    f"Below, the true error, least at {lambdas[least]:.4f}."
)
plt.show()

# %%
# Now both splits agree, the bars are short, and the score is lowest where the image is
# good. But it is flat. From 0.003 to 0.01 it changes by less than a bar, so that other
# noise may move the minimum: set another ``seed`` above, and look. Cross-validation
# finds :math:`\lambda` *to a factor of three*. The true error is flat there, too.
#
# The grey line is no help: the misfit to data that were fitted is smallest with no
# prior at all. Nor is :math:`\chi^2 = 1` a goal. The truth has it, but a fit takes some
# of the noise in, and should be *below* 1. Look at the images:

fig, axes = plt.subplots(2, 2, figsize=(5.6, 4.8), layout="constrained")
shown = {"truth": truth, "weak": full[0], "chosen": full[best], "strong": full[-1]}
for ax, (name, image) in zip(axes.flat, shown.items(), strict=True):
    drawn = plot_image(image, coords, ax=ax, vmin=0, vmax=3, stretch="sqrt", unit=None)
    ax.set_title(name)
fig.colorbar(drawn, ax=axes, label="Jy/arcsec²", shrink=0.9)
fig.set_label(
    "Truth and three fits. Weak: specks all over, and broken rings. Chosen: little "
    "beside the disk. Strong: flat steps with sharp edges, and no bright core."
)
plt.show()

# %%
# What does a λ mean?
# -------------------
#
# Alone, nothing. It multiplies a sum over pixels that has units. Here are four such
# sums: of the truth, how they change with half the pixel width, and times 0.0001.
# *Entropy* is the distance from a faint even image, *TSV* the sum of squared steps.

PRIORS = {"sparsity": losses.sparsity, "tv": losses.TV_image, "tsv": losses.TSV}
PRIORS["entropy"] = lambda sky: losses.entropy(sky, prior=0.01, tot_flux=100)
fine = torch.from_numpy(sky_image(disk, coords.cell_size / 2, 2 * npix))
of_true = {name: prior(truth[None]).item() for name, prior in PRIORS.items()}
print("          truth   half   price")
for name, prior in PRIORS.items():
    ratio, price = prior(fine[None]).item() / of_true[name], 1e-4 * of_true[name]
    print(f"{name:>8}{of_true[name]:7.1f}  × {ratio:.1f}{price:8.4f}")

# %%
# What means something is the last column, the *price*: :math:`\lambda` times the prior
# of a good image, beside a :math:`\chi^2` of about 1. A price carries over, roughly, to
# other units, pixels and priors, but not to other noise. And :math:`\chi^2` is divided
# by the number :math:`N` of cells or visibilities: the same prior at another :math:`N`
# has the same :math:`\lambda N`.
#
# What each prior does to the flux
# --------------------------------
#
# All four at the same prices. One sweep again: each channel has all priors, and all but
# one of them with :math:`\lambda = 0`. Two more channels ask what the tutorial's
# :math:`\lambda` would do here: one has its two priors, one has none.

others, prices = ("sparsity", "entropy", "tsv"), lambdas * of_true["tv"]
strengths = np.zeros((4, 20))
for i, name in enumerate(others):
    strengths[i, 6 * i : 6 * i + 6] = prices / of_true[name]
strengths[[0, 3], 18] = 1e-4
names = (*others, "tv")
terms = {name: (strengths[i], PRIORS[name]) for i, name in enumerate(names)}
many = sweep(stack([averages] * 20), terms, steps)[0].image.cpu().double()
images = dict(zip(others, many[:18].split(6), strict=True)) | {"tv": full}
for i, name in ((18, "tutorial's"), (19, "none")):
    off, jansky = fidelity(many)[i], flux(many)[i]
    print(f"{name:>10}: error {off:.3f}, {jansky:.3f} Jy")

# %%
# For these data, the tutorial's :math:`\lambda` is next to none: its price is low.

fig, axes = plt.subplots(2, 1, figsize=(5.6, 5.2), sharex=True, layout="constrained")
marks = {"sparsity": ("o-", BLUE), "entropy": ("v--", PURPLE)}
marks |= {"tv": ("s-.", ORANGE), "tsv": ("^:", "#2f9e6e")}
for name, (mark, colour) in marks.items():
    axes[0].plot(prices, flux(images[name]), mark, color=colour, label=name)
    axes[1].plot(prices, images[name].amax((1, 2)), mark, color=colour)
for ax, true in zip(axes, (0.25, float(truth.max())), strict=True):
    ax.axhline(true, color=GREY, lw=3, zorder=0, label="truth")
axes[0].set(ylabel="flux in Jy", ylim=(0, 0.33))
axes[1].set(ylabel="peak in Jy/arcsec²", xscale="log", xlabel="price: λ times prior")
axes[0].legend(frameon=False, ncols=2)
sparse, smooth = (images[name][-1] for name in ("sparsity", "tsv"))
fig.set_label(
    f"Flux and peak against price, of four priors. Cheap ones have {flux(full)[0]:.2f} "
    f"Jy, the truth 0.25. Dear ones: sparsity {flux(sparse):.2f} Jy and all of the "
    f"peak, TSV {flux(smooth):.2f} Jy and {smooth.max() / truth.max():.0%} of the peak."
)
plt.show()

# %%
# *Too little* of any prior adds flux: pixels cannot be negative, so the noise that they
# take in does not cancel. *Too much* takes what its sum counts. Sparsity takes flux,
# and leaves the peak. TSV leaves the flux, and takes the peak, that is, resolution. A
# right flux proves little: three of the four have a price for it, and other images.
#
# The final fit
# -------------
#
# Cells can be left out. But the image need not come from their averages. For a fit to
# all visibilities, ``fit`` converts :math:`\lambda`, by the rule above.

arrays = (seen.uu, seen.vv, seen.data, seen.weight)
likelihood = ExactLikelihood(*arrays, coords.cell_size, npix, device=device)
net, terms = GriddedNet(coords).to(device), {"tv": (lambdas[best], losses.TV_image)}
final = fit(net, likelihood, losses=terms, max_iter=steps, progress=False)
off = fidelity(final.image.cpu().double())[0]
print(final.notes[0], f"\nError {off:.3f}; to averages: {fidelity(full)[best]:.3f}")

# %%
# Measure
# -------
#
# What did it save? ``bench`` times ten steps, set-up included, of 54 fits at once, of
# six and of one: on one core of the CPU, and on a GPU if you have one.

bench = Bench("fits-at-once", budget=1.8)
for on in dict.fromkeys(["cpu", str(device)]):
    for count in (fits, 6, 1):
        data = stack([averages.cpu()] * count)
        terms = {"tv": (np.full(count, 0.01), losses.TV_image)}
        name = f"{count} at once, {'CPU' if on == 'cpu' else 'GPU'}"
        bench.time(name, sweep, data, terms, 10, on, n=count, device=on)
bench.show()

# %%
# As a model, :math:`n` fits at once take :math:`a + b n`, with :math:`a` for the calls,
# :math:`b` for the work of a fit. One and 54 give both numbers. Are they right for six?

kind = "CPU" if device.type == "cpu" else "GPU"
one, six, all_ = (bench[f"{n} at once, {kind}"].median for n in (1, 6, fits))
work = (all_ - one) / (fits - 1)
print(f"{kind}: one by one, 54 fits take {fits * one / all_:.1f} times as long.")
print(f"Calls are {1 - work / one:.0%} of a fit that runs alone. Six at once should")
print(f"take {one + 5 * work:.3f} s, and took {six:.3f} s.")
torch.set_num_threads(threads)  # as it was
bench.plot()

# %%
# Even on a CPU the calls are nearly all, and to make them once is all that you gain.
# Several processes with a fit in each would use the other cores. On the newest GPU on
# record one fit takes :timing:`fits-at-once median "1 at once, GPU" @gpu`, and 54 at
# once take :timing:`fits-at-once median "54 at once, GPU" @gpu`.
#
# Where this stops being true
# ---------------------------
#
# - *Large images.* Where a step is more work than calls, fits at once gain nothing, and
#   memory ends it: 54 fits need 54 times as much.
# - *L-BFGS* makes one step for the whole tensor: fits at once are not as if alone.
# - *Wrong weights.* Scores still compare, but none is 1. Check weights first.
# - *Wrong averages.* A bias that a fold shares with the rest is predicted well.
#
# Exercise
# --------
#
# A score is flat, so a common rule takes *the strongest λ whose mean score is at most
# one standard error above the best mean*: the standard error of that best mean. Write
# it. ``scores`` has a row for each λ and a column for each fold. A fit that failed has
# the score NaN, and its λ does not count.


def strongest(lambdas, scores): ...


# %%
# ``check`` tries it on scores that a wrong rule gets wrong.


def check(answer):
    grid, row = 10.0 ** np.arange(-5, 0), np.array([-0.03, -0.01, 0.01, 0.03])

    def table(*means):
        return np.array(means)[:, None] + row  # each mean has the standard error 0.013

    failed, loud = table(1.2, 1.0, 1.005, 1.1, 1.1), table(1.2, 1.0, 1.05, 1.1, 1.1)
    failed[2, 1], loud[2] = np.nan, 1.05 + 20 * row
    cases = [
        (grid, table(5, 4, 3, 2, 1), 1e-1, "a row is a λ: take the mean along it"),
        (grid, table(1.2, 1.0, 1.01, 1.1, 1.2), 1e-3, "stronger may be worse a little"),
        (grid, table(1.2, 1.0, 1.02, 1.1, 1.2), 1e-4, "divide by the root of k"),
        (grid, table(1.2, 1.0, 1.012, 1.1, 1.2), 1e-3, "std of a sample: ddof=1"),
        (grid[::-1], table(1.2, 1.01, 1.0, 1.01, 1.2), 1e-2, "λ in any order"),
        (grid, loud, 1e-4, "the error is that of the best mean, not of each"),
        (grid, failed, 1e-4, "where a score is NaN, that λ is out, not others"),
    ]
    for strengths, scores, expected, hint in cases:
        try:
            got = float(answer(strengths, scores.copy()))
        except Exception as error:
            return f"strongest raised {type(error).__name__}: {error}. Hint: {hint}."
        if not np.isclose(got, expected, rtol=1e-6, atol=0):
            return f"strongest gave {got:g} for {expected:g}. Hint: {hint}."
    return "Right: you can defend your λ now."


print(check(strongest))

# %%

# solution


def strongest_solution(lambdas, scores):
    means = scores.mean(axis=1)
    best = np.nanargmin(means)
    error = scores[best].std(ddof=1) / scores.shape[1] ** 0.5
    return lambdas[means <= means[best] + error].max()


print(check(strongest_solution))
print(f"here, {strongest_solution(lambdas, outer[:, :k]):.2f}: a habit, not a law")

# %%
# Three lines to remember
# -----------------------

print(f"1. Ask where a score comes from: {np.mean(far < 4):.0%} of the cells made it")
print(f"   {whole[0, :k].mean():.1f} for the weakest prior, the others {mean[0]:.1f}.")
print(f"2. A minimum is flat: {lambdas[best]:.3f}, to a factor of three. It is off by")
print(f"   {fidelity(full)[best]:.1%}; the best of all by {fidelity(full)[least]:.1%}.")
print(
    f"3. Too little of a prior: {flux(full)[0]:.2f} Jy. Too much: {flux(sparse):.2f}."
)
print("   True: 0.25. Fit with each once, to see what your image owes to it.")
