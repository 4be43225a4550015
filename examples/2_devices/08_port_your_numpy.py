"""
What becomes of your NumPy when you move it to a GPU?
=====================================================

Your analysis in NumPy is slow. PyTorch has functions of the same names, and they run on
a GPU. So you change ``np`` to ``torch``. Some lines fail: these are harmless. Some run
and mean something else. And some get faster, while the whole does not. Here you move a
real kind of analysis, from sixteen pictures of a telescope to a list of stars. The sky
is simulated, so you know what has to come out.

**You will learn**

- to predict from a profile what a move can gain at most, before you change a line;
- which lines of NumPy mean something else in PyTorch, and do not tell you;
- to check each step before you time it, and what cannot repeat to the last digit;
- what to leave on the CPU, and what to write better before you move it.

**Time:** 20 minutes. **Needs:** any computer, and some NumPy. With a GPU, the page
moves to it. Without one, it moves to PyTorch on all cores of your CPU, and says so.
"""

# %%
# Predict
# -------
#
# An analysis is a row of steps. Those that you move to a GPU take :math:`1/s` of their
# time there. The others stay. If the ones that you move take a share :math:`p` of the
# time, then
#
# .. math::
#
#     t_\text{new} = t_\text{old} \left( (1 - p) + \frac{p}{s} \right).
#
# The *gain* is :math:`t_\text{old} / t_\text{new}`. It is never more than
# :math:`1/(1 - p)`: for a share of 50% that is 2, for 99% it is 100, with any GPU. This
# is *Amdahl's law*. So the first question is not "how fast is the GPU?" but *where does
# the time go?* You need an analysis, its profile, and a list of what can move.
#
# A night at the telescope
# ------------------------
#
# A camera counts light, and adds something of its own. So there are three kinds of
# pictures, called *frames*. A *bias* frame, taken with the shutter closed, shows what
# the camera counts in the dark. A *flat* of an evenly lit screen shows dark corners and
# dust. The sky frames have the stars, on a background that changes with the moon, and
# bright dots where particles from space, *cosmic rays*, hit. First, the sky:

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device

device = best_device()
has_gpu = device.type != "cpu"
side, count = (768, 16) if has_gpu else (192, 16)
rng = np.random.default_rng(seed=1)

grid = np.arange(12, side - 11, 24)  # stars far enough from each other
x, y = np.array([(x, y) for y in grid for x in grid], float).T
x, y = x + rng.uniform(-1.4, 1.4, x.size), y + rng.uniform(-1.4, 1.4, x.size)
truth = 10 ** rng.uniform(3, 4.5, x.size)  # electrons of each star in each frame

pixel, width = np.arange(side), 1.5
across, down = (np.exp(-((pixel - c[:, None]) ** 2) / 2 / width**2) for c in (x, y))
scene = (truth[:, None] * down).T @ across / (2 * np.pi * width**2)
print(f"device: {device}; {count} frames of {side} x {side} pixels, {x.size} stars")

# %%
# Now the frames. They are written as whole numbers with the large byte first, as in
# *FITS*, the file format of astronomy.

dust = rng.normal(1, 0.02, (side, side)) * (1.2 - 0.4 * (pixel / side - 0.5) ** 2)
dust /= dust.mean()
pattern = 300 + 15 * np.sin(pixel / 5)  # of the camera, in each row


def expose(light, count, rays=0.0):
    frames = rng.poisson(light * dust, (count, side, side)) + pattern
    frames += rng.normal(0, 5, frames.shape)
    hit = rng.random(frames.shape) < rays
    frames[hit] += rng.exponential(2000, hit.sum())
    return [frame.clip(0, 32_767).astype(">i2").tobytes() for frame in frames]


moon = rng.uniform(150, 300, (count, 1, 1))
night = expose(scene + moon, count, 1e-3), expose(0, 8), expose(20_000, 8)

# %%
# The analysis
# ------------
#
# Here is the analysis as a NumPy user writes it: read, *calibrate* (subtract the bias,
# divide by the flat), *level* (subtract each frame's background), *clean* (throw out
# what is far from the median of all frames), and *stack* (the mean, with its error).


