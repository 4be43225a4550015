"""
Did that line move your tensor?
===============================

You have written ``x.to("cuda")``. There was no error, so ``x`` should be on the GPU
now. Two lines later you compute ``x + y``, and PyTorch says: *Expected all tensors to
be on the same device, but found at least two devices, cuda:0 and cpu!* Did the first
line do nothing at all?

It did something, but not what it seems to do. On this page you'll try such lines one by
one, and look where your :term:`tensor` is after each of them. By the end you'll know
which lines move a tensor and which don't, and you'll write a program that runs on a
laptop without a GPU and on a cluster. If you are in a hurry, copy the lines below, and
come back when one of them surprises you.

**Time:** 12 minutes. **Needs:** any computer, and some PyTorch.
"""

# %%
# Copy this
# ---------
#
# ``torch.accelerator`` needs PyTorch 2.6. With an older one, write ``device =
# torch.device("cuda" if torch.cuda.is_available() else "cpu")``.

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
# Let's do again what went wrong, and look at the tensor afterwards. If your computer
# has no GPU, like the one that built this page, we use ``meta`` as the second device.
# Its tensors have a shape but no numbers, and move by the same rules. **Where will it
# be?**

gpu = device if device.type != "cpu" else torch.device("meta")

image = torch.rand(512, 512)
image.to(gpu)
print("image is on", image.device)

# %%
# It is still on ``cpu``. The line did make a tensor on the GPU, but we didn't give it a
# name, so it was thrown away at once. You know this from strings: ``text.upper()`` does
# not change ``text``, it *returns* another string, and if you don't keep that, nothing
# has happened. So let's keep it:

image_there = image.to(gpu)
print("image is on", image.device, "and image_there is on", image_there.device)
print("get_device:", image.get_device(), "and", image_there.get_device())

# %%
# What ``.device`` tells you is a :term:`device`: a place where PyTorch can compute,
# with the memory that belongs to it. The CPU is one, and each GPU is another, because a
# GPU has a memory of its own.
#
# In older notebooks you'll meet ``image.get_device()``. It returns only the number of
# the GPU, and -1 on the CPU. So on a computer with a GPU you'd see cuda:0, -1 and 0
# above. ``.device`` says the same in words.
#
# You'll also meet two short forms. ``x.cpu()`` means ``x.to("cpu")``, and ``x.cuda()``
# means ``x.to("cuda")``, or ``x.cuda(1)`` if you want the second GPU. They return the
# moved tensor, too, and leave ``x`` where it was. Avoid ``.cuda()``: it fails on every
# computer that has no NVIDIA or AMD GPU.
#
# The figure below shows the same with boxes. A name is a label on a
# box, and ``.to`` never takes a label off.

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
# What does ``.to`` do if the tensor is already where you want it? Here is a small
# program that counts to three on the CPU. After each step it keeps the total, in two
# ways. **Write down the two lists that it prints, before you look.**

total = torch.zeros(1)
kept, copies = [], []
for _ in range(3):
    total += 1
    kept.append(total.cpu())
    copies.append(total.to("cpu", copy=True))
print("kept:  ", [int(number) for number in kept])
print("copies:", [int(number) for number in copies])

# %%
# The first list is ``[3, 3, 3]``, and most people expect ``[1, 2, 3]``. Because
# ``total`` is on the CPU already, ``total.cpu()`` has nothing to do, and it returns
# ``total`` *itself*. So the list holds the same tensor three times, and when that
# tensor changes, all three entries change with it. You can ask:

print("total.cpu() is total:", total.cpu() is total)
print("with copy=True:", total.to("cpu", copy=True) is total)

