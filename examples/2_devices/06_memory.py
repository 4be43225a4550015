"""
Where did the memory go?
========================

You make a tensor of 8 bytes, and PyTorch counts 512. You delete your largest tensor,
and ``nvidia-smi`` shows as much as before. You empty a cache, and nothing changes. You
train for an hour, and then the GPU is full. None of this is a fault, and all of it can
be predicted to the byte. This page does so, on any computer.

**You will learn**

- to read the three meters of a GPU's memory, and which one to trust for what;
- to work out what a training takes, and the largest batch, before you allocate;
- to find who still holds memory that you thought was free;
- to run out of memory, and go on.

**Time:** 25 minutes. **Needs:** any computer, and some PyTorch. Without a CUDA GPU, a
model of PyTorch's allocator takes its place; all the rest is measured.
"""

# %%
# Predict
# -------
#
# To train a network, its memory must hold four numbers for each *parameter* (each
# number that is learned): the parameter itself, its gradient, and two averages that the
# usual optimizer, Adam, keeps. In ``float32`` a number has 4 bytes, so a parameter
# takes 16, before the first sample is loaded. Here is what that leaves on some cards:

from firstlight.measure.specs import spec

MIB = 2**20

for card in ("GTX 1080 Ti", "RTX 4090", "H100 SXM"):
    memory = spec(card, "memory")
    print(f"{card:>11}: at most {memory / 16 / 1e9:.1f} billion parameters")

# %%
# Now write down your answers to these:
#
# - A tensor holds two ``float32`` numbers. How many bytes does PyTorch count for it?
# - You delete a tensor of 300 MiB. What does ``nvidia-smi`` show afterwards?
# - ``torch.cuda.empty_cache()``: does it free a tensor that you no longer need?
#
# (Makers of memory count in MiB, which are 1 048 576 bytes, and so does ``nvidia-smi``.
# A MB is a million bytes.)
#
# Three meters
# ------------
#
# On a CUDA GPU, three numbers answer the question "how much memory is in use?":
#
# - *allocated*, ``torch.cuda.memory_allocated()``: the blocks that tensors hold now;
# - *reserved*, ``torch.cuda.memory_reserved()``: what PyTorch has taken from the
#   driver. It keeps the blocks of deleted tensors to use them again. This store is
#   called the *cache*, and what manages it the *caching allocator*;
# - *in use on the card*, total minus free of ``torch.cuda.mem_get_info()``: what all
#   programs have taken, and what each of them needs to use the GPU at all: its
#   *context*, with the code of the libraries. ``nvidia-smi`` shows this.
#
# (These are the names for NVIDIA and AMD. For Intel's GPUs, the first two stand in
# ``torch.xpu``. For Apple's, they are ``torch.mps.current_allocated_memory()`` and
# ``torch.mps.driver_allocated_memory()``.)
#
# A PyTorch boot camp makes a tensor of two numbers and prints the first meter. It shows
# 512, and the page goes on without a word. Do it again. (The second meter had another
# name when that page was written. Ask for it by the old one, and PyTorch tells you.)

import warnings

import torch

from firstlight import best_device

device = best_device()
on_cuda = device.type == "cuda"
before = torch.cuda.memory_allocated()
pair = torch.tensor([1.0, 2.0], device=device)
print(f"device {device}: the tensor holds {pair.nbytes} bytes")
print(f"PyTorch's meter for CUDA: {torch.cuda.memory_allocated() - before} more")

if hasattr(torch.cuda, "memory_cached"):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.memory_cached()
    print(*(warning.message for warning in told))

