"""
What is a GPU?
==============

A :term:`GPU` (graphics processing unit) is a second processor with memory of its own,
beside the :term:`CPU` (central processing unit) on which your program starts. A CPU has
a few cores, each built to finish one sequence of instructions as soon as it can. A GPU
has many small processors, its :term:`multiprocessors <multiprocessor>`, which together
hold thousands of such sequences and work on whichever are ready: each takes longer, but
far more of them finish in a second. This page is for anyone who wants to know what is
on the card before using one.

**You will learn**

- what sits where, how large it is and how fast it can be read;
- what a thread, a :term:`warp`, a block and a ":term:`CUDA core`" are;
- why a GPU wants thousands of threads at once;
- how to ask your own GPU for its numbers.

**Time:** 7 minutes. **Needs:** any computer, with a GPU or without.
"""

# %%
# The parts
# ---------
#
# The picture has the sizes and *bandwidths* (bytes that can be read or sent in a
# second) of one large card, from its :term:`data sheet`.

from firstlight.timing.ceilings import PER_CLOCK
from firstlight.timing.specs import spec, spec_of

chips = {  # multiprocessors, compute capability, warps that each holds, PCIe
    "GTX 1650": (16, (7, 5), 32, "PCIe 3 x16"),  # the one in laptops
    "RTX 4090": (128, (8, 9), 48, "PCIe 4 x16"),
    "H100 SXM": (132, (9, 0), 64, "PCIe 5 x16"),
}
in_a_warp = 32
number, capability, warps, slot = chips["H100 SXM"]
lanes = PER_CLOCK[capability][0]
ratio = spec("H100 SXM", "bandwidth") / spec(slot, "bandwidth")
vram, fast = (spec_of("H100 SXM").text(what) for what in ("memory", "bandwidth"))
narrow = spec_of(slot).text("bandwidth")

# %%

# folded: What draws a box, a grid of boxes and an arrow

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from firstlight.display import BLUE, GREEN, GREY, ORANGE


def box(x, y, wide, high, text="", colour=GREY, fill=0.0, size=10):
    ax.add_patch(Rectangle((x, y), wide, high, fill=False, ec=colour, lw=1.3))
    ax.add_patch(Rectangle((x, y), wide, high, fc=colour, alpha=fill, lw=0))
    ax.text(x + wide / 2, y + high / 2, text, ha="center", va="center", size=size)


def grid(x, y, wide, high, columns, rows):
    step, rise = wide / columns, high / rows
    for i in range(columns * rows):
        at = x + step * (i % columns), y + rise * (i // columns)
        ax.add_patch(Rectangle(at, 0.75 * step, 0.75 * rise, fc=ORANGE, lw=0))


def arrow(start, end):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "<->", "lw": 2.2})


# %%

# folded: What draws the host, the GPU and a multiprocessor


def draw_host():
    box(0, 24, 31, 38)
    ax.text(0, 63.5, "host: your computer", weight="bold")
    ax.text(2, 58, "CPU: few cores, large caches", size=9.5)
    for i in range(4):
        box(2 + 7 * i, 49, 6, 7.5, "core", BLUE, 0.35, 9)
    box(2, 42.5, 27, 5, "caches", BLUE, 0.15)
    arrow((15.5, 42.5), (15.5, 34))
    box(2, 26, 27, 8, "memory (RAM)", GREEN, 0.25)


