"""
What can you see before you fit?
================================

The :term:`dirty image`: the :term:`visibilities <visibility>`, added up as waves
without any model. It is the sky convolved with the :term:`dirty beam`, plus noise. Of
three ways to compute it, :term:`gridding` to the nearest cell takes the least work but
is wrong by more than the noise, the :term:`direct sum` is exact but slow, and a NUFFT
is as exact as you ask: the one to take. This page is for anyone who looks at
visibilities before fitting them, or who writes code to image them.

**You will learn**

- why, without noise, the dirty image is exactly the sky convolved with the beam;
- how weights trade :term:`resolution` against noise;
- to write a gridding kernel for a GPU, and to see what error gridding makes;
- to choose between gridding, a NUFFT and the direct sum, by time *and* error.

**Time:** 13 minutes. **Needs:** any computer. On a CUDA GPU your kernel runs on it.
"""

# %%
# Predict
# -------
#
# A visibility :math:`V_k`, measured at :math:`(u_k, v_k)` with the weight :math:`w_k`,
# is the amplitude and phase of a wave on the sky. The dirty image is the weighted mean
# of these waves:
#
# .. math::
#
#     I = \frac{\sum_k w_k \mathrm{Re}\, V_k e^{2 \pi i (u_k l + v_k m)}}{\sum_k w_k}
#
# There are three ways to compute it for :math:`M` visibilities (16 bytes each, in
# ``float32``) and :math:`N` pixels:
#
# - *The direct sum* adds every wave at every pixel, in :math:`4 M N` operations.
# - *Gridding* adds each visibility to one cell of a grid, in two additions, and then
#   makes one :term:`fast Fourier transform` (FFT) of about :math:`5 N \log_2 N`
#   operations.
# - *A NUFFT* (non-uniform FFT) adds each visibility to a patch of cells (on a side: one
#   more than the digits that you want). Its cells are half as wide, so that its FFT has
#   :math:`4 N` of them.

# sphinx_gallery_thumbnail_number = 1
from firstlight.timing.specs import spec

npix, flops = 180, {"direct": 4 * 180**2, "NUFFT, 6 digits": 4 * 7**2, "gridding": 2}
for card in ("RTX 4090", "H100 SXM"):
    print(f"{card}, {npix} x {npix} pixels, 100 million visibilities, at least:")
    for name, each in flops.items():
        floor = max(16 / spec(card, "bandwidth"), each / spec(card, "fp32"))
        print(f"  {name:>15}: {1e3 * 1e8 * floor:7.2f} ms")

# %%
# Memory bandwidth sets the lower bound of the last two, so that on paper a NUFFT takes
# no longer than gridding. Write down how long it really takes, and how wrong a gridded
# image is.
#
# Sky, beam, dirty image
# ----------------------
#
# Here is a disk whose true image you know, observed by 43 antennas as in
# :doc:`/tutorials/4_imaging/04_visibilities`. ``DirtyImager`` makes two images: one of
# the data, and one of what the same telescope would show of a point source of 1 Jy in
# the centre, which is the *dirty beam*.

import math
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.imaging import DirtyImager, GridCoords, Point, fit_beam, plot_image
from firstlight.imaging.coordinates import packed_to_sky
from firstlight.imaging.units import ARCSEC
from firstlight.imaging.fourier import adjoint, image_by_gridding
from firstlight.imaging.simulate import observe, protoplanetary_disk, sky_image
from firstlight.imaging.simulate import uv_track, with_noise
from firstlight.kernels import blocks_for, cuda, simulated

# %%

device = best_device()
on_cuda = device.type == "cuda" and not simulated()
coords = GridCoords(cell_size=0.03, npix=npix)
track = uv_track(n_times=100 if on_cuda else 17)

disk = protoplanetary_disk(flux=0.25, size=1.7)
truth = sky_image(disk, coords.cell_size, npix)
seen = with_noise(observe(disk, track), 5e-3, seed=1)
u, v, data, weight = (each[0] for each in (seen.uu, seen.vv, seen.data, seen.weight))
imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
dirty, beam = (cube[0] for cube in imager.get_dirty_image(weighting="natural"))
print(f"{u.size:,} visibilities, of {332 * 903:,} in a whole night")

# %%


