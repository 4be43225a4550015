"""
Can PyTorch train through a kernel of yours?
============================================

For anyone with a :term:`Numba` :term:`kernel` who fits a model in PyTorch. Yes: a short
function :term:`launches <launch>` the kernel on PyTorch's memory and in PyTorch's
current :term:`stream`, and a ``torch.autograd.Function`` gives it a :term:`gradient`.
Each part can go wrong without an error: the wrong stream, :term:`strides <stride>`, a
forgotten factor in the gradient. Here you see each of them go wrong (the stream in a
toy), and what prevents it or finds it. Try ``torch.compile`` first, which can fuse a
chain of operations without a kernel of yours. What one kernel gains over the chain, you
count in bytes before you write it.

**You will learn**

- to share memory between PyTorch, NumPy, Numba and CuPy, and to prove it;
- which stream a kernel goes to, and who may write to its memory meanwhile;
- to give a kernel a gradient, and to test it with a check that can fail;
- to predict from bytes what one kernel gains over a chain of operations.

**Time:** 13 minutes. **Needs:** any computer, :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`, and to have called ``backward`` before.
"""

# %%
# One formula, two loops
# ----------------------
#
# You fit a model :math:`m` to data :math:`d` with weights :math:`w`. Some data are bad:
# a cosmic ray on a detector, a radar in a radio telescope. With squares, one bad number
# pulls the whole fit. In a *robust* misfit, such as Geman and McClure's, no number
# counts more than 1:
#
# .. math::
#
#     \rho = \frac{z}{1 + z}, \qquad z = w\,(m - d)^2.
#
# PyTorch has no call for it, but a chain of five operations:

import torch


def chain(model, data, weight):
    r = model - data
    z = weight * r * r
    return z / (1 + z)


# %%
# The formula and its slope :math:`\partial\rho/\partial m` are plain functions. Numba
# puts the same two into a kernel, and into a loop over the cores of the CPU.
# (``np.float32(1)``, because a plain ``1`` would make ``float64`` of it all:
# :doc:`/tutorials/3_kernels/09_what_the_compiler_did`.)

import numpy as np

from firstlight import Bench, best_device
from firstlight.kernels import blocks_for, cuda, simulated, trace

from numba import njit, prange


def rho(model, data, weight):
    r = model - data
    z = weight * r * r
    return z / (np.float32(1) + z)


def slope(model, data, weight):
    r = model - data
    bottom = np.float32(1) + weight * r * r
    return np.float32(2) * weight * r / (bottom * bottom)


rho_gpu, slope_gpu = cuda.jit(device=True)(rho), cuda.jit(device=True)(slope)
rho_cpu, slope_cpu = map(njit(error_model="numpy"), (rho, slope))

# %%


@cuda.jit
def value_kernel(model, data, weight, out):
    i = cuda.grid(1)
    while i < out.size:
        out[i] = rho_gpu(model[i], data[i], weight[i])
        i += cuda.gridsize(1)


@cuda.jit
def slope_kernel(grad, model, data, weight, out):
    i = cuda.grid(1)
    while i < out.size:
        out[i] = grad[i] * slope_gpu(model[i], data[i], weight[i])
        i += cuda.gridsize(1)


@njit(parallel=True)
def value_loop(model, data, weight, out):
    for i in prange(out.size):
        out[i] = rho_cpu(model[i], data[i], weight[i])


@njit(parallel=True)
def slope_loop(grad, model, data, weight, out):
    for i in prange(out.size):
        out[i] = grad[i] * slope_cpu(model[i], data[i], weight[i])


# %%
# Launch it on tensors
# --------------------
#
# This is all it takes to launch a kernel on a GPU's tensors. Nearly every line prevents
# a mistake that you will see:


def launch_on_gpu(kernel, *tensors):
    first = tensors[0]
    out = torch.empty(first.shape, dtype=first.dtype, device=first.device)
    flat = [t.detach().contiguous().view(-1) for t in (*tensors, out)]
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    blocks = blocks_for(out.numel(), 4 * 256)  # four elements a thread
    kernel[blocks, 256, stream](*map(cuda.as_cuda_array, flat))
    return out


