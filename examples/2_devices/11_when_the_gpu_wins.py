"""
Will a GPU win at your problem?
===============================

Your analysis has been running since last night, and in the next room stands a computer
with a GPU. One colleague is sure that the job will be done there before your coffee is
cold. Another's program became *slower* there. Both may be right. By the end you'll be
able to predict who wins from five numbers that you can work out on a sheet of paper.

**Needs:** any computer, and scikit-learn for a small data set about flowers. With a
GPU, the page measures both sides. Without one, the GPU's side is a model.
"""

# %%
# Guess first
# -----------
#
# Here are four jobs. **For each of them, write down who wins, and by how much: an H100,
# or the 16 cores of the CPU beside it?**
#
# 1. Add two vectors of 10,000 numbers that are in the GPU's memory already.
# 2. Add two vectors of 100 million numbers that are there already.
# 3. The same, but the vectors are sent to the GPU first, and the sum is brought back.
# 4. Multiply two matrices of 4,096 × 4,096. They are sent, too, and the product comes
#    back.
#
# Here is what we measured, with the same PyTorch code on both sides:
#
# .. list-table:: Four jobs: a CPU of 16 cores against an H100
#    :header-rows: 1
#
#    * - job
#      - CPU
#      - GPU
#      - times as fast
#    * - add 10,000 numbers, data stay
#      - :timing:`wins-add median "CPU/cpu/n=10000" @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-add median "GPU/cuda:0/n=10000" @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-add speedup "GPU/cuda:0/n=10000"/"CPU/cpu/n=10000"
#        @nvidia-h100-80gb-hbm3`
#    * - add 100 million, data stay
#      - :timing:`wins-add median "CPU/cpu/n=100000000" @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-add median "GPU/cuda:0/n=100000000" @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-add speedup "GPU/cuda:0/n=100000000"/"CPU/cpu/n=100000000"
#        @nvidia-h100-80gb-hbm3`
#    * - add 100 million, data sent
#      - :timing:`wins-add median "CPU/cpu/n=100000000" @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-add median "GPU, there and back/cuda:0/n=100000000"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-add speedup "GPU, there and
#        back/cuda:0/n=100000000"/"CPU/cpu/n=100000000" @nvidia-h100-80gb-hbm3`
#    * - multiply matrices, data sent
#      - :timing:`wins-matrix-matrix median "CPU/cpu/n=4096" @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-matrix-matrix median "GPU, there and back/cuda:0/n=4096"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`wins-matrix-matrix speedup "GPU, there and
#        back/cuda:0/n=4096"/"CPU/cpu/n=4096" @nvidia-h100-80gb-hbm3`
#
# The computer was rented, and its cores are :term:`virtual CPUs <virtual CPU>`,
# probably two to each real core. A better CPU would win more often. We made many calls
# in a row and divided the time by their number. So the first row says how often the GPU
# can start an addition. If you wait for a single sum, it takes longer.
#
# The first job is over before the GPU has properly started. The second one is what
# people mean when they praise GPUs. The third has the same additions on the same card,
# and the CPU wins. And yet the fourth one sends its data, too, and gains. Why?
#
# Three things take time
# ----------------------
#
# Think of printing. Your own small printer stands on your desk. Across the street is a
# copy shop with a machine as large as a car. For a single page you won't go there: by
# the time that you have explained what you want, your own printer is done. For a
# thousand posters you will, unless you have to carry the paper across the street for
# each page.
#
# With a GPU it's the same:
#
# - *Explaining.* Each call of PyTorch has to start something on the GPU. We call it a
#   :term:`launch`. To predict times, we count :spec:`PyTorch operation seconds` for
#   each launch. Once, when you want to see the result, you also wait. For that, we
#   count :spec:`wait for a GPU seconds`.
# - *Carrying.* The bytes go through the link between CPU and GPU, there and back. On a
#   recent computer that is :term:`PCIe` 5, with :spec:`PCIe 5 x16 bandwidth` at best.
#   But from ordinary memory the CPU has to copy them first. We take :spec:`pageable
#   copy bandwidth`, rounded from what others measured on :doc:`five NVIDIA cards
#   </tutorials/2_devices/08_pinned_memory>`.
# - *Printing*. That's the work itself. The GPU has to read and write the bytes in its
#   own memory, and to do the arithmetic. It does both at the same time, so the longer
#   of the two counts.
#
# The CPU has only the last one. 100 million additions need 12 bytes each. These have to
# be sent, and then read and written. **Which of the three will take longest?**

