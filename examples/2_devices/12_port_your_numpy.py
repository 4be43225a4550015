"""
What becomes of your NumPy when you move it to a GPU?
=====================================================

You have an analysis in NumPy that takes an hour, and a login for a computer with a
GPU. "Just replace ``np`` by ``torch``", they say. You do, you mend a few errors, and
it runs. Are you done?

Not yet. The lines that raise an error are the harmless ones. Others run, and mean
something else. And the gain? Our program stacks sixteen pictures of the sky. On an H100
it was :timing:`port-numpy speedup "whole, ported"/"whole, NumPy"
@nvidia-h100-80gb-hbm3` as fast as NumPy on one core, and :timing:`port-numpy speedup
"whole, ported"/"whole, torch on all cores" @nvidia-h100-80gb-hbm3` as fast as the same
PyTorch on sixteen:

.. list-table:: Before the move and after
   :header-rows: 1
   :widths: 34 22 22 22

   * - what
     - NumPy, one core
     - PyTorch, 16 cores
     - PyTorch, H100
   * - four steps on whole pictures
     - :timing:`port-numpy sum "calibrate, NumPy" + "level, NumPy" + "clean, NumPy" +
       "stack, NumPy" @nvidia-h100-80gb-hbm3`
     - :timing:`port-numpy sum "calibrate, torch on all cores" + "level, torch on all
       cores" + "clean, torch on all cores" + "stack, torch on all cores"
       @nvidia-h100-80gb-hbm3`
     - :timing:`port-numpy sum "calibrate, torch" + "level, torch" + "clean, torch" +
       "stack, torch" @nvidia-h100-80gb-hbm3`
   * - what stays: files, and photometry
     - :timing:`port-numpy sum "read, NumPy" + "photometry, NumPy"
       @nvidia-h100-80gb-hbm3`
     - as before
     - as before
   * - transfers
     - –
     - –
     - :timing:`port-numpy median transfers @nvidia-h100-80gb-hbm3`
   * - the whole, in one run
     - :timing:`port-numpy median "whole, NumPy" @nvidia-h100-80gb-hbm3`
     - :timing:`port-numpy median "whole, torch on all cores" @nvidia-h100-80gb-hbm3`
     - :timing:`port-numpy median "whole, ported" @nvidia-h100-80gb-hbm3`

With CuPy you only move your data, :ref:`and mind four things <stay-with-cupy>`. In
PyTorch, lines change. So we'll do that move together, and check each step.

**Needs:** any computer, and some NumPy. Without a GPU, you move to PyTorch on the CPU.
"""

# %%
# Copy this
# ---------
#
# On an NVIDIA GPU, try CuPy first. Your function stays exactly as it is, and only its
# data move:
#
# .. code-block:: python
#
#    import cupy as cp  # pip install cupy-cuda13x, or cupy-cuda12x
#    import numpy as np
#
#
#    def spread(pictures):
#        off = pictures - np.median(pictures, axis=0)
#        return np.std(off, axis=0)
#
#
#    shots = np.random.default_rng(1).random((16, 20, 30), dtype=np.float32)
#    there = cp.asarray(shots)  # to the GPU
#    back = cp.asnumpy(spread(there))  # not a letter of spread is changed
#    np.testing.assert_allclose(back, spread(shots), rtol=1e-5)
#
# In PyTorch, the function changes, too. The check stays. Write it before you time
# anything.

import numpy as np
import torch


def spread(pictures):
    off = pictures - np.median(pictures, axis=0)
    return np.std(off, axis=0)


