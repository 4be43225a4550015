"""The commands that several rules prescribe, as this system has them."""

from __future__ import annotations

import re

from gpu_doctor.rules.ask import blackwell, driver_of, numbers_of, old_card, release_of
from gpu_doctor.shapes import Facts

# The first release of PyTorch that has a kind of wheel, and the first that no longer has it.
RELEASES = {"cu126": ((2, 6), (2, 15)), "cu130": ((2, 9), (99, 0))}
EXTRAS = (0, 20)  # the first numba-cuda that brings CUDA 13
OURS = "2.13.0"  # the release that the site's page on installing names
OLD_DRIVERS = "https://www.nvidia.com/en-us/drivers/unix/"


def pip(facts: Facts) -> str:
    """How packages are installed here."""
    return "uv pip install" if "uv" in facts.system.commands else "python -m pip install"


def uninstall(facts: Facts) -> str:
    """How packages are removed here."""
    return "uv pip uninstall" if "uv" in facts.system.commands else "python -m pip uninstall --yes"


def torch_for(facts: Facts, tag: str) -> str:
    """Return the command that installs PyTorch from the index of a kind of wheel: "cu130", "cu126", "xpu"."""
    version = re.match(r"\d+\.\d+\.\d+(?![\da-z]|\.dev)", facts.torch.version or "")  # no index keeps nightly builds
    first, end = RELEASES.get(tag, ((0, 0), (99, 0)))
    there = version and first <= numbers_of(version[0]) < end
    which = f'"torch=={version[0] if version and there else OURS}"' if version else "torch"
    again = "--reinstall" if "uv" in facts.system.commands else "--force-reinstall"
    return f"$ {pip(facts)} {again} {which} --index-url https://download.pytorch.org/whl/{tag}"


def numba_for(facts: Facts, tag: str) -> str:
    """Return the command that installs Numba's CUDA target with the CUDA of a kind of wheel.

    Examples
    --------
    >>> numba_for(Facts(), "cu126")
    '$ python -m pip install "numba-cuda[cu12]" "cuda-toolkit==12.6.*"'
    """
    old = facts.numba.target and numbers_of(facts.numba.target) < EXTRAS
    least = f">={'.'.join(map(str, EXTRAS))}" if old else ""
    return f'$ {pip(facts)} "numba-cuda[{tag[:4]}]{least}" "cuda-toolkit=={tag[2:4]}.{tag[4:]}.*"'


def fresh(facts: Facts, tag: str) -> tuple[str, ...]:
    """Return the commands that put the newest PyTorch of an index in the place of the installed one."""
    new = f"$ {pip(facts)} torch --index-url https://download.pytorch.org/whl/{tag}"
    return (f"$ {uninstall(facts)} torch", new) if facts.torch.version else (new,)


def cuda_tag(facts: Facts) -> str:
    """Return the kind of CUDA wheel that fits this card and this driver."""
    old_driver = 0 < release_of(driver_of(facts)) < 580 or 0 < (facts.cuda.version or 0) < 13000
    return "cu126" if old_card(facts) or old_driver else "cu130"


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


def sudo(facts: Facts) -> str:
    """Return what comes before a command that only the administrator may run."""
    return "" if facts.system.root or facts.system.os == "windows" else "sudo "


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
    """Return how this distribution installs NVIDIA's driver, up to the restart."""
    root, distro = sudo(facts), facts.system.distro
    if old_card(facts) and "debian" not in distro:  # whose tools or packages take a driver that fits
        steps: tuple[str, ...] = last_driver(facts)
    elif "ubuntu" in distro:
        steps = (f"$ {root}apt install ubuntu-drivers-common", f"$ {root}ubuntu-drivers install")
    elif "debian" in distro and not blackwell(facts):  # for which Debian's own driver is too old
        steps = (
            "The package is in Debian's sections contrib and non-free. Name them in /etc/apt/sources.list, or in "
            "/etc/apt/sources.list.d/debian.sources, where that is the file; then:",
            f"$ {root}apt update",
            *install(facts, apt="linux-headers-$(dpkg --print-architecture) nvidia-driver"),
        )
    elif distro[:1] == ("fedora",):
        steps = (
            "The package is in RPM Fusion; https://rpmfusion.org/Configuration tells how to add that source.",
            *install(facts, dnf="akmod-nvidia xorg-x11-drv-nvidia-cuda"),
        )
    elif "pacman" in facts.system.commands:
        steps = install(facts, pacman="nvidia-open nvidia-utils")
        if facts.system.kernel and "-arch" not in facts.system.kernel:
            built = install(facts, pacman="nvidia-open-dkms nvidia-utils linux-lts-headers")
            steps = ("Your kernel is not Arch's usual one: name its headers, here those of linux-lts.", *built)
    else:
        guide = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
        steps = (f"Install NVIDIA's driver as its guide describes for your distribution: {guide}",)
    return (*steps, f"$ {root}reboot")


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
    return (f"{last}: {OLD_DRIVERS}",)
