"""
Will a GPU win at your problem?
===============================

A GPU wins if your CPU needs longer for the work than the GPU needs to :term:`launch`
it, to *transfer* the data, and to do the work. Against a desktop's CPU, by the
:term:`data sheets <data sheet>` of both, an RTX 4090 wins at large matrix products even
if the data are sent each time. At adding vectors or averaging images it wins if the
data stay on the GPU; if they are sent for a single use, the CPU is done first. It is
also done first with vectors of fewer than about 100,000 numbers, whatever the card: the
work ends before a GPU has started and answered. The calculator below works it out for
your job and your CPU.

**You will learn**

- whether a GPU wins at your job against your CPU, and from what size;
- how often data must be used on the GPU before sending them there pays;
- when to buy a GPU, when to rent one, and when to do without.

**Time:** 12 minutes. **Needs:** any computer, and scikit-learn for its flowers. With a
GPU, the page measures both sides. Without one, the GPU's side is a model.
"""

# %%
# The calculator
# --------------
#
# Choose a job, a card and a CPU, or type your own numbers, such as ``1.2e9``.

# folded: The rule in code
from math import ceil, inf
from typing import NamedTuple

from firstlight.timing.specs import spec, spec_of

LAUNCH = spec("PyTorch operation", "seconds")
WAIT = spec("wait for a GPU", "seconds")  # once, when the result is wanted


class Job(NamedTuple):
    sent: float  # bytes, to the GPU and back
    moved: float  # bytes, read and written in each use, at the least
    operations: float  # of arithmetic in each use
    calls: int = 1


class Rates(NamedTuple):
    memory: float  # bytes a second
    arithmetic: float  # operations a second


def on_gpu(job, card, uses=1, precision="fp32"):
    """Seconds of one use: launch overhead, its share of transfer and wait, work."""
    transfer = WAIT + job.sent / spec(spec_of(card).slot, "bandwidth")
    memory = job.moved / spec(card, "bandwidth")
    arithmetic = job.operations / spec(card, precision)
    return job.calls * LAUNCH, transfer / uses, max(memory, arithmetic)


def on_cpu(job, cpu, precision="fp32"):
    arithmetic = cpu.arithmetic / (2 if precision == "fp64" else 1)
    return max(job.moved / cpu.memory, job.operations / arithmetic)


def gain(job, cpu, stay=False, card="RTX 4090", precision="fp32"):
    """How many times as fast as the CPU the GPU is."""
    resident = job._replace(sent=0) if stay else job
    return on_cpu(job, cpu, precision) / sum(on_gpu(resident, card, 1, precision))


def uses_for_two(job, cpu, card="RTX 4090"):
    launch, transfer, work = on_gpu(job, card)
    spare = on_cpu(job, cpu) / 2 - launch - work
    return max(1, ceil(transfer / spare)) if spare > 0 else inf


# %%

# folded: The jobs, three CPUs by their makers' data, and the calculator's fields
jobs = {
    "add": lambda n: Job(12 * n, 12 * n, n),
    "matrix × vector": lambda n: Job(404 * n + 400, 404 * n + 400, 200 * n),
    "matrix × matrix": lambda n: Job(12 * n**2, 12 * n**2, 2 * n**3),
    "stack": lambda n: Job(124 * n**2, 124 * n**2, 30 * n**2),
    "sampler": lambda n: Job(8 * n + 1024, 3084 * n + 1024, 448 * n, calls=7),
}
typical = [("add", 100_000_000), ("add", 10_000), ("matrix × vector", 100_000)]
typical += [("matrix × matrix", 10_000), ("stack", 2048), ("sampler", 1000)]


def data_sheet(channels, transfers, cores, clock, each_clock=32):
    """A CPU's rates at the most, by its maker."""
    return Rates(8 * channels * transfers, cores * clock * each_clock)


# Channels, transfers a second, cores and base clock: AMD's product pages of the three.
# Zen 3 and 4 begin two multiply-adds of eight float32 numbers in each clock: AMD's
# Software Optimization Guides 56665 and 57647.
CPUS = {
    "desktop: Ryzen 7 7700X": data_sheet(2, 5.2e9, 8, 4.5e9),
    "laptop: Ryzen 7 5800U": data_sheet(2, 3.2e9, 8, 1.9e9),
    "server: EPYC 7763": data_sheet(8, 3.2e9, 64, 2.45e9),
}
DESKTOP, LAPTOP, SERVER = CPUS.values()