# figure
def maps(finding, images, unit, ticks, label, **look):
    size = (7.2, 4.3 if len(images) == 3 else 3.6)
    fig, axes = plt.subplots(1, len(images), figsize=size, layout="constrained")
    fig.suptitle(finding)
    for ax, (title, image) in zip(axes, images.items(), strict=True):
        drawn = plot_image(image, coords, ax=ax, unit=None, **look)
        ax.set_title(title, size=10)
        ax.set(xticks=[2, 0, -2], yticks=[], xlabel="arcsec", ylabel="")
    bar = {"location": "bottom", "aspect": 40, "ticks": ticks, "label": unit}
    fig.colorbar(drawn, ax=axes, **bar)
    fig.set_label(label)


label = "The truth, a disk with two rings; the beam, a core with ripples down to "
label += f"{beam.min():.0%} of it; the dirty image, blurred rings in a dark bowl."
panels = {"truth": truth / truth.max(), "beam": beam, "dirty": dirty / dirty.max()}
finding = "The dirty image is the sky convolved with the beam, plus noise"
maps(finding, panels, "of the peak", [0, 0.1, 0.3, 1], label, vmin=-0.06, vmax=1)
plt.show()

# %%
# An exact identity
# -----------------
#
# A point elsewhere gives the same beam, shifted to its position. A sky is a sum of
# points, and all of this is linear. So, without noise, *the dirty image is the sky
# convolved with the dirty beam*, exactly. Test it with three points. (The beam is made
# twice as wide so that it can be shifted.)

points = [Point(1.0), Point(0.7, east=1.2, north=-2.1), Point(-0.4, -1.5, 0.63)]
three = observe(points, track).data[0]
measured = (u, v, weight, three.real, three.imag)
of_three = DirtyImager(coords, *measured)
image = of_three.get_dirty_image("natural", check_visibility_scatter=False)[0][0]
twice = GridCoords(coords.cell_size, 2 * npix)
wide_beam = DirtyImager(twice, *measured).get_dirty_beam(weighting="natural")[0]
convolved = np.zeros((npix, npix))
for point in points:
    column = round(npix / 2 + point.east / coords.cell_size)
    row = round(npix / 2 - point.north / coords.cell_size)
    convolved += point.flux * wide_beam[row : row + npix, column : column + npix]
identity = np.abs(image - convolved).max()
assert identity < 1e-8, identity
print(f"dirty image - shifted beams: {identity:.0e} Jy/beam")

# %%
# The ripples of the beam, its :term:`sidelobes <sidelobe>`, come from the gaps between
# the tracks in the uv plane. A feature no brighter than the peak of your image times
# the largest sidelobe may be one.
#
# Which weights?
# --------------
#
# You may image with weights other than the :math:`w_k = 1/\sigma_k^2` of the noise:
#
# - *natural*: :math:`w_k`, from the noise alone. Short baselines dominate, because they
#   are the most numerous.
# - *uniform*: :math:`w_k / D`, where :math:`D` is the sum of the weights in the cell of
#   :math:`k`, so that every filled cell counts the same, and long baselines count more.
# - :term:`Briggs`: :math:`w_k / (1 + f^2 D)`. Summed over all cells,
#   :math:`f^2 = (5 \cdot 10^{-R})^2 \sum D / \sum D^2`. The number :math:`R`, *robust*,
#   goes from uniform (-2) to natural (2).
#
# The resolution is the full width at half maximum of a Gaussian fitted to the beam. The
# noise is measured in an image of noise alone. *Lowest* is the most negative sidelobe.

noise = with_noise(observe([], track), 5e-3, seed=2).data[0]
of_noise = DirtyImager(coords, u, v, weight, noise.real, noise.imag)
HOW = {"natural": ("natural", None), "robust 0.5": ("briggs", 0.5)}
HOW["uniform"] = ("uniform", None)
images, fitted, rms = {}, {}, {}
print("weights       arcsec   µJy/beam  lowest")
for name, how in HOW.items():
    images[name] = imager.get_dirty_image(*how)[0][0]
    noisy, its_beam = (cube[0] for cube in of_noise.get_dirty_image(*how))
    fitted[name], rms[name] = fit_beam(its_beam, coords.cell_size), noisy.std()
    size = f"{fitted[name].major:.2f} x {fitted[name].minor:.2f}"
    print(f"{name:<10} {size} {1e6 * rms[name]:>7.1f} {its_beam.min():>9.1%}")
print(f"natural, from its weights: {1e6 / np.sqrt(weight.sum()):.1f}")

