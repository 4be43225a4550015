"""
Do you have a GPU that works?
=============================

This page is for anyone whose GPU is missing, or who has one and wants to be sure of it.
Run the doctor: it names the one link that is broken between your program and the GPU,
and the command that repairs it. It is one file that needs nothing (:doc:`/doctor`).
It is not enough to ask ``torch.cuda.is_available()``: its ``False`` has dozens of
causes, and its ``True`` does not prove that the GPU can compute.

**You will learn**

- to prove that a GPU works, in a few lines;
- what stands between your program and a GPU, and what PyTorch's calls tell about it;
- how to read a diagnosis: evidence, cause, command.

**Time:** 7 minutes. **Needs:** any computer. Without a GPU, the other pages run, too,
on the CPU; Google Colab lends a GPU, if you choose one under *Change runtime type*.
"""

# %%
# Prove it
# --------
#
# Send numbers to the GPU, compute something whose result you know, bring it back, and
# compare:

import torch

from firstlight import best_device

device = best_device()
numbers = torch.arange(1001.0)
total = numbers.to(device).sum().cpu()

print(f"{device}: 0 + 1 + … + 1000 = {total:.0f}")
assert total == 1000 * 1001 / 2

# %%
# ``best_device()`` gives the first GPU that PyTorch can use, of any maker, and the CPU
# if there is none. So the line proves that a GPU works only if it does not begin with
# ``cpu``.
#
# What stands between
# -------------------
#
# If it does begin with ``cpu``, one of these four is missing or in the way, or two of
# them do not fit together, or the :term:`driver`'s two halves do not:
#
# - the *GPU*, a small computer of its own, on a card or on the same chip as the CPU;
# - its *driver*, the software that belongs to the operating system and controls the
#   GPU. It has two halves: one runs inside the system (the *kernel module*), the other
#   is a library that programs load (``libcuda`` for NVIDIA). They must have the same
#   version;
# - the *place* where your program runs. A container, a cluster's job or an environment
#   variable can hide a GPU that is there;
# - the :term:`wheel` of PyTorch, the ready-built package that pip installs. On Linux
#   and Windows, there is one for each kind of GPU, and one for none. It brings along
#   everything of :term:`CUDA` that PyTorch uses, so you need no :term:`CUDA toolkit` of
#   your own.
#
# Ask by hand
# -----------
#
# The first four calls ask about the wheel. The others need more than the wheel,
# most of them the whole chain. Where something is missing, some answer with 0 or
# ``False``, and some raise an error: ``ask`` shows either.


