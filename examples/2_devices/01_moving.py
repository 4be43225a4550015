"""
Did that line move your tensor?
===============================

This page is for everybody who has written ``x.to("cuda")`` and wondered what it did.
It returns the :term:`tensor` on the GPU and leaves ``x`` where it was, so you have to
keep the result; if ``x`` is on that GPU already, you get ``x`` itself, and nothing is
copied. Of the lines below, only those that bring numbers to the GPU or back make your
program wait for the GPU.

**You will learn**

- to say of a line: same object or a new one, same memory or a copy, does it wait?
- to choose a :term:`device` once, for a program that runs on every computer;
- to go from NumPy to a GPU and back, and to read the error about two devices.

**Time:** 12 minutes. **Needs:** any computer, and some PyTorch.
"""

# %%
# Twelve lines
# ------------
#
# The CPU with its memory is the :term:`host`. A *device* is whatever can compute: the
# CPU, or a GPU, which has memory of its own (VRAM). Below, ``h`` is a tensor on the
# host and ``g`` one on the GPU; ``x`` is on ``device``, where you compute; ``a`` is a
# NumPy array, and ``model`` is on the host. Where there is no GPU, PyTorch's device
# ``meta`` plays one: its tensors have a shape and a type, but no memory and no numbers,
# and moves follow the same rules. In the figure, a dashed frame marks what this
# computer could not be asked: there the answer is what PyTorch documents `for CUDA`__.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution

import numpy as np
import torch
from torch import nn

from firstlight import Bench, best_device

device = best_device()
has_gpu = device.type != "cpu"
gpu = device if has_gpu else torch.device("meta")

lines = {"x.to(device)": "x", "h.cpu()": "h", "x.detach()": "x", "h.numpy()": "h"}
lines |= {"torch.from_numpy(a)": "a", "x.to(device, copy=True)": "x"}
lines |= {"x.to(torch.float16)": "x", "torch.tensor(a)": "a", "h.to(gpu)": "h"}
lines |= {"model.to(gpu)": "model", "g.cpu()": "g", "g.sum().item()": "g"}

# %%
# Each line is asked three things. Is the result the *same object* (Python's ``is``)? Is
# it in the *same memory*: has its *storage* the same address? Does the line *wait*
# until the GPU has done all the work that it was given before?


def fresh():
    h, a = torch.ones(5), np.ones(5, dtype=np.float32)
    x, g = h.to(device, copy=True), h.to(gpu)
    tools = {"torch": torch, "device": device, "gpu": gpu}
    return tools | {"h": h, "a": a, "x": x, "g": g, "model": nn.Linear(3, 2)}


def address(thing):
    if isinstance(thing, nn.Module):
        thing = next(thing.parameters())
    if isinstance(thing, torch.Tensor):
        return thing.device, thing.untyped_storage().data_ptr()
    if isinstance(thing, np.ndarray):
        return torch.device("cpu"), thing.ctypes.data
    return None  # a plain number


def is_new(line, name):
    names = fresh()
    had, where = names[name], address(names[name])
    got = eval(line, names)
    return got is not had, address(got) != where


# %%

# folded: How to find out whether a line waits

# A CUDA GPU gets matrix products that keep it busy, and then a mark, an event. If the
# GPU has reached the mark when the line returns, the line has waited for it.


def waits(line):
    eval(line, fresh())  # a first call may wait for reasons of its own
    names, big = fresh(), torch.ones(4096, 4096, device=device)
    product = big @ big
    torch.cuda.synchronize(device)
    for _ in range(20):
        torch.mm(big, big, out=product)
    mark = torch.cuda.Event()
    mark.record(torch.cuda.current_stream(device))
    eval(line, names)
    return mark.query()


crossing = {"h.to(gpu)", "model.to(gpu)", "g.cpu()", "g.sum().item()"}  # these wait
answers = {}  # for each line and question: new or waiting, and was it found out here?
for line, name in lines.items():
    possible, cuda = has_gpu or name != "g", device.type == "cuda"
    new = is_new(line, name) if possible else (True, True)
    wait = waits(line) if cuda else line in crossing
    answers[line] = ((new[0], possible), (new[1], possible), (wait, cuda))

