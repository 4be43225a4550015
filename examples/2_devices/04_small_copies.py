"""
What does a host-device transfer cost?
======================================

A GPU computes on data in its own memory, so your data have to be copied there and the
results back. This page is for everybody whose program does that. A *host-device
transfer* of :math:`n` bytes takes about :math:`t = a + n/b`, where :math:`a` is the
:term:`latency` of each transfer and :math:`b` the :term:`bandwidth` of the link,
usually :term:`PCI Express`. Below :math:`n_{1/2} = a\\,b` bytes you pay mostly for
latency: send fewer, bigger transfers. Above it you pay for the bytes: send fewer bytes,
pin the memory, or :term:`overlap` the transfer with computing.

**You will learn**

- to predict the time of a transfer from two numbers, and to fit them to your machine;
- what a bigger :term:`batch` is worth, and when it stops paying;
- what :term:`pageable` and :term:`pinned memory` are, and when pinning costs more than
  it saves;
- to overlap transfers with work, and not to read a result before it is there.

**Time:** 13 minutes. **Needs:** any computer. With a GPU, the page measures transfers
to it. Without one, two copies within the computer stand in, and say nothing of a GPU.
"""

# %%
# Predict
# -------
#
# The time for :math:`n` bytes is
#
# .. math::
#
#     t = a + \frac{n}{b}.
#
# - :math:`a`, the *latency*: the call, the driver, the link, and the message that the
#   data have arrived.
# - :math:`b`, the *bandwidth*: bytes a second, once they flow.
#
# The two parts are equal when :math:`n = a\,b`, the :term:`half-bandwidth size`
# :math:`n_{1/2}`: such a transfer reaches half of :math:`b`.
#
# The specification of PCI Express (PCIe) gives an upper limit of :math:`b`. Nobody
# specifies :math:`a`; you have to measure it. The table assumes one. `One paper`__
# (section 5.2) found half of that, or more, for the call alone.
#
# __ https://arxiv.org/abs/2602.21548

from firstlight.display import COLOURS, GREY, quantity, show_table
from firstlight.timing.specs import spec

assumed = 1e-5  # seconds; replace it by what you measure
links = {f"PCIe {i} x16": spec(f"PCIe {i} x16", "bandwidth") for i in (3, 4, 5)}
rows = [
    ("b, each way", *(quantity(b, "B/s") for b in links.values())),
    ("n½", *(quantity(assumed * b, "B") for b in links.values())),
]
for n, label in ((1e3, "1 kB takes"), (1e6, "1 MB"), (1e9, "1 GB")):
    rows.append((label, *(quantity(assumed + n / b, "s") for b in links.values())))
caption = f"A transfer, if a is {quantity(assumed, 's', digits=2)} (a model)"
show_table(caption, ("", *links), rows)
own = quantity(spec("H100 SXM", "bandwidth"), "B/s")
print(f"b of an H100's own memory: {own}")

# %%
# PCIe is slow next to the GPU's own memory, so a GPU pays when data stay there for many
# operations.
#
# Two copies that every computer can make stand in for a GPU: *in memory*, by one core,
# and *through a pipe* between programs, which copies every byte twice, by way of a
# small buffer of the operating system. They follow the law only roughly, and never use
# PCIe. With a GPU, the page also copies to it and from it, with ordinary (*pageable*)
# memory and, on CUDA and ROCm, with *pinned* memory (explained below).

# folded: A copy in memory and one through a pipe

import io
import os

import numpy as np
import torch

from firstlight import Bench, best_device

device = best_device()
has_gpu, on_cuda = device.type != "cpu", device.type == "cuda"
largest = 2**26
rng = np.random.default_rng(seed=1)
outgoing = rng.integers(256, size=largest, dtype=np.uint8)
incoming = np.ones_like(outgoing)
far_end, near_end = os.pipe()
reader = io.FileIO(far_end, closefd=False)
piece = 4096 if os.name == "nt" else 65_536
if os.name != "nt":
    os.set_blocking(near_end, False)  # a write takes what fits, and says how much


def through_pipe(target, source):
    low = 0
    while low < source.size:
        high = low + os.write(near_end, source[low : low + piece])
        low += reader.readinto(target[low:high])


# %%
# Each way is a function, where the bytes go, and where they come from:

ways = {
    "copy in memory": (np.copyto, incoming, outgoing),
    "through a pipe": (through_pipe, np.ones_like(outgoing), outgoing),
}
if has_gpu:
    copy_ = torch.Tensor.copy_
    pageable = torch.from_numpy(outgoing)
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