def read(night, dtype=np.float32):
    stacks = [[np.frombuffer(file, ">i2") for file in files] for files in night]
    return [np.array(stack, dtype).reshape(-1, side, side) for stack in stacks]


def calibrate(sky, biases, flats):
    bias = np.median(biases, axis=0)
    flat = np.median(flats, axis=0) - bias
    return (sky - bias) / (flat / flat.mean())


def level(frames):
    return frames - np.median(frames, axis=(1, 2), keepdims=True)


def clean(frames):
    off = np.abs(frames - np.median(frames, axis=0))
    return np.where(off < 9 * np.median(off, axis=0), frames, np.nan)


def stack(frames):
    good = np.isfinite(frames).sum(axis=0)
    error = np.nanstd(frames, axis=0, ddof=1) / np.sqrt(good)
    return np.nanmean(frames, axis=0), error


# %%
# The last step, *photometry*, measures each star: the light in a circle, less the
# background in a ring around it. It is a loop over a list, with an error for each star.

stars = list(zip(x.tolist(), y.tolist(), strict=True))
box = np.arange(21)


def photometry(image, error, stars, box):
    measured = []
    for x, y in stars:
        x0, y0 = round(x) - 10, round(y) - 10
        cut = slice(y0, y0 + 21), slice(x0, x0 + 21)
        light, noise = image[cut], error[cut] ** 2
        far = (box - (x - x0)) ** 2 + (box[:, None] - (y - y0)) ** 2
        inside, ring = far < 36, (far > 49) & (far < 100)
        area = inside.sum() / ring.sum()
        flux = light[inside].sum() - area * light[ring].sum()
        variance = noise[inside].sum() + area**2 * noise[ring].sum()
        measured.append((float(flux), float(variance) ** 0.5))
    return np.array(measured).T


def analyse(night, dtype=np.float32):
    image, error = stack(clean(level(calibrate(*read(night, dtype)))))
    return image, error, photometry(image, error, stars, box)


# %%
# Is it right? The truth is known. A good measurement is off by about its error, so
# *(measured - true) / error* has to scatter by about 1. This result, in ``float64``, is
# what every later version is checked against.


def pull(flux, error):
    return np.sqrt(np.mean(((flux - truth) / error) ** 2))


exact_image, exact_error, exact = analyse(night, np.float64)
print(f"the stars are off by {pull(*exact):.2f} of their errors")
assert pull(*exact) < 1.5

# %%
# Profile
# -------
#
# Now time each step by itself, with its own inputs (:doc:`/how_we_measure`). For a
# program that is not cut into steps, use ``python -m cProfile -s cumtime script.py``.

sky, biases, flats = read(night)
calibrated = calibrate(sky, biases, flats)
levelled = level(calibrated)
cleaned = clean(levelled)
image, error = stack(cleaned)

steps = {
    "read": (read, night),
    "calibrate": (calibrate, sky, biases, flats),
    "level": (level, calibrated),
    "clean": (clean, levelled),
    "stack": (stack, cleaned),
    "photometry": (photometry, image, error, stars, box),
}
bench = Bench("port-numpy", budget=6)
for step, call in steps.items():
    bench.time(f"{step}, NumPy", *call, n=sky.size)
profile = {step: bench[f"{step}, NumPy"].median for step in steps}
old = sum(profile.values())
for step, seconds in profile.items():
    print(f"{step:<11}{1e3 * seconds:8.1f} ms {seconds / old:6.1%}")

# %%
# What can move? The four steps in the middle work on whole stacks. Reading files and
# walking through a list of stars are the CPU's work. That gives the limit. The second
# line adds a model of the trip to a card and back, at the best rate of a usual slot
# (:doc:`/tutorials/2_devices/05_transfers`).

from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity

moving = ["calibrate", "level", "clean", "stack"]
stays = sum(time for step, time in profile.items() if step not in moving)
share, at_most = 1 - stays / old, old / stays
sent = 4 * (sky.size + biases.size + flats.size + 2 * image.size)  # there and back
journey = sent / spec("PCIe 4 x16", "bandwidth")
print(f"the steps to move take {share:.0%}: at most {at_most:.1f} times as fast")
print(f"with a trip through PCIe 4 (a model): {old / (stays + journey):.1f} times")

