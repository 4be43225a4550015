"""
Why are two GPUs slower than one?
=================================

You've wrapped your network in ``DataParallel``, or started it with ``torchrun`` on two
GPUs. Both are busy, says ``nvidia-smi``. And yet an epoch takes *longer* than with one
of them.

**Write down a guess: if each GPU gets half of the batch, how long will its step
take?** Then copy a script for several GPUs, see what slows it down, and say
beforehand whether a second GPU will help your network.

**Needs:** any computer, and :doc:`a training loop
</tutorials/2_devices/02_training_loop>`. You don't need two GPUs. We don't have two
either, so what others measured has their name on it.
"""

# %%
# Find yours
# ----------
#
# Go down the list, and stop at the first row that is yours:
#
# .. list-table:: Why two GPUs are slower than one
#    :header-rows: 1
#    :widths: 24 38 38
#
#    * - cause
#      - how to tell
#      - what to do
#    * - **nothing: a step does more**
#      - it's slower in steps per second, and each GPU has the same batch as before
#      - count pictures instead: steps per second × batch × GPUs, or the time of an
#        epoch. A step of eight GPUs takes eight batches, so it may take longer
#    * - **nothing: it learns in fewer steps**
#      - after an epoch the loss is higher than with one GPU
#      - two GPUs with the old batch each make half as many steps in an epoch. So
#        compare after as many steps, or give each GPU half of the batch, or :doc:`raise
#        the learning rate </tutorials/2_devices/17_training_a_cnn>`. ``DataParallel``
#        *divides* the batch of the loader. In ``DistributedDataParallel``, and so in
#        Lightning and accelerate, each process has a loader of its own:
#        ``batch_size=64`` on four GPUs is a batch of 256, and needs the learning rate
#        that ``DataParallel`` had with 256. With SGD, multiply the rate by the same
#        factor as the batch, and `warm up`__
#    * - **the batch is too small**
#      - with half the batch, a step on *one* GPU takes as long
#      - a larger batch on *one* GPU, until its step takes longer. If that's all you
#        need, stay with one. Else give each GPU that batch, and count pictures
#    * - **DataParallel**
#      - that word is in your program
#      - take ``DistributedDataParallel``, below. ``DataParallel`` copies the whole
#        network to the other GPUs in each step, from a single Python, and PyTorch
#        `advises against it`__
#    * - **each does everything**
#      - an epoch has as many steps as before, or ``dist.get_world_size()`` is 1
#      - ``DistributedSampler``, and start it with ``torchrun``. That each line of the
#        log comes twice is normal: print only ``if gpu == 0``
#    * - **loading**
#      - a loop through the loader alone takes as long as an epoch
#      - more workers, if there are cores: two GPUs want double the pictures. If it
#        pauses at the start of each epoch, ``persistent_workers=True``
#    * - **a slow link**
#      - ``nvidia-smi topo -m`` says anything but ``NV`` between them (``SYS`` is the
#        slowest); or the backend is ``gloo``
#      - ``nccl``; or exchange in every fourth batch only: run the others under
#        ``model.no_sync()``, and the optimizer after the fourth, or the copies drift
#        apart
#    * - **waiting for the slowest**
#      - two kinds of card, or an ``.item()`` in each step
#      - equal cards, equal work, and a look at the loss once an epoch
#
# __ https://arxiv.org/abs/1706.02677
# __ https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
#
# Do you want to run another program on the *second GPU*? Start it with
# ``CUDA_VISIBLE_DEVICES=1 python your_script.py``. It sees only that one, as ``cuda:0``
# (:doc:`more </tutorials/2_devices/05_moving_a_model>`). The same helps if a program
# with ``--device cuda:3`` takes memory on ``cuda:0``, too, because some line of it says
# ``cuda`` without a number.
#
# Two programs on *one* GPU `take turns`__, and both have to fit into its memory. So it
# pays only if each alone leaves the GPU idle for half of the time. A larger batch in
# one program is better. NVIDIA's MPS lets two run side by side.
#
# __ https://docs.nvidia.com/deploy/mps/when-to-use-mps.html
#
# It hangs, or the first GPU holds more memory
# --------------------------------------------
#
# One GPU is at 100 % and the others at 0, and after some minutes you read *Watchdog
# caught collective operation timeout*. Then one process waits for an exchange that the
# others never make. Often it has one batch more than the others, and hangs at the end
# of an epoch. ``DistributedSampler`` gives all of them the same number, and ``with
# model.join():`` lets them differ. Or only process 0 validates, and calls the *wrapped*
# model for that. Let it call ``model.module``. Or one process works alone for longer
# than the limit, such as indexing a file: do that before the training, or raise the
# limit with ``init_process_group("nccl", timeout=timedelta(hours=3))``. Or one process
# has died. Read *its* log. ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` names the exchange.
#
# Does it hang *at the start*, with no step done? Then each process waits for others
# that nobody started. Often the shell still has ``NODE_RANK``, ``WORLD_SIZE``,
# ``MASTER_ADDR`` or, in an interactive job, ``SLURM_NTASKS``: look with ``env | grep -E
# "RANK|WORLD|MASTER|SLURM"``, and ``unset`` them if you use one node. *Lightning* asks
# Slurm how many there are. So write ``srun python train.py`` with ``--ntasks-per-node``
# equal to ``devices=``, and ``--nodes`` to ``num_nodes=``. Without ``srun``, one
# process starts and waits. If Lightning's processes all sit on GPU 0, or end with
# *invalid device ordinal*, ``--gpus-per-task=1`` showed each of them a single card:
# give ``--gpus-per-node=4``. If all processes are there, and it hangs all the same, try
# ``NCCL_P2P_DISABLE=1``. If that helps, the cards can't copy to each other
# (:ref:`doctor-peer-access`).
#
# *JAX* opens a context on every card that it sees, and computes on the first only,
# until you divide the batch. ``jit`` does the rest:
#
# .. code-block:: python
#
#    mesh = jax.make_mesh((jax.local_device_count(),), ("batch",))
#    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
#    x = jax.device_put(x, rows)  # its first axis, in equal parts
#
# If ``nvidia-smi`` lists *every* process on the first GPU, each with a few hundred MiB,
# all of them touched it. Call ``torch.cuda.set_device`` before anything else, and load
# weights with ``map_location="cpu"``. Without that, each process puts the checkpoint
# back onto the GPU that saved it. So a training that went well may run *out of memory
# when you resume it*. ``DataParallel`` gathers all outputs on the first GPU, unless you
# name another as ``output_device``. The weights, the summed gradients and the
# optimizer's state stay on the first in any case.
#
# Is the first GPU *out of memory*, although there are more? Their memories don't add
# up. ``DataParallel`` and ``DistributedDataParallel`` copy the whole model to each, and
# :doc:`every tensor has to fit on one </tutorials/2_devices/10_memory>`. And don't
# train one network on several *MIG slices*, because they can't exchange data directly.
# More on slices is at :ref:`doctor-mig-without-instance`.
#
# With ``mpirun`` or ``srun``, nobody chooses a GPU for CuPy, nor for JAX programs that
# don't know of each other. Every process takes GPU 0, and JAX takes most of its memory.
# So choose by the number of the process on its own node:
#
# .. code-block:: python
#
#    import os
#
#    local = os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK") or os.environ["SLURM_LOCALID"]
#    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")  # all you have
#    os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(local) % len(gpus)]
#    import jax  # only now; for it and for CuPy, that GPU is number 0
#
# This number is the *local rank*. Slurm chooses by itself if you write ``srun
# --gpus-per-task=1``. Do neither if your program calls
# ``jax.distributed.initialize()``: under Slurm and Open MPI it chooses by the local
# rank itself, and has to see all GPUs of the node. Two ranks on *one* GPU work, too, if
# each JAX takes its share, ``XLA_PYTHON_CLIENT_MEM_FRACTION=0.4``, and they exchange
# nothing through NCCL. It refuses two ranks on a card (*Duplicate GPU detected*),
# unless it's new and told ``NCCL_MULTI_RANK_GPU_ENABLE=1``.
#
# With *mpi4py*, does ``comm.Allreduce`` of CuPy arrays end in a *segmentation fault*?
# Then your MPI takes the GPU's address for one of the CPU's, because it wasn't built
# for CUDA, or isn't told to use it. If ``ompi_info --parsable --all | grep
# mpi_built_with_cuda_support:value`` says ``false``, load the cluster's CUDA-aware
# (GPU-aware) MPI, and build mpi4py against it: ``pip install --no-binary=mpi4py
# --no-cache-dir mpi4py``. conda-forge's Open MPI knows CUDA, but only after ``export
# OMPI_MCA_opal_cuda_support=true``. Before each exchange, call
# ``cupy.cuda.get_current_stream().synchronize()``, or MPI may send old numbers. Without
# any of this, exchange the CPU's copies: ``comm.Allreduce(x.get(), out)``, with a NumPy
# array ``out``, works with any MPI.
#
# Copy this: DistributedDataParallel
# ----------------------------------
#
# This is PyTorch's ``DistributedDataParallel``, with one process for each GPU. Save it
# as ``train.py``, and start it with ``torchrun --standalone --nproc-per-node 2
# train.py``:
#
# .. code-block:: python
#
#    import os
#
#    import torch
#    import torch.distributed as dist
#    from torch.nn.parallel import DistributedDataParallel
#    from torch.utils.data import DataLoader, DistributedSampler
#
#    if __name__ == "__main__":
#        dist.init_process_group("nccl")
#        gpu = int(os.environ["LOCAL_RANK"])
#        torch.cuda.set_device(gpu)
#        model = DistributedDataParallel(YourModel().to(gpu), device_ids=[gpu])
#        optimizer = torch.optim.Adam(model.parameters())
#        sampler = DistributedSampler(data)  # each process gets its own half
#        loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=4)
#        for epoch in range(5):
#            sampler.set_epoch(epoch)  # another order in each epoch
#            for x, y in loader:
#                loss = criterion(model(x.to(gpu)), y.to(gpu))
#                optimizer.zero_grad()
#                loss.backward()  # exchanges the gradients, too
#                optimizer.step()
#        if gpu == 0:
#            torch.save(model.module.state_dict(), "model.pt")
#        dist.destroy_process_group()
#
# Lightning does the same with ``Trainer(devices=2, strategy="ddp")``, in a script:
# *DDP* for short.
#
# Try it: what do two GPUs exchange?
# ----------------------------------
#
# Each process has the whole network, and computes the gradients of its own pictures.
# Then both take the mean of the two, by an :term:`all-reduce`, and make the same step.
# **Is that the gradient of the whole batch?**

