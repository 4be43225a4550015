"""
What is a GPU?
==============

A cup of coffee cools. Your program follows it in 100,000 small steps, and each step
needs the temperature from the step before. Written like this, no two steps can be done
at once. One core of a CPU does all of them in less than a millisecond.

Now give the same cup to a GPU. **Make two guesses:** will a GPU be faster or slower?
And how much longer will it take for 4,096 cups than for one?

By the end you'll be able to explain both answers, to name the parts of a GPU, and to
say which work belongs there and which doesn't.

**Needs:** any computer, with a GPU or without.
"""

# %%
# One cup, or 4,096
# -----------------
#
# We measured both on a real GPU, an NVIDIA H100, with a program that gives each cup a
# *thread* of its own. A thread is one sequence of instructions, like the one that your
# Python program follows.
#
# For one cup, one core of the computer's CPU took :timing:`count-your-cpu median "SIMD,
# one thread/cpu/n=1" @nvidia-h100-80gb-hbm3`, and the H100 took :timing:`count-your-cpu
# median "GPU, kernel/cuda:0/n=1" @nvidia-h100-80gb-hbm3`. So the GPU, which costs as
# much as a car, is *slower*. A step takes about four clock cycles on the H100 and most
# likely on that CPU, too, whose clock ticks faster. With :doc:`a plainer loop
# <04_count_your_cpu>`, the CPU wins by more.
#
# .. holds::
#
#    plain = printed("^one cup: +([0-9.]+) ms", page="1_setup/04_count_your_cpu")
#    plain[0] < 0.9e3 * median("count-your-cpu/SIMD, one thread/cpu/n=1")
#    4 * 1e5 / (1e-3 * plain[0]) > 1.98e9  # an H100's fastest clock
#
# For 4,096 cups, the H100 needed no longer than for one: :timing:`count-your-cpu median
# "GPU, kernel/cuda:0/n=4096" @nvidia-h100-80gb-hbm3`. And the CPU? A single core took
# :timing:`count-your-cpu median "SIMD, one thread/cpu/n=256" @nvidia-h100-80gb-hbm3`
# for 256 cups, several at a time. Sixteen cores get 256 cups each, so without any loss
# they'd need just as long for all 4,096. The GPU took less than a third of that.
#
# In fact, against all sixteen cores of that computer, the GPU was
# :timing:`count-your-cpu speedup "GPU, kernel/cuda:0/n=4096"/"SIMD, all
# cores/cpu/n=4096" @nvidia-h100-80gb-hbm3` as fast. Those cores were rented
# :term:`virtual CPUs <virtual CPU>`, as a rule two to a real core. And 4,096 cups are
# little work for sixteen of them: with 65,536 cups, they took little more than a third
# of the time for each. So don't believe a factor before you know what the CPU did.
#
# .. holds::
#
#    one = median("count-your-cpu/SIMD, one thread/cpu/n=256")
#    gpu = median("count-your-cpu/GPU, kernel/cuda:0/n=4096")
#    3 < one / gpu < 4
#    cores = median("count-your-cpu/SIMD, all cores/cpu/n=4096")
#    cores > 5 * one
#    many = median("count-your-cpu/SIMD, all cores/cpu/n=65536")
#    1 / 3 < many / 16 / cores < 0.38
#    near(gpu, median("count-your-cpu/GPU, kernel/cuda:0/n=1"), 0.05)
#
# Think of a sports car and a train. If you alone have to get to the next town, take the
# car. If 4,096 people have to get there, take the train: it's no faster for anyone, but
# everybody arrives at once. How long one passenger needs is called the :term:`latency`,
# and how many arrive in an hour is the :term:`throughput`. A :term:`CPU`, the central
# processing unit, is built for short latency. A :term:`GPU`, the graphics processing
# unit, is built for throughput.
#
# Trains need passengers, so a GPU needs work that falls into thousands of pieces of the
# same kind, none of which waits for another. Such work is called *data-parallel*. The
# pixels of an image are like that, and GPUs were made to colour them. The 100,000 steps
# of one cup, one after the other, are not.
#
# What's inside
# -------------
#
# Let's look at the train. Here is an H100, beside the computer that it sits in.

# folded: The pieces of the figure below

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from firstlight.display import BLUE, GREEN, GREY, ORANGE
from firstlight.timing.specs import spec, spec_of

card, slot, sms, cores, held = "H100 SXM", "PCIe 5 x16", 132, 128, 2048
parts = ("registers", "L1", "L2")
registers, l1, l2 = (spec_of(f"{card} {part}").text("size") for part in parts)
ratio = spec(card, "bandwidth") / spec(slot, "bandwidth")


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


