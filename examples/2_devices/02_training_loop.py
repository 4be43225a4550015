"""
What changes in a training loop?
================================

You have a script that trains a network on your CPU, and now somebody lends you a GPU.
Which lines do you have to change, and how much time will it save?

**Write down two guesses:** the number of new lines, and how many times as fast as two
cores of a CPU an H100 trains a small network. It's one of the largest GPUs there are.

**Needs:** any computer, some PyTorch, and scikit-learn for its
pictures of digits.
"""

# %%
# Copy this: a training loop on the GPU
# -------------------------------------
#
# Choose the device once. Then two lines are new:
#
# .. code-block:: python
#
#    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
#    print(device)  # cpu? Then PyTorch found no GPU
#
#    model = YourModel().to(device)  # new: the weights move, once
#    optimizer = torch.optim.Adam(model.parameters())  # after the move, to be safe
#    for epoch in range(5):
#        for x, y in loader:
#            x, y = x.to(device), y.to(device)  # new: each batch moves
#            loss = nn.functional.cross_entropy(model(x), y)
#            optimizer.zero_grad()
#            loss.backward()
#            optimizer.step()
#
# Your test batches have to move, too. To get a result back as a NumPy array, write
# ``.detach().cpu().numpy()``, because NumPy can't read the GPU's memory.
#
# It's the same program on a CPU, because ``.to`` does nothing where nothing has to
# move. The first line finds a GPU of NVIDIA or AMD. If yours is Apple's or Intel's,
# choose it :doc:`as here </tutorials/2_devices/01_moving>`.
#
# Forget one
# ----------
#
# **Which of these three stop with an error? Guess.**
#
# a. You write ``model.to(device)``, and don't keep what it returns.
# b. You write ``x.to(device)``, and don't keep what it returns.
# c. You move ``x``, but forget ``y``.
#
# Two do. The first isn't a mistake, because a model moves *in place*. A batch doesn't:
# ``x.to(device)`` makes another :term:`tensor`, and ``x`` stays where it was. So (b)
# stops in the first layer. If that's a convolution, you get `this error`__:
#
# .. code-block:: text
#
#    RuntimeError: Input type (torch.FloatTensor) and weight type
#    (torch.cuda.FloatTensor) should be the same …
#
# The weights are ``cuda``, and the input isn't, so it's the input that stayed at home.
# With (c), the network runs, and the *loss* stops: *Expected all tensors to be on the
# same device*. It calls the labels ``target``. So the error names the line that
# noticed. The cause is in the line that should have moved the tensor.
#
# __ https://github.com/Lightning-AI/pytorch-lightning/issues/20456
#
# A whole script
# --------------
#
# Here is the loop in a whole script. It learns from 1,797 pictures of handwritten
# digits, 8 × 8 pixels each.

# folded: The digits, in two data sets

import time

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

digits = load_digits()
pictures = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)  # int64
train_set, test_set = random_split(
    TensorDataset(pictures, labels), [0.8, 0.2], torch.Generator().manual_seed(1)
)

# %%
# Our network is small, and nothing in it knows of a GPU:

# folded: The network: two convolutions, then three layers


class CNN(nn.Module):
    def __init__(self, colours=1, classes=10):
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(colours, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.decide = nn.Sequential(
            nn.LazyLinear(120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, classes),
        )  # fmt: skip

    def forward(self, x):
        return self.decide(self.look(x))


# %%

# folded: new_model makes one of them: build, move, show it a picture
# How many numbers leave the convolutions? You could work it out: 32 maps of 2 × 2, so
# 128. LazyLinear finds out by itself, from the first picture, and has no weights until
# then. So the optimizer comes after that picture.


def new_model():
    picture, _ = train_set[0]
    model = CNN(colours=len(picture)).to(device)
    model(picture[None].to(device))  # LazyLinear sees a picture, and makes its weights
    return model


# %%
# This is the loop from above, but it also keeps the losses:


def train(model, loader, optimizer, epochs=5):
    criterion, losses = nn.CrossEntropyLoss(), []
    # for layers such as dropout; model.eval() before a test
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())  # stays on the device
    return torch.stack(losses).tolist()  # waits for the device, once