# folded: The rule in code
from math import ceil, inf
from typing import NamedTuple

from firstlight.timing.specs import spec, spec_of

LAUNCH = spec("PyTorch operation", "seconds")
WAIT = spec("wait for a GPU", "seconds")  # once, when the result is wanted
PAGEABLE = spec("pageable copy", "bandwidth")  # ordinary memory, which the CPU copies


class Job(NamedTuple):
    sent: float  # bytes, to the GPU and back
    moved: float  # bytes, read and written in each use, at the least
    operations: float  # of arithmetic in each use
    calls: int = 1


class Rates(NamedTuple):
    memory: float  # bytes a second
    arithmetic: float  # operations a second


def link(card):
    """Bytes a second from ordinary memory to a card."""
    return min(PAGEABLE, spec(spec_of(card).slot, "bandwidth"))


def on_gpu(job, card, uses=1, precision="fp32"):
    """Seconds of one use: launch overhead, its share of transfer and wait, work."""
    transfer = WAIT + job.sent / link(card)
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

from firstlight.display import quantity

third = Job(sent=12 * 10**8, moved=12 * 10**8, operations=10**8)
launch, carry, work = on_gpu(third, "H100 SXM")
print("launch", quantity(launch, "s"))
print("carry ", quantity(carry, "s"))
print("work  ", quantity(work, "s"))

# %%
# It's the carrying, by far. No card in a slot can change that, however fast it is. The
# H100's computer really took :timing:`wins-add median "GPU, there and
# back/cuda:0/n=100000000" @nvidia-h100-80gb-hbm3`. That the rule comes so close to it
# is partly luck.
#
# The CPU has the same bytes in a memory of its own. Beside our H100, that memory moved
# :timing:`wins-add rate "CPU/cpu/n=100000000" @nvidia-h100-80gb-hbm3`, more than the
# link, so the CPU is done before the bytes have even arrived. A few chips need no
# street, because :doc:`CPU and GPU share one memory </cards>`. But PyTorch's ``.to``
# still copies there, and a copy reads and writes each byte. So if your data were made
# on the GPU, read the column *data stay* below. Otherwise add to the GPU's time twice
# the bytes sent, divided by the memory's bandwidth.
#
# And the fourth job? There, each number that you send is used in 4,096 multiplications.
# That's worth the walk. So ask *how often will each byte that I send be used?* If a job
# makes :math:`L` launches of :math:`c` each, and uses its data :math:`k` times before
# they are replaced, then the GPU wins if
#
# .. math::
#
#     t_\text{CPU} > L c + \frac{t_\text{transfer} + t_\text{wait}}{k} + t_\text{work}.
#
# The work takes as long as the memory needs for the bytes, or the arithmetic for the
# operations, whichever is longer. If you launch many calls in a row, the GPU works on
# one while the CPU launches the next. Then only the longer of :math:`L c` and the work
# counts, and our sum overestimates the time, by a factor of two at most.

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
from firstlight.display import BLUE, ORANGE, Table, show_table
from firstlight.lessons.plausibility import format_ratio
from firstlight.lessons.svg import STATUS_REGION, board, choice, controls
from firstlight.timing.specs import SPECS

chosen = {name: of for name, of in SPECS.items() if of.slot and of.fp32 and of.fp64}
cards = sorted(chosen, key=lambda name: name != "RTX 4090")
starts = {f"{name}, n = {n:,}": jobs[name](n)._asdict() for name, n in typical}


def known():
    rows = {n: (of.bandwidth, of.fp32, of.fp64, link(n)) for n, of in chosen.items()}
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
# .. _your-own-job:
#
# Now your own job
# ----------------
#
# Choose a job, a card, and a CPU, and the calculator works out the rule. Its column
# *uses* says how often you must use the data per transfer until the GPU wins by a
# factor of two. Then take *your own numbers*. You may type them like ``1.2e9``.

Calculator(
    "One use on an RTX 4090 and a desktop (a model). Uses: for each transfer, for 2 ×",
    ("", "CPU", "launch", "send, wait", "work", "data stay", "sent", "uses"),
    tuple(row(*job) for job in typical),
).show()

