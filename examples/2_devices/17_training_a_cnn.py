"""
Will a GPU train your network faster?
=====================================

Your network trains overnight, and you're thinking of renting a GPU, or of asking your
group to buy one. For *your* network, on your data, how much faster could it be?
Twice? Fifty times?

**Write down two guesses.** How many times as fast is an H100 as the CPU next to it, for
a network of 30,000 weights that looks at one small picture at a time? And for one of 9
million weights that looks at eight? By the end you'll be able to say, from two times
measured on your own CPU, the most that any GPU can gain, and which part of your loop to
change first.

**Needs:** any computer, and scikit-learn for its digits.
"""

# %%
# What an H100 did
# ----------------
#
# We let three networks train on a server, once on its 16 CPU cores and once on its
# H100. The *small* one looks at digits of 8 × 8 pixels, and has 31,294 weights. The
# *medium* one comes from :doc:`a public course </claims>`. It has about as many
# weights, but far more to compute, because its pictures have 32 × 32 pixels in three
# colours. The *large* one has the convolutions of VGG-11, and 9 million weights. In one
# *step*, one batch of pictures goes through the network, and the weights change once.
#
# .. list-table:: One step, without loading, on the H100 and on the 16 cores beside it
#    :header-rows: 1
#
#    * - network, pictures
#      - 16 cores
#      - H100
#      - gain
#    * - small, 1
#      - :timing:`training-a-cnn median "small, CPU/cpu/n=1" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn median "small, GPU/cuda:0/n=1" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "small, GPU/cuda:0/n=1"/"small, CPU/cpu/n=1"
#        @nvidia-h100-80gb-hbm3`
#    * - medium, 8
#      - :timing:`training-a-cnn median "lesson, CPU/cpu/n=8" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn median "lesson, GPU/cuda:0/n=8" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "lesson, GPU/cuda:0/n=8"/"lesson, CPU/cpu/n=8"
#        @nvidia-h100-80gb-hbm3`
#    * - medium, 256
#      - :timing:`training-a-cnn median "lesson, CPU/cpu/n=256" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn median "lesson, GPU/cuda:0/n=256"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "lesson, GPU/cuda:0/n=256"/"lesson,
#        CPU/cpu/n=256" @nvidia-h100-80gb-hbm3`
#    * - large, 8
#      - :timing:`training-a-cnn median "large, CPU/cpu/n=8" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn median "large, GPU/cuda:0/n=8" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "large, GPU/cuda:0/n=8"/"large, CPU/cpu/n=8"
#        @nvidia-h100-80gb-hbm3`
#    * - large, 256
#      - :timing:`training-a-cnn median "large, CPU/cpu/n=256" @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn median "large, GPU/cuda:0/n=256"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "large, GPU/cuda:0/n=256"/"large,
#        CPU/cpu/n=256" @nvidia-h100-80gb-hbm3`
#
# On the small network, the H100 brought nothing. On the large one it won by a factor of
# about five with eight pictures, and of more than fifty only with 256. On the sixteen
# cores, eight pictures of the small network once took longer than 256: times of such
# :term:`virtual CPUs <virtual CPU>` scatter. So read the gains of the first two rows as
# "about one" and "about two", and the others to one digit.
#
# .. holds::
#
#    on_gpu = "small, GPU/cuda:0/n=1", "lesson, GPU/cuda:0/n=256"
#    all(row(f"training-a-cnn/{name}").relative_iqr < 0.15 for name in on_gpu)
#    row("training-a-cnn/lesson, CPU/cpu/n=8").verdict == "noisy"
#    small = "training-a-cnn/small, CPU/cpu/n={}".format
#    median(small(8)) > median(small(256))
#    len(row("training-a-cnn/large, CPU/cpu/n=256").values) == 3
#    wins = [
#        median(f"training-a-cnn/large, CPU/cpu/n={n}")
#        / median(f"training-a-cnn/large, GPU/cuda:0/n={n}")
#        for n in (8, 256)
#    ]
#    5 < wins[0] < 6 and wins[1] > 50
#
# For the small network with one picture, an AMD EPYC with two cores took only
# :timing:`training-a-cnn median "small, CPU/cpu/n=1" @cpu-amd-epyc`, less than the
# sixteen cores and the H100. For the medium one with 256 it took
# :timing:`training-a-cnn median "lesson, CPU/cpu/n=256" @cpu-amd-epyc`. So if somebody
# tells you a factor, ask which CPU.
#
# Where does the time go?
# -----------------------
#
# Here are all times of the large and the small network on that server. *n* is the
# number of pictures in a batch:
#
# .. timings:: training-a-cnn
#    :plot:
#    :machine: nvidia-h100-80gb-hbm3
#    :rows: large, CPU; large, GPU; small, CPU; small, GPU
#
# **Look at the two lines of the GPU. What's odd about them?**
#
# Up to 256 pictures, they're nearly flat. For one, the large network's step took
# :timing:`training-a-cnn median "large, GPU/cuda:0/n=1" @nvidia-h100-80gb-hbm3` on the
# H100, and for eight it took :timing:`training-a-cnn median "large, GPU/cuda:0/n=8"
# @nvidia-h100-80gb-hbm3`. It's eight times the work, in about the same time.
#
# .. holds::
#
#    step = lambda way, n, on="cuda:0": median(f"training-a-cnn/{way}/{on}/n={n}")
#    one, eight = (step("large, GPU", n) for n in (1, 8))
#    near(one, eight, 0.1)
#
# So it can't be the computing that takes the time. A step consists of many operations,
# 35 for the small network, and each is a :term:`launch`: Python calls PyTorch, and
# PyTorch asks the GPU to start. That takes the same time for one picture as for 256.
#
# Think of going to another city. A faster train doesn't shorten your walk to the
# station, or the queue for the ticket. A step of training is such a journey:
#
# - **loading** the batch is the walk. It happens on the CPU, for each picture;
# - **launching** is the queue. It also happens on the CPU, for each operation;
# - **computing** is the ride. It grows with the pictures and with the network, and it's
#   the only part that a GPU makes faster.
#
# The small network is nearly all queue. And the large one? With 256 pictures, the CPU
# took :timing:`training-a-cnn median "large, CPU/cpu/n=256" @nvidia-h100-80gb-hbm3`,
# while the H100 took :timing:`training-a-cnn median "large, GPU/cuda:0/n=256"
# @nvidia-h100-80gb-hbm3`, only a quarter more than for eight. With 1,024 it took
# :timing:`training-a-cnn median "large, GPU/cuda:0/n=1024" @nvidia-h100-80gb-hbm3`.
# Four times the pictures took more than twice the time, so the GPU is busy at last.
#
# .. holds::
#
#    launches = step("small, CPU", 1, "cpu")
#    step("small, GPU", 1) > 0.9 * launches
#    many = step("large, GPU", 256)
#    step("large, CPU", 256, "cpu") > 50 * many
#    1.15 < many / eight < 1.35
#    2 < step("large, GPU", 1024) / many < 3
#
# And the walk? We had loaded all batches before. To load 256 pictures one by one, the
# server needed :timing:`training-a-cnn median "load, item by item/cpu/n=256"
# @nvidia-h100-80gb-hbm3`. That's longer than the large network's step on the H100.
#
# .. holds::
#
#    load = step("load, item by item", 256, "cpu")
#    load > many
#
# Copy this: two times of your own
# --------------------------------
#
# Loading and computing are easy to tell apart on any CPU. ``step`` takes one batch,
# trains on it, and returns the loss. ``loader`` needs ``drop_last=True``, for full
# batches, and mustn't have workers, so that the two times add up. This trains your
# network, so use a copy of it.