def draw_multiprocessor():
    ax.plot([51, 50, 50], [50.5, 50.5, 21], ":", color="black", lw=1.8)
    box(0, 0, 100, 21)
    ax.text(2, 17, "one SM:", weight="bold", size=10)
    ax.text(12, 17, f"{cores} CUDA cores and 4 tensor cores", size=9.5)
    for i in range(cores // 32):
        grid(2 + 11 * i, 7, 10, 7.5, 8, 4)
        box(2 + 11 * i, 1.8, 9.4, 4, "tensor", ORANGE, 0.35, 8.5)
    box(48, 2, 23, 9.5, f"registers,\n{registers}", GREEN, 0.25, 9)
    box(73, 2, 25, 9.5, f"L1 and shared\nmemory, {l1}", GREEN, 0.25, 9)
    ax.text(48, 15, f"it holds {held:,} threads at a time", size=10, va="center")


# %%

# figure
fig, ax = plt.subplots(figsize=(7.2, 5.2), layout="constrained")
ax.set(xlim=(-0.5, 100.5), ylim=(-0.5, 68))
ax.axis("off")


def draw_host():
    box(0, 26, 31, 38)
    ax.text(0, 65.5, "host: your computer", weight="bold")
    ax.text(2, 60, "CPU: few cores, large caches", size=9.5)
    for i in range(4):
        box(2 + 7 * i, 51, 6, 7.5, "core", BLUE, 0.35, 9)
    box(2, 44.5, 27, 5, "caches", BLUE, 0.15)
    arrow((15.5, 44.5), (15.5, 36))
    box(2, 28, 27, 8, "memory (RAM)", GREEN, 0.25)


def draw_gpu():
    box(49, 26, 51, 38)
    ax.text(49, 65.5, "device: a GPU (H100 SXM)", weight="bold")
    ax.text(51, 60, f"{sms} streaming multiprocessors (SMs)", size=9.5)
    grid(51, 49.5, 47.4, 9, 22, sms // 22)
    box(51, 43.5, 47, 4.5, f"L2 cache, {l2}", ORANGE, 0.15, 9)
    arrow((62, 43.5), (62, 36))
    ax.text(64, 39.5, spec_of(card).text("bandwidth"), va="center", weight="bold")
    box(51, 28, 47, 8, f"memory (HBM), {spec_of(card).text('memory')}", GREEN, 0.25)


draw_multiprocessor()
draw_host()
draw_gpu()
arrow((31, 32), (49, 32))
ax.text(40, 34.5, slot, ha="center")
ax.text(40, 27.5, spec_of(slot).text("bandwidth"), ha="center", weight="bold")
ax.text(40, 24, "each way", ha="center", size=9.5)
fig.suptitle("What's inside an H100")
fig.set_label(
    "A diagram. On the left the host: a CPU with few cores and large caches, above its "
    "memory. An arrow, PCIe 5 x16, leads to the GPU on the right: 132 streaming "
    "multiprocessors, an L2 cache, and its own memory, HBM. Below, one of the "
    "multiprocessors: 128 CUDA cores, 4 tensor cores, registers, L1 cache and shared "
    "memory, and room for 2,048 threads."
)
plt.show()

# %%
# Your program runs on the left, on the *host*. It sends numbers and work to the
# *device* on the right, through a narrow pipe called PCIe.
#
# The orange squares are the engine: 132 *streaming multiprocessors*, or **SMs**. If you
# look for something like a CPU core in a GPU, it is this. An SM fetches instructions,
# has a cache of its own, and works independently of the others.
#
# Below, one SM is enlarged. What NVIDIA calls a **CUDA core** is one of its 128 small
# squares: a unit that does *one* simple operation at a time, for example multiplies two
# numbers and adds a third. It runs no program of its own. The card has 132 × 128 =
# 16,896 of them, and your program won't get faster by that factor.
#
# There are also four **tensor cores** in each SM. A tensor core multiplies whole small
# matrices at once. It does nothing else, but it does that very fast, mostly with
# numbers of 19 bits or fewer, and on some cards with ``float64``.
#
# Our H100 multiplied two matrices of 4,096 × 4,096. In ``float32``, on its CUDA cores,
# that took :timing:`precision median "GPU, matmul, float32/cuda:0/n=4096"
# @nvidia-h100-80gb-hbm3`. In ``bfloat16``, on its tensor cores, it took
# :timing:`precision median "GPU, matmul, bfloat16/cuda:0/n=4096"
# @nvidia-h100-80gb-hbm3`. That is :timing:`precision speedup "GPU, matmul,
# bfloat16"/"GPU, matmul, float32" @nvidia-h100-80gb-hbm3` as fast, but each number
# keeps only 2 or 3 of its 7 digits.
#
# More digits usually cost more, so beware of ``float64``, NumPy's default. The H100 is
# one of the cards that are good at it: the same product took :timing:`precision median
# "GPU, matmul, float64/cuda:0/n=4096" @nvidia-h100-80gb-hbm3`, even less than in
# ``float32``, because its tensor cores take ``float64``, too. But an addition of
# vectors waits for its bytes. In ``float64`` there are twice as many, so it took
# :timing:`precision speedup "GPU, add, float32"/"GPU, add, float64"
# @nvidia-h100-80gb-hbm3` as long as in ``float32``. On NVIDIA's cards for games since
# Maxwell (2014), ``float64`` has 1/32 or 1/64 of the rate of ``float32``. And the price
# tells you nothing: the T4 and the L4, sold for data centres, are no better, and
# neither is the very expensive B300.
#
# .. holds::
#
#    median("precision/GPU, matmul, float64") < median("precision/GPU, matmul, float32")
#    slower = lambda card: spec(card, "fp32") / spec(card, "fp64")
#    all(near(slower(card), 32, 0.02) for card in ("T4", "GTX 1080"))
#    most = "L4", "RTX 4090", "RTX 5090", "B300"
#    all(near(slower(card), 64, 0.07) for card in most)
#
# **One minute:** how many SMs does *your* GPU have, and how many threads can they all
# hold together? If you have no GPU here, take the numbers from the picture.

import torch

if torch.cuda.is_available():
    gpu = torch.cuda.get_device_properties(0)
    print(gpu.name, f"with compute capability {gpu.major}.{gpu.minor}")
    print("SMs:", gpu.multi_processor_count)
    print("threads that each can hold:", gpu.max_threads_per_multi_processor)
else:
    print("No CUDA GPU here. Take an H100: 132 SMs, with 2,048 threads each.")

# %%
# For an H100 it is 132 × 2,048 = 270,336 threads. That's sixteen threads for every CUDA
# core! So a thread does *not* own a core. Why would anybody want so many more threads
# than units?
#
# Threads go in groups of 32, each of which is called a **warp**. The threads of a warp
# usually execute the same instruction together, each on a number of its own. Several
# warps make up a *block*. You choose its size, up to 1,024 threads, and it stays on one
# SM from its start to its end. You'll start some :doc:`on a later page
# </tutorials/3_kernels/01_first_kernel>`.
#
# How far away is a number?
# -------------------------
#
# Before an SM can compute with a number, it has to have it. Where can that number be?
# There are five places. **Guess first:** how many times faster is the fastest place
# than the slowest? Ten times, a hundred times, a thousand?

# folded: The rows of the table

from firstlight.display import quantity, show_table

in_a_second = spec(card, "fp32") / 2  # multiply-adds: 2 new numbers, 1 result
rates = {"registers": 12 * in_a_second, "shared": in_a_second}  # 1/128 SM: 1 byte
head = "place", "size", "rate, all SMs together"
rows = [
    ("registers", f"{registers} in each SM", quantity(rates["registers"], "B/s")),
    ("L1, shared memory", f"{l1} in each SM", quantity(rates["shared"], "B/s")),
    ("L2 cache", f"{l2} for all SMs", "–"),
    ("GPU memory (HBM)", spec_of(card).text("memory"), spec_of(card).text("bandwidth")),
    ("the CPU's memory, through PCIe", "–", spec_of(slot).text("bandwidth")),
]

# %%

show_table("Where a number can be, on an H100", head, rows)

# %%
# *Registers* hold the variables of each thread. *Shared memory* belongs to a block, so
# its threads can pass numbers to each other there, and here it's the same piece of
# hardware as the *L1 cache*. The *L2 cache* serves all SMs. *HBM*, the high-bandwidth
# memory, is the large memory on the card, which CUDA calls *global memory*. And the
# last row is your computer's memory, at the other end of PCIe.
#
# From top to bottom the rate falls by a factor of more than 6,000. So this is the first
# rule for working with a GPU: *bring the numbers over once, and use them often*.
#
# The last two rates are from data sheets, and the first two follow from the clock: in
# each cycle the registers `give a CUDA core two numbers and take one`__, and an SM
# reads 128 bytes of shared memory. NVIDIA gives no rate for the L2 cache.
#
# __ https://arxiv.org/abs/2503.20481
#
# In practice the last row is the one that hurts. From an ordinary NumPy array it's
# slower still, because the CPU has to copy the numbers once before they travel. To our
# H100, 64 MiB took :timing:`pinned-memory median "to the GPU,
# pageable/cuda:0/n=67108864" @nvidia-h100-80gb-hbm3` in this way, and
# :timing:`pinned-memory median "to the GPU, pinned/cuda:0/n=67108864"
# @nvidia-h100-80gb-hbm3` from memory that was :doc:`prepared for it
# </tutorials/2_devices/08_pinned_memory>`.
#
# Why so many threads?
# --------------------
#
# Now back to our question. Even HBM is far away, and a thread that asks it for a number
# has to wait. How long? We let *one* thread of our H100 fetch 10,000 numbers, each of
# which told it where to find the next. That took :timing:`bytes-in-flight median
# "1 thread walks" @nvidia-h100-80gb-hbm3`. At the card's highest clock, 1.98 GHz, each
# number took some 730 cycles.
#
# A CPU does everything to avoid such a wait: large caches, and circuits that guess what
# your program will need next, take up most of the chip. A GPU spends the space on units
# that compute, and while one warp waits, it lets *another* warp work.
#
# Here's a warp in round numbers. It asks for its number and waits 720 cycles. Then it
# works for 40 cycles, a number that we chose, and asks again. So one round takes 760
# cycles. In an SM, a *scheduler* decides in every cycle which warp goes on, and it
# takes one that is ready. **How many such warps does one scheduler need, so that it has
# something to do in every cycle?** Guess, then let's play it.

# folded: Plays it, with a queue of warps in the order in which they get ready

from heapq import heapify, heapreplace


def turns(warps, work, wait, until):
    queue, now = [(0, warp) for warp in range(warps)], 0
    heapify(queue)
    while now < until:
        ready, warp = queue[0]
        start = max(now, ready)
        now = start + work
        heapreplace(queue, (now + wait, warp))
        yield warp, start


def busy(warps, work=40, wait=720):
    until = 10 * (work + wait)
    starts = [start for _, start in turns(warps, work, wait, until)]
    return sum(max(0, min(work, until - start)) for start in starts) / until


# %%

for warps in (1, 2, 4, 8, 16, 19, 24):
    print(f"{warps:2} warps: something to do in {busy(warps):.0%} of all cycles")

# %%

# figure
fig, axes = plt.subplots(2, 1, figsize=(7.2, 4.8), sharex=True, layout="constrained")
for ax, warps in zip(axes, (4, 19), strict=True):
    for warp, start in turns(warps, work=40, wait=720, until=2000):
        ax.barh(warp, 40, left=start, color=ORANGE, height=0.9)
    ax.set(yticks=[0, warps - 1], yticklabels=["warp 1", f"warp {warps}"])
    ax.set(title=f"{warps} warps: busy {busy(warps):.0%} of the time", xlim=(0, 2000))
    ax.invert_yaxis()
axes[1].set_xlabel("clock cycles")
fig.suptitle("While one warp waits, another works (a model)")
fig.set_label(
    "Two charts of which warp works when. With 4 warps there are short bursts of work "
    "with long gaps in which all of them wait. With 19 warps, each begins when the one "
    "before it stops, and the first is ready again when the last is done: no gaps."
)
plt.show()

# %%
# One warp works for 40 of its 760 cycles, so it keeps the scheduler busy 1/19 of the
# time. Two warps fill 2/19, and nineteen fill everything. More add nothing.
#
# This is called *latency hiding*. The wait is as long as ever, but with enough warps
# nobody notices it. :term:`Little's law` says how many are enough:
#
# .. math::
#
#     \text{under way at once} = \text{rate} \times \text{time that each one takes}.
#
# Here, a warp has to start every 40 cycles and takes 760, so 19 must be under way.
#
# An SM of an H100 has four schedulers, so it would need 4 × 19 = 76 warps. It has room
# for 64. With 16 warps each, its schedulers would be busy 84% of the time. So *that* is
# why it holds so many threads, and even they aren't quite enough. Fast programs
# therefore let each thread ask for a second number before the first has arrived. And
# the more you compute with a number, the fewer warps you need. With 100 cycles of work
# instead of 40, nine are enough for each scheduler.
#
# Does a real GPU behave like that? We let our H100 copy a long vector. With 1/16 of its
# threads it moved :timing:`bytes-in-flight rate "1 load, 6% full"
# @nvidia-h100-80gb-hbm3`, and with 1/8 :timing:`bytes-in-flight rate "1 load, 12% full"
# @nvidia-h100-80gb-hbm3`: twice the threads, nearly twice the rate. With all of them it
# moved :timing:`bytes-in-flight rate "1 load, 100% full" @nvidia-h100-80gb-hbm3`, and
# with two numbers for each thread :timing:`bytes-in-flight rate "2 loads, 100% full"
# @nvidia-h100-80gb-hbm3`, which is :timing:`bytes-in-flight share "2 loads, 100%
# full"/torch @nvidia-h100-80gb-hbm3` of what PyTorch's own copy reached there.
#
# When a GPU loses
# ----------------
#
# Now you can say beforehand which work doesn't belong on a GPU:
#
# - *There are too few pieces.* One cup of coffee uses one thread of 270,336.
# - *Each piece needs the one before.* More threads don't make such a chain shorter.
#   Sums are an exception, and so is our cup, whose steps are linear: you can regroup
#   them into a :term:`scan`.
# - *The work is over too soon.* Every call to a GPU costs some microseconds. When
#   PyTorch copied a mere 64 bytes to our H100, that took :timing:`transfers median "to
#   the GPU, pageable/cuda:0/n=64" @nvidia-h100-80gb-hbm3`.
# - *The numbers cross PCIe again and again.* Then the last row of the table sets the
#   pace, or worse, :doc:`the latency of each copy
#   </tutorials/2_devices/04_small_copies>`.
#
# A :doc:`later page </tutorials/2_devices/11_when_the_gpu_wins>` lets you predict which
# side your own problem is on.
#
# .. dropdown:: GPUs of other makers, and GPUs inside a processor
#
#    AMD calls an SM a *compute unit* and a warp a *wavefront*, which has 32 or 64
#    threads. Apple calls an SM a *core*, so never compare the "cores" of two makers. In
#    Apple's chips, CPU and GPU share one memory, so there is no PCIe between them. The
#    same is true of AMD's MI300A and NVIDIA's GB10, and on a GH200 :doc:`a faster link
#    </cards>` takes the place of PCIe. The ideas of this page hold for all of them, and
#    the numbers are NVIDIA's. Apple's GPUs have no ``float64`` at all. NVIDIA describes
#    its own in the `CUDA programming guide`__.
#
#    __ https://docs.nvidia.com/cuda/cuda-programming-guide/
#
# Your turn
# ---------
#
# How many warps does *your* work need? Write a function that says so. A warp waits for
# ``wait`` cycles and then works for ``work`` cycles, again and again. Return the
# smallest number of warps that keeps every one of the SM's ``schedulers`` busy in every
# cycle. Each warp belongs to one scheduler, and there are no half warps.
#
# Put your answer where the dots are, and run ``firstlight try 03_what_is_a_gpu.py``.


def warps_needed(wait, work, schedulers): ...


# %%

# folded: What checks your answer: it gives each scheduler its warps, and plays

from numbers import Real

trials = [(720, 40, 4), (384, 32, 4), (100, 40, 4), (90, 40, 2), (0, 7, 4), (500, 3, 1)]


def check(answer):
    for wait, work, schedulers in trials:
        call = f"warps_needed({wait}, {work}, {schedulers})"
        try:
            warps = answer(wait, work, schedulers)
        except Exception as error:
            return f"{call}: {type(error).__name__}: {error}"
        if not isinstance(warps, Real) or not 0 < warps < 10_000 or warps % 1:
            return f"{call} gave {warps!r}. Hint: we want a whole number of warps."
        fewest = int(warps) // schedulers  # that a scheduler gets
        if not fewest or busy(fewest, work, wait) < 1:
            share = busy(fewest, work, wait) if fewest else 0
            return (
                f"{call} gave {warps}, but then a scheduler with {fewest} of them is "
                f"busy only {share:.0%} of the time. Hint: a round takes {wait + work} "
                f"cycles, of which a warp fills {work}."
            )
        if warps % schedulers or (fewest > 1 and busy(fewest - 1, work, wait) == 1):
            return f"{call} gave {warps}. Hint: fewer are enough."
    return "Right: with so many warps, nobody notices the wait."


# %%

print(check(warps_needed))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""\
1. A GPU isn't fast at one thing. It does thousands of things in the time of one.
2. An SM is the nearest thing to a CPU core. It holds many more threads than it has
   CUDA cores, so that some can work while others wait.
3. An H100 reads its own memory {ratio:.0f} × as fast as PCIe can fill it. Bring the
   numbers over once, and use them often.""")

# %%
# Solution
# --------

# solution


def warps_needed_solution(wait, work, schedulers):
    for_one = -(-(wait + work) // work)  # rounded up
    return for_one * schedulers


print(f"Our solution: {check(warps_needed_solution)}")
