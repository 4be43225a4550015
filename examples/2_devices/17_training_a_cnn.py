"""
Will a GPU train your network faster?
=====================================

This page is for anyone with a network to train and a GPU to rent or to try. A large
network gains the most. A small one gains less: a GPU speeds up the arithmetic, but your
program still loads every :term:`batch` and :term:`launches <launch>` every operation.
By our model of a GPU, the smallest network with one picture in a step is even slower
there, and a medium one with hundreds, loaded item by item, has to wait for the
:term:`loader`. The figure gives the factors for three networks. The change to your code
is two lines.

**You will learn**

- which two lines bring a training loop to the GPU;
- to predict how much faster it becomes, for your network and your batch size;
- to find what holds a training run up, and what helps;
- what large batches cost in accuracy, and 16-bit numbers in the gradients.

**Time:** 12 minutes. **Needs:** any computer, some PyTorch, and scikit-learn for its
digits. With a GPU, the page measures that as well.
"""

# %%
# The two lines
# -------------
#
# We start from a public lesson (see :doc:`its claims </claims>`) that trains a network
# on a CPU and on a GPU, and reports no times. For a GPU, its function has two more
# lines, marked ``new``:

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
# On the CPU the new lines do nothing, so this function serves both. In your own code,
# move the model before you make its :term:`optimizer`
# (:doc:`/tutorials/2_devices/05_moving_a_model` says why).

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
# The steps of a training run cannot run in parallel: each needs the weights of the one
# before. Within a step, three things take time, for a batch of :math:`b` pictures:
#
# - *loading* the batch, on the CPU: about in proportion to :math:`b`;
# - *launching* each operation, with Python and PyTorch: the same for any :math:`b`;
# - *computing*: :math:`b` times the arithmetic of one picture.
#
# A GPU makes only the third faster. It makes the second slower, and adds a
# *transfer*, which moves the batch over :term:`PCIe`. So on any GPU, a step takes at
# least the loading and the launches: divide the CPU's time of a step by their sum, and
# you have the most that you can gain.
#
# Our three networks are *convolutional* (CNNs): their layers slide small windows of
# weights, the *filters*, over a picture. The small one is for 8 × 8 pixels. The medium
# one is the lesson's (``lesson`` in the code), for 32 × 32, and so is the large one,
# with the convolutions of VGG-11.

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


# %%

# folded: Will pictures of another size fit into these layers?


# A tensor on the device "meta" has a shape and no numbers: it shows each layer's side.
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
    print(f"lesson, {side} × {side}: {follow(cnn(lesson, 64), 3, side)}")
print(f"small, 8 × 8: {follow(cnn(small, 128), 1, 8)}")
print(f"large, 32 × 32: {follow(cnn(large, 512), 3, 32)}")

# %%
# PyTorch counts the arithmetic of a step (additions and multiplications), and the
# operations that it *dispatches* to the device; on a GPU each launches at least one
# kernel. To place your own network among these, count one of its steps the same way.

# folded: A step of training, and a counter of its operations
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from firstlight.display import show_table

views = {"t", "view", "detach"}  # these launch nothing


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
        self.number += name not in views and not name.startswith("_record")
        return function(*args, **(kwargs or {}))


# %%

nets = {"small": (small, 128, (1, 8, 8)), "lesson": (lesson, 64, (3, 32, 32))}
nets["large"] = large, 512, (3, 32, 32)
flops, calls, rows = {}, {}, []
for name, (convolutions, flat, shape) in nets.items():
    model = cnn(convolutions, flat)
    step, one = make_step(model), (torch.zeros(1, *shape), torch.zeros(1).long())
    step(*one)
    with Calls() as counted, FlopCounterMode(display=False) as counter:
        step(*one)
    flops[name], calls[name] = counter.get_total_flops(), counted.number
    weights = sum(weight.numel() for weight in model.parameters())
    work = f"{flops[name] / 1e6:,.1f} million"
    rows.append((name, f"{weights:,}", str(calls[name]), work))
head = "network", "weights", "operations a step", "arithmetic of a picture"
show_table("Three networks", head, rows)

# %%
# The large network launches less than one and a half times as many operations as the
# medium one (``lesson``), with far more arithmetic in each. So it should gain most.
#
# The data
# --------
#
# To learn: 1797 handwritten digits, 360 of them set aside as a *test set*. To time:
# drawn galaxies in three colours, kept as bytes.

# folded: Digits to learn from, and galaxies of 32 × 32 pixels
import numpy as np
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, TensorDataset