transfer = "to the GPU, pageable" if has_gpu else "through a pipe"
print(f"device: {device}; the transfer of this page: {transfer}")

# %%
# Least squares would fit only the longest times. So make the *relative* errors small,
# in :math:`t = a\,(1 + n/n_{1/2})`: for each trial :math:`n_{1/2}`, each measurement
# yields an :math:`a`; choose the :math:`n_{1/2}` for which these agree best.


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
# Every byte has to arrive, and the fit has to give back the numbers behind made-up
# times.

n = 1_000_003
for label, (move, target, source) in ways.items():
    move(target[:n], source[:n])
    arrived, expected = (torch.as_tensor(side[:n]).cpu() for side in (target, source))
    assert torch.equal(arrived, expected), f"{label}: not what was sent"

sizes = 2 ** np.arange(6, 27, 4)
a, b = fit(sizes, 3e-5 + sizes / 2e9)
assert np.allclose((a, b), (3e-5, 2e9), rtol=1e-3)
print(f"{len(ways)} ways bring all bytes; the fit gives back both numbers")

# %%
# Measure
# -------
#
# Six sizes, from 64 bytes to 64 MiB, each way. The fits take the medians.

# folded: All times

bench = Bench("transfers")
for label, (move, target, source) in ways.items():
    for n in sizes.tolist():
        bench.time(label, move, target[:n], source[:n], n=n)
bench.show()

# %%


def times_of(label):
    return np.array([t.median for t in bench.timings if t.label == label])


fits = {label: fit(sizes, times_of(label)) for label in ways}
rows, off = [], {}
for label, (a, b) in fits.items():
    error = np.log((a + sizes / b) / times_of(label))
    off[label] = f"{np.exp(np.abs(error).max()):.2f} ×"
    cells = (quantity(a, "s"), quantity(b, "B/s"), quantity(a * b, "B"))
    rows.append((label, *cells, off[label]))
head = ("", "a", "b", "n½", "worst error")
show_table("The law, fitted", head, rows)

# %%
# The *worst error* is of these six sizes: between them, a prediction may be worse. A
# transfer carries :math:`n/t` bytes a second; the law says
# :math:`b/(1 + n_{1/2}/n)`. Marks are measured, lines are the fits, a diamond is at
# :math:`n_{1/2}`, and dashed is the model of PCIe.

# measured figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

colours = [*COLOURS, "gray"]
fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
fine, above = np.geomspace(sizes[0], sizes[-1], 200), 0.0
styles = zip(colours, "os^vPXd", strict=True)
by_rate = sorted(fits.items(), key=lambda way: way[1][1])
for (label, (a, b)), (colour, marker) in zip(by_rate, styles, strict=False):
    ax.plot(sizes, sizes / times_of(label), marker, color=colour)
    ax.plot(fine, fine / (a + fine / b), color=colour, lw=1)
    ax.plot(a * b, b / 2, "D", color=colour, ms=12, mfc="none", mew=2)
    above = max(b, 2 * above)  # labels one above the other
    ax.text(2.5 * sizes[-1], above, label, color=colour, va="center", size=10)
for b in links.values():
    ax.plot(fine, fine / (assumed + fine / b), ls="--", color=GREY, lw=1.2)
ax.text(4e3, 1.6e8, "PCIe 3, 4, 5 x16\n(model)", color=GREY, va="top", size=10)
ax.set(xscale="log", yscale="log", xlabel="bytes in one transfer (diamond: n½)")
ax.set_ylabel("bytes carried in a second")
ax.xaxis.set_major_formatter(lambda n, _: quantity(n, "B", digits=1))
ax.yaxis.set_major_formatter(lambda rate, _: quantity(rate, "B/s", digits=1))
half = quantity(np.multiply(*fits[transfer]), "B")
fig.suptitle(f"Below {half}, latency decides; above it, bandwidth ({transfer})")
fig.set_label(
    f"Bytes a second over bytes in a transfer. n½ of {transfer}: {half}. "
    "Dashed: models."
)
plt.show()

# %%
# An H100 behind PCIe 5 follows the law: 64 bytes take :timing:`transfers median "to the
# GPU, pinned/cuda:0/n=64" @nvidia-h100-80gb-hbm3`, 64 MiB :timing:`transfers median "to
# the GPU, pinned/cuda:0/n=67108864" @nvidia-h100-80gb-hbm3` from pinned memory, and
# :timing:`transfers median "to the GPU, pageable/cuda:0/n=67108864"
# @nvidia-h100-80gb-hbm3` from pageable memory: there not the slot sets the rate, but
# the CPU, which copies first.
#
# The law fails where marks leave their line. The two stand-ins have several bandwidths,
# because small arrays stay in the processor's *caches*.
#
# Many small transfers or one big one
# -----------------------------------
#
# A detector notes 20 ``float32`` numbers of each of 4096 events. In :math:`m` transfers
# they should take :math:`t = m\,a + n/b`, with the two numbers fitted above.

