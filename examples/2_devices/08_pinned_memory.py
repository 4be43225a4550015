"""
What is pinned memory, and when does it hurt?
=============================================

You have found a training loop on the internet, and there a batch goes to the GPU like
this: ``x.pin_memory().to(device, non_blocking=True)``. A plain ``x.to(device)`` would
do. What is the rest of the line for?

*Pinned* memory is memory that your operating system has promised to leave where it
is, so that a GPU can fetch from it directly. That sounds fast, and it may be. But
this line can also be the slower of the two, and a small change to it sends wrong
numbers to your GPU without any error. **Write down what you think it saves: a tenth,
a half, or nothing.**

**Needs:** :doc:`/tutorials/2_devices/04_small_copies`. A GPU is not needed.
"""

# %%
# Copy this: pin_memory and non_blocking
# --------------------------------------
#
# On your own data, give the loader ``num_workers=2``, processes that prepare batches.

import torch
from torch.utils.data import DataLoader, TensorDataset

has_cuda = torch.cuda.is_available()  # an NVIDIA or AMD GPU
device = torch.device("cuda" if has_cuda else "cpu")

data = TensorDataset(torch.rand(1000, 20), torch.rand(1000))
loader = DataLoader(data, batch_size=250, shuffle=True, pin_memory=has_cuda)
for x, y in loader:
    x = x.to(device, non_blocking=True)
    y = y.to(device, non_blocking=True)
    # ... train on x and y

print("the last batch is on", x.device)

# %%
# In short:
#
# - *Pin with the loader*, and give it workers. Then it pins in a thread of its own,
#   beside your loop. Without them, as above, it pins *in* the loop. On Windows,
#   macOS and, since Python 3.14, Linux, workers need the loop under ``if __name__ ==
#   "__main__":``. *Only dense CPU tensors can be pinned* means that your dataset has
#   put its tensors on the GPU already: let it return the CPU's.
# - *Or pin once.* For an array that you send many times, ``buffer = torch.empty(shape,
#   pin_memory=True)`` before the loop.
# - *Don't pin in the loop* with ``x.pin_memory()``, unless you have measured that it
#   helps. ``x.is_pinned()`` tells you whether ``x`` is pinned.
# - *With Numba or CuPy*, a pinned array is a NumPy array that you fill:
#   ``a = cuda.pinned_array(shape, dtype)``, or CuPy's ``cupyx.empty_pinned(shape,
#   dtype)``. ``with cuda.pinned(a):`` pins one that you have, inside the block. Then
#   ``cuda.to_device(a, stream=s)`` and ``copy_to_host(out, stream=s)`` on a stream
#   ``s = cuda.stream()`` don't wait, but ``s.synchronize()`` does.
# - *Wait before you touch it.* After ``to(device, non_blocking=True)``, don't write
#   into the array until the copy is done. After ``to("cpu", non_blocking=True)``, don't
#   read it.
#
# What is it worth?
# -----------------
#
# We sent 64 MiB to an H100, and fetched them back, from ordinary memory and from memory
# that was pinned before the clock started:
#
# .. list-table:: 64 MiB and an H100
#    :header-rows: 1
#
#    * - from or into
#      - to the GPU
#      - from the GPU
#    * - ordinary memory
#      - :timing:`pinned-memory median "to the GPU, pageable/cuda:0/n=67108864"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`pinned-memory median "from the GPU, pageable/cuda:0/n=67108864"
#        @nvidia-h100-80gb-hbm3`
#    * - pinned beforehand
#      - :timing:`pinned-memory median "to the GPU, pinned/cuda:0/n=67108864"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`pinned-memory median "from the GPU, pinned/cuda:0/n=67108864"
#        @nvidia-h100-80gb-hbm3`
#
# To the GPU, the pinned copy is :timing:`pinned-memory speedup "to the GPU,
# pinned/cuda:0/n=67108864"/"to the GPU, pageable/cuda:0/n=67108864"
# @nvidia-h100-80gb-hbm3` as fast. It reached five sixths of what the card's slot can do
# on paper, :spec:`PCIe 5 x16 bandwidth`, and the one from ordinary memory less than an
# eighth. But a batch is rarely that large. **Do you expect the same factor for 16 kB?**
#
# .. holds::
#
#    way = "pinned-memory/to the GPU, {}/cuda:0/n=67108864".format
#    least = 2**26 / spec("PCIe 5 x16", "bandwidth")
#    near(least / median(way("pinned")), 5 / 6, 0.02)
#    0.11 < least / median(way("pageable")) < 1 / 8

