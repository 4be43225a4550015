"""The cards that are played, and the C parts of the play, compiled once."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Card:
    """What a card says of itself, and refuses."""

    name: str
    kind: str = "cuda"  # as PyTorch calls it; AMD's are "cuda", too
    count: int = 1
    hip: str | None = None
    capability: tuple[int, int] = (9, 0)
    multiprocessors: int = 4  # of 132: grids are made to fill them, and a CPU has to run those
    memory: int = 80 << 30
    cache: int = 1 << 20  # of 50 MiB, for arrays are made to be larger
    shared: int = 227 << 10  # bytes that a block may ask for
    cufinufft: bool = False

    @property
    def numba(self) -> bool:
        """Whether Numba's kernels run on it."""
        return self.kind == "cuda" and not self.hip


CARDS = {
    "h100": Card("NVIDIA H100 80GB HBM3"),
    "small": Card(
        "NVIDIA GeForce RTX 4060 Laptop GPU", capability=(8, 9), multiprocessors=20, memory=8 << 30, shared=99 << 10,
        cufinufft=True,
    ),
    "two": Card("NVIDIA H100 80GB HBM3", count=2),
    "mps": Card("Apple M3", kind="mps", memory=16 << 30),
    "rocm": Card("AMD Instinct MI300X", hip="7.2.53150", memory=192 << 30),
}  # fmt: skip


@cache
def build(name: str, source: str) -> ctypes.CDLL:
    """Compile a C or C++ file of this folder, once for each version of it and of PyTorch, and load it for all."""
    compiler = "g++" if source.endswith("cpp") else "gcc"
    if shutil.which(compiler) is None:
        raise RuntimeError(f"the rehearsal needs {compiler}: apt install g++")
    source_file, home = HERE / source, Path(torch.__file__).parent
    folder = Path(tempfile.gettempdir(), f"rehearsal-{torch.__version__}-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    library, part = folder / name, folder / f"{name}.{os.getpid()}"
    if not library.exists() or library.stat().st_mtime < source_file.stat().st_mtime:
        flags = [f"-I{home}/include", f"-L{home}/lib", "-std=c++20", "-ltorch_cpu", "-lc10"]
        flags = flags if compiler == "g++" else ["-ldl", f"-Wl,-soname,{name}"]
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-w", source_file, *flags, "-o", part], check=True)
        part.rename(library)
    return ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
