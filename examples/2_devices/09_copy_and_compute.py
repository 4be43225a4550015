"""
Can you copy and compute at the same time?
==========================================

You have four loads of laundry, a washing machine and a dryer. While the first load is
in the dryer, the second one is being washed. But your GPU program may copy all the data
in, compute, and copy the results out: two of its three stages always stand still.

**Guess: if all three steps take equally long, how much faster could four loads be?** By
the end you'll be able to write such a pipeline, to see why it goes wrong so easily, and
to say how many loads it should have.

**Needs:** :doc:`/tutorials/2_devices/08_pinned_memory`. A GPU is
not needed.
"""

# %%
# Look first
# ----------
#
# The figure shows two ways to do the same work. The upper one does everything in one
# load. In the lower one, the data are cut into four *chunks*.

# figure

import matplotlib.pyplot as plt

from firstlight.display import COLOURS

LANES = ("copy in", "compute", "copy out")
fig, axes = plt.subplots(2, sharex=True, figsize=(7.2, 3.9), layout="constrained")
for ax, loads in zip(axes, (1, 4), strict=True):
    wide = 12 / 3 / loads
    for lane, colour in enumerate(COLOURS[: len(LANES)]):
        for load in range(loads):
            left = (load + lane) * wide
            ax.barh(lane, wide, left=left, height=0.7, fc=colour, ec="black")
            ax.text(left + wide / 2, lane, f"{load + 1}", ha="center", va="center")
    ax.set_yticks((0, 1, 2), LANES)
    ax.invert_yaxis()
    ax.set_title(f"chunks: {loads}, turns: {(loads + 2) * wide:.0f}", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
axes[1].set_xlabel("turns")
axes[1].set_xticks((0, 2, 4, 6, 8, 10, 12))
fig.suptitle("In four chunks, the three stages overlap", weight="bold")
fig.set_label(
    "Two Gantt charts with a lane each for copy in, compute, and copy out. In one "
    "chunk, three long bars follow each other and end after 12 turns. In four chunks, "
    "the bars of the three lanes stand one above the other, shifted by one chunk, and "
    "the last one ends after 6 turns."
)
plt.show()

# %%
# In four chunks, the same work takes half the time. At the start the dryer has nothing
# to do, and at the end the washing machine has finished, so you don't get down to a
# third, even with many chunks. A GPU can do three things at once, because its *copy
# engines* fetch and send by themselves, in both directions at the same time, while the
# multiprocessors compute. We call this :term:`overlap`.
#
# An H100 got 268 MB of numbers, took their square roots, and sent these back. In one
# piece, that took :timing:`copy-and-compute median "pipeline/cuda:0/n=1"
# @nvidia-h100-80gb-hbm3`, and in sixteen chunks :timing:`copy-and-compute median
# "pipeline/cuda:0/n=16" @nvidia-h100-80gb-hbm3`. Square roots take next to no time, so
# here the gain is from the two copies, which overlap.
#
# Three queues
# ------------
#
# Why doesn't it happen by itself? Because PyTorch puts everything that you give to a
# GPU into one queue, a :term:`stream`, unless you say otherwise, and the GPU works
# through the queue in order. So we take three streams, one for each stage.
#
# But streams know nothing of each other. Somebody has to say that chunk 2 may only be
# computed when chunk 2 has arrived. Let's first forget to say so. Instead of the GPU's
# streams we take three toys, each a ``ToyStream``, so that everybody can try it. **Will
# the results be right?**

from time import sleep

import numpy as np

from firstlight.timing.toy_stream import ToyStream

copy_in = ToyStream("copy in")
compute = ToyStream("compute", beside=copy_in)
copy_out = ToyStream("copy out", beside=copy_in)
data = np.random.default_rng(seed=1).random(200_003, dtype=np.float32)


def slow_copy(target, source):
    sleep(0.01)  # the way is long
    np.copyto(target, source)


# %%
# Each chunk goes through the three streams, and the next chunk follows at once:


def pipeline(chunks, waits):
    sent, done, result = (np.full_like(data, np.nan) for _ in range(3))
    cut = [np.array_split(array, chunks) for array in (data, sent, done, result)]
    for given, came, rooted, back in zip(*cut, strict=True):
        copy_in.launch(slow_copy, came, given)
        if waits:
            compute.wait_event(copy_in.record())
        compute.launch(np.sqrt, came, rooted)
        if waits:
            copy_out.wait_event(compute.record())
        copy_out.launch(slow_copy, back, rooted)
    for stream in (copy_in, compute, copy_out):
        stream.synchronize()
    return result


exact = np.sqrt(data.astype(np.float64))
for chunks, waits in ((7, False), (7, True), (1, True)):
    right = np.allclose(pipeline(chunks, waits), exact, rtol=2**-23, atol=0)
    words = f"{chunks} chunks, {'with' if waits else 'without'} waiting:"
    print(f"{words:<27}{'right' if right else 'WRONG'}")

# %%
# Without waiting, we took the square root of numbers that hadn't arrived. There was no
# error. On a quiet day the copy may win the race, and then the result is right, until
# you run it on the large data. The remedy is the two lines with ``wait_event``.
# ``record`` puts a mark, an *event*, behind the copy, and ``wait_event`` makes the next
# stream wait for it. Your program goes on, and waits once, at the end.
#
# The same on a GPU
# -----------------
#
# In PyTorch, ``wait_stream`` does both at once. With two streams,
# ``works.wait_stream(comes)`` records an event in ``comes``, and ``works`` waits for
# it. The code runs on NVIDIA's and AMD's GPUs.

import torch

from firstlight import Bench, best_device

device = best_device()
on_cuda = device.type == "cuda"


def gpu_pipeline(chunks, host_in, host_out, comes, works, goes):
    parts = zip(host_in.chunk(chunks), host_out.chunk(chunks), strict=True)
    for source, target in parts:
        with torch.cuda.stream(comes):
            values = source.to(device, non_blocking=True)
        works.wait_stream(comes)
        with torch.cuda.stream(works):
            values.record_stream(works)
            roots = values.sqrt()
        goes.wait_stream(works)
        with torch.cuda.stream(goes):
            roots.record_stream(goes)
            target.copy_(roots, non_blocking=True)
    torch.cuda.synchronize()


# %%
# Two things are easy to forget:
#
# - Both arrays on the host have to be :term:`pinned`. With ordinary memory, the CPU
#   copies before the call returns, so your program waits, and little overlaps.
# - ``record_stream`` tells PyTorch that a second stream uses this memory. Otherwise
#   PyTorch may give it to somebody else as soon as your variable is gone, although the
#   stream has not got to it yet.
#
# How many chunks?
# ----------------
#
# If four chunks are good, are a thousand better? Each copy pays its :term:`latency`.
# With :doc:`latency a and rate b </tutorials/2_devices/04_small_copies>`, a stage takes
# :math:`a + N/(m\,b)` for each chunk, if :math:`N` bytes go in :math:`m` chunks. There
# are :math:`m` turns, and two more until the last chunk is out, so
#
# .. math::
#
#     t(m) = (m + 2) \left( a + \frac{N}{m\,b} \right).
#
# More chunks shrink the second part and grow the first. For example, take 268 MB, a
# latency of 10 µs, which is a typical round number, and the rate that :term:`PCIe` 5
# has on paper. The square root is as good as free, so only the copies count: :math:`m +
# 1` turns instead of :math:`m + 2`. **Where do you expect the best number, below 10,
# around 20, or above 100?**

from firstlight.display import quantity
from firstlight.timing.specs import spec

n = 2**26 + 1  # numbers, of 4 bytes
a, b = 10e-6, spec("PCIe 5 x16", "bandwidth")


def predict(m):
    return (m + 1) * (a + 4 * n / (m * b))


for m in (1, 2, 4, 8, 16, 32, 64, 128, 256):
    gain = predict(1) / predict(m)
    print(f"{m:4} chunks: {quantity(predict(m), 's')}, {gain:.2f} times as fast")

# %%
# By the formula, eight or sixteen chunks gain nearly everything. So you needn't find
# the best number. Any number near the square root of :math:`N/n_{1/2}` will do, where
# :math:`n_{1/2} = a\,b` bytes are copied at half the rate. If :math:`N` is smaller than
# :math:`n_{1/2}`, leave it in one piece. Smaller data want fewer chunks. For example, 4
# MB are sent fastest in two or three chunks, and ten chunks take longer than one.
#
# .. holds::
#
#    a, b = 10e-6, spec("PCIe 5 x16", "bandwidth")
#    t = lambda m: (m + 1) * (a + 4e6 / (m * b))
#    sorted(range(1, 51), key=t)[:2] == [3, 2] and t(10) > t(1)
#
# Did the H100 do what the formula says? In the next figure, the horizontal axis is the
# number of chunks, our :math:`m`, and it's called *n* there.

# folded code: Check and measure the pipeline on a GPU

bench = Bench("copy-and-compute")
if on_cuda:
    host_in = torch.rand(n).pin_memory()
    host_out = torch.empty(n, pin_memory=True)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for m in (1, 2, 4, 8, 16, 32):
        arguments = m, host_in, host_out, *streams
        bench.time("pipeline", gpu_pipeline, *arguments, n=m, device=device)
        assert torch.allclose(host_out.double(), host_in.double().sqrt(), rtol=1e-6)
        host_out.zero_()
bench.plot()

# %%
# We can predict the first point, with a single chunk. :doc:`From pinned memory
# </tutorials/2_devices/08_pinned_memory>`, copying 64 MiB took :timing:`pinned-memory
# median "to the GPU, pinned/cuda:0/n=67108864" @nvidia-h100-80gb-hbm3`. Our data are
# four times as large, and they go there and back. So we expect eight times that time,
# and what we measured is within a few percent of it.
#
# In sixteen chunks, the copies take 17 short turns instead of 2 × 16, so we expected
# little more than half of that time. It took nearer to three fifths. We think that the
# two directions disturb each other, because both go through the memory of the host.
#
# When it isn't worth it
# ----------------------
#
# - *One stage takes nearly all of the time.* If your GPU computes for a minute and
#   copies for a second, you can hide the second, and that's all.
# - *Your data stay on the GPU.* Then there's nothing to hide.
# - *Your GPU has a single copy engine*, as many small ones have. Then the two
#   directions take turns.
#
# And if you train a network? The ``DataLoader`` prepares the next batch while the GPU
# computes. But with a plain ``x.to(device, non_blocking=True)``, the copy of that batch
# stands in the same stream as the computing, so these two take turns. If the
# :doc:`profiler </tutorials/2_devices/14_profile>` shows that it matters, give the copy
# a stream of its own. Write ``for x, y in sent_ahead(loader):``, and give the loader
# ``pin_memory=True``:

from itertools import chain

from torch.utils.data import DataLoader, TensorDataset


def sent_ahead(loader):
    copies, coming = torch.cuda.Stream(), None
    for batch in chain(loader, [None]):
        ready, now = coming, torch.cuda.current_stream()
        if ready:
            now.wait_stream(copies)  # for this batch, not for the one that follows
            for x in ready:
                x.record_stream(now)
        if batch is not None:
            with torch.cuda.stream(copies):
                coming = [x.to(device, non_blocking=True) for x in batch]
        if ready:
            yield ready


# %%

# folded: Check: all batches come, in order
if on_cuda:
    numbers = torch.arange(1003.0)
    loader = DataLoader(TensorDataset(numbers), batch_size=100, pin_memory=True)
    roots = torch.cat([x.sqrt() for (x,) in sent_ahead(loader)])
    assert torch.allclose(roots.cpu(), numbers.sqrt())
    print("all batches came, in order")

# %%
# Your turn
# ---------
#
# Write the pipeline. ``comes``, ``works`` and ``goes`` are three streams.
# ``comes.copy_in(chunk)``, ``works.compute(chunk)`` and ``goes.copy_out(chunk)`` queue
# one stage of a chunk, which takes one turn, and return immediately.
# ``works.wait_stream(comes)`` makes ``works`` wait for all that is in ``comes`` so far,
# and ``stream.synchronize()`` makes your program wait. No chunk may be computed before
# it has arrived, or sent back before it was computed, and :math:`m` chunks should take
# :math:`m + 2` turns.
#
# Put your answer where the dots are, and run ``firstlight try 09_copy_and_compute.py``.


def overlap(chunks, comes, works, goes): ...


# %%

# folded: The streams that the checker uses


class Clocked:
    """A stream that only notes when each stage begins and ends, in turns."""

    def __init__(self, host, ends):
        self.host, self.ends, self.free = host, ends, 0

    def _stage(self, name, before, chunk):
        start = max(self.free, self.host[0])
        if before and not self.ends.get((before, chunk), np.inf) <= start:
            raise RuntimeError(f"the {name} of chunk {chunk} began before its {before}")
        self.free = self.ends[name, chunk] = start + 1

    def copy_in(self, chunk):
        self._stage("copy in", "", chunk)

    def compute(self, chunk):
        self._stage("computing", "copy in", chunk)

    def copy_out(self, chunk):
        self._stage("copy out", "computing", chunk)

    def wait_stream(self, other):
        self.free = max(self.free, other.free)

    def synchronize(self):
        self.host[0] = max(self.host[0], self.free)


# %%

# folded: What the checker tries


def check(answer):
    for count in (4, 1, 0, 9):
        host, ends = [0], {}
        chunks = list(range(1, count + 1))
        try:
            answer(chunks, *(Clocked(host, ends) for _ in range(3)))
        except Exception as error:
            return f"Not yet. With {count} chunks: {type(error).__name__}: {error}."
        out = sum(name == "copy out" for name, _ in ends)
        if out != count:
            return f"Not yet. {out} of {count} chunks came back."
        turns, least = max(ends.values(), default=0), count + 2 if count else 0
        if turns > least:
            return (
                f"Not yet. {count} chunks took {turns} turns, and {least} are enough."
            )
    return "Right: all chunks came back, and the stages overlap."


# %%

print(check(overlap))

# %%
# Three lines to remember
# -----------------------
#
# In the third line, ``n`` is the number of bytes, called :math:`N` above, ``a`` is the
# latency of a copy and ``b`` its rate. The ten and the fifty chunks are for our 268 MB.

# remember

print("""\
1. Cut the data into chunks, and give each stage a stream of its own: one chunk comes in
   while the one before it is computed, and the one before that goes out.
2. Streams don't wait for each other unless you say so: wait_stream before each stage,
   pinned memory on the host, and one wait at the end.
3. Around the square root of n/(a b) chunks are enough; ten do nearly as well as fifty,
   and below a b bytes you should leave the data in one piece.""")

# %%
# Solution
# --------

# solution


def overlap_solution(chunks, comes, works, goes):
    for chunk in chunks:
        comes.copy_in(chunk)
        works.wait_stream(comes)
        works.compute(chunk)
        goes.wait_stream(works)
        goes.copy_out(chunk)


print(f"Our solution: {check(overlap_solution)}")
