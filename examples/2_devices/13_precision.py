"""
How many digits can you afford to lose?
=======================================

Your arrays have 64 bits a number, because NumPy made them so. Your network trains with
32. And everybody tells you that a GPU is so much faster with 16. But what do you pay?

**Write down a guess before you read on: if you multiply two large matrices in 16 bits,
how wrong will the result be, and how much time will it save?** By the end you'll be
able to predict that error, and to say which digits you may give away.

**Needs:** any computer, and some PyTorch. The times are those of an H100 and of an
ordinary CPU.
"""

# %%
# Copy this: mixed precision
# --------------------------
#
# This training loop computes in 16 bits where that is safe, which is called *mixed
# precision*. The switch ``use_amp`` turns it off, so that you can compare.

import torch
from torch import nn


def train(batches, use_amp, dtype=torch.bfloat16):  # before Ampere (2020): float16
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    needed = use_amp and dtype == torch.float16  # bfloat16 needs no scaler
    scaler = torch.amp.GradScaler(device.type, enabled=needed)
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        with torch.autocast(device.type, dtype, enabled=use_amp):
            loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()  # outside of autocast
        scaler.unscale_(optimizer)  # only if you clip
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return loss.item()


batches = [(x, x.mean(1, keepdim=True)) for x in torch.rand(100, 32, 20)]
for use_amp in (False, True):
    print(f"use_amp={use_amp}: the loss ends at {train(batches, use_amp):.4f}")

# %%
# The *scaler* is for ``float16`` only. It multiplies the loss by a large number, so
# that small gradients don't become 0, and divides them again before the step. A
# checkpoint needs ``scaler.state_dict()``, too.
#
# On NVIDIA cards since Ampere (2020), one more line speeds up ``float32`` products. On
# paper, it multiplies their rate by seven or more on an A100, H100 or B200, and by two
# at most on an L4, an L40S and cards for games. It lets the card round both inputs to
# about three digits, a format called :term:`TF32`:
#
# .. holds::
#
#    gain = lambda card: spec(card, "tf32") / spec(card, "fp32")
#    all(gain(card) > 7 for card in ("A100 40GB", "H100 SXM", "B200"))
#    all(gain(card) < 2.1 for card in ("L4", "L40S", "RTX 4090", "RTX 5090"))
#
# .. code-block:: python
#
#    torch.backends.cuda.matmul.fp32_precision = "tf32"  # PyTorch 2.9 or newer
#    torch.set_float32_matmul_precision("high")  # the older way; take one of the two
#
# In PyTorch, products stay in ``float32`` unless you ask (releases 1.7 to 1.11 didn't
# wait for that), and convolutions use TF32 without being asked. TensorFlow uses it for
# both, until you call
# ``tf.config.experimental.enable_tensor_float_32_execution(False)``, and so does JAX,
# where it's ``jax.config.update("jax_default_matmul_precision", "highest")``. Results
# that agree to three digits only are mostly that.
#
# NaN with float16, or no faster: what to try
# -------------------------------------------
#
# .. list-table:: What you see, and what to try
#    :header-rows: 1
#    :widths: 35 65
#
#    * - you see
#      - try this
#    * - NaN, with ``use_amp=False`` as well
#      - It isn't the 16 bits. Look at the learning rate, at ``log(0)``, at ``0 / 0``.
#    * - NaN or ``inf``, only with ``float16``
#      - Something exceeds 65,504, often a layer's output, or ``x * x``. After
#        ``model.half()`` it may also be an ``exp`` or a sum, which autocast takes in 32
#        bits. Take ``bfloat16``, above all if the model was trained in it, or compute
#        that part from ``x.float()`` under ``torch.autocast("cuda", enabled=False)``.
#        If the NaN comes with ``optimizer.step()``, the weights are ``float16``, in
#        which Adam's ``eps=1e-8`` is 0. Keep them in ``float32``, under autocast.
#    * - ``cuFFT only supports dimensions whose sizes are powers of two``, or
#        ``ComplexHalf``
#      - An FFT or a complex layer got 16 bits, from autocast or ``.half()``. cuFFT
#        takes ``float16`` in such sizes only, PyTorch's FFT takes no ``bfloat16``, and
#        its complex numbers of 16 bits are experimental. Give that part 32: ``with
#        torch.autocast("cuda", enabled=False): y = torch.fft.rfftn(x.float())``.
#    * - NaN from a gradient penalty, or ``autograd.grad`` twice
#      - ``torch.autograd.grad`` of ``scaler.scale(loss)`` with ``create_graph=True``
#        gives scaled gradients. Divide them by ``scaler.get_scale()`` before you make
#        the penalty, and scale the sum of loss and penalty for ``backward()``.
#    * - you don't know where
#      - ``assert torch.isfinite(y).all()`` on each layer's output ``y``: the first that
#        fails is the place. If none does, ``torch.autograd.set_detect_anomaly(True)``
#        names the operation whose *gradient* is the first NaN. It's slow, checks only
#        the way back, and misses ``inf``. JAX checks all results for NaN:
#        ``jax.config.update("jax_debug_nans", True)``.
#    * - ``inf`` in the first steps only
#      - That is the scaler, trying how much it may multiply. It leaves those steps out.
#    * - ``mix of the legacy and new APIs``
#      - One part of the program has set TF32 the new way, and another asks the old way.
#        Use one of them throughout.
#    * - JAX computes in ``float32``, whatever the input
#      - ``jax.config.update("jax_enable_x64", True)``, first of all. On cards for games
#        it is slow (:doc:`/cards`): if a larger batch takes longer, turn it off again.
#        Its integers have 32 bits, too: ``256**4`` becomes 0, without a word.
#    * - it isn't faster
#      - Mostly large products and convolutions gain. A loop that waits for data gains
#        nothing, so :doc:`find out </tutorials/2_devices/18_slow_on_the_gpu>`. A small
#        network waits for its launches, and autocast :doc:`adds some
#        </tutorials/2_devices/17_training_a_cnn>`. Cards before the A100 are slow at
#        ``bfloat16``, and a GTX 10 has no tensor cores. Widths of layers `should be
#        multiples of 8`__.
#
# __ https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/
#
# Try it
# ------
#
# Let's count to 5,000 in ``bfloat16``, in which most large networks are trained. **What
# will it print?**

