"""
What can you see before you fit?
================================

You have a file of :term:`visibilities <visibility>`, and you'd like to see something
before you set up a fit. There's one image that you can make before you decide anything.
You take the wave that each row stands for, you add up all the waves, and you look.

**Write down a guess: is it blurred, is its brightness right, and can it be negative
where the sky isn't?** By the end you'll be able to make such an image in four lines of
NumPy and to say which of its features are real. And you'll know three ways to compute
it, how long each takes, and how far off it is.

**Needs:** any computer, and :doc:`visibilities </tutorials/4_imaging/04_visibilities>`.
With a GPU, the page runs on it as well.
"""

# folded: The observation: a disk with two rings, 43 antennas, noise
# sphinx_gallery_thumbnail_number = 1
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from numba import cuda

from firstlight import Bench, best_device
from firstlight_imaging import DirtyImager, GridCoords, Point, fit_beam, plot_image
from firstlight_imaging.coordinates import packed_to_sky
from firstlight_imaging.units import ARCSEC
from firstlight_imaging.fourier import adjoint, image_by_gridding
from firstlight_imaging.fourier.nufft import find_cufinufft
from firstlight_imaging.simulate import observe, protoplanetary_disk, sky_image
from firstlight_imaging.simulate import uv_track, with_noise
from firstlight_kernels import blocks_for, simulated

npix, flops = 180, {"direct": 4 * 180**2, "NUFFT, 6 digits": 4 * 7**2, "gridding": 2}
device = best_device()
on_cuda = device.type == "cuda" and not simulated()
coords = GridCoords(cell_size=0.03, npix=npix)
track = uv_track(n_times=100 if on_cuda else 17)

disk = protoplanetary_disk(flux=0.25, size=1.7)
truth = sky_image(disk, coords.cell_size, npix)
seen = with_noise(observe(disk, track), 5e-3, seed=1)

# %%
# Try it
# ------
#
# Our data are of a disk with two rings. A visibility :math:`V_k`, measured at
# :math:`(u_k, v_k)`, is the amplitude and phase of one wave on the sky. Let *l* and *m*
# be the angles from the middle of the image, to the east and to the north. We draw each
# wave, multiply it by its visibility, and take the mean, with the weights :math:`w_k =
# 1/\sigma_k^2` from the file:
#
# .. math::
#
#     I(l, m) = \frac{\sum_k w_k \mathrm{Re}\, V_k e^{2 \pi i (u_k l + v_k m)}}
#     {\sum_k w_k}
#
# We do it twice: for the data, and for a star of 1 Jy in the middle of the field, all
# of whose visibilities are 1. On the H100 we used 90,300 rows, and on computers without
# a GPU only 15,351, to save time.

u, v, data, weight = (each[0] for each in (seen.uu, seen.vv, seen.data, seen.weight))
offsets = ARCSEC * coords.sky_coordinates()[0][0]  # of the columns, to the east
up = np.exp(2j * np.pi * np.outer(ARCSEC * coords.sky_coordinates()[1][:, 0], v))
along = np.exp(2j * np.pi * np.outer(u, offsets))

dirty = ((up * (weight * data / weight.sum())) @ along).real
beam = ((up * (weight / weight.sum())) @ along).real
print(f"{u.size:,} rows; peak {dirty.max():.4f}, lowest {dirty.min():.4f}")

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


label = "The truth, a disk with two rings; a star, a core with ripples down to "
label += f"{beam.min():.0%} of it; the image of the data, blurred rings in a dark bowl."
panels = {"the true sky": truth / truth.max(), "a star": beam}
panels["the data"] = dirty / dirty.max()
finding = "The same sum of waves, for a single star and for the data"
maps(finding, panels, "of the peak", [0, 0.1, 0.3, 1], label, vmin=-0.06, vmax=1)
plt.show()

