"""
How many channels can you fit at once?
======================================

For anyone with a :term:`cube`, which has an image for each of many neighbouring
frequencies, the :term:`channels <channel>`, and shows how gas moves. Fit as many
channels in one tensor as the memory of your GPU holds: a line of arithmetic tells you
how many. On a GPU, many channels of small images take little longer than one, because
they share the launch overhead; large images gain little. If the cube is too large, fit
it in groups: you get the same images.

**You will learn**

- to predict what a channel costs when you fit many at once;
- to tell how many channels your memory holds, and to fit a cube in groups;
- when channels may share :term:`baselines <baseline>`, and what coupling them does;
- to make a map of velocities that leaves out the empty sky.

**Time:** 13 minutes. **Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/01_first_light>`.
"""

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

per_channel = 30  # images that a fit holds of each channel, in float32


def most_channels(side, memory):
    """Return how many channels a fit can hold in some bytes of memory."""
    return int(memory / (per_channel * 4 * side**2))


sides, cards = (256, 512, 1024, 2048), {8: "o-", 24: "s-", 80: "D-"}
fig, ax = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for gigabytes, marker in cards.items():
    held = [most_channels(side, 1e9 * gigabytes) for side in sides]
    ax.plot(sides, held, marker, label=f"{gigabytes} GB")
    for side, n in zip(sides, held, strict=True):
        ax.annotate(
            f"{n:,}", (side, n), (0, 5), textcoords="offset points", ha="center"
        )
ax.loglog()
ax.set_xticks(sides, [f"{side} × {side}" for side in sides])
ax.minorticks_off()
ax.margins(0.07, 0.14)
ax.set(xlabel="pixels", ylabel="channels in one fit")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, title="free memory")
small = most_channels(1024, 8e9)
fig.suptitle(f"{small} channels of 1024 × 1024 pixels can be fitted at once in 8 GB")
fig.set_label(f"""How many channels fit into 8, 24 and 80 GB: in
proportion to the memory, and a quarter as many for twice the width. Into 8 GB
go {small} of 1024 pixels.""")
plt.show()

# %%
# The rule is that a fit holds about 30 images of each channel: the image itself, its
# gradient and Adam's two averages; the transfer function of the point-spread function;
# and the padded images of the FFTs, each as large as four. The :term:`visibilities
# <visibility>` are read from your computer's memory in chunks, so that their number
# hardly matters.
#
# Predict
# -------
#
# Put all channels into one tensor. A step in PyTorch then makes the same calls as for
# one channel, about 100 (12 in this package's ``fit``), and each does more. On a GPU
# each call launches a :term:`kernel`, with an overhead :math:`c` that does not depend
# on its size. If one of :math:`n` channels needs the work :math:`w`, then
#
# .. math::
#
#     \text{cost of a channel} = \frac{100\,c}{n} + w
#
# on a CPU, which does one after the other. A GPU works while the next kernel is
# launched, so the larger of the two terms counts. For the work, count 150 images that
# are read or written per step. How many channels does a GPU do in the time of one?

from firstlight.timing.specs import spec

c, starts = spec("PyTorch operation", "seconds"), 100
bandwidth = spec("H100 SXM", "bandwidth")


def work_on_gpu(side):
    return 150 * 4 * side**2 / bandwidth  # seconds, at the least


print("In the time of one:  100 calls   12 calls")
for side in (32, 96, 256, 1024):
    free = (max(1, calls * c / work_on_gpu(side)) for calls in (starts, 12))
    print(f"{side:>4} × {side:<4} pixels", *(f"{n:10,.0f}" for n in free))

# %%
# So a GPU is efficient with many small channels, and one to four of 1024 pixels keep it
# busy. A CPU works more slowly, so that it should gain less.
#
# Observe
# -------
#
# An inclined disk of gas rotates around a star. Its line, CO 2–1 with a *rest
# frequency* :math:`\nu_0` of 230.538 GHz, is Doppler-shifted. In the *radio convention*
# the velocity is :math:`v = c_\mathrm{light}\,(1 - \nu/\nu_0)`, positive for gas that
# recedes. A channel shows the part of the disk that moves at its velocity, blurred by
# the width of the line.