# %%
# A kernel does not notice tensors of different shapes or types, so ``launch`` compares
# them first. Without a GPU, it runs the loop, or the kernel in the :term:`simulator`.

# folded: launch: on the GPU, in the loop or in the simulator
device = best_device()
on_gpu = device.type == "cuda" and not simulated()
LOOPS = value_loop, slope_loop


def launch(kernel, *tensors):
    first = tensors[0]
    for t in tensors:
        if (t.shape, t.dtype, t.device) != (first.shape, first.dtype, first.device):
            raise ValueError("give tensors of one shape, type and device")
    if on_gpu and kernel not in LOOPS:
        return launch_on_gpu(kernel, *tensors)
    out = torch.empty(first.shape, dtype=first.dtype, device=first.device)
    flat = [t.detach().contiguous().view(-1).numpy() for t in (*tensors, out)]
    if kernel in LOOPS:
        kernel(*flat)
    else:  # the simulator: small and slow
        arrays = [cuda.to_device(array) for array in flat]
        kernel[2, 4](*arrays)
        arrays[-1].copy_to_host(flat[-1])
    return out


# %%
# Predict
# -------
#
# What will the kernel gain over the chain? Each operation of PyTorch's reads its inputs
# from memory and writes a new tensor there, and so do those of the gradient. A
# ``TorchDispatchMode`` sees them all, so that their bytes can be counted.

# folded: A counter of bytes
from torch.utils._python_dispatch import TorchDispatchMode


class ByteCount(TorchDispatchMode):
    """Adds up the bytes that operations move."""

    moved = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        if not operation.is_view:  # a view looks at old memory and moves nothing
            for t in (*args, result):
                if torch.is_tensor(t):  # some are one stored number in another shape
                    self.moved += min(t.nbytes, t.untyped_storage().nbytes())
        return result


# %%

model, data, weight = torch.rand(3, 1001)
with ByteCount() as counter:
    misfits = chain(model.requires_grad_(), data, weight)
    of_value = counter.moved // 1001
    misfits.sum().backward()

# %%
# What does a kernel need? For the value, it reads three ``float32`` and writes one: 16
# bytes. For the gradient it reads one number more: 20. The sum of all values costs 4,
# and a copy that this sum makes necessary, explained below, costs 4. There is little
# arithmetic, so bytes are time. A *model* for 33 million elements, from
# :term:`data sheets <data sheet>`:

from firstlight.display import quantity, show_table
from firstlight.timing.specs import spec