def draw_gpu():
    box(49, 24, 51, 38)
    ax.text(49, 63.5, "device: a GPU (H100 SXM)", weight="bold")
    ax.text(51, 58, f"{number} multiprocessors", size=9.5)
    grid(51, 47.5, 47.4, 9, 22, number // 22)
    box(51, 42.5, 47, 3.5, "L2 cache", ORANGE, 0.15, 9)
    arrow((62, 42.5), (62, 34))
    ax.text(64, 38, fast, va="center", weight="bold")
    box(51, 26, 47, 8, f"memory of its own (VRAM), {vram}", GREEN, 0.25)


def draw_multiprocessor():
    ax.plot([51, 50, 50], [48.5, 48.5, 19], ":", color="black", lw=1.8)
    box(0, 0, 100, 19)
    ax.text(2, 15, "one multiprocessor:", weight="bold", size=10)
    ax.text(2, 11.3, f"{lanes} lanes that compute", size=9.5)
    for i in range(lanes // 32):
        grid(2 + 11 * i, 2, 10, 7.5, 8, 4)
    box(48, 2, 23, 7.5, "registers of all\nthreads it holds", GREEN, 0.25, 9)
    box(73, 2, 25, 7.5, "L1 cache and\nshared memory", GREEN, 0.25, 9)
    held = f"it holds {warps} warps of {in_a_warp} threads: {warps * in_a_warp:,}"
    ax.text(48, 13, held, size=10, va="center")


# %%

# figure
# sphinx_gallery_thumbnail_number = 1
fig, ax = plt.subplots(figsize=(7.2, 5), layout="constrained")
ax.set(xlim=(-0.5, 100.5), ylim=(-0.5, 66))
ax.axis("off")
draw_multiprocessor()
draw_host()
draw_gpu()
arrow((31, 30), (49, 30))
ax.text(40, 32.5, slot, ha="center")
ax.text(40, 25.5, narrow, ha="center", weight="bold")
ax.text(40, 22, "each way", ha="center", size=9.5)
fig.suptitle(f"An H100 reads its memory {ratio:.0f} × as fast as PCIe can fill it")
fig.set_label(
    "A diagram. On the left the host: a CPU with few cores and large caches, above its "
    f"memory. An arrow, {slot} with {narrow} each way, leads to the GPU on the right: "
    f"{number} multiprocessors, an L2 cache, and its own memory of {vram} with {fast}. "
    f"Below, one multiprocessor: {lanes} lanes, registers, an L1 cache with shared "
    f"memory, and {warps} warps of {in_a_warp} threads."
)
plt.show()

# %%
# - *Host* and *device*: your program runs on the CPU. It sends work and data to the
#   GPU, and fetches results.
# - *PCIe* is the link between the two memories. It carries far fewer bytes a second
#   than a GPU's own memory, so data that cross it for every operation decide the time
#   (:doc:`/tutorials/2_devices/04_small_copies`).
# - *VRAM* is the GPU's own memory. What a GPU computes with has to be there.
# - A *multiprocessor* is the nearest thing to a CPU core that a GPU has. Instead of
#   large :term:`caches <cache>` it has many :term:`lanes <lane>`, places where numbers
#   are added and multiplied, and room for the variables of very many threads.
#
# Three cards
# -----------
#
# The numbers of warps are from `NVIDIA's table of capabilities`__, those of
# multiprocessors from its papers on the three architectures. A "CUDA core" is *one
# lane*: it can run no program of its own.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#features-and-technical-specifications

from firstlight.display import show_table

columns = []
for chip, (number, capability, warps, slot) in chips.items():
    lanes, threads = PER_CLOCK[capability][0], warps * in_a_warp
    times = spec(chip, "bandwidth") / spec(slot, "bandwidth")
    facts = {
        "multiprocessors": f"{number}",
        "lanes in each": f"{lanes}",
        "lanes in all, CUDA cores": f"{number * lanes:,}",
        "threads that each holds": f"{threads:,}",
        "threads held in all": f"{number * threads:,}",
        "VRAM": spec_of(chip).text("memory"),
        "its bandwidth": spec_of(chip).text("bandwidth"),
        "PCIe, each way": spec_of(slot).text("bandwidth"),
        "VRAM over PCIe": f"{times:.0f} ×",
    }
    columns.append(tuple(facts.values()))

rows = list(zip(facts, *columns, strict=True))
show_table("What is on the card", ("", *chips), rows)

# %%
# Each card holds many times as many threads as it has lanes. A course notebook
# (:doc:`we tested its claims </claims>`) counts otherwise, for a GTX 1650 like this: 16
# multiprocessors with 32 cores each, where "a thread will run on one core" and "only 32
# threads will run at the same time". By the table, each of the 16 has 64 lanes and
# holds 1,024 threads. What counts 32 is a *warp*, and no thread has a lane to itself.
#
# Does the ratio of the two roads hold on real cards? These were measured by two open
# benchmarks, not by us.
#
# .. measured-by-others:: own-link-a100 own-link-gtx1080 own-link-h100
#
# Thread, warp, block
# -------------------
#
# - A *thread* is one sequence of instructions: for one pixel, say, or one row of a
#   matrix. All threads run the same function, which is called a :term:`kernel`.
# - A *warp* is 32 threads that execute the same instruction together. They may go
#   different ways at an ``if``: while some go one way, the lanes of the others are
#   idle. Whenever lanes are free, the multiprocessor takes the next instruction of
#   *some* warp that is ready.
# - A *block* is a group of threads, of a size that you choose. It stays on one
#   multiprocessor until all of them are done, so they can use its *shared memory*, a
#   small and fast one, together.
#   :doc:`/tutorials/3_kernels/01_first_kernel` starts some.
#
# Latency and throughput
# ----------------------
#
# :term:`Latency <latency>` is how long one thing takes; :term:`throughput` is how many
# things are done in a second. A CPU core spends its area on the chip on short latency:
# large caches, branch prediction (a guess at which way the program goes on),
# out-of-order execution (a search for instructions that can go first). A GPU spends it
# on throughput: lanes, and threads to fill them.
#
# To keep any processor busy, as many things must be under way as it can finish in a
# second, times the seconds that each takes (:term:`Little's law`). A number from VRAM
# takes `hundreds of clock cycles`__ to come, so a multiprocessor holds a thousand
# threads or more, and works on one warp while others wait: this is *latency hiding*.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#multiprocessor-level
#
# So a GPU needs work that can be divided into thousands of independent parts. It loses
# where there are few, where each needs the result of the one before, and where data
# cross PCIe again for each use.
# :doc:`/tutorials/2_devices/11_when_the_gpu_wins` predicts it for your problem.
#
# Your own GPU
# ------------
#
# This is the device that ``best_device()`` found here, and what PyTorch tells of it:
# of a GPU, also the size of a warp, and how many threads a block and a multiprocessor
# may have. Without a GPU, it is the CPU. (Numba tells the same:
# ``cuda.get_current_device()`` has ``WARP_SIZE``, ``MAX_THREADS_PER_BLOCK`` and more.)

import torch

from firstlight import best_device
from firstlight.devices import card

device = best_device()
known = dict(card(device).rows())
known.pop("libraries", None)
if device.type in ("cuda", "xpu"):
    told = torch.get_device_module(device).get_device_properties(device)
    asked = (
        "warp_size",
        "max_threads_per_block",
        "max_threads_per_multi_processor",
        "max_work_group_size",
    )
    known |= {name: getattr(told, name) for name in asked if hasattr(told, name)}

for name, value in known.items():
    print(f"{name:<32} {value}")

# %%
# Where it comes from
# -------------------
#
# GPUs were built to colour the pixels of a screen, and the first scientists who used
# them wrote their sums as *shaders*, programs for pixels, in languages for graphics
# such as OpenGL's: that was *GPGPU*, general-purpose computing on GPUs. In 2007 NVIDIA
# released *CUDA*: a compiler for kernels, libraries, and an interface to the driver,
# which you use from C++, Python and other languages.
#
# This site uses PyTorch and Numba; in CuPy, JAX, TensorFlow or Julia's CUDA.jl the
# functions have other names, but what you learn here about memory, transfers, launches
# and precision carries over.
#
# Where this stops being true
# ---------------------------
#
# - *One memory for both.* In Apple's chips, and other GPUs that are part of a
#   processor, CPU and GPU share one memory, and there is no PCIe between them.
# - *Other makers.* AMD calls a multiprocessor a *compute unit*, Apple simply a *core*;
#   AMD's counterpart of a warp, a *wavefront*, has 32 or 64 threads. Never compare the
#   "cores" of two makers: compare lanes and clocks.
# - *A ratio of lanes is no speed-up.* Your CPU has lanes, too, and does many things at
#   once. :doc:`04_count_your_cpu` counts them.
#
# Exercise
# --------
#
# How many blocks can a GPU hold at the same time, if nothing but threads limits it? A
# multiprocessor holds ``threads_each`` threads at most. A block stays whole, on one
# multiprocessor, and takes its places in whole warps.


def blocks_held(multiprocessors, threads_each, threads_in_block): ...


# %%

# folded: What checks your answer

from numbers import Number

cases = {
    (1, 1024, 1024): (1, "one block fills this one multiprocessor"),
    (132, 2048, 256): (1056, "count the blocks on all multiprocessors"),
    (3, 1536, 1024): (3, "a block stays whole: none is half held"),
    (4, 1024, 768): (4, "a block stays on one multiprocessor"),
    (2, 2048, 100): (32, "100 threads take the places of 4 warps, which is 128"),
    (16, 1024, 33): (256, "33 threads take the places of 2 warps, which is 64"),
}


def check(answer):
    for arguments, (expected, hint) in cases.items():
        try:
            got = answer(*arguments)
        except Exception as error:
            return f"blocks_held{arguments} raised {type(error).__name__}: {error}"
        if not isinstance(got, Number) or got != expected:
            return f"blocks_held{arguments} gave {got!r}. Hint: {hint}."
    return "Right: you know how much work a card can hold at a time."


# %%
# Put your function above, and ask:

print(check(blocks_held))

# %%

# solution


def blocks_held_solution(multiprocessors, threads_each, threads_in_block):
    warps_in_block = -(-threads_in_block // 32)  # rounded up
    return multiprocessors * (threads_each // 32 // warps_in_block)


print(check(blocks_held_solution))

# %%
# Three lines to remember
# -----------------------

# remember
held = number * warps * in_a_warp
print(f"""\
1. A GPU is built for throughput, not for the speed of one thread: an H100 holds up to
   {held:,} threads, so that some are always ready while others wait.
2. It has memory of its own, which an H100 reads {ratio:.0f} × as fast as PCIe can fill
   it: bring data there once, and use them often.
3. A "CUDA core" is one lane. The nearest thing to a CPU core is a multiprocessor.""")
