"""
Will a GPU train your network faster?
=====================================

A course notebook wants to train its "biggest neural networks so far" on a CPU and on a
GPU. On the computer that saved it there was no GPU, the cells failed, and it reports
not a single time. It asks "Will a GPU always speed things up?", names two reasons why
not, and leaves the space under both empty: "Moving tensors between devices takes time"
and "Not all operations are parallelisable". Here you make the experiment, and fill in
both.

**You will learn**

- to follow a picture through a network, and see where it stops fitting;
- which two lines bring a training to the GPU, and whether what it learns is any good;
- to predict which of loading, launching and computing decides, before you rent a GPU;
- to find the share of moving data with a profiler, and why batch sizes cannot tell it.

**Time:** 20 minutes. **Needs:** any computer, some PyTorch, and scikit-learn for its
digits. With a GPU, the page trains on it. Without one, the GPU's side is a model.
"""

# %%
# Predict
# -------
#
# The network is a *CNN*, a convolutional neural network. A *convolution* slides a small
# window of weights, the *kernel*, over a picture, and writes what it finds into a map.
# A *pooling* keeps the largest of each 2 × 2 numbers. The side of a map after a kernel
# of side :math:`k`, with a margin (*padding*) of :math:`p`, and after a pooling is
#
# .. math::
#
#     n + 2p - k + 1 \qquad\text{and}\qquad \lfloor n / 2 \rfloor.
#
# Here are the course's network, and a small one for pictures of 8 × 8, which you will
# train in earnest. Both end with the same three layers, and sort into ten kinds.

import torch
from torch import nn

# channels in and out, side of the kernel, padding, does a pooling follow?
course = [(3, 6, 5, 0, True), (6, 16, 5, 3, False)]
course += [(16, 16, 5, 0, True), (16, 16, 3, 0, True)]
small = [(1, 16, 3, 1, True), (16, 32, 3, 1, True)]


def cnn(convolutions, flat):
    torch.manual_seed(1)
    layers = []
    for into, out, kernel, padding, pool in convolutions:
        layers += [nn.Conv2d(into, out, kernel, padding=padding), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] * pool
    layers += [nn.Flatten(), nn.Linear(flat, 120), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


# %%
# A tensor on the device ``meta`` has a shape and no numbers. So you can follow a
# picture through the layers at no cost. The course's pictures are 32 × 32. What happens
# to smaller ones? Work out the row for 16 before you look.


def follow(model, channels, side):
    x, sides = torch.empty(1, channels, side, side, device="meta"), []
    for layer in model.to("meta"):
        try:
            x = layer(x)
        except RuntimeError:
            return f"{', '.join(sides)}, then it does not fit into\n    {layer}"
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            sides.append(str(x.shape[-1]))
    return f"{', '.join(sides)}, and {x.shape[-1]} numbers at the end"


for side in (32, 24, 16, 8):
    print(f"course, {side} × {side}: {follow(cnn(course, 64), 3, side)}")
print(f"small, 8 × 8: {follow(cnn(small, 128), 1, 8)}")

# %%
# The network fits its own pictures. It fits no smaller ones: at 24, too few numbers
# reach the first ``Linear``, which wants 64 of them (16 maps of 2 × 2). At 16, the
# fourth convolution meets a map of 2 × 2, smaller than its kernel. So follow the shapes
# before you feed your own data into somebody's network.
#
# How big is "biggest"? A step of training is a batch of pictures through the layers
# (*forward*), the slopes of the loss on the way back (*backward*), and new weights (the
# *optimizer*). PyTorch can count the arithmetic, and the operations that it asks the
# device for. Those are the *calls*: on a GPU, each launches at least one kernel.

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

cross_entropy = nn.functional.cross_entropy
only_look = {"t", "view", "detach"}  # these launch nothing


def make_step(model):
    # a tiny lr: the weights hardly change, so each step is the same work
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-7, fused=True)

    def step(x, y):
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


