"""
What does a trip to the GPU cost?
=================================

A GPU works on what is in its own memory. Your data start in the computer's memory. So
they have to travel, and the results have to come back. `A well-known textbook`__ warns
that this "is slow", and that "many small operations are much worse than one big
operation". Both are true, and neither helps you to plan. How slow? How big? Two
numbers answer both questions, and this page measures them on your machine.

__ https://github.com/d2l-ai/d2l-en/blob/02c6a2a15fe79c6e63a0fc58368bfffca94df554/chapter_builders-guide/use-gpu.md

**You will learn**

- to predict the time of a copy from two numbers, and to fit them to your machine;
- when you pay for the trip and when for the bytes, and what a bigger batch is worth;
- what fresh, pageable and pinned memory are, and when pinning costs more than it saves;
- to overlap copies with work, and not to read a result before it is there.

**Time:** 25 minutes. **Needs:** any computer. With a GPU, the page measures the way to
it. Without one, it measures other trips that follow the same law, and calls them what
they are.
"""

# %%
# Predict
# -------
#
# Think of a van. Each trip takes the time of the drive, even with an empty van. Each
# box takes time to load. A copy is the same: the time for :math:`n` bytes is
#
# .. math::
#
#     t = a + \frac{n}{b}.
#
# - :math:`a`, the *latency*, is the drive: the call, the driver, the way there, and the
#   word back that it is done. You pay it for every trip, for one byte as for a million.
# - :math:`b`, the *bandwidth*, is the loading: bytes a second, once they flow.
#
# The two parts are equal when :math:`n = a\,b`. This size has a name, the
# *half-bandwidth size* :math:`n_{1/2}`, because a trip with so many bytes reaches half
# of :math:`b`. Far below it, you pay for the trip, and the bytes come along for
# nothing. Far above it, you pay for the bytes, and the trip hardly counts.
#
# Most graphics cards sit in a slot called *PCI Express*, and its specification gives
# :math:`b`. No paper gives :math:`a`: that is why you will measure it. But you can see
# what is at stake. For each microsecond of :math:`a`, :math:`n_{1/2}` is as many bytes
# as the slot carries in a microsecond:

from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity

slots = ("PCIe 3 x16", "PCIe 4 x16", "PCIe 5 x16")
links = {slot: spec(slot, "bandwidth") for slot in slots}

for link, b in links.items():
    share = b / spec("H100 SXM", "bandwidth")
    print(f"{link}: {quantity(b, 'B/s')}, {quantity(1e-6 * b, 'B')} in 1 µs;")
    print(f"    {share:.1%} of what an H100's own memory delivers")

# %%
# The percentage says what "slow" means. The slot is not slow as such. It is slow next
# to the memory that the GPU has for itself. So a GPU pays when data stay there for many
# operations.
#
# `An early tutorial of MPoL`__ times the addition of two vectors of 99 million numbers
# on a GPU, and leaves the way there and back out. How much did it leave out? The cards
# that it names fit a slot of version 3. (What else is odd about that number has a page
# of its own: :doc:`/tutorials/1_setup/02_first_speedup`.)
#
# __ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

reported = 3.1e-3  # seconds, by the tutorial
way = 3 * 4 * 99_000_000 / links["PCIe 3 x16"]  # two vectors there, one back
print(f"the way there and back: at least {quantity(way, 's')} (a model)")
print(f"that is {way / reported:.0f} times what the tutorial reports for the sum")

# %%
# The trips
# ---------
#
# Two trips work on any computer. They are no trips to a GPU, but they show the same
# law:
#
# - *A copy in memory*, from one place to another, by one core of the CPU.
# - *Through a pipe.* A pipe is how programs send bytes to each other. The operating
#   system copies what is written into a small buffer of its own, and from there to the
#   reader. So every byte is copied twice, piece by piece. Keep this in mind; you will
#   meet it again. Here one program writes and reads in turn, 4096 bytes at a time,
#   which is what any pipe can hold.
#
# With a GPU there are more: there and back, each with ordinary memory and with *pinned*
# memory, which is explained below (CUDA and ROCm only). PyTorch's ``copy_`` waits until
# the bytes have arrived, unless you ask it not to.

import io
import os

import numpy as np
import torch

from firstlight import Bench, best_device

device = best_device()
has_gpu, on_cuda = device.type != "cpu", device.type == "cuda"

largest = 2**26
rng = np.random.default_rng(seed=1)
here = rng.integers(256, size=largest, dtype=np.uint8)
there = np.ones_like(here)

far_end, near_end = os.pipe()
reader = io.FileIO(far_end, closefd=False)


def through_pipe(target, source):
    for low in range(0, source.size, 4096):
        os.write(near_end, source[low : low + 4096])
        reader.readinto(target[low : low + 4096])


