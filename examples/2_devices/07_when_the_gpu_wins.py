"""
Will a GPU win at your problem?
===============================

A course notebook multiplies a matrix by a vector, and calls the CPU "about 100X times
slower" than its GPU. Notes on a textbook multiply matrices, ten times in 0.001 seconds
on a GPU, once in 6.007 seconds on a CPU. A boot camp trains a small network on a GPU in
0.467 seconds, and never asks how long a CPU takes. Would a GPU win at *your* problem?
You can predict it before you buy or port anything.

**You will learn**

- to predict a GPU's time as *start + trip + work*, and which of the three decides;
- from which size on a GPU wins at five kinds of problems, and where it never does;
- how often data must be used on the GPU, so that sending them there pays;
- why faster is not yet cheaper, in energy or in money.

**Time:** 20 minutes. **Needs:** any computer, and scikit-learn for its flowers. With a
GPU, the page measures both sides. Without one, the GPU's side is a model.
"""

# %%
# Predict
# -------
#
# A CPU has only the work to do. A GPU has three things to do, one after the
# other:
#
# .. math::
#
#     \begin{aligned}
#     \text{start} &= \text{asking} + \text{calls} \times c, \\
#     \text{trip} &= \frac{\text{sent}}{\text{slot}}, \\
#     \text{work} &= \max\left(\frac{\text{moved}}{\text{memory}},
#     \frac{\text{operations}}{\text{arithmetic}}\right).
#     \end{aligned}
#
# - *Start*: Python and PyTorch prepare each operation. That is the *asking*, and a CPU
#   that does the work itself pays it as well. Then each operation is sent to the GPU. A
#   *call* takes a time :math:`c`, however small it is
#   (:doc:`/tutorials/2_devices/02_queues`).
# - *Trip*: your data begin in the computer's memory. Their bytes are sent to the GPU,
#   and those of the result back, through a slot
#   (:doc:`/tutorials/2_devices/05_transfers`). If they stay on the GPU from one
#   operation to the next, there is no trip.
# - *Work*: the GPU's own memory moves bytes while the arithmetic is done. Whichever
#   takes longer counts.
#
# Data sheets give the three rates: of the slot, the memory, the arithmetic. The asking
# you can measure on any CPU. Nobody gives :math:`c`, so this page assumes a value, and
# shows what a third of it and three times as much would change.

from typing import NamedTuple

from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity

c = 5e-6  # seconds a call: assumed
slots = {"GTX 1080": "PCIe 3 x16", "RTX 4090": "PCIe 4 x16", "H100 SXM": "PCIe 5 x16"}


class Job(NamedTuple):
    calls: int  # operations that are launched
    operations: float  # of arithmetic
    moved: float  # bytes read and written, at the least
    copies: int  # there and back
    sent: float  # bytes there and back


def three_terms(job, card, c=c):
    trip = job.copies * c + job.sent / spec(slots[card], "bandwidth")
    memory = job.moved / spec(card, "bandwidth")
    return job.calls * c, trip, max(memory, job.operations / spec(card, "fp32"))


print(f"assumed: {quantity(c, 's')} for each call")

# %%
# Five problems, in ``float32`` numbers of 4 bytes, each with a size :math:`n`:
#
# - *add* two vectors of :math:`n` numbers: two are read, one is written;
# - *matrix × vector*: :math:`n` rows of 100 numbers, as in the notebook;
# - *matrix × matrix*: both are :math:`n \times n`, with :math:`2 n^3` operations;
# - *FFT* of an image of :math:`n \times n` complex numbers, about
#   :math:`5 n^2 \log_2 n^2` operations;
# - *network*: one step of training on 120 flowers, with :math:`n` units in one layer
#   and :math:`n + 1` in the next. (The boot camp has 8 and 9.) A step does six
#   operations for each weight and flower, and moves ten numbers for each weight.
#
# How many calls does such a step make? PyTorch can tell, also without a GPU: a
# ``TorchDispatchMode`` sees every operation. Some (``t``, ``view``) only look at a
# tensor in another way, and launch nothing. (``fused`` lets the optimizer handle all
# weights in one call. That is fastest on both sides.)

