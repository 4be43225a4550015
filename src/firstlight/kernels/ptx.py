"""Compile a kernel for any NVIDIA GPU, without one, and see what the compiler made of it.

The work is done by ``ptx_child``, in a process in which Numba's simulator is off. A kernel goes there as plain data:
source text does not always exist, and its lines would shift, so the code travels, with what it looks up.
"""

from __future__ import annotations

import atexit
import io
import linecache
import marshal
import os
import pickle
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Timer
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from firstlight.kernels.backend import is_jitted, looked_up, python_function

INSTALL = 'python -m pip install "numba-cuda[cu13]"'
CHILD = Path(__file__).with_name("ptx_child.py")
LIMIT_SECONDS = 60.0
CONSTANT_BYTES = 65536  # CUDA has so much constant memory
OPTIONS = ("fastmath", "opt", "inline", "launch_bounds", "max_registers")
SAME_EVERYWHERE = ("builtins", "cmath", "math", "numba", "numpy", "operator")  # modules that are imported over there

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
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
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
        parcel = Parcel((kernel, signature, cc))
    except RecursionError:
        raise CompileError(f"{function.__name__}: it calls functions that call each other in a circle") from None
    got = answered(function.__name__, parcel.data)
    _refuse(got, signature, cc, parcel)
    resources = resources_of(got.get("log"))
    return Compiled(got["text"], mix_of(got["text"]), *resources, got.get("cubin"), got.get("nvdisasm"))


def _checked(kernel: Any, signature: object, cc: object) -> FunctionType:
    function = python_function(kernel)
    if getattr(kernel, "_device", False) or getattr(kernel, "targetoptions", {}).get("device"):
        raise TypeError(f"{function.__name__} is a device function: give the kernel that calls it")
    if not isinstance(signature, str):
        raise TypeError(f'signature={signature!r}: write the types as a string, such as "void(float32[:], int32)"')
    if not (isinstance(cc, tuple) and len(cc) == 2 and all(isinstance(part, int) for part in cc)):
        raise TypeError(f"cc={cc!r}: write the compute capability as two numbers, such as (9, 0)")
    return function


def _refuse(got: dict[str, Any], signature: str, cc: tuple[int, int], parcel: Parcel) -> None:
    """Raise what the child found wrong."""
    codes = parcel.codes
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
        reason = reason_of(got["error"])
        if (named := re.search(r"name '(\w+)'", reason)) and named[1] in parcel.useless:
            reason = f"{named[1]} is {parcel.useless[named[1]]}"
        raise CompileError(_at(place, line, reason))


def _holds(code: CodeType, filename: str, line: int) -> bool:
    lines = [number for _, _, number in code.co_lines() if number]
    return Path(code.co_filename).name == Path(filename).name and min(lines) <= line <= max(lines)


def _at(code: CodeType, line: int, reason: str) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_name}, line {line}{f' `{source}`' if source else ''}: {reason}"


# -- To the child and back -----------------------------------------------------------------------------------------


