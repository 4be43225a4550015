"""
How strong should a regularizer be?
===================================

No strength :math:`\\lambda` is right for all data, because it depends on their noise
and number. Choose it for yours by :term:`cross-validation`, in four steps.

1. Average the :term:`visibilities <visibility>` in cells, and divide these into parts,
   called :term:`folds <fold>`.
2. For half a dozen :math:`\\lambda` and each fold, fit all *other* folds.
3. Score how well each fit predicts the fold left out, but leave the innermost cells
   out of the score: they test the total flux.
4. Take the best :math:`\\lambda`, and trust it to a factor of three.

This page is for anyone who takes :math:`\\lambda` from elsewhere, as `an early tutorial
of MPoL`__ takes :math:`10^{-4}` from the cross-validation of other data.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to run all fits of a sweep as one, and to predict what that saves;
- what too little and too much of a :term:`prior` do to flux and detail;
- how far to trust the minimum of a score.

**Time:** 12 minutes. **Needs:** any computer, and
:doc:`/tutorials/4_imaging/01_first_light`.
"""

# %%
# Predict
# -------
#
# A regularized fit minimizes the misfit to the data plus :math:`\lambda` times a
# :term:`regularizer` (*prior* for short; strictly, minus its logarithm): a number that
# is large for images you consider unlikely. For each of six :math:`\lambda` there are
# two ways to divide into four folds, and a fit to all of the data: 54 fits of 48 × 48
# pixels.
#
# Written out in PyTorch, a step makes about 100 calls, and each launches a kernel (12
# in this package's ``fit``). As the fits are independent, stack 54 images in one
# tensor, so that each kernel works on all. What does that cost a GPU? Take as a model
# of an H100 that a kernel moves three numbers a pixel:

# sphinx_gallery_thumbnail_number = 2
from firstlight.timing.specs import spec

npix, fits, steps, calls = 48, 54, 200, 100
launch = spec("PyTorch operation", "seconds") * 1e6 * calls
print("at once   launches    a step: launch, bytes")
for at_once in (1, fits):
    moved = calls * 12 * at_once * npix**2  # bytes, in a step
    least = 1e6 * moved / spec("H100 SXM", "bandwidth")
    starts = fits // at_once * steps * calls
    print(f"{at_once:>7} {starts:>10,} {launch:>11.0f} µs {least:>6.1f} µs")

# %%
# To *launch* the kernels of a step takes longer than to move their bytes. (With 12
# calls, both take an eighth.) So the prediction is: *54 fits at once cost a GPU hardly
# more than one.* A CPU has overhead for each call, too, so that 54 at once should cost
# far less than 54 times as much. Which :math:`\lambda` do you expect to be best for the
# data below?
#
# Observe
# -------
#
# The sky is a disk of 0.25 Jy. The noise is high, so that the choice matters. As
# averages in cells can be wrong, first check how well the truth fits them. Its
# :math:`\chi^2` (here always the reduced one) should be 1.

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.imaging import DataAverager, ExactLikelihood, FourierCube, GridCoords
from firstlight.imaging import GriddedNet, fit, plot_image, split_cells
from firstlight.imaging.model import losses
from firstlight.imaging.coordinates import sky_to_packed
from firstlight.imaging.simulate import observe, protoplanetary_disk, sky_image
from firstlight.imaging.simulate import uv_track, with_noise

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
# *Random cells* are easy to predict, because their neighbours remain. A
# :term:`dartboard` leaves out whole patches of the uv plane, and so tests whether the
# image can fill a gap. A cell and its mirror image are one measurement, so they stay
# together.

from firstlight.imaging.fitting import split_dartboard, stack, stack_folds

k = 4
averages = averages.to(torch.float32)
cells = stack_folds(averages, k, seed=1)
darts = stack_folds(averages, k, seed=1, split=split_dartboard)
train, test = (stack([cells[i], darts[i], averages]) for i in (0, 1))

