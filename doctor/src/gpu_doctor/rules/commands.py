"""The commands that several rules prescribe, as this system has them."""

from __future__ import annotations

import re
from shlex import quote
from typing import Callable

from gpu_doctor.rules.machine import (
    capabilities,
    cluster,
    driver_version,
    is_blackwell,
    is_old_card,
    major,
    major_minor,
    vendor_of,
)
from gpu_doctor.schema import Facts

# The first release of PyTorch that has a kind of wheel, and the first that no longer has it.
RELEASES = {"cu126": ((2, 6), (2, 15)), "cu130": ((2, 9), (99, 0))}
EXTRAS = (0, 20)  # the first numba-cuda that brings CUDA 13
OURS = "2.13.0"  # the release that the site's page on installing names
FIRST_DRIVER = {12: 525, 13: 580}  # that can run programs of a generation of CUDA
JETSON_GUIDE = "https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform/"
RADEON = "https://rocm.docs.amd.com/projects/radeon-ryzen/en/latest/docs/install/installrad"


def sudo(facts: Facts) -> str:
    """Return what comes before a command that only the administrator may run."""
    return "" if facts.system.root or facts.system.os == "windows" else "sudo "


def pip(facts: Facts) -> str:
    """Return how packages are installed here."""
    return "uv pip install" if "uv" in facts.system.commands else "python -m pip install"


def uninstall(facts: Facts) -> str:
    """Return how packages are removed here."""
    return "uv pip uninstall" if "uv" in facts.system.commands else "python -m pip uninstall --yes"


def reinstall(facts: Facts) -> str:
    """Return how a package is installed over itself here."""
    return f"{pip(facts)} {'--reinstall' if 'uv' in facts.system.commands else '--force-reinstall'}"


def torch_for(facts: Facts, tag: str) -> str:
    """Return the command that installs PyTorch from the index of a kind of wheel: "cu130", "cu126", "xpu"."""
    version = re.match(r"\d+\.\d+\.\d+(?![\da-z]|\.dev)", facts.torch.version or "")  # no index keeps nightly builds
    first, end = RELEASES.get(tag, ((0, 0), (99, 0)))
    there = version and first <= major_minor(version[0]) < end
    which = f'"torch=={version[0] if version and there else OURS}"' if version else "torch"
    return f"$ {reinstall(facts)} {which} --index-url https://download.pytorch.org/whl/{tag}"


def numba_for(facts: Facts, tag: str) -> str:
    """Return the command that installs Numba's CUDA target with the CUDA of a kind of wheel.

    Examples
    --------
    >>> numba_for(Facts(), "cu126")
    '$ python -m pip install "numba-cuda[cu12]" "cuda-toolkit==12.6.*"'
    """
    old = facts.numba.target and major_minor(facts.numba.target) < EXTRAS
    least = f">={'.'.join(map(str, EXTRAS))}" if old else ""
    return f'$ {pip(facts)} "numba-cuda[{tag[:4]}]{least}" "cuda-toolkit=={tag[2:4]}.{tag[4:]}.*"'


def fresh(facts: Facts, tag: str) -> tuple[str, ...]:
    """Return the commands that put the newest PyTorch of an index in the place of the installed one."""
    new = f"$ {pip(facts)} torch --index-url https://download.pytorch.org/whl/{tag}"
    return (f"$ {uninstall(facts)} torch", new) if facts.torch.version else (new,)


def cuda_tag(facts: Facts) -> str:
    """Return the kind of CUDA wheel that fits this card and this driver."""
    old_driver = 0 < major(driver_version(facts)) < 580 or 0 < (facts.cuda.version or 0) < 13000
    return "cu126" if is_old_card(facts) or old_driver else "cu130"


def wheel_for(facts: Facts) -> tuple[str, ...]:
    """Return the command for the wheel that fits the card and the driver, and before it what it needs."""
    late = wheel_needs_driver(facts)
    tag = "cu126" if is_old_card(facts) else "cu130" if late else cuda_tag(facts)
    numba = (numba_for(facts, tag),) if facts.numba.target else ()
    first = "The driver is too old for every wheel that has code for this card, so it comes first:"
    torch = (torch_for(facts, tag),) if facts.torch.version else fresh(facts, tag)
    return (*((first, *newer_driver(facts)) if late else ()), *torch, *numba)