# folded: A rotating disk in twelve channels
import math
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.imaging import GridCoords
from firstlight.imaging.simulate import channels
from firstlight.imaging.units import LIGHT_SPEED

device = best_device()
has_gpu = device.type != "cpu"
threads = torch.get_num_threads()
torch.set_num_threads(1)  # more gain next to nothing on images as small as here
npix, nchan, rest, width = 96, 12, 230.538e9, 0.5  # Hz, km/s
coords = GridCoords(cell_size=0.05, npix=npix)
frequency = channels(rest, width * 1e3 / LIGHT_SPEED * rest, nchan)
velocity = LIGHT_SPEED / 1e3 * (1 - frequency / rest)  # km/s

east, north = coords.sky_coordinates()
x, y, turn = east - 0.12, north + 0.2, math.radians(30)
along = x * math.sin(turn) + y * math.cos(turn)
across = (x * math.cos(turn) - y * math.sin(turn)) / math.cos(math.radians(40))
radius = np.hypot(along, across)
away = 1.8 * along / (radius**2 + 0.15**2) ** 0.75  # km/s, of the gas in a pixel
bright = 0.6 * np.exp(-radius / 0.8) / (1 + np.exp((radius - 1.8) / 0.08))
in_line = np.exp(-((velocity[:, None, None] - away) ** 2) / (2 * 0.4**2))
truth = torch.from_numpy(bright * in_line)  # Jy/arcsec²

# %%
# ``observe`` simulates points and rings. For any other sky a :term:`non-uniform FFT`
# predicts what the array measures, in each channel at its own baselines.

from firstlight.imaging.fourier import visibilities
from firstlight.imaging.simulate import observe, uv_track, with_noise

seen = observe([], uv_track(n_times=20), frequency)  # baselines, and a dark sky
clean = visibilities(truth, seen.uu, seen.vv, coords.cell_size).numpy()
seen = with_noise(replace(seen, data=clean), 20e-3, seed=1)
nvis = seen.data.shape[1]
print(f"{nchan} channels, from {velocity[0]:+.2f} to {velocity[-1]:+.2f} km/s")
print(f"{nvis:,} visibilities in each, u and v of shape {seen.uu.shape}")

# %%
# Check
# -----
#
# ``ExactLikelihood`` takes all channels, each with its own baselines, data and weights,
# and gives :math:`\chi^2` for each. To check it, sum over an odd number of visibilities
# of three channels directly, in ``float64``, for a random image of 14 × 14 pixels.

# folded: The sum over visibilities, done directly
from firstlight.imaging import ExactLikelihood

some, three = slice(0, 18_060, 180), slice(0, 12, 5)
parts = [a[three, some] for a in (seen.uu, seen.vv, seen.data, seen.weight)]
image = torch.rand(3, 14, 14, dtype=torch.float64, generator=torch.manual_seed(2))
exact = ExactLikelihood(*parts, 0.05, 14, dtype=torch.float64)
found = exact.chi_squared(image).numpy()
at = [np.radians(a.ravel() / 3600) for a in GridCoords(0.05, 14).sky_coordinates()]
for k, (u, v, data, weight) in enumerate(zip(*parts, strict=True)):
    turns = u[:, None] * at[0] + v[:, None] * at[1]
    model = np.exp(-2j * math.pi * turns) @ image[k].numpy().ravel() * 0.05**2
    error = abs(found[k] / np.sum(weight * abs(data - model) ** 2) - 1)
    assert error < 1e-9, error
    print(f"channel {5 * k:>2}: {u.size} visibilities, relative error {error:.0e}")