import torch
from torch import nn
from torch.utils.data import DistributedSampler

torch.manual_seed(1)
network = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1)).double()
x, y = torch.randn(128, 20).double(), torch.randn(128, 1).double()


def gradient(x, y):
    network.zero_grad()
    nn.functional.mse_loss(network(x), y).backward()
    return torch.cat([each.grad.flatten() for each in network.parameters()])


whole = gradient(x, y)
mean = (gradient(x[:64], y[:64]) + gradient(x[64:], y[64:])) / 2
print(f"mean of two halves, and the whole: differ by {(mean - whole).abs().max():.0e}")
assert torch.allclose(mean, whole, rtol=1e-12)

# %%
# It is. So two GPUs with 64 pictures each make the same step as one with 128, and you
# choose the learning rate for 128. In a network with ``BatchNorm`` each process takes
# the means of its own pictures. With ``nn.SyncBatchNorm.convert_sync_batchnorm(model)``
# it takes those of all.
#
# But does each process really get other pictures? Here are ten for two processes, with
# and without a sampler:

pictures = range(10)
with_sampler = [
    list(DistributedSampler(pictures, num_replicas=2, rank=rank, shuffle=False))
    for rank in (0, 1)
]
without = [list(pictures), list(pictures)]
for name, shares in (("with", with_sampler), ("without", without)):
    print(f"{name:8} process 0: {shares[0]}, process 1: {shares[1]}")