# %%
# To predict more than the limit, you need :math:`s`. Most of the time is in medians. So
# move *one median*, see how much faster it gets, and let it speak for all four steps.
# It is also the first lesson in porting.
#
# The same name, another meaning
# ------------------------------
#
# The `Array API standard`__ is an agreement between NumPy, PyTorch and others: the same
# names, with the same meaning. NumPy 2 follows it, and PyTorch does for the most part.
# The package `array-api-compat`__ gives you an ``xp`` that follows it with either, so
# that one function serves both. But in its version 2024.12, the standard has no median
# and nothing for NaN. So ask both libraries, about a matrix ``m``, its numbers in one
# row ``v``, and NumPy's own ``two``:
#
# __ https://data-apis.org/array-api/2024.12/
# __ https://data-apis.org/array-api-compat/

numbers, two = np.array([[1, 2], [3, 10]], np.float32), np.float64(2)


def reply(line, xp, m):
    try:
        got = eval(line, {"xp": xp, "m": m, "v": m.reshape(-1), "two": two})
    except Exception as problem:
        return type(problem).__name__
    if isinstance(got, tuple):
        return "two results"
    if hasattr(got, "tolist"):
        return str(np.round(got.tolist(), 2))
    return str(got).removeprefix("torch.")


loud = "m.sum(axis=0)", "m.max(axis=0)", "v[::-1].sum()", "v.copy().sum()"
silent = "xp.median(v)", "xp.std(v)", "(v * two).dtype"
print(f"{'':<16}{'NumPy':<10}torch")
for line in loud + silent:
    theirs = reply(line, torch, torch.from_numpy(numbers))
    print(f"{line:<16}{reply(line, np, numbers):<10}{theirs}")

# %%
# PyTorch calls an axis ``dim``, and understands ``axis``. The next three lines fail, or
# surprise you at once, so they are harmless. (The checklist below says what to write.)
# Read the last three twice. They run, and no error will tell you.
#
# - *The median of an even number of values.* NumPy takes the mean of the two in the
#   middle, PyTorch the *lower* one. The stacks here have 16 and 8 frames. In noise, the
#   lower one is too low: a bias, in every pixel.
# - *The standard deviation.* NumPy divides by :math:`n`, PyTorch by :math:`n - 1`. Say
#   ``correction=0`` or ``correction=1`` (``ddof`` in NumPy 1).
# - *Types.* A ``float64`` number, such as a mean that you stored, makes NumPy 2's
#   result ``float64``, but not PyTorch's (:doc:`/tutorials/2_devices/09_precision`).
#
# ``torch.quantile`` averages as NumPy does, but refuses more than 16 million numbers:
# it works in your test, and fails on your data. So write a median for any size. The
# upper of the two in the middle is the lower one, seen from above:


def lower(x, dim):
    return x.median(dim).values


def median(x, dim):
    return (lower(x, dim) - lower(-x, dim)) / 2


for n in (15, 16):
    values = rng.standard_normal((n, 1001))
    right, low = (f(torch.from_numpy(values), 0) for f in (median, lower))
    assert np.array_equal(right, np.median(values, 0))
    print(f"{n} values: torch.median is low by {(right - low).mean():.2f}")

# %%
# (The values scatter by 1.) Now get :math:`s` from this one median. With a GPU, also
# time the trip: three stacks go over, two images come back.


def there(*arrays):
    return [torch.from_numpy(array).to(device) for array in arrays]


t_sky, t_biases, t_flats = there(sky, biases, flats)
slow = bench.time("median of frames, NumPy", np.median, sky, 0, n=sky.size).median
gain = slow / bench.time("median of frames, torch", median, t_sky, 0, n=sky.size).median
travel = {}
if has_gpu:
    bench.time("trip", lambda: there(sky, biases, flats)[0][:2].cpu(), device=device)
    travel["trip"] = bench["trip"].median
predicted = {s: t / gain if s in moving else t for s, t in profile.items()} | travel
new = sum(predicted.values())
print(f"one median is {gain:.2f} times as fast")
print(f"predicted: {quantity(old, 's')} / {quantity(new, 's')} = {old / new:.2f}")