from time import perf_counter


def two_parts(loader, step):
    start = perf_counter()
    for batch in loader:  # only load
        x, y = batch
    load = (perf_counter() - start) / len(loader)

    # With drop_last=True in the loader, this last batch is a full one.
    step(x, y).item()  # the first step takes longer
    start = perf_counter()
    for _ in range(len(loader)):  # the same batch every time: nothing to load
        step(x, y).item()  # .item() waits for a GPU, if you have one
    return load, (perf_counter() - start) / len(loader)


# %%
# We try it on the medium network, which the code calls ``lesson``. In place of
# photographs we draw spiral galaxies that turn left or right.

# folded: The three networks, and a step of training
from contextlib import nullcontext

import torch
from torch import nn

cross_entropy, as_is = nn.functional.cross_entropy, nullcontext()

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


def make_step(model, cast=as_is):
    # a tiny lr: the weights hardly change, so each step is the same work
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-7, fused=True)

    def step(x, y):
        with cast:
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
# A batch has 64 galaxies. **Guess before you run it:** which part takes longer?

load_64, step_64 = two_parts(
    DataLoader(Pictures(sky, winds), 64, shuffle=True), make_step(cnn(lesson, 64))
)
print(f"loading a batch of 64  {1e3 * load_64:6.2f} ms")
print(f"training on it         {1e3 * step_64:6.2f} ms")