from firstlight import Bench, best_device
from firstlight.devices import card

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
# A ``DataLoader`` asks a ``Dataset`` for one picture after the other, and stacks them
# into a batch. Ours prepares a picture as *torchvision* does with ``ToTensor()`` and
# ``Normalize(0.5, 0.5)``: numbers from -1 to 1, the colours first.

# folded: A Dataset of galaxies, and the function that prepares them


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
# With 37 pictures: the loader returns what ``prepare`` does, the gradients agree with
# those in ``float64``, and both functions give the same :term:`losses <loss>`.

# folded: The three checks


def gradients(model, x, y):
    cross_entropy(model(x), y).backward()
    return torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])


x, y = next(iter(DataLoader(Pictures(sky, winds), batch_size=37)))
assert torch.equal(x, prepare(sky[:37]))
exact, errors = gradients(cnn(lesson, 64).double(), x.double(), y), {}
for place in dict.fromkeys(("cpu", device.type)):
    got = gradients(cnn(lesson, 64).to(place), x.to(place), y.to(place))
    wrong = ((got - exact).norm() / exact.norm()).item()
    # NVIDIA's cards may round the inputs of a convolution to tf32
    assert wrong < 1e-2, f"the gradients on {place} are wrong by {wrong:.1e}"
    errors[place] = wrong

batches, learned = [(x, y), (x[:5], y[:5])], []
for train, where in ((train_cpu, ()), (train_gpu, ("cpu",))):
    model = cnn(lesson, 64)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    learned.append(train(model, batches, optimizer, *where, epochs=2))

# %%

for place, wrong in errors.items():
    print(f"gradients on {place}: relative error {wrong:.0e}")
print("both functions, same losses on the CPU:", torch.equal(*learned))

# %%
# Measure
# -------
#
# We time a step of each network, and loading a batch of galaxies: item by item as a
# ``DataLoader`` does, or all of it in one go.

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
bench.show()

# %%
# And the GPU, as a model. It moves the batch at the full rate of PCIe, and computes at
# the full rate of an RTX 4090's :term:`data sheet`, which no card reaches. An operation
# takes Python and PyTorch as long as on the CPU: the time of the small network's step
# with one picture, which has next to no arithmetic, divided by its operations. To this
# we add the extra time of a launch: a PyTorch operation on a GPU (from
# :doc:`/tutorials/2_devices/11_when_the_gpu_wins`) less a tiny addition on the CPU. The
# parts are added, as if nothing overlapped. From here on, each time is the shortest
# measured, which other programs disturbed least.

from firstlight.display import GREEN, GREY, ORANGE, PURPLE, quantity
from firstlight.timing.measurement import measure
from firstlight.timing.specs import spec

tiny = torch.ones(1)
add = min(measure(torch.add, tiny, tiny, budget=0.2).values)


def seconds(label, b):
    rows = (t for t in bench.timings if (t.label, t.n) == (label, b))
    return min(next(rows).values)


host = seconds("small, CPU", 1) / calls["small"]
overhead = host + max(spec("PyTorch operation", "seconds") - add, 0)


def gpu_model(name, b):
    moving = b * (4 * np.prod(nets[name][2]) + 8) / spec("PCIe 4 x16", "bandwidth")
    computing = b * flops[name] / spec("RTX 4090", "fp32")
    return calls[name] * overhead, moving + computing


# %%

# folded: The gain in each of five cases
cases = {  # a network, and how its pictures are loaded
    "small, nothing to load": ("small", None),
    "medium, nothing to load": ("lesson", None),
    "medium, loaded item by item": ("lesson", "load, item by item"),
    "medium, loaded in one go": ("lesson", "load, in one go"),
    "large, loaded item by item": ("large", "load, item by item"),
}


def gain(case, b, card="model"):
    name, how = cases[case]
    load = seconds(how, b) if how else 0
    gpu = sum(gpu_model(name, b)) if card == "model" else seconds(f"{name}, GPU", b)
    return (load + seconds(f"{name}, CPU", b)) / (load + gpu)


def times(factor):
    return f"{float(f'{factor:.2g}'):,g} ×"


