"""
Did that line move your tensor?
===============================

`An early tutorial of MPoL`__ says that ``.to(device)`` and ``.cuda()`` return a *copy*
on the GPU. A course notebook calls ``x.to('cuda:0')``, keeps no result, and prints
where ``x`` is. A boot camp writes ``gpumodel = model.cuda()``, as if there were two
models from then on. That is one method in three readings, and each goes wrong
somewhere. Here you ask the objects themselves.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to say of a line: same object or a new one, same memory or a copy, does it wait?
- what moves with a model, and what stays behind, also in its optimizer;
- to read the error about two devices, and to rehearse a move without a GPU;
- to write code that runs on every device and never asks which one it is.

**Time:** 20 minutes. **Needs:** any computer, and some PyTorch. With a GPU, the page
asks that, too.
"""

# %%
# Predict
# -------
#
# A GPU has memory of its own. On this page, the *host* is the CPU with its memory, and
# a *device* is whatever can compute: the CPU or a GPU. Say you have an image of ``n``
# numbers (``float32``, 4 bytes each), and a line that should bring it to a device. The
# line can do one of three things:
#
# - nothing, because the image is there already: no bytes;
# - a copy within one memory: it reads 4 bytes and writes 4 bytes for each number;
# - a move through the slot that the card sits in: 4 bytes for each number.
#
# No line can be faster than its bytes allow. Here are 100 million numbers, on a large
# card and through two kinds of slot (PCI Express, with 16 lanes):

from firstlight.measure.specs import spec

n_image = 100_000_000
floors = {
    "there already": 0.0,
    "copied within an H100": 8 * n_image / spec("H100 SXM", "bandwidth"),
    "moved, PCI Express 5": 4 * n_image / spec("PCIe 5 x16", "bandwidth"),
    "moved, PCI Express 3": 4 * n_image / spec("PCIe 3 x16", "bandwidth"),
}
for way, floor in floors.items():
    print(f"{way:<24} never under {1e3 * floor:5.2f} ms")

# %%
# So it matters which of the three a line does, and the line does not say. Here are
# twelve lines. ``h`` is a tensor on the host, ``g`` one on the GPU, ``x`` is on
# ``device``, where you compute. ``a`` is a NumPy array, and ``model`` is on the host::
#
#     x.to(device)                h.to(gpu)             g.cpu()
#     x.to(device, copy=True)     h.cpu()               g.sum().item()
#     x.to(torch.float16)         h.numpy()             model.to(gpu)
#     x.detach()                  torch.from_numpy(a)   torch.tensor(a)
#
# Write down three answers for each: Do you get the *same object* back? Are the numbers
# still in the *same memory*? Does the line *wait* until the GPU has done all that you
# asked of it before? A figure below has the answers.
#
# What a device is called
# -----------------------
#
# ``torch.device`` turns a string into a device: a kind and, after a colon, a number.
# Numbers count from 0, so ``"cuda:2"`` is the *third* GPU. This helper runs a line, and
# prints what it gives or how it fails:

import textwrap

import torch

from firstlight import Bench, best_device


def attempt(line):
    try:
        said = repr(eval(line, globals()))
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
    said = textwrap.shorten(f"{line} -> {said}", 170, placeholder=" ...")
    print(textwrap.fill(said, 86, subsequent_indent="    "))


missing = f"cuda:{torch.cuda.device_count()}"  # the first number that is not there
attempt('torch.device("cuda:2")')
attempt('torch.device("cuda") == torch.device("cuda:0")')
attempt('torch.device("cuda0")')
attempt('torch.device("gpu")')
attempt("torch.ones(1).to(missing)")

