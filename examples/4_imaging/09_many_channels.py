"""
How many channels can you fit at once?
======================================

You have observed a line of carbon monoxide, and your data have 200 neighbouring
frequencies, called :term:`channels <channel>`, each with an image of its own. Together
the images make a :term:`cube`, and it shows how the gas moves. Your script fits one
image. So you write a loop around it, start it, and go home.

**Write down two guesses: how much longer does an H100 take for a step with 256 small
images than for a step with one? And how many channels of 1024 × 1024 pixels fit into 8
GB?** By the end you'll have a loop that fits your cube whatever the memory.

**Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/01_first_light>`.
"""

# folded: What the page imports
# sphinx_gallery_thumbnail_number = 2
import gc
import math
from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.display import BLUE, ORANGE
from firstlight_imaging import DirtyImager, ExactLikelihood, GridCoords, GriddedNet
from firstlight_imaging import convolve, fit, fit_beam, plot_image
from firstlight_imaging.fitting import Adam, FusedStep, Objective
from firstlight_imaging.fourier import visibilities
from firstlight_imaging.model import losses
from firstlight_imaging.simulate import channels, observe, uv_track, with_noise
from firstlight_imaging.units import LIGHT_SPEED
from firstlight.timing.specs import spec

# %%
# How many fit into memory?
# -------------------------
#
# Let's begin with the second guess. On an H100, PyTorch handed out memory for *38*
# images for each channel. A fit has to keep the image, its gradient, two moving
# averages of Adam's, and the dirty beam at twice the width, which counts as four. The
# rest are padded images, each as large as four, which go through the FFTs.
#
# A number in ``float32`` has 4 bytes, so a channel of :math:`n \times n` pixels takes
# :math:`38 \cdot 4\, n^2` bytes. For example, at 1024 × 1024 pixels that's 159 MB. So
# 50 channels fit into 8 GB, and 501 into 80 GB. In ``float64`` it's half as many. **How
# many of yours would fit?**
#
# .. holds::
#
#    printed(r"from two channels to six: (\d+) images for each") == code("per_channel")
#    channel = 4 * 1024**2 * 38
#    round(channel / 1e6) == 159 and 8e9 // channel == 50 and 80e9 // channel == 501

memory, pixels = 8e9, 1024
print(f"{memory // (38 * 4 * pixels**2):.0f} channels fit")

# %%

# figure
per_channel = 38  # images that an H100 held of each channel, in float32


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
# We measured these 38 images with one fit on one card. On a CPU, PyTorch handed out 22
# images for each channel, and the whole process grew by 43, because the transforms need
# room inside as well. So plan with three quarters of your memory, or better, measure:
# fit two channels, then six, and divide the difference of
# ``torch.cuda.max_memory_allocated()`` by four.

# folded: And how many would an H100 carry in the time of one? A model
starts, kernels = 100, 12  # of a loop in PyTorch, and of fit
bandwidth = spec("H100 SXM", "bandwidth")
of_loop = starts * spec("kernel of a program", "seconds")
captured = spec("graph replay", "seconds") + kernels * spec("graph node", "seconds")


def work_on_gpu(side):
    return 150 * 4 * side**2 / bandwidth  # seconds, at the least


print(
    f"to launch a step: {1e6 * of_loop:,.0f} µs, and captured {1e6 * captured:.0f} µs"
)
print("In the time of one:  the loop   captured")
for side in (32, 96, 256, 1024):
    free = (max(1, launch / work_on_gpu(side)) for launch in (of_loop, captured))
    print(f"{side:>4} × {side:<4} pixels", *(f"{n:10,.0f}" for n in free))


# %%
# Fit a cube
# ----------
#
# Our sky is a tilted disk of gas that rotates around a star. Gas that moves away from
# us is seen at a lower frequency, so a channel shows only that part of the disk that
# moves at one velocity. We take twelve channels of 96 × 96 pixels.

# folded: A rotating disk in twelve channels, observed with 43 antennas
device = best_device()
has_gpu = device.type != "cpu"
on_nvidia = device.type == "cuda" and torch.version.hip is None
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

seen = observe([], uv_track(n_times=20), frequency)  # baselines, and a dark sky
clean = visibilities(truth, seen.uu, seen.vv, coords.cell_size).numpy()
seen = with_noise(replace(seen, data=clean), 20e-3, seed=1)
nvis = seen.data.shape[1]
print(f"{nchan} channels, from {velocity[0]:+.2f} to {velocity[-1]:+.2f} km/s")
print(f"{nvis:,} visibilities in each, u and v of shape {seen.uu.shape}")