# for the figure
drawn = [case for case in cases if case != "medium, nothing to load"]
ends = [gain(case, b) for case in drawn for b in sizes[cases[case][0]]]
cores = card("cpu").cores or 1
from_to = f"{times(min(ends))} to {times(max(ends))}"
speedups = f"{from_to} as fast as this CPU ({cores} cores)"
thin = all(
    gpu_model(name, b)[1] < 0.01 * seconds(f"{name}, CPU", b)
    for name in nets
    for b in sizes[name]
)
last = "moving, computing" + " (too thin to see)" * thin
PARTS = {"loading": GREEN, "launching": ORANGE, last: PURPLE}


# %%

rows = []
for which in ["model"] + ["this GPU"] * has_gpu:
    for case, (name, _) in cases.items():
        gains = [times(gain(case, b, which)) for b in sizes[name]]
        label = case if which == "model" else f"{case}: this GPU"
        rows.append((label, *gains, *["–"] * (3 - len(gains))))
head = "network", *(f"batch of {b}" for b in sizes["small"])
caption = f"Times as fast as this CPU ({cores} cores): RTX 4090 (model)"
show_table(caption, head, rows)
load, parts = seconds("load, item by item", 256), gpu_model("lesson", 256)
load_share = load / (load + sum(parts))
limit = (load + seconds("lesson, CPU", 256)) / (load + parts[0])
print(f"an operation without its work: {quantity(host, 's')} on the CPU,")
print(f"{quantity(overhead, 's')} on the GPU. Medium, 256 pictures item by item:")
print(f"loading is {load_share:.0%} of the GPU's step; any GPU: at most {times(limit)}")

# %%
# Below 1 the GPU loses. Against a CPU with twice the cores that the caption names, the
# largest factors may be half of these.
#
# On the newest GPU on record, a step of the medium network with 256 pictures takes
# :timing:`training-a-cnn median "lesson, GPU/cuda:0/n=256" @gpu`, on the CPU beside it
# :timing:`training-a-cnn median "lesson, CPU/cpu/n=256" @gpu`.

# measured figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6.4, 6.2), layout="constrained")
row, ticks, longest = 0, {}, 1
ax.text(1.02, -0.9, "this CPU", va="center")
for case in drawn:
    name, how = cases[case]
    ax.text(0, row, case, va="center", weight="bold")
    for b in sizes[name]:
        row += 1
        load = seconds(how, b) if how else 0
        cpu, left = load + seconds(f"{name}, CPU", b), 0
        parts = load, *gpu_model(name, b)
        for colour, part in zip(PARTS.values(), parts, strict=True):
            ax.barh(row, part / cpu, 0.74, left=left, color=colour)
            left += part / cpu
        ax.text(min(left, 1.8) + 0.02, row, times(gain(case, b)), va="center")
        if has_gpu:
            ax.plot(1 / gain(case, b, "this GPU"), row, "D", color="black", mfc="none")
            longest = max(longest, 1 / gain(case, b, "this GPU"))
        ticks[row], longest = f"{b}", max(longest, left)
    if len(sizes[name]) < 3:
        row += 1
        ticks[row] = "256"
        ax.text(0.02, row, "not measured: it takes a CPU too long", va="center")
    row += 1.4
ax.axvline(1, color=GREY, lw=1.5, ls="--")
ax.set_yticks(list(ticks), ticks.values())
ax.set(ylim=(row - 0.6, -1.4), xlim=(0, min(1.2 * longest, 2.1)))
ax.set(ylabel="pictures in a batch", xlabel="time of a GPU's step, the CPU's being 1")
ax.spines[["top", "right"]].set_visible(False)
for label, colour in PARTS.items():
    ax.barh(0, 0, color=colour, label=label)
fig.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=1)
fig.suptitle(f"RTX 4090 (model): {speedups}" + "\ndiamonds: this GPU" * has_gpu)
fig.set_label(
    f"Bars of the time of a step on a GPU, {speedups}, made up of loading, launching, "
    "and moving and computing, for three networks and batches of 1, 8 and 256. "
    f"Loading item by item is {load_share:.0%} of the medium one's step with 256."
)
plt.show()

# %%
# - *Few pictures: launching decides.* A larger batch makes each picture cheaper.
# - *Many pictures, loaded item by item:* loading takes as long as on the CPU, and the
#   GPU waits for it; the output above has its share.
# - *Loading in one go* needs fewer calls of Python: index a whole batch at once.
#
# What do real cards do with larger networks? Lambda, NVIDIA and a benchmark of 2018
# trained these.
#
# .. measured-by-others:: resnet-rtx4090 resnet-v100 vgg-v100
#
# What holds up your training?
# ----------------------------
#
# Ask a :term:`profiler`. PyTorch's knows the loader and the optimizer by name, and on a
# CUDA GPU the transfers (``Memcpy HtoD``, :term:`host` to device). It slows small
# calls, which are most of the loading, so that share comes out too large:

import os

from torch.profiler import profile, record_function

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or it prints that it starts
loader = DataLoader(Pictures(sky, winds), 64, shuffle=True)
model = cnn(lesson, 64).to(device)
optimizer = torch.optim.Adam(model.parameters(), fused=True)
train_gpu(model, [next(iter(loader))], optimizer, device)  # first calls, not profiled
with profile() as profiled, record_function("epoch"):
    train_gpu(model, loader, optimizer, device)[-1].item()
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
# .. list-table:: What to do about the largest share
#    :header-rows: 1
#    :widths: 24 76
#
#    * - The largest
#      - Do
#    * - loading
#      - load in one go, or with workers; a GPU alone gains little
#    * - moving
#      - pin the memory, or keep the data on the GPU
#    * - optimizer
#      - ``fused=True``, as here
#    * - network, on a CPU
#      - try a GPU: *Three networks* says what it gains
#    * - network, on a GPU
#      - enlarge the batch; if a step then takes hardly longer, you were waiting for
#        launches (:doc:`/tutorials/2_devices/16_fewer_launches`)
#
# Does it still learn as well?
# ----------------------------
#
# We count the test pictures that the small network classifies correctly, next to two
# methods that need no training: the *nearest mean* (of ten average digits) and the
# *nearest neighbour* (the most similar picture of the training set). With :math:`m`
# pictures, a share :math:`p` is uncertain by about :math:`\sqrt{p(1-p)/m}`.

# folded: The training with its score, and the two simple methods
from time import perf_counter


