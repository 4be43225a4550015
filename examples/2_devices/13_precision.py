"""
How many digits can you afford to lose?
=======================================

For anyone whose data are ``float64`` because NumPy made them so. A :term:`rounding` is
typically off by a fifth of :term:`eps`, the :term:`format`'s relative step, so you can
predict the error of a result before you compute it. How much time fewer digits save
depends on the card, and on what your code waits for. If a CPU and a GPU differ in the
last digit, neither is broken: on average, the one with the shorter chain of roundings
is closer to the truth. And where a subtraction takes digits away, change the formula
before you change the format.

**You will learn**

- what a format keeps, and to predict the error of a matrix product from it;
- to set that error beside the time, on your machine and on cards that you do not have;
- why two correct machines give two results, and which is closer;
- how many digits a subtraction takes, and a rule to choose a format by.

**Time:** 13 minutes. **Needs:** any computer.
"""

# %%
# The formats
# -----------
#
# Computers write numbers as scientists do, only with powers of two: a *fraction* holds
# the digits, an *exponent* holds the size. A format says how many bits each gets. *eps*
# is the step from 1 to the next larger number.

import math

import torch

from firstlight.display import BLUE, GREEN, GREY, ORANGE, PURPLE, show_table

FRACTION = {"float64": 52, "float32": 23, "tf32": 10, "float16": 10, "bfloat16": 7}
EPS = {name: 2.0**-bits for name, bits in FRACTION.items()}


def storage(name):
    return torch.float32 if name == "tf32" else getattr(torch, name)


# %%

rows = []
for name, eps in EPS.items():
    info, digits = torch.finfo(storage(name)), (FRACTION[name] + 1) * math.log10(2)
    ends = f"{info.smallest_normal:.0e}", f"{info.max:.0e}"
    rows.append((name, f"{digits:.0f}", f"{eps:.1e}", *ends))
head = "format", "digits", "eps", "smallest", "largest"
show_table("Five formats", head, rows)
for name in ("float32", "float16"):
    light = torch.tensor(299_792_458, dtype=storage(name)).item()
    print(f"299,792,458 becomes {light:,.0f} in {name}")

# %%
# The speed of light in m/s is not a ``float32`` number, and in ``float16`` it overflows
# to infinity. Numbers below *smallest* lose digits, and soon are 0. So choose units
# that keep numbers near 1.
#
# :term:`tf32` (TensorFloat-32) is not a format for storage.
# :term:`Tensor cores <tensor core>`, units that only multiply small matrices, can round
# ``float32`` numbers to it on their way in.
#
# Fewer bits can save time in two ways. Where you wait for memory, half the *bytes* take
# half the time. In *arithmetic*, every card has ratios of its own. Here are the rates
# of :term:`data sheets <data sheet>`, as multiples of the card's ``float32``; all but
# the first column are what tensor cores (AMD: matrix cores) do, in matrix products
# only:

from firstlight.timing.specs import spec, spec_of

SHEET = {"float64": "fp64", "float64, matrices": "fp64_matrix", "tf32": "tf32"}
SHEET |= {"float16": "fp16", "bfloat16": "bf16"}


def written(rate, of):
    ratio = (rate or 0) / of.fp32
    if ratio > 0.6:
        return f"{ratio:.1f}"
    return f"1:{1 / ratio:.0f}" if ratio else "none"


rows = []
for card in ("GTX 1080", "RTX 4090", "V100 SXM2", "H100 SXM", "MI300X"):
    of = spec_of(card)
    rows.append((card, *(written(getattr(of, field), of) for field in SHEET.values())))
show_table("Rates, in units of float32's", ("", *SHEET), rows)

# %%
# Cards for games do ``float64`` at 1:32 or 1:64. Cards for science do it at 1:2, and
# the newer ones as fast as ``float32`` in a matrix product.
#
# Choose
# ------
#
# 1. *Range.* No number on the way may be above the format's largest, and none that
#    matters below its smallest.
# 2. *Digits.* eps must be below the error that you allow. If you subtract, eps ×
#    large/small must be. If not even ``float64`` will do, change the formula.
# 3. *Cost.* Of the formats that remain, take the fewest bytes, and of equal bytes the
#    smaller eps. For matrix products look at your card's row first: what is not faster
#    there is not worth its error.
# 4. *Test.* Run a small case in ``float64``, on the CPU if need be, and compare.
#
# Predict
# -------
#
# A GTX 1080 computes ``float64`` at 1:32. Does a sum of two vectors lose as much? For
# one number:

rows = []
for name, field, size in (("float32", "fp32", 4), ("float64", "fp64", 8)):
    memory = 3 * size / spec("GTX 1080", "bandwidth")  # two are read, one is written
    arithmetic = 2 / spec("GTX 1080", field)  # sheets count a multiply-add as two
    rows.append((name, f"{1e12 * memory:.1f} ps", f"{1e12 * arithmetic:.1f} ps"))
head = "GTX 1080 (data sheet)", "memory", "addition"
show_table("Where the time of a sum goes", head, rows)

# %%
# No: an addition waits for memory in either format, and ``float64`` has twice the
# bytes. You meet the 32 only where each number is used many times once it is loaded, as
# in a matrix product.
#
# Now the error. A rounding to the nearer number is off by half an eps at most. How much
# on average? PyTorch rounds, except to tf32, which the fold emulates.

# folded: Rounding to any of these formats, checked bit by bit


def keep(x, bits):
    """Round float32 numbers to so many bits of fraction; a tie goes to the even one."""
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

# %%

x64 = x.double()
for name in ("bfloat16", "float16", "tf32"):
    off = (rounded(x, name) - x64).square().mean() / x64.square().mean()
    per_rounding = off.sqrt().item() / EPS[name]
    print(f"{name:<9}error of a rounding: {per_rounding:.3f} eps (root mean square)")

# %%
# About a fifth of an eps, in every format. From this you can predict a matrix product,
# whose elements are sums of :math:`K` products. Roundings are independent, so their
# squares add.
#
# - *16 bits and tf32.* Both factors of each product are rounded: :math:`\sqrt 2` times
#   a fifth of an eps. With terms of both signs, more of them do not make it worse,
#   since sum and error grow alike. The sum is kept in ``float32``. The 16-bit formats
#   round the result, too: :math:`\sqrt 3`.
# - *float32 and float64.* Our data are ``float32`` numbers, so nothing is lost on the
#   way in, but each of :math:`K` additions rounds what was added up so far. One after
#   another, that comes to :math:`\sqrt{K/2}` times a fifth of an eps. Libraries keep
#   several sums side by side, so this is a bound.
#
# Check
# -----
#
# In ``float64``, the product of two ``float32`` numbers is exact, and ``math.fsum``
# adds such products with one final rounding: that is the truth. (Matrix products use
# tf32 only if ``torch.set_float32_matmul_precision("high")`` allows it.)

# folded: A matrix product in each format, and its error
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


formats = {where: [name for name in FRACTION if has(name, where)] for where in places}

# %%

K = 1001
a, b = torch.randn(31, K), torch.randn(K, 33)
terms = (a.double()[:, None, :] * b.double().T).tolist()
exact = [[math.fsum(sums) for sums in row] for row in terms]
exact = torch.tensor(exact, dtype=torch.float64)
roundings = {"float64": K / 2, "float32": K / 2, "tf32": 2, "float16": 3, "bfloat16": 3}

predicted, error, rows = {}, {}, []
for name, count in roundings.items():
    predicted[name] = math.sqrt(count) * per_rounding * EPS[name]
    error[name] = rms_error(product(name, a, b), exact)
    bound = "at most " if count > 3 else ""
    row = [name, f"{bound}{predicted[name]:.1e}", f"{error[name]:.1e}"]
    for where in places[1:]:
        live = name in formats[where] and product(name, a.to(where), b.to(where))
        row.append("none" if live is False else f"{rms_error(live, exact):.1e}")
    rows.append(tuple(row))
    assert error[name] < 1.5 * predicted[name], f"{name} errs more than predicted"
head = "format", "predicted", *(f"on {where}" for where in places)
show_table("Error of a matrix product (rms)", head, rows)

# %%
# (On the CPU, tf32 is the emulation.)
#
# Measure
# -------
#
# Now time a square matrix product and an addition, in each format that a device has.


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
# (A product's percentage is of the device's best ``float32`` product, so narrow formats
# may exceed 100.) What did fewer bytes save in the addition?