# %%
# In other words, ``.to`` promises you a tensor in that place, and makes one only if it
# has to. If you need a copy, ask for one: ``copy=True`` always makes it, and so does
# ``total.clone()``.
#
# This mistake is nasty because a GPU hides it. With ``total`` on a GPU, ``.cpu()`` has
# to copy, and you'd get ``[1, 2, 3]``. Then the program is right on the cluster, and
# wrong on the laptop of the colleague who has no GPU.
#
# Why does PyTorch do it at all? Because in this way you can write ``.to(device)``
# wherever you like, and it costs next to nothing if there is nothing to move. You don't
# have to put an ``if`` around it.
#
# A *model* behaves differently, because ``model.to(device)`` moves the model itself.
# See :doc:`/tutorials/2_devices/05_moving_a_model`. For other lines you can look up
# whether they copy, and whether your program has to wait for the GPU:
# :doc:`/copies_and_waits`. The price of waiting has a page of its
# own, :doc:`/tutorials/2_devices/06_queues`.
#
# Choose the device once
# ----------------------
#
# If you write ``"cuda"`` in twenty places, your program fails in twenty places on the
# first computer without CUDA. So choose the device at the top of the program, and write
# ``device`` everywhere else. Most programs that you'll read choose it like this:

chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(chosen)

# %%
# That line finds an NVIDIA GPU, or an AMD GPU, which PyTorch calls ``"cuda"`` as well.
# On a Mac or with an Intel GPU, it takes the CPU. The lines under *Copy this* find all
# of them. Whichever you use, *print* what was chosen. If your program falls back to the
# CPU, you won't get an error. It will just be slow.
#
# With a device in your hand, you can often do without a move. ``torch.zeros(n)`` makes
# its zeros on the CPU, and ``torch.zeros(n, device=device)`` makes them where you need
# them. So does ``torch.zeros_like(x)``, which follows ``x``. Is that worth typing?
#
# On an H100, 67 million ones that were made on the CPU and then moved took
# :timing:`moving median "made here, moved" @nvidia-h100-80gb-hbm3`. Made on the GPU,
# they took :timing:`moving median "made there" @nvidia-h100-80gb-hbm3`, so, counting
# the time to make them on the CPU, it was :timing:`moving speedup "made there"/"made
# here, moved" @nvidia-h100-80gb-hbm3` as fast.
#
# Which GPU, if there are several?
# --------------------------------
#
# On a shared node the scheduler usually shows you only your own GPUs, so yours is
# ``cuda:0``. To see it work, run ``nvidia-smi`` in a second terminal. With several GPUs
# of your own you need their numbers: ``torch.device("cuda", 1)`` is the second one. If
# you know `Dive into Deep Learning`__, you know ``try_gpu`` and ``try_all_gpus``. The
# fold has them, for GPUs of any maker:
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
# The book's ``try_all_gpus`` returns an *empty* list on a computer without a GPU. A
# loop over an empty list does nothing, and you don't get an error. Ours returns the CPU
# in that case.
#
# How do you write such a device as a string? Two of these four are wrong, one is
# unusual, and one is the third GPU. **Which is which?**

for name in ("cuda:2", "cuda0", "gpu", "meta"):
    try:
        print(f"{name}:", torch.device(name))
    except RuntimeError as error:
        print(f"{name}: {error!s:.60}...")

# %%
# GPUs are counted from 0, so ``"cuda:2"`` is the *third*, and the number needs its
# colon. After a word that PyTorch doesn't know, such as ``"gpu"``, or
# ``x.to("random")``, the message lists all the words that it does know. There is no
# ``gpu=True`` either: ``torch.ones(3, gpu=True)`` is a ``TypeError``.
#
# Did it surprise you that ``"cuda:2"`` works, although you may have no GPU at all?
# That's because it is only a name. You get the error when you *move* something there:
# ``invalid device ordinal`` if you don't have three GPUs, or ``Torch not compiled with
# CUDA enabled`` if your PyTorch has no code for NVIDIA's GPUs. :doc:`/doctor` knows
# what to do.
#
# Finally, ``"cuda"`` without a number is the *current* GPU, which is the first one
# unless you call ``torch.cuda.set_device``. A tensor there says ``cuda:0``, and for
# Python the two names aren't equal. So to ask whether ``x`` is on such a GPU, write
# ``x.device.type == "cuda"``.
#
# Two devices in one line
# -----------------------
#
# Now we can understand the error from the beginning. We multiply a batch of data by
# weights, and we forgot to move one of the two:

batch = torch.ones(4, 3)
weights = torch.tensor([0.2, 0.3, 0.5], device=gpu)
try:
    scores = batch * weights
except RuntimeError as error:
    print(error)