# %%
# All at once
# -----------
#
# ``stack`` puts data sets one after the other, as channels: the folds and all of the
# data, for each :math:`\lambda`. With ``separate=True``, ``fit`` treats each channel as
# a fit of its own, with its own :math:`\lambda`.


def sweep(data, terms, steps, on=device, model=None):
    model = model or GriddedNet(coords, nchan=data.nchan).to(on)
    options = {"separate": True, "max_iter": steps, "tolerance": None}
    found = fit(model, data.to(on), losses=terms, **options, progress=False)
    return found, model


# %%
# The *score* of a fold is the :math:`\chi^2` of its cells, which the fit has not seen:
# a mean over cells. Keep the contribution of each cell, because you will need it.

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
# Does a fit among others give the same image as alone? Take three folds of an odd
# number of cells and two :math:`\lambda`, in float64 on the CPU, fitted at once and one
# by one.

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
# Now the sweep. The prior is :term:`total variation` (TV), the sum of how much each
# pixel differs from its neighbours.

lambdas = 10.0 ** np.arange(-4, -1, 0.5)
everything = stack([train] * 6)
tv = {"tv": (np.repeat(lambdas, train.nchan), losses.TV_image)}

_, model = sweep(everything, tv, steps // 2)
early = chi_by_cell(model)  # half-way
found, _ = sweep(everything, tv, steps // 2, model=model)
by_cell = chi_by_cell(model)
whole = score(by_cell)
full = found.image[2 * k :: train.nchan].cpu().double()  # the fits to all of the data


def fidelity(images):
    return ((images - truth).norm(dim=(-2, -1)) / truth.norm()).numpy()


def flux(images):
    return (images.sum((-2, -1)) * coords.cell_size**2).numpy()


columns = {"cells": whole[:, :k].mean(1), "darts": whole[:, k:-1].mean(1)}
columns |= {"all": whole[:, -1], "Jy": flux(full), "error": fidelity(full)}
print("    λ" + "".join(f"{name:>6}" for name in columns))
for i, strength in enumerate(lambdas):
    print(f"{strength:.0e}" + "".join(f"{x[i]:6.2f}" for x in columns.values()))

# %%
# The first two columns are scores, means of four folds: random cells, the dartboard.
# The others belong to the fit to all of the data: its :math:`\chi^2`, its flux, and its
# true error, which is unknown for real data.
#
# - Random cells are best predicted at :math:`\lambda = 0.01`, where :math:`\chi^2` of
#   all data is nearly 1. Two rules agree, so you might stop here.
# - But the image is better with a *weaker* prior. The dartboard prefers one, too, but
#   by much less than the error bar of its score.
#
# Where does the score come from?
# -------------------------------
#
# Divide it into rings around the middle of the uv plane, by the distance in cells, all
# folds together, for the weakest prior and for 0.01.

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
# A few cells in the middle dominate the score. They hold the flux itself, tens of times
# above the noise. To predict them means to guess the flux from the rest, where a small
# relative error is many times the noise. How much noise to let into an image is another
# question. So leave out the inner rings where *even the better* :math:`\lambda` scores
# well above 1: here, the cells within four of the middle, which hold only scales above
# a quarter of the field.

outer, half = (score(each, far >= 4) for each in (by_cell, early))
mean, half_way = (each[:, : 2 * k].mean(1) for each in (outer, half))
best, least = mean.argmin(), fidelity(full).argmin()
print("    λ   half-way   at the end")
for strength, first, second in zip(lambdas, half_way, mean, strict=True):
    print(f"{strength:.0e}{first:11.3f}{second:13.3f}")
assert abs(half_way.argmin() - best) <= 1  # as the next paragraph says
assert mean[0] > half_way[0]

# %%
# These are means of all eight folds. *Has the sweep converged?* One that has not
# compares how fast the fits are, not how good. With the weakest prior the score still
# rises, because the fit goes on to fit noise. But half the steps choose the same
# :math:`\lambda` or its neighbour.

# figure

from firstlight.display import BLUE, GREEN, GREY, ORANGE, PURPLE

looks = {"random cells": ("o-", BLUE, slice(k))}
looks["dartboard"] = ("s--", ORANGE, slice(k, -1))
fig, axes = plt.subplots(3, 1, figsize=(7.2, 6.8), sharex=True, layout="constrained")
for ax, folds in zip(axes, (whole, outer), strict=False):
    for name, (mark, colour, part) in looks.items():
        bars = folds[:, part].std(1, ddof=1) / k**0.5
        at = lambdas * (1.06 if name == "dartboard" else 1)
        look = {"color": colour, "capsize": 3, "label": name}
        ax.errorbar(at, folds[:, part].mean(1), bars, fmt=mark, **look)
    ax.plot(lambdas, folds[:, -1], "d:", color=GREY, label="all data, none left out")
    ax.axhline(1, color=GREY, lw=1)
by_score, by_truth = fidelity(full)[[best, least]]
assert by_score < 1.05 * by_truth  # as the title says
fig.suptitle(f"The outer cells choose a λ as good as the best: error {by_score:.0%}")
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
# Now both splits agree, and the score is lowest where the image is good. But its
# minimum is flat: from 0.003 to 0.01 it changes by less than an error bar (the standard
# error of four folds), and other noise may move it (try another ``seed``).
# Cross-validation finds :math:`\lambda` *to a factor of three*, over which the true
# error changes by a tenth.
#
# The grey line does not help, because the misfit to data that were fitted is smallest
# with no prior at all. Nor is :math:`\chi^2 = 1` a goal. The truth has it, but a fit
# absorbs some of the noise and should be *below* 1. In the images at the top, the rings
# come with specks or not at all. The strong fit looks clean, but has lost the bright
# core.

# figure
fig, axes = plt.subplots(2, 2, figsize=(7.2, 6.3), layout="constrained")
shown = {"truth": truth}
for name, i in (("weak", 0), ("chosen", best), ("strong", -1)):
    shown[f"{name}, λ = {lambdas[i]:.1g}"] = full[i]
for ax, (name, image) in zip(axes.flat, shown.items(), strict=True):
    drawn = plot_image(image, coords, ax=ax, vmin=0, vmax=3, stretch="sqrt", unit=None)
    ax.set_title(name)
    ax.label_outer()
weak, chosen, strong = fidelity(full)[[0, best, -1]]
finding = f"The image of the chosen λ is off by {chosen:.0%},"
fig.suptitle(f"{finding}\nof a weak one by {weak:.0%}, of a strong one by {strong:.0%}")
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
# Alone, nothing, because it multiplies a sum over pixels that has units. Here are four
# such sums of the truth: their value, its ratio at half the pixel width, and the value
# times 0.0001. :term:`Entropy <entropy>` is the distance from a faint uniform image,
# and :term:`TSV` the sum of squared differences.

PRIORS = {"sparsity": losses.sparsity, "tv": losses.TV_image, "tsv": losses.TSV}
PRIORS["entropy"] = lambda sky: losses.entropy(sky, prior=0.01, tot_flux=100)
fine = torch.from_numpy(sky_image(disk, coords.cell_size / 2, 2 * npix))
of_true = {name: prior(truth[None]).item() for name, prior in PRIORS.items()}
print("          truth  finer    cost")
for name, prior in PRIORS.items():
    ratio, price = prior(fine[None]).item() / of_true[name], 1e-4 * of_true[name]
    print(f"{name:>8}{of_true[name]:7.1f}  × {ratio:.1f}{price:8.4f}")

# %%
# What has a meaning is the last column, the *cost*: :math:`\lambda` times the prior of
# a good image, compared with a :math:`\chi^2` of about 1. A cost is roughly the same in
# other units and pixels, but not with other noise. And because :math:`\chi^2`
# is divided by the number :math:`N` of cells or visibilities, the same prior at another
# :math:`N` has the same :math:`\lambda N`.
#
# What each prior does to the flux
# --------------------------------
#
# Compare all four at the same costs. This is one sweep again: each channel has one
# prior, and for the others :math:`\lambda = 0`. Two more channels show what MPoL's
# :math:`\lambda` would do here: one has :term:`sparsity` and TV, the other no prior.

others, prices = ("sparsity", "entropy", "tsv"), lambdas * of_true["tv"]
strengths = np.zeros((4, 20))
for i, name in enumerate(others):
    strengths[i, 6 * i : 6 * i + 6] = prices / of_true[name]
strengths[[0, 3], 18] = 1e-4
names = (*others, "tv")
terms = {name: (strengths[i], PRIORS[name]) for i, name in enumerate(names)}
data = stack([averages] * 20)
_, model = sweep(data, terms, steps // 2)  # in two halves, as the sweep above
many = sweep(data, terms, steps // 2, model=model)[0].image.cpu().double()
images = dict(zip(others, many[:18].split(6), strict=True)) | {"tv": full}
for i, name in ((18, "MPoL's"), (19, "none")):
    off, jansky = fidelity(many)[i], flux(many)[i]
    print(f"{name:>10}: error {off:.3f}, {jansky:.3f} Jy")

# %%
# For these data MPoL's :math:`\lambda` is nearly the same as none, because its cost is
# low.

# figure
fig, axes = plt.subplots(2, 1, figsize=(7.2, 5.6), sharex=True, layout="constrained")
marks = {"sparsity": ("o-", BLUE), "entropy": ("v--", PURPLE)}
marks |= {"tv": ("s-.", ORANGE), "tsv": ("^:", GREEN)}
for name, (mark, colour) in marks.items():
    label = name.upper() if name in ("tv", "tsv") else name
    axes[0].plot(prices, flux(images[name]), mark, color=colour, label=label)
    axes[1].plot(prices, images[name].amax((1, 2)), mark, color=colour)
for ax, true in zip(axes, (0.25, float(truth.max())), strict=True):
    ax.axhline(true, color=GREY, lw=3, zorder=0, label="truth")
axes[0].set(ylabel="flux in Jy", ylim=(0, 0.33))
axes[1].set(ylabel="peak in Jy/arcsec²", xscale="log", xlabel="cost: λ times prior")
axes[0].legend(frameon=False, ncols=2)
sparse, smooth = (images[name][-1] for name in ("sparsity", "tsv"))
kept = f"{smooth.max() / truth.max():.0%} of the peak"
fig.suptitle(
    f"Weak priors add flux ({flux(full)[0]:.2f} Jy instead of 0.25);\n"
    f"strong sparsity leaves {flux(sparse):.2f} Jy, strong TSV {kept}"
)
fig.set_label(
    f"Flux and peak against cost, of four priors. Weak ones have {flux(full)[0]:.2f} "
    f"Jy, the truth 0.25. Strong ones: sparsity {flux(sparse):.2f} Jy and all of the "
    f"peak, TSV {flux(smooth):.2f} Jy and {kept}."
)
plt.show()

# %%
# *Too little* of any prior adds flux, since the noise in positive pixels does not
# cancel. *Too much* removes what its sum counts. Sparsity removes flux and leaves the
# peak. TSV leaves the flux and lowers the peak, that is, resolution. A right flux
# proves little: three of the four have it at some cost, with different images.
#
# The final fit
# -------------
#
# The averages served the sweep. For a fit to all visibilities, ``fit`` converts
# :math:`\lambda` by the rule above.

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
# ``bench`` times ten steps, set-up included, of 54 fits at once, of six and of one, on
# one core of the CPU, and on a GPU if you have one.

bench = Bench("fits-at-once", budget=1.8)
for on in dict.fromkeys(["cpu", str(device)]):
    for count in (fits, 6, 1):
        data = stack([averages.cpu()] * count)
        terms = {"tv": (np.full(count, 0.01), losses.TV_image)}
        name = f"{count} at once, {'CPU' if on == 'cpu' else 'GPU'}"
        bench.time(name, sweep, data, terms, 10, on, n=count, device=on)
bench.show()

# %%
# As a model, :math:`n` fits at once take :math:`a + b n`, with :math:`a` for the
# overhead of the calls and :math:`b` for the work of a fit. The times of 1 and 54 give
# both numbers. Do they predict 6?

kind = "CPU" if device.type == "cpu" else "GPU"
one, six, all_ = (bench[f"{n} at once, {kind}"].median for n in (1, 6, fits))
work = (all_ - one) / (fits - 1)
alone, together = 1e3 * one, 1e3 * all_
print(f"{kind} of this run: {alone:.1f} ms for one, {together:.0f} ms for 54 at once,")
print(f"so one by one takes {fits * one / all_:.1f} times as long.")
print(f"Calls are {1 - work / one:.0%} of a fit that runs alone. Six at once should")
print(f"take {1e3 * (one + 5 * work):.1f} ms, and took {1e3 * six:.1f} ms.")
print(f"The whole sweep, {steps} steps, takes about {steps / 10 * all_:.0f} s.")
torch.set_num_threads(threads)  # as it was

# %%
# On the newest GPU on record one fit takes
# :timing:`fits-at-once median "1 at once, GPU" @gpu`, and 54 at once take
# :timing:`fits-at-once median "54 at once, GPU" @gpu`.
#
# The launches of a step hide behind the work, or they do not. Two programs of other
# people, on one H200, show both; the first line is a bare operation.
#
# .. measured-by-others:: operation-rtx3090ti whisper-h200 code2wav-h200
#
# Where this stops being true
# ---------------------------
#
# - *Large images.* If a step is nearly all work, fits at once gain nothing, and memory
#   is the limit: 54 fits need 54 times as much.
# - *L-BFGS* makes one step for the whole tensor, so that fits at once are not
#   independent.
# - *Wrong weights.* If all are off by one factor, scores still compare, but the best is
#   not near 1.
# - *Wrong averages.* If cells are too wide, all folds are wrong alike, and the score
#   does not notice.
#
# Exercise
# --------
#
# Because a score is flat, a common rule takes *the strongest λ whose mean score is at
# most one standard error above the best mean*, with the standard error of that best
# mean. Write it. ``scores`` has a row for each λ and a column for each fold. A fit that
# failed has the score NaN, and its λ does not count.


def strongest(lambdas, scores): ...


# %%


# folded: The checker
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
            if (got := answer(strengths, scores.copy())) is None:
                return "strongest returns nothing yet."
            got = float(got)
        except Exception as error:
            return f"strongest raised {type(error).__name__}: {error}. Hint: {hint}."
        if not np.isclose(got, expected, rtol=1e-6, atol=0):
            return f"strongest gave {got:g} for {expected:g}. Hint: {hint}."
    return "Right: you can defend your λ now."


# %%

print(check(strongest))

# %%
# Three lines to remember
# -----------------------

# remember
middle = np.mean(far < 4)
everywhere = whole[0, : 2 * k].mean()
print(f"1. Check where a score comes from. The weakest prior scores {mean[0]:.1f}, but")
print(f"   {everywhere:.1f} with the {middle:.0%} of the cells in the middle.")
print(f"2. The minimum is flat: λ = {lambdas[best]:.3f}, to a factor of three. Its")
print(f"   image is off by {by_score:.0%}, as is that of the best λ.")
print(
    f"3. Too little of a prior: {flux(full)[0]:.2f} Jy. Too much: {flux(sparse):.2f}."
)
print("   The truth is 0.25. Try several, to see what your image owes to its prior.")

# %%
# Solution
# --------

# solution


def strongest_solution(lambdas, scores):
    means = scores.mean(axis=1)
    best = np.nanargmin(means)
    error = scores[best].std(ddof=1) / scores.shape[1] ** 0.5
    return lambdas[means <= means[best] + error].max()


print(f"Our solution: {check(strongest_solution)}")
print(f"here, {strongest_solution(lambdas, outer[:, :k]):.2f}: a convention, not a law")