# %%
# Both are times of a CPU, also in the H100's tab.
#
# The most that any GPU can do
# ----------------------------
#
# On your CPU, a step takes :math:`t_\text{load} + t_\text{compute}`, and you've just
# measured both. On the best GPU that you can imagine, the computing takes no time at
# all. So, if you don't change the loading, the loop becomes at most
#
# .. math::
#
#     \frac{t_\text{load} + t_\text{compute}}{t_\text{load}}
#
# times as fast, as long as this CPU does the loading, and doesn't load while the GPU
# computes. Let's try it with the medium network and 256 pictures. On the H100's server,
# loading takes :timing:`training-a-cnn median "load, item by item/cpu/n=256"
# @nvidia-h100-80gb-hbm3`, and computing on its 16 cores :timing:`training-a-cnn median
# "lesson, CPU/cpu/n=256" @nvidia-h100-80gb-hbm3`. **Work it out, before you look at the
# figure.**

# folded: Check: loaded right, and the gradients agree with float64


def gradients(model, x, y, cast=as_is):
    with cast:
        loss = cross_entropy(model(x), y)
    loss.backward()
    return torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])


x, y = next(iter(DataLoader(Pictures(sky, winds), batch_size=37)))
assert torch.equal(x, prepare(sky[:37]))
exact, errors = gradients(cnn(lesson, 64).double(), x.double(), y), {}
for place in dict.fromkeys(("cpu", device.type)):
    got = gradients(cnn(lesson, 64).to(place), x.to(place), y.to(place))
    errors[place] = ((got - exact).norm() / exact.norm()).item()
    # NVIDIA's cards may round the inputs of a convolution to tf32
    assert errors[place] < 1e-2, errors
if device.type == "cuda":
    model = cnn(lesson, 64).to(device, memory_format=torch.channels_last)
    cast = torch.autocast("cuda", torch.bfloat16)
    got = gradients(model, x.to(device), y.to(device), cast)
    errors["cuda, both tricks"] = ((got - exact).norm() / exact.norm()).item()
    assert errors["cuda, both tricks"] < 5e-2, errors
for place, wrong in errors.items():
    print(f"relative error of the gradients on {place}: {wrong:.0e}")

# %%

# folded: What was timed, and all times of the three networks

sizes = {"small": (1, 8, 256), "lesson": (1, 8, 256), "large": (1, 8)}
bench = Bench("training-a-cnn", budget=6 if has_gpu else 2.5)


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

