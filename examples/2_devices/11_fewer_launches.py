"""
Many small operations: batch, compile or capture?
=================================================

You follow ten asteroids around a star, in many small steps. Then you follow a thousand,
and it takes hardly longer. On a GPU you may go on to a hundred thousand. So what did
the time with ten asteroids go into? Not into asteroids. It went into *asking*: each
line of your loop asks for a few operations, and asking has a price, however little
there is to do.

**You will learn**

- to measure the price of asking, as the slope of a straight line with its error;
- to predict from it when a loop is too small for its machine;
- three cures, *batching*, *compiling* and *capturing*, and the factor that each lowers;
- to work out when a cure has paid for itself, and when it never does.

**Time:** 20 minutes. **Needs:** any computer. Compiling needs a C++ compiler on a CPU,
and Triton on a GPU. Capturing needs a card of NVIDIA or AMD. The page says what is
missing, and goes on.
"""

# %%
# Predict
# -------
#
# Here is the loop. An asteroid is at the place :math:`(x, y)` and has the speed
# :math:`(u, w)`. Each step moves it for half a step of time, lets the star pull at it,
# and moves it for the other half. (It is called *leapfrog*.) One call of ``advance``
# does two steps, for as many asteroids as there are numbers in ``x``.

import torch

STEP = 0.01


def advance(x, y, u, w, pull):
    for _ in range(2):
        x, y = x + STEP / 2 * u, y + STEP / 2 * w
        kick = STEP * pull * torch.rsqrt(x * x + y * y) ** 3
        u, w = u - kick * x, w - kick * y
        x, y = x + STEP / 2 * u, y + STEP / 2 * w
    return x, y, u, w


# %%
# How many operations are that? Every ``*``, ``+`` and ``-`` on a tensor is one, and on
# a GPU each of them is a *launch*. A ``TorchDispatchMode`` counts them for you, and the
# numbers that they read and write.

from torch.utils._python_dispatch import TorchDispatchMode


