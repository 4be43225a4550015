"""Compile a kernel for any NVIDIA GPU, without one, and see what the compiler made of it.

Numba turns Python into LLVM, NVIDIA's NVVM turns that into PTX, and NVIDIA's ptxas turns PTX into machine code.
"""

from __future__ import annotations

import linecache
import re
import shutil
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any
from warnings import catch_warnings

import numpy as np

from firstlight_kernels.backend import cuda
from firstlight_kernels.compilers import is_jitted, python_function
from firstlight_kernels.copies import empty_copy, fill_copy

__all__ = ["CompileError", "Compiled", "NoCompilerError", "compile", "mix_of"]

_INSTALL = 'python -m pip install "numba-cuda[cu13]"'
_CONSTANT_BYTES = 65536  # CUDA has so much constant memory

# What an instruction's name says about how it rounds and caches: `mix` leaves it out.
_ROUNDING = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat"}
_CACHING = {"ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "weak", "L1", "L2"}
_INSTRUCTION = re.compile(r"(?:\s|\$?\w+:(?!:))*(?:@!?%\w+\s+)?([a-z]\w*(?:\.[\w:]+)*)")

# A text of Numba's that names a line of the source, and the local variables of its compiler that have a `loc`.
_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|(?:at|from) (?P<path>\S+) \((?P<number>\d+)\)')
_HAVE_LOC = ("loc", "inst", "stmt", "self", "interp")
_ANOTHER_PTXAS = ("Unsupported .version", "Unresolved extern function")

_LOCK = Lock()  # the compiler's settings are those of the whole process


class CompileError(Exception):
    """A kernel that cannot be compiled for a GPU, even if the simulator runs it; the message names the line.

    Examples
    --------
    >>> from firstlight_kernels import cuda, ptx
    >>> @cuda.jit
    ... def fill(out):
    ...     out[cuda.grid(1)] = [1, 2]
    >>> ptx.compile(fill, "void(float32[:])")  # doctest: +SKIP
    Traceback (most recent call last):
    CompileError: fill, line 3 `out[cuda.grid(1)] = [1, 2]`: a kernel cannot make an array, a list ...
    """


class NoCompilerError(RuntimeError):
    """NVIDIA's compiler is not installed, or does not start; the message says how to get it.

    Examples
    --------
    >>> try:  # doctest: +SKIP
    ...     print(ptx.compile(axpy, "void(float32, float32[:], float32[:])").mix["fma.f32"])
    ... except ptx.NoCompilerError as problem:
    ...     print(problem)
    """


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel: its PTX, its instructions, and what it needs of a GPU.

    ``text`` is PTX, which no GPU runs as it is. A second compiler, ptxas, turns it into ``sass``, the
    machine code of one kind of GPU, and decides how many ``registers`` a thread and how much shared memory
    (``shared_bytes``) a block needs, and how many bytes a thread stores and loads because they fit in no register
    (``spill_bytes``, both ways added). These are None where ptxas is not installed, ``sass`` also without nvdisasm.

    ``mix`` counts the instructions as they are written, not as they run: what stands in a loop counts once, and
    twice if the compiler unrolled the loop by two. An instruction is named without the parts that say how it rounds
    and caches, so ``fma.rn.f32`` is ``fma.f32``, and ``ld.global.nc.f32`` is ``ld.global.f32``; the most frequent
    comes first, and one that does not occur counts 0.

    Examples
    --------
    >>> from firstlight_kernels import ptx
    >>> compiled = ptx.Compiled("fma.rn.f32 %f3, %f1, %f2, %f3;", mix_of("fma.rn.f32 %f3, %f1, %f2, %f3;"))
    >>> compiled.mix["fma.f32"], compiled.mix["fma.f64"], compiled.registers
    (1, 0, None)
    """

    text: str
    mix: Mapping[str, int]
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    cubin: bytes | None = field(default=None, repr=False)

    @cached_property
    def sass(self) -> str | None:
        """The machine code, disassembled when it is first asked for, since that takes longer than to compile."""
        if self.cubin is None or not (nvdisasm := _tool("nvdisasm")):
            return None
        with TemporaryDirectory() as folder:
            made = Path(folder, "kernel.cubin")
            made.write_bytes(self.cubin)
            done = subprocess.run([nvdisasm, "-c", str(made)], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None


def compile(kernel: object, signature: str, cc: tuple[int, int] = (9, 0)) -> Compiled:
    """Compile a kernel; it needs no GPU and no driver.

    Parameters
    ----------
    kernel
        A function as it is launched, with ``@cuda.jit`` above it.
    signature
        The types of its arguments, in Numba's words: ``"void(float32[:], int32)"``, or without ``void``.
    cc
        The compute capability of the GPU to compile for.

    Returns
    -------
    Compiled
        Its PTX, what it consists of, and what it needs.

    Raises
    ------
    TypeError
        If this is no kernel, or the signature no string.
    ValueError
        If the signature does not fit the kernel, or CUDA does not know this compute capability.
    CompileError
        If the compiler refuses the kernel.
    NoCompilerError
        If NVIDIA's compiler is not installed.

    Examples
    --------
    >>> from firstlight_kernels import cuda, ptx
    >>> @cuda.jit
    ... def axpy(a, x, y):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         y[i] = a * x[i] + y[i]
    >>> compiled = ptx.compile(axpy, "void(float32, float32[:], float32[:])")  # doctest: +SKIP
    >>> compiled.mix["fma.f32"], compiled.mix["fma.f64"]  # doctest: +SKIP
    (1, 0)
    """
    function = _checked(kernel, signature, cc)
    if cc not in (known := _capabilities()):
        raise ValueError(f"cc={cc}: the CUDA that is installed compiles for {', '.join(map(str, known))}")
    arguments = _argument_types(signature)
    if len(arguments) != function.__code__.co_argcount:
        expected = f"{function.__name__} takes {function.__code__.co_argcount} arguments"
        raise ValueError(f"{expected}, and signature {signature!r} has {len(arguments)}")
    copies = _Copies()
    with _LOCK, _compiling_for(cc):
        copy = copies.of(kernel)
        try:
            wanted = _options(kernel, "fastmath", "opt", "launch_bounds")
            text, _ = cuda.compile_ptx(copy.py_func, arguments, cc=cc, **wanted)
        except Exception as error:
            raise CompileError(copies.explain(error)) from None
    entry = re.search(r"\.entry\s+([\w$]+)", text)
    if entry and function.__name__.isascii():
        text = text.replace(entry[1], function.__name__)
    log, cubin, refusal = _assemble(text, cc, _options(kernel, "max_registers").get("max_registers"))
    if refusal:
        raise CompileError(_at(function.__code__, function.__code__.co_firstlineno, refusal))
    return Compiled(text, mix_of(text), *_resources(log), cubin)


def _checked(kernel: Any, signature: object, cc: object) -> FunctionType:
    function = python_function(kernel)
    if getattr(kernel, "_device", False) or _options(kernel, "device").get("device"):
        raise TypeError(f"{function.__name__} is a device function: give the kernel that calls it")
    if not isinstance(signature, str):
        raise TypeError(f'signature={signature!r}: write the types as a string, such as "void(float32[:], int32)"')
    if not (isinstance(cc, tuple) and len(cc) == 2 and all(isinstance(part, int) for part in cc)):
        raise TypeError(f"cc={cc!r}: write the compute capability as two numbers, such as (9, 0)")
    return function


def _options(kernel: Any, *names: str) -> dict[str, Any]:
    """Return those of some options that were given to ``@cuda.jit``; the simulator keeps only ``fastmath``."""
    given = getattr(kernel, "targetoptions", None) or {"fastmath": kernel._fastmath}
    return {name: given[name] for name in names if given.get(name) is not None}


# -- The compiler --------------------------------------------------------------------------------------------------


def _capabilities() -> list[tuple[int, int]]:
    """Return the compute capabilities for which NVIDIA's libraries compile, or raise if they are not here."""
    try:
        if getattr(cuda, "compile_ptx", None) is None:
            raise ImportError("numba was imported with NUMBA_ENABLE_CUDASIM=1, which leaves out its compiler")
        import_module("numba_cuda")  # which replaces Numba's own, older compiler
        import_module("numba.cuda.cudadrv.nvvm").NVVM()
        return [tuple(cc) for cc in import_module("numba.cuda.cudadrv.nvrtc").get_supported_ccs()]
    except Exception as error:
        cure = "There is none for macOS" if sys.platform == "darwin" else f"Install it: {_INSTALL}"
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0].strip()}"
        raise NoCompilerError(f"NVIDIA's compiler (NVVM) is not installed ({reason}). {cure}.") from None