# on an NVIDIA or AMD card: the large network, larger batches, two tricks
if device.type == "cuda":
    tricks = {
        "GPU": (torch.contiguous_format, as_is),
        "channels_last": (torch.channels_last, as_is),
        "autocast": (torch.contiguous_format, torch.autocast("cuda", torch.bfloat16)),
        "both": (torch.channels_last, torch.autocast("cuda", torch.bfloat16)),
    }
    x, y = torch.rand(1024, 3, 32, 32, generator=rng), torch.zeros(1024).long()
    bench.time("large, CPU", make_step(cnn(large, 512)), x[:256], y[:256], n=256)
    for b in (256, 1024):
        for trick, (order, cast) in tricks.items():
            step = make_step(cnn(large, 512).to(device, memory_format=order), cast)
            pictures = x[:b].to(device, memory_format=order)
            bench.time(f"large, {trick}", step, pictures, y[:b].to(device), n=b)

bench.show()

# %%

# folded: The parts of a step, by the formula and as measured


def seconds(label, b):
    rows = (t for t in bench.timings if (t.label, t.n) == (label, b))
    return next(rows).median


load, compute = seconds("load, item by item", 256), seconds("lesson, CPU", 256)
once, launch = seconds("load, in one go", 256), 45 / 35 * seconds("small, CPU", 1)
bars = {
    "on this CPU": {"loading": load, "computing": compute},
    "GPU, by the formula": {"loading": load, "launching": launch},
    "the same, loaded in one go": {"loading": once, "launching": launch},
}
gain = (load + compute) / (load + launch)
gain_at_once = (once + compute) / (once + launch)
title = f"By the formula, {gain:.1f} × as fast on a GPU"
if has_gpu:
    step = seconds("lesson, GPU", 256)
    bars["GPU, measured"] = {"loading": load, "a step on the GPU": step}
    title += f"; measured, {(load + compute) / (load + step):.1f} ×"
else:
    title += f"; loaded in one go, {gain_at_once:.0f} ×"

# %%

# measured figure
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, ORANGE, PURPLE

colours = {"loading": GREEN, "launching": ORANGE, "computing": BLUE}
colours["a step on the GPU"] = PURPLE
fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
for row, parts in enumerate(bars.values()):
    left = 0
    for part, time in parts.items():
        ax.barh(row, 1e3 * time, 0.6, left=left, color=colours[part])
        left += 1e3 * time
for part in dict.fromkeys(part for parts in bars.values() for part in parts):
    ax.barh(0, 0, color=colours[part], label=part)
ax.set_yticks(range(len(bars)), bars)
ax.invert_yaxis()
ax.set(xlabel="milliseconds for 256 pictures, medium network")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle(title)
fig.set_label(
    "Bars of a step on this CPU, and on a GPU by the formula. Loading is "
    f"{load / (load + launch):.0%} of the second bar. In one go, it nearly vanishes."
)
plt.show()