class Tally(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [t for t in (*args, result) if torch.is_tensor(t)]
        self.operations += 1
        self.numbers += sum(t.numel() for t in tensors if t.dim())
        return result


n, pull = 1003, torch.tensor(1.0)
x, y, u, w = torch.ones(4, n)
with Tally() as tally:
    advance(x, y, u, w, pull)
operations = tally.operations
moved = 4 * tally.numbers / n  # bytes for each asteroid
least = 4 * (4 + 4)  # four numbers in, four out
print(f"one call of advance: {operations} operations")
print(f"they move {moved:.0f} bytes an asteroid; {least} would do")

# %%
# Say that asking for one operation takes a time :math:`c`, and that the work takes
# :math:`w` for each asteroid. Then a call costs
#
# .. math::
#
#     \text{asking} = \text{operations} \times c
#     \qquad\text{and}\qquad
#     \text{work} = n \times w .
#
# A CPU that works itself does one after the other, so the two add up. A GPU works while
# the next operation is being asked for (:doc:`/tutorials/2_devices/02_queues`), so the
# longer of the two counts. Either way there is a *plateau*: as long as :math:`n` is
# small, the time does not depend on it. You pay for asking, and asteroids are free.
#
# The price of a result is :math:`\text{operations} \times c / n`. Three factors, three
# cures:
#
# - **batch**: raise :math:`n`. Ask once for many things that are independent;
# - **compile**: lower the number of operations. Let a compiler merge them;
# - **capture**: lower :math:`c`. Ask once, and have the GPU repeat it by itself.
#
# Before you measure, guess: how many asteroids does *your* CPU get for free?
#
# Check
# -----
#
# First, is the loop right? On a circle, an asteroid is at :math:`(\cos t, \sin t)`
# after a time :math:`t`. Leapfrog misses that by less than :math:`t` times the square
# of its step. For the others, which are on ellipses, the same steps in ``float64`` tell
# what is right. Every cure below has to pass this check before it is timed.

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


def here(numbers):
    return [x.to(torch.float32).to(device) for x in numbers]


def worst_error(results, exact):
    pairs = zip(results, exact, strict=True)
    return max((a.cpu() - b).abs().max().item() for a, b in pairs)


# %%

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
error = worst_error(advance(*here(start), one), exact)
assert error < 1e-5
print(f"{n} asteroids in float32 on {device}: off by {error:.0e}")

# %%
# Measure: what does asking cost?
# -------------------------------
#
# Time one tiny operation, and you also time the call around it, the clock, and on a GPU
# the wait at the end. So time 20, 40, 80 and 160 of them in a row, all on a single
# number. What they share is in the height of the line through these points. What *one
# more* operation costs is its slope. The chain halves ``x`` and adds ``y``, so it ends
# at ``2 * y``, which is easily checked.

import numpy as np

from firstlight import Bench

counts = np.array([20, 40, 80, 160])


def chain(x, y, pairs):
    for _ in range(pairs):
        x = 0.5 * x + y  # two operations
    return x


price = Bench("launch-slope", budget=0.8)
for place in dict.fromkeys(("cpu", device.type)):
    x, y = torch.tensor([[3.0], [7.0]], device=place)
    assert abs(chain(x, y, 80).item() - 14) < 1e-5
    name = "CPU" if place == "cpu" else "GPU"
    for count in counts:
        price.time(f"{name}, {count} operations", chain, x, y, int(count) // 2, n=1)
price.show()

# %%
# Other programs can only make a run longer, so take the fastest of each row. Now a
# straight line through them, each point with the same relative weight. The error of its
# slope follows from how far the points lie off it:


def fastest(timing):
    return min(timing.values)


def fit(name):
    times = [fastest(price[f"{name}, {count} operations"]) for count in counts]
    times = np.array(times)
    line, scatter = np.polyfit(counts, times, 1, w=1 / times, cov=True)
    return times, *line, scatter[0, 0] ** 0.5


lines = {name: fit(name) for name in ("CPU", *["GPU"] * has_gpu)}
for name, (_, c, common, error) in lines.items():
    print(f"{name}: {1e6 * c:.2f} ± {1e6 * error:.2f} µs for one more operation,")
    print(f"     {1e6 * common:.1f} µs for what all of them share")

# %%
# The slope of the CPU is what Python and PyTorch need to find out what you want: read
# the line, look at the types, choose the function, find memory for the result. The
# arithmetic itself could not be seen. A GPU needs all that too, and then the launch. If
# there is none here, its line is a *model*, with the :math:`c` that
# :doc:`/tutorials/2_devices/07_when_the_gpu_wins` assumes.

import matplotlib.pyplot as plt

from firstlight.measure.tables import quantity

BLUE, ORANGE, GREEN, GREY = "#2f7ed8", "#d9762b", "#2f9e77", "#808890"
c_gpu = 5e-6  # seconds: assumed, for the asking and the launch together

fig, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
for name, colour, marker in (("CPU", BLUE, "o"), ("GPU", ORANGE, "s")):
    if name in lines:
        times, c, common, error = lines[name]
        label = f"{name}, measured: {1e6 * c:.2f} ± {1e6 * error:.2f} µs each"
        ax.plot(counts, 1e6 * times, marker, color=colour, label=label)
        ax.plot(counts, 1e6 * (common + c * counts), color=colour)
if not has_gpu:
    label = f"a GPU, model: {1e6 * c_gpu:.0f} µs each"
    ax.plot(counts, 1e6 * c_gpu * counts, "--", color=GREY, lw=2, label=label)
ax.set(xlabel="operations in a row, on one number", ylabel="time (µs)", ylim=0)
ax.legend(frameon=False)
slope, common = lines["GPU" if has_gpu else "CPU"][1:3]
fig.set_label(
    "Time over the number of operations in a row: the points lie on a straight line. "
    f"Each operation more costs {1e6 * slope:.2f} microseconds on this device."
)
plt.show()

# %%
# Now the prediction: a call of ``advance`` with few asteroids should take its number of
# operations times the slope. The work of one asteroid has to be measured once, at the
# largest size. Two numbers, and out come a whole curve, and the size where a call takes
# *twice its plateau*: from there on you pay for asteroids.

sizes = [10, 100, 10_000, 30_000]
if has_gpu:
    sizes = [10, 1000, 100_000, 1_000_000, 3_000_000, 10_000_000]
bench = Bench("fewer-launches", budget=2)
states = {n: [*here(asteroids(n)), one] for n in sizes}
for n, state in states.items():
    bench.time("as written", advance, *state, n=n)


def curve(way):
    return np.array([fastest(t) for t in bench.timings if t.label == way])


asking = common + operations * slope
largest = curve("as written")[-1]
w = (largest if has_gpu else max(largest - asking, 0.1 * largest)) / sizes[-1]


def predict(n):
    n = np.asarray(n)
    return np.maximum(asking, n * w) if has_gpu else asking + n * w


# %%


def doubles(sizes, times):
    rising = np.log(np.maximum.accumulate(times))
    return np.exp(np.interp(np.log(2 * times[0]), rising, np.log(sizes)))


plateau = curve("as written")[0]
expected = doubles(sizes, predict(sizes))
met = doubles(sizes, curve("as written"))
print(f"asking for {operations} operations: predicted {quantity(asking, 's')},")
print(f"   measured {quantity(plateau, 's')}, {plateau / asking:.2f} times that")
print(f"twice the plateau: predicted at n = {expected:,.0f}, measured at {met:,.0f}")

# %%
# Operations differ in what it costs to ask for them, so expect a rough match. But the
# slope tells what *your* loop will cost, before you have written it. On a GPU, a loop
# on its plateau is called *launch-bound*. A faster device does not help it at all.
#
# Cure 1: batch
# -------------
#
# Perhaps you have not one star with asteroids, but fifty, each with its own pull. To
# take one after the other is to ask fifty times. Stack them: a row for each star. Of
# ``advance`` not a line changes, because ``pull[:, None]``, a column, meets each row
# with its own number. Where your function cannot be written so, ``torch.func.vmap``
# turns a function for one star into one for many.

stars, few = 50, 100
pulls = 0.5 + torch.rand(stars, generator=torch.Generator().manual_seed(2)).double()
crowd = asteroids(stars, few)
rows = here(crowd)
pull = here([pulls])[0]
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
    print(f"{way:<11} largest error {error:.0e}")

# %%
# Batching moves you to the right on the same curve, so you can predict what it gives.
# Fifty calls of 100 asteroids cost fifty plateaus. One call of 5,000 is one point.

ways["one by one"] = one_by_one
for way, call in ways.items():
    bench.time(way, call, n=stars * few, device=device)
gains = {way: fastest(bench["one by one"]) / fastest(bench[way]) for way in ways}
guess = stars * predict(few) / predict(stars * few)
print(f"stacked: predicted {guess:.1f} × as fast, measured {gains['stacked']:.1f} ×")
print(f"vmap: measured {gains['vmap']:.1f} ×")

# %%
# ``vmap`` handles each operation itself while it asks for it. That makes asking dearer,
# but once for all stars. Stack by hand where you can.
#
# Batching is the first cure to try: nothing is built, and nothing is forbidden. It
# needs things that do not depend on each other. The *steps* of an orbit cannot be
# batched: each needs the one before.
#
# Cure 2: compile
# ---------------
#
# ``torch.compile`` reads your function, merges its operations, and writes a program, in
# C++ for a CPU, and for a GPU in Triton, a language for such programs. Results on the
# way need not go to memory any more. Four numbers in, four out: that lowers the *work*,
# too.
#
# It has a price. The program has to be built, at the first call. Built programs are
# kept in a folder; the one here is thrown away at the end of the page. (Four settings
# leave out what one small function has no use for: a test program, a header compiled in
# advance, a search for patterns such as attention, and long formulas written out more
# than once. ``dynamic=True`` asks for one program for all sizes, not one for each.)

import os
import tempfile
import warnings
from time import perf_counter
from unittest.mock import patch

from torch._inductor import config, list_options

folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
environment = patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder.name)
environment.start()  # it is stopped at the end of the page
shorter = {"cpp.vec_isa_ok": True, "cpp_cache_precompile_headers": False}
shorter |= {"use_joint_graph_passes": False, "realize_opcount_threshold": 6}
shorter = {name: shorter[name] for name in shorter.keys() & set(list_options())}


def wait():
    if has_gpu:
        torch.accelerator.synchronize()


# %%
# Where there is no compiler, PyTorch raises an error, and so do systems that it cannot
# compile for. All of these are a ``RuntimeError``.


def build(inputs):
    begin = perf_counter()
    with warnings.catch_warnings(), config.patch(shorter):
        warnings.simplefilter("ignore")  # parts of PyTorch warn of each other
        program = torch.compile(advance, dynamic=True)
        program(*inputs)
    wait()
    return program, perf_counter() - begin


small = states[sizes[1]]
try:
    compiled, build_time = build(small)
    error = worst_error(compiled(*here(start), one), exact)
    assert error < 1e-5
    print(f"built in {quantity(build_time, 's')}; largest error {error:.0e}")
except RuntimeError as problem:
    compiled, build_time = None, np.inf
    print("Nothing could be compiled here:", " ".join(str(problem).split())[:300])

# %%
# Now time it at all sizes. From two rows follows the number of calls after which
# building has paid: the time of building, divided by what each call saves.


def break_even(cost):
    saved = curve("as written")[1] - curve("compiled")[1]
    return cost / saved if saved > 0 else np.inf


if compiled:
    for n, state in states.items():
        bench.time("compiled", compiled, *state, n=n)
    plateau_compiled, calls = curve("compiled")[0], break_even(build_time)
    gain = curve("as written")[-1] / curve("compiled")[-1]
    print(f"plateau: {quantity(plateau_compiled, 's')}, as much as asking for", end=" ")
    print(f"{plateau_compiled / slope:.0f} operations; there were {operations}")
    print(f"at n = {sizes[-1]:,} it is {gain:.1f} × as fast as written")
    print(f"with {sizes[1]} asteroids, building would pay after {calls:,.0f} calls")

# %%
# Look at the plateau first. A compiled call is a call too: it checks whether the
# program still fits its inputs. *A small function with fewer operations than that is
# not worth compiling*, however often you call it.
#
# When you start a script a second time, the program comes out of the folder, and there
# is less to wait for. Forget the program, and build it from the folder:

if compiled:
    torch.compiler.reset()
    again = build(small)[1]
    print(f"from the folder: {quantity(again, 's')},", end=" ")
    print(f"which would pay after {break_even(again):,.0f} calls")

# %%
# What is built must be *used*, and the first build a great many times. Another shape,
# type or number may need another one. And a line that waits, such as ``.item()`` or an
# ``if`` on a tensor, cuts the program in two. See `the page of torch.compile`__.
#
# __ https://docs.pytorch.org/docs/stable/torch.compiler.html
#
# Cure 3: capture
# ---------------
#
# NVIDIA's and AMD's cards can keep a list of launches, called a *CUDA graph*. You run
# the loop once to *capture* it. After that a single launch, the *replay*, does all of
# it, and Python asks for nothing in between. What is in such a list? Only functions,
# and the *addresses* of what they read and write. From this follow three rules, and you
# need no GPU to see them. This toy is such a list. (It saves no time: PyTorch still
# looks at each operation.)


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

print("captured:                ", result.tolist())
x = torch.full((3,), 2.0)
tape.replay()
print("x is another tensor:     ", result.tolist())
y.copy_(torch.tensor([1.0, 2.0, 3.0]))
tape.replay()
print("y has new numbers:       ", result.tolist())
factor = 1000
tape.replay()
print("factor is another number:", result.tolist())

try:
    with Tape():
        x.sum().item()
except RuntimeError as problem:
    print("refused:", problem)

# %%
# - *Addresses, not names.* The list does not know ``x``. It knows where its numbers
#   were. Copy new input into the old tensor, with ``copy_``, and read the result where
#   it always is, before the next replay overwrites it.
# - *No values, no sizes.* While it is captured, nothing is computed that Python could
#   look at. Whatever waits is refused. An ``if`` on a plain number is decided once, for
#   good.
# - *No Python.* A ``print``, a counter, a random number of NumPy: what is no launch is
#   not repeated. ``factor`` was 10 when it was captured, and stays 10.
#
# A replay goes wrong in silence. With another ``x`` nobody said that the result was
# old. So check it on *new* input. Where there is such a card, the next cell does: it
# warms up on a stream of its own, as the documentation__ asks, then captures.
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


if device.type == "cuda":
    inputs = [*here(asteroids(1003, seed=3)), one]
    graph, results = capture(inputs)
    for old, new in zip(inputs, here(start), strict=False):
        old.copy_(new)
    graph.replay()
    print(f"replayed on new input: off by {worst_error(results, exact):.0e}")
    assert worst_error(results, exact) < 1e-5
    for n, state in states.items():
        graph, results = capture(state)
        bench.time("captured", graph.replay, n=n, device=device)
else:
    print("Here is no card that could capture.")

# %%
# What can it give? The replay is asked for once. But each of its operations still
# starts and ends on the GPU, and the shortest takes a moment. So the plateau falls to
# the number of operations times that moment. The work stays as it was. With
# ``mode="reduce-overhead"``, ``torch.compile`` captures, too. For a network in
# training, ``torch.cuda.make_graphed_callables`` captures both ways through it.
#
# All ways in one picture
# -----------------------
#
# On top is what was measured here, with the prediction from the slope. If there is no
# GPU here, a *model* of one is below, on the same axes. It assumes the :math:`c` above,
# a moment for the shortest operation, and the bandwidth of the card's data sheet:
# :spec:`H100 SXM bandwidth`.

from firstlight.measure.specs import spec

shortest = 1.5e-6  # seconds: assumed, for an operation on the GPU with no work
bandwidth = spec("H100 SXM", "bandwidth")


def gpu_model(n):
    work, merged = moved * n / bandwidth, least * n / bandwidth
    return {
        "as written": np.maximum(operations * c_gpu, work),
        "captured": np.maximum(c_gpu + operations * shortest, work),
        "compiled": np.maximum(c_gpu, merged),
    }


STYLES = {"as written": (BLUE, "o"), "captured": (GREEN, "D")}
STYLES["compiled"] = (ORANGE, "s")

# %%


def draw_measured(ax):
    fine = np.geomspace(sizes[0], sizes[-1], 500)
    style = {"color": GREY, "lw": 3, "label": "as written: predicted"}
    ax.plot(fine, predict(fine), "--", **style)
    ax.axvline(met, color=GREY, ls=":", lw=1.5, label="twice the plateau: measured")
    for way, (colour, marker) in STYLES.items():
        if len(times := curve(way)):
            ax.plot(sizes, times, marker + "-", color=colour, label=f"{way}: measured")
    ax.set_title("this GPU" if has_gpu else "this CPU", size=11)


def draw_model(ax):
    n = np.geomspace(10, 1e7, 13)
    for way, times in gpu_model(n).items():
        colour, marker = STYLES[way]
        style = {"color": colour, "mfc": "none", "lw": 2, "label": f"{way}: model"}
        ax.plot(n, times, marker + "--", **style)
    ax.set_title("model: an H100", size=11)


# %%

panels = [draw_measured] if has_gpu else [draw_measured, draw_model]
size = {"figsize": (5.6, 3.2 * len(panels)), "squeeze": False, "layout": "constrained"}
fig, axes = plt.subplots(len(panels), sharex=True, sharey=True, **size)
for ax, draw in zip(axes[:, 0], panels, strict=True):
    draw(ax)
    ax.set(xscale="log", yscale="log", ylabel="time of one call", xlabel="asteroids, n")
    ax.yaxis.set_major_formatter(lambda time, _: quantity(time, "s", digits=1))
    ax.label_outer()
    ax.legend(frameon=False, fontsize=9)
compiled_lies = "lies lower" if compiled else "is missing"
modelled = "" if has_gpu else "In a GPU's model, capturing lowers only the plateau."
fig.set_label(
    "Time of a call over the number of asteroids: a plateau, then a slope. As written, "
    f"it takes twice its plateau at {met:,.0f}; predicted were {expected:,.0f}. The "
    f"compiled curve {compiled_lies}. {modelled}"
)
plt.show()

# %%
# *Batching* goes to the right along a curve, and gains until the curve rises.
# *Capturing* lowers the plateau alone. *Compiling* lowers the plateau and the slope. On
# the slope you do not pay for asking, and the first and the third cure do nothing.
#
# All measurements (``n`` is the number of asteroids in all):

bench.show()

# %%
# On the newest GPU on record, 160 operations in a row take
# :timing:`launch-slope median "GPU, 160 operations" @gpu`; and fifty stars are done
# :timing:`fewer-launches speedup "stacked"/"one by one" @gpu` as fast when they are
# stacked.
#
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
#      - each step needs the one before; one call is on the slope; memory is full
#    * - compile
#      - many operations can be merged, and you call it very often; also on the slope,
#        where memory is the limit
#      - you call it seldom; shapes change; there is little to merge, as with matrix
#        products and FFTs, which are one operation each
#    * - capture
#      - the GPU waits for Python, and a call has many short operations that are always
#        the same
#      - there is no such card; values or sizes decide what is done; the GPU is busy
#
# Try them in this order. And before the first: ask for less yourself.
# ``torch.add(x, u, alpha=STEP / 2)`` is one operation, and ``x + STEP / 2 * u`` is two.
#
# Where this stops being true
# ---------------------------
#
# - *Another Python, another price.* The slope is a property of the whole machine: its
#   CPU, Python, PyTorch. A fast GPU in a slow computer has a high plateau. Gradients,
#   ``vmap`` and hooks make asking dearer.
# - *Reading in each step.* Then a GPU waits for the host, the host for the GPU, and
#   asking and work add up there, too (:doc:`/tutorials/2_devices/02_queues`).
# - *More cores.* On a CPU, PyTorch shares an operation among its cores once it is
#   large. There the slope bends, and a prediction from one size fails.
# - *A different answer.* A compiler may merge a product and a sum, and round once
#   instead of twice. Chaotic orbits then part. Check errors, not equality.
# - *No Python at all.* A kernel of your own, with the loop over the steps *inside* it,
#   asks once for all of them. The next chapter writes such kernels.
#
# Exercise
# --------
#
# Which cure pays? A ``Job`` makes ``steps`` steps, one after the other, on a GPU, and
# does so in ``runs`` runs that do not depend on each other. A step has ``operations``.
# Asking for one takes ``asking`` seconds, and its work takes ``work`` seconds on the
# GPU meanwhile. Stacked, the work of an operation grows with the number of runs.
# Compiled, after ``build`` seconds, a step has only ``merged`` operations, each as long
# as before. Captured, a step is asked for once; capturing itself takes no time.
#
# Return ``"batch"``, ``"compile"`` or ``"capture"``, whichever makes the whole job
# shortest, or ``"leave"`` if none makes it at most half as long.

from typing import NamedTuple


class Job(NamedTuple):
    operations: int = 100
    asking: float = 5e-6
    work: float = 1e-6
    steps: int = 1000
    runs: int = 1
    build: float = 10.0
    merged: int = 3


def cure(job): ...


# %%
# If an answer is not right, it gets one of these hints.

HINTS = {
    "batch": "stacking saves asking; the work of each operation grows with the runs",
    "compile": "count the time of building, and the operations that are left",
    "capture": "only asking is saved, and it goes on during the work",
    "leave": "one of the cures makes it at most half as long",
}

# %%
# ``check`` tries jobs that differ from the one above in a few numbers.


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
            return f"It raised {type(error).__name__}: {error}, with {job}"
        if not isinstance(got, str) or got not in HINTS:
            return f"{got!r} is none of the four words, with {job}"
        if got != right:
            return f"Not {got!r}. Hint: {HINTS[got]}. It was {job}"
    return "Right: you can choose a cure before you try one."


print(check(cure))

# %%

# solution


def cure_solution(job):
    all_steps, one_operation = job.runs * job.steps, max(job.asking, job.work)
    as_written = all_steps * job.operations * one_operation
    stacked = max(job.asking, job.runs * job.work)
    times = {
        "batch": job.steps * job.operations * stacked,
        "compile": job.build + all_steps * job.merged * one_operation,
        "capture": all_steps * max(job.asking, job.operations * job.work),
    }
    best = min(times, key=times.get)
    return best if times[best] <= as_written / 2 else "leave"


print(check(cure_solution))

# %%
# The folder with the built programs goes, and the settings are as they were.

if compiled:
    torch.compiler.reset()
environment.stop()
folder.cleanup()

# %%
# Three lines to remember
# -----------------------

print("1. Asking has a price: a plateau that no faster device lowers.")
print(f"   Here it is {quantity(slope, 's')} for each operation,")
print(f"   and {met:,.0f} asteroids took twice as long as ten.")
print(f"2. Batch first. Here fifty stars at once are {gains['stacked']:.0f} × as fast.")
print("3. Compile what you call very often; capture what never changes.")
if compiled:
    print(
        f"   Here the first build would pay after {break_even(build_time):,.0f} calls."
    )
