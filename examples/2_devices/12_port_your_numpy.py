"""
What becomes of your NumPy when you move it to a GPU?
=====================================================

For anyone with an analysis in NumPy and a GPU to try it on. In PyTorch, many lines move
when you change ``np`` to ``torch``. Lines that fail are harmless. The dangerous ones
run and mean something else: the :term:`median` of an even number of values, the
standard deviation, mixed types. The whole program gains less than the steps that you
move, because what stays on the CPU takes as long as before. So :term:`profile` first,
check each step against NumPy, and look for a better way to compute a slow step before
you move it.

**You will learn**

- to predict from a profile what a move can gain at most, before you change a line;
- which lines of NumPy mean something else in PyTorch, without an error;
- to check each step before you time it;
- what to leave on the CPU, and what to rewrite before you move it.

**Time:** 13 minutes. **Needs:** any computer, and some NumPy. Without a GPU, the page
moves to PyTorch on the same CPU, which tests the method, not the hardware.
"""

# %%
# A checklist
# -----------
#
# .. table:: From NumPy to PyTorch
#
#    ===============================  ==================================================
#    your NumPy has                   in PyTorch
#    ===============================  ==================================================
#    ``np.median``                    the lower of two: use the ``median`` further down
#    ``std``, ``var``                 ``correction=0`` is NumPy's default
#    ``float64`` without saying so    name ``float32`` when you read; check the error
#    ``-=`` after ``.to(device)``     changes your array too, on the CPU only
#    big-endian numbers (FITS)        ``.astype(np.float32)`` before ``from_numpy``
#    ``max``, ``sort`` with an axis   two results: ``.values``, or ``amax``
#    ``nanstd``, ``nanmax``, masks    a mask and ``torch.where``
#    ``percentile``, ``a[::-1]``      ``quantile`` (small arrays), ``a.flip(0)``
#    ``a.copy()``, ``a.astype(t)``    ``.clone()``, ``.to(t)``
#    ``.T``, ``swapaxes``             a view: ``.contiguous()`` before heavy use
#    ``default_rng(seed)``            different numbers: draw on the CPU, then move
#    ``np.add.at``                    ``index_add_``; on a GPU in any order
#    a loop of small steps            all at once, first with NumPy; or leave it there
#    files, lists, text, plots        stay: one transfer there, one back
#    ===============================  ==================================================
#
# CuPy, JAX or PyTorch?
# ---------------------
#
# - `CuPy`__ is NumPy for the GPUs of NVIDIA and AMD: change ``np`` to ``cupy``, and
#   nearly all names *and* meanings stay, medians included. If you have such a card and
#   need no gradients, begin there; the profile, the limit and the checks below remain.
# - `JAX`__ has NumPy's meanings in ``jax.numpy``, gradients, and ``jax.jit``, which
#   compiles whole functions. Its arrays are immutable: ``x[i] = v`` becomes ``x =
#   x.at[i].set(v)``. It computes in ``float32`` unless you enable ``float64``.
# - *PyTorch* has meanings of its own. These pages use it because it runs on the GPUs of
#   NVIDIA, AMD, Intel and Apple and on any CPU, and brings gradients.
#
# __ https://docs.cupy.dev/en/stable/user_guide/difference.html
# __ https://docs.jax.dev/en/latest/101/arrays.html
#
# Predict
# -------
#
# Suppose the steps that you move take a share :math:`p` of the time, and get :math:`s`
# times as fast. The others take as long as before:
#
# .. math::
#
#     t_\text{new} = t_\text{old} \left( (1 - p) + \frac{p}{s} \right).
#
# So the *gain*, :math:`t_\text{old} / t_\text{new}`, is never more than :math:`1/(1 -
# p)`: for a share of 50% that is 2, with any GPU. This is :term:`Amdahl's law`.
#
# Our analysis is a night at a telescope: sixteen frames of stars, of 192 × 192 pixels
# (768 × 768 with a GPU), with a background that changes with the moon, and bright dots
# where *cosmic rays* hit; eight *bias* frames, what the camera reads without exposure;
# and eight *flats* of an evenly lit screen. The sky is simulated, so the truth is
# known.

# folded: The simulated night, as files of big-endian integers
import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.display import show_table

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
print(f"device: {device}; {count} frames of {side} x {side} pixels, {x.size} stars")

# %%
# The analysis, as a NumPy user writes it: read, *calibrate*, *level* (subtract each
# frame's background), *clean* (throw out what is far from the median of all frames),
# and *stack* (the mean, with its error).


