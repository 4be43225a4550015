"""
Must you write the sum, the sort and the scan yourself?
=======================================================

You need the running sum of ten million numbers on a GPU, or you want them sorted. You
know how to write a :term:`kernel`. But somebody must have written this before!

Somebody has, and it isn't easy to beat. **Write down a guess: at best, a running sum
reads each number once and writes one. How many bytes will yours move?** By the end
you'll know which line to call in PyTorch, CuPy or CUDA's own library, and what it does
that your kernel can't.

**Needs:** any computer, and :doc:`reductions </tutorials/3_kernels/08_reductions>`.
"""

# %%
# Copy this
# ---------
#
# In PyTorch each is one line, on every device.

import numpy as np
import torch
from numba import cuda

from firstlight import best_device
from firstlight_kernels import blocks_for, trace

device = best_device()
numbers = torch.tensor([3, 1, 2, 1], dtype=torch.float32, device=device)

print("sum: ", numbers.sum().item())
print("sort:", torch.sort(numbers).values.tolist())
print("scan:", numbers.cumsum(0).tolist())  # the running sum, as np.cumsum

# %%
# A *scan* is the running sum, and you need it whenever a result has to know how many
# came before it. For example, to keep the positive numbers of an array, each of them
# has to find its place among those that stay.
#
# Now write it yourself
# ---------------------
#
# In one block it's number 12 of :doc:`the sixteen puzzles
# </tutorials/3_kernels/14_puzzles>`. Each :term:`thread` adds the number one place
# before, then two places before, then four, and so on. That's enough for 64 numbers.
# With ten million there are many blocks, and each begins at zero:

T = 64  # threads in a block


