"""
How strong should a regularizer be?
===================================

You've fitted an image to your :term:`visibilities <visibility>`, as on the page
:doc:`first light </tutorials/4_imaging/01_first_light>`, and there was a knob: the
strength of the :term:`regularizer`, which everybody calls λ. `An early tutorial`__ of
:term:`MPoL`, another imaging package, takes :math:`10^{-4}`. Is that right for your
data, too?

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

It may be wrong by a factor of thirty. **Before you go on, write down how you would
choose λ, if you had nothing but the data.** By the end you'll be able to choose it by
:term:`cross-validation`, and you'll know which trap waits there.

**Needs:** any computer, and :doc:`first light </tutorials/4_imaging/01_first_light>`.
"""

# folded: A faint disk, observed with much noise, and averaged in cells
import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight_imaging import DataAverager, ExactLikelihood, FourierCube, GridCoords
from firstlight_imaging import GriddedNet, fit, plot_image, split_cells
from firstlight_imaging.model import losses
from firstlight_imaging.coordinates import sky_to_packed
from firstlight_imaging.simulate import observe, protoplanetary_disk, sky_image
from firstlight_imaging.simulate import uv_track, with_noise
from firstlight_imaging.units import ARCSEC

npix, fits, steps, calls = 48, 54, 200, 100

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

k = 4
averages = averages.to(torch.float32)

# %%
# Try it
# ------
#
# Our sky is a disk of 0.25 Jy, and the data have a lot of noise. Let's fit it with
# three strengths. The regularizer is :term:`total variation` (TV), the sum of how much
# each pixel differs from its neighbours.

three = {}
for knob in (1e-4, 3e-3, 3e-2):
    tv_term = {"tv": (knob, losses.TV_image)}
    how = {"max_iter": steps, "tolerance": None, "progress": False}
    made = fit(GriddedNet(coords), averages, losses=tv_term, **how)
    three[knob] = made.image[0].double()
    light = float(three[knob].sum()) * coords.cell_size**2
    print(f"λ = {knob:<6g} χ² {made.terms['chi2']:.2f}, flux {light:.2f} Jy")

# %%

# figure
LOOK = {"vmin": 0, "vmax": 3, "stretch": "sqrt", "unit": None}
picture, panels = plt.subplots(1, 3, figsize=(7.2, 2.9), layout="constrained")
for panel, (knob, one) in zip(panels, three.items(), strict=True):
    scale = plot_image(one, coords, ax=panel, **LOOK)
    panel.set_title(f"λ = {knob:g}")
    panel.label_outer()
picture.colorbar(scale, ax=panels, label="Jy/arcsec²", shrink=0.8)
picture.suptitle("Which of these would you publish?")
picture.set_label(
    "Three fits. Weakest: a disk with rings, and specks all over. Middle: a disk with "
    "rings and few specks. Strongest: flat steps, without rings."
)
plt.show()

# %%
# On the left there are specks, and on the right the rings are gone. **Which is nearest
# to the truth?** Don't trust :math:`\chi^2`. It's the misfit to the data, so it's
# always smallest on the left.
#
# What does the knob do?
# ----------------------
#
# A fit minimizes :math:`\chi^2 + \lambda \cdot \mathrm{TV}`. Two forces pull at each
# pixel. Let's put in the *truth*, which nobody can do with real data, and ask each term
# in which direction it would move every pixel. That's minus its gradient.

ideal = truth[None].float().requires_grad_()
predicted = FourierCube(coords)(sky_to_packed(ideal))
misfit = losses.r_chi_squared_gridded(predicted, averages)
(up_data,) = torch.autograd.grad(misfit, ideal)
(up_tv,) = torch.autograd.grad(losses.TV_image(ideal), ideal)

in_disk = truth > 0.02 * truth.max()
pull_data, pull_tv = (up[0][in_disk].square().mean().sqrt() for up in (up_data, up_tv))
print(f"in the disk, the data pull with {pull_data:.4f}, and TV with λ × {pull_tv:.2f}")
print(f"they are equally strong at λ = {pull_data / pull_tv:.4f}")

# %%

# figure
picture, panels = plt.subplots(1, 2, figsize=(7.2, 3.7), layout="constrained")
pulls = {"the data": -up_data[0], "TV, with λ = 0.01": -0.01 * up_tv[0]}
PULL = {"vmin": -0.012, "vmax": 0.012, "stretch": "linear", "unit": None}
for panel, (title, one) in zip(panels, pulls.items(), strict=True):
    scale = plot_image(one.numpy(), coords, ax=panel, cmap="PuOr", **PULL)
    panel.set_title(title)
    panel.label_outer()
