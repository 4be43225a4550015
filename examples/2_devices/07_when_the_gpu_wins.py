"""
Will a GPU win at your problem?
===============================

For anybody who wonders whether to buy a GPU, rent one, or port code to one. A GPU wins
if the work takes your CPU longer than it takes to *launch* that work on the GPU, plus
a share of the time to *transfer* the data. So large matrix products win, and samplers
with many walkers and points; small problems lose on any card. A stack of images that is
sent, used once and sent back gains little at best: its transfer takes about as long as
a CPU that reads at the full rate of its memory, though a slower program may gain.

**You will learn**

- to predict a GPU's time as *launch overhead + transfer + work*, and which decides;
- from which size on a GPU wins at six kinds of problems;
- how often data must be used on the GPU, so that sending them there pays.

**Time:** 13 minutes. **Needs:** any computer, and scikit-learn for its flowers. With a
GPU, the page measures both sides. Without one, the GPU's side is a model.
"""

# %%
# The calculator
# --------------
#
# A job has four numbers: the bytes that are *sent* to the GPU and back; and for each
# use of these data, the bytes that are *moved* in memory, the arithmetic *operations*,
# and the *calls* of PyTorch, each of which launches a kernel. A card has three rates:
# of PCIe, of its memory (VRAM) and of its arithmetic. Memory and arithmetic work at the
# same time, so whichever takes longer counts.

from typing import NamedTuple

from firstlight.measure.specs import spec, spec_of

LAUNCH = spec("PyTorch operation", "seconds")
WAIT = spec("wait for a GPU", "seconds")  # once, when the result is wanted


class Job(NamedTuple):
    sent: float  # bytes, to the GPU and back
    moved: float  # bytes, read and written in each use, at the least
    operations: float  # of arithmetic in each use
    calls: int = 1


def on_gpu(job, card, uses=1, precision="fp32"):
    """Seconds of one use: launch overhead, its share of the transfer, work."""
    transfer = WAIT + job.sent / spec(spec_of(card).slot, "bandwidth")
    memory = job.moved / spec(card, "bandwidth")
    arithmetic = job.operations / spec(card, precision)
    return job.calls * LAUNCH, transfer / uses, max(memory, arithmetic)


# %%
# A CPU launches nothing and sends nothing, but PyTorch has to find the right function
# there, too. Three measurements tell what your CPU does: of one tiny call, of one large
# copy, and of one large matrix product.

import torch
from firstlight.measure.roofs import measured_roof
from firstlight.measure.timing import measure

one = torch.ones(1)
rates = measured_roof("cpu")
dispatch = min(measure(torch.add, one, one, budget=0.2).values)


def on_cpu(job):
    memory, arithmetic = job.moved / rates.byte_rate, job.operations / rates.flop_rate
    return job.calls * dispatch + max(memory, arithmetic)


# %%
# Five jobs in ``float32`` numbers of 4 bytes, and their size :math:`n`: to *add* two
# vectors; a *matrix × vector* with :math:`n` rows of 100 numbers; a *matrix × matrix*;
# a *stack*, the mean of 30 images of :math:`n \times n` pixels; and one step of a
# *sampler*, the :math:`\chi^2` of 64 walkers that fit a parabola to :math:`n` points.

jobs = {
    "add": lambda n: Job(12 * n, 12 * n, n),
    "matrix × vector": lambda n: Job(404 * n + 400, 404 * n + 400, 200 * n),
    "matrix × matrix": lambda n: Job(12 * n**2, 12 * n**2, 2 * n**3),
    "stack": lambda n: Job(124 * n**2, 124 * n**2, 30 * n**2),
    "sampler": lambda n: Job(8 * n + 1024, 3084 * n + 1024, 448 * n, calls=7),
}
typical = {"add": 99_000_000, "matrix × vector": 100_000, "matrix × matrix": 10_000}
typical |= {"stack": 2048, "sampler": 1000}

# %%

# folded: the calculator's fields
from math import ceil, inf

from firstlight.measure.possible import times
from firstlight.measure.specs import SPECS
from firstlight.measure.tables import quantity
from firstlight.widgets import SAID, Table, board, choice, controls