# %%
# Whose baselines?
# ----------------
#
# :math:`u` is a length in wavelengths, :math:`u = b\,\nu / c_\mathrm{light}`. So each
# channel has its own, and its own :term:`dirty beam`, whose Fourier transform is half
# of what a :term:`likelihood` keeps. May all channels use those of one? If they share u
# and v, images are stretched by :math:`\Delta\nu/\nu`. If they share only the beam,
# that of one channel meets the :term:`dirty images <dirty image>` of others. See how
# much either changes :math:`\chi^2` of the true image.

sky, noise = truth[3:4], (seen.data - clean)[3:4]
u, v, weight = (a[3:4] for a in (seen.uu, seen.vv, seen.weight))


def chi2_of_truth(apart):
    far = (1 + apart) * u, (1 + apart) * v
    data = visibilities(sky, *far, coords.cell_size).numpy() + noise
    more = data, weight, coords.cell_size, npix
    own, shared, mixed = (ExactLikelihood(*uv, *more) for uv in (far, (u, v), far))
    mixed.transfer = shared.transfer
    return [each(sky.float()).item() / (2 * nvis) for each in (own, shared, mixed)]


sharing = {apart: chi2_of_truth(apart) for apart in (1e-5, 1e-4, 1e-3, 1e-2)}
print("Δν/ν       in km/s      own u, v   shared u, v     shared beam")
for apart, chi2 in sharing.items():
    print(f"{apart:.0e} {apart * LIGHT_SPEED / 1e3:11,.0f}", end="")
    print(*(f"{value:14.4f}" for value in chi2), sep="")

# %%
# The columns are the reduced :math:`\chi^2`. For a line a few km/s wide, channels may
# share baselines: pass one-dimensional ``u`` and ``v``. Sharing the beam alone is far
# worse, because its error grows as :math:`\Delta\nu/\nu`, and that of the stretch as
# its square. Both grow as the square of the signal-to-noise ratio, so over a wide band,
# or with a much stronger signal, let each channel have its own, as here.
#
# The fit
# -------
#
# One ``fit`` runs all channels. But the reduced :math:`\chi^2` of a cube divides by the
# visibilities of *all* channels, while a :term:`regularizer` is summed over them, so
# the same :math:`\lambda` weighs twice as much in a cube of twice as many. With
# ``separate=True`` each channel has its own :math:`\chi^2` and is a fit of its own,
# although all run together.

from firstlight.imaging import GriddedNet, fit
from firstlight.imaging.model import losses

area = coords.cell_size**2
noise = seen.weight.sum(axis=1) ** -0.5  # Jy/beam, of each channel
scale = float(area / noise.mean() / nvis)

likelihood = ExactLikelihood(
    *(seen.uu, seen.vv, seen.data, seen.weight), coords.cell_size, npix, device=device
)
net = GriddedNet(coords, nchan, torch.full((nchan, npix, npix), -6.0)).to(device)
terms = {"tv": (scale, losses.TV_image), "sparsity": (scale / 2, losses.sparsity)}
adam = {"lr": 0.3, "check_every": 50, "lambdas": "exact", "progress": False}
result = fit(net, likelihood, losses=terms, separate=True, tolerance=1e-3, **adam)
cube = result.image.cpu().double()
print(f"{result.iterations} steps. {result.message}")

# %%
# To choose :math:`\lambda`: noise alone gives the reduced :math:`\chi^2` a slope of
# :math:`a \sqrt{\sum w} / N` in each pixel of area *a*. Total variation has that as its
# :math:`\lambda`. Sparsity has half, because otherwise positive pixels turn the noise
# of the empty sky into flux. (*First light* takes far more of TV, because its second
# fit puts back what the first took. Here there is one fit.) The parameters are nearly
# logarithms of the brightness, and start faint.
#
# Judge the fit by its *residual*, data minus model, as a dirty image in units of its
# noise, beside that of the true image.


