"""Train a network to tell three kinds of iris apart, on a GPU if there is one."""

import time

import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from torch import nn


class Network(nn.Module):
    """Four measurements in, three scores out."""

    def __init__(self, inputs=4, hidden=(8, 9), outputs=3):
        super().__init__()
        self.hidden = nn.Sequential(
            nn.Linear(inputs, hidden[0]), nn.ReLU(),
            nn.Linear(*hidden), nn.ReLU(),
        )  # fmt: skip
        self.out = nn.Linear(hidden[1], outputs)

    def forward(self, flowers):
        return self.out(self.hidden(flowers))


device = torch.device("cpu")
if torch.accelerator.is_available():  # a GPU of any maker
    device = torch.accelerator.current_accelerator()
iris = load_iris()
split = train_test_split(
    iris.data, iris.target, test_size=0.2, random_state=33, stratify=iris.target
)
x, x_test = (torch.tensor(a, dtype=torch.float32, device=device) for a in split[:2])
# These stay whole numbers: CrossEntropyLoss wants int64.
y, y_test = (torch.tensor(a, device=device) for a in split[2:])

torch.manual_seed(32)
model = Network().to(device)
print("on the device:", all(p.device.type == device.type for p in model.parameters()))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()

losses = []
began = time.perf_counter()
for _ in range(100):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
losses = torch.stack(losses).tolist()  # reads all at once, and waits for the device
seconds = time.perf_counter() - began
print(f"{seconds:.3f} s on {device}, loss {losses[0]:.2f} to {losses[-1]:.2f}")

model.eval()
with torch.no_grad():
    right = (model(x_test).argmax(1) == y_test).sum().item()
print(f"{right} of {len(y_test)} test flowers are right")