middle = np.median  # of several frames: a name, to try another way later


def read(night, dtype=np.float32):
    stacks = [[np.frombuffer(file, ">i2") for file in files] for files in night]
    return [np.array(stack, dtype).reshape(-1, side, side) for stack in stacks]


def calibrate(sky, biases, flats):
    bias = middle(biases, axis=0)
    flat = middle(flats, axis=0) - bias
    return (sky - bias) / (flat / flat.mean())


def level(frames):
    return frames - np.median(frames, axis=(1, 2), keepdims=True)


def clean(frames):
    off = np.abs(frames - middle(frames, axis=0))
    return np.where(off < 9 * middle(off, axis=0), frames, np.nan)


def stack(frames):
    good = np.isfinite(frames).sum(axis=0)
    error = np.nanstd(frames, axis=0, ddof=1) / np.sqrt(good)
    return np.nanmean(frames, axis=0), error


# %%
# The last step, *photometry*, is a loop over the stars: the light in a circle, less the
# background around it.

# folded: The photometry, and a check against the truth
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


def pull(flux, error):
    return np.sqrt(np.mean(((flux - truth) / error) ** 2))


exact_image, exact_error, exact = analyse(night, np.float64)  # to check against
print(f"typical deviation of a star from the truth: {pull(*exact):.2f} sigma")
assert pull(*exact) < 1.5

# %%
# Profile
# -------
#
# Time each step by itself. (For a program that is not cut into steps, use ``python -m
# cProfile -s cumtime script.py``.)

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

# %%
# The four steps in the middle work on whole stacks and can move. Reading files (here
# from memory: your disk comes on top) and walking through a list of stars stay on the
# CPU. That gives the limit for any GPU, also with transfers at the full rate of
# :term:`PCIe` 4 (:doc:`/tutorials/2_devices/04_small_copies`):

from firstlight.display import quantity
from firstlight.timing.specs import spec

profile = {step: bench[f"{step}, NumPy"].median for step in steps}
old = sum(profile.values())
moving = ["calibrate", "level", "clean", "stack"]
stays = sum(time for step, time in profile.items() if step not in moving)
share, at_most = 1 - stays / old, old / stays
sent = 4 * (sky.size + biases.size + flats.size + 2 * image.size)  # there and back
journey = sent / spec("PCIe 4 x16", "bandwidth")
rows = [(s, quantity(t, "s"), f"{t / old:.0%}") for s, t in profile.items()]
show_table("The profile", ("step", "time", "share"), rows)
print(f"the steps to move take {share:.0%}: at most {at_most:.1f} times as fast,")
print(f"{old / (stays + journey):.1f} times with transfers over PCIe 4 (a model)")

# %%
# To predict more than the limit, you need :math:`s`. The steps consist mostly of
# medians, so move *one median*, and let it stand for all four.
#
# The same name, another meaning
# ------------------------------
#
# Ask both libraries about ``m = [[1, 2], [3, 10]]``, about ``v``, the same numbers in
# one row, and about ``two``, a NumPy ``float64`` number:

# folded: A function that asks a library
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


# %%

loud = "m.sum(axis=0)", "m.max(axis=0)", "v[::-1].sum()", "v.copy().sum()"
silent = "xp.median(v)", "xp.std(v)", "(v * two).dtype"
tensor = torch.from_numpy(numbers)
rows = [
    (line, reply(line, np, numbers), reply(line, torch, tensor))
    for line in loud + silent
]
show_table("One line, two libraries", ("", "NumPy", "PyTorch"), rows)

# %%
# Rows two to four fail, or surprise you at once. The last three run, and no error will
# tell you:
#
# - *The median of an even number of values.* NumPy takes the mean of the two in the
#   middle, PyTorch the *lower* one. With noise, that is too low in every pixel.
# - *The standard deviation.* NumPy divides by :math:`n`, PyTorch by :math:`n - 1`.
# - *Types.* A ``float64`` number, such as a stored mean, makes NumPy 2's result
#   ``float64``, but not PyTorch's (:doc:`/tutorials/2_devices/13_precision`).
#
# So write a median. The upper of the two is minus the lower one of :math:`-x`:


def lower(x, dim):
    return x.median(dim).values


def median(x, dim):
    return (lower(x, dim) - lower(-x, dim)) / 2


for n in (15, 16):
    values = rng.standard_normal((n, 1001))
    right, low = (f(torch.from_numpy(values), 0) for f in (median, lower))
    assert np.array_equal(right, np.median(values, 0))
    print(f"{n} values: torch.median is low by {(right - low).mean():.2f} sigma")

