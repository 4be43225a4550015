"""
Where did the memory go?
========================

You make a tensor of 8 bytes, and PyTorch counts 512. You delete your largest tensor,
and ``nvidia-smi`` shows as much as before. You empty the cache, and nothing changes.
You train for an hour, and then the GPU is full. None of this is a fault, and nearly all
of it can be worked out beforehand. This page does so, on any computer.

**You will learn**

- to read the three meters of a GPU's memory, and which to trust for what;
- what ``empty_cache()`` does, and what it does not;
- to work out what a training takes, and the largest batch, before you allocate;
- to find who still holds memory, and to go on after it has run out.

**Time:** 20 minutes. **Needs:** any computer, and some PyTorch. Without a CUDA GPU, a
model of PyTorch's allocator takes its place; all the rest is measured.
"""

# %%
# Predict
# -------
#
# To train a network, memory must hold four numbers for each *parameter* (each number
# that is learned): the parameter, its gradient, and two averages that Adam, the usual
# optimizer, keeps. In ``float32`` that is 16 bytes, before the first sample is loaded:

from firstlight.measure.specs import spec

MIB = 2**20

for card in ("GTX 1080 Ti", "RTX 4090", "H100 SXM"):
    memory = spec(card, "memory")
    print(f"{card:>11}: at most {memory / 16 / 1e9:.1f} billion parameters")

# %%
# Now write down your answers:
#
# - A tensor holds two ``float32`` numbers. How many bytes does PyTorch count for it?
# - You delete a tensor of 300 MiB. What does ``nvidia-smi`` show afterwards?
# - ``torch.cuda.empty_cache()``: does it free a tensor that you no longer need?
#
# (A MiB, which ``nvidia-smi`` counts in, is :math:`2^{20}` bytes; a MB is a million.)
#
# Three meters
# ------------
#
# On a CUDA GPU, three numbers answer the question "how much memory is in use?":
#
# - *allocated*, ``torch.cuda.memory_allocated()``: what tensors hold now;
# - *reserved*, ``torch.cuda.memory_reserved()``, in old code `memory_cached`__: what
#   PyTorch has taken from the driver. It keeps the memory of deleted tensors to use it
#   again. This store is the *cache*, and what manages it the *caching allocator*;
# - *in use on the card*, total minus free of ``torch.cuda.mem_get_info()``: what all
#   programs have taken, and what each needs to use the GPU at all, its *context*.
#   ``nvidia-smi`` shows about this.
#
# (So it is for NVIDIA and AMD. For Intel, look in ``torch.xpu``. For Apple, the first
# two are ``torch.mps.current_allocated_memory()`` and ``driver_allocated_memory()``.)
#
# A PyTorch boot camp makes a tensor of two numbers, prints the first meter, and gets
# 512, without a word on it. Do it again:
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_cached.html

import numpy as np
import torch

from firstlight import best_device

device = best_device()
on_cuda = device.type == "cuda"
before = torch.cuda.memory_allocated()
pair = torch.tensor([1.0, 2.0], device=device)
print(f"device {device}: the tensor holds {pair.nbytes} bytes")
print(f"PyTorch's meter for CUDA: {torch.cuda.memory_allocated() - before} more")

# %%
# Without a CUDA GPU, this meter shows 0: there is nothing for *it* to count. A meter
# for every device comes below.
#
# The rules
# ---------
#
# The 512 follows from rules that stand in `PyTorch's source`__:
#
# 1. A tensor takes a *block*. Its size is rounded up to a multiple of 512 bytes.
# 2. Blocks are cut from *segments*, which are what PyTorch asks the driver for. A block
#    of at most 1 MiB comes from a segment of 2 MiB, a larger one of less than 10 MiB
#    from a segment of 20 MiB. Any other gets a segment of its own, rounded up to a
#    multiple of 2 MiB.
# 3. The smallest free block that is large enough is used first. What is left over of it
#    stays free, unless it is too little: in large segments, at most 1 MiB.
# 4. A deleted tensor's block becomes free *in its segment*, and joins free neighbours.
#    The segment stays.
#
# __ https://github.com/pytorch/pytorch/blob/v2.6.0/c10/cuda/CUDACachingAllocator.cpp
#
# That is little enough to write down. A segment is a list of blocks here, and a block
# is a size with the name of the tensor in it, or ``None``.