class Calls(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        self.number += name not in only_look and not name.startswith("_record")
        return function(*args, **(kwargs or {}))


# %%

nets = {"course": (course, 64, (3, 32, 32)), "small": (small, 128, (1, 8, 8))}
flops, calls = {}, {}
for name, (convolutions, flat, shape) in nets.items():
    model = cnn(convolutions, flat)
    step, one = make_step(model), (torch.zeros(1, *shape), torch.zeros(1).long())
    step(*one)
    with Calls() as counted, FlopCounterMode(display=False) as counter:
        step(*one)
    flops[name], calls[name] = counter.get_total_flops(), counted.number
    weights = sum(weight.numel() for weight in model.parameters())
    print(f"{name}: {weights:,} weights, {4 * weights / 1e3:.0f} kB; a step is", end="")
    print(f" {calls[name]} calls, {flops[name] / 1e6:.1f} million operations a picture")
print(f"a batch of 256 pictures for the course's: {256 * 12_288 / 1e3:,.0f} kB")

# %%
# The biggest network so far fits into the cache of any processor. A batch is larger
# than the network. And a step is a chain: each call needs the result of the one before,
# each step the weights of the one before. *This* is what is not parallelisable. So
# there are three costs to compare, for a batch of :math:`b` pictures:
#
# - *loading* takes :math:`b` times as long as one picture, on the CPU;
# - *launching* takes as long for any :math:`b`: the calls, times the cost of one;
# - *computing* takes :math:`b` times the operations, on the CPU or on the GPU.
#
# The GPU makes the third small, adds a trip for the batch, and leaves the first two.
# Write down which one you expect to decide, for batches of 4 and of 256.
#
# The data
# --------
#
# Two sets. *Real pictures, to learn from*: the 1797 handwritten digits that come with
# scikit-learn, 8 × 8 pixels. 360 of them are set aside as a *test set*, which no
# network sees while it learns. *Drawn pictures, for size*: spiral galaxies of 32 × 32
# pixels in three colours, with a fixed seed, kept as bytes like any photograph.

import numpy as np
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, TensorDataset

from firstlight import Bench, best_device

device = best_device()
has_gpu, on_cuda = device.type != "cpu", device.type == "cuda"


def galaxies(count):
    rng = np.random.default_rng(seed=1)
    winds = rng.integers(2, size=count)  # to the left or to the right
    turn, phase = rng.uniform((2, 0), (4, 6.3), (count, 2)).T[:, :, None, None]
    v, u = np.mgrid[-1:1:32j, -1:1:32j]
    r, angle = np.hypot(u, v), np.arctan2(v, u)
    turn *= 2 * winds[:, None, None] - 1
    arms = np.exp(-3 * r) * (1 + np.cos(2 * (angle - turn * r) + phase))
    light = np.stack([0.6 * arms + np.exp(-50 * r**2), arms, 1.4 * arms], axis=-1)
    light += rng.normal(0.1, 0.05, light.shape)
    return (120 * light).clip(0, 255).astype(np.uint8), torch.from_numpy(winds)


digits = load_digits()
shuffled = torch.randperm(1797, generator=torch.Generator().manual_seed(1))
x = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)[shuffled]
y = torch.tensor(digits.target)[shuffled]
train_set, test_set = (x[:1437], y[:1437]), (x[1437:], y[1437:])

# %%
# A ``DataLoader`` asks a ``Dataset`` for one picture after the other, and stacks them
# into a batch. The course's pictures become ``float32`` numbers, between -1 and 1, each
# time they are asked for. ``prepare`` does the same, for one picture or for many:


def prepare(pictures):
    colours_first = torch.from_numpy(pictures).movedim(-1, -3)
    return colours_first.float().div_(127.5).sub_(1)


class Pictures(Dataset):
    def __init__(self, pictures, kinds):
        self.pictures, self.kinds = pictures, kinds

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        return prepare(self.pictures[i]), self.kinds[i]


sky, winds = galaxies(256)
print(f"{len(sky):,} galaxies of {sky[0].nbytes:,} bytes; as float32, 4 times that")

# %%
# The two lines
# -------------
#
# Here are the course's two functions. They differ in the two lines that it marks:


def train_cpu(model, loader, optimizer, epochs=1):
    losses = []
    for _ in range(epochs):
        for x, y in loader:
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
    return torch.stack(losses)


# %%


def train_gpu(model, loader, optimizer, device, epochs=1):
    losses = []
    model.to(device)  # new: the weights move, once
    for _ in range(epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)  # new: each batch moves
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
    return torch.stack(losses)