FIELDS = {
    "sent": ("Bytes sent to the GPU and back", "B"),
    "moved": ("Bytes moved, each use", "B"),
    "operations": ("Operations, each use", "FLOP"),
    "calls": ("Kernel launches, each use", ""),
    "uses": ("Uses for each transfer", ""),
    "launch": ("Seconds for each launch", "s"),
    "memory": ("Your CPU's memory bandwidth", "B/s"),
    "arithmetic": ("Your CPU's float32 arithmetic", "FLOP/s"),
}

# %%

# folded: The calculator, and a table of the same
from firstlight.display import BLUE, ORANGE, Table, quantity, show_table
from firstlight.lessons.plausibility import format_ratio
from firstlight.lessons.svg import STATUS_REGION, board, choice, controls
from firstlight.timing.specs import SPECS

chosen = {name: of for name, of in SPECS.items() if of.slot and of.fp32 and of.fp64}
cards = sorted(chosen, key=lambda name: name != "RTX 4090")
starts = {f"{name}, n = {n:,}": jobs[name](n)._asdict() for name, n in typical}


def known():
    slots = {name: spec(of.slot, "bandwidth") for name, of in chosen.items()}
    rows = {n: (of.bandwidth, of.fp32, of.fp64, slots[n]) for n, of in chosen.items()}
    units = {name: unit for name, (_, unit) in FIELDS.items()}
    return {"cards": rows, "cpus": CPUS, "starts": starts, "units": units, "wait": WAIT}


def form():
    own = {"uses": 1, "launch": LAUNCH, **DESKTOP._asdict()}
    own = {name: f"{value:g}".replace("+", "") for name, value in own.items()}
    entry = '<input name="{}" type="text" inputmode="decimal" value="{}">'
    return controls(
        ("Job", choice("start", ["your own numbers", *starts])),
        ("Card", choice("card", cards)),
        ("CPU", choice("cpu", [*CPUS, "your own rates"])),
        ("Numbers", choice("precision", ["float32", "float64"])),
        *((label, entry.format(n, own.get(n, ""))) for n, (label, _) in FIELDS.items()),
    )


class Calculator(Table):
    def _repr_html_(self):
        return board(
            "wins",
            known(),
            f"<div hidden>{form()}{STATUS_REGION}</div><details open>",
            "<summary>These jobs as a table</summary>",
            super()._repr_html_() + "</details>",
        )


def row(name, n):
    job = jobs[name](n)
    seconds = on_cpu(job, DESKTOP), *on_gpu(job, "RTX 4090")
    gains = (f"{format_ratio(gain(job, DESKTOP, stay))} ×" for stay in (True, False))
    uses = uses_for_two(job, DESKTOP)
    most = "never" if uses == inf else f"{uses:,}"
    return f"{name}, n = {n:,}", *(quantity(t, "s") for t in seconds), *gains, most


# %%

Calculator(
    "One use on an RTX 4090 and a desktop (a model). Uses: for each transfer, for 2 ×",
    ("", "CPU", "launch", "send, wait", "work", "data stay", "sent", "uses"),
    tuple(row(*job) for job in typical),
).show()

# %%
# The address of the page then holds your numbers, as a link for a colleague. The jobs
# are in ``float32``, and have a size :math:`n`: to *add* two vectors; a *matrix ×
# vector* with :math:`n` rows of 100 numbers; a *matrix × matrix*; a *stack*, the mean
# of 30 images of :math:`n \times n` pixels; and one step of a *sampler*, the
# :math:`\chi^2` of 64 walkers that fit a parabola to :math:`n` points.
#
# **To count your own job:**
#
# - *Bytes sent*: the sizes of the arrays that go to the GPU, and of what comes back.
# - *Bytes moved*: the sizes of the arrays that a step reads and writes.
# - :term:`Operations <operation>`: one for each number that is added, :math:`2n^3` in a
#   product of matrices, about :math:`5N\log_2 N` in an :term:`FFT` of :math:`N`
#   numbers.
# - *Launches*: the calls of PyTorch in a step. As others measured, each takes
#   :spec:`PyTorch operation seconds`, and the wait for the result
#   :spec:`wait for a GPU seconds`.
# - *Uses*: the steps that use the data before they are replaced or brought back. For
#   all of them together you wait once. (*Data stay*, in the table and the figure, means
#   that they were sent earlier: one use, and one wait.)
# - *Your CPU*: :term:`bandwidth` is memory channels × 8 bytes × transfers a second;
#   arithmetic is cores × clock × operations in a clock, 32 with AVX2. For the three in
#   the list, they are from AMD's product pages. Measured rates are lower; yours are
#   printed by::
#
#      python -c "from firstlight.timing.roofs import *; print(measured_roof('cpu'))"
#
# From what size does it win?
# ---------------------------
#
# From these sizes on, the GPU is faster, but call a gain below two a tie: neither side
# reaches all the rates on its data sheet.