# %%
# Now get :math:`s` from this one median, and with a GPU also the time of the transfers:
# three stacks go over, two images come back.


def to_device(*arrays):
    return [torch.from_numpy(array).to(device) for array in arrays]


t_sky, t_biases, t_flats = to_device(sky, biases, flats)
slow = bench.time("median of frames, NumPy", np.median, sky, 0, n=sky.size).median
gain = slow / bench.time("median of frames, torch", median, t_sky, 0, n=sky.size).median
travel = {}
if has_gpu:
    bench.time(
        "transfers", lambda: to_device(sky, biases, flats)[0][:2].cpu(), device=device
    )
    travel["transfers"] = bench["transfers"].median
predicted = {s: t / gain if s in moving else t for s, t in profile.items()} | travel
new = sum(predicted.values())
print(f"one median is {gain:.2f} times as fast; predicted for the whole:")
print(f"{quantity(old, 's')} / {quantity(new, 's')} = {old / new:.2f} times as fast")

# %%
# Move the steps
# --------------
#
# ``keepdims`` becomes ``[:, None, None]``, ``axis=(1, 2)`` becomes ``flatten``, and the
# :term:`NaN` functions become a mask. The rest is as it was.


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
# One trap is left: memory that is shared. ``from_numpy`` shares it, and a slice or
# ``.T`` is a *view* of it in both libraries. (A view whose elements do not lie in order
# is not :term:`contiguous`, and often slower to read.) And ``.to``?

counts = np.array([1, 2, 3], np.float32)
on_device = torch.from_numpy(counts).to(device)
on_device -= on_device.mean()
print(f"after work in place on {device}, the array is {counts}")

# %%
# On a GPU, the work is done on a copy. On the CPU, ``.to`` has nothing to move, and
# your raw data are gone. So change in place only arrays that your function made.
#
# Check
# -----
#
# Give each step *the same input* as NumPy's, compare the outputs, and the inputs
# afterwards. The unit, sigma, is the error of the stack.

t_steps = {
    "calibrate": (calibrated, t_calibrate, t_sky, t_biases, t_flats),
    "level": (levelled, t_level, *to_device(calibrated)),
    "clean": (cleaned, t_clean, *to_device(levelled)),
    "stack": (np.stack([image, error]), t_stack, *to_device(cleaned)),
}
rows = []
for step, (right, function, *inputs) in t_steps.items():
    before = [array.clone() for array in inputs]
    got = function(*inputs)
    got = (torch.stack(got) if step == "stack" else got).cpu().numpy()
    worst = np.nanmax(np.abs(got - right) / exact_error)
    assert worst < 0.02, f"{step} is off by {worst:.2g} sigma"
    for was, now in zip(before, inputs, strict=True):
        assert torch.equal(was.nan_to_num(), now.nan_to_num()), f"{step} changes inputs"
    differ = np.sum(np.isnan(got) != np.isnan(right))
    rows.append((step, f"{worst:.0e} sigma" if worst else "equal", str(differ)))
head = "step", "worst pixel", "masked by one only"
show_table("PyTorch's steps against NumPy's", head, rows)

# %%
# Then the whole, with the right median and with PyTorch's own:


def ported(night):
    arrays = to_device(*read(night))
    t_image, t_error = t_stack(t_clean(t_level(t_calibrate(*arrays))))
    image, error = t_image.cpu().numpy(), t_error.cpu().numpy()
    return image, error, photometry(image, error, stars, box)


moved, ours = ported(night)[2], median
median = lower
naive = ported(night)[2]
median = ours
for name, got in {"NumPy's median": moved, "torch.median": naive}.items():
    drift = np.max(np.abs(got[0] - exact[0]) / exact[1])
    print(f"{name}: {pull(*got):.2f} sigma from the truth;", end=" ")
    print(f"worst star against NumPy: {drift:.1g} sigma")
low = (median(t_biases, 0) - lower(t_biases, 0)).mean()
print(f"torch.median made the bias frame {low:.2f} counts too low")
assert np.allclose(moved[0], exact[0], atol=0.01 * exact[1].min())

# %%
# Nothing looks wrong with ``torch.median``: the check against the truth does not see
# it, because *level* happens to take the lost counts away again. Only the comparison
# with NumPy shows the mistake.
#
# Measure
# -------
#
# Each step, with data that are on the device, and the whole, from files to stars:

# folded: Each step and the whole, timed
for step, (_, *call) in t_steps.items():
    bench.time(f"{step}, torch", *call, n=sky.size, device=device)
bench.time("whole, NumPy", analyse, night, n=sky.size)
bench.time("whole, ported", ported, night, n=sky.size, device=device)
bench.show()

# %%

measured = {step: bench[f"{step}, torch"].median for step in moving}
measured = {step: measured.get(step, profile[step]) for step in profile} | travel
whole_old, whole = (bench[f"whole, {how}"].median for how in ("NumPy", "ported"))
rows = [(s, quantity(predicted[s], "s"), quantity(t, "s")) for s, t in measured.items()]
rows.append(("their sum", quantity(new, "s"), quantity(sum(measured.values()), "s")))
rows.append(("the whole", "–", quantity(whole, "s")))
rows.append(("gain of the whole", f"{old / new:.2f}", f"{whole_old / whole:.2f}"))
head = "step", "predicted", "measured"
show_table("The move, predicted and measured", head, rows)

# %%
# Two things can go wrong. One is :math:`s`, because one median stands for four steps:
# compare the rows. The other is the sum: each step is timed with its inputs ready, so
# new memory, or other programs, can make the whole take longer. So move the largest
# step first, predict again, and time the whole.
#
# On the newest GPU on record, the gain of the whole is :timing:`port-numpy speedup
# "whole, ported"/"whole, NumPy" @gpu`.
#
# How fast is the journey on real cards, and the work? These numbers come from three
# public benchmarks and a notebook, none of them ours.
#
# .. measured-by-others:: link-a100 pageable-gtx1660ti add-rtx3060
#    taper-a100
#
# A better way first
# ------------------
#
# NumPy finds the middle of 16 numbers for one pixel after another. Instead, compare
# two whole frames, put the smaller numbers into one and the larger into the other, and
# go on with the next two (an odd-even sort of whole frames). ``minimum`` and
# ``maximum`` mean the same in all libraries, so ``xp`` can be any of them:


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
    print(f"{label}: {slow / took.median:.2g} times as fast as np.median")


def by_swaps(frames, axis):
    return median_by_swaps(np.moveaxis(frames, axis, 0), np)


middle = by_swaps  # in calibrate and in clean
assert np.allclose(analyse(night)[2][0], exact[0], atol=0.01 * exact[1].min())
better = bench.time("whole, by swaps", analyse, night, n=sky.size).median
middle = np.median
print(f"the whole, in NumPy with swaps: {whole_old / better:.1f} times as fast")

# %%
# In NumPy, both medians run on one core. If the swaps win, ``np.median`` was a poor
# yardstick for a GPU. Look for a better way *before* you move:

# measured figure
# sphinx_gallery_thumbnail_number = 1
work, s = old - stays, np.geomspace(0.03, 1000, 200)
where = "on this GPU" if has_gpu else "on the same CPU"
points = {
    f"PyTorch {where}, predicted": (new - stays, old / new, "o", "none"),
    f"PyTorch {where}, measured": (
        sum(measured.values()) - stays,
        whole_old / whole,
        "D",
        "C1",
    ),
    "a better median in NumPy, measured": (
        max(work - (whole_old - better), work / 1000),
        whole_old / better,
        "^",
        "C2",
    ),
}
fig, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
ax.loglog(s, old / (stays + work / s), "C0--", lw=2, label="Amdahl's law")
for height, text in ((at_most, f"limit of any move: {at_most:.1f}"), (1, "as before")):
    ax.axhline(height, color="gray", ls=":", lw=2)
    ax.text(0.03, 1.12 * height, text)
for name, (seconds, y, marker, fill) in points.items():
    look = {"mec": "C2" if marker == "^" else "C1", "mfc": fill, "mew": 2, "ms": 9}
    ax.plot(work / seconds, y, marker, ls="none", label=name, **look)
ax.legend(loc="lower right", frameon=False)
ax.set_ylim(None, 3 * at_most)
ax.set(xlabel="how many times as fast the four steps are", ylabel="gain of the whole")
ax.set_title("The steps that stay limit the gain, however fast the GPU")
ax.spines[["top", "right"]].set_visible(False)
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter("{x:g}")
fig.set_label(
    f"The gain of the whole over that of four steps flattens at {at_most:.1f}. PyTorch "
    f"{where}: predicted {old / new:.2f}, measured {whole_old / whole:.2f}. A better "
    f"median in NumPy, on one core: measured {whole_old / better:.1f}."
)
plt.show()