took = {timing.label: timing.median for timing in bench.timings}
for where in places:
    at = "add, " if where.type == "cpu" else "GPU, add, "
    for name in formats[where]:
        if f"{at}{name}" in took and name != "float32":
            ratio = took[f"{at}{name}"] / took[f"{at}float32"]
            print(f"{where}: {name} takes {ratio:.1f} × the time of float32", end=", ")
            print(f"for {storage(name).itemsize / 4:g} × its bytes")

# %%
# Where the two differ, the shorter vectors may have fitted in a cache, or 16 bits took
# time to convert.
#
# The figure's times for two cards are *models*: the ratios of their data sheets.

# measured figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt


def model(card):
    of = spec_of(card)
    rates = {"float64": max(of.fp64, of.fp64_matrix or 0), "float32": of.fp32}
    rates |= {"tf32": of.tf32, "float16": of.fp16, "bfloat16": of.bf16}
    return {name: of.fp32 / rate for name, rate in rates.items()}


def relative(prefix):
    times = {t.label.removeprefix(prefix): t.median for t in bench.timings}
    return {name: times[name] / times["float32"] for name in FRACTION if name in times}


drawn = {f"{card} (model)": model(card) for card in ("H100 SXM", "RTX 4090")}
drawn["this CPU"] = relative("matmul, ")
if len(places) > 1:
    drawn["this GPU"] = relative("GPU, matmul, ")
marks = zip((GREEN, ORANGE, BLUE, PURPLE), "^soD", strict=True)

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
for up, ((label, times), mark) in enumerate(zip(drawn.items(), marks, strict=False)):
    style = {"ls": "--", "mfc": "none"} if "model" in label else {"ls": "-"}
    style |= {"color": mark[0], "marker": mark[1]}
    ax.plot([*times.values()], [error[name] for name in times], ms=9, mew=2, **style)
    top = times["bfloat16"], error["bfloat16"]
    at = {"textcoords": "offset points", "color": mark[0], "ha": "center"}
    ax.annotate(label, top, (0, 10 + 14 * up), **at)
for name in FRACTION:
    ax.axhline(error[name], color=GREY, lw=0.6, zorder=0)
    ax.text(0.007, error[name], name, va="top" if name == "tf32" else "bottom")
ax.set(xscale="log", yscale="log", xlim=(0.006, None), ylim=(1e-16, 20))
ax.xaxis.set_major_formatter("{x:g}")
ax.set_xlabel("time of a matrix product (float32 on the same device: 1)")
ax.set_ylabel("error (rms, of the rms result)")
ax.set_title("The format sets the error, and the card sets the price")
ax.spines[["top", "right"]].set_visible(False)
slowest = max(ratio for name, ratio in drawn["this CPU"].items() if "16" in name)
fig.set_label(
    "Error against time of a matrix product in five formats, both axes logarithmic, "
    f"times relative to float32. On this CPU a 16-bit product is at {slowest:.2g}. In "
    "the models an H100 has float64 at 1, an RTX 4090 at 64, and tf32 at 1."
)
plt.show()

# %%
# A grey line is the error of one format, for this :math:`K`; along it, times differ
# widely. In the model of an H100, a ``float32`` product gives digits away and saves no
# time. In that of an RTX 4090, ``float64`` is far right, and tf32 gives digits away for
# nothing. Where a CPU's 16 bits are far to the right of 1, its library probably
# converts them first.
#
# On the newest GPU on record, products in ``float16`` against those in ``float32``:
# :timing:`precision speedup "GPU, matmul, float16"/"GPU, matmul, float32" @gpu`.
#
# Do real cards keep what their sheets say of each format? These rates were measured by
# clpeak and zzc0721, and the error is from PyTorch's own manual.
#
# .. measured-by-others:: f64-gtx1080 product-rtx4090 tf32-error-a100 tf32-a100
#
# Two right answers
# -----------------
#
# A GPU and NumPy often differ in the last digit. There are two causes, and neither is a
# defect. The first is *order*: in ``float32``, :math:`1 + 10^8 - 10^8` is 0 or 1,
# depending on the brackets. A loop adds one number after
# another. On a GPU each thread adds up a share of the numbers, and then the threads'
# sums meet in pairs. The second is the :term:`fused multiply-add`, :math:`a b + c`
# rounded once and not twice, which GPUs use wherever they can. Both can be had on any
# computer:

import numpy as np


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
# Here is a matrix times a vector. (To fuse, NumPy gets the exact products, in
# ``float64``.)

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

# %%

# folded: The chain of roundings in each way, counted, and the errors
length = matrix.shape[1]
chain = {
    "loop, rounded twice": f"{length:,}",
    "loop, fused": f"{length:,}",
    "np.sum, in pairs": "about 20",  # 8 sums side by side, of blocks of up to 128
    "256 threads, fused": f"{math.ceil(length / 256) + 8}",
    "float64, then round": "1",
}
missed = {way: np.abs(got - truth) / np.std(truth) for way, got in ways.items()}
rows = []
for way, off in missed.items():
    error_in_eps = np.sqrt(np.mean(off**2)) / EPS["float32"]
    row = f"{ways[way][0]:.6f}", chain.get(way, "not known"), f"{error_in_eps:.2f} eps"
    rows.append((way, *row))

# %%

head = "way", "first element", "chain", "error"
show_table("A matrix times a vector, in several orders", head, rows)

tolerance = 2 * EPS["float32"] * np.abs(products).sum(axis=1)
assert all(np.all(np.abs(got - truth) < tolerance) for got in ways.values())

# %%
# (*Chain*: the ``float32`` roundings that a number passes on its way into the result.)
# Which is closer, the CPU or the GPU? On average, *the one with the shorter chain of
# roundings*, wherever it runs. Fusing hardly matters. (A compiler can add a third
# cause: :doc:`/tutorials/3_kernels/09_what_the_compiler_did`.)
#
# So compare *both* with something better than either. The tolerance is some eps of the
# *terms*, since terms may cancel, not of the result:
# ``tol = 2 * eps * abs(terms).sum()`` holds for every row here.
#
# What a subtraction takes
# ------------------------
#
# Subtract two close numbers: the digits that they share cancel, and their rounding
# errors remain:
#
# .. math::
#
#     \text{relative error} \approx \text{eps} \times \frac{\text{large}}{\text{small}}.
#
# A camera's pixels lie at 10 000 counts and scatter by 2. The variance in one pass is
# the mean square minus the squared mean: :math:`10^8` minus :math:`10^8`, and 4 should
# be left. In ``float32`` the rule predicts an error three times the answer:

pixels = rng.normal(10_000, 2, 100_003).astype(np.float32)
print(f"predicted: eps × large/small = {EPS['float32'] * 1e8 / 4:.1f}")
print(f"float32 numbers near 1e8 are {np.spacing(np.float32(1e8)):.0f} apart")
for kind in (np.float32, np.float64):
    x = pixels.astype(kind)
    one_pass = np.mean(x * x) - np.mean(x) ** 2
    print(f"{kind.__name__}: one pass {one_pass:.4f}", end=", ")
    print(f"two passes {np.mean((x - np.mean(x)) ** 2):.4f}")

# %%
# A multiple of 8 cannot be 4. More digits help, and so does another formula: subtract
# *first*, while the numbers are small.
#
# Radio astronomers meet this at long baselines and in wide fields. A baseline of
# :math:`u` wavelengths sees a source at the angle :math:`l` from the field's centre
# with the phase :math:`2\pi u l`. *Large* is the number
# of turns, *small* the last, incomplete turn, which is all that the phase needs. Take
# 301 baselines at each number of turns:

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
limit = 2 * np.pi / 100
lost = turns[phase_error["float32"] > limit][0]
print(f"float32 is off by a hundredth of a turn from {lost:.0e} turns on")

# %%

# figure
fig, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
colours = (BLUE, PURPLE, GREEN)
for (way, errors), colour, marker in zip(
    phase_error.items(), colours, "os^", strict=True
):
    ax.plot(turns, errors, marker, color=colour)
    where = {"float32": (2e3, 8e-3), "float64": (2e4, 1e-13)}.get(way, (1e2, 2e-9))
    ax.text(*where, way, color=colour, ha="left" if "then" in way else "right")
    if way in EPS:
        rule = 2 * np.pi * turns * EPS[way] * per_rounding * math.sqrt(3)
        ax.plot(turns[rule < 30], rule[rule < 30], "--", color=colour)