# %%

# folded: Check: chi² of three channels, against the sum done directly
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

# folded: May channels share their baselines? chi² of the true image, if they do
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
# All four arrays, u, v, data and weights, have a row for each channel, because a
# :term:`baseline <baseline>` is measured in wavelengths. For one line that hardly
# matters, and you may give 1-D arrays, which all channels then share. But if the
# frequency changes by a hundredth, it does matter: in the fold above, the
# :math:`\chi^2` of the true image then gets worse.
#
# The whole fit differs in two places from the fit of a single image. The model has
# ``nchan`` images, and there's the word ``separate``.

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
# With ``separate=True`` each channel has a :math:`\chi^2` of its own. Without it you'd
# get one :math:`\chi^2`, divided by the number of *all* visibilities. The
# :term:`penalties <regularizer>`, though, are summed over all images. So a penalty that
# was right for one channel would weigh two hundred times as much in a cube of two
# hundred. Leave ``separate`` out only if a penalty of your own compares neighbouring
# channels.
#
# Is the cube any good? We subtract the model from the data. If the fit has found
# everything, only noise is left.


# folded: The residual of each channel, in units of its noise
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

# %%

# folded: The beam, and how far the cube is from the truth
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
within = residual[:, radius < 1.8].std() / of_noise[:, radius < 1.8].std()
print(f"at the beam, off by {blurred.min():.0%} to {blurred.max():.0%}")

# %%

# figure
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
# Each channel has found its part of the disk, and what's left, the *residual*, is
# noise: nowhere does it exceed 5 σ. The star's sharp peak is too small for this array
# to see. Seen through the array's own beam, the images are off by 5 to 7 %.
#
# How long does it take?
# ----------------------
#
# Now for the first guess. A step in plain PyTorch makes about 100 calls, for one image
# as for 256. We time a loop of this kind, such as yours, and on a GPU also the step of
# ``fit``.

# folded: A step for any number of channels, timed


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


def make_fit(side, n):
    """Return the step of fit, which is captured when it has run once."""
    at = np.arange(n) % nchan
    thin = [a[at, ::20] for a in (seen.uu, seen.vv, seen.data, seen.weight)]
    likelihood = ExactLikelihood(*thin, coords.cell_size, side, device=device)
    net = GriddedNet(GridCoords(coords.cell_size, side), n).to(device)
    objective = Objective(net, likelihood, terms, "exact", separate=True)
    objective.fused_step = FusedStep(objective)
    return partial(Adam(net, lr=0.03).steps, objective, 1)


# %%

# folded: The timings
bench = Bench("many-channels", budget=6 if has_gpu else 1.1)
on_cpu, on_gpu = (1, 4, 16), (1, 4, 16, 64, 256) if has_gpu else ()
bench.time("8 pixels, 1", make_step(8, 1, "cpu"), n=1)
for side in (32, 96):
    for n in on_cpu:
        bench.time(f"{side} pixels, {n}", make_step(side, n, "cpu"), n=n)
    for n in on_gpu:
        name, step = f"GPU, {side} pixels, {n}", make_step(side, n, device)
        bench.time(name, step, n=n, device=device)
for n in on_gpu if on_nvidia else ():
    bench.time(f"fit, 96 pixels, {n}", make_fit(96, n), n=n, device=device)
bench.show()

# %%
# On the H100, a step with one image of 96 × 96 pixels took :timing:`many-channels
# median "GPU, 96 pixels, 1" @nvidia-h100-80gb-hbm3`. With 256 of them it took
# :timing:`many-channels median "GPU, 96 pixels, 256" @nvidia-h100-80gb-hbm3`. A bus
# takes as long with one passenger as with fifty, and so each of fifty pays a fiftieth.
# For a GPU the journey is a *launch*: for every call, Python and the driver have to
# start a :term:`kernel`. As long as there are free seats, another channel costs
# nothing. In numbers, if a step has the overhead :math:`a`, and a channel the work
# :math:`w`, then
#
# .. math::
#
#     \text{time per channel} = \frac{a}{n} + w .
#
# A CPU has less overhead, and does its work more slowly, so its bus is soon full. On
# one core of the CPU beside the H100, one image took :timing:`many-channels median "96
# pixels, 1" @nvidia-h100-80gb-hbm3`, less than on the GPU, and 16 took
# :timing:`many-channels median "96 pixels, 16" @nvidia-h100-80gb-hbm3`. Both factors in
# the title of the figure below are for a single core of a CPU, too. And on the H100?
# One image of 32 × 32 pixels took :timing:`many-channels median "GPU, 32 pixels, 1"
# @nvidia-h100-80gb-hbm3`, and 16 took :timing:`many-channels median "GPU, 32 pixels,
# 16" @nvidia-h100-80gb-hbm3`, so each of them cost about a sixteenth.