# %%
# It leaves each loss on the device, because ``loss.item()`` or a ``print`` in each step
# would make your program :doc:`wait for the GPU </tutorials/2_devices/06_queues>`.

# folded: score counts what is right, and start makes a model and all that it needs
# model.train() and model.eval() tell layers such as dropout whether you are training.
# eval() doesn't switch the gradients off, so no_grad does.


@torch.no_grad()
def score(model, loader):
    model.eval()
    right = sum((model(x.to(device)).argmax(1).cpu() == y).sum() for x, y in loader)
    return right.item() / len(loader.dataset)


def start(batch):
    torch.manual_seed(1)
    loader = DataLoader(train_set, batch, shuffle=True)
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters())
    return model, loader, optimizer


# %%
# Let's run it:

tests = DataLoader(test_set, 256)
run = start(batch=64)
losses = train(*run)
print("the weights are on", next(run[0].parameters()).device)
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at the end")
print(f"{score(run[0], tests):.0%} right of {len(test_set)} digits it has not seen")

# %%

# folded: If your labels are float32 or int32, you'll meet this error

# A label is an index, because it picks one of the ten scores. So it has to be an
# integer, and PyTorch takes only two kinds: int64, which it calls Long, and the small
# uint8, or Byte. A CPU's error names the two, an H100's only what it got.
# Write labels.long().

scores = run[0](pictures[:4].to(device))
try:
    nn.CrossEntropyLoss()(scores, labels[:4].float().to(device))
except RuntimeError as error:
    print(error)

# %%
# Did it help?
# ------------
#
# Here is what two real machines did. One has two cores of an AMD EPYC, and the other
# one has an H100. We timed a step of our network, which has 31,294 weights, and of one
# with 9 million. The batches had been moved already:
#
# .. list-table:: What one step of training took
#    :header-rows: 1
#
#    * - a step with
#      - two cores
#      - H100
#      - speed-up
#    * - the small network, 1 picture
#      - :timing:`training-a-cnn median "small, CPU/cpu/n=1" @cpu-amd-epyc`
#      - :timing:`training-a-cnn median "small, GPU/cuda:0/n=1"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "small, GPU/cuda:0/n=1"
#        @nvidia-h100-80gb-hbm3 / "small, CPU/cpu/n=1" @cpu-amd-epyc`
#    * - the small network, 256 pictures
#      - :timing:`training-a-cnn median "small, CPU/cpu/n=256" @cpu-amd-epyc`
#      - :timing:`training-a-cnn median "small, GPU/cuda:0/n=256"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "small, GPU/cuda:0/n=256"
#        @nvidia-h100-80gb-hbm3 / "small, CPU/cpu/n=256" @cpu-amd-epyc`
#    * - the large network, 8 pictures
#      - :timing:`training-a-cnn median "large, CPU/cpu/n=8" @cpu-amd-epyc`
#      - :timing:`training-a-cnn median "large, GPU/cuda:0/n=8"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`training-a-cnn speedup "large, GPU/cuda:0/n=8"
#        @nvidia-h100-80gb-hbm3 / "large, CPU/cpu/n=8" @cpu-amd-epyc`
#
# With a single picture, the H100 *lost*. Was it busy with the arithmetic? Then its time
# should grow with the number of pictures. But it took no longer for 256 than for one.
#
# .. holds::
#
#    one = median("training-a-cnn/small, GPU/cuda:0/n=1")
#    many = median("training-a-cnn/small, GPU/cuda:0/n=256")
#    median("training-a-cnn/small, CPU/cpu/n=1", "cpu-amd-epyc") < one
#    median("training-a-cnn/small, CPU/cpu/n=1") < one
#    near(many, one, 0.25)
#
# Think of a cook with a thousand hands, who fills one plate or a hundred in the same
# second. But each order comes on a slip of paper, and a waiter has to write it. A step
# of our network is about 35 operations, and for each of them PyTorch has to ask the GPU
# to start some work, which we call a :term:`launch`. It takes longer than the work
# itself, so most of the time the cook stands and waits. A larger batch means more
# plates for the same number of slips, and a larger network means fuller plates.
#
# So let's make the batch larger: 16, 64 and 256 pictures. Each network sees every
# picture five times. **Guess first:** how will the time of an epoch change? And the
# score?