segments = []


def round_up(size, step):
    return -(-size // step) * step


def allocate(name, size):
    size = round_up(size, 512)
    small = size <= MIB
    holes = [
        (block[0], number, place)
        for number, segment in enumerate(segments)
        if small == (sum(room for room, _ in segment) == 2 * MIB)
        for place, block in enumerate(segment)
        if block[1] is None and block[0] >= size
    ]
    if not holes:
        large = 20 * MIB if size < 10 * MIB else round_up(size, 2 * MIB)
        segments.append([[2 * MIB if small else large, None]])
        holes = [(segments[-1][0][0], len(segments) - 1, 0)]
    room, number, place = min(holes)
    left = room - size
    if left >= 512 if small else left > MIB:
        segments[number][place : place + 1] = [[size, name], [left, None]]
    else:
        segments[number][place][1] = name


# %%
# To free a block is to forget its name, and to join it with free neighbours.
# ``empty_cache`` can give back whole segments only: the driver takes no parts.


def free(name):
    for segment in segments:
        joined = []
        for size, owner in segment:
            owner = None if owner == name else owner
            if joined and owner is None and joined[-1][1] is None:
                joined[-1][0] += size
            else:
                joined.append([size, owner])
        segment[:] = joined


def empty_cache():
    segments[:] = [s for s in segments if any(owner is not None for _, owner in s)]


def count():
    blocks = [block for segment in segments for block in segment]
    allocated = sum(size for size, owner in blocks if owner is not None)
    return allocated, sum(size for size, _ in blocks)


# %%
# Check
# -----
#
# One tensor at a time, with sizes around every border of the rules. What must be
# reserved follows from rule 2.

print(f"{'tensor':>12} {'allocated':>12} {'reserved':>12}   bytes")
sizes = (8, 513, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 33_333_333)
for size, expected in zip(sizes, (2, 2, 2, 20, 20, 10, 32), strict=True):
    segments.clear()
    allocate("tensor", size)
    allocated, reserved = count()
    assert size <= allocated <= reserved == expected * MIB
    print(f"{size:>12,} {allocated:>12,} {reserved:>12,}")

# %%
# The first line is the boot camp's: 8 bytes are counted as 512, and cost 2 MiB of the
# card. They are not lost. The next 4095 such tensors find room there.
#
# A run, and its staircase
# ------------------------
#
# Now a run in which every rule matters, in the model, and on your CUDA GPU if you have
# one. (The tensors are never filled: on a GPU, memory is taken as soon as you ask.)

story = [
    ("start", "", 0),
    ("a: 8 bytes", "a", 8),
    ("b: 3 MiB", "b", 3 * MIB),
    ("c: 150 MiB", "c", 150 * MIB),
    ("d: 300 MiB", "d", 300 * MIB),
    ("del d", "d", 0),
    ("e: 200 MiB", "e", 200 * MIB),
    ("del c", "c", 0),
    ("f: 240 MiB", "f", 240 * MIB),
    ("empty_cache()", "", 0),
    ("del a, b, e, f", "abef", 0),
    ("empty_cache()", "", 0),
]


def play(story, allocate, free, empty_cache, meters):
    for _, names, size in story:
        if size:
            allocate(names, size)
        elif names:
            for name in names:
                free(name)
        else:
            empty_cache()
        yield meters()


# %%
# The third meter needs the size of the context, which no rule gives. It depends on the
# card, the driver, and the libraries that your program uses; `an expert puts it`__ at
# about 300 MB. The model takes 300 MiB, or what your GPU shows.
#
# __ https://github.com/pytorch/pytorch/issues/107667

context, measured = 300 * MIB, None
if on_cuda:
    del pair
    torch.cuda.empty_cache()
    start = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)

    def meters():
        free_now, total = torch.cuda.mem_get_info(device)
        allocated = torch.cuda.memory_allocated(device) - start[0]
        reserved = torch.cuda.memory_reserved(device) - start[1]
        return allocated, reserved, total - free_now - start[1]

    def allocate_here(name, size):
        tensors[name] = torch.empty(size, dtype=torch.uint8, device=device)

    tensors, context = {}, meters()[2]
    steps = play(story, allocate_here, tensors.pop, torch.cuda.empty_cache, meters)
    measured = np.array(list(steps))

