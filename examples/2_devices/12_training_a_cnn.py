"""
Will a GPU train your network faster?
=====================================

For anyone with a small network, and a GPU to rent or to try. Each step of a training
loads a batch, launches its operations and computes them, and a GPU makes only the
computing faster. With small batches the launch overhead decides, and the GPU may lose.
With large batches the GPU waits for the loader. So measure loading and computing on the
CPU that you have, which bounds the gain before you rent anything. The change to your
code is two lines.

**You will learn**

- which two lines bring a training to the GPU, and whether what it learns is any good;
- to predict which of loading, launching and computing decides;
- to find the share of host-device transfers, which batch sizes cannot tell.

**Time:** 14 minutes. **Needs:** any computer, some PyTorch, and scikit-learn for its
digits. With a GPU, the page trains on it. Without one, the GPU's side is a model.
"""

# %%
# The two lines
# -------------
#
# A course notebook trains its "biggest neural networks so far" on both, but was saved
# without a GPU and reports no time. Its function for the GPU differs from that for the
# CPU in the two lines marked ``new``:

import torch
from torch import nn

cross_entropy = nn.functional.cross_entropy


def train_gpu(model, loader, optimizer, device, epochs=1):
    losses = []
    model.to(device)  # new: the weights move, once
    model.train()
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
# Move the model *before* you make its optimizer
# (:doc:`/tutorials/2_devices/13_models_and_training`). On the CPU the new lines do
# nothing, so this function serves both. (The course's call with ``gpu=True`` is a
# ``TypeError``.)
#
# ``model.train()`` and ``model.eval()`` switch the layers that behave differently while
# they learn, *dropout* and *batch normalisation*. This network has neither, so here
# they change nothing. Write ``model(x)``, not ``model.forward(x)``, which skips hooks.
# ``cross_entropy`` wants its labels ``y`` as ``int64`` numbers of classes (a
# ``LongTensor``). Wrappers such as Lightning write the loop for you; its costs stay.

# folded: The same function without the two lines


def train_cpu(model, loader, optimizer, epochs=1):
    losses = []
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
    return torch.stack(losses)


# %%
# Predict
# -------
#
# The network is convolutional, a *CNN*. A *convolution* slides a small window of
# weights, the *kernel*, over a picture; a *pooling* keeps the largest of each 2 × 2
# numbers. After a kernel of side :math:`k` with a margin (*padding*) of :math:`p`, a
# side of :math:`n` is :math:`n + 2p - k + 1`; after a pooling it is half. Here are the
# course's network, and a small one for pictures of 8 × 8:

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
# A tensor on the device ``meta`` has a shape and no numbers, so you can follow a
# picture through the layers. What happens to smaller ones?


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


for side in (32, 24, 16):
    print(f"course, {side} × {side}: {follow(cnn(course, 64), 3, side)}")
print(f"small, 8 × 8: {follow(cnn(small, 128), 1, 8)}")

# %%
# How big is "biggest"? PyTorch can count the arithmetic, and the operations that it
# dispatches. On a GPU, each launches at least one kernel.

# folded: A step of training, and a counter of its operations
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from firstlight.widgets import Table

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
flops, calls, rows = {}, {}, []
for name, (convolutions, flat, shape) in nets.items():
    model = cnn(convolutions, flat)
    step, one = make_step(model), (torch.zeros(1, *shape), torch.zeros(1).long())
    step(*one)
    with Calls() as counted, FlopCounterMode(display=False) as counter:
        step(*one)
    flops[name], calls[name] = counter.get_total_flops(), counted.number
    weights = sum(weight.numel() for weight in model.parameters())
    work = f"{flops[name] / 1e6:.1f} million"
    rows.append((name, f"{4 * weights / 1e3:.0f} kB", str(calls[name]), work))
head = "network", "weights", "launches a step", "operations a picture"
print(Table("Two networks", head, tuple(rows)).text())
print(f"a batch of 256 pictures for the course's: {256 * 12_288 / 1e3:,.0f} kB")

# %%
# The biggest network so far fits into the cache of any processor. A step is a chain:
# each operation needs the result of the one before, each step the weights of the one
# before. *That* cannot be done in parallel. So there are three costs to compare, for a
# batch of :math:`b` pictures:
#
# - *loading* takes :math:`b` times as long as one picture, on the CPU;
# - *launching* takes as long for any :math:`b`;
# - *computing* takes :math:`b` times the operations, on the CPU or on the GPU.
#
# The GPU makes the third small, adds a transfer, and leaves the first two.
#
# The data
# --------
#
# To learn from: the 1797 handwritten digits of scikit-learn, 8 × 8 pixels, with 360 of
# them set aside as a *test set*. For size: drawn galaxies of 32 × 32 pixels in three
# colours, kept as bytes.