# %%
# The list has five kinds of jobs:
#
# - *add*: two vectors of :math:`n` numbers
# - *matrix × vector*: a matrix of :math:`n` rows and 100 columns, times a vector
# - *matrix × matrix*: two matrices of :math:`n \times n`
# - *stack*: the mean of 30 images of :math:`n \times n` pixels
# - *sampler*: one step, which compares 64 models with :math:`n` data points
#
# For your own job, count:
#
# 1. *Bytes sent*: the sizes of the arrays that go to the GPU, and of what comes back.
# 2. *Bytes moved*: the sizes of all the arrays that one step reads and writes.
# 3. *Operations*: one for each addition or multiplication. A product of matrices has
#    :math:`2n^3`, and an :term:`FFT` of :math:`N` numbers about :math:`5N\log_2 N`.
# 4. *Launches*: the calls of PyTorch in a step.
# 5. *Uses*: how many steps use the data before they are replaced.
#
# An H100 or an A100 multiplies ``float64`` matrices in half the time that the
# calculator says, in units for that only, their *tensor cores*. The calculator believes
# the :term:`data sheets <data sheet>`, and nobody reaches all of what they promise. So
# if its answer is
#
# - *below two, stay with the CPU*, and make sure that your program uses all of its
#   cores. The same holds if the GPU's part is less than half of your program
#   (:term:`Amdahl's law`).
# - *larger, try it once on a GPU that somebody lends you*, such as Google Colab. If you
#   :doc:`pay by the hour </install>`, your gain has to be larger than the ratio of the
#   prices.
#
# Does the rule hold?
# -------------------
#
# Let's test it with these five jobs and a small network. **From how many numbers on
# will the H100 add faster than the 16 cores beside it?** Work it out, or guess.

# folded: The sixth job, a network that learns to tell flowers

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

# folded: Time every job, on both sides

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

# folded: The times between two measured sizes


def curve(name, label):
    return [t.median for t in benches[name].timings if t.label == label]


def model(name, n, stay, card="H100 SXM"):
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

# measured figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt
import numpy as np

fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
for name, marker in zip(jobs, "os^DvP", strict=True):
    cpu = np.array(curve(name, "CPU"))
    for stay, colour in ((True, BLUE), (False, ORANGE)):
        if has_gpu:
            gpu = curve(name, "GPU" if stay else "GPU, there and back")
        else:
            gpu = [model(name, n, stay) for n in sizes[name]]
        look = {"ls": "", "color": colour, "mfc": colour if stay else "none", "ms": 7}
        ax.plot(cpu, cpu / np.array(gpu), marker, label=name if stay else "", **look)
times = np.array([1e-6, 1e-4])
ax.plot(times, times / LAUNCH, "--", color="black", lw=1.5)
ax.text(8e-5, 25, "one launch\nof the rule", size=10, ha="right", va="center")
ax.axhline(1, color="black", lw=1.5)
ax.text(0.01, 1.25, "the GPU wins", transform=ax.get_yaxis_transform())
ax.text(0.01, 0.6, "the CPU wins", transform=ax.get_yaxis_transform())
ax.set(xscale="log", yscale="log", xlabel="seconds that the CPU takes for a call")
ax.set_ylabel("times as fast on the GPU")
ax.legend(fontsize=10, frameon=False, loc="upper left")
kind = "measured" if has_gpu else "measured CPU, model of an H100"
ax.set_title(f"Filled: data stay. Hollow: data sent ({kind})", size=11)
ax.spines[["top", "right"]].set_visible(False)
fig.set_label(
    "Gain against the CPU's time for a call, both on logarithmic scales, for six jobs. "
    "Where a call is shorter than a launch, the GPU loses. Where the data stay, the "
    "gain grows with the time. Where they are sent, it grows less, or not at all."
)
plt.show()

# %%
# Each point is a job at one size. By the rule, no call takes the GPU less than one
# launch. The dashed line is that limit, so no point should lie above it. The H100's
# computer launched small additions a little faster, so these lie just above. The
# circles are the additions. The hollow ones lag far behind the filled ones, because a
# larger vector also takes longer to send.
#
# From which size on was the H100 faster? Here is what the rule says, and what we
# measured. **One number in the H100's table can't be right. Which?**


# folded: How to find the size from which a GPU is faster
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


def predicted(name, cpu, stay, sizes=(1, 10**9), card="H100 SXM"):
    fine = np.geomspace(*sizes, 500)
    gains = [gain(jobs[name](n), cpu, stay, card) for n in fine]
    return crossing(fine, gains, np.ones(len(fine)))


def written(n):
    return "never" if n == np.inf else f"{float(f'{n:.2g}'):,.0f}"


# %%

# folded code: From which n on does the GPU win?
from firstlight.timing.roofs import measured_roof

roof = measured_roof("cpu")
HERE = Rates(roof.byte_rate, roof.flop_rate)