from firstlight.timing.measurement import measure

events, event = 4096, 20 * 4
n = events * event
move, target, source = ways[transfer]
a, b = fits[transfer]


def send(parts):
    for part in parts:
        move(*part)


predicted, measured, rows = [], [], []
for some in (1, 8, 64, 512, 4096):
    cuts = [slice(low, low + some * event) for low in range(0, n, some * event)]
    parts = [(target[cut], source[cut]) for cut in cuts]
    predicted.append(len(parts) * a + n / b)
    measured.append(measure(send, parts, budget=0.3).median)
    rows.append((f"{some}", quantity(predicted[-1], "s"), quantity(measured[-1], "s")))

speedup_predicted = predicted[0] / predicted[-1]
speedup_measured = measured[0] / measured[-1]
speedups = f"{speedup_predicted:.1f}", f"{speedup_measured:.1f}"
rows.append(("all at once, times as fast", *speedups))
head = ("events in a transfer", "predicted", "measured")
show_table(f"4096 events, {transfer}", head, rows)
apart = np.abs(np.log(np.divide(predicted, measured))).max()
worst_row = f"{np.exp(apart):.2f} ×"
print(f"worst row: {worst_row}; in the fit: {off[transfer]}")

# %%
# So "batch your transfers" has a measure: once a transfer carries several times
# :math:`n_{1/2}`, a bigger batch saves little more. (The rows' sizes lie between the
# fitted ones.)
#
# Pageable and pinned
# -------------------
#
# The operating system may move a *page* of memory, or put it onto the disk. A GPU
# fetches data by itself while the CPU does other work (:term:`direct memory access`,
# DMA), so it cannot use a page that may move. For ordinary, *pageable* memory, the
# driver therefore copies your bytes piece by piece into a buffer that does not move,
# much as a pipe does. From *pinned* (page-locked) memory the GPU fetches directly,
# which may come close to the :math:`b` of PCIe, and your program can go on meanwhile.
#
# Many programs have ``x.pin_memory().to(device, non_blocking=True)`` in their loop.
# This can be slower than the plain ``x.to(device)``, says PyTorch's `guide`__: in both,
# the CPU copies every byte once, but the plain call can send one piece while it copies
# the next. How long is that copy, compared with the transfer?
#
# __ https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html

x = torch.from_numpy(outgoing)
kept = torch.zeros(largest, dtype=torch.uint8)
to_kept = measure(kept.copy_, x, budget=0.3).median
rows = [
    (link, quantity(largest / b, "s"), f"{to_kept * b / largest:.1f} ×")
    for link, b in links.items()
]
caption = f"{quantity(largest, 'B')}; this CPU copies them in {quantity(to_kept, 's')}"
head = ("link", "transfer (model)", "copy ÷ transfer")
show_table(caption, head, rows)

# %%
# So pin once, before the loop, the memory that many transfers use, with
# ``torch.empty(n, pin_memory=True)``. A ``DataLoader`` with ``pin_memory=True`` pins in
# a thread beside your loop. Pinned memory cannot be swapped out, so other programs have
# less.
#
# *Fresh* memory costs time, too, because the operating system finds a page only when
# the program first writes to it (a :term:`page fault`).

# folded: Count the page faults of fresh memory

import mmap

try:
    import resource
except ImportError:  # Windows does not count them like this
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
print(f"{largest // mmap.PAGESIZE:,} pages of {mmap.PAGESIZE:,} bytes; page faults:")
print(f"asking {asked:,}, first writing {first:,}, again {again:,}")
print(
    "(Python itself may add a few; if the system uses larger pages, there are fewer.)"
)

# %%
# ``x.cpu()`` of a tensor on a GPU makes new memory at every call. In a loop, copy into
# memory that you keep: ``kept.copy_(x)``.
#
# Other people measured the two kinds of memory on cards of their own. From pinned
# memory a slot keeps most of what it promises; from ordinary memory it does not.
#
# .. measured-by-others:: pinned-h200 pinned-gtx1080 pageable-t4 latency-v100
#
# When ``non_blocking=True`` is unsafe
# ------------------------------------
#
# From pinned memory, ``to(device, non_blocking=True)`` adds the copy to the GPU's
# *stream*, its queue of work, and may return before a byte has moved. What you launch
# on the same stream comes after it, but *your program* does not wait. Here a
# ``ToyStream`` takes the GPU's place, a thread that does what is launched, in order.