total = torch.zeros((), dtype=torch.bfloat16)
for _ in range(5000):
    total += 1
print("one by one:", total.item())
print("torch.sum: ", torch.ones(5000, dtype=torch.bfloat16).sum().item())

# %%
# It gets to 256 and stays there. You can see why if you look at the numbers that this
# format has:

one, large = (torch.tensor(value, dtype=torch.bfloat16) for value in (1.0, 256.0))
for x in (one, large):
    following = torch.nextafter(x, 2 * x)
    print(f"after {x.item():g} comes {following.item()}")

# %%
# There is no 257. So 256 + 1 is *rounded* to a nearest number that exists, and so it
# goes on for ever. The same happens to a network if you keep its weights in
# ``bfloat16``: a weight of 1 that should change by a thousandth doesn't change at all.
# That's why the loop above keeps the weights in 32 bits, and computes only the products
# in 16. ``torch.sum`` adds in 32 bits and rounds only the result.
#
# What does a format keep?
# ------------------------
#
# A computer writes numbers as you do in the lab, as digits and an exponent, only in
# powers of two. A :term:`format` says how many bits each gets. The step from 1 to the
# next number is called :term:`eps`. For ``bfloat16`` you have just seen it: 0.0078.
# Elsewhere, the step is at most eps times the number, except for the very smallest
# numbers. The exponent says how large a number can get before it becomes infinite:

import math

print("format      digits      eps   largest")
for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
    info = torch.finfo(dtype)
    digits = round(-math.log10(info.eps / 2))
    name = str(dtype).removeprefix("torch.")
    print(f"{name:10} {digits:7} {info.eps:8.1e} {info.max:9.0e}")

light = torch.tensor(299_792_458.0, dtype=torch.float64)
print(f"speed of light in float32: {light.float().item():,.0f}")
print(f"speed of light in float16: {light.half().item()}")