def residual_of(images):
    likelihood.recentre(images.to(likelihood.reference))
    chi2 = likelihood.chi_squared(likelihood.reference).cpu().numpy() / (2 * nvis)
    dirty = likelihood.dirty.cpu().double().numpy()
    return dirty * (noise / area)[:, None, None], (chi2 - 1) * nvis**0.5


residual, chi2 = residual_of(cube)
of_noise, chi2_truth = residual_of(truth)
fluxes, true_fluxes = (area * part.sum((1, 2)).numpy() for part in (cube, truth))
print("                residual, σ   flux, Jy")
print("  km/s χ²-1, σ   rms  most     fit  truth")
for k in range(0, nchan, 2):
    rms, most, jansky = residual[k].std(), abs(residual[k]).max(), fluxes[k]
    print(f"{velocity[k]:+6.2f} {chi2[k]:+7.1f} {rms:5.2f} {most:5.1f}", end="")
    print(f"{jansky:8.3f} {true_fluxes[k]:6.3f}")
rms = of_noise.std(axis=(1, 2))
print(
    f"truth: rms {rms.min():.2f} to {rms.max():.2f}, most {abs(of_noise).max():.1f} σ"
)
assert result.why == "converged"
assert abs(residual).max() < 5
assert abs(chi2).max() < 4

# %%
# (Every second channel is shown.) No residual exceeds 5 σ. Each rms is slightly below
# that of the noise, because some of it was fitted. How good can an image be? The array
# hardly sees anything finer than its *beam*, so compare pixel by pixel, and with both
# images convolved with the beam.

from firstlight.imaging import DirtyImager, convolve, fit_beam

shown = [1, 3, 5, 9]
parts = [a[shown] for a in (seen.uu, seen.vv, seen.weight)]
imager = DirtyImager(coords, *parts, seen.data[shown].real, seen.data[shown].imag)
_, psf = imager.get_dirty_image("briggs", robust=0.5)
beam = fit_beam(psf[0], coords.cell_size)


def off(cube, rows=slice(None)):
    wrong, right = (cube - truth[rows]).flatten(1), truth[rows].flatten(1)
    return (wrong.norm(dim=1) / right.norm(dim=1)).numpy()


def off_blurred(cube):
    wrong, right = (convolve(each, coords, beam) for each in (cube - truth, truth))
    return np.linalg.norm(wrong, axis=(1, 2)) / np.linalg.norm(right, axis=(1, 2))


raw, blurred = off(cube), off_blurred(cube)
outer = torch.from_numpy((radius > 1.3) & (radius < 1.8))
outer_kept = float((cube * outer).sum() / (truth * outer).sum())
print(f"off by {raw.min():.0%} to {raw.max():.0%}")
print(f"at the beam, {beam.major:.2f} × {beam.minor:.2f} arcsec, off by", end=" ")
print(f"{blurred.min():.0%} to {blurred.max():.0%}")
within = residual[:, radius < 1.8].std() / of_noise[:, radius < 1.8].std()
print(f"within the disk the residual is {within:.2f} times the noise")
print(f"the faint outer disk, from 1.3 to 1.8 arcsec, has {outer_kept:.0%} of its flux")
assert blurred.max() < 0.09
assert 0.85 < outer_kept < 1.1
assert within > 0.75

# %%
# Near the star the disk has structure finer than the beam, which these data do not
# determine. The faint outer disk keeps most of its flux, but not its faintest parts,
# such as the arcs in the third column below. Most channels are slightly too faint.

# figure
from firstlight.imaging import plot_image