assert sorted(with_sampler[0] + with_sampler[1]) == list(pictures)

# %%
# Without the sampler, both do all the work, with an exchange on top, so an epoch takes
# longer than on one GPU. If the number of pictures is odd, the sampler gives one to
# both, so that nobody has to wait.
#
# What does half a batch save?
# ----------------------------
#
# Think of a bus. With half of the passengers, it doesn't drive faster. We trained a
# network of 9 million weights on one H100. With 256 pictures, a step took
# :timing:`training-a-cnn median "large, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3`, and
# with *eight* it took :timing:`training-a-cnn median "large, GPU/cuda:0/n=8"
# @nvidia-h100-80gb-hbm3`. A thirtieth of the pictures takes four fifths of the time,
# because then most of the step is Python and :term:`launches <launch>`, which don't get
# fewer. So two such GPUs, with 128 pictures each, save a fifth at most, even if the
# exchange is free. With our smallest network, 256 pictures took :timing:`training-a-cnn
# median "small, GPU/cuda:0/n=256" @nvidia-h100-80gb-hbm3` and one took
# :timing:`training-a-cnn median "small, GPU/cuda:0/n=1" @nvidia-h100-80gb-hbm3`. There
# a second GPU saves nothing.
#
# .. holds::
#
#    few, many = (median(f"training-a-cnn/large, GPU/cuda:0/n={n}") for n in (8, 256))
#    near(few / many, 0.8, 0.03)
#    device = row("training-a-cnn/large, GPU/cuda:0/n=8").device_seconds
#    device < few / 2
#    one, full = (median(f"training-a-cnn/small, GPU/cuda:0/n={n}") for n in (1, 256))
#    near(full, one, 0.25)
#
# And what does the exchange cost? Each GPU sends as many bytes as its gradients have,
# and receives as many. At best that takes:

# folded code: Bytes of the gradients, over the rates of data sheets

from firstlight.display import quantity
from firstlight.timing.specs import spec

WEIGHTS = {"our small network": 31_294, "our large network": 9e6}
WEIGHTS |= {"ResNet-50": 25_557_032, "a language model": 1e9}
LINKS = ("PCIe 3 x16", "PCIe 4 x16", "NVLink 4")


def exchange(weights, link):
    """Seconds for two GPUs: each sends half of its bytes, adds, and sends the sum."""
    return 4 * weights / spec(link, "bandwidth")


print(f"{'':20}" + "".join(f"{link:>12}" for link in LINKS))
for name, weights in WEIGHTS.items():
    times = [quantity(exchange(weights, link), "s") for link in LINKS]
    print(f"{name:20}" + "".join(f"{time:>12}" for time in times))

# %%
# DDP begins while ``backward`` still computes, so a part of the exchange is hidden. If
# the bytes go through the CPU's memory, it takes longer.
#
# So before you rent a second GPU, time a step with your batch, and with half of it
# (:doc:`/tutorials/2_devices/07_timing_it_right`). If the batch stays as large as it
# is, you save at most the difference. Where that's large, several GPUs pay off:
#
# .. measured-by-others:: four-v100
#
# If you have many *separate* fits, give each GPU some of them. They have nothing to
# exchange. A grid, as in FDTD, is cut into slabs that exchange their edges. Both are in
# :doc:`/tutorials/4_imaging/11_more_than_one_gpu`.
#
# Your turn
# ---------
#
# The last batch of an epoch may have another size in each process. Then the mean of the
# means is wrong. Write ``combine``: it gets a list of gradients, one from each process,
# each of which is the gradient of a *mean* over its pictures. And it gets a list of how
# many pictures each process had, perhaps none. Return the gradient of the mean over all
# pictures. Put your answer where the dots are, and run ``firstlight try
# 20_two_gpus.py``.


def combine(gradients, counts): ...


# %%

# folded: What checks your answer


def find_problem(answer):
    random = torch.Generator().manual_seed(2)
    for counts in ([64, 64], [64, 3], [1, 2, 5, 128], [7], [16, 0], [0, 9, 4]):
        x = torch.randn(sum(counts), 20, generator=random).double()
        y = torch.randn(sum(counts), 1, generator=random).double()
        shares = zip(x.split(counts), y.split(counts), strict=True)
        gradients = [gradient(*share) for share in shares]
        kept = [each.clone() for each in gradients]
        got = answer(gradients, list(counts))
        if not isinstance(got, torch.Tensor) or got.shape != gradients[0].shape:
            return "return one gradient, a tensor like those you get."
        if not torch.allclose(got, gradient(x, y), rtol=1e-9):
            every, pictures = torch.stack(kept), torch.tensor(counts).double()
            ways = {
                " Each process counts the same, however few it had.": every.mean(0),
                " Count pictures, not processes.": every.sum(0) / (pictures > 0).sum(),
                " Divide by the number of all pictures.": pictures @ every,
                " That's a sum. What is it a mean of?": every.sum(0),
            }
            hint = next((h for h, way in ways.items() if torch.allclose(got, way)), "")
            return f"with {counts} pictures it isn't that of all.{hint}"
        if not all(map(torch.equal, kept, gradients)):
            return "it changes the gradients that it was given."
    return ""


def check(answer):
    try:
        problem = find_problem(answer)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return f"Not yet: {problem}" if problem else "Right, for any share of the batch."


# %%

print(check(combine))

# %%
# Three lines to remember
# -----------------------
#
# The first line is for a batch that doesn't grow.

# remember

slow = quantity(exchange(WEIGHTS["ResNet-50"], "PCIe 3 x16"), "s")
print(f"""\
1. First time a step with half of your batch, on one GPU. Two can't save more.
2. DistributedDataParallel with a DistributedSampler, one process a GPU, and each with
   a batch that fills it. Not DataParallel.
3. After each step all gradients travel: for ResNet-50, {slow} at best over PCIe 3.""")

# %%
# Solution
# --------

# solution


def combine_solution(gradients, counts):
    pairs = zip(gradients, counts, strict=True)
    return sum(count * each for each, count in pairs) / sum(counts)


print(f"Our solution: {check(combine_solution)}")