FIELDS = {
    "sent": ("Bytes sent to the GPU and back", "B"),
    "moved": ("Bytes moved, each use", "B"),
    "operations": ("Operations, each use", "FLOP"),
    "calls": ("Kernel launches, each use", ""),
    "uses": ("Uses for each transfer", ""),
    "memory": ("Your CPU's memory bandwidth", "B/s"),
    "arithmetic": ("Your CPU's float32 arithmetic", "FLOP/s"),
}

# %%

# folded: the calculator's form, and what its script knows
chosen = {name: of for name, of in SPECS.items() if of.slot and of.fp32 and of.fp64}
cards = sorted(chosen, key=lambda name: name != "RTX 4090")
starts = {f"{name}, n = {n:,}": jobs[name](n)._asdict() for name, n in typical.items()}


def known():
    host = {"launch": LAUNCH, "wait": WAIT, "dispatch": dispatch}
    slots = {name: spec(of.slot, "bandwidth") for name, of in chosen.items()}
    rows = {n: (of.bandwidth, of.fp32, of.fp64, slots[n]) for n, of in chosen.items()}
    units = {name: unit for name, (_, unit) in FIELDS.items()}
    return {"cards": rows, "starts": starts, "units": units, **host}


def form():
    own = {"uses": "1", "memory": f"{rates.byte_rate:.1e}".replace("+", "")}
    own["arithmetic"] = f"{rates.flop_rate:.1e}".replace("+", "")
    entry = '<input name="{}" type="text" inputmode="decimal" value="{}">'
    return controls(
        ("Start from", choice("start", ["your own numbers", *starts])),
        ("Card", choice("card", cards)),
        ("Numbers", choice("precision", ["float32", "float64"])),
        *((said, entry.format(n, own.get(n, ""))) for n, (said, _) in FIELDS.items()),
    )


# %%


# folded: the calculator, and the rows of its table
class Calculator(Table):
    def _repr_html_(self):
        return board(
            "wins",
            known(),
            f"<div hidden>{form()}{SAID}</div><details open>",
            "<summary>These jobs as a table</summary>",
            super()._repr_html_() + "</details>",
        )


def uses_for_two(job, card):
    launch, transfer, work = on_gpu(job, card)
    gain = on_cpu(job) / 2 - launch - work
    return max(1, ceil(transfer / gain)) if gain > 0 else inf


def row(name, n, card="RTX 4090"):
    job = jobs[name](n)
    cpu, parts, uses = on_cpu(job), on_gpu(job, card), uses_for_two(job, card)
    stays = sum(on_gpu(job._replace(sent=0), card))
    gains = (f"{times(cpu / gpu)} ×" for gpu in (stays, sum(parts)))
    most = "never" if uses == inf else f"{uses:,}"
    return name, f"{n:,}", *(quantity(t, "s") for t in (cpu, *parts)), *gains, most


head = ("", "n", "your CPU", "launch", "transfer", "work", "data stay", "data sent")

# %%
# Type your own numbers, such as ``1.2e9``. (Without scripts, the table shows the five
# jobs.) The rates of "your CPU" are those of the computer that ran this page; replace
# them by yours. The address of the page then holds your numbers: it is a link that you
# can send to a colleague.

Calculator(
    "One use on an RTX 4090 (a model), and how many times as fast as the CPU it is",
    (*head, "uses for 2 ×"),
    tuple(row(name, n) for name, n in typical.items()),
).show()

