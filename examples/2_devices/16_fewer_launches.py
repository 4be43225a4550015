"""
Many small operations: batch, compile or capture?
=================================================

This page is for anyone whose loop of small operations (time steps, a sampler, an
:term:`optimizer`) keeps a GPU idle. Each operation has a dispatch and :term:`launch`
overhead, however little there is to compute, so a faster card changes nothing.
:term:`Batch <batch>` first: stack what is independent. Then compile what you call very
often, and capture what never changes. Batching and capturing help only while the arrays
are small; compiling saves memory traffic as well.

**You will learn**

- to measure the overhead of one operation, and to predict a small loop's time from it;
- three cures, *batching*, *compiling* and *capturing*, and the factor that each lowers;
- after how many calls a compilation has paid for itself, if ever.

**Time:** 12 minutes. **Needs:** any computer. Compiling needs a C++ compiler on a CPU,
and :term:`Triton` on a GPU; capturing, as done here, needs an NVIDIA or AMD card. The
page says what is missing, and goes on.
"""

# %%
# When does each pay?
# -------------------
#
# .. list-table:: When each cure pays
#    :header-rows: 1
#    :widths: 16 42 42
#
#    * - Cure
#      - It pays if …
#      - It does not if …
#    * - batch
#      - you have many things that do not depend on each other
#      - each step needs the one before; the arrays are large already; memory is full
#    * - compile
#      - many operations can be merged, and you call it very often; also with large
#        arrays, where memory bandwidth is the limit
#      - you call it seldom; shapes change; there is little to merge, as in matrix
#        products and FFTs
#    * - capture
#      - a call has many short operations that are always the same
#      - your card cannot; values or sizes decide what is done; the GPU is busy
#
# Try them in this order. And before the first, write fewer operations:
# ``torch.add(x, u, alpha=STEP / 2)`` is one, and ``x + STEP / 2 * u`` is two.
#
# Predict
# -------
#
# Our loop follows asteroids at :math:`(x, y)`, with speeds :math:`(u, w)`, around a
# star. One call of ``advance`` does two steps (*leapfrog*), for as many asteroids as
# there are numbers in ``x``. Each ``*``, ``+``, ``-``, ``**`` and ``rsqrt`` on a tensor
# is an operation, and on a GPU a kernel launch. A ``TorchDispatchMode`` counts them.

import torch
from torch.utils._python_dispatch import TorchDispatchMode

STEP = 0.01


def advance(x, y, u, w, pull):
    for _ in range(2):
        x, y = x + STEP / 2 * u, y + STEP / 2 * w
        kick = STEP * pull * torch.rsqrt(x * x + y * y) ** 3
        u, w = u - kick * x, w - kick * y
        x, y = x + STEP / 2 * u, y + STEP / 2 * w
    return x, y, u, w


class Tally(TorchDispatchMode):
    operations = numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        # x * x reads x once
        tensors = {id(t): t for t in (*args, result) if torch.is_tensor(t)}
        self.operations += 1
        self.numbers += sum(t.numel() for t in tensors.values() if t.dim())
        return result


# %%

n = 1003
some = *torch.ones(4, n), torch.tensor(1.0)  # made outside: this is not to be counted
with Tally() as tally:
    advance(*some)
operations = tally.operations
moved = 4 * tally.numbers / n  # bytes for each asteroid
least = 4 * (4 + 4)  # four numbers in, four out
print(f"one call of advance: {operations} operations")
print(f"they move {moved:.0f} bytes an asteroid; {least} would do")