# folded: The arrays that we copy

import numpy as np

from firstlight import Bench, best_device

device = best_device()
has_gpu, on_cuda = device.type != "cpu", device.type == "cuda"
largest = 2**26
rng = np.random.default_rng(seed=1)
outgoing = rng.integers(256, size=largest, dtype=np.uint8)
incoming = np.ones_like(outgoing)
ways = {"copy in memory": (np.copyto, incoming, outgoing)}
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

# %%

# folded: Check, on an odd size, that every byte arrives

n = 1_000_003
for label, (move, target, source) in ways.items():
    move(target[:n], source[:n])
    arrived, expected = (torch.as_tensor(side[:n]).cpu() for side in (target, source))
    assert torch.equal(arrived, expected), f"{label}: not what was sent"
print(f"{', '.join(ways)}: all bytes arrived")

# %%

# folded: Time each way, from 64 bytes to 64 MiB, on three computers

sizes = 2 ** np.arange(6, 27, 4)
bench = Bench("pinned-memory")
for label, (move, target, source) in ways.items():
    for n in sizes.tolist():
        bench.time(label, move, target[:n], source[:n], n=n)
bench.plot()

# %%
# Here is what the H100 did, for copies of *n* bytes:
#
# .. timings:: pinned-memory
#    :plot:
#    :machine: nvidia-h100-80gb-hbm3
#    :rows: to the GPU, pageable; to the GPU, pinned; to the GPU, pinned each time
#
# On the H100, a copy of 16 kB took :timing:`pinned-memory median "to the GPU,
# pageable/cuda:0/n=16384" @nvidia-h100-80gb-hbm3` from ordinary memory, and
# :timing:`pinned-memory median "to the GPU, pinned/cuda:0/n=16384"
# @nvidia-h100-80gb-hbm3` from pinned memory. Most of that is :term:`latency`, which
# pinning doesn't shorten. So first :doc:`make your copies larger
# </tutorials/2_devices/04_small_copies>`.
#
# Why the driver copies twice
# ---------------------------
#
# Your operating system hands out memory in pieces of a few kilobytes, called *pages*.
# It may move a page while your program runs, or write it to the disk. The CPU always
# knows where the page is now. A GPU doesn't. It fetches data from the computer's memory
# by itself, and if somebody moved a page in the middle of that, it would fetch somebody
# else's bytes. So over :term:`PCIe`, a copy is made only from pages that are guaranteed
# to stay. Memory with that guarantee is :term:`pinned`, or page-locked. All other
# memory is :term:`pageable`.
#
# It's like a courier who collects parcels only from the loading dock, never from your
# office. If your parcel is in the office, somebody has to carry it down first.

# figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY, ORANGE
from firstlight.timing.specs import spec

fig, ax = plt.subplots(figsize=(7.2, 3.0), layout="constrained")
arrow = {"arrowstyle": "-|>", "lw": 1.8, "mutation_scale": 16, "shrinkA": 0}
boxes = [
    (0, 1, "your array,\npageable", BLUE),
    (2, 1, "driver's buffer,\npinned", ORANGE),
]
boxes += [(2, 0, "your array,\npinned", ORANGE), (4, 0.5, "the GPU's\nmemory", GREY)]
for left, low, text, colour in boxes:
    box = plt.Rectangle((left, low), 1.25, 0.6, fc="none", ec=colour, lw=2.5)
    ax.add_patch(box)
    ax.text(left + 0.625, low + 0.3, text, ha="center", va="center", size=10)
for start, end in (((1.25, 1.3), (2, 1.3)), ((3.25, 1.3), (4, 0.9))):
    ax.annotate("", end, start, arrowprops=arrow | {"color": BLUE})
ax.annotate("", (4, 0.7), (3.25, 0.3), arrowprops=arrow | {"color": ORANGE})
ax.text(1.625, 1.42, "the CPU\ncopies", ha="center", size=10)
ax.text(3.72, 1.27, "the GPU\nfetches", ha="left", size=10)
ax.text(3.72, 0.12, "the GPU fetches", ha="left", size=10)
ax.set(xlim=(-0.1, 5.35), ylim=(-0.1, 1.8))
ax.axis("off")
fig.suptitle("From ordinary memory, every byte is copied twice", weight="bold")
fig.set_label(
    "Boxes and arrows. From your array in pageable memory, the CPU copies into the "
    "driver's pinned buffer, and the GPU fetches from there. From an array in pinned "
    "memory, the GPU fetches directly."
)
plt.show()

