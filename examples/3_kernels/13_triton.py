"""
What if you wrote for a block, not for a thread?
================================================

You can write a :term:`kernel` in :term:`Numba`: should you learn :term:`Triton`? In
Triton you write what a whole :term:`block` of :term:`threads <thread>` does, and a
compiler divides the work among them. It adds :term:`shared memory`,
:term:`barriers <barrier>`, vector loads and :term:`tensor cores <tensor core>` by
itself. You can count the bytes that a kernel of your own will save before you write it.
Try ``torch.compile`` first, which fuses steps by itself, and writes Triton.

**You will learn**

- to write a kernel for blocks: offsets, masks, loads, stores, products;
- to check it without a GPU, and what such a check cannot tell;
- to count the bytes that :term:`fusion` saves, and what to compare them with;
- to read the kernel that ``torch.compile`` writes for you.

**Time:** 12 minutes. **Needs:** any computer to read along, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`; Linux for Triton's interpreter and compiler,
which come with PyTorch's builds for CUDA; to run the kernels, an NVIDIA GPU, a C
compiler and Python's header files. What cannot run is left out, and the page says so.
"""

# %%
# A program is a block of threads
# -------------------------------

# folded: What is imported, with stand-ins where there is no Triton
from types import SimpleNamespace

import numpy as np
import torch

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace

try:
    import triton
    import triton.language as tl
except ImportError:  # so that Python can read the kernels all the same
    triton = SimpleNamespace(jit=lambda function: function)
    tl = SimpleNamespace(constexpr=int)

# %%
# Here is an addition for a thread, and below it the same for a block, with its
# :term:`launch`.


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


def run_add(x, y, out):
    n = out.numel()
    add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)


# %%
# - ``add`` is the work of a *program*, Triton's name for a thread block.
#   ``program_id(0)`` is its number, as ``blockIdx.x`` was.
# - ``tl.arange(0, BLOCK)`` is ``0, 1, …, BLOCK - 1``. So ``i`` is not one index but
#   ``BLOCK`` of them, and each line works on them all, as in NumPy. ``BLOCK`` is a
#   ``constexpr``: its value is compiled in. It must be a power of two.
# - ``x`` is a *pointer*, the address of the first number, and ``x + i`` are the
#   addresses of ``BLOCK`` numbers. It knows no shape, so ``n`` is passed, too.
# - The *mask* says which places ``tl.load`` and ``tl.store`` may touch: the
#   :term:`guard`.
# - The brackets hold the number of programs. Triton chooses the threads:
#   ``num_warps=4``, 128 threads a program, unless you set it at the launch.
#   (``@triton.autotune`` times a list of such choices and keeps the fastest.)
#
# Try it on Linux without a GPU, with Triton's *interpreter*, which runs a kernel block
# by block in NumPy. Put ``import torch, triton``, ``import triton.language as tl``,
# ``add``, ``run_add`` and these lines into ``try_add.py``, and call
# ``TRITON_INTERPRET=1 python try_add.py``:
#
# .. code-block:: python
#
#    x, y = torch.rand(2, 5003)
#    out = torch.empty_like(x)
#    run_add(x, y, out)
#    assert torch.equal(out, x + y)
#
# .. table:: The same thing for a thread and for a block
#
#    ====================  ============================  =====================
#    What you write for    a thread, in Numba            a block, in Triton
#    ====================  ============================  =====================
#    the edge              ``if i < n``                  a mask
#    coalescing            which index runs along ``x``  nothing, as a rule
#    more work a thread    a loop                        a larger block
#    a sum of a block      shared memory, barriers       ``tl.sum``
#    a product of tiles    shared memory, barriers       ``tl.dot``
#    ====================  ============================  =====================
#
# In exchange, you cannot address a single thread.
#
# Softmax: a program takes a row
# ------------------------------
#
# *Softmax* turns each row of a matrix into positive numbers whose sum is 1. In PyTorch
# it can be written in five steps. (Subtracting the largest number first changes nothing
# in the result, and keeps ``exp`` from overflowing.)


def five_steps(x):
    shifted = x - x.amax(1, keepdim=True)
    powers = torch.exp(shifted)
    return powers / powers.sum(1, keepdim=True)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    j = tl.arange(0, BLOCK)
    inside = j < columns
    row = tl.load(x + start + j, mask=inside, other=float("-inf"))
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + start + j, powers / tl.sum(powers, axis=0), mask=inside)