scale_bar = picture.colorbar(scale, ax=panels, shrink=0.9, ticks=[-0.01, 0, 0.01])
scale_bar.set_label("darker  ←  pull  →  brighter")
picture.suptitle("At the true sky, the data pull towards noise, and TV flattens rings")
picture.set_label(
    "Two maps of pulls at the true sky. The data's is blotches all over. That of TV is "
    "zero outside the disk, and inside it follows the rings: ridges down, gaps up."
)
plt.show()

# %%
# So neither of them wants to stay at the truth! The data would move away, to fit their
# own noise. TV would take the top off each ring and fill each gap with it. So a good λ
# should lie near the value at which both pull equally hard. That's our prediction,
# 0.007 or so. But how can we find λ without the truth?
#
# Hide a part of the data
# -----------------------
#
# A teacher who wants to know whether you've understood sets questions that you haven't
# seen. We do the same with a fit. Hide a quarter of the data, fit the rest, and see how
# well the image predicts the hidden quarter. A fit that learnt the noise by heart will
# fail, because the hidden data have noise of their own. Each quarter is hidden once.
# That's *cross-validation*, the quarters are called :term:`folds <fold>`, and the
# misfit to the hidden data is the *score*.
#
# There are two good ways to choose what is hidden: single cells of the uv plane, at
# random, or whole patches of it, like the fields of a :term:`dartboard`. The second is
# harder, because a single cell can be guessed from its neighbours. We do both.

from firstlight_imaging.fitting import split_dartboard, stack, stack_folds

cells = stack_folds(averages, k, seed=1)
darts = stack_folds(averages, k, seed=1, split=split_dartboard)
train, test = (stack([cells[i], darts[i], averages]) for i in (0, 1))

# %%


# figure
def draw_folds():
    picture, panels = plt.subplots(1, 2, figsize=(7.2, 4.4), layout="constrained")
    where = np.stack([x.ravel() for x in coords.packed_uv()]) / 1e6
    splits = {"random cells": cells, "a dartboard": darts}
    for panel, (title, (fitted, hidden)) in zip(panels, splits.items(), strict=True):
        for part, of in {"fitted": fitted, "hidden": hidden}.items():
            half = where[:, of.mask[0].numpy().ravel()]
            panel.plot(*np.hstack([half, -half]), "s", ms=2.2, label=part)
        panel.set(title=title, aspect="equal", xlim=(2, -2), ylim=(-2, 2))
        panel.set_xlabel("million wavelengths")
    handles = panels[0].get_legend_handles_labels()
    picture.legend(*handles, loc="outside lower center", ncols=2, frameon=False)
    picture.suptitle("One of four folds: a quarter of the cells is hidden")
    picture.set_label(
        "The uv plane twice, with one fold hidden: single cells scattered all over, or "
        "patches between rings and rays, like fields of a dartboard."
    )


draw_folds()
plt.show()

# %%
# There are four folds of each kind, and one fit to all of the data. So we need nine
# fits for each λ, and with six values of λ that makes 54. We can stack them, as if they
# were 54 channels of one image, and do them all at once. In ``fit`` that's the option
# ``separate``:


def sweep(data, terms, steps, on=device, model=None):
    model = model or GriddedNet(coords, nchan=data.nchan).to(on)
    options = {"separate": True, "max_iter": steps, "tolerance": None}
    found = fit(model, data.to(on), losses=terms, **options, progress=False)
    return found, model


# %%

# folded: The score of each cell, and the check that a fit among others is as if alone

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


folds = [fold.double() for fold, _ in split_cells(averages, 3, seed=2)]


def in_float64(data, strengths):
    net = GriddedNet(coords, nchan=data.nchan).double()
    terms = {"tv": (strengths, losses.TV_image)}
    return sweep(data, terms, 15, "cpu", net)[0].image


at_once = in_float64(stack(folds * 2), np.repeat([0.01, 0.3], 3))
by_one = [in_float64(fold, [level]) for level in (0.01, 0.3) for fold in folds]
error = float((at_once - torch.cat(by_one)).abs().max() / at_once.max())
assert error < 1e-10, error
print(f"at once and one by one: relative difference {error:.0e}")

# %%