# %%
# If you have no CUDA GPU, the meter shows 0. It does not say that no memory is used,
# only that there is nothing for *it* to count. A meter for every device comes below.
#
# The rules
# ---------
#
# The 512 follows from rules that stand as constants in `PyTorch's source`__:
#
# 1. A tensor takes a *block*. Its size is rounded up to a multiple of 512 bytes.
# 2. Blocks are cut from *segments*, which are what PyTorch asks the driver for. A block
#    of at most 1 MiB comes from a segment of 2 MiB, a larger one of less than 10 MiB
#    from a segment of 20 MiB, and any other gets a segment of its own, rounded up to a
#    multiple of 2 MiB.
# 3. The smallest free block that is large enough is used first. What is left over of it
#    stays free, unless it is too little to be worth keeping apart.
# 4. A deleted tensor's block becomes free *in its segment*, and joins free neighbours.
#    The segment stays.
#
# __ https://github.com/pytorch/pytorch/blob/v2.6.0/c10/cuda/CUDACachingAllocator.cpp
#
# That is little enough to write down. A segment is a list of blocks here, and a block
# is a size with the name of the tensor in it, or ``None``.


def round_up(size, step):
    return -(-size // step) * step


def allocate(segments, name, size):
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
        new = 20 * MIB if size < 10 * MIB else round_up(size, 2 * MIB)
        segments.append([[2 * MIB if small else new, None]])
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


def free(segments, name):
    for segment in segments:
        joined = []
        for size, owner in segment:
            owner = None if owner == name else owner
            if joined and owner is None and joined[-1][1] is None:
                joined[-1][0] += size
            else:
                joined.append([size, owner])
        segment[:] = joined


def empty_cache(segments):
    segments[:] = [s for s in segments if any(owner is not None for _, owner in s)]


def count(segments):
    blocks = [block for segment in segments for block in segment]
    allocated = sum(size for size, owner in blocks if owner is not None)
    return allocated, sum(size for size, _ in blocks)


# %%
# Check
# -----
#
# First single tensors, with sizes around every border of the rules. What must be
# reserved for each follows from rule 2.

print(f"{'tensor':>12} {'allocated':>12} {'reserved':>12}   bytes")
sizes = (8, 512, 513, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 33_333_333)
for size, expected in zip(sizes, (2, 2, 2, 2, 20, 20, 10, 32), strict=True):
    segments = []
    allocate(segments, "tensor", size)
    allocated, reserved = count(segments)
    assert size <= allocated <= reserved == expected * MIB
    print(f"{size:>12,} {allocated:>12,} {reserved:>12,}")

# %%
# Two lines are worth a second look. A tensor a little smaller than 10 MiB takes more of
# the card than one of 10 MiB. And the last one is counted with 220 kB more than it has:
# so little would be left of its segment that the rest is not kept apart.
#
# Then a thousand tensors of odd sizes, made and deleted in a random order. At every
# moment, a tensor must have a block that is large enough. In the end, everything must
# be given back.

import random

random.seed(1)
segments, living = [], {}
for name in range(1000):
    living[name] = random.choice((1_001, 300_007, 2_000_003, 30_000_001))
    allocate(segments, name, living[name])
    if len(living) > 40:
        victim = random.choice(list(living))
        free(segments, victim)
        del living[victim]
    blocks = {owner: size for segment in segments for size, owner in segment}
    assert all(blocks[name] >= size for name, size in living.items())
share = sum(living.values()) / count(segments)[1]
for name in living:
    free(segments, name)
empty_cache(segments)
assert count(segments) == (0, 0)
print(f"before the end, tensors held {share:.0%} of what was reserved for them")

# %%
# A run, and its staircase
# ------------------------
#
# Now a run in which every rule matters, step by step. If you have a CUDA GPU, the steps
# are taken on it, and in the model, too. Otherwise in the model alone. (The tensors are
# never filled. On a GPU, unlike on a CPU, memory is yours, and gone for others, as soon
# as you ask for it.)

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


def play(allocate, free, empty_cache, meters):
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
# The third meter needs the size of the context, which no rule gives. A developer of
# PyTorch `puts it`__ at about 300 MB, and more than 1000 MB before CUDA 11.7. It
# depends on the card, the driver, and the libraries that your program uses. The model
# takes 300 MiB, or what your GPU shows.
#
# __ https://github.com/pytorch/pytorch/issues/107667

import gc

import numpy as np

context, measured = 300 * MIB, None
if on_cuda:
    del pair
    gc.collect()
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
    steps = play(allocate_here, tensors.pop, torch.cuda.empty_cache, meters)
    measured = np.array(list(steps))

# %%
# Before you read on, go through the steps yourself. Where does *reserved* rise? There
# are 100 MiB left where ``d`` was when ``e`` has moved in, and 150 where ``c`` was. Is
# there room for ``f``?

segments, holes = [], []


def count_all():
    holes.append([size for s in segments for size, owner in s if owner is None])
    return (*count(segments), count(segments)[1] + context)


modelled = play(
    lambda name, size: allocate(segments, name, size),
    lambda name: free(segments, name),
    lambda: empty_cache(segments),
    count_all,
)
modelled = np.array(list(modelled))
print("MiB, by the model  allocated  reserved  on the card")
for (label, _, _), row in zip(story, modelled / MIB, strict=True):
    print(f"{label:<17}   {row[0]:>9.2f} {row[1]:>9.0f} {row[2]:>9.0f}")

# %%
# The figure shows the same. From the bottom: what tensors hold, what lies in the cache,
# and the context. Dashed is the model. On a CUDA GPU, points are what its meters say.

import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#2f7ed8", "#d9822b", "#8a8f98"
fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
edges, low = np.arange(len(story) + 1), 0
bands = ((BLUE, ""), (ORANGE, "//"), (GREY, ".."))
for (colour, hatch), high in zip(bands, (modelled / MIB).T, strict=True):
    look = {"fc": (colour, 0.35), "ec": colour, "hatch": hatch, "ls": "--", "lw": 1.5}
    ax.stairs(high, edges, baseline=low, fill=True, **look)
    low = high
if measured is not None:
    ax.plot(edges[:-1] + 0.5, measured / MIB, "ko", ms=5)
box = {"ha": "center", "size": 10, "bbox": {"fc": "white", "ec": "none", "pad": 1}}
for x, y, text in ((9, 220, "tensors"), (10.51, 280, "cache"), (6, 600, "context")):
    ax.text(x, y, text, **box)
ax.annotate("f finds no hole", (8, 650), (3.2, 930), arrowprops={"arrowstyle": "->"})
ax.set_xticks(edges[:-1] + 0.5, [label for label, _, _ in story], rotation=90)
title = f"Three meters over one run{'' if on_cuda else ' (a model)'}"
ax.set(title=title, ylabel="MiB", xlim=(0, len(story)), ylim=(0, None))
fig.set_label(
    "Twelve steps, three meters. Allocated rises and falls with the tensors. Reserved "
    "stays when one is deleted, rises for f although enough lies in the cache, and "
    "falls only when the cache is emptied. The third is reserved and the context."
)
plt.show()

# %%
# The two meters at the ends are those that people look at. Neither is what you want to
# know:

f = [label for label, _, _ in story].index("f: 240 MiB")
run_here = modelled if measured is None else measured
held, taken, shown = run_here[f - 1] / MIB
pieces = ", ".join(f"{size / MIB:.0f}" for size in holes[f - 1])
print(f"before f: tensors hold {held:.0f} MiB; nvidia-smi shows {shown:.0f}")
print(f"in the cache: {taken - held:.0f} MiB; by the model, in pieces of {pieces}")
print(f"f asks for 240: reserved rises by {run_here[f, 1] / MIB - taken:.0f}")
if measured is not None:
    worst = np.abs(measured - modelled)[:, :2].max() / MIB
    print(f"on this GPU the model was off by at most {worst:.2f} MiB")

# %%
# - *A deleted tensor's memory stays with PyTorch.* ``nvidia-smi`` shows it as used. For
#   your program it is free, for all others it is gone.
# - *Free is not the same as usable.* The cache held more than ``f`` needs, but in
#   pieces. That is called *fragmentation*. On a full card the program ends here, with
#   memory left. The message then says that much is "reserved by PyTorch but
#   unallocated", and names a cure: set the environment variable
#   ``PYTORCH_ALLOC_CONF=expandable_segments:True`` (before PyTorch 2.9 it is called
#   ``PYTORCH_CUDA_ALLOC_CONF``), and segments can grow and shrink, in steps of 2 MiB.
# - ``empty_cache()`` *gives back segments in which nothing lives.* The first call finds
#   one, where ``c`` was. The 100 MiB behind ``e`` stay: they are a part of a segment.
#
# The `tutorial of MPoL`__ calls ``empty_cache()`` before it moves its vectors, "just
# incase there was any memory left over from an old operation". You see what that does:
# it cannot touch what a tensor holds, and what no tensor holds PyTorch would have used
# again anyway. `Its documentation says so`__: it "doesn't increase the amount of GPU
# memory available for PyTorch". It makes room for *other* programs, and it costs time;
# the measurement below shows how much.
#
# __ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst
# __ https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
#
# A meter for every device
# ------------------------
#
# So what matters is what your tensors hold, and how much of it at the worst moment. You
# can count that on any device, also on the CPU. PyTorch lets Python look at every
# operation. The class below notes each *storage* that an operation returns: the piece
# of memory behind a tensor, which several tensors may share. It notes it with a *weak*
# reference, one that does not keep it alive. So ``live()`` is the sum of those that
# somebody else still holds. The ``limit`` is for later: it turns any device into a
# small card.

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
# Three tensors, two of which share a storage:

with Meter() as meter:
    a = torch.zeros(1_000_003, device=device)
    b = a + 1
    part = b[:10]
    print(f"a, b and a part of b: {meter.live():,} bytes")
    del b
    print(f"without the name b:   {meter.live():,} bytes")

# %%
# The part has 10 numbers, and keeps a million alive. Remember this; it comes back.
#
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
#   twice for a moment, before and after the ``ReLU``. (Or Adam sets the mark, with two
#   temporaries of the size of the largest weight.)

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
print(f"{'together':>20}: {sum(by_hand(batch).values()) / 1e6:6.2f} MB")

# %%
# Not all of this is there at once: while gradients come, activations go. So the sum is
# an upper bound. To be exact, *rehearse*: PyTorch has a device called ``meta``, on
# which tensors have a shape and no memory. The same training step runs on it, and the
# meter counts what it would hold. Two steps, because Adam makes its averages at the end
# of the first: a training that is going to run out often does so in its second step.


def make(device):
    layers = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after, device=device), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    return model, torch.optim.Adam(model.parameters(), foreach=False)


