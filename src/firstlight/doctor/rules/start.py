"""Causes between a program and the driver that runs: its device files, and how it starts (the codes of cuInit)."""

from __future__ import annotations

from firstlight.doctor.rules.ask import bare, cluster, logged, shut
from firstlight.doctor.rules.commands import sudo
from firstlight.doctor.rules.driver import rebuilt
from firstlight.doctor.rules.place import ASK_SLURM, slurm_job_without_gpu
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

# Codes of cuInit that have causes of their own, here, in library.py, card.py or context.py.
EXPLAINED = (0, 3, 34, 46, 101, 214, 304, 802, 803, 804, 999)
WORKS = "NVML, the library behind nvidia-smi, sees "


def nvml_sees(facts: Facts) -> str:
    """What nvidia-smi would show, in words."""
    names = [device.name or "a card" for device in facts.nvml.devices]
    return WORKS + (", ".join(names) if names else "no card")


def uvm_there(facts: Facts) -> bool:
    """Whether the device file of nvidia_uvm is there."""
    return any(node.path == "/dev/nvidia-uvm" for node in facts.nodes)


@rule("nodes")
def no_permission(facts: Facts) -> Seen | None:
    """You may not open the card's device files.

    A program reaches a card through files in /dev, and these have owners like any other file. A cluster also opens
    them only to a job that asked for a card, and closes them to everyone else on the machine, whatever the owners
    are.
    """
    system, closed = facts.system, [node for node in shut(facts) if node.path.startswith("/dev/nv")]
    if facts.cuda.devices or not (closed or facts.nvml.init == 4):
        return None
    if slurm_job_without_gpu(facts) or (system.container and facts.nvml.init == 999):
        return None  # causes of their own
    group = next((node.group for node in closed if node.group not in (None, "root", "nogroup")), None)
    if cluster(facts):
        steps: tuple[str, ...] = ASK_SLURM
    elif system.container:
        steps = (
            "Start the container with the group of the device files on the host, with Docker or with Podman:",
            "$ docker run --gpus all --group-add $(stat -c %g /dev/nvidia0) IMAGE",
            "$ podman run --device nvidia.com/gpu=all --group-add keep-groups IMAGE",
        )
    elif group:
        steps = (f"$ {sudo(facts)}usermod -aG {group} $USER", "Then log out and in again.")
    else:
        steps = (
            "Unless someone closed them on purpose, open the files to every user, as the driver does by itself:",
            f"$ echo options nvidia NVreg_DeviceFileMode=0666 | {sudo(facts)}tee /etc/modprobe.d/nvidia-files.conf",
            rebuilt(facts),
            f"$ {sudo(facts)}reboot",
        )
    owners = [f"you may not open {node.path}, of the group {node.group or 'unknown'}" for node in closed[:4]]
    said = ["nvmlInit returned 4: insufficient permissions"] if facts.nvml.init == 4 else []
    return Seen(evidence=(*owners, *said), fix=steps, certainty="certain" if closed else "likely")


@rule("nodes")
def uvm_missing(facts: Facts) -> Seen | None:
    """The kernel module nvidia_uvm is not there for your program.

    NVIDIA's driver is several modules. CUDA manages memory through one of its own, nvidia_uvm, with its own device
    file /dev/nvidia-uvm. nvidia-smi does without, so it shows the card while CUDA reports an unknown error. PyTorch's
    hint at CUDA_VISIBLE_DEVICES does not apply.
    """
    system, cards = facts.system, [node for node in facts.nodes if node.path.startswith("/dev/nvidia")]
    if facts.cuda.init not in (3, 304, 999) or facts.nvml.init == 999 or not cards or uvm_there(facts):
        return None
    if system.wsl or system.tegra:
        return None
    inside, root = system.container, "sudo " if system.container else sudo(facts)
    return Seen(
        evidence=(
            f"cuInit returned {facts.cuda.init}",
            f"{', '.join(node.path for node in cards[:3])} are there, /dev/nvidia-uvm is not",
            *(() if "nvidia_uvm" in facts.kernel.loaded else ("nvidia_uvm is not loaded",)),
        ),
        fix=(
            *(("Run this on the machine around the container, and then start the container anew:",) if inside else ()),
            f"$ {root}nvidia-modprobe -c 0 -u",
            "To load it at every start of the machine:",
            f"$ echo nvidia_uvm | {root}tee /etc/modules-load.d/nvidia-uvm.conf",
        ),
    )


@rule("start")
def uvm_stale(facts: Facts) -> Seen | None:
    """The kernel module nvidia_uvm is in a bad state, as it often is after the machine has slept.

    CUDA manages memory through nvidia_uvm, a module of NVIDIA's driver. When a machine sleeps while a program uses
    the card, this module can wake up broken. nvidia-smi does without it, so it shows the card while CUDA reports an
    unknown error, until the module is loaded anew. PyTorch's hint at CUDA_VISIBLE_DEVICES does not apply.
    """
    system = facts.system
    if facts.cuda.init != 999 or facts.nvml.init == 999 or system.os != "linux" or system.wsl or system.tegra:
        return None
    if not uvm_there(facts) or shut(facts) or facts.nvml.refused:
        return None
    where = ("Run this on the host, outside the container.",) if system.container else ()
    return Seen(
        evidence=("cuInit returned 999, an unknown error", nvml_sees(facts), "/dev/nvidia-uvm is there"),
        fix=(
            *where,
            f"$ {sudo(facts)}rmmod nvidia_uvm",
            f"$ {sudo(facts)}modprobe nvidia_uvm",
            "If rmmod says that the module is in use, end the programs that use the card first (notebooks, too), or "
            "restart the machine. This shows them:",
            f"$ {sudo(facts)}fuser -v /dev/nvidia-uvm",
        ),
        certainty="likely",
    )


