"""Train with a trainer that moves model and batches, and see if a GPU is faster."""

import time

import torch
from torch import nn


def try_gpu(i=0):
    """Return GPU number i, or the CPU if there is none of that number."""
    if i >= torch.accelerator.device_count():
        return torch.device("cpu")
    return torch.device(torch.accelerator.current_accelerator().type, i)


def try_all_gpus():
    """Return all GPUs, or the CPU if there is none: never an empty list."""
    return [try_gpu(i) for i in range(max(1, torch.accelerator.device_count()))]


class Trainer:
    """Train a model on one device."""

    def __init__(self, max_epochs, lr=0.1, device=None):
        self.max_epochs, self.lr = max_epochs, lr
        self.device = device or try_gpu()

    def prepare_model(self, model, batch):
        """Move the model, then make its optimizer."""
        model(batch[0][:1])  # a lazy layer has weights only after it has seen a batch
        self.model = model.to(self.device)  # a module moves in place
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=self.lr)

    def prepare_batch(self, batch):
        """Return the batch on the device: a moved tensor is a new one."""
        return [part.to(self.device, non_blocking=True) for part in batch]

    def fit(self, model, batches):
        """Return the mean loss of each epoch."""
        self.prepare_model(model, batches[0])
        means = []
        for _ in range(self.max_epochs):
            losses = []
            for batch in batches:
                x, y = self.prepare_batch(batch)
                loss = nn.functional.mse_loss(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.detach())
            means.append(torch.stack(losses).mean())
        return torch.stack(means).tolist()


def seconds_of_product(x, calls=3):
    """Return the seconds of x @ x, after a first one, and waited for."""

    def wait():
        if x.device.type != "cpu":
            torch.accelerator.synchronize(x.device)

    product = x @ x
    wait()
    began = time.perf_counter()
    for _ in range(calls):
        product = x @ x
    wait()  # without it, a GPU would only have been asked
    seconds = (time.perf_counter() - began) / calls
    assert torch.isfinite(product).all()  # squaring the result each time overflows
    return seconds


print("devices:", try_gpu(), try_gpu(10), try_all_gpus())

torch.manual_seed(0)
x = torch.randn(1000, 3)
y = x @ torch.tensor([[2.0], [-3.4], [1.0]]) + 4.2
net = nn.Sequential(nn.LazyLinear(1))
batches = list(zip(x.split(100), y.split(100), strict=True))
losses = Trainer(max_epochs=3).fit(net, batches)
print("loss after each epoch:", *(f"{loss:.2g}" for loss in losses))
print("the weights are on", net[0].weight.device, net[0].weight.detach().cpu().numpy())

side = 10_000 if torch.accelerator.is_available() else 1_000
for device in dict.fromkeys([torch.device("cpu"), *try_all_gpus()]):
    t = seconds_of_product(torch.rand(side, side, device=device))
    rate = 2 * side**3 / t / 1e12
    print(f"{side:,} × {side:,} on {device}: {t:.3g} s, {rate:.2f} TFLOP/s")