# %%
# An *epoch* is one pass through all pictures. Move the model *before* you make its
# optimizer, too (:doc:`/tutorials/2_devices/01_moving`). On the CPU the new lines do
# nothing, so you need only the second function. (The course calls it with
# ``gpu=True``, which it does not know: a ``TypeError``.)
#
# Check
# -----
#
# On an odd number of pictures: does the loader give what ``prepare`` gives for all at
# once? Are the slopes those of ``float64``? Do both functions learn the same?


def slopes(model, x, y):
    cross_entropy(model(x), y).backward()
    return torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])


x, y = next(iter(DataLoader(Pictures(sky, winds), batch_size=37)))
assert torch.equal(x, prepare(sky[:37]))
exact = slopes(cnn(course, 64).double(), x.double(), y)
for place in dict.fromkeys(("cpu", device.type)):
    got = slopes(cnn(course, 64).to(place), x.to(place), y.to(place))
    wrong = ((got - exact).norm() / exact.norm()).item()
    assert wrong < 1e-2, f"the slopes on {place} are wrong by {wrong:.1e}"
    print(f"slopes on {place}: relative error {wrong:.0e}")

batches, learned = [(x, y), (x[:5], y[:5])], []
for train, where in ((train_cpu, ()), (train_gpu, ("cpu",))):
    model = cnn(course, 64)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    learned.append(train(model, batches, optimizer, *where, epochs=2))
print("both functions, same losses on the CPU:", torch.equal(*learned))

# %%
# (NVIDIA's cards may round the inputs of a convolution to the format tf32. So the check
# is not stricter than that.)
#
# Is it any good?
# ---------------
#
# A fast training is worth nothing if the network learns nothing. The course prints the
# loss of the last batch, which the network has just learned from. Count instead how
# many pictures of the test set it sorts rightly, beside methods that do not train: the
# *nearest mean* (ten average digits), and the *nearest neighbour* (which picture of the
# training set is most alike?).

from time import perf_counter


def learn(batch, epochs=8):
    model = cnn(small, 128).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    loader = DataLoader(TensorDataset(*train_set), batch, shuffle=True)
    start = perf_counter()
    losses = train_gpu(model, loader, optimizer, device, epochs)
    losses[-1].item()  # waits until the GPU is done
    seconds = (perf_counter() - start) / epochs
    with torch.no_grad():
        guess = model(test_set[0].to(device)).argmax(1).cpu()
    return seconds, (guess == test_set[1]).double().mean().item()


# %%
# A test set is a sample. With :math:`m` pictures, a share :math:`p` is uncertain by
# about :math:`\sqrt{p(1-p)/m}`.


def uncertain(p, m=360):
    return (p * (1 - p) / m) ** 0.5


(many, kinds), (tests, right) = train_set, test_set
means = torch.stack([many[kinds == k].mean(0) for k in range(10)]).flatten(1)
to_means = torch.cdist(tests.flatten(1), means)
to_all = torch.cdist(tests.flatten(1), many.flatten(1))
guesses = {
    "nearest mean": to_means.argmin(1),
    "nearest neighbour": kinds[to_all.argmin(1)],
}
scores = {way: (g == right).double().mean().item() for way, g in guesses.items()}
sweep = {64: learn(64)}
scores["small CNN, 8 epochs"] = sweep[64][1]
for way, p in scores.items():
    print(f"{way:<21} {p:.1%} ± {uncertain(p):.1%} of the test set right")

# %%
# The network beats the means. It does not beat the nearest neighbour, which needs no
# training and no GPU. A simple method beside the network tells you that; the network's
# own loss never does.
#
# Measure
# -------
#
# Now the three costs, for three sizes of batch: a step of each network, and loading a
# batch of galaxies, item by item as a ``DataLoader`` does, or all of it in one go.

sizes = (4, 64, 256)
bench = Bench("training-a-cnn", budget=2.5)


def load_items(batch):
    return next(iter(DataLoader(Pictures(sky[:batch], winds[:batch]), batch)))


def load_at_once(batch):
    return prepare(sky[np.arange(batch)]), winds[:batch]


rng = torch.Generator().manual_seed(1)
for name, (convolutions, flat, shape) in nets.items():
    for b in (256, 64, 4, 1) if name == "small" else sizes[::-1]:
        x, y = torch.rand(b, *shape, generator=rng), torch.zeros(b).long()
        bench.time(f"{name}, CPU", make_step(cnn(convolutions, flat)), x, y, n=b)
        if has_gpu:
            step = make_step(cnn(convolutions, flat).to(device))
            bench.time(f"{name}, GPU", step, x.to(device), y.to(device), n=b)