# %%
# You should find a bit more than two and a half. The real H100 took
# :timing:`training-a-cnn median "lesson, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3` for
# a step. Add the loading, and the gain is a little below two, because the H100 also has
# to launch. The figure counts that, too.
#
# .. holds::
#
#    compute, real = step("lesson, CPU", 256, "cpu"), step("lesson, GPU", 256)
#    2.5 < (load + compute) / load < 2.8
#    1.7 < (load + compute) / (load + real) < 1.95
#    copied = median("pinned-memory/to the GPU, pageable/cuda:0/n=4194304")
#    copied < min(load, real) / 5
#
# So, will a GPU train *your* network faster? Take your two times, and look:
#
# - *Loading takes as long as computing, or longer.* Whatever you buy, the time of your
#   loop won't even halve. Change the loading first.
# - *Your CPU computes a batch in a few milliseconds.* Don't expect much. Even the large
#   network took :timing:`training-a-cnn median "large, GPU/cuda:0/n=1"
#   @nvidia-h100-80gb-hbm3` on the H100 for a single picture, and most of that is the
#   queue.
# - *It computes far longer than that, and far longer than it loads.* You're in the last
#   row of the first table. Rent one.
#
# .. holds::
#
#    # Most is the queue: of a step with one picture, the GPU works for less than this.
#    row("training-a-cnn/large, GPU/cuda:0/n=1").device_seconds < 0.4 * one
#
# .. dropdown:: How long do the launches take? A guess from your CPU
#
#    The small network with a single picture computes next to nothing. So time such a
#    step on your CPU, divide by its 35 operations, and you have roughly the time of one
#    launch, with its share of the Python around it. Then multiply by the number of
#    operations of your network, which a :doc:`profile
#    </tutorials/2_devices/14_profile>` counts, and add that to the denominator.
#
#    The guess isn't a limit, and it can be off by a third.
#
#    .. holds::
#
#       guess, took = 45 / 35 * launches, step("lesson, GPU", 1)
#       max(guess, took) < 1.4 * min(guess, took)
#
# .. dropdown:: Can a data sheet tell?
#
#    Can you divide a larger network's operations by the card's rate, and get the time
#    of its step? Don't rely on it:
#
#    .. measured-by-others:: resnet-rtx4090 resnet-v100 vgg-v100
#
#    The layers between the convolutions wait for the RTX 4090's memory. And with
#    VGG-16, the V100 got by with fewer multiplications than we count. So rent a card
#    for an hour, and measure.
#
# Which trick helps?
# ------------------
#
# These lines move a network and a batch to the GPU, with two tricks:
#
# .. code-block:: python
#
#    model = model.to(device, memory_format=torch.channels_last)  # for convolutions
#    x, y = x.to(device, memory_format=torch.channels_last), y.to(device)
#    with torch.autocast("cuda", torch.bfloat16):  # from RTX 30, A100 or L4 on
#        loss = cross_entropy(model(x), y)
#
# On a T4, Colab's card, and on all that are older than the A100, leave ``autocast``
# out, or take :doc:`float16 with a scaler </tutorials/2_devices/13_precision>`. These
# cards compute with ``bfloat16`` more slowly than with ``float32``.
#
# Each trick shortens one part of the journey, so it brings nothing if another part
# takes most of the time. Each factor is for loading or for the step alone, on the
# H100's server:
#
# .. list-table:: What each trick brought
#    :header-rows: 1
#    :widths: 16 36 48
#
#    * - shortens
#      - trick
#      - what it brought
#    * - loading
#      - load a batch in one go
#      - :timing:`training-a-cnn speedup "load, in one go/cpu/n=256"/"load, item by
#        item/cpu/n=256" @nvidia-h100-80gb-hbm3` as fast, 256 pictures
#    * - loading and moving
#      - keep all data on the GPU
#      - :timing:`feeding speedup "rows of tensors on the device"/"DataLoader, then .to"
#        @nvidia-h100-80gb-hbm3` as fast, loading alone, 1,000 rows
#        (:doc:`/tutorials/2_devices/05_moving_a_model`)
#    * - launching
#      - a larger batch
#      - 32 times the pictures, in about a quarter more time, large network
#    * - computing
#      - ``channels_last``
#      - :timing:`training-a-cnn speedup "large, channels_last/cuda:0/n=1024"/"large,
#        GPU/cuda:0/n=1024" @nvidia-h100-80gb-hbm3` as fast, large network, 1,024
#        pictures
#    * - computing
#      - ``channels_last`` and ``autocast``
#      - :timing:`training-a-cnn speedup "large, both/cuda:0/n=1024"/"large,
#        GPU/cuda:0/n=1024" @nvidia-h100-80gb-hbm3` as fast, the same network and
#        pictures (:doc:`/tutorials/2_devices/13_precision`)
#
# But with fewer pictures, the H100 still waits for launches. At 256 pictures the last
# two tricks made the step slower: with both together it was :timing:`training-a-cnn
# speedup "large, both/cuda:0/n=256"/"large, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3`
# as fast, and with ``autocast`` alone :timing:`training-a-cnn speedup "large,
# autocast/cuda:0/n=256"/"large, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3`. ``autocast``
# has launches of its own, because it converts the weights at each step. It also costs
# digits. ``channels_last`` stores the colours of a pixel side by side, as the units
# that multiply matrices want them.
#
# .. holds::
#
#    min(step("large, autocast", 256), step("large, both", 256)) > 0.95 * many
#    at_work = lambda way: row(f"training-a-cnn/{way}/cuda:0/n=256").device_seconds
#    at_work("large, autocast") < at_work("large, GPU") < many
#
# .. dropdown:: Four more tricks: workers, pinned memory, fewer launches, cuDNN's choice
#
#    ``num_workers=4`` loads in four processes, in a fourth of the time at best, and
#    while the GPU computes. On our H100, pinning made a copy of 4 MB
#    :timing:`pinned-memory speedup "to the GPU, pinned/cuda:0/n=4194304"/"to the GPU,
#    pageable/cuda:0/n=4194304" @nvidia-h100-80gb-hbm3` as fast. ``torch.compile`` makes
#    :doc:`fewer operations of many </tutorials/2_devices/16_fewer_launches>`, and so
#    does ``fused=True`` in ``Adam``. ``torch.backends.cudnn.benchmark = True`` tries
#    several convolutions and keeps the fastest, if all batches have one size. Except
#    for the copy, we haven't measured what these bring to a network.
#
# .. dropdown:: Workers need a guard, and this is a whole script with one
#
#    Workers are processes. On macOS, on Windows, and since Python 3.14 on Linux, each
#    of them imports your script anew. So the training has to stand under ``if __name__
#    == "__main__":``. In a notebook, put your ``Dataset`` into a file of its own.
#
#    .. code-block:: python
#
#       import torch
#       from torch.utils.data import DataLoader, TensorDataset
#
#       if __name__ == "__main__":
#           pictures = TensorDataset(torch.rand(512, 3, 32, 32))
#           loader = DataLoader(pictures, 64, num_workers=2, persistent_workers=True)
#           for epoch in range(2):
#               for i, (x,) in enumerate(loader):
#                   print(epoch, i, x.shape)  # here you train
#
# When faster is worse
# --------------------
#
# We train the small network for eight epochs with 64 pictures in a batch, then with 256
# and with 1,024. **What will happen to the time, and what to the score on digits that
# it hasn't seen?**