# %%
# What stays on the CPU
# ---------------------
#
# The photometry runs with :term:`tensors <tensor>` as it is. Does moving it pay?

loop = photometry, *t_stack(*to_device(cleaned)), stars, *to_device(box)
assert np.allclose(photometry(*loop[1:])[0], exact[0], atol=0.01 * exact[1].min())
timing = bench.time("photometry, torch", *loop, n=sky.size, device=device)
ratio = profile["photometry"] / timing.median
print(f"moved, the photometry is {ratio:.2f} times as fast:", end=" ")
print("leave it on the CPU" if ratio < 1 else "here moving pays")

# %%
# It has about thirty operations for each star, on a few hundred numbers. For so few,
# the dispatch and :term:`launch` overhead decides
# (:doc:`/tutorials/2_devices/11_when_the_gpu_wins`), and at every ``float`` the CPU
# waits for the GPU. To move such a loop, do each operation once, for all stars.
#
# Random numbers, and results that repeat
# ---------------------------------------
#
# The same seed gives different numbers in another library, and on another device:

print(f"NumPy       {np.random.default_rng(1).standard_normal(3).round(3)}")
for place in dict.fromkeys(["cpu", device.type]):
    torch.manual_seed(1)
    drawn = torch.randn(3, device=place)
    print(f"torch, {place:<4} {drawn.cpu().numpy().round(3)}")

# %%
# PyTorch promises the same numbers `neither between devices nor between versions`__, so
# to compare machines, draw on the CPU and move. Sums differ as well: where several
# threads add into one element, as in ``index_add_``, the order varies, and so does the
# rounding.
#
# __ https://docs.pytorch.org/docs/stable/notes/randomness.html
#
# Where this stops being true
# ---------------------------
#
# - *A threshold turns a rounding into a decision.* A pixel at the limit of *clean* can
#   be thrown out on one machine and kept on another.
# - *A profile holds for one size.* With more stars, the photometry grows. Frames of
#   192 × 192 hardly fill a GPU: there, launches decide.
#
# Exercise
# --------
#
# Write the prediction as a function. ``profile`` has the seconds of each step, in
# order. ``factors[step]`` is how many times as fast that step is on the GPU; a step
# that is not in it stays. Data start and end on the CPU, and each change of sides costs
# ``transfer`` seconds.


def total(profile, factors, transfer): ...


# %%

# folded: The checker
four = {"read": 1, "clean": 4, "stack": 4, "list": 1}
cases = [
    ((four, {}, 5), 10, "what does not move takes its old time, and no transfer."),
    ((four, {"clean": 4}, 0), 7, "a step that gets 4 times as fast is divided by 4."),
    ((four, {"clean": 4}, 0.5), 8, "data go there and come back: two transfers."),
    ((four, {"clean": 4, "stack": 2}, 0.5), 6, "neighbours there share a transfer."),
    ((four, {"list": 2, "stack": 4}, 0.5), 7.5, "the result has to come back at last."),
    ((four, {"read": 2, "stack": 4}, 0.5), 8.5, "each change of sides is a transfer."),
    ((four, {"clean": 0.5}, 1), 16, "a factor below 1 is a slower step."),
]


def check(answer):
    for (profile, factors, transfer), right, hint in cases:
        call = f"total of {[*profile]} with {factors} and transfers of {transfer} s"
        try:
            got = answer(dict(profile), dict(factors), transfer)
            number = isinstance(got, (int, float, np.number))
            close = number and abs(got - right) < 1e-6
        except Exception as error:
            return f"{call} raised {type(error).__name__}: {error}"
        if not close:
            return f"{call} gave {got!r}, not {right}.\nHint: {hint}"
    return "Right: you know what a move is worth before you make it."


# %%

print(check(total))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. Profile first: {share:.0%} can move, so the gain is at most {at_most:.1f}.
PyTorch {where}: {whole_old / whole:.2f} times as fast ({old / new:.2f} predicted).
A better median in NumPy, nothing moved: {whole_old / better:.1f} times.
2. The dangerous lines do not fail: medians, std, types, in-place, seeds.
3. Check each step against NumPy on the same input, in units of your error."""
)

# %%
# Solution
# --------

# solution


def total_solution(profile, factors, transfer):
    moved = [step in factors for step in profile]
    sides = zip([False, *moved], [*moved, False], strict=True)
    transfers = transfer * sum(one != other for one, other in sides)
    return transfers + sum(t / factors.get(step, 1) for step, t in profile.items())


print(f"Our solution: {check(total_solution)}")
