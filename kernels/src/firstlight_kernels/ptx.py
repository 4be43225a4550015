"""Compile a kernel for any NVIDIA GPU, without one, and see what the compiler made of it.

The kernel's compiler turns Python into LLVM (numba-cuda-mlir by way of MLIR) and that into PTX, with NVIDIA's NVVM.
NVIDIA's ptxas turns PTX into machine code.
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
from contextlib import ExitStack, contextmanager, suppress
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

from firstlight_kernels.compilers import MLIR, NUMBA, NUMBA_CUDA, Compiler, compiler_of, is_jitted, python_function
from firstlight_kernels.copies import empty_copy, fill_copy, outer_names

__all__ = ["CompileError", "Compiled", "NoCompilerError", "compile", "mix_of"]

_CONSTANT_BYTES = 65536  # CUDA has so much constant memory

# What an instruction's name says about how it rounds and caches: `mix` leaves it out.
_ROUNDING = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat"}
_CACHING = {"ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "weak", "L1", "L2"}
_INSTRUCTION = re.compile(r"(?:\s|\$?\w+:(?!:))*(?:@!?%\w+\s+)?([a-z]\w*(?:\.[\w:]+)*)")

# A text of Numba's that names a line of the source, and the local variables of its compiler that have a `loc`.
_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|(?:at|from) (?P<path>\S+) \((?P<number>\d+)\)')
_HAVE_LOC = ("loc", "inst", "stmt", "self", "interp")
_ANOTHER_PTXAS = ("Unsupported .version", "Unresolved extern function")

# Sentences of Numba's, by how they begin, and what they mean.
_IN_OUR_WORDS = {
    "NRT required": "a kernel cannot make an array, a list or another object that lives in allocated memory",
    ".*insert_unresolved_ref": "Numba compiles a function that calls itself with arguments of its own types, but no "
    "circle of several. Convert the arguments, for example int32(n - 1), or write a loop",
    # NumPy's random numbers, once Numba has compiled them for the CPU
    ".*maximum recursion depth": "this is nothing for a GPU: Numba's compiler goes round in a circle on it",
    r"('\w+' object has no attribute.*)": r"this is nothing for a GPU: Numba's compiler breaks on it (\1)",
}

_LOCK = Lock()  # the compiler's settings are those of the whole process


class CompileError(Exception):
    """A kernel that cannot be compiled for a GPU, even if the simulator runs it; the message names the line.

    Examples
    --------
    >>> from numba import cuda
    >>> from firstlight_kernels import ptx
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


def compile(kernel: object, signature: str | tuple[Any, ...], cc: tuple[int, int] = (9, 0)) -> Compiled:
    """Compile a kernel; it needs no GPU and no driver.

    Parameters
    ----------
    kernel
        A function as it is launched, with ``@cuda.jit`` above it.
    signature
        The types of its arguments, in Numba's words: ``"void(float32[:], int32)"``, or without ``void``; or a tuple of
        the compiler's types.
    cc
        The compute capability of the GPU to compile for.

    Returns
    -------
    Compiled
        Its PTX, what it consists of, and what it needs.

    Raises
    ------
    TypeError
        If this is no kernel, or the signature neither a string nor a tuple.
    ValueError
        If the signature does not fit the kernel, or CUDA does not know this compute capability.
    CompileError
        If the compiler refuses the kernel.
    NoCompilerError
        If NVIDIA's compiler is not installed.

    Examples
    --------
    >>> from numba import cuda
    >>> from firstlight_kernels import ptx
    >>> @cuda.jit
    ... def axpy(a, x, y):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         y[i] = a * x[i] + y[i]
    >>> compiled = ptx.compile(axpy, "void(float32, float32[:], float32[:])")  # doctest: +SKIP
    >>> compiled.mix["fma.f32"], compiled.mix["fma.f64"]  # doctest: +SKIP
    (1, 0)
    """
    function, compiler = _checked(kernel, signature, cc), compiler_of(kernel)
    if cc not in (known := _capabilities(compiler)):
        raise ValueError(f"cc={cc}: the CUDA that is installed compiles for {', '.join(map(str, known))}")
    arguments = _argument_types(signature, compiler)
    if len(arguments) != function.__code__.co_argcount:
        expected = f"{function.__name__} takes {function.__code__.co_argcount} arguments"
        raise ValueError(f"{expected}, and signature {signature!r} has {len(arguments)}")
    copies = _Copies(compiler)
    with _LOCK, _compiling_for(cc, compiler):
        copy = copies.of(kernel)
        try:
            wanted = _options(kernel, "fastmath", "opt", "launch_bounds")
            text, _ = compiler.cuda.compile_ptx(copy.py_func, arguments, cc=cc, **wanted)
        except Exception as error:
            raise CompileError(copies.explain(error)) from None
    text = text.rstrip("\0")  # with which numba-cuda-mlir 0.6 ends that for Blackwell
    entry = re.search(r"\.entry\s+([\w$]+)", text)
    if entry and function.__name__.isascii():
        text = text.replace(entry[1], function.__name__)
    return Compiled(text, mix_of(text), *_assembled(text, cc, kernel))