def train(model, optimizer, batch, device, mark=lambda: None):
    x, y = (torch.rand(batch, widths[end], device=device) for end in (0, -1))
    for _ in range(2):
        optimizer.zero_grad()
        mark()
        loss = F.l1_loss(model(x), y)
        mark()
        loss.backward()
        mark()
        optimizer.step()
    return batch


def rehearse(batch, device="meta", limit=math.inf):
    marks = []
    with Meter(limit) as meter:
        model, optimizer = make(device)
        train(model, optimizer, batch, device, lambda: marks.append(len(meter.levels)))
    return meter.levels, marks[-3:]


# %%
# Now for real, on this device. On a CUDA GPU, PyTorch keeps the *peak* itself, the
# highest value of *allocated* since the last reset. (The first run there is not
# counted. In it, the library for matrix products takes a block to work in, its
# *workspace*, and keeps it.)

if on_cuda:
    rehearse(batch, device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
levels, marks = rehearse(batch, device)
bound, rehearsed = sum(by_hand(batch).values()), max(rehearse(batch)[0])
print(f"by hand, an upper bound: {bound:>12,} bytes")
print(f"rehearsed on meta:       {rehearsed:>12,}")
print(f"really held, at most:    {max(levels):>12,}   on {device}")
if on_cuda:
    peak = torch.cuda.max_memory_allocated(device) - before
    print(f"by PyTorch's own meter:  {peak:>12,}")
if device.type == "cpu":
    assert rehearsed == max(levels) <= bound

# %%
# On the CPU, the rehearsal is right to the byte. On a CUDA GPU, PyTorch's own meter
# shows a little more, since it counts blocks, not tensors.
#
# Now look at the second step, operation by operation, and compare with three levels
# that follow from the budget by hand.

budget = by_hand(batch)
steady = budget["weights"] + budget["Adam's two averages"] + budget["the batch"]
expected = {
    "weights, averages, batch": steady / 1e6,
    "and activations": (steady + budget["activations"]) / 1e6,
    "by hand, all together": bound / 1e6,
}
start, *ends = (*marks, len(levels))
step = np.array(levels[start:]) / 1e6
phases = dict(zip(("forward", "backward", "Adam"), np.array(ends) - start, strict=True))

# %%
# The area is what tensors hold, measured. The dashed lines are predicted.

fig, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
ax.stairs(step, fill=True, fc=(BLUE, 0.4), ec=BLUE, lw=1.5)
for text, level in expected.items():
    ax.axhline(level, color=ORANGE, ls="--", lw=1.5)
    ax.text(len(step) - 1, level + 0.1, text, ha="right", size=10)
begin = 0
for text, end in phases.items():
    ax.axvline(end, color=GREY, lw=1)
    ax.text((begin + end) / 2, 0.4, text, ha="center", size=10)
    begin = end
arrow = {"arrowprops": {"arrowstyle": "->"}, "va": "center"}
ax.annotate("the worst moment", (step.argmax(), step.max()), (52, 17.5), **arrow)
ax.set(xlabel="operations of one training step", ylabel="MB held by tensors")
ax.set(xlim=(0, len(step)), ylim=(0, 1.1 * bound / 1e6))
ax.yaxis.get_major_locator().set_params(integer=True)
fig.set_label(
    "Bytes held by tensors over one training step. They climb while the way forward "
    "makes activations, peak on the way back, fall as activations are dropped, and "
    "rise a little when Adam takes its temporaries. The sum by hand lies above it all."
)
plt.show()

# %%
# The way forward ends at the second line, as predicted. Then gradients and activations
# overlap, and the largest temporary comes on top.
#
# The largest batch
# -----------------
#
# Now turn the question round: how many spectra at a time fit into a given memory? A
# rehearsal costs nothing, so try. ``bisect`` finds the last batch whose peak fits. The
# first card is a toy of 16 MB, the second has the memory of the boot camp's. On that,
# the context has to fit as well, so take its number as the most to hope for.

from bisect import bisect_right


def largest_batch(free):
    at_most = free // (4 * sum(widths))
    return bisect_right(range(at_most), free, key=lambda n: max(rehearse(n)[0])) - 1


toy = 16_000_000
fitting = largest_batch(toy)
print(f"a card of 16 MB: {fitting:,} spectra")
memory = int(spec("GTX 1080 Ti", "memory"))
print(f"a GTX 1080 Ti:   {largest_batch(memory):,} spectra")

for tried in (fitting, fitting + 1):
    try:
        rehearse(tried, device, limit=toy)
        print(f"for real, with {tried} spectra: it fits")
    except torch.OutOfMemoryError as error:
        print(f"for real, with {tried} spectra: out of memory; {error}")

# %%
# Most leaks are references
# -------------------------
#
# Python frees a tensor at once when nobody refers to it any more. So memory that does
# not come back is memory that somebody still refers to. Here is who. Each function gets
# a tensor of four million bytes, and keeps something of it. The caller has no name for
# the tensor itself.


def a_part(x):
    return x[:10]


def a_function(x):
    return lambda: x.sum()


def an_exception(x):
    try:
        raise ValueError(f"no use for {len(x)} numbers")
    except ValueError as error:
        return error


def a_result(x):
    weight = torch.ones(1, device=device, requires_grad=True)
    return (weight * x).sum()


def a_circle(x):
    box = [x]
    box.append(box)


# %%
# And the cures for two of them. How much is alive after each?


def a_copy_of_the_part(x):
    return x[:10].clone()


def the_number_of_the_result(x):
    return a_result(x).item()


keepers = a_part, a_copy_of_the_part, a_result, the_number_of_the_result
gc.disable()  # so that Python's collector does not come in between
for keeper in (*keepers, a_function, an_exception, a_circle):
    with Meter() as meter:
        kept = keeper(torch.zeros(1_000_003, device=device))
    print(f"{keeper.__name__:>24}: {meter.live():>9,} bytes alive")
gc.collect()
print(f"{'after gc.collect()':>24}: {meter.live():>9,}")
gc.enable()

# %%
# - *A part* shares the storage of the whole. ``clone()`` copies what you want to keep.
# - *A result* that you could call ``backward()`` on keeps everything that the way back
#   would need: its *graph*. ``.item()`` gives a plain number. ``.detach()`` gives a
#   tensor without the graph.
# - *A function* defined inside another one keeps the variables that it uses.
# - *An exception* keeps its traceback, and that keeps the local variables of all the
#   functions on the way. So an error that you store stores tensors.
# - *A circle* of objects that refer to each other is not freed at once, but when
#   Python's collector comes by. It counts objects, not the bytes that they hold, so it
#   may take its time.
#
# A notebook adds two more. The value that a cell shows stays in ``Out``, ``_`` and
# ``__``. And after an error, ``sys.last_exc`` (``sys.last_value`` before Python 3.12)
# keeps the exception; the next error replaces it. ``del x`` deletes none of these. (On
# a CUDA GPU, a `snapshot`__ shows for each block which line of your program made it.)
#
# __ https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
#
# What does a list of losses keep?
# --------------------------------
#
# The boot camp collects its losses with ``losses.append(loss)``. You will read that
# this keeps every graph, and so fills the GPU. Does it? Here is its loop, and three
# more. A *validation* only looks how good the network is, without ``backward()``.

ways = {
    "training, keep the loss": (True, lambda loss, _: loss),
    "validation, keep the loss": (False, lambda loss, _: loss),
    "validation, keep one row": (False, lambda _, output: output[0].detach()),
    "validation, keep loss.item()": (False, lambda loss, _: loss.item()),
}


def live_bytes(learns, keep, steps=6):
    kept = []
    with Meter() as meter:
        model, optimizer = make(device)
        x, y = (torch.rand(batch, widths[end], device=device) for end in (0, -1))
        for _ in range(steps):
            output = model(x)
            loss = F.l1_loss(output, y)
            kept.append(keep(loss, output))
            if learns:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            yield meter.live()


# %%
# Before you look, predict what one step adds. The loss itself is one number. The graph
# holds what each layer computed. One row of the output holds the whole output.

grown = {way: np.diff(list(live_bytes(*how))) for way, how in ways.items()}
graph = 4 * batch * sum(widths[1:])
predicted = dict(zip(grown, (4, graph + 4, 4 * batch * widths[-1], 0), strict=True))
for way, steps in grown.items():
    print(f"{way:<28} predicted {predicted[way]:>9,}, measured {steps[-1]:>9,} bytes")

fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
for (way, steps), marker in zip(grown.items(), "osd^", strict=True):
    total = np.cumsum([0, *steps]) / 1e6
    number = np.arange(1, len(total) + 1)
    style = {"ms": 12, "mfc": "none"} if marker == "o" else {"ms": 7}
    (drawn,) = ax.plot(number, total, marker, label=way, **style)
    line = predicted[way] * (number - 1) / 1e6
    ax.plot(number, line, "--", color=drawn.get_color(), lw=1.5)
ax.set(xlabel="step", ylabel="MB more than after the first step")
ax.set_title("Points: measured. Dashed: predicted.", size=11)
ax.legend(frameon=False, fontsize=10)
fig.set_label(
    "Live bytes over six steps. Two loops stay flat: training that keeps each loss, "
    "and validation that keeps plain numbers. Two climb along the predicted lines: "
    "validation that keeps the loss, and, less steeply, one that keeps a row."
)
plt.show()

# %%
# The boot camp's loop adds 4 bytes a step (a block of 512 on a GPU). ``backward()``
# drops what the graph kept, so only its skeleton stays, in the computer's own memory.
# The same line in a validation keeps it all. So:
#
# - to collect losses, append ``loss.item()`` (it waits for the GPU; if that is too
#   often, append ``loss.detach()``);
# - to add them up, write ``total += loss.item()``, not ``total += loss``;
# - validate under ``torch.no_grad()``, so that no graph is made at all.
#
# One surprise is left. A loss is one number. How many bytes does it hold?

output, target = torch.rand(2, batch, widths[-1], device=device)
for loss_of in (F.l1_loss, F.huber_loss, F.mse_loss, F.smooth_l1_loss):
    loss = loss_of(output, target)
    print(f"{loss_of.__name__:>14}: {loss.untyped_storage().nbytes():>9,} bytes")

# %%
# If two of them show a million bytes, your PyTorch has `a known bug`__: they hand you
# one number in a storage as large as the whole batch. ``detach()`` shares that storage.
# ``.item()`` does not.
#
# __ https://github.com/pytorch/pytorch/issues/185647
#
# Running out, and going on
# -------------------------
# Ask for a million GiB, and see what your device says.

try:
    torch.empty(2**50, dtype=torch.uint8, device=device)
except RuntimeError as error:
    print(f"{type(error).__name__}: {str(error)[:150]} ...")

# %%
# On CUDA this is a ``torch.OutOfMemoryError``, also called
# ``torch.cuda.OutOfMemoryError``, which is a ``RuntimeError``. (On Apple's GPUs and on
# the CPU it is a plain ``RuntimeError``.) Nothing is broken after it. PyTorch had given
# back its cache and tried again before it told you; to call ``empty_cache()`` is of no
# use now. You can catch the error, take a smaller batch, and go on. The natural way to
# write that is the wrong one.


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
# The toy card has the same 16 MB for both, and you know that 500 spectra fit. But
# *inside* the ``except`` block the exception is alive, and it keeps the tensors of the
# attempt that failed. The next attempt has only the rest, its own failure takes more of
# it, and so on. So leave the block first, then try again. `PyTorch's FAQ`__ says the
# same. (An attempt can fail in the middle of a step. Begin the next one with
# ``zero_grad()``. If it was the optimizer that ran out, some weights have moved.)
#
# __ https://docs.pytorch.org/docs/stable/notes/faq.html
#
# Measure
# -------
#
# Why does PyTorch keep a cache at all? Because to ask for memory costs time. Here a
# vector is filled with ones, in memory that is there already, and in a new tensor each
# time. The least bytes are those written. On a CUDA GPU, a third way empties the cache
# before each tensor, so that PyTorch has to ask the driver.

from firstlight import Bench


def reused(vector):
    vector.fill_(1.0)


def new_tensor(n):
    torch.empty(n, device=device).fill_(1.0)


def cache_emptied(n):
    torch.cuda.empty_cache()
    new_tensor(n)


bench = Bench("memory")
sizes = {"small": 2**14, "large": 2**26 if device.type != "cpu" else 2**24}
for which, n in sizes.items():
    vector = torch.zeros(n, device=device)
    size = {"n": n, "bytes": 4 * n, "device": device}
    bench.time(f"{which}, reused", reused, vector, **size)
    bench.time(f"{which}, new tensor", new_tensor, n, **size)
    if on_cuda:
        bench.time(f"{which}, cache emptied", cache_emptied, n, **size)
bench.show()

# %%
# Divide the rows:

for which in sizes:
    base = bench[f"{which}, reused"].median
    for way in ("new tensor", "cache emptied")[: 1 + on_cuda]:
        ratio = bench[f"{which}, {way}"].median / base
        print(f"{which:>6}, {way}: {ratio:.1f} times the time of one reused")

# %%
# On a CUDA GPU, a new tensor comes out of the cache, and costs little more than a
# reused one. With an emptied cache, each tensor waits for the driver, and for all work
# in the queue as well. That is why ``empty_cache()`` does not belong into a loop.
#
# On a CPU, PyTorch has no cache of its own. The C library keeps small blocks, and
# usually gives large ones back to the operating system. Then each new tensor finds its
# memory anew, page by page, while it is filled:
# :doc:`/tutorials/1_setup/02_first_speedup` meets the same cost.
#
# Where this stops being true
# ---------------------------
#
# - *The model of the allocator* knows one queue. PyTorch keeps blocks apart for each
#   *stream* (a queue of GPU work), and for CUDA graphs. It has settings that change the
#   rules, ``expandable_segments`` first of all. Intel's GPUs follow much the same
#   rules, Apple's have others.
# - *The meter* counts what operations return. What an operation uses inside, such as
#   the workspace of a convolution, it does not see; ``max_memory_allocated`` does.
# - *The rehearsal* runs the CPU's way of doing things. Here Adam takes one weight after
#   the other (``foreach=False``). On a GPU its default is to take all at once, with
#   temporaries as large as all weights together.
# - *Mixed precision* halves activations, not Adam's averages.
# - *Memory that is shared.* On Apple's chips, and wherever the GPU is a part of the
#   processor, its memory is the computer's. What the GPU takes, your browser lacks.
# - *Other programs.* What ``mem_get_info()`` calls free, another user may take before
#   you do.
#
# Exercise
# --------
#
# This loop trains, and keeps two things: after each step, how good the network is now,
# and the first row of what it said. It leaks, twice. Mend it without changing what it
# returns: as many losses and rows, with the same values.


def fit(model, optimizer, batches):
    history, rows = [], []
    for x, y in batches:
        output = model(x)
        optimizer.zero_grad()
        F.l1_loss(output, y).backward()
        optimizer.step()
        history.append(F.l1_loss(model(x), y))
        rows.append(output[0].detach())
    return history, rows


# %%
# ``check`` runs your function on a small network, on the CPU, once with 3 batches and
# once with 6. The meter counts what is alive after each.


def run(answer, steps):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 50))
    optimizer = torch.optim.Adam(model.parameters())
    batches = [(torch.rand(101, 20), torch.rand(101, 50)) for _ in range(steps)]
    with Meter() as meter:
        history, rows = answer(model, optimizer, batches)
    return history, rows, meter.live()


