from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FAKES = Path(__file__).with_name("fakes")
Env = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fakes of the driver's libraries, which an environment variable tells what to return."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or not compiler:
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("libraries")
    for source, library in [
        ("libcuda", "libcuda.so.1"),
        ("libnvidia-ml", "libnvidia-ml.so.1"),
        ("libcuda", "stubs/libcuda.so.1"),
        ("empty", "empty/libcuda.so.1"),
        ("empty", "empty/libnvidia-ml.so.1"),
    ]:
        (folder / library).parent.mkdir(exist_ok=True)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / library, FAKES / f"{source}.c"], check=True)
    return folder


@pytest.fixture
def driver(libraries: Path) -> Iterator[Env]:
    """The environment of a machine with a fake driver: driver(cuda=100, folder="stubs"). Nothing of it stays alive."""
    mark = uuid.uuid4().hex

    def env(folder: str = "", **settings: object) -> dict[str, str]:
        fakes = {f"FAKE_{name.upper()}": str(value) for name, value in settings.items()}
        return {**os.environ, "LD_LIBRARY_PATH": str(libraries / folder), "FAKE_MARK": mark, **fakes}

    yield env
    assert not alive(mark)


def alive(mark: str) -> list[str]:
    """Processes that have a mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes() and process.name != str(os.getpid()):
                found.append(process.name)
        except OSError:
            continue
    return found


class Machine:
    """A tree of /proc, /sys and /dev under a folder of its own, made as Linux makes them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, content: str | bytes = "") -> Machine:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def card(self, vendor: str, device: str, driver: str | None, kind: str = "0x030000", slot: str = "01") -> Machine:
        real = f"sys/devices/pci0000:00/0000:{slot}:00.0"
        self.file(f"{real}/vendor", f"{vendor}\n").file(f"{real}/device", f"{device}\n").file(f"{real}/class", kind)
        if driver:
            (self.root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
            (self.root / real / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
        listed = self.root / f"sys/bus/pci/devices/0000:{slot}:00.0"
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.symlink_to(f"../../../devices/pci0000:00/0000:{slot}:00.0")
        return self

    def nvidia(self, version: str = "580.95.05") -> Machine:
        """A card of NVIDIA that its driver runs."""
        self.card("0x10de", "0x2330", "nvidia", "0x030200")
        self.file(
            "proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (dvs-builder@U22-I3)\n"
            "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n",
        )
        for name in ("nvidia", "nvidia_uvm"):
            self.file(f"sys/module/{name}/refcnt", "0")
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            self.file(f"dev/{name}")
        return self.file("etc/os-release", 'ID=ubuntu\nID_LIKE="debian"\n')


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    root = tmp_path / "root"
    root.mkdir()
    return Machine(root)