# %%
# Before you look, go through the steps yourself. Where does *reserved* rise? When ``e``
# has moved in where ``d`` was, 100 MiB are left there, and 150 where ``c`` was. Is
# there room for ``f``?

segments.clear()
model = allocate, free, empty_cache, count
modelled = np.array(list(play(story, *model)))
modelled = np.column_stack((modelled, modelled[:, 1] + context))

# %%
# From the bottom: what tensors hold, what lies in the cache, and the context. Dashed
# edges are the model. On a CUDA GPU, points are what its meters say.

import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#2f7ed8", "#d9822b", "#8a8f98"
fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
edges, low = np.arange(len(story) + 1), 0
bands = {"context": (GREY, ".."), "cache": (ORANGE, "//"), "tensors": (BLUE, "")}
for (label, look), high in zip(reversed(bands.items()), modelled.T / MIB, strict=True):
    look = {"fc": (look[0], 0.35), "ec": look[0], "hatch": look[1], "label": label}
    ax.stairs(high, edges, baseline=low, fill=True, ls="--", lw=1.5, **look)
    low = high
if measured is not None:
    ax.plot(edges[:-1] + 0.5, measured / MIB, "o", color="#d0453e", ms=5)
ax.annotate("f finds no hole", (8, 640), (4.2, 900), arrowprops={"arrowstyle": "->"})
ax.set_xticks(edges[:-1] + 0.5, [label for label, _, _ in story], rotation=90)
title = f"Three meters over one run{'' if on_cuda else ' (a model)'}"
ax.set(title=title, ylabel="MiB", xlim=(0, len(story)), ylim=(0, None))
ax.legend(loc="upper left", reverse=True, frameon=False)
fig.set_label(
    "Twelve steps, three meters. Allocated rises and falls with the tensors. Reserved "
    "stays when one is deleted, rises for f although enough lies in the cache, and "
    "falls only when the cache is emptied. The third is reserved and the context."
)
plt.show()

# %%
# The moment before ``f`` in numbers:

f = [label for label, _, _ in story].index("f: 240 MiB")
held, taken, shown = (modelled if measured is None else measured)[f - 1] / MIB
print(f"tensors hold {held:.0f} MiB, PyTorch {taken:.0f}; nvidia-smi shows {shown:.0f}")
segments.clear()
list(play(story[:f], *model))
pieces = [size for segment in segments for size, owner in segment if owner is None]
print("free, by the model, are pieces of", *(f"{piece / MIB:.0f}" for piece in pieces))
if measured is not None:
    worst = np.abs(measured - modelled)[:, :2].max() / MIB
    print(f"on this GPU the model was off by at most {worst:.2f} MiB")

# %%
# - *A deleted tensor's memory stays with PyTorch.* For your program it is free, for all
#   others it is gone.
# - *Free is not the same as usable.* The cache held more than ``f`` needs, but in
#   pieces: it was *fragmented*. So PyTorch asked the driver for more. On a full card it
#   would first have given back each segment in which nothing lives, here that of ``c``.
#   If that is not enough, you are out of memory while some is free.
# - ``empty_cache()`` *gives back segments in which nothing lives*, no more. The first
#   call finds that of ``c``. The 100 MiB behind ``e`` stay: they are a part of one.
#
# The error's message says how much is "reserved by PyTorch but unallocated". If that is
# much, it names a cure, ``expandable_segments:True``, with which segments can grow. Set
# it in the environment variable ``PYTORCH_CUDA_ALLOC_CONF``. (``PYTORCH_ALLOC_CONF``,
# its new name, `is ignored by PyTorch 2.9.1`__.)
#
# `The tutorial of MPoL`__ calls ``empty_cache()`` before it moves its vectors, "just
# incase there was any memory left over from an old operation". You saw that it cannot
# touch what a tensor holds. The rest PyTorch would have used again, or given back in
# need. So `its documentation`__ says that it "doesn't increase the amount of GPU memory
# available for PyTorch". It makes room for *other* programs.
#
# __ https://github.com/pytorch/pytorch/issues/183387
# __ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst
# __ https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
#
# Measure
# -------
#
# Why a cache at all? Because to ask for memory costs time. Fill a vector with ones, in
# memory that is there already, and in a new tensor each time. On a CUDA GPU, a third
# way empties the cache before, so that PyTorch has to ask the driver.

