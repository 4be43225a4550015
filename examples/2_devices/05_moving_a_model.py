"""
What does model.to(device) move?
================================

You moved your model with ``model.to("cuda")``, and it worked. Then you added a scale
for your inputs, or a list of layers, or went on from yesterday's run, and now PyTorch
complains that something is on the CPU. But you moved the model, didn't you?

**Take a guess:** of seven things that a training run holds, how many move with the
model?

At the end of this page you'll know which ones stay behind, and how to find them on a
laptop, before your job waits in the queue of a cluster.

**Time:** 8 minutes. **Needs:** any computer, and
:doc:`a training loop </tutorials/2_devices/02_training_loop>`.
"""

# %%
# A model that does everything wrong
# ----------------------------------
#
# Here is a small network with five mistakes that all look harmless. It also takes a
# step of training before it moves. Without a GPU, the page moves it to PyTorch's device
# ``meta``, whose tensors have a shape and a type, but no numbers. All rules are the
# same.

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from firstlight import Bench, best_device

device = best_device()

torch.manual_seed(1)
kinds = torch.randint(3, (1401,))  # a label for each star: 0, 1 or 2, int64
colours = torch.randn(3, 4)[kinds] + 0.8 * torch.randn(1401, 4)
stars = DataLoader(TensorDataset(colours[:1000], kinds[:1000]), 50, shuffle=True)

gpu = device if device.type != "cpu" else torch.device("meta")

# %%


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
# Before you look at the figure, mark what moved.

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
# PyTorch moves only what it knows of, and it gets to know a thing in three ways: as a
# *parameter* (which is trained), as a *buffer* (which isn't, for example the running
# mean of a ``BatchNorm``), and as a *module* that holds some of these. A plain tensor
# in an attribute is none of them, and neither is a list. In other words: if you want it
# to move, register it. Modules in a plain list are hidden from the optimizer and from
# ``state_dict()``, too, so they aren't trained and aren't saved, also on a CPU, and
# nothing tells you.
#
# The model itself moves *in place*: ``gpumodel = model.to(device)`` is only a second
# name. If you need two models, write ``copy.deepcopy(model).to(device)``.
#
# Find what stayed behind
# -----------------------
#
# People ask ``next(model.parameters()).is_cuda``. But one parameter doesn't speak for
# all, and on Apple's and Intel's GPUs the answer is always ``False``. So ask all
# parameters and buffers, and look for tensors and modules that PyTorch doesn't know:


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


print("on:", where(careless))
print("unknown to PyTorch:", [*unknown(careless)])


# %%
# The first line says where the model is, and it looks perfect. The second one names the
# two culprits.
#
# A batch, or a tensor made in ``forward``, isn't part of the model, so it shows only
# when the loop runs. You can *rehearse* that on your laptop. Train on ``meta``: nothing
# is computed, but every line runs, and a tensor that stayed behind raises an error.


def network():
    layers = nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2)
    return nn.Sequential(*layers, nn.Linear(32, 3))


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


# %%

model = network()
losses = train(model, stars, device)
model.eval()
with torch.no_grad():
    guess = model(colours[1000:].to(device)).argmax(1).cpu()
share = (guess == kinds[1000:]).float().mean()
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at the end")
print(f"{share:.0%} right of {len(guess)} stars that it has not seen")


# %%

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
# The first network came through. The careless one stopped at the first tensor on the
# CPU. Don't take silence as proof, because a matrix product on ``meta`` doesn't compare
# devices.
#
# The optimizer's state
# ---------------------
#
# You go on with yesterday's run: you make the model, its optimizer, load both, and then
# move the model. Adam remembers two averages for each parameter. They belong to the
# optimizer, so ``model.to`` knows nothing of them. We need two places for that, and you
# may have only one, so here the *type* changes. The mistake is the same:


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
# The first step failed, and the second one didn't, because ``load_state_dict`` brings a
# state to the type and the device of its parameters. But the cure is the order: *build,
# move, make the optimizer, and then load the states of both*.
#
# Call the model, not its forward
# -------------------------------
#
# ``model(x)`` runs ``forward``, and around it the *hooks*: functions that somebody has
# asked the model to call. Profilers and wrappers for several GPUs work by hooks, and so
# does ``LazyLinear``. What will the two lines print?