def median_torch(x):  # of an even number, torch.median takes the lower one
    x = x.sort(dim=0).values
    return (x[(len(x) - 1) // 2] + x[len(x) // 2]) / 2


def spread_torch(pictures):
    off = pictures - median_torch(pictures)
    return off.std(dim=0, correction=0)  # NumPy divides by n, PyTorch by n - 1


def run_on_gpu(function, *arrays):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    there = [torch.tensor(array, device=device) for array in arrays]  # to the GPU
    return function(*there).cpu().numpy()  # back, and it waits for the GPU


shots = np.random.default_rng(1).random((16, 20, 30), dtype=np.float32)
np.testing.assert_allclose(run_on_gpu(spread_torch, shots), spread(shots), rtol=1e-5)
print("the same as NumPy")

# %%
# PyTorch calls AMD's GPUs ``cuda``, too. On a Mac (``mps``) or with Intel's GPU
# (``xpu``), take ``torch.accelerator.current_accelerator()`` as the device, or these
# lines run on the CPU, without a word.
#
# *Which precision?* Ours is ``float32``. NumPy takes ``float64`` unless you ask, but
# GPUs for games :doc:`are slow at it </tutorials/2_devices/13_precision>`, and a Mac's
# can't do it. So try ``x.astype("f4")``, and let the check tell you whether its seven
# digits are enough.
#
# CuPy or PyTorch?
# ----------------
#
# If you call ``np.median`` on an array of CuPy's, NumPy passes it on to ``cp.median``.
# PyTorch doesn't do that. Take PyTorch if you need gradients, or if your GPU isn't
# NVIDIA's. For AMD's, CuPy has `experimental builds`__. CuPy and PyTorch can also
# :ref:`hand each other arrays without a copy <without-a-copy>`.
#
# __ https://docs.cupy.dev/en/stable/install.html
#
# .. table:: The same work in NumPy, CuPy and PyTorch
#
#    =====================================  ========================  =================
#    NumPy                                  CuPy                      PyTorch
#    =====================================  ========================  =================
#    ``np.median(x, axis=0)``               the same                  ``median_torch``
#    ``np.std(x, axis=0)``                  the same                  ``correction=0``
#    ``np.nanstd``, ``np.nanmean``          the same                  a mask
#    ``x[::-1]``                            the same                  ``x.flip(0)``
#    ``x.max(axis=0)``                      the same                  ``x.amax(0)``
#    ``scipy.ndimage.median_filter``        ``cupyx.scipy.ndimage``   your own
#    gradients (it has none)                none                      ``backward``
#    =====================================  ========================  =================
#
# .. _stay-with-cupy:
#
# If you stay with CuPy
# ---------------------
#
# You've nearly finished, because the check above is most of the work. We haven't timed
# CuPy ourselves. Others have: on an RTX 4090, `J. Marrs`__ gained a factor of sixty in
# rescaling 256³ numbers, and none with 64³, because starting an operation on a GPU
# takes time, however small it is. You can :doc:`work out beforehand
# </tutorials/2_devices/11_when_the_gpu_wins>` whether your arrays are large enough.
# Four things differ from NumPy:
#
# - *The first call takes seconds.* CuPy compiles a kernel for each new operation and
#   type, and `keeps them`__ in ``~/.cupy/kernel_cache``. On a cluster with a slow home,
#   let ``CUPY_CACHE_DIR`` name another folder.
# - *A sum is an array.* ``x.sum()`` stays on the GPU until you say ``float(x.sum())``,
#   and that waits.
# - *An index beyond the end* raises an error in NumPy. `CuPy`__ starts again from the
#   beginning.
# - *An index that comes twice* in an assignment: NumPy keeps the last value. With CuPy,
#   nobody knows which one wins.
#
# `CuPy's own table`__ lists the functions that it has.
#
# __ https://github.com/ScrollPrize/villa/pull/915
# __ https://docs.cupy.dev/en/stable/user_guide/performance.html
# __ https://docs.cupy.dev/en/stable/user_guide/difference.html
# __ https://docs.cupy.dev/en/stable/reference/comparison.html
#
# *Is it too much for the GPU's memory?* Go in pieces. A step within each picture could
# take some pictures at a time. But ``spread`` needs each pixel from every picture, so
# we send the same hundred rows of all pictures:
#
# .. code-block:: python
#
#    for k in range(0, shots.shape[1], 100):  # fewer rows, if it's still too much
#        back[k : k + 100] = cp.asnumpy(spread(cp.asarray(shots[:, k : k + 100])))
#
# A step needs several times what you send, because it keeps results in between. And
# :doc:`like PyTorch </tutorials/2_devices/10_memory>`, CuPy keeps freed memory for
# later, which ``nvidia-smi`` counts as used.
#
# .. dropdown:: CuPy is slower than NumPy: which lines, and what to do
#
#    - *Small arrays, many calls:* each operation costs Python's time whatever the size,
#      in CuPy often more than in PyTorch. Stack the small arrays, or put
#      ``@cupy.fuse()`` above a function: its ``+``, ``cp.exp`` and ``cp.where``, and
#      perhaps a sum, become one launch. You can't fuse an ``if`` on a value, ``.shape``
#      or writing to a part of an array. And CuPy compiles again for each new dtype, and
#      whenever you define the function anew, as in a loop.
#      ``cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = sqrt(x * x + y *
#      y)", "length")(x, y)`` always is one launch.
#    - *Lines whose result has an unknown size:* ``nonzero``, ``unique``, ``x[mask]``,
#      ``repeat`` with counts on the GPU. Your program waits for the GPU there, as it
#      does at ``if x.max() > 1``. ``cp.where(mask, x, 0)`` keeps the shape.
#    - *The line after:* ``del x`` or ``.get()`` looks slow because it waits for
#      :doc:`what was launched before </tutorials/2_devices/06_queues>`.
#    - *float64:* :doc:`GPUs for games and Jetsons </cards>` are hardly faster at it
#      than a CPU. Try ``x.astype("f4")``.
#    - *np in place of cp:* ``np.sin(x)`` of a CuPy array is right, but NumPy has to
#      pass it on first. Write ``cp.sin(x)`` in a loop.
#    - *Dask with CuPy, for a sum or a mean:* it uses each byte once, and a CPU has
#      often added up the array before the bus has brought it to the card. Make the
#      chunks on the card, with ``dask.config.set({"array.backend": "cupy"})``. Dask's
#      threads each hold chunks there, so for one GPU take smaller ones, or
#      ``x.sum().compute(scheduler="single-threaded")``. The warning ``Using synchronous
#      transfer as pinned memory (… bytes) could not be allocated`` means that the copy
#      is right, but slower, and that the computer is short of memory.
#    - *A pool of processes on one GPU*, by ``multiprocessing``, joblib or Dask: the
#      processes take turns, and each needs memory and a context of its own. Give CuPy
#      a larger batch instead. A pool pays with several GPUs, one worker for each. Let
#      worker ``k`` call ``cupy.cuda.Device(k).use()`` first, or take
#      ``dask_cuda.LocalCUDACluster()``. Start workers by ``spawn``, because a driver
#      that has started doesn't survive a fork (:ref:`doctor-forked`). If each has
#      little to do, they can run side by side with NVIDIA's `MPS`__.
#
# __ https://docs.nvidia.com/deploy/mps/
#
# .. dropdown:: What did others gain with CuPy, beside NumPy or SciPy?
#
#    .. measured-by-others:: cupy-median cupy-normalize cupy-normalize-small
#       cupyx-erosion
#
# Lines that run, and lie
# -----------------------
#
# Let's ask NumPy and PyTorch about the same four numbers. **Only one of these five
# lines gives the same in PyTorch. Which?**

small = np.array([1, 2, 3, 10], dtype=np.float32)
there = torch.from_numpy(small)
print("mean  ", np.mean(small), torch.mean(there).item())
print("median", np.median(small), torch.median(there).item())
print("std   ", np.std(small).round(2), round(torch.std(there).item(), 2))
print("dtype ", (small * np.float64(2)).dtype, (there * np.float64(2)).dtype)
try:
    print("back  ", small[::-1], there[::-1])
except ValueError as problem:
    print("back   ValueError:", problem)

# %%
# Only the mean. The last line stops with an error. But the three in the middle run:
#
# - *The median of an even number of values.* NumPy takes the mean of the two in the
#   middle, and PyTorch takes the lower one.
# - *The standard deviation.* NumPy divides by :math:`n`, PyTorch by :math:`n - 1`.
# - *The type.* Since NumPy 2, one ``float64`` number of NumPy's, for example a mean
#   that you've kept, makes your whole array ``float64``. PyTorch :doc:`keeps float32
#   </tutorials/2_devices/13_precision>`, as NumPy 1 did.
#
# And a seed gives PyTorch other numbers. :doc:`One table </numpy_to_pytorch>` lists all
# of these, and the functions that only have another name in PyTorch.
#
# A night at the telescope
# ------------------------
#
# A telescope has taken sixteen pictures of the same stars in one night. We simulate
# them, so we know the truth. The analysis:
#
# - *Read* the files.
# - *Calibrate* away the marks of the camera.
# - *Level* out the moonlight.
# - *Clean* away the hits of cosmic rays.
# - *Stack* the sixteen pictures into one.
# - *Photometry:* add up the light of each star.

# folded: The simulated night, and how its files are read
import matplotlib.pyplot as plt

from firstlight import Bench, best_device
from firstlight.display import quantity, show_table

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

middle = np.median  # of several frames: a name, to try another way later


def read(night, dtype=np.float32):
    stacks = [[np.frombuffer(file, ">i2") for file in files] for files in night]
    return [np.array(stack, dtype).reshape(-1, side, side) for stack in stacks]


# %%
# Here is what a NumPy user writes for the four in the middle. ``middle`` is
# ``np.median`` for now, and another median later:


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

# folded: The photometry, the whole analysis, and a check against the truth
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
# What can you gain?
# ------------------
#
# Those four work on whole pictures, so they can move. The other two stay: *read* waits
# for files, and *photometry* walks through a list of stars. Here are their times in
# NumPy, on one core. On the H100's computer the pictures are larger, 768 pixels wide
# instead of 192. **How much can you gain at most, if the four take no time at all?**

# folded code: Time each step in NumPy
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
moving = ["calibrate", "level", "clean", "stack"]
stays = sum(time for step, time in profile.items() if step not in moving)
share, at_most = 1 - stays / old, old / stays

rows = [(s, quantity(t, "s"), f"{t / old:.0%}") for s, t in profile.items()]
show_table("The profile", ("step", "time", "share"), rows)

print(f"here, {share:.0%} can move, so the gain is at most {at_most:.1f}")

# %%
# A little over twenty, because the two steps that stay took a twentieth of the time on
# the H100's computer. However fast the plane, you spend the morning at the airport. And
# your data have to travel. There and back, 80 MB took :timing:`port-numpy median
# transfers @nvidia-h100-80gb-hbm3`, which brings the limit down to 18. They came from
# ordinary memory. From :doc:`pinned memory </tutorials/2_devices/08_pinned_memory>`,
# a copy is faster.
#
# .. holds::
#
#    near((32 + 2) * 768**2 * 4, 80e6, 0.01)
#
# So how fast the GPU is matters less than you'd think. If the four steps gain a factor
# of twenty, the whole gains ten. If they gain ninety, it's fifteen. This is called
# :term:`Amdahl's law`.
#
# .. dropdown:: Amdahl's law, with the journey
#
#    A share :math:`p` of the time gets :math:`s` times as fast, the rest stays, and the
#    journey comes on top:
#
#    .. math::
#
#        t_\text{new} = t_\text{old} \left( (1 - p) + \frac{p}{s} \right)
#            + t_\text{journey}.
#
#    So the gain is never more than :math:`1/(1-p)`.
#
# **How do you time a GPU?** It's still at work when Python has gone on. So let Python
# :doc:`wait </tutorials/2_devices/07_timing_it_right>` before you read a clock:
#
# .. code-block:: python
#
#    import time
#
#    there = torch.rand(16, 2000, 2000, device="cuda")
#    spread_torch(there)  # the first call gets everything ready
#    for how in "without waiting", "right":
#        torch.cuda.synchronize()  # cp.cuda.Device().synchronize() for CuPy
#        began = time.perf_counter()
#        spread_torch(there)
#        if how == "right":
#            torch.cuda.synchronize()
#        print(how, time.perf_counter() - began, "s")
#
# The first number is the time that it takes to *ask* for the work. ``Bench``, our
# timer, waits by itself, as CuPy's ``cupyx.profiler.benchmark`` does.
#
# Move the steps, and check each
# ------------------------------
#
# Which lines have to change? Mostly the medians.

# folded: Seven lines, in NumPy and in PyTorch
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
tensor = torch.from_numpy(numbers)
rows = [
    (line, reply(line, np, numbers), reply(line, torch, tensor))
    for line in loud + silent
]
show_table("One line, two libraries", ("", "NumPy", "PyTorch"), rows)

# %%
# ``median_torch`` sorts all values for the sake of two. It's quicker to ask PyTorch's
# median twice: it gives the lower of the two middle values, and the upper one is minus
# the lower one of :math:`-x`. Their mean is NumPy's median. On the H100 it was
# :timing:`port-numpy speedup "median of frames, torch"/"median of frames, NumPy"
# @nvidia-h100-80gb-hbm3` as fast as NumPy's on one core of the CPU.


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

# folded: Time this median, and the transfers to a GPU


def to_device(*arrays, to=device):
    return [torch.from_numpy(array).to(to) for array in arrays]


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
# In the steps, ``np.median`` becomes this ``median``, ``keepdims`` becomes ``[:, None,
# None]``, ``axis=(1, 2)`` becomes ``flatten``, and the :term:`NaN` functions become a
# mask:


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
# Before we compare, here is one more line that lies. It subtracts a mean in place, from
# a tensor made from an array. **What is in the array afterwards?**

counts = np.array([1, 2, 3], np.float32)
on_device = torch.from_numpy(counts).to(device)
on_device -= on_device.mean()
print(f"after work in place on {device}, the array is {counts}")

# %%
# On a GPU, the work was done on a copy. On the CPU, ``from_numpy`` shares the array's
# memory, so your raw data are gone, and you'd compare with the wrong ones. Change
# things in place only if your own function has made them.
#
# And now the most important part. Give each step *the same input* as NumPy's, and
# compare. ``to_device`` makes tensors of arrays, as ``run_on_gpu`` did:

again = t_level(*to_device(calibrated))
off = np.abs(again.cpu().numpy() - levelled).max()
print(f"level: off by {off:.1g} counts at most, of {np.abs(levelled).max():.0f}")

# %%
# This step agrees to the last bit. Don't ask that of every step, because PyTorch adds
# up many numbers in another order. That does no harm if the difference is far below the
# picture's own error. We allow a fiftieth of that error.

# folded: Each step against NumPy's, with the same input
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

# %%

# folded code: Show them
head = "step", "worst pixel", "masked by one only"
show_table("PyTorch's steps against NumPy's", head, rows)

# %%
# What if we hadn't known about the median?

# folded code: The whole, with NumPy's median and with PyTorch's own


def ported(night, to=device):
    arrays = to_device(*read(night), to=to)
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
# Compared with the *truth*, the wrong result looks just as good. Only the comparison
# with NumPy shows what happened. In the larger pictures on the H100's computer, 61 % of
# the 1,024 stars moved by more than a tenth of their error, up or down, and one by
# seven tenths. With the right median, none of them moved.
#
# What did it bring?
# ------------------
#
# Against NumPy on one core, the H100 brought a factor of more than sixty for the four
# steps, and fifteen for the whole. Against PyTorch on the sixteen cores beside it, it
# brought sixteen for the steps, and four for the whole. All are true, but only the last
# two are what the GPU brought.
#
# .. stacks:: port-numpy
#    :machine: nvidia-h100-80gb-hbm3
#    :stays: read; photometry; transfers
#    :title: After the move, the airport is most of the journey
#
#    NumPy, one core | calibrate, NumPy; level, NumPy; clean, NumPy; stack, NumPy;
#    read, NumPy; photometry, NumPy | whole, NumPy
#
#    PyTorch, 16 cores | calibrate, torch on all cores; level, torch on all cores;
#    clean, torch on all cores; stack, torch on all cores; read, NumPy; photometry,
#    NumPy | whole, torch on all cores
#
#    PyTorch, H100 | calibrate, torch; level, torch; clean, torch; stack, torch;
#    read, NumPy; photometry, NumPy; transfers | whole, ported
#
# The steps are blue, and now they hardly matter. More than three quarters of the run on
# the H100 are reading, photometry and transfers.
#
# .. holds::
#
#    whole = row("port-numpy/whole, NumPy")
#    steps = "read", "calibrate", "level", "clean", "stack", "photometry"
#    parts = sum(median(f"port-numpy/{step}, NumPy") for step in steps)
#    len(whole.values) == 1 and parts < whole.median < 1.1 * parts
#    moved = "calibrate", "level", "clean", "stack"
#    before, cores, after = (
#        sum(median(f"port-numpy/{step}, {how}") for step in moved)
#        for how in ("NumPy", "torch on all cores", "torch")
#    )
#    60 < before / after < 70
#    near(cores / after, 16, 0.03)
#    ported = median("port-numpy/whole, ported")
#    near(whole.median / ported, 15, 0.03)
#    near(median("port-numpy/whole, torch on all cores") / ported, 4, 0.05)
#
# A better median helps without any GPU. With one that swaps pixels until they're in
# order, NumPy on one core did the whole :timing:`port-numpy speedup "whole, by
# swaps"/"whole, NumPy" @nvidia-h100-80gb-hbm3` as fast. So look for a better way
# *before* you move.

# folded: Each step and the whole, timed
for step, (_, function, *inputs) in t_steps.items():
    bench.time(f"{step}, torch", function, *inputs, n=sky.size, device=device)
    if has_gpu:
        inputs = [tensor.cpu() for tensor in inputs]
        bench.time(f"{step}, torch on all cores", function, *inputs, n=sky.size)
bench.time("whole, NumPy", analyse, night, n=sky.size)
bench.time("whole, ported", ported, night, n=sky.size, device=device)
if has_gpu:
    bench.time("whole, torch on all cores", ported, night, "cpu", n=sky.size)
bench.show()

# %%

# folded: Predicted and measured, for each step
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
# The fold above predicts each step from the gain of one median. On the H100 the sum
# came out right, partly by luck. ``level`` took far longer than predicted, and
# ``clean`` half as long. And most of both sums is reading, photometry and transfers,
# where we only copied the measured times.
#
# .. holds::
#
#    one = median("port-numpy/median of frames, torch")
#    gain = median("port-numpy/median of frames, NumPy") / one
#    told = lambda step: median(f"port-numpy/{step}, NumPy") / gain
#    took = lambda step: median(f"port-numpy/{step}, torch")
#    took("level") > 4 * told("level")
#    near(took("clean") / told("clean"), 0.5, 0.1)
#    rest = sum(median(f"port-numpy/{step}, NumPy") for step in ("read", "photometry"))
#    rest = rest + median("port-numpy/transfers")
#    sums = [rest + sum(map(way, moved)) for way in (told, took)]
#    near(sums[0] / sums[1], 1, 0.05) and all(rest > 0.75 * whole for whole in sums)


# folded: A better median, in NumPy
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

# folded: Amdahl's law as a curve, and where we are on it
# measured figure
work, s = old - stays, np.geomspace(0.2, 1000, 200)
where = "on this GPU" if has_gpu else "on the same CPU"
port, swaps = sum(measured.values()) - stays, work - (whole_old - better)
swaps = max(swaps, work / 1000)
points = {
    f"PyTorch {where}, predicted": (new - stays, old / new, "o", "none"),
    f"PyTorch {where}, measured": (port, whole_old / whole, "D", "C1"),
    "a better median in NumPy, measured": (swaps, whole_old / better, "^", "C2"),
}
if has_gpu:
    on_cores = whole_old / bench["whole, torch on all cores"].median
    seconds = sum(bench[f"{step}, torch on all cores"].median for step in moving)
    points["PyTorch on all cores, measured"] = seconds, on_cores, "s", "C3"
fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
ax.loglog(s, old / (stays + work / s), "C0--", lw=2, label="Amdahl's law")
for height, text in ((at_most, f"limit of any move: {at_most:.1f}"), (1, "as before")):
    ax.axhline(height, color="gray", ls=":", lw=2)
    ax.text(0.2, 1.12 * height, text)
for name, (seconds, y, marker, fill) in points.items():
    look = {"mec": "C1" if fill == "none" else fill, "mfc": fill, "mew": 2, "ms": 9}
    ax.plot(work / seconds, y, marker, ls="none", label=name, **look)
fig.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
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
    + (f" PyTorch on the CPU's cores: measured {on_cores:.1f}." if has_gpu else "")
)
plt.show()

# %%
# When it gets slower
# -------------------
#
# Should we have moved the photometry, too? **Guess: how long will it take on a GPU?**

# folded code: Time the photometry on the GPU
loop = photometry, *t_stack(*to_device(cleaned)), stars, *to_device(box)
assert np.allclose(photometry(*loop[1:])[0], exact[0], atol=0.01 * exact[1].min())
timing = bench.time("photometry, torch", *loop, n=sky.size, device=device)
longer = timing.median / profile["photometry"]
print(f"moved, the photometry takes {longer:.2g} times as long")

# %%
# The photometry of 1,024 stars took :timing:`port-numpy median "photometry, NumPy"
# @nvidia-h100-80gb-hbm3` on the CPU beside the H100. On the card it took
# :timing:`port-numpy median "photometry, torch" @nvidia-h100-80gb-hbm3`, which is
# :timing:`port-numpy speedup "photometry, NumPy"/"photometry, torch"
# @nvidia-h100-80gb-hbm3` as long. The loop does about thirty small operations for each
# star, and a GPU needs some time for the :term:`launch` of each, however little there
# is to do. To move such a loop, turn it inside out: do each operation once, for all
# stars. Then less stays, and Amdahl's limit moves up. It would also move if we sent the
# camera's own two bytes for each pixel, and made ``float32`` of them on the card. We
# haven't timed either.
#
# .. dropdown:: The photometry, turned inside out
#
#    The first index counts stars, so one operation works on all the cut-outs. It gives
#    the loop's numbers:
#
#    .. code-block:: python
#
#       def photometry_of_all(image, error, stars, box):
#           x, y = torch.tensor(stars, device=image.device).T[:, :, None, None]
#           x0, y0 = x.round().int() - 10, y.round().int() - 10
#           cut = y0 + box[:, None], x0 + box  # 21 × 21 pixels for each star
#           light, noise = image[cut], error[cut] ** 2
#           far = (box - (x - x0)) ** 2 + (box[:, None] - (y - y0)) ** 2
#           inside, ring = far < 36, (far > 49) & (far < 100)
#
#           def add(values, where):
#               return torch.where(where, values, 0).sum((1, 2))
#
#           area = inside.sum((1, 2)) / ring.sum((1, 2))
#           flux = add(light, inside) - area * add(light, ring)
#           variance = add(noise, inside) + area**2 * add(noise, ring)
#           return torch.stack([flux, variance.sqrt()]).cpu().numpy()

# figure
# sphinx_gallery_thumbnail_number = 2
corner = np.s_[:48, :96]
views = {
    "one frame, as read": sky[0],
    "calibrated and levelled": levelled[0],
    "cleaned (what was hit is red)": cleaned[0],
    "sixteen of them, stacked": image,
}
greys = plt.get_cmap("gray").with_extremes(bad="red")
fig, axes = plt.subplots(2, 2, figsize=(6.4, 3.9), layout="constrained")
for ax, (title, view) in zip(axes.flat, views.items(), strict=True):
    part = view[corner] - np.nanmedian(view[corner])
    ax.imshow(part, cmap=greys, vmin=-60, vmax=150, origin="lower")
    ax.set_title(title, fontsize=11)
    ax.set_axis_off()
fig.set_label(
    "Four pictures of the same corner of the sky, on one scale of greys. One frame as "
    "read: eight stars, stripes, noise, and single bright pixels. Calibrated and "
    "levelled: no more stripes. Cleaned: the bright pixels are red, because they are "
    "left out. Sixteen stacked: the same stars, and hardly any noise."
)
plt.show()

# %%
# Your turn
# ---------
#
# Move this function to PyTorch. It turns pictures upside down, and subtracts the median
# of all from each. It sets to zero what is far off, and returns the brightest value
# that is left in each pixel:


def brightest(pictures):
    pictures = pictures[:, ::-1]
    off = pictures - np.median(pictures, axis=0)
    off[np.abs(off) > 2 * np.std(off, axis=0)] = 0
    return off.max(axis=0)


# %%
# Yours is given a tensor of an even or an odd number of pictures, on any device. It
# returns a tensor of the same type on the same device, and leaves the pictures as they
# are. Put it where the dots are, and run ``firstlight try 12_port_your_numpy.py``.


def brightest_torch(pictures): ...


# %%

# folded: The checker


def find_problem(answer, given):
    pictures, right = torch.tensor(given), brightest(given.copy())
    got = answer(pictures)
    if not isinstance(got, torch.Tensor):
        hint = " PyTorch's max with a dim has two results." * isinstance(got, tuple)
        return f"it returns {type(got).__name__}, not a tensor.{hint}"
    if got.shape != right.shape:
        return f"the result has the shape {tuple(got.shape)}, not {right.shape}."
    if not np.array_equal(pictures.numpy(), given):
        return "it changes the pictures that it was given."
    if got.dtype != pictures.dtype:
        return f"the pictures are {pictures.dtype}, and the result is {got.dtype}."
    if np.allclose(got.flip(0), right, atol=1e-5):
        return "the result is upside down: flip the rows of each picture."
    wrong = ~np.isclose(got, right, atol=1e-5)
    if wrong.any():
        return f"{wrong.sum()} of {wrong.size} pixels differ from NumPy's. {HINT}"
    return ""


HINT = "Which lines of the function mean something else in PyTorch?"


def check(answer):
    for count, kind in ((16, np.float32), (15, np.float32), (2, np.float64)):
        random = np.random.default_rng(count)
        given = random.normal(100, 5, (count, 31, 22)).astype(kind)
        try:
            problem = find_problem(answer, given)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return f"Not yet. {count} pictures of {given.dtype}: {problem}"
    return "Right: the same as NumPy, for even and odd numbers of pictures."


# %%

print(check(brightest_torch))

# %%
# Three lines to remember
# -----------------------

# remember
print("""\
1. Time each step first. The steps that stay limit the gain, and so does the journey:
   if they have a twentieth of the time, the whole gains a factor of twenty at most.
2. The dangerous lines don't fail: medians, std, types, in-place, seeds.
3. Give each step the same input as NumPy's, and compare, before you time anything.""")

# %%

# folded: CuPy's steps and NumPy's, where there's a GPU with CuPy
from importlib import import_module, util
from time import perf_counter

cupy_bench = Bench("port-cupy", budget=4)


def small_and_scipy(cp, cp_sky):
    """Time an addition of few numbers, and a filter of SciPy's, against CuPy's."""
    cupy_filter = import_module("cupyx.scipy.ndimage").median_filter
    median_filter = import_module("scipy.ndimage").median_filter
    few, pixels = np.ones(1000, np.float32), side**2
    cupy_bench.time("add 1000, NumPy", np.add, few, few, n=1000)
    cp_few = cp.asarray(few)
    cupy_bench.time("add 1000, CuPy", cp.add, cp_few, cp_few, n=1000, device=device)
    assert np.array_equal(cupy_filter(cp_sky, 5).get(), median_filter(sky[0], 5))
    cupy_bench.time("filter, SciPy", median_filter, sky[0], 5, n=pixels)
    cupy_bench.time("filter, CuPy", cupy_filter, cp_sky, 5, n=pixels, device=device)


def with_cupy(cp):
    """Run the four steps as they stand with CuPy's arrays, compare, and time them."""
    began = perf_counter()
    on_card = [cp.asarray(sky), cp.asarray(biases), cp.asarray(flats)]
    float(np.median(on_card[0], axis=0)[0, 0])
    print(f"the first median, with all that it starts: {perf_counter() - began:.2g} s")
    cupy_steps = {
        "calibrate": (calibrate, *on_card),
        "level": (level, cp.asarray(calibrated)),
        "clean": (clean, cp.asarray(levelled)),
        "stack": (stack, cp.asarray(cleaned)),
    }
    for label_of, (cupy_step, *cp_arrays) in cupy_steps.items():
        mine = cp.stack(list(cupy_step(*cp_arrays))).get()
        apart = np.abs(mine - t_steps[label_of][0]) / exact_error
        assert np.nanmax(apart) < 0.02, label_of
        row_name, how = f"{label_of}, CuPy", {"n": sky.size, "device": device}
        cupy_bench.time(row_name, cupy_step, *cp_arrays, **how)
    small_and_scipy(cp, on_card[0][0])


# %%

# folded: CuPy, timed
if device.type == "cuda" and util.find_spec("cupy"):
    with_cupy(import_module("cupy"))
    cupy_bench.show()
else:
    print("There's no GPU with CuPy here, so nothing of CuPy was timed.")

# %%
# Solution
# --------

# solution


def brightest_solution(pictures):
    pictures = pictures.flip(1)
    off = pictures - median_torch(pictures)  # by sorting, as in "Copy this"
    far = off.abs() > 2 * off.std(dim=0, correction=0)
    return torch.where(far, 0, off).amax(dim=0)


print(f"Our solution: {check(brightest_solution)}")

# %%
# .. _without-a-copy:
#
# From CuPy, JAX or Numba to PyTorch and back, without a copy
# -----------------------------------------------------------
#
# `JAX`__ keeps NumPy's meanings too, and adds gradients and a compiler. But its arrays
# can't be changed, and it computes in ``float32`` unless you ask for more.
#
# NumPy would copy everything to the CPU and back. But these libraries can hand over the
# memory itself, by a standard called DLPack or, with Numba, the *CUDA array interface*:
#
# __ https://docs.jax.dev/en/latest/101/arrays.html
#
# .. code-block:: python
#
#    t = torch.from_dlpack(x)  # CuPy to PyTorch
#    x = cupy.from_dlpack(t.detach())  # and back; detach, if t needs gradients
#    t = torch.from_dlpack(j)  # JAX to PyTorch
#    j = jax.dlpack.from_dlpack(t.detach().contiguous())  # and back
#    t = torch.as_tensor(d, device="cuda")  # Numba's device array to PyTorch
#    d = numba.cuda.as_cuda_array(t.detach())  # and back, for a kernel
#
# Nothing moves. Both names mean the same bytes on the same GPU, so if you change one,
# the other changes as well. If the types differ, for example ``float64`` from CuPy and
# a model in ``float32``, write ``.float()``, and that *is* a copy. And if you launch
# work on queues of your own, called *streams*, let the second library's stream wait for
# the first one's.
