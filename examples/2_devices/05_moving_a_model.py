"""
What does model.to(device) move?
================================

This page is for everybody who trains a model with PyTorch and wants it on a GPU.
``model.to(device)`` moves the model's parameters and buffers, and it does so in place:
the model that you have is on the GPU afterwards. ``tensor.to(device)`` differs: it
returns the tensor that is on the GPU, and you have to keep it. Batches, tensors that
the model merely holds, and what an :term:`optimizer` has gathered stay where they were.
So move the model, then make its optimizer, and move each batch inside the loop.

**You will learn**

- to write a training loop that runs on every device;
- what stays behind when a model moves, also in its optimizer, and how to find it;
- why one calls ``model(x)``, what ``train()`` and ``eval()`` switch, and why labels are
  ``int64``;
- what a ``DataLoader`` does, and when you do not need one.

**Time:** 10 minutes. **Needs:** any computer, and
:doc:`moving tensors </tutorials/2_devices/01_moving>`.
"""

# %%
# The whole loop
# --------------
#
# The task: tell three kinds of stars apart, by their brightness in four colours. The
# data are made on the :term:`host`, the CPU with its memory:

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from firstlight import Bench, best_device

device = best_device()
print("training on", device)

torch.manual_seed(1)
kinds = torch.randint(3, (1401,))  # a label for each star: 0, 1 or 2, int64
colours = torch.randn(3, 4)[kinds] + 0.8 * torch.randn(1401, 4)
stars = DataLoader(TensorDataset(colours[:1000], kinds[:1000]), 50, shuffle=True)


def network():
    layers = nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2)
    return nn.Sequential(*layers, nn.Linear(32, 3))


# %%
# Three lines of the loop matter for the device, and so does their order. There is no
# ``if``, because ``.to`` does nothing where there is nothing to move. Use it for the
# model, too: programs that move data with ``.to(device)`` and the model with
# ``.cuda()`` fail where there is no CUDA.


def train(model, batches, device, epochs=5):
    model.to(device)  # 1. move the model, in place
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # 2. afterwards
    loss_function = nn.CrossEntropyLoss()
    losses = []
    model.train()
    for _ in range(epochs):
        for x, y in batches:
            x, y = x.to(device), y.to(device)  # 3. move each batch, and keep it
            optimizer.zero_grad()
            loss = loss_function(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)


model = network()
losses = train(model, stars, device)
model.eval()
with torch.no_grad():
    guess = model(colours[1000:].to(device)).argmax(1).cpu()
share = (guess == kinds[1000:]).float().mean()
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at the end")
print(f"{share:.0%} right of {len(guess)} stars that it has not seen")

# %%
# The losses stay on the device until the end, because reading one in each step would
# make the host wait in each step (:doc:`/tutorials/2_devices/06_queues`).
#
# What stays behind
# -----------------
#
# Here is a model that does everything wrong at once. It takes a step on the host, and
# then it moves. Where there is no GPU, the page uses PyTorch's device ``meta``: its
# tensors have a shape and a type, but hold no numbers.

gpu = device if device.type != "cpu" else torch.device("meta")


class Careless(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)  # its weight is a parameter
        self.register_buffer("mean", torch.zeros(4))
        self.width = torch.ones(4)
        self.steps = [nn.Linear(4, 4)]

    def forward(self, x):
        noise = torch.zeros(1)
        return self.linear((x - self.mean) / self.width) + noise


careless = Careless()
early = torch.optim.Adam(careless.parameters())
careless(colours).sum().backward()
early.step()
print("the result of .to is the model:", careless.to(gpu) is careless)

# %%

# folded: Where everything is now, and what to do about it

state = early.state[early.param_groups[0]["params"][0]]
held = {
    "a parameter (linear.weight)": (careless.linear.weight, "nothing to do"),
    "a buffer (mean)": (careless.mean, "nothing to do"),
    "a plain tensor (width)": (careless.width, "register_buffer(…)"),
    "a module in a list (steps)": (careless.steps[0].weight, "nn.ModuleList([…])"),
    "made in forward (noise)": (torch.zeros(1), "torch.zeros(1, device=x.device)"),
    "an optimizer's state, once it has stepped": (
        state["exp_avg"],
        "make the optimizer after the move",
    ),
    "a batch": (colours, "x = x.to(device), in the loop"),
}
moved = {what: t.device.type == gpu.type for what, (t, _) in held.items()}
title = f"model.to(device) moves {sum(moved.values())} of these {len(moved)} things"
title += ", and leaves the rest to you"

