"""
Where did the memory go?
========================

Your training ran for an hour, and then it stopped: ``CUDA out of memory``. You deleted
the model, and ``nvidia-smi`` still shows the card as nearly full. You called
``torch.cuda.empty_cache()``, as the internet says, and the next run stopped at the same
place. Who has all that memory?

**Guess: if nvidia-smi shows that your program has taken a gigabyte, how much of it do
your tensors hold?** By the end you'll be able to say where it all went, to work out
what a training run needs *before* you start it, and to find the line that doesn't let
go.

**Needs:** any computer, and some PyTorch. Without a CUDA GPU, a model of PyTorch's
:term:`allocator` takes its place.
"""

# %%
# Copy this: who holds the GPU's memory?
# --------------------------------------

import torch

if torch.cuda.is_available():
    torch.cuda.reset_peak_memory_stats()
    # ... one step of your training
    free, total = torch.cuda.mem_get_info()
    print("tensors hold      ", torch.cuda.memory_allocated(), "bytes")
    print("at most they held ", torch.cuda.max_memory_allocated())
    print("PyTorch has taken ", torch.cuda.memory_reserved())
    print("nvidia-smi shows  ", total - free)

# %%
# Put a step of your training where the dots are, but not the first, because Adam makes
# its averages only at the end of that one. Our H100 ran no step there, so its first
# three numbers are 0.
#
# In a hurry? Try these in turn:
#
# - Collect ``loss.item()`` or ``loss.detach()`` in your list, never ``loss``. Run the
#   validation under ``with torch.no_grad():``.
# - Halve the batch, and call ``(loss / 2).backward()`` for two batches before each
#   step, which adds up their gradients. Or let ``torch.utils.checkpoint`` compute
#   things twice instead of keeping them.
# - If the error says that a lot is *reserved by PyTorch but unallocated*, start Python
#   with ``PYTORCH_ALLOC_CONF=expandable_segments:True`` in its environment. Before
#   PyTorch 2.9 the variable's name was ``PYTORCH_CUDA_ALLOC_CONF``. On Windows,
#   PyTorch 2.13 doesn't know this setting.
# - If ``nvidia-smi`` lists other programs of *yours*, such as a forgotten notebook, end
#   them. (Xorg is your screen.)
#
# Three meters
# ------------
#
# Why does the snippet print so many numbers? Let's make a very small tensor.

from firstlight import best_device

MIB = 2**20  # nvidia-smi counts in MiB; a MB is a million bytes
device = best_device()
on_cuda = device.type == "cuda"

before = torch.cuda.memory_allocated()
pair = torch.tensor([1.0, 2.0], device=device)
print(f"device {device}: the tensor holds {pair.nbytes} bytes")
more = torch.cuda.memory_allocated() - before
print(f"allocated: {more} more" if on_cuda else "this meter counts on CUDA GPUs only")

# %%
# On an H100, this printed 512. Two numbers take 8 bytes, so who has the other 504?
#
# Think of a tenant who rents whole floors from a landlord, and sublets the rooms. The
# landlord is the :term:`driver`, the tenant is PyTorch, and your tensors live in the
# rooms. The smallest room has 512 bytes. When a tensor moves out, PyTorch keeps on
# renting the floor, because renting anew takes long. So there are three answers to "how
# much memory is in use?", and all of them are right:
#
# - ``memory_allocated()`` counts the rooms that are occupied: *allocated*.
# - ``memory_reserved()`` counts the floors that PyTorch rents: *reserved*. Its older
#   name was ``memory_cached()``, because the empty rooms are called the *cache*.
# - ``nvidia-smi`` sees only what the landlord has let: the floors, CUDA's own need for
#   each program (the *context*), and all other programs.
#
# Is there room for one more?
# ---------------------------
#
# Let's watch the three meters in a longer run. A tensor of 150 MiB and one of 300 live
# on the card, and two small ones. The one of 300 is deleted, and one of 200 moves in.
# Then the one of 150 is deleted, too. **Is there room for 240 MiB?**

# folded: PyTorch's rules for rooms and floors, as a model