# %%
# For each operation PyTorch *dispatches*: it chooses a function by the device and dtype
# of the tensors. That takes a time :math:`c`; a GPU adds the launch. If the work takes
# :math:`w` for each of :math:`n` asteroids,
#
# .. math::
#
#     \text{overhead} = \text{operations} \times c
#     \qquad\text{and}\qquad
#     \text{work} = n \times w .
#
# On a CPU the two add up. A GPU works while the :term:`host` dispatches the next
# operation (:doc:`/tutorials/2_devices/06_queues`), so the longer of the two counts.
# Either way there is a *plateau*: as long as :math:`n` is small, the time does not
# depend on it, and a GPU is :term:`launch-bound`. One result costs an overhead of
# :math:`\text{operations} \times c / n`, and each cure changes one factor:
#
# - **batch** raises :math:`n`: one call for many things that are independent;
# - **compile** lowers the number of operations: a compiler merges them;
# - **capture** lowers :math:`c`: the GPU repeats a list of launches by itself.
#
# Check
# -----
#
# The steps are checked against an exact circular orbit, and against the same steps in
# ``float64``. Every cure has to pass this check before it is timed.

# folded: Asteroids, and how far off results are
from firstlight import best_device

device = best_device()
has_gpu = device.type != "cpu"


def asteroids(*shape, seed=1):
    random = torch.Generator().manual_seed(seed)
    draw = torch.rand(3, *shape, generator=random, dtype=torch.float64)
    angle, radius = 6.28 * draw[0], 1 + draw[1]
    speed = (0.9 + 0.2 * draw[2]) * radius**-0.5
    turn = torch.cos(angle), torch.sin(angle)
    return radius * turn[0], radius * turn[1], -speed * turn[1], speed * turn[0]


def to_device(numbers):
    return [x.to(torch.float32).to(device) for x in numbers]


def worst_error(results, exact):
    pairs = zip(results, exact, strict=True)
    return max((a.cpu() - b).abs().max().item() for a, b in pairs)


# %%

# folded: Both checks
circle = torch.tensor([[1.0], [0.0], [0.0], [1.0]], dtype=torch.float64)
for _ in range(100):
    circle = advance(*circle, 1.0)
t = torch.tensor([200 * STEP], dtype=torch.float64)
off = worst_error(circle[:2], (t.cos(), t.sin()))
assert off < t.item() * STEP**2
print(f"after {t.item():.0f} radians on a circle: off by {off:.0e}")

one = torch.tensor(1.0, device=device)
start = asteroids(n)
exact = advance(*start, 1.0)
error = worst_error(advance(*to_device(start), one), exact)
assert error < 1e-5
print(f"{n} asteroids in float32 on {device}: off by {error:.0e}")

# %%
# What does one operation cost?
# -----------------------------
#
# A timing of one tiny operation includes the call around it, the clock and, on a GPU,
# the wait at the end. So time 24, 48, 96 and 192 in a row, on a single number: what
# *one more* costs is the slope of a straight line. An operation with a Python number in
# it costs more than one of tensors alone. About a third of the operations of
# ``advance`` have one, and so does a third of these.

import numpy as np
from firstlight import Bench
from firstlight.display import BLUE, GREEN, GREY, ORANGE, quantity

counts = np.array([24, 48, 96, 192])


def chain(x, y, rounds):  # halves x and adds y², so that it ends at 2 y²
    for _ in range(rounds):
        x = 0.5 * x + y * y  # three operations
    return x


