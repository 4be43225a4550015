"""Causes between a program and the driver that runs: its device files, and how it starts (the codes of cuInit)."""

from __future__ import annotations

import re

from firstlight_doctor.rules.checks import OF_CARD
from firstlight_doctor.rules.libcuda import cuda_errors
from firstlight_doctor.rules.machine import closed_files, find_in_log, find_message, nvml_sees, on_bus
from firstlight_doctor.rules.rule import RULES, Signs, rule, signs
from firstlight_doctor.schema import HUNG, Facts


@rule("nodes", on="linux", unless="slurm-job-without-gpu container-lost-gpu")
def no_permission(facts: Facts) -> Signs | None:
    """You may not open the card's device files.

    A program reaches a card through files in /dev, and these have owners like any other file. A cluster also opens
    them only to a job that asked for a card, and closes them to everyone else on the machine, whatever the owners
    are.

    To do (cluster):
    {ask_slurm}

    To do (container):
    Start the container with the group of the device files on the host, with Docker or with Podman:
    $ docker run --gpus all --group-add $(stat -c %g /dev/nvidia0) IMAGE
    $ podman run --device nvidia.com/gpu=all --group-add keep-groups IMAGE

    To do (group):
    $ {sudo}usermod -aG {group} $USER
    Then log out and in again.

    To do:
    Unless someone closed them on purpose, open the files to every user, as the driver does by itself:
    $ echo options nvidia NVreg_DeviceFileMode=0666 | {sudo}tee /etc/modprobe.d/nvidia-files.conf
    {rebuild_boot}
    $ {sudo}reboot
    """
    closed = [node for node in closed_files(facts) if node.path.startswith("/dev/nv")]
    if facts.cuda.devices or not (closed or facts.nvml.init == 4):
        return None
    return signs(
        *(f"you may not open {node.path}, of the group {node.group or 'unknown'}" for node in closed[:4]),
        "nvmlInit returned 4: insufficient permissions" if facts.nvml.init == 4 else None,
        certainty="certain" if closed else "likely",
        group=next((node.group for node in closed if node.group not in (None, "root", "nogroup")), None),
    )


@rule("nodes", on="linux", unless="wsl jetson closed-module card-too-old container-without-gpu container-lost-gpu")
def uvm_missing(facts: Facts) -> Signs | None:
    """Device files of NVIDIA's driver are missing, most often that of its module nvidia_uvm.

    NVIDIA's driver is several modules. CUDA manages memory through one of its own, nvidia_uvm, with its own device
    file /dev/nvidia-uvm. nvidia-smi does without, so it shows the card while CUDA reports an unknown error, or none.
    PyTorch's hint at CUDA_VISIBLE_DEVICES does not apply. On a machine without a screen, all of the files may be
    missing, or those of the cards (/dev/nvidia0): then nvidia-smi and CUDA find no device, although it is on the bus.

    To do (container):
    Run this on the machine around the container, and then start the container anew:
    $ sudo nvidia-modprobe -c 0 -u
    To load it at every start of the machine:
    $ echo nvidia_uvm | sudo tee /etc/modules-load.d/nvidia-uvm.conf

    To do:
    $ {sudo}nvidia-modprobe -c 0 -u
    To load it at every start of the machine:
    $ echo nvidia_uvm | {sudo}tee /etc/modules-load.d/nvidia-uvm.conf
    """
    files = [node.path for node in facts.nodes if node.path.startswith("/dev/nvidia")]
    card = any(re.fullmatch(r"/dev/nvidia\d+", path) for path in files)
    missing = "/dev/nvidia-uvm" if "/dev/nvidia-uvm" not in files else "/dev/nvidia0" if not card else None
    dark = facts.cuda.init == 100 and not closed_files(facts)  # where they are closed, that explains it
    without = dark or facts.cuda.init in (3, 304, 999) if files else facts.kernel.version and not facts.cuda.devices
    if not without or not missing or facts.cuda.error:
        return None
    return signs(
        *cuda_errors(facts),
        f"{', '.join(files[:3])} are there, {missing} is not" if files else "there is no file /dev/nvidia…",
        None if "nvidia_uvm" in facts.kernel.loaded else "nvidia_uvm is not loaded",
        certainty="likely" if files and facts.cuda.init == 100 else "certain",
    )


