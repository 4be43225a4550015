"""
Many small operations: batch, compile or capture?
=================================================

You simulate asteroids, or sample a posterior, or let an optimizer run. Each step is a
handful of short lines, and you do a great many. On the GPU it's no faster than on your
laptop, and a bigger GPU changes nothing.

**Write down a guess.** We multiply and add single numbers, 192 times in a row, once on
an H100 and once on the CPU beside it. Which one is faster, and by how much? By the end
you'll know three cures, *batching*, *compiling* and *capturing*, and you'll be able to
choose one before you have tried any of them.

**Needs:** any computer. Compiling needs a C++ compiler on a CPU, and :term:`Triton` and
a C compiler on a GPU. This page's capture needs an NVIDIA or AMD card.
"""

# %%
# Try it
# ------
#
# An asteroid is at :math:`(x, y)` and has the velocity :math:`(u, w)`, and ``advance``
# lets it fall around a star for two short steps. Four arguments are arrays, with as
# many numbers as there are asteroids, and ``pull`` is an array of one number.

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.devices import card
from firstlight.display import GREY, ORANGE, quantity

STEP = 0.01


def advance(x, y, u, w, pull):
    for _ in range(2):
        x, y = x + STEP / 2 * u, y + STEP / 2 * w
        kick = STEP * pull * torch.rsqrt(x * x + y * y) ** 3
        u, w = u - kick * x, w - kick * y
        x, y = x + STEP / 2 * u, y + STEP / 2 * w
    return x, y, u, w


# %%
# Each ``*``, ``+``, ``-``, ``**`` and ``rsqrt`` on an array is an *operation*.
# ``advance`` makes two rounds. **Count its operations for one call.** Then PyTorch
# counts them:

# folded: Count the operations that PyTorch is asked for
from torch.utils._python_dispatch import TorchDispatchMode


class Tally(TorchDispatchMode):
    operations = numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        # x * x reads x once
        tensors = {id(t): t for t in (*args, result) if torch.is_tensor(t)}
        self.operations += 1
        self.numbers += sum(t.numel() for t in tensors.values() if t.dim())
        return result


n = 1003
some = *torch.ones(4, n), torch.tensor(1.0)  # made outside: this is not to be counted
with Tally() as tally:
    advance(*some)
operations = tally.operations
moved = 4 * tally.numbers / n  # bytes for each asteroid
print(f"one call of advance: {operations} operations")

# %%

# folded: Asteroids, and how far off results are

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

# folded: Check: a circular orbit, and the same steps in float64
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
# Did you find 38? Now, how long does one operation take? We do 24, 48, 96 and 192 of
# them in a row, on a single number, so that there is next to nothing to compute:

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
# On the H100's server, the 192 operations took :timing:`launch-slope median "CPU, 192
# operations" @nvidia-h100-80gb-hbm3` on the CPU and :timing:`launch-slope median "GPU,
# 192 operations" @nvidia-h100-80gb-hbm3` on the H100. The CPU was :timing:`launch-slope
# speedup "CPU, 192 operations"/"GPU, 192 operations" @nvidia-h100-80gb-hbm3` as fast as
# one of the fastest GPUs in the world.
#
# If we repeat a single addition on the same H100, it takes only :timing:`wins-add
# median "GPU/cuda:0/n=10000" @nvidia-h100-80gb-hbm3`. Others found 6.67 µs for an
# operation on `an A100`__, and 2.67 µs on `an RTX 4090`__. Divide the H100's time above
# by 192, and you'll see that our operations cost more. We measured with PyTorch 2.11.
#
# __ https://github.com/1571859588/infra-practices/blob/1ae488291dabc10526ec92b51a5aee8917127580/vector_mul2/README.md
# __ https://github.com/mli/transformers-benchmarks/issues/4
#
# .. holds::
#
#    each = median("launch-slope/GPU, 192 operations") / 192
#    single = median("wins-add/GPU/cuda:0/n=10000")
#    each > 1.5 * single and near(6.67e-6, single, 0.1) and 2.67e-6 < single / 2
#
# For each operation, Python calls PyTorch. PyTorch looks at the device and the type of
# your arrays and chooses a function for them, which is called the *dispatch*. Then it
# asks the GPU to start, which is the :term:`launch`. All of that happens on the CPU.
# Imagine a kitchen that can cook a thousand portions as fast as one, and a customer who
# phones for every single ingredient. A program whose GPU waits like that is called
# :term:`launch-bound`.
#
# Predict a call
# --------------
#
# On the H100, 24 operations took :timing:`launch-slope median "GPU, 24 operations"
# @nvidia-h100-80gb-hbm3`, and 192 took :timing:`launch-slope median "GPU, 192
# operations" @nvidia-h100-80gb-hbm3`. So 168 more operations cost the difference.
# **Divide, and predict one call of** ``advance`` **with its 38.** As long as there are
# few asteroids, their number shouldn't matter:
#
# .. math::
#
#     t = \text{operations} \times c,
#
# where :math:`c` is the time of one phone call. The next cell finds it for your
# computer.

