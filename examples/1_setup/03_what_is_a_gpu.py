"""
What is a GPU?
==============

A cup of coffee cools. Your program follows it in 100,000 small steps, and each step
needs the temperature from the step before. There's no way to do two steps at once, so
this is as sequential as work can be. One core of a CPU does it in less than a
millisecond.

Now give the same cup to a GPU. **Make two guesses:** will a GPU be faster or slower?
And how much longer will it take for 4,096 cups than for one?

The answers say most of what you have to know about GPUs. By the end of this page
you'll be able to explain them, to name the parts of a GPU, and to say which work
belongs there and which doesn't.

**Time:** 11 minutes. **Needs:** any computer, with a GPU or without.
"""

# %%
# One cup, or 4,096
# -----------------
#
# We measured both on a real GPU, an NVIDIA H100, with a program that gives each cup a
# *thread* of its own. A thread is one sequence of instructions, like the one that your
# Python program follows. (The code is on :doc:`a later page <04_count_your_cpu>`.)
#
# For one cup, one core of the computer's CPU took
# :timing:`count-your-cpu median "SIMD, one thread/cpu/n=1" @nvidia-h100-80gb-hbm3`. The
# H100 took :timing:`count-your-cpu median "GPU, kernel/cuda:0/n=1"
# @nvidia-h100-80gb-hbm3`. So the GPU, which costs as much as a car, is *slower*.
#
# For 4,096 cups, the H100 took :timing:`count-your-cpu median
# "GPU, kernel/cuda:0/n=4096" @nvidia-h100-80gb-hbm3`. That is the same time, for 4,096
# times as much work! Even 65,536 cups took no more than :timing:`count-your-cpu median
# "GPU, kernel/cuda:0/n=65536" @nvidia-h100-80gb-hbm3`.
#
# Think of a sports car and a train. If you alone have to get to the next town, take the
# car. If 4,096 people have to get there, take the train: it's no faster for anyone, but
# everybody arrives at once. How long one passenger needs is called the :term:`latency`,
# and how many arrive in an hour is the :term:`throughput`. A :term:`CPU` (central
# processing unit) is built for short latency. A :term:`GPU` (graphics processing unit)
# is built for throughput.
#
# Trains need passengers, so a GPU needs work that falls into thousands of pieces of the
# same kind, none of which waits for another. Such work is called *data-parallel*. The
# pixels of an image are like that, and so are the rows of a matrix that you multiply by
# a vector. The 100,000 steps of one cup are not.
#
# What's inside
# -------------
#
# Let's look at the train. Here is an H100, beside the computer that it sits in.

# folded: The sizes and rates of an H100, from data sheets

from firstlight.timing.specs import spec, spec_of

card, slot, sms, cores, held = "H100 SXM", "PCIe 5 x16", 132, 128, 64
parts = ("registers", "L1", "L2")
registers, l1, l2 = (spec_of(f"{card} {part}").text("size") for part in parts)
ratio = spec(card, "bandwidth") / spec(slot, "bandwidth")

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

# folded: What draws the host, the GPU and one of its multiprocessors


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
    threads = f"it holds {held} warps of 32 threads: {held * 32:,}"
    ax.text(48, 15, threads, size=10, va="center")


# %%

# figure
fig, ax = plt.subplots(figsize=(7.2, 5.2), layout="constrained")
ax.set(xlim=(-0.5, 100.5), ylim=(-0.5, 68))
ax.axis("off")
draw_multiprocessor()
draw_host()
draw_gpu()
arrow((31, 32), (49, 32))
ax.text(40, 34.5, slot, ha="center")
ax.text(40, 27.5, spec_of(slot).text("bandwidth"), ha="center", weight="bold")
ax.text(40, 24, "each way", ha="center", size=9.5)
fig.suptitle(f"An H100 reads its memory {ratio:.0f} × as fast as PCIe can fill it")
fig.set_label(
    "A diagram. On the left the host: a CPU with few cores and large caches, above its "
    "memory. An arrow, PCIe 5 x16, leads to the GPU on the right: 132 streaming "
    "multiprocessors, an L2 cache, and its own memory, HBM. Below, one of the "
    "multiprocessors: 128 CUDA cores, 4 tensor cores, registers, L1 cache and shared "
    "memory, and 64 warps of 32 threads."
)
plt.show()

