"""Causes in the kind of machine: no GPU at all, a cluster, Windows, and the Linux inside Windows (WSL)."""

from __future__ import annotations

from shlex import quote

from firstlight_doctor.rules.machine import VENDORS, closed_files, unsupported
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.rules.wheels import conda_cpu_build
from firstlight_doctor.schema import Facts


@rule("bus", kind="no-gpu", unless="gpu cluster not-supported wsl-without-gpu")
def no_gpu(facts: Facts) -> Signs | None:
    """There is no GPU in this machine that PyTorch can use.

    Nothing is broken. Most laptops and many servers have no GPU of the kind that PyTorch computes on. If you know that
    one is built in, it gets no power, is turned off in the firmware (BIOS), or, in a virtual machine, is not passed
    through to it.

    To do:
    {works_on_cpu}
    [container] This is a container ({engine}): it sees what it was given. If the machine around it has a GPU of NVIDIA,
      start it there with the GPU:
    [container] {start_with_gpu}
    To compute on a GPU, take your program to a machine that has one: a colleague's, a cluster (there you ask for a GPU
      when you start a job), or a notebook service that lends one.
    """
    if facts.system.os == "darwin":
        seen = "this Mac has no Apple chip, and PyTorch computes on no other GPU of a Mac"
    elif facts.gpus:
        models = ", ".join(f"{gpu.vendor} {gpu.device or ''}".strip() for gpu in facts.gpus)
        seen = f"on the bus is only what draws the screen, and PyTorch has no code for it: {models}"
    else:
        seen = "no card of NVIDIA, AMD or Intel is on the bus, and there are no device files of one"
    return signs(seen, engine=facts.system.container)


@rule("bus", kind="no-gpu", unless="gpu cluster")
def not_supported(facts: Facts) -> Signs | None:
    """PyTorch has nothing for a GPU as old as yours, or for one inside an older processor.

    A program for a GPU is compiled for its generation. PyTorch's wheels begin with NVIDIA's Maxwell (GeForce GTX 750
    and 900) if they are for CUDA 12.6, with Turing (RTX 20) if they are for CUDA 13, and with Intel's Arc; they have
    code for some of AMD's Radeons and Instincts. They leave out most GPUs that are part of a processor, which are
    there to draw the screen. That is no fault of your machine, and everything runs on the CPU.

    To do:
    {works_on_cpu}
    [amd_card] AMD has wheels of its own, for more cards: https://rocm.docs.amd.com/
    """
    old = [gpu for gpu in facts.gpus if unsupported(facts, gpu)]
    if not old:
        return None
    return signs(
        *(f"on the bus is {VENDORS[gpu.vendor]}'s model {gpu.device or ''}".strip() for gpu in old),
        *(f"amdgpu calls its architecture {name}" for name in facts.kernel.gfx),
        amd_card=any(gpu.vendor == "amd" for gpu in old),
    )


@rule("bus", kind="no-gpu", on="cluster", unless="gpu")
def cluster_node_without_gpu(facts: Facts) -> Signs | None:
    """You are on a node of a cluster that has no GPU.

    A cluster is many machines, its nodes. The one that you log in to mostly has no GPU; a scheduler, here Slurm, runs
    your work on others. It takes a node with a GPU only if you ask for a GPU.

    To do:
    {ask_slurm}
    [not built] PyTorch is {state}. For nodes with NVIDIA's GPUs, where the driver is 580 or newer (nvidia-smi tells it
      there; for an older one write cu126):
    [not built] {torch_cuda}
    """
    torch, where = facts.torch, "sbatch, Slurm's command, is here, and this is no job: it is a node to log in to"
    if "SLURM_JOB_ID" in facts.env:
        where = "this runs in a job of Slurm: SLURM_JOB_ID is set"
    return signs(
        "no GPU is on the bus",
        where,
        built=torch.cuda or torch.hip or torch.xpu or conda_cpu_build(facts),
        state="for the CPU alone" if torch.version else "not installed",
    )


@rule("nodes", on="gpu")
def slurm_job_without_gpu(facts: Facts) -> Signs | None:
    """Slurm gave your job no GPU, because it did not ask for one.

    The node has GPUs, but Slurm opens only those that a job asked for. To have landed on the node, or in a partition
    that is called gpu, is not enough. nvidia-smi may still run, and list no device.

    To do:
    {ask_slurm}
    """
    env, closed = facts.env, [node.path for node in closed_files(facts)]
    asked = "SLURM_JOB_GPUS" in env or env.get("SLURM_GPUS_ON_NODE", "0") != "0"
    hidden = env.get("CUDA_VISIBLE_DEVICES") == "NoDevFiles"
    computes = facts.cuda.devices or facts.torch.kind
    if "SLURM_JOB_ID" not in env or asked or computes or not (closed or hidden):
        return None
    return signs(
        "this runs in a job of Slurm, to which it gave no GPU: SLURM_JOB_ID is set, SLURM_JOB_GPUS is not",
        f"it may not open {', '.join(closed)}" if closed else None,
        "Slurm set CUDA_VISIBLE_DEVICES=NoDevFiles" if hidden else None,
    )