rows, curves = [], {}
for batch in (16, 64, 256):
    train(*start(batch), epochs=1)  # the first calls take longer
    run, curves[batch], times = start(batch), [], []
    for _ in range(5):
        began = time.perf_counter()
        curves[batch] += train(*run, epochs=1)
        times.append(time.perf_counter() - began)
    seconds = sorted(times)[2]  # the median of the five epochs
    rows.append((batch, len(curves[batch]), seconds, score(run[0], tests)))

print("batch  steps  s/epoch  right")
for batch, steps, seconds, right in rows:
    print(f"{batch:5} {steps:6} {seconds:8.3f} {right:6.0%}")
faster = rows[0][2] / rows[-1][2]
print(f"On {device}, an epoch with 256 was {faster:.1f} times as fast as with 16.")

# %%
# With 16 pictures, the H100's epochs took longer than those of the two cores of the
# EPYC. With 256 they took less, but the gain was smaller than the table promised. So
# something besides the steps takes time: see *Is it the loader?* below.
#
# .. holds::
#
#    epochs = r"^ +(?:16|256) +\d+ +([\d.]+)"
#    few, whole = printed(epochs)
#    few_cpu, whole_cpu = printed(epochs, "cpu-amd-epyc")
#    few > 1.3 * few_cpu
#    step = median("training-a-cnn/small, GPU/cuda:0/n=256")
#    step_cpu = median("training-a-cnn/small, CPU/cpu/n=256", "cpu-amd-epyc")
#    1.2 < whole_cpu / whole < 0.9 * step_cpu / step
#
# But look at the last column. Larger batches take fewer steps, so the network has
# learned less. The two machines' scores differ, too, although the seed is the same.
# ``LazyLinear`` draws its weights after the move, on the device, where a GPU draws
# other numbers than a CPU. So the CPU's generator is left in another state, and
# shuffles the pictures in another order. All other weights are drawn on the CPU, before
# the move, and start alike. On the computer that built this page, the loss went like
# this:

# figure
# sphinx_gallery_thumbnail_number = 1

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for (batch, values), style in zip(curves.items(), (":", "--", "-"), strict=True):
    epochs = torch.arange(1, len(values) + 1) * 5 / len(values)
    ax.plot(epochs, values, style, label=f"batches of {batch}: {len(values)} steps")
ax.set(xlabel="epoch", ylabel="loss", yscale="log", xlim=(0, 5))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("The loss in each step, for three sizes of batch")
ends = ", ".join(f"{values[-1]:.2f} for {batch}" for batch, values in curves.items())
fig.set_label(f"Three falling curves of the loss. At the end it is {ends} in a batch.")
plt.show()

# %%
# So don't compare the time of an epoch, but the time to *the same score*. When :doc:`we
# did that with another network </tutorials/2_devices/17_training_a_cnn>`, batches of
# 256 did reach the score that batches of 64 had, but later.
#
# Only a little faster on the GPU?
# --------------------------------
#
# There are three usual suspects: launches, loading, and an ``.item()`` in each step.
# Time one whole epoch, but not the first. Then :doc:`this list
# </tutorials/2_devices/18_slow_on_the_gpu>` has a test and a remedy for each.
#
# Stop, and go on from a checkpoint
# ---------------------------------
#
# Your time on the GPU ends, or the job is killed. To go on later you need the weights
# *and* the two averages that Adam remembers for each weight. A file with all of it is
# called a *checkpoint*:
#
# .. code-block:: python
#
#    # after each epoch
#    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
#    torch.save(states | {"epoch": epoch}, file)
#
#    # tomorrow, with a new model and a new optimizer
#    saved = torch.load(file, map_location=device)  # from any device to this one
#    model.load_state_dict(saved["model"])
#    optimizer.load_state_dict(saved["optimizer"])
#
# ``map_location`` lets you train on the GPU and go on at home. In Colab, write the file
# to your Drive, because Colab's own disk is lost with the session.

# folded: These lines as two functions, save and load


def save(file, epoch, model, optimizer):
    parts = {"model": model, "optimizer": optimizer}
    states = {name: part.state_dict() for name, part in parts.items()}
    torch.save(states | {"epoch": epoch}, file)