look = {"vmin": 0, "vmax": float(truth.max()), "stretch": "sqrt", "unit": None}
noisy = {"vmin": -5, "vmax": 5, "stretch": "linear", "unit": None, "cmap": "PuOr"}
lines = {
    "truth": (truth[shown], look),
    "fit": (cube[shown], look | {"beam": beam}),
    "residual": (residual[shown], noisy),
}
worst = abs(residual).max()
fig, axes = plt.subplots(3, 4, figsize=(7.6, 5.6), layout="constrained")
for line, (name, (images, how)) in zip(axes, lines.items(), strict=True):
    for ax, k, one in zip(line, shown, images, strict=True):
        bar = {"scale_bar": 1.0} if name == "truth" and k == shown[0] else {}
        drawn = plot_image(one, coords, ax=ax, **how, **bar)
        ax.set(xlabel="", ylabel=name if k == shown[0] else "", xticks=[], yticks=[])
        ax.set_title(f"{velocity[k]:+.2f} km/s" if name == "truth" else "", size=10)
    if name == "fit":
        bar = fig.colorbar(drawn, ax=axes[:2], label="Jy/arcsec²", shrink=0.7)
        bar.set_ticks([0, 0.05, 0.2, 0.5])
fig.colorbar(drawn, ax=axes[2], label="σ", ticks=[-5, 0, 5])
fig.suptitle(f"{nchan} channels in one fit: no residual is above {worst:.1f} σ")
fig.set_label(f"""Truth, fit and residual of four channels, each another part of the
disk. The fits have the shapes of the truth, out to the faint edge in steps, but not its
sharp peak at the star. The residuals are noise, at most
{abs(residual[shown]).max():.1f} σ, a little weaker where the disk is, with a trace of
the star.""")
plt.show()

# %%
# Measure
# -------
#
# Time single steps for 1, 4 and 16 channels, on one core of the CPU. A step of 8 × 8
# pixels has almost nothing to compute, so its time is the overhead, :math:`100\,c`.


def make_step(side, n, on):
    at = np.arange(n) % nchan
    thin = [a[at, ::20] for a in (seen.uu, seen.vv, seen.data, seen.weight)]
    likelihood = ExactLikelihood(*thin, coords.cell_size, side, device=on)
    net = GriddedNet(GridCoords(coords.cell_size, side), n).to(on)
    adam = torch.optim.Adam(net.parameters(), lr=0.03)

    def step():
        adam.zero_grad()
        net.icube(net.conv_layer(net.bcube()))  # without visibilities in cells
        sky = net.icube.sky_cube
        chi2 = likelihood(sky) / (2 * thin[2].size)
        (chi2 + scale / n * losses.TV_image(sky)).backward()
        adam.step()

    return step


# %%

bench = Bench("many-channels", budget=6 if has_gpu else 1.1)
on_cpu, on_gpu = (1, 4, 16), (1, 4, 16, 64, 256) if has_gpu else ()
bench.time("8 pixels, 1", make_step(8, 1, "cpu"), n=1)
for side in (32, 96):
    for n in on_cpu:
        bench.time(f"{side} pixels, {n}", make_step(side, n, "cpu"), n=n)
    for n in on_gpu:
        name, step = f"GPU, {side} pixels, {n}", make_step(side, n, device)
        bench.time(name, step, n=n, device=device)

# %%
# The CPU's model has two numbers: the overhead, and the work per channel from the row
# with 4. The GPU's is the model above, for an H100 in this computer: the same Python
# launches its kernels, so their overhead is at least that measured here. Other programs
# only make a step longer, so the fastest sample counts.

# measured figure

from firstlight.display import BLUE, ORANGE


def ms(row):
    return 1e3 * min(bench[row].values)


many = np.geomspace(1, 512)
looks = {32: ("s", "--", ORANGE), 96: ("o", "-.", BLUE)}
starting, gains = ms("8 pixels, 1"), {}
fig, ax = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
for side, (marker, dashes, colour) in looks.items():
    style = {"ls": "", "color": colour, "mec": "black", "ms": 7}
    each = [ms(f"{side} pixels, {n}") / n for n in on_cpu]
    ax.plot(on_cpu, each, marker=marker, label=f"CPU, {side} pixels", **style)
    work = max(each[1] - starting / 4, 0)
    model = {"ls": dashes, "color": colour, "label": f"model: CPU, {side} pixels"}
    ax.plot(many, starting / many + work, **model)
    gpu = [ms(f"GPU, {side} pixels, {n}") / n for n in on_gpu]
    ax.plot(on_gpu, gpu, marker="D", label=f"GPU, {side} pixels" * has_gpu, **style)
    gains[side] = each[0] / each[-1]