found = {line for line, answer in answers.items() if answer[2][0]}
title = "Of these lines, only those that cross to the GPU or back wait for it"
if found != crossing:
    title = f"{len(found)} of these {len(answers)} lines make your program wait"

# %%

# figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

words = (("same", "new"), ("same", "new"), ("goes on", "waits"))
rows = [row + 0.4 * (row >= 5) + 0.4 * (row >= 8) for row in range(len(answers))]
fig, ax = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
for row, answer in zip(rows, answers.values(), strict=True):
    for column, (yes, known) in enumerate(answer):
        frame = {"fc": "#2e7ab0" if yes else "none", "ec": "black", "lw": 1.4}
        frame["ls"] = "-" if known else (0, (3, 2))
        ax.add_patch(plt.Rectangle((column, row), 0.94, 0.84, **frame))
        ink = {"color": "#fefefe" if yes else "black", "weight": "bold" * yes or None}
        ink |= {"ha": "center", "va": "center_baseline", "size": 11}
        ax.text(column + 0.47, row + 0.42, words[column][yes], **ink)
ax.set(xlim=(-0.05, 3), ylim=(rows[-1] + 1, -0.1))
ax.set_xticks([0.47, 1.47, 2.47], ["object", "memory", "your program"], size=11)
ax.set_yticks([row + 0.42 for row in rows], answers, family="monospace", size=11)
ax.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
ax.spines[:].set_visible(False)
fig.suptitle(title, size=12, weight="bold")
fig.set_label(
    "Twelve lines, three questions. Five leave the numbers where they were. Three copy "
    "within one memory, and the program goes on. Four cross to the GPU or back: new "
    f"memory. {len(found)} lines wait. Dashed frames: answers from documentation."
)
plt.show()

# %%
# There are three kinds of line:
#
# - *You get what you had*: the same object, or a new object around the same memory.
#   Then a change of a number through one of the two shows in the other.
# - *A copy within one memory.* On a GPU it goes into the CUDA :term:`stream`, the queue
#   of work for the GPU, and your program goes on. (The CPU has no such queue: there
#   every line is done when it returns.)
# - *A host–device transfer.* Your program stops until the GPU has finished what is in
#   its stream. ``.item()``, ``print(g)``, ``g.tolist()`` and ``if g > 0`` belong here,
#   because they fetch numbers (:doc:`/tutorials/2_devices/06_queues`).
#
# Only ``model.to(gpu)`` returns the *same* object with *new* memory:
# :doc:`/tutorials/2_devices/05_moving_a_model` is about models.
#
# The kind sets the least time that a line can take: bytes divided by :term:`bandwidth`.
# A copy reads 4 bytes and writes 4 bytes for each ``float32``. A transfer sends 4 bytes
# through :term:`PCI Express` (PCIe), which connects the card and the host:

from firstlight.display import quantity, show_table
from firstlight.timing.specs import spec

n_image = 100_000_000
floors = {
    "there already": 0.0,
    "copied within an H100": 8 * n_image / spec("H100 SXM", "bandwidth"),
    "sent through PCIe 5, 16 lanes": 4 * n_image / spec("PCIe 5 x16", "bandwidth"),
    "sent through PCIe 3, 16 lanes": 4 * n_image / spec("PCIe 3 x16", "bandwidth"),
}
limits = [(way, quantity(floor, "s")) for way, floor in floors.items()]
show_table(f"{n_image:,} numbers", ("", "at least"), limits)

# %%
# Choose the device once
# ----------------------
#
# This helper runs a line, and prints what it gives or how it fails:

import textwrap


def attempt(line):
    try:
        outcome = repr(eval(line, globals()))
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}".splitlines()[0]
    outcome = textwrap.shorten(f"{line} -> {outcome}", 170, placeholder=" ...")
    print(textwrap.fill(outcome, 86, subsequent_indent="    "))


attempt('torch.device("cuda" if torch.cuda.is_available() else "cpu")')
attempt("torch.accelerator.is_available()")
attempt("torch.accelerator.current_accelerator()")
attempt("best_device()")