price = Bench("launch-slope", budget=0.8)
for place in dict.fromkeys(("cpu", device.type)):
    x, y = torch.tensor([[3.0], [7.0]], device=place)
    assert abs(chain(x, y, 64).item() - 98) < 1e-4
    name = "CPU" if place == "cpu" else "GPU"
    for count in counts:
        price.time(f"{name}, {count} operations", chain, x, y, int(count) // 3, n=1)

# %%
# The line goes through the :term:`medians <median>`, with equal relative weights. The
# intercept, the cost that every run shares, cannot be negative. If the fit gives a
# negative one, we set it to zero.

# folded: Fit the line


def fit(name):
    times = [price[f"{name}, {count} operations"].median for count in counts]
    times = np.array(times)
    line, scatter = np.polyfit(counts, times, 1, w=1 / times, cov=True)
    slope, common = line
    if common < 0:
        slope, common = (counts / times).sum() / (counts**2 / times**2).sum(), 0.0
    return slope, common, scatter[0, 0] ** 0.5


for name in ("CPU", *["GPU"] * has_gpu):
    slope, common, give = fit(name)
    shared = quantity(common, "s") if common else "too small to be seen"
    print(f"{name}: {1e6 * slope:.2f} ± {1e6 * give:.2f} µs for one more operation,")
    print(f"     what all of them share: {shared}")

# %%
# The plateau of ``advance`` should be its number of operations times the slope. The
# work of one asteroid is measured once, at the largest size. From these two numbers
# follow a whole curve, and the size at which a call takes *twice its plateau*.

sizes = [10, 100, 1000, 10_000, 30_000]
if has_gpu:
    sizes = [10, 1000, 100_000, 1_000_000, 3_000_000, 10_000_000]
bench = Bench("fewer-launches", budget=2)
states = {n: [*to_device(asteroids(n)), one] for n in sizes}
for n, state in states.items():
    bench.time("as written", advance, *state, n=n)


# %%

# folded: The curve that is predicted, and where a curve has doubled


def curve(way):
    return np.array([t.median for t in bench.timings if t.label == way])


overhead = common + operations * slope
largest = curve("as written")[-1]
w = (largest if has_gpu else max(largest - overhead, 0.1 * largest)) / sizes[-1]


def predict(n):
    n = np.asarray(n)
    return np.maximum(overhead, n * w) if has_gpu else overhead + n * w


def doubles(sizes, times):
    rising = np.log(np.maximum.accumulate(times))
    return np.exp(np.interp(np.log(2 * times[0]), rising, np.log(sizes)))


# %%

plateau = curve("as written")[0]
expected = doubles(sizes, predict(sizes))
measured = doubles(sizes, curve("as written"))
guess, give = 1e6 * overhead, 1e6 * operations * give
print(f"{operations} operations: predicted {guess:.1f} ± {give:.1f} µs,")
print(f"   measured {1e6 * plateau:.1f} µs, {plateau / overhead:.2f} times that")
print(f"twice the plateau: predicted at n = {expected:,.0f},", end=" ")
print(f"measured at {measured:,.0f}")

# %%
# A factor far from 1 is a failed prediction. Either the operations differ too much in
# what they cost to dispatch, or something disturbed the timings, as a large ± tells.
#
# Cure 1: batch
# -------------
#
# Fifty stars, each with its own pull, cost fifty plateaus one by one. Stacked, with a
# row for each star, they are one point further right on the same curve. Not a line of
# ``advance`` changes, because ``pull[:, None]``, a column, is broadcast: each row gets
# its own number. Where a function cannot be written like that, ``torch.func.vmap`` maps
# it over the stars.

stars, few = 50, 100
pulls = 0.5 + torch.rand(stars, generator=torch.Generator().manual_seed(2)).double()
crowd = asteroids(stars, few)
rows = to_device(crowd)
pull = to_device([pulls])[0]
each = [(*(x[star] for x in rows), pull[star]) for star in range(stars)]


def one_by_one():
    return [advance(*state) for state in each]


ways = {
    "one by one": lambda: map(torch.stack, zip(*one_by_one(), strict=True)),
    "stacked": lambda: advance(*rows, pull[:, None]),
    "vmap": lambda: torch.func.vmap(advance)(*rows, pull),
}
exact_crowd = advance(*crowd, pulls[:, None])
for way, call in ways.items():
    error = worst_error(call(), exact_crowd)
    assert error < 1e-5, f"{way} is wrong by {error:.1e}"
ways["one by one"] = one_by_one
for way, call in ways.items():
    bench.time(way, call, n=stars * few, device=device)

gains = {way: bench["one by one"].median / bench[way].median for way in ways}
guess = stars * predict(few) / predict(stars * few)
print(f"stacked: predicted {guess:.1f} × as fast, measured {gains['stacked']:.1f} ×")
print(f"vmap: measured {gains['vmap']:.1f} ×")

# %%
# Batching needs no compiler and no special card. But the *steps* of an orbit cannot be
# batched, because each needs the one before.
#
# Cure 2: compile
# ---------------
#
# ``torch.compile`` merges the operations of your function into a program, in C++ for a
# CPU and in Triton for a GPU. Intermediate results need not go to memory any more, so
# it lowers the *work*, too. The program is built at the first call. Then each call
# checks whether it still fits its inputs: these *guards* take time on the host, on a
# GPU as on a CPU.

# folded: A folder of its own for what is built, and a shorter build
import os
import tempfile
import warnings
from contextlib import contextmanager
from time import perf_counter
from unittest.mock import patch

from torch._inductor import config, list_options

folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
environment = patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder.name)
environment.start()  # it is stopped at the end of the page
# What one small function has no use for: a test program, a header compiled in advance,
# a search for patterns such as attention, long formulas written out more than once.
shorter = {"cpp.vec_isa_ok": True, "cpp_cache_precompile_headers": False}
shorter |= {"use_joint_graph_passes": False, "realize_opcount_threshold": 6}
shorter = {name: shorter[name] for name in shorter.keys() & set(list_options())}