# %%
# - A device is only a name. You can name a GPU that you do not have. The *move* fails,
#   and says what is missing: a PyTorch that can use a GPU ("not compiled"), a driver,
#   or a GPU of that number ("invalid device ordinal"). :doc:`/doctor` has the cures.
#   The notebook expects an "invalid device string" here. That is for names that cannot
#   be read, as ``cuda0``.
# - ``"cuda"`` without a number means the *current* GPU: number 0, unless you chose
#   another with ``torch.cuda.set_device(1)``. A tensor made there says ``cuda:0``, and
#   the two names are not equal. So compare kinds: ``x.device.type == "cuda"``.
# - AMD's GPUs are called ``"cuda"``, too. Apple's is ``"mps"``, Intel's are ``"xpu"``.
# - The numbers are those of your program. If the variable ``CUDA_VISIBLE_DEVICES`` is
#   ``2`` when it starts, it sees the third GPU only, and calls it ``cuda:0``.
#
# Some notes on the book *Dive into Deep Learning* choose a GPU with two helpers.
# ``try_gpu(10)`` gives the CPU where there are fewer GPUs, and you find out by waiting.
# ``try_all_gpus()`` gives an empty list where there is none, and a loop over an empty
# list does nothing, without a word. The book promises a list with the CPU. Here is one
# that keeps the promise, for the GPUs of every maker, and this site's ``best_device``,
# which refuses a number that is not there:


def try_all_gpus():
    kind = torch.accelerator.current_accelerator()
    numbers = range(torch.accelerator.device_count())
    return [torch.device(kind.type, i) for i in numbers] or [torch.device("cpu")]


attempt("torch.accelerator.device_count(), try_all_gpus()")
attempt("best_device(10)")

# %%
# Where a tensor is made
# ----------------------
#
# PyTorch makes a tensor on the host, unless you say ``device=``. Made on the host and
# moved, it is written twice and sent once. Made on the device, it is written once, and
# nothing is sent. (The boot camp's ``torch.FloatTensor([1., 2.]).cuda()`` is the old
# way. ``torch.tensor([1., 2.], device=device)`` is today's.) The ``_like`` functions
# follow the tensor that you give them, and ``with`` sets the device for all that is
# made inside it, models too.
#
# To see this without a GPU, take a device that every PyTorch has: ``meta``. A tensor
# there has a shape and a type, but no memory and no numbers. What a move returns
# follows the same rules as on a GPU. So ``meta`` can play the GPU where there is none:

device = best_device()
has_gpu = device.type != "cpu"
gpu = device if has_gpu else torch.device("meta")

made = {"without device=": torch.ones(3), "device=gpu": torch.ones(3, device=gpu)}
made["zeros_like"] = torch.zeros_like(made["device=gpu"])
with gpu:
    made["inside with"] = torch.ones(3)
for how, tensor in made.items():
    print(f"{how:<16} on {tensor.device}, get_device() says {tensor.get_device()}")

# %%
# ``get_device()`` gives the number of a GPU, and -1 for the host and ``meta``.
# ``.device`` says more: kind and number.
#
# Keep the result
# ---------------
#
# Now move a tensor as the notebook does, without keeping the result. Then keep it:

x = torch.ones(3)
x.to("meta")
print("after x.to('meta'):     x is on", x.device)
y = x.to("meta")
print("after y = x.to('meta'): y is on", y.device)
print("y.to('meta') is y:     ", y.to("meta") is y)

# %%
# - *A result that you drop is lost.* ``x.to(...)`` leaves ``x`` where it was, as
#   ``text.upper()`` leaves ``text``, and no warning comes. The notebook drops its
#   results. So it would print -1 each time, on the best GPU there is.
# - *Already there? Then you get the tensor itself*, as `the documentation says`__.
#   MPoL's "copy" is right only for a tensor that is somewhere else.
#
# ``x.cuda()`` is short for ``x.to("cuda")``, ``x.cuda(1)`` for ``x.to("cuda:1")``, and
# ``x.cpu()`` for ``x.to("cpu")``. All of them follow these two rules.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html
#
# The second rule sets a trap, and it closes where there is *no* GPU. Count to three,
# and keep the total after each step:

total = torch.zeros(1, device=device)
kept, copied = [], []
for _ in range(3):
    total += 1
    kept.append(total.cpu())
    copied.append(total.to("cpu", copy=True))
print("kept with .cpu():                 ", [int(value) for value in kept])
print("kept with .to('cpu', copy=True):  ", [int(value) for value in copied])

# %%
# On a GPU, both lines print ``[1, 2, 3]``. On the CPU, ``.cpu()`` returns the tensor
# itself, three times, and all three show its last value. One script, two results, and
# the wrong one is on the laptop where you test it. If you need a copy, ask for one:
# ``copy=True`` or ``.clone()``.
#
# Twelve lines, asked
# -------------------
#
# Now ask the twelve lines. Is the object that comes back the one that you had? Is the
# memory behind it, its *storage*, at the same address? (Older pages print
# ``x.storage()``, which is deprecated.)

import numpy as np
from torch import nn


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
# Does it wait? To find out, the page gives a CUDA GPU a queue of work, matrix products
# that take it a while, and puts a mark behind them, an *event*. Then it runs the line.
# If the GPU has reached the mark when the line returns, the line has waited.


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


# %%
# Where there is no such GPU, nobody can wait for it, and nothing comes back from
# ``meta``. For those answers the page has a *model*: what PyTorch's documentation says
# of CUDA. `Work for the GPU goes into a queue`__, and a copy between host and GPU waits
# until the queue is empty.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution

lines = {"x.to(device)": "x", "h.cpu()": "h", "x.detach()": "x", "h.numpy()": "h"}
lines |= {"torch.from_numpy(a)": "a", "x.to(device, copy=True)": "x"}
lines |= {"x.to(torch.float16)": "x", "torch.tensor(a)": "a", "h.to(gpu)": "h"}
lines |= {"model.to(gpu)": "model", "g.cpu()": "g", "g.sum().item()": "g"}
modelled = {"h.to(gpu)", "model.to(gpu)", "g.cpu()", "g.sum().item()"}  # these wait

answers = {}  # for each line and question: new or waiting, and was it measured?
for line, name in lines.items():
    possible, cuda = has_gpu or name != "g", device.type == "cuda"
    new = is_new(line, name) if possible else (True, True)
    wait = waits(line) if cuda else line in modelled
    answers[line] = ((new[0], possible), (new[1], possible), (wait, cuda))

# %%
# In the picture, coloured cells say *new*, or *waits*. A dashed frame marks an answer
# of the model.

import matplotlib.pyplot as plt

words = (("same", "new"), ("same", "new"), ("goes on", "waits"))
rows = [row + 0.4 * (row >= 5) + 0.4 * (row >= 8) for row in range(len(answers))]
fig, ax = plt.subplots(figsize=(5.6, 4.8), layout="constrained")
for row, answer in zip(rows, answers.values(), strict=True):
    for column, (yes, known) in enumerate(answer):
        frame = {"fc": "#2e7ab0" if yes else "none", "ec": "black", "lw": 1.4}
        frame["ls"] = "-" if known else (0, (3, 2))
        ax.add_patch(plt.Rectangle((column, row), 0.94, 0.84, **frame))
        ink = {"color": "#fefefe" if yes else "black", "weight": "bold" * yes or None}
        ink |= {"ha": "center", "va": "center_baseline", "size": 11}
        ax.text(column + 0.47, row + 0.42, words[column][yes], **ink)
ax.set(xlim=(-0.05, 3), ylim=(rows[-1] + 1, -0.1))
ax.set_xticks([0.47, 1.47, 2.47], ["object?", "memory?", "queue?"], size=11)
ax.set_yticks([row + 0.42 for row in rows], answers, family="monospace", size=11)
ax.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
ax.spines[:].set_visible(False)
fig.set_label(
    "Twelve lines, three questions. Five lines leave the numbers in the memory where "
    "they were. Three copy within one memory, and the GPU's queue goes on. Four cross "
    "over to a GPU or come back: new memory, and they wait. Only model.to(gpu) gives "
    "the same object with new memory. Dashed frames mark answers of the model."
)
plt.show()