# %%
# Write the prediction down before you move the rest. Below 1, the whole gets slower.
#
# What is shared
# --------------
#
# A slice is a *view* in both libraries: another name for the same memory. An index with
# a list or a mask copies. ``from_numpy`` shares, too. And ``.to``?

counts = np.array([1, 2, 3], np.float32)
tensor = torch.from_numpy(counts)
cut, picked = tensor[1:], tensor[[1, 2]]
tensor += 10  # in place
print(f"array {counts}, slice {cut.tolist()}, picked {picked.tolist()}")
on_device = tensor.to(device)
on_device -= on_device.mean()
print(f"after work in place on {device}: array {counts}")

# %%
# The last line depends on the machine. On a GPU, the work is done on a copy. On the
# CPU, ``.to`` has nothing to move, and your raw data are gone. So work in place only on
# what the function has made itself, and let the check compare the inputs as well.
#
# ``.T`` is a view, too. It changes only the *strides*: how far apart in memory the
# neighbours along each axis are. An array is *contiguous* if it lies in memory in the
# order of its axes. Predict: multiply one matrix by another, or by its transpose. The
# same bytes move. Does it take the same time?

from firstlight.measure.timing import measure

kept, matrix = (torch.ones(3000, 3000, device=device) for _ in range(2))
for name, other in {"as it lies": matrix, "transposed": matrix.T}.items():
    took = measure(kept.mul_, other, budget=0.3).median
    print(f"{name:<10} {quantity(took, 's')}, strides {other.stride()}")

# %%
# Memory delivers neighbours together, and the transpose wants one number of each group.
# ``.to(device)`` keeps the strides. Call ``.contiguous()`` once, before heavy use.
#
# Move the steps
# --------------
#
# ``keepdims`` becomes ``[:, None, None]``, an axis of two becomes ``flatten``, and the
# NaN functions become a mask. The rest is as it was. That is the way to port: write
# with what both libraries share, and keep differences in one place, like ``median``.


def t_calibrate(sky, biases, flats):
    bias = median(biases, 0)
    flat = median(flats, 0) - bias
    return (sky - bias) / (flat / flat.mean())


def t_level(frames):
    return frames - median(frames.flatten(1), 1)[:, None, None]


def t_clean(frames):
    off = (frames - median(frames, 0)).abs()
    return torch.where(off < 9 * median(off, 0), frames, torch.nan)


def t_stack(frames):
    good = frames.isfinite()
    count = good.sum(0)
    mean = torch.where(good, frames, 0).sum(0) / count
    variance = torch.where(good, frames - mean, 0).square().sum(0) / (count - 1)
    return mean, (variance / count).sqrt()


# %%
# Check
# -----
#
# Give each step *the same input* as NumPy's, and compare the outputs. A check of the
# end alone finds a mistake, but not the step. The unit is the error of the stack.

t_steps = {
    "calibrate": (calibrated, t_calibrate, t_sky, t_biases, t_flats),
    "level": (levelled, t_level, *there(calibrated)),
    "clean": (cleaned, t_clean, *there(levelled)),
    "stack": (np.stack([image, error]), t_stack, *there(cleaned)),
}
for step, (right, function, *inputs) in t_steps.items():
    before = [array.clone() for array in inputs]
    got = function(*inputs)
    got = (torch.stack(got) if step == "stack" else got).cpu().numpy()
    worst = np.nanmax(np.abs(got - right) / exact_error)
    other = np.sum(np.isnan(got) != np.isnan(right))
    assert worst < 0.02, f"{step} is off by {worst:.2g} errors"
    for was, now in zip(before, inputs, strict=True):
        assert torch.equal(was.nan_to_num(), now.nan_to_num()), f"{step} changes inputs"
    print(f"{step:<10} {worst:.0e} errors, {other} pixels")

# %%
# That is how far the worst pixel is off, and how many pixels only one of the two threw
# out. Then the whole, with the right median and with PyTorch's own, on the same frames:


def ported(night):
    arrays = there(*read(night))
    t_image, t_error = t_stack(t_clean(t_level(t_calibrate(*arrays))))
    image, error = t_image.cpu().numpy(), t_error.cpu().numpy()
    return image, error, photometry(image, error, stars, box)


