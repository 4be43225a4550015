"""Causes in libcuda, the driver's half for programs: missing, not of the kernel half's version, or a stand-in."""

from __future__ import annotations

import re
from shlex import quote

from firstlight_doctor.rules.commands import search_path_without
from firstlight_doctor.rules.machine import as_version, driver_version, find_in_log, find_message, major, manager_of
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

# What the codes of CUDA mean.
MEANS = {
    2: "out of memory", 3: "not initialised", 34: "a stand-in for the library", 46: "device unavailable",
    100: "no device", 101: "invalid device", 214: "an ECC error that cannot be corrected",
    304: "a call to the operating system failed", 802: "the system is not ready", 803: "the driver's halves do not fit",
    804: "forward compatibility is not supported", 999: "an unknown error",
}  # fmt: skip


def cuda_errors(facts: Facts, *codes: int) -> tuple[str, ...]:
    """Return which calls of CUDA gave one of these codes; without any, which gave a code that is not success."""
    made = ((f"making a context on card {number}", card.context) for number, card in enumerate(facts.cuda.devices))
    return tuple(
        f"{call} returned {code}: {MEANS.get(code, 'see its documentation')}"
        for call, code in (("cuInit", facts.cuda.init), *made)
        if code and (code in codes or not codes)
    )


def library_version(facts: Facts) -> str | None:
    """Return the version of the driver's half for programs, which has it in the name of its file."""
    library = re.search(r"libcuda\.so\.(\d{3,}[\d.]*\d)", facts.cuda.path or "")
    return library[1] if library else None


@rule("library", on="bare")
def no_libcuda(facts: Facts) -> Signs | None:
    """The driver's library for programs, libcuda, is not installed.

    The driver has a half in the kernel, which runs, and a half for programs, of which libcuda is the part that CUDA
    needs. Distributions put the two into different packages, and some install the first, or what draws the screen,
    alone.

    To do:
    [apt] $ {sudo}apt install {package}
    [dnf] $ {sudo}dnf install {package}
    [pacman] $ {sudo}pacman -S nvidia-utils
    [zypper] $ {sudo}zypper install nvidia-compute-utils-G06
    [not manager] {nvidia_driver}
    [not manager] $ {sudo}reboot
    It must be of the same version as the half that runs, {running}; if it is newer, restart the machine.
    """
    running, distro = driver_version(facts), facts.system.distro
    if not facts.cuda.error or not running:
        return None
    package = f"libnvidia-compute-{major(running)}" if "ubuntu" in distro else "libcuda1"
    if manager_of(facts) == "dnf":
        package = "nvidia-driver-cuda" if "rhel" in distro else "xorg-x11-drv-nvidia-cuda"
    return signs(f"NVIDIA's driver {running} runs", facts.cuda.error, package=package, running=running)


@rule("start", on="linux", unless="forward-compatibility")
def driver_half_updated(facts: Facts) -> Signs | None:
    """The driver was updated while it ran, and its two halves no longer fit.

    An update replaces the driver's libraries at once. The half inside the kernel stays the old one until the machine
    restarts. The two talk to each other only if their versions are the same, so everything that starts after the
    update fails, while programs that ran before go on. Often nobody asked for it: the system updates itself at night.

    To do (container):
    Start the container anew: it was given the libraries of the driver that the host had before.
    If that does not help, the image brings libraries of its own. Take them out of it:
    $ apt purge 'libnvidia-*' 'nvidia-*'

    To do (wsl):
    The driver is that of Windows. In PowerShell on Windows, start WSL anew:
    $ wsl --shutdown

    To do:
    $ {sudo}reboot
    [apt] To choose the time of such updates yourself, add "nvidia" and "libnvidia" to the Package-Blacklist:
    [apt] $ {sudo}nano /etc/apt/apt.conf.d/50unattended-upgrades
    """
    met = find_message(facts, "Driver/library version mismatch") if not facts.cuda.devices else None
    # A library newer than the kernel's half takes this for forward compatibility, which most cards do not have.
    if facts.cuda.init not in (803, 804) and facts.nvml.init != 18 and not met:
        return None
    kernel, library = facts.kernel.version, library_version(facts)
    return signs(
        *cuda_errors(facts),
        "nvmlInit returned 18: driver/library version mismatch" if facts.nvml.init == 18 else None,
        f"the kernel's half is {kernel}" if kernel else None,
        f"the programs' half is {library}: {facts.cuda.path}" if library else None,
        met,
        find_in_log(facts, "API mismatch"),
    )


@rule("start", on="linux")
def forward_compatibility(facts: Facts) -> Signs | None:
    """A newer libcuda was put before the driver's own, and this card does not allow that.

    On cards for data centres, a newer libcuda than the driver's can be used, which NVIDIA calls forward
    compatibility. It lies in a folder named compat, which CUDA's toolkit and many container images bring. On other
    cards, every GeForce among them, CUDA then refuses to start.

    To do (by_path):
    {search_path}

    To do (container):
    Update the driver of the host, or use an image for an older CUDA, {fits}.
    [compat] Or take the folder out of the way:
    [compat] $ {sudo}mv {folder} {folder}.off
    [compat] $ {sudo}ldconfig

    To do (compat):
    {search_path}

    To do (wsl):
    {nvidia_driver}
    In PowerShell on Windows, start WSL anew:
    $ wsl --shutdown

    To do:
    {nvidia_driver}
    $ {sudo}reboot
    """
    cuda, folder, library = facts.cuda, (facts.cuda.path or "").rpartition("/")[0], library_version(facts)
    compat, kernel = "/compat" in folder, facts.kernel.version
    updated = kernel and library and kernel != library and not compat and not facts.system.container
    if updated or not (cuda.init == 804 or (cuda.init == 803 and compat)):
        return None
    by_path = compat and "/compat" in facts.env.get("LD_LIBRARY_PATH", "")
    return signs(
        *cuda_errors(facts),
        f"libcuda was loaded from {cuda.path}" if cuda.path else None,
        f"the driver that runs is {driver_version(facts)}" if driver_version(facts) else None,
        certainty="certain" if compat else "likely",
        by_path=by_path,
        compat=compat,
        folder=quote(folder),
        fits=f"up to CUDA {as_version(facts.nvml.cuda)}" if facts.nvml.cuda else "that the driver knows",
        search_path=search_path_without(facts, "/compat" if by_path else "compat"),
    )


@rule("library", on="linux")
def stub_library(facts: Facts) -> Signs | None:
    """A stand-in was loaded in place of the driver's library.

    CUDA's toolkit brings an empty libcuda in a folder named stubs. It lets programs be built on machines without a
    driver, and does nothing else. A search path for libraries that names this folder makes every program load the
    empty one.

    To do:
    {search_path}
    """
    path = facts.cuda.path
    if facts.cuda.init != 34 and "/stubs/" not in (path or ""):
        return None
    loaded = f"libcuda was loaded from {path}" if path else None
    return signs(*cuda_errors(facts), loaded, search_path=search_path_without(facts, "stubs"))