# %%
# There are three kinds of line:
#
# - *You get what you had.* The first two return the very same object. The next three
#   wrap the same memory in a new object: change a number through one of the two, and
#   the other shows it.
# - *A copy within one memory.* On a GPU it goes into the queue like any other work, and
#   your program goes on.
# - *Over to the GPU, or back.* New memory, and your program stops until the GPU has
#   worked off its queue. ``.item()`` belongs here: it fetches a single number. So do
#   ``print(g)``, ``g.tolist()`` and ``if g > 0``, which look at values.
#   :doc:`/tutorials/2_devices/02_queues` is about that wait.
#
# One line is like no other: ``model.to(gpu)`` returns the *same* object with *new*
# memory. Models get a section below.
#
# NumPy and back
# --------------
#
# NumPy knows the host's memory only. Here are the way in, and the way out with what
# goes wrong on it:

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
# - ``from_numpy`` shares its memory with the array: a change of one is a change of
#   both. ``torch.tensor`` copies. ``torch.as_tensor`` copies only if it must.
# - NumPy makes ``float64`` numbers unless told otherwise, and ``from_numpy`` keeps
#   them. They take twice the bytes, and Apple's GPUs refuse them. So name the type on
#   the way in.
# - ``.numpy()`` does not copy. So it refuses a tensor that is not on the host, and one
#   that PyTorch follows in order to differentiate. On a GPU the words are those for
#   ``meta``, with the GPU's name. Say that you mean it: ``.detach().cpu().numpy()``.
#   From a GPU this chain copies. On the CPU it shares memory, and the trap from above
#   is here, too.
#
# A model moves in place
# ----------------------
#
# ``Module.to`` does not return a moved copy. It goes through the model, moves what it
# finds, and returns the model. What does it find?


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)  # its weight is a parameter
        self.register_buffer("mean", torch.zeros(3))
        self.width = torch.ones(3)
        self.steps = [nn.Linear(3, 3)]

    def forward(self, x):
        noise = torch.zeros(1)
        return self.linear((x - self.mean) / self.width) + noise


model = Scale()
gpumodel = model.to(gpu)
print("gpumodel is model:         ", gpumodel is model)
print("parameter, linear.weight:  ", model.linear.weight.device)
print("buffer, mean:              ", model.mean.device)
print("plain tensor, width:       ", model.width.device)
print("a module in a list, steps: ", model.steps[0].weight.device)

# %%
# The boot camp's ``gpumodel`` is ``model``, under a second name. If you want two, say
# ``copy.deepcopy(model).to(device)``. Parameters and buffers move. Three things stay
# behind:
#
# - A *plain tensor*. Make it a buffer with ``register_buffer``.
# - *Modules in a plain list*, which hides them from the optimizer and from saving, too.
#   Use ``nn.ModuleList``.
# - A tensor *made in* ``forward``, here ``noise``. Write ``torch.zeros(1,
#   device=x.device)``.
#
# To see where a model is, the boot camp asks one parameter:
# ``next(model.parameters()).is_cuda``. That is not enough. The answer is ``False`` on
# an Apple or Intel GPU, and one parameter does not speak for all. Ask them all, and the
# buffers:


def where(model):
    return {str(t.device) for t in [*model.parameters(), *model.buffers()]}


print("next(model.parameters()).is_cuda:", next(model.parameters()).is_cuda)
print("where(model):", where(model))
attempt("where(nn.Linear(3, 2).cuda())")

# %%
# The last line is for MPoL's tutorial. It moves the data with ``.to(device)``, where
# ``device`` may be the CPU, and then the model with ``.cuda()``. On a computer without
# CUDA, the first works and the second fails. Choose one device, once, and use
# ``.to(device)`` for everything.
#
# A *lazy* layer finds out the size of its input when it first meets one. Until then it
# has a device, but no numbers:

lazy = nn.LazyLinear(2).to(device)
attempt("sum(p.numel() for p in lazy.parameters())")
lazy(torch.ones(4, 3, device=device))
attempt("tuple(lazy.weight.shape), lazy.weight.device.type")

# %%
# So a model with lazy layers wants `this order`__: build it, move it, call it once with
# data on the device, and only then count its parameters or make an optimizer.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.lazy.LazyModuleMixin.html
#
# What the optimizer holds
# ------------------------
#
# PyTorch's text on `Module.cuda`__ tells you to move a model *before* you make its
# optimizer, because its parameters would become "different objects". `A user
# objected`__: on a GPU they are the same objects, with new memory. The advice holds all
# the same. An optimizer keeps a *state*, and ``model.to`` does not know of it. Adam,
# for one, remembers two averages for each parameter, made at its first step, where the
# parameters are at that time. Here a new type stands in for a new device:
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.cuda
# __ https://github.com/pytorch/pytorch/issues/7844


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
step(model, optimizer, torch.ones(1, 3))
model.to(torch.float64)
x64 = torch.ones(1, 3, dtype=torch.float64)
attempt("step(model, optimizer, x64)")

optimizer.load_state_dict(optimizer.state_dict())
attempt("step(model, optimizer, x64)")

# %%
# The averages still had the old type. On a GPU they would still be on the host.
# ``load_state_dict`` brings a state to the type and device of its parameters, so here
# it repairs. The better cure is the order: *move first, make the optimizer afterwards*.
# When you go on from a file, too: build the model, move it, make the optimizer, load
# its state.
#
# Two devices in one line
# -----------------------
#
# PyTorch does not move a tensor because another one is elsewhere. It refuses: a move is
# slow, and you may not have meant it. ``meta`` refuses, too:

h, g = torch.ones(3), torch.ones(3, device="meta")
attempt("h + g")
attempt("g + 2")
attempt("g + torch.tensor(2.0)")
attempt("h + torch.tensor(2.0, device='meta')")
attempt("g.copy_(h)")

# %%
# - The notes say that the framework "crashes". It raises an ordinary exception, before
#   anything is computed.
# - Python's numbers go with every device. In arithmetic, so does a tensor that is a
#   *single number on the host*, with no axis. The reverse is refused: a number on the
#   GPU does not come to the host by itself.
# - ``copy_`` crosses over, because that is its work. So does ``g[:] = h``.
#
# A CUDA GPU says it in other words. The first message is from a sum, and the notes show
# it. `The second`__ is from a matrix product, and names the argument, too:
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
# If you have a GPU, here are its own words:

if has_gpu:
    attempt("torch.ones(3, 3) + torch.ones(3, 3, device=device)")
    attempt("torch.ones(3, 3) @ torch.ones(3, 3, device=device)")
else:
    print("Not run: there is no GPU here.")

# %%
# The message names the devices, and not your variable. So print ``.device`` of
# everything in the line that it points to, and look at the usual suspects: the batch,
# what a model leaves behind, the weights of a loss, a mask.
#
# A trainer that does not ask
# ---------------------------
#
# Now put it together. The trainer below has one device and two *hooks*, methods that
# are there to be called at the right time: ``prepare_model`` and ``prepare_batch``.
# There is no ``if``. Where there is nothing to move, ``.to`` does nothing.


class Trainer:
    def __init__(self, device):
        self.device = torch.device(device)

    def prepare_model(self, model):
        self.model = model.to(self.device)

    def prepare_batch(self, batch):
        return [part.to(self.device) for part in batch]

    def fit(self, model, batches):
        self.prepare_model(model)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        losses = []
        for batch in batches:
            x, y = self.prepare_batch(batch)
            loss = nn.functional.mse_loss(self.model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)