def _checked(kernel: Any, signature: object, cc: object) -> FunctionType:
    function = python_function(kernel)
    if _options(kernel, "device").get("device"):
        raise TypeError(f"{function.__name__} is a device function: give the kernel that calls it")
    if not isinstance(signature, str | tuple):
        raise TypeError(f'signature={signature!r}: write the types as a string, such as "void(float32[:], int32)"')
    if not (isinstance(cc, tuple) and len(cc) == 2 and all(isinstance(part, int) for part in cc)):
        raise TypeError(f"cc={cc!r}: write the compute capability as two numbers, such as (9, 0)")
    return function


def _options(kernel: Any, *names: str) -> dict[str, Any]:
    """Return those of some options that were given to ``@cuda.jit``."""
    return {name: given for name in names if (given := kernel.targetoptions.get(name)) is not None}


# -- The compiler --------------------------------------------------------------------------------------------------


def _capabilities(compiler: Compiler) -> list[tuple[int, int]]:
    """Return the compute capabilities for which NVIDIA's libraries compile, or raise if they are not here."""
    try:
        if compiler == NUMBA:
            raise ImportError("what Numba brings itself is older")
        compiler.part("cudadrv.nvvm").NVVM()
        return [tuple(cc) for cc in compiler.part("cudadrv.nvrtc").get_supported_ccs()]
    except Exception as error:
        install = f'python -m pip install "{(NUMBA_CUDA if compiler == NUMBA else compiler).name}[cu13]"'
        cure = "There is none for macOS" if sys.platform == "darwin" else f"Install it: {install}"
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0].strip()}"
        raise NoCompilerError(f"NVIDIA's compiler (NVVM) is not installed ({reason}). {cure}.") from None


def _argument_types(signature: str | tuple[Any, ...], compiler: Compiler) -> tuple[Any, ...]:
    """Return the compiler's types of the arguments; what is returned must be nothing."""
    types, sigutils = compiler.part("types"), compiler.part("core.sigutils")
    try:
        found = sigutils._parse_signature_string(signature) if isinstance(signature, str) else signature
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
def _compiling_for(cc: tuple[int, int], compiler: Compiler) -> Iterator[None]:
    """Set a compiler up to compile as on a GPU of this compute capability, and the same kernel to the same text."""
    settings: list[tuple[Any, str, Any]] = [(compiler.part("core.bytecode").FunctionIdentity, "_unique_ids", count(1))]
    if compiler == MLIR:
        settings += [
            (import_module("numba_cuda_mlir.lowering.cuda"), "shmem_id", 0),
            (import_module("numba_cuda_mlir.tools"), "_cached_cc", cc),  # 0.6 asks the GPU for it, whatever it is given
        ]
    else:
        device = SimpleNamespace(compute_capability=cc)
        settings += [
            (compiler.part("cudaimpl"), "_unique_smem_id", 0),
            (compiler.part("dispatcher"), "get_current_device", lambda: device),  # for device functions
        ]
    with ExitStack() as stack, catch_warnings(action="ignore"):  # what Numba warns of is in its own code
        for owner, name, value in settings:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


