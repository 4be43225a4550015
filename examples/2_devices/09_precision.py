"""
How many digits can you afford to lose?
=======================================

Your data are in ``float64``, because NumPy made them so. A GPU offers four formats with
fewer digits, and data sheets promise more speed with each. A course notebook warns that
its card computes ``float64`` at a 32nd of the speed of ``float32``. A page later, its
GPU and NumPy differ in the last digit, and it jokes about GPUs. So: how many digits
would you lose, how much time would you win, and which of the two was right?

**You will learn**

- what a format keeps, and to predict the error of a matrix product from it;
- to set that error beside the time, on your machine and on cards that you do not have;
- why two correct machines give two results, and which is closer to the truth;
- how many digits a subtraction takes, and a rule to choose a format by.

**Time:** 20 minutes. **Needs:** any computer. With a GPU, the page measures that too.
"""

# %%
# Predict
# -------
#
# Computers write numbers as scientists do, only with powers of two: a *fraction* holds
# the digits, an *exponent* holds the size. A format says how many bits each gets.

import math

import torch

FRACTION = {"float64": 52, "float32": 23, "tf32": 10, "float16": 10, "bfloat16": 7}
EPS = {name: 2.0**-bits for name, bits in FRACTION.items()}


def storage(name):
    return torch.float32 if name == "tf32" else getattr(torch, name)


for name, bits in FRACTION.items():
    info = torch.finfo(storage(name))
    print(f"{name:<9}{info.bits} bits, {bits:2} for the fraction", end=", ")
    print(f"eps {EPS[name]:.1e}, {info.tiny:.0e} to {info.max:.0e}")

# %%
# *eps* is the step from 1 to the next larger number. What falls between two steps is
# rounded to the nearer one, so a rounding changes a number by half an eps of its size
# at most. ``float16`` has three digits, and ends at 65 504. ``bfloat16`` has two, and
# the range of ``float32``.
#
# *tf32* (TensorFloat-32) is nothing that you can store. *Tensor cores*, units that do
# nothing but multiply small matrices, can round ``float32`` numbers to it on their way
# in. NVIDIA's have done so since the A100, and AMD's MI300 has such units, too.
#
# Now the time. Two things can set it. One is *bytes*: half the bytes take half the
# time, on every card. The other is *arithmetic*, and there every card has ratios of its
# own. Here are the rates of data sheets, as multiples of the card's ``float32``. All
# but the first column are what tensor cores do, in matrix products only:

from firstlight.measure.specs import spec, spec_of

SHEET = {"float64": "fp64", "in matrices": "fp64_matrix", "tf32": "tf32"}
SHEET |= {"float16": "fp16", "bfloat16": "bf16"}


def written(rate, of):
    ratio = (rate or 0) / of.fp32
    if ratio > 0.6:
        return f"{ratio:.1f}"
    return f"1:{1 / ratio:.0f}" if ratio else "none"


print(" " * 10 + "".join(f"{column:>12}" for column in SHEET))
for card in ("GTX 1080", "RTX 4090", "V100 SXM2", "H100 SXM", "MI300X"):
    of = spec_of(card)
    row = [written(getattr(of, field), of) for field in SHEET.values()]
    print(f"{card:<10}" + "".join(f"{cell:>12}" for cell in row))

# %%
# Cards for games do ``float64`` at 1:32 or 1:64. Cards for science do it at 1:2, and
# the newer ones have tensor cores for it: in a *matrix product*, ``float64`` is then as
# fast as ``float32``. And tf32, which promises so much on an H100, wins nothing on an
# RTX 4090.
#
# The notebook's card is a 1:32 one, like the GTX 1080. So does its sum of two vectors
# take 32 times the time in ``float64``? Work it out:

for field, size in (("fp32", 4), ("fp64", 8)):
    memory = 3 * size / spec("GTX 1080", "bandwidth")  # two are read, one is written
    arithmetic = 2 / spec("GTX 1080", field)  # sheets count a multiply-add as two
    print(f"GTX 1080, {field}, a number: {1e12 * memory:4.1f} ps for memory,", end=" ")
    print(f"{1e12 * arithmetic:.1f} ps to add")

