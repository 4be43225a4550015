"""Compile a kernel for any NVIDIA GPU, without one, and see what the compiler made of it.

The work is done in a child process (``ptx_process``), in which Numba's simulator is off.
"""

from __future__ import annotations

import linecache
import marshal
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from typing import Any

from firstlight.kernels import ptx_process, ptx_ship
from firstlight.kernels.cuda import python_function

INSTALL = 'python -m pip install "numba-cuda[cu13]"'

# What an instruction's name says about how it rounds and caches: `mix` leaves it out.
ROUNDING = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat"}
CACHING = {"ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "weak", "L1", "L2"}
INSTRUCTION = re.compile(r"(?:\s|\$?\w+:(?!:))*(?:@!?%\w+\s+)?([a-z]\w*(?:\.[\w:]+)*)")


class CompileError(Exception):
    """A kernel that runs in the simulator, perhaps, but that no GPU can run; the message names the line.

    Examples
    --------
    >>> from firstlight.kernels import cuda, ptx
    >>> @cuda.jit
    ... def fill(out):
    ...     out[cuda.grid(1)] = [1, 2]
    >>> ptx.compile(fill, "void(float32[:])")  # doctest: +SKIP
    Traceback (most recent call last):
    CompileError: fill, line 3 `out[cuda.grid(1)] = [1, 2]`: a kernel cannot make an array, a list ...
    """


class NoCompilerError(RuntimeError):
    """NVIDIA's compiler is not installed here, or does not start; the message tells how to get it.

    Examples
    --------
    >>> try:  # doctest: +SKIP
    ...     print(ptx.compile(axpy, "void(float32, float32[:], float32[:])").mix["fma.f32"])
    ... except ptx.NoCompilerError as problem:
    ...     print(problem)
    """


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of a kernel.

    ``text`` is PTX, the assembly language of all NVIDIA GPUs. A second compiler, ptxas, turns it into ``sass``, the
    machine code of one kind of GPU, and decides how many ``registers`` a thread and how much shared memory
    (``shared_bytes``) a block needs, and how many bytes a thread stores and loads because they fit in no register
    (``spill_bytes``, both ways added). These are None where ptxas is not installed, ``sass`` also without nvdisasm.

    ``mix`` counts the instructions as they are written, not as they run: what stands in a loop counts once, and
    twice if the compiler unrolled the loop by two. An instruction is named without the parts that say how it rounds
    and caches, so ``fma.rn.f32`` is ``fma.f32``, and ``ld.global.nc.f32`` is ``ld.global.f32``; the most frequent
    comes first, and one that does not occur counts 0.

    Examples
    --------
    >>> from firstlight.kernels import ptx
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
    _nvdisasm: str | None = field(default=None, repr=False)

    @cached_property
    def sass(self) -> str | None:
        """The machine code, written down when it is first asked for, since that takes longer than to compile."""
        if self.cubin is None or self._nvdisasm is None:
            return None
        with TemporaryDirectory() as folder:
            made = Path(folder, "kernel.cubin")
            made.write_bytes(self.cubin)
            command = [self._nvdisasm, "-c", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=ptx_process.LIMIT_SECONDS)
        return done.stdout if done.returncode == 0 else None


def compile(kernel: object, signature: str, cc: tuple[int, int] = (9, 0)) -> Compiled:
    """Compile a kernel; no GPU and no driver are needed, and the simulator may be on.

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
    >>> from firstlight.kernels import cuda, ptx
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
    try:
        shipped = ptx_ship.shipped(kernel)
    except ptx_ship.NotShippable as problem:
        raise CompileError(_at(problem.code, problem.line, str(problem))) from None
    codes = [function.__code__, *_codes(shipped)]
    try:
        got = ptx_process.asked(pickle.dumps((shipped, signature, cc)))
    except ptx_process.NoAnswerError as problem:
        raise CompileError(f"{function.__name__}: {problem}") from None
    except ptx_process.AbsentError as problem:
        where = "There is none for macOS" if sys.platform == "darwin" else f"Install it: {INSTALL}"
        raise NoCompilerError(
            f"NVIDIA's compiler is not to be had here ({problem}). {where}. The pages show what it printed elsewhere."
        ) from None
    _refuse(got, signature, cc, codes)
    return Compiled(
        got["text"], mix_of(got["text"]), *resources_of(got.get("log")), got.get("cubin"), got.get("nvdisasm")
    )


def _checked(kernel: Any, signature: object, cc: object) -> Any:
    function = python_function(kernel)
    if ptx_ship.is_device(kernel):
        raise TypeError(f"{function.__name__} is a device function: give the kernel that calls it")
    if not isinstance(signature, str):
        raise TypeError(f'signature={signature!r}: write the types as a string, such as "void(float32[:], int32)"')
    if not (isinstance(cc, tuple) and len(cc) == 2 and all(isinstance(part, int) for part in cc)):
        raise TypeError(f"cc={cc!r}: write the compute capability as two numbers, such as (9, 0)")
    return function


def _refuse(got: dict[str, Any], signature: str, cc: tuple[int, int], codes: list[CodeType]) -> None:
    """Raise what the child found wrong."""
    name, wanted = codes[0].co_name, codes[0].co_argcount
    if "cc" in got:
        known = ", ".join(f"({major}, {minor})" for major, minor in got["cc"])
        raise ValueError(f"cc={cc}: the CUDA that is installed compiles for {known}")
    if "signature" in got:
        raise ValueError(
            f'signature {signature!r} cannot be read: {got["signature"]}. Write, for example, "void(float32[:], int32)"'
        )
    if "arguments" in got:
        raise ValueError(f"{name} takes {wanted} arguments, and signature {signature!r} has {got['arguments']}")
    if "error" in got:
        filename, line = got["place"] or (codes[0].co_filename, codes[0].co_firstlineno)
        place = next((code for code in codes if _holds(code, filename, line)), codes[0])
        raise CompileError(_at(place, line, reason_of(got["error"])))


def _codes(shipped: list[dict[str, Any]]) -> Iterator[CodeType]:
    """Give the code of the device functions."""
    yield from (marshal.loads(function["code"]) for function in shipped[1:])


def _holds(code: CodeType, filename: str, line: int) -> bool:
    lines = [number for _, _, number in code.co_lines() if number]
    return Path(code.co_filename).name == Path(filename).name and min(lines) <= line <= max(lines)


def _at(code: CodeType, line: int, reason: str) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_name}, line {line}{f' `{source}`' if source else ''}: {reason}"


def reason_of(message: str) -> str:
    r"""Shorten one of Numba's messages to the sentence that says what was wrong.

    Examples
    --------
    >>> reason_of("Failed in cuda mode pipeline (step: nopython frontend)\nNameError: name 'n' is not defined")
    "NameError: name 'n' is not defined"
    """
    plain = re.sub(r"\x1b\[\d*m", "", message)
    plain = re.sub(r"<module '([\w.]+)'[^>]*>", r"\1", plain)  # without the path on this machine
    if wanted := re.search(r"No implementation .*\s+>>> (.*)", plain):
        because = re.search(r"raised a specific error:\s+Numba\w*Error: (?!Failed)(.*)", plain)
        return f"no implementation of {wanted[1]} for a GPU" + (f": {because[1]}" if because else "")
    plain = re.sub(r"^Failed in .*\n", "", plain)
    sentence = re.split(r'\s*\n\s*(?:\n|File "|During: )|\.?\s*Raised from', plain)[0]
    if sentence.startswith("NRT required"):
        sentence = "a kernel cannot make an array, a list or another object that lives in allocated memory"
    elif re.match(r"'\w+' object has no attribute", sentence):
        sentence = f"this is nothing for a GPU: Numba's compiler breaks on it ({sentence})"
    return " ".join(sentence.split())


def mix_of(text: str) -> Counter[str]:
    """Count the instructions of a PTX text by name, the most frequent first.

    Examples
    --------
    >>> mix_of("{ @%p1 bra $L1; fma.rn.f32 %f3, %f1, %f2, %f3; $L1: ret; }")
    Counter({'bra': 1, 'fma.f32': 1, 'ret': 1})
    """
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    found = (INSTRUCTION.match(statement) for statement in re.split(r"[;{}]", bare))
    counts = Counter(_short(match[1]) for match in found if match)
    return Counter(dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))))


def _short(instruction: str) -> str:
    parts = (part.split("::")[0] for part in instruction.split("."))
    return ".".join(part for part in parts if part not in ROUNDING | CACHING)


def resources_of(log: str | None) -> tuple[int | None, int | None, int | None]:
    r"""Read what ``ptxas -v`` says of a kernel: its registers, its bytes of shared memory, its bytes spilled.

    Examples
    --------
    >>> resources_of("8 bytes spill stores, 4 bytes spill loads\nUsed 10 registers, 256 bytes smem")
    (10, 256, 12)
    """
    used = re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", log or "")
    if not log or not used:
        return None, None, None
    spilled = sum(int(count) for count in re.findall(r"(\d+) bytes spill", log))
    return int(used[1]), int(used[2] or 0), spilled