# %%
# The *driver* does the carrying. NVIDIA's driver copies your bytes, piece by piece,
# into a pinned buffer of its own, and the GPU fetches them from there, by what the
# manuals call :term:`direct memory access`. The CPU copies one piece while the GPU
# fetches the piece before, so the slower of the two sets the pace. On a fast link, that
# is the CPU. AMD's driver pins the pages of a large array for the time of the copy, so
# there the CPU copies nothing. And where CPU and GPU :doc:`share one memory </cards>`,
# all of this matters less.
#
# Beside our H100, one core of the CPU needs :timing:`pinned-memory median "copy in
# memory/cpu/n=67108864" @nvidia-h100-80gb-hbm3` to copy 64 MiB within its own memory.
# The transfer from ordinary memory took nearly as long, and that from pinned memory
# :timing:`pinned-memory median "to the GPU, pinned/cuda:0/n=67108864"
# @nvidia-h100-80gb-hbm3`, an eighth of it.
#
# .. holds::
#
#    pinned = median("pinned-memory/to the GPU, pinned/cuda:0/n=67108864")
#    near(pinned, 1e-5 + 2**26 / spec("PCIe 5 x16", "bandwidth"), 0.25)
#    pageable = median("pinned-memory/to the GPU, pageable/cuda:0/n=67108864")
#    within = median("pinned-memory/copy in memory/cpu/n=67108864")
#    near(pageable, within, 0.15) and near(within / pinned, 8, 0.05)
#
# People who ran a program called `clpeak <https://github.com/krrishnarraj/clpeak>`__
# found a clear gain from pinned memory on three of the next four cards. The bars are
# what the links can do by their data sheets, and the marks are what clpeak's users
# measured:

# figure
clpeak = {  # GB/s from ordinary and from pinned memory, and the slot
    "T4": (4.73, 12.17, "PCIe 3 x16"),
    "GTX 1660 Ti": (6.85, 12.33, "PCIe 3 x16"),
    "V100": (12.06, 12.59, "PCIe 3 x16"),
    "RTX 4090": (20.93, 26.87, "PCIe 4 x16"),
}
fig, ax = plt.subplots(figsize=(7.2, 2.8), layout="constrained")
for row, (*rates, slot) in enumerate(clpeak.values()):
    ax.barh(row, spec(slot, "bandwidth") / 1e9, 0.5, fc=GREY, alpha=0.25)
    for rate, colour, mark in zip(rates, (BLUE, ORANGE), "os", strict=True):
        ax.plot(rate, row, mark, color=colour, mfc="none", mew=2, ms=9)
ax.set_yticks(range(len(clpeak)), clpeak)
ax.invert_yaxis()
ax.set_xlabel("GB/s to the GPU (circle: ordinary memory, square: pinned; by clpeak)")
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("From pinned memory, a link does most of what it can")
fig.set_label(
    "Rates to four GPUs, measured by clpeak's users, beside the rates of their slots. "
    "From pinned memory all reach most of it. From ordinary memory a T4 reaches a "
    "third, a GTX 1660 Ti less than half, an RTX 4090 two thirds, a V100 even more."
)
plt.show()