# %%
# The model flatters the card, since no program reaches all rates of a data sheet. Take
# a gain below two for a tie; the last column says how many uses of the data for each
# transfer bring two. ``float64`` numbers take 8 bytes. The two
# overheads are not on data sheets; others measured them:
# :spec:`PyTorch operation seconds` to launch an operation, and
# :spec:`wait for a GPU seconds` to wait for a result.
#
# How to read it
# --------------
#
# If the data are used :math:`k` times on the GPU for each transfer, the GPU wins if
#
# .. math::
#
#     t_\text{CPU} > \text{calls} \times c + \frac{t_\text{transfer}}{k} +
#     \max\left(\frac{\text{moved}}{\text{memory}},
#     \frac{\text{operations}}{\text{arithmetic}}\right).
#
# 1. *Launch overhead.* If the CPU is done before the kernels are launched, it wins,
#    whatever the card. Such a job is *launch-bound*; give each call more work.
# 2. *Transfer.* If the job takes the CPU less than a share of the transfer, use the
#    data more often while they are on the GPU.
# 3. *Work.* What then remains is the ratio of the two memories' bandwidths or, with
#    many operations for each byte (a high *arithmetic intensity*), of the arithmetic.
#
# In a product of matrices the operations grow with :math:`n^3` and the bytes with
# :math:`n^2`, so that from some size on the GPU wins even if all is sent each time. In
# a stack each byte is used once: as long as the images come from the CPU's memory, the
# gain is at most the ratio of PCIe to that memory. A sampler sends its data once and
# uses them in thousands of steps, so that only its launches count. Stack the walkers:
# 64 of them are launched as fast as one.
#
# Both sides
# ----------
#
# Now test it. The same code runs on both sides; results go into memory that is there
# already where PyTorch allows it, and PyTorch may use all cores of the CPU. A sixth job
# is a boot camp's: a small network learns `Fisher's 150 irises`__, four lengths of each
# flower, of three kinds. 30 flowers are set aside as a *test set*, which the network
# never sees while it learns.
#
# __ https://scikit-learn.org/stable/datasets/toy_dataset.html#iris-plants-dataset

from sklearn.datasets import load_iris

iris = load_iris()
order = torch.randperm(150, generator=torch.Generator().manual_seed(33))
flowers = torch.tensor(iris.data, dtype=torch.float32)[order]
kinds = torch.tensor(iris.target)[order]
train_set, test_set = (flowers[:120], kinds[:120]), (flowers[120:], kinds[120:])


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
# How many calls is one step of training? A ``TorchDispatchMode`` sees every operation,
# also without a GPU. Some (``t``, ``view``) only look at a tensor in another way, and
# launch nothing.

from torch.utils._python_dispatch import TorchDispatchMode

only_look = {"t", "view", "detach", "lift_fresh", "_local_scalar_dense"}


