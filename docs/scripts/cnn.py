"""Train a small CNN on the CPU and on a GPU, with batches of several sizes.

``python cnn.py --tensorboard`` also writes the losses for TensorBoard
(``python -m pip install tensorboard``), and ``--cifar10`` takes CIFAR10 (torchvision).
"""

import sys
import time

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class CNN(nn.Module):
    """Two convolutions with pooling, and a linear layer that finds its input size."""

    def __init__(self, colours=1, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(colours, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classify = nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

    def forward(self, pictures):
        return self.classify(self.features(pictures))


def train(model, loader, device, epochs=3):
    """Return the loss of every batch, and how many seconds they took."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters())
    criterion, losses = nn.CrossEntropyLoss(), []
    began = time.perf_counter()
    for _ in range(epochs):
        for pictures, labels in loader:
            pictures, labels = pictures.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(pictures), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())  # stays on the device
    losses = torch.stack(losses).tolist()  # waits for the device, so the clock may stop
    return losses, time.perf_counter() - began


@torch.no_grad()
def accuracy(model, loader, device):
    """Return the share of pictures that are named rightly."""
    model.eval()
    right = 0
    for x, y in loader:
        right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
    return right / len(loader.dataset)


if (
    "--cifar10" in sys.argv
):  # 60,000 photographs of 32 × 32, of which 170 MB are fetched
    from torchvision import datasets, transforms

    to_tensor, grey = transforms.ToTensor(), (0.5, 0.5, 0.5)  # from -1 to 1
    prepare = transforms.Compose([to_tensor, transforms.Normalize(grey, grey)])
    train_set = datasets.CIFAR10("data", download=True, transform=prepare)
    test_set = datasets.CIFAR10("data", train=False, transform=prepare)
else:  # 1,797 pictures of 8 × 8
    digits = load_digits()
    pictures = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    data = TensorDataset(pictures, torch.tensor(digits.target))
    seeded = torch.Generator().manual_seed(0)
    train_set, test_set = random_split(data, [0.8, 0.2], generator=seeded)
one = train_set[0][0][None]

devices = [torch.device("cpu")]
if torch.accelerator.is_available():  # a GPU of any maker
    devices.append(torch.accelerator.current_accelerator())
for batch in (16, 64, 256):
    for device in devices:
        torch.manual_seed(0)
        loader = DataLoader(train_set, batch, shuffle=True)
        model = CNN(colours=one.shape[1])
        model(one)  # the lazy layer makes its weights, which train() needs
        model.to(device)
        train(model, loader, device, epochs=1)  # the first epoch also warms up
        losses, seconds = train(model, loader, device)
        right = accuracy(model, DataLoader(test_set, 256), device)
        rate = len(losses) / seconds
        print(f"{device}, {batch:3} a batch: {rate:6.0f} batches/s, {right:.1%} right")
        plt.plot(torch.linspace(1, 4, len(losses)), losses, label=f"{device}, {batch}")
        if "--tensorboard" in sys.argv:
            from torch.utils.tensorboard import SummaryWriter

            with SummaryWriter(f"runs/{device}-{batch}") as writer:
                for number, loss in enumerate(losses):
                    writer.add_scalar("loss", loss, number)

plt.xlabel("epoch")
plt.ylabel("loss")
plt.yscale("log")
plt.legend()
plt.savefig("losses.png")
print("drawn: losses.png")
