"""
Did that line move your tensor?
===============================

This loop counts to three, and keeps each total on the CPU:

.. code-block:: python

    total = torch.zeros(1, device=device)
    kept = []
    for _ in range(3):
        total += 1
        kept.append(total.cpu())
    print([int(number) for number in kept])

You run it on a cluster, where ``device`` is a GPU. A colleague runs it on a laptop that
has none. **Write down what each of you gets to see.**

One of the two lists is wrong, and there's no error. By the end you'll know what ``.to``
and ``.cpu`` promise, and you'll write programs that are right on both computers.

**Needs:** any computer, and some PyTorch.
"""

# %%
# The rule
# --------
#
# A :term:`device` is a place where PyTorch can compute, with memory of its own. The
# CPU, with all its cores, is one, and each GPU is another. If ``x`` is a
# :term:`tensor`, which is PyTorch's array, then ``x.to(device)`` promises to *return* a
# tensor that is in that place:
#
# - If ``x`` is somewhere else, you get a copy, and ``x`` stays where it was.
# - If ``x`` is there already, you get ``x`` *itself*.
#
# That's all, and ``x.cpu()`` is short for ``x.to("cpu")``, as ``x.cuda()`` is for
# ``x.to("cuda")``. Would you change your guess?
#
# Copy this
# ---------
#
# These lines do it right, on a GPU of any maker or without one.

import numpy as np
import torch

device = torch.device("cpu")
if torch.accelerator.is_available():  # a GPU of any maker
    device = torch.accelerator.current_accelerator()
print("computing on", device)

array = np.linspace(0, 1, 5)
tensor = torch.tensor(array, dtype=torch.float32)  # on the CPU
tensor = tensor.to(device)  # keep the result!
ones = torch.ones(5, device=device)  # made where you need it
result = tensor + ones  # all on one device
print(result.cpu().numpy())  # back to NumPy

# %%
# A model is different, because it moves *itself*, and you :doc:`needn't keep anything
# </tutorials/2_devices/05_moving_a_model>`:
#
# .. code-block:: python
#
#    model = torch.nn.Linear(5, 1)
#    model.to(device)  # moves the model itself
#    x = torch.ones(8, 5).to(device)  # returns a tensor: keep it
#    print(model(x).device)
#
# Move it, and look
# -----------------
#
# First, a copy. **Where will the image be?** If you have no GPU, a stand-in called
# ``meta`` plays its part. It obeys the rule, but its tensors have no numbers.

gpu = device if device.type != "cpu" else torch.device("meta")

image = torch.rand(512, 512)
image.to(gpu)
print("image is on", image.device)

# %%
# It's still on ``cpu``. The line did make a copy on the GPU, but we gave it no name, so
# it was thrown away at once. Strings do the same: ``text.upper()`` doesn't change
# ``text``, it *returns* another string. So let's keep the copy:

image_there = image.to(gpu)
print("image is on", image.device, "and image_there is on", image_there.device)
print("get_device:", image.get_device(), "and", image_there.get_device())

# %%
# In the figure, each coloured box is a tensor, with its names above it.

# figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY, ORANGE

steps = {"x.to(gpu)": ("x", ""), "y = x.to(gpu)": ("x", "y")}
steps["z = y.to(gpu)"] = ("x", "y, z")
notes = ("lost: it has no name", "a copy, with a name", "it was there already")
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.7), layout="constrained")
for ax, (line, names), note in zip(axes, steps.items(), notes, strict=True):
    for left, place, name in zip((0, 1.15), ("CPU", "GPU"), names, strict=True):
        ax.add_patch(plt.Rectangle((left, 0.1), 1, 1.4, fc="none", ec=GREY, lw=1.2))
        ax.text(left + 0.5, 1.32, place, ha="center", va="center", size=10)
        box = {"fc": (BLUE if place == "CPU" else ORANGE) if name else "none"}
        box |= {"ec": "black", "ls": "-" if name else ":", "lw": 1.2}
        ax.add_patch(plt.Rectangle((left + 0.2, 0.35), 0.6, 0.45, **box))
        label = {"family": "monospace", "size": 12, "weight": "bold"}
        ax.text(left + 0.5, 0.97, name, ha="center", va="center", **label)
    ax.text(1.075, -0.13, note, ha="center", va="center", size=10)
    ax.set_title(line, family="monospace", size=11)
    ax.set(xlim=(-0.05, 2.2), ylim=(-0.32, 1.55), aspect="equal")
    ax.axis("off")