def run_softmax(x, out):
    rows, columns = x.shape
    softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))


# %%
# The row comes in once, and the result goes out once. ``BLOCK`` is the next power of
# two that holds a row. ``other`` stands where the mask is false, and must do no harm:
# minus infinity is never the largest, and its power is 0. (With 0 in its place, the
# result would be right for 1024 columns and wrong for 781.)
#
# What does fusion save?
# ----------------------
#
# *Predict.* On a GPU each of the five steps is a kernel, which reads its inputs from
# memory and writes its result there. Several steps in one kernel are *fused*. Write
# down how many times the whole matrix is read or written in the five steps, and the
# least number possible. Then count: PyTorch lets you watch what it is asked to do.

from torch.overrides import TorchFunctionMode


class Watch(TorchFunctionMode):
    steps = ()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        arrays = [each for each in (*args, result) if isinstance(each, torch.Tensor)]
        self.steps += ((function.__name__, sum(each.nbytes for each in arrays)),)
        return result


def watched(function, *inputs):
    with Watch() as watch:
        function(*inputs)
    return watch.steps


x = torch.randn(1823, 781)
ways = {"five steps": watched(five_steps, x)}
ways["torch.softmax"] = watched(torch.softmax, x, 1)
ways["your kernel"] = [("softmax", 2 * x.nbytes)]  # one load, one store, each once
times = {way: sum(size for _, size in ways[way]) / x.nbytes for way in ways}

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 3), layout="constrained")
for row, steps in enumerate(ways.values()):
    left = 0
    for number, (name, size) in enumerate(steps):
        width, name = size / x.nbytes, name if len(steps) > 1 else "all in one"
        colour = ("#2f6fc0", "#a8541c")[number % 2]
        ax.barh(row, width, left=left, color=colour, ec="black", height=0.6)
        style = {"ha": "center", "va": "center", "color": "#fefefe"}
        ax.text(left + width / 2, row, name, **style)
        left += width
ax.axvline(2, color="black", ls="--", lw=1.5, zorder=0)
ax.text(2.15, 1.5, "the floor: once in and once out", va="center")
ax.set_yticks(range(len(ways)), ways)
ax.set(xlabel="bytes moved, in sizes of the matrix", ylim=(2.6, -0.5))
ax.spines[["top", "right"]].set_visible(False)
many, few = times["five steps"], times["your kernel"]
title = (
    f"Softmax in five steps moves the matrix {many:.0f} times, fused {few:.0f} times"
)
ax.set_title(title, loc="left")
fig.set_label(
    f"Bytes that softmax moves. Five steps move the matrix {times['five steps']:.0f} "
    "times: amax and sum once each, sub, exp and div twice each. torch.softmax and "
    "your kernel move it twice, which is the floor, a dashed line."
)
plt.show()

# %%
# Your kernel is at the floor. But so is ``torch.softmax``, *one* operation, which
# somebody has fused already. **Your kernel cannot beat it by bytes.** Fuse what PyTorch
# has no single operation for. From :term:`data sheets <data sheet>`, the floor in time
# is:

from firstlight.display import quantity
from firstlight.timing.specs import spec

rows, columns = 2**16, 1024
for name in ("RTX 4090", "H100 SXM"):
    floor = 2 * 4 * rows * columns / spec(name, "bandwidth")
    print(f"{name:>8}, {rows} x {columns} numbers: never under {quantity(floor, 's')}")

# %%
# Matrix product: a program takes a square
# ----------------------------------------
#
# ``[:, None]`` makes a column of indices and ``[None, :]`` a row. Their sum is a
# square, as in NumPy. It is the tile of :doc:`/tutorials/3_kernels/06_shared_memory`,
# but you write no shared memory and no barriers.


@triton.jit
def matmul(a, b, c, M, N, K, T: tl.constexpr, D: tl.constexpr, HOW: tl.constexpr):
    i = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    j = tl.program_id(1) * T + tl.arange(0, T)[None, :]
    total = tl.zeros((T, T), tl.float32)
    for first in range(0, K, D):
        k = first + tl.arange(0, D)[None, :]
        a_tile = tl.load(a + i * K + k, mask=(i < M) & (k < K), other=0)
        k = first + tl.arange(0, D)[:, None]
        b_tile = tl.load(b + k * N + j, mask=(k < K) & (j < N), other=0)
        total = tl.dot(a_tile, b_tile, total, input_precision=HOW)
    tl.store(c + i * N + j, total, mask=(i < M) & (j < N))


