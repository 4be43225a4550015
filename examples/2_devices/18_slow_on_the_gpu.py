"""
My code is slow on the GPU. Why?
================================

Your program runs on the GPU, without an error, and it's slow. Perhaps it's slower than
on the CPU. Or ``nvidia-smi`` shows a GPU utilization of 20 %, or the first call takes
ages. What is the card waiting for?

**Write down a guess: in your own program, what part of the time does the GPU
compute?** Then find which of nine causes is yours, and the page that mends it.

**Needs:** any computer, and some PyTorch. The program here is made slow on purpose, and
it's slow without a GPU, too.
"""

# %%
# Find yours: low utilization, slow steps, waiting
# ------------------------------------------------
#
# Go down the list, and stop at the first test that says yes. The names in the middle
# are those of :doc:`a profile </tutorials/2_devices/14_profile>` on an NVIDIA card:
# look for the row with the most time, or the most calls.
#
# On an AMD card the names begin with ``hip``, not ``cuda``. Newer libraries write
# ``cudaLaunchKernelExC``. On a Mac, a profile shows only the CPU's work, so use the
# other tests there.
#
# .. list-table:: Why code is slow on a GPU
#    :header-rows: 1
#    :widths: 20 42 38
#
#    * - cause
#      - test
#      - what to do
#    * - **the CPU does it**
#      - ``next(model.parameters()).device`` or ``x.device`` is ``cpu``
#      - move both (:doc:`/tutorials/2_devices/01_moving`); if there's no GPU to move
#        to, :doc:`find it </tutorials/1_setup/01_find_your_gpu>`
#    * - **the first call**
#      - only the first call, or the first epoch, is slow
#      - *The first call takes seconds*, below
#    * - **loading**
#      - Go through the loader once, and train nothing. Is that most of an epoch? In a
#        profile: ``enumerate(DataLoader)…__next__``
#      - If ``top`` shows busy cores, they decode: take more workers, or decode on the
#        GPU. If they're idle, they wait for the disk: take a local one, and fewer and
#        larger files. Or keep the data on the GPU from the start
#        (:doc:`/tutorials/2_devices/02_training_loop`)
#    * - **launches**
#      - Double the batch. Does a step take hardly any longer? In a profile:
#        ``cudaLaunchKernel``, and long gaps between the kernels. If there are no gaps,
#        the kernels are too small for the card, or mostly read *weights*, in the
#        network or in the optimizer
#      - larger batches, if they reach your score sooner; :doc:`fewer launches
#        </tutorials/2_devices/16_fewer_launches>`; else stay on the CPU
#    * - **waiting**
#      - Is there an ``.item()``, a ``print``, a ``.cpu()`` or an ``if loss > …`` in
#        each step? In a profile: ``aten::item``, ``cudaStreamSynchronize``. The *CPU*
#        waits there, for the GPU
#      - keep the losses on the device, and look once an epoch
#        (:doc:`/tutorials/2_devices/06_queues`)
#    * - **copies**
#      - In a profile: ``cudaMemcpyAsync``, ``aten::copy_``. If you copy *from* the GPU,
#        the CPU's time includes waiting for earlier kernels, so look at the GPU's row
#      - send less, in larger pieces, once (:doc:`/tutorials/2_devices/04_small_copies`)
#    * - **float64**
#      - ``x.dtype`` is ``torch.float64``, as NumPy's floats are unless you
#        say otherwise
#      - ``.float()``; some cards do ``float64`` at a 64th of the rate
#        (:doc:`/cards`)
#    * - **Python**
#      - In a profile, a part that you've named has much *self time*, spent outside of
#        PyTorch's operations: in a loop over elements, in pandas, in files
#      - whole arrays in place of loops (:doc:`/tutorials/2_devices/12_port_your_numpy`)
#    * - **it's busy**
#      - Take *Self CUDA time total* from a profile, and subtract the rows ``Memcpy``.
#        Is that about as long as your program runs?
#      - now faster kernels help: :doc:`16 bits or TF32
#        </tutorials/2_devices/13_precision>`, ``torch.compile``, a larger card
#
# The *utilization* in ``nvidia-smi`` is the part of the time in which at least one
# kernel was running, however small. So 20 % says that the GPU waits, and 100 % doesn't
# say that it's full.
#
# Three numbers, in twenty lines
# ------------------------------
#
# Here is a program with two of these faults. It makes pictures of a star in noise, one
# by one, and a small network learns where it is. **Which two?**

import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from firstlight import best_device
from firstlight.display import BLUE, ORANGE

device = best_device()


