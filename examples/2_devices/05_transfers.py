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

**Time:** 20 minutes. **Needs:** any computer. With a GPU, the page measures the way to
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
# The two parts are equal when :math:`n = a\,b`. This size is called the
# *half-bandwidth size*, :math:`n_{1/2}`, because such a trip reaches half of :math:`b`.
# Far below it, you pay for the trip, and the bytes come along for nothing. Far above
# it, you pay for the bytes, and the trip hardly counts.
#
# Most graphics cards sit in a slot called *PCI Express*. Its specification gives an
# upper limit of :math:`b`: the bytes travel in packets, and the addresses on these take
# some of it. No paper gives :math:`a`; you have to measure it.

from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity

slots = ("PCIe 3 x16", "PCIe 4 x16", "PCIe 5 x16")
links = {slot: spec(slot, "bandwidth") for slot in slots}

for link, b in links.items():
    share = b / spec("H100 SXM", "bandwidth")
    print(
        f"{link}: {quantity(b, 'B/s')}, {share:.1%} of an H100's own memory;", end=" "
    )
    print(f"n½ = {quantity(1e-6 * b, 'B')} for each µs of a")

# %%
# The percentage says what "slow" means. The slot is slow next to the memory that the
# GPU has for itself. So a GPU pays when data stay there for many operations, and a
# time without the way is only half the story:
# :doc:`/tutorials/1_setup/02_first_speedup` adds the way to a published one.
#
# The trips
# ---------
#
# Two trips work on any computer. They are no trips to a GPU, but show the same law:
#
# - *A copy in memory*, from one place to another, by one core of the CPU.
# - *Through a pipe.* Programs send bytes to each other through pipes. The operating
#   system copies what is written into a small buffer of its own, and from there to the
#   reader, piece by piece. So every byte is copied twice. You will meet this again.
#
# With a GPU there are more: there and back, each with ordinary (*pageable*) memory and,
# on CUDA and ROCm, with *pinned* memory, which is explained below. PyTorch's ``copy_``
# waits until the bytes have arrived, unless you ask it not to.

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
piece = 4096 if os.name == "nt" else 65_536
if os.name != "nt":
    os.set_blocking(near_end, False)  # a write takes what fits, and says how much


# %%
# Each way is a function, where the bytes go, and where they come from:


def through_pipe(target, source):
    low = 0
    while low < source.size:
        high = low + os.write(near_end, source[low : low + piece])
        low += reader.readinto(target[low:high])


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

    def pin_and_copy(target, source):
        target.copy_(source.pin_memory())

    ways["to the GPU, pinned each time"] = (pin_and_copy, on_gpu, pageable)

the_trip = "to the GPU, pageable" if has_gpu else "through a pipe"
print(f"device: {device}; the trip of this page: {the_trip}")

# %%
# Next, a function that finds :math:`a` and :math:`b` from measured times. The law is a
# straight line, but the times differ by factors of thousands. Ordinary least squares
# makes *absolute* errors small, so it looks at the longest times only, and :math:`a`
# comes out as anything, also below zero. Look at *factors* instead:
# :math:`t = a\,(1 + n/n_{1/2})`. Try many values of :math:`n_{1/2}`. With each, every
# time gives an :math:`a` of its own. Take the one with which they agree best.


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
# Each curve starts nearly flat. The bytes grow and the time does not: that is
# :math:`a`. Then it rises with the bytes: that is :math:`b`. Here are the fits. (They
# take the fastest of each, since other programs can only make a trip longer.)


def times_of(label):
    return np.array([min(t.values) for t in bench.timings if t.label == label])


fits = {label: fit(sizes, times_of(label)) for label in ways}
for label, (a, b) in fits.items():
    off = np.abs(np.log((a + sizes / b) / times_of(label))).max()
    print(f"{label}: a = {quantity(a, 's')}, b = {quantity(b, 'B/s')},", end=" ")
    print(f"n½ = {quantity(a * b, 'B')}; worst point off by {np.exp(off):.2f} ×")

_, plain_a = np.polyfit(sizes, times_of(the_trip), 1)
print(f"ordinary least squares, {the_trip}: a = {1e6 * plain_a:.1f} µs")