# %%
# Natural weighting has the least noise, which you can know beforehand:
# :math:`1/\sqrt{\sum w_k}`. Uniform weighting has the finest beam, but more noise and
# deep sidelobes. Robust 0.5 is finer than natural for little extra noise.
#
# Two units, and a missing flux
# -----------------------------
#
# A dirty image is in :term:`Jy/beam`: a point source of 1 Jy has a peak of 1, whatever
# the weights. For an extended source the number depends on the beam. To compare with
# the sky, divide by the area of the fitted Gaussian (``unit="Jy/arcsec^2"``):

panels = {name: image / fitted[name].area for name, image in images.items()}
flux = {name: image.sum() * coords.cell_size**2 for name, image in panels.items()}
print("flux in the field, of 0.25 Jy:", *(f"{name} {flux[name]:.2f}" for name in flux))

# %%

# figure
panels = {"truth": truth} | panels
label = "Beside the truth: natural blurred, in a dark bowl; uniform sharp and mottled."
wide, narrow = fitted["natural"].major, fitted["uniform"].major
finding = f"Uniform weights: a beam {wide / narrow:.1f} × finer, but "
finding += f"{rms['uniform'] / rms['natural']:.1f} × the noise"
maps(finding, panels, "Jy/arcsec²", [0, 0.1, 0.2], label, vmin=-0.02, vmax=0.2)
plt.show()

# %%
# With natural weights the image is *negative* around its bright part, a bowl, and in
# all three flux is missing. Both are due to what was not measured. The flux of a sky is
# its visibility at :math:`u = v = 0`, but no baseline has length zero. So a dirty image
# adds up to zero if it is wide enough, because what is positive on the disk is negative
# elsewhere. No weighting corrects that. A fit can, by a prior, such as that the sky
# is nowhere negative: :doc:`/tutorials/4_imaging/01_first_light`.
#
# A gridding kernel
# -----------------
#
# On a GPU, gridding takes one thread for each visibility, as in the last puzzle of
# :doc:`/tutorials/3_kernels/14_puzzles`. The remainder ``%`` puts negative frequencies
# at the end, where an FFT expects them. Because several threads may update the same
# cell, they add *atomically*. Taking the real part at the end accounts for the mirror
# image of each visibility, at :math:`(-u, -v)`.


@cuda.jit
def to_cells(u, v, re, im, grid_re, grid_im):
    k = cuda.grid(1)
    if k < u.size:
        width, half = grid_re.shape[0], np.float32(0.5)
        column = np.int32(math.floor(u[k] + half)) % width
        row = np.int32(math.floor(v[k] + half)) % width
        cuda.atomic.add(grid_re, (row, column), re[k])
        cuda.atomic.add(grid_im, (row, column), im[k])


def by_bincount(u, v, values):
    column, row = (np.floor(x + np.float32(0.5)).astype(int) % npix for x in (u, v))
    return np.bincount(row * npix + column, values, npix**2).reshape(npix, npix)


# %%
# Does it agree *exactly* with ``np.bincount``? The order of threads changes how a sum
# is rounded (:doc:`/tutorials/3_kernels/07_reductions`), so check it with small
# integers:

rng = np.random.default_rng(seed=3)
few = rng.permutation(u.size)[:1501]  # an odd number
cells = [(x[few] / coords.du).astype(np.float32) for x in (u, v)]
whole = [rng.integers(-9, 10, few.size).astype(np.float32) for _ in range(2)]
grids = [cuda.to_device(np.zeros((npix, npix), np.float32)) for _ in range(2)]
to_cells[blocks_for(few.size, 128), 128](*map(cuda.to_device, cells + whole), *grids)
for grid, values in zip(grids, whole, strict=True):
    assert np.array_equal(grid.copy_to_host(), by_bincount(*cells, values))
where = "in the simulator" if simulated() else "on the GPU"
print(f"{where}, {few.size:,} visibilities: all cells equal those of np.bincount")

# %%
# The 32 threads of a warp add at once, but additions to the same cell are serialized.
# How many coincide depends on the order of your data. Count it; on a CUDA
# GPU, *Measure* times it.