torch.manual_seed(1)
batches = [(x, x @ torch.tensor([[1.0], [2.0], [3.0]])) for x in torch.randn(99, 8, 3)]
losses = Trainer(device).fit(nn.Linear(3, 1), batches)
print(f"on {device}: loss {losses[0]:.1f} at first, {losses[-1]:.0e} at the end")

# %%
# The optimizer is made after the move. The losses stay on the device until the end:
# looking at one in each step would wait in each step.
#
# The notes write the first hook with an ``if``. One line of it stands four spaces too
# far to the right:


class Notes(Trainer):
    def prepare_model(self, model):
        if self.device.type != "cpu":
            model.to(self.device)
            self.model = model


attempt("Notes('meta').fit(nn.Linear(3, 1), batches).device")
attempt("Notes('cpu').fit(nn.Linear(3, 1), batches).device")

# %%
# It works on every computer with a GPU, and on no other. An ``if`` makes two programs
# out of one, and you test one of them.
#
# Did you notice the first of the two lines? The *whole training* ran on ``meta``. No
# number was computed, but every line was run. So you can *rehearse* a move on a laptop,
# here with ``Scale``, which leaves things behind:

attempt("Trainer('meta').fit(Scale(), batches)")
attempt("(torch.eye(3) @ torch.eye(3, device='meta')).device")

# %%
# The rehearsal finds the forgotten ``width``. But the second line passes, although a
# GPU would refuse it. Matrix products on ``meta`` do not compare devices, and this one
# even claims a result on the host, made from no numbers. So believe a rehearsal that
# finds something. One that finds nothing has not proved that you forgot nothing.
# (PyTorch's `fake tensors`__ are stricter, and harder to use.)
#
# __ https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html
#
# Check
# -----
#
# A move must not change a number. Only rounding NumPy's ``float64`` to ``float32`` may
# cost a relative error of at most :math:`2^{-24}`. Take odd sizes, a transpose, whose
# rows are not in order in memory, and whole numbers:

rng = np.random.default_rng(seed=1)
exact = rng.standard_normal(1_000_003)
rounded = torch.as_tensor(exact, dtype=torch.float32, device=device).cpu().numpy()
worst = np.max(np.abs(rounded - exact) / np.abs(exact))
assert worst <= 2**-24
print(f"float64 to float32 on {device} and back: largest relative error {worst:.1e}")

tilted = torch.from_numpy(rounded[: 997 * 1003]).reshape(997, 1003).T
whole = torch.arange(-50, 51) * 2**40 + 1
for name, tensor in {"transpose": tilted, "whole numbers": whole}.items():
    assert torch.equal(tensor.to(device, copy=True).cpu(), tensor)
    print(f"{name}: equal, bit for bit")

# %%
# Measure
# -------
#
# What does each kind of line cost? Every row below ends with the same ``n`` numbers on
# the device. Predict by bytes: none where the tensor is there already, 8 for each
# number of a copy, 4 for a tensor of ones, which is only written.

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

# %%
# - *copy, same memory* writes into a tensor that exists, and should come close to its
#   floor. On the host, *copy, new memory* takes longer: the operating system has to
#   find the memory anew, as :doc:`/tutorials/1_setup/02_first_speedup` shows. *made
#   there* pays for that, too. PyTorch keeps a GPU's memory for the next tensor
#   (:doc:`/tutorials/2_devices/06_memory`), so on a GPU the two kinds of copy should
#   take about the same time.
# - *there already* is a question to the tensor and nothing more. So there is no reason
#   to write ``if`` around a ``.to``.
# - *from the host* takes the slot. Measured on the newest GPU on record:
#   :timing:`moving median "from the host" @gpu`, where a copy on the card takes
#   :timing:`moving median "copy, same memory" @gpu`.
#
# The dashed marks are floors: the row's bytes, at the best rate of this machine. A row
# without bytes has none, nor has one whose bytes might stay in the caches (small, fast
# memory inside the processor).

