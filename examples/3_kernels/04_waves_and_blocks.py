"""
What does a GPU do with more blocks than it has room for?
=========================================================

Your :term:`kernel` is right, and now you choose its grid. A GPU hands out
:term:`blocks <block>` one by one: the next one goes to the first :term:`multiprocessor`
that has room for the whole of it, and stays there until its last thread is done. So
:term:`launch` many more blocks than the card holds at once, because the last, unfilled
:term:`wave` leaves multiprocessors idle; take 128 or 256 threads a block; and let no
block wait for another, because CUDA promises no order.

**You will learn**

- what a multiprocessor holds at a time: threads, blocks and
  :term:`registers <register>`;
- what the last wave costs, the *tail effect*, and how many blocks make it negligible;
- why 1024 threads a block, the most that CUDA allows, is no good default;
- why no block may wait for another, and how to find a kernel that relies on an order.

**Time:** 9 minutes. **Needs:** any computer, and :doc:`matrix times
vector </tutorials/3_kernels/02_matrix_vector>`. With a CUDA GPU, you measure the tail
effect on it; without one, it is a model.
"""

# %%
# 98 blocks, 16 multiprocessors
# -----------------------------
#
# :doc:`Matrix times vector </tutorials/3_kernels/02_matrix_vector>` told of 98 blocks
# of 1024 threads on a card with 16 multiprocessors, and said that all threads of a
# block are there at once. Are they? This kernel turns an array around in place. Each
# thread takes a number, *waits until all have one*, and puts it down elsewhere:

import matplotlib.pyplot as plt
import numpy as np

from firstlight.display import show_table
from firstlight.kernels import cuda, ptx, simulated, trace


@cuda.jit
def turn_around(line):
    i = cuda.threadIdx.x
    mine = line[i]
    cuda.syncthreads()  # a barrier: nobody goes on until the whole block is here
    line[line.size - 1 - i] = mine


line = np.arange(1024)
traced = trace(turn_around, 1, 1024, line)
wrong = np.sum(line != np.arange(1024)[::-1])
print(f"turn_around: {wrong} of 1024 wrong; races found: {len(traced.races)}")

# %%
# Nobody passes the :term:`barrier` until all 1024 threads have come to it, each with
# its own ``mine``. CUDA allows that in any block, so *every multiprocessor can hold
# 1024 threads at the same time*. How many start an instruction at once is another
# matter:
#
# - On this card, a multiprocessor has `four schedulers`__. In each clock cycle, a
#   scheduler can take one of its :term:`warps <warp>` that is ready, and start its next
#   instruction for all 32 threads.
# - So a thread does not wait for a core, and does not keep one. What
#   :term:`data sheets <data sheet>` call cores are lanes for arithmetic; a
#   multiprocessor of this card has 64.
# - Blocks are not shared out in advance. Only if all take equally long does each
#   multiprocessor end up with six or seven.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#instruction-scheduling
#
# The last wave
# -------------
#
# A block of 1024 threads fills a multiprocessor of this card. If all blocks take
# equally long, the launch looks like this (a model):

# figure

fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for block in range(98):
    wave, number = divmod(block, 16)
    colour = ("#2e7ab0", "#8fbfe0")[wave % 2]
    ax.barh(number, 1, 1, left=wave, fc=colour, ec="#10202c", lw=0.8)
idle_area = plt.Rectangle((0, -0.5), 7, 16, fill=False, hatch="////", lw=0, zorder=0)
ax.add_patch(idle_area)
title = "98 blocks, 16 multiprocessors: the last wave has only 2 (a model)"
ax.set_title(title, loc="left")
ax.set(ylim=(15.5, -0.5), yticks=[0, 15], xlim=(0, 7.1))
ax.set(xlabel="time, in blocks", ylabel="multiprocessor")
ax.text(6.5, 9, "idle", ha="center", bbox={"fc": "white", "ec": "none"})
ax.spines[["top", "right"]].set_visible(False)
fig.set_label(
    "A model of 98 blocks of equal length on 16 multiprocessors, a row each. There are "
    "six full columns, and a seventh in which only two of 16 have a block."
)
plt.show()

# sphinx_gallery_thumbnail_number = 1