class _Copies:
    """Copies of a kernel and of the functions that it calls, to be compiled once, for the GPU that was asked for."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._made: dict[int, Any] = {}
        self._functions: list[FunctionType] = []

    def of(self, jitted: Any) -> Any:
        """Return the copy of what ``@cuda.jit`` made, or ``njit``, of which numba-cuda takes functions, too."""
        function: FunctionType = jitted.py_func
        if id(function) not in self._made:
            self._functions.append(function)
            copy = empty_copy(function)
            wanted = _options(jitted, "fastmath", "inline", "opt") if is_jitted(jitted) else {}
            # Before what it calls, which may be itself.
            self._made[id(function)] = self._compiler.cuda.jit(device=True, **wanted)(copy)
            fill_copy(copy, function, self._translate)
        return self._made[id(function)]

    def _translate(self, value: Any, _: str) -> Any:
        if self._takes(value):
            return self.of(value)
        return object() if self._why_not(value) else value  # Numba says in which line it does not know this type

    def _takes(self, value: Any) -> bool:
        """Return whether the compiler takes a function."""
        if is_jitted(value):
            return compiler_of(value) == self._compiler
        return type(value).__name__ == "CPUDispatcher" and self._compiler != MLIR

    def _why_not(self, value: Any) -> str | None:
        """Return why a value cannot be used in a kernel, as the end of a sentence, or None if it can."""
        if hasattr(value, "py_func") and not self._takes(value):
            other = compiler_of(value).name if is_jitted(value) else "Numba, for the CPU"
            return f"compiled by {other}. Put the @cuda.jit(device=True) of {self._compiler.name} above it"
        if isinstance(value, np.ndarray) and value.nbytes > _CONSTANT_BYTES:
            room = f"and a kernel has room for {_CONSTANT_BYTES} in its code"
            return f"an array of {value.nbytes} bytes, {room}. Pass it as an argument"
        if isinstance(value, list | dict | set):
            return f"of type {type(value).__name__}, which no kernel can use. Pass its numbers as arguments"
        return None

    def explain(self, error: Exception) -> str:
        """Return in which line a kernel cannot be compiled, and why."""
        if type(error).__name__ == "UserFacingInternalCompilerError" and isinstance(error.__context__, Exception):
            error = error.__context__  # numba-cuda-mlir's own sentence asks to file a bug
        message = re.sub(r"\x1b\[\d*m", "", str(error) or type(error).__name__)
        codes = [function.__code__ for function in self._functions]
        held = ((code, line) for file, line in _lines_of(error, message) for code in codes if _holds(code, file, line))
        code, line = next(held, (codes[0], codes[0].co_firstlineno))
        reason = _reason(message)
        if named := re.search(r"name '(\w+)': Cannot determine", reason):
            reason = f"{named[1]} is {self._unusable(named[1])}"
        return _at(code, line, reason)

    def _unusable(self, name: str) -> str:
        for function in self._functions:
            if name in (known := outer_names(function)):
                value = known[name]
                if isinstance(value, FunctionType):
                    return "a plain function, which no kernel can call. Put @cuda.jit(device=True) above it"
                return self._why_not(value) or f"of type {type(value).__name__}, which no kernel can use"
        return "of a type that no kernel can use"


def _lines_of(error: BaseException, message: str) -> Iterator[tuple[str, int]]:
    """Yield the lines at which the compiler may have stopped: those that it names, and those that it was working on."""
    for named in _LINE.finditer(message):
        yield named["file"] or named["path"], int(named["line"] or named["number"])
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for name in _HAVE_LOC:
            with suppress(Exception):
                loc = getattr(frame.f_locals[name], "loc", frame.f_locals[name])
                yield str(loc.filename), int(loc.line)


def _holds(code: CodeType, filename: str, line: int) -> bool:
    """Return whether a line is one of a function's; its compiler may have shortened the path."""
    lines = [number for _, _, number in code.co_lines() if number]
    return min(lines) <= line <= max(lines) and Path(code.co_filename).absolute() == Path(filename).absolute()


def _at(code: CodeType, line: int, reason: str) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_name}, line {line}{f' `{source}`' if source else ''}: {reason}"


# -- The assembler -------------------------------------------------------------------------------------------------


def _assembled(text: str, cc: tuple[int, int], kernel: Any) -> tuple[Any, ...]:
    """Return what ptxas says of the machine code that it makes of a kernel, and the code; nothing where it can't."""
    if not (ptxas := _tool("ptxas")):
        return ()
    with TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text, encoding="utf-8")
        limit = [f"--maxrregcount={most}" for most in _options(kernel, "max_registers").values() if most]
        command = [ptxas, "-v", f"-arch=sm_{cc[0]}{cc[1]}", *limit, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.returncode:
            return *_resources(done.stderr), made.read_bytes()
    if any(reason in done.stderr for reason in _ANOTHER_PTXAS):
        return ()
    says, code = re.search(r"(?:error|fatal)\s*: (.*)", done.stderr), kernel.py_func.__code__
    raise CompileError(_at(code, code.co_firstlineno, f"ptxas: {says[1] if says else done.stderr.strip()}"))


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
    whole = " ".join(plain.split())
    if broken := re.match(r"Invalid MLIR module: .*?error: (?:\S+:\d+:\d+: )?(.*?)(?: note:|$)", whole):
        return f"numba-cuda-mlir's compiler breaks on it ({broken[1]})"
    sentence = " ".join(re.split(r'\s*\n\s*(?:\n|File "|During: )|\.?\s*Raised from', plain)[0].split())
    known = ((re.match(pattern, sentence), words) for pattern, words in _IN_OUR_WORDS.items())
    return next((found.expand(words) for found, words in known if found), sentence)


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


def _resources(log: str) -> tuple[int, int, int] | tuple[None, None, None]:
    r"""Return a kernel's registers, its bytes of shared memory and its bytes spilled, as ``ptxas -v`` prints them.

    Examples
    --------
    >>> _resources("8 bytes spill stores, 4 bytes spill loads\nUsed 10 registers, 256 bytes smem")
    (10, 256, 12)
    """
    used = re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", log)
    spilled = sum(int(count) for count in re.findall(r"(\d+) bytes spill", log))
    return (int(used[1]), int(used[2] or 0), spilled) if used else (None, None, None)
