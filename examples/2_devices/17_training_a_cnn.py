"""
Will a GPU train your network faster?
=====================================

In :doc:`a training loop </tutorials/2_devices/02_training_loop>`, an H100 lost to two
cores of a CPU, for a small network and one picture at a time. Nobody buys a GPU for
that. So when does it win, and by how much would it win for *your* network?

**Take a guess** for a network of 30,000 weights and for one of 9 million: how many
times as fast is an H100 as two cores of a CPU?

At the end of this page you'll be able to work out the most that any GPU can do for your
loop, from times that you measure on your own CPU, before you rent one.

**Time:** 9 minutes. **Needs:** any computer, and scikit-learn for its digits.
"""

# %%
# The same network, in three sizes
# --------------------------------
#
# All three are *convolutional*: small windows of weights, the *filters*, slide over a
# picture. The small one is the network of the page before, for digits of 8 × 8 pixels.
# The medium one (``lesson``) comes from a public course (see
# :doc:`its claims </claims>`), for pictures of 32 × 32 in three colours, and so is the
# large one, with the convolutions of VGG-11. The small and the medium one have 30,000
# weights each, the large one 9 million.

# folded: The three networks, and a step of training
import torch
from torch import nn

cross_entropy = nn.functional.cross_entropy

# channels in and out, side of the filter, padding, does a pooling follow?
lesson = [(3, 6, 5, 0, True), (6, 16, 5, 3, False)]
lesson += [(16, 16, 5, 0, True), (16, 16, 3, 0, True)]
small = [(1, 16, 3, 1, True), (16, 32, 3, 1, True)]
large = [(3, 64, 3, 1, True), (64, 128, 3, 1, True), (128, 256, 3, 1, False)]
large += [(256, 256, 3, 1, True), (256, 512, 3, 1, False), (512, 512, 3, 1, True)]
large += [(512, 512, 3, 1, False), (512, 512, 3, 1, True)]


def cnn(convolutions, flat):
    torch.manual_seed(1)
    layers = []
    for into, out, side, padding, pool in convolutions:
        layers += [nn.Conv2d(into, out, side, padding=padding), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] * pool
    layers += [nn.Flatten(), nn.Linear(flat, 120), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


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


nets = {"small": (small, 128, (1, 8, 8)), "lesson": (lesson, 64, (3, 32, 32))}
nets["large"] = large, 512, (3, 32, 32)

# %%

# folded: Digits to learn from, and galaxies of 32 × 32 pixels
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

# folded: Check: loaded right, and the gradients agree with float64


def gradients(model, x, y):
    cross_entropy(model(x), y).backward()
    return torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])


x, y = next(iter(DataLoader(Pictures(sky, winds), batch_size=37)))
assert torch.equal(x, prepare(sky[:37]))
exact, errors = gradients(cnn(lesson, 64).double(), x.double(), y), {}
for place in dict.fromkeys(("cpu", device.type)):
    got = gradients(cnn(lesson, 64).to(place), x.to(place), y.to(place))
    errors[place] = ((got - exact).norm() / exact.norm()).item()
    # NVIDIA's cards may round the inputs of a convolution to tf32
    assert errors[place] < 1e-2, errors
for place, wrong in errors.items():
    print(f"relative error of the gradients on {place}: {wrong:.0e}")

# %%
# Now we time one step of each, with a few pictures and with many. And we time how long
# it takes to load a batch: picture by picture, as a ``DataLoader`` does, or all of it
# in one go.

# folded: What is timed

sizes = {"small": (1, 8, 256), "lesson": (1, 8, 256), "large": (1, 8)}
bench = Bench("training-a-cnn", budget=2.5)


def load_items(batch):
    return next(iter(DataLoader(Pictures(sky[:batch], winds[:batch]), batch)))


def load_at_once(batch):
    return prepare(sky[np.arange(batch)]), winds[:batch]


for b in sizes["lesson"]:
    bench.time("load, item by item", load_items, b, n=b)
    bench.time("load, in one go", load_at_once, b, n=b)
rng = torch.Generator().manual_seed(1)
for name, (convolutions, flat, shape) in nets.items():
    for b in sizes[name]:
        x, y = torch.rand(b, *shape, generator=rng), torch.zeros(b).long()
        bench.time(f"{name}, CPU", make_step(cnn(convolutions, flat)), x, y, n=b)
        if has_gpu:
            step = make_step(cnn(convolutions, flat).to(device))
            bench.time(f"{name}, GPU", step, x.to(device), y.to(device), n=b)