def ask(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"


questions = {
    "made for NVIDIA: CUDA": lambda: torch.version.cuda,
    "made for AMD: ROCm": lambda: torch.version.hip,
    "made for Intel: XPU": lambda: torch.version.xpu,
    "made for Apple: MPS": torch.backends.mps.is_built,
    "cuda.is_available()": torch.cuda.is_available,
    "cuda.device_count()": torch.cuda.device_count,
    "cuda.current_device()": torch.cuda.current_device,
    "cuda.get_device_name(0)": lambda: torch.cuda.get_device_name(0),
    "cuda.get_device_capability(0)": lambda: torch.cuda.get_device_capability(0),
    "cuda.get_arch_list()": torch.cuda.get_arch_list,
    "cuda.mem_get_info()": torch.cuda.mem_get_info,
    "cuda.memory_allocated()": torch.cuda.memory_allocated,
}
for question, call in questions.items():
    print(f"{question:<30} {ask(call)}")

# %%
# From top to bottom:
#
# - The first four tell what the *wheel* was made for. They look at no card. ``None``
#   three times and ``False`` for the fourth mean that this PyTorch can use no GPU at
#   all, however good the card.
# - ``is_available()`` asks whether this wheel can use CUDA, the driver starts, and at
#   least one card is visible. It does not say which of these failed. Despite the name
#   it also answers for AMD's cards, which PyTorch calls ``cuda`` too. Apple's and
#   Intel's have modules of their own, ``torch.mps`` and ``torch.xpu``.
# - ``device_count()`` says how many cards your program may see. Cards are counted from
#   0, so ``cuda:2`` is the third. ``current_device()`` is the one that plain ``cuda``
#   means.
# - The :term:`compute capability` is the generation of an NVIDIA card: (9, 0) for an
#   H100 or H200. ``get_arch_list()`` says which generations the wheel has code for.
#   Your card need not be in the list: code for ``sm_86`` also runs on 8.9, which has
#   the same first number and a larger second one, and the driver compiles
#   ``compute_90`` for every later card. If no entry fits in one of these ways,
#   everything above looks fine and the first computation fails.
# - ``mem_get_info()`` gives the free and the total memory of the card (its VRAM), in
#   bytes. ``memory_allocated()`` counts only what tensors of *this* program hold.
#
# ``nvidia-smi``, which comes with NVIDIA's driver, prints the card's name, memory and
# driver without Python.
#
# Let the doctor ask
# ------------------
#
# By hand you see what the wheel was built for, and whether the whole chain works, but
# not which link is broken. To find it, look in between: at the bus that the card sits
# on, at the system's modules and device files, and at the error code that the driver
# returns. The doctor does that, in the order in which the links depend on each other.
# It asks the driver without PyTorch, so it works where PyTorch itself is broken. Here
# are its questions and the first line of its diagnosis, in Python:

from gpu_doctor import case, cases, examine

this_machine = examine()
asked, _, diagnosis = this_machine.text(width=88).partition("\n\n")
print(asked)
print(diagnosis.partition("\n")[0])

# %%
# A check mark means yes, and a cross means no. A dot is a question that does not apply,
# or that could not be asked yet.
#
# Six broken machines
# -------------------
#
# The doctor first collects facts, then judges them and looks at nothing else. So a
# machine can be kept as a file of facts and judged again anywhere. Here are six that do
# not work, beside this one. They are not real machines: each was written from reports
# of such a fault, mostly on GitHub.

from gpu_doctor.rules import QUESTIONS

broken = {
    "Linux's own driver": "nouveau",
    "container, no GPU passed in": "container-without-gpu",
    "driver half updated": "driver-half-updated",
    "wheel without GPU code": "cpu-wheel",
    "wheel newer than driver": "driver-too-old-for-wheel",
    "card newer than wheel": "no-code-for-blackwell",
}
reports = {"this machine": this_machine}
reports |= {name: examine(case(code).facts) for name, code in broken.items()}

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

marks = {True: ("✓", 0), False: ("✗", 2), None: ("·", 1)}
states = np.array([[c.state for c in report.checks] for report in reports.values()]).T
fig, ax = plt.subplots(figsize=(7.2, 5.4), layout="constrained")
levels = [[marks[state][1] for state in row] for row in states]
colours = ListedColormap(["#1a7f64", "#8a8a8a33", "#c2410c"])
ax.imshow(levels, cmap=colours, vmin=0, vmax=2, aspect="auto", alpha=0.85)
for (row, column), state in np.ndenumerate(states):
    look = {"color": "0.5"} if state is None else {"color": "#fefefe", "weight": "bold"}
    ax.text(column, row, marks[state][0], ha="center", va="center", **look)
ax.set_yticks(range(len(QUESTIONS)), QUESTIONS.values(), fontsize=10)
ax.set_xticks(range(len(reports)), reports, rotation=40, ha="left", fontsize=10)
ax.xaxis.tick_top()
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
ax.set_xlabel("✓ yes    ✗ no    · does not apply, or not asked")
fig.suptitle("Six broken machines: each fails at a different question")
fig.set_label(
    "A grid of the doctor's questions, in rows, and seven machines, in columns: this "
    "one and six broken ones. Each broken machine has its first no at a different "
    "question. The six are further down from column to column: the system's "
    "driver, the device files, the driver's start, the wheel, its version, its code."
)
plt.show()

# %%
# Read a column from top to bottom. The chain is interrupted at the first cross; what
# follows is mostly its consequence. In the last two machines, the card, the driver and
# the wheel are each in order, but they do not fit together.
#
# How to read a diagnosis
# -----------------------
#
# One of the six, in full: a server whose system updated itself.

print(reports["driver half updated"].text(width=88).partition("\n\n")[2])

# %%
# - The *diagnosis* names one cause, the first that explains everything, and the word in
#   brackets tells how sure the doctor is. What else is wrong follows as *also*. Repair
#   the first, then ask again.
# - *Seen here* is the evidence, so that you can check it, and can contradict it.
# - *What to do* has the commands for the system that the facts describe.
#
# :doc:`/doctor` lists every cause, with its errors, evidence and commands. You can
# paste an error there.
#
# True and False
# --------------
#
# The doctor's tests have a collection of such machines. Count their causes by what
# PyTorch says there:

machines = [case(name) for name in cases()]
ill = [m for m in machines if m.cause and examine(m.facts).status == "problem"]
silent = {m.cause for m in ill if m.facts.torch.imported and not m.facts.torch.kind}
lying = {m.cause for m in ill if m.facts.torch.kind}

print(f"PyTorch finds no GPU:                   {len(silent)} different causes")
print(f"PyTorch finds one, yet all is not well: {len(lying)} different causes")

# %%
# So ask ``is_available()`` first, but do not stop there.
#
# Where this stops being true
# ---------------------------
#
# - *Another Python.* The doctor examines the environment that it runs in. A notebook
#   may run in another one. There, ask in a cell, after ``import sys``:
#   ``!{sys.executable} -m gpu_doctor``. From a terminal, name the other Python:
#   ``gpu-doctor --python PATH``.
# - *Another process.* A batch job, a container or a service has its own view of the
#   cards. Ask where your program runs.
# - *Now and then.* A loose cable, a hot card or a full memory breaks some runs and not
#   others. A healthy report holds for the moment in which it was made.
#
# Exercise
# --------
#
# Write the function that a program should call in place of ``is_available()``. It gets
# a list of candidates, the best first. A candidate is a name and a function, which
# takes a list of numbers and should return their squares as a list. On a broken device
# it may raise an error, or return something else. Return the name of the first
# candidate that works, and ``"cpu"`` if none does.


def first_working(candidates): ...


# %%

# folded: What checks your answer, on devices that fail in the ways you have seen


def check(answer):
    def right(numbers):
        return [number * number for number in numbers]

    def no_code(_):
        raise RuntimeError("no kernel image is available for execution on the device")

    def half(numbers):
        return right(numbers[:1]) + [0.0] * (len(numbers) - 1)

    def nan(numbers):
        return [float("nan")] * len(numbers)

    bad = {"new card": no_code, "ill": half, "hot": nan, "full": lambda _: []}
    good = ("gpu", right)
    trials = [
        ([good], "gpu", "this candidate works"),
        ([("new card", bad["new card"]), good], "gpu", "an error means: try the next"),
        ([("ill", bad["ill"]), good], "gpu", "compare every number, not the first"),
        ([("hot", bad["hot"]), good], "gpu", "NaN is not a square"),
        ([("full", bad["full"]), good], "gpu", "count the results too"),
        ([("fast", right), good], "fast", "the best that works comes first"),
        (list(bad.items()), "cpu", "there is always the CPU"),
        ([], "cpu", "a machine may have no candidate"),
    ]
    return verdict(answer, trials)


# %%

# folded: What turns the first trial that goes wrong into a sentence


def verdict(answer, trials):
    for candidates, expected, hint in trials:
        names = [name for name, _ in candidates]
        try:
            got = answer(candidates)
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
        if got != expected:
            return f"With {names}: {got!r}, not {expected!r}. Hint: {hint}."
    return "Right: this function believes only what it has seen."


# %%
# Put your function above, and ask:

print(check(first_working))

# %%

# solution


def first_working_solution(candidates):
    numbers = [1.0, -2.0, 3.5]
    for name, squares in candidates:
        try:
            if squares(numbers) == [number * number for number in numbers]:
                return name
        except Exception:
            continue
    return "cpu"


print(check(first_working_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""\
1. A GPU works when it has computed something and you have checked the result.
2. In the doctor's collection of broken machines, PyTorch finds no GPU for
   {len(silent)} different causes, and finds one all the same for {len(lying)}.
3. The doctor asks {len(QUESTIONS)} questions in order. Repair the first no.""")