# %%
# With an NVIDIA GPU, the message reads like the first of these. For a `matrix
# product`__, it reads like the second:
#
# .. code-block:: text
#
#     Expected all tensors to be on the same device, but found at least two devices,
#         cuda:0 and cpu!
#     Expected all tensors to be on the same device, but got mat2 is on cuda:0,
#         different from other tensors on cpu (when checking argument in method
#         wrapper_CUDA_mm)
#
# __ https://github.com/yolain/ComfyUI-Easy-Use/issues/937
#
# It names the devices, but not your variables. So print the device of everything in
# that line, find the one that is elsewhere, and move it:

for name, tensor in {"batch": batch, "weights": weights}.items():
    print(name, "is on", tensor.device)

scores = batch.to(weights.device) * weights
print("scores is on", scores.device)

# %%
# The usual suspects are a batch, a mask, the class weights of a loss, and a tensor that
# somebody made inside a function without saying ``device=``.
#
# Why doesn't PyTorch simply move the tensor for you? Because a move is slow, and you
# would never find out.
#
# How slow? This is what ``.to`` took on an H100, for 67 million numbers (268 MB):
#
# - the tensor was there already: :timing:`moving median "there already"
#   @nvidia-h100-80gb-hbm3`;
# - a copy within the GPU: :timing:`moving median "copy, new memory"
#   @nvidia-h100-80gb-hbm3`, so its memory moved :timing:`moving rate "copy, new memory"
#   @nvidia-h100-80gb-hbm3`, read and written;
# - from the CPU's memory to the GPU: :timing:`moving median "from the host"
#   @nvidia-h100-80gb-hbm3`.
#
# In a loop, a hidden move of the third kind would eat all that the GPU gains.
#
# There are two exceptions, and both are about single numbers. A number of Python goes
# with every device, so ``weights * 2`` is fine. So is ``weights * torch.tensor(2.0)``,
# because that tensor has no dimensions. It doesn't work the other way round: a tensor
# on the CPU can't be multiplied by a single number on the GPU.

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
# *Pinned* memory makes a move faster: :doc:`/tutorials/2_devices/08_pinned_memory`. The
# next page moves a whole training: :doc:`/tutorials/2_devices/02_training_loop`.
#
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
# ``from_numpy`` doesn't copy. It makes a tensor around the array's memory, so that a
# change of one shows in the other. ``torch.tensor`` always copies. It can also take the
# numbers straight to the GPU, and change their type on the way. Do that, because
# NumPy's ``float64`` numbers need twice the bytes, are slow on most GPUs, and don't
# work at all on Apple's.
#
# The memory behind a tensor is called its *storage*. If you want to know whether two
# tensors share it, compare ``x.untyped_storage().data_ptr()``, which is its address.
#
# The way back is ``.numpy()``. It doesn't copy either, and so it works only if the
# tensor is on the CPU, and only if PyTorch isn't recording a gradient for it:

weights = torch.ones(3, requires_grad=True)
try:
    weights.numpy()
except RuntimeError as error:
    print(error)
print(weights.detach().cpu().numpy())

# %%
# ``.detach().cpu().numpy()`` is the form that works from everywhere: let go of the
# gradient, come to the CPU, become an array. But remember the list ``[3, 3, 3]``. If
# the tensor was on the CPU already, then ``.detach()`` and ``.cpu()`` and ``.numpy()``
# all return something around the same memory.
#
# Finally, if your notebook is some years old, these lines still run, but nobody writes
# them any more:
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
#    * - ``x.storage()``, a ``torch.cuda.FloatStorage`` if ``x`` is on a GPU
#      - ``x.device``, or ``x.untyped_storage().device``
#    * - ``if x.get_device() >= 0``
#      - ``if x.device.type != "cpu"``
#
# Does a move change a number? Only if it changes the type:

# folded: There and back again, on an odd size

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
# You want to look at the weights of a model after each epoch. Write ``snapshot(x)``. It
# gets a tensor, from any device, and returns its numbers as a NumPy array of
# ``float64`` that stays as it is when ``x`` changes. The tensor may have a gradient, or
# a type that NumPy doesn't know, such as ``bfloat16``.
#
# Put your answer where the dots are, and run ``firstlight try 01_moving.py``. It runs
# only what the exercise needs, and answers in about a second.


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