def learn(batch, epochs=8):
    model = cnn(small, 128).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    loader = DataLoader(TensorDataset(*train_set), batch, shuffle=True)
    times = []
    for _ in range(epochs):
        start = perf_counter()
        train_gpu(model, loader, optimizer, device)[-1].item()  # waits for the GPU
        times.append(perf_counter() - start)
    model.eval()
    with torch.no_grad():
        guess = model(test_set[0].to(device)).argmax(1).cpu()
    right = (guess == test_set[1]).double().mean().item()
    return epochs, epochs * -(-1437 // batch), min(times), right


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

# %%

sweep = {"64": learn(64), "256": learn(256), "1024": learn(1024)}
sweep["256, longer"] = learn(256, 31)
rows = [(way, *"–––", f"{p:.1%} ± {uncertain(p):.1%}") for way, p in scores.items()]
for batch, (epochs, steps, time, p) in sweep.items():
    score = f"{p:.1%} ± {uncertain(p):.1%}"
    cost = str(epochs), str(steps), quantity(epochs * time, "s")
    rows.append((f"batch of {batch}", *cost, score))
head = "", "epochs", "steps", "time of them", "test set right"
show_table(f"Small network on {device.type}", head, rows)
spent = {batch: epochs * time for batch, (epochs, _, time, _) in sweep.items()}
longer = spent["256, longer"] / spent["64"]
print(f"to about the same score, batches of 256 took {longer:.1f} × the time of 64")

# %%
# For the same number of epochs, a larger batch takes fewer steps and learns less. Two
# remedies: train for about as many *steps*, at the cost in the last line; or raise the
# learning rate with the batch, for SGD `in proportion, with learning-rate warm-up`__,
# for Adam `by the square root`__. So compare runs by the time to the same score.
# And compare with a simple method: here the nearest neighbour does at least as well.
#
# __ https://arxiv.org/abs/1706.02677
# __ https://arxiv.org/abs/2205.10287
#
# What else helps
# ---------------
#
# *Read the loss once an epoch.* ``loss.item()`` makes the host wait for the GPU
# (:doc:`/tutorials/2_devices/06_queues`); so does TensorBoard's ``add_scalar``. Keep
# ``loss.detach()`` on the device, as ``train_gpu`` does.
#
# *Workers* (``num_workers=2``) are processes that load while the network computes, if
# cores are free. At best two of them halve the loading, and only the longer of loading
# and training counts. :term:`Pinned memory <pinned memory>` (``DataLoader(…,
# pin_memory=True)``, then ``x.to(device, non_blocking=True)``) can save no more than
# the transfer (:doc:`/tutorials/2_devices/08_pinned_memory`):

load, (launch, rest) = seconds("load, item by item", 256), gpu_model("lesson", 256)
cpu = load + seconds("lesson, CPU", 256)
one = launch + rest
moving = rest - 256 * flops["lesson"] / spec("RTX 4090", "fp32")
print("the medium network, 256 pictures item by item, by the model:")
print(f"no workers   {times(cpu / (load + one))} as fast as this CPU")
print(f"two workers  {times(cpu / max(load / 2, one))} at best")
print(f"pinned       saves {moving / (load + one):.1%} of the GPU's time at most")

# %%
# On macOS, on Windows, and since Python 3.14 on Linux, each worker imports your script
# anew, so put the training code under ``if __name__ == "__main__":``, and a notebook's
# ``Dataset`` into a file. Each epoch starts them again, unless they are
# `persistent`__. This is a whole script::
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
# :term:`Mixed precision <mixed precision>` computes convolutions and matrix products in
# 16 bits, and keeps the weights in 32. It gains where *computing* decides and the
# hardware is made for it (tensor cores); elsewhere it can be slower. In ``float16``
# small gradients become zero, so a ``GradScaler`` multiplies the loss before the
# backward pass. ``bfloat16`` needs none; here its gradients are wrong by about 1%.

# folded: A step in each format, its time, and the error of its gradients
where = device if device.type in ("cuda", "xpu") else torch.device("cpu")
x, y = prepare(sky[:16]), winds[:16]
exact = gradients(cnn(lesson, 64).double(), x.double(), y)
x, y = x.to(where), y.to(where)


def mixed_step(model, optimizer, scaler, kind):
    optimizer.zero_grad()
    with torch.autocast(where.type, dtype=kind, enabled=kind != torch.float32):
        loss = cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # divides the gradients, and steps if all are finite
    scaler.update()


formats = [torch.float32, torch.bfloat16] + [torch.float16] * (where.type == "cuda")
rows = []
for kind in formats:
    model = cnn(lesson, 64).to(where)
    scaler = torch.amp.GradScaler(where.type, enabled=kind == torch.float16)
    parts = model, torch.optim.SGD(model.parameters(), lr=1e-9), scaler, kind
    time = measure(mixed_step, *parts, device=where, budget=0.1).median
    got = torch.cat([w.grad.flatten().cpu().double() for w in model.parameters()])
    wrong = ((got - exact).norm() / exact.norm()).item()
    name = str(kind).removeprefix("torch.")
    assert kind != torch.bfloat16 or 1e-3 < wrong < 5e-2, wrong
    rows.append((name, quantity(time, "s"), f"{wrong:.0e}"))
head = "format", "a step", "error of the gradients"
show_table(f"Medium network, 16 pictures, {where.type}", head, rows)
gone = ((exact != 0) & (exact.half() == 0)).double().mean().item()
print(f"gradients that float16 makes zero, without a scaler: {gone:.2%}")

# %%
# Where this stops being true
# ---------------------------
#
# - *Real loaders* decode and crop, so a GPU waits longer. If all data fit on the GPU,
#   keep them there: then nothing is loaded or moved.
# - *Real cards* reach a part of their data sheet's rate, so large networks gain less
#   than in the table.
# - *Captured or compiled* steps launch less, so steps with few pictures gain more.
# - *Memory.* The card holds the weights, their gradients and Adam's two averages, 16
#   bytes for each weight, and what each layer keeps of a batch. If that does not fit,
#   halve the batch.
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

# solution


def at_most_solution(load, compute, calls, c):
    return (load + compute) / (load + calls * c)


print(check(at_most_solution))

# %%
# Three lines to remember
# -----------------------

# remember
slow, fast = (
    gain(f"medium, loaded {how}", 256) for how in ("item by item", "in one go")
)
tiny, huge = gain("small, nothing to load", 1), gain("large, loaded item by item", 8)
ratio = sweep["64"][2] / sweep["1024"][2]
few, enough = sweep["1024"][3], sweep["64"][3]
print(
    f"""1. .to(device) for the model, once, and for each batch: two lines, any device.
2. A GPU speeds up only the arithmetic. By the model, an RTX 4090 is {times(tiny)} as
fast as this CPU for a small network and one picture, {times(huge)} for a large network
and eight; for the medium one and 256 it is {times(slow)}, and {times(fast)} if you load
in one go.
3. Compare the time to the same score. From 64 to 1024 pictures in a batch, an epoch
became {ratio:.1f} × as fast, but eight of them got {few:.0%} of the test set right, in
place of {enough:.0%}. To the score of 64, 256 took {longer:.1f} × the time."""
)