# %%
# Now ask the other way round: how much of :math:`b` does a trip of :math:`n` bytes get?
# It carries :math:`n/t` bytes a second, and the law says :math:`b/(1 + n_{1/2}/n)`.
# Marks are measured, lines are the fits, a diamond is :math:`n_{1/2}`.

import matplotlib.pyplot as plt

colours = ["#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a", "gray"]
fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
fine = np.geomspace(sizes[0], sizes[-1], 200)
looks = zip(fits.items(), colours, "os^vPXd", strict=False)
for (label, (a, b)), colour, marker in looks:
    ax.plot(sizes, sizes / times_of(label), marker, color=colour, label=label)
    ax.plot(fine, fine / (a + fine / b), color=colour, lw=1)
    ax.plot(a * b, b / 2, "D", color=colour, ms=12, mfc="none", mew=2)
for link, b in links.items():
    ax.axhline(b, ls="--", color="#808890", lw=1.2)
    ax.text(sizes[0], b, f"model: {link}", va="bottom", size=9)
ax.set(xscale="log", yscale="log", xlabel="bytes in one trip (diamond: n½)")
ax.set_ylabel("bytes carried in a second")
ax.xaxis.set_major_formatter(lambda n, _: quantity(n, "B", digits=1))
ax.yaxis.set_major_formatter(lambda rate, _: quantity(rate, "B/s", digits=1))
fig.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=2)
fig.set_label(
    "Bytes a second over the bytes in one trip, both axes logarithmic. Each way rises "
    "in proportion up to its diamond, at half of its bandwidth, and is flat far right."
)
plt.show()

# %%
# *Left of its diamond you pay for the trip: twice the bytes, twice the rate. Right of
# it you pay for the bytes, and bigger trips gain little.*
#
# The law fails where the marks leave their line. The copy in memory has several
# bandwidths: small arrays stay in the *caches*, small and fast memories inside the
# processor, and the largest does not fit into them.
#
# Many small trips or one big one
# -------------------------------
#
# Now use the law. A detector has seen 4096 events, and notes 20 ``float32`` numbers of
# each. You send them in :math:`m` trips. Each trip costs :math:`a`, and the bytes are
# the same in any case, so you expect :math:`t = m\,a + n/b`. That takes two numbers,
# fitted to other trips of other sizes. (The slices are cut before the clock starts.)

from firstlight.measure.timing import measure

events, event = 4096, 20 * 4
n = events * event
move, target, source = ways[the_trip]
a, b = fits[the_trip]


def send(parts):
    for part in parts:
        move(*part)


predicted, met = [], []
print("a trip   predicted         met")
for some in (1, 8, 64, 512, 4096):
    cuts = [slice(low, low + some * event) for low in range(0, n, some * event)]
    parts = [(target[cut], source[cut]) for cut in cuts]
    predicted.append(len(parts) * a + n / b)
    met.append(min(measure(send, parts, budget=0.3).values))
    both = (f"{quantity(time[-1], 's'):>9}" for time in (predicted, met))
    print(f"{some:6}", *both, sep="   ")

gain, gain_met = predicted[0] / predicted[-1], met[0] / met[-1]
print(f"all in one: predicted {gain:.1f} times as fast, met {gain_met:.1f}")

# %%
# So "batch your transfers" has a measure: once a trip carries several times
# :math:`n_{1/2}`, a bigger batch saves little more. You may also read that varying the
# batch size of a training shows what part of the time goes into moving data. It cannot:
# it changes only :math:`m\,a`, together with how well the GPU computes. The bytes cost
# the same in any batch, and :math:`n/b` stays hidden.
#
# Fresh memory is only a promise
# ------------------------------
#
# A copy also needs a place to arrive. When a program asks for memory, the operating
# system only promises it. Memory comes in *pages* of a few kilobytes, and a page is
# found when the program first writes to it. This interruption is a *page fault*.
# Predict: how many faults does it take to fill 64 MiB of fresh memory, and to fill it
# again? (Windows does not count them like this; with larger pages there are fewer.)

import mmap

try:
    import resource
except ImportError:  # on Windows
    resource = None


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0


