"""The compiler's process, in which Numba's simulator is off: questions come in, answers go out, until the input ends.

It is run as a script by ``ptx`` and imports nothing of ours, so that it starts sooner.
"""

from __future__ import annotations

import builtins
import importlib
import io
import itertools
import marshal
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

# A text of Numba's that names a place in the source, and the local variables of its compiler that have a `loc`.
PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|(?:at|from) (?P<path>\S+) \((?P<number>\d+)\)')
HAVE_PLACE = ("loc", "inst", "stmt", "self", "interp")
NOT_THIS_PTXAS = ("Unsupported .version", "Unresolved extern function")


def answer(question: bytes) -> dict[str, Any]:
    """Compile one kernel, and return what came out, or what went wrong and where."""
    try:
        known = start_compiler()
    except Exception as error:
        return {"absent": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"}
    parcel = Parcel(io.BytesIO(question))
    kernel, signature, cc = parcel.load()
    # Numba compiles a device function for the GPU that it finds. Here it finds the one that was asked for.
    numba("cuda.dispatcher").get_current_device = lambda: SimpleNamespace(compute_capability=cc)
    if cc not in known:
        return {"cc": known}
    try:
        arguments = parsed(signature)
    except Exception as error:
        return {"signature": f"{type(error).__name__}: {error}"}
    if len(arguments) != kernel.py_func.__code__.co_argcount:
        return {"arguments": len(arguments)}
    try:
        text = ptx_of(kernel.py_func, arguments, cc, parcel.options)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}" if not str(error) else str(error), "place": place_of(error)}
    return {"text": text, **assembled(text, cc, parcel.options.get("max_registers"))}


def start_compiler() -> list[tuple[int, int]]:
    """Load NVIDIA's libraries, or fail; return the compute capabilities that they know."""
    numba("cuda.cudadrv.nvvm").NVVM()
    return [tuple(cc) for cc in numba("cuda.cudadrv.nvrtc").get_supported_ccs()]


def numba(module: str) -> Any:
    """Import a part of Numba: late, so that its absence can be told; by name, since it has no types to check."""
    return importlib.import_module(f"numba.{module}")


def parsed(signature: str) -> tuple[Any, ...]:
    """Read the types of the arguments; what is returned must be nothing."""
    types, sigutils = numba("core.types"), numba("core.sigutils")
    found = sigutils._parse_signature_string(signature)
    if isinstance(found, types.Type):
        found = (found,)
    arguments, returned = sigutils.normalize_signature(found)
    if returned not in (None, types.void):
        raise TypeError(f"a kernel returns nothing (void), not {returned}")
    return tuple(arguments)


def ptx_of(kernel: FunctionType, arguments: tuple[Any, ...], cc: tuple[int, int], options: dict[str, Any]) -> str:
    """Let Numba compile the kernel; its entry gets the kernel's plain name."""
    wanted = taken(options, "fastmath", "opt", "launch_bounds")
    # The names in the text have a number that goes on counting: the same kernel must give the same text.
    numba("cuda.core.bytecode").FunctionIdentity._unique_ids = itertools.count(1)
    text, _ = numba("cuda").compile_ptx(kernel, arguments, cc=cc, **wanted)
    entry = re.search(r"\.entry\s+([\w$]+)", text)
    return str(text.replace(entry[1], kernel.__name__) if entry and kernel.__name__.isascii() else text)


class Parcel(pickle.Unpickler):
    """Makes a kernel again, and what it looks up."""

    options: dict[str, Any]  # of the function that was made last, which is the kernel

    def persistent_load(self, sent: Any) -> Any:
        """Return what the first word says, made of the others."""
        kind, *parts = sent
        if kind == "module":
            return importlib.import_module(parts[0])
        if kind == "member":
            return getattr(numba("cuda"), parts[0])
        if kind == "namespace":  # a module of the reader's, with what the kernel uses of it
            module = ModuleType(parts[0])
            module.__dict__.update(parts[1])
            return module
        text, defaults, names, self.options = parts
        code = marshal.loads(text)
        cells = tuple(CellType(names[name]) if name in names else CellType() for name in code.co_freevars)
        function = FunctionType(code, {"__builtins__": builtins, **names}, code.co_name, defaults, cells)
        return numba("cuda").jit(device=True, **taken(self.options, "fastmath", "inline", "opt"))(function)


def taken(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return those of some options that were given."""
    return {name: options[name] for name in names if name in options}


def place_of(error: BaseException) -> tuple[str, int] | None:
    """Find the line of the kernel at which the compiler stopped: in what it says, or in what it was working on."""
    if named := PLACE.search(str(error)):
        return named["file"] or named["path"], int(named["line"] or named["number"])
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for name in HAVE_PLACE:
            with suppress(Exception):
                loc = getattr(frame.f_locals[name], "loc", frame.f_locals[name])
                return str(loc.filename), int(loc.line)
    return None


def assembled(text: str, cc: tuple[int, int], max_registers: int | None) -> dict[str, Any]:
    """Let ptxas, where there is one, make machine code and tell what it needs."""
    if not (ptxas := tool("ptxas")):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text, encoding="utf-8")
        limit = [f"--maxrregcount={max_registers}"] if max_registers else []
        command = [ptxas, "-v", f"-arch=sm_{cc[0]}{cc[1]}", *limit, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.returncode:
            return {"log": done.stderr, "cubin": made.read_bytes(), "nvdisasm": tool("nvdisasm")}
    if any(reason in done.stderr for reason in NOT_THIS_PTXAS):
        return {}
    says = re.search(r"(?:error|fatal)\s*: (.*)", done.stderr)
    return {"error": f"ptxas: {says[1] if says else done.stderr.strip()}", "place": None}


def tool(name: str) -> str | None:
    """Find a program of CUDA's: beside the libraries in pip's or conda's packages, or on the path."""
    with suppress(Exception):  # pathfinder is new and changes; without it the path is searched
        if found := importlib.import_module("cuda.pathfinder").find_nvidia_binary_utility(name):
            return str(found)
    return shutil.which(name)


def main() -> None:
    """Answer until nobody asks any more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Numba or a library prints must not end up among the answers
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(question), answers)
        answers.flush()


if __name__ == "__main__":
    main()