model = np.maximum(max(1e3 * starts * c, starting) / many, 1e3 * work_on_gpu(96))
ax.plot(many, model, ":", lw=2, color="grey", label="model: H100, 96 pixels")
ax.loglog()
ax.set(xlabel="channels in one tensor", ylabel="ms per step and channel")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
title = f"16 at once: a channel costs {gains[32]:.1f} × less at 32 pixels"
fig.suptitle(f"{title}, {gains[96]:.1f} × at 96")
fig.set_label(f"""Time of a step for each channel against the number of channels. On the
CPU it falls {gains[32]:.1f}-fold up to 16 channels at 32 pixels, and
{gains[96]:.1f}-fold at 96, where it levels off. The model of a GPU
keeps falling, to hundreds of channels.""")
plt.show()

# %%
# Channels in one tensor share the overhead and nothing else. With small images a step
# is nearly all overhead. With large ones the work dominates, and a cube takes as long
# as its channels one by one. The models know neither caches nor other programs, so
# marks can lie off their lines. In the model of a GPU this whole cube takes as long as
# one channel, so at this size it is the *cube* that makes a GPU worthwhile.

# folded: All times
bench.show()

# %%
# With much work in each launch the launches no longer matter. These are two programs of
# other people, on one H200.
#
# .. measured-by-others:: music-h200 music-h200-graph whisper-h200
#
# When the memory is too small
# ----------------------------
#
# What does the fit of 200 channels need?

buffers = sum(held.nbytes for held in likelihood.buffers())
buffers /= 4 * nchan * npix**2  # in images of a channel
print(f"{buffers:.1f} of the {per_channel} images are what a likelihood keeps")
assert 4 <= buffers < 5
big, most = 200 * per_channel * 4 * 1024**2, most_channels(1024, 8e9)
groups = math.ceil(200 / most)
print(f"200 channels of 1024 pixels need {big / 1e9:.1f} GB.")
print(f"Into 8 GB fit {most} at once: {groups} groups of {200 // groups}")

# %%
# Groups cost almost no time, because a few channels of this size keep a GPU busy. The
# results differ by rounding at most, because channels that are separate fits do not
# affect each other, and Adam takes the same steps in each.


def fit_rows(rows, start, terms, **more):
    part = [a[rows] for a in (seen.uu, seen.vv, seen.data, seen.weight)]
    likelihood = ExactLikelihood(*part, coords.cell_size, npix, device=device)
    net = GriddedNet(coords, len(start), start).to(device)
    found = fit(net, likelihood, losses=terms, tolerance=None, **adam | more)
    return found.image.cpu().double()


dark = torch.full((5, npix, npix), -6.0)
as_long = {"separate": True, "max_iter": result.iterations}
group = fit_rows(slice(7, nchan), dark, terms, **as_long)
apart = float((group - cube[7:]).abs().max() / cube.max())
alike = f"the same within {apart:.0e} of the peak" if apart else "the same images"
print(f"5 channels in a fit of their own, and among all: {alike}")
assert apart < 0.02

# %%
# So loop over groups. With several GPUs, each takes a group:
# :doc:`/tutorials/4_imaging/11_more_than_one_gpu`.
#
# Coupled channels
# ----------------
#
# ``TV_channel`` penalizes differences between neighbouring channels. This needs one fit
# (``separate=False``), whose :math:`\chi^2` is divided by the number of all
# visibilities: divide its :math:`\lambda` by the number of channels. Take five channels
# at one end of the line. Start from the fit above and take 100 more steps: as before,
# with half and twice the :math:`\lambda`, weakly coupled, strongly coupled.

