"""
Do you have a GPU that works?
=============================

Most guides answer with one line, ``torch.cuda.is_available()``, and if it says
``False``, with another: install the driver. The driver is one link of a chain, and any
link can break. This page walks along the chain, first by hand and then with a command
that names the broken link and what mends it.

**You will learn**

- what stands between your program and a GPU, and in which order to ask;
- which call of PyTorch answers which question, and what each answer is worth;
- how to read a diagnosis: evidence, cause, command;
- to prove that a GPU works, instead of believing that it is there.

**Time:** 10 minutes. **Needs:** any computer. You need no GPU to learn to look for one.
"""

# %%
# Predict
# -------
#
# Before you run anything, write down two guesses.
#
# - ``torch.cuda.is_available()`` says ``False``. How many different causes can that
#   have?
# - It says ``True``. Can your GPU still fail to compute ``1 + 1``?
#
# The chain
# ---------
#
# A GPU is a computer of its own, on a card or on the same chip as the CPU. Four things
# have to fit together before your program can use it:
#
# - the *card*, and the slot or chip that it sits on;
# - its *driver*, the program that belongs to the operating system and speaks to the
#   card. It has two halves: one runs inside the system (the *kernel module*), the other
#   is a library that programs load (``libcuda`` for NVIDIA). Both come in one package;
# - the *place* where your program runs. A container, a cluster's job or an environment
#   variable can hide a card that is there;
# - the *wheel* of PyTorch, the ready-built package that pip installs. There is one for
#   each kind of GPU, and one for none. It brings along everything of CUDA that PyTorch
#   uses, so you need no CUDA toolkit of your own.
#
# Ask by hand
# -----------
#
# Each of these calls asks about one link. Where a link is missing, some of them answer
# with 0 or ``False``, and some raise an error: ``ask`` shows either.

import torch


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
#   four times, or ``False`` for the last, means that this PyTorch can use no GPU at
#   all, however good the card.
# - ``is_available()`` asks whether the driver starts and shows at least one card.
#   Despite the name it also answers for AMD's cards, which PyTorch calls ``cuda`` too.
#   Apple's and Intel's have calls of their own, ``torch.mps`` and ``torch.xpu``.
# - ``device_count()`` says how many cards your program may see. Cards are counted from
#   0, so ``cuda:2`` is the third. ``current_device()`` is the one that plain ``cuda``
#   means.
# - The *compute capability* is the generation of an NVIDIA card: (9, 0) for an H100 or
#   H200. ``get_arch_list()`` says which generations the wheel has code for: ``sm_90``
#   is that same one. If your card is not in the list, everything above looks well and
#   the first computation fails.
# - ``mem_get_info()`` gives the free and the whole memory of the card, in bytes.
#   ``memory_allocated()`` counts only what tensors of *this* program hold, so it is 0
#   now, with a GPU or without.
#
# Prove it
# --------
#
# None of these calls has made the card compute. That takes one more line: send numbers
# there, compute something whose result you know, bring it back, compare.

from firstlight import best_device

device = best_device()
numbers = torch.arange(1001.0)
total = numbers.to(device).sum().cpu()

print(f"{device}: 0 + 1 + … + 1000 = {total:.0f}")
assert total == 1000 * 1001 / 2

# %%
# ``best_device()`` gives the first GPU that PyTorch can use, of any maker, and the CPU
# if there is none. So the line above proves your GPU only if it does not begin with
# ``cpu``.
#
# Let the doctor ask
# ------------------
#
# By hand you see the two ends of the chain: PyTorch's wheel, and whether it all works.
# To find the link that broke, you have to look in between: at the bus that the card
# sits on, at the system's modules and device files, and at the code with which the
# driver refuses. ``firstlight doctor`` does that, in the order in which the links
# depend on each other. It asks the driver without PyTorch, so it works where PyTorch
# itself is broken.
#
# In a terminal you type ``firstlight doctor``. In Python:

from firstlight.doctor import case, cases, examine

here = examine()
print(here.text(width=88))

# %%
# A check mark is a question answered with yes, a cross one answered with no. A dot is a
# question that could not be asked, because an earlier answer was no, or that your kind
# of GPU does not need.
#
# Six broken machines
# -------------------
#
# The doctor splits its work in two. One half collects facts. The other half judges
# them, and looks at nothing else. So a machine can be kept as a file of facts and
# judged again anywhere. Here are six that do not work, beside yours. Each line shows
# the first question that is answered with no:

from firstlight.doctor.rules import QUESTIONS

broken = {
    "wheel without GPU code": "cpu-wheel",
    "Linux's own driver": "nouveau",
    "driver half updated": "driver-half-updated",
    "container, no GPU passed in": "container-without-gpu",
    "wheel newer than driver": "driver-too-old-for-wheel",
    "card newer than wheel": "no-code-for-blackwell",
}
reports = {"this machine": here}
reports |= {name: examine(case(code).facts) for name, code in broken.items()}

for name, report in reports.items():
    failed = [answer.question for answer in report.ladder if answer.state is False]
    print(f"{name:<28} {QUESTIONS[failed[0]] if failed else 'none: it is healthy'}")