bench.plot()

# %%
# Where this stops being true
# ---------------------------
#
# - *One memory for both.* Where the GPU is part of the processor, as in Apple's chips,
#   there is no slot. PyTorch keeps two tensors all the same, so the rules for objects
#   stand. The costs do not.
# - *Moves that do not wait.* Host memory can be *pinned*, and then ``.to(device,
#   non_blocking=True)`` goes on. On the way back, it is one more way to read numbers
#   that are not there yet: see :doc:`/tutorials/2_devices/05_transfers`.
# - *Two GPUs.* Between two of them, ``.to("cuda:1")`` is a copy that the host need not
#   wait for, and the way may lead through the host's memory.
#
# Exercise
# --------
#
# The trainer's ``prepare_batch`` takes a flat list of tensors. Real batches are nested.
# Write ``prepare(thing, device)``, which returns the same structure with every tensor
# on ``device``. Dictionaries, lists and tuples keep their type. Numbers, strings and
# ``None`` come back as they are. A tensor that is there already is not copied, and the
# batch that you were given stays as it was.


def prepare(thing, device):
    thing.to(device)
    return thing


# %%
# The check rehearses: it moves to ``meta`` and to the host. It names the first
# difference that it finds, with the way to it.


def differs(given, got, device, path="it"):
    if type(got) is not type(given):
        return f"{path} was {type(given).__name__}, and became {type(got).__name__}"
    if isinstance(given, torch.Tensor):
        if got.device.type != device.type:
            return f"{path} is still on {got.device}; .to returns the moved tensor"
        return "" if got.dtype == given.dtype else f"{path} became {got.dtype}"
    if not isinstance(given, (dict, list, tuple)):
        return "" if got == given else f"{path} was {given!r}, and became {got!r}"
    had, has = (t if isinstance(t, dict) else dict(enumerate(t)) for t in (given, got))
    if had.keys() != has.keys():
        return f"{path} had the parts {[*had]}, and now has {[*has]}"
    parts = (differs(had[k], has[k], device, f"{path}[{k!r}]") for k in had)
    return next(filter(None, parts), "")


# %%


def find_problem(answer, device):
    tensor, there = torch.ones(3), torch.ones(3, device=device)
    batch = {"pair": (tensor, [torch.arange(3), ("a", tensor)]), "none": []}
    batch["rest"] = {"id": 2, "weight": 0.5, "no": None}
    was = repr(batch)
    for thing in (tensor, 3, "name", None, [tensor], batch):
        if problem := differs(thing, answer(thing, device), device):
            return problem
    if repr(batch) != was:
        return "the batch that you were given has changed"
    copied = answer([there], device)[0] is not there
    return "a tensor that was there already was copied" if copied else ""


def check(answer):
    for device in (torch.device("meta"), torch.device("cpu")):
        try:
            problem = find_problem(answer, device)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. Moving to {device}: {problem}."
    return "Right: batches of dictionaries, lists and tuples go to any device."


print(check(prepare))

# %%

# solution


def prepare_solution(thing, device):
    if isinstance(thing, torch.Tensor):
        return thing.to(device)
    if isinstance(thing, dict):
        return {key: prepare_solution(value, device) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)(prepare_solution(part, device) for part in thing)
    return thing


print(check(prepare_solution))

# %%
# Three lines to remember
# -----------------------

from firstlight.measure.tables import quantity

asked, copied = (
    quantity(bench[row].median, "s") for row in ("there already", "copy, new memory")
)
print("1. A tensor's .to returns: keep the result. Where the tensor is there already,")
print(f"   that is the tensor itself, after {asked}. A copy took {copied} here.")
print("2. A model moves in place. Move it first, and make its optimizer afterwards.")
print("3. One device, chosen once, and .to(device) everywhere, without an if.")