# %%
# Each way is a function, where the bytes go, and where they come from:

ways = {
    "copy in memory": (np.copyto, there, here),
    "through a pipe": (through_pipe, np.ones_like(here), here),
}
if has_gpu:
    copy_ = torch.Tensor.copy_
    pageable = torch.from_numpy(here)
    on_gpu = torch.ones(largest, dtype=torch.uint8, device=device)
    ways["to the GPU, pageable"] = (copy_, on_gpu, pageable)
    ways["from the GPU, pageable"] = (copy_, torch.ones_like(pageable), on_gpu)
if on_cuda:
    pinned = pageable.pin_memory()
    landing = torch.ones(largest, dtype=torch.uint8, pin_memory=True)
    ways["to the GPU, pinned"] = (copy_, torch.ones_like(on_gpu), pinned)
    ways["from the GPU, pinned"] = (copy_, landing, on_gpu)

the_trip = "to the GPU, pageable" if has_gpu else "through a pipe"
print(f"device: {device}; the trip of this page: {the_trip}")

# %%
# Next, a function that finds :math:`a` and :math:`b` from measured times. It is a
# straight line through points, but the usual fit is no good. The times will differ by
# factors of thousands. Ordinary least squares makes *absolute* errors small, so it
# looks at the longest times only, and :math:`a` comes out as anything, also below zero.
# Look at *factors* instead. The law is :math:`t = a\,(1 + n/n_{1/2})`. Try many values
# of :math:`n_{1/2}`. With each, every measured time gives its own :math:`a`. Take the
# :math:`n_{1/2}` with which they agree best.


def fit(sizes, times):
    halves = np.geomspace(sizes[0], sizes[-1], 20_001)
    log_a = np.log(times / (1 + sizes / halves[:, None]))
    best = np.argmin(log_a.var(axis=1))
    a = np.exp(log_a[best].mean())
    return a, halves[best] / a


# %%
# Check
# -----
#
# A trip is right if every byte arrives, also of an odd number of bytes. A fit is right
# if it gives back the two numbers that times were made from.

n = 1_000_003
for label, (move, target, source) in ways.items():
    move(target[:n], source[:n])
    arrived, sent = (torch.as_tensor(side[:n]).cpu() for side in (target, source))
    assert torch.equal(arrived, sent), f"{label}: not what was sent"
    print(f"{label}: {n:,} bytes, all as they were sent")

sizes = 2 ** np.arange(6, 27, 4)
a, b = fit(sizes, 3e-5 + sizes / 2e9)
print(f"the fit gives back {quantity(a, 's')} and {quantity(b, 'B/s')}")
assert np.allclose((a, b), (3e-5, 2e9), rtol=1e-3)

# %%
# Measure
# -------
#
# Six sizes, from 64 bytes to 64 MiB, each way. Here ``n`` is the number of bytes. Both
# axes are logarithmic: equal steps are equal factors.

bench = Bench("transfers")
for label, (move, target, source) in ways.items():
    for n in sizes.tolist():
        bench.time(label, move, target[:n], source[:n], n=n)
bench.plot()

# %%
# Each curve starts nearly flat. There the bytes grow and the time does not: that is
# :math:`a`. At the right the time grows with the bytes: that is :math:`b`. Here are the
# fits, and beside them how far the worst point is from its line:


def times_of(label):
    return np.array([t.median for t in bench.timings if t.label == label])


fits = {label: fit(sizes, times_of(label)) for label in ways}
misfits = {}
for label, (a, b) in fits.items():
    off = (a + sizes / b) / times_of(label)
    misfits[label] = np.exp(np.abs(np.log(off)).max())
    print(f"{label}: a = {quantity(a, 's')}, b = {quantity(b, 'B/s')},")
    print(f"    n½ = {quantity(a * b, 'B')}; worst point off", end=" ")
    print(f"by a factor of {misfits[label]:.2f}")

per_byte, plain_a = np.polyfit(sizes, times_of(the_trip), 1)
print(f"\nordinary least squares, {the_trip}: a = {1e6 * plain_a:.1f} µs")
print(f"64 bytes {the_trip} took {1e6 * times_of(the_trip)[0]:.1f} µs")

# %%
# The last two lines compare what ordinary least squares makes of the same points with
# what a nearly empty trip really took. It only looked at the largest sizes.
#
# Now draw the law through the points. Each way gets a colour and a marker, and the axes
# get units:

import matplotlib.pyplot as plt

colours = ["#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a"]
looks = dict(zip(ways, zip(colours, "os^vPX", strict=True), strict=False))
seconds = plt.FuncFormatter(lambda t, _: quantity(t, "s", digits=1))
in_bytes = plt.FuncFormatter(lambda n, _: quantity(n, "B", digits=1))