def run_matmul(a, b, c, how):
    (M, K), N = a.shape, b.shape[1]
    grid = triton.cdiv(M, 64), triton.cdiv(N, 64)
    matmul[grid](a, b, c, M, N, K, T=64, D=16, HOW=how)


# %%
# Check
# -----
#
# Unlike Numba's simulator, the interpreter checks no address. So the check, which takes
# odd sizes and ``float64``, leaves spare room behind each result, which must stay as it
# was.


def checked(device):
    import torch

    def error(exact, run, inputs, *more):
        out = torch.full((exact.numel() + 8192,), -1.0, device=device)
        result, spare = out[:-8192].view(exact.shape), out[-8192:]
        run(*(each.to(device) for each in inputs), result, *more)
        assert (spare == -1).all(), "something was written behind the result"
        return ((result.cpu() - exact).abs().max() / exact.abs().max()).item()

    torch.manual_seed(1)
    x, y, z = torch.randn(5003), torch.randn(5003), torch.randn(37, 781)
    a, b = torch.rand(65, 43), torch.rand(43, 71)
    return {
        "add": error(x.double() + y, run_add, [x, y]),
        "softmax": error(torch.softmax(z.double(), 1), run_softmax, [z]),
        "matmul, ieee": error(a.double() @ b.double(), run_matmul, [a, b], "ieee"),
        "matmul, tf32": error(a.double() @ b.double(), run_matmul, [a, b], "tf32"),
    }


# %%
# ``TRITON_INTERPRET=1`` acts on a whole process (and people `leave it on`__ when they
# time their kernel). So a helper, ``apart``, runs these functions in a process of their
# own.
#
# __ https://github.com/triton-lang/triton/issues/5995

# folded: How functions run in a process of their own
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


def apart(expression, *functions, interpret):
    if not hasattr(triton, "compile"):
        print("There is no Triton here, so this is left out.")
        return []
    needed = (add, softmax, matmul, run_add, run_softmax, run_matmul, *functions)
    text = "\n".join(inspect.getsource(getattr(each, "fn", each)) for each in needed)
    head = "import json, triton\nimport triton.language as tl\n"
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        script = Path(folder, "apart.py")
        script.write_text(f"{head}{text}\nprint(json.dumps({expression}))\n")
        own = {"TRITON_CACHE_DIR": folder, "TRITON_DISABLE_LINE_INFO": "1"}
        own |= {"TRITON_INTERPRET": str(int(interpret))}
        command, own = [sys.executable, str(script)], os.environ | own
        done = subprocess.run(command, env=own, capture_output=True, text=True)
    if done.returncode:
        print("It failed:", *done.stderr.splitlines()[-1:])
    return [] if done.returncode else json.loads(done.stdout)


# %%

interpreted = dict(apart('checked("cpu")', checked, interpret=True))
for name, error in interpreted.items():
    assert error < 1e-6, f"{name} is wrong by {error:.1e}"
    print(f"{name:>12}, interpreted: error {error:.0e}")

a, b, c = np.ones((3, 101), dtype=np.float32)  # the kernel in Numba, too
seen = trace(add_threads, blocks_for(101, 32), 32, a, b, c)
assert (set(c), seen.problems) == ({2}, [])

# %%
# In the interpreter, ``ieee`` and ``tf32`` have the same error.
#
# What did the compiler add?
# --------------------------
#
# The compiler needs no GPU, either. Here it works for an old card (compute capability
# 7.5) and for an H100 (9.0). It must know what a launch would tell it: types,
# constants, and which addresses and sizes are multiples of 16. (New PyTorch arrays
# begin at such addresses.)

# folded: How Triton compiles without a GPU


def compiled(kernel, capability, sizes_of_16, constants):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel, types, multiples = globals()[kernel], {}, {}
    for place, name in enumerate(kernel.arg_names):
        pointer = name in ("x", "y", "out", "a", "b", "c")
        types[name] = "*fp32" if pointer else "i32"
        if name in constants:
            types[name] = "constexpr"
        elif pointer or sizes_of_16:
            multiples[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, types, constants, multiples)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    return made.asm["ptx"], made.metadata.shared