for b in sizes[::-1]:
    bench.time("load, item by item", load_items, b, n=b)
    bench.time("load, in one go", load_at_once, b, n=b)
bench.plot()

# %%
# And a GPU, as a model of the best case. A call costs what Python and PyTorch need to
# ask for it, on any device. You have measured that: a step of the small network with
# one picture has next to no arithmetic. The launch itself, :math:`c`, is assumed. The
# batch makes a trip of two copies through the slot, and the card, an RTX 4090, computes
# at the full rate of its data sheet. (No card does.)

import matplotlib.pyplot as plt

from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity

c = 5e-6  # seconds to launch a call: assumed
colours = {"course": "#2f7ed8", "small": "#d9762b"}


def seconds(label, b):
    return next(t.median for t in bench.timings if (t.label, t.n) == (label, b))


asking = seconds("small, CPU", 1) / calls["small"]


def gpu_model(name, b):
    numbers = np.prod(nets[name][2])
    trip = 2 * c + b * (4 * numbers + 8) / spec("PCIe 4 x16", "bandwidth")
    work = b * flops[name] / spec("RTX 4090", "fp32")
    return calls[name] * (asking + c) + trip + work


print(f"asking: {quantity(asking, 's')} a call; assumed: launching, {quantity(c, 's')}")
print("the course's network on a GPU (model), against this CPU:")
for b in sizes:
    load, cpu = (seconds(label, b) for label in ("load, item by item", "course, CPU"))
    gpu = gpu_model("course", b)
    print(f"batch of {b:3}: the network {cpu / gpu:6.1f} × as fast,", end=" ")
    print(f"loading and network {(load + cpu) / (load + gpu):5.1f} ×")

# %%
# The loop gains less than the network, most of all in large batches. The figure says
# why. Everything is divided by the number of pictures, so a cost for each picture is
# flat, and a cost for each step falls.

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
for name, colour in colours.items():
    per_picture = [seconds(f"{name}, CPU", b) / b for b in sizes]
    ax.plot(sizes, per_picture, "o-", color=colour, label=f"{name} network, CPU")
    best = [gpu_model(name, b) / b for b in sizes]
    ax.plot(sizes, best, "o--", mfc="none", color=colour, label=f"{name}, GPU (model)")
    if has_gpu:
        met = [seconds(f"{name}, GPU", b) / b for b in sizes]
        ax.plot(sizes, met, "D-", color=colour, label=f"{name} network, this GPU")
for label, marker in (("load, item by item", "s"), ("load, in one go", "^")):
    per_picture = [seconds(label, b) / b for b in sizes]
    ax.plot(sizes, per_picture, f"{marker}-", color="#2f9e77", lw=2.5, label=label)
ax.set(xscale="log", yscale="log", xlabel="pictures in a batch")
ax.set_ylabel("time for each picture")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.yaxis.set_major_formatter(lambda t, _: quantity(t, "s", digits=1))
fig.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
loses = gpu_model("small", 4) / seconds("small, CPU", 4)
fig.set_label(
    "Time for each picture over the batch size, logarithmic. The GPU's models fall "
    "in proportion; loading is flat, and higher than the course's model at the right. "
    f"At 4 pictures the small network's model takes {loses:.1f} × as long as the CPU."
)
plt.show()

# %%
# Read it from left to right:
#
# - *Small batches: launching decides.* The GPU's dashed lines fall in proportion to the
#   batch, because a step costs the same whatever is in it. Where the small network's
#   dashed line lies above its solid one, *the GPU loses*.
# - *Large batches: loading decides.* On the GPU, the course's network needs less and
#   less for a picture. The loader does not. Where the dashed line nears the green one,
#   the GPU waits for its data, and *an epoch times the loader*.
# - Loading in one go does the same work with fewer calls of Python. If your data fit
#   into memory, index a whole batch at once.
#
# Where the time goes, from the profiler
# --------------------------------------
#
# The course asks "what proportion of time is being used to move tensors". Ask a
# *profiler*: it notes each operation, and what it took. PyTorch's knows the loader and
# the optimizer by name, and on a CUDA GPU it sees the copies themselves
# (``Memcpy HtoD``, from the host to the device).