fig.suptitle("Three lines, and where the names are afterwards", weight="bold")
fig.set_label(
    "Three panels, each with the memory of the CPU and that of the GPU. After "
    "x.to(gpu), x is on the CPU, and the tensor on the GPU has no name. After "
    "y = x.to(gpu), it is called y. After z = y.to(gpu), y and z are two names of one "
    "tensor on the GPU."
)
plt.show()

# %%
# It was there already
# --------------------
#
# Here's your colleague's loop again, with a second list. **What will the two lists
# hold?**

total = torch.zeros(1)
kept, copies = [], []
for _ in range(3):
    total += 1
    kept.append(total.cpu())
    copies.append(total.to("cpu", copy=True))
print("kept:  ", [int(number) for number in kept])
print("copies:", [int(number) for number in copies])

# %%
# On the laptop there's nothing to copy. So ``kept`` holds ``total`` *itself*, three
# times, and at the end ``total`` is 3. On the cluster, each ``total.cpu()`` makes a
# copy, so your list is right. You can ask Python whether two names mean one tensor:

print("total.cpu() is total:", total.cpu() is total)
print("with copy=True:", total.to("cpu", copy=True) is total)

# %%
# With ``copy=True`` you always get a copy, and so you do with ``total.clone()``. Ask
# for one if you keep a tensor and go on changing it. Otherwise write ``.to(device)``
# wherever you like, without an ``if``. You can :doc:`look up </copies_and_waits>` which
# other lines, such as ``print``, copy or wait.
#
# Choose the device once
# ----------------------
#
# If you write ``"cuda"`` or ``.cuda()`` in twenty places, there are twenty places to
# change on a computer without :term:`CUDA`. So choose the device at the top, and write
# ``device`` everywhere else. Most programs choose it like this:

chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(chosen)

# %%
# It finds GPUs of NVIDIA and AMD. PyTorch calls both of them ``"cuda"``. On a computer
# with a GPU of Apple or Intel, it takes the CPU. So in new programs, write the three
# lines under *Copy this*, if your PyTorch is 2.6 or newer. Either way, *print* what was
# chosen. If your program falls back to the CPU, you won't get an error. It will just be
# slow.
#
# A new tensor is on the CPU unless you say ``device=``. So say it. On an H100, 67
# million ones were made in :timing:`moving median "made there"
# @nvidia-h100-80gb-hbm3`. To make them on the CPU beside it and move them took
# :timing:`moving median "made here, moved" @nvidia-h100-80gb-hbm3`.

# folded: Several GPUs: try_gpu and try_all_gpus

# The names are those of Dive into Deep Learning. Without a GPU, the book's list is
# empty, so a loop over it does nothing, without an error. This one has the CPU in it.


def try_gpu(i=0):
    """Return GPU number i, or the CPU if there is no such GPU."""
    if i < torch.accelerator.device_count():
        return torch.device(torch.accelerator.current_accelerator().type, i)
    return torch.device("cpu")


def try_all_gpus():
    """Return all GPUs, or the CPU alone if there is no GPU."""
    return [try_gpu(i) for i in range(max(1, torch.accelerator.device_count()))]


print(try_gpu(), try_gpu(10), try_all_gpus())

# %%

# folded: Four names of devices. Two are wrong. Which?

for name in ("cuda:2", "cuda0", "gpu", "meta"):
    try:
        print(f"{name}:", torch.device(name))
    except RuntimeError as error:
        print(f"{name}: {error!s:.60}...")

# %%
# Two devices in one line
# -----------------------
#
# Now the error that everybody meets: *Expected all tensors to be on the same device*.
# We multiply a batch of data by weights, and forget to move one of the two:

batch = torch.ones(4, 3)
weights = torch.tensor([0.2, 0.3, 0.5], device=gpu)
try:
    scores = batch * weights
except RuntimeError as error:
    print(error)

# %%
# The message names the devices, but not your variables. For a `matrix product`__, it
# reads *but got mat2 is on cuda:0, different from other tensors on cpu*. So print the
# device of everything in that line, find the one that is elsewhere, and move it:
#
# __ https://github.com/yolain/ComfyUI-Easy-Use/issues/937

for name, tensor in {"batch": batch, "weights": weights}.items():
    print(name, "is on", tensor.device)

scores = batch.to(weights.device) * weights
print("scores is on", scores.device)