# folded: How to find the size from which a GPU is faster
import numpy as np


def crossing(sizes, cpu, gpu):
    """The size from which the GPU is always faster."""
    lead = np.log(np.divide(gpu, cpu))  # below 0 where the GPU is faster
    losses = np.flatnonzero(lead >= 0)
    if losses.size == 0:
        return sizes[0]
    if losses[-1] == len(sizes) - 1:
        return np.inf
    pair = slice(losses[-1], losses[-1] + 2)
    return np.exp(np.interp(0, -lead[pair], np.log(sizes[pair])))


WAYS = {True: "data stay", False: "data sent"}


def predicted(name, cpu, stay, sizes=(1, 10**9), card="RTX 4090"):
    fine = np.geomspace(*sizes, 500)
    gains = [gain(jobs[name](n), cpu, stay, card) for n in fine]
    return crossing(fine, gains, np.ones(len(fine)))


def written(n, none="never"):
    return none if n == np.inf else f"{float(f'{n:.2g}'):,.0f}"


# %%

places = {"laptop": LAPTOP, "desktop": DESKTOP, "server": SERVER}
for stay in (True, False):
    caption = f"The n from which an RTX 4090 is faster (a model): {WAYS[stay]}"
    rows = [
        (name, *(written(predicted(name, cpu, stay)) for cpu in places.values()))
        for name in jobs
    ]
    show_table(caption, ("", *places), rows)

# %%
# Leave smaller jobs on the CPU. *Never*: at any size the CPU is done before the data
# are sent. Then it takes several uses for each transfer, as the column *uses* of the
# calculator's table says; for the two small jobs, no number of uses is enough.
#
# Buy, rent or leave it
# ---------------------
#
# 1. *Leave it* if the calculator gives less than two, with as many uses as you can
#    reach; or if your program spends less than half of its time in what the GPU would
#    do: the other half remains (:term:`Amdahl's law`).
# 2. *Rent* if a GPU costs :math:`p` times as much an hour as your CPU, and is more than
#    :math:`p` times as fast. Run your job for an hour first.
# 3. *Buy* if you would rent the card for more hours than its price pays for.
#
# An example with round prices; put in your own:

card_price, card_hour, cpu_hour = 1800, 0.50, 0.05
p = card_hour / cpu_hour
print(f"buy from {card_price / card_hour:,.0f} hours; rent if over {p:.0f} × as fast:")
for stay in (True, False):
    rent = [
        f"{of}, n = {n:,}" for of, n in typical if gain(jobs[of](n), DESKTOP, stay) > p
    ]
    print(f"  {WAYS[stay]}: {'; '.join(rent) or 'none of the six examples'}")

# %%
# Which card? Its memory (VRAM) has to hold your data. If your job only adds or
# averages, look at the column *add*; if it multiplies matrices, at the last two.

named = ["T4", "L4", "GTX 1080", "RTX 4090", "A100 80GB SXM", "H100 SXM"]
large, product = jobs["add"](10**8), jobs["matrix × matrix"](10**4)
double = product._replace(moved=2 * product.moved)
rows = [
    (
        card,
        spec_of(card).text("memory"),
        f"{format_ratio(gain(large, DESKTOP, True, card))} ×",
        f"{format_ratio(gain(product, DESKTOP, True, card))} ×",
        f"{format_ratio(gain(double, DESKTOP, True, card, 'fp64'))} ×",
    )
    for card in named
]
caption = "Times as fast as a desktop (a model): large jobs, data stay on the card"
head = ("", "VRAM", "add", "matrices", "in float64")
show_table(caption, head, rows)