# %%
# Filled marks are measured, lines are the fits, an open diamond is :math:`n_{1/2}`.
# Dashed are the models: what the slots would need for the bytes alone, with nothing for
# the trip.

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
fine = np.geomspace(sizes[0], sizes[-1], 200)
for label, (a, b) in fits.items():
    colour, marker = looks[label]
    ax.plot(sizes, times_of(label), marker, color=colour, label=label)
    ax.plot(fine, a + fine / b, color=colour, lw=1)
    ax.plot(a * b, 2 * a, "D", color=colour, ms=12, mfc="none", mew=2)
for link, b in links.items():
    name = "models: PCIe 3, 4, 5 x16 (downwards)" if link == "PCIe 3 x16" else ""
    ax.plot(fine, fine / b, "--", color="#808890", lw=1.2, label=name)
ax.set(xscale="log", yscale="log", ylim=(1e-7, 3 * times_of(the_trip).max()))
ax.set(xlabel="bytes in one trip (diamond: n½)", ylabel="time of the trip")
ax.xaxis.set_major_formatter(in_bytes)
ax.yaxis.set_major_formatter(seconds)
fig.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=2)
a, b = fits[the_trip]
fig.set_label(
    "Time of a trip over its bytes, both axes logarithmic. Each way is flat first and "
    f"then rises in proportion. {the_trip.capitalize()}, it is flat at "
    f"{quantity(a, 's')} and bends near {quantity(a * b, 'B')}, where its diamond is."
)
plt.show()

# %%
# That is the law. *Left of its diamond a line is flat: you pay for the trip. Right of
# it the line rises: you pay for the bytes.*
#
# And where does it fail? See how far the worst points are off. The copy in memory has
# not one bandwidth but several: small arrays stay in the caches, the small and fast
# memories inside the processor, and the largest does not fit into them. No single
# :math:`b` describes that. A slot has no cache.
#
# Many small trips or one big one
# -------------------------------
#
# Now use the law. A detector has seen 4096 events, and notes 20 ``float32`` numbers of
# each. You send them in :math:`m` trips. Each trip costs :math:`a`, and the bytes are
# the same in any case. So the prediction, *before* anything is measured, is
# :math:`t = m\,a + n/b`.

events, event = 4096, 20 * 4
n = events * event
a, b = fits[the_trip]
per_trip = np.array([1, 8, 64, 512, 4096])
trips = events // per_trip
predicted = trips * a + n / b

for some, time, share in zip(per_trip, predicted, trips * a / predicted, strict=True):
    print(f"{some:4} a trip: {quantity(time, 's')}, {share:.0%} of it for the trips")

# %%
# Then measure. The slices are cut beforehand, so that only the trips are timed.

from firstlight.measure.timing import measure

move, target, source = ways[the_trip]


def send(pieces):
    for piece in pieces:
        move(*piece)


met = []
for some in per_trip.tolist():
    parts = [slice(low, low + some * event) for low in range(0, n, some * event)]
    pieces = [(target[part], source[part]) for part in parts]
    met.append(measure(send, pieces, budget=0.3).median)

gain, gain_met = predicted[0] / predicted[-1], met[0] / met[-1]
print(f"one trip in place of {events}: predicted {gain:.1f} times as fast,", end=" ")
print(f"met {gain_met:.1f}")

# %%
# The dashed line was drawn from two numbers, fitted to other trips of other sizes.

fig, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
ax.plot(per_trip, predicted, "--", color="#808890", label="predicted: m a + n / b")
ax.plot(per_trip, met, "o", color="#2f7ed8", ms=8, label=f"measured, {the_trip}")
ax.axhline(n / b, ls=":", color="#808890", label="predicted: the bytes alone")
ax.set(xscale="log", yscale="log", xlabel=f"events in one trip (of {events})")
ax.set(ylabel="time for all events", ylim=(0.4 * n / b, 3 * max(*met, predicted[0])))
ax.set_xticks(per_trip, per_trip)
ax.minorticks_off()
ax.yaxis.set_major_formatter(seconds)
ax.legend(frameon=False, fontsize=9)
fig.set_label(
    f"Time to send {events} events over the events in one trip. Measured points fall "
    "towards the time of the bytes alone, along a dashed line that was predicted. One "
    f"trip in place of {events} was predicted to be {gain:.1f} times as fast; it was "
    f"{gain_met:.1f} times."
)
plt.show()

# %%
# So "batch your transfers" has a measure. Once a trip carries several times
# :math:`n_{1/2}`, a bigger batch saves nothing more.
#
# You may be told to vary the batch size of a training, to see what part of the time
# goes into moving data. That shows only what depends on the batch, the share of
# :math:`a`. The bytes of a sample cost the same in every batch. With :math:`a` and
# :math:`b` you can work the part out. Without them, no batch size will tell you.
#
# Fresh memory is only a promise
# ------------------------------
#
# A copy also needs a place to arrive. When a program asks for memory, the operating
# system only promises it. Memory is handed out in *pages*, of a few kilobytes each. A
# page is found when the program first writes to it. This interruption is called a *page
# fault*. Predict: how many faults does it take to fill 64 MiB of fresh memory? As many
# as there are pages. (Windows does not count them in this way. Where the system uses
# larger pages, there are fewer.)

