"""
What does model.to(device) move?
================================

You moved your model with ``model.to("cuda")``, and it worked. Then you added a scale
for your inputs, or a list of layers, or you went on from yesterday's run, and now
PyTorch complains that something is on the CPU. But you did move the model, didn't you?

**Take a guess:** of seven things that a training run holds, how many move with the
model?

Then you'll learn to find, on your laptop, what stays behind, before your job has
waited in the queue of a cluster for a night.

**Needs:** any computer, and :doc:`a training loop
</tutorials/2_devices/02_training_loop>`.
"""

# %%
# Save on a GPU, load on a laptop
# -------------------------------
#
# *Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is
# False.* You get this error if a file was saved from a GPU, you load it on a computer
# without one, and you leave out ``map_location``. Copy this, for any two computers:
#
# .. code-block:: python
#
#    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
#    torch.save(states, "run.pt")
#
#    # tomorrow, on another computer
#    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
#    model = Network().to(device)  # build, and move
#    optimizer = torch.optim.Adam(model.parameters())  # only now
#    states = torch.load("run.pt", map_location=device, weights_only=True)
#    model.load_state_dict(states["model"])
#    optimizer.load_state_dict(states["optimizer"])
#
# These lines also help if the file was saved from *cuda:1*, and you have a single GPU.
#
# A model that does everything wrong
# ----------------------------------
#
# Our data are made-up stars of three kinds, with four colours each. If you have no GPU,
# we move things to PyTorch's device ``meta``. A tensor there has a shape and a type,
# but no numbers. It mostly obeys the rules of a GPU, with three differences. A line
# that needs a value, such as ``.item()``, stops with an error. ``model.to`` puts *new*
# parameters into the model. And a product of matrices doesn't check whether both
# matrices are on the same device.

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
# And here is the model. It runs, it learns, and on a CPU you'd never notice anything.
# **Which of its tensors will move?**


class Careless(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))
        self.width = torch.ones(4)
        self.steps = [nn.Linear(4, 4)]

    def forward(self, x):
        x = (x - self.mean) / self.width
        for step in self.steps:
            x = torch.relu(step(x))
        return self.linear(x) * torch.tensor([1.0, 2.0, 4.0])


careless = Careless()
early = torch.optim.Adam(careless.parameters())
careless(colours).sum().backward()
early.step()  # one step of training, on the CPU

moved_model = careless.to(gpu)
print("linear:", careless.linear.weight.device)
print("mean:  ", careless.mean.device)
print("width: ", careless.width.device)
print("steps: ", careless.steps[0].weight.device)

# %%
# Two of the four came along. The figure has three more things that a training run
# holds, and what to do about those that stayed.

# folded: Where everything is now, and what to do about it