# %%
# - Most GPU programs contain the first line. It takes an NVIDIA GPU if PyTorch
#   can use one, or an AMD GPU, which PyTorch calls ``"cuda"`` as well, and otherwise
#   the CPU. On a Mac (``"mps"``) or with an Intel GPU (``"xpu"``) it takes the CPU,
#   and does not say so.
# - ``torch.accelerator`` finds a GPU of any make: use ``current_accelerator()`` if
#   ``is_available()``, otherwise ``"cpu"``. This site's ``best_device()`` does that.
#
# Choose once, and *print* the device: a fallback to the CPU makes no error, only a long
# wait. Then write ``.to(device)`` and ``device=device`` everywhere. Avoid ``.cuda()``,
# which fails on a computer without CUDA.
#
# A device is a kind and, after a colon, a number that counts from 0:

missing = f"cuda:{torch.cuda.device_count()}"  # the first number that is not there
attempt('torch.device("cuda:2")')
attempt('torch.device("cuda") == torch.device("cuda:0")')
attempt('torch.device("cuda0")')
attempt('torch.device("gpu")')
attempt("torch.ones(1).to(missing)")

# %%
# - ``"cuda:2"`` is the *third* GPU, and only a name. The *move* to a GPU that you do
#   not have fails, and says what is missing: GPU code in PyTorch ("not compiled"), a
#   :term:`driver`, or a GPU of that number ("invalid device ordinal"): see
#   :doc:`/doctor`.
# - ``"cuda"`` means the *current* GPU: number 0, unless you chose another with
#   ``torch.cuda.set_device``. A tensor made there says ``cuda:0``, and the two names
#   are not equal, so compare kinds: ``x.device.type == "cuda"``.
# - A program started with ``CUDA_VISIBLE_DEVICES=2`` sees only the third GPU, and calls
#   it ``cuda:0``.
#
# Here are all GPUs. Where there is none, the list holds the CPU, because a loop over an
# empty list would do nothing, without an error:


def try_all_gpus():
    kind = torch.accelerator.current_accelerator()
    numbers = range(torch.accelerator.device_count())
    return [torch.device(kind.type, i) for i in numbers] or [torch.device("cpu")]


attempt("try_all_gpus()")

# %%
# Keep the result
# ---------------
#
# First drop the result of a move, then keep it:

x = torch.ones(3)
x.to("meta")
print("after x.to('meta'):     x is on", x.device)
y = x.to("meta")
print("after y = x.to('meta'): y is on", y.device)
print("y.to('meta') is y:     ", y.to("meta") is y)

# %%
# - *A result that you drop is lost.* ``x.to(...)`` leaves ``x`` where it was, as
#   ``text.upper()`` leaves ``text``, and no warning comes.
# - *If it is there already, you get the tensor itself*, `by design`__.
#
# Both rules hold for ``x.cpu()`` and ``x.cuda(1)``, and for ``x.cuda()``, which means
# the current GPU: from another GPU, it copies.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html
#
# The second rule sets a trap where there is *no* GPU. Count to three, and keep the
# total after each step:

total = torch.zeros(1, device=device)
kept, copies = [], []
for _ in range(3):
    total += 1
    kept.append(total.cpu())
    copies.append(total.to("cpu", copy=True))
print(".cpu():               ", [int(value) for value in kept])
print(".to('cpu', copy=True):", [int(value) for value in copies])

# %%
# On a GPU, both lines print ``[1, 2, 3]``. On the CPU, ``.cpu()`` returns the tensor
# itself each time, so that all three show its last value. If you need a copy, ask for
# one: ``copy=True`` or ``.clone()``.
#
# Better than a move is to make a tensor where it is needed. PyTorch makes it on the
# host unless you say where. The ``_like`` functions follow the tensor that you give
# them, and ``with`` sets the device for all that is made inside it:

made = {"torch.ones(3)": torch.ones(3), "device=gpu": torch.ones(3, device=gpu)}
made["zeros_like of that"] = torch.zeros_like(made["device=gpu"])
with gpu:
    made["inside with gpu:"] = torch.ones(3)
rows = [(how, str(tensor.device)) for how, tensor in made.items()]
show_table("Where it is", ("", ".device"), rows)

# %%
# NumPy and back
# --------------
#
# NumPy knows only the host's memory:

array = np.linspace(0, 1, 5)
shared = torch.from_numpy(array)
array[0] = 7
print("the tensor's first number:", shared[0].item(), "and type:", shared.dtype)
moved = torch.as_tensor(array, dtype=torch.float32, device=device)
print("a tensor fit for every device:", moved.dtype, "on", moved.device)

weights = torch.ones(3, requires_grad=True)
on_meta = torch.ones(3, device="meta")
attempt("weights.numpy()")
attempt("on_meta.numpy()")
attempt("weights.detach().cpu().numpy()")

# %%
# - ``from_numpy`` shares its memory with the array, ``torch.tensor`` copies, and
#   ``torch.as_tensor`` copies only if it must.
# - NumPy makes ``float64`` numbers, which take twice the bytes, and which Apple's GPUs
#   refuse. So name the type on the way in.
# - ``.numpy()`` does not copy, so it refuses a tensor that is not on the host, and one
#   whose gradient PyTorch follows. ``.detach().cpu().numpy()`` is the explicit form.
#   From a GPU it copies; on the CPU it shares memory, the trap above.
#
# Two devices in one line
# -----------------------
#
# PyTorch does not move a tensor because another one is elsewhere: a transfer is slow,
# and you may not have meant it. It raises an ordinary exception, before anything is
# computed:

h, g = torch.ones(3), torch.ones(3, device="meta")
attempt("h + g")
attempt("g + 2")
attempt("g + torch.tensor(2.0)")
attempt("h + torch.tensor(2.0, device='meta')")
attempt("g.copy_(h)")

# %%
# Python's numbers go with every device, and so does, in arithmetic, a tensor *without
# dimensions on the host*, such as ``torch.tensor(2.0)``; one of shape ``(1,)`` does
# not. The reverse is refused. ``copy_`` and ``g[:] = h`` cross over, because that is
# their work. CUDA words the error differently, here of a sum and of a `matrix
# product`__:
#
# .. code-block:: text
#
#     Expected all tensors to be on the same device, but found at least two devices,
#         cuda:0 and cpu!
#     Expected all tensors to be on the same device, but got mat2 is on cuda:0,
#         different from other tensors on cpu (when checking argument in method
#         wrapper_CUDA_mm)
#
# __ https://github.com/yolain/ComfyUI-Easy-Use/issues/937
#
# The message does not name your variable. So print ``.device`` of everything in that
# line, and look first at the batch, a mask, the weights of a loss, and
# :doc:`what a model leaves behind </tutorials/2_devices/05_moving_a_model>`. Then
# move the one that is elsewhere. This is ``h + g``, repaired:

attempt("h.to(g.device) + g")

# %%
# Check
# -----
#
# A move must not change a number. Only rounding ``float64`` to ``float32`` may cost a
# relative error, of at most :math:`2^{-24}`. Try an odd size, and a transpose:

rng = np.random.default_rng(seed=1)
exact = rng.standard_normal(1_000_003)
rounded = torch.as_tensor(exact, dtype=torch.float32, device=device).cpu().numpy()
worst = np.max(np.abs(rounded - exact) / np.abs(exact))
assert worst <= 2**-24
print(f"float64 to float32 on {device} and back:")
print(f"largest relative error {worst:.3e}, at most 2^-24 = {2**-24:.3e}")

tilted = torch.from_numpy(rounded[: 997 * 1003]).reshape(997, 1003).T
assert torch.equal(tilted.to(device, copy=True).cpu(), tilted)
print("transpose, there and back: equal, bit for bit")

# %%
# Measure
# -------
#
# Every row below ends with the same ``n`` numbers on the device. Predict by bytes: none
# for *there already*, 8 a number for a copy, 4 for ones that are only written. So *made
# there* should take half as long as a copy.

n = 2**26 + 1 if has_gpu else 2**24 + 1
h = torch.ones(n)
x = h.to(device, copy=True)
out = torch.zeros_like(x)

bench = Bench("moving")
on = {"n": n, "device": device}
bench.time("copy, same memory", out.copy_, x, bytes=8 * n, **on)
bench.time("copy, new memory", lambda: x.to(device, copy=True), bytes=8 * n, **on)
bench.time("made there", lambda: torch.ones(n, device=device), bytes=4 * n, **on)
bench.time("there already", x.to, device, **on)
if has_gpu:
    bench.time("from the host", h.to, device, **on)
    bench.time("made here, moved", lambda: torch.ones(n).to(device), **on)