import os

from torch.profiler import profile, record_function

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or it prints that it starts
loader = DataLoader(Pictures(sky, winds), 64, shuffle=True)
model = cnn(course, 64).to(device)
optimizer = torch.optim.Adam(model.parameters(), fused=True)
train_gpu(model, [next(iter(loader))], optimizer, device)  # first calls, not profiled
with profile() as profiled, record_function("epoch"):
    train_gpu(model, loader, optimizer, device)[-1].item()
events = profiled.key_averages()


def total(start, where="cpu"):
    found = [event for event in events if event.key.startswith(start)]
    return sum(getattr(event, f"{where}_time_total") for event in found)


loading, moving = total("enumerate(DataLoader)"), total("Memcpy HtoD", "device")
parts = {"loading": loading, "moving": moving, "optimizer": total("Optimizer.step")}
shares = {part: time / total("epoch") for part, time in parts.items()}
for part, share in shares.items():
    print(f"{part}: {share:.1%} of the epoch")

# %%
# Without a GPU nothing moves, and the share is zero. With a CUDA GPU it is the time of
# the copies. (On other GPUs this cell does not see them.) What would a GPU change? Take
# the loading from the stopwatch, and the network from the model:

load, gpu = seconds("load, item by item", 64), gpu_model("course", 64)
copies = 2 * c + 64 * 12_296 / spec("PCIe 4 x16", "bandwidth")
print(f"model of a GPU, batches of 64: loading {load / (load + gpu):.0%}", end=" ")
print(f"of the time, moving {copies / (load + gpu):.1%}")

# %%
# So the first empty heading has its number. What is slow is rarely the trip to the GPU.
# It is the way to the trip: taking pictures apart and stacking them, in Python.
#
# What batch sizes tell
# ---------------------
#
# The course would find that share in another way: try "different batch sizes". Test it
# where you know the answer. On a CPU *no* tensor moves to another device. If the batch
# size shows the cost of moving, the time of an epoch should not change. Take the
# digits, always 8 epochs, and look at the test set as well.

sweep |= {b: learn(b) for b in (256, 1024)}
batches, (epochs, rights) = [*sweep], np.array([*sweep.values()]).T
for b, time, p in zip(batches, epochs, rights, strict=True):
    print(f"batch of {b:4}: {-(-1437 // b):2} steps and", end=" ")
    print(f"{quantity(time, 's')} an epoch; {p:.1%} ± {uncertain(p):.1%} right")

# %%

fig, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
bars = {"color": colours["small"], "fmt": "o-", "capsize": 4}
ax.errorbar(epochs, 100 * rights, 100 * uncertain(rights), **bars)
for b, time, p in zip(batches, epochs, rights, strict=True):
    ax.annotate(f"{b}", (time, 100 * p), (8, -4), textcoords="offset points", size=11)
for way, height in (("nearest mean", "top"), ("nearest neighbour", "bottom")):
    ax.axhline(100 * scores[way], ls=":", color="#808890")
    where = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": height}
    ax.text(0.99, 100 * scores[way], f"{way}, no training", size=9, **where)
ax.set_ylabel("% of the test set right")
ax.set_xlabel(f"time of an epoch on {device.type} (at the points: pictures in a batch)")
ax.set_xlim(0, 1.15 * epochs.max())
ax.locator_params(axis="x", nbins=5)
ax.xaxis.set_major_formatter(lambda t, _: quantity(t, "s", digits=2))
ratio, lost = epochs.max() / epochs.min(), 100 * (rights.max() - rights.min())
fig.set_label(
    "The share of the test set that is right, over the time of an epoch, in batches of "
    f"64 to 1024. Epochs differ by a factor of {ratio:.1f} in time, the share by "
    f"{lost:.0f} points; the largest batch is worst. The nearest neighbour is on top."
)
plt.show()