def _argument_types(signature: str) -> tuple[Any, ...]:
    """Return Numba's types of the arguments; what is returned must be nothing."""
    types, sigutils = import_module("numba.core.types"), import_module("numba.core.sigutils")
    try:
        found = sigutils._parse_signature_string(signature)
        arguments, returned = sigutils.normalize_signature((found,) if isinstance(found, types.Type) else found)
        if returned not in (None, types.void):
            raise TypeError(f"a kernel returns nothing (void), not {returned}")
    except Exception as error:
        raise ValueError(
            f"signature {signature!r} cannot be read: {type(error).__name__}: {error}. Write, for example, "
            '"void(float32[:], int32)"'
        ) from None
    return tuple(arguments)


@contextmanager
def _compiling_for(cc: tuple[int, int]) -> Iterator[None]:
    """Set Numba up to compile as on a GPU of this compute capability."""
    dispatcher = import_module("numba.cuda.dispatcher")
    identity = import_module("numba.cuda.core.bytecode").FunctionIdentity
    settings: list[tuple[Any, str, Any]] = [
        (dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=cc)),  # for device functions
        (identity, "_unique_ids", count(1)),  # a part of each name: the same kernel gives the same text
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in settings]
    try:
        for setting in settings:
            setattr(*setting)
        with catch_warnings(action="ignore"):  # what Numba warns of is in its own code
            yield
    finally:
        for setting in before:
            setattr(*setting)