calls = []
layer = nn.Linear(4, 2)
layer.register_forward_hook(lambda *_: calls.append("the hook ran"))

layer(colours)
print("after layer(x):        ", calls)
calls.clear()
layer.forward(colours)
print("after layer.forward(x):", calls)

# %%
# Does the loader hold you up?
# ----------------------------
#
# A ``DataLoader`` takes the samples *one by one*, in Python, and stacks them. If a
# sample is a picture that has to be read and decoded, there's no way around it, and
# ``num_workers=4`` lets four processes do it while the GPU computes. But our stars are
# four numbers each. All of them fit on the GPU many times over, so we can move them
# once, and pick rows there:

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


loader, picking = (timing.median for timing in bench.timings)
print(f"The loader took {loader / picking:.0f} times as long as picking rows.")

# %%
# That's one pass over 1,000 stars, in batches of 50, without any training.
#
# On the H100, the loader took :timing:`feeding median "DataLoader, then .to"
# @nvidia-h100-80gb-hbm3`, and picking rows :timing:`feeding median "rows of tensors on
# the device" @nvidia-h100-80gb-hbm3`.
#
# Don't give a loader tensors on a GPU. It takes them apart one by one all the same, and
# its workers then stop with "Cannot re-initialize CUDA in forked subprocess".

# folded: Check: the trained network in float64 on the CPU

model = network()
losses = train(model, stars, device)
model.eval()
exact = copy.deepcopy(model).cpu().double()
with torch.no_grad():
    wanted = exact(colours[1000:].double())
    got = model(colours[1000:].to(device)).cpu().double()
error = ((got - wanted).abs().max() / wanted.abs().max()).item()
assert error < 1e-4
print(f"largest error, relative to the largest score: {error:.0e}")


# %%
# Where this stops being true
# ---------------------------
#
# - *Several GPUs.* Each process has its own device and its own copy of the model:
#   :doc:`/tutorials/4_imaging/11_more_than_one_gpu`.
# - *Other kinds of device.* On a GPU, ``model.to`` gives the same parameters new
#   memory. On TPUs, and on ``meta``, it puts new parameters into the model, and an
#   optimizer made before would change the old ones. Moving first is right everywhere.
# - *Wrappers* such as Lightning and Accelerate move the model and each batch for you.
#   They can't know of plain tensors, of modules in lists, or of what you make in
#   ``forward``.
#
# Your turn
# ---------
#
# Real batches are nested. Write ``prepare(thing, device)``, which returns the same
# structure with every tensor on ``device``. Dictionaries, lists and tuples keep their
# type. Numbers, strings and ``None`` come back as they are. A tensor that is there
# already is not copied, and the batch that you were given stays as it was. Put your
# answer where the dots are, and run ``firstlight try 05_moving_a_model.py``.


def prepare(thing, device): ...


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
# Three lines to remember
# -----------------------

# remember

print("""\
1. A model moves in place, with its parameters and buffers and nothing else.
   Plain tensors, modules in lists, batches and an optimizer's state stay.
2. Build, move, make the optimizer, then load the states of both.
3. Train once on "meta": it finds most of what stayed behind, on your laptop.""")

# %%
# Solution
# --------

# solution


def prepare_solution(thing, device):
    if isinstance(thing, torch.Tensor):
        return thing.to(device)
    if isinstance(thing, dict):
        return {key: prepare_solution(value, device) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)(prepare_solution(part, device) for part in thing)
    return thing


print(f"Our solution: {check(prepare_solution)}")