# %%
# ``float16`` has more digits and ends at 65,504, so the speed of light overflows.
# ``bfloat16`` has as large an exponent as ``float32``, and pays with digits. If you use
# ``float16``, choose units that keep your numbers near 1.
#
# How wrong is a product?
# -----------------------
#
# A rounding is off by half a step at most. How much is it *typically*?

torch.manual_seed(1)
x = torch.randn(100_000, dtype=torch.float64)
for dtype in (torch.bfloat16, torch.float16, torch.float32):
    off = (x.to(dtype).double() - x).square().mean() / x.square().mean()
    per_rounding = off.sqrt().item() / torch.finfo(dtype).eps
    print(f"{dtype}: a rounding is off by {per_rounding:.2f} eps")

# %%
# A fifth of an eps, whatever the format. That is all we need to predict the error of a
# product of two matrices. Each element is a sum of many products :math:`a\cdot b`. Both
# factors are rounded, and the roundings know nothing of each other, so their *squares*
# add: :math:`\sqrt 2` times a fifth of an eps. Then the result is rounded as well, and
# that makes :math:`\sqrt 3`. In a larger product the error is larger, but so is the
# result, and their ratio stays the same. This is for numbers that scatter around 0, as
# ours do.
#
# **So what do you expect for** ``bfloat16``, **with its eps of 0.0078?** Work it out,
# and look:

K = 1001
a, b = torch.randn(31, K), torch.randn(K, 33)
exact = a.double() @ b.double()


def rms_error(got, exact):
    off = got.cpu().double() - exact
    return (off.square().mean() / exact.square().mean()).sqrt().item()


predicted, error = {}, {}
for name in ("bfloat16", "float16"):
    dtype = getattr(torch, name)
    predicted[name] = 3**0.5 * per_rounding * torch.finfo(dtype).eps
    error[name] = rms_error(a.to(dtype) @ b.to(dtype), exact)
    print(f"{name}: predicted {predicted[name]:.3%}, measured {error[name]:.3%}")

# %%
# The prediction was off by only a few percent. An H100 also gave 0.30 %. If your data
# are good to a percent, you can afford that. If your product is off by more, its long
# sums may be added in 16 bits: set
# ``torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction`` to ``False``.
#
# What does it save?
# ------------------
#
# Fewer bits can save time in two ways. *Bytes*: if your code waits for memory, half the
# bytes take half the time, on any card. On an H100, 67 million additions took
# :timing:`precision median "GPU, add, float64" @nvidia-h100-80gb-hbm3` in ``float64``,
# :timing:`precision median "GPU, add, float32" @nvidia-h100-80gb-hbm3` in ``float32``
# and :timing:`precision median "GPU, add, float16" @nvidia-h100-80gb-hbm3` in
# ``float16``.
#
# *Arithmetic*: here every card is different. A matrix product uses each number many
# times once it is loaded, so it waits for the arithmetic. Modern cards have special
# units that multiply small matrices, called :term:`tensor cores <tensor core>`, and
# these like some formats much more than others. Here is what data sheets promise.
# *None* means that the card has no such units:

# folded code: The table of data sheets
from firstlight.display import show_table
from firstlight.timing.specs import spec_of

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
# Look at its first column. Two of these cards do ``float64`` at 1:32 or 1:64, the
# others at 1:2. That holds for arithmetic only. And it isn't just cards for games. A
# T4, which Colab lends you, is slow at ``float64``, and so is the new and very
# expensive B300: it has :spec:`B300 fp64`, beside :spec:`B300 fp32` in ``float32``.
#
# .. holds::
#
#    ratio = lambda card: spec(card, "fp32") / spec(card, "fp64")
#    halves = "V100 SXM2", "H100 SXM", "MI300X", "B200"
#    all(near(ratio(card), 2, 0.03) for card in halves)
#    all(ratio(card) > 31 for card in ("T4", "L4", "L40S", "RTX 4090", "GTX 1080"))
#
# What an H100 did
# ----------------
#
# **What would you expect from an H100, for a product of 4,096 rows?** Take the numbers
# from its row: nearly 15 for ``float16``, half of that for TF32, and 1 for ``float64``.
# That last one is from the second column, because the tensor cores of this card know
# ``float64``.
#
# We measured it. ``float16`` was :timing:`precision speedup "GPU, matmul,
# float16"/"GPU, matmul, float32" @nvidia-h100-80gb-hbm3` as fast as ``float32``,
# ``bfloat16`` :timing:`precision speedup "GPU, matmul, bfloat16"/"GPU, matmul, float32"
# @nvidia-h100-80gb-hbm3`, and TF32 :timing:`precision speedup "GPU, matmul, tf32"/"GPU,
# matmul, float32" @nvidia-h100-80gb-hbm3`.
#
# The two formats of 16 bits have the same rate on paper. Here ``bfloat16`` was faster,
# most likely because it draws less power: such products push the card to its power
# limit, and then it :doc:`lowers its clock </tutorials/2_devices/21_your_card_today>`.
# So read the factors as "15, and for TF32 half of that, give or take an eighth".
#
# .. holds::
#
#    expected = {"tf32": 7.5, "float16": 15, "bfloat16": 15}
#    timed = {name: row(f"precision/GPU, matmul, {name}") for name in expected}
#    fresh = {name: sum(one.values[:3]) / 3 for name, one in timed.items()}
#    tired = {name: one.values[-1] / fresh[name] for name, one in timed.items()}
#    min(tired["tf32"], tired["float16"]) > 9 / 8 and 1.02 < tired["bfloat16"] < 1.1
#    plain = median("precision/GPU, matmul, float32")
#    all(near(plain / fresh[name], of, 1 / 8) for name, of in expected.items())
#    all(near(plain / timed[name].median, of, 1 / 8) for name, of in expected.items())
#
# And ``float64`` was even :timing:`precision speedup "GPU, matmul, float64"/"GPU,
# matmul, float32" @nvidia-h100-80gb-hbm3` as fast, so on this card plain ``float32`` is
# the *slowest* of them all. If you go from ``float64`` to ``float32`` there, and don't
# allow TF32, you give nine digits away and gain nothing in a product.
#
# On two cores of an AMD EPYC, a product of 384 rows took :timing:`precision median
# "matmul, float32" @cpu-amd-epyc` in ``float32`` and :timing:`precision median "matmul,
# bfloat16" @cpu-amd-epyc` in ``bfloat16``, but :timing:`precision median "matmul,
# float16" @cpu-amd-epyc` in ``float16``. In the figure, you want to be at the bottom
# left.

# folded: The timing, in each format that a device has
from firstlight import Bench, best_device

# Whoever has set the new TF32 switch: with this line, asking the old one is no error.
torch.set_float32_matmul_precision("highest")

FRACTION = {"float64": 52, "float32": 23, "tf32": 10, "float16": 10, "bfloat16": 7}


def storage(name):
    return torch.float32 if name == "tf32" else getattr(torch, name)


device = best_device()
places = [torch.device("cpu")] + [device] * (device.type != "cpu")
has_tf32 = device.type == "cuda" and not torch.version.hip
has_tf32 = has_tf32 and torch.cuda.get_device_capability(device) >= (8, 0)


# %%

# folded: The timed functions


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

# folded: The times


def add(x, y, out):
    torch.add(x, y, out=out)


def time_on(where, side, numbers):
    gpu = "" if where.type == "cpu" else "GPU, "
    for name in formats[where]:
        way = tf32_matmul if name == "tf32" else matmul
        x, y = (
            torch.rand(side, side, device=where).to(storage(name)) for _ in range(2)
        )
        work = {"n": side, "flops": 2 * side**3, "tensor_cores": name != "float32"}
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

# folded: The errors of all five, on each device that has the format


def to_tf32(x):
    """Round float32 numbers to 10 bits of fraction; a tie goes to the even one."""
    raw = x.view(torch.int32)
    raw = raw + (1 << 12) - 1 + ((raw >> 13) & 1)
    return (raw >> 13 << 13).view(torch.float32)