counts = [page_faults()]
kept = torch.empty(largest, dtype=torch.uint8)
counts.append(page_faults())
for value in (1, 2):
    kept.fill_(value)
    counts.append(page_faults())

asked, first, again = np.diff(counts)
print(f"predicted: {largest // mmap.PAGESIZE:,} pages of {mmap.PAGESIZE:,} bytes")
print(f"page faults: asking {asked:,}, first writing {first:,}, again {again:,}")

# %%
# Each fault is a trip of its own, into the operating system and back. What do they add
# up to? A copy into fresh memory, and the same copy into memory that was written
# before:

x = torch.from_numpy(here)
to_fresh = measure(x.clone, budget=0.5).median
to_kept = measure(kept.copy_, x, budget=0.3).median
print(f"a copy of 64 MiB on this CPU, into fresh memory: {quantity(to_fresh, 's')}")
print(f"into memory in use: {quantity(to_kept, 's')}", end="; ")
print(f"first touch makes it take {to_fresh / to_kept:.1f} times as long")

# %%
# For a tensor on a GPU, ``x.cpu()`` makes new memory for the result at every call. In a
# loop, keep one array and copy into it: ``kept.copy_(x)``.
#
# Pageable and pinned
# -------------------
#
# The operating system may move a page, or put it onto the disk. Your program does not
# notice, since its addresses are translated at each access. But a GPU fetches data by
# itself, from the real addresses, while the CPU does other work. (This is called
# *direct memory access*, DMA.) It cannot use a page that may move meanwhile.
#
# So for ordinary, *pageable* memory the driver makes a detour. The CPU copies your
# bytes piece by piece into a buffer that must not move, and the GPU fetches them from
# there. That is the pipe from above: every byte is copied twice. *Pinned* (or
# page-locked) memory is memory that the operating system has agreed not to move. The
# GPU fetches from it directly: the copy may come close to the :math:`b` of the slot,
# and your program can go on meanwhile.
#
# ``x.pin_memory()`` gives a pinned *copy* of ``x``. Many programs have this line in
# their loop: ``x.pin_memory().to(device, non_blocking=True)``. PyTorch's own
# `guide to pinning`__ says that it can be slower than the plain ``x.to(device)``. Why?
# Either way, the CPU copies every byte once. The plain call can send one piece while it
# copies the next. Pinning copies everything first, and only then does the trip begin.
# You have just measured such a copy. Compare it with the trip that it is to shorten:
#
# __ https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html

for link, b in links.items():
    trip = largest / b
    print(f"64 MiB, {link}: {quantity(trip, 's')} (a model).", end=" ")
    print(f"This CPU's copy takes {to_kept / trip:.1f} times as long")

# %%
# PyTorch keeps pinned memory for its next ``pin_memory()``, so only the first call pays
# for fresh memory, and for having it pinned. On a CUDA GPU, *to the GPU, pinned each
# time* in the figures above is the test.
#
# So pin once, before the loop, the memory that many trips use; for example with
# ``torch.empty(n, pin_memory=True)``. A ``DataLoader`` with ``pin_memory=True`` pins in
# a thread of its own, beside your loop. And do not pin everything: what is pinned is
# taken from all other programs.
#
# When ``non_blocking=True`` is unsafe
# ------------------------------------
#
# From pinned memory, ``to(device, non_blocking=True)`` puts the copy into the GPU's
# queue and returns before a byte has moved. What you launch later on the same *stream*,
# CUDA's word for such a queue, comes after it, so *the GPU* finds the data in place.
# *Your program* has no such protection, in either direction.
#
# Here the queue is a toy from :doc:`/tutorials/2_devices/02_queues`: ``ToyStream`` is a
# thread that does what is put into its queue, in order. ``launch`` puts a call there
# and returns at once, as a launch on a GPU does.

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
# ``x.to("cpu", non_blocking=True)`` is such a copy. The other direction is harder to
# find. A loop fills one pinned buffer again and again, and sends it:


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
# In short, for CUDA (after `its documentation`__ and PyTorch's guide):
#
# - *to the GPU, pinned*: do not change the source before the copy is done.
# - *to the GPU, pageable*: the CPU copies the bytes during the call, so little can
#   overlap. What ``non_blocking=True`` saves is the wait after each tensor.
# - *from the GPU*: do not read before you have waited.
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
#
# Overlap: copy in, work, copy out
# --------------------------------
#
# The slot carries both ways at the same time, and the GPU computes meanwhile. So cut
# the data into :math:`m` chunks, and give each of the three stages a stream: while
# chunk 2 is worked on, chunk 3 comes in and chunk 1 goes out. If each stage of a chunk
# takes :math:`a + n/(m\,b)`, the last chunk comes in after :math:`m` of them, and needs
# two more stages:
#
# .. math::
#
#     t(m) = (m + 2) \left( a + \frac{n}{m\,b} \right).
#
# One chunk is no overlap: three stages, one after the other. More chunks overlap more,
# and pay :math:`a` more often.
#
# To see it without a GPU, the three lanes are toy streams. A real link moves bytes
# without a core of the CPU, so each toy stage takes its bytes, *sleeps* for
# :math:`a + n/b`, and delivers. This :math:`a` and :math:`b` are chosen. The order of
# the stages, the waiting, and the results are real.

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
# The lanes know nothing of each other. ``record`` puts an event into one lane, and
# ``wait_event`` lets the next lane wait for it. The host waits only once, at the end.