class Parcel(pickle.Pickler):
    """A kernel, and the device functions that it uses, as data for another Python of the same version."""

    def __init__(self, question: object) -> None:
        self.codes: list[CodeType] = []
        self.useless: dict[str, str] = {}  # names of what no kernel can use, and why
        file = io.BytesIO()
        super().__init__(file)
        self.dump(question)
        self.data = file.getvalue()

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a function, a module or a member of the simulator; the child makes it again."""
        if is_jitted(value):
            return "function", *self._parts(value)
        if isinstance(value, ModuleType):
            there = _known_there(value.__name__)
            return ("module", value.__name__) if there else ("namespace", value.__name__, vars(value))
        if str(getattr(value, "__module__", "")).startswith("numba.cuda.simulator"):
            return "member", value.__name__
        return None

    def _parts(self, jitted: Any) -> tuple[bytes, Any, dict[str, Any], dict[str, Any]]:
        function = python_function(jitted)
        code, names = function.__code__, dict[str, Any]()
        self.codes.append(code)
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        known = function.__globals__ | {name: cell.cell_contents for name, cell in cells if cell != type(cell)()}
        for name, attributes in looked_up(code).items():
            if name in known:
                names[name] = self._used(name, known[name], attributes)
        told = getattr(jitted, "targetoptions", None) or {"fastmath": jitted._fastmath}  # all that the simulator keeps
        options = {name: told[name] for name in OPTIONS if told.get(name) is not None}
        return marshal.dumps(code), function.__defaults__, names, options

    def _used(self, name: str, value: Any, attributes: set[str]) -> Any:
        """Return what a kernel can use of a value; None, and the reason, if that is nothing."""
        if isinstance(value, ModuleType) and not _known_there(
            value.__name__
        ):  # the reader's, perhaps: send what is used of it
            part = ModuleType(value.__name__)
            for attribute in attributes & vars(value).keys():
                setattr(part, attribute, self._used(attribute, getattr(value, attribute), set()))
            return part
        if reason := why_useless(value):
            self.useless[name] = reason
            return object()  # of which Numba says that it does not know it, and in which line it looked
        return value


def _known_there(module: str) -> bool:
    return module.split(".")[0] in SAME_EVERYWHERE


def why_useless(value: Any) -> str | None:
    """Return why no kernel can use a value, as the end of a sentence; None if it can."""
    if isinstance(value, tuple):
        return next(filter(None, map(why_useless, value)), None)
    if isinstance(value, np.ndarray) and value.nbytes > CONSTANT_BYTES:
        room = f"and a kernel has room for {CONSTANT_BYTES} in its code. Pass it as an argument"
        return f"an array of {value.nbytes} bytes, {room}"
    if is_jitted(value) or isinstance(value, ModuleType):
        return None
    if isinstance(value, FunctionType) or hasattr(value, "py_func"):
        return "a plain function, which no kernel can call. Put @cuda.jit(device=True) above it"
    kind = value if isinstance(value, type | BuiltinFunctionType) else type(value)
    if _known_there(str(kind.__module__)) and not isinstance(value, list | dict | set):
        return None
    return f"of type {kind.__name__}, which no kernel can use. Pass its numbers as arguments"


CHILDREN: list[subprocess.Popen[bytes]] = []  # the one that answers, if it has been started
LOCK = Lock()


@lru_cache(maxsize=256)
def answered(name: str, question: bytes) -> dict[str, Any]:
    """Return what the child answers about a kernel; the same question is asked once."""
    answer: dict[str, Any] = {}
    with LOCK:
        child = running()
        watch = Timer(LIMIT_SECONDS, kill, [child])
        watch.start()
        try:
            pickle.dump(question, child.stdin)  # type: ignore[arg-type]
            child.stdin.flush()  # type: ignore[union-attr]
            answer = pickle.load(child.stdout)  # type: ignore[arg-type]
        except (OSError, EOFError, pickle.UnpicklingError):
            late = watch.finished.is_set()
            why = f"needed more than {LIMIT_SECONDS:g} seconds and was stopped" if late else "crashed"
            raise CompileError(f"{name}: the compiler {why}. Simplify the kernel until it does not") from None
        finally:  # half an answer, if the reader interrupts, must not be taken for the next one
            watch.cancel()
            if not answer or "absent" in answer:  # the next child may find what is installed meanwhile
                stop()
    if "absent" in answer:
        where = "There is none for macOS" if sys.platform == "darwin" else f"Install it: {INSTALL}"
        raise NoCompilerError(
            f"NVIDIA's compiler is not to be had here ({answer['absent']}). {where}. The pages show what it printed "
            "elsewhere."
        )
    return answer


def running() -> subprocess.Popen[bytes]:
    """Return the child: a Python with Numba's simulator off, started by the first question, and again if it ended."""
    if not CHILDREN or CHILDREN[0].poll() is not None:
        stop()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        CHILDREN.append(
            subprocess.Popen(
                [sys.executable, "-P", str(CHILD)],  # -P: modules beside it are not to hide others
                env=inherited | {"NUMBA_ENABLE_CUDASIM": "0", "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C does not reach it, and what it started dies with it
            )
        )
    return CHILDREN[0]


def kill(child: subprocess.Popen[bytes]) -> None:
    """End a process, and those that it started."""
    with suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        elif child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)


@atexit.register
def stop() -> None:
    """End the child, if there is one."""
    while CHILDREN:
        child = CHILDREN.pop()
        kill(child)
        child.communicate()


# -- What it made --------------------------------------------------------------------------------------------------


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