def product(name, x, y):
    if name == "tf32" and x.device.type == "cpu":
        return to_tf32(x) @ to_tf32(y)  # what a tensor core would do
    x, y = x.to(storage(name)), y.to(storage(name))
    out = x.new_empty(x.shape[0], y.shape[1])
    (tf32_matmul if name == "tf32" else matmul)(x, y, out)
    return out


terms = (a.double()[:, None, :] * b.double().T).tolist()  # exact, in float64
truth = [[math.fsum(sums) for sums in row] for row in terms]  # and rounded once
exact = torch.tensor(truth, dtype=torch.float64)
for name in FRACTION:
    error[name] = rms_error(product(name, a, b), exact)
    said = [f"{name:9} on cpu {error[name]:.1e}"]
    for where in places[1:]:
        if name in formats[where]:
            got = product(name, a.to(where), b.to(where))
            said.append(f"on {where} {rms_error(got, exact):.1e}")
    print(*said, sep=", ")

# %%

# measured figure
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, GREY, ORANGE, PURPLE


def model(card):
    of = spec_of(card)
    rates = {"float64": max(of.fp64, of.fp64_matrix or 0), "float32": of.fp32}
    rates |= {"tf32": of.tf32, "float16": of.fp16, "bfloat16": of.bf16}
    return {name: of.fp32 / rate for name, rate in rates.items()}


def relative(prefix):
    times = {t.label.removeprefix(prefix): t.median for t in bench.timings}
    return {name: times[name] / times["float32"] for name in FRACTION if name in times}


drawn = {f"{card}, data sheet": model(card) for card in ("H100 SXM", "RTX 4090")}
drawn["this CPU, measured"] = relative("matmul, ")
if len(places) > 1:
    drawn["this GPU, measured"] = relative("GPU, matmul, ")
marks = zip((GREEN, ORANGE, BLUE, PURPLE), "^soD", strict=True)

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
for (label, times), mark in zip(drawn.items(), marks, strict=False):
    style = {"ls": "--", "mfc": "none"} if "sheet" in label else {"ls": "-"}
    style |= {"color": mark[0], "marker": mark[1], "label": label}
    ax.plot([*times.values()], [error[name] for name in times], ms=9, mew=2, **style)
theirs = {"tf32": 85.65, "float16": 168.38, "bfloat16": 164.81}  # TFLOP/s
at = [53.84 / rate for rate in theirs.values()], [error[name] for name in theirs]
ax.plot(*at, "ko", mfc="none", ms=12, mew=1.5, label="RTX 4090 (zzc0721)")
for name in FRACTION:
    ax.axhline(error[name], color=GREY, lw=0.6, zorder=0)
    ax.text(0.007, error[name], name, va="top" if name == "tf32" else "bottom")
ax.set(xscale="log", yscale="log", xlim=(0.006, None), ylim=(1e-16, 3))
ax.xaxis.set_major_formatter("{x:g}")
ax.set_xlabel("time of a matrix product (float32 on the same device: 1)")
ax.set_ylabel("error (rms, of the rms result)")
ax.legend(loc="lower left", bbox_to_anchor=(0.02, 0.12), frameon=False)
fig.suptitle("The format sets the error, and the card sets the price", weight="bold")
ax.spines[["top", "right"]].set_visible(False)
slowest = max(ratio for name, ratio in relative("matmul, ").items() if "16" in name)
fig.set_label(
    "Error against time of a matrix product in five formats, both axes logarithmic, "
    f"times relative to float32. On this CPU a 16-bit product is at {slowest:.2g}. An "
    "RTX 4090 has tf32 at 1 by its data sheet, and at 0.63 as somebody measured it."
)
plt.show()

# %%
# Go along a grey line, which is one format: the error stays the same, and what it costs
# depends on the device. The hollow circles are an RTX 4090 that somebody measured.
# Others measured more, and PyTorch's manual gives the error of a product in TF32:
#
# .. measured-by-others:: f64-gtx1080 product-rtx4090 tf32-error-a100 tf32-a100
#
# Where digits disappear
# ----------------------
#
# The pixels of a camera lie at about 10,000 counts and scatter by 2, so their variance
# is 4. You remember the formula that needs only one pass through the data: the mean
# square minus the squared mean. **How many digits will be left of the 4 in**
# ``float32``?