# folded: Training with a score


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


sweep = {"64": learn(64), "256": learn(256), "1024": learn(1024)}

# %%

sweep["256, longer"] = learn(256, 31)

print("batch        epochs  steps  seconds  right")
for batch, (epochs, steps, time, p) in sweep.items():
    right = f"{p:.1%} ± {uncertain(p):.1%}"
    print(f"{batch:12} {epochs:6} {steps:6} {epochs * time:8.2f}  {right}")

# %%
# Both larger batches made the epochs faster, and the network worse, because a network
# learns in steps. The ± is how far a share of 360 digits can be off by chance. In the
# last row we trained with 256 for as many *steps* as with 64. The score is back, but it
# took longer. So compare the time *to the same score*. A larger batch wants a larger
# learning rate: for Adam, by `the square root`__ of the factor. We left the rate alone.
#
# .. holds::
#
#    said = r" +\d+ +\d+ +([\d.]+) +([\d.]+)%"
#    rows = {batch: printed(f"^{batch}{said}") for batch in ("64", "256", "1024")}
#    rows["longer"] = printed(f"^256, longer{said}")
#    times, right = ({name: one[i] for name, one in rows.items()} for i in (0, 1))
#    max(times["256"], times["1024"]) < 0.5 * times["64"] < times["longer"]
#    right["1024"] < right["256"] < right["64"] - 5
#    right["longer"] > right["64"] - 2
#
# __ https://arxiv.org/abs/2205.10287
#
# Your turn
# ---------
#
# A ``DataLoader`` asks your data set for one picture after the other. But ask
# ``Pictures`` for a *list* of rows, and NumPy fetches and prepares them all at once.
# Write ``in_one_go(dataset, batch)``, which returns a loader that asks for lists. It
# should shuffle in each epoch, and leave out the pictures that don't fill a batch. Two
# things will help you: ``BatchSampler(RandomSampler(dataset), batch, drop_last=True)``
# hands out lists of rows, and a ``DataLoader`` with ``batch_size=None`` asks the data
# set for whatever its ``sampler`` hands out. Put your answer where the dots are, and
# run ``firstlight try 17_training_a_cnn.py``. Then give your loader to ``two_parts``.
#
# .. holds::
#
#    looked = r"loading 64: ([\d.]+) ms in one go, ([\d.]+) ms one by one"
#    at_once, one_by_one = printed(looked)
#    at_once > one_by_one

