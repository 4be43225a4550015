"""
What if you wrote for a block, not for a thread?
================================================

You open the code of a model that you want to use, and find ``@triton.jit`` above a
function. It's a :term:`kernel`, but you look in vain for the index of a thread. Instead
there are lines like ``tl.sum(row)``, as if somebody had written NumPy. This is
:term:`Triton`, a language for kernels. ``torch.compile`` writes its own kernels in it.

*Softmax*, which turns scores into probabilities, takes five operations of PyTorch, or
one Triton kernel. **Write down a guess: how many times faster is the one kernel, on a
GPU?** By the end you'll have written such a kernel, one that also works on slices,
where many kernels silently go wrong.

**Needs:** :doc:`a first kernel </tutorials/3_kernels/01_first_kernel>`, and some
PyTorch. Triton comes with PyTorch on Linux, and needs a C compiler there. It supports
NVIDIA's GPUs from the A100 and RTX 30 on, so not a T4. Without a GPU, it can run the
kernels in NumPy.
"""

# %%
# The same addition, twice
# ------------------------
#
# In Numba you write what *one thread* does. **Look for the difference in the second
# kernel: which lines work on more than one number?**

# folded: What is imported, with a stand-in where there is no Triton

import inspect
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import torch
from numba import cuda

from firstlight import Bench, best_device

try:
    import triton
    import triton.language as tl
except ImportError:  # so that Python can read the kernels all the same
    triton = SimpleNamespace(jit=lambda function: function)
    tl = SimpleNamespace(constexpr=int)

# %%


@cuda.jit
def add_threads(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(out + i, total, mask=inside)


# %%
# In the second kernel, every line does. ``tl.arange(0, BLOCK)`` gives the numbers from
# 0 to ``BLOCK - 1``, so ``i`` is a whole row of indices. Each run of this function adds
# ``BLOCK`` pairs, and is called a *program*. Its number, ``program_id(0)``, does what
# ``cuda.blockIdx.x`` did. The compiler divides the work among the threads. You can't
# speak to a single thread any more, and you needn't. Two more things look odd:
#
# - *Why* ``x + i``\ *, and not* ``x[i]``\ *?* Triton gets only the address of the first
#   number of an array, a *pointer*. So ``x + i`` are the addresses of ``BLOCK``
#   numbers, and for a single one, you ``tl.load(x + k)`` with a plain ``k``. A pointer
#   doesn't know how long its array is, so we have to pass ``n``. And ``tl.constexpr``
#   says that Triton has to know ``BLOCK`` when it compiles the kernel.
# - *Where is the guard?* With 5,003 numbers and blocks of 1,024, the last program
#   reaches beyond the end. The *mask* ``inside`` says which of its 1,024 places
#   ``tl.load`` and ``tl.store`` may touch: the first 907.
#
# These lines launch it, with as many programs as it takes. If you have Linux, put them
# and ``add`` into a file of your own, under ``import torch, triton`` and ``import
# triton.language as tl``, and end it with ``try_add("cuda")``. If you have no GPU, end
# it with ``try_add("cpu")`` and run it with ``TRITON_INTERPRET=1 python my_file.py``.
# Then Triton's *interpreter* runs the kernel in NumPy, slowly.


def run_add(x, y, out):
    programs = triton.cdiv(out.numel(), 1024)  # divide, and round up
    add[(programs,)](x, y, out, out.numel(), BLOCK=1024)


def try_add(device):
    x, y = torch.rand(2, 5003, device=device)
    out = torch.empty_like(x)
    run_add(x, y, out)
    print("the same as PyTorch:", torch.equal(out, x + y))


# %%
# Then change both 1024 to 1000. **What could be wrong with a block of 1,000?** In the
# fold, ``first_tries`` tries both sizes, and ``apart`` runs it in a process of its own,
# on your GPU or in the interpreter.

# folded: How this page runs Triton, on a GPU or without one

device = best_device()


def launches_here():
    """Return whether Triton can launch a kernel here, by launching one."""
    if device.type != "cuda" or os.environ.get("TRITON_INTERPRET", "0") != "0":
        return False
    try:
        x, y = torch.rand(2, 5003, device=device)
        run_add(x, y, out := torch.empty_like(x))
        return torch.equal(out, x + y)
    except Exception as problem:  # no Triton, no driver, no C compiler
        print("Triton finds no GPU:", " ".join(str(problem).split())[:200])
        return False


def apart(task, *kernels):
    """Return what a task prints in a process of its own, where Triton may interpret."""
    if not hasattr(triton, "cdiv"):
        return "There is no Triton here, so this was not run."
    # PyTorch 2.11's Triton can't interpret with NumPy 2.4.
    needed = (*kernels, task)
    text = "\n".join(inspect.getsource(getattr(each, "fn", each)) for each in needed)
    head = "import torch, triton\nimport triton.language as tl\n"
    first = getattr(kernels[0], "fn", kernels[0]).__name__
    call = f"{task.__name__}({device.type if on_gpu else 'cpu'!r}, {first})"
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        script = Path(folder, "apart.py")
        script.write_text(f"{head}{text}\n{call}\n", encoding="utf-8")
        own = {"TRITON_CACHE_DIR": folder, "TRITON_INTERPRET": str(int(not on_gpu))}
        command, own = [sys.executable, str(script)], os.environ | own
        done = subprocess.run(command, env=own, capture_output=True, text=True)
    if done.returncode:
        return f"It failed: {[*done.stderr.splitlines(), done.returncode][-1]}"
    return done.stdout.strip()


on_gpu = launches_here()


def first_tries(device, _):
    try_add(device)
    x, y = torch.rand(2, 5003, device=device)
    try:
        add[(6,)](x, y, torch.empty_like(x), 5003, BLOCK=1000)
    except Exception as error:
        print(str(error).splitlines()[-1])


# %%

print(apart(first_tries, add, run_add, try_add))

# %%
# Triton only takes blocks of a power of two. Your array may have any length, because
# the mask takes care of the rest. The block is a ``tl.constexpr``, known when the
# kernel is compiled, so each new size of it compiles another kernel at its first call.
# With several GPUs, Triton launches on PyTorch's current one, mostly the first. So put
# ``with torch.cuda.device(x.device):`` around the launch.
#
# If a very large grid does nothing, and you get no error, take larger blocks. Triton
# multiplies the grid's three sizes `in 32 bits`__, so that (16384, 16384, 16) becomes
# 0, and then it launches nothing. Stay below 2³¹ programs in all.
#
# __ https://github.com/triton-lang/triton/issues/7260
#
# A program takes a row
# ---------------------
#
# *Softmax* turns each row of a matrix into positive numbers that add up to 1. A neural
# network turns its scores into probabilities this way. In PyTorch you could write it in
# three lines, with five steps. The first two find the largest number and subtract it,
# so that ``exp`` can't overflow. The result stays the same.


def five_steps(x):
    shifted = x - x.amax(1, keepdim=True)
    powers = torch.exp(shifted)
    return powers / powers.sum(1, keepdim=True)


# %%
# On a GPU each step is a kernel, which reads its input from memory, and writes its
# result back. **How many times is a matrix read or written in all five, and how many
# times would it have to be?**
#
# Count: 1 for ``amax``, 2 for the subtraction, 2 for ``exp``, 1 for ``sum``, 2 for the
# division. That makes 8. But if a program could hold a whole row, it would read it once
# and write the result once:


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    j = tl.arange(0, BLOCK)
    inside = j < columns
    row = tl.load(x + start + j, mask=inside, other=float("-inf"))
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + start + j, powers / tl.sum(powers, axis=0), mask=inside)