def load(file, model, optimizer):
    saved = torch.load(file, map_location=device)  # from any device to this one
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"]


# %%

# folded: See it go on: we kill a run after three epochs, and load its file
# With which loss will it go on? Guess before you look.

import tempfile
from pathlib import Path

model, loader, optimizer = start(batch=64)
before = []
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "checkpoint.pt")
    for epoch in range(1, 4):
        before += train(model, loader, optimizer, epochs=1)
        save(file, epoch, model, optimizer)
    again = start(batch=64)
    epoch = load(file, again[0], again[2])

after = train(*again, epochs=5 - epoch)
print(f"loss {before[0]:.2f} at first, {before[-1]:.2f} after {epoch} epochs")
print(f"loaded: {after[0]:.2f} at first, {after[-1]:.2f} after 5")

# %%
# One thing can go wrong here without an error. An optimizer holds the weights that it
# was made from. If you make a new model in a notebook and keep the old optimizer, it
# trains a network that you no longer use. So make a new optimizer with each model.

# folded: See it learn nothing: a new network with the old optimizer

again = start(batch=64)
stuck = train(again[0], loader, optimizer)  # the *old* optimizer
moved = train(*again)
print(f"old optimizer: loss {stuck[0]:.2f} at first, {stuck[-1]:.2f} at the end")
print(f"its own:       loss {moved[0]:.2f} at first, {moved[-1]:.2f} at the end")

# %%

# folded: The same loop in a trainer, such as d2l's or Lightning's
# non_blocking=True gains little here, because this loader doesn't pin its memory.


class Trainer:
    def __init__(self, device):
        self.device = device

    def prepare_model(self, model):
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def prepare_batch(self, batch):
        return [part.to(self.device, non_blocking=True) for part in batch]

    def fit(self, model, loader, epochs):
        self.prepare_model(model)
        for _ in range(epochs):
            for batch in loader:
                x, y = self.prepare_batch(batch)
                loss = nn.functional.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


trainer = Trainer(device)
trainer.fit(new_model(), loader, epochs=3)
print(f"trainer: {score(trainer.model, tests):.0%} right on {trainer.device}")

# %%
# Is it the loader?
# -----------------
#
# In the H100's table, five epochs with 256 pictures have 30 steps, so each has six. By
# our first table, six steps take :timing:`training-a-cnn sum "small, GPU/cuda:0/n=256"
# + "small, GPU/cuda:0/n=256" + "small, GPU/cuda:0/n=256" + "small, GPU/cuda:0/n=256" +
# "small, GPU/cuda:0/n=256" + "small, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3`, which
# is less than half of the epoch that we measured. **How much of the rest is the
# loader's?** Let it load, and train nothing:
#
# .. holds::
#
#    6 * many < 0.5 * whole

# folded: seconds goes through all batches five times, and returns the median


def seconds(batches):
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _batch in batches():
            pass  # no training
        times.append(time.perf_counter() - began)
    return sorted(times)[2]


# %%


def one_by_one():
    return DataLoader(train_set, 256, shuffle=True)


def in_one_go():
    mixed = torch.tensor(train_set.indices)[torch.randperm(len(train_set))]
    for few in mixed.split(256):
        yield pictures[few], labels[few]


epoch = rows[-1][2]
for name, batches in (("the loader", one_by_one), ("in one go", in_one_go)):
    took = seconds(batches)
    print(f"{name}: {1e3 * took:.1f} of {1e3 * epoch:.0f} ms ({took / epoch:.0%})")