@rule("bus", kind="no-gpu", on="wsl", unless="container gpu")
def wsl_without_gpu(facts: Facts) -> Signs | None:
    """Windows lends no GPU to this Linux.

    In WSL, the Linux inside Windows, the card belongs to Windows, which lends it through the file /dev/dxg. WSL 1 has
    no such file at all; WSL 2 has it if Windows, its driver and WSL are new enough, and the machine has a GPU. Windows
    must be Windows 11, or Windows 10 from version 21H2 on (build 19044). nvcc proves nothing here: it needs no driver.

    To do (first_wsl):
    Turn this Linux into WSL 2. In PowerShell on Windows, the first command tells its name:
    $ wsl --list --verbose
    $ wsl --set-version Ubuntu 2
    If Windows is older than build 19044, let Windows Update bring it up to date first. This tells the build:
    $ winver
    If the computer has no GPU:
    {works_on_cpu}

    To do:
    In PowerShell on Windows, see which build it is. If it's older than 19044, let Windows Update bring it up to date,
      because no driver and no WSL makes up for that:
    $ winver
    Then bring WSL up to date, and start it anew:
    $ wsl --update
    $ wsl --shutdown
    If /dev/dxg is still missing, install the newest driver of the card on Windows, and see that the file .wslconfig in
      your Windows home folder does not say gpuSupport=false.
    If the computer has no GPU:
    {works_on_cpu}
    """
    release = facts.system.kernel or "not known"
    first = release.endswith("-Microsoft")  # WSL 2 writes it small, and ends in "WSL2"
    runs = f"the kernel is {release}{', which is WSL 1' if first else ''}"
    return signs("there is no /dev/dxg", runs, certainty="likely", first_wsl=first)


@rule("driver", on="wsl for_nvidia", unless="container")
def wsl_without_driver(facts: Facts) -> Signs | None:
    """Windows lends this Linux a GPU, but no driver of NVIDIA.

    In WSL the driver on Windows brings CUDA's library for Linux along: Windows shows it in /usr/lib/wsl/lib. It is not
    there if Windows runs the card with a driver of its own, or if the card is not one of NVIDIA.

    To do:
    If the computer has a card of NVIDIA, install its driver on Windows, never in here:
      https://www.nvidia.com/en-us/drivers/
    Then, in PowerShell on Windows:
    $ wsl --update
    $ wsl --shutdown
    If this finds the library in here all the same, only the list of libraries is out of date:
    $ ls /usr/lib/wsl/lib/libcuda.so.1 && sudo ldconfig
    If the computer has no card of NVIDIA, there is nothing to mend:
    {works_on_cpu}
    """
    if not facts.cuda.error or facts.torch.kind:
        return None
    return signs("/dev/dxg is there", f"CUDA's library is not: {facts.cuda.error}", certainty="likely")


@rule("driver", on="windows nvidia")
def windows_without_driver(facts: Facts) -> Signs | None:
    """Windows runs the card without NVIDIA's driver.

    Until NVIDIA's driver is installed, Windows draws the screen with one of its own, which the Device Manager calls
    Microsoft Basic Display Adapter. PyTorch's wheel brings all of CUDA that it needs, but for nvcuda.dll, the library
    that comes with the driver, as nvidia-smi does.

    To do:
    Install the newest driver for your card, and restart: https://www.nvidia.com/en-us/drivers/
    """
    if not facts.cuda.error or facts.nvml.driver or facts.torch.kind:
        return None
    return signs("the card is NVIDIA's", f"CUDA's library is not found: {facts.cuda.error}")


@rule("library", on="wsl")
def linux_driver_in_wsl(facts: Facts) -> Signs | None:
    """A Linux driver inside WSL hides the one that Windows lends.

    In WSL the driver belongs on Windows, and Linux finds its library in /usr/lib/wsl/lib. A driver installed inside,
    often by a guide for plain Linux, brings a library of the same name, which is found first and knows no card.
    Numba may fail where PyTorch works, because it asks for libcuda.so, and PyTorch for libcuda.so.1.

    To do:
    [not apt] In here, remove the packages of NVIDIA's driver.
    [apt] In here, this tells which package the library came with:
    [apt] $ dpkg -S {path}
    [apt] Remove it; the list that is shown should name packages of NVIDIA's driver alone:
    [apt] $ sudo apt purge {packages}
    $ sudo ldconfig
    In PowerShell on Windows, start WSL anew:
    $ wsl --shutdown
    If you need nvcc in here, install NVIDIA's cuda-toolkit-13-0 alone. The packages cuda and cuda-drivers would bring
      the driver back.
    Until then a program can be pointed to the right library:
    $ LD_LIBRARY_PATH=/usr/lib/wsl/lib python your_script.py
    An older Numba also takes the file itself:
    $ NUMBA_CUDA_DRIVER=/usr/lib/wsl/lib/libcuda.so.1 python your_script.py
    """
    path, init = facts.cuda.path or "", facts.cuda.init
    known = any(place in path for place in ("/usr/lib/wsl/", "/compat/", "/stubs/"))
    if not path or known or facts.cuda.devices:
        return None
    debian = facts.system.distro[:1] == ("debian",)
    return signs(
        f"CUDA's library is {path}, not the one in /usr/lib/wsl/lib",
        f"cuInit, with which it starts, returned {init}" if init is not None else None,
        path=quote(path),
        packages="libcuda1 'nvidia-driver*'" if debian else "'*nvidia-compute*'",
    )
