"""Causes in libcuda, the driver's half for programs: missing, not of the kernel half's version, or a fake."""

from __future__ import annotations

import re
from shlex import quote

from gpu_doctor.rules.ask import cuda_number, driver_of, heard, logged, release_of
from gpu_doctor.rules.commands import install, install_driver, sudo
from gpu_doctor.rules.driver import known
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.shapes import Facts

# What the codes of CUDA mean.
MEANS = {
    2: "out of memory", 3: "not initialised", 34: "a stand-in for the library", 46: "device unavailable",
    100: "no device", 101: "invalid device", 214: "an ECC error that cannot be corrected",
    304: "a call to the operating system failed", 802: "the system is not ready", 803: "the driver's halves do not fit",
    804: "forward compatibility is not supported", 999: "an unknown error",
}  # fmt: skip


def returned(facts: Facts, *codes: int) -> tuple[str, ...]:
    """Say which calls of CUDA returned one of these codes; without any, which returned a code that is not success."""
    made = ((f"making a context on card {number}", card.context) for number, card in enumerate(facts.cuda.devices))
    return tuple(
        f"{call} returned {code}: {MEANS.get(code, 'see its documentation')}"
        for call, code in (("cuInit", facts.cuda.init), *made)
        if code and (code in codes or not codes)
    )


def halves(facts: Facts) -> tuple[str | None, str | None]:
    """The versions of the driver's two halves; that for programs has it in the name of its file."""
    library = re.search(r"libcuda\.so\.(\d{3,}[\d.]*\d)", facts.cuda.path or "")
    return facts.kernel.version, library[1] if library else None


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


@rule("library", on="bare")
def no_libcuda(facts: Facts) -> Seen | None:
    """The driver's library for programs, libcuda, is not installed.

    The driver has a half in the kernel, which runs, and a half for programs, of which libcuda is the part that CUDA
    needs. Distributions put the two into different packages, and some install the first, or what draws the screen,
    alone.
    """
    running, distro = driver_of(facts), facts.system.distro
    if not facts.cuda.error or not running:
        return None
    steps = install(
        facts,
        apt=f"libnvidia-compute-{release_of(running)}" if "ubuntu" in distro else "libcuda1",
        dnf="nvidia-driver-cuda" if "rhel" in distro else "xorg-x11-drv-nvidia-cuda",
        pacman="nvidia-utils",
        zypper="nvidia-compute-utils-G06",
    )
    same = f"It must be of the same version as the half that runs, {running}; if it is newer, restart the machine."
    return Seen((f"NVIDIA's driver {running} runs", facts.cuda.error), (*(steps or install_driver(facts)), same))


@rule("start", on="linux", unless="forward-compatibility")
def driver_half_updated(facts: Facts) -> Seen | None:
    """The driver was updated while it ran, and its two halves no longer fit.

    An update replaces the driver's libraries at once. The half inside the kernel stays the old one until the machine
    restarts. The two talk to each other only if their versions are the same, so everything that starts after the
    update fails, while programs that ran before go on. Often nobody asked for it: the system updates itself at night.
    """
    met = heard(facts, "Driver/library version mismatch") if not facts.cuda.devices else None
    # A library newer than the kernel's half takes this for forward compatibility, which most cards do not have.
    if facts.cuda.init not in (803, 804) and facts.nvml.init != 18 and not met:
        return None
    kernel, library = halves(facts)
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
    evidence = known(
        *returned(facts),
        "nvmlInit returned 18: driver/library version mismatch" if facts.nvml.init == 18 else None,
        f"the kernel's half is {kernel}" if kernel else None,
        f"the programs' half is {library}: {facts.cuda.path}" if library else None,
        met,
        logged(facts, "API mismatch"),
    )
    return Seen(evidence, steps)


@rule("start", on="linux")
def forward_compatibility(facts: Facts) -> Seen | None:
    """A newer libcuda was put before the driver's own, and this card does not allow that.

    On cards for data centres, a newer libcuda than the driver's can be used, which NVIDIA calls forward
    compatibility. It lies in a folder named compat, which CUDA's toolkit and many container images bring. On other
    cards, every GeForce among them, CUDA then refuses to start.
    """
    cuda, folder = facts.cuda, (facts.cuda.path or "").rpartition("/")[0]
    compat, inside, (kernel, library) = "/compat" in folder, facts.system.container, halves(facts)
    updated = kernel and library and kernel != library and not compat and not inside
    if updated or not (cuda.init == 804 or (cuda.init == 803 and compat)):
        return None
    if compat and "/compat" in facts.env.get("LD_LIBRARY_PATH", ""):
        steps = search_path_without(facts, "/compat")
    elif inside:
        fits = f"up to CUDA {cuda_number(facts.nvml.cuda)}" if facts.nvml.cuda else "that the driver knows"
        away = (f"$ {sudo(facts)}mv {quote(folder)} {quote(folder)}.off", f"$ {sudo(facts)}ldconfig")
        steps = (f"Update the driver of the host, or use an image for an older CUDA, {fits}.",)
        steps += ("Or take the folder out of the way:", *away) if compat else ()
    else:
        steps = search_path_without(facts, "compat") if compat else install_driver(facts)
    evidence = known(
        *returned(facts),
        f"libcuda was loaded from {cuda.path}" if cuda.path else None,
        f"the driver that runs is {driver_of(facts)}" if driver_of(facts) else None,
    )
    return Seen(evidence, steps, "certain" if compat else "likely")


@rule("library", on="linux")
def stub_library(facts: Facts) -> Seen | None:
    """A stand-in was loaded in place of the driver's library.

    CUDA's toolkit brings an empty libcuda in a folder named stubs. It lets programs be built on machines without a
    driver, and does nothing else. A search path for libraries that names this folder makes every program load the
    empty one.
    """
    path = facts.cuda.path
    if facts.cuda.init != 34 and "/stubs/" not in (path or ""):
        return None
    seen = known(*returned(facts), f"libcuda was loaded from {path}" if path else None)
    return Seen(seen, search_path_without(facts, "stubs"))