@rule("start", on="linux", unless="uvm-missing closed wsl jetson container-lost-gpu")
def uvm_stale(facts: Facts) -> Signs | None:
    """The kernel module nvidia_uvm is in a bad state, as it often is after the machine has slept.

    CUDA manages memory through nvidia_uvm, a module of NVIDIA's driver. When a machine sleeps while a program uses
    the card, this module can wake up broken. nvidia-smi does without it, so it shows the card while CUDA reports an
    unknown error, until the module is loaded anew. PyTorch's hint at CUDA_VISIBLE_DEVICES does not apply.

    To do:
    [container] Run this on the host, outside the container.
    $ {sudo}rmmod nvidia_uvm
    $ {sudo}modprobe nvidia_uvm
    If rmmod says that the module is in use, end these programs (notebooks, too) first, or restart the machine:
    $ {sudo}fuser -v /dev/nvidia-uvm
    """
    uvm = any(node.path == "/dev/nvidia-uvm" for node in facts.nodes)
    if facts.cuda.init != 999 or facts.nvml.init == 999 or not uvm or facts.nvml.refused:
        return None
    return signs(*cuda_errors(facts), nvml_sees(facts), "/dev/nvidia-uvm is there", certainty="likely")


@rule("start", on="bare", unless="uvm-missing closed")
def hmm(facts: Facts) -> Signs | None:
    """CUDA fails to start because of HMM, a feature of the Linux kernel.

    With HMM (heterogeneous memory management) a card can use all memory of a program. NVIDIA's module nvidia_uvm uses
    it where the kernel offers it, and on some kernels fails to start for that reason, most often with the open kernel
    module. nvidia-smi needs none of this and works. You lose nothing here by switching it off: PyTorch and Numba do
    without.

    To do:
    {no_hmm}
    $ {sudo}reboot
    A newer driver may not need this any more.
    """
    if facts.cuda.init != 3 or facts.nvml.init not in (0, None):
        return None
    kind = {True: "open", False: "closed", None: "NVIDIA's"}[facts.kernel.open_module]
    sees = nvml_sees(facts) if facts.nvml.devices else None
    return signs(
        *cuda_errors(facts),
        sees,
        f"{kind} kernel module {facts.kernel.version or ''}".strip(),
        certainty="likely" if facts.kernel.open_module and sees else "possible",
    )


@rule("start", on="linux", unless="uvm-missing closed address-space-limit")
def system_call_refused(facts: Facts) -> Signs | None:
    """Linux refuses something that CUDA asks of it.

    When it starts, CUDA opens files, maps memory and asks things of its kernel modules. Code 304 says that Linux
    refused one of these. In a container it is often the filter for system calls (seccomp); on a plain machine a
    kernel that the driver does not fit, or modules that an update left half replaced.

    To do (container):
    Try once without the filter for system calls, which is a protection. If that helps, update Docker:
    $ docker run --security-opt seccomp=unconfined --gpus all IMAGE

    To do:
    $ {sudo}reboot
    If it comes again, switch off HMM, which some kernels offer in a way that the driver fails on:
    {no_hmm}
    Otherwise install a newer driver. This shows which call is refused, in the lines before the end:
    $ strace -f python -c 'import ctypes; print(ctypes.CDLL("libcuda.so.1").cuInit(0))' 2>&1 | tail -30
    """
    if facts.cuda.init != 304:
        return None
    place = f"this is a container ({facts.system.container})" if facts.system.container else None
    kernel = f"kernel {facts.system.kernel}" if facts.system.kernel else None
    log = find_in_log(facts, "NVRM|nvidia")
    return signs(*cuda_errors(facts), place, kernel, log, certainty="likely" if place else "possible")


@rule("start", on="linux")
def address_space_limit(facts: Facts) -> Signs | None:
    """A limit on memory (ulimit -v) leaves CUDA too few addresses.

    The limit is meant for memory that a program fills, but it counts addresses. CUDA sets aside addresses for the
    memory of the cards and of the machine, far more than it ever uses. So it says that memory has run out while most
    of it is free. Batch systems set such limits, and so do shell profiles on shared machines.

    To do:
    Lift the limit in the terminal, and start the program from it:
    $ ulimit -v unlimited
    If the shell refuses, ask for more in the batch job (h_vmem, vmem), or the administrator for another limit.
    If a new terminal has the limit again, this shows the file that sets it:
    $ grep -sn -e 'ulimit -v' -e ' as ' ~/.bashrc ~/.profile /etc/profile /etc/security/limits.conf
    """
    limit, codes = facts.system.memory_limit, cuda_errors(facts, 2, 304)
    line = find_message(facts, "out of memory", "cannot allocate memory", "failed to map segment")
    if not limit or not (codes or line) or facts.torch.kernel == "right":
        return None
    allowed = f"a process may ask for {limit / 2**30:,.1f} GiB of addresses (ulimit -v says {limit // 1024})"
    return signs(allowed, *(codes[:1] or [line]), certainty="likely")