edge, helped = slice(0, 5), {}
before = net.bcube.base_cube.detach().cpu()[edge]
ways = {"alone": (1, 0), "½ λ": (0.5, 0), "2 λ": (2, 0)}
ways |= {"coupled": (1, 0.5), "strongly": (1, 5)}
print("off, km/s", *(f"{v:+8.2f}" for v in velocity[edge]))
for name, (image, channel) in ways.items():
    weighted = {"tv": (image * scale / 5, losses.TV_image)}
    weighted["sparsity"] = image * scale / 10, losses.sparsity
    weighted["between"] = channel * scale / 5, losses.TV_channel
    helped[name] = off(fit_rows(edge, before, weighted, max_iter=100), edge)
    print(f"{name:<9}", *(f"{value:8.1%}" for value in helped[name]))

# %%
# These are the distances from the truth. Averaged over the five, nothing improves on
# *alone*: no other :math:`\lambda`, and no coupling. Strong coupling smears the images,
# because in a rotating disk a pixel *does* differ from channel to channel. Here the
# line is about two channels wide. If yours is much wider, try coupling, but
# :doc:`choose λ </tutorials/4_imaging/07_choosing_regularizers>` first.
#
# Moments
# -------
#
# :term:`Moment 0 <moment 0>` is the integral over the line, in Jy/arcsec² km/s, and
# *moment 1* is the mean velocity, weighted by brightness. Where there is no gas, moment
# 1 is an average over noise that was fitted, and looks as real as on the disk. So
# *clip*: include only what is brighter than some level.


def moments(cube, clip):
    lit = torch.where(cube > clip, cube, 0)
    mean = (torch.from_numpy(velocity)[:, None, None] * lit).sum(0) / lit.sum(0)
    return lit.sum(0) * width, mean  # 0 / 0 is NaN: no gas, no velocity


known, disk = torch.from_numpy(away), torch.from_numpy(radius < 1.7)
empty, area = torch.from_numpy(radius > 2.1), coords.cell_size**2
maps = {part: moments(cube, part * cube.max()) for part in (0, 0.02, 0.05, 0.1, 0.3)}
print("clip at   disk with v   sky with v   v off, km/s   flux, Jy km/s")
for part, (total, mean) in maps.items():
    kept = mean.isfinite()
    rms = (mean - known)[disk & kept].square().mean().sqrt()
    there, wrong = (kept[where].double().mean() for where in (disk, empty))
    flux = total.sum() * area
    print(f"{part:7.0%} {there:13.0%} {wrong:12.0%} {rms:12.2f} {flux:15.3f}")
print(f"{'truth':>7} {moments(truth, 0)[0].sum() * area:55.3f}")
one_noise = float(noise.mean() / beam.area / cube.max())
print(f"1 σ of a dirty image with this beam is at least {one_noise:.1%} of the peak")

# %%

# figure
chosen = 0.05
empty_share = float(maps[0][1].isfinite()[empty].double().mean())
pictures = {"truth, within 1.7″": known.where(disk, torch.nan), "no clip": maps[0][1]}
pictures[f"clip at {chosen:.0%}"] = maps[chosen][1]
fig, axes = plt.subplots(1, 3, figsize=(7.6, 2.7), layout="constrained")
look = {"vmin": -3, "vmax": 3, "stretch": "linear", "unit": None, "cmap": "coolwarm"}
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    drawn = plot_image(picture, coords, ax=ax, **look)
    ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
fig.colorbar(drawn, ax=axes, label="km/s", ticks=[-2, 0, 2], shrink=0.8)
fig.suptitle(f"Without a clip, {empty_share:.0%} of the empty sky has a velocity, too")
fig.set_label("""Maps of the mean velocity. The truth: a disk, half of which moves away.
Without a clip the sky has velocities, too. With it the disk is like the truth.""")
plt.show()

