"""
Do you have a GPU that works?
=============================

You have a new laptop, or an account on a cluster, and somebody says that there is a GPU
in it. You start your program, and it runs. But is it using the GPU? You can't tell by
looking. If PyTorch finds no GPU, many programs go on with the CPU and say nothing, and
all that you notice is that they are slow.

By the end of this page you'll have made your GPU compute something and checked the
result. And if it can't, you'll know which part is to blame, and which command repairs
it. Before you run anything, **make a guess**: does the computer in front of you have a
GPU that PyTorch can use? Write down yes or no.

**Time:** 11 minutes. **Needs:** any computer with Python and PyTorch. If you have no
GPU, we'll borrow one from Google.
"""

# %%
# Ask PyTorch
# -----------
#
# These questions are plain PyTorch, and you can paste them into any program of yours.
# (No PyTorch yet? ``python -m pip install torch``, or see :doc:`/install`.)

import torch

print("PyTorch was built for CUDA:", torch.version.cuda)
print("Is a GPU available?", torch.cuda.is_available())
print("How many?", torch.cuda.device_count())
if torch.cuda.is_available():
    free, total = torch.cuda.mem_get_info()
    print("Which one is in use?", torch.cuda.current_device())
    print("What is it called?", torch.cuda.get_device_name(0))
    print("Its compute capability:", torch.cuda.get_device_capability(0))
    print(f"Its memory: {total / 2**30:.1f} GiB, of which {free / 2**30:.1f} are free")
    print("Bytes that my tensors take:", torch.cuda.memory_allocated())

# %%
# On the site, the tabs show what these lines printed on an NVIDIA H100, on an H200, and
# on the computer that built the page. On a Mac, or with a card from AMD or Intel, some
# of them may be ``None`` or ``False`` though all is well. On a Mac, ask
# ``torch.backends.mps.is_available()``, and see the fold below for the others.
#
# Let's go through the words. :term:`CUDA` is NVIDIA's platform for computing on its
# GPUs: compilers, and libraries that know how to add, multiply or transform arrays
# there. PyTorch is built on top of it. GPUs are counted from 0, so the one in use is
# number 0, which you may also call ``"cuda:0"``. And the :term:`compute capability` is
# NVIDIA's number for a generation of GPUs. An H100 has 9.0, and a T4, which is four
# years older, has 7.5.
#
# There is one more thing to ask, outside Python. Type ``nvidia-smi`` in a terminal. It
# prints a table with the name of each card, its memory, and the programs that use it.
# In the first line of that table stand the version of the :term:`driver`, and a version
# of CUDA. On our H100:
#
# .. code-block:: none
#
#     Driver Version: 580.159.04     CUDA Version: 13.0
#
# A driver is the part of the operating system that controls a device. Without its
# driver, a GPU only draws current. No Python package can bring it: you, or the person
# who looks after the computer, has to install it once.
#
# Make it compute
# ---------------
#
# All this was only talk. A GPU works when it has computed something, and you have
# checked the result. So let's give it an easy sum, 0 + 1 + 2 + … + 1000. **What
# should come out?** Work it out before you run the cell.

try:
    numbers = torch.arange(1001.0, device="cuda")
    print("The GPU says", numbers.sum().item())