# %%
# No. An addition waits for memory in either format, and ``float64`` has twice the
# bytes. You meet the 32 only where each number is used many times once it is loaded, as
# in a matrix product. Ask first *what your code waits for*.
#
# Round some numbers, and look
# ----------------------------
#
# PyTorch rounds for you, except to tf32. That takes three lines, since a float is only
# bits: add half a step (a tie goes to the even neighbour), and cut off the rest. This
# emulates the *rounding* of tf32, not its speed.


def keep(x, bits):
    """Round float32 numbers to so many bits of fraction."""
    drop = 23 - bits
    raw = x.to(torch.float32).view(torch.int32)
    raw = raw + (1 << (drop - 1)) - 1 + ((raw >> drop) & 1)
    return (raw >> drop << drop).view(torch.float32)


def rounded(x, name):
    """The numbers as a format holds them, written in float64, which adds no error."""
    return (keep(x, 10) if name == "tf32" else x.to(storage(name))).double()


torch.manual_seed(1)
x = torch.randn(100_003)
x = x[x.abs() > 2**-14]  # smaller ones have fewer digits in float16
assert torch.equal(keep(x, 7), x.bfloat16().float())
assert torch.equal(keep(x, 10), x.half().float())
print("right: bit for bit bfloat16, and float16, which has the fraction of tf32")

# %%
# Some numbers that you know: π, the speed of light in m/s, and Planck's constant in
# J s, also squared.

h = 6.62607015e-34
constants = torch.tensor([math.pi, 299_792_458, h, h * h], dtype=torch.float64)
for name in FRACTION:
    pi, c, *planck = rounded(constants, name).tolist()
    print(f"{name:<9}{pi:<17.15} {c:<10.0f}", *(f"{p:<9.3g}" for p in planck))

# %%
# The speed of light is no ``float32`` number: near it, these are 32 apart. In
# ``float16`` it is infinite, and Planck's constant is zero. Its square is zero in all
# but ``float64``. Choose units in which your numbers are near 1.
#
# A rounding is off by half an eps at most. And on average?

x64 = x.double()
for name in ("bfloat16", "float16", "tf32"):
    off = (rounded(x, name) - x64).square().mean() / x64.square().mean()
    per_rounding = off.sqrt().item() / EPS[name]
    print(f"{name:<9}error of a rounding: {per_rounding:.3f} eps (root mean square)")

# %%
# A fifth of an eps, in every format. From this you can predict a matrix product. Each
# of its elements is a sum of :math:`K` products. Roundings are independent, so their
# squares add.
#
# - *16 bits and tf32.* Both factors of each product are rounded: :math:`\sqrt 2` times
#   a fifth of an eps. More terms do not make it worse, since sum and error grow alike.
#   The sum is kept in ``float32``, also where the factors have 16 bits. Then the 16-bit
#   formats round the result, too: :math:`\sqrt 3`.
# - *float32 and float64.* Our data are ``float32`` numbers, so nothing is lost on the
#   way in. But each of :math:`K` additions rounds what was added up so far. One after
#   another, that comes to :math:`\sqrt{K/2}`. Libraries keep several sums side by side
#   and should do better: a bound.
#
# Check
# -----
#
# Is that so? In ``float64``, the product of two ``float32`` numbers is exact, and
# ``math.fsum`` adds such products with one rounding at the very end. That is the truth.
# The sizes are odd, and a GPU is asked as well. For tf32, PyTorch has a switch:
# ``torch.set_float32_matmul_precision("high")`` allows it, ``"highest"``, with which
# PyTorch starts, forbids it. Only CUDA GPUs heed it.

from firstlight import Bench, best_device

device = best_device()
places = [torch.device("cpu")] + [device] * (device.type != "cpu")
has_tf32 = device.type == "cuda" and not torch.version.hip
has_tf32 = has_tf32 and torch.cuda.get_device_capability(device) >= (8, 0)


def matmul(x, y, out):
    torch.matmul(x, y, out=out)


def tf32_matmul(x, y, out):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    torch.matmul(x, y, out=out)
    torch.set_float32_matmul_precision(before)