CASES = []
for kernel in ("add", "softmax"):
    for capability, fits in ((75, True), (90, True), (90, False)):
        CASES.append((kernel, capability, fits, {"BLOCK": 1024}))
for capability, how in ((75, "tf32"), (90, "tf32"), (90, "ieee")):
    CASES.append(("matmul", capability, True, {"T": 64, "D": 16, "HOW": how}))

# %%
# What comes out is PTX, the language between Triton and a GPU's machine code. For a
# thread, count its loads and stores, single or as *vectors* of four, its copies
# straight into shared memory, barriers and multiply-adds. With ``n16`` all sizes are
# multiples of 16; with ``odd`` the compiler may not assume so.

from firstlight.display import show_table

COUNT = {"ld4": "ld.global.v4", "ld1": "ld.global.b32", "st4": "st.global.v4"}
COUNT |= {"st1": "st.global.b32", "copy": "cp.async.shared", "barrier": "bar.sync"}
COUNT |= {"fma": "fma.f32", "wgmma": "wgmma.mma"}
CELLS = {"loads": {"ld4": " vector", "ld1": " single", "copy": " copies"}}
CELLS |= {"stores": {"st4": " vector", "st1": " single"}, "barriers": {"barrier": ""}}
CELLS |= {"multiply-adds": {"fma": " fma", "wgmma": " wgmma"}}

made = apart(f"[compiled(*case) for case in {CASES}]", compiled, interpret=False)
rows_of = []
for (kernel, card, fits, constants), (text, shared) in zip(CASES, made, strict=False):
    name = (
        f"{kernel}, {card / 10}, {constants.get('HOW') or ('n16' if fits else 'odd')}"
    )
    mix, cells = ptx.mix_of(text), []
    for words in CELLS.values():
        count = {w: sum(mix[i] for i in mix if i.startswith(COUNT[w])) for w in words}
        cells.append(
            ", ".join(f"{count[w]}{words[w]}" for w in words if count[w]) or "–"
        )
    rows_of.append((name, *cells, str(shared)))
head = ("kernel, card, size", *CELLS, "shared bytes")
if rows_of:
    title = "Instructions in the PTX (a loop counts once)"
    show_table(title, head, rows_of)

# %%
# - A program of ``add`` has 128 threads. Four vector loads make 16 numbers a thread,
#   2048 for all: 1024 of ``x`` and of ``y``, each once. ``softmax`` loads 1024 and
#   stores 1024: *each number of the row once*. In between it works in registers.
# - You did not ask for vector loads. They keep more bytes in flight
#   (:doc:`/tutorials/3_kernels/11_bytes_in_flight`).
# - **They are gone for sizes that are not multiples of 16**: a mask may now end within
#   four neighbours, and a row of ``softmax`` begin at any address. The bytes and the
#   Python are the same, the loads and stores four times as many. *Pad* rows if you can.
# - ``softmax`` has shared memory and barriers, and you wrote none.
# - In ``matmul`` on the H100, copies fetch the tiles of later rounds of the loop in
#   advance, which takes more shared memory.
# - Two ``wgmma`` of the whole program replace 512 multiply-adds of each thread in each
#   round. They use *tensor cores*, which multiply small matrices as a whole.
#
# But tensor cores take ``float32`` only as *TF32*: 10 bits of fraction, not 23. **And
# TF32 is what** ``tl.dot`` **does** `unless you ask for "ieee"`__. (``"tf32x3"`` adds
# three such products to keep most bits.) The interpreter cuts no bits, nor does the old
# card. So a test that passes there may fail on an H100. By how much? Round the inputs:
#
# __ https://triton-lang.org/main/python-api/generated/triton.language.dot.html

rng = np.random.default_rng(seed=1)
a, b = (rng.random(shape, dtype=np.float32) for shape in ((65, 43), (43, 71)))
short = [((m.view(np.int32) + 0x1000) & -0x2000).view(np.float32) for m in (a, b)]
exact = a.astype(np.float64) @ b
for name, product in {"float32": a @ b, "model of TF32": short[0] @ short[1]}.items():
    print(f"{name:>13}: error {np.max(np.abs(product - exact)) / exact.max():.0e}")

# %%
# A card that drops the bits instead of rounding errs more.
#
# On an NVIDIA GPU, the same check runs the compiled kernels. (AMD GPUs run Triton, too;
# this page does not try.)

# folded: On a GPU: the same check of the compiled kernels
from firstlight import Bench, best_device