moved, ours = ported(night)[2], median
median = lower
naive = ported(night)[2]
median = ours
for name, got in {"NumPy's median": moved, "torch.median": naive}.items():
    drift = np.max(np.abs(got[0] - exact[0]) / exact[1])
    print(f"{name}: {pull(*got):.2f} errors from the truth,", end=" ")
    print(f"the worst star {drift:.0e} errors from NumPy's")
low = (median(t_biases, 0) - lower(t_biases, 0)).mean()
print(f"torch.median made the bias frame {low:.2f} counts too low")
assert np.allclose(moved[0], exact[0], atol=0.01 * exact[1].min())

# %%
# Nothing looks wrong with ``torch.median``. Each star has changed a little, and the
# check against the truth does not see it, because *level* takes the lost counts away
# again. Without such a step, they would be missing from your result. Only the
# comparison with NumPy shows the mistake.
#
# Measure
# -------
#
# Each step, with data that are on the device, and the whole, from files to stars:

for step, (_, *call) in t_steps.items():
    bench.time(f"{step}, torch", *call, n=sky.size, device=device)
bench.time("whole, NumPy", analyse, night, n=sky.size)
bench.time("whole, ported", ported, night, n=sky.size, device=device)
bench.show()

# %%
# Now put the prediction beside what you met:

met = {step: bench[f"{step}, torch"].median for step in moving}
met = {step: met.get(step, profile[step]) for step in profile} | travel
whole_old, whole = (bench[f"whole, {how}"].median for how in ("NumPy", "ported"))
print("step       predicted      met")
for step, seconds in met.items():
    print(f"{step:<10}{quantity(predicted[step], 's'):>10}{quantity(seconds, 's'):>9}")
met_sum = sum(met.values())
print(f"sum of the steps {quantity(met_sum, 's')}, the whole {quantity(whole, 's')}")
print(f"gain of the whole: predicted {old / new:.2f}, met {whole_old / whole:.2f}")

# %%
# The law is only a sum, so it holds. What can fail is :math:`s`: one median speaks for
# all, and no two steps gain alike. So move the largest step first, and predict again.
#
# Without a GPU, "moved" means PyTorch on all cores of the CPU, against NumPy on one.
# Nothing travels, and ``median`` does two for NumPy's one. So do not expect a gain, as
# the prediction says before the work is done. Measured on the newest GPU on record:
# :timing:`port-numpy speedup "whole, ported"/"whole, NumPy" @gpu`.
#
# A better way first
# ------------------
#
# NumPy finds the middle of 16 numbers for one pixel after the other. Turn that around:
# compare two whole frames, put the smaller numbers into one and the larger into the
# other, and go on with the next two. After 16 rounds the frames are sorted. ``minimum``
# and ``maximum`` are in the Array API, so ``xp`` can be either library:


def median_by_swaps(frames, xp):
    rows, n = list(frames), len(frames)
    for i in range(n):
        for j in range(i % 2, n - 1, 2):
            a, b = rows[j], rows[j + 1]
            rows[j], rows[j + 1] = xp.minimum(a, b), xp.maximum(a, b)
    return (rows[(n - 1) // 2] + rows[n // 2]) / 2


for xp, frames, place in ((np, sky, "cpu"), (torch, t_sky, device)):
    found = torch.as_tensor(median_by_swaps(frames, xp)).cpu().numpy()
    assert np.array_equal(found, np.median(sky, axis=0))
    label = f"by swaps, {xp.__name__}"
    took = bench.time(label, median_by_swaps, frames, xp, n=sky.size, device=place)
    print(f"{label}: {slow / took.median:.1f} times as fast as np.median")

# %%
# The first of these lines uses one core, no GPU and no other library. The law does not
# ask *why* a step is faster, so put it in, too. In the picture, the dashed line is the
# law. To the right, the four steps get faster (a trip counts as part of them), and the
# whole follows, up to the limit:

fewer = 1 - bench["by swaps, numpy"].median / slow
rewritten = old - fewer * (profile["calibrate"] + profile["clean"])
points = {
    "moved, predicted": (new, old / new, "o", "none"),
    "moved, met": (met_sum, whole_old / whole, "D", "C1"),
    "by swaps on one core, predicted": (rewritten, old / rewritten, "^", "none"),
}
work, s = old - stays, np.geomspace(0.03, 1000, 200)
fig, ax = plt.subplots(figsize=(5.6, 3.9), layout="constrained")
ax.loglog(s, old / (stays + work / s), "C0--", lw=2, label="Amdahl's law (a model)")
ax.axhline(at_most, color="C3", ls=":", lw=2, label=f"limit of a move: {at_most:.1f}")
ax.axhline(1, color="gray", lw=1, label="as fast as NumPy")
for name, (seconds, y, marker, fill) in points.items():
    style = {"mec": "C1", "mfc": fill, "mew": 2, "ms": 10, "ls": "none"}
    ax.plot(work / (seconds - stays), y, marker, label=name, **style)
ax.set(xlabel="s: the gain of the four steps", ylabel="the gain of the whole")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter("{x:g}")
fig.legend(loc="outside lower left", frameon=False, ncols=2, fontsize=9)
fig.set_label(
    f"The gain of the whole over that of four steps flattens at {at_most:.1f}. Moved: "
    f"predicted {old / new:.2f}, met {whole_old / whole:.2f}. By swaps on one core, "
    f"predicted: {old / rewritten:.1f}."
)
plt.show()

# %%
# A GPU that is compared with ``np.median`` is compared with a slow way. So look for a
# better way *before* you move. (This one moves as well: see ``by swaps, torch``.)
#
# What stays on the CPU
# ---------------------
#
# Why not move the photometry as well? It runs with tensors as it is: it has only
# operators, slices and ``.sum()``, which mean the same in both. Check, then measure:

loop = photometry, *t_stack(*there(cleaned)), stars, *there(box)
assert np.allclose(photometry(*loop[1:])[0], exact[0], atol=0.01 * exact[1].min())
timing = bench.time("photometry, torch", *loop, n=sky.size, device=device)
print(f"moved: {profile['photometry'] / timing.median:.2f} times as fast as with NumPy")

# %%
# *A loop of small steps gets slower when you move it.* There are about thirty of them
# for each star, on a few hundred numbers, and PyTorch needs longer to *begin* each than
# NumPy (:doc:`/tutorials/2_devices/07_when_the_gpu_wins`). A GPU also has to be waited
# for, at every ``float`` and every mask. To move such a loop, turn it around as you did
# with the median: each step once, for all stars.
#
# Other things stay as well: reading and unpacking files (PyTorch refuses the bytes of
# FITS), lists of objects, text, plots, and what takes less time than its trip.
#
# Random numbers, and results that repeat
# ---------------------------------------
#
# The same seed gives other numbers in another library, and on another device:

print(f"NumPy       {np.random.default_rng(1).standard_normal(3).round(3)}")
for place in dict.fromkeys(["cpu", device.type]):
    torch.manual_seed(1)
    drawn = torch.randn(3, device=place)
    print(f"torch, {place:<4} {drawn.cpu().numpy().round(3)}")

# %%
# PyTorch promises the same numbers `neither between devices nor between versions`__. So
# where a result has to be checked against another machine, draw on the CPU and move.
#
# __ https://docs.pytorch.org/docs/stable/notes/randomness.html
#
# Results also differ by the *order of a sum*: rounding makes ``(a + b) + c`` and ``a +
# (b + c)`` different numbers. Where many threads of a GPU add to one place, as in
# ``index_add_``, they come in any order, and two runs can differ. Here is a sum of
# light in eight rings, twenty times the same, and twenty times in a shuffled order:

rings, values = rng.integers(8, size=50_001), rng.standard_normal(50_001, np.float32)


def ring_sums(order):
    ring, light = there(rings[order], values[order])
    return tuple(torch.zeros(8, device=device).index_add_(0, ring, light).tolist())


as_given = np.arange(50_001)
same = {ring_sums(as_given) for _ in range(20)}
mixed = {ring_sums(rng.permutation(50_001)) for _ in range(20)}
print(f"different results in 20 runs: {len(same)}; shuffled: {len(mixed)}")
if device.type == "cuda":
    torch.use_deterministic_algorithms(True)
    print(f"deterministic: {len({ring_sums(as_given) for _ in range(20)})}")
    torch.use_deterministic_algorithms(False)

# %%
# ``torch.use_deterministic_algorithms(True)`` takes algorithms with a fixed order,
# which are often slower, and raises an error where there is none. Then one machine
# repeats itself. Two machines still need not agree. For that you need what you used
# above: a tolerance, in units of the error that matters.
#
# Where this stops being true
# ---------------------------
#
# - *A threshold makes a decision out of a rounding.* A pixel on the limit of *clean*
#   can go on one machine and stay on another. Both are right. Count such pixels.
# - *A profile is of one size.* With more frames, the medians grow. With more stars, the
#   photometry does. Profile what you will run.
#
# A checklist
# -----------
#
# .. table:: From NumPy to PyTorch: a checklist
#
#    ===============================  ==================================================
#    your NumPy has                   in PyTorch
#    ===============================  ==================================================
#    ``np.median``, ``nanmedian``     the lower of two: use ``median`` from above
#    ``std``, ``var``                 another default: say ``correction=``
#    ``max``, ``sort`` with an axis   two results: ``.values``, or ``amax``
#    ``nanstd``, ``nanmax``, masks    a mask and ``torch.where``
#    ``percentile``, ``a[::-1]``      ``quantile`` (small arrays), ``a.flip(0)``
#    ``a.copy()``, ``a.astype(t)``    ``.clone()``, ``.to(t)``
#    ``float64`` without saying so    name ``float32`` when you read; check the error
#    ``-=`` on an argument            changes the caller's data on the CPU only
#    ``.T``, ``swapaxes``             a view: ``.contiguous()`` before heavy use
#    ``default_rng(seed)``            other numbers: draw on the CPU, move
#    ``np.add.at``                    ``index_add_``; on a GPU in any order
#    a loop of small steps            all at once, first with NumPy; or leave it there
#    files, lists, text, plots        stay: one trip there, one back
#    ===============================  ==================================================
#
# Exercise
# --------
#
# Write the prediction as a function. ``profile`` has the seconds of each step, in
# order. ``factors`` says of each step that moves how many times as fast it gets there.
# Data start and end on the CPU, and each change of sides costs ``trip`` seconds.


def total(profile, factors, trip): ...


four = {"read": 1, "clean": 4, "stack": 4, "list": 1}
cases = [
    ((four, {}, 5), 10, "what does not move takes its old time, and no trip."),
    ((four, {"clean": 4}, 0), 7, "a step that gets 4 times as fast is divided by 4."),
    ((four, {"clean": 4}, 0.5), 8, "data go there and come back: two trips."),
    ((four, {"clean": 4, "stack": 2}, 0.5), 6, "neighbours on one side share a trip."),
    ((four, {"list": 2, "stack": 4}, 0.5), 7.5, "the result has to come back at last."),
    ((four, {"read": 2, "stack": 4}, 0.5), 8.5, "each change of sides is a trip."),
    ((four, {"clean": 0.5}, 1), 16, "a factor below 1 is a slower step."),
]


def check(answer):
    for (profile, factors, trip), right, hint in cases:
        call = f"total of {[*profile]} with {factors} and trips of {trip} s"
        try:
            got = answer(dict(profile), dict(factors), trip)
            number = isinstance(got, (int, float, np.number))
            close = number and abs(got - right) < 1e-6
        except Exception as error:
            return f"{call} raised {type(error).__name__}: {error}"
        if not close:
            return f"{call} gave {got!r}, not {right}.\nHint: {hint}"
    return "Right: you know what a move is worth before you make it."


print(check(total))

# %%

# solution


def total_solution(profile, factors, trip):
    moved = [step in factors for step in profile]
    sides = zip([False, *moved], [*moved, False], strict=True)
    trips = trip * sum(one != other for one, other in sides)
    return trips + sum(time / factors.get(step, 1) for step, time in profile.items())


print(check(total_solution))

# %%
# Three lines to remember
# -----------------------

print(f"1. Profile first: {share:.0%} can move, so the gain is at most {at_most:.1f}.")
print(f"   Predicted {old / new:.2f}, met {whole_old / whole:.2f}.", end=" ")
print(f"By swaps, with no move: {old / rewritten:.1f}, predicted.")
print("2. The dangerous lines do not fail: medians, std, types, in-place, seeds.")
print("3. Check each step against NumPy on the same input, in units of your error.")