def pipeline(chunks, waits=True):
    sent, done, result = (np.full_like(data, np.nan) for _ in range(3))
    cut = [np.array_split(array, chunks) for array in (data, sent, done, result)]
    copy_in.spans.clear()
    start = perf_counter()
    for number, (given, came, rooted, back) in enumerate(zip(*cut, strict=True)):
        name = f"{number + 1}"
        copy_in.launch(stage, np.copyto, came, given, label=name)
        if waits:
            compute.wait_event(copy_in.record())
        compute.launch(stage, root, rooted, came, label=name)
        if waits:
            copy_out.wait_event(compute.record())
        copy_out.launch(stage, np.copyto, back, rooted, label=name)
    for lane in (copy_in, compute, copy_out):
        lane.synchronize()
    return perf_counter() - start, result, list(copy_in.spans)


# %%
# Check first, against ``float64``, also without the events:

exact = np.sqrt(data.astype(np.float64))
for chunks, waits in ((1, True), (7, True), (7, False)):
    _, result, _ = pipeline(chunks, waits)
    right = np.allclose(result, exact, rtol=2**-23, atol=0)
    said = f"in {chunks}, {'with' if waits else 'without'} events:"
    print(f"{said:<22}{'right' if right else 'WRONG'}")

# %%
# Without events, each lane begins at once, with whatever is in its memory.
#
# Now predict, and measure. Each number of chunks runs three times; the fastest counts.

tried = [1, 2, 4, 8, 16, 32, 64]
runs = {m: min((pipeline(m) for _ in range(3)), key=lambda run: run[0]) for m in tried}
best = min(tried, key=model)
worth, worth_met = model(1) / model(best), runs[1][0] / runs[best][0]

print("chunks   predicted       met")
for m, (time, *_) in runs.items():
    print(f"{m:6}   {quantity(model(m), 's'):>9}   {quantity(time, 's'):>7}")
print(f"{best} chunks: predicted {worth:.2f} times as fast as one, met {worth_met:.2f}")

# %%
# The time falls, is least near 8 chunks, and rises again, because :math:`a` is paid for
# each chunk. (With many chunks it is longer than predicted: each stage also wakes a
# thread, an :math:`a` that we did not choose.)
#
# Who works when? This is a *Gantt chart*: a lane for each worker, a bar for each piece
# of work with the number of its chunk, drawn from the times that the toys wrote down.

lanes = ["host", "copy in", "compute", "copy out"]
WAIT = {"fill": False, "hatch": "////", "ec": "black"}
NUMBER = {"ha": "center", "va": "center", "color": "#fefefe", "size": 9}