# A tensor takes a block, of a multiple of 512 bytes. Blocks are cut from segments,
# which PyTorch gets from the driver: of 2 MiB for blocks up to 1 MiB, of 20 MiB for
# blocks below 10 MiB, and for any other block one of its own, of a multiple of 2 MiB.
# The smallest free block that is large enough is used first. (PyTorch 2.13, in one
# stream: c10/core/AllocatorConfig.h)
segments = []  # each a list of blocks: a size, and the tensor in it or None


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
    rest = room - size
    if rest >= 512 if small else rest > MIB:
        segments[number][place : place + 1] = [[size, name], [rest, None]]
    else:
        segments[number][place][1] = name


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

# folded: Check the model: sizes around every border of the rules

from firstlight.display import show_table

rows = []
sizes = (8, 513, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 33_333_333)
for size, expected in zip(sizes, (2, 2, 2, 20, 20, 10, 32), strict=True):
    segments.clear()
    allocate("tensor", size)
    allocated, reserved = count()
    assert size <= allocated <= reserved == expected * MIB
    rows.append((f"{size:,}", f"{allocated:,}", f"{reserved / MIB:.0f} MiB"))
head = "bytes of a tensor", "allocated", "reserved"
show_table("One tensor alone (by the rules)", head, rows)

# %%

# folded: The steps of the run

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

# %%

# folded: The run, in the model and on your GPU

import numpy as np

from firstlight.display import BLUE, GREY, ORANGE, RED


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


context, measured = 300 * MIB, None  # without a GPU, we assume a context
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

segments.clear()
model = allocate, free, empty_cache, count
modelled = np.array(list(play(story, *model)))
modelled = np.column_stack((modelled, modelled[:, 1] + context))

# %%

# measured figure
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
edges, low = np.arange(len(story) + 1), 0
bands = ((BLUE, ""), (ORANGE, "//"), (GREY, ".."))
for (colour, hatch), high in zip(bands, modelled.T / MIB, strict=True):
    band = {"values": high, "edges": edges, "baseline": low, "fill": True}
    ax.stairs(**band, fc=colour, alpha=0.35)
    ax.stairs(**band, fc="none", ec=colour, hatch=hatch, ls="--", lw=1.5)
    low = high
top = low.max()
for x, y, text in (
    (9, 200, "tensors:\nallocated"),
    (10.6, 1.12 * top, "top edge: in use"),
):
    ax.text(x, y, text, ha="center", va="center")
arrow = {"arrowprops": {"arrowstyle": "->"}, "ha": "center"}
ax.annotate("cache: reserved,\nbut no tensor", (5.5, 410), (1.5, 0.7 * top), **arrow)
ax.annotate("f fits no free block", (8, 640), (5.5, 1.08 * top), **arrow)
ax.annotate("context", (11.5, 0.25 * top), (11.45, 0.95 * top), **arrow)
if measured is not None:
    ax.plot(edges[:-1] + 0.5, measured / MIB, "o", color=RED, ms=5)
names = [label for label, _, _ in story]
ax.set_xticks(edges[:-1] + 0.5, names, rotation=60, ha="right")
what = "Deleting a tensor gives nothing back to the card"
ax.set_title(f"{what} ({'points: measured' if on_cuda else 'model'})")
ax.set(ylabel="MiB", xlim=(0, len(story)), ylim=(0, 1.2 * top))
ax.spines[["top", "right"]].set_visible(False)
fig.set_label(
    "Twelve steps, three meters. Allocated rises and falls with the tensors. Reserved "
    "stays when one is deleted, rises for f although enough lies in the cache, and "
    "falls only when the cache is emptied. The third is reserved and the context."
)
plt.show()

# %%
# Find ``f``, the tensor of 240 MiB. The cell prints the three meters just before it:

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
# On our H100, the tensors held 203 MiB at that moment, PyTorch had taken 472 MiB, and
# 999 were in use on the card, which is about what ``nvidia-smi`` shows. So only a fifth
# of that was in tensors! From 203 to 472, it's PyTorch's empty rooms, and the rest is
# the context and what the driver keeps for itself. The model, which stands in for a GPU
# where there is none, had said 203 and 472 as well.
#
# And ``f``? There were 250 MiB free in the large floors, more than it needs. But they
# were in two pieces, of 150 and 100, and a tensor has to lie in one piece. So PyTorch
# rented one more floor. We say that the memory was :term:`fragmented`. On a full card
# you are then out of memory, although some is free. That's what ``expandable_segments``
# is good for: it lets a floor grow.
#
# Now find ``empty_cache()``, twice in the figure. It gives back the floors in which
# *nobody* lives, and only those. That helps *other* programs, and libraries in yours
# that rent floors of their own, such as CuPy. PyTorch hardly ever gains, because it
# does the same by itself before it says that memory is full, and its next tensor has to
# wait until a floor is rented anew. On the H100, filling a new tensor of 67 MB with
# ones took :timing:`memory median "new tensor" @nvidia-h100-80gb-hbm3`, and with an
# ``empty_cache()`` before each :timing:`memory median "cache emptied"
# @nvidia-h100-80gb-hbm3`. So keep it out of your loops.
#

