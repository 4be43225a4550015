"""Train a network on several GPUs: each takes a part of every batch.

    torchrun --standalone --nproc-per-node 2 several_gpus.py

starts two processes, one for each GPU; ``python several_gpus.py`` trains on one.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

# torchrun tells each process which one it is, and how many there are.
number = int(os.environ.get("LOCAL_RANK", 0))
processes = int(os.environ.get("WORLD_SIZE", 1))
gpu = torch.accelerator.is_available()  # of any maker
device = torch.device("cpu")
if gpu:
    device = torch.device(torch.accelerator.current_accelerator().type, number)
if processes > 1:
    own = device if gpu else None
    dist.init_process_group(device_id=own)  # over NCCL, XCCL or Gloo, by the device

torch.manual_seed(0)  # the same data and weights in every process
x = torch.rand(4096, 8)
data = TensorDataset(x, (x**2).sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
if processes > 1:
    model = DistributedDataParallel(model, device_ids=[number] if gpu else None)
optimizer, criterion = torch.optim.Adam(model.parameters(), lr=1e-2), nn.MSELoss()

# 256 for all together: with two GPUs, each takes 128, and every other example.
sampler = DistributedSampler(data, processes, dist.get_rank() if processes > 1 else 0)
loader = DataLoader(data, 256 // processes, sampler=sampler)
for epoch in range(5):
    sampler.set_epoch(epoch)  # or the order would be the same in all epochs
    for part, wanted in loader:
        optimizer.zero_grad()
        loss = criterion(model(part.to(device)), wanted.to(device))
        loss.backward()  # here the gradients are averaged
        optimizer.step()

with torch.no_grad():
    loss = criterion(model(x.to(device)), data.tensors[1].to(device)).item()
print(f"process {number} of {processes} on {device}: loss {loss:.6f}")
if processes > 1:
    dist.destroy_process_group()