# %%
# Your program runs on the left, on the *host*. It sends numbers and work to the
# *device* on the right, through a narrow pipe called PCIe.
#
# The orange squares are the engine. There are 132 of them, and each is a *streaming
# multiprocessor*, or **SM**. If you look for something like a CPU core in a GPU, it is
# this. An SM fetches instructions, has a cache of its own, and works independently of
# the others.
#
# Below, one SM is enlarged. What NVIDIA calls a **CUDA core** is one of its 128 small
# squares: a unit that multiplies and adds *one* pair of numbers at a time. That's all
# it can do. It runs no program of its own, so it is nothing like a core of a CPU. The
# card has 16,896 of them (132 × 128), and your program won't get faster by that number.
# In other documents a CUDA core is also called a :term:`lane`.
#
# There are also four **tensor cores** in each SM. A tensor core multiplies whole small
# matrices at once. It does nothing else, but this it does very fast, mostly with
# numbers of 16 bits or fewer.
#
# Our H100 multiplied two matrices of 4,096 × 4,096. With ``float32``, on its CUDA
# cores, it took :timing:`precision median "GPU, matmul, float32/cuda:0/n=4096"
# @nvidia-h100-80gb-hbm3`. With ``bfloat16``, on its tensor cores, it took
# :timing:`precision median "GPU, matmul, bfloat16/cuda:0/n=4096"
# @nvidia-h100-80gb-hbm3`. That is :timing:`precision speedup
# "GPU, matmul, bfloat16"/"GPU, matmul, float32" @nvidia-h100-80gb-hbm3` as fast, on the
# same card.
#
# **One minute:** how many SMs has *your* GPU, and how many threads can all of them hold
# together? If you have no GPU here, take the numbers from the picture.

import torch

if torch.cuda.is_available():
    gpu = torch.cuda.get_device_properties(0)
    print(gpu.name, f"with compute capability {gpu.major}.{gpu.minor}")
    print("SMs:", gpu.multi_processor_count)
    print("threads that each can hold:", gpu.max_threads_per_multi_processor)
    print("threads in a block, at most:", gpu.max_threads_per_block)
    print("threads in a warp:", gpu.warp_size)
else:
    print("No CUDA GPU here. Take an H100: 132 SMs, with 2,048 threads each.")

# %%
# For an H100 it is 132 × 2,048 = 270,336 threads. That's sixteen threads for every CUDA
# core! So a thread does *not* own a core. Why would anybody want so many more threads
# than there are units to compute for them? Keep that question for a moment.
#
# The threads don't move about one by one, either. They go in groups of 32, each of
# which is called a **warp**. The threads of a warp execute the same instruction
# together, each on a number of its own. (When an ``if`` sends some of them one way and
# some another, one part goes first and the other has to wait.) Several warps make up a
# *block*. You choose its size, up to 1,024 threads, and it stays on one SM from its
# start to its end. :doc:`/tutorials/3_kernels/01_first_kernel` starts some blocks.
#
# How far away is a number?
# -------------------------
#
# Before an SM can compute with a number, it has to have it. Where can that number be?
# There are five places. **Guess first:** how many times faster is the fastest place
# than the slowest? Ten times, a hundred times, a thousand?

# folded: The rows of the table

from firstlight.display import quantity, show_table

in_a_second = spec(card, "fp32") / 2  # multiply-adds, each with 4 numbers of 4 bytes
rates = {"registers": 16 * in_a_second, "shared": in_a_second}  # 1/128 SM: 1 byte
a100 = f"{quantity(spec('A100 40GB L2', 'bandwidth'), 'B/s')} (A100)"
rows = [
    ("registers", f"{registers} in each SM", quantity(rates["registers"], "B/s")),
    ("L1, shared memory", f"{l1} in each SM", quantity(rates["shared"], "B/s")),
    ("L2 cache", f"{l2} for all SMs", a100),
    ("GPU memory (HBM)", spec_of(card).text("memory"), spec_of(card).text("bandwidth")),
    ("the CPU's memory", "what you paid for", spec_of(slot).text("bandwidth")),
]

# %%

show_table("Where a number can be, on an H100", ("place", "size", "rate"), rows)