device, errors = best_device(), {}
own = hasattr(triton, "compile") and os.environ.get("TRITON_INTERPRET", "0") == "0"


def driver():
    """Load what Triton launches with."""
    try:
        return triton.runtime.driver.active
    except AssertionError as problem:  # so it says that there is no libcuda.so.1
        raise OSError(*problem.args) from problem


failures = RuntimeError, OSError, ImportError, subprocess.SubprocessError
if device.type == "cuda" and torch.version.cuda and own:
    try:
        errors = driver() and checked(device)
    except (*failures, triton.TritonError) as problem:
        print("Triton does not work here:", " ".join(str(problem).split())[:300])
on_gpu = bool(errors)
for name, error in errors.items():
    assert error < (2e-3 if "tf32" in name else 2e-6), f"{name}: error {error:.1e}"
    print(f"{name:>12}, compiled: error {error:.0e}")
print("Compiled kernels", "run" if on_gpu else "cannot run", "here.")

# %%
# The kernel that torch.compile writes
# ------------------------------------
#
# Here is the heart of what PyTorch 2.13 made of ``five_steps`` for a GPU and 1823 x 781
# numbers:
#
# .. code-block:: python
#
#    tmp0 = tl.load(in_ptr0 + (r0_1 + 781*x0), r0_mask & xmask, other=0.0)
#    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
#    tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
#    tmp4 = triton_helpers.max2(tmp3, 1)[:, None].to(tl.float32)
#    tmp5 = tmp0 - tmp4
#    tmp6 = libdevice.exp(tmp5)
#    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
#    tmp9 = tl.where(r0_mask & xmask, tmp7, 0)
#    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
#    tmp11 = (tmp6 / tmp10)
#    tl.store(in_out_ptr0 + (r0_1 + 781*x0), tmp11, r0_mask & xmask)
#
# It is your kernel, made from the five steps: one load, one store, masks at the edge.
# (Theirs loads 0 there, and ``tl.where`` puts minus infinity in its place.) So try
# ``torch.compile`` first, and write Triton for what it does not find.

# folded: On a GPU: what your PyTorch writes
import warnings


def compiled_steps(z):
    """Compile the five steps, and print the kernels; None where PyTorch cannot."""
    from torch._inductor.utils import run_and_get_code

    program = torch.compile(five_steps)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parts of PyTorch warn of each other
            result, sources = run_and_get_code(program, z)
    except failures as problem:  # no C compiler, no header files of Python
        print("Nothing was compiled:", " ".join(str(problem).split())[:300])
        return None
    assert torch.allclose(result, torch.softmax(z, 1), rtol=1e-4, atol=1e-7)
    for kernel in "".join(sources).split("@triton.jit\n")[1:]:
        print(kernel.split("'''")[0])
    return program


shape = (rows, columns) if on_gpu else (1501, 1003)
z = torch.randn(shape, device=device)
program = compiled_steps(z) if on_gpu else None

# %%
# Measure
# -------
#
# What needs a GPU has a row only there: a simulator's times would tell you nothing.
# Every rate counts the floor's bytes.

bench = Bench("triton", budget=40 if on_gpu else 1.5)
size = {"n": z.numel(), "bytes": 2 * z.nbytes, "device": device}
bench.time("softmax, five steps", five_steps, z, **size)
bench.time("softmax, torch", torch.softmax, z, 1, **size)
if program:
    bench.time("softmax, torch.compile", program, z, **size)
if on_gpu:
    bench.time("softmax, Triton", run_softmax, z, out := torch.empty_like(z), **size)
    assert torch.allclose(out, torch.softmax(z, 1), rtol=1e-4, atol=1e-7)

# %%

# folded: On a GPU: the addition, also by Numba-CUDA and for an odd size
from firstlight.devices import card

if on_gpu:
    n = max(2**26, card(device).cache_bytes or 0) // 16 * 16
    tensors = [*torch.rand(2, n, device=device), torch.empty(n, device=device)]
    calls = {"torch": lambda x, y, out: torch.add(x, y, out=out)}
    calls |= {"Triton": run_add, "Triton, odd size": run_add}
    if not simulated():
        arrays = [cuda.as_cuda_array(each) for each in tensors]
        numba_add = add_threads[blocks_for(n, 256), 256]
        calls["Numba-CUDA"] = lambda *_: numba_add(*arrays)
    for name, call in calls.items():
        m = n - 1 if "odd" in name else n
        x, y, out = (each[:m] for each in tensors)
        out.zero_()
        size = {"n": m, "bytes": 12 * m, "device": device}
        bench.time(f"add, {name}", call, x, y, out, **size)
        assert torch.equal(out, x + y), f"{name} is wrong"