import numpy as np

rng = np.random.default_rng(seed=1)
pixels = rng.normal(10_000, 2, 100_003).astype(np.float32)
for x in (pixels, pixels.astype(np.float64)):
    one_pass = np.mean(x * x) - np.mean(x) ** 2
    print(f"{x.dtype}: {one_pass:.4f}", end=", ")
    print(f"subtracting first {np.mean((x - np.mean(x)) ** 2):.4f}")

# %%
# None is left. The two numbers that we subtract are near :math:`10^8`, where the step
# of ``float32`` is 8. So the answer can only be a multiple of 8, and 4 isn't one.
#
# This is called :term:`cancellation`. The digits that two close numbers share cancel,
# and what remains are their roundings. The relative error grows from eps to
#
# .. math::
#
#     \text{eps} \times \frac{\text{large}}{\text{small}},
#
# for us :math:`1.2 \times 10^{-7} \times 10^8 / 4`, three times the answer. ``float64``
# would do. But the end of each line shows what's better: *subtract first*.
#
# A minimum hides digits, too. Near it, the value changes only with the *square* of the
# step: in ``float32``, 1 + x² is still 1 for every x below 0.0002. So if you minimise
# an energy or a χ² to a tight tolerance, a line search or BFGS sees no way down any
# more. It stops early or wanders, and two runs end in different places. Do that in
# ``float64``, or try both from the same start.
#
# CPU and GPU give different results: two right answers
# -----------------------------------------------------
#
# Your GPU and NumPy differ in the last digits, and a referee asks which is right. Let's
# add the same 10,240 numbers in ``float32`` in several orders: one after another; as a
# GPU might, where each of 256 threads adds up its share and then the shares are added;
# and as PyTorch and NumPy do it. **Which one do you trust most?**

terms = rng.standard_normal((201, 10_240), dtype=np.float32)
truth, eps = terms.sum(axis=1, dtype=np.float64), np.finfo(np.float32).eps
ways = {
    "one after another": np.cumsum(terms, axis=1)[:, -1],
    "in 256 shares": terms.reshape(201, 40, 256).sum(axis=1).sum(axis=1),
    "torch.sum": torch.from_numpy(terms).to(device).sum(1).cpu().numpy(),
    "np.sum": terms.sum(axis=1),
    "np.sum, axis=0": np.ascontiguousarray(terms.T).sum(axis=0),
}
for way, got in ways.items():
    off = np.sqrt(np.mean((got - truth) ** 2) / np.mean(truth**2)) / eps
    print(f"{way:18} {got[0]:.6f}, off by {off:.1f} eps")
loop, shares = ways["one after another"], ways["in 256 shares"]
print("np.allclose:", np.allclose(loop, shares, atol=1e-5))

# %%
# ``allclose`` says no, and nothing is wrong. Each addition rounds, so another order
# gives another result. One after another, a number passes through up to 10,239
# roundings on its way into the sum. In 256 shares, it's fewer than 300. NumPy splits
# sums into halves, again and again, but only along the axis that's contiguous in
# memory, here the *last*. So the answer to the referee is: *on average, the one with
# the shorter chain of roundings is closer to the truth*, whether it's the GPU's or
# NumPy's.
#
# ``sin``, ``exp``, ``arctan`` or a power differ without any sum, because CPU and GPU
# compute them with different libraries, each right to a few units in the last place.
# And a GPU's compiler may round a product and a sum only once, together (*FMA*).
#
# Does at least the *same* GPU give the same bits twice? Mostly, and :doc:`another page
# </tutorials/2_devices/19_same_seed>` says what to set.
#
# And which difference is too large? For terms of both signs, allow a few eps times the
# sum of their *absolute values*, because the sum itself may be small if they cancel:

tolerance = 2 * eps * np.abs(terms).sum(axis=1)
for way, got in ways.items():
    print(f"{way:18} {np.all(np.abs(got - truth) < tolerance)}")