# %%
# Few cards are fast in ``float64``. Matrix units can be faster still
# (:doc:`/tutorials/2_devices/13_precision`).
#
# The rule
# --------
#
# If the data are used :math:`k` times on the GPU for each transfer, the GPU wins if
#
# .. math::
#
#     t_\text{CPU} > L c + \frac{t_\text{transfer} +
#     t_\text{wait}}{k} + \max\left(\frac{\text{moved}}{\text{memory}},
#     \frac{\text{operations}}{\text{arithmetic}}\right).
#
# Here :math:`L` launches take :math:`c` each, *memory* and *arithmetic* are the GPU's
# rates, and the rest is what you counted above.
#
# 1. *Launch overhead.* If the CPU is done before the kernels are launched, it wins.
#    Such a job is :term:`launch-bound`: give each call more work. 64 walkers are
#    launched as fast as one.
# 2. *Transfer.* If each byte is used once, as in a stack that is sent, the gain is at
#    most the ratio of :term:`PCIe`'s bandwidth to that of the CPU's memory. A sampler
#    sends its data once, and uses them in thousands of steps.
# 3. *Work.* What remains is the ratio of the two memories' bandwidths or, with many
#    operations for each byte (a high :term:`arithmetic intensity`), of the arithmetic.
#    In a product of matrices the operations grow with :math:`n^3` and the bytes with
#    :math:`n^2`: from some size on the GPU wins even if all is sent each time.

# folded: What draws a row
import matplotlib.pyplot as plt


def draw(ax, stay, colour, up, fill, way):
    """For each job a dot for the desktop, on a line from the server to the laptop."""
    for place, (name, n) in enumerate(reversed(typical)):
        ratios = [gain(jobs[name](n), cpu, stay) for cpu in (SERVER, DESKTOP, LAPTOP)]
        ax.plot(ratios, 3 * [place + up], "-", color=colour, lw=2)
        dot = {"color": colour, "mfc": fill, "ms": 8, "mew": 2, "ls": ""}
        ax.plot(ratios[1], place + up, "o", label="" if place else way, **dot)
        won, text = ratios[1] > 1, f"{format_ratio(ratios[1])} ×"
        x, side = (
            1.3 * ratios[2] if won else ratios[0] / 1.3,
            "left" if won else "right",
        )
        ax.text(x, place + up, text, ha=side, va="center", size=10, color=colour)


def wins(stay):
    return sum(gain(jobs[name](n), DESKTOP, stay) >= 2 for name, n in typical)


# %%

# figure
# sphinx_gallery_thumbnail_number = 1
fig, ax = plt.subplots(figsize=(5.8, 5), layout="constrained")
draw(ax, True, BLUE, 0.17, BLUE, "data stay on the GPU")
draw(ax, False, ORANGE, -0.17, "none", "data sent each time")
labels = [f"{name}\nn = {n:,}" for name, n in reversed(typical)]
ax.set_yticks(range(len(typical)), labels, size=10)
ax.axvline(1, ymax=0.92, color="black", lw=2)
ax.axvspan(0.5, 2, color="gray", alpha=0.2, lw=0)
ax.set(xscale="log", xlim=(0.003, 1500), ylim=(-1, 6.4))
ax.set_xticks([0.01, 0.1, 1, 10, 100, 1000])
ax.xaxis.set_major_formatter("{x:g} ×")
ax.set_xlabel("times as fast as a desktop's CPU\n(line: from a server's to a laptop's)")
for x, side, who in ((0.45, "right", "CPU"), (2.2, "left", "GPU")):
    ax.text(x, 6, f"the {who} wins", ha=side, va="center", size=10)
ax.text(1, 6, "tie", ha="center", va="center", size=10)
ax.legend(loc="lower right", fontsize=10, frameon=False)
won = (
    f"By the data sheets, an RTX 4090 wins at {wins(True)} of 6 examples\n"
    f"if the data stay there, at {wins(False)} if they are sent each time"
)
ax.set_title(won, size=11)
fig.set_label(
    f"{won}: how many times as fast as a desktop's CPU it is, with lines from a "
    "server's CPU to a laptop's. Adding small vectors and the sampler win nowhere."
)
plt.show()

# %%
# Does the rule hold?
# -------------------
#
# Only roughly, as the last two tables of this section show. Where vectors or images are
# sent for one use, even the winner can change: do not rely on it there. To see this,
# measure with the same code on both sides and all cores of the CPU; without a GPU, only
# the CPU's side. One more job is from a PyTorch boot camp (see :doc:`/claims`): a small
# network learns `Fisher's 150 irises`__, four lengths of each flower, of three kinds.
# 30 flowers are set aside as a *test set*.
#
# __ https://scikit-learn.org/stable/datasets/toy_dataset.html#iris-plants-dataset