except (AssertionError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")

# %%
# There are 500 pairs that add up to 1000 (0 + 1000, 1 + 999, and so on), and the 500 in
# the middle: 500,500. That's what the H100 said. If your GPU did too, it works. But is
# *your program* using it? Ask the program where its numbers are:
#
# .. code-block:: python
#
#     print(x.device)                         # of a tensor
#     print(next(model.parameters()).device)  # of a neural network
#
# If they say ``cpu``, the program computes on the CPU. If they say ``cuda:0``, you can
# also watch it: while it runs, ``nvidia-smi -l 1`` in a second terminal shows every
# second how busy the GPU is (``GPU-Util``), and which programs are on it. If that's all
# you wanted, go on to :doc:`a first speed-up <02_first_speedup>`.
#
# **Is there no GPU in your computer?** Then you read ``Torch not compiled with CUDA
# enabled``, and nothing is broken. You're done here, too, because all other pages run
# on your CPU, and show what a GPU did. When you want a GPU, Google lends you one. Open
# https://colab.research.google.com, make a new notebook, and choose *Runtime*, *Change
# runtime type*, *T4 GPU*. Then paste the two cells above. They should say ``True``,
# ``Tesla T4``, ``(7, 5)`` and 500500, because the driver and PyTorch are installed
# there already. It costs nothing, but after some hours the computer is gone with all
# your files, so save them elsewhere.
#
# **Is there one, and it doesn't answer?** Then read on. An error is the good case,
# because you can read it. Many programs contain this line:
#
# .. code-block:: python
#
#     device = "cuda" if torch.cuda.is_available() else "cpu"
#
# It gives no error. Where ``is_available()`` is ``False``, the program takes the CPU,
# and nobody is told.
#
# Can it also fail after a ``True``? Yes, and it happens to people with brand-new cards.
# PyTorch has to contain code for the generation of your card. For example, PyTorch
# 2.5.1 has none for compute capability 12.0. On an RTX 5070 Ti, it answers ``True``,
# one GPU, the right name and the right memory, with a warning that is easy to miss.
# Then the sum ends with ``no kernel image is available for execution on the device``.
# That's why we ask for a sum.
#
# When it says False
# ------------------
#
# Between your program and the GPU there is a chain of six links. First make sure that
# you're *where the GPU is*. The computer of a cluster that you log in to seldom has
# one, so ask for a job: ``srun -p <partition> --gres=gpu:1 -t 30 --pty bash`` (your
# cluster's pages have the name of the partition). There, type ``nvidia-smi``. If it
# prints its table, rows 1 and 2 are in order. (In WSL, row 1 doesn't apply.) Stop at
# the first row where your computer says something else than it should:
#
# .. list-table:: From your program to the GPU
#    :header-rows: 1
#    :widths: 21 34 45
#
#    * - Link
#      - It's in order if …
#      - If not
#    * - 1: the card
#      - ``lspci | grep -i nvidia`` lists it (on Windows, look into the Device Manager)
#      - There is none, or it has no power. You can borrow one (see above).
#    * - 2: its driver
#      - ``nvidia-smi`` prints its table
#      - Install the driver (on Ubuntu, ``sudo ubuntu-drivers install``), then restart.
#        If it worked yesterday, just restart: the system has probably updated half of
#        it.
#    * - 3: the place where you run
#      - ``nvidia-smi`` also works *there*, in the job or the container, and
#        ``CUDA_VISIBLE_DEVICES`` isn't set to nothing, which hides all cards
#      - Ask for a job with a GPU, as above. A container needs ``docker run --gpus all``
#        or ``apptainer exec --nv``. On your own computer,
#        ``unset CUDA_VISIBLE_DEVICES``; in a job it says which GPU is yours
#    * - 4: your PyTorch
#      - ``torch.version.cuda`` isn't ``None``
#      - pip gave you a PyTorch for the CPU. On Windows, ``pip install torch`` always
#        does. Install another with the command below.
#    * - 5: driver and PyTorch together
#      - the CUDA version of ``nvidia-smi`` begins with the same number as
#        ``torch.version.cuda``, or a larger one
#      - Get a newer driver, or a PyTorch for an older CUDA, with the command below.
#    * - 6: card and PyTorch together
#      - the sum comes out right
#      - Get a newer PyTorch, or, if your card is an old one, one for CUDA 12.6, with
#        the command below.
#
# This is the command for rows 4 to 6. Its last part is the CUDA version, here 13.0. For
# 12.6, write ``cu126``:
#
# .. code-block:: bash
#
#     python -m pip install --force-reinstall torch --index-url
#     https://download.pytorch.org/whl/cu130
#
# The fifth row confuses nearly everybody. *Two different things are called "CUDA
# version".* The one that ``nvidia-smi`` prints is the newest CUDA that your **driver**
# can run. The other, ``torch.version.cuda``, is the CUDA that came along inside
# **PyTorch**. In other words: the driver says how much it can understand, and PyTorch
# says which language it speaks. If ``nvidia-smi`` says 13.0 and PyTorch says 12.6,
# nothing is wrong, because the driver understands older versions too. The other way
# round, with 12.4 and 13.0, PyTorch warns that your driver is too old, and says
# ``False``.
#
# Neither of the two has to do with the :term:`CUDA toolkit`, which many guides tell you
# to install first. You don't need it. It is for people who compile CUDA C++ themselves.
# PyTorch for NVIDIA's cards brings all of CUDA that it uses, so the driver is enough.
#
# **One minute:** a colleague has a laptop with an RTX 4070. ``nvidia-smi`` prints its
# table, with CUDA version 13.0. In Python, ``torch.version.cuda`` is ``None`` and
# ``is_available()`` is ``False``. Which link is broken, and would a newer driver help?
#
# .. dropdown:: Answer
#
#    It's the fourth: this PyTorch was made for the CPU alone. No driver and no toolkit
#    can change that. Your colleague needs another PyTorch, and nothing else.
#
# Let the doctor ask
# ------------------
#
# You don't have to walk along that chain yourself. We have written a small program that
# does it. It's a single file that runs with any Python from 3.8 on. It changes nothing
# on your computer, and sends nothing anywhere. Get it, with its source, from
# :doc:`the doctor's page </doctor>`, and run it where your program runs:
#
# .. code-block:: bash
#
#     python3 gpu-doctor.pyz
#
# If you already have an error message, you needn't even do that. Paste the message on
# the same page, and you'll see its likely causes. (In a notebook, where the Python may
# be another one, type ``!{sys.executable} gpu-doctor.pyz`` after ``import sys``.)
#
# From Python, ``print(gpu_doctor.examine().text())`` gives you the same report. The
# doctor can also judge a computer that isn't there, from a file of facts about it.
# Here's your colleague's laptop:

from gpu_doctor import case, examine

report = examine(case("cpu-wheel").facts).text(width=88)
print(report.partition("\n  See ")[0])

# %%
# A check mark means yes, a cross means no, and a dot means that the question doesn't
# apply or wasn't reached. Then come the cause, what the doctor saw, and what to do.
# (Two questions are about :term:`Numba`, with which you'll write programs for GPUs from
# page 8 on.) On our H100 all fifteen lines begin with a check mark, and the last one
# says: "healthy. Your GPU computes, and its results are right." That is true of this
# moment. A GPU that is too hot may break one run and not the next.
#
# Here are six broken computers, written as facts from reports of real faults. The
# number before each question is its link in our table. Read each column from the top,
# down to its cross. **What would you tell the owner of each to do?**

# folded: What the doctor says of six broken computers

from gpu_doctor.rules import QUESTIONS

broken = {
    "A: Linux's own driver": "nouveau",
    "B: container, no GPU passed in": "container-without-gpu",
    "C: driver half updated": "driver-half-updated",
    "D: PyTorch for the CPU": "cpu-wheel",
    "E: PyTorch newer than driver": "driver-too-old-for-wheel",
    "F: card newer than PyTorch": "no-code-for-blackwell",
}
reports = {name: examine(case(code).facts) for name, code in broken.items()}
links = dict(zip(QUESTIONS, "12322334566", strict=False))  # the rest is Numba's


def first_no(report):
    """The answers up to the first no; what comes after it was not tried."""
    states = [check.state for check in report.checks]
    no = states.index(False)
    return [*states[: no + 1], *[None] * (len(states) - no - 1)]


# %%

# figure
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

marks = {True: ("✓", 0), False: ("✗", 2), None: ("·", 1)}
states = np.array([first_no(report) for report in reports.values()]).T
fig, ax = plt.subplots(figsize=(7.2, 5.4), layout="constrained")
levels = [[marks[state][1] for state in row] for row in states]
colours = ListedColormap(["#1a7f64", "#8a8a8a33", "#c2410c"])
ax.imshow(levels, cmap=colours, vmin=0, vmax=2, aspect="auto", alpha=0.85)
for (row, column), state in np.ndenumerate(states):
    look = {"color": "0.5"} if state is None else {"color": "#fefefe", "weight": "bold"}
    ax.text(column, row, marks[state][0], ha="center", va="center", **look)
asked = [f"{links.get(key, '–')}  {question}" for key, question in QUESTIONS.items()]
ax.set_yticks(range(len(asked)), asked, fontsize=10, ha="left")
ax.tick_params(axis="y", pad=285)
ax.set_xticks(range(len(reports)), reports, rotation=40, ha="left", fontsize=10)
ax.xaxis.tick_top()
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
ax.set_xlabel("✓ yes    ✗ no    · does not apply, or not tried after a no")
fig.suptitle("The first no is each time at a different question")
fig.set_label(
    "A grid of the doctor's questions, in rows, and six broken computers, in columns. "
    "Each has its first no at a different question, further down from column to "
    "column: the system's driver, the device files, the driver's start, PyTorch, its "
    "version, its code for the card."
)
plt.show()

# %%
# .. dropdown:: Answers
#
#    A, link 2: install NVIDIA's driver. B, link 3: start the container with ``--gpus
#    all``. C, link 2: somebody updated the driver, so restart. D, link 4: install
#    PyTorch with code for GPUs. E, link 5: a newer driver, or a PyTorch for an older
#    CUDA. F, link 6: a newer PyTorch. In E and F the card, the driver and PyTorch are
#    each in order, and yet they don't fit together.
#
# After the first cross, most of what follows is only a consequence. So repair the
# first, and ask again.
#
# .. dropdown:: Your GPU is from AMD, Intel or Apple
#
#    PyTorch for AMD's cards calls them ``cuda`` too, so the cells above work as they
#    stand, except that ``torch.version.cuda`` is ``None`` and ``torch.version.hip`` has
#    the version. The commands in the table are NVIDIA's; AMD's is ``rocm-smi``.
#    Intel's cards are called ``xpu`` and Apple's ``mps``. For all of them,
#    ``torch.accelerator.current_accelerator()`` says which kind your PyTorch was built
#    for, and ``torch.accelerator.is_available()`` whether there is one. The doctor
#    knows them, and :doc:`/install` has a command for each.
#
# Your turn
# ---------
#
# Write what your programs can call in place of ``is_available()``: a function that
# returns the name of the best device that *works*. Try ``"cuda"`` first, then ``"xpu"``
# and ``"mps"``, and take ``"cpu"`` if none of them is any good. The function gets
# ``sum_on``, which computes our sum on a device:


def sum_on(device):
    return torch.arange(1001.0, device=device).sum().item()


# %%
# On a broken device it may raise an error, of whatever kind, or return something wrong.
# Our checker passes another ``sum_on``, which fails in the ways that you have seen, so
# you need no GPU.
#
# Put your answer where the dots are, and run ``firstlight try 01_find_your_gpu.py``
# (see *Run it yourself*, below). Then paste both functions into a program of yours, and
# call ``best_device(sum_on)``.


def best_device(sum_on): ...


# %%

# folded: What checks your answer, on computers that fail in the ways you have seen

NOT_BUILT = AssertionError("Torch not compiled with CUDA enabled")
NO_CODE = RuntimeError("no kernel image is available for execution on the device")
NOT_THERE = NotImplementedError("this PyTorch knows no such device")
NAN, RIGHT = float("nan"), 500_500.0


def computer(**devices):
    def sum_on(device):
        got = devices.get(str(device).partition(":")[0], NOT_THERE)
        if isinstance(got, Exception):
            raise got
        return got

    return sum_on


def check(answer):
    trials = [
        ({"cuda": RIGHT}, "cuda", "this device works"),
        ({"cuda": NO_CODE}, "cpu", "an error means: try the next"),
        ({"cuda": NOT_BUILT}, "cpu", "an error may be of any kind"),
        ({"cuda": NO_CODE, "xpu": RIGHT}, "xpu", "an error means: try the next"),
        ({"cuda": NOT_BUILT, "mps": RIGHT}, "mps", "an Apple has its own"),
        ({"cuda": 0.0}, "cpu", "compare the sum with what it should be"),
        ({"cuda": 500_499.0, "mps": RIGHT}, "mps", "nearly right is wrong"),
        ({"cuda": NAN, "xpu": NAN}, "cpu", "NaN is not the sum"),
        ({"cuda": RIGHT, "xpu": RIGHT, "mps": RIGHT}, "cuda", "the best comes first"),
    ]
    for devices, expected, hint in trials:
        try:
            got = answer(computer(cpu=RIGHT, **devices))
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
        if str(got).partition(":")[0] != expected:
            what = ", ".join(f"{name}: {found!r}" for name, found in devices.items())
            return f"Where it gives {what}: {got!r}, not {expected!r}. Hint: {hint}."
    return "Right: this function believes only what it has seen."


# %%

print(check(best_device))

# %%
# Three lines to remember
# -----------------------

# remember
print("""\
1. A GPU works when it has computed something and you have checked the result.
2. If PyTorch says False, first make sure that you are where the GPU is. Then look at
   the card, the driver and your PyTorch, in this order, or let the doctor look.
3. The CUDA version of nvidia-smi is what the driver understands; torch.version.cuda is
   what PyTorch brings along. You need no CUDA toolkit.""")

# %%
# Solution
# --------

# solution


def best_device_solution(sum_on):
    for device in ("cuda", "xpu", "mps"):
        try:
            if sum_on(device) == 500_500:
                return device
        except Exception:
            continue
    return "cpu"


print(f"Our solution: {check(best_device_solution)}")