# %%
# Take the lowest clip that leaves the empty sky without velocities. If it is too high,
# the edge of the disk and the wings of the line are lost. Every clip loses flux, so
# measure the flux without one.
#
# For other programs, ``write_image(path, cube, coords, frequencies=...,
# rest_frequency=...)`` writes a FITS cube:
# :doc:`/tutorials/4_imaging/02_your_own_data`.

torch.set_num_threads(threads)

# %%
# Where this stops being true
# ---------------------------
#
# - *Frequencies of the observatory.* The Earth's motion shifts a line from day to day.
#   ``tclean`` corrects that, a fit does not: regrid to LSRK first (``mstransform``).
# - *Absorption.* The model is positive. Where a line absorbs a continuum that was
#   subtracted, the brightness is negative, and the model cannot follow.
# - *Channels that share noise.* Correlators smooth spectra, which correlates the noise
#   of neighbours. Each :math:`\chi^2` is right, but coupled channels count noise twice.
#
# Exercise
# --------
#
# Write a function that returns two maps in km/s: the mean velocity, and the width of
# the line, the root mean square distance from that velocity (CASA's *moment 2*).
# Weight by brightness, include what is above ``clip``, and return NaN where there is
# nothing.


def mean_and_width(cube, frequency, rest, clip): ...


# %%


# folded: The checker
def check(answer):
    hertz, line = np.array([115.2715, 115.2708, 115.2720, 115.2701]) * 1e9, 115.2712e9
    pixels = np.array([[4, 3, 0.2, 0], [1, 1, 3, 1], [0.1, 0, 0, 0.1], [0, 0, 2, 0]])
    speed, lit = 299_792.458 * (1 - hertz / line), np.where(pixels > 0.5, pixels, 0)
    same = partial(np.allclose, rtol=1e-6, atol=1e-6, equal_nan=True)
    with np.errstate(all="ignore"):
        mean, loose = ((a @ speed) / a.sum(1) for a in (lit, pixels))
        square = (lit * (speed - mean[:, None]) ** 2).sum(1) / lit.sum(1)
        try:
            maps = answer(pixels.T.reshape(4, 2, 2), hertz, line, 0.5)
            if maps is None:
                return "mean_and_width returned nothing yet: two maps are wanted."
            v, s = (np.asarray(a, float).reshape(4) for a in maps)
        except Exception as error:
            return f"mean_and_width raised {type(error).__name__}: {error}"
    hints = [
        (same(v, loose), "Count only what is above the clip."),
        (np.isfinite([v[2], s[2]]).any(), "Nothing above the clip: NaN in both maps."),
        (same(-v, mean), "The sign: gas that moves away has the lower frequency."),
        (same(v, 1e3 * mean), "That is in m/s: divide by 1000."),
        (not same(v, mean), f"v is {v}, not {mean}: weight with the brightness."),
        (same(s, square), "Take the root: the width is in km/s."),
        (not same(s, square**0.5), f"Widths are {s}, not {square**0.5}: about v?"),
    ]
    return next((hint for wrong, hint in hints if wrong), "Right: yours is comparable.")


# %%

print(check(mean_and_width))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"1. Of 16 in a batch, a channel cost {gains[32]:.1f} times less at 32 pixels, and"
)
print(f"   {gains[96]:.1f} times at 96: channels share overhead, but not work.")
print(f"2. 200 channels of 1024 pixels need {big / 1e9:.0f} GB: in {groups} groups")
print("   they fit into 8 GB, and groups give the same images.")
print(f"3. Clip before you compute a velocity, here at {chosen:.0%} of the peak:")
print("   without a clip, empty sky has a velocity, too.")

# %%
# Solution
# --------

# solution


def mean_and_width_solution(cube, frequency, rest, clip):
    v = 299_792.458 * (1 - frequency / rest)[:, None, None]
    lit = np.where(cube > clip, cube, 0)
    mean = (v * lit).sum(0) / lit.sum(0)
    return mean, np.sqrt(((v - mean) ** 2 * lit).sum(0) / lit.sum(0))


print(f"Our solution: {check(mean_and_width_solution)}")
