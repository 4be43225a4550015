"""
Same seed, other result: why?
=============================

You've set ``torch.manual_seed(1)``, and still no two runs of your training give the
same numbers. Or they do, until you train on another GPU, with another batch, or with
four workers in place of two. What do you have to set, so that results are
reproducible?

**Write down a guess: will the same line, with the same input and no random number in
it, give the same result with two threads as with one?** By the end you can say which of
four causes is yours, and which of them nobody can remove.

**Needs:** any computer, and some PyTorch.
"""

# %%
# Copy this: seeds, deterministic algorithms, and four causes
# -----------------------------------------------------------
#
# Everything that you can set, in the first lines of a program:
#
# .. code-block:: python
#
#    import random
#
#    import numpy as np
#    import torch
#
#    random.seed(1)
#    np.random.seed(1)  # for libraries that draw from NumPy's own
#    torch.manual_seed(1)  # the CPU and all GPUs
#    torch.use_deterministic_algorithms(True)  # a fixed order, or an error
#    torch.backends.cudnn.benchmark = False  # don't choose by the stopwatch
#
# Up to PyTorch 2.9, ``use_deterministic_algorithms`` also wants
# ``CUBLAS_WORKSPACE_CONFIG=:4096:8`` in the environment, and says so in an error. From
# 2.10 on, you `don't need that variable`__ any more. This is what the lines are for:
#
# __ https://github.com/pytorch/pytorch/pull/161749
#
# .. list-table:: Same seed, other result: four causes
#    :header-rows: 1
#    :widths: 24 38 38
#
#    * - cause
#      - how to tell
#      - what to do
#    * - **other numbers were drawn**
#      - the first loss differs already
#      - seed all three; look for a draw that only one of the runs makes; for workers,
#        see below
#    * - **sums in another order**
#      - the first losses agree to five digits or so, and later ones drift apart
#      - for :term:`atomics <atomic>` ``use_deterministic_algorithms``; otherwise the
#        same threads, batch, card and PyTorch
#    * - **another algorithm was chosen**
#      - the first losses agree to five digits or so, and change from run to run
#      - ``cudnn.benchmark = False``. ``use_deterministic_algorithms`` does it for
#        ``torch.compile``, too
#    * - **another precision**
#      - they differ in the fourth digit, on another card
#      - :term:`TF32`: ``torch.backends.cudnn.conv.fp32_precision = "ieee"``
#        (:doc:`/tutorials/2_devices/13_precision`)
#
# Between a CPU and a GPU, two kinds of GPU, or two releases of PyTorch, no setting
# gives you the same bits. PyTorch promises them `for none of these`__. On another card,
# ``torch.randn(…, device="cuda")`` may give other numbers, because a large draw is
# divided among a card's multiprocessors, and cards differ in their number. Draw on the
# CPU, and move what you drew.
#
# Two CPUs differ, too, in the last digits. PyTorch and its libraries, MKL and oneDNN,
# choose their code by the vectors that a CPU has (AVX2, AVX-512), and another CPU often
# runs another number of threads. You can see it on a single computer: start your
# program with ``ATEN_CPU_CAPABILITY=default``, or with ``MKL_CBWR=COMPATIBLE``, and
# compare. So ask ``torch.allclose``, and never ``==``.
#
# __ https://docs.pytorch.org/docs/stable/notes/randomness.html
#
# Try it: no random number at all
# -------------------------------
#
# Here we multiply the same numbers, first with one thread, then with two. And we
# multiply the same row by the same matrix, alone and among 64 others.

import torch

random = torch.Generator().manual_seed(1)
x = torch.rand(10_000_003, generator=random)
rows, matrix = (
    torch.rand(64, 1000, generator=random),
    torch.rand(1000, 64, generator=random),
)

threads, products = torch.get_num_threads(), []
for count in (1, 2):
    torch.set_num_threads(count)
    products.append((x @ x).item())
    print(f"threads: {count}, x @ x = {products[-1]:.2f}")
torch.set_num_threads(threads)

alone, among = rows[:1] @ matrix, (rows @ matrix)[:1]
print(f"one row, alone or among 64: differs by {(alone - among).abs().max():.0e}")