def has(name, where):
    try:
        x = torch.ones(2, 2, dtype=storage(name), device=where)
        (x @ x).cpu()
    except (RuntimeError, TypeError):  # Apple's GPUs, for example, have no float64
        return False
    return name != "tf32" or (has_tf32 and x.is_cuda)


formats = {where: [name for name in FRACTION if has(name, where)] for where in places}

# %%


def product(name, x, y):
    if name == "tf32" and x.device.type == "cpu":
        return keep(x, 10) @ keep(y, 10)  # emulated
    x, y = x.to(storage(name)), y.to(storage(name))
    out = x.new_empty(x.shape[0], y.shape[1])
    (tf32_matmul if name == "tf32" else matmul)(x, y, out)
    return out


def rms_error(got, exact):
    off = got.cpu().double() - exact
    return (off.square().mean() / exact.square().mean()).sqrt().item()


K = 1001
a, b = torch.randn(31, K), torch.randn(K, 33)
terms = (a.double()[:, None, :] * b.double().T).tolist()
exact = [[math.fsum(sums) for sums in row] for row in terms]
exact = torch.tensor(exact, dtype=torch.float64)
roundings = {"float64": K / 2, "float32": K / 2, "tf32": 2, "float16": 3, "bfloat16": 3}

# %%

predicted, error = {}, {}
for name, count in roundings.items():
    predicted[name] = math.sqrt(count) * per_rounding * EPS[name]
    error[name] = rms_error(product(name, a, b), exact)
    bound = "at most " if count > 3 else ""
    print(f"{name:<9}predicted {bound}{predicted[name]:.1e}, met", end=" ")
    print(f"{error[name]:.1e}", end="")
    for where in [where for where in places[1:] if name in formats[where]]:
        live = rms_error(product(name, a.to(where), b.to(where)), exact)
        print(f", on {where} {live:.1e}", end="")
    print()
    assert error[name] < 1.5 * predicted[name], f"{name} errs more than predicted"

# %%
# So you know a format's error before you use it. Where there is a GPU, compare its tf32
# with the emulation.
#
# Measure
# -------
#
# Now the time: of a square matrix product in each format that a device has, and of an
# addition, which moves three numbers to compute one.


def add(x, y, out):
    torch.add(x, y, out=out)


def time_on(where, side, numbers):
    gpu = "" if where.type == "cpu" else "GPU, "
    for name in formats[where]:
        way = tf32_matmul if name == "tf32" else matmul
        x, y = (
            torch.rand(side, side, device=where).to(storage(name)) for _ in range(2)
        )
        work = {"n": side, "flops": 2 * side**3}
        bench.time(f"{gpu}matmul, {name}", way, x, y, x.clone(), **work)
        if name != "tf32":
            x, y = (torch.rand(numbers, device=where).to(x.dtype) for _ in range(2))
            work = {"n": numbers, "bytes": 3 * x.nbytes}
            bench.time(f"{gpu}add, {name}", add, x, y, x.clone(), **work)


bench = Bench("precision", budget=4)
time_on(places[0], 384, 2**23)
for where in places[1:]:
    time_on(where, *((4096, 2**26) if where.type == "cuda" else (2048, 2**24)))
bench.show()

# %%
# (*of roof* compares with the device's best ``float32`` product, so narrow formats may
# exceed it.) Here are both groups, each as multiples of its own ``float32``:


def relative(prefix):
    times = {t.label.removeprefix(prefix): t.median for t in bench.timings}
    return {name: times[name] / times["float32"] for name in FRACTION if name in times}


for prefix in ("add, ", "matmul, ", "GPU, add, ", "GPU, matmul, ")[: 2 * len(places)]:
    print(prefix + ", ".join(f"{name} {r:.2g}" for name, r in relative(prefix).items()))

# %%
# Additions follow the bytes, as far as a device knows the format. Products follow the
# hardware. Where 16 bits take *longer* on a CPU, it has no instructions for them, and
# every number is converted on the way. (Some CPUs have them: on Linux, look for
# ``avx512_bf16``, ``amx_bf16`` or ``bf16`` in ``/proc/cpuinfo``.)
#
# Now both halves in one picture, a point a format. The errors are those from above. The
# times of two cards are *models*: the ratios of their data sheets.