from firstlight import Bench

n = 2**24
vector = torch.zeros(n, device=device)


def new_tensor():
    torch.empty(n, device=device).fill_(1.0)


def cache_emptied():
    torch.cuda.empty_cache()
    new_tensor()


bench = Bench("memory")
size = {"n": n, "bytes": 4 * n, "device": device}
bench.time("reused", vector.fill_, 1.0, **size)
bench.time("new tensor", new_tensor, **size)
if on_cuda:
    bench.time("cache emptied", cache_emptied, **size)
bench.show()

# %%
# On a CUDA GPU, a new tensor comes out of the cache. With the cache emptied, it waits
# for the driver, and for all work in the queue as well: ``empty_cache()`` does not
# belong into a loop. On a CPU there is no such cache. The C library usually gives large
# blocks back to the operating system, and a new tensor finds its memory anew, page by
# page (:doc:`/tutorials/1_setup/02_first_speedup` meets the same cost).
#
# A meter for every device
# ------------------------
#
# What matters, then, is what your tensors hold, and how much of it at the worst moment.
# You can count that on any device. PyTorch lets Python look at every operation. The
# class below notes each *storage* that an operation returns: the memory behind a
# tensor, which several tensors may share. It does so with a *weak* reference, one that
# does not keep it alive. So ``live()`` is the sum of those that somebody else still
# holds. The ``limit`` is for later: it turns any device into a small card.

import math
import weakref

from torch.utils._python_dispatch import TorchDispatchMode


class Meter(TorchDispatchMode):
    def __init__(self, limit=math.inf):
        super().__init__()
        self.storages, self.levels, self.limit = weakref.WeakSet(), [], limit

    def live(self):
        return sum(storage.nbytes() for storage in self.storages)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        made = result if isinstance(result, (tuple, list)) else (result,)
        tensors = (tensor for tensor in made if isinstance(tensor, torch.Tensor))
        self.storages.update(tensor.untyped_storage() for tensor in tensors)
        self.levels.append(self.live())
        if self.levels[-1] > self.limit:
            del result, made, tensors
            raise torch.OutOfMemoryError(f"the limit is {self.limit:,} bytes")
        return result


# %%
# A budget before you allocate
# ----------------------------
#
# A small network shall remove the noise from spectra of 256 channels. It has three
# layers, with 512 numbers between them. What does it take to train it with 1001 spectra
# at a time? By hand:
#
# - weights, gradients, and Adam's two averages: 16 bytes for each parameter;
# - the batch: the spectra, and what they should become;
# - the *activations*: what each layer computes. The way back, which makes the
#   gradients, needs it again, so it is kept;
# - the largest temporary. On the way back through the widest layer, the gradient exists
#   twice for a moment. (Or Adam's two, each as large as the largest weight.)

from itertools import pairwise

from torch import nn
from torch.nn import functional as F

widths, batch = (256, 512, 512, 256), 1001


def by_hand(batch):
    layers = list(pairwise(widths))
    parameters = sum((before + 1) * after for before, after in layers)
    largest = max(before * after for before, after in layers)
    return {
        "weights": 4 * parameters,
        "gradients": 4 * parameters,
        "Adam's two averages": 8 * parameters,
        "the batch": 4 * batch * (widths[0] + widths[-1]),
        "activations": 4 * batch * sum(widths[1:]),
        "largest temporary": 2 * 4 * max(batch * max(widths[1:]), largest),
    }


for what, size in by_hand(batch).items():
    print(f"{what:>20}: {size / 1e6:6.2f} MB")

# %%
# Not all of this is there at once: while gradients come, activations go. So the sum is
# an upper bound. To be exact, *rehearse*: on PyTorch's device ``meta``, tensors have a
# shape and no memory. The same training runs on it, and the meter counts what it would
# hold. Rehearse two steps: Adam makes its averages at the end of the first, so a
# training can get through its first step, and run out in the second.