import mmap

try:
    import resource
except ImportError:  # on Windows
    resource = None


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0


counts = [page_faults()]
fresh = torch.empty(largest, dtype=torch.uint8)
counts.append(page_faults())
for value in (1, 2):
    fresh.fill_(value)
    counts.append(page_faults())

asked, first, again = np.diff(counts)
print(f"predicted: {largest // mmap.PAGESIZE:,} pages of {mmap.PAGESIZE:,} bytes")
print(f"page faults: asking {asked:,}, first writing {first:,}, again {again:,}")

# %%
# Each fault is a trip of its own, into the operating system and back. What do they add
# up to? The same write, to new memory each time, and to memory that is there:


def fill_new():
    torch.empty(largest, dtype=torch.uint8).fill_(1)


new = measure(fill_new, budget=0.5).median
old = measure(fresh.fill_, 1, budget=0.3).median
touch = new / old
print(f"new memory {quantity(new, 's')}, memory in use {quantity(old, 's')}")
print(f"first touch makes this write take {touch:.1f} times as long")

# %%
# ``x.cpu()`` and ``x.to("cpu")`` make new memory for the result, at every call. In a
# loop, keep one array and copy into it: ``kept.copy_(x)``. If you time one call of
# ``x.cpu()``, you time the faults, too.
#
# Pageable and pinned
# -------------------
#
# The operating system may move a page, or put it onto the disk, whenever it likes. Your
# program does not notice, since its addresses are translated at each access. But a GPU
# fetches data by itself, from the real addresses, while the CPU does other work. (This
# is called *direct memory access*, DMA.) It cannot use a page that may move meanwhile.
#
# So for ordinary memory, called *pageable*, the driver makes a detour. It copies your
# bytes piece by piece into a buffer that must not move, and the GPU fetches them from
# there. That is the pipe from above: every byte is copied twice, and a core of the CPU
# is busy with it. *Pinned* (or page-locked) memory is memory that the operating system
# has agreed not to move. From there, the GPU fetches directly. Two things follow: the
# copy may reach the :math:`b` of the slot, and it needs no CPU, so it can go on while
# your program does something else.
#
# In PyTorch, ``x.pin_memory()`` gives a pinned *copy* of ``x``, and
# ``torch.empty(n, pin_memory=True)`` new pinned memory. Many programs have this line in
# their loop: ``x.pin_memory().to(device, non_blocking=True)``. PyTorch's own
# `guide to pinning`__ says that it can be much slower than the plain ``x.to(device)``.
# Why? Either way, the CPU copies every byte once. The plain call copies into a small
# buffer that is there already. Pinning copies everything first, and at first into fresh
# memory. Only then does the trip begin. What that copy costs, you can measure without a
# GPU, and compare with the trip that it is to make shorter:
#
# __ https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html

x = torch.from_numpy(here)
to_fresh = measure(x.clone, budget=0.5).median
to_kept = measure(fresh.copy_, x, budget=0.3).median

print(f"a copy of 64 MiB into fresh memory: {quantity(to_fresh, 's')}, on this CPU")
print(f"a copy of 64 MiB into kept memory:  {quantity(to_kept, 's')}, on this CPU")
for link, b in links.items():
    print(f"the trip itself, {link}:        {quantity(largest / b, 's')}, a model")

# %%
# PyTorch keeps pinned memory for its next ``pin_memory()``. So the first call costs at
# least the fresh copy, and later ones the other. What it can save is the difference
# between a pageable and a pinned trip, not more. With a CUDA GPU, here is the test.
# Each call waits until the data are there:


def pin_each_time():
    x.pin_memory().to(device, non_blocking=True)
    torch.cuda.synchronize()


def pinned_before():
    pinned.to(device, non_blocking=True)
    torch.cuda.synchronize()


if on_cuda:
    pinning = {"plain .to()": lambda: x.to(device), "pinned before": pinned_before}
    pinning["pinned in the loop"] = pin_each_time
    for name, call in pinning.items():
        time = measure(call, device=device, budget=0.5).median
        print(f"{name}: {quantity(time, 's')} for {quantity(largest, 'B')}")
else:
    print("No CUDA GPU here: this cell measured nothing.")