# %%
# The disk is blurred, it sits in a dark bowl, and it's covered with ripples that the
# sky doesn't have. The star in the middle panel has the same blur and the same ripples,
# so they come from the telescope. They'd cancel if we had measured all waves. The image
# of a point is called the :term:`dirty beam`, its ripples are its :term:`sidelobes
# <sidelobe>`, and the width of its core is the :term:`resolution`. The image of the
# data is the :term:`dirty image`.
#
# A sky is many points side by side, and each leaves such a beam. In other words, *the
# dirty image is the sky convolved with the dirty beam, plus noise.* That's not an
# approximation: below, we check it with three stars.
#
# **One minute:** from 0.4 arcsec outwards, the beam above has ripples of up to 3% of
# its peak. Your image shows a source of 100 mJy, and one arcsec away a faint spot of 2
# mJy. Would you publish the spot?

# folded: An exact identity, checked with three stars
points = [Point(1.0), Point(0.7, east=1.2, north=-2.1), Point(-0.4, -1.5, 0.63)]
three = observe(points, track).data[0]
measured = (u, v, weight, three.real, three.imag)
of_three = DirtyImager(coords, *measured)
image = of_three.get_dirty_image("natural", check_visibility_scatter=False)[0][0]
twice = GridCoords(coords.cell_size, 2 * npix)  # wide enough to be shifted
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
# Better not: a sidelobe of the source beside it can reach 3 mJy.
#
# Which weights?
# --------------
#
# So far each row counted by its noise: the noisier it is, the smaller its weight. Now
# divide the plane of *u* and *v* into cells. What if every *cell* had one vote, however
# many rows fall into it? That's called *uniform* weighting, and what we did is called
# *natural*. Between the two lies :term:`Briggs`' weighting, whose number *robust* goes
# from −2 (uniform) to 2 (natural). **Which of them has the least noise, and which the
# finest beam?** ``DirtyImager`` does the sum for us from now on.

imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
noise = with_noise(observe([], track), 5e-3, seed=2).data[0]  # of an empty sky
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
assert np.allclose(images["natural"], dirty, atol=1e-6 * dirty.max())

# %%

# figure
in_pixels = {name: image / fitted[name].area for name, image in images.items()}
panels = {"the true sky": truth} | in_pixels
label = "Beside the truth: natural blurred, in a dark bowl; uniform sharp and mottled."
coarse, narrow = fitted["natural"].major, fitted["uniform"].major
finding = f"Uniform weights: a beam {coarse / narrow:.1f} × finer, but "
finding += f"{rms['uniform'] / rms['natural']:.1f} × the noise"
maps(finding, panels, "Jy/arcsec²", [0, 0.1, 0.2], label, vmin=-0.02, vmax=0.2)
plt.show()

# %%
# Uniform weights make the beam about half as wide. But the noise is about twice as
# large, or more, and the sidelobes reach a tenth of the peak. Robust 0.5 is the usual
# compromise. We drew this figure and the next on a computer without a GPU, so compare
# them with the numbers in the tab *This build*.
#
# .. dropdown:: The same image by tclean, and Briggs' formula
#
#    Compare with CASA first, before you trust anybody's image, ours included:
#
#    .. code-block:: python
#
#       tclean(vis="mine.ms", imagename="dirty", imsize=180, cell="0.03arcsec",
#              specmode="mfs", weighting="briggs", robust=0.5, niter=0)
#
#    A cell of the uv plane is as wide as one over the field, so give both programs the
#    same pixels. The weights are :math:`w_k / (1 + f^2 W_k)`. There, :math:`W_k` is the
#    sum of all :math:`w` in the cell of :math:`k`, and :math:`f^2 = (5 \cdot
#    10^{-R})^2\, \sum W / \sum W^2` over all cells, with :math:`R` for *robust*. So in
#    a wider field, or in another program, the same :math:`R` :doc:`isn't the same
#    weighting </tclean>`.
#
# Can you add up the pixels?
# --------------------------
#
# The disk has a flux of 0.25 Jy. A star of 1 Jy has a peak of 1 in all our images, so
# their unit is :term:`Jy/beam`. Divide by the area of the beam's core, and you get
# Jy/arcsec², as in the figure. **How much of the 0.25 Jy will we find in our field of
# 5.4 arcsec? And in a wider one?**