def wheel_needs_driver(facts: Facts) -> bool:
    """Return whether no wheel has code for the card and also runs with the driver."""
    release = major(driver_version(facts))
    return 0 < release < FIRST_DRIVER[12] or (cuda_tag(facts) == "cu126" and is_blackwell(facts))


def same_torch(facts: Facts) -> str:
    """Return the command that installs the same PyTorch once more, from the index it came from."""
    if any(name.startswith("pytorch-") for name in facts.system.conda):
        return "$ conda install --force-reinstall pytorch"
    torch = facts.torch
    tag = f"rocm{'.'.join(torch.hip.split('.')[:2])}" if torch.hip else "xpu" if torch.xpu else "cpu"
    tag = f"cu{torch.cuda.replace('.', '')}" if torch.cuda else tag
    command = torch_for(facts, tag)
    return command.partition(" --index-url")[0] if facts.system.os == "darwin" else command


def numba_with_cuda(facts: Facts, tag: str = "") -> str:
    """Return the command that gives Numba the CUDA of a kind of wheel, by the manager that Numba is from.

    That is PyTorch's, if the driver can run that.
    """
    cuda, minor = major_minor(facts.torch.cuda)
    runs = cuda in (12, 13) and (facts.cuda.version is None or cuda <= facts.cuda.version // 1000)
    tag = tag or (f"cu{cuda}{minor}" if runs else cuda_tag(facts))
    if any(name.startswith("numba-") for name in facts.system.conda):
        return f'$ conda install --channel conda-forge numba-cuda "cuda-version={tag[2:4]}.{tag[4:]}"'
    return numba_for(facts, tag)


def wheel_for_jetson(facts: Facts) -> tuple[str, ...]:
    """Return where the wheel for this Jetson comes from, which its JetPack decides; the kernel tells which that is."""
    if (11, 0) in capabilities(facts):
        return ("For a Jetson Thor, PyTorch's own wheel for CUDA 13 has the code:", torch_for(facts, "cu130"))
    container = (
        "A container made for your JetPack has a PyTorch that fits: https://github.com/dusty-nv/jetson-containers",
        "$ jetson-containers run $(autotag l4t-pytorch)",
    )
    if not (facts.system.kernel or "").startswith("5.15."):
        return (f"NVIDIA lists which PyTorch belongs to which JetPack: {JETSON_GUIDE}", *container)
    return (
        "This is JetPack 6. Its wheels are for Python 3.10, in an environment of its own:",
        "$ python3.10 -m venv ~/jetson-env",
        "$ ~/jetson-env/bin/pip install torch --index-url https://pypi.jetson-ai-lab.io/jp6/cu126",
        "The pages of First Light need Python 3.11 or newer, which JetPack 7.2 has; it is there for the Orin too.",
        *container,
    )


def amd_on_windows(facts: Facts) -> tuple[str, ...]:
    """Return where PyTorch for AMD's cards comes from on Windows, for which its index has none."""
    where = f"For Windows AMD publishes PyTorch itself, for some cards: {RADEON}/windows/install-pytorch.html"
    return (where,) if facts.system.os == "windows" and vendor_of(facts) == "amd" else ()


def unset(facts: Facts, *names: str) -> tuple[str, ...]:
    """Return how variables of the environment are taken away, now and for good."""
    if facts.system.os == "windows":
        settings = "If a new PowerShell has it again, delete it in Windows' settings for environment variables."
        return (*(f"$ Remove-Item Env:{name}" for name in names), settings)
    again = "If a new terminal has it again, this shows the file that sets it:"
    if "SLURM_JOB_ID" in facts.env:
        again = f"In a job, Slurm itself may set it, to the GPUs of the job: your script should leave it alone. {again}"
    where = "~/.bashrc ~/.profile ~/.bash_profile ~/.zshrc /etc/environment"
    return (f"$ unset {' '.join(names)}", again, f"$ grep -sn {names[0]} {where}")


def search_path_without(facts: Facts, piece: str) -> tuple[str, ...]:
    """Return how a folder leaves the search path of libraries."""
    folders = facts.env.get("LD_LIBRARY_PATH", "").split(":")
    kept = [folder for folder in folders if folder and piece not in folder]
    if any(piece in folder for folder in folders):
        command = f"$ export LD_LIBRARY_PATH={quote(':'.join(kept))}" if kept else "$ unset LD_LIBRARY_PATH"
        return (command, "The old setting comes from a line in ~/.bashrc, a job script or a module: take it out there.")
    return (
        "A file in /etc/ld.so.conf.d names the folder. Remove the line that the first command shows:",
        f"$ grep -rn {piece} /etc/ld.so.conf.d",
        f"$ {sudo(facts)}ldconfig",
    )


def install(facts: Facts, **packages: str) -> tuple[str, ...]:
    """Return the command of this distribution that installs packages, which each manager knows by other names.

    Examples
    --------
    >>> install(Facts.of({"system": {"commands": ["dnf"]}}), apt="build-essential", dnf="gcc")
    ('$ sudo dnf install gcc',)
    """
    verbs = {"apt": "apt install", "dnf": "dnf install", "pacman": "pacman -S", "zypper": "zypper install"}
    manager = next((name for name in verbs if name in facts.system.commands and name in packages), None)
    return (f"$ {sudo(facts)}{verbs[manager]} {packages[manager]}",) if manager else ()


def install_driver(facts: Facts) -> tuple[str, ...]:
    """Return how this distribution installs NVIDIA's driver, but for the restart."""
    root, distro = sudo(facts), facts.system.distro
    if is_old_card(facts) and "debian" not in distro:  # whose tools or packages take a driver that fits
        return last_driver(facts)
    if "ubuntu" in distro:
        return f"$ {root}apt install ubuntu-drivers-common", f"$ {root}ubuntu-drivers install"
    if "debian" in distro and not is_blackwell(facts):  # for which Debian's own driver is too old
        return (
            "The package is in Debian's sections contrib and non-free. Name them in /etc/apt/sources.list, or in "
            "/etc/apt/sources.list.d/debian.sources, where that is the file; then:",
            f"$ {root}apt update",
            *install(facts, apt="linux-headers-$(dpkg --print-architecture) nvidia-driver"),
        )
    if distro[:1] == ("fedora",):
        source = "The package is in RPM Fusion; https://rpmfusion.org/Configuration tells how to add that source."
        return source, *install(facts, dnf="akmod-nvidia xorg-x11-drv-nvidia-cuda")
    if "pacman" in facts.system.commands:
        if not facts.system.kernel or "-arch" in facts.system.kernel:
            return install(facts, pacman="nvidia-open nvidia-utils")
        headers = "Your kernel is not Arch's usual one: name its headers, here those of linux-lts."
        return headers, *install(facts, pacman="nvidia-open-dkms nvidia-utils linux-lts-headers")
    guide = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
    return (f"Install NVIDIA's driver as its guide describes for your distribution: {guide}",)


def newer_driver(facts: Facts) -> tuple[str, ...]:
    """Return how this machine gets a driver for CUDA 13."""
    system, release = facts.system, FIRST_DRIVER[13]
    if system.os == "windows" or system.wsl:
        update = ("In PowerShell, bring Windows' Linux up to date too:", "$ wsl --update") if system.wsl else ()
        return ("Install the newest driver for your card on Windows: https://www.nvidia.com/en-us/drivers/", *update)
    if system.container:
        return ("The driver belongs to the machine around the container: it has to be updated there.",)
    if cluster(facts):
        return (f"The driver belongs to the cluster: ask its administrators for {release} or newer.",)
    return (
        *install_driver(facts),
        f"$ {sudo(facts)}reboot",
        f"Then nvidia-smi has to print a driver of {release} or newer. If your distribution has no such driver, take "
        "NVIDIA's own packages: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",
    )


def last_driver(facts: Facts) -> tuple[str, ...]:
    """Return how this distribution installs the driver of the branch 580, the last for cards before Turing."""
    distro = facts.system.distro
    if "ubuntu" in distro:
        return install(facts, apt="nvidia-driver-580")
    if distro[:1] == ("fedora",):
        return install(facts, dnf="akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda")
    last = "Your card needs the branch 580 of NVIDIA's driver, the last that knows it"
    if "pacman" in facts.system.commands:
        return (f"{last}: nvidia-580xx-dkms, from the AUR. See https://wiki.archlinux.org/title/NVIDIA",)
    return (f"{last}: https://www.nvidia.com/en-us/drivers/unix/",)


def rebuild_boot(facts: Facts) -> str:
    """Return the command that takes a new choice of modules into what Linux starts from."""
    tools = {"apt": "update-initramfs -u", "pacman": "mkinitcpio -P"}
    tool = next((tools[name] for name in tools if name in facts.system.commands), "dracut --force")
    return f"$ {sudo(facts)}{tool}"


def switch_graphics(facts: Facts) -> tuple[str, ...]:
    """Return how a laptop with two kinds of graphics gives its card of NVIDIA to programs."""
    if len({gpu.vendor for gpu in facts.gpus}) < 2:
        return ()
    ubuntu = "ubuntu" in facts.system.distro
    tool = f"$ {sudo(facts)}prime-select on-demand" if ubuntu else "$ supergfxctl --mode Hybrid"
    return "If a tool (prime-select, supergfxctl, envycontrol) chose the other graphics alone, choose both:", tool


def nvidia_smi(facts: Facts, options: str) -> tuple[str, ...]:
    """Return how an administrator changes the state of a card."""
    if facts.system.os == "windows":
        return 'In a PowerShell that you start with "Run as administrator":', f"$ nvidia-smi {options}"
    return (f"$ {sudo(facts)}nvidia-smi {options}",)


def mend_memory(facts: Facts) -> tuple[str, ...]:
    """Return how a card gets rid of a broken place in its memory."""
    return (
        "End every program that uses the card, then reset it, or restart the machine:",
        *nvidia_smi(facts, "--gpu-reset"),
        "This tells whether the broken place was set aside (Pending: Yes waits for a reset), or the card is worn out:",
        "$ nvidia-smi --query --display=ECC,ROW_REMAPPER",
        "Repeat results that were computed since the error. If it comes back, have the card replaced.",
    )


def works_on_cpu(facts: Facts) -> tuple[str, ...]:
    """Return what one can do here without a GPU."""
    lines = ["Your programs run here all the same, on the processor (CPU)."]
    if facts.torch.version:
        lines.append(f"PyTorch {facts.torch.version} runs the same code there if you choose the device cpu.")
    else:
        index = "" if facts.system.os == "darwin" else " --index-url https://download.pytorch.org/whl/cpu"
        lines += ["PyTorch isn't installed yet. This is the one for the CPU:", f"$ {pip(facts)} torch{index}"]
    if facts.numba.version:
        start = '$env:NUMBA_ENABLE_CUDASIM = "1"; ' if facts.system.os == "windows" else "NUMBA_ENABLE_CUDASIM=1 "
        lines += [
            "Numba runs kernels in its simulator. It is slow, but the results are right:",
            f"$ {start}python your_script.py",
        ]
    return tuple(lines)


SLURM = (
    "Ask for a GPU. To try things out, in a shell on a node that has one:",
    "$ srun --gpus=1 --pty bash",
    "For work that runs by itself, a line of the script asks for it: #SBATCH --gpus=1",
    "$ sbatch your_script.sh",
    'On some clusters the option is --gres=gpu:1, or the GPUs have a partition of their own. The column "GRES" tells:',
    "$ sinfo -o '%P %G'",
)

#: The names that every rule may use in what is to be done.
COMMANDS: dict[str, Callable[[Facts], str | tuple[str, ...]]] = {
    "sudo": sudo,
    "pip": pip,
    "uninstall": uninstall,
    "reinstall": reinstall,
    "nvidia_driver": install_driver,
    "newer_driver": newer_driver,
    "wheel": wheel_for,
    "same_torch": same_torch,
    "numba_cuda": numba_with_cuda,
    "jetson_wheel": wheel_for_jetson,
    "torch_rocm": lambda facts: amd_on_windows(facts) or fresh(facts, "rocm7.2"),
    "torch_xpu": lambda facts: fresh(facts, "xpu"),
    "torch_cuda": lambda facts: fresh(facts, "cu130"),
    "rebuild_boot": rebuild_boot,
    "switch_graphics": switch_graphics,
    "mend_memory": mend_memory,
    "works_on_cpu": works_on_cpu,
    "ask_slurm": lambda _: SLURM,
    "reset": lambda facts: nvidia_smi(facts, "--gpu-reset"),
    "share": lambda facts: nvidia_smi(facts, "--compute-mode=DEFAULT"),
    "no_hmm": lambda facts: (
        f"$ echo options nvidia_uvm uvm_disable_hmm=1 | {sudo(facts)}tee /etc/modprobe.d/nvidia-hmm.conf"
    ),
}