# folded: A straight line through the four times


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

# folded: The sizes that we time
sizes = [10, 100, 1000, 10_000, 30_000]
if has_gpu:
    sizes = [10, 1000, 100_000, 1_000_000, 3_000_000, 10_000_000]
bench = Bench("fewer-launches", budget=3 if has_gpu else 2)
states = {n: [*to_device(asteroids(n)), one] for n in sizes}
for n, state in states.items():
    bench.time("as written", advance, *state, n=n)


def curve(way):
    return np.array([t.median for t in bench.timings if t.label == way])


# %%

overhead = common + operations * slope
guess, give = 1e6 * overhead, 1e6 * operations * give
print(f"predicted: {guess:.0f} µs for any few asteroids")
times = [f"{t.n:12,} asteroids  {quantity(t.median, 's')}" for t in bench.timings]
print("\n".join(times))

# %%
# For the H100 you should have found about four tenths of a millisecond. With ten
# asteroids, a call took :timing:`fewer-launches median "as written/cuda:0/n=10"
# @nvidia-h100-80gb-hbm3`, a tenth more than that.
#
# .. holds::
#
#    few, many = (median(f"launch-slope/GPU, {n} operations") for n in (24, 192))
#    call = lambda way, n: median(f"fewer-launches/{way}/cuda:0/n={n}")
#    1.05 < call("as written", 10) / (38 * (many - few) / 168) < 1.15
#
# With a million asteroids, a call took :timing:`fewer-launches median "as
# written/cuda:0/n=1000000" @nvidia-h100-80gb-hbm3`. That is a hundred thousand times
# the work, in about the same time. Only with ten million did a call take longer,
# :timing:`fewer-launches median "as written/cuda:0/n=10000000" @nvidia-h100-80gb-hbm3`.
# You can use this as a test of your own program: give it ten times as much to do in
# every call. If that takes hardly longer on the GPU, your program is most probably
# launch-bound, or its kernels are too small to fill the card.
#
# What can you do? You can *batch*, and order for many guests in one call. You can
# *compile*, and order whole dishes instead of ingredients. Or you can *capture*, and
# leave a written list in the kitchen.

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

eight = range(8)  # each: where it begins, the CPU's part, the GPU's part
ways_to_order = {
    "as written": [(number, 0.8, 0.3) for number in eight],
    "batched": [(number, 0.8, 0.75) for number in eight],
    "compiled": [(0, 1.2, 0.3), (1.3, 0.8, 0.3)],
    "captured": [(0, 0.8, 0.3), *((0.8 + 0.35 * k, 0, 0.3) for k in range(1, 8))],
}
fig, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for row, calls in enumerate(ways_to_order.values()):
    for begin, phone, cook in calls:
        hatched = {"fc": "none", "ec": GREY, "hatch": "///", "lw": bool(phone)}
        ax.barh(row - 0.2, phone, 0.32, left=begin, **hatched)
        ax.barh(row + 0.2, cook, 0.32, left=begin + phone, fc=ORANGE, ec="k")
