"""
How fast is your card today?
============================

Your program takes half as long again as yesterday, with the same code, the same data,
and the same kind of card. A data sheet only says what a card can do on a good day.
What it does today was decided by somebody else: whoever set its clock, plugged it
into a narrow slot, or gave you a seventh of it.

**Guess: for how long did our H100 multiply matrices before it slowed down? For
milliseconds, for seconds, or for minutes?** By the end you'll be able to read a
card's state in one line, and to say what becomes of a floor on that card.

**Needs:** any computer, and :doc:`floors </tutorials/2_devices/03_is_it_possible>`.
Without a GPU from NVIDIA, you'll read what others' cards said.
"""

# %%
# Copy this
# ---------
#
# **While your program runs**, type this on the same computer:
#
# .. code-block:: bash
#
#    firstlight today
#
# It asks NVIDIA's own ``nvidia-smi``, and says what the answers mean for our floors. If
# ``firstlight`` isn't installed there, save what ``nvidia-smi`` says, take the file
# home, and type ``firstlight today card.txt``:
#
# .. code-block:: bash
#
#    WHAT=index,name,memory.total,clocks.current.sm,clocks.max.sm
#    WHAT=$WHAT,clocks.current.memory,clocks.max.memory
#    WHAT=$WHAT,power.limit,power.default_limit
#    WHAT=$WHAT,ecc.mode.current,mig.mode.current
#    WHAT=$WHAT,pcie.link.gen.max,pcie.link.gen.current,pcie.link.width.current
#    WHAT=$WHAT,clocks_throttle_reasons.active
#    nvidia-smi --query-gpu=$WHAT --format=csv > card.txt
#    nvidia-smi -L >> card.txt
#
# A card with nothing to do lowers its clock to save power, so ask while it works. If
# your driver doesn't know one of the fields, leave that out.
#
# Try it
# ------
#
# Here's what two cards said, as their owners posted it when they asked for help: a
# `V100`__, and a `GTX 1080 Ti`__. **Both were slower than on paper. Which floor is
# higher than on paper: that of the memory, or that of the arithmetic?**
#
# __ https://github.com/NVIDIA/nvidia-docker/issues/1076
# __ https://github.com/anderskm/gputil/issues/38

from firstlight.timing.today import ask, read

posted = """\
name, clocks.current.sm, clocks.max.sm, clocks.current.memory, clocks.max.memory
Tesla V100-SXM2-32GB, 1290 MHz, 1530 MHz, 877 MHz, 877 MHz
NVIDIA GeForce GTX 1080 Ti, 1480 MHz, 1911 MHz, 5005 MHz, 5505 MHz
"""
for seen in read(posted):
    print(f"{seen.name}\n  {seen.rows()[0]}\n  {seen.rows()[1]}")

# %%
# The V100's memory ran as fast as it can. But it leaves the factory with a clock of
# 1,290 MHz for programs, and its sheet counts with 1,530. So whatever waits for
# *arithmetic* took nearly a fifth longer. The GTX 1080 Ti was slower at both. The rates
# on its sheet are those at 1,582 MHz, so that is the clock on paper.
#
# .. math::
#
#     t_\text{arithmetic} = \frac{\text{operations}}{\text{rate on paper}} \cdot
#         \frac{\text{clock on paper}}{\text{clock today}} \cdot
#         \frac{1}{\text{your part}}
#
# .. math::
#
#     t_\text{memory} = \frac{\text{bytes}}{\text{rate on paper}} \cdot
#         \frac{1}{\text{your part}}
#
# *Your part* is the part of the card's cores, or of its memory, that is yours. It's 1
# if you don't share the card. If the memory's own clock is lower, the second formula
# gets a factor for that, too. A launch and a transfer hardly depend on the card's
# clock, but on the CPU and the slot.
#
# How long does a card stay fast?
# -------------------------------
#
# And if nobody sets a lower clock? Our H100 multiplied two matrices of 4,096 rows again
# and again. In the figure, a point is nineteen products in TF32, or 34 or 36 in 16
# bits.
#
# .. holds::
#
#    kinds = "tf32", "float16"
#    every = (*kinds, "bfloat16")
#    [row(f"precision/GPU, matmul, {kind}").loops for kind in every] == [19, 34, 36]

