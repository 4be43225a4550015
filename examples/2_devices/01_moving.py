"""
Did that line move your tensor?
===============================

You have written ``x.to("cuda")``. There was no error, so ``x`` should be on the GPU
now. Two lines later you compute ``x + y``, and PyTorch says: *Expected all tensors to
be on the same device, but found at least two devices, cuda:0 and cpu!* Did the first
line do nothing at all?

It did something, but not what it seems to do. Let's try such lines one by one, and look
where your :term:`tensor` is after each of them. By the end you'll know which lines move
a tensor, and you'll write programs that run on a laptop without a GPU and on a cluster.
If you are in a hurry, copy the lines below, and come back when one of them surprises
you.

**Time:** 10 minutes. **Needs:** any computer, and some PyTorch.
"""

# %%
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
# Move it, and look
# -----------------
#
# Let's do again what went wrong, and look at the tensor afterwards. (Without a GPU, we
# use ``meta`` as the second device. Its tensors have a shape but no numbers. They go
# there by the same rules, and never come back.) **Where will the image be?**

gpu = device if device.type != "cpu" else torch.device("meta")

image = torch.rand(512, 512)
image.to(gpu)
print("image is on", image.device)

# %%
# It's still on ``cpu``. The line did make a tensor on the GPU, but we didn't give it a
# name, so it was thrown away at once. You know this from strings: ``text.upper()``
# doesn't change ``text``, it *returns* another string. If you don't keep that, nothing
# has happened. So let's keep it:

image_there = image.to(gpu)
print("image is on", image.device, "and image_there is on", image_there.device)
print("get_device:", image.get_device(), "and", image_there.get_device())

# %%
# ``.device`` tells you the :term:`device`: a place where PyTorch can compute, with
# memory of its own. The CPU is one, and each GPU is another. (``get_device()``, in
# older notebooks, returns only the number of the GPU, and -1 if there is none.)
#
# There are short forms, too: ``x.cpu()`` for ``x.to("cpu")``, ``x.cuda()`` for
# ``x.to("cuda")``, and ``x.cuda(1)`` for the second GPU. They also return the moved
# tensor, and leave ``x`` where it was. Avoid ``.cuda()``: it fails on every computer
# that has no NVIDIA or AMD GPU.
#
# Here is the same with boxes. A name is a label on a box, and ``.to`` never takes a
# label off.

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
# What does ``.to`` do if the tensor is already where you want it? This small program
# counts to three on the CPU, and after each step it keeps the total, in two ways.
# **Write down the two lists that it prints, before you look.**

total = torch.zeros(1)
kept, copies = [], []
for _ in range(3):
    total += 1
    kept.append(total.cpu())
    copies.append(total.to("cpu", copy=True))
print("kept:  ", [int(number) for number in kept])
print("copies:", [int(number) for number in copies])

# %%
# The first list is ``[3, 3, 3]``. Had you expected ``[1, 2, 3]``? Because
# ``total`` is on the CPU already, ``total.cpu()`` has nothing to do, and it returns
# ``total`` *itself*. So the list holds the same tensor three times, and when that
# tensor changes, all three entries change with it. You can ask:

print("total.cpu() is total:", total.cpu() is total)
print("with copy=True:", total.to("cpu", copy=True) is total)

# %%
# In other words, ``.to`` promises you a tensor in that place, and makes one only if it
# has to. So you can write ``.to(device)`` wherever you like, without an ``if`` around
# it. If you need a copy, ask for one: ``copy=True`` always makes it, and so does
# ``total.clone()``.
#
# This mistake is nasty because a GPU hides it. With ``total`` on a GPU, ``.cpu()`` has
# to copy, and you'd get ``[1, 2, 3]``. Then the program is right on the cluster, and
# wrong on the laptop of the colleague who has no GPU.
#
# A *model* is different: ``model.to(device)`` moves the model itself, and best before
# you make its optimizer (:doc:`/tutorials/2_devices/05_moving_a_model`). You can look
# up what other lines do, such as ``print``: :doc:`/copies_and_waits`.
#
# Choose the device once
# ----------------------
#
# If you write ``"cuda"`` in twenty places, your program fails in twenty places on the
# first computer without CUDA. So choose the device at the top, and write ``device``
# everywhere else. Most programs that you'll read choose it like this:

chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(chosen)

# %%
# That line finds an NVIDIA GPU, or an AMD GPU, which PyTorch calls ``"cuda"`` as well.
# With a GPU of Apple or Intel, it takes the CPU. The lines under *Copy this* find
# those, too, but need PyTorch 2.6. Whichever you use, *print* what was chosen. If your
# program falls back to the CPU, you won't get an error. It will just be slow.
#
# With a device in your hand, you can often do without a move. ``torch.zeros(n)`` makes
# its zeros on the CPU, and ``torch.zeros(n, device=device)`` where you need them.
# (``torch.zeros_like(x)`` follows ``x``.) Is that worth typing?
#
# On an H100's computer, 67 million ones that were made on the CPU and then moved took
# :timing:`moving median "made here, moved" @nvidia-h100-80gb-hbm3`. Made on the GPU,
# they took :timing:`moving median "made there" @nvidia-h100-80gb-hbm3`.
#
# Which GPU, if there are several?
# --------------------------------
#
# Then you need their numbers. You may know ``try_gpu`` and ``try_all_gpus`` from `Dive
# into Deep Learning`__. Without a GPU, the book's list is *empty*, so a loop over it
# does nothing, and you don't get an error. Ours has the CPU then, and finds GPUs of any
# maker.
#
# __ https://d2l.ai/chapter_builders-guide/use-gpu.html