from time import perf_counter, sleep

from firstlight.timing.toy_stream import ToyStream

queue = ToyStream("GPU")
result = np.array([1.0, 2.0, 3.0])  # it is "on the GPU"
back = np.full(3, -1.0)

queue.launch(sleep, 0.02)  # earlier work
queue.launch(np.copyto, back, result)  # back.copy_(result, non_blocking=True)
read_early = back.copy()
queue.synchronize()  # torch.cuda.synchronize()
print(f"read at once: {read_early}, after the wait: {back}")

# %%
# Without an error or a warning, the early reading gives what happened to be there.
# ``x.to("cpu", non_blocking=True)`` is such a copy. In the other direction, a loop
# fills one pinned buffer again and again, and sends it:


def send_batches(careful):
    buffer = np.zeros(2)  # one pinned buffer for all batches
    arrived = [np.full(2, -1.0) for _ in range(3)]
    queue.launch(sleep, 0.02)  # earlier work
    copied = queue.record()
    for i, target in enumerate(arrived):
        if careful:
            copied.synchronize()  # the buffer is free when its last copy is done
        buffer[:] = i
        queue.launch(np.copyto, target, buffer)
        copied = queue.record()
    queue.synchronize()
    return [int(batch[0]) for batch in arrived]


print("batches 0, 1, 2 arrived as", send_batches(careful=False), "without the wait")
print("batches 0, 1, 2 arrived as", send_batches(careful=True), "with it")

# %%
# Without the wait, a model trains on the last batch three times. The mark in the stream
# is an *event*; in PyTorch, ``sent = torch.cuda.current_stream().record_event()``, and
# then ``sent.synchronize()``.

# folded: On a GPU: the same early reading

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
# From `pageable memory`__, the CPU copies during the call, so that little can overlap.
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
#
# Overlap: copy in, work, copy out
# --------------------------------
#
# PCIe carries both ways at the same time, and the GPU computes meanwhile. So cut the
# data into :math:`m` chunks, and give each of the three stages a stream: while chunk 2
# is worked on, chunk 3 comes in and chunk 1 goes out. If each stage of a chunk takes
# :math:`a + n/(m\,b)`, then
#
# .. math::
#
#     t(m) = (m + 2) \left( a + \frac{n}{m\,b} \right).
#
# More chunks overlap more, and pay :math:`a` more often. In the toy streams below, a
# stage takes its bytes, *sleeps* for the time of the law, with a latency and a
# bandwidth that were chosen, and delivers. The order, the waiting, and the results are
# real.

# folded: Three toy streams, and a stage

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
# The streams know nothing of each other. ``record`` puts an event into one, and
# ``wait_event`` lets the next one wait for it. The host waits only at the end, for each
# stream in turn.


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
# Check first, also without the events. Then predict, and measure: the median of three
# runs.

from operator import itemgetter

exact = np.sqrt(data.astype(np.float64))
for chunks, waits in ((1, True), (7, True), (7, False)):
    _, result, _ = pipeline(chunks, waits)
    right = np.allclose(result, exact, rtol=2**-23, atol=0)
    label = f"in {chunks}, {'with' if waits else 'without'} events:"
    print(f"{label:<22}{'right' if right else 'WRONG'}")

tried = [1, 2, 4, 8, 16, 32, 64]
runs = {m: sorted((pipeline(m) for _ in range(3)), key=itemgetter(0))[1] for m in tried}
best = min(tried, key=model)
overlap_predicted, overlap_measured = model(1) / model(best), runs[1][0] / runs[best][0]

rows = [(f"{m}", quantity(model(m), "s"), quantity(runs[m][0], "s")) for m in tried]
gains = f"{overlap_predicted:.2f}", f"{overlap_measured:.2f}"
rows.append((f"{best} chunks, times as fast", *gains))
head = ("chunks", "predicted", "measured")
show_table("Three stages on toy streams", head, rows)

# %%
# (Waking the thread of each stage adds a little latency that the model lacks.) Dashed
# is the predicted end, and hatched is waiting.

# measured figure