# measured figure


def ms(row):
    return 1e3 * min(bench[row].values)


many = np.geomspace(1, 512)
looks = {32: ("s", "--", ORANGE), 96: ("o", "-.", BLUE)}
starting, gains = ms("8 pixels, 1"), {}
fig, ax = plt.subplots(figsize=(7.6, 4.6), layout="constrained")
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
if on_nvidia:
    each = [ms(f"fit, 96 pixels, {n}") / n for n in on_gpu]
    ax.plot(on_gpu, each, "D", mfc="none", mec=BLUE, ms=7, label="GPU, fit, 96 pixels")
launched = {"model: H100, 96 pixels": (of_loop, ":")}
launched["model: H100, captured"] = captured, "-"
for name, (launch, dashes) in launched.items():
    model = 1e3 * np.maximum(launch / many, work_on_gpu(96))
    ax.plot(many, model, dashes, lw=2, color="grey", label=name)
ax.loglog()
ax.set(xlabel="channels in one tensor", ylabel="ms per step and channel")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=3, frameon=False)
title = f"16 at once: a channel costs {gains[32]:.1f} × less at 32 pixels"
fig.suptitle(f"{title}, {gains[96]:.1f} × at 96")
fig.set_label(f"""Time of a step for each channel against the number of channels. On the
CPU it falls {gains[32]:.1f}-fold up to 16 channels at 32 pixels, and
{gains[96]:.1f}-fold at 96, where it levels off. The model of a GPU
keeps falling, and the one of a captured step is far lower, and level from 19 on.""")
plt.show()

# %%
# In the figure, the CPU's marks fall at first and then level off, where the work of a
# channel is all that counts. Where is that point on a GPU? Let's count with two round
# numbers: for each channel, a step reads or writes 150 images, and each call takes
# :spec:`kernel of a program seconds`. By this model, an H100 carries more than a
# thousand channels of 96 × 96 pixels in the time of one, but only 13 of 1024 × 1024.
#
# And ``fit``? Its step is :doc:`a dozen kernels in a CUDA graph
# </tutorials/4_imaging/08_faster>`. By our model its bus is full much sooner: with 19
# channels of 96 × 96, or a single one of 1024 × 1024.
#
# On the H100, a step of ``fit`` took :timing:`many-channels median "fit, 96 pixels, 1"
# @nvidia-h100-80gb-hbm3` with one channel of 96 × 96 pixels, :timing:`many-channels
# median "fit, 96 pixels, 16" @nvidia-h100-80gb-hbm3` with 16, and
# :timing:`many-channels median "fit, 96 pixels, 256" @nvidia-h100-80gb-hbm3` with 256.
# So the bus is full about where the model says. From there on each channel costs twice
# what we counted, from 16 to 64 as from 64 to 256. We don't know why, and only a
# profile could tell. With 256 it was still
# :timing:`many-channels speedup "fit, 96 pixels, 256"/"GPU, 96 pixels, 256"
# @nvidia-h100-80gb-hbm3` as fast as the loop.
#
# .. holds::
#
#    of = lambda n: median(f"many-channels/fit, 96 pixels, {n}")
#    more = (of(64) - of(16)) / 48, (of(256) - of(64)) / 192
#    near(*more, 0.05) and near(more[0], 2.1 * 600 * 96**2 / 3.35e12, 0.05)
#
# So you gain most where a loop is slow, and next to nothing with large images.
#
# When the memory is too small
# ----------------------------
#
# 200 channels of 1024 × 1024 pixels need 32 GB. What if you have 8? Then fit them in
# groups. Grouping mustn't change the images. Does it? We fit the last five channels
# alone.


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
print(f"alone and among all: the same within {apart:.0e} of the peak")
assert apart < 0.02

