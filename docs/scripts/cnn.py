"""Train a small CNN on the CPU and on a GPU, with batches of several sizes.

``python cnn.py --tensorboard`` also writes the losses for TensorBoard
(``python -m pip install tensorboard``).
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

    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
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


# 1,797 pictures of 8 × 8. For CIFAR10: torchvision.datasets.CIFAR10, Conv2d(3, …).
digits = load_digits()
pictures = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
data = TensorDataset(pictures, torch.tensor(digits.target))
seeded = torch.Generator().manual_seed(0)
train_set, test_set = random_split(data, [0.8, 0.2], generator=seeded)

devices = [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available()
for batch in (16, 64, 256):
    for device in devices:
        torch.manual_seed(0)
        loader = DataLoader(train_set, batch, shuffle=True)
        model = CNN()
        model(pictures[:1])  # the lazy layer makes its weights, which train() needs
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
