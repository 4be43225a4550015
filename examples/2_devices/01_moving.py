"""
Did that line move your tensor?
===============================

`An early tutorial of MPoL`__ says that ``.to(device)`` and ``.cuda()`` return a *copy*
on the GPU. A course notebook calls ``x.to('cuda:0')``, keeps no result, and prints
where ``x`` is. A boot camp writes ``gpumodel = model.cuda()``, as if there were two
models from then on. These are three readings of one method, and each goes wrong
somewhere. Here you ask the objects themselves.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to say of a line: same object or a new one, same memory or a copy, does it wait?
- what moves with a model, and what stays behind, also in its optimizer;
- to read the error about two devices, and to rehearse a move without a GPU;
- to write code that runs on every device and never asks which one it is.

**Time:** 25 minutes. **Needs:** any computer, and some PyTorch. With a GPU, the page
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
# No line can be faster than its bytes allow. Here are 100 million numbers, on two cards
# and through two kinds of slot (PCI Express, with 16 lanes):

from firstlight.measure.specs import spec

n_image = 100_000_000
floors = {
    "there already": 0.0,
    "copied within an H100": 8 * n_image / spec("H100 SXM", "bandwidth"),
    "copied within a GTX 1080": 8 * n_image / spec("GTX 1080", "bandwidth"),
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
# asked of it before? The figure below has the answers.
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
    said = textwrap.shorten(f"{line} -> {said}", 240, placeholder=" ...")
    print(textwrap.fill(said, 86, subsequent_indent="    "))


attempt('torch.device("cuda:2")')
attempt('torch.device("cuda")')
attempt('torch.device("cuda") == torch.device("cuda:0")')
attempt('torch.device("cuda0")')
attempt('torch.device("gpu")')

# %%
# - A device is only a name. You can name a GPU that you do not have.
# - ``"cuda"`` without a number means the *current* GPU. That is number 0, unless you
#   chose another with ``torch.cuda.set_device(1)`` or ``with torch.cuda.device(1):``.
# - A tensor that you make on ``"cuda"`` says that it is on ``cuda:0``, and these two
#   are not equal. So compare kinds: ``x.device.type == "cuda"``.
# - A string that PyTorch cannot read fails at once, in one of two ways: an unknown kind
#   or an unreadable number.
# - AMD's GPUs are called ``"cuda"``, too. Apple's is ``"mps"``, Intel's are ``"xpu"``.
#
# The course notebook says that a GPU you do not have is an "invalid device string". Try
# the first number that is *not* there:

missing = f"cuda:{torch.cuda.device_count()}"
print("not here:", missing)
attempt("torch.ones(1).to(missing)")

# %%
# The string is valid. What is missing is the device, or a PyTorch that could use it.
# The message tells which: a PyTorch without GPU code ("not compiled"), no driver, or
# too large a number ("invalid device ordinal").
#
# The numbers are those of your program, not of the computer. If the variable
# ``CUDA_VISIBLE_DEVICES`` is ``2`` when a program starts, it sees the third GPU only,
# and calls it ``cuda:0``.
#
# Some notes on the book *Dive into Deep Learning* use three helpers. Here they are
# again, for the GPUs of every maker:


def num_gpus():
    return torch.accelerator.device_count()


def try_all_gpus():
    kind = torch.accelerator.current_accelerator()
    gpus = [torch.device(kind.type, i) for i in range(num_gpus())]
    return gpus or [torch.device("cpu")]


def try_gpu(i=0):
    return try_all_gpus()[i] if 0 <= i < num_gpus() else torch.device("cpu")


attempt("num_gpus()")
attempt("try_all_gpus()")
attempt("try_gpu(), try_gpu(10)")
attempt("best_device(10)")

# %%
# In the notes, ``try_all_gpus`` gives an empty list where there is no GPU, and a loop
# over an empty list does nothing, without a word. The book promises the CPU instead, as
# above. ``try_gpu(10)`` has the same fault in small: with a wrong number you get the
# CPU, and find out by waiting. ``best_device``, which this site uses, takes the best
# there is, and refuses a number that is not there.
#
# Where a tensor is made
# ----------------------
#
# PyTorch makes a tensor on the host, unless you say ``device=``. Made on the host and
# moved, it is written twice and sent once. Made on the device, it is written once, and
# nothing is sent. (The boot camp's ``torch.FloatTensor([1., 2.]).cuda()`` is the old
# way. ``torch.tensor([1., 2.], device=device)`` is today's.) The ``_like`` functions
# follow the tensor that you give them:

device = best_device()
has_gpu = device.type != "cpu"

made_here, made_there = torch.ones(3), torch.ones(3, device=device)
print("with and without device=:", made_there.device, "and", made_here.device)
print("zeros_like the first:    ", torch.zeros_like(made_there).device)
print("get_device() of both:    ", made_there.get_device(), made_here.get_device())

# %%
# ``get_device()`` gives the number of a GPU, and -1 for the host. ``.device`` says
# more: kind and number.
#
# A device without memory
# -----------------------
#
# Every PyTorch has one more device, called ``meta``. A tensor there has a shape, a type
# and a device, but no memory and no numbers. What a move returns follows the same rules
# as on a GPU. So ``meta`` can play the GPU on a computer that has none:

gpu = device if has_gpu else torch.device("meta")

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
# The second one sets a trap, and it closes where there is *no* GPU. Count to three,
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
# itself, three times, and all three show its last value. The same script has two
# results, and the wrong one is on the laptop where you test it. If you need a copy, ask
# for one: ``copy=True`` or ``.clone()``.
#
# Twelve lines, asked
# -------------------
#
# Now ask the twelve lines. Is the object that comes back the one that you had? Do its
# numbers begin at the same *address*, the same place in memory? The memory behind a
# tensor is its *storage*. (Older pages print ``x.storage()``, which is deprecated.)

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
words = (("same", "new"), ("same", "new"), ("goes on", "waits"))

answers = {}  # for each line and question: new or waiting, and was it measured?
for line, name in lines.items():
    possible, cuda = has_gpu or name != "g", device.type == "cuda"
    new = is_new(line, name) if possible else (True, True)
    wait = waits(line) if cuda else line in modelled
    answers[line] = ((new[0], possible), (new[1], possible), (wait, cuda))

print(f"{'':<24}{'object':<13}{'memory':<13}queue")
for line, answer in answers.items():
    said = [
        f"{word[yes] + ' (model)' * (not known):<13}"
        for word, (yes, known) in zip(words, answer, strict=True)
    ]
    print(f"{line:<24}{''.join(said).rstrip()}")

# %%
# The same as a picture. Filled or hatched cells say *new*, or *waits*. A dashed frame
# marks an answer of the model.

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(5.6, 4.8), layout="constrained")
rows = [row + 0.4 * (row >= 5) + 0.4 * (row >= 8) for row in range(len(answers))]
for row, answer in zip(rows, answers.values(), strict=True):
    for column, (yes, known) in enumerate(answer):
        filled, hatched = yes and known, yes and not known
        style = {"fc": "#2e7ab0"} if filled else {"fill": False}
        style |= {"ls": "-" if known else "--", "hatch": "////" if hatched else None}
        ax.add_patch(plt.Rectangle((column, row), 0.94, 0.84, ec="black", **style))
        ink = {"color": "#fefefe" if filled else "black", "size": 11}
        box = {"fc": "white", "ec": "none", "pad": 1.5} if hatched else None
        ink |= {"ha": "center", "va": "center_baseline", "bbox": box}
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
#   the other shows it. These lines cost nothing, and they are no copies.
# - *A copy within one memory.* It takes time and memory. On a GPU it goes into the
#   queue like any other work, and your program goes on.
# - *Over to the GPU, or back.* New memory, and your program stops until the GPU has
#   worked off its queue. ``.item()`` belongs here: it fetches a single number. So do
#   ``print(g)``, ``g.tolist()`` and ``if g > 0``, which look at values. The next pages
#   of this chapter are about that wait.
#
# One line is like no other: ``model.to(gpu)`` returns the *same* object with *new*
# memory. Models get a section below.
#
# NumPy and back
# --------------
#
# NumPy knows the host's memory only. The way in comes first:

array = np.linspace(0, 1, 5)
shared = torch.from_numpy(array)
array[0] = 7
print("the tensor's first number:", shared[0].item(), "and type:", shared.dtype)

moved = torch.as_tensor(array, dtype=torch.float32, device=device)
print("a tensor fit for every device:", moved.dtype, "on", moved.device)

# %%
# - ``from_numpy`` shares its memory with the array, so a change of one is a change of
#   both. ``torch.tensor`` copies. ``torch.as_tensor`` copies only if it must.
# - NumPy makes ``float64`` numbers unless told otherwise, and ``from_numpy`` keeps
#   them. They take twice the bytes, many GPUs compute with them at a small fraction of
#   their speed, and Apple's refuse them. So convert on the way in, as the second line
#   does.
#
# And the way out, with what goes wrong on it:

weights = torch.ones(3, requires_grad=True)
on_meta = torch.ones(3, device="meta")
attempt("weights.numpy()")
attempt("on_meta.numpy()")
attempt("torch.from_numpy(array[::-1])")
attempt("weights.detach().cpu().numpy()")

# %%
# ``.numpy()`` does not copy, so it refuses a tensor that is not on the host, and one
# that PyTorch follows in order to differentiate. On a GPU the words are those for
# ``meta``, with the GPU's name. Say that you mean it: ``.detach().cpu().numpy()``. On a
# GPU this chain copies. On the CPU it shares memory, so the trap from above is here,
# too.
#
# A model moves in place
# ----------------------
#
# ``Module.to`` does not return a moved copy. It goes through the model, moves what it
# finds, and returns the model. What does it find?


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)  # its weight is a parameter
        self.register_buffer("mean", torch.zeros(3))
        self.width = torch.ones(3)
        self.steps = [nn.Linear(3, 3)]

    def forward(self, x):
        noise = torch.zeros(3)
        return self.linear((x - self.mean) / self.width) + noise


model = Scale()
gpumodel = model.to(gpu)
print("gpumodel is model:         ", gpumodel is model)
print("parameter, linear.weight:  ", model.linear.weight.device)
print("buffer, mean:              ", model.mean.device)
print("plain tensor, width:       ", model.width.device)
print("a module in a list, steps: ", model.steps[0].weight.device)

# %%
# The boot camp's ``gpumodel`` is ``model``, under a second name. Nothing is wrong with
# that, as long as you do not believe that ``model`` is still on the host. If you want
# two, say ``copy.deepcopy(model).to(device)``.
#
# Parameters and buffers move. Three things stay behind:
#
# - A *plain tensor*. Make it a buffer with ``register_buffer``. With
#   ``persistent=False`` it moves, too, but is not saved.
# - *Modules in a plain list*. Such a list hides them from everything, from the
#   optimizer and from saving as well. Use ``nn.ModuleList``.
# - A tensor that is *made in* ``forward``, here ``noise``. It is made on the host, each
#   time. Write ``torch.zeros(3, device=x.device)`` or ``torch.zeros_like(x)``.
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
attempt("lazy.weight")
attempt("sum(p.numel() for p in lazy.parameters())")
lazy(torch.ones(4, 3, device=device))
attempt("tuple(lazy.weight.shape), lazy.weight.device.type")

# %%
# So a model with lazy layers wants this order: build it, move it, call it once with
# data on the device, and only then count its parameters or make an optimizer.
#
# What the optimizer holds
# ------------------------
#
# An optimizer keeps a list of parameters, and later a *state*: Adam remembers two
# averages for each parameter. Both are fixed to objects. If the model has other objects
# by then, nothing tells you:

import copy


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


model = nn.Linear(3, 1)
twin = copy.deepcopy(model).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
before = twin.weight.detach().clone()
step(twin, optimizer, torch.ones(1, 3, device=device))
print("the model that was trained has changed:", not torch.equal(twin.weight, before))

# %%
# The optimizer looked after parameters that nobody used. There was no error. A loss
# that does not fall is all you would see. Does moving a model give it other parameters?
# PyTorch's text on ``Module.cuda`` says yes: parameters and buffers become "different
# objects". `A user objected`__ years ago. Ask:
#
# __ https://github.com/pytorch/pytorch/issues/7844

for where_to in dict.fromkeys(("meta", torch.float64, gpu.type)):
    model = nn.BatchNorm1d(3).cpu()
    parameter, buffer = model.weight, model.running_mean
    model.to(where_to)
    same = [model.weight is parameter, model.running_mean is buffer]
    print(f"to {where_to!s:<14} parameter: same object {same[0]}, buffer: {same[1]}")

# %%
# Buffers: always. For parameters it depends. A new type, or a GPU, puts new memory into
# the same object, and only ``meta`` makes another. But nothing promises that, and new
# objects also come from ``deepcopy``, as above, and from replacing a layer. So *move
# first, make the optimizer afterwards*.
#
# Then comes the state. It is made at the first step, where the parameters are at that
# time, and ``model.to`` does not know of it. Here a new type stands in for a new
# device:

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
# ``load_state_dict`` brings a state to the type and device of its parameters. So giving
# the optimizer its own state repairs it. The same call is the right one when you go on
# from a file: build the model, move it, make the optimizer, load its state.
#
# Two devices in one line
# -----------------------
#
# PyTorch never moves a tensor because another one is elsewhere. It refuses, because a
# move is slow and you may not have meant it. ``meta`` refuses, too:

h, g = torch.ones(3), torch.ones(3, device="meta")
attempt("h + g")
attempt("g + 2")
attempt("g + torch.tensor(2.0)")
attempt("h + torch.tensor(2.0, device='meta')")
attempt("g.copy_(h)")

# %%
# - The notes say that the framework "crashes". It raises a ``RuntimeError``,
#   an ordinary exception, before anything is computed.
# - Python's numbers go with every device. So does a tensor that is a *single number on
#   the host*, with no axis. The reverse is refused: a number on the GPU does not come
#   to the host by itself.
# - ``copy_`` crosses over, because that is its work. So does ``g[:] = h``.
#
# A GPU says it in other words. An addition complains of "at least two devices, cuda:0
# and cpu!", and a matrix product also names the argument. Here are the words of your
# GPU, if you have one, also for an optimizer whose state stayed behind:

if has_gpu:
    there = torch.ones(3, 3, device=device)
    here = torch.ones(3, 3)
    attempt("here + there")
    attempt("there @ here")
    attempt("nn.Linear(3, 3)(there)")
    model = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer, here)  # makes the optimizer's state, on the host
    model.to(device)
    attempt("step(model, optimizer, there)")
else:
    print("Not run: there is no GPU here.")

# %%
# The message names the devices, and not your variable. So print ``.device`` of
# everything in the line that it points to, and look at the usual suspects: the batch,
# a plain tensor of the model, a tensor made in ``forward``, the weights of a loss, a
# mask.
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
# number was computed, but every line was run. So you can *rehearse* a move on a laptop.
# Here is a model that keeps a plain tensor. It multiplies with it, in two ways:


class Weighted(nn.Module):
    def __init__(self, combine, weights):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.combine, self.weights = combine, weights

    def forward(self, x):
        return self.linear(self.combine(x, self.weights))


for combine, weights in ((torch.mul, torch.ones(3)), (torch.matmul, torch.eye(3))):
    forgetful = Weighted(combine, weights)
    print(f"With {combine.__name__}:")
    attempt("Trainer('meta').fit(forgetful, batches).device")
attempt("(torch.eye(3) @ torch.eye(3, device='meta')).device")

# %%
# The first is caught: on a GPU it would fail as well. The second passes, although it
# would fail on a GPU. Matrix products on ``meta`` do not compare devices, and the last
# line even claims a result on the host, made from no numbers. So believe a rehearsal
# that finds something. One that finds nothing has not proved that you forgot nothing.
#
# A rehearsal also finds lines that wait. ``loss.item()`` fails on ``meta``, because
# there is no number to fetch.
#
# Check
# -----
#
# A move must not change a number. Take odd sizes, a tensor whose rows are not in order
# in memory (a transpose), whole numbers, and NumPy's ``float64``. Rounding those to
# ``float32`` may cost a relative error of :math:`2^{-24}`, and nothing more:

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
ones = np.ones(n, dtype=np.float32)
one, x = (torch.ones(size, device=device) for size in (1, n))
out = torch.zeros_like(x)

bench = Bench("moving")
on = {"n": n, "device": device}
bench.time("copy, same memory", out.copy_, x, bytes=8 * n, **on)
bench.time("copy, new memory", lambda: x.to(device, copy=True), bytes=8 * n, **on)
bench.time("made there", lambda: torch.ones(n, device=device), bytes=4 * n, **on)
bench.time("NumPy, copied", torch.tensor, ones, n=n, bytes=8 * n)
bench.time("NumPy, shared", torch.from_numpy, ones, n=n)
bench.time("there already", x.to, device, **on)
bench.time("there already, n = 1", one.to, device, n=1, device=device)
if has_gpu:
    bench.time("from the host", lambda: torch.from_numpy(ones).to(device), **on)
    bench.time("made here, moved", lambda: torch.ones(n).to(device), **on)
bench.show()

# %%
# - *copy, same memory* should come close to its floor. On the host, *copy, new memory*
#   takes longer: the operating system has to find the memory anew, page by page, as
#   :doc:`/tutorials/1_setup/02_first_speedup` shows. *made there* pays for that, too.
#   `PyTorch keeps a GPU's memory`__ for the next tensor, so on a GPU the two kinds of
#   copy should take about the same time.
# - *NumPy, copied* is a copy with new memory. *NumPy, shared* makes an object, whatever
#   the size.
# - *there already* takes the same time for a single number and for all: it is a
#   question to the tensor and nothing more. So there is no reason to write ``if``
#   around a ``.to``.
# - *from the host* takes the slot. Measured on the newest GPU on record:
#   :timing:`moving median "from the host" @gpu`, where a copy on the card takes
#   :timing:`moving median "copy, same memory" @gpu`.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
#
# The dashed marks are floors: the row's bytes, at the best rate of this machine. A row
# that moves nothing has none. Nor has one whose bytes might stay in the caches, small
# fast memory inside the processor.

bench.plot()

# %%
# Where this stops being true
# ---------------------------
#
# - *One memory for both.* Where the GPU is part of the processor, as in Apple's chips,
#   there is no slot. PyTorch keeps two tensors all the same, so the rules for objects
#   stand. The costs do not.
# - *Memory that does not wait.* Host memory can be *pinned*, and then ``.to(device,
#   non_blocking=True)`` goes on. That can be faster. On the way back, it is one more
#   way to read numbers that are not there yet. The page on transfers measures it.
# - *Two GPUs.* Between two of them, ``.to("cuda:1")`` is a copy that the host need not
#   wait for, and the way may lead through the host's memory.
# - *The rehearsal is not the play.* ``meta`` replaces parameters where a GPU does not,
#   and lets some mixed lines pass. PyTorch's `fake tensors`__ are stricter, and harder
#   to use.
# - *Large models.* Some libraries spread a model over several devices and put their own
#   hooks on it. Then ``model.to`` may be refused, and no parameter speaks for all.
#
# __ https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html
#
# Exercise
# --------
#
# The trainer's ``prepare_batch`` takes a flat list of tensors. Real batches are nested.
# Write ``prepare(thing, device)``, which returns the same structure with everything
# movable on ``device``:
#
# - dictionaries, lists, tuples and named tuples keep their type;
# - numbers, strings and ``None`` come back as they are;
# - a tensor that is there already is not copied;
# - a model is moved, not copied;
# - the batch that you were given stays as it was.


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
    if isinstance(given, dict):
        if got.keys() != given.keys():
            return f"{path} now has the keys {[*got]}"
        parts = [(f"{path}[{key!r}]", given[key], got[key]) for key in given]
    elif isinstance(given, (list, tuple)):
        if len(got) != len(given):
            return f"{path} had {len(given)} parts, and now has {len(got)}"
        parts = [(f"{path}[{i}]", given[i], got[i]) for i in range(len(given))]
    else:
        return "" if got is given else f"{path} was {given!r}, and became {got!r}"
    return next(filter(None, (differs(a, b, device, at) for at, a, b in parts)), "")


# %%
# The batch below mixes all of these, and holds one tensor several times. A model comes
# last.

from collections import namedtuple

Pair = namedtuple("Pair", "image labels")


def find_problem(answer, device):
    tensor, model = torch.ones(3), nn.Linear(2, 1)
    pair = Pair(tensor, [torch.arange(3), (tensor, "a")])
    batch = {"pair": pair, "rest": (tensor, 2, {"id": "b", "no": None}), "none": []}
    was = repr(batch)
    for thing in (tensor, 3, 0.5, "name", None, [tensor], batch):
        if problem := differs(thing, answer(thing, device), device):
            return problem
    if repr(batch) != was:
        return "the batch that you were given has changed"
    there = torch.ones(3, device=device)
    if answer([there], device)[0] is not there:
        return "a tensor that was there already was copied"
    if answer(model, device) is not model:
        return "a model came back as another object. Module.to moves it in place"
    if where(model) != {device.type}:
        return f"a model is still on {where(model)}"
    return ""


# %%


def check(answer):
    for device in (torch.device("meta"), torch.device("cpu")):
        try:
            problem = find_problem(answer, device)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. Moving to {device}: {problem}."
    return "Right: a batch of any shape goes to any device."


print(check(prepare))

# %%

# solution


def prepare_solution(thing, device):
    if isinstance(thing, (torch.Tensor, nn.Module)):
        return thing.to(device)
    if isinstance(thing, dict):
        return {key: prepare_solution(value, device) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        parts = [prepare_solution(part, device) for part in thing]
        named = hasattr(thing, "_fields")  # a named tuple takes its parts one by one
        return type(thing)(*parts) if named else type(thing)(parts)
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