# %%

# folded: On a CUDA device: how many images does a fit hold of a channel?


def peak(n, side=512):
    gc.collect()  # what an earlier fit has left
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    grid, at = GridCoords(coords.cell_size, side), np.arange(n)
    thin = [a[at, ::20] for a in (seen.uu, seen.vv, seen.data, seen.weight)]
    likelihood = ExactLikelihood(*thin, coords.cell_size, side, device=device)
    how = {"losses": terms, "separate": True, "max_iter": 3, "tolerance": None}
    fit(GriddedNet(grid, n).to(device), likelihood, **how, progress=False)
    return (torch.cuda.max_memory_allocated() - before) / (4 * side**2)


if device.type == "cuda":
    print(f"from two channels to six: {(peak(6) - peak(2)) / 4:.0f} images for each")
else:
    print("No card here counts its memory.")

# %%

most = most_channels(1024, 8e9)
big, groups = 200 * per_channel * 4 * 1024**2, math.ceil(200 / most)
print(f"{big / 1e9:.0f} GB in 8 GB: {groups} groups of {200 // groups}")

# %%
# The images are the same. By the rule, four groups of 50 would do. But they would leave
# nothing of the 8 GB for anything else, so plan with three quarters: six groups of 34.
# With :doc:`several GPUs </tutorials/4_imaging/11_more_than_one_gpu>`, each takes a
# group.
#
# .. holds::
#
#    0.75 * 8e9 // channel == 37 and 200 / 37 < 6 and 33 < 200 / 6 < 34
#
# Which way does the gas move?
# ----------------------------
#
# For each pixel, take the mean velocity of its channels, weighted by their brightness.
# What could go wrong?

# folded: The moments, with and without a clip


def moments(cube, clip):
    lit = torch.where(cube > clip, cube, 0)
    mean = (torch.from_numpy(velocity)[:, None, None] * lit).sum(0) / lit.sum(0)
    return lit.sum(0) * width, mean  # 0 / 0 is NaN: no gas, no velocity


known, empty = torch.from_numpy(away), torch.from_numpy(radius > 2.1)
maps = {part: moments(cube, part * cube.max()) for part in (0, 0.02, 0.05, 0.1, 0.3)}
true_flux = moments(truth, 0)[0].sum() * area
for part, (total, mean) in maps.items():
    lit = mean.isfinite()[empty].double().mean()
    flux = total.sum() * area / true_flux
    print(
        f"clip at {part:3.0%}: {lit:4.0%} of the empty sky moves, {flux:4.0%} of flux"
    )

# %%

# figure
disk = torch.from_numpy(radius < 1.7)
pictures = {"truth, within 1.7″": known.where(disk, torch.nan), "no clip": maps[0][1]}
pictures["clip at 5%"] = maps[0.05][1]
fig, axes = plt.subplots(1, 3, figsize=(7.6, 2.7), layout="constrained")
look = {"vmin": -3, "vmax": 3, "stretch": "linear", "unit": None, "cmap": "coolwarm"}
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    drawn = plot_image(picture, coords, ax=ax, **look)
    ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
fig.colorbar(drawn, ax=axes, label="km/s", ticks=[-2, 0, 2], shrink=0.8)
fig.suptitle("Without a clip, the empty sky has a velocity, too")
fig.set_label("""Maps of the mean velocity. The truth: a disk, half of which moves away.
Without a clip the sky has velocities, too. With it the disk is like the truth.""")
plt.show()
torch.set_num_threads(threads)

# %%
# Radio astronomers call such a map *moment 1*. :term:`Moment 0 <moment 0>` is the sum
# over the line, the brightness of all the gas. Look at the map in the middle. Where
# there is no gas, the fit has left a trace of noise, and its mean velocity looks just
# as real as the disk. So *clip*: count only what is brighter than, say, 5 % of the
# peak. But a clip also takes away the faint edge, and a tenth of the flux with it. So
# measure fluxes without one. All this fails if your line *absorbs*, since our images
# can't be negative. And if the observatory's frequencies drift with the Earth's motion,
# bring them to one frame first, with CASA's ``mstransform``.
#
# Your turn
# ---------
#
# Write the loop for a cube that is too large. ``fit_group(first, last)`` fits the
# channels from ``first`` up to, but not including, ``last``, and returns an array of
# their images. Fit all ``nchan`` of them, ``most`` at a time, and return one array of
# all images, in order. But somebody else may be using the GPU. If a group is too large,
# ``fit_group`` raises ``torch.OutOfMemoryError``. Then halve ``most``, and go on from
# where you were. If not even a single channel fits, let the error pass. Try again only
# after the ``except`` block: inside it, the error still holds on to the arrays of the
# fit that failed. Put your answer where the dots are, and run ``firstlight try
# 09_many_channels.py``.