# %%

bench.show()

# %%
# What happened on the H100? Compare it with the two cores of an AMD EPYC, and keep an
# eye on the number of pictures.
#
# *Small network, one picture.* The two cores took :timing:`training-a-cnn median
# "small, CPU/cpu/n=1" @cpu-amd-epyc`, the H100 :timing:`training-a-cnn median "small,
# GPU/cuda:0/n=1" @nvidia-h100-80gb-hbm3`. It lost.
#
# *Medium network, 256 pictures.* The two cores took
# :timing:`training-a-cnn median "lesson, CPU/cpu/n=256" @cpu-amd-epyc`, the H100
# :timing:`training-a-cnn median "lesson, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3`.
#
# *Large network, 8 pictures.* The two cores took
# :timing:`training-a-cnn median "large, CPU/cpu/n=8" @cpu-amd-epyc`, the H100
# :timing:`training-a-cnn median "large, GPU/cuda:0/n=8" @nvidia-h100-80gb-hbm3`.
#
# A factor like these says as much about the CPU as about the GPU. The server around the
# H100 has 16 cores for it, not two.
#
# Against these 16, the H100 was :timing:`training-a-cnn speedup "small,
# GPU/cuda:0/n=1"/"small, CPU/cpu/n=1" @nvidia-h100-80gb-hbm3` as fast for the small
# network, :timing:`training-a-cnn speedup "lesson, GPU/cuda:0/n=256"/"lesson,
# CPU/cpu/n=256" @nvidia-h100-80gb-hbm3` for the medium one, and :timing:`training-a-cnn
# speedup "large, GPU/cuda:0/n=8"/"large, CPU/cpu/n=8" @nvidia-h100-80gb-hbm3` for the
# large one.
#
# Three parts of a step
# ---------------------
#
# Why so different? A step has three parts, and a GPU speeds up only one of them:
#
# - *loading* the batch, on the CPU: in proportion to the number of pictures;
# - *launching* each operation, in Python and PyTorch: the same for one picture or 256;
# - *computing*: in proportion to the number of pictures, and to the size of the
#   network.
#
# Look at the launches first. The H100's step of the medium network took
# :timing:`training-a-cnn median "lesson, GPU/cuda:0/n=8" @nvidia-h100-80gb-hbm3` with 8
# pictures and :timing:`training-a-cnn median "lesson, GPU/cuda:0/n=256"
# @nvidia-h100-80gb-hbm3` with 256.
#
# For 32 times the work it needed hardly more time, so nearly all of it went into
# launching some 45 operations. Then look at the large network. It has 80 times the
# arithmetic for a picture, but only half as many operations again, so there the
# arithmetic decides on a CPU, and a GPU gains.
#
# Now the loading, which we left out so far. To load 256 pictures one by one, the H100's
# server needs
# :timing:`training-a-cnn median "load, item by item/cpu/n=256" @nvidia-h100-80gb-hbm3`.
#
# That's longer than the step itself. In other words, the GPU spends most of its
# time waiting for the next batch, and a faster GPU would only wait longer.
#
# So you can give a bound for *any* GPU without having one. Your loop on the CPU takes
# :math:`t_\text{load} + t_\text{compute}`. On a GPU it takes at least
# :math:`t_\text{load} + t_\text{launch}`. Hence it becomes at most
#
# .. math:: \frac{t_\text{load} + t_\text{compute}}{t_\text{load} + t_\text{launch}}
#
# times as fast. And :math:`t_\text{launch}`? A step of the small network with a single
# picture is nearly nothing else, and it has 35 operations. So divide its time by 35,
# and multiply by the number of yours (:doc:`/tutorials/2_devices/14_profile` counts
# them). Here is the bound for the medium network, which has 45:

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, ORANGE


def seconds(label, b):
    rows = (t for t in bench.timings if (t.label, t.n) == (label, b))
    return next(rows).median