import matplotlib.pyplot as plt


def model(card):
    of = spec_of(card)
    rates = {"float64": max(of.fp64, of.fp64_matrix or 0), "float32": of.fp32}
    rates |= {"tf32": of.tf32, "float16": of.fp16, "bfloat16": of.bf16}
    return {name: of.fp32 / rate for name, rate in rates.items()}


drawn = {f"model: {card}": model(card) for card in ("H100 SXM", "RTX 4090")}
drawn["this CPU"] = relative("matmul, ")
if len(places) > 1:
    drawn["this GPU"] = relative("GPU, matmul, ")
colours = ("#2f9e77", "#d9762b", "#2f7ed8", "#b45fc0")

# %%

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
for (label, times), colour, marker in zip(drawn.items(), colours, "^soD", strict=False):
    errors = [error[name] for name in times]
    style = {"ls": "--", "mfc": "none"} if "model" in label else {"ls": "-"}
    style |= {"color": colour, "marker": marker, "label": label}
    ax.plot([*times.values()], errors, ms=9, mew=2, **style)
for name in FRACTION:
    ax.axhline(error[name], color="#808890", lw=0.6, zorder=0)
    ax.text(0.012, error[name], name, va="top" if name == "tf32" else "bottom", size=9)
ax.set(xscale="log", yscale="log", xlim=(0.01, None), ylim=(1e-16, 0.1))
ax.xaxis.set_major_formatter("{x:g}")
ax.set_xlabel("time of a matrix product (float32 on the same device: 1)")
ax.set_ylabel("error (rms, of the rms result)")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside upper center", ncols=2, frameon=False)
slowest = max(ratio for name, ratio in drawn["this CPU"].items() if "16" in name)
fig.set_label(
    "Error against time of a matrix product in five formats, both axes logarithmic, "
    f"times relative to float32. On this CPU a 16-bit product is at {slowest:.2g}. In "
    "the models an H100 has float64 at 1, an RTX 4090 at 64, and tf32 at 1."
)
plt.show()

# %%
# Follow a line from left to right: one format, one error, and very different times. So
# "16 bits are fast" and "``float64`` is slow" say nothing about a format. They are
# about a card:
#
# - *The model of an H100.* ``float64`` stands right below ``float32``. In a matrix
#   product ``float32`` gives eight digits away for nothing.
# - *The model of an RTX 4090.* ``float64`` is far right. tf32 costs digits, and wins
#   nothing.
# - *Your CPU.* Where its 16 bits are right of 1, they are slower *and* worse.
#
# Products in ``float16`` against those in ``float32``, on the newest GPU on record:
# :timing:`precision speedup "GPU, matmul, float16"/"GPU, matmul, float32" @gpu`.
#
# Two right answers
# -----------------
#
# The notebook's GPU and its NumPy differed in the last digit. That has two causes, and
# neither is a defect. The first is *order*. Sums are rounded, so brackets matter: in
# ``float32`` 1 + 10⁸ − 10⁸ is 0 or 1, as you will see.
#
# A loop adds one number after another. On a GPU each thread adds up a share of the
# numbers, and then the threads' sums meet in pairs, as in a knock-out tournament. That
# order can be had on any computer:

import numpy as np

big, one = np.float32(1e8), np.float32(1)
print((one + big) - big, one + (big - big))


def like_a_gpu(terms, threads):
    total = np.zeros((len(terms), threads), dtype=np.float32)
    for low in range(0, terms.shape[1], threads):
        part = terms[:, low : low + threads]
        total[:, : part.shape[1]] += part
    while threads > 1:
        threads //= 2
        total = total[:, :threads] + total[:, threads:]
    return total[:, 0]


# %%
# The second cause is the *fused multiply-add*: :math:`a b + c`, rounded once and not
# twice. GPUs use it wherever they can; CPUs do in good libraries. It is more exact, and
# it can surprise. The imaginary part of :math:`z \bar z` is :math:`y x - x y`, so 0.
# Fused, one of the two products is not rounded:

x, y = np.float32(0.1), np.float32(0.7)
fused = np.float32(float(y) * float(x) - float(x * y))  # exact inside, rounded once
print(f"imaginary part of z times its conjugate: {y * x - x * y}, fused: {fused:.0e}")

# %%
# Now the notebook's own operation, a matrix times a vector, with longer rows, in
# several orders. To fuse, NumPy gets the exact products, in ``float64``. The columns
# are the first element, the error of all in eps (rms), and how often a way is nearer to
# the truth than NumPy's ``@``.

rng = np.random.default_rng(seed=1)
matrix = rng.standard_normal((201, 10_001), dtype=np.float32)
vector = rng.standard_normal(10_001, dtype=np.float32)
products = matrix.astype(np.float64) * vector
truth = np.array([math.fsum(row) for row in products.tolist()])
ways = {
    "loop, rounded twice": like_a_gpu(matrix * vector, 1),
    "loop, fused": like_a_gpu(products, 1),
    "matrix @ vector": matrix @ vector,
    "np.sum, in pairs": np.sum(matrix * vector, axis=1),
    "256 threads, fused": like_a_gpu(products, 256),
    "float64, then round": np.float32(products.sum(axis=1)),
}
for at in places[1:]:
    moved = [torch.from_numpy(array).to(at) for array in (matrix, vector)]
    ways[f"torch.mv on {at}"] = torch.mv(*moved).cpu().numpy()
missed = {way: np.abs(rows - truth) / np.std(truth) for way, rows in ways.items()}
for way, off in missed.items():
    rms, nearer = np.sqrt(np.mean(off**2)), np.mean(off < missed["matrix @ vector"])
    print(f"{way:<20}{ways[way][0]:.6f}", end=" ")
    print(f"{rms / EPS['float32']:5.2f} {nearer:6.0%}")

# %%
# Which is closer, the CPU or the GPU? *The one with the shorter chain of roundings*,
# wherever it runs. The loop rounds its sum ten thousand times. In a tournament each
# number is rounded a few times on its way up, and a GPU *has* to add like that to keep
# its threads busy. Fusing adds little. (The notebook's kernel gave a whole row to one
# thread, and was still closer than NumPy, because of a hidden ``float64``:
# :doc:`/tutorials/3_kernels/07_what_the_compiler_did`.)
#
# So a result that differs is not therefore wrong. Compare *both* with something better
# than either. Let the tolerance follow from the format: some eps of the *terms*, not of
# the result. Terms may cancel, and then digits go.
#
# What a subtraction takes
# ------------------------
#
# A difference of two numbers close to each other is exact, and yet it shows what was
# lost before. Their rounding errors stay, and the numbers themselves are gone:
#
# .. math::
#
#     \text{relative error} \approx \text{eps} \times \frac{\text{large}}{\text{small}}.
#
# Predict: a camera's pixels lie at 10 000 counts and scatter by 2. The variance in one
# pass is the mean square minus the squared mean: :math:`10^8` minus :math:`10^8`, and
# 4 should be left.

pixels = rng.normal(10_000, 2, 100_003).astype(np.float32)
print(f"float32 numbers near 1e8 are {np.spacing(np.float32(1e8)):.0f} apart")
for kind in (np.float32, np.float64):
    x = pixels.astype(kind)
    one_pass = np.mean(x * x) - np.mean(x) ** 2
    print(f"{kind.__name__}: one pass {one_pass:.4f}", end=", ")
    print(f"two passes {np.mean((x - np.mean(x)) ** 2):.4f}")

# %%
# A multiple of 8 cannot be 4. More digits mend it, and so does another formula:
# subtract *first*, while the numbers are small.
#
# Radio astronomers meet this in every image. A telescope baseline of :math:`u`
# wavelengths sees a source at the angle :math:`l` with the phase :math:`2\pi u l`. Of
# these *turns* only what is left of the last one counts. Large is the number of turns,
# small is one turn. Draw 301 baselines at each number of turns:

angle = np.float32(0.00372)
turns = np.geomspace(1, 1e9, 28)
u = (turns[:, None] * rng.uniform(0.9, 1.1, 301) / angle).astype(np.float32)
exact_turns = u.astype(np.float64) * float(angle)
last_turn = exact_turns - np.rint(exact_turns)
phases = {
    "float32": np.float32(2 * np.pi) * u * angle,
    "float64": 2 * np.pi * u.astype(np.float64) * float(angle),
    "turns in float64, then float32": np.float32(2 * np.pi) * np.float32(last_turn),
}
right = np.exp(2j * np.pi * last_turn)
phase_error = {}
for way, phase in phases.items():
    off = np.abs(np.exp(1j * phase.astype(np.float64)) - right)
    phase_error[way] = np.sqrt(np.mean(off**2, axis=1))

# %%
# The dashed lines are the rule, with three roundings of a fifth of an eps each.

fig, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
looks = zip(phase_error.items(), ("#2f7ed8", "#b45fc0", "#2f9e77"), "os^", strict=True)
for (way, errors), colour, marker in looks:
    ax.plot(turns, errors, marker, color=colour, label=way)
    if way in EPS:
        rule = 2 * np.pi * turns * EPS[way] * per_rounding * math.sqrt(3)
        ax.plot(turns[rule < 30], rule[rule < 30], "--", color=colour)
limit = 2 * np.pi / 100
ax.axhline(limit, color="#808890", lw=1)
ax.text(1, limit, "a hundredth of a turn", va="bottom", size=9)
ax.set(xscale="log", yscale="log", ylim=(1e-17, 30), xlabel="turns, u × l")
ax.set_ylabel("error of the phase (rms, radians)")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside upper center", ncols=2, frameon=False)
lost = turns[phase_error["float32"] > limit][0]
fig.set_label(
    "Error of a phase against the number of turns, both axes logarithmic. In float32 "
    "and float64 it grows in proportion, along the dashed rule. float32 passes a "
    f"hundredth of a turn near {lost:.0e} turns, and soon nothing is left of it. With "
    "the turns in float64 and the rest in float32, the error stays level."
)
plt.show()

# %%
# The level marks are the lesson. ``float64`` is needed for *one product*, until the
# whole turns are gone. All that follows, nearly all the work, may stay in ``float32``.
# Look for such a place before you pay for digits everywhere.
#
# Keep the sum wide
# -----------------
#
# One loss needs no subtraction: adding little to much. Count to 5000, one by one:

counts = {}
for name in ("bfloat16", "float16", "float32"):
    total = torch.zeros((), dtype=storage(name))
    for _ in range(5000):
        total += 1
    counts[name] = total.item()
    at_once = torch.ones(5000, dtype=storage(name)).sum().item()
    print(f"{name:<9}one by one {counts[name]:.0f}, torch.sum {at_once:.0f}")

# %%
# From 256 on, ``bfloat16`` has only even numbers: 256 + 1 is rounded to 256, for ever.
# ``torch.sum`` adds in ``float32`` and rounds once, as the matrix product does. A
# running mean, a histogram, or a weight that grows by small steps has no such help.
# Keep what *accumulates* in ``float32`` or wider. (For a training, ``torch.autocast``
# does that: products in 16 bits, weights in ``float32``.)
#
# Choose
# ------
#
# 1. *Range.* The largest number on the way must be below the format's largest.
# 2. *Digits.* eps × large/small must be below the error that you allow. If not even
#    ``float64`` will do, change the formula.
# 3. *Cost.* Of the formats that remain, take the fewest bytes, and of equal bytes the
#    smaller eps. For matrix products look at your card's row first: what is not faster
#    there is not worth its error.
# 4. *Test.* Run a small case in ``float64``, on the CPU if need be, and compare.
#
# Where this stops being true
# ---------------------------
#
# - *No float64.* Apple's GPUs have none, nor do some of Intel's. Do the one product
#   that needs it on the CPU.
# - *Convolutions* may use tf32 by default (``torch.backends.cudnn.allow_tf32``). And
#   partial sums of 16-bit products may be added in 16 bits. PyTorch's `notes on
#   accuracy`__ name the switches.
# - *Errors that are no accident.* Squares add if roundings are independent. Equal
#   numbers are rounded equally, and their errors add up in full.
# - *A data sheet is no measurement.* Small products wait for their launch, large ones
#   for electric power, and converting takes time, too. Makers decide anew with every
#   generation what ``float64`` is worth: look your card up.
#
# __ https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html
#
# Exercise
# --------
#
# Write rules 1 to 3 as a function. ``error`` is the relative error that you allow,
# ``largest`` the largest number, and ``cancels`` how many times smaller the difference
# is than the two numbers subtracted (1: nothing cancels). Give the name of a format of
# 16, 32 or 64 bits, or ``None``. ``torch.finfo(torch.float16)`` has ``.eps``, ``.max``
# and ``.bits``.