bench.show()

written, copied = bench["made there"].median, bench["copy, new memory"].median
print(f"made there: {written / copied:.2f} of a copy to new memory, by bytes 0.50")

# %%
# *there already* only asks the tensor where it is, so there is no reason to write an
# ``if`` around a ``.to``. The rows with new memory also have to get that memory: on a
# GPU from what PyTorch keeps for the next tensor
# (:doc:`/tutorials/2_devices/10_memory`), on the host from the operating system, page
# by page, which can cost more than the bytes. Then the prediction for *made there*
# fails.
#
# On the newest GPU on record, *from the host*, through PCIe, took
# :timing:`moving median "from the host" @gpu`; *copy, same memory*, on the card, took
# :timing:`moving median "copy, same memory" @gpu`.
#
# What does a move cost on a real card? The authors of infra-practices and clpeak
# measured it, and our model, which knows only the slot, promised too much.
#
# .. measured-by-others:: scale-a100 send-a100 fetch-a100 pageable-gtx1660ti
#
# Where this stops being true
# ---------------------------
#
# - *One memory for both*, as in Apple's chips: there is no PCIe to cross. PyTorch keeps
#   two tensors all the same, so the rules for objects hold.
# - *Transfers that do not wait.* With ``non_blocking=True`` your program goes on while
#   numbers travel from or to :term:`pinned` host memory. It may read them there before
#   they have arrived: see :doc:`/tutorials/2_devices/04_small_copies`.
#
# Exercise
# --------
#
# Write ``snapshot(x)``: it returns the numbers of a tensor, from any device, as a NumPy
# array of ``float64`` with memory of its own, so that it stays as it is when ``x``
# changes. ``x`` may have a gradient, or a type that NumPy does not know.


def snapshot(x):
    return x.detach().cpu().numpy()


# %%

# folded: The checker


def find_problem(answer, x):
    was, needed_grad = x.detach().clone(), x.requires_grad
    array = answer(x)
    if not isinstance(array, np.ndarray):
        return f"it returned a {type(array).__name__}, not a NumPy array"
    if array.dtype != np.float64:
        return f"the array is of {array.dtype}, not float64"
    if not torch.equal(x.detach(), was) or x.requires_grad != needed_grad:
        return "the tensor that you were given has changed"
    right = np.array(was.tolist(), np.float64)
    if array.shape != right.shape or not np.array_equal(array, right):
        return "the array has other numbers or another shape"
    with torch.no_grad():
        x += 1
    if not np.array_equal(array, right):
        return "the array changed with the tensor: it shares memory"
    return ""


# %%

# folded: What the checker tries


def check(answer):
    made = {"float64": torch.arange(5.0, dtype=torch.float64).reshape(1, 5)}
    made["float32, with a gradient"] = torch.linspace(0, 1, 7, requires_grad=True)
    made["bfloat16"] = torch.ones(2, 3, dtype=torch.bfloat16).T
    made[f"int64 on {device}"] = torch.arange(5, device=device)
    made["a single number"] = torch.tensor(0.5)
    for name, x in made.items():
        try:
            problem = find_problem(answer, x)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With a tensor of {name}: {problem}."
    return "Right: the numbers are yours to keep, from any device and of any type."


# %%

print(check(snapshot))

# %%

# solution


def snapshot_solution(x):
    return x.detach().cpu().to(torch.float64, copy=True).numpy()


print(check(snapshot_solution))

# %%
# Three lines to remember
# -----------------------

# remember

asked = quantity(bench["there already"].median, "s")
print(f"""\
1. A tensor's .to returns the moved tensor: keep the result. Where the tensor is there
   already, that is the tensor itself, after {asked};
   a copy of {n:,} numbers took {quantity(copied, "s")}.
2. A line that crosses to the GPU or back makes your program wait; a copy within the
   GPU does not. With non_blocking=True only pinned memory lets it go on, and on the
   way back you have to wait yourself before you read.
3. Choose one device, once; print it; write .to(device) everywhere, without an if.""")
