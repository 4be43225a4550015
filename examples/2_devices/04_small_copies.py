"""
Why are 4,096 small copies slower than one big one?
===================================================

Your detector has just recorded 4,096 events of 80 bytes. You want to analyse them on a
GPU, so they have to be copied into its memory. You can send them one by one, or collect
them and send them all together. It's the same number of bytes.

**Write down a guess: how many times as long will the small copies take?** By the end
you'll be able to predict it for your own computer from two numbers.

**Needs:** any computer, and some PyTorch. Without a GPU, your copies go from one place
in your computer's memory to another, and you compare them with what a real GPU did.
"""

# %%
# Try it
# ------
#
# ``send`` makes one copy for each part that you give it. We give it 4,096 parts of one
# event, and then one part of 4,096 events.

# folded: The imports, and the device

import torch

from firstlight import Bench, best_device
from firstlight.display import quantity

device = best_device()

# %%

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
# On an H100, the small copies took about :timing:`small-copies median "1 event a copy"
# @nvidia-h100-80gb-hbm3`, and the big one took :timing:`small-copies median "4096
# events a copy" @nvidia-h100-80gb-hbm3`. The big one was :timing:`small-copies speedup
# "4096 events a copy"/"1 event a copy" @nvidia-h100-80gb-hbm3` as fast, for exactly the
# same bytes. Without a GPU, within the memory of an AMD EPYC, it was
# :timing:`small-copies speedup "4096 events a copy"/"1 event a copy" @cpu` as fast. So
# it isn't only about GPUs. Every copy has a fixed cost. If your ratio is near 1, other
# programs most likely kept a core busy: close them, and run it again.
#
# .. holds::
#
#    each = median("small-copies/1 event a copy")
#    once = median("small-copies/4096 events a copy")
#    800 < each / once < 1250
#
# Where did the time go? Not into moving the bytes, because the big copy moves just as
# many. Think of sending books to a friend. The walk to the post office is just as long
# whether you carry one book or twenty. A copy also has to walk: your program calls
# PyTorch, PyTorch calls the :term:`driver`, the driver starts the copy, and at the end
# a message comes back to say that the data have arrived. The time for all of this is
# called the :term:`latency` of a copy.

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
ax.text(4.2, 1, "one walk", va="center", size=11)
ax.set_yticks((0, 1), ("8 small copies", "1 big copy"))
ax.set_xticks([])
ax.set_xlabel("time →   (hatched: the walk, filled: the bytes move; not to scale)")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("The same bytes, sent twice", weight="bold")
fig.set_label(
    "Two rows of bars over time, not to scale. Eight small copies: a long hatched bar, "
    "the walk, before each short filled bar of bytes. One big copy: one hatched bar, "
    "then all bytes in one filled bar. It ends after a third of the time."
)
plt.show()

# %%
# Two numbers describe a copy
# ---------------------------
#
# How could you measure the walk? Go there with almost nothing in your bag. And to see
# how fast the bytes flow, send so many that the walk no longer matters. So we time
# copies from 64 bytes to 64 MiB, from ordinary memory of the CPU (:doc:`pageable
# </tutorials/2_devices/08_pinned_memory>` in the legend).

# folded: The arrays that we copy

import numpy as np

has_gpu = device.type != "cpu"
largest = 2**26
rng = np.random.default_rng(seed=1)
outgoing = rng.integers(256, size=largest, dtype=np.uint8)
within = torch.Tensor.copy_, torch.ones(largest, dtype=torch.uint8)
ways = {"within the CPU's memory": (*within, torch.from_numpy(outgoing))}
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

# %%
# This is how long it took to copy *n* bytes to the H100:
#
# .. timings:: transfers
#    :plot:
#    :machine: nvidia-h100-80gb-hbm3
#    :rows: to the GPU, pageable
#
# On the left, the curve is flat, because nearly all of it is latency. Copying 64 bytes
# took :timing:`transfers median "to the GPU, pageable/cuda:0/n=64"
# @nvidia-h100-80gb-hbm3`, which is nearly the latency itself.
#
# On the right, the curve climbs roughly in step with the size. There, bytes divided by
# time is the :term:`bandwidth`: how many bytes arrive in a second once they flow. 64
# MiB took :timing:`transfers median "to the GPU, pageable/cuda:0/n=67108864"
# @nvidia-h100-80gb-hbm3`.
#
# **Stop for a minute here: how long would 4,096 copies of 64 bytes take?** They carry
# only a quarter of a megabyte. But they walk 4,096 times, and that adds up to five
# times what the 64 MiB took.
#
# .. holds::
#
#    one = 4096 * median("transfers/to the GPU, pageable/cuda:0/n=64")
#    near(one / median("transfers/to the GPU, pageable/cuda:0/n=67108864"), 5, 0.05)
#    # In the fold below: beside the H200, large copies of any size took the same time.
#    within = "transfers/within the CPU's memory/cpu/n={}".format
#    sizes = 2**18, 2**22, 2**26
#    all(near(median(within(size), "nvidia-h200"), 8e-3, 0.02) for size in sizes)