# %%
# The number of the program is the number of the row, and ``BLOCK`` is the smallest
# power of two that holds the row. ``other`` says what stands in the places that the
# mask leaves out. **Why is it minus infinity? Would 0 do?** With minus infinity, such a
# place is never the largest, and its exponential is 0, so it adds nothing to the sum. A
# 0 could be the largest, and it would add something.
#
# Joining steps in one kernel is called :term:`fusion`. Here it leaves 2 of the 8 passes
# through memory, so we predict a quarter of the time.

# figure
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY, ORANGE

passes = {"amax": 1, "subtract": 2, "exp": 2, "sum": 1, "divide": 2}
fig, ax = plt.subplots(figsize=(7.2, 2.2), layout="constrained")
left = 0
for number, (step, times) in enumerate(passes.items()):
    colour = ("#2f6fc0", "#a8541c")[number % 2]
    ax.barh(0, times, left=left, color=colour, ec="black", height=0.6)
    ax.text(left + times / 2, 0, step, ha="center", va="center", color="#fefefe")
    left += times
ax.barh(1, 2, color="#2f7d4f", ec="black", height=0.6)
ax.text(1, 1, "all in one", ha="center", va="center", color="#fefefe")
ax.set_yticks((0, 1), ("five steps", "one kernel"))
ax.set(xlabel="times that a matrix is read or written", ylim=(1.5, -0.5))
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Five steps move the matrix 8 times, one kernel 2 times", loc="left")
fig.set_label(
    "Bars of how often a matrix is read or written. Five steps: amax 1, subtract 2, "
    "exp 2, sum 1 and divide 2, which makes 8. One kernel: 2."
)
plt.show()