# folded code: The times are those of its record, which a clone of this site has
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from firstlight.records.record import read as read_record

NAME = "records/nvidia-h100-80gb-hbm3/2_devices/13_precision.json"
here = Path(globals().get("__file__", "here")).resolve()
found = [folder / NAME for folder in here.parents if (folder / NAME).is_file()]
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for path in found[:1]:
    rows = read_record(path).timings
    for kind, marker in (("tf32", "o"), ("float16", "s"), ("bfloat16", "^")):
        row = rows[f"precision/GPU, matmul, {kind}/cuda:0/n=4096"]
        taken = row.loops * np.cumsum(row.values)
        label = {"tf32": "TF32"}.get(kind, kind)
        slower = np.array(row.values) / row.values[0]
        ax.plot(1e3 * taken, slower, marker, label=f"products in {label}")
ax.axhline(1, color="gray", ls=":")
ax.set(xlabel="milliseconds of products", ylabel="time of one, against the first")
ax.set_title("After forty milliseconds, our H100 slowed down")
ax.legend(frameon=False)
fig.set_label(
    "The time of a product against the milliseconds that the card has multiplied. In "
    "TF32 and in float16, it's level until nearly 40 ms, then an eighth to a seventh "
    "longer, and after that a seventh to a fifth. In bfloat16 it's a twentieth longer "
    "from 24 to 30 ms on."
)
plt.show()

# %%
# It was milliseconds. Within a twentieth of a second, each product began to take an
# eighth longer, and then a seventh to a fifth. In ``bfloat16``, which ran last, it was
# only a twentieth, but it began sooner. Most likely that was the *power*. A card may
# only draw so much, and if products need more, it lowers its clock until they don't.
# That run didn't ask ``nvidia-smi``, so we can't be sure.
#
# .. holds::
#
#    values = {kind: row(f"precision/GPU, matmul, {kind}").values for kind in kinds}
#    early = {kind: values[kind][:6] for kind in kinds}
#    late = {kind: min(values[kind][6:]) / min(early[kind]) for kind in kinds}
#    all(max(early[kind]) < 1.02 * min(early[kind]) for kind in kinds)
#    sum(early["tf32"]) * 19 < 0.04 and sum(early["float16"]) * 34 < 0.04
#    all(1.11 < late[kind] < 1.15 for kind in kinds)
#    later = [value / min(early[kind]) for kind in kinds for value in values[kind][10:]]
#    1.14 < min(later) and max(later) < 1.2
#    last = row("precision/GPU, matmul, bfloat16").values
#    max(last[:3]) < 1.01 * last[0] and 1.04 < min(last[4:]) / last[0]
#    max(last) < 1.06 * last[0] and 0.023 < 36 * sum(last[:4]) < 0.025
#    plain = [row(f"precision/GPU, matmul, float{bits}").values for bits in (32, 64)]
#    all(max(one) < 1.01 * min(one) for one in plain)
#
# So a benchmark of a few milliseconds tells you what a rested card does, and a program
# that multiplies as hard as this runs on a tired one. With a lower power limit, as in a
# rack full of cards, it happens sooner, and no formula says by how much. So the next
# cell measures your GPU, if you have one.

# folded code: The same on your GPU
import time
from concurrent.futures import ThreadPoolExecutor


def tire(side, seconds):
    """Return when every ten products were done, and what nvidia-smi said meanwhile."""
    import torch

    def mark():
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()

    x = torch.rand(side, side, device="cuda", dtype=torch.float16)
    marks, product = [], torch.mm(x, x)  # and the library has started
    torch.cuda.synchronize()
    time.sleep(min(seconds, 1))  # so that the card is rested
    with ThreadPoolExecutor() as other:
        said, until = other.submit(ask), time.perf_counter() + seconds
        mark()
        while time.perf_counter() < until:
            for _ in range(10):
                torch.mm(x, x, out=product)
            mark()
            marks[max(0, len(marks) - 4)].synchronize()  # never far ahead of the GPU
        torch.cuda.synchronize()
        done = [marks[0].elapsed_time(each) / 1e3 for each in marks]
        return done, said


