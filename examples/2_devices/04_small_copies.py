"""
Why are 4,096 small copies slower than one big one?
===================================================

Your detector has just recorded 4,096 events, and you want to analyse them on a GPU. A
GPU can only work on data that are in its own memory, so the events have to be copied
there first. You could send each event as soon as it arrives, or collect them and send
them all together. Does it matter?

The number of bytes is the same either way, so it seems natural that the time should be
the same as well. Let's find out. By the end of this page you'll be able to answer such
a question *before* you run anything, for any copy on any computer.

**Time:** 11 minutes. **Needs:** any computer, and some PyTorch. With a GPU, your copies
go to the GPU. Without one, they go from one place in your computer's memory to another,
and you compare them with what a real GPU did.
"""

# %%
# Try it
# ------
#
# An event consists of 20 numbers of 4 bytes, a mere 80 bytes. **Before you run the
# cell, write down a guess: how many times as long will the small copies take?**

import torch

from firstlight import Bench, best_device
from firstlight.display import quantity

device = best_device()
events = torch.rand(4096, 20)
there = torch.zeros_like(events, device=device)


def send(parts):
    for place, part in parts:
        place.copy_(part)


def in_copies_of(some):
    return list(zip(there.split(some), events.split(some), strict=True))


trial = Bench("small-copies")
one_by_one = trial.time("1 event a copy", send, in_copies_of(1), device=device)
together = trial.time("4096 events a copy", send, in_copies_of(4096), device=device)
assert torch.equal(there.cpu(), events)

print(f"copies to {device}")
print("one event at a time:", quantity(one_by_one.median, "s"))
print("all events at once: ", quantity(together.median, "s"))
print(f"ratio: {one_by_one.median / together.median:.0f}")

# %%
# On a computer without a GPU, where both copies stay within the memory of the CPU, the
# small ones took :timing:`small-copies median "1 event a copy" @cpu` and the big one
# took :timing:`small-copies median "4096 events a copy" @cpu`, for exactly the same
# bytes.
#
# On an H100, one of NVIDIA's fastest GPUs, the small copies took :timing:`small-copies
# median "1 event a copy" @nvidia-h100-80gb-hbm3` and the big one took
# :timing:`small-copies median "4096 events a copy" @nvidia-h100-80gb-hbm3`. So a fast
# GPU doesn't save you from small copies. It makes them look even worse.
#
# Where did the time go? It can't have gone into moving the bytes, because the big copy
# moves just as many. It must have gone into something that happens once for *every*
# copy, however small it is.
#
# Think of sending books to a friend. The walk to the post office takes ten minutes,
# whether you carry one book or twenty. If you go separately for each book, you'll spend
# the afternoon walking.
#
# A copy also has to walk to the post office. Your program calls PyTorch, PyTorch calls
# the driver, the driver starts the copy, and at the end a message comes back to say
# that the data have arrived. The time for all of this is called the :term:`latency` of
# a copy. The figure shows where it falls.

# figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

from firstlight.display import GREY, ORANGE

fig, ax = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
for row, (copies, load) in enumerate(((8, 0.25), (1, 2.0))):
    for number in range(copies):
        left = number * (1 + load)
        ax.barh(row, 1, left=left, height=0.6, fc="none", ec=GREY, hatch="///")
        ax.barh(row, load, left=left + 1, height=0.6, fc=ORANGE, ec="black")
ax.text(4.2, 1, "the same bytes, and one walk", va="center", size=11)
ax.set_yticks((0, 1), ("8 small copies", "1 big copy"))
ax.set_xticks([])
ax.set_xlabel("time →   (hatched: latency, filled: the bytes move)")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("Every copy pays the latency, however little it carries", weight="bold")
fig.set_label(
    "Two rows of bars over time. Eight small copies: a long hatched bar of latency "
    "before each short filled bar of bytes. One big copy: one hatched bar, then all "
    "bytes in one filled bar. It ends after a third of the time."
)
plt.show()

# %%
# Two numbers describe a copy
# ---------------------------
#
# How could you measure a walk to the post office? Go there with almost nothing in your
# bag. And to see how fast the bytes themselves can flow, send so many that the walk no
# longer matters. So we time copies from 64 bytes to 64 MiB, each a thousand thousand
# times the first:

# folded: The arrays that we copy

import numpy as np

has_gpu, on_cuda = device.type != "cpu", device.type == "cuda"
largest = 2**26
rng = np.random.default_rng(seed=1)
outgoing = rng.integers(256, size=largest, dtype=np.uint8)
copy_ = torch.Tensor.copy_
pageable = torch.from_numpy(outgoing)
ways = {"within the CPU's memory": (copy_, torch.ones_like(pageable), pageable)}
if has_gpu:
    copy_ = torch.Tensor.copy_
    pageable = torch.from_numpy(outgoing)
    on_gpu = torch.ones(largest, dtype=torch.uint8, device=device)
    ways["to the GPU, pageable"] = (copy_, on_gpu, pageable)
    ways["from the GPU, pageable"] = (copy_, torch.ones_like(pageable), on_gpu)

# %%

sizes = 2 ** np.arange(6, 27, 4)
bench = Bench("transfers")
for label, (move, target, source) in ways.items():
    for n in sizes.tolist():
        bench.time(label, move, target[:n], source[:n], n=n)
bench.plot()