# %%
# **Had you guessed that?** Each addition is rounded, so a sum depends on its order.
# With two threads, each adds up one half, and then the two results are added. And on
# the computer that built this page, the library adds in one order for a single row, and
# in another for 64. So another number of threads, another batch, or another split over
# GPUs may change digits, whatever the seed. In ``x @ x`` it's the fifth, because the
# library adds ten million numbers in a few long chains.
#
# ``sum`` adds in many short ones. Let's add a million numbers in five orders, and
# compare with the rounding of one addition, :term:`eps`.

numbers = torch.rand(1_000_003, generator=random)
truth = numbers.double().sum().item()
sums = []
for _ in range(5):
    order = torch.randperm(numbers.numel(), generator=random)
    sums.append(numbers[order].sum().item())
off = [abs(each / truth - 1) / torch.finfo(torch.float32).eps for each in sums]
print(f"{len(set(sums))} different sums of 5, off by {max(off):.1f} eps at most")
assert max(off) < 10

# %%
# But training makes small differences large: two runs that differ in the last digit
# today have different weights tomorrow. Both are right, as two runs with other seeds
# would be. So for a paper, run several seeds and give the scatter.
#
# In ``index_add_``, ``scatter_add_`` and the gradient of an embedding, thousands of
# threads of a GPU add to the same number by :term:`atomics <atomic>`, each when it
# arrives. So two runs of *one* program differ (:doc:`we measured it
# </tutorials/3_kernels/08_reductions>`). ``use_deterministic_algorithms`` takes a fixed
# order where PyTorch has one, which may be slower, and otherwise it stops:

torch.use_deterministic_algorithms(True)
try:
    torch.zeros(3).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
except RuntimeError as error:
    said = str(error).partition(",")[0]
    print(said)
torch.use_deterministic_algorithms(False)

# %%
# With ``warn_only=True`` it goes on, and you get a list of the lines to replace.
#
# But it knows PyTorch's own operations only. Atomics in a kernel of yours, or in a
# package (`nvdiffrast`__ has them in its gradients), go on as before, without a word,
# and no seed orders them. There, add integers, for which the order doesn't matter, or
# sort first and add each group by itself. In ``float64`` the order hardly shows. Or
# compare with a tolerance.
#
# __ https://github.com/NVlabs/nvdiffrast/issues/168
#
# Workers of a DataLoader draw for themselves
# -------------------------------------------
#
# A ``DataLoader`` with ``num_workers=2`` loads in two processes, and each has random
# numbers of its own. This program draws twice for each sample, from PyTorch, and from a
# NumPy generator that the data set keeps. **Which of the two will go wrong?**

PROGRAM = """
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset

class Noise(Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(seed=1)  # one generator

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.rand(()).item(), self.rng.random()

if __name__ == "__main__":
    for workers in (0, 1, 2, 2):
        torch.manual_seed(1)
        drawn = list(DataLoader(Noise(), batch_size=1, num_workers=workers))
        for column in zip(*drawn):
            print(workers, *(f"{each.item():.3f}" for each in column))
"""

# %%

# folded: How this page runs the program, in a process of its own

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    file = Path(folder, "noise.py")
    file.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", str(file)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet)

# %%

columns = [line.split() for line in done.stdout.splitlines()]
for number, (workers, *drawn) in enumerate(columns):
    print(f"workers: {workers}  {('torch', 'NumPy')[number % 2]} ", *drawn)
assert done.returncode == 0, done.stderr
assert columns[4:6] == columns[6:]  # the same seed and number of workers repeat
assert columns[0][1:] != columns[2][1:] != columns[4][1:]
assert columns[5][1::2] == columns[5][2::2]  # twice the same, from two copies

