"""Causes that stop one program on a card that works: the instances of MIG, a limit on memory, forked processes."""

from __future__ import annotations

from firstlight.doctor.rules.ask import heard
from firstlight.doctor.rules.commands import sudo
from firstlight.doctor.rules.hidden import NO_DEVICE
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

MIG_GUIDE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"
CODES = {2: "out of memory", 304: "a call to the operating system failed"}


@rule("visible")
def mig_without_instance(facts: Facts) -> Seen | None:
    """The card is to be shared out by MIG, but no share was made.

    MIG (multi-instance GPU) splits a large card into instances, which programs see as cards of their own. Where the
    mode is on, the card itself is out of bounds; as long as it has no instance, there is nothing to compute on.
    nvidia-smi shows the card all the same.
    """
    devices = facts.nvml.devices
    if not devices or not all(device.mig and not device.mig_instances for device in devices):
        return None
    if facts.cuda.devices or facts.cuda.init not in (0, NO_DEVICE):
        return None
    root = sudo(facts)
    return Seen(
        evidence=(
            f"MIG is on for {devices[0].name or 'the card'}, and it has no instance",
            f"CUDA's driver started and found no device (cuInit returned {facts.cuda.init})",
        ),
        fix=(
            "On a machine that others use too, ask its administrator for an instance. On your own, this lists the "
            "sizes, and makes an instance of the largest:",
            "$ nvidia-smi mig -lgip",
            f"$ {root}nvidia-smi mig -i 0 -cgi 0 -C",
            "Or have the whole card, without MIG:",
            f"$ {root}nvidia-smi -i 0 -mig 0",
        ),
    )


@rule("visible", kind="note")
def one_mig_instance(facts: Facts) -> Seen | None:
    """A program sees only one of the instances of a card with MIG.

    MIG (multi-instance GPU) splits a card into instances. CUDA gives a program one of them, however many there are:
    torch.cuda.device_count() is 1. Instances are for several programs side by side, not to be joined in one.
    """
    number = sum(device.mig_instances for device in facts.nvml.devices if device.mig)
    chosen = facts.env.get("CUDA_VISIBLE_DEVICES", "")
    if number < 2 or len(facts.cuda.devices) != 1 or (chosen and "," not in chosen):
        return None
    if "MIG" not in facts.cuda.devices[0].name:  # a card without MIG goes before the instances of its neighbours
        return None
    return Seen(
        evidence=(
            f"nvidia-smi's library counts {number} instances, CUDA shows one",
            f"CUDA_VISIBLE_DEVICES={chosen}" if chosen else "CUDA_VISIBLE_DEVICES is not set, so CUDA chose",
        ),
        fix=(
            "Start a program for each instance. Their names, which begin with MIG-, are listed by:",
            "$ nvidia-smi -L",
            "$ CUDA_VISIBLE_DEVICES=MIG-THE_NAME python your_script.py",
        ),
    )


@rule("start")
def address_space_limit(facts: Facts) -> Seen | None:
    """A limit on memory (ulimit -v) leaves CUDA too few addresses.

    The limit is meant for memory that a program fills, but it counts addresses. CUDA sets aside addresses for the
    memory of the cards and of the machine, far more than it ever uses. So it says that memory has run out while most
    of it is free. Batch systems set such limits, and so do shell profiles on shared machines.
    """
    limit, cuda = facts.system.memory_limit, facts.cuda
    codes = CODES.keys() & {cuda.init, *(device.context for device in cuda.devices)}
    line = heard(facts, "out of memory", "cannot allocate memory", "failed to map segment")
    if not limit or not (codes or line) or facts.torch.kernel == "right":
        return None
    return Seen(
        evidence=(
            f"a process may ask for {limit / 2**30:,.1f} GiB of addresses (ulimit -v says {limit // 1024})",
            f"CUDA returned {min(codes)}: {CODES[min(codes)]}" if codes else str(line),
        ),
        fix=(
            "Lift the limit in the terminal, and start the program from it:",
            "$ ulimit -v unlimited",
            "If the shell does not permit it, the limit is the system's: in a batch job, ask for more (h_vmem or "
            "vmem), and ask the administrator to limit memory in use instead of addresses.",
            "If a new terminal has the limit again, this shows the file that sets it:",
            "$ grep -sn -e 'ulimit -v' -e ' as ' ~/.bashrc ~/.profile /etc/profile /etc/security/limits.conf",
        ),
        certainty="likely",
    )


@rule("start")
def forked(facts: Facts) -> Seen | None:
    """A program used the GPU, and then forked a process that uses it too.

    On Linux, Python before 3.14 starts processes by fork: the new one is a copy of the first, with all it holds. A
    driver that has started does not survive the copy. Anything that touches the GPU counts, such as a tensor made on
    it when a module is imported, or by a Dataset that DataLoader copies into its workers. The GPU itself is well.
    """
    line = heard(facts, "in forked subprocess", "CUDA initialized before forking")
    if not line:
        return None
    return Seen(
        evidence=(line,),
        fix=(
            "Let new processes begin afresh. At the top of the program, under if __name__ == '__main__':",
            "torch.multiprocessing.set_start_method('spawn')",
            "For a DataLoader alone:",
            "DataLoader(…, multiprocessing_context='spawn')",
            "Better still, let a Dataset return tensors on the CPU, and move each batch to the GPU in the main "
            "process; then fork does no harm, as long as nothing touches the GPU before the workers start.",
            "'forkserver' does as well as 'spawn'. Both import your program again: what must run only once belongs "
            "under if __name__ == '__main__'.",
        ),
    )
