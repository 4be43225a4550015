"""
Off the grid: how many visibilities can you afford?
===================================================

Your telescope has observed for ten nights, and your file has a million
:term:`visibilities <visibility>`. You'd like to fit an image to all of them, and not to
averages in the cells of a grid. But a fit takes hundreds of steps, and each of them has
to compare the image with a million numbers. Many programs average first, and :doc:`pay
for it </tutorials/4_imaging/06_averaging>`, so fitting all of them must be too slow. Is
it?

**Write down a guess: with a hundred times as many visibilities, how much longer does a
step take?** By the end you'll have written a step that takes no longer at all. It
doesn't even look at the visibilities.

**Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/01_first_light>`.
"""

# folded: One night, ten nights: as many visibilities as you like
# sphinx_gallery_thumbnail_number = 2
import math
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.display import BLUE, ORANGE
from firstlight_imaging import ExactLikelihood, GridCoords, plot_image
from firstlight_imaging.fourier import visibilities
from firstlight_imaging.fourier.nufft import find_cufinufft
from firstlight_imaging.simulate import observe, protoplanetary_disk, sky_image
from firstlight_imaging.simulate import uv_track

device = best_device()
on_gpu = device.type == "cuda" and find_cufinufft() is not None
device = device if on_gpu else torch.device("cpu")  # both ways on one device
print("This page runs on", f"{device}, with {'cufinufft' if on_gpu else 'finufft'}")
npix, sigma = 256, 5e-3
coords = GridCoords(cell_size=5.4 / npix, npix=npix)
disk = protoplanetary_disk(flux=0.25, size=1.7)
truth = torch.from_numpy(sky_image(disk, coords.cell_size, npix))[None]
night = observe(disk, uv_track(n_times=111))