ax.axhline(limit, color=GREY, lw=1)
ax.text(1, 1.3 * limit, "a hundredth of a turn")
ax.set(xscale="log", yscale="log", ylim=(1e-17, 30), xlabel="turns, u × l")
ax.set_ylabel("error of the phase (rms, radians)")
ax.set_title("One product in float64 saves the phases (dashed: the rule)")
ax.spines[["top", "right"]].set_visible(False)
fig.set_label(
    "Error of a phase against the number of turns, both axes logarithmic. In float32 "
    "and float64 it grows in proportion, along the dashed rule. float32 passes a "
    f"hundredth of a turn near {lost:.0e} turns, and soon nothing is left of it. With "
    "the turns in float64 and the rest in float32, the error stays level."
)
plt.show()

# %%
# ``float64`` is needed for *one product*, until the whole turns are gone. The rest,
# nearly all the work, may stay in ``float32``. (Keep your :math:`u` and :math:`l` in
# ``float64``, too: rounding them costs as much.)
#
# Keep the sum wide
# -----------------
#
# Adding little to much loses digits. Count to 5000, one by one:

counts, rows = {}, []
for name in ("bfloat16", "float16", "float32"):
    total = torch.zeros((), dtype=storage(name))
    for _ in range(5000):
        total += 1
    counts[name] = total.item()
    at_once = torch.ones(5000, dtype=storage(name)).sum().item()
    rows.append((name, f"{counts[name]:.0f}", f"{at_once:.0f}"))
show_table("Counting to 5000", ("", "one by one", "torch.sum"), rows)

# %%
# From 256 on, ``bfloat16`` has only even numbers: 256 + 1 is rounded to 256.
# ``torch.sum`` adds in ``float32`` and rounds once. A running mean or a histogram has
# no such help, so keep what *accumulates* in ``float32`` or wider.
#
# Where this stops being true
# ---------------------------
#
# - *No float64.* Apple's GPUs have none, nor do some of Intel's. Do the one product
#   that needs it on the CPU.
# - *Convolutions* may use tf32 by default, and partial sums of 16-bit products may be
#   added in 16 bits. PyTorch's `notes on accuracy`__ name the switches.
# - *Equal numbers* are rounded equally, so their errors add up in full.
# - *A data sheet is no measurement.* Small products wait for their :term:`launch`, and
#   converting takes time.
#
# __ https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html
#
# Exercise
# --------
#
# Write rules 1 to 3 as a function (without the smallest). ``error`` is the relative
# error that you allow, ``largest`` the largest number, and ``cancels`` how many times
# smaller the difference is than the two numbers subtracted (1: nothing cancels). Give
# the name of a format of 16, 32 or 64 bits, or ``None``. ``torch.finfo(torch.float16)``
# has ``.eps``, ``.max`` and ``.bits``.


def choose(error, largest, cancels): ...


# %%

# folded: The checker, which tries each format on 10 001 differences
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


# %%

print(check(choose))

# %%
# Three lines to remember
# -----------------------

# remember
doubles = [drawn[f"{card} (model)"]["float64"] for card in ("H100 SXM", "RTX 4090")]
print(
    f"""1. A rounding errs by {per_rounding:.1f} eps. Predict with it, then measure:
a bfloat16 product predicted {predicted["bfloat16"]:.2%}, met {error["bfloat16"]:.2%}.
2. Speed belongs to a card, not to a format. The time of a float64 product, in units
of float32's: H100 {doubles[0]:.0f}, RTX 4090 {doubles[1]:.0f} (data sheets), this CPU
{drawn["this CPU"]["float64"]:.1f} (measured).
3. A subtraction leaves eps × large/small. Change the formula, then the format."""
)

# %%
# Solution
# --------

# solution


def choose_solution(error, largest, cancels):
    infos = {name: torch.finfo(getattr(torch, name)) for name in NAMES}
    fit = [
        (info.bits, info.eps, name)  # two numbers, each off by half an eps at most
        for name, info in infos.items()
        if largest <= info.max and info.eps * cancels <= error
    ]
    return min(fit)[2] if fit else None


print(f"Our solution: {check(choose_solution)}")