# %%

# folded: On a GPU: the matrix product, in TF32 and in full float32
from functools import partial

if on_gpu:
    n = 4096
    left, right, out = torch.rand(3, n, n, device=device)
    size = {"n": n, "flops": 2 * n**3, "device": device}
    choices = [triton.Config({"T": 16 * w, "D": 32}, num_warps=w) for w in (4, 8)]
    tuned = triton.autotune(choices, key=["HOW"])(matmul)
    launch = tuned[lambda chosen: (triton.cdiv(n, chosen["T"]),) * 2]
    for how, setting in (("tf32", "high"), ("ieee", "highest")):
        torch.set_float32_matmul_precision(setting)
        bench.time(f"product {how}, torch", torch.matmul, left, right, **size)
        call = partial(launch, left, right, out, n, n, n, HOW=how)
        bench.time(f"product {how}, Triton", call, **size)
        exact = left[:9].double() @ right.double()
        assert torch.allclose(out[:9].double(), exact, rtol=1e-2), how

# %%

bench.show()

# %%
# A CPU's two rows do not test the count: a matrix this small may stay in a cache. On a
# GPU, *odd size* says what the lost vector loads cost; compare products ``ieee`` with
# ``ieee``, ``tf32`` with ``tf32``.
#
# The same softmax by others, on an A100 and on an old card. The times are theirs, and
# Triton made the first two.
#
# .. measured-by-others:: fused-gain-a100 softmax-a100 softmax-gtx1050ti
#
# Where this stops being true
# ---------------------------
#
# - *Long rows.* A block lives in registers. A row of many thousand numbers needs a
#   loop, and comes from memory more than once.
# - *The count* assumes that a step reads each input once, and that nothing stays in a
#   cache between the steps.
# - *Irregular work*, such as gridding, gains little from blocks.
# - *Large arrays.* More than :math:`2^{31}` numbers need indices ``.to(tl.int64)``, or
#   addresses go wrong in silence.
#
# Exercise
# --------
#
# To *standardise* spectra, one in each row, you subtract the mean of each and divide by
# its standard deviation. How many bytes do the steps of PyTorch move, and how many
# would one kernel move? (``std`` is one step.)


def standardise(x):
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def bytes_moved(rows, columns):
    return rows * columns, rows * columns  # in steps, in one kernel


# %%

# folded: What check does


def check(answer):
    right = sum(size for _, size in watched(standardise, torch.ones(7, 1001)))
    matrix, two = 4 * 7 * 1001, 8 * 7 * 1001
    try:
        steps, one = map(float, answer(7, 1001))
    except Exception as error:
        return f"Not yet: {type(error).__name__}: {error}."
    hints = {
        "a float32 has four bytes": one in (matrix / 4, matrix / 2),
        "one kernel has to write its result, too": one == matrix,
        "in one kernel, only x comes in and only the result goes out": one != two,
        "mean and std are a number a row, no matrix": steps > right,
        "means and deviations travel, too": steps == 6 * matrix,
        "what a step writes, the next one has to read": steps < right,
    }
    hint = next((hint for hint, wrong in hints.items() if wrong), None)
    return f"Not yet: {hint}." if hint else "Right, to the byte."


# %%

print(check(bytes_moved))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. In Triton you write for a block: offsets, masks, loads. Threads and barriers
come from the compiler. Look at what it made, also for odd sizes.
2. Softmax in five steps moves {many:.0f} matrices, fused {few:.0f}. So does
torch.softmax. Count first, then try torch.compile, then write.
3. The interpreter checks your logic, not the rounding: on recent NVIDIA GPUs tl.dot
rounds float32 to TF32, unless you ask for input_precision="ieee"."""
)

# %%
# Solution
# --------

# solution


def bytes_moved_solution(rows, columns):
    matrix, vector = 4 * rows * columns, 4 * rows
    mean = deviation = matrix + vector
    subtract = divide = matrix + vector + matrix
    return mean + deviation + subtract + divide, 2 * matrix


print(f"Our solution: {check(bytes_moved_solution)}")