found = {}
for wide in (180, 360, 720):
    field = GridCoords(coords.cell_size, wide)
    wider = DirtyImager(field, u, v, weight, data.real, data.imag)
    image = wider.get_dirty_image("natural", check_visibility_scatter=False)[0][0]
    found[wide] = image.sum() * coords.cell_size**2 / fitted["natural"].area
    print(f"{wide * coords.cell_size:4.1f} arcsec: {found[wide]:+.2f} Jy")

shortest = observe(disk, track).data[0][np.hypot(u, v).argmin()]
print(f"the shortest pair sees {abs(shortest):.3f} Jy, without noise")

# %%
# The sum depends on where we stop adding! In our field we find little more than half of
# the flux, in one of twice the width far too much, and in the widest less than nothing.
# Yet the shortest pair of antennas alone sees 98% of the light. Each point of the sky
# brings a whole beam with it, whose ripples reach as far as the image does, and we
# divided by the area of the core. The dark bowl comes from the ripples as well: there
# the brightness is *negative*, which no sky can be. *The sum over a dirty image isn't a
# flux, whatever weights you take.* Both :term:`CLEAN` and a fit take the ripples out,
# and then :doc:`the flux comes out right </tutorials/4_imaging/13_rml_and_clean>`.
#
# Three ways to add up the waves
# ------------------------------
#
# Our sum draws every wave at every pixel, which is called the :term:`direct sum`. For
# 90,300 rows and 32,400 pixels that's some twelve billion operations. The usual way out
# is :term:`gridding`: add each visibility to the nearest cell of a regular grid, and
# make one :term:`fast Fourier transform` of it. **What does it cost to move a
# measurement to the middle of its cell?**

# folded: The direct sum in float32 or float64, on a CPU or a GPU


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
by_formula = np.abs(dirty - exact).max() / exact.max()
assert by_formula < 1e-12, by_formula
print(f"this and the four lines of NumPy agree to {by_formula:.0e} of the peak")

# %%


def by_bincount(u, v, values):
    column, row = (np.floor(x + np.float32(0.5)).astype(int) % npix for x in (u, v))
    return np.bincount(row * npix + column, values, npix**2).reshape(npix, npix)


def to_image(grid):
    return packed_to_sky(torch.fft.ifft2(grid, norm="forward").real)


def nearest():
    parts = (by_bincount(u / coords.du, v / coords.du, x) for x in columns[:2])
    return to_image(torch.complex(*map(torch.from_numpy, parts))).numpy()


# %%
# We've moved each wave to the frequency of its cell. Towards the edges of the image it
# drifts out of step with the right one, so sources there should come out too faint, by
# a factor called a *sinc*, :math:`\sin(\pi x)/(\pi x)`. Let's compare three images with
# the exact sum: before and after a division by that factor, and one for which each
# visibility is spread over 2 × 2 finer cells.