# %%
# *Registers* hold the variables of each thread. *Shared memory* belongs to a block, so
# its threads can pass numbers to each other there, and it's the same piece of hardware
# as the *L1 cache*. The *L2 cache* serves all SMs. *HBM* (high-bandwidth memory) is the
# large memory on the card, which people also call VRAM, or *global memory*. And
# the last row is your computer's memory, at the other end of PCIe.
#
# From top to bottom the rate falls by a factor of more than 8,000. So this is the first
# rule for working with a GPU: *bring the numbers over once, and use them often*.
#
# These are the most that the hardware allows. The last two rates are from data sheets,
# and the first two follow from the number of CUDA cores and the clock: in each cycle
# every core can read three numbers and write one, and an SM can read 128 bytes of
# shared memory. NVIDIA gives no rate for the L2 cache of an H100, so that row has the
# one of its predecessor.
#
# And in practice? When our H100 adds two long vectors, it moves
# :timing:`vector-add rate "GPU, same result" @nvidia-h100-80gb-hbm3` from and to its
# HBM, nearly all of what the table allows.
#
# The step from HBM to PCIe is the one that you'll meet most often. This is what others
# have measured on their cards:
#
# .. measured-by-others:: own-link-a100 own-link-gtx1080 own-link-h100
#
# Thirteen warps
# --------------
#
# Now back to our question. Why does an SM hold so many threads?
#
# Even HBM is far away. If a thread asks it for a number, the number arrives
# `hundreds of clock cycles`__ later. A CPU does everything to avoid that wait: large
# caches, and circuits that guess what your program will need next. All this takes up
# most of the chip. A GPU doesn't avoid the wait at all. It spends the space on units
# that compute, and while one warp waits, it lets *another* warp work.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#multiprocessor-level
#
# How long is the wait on our H100? We let *one* thread fetch 10,000 numbers, each of
# which told it where to find the next. That took :timing:`bytes-in-flight median
# "1 thread walks" @nvidia-h100-80gb-hbm3`, so each number took hundreds of cycles.
#
# Think of a chess master who plays against many people at once. She makes her move at
# one board, and while that opponent thinks, she goes on to the next. One opponent
# would keep her idle nearly all the time. How many does she need?
#
# Here's a warp in numbers. It asks for its number and waits 384 cycles. Then it works
# for 32 cycles, one instruction in each, and asks for the next number. So one round
# takes 384 + 32 = 416 cycles. In an SM, a *scheduler* decides in every cycle which warp
# goes on, and like the chess master, it takes one that is ready. **How many such warps
# does it need, so that it has something to do in every cycle?** Guess, then let's play
# it.

# folded: Plays it, with a queue of warps in the order in which they get ready

from heapq import heapify, heapreplace


def turns(warps, work=32, wait=384, until=4160):
    queue, now = [(0, warp) for warp in range(warps)], 0
    heapify(queue)
    while now < until:
        ready, warp = queue[0]
        start = max(now, ready)
        now = start + work
        heapreplace(queue, (now + wait, warp))
        yield warp, start


def busy(warps, until=4160):
    return sum(32 for _, start in turns(warps) if start < until) / until


# %%

for warps in (1, 2, 4, 8, 13, 16):
    print(f"{warps:2} warps: something to do in {busy(warps):.0%} of all cycles")

# %%

# figure
fig, axes = plt.subplots(2, 1, figsize=(7.2, 4.4), sharex=True, layout="constrained")
for ax, warps in zip(axes, (4, 13), strict=True):
    for warp, start in turns(warps, until=1400):
        ax.barh(warp, 32, left=start, color=ORANGE, height=0.9)
    ax.set(yticks=[0, warps - 1], yticklabels=["warp 1", f"warp {warps}"])
    ax.set(title=f"{warps} warps: busy {busy(warps):.0%} of the time", xlim=(0, 1400))
    ax.invert_yaxis()
axes[1].set_xlabel("clock cycles")
fig.suptitle("With 13 warps, one of them always has work to do (a model)")
fig.set_label(
    "Two charts of which warp works when. With 4 warps there are short bursts of work "
    "with long gaps in which all of them wait. With 13 warps, each begins when the one "
    "before it stops, and the first is ready again when the last is done: no gaps."
)
plt.show()