# %%
# - Pin once, before the loop, the memory that many trips use.
# - A ``DataLoader`` with ``pin_memory=True`` pins in a thread of its own. The copy is
#   paid there, beside your loop.
# - Do not pin everything. What is pinned is taken from all other programs.
#
# When ``non_blocking=True`` is unsafe
# ------------------------------------
#
# From pinned memory, ``to(device, non_blocking=True)`` puts the copy into the GPU's
# queue and returns before a byte has moved. What you launch later on the same stream
# comes after it in the queue, so *the GPU* finds the data in place. *Your program* has
# no such protection. It can go wrong in both directions.
#
# Here the queue is a toy, ``ToyStream``: a thread of the CPU that does what is put into
# its queue, in order. ``launch`` puts a call there and returns at once, as a launch on
# a GPU does. (:doc:`/tutorials/2_devices/02_queues` looks into it.) In this example the
# queue has some earlier work to finish.

from time import perf_counter, sleep

from firstlight.measure.toystream import ToyStream

queue = ToyStream("GPU")
result = np.array([1.0, 2.0, 3.0])  # it is "on the GPU"
back = np.full(3, -1.0)

queue.launch(sleep, 0.02)  # earlier work
queue.launch(np.copyto, back, result)  # back.copy_(result, non_blocking=True)
read_early = back.copy()
queue.synchronize()  # torch.cuda.synchronize()
print(f"read at once: {read_early}, after the wait: {back}")

# %%
# No error, no warning: the first reading gives what happened to be there. PyTorch's
# ``x.to("cpu", non_blocking=True)`` is such a copy. Wait before you read.
#
# The other direction is harder to find. A loop fills one pinned buffer again and again,
# and sends it:


def send_batches(careful):
    buffer = np.zeros(2)  # one pinned buffer for all batches
    arrived = [np.full(2, -1.0) for _ in range(3)]
    queue.launch(sleep, 0.02)  # earlier work
    sent = queue.record()
    for i, target in enumerate(arrived):
        if careful:
            sent.synchronize()  # the buffer is free when its last copy is done
        buffer[:] = i
        queue.launch(np.copyto, target, buffer)
        sent = queue.record()
    queue.synchronize()
    return [int(batch[0]) for batch in arrived]


print("batches 0, 1, 2 arrived as", send_batches(careful=False), "without the wait")
print("batches 0, 1, 2 arrived as", send_batches(careful=True), "with it")

# %%
# Without the wait, all three are the last batch, and a model trains on them without
# complaint. The mark in the queue, an *event*, says when the copy is done. In PyTorch
# it is ``sent = torch.cuda.current_stream().record_event()``, and then
# ``sent.synchronize()``. On a CUDA GPU, the early reading goes wrong in the same way:

if on_cuda:
    on_gpu.fill_(7)
    landing.fill_(0)
    torch.cuda.synchronize()
    landing.copy_(on_gpu, non_blocking=True)
    early = landing[-1].item()
    torch.cuda.synchronize()
    print(f"on the GPU: 7; read at once: {early}; after the wait: {landing[-1]}")
else:
    print("No CUDA GPU here: this cell read nothing.")

# %%
# A summary for CUDA, as `its documentation`__ and PyTorch's guide have it:
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
#
# - *to the GPU, pinned*: returns at once. Do not change the source before the copy is
#   done.
# - *to the GPU, pageable*: ``non_blocking=True`` gains little. The call returns when
#   the bytes are in the driver's buffer, so the source is yours again.
# - *from the GPU*: with ``non_blocking=True``, do not read before you have waited.
#
# Overlap: copy in, work, copy out
# --------------------------------
#
# The slot carries both ways at the same time, and the GPU computes meanwhile. So cut
# the data into :math:`m` chunks, and give each of the three stages a queue of its own
# (a *stream*): while chunk 2 is worked on, chunk 3 comes in and chunk 1 goes out. If
# each stage of a chunk takes :math:`a + n/(m\,b)`, the last chunk comes in after
# :math:`m` of them, and needs two more stages:
#
# .. math::
#
#     t(m) = (m + 2) \left( a + \frac{n}{m\,b} \right).
#
# One chunk is no overlap: three stages, one after the other. More chunks overlap more,
# and pay :math:`a` more often. Both cannot be had.
#
# To see it without a GPU, the three lanes are toy streams, and the link is a toy, too.
# A real link moves bytes without a core of the CPU. So each toy stage takes its bytes,
# *sleeps* for :math:`a + n/b`, with an :math:`a` and a :math:`b` that we choose, and
# then delivers. The lengths of the stages are chosen. Their order, the waiting, and the
# results are real.

from itertools import pairwise

link_a, link_b = 1e-3, 25e6  # seconds, and bytes a second: chosen
data = rng.random(200_003, dtype=np.float32)
copy_in = ToyStream("copy in")
compute = ToyStream("compute", beside=copy_in)
copy_out = ToyStream("copy out", beside=copy_in)


def root(target, source):
    np.sqrt(source, out=target)