# folded: try_gpu and try_all_gpus


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
# How do you write a device as a string? Two of these four are wrong, one you've met
# above, and one is the third GPU. **Which is which?**

for name in ("cuda:2", "cuda0", "gpu", "meta"):
    try:
        print(f"{name}:", torch.device(name))
    except RuntimeError as error:
        print(f"{name}: {error!s:.60}...")

# %%
# GPUs are counted from 0, so ``"cuda:2"`` is the *third*, and the number needs its
# colon. (On a shared node you usually see only your own, so yours is ``cuda:0``.) If
# PyTorch doesn't know the word, as in ``"gpu"`` or ``x.to("random")``, the message
# lists all the words that it does know.
#
# Did it surprise you that ``"cuda:2"`` works, although you may have no GPU at all? It's
# only a name. You get the error when you *move* something there: ``invalid device
# ordinal`` if you don't have three GPUs, or ``Torch not compiled with CUDA enabled`` if
# your PyTorch can't use any (:doc:`/doctor`).
#
# Two devices in one line
# -----------------------
#
# Now the error from the beginning. We multiply a batch of data by weights, and we
# forgot to move one of the two:

batch = torch.ones(4, 3)
weights = torch.tensor([0.2, 0.3, 0.5], device=gpu)
try:
    scores = batch * weights
except RuntimeError as error:
    print(error)

# %%
# The message names the devices, but not your variables. (For a `matrix product`__, it
# reads *but got mat2 is on cuda:0, different from other tensors on cpu*.) So print the
# device of everything in that line, find the one that is elsewhere, and move it:
#
# __ https://github.com/yolain/ComfyUI-Easy-Use/issues/937

for name, tensor in {"batch": batch, "weights": weights}.items():
    print(name, "is on", tensor.device)

scores = batch.to(weights.device) * weights
print("scores is on", scores.device)

# %%
# The usual suspects are a batch, a mask, the class weights of a loss, and a tensor that
# somebody made inside a function without saying ``device=``.
#
# Why doesn't PyTorch simply move the tensor for you? Because a move is slow, and you
# would never find out. This is what ``.to`` took on an H100, for 67 million numbers:
#
# - the tensor was there already: :timing:`moving median "there already"
#   @nvidia-h100-80gb-hbm3`;
# - a copy within the GPU: :timing:`moving median "copy, new memory"
#   @nvidia-h100-80gb-hbm3`;
# - from the CPU's memory to the GPU: :timing:`moving median "from the host"
#   @nvidia-h100-80gb-hbm3`.
#
# In a loop, a hidden move from the CPU could eat all that the GPU gains. (*Pinned*
# memory makes it faster: :doc:`/tutorials/2_devices/08_pinned_memory`)
#
# .. dropdown:: The exceptions: single numbers go with every device
#
#    A number of Python does, so ``weights * 2`` is fine. So is ``weights *
#    torch.tensor(2.0)``, because that tensor has no dimensions. It doesn't work the
#    other way round: a tensor on the CPU can't be multiplied by a single number on the
#    GPU.

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
# NumPy knows only the CPU. There are two ways from an array to a tensor, and they
# differ when you change the array afterwards. **What will the two tensors hold?**

signal = np.array([0.0, 0.5, 1.0])
shared = torch.from_numpy(signal)
copied = torch.tensor(signal, dtype=torch.float32, device=device)
signal[0] = 7
print("shared:", shared)
print("copied:", copied)

# %%
# ``from_numpy`` makes a tensor around the array's memory, so that a change of one shows
# in the other. ``torch.tensor`` always copies. It can also take the numbers straight to
# the GPU, and change their type on the way. Do that, because NumPy's ``float64`` is
# slow on most GPUs, and doesn't work at all on Apple's. (What it costs in digits:
# :doc:`/tutorials/2_devices/13_precision`)
#
# The way back is ``.numpy()``. It doesn't copy either, so a tensor on the GPU answers
# ``can't convert cuda:0 device type tensor to numpy``: bring it home with ``.cpu()``
# first. And PyTorch must not be recording a gradient for it:

weights = torch.ones(3, requires_grad=True)
try:
    weights.numpy()
except RuntimeError as error:
    print(error)
print(weights.detach().cpu().numpy())

# %%
# ``.detach().cpu().numpy()`` works on every device: let go of the gradient, come to the
# CPU, become an array. (A type that NumPy lacks, such as ``bfloat16``, has to become
# another one first. For one number, write ``x.item()``.) But remember the list ``[3, 3,
# 3]``. If the tensor was on the CPU already, then all three return something around the
# same memory.

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
# If your notebook is some years old
# ----------------------------------
#
# Skip this if it isn't. The *storage* of a tensor is the memory behind it. Two tensors
# share it if ``x.untyped_storage().data_ptr()``, its address, is the same.
#
# .. list-table:: Lines of older notebooks, and what to write today
#    :header-rows: 1
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
#    * - ``if x.device == "cuda"``
#      - ``if x.device.type == "cuda"``
#
# Why not the last one? ``"cuda"`` alone is the *current* GPU, the first one unless you
# call ``torch.cuda.set_device``. A tensor there says ``cuda:0``, and for Python the two
# names aren't equal.
#
# Your turn
# ---------
#
# You want to look at the weights of a model after each epoch. Write ``snapshot(x)``. It
# gets a tensor, from any device, and returns its numbers as a NumPy array of
# ``float64`` that stays as it is when ``x`` changes. The tensor may have a gradient, or
# a type that NumPy doesn't know, such as ``bfloat16``.
#
# Put your answer where the dots are, and run ``firstlight try 01_moving.py``. It
# answers in about a second.


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
