"""
Can PyTorch train through a kernel of yours?
============================================

You fit a model in PyTorch, and some of your data are bad, for example because a cosmic
ray hit the detector. So you've written a loss that doesn't let one bad number pull the
whole fit. It's a :term:`kernel` in Numba. Then you call ``loss.backward()``, and
PyTorch says that there is no gradient.

Is your loss a chain of PyTorch's operations, without a loop that stops early? Then try
``torch.compile`` first: it was :ref:`faster than our kernel <kernel-gain>`. We take
such a chain all the same, because it can tell us whether our kernel is right.

In PyTorch, our loss takes five operations, and in the kernel one. **Write down a guess:
how many times as fast will the kernel be?** By the end it will have a gradient, and a
test will have found a mistake in it that a fit would have hidden.

**Needs:** :doc:`a first kernel </tutorials/3_kernels/01_first_kernel>`, in Numba, or
one :ref:`in CUDA C++ or Triton <other-kernels>`. Without an NVIDIA GPU, loops on the
CPU take the place of your kernels.
"""

# %%
# A kernel on PyTorch's memory
# ----------------------------
#
# The loss compares a model :math:`m` with data :math:`d`, number by number. Each number
# has a weight :math:`w`. The loss grows like a square at first. But however wrong a
# number is, it never counts more than 1, as Geman and McClure proposed:
#
# .. math::
#
#     \rho = \frac{z}{1 + z}, \qquad z = w\,(m - d)^2.
#
# Here it is in PyTorch, as a chain of five operations, and then as a kernel. Each
# thread of the kernel goes on to further elements until all are done. In a kernel, a
# plain ``1`` would make ``float32`` numbers ``float64``, so it's ``np.float32(1)``.

import numpy as np
import torch
from numba import cuda, njit, prange

from firstlight import Bench, best_device
from firstlight_kernels import blocks_for, simulated, trace


def chain(model, data, weight):
    r = model - data
    z = weight * r * r
    return z / (1 + z)


def rho(model, data, weight):
    r = model - data
    z = weight * r * r
    return z / (np.float32(1) + z)


rho_gpu = cuda.jit(device=True)(rho)