# %%
# One warp works for 32 of its 416 cycles, so it keeps the scheduler busy 1/13 of the
# time. Two warps fill 2/13, and thirteen fill everything, because 416/32 = 13. More
# than thirteen bring nothing.
#
# This trick is called *latency hiding*. The wait hasn't become shorter. But as long as
# there are enough warps, nobody notices it. In general, as many things have to be under
# way as you can finish in a second, times the seconds that each of them takes. (That is
# :term:`Little's law`, and it also holds for the queue at a bakery.)
#
# An SM of an H100 has four schedulers, so it would need 4 × 13 = 52 warps. It has room
# for 64. *That* is why it holds so many threads.
#
# Does a real GPU behave like that? We let our H100 copy a long vector, and allowed it
# only some of its threads. With 1/16 of them it moved :timing:`bytes-in-flight rate
# "1 loads, 6% full" @nvidia-h100-80gb-hbm3`, with 1/8 :timing:`bytes-in-flight rate
# "1 loads, 12% full" @nvidia-h100-80gb-hbm3`, and with 1/4 :timing:`bytes-in-flight
# rate "1 loads, 25% full" @nvidia-h100-80gb-hbm3`. Twice the threads, nearly twice the
# rate, as in our model. With all its threads it moved :timing:`bytes-in-flight rate
# "1 loads, 100% full" @nvidia-h100-80gb-hbm3`. That is no longer sixteen times as much,
# because by then the HBM itself begins to be the limit.
#
# When a GPU loses
# ----------------
#
# Now you can say beforehand which work doesn't belong on a GPU:
#
# - *There are too few pieces.* One cup of coffee uses one thread of 270,336.
# - *Each piece needs the one before.* More threads don't make a chain shorter.
# - *The numbers cross PCIe again and again.* Then the last row of the table sets the
#   pace. :doc:`/tutorials/2_devices/04_small_copies` has more on this.
#
# For your own problem, :doc:`/tutorials/2_devices/11_when_the_gpu_wins` makes the
# prediction.
#
# Where do GPUs come from? They were made to colour the pixels of games, and scientists
# had to disguise their sums as pictures until NVIDIA released CUDA in 2007. Today you
# can use them from PyTorch and Numba, as on these pages, from JAX, CuPy or TensorFlow,
# and from other languages such as Julia. The names differ, but the machine is the same.
#
# .. dropdown:: GPUs of other makers, and GPUs inside a processor
#
#    AMD calls an SM a *compute unit* and a warp a *wavefront*, which has 32 or 64
#    threads. Apple calls an SM a *core*, so never compare the "cores" of two makers. In
#    Apple's chips, CPU and GPU share one memory, so there is no PCIe between them. The
#    rest of the page holds for all of them. NVIDIA describes its own in the `CUDA
#    programming guide`__.
#
#    __ https://docs.nvidia.com/cuda/cuda-programming-guide/
#
# Your turn
# ---------
#
# Be the chess master. Write the function that decides which warp runs next. It gets
# ``ready_at``, a list with the cycle at which each warp is (or was) ready, and ``now``,
# the present cycle. Return the index of the warp to run. If none is ready, choose the
# one for which you'll wait the shortest time.
#
# Put your answer where the dots are, and run ``firstlight try 03_what_is_a_gpu.py``. It
# runs only what the exercise needs. In our checker some warps wait longer than others,
# as they do when some numbers are in a cache and some are not.


def next_warp(ready_at, now): ...


# %%

# folded: What checks your answer: it plays sixty moves at each of five tables

from numbers import Integral

tables = [[384] * 13, [384] * 4, [10, 384, 50, 200], [384, 100, 50], [384]]


def check(answer):
    for waits in tables:
        ready, now = [0] * len(waits), 0
        for _ in range(60):
            try:
                warp = answer(list(ready), now)
            except Exception as error:
                return f"next_warp({ready}, {now}): {type(error).__name__}: {error}"
            if not isinstance(warp, Integral) or not 0 <= warp < len(waits):
                last = len(waits) - 1
                return f"next_warp gave {warp!r}. Hint: an index is from 0 to {last}."
            first = ready.index(min(ready))
            if ready[warp] > max(now, ready[first]):
                state = "was ready" if ready[first] <= now else "will be ready first"
                return (
                    f"In cycle {now} you chose warp {warp}, which waits until cycle "
                    f"{ready[warp]}. Hint: warp {first} {state}."
                )
            now = max(now, ready[warp]) + 32
            ready[warp] = now + waits[warp]
    return "Right: with 13 warps, you keep the scheduler busy in every cycle."


# %%

print(check(next_warp))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""\
1. A GPU isn't fast at one thing. It does thousands of things in the time of one.
2. An SM is the nearest thing to a CPU core. It holds many more threads than it has
   CUDA cores, so that some can work while others wait: 416 cycles, 13 warps.
3. An H100 reads its own memory {ratio:.0f} × as fast as PCIe can fill it. Bring the
   numbers over once, and use them often.""")

# %%
# Solution
# --------

# solution


def next_warp_solution(ready_at, now):
    for warp, cycle in enumerate(ready_at):
        if cycle <= now:
            return warp
    return ready_at.index(min(ready_at))


print(f"Our solution: {check(next_warp_solution)}")