import torch
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

# folded: Count the launches of one step of training
from torch.utils._python_dispatch import TorchDispatchMode

# A TorchDispatchMode sees every operation, also without a GPU. These launch nothing:
views = {"t", "view", "detach", "lift_fresh", "_local_scalar_dense"}


class Calls(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        is_view = function.overloadpacket.__name__ in views
        self.number += function.namespace == "aten" and not is_view
        return function(*args, **(kwargs or {}))


training = Training(8)
training(*train_set)
with Calls() as calls:
    training(*train_set)


def network_job(n):  # six operations and ten numbers moved for each weight
    weights = 5 * n + (n + 1) ** 2 + 3 * (n + 1) + 3
    return Job(120 * (4 * 4 + 8) + 4, 40 * weights, 720 * weights, calls.number)


jobs["network"] = network_job
print(f"one step of training: {calls.number} calls, each with a launch at least")

# %%
# For each job, a function returns what to call, on a device and in a format, and its
# inputs. Before anything is timed, all are checked on an odd size, five times in a row,
# against ``float64`` on the CPU.

# folded: The jobs as PyTorch
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

# folded: The check against float64
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
# *GPU* means that the inputs are there already. *There and back* sends the inputs for
# each call, and brings the result back. The first job's times are in the table.

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

adding.show()

# %%
# Put this CPU's own two rates into the rule. From what size is the GPU faster, by the
# rule, and by the measured times, interpolated between sizes? Without a GPU, its time
# is the rule's, plus Python's own time, taken from the smallest size on this CPU.

from firstlight.timing.roofs import measured_roof

roof = measured_roof("cpu")
HERE = Rates(roof.byte_rate, roof.flop_rate)
memory, arithmetic = quantity(HERE.memory, "B/s"), quantity(HERE.arithmetic, "FLOP/s")
print(f"this CPU: {memory} and {arithmetic}")

# %%

# folded: The times between two measured sizes


def curve(name, label):
    return [t.median for t in benches[name].timings if t.label == label]


def model(name, n, stay, card="RTX 4090"):
    job, call = jobs[name](n), curve("add", "CPU")[0]  # next to no work
    launch = curve(name, "CPU")[0] + job.calls * max(LAUNCH - call, 0)
    _, transfer, work = on_gpu(job._replace(sent=0) if stay else job, card)
    return launch + transfer + work


def between(name, label):
    fine = np.geomspace(sizes[name][0], sizes[name][-1], 200)
    known = np.log(sizes[name]), np.log(curve(name, label))
    return fine, np.exp(np.interp(np.log(fine), *known))


def first_win(name, stay):
    fine, cpu = between(name, "CPU")
    if has_gpu:
        _, gpu = between(name, "GPU" if stay else "GPU, there and back")
    else:
        gpu = [model(name, n, stay) for n in fine]
    return crossing(fine, cpu, gpu)


# %%

card = "this GPU (rule: an RTX 4090)" if has_gpu else "an RTX 4090 (model)"
head = ("", "by the rule", "measured" if has_gpu else "with the CPU measured")
for stay in (True, False):
    rows = [("network", "–", written(first_win("network", stay), "none"))]
    off, other = [], []
    for name in list(jobs)[:-1]:
        rule = predicted(name, HERE, stay, (sizes[name][0], sizes[name][-1]))
        found = first_win(name, stay)
        rows.insert(-1, (name, written(rule, "none"), written(found, "none")))
        if np.isfinite(rule) and np.isfinite(found):
            off.append(max(rule / found, found / rule))
        elif np.isfinite(rule) or np.isfinite(found):
            other.append(name)
    caption = f"The n from which {card} is faster than this CPU: {WAYS[stay]}"
    show_table(caption, head, rows)
    most = f"sizes differ at most {max(off):.1f} ×" if off else "no job has both sizes"
    print(f"{most}; a size in one column only: {', '.join(other) or 'no job'}")

# %%
# (*None*: at none of the measured sizes.) Where the second size is larger than the
# rule's, suspect the CPU's :term:`cache`, which is faster than its memory; where it is
# smaller, the CPU does not reach its rates. When vectors or images are sent for one
# use, the gain is at most PCIe's bandwidth over that of the CPU's memory. If that is
# near one, the CPU's cache can change the answer. The network has no rule, since most
# of a small step is Python's time, which the rule leaves out.
#
# Measured on the newest GPU on record, against all cores of the CPU beside it, the
# speed-up for matrices of 1024 × 1024 is
# :timing:`wins-matrix-matrix speedup "GPU/cuda:0/n=1024"/"CPU/cpu/n=1024" @gpu`.
#
# The rule stands on the time of one operation. Others measured that time on computers
# of theirs; the last line is a course's comparison, and we divided its two times.
#
# .. measured-by-others:: operation-a100 operation-rtx3090ti operation-rtx4090
#    course-nine
#
# A network that is too small
# ---------------------------
#
# The boot camp trains a network like ours, with 8 and 9 units, on a GPU in 0.467
# seconds, including the GPU's start-up: 100 epochs of one step each, on a GTX 1080 Ti.
# How long does a CPU take for 100 steps?

# folded: 100 steps of training, and what they learn
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
    print(f"{place}: loss {before:.3f} to {after:.3f},")
    print(f"  {right} of {len(test[1])} test flowers right")
    return took


took = {place: train_and_test(place) for place in dict.fromkeys(("cpu", device.type))}
tiny = network_job(8)
_, _, work = on_gpu(tiny, "H100 SXM")
seconds = work, curve("network", "CPU")[0], on_cpu(tiny, HERE)
least, most, by_rule = (quantity(s, "s") for s in seconds)

# %%

for place, seconds in took.items():
    print(f"{place}: {quantity(seconds, 's')} for 100 steps;", end=" ")
    print(f"the boot camp's GPU: {0.467 / seconds:.1f} × as long")
print(f"a step on this CPU: {most}; its work, by the rule: {by_rule}")
print(f"a step's work on an H100, by the rule: {least}")

# %%
# The rest of a step is Python's and PyTorch's. With a GPU they prepare the same calls,
# and launch them as well. So no card can help: this training is launch-bound. Wider
# layers put more work into each call.
#
# Where this stops being true
# ---------------------------
#
# - *Start-up.* The first use of a GPU loads libraries and code, which takes seconds: do
#   not use one for a job that a CPU finishes in seconds.
# - *Transfers that differ.* On Apple's chips a transfer is a copy within one memory;
#   memory that is not :term:`pinned` is sent more slowly; and a transfer can overlap
#   with work (:doc:`/tutorials/2_devices/09_copy_and_compute`).
# - *Files.* A pipeline that waits for its disk gains nothing.
# - *Steps that wait for each other*, as in one Markov chain: run hundreds of chains at
#   once.
# - *A CPU with cores to spare.* The rule's CPU uses all cores. If your program uses one
#   of eight, use the other seven first.
# - *Fewer launches.* Several operations can become one call
#   (:doc:`/tutorials/2_devices/16_fewer_launches`).
#
# Exercise
# --------
#
# Write the rule down. One use of the data makes some ``calls``, moves some bytes
# (``moved``), and does ``intensity`` operations for each of them. ``sent`` bytes go
# there and back, once for all ``uses``. Does the GPU win? The rates are round.


CPU, GPU = Rates(5e10, 5e11), Rates(5e11, 1e13)
PCIE, CALL = 2.5e10, 5e-6  # bytes a second; seconds a call


def gpu_wins(calls, moved, intensity, sent, uses): ...


# %%

# folded: The checker
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
# Three lines to remember
# -----------------------

# remember
few, many = (uses_for_two(large, cpu) for cpu in (LAPTOP, SERVER))
print(
    f"""1. A CPU only does the work; a GPU also has launches and a share of a transfer.
   Predict both before you port: five numbers of your job are enough.
2. Against a desktop, an RTX 4090 (model) wins at {wins(True)} of 6 examples if the data
   stay there, at {wins(False)} if they are sent each time. Adding large vectors gains
   2 × if they are used {few} times there (against a laptop), or {many} (a server).
3. No card can speed up {calls.number} launches for {least} of work (a step of a net of
   8 and 9 units, on a model of an H100): give each call more work, or use the CPU."""
)

# %%
# Solution
# --------

# solution


def gpu_wins_solution(calls, moved, intensity, sent, uses):
    def work(rates):
        return moved * max(1 / rates.memory, intensity / rates.arithmetic)

    return work(CPU) > calls * CALL + sent / PCIE / uses + work(GPU)


print(f"Our solution: {check(gpu_wins_solution)}")