# %%
# The squares come near the ends of the bars. The circles lie anywhere, because they
# depend on the CPU, so measure yours. If you have to guess, take :spec:`pageable copy
# bandwidth`, a round number that we chose from the four circles and one more card. Of
# four other cards, it's good enough for two, and wrong by a factor of more than five
# for the other two:
#
# .. measured-by-others:: pageable-h100 pageable-a100 pageable-gtx1080 pageable-mi300x
#
# When does it hurt?
# ------------------
#
# *When you pin inside the loop.* ``x.pin_memory()`` makes a new pinned array, and the
# CPU copies every byte of ``x`` into it. It carries the parcel down itself, as the
# driver would have done, only with more cores if it's a large one. And only when the
# last byte is there may the GPU begin. PyTorch's own `guide`__ warns that this is
# usually slower than the plain line.
#
# __ https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
#
# On our H100, a batch of 16 kB took :timing:`pinned-memory median "to the GPU,
# pageable/cuda:0/n=16384" @nvidia-h100-80gb-hbm3` by the plain line. It took half as
# long again, :timing:`pinned-memory median "to the GPU, pinned each
# time/cuda:0/n=16384" @nvidia-h100-80gb-hbm3`, if it was pinned each time and the
# program waited for each copy. With ``non_blocking=True``, as in the line at the top,
# it doesn't wait, and then the two were nearly alike, as you see in the H100's tab
# below. Of the three guesses, the last was right: the line saved *nothing*. So measure
# it with a batch of your size, or let the ``DataLoader`` pin with workers.
#
# .. holds::
#
#    late = "pinned-memory/to the GPU, pinned each time/cuda:0/n={}".format
#    simply = median("pinned-memory/to the GPU, pageable/cuda:0/n=16384")
#    near(median(late(2**14)) / simply, 1.5, 0.05)
#    plain, line = printed(r"^batch.*: ([\d.]+) µs")
#    near(plain, line, 0.1)
#    near(median(late(2**18)), 8e-3, 0.05) and near(median(late(2**26)), 8e-3, 0.05)
#    within = "transfers/within the CPU's memory/cpu/n=262144"
#    near(median(within, "nvidia-h200"), 8e-3, 0.05)
#    "cpu-contended" in row(within, "nvidia-h200").verdicts
#    median(late(2**26)) < pageable
#    plainly = "pinned-memory/to the GPU, pageable/cuda:0/n=67108864"
#    median(late(2**26), "nvidia-h200") < median(plainly, "nvidia-h200")
#
# .. dropdown:: Why do the large batches, pinned each time, take so long in the figure?
#
#    That's most likely the fault of a neighbour, and not of pinning. Into pinned memory
#    PyTorch copies anything large with all cores of the CPU, here sixteen, and is done
#    when the *last* of them is done. If another program keeps one core busy, a thread
#    has to wait for its turn, which Linux gives it every few milliseconds. The H200's
#    computer took about as long as those batches, :timing:`transfers median "within the
#    CPU's memory/cpu/n=262144" @nvidia-h200`, even when PyTorch copied 262 kB within
#    the CPU's own memory, with all cores. If it happens to you, leave a core free:
#    ``torch.set_num_threads(15)``. ``Bench`` calls such rows ``cpu-contended``. Even
#    so, on both computers 64 MiB took less time than by the plain line, for which the
#    driver seems to use one core.

from torch.utils.benchmark import Timer

batch, cores = torch.rand(250, 20), torch.get_num_threads()
lines = ["batch.to(device)"]
if has_cuda:
    lines += ["batch.pin_memory().to(device, non_blocking=True)"]
for line in lines:
    timer = Timer(line, globals=globals(), num_threads=cores)
    print(f"{line}: {1e6 * timer.blocked_autorange().median:.1f} µs")

# %%
# *When you pin a lot.* Nobody can move pinned pages, so all other programs have to live
# with what is left. Pin the buffers that you use, and not the whole data set. If it's
# too much, CUDA says *out of memory*: :ref:`doctor-host-memory-full`.
#
# Read too early
# --------------
#
# With ``non_blocking=True`` and pinned memory, the call only puts the copy into a queue
# of the GPU and returns, perhaps before a single byte has moved. What you compute *on
# the GPU* afterwards stands behind the copy in the same queue, so it's safe. But your
# program on the CPU doesn't wait. So that everybody can try it, a ``ToyStream`` takes
# the place of the GPU, and a second thread works through it in order. **What will be
# printed first?**

from time import sleep

from firstlight.timing.toy_stream import ToyStream

queue = ToyStream("GPU")
result = np.array([1.0, 2.0, 3.0])  # it is "on the GPU"
back = np.full(3, -1.0)

queue.launch(sleep, 0.02)  # earlier work
queue.launch(np.copyto, back, result)  # back.copy_(result, non_blocking=True)
print("read at once:  ", back.copy())
queue.synchronize()  # torch.cuda.synchronize()
print("after the wait:", back)

# %%
# You got whatever happened to be in the array, without an error and without a warning.
# A plain ``x.cpu()`` would have waited for you. On a real GPU, whose queue PyTorch
# calls a :term:`stream`, it's no better. We fetched 64 MiB of sevens from an H100 and
# looked at the last one too early: it was a 0, and after the wait a 7. And a small copy
# may be done before you look, so your program is right in the test, and wrong on the
# large data.

# folded: The same on a GPU