def stage(work, target, source):
    taken = source.copy()
    sleep(link_a + source.nbytes / link_b)
    work(target, taken)


def model(chunks):
    return (chunks + 2) * (link_a + data.nbytes / chunks / link_b)


# %%
# The lanes know nothing of each other. An event tells the next lane when a chunk is
# ready: ``record`` puts a mark into one lane, ``wait_event`` lets another lane wait for
# it. The host waits only once, at the end.


def pipeline(chunks, waits=True):
    sent, done, result = (np.full_like(data, np.nan) for _ in range(3))
    edges = np.linspace(0, data.size, chunks + 1).astype(int)
    copy_in.spans.clear()
    start = perf_counter()
    for number, (low, high) in enumerate(pairwise(edges)):
        part, name = slice(low, high), f"{number + 1}"
        copy_in.launch(stage, np.copyto, sent[part], data[part], label=name)
        if waits:
            compute.wait_event(copy_in.record())
        compute.launch(stage, root, done[part], sent[part], label=name)
        if waits:
            copy_out.wait_event(compute.record())
        copy_out.launch(stage, np.copyto, result[part], done[part], label=name)
    for lane in (copy_in, compute, copy_out):
        lane.synchronize()
    return perf_counter() - start, result, list(copy_in.spans)


# %%
# Check first, against ``float64``, also without the events:

exact = np.sqrt(data.astype(np.float64))
for chunks, waits in ((1, True), (3, True), (7, True), (7, False)):
    _, result, _ = pipeline(chunks, waits)
    right = np.allclose(result, exact, rtol=2**-23, atol=0)
    said = f"in {chunks}, {'with' if waits else 'without'} events:"
    print(f"{said:<22}{'right' if right else 'WRONG'}")

# %%
# Without events, each lane begins at once, with whatever is in its memory. Overlap is
# easy to get; the events make it right.
#
# Now predict, and measure. Each number of chunks runs three times, and the fastest
# counts: whatever else the computer does can only make a sleeper late.

tried = [1, 2, 4, 8, 16, 32, 64]
runs = {m: min((pipeline(m) for _ in range(3)), key=lambda run: run[0]) for m in tried}
best = min(tried, key=model)
worth, worth_met = model(1) / model(best), runs[1][0] / runs[best][0]
late = max(time / model(m) for m, (time, *_) in runs.items())

print("chunks   predicted       met")
for m, (time, *_) in runs.items():
    print(f"{m:6}   {quantity(model(m), 's'):>9}   {quantity(time, 's'):>7}")
print(f"{best} chunks: predicted {worth:.2f} times as fast as one, met {worth_met:.2f}")
print(f"the latest of them is {late - 1:.0%} later than predicted")

# %%
# Who works when? This is a *Gantt chart*: a lane for each worker, a bar for each piece
# of work, the number of the chunk in it. It is drawn from the times that the toy
# streams wrote down.

lanes = ["host", "copy in", "compute", "copy out"]


def draw_lanes(ax, bars):
    """Draw bars, each a lane, a label, and where it starts and ends in seconds."""
    begin = min(start for _, _, start, _ in bars)
    for lane, label, start, end in bars:
        row, work = lanes.index(lane), lane != "host"
        style = {"fc": colours[row]} if work else {"fill": False, "hatch": "////"}
        left, right = 1e3 * (start - begin), 1e3 * (end - begin)
        box = plt.Rectangle((left, row - 0.35), right - left, 0.7, ec="black", **style)
        ax.add_patch(box)
        if work:
            centre = {"ha": "center", "va": "center", "color": "#fefefe", "size": 9}
            ax.text((left + right) / 2, row, label, **centre)
    ax.set_yticks(range(len(lanes)), lanes)
    ax.set_ylim(len(lanes) - 0.4, -0.6)


# %%

fig, axes = plt.subplots(2, sharex=True, figsize=(5.6, 4.2), layout="constrained")
for ax, chunks in zip(axes, (1, best), strict=True):
    time, _, spans = runs[chunks]
    draw_lanes(ax, [(span.lane, span.label, span.start, span.end) for span in spans])
    ax.axvline(1e3 * model(chunks), ls="--", color="#808890", zorder=0)
    word = "chunk" if chunks == 1 else "chunks"
    ax.set_title(f"{chunks} {word}: {1e3 * time:.0f} ms", loc="left", size=11)
axes[0].set_xlim(0, 1.12e3 * model(1))
axes[1].set_xlabel("ms on toy streams (hatched: waits; dashed: predicted end)")
fig.set_label(
    "Two Gantt charts of a host and three lanes: copy in, compute, copy out. With one "
    f"chunk the lanes work one after the other. With {best} chunks they work at the "
    f"same time, staggered by one chunk, and all is {worth_met:.2f} times as fast; "
    f"{worth:.2f} was predicted."
)
plt.show()