@cuda.jit
def scan_blocks(x, out, totals):
    near = cuda.shared.array(T, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    near[t] = x[i] if i < x.size else np.float32(0)
    by = 1
    while by < T:
        cuda.syncthreads()
        before = near[t - by] if t >= by else np.float32(0)
        cuda.syncthreads()
        near[t] += before
        by *= 2
    if i < x.size:
        out[i] = near[t]
    if t == T - 1:
        totals[cuda.blockIdx.x] = near[t]


# %%
# To go on, each block has to know the totals of all blocks before it. But in a usual
# launch a block can't wait for another one: ``cuda.syncthreads()`` is a :term:`barrier`
# for one block only. So we launch again: first for the scan of the totals, and then for
# a kernel that adds them.


@cuda.jit
def add_before(out, sums):
    i = cuda.grid(1)
    if i < out.size and cuda.blockIdx.x > 0:
        out[i] += sums[cuda.blockIdx.x - 1]


x = np.random.default_rng(seed=1).integers(0, 9, 2_001).astype(np.float32)
out, blocks = np.zeros_like(x), blocks_for(x.size, T)
totals, sums, rest = (np.zeros(blocks, np.float32) for _ in range(3))
launches = [
    trace(scan_blocks, blocks, T, x, out, totals),
    trace(scan_blocks, 1, T, totals, sums, rest[:1]),
    trace(add_before, blocks, T, out, sums),
]
assert not any(launch.problems for launch in launches)
print("the same as NumPy:", np.array_equal(out, np.cumsum(x)))

# %%
# With three launches it's right, up to 64 × 64 numbers. ``trace`` counts the bytes that
# come from the memory and go there, for each number:

moved = sum(launch.traffic.dram_bytes for launch in launches) / x.size
print(f"{moved:.1f} bytes for each number, of 8 at least")

# %%
# That's twice as many as a scan needs. Why? The blocks write their sums, and then
# everything is read again and written again. A scan does hardly anything but move
# bytes, so twice the bytes are twice the time, unless the :term:`L2` still has them.
#
# What the libraries do
# ---------------------
#
# They make a scan in *one* pass. A block that has its total writes it down, together
# with a flag. Then it looks back: it adds up the totals of the blocks before it, until
# it comes to one that already knows its whole sum. `Merrill and Garland`__ called it
# *decoupled look-back*. It moves little more than the 8 bytes. To write it you have to
# know in which order blocks start, and when one sees what another wrote, for each
# generation of cards.
#
# __ https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back
#
# NVIDIA's collection of such kernels is called CUB, a part of *CCCL*. PyTorch and CuPy
# call it for you. From Python you can call it yourself, as ``cuda.compute``:
#
# .. table:: The same three in four libraries
#
#   ============ ================== ======================= ==========================
#   library      sum                sort                    scan
#   ============ ================== ======================= ==========================
#   PyTorch      ``x.sum()``        ``torch.sort(x)``       ``x.cumsum(0)``
#   CuPy         ``cp.sum(x)``      ``cp.sort(x)``          ``cp.cumsum(x)``
#   cuda.compute ``reduce_into``    ``radix_sort``          ``inclusive_scan``
#   Numba        ``@cuda.reduce``   none                    none
#   ============ ================== ======================= ==========================
#
# If PyTorch or CuPy has what you need, call it there. ``cuda.compute`` is for *an
# operator of your own*. You give it a function in Python, and it compiles CUB's kernel
# with it. This one finds the number that is farthest from zero, with its sign:
#
# .. code-block:: python
#
#    import cupy as cp
#    import numpy as np
#    from cuda.compute import OpKind, SortOrder
#    from cuda.compute import inclusive_scan, radix_sort, reduce_into
#
#    def farther(a, b):
#        return a if abs(a) > abs(b) else b
#
#    x = cp.random.standard_normal(10_000_000, dtype=np.float32)
#    out, one, n = cp.empty_like(x), cp.empty(1, np.float32), x.size
#    zero = np.zeros(1, np.float32)
#
#    reduce_into(d_in=x, d_out=one, num_items=n, op=farther, h_init=zero)
#    inclusive_scan(d_in=x, d_out=out, num_items=n, op=OpKind.PLUS)
#    radix_sort(d_in_keys=x, d_out_keys=out, num_items=n, order=SortOrder.ASCENDING)
#
# We compiled all three for an H100, with ``cuda-cccl`` 1.2.1, and haven't measured them
# yet. Install it as ``pip install "cuda-cccl[cu13]" cupy-cuda13x``, in an environment
# of its own: it wants ``numba-cuda-mlir`` below 0.6, and :doc:`the new compiler
# </tutorials/3_kernels/15_what_a_kernel_may_contain>` is at 0.6. It's a beta, so its
# names may change. If you call such a function a thousand times, make it once, with
# ``make_reduce_into`` and the like.
#
# CuPy takes an operator of yours, too, in a line of CUDA C++, but only to make one
# number out of an array:
#
# .. code-block:: python
#
#    far = cp.ReductionKernel(
#        "T x", "T y", "x", "abs(a) > abs(b) ? a : b", "y = a", "0", "far"
#    )
#    print(far(x))
#
# .. dropdown:: Can't all blocks wait for each other?
#
#    They can, if all of them fit on the card at once. That's called a *cooperative
#    launch*, and ``cuda.cg.this_grid().sync()`` is the barrier for the whole
#    :term:`grid`. Both compilers of Numba launch such a kernel in the right way by
#    themselves. ``max_cooperative_grid_blocks(threads)`` of the compiled kernel says
#    how many blocks there may be. It saves launches, not bytes, so for a scan it's of
#    little help. It helps an iteration whose data stay in shared memory. In CuPy it's
#    ``RawKernel(…, enable_cooperative_groups=True)``. Our ``trace`` can't play it.
#
# When a library surprises you
# ----------------------------
#
# **What's the last number of the running sum of twenty million ones?** Ask NumPy, and
# PyTorch on the CPU:

ones = np.ones(20_000_000, np.float32)
last = {
    "NumPy": float(np.cumsum(ones)[-1]),
    "PyTorch": torch.from_numpy(ones).cumsum(0)[-1].item(),
}
for library, number in last.items():
    print(f"{library:>8}: {number:,.0f}")

# %%
# NumPy stops at 2²⁴. The next ``float32`` after 16,777,216 is 16,777,218, so one more
# is rounded away, three million times. PyTorch adds in ``float64`` here. On a GPU the
# numbers are added in a tree, which is :doc:`nearly as good
# </tutorials/3_kernels/08_reductions>`.
#
# Three more things are good to know:
#
# - ``torch.sort`` doesn't promise to keep the order of equal numbers. If their places
#   matter, write ``stable=True``. NaN counts as the largest number, so it comes last,
#   or first with ``descending=True``.
# - If you need only the ten largest, ``torch.topk(x, 10)`` does less than a sort. It
#   finds NaN first, so take NaN out: ``x[~x.isnan()]``.
# - A sum of ``float32`` on a GPU may differ in its last digit from run to run, if it's
#   made with :term:`atomic` additions. A sum of integers never does.
#
# Your turn
# ---------
#
# Write ``places``: it gets a tensor of booleans, and returns a tensor of integers. For
# each ``True`` it has the number of ``True`` *before* it. With ``[False, True, True,
# False, True]``, the three that stay get 0, 1 and 2. What stands at a ``False`` doesn't
# matter. There's no loop in it, only a scan.
#
# Put your answer where the dots are, and run ``firstlight try
# 16_a_sum_a_sort_a_scan.py``.


def places(keep): ...


# %%

# folded: What check does: it keeps numbers of six arrays


def check(places):
    for chosen in ("01101", "110100", "1", "111", "000", "1000000001"):
        keep = torch.tensor([each == "1" for each in chosen])
        try:
            found = places(keep.clone())
            if not isinstance(found, torch.Tensor) or found.shape != keep.shape:
                return "Not yet: return a tensor with an integer for each of keep."
            if found.is_floating_point() or found.is_complex():
                return "Not yet: a place is an integer."
            found, right = found[keep].tolist(), list(range(int(keep.sum())))
        except Exception as error:
            return f"Not yet. {type(error).__name__}: {error}"
        if found == [place + 1 for place in right] != right:
            return "Not yet: all are one too large. Does a number count itself?"
        if found != right:
            return f"Not yet. keep = {keep.int().tolist()}: {found}, not {right}."
    return "Right: each finds its place, whatever stands before it."


# %%

print(check(places))

# %%
# That's how a GPU does ``x[x > 0]``: a scan, and then each number goes to its place.
#
# Three lines to remember
# -----------------------

# remember

print("1. Call the library first: sum, sort and cumsum are a line each in PyTorch.")
print("2. A plain launch has no barrier for all blocks, so ours takes three. They move")
print(f"   {moved:.0f} bytes for each number, and a library's scan little more than 8.")
print("3. cuda.compute takes an operator of your own, in Python. Write the kernel if")
print("   that isn't enough.")

# %%
# Solution
# --------

# solution


def places_solution(keep):
    return keep.cumsum(0) - 1


print(f"Our solution: {check(places_solution)}")