def make(device):
    layers = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after, device=device), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    return model, torch.optim.Adam(model.parameters(), foreach=False)


def train(model, optimizer, batch, device, steps=2):
    x, y = (torch.rand(batch, widths[end], device=device) for end in (0, -1))
    for _ in range(steps):
        optimizer.zero_grad()
        F.l1_loss(model(x), y).backward()
        optimizer.step()
    return batch


def rehearse(batch, device="meta", limit=math.inf, steps=2):
    with Meter(limit) as meter:
        train(*make(device), batch, device, steps)
    return meter.levels


# %%
# Now for real, on this device. On a CUDA GPU, PyTorch keeps the *peak* itself: the
# highest value of *allocated* since the last reset. (There, the first run does not
# count: in it, libraries take memory to work in, their *workspace*, and keep it.)

if on_cuda:
    rehearse(batch, device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
levels = rehearse(batch, device)
bound, rehearsed = sum(by_hand(batch).values()), max(rehearse(batch))
print(f"by hand, an upper bound: {bound:>12,} bytes")
print(f"rehearsed on meta:       {rehearsed:>12,}")
print(f"really held, at most:    {max(levels):>12,}   on {device}")
if on_cuda:
    peak = torch.cuda.max_memory_allocated(device) - before
    print(f"by PyTorch's own meter:  {peak:>12,}")
if device.type == "cpu":
    assert rehearsed == max(levels) <= bound

# %%
# On the CPU, the rehearsal is right to the byte. PyTorch's own meter shows more: it
# counts blocks, and what an operation uses inside. Here are both steps, operation by
# operation: the area is measured, the dashed line is the sum by hand.

held_by_tensors = np.array(levels) / 1e6
second = len(rehearse(batch, steps=1))
fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
ax.stairs(held_by_tensors, fill=True, fc=(BLUE, 0.4), ec=BLUE, lw=1.5)
ax.axhline(bound / 1e6, color=ORANGE, ls="--", lw=1.5)
ax.text(2, bound / 1e6 + 0.3, "by hand, all together", size=10)
ax.axvline(second, color=GREY, lw=1)
for where, text in ((second / 2, "first step"), (1.5 * second, "second step")):
    ax.text(where, 0.4, text, ha="center", size=10)
top = held_by_tensors.argmax(), held_by_tensors.max()
arrow = {"arrowprops": {"arrowstyle": "->"}, "ha": "right", "va": "center"}
ax.annotate("the worst moment", top, (second - 4, top[1]), **arrow)
ax.set(xlabel="operations", ylabel="MB held by tensors")
ax.set(xlim=(0, len(levels)), ylim=(0, 1.15 * bound / 1e6))
fig.set_label(
    "Bytes held by tensors over two training steps. In each they climb on the way "
    "forward, peak on the way back, and fall as activations go. The second peak is "
    "higher, by Adam's averages. The sum by hand lies a little above it."
)
plt.show()

# %%
# How large a batch fits, then? A rehearsal costs nothing, so try: ``bisect`` finds the
# last batch whose peak fits. Take a toy card of 16 MB. (For your own, start from the
# free bytes of ``mem_get_info()``, and leave some for workspaces.)

from bisect import bisect_right


def largest_batch(free):
    at_most = free // (4 * sum(widths))
    return bisect_right(range(at_most), free, key=lambda n: max(rehearse(n))) - 1


toy = 16_000_000
fitting = largest_batch(toy)
print(f"{fitting} spectra fit; {fitting + 1} need {max(rehearse(fitting + 1)):,} bytes")

# %%
# Most leaks are references
# -------------------------
#
# Python frees a tensor at once when nobody refers to it any more. So memory that does
# not come back is memory that somebody still refers to. Here is who: each function gets
# a tensor of four million bytes, which has no other name, and keeps something of it.


def a_part(x):
    return x[:10]


def a_result(x):
    weight = torch.ones(1, device=device, requires_grad=True)
    return (weight * x).sum()


for keeper in (a_part, a_result):
    with Meter() as meter:
        kept = keeper(torch.zeros(1_000_003, device=device))
    print(f"{keeper.__name__:>8}: {meter.live():,} bytes alive")

# %%
# - *A part* shares the storage of the whole. ``clone()`` copies what you want to keep.
# - *A result* that you could call ``backward()`` on keeps everything that the way back
#   would need: its *graph*. ``.item()`` gives a plain number, ``.detach()`` a tensor
#   without the graph.
# - *An exception* keeps its traceback, and that keeps the local variables of all the
#   functions on the way. You will run into this one below.
# - *A circle*, objects that refer to each other, waits for Python's collector. That one
#   counts objects, not bytes, so `it may take its time`__.
#
# A notebook adds two more. The value that a cell shows stays in ``Out`` and ``_``. And
# after an error, ``sys.last_exc`` (``sys.last_value`` before Python 3.12) keeps the
# exception. (On a CUDA GPU, a `snapshot`__ shows which line made each block.)
#
# __ https://pytorch.org/blog/understanding-gpu-memory-2/
# __ https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
#
# What does a list of losses keep?
# --------------------------------
#
# The boot camp collects its losses with ``losses.append(loss)``. You will read that
# this keeps every graph, and so fills the GPU. Does it? Here is its loop, and two
# that only look how good a network is, without ``backward()``: a *validation*. What
# should one step add? The loss itself is one number, of 4 bytes. The graph holds what
# each layer computed, one number for each spectrum and output.

graph = 4 * batch * sum(widths[1:])
ways = {
    "training, keep the loss": (4, True, lambda loss: loss),
    "validation, keep the loss": (graph + 4, False, lambda loss: loss),
    "validation, keep loss.item()": (0, False, torch.Tensor.item),
}


def live_bytes(learns, keep, steps):
    kept = []
    with Meter() as meter:
        model, optimizer = make(device)
        x, y = (torch.rand(batch, widths[end], device=device) for end in (0, -1))
        for _ in range(steps):
            loss = F.l1_loss(model(x), y)
            kept.append(keep(loss))
            if learns:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return meter.live()


for way, (predicted, *how) in ways.items():
    grown = live_bytes(*how, steps=6) - live_bytes(*how, steps=5)
    print(f"{way:<28}: predicted {predicted:>9,}, measured {grown:>9,} bytes")

# %%
# The boot camp's loop adds 4 bytes a step (a block of 512 on a GPU). ``backward()``
# drops what the graph kept, so only its skeleton stays, in the computer's own memory.
# The same line in a validation keeps it all. So:
#
# - to collect losses, append ``loss.item()``, and to add them up, write ``total +=
#   loss.item()``. It waits for the GPU, which has a price:
#   :doc:`/tutorials/2_devices/02_queues`. ``loss.detach()`` does not wait;
# - validate under ``torch.no_grad()``, so that no graph is made at all.
#
# One surprise is left. A loss is one number. How many bytes does it hold?

output, target = torch.rand(2, batch, widths[-1], device=device)
for loss_of in (F.l1_loss, F.mse_loss):
    loss = loss_of(output, target)
    print(f"{loss_of.__name__:>8}: {loss.untyped_storage().nbytes():>9,} bytes")

# %%
# If the second shows a million bytes, your PyTorch has `a known bug`__: it hands you
# one number in a storage as large as the whole output. Then ``losses.append(loss)``
# does fill the GPU, and ``detach()`` does not help, as it shares that storage.
# ``.item()`` does.
#
# __ https://github.com/pytorch/pytorch/issues/185647
#
# Running out, and going on
# -------------------------
#
# When memory runs out on CUDA, you get a ``torch.OutOfMemoryError``, which is a
# ``RuntimeError``. (On Apple's GPUs and on the CPU, a plain ``RuntimeError``.) Nothing
# is broken after it: catch it, take a smaller batch, and go on. But the natural way to
# write that is wrong.


def again_inside(batch):
    try:
        return train(model, optimizer, batch, device)
    except torch.OutOfMemoryError:
        return again_inside(batch // 2) if batch > 1 else "nothing"


def again_outside(batch):
    while batch:
        try:
            return train(model, optimizer, batch, device)
        except torch.OutOfMemoryError:
            pass
        batch //= 2
    return "nothing"


for recover in (again_inside, again_outside):
    with Meter(limit=toy) as meter:
        model, optimizer = make(device)
        print(f"{recover.__name__:>13} of the except block: {recover(8000)} fits")

# %%
# The toy card has the same 16 MB for both. But *inside* the ``except`` block the
# exception is alive, and keeps the tensors of the attempt that failed. The next attempt
# has only the rest, its own failure takes more of it, and so on. So leave the block
# first, then try again. `PyTorch's FAQ`__ says the same. (Begin the next attempt with
# ``zero_grad()``. If it was the optimizer that ran out, some weights have moved.)
#
# __ https://docs.pytorch.org/docs/stable/notes/faq.html
#
# Where this stops being true
# ---------------------------
#
# - *The model of the allocator* knows one queue. PyTorch keeps blocks apart for each
#   *stream* (a queue of GPU work), and has settings that change the rules. Apple's GPUs
#   have others.
# - *The meter* does not see what an operation uses inside, such as the workspace of a
#   convolution; ``max_memory_allocated()`` does.
# - *The rehearsal* runs the CPU's way of doing things. On a GPU, Adam's default is to
#   take all weights at once, with temporaries as large as all of them together; here
#   ``foreach=False`` takes one after the other.
# - *Mixed precision* makes many activations half as large, but with ``autocast``
#   weights, gradients and averages keep their 4 bytes.
# - *Shared memory.* Where the GPU is a part of the processor, as on Apple's chips, its
#   memory is the computer's: what the GPU takes, your browser lacks. And on any card,
#   another user may take what ``mem_get_info()`` calls free.
#
# Exercise
# --------
#
# This loop keeps two things of each batch: how good the network is, and the first row
# of what it said. It leaks, in two ways. Mend it without changing what it returns: as
# many losses and rows, with the same values.


def validate(model, batches):
    losses, rows = [], []
    for x, y in batches:
        output = model(x)
        losses.append(F.l1_loss(output, y))
        rows.append(output[0])
    return losses, rows


# %%
# ``check`` runs your function on a small network, on the CPU, once with 3 batches and
# once with 6. It compares the values. The meter counts what is alive after each.


def run(answer, steps):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 50))
    batches = [(torch.rand(101, 20), torch.rand(101, 50)) for _ in range(steps)]
    with Meter() as meter:
        losses, rows = answer(model, batches)
    del model, batches
    return losses, rows, meter.live()