# folded: All curves: back from the GPU, and within the memory of three computers

# Within the memory beside the H200, large copies of any size took the same time. Most
# likely another program kept one of the cores busy: see 08_pinned_memory.
bench.plot()

# %%
# Here are both numbers, read off the ends of a curve:

transfer = "to the GPU, pageable" if has_gpu else "within the CPU's memory"
times = {t.n: t.median for t in bench.timings if t.label == transfer}

least, most = min(times), max(times)
latency = times[least]
bandwidth = most / times[most]
print(transfer)
print("  latency  ", quantity(latency, "s"))
print("  bandwidth", quantity(bandwidth, "B/s"))

# %%
# A copy of :math:`n` bytes then takes the walk, plus the time in which the bytes flow.
# If :math:`a` is the latency and :math:`b` the bandwidth, that is
#
# .. math::
#
#     t = a + \frac{n}{b}.
#
# If you send the same bytes in :math:`m` copies, you walk :math:`m` times, so :math:`t
# = m\cdot a + n/b`. That is why the small copies were slow.
#
# How big is big enough?
# ----------------------
#
# You want to collect events, but you don't want to wait for all 4,096 of them. **Are a
# hundred enough? Guess.**
#
# A good measure is the size at which you pay as much for the walk as for the bytes:
#
# .. math::
#
#     a = \frac{n}{b}, \qquad\text{so}\qquad n_{1/2} = a\cdot b.
#
# Such a copy reaches half of the bandwidth. Far below this size, more bytes cost next
# to nothing. Far above it, a bigger copy gains little.
#
# Let's work it out twice. First we take ``10e-6`` seconds, a round number, for the
# latency, and for the rate what :term:`PCIe` 4, the slot of many GPUs, promises on
# paper. Then we take the two numbers from above:

from firstlight.timing.specs import spec

half = 10e-6 * spec("PCIe 4 x16", "bandwidth")
print(f"PCIe 4: {quantity(half, 'B')}, or {half / 80:,.0f} events")
half = latency * bandwidth
print(f"here:   {quantity(half, 'B')}, or {half / 80:,.0f} events")

# %%
# On the way to the H100, this :term:`half-bandwidth size` is some 1,100 events. So a
# batch of a hundred, which feels big, still spends most of its time on the walk. If you
# have heard the advice to *batch your transfers*, you now know how big a :term:`batch`
# should be: several times :math:`n_{1/2}`, if your data already lie together.
#
# But collecting isn't free. You have to put the 4,096 arrays together first:

collecting = Bench("collecting")
gathering = collecting.time("np.stack", np.stack, list(events.numpy()))
print("np.stack of 4,096 events:", quantity(gathering.median, "s"))

# %%
# The CPU beside the H100 took :timing:`collecting median np.stack
# @nvidia-h100-80gb-hbm3` for that, far longer than the one big copy took. With the
# collecting included, the factor falls from a thousand to less than twenty. Copies of a
# hundred events walk only 41 times, which adds up to a fraction of what collecting
# took. So here collecting is the slower part, and batches of more than a hundred would
# gain little. It's cheaper to write each event into one array that you allocated
# beforehand.
#
# .. holds::
#
#    stacked = median("collecting/np.stack")
#    10 < each / (stacked + once) < 20
#    41 * median("transfers/to the GPU, pageable/cuda:0/n=64") < stacked / 3
#
# Does the formula hold?
# ----------------------
#
# **Predict it: how long will all events take in copies of 64?** That's 64 walks, and
# 328 kB that flow.

# folded: The prediction, and three more measurements


def predict(copies, total):
    return copies * latency + total / bandwidth


for some in (8, 64, 512):
    trial.time(f"{some} events a copy", send, in_copies_of(some), device=device)


# %%

print("events a copy  predicted   measured")
for some in (1, 8, 64, 512, 4096):
    predicted = predict(4096 / some, events.nbytes)
    time = trial[f"{some} event{'s' * (some > 1)} a copy"].median
    print(f"{some:13,}{quantity(predicted, 's'):>11}{quantity(time, 's'):>11}")