# %%
# While the seventh wave runs, 14 multiprocessors wait. That is the *tail effect*. (A
# wave is only `a way to count`__: in fact each block begins as soon as there is room
# for it.) Let :math:`N` be the number of blocks that the whole card holds at once. Then
#
# .. math::
#
#     \text{in use} = \frac{\text{blocks} / N}
#     {\lceil \text{blocks} / N \rceil}.
#
# __ https://forums.developer.nvidia.com/t/cuda-pro-tip-minimize-the-tail-effect/148448


def in_use(blocks, places):
    return blocks / places / np.ceil(blocks / places)


rows = [
    (f"{blocks:,}", f"{in_use(blocks, 16):.0%}", f"{in_use(blocks, 264):.0%}")
    for blocks in (98, 265, 500, 2000)
]
head = "blocks", "N = 16", "N = 264"
show_table("In use, by the model", head, rows)

# %%
# (An H100 SXM has 132 multiprocessors. Each holds two blocks of 1024 threads, so
# :math:`N` is 264.) One block more than the card holds costs up to a whole wave. The
# more waves, the less the last one weighs: from ten on, at most a tenth is idle.
#
# Measure
# -------
#
# Each block of ``busy`` has 1024 threads that only calculate. One such block already
# keeps every lane of a multiprocessor busy, so two on the same one take as long
# together as one after the other, and :math:`N` is the number of multiprocessors. Only
# a CUDA GPU can show it.

# %%

# folded: The kernel that keeps a multiprocessor busy, and its check


@cuda.jit
def busy(out, steps):
    i = cuda.grid(1)
    if i < out.size:
        x = np.float32(i)
        for _ in range(steps):
            x = x * np.float32(0.5) + np.float32(0.5)  # goes to 1
        out[i] = x


out = cuda.to_device(np.full(33, np.nan, dtype=np.float32))
busy[2, 32](out, 64)
assert np.all(out.copy_to_host() == 1), "busy is wrong"

# %%

# folded: On a CUDA GPU: what is in use, measured against the model

from firstlight import Bench, best_device