def observed(nvis, seed=1):
    """Give u, v, data and weights of so many visibilities: night after night."""
    rng = np.random.default_rng(seed)
    nights = -(-nvis // night.data.size)
    once = slice(None, None, max(1, night.data.size // nvis))
    u, v, clean = (
        np.tile(values[0, once], nights)[:nvis]
        for values in (night.uu, night.vv, night.data)
    )
    noise = rng.normal(scale=sigma, size=(2, u.size))
    return u, v, clean + noise[0] + 1j * noise[1], np.full(u.size, sigma**-2)


# %%
# Try it
# ------
#
# Here is the straightforward way. We predict each visibility from the image, subtract
# it from what was measured, and add up the squares. ``backward()`` gives the
# :term:`gradient`.


def by_nufft(u, v, data, weight):
    u, v = (torch.from_numpy(x).to(device) for x in (u, v))
    data = torch.from_numpy(data).to(device, torch.complex64)
    weight = torch.from_numpy(weight).to(device, torch.float32)

    def chi_squared(image):
        residual = data - visibilities(image, u, v, coords.cell_size)
        return (weight * residual.abs().square()).sum()

    return chi_squared


def gradient(chi_squared, image):
    image = image.clone().requires_grad_()
    chi_squared(image).backward()
    return image.grad


most = 10**7 if on_gpu else 10**6
counts = [10**power for power in range(4, 8) if 10**power <= most]
dark = torch.zeros(1, npix, npix, device=device)
steps = Bench("off-the-grid", budget=1.5)
for nvis in counts:
    way = by_nufft(*observed(nvis))
    row = steps.time(f"NUFFT, {nvis:,}", gradient, way, dark, n=nvis, device=device)
    print(f"{nvis:>10,} visibilities: {1e3 * row.median:6.1f} ms for a step")

# %%
# On a computer with an EPYC and no GPU, a step with ten thousand visibilities took
# :timing:`off-the-grid median "NUFFT, 10,000" @cpu-amd-epyc`, and one with a million
# took :timing:`off-the-grid median "NUFFT, 1,000,000" @cpu-amd-epyc`. On an H100, a
# million took only a little longer than ten thousand.
#
# That's far less than a hundredfold. Our function ``visibilities`` begins with an
# :term:`FFT` of the image, on a grid twice as wide, and that takes the same time for
# any number of visibilities. Then it only has to read off each visibility from the
# cells around it. With 7 × 7 cells, six digits come out right. This is called a
# *non-uniform* FFT, or :term:`NUFFT`. But the more visibilities you have, the more of
# the time goes into reading them off. On a GPU, ``visibilities`` needs ``cufinufft``.
# Without it, this page runs on the CPU.
#
# Three numbers instead of a million
# ----------------------------------
#
# Take the true sky, and make it brighter or fainter as a whole, by a factor :math:`f`.
# For three factors, here is :math:`\chi^2`, summed over a million visibilities:

chi_squared = by_nufft(*observed(10**6))
sky = truth.float().to(device)
for factor in (0, 1, 2):
    print(f"f = {factor}: χ² = {chi_squared(factor * sky).item():12,.0f}")

# %%
# **What is** :math:`\chi^2` **for f = 1.5?** You can work it out without a single
# visibility. A visibility with the weight *w*, the value *D* and the model *V* adds
# :math:`w\,|D - f V|^2`, a parabola in :math:`f`. And the sum of a million parabolas is
# a parabola. It has three coefficients, and we have three points.

at_0, at_1, at_2 = (chi_squared(factor * sky).item() for factor in (0, 1, 2))
square = (at_2 - 2 * at_1 + at_0) / 2
linear = at_1 - at_0 - square
print(f"f = 1.5, from three numbers:  {at_0 + 1.5 * linear + 1.5**2 * square:12,.0f}")
print(f"f = 1.5, from a million data: {chi_squared(1.5 * sky).item():12,.0f}")

# %%
# So three numbers have replaced a million, and nothing is lost except the last digits
# of ``float32``. A real image has many pixels instead of one factor, but the idea is
# the same:
#
# .. math::
#
#     \chi^2(I) = c - 2 \sum_p d_p\, I_p + \sum_{p,q} I_p\, K_{p-q}\, I_q .
#
# Here :math:`c` is still a number. The linear coefficient :math:`d` is an image, the
# :term:`dirty image`, the plain Fourier transform of the weighted data. And :math:`K`
# would have a number for each *pair* of pixels. But all that counts is the offset
# between them, so :math:`K` is a picture, too: the :term:`dirty beam`, twice as wide,
# since an offset may be negative.
#
# We compute the three once. After that, a step is a convolution of the image with
# :math:`K`, which takes two FFTs. In this package, the exact form of :math:`\chi^2` is
# called ``ExactLikelihood``:

seen = observed(10**6)
begin = perf_counter()
exact = ExactLikelihood(*seen, coords.cell_size, npix, device=device)
exact.dirty.cpu()  # waits for a GPU
print(f"set up once, in {perf_counter() - begin:.2f} s")

slope = gradient(exact, dark)
slope_by_nufft = gradient(chi_squared, dark)
apart = float((slope - slope_by_nufft).abs().max() / slope.abs().max())
print(f"gradients differ by {apart:.0e} of the largest value")

# %%

# figure
unit = float(slope.abs().max())
point = torch.zeros_like(dark)
point[0, npix // 2, npix // 2] = 1
beam = exact.normal_operator(point)[0].cpu()
fig, axes = plt.subplots(1, 3, figsize=(7.4, 2.8), layout="constrained")
pictures = {
    "gradient, a million data": slope_by_nufft[0].cpu() / unit,
    "gradient, exact form": slope[0].cpu() / unit,
    "the dirty beam K": beam / beam.max(),
}
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    look = {"vmin": -1, "vmax": 1, "stretch": "linear", "cmap": "PuOr", "unit": None}
    look |= {"vmin": -0.2, "vmax": 0.2} if "K" in title else {}
    plot_image(picture, coords, ax=ax, **look)
    ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
fig.suptitle("The same gradient, with the data and without them")
fig.set_label(
    "Three images. The gradient for a dark sky from a million visibilities: a blurred "
    "disk, negative. The gradient from the exact form looks the same. The "
    "dirty beam: a sharp peak with rings and ripples around it."
)
plt.show()

# %%
# The two gradients are the same disk, blurred and negative: to lower :math:`\chi^2`,
# the fit should make the image brighter there. To fit an image, give the exact form to
# ``fit`` in place of averages: ``fit(GriddedNet(coords), exact, losses=…)``.
#
# What does it gain?
# ------------------
#
# Two FFTs of real numbers, 512 wide, take some 24 million operations. A NUFFT needs two
# FFTs of complex numbers. On top of that, each visibility touches 7 × 7 cells twice:
# once to predict it, and once for the gradient. **With a million visibilities, how many
# times as long should a NUFFT step take as an exact one?**


def operations(nvis):
    pair = 2 * 5 * (2 * npix) ** 2 * math.log2((2 * npix) ** 2)  # two complex FFTs
    return pair + 2 * 4 * 7 * 7 * nvis, pair / 2


for nvis in (10**4, 10**6, 10**8):
    nufft, real = operations(nvis)
    print(f"{nvis:>11,} visibilities: counted, a ratio of {nufft / real:7,.0f}")

# %%

# folded: Measure the exact form, too
setup = {}
for nvis in counts:
    seen = observed(nvis)
    begin = perf_counter()
    exact = ExactLikelihood(*seen, coords.cell_size, npix, device=device)
    exact.dirty.cpu()
    setup[nvis] = perf_counter() - begin
    steps.time(f"exact, {nvis:,}", gradient, exact, dark, n=nvis, device=device)
steps.show()

ratios = {}
for nvis in counts:
    nufft, real = (steps[f"{way}, {nvis:,}"].median for way in ("NUFFT", "exact"))
    ratios[nvis] = nufft / real
    after = f"{math.ceil(setup[nvis] / (nufft - real))} steps" if nufft > real else "–"
    print(f"{nvis:>10,}: ratio {ratios[nvis]:5.1f}; set-up recovered after {after}")

# %%

# measured figure
torchkbnufft = 405 * 512, 20.264  # visibilities, ratio: measured by its authors
many = np.geomspace(1e4, 1e8)
fig, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
ax.plot(many, np.divide(*operations(many)), "--", color=BLUE, label="counted")
ax.plot(*zip(*ratios.items(), strict=True), "o", c=ORANGE, mec="black", label="here")
hollow = {"mfc": "none", "mec": "black", "ls": ""}
ax.plot(*torchkbnufft, "D", label="torchkbnufft's authors, Quadro GP100", **hollow)
ax.set(xscale="log", yscale="log", xlabel="visibilities")
ax.set_ylabel("time of a NUFFT step : exact step")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
top = max(ratios)
fig.suptitle(f"At {top:,} visibilities, a NUFFT step takes {ratios[top]:.0f} × as long")
fig.set_label(
    "The ratio of the times of a NUFFT step and an exact step, against the number of "
    "visibilities. Counted, it rises from 2 to 1600. Measured here it is "
    f"{ratios[counts[0]]:.0f} at {counts[0]:,} and {ratios[top]:.0f} at {top:,}. The "
    "authors of torchkbnufft measured 20 at 207,360."
)
plt.show()

# %%
# On the EPYC, a step of the exact form took :timing:`off-the-grid median "exact,
# 1,000,000" @cpu-amd-epyc` with a million visibilities. That is :timing:`off-the-grid
# speedup "exact, 1,000,000"/"NUFFT, 1,000,000" @cpu-amd-epyc` as fast as the NUFFT. The
# set-up is paid back within a handful of steps, and a fit makes hundreds. With ten
# thousand visibilities, a step took :timing:`off-the-grid median "exact, 10,000"
# @cpu-amd-epyc`. It doesn't look at the data, so it does the same work for any number.
#
# Our count was wrong at both ends. With a hundred thousand visibilities the NUFFT took
# :timing:`off-the-grid median "NUFFT, 100,000" @cpu-amd-epyc`, only a little more than
# with ten thousand. So with few data most of its time is a fixed cost. With a million
# it's the reading-off, because to jump all over a grid costs the CPU far more than the
# multiplications that we counted. Others have measured it on GPUs:
#
# .. measured-by-others:: toeplitz-gp100 nufft-a6000
#
# **And on an H100? Write down how many times as fast the exact form is, with a million
# visibilities.**
#
# On an H100, a step by cuFINUFFT took :timing:`off-the-grid median "NUFFT, 10,000"
# @nvidia-h100-80gb-hbm3` with ten thousand visibilities, :timing:`off-the-grid median
# "NUFFT, 1,000,000" @nvidia-h100-80gb-hbm3` with a million, and :timing:`off-the-grid
# median "NUFFT, 10,000,000" @nvidia-h100-80gb-hbm3` with ten million. In the exact form
# a million took :timing:`off-the-grid median "exact, 1,000,000"
# @nvidia-h100-80gb-hbm3`. That is :timing:`off-the-grid speedup "exact,
# 1,000,000"/"NUFFT, 1,000,000" @nvidia-h100-80gb-hbm3` as fast, and at ten million it
# was :timing:`off-the-grid speedup "exact, 10,000,000"/"NUFFT, 10,000,000"
# @nvidia-h100-80gb-hbm3`.
#
# Don't call these speed-ups, because neither side did as well as it can. The NUFFT
# prepares each transform anew, though the coordinates never change. And the exact form
# mostly waits for Python. The GPU is busy for less than a tenth of each step. The rest
# are *launches*: Python asks the GPU to start one operation after the other. The time
# for these launches varied by a third, although the work was the same. With a million
# visibilities, the GPU itself works more than eighty times as long for the NUFFT as for
# the exact form. So if launches cost nothing, that's how much you'd gain. If you time a
# NUFFT yourself, ``%timeit`` sees little more than the launches, so :doc:`wait for the
# GPU </tutorials/2_devices/07_timing_it_right>`.
#
# .. holds::
#
#    nufft = row("off-the-grid/NUFFT, 1,000,000")
#    exact = row("off-the-grid/exact, 1,000,000")
#    6 < nufft.median / exact.median < 7
#    80 < nufft.device_seconds / exact.device_seconds < 90
#    counts = "10,000", "100,000", "1,000,000", "10,000,000"
#    steps = [row(f"off-the-grid/exact, {n}") for n in counts]
#    all(step.device_seconds < step.median / 10 for step in steps)
#    times = [step.median for step in steps]
#    near(max(times) / min(times), 4 / 3, 0.02)
#
# In the figure at the top, from a million on, the H100's marks lie *below* the line. Up
# to a million, most of the NUFFT's time is a fixed cost. The exact step has one, too:
# its launches, which ``fit`` :doc:`records and replays
# </tutorials/4_imaging/08_faster>`. On the H100 it also takes more steps until the
# set-up has paid for itself: more than a hundred with a million visibilities, instead
# of a handful. So how many visibilities can you afford? All of them.
#
# When it goes wrong
# ------------------
#
# We take a source that is a thousand times as strong, against the noise, as the one
# above, and ask for the :math:`\chi^2` of the *true* image. Divided by twice the number
# of visibilities, it should be 1.

u, v, _, _ = observed(10**5)
quiet, rng = sigma / 1000, np.random.default_rng(seed=1)
noise = rng.normal(scale=quiet, size=(2, u.size))
data = visibilities(truth, u, v, coords.cell_size)[0].numpy() + noise[0] + 1j * noise[1]
weight = np.full(u.size, quiet**-2)
strong = ExactLikelihood(u, v, data, weight, coords.cell_size, npix, device=device)
lost = strong(sky).item() / (2 * u.size)
strong.recentre(sky)
kept = strong(sky).item() / (2 * u.size)
print(f"χ² of the truth: {lost:.2f}, and after recentre(): {kept:.2f}")

# %%
# The :math:`\chi^2` of the truth isn't 1, and nobody has warned you. The parabola
# begins at a dark sky, where :math:`\chi^2` is the whole power of the source, and then
# subtracts nearly all of it again. That is like weighing the captain by weighing the
# ship with and without him. ``float32`` has seven digits, and here the difference sits
# in the eighth. ``recentre`` computes the coefficients once more, from a *reference
# image* near the solution. ``fit`` does this by itself when it's needed. In a loop of
# your own, call ``recentre`` with your image now and then.
#
# When should you *not* use the exact form? If each step changes the data or the
# weights, as when you fit the :term:`phases <phase>` of your antennas together with the
# image. Then draw some visibilities at random in each step, a :term:`mini-batch`, and
# use the NUFFT. Don't do it for speed: on the EPYC, ten thousand of them took
# :timing:`off-the-grid median "NUFFT, 10,000" @cpu-amd-epyc`, and *all* of a million,
# in the exact form, :timing:`off-the-grid median "exact, 1,000,000" @cpu-amd-epyc`. If
# the phases change only now and then, give the corrected data to ``exact.replace(…)``,
# once in each round of :doc:`self-calibration </tutorials/4_imaging/03_real_sky>`.
#
# NUFFT and FFT disagree: signs of odd modes, units, and the adjoint
# ------------------------------------------------------------------
#
# Do you want the visibilities of an image at your own u and v? The call of finufft,
# with its units, signs and centre, is :doc:`at the end of the page on visibilities
# </tutorials/4_imaging/04_visibilities>`. If a NUFFT differs from NumPy's FFT, it's
# mostly the origin: finufft counts modes from ``-n // 2``, and NumPy from 0. With
# ``modeord=1`` they have NumPy's order. NumPy's pixel ``j`` is the point ``2 * np.pi *
# j / n``. If you move the points by half a turn, every odd mode changes its sign.
#
# The way back to pixels is the *adjoint*, which finufft calls type 1. But it isn't the
# inverse: it gives you the dirty image. finufft sums without a factor. So for a dirty
# image in Jy a beam, divide by the sum of the weights. Visibilities of 1 then give 1 at
# the phase centre. If you first divide the data by how densely they lie, which is
# called *density compensation*, you only change its :term:`weighting`. For the image
# itself you need a fit, such as the one above. The gradient of :math:`\chi^2` is a type
# 1, too: of the weighted residuals, data minus model, times −2. So don't sum over
# visibilities × pixels at once, which runs out of memory.
#
# Single precision: why is the NUFFT's error larger than eps?
# -----------------------------------------------------------
#
# Because ``float32`` rounds the coordinates before the NUFFT begins. The phase at a
# pixel is the point's coordinate times the number of the pixel, counted from the
# middle. At the edge of ``n`` pixels that's up to ``n / 2`` half turns. ``float32``
# spends some of its seven digits on counting the turns, and fewer are left for the
# fraction of a turn, which is all that matters. The error is about ``5e-8 * n``,
# however small the ``eps`` or *tolerance* that you ask for. If you need less, compute
# in ``float64``. To see the error of your own NUFFT, compare some of its outputs with
# the sum that defines them. For one dimension, from points to a grid (*type 1*),
# that's:
#
# .. code-block:: python
#
#    x32, c32 = x.astype(np.float32), c.astype(np.complex64)  # x in [-π, π)
#    k = np.arange(-n // 2, n // 2)[:256]
#    truth = np.exp(1j * np.outer(k, x)) @ c  # in float64
#    off = finufft.nufft1d1(x32, c32, n, eps=1e-6, isign=1)[:256] - truth
#    print(np.linalg.norm(off) / np.linalg.norm(truth))
#
# cuFINUFFT is slower than the CPU: plan once, transform often
# ------------------------------------------------------------
#
# Each call of ``cufinufft.nufft2d2`` plans the transform, sorts the coordinates,
# transforms once, and forgets all of that. If the coordinates don't change, keep the
# plan. And if you have many images for the same coordinates, hand them over in one
# call:
#
# .. code-block:: python
#
#    plan = cufinufft.Plan(2, (256, 256), n_trans=24, eps=1e-6, dtype="complex64")
#    plan.setpts(x, y)  # float32, on the GPU; again if they change
#    vis = plan.execute(images)  # (24, 256, 256), as often as you like
#
# ``finufft.Plan`` is the same on the CPU. Then time ``execute`` alone, after a first
# call and with all arrays on the GPU, and wait for it. `Somebody`__ whose GPU was
# slower than the CPU found that planning and CUDA's first FFT took most of the time. If
# yours is still slower, there are too few points, or you compute in ``float64`` on a
# card for games (:doc:`/tutorials/2_devices/18_slow_on_the_gpu`).
#
# And *error: not enough shared memory*, with zeros for a result? That's an old
# cuFINUFFT, in three dimensions, type 1, ``complex128``, with an ``eps`` below 1e-3.
# Update it, pass ``gpu_method=1``, which `needs none`__, or compute in ``complex64``.
#
# __ https://github.com/flatironinstitute/finufft/issues/385
# __ https://github.com/flatironinstitute/finufft/pull/343
#
# Your turn
# ---------
#
# Write the exact form yourself, for a tiny sky. ``matrix`` has a row for each
# visibility and a column for each pixel, so ``matrix @ image`` predicts them all, as
# complex numbers. Your function gets it once, with ``data`` and ``weight``, and returns
# a function of the image that gives
#
# .. math::
#
#     \chi^2 = \sum_k w_k \left| D_k - (\text{matrix} \cdot I)_k \right|^2
#
# without any array as long as the data. The checker overwrites all three arrays as soon
# as you have returned. The conjugate of a matrix, transposed, is ``matrix.conj().T``.
# Put your answer where the dots are, and run ``firstlight try 10_off_the_grid.py``.


def exact_form(matrix, data, weight): ...


# %%


# folded: The checker
def find_problem(answer, nvis, pixels):
    rng = np.random.default_rng(seed=nvis)
    shape = nvis, pixels
    matrix = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    data = rng.normal(size=nvis) + 1j * rng.normal(size=nvis)
    weight = rng.uniform(0.1, 5, size=nvis)
    images = [np.zeros(pixels), np.ones(pixels), *rng.uniform(size=(3, pixels))]
    right = [np.sum(weight * np.abs(data - matrix @ one) ** 2) for one in images]
    function = answer(matrix, data, weight)
    if function is None:
        return "exact_form returns nothing yet"
    if not callable(function):
        return "it should return a function of the image"
    if large := [x.shape for x in held(function) if x.size > pixels**2]:
        return f"it keeps an array of shape {large[0]}"
    d, K = matrix.conj().T @ (weight * data), (matrix.conj().T * weight) @ matrix
    d_plain, K_plain = matrix.T @ (weight * data), (matrix.T * weight) @ matrix
    matrix[:], data[:], weight[:] = np.nan, np.nan, np.nan
    for number, (one, chi2) in enumerate(zip(images, right, strict=True)):
        got = function(one)
        where = f"the image {np.round(one, 2)}" if number else "a dark sky"
        if np.isnan(got):
            return "it still uses the data"
        if math.isclose(np.real(got), chi2, rel_tol=1e-9):
            if abs(np.imag(got)) > 1e-6 * abs(got):
                return "χ² is complex: take the real part of what should be real"
            continue
        c, linear, square = right[0], 2 * np.real(d @ one), np.real(one @ K @ one)
        plain = [2 * np.real(d_plain @ one), np.real(one @ K_plain @ one)]
        ways = {
            ". Conjugate the matrix, not only transpose it":
                [c - x + y for x in (linear, plain[0]) for y in (square, plain[1])],
            ". The middle term comes twice, from both sides": [c - linear / 2 + square],
            ". The middle term has the other sign": [c + linear + square],
        }  # fmt: skip
        fits = [hint for hint, of in ways.items() if np.isclose(np.real(got), of).any()]
        hint = fits[0] if fits else ""
        return f"for {where} it gives {np.real(got):.4g} instead of {chi2:.4g}{hint}"
    return ""


# %%

# folded code: What check says


def held(function):
    """Return the arrays that a function keeps."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", ()) or ()]
    inside = [function, *cells, *(getattr(function, "args", ()))]
    return [x for x in inside if isinstance(x, np.ndarray)]


def check(answer):
    for nvis, pixels in ((200, 3), (501, 4), (50, 1)):
        try:
            problem = find_problem(answer, nvis, pixels)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return f"Not yet. {nvis} visibilities, {pixels} pixels: {problem}."
    return "Right: from now on, the number of visibilities costs you nothing."


print(check(exact_form))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. χ² is a parabola in the image. Compute its coefficients once, and a step no")
print(
    f"   longer touches the data: with {top:,} of them that gave {ratios[top]:.0f} ×."
)
print(
    "2. The coefficients belong to fixed data. If each step changes them, as with the"
)
print("   phases of antennas, use the NUFFT, and mini-batches.")
print(
    f"3. A strong signal needs recentre(): without it, χ² of the truth was {lost:.2f},"
)
print(f"   and with it {kept:.2f}.")

# %%
# Solution
# --------

# solution


def exact_form_solution(matrix, data, weight):
    c = np.sum(weight * np.abs(data) ** 2)
    d = (matrix.conj().T @ (weight * data)).real
    K = ((matrix.conj().T * weight) @ matrix).real
    return lambda image: c - 2 * d @ image + image @ K @ image


print(f"Our solution: {check(exact_form_solution)}")