def plain(values):
    return np.array([np.asarray(torch.as_tensor(v).detach()) for v in values])


# %%
# It compares the values, and tells you whether something still leaks, and why.


def check(answer):
    wanted = [plain(values) for values in run(fit, 6)[:2]]
    try:
        less, (history, rows, more) = run(answer, 3)[2], run(answer, 6)
        got = [plain(values) for values in (history, rows)]
    except Exception as error:
        return f"your function raised {type(error).__name__}: {error}"
    for name, new, old in zip(("history", "rows"), got, wanted, strict=True):
        if new.shape != old.shape or not np.allclose(new, old):
            return f"{name} has changed: it needs the same values as before"
    leak = f"each step still adds {(more - less) // 3:,} bytes: "
    if (more - less) // 3 <= 8 + 4 * wanted[1].shape[1]:
        return "Right: what stays is what you asked for, and nothing behind it."
    if any(getattr(loss, "requires_grad", False) for loss in history):
        return leak + "the losses in history keep what backward() would need"
    for row in rows:
        if isinstance(row, torch.Tensor) and (
            (storage := row.untyped_storage().nbytes()) > row.nbytes
        ):
            return f"{leak}a row of {row.nbytes} bytes shares a storage of {storage:,}"
    return f"{leak}something else refers to tensors that you no longer need"


print(check(fit))

# %%

# solution


def fit_solution(model, optimizer, batches):
    history, rows = [], []
    for x, y in batches:
        output = model(x)
        optimizer.zero_grad()
        F.l1_loss(output, y).backward()
        optimizer.step()
        with torch.no_grad():
            history.append(F.l1_loss(model(x), y).item())
        rows.append(output[0].detach().clone())
    return history, rows


print(check(fit_solution))

# %%
# Three lines to remember
# -----------------------

kept = predicted["validation, keep the loss"] / 1e6
source = "model" if measured is None else "meters"
print(f"1. By the {source} above, nvidia-smi shows {shown:.0f} MiB while tensors hold")
print(
    f"   {held:.0f}: what PyTorch took, not what you hold, nor what you can still have."
)
print("2. Count first: 16 bytes a parameter, and the activations. A rehearsal on meta")
print(f"   said {rehearsed:,} bytes; the tensors held {max(levels):,}.")
print("3. Memory that does not come back has an owner. Keep numbers and copies:")
print(f"   one loss kept from a validation kept {kept:.1f} MB.")