# folded: Digits to learn from, and galaxies of the course's size
import numpy as np
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, TensorDataset

from firstlight import Bench, best_device

device = best_device()
has_gpu = device.type != "cpu"


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
# The course loads its pictures with *torchvision*: ``datasets.CIFAR10(folder,
# download=True, transform=…)`` is a ``Dataset``, which knows its length and gives one
# picture and its label. The transform is a ``Compose`` of ``ToTensor()``, which makes
# ``float32`` numbers between 0 and 1 with the colours first, and ``Normalize(0.5,
# 0.5)``, which subtracts the one and divides by the other. Here the same is written by
# hand, so that nothing is downloaded. A ``DataLoader`` asks for one picture after the
# other and stacks them into a batch.


def prepare(pictures):
    colours_first = torch.from_numpy(pictures).movedim(-1, -3)
    return colours_first.float().div_(127.5).sub_(1)  # from -1 to 1


class Pictures(Dataset):
    def __init__(self, pictures, kinds):
        self.pictures, self.kinds = pictures, kinds

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        return prepare(self.pictures[i]), self.kinds[i]


sky, winds = galaxies(256)

# %%
# Check
# -----
#
# On an odd number of pictures: does the loader give what ``prepare`` gives for all at
# once? Are the gradients those of ``float64``? Do both functions learn the same?


def gradients(model, x, y):
    cross_entropy(model(x), y).backward()
    return torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])


x, y = next(iter(DataLoader(Pictures(sky, winds), batch_size=37)))
assert torch.equal(x, prepare(sky[:37]))
exact = gradients(cnn(course, 64).double(), x.double(), y)
for place in dict.fromkeys(("cpu", device.type)):
    got = gradients(cnn(course, 64).to(place), x.to(place), y.to(place))
    wrong = ((got - exact).norm() / exact.norm()).item()
    # NVIDIA's cards may round the inputs of a convolution to tf32
    assert wrong < 1e-2, f"the gradients on {place} are wrong by {wrong:.1e}"
    print(f"gradients on {place}: relative error {wrong:.0e}")

batches, learned = [(x, y), (x[:5], y[:5])], []
for train, where in ((train_cpu, ()), (train_gpu, ("cpu",))):
    model = cnn(course, 64)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    learned.append(train(model, batches, optimizer, *where, epochs=2))
print("both functions, same losses on the CPU:", torch.equal(*learned))

# %%
# Is it any good?
# ---------------
#
# Count how many pictures of the test set it sorts rightly, beside methods that do not
# train: the *nearest mean* (of ten average digits) and the *nearest neighbour* (the
# most similar picture of the training set). With :math:`m` pictures, a share :math:`p`
# is uncertain by about :math:`\sqrt{p(1-p)/m}`.

from time import perf_counter


def learn(batch, epochs=8):
    model = cnn(small, 128).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    loader = DataLoader(TensorDataset(*train_set), batch, shuffle=True)
    start = perf_counter()
    losses = train_gpu(model, loader, optimizer, device, epochs)
    losses[-1].item()  # waits until the GPU is done
    seconds = (perf_counter() - start) / epochs
    model.eval()
    with torch.no_grad():
        guess = model(test_set[0].to(device)).argmax(1).cpu()
    return seconds, (guess == test_set[1]).double().mean().item()


def uncertain(p, m=360):
    return (p * (1 - p) / m) ** 0.5


# %%

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
rows = tuple((way, f"{p:.1%} ± {uncertain(p):.1%}") for way, p in scores.items())
print(Table("Of the test set", ("", "right"), rows).text())

# %%
# The nearest neighbour needs no training and no GPU. Only a method like that shows what
# a network is worth; its own loss never does.
#
# Measure
# -------
#
# Time a step of each network, and loading a batch of galaxies: item by item as a
# ``DataLoader`` does, or all of it in one go.

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
bench.show()

# %%
# And a GPU, as a model of the best case. The *dispatch overhead* of an operation is
# what Python and PyTorch need to start it, on any device. You have measured it: a step
# of the small network with one picture has next to no arithmetic. The launch itself is
# free, the batch crosses PCIe at its full rate, and an RTX 4090 computes at the full
# rate of its data sheet. (No card does.)

from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity


def seconds(label, b):
    return next(t.median for t in bench.timings if (t.label, t.n) == (label, b))


dispatch = seconds("small, CPU", 1) / calls["small"]


def gpu_model(name, b):
    transfer = b * (4 * np.prod(nets[name][2]) + 8) / spec("PCIe 4 x16", "bandwidth")
    work = b * flops[name] / spec("RTX 4090", "fp32")
    return calls[name] * dispatch + transfer + work