class Calls(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        looks = function.overloadpacket.__name__ in only_look
        self.number += function.namespace == "aten" and not looks
        return function(*args, **(kwargs or {}))


training = Training(8)
training(*train_set)
with Calls() as calls:
    training(*train_set)


def network_job(n):  # six operations and ten numbers moved for each weight
    weights = 5 * n + (n + 1) ** 2 + 3 * (n + 1) + 3
    return Job(120 * (4 * 4 + 8) + 4, 40 * weights, 720 * weights, calls.number)


jobs["network"] = network_job
print(f"one step of training: {calls.number} calls")

# %%
# For each job, a function gives the work, on a device and in a format, and the inputs.

# folded: the six jobs as PyTorch
from functools import partial


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def add(n, **to):
    return partial(torch.add, out=torch.zeros(n, **to)), tuple(random(2, n))


def matrix_vector(n, **to):
    return partial(torch.mv, out=torch.zeros(n, **to)), (random(n, 100), random(100))


def matrix_matrix(n, **to):
    left, right = random(2, n, n) / n**0.5
    return partial(torch.matmul, out=torch.zeros(n, n, **to)), (left, right)


def stack(n, **to):
    mean = partial(torch.mean, dim=0, out=torch.zeros(n, n, **to))
    return mean, (100 + random(30, n, n),)


def chi_squared(t, y, walkers):
    a, b, c = walkers[:, :, None].unbind(1)
    return ((y - ((c * t + b) * t + a)) ** 2).sum(1)


def sampler(n, **_):
    t = torch.linspace(-1, 1, n)
    return chi_squared, (t, t**2 + random(n), random(64, 3))


def network(n, **to):
    return Training(n, **to), train_set


makers = (add, matrix_vector, matrix_matrix, stack, sampler, network)
makers = dict(zip(jobs, makers, strict=True))

# %%
# Before anything is timed, all six are checked on an odd size, against ``float64`` on
# the CPU. Each is done five times, so that the network has taken five steps when its
# loss is compared.

from firstlight import Bench, best_device

device = best_device()
has_gpu = device.type != "cpu"
errors = []
for place in dict.fromkeys(("cpu", device.type)):
    for name, make in makers.items():
        work, inputs = make(101, device=place, dtype=torch.float32)
        exact_work, _ = make(101, device="cpu", dtype=torch.float64)
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        for _ in range(5):
            result = work(*(x.to(place) for x in inputs))
            exact = exact_work(*wide)
        off = torch.linalg.norm(result.cpu() - exact) / torch.linalg.norm(exact)
        errors.append(off.item())
        assert off < 1e-4, f"{name} on {place} is wrong by {off:.1e}"
print(f"{len(errors)} checks; the largest relative error is {max(errors):.0e}")

# %%
# Measure
# -------
#
# *GPU* means that the inputs are there already. *There and back* sends the inputs for
# each call, and brings the result back.

sizes = {
    "add": [10, 10**4, 10**5, 10**6, 10**7],
    "matrix × vector": [1, 100, 1000, 10**4, 10**5],
    "matrix × matrix": [8, 64, 256, 512, 1024],
    "stack": [4, 32, 128, 512, 1024],
    "sampler": [1, 100, 1000, 10**4, 30_000],
    "network": [8, 32, 128, 512, 1024],
}
if has_gpu:
    larger = (10**8, 10**6, 4096, 2048, 10**6, 4096)
    for name, n in zip(sizes, larger, strict=True):
        sizes[name].append(n)

adding, products = Bench("wins-add", 2), Bench("wins-matrix-vector", 2)
squares, stacks = Bench("wins-matrix-matrix", 2), Bench("wins-stack", 2)
chains, steps = Bench("wins-sampler", 2), Bench("wins-network", 2)
benches = (adding, products, squares, stacks, chains, steps)
benches = dict(zip(jobs, benches, strict=True))

# %%


def there_and_back(work, inputs, result):
    result.copy_(work(*(x.to(device) for x in inputs)))


def race(name, n):
    bench, make, job = benches[name], makers[name], jobs[name](n)
    by_arithmetic = name in ("matrix × matrix", "network")
    rate = {"flops": round(job.operations)} if by_arithmetic else {"bytes": job.moved}
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

# %%
# From which size on is the GPU always faster? The CPU's curve is measured, and straight
# in logarithms between its sizes. The GPU's is a model for three cards, and measured
# where there is one. The model's launch overhead begins with what Python and PyTorch
# need in any case: the CPU's time for the smallest size, which has next to no work.

import numpy as np

ways = {"GPU": "data stay on the GPU", "GPU, there and back": "data sent each time"}


def curve(name, label):
    return [t.median for t in benches[name].timings if t.label == label]


def model(name, n, way, card="RTX 4090"):
    job = jobs[name](n)
    _, transfer, work = on_gpu(job if way != "GPU" else job._replace(sent=0), card)
    launch = curve(name, "CPU")[0] + job.calls * max(LAUNCH - dispatch, 0)
    return launch + transfer + work


# %%


# folded: how a crossing is found
def crossing(sizes, cpu, gpu):
    lead = np.log(np.divide(gpu, cpu))  # below 0 where the GPU is faster
    losses = np.flatnonzero(lead >= 0)
    if losses.size == 0:
        return sizes[0]
    if losses[-1] == len(sizes) - 1:
        return np.inf
    pair = slice(losses[-1], losses[-1] + 2)
    return np.exp(np.interp(0, -lead[pair], np.log(sizes[pair])))


def between(name, label):
    fine = np.geomspace(sizes[name][0], sizes[name][-1], 200)
    known = np.log(sizes[name]), np.log(curve(name, label))
    return fine, np.exp(np.interp(np.log(fine), *known))


def first_win(name, way, card):
    fine, cpu = between(name, "CPU")
    gpu = [model(name, n, way, card) for n in fine] if card else between(name, way)[1]
    n = crossing(fine, cpu, gpu)
    return "never" if n == np.inf else f"{float(f'{n:.2g}'):,.0f}"


# %%

named = ["GTX 1080", "RTX 4090", "H100 SXM"]
columns = [(card, way) for card in [*named, *[None] * has_gpu] for way in ways]
names = {"GPU": "data stay", "GPU, there and back": "sent"}
caption = "The size n from which on a GPU beats this CPU (never: at none measured here)"
head = ("", *(f"{card or 'this GPU'}: {names[way]}" for card, way in columns))
rows = [(name, *(first_win(name, way, card) for card, way in columns)) for name in jobs]
print(Table(caption, head, tuple(rows)).text())

# %%
# The cards that are named are models. The figure has the largest and the smallest size
# of each job. Is this your CPU? The dotted line is where the thick one would be for 16
# of the CPU that ran the page.

import matplotlib.pyplot as plt


def gains(name, way):
    """GPU's speed over CPU's, at the smallest and the largest size."""
    gpu = curve(name, way) or [model(name, n, way) for n in sizes[name]]
    return curve(name, "CPU")[0] / gpu[0], curve(name, "CPU")[-1] / gpu[-1]


ends = {way: {name: gains(name, way) for name in jobs} for way in ways}
stay, sent = (sum(last >= 2 for _, last in ends[way].values()) for way in ways)
small = sum(first >= 2 for first, _ in ends["GPU"].values())
found = f"{small} of 6 small jobs, {stay} of 6 large ones whose data stay on the GPU"
card = "this GPU" if has_gpu else "an RTX 4090 (model)"

# %%


# measured figure
def draw(ax, way, colour, up, style):
    """A line for each job, from its smallest size to its largest."""
    for place, (first, last) in enumerate(ends[way].values()):
        y, ink = len(jobs) - 1 - place + up, {"color": colour, "mew": 2}
        ax.plot([first, last], [y, y], style, color=colour, lw=2.5)
        ax.plot(first, y, "|", ms=9, **ink)
        ax.plot(last, y, "o", mfc=colour if up > 0 else "none", **ink)
        if place == 2:
            side = {"va": "bottom" if up > 0 else "top", "color": colour}
            ax.text(0.8 * last, y + up / 2, ways[way], ha="right", size=10, **side)


# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1
fig, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
draw(ax, "GPU", "#2f7ed8", 0.16, "-")
draw(ax, "GPU, there and back", "#d9762b", -0.16, ":")
labels = [f"{name}\nn = {sizes[name][0]:,} … {sizes[name][-1]:,}" for name in jobs]
ax.set_yticks(range(len(jobs))[::-1], labels, size=9)
ax.axvline(1, color="black", lw=2)
ax.axvline(16, color="black", ls=":")
ax.set(xscale="log", xlabel=f"times as fast as this CPU: {card}")
ax.xaxis.set_major_formatter("{x:g} ×")
ax.text(0.9, 5.6, "the CPU wins", ha="right", size=10)
ax.text(1.1, 5.6, "the GPU wins", size=10)
ax.set_ylim(-0.6, 6)
ax.text(17, 5.6, "16 such CPUs", size=10)
title = f"Twice as fast as this CPU or more are {found}".replace("whose", "\nwhose")
ax.set_title(f"{title}, {sent} of 6 whose data are sent", size=11)
fig.set_label(
    f"How many times as fast as this CPU {card} is, for six jobs, each from its "
    f"smallest to its largest size. Twice as fast or more: {found}, {sent} if they are "
    "sent."
)
plt.show()

# %%
# Measured on the newest GPU on record, against all cores of the CPU beside it, the
# speed-up for matrices of 1024 × 1024 is
# :timing:`wins-matrix-matrix speedup "GPU/cuda:0/n=1024"/"CPU/cpu/n=1024" @gpu`.
#
# A claim: "100X"
# ---------------
#
# A course notebook multiplies a matrix by a vector with ``torch.matmul``, and calls the
# CPU "about 100X times slower" than its GPU, a GTX 1650. That card was sold with two
# kinds of memory. Each number of the matrix is used once, so that memory decides. What
# could it gain on *this* CPU, at the notebook's size?

t = curve("matrix × vector", "CPU")[4]
for name in ("GTX 1650", "GTX 1650 GDDR6"):
    floor = jobs["matrix × vector"](100_000).moved / spec(name, "bandwidth")
    print(f"{name}: at most {t / floor:.1f} × as fast as this CPU")

# %%
# The notebook's number is no such ratio: its clock stopped before the GPU was done
# (:doc:`/tutorials/2_devices/03_timing_it_wrong`). Another lesson is in the job itself.
# If the matrix stays on the GPU and only the vectors are sent, the transfer all but
# vanishes: keep what is large, send what is small.
#
# A network that is too small
# ---------------------------
#
# A boot camp trains a network like ours, with 8 and 9 units, on a GPU in 0.467 seconds,
# and never asks how long a CPU takes. Here are 100 steps, with a fixed seed and a test
# set.

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
tiny = network_job(8)
_, _, work = on_gpu(tiny, "H100 SXM")
least, most = (quantity(s, "s") for s in (work, curve("network", "CPU")[0]))
print(f"a step's work on an H100, model: {least}")
print(f"a step on this CPU: {most}, nearly all of it in Python and PyTorch")

# %%
# (The boot camp's time includes the start of its GPU.) On a GPU the same Python has to
# prepare the same calls, and to launch each of them as well. So no card can help: this
# training is launch-bound. Wider layers put more work into each call; the table above
# says from which width on that pays.
#
# Where this stops being true
# ---------------------------
#
# - *Start-up.* The first use of a GPU loads libraries and code. A script that makes one
#   product and ends should not use one.
# - *Transfers that differ.* On Apple's chips a transfer is a copy within one memory;
#   memory that is not pinned is sent more slowly; and a transfer can overlap with work,
#   so that the longer of the two counts (:doc:`/tutorials/2_devices/05_transfers`).
# - *Files.* Data that come from a disk come as slowly to a CPU as to a GPU. A pipeline
#   that waits for files gains nothing.
# - *Other formats.* Cards for games do ``float64`` far more slowly; matrix units with
#   fewer bits are faster (:doc:`/tutorials/2_devices/09_precision`).
# - *Fewer launches.* Several operations can become one call, which moves the crossings
#   of the sampler and the network (:doc:`/tutorials/2_devices/11_fewer_launches`).
# - *Faster is not yet cheaper.* Energy is power times time, and rent is price times
#   time. If the GPU draws, or costs, :math:`p` times what your CPU does, it is cheaper
#   only where it is more than :math:`p` times as fast.
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
PCIE, CALL = 2.5e10, 5e-6  # bytes a second; seconds a call


def gpu_wins(calls, moved, intensity, sent, uses): ...


# %%

# folded: the checker
questions = [
    ((1, 10**9, 0.1, 10**9, 1), False, "the transfer takes longer than the CPU's work"),
    ((1, 10**9, 0.1, 10**9, 100), True, "all uses share one transfer"),
    ((1, 10**5, 1, 0, 1), False, "each call costs CALL, also without a transfer"),
    ((28, 4 * 10**6, 0.5, 0, 1), False, "count every call, not one"),
    ((1, 12 * 10**6, 167, 12 * 10**6, 1), True, "arithmetic takes longer here"),
    ((5, 10**6, 10, 0, 1), False, "the longer of the two counts, not their sum"),
    ((1, 10**8, 1, 475 * 10**5, 1), False, "the GPU has its own work to do, too"),
    ((1, 10**5, 1, 10**5, 1000), False, "each use makes its calls: share the transfer"),
]


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


# %%

print(check(gpu_wins))

# %%

# solution


def gpu_wins_solution(calls, moved, intensity, sent, uses):
    def work(rates):
        return moved * max(1 / rates.memory, intensity / rates.arithmetic)

    return work(CPU) > calls * CALL + sent / PCIE / uses + work(GPU)


print(check(gpu_wins_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. A CPU has the work to do; a GPU has launch overhead, a share of the transfer,
   and the work. Predict both before you port: four numbers of your job are enough.
2. Twice as fast as this CPU or more is {card} for {found},
   and for {sent} if they are sent for each use.
3. No card can speed up {calls.number} launches for {least} of work (a step of the iris
   network, on a model of an H100): give each call more work, or stay on the CPU."""
)