def fit_in_groups(nchan, most, fit_group): ...


# %%

# folded: The checker: a GPU with room for some channels, and later for fewer


def find_problem(answer, nchan, most, rooms):
    done, calls = [], []

    def fit_group(first, last):
        if not 0 <= first < last <= nchan:
            raise ValueError(f"fit_group({first}, {last}): there are {nchan} channels")
        if len(calls) > 50:
            raise RuntimeError("fit_group was called more than 50 times")
        fits = last - first <= rooms[len(done) > 6]
        calls.append((last, last - first, fits))
        if not fits:
            raise torch.OutOfMemoryError(f"no room for {last - first} channels")
        done.extend(range(first, last))
        return np.arange(first, last)[:, None, None] * np.ones((1, 2, 3))

    try:
        images = answer(nchan, most, fit_group)
    except torch.OutOfMemoryError as error:
        return f"it raised OutOfMemoryError: {error}" if max(rooms) else ""
    if not max(rooms):
        return "not even one channel fits, and it didn't let the error pass"
    if images is None:
        return "fit_in_groups returns nothing yet"
    if sorted({*done}) != list(range(nchan)):
        return f"only {len({*done})} of {nchan} channels were fitted"
    if len(done) > nchan:
        return "some channels were fitted twice: go on from where you were"
    if np.shape(images) != (nchan, 2, 3) or (images[:, 0, 0] != range(nchan)).any():
        return "the images aren't one array of all channels, in order"
    return advice(calls, nchan, most)


# %%

# folded: What check tries


def advice(calls, nchan, most):
    """Say if a group was larger or smaller than it had to be."""
    should = min(most, nchan)
    for last, size, fits in calls:
        if size != should and not (last == nchan and size < should):
            return f"it tried {size} channels, and should have tried {should}"
        should = size if fits else size // 2
    return ""


def check(answer):
    full = 12, 4, (9, 9)
    cases = full, (10, 4, (9, 9)), (3, 8, (9, 9)), (20, 8, (4, 4)), (23, 8, (8, 3))
    for nchan, most, rooms in (*cases, (4, 2, (0, 0))):
        try:
            problem = find_problem(answer, nchan, most, rooms)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            said = f"{nchan} channels, most = {most}, and room for {rooms[0]}"
            said += "" if rooms[0] == rooms[1] else f", later for {rooms[1]}"
            return f"Not yet. With {said}: {problem}."
    return "Right: it fits any cube of which one channel fits."


# %%

print(check(fit_in_groups))

# %%
# Three lines to remember
# -----------------------
#
# The two factors of the first line are those of the core that built this page. The H100
# took :timing:`many-channels median "GPU, 96 pixels, 1" @nvidia-h100-80gb-hbm3` for one
# image of 96 × 96 pixels, and :timing:`many-channels median "GPU, 96 pixels, 256"
# @nvidia-h100-80gb-hbm3` for 256 at once. The 32 GB of the second line are counted.

# remember
print(
    "1. Channels in one tensor share the launches, and nothing else: of 16 at once, one"
)
print(
    f"   cost {gains[32]:.1f} times less at 32 pixels, and {gains[96]:.1f} times at 96."
)
print("2. A channel needs about 38 images of memory. If there is too little, fit in")
print(
    f"   groups: {big / 1e9:.0f} GB went into 8 GB in {groups}, with the same images."
)
print("3. Clip before you compute a velocity: without it, empty sky has one, too.")

# %%
# Solution
# --------

# solution


def fit_in_groups_solution(nchan, most, fit_group):
    images, first = [], 0
    while first < nchan:
        last = min(first + most, nchan)
        try:
            images.append(fit_group(first, last))
        except torch.OutOfMemoryError:
            if last - first == 1:
                raise
            most = (last - first) // 2
            continue  # out of this block, so that the error and its arrays are gone
        first = last
    return np.concatenate(images)


print(f"Our solution: {check(fit_in_groups_solution)}")