# %%
# The usual suspects are a batch, a mask, the weights that a loss gives to classes, and
# a tensor that somebody made inside a function without saying ``device=``.
#
# Why doesn't PyTorch move it for you? Because a move is slow, and you'd never find out
# that you do it at every step. To copy 67 million numbers within an H100, one of
# NVIDIA's largest GPUs, with ``copy=True``, took :timing:`moving median "copy, new
# memory" @nvidia-h100-80gb-hbm3`. To bring them there from the CPU's memory took
# :timing:`moving median "from the host" @nvidia-h100-80gb-hbm3`, and if they were there
# already, ``.to`` took :timing:`moving median "there already" @nvidia-h100-80gb-hbm3`.
#
# .. dropdown:: The exceptions: single numbers go with every device
#
#    ``weights * 2`` is fine, and so is ``weights * torch.tensor(2.0)``, because that
#    tensor has no dimensions. It doesn't work the other way round: a tensor on the CPU
#    can't be multiplied by a single number on the GPU.

# folded: Time the moves on your own computer

from firstlight import Bench, best_device

device = best_device()
has_gpu = device.type != "cpu"

n = 2**26 + 1 if has_gpu else 2**24 + 1
h = torch.ones(n)
x = h.to(device, copy=True)
out = torch.zeros_like(x)

bench = Bench("moving")
on = {"n": n, "device": device}
bench.time("copy, same memory", out.copy_, x, bytes=8 * n, **on)
bench.time("copy, new memory", lambda: x.to(device, copy=True), bytes=8 * n, **on)
bench.time("made there", lambda: torch.ones(n, device=device), bytes=4 * n, **on)
bench.time("there already", x.to, device, **on)
if has_gpu:
    bench.time("from the host", h.to, device, **on)
    bench.time("made here, moved", lambda: torch.ones(n).to(device), **on)
bench.show()

# %%
# From NumPy and back
# -------------------
#
# NumPy knows only the CPU. Two ways from an array to a tensor are worth knowing, and
# they differ if you change the array afterwards. **What will the two tensors hold?**

signal = np.array([0.0, 0.5, 1.0])
shared = torch.from_numpy(signal)
copied = torch.tensor(signal, dtype=torch.float32, device=device)
signal[0] = 7
print("shared:", shared)
print("copied:", copied)

# %%
# ``from_numpy`` makes a tensor around the array's memory, so a change of one shows in
# the other. ``torch.tensor`` always copies. It can also take the numbers straight to
# the GPU, and make them ``float32`` on the way. Do that, unless you need the digits:
# NumPy's ``float64`` moves twice the bytes, makes arithmetic slow on most GPUs, and
# doesn't work at all on Apple's. Turn integers that you compute with into ``float32``,
# too, because PyTorch can't take the mean of integers. Leave labels and indices as they
# are. ``float32`` holds integers exactly up to ``2**24``, nearly 17 million.
#
# The way back is ``.numpy()``. Like ``from_numpy``, it doesn't copy. So a tensor on a
# GPU answers ``can't convert cuda:0 device type tensor to numpy``, and you have to call
# ``.cpu()`` first. And PyTorch must not be recording a gradient for it:

weights = torch.ones(3, requires_grad=True)
try:
    weights.numpy()
except RuntimeError as error:
    print(error)
print(weights.detach().cpu().numpy())

# %%
# ``.detach().cpu().numpy()`` works on every device: let go of the gradient, come to the
# CPU, become an array. A type that NumPy lacks, such as ``bfloat16``, has to become
# another one first, with ``.to(torch.float32)``. For one number, write ``x.item()``.
# But remember your colleague's list: on the CPU, none of ``.detach()``, ``.cpu()`` and
# ``.numpy()`` makes a copy.

# folded: Does a move change a number? There and back again, on an odd size

rng = np.random.default_rng(seed=1)
exact = rng.standard_normal(1_000_003)
rounded = torch.as_tensor(exact, dtype=torch.float32, device=device).cpu().numpy()
worst = np.max(np.abs(rounded - exact) / np.abs(exact))
assert worst <= 2**-24
print(f"float64 to float32 on {device} and back:")
print(f"largest relative error {worst:.3e}, at most 2^-24 = {2**-24:.3e}")

tilted = torch.from_numpy(rounded[: 997 * 1003]).reshape(997, 1003).T
assert torch.equal(tilted.to(device, copy=True).cpu(), tilted)
print("transpose, there and back: equal, bit for bit")