# %%
# The time of an epoch changes, and there is nothing to move. It falls because there are
# fewer steps, and so fewer calls. *A batch size changes launching, computing, caches
# and learning, all at once.* It does not isolate the moving.
#
# And it is no free choice. With the same number of epochs and the same learning rate, a
# large batch takes fewer steps, and learns less. Compare trainings by the time to the
# same quality on a test set, never by the time of an epoch alone.
#
# What waits
# ----------
#
# On a GPU, launching and computing go on at the same time, until you look at a result.
# The course writes the loss into TensorBoard in every step. To write a number, one must
# know it: ``add_scalar`` `copies it to the host`__, and waits, just like ``.item()``.
# Here is the cost, with a toy queue (:doc:`/tutorials/2_devices/02_queues`) whose host
# and whose GPU take a step of the same, chosen length; and on a real GPU, if you have
# one, with steps of the small network:
#
# __ https://github.com/pytorch/pytorch/blob/v2.6.0/torch/utils/tensorboard/_convert_np.py

from time import sleep

from firstlight.measure.timing import measure
from firstlight.measure.toystream import ToyStream

queue = ToyStream("GPU")


def toy_step(*_):
    sleep(1e-3)  # the host loads, and asks
    return queue.launch(sleep, 1e-3)  # the GPU computes


def fifty(step, x, y, every):
    for i in range(1, 51):
        loss = step(x, y)
        if i % every == 0:
            loss.item()


x, y = (part[:16].to(device) for part in train_set)
steps = {"toy": toy_step}
if has_gpu:  # on a CPU there is nothing to wait for
    steps["real"] = make_step(cnn(small, 128).to(device))
for name, step in steps.items():
    each, once = (measure(fifty, step, x, y, k, budget=0.1).median for k in (1, 50))
    print(f"{name}: reading every step takes {each / once:.2f} × as long as every 50")

# %%
# The toy says what to expect at worst: two lanes that could work side by side take
# turns. Keep ``loss.detach()`` on the device, and read it every 50 steps.
#
# Four more things people turn on
# -------------------------------
#
# Each helps *one* of the costs. Know which one decides before you turn them on.
#
# *TensorBoard* draws the losses. It is a package of its own, ``tensorboard``. Write
# what was kept, after the epoch, and the loop never waits::
#
#     from torch.utils.tensorboard import SummaryWriter
#
#     with SummaryWriter("runs") as writer:
#         for i, loss in enumerate(losses.tolist()):  # one copy for all losses
#             writer.add_scalar("train/loss", loss, i)
#
# In a notebook, ``%load_ext tensorboard`` and ``%tensorboard --logdir runs`` show it.
#
# *Pinned memory* makes the trip of a batch shorter, and lets it go on beside the work.
# It helps where *moving* decides (:doc:`/tutorials/2_devices/05_transfers`)::
#
#     loader = DataLoader(dataset, 256, shuffle=True, pin_memory=True)
#     ...
#     x, y = (part.to(device, non_blocking=True) for part in (x, y))
#
# *Workers* (``num_workers=2``) are processes that load while the network computes.
# They help where *loading* decides, if cores are free. On macOS, on Windows, and since
# Python 3.14 on Linux, each of them imports your script anew. So what trains stands
# under ``if __name__ == "__main__":``. And each must find the ``Dataset`` in a file: in
# a notebook, write your class into one, or use ``TensorDataset``, which is in one. Each
# epoch starts them again, unless they are persistent__. This is a whole script::
#
#     import torch
#     from torch.utils.data import DataLoader, TensorDataset
#
#     if __name__ == "__main__":
#         pictures = TensorDataset(torch.rand(512, 3, 32, 32))
#         loader = DataLoader(pictures, 64, num_workers=2, persistent_workers=True)
#         for epoch in range(2):
#             for i, (x,) in enumerate(loader):
#                 print(epoch, i, x.shape)  # here you train
#
# __ https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
#
# *Mixed precision* computes in numbers of 16 bits where that does little harm. It helps
# where *computing* decides, on hardware that has such arithmetic. ``float16`` has no
# numbers below :math:`2^{-24}`, so small slopes become zero. A ``GradScaler``
# multiplies the loss before the way back, and divides the slopes after it. ``bfloat16``
# has the range of ``float32`` and needs no scaler, but only three digits.

# %%

# folded: Mixed precision, its error and its speed
where = device if device.type in ("cuda", "xpu") else torch.device("cpu")
x, y = prepare(sky[:16]), winds[:16]
exact = slopes(cnn(course, 64).double(), x.double(), y)
x, y = x.to(where), y.to(where)
formats = [torch.float32, torch.bfloat16] + [torch.float16] * (where.type == "cuda")