# folded: How many threads of a warp add to the same cell
uvs = uv_track().uvw[:, :2].reshape(332, -1, 2) * (230e9 / 299_792_458 / coords.du)
queue = {}
for name, ordered in {"time": uvs, "baseline": uvs.transpose(1, 0, 2)}.items():
    column, row = np.floor(ordered.reshape(-1, 2).T + 0.5)
    warps = (row * npix + column)[: len(row) // 32 * 32].reshape(-1, 32)[::9]
    queue[name] = np.mean([np.unique(w, return_counts=True)[1].max() for w in warps])
    print(f"ordered by {name}: {queue[name]:.1f} of 32 threads add to one cell")

# %%
# In order of time, a warp holds 32 baselines, which seldom share a cell. In order of
# baseline, its threads follow one track, and most additions are serialized.
#
# Check: the direct sum
# ---------------------
#
# To see how wrong a grid is, you need the right answer. In the exponent, rows and
# columns separate, so that the direct sum is two matrix products. (``x`` and ``y`` are
# the turns of a wave from one pixel to the next, without whole turns, so that
# ``float32`` has enough digits.)


def direct(chunk, *given):
    like = {"dtype": given[0].dtype, "device": given[0].device}
    pixel = torch.arange(npix, **like) - npix / 2
    image = torch.zeros(npix, npix, **like)
    for re, im, x, y in zip(*(each.split(chunk) for each in given), strict=True):
        up = 2 * math.pi * torch.outer(pixel, y)
        east = 2 * math.pi * torch.outer(x, -1 - pixel)
        c, s = torch.cos(up), torch.sin(up)
        image += (c * re - s * im) @ torch.cos(east)
        image -= (s * re + c * im) @ torch.sin(east)
    return image


wave = weight * data / weight.sum()
turns = [x * coords.cell_size * ARCSEC for x in (u, v)]
columns = [wave.real.copy(), wave.imag.copy(), *(x - np.round(x) for x in turns)]
columns = list(map(torch.from_numpy, columns))
exact = direct(16384, *columns).numpy()

at = tuple(rng.integers(0, npix, (2, 101)))  # pixels, to check by the formula
east, north = (ARCSEC * c[at] for c in coords.sky_coordinates())
waves = np.exp(2j * np.pi * (np.outer(east, u) + np.outer(north, v)))
by_formula = np.abs((waves @ wave).real - exact[at]).max() / exact.max()
assert by_formula < 1e-12, by_formula
print(f"direct sum: off by {by_formula:.0e} of the peak, at 101 pixels")

# %%
# Where is a gridded image wrong?
# -------------------------------
#
# Moving a visibility to the middle of its cell changes its frequency by up to half a
# cell. In the centre of the field that has no effect, but at the edge it shifts the
# phase of the wave by up to a quarter turn. Averaged over a cell, such waves are
# fainter by :math:`\mathrm{sinc}` of the position in the field, from -1/2 to 1/2. Two
# remedies: divide by that; or distribute each visibility over 2 × 2 cells, half as
# wide, with more in the nearer ones, and divide by what *that* does
# (``image_by_gridding``).


def to_image(grid):
    return packed_to_sky(torch.fft.ifft2(grid, norm="forward").real)


def nearest():
    parts = (by_bincount(u / coords.du, v / coords.du, x) for x in columns[:2])
    return to_image(torch.complex(*map(torch.from_numpy, parts))).numpy()


fade = np.sinc((np.arange(npix) - npix // 2) / npix)
off = {"nearest cell": nearest()}
off["divided by sinc"] = nearest() / np.outer(fade, fade[::-1])
off["2 x 2 cells"] = image_by_gridding(wave[None], u, v, coords)[0]
off = {name: (image - exact) / exact.max() for name, image in off.items()}
worst = {name: float(np.abs(image).max()) for name, image in off.items()}
depth = 1 / np.sqrt(weight.sum()) / exact.max()  # the noise
middle, night = slice(npix // 4, -npix // 4), (332 * 903 / u.size) ** 0.5
print("error / noise    largest   rms  inner half  whole night")
for name, image in off.items():
    inner, whole = (np.sqrt(np.mean(x**2)) for x in (image[middle, middle], image))
    shares = [x / depth for x in (worst[name], whole, inner, night * whole)]
    print("{:<15}{:9.1f}{:6.1f}{:12.2f}{:13.1f}".format(name, *shares))

# %%

# figure
panels = {name: image / depth for name, image in off.items()}
label = "Errors of gridded images. By the nearest cell they grow to the edges; divided "
label += "by sinc, even more; with 2 x 2 cells all is pale. At most, times the noise: "
label += ", ".join(f"{x / depth:.0f}" for x in worst.values())
look = {"vmin": -12, "vmax": 12, "stretch": "linear", "cmap": "PuOr"}
finding = "Gridding errs most at the edges, and a division by sinc makes it worse"
maps(finding, panels, "error / noise", [-10, 0, 10], label, **look)
plt.show()

# %%
# The nearest cell is wrong by more than the noise, 2 × 2 cells only near the edge. But
# with more data the noise falls and the error stays (last column, a model).
# The division made the edges worse: only a part of the error is a loss of brightness.
# The rest is :term:`aliasing`: a gridded image is periodic, so that what belongs beyond
# one edge appears at the other, and the division amplifies it. A better shape (CASA's
# ``tclean`` takes a prolate spheroidal function), and patches as wide as your digits
# need, make the NUFFT of ``DirtyImager``, by `FINUFFT`__, whose error you set by
# ``eps``.
#
# __ https://finufft.readthedocs.io/en/latest/
#
# Measure
# -------
#
# Each row goes from weighted visibilities to one image. A CUDA GPU runs your kernel,
# and the NUFFT if ``cufinufft`` is installed. Any GPU runs the direct sum.

bench, error, typical = Bench("dirty-image", budget=1.7), {}, {}


def compare(name, call, *args):
    made = torch.as_tensor(call(*args)).cpu().double().numpy()
    error[name] = np.abs(made - exact).max() / exact.max()
    typical[name] = np.sqrt(np.mean((made - exact) ** 2)) / exact.max()
    on = device if "GPU" in name else "cpu"
    bench.time(name, call, *args, n=u.size, device=on)


def by_kernel(grid, *given):
    grid.zero_()
    on_card = [cuda.as_cuda_array(x) for x in (*given, *grid)]
    to_cells[blocks_for(len(given[0]), 128), 128](*on_card)
    return to_image(torch.complex(*grid))


def by_nufft(digits, *given):
    return adjoint(*given, coords.cell_size, npix, eps=10**-digits)


# %%

loose = [torch.from_numpy(x) for x in (wave[None] / coords.cell_size**2, +u, +v)]
compare("direct", direct, 16384, *columns)
error["direct"] = typical["direct"] = by_formula
compare("nearest cell", nearest)
compare("2 x 2 cells", image_by_gridding, wave[None], u, v, coords)
for digits in (2, 4, 8, 12):
    compare(f"NUFFT 1e-{digits}", by_nufft, digits, *loose)
if device.type != "cpu":
    single = [x.float().to(device) for x in columns]
    compare("direct, GPU", direct, 16384, *single)
if on_cuda:
    given = [(x / coords.du).float().to(device) for x in loose[1:]] + single[:2]
    grid = torch.zeros(2, npix, npix, device=device)
    compare("nearest cell, GPU", by_kernel, grid, *given)
    order = torch.from_numpy(np.lexsort((seen.time, *seen.antennas.T))).to(device)
    compare("cell, by baseline, GPU", by_kernel, grid, *(x[order] for x in given))
    moved = [x.to(device) for x in loose]
    for digits in (2, 4, 8, 12) if find_spec("cufinufft") else ():
        compare(f"NUFFT 1e-{digits}, GPU", by_nufft, digits, *moved)
bench.show()

# %%
# Time alone does not decide, so plot the error beside it:

# measured figure

from firstlight.display import BLUE, GREY, ORANGE, PURPLE

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
spent = {name: 1e3 * bench[name].median for name in error}
colours = {"cell": ORANGE, "NUFFT": BLUE, "direct": PURPLE}
for name, point in {x: (spent[x], typical[x]) for x in error}.items():
    marker, fill = ("s", "none") if "GPU" in name else ("o", None)
    colour = next(colours[way] for way in colours if way in name)
    ax.plot(*point, marker, color=colour, mfc=fill, ms=8)
    ax.plot([point[0]] * 2, [point[1], error[name]], color=colour, marker="", lw=1.5)
    ax.plot(point[0], error[name], "_", color=colour, ms=9)
    below = 3 if typical[name] > depth else -11  # clear of the dashed line
    ax.annotate(name, point, (9, below), textcoords="offset points", size=10)
ax.axhline(depth, color=GREY, ls="--")
right = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
ax.annotate("noise of the image", (1, depth), **right)
ax.set(xscale="log", yscale="log", xlabel="time, ms")
ax.set_ylabel("error / peak (dot: rms, dash: largest)")
ax.margins(x=0.25, y=0.1)
ax.spines[["top", "right"]].set_visible(False)
typically = typical["nearest cell"] / depth
ax.set_title(
    f"The nearest cell errs by {typically:.1f} × the noise, a NUFFT by less than eps"
)
fig.set_label(
    f"Error against time. The noise is {depth:.1%} of the peak; the nearest cell is "
    f"off by {error['nearest cell']:.0%} at most. The NUFFT falls steeply, to "
    f"{error['NUFFT 1e-12']:.0e} in {spent['NUFFT 1e-12']:.0f} ms. The direct sum is "
    f"exact, and takes {spent['direct'] / spent['NUFFT 1e-12']:.0f} times as long."
)
plt.show()

# %%
# The error of the NUFFT falls by a factor of ten with each digit, while its patch grows
# by only one cell on a side, so that an ``eps`` below the noise is cheap: *take the
# NUFFT*. Gridding does less work (in NumPy, 2 × 2 cells may still take longer), but no
# later step can remove its error. The direct sum is a good check and no more, because
# its time grows with the number of pixels, too.
#
# On the newest GPU on record the direct sum takes
# :timing:`dirty-image median "direct, GPU" @gpu`, and your kernel with its FFT
# :timing:`dirty-image median "nearest cell, GPU" @gpu`.
#
# How fast is a NUFFT on a real GPU? The authors of FINUFFT and of torchkbnufft measured
# theirs, and our floors are far below.
#
# .. measured-by-others:: nufft-a6000 toeplitz-gp100
#
# Where this stops being true
# ---------------------------
#
# - *A wide field.* A wider image has smaller cells, so that fewer visibilities share
#   one, and uniform weights approach natural ones. If the sky is not flat:
#   :doc:`/scope`.
# - *Sources outside.* A bright source beyond the edge is aliased into a gridded image,
#   as a source that does not exist. A NUFFT shows only its sidelobes.
# - *float32*, which most GPUs prefer. A NUFFT reaches about 6 digits in it, and needs
#   float64 for more.
#
# Exercise
# --------
#
# How deep is your image, before you make it? Write a function of ``weight``, which is
# :math:`1/\sigma^2`, and of ``used``, the weights that you image with, that returns the
# noise of the dirty image in Jy/beam. (A flagged visibility is zero in both.)


def image_noise(weight, used): ...


# %%


# folded: The checker
def check(answer):
    some = np.array([1.0, 4.0, 0.25, 2.0])
    natural, flagged = some.sum() ** -0.5, np.append(some, 0.0)
    cases = [
        (np.ones(4), np.ones(4), 0.5, "independent noise adds up as squares"),
        (some, some, natural, "the weight is one over the square of sigma"),
        (some, 7 * some, natural, "7 times the weights make the same image"),
        (some, np.ones(4), 5.75**0.5 / 4, "a wave's noise is used / sqrt(weight)"),
        (flagged, flagged, natural, "leave flagged visibilities out"),
    ]
    for weight, used, expected, hint in cases:
        try:
            with np.errstate(all="ignore"):
                got = float(answer(weight.copy(), used.copy()))
        except Exception as error:
            return f"Not yet: that gave no number ({type(error).__name__})."
        if not np.isclose(got, expected):
            return f"Not yet: {got:.3g} should be {expected:.3g}. Hint: {hint}."
    return "Right: you know the noise before you make the image."


# %%

print(check(image_noise))

# %%
# Three lines to remember
# -----------------------

# remember
noisier, digits = rms["uniform"] / rms["natural"], spent["NUFFT 1e-4"]
print("1. Dirty image = sky convolved with the beam, plus noise. Uniform weights:")
print(f"   the finest beam, {noisier:.1f} times the noise.")
print("2. No baseline has length zero, so flux is missing. What a fit puts there")
print("   comes from its prior.")
print(f"3. The nearest cell is off by up to {worst['nearest cell']:.0%} of the peak. A")
print(f"   NUFFT is as exact as you ask: of {u.size:,} visibilities, eps=1e-4 takes")
print(f"   {digits / spent['2 x 2 cells']:.2g} × the time of 2 × 2 cells.")

# %%
# Solution
# --------

# solution


def image_noise_solution(weight, used):
    good = weight > 0
    return np.sqrt(np.sum(used[good] ** 2 / weight[good])) / np.sum(used)


print(f"Our solution: {check(image_noise_solution)}")
for name, how in HOW.items():
    *_, used = next(imager.imaging_weights(0, *how))
    told = 1e6 * image_noise_solution(weight, used)
    print(f"{name:>10}: {told:.1f} µJy/beam, and was {1e6 * rms[name]:.1f}")