# folded: What a new tensor costs, and an emptied cache

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
# How large is a context? About 300 MB. Our H100 showed more, because its driver keeps
# some, too. Before CUDA 11.7, it could be 1.7 GB:
#
# .. measured-by-others:: context-rtx3090 context-rtx3090-then context-gtx1080
#
# What will a training run need?
# ------------------------------
#
# For each *parameter* of a network, training keeps four numbers: its value, its
# :term:`gradient`, and two averages that :term:`Adam`, the usual :term:`optimizer`,
# needs. In ``float32`` these are 16 bytes. **How many parameters can you train like
# this on a card of 24 GB, at the very most?**
#
# It's 1.5 billion, and then there is no room for any data. The rest grows with the
# batch: the data themselves, and what each layer computes on the way forward. These
# :term:`activations <activation>` have to stay until the gradients are done.
#
# The figure at the top shows both parts, over two steps of a network that removes the
# noise from spectra. On the way forward the activations pile up. On the way back they
# go, one after the other, and gradients come in their place. Adam makes its averages at
# the end of the first step, and they stay. With a large batch the peak comes at the end
# of the way forward, and with a large network in the optimizer's step.
#
# On PyTorch's device ``"meta"``, tensors have a shape and no memory, so you can
# *rehearse* your training there, and count what it would have needed. Our ``Meter``
# does the counting. For your own script, install the wheel from the zip at the foot of
# this page:
#
# .. code-block:: python
#
#    import torch
#    from torch import nn
#    from firstlight.memory import Meter
#
#    with Meter() as meter:
#        model = nn.Linear(256, 512).to("meta")  # put your network
#        optimizer = torch.optim.Adam(model.parameters())
#        x = torch.rand(1000, 256, device="meta")  # and your batch
#        for _ in range(2):
#            optimizer.zero_grad()
#            model(x).mean().backward()
#            optimizer.step()
#    print(f"{max(meter.levels):,} bytes at the peak")
#
# Here is the network:

from itertools import pairwise

from torch import nn
from torch.nn import functional as F

widths, batch = (256, 512, 512, 256), 1001


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


# %%

# folded: The rehearsal: two steps of the training, under a meter

import math

from firstlight.memory import Meter


def rehearse(batch, device="meta", limit=math.inf, steps=2):
    with Meter(limit) as meter:
        train(*make(device), batch, device, steps)
    return meter.levels


# %%

# folded: The sum by hand, an upper bound


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
        # two gradients of an output, or two of Adam's, each as large as the weights
        "largest temporary": 2 * 4 * max(batch * max(widths[1:]), largest),
    }


# %%
# ``rehearse`` runs two steps under the meter. Then we do the same for real, and
# compare:

if on_cuda:
    rehearse(batch, device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
levels = rehearse(batch, device)

print(f"by hand, at most    {sum(by_hand(batch).values()):,} bytes")
print(f"rehearsed on meta   {max(rehearse(batch)):,}")
print(f"really held         {max(levels):,}, on {device}")
if on_cuda:
    peak = torch.cuda.max_memory_allocated(device) - before
    print(f"PyTorch's own meter {peak:,}")

# %%
# The rehearsal said 17,082,400 bytes, and it was right to the byte, on our CPU and on
# our H100. PyTorch's own meter showed 992 more there, because it counts whole rooms.
# Leave some headroom for a larger network: mixed precision and the libraries for matrix
# products change the sum. So does Adam as PyTorch runs it on a CUDA GPU by default: for
# a moment it holds 4 bytes more for each parameter, 20 in all, which ``meta`` doesn't
# count. With ``foreach=False``, as in our rehearsal, or ``fused=True`` Adam needs no
# more than 16. And which is the largest batch that fits into 16 MB?

from bisect import bisect_right


def largest_batch(free):
    at_most = free // (4 * sum(widths))
    return bisect_right(range(at_most), free, key=lambda n: max(rehearse(n))) - 1


toy = 16_000_000
fitting = largest_batch(toy)
print(f"{fitting} spectra fit; {fitting + 1} need {max(rehearse(fitting + 1)):,} bytes")

# %%
# Memory grows at every step: who doesn't let go?
# -----------------------------------------------
#
# Memory that grows from step to step is a *leak*, and it has an owner, because Python
# frees a tensor as soon as nothing refers to it. Here are two loops that collect the
# loss:
#
# .. code-block:: python
#
#     for x, y in training:
#         loss = loss_of(model(x), y)
#         optimizer.zero_grad()
#         loss.backward()
#         optimizer.step()
#         losses.append(loss)
#
#     for x, y in validation:
#         loss = loss_of(model(x), y)
#         losses.append(loss)
#
# **One of them fills your GPU. Which one?**

# folded: Count what a step adds

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


# %%

rows = []
for way, (predicted, *how) in ways.items():
    grown = live_bytes(*how, steps=6) - live_bytes(*how, steps=5)
    rows.append((way, f"{predicted:,}", f"{grown:,}"))
head = "bytes that a step adds", "predicted", "measured"
show_table("What a list of losses keeps", head, rows)

# %%
# It's the validation. A loss remembers how it was computed: behind it hangs a *graph*
# with the output of every layer, ready for ``backward()``. In the training,
# ``backward()`` comes, and the outputs are let go. But a running sum,
# ``total += loss``, ties all graphs together, and what is left of them fills the
# *computer's* memory. In the validation ``backward()`` never comes, so each step keeps
# five million bytes alive for a four-byte number. The cures are ``loss.item()``, which
# waits for the GPU, ``loss.detach()``, which doesn't, and ``torch.no_grad()`` around
# the whole loop. There are five more owners that nobody thinks of:
#
# - *The optimizer*. If you delete only the model, it still keeps the parameters, their
#   gradients, and Adam's averages, all of the 16 bytes.
# - *A slice.* ``x[:10]`` keeps all of ``x``, because it's a view of the same memory.
#   ``x[:10].clone()`` doesn't.
# - *An exception* keeps the variables of all the functions that it came through.
# - *A notebook* keeps what a cell showed, in ``Out`` and ``_``.
# - *A cycle*, that is, objects that refer to each other. They wait for
#   ``gc.collect()``.
#
# **It grows from run to run**, in a sweep, a grid search or a cross-validation? Make
# each run a function, so that its variables go when it returns, and call
# ``gc.collect()`` after it. If a logger or a trainer still holds the model, start each
# run as a process of its own. When a process ends, all of its memory comes back.
#
# **It grows after several epochs, and nothing leaks?** Then your batches have different
# sizes, such as sentences or images do. Each batch that's larger than all before it
# raises the peak, and what ``nvidia-smi`` shows, because PyTorch keeps what it once
# took. Look at ``torch.cuda.memory_allocated()`` at the end of each step. If it comes
# back to the same value, nobody holds on to anything. So send the largest batch first,
# and you'll know in the first minute whether it fits; pad to a few sizes; and switch on
# ``expandable_segments``, as above.
#
# If you don't find yours, a `memory snapshot`__ shows which line made each tensor. Drop
# its file on `pytorch.org/memory_viz`__, where a leak is a staircase, and each step
# names its line:
#
# .. code-block:: python
#
#     torch.cuda.memory._record_memory_history()
#     ...  # a few steps
#     torch.cuda.memory._dump_snapshot("memory.pickle")
#     torch.cuda.memory._record_memory_history(enabled=None)  # stop recording
#
# __ https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
# __ https://pytorch.org/memory_viz
#
# Out of memory: read the error, and try again
# --------------------------------------------
#
# Let's read one such `message`__ together, from somebody else's card:
#
# __ https://github.com/murong-xu/CADS/issues/4
#
# .. code-block:: text
#
#    CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity of
#    31.47 GiB of which 12.73 GiB is free. Including non-PyTorch memory, this process
#    has 18.73 GiB memory in use. Of the allocated memory 9.08 GiB is allocated by
#    PyTorch, and 9.35 GiB is reserved by PyTorch but unallocated.
#
# Tensors hold 9.08 GiB, empty rooms 9.35, and 12.73 were never rented. The last two are
# free, together 22.08 GiB. The program asked for 22.78, so no setting could have saved
# it. It needs a smaller batch.
#
# Did it ask for *less* than is free, say 8.13 GiB of 8.20? PyTorch looks after the
# failure, and other programs come and go in between. So leave a few hundred MB free.
#
# A second GPU wouldn't have helped, because the memories of several cards don't add up:
# every tensor has to fit on *one*. Mind matrices of all pairs, as in a Gaussian
# process. For n points they take 4n² bytes in float32, and twice that in float64. For
# 100,000 points that's already 40 GB. Compute them in blocks of rows, or with
# `KeOps`__, which never stores them.
#
# __ https://www.kernel-operations.io
#
# There may be no error at all. On Windows, NVIDIA's driver may put the rest into the
# CPU's memory, and your steps take many times as long, unless you switch that off in
# its control panel (*CUDA - Sysmem Fallback Policy*). Where CPU and GPU share one
# memory, the computer may swap, or Linux may end your program. There, set a limit
# first: ``torch.cuda.set_per_process_memory_fraction(0.8)``, on a Mac with
# ``torch.mps`` in place of ``torch.cuda``. On a GB10, ``nvidia-smi`` shows no total,
# only each program's memory, and ``total - free`` counts the CPU's, too.
#
# You can catch the error, and try again with half the batch. After
# ``torch.OutOfMemoryError`` PyTorch still works. Here are two ways to write it. We
# pretend that the card has 16 MB: the meter raises the error above that. **Which way
# works?**


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
        where = recover.__name__.removeprefix("again_")
        print(f"{where} the except block: {recover(8000)} fits")

# %%
# The first one failed all the way down to a batch of one! *Inside* the ``except`` block
# the exception is still alive, and it keeps the tensors of the attempt that failed. So
# leave the block first, as the second function does, and then try again. If it was
# ``optimizer.step()`` that failed, load saved weights, because some may have changed
# already.
#
# Your turn
# ---------
#
# This loop leaks in two ways. Do you see both?


def validate_leaking(model, batches):
    losses, rows = [], []
    for x, y in batches:
        output = model(x)
        losses.append(F.l1_loss(output, y))
        rows.append(output[0])
    return losses, rows


# %%
# Write it so that it returns as many losses and rows, with the same values, and keeps
# nothing else alive. Put your answer where the dots are, and run ``firstlight try
# 10_memory.py``.


def validate(model, batches): ...


# %%

# folded: The checker, which counts what is alive after 3 batches and after 6


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


def check(answer):
    try:
        less, (losses, rows, more) = run(answer, 3)[2], run(answer, 6)
        got = [plain(values) for values in (losses, rows)]
    except Exception as error:
        return f"Not yet. {type(error).__name__}: {error}"
    for name, new, kept in zip(
        ("losses", "rows"), got, run(validate_leaking, 6), strict=False
    ):
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


# %%

print(check(validate))

# %%
# Three lines to remember
# -----------------------
#
# These lines are about PyTorch alone.

# remember

print("""\
1. nvidia-smi shows what PyTorch has taken from the driver, not what your tensors hold.
   empty_cache() gives memory back to other programs, and none to yours.
2. Count before you start: 16 bytes a parameter for training with Adam, and the
   activations. A rehearsal on the device meta adds it all up.
3. Memory that doesn't come back has an owner. Keep numbers and copies, not losses and
   slices, and leave the except block before you try again.""")

# %%
# How the figure at the top was drawn
# -----------------------------------
#
# The meter watches two steps on the device ``meta``, and notes after each operation
# whose memory it is.

# folded: A meter that knows whose memory it is


class Owners(Meter):
    """Notes what weights, gradients, averages and all others hold."""

    def __init__(self):
        super().__init__()
        self.owned, self.training = [], None

    def __torch_dispatch__(self, *operation):
        result = super().__torch_dispatch__(*operation)
        if self.training:
            model, optimizer = self.training
            weights = list(model.parameters())
            kept = [s for one in optimizer.state.values() for s in one.values()]
            kinds = weights, [w.grad for w in weights if w.grad is not None], kept
            held = [sum(t.nbytes for t in kind) for kind in kinds]
            self.owned.append((*held, self.live() - sum(held)))
        return result


# %%

# figure
# sphinx_gallery_thumbnail_number = 2

with Owners() as owners:
    owners.training = make("meta")
    train(*owners.training, batch, "meta")
parts = np.array(owners.owned) / 1e6
names = ("weights", "gradients", "Adam's averages", "batch, activations, temporary")
fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
fills = {"colors": (BLUE, GREY, RED, ORANGE), "step": "post"}
layers = ax.stackplot(range(len(parts)), parts.T, labels=names, **fills)
for layer, hatch in zip(layers, ("", "..", "xx", "//"), strict=True):
    layer.set(hatch=hatch, ec="white", lw=0)
ax.set(xlabel="operation of PyTorch, in two steps", ylabel="MB", xlim=(0, None))
ax.legend(loc="upper left", frameon=False, fontsize=10)
ax.set_ylim(0, 1.35 * (peak := parts.sum(axis=1).max()))
ax.spines[["top", "right"]].set_visible(False)
ax.set_title(f"Two training steps, counted on meta: {peak:.1f} MB at the peak")
fig.set_label(
    "Memory over the operations of two training steps, in four layers. Weights stay "
    "level. Activations pile up on the way forward and fall on the way back, while "
    f"gradients grow. Adam's averages come at the end of the first step. At most "
    f"{peak:.1f} MB."
)
plt.show()

# %%
# Solution
# --------

# solution


@torch.no_grad()
def validate_solution(model, batches):
    losses, rows = [], []
    for x, y in batches:
        output = model(x)
        losses.append(F.l1_loss(output, y).item())
        rows.append(output[0].clone())
    return losses, rows


print(f"Our solution: {check(validate_solution)}")

# %%
# JAX takes 75 % of the GPU's memory, and TensorFlow takes all of it
# ------------------------------------------------------------------
#
# **JAX** rents three quarters of the card at its first operation, however small your
# model is, and its newest versions rent more if they need it. If importing a package
# fills the card, it ran an operation. A second program finds the card full. So before
# you import JAX, tell it to rent less, and in a notebook restart first:
#
# .. code-block:: python
#
#    import os
#
#    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # rent when needed
#    # os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.3"  # or 30 % at once
#    import jax
#
# It still gives nothing back before it ends, so ``nvidia-smi`` shows the most that it
# ever rented. ``XLA_PYTHON_CLIENT_ALLOCATOR=platform`` gives back everything, slowly. A
# large program that has the card for itself should keep its three quarters. Newer
# versions call the fraction ``XLA_CLIENT_MEM_FRACTION`` (`JAX on its memory`__).
#
# How much does your function need? ``jax.devices()[0].memory_stats()`` has
# ``"peak_bytes_in_use"``, on a GPU. *Before* it runs, and on a CPU, too, ask
# ``jax.jit(f).lower(x).compile().memory_analysis()``: ``temp_size_in_bytes`` is what it
# takes besides its arguments and results.
#
# __ https://docs.jax.dev/en/latest/gpu_memory_allocation.html
#
# **TensorFlow** rents nearly all of *every* card that it sees. Before anything else,
# call ``tf.config.experimental.set_memory_growth(gpu, True)`` for each ``gpu`` of
# ``tf.config.list_physical_devices("GPU")``. If the program isn't yours, or makes a
# session of its own, put ``TF_FORCE_GPU_ALLOW_GROWTH=true`` into the environment, and
# hide the other cards by ``CUDA_VISIBLE_DEVICES=0``. For a limit, in MB, write instead
# ``tf.config.set_logical_device_configuration(gpu,
# [tf.config.LogicalDeviceConfiguration(memory_limit=4096)])``. What it has rented, it
# `keeps until it ends`__. So if PyTorch or CuPy comes after it, run the part with
# TensorFlow as a process of its own.
#
# __ https://www.tensorflow.org/guide/gpu
#
# CuPy doesn't give memory back: its pool, a limit, FFT plans
# -----------------------------------------------------------
#
# CuPy keeps its floors as PyTorch does, in a *memory pool*. It takes more than your
# arrays need: a random array or a sort makes others on the way, so 512 MB may take a
# GB. Once nothing refers to your array, this gives back what is empty:
#
# .. code-block:: python
#
#    del x  # and in a notebook, restart: Out and _ keep what a cell showed
#    cupy.fft.config.get_plan_cache().clear()  # FFTs keep room to work in, with a plan
#    cupy.get_default_memory_pool().free_all_blocks()
#    cupy.get_default_pinned_memory_pool().free_all_blocks()  # of the CPU's memory
#
# With a limit (``pool.set_limit(size=…)``, or ``CUPY_GPU_MEMORY_LIMIT="50%"`` in the
# environment) you can be out of memory although ``used_bytes()`` is 0, because empty
# floors count, too (``total_bytes()``). Free them before you make a larger array. For
# no pool at all, call ``cupy.cuda.set_allocator(None)`` first; each array is then
# rented anew, which takes time. What ``nvidia-smi`` still shows is the context, until
# the program ends.
#
# CuPy: a sparse matrix, or any array, that doesn't fit
# -----------------------------------------------------
#
# Count first. In CSR, each number that isn't 0 takes its own bytes and 4 for its
# column, and a product of two such matrices may have far more of them. Then send rows
# in pieces, ``csr_matrix(matrix[i : i + step])``, in ``float32`` if that's enough. And
# look for the line that makes it *dense*: subtracting a mean, adding a number, a
# broadcast, ``.todense()`` or ``.toarray()`` fill in every 0. So don't centre the
# matrix, correct the product: ``matrix @ x - mean @ x``. Or call
# ``cupy.cuda.set_allocator(cupy.cuda.malloc_managed)`` before your first array. Then,
# on Linux, arrays `may be larger than the card`__ (:term:`managed memory`), but
# whatever doesn't fit travels through the bus in each pass. With 2³¹ or more numbers
# that aren't 0, use pieces: up to CuPy 14.2 the `indices overflow`__.
#
# __ https://docs.cupy.dev/en/stable/reference/generated/cupy.cuda.malloc_managed.html
# __ https://github.com/cupy/cupy/issues/9490
#
# An image or volume larger than the GPU: blocks with a border, and what an FFT needs
# -----------------------------------------------------------------------------------
#
# A filter, a convolution or a stencil needs the neighbours of each pixel. So cut the
# volume into blocks, give each a border as wide as the filter reaches, which is half of
# its width, and cut that off again. Without it you see the seams:
#
# .. code-block:: python
#
#    for i in range(0, len(volume), step):
#        first, last = max(i - border, 0), i + step + border
#        there = work(cupy.asarray(volume[first:last]))
#        result[i : i + step] = there[i - first : i - first + step].get()
#
# A deconvolution takes a border as wide as the whole point-spread function, since each
# iteration reaches further. Compare two borders, to see whether yours is enough. Dask
# makes such blocks, too: ``dask.array.map_overlap(work, volume, depth=border)``.
#
# How large may a block be? A convolution by FFT holds the padded block, its spectrum,
# the filter's, their product and the result, each as large as the block. And cuFFT
# needs `room to work in`__, in the worst case eight complex numbers for each of yours.
# A complex ``fftn`` of real numbers takes twice as much as ``rfftn``, and ``float64``
# twice that. So run one small block, look at ``torch.cuda.max_memory_allocated()`` or
# CuPy's ``pool.total_bytes()``, and scale.
#
# __ https://docs.nvidia.com/cuda/cufft/
#
# My GPU's memory is full: which batch size, and does checkpointing help?
# -----------------------------------------------------------------------
#
# No table knows the batch for 24 GB, because it depends on the network. Try it: double
# the batch until two whole steps, with ``optimizer.step()``, no longer fit, and go back
# one. One step isn't enough, because Adam's averages come at its end, and stay. A
# rehearsal on ``"meta"``, above, finds the batch without a card.
#
# Checkpointing (``torch.utils.checkpoint``) drops the activations *inside* a part of
# the network and computes them twice. So it saves nothing if the parameters and Adam's
# averages fill the card, if activations hardly count, or if the parts are single
# layers, since the input of each part is kept. Wrap blocks of several layers, and
# compare ``max_memory_allocated()``, not ``nvidia-smi``.