class _Copies:
    """Copies of a kernel and of the functions that it calls, to be compiled once, for the GPU that was asked for."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._functions: list[FunctionType] = []

    def of(self, jitted: Any) -> Any:
        """Return the copy of what ``@cuda.jit``, or Numba's ``njit``, made."""
        function: FunctionType = jitted.py_func
        if id(function) not in self._made:
            self._functions.append(function)
            copy = empty_copy(function)
            wanted = _options(jitted, "fastmath", "inline", "opt") if is_jitted(jitted) else {}
            self._made[id(function)] = cuda.jit(device=True, **wanted)(copy)  # before what it calls, perhaps itself
            fill_copy(copy, function, self._translate)
        return self._made[id(function)]

    def _translate(self, value: Any) -> Any:
        if is_jitted(value) or type(value).__name__ == "CPUDispatcher":
            return self.of(value)
        return object() if _why_no_constant(value) else value  # Numba says in which line it does not know this type

    def explain(self, error: Exception) -> str:
        """Return in which line a kernel cannot be compiled, and why."""
        message = re.sub(r"\x1b\[\d*m", "", str(error) or type(error).__name__)
        codes = [function.__code__ for function in self._functions]
        filename, line = _line_of(error, message) or (codes[0].co_filename, codes[0].co_firstlineno)
        reason = _reason(message)
        if named := re.search(r"name '(\w+)': Cannot determine", reason):
            reason = f"{named[1]} is {self._unusable(named[1])}"
        return _at(next((code for code in codes if _holds(code, filename, line)), codes[0]), line, reason)

    def _unusable(self, name: str) -> str:
        for function in self._functions:
            cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
            if name in cells or name in function.__globals__:
                value = cells[name].cell_contents if name in cells else function.__globals__[name]
                if isinstance(value, FunctionType):
                    return "a plain function, which no kernel can call. Put @cuda.jit(device=True) above it"
                return _why_no_constant(value) or f"of type {type(value).__name__}, which no kernel can use"
        return "of a type that no kernel can use"


def _why_no_constant(value: object) -> str | None:
    """Return why a value cannot be a constant of a kernel, as the end of a sentence, or None if it can."""
    if isinstance(value, np.ndarray) and value.nbytes > _CONSTANT_BYTES:
        room = f"and a kernel has room for {_CONSTANT_BYTES} in its code"
        return f"an array of {value.nbytes} bytes, {room}. Pass it as an argument"
    if isinstance(value, list | dict | set):
        return f"of type {type(value).__name__}, which no kernel can use. Pass its numbers as arguments"
    return None


def _line_of(error: BaseException, message: str) -> tuple[str, int] | None:
    """Return the line at which the compiler stopped: what it says, or what it was working on."""
    if named := _LINE.search(message):
        return named["file"] or named["path"], int(named["line"] or named["number"])
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for name in _HAVE_LOC:
            with suppress(Exception):
                loc = getattr(frame.f_locals[name], "loc", frame.f_locals[name])
                return str(loc.filename), int(loc.line)
    return None


def _holds(code: CodeType, filename: str, line: int) -> bool:
    lines = [number for _, _, number in code.co_lines() if number]
    return Path(code.co_filename).name == Path(filename).name and min(lines) <= line <= max(lines)