load, compute = seconds("load, item by item", 256), seconds("lesson, CPU", 256)
once, launch = seconds("load, in one go", 256), 45 / 35 * seconds("small, CPU", 1)
bars = {
    "on this CPU": (load, 0, compute),
    "any GPU, at least": (load, launch, 0),
    "the same, loaded in one go": (once, launch, 0),
}
gain = (load + compute) / (load + launch)
gain_at_once = (once + compute) / (once + launch)
fig, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
for row, times in enumerate(bars.values()):
    left = 0
    for part, colour in zip(times, (GREEN, ORANGE, BLUE), strict=True):
        ax.barh(row, 1e3 * part, 0.6, left=left, color=colour)
        left += 1e3 * part
for part, colour in {"loading": GREEN, "launching": ORANGE, "computing": BLUE}.items():
    ax.barh(0, 0, color=colour, label=part)
ax.set_yticks(range(3), bars)
ax.invert_yaxis()
ax.set(xlabel="milliseconds for a step with 256 pictures, medium network")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
title = f"At most {gain:.1f} × as fast on any GPU"
fig.suptitle(f"{title}; loaded in one go, {gain_at_once:.0f} ×")
fig.set_label(
    "Bars of a step on this CPU and of the least that it takes on any GPU. Loading is "
    f"{load / (load + launch):.0%} of the second bar. In one go, it nearly vanishes."
)
plt.show()

# %%
# Real networks are larger. Lambda, NVIDIA and a benchmark of 2018 trained these, and
# the prediction is the number of operations by the data sheet's rate:
#
# .. measured-by-others:: resnet-rtx4090 resnet-v100 vgg-v100
#
# What does each trick bring?
# ---------------------------
#
# You'll find long lists of tricks for faster training. Each of them shortens one of the
# three parts, so it brings nothing if another part decides. Here is what each brought
# where we could measure it, mostly on the H100:
#
# .. list-table:: What each trick brought
#    :header-rows: 1
#    :widths: 22 16 62
#
#    * - trick
#      - shortens
#      - what it brought
#    * - a larger batch
#      - launching
#      - medium network, 8 pictures: :timing:`training-a-cnn median
#        "lesson, GPU/cuda:0/n=8" @nvidia-h100-80gb-hbm3`; 256: :timing:`training-a-cnn
#        median "lesson, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3`
#    * - load in one go
#      - loading
#      - 256 pictures, one by one: :timing:`training-a-cnn median
#        "load, item by item/cpu/n=256" @nvidia-h100-80gb-hbm3`; in one go:
#        :timing:`training-a-cnn median "load, in one go/cpu/n=256"
#        @nvidia-h100-80gb-hbm3`
#    * - ``num_workers=4``
#      - loading
#      - at most the number of workers, and of free cores
#    * - data on the GPU
#      - loading
#      - 1,000 rows, from a loader: :timing:`feeding median "DataLoader, then .to"
#        @nvidia-h100-80gb-hbm3`; picked on the GPU: :timing:`feeding median
#        "rows of tensors on the device" @nvidia-h100-80gb-hbm3`
#    * - ``pin_memory``
#      - moving
#      - 4 MB: :timing:`pinned-memory median "to the GPU, pageable/cuda:0/n=4194304"
#        @nvidia-h100-80gb-hbm3`; pinned: :timing:`pinned-memory median
#        "to the GPU, pinned/cuda:0/n=4194304" @nvidia-h100-80gb-hbm3`
#    * - ``torch.compile``
#      - launching
#      - a chain of small operations, as written: :timing:`fewer-launches median
#        "as written/cuda:0/n=1000" @nvidia-h100-80gb-hbm3`; compiled:
#        :timing:`fewer-launches median "compiled/cuda:0/n=1000" @nvidia-h100-80gb-hbm3`
#    * - ``autocast``
#      - computing
#      - product of two large matrices: :timing:`precision speedup
#        "GPU, matmul, float16"/"GPU, matmul, float32" @nvidia-h100-80gb-hbm3` as fast
#    * - ``channels_last``
#      - computing
#      - measured below, on the computer that built this page
#
# Two of these we can try here, on the medium network with 64 pictures. What would you
# expect from a CPU? ``channels_last`` stores the colours of a pixel side by side, and
# ``autocast`` computes with 16 bits:

where = device if device.type in ("cuda", "xpu") else torch.device("cpu")
last = torch.channels_last
x, y = prepare(sky[:64]).to(where), winds[:64].to(where)
tricks = Bench("training-tricks", budget=2)
step = make_step(cnn(lesson, 64).to(where))
tricks.time("as it was", step, x, y, n=64, device=where)
step_last = make_step(cnn(lesson, 64).to(where, memory_format=last))
tricks.time("channels_last", step_last, x.to(memory_format=last), y, n=64, device=where)
step_16 = torch.autocast(where.type, torch.bfloat16)(
    make_step(cnn(lesson, 64).to(where))
)
tricks.time("autocast", step_16, x, y, n=64, device=where)
tricks.show()

# %%

plain, *others = tricks.timings
for row in others:
    print(f"{row.label}: {plain.median / row.median:.1f} times as fast as it was")

exact = gradients(cnn(lesson, 64).double(), x.cpu().double(), y.cpu())
with torch.autocast(where.type, torch.bfloat16):
    got = gradients(cnn(lesson, 64).to(where), x, y)
wrong = ((got - exact).norm() / exact.norm()).item()
print(f"gradients in 16 bits: wrong by {wrong:.1%}")

# %%
# Below one, it got slower. That can happen on a GPU as well: on the H100, ``autocast``
# made a step of this network with 16 pictures slower, because it adds operations of its
# own to a step that was waiting for launches already. And 16 bits cost accuracy, which
# training mostly forgives.
#
# Workers are processes. On macOS, on Windows, and since Python 3.14 on Linux, each of
# them imports your script anew, so the training has to stand under ``if __name__ ==
# "__main__":``, and a notebook's ``Dataset`` in a file. This is a whole script::
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
# What holds up your training?
# ----------------------------
#
# Before you try a trick, ask a :term:`profiler`, which of the three parts is the
# largest. PyTorch's knows the loader and the optimizer by name, and on a CUDA GPU the
# transfers (``Memcpy HtoD``). It slows down small calls, which are most of the loading,
# so that share comes out too large.

# folded: A loop, and its profile
import os

from torch.profiler import profile, record_function

from firstlight.display import quantity, show_table


def train(model, loader, optimizer, epochs=1):
    losses = []
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            loss = cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)


os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or it prints that it starts
loader = DataLoader(Pictures(sky, winds), 64, shuffle=True)
model = cnn(lesson, 64).to(device)
optimizer = torch.optim.Adam(model.parameters(), fused=True)
train(model, [next(iter(loader))], optimizer)  # first calls, not profiled
with profile() as profiled, record_function("epoch"):
    train(model, loader, optimizer)[-1].item()
events = profiled.key_averages()


def total(start, where="cpu"):
    found = [event for event in events if event.key.startswith(start)]
    return sum(getattr(event, f"{where}_time_total") for event in found)


parts = {"loading": total("enumerate(DataLoader)")}
parts["moving"] = total("Memcpy HtoD", "device")
parts["optimizer"] = total("Optimizer.step")
parts["network, and the rest"] = total("epoch") - sum(parts.values())
rows = [(part, f"{time / total('epoch'):.1%}") for part, time in parts.items()]
show_table(f"An epoch on {device.type}", ("", "share"), rows)


# %%
# Is loading the largest? Then load in one go, or with workers, and expect little from a
# GPU. If the network is, on a CPU, a GPU will help. On a GPU, enlarge the batch: if a
# step then takes hardly longer, you were waiting for launches
# (:doc:`/tutorials/2_devices/16_fewer_launches`).
#
# To the same score
# -----------------
#
# A larger batch makes an epoch faster, but it also takes fewer steps. Let's see what
# that costs. We train the small network, and count the test digits that it gets right.
# A share :math:`p` of :math:`m` pictures is uncertain by about :math:`\sqrt{p(1-p)/m}`.
# For comparison, the *nearest neighbour* learns nothing at all: it looks for the most
# similar picture that it knows. **Guess:** which is better?

# folded: Training with a score
from time import perf_counter