def mixed_step(model, optimizer, scaler, kind):
    optimizer.zero_grad()
    with torch.autocast(where.type, dtype=kind, enabled=kind != torch.float32):
        loss = cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # divides the slopes, and steps if all are finite
    scaler.update()


for kind in formats:
    model = cnn(course, 64).to(where)
    scaler = torch.amp.GradScaler(where.type, enabled=kind == torch.float16)
    parts = model, torch.optim.SGD(model.parameters(), lr=1e-9), scaler, kind
    time = measure(mixed_step, *parts, device=where, budget=0.1).median
    got = torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])
    wrong = ((got - exact).norm() / exact.norm()).item()
    print(f"{kind}: {quantity(time, 's')} a step, slopes wrong by {wrong:.0e}")
gone = ((exact != 0) & (exact.half() == 0)).double().mean().item()
print(f"slopes that float16 makes zero, without a scaler: {gone:.2%}")

# %%
# Look at both columns: a format that is not faster *here* costs accuracy for nothing.
# For a network of this size on a GPU, mixed precision adds calls to a step whose calls
# decide.
#
# Where this stops being true
# ---------------------------
#
# - *Large networks.* With a thousand times the operations a picture and hardly more
#   calls, computing decides, and the GPU wins by what the data sheet promises.
# - *Fewer launches.* ``torch.compile`` and CUDA graphs ask for a whole step at once.
# - *The model of the GPU is its best case.* Small convolutions reach a small part of a
#   card's rate. If a model loses, the card loses; if it wins, measure.
# - *Real loaders* decode and crop. They take longer than ours, so a GPU waits more. If
#   everything fits there, keep the data on the GPU: then nothing is loaded or moved.
# - *The digits* of one writer are in both sets. A new hand is harder to read.
#
# Exercise
# --------
#
# Before you rent a GPU: each step of your loop takes ``load`` seconds for a batch, and
# then ``compute`` seconds for the network, on the CPU. On a GPU the network takes no
# less than its ``calls``, times ``c`` seconds for asking and launching one. Loading
# stays. Write the function that says how many times as fast the loop becomes, at most.


def at_most(load, compute, calls, c): ...


cases = [
    ((0, 0.1, 50, 1e-5), "without loading, it is the network's time by its launches"),
    ((5e-4, 0.1, 5, 5e-7), "the loop on the GPU still loads"),
    ((0.03, 0.001, 5, 5e-7), "the loop on the CPU loads, too: it is in both times"),
    ((0.001, 0.1, 200, 1e-5), "launching is no small part of this one: add it"),
    ((1e-4, 2e-4, 100, 5e-6), "a GPU can lose; then the number is below one"),
]


def check(answer):
    for arguments, hint in cases:
        call = f"at_most{arguments}"
        load, compute, calls, c = arguments
        expected = (load + compute) / (load + calls * c)
        try:
            got = answer(*arguments)
        except Exception as error:
            return f"{call} raised {type(error).__name__}: {error}. Hint: {hint}."
        if not isinstance(got, (int, float, np.number)):
            return f"{call} gave {got!r}, not one number. Hint: {hint}."
        if not abs(got - expected) <= 0.01 * expected:
            return f"{call} gave {got:.3g}. Hint: {hint}."
    return "Right: you know what a GPU can do for your loop before you rent one."


print(check(at_most))

# %%

# solution


def at_most_solution(load, compute, calls, c):
    return (load + compute) / (load + calls * c)


print(check(at_most_solution))

# %%
# Put in your own numbers: measure loading and computing on the CPU that you have, and
# count the calls as above. The last cell does it for the course's network.
#
# Three lines to remember
# -----------------------

cost = calls["course"], asking + c
bounds = [
    at_most_solution(seconds(load, 256), seconds("course, CPU", 256), *cost)
    for load in ("load, item by item", "load, in one go")
]
print("1. .to(device) for the model, once, and for each batch: two lines, any device.")
print(
    "2. Small batches time the launches, large ones the loader. A GPU makes this loop"
)
print(f"   at most {bounds[0]:.1f} × as fast, {bounds[1]:.1f} × if you load in one go.")
print("3. Ask a profiler what moving costs, and a test set what a fast epoch is worth:")
print(f"   batches changed an epoch {ratio:.1f} ×, and the score by {lost:.0f} points.")