ax.set_yticks(range(4), ways_to_order)
ax.set_xticks([])
ax.set_xlabel(
    "time →   (hatched: the CPU launches, filled: the GPU works; not to scale)"
)
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("Three ways to keep a GPU from waiting", weight="bold")
fig.set_label(
    "Four rows of bars over time, not to scale. As written: eight launches, and after "
    "each a short bar of work. Batched: the same launches, with more work after each. "
    "Compiled: two launches. Captured: one launch, and all the work right behind it."
)
plt.show()

# %%
# Batch: more in every call
# -------------------------
#
# Suppose that you have fifty stars, each with its own pull, and a hundred asteroids
# around each of them. You could call ``advance`` fifty times, or put them into one
# array with a row for each star:
#
# .. code-block:: python
#
#    results = [advance(*state) for state in each]  # fifty calls
#    results = advance(*rows, pull[:, None])  # one call, fifty rows
#
# **Guess how much that gains.**

# folded: Fifty stars, one by one and stacked
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
print(f"stacked: {gains['stacked']:.1f} times as fast as one by one")
print(f"vmap:    {gains['vmap']:.1f} times as fast as one by one")

# %%
# ``pull[:, None]`` is a column, so each row gets its own number. If you can't write
# your function like that, let ``torch.func.vmap`` stack the calls for you.
#
# On the H100, one by one took :timing:`fewer-launches median "one by one"
# @nvidia-h100-80gb-hbm3`, and stacked :timing:`fewer-launches median "stacked"
# @nvidia-h100-80gb-hbm3`. That is :timing:`fewer-launches speedup "stacked"/"one by
# one" @nvidia-h100-80gb-hbm3` as fast, with ``vmap`` :timing:`fewer-launches speedup
# "vmap"/"one by one" @nvidia-h100-80gb-hbm3`.
#
# .. holds::
#
#    50 < call("one by one", 5000) / call("stacked", 5000) < 60
#
# The stacked call makes 38 phone calls, and fifty calls make 1,900, so you could expect
# a factor of fifty. Try batching first. But you need things that are *independent*. You
# can't batch the steps of an orbit, because each of them starts where the one before
# ended.
#
# Compile: fewer calls
# --------------------
#
# ``torch.compile`` reads your function and writes a program that merges its operations,
# in C++ for a CPU and in Triton for a GPU. It's one line:
#
# .. code-block:: python
#
#    faster = torch.compile(advance, dynamic=True)  # one program for all sizes
#
# **How long does it take to build the program, at the first call?**

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

# folded: Build it, and check it


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

# folded: Time the compiled function, and the calls until it pays

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
# The build takes several seconds. Was it worth it? With 1,000 asteroids on the H100,
# the compiled call took :timing:`fewer-launches median "compiled/cuda:0/n=1000"
# @nvidia-h100-80gb-hbm3`, which is :timing:`fewer-launches speedup
# "compiled/cuda:0/n=1000"/"as written/cuda:0/n=1000" @nvidia-h100-80gb-hbm3` as fast as
# written. With ten million, it was even :timing:`fewer-launches speedup
# "compiled/cuda:0/n=10000000"/"as written/cuda:0/n=10000000" @nvidia-h100-80gb-hbm3` as
# fast. Why *more*, when the launches don't matter any longer? Each operation reads its
# arrays from memory and writes its result back, together 360 bytes for every asteroid.
# The merged program reads four numbers and writes four, which is 32 bytes.
#
# And when has the build paid for itself? On the H100, it had after some 20,000 calls
# with 1,000 asteroids. If your script is done by then, leave it as it is. A second
# build pays back sooner, because PyTorch finds the program in a folder. When the same
# process built it again, 500 to 600 calls were enough. A new process also has to load
# the compiler, so it needs more.
#
# .. holds::
#
#    printed(r"^n = 1,000: .* pays after (\d+),000 calls") == [20]
#    printed(r"that pays after (\d+) to (\d+) calls") == [500, 600]
#
# Capture: a list that stays in the kitchen
# -----------------------------------------
#
# Cards from NVIDIA and AMD, and with the newest PyTorch also Intel's, can keep a list
# of launches, a :term:`CUDA graph`. You run your function once to *capture* it, and
# then a single launch, the *replay*, does all of it. A toy in Python shows the catch
# without a card. It captures the line ``factor * x + y``. **What will the second and
# the third line print?**