rows = []
for name in list(jobs)[:-1]:
    limits = sizes[name][0], sizes[name][-1]
    found = [
        written(size)
        for stay in (True, False)
        for size in (predicted(name, HERE, stay, limits), first_win(name, stay))
    ]
    rows.append((name, *found))
there = "measured" if has_gpu else "model, CPU measured"
head = ("", "stay: rule", there, "sent: rule", there)
show_table("The n from which a GPU is faster than this CPU (rule: an H100)", head, rows)

# %%
# It's the 160 of *matrix × vector*. A matrix of 1,000 rows took the CPU
# :timing:`wins-matrix-vector median "CPU/cpu/n=1000" @nvidia-h100-80gb-hbm3`, and one
# of 10,000 rows only :timing:`wins-matrix-vector median "CPU/cpu/n=10000"
# @nvidia-h100-80gb-hbm3`! Most likely another program kept one of the sixteen cores
# busy, and fifteen waited for the last one. So the GPU was :timing:`wins-matrix-vector
# speedup "GPU/cuda:0/n=1000"/"CPU/cpu/n=1000" @nvidia-h100-80gb-hbm3` as fast, by
# mistake. Don't believe a gain that its neighbours don't have. Our timer, ``Bench``,
# now calls such a row ``non-monotonic``.
#
# .. holds::
#
#    "non-monotonic" in row("wins-matrix-vector/CPU/cpu/n=1000").verdicts
#    printed(r"^matrix × vector +4,400 +(\d+) +never +never") == [160]
#
# Where the rule says *never*, the measurement says so, too. If the data stay, the rule
# was too careful by a factor of two to seven, partly because it counts a wait for each
# result. If they are sent, it was right for the product, and too hopeful for the
# sampler. So trust the rule if it promises a factor of ten or more. If it promises
# less, measure. PyTorch brings all that you need:

from torch.utils.benchmark import Timer


def your_job(x):
    return torch.fft.fft2(x)


x = torch.rand(1024, 1024)
lines = {"CPU": "your_job(x)"}
if has_gpu:
    y = x.to(device)
    lines["GPU"] = "your_job(y)"
    lines["GPU, there and back"] = "your_job(x.to(device)).cpu()"
for name, line in lines.items():
    timer = Timer(line, globals=globals(), num_threads=torch.get_num_threads())
    print(f"{name}: {quantity(timer.blocked_autorange().median, 's')}")

# %%
# Without ``num_threads``, this ``Timer`` gives the CPU only one core. The H100's FFT
# wins by far if the image stays, and loses if it is sent.
#
# The rule rests most on one number, the time of a launch. Others measured less:
#
# .. measured-by-others:: operation-a100 operation-rtx3090ti operation-rtx4090
#
# A network that is too small
# ---------------------------
#
# A PyTorch boot camp trains a small network on `Fisher's 150 irises`__: four lengths of
# each flower go in, and one of three kinds comes out. It has two layers of 8 and 9
# units, and sets 30 flowers aside as a *test set*. **Is a GPU a good idea here?**
#
# __ https://scikit-learn.org/stable/datasets/toy_dataset.html#iris-plants-dataset

# folded: 100 steps of training, and what they learn

from time import perf_counter


def train_and_test(place):
    training = Training(8, place)
    learn, test = ([x.to(place) for x in part] for part in (train_set, test_set))
    start = perf_counter()
    losses = [training(*learn) for _ in range(100)]
    losses[-1].item()  # waits for the GPU
    took = perf_counter() - start
    with torch.no_grad():
        right = (training.net(test[0]).argmax(1) == test[1]).sum().item()
    return took, right


# %%

for place in dict.fromkeys(("cpu", device.type)):
    took, right = train_and_test(place)
    print(f"{place}: 100 steps in {quantity(took, 's')}, {right} of 30 flowers right")

_, _, work = on_gpu(network_job(8), "H100 SXM")
print(f"a step makes {calls.number} calls; on an H100, by the rule,")
print("  their launches would take", quantity(calls.number * LAUNCH, "s"))
print("  their work would take    ", quantity(work, "s"))