# %%

# figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
for row, (what, (_, cure)) in enumerate(held.items()):
    frame = {"fc": "#2e7ab0" if moved[what] else "none", "ec": "black", "lw": 1.4}
    ax.add_patch(plt.Rectangle((0, row), 1, 0.84, **frame))
    ink = {"color": "#fefefe" if moved[what] else "black", "va": "center_baseline"}
    word = "moves" if moved[what] else "stays"
    font = {"family": "monospace", "size": 9} if "(" in cure else {"size": 11}
    ax.text(0.5, row + 0.42, word, ha="center", size=11, **ink)
    ax.text(1.1, row + 0.42, cure, va="center_baseline", **font)
ax.set(xlim=(0, 4.2), ylim=(len(held), -0.1))
ax.set_yticks([row + 0.42 for row in range(len(held))], held, size=11)
ax.set_xticks([0.5, 1.46], ["moves?", "what to do"], size=11)
ax.tick_params(length=0, labeltop=True, labelbottom=False)
ax.spines[:].set_visible(False)
fig.suptitle(title, size=12, weight="bold")
fig.set_label(
    f"{title}. What moves: {', '.join(what for what in moved if moved[what])}. Stays: "
    f"{', '.join(what for what in moved if not moved[what])}; each with its cure."
)
plt.show()

# %%
# ``gpumodel = model.to(device)`` gives the same model a second name. For two models,
# write ``copy.deepcopy(model).to(device)``. Modules in a plain list are also hidden
# from the optimizer and from saving.
#
# To see where a model is, people ask ``next(model.parameters()).is_cuda``. It is
# ``False`` on Apple's and Intel's GPUs, and one parameter does not speak for all. So
# ask all parameters and buffers. These are what moves, so also search the model for
# tensors and modules that PyTorch does not know of:


def where(model):
    return {str(t.device) for t in [*model.parameters(), *model.buffers()]}


def unknown(model):
    registered = [*model.parameters(), *model.buffers(), *model.modules()]
    known = {id(part) for part in registered}
    for path, module in model.named_modules():
        for name, thing in vars(module).items():
            parts = thing.values() if isinstance(thing, dict) else thing
            parts = parts if isinstance(thing, (dict, list, tuple)) else [thing]
            for part in parts:
                if (
                    isinstance(part, (torch.Tensor, nn.Module))
                    and id(part) not in known
                ):
                    yield f"{path}.{name}".strip(".")


print("network:", where(model), "and unknown to PyTorch:", [*unknown(model)])
print("careless:", where(careless), "and unknown to PyTorch:", [*unknown(careless)])

# %%
# What the model does not hold, such as a batch or a tensor made in ``forward``, shows
# only when the loop runs. You can *rehearse* that on a laptop: train on ``meta``.
# Nothing is computed, but every line is run, and most things that stayed behind raise
# an error:

# folded: A function that runs a line, and prints its result or its error
import textwrap


def attempt(line):
    try:
        outcome = repr(eval(line, globals()))
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}".splitlines()[0]
    outcome = textwrap.shorten(f"{line} -> {outcome}", 170, placeholder=" ...")
    print(textwrap.fill(outcome, 86, subsequent_indent="    "))


# %%

attempt("train(network(), stars, 'meta').shape")
attempt("train(Careless(), stars, 'meta')")

# %%
# A rehearsal that finds nothing proves nothing: matrix products on ``meta`` do not
# compare devices, and raise no error.
#
# The optimizer's state
# ---------------------
#
# Adam remembers two averages for each parameter. It makes them at its first step, where
# the parameters are at that time, and ``model.to`` does not know of them. For want of a
# second device, the type is changed here; the mistake is the same:


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    return "done"