@rule("start")
def hmm(facts: Facts) -> Seen | None:
    """CUDA fails to start because of HMM, a feature of the Linux kernel.

    With HMM (heterogeneous memory management) a card can use all memory of a program. NVIDIA's module nvidia_uvm uses
    it where the kernel offers it, and on some kernels fails to start for that reason, most often with the open kernel
    module. nvidia-smi needs none of this and works. You lose nothing here by switching it off: PyTorch and Numba do
    without.
    """
    if facts.cuda.init != 3 or facts.nvml.init not in (0, None) or not bare(facts) or shut(facts) or uvm_missing(facts):
        return None
    kind = "open" if facts.kernel.open_module else "closed" if facts.kernel.open_module is False else "NVIDIA's"
    sees = (nvml_sees(facts),) if facts.nvml.devices else ()
    return Seen(
        evidence=(
            "cuInit returned 3: not initialised",
            *sees,
            f"{kind} kernel module {facts.kernel.version or ''}".strip(),
        ),
        fix=(
            f"$ echo options nvidia_uvm uvm_disable_hmm=1 | {sudo(facts)}tee /etc/modprobe.d/nvidia-hmm.conf",
            f"$ {sudo(facts)}reboot",
            "A newer driver may not need this any more.",
        ),
        certainty="likely" if facts.kernel.open_module and sees else "possible",
    )


@rule("start")
def system_call_refused(facts: Facts) -> Seen | None:
    """Linux refuses something that CUDA asks of it.

    When it starts, CUDA opens files, maps memory and asks things of its kernel modules. Code 304 says that Linux
    refused one of these. In a container it is often the filter for system calls (seccomp); on a plain machine a
    kernel that the driver does not fit, or modules that an update left half replaced.
    """
    if facts.cuda.init != 304 or shut(facts) or facts.system.memory_limit or uvm_missing(facts):
        return None
    if facts.system.container:
        steps: tuple[str, ...] = (
            "Try once without the filter for system calls, which is a protection. If that helps, update the container "
            "engine, whose filter is old, and run with the filter again:",
            "$ docker run --security-opt seccomp=unconfined --gpus all IMAGE",
        )
    else:
        steps = (
            f"$ {sudo(facts)}reboot",
            "If it comes again, switch off HMM, which some kernels offer in a way that the driver fails on:",
            f"$ echo options nvidia_uvm uvm_disable_hmm=1 | {sudo(facts)}tee /etc/modprobe.d/nvidia-hmm.conf",
            "Otherwise install a newer driver. This shows which call is refused, in the lines before the end:",
            "$ strace -f python -c 'import ctypes; print(ctypes.CDLL(\"libcuda.so.1\").cuInit(0))' 2>&1 | tail -30",
        )
    place = f"this is a container ({facts.system.container})" if facts.system.container else None
    seen = (place, f"kernel {facts.system.kernel}" if facts.system.kernel else None, logged(facts, "NVRM|nvidia"))
    return Seen(
        evidence=("cuInit returned 304: a call to the operating system failed", *(each for each in seen if each)),
        fix=steps,
        certainty="likely" if place else "possible",
    )


@rule("start")
def hangs(facts: Facts) -> Seen | None:
    """The driver does not answer: CUDA hangs when it starts.

    A card whose own control program has crashed answers no more, and everything that asks it waits for ever. On a
    machine with many cards it may also be mere slowness: the driver wakes every card for each program, unless
    something keeps them awake.
    """
    failed = facts.cuda.failed or ""
    if not failed.startswith("hung"):
        return None
    line = logged(facts, r"Xid|GSP|timeout")
    nvml = f"asking NVML {facts.nvml.failed}" if facts.nvml.failed else nvml_sees(facts) if facts.nvml.devices else None
    many = len(facts.gpus) > 2 and not line and not facts.nvml.failed
    awake = ("First try whether it is only slow, by keeping the cards awake:", f"$ {sudo(facts)}nvidia-smi -pm 1")
    return Seen(
        evidence=tuple(each for each in (f"asking CUDA {failed}", nvml, line) if each),
        fix=(
            *(awake if many else ()),
            f"$ {sudo(facts)}reboot",
            "If it comes again, the card or its driver fails under load: update the driver, and watch the temperature.",
        ),
        certainty="likely" if line or facts.nvml.failed else "possible",
    )


@rule("visible")
def nvml_sees_cuda_does_not(facts: Facts) -> Seen | None:
    """nvidia-smi sees the card, and CUDA does not.

    nvidia-smi asks NVML, a library that only reports; it needs neither nvidia_uvm nor a place on the card. So
    "nvidia-smi works" proves that the driver runs, and nothing more. Here the driver runs and CUDA finds no device,
    for a reason that its code does not tell.
    """
    cuda, hidden = facts.cuda, {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"} & facts.env.keys()
    if not facts.nvml.devices or cuda.devices or cuda.init is None or (cuda.init in EXPLAINED and cuda.init):
        return None
    if hidden or shut(facts) or facts.system.wsl or facts.system.memory_limit:
        return None
    if any(device.mig for device in facts.nvml.devices) or cuda.failed:
        return None
    return Seen(
        evidence=(nvml_sees(facts), f"cuInit returned {cuda.init}, and CUDA shows no device"),
        fix=(
            'Look whether the administrator has closed the card for computing: the mode must not be "Prohibited".',
            "$ nvidia-smi --query-gpu=index,name,compute_mode --format=csv",
            f"$ {sudo(facts)}nvidia-smi --compute-mode=DEFAULT",
            "If that was not it, restart the machine. If it comes again, ask with the report of:",
            "$ firstlight doctor --json",
        ),
        certainty="possible",
    )