import torch
from torch.utils._python_dispatch import TorchDispatchMode

only_look = {"t", "view", "detach", "lift_fresh", "_local_scalar_dense"}


class Training:
    def __init__(self, n, device="cpu", dtype=torch.float32):
        torch.manual_seed(1)
        widths = [(4, n), (n, n + 1), (n + 1, 3)]
        first, second, last = (torch.nn.Linear(*width) for width in widths)
        layers = first, torch.nn.ReLU(), second, torch.nn.ReLU(), last
        self.net = torch.nn.Sequential(*layers).to(device, dtype)
        weights = self.net.parameters()
        self.optimizer = torch.optim.Adam(weights, lr=0.01, fused=True)

    def __call__(self, flowers, kinds):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.net(flowers), kinds)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


# %%


class Calls(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        looks = function.overloadpacket.__name__ in only_look
        self.number += function.namespace == "aten" and not looks
        return function(*args, **(kwargs or {}))


training = Training(8)
some_flowers = torch.rand(120, 4), torch.randint(3, (120,))
training(*some_flowers)
with Calls() as calls:
    training(*some_flowers)
print(f"one step of training: {calls.number} calls")

# %%
# Now each problem is a ``Job``, for any size. The table has the sources' own sizes (99
# million; 100 000 rows; 10 000; 8 units; and an image of 1024 × 1024), and an RTX 4090
# as a model. (``float32`` all the way, no matrix units. The asking comes on top.) A
# star marks the largest of the three terms.

from math import log2


def network_job(n):
    weights = 5 * n + (n + 1) ** 2 + 3 * (n + 1) + 3
    return Job(calls.number, 720 * weights, 40 * weights, 3, 120 * (4 * 4 + 8) + 4)


jobs = {
    "add": lambda n: Job(1, n, 12 * n, 3, 12 * n),
    "matrix × vector": lambda n: Job(1, 200 * n, 404 * n + 400, 3, 404 * n + 400),
    "matrix × matrix": lambda n: Job(1, 2 * n**3, 12 * n**2, 3, 12 * n**2),
    "FFT": lambda n: Job(1, 10 * n**2 * log2(n), 16 * n**2, 2, 16 * n**2),
    "network": network_job,
}
print("RTX 4090, model    start     trip     work")
for name, n in zip(jobs, (99_000_000, 100_000, 10_000, 1024, 8), strict=True):
    terms = three_terms(jobs[name](n), "RTX 4090")
    marks = ("*" if term == max(terms) else " " for term in terms)
    row = (f"{quantity(t, 's'):>8}{m}" for t, m in zip(terms, marks, strict=True))
    print(f"{name:<15}", *row, sep="")

# %%
# If the data travel, the trip decides four of the five. Now cover that column with your
# hand, for data that stay: the work decides, but for the network it is the start. Write
# down a guess for each row: does this card beat *your* CPU, with the trip and without?
#
# Both sides
# ----------
#
# The same code runs on both sides. Results go into memory that is there already, so
# nobody pays for finding it, and PyTorch may use all cores of the CPU. The flowers are
# real: `Fisher's 150 irises`__, four lengths of each, of three kinds. 30 of them are
# set aside as a *test set*, which the network never sees while it learns. And the
# matrices are scaled so that their products do not grow. The textbook's notes do not do
# that: from the fourth product on, their GPU multiplies infinities.
#
# __ https://scikit-learn.org/stable/datasets/toy_dataset.html#iris-plants-dataset

from functools import partial

from firstlight import Bench, best_device
from sklearn.datasets import load_iris

device = best_device()
has_gpu = device.type != "cpu"
iris = load_iris()
order = torch.randperm(150, generator=torch.Generator().manual_seed(33))
flowers = torch.tensor(iris.data, dtype=torch.float32)[order]
kinds = torch.tensor(iris.target)[order]
train_set, test_set = (flowers[:120], kinds[:120]), (flowers[120:], kinds[120:])


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


print(f"device: {device}; CPU threads: {torch.get_num_threads()}")

# %%
# Each function gives the work, for a place and a format (``to``), and the inputs.


def add(n, **to):
    return partial(torch.add, out=torch.zeros(n, **to)), tuple(random(2, n))


def matrix_vector(n, **to):
    return partial(torch.mv, out=torch.zeros(n, **to)), (random(n, 100), random(100))


def matrix_matrix(n, **to):
    left, right = random(2, n, n) / n**0.5
    return partial(torch.matmul, out=torch.zeros(n, n, **to)), (left, right)


def fft(n, **to):
    to["dtype"] = to["dtype"].to_complex()
    image = random(n, n, dtype=torch.complex64)
    return partial(torch.fft.fft2, out=torch.zeros(n, n, **to)), (image,)


def network(n, **to):
    return Training(n, **to), train_set


makers = dict(zip(jobs, (add, matrix_vector, matrix_matrix, fft, network), strict=True))

# %%
# Check
# -----
#
# Before any clock runs: all five, on odd sizes, against ``float64`` on the CPU. Each is
# done five times, so the network has taken five steps when its loss is compared. And a
# chain of ten products has to stay finite, and right.


wider = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def relative_error(result, exact):
    off = torch.linalg.norm(result.cpu().to(exact.dtype) - exact)
    return (off / torch.linalg.norm(exact)).item()


for place in dict.fromkeys(("cpu", device.type)):
    for name, make in makers.items():
        work, inputs = make(101, device=place, dtype=torch.float32)
        exact_work, _ = make(101, device="cpu", dtype=torch.float64)
        for _ in range(5):
            result = work(*(x.to(place) for x in inputs))
            exact = exact_work(*(x.to(wider.get(x.dtype)) for x in inputs))
        wrong = relative_error(result, exact)
        assert wrong < 1e-4, f"{name} on {place} is wrong by {wrong:.1e}"
        print(f"{name:<15} {place}: relative error {wrong:.0e}")

_, (chain, factor) = matrix_matrix(101, dtype=torch.float32)
exact = chain.double()
for _ in range(10):
    chain, exact = chain @ factor, exact @ factor.double()
assert relative_error(chain, exact) < 1e-5
print(f"ten products: finite, largest element {chain.abs().max():.2f}")

# %%
# Measure
# -------
#
# Each problem is a ``Bench`` of its own, with a curve for each way. *CPU* means all of
# its cores. *GPU* means that the inputs are there already. *There and back* sends the
# inputs for each call, and brings the result back.

sizes = {
    "add": [10, 10**4, 10**5, 10**6, 10**7],
    "matrix × vector": [1, 100, 1000, 10**4, 10**5],
    "matrix × matrix": [8, 64, 256, 512, 1024],
    "FFT": [4, 32, 128, 512, 1024],
    "network": [8, 32, 128, 512, 1024],
}
if has_gpu:
    for name, larger in zip(sizes, (10**8, 10**6, 4096, 4096, 4096), strict=True):
        sizes[name].append(larger)

adding, products = Bench("wins-add"), Bench("wins-matrix-vector")
squares, images = Bench("wins-matrix-matrix"), Bench("wins-fft")
steps = Bench("wins-network")
benches = dict(zip(jobs, (adding, products, squares, images, steps), strict=True))

# %%


def there_and_back(work, inputs, result):
    result.copy_(work(*(x.to(device) for x in inputs)))


def race(name, n):
    bench, make, job = benches[name], makers[name], jobs[name](n)
    by_bytes = name in ("add", "matrix × vector")
    rate = {"bytes": job.moved} if by_bytes else {"flops": round(job.operations)}
    work, inputs = make(n, device="cpu", dtype=torch.float32)
    bench.time("CPU", work, *inputs, n=n, **rate)
    if has_gpu:
        work, _ = make(n, device=device, dtype=torch.float32)
        inside = [x.to(device) for x in inputs]
        bench.time("GPU", work, *inside, n=n, device=device, **rate)
        way = there_and_back, work, inputs, work(*inside).cpu()
        bench.time("GPU, there and back", *way, n=n, device=device)


for name in jobs:
    for n in sizes[name]:
        race(name, n)

starved = sum(t.verdict == "cpu-contended" for b in benches.values() for t in b.timings)
print(f"rows that other programs slowed down: {starved}")

# %%
# From which size on is the GPU always faster? That is between its last loss and the
# first win after it, along straight lines in logarithms. The CPU's curve is measured.
# (It takes the fastest of each, since other programs can only make a call longer.)
# The model's is start, trip and work; its asking is the CPU's time for the smallest
# size, which has next to no work. *Stay* means that the data are on the GPU already,
# *travel* that they go there and back each time, *never* not up to the largest size.

import numpy as np


def curve(name, label):
    return [min(t.values) for t in benches[name].timings if t.label == label]


def model(name, card, stays, c=c):
    asking = min(curve(name, "CPU"))
    terms = (three_terms(jobs[name](n), card, c) for n in sizes[name])
    return [asking + start + work + (not stays) * trip for start, trip, work in terms]


def crossing(sizes, cpu, gpu):
    lead = np.log(np.divide(gpu, cpu))  # below 0 where the GPU is faster
    losses = np.flatnonzero(lead >= 0)
    if losses.size == 0:
        return sizes[0]
    if losses[-1] == len(sizes) - 1:
        return np.inf
    pair = slice(losses[-1], losses[-1] + 2)
    return np.exp(np.interp(0, -lead[pair], np.log(sizes[pair])))


# %%

ways = {"GPU": "data stay on the GPU", "GPU, there and back": "data travel each time"}


def first_win(name, gpu):
    n = crossing(sizes[name], curve(name, "CPU"), gpu)
    return "never" if n == np.inf else f"{float(f'{n:.2g}'):,.0f}"


def print_wins(title, gpu_times):
    print(f"{title:<15} {'stay':>9} {'travel':>11}")
    for name in jobs:
        stay, travel = (first_win(name, gpu_times(name, way)) for way in ways)
        print(f"{name:<15} {stay:>9} {travel:>11}")


for card in slots:
    print_wins(
        f"{card}, model", lambda name, way, card=card: model(name, card, way == "GPU")
    )
if has_gpu:
    print_wins("this GPU", curve)

# %%
# All of it in one picture. Across is how long your CPU takes, upward is how many times
# as fast the GPU is. *Above the thick line, the GPU wins.* Each problem is a path that
# begins at the left with its smallest size.

import matplotlib.pyplot as plt

chosen = "RTX 4090"
colours = ["#2f7ed8", "#2f9e77", "#d9762b", "#b45fc0", "#c0392b"]


def draw_paths(ax, way):
    for name, colour, marker in zip(jobs, colours, "os^Dv", strict=True):
        style = {"color": colour, "marker": marker}
        cpu, stays = np.array(curve(name, "CPU")), way == "GPU"
        low, y, high = (cpu / model(name, chosen, stays, k * c) for k in (3, 1, 1 / 3))
        ax.plot(cpu, y, "--", mfc="none", label=name, **style)
        ax.fill_between(cpu, low, high, color=colour, alpha=0.15, lw=0)
        if has_gpu:
            ax.plot(cpu, cpu / curve(name, way), "-", **style)
    for level, style in ((1, {"lw": 2.5}), (16, {"ls": ":"})):
        ax.axhline(level, color="black", zorder=0, **style)
    left = {"transform": ax.get_yaxis_transform(), "size": 10}
    ax.text(0.02, 1.15, "the GPU wins", va="bottom", **left)
    ax.text(0.98, 0.8, "the CPU wins", va="top", ha="right", **left)
    ax.text(0.02, 18, "for 16 × this CPU", va="bottom", **left)
    ax.set(xscale="log", yscale="log", title=ways[way])


# %%

fig, axes = plt.subplots(2, figsize=(5.6, 7), sharex=True, layout="constrained")
solid = "; solid: this GPU" if has_gpu else ""
for ax, way in zip(axes, ways, strict=True):
    draw_paths(ax, way)
    ax.set_ylabel(f"CPU time / GPU time\n(dashed: model, {chosen}{solid})")
    ax.yaxis.set_major_formatter("{x:g} ×")
axes[1].set_xlabel("time on this CPU, all cores: measured")
axes[1].xaxis.set_major_formatter(lambda time, _: quantity(time, "s", digits=1))
names = axes[0].get_legend_handles_labels()
fig.legend(*names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
won = [
    sum(model(name, chosen, stays)[-1] < curve(name, "CPU")[-1] for name in jobs)
    for stays in (True, False)
]
fig.set_label(
    "Two panels: CPU time over GPU time, against CPU time. Every path begins below 1, "
    "where the CPU wins, and rises to the right. With data that stay on the GPU, "
    f"{won[0]} of 5 end above 1, far apart; with data that travel, {won[1]} of 5."
)
plt.show()

# %%
# At the left the paths climb side by side: what a short call computes hardly matters.
# The network's path lies further right, because one step of it is many calls. The bands
# say what a third of the assumed :math:`c`, and three times as much, would change; they
# matter only there. To the right the paths fan out. The trip or the work decides how
# high each of them comes.
#
# *Is this your CPU?* The dotted line is where the thick one would be for a CPU with 16
# times the rates of this one. A workstation comes nearer to that than most computers
# that build a website. Whoever sets a large card against two cores has chosen the
# winner.
#
# One by one
# ----------
#
# **Add: the trip decides.** Twelve bytes are moved, and the same twelve are sent. So
# with the trip the GPU wins only if its slot is faster than your CPU's memory. Without
# it, the gain is at most the ratio of the two memories' bandwidths.

from firstlight.measure.roofs import measured_roof

roof = measured_roof("cpu")
print(f"this CPU's memory: {quantity(roof.byte_rate, 'B/s')}, measured")
for card, slot in slots.items():
    rates = (quantity(spec(what, "bandwidth"), "B/s") for what in (slot, card))
    print(f"{card}: slot {next(rates)}, memory {next(rates)}")

# %%
# The curves of this problem, also on recorded machines:

adding.plot()

# %%
# **Matrix × vector: the same, and a claim.** Each number of the matrix is used once, so
# again the bytes decide. The notebook's card is a GTX 1650, which was sold with two
# kinds of memory. What could it gain on *this* CPU, at the notebook's size?

t = curve("matrix × vector", "CPU")[4]
for card in ("GTX 1650", "GTX 1650 GDDR6"):
    floor = jobs["matrix × vector"](100_000).moved / spec(card, "bandwidth")
    print(f"{card}: at most {t / floor:.1f} × this CPU")

# %%
# The notebook's "100X" is no such ratio: its clock stopped before the GPU was done
# (:doc:`/tutorials/2_devices/03_timing_it_wrong`). And the trip? If the matrix stays on
# the GPU and only vectors travel, it all but vanishes. Keep what is large, send what is
# small.

products.plot()

# %%
# **Matrix × matrix: the work decides.** :math:`2 n^3` operations on :math:`3 n^2`
# numbers: the operations for each byte, the *intensity*, grow with :math:`n`. So from
# some size on the GPU wins, trip or no trip. The textbook's size, if this CPU keeps up
# its best rate:

job = jobs["matrix × matrix"](10_000)
rates = (t.flops / min(t.values) for t in squares.timings if t.label == "CPU")
t = job.operations / max(rates)
print(f"this CPU: {quantity(t, 's')}; models, with the trip:")
for card in slots:
    whole = sum(three_terms(job, card))
    print(f"{card}: {quantity(whole, 's')}, {t / whole:.0f} × as fast")

# %%

squares.plot()

# %%
# **FFT: in between.** An image of 1024 × 1024 takes a hundred operations for each
# number, and four times the pixels make it only ten more. On the GPU its memory
# decides. If the image travels each time, most of the gain is lost on the way.

images.plot()

# %%
# **The network: the start decides.** Now the boot camp's own training: 100 steps, a
# fixed seed, and a test set, on the CPU and on the GPU if there is one.

from time import perf_counter


def train_and_test(place):
    training = Training(8, place)
    learn, test = ([x.to(place) for x in part] for part in (train_set, test_set))
    start = perf_counter()
    losses = [training(*learn) for _ in range(100)]
    before, after = losses[0].item(), losses[-1].item()  # waits for the GPU
    took = perf_counter() - start
    with torch.no_grad():
        right = (training.net(test[0]).argmax(1) == test[1]).sum().item()
    print(f"{place}: {quantity(took, 's')}, loss {before:.3f} to {after:.3f},")
    print(f"  {right} of {len(test[1])} test flowers right;")
    print(f"  the boot camp's GPU: {0.467 / took:.1f} × as long")


for place in dict.fromkeys(("cpu", device.type)):
    train_and_test(place)

_, _, network_work = three_terms(network_job(8), chosen)
asking = min(curve("network", "CPU"))
print(f"a step on this CPU: {quantity(asking, 's')}")
print(f"its work on an {chosen}, model: {quantity(network_work, 's')}")

# %%
# (The boot camp's time includes that its GPU had to start. A GPU of yours has been at
# work already.) No card is fast enough to help here, because it has nothing to do. The
# CPU's time is nearly all asking. On a GPU the same Python asks for the same calls, and
# each has to be sent as well: the training is *launch-bound*. *Here the CPU wins,
# whatever the card.* The remedy is more work in each call, such as wider layers. The
# curves show from which width on that pays:

steps.plot()

# %%
# So where does the CPU win? In whatever takes it no longer than a few calls take a GPU,
# as everything does at the left of the figure. In work that touches each number once
# and sends it home, beside a CPU whose memory is as fast as the slot. And in the iris
# training, beside any card.
#
# Measured on the newest GPU on record, against all cores of the CPU beside it, the
# speed-up is
# :timing:`wins-network speedup "GPU/cuda:0/n=8"/"CPU/cpu/n=8" @gpu` for the boot camp's
# network, and
# :timing:`wins-matrix-matrix speedup "GPU/cuda:0/n=1024"/"CPU/cpu/n=1024" @gpu` for
# matrices of 1024 × 1024.
#
# A rule of thumb
# ---------------
#
# Both sides ask, so the asking falls out. On either side, the operations are the bytes
# times the *intensity*, and they, or the bytes, decide the work, :math:`w`. If the data
# are used :math:`k` times on the GPU for each trip, the GPU wins if, for one use,
#
# .. math::
#
#     w_\text{CPU} > \text{calls} \times c + \frac{\text{trip}}{k} + w_\text{GPU}.
#
# 1. *Size.* Does the CPU's work take longer than sending the calls? If not, the CPU
#    wins, and you can stop here.
# 2. *Trips.* Does it take longer than a share of the trip? If not, use the data more
#    often on the GPU, or the CPU wins.
# 3. *Intensity.* Then the ratio of the works is what you gain: that of the memories, or
#    with many operations for each byte, that of the arithmetic.
#
# Test it. Of this CPU, the rule gets two rates: of one large copy or sum, and of one
# large product. (Of a GPU that is here, too.) It sees none of the curves. Does it name
# the winners that they show?


def least(job, place):
    rates = measured_roof(place)
    return max(job.moved / rates.byte_rate, job.operations / rates.flop_rate)


def rule(job, uses):
    start, trip, work = three_terms(job, chosen)
    if has_gpu:
        work = least(job, str(device))
    return least(job, "cpu") > start + trip / uses + work


agreed, cases = 0, 0
for name, job in jobs.items():
    for way, uses in zip(ways, (np.inf, 1), strict=True):
        said = np.array([rule(job(n), uses) for n in sizes[name]])
        gpu = curve(name, way) or model(name, chosen, way == "GPU")
        right = said == np.less(gpu, curve(name, "CPU"))
        agreed, cases = agreed + right.sum(), cases + right.size
        wrong = ", ".join(f"{n:,}" for n in np.array(sizes[name])[~right])
        which = "stay" if way == "GPU" else "travel"
        print(f"{name}, {which}:", f"wrong at {wrong}" if wrong else "right")
print(f"the rule is right in {agreed} of {cases} cases")

# %%
# It goes wrong next to a crossing, where the two differ little and either choice is
# fine, and where a CPU's caches help, of which two rates know nothing. (Without a GPU
# its side is the model both times, so this tests the CPU's half of the rule.)
#
# How many uses pay for a trip?
# -----------------------------
#
# "Keep your data on the GPU" has a number, too: the trip, divided by what each use
# gains. So how many uses does each problem need, at its largest size? The CPU is this
# one, or one with 4 or 16 times its rates.


def uses_needed(name, faster):
    start, trip, work = three_terms(jobs[name](sizes[name][-1]), chosen)
    cpu = curve(name, "CPU")
    gain = (cpu[-1] - min(cpu)) / faster - start - work
    return f"{np.ceil(trip / gain):,.0f}" if gain > 0 else "never"


print(f"{chosen}, model  this CPU     4 ×    16 ×")
for name in jobs:
    needed = (uses_needed(name, faster) for faster in (1, 4, 16))
    print(f"{name:<15}", *(f"{uses:>8}" for uses in needed), sep="")

# %%
# A program that loads an image, adds one thing and saves it has one use for each trip.
# One that filters, transforms and fits the same image has dozens.
#
# Faster is not yet cheaper
# -------------------------
#
# Energy is power times time. A card that draws five times your CPU's power must win by
# more than that factor, or each result takes *more* energy. Some processors count their
# joules. Linux shows Intel's and AMD's counters as files, often to administrators only.
# NVIDIA's driver has `a counter`__ since the V100. They move in steps, so the work is
# repeated for more than a second.
#
# __ https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html

from pathlib import Path


def joules(place):
    if place == "cpu":
        files = Path("/sys/class/powercap").glob("intel-rapl:?/energy_uj")
        return sum(int(file.read_text()) for file in files) / 1e6
    from cuda.bindings import nvml  # comes with numba-cuda

    nvml.init_v2()
    name = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    card = nvml.device_get_handle_by_uuid(name)
    return nvml.device_get_total_energy_consumption(card) / 1e3


def joules_for_a_product(place):
    work, inputs = matrix_matrix(1024, device=place, dtype=torch.float32)
    inputs = [x.to(place) for x in inputs]
    before, start, count = joules(place), perf_counter(), 0
    while before and perf_counter() - start < 1.5:
        work(*inputs)[0, 0].item()  # waits for the GPU
        count += 1
    return (joules(place) - before) / count


# %%

for place in dict.fromkeys(("cpu", device.type)):
    try:
        each = f"{joules_for_a_product(place):.3g} J for a product of 1024 × 1024"
    except Exception:  # no file, no permission, no counter
        each = "not readable here"
    print(f"energy, {place}: {each}")

# %%
# (Each counter counts one chip. While one works, the other waits, and waiting takes
# power, too.) For money there is no counter, but the same law: if an hour with the GPU
# costs :math:`p` times an hour without it, the GPU is cheaper only where it wins by
# more than :math:`p`.
#
# Where this stops being true
# ---------------------------
#
# - *The models flatter.* No program reaches all rates of a data sheet. Where a model
#   puts a crossing near your size, take it as a tie, and measure.
# - *Start-up.* The first use of a GPU loads libraries and code. A script that makes one
#   product and ends should not ask for a GPU.
# - *Trips that differ.* On Apple's chips, a trip is a copy within one memory. And trips
#   can overlap with work (:doc:`/tutorials/2_devices/05_transfers`). Then the longer
#   counts, not the sum.
# - *Other formats.* Cards for games do ``float64`` far more slowly; matrix units with
#   fewer bits are faster. :doc:`/tutorials/2_devices/09_precision` has both, and
#   the errors they cost.
# - *Fewer calls.* Several operations can become one call:
#   :doc:`/tutorials/2_devices/11_fewer_launches`. That moves the network's crossing.
#
# Exercise
# --------
#
# Write the rule down. One use of the data makes some ``calls``, moves some bytes
# (``moved``), and does ``intensity`` operations for each of them. ``sent`` bytes go
# there and back, once for all ``uses``. Does the GPU win? The rates are round, so that
# you can do it in your head.


class Rates(NamedTuple):
    memory: float  # bytes a second
    arithmetic: float  # operations a second


CPU, GPU = Rates(5e10, 5e11), Rates(5e11, 1e13)
SLOT, CALL = 2.5e10, 5e-6  # bytes a second; seconds a call


def gpu_wins(calls, moved, intensity, sent, uses): ...


# %%

questions = [
    ((1, 10**9, 0.1, 10**9, 1), False, "the trip is longer than the CPU's work"),
    ((1, 10**9, 0.1, 10**9, 100), True, "all uses share one trip"),
    ((1, 10**5, 1, 0, 1), False, "each call costs CALL, also without a trip"),
    ((28, 4 * 10**6, 0.5, 0, 1), False, "count every call, not one"),
    ((1, 12 * 10**6, 167, 12 * 10**6, 1), True, "arithmetic takes longer here"),
    ((5, 10**6, 10, 0, 1), False, "the longer of the two counts, not their sum"),
    ((1, 10**8, 1, 475 * 10**5, 1), False, "the GPU has its own work to do, too"),
    (
        (1, 10**5, 1, 10**5, 1000),
        False,
        "each use makes its calls: share the trip only",
    ),
]

# %%
# ``check`` asks these, and says what a wrong answer leaves out.


def check(answer):
    for arguments, expected, hint in questions:
        call = f"gpu_wins{arguments}"
        try:
            got = answer(*arguments)
        except Exception as error:
            return f"{call} raised {type(error).__name__}: {error}"
        if not isinstance(got, (bool, np.bool_)):
            return f"{call} gave {got!r}; it has to give True or False"
        if got != expected:
            return f"{call} gave {got}. Hint: {hint}."
    return "Right: now put in the numbers of your own problem."


print(check(gpu_wins))

# %%

# solution


def gpu_wins_solution(calls, moved, intensity, sent, uses):
    def work(rates):
        return moved * max(1 / rates.memory, intensity / rates.arithmetic)

    return work(CPU) > calls * CALL + sent / SLOT / uses + work(GPU)


print(check(gpu_wins_solution))

# %%
# Three lines to remember
# -----------------------

print("1. A CPU has the work; a GPU has start + trip + work. Compare the two.")
print(f"   That rule named the winner in {agreed} of {cases} cases.")
print(f"2. Large problems, this CPU against an {chosen} (a model): the GPU wins")
print(f"   {won[0]} of 5 if the data stay, {won[1]} of 5 if they travel for each use.")
work = quantity(network_work, "s")
print(f"3. {calls.number} calls for {work} of work (a model): no card can win that.")