# %%
# On the H100 it holds to within a quarter in all rows but the last, although the times
# span a factor of hundreds. All events at once took less than predicted, and on the AMD
# EPYC less than half of it. Most likely that's because all our events fit into the
# CPU's own small and fast memory, its :term:`cache`, and the 64 MiB that gave us the
# bandwidth don't.
#
# .. dropdown:: And on another computer? A V100 and an A100, by others
#
#    The model is our formula. For the V100 it takes the round number from above, and
#    for the A100 the rate of its slot:
#
#    .. measured-by-others:: latency-v100 link-a100
#
# The small copies that you don't see
# -----------------------------------
#
# Nobody writes a loop of 4,096 copies on purpose. But we have all written these lines:
#
# .. code-block:: python
#
#     for x, y in loader:
#         loss = step(x, y)
#         print(loss.item())        # 4 bytes back to the CPU, at every step
#
#     for pixel in image_on_gpu.flatten():
#         if pixel > threshold:     # one copy for each pixel
#             ...
#
# Each of them waits until the GPU has finished everything before it, copies a few
# bytes, and pays the whole latency. The remedy is the same: keep the results on the
# GPU, and fetch them together. Collect ``loss.detach()`` in a list, and print
# ``torch.stack(losses).mean()`` every hundred steps. Compare all pixels in one
# operation, ``(image_on_gpu > threshold).sum()``. And a NumPy array that you give to a
# :term:`kernel` :doc:`in Numba </tutorials/3_kernels/01_first_kernel>` travels there
# and back at every call, so put it onto the GPU once.
#
# Thousands of small arrays, and you can't collect them?
# ------------------------------------------------------
#
# Then at least don't wait after each. PyTorch's `guide to copies`__ sends 1,000 tensors
# of 1,000 numbers in two ways. With a plain ``x.to(device)``, its :term:`profile` shows
# a wait behind every copy. With ``x.to(device, non_blocking=True)`` and one
# ``torch.cuda.synchronize()`` at the end, it shows a single wait, and the loop is
# faster, even from ordinary memory.
#
# We haven't timed copies in this way. However much it saves, you still launch thousands
# of copies where one would do.
#
# There is also :doc:`pinned memory </tutorials/2_devices/08_pinned_memory>`, from which
# a GPU can fetch directly. Alone, it doesn't help: with a wait after each copy, 64
# bytes from it took the H100 :timing:`pinned-memory median "to the GPU,
# pinned/cuda:0/n=64" @nvidia-h100-80gb-hbm3`, as long as from ordinary memory. For
# large copies, let the GPU :doc:`compute while the next data arrive
# </tutorials/2_devices/09_copy_and_compute>`.
#
# __ https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
#
# Your turn
# ---------
#
# Write the loop that collects. ``detector`` gives you one event after the other, each a
# NumPy array of 20 numbers. ``send(batch)`` copies one array to the GPU, with any
# number of events, one in each row. Call it with ``size`` events at a time, in the
# order in which they came, and as soon as a batch is full, because a detector may run
# for days.
#
# Put your answer where the dots are, and run ``firstlight try 04_small_copies.py``.


def collect(detector, size, send): ...


# %%

# folded: The checker


def find_problem(answer, count, size):
    given, arrived, taken = recorded(count), [], 0

    def detector():
        nonlocal taken
        for event in given:
            taken += 1
            yield event.copy()

    def send(batch):
        batch = np.array(batch)
        if batch.ndim != 2 or batch.shape[1] != 20:
            raise TypeError(f"send got an array of shape {batch.shape}, not (…, 20)")
        arrived.append((batch, taken))

    answer(detector(), size, send)
    got = [event for batch, _ in arrived for event in batch]
    copies = -(-count // size)
    if len(got) < count:
        some = f"only {len(got)} of {count} events arrived: send those left at the end"
        return some if got else "nothing arrived: call send(batch)"
    if not np.array_equal(np.reshape(got, (-1, 20)), given):
        return "the events that arrived are not those that were recorded, in order"
    if len(arrived) != copies or any(len(batch) > size for batch, _ in arrived):
        return f"it made {len(arrived)} copies, and {copies} of up to {size} would do"
    if any(taken > size * number for number, (_, taken) in enumerate(arrived, 1)):
        return "a full batch had to wait while more events came"
    return ""


# %%

# folded: What the checker tries


def recorded(count):
    return np.random.default_rng(seed=2).random((count, 20), dtype=np.float32)


def check(answer):
    for count, size in ((12, 4), (10, 4), (3, 5), (1, 1), (0, 4), (4096, 1000)):
        try:
            problem = find_problem(answer, count, size)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With {count} events and size = {size}: {problem}."
    return "Right: 4,096 events arrived in 5 copies, in order and in time."


# %%

print(check(collect))

# %%
# Three lines to remember
# -----------------------
#
# If your data don't lie together yet, collecting them takes time, too.

# remember

print("""\
1. The same n bytes in m copies take m·a + n/b, because each copy pays the latency a
   again, however little it carries.
2. Collect until one copy carries several times a·b. On the way to an H100, a·b was
   about 85 kB, or 1,100 of our events.
3. Small copies hide: in .item(), in print and if with a tensor on the GPU, and in a
   NumPy array that you give to a kernel.""")

# %%
# Solution
# --------

# solution


def collect_solution(detector, size, send):
    batch = []
    for event in detector:
        batch.append(event)
        if len(batch) == size:
            send(np.stack(batch))
            batch = []
    if batch:  # what is left at the end
        send(np.stack(batch))


print(f"Our solution: {check(collect_solution)}")
