"""Causes in libcuda, the driver's half for programs: missing, not of the kernel half's version, or a fake."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from shlex import quote

from firstlight.doctor.rules.ask import bare, cuda_number, driver_of, heard, logged, release_of
from firstlight.doctor.rules.commands import install, install_driver, sudo
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts


def library_version(facts: Facts) -> str | None:
    """The version in the name of the file that was loaded: libcuda.so.580.95.05."""
    version = re.search(r"libcuda\.so\.(\d{3,}[\d.]*\d)", facts.cuda.path or "")
    return version[1] if version else None


def halves(facts: Facts) -> tuple[str, ...]:
    """The versions of the driver's two halves, as far as they are known."""
    kernel, library = facts.kernel.version, library_version(facts)
    return (
        *((f"the kernel's half is {kernel}",) if kernel else ()),
        *((f"the programs' half is {library}: {facts.cuda.path}",) if library else ()),
    )


def differ(facts: Facts) -> bool:
    """Whether the two halves are known, and not of one version."""
    return bool(library_version(facts) and facts.kernel.version and library_version(facts) != facts.kernel.version)


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


@rule("library")
def no_libcuda(facts: Facts) -> Seen | None:
    """The driver's library for programs, libcuda, is not installed.

    The driver has a half in the kernel, which runs, and a half for programs, of which libcuda is the part that CUDA
    needs. Distributions put the two into different packages, and some install the first, or what draws the screen,
    alone.
    """
    running = facts.kernel.version or facts.nvml.driver
    if not facts.cuda.error or not running or not bare(facts):
        return None
    release, rhel = release_of(driver_of(facts)), "rhel" in facts.system.distro
    steps = install(
        facts,
        apt=f"libnvidia-compute-{release}" if "ubuntu" in facts.system.distro else "libcuda1",
        dnf="nvidia-driver-cuda" if rhel else "xorg-x11-drv-nvidia-cuda",
        pacman="nvidia-utils",
        zypper="nvidia-compute-utils-G06",
    )
    return Seen(
        evidence=(f"NVIDIA's driver {running} runs", facts.cuda.error),
        fix=(
            *(steps or install_driver(facts)),
            f"It must be of the same version as the half that runs, {running}; if it is newer, restart the machine.",
        ),
    )


@rule("start")
def driver_half_updated(facts: Facts) -> Seen | None:
    """The driver was updated while it ran, and its two halves no longer fit.

    An update replaces the driver's libraries at once. The half inside the kernel stays the old one until the machine
    restarts. The two talk to each other only if their versions are the same, so everything that starts after the
    update fails, while programs that ran before go on. Often nobody asked for it: the system updates itself at night.
    """
    compat = "/compat" in (facts.cuda.path or "")
    # A library newer than the kernel's half takes this for forward compatibility, which most cards do not have.
    as_804 = facts.cuda.init == 804 and differ(facts) and not facts.system.container
    met = heard(facts, "Driver/library version mismatch") if not facts.cuda.devices else None
    if compat or not (facts.cuda.init == 803 or facts.nvml.init == 18 or as_804 or met):
        return None
    codes = [f"cuInit returned {facts.cuda.init}"] if facts.cuda.init else []
    codes += ["nvmlInit returned 18: driver/library version mismatch"] if facts.nvml.init == 18 else []
    lines = [line for line in (met, logged(facts, "API mismatch")) if line]
    if facts.system.container:
        steps: tuple[str, ...] = (
            "Start the container anew: it was given the libraries of the driver that the host had before.",
            "If that does not help, the image brings libraries of its own. Take them out of it:",
            "$ apt purge 'libnvidia-*' 'nvidia-*'",
        )
    elif facts.system.wsl:
        steps = ("The driver is that of Windows. In PowerShell on Windows, start WSL anew:", "$ wsl --shutdown")
    else:
        steps = (f"$ {sudo(facts)}reboot",)
        if "apt" in facts.system.commands:
            steps += (
                'To choose the time of such updates yourself, add "nvidia" and "libnvidia" to the Package-Blacklist:',
                f"$ {sudo(facts)}nano /etc/apt/apt.conf.d/50unattended-upgrades",
            )
    return Seen(evidence=(*codes, *halves(facts), *lines), fix=steps)


@rule("start")
def forward_compatibility(facts: Facts) -> Seen | None:
    """A newer libcuda was put before the driver's own, and this card does not allow that.

    On cards for data centres, a newer libcuda than the driver's can be used, which NVIDIA calls forward
    compatibility. It lies in a folder named compat, which CUDA's toolkit and many container images bring. On other
    cards, every GeForce among them, CUDA then refuses to start.
    """
    cuda, folder = facts.cuda, str(PurePosixPath(facts.cuda.path or "").parent)
    compat, inside = "/compat" in folder, facts.system.container
    if not (cuda.init == 804 or (cuda.init == 803 and compat)):
        return None
    if differ(facts) and not compat and not inside:
        return None  # an update: driver_half_updated
    if compat and "/compat" in facts.env.get("LD_LIBRARY_PATH", ""):
        steps = search_path_without(facts, "/compat")
    elif inside:
        known = f"up to CUDA {cuda_number(facts.nvml.cuda)}" if facts.nvml.cuda else "that the driver knows"
        away = ("Or take the folder out of the way:", f"$ {sudo(facts)}mv {folder} {folder}.off") if compat else ()
        update = f"Update the driver of the host, or use an image for an older CUDA, {known}."
        steps = (update, *away, *((f"$ {sudo(facts)}ldconfig",) if away else ()))
    else:
        steps = search_path_without(facts, "compat") if compat else install_driver(facts)
    return Seen(
        evidence=(
            f"cuInit returned {cuda.init}",
            *((f"libcuda was loaded from {cuda.path}",) if cuda.path else ()),
            *((f"the driver that runs is {driver_of(facts)}",) if driver_of(facts) else ()),
        ),
        fix=steps,
        certainty="certain" if compat else "likely",
    )


@rule("library")
def stub_library(facts: Facts) -> Seen | None:
    """A stand-in was loaded in place of the driver's library.

    CUDA's toolkit brings an empty libcuda in a folder named stubs. It lets programs be built on machines without a
    driver, and does nothing else. A search path for libraries that names this folder makes every program load the
    empty one.
    """
    if facts.cuda.init != 34 and "/stubs/" not in (facts.cuda.path or ""):
        return None
    return Seen(
        evidence=(
            *((f"cuInit returned {facts.cuda.init}",) if facts.cuda.init else ()),
            *((f"libcuda was loaded from {facts.cuda.path}",) if facts.cuda.path else ()),
        ),
        fix=search_path_without(facts, "stubs"),
    )