device = best_device()
has_kernel = device.type == "cuda" and not simulated()
bench = Bench("waves", budget=12 if has_kernel else 1)
shares = []
if has_kernel:
    card = cuda.get_current_device()
    N = card.MULTIPROCESSOR_COUNT
    one, out, steps = 1.0, cuda.device_array(4 * N * 1024, dtype=np.float32), 50_000
    for count in sorted({N, N + 1, 3 * N // 2, 2 * N, 2 * N + 1, 4 * N}):
        work = {"n": count, "flops": 2 * 1024 * count * steps, "device": "cuda:0"}
        time = bench.time("busy", busy[count, 1024], out, steps, **work).median
        one = time if count == N else one  # N blocks come first, and are one wave
        both = count / N * one / time, in_use(count, N)
        shares.append((f"{count}", *(f"{share:.0%}" for share in both)))
    show_table("In use", ("blocks", "measured", "model"), shares)
else:
    bench.time("busy", busy[2, 32], out, 64, n=2, device="cpu")
bench.show()

# %%
# On an A100, infra-practices timed one kernel with blocks of several sizes. A place
# that is taken is not yet speed.
#
# .. measured-by-others:: blocks32-a100 blocks64-a100 blocks32x4-a100
#
# How large a block?
# ------------------
#
# A block goes to a multiprocessor as a whole or not at all. There are `limits`__ on the
# threads and on the blocks that a multiprocessor holds; and its blocks share 65 536
# registers, and :term:`shared memory`, which the kernels here do not use. The compiler
# tells how many registers a thread needs, here for two kinds of card:
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/index.html#compute-capabilities

# %%

# folded: The two kernels of the page on grids: a pixel a thread, and a loop

NINTH = np.float32(1 / 9)


@cuda.jit(device=True)
def mean_around(framed, row, column):
    total = np.float32(0)
    for down in range(3):
        for right in range(3):
            total += framed[row + down, column + right]
    return total * NINTH


@cuda.jit
def smooth(framed, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = mean_around(framed, row, column)


@cuda.jit
def smooth_any_grid(framed, out):
    first_column, first_row = cuda.grid(2)
    columns_at_once, rows_at_once = cuda.gridsize(2)
    for row in range(first_row, out.shape[0], rows_at_once):
        for column in range(first_column, out.shape[1], columns_at_once):
            out[row, column] = mean_around(framed, row, column)


# %%

TYPES = "float32[:, ::1], float32[:, ::1]"
# Where there is no compiler: what numba-cuda 0.30.4 needed.
RECORDED = {"smooth": (44, 38), "smooth_any_grid": (54, 48)}


def registers_of(kernel):
    try:
        both = [ptx.compile(kernel, TYPES, cc) for cc in ((7, 5), (8, 9))]
        return tuple(made.registers for made in both)
    except ptx.NoCompilerError:
        return RECORDED[kernel.__name__]


registers = {k.__name__: registers_of(k) for k in (smooth, smooth_any_grid)}
rows = [(name, *map(str, needs)) for name, needs in registers.items()]
head = "kernel", "7.5 (GTX 1650)", "8.9 (RTX 4090)"
show_table("Registers a thread, by compute capability", head, rows)

# %%
# The loop costs registers. How full can blocks of some sizes make a multiprocessor? In
# the last column, the threads need the registers of ``smooth_any_grid``; in the others,
# at most 32.

ROOM = {"7.5": (1024, 16), "8.9": (1536, 24), "9.0": (2048, 32)}  # threads, blocks


def filled(threads, most_threads, most_blocks, registers=32):
    in_warps = -(-threads // 32) * 32
    by_registers = 65536 // (in_warps * registers)
    held = min(most_threads // in_warps, most_blocks, by_registers)
    return held * threads / most_threads


needed = registers["smooth_any_grid"][1]
kinds = [*ROOM.values(), (*ROOM["8.9"], needed)]
rows = [
    (f"{threads}", *(f"{filled(threads, *kind):.0%}" for kind in kinds))
    for threads in (32, 100, 128, 256, 1024)
]
head = "threads a block", *ROOM, f"8.9, {needed} registers"
show_table("Places for threads in use, by compute capability", head, rows)

# %%
# - 32 threads: the limit on *blocks* comes first, and half the places are empty.
# - 100 threads: no multiple of 32, so the last warp of each block is mostly empty.
# - 1024 threads: on 8.9, a third stays empty. And a kernel that needs more than 64
#   registers a thread (65 536 / 1024) cannot be launched at all.
#
# So the default is 128 or 256 threads, for images 32 × 4 or 32 × 8; then measure. (How
# full a multiprocessor is, is called :term:`occupancy`. It is not speed:
# :doc:`/tutorials/3_kernels/11_bytes_in_flight` shows why.)

# %%

# folded: On a CUDA GPU: how much your own card can hold

if has_kernel:
    for limit in ("MULTIPROCESSOR_COUNT", "MAX_THREADS_PER_BLOCK"):
        print(f"{limit}: {getattr(card, limit)}")
    for limit in ("THREADS", "BLOCKS", "REGISTERS"):
        print(f"{limit}: {getattr(card, f'MAX_{limit}_PER_MULTIPROCESSOR')}")

# %%
# No block may wait for another
# -----------------------------
#
# The model began the blocks in the order of their numbers. CUDA promises no order:
# blocks must be able to run `in any order, in parallel or in series`__. Here is a
# kernel that forgets this. Each row of an image has a count of bright pixels, and you
# want their running total. A block (of one thread) takes a row, and adds its count to
# what the block before it wrote. ``order`` lets you decide which block comes when.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/index.html#thread-hierarchy


@cuda.jit
def running_total(counts, totals, order):
    block = order[cuda.blockIdx.x]
    before = totals[block - 1] if block > 0 else 0
    totals[block] = before + counts[block]


bright = np.random.default_rng(seed=1).integers(1, 9, size=29)
in_order = np.arange(bright.size)
orders = {"in order": in_order, "backwards": in_order[::-1].copy()}
wrong_totals = {}
for name, order in orders.items():
    totals = cuda.to_device(np.zeros_like(bright))
    running_total[bright.size, 1](cuda.to_device(bright), totals, cuda.to_device(order))
    wrong_totals[name] = int(np.sum(totals.copy_to_host() != np.cumsum(bright)))
    print(f"{name:>9}: {wrong_totals[name]} of {bright.size} rows wrong")

# %%
# The simulator runs block 0 to its end, then block 1. So there the first line is right,
# as often as you like. A GPU starts many blocks at once, and nobody knows what it
# prints there. ``trace`` finds the mistake in a single run, because it asks what is
# *certain* to come before what:

traced = trace(running_total, bright.size, 1, bright, np.zeros_like(bright), in_order)
race = traced.races[0]
print(f"A race in {race.times} elements of {race.array}. The first:")
for access in (race.first, race.second):
    print(f"block {access.block.x}: {access.kind} in {access.source}")

# %%
# Could a block wait, in a loop, until the one before it has written? That is worse. If
# blocks that wait hold every place, the one they wait for never gets one, and the
# launch never ends. What you can do:
#
# - End the kernel. A second launch in the same stream begins when all blocks of the
#   first are done. Give each block several rows: in the first launch it totals them, in
#   the second it adds the totals of all blocks before it.
# - If the order does not matter, use an *atomic* operation, which changes a number so
#   that nobody can come between reading and writing
#   (:doc:`/tutorials/3_kernels/07_reductions`).
#
# Where this stops being true
# ---------------------------
#
# - *Small launches.* Where the launch overhead is longer than the work, the tail does
#   not matter (:doc:`/tutorials/2_devices/06_queues`).
# - *Blocks of uneven length.* One long block at the end can cost more than a wave. Put
#   the longest first: blocks are usually begun in the order of their numbers, though
#   nothing may depend on it.
# - *Blocks that know each other.* In *clusters* and *cooperative* launches, blocks run
#   at the same time, if there is room for all. You have to ask for it.
# - *Blocks that draw a number.* A block that takes its number from an atomic counter as
#   it begins may wait for lower numbers, because their blocks already have a place.
#   Fast scans do this (*decoupled look-back*).
# - *Other makers.* The numbers of multiprocessors and what they hold differ.
#
# Exercise
# --------
#
# How many waves does a launch take, if all its blocks take equally long? ``card`` has
# four numbers: how many multiprocessors, and how many threads, blocks and registers
# each of them holds. A block takes whole warps of 32 threads.

from collections import namedtuple

Card = namedtuple("Card", "multiprocessors threads blocks registers")


def waves(blocks, threads, registers, card): ...


# %%

# folded: What check does: launches in which another limit comes first

ADA, TURING = Card(128, 1536, 24, 65536), Card(16, 1024, 16, 65536)
CASES = {  # blocks, threads, registers of a thread, card: waves, a hint
    (98, 1024, 32, TURING): (7, "a wave that is not full is a wave, too: round up"),
    (6000, 256, 32, ADA): (8, "a multiprocessor holds several blocks at once"),
    (3073, 32, 32, ADA): (2, "a multiprocessor holds only so many blocks"),
    (2048, 256, 128, ADA): (8, "the threads it holds share its registers"),
    (1537, 100, 32, ADA): (2, "a block of 100 threads takes up four warps"),
}


def check(answer):
    for case, (right, hint) in CASES.items():
        blocks, threads, registers, card = case
        told = f"{blocks} blocks of {threads} threads, {registers} registers, {card}"
        try:
            given = answer(*case)
        except Exception as error:
            return f"Not yet: it raised {type(error).__name__}: {error}."
        if isinstance(given, bool) or not isinstance(given, (int, float, np.number)):
            return f"Not yet: it gave {given!r}, which is no number."
        if given != right:
            return f"Not yet. {told}: {right} waves, not {given:g}. Hint: {hint}."
    return "Right: every limit, and whole waves."


# %%

print(check(waves))

# %%
# Three lines to remember
# -----------------------

# remember

print(
    "1. A block goes to one multiprocessor as a whole and stays there. Have many more"
)
print(f"   of them than it holds: 98 on 16 leave {1 - in_use(98, 16):.0%} idle.")
third = 1 - filled(1024, *ROOM["8.9"])
print("2. Start with 128 or 256 threads a block. With 1024, a card of compute")
print(f"   capability 8.9 leaves {third:.0%} of its places empty.")
print("3. Blocks run in any order, each to its end: none may wait for another, or read")
print("   what another writes in the same launch.")

# %%
# Solution
# --------

# solution


def waves_solution(blocks, threads, registers, card):
    in_warps = -(-threads // 32) * 32
    held = min(
        card.threads // in_warps,
        card.blocks,
        card.registers // (in_warps * registers),
    )
    return -(-blocks // (held * card.multiprocessors))


print(f"Our solution: {check(waves_solution)}")