# %%
# The picture has a row for each question and a column for each machine.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

marks = {True: ("✓", 0), False: ("✗", 2), None: ("·", 1)}
states = np.array([[a.state for a in report.ladder] for report in reports.values()]).T
fig, ax = plt.subplots(figsize=(5.6, 5.8), layout="constrained")
levels = [[marks[state][1] for state in row] for row in states]
colours = ListedColormap(["#1a7f64", "#8a8a8a33", "#c2410c"])
ax.imshow(levels, cmap=colours, vmin=0, vmax=2, aspect="auto", alpha=0.85)
for (row, column), state in np.ndenumerate(states):
    weight = "normal" if state is None else "bold"
    colour = "0.5" if state is None else "#fefefe"
    ax.text(column, row, marks[state][0], ha="center", va="center", color=colour)
ax.set_yticks(range(len(QUESTIONS)), QUESTIONS.values(), fontsize=9)
ax.set_xticks(range(len(reports)), reports, rotation=65, ha="left", fontsize=9)
ax.xaxis.tick_top()
ax.tick_params(length=0)
fig.set_label(
    "A grid of the doctor's questions, in rows, and seven machines, in columns: this "
    "one and six broken ones. Each broken machine answers yes down to the link that "
    "broke, and no there. The link is another one for each: the six come in the order "
    "wheel, driver, start, device files, version, code. Below it, most questions "
    "cannot be asked."
)
plt.show()

# %%
# Read a column from top to bottom. The first cross is where that chain broke; what
# follows is mostly its consequence. The last two machines are the treacherous ones.
# Their card, their driver and their wheel are each in order. They do not fit together.
#
# How to read a diagnosis
# -----------------------
#
# One of the six, in full. Its owner had changed nothing. The system updated itself
# overnight, and in the morning the GPU was gone:

print(reports["driver half updated"].text(width=88).partition("\n\n")[2])

# %%
# - The *diagnosis* names one cause: the first that explains everything. What else is
#   wrong follows as *also*. Mend the first, then ask again.
# - *Seen here* is the evidence, so that you can check it with your own eyes, and can
#   contradict it. The word in brackets tells how sure the doctor is.
# - *What to do* has the commands for the system that the facts describe.
#
# :doc:`/doctor` lists every cause, with its errors, evidence and commands. You can
# paste an error there that you met.
#
# Your guesses
# ------------
#
# Every cause that the doctor knows has a machine in its collection. Count them by what
# PyTorch says there:

machines = [case(name) for name in cases()]
ill = [m for m in machines if m.cause and examine(m.facts).status == "problem"]
silent = {m.cause for m in ill if m.facts.torch.imported and not m.facts.torch.kind}
lying = {m.cause for m in ill if m.facts.torch.kind}

print(f"PyTorch finds no GPU:                   {len(silent)} different causes")
print(f"PyTorch finds one, yet all is not well: {len(lying)} different causes")

# %%
# So ``False`` is the beginning of a question, and ``True`` is not the end of it. A GPU
# works when it has computed something and the result was right.
#
# Where this stops being true
# ---------------------------
#
# - *Another Python.* The doctor examines the environment that it runs in. A notebook
#   may run in another one. There, ask in a cell: ``!{sys.executable} -m firstlight
#   doctor``, after ``import sys``.
# - *Another process.* A batch job, a container or a service has its own limits and its
#   own view of the cards. Ask where your program runs.
# - *Now and then.* A loose cable, a hot card or a full memory breaks some runs and not
#   others. A healthy report tells of the moment in which it was made.
# - *Fast.* A GPU that works may still be slower than your CPU at what you do.
#   :doc:`02_first_speedup` measures that.
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
# ``check`` tries it on devices that fail in the ways you have seen.


def check(answer):
    def right(numbers):
        return [number * number for number in numbers]

    def no_code(_):
        raise RuntimeError("no kernel image is available for execution on the device")

    def half(numbers):
        return right(numbers[:1]) + [0.0] * (len(numbers) - 1)

    def nan(numbers):
        return [float("nan")] * len(numbers)

    trials = [
        ([("gpu", right)], "gpu", "this candidate works"),
        (
            [("new card", no_code), ("gpu", right)],
            "gpu",
            "an error means: try the next",
        ),
        ([("ill", half), ("gpu", right)], "gpu", "compare every number, not the first"),
        ([("ill", nan), ("gpu", right)], "gpu", "NaN is not a square"),
        ([("ill", lambda _: []), ("gpu", right)], "gpu", "count the results too"),
        ([("fast", right), ("slow", right)], "fast", "the best that works comes first"),
        ([("new card", no_code), ("ill", half)], "cpu", "there is always the CPU"),
        ([], "cpu", "a machine may have no candidate"),
    ]
    return verdict(answer, trials)


# %%
# It runs each trial and turns the first that goes wrong into a sentence:


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

print(f"1. Between you and a GPU stand {len(QUESTIONS)} questions. Ask them in order.")
print(f"2. False has {len(silent)} causes and more. True still leaves {len(lying)}.")
print("3. A GPU works when it has computed something and you have checked the result.")