least = {"chain": (of_value, counter.moved // 1001), "kernels": (16, 16 + 20 + 4 + 4)}
cards, rows = ("L4", "H100 SXM"), []
for name, (value, both) in least.items():
    floors = (quantity(2**25 * both / spec(card, "bandwidth"), "s") for card in cards)
    rows.append((name, f"{value} B", f"{both} B", *floors))
head = ("", "value", "with gradient", *cards)
title = "Bytes an element, and the least time for 33 million with gradient"
show_table(title, head, rows)
gains = [old / new for old, new in zip(least["chain"], least["kernels"], strict=True)]
print(f"predicted gain: value {gains[0]:.1f} ×, with gradient {gains[1]:.1f} ×")

# %%
# The trace counts the same bytes for the kernels:

for kernel, moved in ((value_kernel, 16), (slope_kernel, 20)):
    arrays = [np.ones(101, np.float32) for _ in range(moved // 4)]
    seen = trace(kernel, 2, 32, *arrays)
    assert not seen.problems, seen.problems[0]
    assert seen.traffic.useful_bytes == 101 * moved
    print(f"{kernel.__name__}: {seen.traffic.useful_bytes / 101:.0f} bytes an element")

# %%
# One memory, several libraries
# -----------------------------
#
# An array is an address, a shape, strides and a type. A library that tells these four
# lets others work on its memory, without a copy. For NVIDIA's GPUs there are two
# protocols: the `CUDA array interface`__, which Numba, CuPy and PyTorch know, and
# `DLPack`__ (``from_dlpack``), for any device. The name of a call does not always tell
# whether it shares or copies. So test it: is the address the same, and does one see
# what is written to the other?
#
# __ https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html
# __ https://data-apis.org/array-api/latest/design_topics/data_interchange.html

from importlib import import_module, util

t, a = torch.zeros(5), np.zeros(5)
pairs = {
    "t.numpy()": (t, t.numpy()),
    "torch.from_numpy(a)": (a, torch.from_numpy(a)),
    "torch.from_dlpack(a)": (a, torch.from_dlpack(a)),
    "torch.as_tensor(a)": (a, torch.as_tensor(a)),
    "torch.as_tensor(a).float()": (a, torch.as_tensor(a).float()),
    "torch.tensor(a)": (a, torch.tensor(a)),
}
if on_gpu:
    t, a = torch.zeros(5, device=device), cuda.to_device(np.zeros(5))
    pairs["cuda.as_cuda_array(t)"] = (t, cuda.as_cuda_array(t))
    pairs["torch.as_tensor(a, device=...)"] = (a, torch.as_tensor(a, device=device))
if on_gpu and util.find_spec("cupy"):
    pairs["cupy.from_dlpack(t)"] = (t, import_module("cupy").from_dlpack(t))

# %%


def address(array):
    on_cuda = getattr(array, "__cuda_array_interface__", None)
    return (on_cuda or np.asarray(array).__array_interface__)["data"][0]


shares = {}
for call, (array, other) in pairs.items():
    array[0] = 42
    shares[call] = address(array) == address(other) and float(other[0]) == 42
rows = [(call, "yes" if same else "no, a copy") for call, same in shares.items()]
show_table("Who shares memory?", ("call", "same memory"), rows)
if not util.find_spec("cupy"):
    print("(CuPy is not installed here.)")

# %%
# A copy is made where the type changes, and ``torch.tensor`` always makes one. On a
# GPU, ``cuda.as_cuda_array(t)`` goes one way, ``torch.as_tensor(a, device=...)`` the
# other. Whoever made the memory owns it, and the other keeps a reference, so it is not
# freed while you use it. Only a plain number, such as ``t.data_ptr()``, keeps nothing.
#
# Two traps of memory
# -------------------
#
# *Strides.* ``image.T`` is the same memory, with its strides exchanged, and the kernel
# wants a plain row of numbers. Inputs may be copied (``contiguous`` does so if needed).
# The output may not: the kernel would fill the copy, as below.
#
# *Detached.* PyTorch does not hand out the memory of a tensor that requires a gradient.
# ``detach`` gets it, but then PyTorch does not notice what you write:

out = torch.full_like(torch.rand(5, 7).T, -1)  # takes over the strides as well
flat = out.reshape(-1)  # so this is a copy, without a word; view would have raised
flat[:] = 7  # as a kernel would write
written = int((out == 7).sum())
print(f"{written} of {out.numel()} outputs were written")

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.exp()  # keeps y for the way back: the slope of exp is exp
y.detach().numpy()[:] = 0  # as a kernel would write
silently_wrong = torch.autograd.grad(y.sum(), x)[0]
print("gradient of exp:", silently_wrong.tolist(), "and no error")

# %%
# PyTorch counts how often each tensor is changed in place, and its backward pass
# refuses one that was changed after it was saved. It counts its own operations, not
# yours. So write into new tensors, or tell it:
# ``torch.autograd.graph.increment_version(y)`` makes an error of this.
#
# Which stream, whose memory?
# ---------------------------
#
# PyTorch puts work into its *current stream*, a queue of the GPU. ``kernel[blocks,
# threads]``, without a third entry, goes to *Numba's* default stream. Unless somebody
# opens another stream, both are the same. Under ``with torch.cuda.stream(side):`` they
# are two, and nothing orders them. `A test of PyTorch's own`__ had its kernel in the
# wrong one, and failed about 3% of the time, says its author.
#
# The second trap is memory. A launch does not wait. When Python drops a tensor, the
# kernel on it may not have begun, and PyTorch gives the memory to the next tensor at
# once. In the *same* stream that is right, as the next tensor's work comes later. In
# another it is not: ``x.record_stream(side)`` makes PyTorch `keep the memory`__ until
# ``side`` has done what it was given.
#
# __ https://github.com/pytorch/pytorch/pull/182770
# __ https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html
#
# A toy shows both: two streams that are threads on your CPU, as in
# :doc:`/tutorials/2_devices/06_queues`. A kernel sums ``x``, 1000 ones. Meanwhile
# Python drops ``x``, and allocates a ``y``:

# folded: The two streams and the kernel, in four versions
from time import sleep

from firstlight.timing.toy_stream import ToyStream


def slow(seconds, function, *arguments):
    sleep(seconds)
    return function(*arguments)


def story(own_stream=False, waits=False, recorded=False):
    torchs, x = ToyStream("torch"), np.zeros(1000)
    yours = ToyStream("kernel", beside=torchs) if own_stream else torchs
    torchs.launch(sleep, 0.1, label="earlier work")
    torchs.launch(slow, 0.05, x.fill, 1, label="x = 1")
    if waits:
        yours.wait_event(torchs.record())
    total = yours.launch(slow, 0.1, x.sum, label="sum of x")
    y = np.zeros(1000) if recorded else x  # the memory that the dropped x had
    torchs.launch(slow, 0.05, y.fill, -1, label="y = -1")
    torchs.synchronize()
    return int(total.item()), [span for span in torchs.spans if span.lane != "host"]


stories = {
    "its own stream": story(True),
    "its own stream, waits for x": story(True, True),
    "its own stream, waits, x recorded": story(True, True, True),
    "torch's stream": story(),
}

# %%
# A lane for each stream, and the sum that came out:

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

colours = {"x = 1": "#2f7d4f", "sum of x": "#2e7ab0", "y = -1": "#b8394b"}
fig, axes = plt.subplots(4, figsize=(7.2, 5), sharex=True, layout="constrained")
for ax, (title, (total, spans)) in zip(axes, stories.items(), strict=True):
    zero = min(s.start for s in spans)
    for s in spans:
        at, wide = {"left": s.start - zero, "height": 0.9}, s.end - s.start
        row = ("torch", "kernel").index(s.lane)
        bar = ax.barh(row, wide, **at, fc=colours.get(s.label, "#6b7280"), ec="black")
        ax.bar_label(bar, [s.label], label_type="center", color="#fefefe", size=9)
    ax.set(ylim=(1.5, -0.5), xticks=[], yticks=[0, 1], yticklabels=["torch", "kernel"])
    ax.set_title(f"{title}: the sum is {total}", size=11, loc="left")
axes[3].set_xlabel("time, in a toy")
early, stolen, kept, same = (total for total, _ in stories.values())
finding = f"1000 ones add up to {early} or {stolen}, without an error"
fig.suptitle(f"Toy: in the wrong stream {finding}", size=12)
fig.set_label(
    "A toy: four pairs of lanes, torch's stream and the kernel's. In its own, the sum "
    f"runs before x is filled: {early}. If it waits for x, y is written to the same "
    f"memory while it runs: {stolen}. With x recorded, y gets other memory: {kept}. In "
    f"torch's stream all come one after the other: {same}."
)
plt.show()

# %%
# So **launch on torch's current stream**, as ``launch`` does, and neither trap is
# there. A stream of your own needs four calls each time: ``side.wait_stream(main)``
# before and ``main.wait_stream(side)`` after; ``x.record_stream(side)`` for each input,
# and ``out.record_stream(main)`` for what was made under ``side``.
#
# Give it a gradient
# ------------------
#
# A ``torch.autograd.Function`` is two functions. ``forward`` computes, and saves what
# the backward pass needs. ``backward`` is the *chain rule*: it gets ``grad``, how much
# the loss changes with each output, and returns how much it changes with each input.

from functools import partial

from torch.autograd.function import once_differentiable


class Misfit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernels, model, data, weight):
        ctx.save_for_backward(model, data, weight)
        ctx.slope = kernels[1]
        return launch(kernels[0], model, data, weight)

    @staticmethod
    @once_differentiable  # the kernel has no gradient of its own
    def backward(ctx, grad):
        if any(ctx.needs_input_grad[2:]):
            raise NotImplementedError("there is a gradient for the model only")
        return None, launch(ctx.slope, grad, *ctx.saved_tensors), None, None


by_kernel = partial(Misfit.apply, (value_kernel, slope_kernel))
by_loop = partial(Misfit.apply, (value_loop, slope_loop))


def gradient(way, loss, model, data, weight):
    model = model.detach().requires_grad_()
    return torch.autograd.grad(loss(way(model, data, weight)), model)[0]


# %%
# ``None`` stands for *no gradient*. For an input that does need one, PyTorch would
# silently add nothing, so this ``backward`` raises. For a sum, ``grad`` is one stored
# number that looks like a full array (its strides are 0), and ``contiguous`` writes it
# out: that is the copy of 4 bytes an element. *Check* value and gradient against the
# chain in ``float64``: odd sizes, an outlier, strides.

same_to = partial(torch.testing.assert_close, rtol=1e-5, atol=0)
place = device if on_gpu else torch.device("cpu")
for shape in ((1,), (101,), (5, 7)):
    tensors = torch.rand(3, *shape).to(place)
    tensors[1].view(-1)[0] = 1000
    tensors = [tensor.mT if len(shape) == 2 else tensor for tensor in tensors]
    exact = [tensor.double() for tensor in tensors]
    slopes = gradient(chain, torch.mean, *exact)
    for way in (by_kernel,) if on_gpu else (by_kernel, by_loop):
        same_to(way(*tensors).double(), chain(*exact))
        same_to(gradient(way, torch.mean, *tensors).double(), slopes)
print("values and gradients are right")

# %%
# A check that can fail
# ---------------------
#
# It is easy to forget ``grad`` in ``backward``. With a sum that is right by accident,
# as there ``grad`` is 1. ``gradcheck`` needs no loss. It moves each input a little,
# watches each output, and compares the change with what ``backward`` says. Such small
# differences need ``float64``, and few numbers, as each costs two launches.

from torch.autograd.gradcheck import GradcheckError, gradcheck


class Forgetful(Misfit):
    @staticmethod
    def backward(ctx, grad):
        return Misfit.backward(ctx, torch.ones_like(grad))


seven = [*torch.rand(3, 7, dtype=torch.float64, device=place)]
verdicts = {}
for kind in (Misfit, Forgetful):
    way, name = partial(kind.apply, (value_kernel, slope_kernel)), kind.__name__
    for loss in (torch.sum, torch.mean):
        ratios = gradient(way, loss, *seven) / gradient(chain, loss, *seven)
        print(f"{name}, {loss.__name__}: {ratios.mean():.1f} × the gradient")
    try:
        verdicts[name] = str(gradcheck(way, (seven[0].requires_grad_(), *seven[1:])))
    except GradcheckError as error:
        verdicts[name] = str(error).splitlines()[0].rstrip(",")
    print(f"{name}, gradcheck: {verdicts[name]}")

# %%
# With a mean of 7 numbers, the gradient is 7 times too large, and a fit still goes
# downhill. The check finds it.
#
# For torch.compile
# -----------------
#
# ``torch.compile`` reads your Python to see which operations it makes, and it cannot
# read a kernel. So make each launch an operation of its own, and say which shape comes
# out, and what the gradient is. (``torch.library.opcheck`` tests it.)

# folded: The two operations, with their shapes and the gradient
from torch.library import custom_op

three = "Tensor model, Tensor data, Tensor weight) -> Tensor"
value_op, slope_op = (
    custom_op(name, partial(launch, kernel), mutates_args=(), schema=schema)
    for name, kernel, schema in (
        ("firstlight::misfit", value_kernel, f"({three}"),
        ("firstlight::misfit_slope", slope_kernel, f"(Tensor grad, {three}"),
    )
)
for operation in (value_op, slope_op):
    operation.register_fake(lambda first, *_: first.new_empty(first.shape))
value_op.register_autograd(
    lambda ctx, grad: (slope_op(grad, *ctx.saved_tensors), None, None),
    setup_context=lambda ctx, inputs, **_: ctx.save_for_backward(*inputs),
)
same_to(gradient(value_op, torch.mean, *seven), gradient(chain, torch.mean, *seven))
print("the operation's gradient is right")

# %%
# Measure
# -------
#
# Value and gradient for many elements, each with the bytes that it moves.

bench = Bench("kernels-in-pytorch", budget=8 if on_gpu else 2.5)


def time_both(label, way, kind, tensors):
    size = {"n": tensors[0].numel(), "device": tensors[0].device}
    value, both = (size["n"] * moved for moved in least[kind])
    bench.time(f"{label}, value", way, *tensors, bytes=value, **size)
    steps = gradient, way, torch.sum, *tensors
    bench.time(f"{label}, gradient", *steps, bytes=both, **size)


tensors = [*torch.rand(3, 4_000_001)]
time_both("torch chain", chain, "chain", tensors)
time_both("Numba loop", by_loop, "kernels", tensors)
if device.type != "cpu":
    tensors = [*torch.rand(3, 2**25 + 1, device=device)]
    time_both("GPU: torch chain", chain, "chain", tensors)
if on_gpu:
    time_both("GPU: Numba kernel", by_kernel, "kernels", tensors)
bench.show()

# %%
# Does the gain follow from the bytes?

chained, mine = "torch chain", "Numba loop"
if on_gpu:
    chained, mine = "GPU: torch chain", "GPU: Numba kernel"
for what, gain in zip(("value", "gradient"), gains, strict=True):
    ratio = bench[f"{chained}, {what}"].median / bench[f"{mine}, {what}"].median
    print(f"{mine}, {what}: gain {ratio:.1f} ×, predicted {gain:.1f} ×")

# %%
# On a CPU only roughly: for each new tensor the system has to find memory, in both ways
# (:doc:`/tutorials/1_setup/02_first_speedup`), and a large :term:`cache` may hold some
# of them. On a GPU, PyTorch keeps memory that it once had, and 33 million elements fit
# no cache, so bytes should decide.
#
# What did fusing gain others? These are softmax on an A100, by infra-practices, and the
# time of one operation, by a user of Mu Li's benchmarks.
#
# .. measured-by-others:: fused-gain-a100 softmax-steps-a100 operation-rtx4090
#
# Where this stops being true
# ---------------------------
#
# - *What a compiler can fuse.* ``torch.compile`` can make one kernel of a chain like
#   this (:doc:`/tutorials/3_kernels/13_triton`). Write your own for what it cannot see,
#   such as loops that end early.
# - *Few elements.* Then dispatch overhead decides, not bytes.
# - *Several GPUs.* PyTorch and Numba each have a current one. Make the tensors' GPU,
#   say number ``i``, current in both: ``with torch.cuda.device(i), cuda.gpus[i]:``.
# - *Other makers.* Numba's kernels need NVIDIA's GPUs. PyTorch's side does not.
#
# Exercise
# --------
#
# ``Misfit`` reads model, data and weight twice. Let ``forward`` compute the slope as
# well, and keep that one tensor for ``backward``, which then only multiplies it with
# ``grad``. How many bytes does each of the two kernels move for an element, at least?

answer = {"forward": 16, "backward": 20}

# %%

# folded: What check does


def check(answer):
    right = {
        "forward": (20, "it reads three numbers and writes two, misfit and slope"),
        "backward": (12, "it reads grad and the slope, and writes one number"),
    }
    for name, (moved, hint) in right.items():
        given = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(given, (int, float)) or isinstance(given, bool):
            return f"Not yet: give a dictionary with a number for {name!r}."
        if given in (moved // 4, 2 * moved):
            return (
                f"Not yet: {name}, right if a float32 had {4 * given // moved} bytes."
            )
        if given != moved:
            return f"Not yet: {name}, not {given:g}. Hint: {hint}."
    return "Right: 32 in place of 36, for one tensor more to keep."


# %%

print(check(answer))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. Launch on torch's current stream. Elsewhere, in our toy, 1000 ones added up
to {early} or {stolen}.
2. Prove that two arrays share memory by their address, and a gradient by gradcheck in
float64.
3. Count bytes: {least["chain"][1]} for the chain, {least["kernels"][1]} fused."""
)

# %%
# Solution
# --------

# solution

answer_solution = {"forward": 20, "backward": 12}

print(f"Our solution: {check(answer_solution)}")