# %%
# With a ``Bench`` that repeats them, a step took the CPU beside the H100 about
# :timing:`wins-network median "CPU/cpu/n=8" @nvidia-h100-80gb-hbm3`, and the H100
# :timing:`wins-network median "GPU/cuda:0/n=8" @nvidia-h100-80gb-hbm3`. With 4,096
# units, the CPU took about :timing:`wins-network median "CPU/cpu/n=4096"
# @nvidia-h100-80gb-hbm3`, and the GPU about :timing:`wins-network median
# "GPU/cuda:0/n=4096" @nvidia-h100-80gb-hbm3`, give or take a third. The GPU had a
# hundred thousand times as many operations to do, and its step took only half as long
# again.
#
# .. holds::
#
#    runs = row("wins-network/GPU/cuda:0/n=4096").values
#    len(runs) == 3 and 1.6 < max(runs) / min(runs) < 2
#
# That is because a step is 22 calls of PyTorch, and Python and PyTorch need nearly all
# of the time to launch them. We call such a job :term:`launch-bound`. No faster card
# helps. What helps is to put more work into each call: wider layers, a larger batch, or
# :doc:`several operations in one call </tutorials/2_devices/16_fewer_launches>`. Or
# leave it on the CPU, which learned the flowers just as well.
#
# The rule's launches, printed above, are only a fifth of what the H100 took, because in
# training PyTorch also keeps account of each call for the gradients. So count about
# *five* launches for each call of a training step.
#
# A whole job, on three machines
# ------------------------------
#
# Take the :doc:`first image </tutorials/4_imaging/01_first_light>`, a fit of some two
# hundred steps. The data stay, and each step transforms a picture of 180 × 180 pixels.
# **Two cores of a small computer, or a GPU: who is first?**
#
# .. list-table:: The same fit on our three machines
#    :header-rows: 1
#
#    * - fit
#      - two cores of an EPYC
#      - H100
#      - H200
#    * - the whole fit, 180 × 180 pixels
#      - :timing:`first-light median "a whole fit, 180" @cpu-amd-epyc`
#      - :timing:`first-light median "a whole fit, 180" @nvidia-h100-80gb-hbm3`
#      - :timing:`first-light median "a whole fit, 180" @nvidia-h200`
#    * - one step, 512 × 512 pixels
#      - :timing:`first-light median "a step, 512, CPU" @cpu-amd-epyc`
#      - :timing:`first-light median "a step, 512, GPU" @nvidia-h100-80gb-hbm3`
#      - :timing:`first-light median "a step, 512, GPU" @nvidia-h200`
#
# Stay on the CPU with the small image. A step has many calls and little work in each,
# so on the GPU the fit is launch-bound. With eight times as many pixels, a step takes
# the two cores much longer, and the GPUs hardly any longer, so they win by a factor of
# three. But the same step with :doc:`fewer launches </tutorials/4_imaging/08_faster>`
# took the H100 only :timing:`faster-step median "GPU, package" @nvidia-h100-80gb-hbm3`,
# and the two cores :timing:`faster-step median "CPU, package" @cpu-amd-epyc`. So mend
# the program first, and then ask again.
#
# .. holds::
#
#    fit = "first-light/a whole fit, 180"
#    min(median(fit), median(fit, "nvidia-h200")) > 1.7 * median(fit, "cpu-amd-epyc")
#    step = "first-light/a step, {}, {}".format
#    ours = median(step(512, "CPU"), "cpu-amd-epyc")
#    near(ours / median(step(180, "CPU"), "cpu-amd-epyc"), 6, 0.05)
#    gpus = H100, H200 = "nvidia-h100-80gb-hbm3", "nvidia-h200"
#    all(near(ours / median(step(512, "GPU"), gpu), 3.4, 0.05) for gpu in gpus)
#    all(median(step(512, "GPU"), g) < 1.3 * median(step(180, "GPU"), g) for g in gpus)
#
# Your turn
# ---------
#
# Write the rule down. A use of the data makes some ``calls``, moves some bytes
# (``moved``), and does ``intensity`` operations for each of these bytes. ``sent`` bytes
# go there and back, once for all ``uses``. Does the GPU win?
#
# Put your answer where the dots are, and run ``firstlight try
# 11_when_the_gpu_wins.py``.


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

print("""\
1. A CPU only has to do the work. A GPU also has to be told, once a call, and to get the
   data, once a transfer. Count five numbers before you move your program.
2. Ask how often each byte will be used that you send. If it is used once, as in a sum
   of two vectors, a fast CPU is done before it has come through a slot for cards.
3. Many small calls keep any GPU waiting: a hundred thousand times the work took an H100
   only half as long again. Put more work into each call, or use the CPU.""")

# %%
# Solution
# --------

# solution


def gpu_wins_solution(calls, moved, intensity, sent, uses):
    def work(rates):
        return moved * max(1 / rates.memory, intensity / rates.arithmetic)

    return work(CPU) > calls * CALL + sent / PCIE / uses + work(GPU)


print(f"Our solution: {check(gpu_wins_solution)}")