@rule("start", on="linux")
def hangs(facts: Facts) -> Signs | None:
    """The driver does not answer: CUDA hangs when it starts.

    A card whose own control program has crashed answers no more, and everything that asks it waits for ever. On a
    machine with many cards it may also be mere slowness: the driver wakes every card for each program, unless
    something keeps them awake.

    To do:
    [slow] First try whether it is only slow, by keeping the cards awake:
    [slow] $ {sudo}nvidia-smi -pm 1
    $ {sudo}reboot
    If it comes again, the card or its driver fails under load: update the driver, and watch the temperature.
    """
    failed, nvml = facts.cuda.failed or "", facts.nvml.failed
    if not failed.startswith(HUNG):
        return None
    line = find_in_log(facts, r"Xid|GSP|timeout")
    return signs(
        f"asking CUDA {failed}",
        f"asking NVML {nvml}" if nvml else nvml_sees(facts) if facts.nvml.devices else None,
        line,
        certainty="likely" if line or nvml else "possible",
        slow=len(facts.gpus) > 2 and not line and not nvml,
    )


@rule(
    "start",
    on="nvidia",
    unless="container card-lost cuda-visible-devices driver-half-updated forward-compatibility linux-driver-in-wsl "
    "stub-library",
)
def windows_driver(facts: Facts) -> Signs | None:
    """CUDA does not start with NVIDIA's driver on Windows, or finds no card.

    CUDA's library is there, and the driver behind it does not answer as it should: an update replaced a part of it, or
    the card is switched off. Linux inside Windows (WSL) uses the driver of Windows, too. A new driver, installed
    cleanly, mends most of it.

    To do:
    Restart Windows. Then, in PowerShell there, see whether NVIDIA's driver runs:
    $ nvidia-smi
    If not, see whether the Device Manager has the card under "Display adapters", without a yellow sign. On a laptop,
      its maker's program may have switched the card off to save power.
    Install the newest driver, with "Custom" and "Perform a clean installation" chosen:
      https://www.nvidia.com/en-us/drivers/
    [wsl] In PowerShell on Windows, bring WSL up to date and start it anew:
    [wsl] $ wsl --update
    [wsl] $ wsl --shutdown
    """
    cuda, system = facts.cuda, facts.system
    asked = f"asking CUDA {cuda.failed}" if cuda.failed else None
    shows = "CUDA starts, and shows no device" if cuda.init == 0 and not cuda.devices and not asked else None
    by_card = {cuda.init, *(card.context for card in cuda.devices)} & {*OF_CARD}
    if by_card or not (cuda_errors(facts) or asked or shows) or not (system.os == "windows" or system.wsl):
        return None
    return signs(*cuda_errors(facts), asked, shows, certainty="possible")


@rule(
    "visible", on="nvidia linux", unless="card-asleep closed cuda-visible-devices mig-without-instance windows-driver"
)
def nvml_sees_cuda_does_not(facts: Facts) -> Signs | None:
    """The driver runs, and CUDA finds no card, though nvidia-smi may show one.

    nvidia-smi asks NVML, a library that only reports; it needs neither nvidia_uvm nor a place on the card. So
    "nvidia-smi works" proves that the driver runs, and nothing more. Here the driver runs and CUDA finds no device,
    for a reason that its code does not tell. What usually hides a card was looked for and not found: no variable such
    as CUDA_VISIBLE_DEVICES, no missing or closed device file, no container without it, no MIG, no virtual machine.

    To do:
    See whether the card is there; its mode must not be Prohibited, which an administrator can set back:
    $ nvidia-smi --query-gpu=index,name,compute_mode --format=csv
    $ {sudo}nvidia-smi --compute-mode=DEFAULT
    If it is not there, the driver may not know this card, or another driver may have it. These tell:
    $ lspci -k -d 10de:
    $ {sudo}dmesg | grep NVRM
    In a program, os.environ may hide the card from that program alone. Inside a container, try a new one.
    Otherwise restart the machine. If it comes again, ask with the report of:
    $ firstlight-doctor --json
    """
    cuda = facts.cuda
    earlier = (each for each in RULES if each.question in ("driver", "nodes", "library", "start"))
    if cuda.init is None or cuda.devices or cuda.failed or any(each.look(facts) for each in earlier):
        return None
    return signs(
        *(f"on the bus is NVIDIA's model {gpu.device}, run by {gpu.driver}" for gpu in on_bus(facts, "nvidia")),
        nvml_sees(facts),
        f"cuInit returned {cuda.init}, and CUDA shows no device",
        certainty="possible",
    )
