"""
Where did the memory go?
========================

For anyone whose ``nvidia-smi`` and PyTorch disagree, or whose GPU runs
:term:`out of memory`. PyTorch keeps the memory of deleted :term:`tensors <tensor>` in a
cache. So ``nvidia-smi`` shows what PyTorch has taken from the :term:`driver`, not what
your tensors hold, and ``empty_cache()`` gives memory to other programs, not to yours.
You can work out what a training run needs before you start it. Memory that never comes
back nearly always has an owner: something that still refers to it.

**You will learn**

- to read the three meters of a GPU's memory (VRAM);
- what ``empty_cache()`` does, and what it does not;
- to work out the memory of a training run, and the largest batch, beforehand;
- to find what still holds memory, and what to do after it has run out.

**Time:** 14 minutes. **Needs:** any computer, and some PyTorch. Without a CUDA GPU, a
model of PyTorch's :term:`allocator` takes its place; the rest is measured on the CPU.
"""

# %%
# Three meters
# ------------
#
# On a CUDA GPU, three numbers say how much memory is in use:
#
# .. table:: The three meters, from the inside to the outside
#
#    ============  =====================================  =============================
#    meter         where to read it                       what it counts
#    ============  =====================================  =============================
#    *allocated*   ``torch.cuda.memory_allocated()``      what tensors hold now
#    *reserved*    ``torch.cuda.memory_reserved()``       that, and the cache: what
#                                                         PyTorch took from the driver
#    *in use*      ``nvidia-smi``, or total minus free    that, the *context*, and what
#                  of ``torch.cuda.mem_get_info()``       other programs have taken
#    ============  =====================================  =============================
#
# The context is what CUDA itself puts on the card for a program. For a tensor of two
# numbers, the first meter counts 512 bytes:

import numpy as np
import torch

from firstlight import best_device
from firstlight.display import BLUE, GREY, ORANGE, RED, show_table

MIB = 2**20  # nvidia-smi counts in MiB; a MB is a million bytes
device = best_device()
on_cuda = device.type == "cuda"
before = torch.cuda.memory_allocated()
pair = torch.tensor([1.0, 2.0], device=device)
print(f"device {device}: the tensor holds {pair.nbytes} bytes")
more = torch.cuda.memory_allocated() - before
print(f"allocated: {more} more" if on_cuda else "this meter counts on CUDA GPUs only")

# %%
# Predict
# -------
#
# The 512 follows from the rules of PyTorch's *caching allocator*, whose sizes are in
# `a header of PyTorch 2.13`__:
#
# 1. A tensor takes a *block*. Its size is rounded up to a multiple of 512 bytes.
# 2. Blocks are cut from *segments*, which are what PyTorch asks the driver for. A block
#    of at most 1 MiB comes from a segment of 2 MiB, a larger one of less than 10 MiB
#    from a segment of 20 MiB. Any other gets a segment of its own, rounded up to a
#    multiple of 2 MiB.
# 3. The smallest free block that is large enough is used first. The rest of it stays
#    free; in a segment over 2 MiB, a rest of at most 1 MiB goes to the tensor, too.
# 4. The block of a deleted tensor becomes free *in its segment*, and joins free
#    neighbours. The segment stays with PyTorch.
#
# ``empty_cache()`` gives back segments with no tensor in them.
#
# __ https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/AllocatorConfig.h

# folded: PyTorch's allocator, as a model
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
# Check
# -----
#
# One tensor at a time, with sizes around every border of rule 2.

# folded: Sizes around every border

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
# The two numbers above take 2 MiB, in which the next 4095 such tensors find room.
#
# Now a longer run. ``e`` (200 MiB) goes where ``d`` (300) was, and leaves 100;
# ``del c`` leaves 150. ``f`` needs 240. Is there room?

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
# For the context, the model assumes 300 MiB, or takes what your GPU shows.

# folded: The run, in the model and on your GPU


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

segments.clear()
model = allocate, free, empty_cache, count
modelled = np.array(list(play(story, *model)))
modelled = np.column_stack((modelled, modelled[:, 1] + context))

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
edges, low = np.arange(len(story) + 1), 0
bands = ((BLUE, ""), (ORANGE, "//"), (GREY, ".."))
for (colour, hatch), high in zip(bands, modelled.T / MIB, strict=True):
    look = {"fc": (colour, 0.35), "ec": colour, "hatch": hatch, "ls": "--", "lw": 1.5}
    ax.stairs(high, edges, baseline=low, fill=True, **look)
    low = high
for x, y, text in ((9, 200, "tensors:\nallocated"), (10.7, 1010, "top edge: in use")):
    ax.text(x, y, text, ha="center", va="center")
arrow = {"arrowprops": {"arrowstyle": "->"}, "ha": "center"}
ax.annotate("cache: reserved,\nbut no tensor", (5.5, 410), (2.2, 560), **arrow)
ax.annotate("f fits no free block", (8, 640), (3.4, 920), **arrow)
ax.annotate("context", (10.8, 700), (11.65, 520), **arrow)
if measured is not None:
    ax.plot(edges[:-1] + 0.5, measured / MIB, "o", color=RED, ms=5)