state = early.state[early.param_groups[0]["params"][0]]
held = {
    "a parameter (linear.weight)": (careless.linear.weight, "nothing to do"),
    "a buffer (mean)": (careless.mean, "nothing to do"),
    "a plain tensor (width)": (careless.width, "register_buffer(…)"),
    "a module in a list (steps)": (careless.steps[0].weight, "nn.ModuleList([…])"),
    "made in forward (1, 2, 4)": (
        torch.tensor([1.0, 2.0, 4.0]),  # as in forward
        "torch.tensor(…, device=x.device)",
    ),
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
ax.set(xlim=(0, 5), ylim=(len(held), -0.1))
ax.set_yticks([row + 0.42 for row in range(len(held))], held, size=11)
ax.set_xticks([0.5, 1.66], ["moves?", "what to do"], size=11)
ax.tick_params(length=0, labeltop=True, labelbottom=False)
ax.spines[:].set_visible(False)
fig.suptitle(title, size=12, weight="bold")
fig.set_label(
    f"{title}. What moves: {', '.join(what for what in moved if moved[what])}. Stays: "
    f"{', '.join(what for what in moved if not moved[what])}; each with its cure."
)
plt.show()

# %%
# Two of seven! Think of a removal firm. It carries what's on its list, and nothing
# else, even if the piano stands in the middle of the room. A model keeps such a list,
# and there are three ways to get onto it:
#
# - as a *parameter*, which is trained, for example the weights of a layer;
# - as a *buffer*, which isn't trained but belongs to the model, for example the
#   running mean of a ``BatchNorm``;
# - as a *module* in an attribute, which brings its own list along.
#
# A plain tensor in an attribute isn't on the list, and neither is what's inside a
# Python list. This hurts on a CPU, too, because the optimizer and ``state_dict()`` use
# the same list. So the layer in ``steps`` isn't trained, and isn't saved, and nothing
# tells you.
#
# And ``gpumodel = model.to(device)`` doesn't give you a second model. The model moves
# *in place*, and you get a second name for it:

print("the result of .to is the model:", moved_model is careless)

# %%
# If you do want two, write ``copy.deepcopy(model).to(device)``.
#
# Find what stayed behind
# -----------------------
#
# People ask ``next(model.parameters()).is_cuda``, or look at ``net[0].weight.device``.
# But one parameter doesn't speak for all, and on Apple's and Intel's GPUs ``is_cuda``
# is always ``False``. So ask all of them. And then ask the opposite question: which
# tensors and modules are there that are *not* on the list?


def where(model):
    return {str(t.device) for t in [*model.parameters(), *model.buffers()]}


def unknown(model):
    registered = [*model.parameters(), *model.buffers(), *model.modules()]
    known = {id(part) for part in registered}
    for path, module in model.named_modules():
        for name, thing in vars(module).items():  # also PyTorch's own lists; all known
            parts = thing.values() if isinstance(thing, dict) else thing
            parts = parts if isinstance(thing, (dict, list, tuple)) else [thing]
            for part in parts:
                if (
                    isinstance(part, (torch.Tensor, nn.Module))
                    and id(part) not in known
                ):
                    yield f"{path}.{name}".strip(".")


print("on:", where(careless))
print("not on the list:", [*unknown(careless)])


# %%
# It's the second line that names the culprits. Copy ``unknown`` into your project, and
# call it once in your tests.
#
# It can't see a batch, or what's made in ``forward``, be it a tensor or a whole layer,
# as in ``nn.BatchNorm1d(3)(x)``. Such a layer is on the CPU, and new and untrained in
# each call, so build layers in ``__init__``. But you don't need a GPU to find these:
# *rehearse* on ``meta``. Nothing is computed there. But every line that needs no value
# runs, and a tensor that stayed behind raises an error. We take the loop from :doc:`the
# page on training </tutorials/2_devices/02_training_loop>`.

# folded: A sound network, the loop, and what it learns on the device


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


model = network()
losses = train(model, stars, device)
model.eval()
with torch.no_grad():
    guess = model(colours[1000:].to(device)).argmax(1).cpu()
share = (guess == kinds[1000:]).float().mean()
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at the end")
print(f"{share:.0%} right of {len(guess)} stars that it has not seen")

# %%


def error_of(function, *arguments):
    try:
        function(*arguments)
    except RuntimeError as error:
        return error


print("a sound network:", train(network(), stars, "meta").device)
print("the careless one:", error_of(train, Careless(), stars, "meta"))

# %%
# That's the error that you'd have met on the cluster, in the same place, the division
# by ``width``. Mend it, and the next error shows the next mistake. But if nothing
# complains, you can't be sure, because a product of matrices on ``meta`` doesn't check
# where they are. ``unknown`` finds what it misses.
#
# Break it: yesterday's optimizer
# -------------------------------
#
# You go on with yesterday's run, but not in the order of our lines at the top. You make
# the model and its optimizer, load the states of both, and then move the model. **What
# can go wrong?**
#
# Adam remembers two averages for each parameter. They belong to the optimizer, so
# ``model.to`` knows nothing of them. To show it without two devices, we change the
# *type* of the model. The mistake is the same:


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    return "done"


line = nn.Linear(3, 1)
adam = torch.optim.Adam(line.parameters(), lr=0.1)
step(line, adam, torch.ones(1, 3))

line.to(torch.float64)  # the weights are float64 now, and Adam's averages aren't
print(error_of(step, line, adam, torch.ones(1, 3, dtype=torch.float64)))

# %%
# The remedy is the order at the top: **build, move, make the optimizer, and then load
# the states of both**. ``load_state_dict`` brings the averages to where the parameters
# are.

# folded: By the way: why you call model(x), and not model.forward(x)

# Somebody may have asked a model to call a function of theirs, a *hook*, at each call.
# Profilers and wrappers for several GPUs do. model.forward(x) leaves the hooks out.
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
# A ``DataLoader`` picks the samples *one by one*, in Python. But our stars are four
# numbers each. We can move them all once, and pick rows on the GPU. **How many times as
# fast will that be?**

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
# On an H100, one pass over a thousand stars, without any training, took
# :timing:`feeding median "DataLoader, then .to" @nvidia-h100-80gb-hbm3` with the
# loader, and :timing:`feeding median "rows of tensors on the device"
# @nvidia-h100-80gb-hbm3` with rows picked on the GPU. That's :timing:`feeding speedup
# "rows of tensors on the device"/"DataLoader, then .to" @nvidia-h100-80gb-hbm3`, for
# three lines.
#
# But don't give tensors on a GPU to a *loader*. It takes them apart one by one anyway,
# and its workers may stop with "Cannot re-initialize CUDA in forked subprocess".

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
# Which GPU is cuda:0, here and on a cluster?
# -------------------------------------------
#
# If you have *several GPUs*, ``"cuda:1"`` is the second, and with
# ``CUDA_VISIBLE_DEVICES=1`` your program sees only that one, as ``"cuda:0"``. On a
# cluster, Slurm sets it to the cards of your job, say ``2,3,4,5``, and your program
# counts those from 0. So write ``"cuda"``, never the number of a card, and leave the
# variable alone: any other card is somebody else's, and you'd only get "busy or
# unavailable". Without Slurm, set it before Python starts, or above all imports. CUDA
# counts from the fastest card, and ``nvidia-smi`` by slot. With
# ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, CUDA also counts by slot. In CuPy it's ``with
# cupy.cuda.Device(1):``, in Numba ``cuda.select_device(1)``. To use all of them, give
# each process a device and :doc:`a copy of the model
# </tutorials/2_devices/20_two_gpus>`. *Wrappers* such as Lightning and Accelerate move
# the model and each batch for you, but they keep to the model's list, too. And on a
# TPU, an optimizer that's made before the move would train the *old* parameters. If you
# move first, you're right everywhere.
#
# Your turn
# ---------
#
# Mend the careless model. Write ``Careful`` with the same ``linear``, ``mean``,
# ``width`` and ``steps``, and the same result, so that all of it moves, is saved, and
# runs on any device. It should train ``linear``, as before, and ``steps``, which the
# careless one forgot, and nothing else. Put your answer where the dots are, and run
# ``firstlight try 05_moving_a_model.py``.


class Careful(nn.Module): ...


# %%

# folded: The checker moves your model to meta, and compares its results on the CPU


def right_result(model, x):
    x = (x - model.mean) / model.width
    for layer in model.steps:
        x = torch.relu(layer(x))
    return model.linear(x) * torch.tensor([1.0, 2.0, 4.0])


def find_problem(answer):
    model = answer()
    for name in ("linear", "mean", "width", "steps"):
        if not hasattr(model, name):
            return f"it has no {name}."
    if hidden := [*unknown(model)]:
        return f"PyTorch doesn't know of {', '.join(hidden)}."
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if trained != 35:
        return f"{trained} numbers are trained, and it should be 15 + 20."
    if lost := {"mean", "width"} - set(model.state_dict()):
        return f"{' and '.join(sorted(lost))} wouldn't be saved."
    with torch.no_grad():
        model.mean.copy_(torch.tensor([0.0, 1.0, 2.0, 3.0]))
        model.width.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        x = torch.linspace(-1, 3, 20).reshape(5, 4)
        if not torch.allclose(model(x), right_result(model, x)):
            return "it gives another result than the careless model."
        there = copy.deepcopy(model).to("meta")
        if there(x.to("meta")).device.type != "meta":
            return "on another device, its result isn't on that device."
    return ""


def check(answer):
    try:
        problem = find_problem(answer)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        return f"Not yet: {problem}"
    return "Right: all of it moves, is saved, and runs on any device."


# %%

print(check(Careful))

# %%
# Three lines to remember
# -----------------------

# remember

print("""\
1. A model moves in place, with its parameters and buffers and nothing else. Plain
   tensors, modules in lists, batches and an optimizer's state stay behind.
2. Build, move, make the optimizer, and then load the states of both.
3. Look for what PyTorch doesn't know, and train once on "meta", on your laptop.""")

# %%
# Solution
# --------

# solution


class CarefulSolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("width", torch.ones(4))
        self.steps = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x):
        x = (x - self.mean) / self.width
        for step in self.steps:
            x = torch.relu(step(x))
        return self.linear(x) * torch.tensor([1.0, 2.0, 4.0], device=x.device)


print(f"Our solution: {check(CarefulSolution)}")