@contextmanager
def shortly():
    with warnings.catch_warnings(), config.patch(shorter):
        warnings.simplefilter("ignore")  # parts of PyTorch warn of each other
        yield


# %%


def build(inputs):
    begin = perf_counter()
    with shortly():
        compiled = torch.compile(advance, dynamic=True)  # one program for all sizes
        compiled(*inputs)  # the first call builds
    if has_gpu:
        torch.accelerator.synchronize()
    return compiled, perf_counter() - begin


small = states[sizes[1]]
try:
    compiled, build_time = build(small)
    error = worst_error(compiled(*to_device(start), one), exact)
    assert error < 1e-5
    print(f"built in {quantity(build_time, 's')}; largest error {error:.0e}")
except RuntimeError as problem:  # no compiler, or a system that has none
    compiled, build_time = None, np.inf
    print("Nothing could be compiled here:", " ".join(str(problem).split())[:300])

# %%
# After how many calls has that paid? The time of building, divided by what each call
# saves. The saving is a difference of two times, so the answer is a range, from the
# quartiles of both.


# folded: The range of calls, in words
def rows_of(way):
    return {t.n: t for t in bench.timings if t.label == way}


def break_even(cost, n):
    """Fewest and most calls; infinite where no more than noise is saved."""
    before, after = (rows_of(way)[n].quartiles for way in ("as written", "compiled"))
    saved = before[1] - after[0], before[0] - after[1]
    return [cost / time if time > 0 else np.inf for time in saved]


def in_words(calls):
    fewest, most = (f"{float(f'{number:.0e}'):,.0f}" for number in calls)
    if fewest == "inf":
        return "never: a call saves nothing"
    both = fewest if most in (fewest, "inf") else f"{fewest} to {most}"
    return f"after {both} calls" + ("" if most != "inf" else " or more, if ever")


# %%

if compiled:
    for n, state in states.items():
        bench.time("compiled", compiled, *state, n=n)
    before, after = (quantity(curve(way)[0], "s") for way in ("as written", "compiled"))
    print(f"plateau: {before} as written, {after} compiled")
    for n in sizes[1], sizes[-1]:
        gain = rows_of("as written")[n].median / rows_of("compiled")[n].median
        pays = in_words(break_even(build_time, n))
        print(f"n = {n:,}: {gain:.1f} × as fast as written; the build pays {pays}")
    torch.compiler.reset()
    again = build(small)[1]  # as in a second run of a script
    paid = in_words(break_even(again, sizes[1]))
    print(f"built again, from the folder, in {quantity(again, 's')}:")
    print(f"   with n = {sizes[1]:,}, that pays {paid}")