# %%
# The loader asks for the pictures one by one, in Python, and then stacks them into a
# batch. That happens on the CPU, so the faster the training gets, the more you notice
# it: it has a larger part in the H100's epoch than in the EPYC's, also because the CPU
# beside the H100 takes longer to load.
#
# .. holds::
#
#    (share,) = printed(r"the loader: .*\((\d+)%\)")
#    (share_cpu,) = printed(r"the loader: .*\((\d+)%\)", "cpu-amd-epyc")
#    share > 1.5 * share_cpu
#
# Our digits are small enough to live on the GPU. Then nothing has to be loaded, or
# moved, in any step:
#
# .. code-block:: python
#
#    x_all, y_all = (part.to(device) for part in train_set[:])  # once
#    for few in torch.randperm(len(x_all), device=device).split(256):
#        x, y = x_all[few], y_all[few]  # already there
#
# If your data don't fit there, try to take the rows of a batch *in one go*, as in the
# second line of the output. It usually helps a lot, but not always: on the EPYC that's
# nearly free, and beside the H100 it was even slower than the loader. With larger
# pictures, and timed for longer, the same computer was :timing:`training-a-cnn speedup
# "load, in one go/cpu/n=256"/"load, item by item/cpu/n=256" @nvidia-h100-80gb-hbm3` as
# fast in one go. So measure your loader before you change it. If your data come from
# files, let several processes load them: ``DataLoader(…, num_workers=4,
# persistent_workers=True)``, with as many as your job has cores.
#
# .. holds::
#
#    (at_once,) = printed(r"in one go: .*\((\d+)%\)")
#    (at_once_cpu,) = printed(r"in one go: .*\((\d+)%\)", "cpu-amd-epyc")
#    at_once_cpu < share_cpu / 4
#    # Slower beside the H100, but not with larger pictures.
#    at_once > share
#    items = median("training-a-cnn/load, item by item/cpu/n=256")
#    median("training-a-cnn/load, in one go/cpu/n=256") < items / 4
#
# Your turn
# ---------
#
# Write the loop yourself, for any device. ``train_anywhere`` gets a model and
# ``batches``, a list of pairs ``(x, y)`` on the CPU. It should
#
# - train the model on ``device``, for one pass over the batches;
# - take its steps with ``torch.optim.SGD(…, lr=0.1)``;
# - use the cross-entropy as its loss;
# - return the loss of each batch, in a list of Python's numbers.
#
# Put your answer where the dots are, and run ``firstlight try 02_training_loop.py``.
# The checker has no GPU, but a device that notices what you didn't move.


def train_anywhere(model, batches, device): ...


# %%

# folded: The checker


class Spy(nn.Module):
    """A network that notes where its batches are, and whether it is training."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.seen = nn.Linear(3, 4), []

    def forward(self, x):
        self.seen.append((x.device.type, self.training))
        return self.layer(x.to(self.layer.weight.device))


def by_hand(batches):
    torch.manual_seed(3)
    layer, losses = nn.Linear(3, 4), []
    for x, y in batches:
        loss = nn.functional.cross_entropy(layer(x), y)
        slopes = torch.autograd.grad(loss, [layer.weight, layer.bias])
        for part, slope in zip((layer.weight, layer.bias), slopes, strict=True):
            part.data -= 0.1 * slope
        losses.append(loss.item())
    return layer, losses


# %%

# folded: What the checker tries
from torch.optim.optimizer import register_optimizer_step_pre_hook


def find_problem(answer):
    draw = torch.Generator().manual_seed(4)
    batches = [
        (torch.randn(5, 3, generator=draw), torch.randint(4, (5,), generator=draw))
        for _ in range(3)
    ]
    expected, model = by_hand(batches), Spy().eval()
    losses = answer(model, batches, torch.device("cpu"))
    if len(model.seen) != 3:
        return f"the model saw {len(model.seen)} batches of 3"
    if not all(training for _, training in model.seen):
        return "the model was still in eval() mode; call model.train()"
    if torch.equal(model.layer.weight, Spy().layer.weight):
        return "the weights have not changed: backward(), then optimizer.step()"
    if not torch.allclose(model.layer.weight, expected[0].weight, atol=1e-6):
        return "the weights differ from ours: are the gradients cleared in each step?"
    if not isinstance(losses, list) or not all(type(v) is float for v in losses):
        return f"it returned {type(losses).__name__}, not a list of Python's numbers"
    if not torch.allclose(torch.tensor(losses), torch.tensor(expected[1]), atol=1e-5):
        return "the losses differ from ours: one for each batch, before its step"
    return find_unmoved(answer, batches)


# %%

# folded: What the checker tries on another device


def find_unmoved(answer, batches):
    model, held, said = Spy(), [], ""
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: held.append(optimizer.param_groups[0]["params"][0])
    )
    try:
        answer(model, batches, torch.device("meta"))
    except Exception as error:  # a meta tensor has no numbers, so reading them fails
        said = str(error)
    finally:
        hook.remove()
    if not model.layer.weight.is_meta:
        return "the model stayed on the CPU when we asked for another device"
    if not model.seen or model.seen[0][0] != "meta":
        return "a batch stayed on the CPU; keep what .to returns"
    if "expected device" in said:
        return "the labels stayed on the CPU; keep what .to returns"
    if held and held[0] is not model.layer.weight:
        return "the optimizer was made before the move, and here holds old weights"
    return ""


def check(answer):
    try:
        problem = find_problem(answer)
    except Exception as error:
        problem = f"it raised {type(error).__name__}: {error}"
    if problem:
        return f"Not yet: {problem}."
    return "Right: this loop trains on any device."


# %%

print(check(train_anywhere))

# %%
# Three lines to remember
# -----------------------

# remember
print("""\
1. Two lines are new: model.to(device) once, and x.to(device) for each batch, kept.
   Then make the optimizer, and make a new one with each new model.