fade = np.sinc((np.arange(npix) - npix // 2) / npix)
off = {"nearest cell": nearest()}
off["divided by sinc"] = nearest() / np.outer(fade, fade[::-1])
off["2 x 2 cells"] = image_by_gridding(wave[None], u, v, coords)[0]
off = {name: (image - exact) / exact.max() for name, image in off.items()}
worst = {name: float(np.abs(image).max()) for name, image in off.items()}

depth = 1 / np.sqrt(weight.sum()) / exact.max()  # the noise
print("error / noise    largest   rms")
for name, image in off.items():
    usual = np.sqrt(np.mean(image**2))
    print(f"{name:<15}{worst[name] / depth:9.1f}{usual / depth:6.1f}")

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
# The nearest cell is wrong by several times the noise, and our clever correction has
# made it *worse*. An image made from a grid repeats itself, so what lies beyond one
# edge comes back in at the opposite one. That's called :term:`aliasing`, and the
# division made the intruders brighter, too.
#
# How many cells should a visibility be spread over? One more cell on a side gives about
# one more digit. Gridding over as many cells as your precision needs is called a
# *non-uniform FFT*, or :term:`NUFFT`. You tell it how many digits you want (``eps``),
# and ``DirtyImager`` uses it, in the form of FINUFFT__.
#
# __ https://finufft.readthedocs.io/en/latest/
#
# Time it
# -------
#
# Each row of :doc:`the table </how_we_measure>` goes from weighted visibilities to one
# image.

# folded: How each way is timed, and compared; first, a gridding kernel for a GPU


@cuda.jit
def to_cells(u, v, re, im, grid_re, grid_im):
    k = cuda.grid(1)  # a thread for each visibility
    if k < u.size:
        width, half = grid_re.shape[0], np.float32(0.5)
        column = np.int32(math.floor(u[k] + half)) % width
        row = np.int32(math.floor(v[k] + half)) % width
        cuda.atomic.add(grid_re, (row, column), re[k])  # others may add there, too
        cuda.atomic.add(grid_im, (row, column), im[k])


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

# folded: All ways in turn

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
    for digits in (2, 4, 8, 12) if find_cufinufft() else ():
        compare(f"NUFFT 1e-{digits}, GPU", by_nufft, digits, *moved)

# %%

bench.show()

# %%

# measured figure

from matplotlib.transforms import Bbox

from firstlight.display import BLUE, GREY, ORANGE, PURPLE

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
ax.set(xscale="log", yscale="log", xlabel="time, ms")
ax.margins(x=0.25, y=0.1)
spent = {name: 1e3 * bench[name].median for name in error}
points = {name: (spent[name], typical[name]) for name in error}
colours, labels = {"cell": ORANGE, "NUFFT": BLUE, "direct": PURPLE}, []
for name, point in points.items():
    marker, fill = ("s", "none") if "GPU" in name else ("o", None)
    colour = next(colours[way] for way in colours if way in name)
    ax.plot(*point, marker, color=colour, mfc=fill, ms=8)
    ax.plot([point[0]] * 2, [point[1], error[name]], color=colour, marker="", lw=1.5)
    ax.plot(point[0], error[name], "_", color=colour, ms=9)
    below = 3 if typical[name] > depth else -11  # clear of the dashed line
    at = {"xytext": (9, below), "textcoords": "offset points", "size": 10}
    labels.append(ax.annotate(name, point, **at))
ax.axhline(depth, color=GREY, ls="--")
right = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
right |= {"xytext": (0, 3), "textcoords": "offset points", "size": 10}
noise_line = ax.annotate("noise of the image", (1, depth), **right)
ax.set_ylabel("error / peak (dot: rms, dash: largest)")
ax.spines[["top", "right"]].set_visible(False)
by = f"{typical['nearest cell'] / depth:.1f} × the noise"
ax.set_title(f"The nearest cell errs by {by}, a NUFFT by less than eps", size=12)
fig.draw_without_rendering()  # from here on, each label knows its place
marks = ax.transData.transform([*points.values()]) - 6
taken = [Bbox.from_bounds(*corner, 12, 12) for corner in marks]
for label in (noise_line, *labels):  # away from the dashed line, until it hides nothing
    while any(label.get_window_extent().overlaps(box) for box in taken):
        x, y = label.xyann
        label.xyann = x, y + (3 if y > 0 else -3)
    taken.append(label.get_window_extent())
fig.set_label(
    f"Error against time. The noise is {depth:.1%} of the peak; the nearest cell is "
    f"off by {error['nearest cell']:.0%} at most. The NUFFT falls steeply, to "
    f"{error['NUFFT 1e-12']:.0e} in {spent['NUFFT 1e-12']:.0f} ms. The direct sum is "
    f"exact, and takes {spent['direct'] / spent['NUFFT 1e-12']:.0f} times as long."
)
plt.show()

# %%
# On a two-core AMD EPYC, with 15,351 rows, the direct sum took :timing:`dirty-image
# median "direct" @cpu-amd-epyc` and a NUFFT of four digits :timing:`dirty-image median
# "NUFFT 1e-4" @cpu-amd-epyc`. With twelve digits it took :timing:`dirty-image median
# "NUFFT 1e-12" @cpu-amd-epyc`, so eight more digits cost about as much as the first
# four. The nearest cell was the fastest, and the only one whose error exceeds the noise
# all over the image. With the H100's 90,300 rows, which leave less noise in the image,
# the error of 2 × 2 cells exceeds it, too. So on a CPU, *take the NUFFT, and ask for
# more digits than you need.*
#
# And on a GPU? With the 90,300 rows, on the 16 CPU cores beside the H100, the direct
# sum took about :timing:`dirty-image median "direct" @nvidia-h100-80gb-hbm3`, and the
# NUFFT of four digits :timing:`dirty-image median "NUFFT 1e-4" @nvidia-h100-80gb-hbm3`.
# On the GPU, which had the data in its memory already, the same direct sum took
# :timing:`dirty-image median "direct, GPU" @nvidia-h100-80gb-hbm3`, in ``float32``,
# which keeps some six digits. The slow way on the GPU beat the clever way on the CPU!
# It consists of two matrix products, and these are just what a GPU is good at. But with
# twice as many pixels on a side, the direct sum has four times the work. A NUFFT still
# has the same rows to spread, and only its FFT grows.
#
# .. holds::
#
#    direct = median("dirty-image/direct, GPU")
#    direct < median("dirty-image/NUFFT 1e-4") / 4
#
# There is a NUFFT for GPUs, too, cuFINUFFT. On the H100, with four digits, it took
# :timing:`dirty-image median "NUFFT 1e-4, GPU" @nvidia-h100-80gb-hbm3`, and with twelve
# :timing:`dirty-image median "NUFFT 1e-12, GPU" @nvidia-h100-80gb-hbm3`. With so few
# rows, four digits took about as long as the direct sum, and twelve took longer. Its
# authors gave it more to do:
#
# .. holds::
#
#    few, many = (median(f"dirty-image/NUFFT 1e-{n}, GPU") for n in (4, 12))
#    few_cpu, many_cpu = (median(f"dirty-image/NUFFT 1e-{n}") for n in (4, 12))
#    many / few < 1.5 < many_cpu / few_cpu
#    0.8 * direct < few < 1.1 * direct < many
#
# .. measured-by-others:: nufft-a6000
#
# .. dropdown:: Where this stops being true
#
#    In a :doc:`wide field </scope>` the sky isn't flat any more. In a wide image the
#    cells of the uv plane are narrower, so fewer rows share one, and uniform weights
#    come close to natural ones. A bright source outside the field is aliased into a
#    gridded image, where it looks like a source that isn't there; a NUFFT shows only
#    its sidelobes. In ``float32``, which most GPUs prefer, a NUFFT reaches six digits.
#
# Your turn
# ---------
#
# You can know the noise of a dirty image before you make it. Write a function that
# gives it in Jy/beam. It gets ``weight``, which is :math:`1/\sigma^2` of each
# visibility, and ``used``, the weights that you make the image with. The two may
# differ. A hint: in the middle, the image is a weighted mean of the real parts. Put
# your answer where the dots are, and run ``firstlight try 05_dirty_image.py``. At the
# end of the page your formula meets the noise that we measured above.


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
noisier = rms["uniform"] / rms["natural"]
print("1. A dirty image is the sky convolved with the beam, plus noise. Uniform")
print(f"   weights give the finest beam, and {noisier:.1f} times the noise.")
here, there = found[180], found[360]
print(f"2. Its sum isn't a flux: {here:.2f} Jy here and {there:.2f} in a wider field,")
print("   for a disk of 0.25. Look at the image, but don't measure in it.")
nearest_off = f"{worst['nearest cell']:.0%}"
print(f"3. The nearest cell is off by up to {nearest_off} of the peak, and nothing")
print("   mends it. A NUFFT is as exact as you ask, and digits are cheap.")

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