# folded: The toy: a list of functions, and of the arrays they read and write


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


# %%

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
# The replay ignored the new ``x`` and the new ``factor``, and there was no error. The
# list doesn't know your *names*. It knows the addresses of the arrays, and ``x`` now
# names another array. So copy new numbers into the *old* array, with ``copy_``, as we
# did with ``y``, and keep that array as long as you replay. Our toy keeps it for you. A
# CUDA graph doesn't, so another tensor may move in at its address. Read the result
# before the next replay overwrites it. The last line of the output shows the other
# limit. During a replay no Python runs, so ``.item()`` is refused, and an ``if`` or a
# ``print`` runs once, at the capture. A wrong replay is silent, so test it on new
# input.
#
# A real capture looks like this. Before the capture, the function runs a few times on a
# :term:`stream` of its own, as the `notes on CUDA graphs`__ ask for:
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
# With 1,000 asteroids on the H100, a replay took :timing:`fewer-launches median
# "captured/cuda:0/n=1000" @nvidia-h100-80gb-hbm3`, about half of the compiled call, and
# there was nothing to build.
#
# .. holds::
#
#    near(call("captured", 1000), call("compiled", 1000) / 2, 0.1)
#
# With ten million, a replay was only :timing:`fewer-launches speedup
# "captured/cuda:0/n=10000000"/"as written/cuda:0/n=10000000" @nvidia-h100-80gb-hbm3` as
# fast as written, because the GPU still has to do everything that was on the list.
#
# Can you have both, fewer operations and one launch? Yes. In this mode, PyTorch
# compiles your function, captures the compiled program, and before each replay copies
# your arrays into the ones that it captured:
#
# .. code-block:: python
#
#    faster = torch.compile(advance, dynamic=True, mode="reduce-overhead")
#
# **Will that be the fastest of all?**

# folded: Check it on new input, too, and time it
if device.type == "cuda" and compiled:
    both = torch.compile(advance, dynamic=True, mode="reduce-overhead")
    for inputs in [*to_device(asteroids(1003, seed=3)), one], *states.values():
        with shortly():
            for _ in range(3):  # to build, to capture, and a replay
                both(*inputs)
    error = worst_error(both(*to_device(start), one), exact)
    print(f"compiled, captured, and replayed on new input: off by {error:.0e}")
    assert error < 1e-5
    for n, state in states.items():
        bench.time("compiled and captured", both, *state, n=n)
else:
    print("No card here can capture what was compiled.")

# %%
# For our function, it's not the fastest. With 1,000 asteroids on the H100 it took
# :timing:`fewer-launches median "compiled and captured/cuda:0/n=1000"
# @nvidia-h100-80gb-hbm3`, longer than compiled *or* captured. The compiled function had
# only a launch or two left to save, and its inputs are now checked and copied at each
# call. Take this mode for what still needs many launches when it's compiled, such as a
# network.
#
# .. holds::
#
#    compiled, captured, both = "compiled", "captured", "compiled and captured"
#    call(both, 1000) > call(compiled, 1000) > call(captured, 1000)
#    call(both, 10**7) > min(call(compiled, 10**7), call(captured, 10**7))
#
# Which one?
# ----------
#
# **Find the size at which the curves begin to rise**, and what each cure does there:
#
# .. timings:: fewer-launches
#    :plot:
#    :machine: nvidia-h100-80gb-hbm3
#    :rows: as written; compiled; captured; compiled and captured