lanes = ["host", "copy in", "compute", "copy out"]
WAIT = {"fill": False, "hatch": "////", "ec": "black"}
NUMBER = {"ha": "center", "va": "center", "color": "#fefefe", "size": 9}
fig, axes = plt.subplots(2, sharex=True, figsize=(7.2, 4.2), layout="constrained")
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
    ax.axvline(1e3 * model(chunks), ls="--", color=GREY, zorder=0)
    ax.set_title(f"chunks: {chunks}, time: {1e3 * time:.0f} ms", loc="left", size=11)
axes[1].set_xlabel("ms on toy streams")
times_as_fast = f"{overlap_measured:.1f} times as fast as in one"
title = f"In {best} chunks the stages overlap: {times_as_fast}"
fig.suptitle(title)
fig.set_label(f"Two Gantt charts of a host and three lanes. {title}.")
plt.show()

# %%
# The pipeline has to fill and to drain: that is the 2 in :math:`m + 2`.
#
# On a CUDA GPU, ``wait_stream`` records an event in one stream and lets another wait
# for it. ``record_stream`` tells PyTorch not to reuse the memory while a second stream
# uses it. The memory on the host must be pinned, or little overlaps.


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
# From the fits above, predict :math:`m` times the slower of a chunk's two copies, plus
# the faster one once. (The square root is as good as free.)

# folded: On a GPU: predict and measure the pipeline

if on_cuda:
    n = 2**26 + 1  # numbers, of 4 bytes
    host_in = torch.rand(n).pin_memory()
    host_out = torch.empty(n, pin_memory=True)
    streams = [torch.cuda.Stream() for _ in range(3)]
    both = [fits[f"{way} the GPU, pinned"] for way in ("to", "from")]
    rows = []
    for m in (1, 2, 4, 8, 16, 32):
        stages = [a + 4 * n / m / b for a, b in both]
        expected = sum(stages) + (m - 1) * max(stages)
        time = measure(gpu_pipeline, m, host_in, host_out, *streams, device=device)
        rows.append((f"{m}", quantity(expected, "s"), quantity(time.median, "s")))
    show_table("Copies both ways on this GPU", head, rows)
    assert torch.allclose(host_out.double(), host_in.double().sqrt(), rtol=1e-6)
else:
    print("No CUDA GPU here: this cell measured nothing.")

# %%
# Where this stops being true
# ---------------------------
#
# - *Waiting is part of* :math:`a`. If you put many copies into a stream and wait once,
#   you pay less than :math:`m\,a`.
# - *PCIe is shared* by several GPUs and disks, and a card may have 8 or 4 lanes, not
#   16. With one engine for copies, the two directions take turns.
# - *Gaps.* Every second column of a table is not one block of bytes: PyTorch gathers it
#   first.
# - *One memory for both.* On Apple's chips, CPU and GPU use the same memory. Still,
#   ``x.to("mps")`` makes a copy. :term:`Managed memory <managed memory>`
#   (``numba.cuda.managed_array``) looks like one memory on any machine, but over PCIe
#   its pages are transferred when they are touched: many small transfers that the code
#   does not show.
# - *A faster link*, such as Grace Hopper's :spec:`NVLink-C2C bandwidth`, has a *larger*
#   :math:`n_{1/2}` with the same :math:`a`.
#
# Exercise
# --------
#
# Write a function that gives the number of chunks for which
# :math:`t(m) = (m + 2)(a + n/(m\,b))` is least. What happens below :math:`n_{1/2}`?
# Within one percent of the least time is right, however you find the number.


def chunks_for(n, a, b): ...


# %%

# folded: What check does

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


# %%

print(check(chunks_for))

# %%

# solution


def chunks_for_solution(n, a, b):
    # t(m) = a m + 2 n / (b m) + what does not depend on m
    return max(1, round((2 * n / (a * b)) ** 0.5))


print(check(chunks_for_solution))

# %%
# The best number is near the square root of :math:`2\,n/n_{1/2}`. Below
# :math:`n_{1/2}`, cutting makes it slower.
#
# Three lines to remember
# -----------------------

# remember

a, b = fits[transfer]
print(
    "1. t = a + n/b, roughly. Below n½ = a b you pay for latency, above it for the\n"
    f"   bytes. Here (copies {transfer}) n½ is {quantity(a * b, 'B')}.\n"
    "2. Batch what is below, overlap what is above, and predict what it is worth:\n"
    f"   {speedup_predicted:.1f} times as fast predicted,"
    f" {speedup_measured:.1f} measured (worst row: {worst_row});\n"
    f"   {overlap_predicted:.2f} predicted, {overlap_measured:.2f} measured (toy).\n"
    "3. Reuse memory, pin it before the loop, and wait before you read."
)