# %%
# At the ends of the lower chart, lanes are idle: the pipeline fills and drains. That is
# the 2 in :math:`m + 2`. Why not more chunks, then? Because of :math:`a`:

fig, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
fine = np.geomspace(1, tried[-1], 200)
ax.plot(fine, model(fine), "--", color="#808890", label="predicted: (m + 2) (a + n/mb)")
met = [time for time, *_ in runs.values()]
ax.plot(tried, met, "o", color="#2f7ed8", label="measured on toy streams")
ax.set(xscale="log", xlabel="number of chunks, m", ylabel="time for everything")
ax.set_xticks(tried, tried)
ax.minorticks_off()
ax.set_ylim(0, 1.15 * max(*met, model(tried[-1])))
ax.yaxis.set_major_formatter(plt.FuncFormatter(lambda t, _: f"{1e3 * t:.0f} ms"))
ax.legend(frameon=False, fontsize=9, loc="lower right")
fig.set_label(
    "Time over the number of chunks, measured on toy streams and predicted. It falls, "
    f"is least near {best} chunks, and rises again. The points lie on the dashed line, "
    f"the latest {late - 1:.0%} above it."
)
plt.show()

# %%
# The points lie a little above the line, and further the more chunks there are. That is
# an :math:`a` that we did not choose: each stage of each chunk also wakes a thread. A
# GPU has such a price as well, for each copy and each launch.
#
# With a CUDA GPU, the same with real streams. ``with torch.cuda.stream(...)`` says into
# which queue the calls go. The memory on the host is pinned, or nothing would overlap.
# The square root itself takes next to nothing on a GPU, so the two copies are left: the
# best to hope for is half the time.


def gpu_pipeline(chunks, host_in, host_out, streams, marks):
    parts = zip(host_in.chunk(chunks), host_out.chunk(chunks), strict=True)
    for number, (source, target) in enumerate(parts):
        ready, data = None, source
        for lane, stream in zip(lanes[1:], streams, strict=True):
            with torch.cuda.stream(stream):
                if ready is not None:
                    stream.wait_event(ready)
                begin, ready = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                if lane == "copy in":
                    data = source.to(device, non_blocking=True)
                elif lane == "compute":
                    data.record_stream(stream)  # memory that two streams use
                    data = data.sqrt()
                else:
                    data.record_stream(stream)
                    target.copy_(data, non_blocking=True)
                ready.record()
            marks.append((lane, f"{number + 1}", begin, ready))
    torch.cuda.synchronize()


# %%
# PyTorch gives memory of deleted tensors to new ones. ``record_stream`` tells it that a
# second stream still uses the tensor. The prediction comes from the fits above: the
# slower copy of each chunk, and once the faster one.

if on_cuda:
    n = 2**26 + 1  # numbers, of 4 bytes
    host_in = torch.rand(n).pin_memory()
    host_out = torch.empty(n, pin_memory=True)
    streams = [torch.cuda.Stream() for _ in range(3)]
    both = [fits[f"{way} the GPU, pinned"] for way in ("to", "from")]
    for m in (1, 2, 4, 8, 16, 32):
        stages = [a + 4 * n / m / b for a, b in both]
        expected = sum(stages) + (m - 1) * max(stages)
        time = measure(gpu_pipeline, m, host_in, host_out, streams, [], device=device)
        print(f"{m:2} chunks: predicted {quantity(expected, 's')}", end=", ")
        print("met", quantity(time.median, "s"))
    right = torch.allclose(host_out.double(), host_in.double().sqrt(), rtol=1e-6)
    print("the results are", "right" if right else "WRONG")
else:
    print("No CUDA GPU here: this cell measured nothing.")

# %%

if on_cuda:
    marks = []
    gpu_pipeline(8, host_in, host_out, streams, marks)
    since = marks[0][2].elapsed_time  # milliseconds from the first event to another
    bars = [(*mark[:2], *(1e-3 * since(event) for event in mark[2:])) for mark in marks]
    fig, ax = plt.subplots(figsize=(5.6, 2.6), layout="constrained")
    draw_lanes(ax, bars)
    ax.autoscale_view()
    ax.set_ylim(3.5, 0.5)
    ax.set_xlabel("milliseconds on the GPU, by its events")
    fig.set_label(
        "A Gantt chart of three CUDA streams: copy in, compute and copy out of eight "
        "chunks, at the same time, staggered by one chunk."
    )
    plt.show()