if on_cuda:
    on_gpu.fill_(7)
    landing.fill_(0)
    torch.cuda.synchronize()
    landing.copy_(on_gpu, non_blocking=True)
    early = landing[-1].item()
    torch.cuda.synchronize()
    print(f"on the GPU: 7; read at once: {early}; after the wait: {landing[-1]}")
else:
    print("This cell needs an NVIDIA or AMD GPU.")

# %%
# One buffer, three batches
# -------------------------
#
# Copies *to* the GPU are safe, as long as nobody touches the array that is being sent.
# But sooner or later, everybody who pins one buffer and reuses it writes this loop. It
# fills the buffer with batch 0, then with 1, then with 2, and sends it three times.
# **Which batches will arrive?**


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


print("without the wait: arrived as", send_batches(careful=False))
print("with the wait:    arrived as", send_batches(careful=True))

# %%
# Without the wait, your model trains on the last batch three times. It's as if you had
# changed the letter in the envelope while it was still lying on the dock. Nothing
# fails, and the loss may even look better than it should.
#
# The cure is a mark in the queue behind each copy, called an *event*. Before you fill
# the buffer again, wait for the event of its last copy. In PyTorch:
#
# .. code-block:: python
#
#     x = buffer.to(device, non_blocking=True)
#     copied = torch.cuda.current_stream().record_event()
#     ...                    # prepare the next batch, somewhere else
#     copied.synchronize()   # now the buffer is free
#     buffer.copy_(next_batch)
#
# The ``DataLoader`` at the top makes a new pinned array for every batch, and PyTorch
# doesn't give that memory to anybody else while it is being sent. So there you're safe.
#
# Your turn
# ---------
#
# Write the loop with one pinned buffer. ``batches`` gives you one NumPy array after the
# other, and it takes a while to prepare each of them. ``stream.copy(buffer)`` starts to
# copy the buffer to the GPU and returns at once. ``stream.record_event()`` returns an
# event behind everything that was started so far, and ``event.synchronize()`` waits for
# it.
#
# All batches have to arrive, and a copy should go on *while the next batch is being
# prepared*, because otherwise ``non_blocking`` gains you nothing.
#
# Put your answer where the dots are, and run ``firstlight try 08_pinned_memory.py``.


def send_all(batches, buffer, stream): ...


# %%

# folded: The checker


class LateStream:
    """A stream that does everything as late as it may: when somebody waits for it."""

    def __init__(self):
        self.waiting, self.arrived = [], []

    def copy(self, buffer):
        self.waiting.append(buffer)

    def record_event(self):
        return Event(self, len(self.arrived) + len(self.waiting))


class Event:
    def __init__(self, stream, number):
        self.stream, self.number = stream, number

    def synchronize(self):
        while len(self.stream.arrived) < self.number:
            self.stream.arrived.append(self.stream.waiting.pop(0).copy())


# %%

# folded: What the checker tries


def find_problem(answer, count):
    stream, alone = LateStream(), []

    def batches():
        for number in range(count):
            if number:
                alone.append(not stream.waiting)
            yield np.full(4, float(number))

    answer(batches(), np.full(4, -1.0), stream)
    stream.record_event().synchronize()
    got = [int(batch[0]) for batch in stream.arrived]
    if got != list(range(count)):
        return f"batches {list(range(count))} arrived as {got}"
    if any(alone):
        return "all arrived, but no copy went on while the next batch was prepared"
    return ""


def check(answer):
    for count in (3, 1, 0, 7):
        try:
            problem = find_problem(answer, count)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With {count} batches: {problem}."
    return "Right: every batch arrived, and was sent while the next one was prepared."


# %%

print(check(send_all))

# %%
# Three lines to remember
# -----------------------

# remember

print("""\
1. A GPU fetches from pinned memory. From ordinary memory, NVIDIA's driver lets the CPU
   copy every byte first, and on a fast link the CPU is usually the slower of the two.
2. Let a DataLoader with workers pin, or pin once before the loop. x.pin_memory() in it
   may be slower than the plain x.to(device), so measure it.
3. After a copy with non_blocking=True, wait before you read what it brings back, and
   before you refill what it sends.""")

# %%
# Solution
# --------

# solution


def send_all_solution(batches, buffer, stream):
    copied = None
    for batch in batches:
        if copied:
            copied.synchronize()  # the buffer is free again
        buffer[:] = batch
        stream.copy(buffer)
        copied = stream.record_event()


print(f"Our solution: {check(send_all_solution)}")