class Stars(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        random = np.random.default_rng(seed=i)
        row, column = random.integers(32, size=2)
        picture = random.normal(size=(32, 32)).astype(np.float32)
        picture[row, column] += 20
        blurred = np.fft.irfft2(np.fft.rfft2(picture) * 0.9)  # stands for decoding
        return blurred.astype(np.float32).ravel(), np.float32([row, column])


network = nn.Sequential(nn.Linear(1024, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.Adam(network.parameters())


def step(x, y):
    optimizer.zero_grad()
    nn.functional.mse_loss(network(x.to(device)), y.to(device)).backward()
    optimizer.step()


# %%
# We need the times of an epoch, of the loading alone, and of twenty steps with a batch
# of 16 and with one of 32. Other programs can only make them longer, so we measure in
# turns, and keep the least of each.

torch.set_num_threads(1)  # more gain next to nothing on tensors as small as here


def seconds(work):
    began = time.perf_counter()
    work()
    if device.type != "cpu":
        torch.accelerator.synchronize()  # wait until the GPU has finished
    return time.perf_counter() - began


def look(loader, step):
    x, y = (part.to(device) for part in next(iter(loader)))
    double = torch.cat((x, x)), torch.cat((y, y))
    works = {
        "epoch": lambda: [step(*batch) for batch in loader],
        "loading": lambda: [None for _ in loader],
        "step": lambda: [step(x, y) for _ in range(20)],
        "doubled": lambda: [step(*double) for _ in range(20)],
    }
    turns = [{name: seconds(work) for name, work in works.items()} for _ in range(5)]
    return {name: min(turn[name] for turn in turns) for name in works}


found = look(DataLoader(Stars(), 16), step)
share = found["loading"] / found["epoch"]
print(f"loading alone: {share:.0%} of an epoch")
longer = found["doubled"] / found["step"]
print(f"twice the batch: a step takes {longer:.1f} times as long")
print(f"with an infinitely fast GPU: at most {1 / share:.1f} times as fast")

# %%
# The first line is *loading*. No GPU makes that faster, and the third line says what
# follows: even if a step took no time, the epoch would gain no more than that. If your
# share comes out above 100 %, other programs kept your computer busy, so measure again.
#
# The second fault is *launches*. On a quiet computer, a step takes about as long for 32
# pictures as for 16, so it isn't the arithmetic that takes the time. On an H100, a step
# of another small network took :timing:`training-a-cnn median "small, GPU/cuda:0/n=1"
# @nvidia-h100-80gb-hbm3` for one picture and :timing:`training-a-cnn median "small,
# GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3` for 256.
#
# .. holds::
#
#    one, many = (median(f"training-a-cnn/small, GPU/cuda:0/n={n}") for n in (1, 256))
#    near(one, many, 0.25)
#
# The cure is the same for both here, since the data are small: make them once, keep
# them on the device, and take large batches from there.

every = next(iter(DataLoader(Stars(), len(Stars()))))
pictures, places = (part.to(device) for part in every)


class Ready:
    def __iter__(self):
        for few in torch.randperm(len(pictures), device=device).split(128):
            yield pictures[few], places[few]


cured = look(Ready(), step)
print(f"an epoch is {found['epoch'] / cured['epoch']:.0f} times as fast")

# %%

# measured figure

fig, ax = plt.subplots(figsize=(7.2, 2.4), layout="constrained")
for row, one in enumerate((found, cured)):
    loading, rest = 1e3 * one["loading"], 1e3 * (one["epoch"] - one["loading"])
    ax.barh(row, loading, color=ORANGE)
    ax.barh(row, max(rest, 0), left=loading, color=BLUE)
ax.legend(["loading", "steps"], frameon=False, loc="lower right")
ax.set_yticks([0, 1], ["as found", "cured"])
ax.set(xlabel="ms, one epoch")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle(f"Of an epoch, {share:.0%} was the loader's")
fig.set_label(
    f"Two bars of an epoch's time. As found, loading is {share:.0%} of it. Cured, the "
    "whole bar is much shorter."
)
plt.show()

# %%
# But if you want a good network soon, a larger batch isn't always better, because
# :doc:`an epoch then has fewer steps </tutorials/2_devices/17_training_a_cnn>`.
#
# The first call takes seconds
# ----------------------------
#
# Something is being made or loaded that is kept afterwards. Here Numba compiles a loop.
# **Which of the three calls will be slow?**

from numba import njit


@njit
def power(samples):
    total = 0.0
    for sample in samples:
        total += sample * sample
    return total


for kind in (np.float32, np.float32, np.float64):
    began = time.perf_counter()
    power(np.ones(1000, kind))
    print(f"{np.dtype(kind)}: {1e3 * (time.perf_counter() - began):.2f} ms")

# %%
# The first and the third, because it compiles once for each *type*. Many libraries do
# such things, and most can keep the result in a file for tomorrow:
#
# .. list-table:: What takes so long the first time, and where it's kept
#    :header-rows: 1
#    :widths: 26 32 42
#
#    * - what
#      - once for each
#      - what to do
#    * - CUDA's context, and the libraries for products and convolutions
#      - process
#      - keep the process running; make one small product and convolution at the start
#    * - loading a kernel, `by default only when it's needed`__
#      - process, and operation
#      - ``CUDA_MODULE_LOADING=EAGER`` does it all at the start
#    * - the driver compiles, because the card is newer than the package
#      - computer (``~/.nv/ComputeCache``)
#      - a package with code for your card (:doc:`/install`); a larger
#        ``CUDA_CACHE_MAXSIZE``
#    * - CuPy compiles
#      - operation, type and number of dimensions (``~/.cupy/kernel_cache``)
#      - keep that folder, also in a container: `CUPY_CACHE_DIR`__ says where it is
#    * - Numba compiles
#      - process, kernel and types
#      - ``@cuda.jit(cache=True)`` `keeps it`__ in ``__pycache__``; if you give the
#        types, ``@cuda.jit("void(float32[:])")``, Numba compiles right there
#    * - Triton compiles
#      - kernel and types (``~/.triton/cache``)
#      - keep that folder; ``autotune`` tries anew in each process, unless you set
#        ``TRITON_CACHE_AUTOTUNING=1``
#    * - ``torch.compile``
#      - model, and often each new shape
#      - batches of one size; keep ``TORCHINDUCTOR_CACHE_DIR``
#        (:doc:`/tutorials/2_devices/16_fewer_launches`)
#    * - ``cudnn.benchmark = True``
#      - shape
#      - only if all batches have one size
#    * - the disk is read
#      - file, as long as the memory has room
#      - nothing, if your files fit into the computer's memory; else as for *loading*
#    * - workers start
#      - epoch
#      - ``persistent_workers=True``
#
# __ https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/lazy-loading.html
# __ https://docs.cupy.dev/en/latest/reference/environment.html
# __ https://nvidia.github.io/numba-cuda/user/caching.html
#
# So leave the first call out when you time
# (:doc:`/tutorials/2_devices/07_timing_it_right`), but count it if your program runs
# once.
#
# Your turn
# ---------
#
# Write the first table's tests as a function, for three of its causes. It gets the four
# times in seconds that ``look`` returns. If the loading alone takes more than half of
# an epoch, return ``"loading"``. Else, if twice the batch makes a step less than a
# quarter longer, return ``"launches"``. Else return ``"busy"``. Put your answer where
# the dots are, run ``firstlight try 18_slow_on_the_gpu.py``, and then ask it about a
# loop of your own.


def suspect(epoch, loading, step, doubled): ...


# %%

# folded: What checks your answer

CASES = [
    ((10.0, 9.9, 0.01, 0.02), "loading", "the loader has nearly all of the epoch."),
    ((10.0, 9.0, 0.01, 0.01), "loading", "mend the loader first, then the launches."),
    ((10.0, 1.0, 0.10, 0.101), "launches", "twice the pictures in the same time."),
    ((10.0, 1.0, 0.10, 0.09), "launches", "twice the pictures in less time: noise."),
    ((1.0, 0.1, 0.10, 0.12), "launches", "a fifth longer is less than a quarter."),
    ((10.0, 1.0, 0.10, 0.19), "busy", "nearly twice as long for twice the pictures."),
    ((0.1, 0.04, 1e-4, 1.3e-4), "busy", "the times may be short: take ratios."),
]


def check(answer):
    for times, right, why in CASES:
        try:
            got = answer(*times)
        except Exception as error:
            return f"Not yet. {type(error).__name__}: {error}"
        if got != right:
            call = f"suspect{times}"
            return f"Not yet. {call} gave {got!r}, and not {right!r}: {why}"
    return "Right. Now try it on yours."


# %%

print(check(suspect))

# %%
# Three lines to remember
# -----------------------

# remember

print(f"""\
1. Go through the loader alone: here that was {share:.0%} of an epoch, and no GPU makes
   it faster.
2. Double the batch. If a step takes no longer, arithmetic isn't what it waits for: most
   likely launches, or small kernels, or in a large model its weights.
3. If only the first call is slow, something is compiled or loaded. Keep its cache.""")

# %%
# Solution
# --------

# solution


def suspect_solution(epoch, loading, step, doubled):
    if loading > epoch / 2:
        return "loading"
    return "launches" if doubled < 1.25 * step else "busy"


print(f"Our solution: {check(suspect_solution)}")

# %%
# TensorFlow and Keras: the same causes by other names
# ----------------------------------------------------
#
# - *the CPU does it:* ``tf.config.list_physical_devices("GPU")`` is empty, as it is on
#   Windows outside of WSL since TensorFlow 2.11
# - *loading:* ``num_parallel_calls=tf.data.AUTOTUNE`` in each ``map``, ``.cache()`` if
#   it fits, and ``.prefetch(tf.data.AUTOTUNE)`` at the end
# - *launches:* a larger ``batch_size``. In ``model.compile``, ``jit_compile=True``
#   launches less, and ``steps_per_execution=50`` returns to Python less often. An LSTM
#   is fast only with its default activations: with others it can't take cuDNN's kernel
# - *waiting:* ``run_eagerly=True``, or a callback in each batch
# - *the first call:* a ``tf.function`` is traced anew for each Python number and each
#   shape. Pass tensors instead of Python numbers, and pad all batches to one shape
# - *it's busy:* ``tf.keras.mixed_precision.set_global_policy("mixed_float16")``