rows = []
for b in sizes:
    gains = [seconds(f"{name}, CPU", b) / gpu_model(name, b) for name in nets]
    load, cpu = (seconds(label, b) for label in ("load, item by item", "course, CPU"))
    gains.append((load + cpu) / (load + gpu_model("course", b)))
    rows.append((str(b), *(f"{gain:.2g} ×" for gain in gains)))
head = "batch", *(f"{name} network" for name in nets), "course, with loading"
print(f"dispatch: {quantity(dispatch, 's')} an operation")
print(Table("A GPU (model, at best) against this CPU", head, tuple(rows)).text())

# %%
# Overhead does not depend on the batch. So with a single picture of the small network
# nothing is gained in this model, and since real launches are not free, the GPU loses.

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
lines = [
    ("network\non this CPU", "course, CPU", "#2f7ed8", "o-"),
    ("loading,\nitem by item", "load, item by item", "#2f9e77", "s-"),
    ("loading,\nin one go", "load, in one go", "#2f9e77", "^-"),
    ("network on a GPU\n(model)", None, "#d9762b", "o--"),
]
lines += [("", "course, GPU", "#b45fc0", "D-")] * has_gpu
for text, label, colour, look in lines:
    times = [seconds(label, b) if label else gpu_model("course", b) for b in sizes]
    per_picture = np.divide(times, sizes)
    ax.plot(sizes, per_picture, look, color=colour, lw=2, mfc=None if label else "none")
    ax.text(300, per_picture[-1], text, color=colour, va="center")
    if label == "course, GPU":
        ax.text(4, 1.4 * per_picture[0], "this GPU", color=colour, ha="center")
ax.set(xscale="log", yscale="log", xlabel="pictures in a batch", xlim=(3, 1200))
ax.set_ylabel("time for each picture")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.yaxis.set_major_formatter(lambda t, _: quantity(t, "s", digits=1))
ax.set_title("On a GPU, small batches wait for launches, large ones for loading")
ax.spines[["top", "right"]].set_visible(False)
small_one = gpu_model("small", 4) / seconds("small, CPU", 4)
fig.set_label(
    "Time for each picture of the course's network over the batch size, logarithmic. "
    "The GPU's model falls in proportion to the batch, the loader's time does not. At "
    f"4 pictures the small network's model takes {small_one:.1f} × as long as the CPU."
)
plt.show()

# %%
# - *Small batches: launching decides.* The dashed line falls in proportion to the
#   batch, because a step costs nearly the same whatever is in it.
# - *Large batches: loading decides.* Once the dashed line is below that of the loader,
#   an epoch (a pass through all pictures) mostly takes what the loader needs.
# - *Loading in one go* needs fewer calls of Python: index a whole batch at once.
#
# Where the time goes, from the profiler
# --------------------------------------
#
# The course asks "what proportion of time is being used to move tensors". Ask a
# *profiler*. PyTorch's knows the loader and the optimizer by name, and on a CUDA GPU
# the transfers (``Memcpy HtoD``, host to device):

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
rows = tuple((part, f"{time / total('epoch'):.1%}") for part, time in parts.items())
print(Table(f"An epoch on {device.type}", ("", "share"), rows).text())
load, gpu = seconds("load, item by item", 64), gpu_model("course", 64)
copies = 64 * 12_296 / spec("PCIe 4 x16", "bandwidth")
print(f"model of a GPU: loading {load / (load + gpu):.0%}", end=" ")
print(f"of the time, moving {copies / (load + gpu):.1%}")

# %%
# What batch sizes tell
# ---------------------
#
# The course would find that share by trying "different batch sizes". On a CPU *no*
# tensor moves, so there an epoch of the digits should always take the same time:

sweep |= {b: learn(b) for b in (256, 1024)}
batches, (epochs, rights) = [*sweep], np.array([*sweep.values()]).T
ratio, lost = epochs.max() / epochs.min(), 100 * (rights.max() - rights.min())
rows = tuple(
    (str(b), str(-(-1437 // b)), quantity(time, "s"), f"{p:.1%} ± {uncertain(p):.1%}")
    for b, time, p in zip(batches, epochs, rights, strict=True)
)
head = "batch", "steps an epoch", "time of an epoch", "test set right"
print(Table(f"Eight epochs on {device.type}", head, rows).text())

# %%
# *A batch size changes launching, computing, caches and learning, all at once*, so it
# does not isolate the moving. With as many epochs and the same learning rate, a large
# batch takes fewer steps, and learns less. So compare trainings by the time to the same
# quality on a test set.
#
# What waits
# ----------
#
# On a GPU, launching and computing overlap until you look at a result. The course
# writes the loss to TensorBoard in every step, and ``add_scalar`` `copies it to the
# host`__, so it waits like ``.item()``. The toy stream of
# :doc:`/tutorials/2_devices/02_queues` shows the worst case, in which host and GPU take
# equally long:
#
# __ https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/tensorboard/_convert_np.py

from time import sleep

from firstlight.measure.timing import measure
from firstlight.measure.toystream import ToyStream

queue = ToyStream("GPU")


def toy_step(*_):
    sleep(1e-3)  # the host loads and launches
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
# So keep ``loss.detach()`` on the device, and write all losses after the epoch::
#
#     from torch.utils.tensorboard import SummaryWriter
#
#     with SummaryWriter("runs") as writer:
#         for i, loss in enumerate(losses.tolist()):  # one copy for all losses
#             writer.add_scalar("train/loss", loss, i)
#
# In a notebook, ``%load_ext tensorboard`` and ``%tensorboard --logdir runs`` show them.
#
# What else helps
# ---------------
#
# *Pinned memory* shortens the transfer of a batch and lets it overlap with the work:
# ``DataLoader(…, pin_memory=True)``, then ``x.to(device, non_blocking=True)``. It helps
# where *moving* decides (:doc:`/tutorials/2_devices/05_transfers`).
#
# *Workers* (``num_workers=2``) are processes that load while the network computes. They
# help where *loading* decides, if cores are free. On macOS, on Windows, and since
# Python 3.14 on Linux, each imports your script anew, so what trains stands under ``if
# __name__ == "__main__":``, and a notebook's ``Dataset`` must stand in a file. Each
# epoch starts them again, unless they are `persistent`__. This is a whole script::
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
# *Mixed precision* computes in numbers of 16 bits, where *computing* decides and the
# hardware has such arithmetic. In ``float16`` small gradients become zero, so a
# ``GradScaler`` multiplies the loss before the backward pass and divides the gradients
# after it. ``bfloat16`` needs no scaler.

# folded: Mixed precision, its error and its speed
where = device if device.type in ("cuda", "xpu") else torch.device("cpu")
x, y = prepare(sky[:16]), winds[:16]
exact = gradients(cnn(course, 64).double(), x.double(), y)
x, y = x.to(where), y.to(where)
formats = [torch.float32, torch.bfloat16] + [torch.float16] * (where.type == "cuda")


def mixed_step(model, optimizer, scaler, kind):
    optimizer.zero_grad()
    with torch.autocast(where.type, dtype=kind, enabled=kind != torch.float32):
        loss = cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # divides the gradients, and steps if all are finite
    scaler.update()


for kind in formats:
    model = cnn(course, 64).to(where)
    scaler = torch.amp.GradScaler(where.type, enabled=kind == torch.float16)
    parts = model, torch.optim.SGD(model.parameters(), lr=1e-9), scaler, kind
    time = measure(mixed_step, *parts, device=where, budget=0.1).median
    got = torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])
    wrong = ((got - exact).norm() / exact.norm()).item()
    print(f"{kind}: {quantity(time, 's')} a step, gradients wrong by {wrong:.0e}")
gone = ((exact != 0) & (exact.half() == 0)).double().mean().item()
print(f"gradients that float16 makes zero, without a scaler: {gone:.2%}")

# %%
# Where this stops being true
# ---------------------------
#
# - *Large networks* have many more operations a picture and hardly more launches, so
#   computing decides, and the GPU wins.
# - *Real loaders* decode and crop, so a GPU waits longer. If all data fit on the GPU,
#   keep them there: then nothing is loaded or moved.
#
# Exercise
# --------
#
# Each step of your loop takes ``load`` seconds for a batch, and then ``compute``
# seconds for the network, on the CPU. On a GPU the network takes at least its ``calls``
# times ``c`` seconds for the dispatch and launch of one. How many times as fast does
# the loop become, at most?


def at_most(load, compute, calls, c): ...


# %%

# folded: The checker
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


# %%

print(check(at_most))

# %%

# solution


def at_most_solution(load, compute, calls, c):
    return (load + compute) / (load + calls * c)


print(check(at_most_solution))

# %%
# Three lines to remember
# -----------------------

# remember
cost = calls["course"], dispatch
bounds = [
    at_most_solution(seconds(load, 256), seconds("course, CPU", 256), *cost)
    for load in ("load, item by item", "load, in one go")
]
print(
    f"""1. .to(device) for the model, once, and for each batch: two lines, any device.
2. Small batches wait for launches, large ones for loading. A GPU makes this loop at
most {bounds[0]:.1f} × as fast, {bounds[1]:.1f} × if you load in one go.
3. Ask a profiler what moving costs, and a test set what a fast epoch is worth: batches
changed an epoch {ratio:.1f} ×, and the score by {lost:.0f} points."""
)