# folded: All curves, and the three ways for fifty stars

# Fifty stars with a hundred asteroids each are 5,000 asteroids, so their three ways are
# points above each other.
bench.plot()

# %%

# folded: All of these times
bench.show()

# %%
# Batching is free until the curve rises. Capturing lowers only the flat part. Compiling
# lowers the flat part, and the curve begins to rise later.
#
# .. holds::
#
#    # It is flat up to a million, and has risen at ten millions.
#    flat = call("as written", 10)
#    0.7 < call("as written", 10**6) / flat < 1 < call("as written", 10**7) / flat / 2
#
# .. list-table:: When each cure pays
#    :header-rows: 1
#    :widths: 16 42 42
#
#    * - cure
#      - it pays if …
#      - it doesn't if …
#    * - batch
#      - you have many things that don't depend on each other
#      - each step needs the one before; the arrays are large already
#    * - compile
#      - many operations can be merged, and you call it very often
#      - you call it seldom; it's mostly matrix products and FFTs, which it hardly
#        merges
#    * - capture
#      - a call has many short operations, always the same
#      - values or sizes decide what is done; the GPU is busy already
#
# Other people have met the same wall with whole programs. Two of them were timed as
# they were written, and the second was also captured:
#
# .. measured-by-others:: whisper-h200 code2wav-h200 code2wav-h200-graph node-a100
#
# The GPU of the first program was busy, and that of the second waited for launches. For
# each launch, our model counts :spec:`kernel of a program seconds`, which we chose from
# several programs and rounded. For each kernel of a graph it counts :spec:`graph node
# seconds`, which RRZE-HPC measured on an H200. If the GPU's work takes longer than all
# launches, the model counts only the work.
#
# Your turn
# ---------
#
# A ``Job`` consists of independent runs, as many as ``runs`` says, and in each run its
# ``steps`` follow one another. Each step has as many operations as ``operations`` says.
# For each operation the CPU needs ``launch`` seconds, and the GPU ``work`` seconds at
# the same time, so the longer time counts.
#
# - If you stack the runs, the work of each operation grows with their number.
# - If you compile, which takes ``build`` seconds, a step has only ``merged``
#   operations, each as long as before.
# - If you capture, a step is one launch, and the work of all its operations.
#
# Return ``"batch"``, ``"compile"`` or ``"capture"``, whichever makes the whole job
# shortest, or ``"leave"`` if none of them brings it down to half of its time or less.
# Put your answer where the dots are, and run ``firstlight try 16_fewer_launches.py``.

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