fig, axes = plt.subplots(2, sharex=True, figsize=(5.6, 4.2), layout="constrained")
for ax, chunks in zip(axes, (1, best), strict=True):
    time, _, spans = runs[chunks]
    begin = min(span.start for span in spans)
    for span in spans:
        row, left = lanes.index(span.lane), 1e3 * (span.start - begin)
        wide = 1e3 * (span.end - span.start)
        style = {"fc": colours[row], "ec": "black"} if row else WAIT
        ax.barh(row, wide, left=left, height=0.7, **style)
        ax.text(left + wide / 2, row, span.label if row else "", **NUMBER)
    ax.set_yticks(range(4), lanes)
    ax.invert_yaxis()
    ax.axvline(1e3 * model(chunks), ls="--", color="#808890", zorder=0)
    ax.set_title(f"chunks: {chunks}, time: {1e3 * time:.0f} ms", loc="left", size=11)
axes[1].set_xlabel("ms on toy streams (hatched: waits; dashed: predicted end)")
fig.set_label(
    f"Two Gantt charts: a host and three lanes. With one chunk the lanes take turns. "
    f"With {best} they overlap, and all is {worth_met:.2f} times as fast."
)
plt.show()

# %%
# Above, one lane works at a time. Below, all three do, except at the ends, where the
# pipeline fills and drains: that is the 2 in :math:`m + 2`.
#
# On a CUDA GPU it looks like this. ``wait_stream`` records an event in one stream and
# lets another wait for it. PyTorch gives the memory of deleted tensors to new ones;
# ``record_stream`` tells it that a second stream still uses this one. The memory on the
# host must be pinned, or nothing overlaps.


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
# The square root takes next to nothing on a GPU, so the two copies are left, and the
# best to hope for is half the time. The prediction comes from the fits above: the
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
        time = measure(gpu_pipeline, m, host_in, host_out, *streams, device=device)
        print(f"{m:2} chunks: predicted {quantity(expected, 's')}", end=", ")
        print("met", quantity(time.median, "s"))
    assert torch.allclose(host_out.double(), host_in.double().sqrt(), rtol=1e-6)
else:
    print("No CUDA GPU here: this cell measured nothing.")

# %%
# One memory for both
# -------------------
#
# Some machines have no slot in between. Then the two numbers change, and some advice:
#
# - *Apple's chips, and GPUs that are part of the processor.* CPU and GPU use the same
#   memory. Still, ``x.to("mps")`` makes a copy, since PyTorch keeps the two apart. On
#   such a machine, the curves *to the GPU* and *from the GPU* show what it costs.
# - *Grace Hopper* joins the CPU to the GPU with a link for each way of
#   :spec:`NVLink-C2C bandwidth`, in place of :spec:`PCIe 5 x16 bandwidth`, and the GPU
#   can read pageable memory by itself. A larger :math:`b` with an :math:`a` that hardly
#   changes has a *larger* :math:`n_{1/2}`: small trips waste more of it.
# - *Managed memory* (``cudaMallocManaged``, ``numba.cuda.managed_array``) looks like
#   one memory on any machine. With a slot in between, pages travel when they are
#   touched: many small trips that nobody sees in the code. NVIDIA's
#   `chapter on unified memory`__ says which machine does what.
#
# __ https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/unified-memory.html
#
# Where this stops being true
# ---------------------------
#
# - *Waiting is part of* :math:`a`. The trips of this page wait for their end. If you
#   put many copies into a queue and wait once, you pay less than :math:`m\,a`.
# - *A slot is shared.* With several GPUs, or a disk and a GPU, :math:`b` is divided. A
#   slot with 16 lanes in form may have 8 or 4 in fact. Some cards have one engine for
#   copies; then the two directions take turns.
# - *Gaps.* Every second column of a table is not one block of bytes. PyTorch first
#   gathers it into fresh memory. Send contiguous arrays.
# - *Overlap needs work to hide behind.* If the copies take much longer than the work,
#   move less: smaller numbers, or data that stay on the GPU.
#
# Exercise
# --------
#
# How many chunks should you cut? Write a function that gives the number of chunks for
# which :math:`t(m) = (m + 2)(a + n/(m\,b))` is least. What happens below
# :math:`n_{1/2}`? ``check`` compares times: within one percent of the least is right,
# however you find the number.


def chunks_for(n, a, b): ...


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
# The answer needs one thing of your machine, :math:`n_{1/2} = a\,b`: the best number is
# the root of :math:`2\,n/n_{1/2}`. Below :math:`n_{1/2}`, cutting makes it slower.
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