def choose(error, largest, cancels): ...


# %%
# ``check`` believes no rule. It tries each format on 10 001 differences of such numbers
# and looks at the worst.

cases = [
    ((2e-3, 1, 1), "Brightness from 0 to 1: compare eps with the error."),
    ((1e-2, 1e5, 1), "100 000 counts: where does float16 end?"),
    ((2e-2, 1, 1), "Two formats have 16 bits. Which has the smaller eps?"),
    ((1e-2, 1e4, 1e4), "10 000 turns, one is left: cancels multiplies eps."),
    ((1e-6, 1e4, 1e4), "To a millionth of a turn: cancels multiplies eps."),
    ((1e-2, 1e46, 1), "A quasar's 1e46 erg/s: float32 has a largest number, too."),
    ((1e-3, 1e3, 1e15), "If not even float64 will do, the answer is None."),
]
NAMES = ("bfloat16", "float16", "float32", "float64")


def worst_in(name, largest, cancels):
    large = largest * torch.linspace(0.5, 1, 10_001, dtype=torch.float64)
    small = large / cancels
    left = rounded(large, name) - rounded(large - small, name)
    return ((left - small) / small).abs().nan_to_num(math.inf, math.inf).max().item()


# %%


def check(answer):
    for (allowed, *numbers), hint in cases:
        call = f"choose({', '.join(f'{x:g}' for x in (allowed, *numbers))})"
        worst = {name: worst_in(name, *numbers) for name in NAMES}
        enough = [name for name in NAMES if worst[name] <= allowed]
        cost = {name: (storage(name).itemsize, worst[name]) for name in enough}
        best = min(enough, key=cost.get, default=None)
        try:
            got = answer(allowed, *numbers)
        except Exception as problem:
            return f"{call} raised {type(problem).__name__}: {problem}"
        name = str(got).removeprefix("torch.")
        if name in worst and name not in enough:
            return f"{call} gave {name}, which errs by {worst[name]:.1g}.\nHint: {hint}"
        if name in enough and name != best:
            return f"{call} gave {name}, but {best} is better value.\nHint: {hint}"
        if name != str(best):
            return f"{call} gave {got!r}, but a format will do.\nHint: {hint}"
    return "Right: enough digits, and not one byte more."


print(check(choose))

# %%

# solution


def choose_solution(error, largest, cancels):
    infos = {name: torch.finfo(getattr(torch, name)) for name in NAMES}
    fit = [
        (info.bits, info.eps, name)
        for name, info in infos.items()
        if largest <= info.max and info.eps * cancels <= error
    ]
    return min(fit)[2] if fit else None


print(check(choose_solution))

# %%
# Each of the two numbers is off by half an eps at most: together one eps of the large.
#
# Three lines to remember
# -----------------------

here, there = predicted["bfloat16"], error["bfloat16"]
doubles = [drawn[f"model: {card}"]["float64"] for card in ("H100 SXM", "RTX 4090")]
print(f"1. A rounding errs by {per_rounding:.1f} eps. Predict with it, then measure:")
print(f"   a bfloat16 product predicted {here:.2%}, met {there:.2%}.")
print("2. Fast is a card, not a format. A float64 product in units of float32's:")
print(f"   H100 {doubles[0]:.0f}, RTX 4090 {doubles[1]:.0f} (data sheets),", end=" ")
print(f"this CPU {drawn['this CPU']['float64']:.1f} (measured).")
print("3. A subtraction leaves eps × large/small. Mend the formula, then the format.")