# folded: The hints of the checker
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
print(
    f"""1. An operation costs microseconds of the CPU's time, however little there is to
   compute, and no faster GPU lowers that.
2. Batch first: fifty stars at once are {gains["stacked"]:.0f} × as fast
   ({card(device).name}).
3. Compile what you call very often, and capture what never changes."""
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

# %%
# Slower after torch.compile, or compiled again and again?
# --------------------------------------------------------
#
# A compiled function pays for its compilation, and at each call a little for checking
# that its input is like that of the first time. So it can be slower than the plain one,
# if
#
# - you timed the first calls, too. Leave them out, and see above after how many calls
#   it pays;
# - there was nothing to merge, or to *fuse*, as PyTorch calls it. One large matrix
#   product is a library's kernel in any case;
# - the input changes its shape, so the function is compiled again, for seconds or
#   minutes. If only the length of a sequence changes, that happens just once more. At
#   the second length, PyTorch makes this dimension *dynamic*, and from then on one
#   program serves all lengths. If more than that dimension changes, PyTorch gives up
#   after 8 compilations, and runs the plain function;
# - the function was cut into pieces at lines that PyTorch can't compile, and each piece
#   is launched by itself. Such a cut is called a *graph break*.
#
# For the last two, run ``TORCH_LOGS="recompiles,graph_breaks" python script.py``. It
# prints every new compilation with its reason, and every break. If the shapes change,
# call ``torch._dynamo.mark_dynamic(x, 1)`` before the first call. This is for dimension
# 1, and then the function is compiled only once. Or compile with ``dynamic=True``, or
# pad the input to a few sizes. Before you time the function, call it with two lengths.
#
# JAX compiles again at each call: jax.jit in a loop
# --------------------------------------------------
#
# ``jax.jit(f)`` compiles when you call the result, not where you write it. It compiles
# once for each shape and type of the inputs, and for each new value of an argument that
# you made static, with ``static_argnums``. For example, it compiles again for a video
# of another length, for a last batch that's smaller, and for a new value of a static
# number. A loop over many lengths compiles at nearly every step, and the GPU stands at
# 0 % meanwhile. So pad to a few sizes. And a ``lambda``, a ``partial`` or a function
# that you *define* inside a loop is a new function every time, so define it once,
# outside.
#
# ``JAX_LOG_COMPILES=1`` in the environment prints each compilation. If one takes
# minutes, most likely a Python loop was :term:`unrolled`. Then write
# ``jax.lax.fori_loop`` or ``jax.lax.scan``.
# ``jax.config.update("jax_compilation_cache_dir", "/tmp/jax")`` keeps the result for
# tomorrow's process. To time your function, leave the first call out, and call
# ``block_until_ready()`` before the clock stops.
#
# JAX is slow on the GPU: jit the whole step, and vmap of a while_loop
# --------------------------------------------------------------------
#
# Without ``jit``, each operation of JAX is a launch, and the optimizer has many small
# ones. So put ``jit`` around the *whole* step: the gradient, ``optimizer.update`` and
# ``optax.apply_updates``. And look at the loss seldom, because ``float(loss)`` waits. A
# small network, or a ``scan`` of small steps, may be slower on the GPU even then, so
# time both. ``jax.config.update("jax_platforms", "cpu")`` keeps it on the CPU.
#
# A ``vmap`` over ``lax.while_loop`` goes on for all of them until the *slowest* has
# finished. For example, three loops of 1, 2 and 10 rounds take 10 rounds together. And
# if your function has a ``lax.cond``, ``vmap`` computes both sides. So chains of NUTS,
# or solvers with adaptive steps, wait for each other. Chains whose steps have a fixed
# length don't. On a CPU, give each chain a core of its own: call
# ``jax.config.update("jax_num_cpu_devices", 8)`` before anything else, and take
# ``jax.pmap`` in place of ``vmap``, as `somebody with many chains did`__.
#
# Is ``vmap`` out of memory (``RESOURCE_EXHAUSTED``)? It holds N times whatever your
# function keeps. For example, ``x.at[i].set(v)`` makes a copy of ``x`` for each ``i``,
# and N copies of N numbers are N² numbers. ``jax.lax.map(f, xs, batch_size=256)`` makes
# only 256 copies at a time. If you take a gradient through it, map
# ``jax.checkpoint(f)``, or the pieces save little.
#
# JAX: which loop has a gradient, scan, fori_loop or while_loop?
# --------------------------------------------------------------
#
# ``jax.grad`` goes back through the steps of a loop, so it must know how many there
# are. ``scan`` has a gradient. ``fori_loop`` has one if its bounds are Python's
# numbers, or static, when JAX traces it. ``while_loop`` has none, and JAX says
# *Reverse-mode differentiation does not work*. So ``scan`` as many steps as you may
# need, and once you're done, keep the old value with ``jnp.where``. Memory grows with
# each step, and more slowly if you scan ``jax.checkpoint(step)``, which keeps only what
# goes from one step to the next.
#
# __ https://github.com/blackjax-devs/blackjax/issues/251