# %%
# One memory for both
# -------------------
#
# Some machines have no slot in between. Then the page's two numbers change, and some of
# its advice:
#
# - *Apple's chips, and GPUs that are part of the processor.* CPU and GPU use the same
#   memory. Still, ``x.to("mps")`` makes a copy, since PyTorch keeps the two apart. It
#   costs an :math:`a` and what the memory allows for :math:`b`. On such a machine, the
#   curves *to the GPU* and *from the GPU* show both. Pinning means little there.
# - *Grace Hopper* joins the CPU to the GPU with a link for each way of
#   :spec:`NVLink-C2C bandwidth`, in place of :spec:`PCIe 5 x16 bandwidth`, and the GPU
#   can read pageable memory by itself. A larger :math:`b` with an :math:`a` that hardly
#   changes has a *larger* :math:`n_{1/2}`: small trips waste more of it.
# - *Managed memory* (``cudaMallocManaged``, ``numba.cuda.managed_array``) looks like
#   one memory on any machine. With a slot in between, pages travel when they are
#   touched, by page faults: many small trips that nobody sees in the code.
#
# Where this stops being true
# ---------------------------
#
# - *The law has one* :math:`a` *and one* :math:`b`. Caches make several of :math:`b`,
#   as the copy in memory showed. Drivers treat the smallest copies in special ways.
# - *Waiting is part of* :math:`a`. The trips of this page wait for their end. If you
#   put many copies into a queue and wait once, the host prepares the next while the
#   last one travels, and you pay less than :math:`m\,a`.
# - *A slot is shared.* With several GPUs, or a disk and a GPU, :math:`b` is divided. In
#   a computer with two processors, the way to the further one is longer. A slot with 16
#   lanes in form may have 8 or 4 in fact. Some cards have one engine for copies; then
#   the two directions take turns.
# - *Gaps.* Every second column of a table is not one block of bytes. PyTorch first
#   gathers it into fresh memory. Send contiguous arrays.
# - *Overlap needs work to hide behind.* If the copies take much longer than the work,
#   the pipeline hides the work, not the copies. Then move less: smaller numbers, fewer
#   trips, or data that stay on the GPU.
#
# Exercise
# --------
#
# How many chunks should you cut? Write a function that gives the number of chunks for
# which :math:`t(m) = (m + 2)(a + n/(m\,b))` is least. A result within one percent of
# the least time is good enough. What happens below :math:`n_{1/2}`?


def chunks_for(n, a, b): ...


# %%
# ``check`` tries your function on trips of many kinds. It compares times, so it does
# not care how you find the number.

cases = [
    ((1e3, 1e-5, 1e10), "Below n½, one chunk is best: a cut costs more than it saves."),
    ((2e8, 1e-5, 1e10), "Which part of t(m) grows with m, which part falls?"),
    ((8e6, 1e-3, 1e9), "Multiply t(m) out: the 2 of m + 2 belongs to n/(m b), too."),
    ((4.2e5, 1e-4, 1e9), "Round to the nearest whole number, not always down."),
    ((2.2e5, 1e-4, 1e9), "Round to the nearest whole number, not always up."),
]


def check(answer):
    for (n, a, b), hint in cases:
        call = f"chunks_for({n:g}, {a:g}, {b:g})"
        m = np.arange(1, 1000)
        least = np.min((m + 2) * (a + n / m / b))
        try:
            got = answer(n, a, b)
            if not isinstance(got, (int, float, np.number)) or got < 1 or got % 1:
                return f"{call} gave {got!r}, not 1 or 2 or 3 or more.\nHint: {hint}"
            longer = (got + 2) * (a + n / got / b) / least - 1
        except Exception as error:
            return f"{call} raised {type(error).__name__}: {error}"
        if not longer <= 0.01:
            return f"{call} gave {got}: {longer:.1%} longer than best.\nHint: {hint}"
    return "Right: as many chunks as pay, and not one more."


print(check(chunks_for))

# %%

# solution


def chunks_for_solution(n, a, b):
    # t(m) = a m + 2 n / (b m) + what does not depend on m
    return max(1, round((2 * n / (a * b)) ** 0.5))


print(check(chunks_for_solution))

# %%
# The answer holds only one thing of your machine: :math:`n_{1/2} = a\,b`. The best
# number of chunks is the root of :math:`2\,n/n_{1/2}`, and below :math:`n_{1/2}` it is
# one: there, cutting makes everything slower.
#
# Three lines to remember
# -----------------------

a, b = fits[the_trip]
print("1. t = a + n/b. Below n½ = a b you pay for the trip, above it for the bytes.")
print(f"   {the_trip}: n½ = {quantity(a, 's')} x {quantity(b, 'B/s')}", end=" ")
print("=", quantity(a * b, "B"))
print("2. Batch what is below, overlap what is above, and predict what it is worth:")
print(f"   {gain:.1f} times as fast predicted, {gain_met:.1f} met;", end=" ")
print(f"{worth:.2f} predicted, {worth_met:.2f} met (toy).")
print("3. Reuse memory, pin it before the loop, and wait before you read.")