from torch.utils.data import BatchSampler, RandomSampler


def in_one_go(dataset, batch): ...


# %%

# folded: The checker


class Watched(Pictures):
    def __init__(self, count):
        numbers = np.arange(count, dtype=np.uint8)
        pictures = np.tile(numbers[:, None, None, None], (1, 2, 2, 3))
        super().__init__(pictures, 2 * torch.arange(count))
        self.asked = 0

    def __getitem__(self, rows):
        self.asked += 1
        return super().__getitem__(rows)


def find_problem(answer, count, batch):
    data, full, epochs = Watched(count), count // batch, []
    loader = answer(data, batch)
    if len(loader) != full:
        return f"len(loader) is {len(loader)}, and {full} batches are full."
    for _ in range(2):
        data.asked, numbers = 0, []
        for x, y in loader:
            if len(x) != batch:
                return f"a batch has {len(x)} pictures, not {batch}."
            now = ((x[:, 0, 0, 0] + 1) * 127.5).round().long().tolist()
            if y.tolist() != [2 * number for number in now]:
                return "some labels belong to other pictures."
            numbers += now
        if len(numbers) != full * batch or len({*numbers}) != len(numbers):
            return (
                f"an epoch has {len({*numbers})} different pictures in {full} batches."
            )
        if data.asked > full:
            return f"it asks the data set {data.asked} times for {full} batches."
        epochs.append(numbers)
    return "both epochs have the same order." if epochs[0] == epochs[1] else ""


def check(answer):
    for count, batch in ((48, 16), (37, 8), (30, 30)):
        try:
            problem = find_problem(answer, count, batch)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return f"Not yet. {count} pictures in batches of {batch}: {problem}"
    return "Right: one question to the data set for each batch. Now time it."


# %%

print(check(in_one_go))

# %%
# Three lines to remember
# -----------------------

# remember
few, enough = sweep["1024"][3], sweep["64"][3]
print(
    f"""1. A step is loading, launching and computing. A GPU speeds up only the last,
   so large networks with large batches gain most.
2. Whatever the GPU, the gain is at most (load + compute) / load. So look at the
   loading first: to load a batch in one go helps on a CPU, too.
3. Compare the time to the same score. From 64 to 1024 pictures in a batch, eight
   epochs became faster, but got {few:.0%} of the digits right, not {enough:.0%}."""
)

# %%
# Solution
# --------

# solution


def in_one_go_solution(dataset, batch):
    rows = BatchSampler(RandomSampler(dataset), batch, drop_last=True)
    return DataLoader(dataset, batch_size=None, sampler=rows)


print(f"Our solution: {check(in_one_go_solution)}")
loader = in_one_go_solution(Pictures(sky, winds), 64)
load, _ = two_parts(loader, make_step(cnn(lesson, 64)))
print(f"loading 64: {1e3 * load:.2f} ms in one go, {1e3 * load_64:.2f} ms one by one")