# %%

# folded code: The same on your GPU, continued
side, seconds = 4096, 2.0
try:
    from firstlight import best_device

    has_gpu = best_device().type == "cuda"
except ImportError:
    has_gpu = False
if has_gpu:
    done, said = tire(side, seconds)
    each = np.diff(done)
    early, late = np.median(each[:3]), np.median(each[-len(each) // 4 :])
    print(f"after {done[-1]:.2g} s, a product took {late / early:.2f} times as long")
    try:
        for seen in read(said.result()):
            seen.table().show()
    except ValueError as problem:
        print(f"nvidia-smi: {problem}")
else:
    print("There's no such GPU here.")

# %%
# When you only have a slice
# --------------------------
#
# Clusters cut large cards into slices, so that more people get one. On an A100 or H100
# it's called *MIG*, and ``nvidia-smi -L`` names your slice. In ``3g.40gb``, the second
# number is your memory in GB, and with it comes the same part of the *bandwidth*,
# `counted in eighths`__. The first number counts slices of the multiprocessors, of
# which such a card has seven, but they needn't be equal. So look under ``SM`` in what
# ``nvidia-smi mig -lgip`` lists: ``3g.40gb`` has 42 of an A100's 108, but 60 of the 132
# of an H100 with HBM3, more than three sevenths. Below is a made-up A100 in two slices.
# **A 1g.10gb of it has 14 multiprocessors. How much higher do its floors get?** Say it
# before you look at the table.
#
# __ https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html

sliced = """\
name, memory.total, clocks.current.sm, clocks.max.sm, power.limit, mig.mode.current
NVIDIA A100-SXM4-80GB, 81920 MiB, 1410 MHz, 1410 MHz, [N/A], Enabled
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6)
  MIG 3g.40gb     Device  0: (UUID: MIG-8a3b1c22)
  MIG 1g.10gb     Device  1: (UUID: MIG-0f6e7d11)
"""
(seen,) = read(sliced)
seen.table().show()

# %%
# An eighth of the bandwidth makes the floors of memory eight times as high, and 14 of
# 108 multiprocessors do nearly the same to those of arithmetic. The slice has an eighth
# of the L2, too, and so has a ``1g.20gb``, with a quarter of the memory.
#
# Not all settings cost something. With *ECC*, a card finds and mends flipped bits. HBM,
# the memory of large cards, has room of its own for the check bits, and on a V100 ECC
# costs `neither memory nor bandwidth`__. In GDDR, they lie among your data: on a K40,
# they took a sixteenth of the memory.
#
# One ratio never changes. Outside the tensor cores, ``float64`` has half of the
# ``float32`` rate on some cards, on others a 32nd, a 60th or a 64th
# (:doc:`/tutorials/2_devices/13_precision`). Our floors come from :doc:`these sheets
# </cards>`, and you can :doc:`measure your GPU in your browser </your_gpu>`.
#
# __ https://images.nvidia.com/content/volta-architecture/pdf/volta-architecture-whitepaper.pdf
#
# Your turn
# ---------
#
# Write the function that says how long a kernel takes *at least*, on a card or a part
# of one, today. You know how many bytes it moves and how many operations it does. A
# card has these fields. Those with units are as ``nvidia-smi`` prints them:

from collections import namedtuple

Card = namedtuple("Card", "bandwidth rate paper clock highest memory slice own whole")
a100 = Card(2.039e12, 19.5e12, 1410, "1410 MHz", "1410 MHz", "81920 MiB", "", 108, 108)
h100 = Card(3.35e12, 67e12, 1980, "1980 MHz", "1980 MHz", "81559 MiB", "", 132, 132)
gtx = Card(484e9, 11.3e12, 1582, "1480 MHz", "1911 MHz", "11264 MiB", "", 28, 28)
lowered = a100._replace(clock="705 MHz")
small = a100._replace(slice="1g.10gb", own=14)
large = h100._replace(slice="3g.40gb", own=60)

# %%
# ``bandwidth`` and ``rate`` are bytes and operations a second, for the whole card at
# the clock on ``paper``, in MHz. If a card has no slices, ``slice`` is empty. You have
# ``own`` of its ``whole`` multiprocessors. A clock that ``nvidia-smi`` doesn't tell is
# ``"[N/A]"``. Then take the ``highest`` clock, because a floor must be true in any
# case. Put your function where the dots are, and run ``firstlight try
# 21_your_card_today.py``.


def least(moved, operations, card): ...


# %%

# folded: What checks your answer
MUCH_MEMORY, MUCH_ARITHMETIC = (1e9, 1e9), (1e6, 1e12)  # bytes and operations
CASES = [  # a card, what it's asked to do, and by how much the floor is higher
    ("a whole card", a100, MUCH_MEMORY, 1),
    ("a whole card", a100, MUCH_ARITHMETIC, 1),
    ("half of the clock", lowered, MUCH_ARITHMETIC, 2),
    ("half of the clock", lowered, MUCH_MEMORY, 1),
    ("the slice 1g.10gb", small, MUCH_MEMORY, 8),
    ("the slice 1g.10gb", small, MUCH_ARITHMETIC, 108 / 14),
    ("the slice 1g.20gb", small._replace(slice="1g.20gb"), MUCH_MEMORY, 4),
    ("a slice of an H100", large, MUCH_MEMORY, 2),
    ("a slice of an H100", large, MUCH_ARITHMETIC, 132 / 60),
    ("both", lowered._replace(slice="2g.20gb", own=28), MUCH_ARITHMETIC, 216 / 28),
    ("a sheet's clock", gtx, MUCH_ARITHMETIC, 1582 / 1480),
    ("a clock not told", gtx._replace(clock="[N/A]"), MUCH_ARITHMETIC, 1582 / 1911),
]


def hint(case, got, right, work):
    if "told" in case:
        return "if the clock isn't told, take the highest."
    if "half" in case and work == MUCH_MEMORY:
        return "the clock of the cores doesn't change how fast the memory is."
    if "slice" in case:
        return "memory is counted in eighths. The multiprocessors are own and whole."
    if "sheet" in case:
        return "the rate is that of the clock on paper, not of the highest."
    if got > right:
        return "both go on at the same time, so it's the longer one, not the sum."
    return "which of the two takes longer? And is the card at its clock on paper?"


# %%

# folded: What checks your answer, continued


def check(answer):
    for case, card, (moved, operations), factor in CASES:
        right = factor * max(moved / card.bandwidth, operations / card.rate)
        what = f"With {case}, {moved:.0e} bytes and {operations:.0e} operations"
        try:
            got = float(answer(moved, operations, card))
        except Exception as error:
            return f"Not yet. {what}: {type(error).__name__}: {error}"
        if not abs(got / right - 1) < 1e-6:
            says = hint(case, got, right, (moved, operations))
            return f"Not yet. {what}: {got:.3g} s, not {right:.3g} s. Hint: {says}"
    return "Right."


# %%

print(check(least))

# %%
# Three lines to remember
# -----------------------

# remember
print("""\
1. Ask while your program runs: firstlight today. A resting card tells you nothing.
2. A lower clock raises the floors of arithmetic. A slice raises those of memory, too.
3. A card may slow down before it has multiplied matrices for a tenth of a second.""")

# %%
# Solution
# --------

# solution


def least_solution(moved, operations, card):
    told, highest = card.clock.split()[0], card.highest.split()[0]
    clock = float(told if told.isdigit() else highest)
    eighths = 8
    if card.slice:
        mine = int(card.slice.split(".")[1].rstrip("gb"))
        eighths = round(8 * mine / (float(card.memory.split()[0]) / 1024))
    memory = moved / card.bandwidth * 8 / eighths
    arithmetic = operations / card.rate * card.paper / clock * card.whole / card.own
    return max(memory, arithmetic)


print(f"Our solution: {check(least_solution)}")
