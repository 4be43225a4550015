"""What several rules ask of the facts, and the commands that several of them prescribe."""

from __future__ import annotations

from firstlight.doctor.shapes import Facts

MAKERS = {"nvidia": "cuda", "amd": "hip", "intel": "xpu", "apple": "mps"}


def maker(facts: Facts) -> str | None:
    """Return whose card this machine has; where there are several, the one that PyTorch would take."""
    return next((vendor for vendor in MAKERS if has(facts, vendor)), None)


def has(facts: Facts, vendor: str) -> bool:
    """Whether anything tells of a card of a maker: the bus, its driver's module or libraries, its device files.

    In Windows' Linux (WSL) and on a Jetson no card is on the bus.
    """
    if any(gpu.vendor == vendor for gpu in facts.gpus):
        return True
    paths = [node.path for node in facts.nodes]
    if vendor == "nvidia":
        return bool(
            facts.kernel.version
            or facts.cuda.devices
            or facts.nvml.devices
            or facts.system.tegra
            or any(path.startswith("/dev/nvidia") for path in paths)
            or (facts.system.wsl and "/dev/dxg" in paths)
        )
    return vendor == "amd" and "/dev/kfd" in paths


def heard(facts: Facts, *pieces: str) -> str | None:
    """Return the first line of an error, met here or told by the reader, that has one of these pieces in it."""
    texts = (
        facts.said,
        facts.torch.error,
        facts.torch.kernel,
        facts.torch.failed,
        *facts.torch.warnings,
        facts.numba.error,
        facts.numba.toolchain,
        facts.numba.kernel,
        facts.numba.failed,
    )
    for line in (line.strip() for text in texts if text for line in text.splitlines()):
        if any(piece.lower() in line.lower() for piece in pieces):
            return line[:300]
    return None


def cuda_number(version: int) -> str:
    """Write 13000 as 13.0, the way CUDA counts.

    Examples
    --------
    >>> cuda_number(12060)
    '12.6'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


def release_of(version: str | None) -> int:
    """Return the branch of a driver: 580 of "580.95.05"; 0 where it is not known."""
    head = (version or "").partition(".")[0]
    return int(head) if head.isdecimal() else 0


def driver_of(facts: Facts) -> str | None:
    """The version of NVIDIA's driver, from whichever half tells it."""
    return facts.kernel.version or facts.nvml.driver


def pip(facts: Facts) -> str:
    """How packages are installed here."""
    return "uv pip install" if "uv" in facts.system.commands else "python -m pip install"


def torch_for(facts: Facts, tag: str) -> str:
    """Return the command that installs PyTorch from the index of a kind of wheel: "cu130", "cu126", "xpu"."""
    version = (facts.torch.version or "").partition("+")[0]
    which = f'"torch=={version}"' if version else "torch"
    again = "--reinstall" if "uv" in facts.system.commands else "--force-reinstall"
    return f"$ {pip(facts)} {again} {which} --index-url https://download.pytorch.org/whl/{tag}"


def cuda_tag(facts: Facts) -> str:
    """Return the kind of CUDA wheel that fits this card and this driver."""
    capabilities = [device.capability for device in facts.cuda.devices if device.capability]
    old_card = any(capability < (7, 5) for capability in capabilities)
    old_driver = 0 < release_of(driver_of(facts)) < 580 or 0 < (facts.cuda.version or 0) < 13000
    return "cu126" if old_card or old_driver else "cu130"


def sudo(facts: Facts) -> str:
    """Return what comes before a command that only the administrator may run."""
    return "" if facts.system.root else "sudo "


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


def covers(archs: tuple[str, ...], capability: tuple[int, ...]) -> bool:
    """Whether a wheel has code for a card.

    Code for 8.0 also runs on 8.6, which is of the same generation and not older. PTX ("compute_90") is compiled for
    any newer card when it is loaded. Code for "sm_90a" runs on nothing but 9.0.

    Examples
    --------
    >>> covers(("sm_75", "sm_80"), (8, 6)), covers(("sm_75", "sm_90a"), (10, 0)), covers(("compute_90",), (10, 0))
    (True, False, True)
    """
    for arch in archs:
        kind, _, digits = arch.partition("_")
        number = digits.rstrip("af")
        if not number.isdecimal():
            continue
        built = divmod(int(number), 10)
        if digits != number and digits.endswith("a"):
            fits = kind == "sm" and built == capability
        else:
            fits = built <= capability and (kind == "compute" or built[0] == capability[0])
        if fits:
            return True
    return False