def _at(code: CodeType, line: int, reason: str) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_name}, line {line}{f' `{source}`' if source else ''}: {reason}"


# -- The assembler -------------------------------------------------------------------------------------------------


def _assemble(text: str, cc: tuple[int, int], max_registers: int | None) -> tuple[str | None, bytes | None, str | None]:
    """Return what ptxas, where there is one, says of the machine code that it makes, the code, and its error."""
    if not (ptxas := _tool("ptxas")):
        return None, None, None
    with TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text, encoding="utf-8")
        limit = [f"--maxrregcount={max_registers}"] if max_registers else []
        command = [ptxas, "-v", f"-arch=sm_{cc[0]}{cc[1]}", *limit, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.returncode:
            return done.stderr, made.read_bytes(), None
    if any(reason in done.stderr for reason in _ANOTHER_PTXAS):
        return None, None, None
    says = re.search(r"(?:error|fatal)\s*: (.*)", done.stderr)
    return None, None, f"ptxas: {says[1] if says else done.stderr.strip()}"


def _tool(name: str) -> str | None:
    """Return the path of one of CUDA's programs: beside the libraries in pip's or conda's packages, or on the path."""
    with suppress(Exception):  # pathfinder is new and changes; without it the path is searched
        if found := import_module("cuda.pathfinder").find_nvidia_binary_utility(name):
            return str(found)
    return shutil.which(name)


# -- What they say --------------------------------------------------------------------------------------------------


def _reason(message: str) -> str:
    r"""Return the sentence of one of Numba's messages that says what was wrong.

    Examples
    --------
    >>> _reason("Failed in cuda mode pipeline (step: nopython frontend)\nNameError: name 'n' is not defined")
    "NameError: name 'n' is not defined"
    """
    plain = re.sub(r"<module '([\w.]+)'[^>]*>", r"\1", message)  # without the path on this machine
    if wanted := re.search(r"No implementation .*\s+>>> (.*)", plain):
        because = re.search(r"raised a specific error:\s+Numba\w*Error: (?!Failed)(.*)", plain)
        return f"no implementation of {wanted[1]} for a GPU" + (f": {because[1]}" if because else "")
    plain = re.sub(r"^Failed in .*\n", "", plain)
    sentence = re.split(r'\s*\n\s*(?:\n|File "|During: )|\.?\s*Raised from', plain)[0]
    if sentence.startswith("NRT required"):
        sentence = "a kernel cannot make an array, a list or another object that lives in allocated memory"
    elif "insert_unresolved_ref" in sentence:
        sentence = (
            "Numba compiles a function that calls itself with arguments of its own types, but no circle of several. "
            "Convert the arguments, for example int32(n - 1), or write a loop"
        )
    elif re.match(r"'\w+' object has no attribute", sentence):
        sentence = f"this is nothing for a GPU: Numba's compiler breaks on it ({sentence})"
    return " ".join(sentence.split())


def mix_of(text: str) -> Counter[str]:
    """Return how often each instruction occurs in a PTX text, the most frequent first.

    Examples
    --------
    >>> mix_of("{ @%p1 bra $L1; fma.rn.f32 %f3, %f1, %f2, %f3; $L1: ret; }")
    Counter({'bra': 1, 'fma.f32': 1, 'ret': 1})
    """
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    bare = re.sub(r"\{[^;{}]*\}", "", bare)  # operands in braces; a block has statements, which end with ";"
    found = (_INSTRUCTION.match(statement) for statement in re.split(r"[;{}]", bare))
    counts = Counter(_without_modifiers(match[1]) for match in found if match)
    return Counter(dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))))


def _without_modifiers(instruction: str) -> str:
    parts = (part.split("::")[0] for part in instruction.split("."))
    return ".".join(part for part in parts if part not in _ROUNDING | _CACHING)


def _resources(log: str | None) -> tuple[int | None, int | None, int | None]:
    r"""Return a kernel's registers, its bytes of shared memory and its bytes spilled, as ``ptxas -v`` prints them.

    Examples
    --------
    >>> _resources("8 bytes spill stores, 4 bytes spill loads\nUsed 10 registers, 256 bytes smem")
    (10, 256, 12)
    """
    used = re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", log or "")
    if not log or not used:
        return None, None, None
    spilled = sum(int(count) for count in re.findall(r"(\d+) bytes spill", log))
    return int(used[1]), int(used[2] or 0), spilled