# %%
# That's about ten times the typical error of the plain loop here. Roundings pass, and a
# forgotten number doesn't. But if all terms have one sign, such as counts, the sum
# grows on the way, and so do the roundings of a plain loop. It may be off by up to half
# as many eps as there are terms. So add those in many shares, in halves, or in
# ``float64``.
#
# Your turn
# ---------
#
# Write a function that chooses ``"float16"``, ``"bfloat16"``, ``"float32"`` or
# ``"float64"``. It is given the relative ``error`` that you allow, the ``largest``
# number that occurs, and ``cancels``, how many times larger the numbers are than their
# difference: 1 if nothing cancels, 10,000 if you subtract 9,999 from 10,000. Return the
# format with the fewest bytes that will do, or ``None``. Of two formats with equally
# few bytes, return the one with the smaller eps.
#
# ``torch.finfo(torch.float16)`` has ``.eps``, ``.max`` and ``.bits``. Put your answer
# where the dots are, and run ``firstlight try 13_precision.py``.


def choose(error, largest, cancels): ...


# %%

# folded: The checker, which tries each format on 10,001 differences
cases = [
    ((2e-3, 1, 1), "Brightness from 0 to 1: compare eps with the error."),
    ((1e-2, 1e5, 1), "100,000 counts: where does float16 end?"),
    ((2e-2, 1, 1), "Two formats have 16 bits. Which has the smaller eps?"),
    ((1e-2, 1e4, 1e4), "10,000 counts, one is left: cancels multiplies eps."),
    ((1e-6, 1e4, 1e4), "To a millionth of a count: cancels multiplies eps."),
    ((1e-2, 1e46, 1), "A quasar's 1e46 erg/s: float32 has a largest number, too."),
    ((1e-3, 1e3, 1e15), "If not even float64 will do, the answer is None."),
]
NAMES = ("bfloat16", "float16", "float32", "float64")


def worst_in(name, largest, cancels):
    large = largest * torch.linspace(0.5, 1, 10_001, dtype=torch.float64)
    small, kind = large / cancels, getattr(torch, name)
    left = large.to(kind).double() - (large - small).to(kind).double()
    return ((left - small) / small).abs().nan_to_num(math.inf, math.inf).max().item()


# %%

# folded: The checker, second part


def check(answer):
    for (allowed, *numbers), hint in cases:
        call = f"choose({', '.join(f'{x:g}' for x in (allowed, *numbers))})"
        worst = {name: worst_in(name, *numbers) for name in NAMES}
        enough = [name for name in NAMES if worst[name] <= allowed]
        bits = {name: torch.finfo(getattr(torch, name)).bits for name in enough}
        best = min(enough, key=lambda name: (bits[name], worst[name]), default=None)
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
#
# The √3 in the first line is for matrices of numbers around 0. In the second, half the
# time is for code that waits for memory.

# remember
met, expected = error["bfloat16"], predicted["bfloat16"]
print(f"""\
1. A rounding is off by a fifth of eps, and a product of matrices by √3 times that:
   in bfloat16, by {expected:.2%} as predicted, and by {met:.2%} as measured.
2. Half the bytes take half the time. What arithmetic gains is the card's own: look
   at its row before you give digits away.
3. A subtraction leaves eps × large/small. Change the formula, then the format.""")

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

# %%
# It learns on the CPU, and on the GPU it doesn't, or reaches another score
# -------------------------------------------------------------------------
#
# Rounding changes the seventh digit, and the score no more than another seed does. So
# train three times on each, with three seeds. If the scores overlap, most likely
# nothing is wrong. If not, look for a mistake that only the GPU shows:
#
# - Give both the *same* weights and batch, and compare the first loss, and then the
#   gradients. The first one that differs by more than the tolerance above, a few eps of
#   the terms' absolute values, shows where.
# - Different already? Random numbers, an uninitialized array, or another ``dtype``:
#   16 bits and TF32 are on for one of them only.
# - After some steps? The optimizer has a tensor from before ``w = w.to(device)`` (a
#   model's parameters move with it), a batch from pinned memory was refilled
#   :doc:`too early </tutorials/2_devices/08_pinned_memory>`, or several GPUs made the
#   batch larger at the same learning rate.