# %%
# Your turn
# ---------
#
# Write ``snapshot(x)``, which keeps the state of a simulation, or the weights of a
# model. It gets a tensor, from any device, and returns its numbers as a NumPy array of
# ``float64`` that stays as it is when ``x`` changes. The tensor may have a gradient, or
# a type that NumPy doesn't know, such as ``bfloat16``.
#
# Put your answer where the dots are, and run ``firstlight try 01_moving.py``.


def snapshot(x): ...


# %%

# folded: The checker


def find_problem(answer, x):
    was, needed_grad = x.detach().clone(), x.requires_grad
    array = answer(x)
    if not isinstance(array, np.ndarray):
        return f"it returned a {type(array).__name__}, not a NumPy array"
    if array.dtype != np.float64:
        return f"the array is of {array.dtype}, not float64"
    if not torch.equal(x.detach(), was) or x.requires_grad != needed_grad:
        return "the tensor that you were given has changed"
    right = np.array(was.tolist(), np.float64)
    if array.shape != right.shape or not np.array_equal(array, right):
        return "the array has other numbers or another shape"
    with torch.no_grad():
        x.add_(1)
    if not np.array_equal(array, right):
        return "the array changed with the tensor: it shares memory"
    return ""


# %%

# folded: What the checker tries


def check(answer):
    made = {"float64": torch.arange(5.0, dtype=torch.float64).reshape(1, 5)}
    made["float32, with a gradient"] = torch.linspace(0, 1, 7, requires_grad=True)
    made["bfloat16"] = torch.ones(2, 3, dtype=torch.bfloat16).T
    made[f"int64 on {try_gpu()}"] = torch.arange(5, device=try_gpu())
    made["a single number"] = torch.tensor(0.5)
    for name, x in made.items():
        try:
            problem = find_problem(answer, x)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With a tensor of {name}: {problem}."
    return "Right: the numbers are yours to keep, from any device and of any type."


# %%

print(check(snapshot))

# %%
# Three lines to remember
# -----------------------

# remember

print("""\
1. x.to(device) returns the moved tensor and leaves x where it was, so keep the result.
2. If the tensor is there already, you get the tensor itself, and it costs next to
   nothing. If you need a copy, say copy=True.
3. Choose one device at the top, print it, and make or move everything there. In an
   error about two devices, print .device of everything in that line.""")

# %%
# Solution
# --------

# solution


def snapshot_solution(x):
    return x.detach().cpu().to(torch.float64, copy=True).numpy()


print(f"Our solution: {check(snapshot_solution)}")

# %%
# To look up
# ----------
#
# .. list-table:: What devices are called
#    :header-rows: 1
#
#    * - you write
#      - you mean
#    * - ``"cuda"``
#      - the *current* GPU of NVIDIA or AMD: the first, unless you call
#        ``torch.cuda.set_device``
#    * - ``"cuda:2"``, ``x.cuda(2)``
#      - the *third*, because GPUs are counted from 0.
#    * - ``"mps"``, ``"xpu"``
#      - a GPU of Apple, a GPU of Intel
#    * - ``"cuda0"``
#      - *Invalid device string*: the colon is missing
#    * - ``"gpu"``, ``"random"``
#      - *Expected one of cpu, cuda, …*, with all the words that PyTorch knows
#
# ``torch.device("cuda:2")`` works anywhere, because it's only a name. You get the error
# when you *move* something there: ``invalid device ordinal`` if you don't have three
# GPUs, or ``Torch not compiled with CUDA enabled`` if :doc:`your PyTorch can't use any
# </doctor>`.
#
# .. list-table:: Lines of older notebooks
#    :header-rows: 1
#    :widths: 50 50
#    :class: fl-lines
#
#    * - you find
#      - write
#    * - ``torch.FloatTensor([1, 2]).cuda()``
#      - ``torch.tensor([1.0, 2.0], device=device)``
#    * - ``torch.LongTensor(labels)``
#      - ``torch.tensor(labels, dtype=torch.int64)``
#    * - ``torch.ones(3, gpu=True)``, a ``TypeError``
#      - ``torch.ones(3, device=device)``
#    * - ``x.storage()``, a ``torch.cuda.FloatStorage`` if ``x`` is on a GPU
#      - ``x.device``, or ``x.untyped_storage().device``
#    * - ``if x.get_device() >= 0``
#      - ``if x.device.type != "cpu"``
#    * - ``if x.device == "cuda"``: never true, because a device isn't a string
#      - ``if x.device.type == "cuda"``
#
# The *storage* of a tensor is the memory behind it. Two tensors share it if
# ``x.untyped_storage().data_ptr()``, its address, is the same.