# %%
# The last two runs agree, so a seed does its work. But with another number of workers
# you get other numbers from PyTorch. The main process draws one number, and each worker
# takes that plus its rank, 0, 1 and so on, as its seed.
#
# NumPy's generator is worse. Each worker got a *copy* of the data set, with the
# generator in it, so with two workers each number comes twice. Half of your noise, or
# of your augmentation, is the same as the other half, and no error tells you. NumPy's
# global ``np.random.rand`` is seeded for each worker by PyTorch, so it has the first
# fault only.
#
# ``shuffle=True`` draws, too. So give the loader a generator of its own,
# ``generator=torch.Generator().manual_seed(1)``. Then a new layer in your model doesn't
# change the order of your data. And if a run goes on from a :doc:`checkpoint
# </tutorials/2_devices/02_training_loop>`, save ``torch.get_rng_state()``, and
# ``torch.cuda.get_rng_state_all()``, in it.
#
# Your turn
# ---------
#
# Write the noise for an augmentation, three normal numbers as a NumPy array. It must
# depend on the seed, the epoch and the sample's index, and on nothing else: not on who
# calls it, how often, or in which order. And it must leave the global generators alone,
# since others draw from them. Put your answer where the dots are, and run ``firstlight
# try 19_same_seed.py``.

import numpy as np


def noise(seed, epoch, index): ...


# %%

# folded: What checks your answer


def find_problem(answer):
    cases = [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0), (0, 1, 0), (1, 2, 3)]
    cases += [(1, 3, 2), (1, 11, 1), (1, 1, 11), (11, 1, 1), (0, 0, 0)]
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    first = [np.asarray(answer(*case), float) for case in cases]
    again = [np.asarray(answer(*case), float) for case in reversed(cases)][::-1]
    after = np.random.get_state()[1], torch.get_rng_state()  # noqa: NPY002
    if any(each.shape != (3,) for each in first):
        return "return three numbers, as an array."
    for case, one, two in zip(cases, first, again, strict=True):
        if not np.array_equal(one, two):
            return f"noise{case} is another when it is asked for again."
    for number, one in enumerate(first):
        for case, other in zip(cases[:number], first[:number], strict=True):
            if np.intersect1d(one, other).size:
                return f"noise{cases[number]} shares numbers with noise{case}."
    if not (np.array_equal(before[0], after[0]) and torch.equal(before[1], after[1])):
        return "it changes a global generator. Make one of your own."
    drawn = np.array([answer(1, 2, index) for index in range(2000)])
    if abs(drawn.mean()) > 0.1 or abs(drawn.std() - 1) > 0.1:
        return "the numbers aren't normal, with a mean of 0 and a scatter of 1."
    return ""


def check(answer):
    try:
        problem = find_problem(answer)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return f"Not yet: {problem}" if problem else "Right, with any number of workers."


# %%

print(check(noise))

# %%
# Three lines to remember
# -----------------------

# remember

print(f"""\
1. A seed fixes what is drawn, not the order of sums. One thread or two, and x @ x
   was {products[0]:.2f} or {products[1]:.2f}.
2. use_deterministic_algorithms(True) fixes the order on one card, with one PyTorch.
   Nothing makes two cards, or a CPU and a GPU, agree to the last bit.
3. Each worker has a copy of the data set: a generator in it repeats itself. Make
   one from the seed, the epoch and the index.""")

# %%
# Solution
# --------

# solution


def noise_solution(seed, epoch, index):
    return np.random.default_rng([seed, epoch, index]).normal(size=3)


print(f"Our solution: {check(noise_solution)}")

# %%
# TensorFlow, JAX, XGBoost and LightGBM: their switches
# -----------------------------------------------------
#
# Two runs on the CPU agree and two on the GPU don't? Then it's the order of sums, and
# each library has its own switch:
#
# - TensorFlow: ``tf.keras.utils.set_random_seed(1)`` and then
#   ``tf.config.experimental.enable_op_determinism()``. ``TF_DETERMINISTIC_OPS=1`` was
#   its forerunner, and missed some, such as ``segment_sum``.
# - JAX: ``XLA_FLAGS=--xla_gpu_deterministic_ops=true`` in the environment.
# - LightGBM: ``gpu_use_dp=true`` adds in ``float64``. That's slower, and the order
#   shows less. For equal bits, use the CPU, with ``deterministic=true``.
# - Others: look for "deterministic" or "double precision" among the parameters. If
#   there's no such word, repeat with five seeds, and say how much the score scatters.