lambdas = 10.0 ** np.arange(-4, -1, 0.5)
everything = stack([train] * 6)
tv = {"tv": (np.repeat(lambdas, train.nchan), losses.TV_image)}

_, model = sweep(everything, tv, steps // 2)
early = chi_by_cell(model)  # half-way
found, _ = sweep(everything, tv, steps // 2, model=model)
by_cell = chi_by_cell(model)

# %%

# folded: The scores, and how flux and true error are computed
whole = score(by_cell)
full = found.image[2 * k :: train.nchan].cpu().double()  # the fits to all of the data


def fidelity(images):
    return ((images - truth).norm(dim=(-2, -1)) / truth.norm()).numpy()


def flux(images):
    return (images.sum((-2, -1)) * coords.cell_size**2).numpy()


# %%

columns = {"cells": whole[:, :k].mean(1), "darts": whole[:, k:-1].mean(1)}
columns |= {"all": whole[:, -1], "Jy": flux(full), "error": fidelity(full)}
print("    λ" + "".join(f"{name:>6}" for name in columns))
for i, strength in enumerate(lambdas):
    print(f"{strength:.0e}" + "".join(f"{x[i]:6.2f}" for x in columns.values()))

# %%
# *Cells* and *darts* are the two scores, *all* is :math:`\chi^2` of the fit to all
# data, and *Jy* is its flux. The last column tells how far the image is from the truth.
# **Which λ would you choose by the first column? Is it the best?**
#
# By random cells you'd take 0.01, and :math:`\chi^2` of all data is nearly 1 there,
# which sounds like a confirmation. But the truth says that 0.003 or even 0.001 would
# have been better. The dartboard, which is also MPoL's way (``DartboardSplitGridded``),
# has found 0.003. But its scores go up to 12, where 1 is what noise alone would give.
# Something is odd about these scores.
#
# Where does the score come from?
# -------------------------------
#
# We divide the uv plane into rings around its middle, and average the score in each,
# for the weakest λ and for 0.01.

fold, row = channel % train.nchan, channel // train.nchan
parts = [(fold // k == split) & (row == i) for split in (0, 1) for i in (0, 4)]
print("               random cells   dartboard")
print("   ring  share   weak  0.01   weak  0.01")
for low, high in ((0, 2), (2, 4), (4, 8), (8, 16), (16, 34)):
    ring = (far >= low) & (far < high)
    by_part = [by_cell[ring & part].mean() for part in parts]
    row_of = "{:7.0%}{:7.1f}{:6.1f}{:7.1f}{:6.1f}".format(ring.mean(), *by_part)
    print(f"{low:>2} – {high:<2}{row_of}")

# %%
# With a weak λ, one cell in a hundred has a score of several hundred, and it dominates
# the mean. These are the cells in the very middle, and they hold the total flux. If
# they're hidden, the fit has to guess the flux from everything else. But we want to
# know how much noise to let in, and the cells farther out, 95% of all, answer that. So
# our score leaves out the innermost ones, less than four cells from the centre.

# folded: The score without the middle; half the steps would choose the same, or nearly

outer, half = (score(each, far >= 4) for each in (by_cell, early))
mean, half_way = (each[:, : 2 * k].mean(1) for each in (outer, half))
best, least = mean.argmin(), fidelity(full).argmin()
print("    λ   half-way   at the end")
for strength, first, second in zip(lambdas, half_way, mean, strict=True):
    print(f"{strength:.0e}{first:11.3f}{second:13.3f}")
assert abs(half_way.argmin() - best) <= 1  # or the fastest fit would win, not the best
assert mean[0] > half_way[0]

# %%

widest = 1 / (4 * coords.du * ARCSEC)  # arcsec, between two crests
print(f"the outer cells see stripes up to {widest:.1f}″ wide")
print(f"the best score is {mean[best]:.3f}, at λ = {lambdas[best]:.3f}")

# %%
# Now the minimum is at 0.003, and that image *is* as good as the best. Our prediction
# of 0.007 wasn't bad, either: it's about half-way from this row to the next.
#
# But what have we given up? Without the middle, the score doesn't see anything wider
# than 0.6″, a quarter of the image. The *fits* still use those cells, so the light is
# still in the image. If you care most about a broad, faint glow, cut less, and look at
# the score ring by ring.

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
# How far can you trust the minimum? First, is the score at the next λ really worse?
# Both strengths had the same folds, so we take the difference fold by fold. Second,
# what would other cuts have chosen?

paired = outer[best + 1, : 2 * k] - outer[best, : 2 * k]
bar = paired.std(ddof=1) / paired.size**0.5
print(f"from λ = {lambdas[best]:.3f} to the next: {paired.mean():.4f} ± {bar:.4f}")
for cut in (2, 3, 4, 6, 8, 12):
    chosen_at = score(by_cell, far >= cut)[:, : 2 * k].mean(1).argmin()
    print(f"without {cut:>2} cells: λ = {lambdas[chosen_at]:.3f}")

# %%
# The next λ is worse by three σ, or somewhat less, because the folds share data. But if
# we'd left out eight cells instead of four, we'd have taken 0.001. So *cross-validation
# finds λ to a factor of three.* That's enough: over such a factor the image changes by
# a tenth or two.
#
# The dotted line with diamonds in the figure is the misfit to data that were fitted. It
# can't help, because it's lowest without any regularizer. And don't aim for the plain
# grey line, at :math:`\chi^2 = 1`. The truth has it, but a fit always takes in some
# noise, so a good one should be *below* 1.

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
# Here is the chosen image beside the truth and two others. Would you have chosen it? In
# the weak image you can see the gap between the rings, but hardly in the chosen one,
# although as a whole it's nearer to the truth. The true error counts all pixels, and
# the eye only the pretty ones. If you want the gap, choose at the lower end of the
# factor of three, and say so.
#
# Does it matter which regularizer?
# ---------------------------------
#
# What you expect of a sky is your :term:`prior`, and TV is only one way to write it
# down. :term:`Sparsity <sparsity>` adds up all pixels, so it likes an image with few
# bright ones. :term:`TSV` adds up the squares of all differences, so it likes a smooth
# one. :term:`Entropy <entropy>` likes an even one. To compare them, we choose each λ so
# that the true sky has the same *cost*, λ times the prior. **Each has something that it
# takes away if you use too much of it. What does sparsity take, and what does TSV
# take?**

# folded: Four priors at equal cost

PRIORS = {"sparsity": losses.sparsity, "tv": losses.TV_image, "tsv": losses.TSV}
PRIORS["entropy"] = lambda sky: losses.entropy(sky, prior=0.01, tot_flux=100)
fine = torch.from_numpy(sky_image(disk, coords.cell_size / 2, 2 * npix))
of_true = {name: prior(truth[None]).item() for name, prior in PRIORS.items()}
print("          truth  finer    cost")
for name, prior in PRIORS.items():
    ratio, price = prior(fine[None]).item() / of_true[name], 1e-4 * of_true[name]
    print(f"{name:>8}{of_true[name]:7.1f}  × {ratio:.1f}{price:8.4f}")

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
# Too much of a prior takes away what it counts. Sparsity counts light, so it takes flux
# and leaves the peak. TSV counts steep slopes, so it leaves the flux and takes the
# peak. TV is in between: a strong one takes a little of the flux and half of the peak.
# And too *little* of any of them adds flux, because pixels are positive, and the noise
# in them can't cancel. Try several, and see what in your image comes from your prior.
#
# And MPoL's :math:`10^{-4}`? For sparsity and TV together, as in its tutorial, it gives
# an image that is off by 27%, and without any prior it's 28%. So here it does next to
# nothing. That λ was chosen for other data. A λ has units, and it depends on the noise,
# the pixels and the number of visibilities, so you can't copy it from anybody else. The
# page on :doc:`RML and CLEAN </tutorials/4_imaging/13_rml_and_clean>` works one out
# from the noise, as a start.

# folded: The final fit, to all visibilities and not to averages
arrays = (seen.uu, seen.vv, seen.data, seen.weight)
likelihood = ExactLikelihood(*arrays, coords.cell_size, npix, device=device)
net, terms = GriddedNet(coords).to(device), {"tv": (lambdas[best], losses.TV_image)}
final = fit(net, likelihood, losses=terms, max_iter=steps, progress=False)
off = fidelity(final.image.cpu().double())[0]
print(final.notes[0], f"\nError {off:.3f}; to averages: {fidelity(full)[best]:.3f}")

# %%
# For your own data
# -----------------
#
# Here is all of it as one function: four folds, four fits at once, and the score of the
# outer cells. It takes averages in cells, as ``DataAverager`` made them above, and a λ:


def score_of(averages, strength, k=4, cut=4):
    train, test = stack_folds(averages, k, seed=1)
    net = GriddedNet(averages.coords, nchan=k).to(device)
    penalty = {"tv": (strength, losses.TV_image)}
    fit(net, train.to(device), losses=penalty, separate=True, progress=False)
    with torch.no_grad():
        left = test.vis_indexed - test(net().cpu())
    away = np.hypot(*(x.ravel() for x in averages.coords.packed_uv()))
    outside = away[test.index % away.size] >= cut * averages.coords.du
    return float((test.weight_indexed * left.abs() ** 2 / 2)[outside].mean())


# %%
# With it, the recipe has three lines:

table = {each: score_of(averages, each) for each in lambdas}
print(*(f"λ = {each:.0e}: {value:.3f}" for each, value in table.items()), sep="\n")
print(f"take {min(table, key=table.get):.3f}")

# %%
# This function, too, chooses 0.003.
#
# .. dropdown:: The loss is NaN, or it falls while the image vanishes
#
#    Look at χ² and at each regularizer by itself; ``fit(…).terms`` has them. If χ²
#    stays high while the image fades, λ is far too large, or the weights are too small.
#    With a sparsity of λ = 1, for example, a disk like ours fades away while the loss
#    falls. So divide λ by ten, and look at the units and weights of the data.
#
#    And NaN? Our pixels, and MPoL's, are ``softplus`` of a parameter. Below about -104,
#    that is exactly 0 in ``float32``, and ``0 * log(0)``, as in an entropy, is NaN. So
#    stop at the first NaN, look in which term it is, and take a smaller learning rate
#    or λ. If χ² is NaN at the start, it's in the data. MPoL says *image cube contained
#    negative pixel values* for a NaN, too, because it asks whether all pixels are ≥ 0.
#
# How much do 54 fits cost?
# -------------------------
#
# A GPU does each operation for all stacked fits at once. **So does it do 54 fits in the
# time of one?** The ``Bench`` times ten steps.

bench = Bench("fits-at-once", budget=1.8)
for on in dict.fromkeys(["cpu", str(device)]):
    for count in (fits, 6, 1):
        data = stack([averages.cpu()] * count)
        terms = {"tv": (np.full(count, 0.01), losses.TV_image)}
        name = f"{count} at once, {'CPU' if on == 'cpu' else 'GPU'}"
        bench.time(name, sweep, data, terms, 10, on, n=count, device=on)
bench.show()
torch.set_num_threads(threads)  # as it was

# %%
# No, but stacking pays. On an H100, ten steps of one fit took :timing:`fits-at-once
# median "1 at once, GPU" @nvidia-h100-80gb-hbm3`, of six :timing:`fits-at-once median
# "6 at once, GPU" @nvidia-h100-80gb-hbm3`, and of 54 :timing:`fits-at-once median "54
# at once, GPU" @nvidia-h100-80gb-hbm3`. But one core of the CPU beside it did all 54 in
# :timing:`fits-at-once median "54 at once, CPU" @nvidia-h100-80gb-hbm3`, so for images
# as small as ours you don't need the GPU.
#
# .. dropdown:: Where this stops being true
#
#    If images are large, a step is nearly all work, so stacking gains little, and 54
#    fits need 54 times the memory. L-BFGS makes one step for all channels together, so
#    stacked fits wouldn't be independent: use Adam. If all weights are wrong by one
#    factor, the best λ is still the best, but its score isn't near 1. And if the cells
#    of the averages are :doc:`too wide </tutorials/4_imaging/06_averaging>`, all folds
#    are wrong alike, and no score notices.
#
# Your turn
# ---------
#
# Because the minimum is flat, many people take the *one-standard-error rule*: the
# strongest λ whose mean score is at most one standard error above the best mean. The
# standard error is that of the best mean. Write the function that finds this λ.
# ``scores`` has a row for each λ, and a column for each fold. If a fit has failed, its
# score is NaN, and its λ doesn't count.
#
# Put your answer where the dots are, and run ``firstlight try
# 07_choosing_regularizers.py``.


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
print("1. Hide a part of the data, and take the λ that predicts it best, to a factor")
print(f"   of three. Here that's {lambdas[best]:.3f}, which is as good as the best.")
print(f"2. Look where the score comes from. The weakest λ scores {mean[0]:.1f}, but")
print(f"   {everywhere:.1f} with the {middle:.0%} of the cells in the middle.")
too_little, too_much = flux(full)[0], flux(sparse)
print(f"3. Too little of a prior: {too_little:.2f} Jy, too much: {too_much:.2f}. The")
print("   truth is 0.25. Try several, to see what your image owes to its prior.")

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