2. On a small network and a small batch, a GPU waits for its launches, and may lose.
   Larger batches and larger networks gain. Compare the time to the same score.
3. Keep the losses on the device, and save the model and its optimizer together.""")

# %%
# Solution
# --------

# solution


def train_anywhere_solution(model, batches, device):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    losses = []
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


print(f"Our solution: {check(train_anywhere_solution)}")

# %%
# When you need it
# ----------------
#
# The rest is for another day.
#
# .. dropdown:: Your own pictures, for example CIFAR10
#
#    Only the two data sets change. For CIFAR10, 60,000 small photographs in colour,
#    these lines stand in for the digits. They fetch 170 MB, so we don't run them:
#
#    .. code-block:: python
#
#       from torchvision import datasets, transforms
#
#       prepare = transforms.Compose([
#           transforms.ToTensor(),  # bytes to numbers from 0 to 1, the colours first
#           transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),  # from -1 to 1
#       ])
#       train_set = datasets.CIFAR10("data", download=True, transform=prepare)
#       test_set = datasets.CIFAR10("data", train=False, transform=prepare)
#
#    A picture has three colours now, and 2,048 numbers leave the convolutions.
#    ``new_model`` and ``LazyLinear`` find out both.
#
# .. dropdown:: A loss curve that grows while you watch, with TensorBoard
#
#    Type ``pip install tensorboard``, and write the loss every hundred steps or so,
#    because ``add_scalar`` waits for the GPU like ``.item()``:
#
#    .. code-block:: python
#
#       from torch.utils.tensorboard import SummaryWriter
#
#       writer = SummaryWriter("runs/batch-64")  # a folder for each run
#       writer.add_scalar("Train/Loss", loss, step)  # in the loop
#
#    Look at it with ``tensorboard --logdir runs``, or in a notebook with ``%load_ext
#    tensorboard`` and ``%tensorboard --logdir runs``.
#
# .. dropdown:: More speed: pinned batches and 16 bits
#
#    If the GPU's memory runs out, halve the batch
#    (:doc:`/tutorials/2_devices/10_memory`). If it doesn't, try two switches:
#
#    .. code-block:: python
#
#       loader = DataLoader(train_set, 256, shuffle=True, pin_memory=True)
#       for x, y in loader:
#           x, y = (part.to(device, non_blocking=True) for part in (x, y))
#           with torch.autocast(device.type, dtype=torch.bfloat16):
#               loss = nn.functional.cross_entropy(model(x), y)
#           ...  # the rest as before
#
#    With ``pin_memory`` and ``non_blocking``, the GPU fetches a batch while your
#    program goes on (:doc:`/tutorials/2_devices/08_pinned_memory`). ``autocast``
#    computes with 16 bits in place of 32. On a card before Ampere (2020), :doc:`see
#    first </tutorials/2_devices/13_precision>`. We left both off, because neither makes
#    a launch any shorter, and ``autocast`` adds launches.
#
# There are :doc:`short training scripts to download </where_from>`, and a page on
# :doc:`what else a model can leave behind </tutorials/2_devices/05_moving_a_model>`.