names = [label for label, _, _ in story]
ax.set_xticks(edges[:-1] + 0.5, names, rotation=60, ha="right")
what = "Deleting a tensor gives nothing back to the card"
ax.set_title(what if on_cuda else f"{what} (model)")
ax.set(ylabel="MiB", xlim=(0, len(story)), ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
fig.set_label(
    "Twelve steps, three meters. Allocated rises and falls with the tensors. Reserved "
    "stays when one is deleted, rises for f although enough lies in the cache, and "
    "falls only when the cache is emptied. The third is reserved and the context."
)
plt.show()

# %%
# Dashed edges are the model; on a CUDA GPU, points are what it shows. Just before
# ``f``:

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
# - *A deleted tensor's memory stays with PyTorch*, free for your program and taken for
#   all others.
# - *Free memory may not fit.* The cache held more than ``f`` needs, but in
#   pieces: it was :term:`fragmented`. So PyTorch asked the driver for more. On a full
#   card it would first have given back unused segments, here that of ``c``. If that is
#   not enough, you are out of memory while some is free.
# - ``empty_cache()`` *gives back unused segments*, no more. The 100 MiB behind ``e``
#   stay, because they are a part of a segment. It "doesn't increase the amount of GPU
#   memory available for PyTorch", says its `documentation`__.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
#
# Measure
# -------
#
# Asking for memory costs time. Fill a vector with ones, in memory that is there,
# and in a new tensor each time.

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
# On a CPU, PyTorch has no such cache: the pages of a new tensor of this size come from
# the operating system each time. On a CUDA GPU, a new tensor comes out of the cache, so
# expect no such difference until you empty it. To empty it, PyTorch waits for the GPU's
# work, and the next tensor has to come from the driver: ``empty_cache()`` does not
# belong in a loop.
#
# Our model assumes a size for the context. These are contexts that users of PyTorch
# reported of their own cards.
#
# .. measured-by-others:: context-rtx3090 context-rtx3090-then context-gtx1080
#
# What training takes, before you allocate
# ----------------------------------------
#
# Training a network needs four numbers for each *parameter*: its value, its
# :term:`gradient`, and two averages that :term:`Adam`, the usual :term:`optimizer`,
# keeps. In ``float32`` that is 16 bytes, without any data:

from firstlight.timing.specs import spec

for card in ("GTX 1080 Ti", "RTX 4090", "H100 SXM"):
    most = spec(card, "memory") / 16
    print(f"{card:>11}: at most {most / 1e9:.1f} billion parameters")

# %%
# The rest depends on the batch. A small network of three layers removes the noise from
# spectra of 256 channels, 1001 spectra at a time. It also needs:
#
# - the batch: the spectra, and what they should become;
# - the :term:`activations <activation>`: what each layer computes, kept for the
#   gradients;
# - the largest temporary: for a moment, the gradient of the widest layer's output
#   exists twice.

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
        # two gradients of an output, or two of Adam's, each as large as the weights
        "largest temporary": 2 * 4 * max(batch * max(widths[1:]), largest),
    }


# %%
# This sum is an upper bound, because activations are freed while gradients come. To be
# exact, count. ``Meter`` notes each *storage* that an operation returns: the memory
# behind a tensor, which several tensors may share. ``live()`` adds up those that still
# exist, on any device. Above ``limit`` bytes it raises an error, to play a small card.

# folded: A meter that counts storages

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
# On PyTorch's device ``meta``, tensors have a shape and no memory, so you can rehearse
# the training there. Rehearse two steps, because Adam makes its averages at the end of
# the first.


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
# Then train for real. On a CUDA GPU, PyTorch keeps the *peak* of *allocated* itself:

if on_cuda:
    rehearse(batch, device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
levels = rehearse(batch, device)
bound, rehearsed = sum(by_hand(batch).values()), max(rehearse(batch))
budget = by_hand(batch) | {"by hand, an upper bound": bound}
budget |= {"rehearsed on meta": rehearsed, f"really held on {device}": max(levels)}
if on_cuda:
    peak = torch.cuda.max_memory_allocated(device) - before
    budget["by PyTorch's own meter"] = peak
if device.type == "cpu":
    assert rehearsed == max(levels) <= bound
rows = [(what, f"{size:,}") for what, size in budget.items()]
show_table("A budget, and the peak of two steps", ("", "bytes"), rows)

# %%
# On the CPU, the rehearsal is right to the byte. On a GPU, PyTorch's own meter may show
# more, because it counts blocks, and what an operation uses inside.
#
# ``bisect`` finds the largest batch whose rehearsed peak fits, say into a toy card of
# 16 MB. (For your own, start from the free bytes of ``mem_get_info()``.)

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
# Python frees a tensor at once when nothing refers to it. So look for an owner:
#
# - *A part.* A slice such as ``x[:10]`` shares the storage of the whole tensor.
#   ``clone()`` copies what you want to keep.
# - *A result* on which you could call ``backward()`` keeps its *graph*: everything that
#   the backward pass would need. ``.item()`` gives a plain number, ``.detach()`` a
#   tensor without the graph.
# - *An exception* keeps the local variables of all functions on its way.
# - *A cycle*: objects that refer to each other wait for ``gc.collect()``.
# - *A notebook* keeps what a cell shows, in ``Out`` and ``_``, and the last exception.
#
# ``[x.shape for x in gc.get_objects() if torch.is_tensor(x)]`` lists living tensors;
# on a CUDA GPU, a `snapshot`__ shows which line made each block.
#
# Does ``losses.append(loss)`` keep every graph, and so fill the GPU? Here is a training
# loop with it, and two *validation* loops, which only measure the loss, without
# ``backward()``. A loss is one number of 4 bytes; a graph holds each layer's output.
#
# __ https://docs.pytorch.org/docs/stable/torch_cuda_memory.html

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
# Training adds 4 bytes a step (a block of 512 on a GPU), because ``backward()`` frees
# what the graph kept. The same line in validation keeps it all. So append
# ``loss.item()``, which waits for the GPU (:doc:`/tutorials/2_devices/06_queues`), or
# ``loss.detach()``, which does not. And validate under ``torch.no_grad()``, which makes
# no graph.
#
# Running out, and going on
# -------------------------
#
# This `message`__ of a CUDA GPU tells what to do first:
#
# __ https://github.com/murong-xu/CADS/issues/4

import re

message = """CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity
of 31.47 GiB of which 12.73 GiB is free. Including non-PyTorch memory, this process has
18.73 GiB memory in use. Of the allocated memory 9.08 GiB is allocated by PyTorch, and
9.35 GiB is reserved by PyTorch but unallocated."""
found = [float(number) for number in re.findall(r"([\d.]+) GiB", message)]
asked, total, unused, process, tensors, cache = found
parts = {
    "asked for": asked,
    "free": unused,
    "the cache": cache,
    "tensors": tensors,
    "context, libraries": process - tensors - cache,
    "other programs": total - unused - process,
}
rows = [(part, f"{size:.2f}") for part, size in parts.items()]
show_table("The message, sorted", ("", "GiB"), rows)
fits = "fit" if asked <= unused + cache else "do not fit"
print(f"{asked} GiB {fits} into what is free and the cache together")

# %%
# So no setting of PyTorch could have helped. What can, the cheapest first:
#
# 1. *Other programs* hold much: end them.
# 2. *Tensors* hold more than you worked out: look for owners.
# 3. *The cache* is large, and the request would fit with it: set the environment
#    variable ``PYTORCH_ALLOC_CONF`` (formerly ``PYTORCH_CUDA_ALLOC_CONF``) to
#    ``expandable_segments:True``, so that segments can grow.
# 4. *Take smaller batches*, and add up the gradients of several before a step.
# 5. *Compute activations again*, with ``torch.utils.checkpoint``.
#
# After ``torch.OutOfMemoryError``, PyTorch still works. (Apple's GPUs raise a plain
# ``RuntimeError``.) If ``optimizer.step()`` failed, some weights may have changed: load
# saved ones. The natural way to try again is wrong:


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
# *Inside* the ``except`` block the exception is alive, and keeps the tensors of the
# attempt that failed. Leave the block first, then try again, as `PyTorch's FAQ`__ says.
#
# __ https://docs.pytorch.org/docs/stable/notes/faq.html
#
# Where this stops being true
# ---------------------------
#
# - *The model of the allocator* knows one CUDA :term:`stream`. PyTorch keeps blocks
#   apart for each, and settings and versions change the rules.
# - *The rehearsal* runs the CPU's operations. On a GPU, Adam's default takes all
#   weights at once, with larger temporaries; ``foreach=False`` takes one after another.
# - :term:`Mixed precision <mixed precision>` halves many activations, but no weights,
#   gradients or averages.
# - *Libraries* keep memory that no tensor of yours owns: for matrix products, cuBLAS
#   has a `workspace`__ that counts as allocated.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#cublas-workspaces
#
# Exercise
# --------
#
# This loop leaks in two ways. Repair it, and return as many losses and rows, with the
# same values.


def validate(model, batches):
    losses, rows = [], []
    for x, y in batches:
        output = model(x)
        losses.append(F.l1_loss(output, y))
        rows.append(output[0])
    return losses, rows


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


# %%

print(check(validate))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. {"In the model" if measured is None else "On this GPU"}, nvidia-smi shows \
{shown:.0f} MiB while tensors hold
{held:.0f}: it counts what PyTorch took, not what you hold.
2. Count first: 16 bytes a parameter, and the activations. A rehearsal on meta
said {rehearsed:,} bytes; on the {device.type}, tensors held {max(levels):,}.
3. Memory that does not come back has an owner. Keep numbers and copies:
one loss kept from a validation kept {(graph + 4) / 1e6:.1f} MB."""
)

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
