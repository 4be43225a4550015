"""
Do you have a GPU that works?
=============================

You have a new laptop, or an account on a cluster, and somebody says that there is a GPU
in it. Your program runs. But does it use the GPU? You can't tell by looking. If PyTorch
finds no GPU, many programs take the CPU and say nothing. They're just slow.

Three lines will tell you. **First make a guess:** does the computer in front of you
have a GPU that PyTorch can use? Write down yes or no.

**Needs:** any computer with Python. If you have no GPU, we'll
borrow one from Google.
"""

# %%
# Paste three lines
# -----------------
#
# Start Python where your program runs, and paste these. The last line asks the GPU for
# an easy sum, 0 + 1 + 2 + … + 1000. **What should come out?**
#
# .. code-block:: python
#
#    import torch
#    print(torch.cuda.is_available())
#    print(torch.arange(1001.0, device="cuda").sum().item())
#
# On an NVIDIA H100, where all is well, they print this:
#
# .. code-block:: none
#
#    True
#    500500.0
#
# There are 500 pairs that add up to 1000, and the 500 in the middle is left over. That
# makes 500,500, so the H100 is right. A GPU works when it has computed something and
# you have checked the result.
#
# is_available() says False, or an error: which did you see?
# ----------------------------------------------------------
#
# Find your line, and do what the table says beside it. Skip the others.
#
# .. list-table:: What you saw, and what to do
#    :header-rows: 1
#    :widths: 38 62
#
#    * - You saw
#      - Your next step
#    * - ``True`` and ``500500.0``
#      - Your GPU works. See below whether *your program* uses it.
#    * - ``No module named 'torch'``
#      - In a virtual environment (``python3 -m venv gpu``, then ``source
#        gpu/bin/activate``; on Windows as in :doc:`/install`), type ``python -m pip
#        install torch``, and try again.
#    * - ``False``, then ``Torch not compiled with CUDA enabled``
#      - This PyTorch is for the CPU alone. If you have a card from NVIDIA, type the
#        command below. On a Mac, or with another maker's card, open *Your GPU is from
#        AMD, Intel or Apple*, further down. If you have no GPU, borrow one (below).
#    * - ``False``, then ``Found no NVIDIA driver``
#      - If your card isn't NVIDIA's, this PyTorch is the wrong one: open *Your GPU is
#        from AMD, Intel or Apple*. If you have none, borrow one (below). On a cluster,
#        you may be on its login node: do what the next row says. On your own computer,
#        type ``nvidia-smi`` in a terminal. If it isn't found (on Windows, look in
#        ``C:\Windows\System32``), install the driver (on Ubuntu with ``sudo
#        ubuntu-drivers install``; for WSL on *Windows*, never inside WSL), and restart.
#        If it works, but not *in your container*, start that with ``docker run --gpus
#        all`` (the host needs NVIDIA's Container Toolkit) or ``apptainer exec --nv``.
#        Don't install a driver in the image: it gets the host's.
#    * - ``False``, then ``No CUDA GPUs are available``
#      - You're not where the GPU is. On a cluster, ask for a job with one: ``srun -p
#        <partition> --gres=gpu:1 -t 30 --pty bash``. On your own computer, type ``unset
#        CUDA_VISIBLE_DEVICES`` (on Windows ``Remove-Item Env:CUDA_VISIBLE_DEVICES`` in
#        PowerShell, ``set CUDA_VISIBLE_DEVICES=`` in cmd), and start Python again.
#    * - ``False``, then ``The NVIDIA driver on your system is too old``
#      - Take a PyTorch for an older CUDA, with the command below, or install a newer
#        driver: for CUDA 13, 580 or later.
#    * - ``True``, then ``no kernel image is available``
#      - Your PyTorch has no code for your card. If you like, compare
#        ``torch.cuda.get_arch_list()`` with ``torch.cuda.get_device_capability()``:
#        code for ``sm_86`` also runs on an 8.9, but not on an 8.0 or a 9.0. If PyTorch
#        has that code, a program that you compiled lacks it:
#        :ref:`doctor-no-code-for-card` says what to tell the compiler. Else get a newer
#        PyTorch, or one for CUDA 12.6 if your card is of 2014 to 2017 (GTX 10, P100,
#        V100), with the command below. For a Kepler, such as a K80, there's none:
#        borrow a card (below). An RTX 30 or 40 shows this error with a PyTorch for CUDA
#        10, which an old project may ask for. The CUDA of ``nvidia-smi`` or ``nvcc``
#        doesn't matter.
#    * - anything else
#      - Paste it on :doc:`the doctor's page </doctor>`, which knows its likely causes.
#
# This is the command, for the environment in which your program runs. Its last part is
# the version of CUDA, here 13.0, which needs driver 580 or newer; ``nvidia-smi`` prints
# yours. With driver 525 to 579, or a card of 2014 to 2017, write ``cu126``
# (:doc:`all cases </install>`):
#
# .. code-block:: bash
#
#     python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130
#
# **Borrow one.** You don't need a GPU today, because all other pages run on your CPU,
# and show what a GPU did. When you want one, Google lends it. Open
# https://colab.research.google.com, make a new notebook, choose *Runtime*, *Change
# runtime type*, *T4 GPU*, and paste the three lines. It costs nothing, but after some
# hours that computer is gone with all your files.
#
# Is your program using it?
# -------------------------
#
# Many programs contain this line:
#
# .. code-block:: python
#
#    device = "cuda" if torch.cuda.is_available() else "cpu"
#
# If PyTorch finds no GPU, the program takes the CPU, and nobody is told. So ask it
# where its numbers are:
#
# .. code-block:: python
#
#    print(x.device)                         # of a tensor
#    print(next(model.parameters()).device)  # of a neural network
#
# If they say ``cuda:0``, you can also watch it. While it runs, type ``nvidia-smi -l 1``
# in a second terminal on that computer. Every second, it shows which programs are on
# the GPU, and for what part of the time it had anything to do at all (``GPU-Util``). In
# WSL and most containers the list of programs stays empty, so look at the memory in
# use. Windows' Task Manager misleads, because its first graph shows *3D*, where a
# computation hardly appears: click on the heading, and choose *Cuda* or *Compute_0*.
# And if somebody else wrote the program, look for the device in its options: it may say
# ``cpu``, although PyTorch finds the GPU. ``GPU-Util`` isn't how busy it was: a program
# that uses a thousandth of the card shows 100 %, too. Look at the watts beside it, and
# how near they come to the limit. If a program waits for memory, they may stay far
# below it. On a GB10, look at ``free -h`` for the memory.
#
# If that's all you wanted, go on to :doc:`a first speed-up <02_first_speedup>`.
#
# What else can PyTorch tell you?
# -------------------------------
#
# These lines also ask for the GPU's name and its memory:

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
# :term:`CUDA` is NVIDIA's platform for computing on its GPUs: compilers, and libraries
# that add, multiply or transform arrays there. PyTorch is built on top of it, and
# brings along the parts that it needs.
#
# A :term:`driver` is the part of the operating system that controls a device. Python
# can't install it. You do that once, or the person who looks after the computer does.
#
# The :term:`compute capability` is NVIDIA's number for a generation of GPUs. An H100
# has 9.0, and an older T4 has 7.5. GPUs are counted from 0, so ``"cuda:0"`` is the
# first one.