def plain(values):
    return np.array([np.asarray(torch.as_tensor(v).detach()) for v in values])


# %%


def check(answer):
    try:
        less, (losses, rows, more) = run(answer, 3)[2], run(answer, 6)
        got = [plain(values) for values in (losses, rows)]
    except Exception as error:
        return f"your function raised {type(error).__name__}: {error}"
    for name, new, kept in zip(("losses", "rows"), got, run(validate, 6), strict=False):
        if new.shape != plain(kept).shape or not np.allclose(new, plain(kept)):
            return f"{name} are not what they were: keep the same values"
    if (more - less) // 3 <= 8 + 4 * 50:
        return "Right: what stays is what you asked for, and nothing behind it."
    leak = f"each batch still adds {(more - less) // 3:,} bytes: "
    if any(getattr(value, "requires_grad", False) for value in (*losses, *rows)):
        return leak + "something keeps what backward() would need"
    for row in rows:
        if torch.is_tensor(row) and row.untyped_storage().nbytes() > row.nbytes:
            return leak + "a row shares the storage of the whole output"
    return leak + "something else refers to tensors that you no longer need"


print(check(validate))

# %%

# solution


@torch.no_grad()
def validate_solution(model, batches):
    losses, rows = [], []
    for x, y in batches:
        output = model(x)
        losses.append(F.l1_loss(output, y).item())
        rows.append(output[0].clone())
    return losses, rows


print(check(validate_solution))

# %%
# Three lines to remember
# -----------------------

print(f"1. In the run above, nvidia-smi shows {shown:.0f} MiB while tensors hold")
print(f"   {held:.0f}: what PyTorch took, not what you hold.")
print("2. Count first: 16 bytes a parameter, and the activations. A rehearsal on meta")
print(f"   said {rehearsed:,} bytes; the tensors held {max(levels):,}.")
print("3. Memory that does not come back has an owner. Keep numbers and copies:")
print(f"   one loss kept from a validation kept {(graph + 4) / 1e6:.1f} MB.")