def learn(batch, epochs=8):
    model = cnn(small, 128).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    loader = DataLoader(TensorDataset(*train_set), batch, shuffle=True)
    times = []
    for _ in range(epochs):
        start = perf_counter()
        train(model, loader, optimizer)[-1].item()  # waits for the GPU
        times.append(perf_counter() - start)
    model.eval()
    with torch.no_grad():
        guess = model(test_set[0].to(device)).argmax(1).cpu()
    right = (guess == test_set[1]).double().mean().item()
    return epochs, epochs * -(-1437 // batch), min(times), right


def uncertain(p, m=360):
    return (p * (1 - p) / m) ** 0.5


distances = torch.cdist(test_set[0].flatten(1), train_set[0].flatten(1))
neighbour = train_set[1][distances.argmin(1)]
by_neighbour = (neighbour == test_set[1]).double().mean().item()

# %%

sweep = {"64": learn(64), "256": learn(256), "1024": learn(1024)}
sweep["256, longer"] = learn(256, 31)

rows = []
for batch, (epochs, steps, time, p) in sweep.items():
    score = f"{p:.1%} ± {uncertain(p):.1%}"
    cost = str(epochs), str(steps), quantity(epochs * time, "s")
    rows.append((f"batch of {batch}", *cost, score))
rows.append(("nearest neighbour", *"–––", f"{by_neighbour:.1%}"))
head = "", "epochs", "steps", "time of them", "test set right"
show_table(f"Small network on {device.type}", head, rows)
spent = {batch: epochs * time for batch, (epochs, _, time, _) in sweep.items()}
longer = spent["256, longer"] / spent["64"]
print(f"to about the same score, batches of 256 took {longer:.1f} × the time of 64")

# %%
# For the same number of epochs, a larger batch takes fewer steps and learns less. You
# can train for about as many *steps*, at the cost in the last line, or raise the
# learning rate with the batch: for SGD `in proportion, with a warm-up`__, for Adam
# `by the square root`__. And the nearest neighbour does at least as well, so always
# compare with something simple.
#
# __ https://arxiv.org/abs/1706.02677
# __ https://arxiv.org/abs/2205.10287
#
# Where this stops being true
# ---------------------------
#
# - *Real loaders* decode and crop, so a GPU waits longer.
# - *Captured or compiled* steps launch less, so the bound is higher for them.
# - *Memory.* The card holds the weights, their gradients and Adam's two averages, 16
#   bytes for each weight, and what each layer keeps of a batch
#   (:doc:`/tutorials/2_devices/10_memory`).
#
# Your turn
# ---------
#
# Each step of your loop takes ``load`` seconds for a batch, and then ``compute``
# seconds for the network, on the CPU. On a GPU the network takes at least its ``calls``
# times ``c`` seconds, where ``c`` is the time to launch one. How many times as fast
# does the loop become, at most? Put your answer where the dots are, and run
# ``firstlight try 17_training_a_cnn.py``.


def at_most(load, compute, calls, c): ...


# %%

# folded: The checker
cases_to_check = [
    ((0, 0.1, 50, 1e-5), "without loading, it is the network's time by its launches"),
    ((5e-4, 0.1, 5, 5e-7), "the loop on the GPU still loads"),
    ((0.03, 0.001, 5, 5e-7), "the loop on the CPU loads, too: it is in both times"),
    ((0.001, 0.1, 200, 1e-5), "launching is no small part of this one: add it"),
    ((1e-4, 2e-4, 100, 5e-6), "a GPU can lose; then the number is below one"),
]


def check(answer):
    for arguments, hint in cases_to_check:
        call = f"at_most{arguments}"
        load, compute, calls, c = arguments
        expected = (load + compute) / (load + calls * c)
        try:
            got = answer(*arguments)
        except Exception as error:
            return f"{call} raised {type(error).__name__}: {error}.\nHint: {hint}."
        if not isinstance(got, (int, float, np.number)):
            return f"{call} gave {got!r}, not one number.\nHint: {hint}."
        if not abs(got - expected) <= 0.01 * expected:
            return f"{call} gave {got:.3g}.\nHint: {hint}."
    return "Right: you know what a GPU can do for your loop before you rent one."


# %%

print(check(at_most))

# %%
# Three lines to remember
# -----------------------

# remember
ratio = sweep["64"][2] / sweep["1024"][2]
few, enough = sweep["1024"][3], sweep["64"][3]
print(
    f"""1. A step is loading, launching and computing. A GPU speeds up only the last,
so large networks with large batches gain most.
2. Whatever the GPU, the gain is at most (load + compute) / (load + launch).
3. Compare the time to the same score. From 64 to 1024 pictures in a batch, an epoch
became {ratio:.1f} × as fast, but eight got {few:.0%} right, not {enough:.0%}."""
)

# %%
# Solution
# --------

# solution


def at_most_solution(load, compute, calls, c):
    return (load + compute) / (load + calls * c)


print(f"Our solution: {check(at_most_solution)}")