# %%
# On an H100, with 67 million numbers in rows of 1,024, the five steps took
# :timing:`triton-rows median "five steps/cuda:0/n=1024" @nvidia-h100-80gb-hbm3`. Our
# kernel took :timing:`triton-rows median "Triton/cuda:0/n=1024"
# @nvidia-h100-80gb-hbm3`, so it was :timing:`triton-rows speedup
# "Triton/cuda:0/n=1024"/"five steps/cuda:0/n=1024" @nvidia-h100-80gb-hbm3` as fast.
#
# .. holds::
#
#    took = lambda way, n: median(f"triton-rows/{way}/cuda:0/n={n}")
#    4 < took("five steps", 1024) / took("Triton", 1024) < 5.5
#
# Why is that more than we predicted? Divide the bytes by the time. The five steps moved
# their 8 passes at :timing:`triton-rows rate "five steps/cuda:0/n=1024"
# @nvidia-h100-80gb-hbm3`, and our kernel its 2 passes at :timing:`triton-rows rate
# "Triton/cuda:0/n=1024" @nvidia-h100-80gb-hbm3`. So most of the gain is in the bytes
# that don't move, and a little in the speed of the others. The memory of an H100
# delivers :spec:`H100 SXM bandwidth` at most, so there isn't much left to win.
#
# .. holds::
#
#    2 * 2**28 / took("Triton", 1024) > 0.8 * spec("H100 SXM", "bandwidth")
#
# .. dropdown:: The same on an A100, by others
#
#    .. measured-by-others:: fused-gain-a100 softmax-a100 softmax-steps-a100
#
# But you'd never write softmax in five steps, because PyTorch has ``torch.softmax``,
# *one* operation that somebody has fused for you already. It moves as few bytes as your
# kernel. So write kernels for what PyTorch has no single operation for.
#
# On the H100, ``torch.softmax`` took :timing:`triton-rows median
# "torch.softmax/cuda:0/n=1024" @nvidia-h100-80gb-hbm3` for the same rows, practically
# as long as ours. But for rows of 4,096 it took :timing:`triton-rows median
# "torch.softmax/cuda:0/n=4096" @nvidia-h100-80gb-hbm3`, and our kernel
# :timing:`triton-rows median "Triton/cuda:0/n=4096" @nvidia-h100-80gb-hbm3`.
#
# .. holds::
#
#    near(took("torch.softmax", 1024), took("Triton", 1024), 0.05)
#    took("torch.softmax", 4096) > 1.2 * took("Triton", 4096)
#
# The row that wasn't there: why pass strides?
# --------------------------------------------
#
# A week later you need only every second channel of the matrix, and pass ``x[:, ::2]``.
# **What will the kernel do with that?** Let's see, with 10 of 20 channels left. In a
# file of yours, end with ``try_slice("cuda", softmax)`` instead:


def try_slice(device, kernel):
    torch.manual_seed(1)
    x = torch.randn(6, 20, device=device)[:, ::2]
    out = torch.empty(6, 10, device=device)
    kernel[(6,)](x, out, 10, BLOCK=16)
    print("row sums:", out.sum(1).tolist())
    print("wrong by", (out - torch.softmax(x, 1)).abs().max().item(), "at most")


print(apart(try_slice, softmax))

# %%
# No error, and each row adds up to 1. And yet the numbers are wrong, and not by
# rounding.
#
# What happened? A slice copies nothing. It's the same memory, read in another way, and
# PyTorch keeps two numbers for that, the *strides*: how far it is to the next row, and
# how far to the next column. ``x.stride()`` is ``(20, 2)`` here. But the kernel got
# only a pointer. It took ten neighbours for a row, where it should have taken every
# second number. The result is the softmax of *something*, and that always adds up to 1.
# So pass the strides, too:


@triton.jit
def softmax_strided(x, out, down, across, columns, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside = j < columns
    place = row * down + j * across
    numbers = tl.load(x + place, mask=inside, other=float("-inf"))
    powers = tl.exp(numbers - tl.max(numbers, axis=0))
    tl.store(out + row * columns + j, powers / tl.sum(powers, axis=0), mask=inside)


def run_softmax(x, out, num_warps=4):
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    launch = softmax_strided[(rows,)]
    launch(x, out, *x.stride(), columns, BLOCK=block, num_warps=num_warps)


def try_strides(device, _):
    torch.manual_seed(1)
    x = torch.randn(6, 20, device=device)
    for name, view in {"every second": x[:, ::2], "transposed": x.T}.items():
        run_softmax(view, out := torch.empty(view.shape, device=device))
        error = (out - torch.softmax(view, 1)).abs().max().item()
        print(f"{name}: wrong by {error:.0e} at most")


print(apart(try_strides, softmax_strided, run_softmax))

# %%
# ``softmax_strided`` and ``run_softmax`` are all you need in a program of your own,
# under ``import torch, triton`` and ``import triton.language as tl``. The strides cost
# an ordinary matrix no time: if one of them is 1, Triton compiles a kernel in which the
# multiplication is gone.
#
# Two warnings. The *result* is still written row by row, so make it with
# ``x.new_empty(x.shape)``: ``torch.empty_like`` of a transposed matrix is transposed,
# too. And if ``row * down`` can go beyond two billion, it overflows in silence. Then
# write ``row.to(tl.int64) * down``.
#
# .. dropdown:: A mask in two dimensions, for a tile of rows and columns
#
#    If a program takes a tile of a matrix, ``[:, None]`` makes a column of the row
#    numbers, and ``[None, :]`` makes a row of the column numbers. Together they give a
#    place and a mask for each element:
#
#    .. code-block:: python
#
#       r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
#       c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
#       place = r[:, None] * down + c[None, :] * across
#       inside = (r[:, None] < rows) & (c[None, :] < columns)  # not "and"
#       tile = tl.load(x + place, mask=inside, other=0.0)
#       scale = tl.load(vector + c, mask=c < columns)  # in 1-D, a mask of its own
#       tl.store(out + place, tile * scale[None, :], mask=inside)  # strides as of x
#
# How many threads for a row?
# ---------------------------
#
# Triton takes four groups of 32 threads, four :term:`warps <warp>`, for each program,
# unless you choose another number with ``num_warps`` at the launch. **Would you give a
# row of 16,384 numbers more warps than a row of 256?** With four warps, each thread has
# 2 numbers of a row of 256. With 16,384, it has 128, which fill half of its
# :term:`registers <register>`. We'll compare four warps for every width with a rule of
# thumb: one warp for each 512 numbers, but no fewer than 1 and no more than 16.

# folded: The timing, for rows of four widths


def by_width(width):
    return min(max(width // 512, 1), 16)


def time_width(bench, width):
    z = torch.randn((2**26 if on_gpu else 2**20) // width, width, device=device)
    out, exact = torch.empty_like(z), torch.softmax(z, 1)
    ways = {"five steps": (five_steps, z), "torch.softmax": (torch.softmax, z, 1)}
    if on_gpu:
        ways["torch.compile"] = torch.compile(five_steps, dynamic=False), z
        ways["Triton, four warps"] = run_softmax, z, out, 4
        ways["Triton"] = run_softmax, z, out, by_width(width)
    for label, (call, *given) in ways.items():
        result = call(*given)
        result = out if result is None else result
        assert torch.allclose(result, exact, rtol=1e-4, atol=1e-7), label
        moved = (8 if label == "five steps" else 2) * z.nbytes
        bench.time(label, call, *given, n=width, bytes=moved, device=device)


bench = Bench("triton-rows", budget=20 if on_gpu else 1.5)
for width in (256, 1024, 4096, 16384):
    time_width(bench, width)
bench.show()

# %%

# measured figure
from firstlight.devices import card
from firstlight.timing.ceilings import ceilings

looks = {
    "five steps": (GREY, "v"),
    "torch.softmax": (ORANGE, "o"),
    "torch.compile": ("#2f7d4f", "^"),
    "Triton, four warps": ("#b8394b", "s"),
    "Triton": (BLUE, "D"),
}
fig, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
needed = 2 * (2**26 if on_gpu else 2**20) * 4  # a matrix read once, and one written
for label, (colour, mark) in looks.items():
    curve = [(t.n, needed / t.median / 1e9) for t in bench.timings if t.label == label]
    if curve:
        ax.plot(*zip(*curve, strict=True), color=colour, marker=mark, label=label)
if on_gpu and (memory := ceilings(card(device)).byte_rate):
    ax.axhline(memory / 1e9, color="black", ls="--", label="this GPU's memory")
a100 = 8 * 4096**2 / 101.8e-6  # bytes over the time that infra-practices measured
look = {"mfc": "none", "mec": "black", "ls": "", "label": "A100, infra-practices"}
ax.plot(4096, a100 / 1e9, "D", **look)
ax.set(xscale="log", xlabel="numbers in a row")
ax.set_ylabel("GB/s, for one read and one write")
ax.set_xticks((256, 1024, 4096, 16384), ("256", "1,024", "4,096", "16,384"))
ax.minorticks_off()
ax.set_ylim(0, 1.45 * ax.get_ylim()[1])
ax.yaxis.set_major_formatter("{x:,.0f}")
ax.set_title("Softmax for rows of four widths", loc="left")
ax.legend(fontsize=9, ncols=2, loc="upper left")
fig.set_label(
    "Gigabytes a second against the width of a row, from 256 to 16,384 numbers, a line "
    "for each way to compute softmax. Only one read and one write are counted, so the "
    "five steps, which move four times as much, lie far below. The hollow mark is what "
    "others measured on an A100."
)
plt.show()

# %%
# The figure counts only the one read and the one write that softmax can't do without,
# so the five steps lie low. *Triton* is our kernel with the rule of thumb. Its line
# covers most of *torch.compile*'s, which we'll come to.
#
# On the H100, at a width of 256 four warps moved :timing:`triton-rows rate "Triton,
# four warps/cuda:0/n=256" @nvidia-h100-80gb-hbm3`, and one warp :timing:`triton-rows
# rate "Triton/cuda:0/n=256" @nvidia-h100-80gb-hbm3`. At 16,384 four warps moved
# :timing:`triton-rows rate "Triton, four warps/cuda:0/n=16384" @nvidia-h100-80gb-hbm3`,
# and sixteen :timing:`triton-rows rate "Triton/cuda:0/n=16384" @nvidia-h100-80gb-hbm3`.
# The rule was right, but gained less than a tenth, and nothing at the two middle
# widths.
#
# .. holds::
#
#    gain = lambda n: took("Triton, four warps", n) / took("Triton", n)
#    all(1.01 < gain(n) < 1.1 for n in (256, 16384))
#    all(near(gain(n), 1, 0.01) for n in (1024, 4096))
#
# So choose ``num_warps`` by measuring. ``triton.testing.do_bench(lambda: run_softmax(x,
# out, 8))`` gives a time in milliseconds. Or let ``@triton.autotune`` time a list of
# choices at the first launch, and keep the fastest. For that it runs your kernel many
# times on your arrays. If it adds to an array or overwrites its input, the result is
# wrong, unless you name that array, as in ``restore_value=["x"]``.
#
# With a few thousand numbers you'd compare launches, not kernels. Triton launches from
# Python, which can take longer than all the work. So compare at sizes where the rate in
# GB/s has stopped rising, or launch from a :term:`CUDA graph`, which :doc:`replays many
# launches as one </tutorials/2_devices/16_fewer_launches>`.
#
# Ask torch.compile first
# -----------------------
#
# You can get such a kernel without writing it. ``torch.compile(five_steps)`` fuses the
# five steps and writes a kernel, in Triton. For rows of 781 numbers, PyTorch 2.13
# writes this. We left out the middle:
#
# .. code-block:: python
#
#    tmp0 = tl.load(in_ptr0 + (r0_1 + 781*x0), r0_mask & xmask, other=0.0)
#    ...
#    tmp11 = (tmp6 / tmp10)
#    tl.store(in_out_ptr0 + (r0_1 + 781*x0), tmp11, r0_mask & xmask)
#
# There is one load, one store, and masks, and 781 is the stride of a row. On the H100,
# where PyTorch was 2.11, it took :timing:`triton-rows median
# "torch.compile/cuda:0/n=1024" @nvidia-h100-80gb-hbm3` for the rows of 1,024, and ours
# :timing:`triton-rows median "Triton/cuda:0/n=1024" @nvidia-h100-80gb-hbm3`. At none of
# the four widths did the two differ by more than 2 %.
#
# .. holds::
#
#    compiled = {n: took("torch.compile", n) for n in (256, 1024, 4096, 16384)}
#    all(near(compiled[n], took("Triton", n), 0.02) for n in compiled)
#
# So when should you write Triton yourself? Do it if ``torch.compile`` doesn't find the
# fusion, and your count says that there's something to win. ``torch.compile`` is good
# at chains of operations with a sum at the end. It can't know a better way to *do* the
# thing, for example a loop that stops early. If each thread needs indices of its own,
# or takes a branch of its own, stay with threads.
#
# .. dropdown:: A product of matrices, and where its last digits go
#
#    ``tl.dot(a_tile, b_tile)`` multiplies two tiles, without the shared memory and the
#    barriers of :doc:`our own product </tutorials/3_kernels/07_shared_memory>`. On
#    NVIDIA's cards from the A100 and RTX 30 on, it uses the *tensor cores*. They keep
#    10 of the 23 bits of the fraction of a ``float32``, which is called :doc:`TF32
#    </tutorials/2_devices/13_precision>`, and Triton does that without asking. If you
#    want all bits, write ``tl.dot(a, b, input_precision="ieee")``. Triton's interpreter
#    cuts no bits, so a test that passes there may fail on a GPU.
#
#    The places that a mask leaves out are undefined unless you give ``other``, and in a
#    product they'd enter the sum. So load both tiles with ``other=0.0``. And suppose
#    that a loop adds K numbers, and takes ``BLOCK_K`` of them in each step. Then the
#    last step has fewer left, so mask with ``k < K - step * BLOCK_K``. If you forget
#    ``other``, the interpreter hides that as well, because it fills such places with
#    zeros.
#
# .. dropdown:: NVIDIA's own tiles: ten lines of cuda.tile
#
#    Since the end of 2025 NVIDIA has a language of this kind itself, *cuTile*:
#
#    .. code-block:: python
#
#       import cuda.tile as ct
#       import cupy as cp
#
#       @ct.kernel
#       def add(x, y, out, SIZE: ct.Constant[int]):
#           block = ct.bid(0)
#           a = ct.load(x, index=(block,), shape=(SIZE,))
#           b = ct.load(y, index=(block,), shape=(SIZE,))
#           ct.store(out, index=(block,), tile=a + b)
#
#       x, y = cp.random.random((2, 5003), dtype=cp.float32)
#       out = cp.empty_like(x)
#       programs = (ct.cdiv(x.size, 1024), 1, 1)
#       ct.launch(cp.cuda.get_current_stream(), programs, add, (x, y, out, 1024))
#
#    The array knows its shape and strides, so nothing of it has to be passed, and the
#    last tile needs no mask. But it has no interpreter, and wants CUDA 13.2 and a
#    driver of the branch 580 at least: ``pip install "cuda-tile[tileiras]"
#    cupy-cuda13x``, in an environment of its own. We compiled these lines for an H100
#    and an RTX 50, with version 1.7.0, and haven't run them.
#
# .. dropdown:: JAX's tiles: Pallas, slower than jit, or right only with interpret=True
#
#    .. code-block:: python
#
#       from jax.experimental import pallas as pl
#
#       def add(x, y, out):
#           out[...] = x[...] + y[...]
#
#       block = pl.BlockSpec((1024,), lambda i: (i,))
#       of = {"in_specs": [block, block], "out_specs": block, "interpret": True}
#       z = pl.pallas_call(add, x, grid=(pl.cdiv(x.size, 1024),), **of)(x, y)
#
#    A grid with a program for each number is `slower than jit
#    <https://github.com/jax-ml/jax/issues/17545>`__. ``jax.jit`` fuses such a chain by
#    itself, so write Pallas for what it can't. On NVIDIA `it wants an H100 or newer`__,
#    and its way through Triton is no longer recommended.
#
#    ``lambda i: (i,)`` returns the number of the *block*, not of its first element. If
#    there is no such block, ``interpret=True``, which needs no GPU, quietly takes the
#    last one: a wrong ``(1, i)`` for a dimension of size 1 was right there, and
#    `crashed without`__. The last block may reach beyond the end, so mask a sum.
#
#    ``out[...] += part`` adds up over the grid on a TPU, which takes the blocks one
#    after the other, and with ``interpret=True``. On a GPU all blocks run at once, so
#    they overwrite each other's sums. Loop *inside* the kernel, or give each block a
#    place of its own in ``out`` and add those up with ``jnp.sum``.
#
#    Without ``in_specs`` and ``out_specs``, each program gets the *whole* arrays, and
#    the block size that you chose does nothing. Without a ``grid`` there's one program,
#    on one multiprocessor of a hundred, and a loop in it runs step by step. Through
#    Triton, the size of each array in the kernel must be a power of two: a slice of 4
#    works, and one of 3 doesn't, so take 4 and mask the last. ``RESOURCE_EXHAUSTED`` is
#    :doc:`shared memory </tutorials/3_kernels/15_what_a_kernel_may_contain>`: take
#    smaller blocks.
#
#    __ https://docs.jax.dev/en/latest/pallas/quickstart.html
#    __ https://github.com/jax-ml/jax/issues/23181
#
# Give it a gradient
# ------------------
#
# PyTorch can't look into a kernel, so it has to be told the gradient, as for :doc:`a
# kernel of Numba's </tutorials/3_kernels/12_kernels_in_pytorch>`. For Triton use
# ``triton_op`` in place of ``custom_op``. Then ``torch.compile`` compiles the kernel
# together with the operations around it:
#
# .. code-block:: python
#
#    import torch, triton, triton.language as tl
#    from torch.library import triton_op, wrap_triton
#
#    @triton.jit
#    def cube_kernel(x, out, n, BLOCK: tl.constexpr):
#        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
#        number = tl.load(x + i, mask=i < n)
#        tl.store(out + i, number * number * number, mask=i < n)
#
#    @triton_op("mine::cube", mutates_args={})
#    def cube(x: torch.Tensor) -> torch.Tensor:
#        x = x.contiguous()
#        out, n = torch.empty_like(x), x.numel()
#        wrap_triton(cube_kernel)[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
#        return out
#
#    def keep(ctx, inputs, output):
#        ctx.save_for_backward(*inputs)
#
#    def backward(ctx, grad):
#        (x,) = ctx.saved_tensors
#        return 3 * x**2 * grad
#
#    cube.register_autograd(backward, setup_context=keep)
#    cube.register_kernel("cpu")(lambda x: x**3)  # a test needs no GPU
#
#    seven = torch.randn(7, dtype=torch.float64, requires_grad=True)
#    print(torch.autograd.gradcheck(cube, (seven,)))
#
# The backward uses PyTorch's own operations. If you give it a kernel of yours, make
# that a ``triton_op``, too. Without a GPU, ``gradcheck``, PyTorch's test of a gradient,
# tests the backward and not the kernel. So run it on a GPU as well, with
# ``device="cuda"``.
#
# Which way should you take?
# --------------------------
#
# .. table:: Ways to a kernel, and when to take them
#
#   =================== ========================= =====================================
#   way                 you write                 take it if
#   =================== ========================= =====================================
#   a library's kernel  a call                    it's a sum, a sort, a :term:`scan`
#   ``torch.compile``   PyTorch                   it's a chain of operations
#   Triton              Python, for a block       your data are in PyTorch; also on AMD
#   cuda.tile           Python, for a block       the same, on NVIDIA only
#   Pallas              JAX, for a block          your data are in JAX
#   Numba               Python, for a thread      each thread goes its own way, or you
#                                                 want to test without a GPU
#   CuPy's raw kernel   CUDA C++, for a thread    you have the C++ already
#   a C++ extension     C++ and CUDA, compiled    others install it, or a launch from
#                                                 Python takes too long
#   =================== ========================= =====================================
#
# The first of these has :doc:`a page </tutorials/3_kernels/16_a_sum_a_sort_a_scan>`,
# and CuPy's a section at the end.

# %%
# Your turn
# ---------
#
# Each row of a matrix is a spectrum. Write a kernel that *standardises* it, as ``(x -
# x.mean(1, keepdim=True)) / x.std(1, keepdim=True)`` does, for rows of any width, and
# for every slice. It's launched as
#
# .. code-block:: python
#
#    standardise[(rows,)](x, out, *x.stride(), columns, BLOCK=next_power_of_2(columns))
#
# ``out`` is new and lies row after row. ``std`` divides the sum of squares by
# ``columns - 1``. You'll need ``tl.sum(…, axis=0)``, ``tl.sqrt``, and ``tl.where(mask,
# a, b)``. Mind the places that the mask leaves out: they may hold 0 when you load them,
# but are they still 0 when you have subtracted the mean?
#
# Put your kernel where the dots are, and run ``firstlight try 13_triton.py``.


@triton.jit
def standardise(x, out, down, across, columns, BLOCK: tl.constexpr): ...


# %%

# folded: What check does: it runs your kernel on five matrices, and looks behind out


def judge(device, kernel):
    torch.manual_seed(1)
    x = torch.randn(12, 26, device=device) * torch.arange(1, 27, device=device) + 30
    cases = {"a matrix of 12 × 16": x[:, :16].contiguous()}
    cases |= {"a matrix of 12 × 26": x, "the slice x[:, ::2]": x[:, ::2]}
    cases |= {"the slice x[::3, 5:]": x[::3, 5:], "the transpose x.T": x.T}
    for name, view in cases.items():
        rows, columns = view.shape
        room = torch.full((view.numel() + 64,), -7.0, device=device)
        block = triton.next_power_of_2(columns)
        kernel[(rows,)](view, room, *view.stride(), columns, BLOCK=block)
        out, behind = room[:-64].view(view.shape), room[-64:]

        def as_if(read=view, by=columns, count=columns - 1, places=0):
            mean = read.sum(1, keepdim=True) / by
            square = ((read - mean) ** 2).sum(1, keepdim=True) + places * mean**2
            return (read - mean) / (square / count) ** 0.5

        packed, right = view.as_strided(view.shape, (columns, 1)), as_if()
        close_by = view.as_strided(view.shape, (view.stride(0), 1))
        ways = {
            "": right,
            "you divided by columns, not by columns - 1.": as_if(count=columns),
            "you divided by BLOCK for the mean.": as_if(by=block),
            "the places left out hold 0 - mean by now, and their squares count. "
            "Make them 0 again.": as_if(places=block - columns),
            "you read as if the rows lay packed. Pass the strides.": as_if(packed),
            "you step by 1 along a row, and not by across.": as_if(close_by),
            "you divided by the variance. Take its root.": right / view.std(1)[:, None],
        }
        fits = (said for said in ways if torch.allclose(out, ways[said], 1e-3, 1e-4))
        numbers = f"out[0, 0] is {out[0, 0]:.4f}, and should be {right[0, 0]:.4f}."
        said = next(fits, numbers)
        if (behind != -7).any():
            said = "it writes behind the end of out. Is there a mask?"
        elif (out == -7).any():
            said = "nobody wrote some numbers."
        if said:
            print(f"Not yet. {name}: {said}")
            return
    print("Right: for every width, and for every slice.")


# %%

# folded code: What check says


def check(kernel):
    if not hasattr(triton, "cdiv"):
        return "Not judged: there is no Triton here."
    if not hasattr(kernel, "fn"):
        return "Not yet: give a kernel, a function with @triton.jit above it."
    if not kernel.fn.__code__.co_names:
        return "Not yet: your kernel does nothing."
    try:
        return apart(judge, kernel).replace("It failed", "Not yet, it failed")
    except Exception as error:
        return f"Not yet: {type(error).__name__}: {error}"


print(check(standardise))

# %%
# Three lines to remember
# -----------------------

# remember

print("1. In Triton you write for a block: indices in a row, a mask at the edge, sums.")
print("   The compiler divides the work among the threads.")
print("2. Pass the strides. Without them, a slice gives wrong numbers and no error.")
print("3. Count what fusing saves (softmax: 8 passes, fused 2). Ask torch.compile")
print("   first, and choose num_warps by measuring.")

# %%
# Solution
# --------

# solution


@triton.jit
def standardise_solution(x, out, down, across, columns, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside = j < columns
    numbers = tl.load(x + row * down + j * across, mask=inside, other=0)
    apart = numbers - tl.sum(numbers, axis=0) / columns
    apart = tl.where(inside, apart, 0)
    width = tl.sqrt(tl.sum(apart * apart, axis=0) / (columns - 1))
    tl.store(out + row * columns + j, apart / width, mask=inside)


print(f"Our solution: {check(standardise_solution)}")

# %%
# CuPy's RawKernel: arguments, dtypes, and why it gives zeros
# -----------------------------------------------------------
#
# If you have some CUDA C++, CuPy's way takes the fewest lines:
#
# .. code-block:: python
#
#    import cupy as cp
#
#    code = r"""extern "C" __global__ void add(const float *x, float *out, int n) {
#        int i = blockIdx.x * blockDim.x + threadIdx.x;
#        if (i < n) out[i] += x[i];
#    }"""
#    add = cp.RawKernel(code, "add")
#    add((blocks,), (256,), (x, out, cp.int32(x.size)))
#
# A launch takes the blocks, the threads of a block, and the arguments. **Nobody checks
# or converts a type**, so a wrong one gives zeros or nonsense, and no error:
#
# - An array's dtype must be the pointer's: ``float32`` for ``float *``, ``int64`` for
#   ``long long *``, and for ``double *`` CuPy's default, ``float64``. ``complex64`` is
#   ``complex<float>``, with ``#include <cupy/complex.cuh>``. If the dtype is another
#   one, convert it first, as with ``x.astype("f4")``.
# - A Python number arrives with 64 bits: a ``float`` as ``double``, an ``int`` as
#   ``long long``. For a ``float`` or an ``int`` in C, pass ``cp.float32(a)`` or
#   ``cp.int32(n)``.
# - A slice passes only the address of its first element, and the kernel knows no
#   strides. So pass ``cp.ascontiguousarray(x[::2])``.
# - An ``int`` in C ends at 2³¹ - 1. In a larger array ``row * columns + j`` becomes
#   negative. Write ``(size_t)row * columns + j``, and ``size_t i =
#   (size_t)blockIdx.x * blockDim.x + threadIdx.x``. For a size of type ``long long``
#   pass ``cp.int64(n)``.
#
# ``cupyx.jit.rawkernel``, CuPy's kernels in Python, does the opposite. There ``0.1`` is
# ``float32`` and ``1j`` is ``complex64``, whether you pass it or write it in the
# kernel. So ``complex128(k * 1j)`` comes too late: the digits are lost by then. With
# ``@jit.rawkernel(mode="numpy")`` they're ``float64`` and ``complex128``.
#
# If you don't want to think about types, take ``cp.ElementwiseKernel``, which works on
# one element at a time. Tensors of PyTorch go into CuPy and back without a copy, with
# ``cp.from_dlpack`` and ``torch.from_dlpack``.