# %%
# A compiled call never takes less than its guards. If your function as written is
# faster than that, compiling cannot help. Another shape or type may need another
# program, and a line that waits, such as ``.item()``, cuts the program in two (a *graph
# break*; see `the page of torch.compile`__).
#
# __ https://docs.pytorch.org/docs/stable/torch.compiler.html
#
# Cure 3: capture
# ---------------
#
# NVIDIA's and AMD's cards can keep a list of launches, a :term:`CUDA graph`. (Recent
# PyTorch has ``torch.xpu.XPUGraph`` for Intel's, which this page does not try.) You run
# the loop once to *capture* it; after that a single launch, the *replay*, does all of
# it. The list holds functions, and the *addresses* of what they read and write. Three
# rules follow; a toy, which keeps such a list in Python, shows them.

# folded: The toy: it replays on new numbers, not on new tensors


class Tape(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.list = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in ("_local_scalar_dense", "nonzero"):
            raise RuntimeError(f"{name}: Python wants to know a number")
        result = function(*args, **(kwargs or {}))
        self.list.append((function, args, kwargs or {}, result))
        return result

    def replay(self):
        for function, args, kwargs, result in self.list:
            result.copy_(function(*args, **kwargs))


x, y = torch.ones(3), torch.ones(3)
factor = 10
with Tape() as tape:
    result = factor * x + y
print("captured:              ", result.tolist())

x, factor = torch.full((3,), 2.0), 1000
tape.replay()
print("another x, and factor: ", result.tolist())
y.copy_(torch.tensor([1.0, 2.0, 3.0]))
tape.replay()
print("new numbers in y:      ", result.tolist())

try:
    with Tape():
        x.sum().item()
except RuntimeError as problem:
    print("refused:", problem)

# %%
# - *Addresses, not names.* Copy new input into the old tensor, with ``copy_``, and read
#   the result where it always is, before the next replay overwrites it.
# - *No decisions by value.* A line that reads a number from the GPU is refused; an
#   ``if`` on a Python number is decided once, at capture.
# - *No Python.* Only launches are repeated: a ``print`` or a counter is not.
#
# A wrong replay raises no error, so check it on *new* input. Before the capture, the
# loop runs a few times on a :term:`stream` of its own, as the documentation__ asks.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs


def capture(inputs):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            advance(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = advance(*inputs)
    return graph, results


# %%

# folded: On an NVIDIA or AMD card: check the replay on new input, and time it
if device.type == "cuda":
    inputs = [*to_device(asteroids(1003, seed=3)), one]
    graph, results = capture(inputs)
    for old, new in zip(inputs, to_device(start), strict=False):
        old.copy_(new)
    graph.replay()
    print(f"replayed on new input: off by {worst_error(results, exact):.0e}")
    assert worst_error(results, exact) < 1e-5
    for n, state in states.items():
        graph, results = capture(state)
        bench.time("captured", graph.replay, n=n, device=device)
else:
    print("No card here can capture.")

# %%
# With ``mode="reduce-overhead"``, ``torch.compile`` captures, too.
#
# All ways in one picture
# -----------------------
#
# It stands at the top. Without a GPU, its right panel is a *model* of an H100: its
# :term:`data sheet`'s :term:`bandwidth` (:spec:`H100 SXM bandwidth`), and three
# measured by others: :spec:`PyTorch operation seconds` to dispatch and launch an
# operation, :spec:`graph replay seconds` for a replay, and :spec:`graph node seconds`
# for each operation in it. A compiled call launches one kernel after its guards, which
# take what a small compiled call took here (or :spec:`compiled call seconds`, where
# nothing was compiled).

# folded: The model
from firstlight.timing.specs import spec

launch, bandwidth = spec("PyTorch operation", "seconds"), spec("H100 SXM", "bandwidth")
guards = curve("compiled")[0] if compiled else spec("compiled call", "seconds")


def gpu_model(n):
    work, merged = moved * n / bandwidth, least * n / bandwidth
    replay = spec("graph replay", "seconds") + operations * spec(
        "graph node", "seconds"
    )
    return {
        "as written": np.maximum(operations * launch, work),
        "captured": np.maximum(replay, work),
        "compiled": np.maximum(guards + launch, merged),
    }


model = gpu_model(np.array([sizes[1]]))
for way in ("captured", "compiled") if not has_gpu else ():
    gain = model["as written"][0] / model[way][0]
    print(f"model, {sizes[1]:,} asteroids: {way} {gain:.1f} × as fast as written")


# %%

# folded: Draw the curves
import matplotlib.pyplot as plt

STYLES = {"as written": (BLUE, "o"), "captured": (GREEN, "D")}
STYLES["compiled"] = (ORANGE, "s")


def draw(ax, across, found, look):
    for way, (colour, marker) in STYLES.items():
        if len(times := found[way]):
            style = {"color": colour, "mfc": "none", "lw": 2, "label": way}
            ax.plot(across, times, marker + look, **style)


def draw_prediction(ax):
    fine = np.geomspace(sizes[0], sizes[-1], 500)
    style = {"color": GREY, "lw": 3, "zorder": 0, "label": "as written, predicted"}
    ax.plot(fine, predict(fine), ":", **style)


# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1
panels = (
    ["this GPU: measured"] if has_gpu else ["this CPU: measured", "an H100: a model"]
)
size = {"figsize": (7.2, 4), "squeeze": False, "layout": "constrained"}
fig, axes = plt.subplots(1, len(panels), sharey=True, **size)
draw(axes[0, 0], sizes, {way: curve(way) for way in STYLES}, "-")
draw_prediction(axes[0, 0])
if not has_gpu:
    across = np.geomspace(10, 1e7, 13)
    draw(axes[0, 1], across, gpu_model(across), "--")
for ax, title in zip(axes[0], panels, strict=True):
    ax.set(xscale="log", yscale="log", xlabel="asteroids, n", title=title)
    ax.margins(y=0.1)
    ax.legend(loc="upper left", fontsize=10)
axes[0, 0].set_ylabel("time of one call")
axes[0, 0].yaxis.set_major_formatter(lambda t, _: quantity(t, "s", digits=1))
low, high = axes[0, 0].get_ylim()
axes[0, 0].set_ylim(low, 2 * high)  # room for the legends
about = f"{float(f'{measured:.1e}'):,.0f}"
finding = f"a call for n ≈ {about} takes only twice as long as one for 10"
fig.suptitle(f"Overhead decides: {finding}", size=12)
fig.set_label(
    f"Time of a call over the number of asteroids: a plateau, then a slope; {finding}. "
    + ("" if has_gpu else "In the model of a GPU, capturing lowers only the plateau.")
)
plt.show()

# %%
# *Batching* goes to the right along a curve, and gains until the curve rises.
# *Capturing* lowers the plateau alone. *Compiling* lowers the slope, and the plateau
# where its guards take less than the launches did.
#
# All measurements:

bench.show()

# %%
# On the newest GPU on record, fifty stars are done
# :timing:`fewer-launches speedup "stacked"/"one by one" @gpu` as fast when stacked.
#
# Whole programs, as others wrote and captured them: the times are from a pull request
# of sglang-omni and from RRZE, not from us.
#
# .. measured-by-others:: whisper-h200 code2wav-h200 code2wav-h200-graph node-a100
#
# Where this stops being true
# ---------------------------
#
# - *Another host.* A fast GPU in a slow computer has a high plateau.
# - *Reading in each step.* If the host waits for a number in each step, overhead and
#   work add up on a GPU, too (:doc:`/tutorials/2_devices/06_queues`).
# - *A different answer.* A compiler may merge a product and a sum (a *fused
#   multiply-add*), and round once instead of twice. Check errors, not equality.
# - *No Python at all.* A kernel of your own, with the loop over the steps *inside* it,
#   is one launch for all of them.
#
# Exercise
# --------
#
# Which cure pays? A ``Job`` makes ``steps`` steps, one after the other, on a GPU, in
# ``runs`` independent runs. A step has ``operations``; the host needs ``launch``
# seconds for each, and the GPU meanwhile ``work`` seconds. Stacked, the work of an
# operation grows with the runs. Compiled, after ``build`` seconds, a step has only
# ``merged`` operations, each as long as before. Captured, a step is one launch.
#
# Return ``"batch"``, ``"compile"`` or ``"capture"``, whichever makes the whole job
# shortest, or ``"leave"`` if none makes it at most half as long.

from textwrap import fill
from typing import NamedTuple


class Job(NamedTuple):
    operations: int = 100
    launch: float = 5e-6
    work: float = 1e-6
    steps: int = 1000
    runs: int = 1
    build: float = 10.0
    merged: int = 3


def cure(job): ...


# %%

# folded: Its hints
HINTS = {
    "batch": "stacking saves launches; the work of each operation grows with the runs",
    "compile": "count the time of building, and the operations that are left",
    "capture": "only launches are saved, and they go on during the work",
    "leave": "one of the cures makes it at most half as long",
}

# %%


# folded: The checker
def check(answer):
    cases = [
        (Job(), "capture"),
        (Job(steps=10**6), "compile"),
        (Job(work=1e-3), "compile"),
        (Job(work=1e-3, merged=100), "leave"),
        (Job(work=4e-6), "leave"),
        (Job(operations=10, work=1e-7, runs=40), "batch"),
        (Job(runs=20, work=1e-3, merged=100), "leave"),
        (Job(runs=4, steps=10**6, work=4e-6), "compile"),
        (Job(operations=1, merged=1, steps=10**7), "leave"),
    ]
    for job, right in cases:
        try:
            got = answer(job)
        except Exception as error:
            return fill(f"It raised {type(error).__name__}: {error}, with {job}")
        if not isinstance(got, str) or got not in HINTS:
            return fill(f"Return one of the four words; it was {got!r} for {job}")
        if got != right:
            return fill(f"Not {got!r}. Hint: {HINTS[got]}. It was {job}")
    return "Right: you can choose a cure before you try one."


# %%

print(check(cure))

# %%

# folded: Remove the folder with what was built
if compiled:
    torch.compiler.reset()
environment.stop()
folder.cleanup()

# %%
# Three lines to remember
# -----------------------

# remember
pays = "after an unknown number of calls"
if compiled:
    pays = in_words(break_even(build_time, sizes[1]))
print(
    f"""1. One operation costs {quantity(slope, "s")} of overhead here, which no faster
   GPU lowers: a call for {about} asteroids took only twice as long as one for ten.
2. Batch first: fifty stars at once are {gains["stacked"]:.0f} × as fast as one by one.
3. Compile what you call very often (with {sizes[1]} asteroids, the build pays
   {pays}); capture what never changes."""
)

# %%
# Solution
# --------

# solution


def cure_solution(job):
    all_steps, one_operation = job.runs * job.steps, max(job.launch, job.work)
    as_written = all_steps * job.operations * one_operation
    stacked = max(job.launch, job.runs * job.work)
    times = {
        "batch": job.steps * job.operations * stacked,
        "compile": job.build + all_steps * job.merged * one_operation,
        "capture": all_steps * max(job.launch, job.operations * job.work),
    }
    best = min(times, key=times.get)
    return best if times[best] <= as_written / 2 else "leave"


print(f"Our solution: {check(cure_solution)}")