# folded: The sum again, on the H100, the H200 and the computer that built this page

try:
    numbers = torch.arange(1001.0, device="cuda")
    print("The GPU says", numbers.sum().item())
except (AssertionError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")

# %%
# Two things are called "CUDA version"
# ------------------------------------
#
# Type ``nvidia-smi`` in a terminal. It prints a table with each card, its memory, and
# the programs that use it. On our H100, its first line says:
#
# .. code-block:: none
#
#     Driver Version: 580.159.04     CUDA Version: 13.0
#
# This CUDA version is the one that your *driver* was made for. The other one,
# ``torch.version.cuda``, is the CUDA that came along inside *PyTorch*. If
# ``nvidia-smi`` says 13.0 and PyTorch says 12.6, nothing is wrong, because a driver
# understands older versions, too. A 12.4 from ``nvidia-smi`` goes with 12.6 as well,
# because for PyTorch `only the number before the point counts`__. But with 12.4 and
# 13.0, PyTorch warns you that the driver is too old, and says ``False``.
#
# __ https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
#
# Many guides tell you to install the :term:`CUDA toolkit` first. But PyTorch brings its
# own parts of it. For kernels in Numba, pip installs them, as ``cuda-toolkit``. You
# need all of it only to compile CUDA C++ yourself, or for NVIDIA's debugger and
# profilers.
#
# **One minute:** a colleague has a laptop with an RTX 4070. ``nvidia-smi`` prints its
# table, with CUDA version 13.0. In Python, ``torch.version.cuda`` is ``None`` and
# ``is_available()`` is ``False``. What is broken, and would a newer driver help?
#
# .. dropdown:: Answer
#
#    This PyTorch was made without CUDA, most likely for the CPU alone. No driver and no
#    toolkit can change that. Your colleague needs another PyTorch, and nothing else.
#
# Let the doctor look
# -------------------
#
# You don't have to find the fault yourself. Our doctor is a single file that asks all
# these questions. It changes nothing on your computer, and sends nothing anywhere. Get
# it from :doc:`its page </doctor>`, and run it where your program runs, for example on
# a cluster:
#
# .. code-block:: bash
#
#     scp firstlight-doctor.pyz USER@ADDRESS:  # copies it into your home folder there
#     python3 firstlight-doctor.pyz
#
# It prints a check mark for yes, a cross for no, and a dot if a question doesn't apply
# or wasn't reached. Then come the cause and the commands that mend it. On our H100 all
# fifteen lines begin with a check mark.

# folded: What it prints about your colleague's laptop
# The doctor can also judge a computer that isn't there, from a file of facts about it.
# On your own computer, print(firstlight_doctor.examine().text()) prints its report.

from firstlight_doctor import case, examine

report = examine(case("cpu-wheel").facts).text(width=88)
print(report.partition("\n  See ")[0])

# %%
# Your program reaches the GPU through a chain of six links: 1 the card, 2 its driver, 3
# the place where you run, 4 your PyTorch, and how that fits 5 the driver and 6 the
# card. Here are six broken computers, from reports of real faults. Read each column
# from the top, down to its cross. **What would you tell the owner of each to do?**

# folded: What the doctor says of six broken computers

from firstlight_doctor.rules import QUESTIONS

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
#    CUDA. F, link 6: a newer PyTorch. There ``is_available()`` is ``True``, and only
#    the sum fails. That's why we ask for one.
#
# After the first cross, most of what follows is only a consequence.
#
# .. dropdown:: Your GPU is from AMD, Intel or Apple
#
#    PyTorch for AMD's cards calls them ``cuda`` too, so the lines above work as they
#    stand. Only ``torch.version.cuda`` is ``None``, and ``torch.version.hip`` has the
#    version. The compute capability is a number of AMD's: an MI300X's 9.4 says nothing
#    about NVIDIA's 9.0. AMD's ``nvidia-smi`` is ``amd-smi``, and in older versions
#    ``rocm-smi``. Intel's cards are called ``xpu`` and Apple's ``mps``, so write
#    ``device="mps"`` on a Mac, and ask ``torch.backends.mps.is_available()``. For all
#    of them, ``torch.accelerator.is_available()`` says whether there is one, and
#    ``torch.accelerator.current_accelerator()`` which kind your PyTorch was built for.
#    The doctor knows them, and there is :doc:`a command for each </install>`.
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
# Our checker passes a ``sum_on`` that fails in the ways that you have seen, so you need
# no GPU.
#
# Download this page as a script, from *Run it yourself*, below. Put your answer where
# the dots are, and run ``firstlight try 01_find_your_gpu.py`` in its folder. That
# checks your answer, and runs nothing else of the page. If ``firstlight`` isn't
# installed, type the longer line that you find there.


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
#
# The third is about PyTorch; for Numba, pip brings parts of the toolkit.

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