line = nn.Linear(3, 1)
adam = torch.optim.Adam(line.parameters(), lr=0.1)
step(line, adam, torch.ones(1, 3))
line.to(torch.float64)
x64 = torch.ones(1, 3, dtype=torch.float64)
attempt("step(line, adam, x64)")

adam.load_state_dict(adam.state_dict())
attempt("step(line, adam, x64)")

# %%
# ``load_state_dict`` brings a state to the type and the device of its parameters, so it
# repairs this. The cure is the order: *move first, make the optimizer afterwards*. When
# you resume from a file (``torch.load(file, map_location=device)``), build the model,
# move it, make the optimizer, and then load the states of both.
#
# Three other mistakes in a first loop
# ------------------------------------
#
# These have nothing to do with moving, but stop many a first training. *Call*
# ``model(x)``, *not* ``model.forward(x)``. The call runs ``forward`` and, around it,
# the *hooks*: functions that somebody has asked the model to call. A *lazy* layer has
# a hook that finds out the size of its input. `The order is`__: build, move, call once
# with data on the device, and only then count parameters or make an optimizer.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.lazy.LazyModuleMixin.html

# folded: A hook that one of two calls runs, and a lazy layer
calls = []
layer = nn.Linear(4, 2)
layer.register_forward_hook(lambda *_: calls.append("the hook ran"))
layer(colours)
print("after layer(x):        ", calls)
layer.forward(colours)
print("after layer.forward(x):", calls)

attempt("nn.LazyLinear(2).forward(colours)")
lazy = nn.LazyLinear(2).to(device)
attempt("sum(p.numel() for p in lazy.parameters())")
lazy(torch.ones(4, 3, device=device))
attempt("tuple(lazy.weight.shape), lazy.weight.device.type")

# %%
# *Train in* ``train()`` *mode, evaluate in* ``eval()`` *mode.* These set a flag that
# few layers read. Dropout leaves numbers out only in training. Batch normalization uses
# the batch's own mean and variance in training, and otherwise the running ones that it
# keeps in buffers. Neither call switches gradients off: ``torch.no_grad()`` does.

# folded: Six ones through two layers, in both modes
drop, norm, one = nn.Dropout(0.5), nn.BatchNorm1d(1), torch.ones(6, 1)
for layer in (drop, norm):
    for mode in ("train", "eval"):
        getattr(layer, mode)()
        numbers = layer(one).flatten().tolist()
        print(f"{type(layer).__name__}, {mode}():", *(f"{v:.2f}" for v in numbers))

# %%
# *Labels are* ``int64``. A label is an index: it picks one of the columns of the
# scores. Python's integers become ``int64`` (``torch.long``); a file often gives
# ``float32`` or ``int32``: then write ``labels.long()``. Floats are accepted in the
# *shape of the scores*: then they are the probability of each class.

# folded: Four labels of three classes, in different types
scores, labels = torch.zeros(4, 3), torch.tensor([0, 2, 1, 1])
criterion = nn.CrossEntropyLoss()
attempt("labels.dtype, criterion(scores, labels)")
attempt("criterion(scores, labels.float())")
attempt("criterion(scores, labels.int())")
attempt("criterion(scores, nn.functional.one_hot(labels, 3).float())")

# %%
# What a DataLoader does
# ----------------------
#
# A ``DataLoader`` takes the samples out of the data set *one by one*, in a shuffled
# order if you ask for it, and stacks them into a batch, on the host. A
# ``TensorDataset`` of both keeps each label with its star.
#
# - ``num_workers=4`` lets four processes do that while the GPU computes. This pays
#   where a sample has to be read or decoded. (On Windows, on macOS, and since Python
#   3.14 on Linux, the program then needs ``if __name__ == "__main__":``.)
# - ``pin_memory=True`` puts each batch into :term:`pinned` memory, from which
#   ``.to(device, non_blocking=True)`` need not wait
#   (:doc:`/tutorials/2_devices/08_pinned_memory`).
#
# Do not give it tensors on a GPU. It would still take them apart one by one. A worker
# that was forked, as on Linux before Python 3.14, fails with "Cannot re-initialize CUDA
# in forked subprocess", and pinning fails with "only dense CPU tensors can be pinned".
# `PyTorch advises against it`__, too. Data that fit into the GPU's memory need no
# loader: move them once, and pick rows there.
#
# __ https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading

inputs, targets = colours[:1000].to(device), kinds[:1000].to(device)


def load():
    for x, y in stars:
        batch = x.to(device), y.to(device)
    return batch


def pick():
    for rows in torch.randperm(len(inputs), device=device).split(50):
        batch = inputs[rows], targets[rows]
    return batch


bench = Bench("feeding")
bench.time("DataLoader, then .to", load, n=len(inputs), device=device)
bench.time("rows of tensors on the device", pick, n=len(inputs), device=device)
bench.show()

# %%
# Each line of the table is the time of one pass over the 1000 stars, in batches of 50,
# without training.

loader, picking = (timing.median for timing in bench.timings)
print(f"The loader took {loader / picking:.0f} times as long as picking rows.")

# %%
# Check
# -----
#
# Does the device compute what it should? Compare the trained network with a copy of it
# on the host, in ``float64``, for an odd number of stars:

exact = copy.deepcopy(model).cpu().double()
with torch.no_grad():
    wanted = exact(colours[1000:].double())
    got = model(colours[1000:].to(device)).cpu().double()
error = ((got - wanted).abs().max() / wanted.abs().max()).item()
assert error < 1e-4
print(f"largest error, relative to the largest score: {error:.0e}")

# %%
# Trainers that move for you
# --------------------------
#
# Wrappers such as *Lightning* and *Accelerate* choose the device, and move the model
# and each batch. Lightning asks you to `take your own .to and .cuda out`__. What no
# wrapper can know of is the rest of the figure: plain tensors, modules in lists, and
# tensors made in ``forward``.
#
# If you write a trainer yourself, do without an ``if``. It makes two programs out of
# one, and you test one of them. In the fold, one line is indented too far, and the
# trainer works on every computer with a GPU, and on no other.
#
# __ https://lightning.ai/docs/pytorch/stable/reference/accelerators/accelerator_prepare

# folded: A trainer that fails only where there is no GPU


class Notes:
    def __init__(self, device):
        self.device = torch.device(device)

    def prepare_model(self, model):
        if self.device.type != "cpu":
            model.to(self.device)
            self.model = model
        return self.model


attempt("Notes('meta').prepare_model(nn.Linear(3, 1)).weight.device")
attempt("Notes('cpu').prepare_model(nn.Linear(3, 1)).weight.device")

# %%
# Where this stops being true
# ---------------------------
#
# - *Several GPUs.* Each process has its own device and its own copy of the model:
#   :doc:`/tutorials/4_imaging/11_more_than_one_gpu`.
# - *Other kinds of device.* On a GPU, ``model.to`` gives the same parameters new
#   memory. On TPUs, and on ``meta``, it puts new parameters into the model, and an
#   optimizer made before would change the old ones. Moving first is right everywhere.
#
# Exercise
# --------
#
# Real batches are nested. Write ``prepare(thing, device)``, which returns the same
# structure with every tensor on ``device``. Dictionaries, lists and tuples keep their
# type. Numbers, strings and ``None`` come back as they are. A tensor that is there
# already is not copied, and the batch that you were given stays as it was.


def prepare(thing, device):
    thing.to(device)
    return thing


# %%

# folded: The checker names the first difference, and the way to it


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

# folded: What the checker tries


def find_problem(answer, device):
    tensor, on_device = torch.ones(3), torch.ones(3, device=device)
    batch = {"pair": (tensor, [torch.arange(3), ("a", tensor)]), "none": []}
    batch["rest"] = {"id": 2, "weight": 0.5, "no": None}
    was = repr(batch)
    for thing in (tensor, 3, "name", None, [tensor], batch):
        if problem := differs(thing, answer(thing, device), device):
            return problem
    if repr(batch) != was:
        return "the batch that you were given has changed"
    copied = answer([on_device], device)[0] is not on_device
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


# %%

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

# remember

print("""\
1. A model moves in place, with its parameters and buffers and nothing else.
   Plain tensors, modules in lists, batches and an optimizer's state stay.
2. Move the model, then make its optimizer, and in the loop move each batch.
3. Call model(x), not model.forward(x). Labels are int64. Evaluate in eval() mode.""")