@cuda.jit
def value_kernel(model, data, weight, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = rho_gpu(model[i], data[i], weight[i])


# %%
# How do you launch it on a tensor? PyTorch and Numba can share memory, so nothing has
# to be copied. ``cuda.as_cuda_array`` makes a Numba array of a tensor's address, shape
# and type, and ``torch.as_tensor(array, device="cuda")`` makes a tensor of a Numba
# array.


def launch_on_gpu(kernel, *tensors):
    out = torch.empty(
        tensors[0].shape, dtype=tensors[0].dtype, device=tensors[0].device
    )
    flat = [t.detach().contiguous().view(-1) for t in (*tensors, out)]
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    blocks = blocks_for(out.numel(), 4 * 256)  # four elements a thread
    kernel[blocks, 256, stream](*map(cuda.as_cuda_array, flat))
    return out


# %%
# Our kernel counts on numbers that lie one after the other. Those of ``image.T`` don't,
# so ``contiguous`` makes a copy.
#
# ``stream`` is the queue that PyTorch puts its own work into. Without it, Numba uses a
# queue of its own, and your kernel may read a tensor before PyTorch has written it. `A
# test of PyTorch's own`__ launched a kernel into the wrong queue, and failed about 3%
# of the time, says its author. The other 97% looked fine.
#
# With two GPUs, say which one, too. PyTorch's stream is that of its current GPU, and
# Numba keeps to the one that it began with. So put the lines from ``stream`` on into
# ``with torch.cuda.device(out.device), cuda.gpus[out.device.index]:``. We had only one.
#
# __ https://github.com/pytorch/pytorch/pull/182770

# folded: launch: the same, with a loop on the CPU where there is no NVIDIA GPU

device = best_device()
on_gpu = device.type == "cuda" and not simulated()
place = device if on_gpu else torch.device("cpu")
rho_cpu = njit(error_model="numpy")(rho)


@njit(parallel=True)
def value_loop(model, data, weight, out):
    for i in prange(out.size):
        out[i] = rho_cpu(model[i], data[i], weight[i])


def launch(kernel, *tensors):
    if any(t.shape != tensors[0].shape for t in tensors):
        raise ValueError("give tensors of one shape")
    if tensors[0].is_cuda:
        return launch_on_gpu(kernel, *tensors)
    out = torch.empty(tensors[0].shape, dtype=tensors[0].dtype)
    LOOPS[kernel](*(t.detach().contiguous().view(-1).numpy() for t in (*tensors, out)))
    return out


LOOPS = {value_kernel: value_loop}

# %%
# Let's try it on seven numbers, a bad one among them, and ask for the gradient.
# ``launch`` calls ``launch_on_gpu``, or a loop if there's no GPU:

model, data, weight = torch.rand(3, 7, dtype=torch.float64, device=place)
model[0] = 1000
ours = launch(value_kernel, model.requires_grad_(), data, weight)
print("the same as the chain:", torch.allclose(ours, chain(model, data, weight)))
try:
    ours.sum().backward()
except RuntimeError as error:
    print(error)

# %%
# The values are right. But PyTorch only knows the gradients of its own operations, and
# our kernel isn't one.
#
# Make it an operation
# --------------------
#
# So let's make it one. It gets a name, and type hints say what goes in and what comes
# out. Ours writes into a new tensor, so it's ``mutates_args=()``. If yours writes into
# one that it was given, name that, for example ``mutates_args={"out"}``. Otherwise
# PyTorch may silently compute with wrong values.

from torch import Tensor
from torch.library import custom_op


@custom_op("firstlight::misfit", mutates_args=())
def misfit(model: Tensor, data: Tensor, weight: Tensor) -> Tensor:
    return launch(value_kernel, model, data, weight)


# %%
# .. _other-kernels:
#
# Is yours in :doc:`Triton </tutorials/3_kernels/13_triton>` or in CUDA C++? Only this
# operation changes:
#
# .. dropdown:: The same in Triton
#
#    .. code-block:: python
#
#       import triton
#       import triton.language as tl
#       from torch.library import triton_op, wrap_triton
#
#
#       @triton.jit
#       def rho(m, d, w, out, n, BLOCK: tl.constexpr):
#           i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
#           r = tl.load(m + i, mask=i < n) - tl.load(d + i, mask=i < n)
#           z = tl.load(w + i, mask=i < n) * r * r
#           tl.store(out + i, z / (1 + z), mask=i < n)
#
#
#       @triton_op("firstlight::misfit", mutates_args={})
#       def misfit(model: Tensor, data: Tensor, weight: Tensor) -> Tensor:
#           m, d, w = (t.contiguous() for t in (model, data, weight))
#           out, n = torch.empty_like(m), m.numel()
#           wrap_triton(rho)[(triton.cdiv(n, 1024),)](m, d, w, out, n, BLOCK=1024)
#           return out
#
# .. dropdown:: The same in CUDA C++
#
#    `load_inline`__ compiles it:
#
#    .. code-block:: python
#
#       from torch.utils.cpp_extension import load_inline  # needs nvcc and ninja
#
#       source = r"""
#       #include <c10/cuda/CUDAGuard.h>
#
#       template <class T>
#       __global__ void rho(const T *m, const T *d, const T *w, T *out, int64_t n) {
#         int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
#         if (i < n) {
#           T r = m[i] - d[i], z = w[i] * r * r;
#           out[i] = z / (1 + z);
#         }
#       }
#
#       torch::Tensor value(torch::Tensor m, torch::Tensor d, torch::Tensor w) {
#         for (auto &t : {d, w})
#           TORCH_CHECK(t.sizes() == m.sizes() && t.dtype() == m.dtype() &&
#                       t.device() == m.device(), "give tensors of one kind");
#         m = m.contiguous(), d = d.contiguous(), w = w.contiguous();
#         auto out = torch::empty_like(m);
#         auto n = out.numel();
#         if (n == 0) return out;  // a grid of no blocks would be an error
#         c10::cuda::CUDAGuard guard(m.device());
#         auto stream = c10::cuda::getCurrentCUDAStream();
#         AT_DISPATCH_FLOATING_TYPES(m.scalar_type(), "rho", [&] {
#           rho<<<(n + 255) / 256, 256, 0, stream>>>(
#               m.data_ptr<scalar_t>(), d.data_ptr<scalar_t>(),
#               w.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
#         });
#         C10_CUDA_KERNEL_LAUNCH_CHECK();
#         return out;
#       }
#       """
#       head = "torch::Tensor value(torch::Tensor m, torch::Tensor d, torch::Tensor w);"
#       built = load_inline("misfit", head, source, functions=["value"])
#
#
#       @custom_op("firstlight::misfit", mutates_args=())
#       def misfit(model: Tensor, data: Tensor, weight: Tensor) -> Tensor:
#           return built.value(model, data, weight)
#
#    ``nvcc`` compiles this for an H100. With threads of a CPU in place of a GPU's, its
#    kernel gave the chain's values, and passed ``opcheck``. To ship it as a wheel,
#    follow `PyTorch's tutorial`__.
#
#    __ https://docs.pytorch.org/docs/stable/cpp_extension.html
#    __ https://docs.pytorch.org/tutorials/advanced/cpp_custom_ops.html
#
# What's its gradient? If the model changes a little, by how much does :math:`\rho`
# change? This is the derivative:
#
# .. math::
#
#     \frac{\partial\rho}{\partial m} = \frac{2\,w\,(m - d)}{(1 + z)^2}.
#
# We make a second kernel and a second operation for this *slope*, like the first.

# folded: The slope, as a kernel, a loop and an operation


def slope(model, data, weight):
    r = model - data
    bottom = np.float32(1) + weight * r * r
    return np.float32(2) * weight * r / (bottom * bottom)


slope_gpu, slope_cpu = cuda.jit(device=True)(slope), njit(error_model="numpy")(slope)


@cuda.jit
def slope_kernel(grad, model, data, weight, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = grad[i] * slope_gpu(model[i], data[i], weight[i])


@njit(parallel=True)
def slope_loop(grad, model, data, weight, out):
    for i in prange(out.size):
        out[i] = grad[i] * slope_cpu(model[i], data[i], weight[i])


LOOPS[slope_kernel] = slope_loop


@custom_op("firstlight::misfit_slope", mutates_args=())
def misfit_slope(grad: Tensor, model: Tensor, data: Tensor, weight: Tensor) -> Tensor:
    return launch(slope_kernel, grad, model, data, weight)


# %%
# Now we tell PyTorch what to keep on the way forward, in ``ctx``, and what to do with
# it on the way back:


def keep(ctx, inputs, **_):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    ones = torch.ones_like(grad)
    return misfit_slope(ones, *ctx.saved_tensors), None, None


misfit.register_autograd(backward, setup_context=keep)

# %%
# The two ``None`` mean *no gradient* for data and weights, because we only fit the
# model. Now we compare with the gradient of the chain, which PyTorch works out by
# itself:


def gradient(way, loss):
    given = model.detach().requires_grad_()
    return torch.autograd.grad(loss(way(given, data, weight)), given)[0]


ratio = gradient(misfit, torch.sum) / gradient(chain, torch.sum)
print(f"our gradient / PyTorch's: {ratio.mean():.3f}")

# %%
# The kernel has a gradient, and it's right. Or is it? **We've made a mistake in**
# ``backward``\ **. Can you find it?**
#
# Would you notice?
# -----------------
#
# Take another loss, the mean instead of the sum:

ratio = gradient(misfit, torch.mean) / gradient(chain, torch.mean)
print(f"with a mean: {ratio.mean():.3f}")

# %%
# It's 7 times too large. The argument ``grad`` says how much the loss changes with each
# of our outputs: 1 for a sum, and 1/7 for a mean of seven numbers. Our ``backward``
# ignores it and takes ones, so it's right for a sum, by accident. A fit with it would
# still go downhill, only with steps that are 7 times too long. With Adam you wouldn't
# even see that, because Adam divides by the size of the gradients.
#
# There's a test for this. ``gradcheck`` moves each input a little, watches each output,
# and compares the change with what ``backward`` says. The changes are tiny, so it wants
# ``float64``, and few numbers:

from torch.autograd.gradcheck import GradcheckError, gradcheck

seven = model.detach().requires_grad_(), data, weight
try:
    gradcheck(misfit, seven)
except GradcheckError as error:
    print(str(error).splitlines()[0])


def backward(ctx, grad):
    return misfit_slope(grad, *ctx.saved_tensors), None, None


misfit.register_autograd(backward, setup_context=keep)
print("mended:", gradcheck(misfit, seven))

# %%
# So run ``gradcheck`` on every backward that you write. It only tests inputs that ask
# for a gradient. If you ever fit the weights, write their gradient first, because
# PyTorch takes ``None`` without a word.
#
# Let torch.compile through
# -------------------------
#
# ``torch.compile`` plans a program without running it, so it has to know which shape
# comes out. We tell it by a function, and ``opcheck`` tests all that we have promised:


def same_shape(first, *_):
    return torch.empty(first.shape, dtype=first.dtype, device=first.device)


misfit.register_fake(same_shape)
misfit_slope.register_fake(same_shape)
print(torch.library.opcheck(misfit, seven))

# %%
# ``same_shape`` is called a *fake*. Now this goes through without a break, and gives
# the same gradient:
#
# .. code-block:: python
#
#    whole = torch.compile(lambda m: misfit(m, data, weight).sum(), fullgraph=True)
#    whole(seven[0]).backward()
#
# .. dropdown:: What's missing here, and what to call for it
#
#    - *A gradient that nobody asks for:* ``ctx.needs_input_grad[0]`` is ``False`` then.
#    - *Second derivatives:* give ``misfit_slope`` a ``register_autograd`` of its own.
#    - *torch.func.vmap:* ``misfit.register_vmap``.
#    - *Autocast:* ``misfit.register_autocast("cuda", torch.float32)``.
#
# .. _kernel-gain:
#
# Is it faster?
# -------------
#
# Each operation of the chain reads its inputs from memory and writes a new tensor
# there. ``model - data`` reads two numbers of 4 bytes for each element and writes one,
# so it moves 12 bytes. **How many bytes do all five move, and how many does the
# kernel?**
#
# The chain moves 12 + 12 + 12 + 8 + 12 = 56 bytes. The kernel reads three numbers and
# writes one, which makes 16. There's next to no arithmetic, so it should take 16/56 of
# the time, less than a third.
#
# .. list-table:: On an H100
#    :header-rows: 1
#    :widths: 34 22 22 22
#
#    * - way
#      - 1,001 numbers
#      - 33 million
#      - 134 million
#    * - the chain
#      - :timing:`misfit-in-pytorch median "chain/cuda:0/n=1001" @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "chain/cuda:0/n=33554433"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "chain/cuda:0/n=134217729"
#        @nvidia-h100-80gb-hbm3`
#    * - our operation
#      - :timing:`misfit-in-pytorch median "our operation/cuda:0/n=1001"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "our operation/cuda:0/n=33554433"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "our operation/cuda:0/n=134217729"
#        @nvidia-h100-80gb-hbm3`
#    * - its kernel alone
#      - :timing:`misfit-in-pytorch median "kernel alone/cuda:0/n=1001"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "kernel alone/cuda:0/n=33554433"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "kernel alone/cuda:0/n=134217729"
#        @nvidia-h100-80gb-hbm3`
#    * - ``torch.compile(chain)``
#      - :timing:`misfit-in-pytorch median "torch.compile/cuda:0/n=1001"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "torch.compile/cuda:0/n=33554433"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "torch.compile/cuda:0/n=134217729"
#        @nvidia-h100-80gb-hbm3`
#    * - the chain, with gradient
#      - :timing:`misfit-in-pytorch median "chain, with gradient/cuda:0/n=1001"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "chain, with gradient/cuda:0/n=33554433"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "chain, with gradient/cuda:0/n=134217729"
#        @nvidia-h100-80gb-hbm3`
#    * - ours, with gradient
#      - :timing:`misfit-in-pytorch median "our operation, with gradient/cuda:0/n=1001"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "our operation, with
#        gradient/cuda:0/n=33554433" @nvidia-h100-80gb-hbm3`
#      - :timing:`misfit-in-pytorch median "our operation, with
#        gradient/cuda:0/n=134217729" @nvidia-h100-80gb-hbm3`
#
# Was that your guess? With 134 million numbers ours was :timing:`misfit-in-pytorch
# speedup "our operation/cuda:0/n=134217729"/"chain/cuda:0/n=134217729"
# @nvidia-h100-80gb-hbm3` as fast as the chain, with 33 million
# :timing:`misfit-in-pytorch speedup "our
# operation/cuda:0/n=33554433"/"chain/cuda:0/n=33554433" @nvidia-h100-80gb-hbm3`. And
# with 1,001 it took :timing:`misfit-in-pytorch speedup "chain/cuda:0/n=1001"/"our
# operation/cuda:0/n=1001" @nvidia-h100-80gb-hbm3` as *long*, and on an H200
# :timing:`misfit-in-pytorch speedup "chain/cuda:0/n=1001"/"our
# operation/cuda:0/n=1001" @nvidia-h200`.
#
# The kernel isn't to blame. Alone, on arrays that were made beforehand, it keeps our
# promise for 33 million. But before each launch, Python makes Numba's arrays of four
# tensors, asks for the stream, and lets Numba launch the kernel. With 1,001 numbers,
# that's nearly all of the :timing:`misfit-in-pytorch median "our
# operation/cuda:0/n=1001" @nvidia-h100-80gb-hbm3`. Python isn't always so slow: with 33
# million numbers, launch and kernel together took half of it. We haven't timed its
# parts. It can hardly be ``custom_op`` itself, because with the loop on a CPU the same
# operation took :timing:`misfit-in-pytorch median "our operation/cpu/n=1001"
# @cpu-amd-epyc`. C++ and Triton launch in other ways, which we haven't timed.
#
# So a kernel pays in full as soon as it runs for longer than its launch takes. Then
# Python prepares the next one meanwhile, as with 134 million numbers. For short
# kernels, make Numba's arrays once if the tensors stay the same. Or record several
# launches in a :doc:`CUDA graph </tutorials/2_devices/16_fewer_launches>`, which
# repeats them without Python.
#
# .. holds::
#
#    named = "misfit-in-pytorch/{}/cuda:0/n=33554433".format
#    alone, ours = named("kernel alone"), named("our operation")
#    near(row(ours).device_seconds, row(alone).device_seconds, 0.02)
#    row(ours).device_seconds < row(named("chain")).device_seconds / 3
#    prepare = median("misfit-in-pytorch/our operation/cuda:0/n=1001")
#    prepare > median(ours) > 1.5 * median(alone)
#    near(median(ours) / prepare, 0.5, 0.05)
#    at = lambda name, n, on: median(f"misfit-in-pytorch/{name}/cuda:0/n={n}", on)
#    cards, most = ("nvidia-h100-80gb-hbm3", "nvidia-h200"), 134217729
#    both = [(of, on) for of in ("", ", with gradient") for on in cards]
#    time = lambda name, of, on: at(name + of, most, on)
#    part = [time("our operation", *one) / time("chain", *one) for one in both]
#    0.3 < min(part) and max(part) < 0.36
#    sizes = [(n, on) for n in (1001, 33554433, most) for on in cards]
#    all(at("torch.compile", *one) < at("our operation", *one) for one in sizes)
#
# And ``torch.compile(chain)``? It joins, or *fuses*, the five operations by itself, and
# gives you the gradient for nothing. Its row, without the gradient, is faster than ours
# at every size. So keep your own kernels for what no chain of operations can do, such
# as a loop that stops early.

# folded: The kernels, traced: their bytes, and their values on odd sizes

for n in (1, 101):
    m, d, w = np.random.default_rng(seed=n).random((3, n), dtype=np.float32)
    value, change = np.zeros((2, n), dtype=np.float32)
    for kernel, given, moved in (
        (value_kernel, (m, d, w, value), 16),
        (slope_kernel, (np.ones_like(m), m, d, w, change), 20),
    ):
        seen = trace(kernel, 2, 32, *given)
        assert not seen.problems, seen.problems[0]
        assert seen.traffic.useful_bytes == n * moved
    exact = [torch.from_numpy(each).double() for each in (m, d, w)]
    right = chain(exact[0].requires_grad_(), *exact[1:])
    right.sum().backward()
    assert np.allclose(value, right.detach(), rtol=1e-5)
    assert np.allclose(change, exact[0].grad, rtol=1e-5, atol=1e-7)
print("16 bytes an element for the value, 20 for the slope, as counted")

# %%

# folded: The timing, for three sizes


def with_gradient(operation, model, data, weight):
    model.grad = None
    operation(model, data, weight).sum().backward()


def time_all(bench, n):
    tensors = [*torch.rand(3, n, device=place)]
    size = {"n": n, "bytes": 16 * n, "device": place}
    assert torch.allclose(misfit(*tensors), chain(*tensors), rtol=1e-5)
    bench.time("chain", chain, *tensors, **size)
    bench.time("our operation", misfit, *tensors, **size)
    both = tensors[0].clone().requires_grad_(), *tensors[1:]
    there_and_back = {"n": n, "bytes": 36 * n, "device": place}
    for label, operation in (("chain", chain), ("our operation", misfit)):
        label = f"{label}, with gradient"
        bench.time(label, with_gradient, operation, *both, **there_and_back)
    if on_gpu:
        bench.time("torch.compile", torch.compile(chain), *tensors, **size)
        arrays = [
            cuda.as_cuda_array(t) for t in (*tensors, torch.empty_like(tensors[0]))
        ]
        kernel = value_kernel[blocks_for(n, 4 * 256), 256]
        bench.time("kernel alone", kernel, *arrays, **size)


bench = Bench("misfit-in-pytorch", budget=12 if on_gpu else 3)
for n in (1001, 2**25 + 1, 2**27 + 1) if on_gpu else (1001, 1_000_001):
    time_all(bench, n)
bench.show()

# %%
# The rates with gradient count 36 bytes for each element. In truth there are eight
# more. ``sum`` reads our result, and ``contiguous`` writes the gradient of the sum, a
# single number, once for each element.
#
# On an H200, we gained nothing with 33 million. Its faster memory shortens the chain,
# but not what Python does. The chain took :timing:`misfit-in-pytorch median
# "chain/cuda:0/n=33554433" @nvidia-h200`, and our operation :timing:`misfit-in-pytorch
# median "our operation/cuda:0/n=33554433" @nvidia-h200`:

# figure
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY, ORANGE

fig, ax = plt.subplots(figsize=(7.2, 2.4), layout="constrained")
ax.barh(0, 0.6, color="white", ec=GREY, hatch="///", height=0.35)
for part in range(5):
    ax.barh(0.4, 1.7, left=0.3 + 1.7 * part, color=ORANGE, ec="black", height=0.35)
ax.barh(1.2, 8.6, color="white", ec=GREY, hatch="///", height=0.35)
ax.barh(1.6, 2.4, left=8.6, color=BLUE, ec="black", height=0.35)
ax.text(4.3, 1.2, "Python prepares", va="center", ha="center", bbox={"fc": "white"})
ax.text(9.8, 1.6, "the kernel", va="center", ha="center", color="#fefefe")
ax.text(4.5, 0.4, "five operations", va="center", ha="center", color="#fefefe")
ax.set_yticks((0, 0.4, 1.2, 1.6), ("chain: CPU", "GPU", "ours: CPU", "GPU"))
ax.set(xticks=[], xlabel="time →   (not to scale)", ylim=(1.95, -0.35))
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("The kernel is short, but its launch is long", loc="left")
fig.set_label(
    "Two pairs of lanes over time, not to scale. The chain: a short hatched bar on "
    "the CPU, and five bars on the GPU, one after the other. Ours: a long hatched bar "
    "on the CPU, and only then one short bar on the GPU. Ours ends a little later."
)
plt.show()

# %%

# folded: Which calls share memory between PyTorch, NumPy, Numba and CuPy?

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

shares = {}
for call, (first, second) in pairs.items():
    first[0] = 42
    shares[call] = float(second[0]) == 42
    print(f"{call:>31}: {'the same memory' if shares[call] else 'a copy'}")

# %%
# Your turn
# ---------
#
# An amplifier saturates: ``x / (1 + x.abs())``. Its forward is given, and has kept
# ``x``. Write the backward as a function of that ``x`` and of ``grad``, with PyTorch's
# operations. You'll need the slope, for negative numbers, too.
#
# Put your answer where the dots are, and run ``firstlight try
# 12_kernels_in_pytorch.py``.


def saturate_backward(x, grad): ...


# %%

# folded: What check does: it makes an operation of your backward, and asks gradcheck


def saturating(backward):  # the older way: enough for a test, but custom_op compiles
    class Saturate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x / (1 + x.abs())

        @staticmethod
        def backward(ctx, grad):
            return backward(*ctx.saved_tensors, grad)

    return Saturate.apply


def check(backward):
    from torch.autograd.gradcheck import gradcheck

    x = torch.tensor([-3, -0.5, 0.25, 2], dtype=torch.float64, requires_grad=True)
    grad = torch.tensor([1, 2, 4, 8], dtype=torch.float64)
    try:
        found = backward(x.detach(), grad)
        if not isinstance(found, torch.Tensor) or found.shape != x.shape:
            return "Not yet: return a tensor with a gradient for each number of x."
        slope = 1 / (1 + x.detach().abs()) ** 2
        if torch.allclose(found, slope):
            return "Not yet: that's the slope. What about grad?"
        right = torch.isclose(found, grad * slope)
        if right.tolist() == [False, False, True, True]:
            return "Not yet: it's right where x is positive."
        gradcheck(saturating(backward), (x,))
    except Exception as error:
        first = (str(error).splitlines() or [""])[0].rstrip(",")
        return f"Not yet: {type(error).__name__}: {first}"
    return "Right: gradcheck agrees, and so would a fit."


# %%

print(check(saturate_backward))

# %%
# Three lines to remember
# -----------------------

# remember

print(
    "1. custom_op and register_autograd make your kernel an operation with a gradient."
)
print("   Launch it on PyTorch's current stream.")
print("2. Test each backward with gradcheck, in float64. A sum hides a forgotten grad.")
print(
    "3. Bytes say what a kernel can win (here 16 instead of 56). A launch from Python"
)
print("   takes its time, so try torch.compile first.")

# %%
# Solution
# --------

# solution


def saturate_backward_solution(x, grad):
    return grad / (1 + x.abs()) ** 2


print(f"Our solution: {check(saturate_backward_solution)}")
