"""Run other projects' tests of kernels with every launch on our simulators, and say what came of each kernel.

    python maintaining/foreign_kernels.py OUT half FOLDER_OF_TESTS...    (half: 0 or 1 of the files, or all)

Their assertions are the judge. Each launch runs in a trace, in lockstep, and thread by thread, on the same arrays; the
test sees the result of the first that takes it. This file is a plugin of pytest, too: of the run that it starts.
"""

import collections
import contextlib
import hashlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import types
import warnings
from math import prod
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

_MOST_THREADS, _MOST_LINES = 4096, 150_000  # of a launch that is traced
_SECONDS, _FILES_AT_ONCE = 30, 12
_CC = (9, 0)
WAYS = ("trace", "lockstep", "threads")
_REFUSALS = ("TraceError", "LaunchError", "Unsupported", "TypeError: ", "ValueError: ")
_PACKAGES = ("numba.cuda", "numba_cuda_mlir.numba_cuda")
#: What a test that fails for want of a GPU says.
_OF_A_GPU = (
    *("CudaSupportError", "libcuda", "inspect_", "MagicMock", "cuda.core", "cupy", "filecheck", "Filecheck", "LinkerError"),
    *("CudaAPIError", "nvrtc", "NVRTC", "overloads", "ctypes", "CUDAError", "nvdisasm", "gpu_data", "subprocess"),
)


class DeviceArray(np.ndarray):
    """An array as the libraries' own on a GPU, on the host."""

    stream = 0
    is_c_contiguous = is_f_contiguous = lambda self: self.flags.c_contiguous
    gpu_data = property(lambda self: MagicMock())

    def copy_to_host(self, ary=None, stream=0):
        if ary is None:
            return np.array(self, order="A" if self.flags.forc else "C", subok=False)
        ary[...] = self
        return ary

    def copy_to_device(self, ary, stream=0):
        self[...] = np.asarray(ary)

    def getitem(self, item, stream=0):
        return self[item]

    def setitem(self, item, value, stream=0):
        self[item] = value

    def split(self, section, stream=0):
        return [self[i : i + section] for i in range(0, self.size, section)]


def _to_device(obj, stream=0, copy=True, to=None):
    made = np.array(obj, order="A" if getattr(obj, "flags", None) is not None and obj.flags.forc else "C")
    if to is None:
        return made.view(DeviceArray)
    to[...] = made
    return to


def _device_array(shape, dtype=np.float64, strides=None, order="C", stream=0, **_):
    return np.empty(shape, dtype, order=order).view(DeviceArray)


def _like(ary, stream=0, **_):
    return np.empty_like(np.asarray(ary)).view(DeviceArray)


@contextlib.contextmanager
def _nothing(*_, **__):
    yield


def _auto_device(obj, stream=0, copy=True, **_):
    return (obj, False) if isinstance(obj, DeviceArray) else (_to_device(obj), True)


_DEVICE = MagicMock(compute_capability=_CC, id=0, name=b"none", MAX_THREADS_PER_BLOCK=1024, WARP_SIZE=32)
_DEVICE.uuid, _DEVICE.MULTIPROCESSOR_COUNT, _DEVICE.MAX_SHARED_MEMORY_PER_BLOCK = "GPU-none", 132, 49152
_CONTEXT = MagicMock(device=_DEVICE)
_CONTEXT.get_memory_info.return_value = (1 << 33, 1 << 33)
_HOST = {
    **dict.fromkeys(("device_array", "managed_array", "pinned_array", "mapped_array"), _device_array),
    **dict.fromkeys(("device_array_like", "pinned_array_like", "mapped_array_like"), _like),
    **dict.fromkeys(("pinned", "mapped", "defer_cleanup"), _nothing),
    **dict.fromkeys(("get_context", "current_context"), lambda *_: _CONTEXT),
    **dict.fromkeys(("stream", "default_stream", "legacy_default_stream", "external_stream"), lambda *_: MagicMock()),
    **dict.fromkeys(("synchronize", "close", "event_elapsed_time"), lambda *_: 0.0),
    **dict.fromkeys(("select_device", "get_current_device"), lambda *_: _DEVICE),
    "per_thread_default_stream": lambda: MagicMock(),
    "event": lambda *_, **__: MagicMock(),
    "to_device": _to_device,
    "auto_device": _auto_device,
    "_auto_device": _auto_device,
    "as_cuda_array": lambda obj, sync=True: obj if isinstance(obj, DeviceArray) else _to_device(obj._arr),
    "is_cuda_array": lambda obj: isinstance(obj, DeviceArray),
    "is_available": lambda: True,
    "list_devices": lambda: [_DEVICE],
    "detect": lambda: True,
}


_COMPILE = {}  # what each compiler's dispatcher does by itself


class Launch:
    """A kernel with its grid."""

    def __init__(self, kernel, blocks, threads, stream=0, shared_bytes=0, *_):
        self.kernel, self.shared_bytes, self.pre_launch_callbacks = kernel, int(shared_bytes or 0), []
        self.blocks, self.threads = (
            tuple(map(int, each)) if isinstance(each, tuple | list) else (int(each),) for each in (blocks, threads)
        )

    def __call__(self, *arguments):
        _PLAYER.play(self, arguments)


class ForAll:
    def __init__(self, kernel, ntasks, tpb=0, stream=0, sharedmem=0):
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        self.launch = ntasks and Launch(kernel, -(-ntasks // (tpb or 128)), tpb or 128, stream, sharedmem)

    def __call__(self, *arguments):
        if self.launch:
            self.launch(*arguments)


def _arrays_in(arguments):
    for each in arguments:
        if isinstance(each, tuple):
            yield from _arrays_in(each)
        elif isinstance(each, np.ndarray | np.void):
            yield each
        elif type(each).__name__ in ("Out", "InOut"):
            yield each.value


def _bits(arrays):
    return [each.tobytes() for each in arrays]


class Player:
    """Runs each launch on all simulators, and keeps what came of it."""

    def __init__(self):
        self.test, self.out = "", open(os.environ["FOREIGN_OUT"], "a")  # noqa: SIM115 -- for the whole run
        signal.signal(signal.SIGALRM, self.too_long)
        self.ways = dict(_ways())

    def note(self, entry):
        self.out.write(json.dumps(entry) + "\n")
        self.out.flush()

    def too_long(self, *_):
        raise RuntimeError("too long for this table")

    def play(self, launch, arguments):
        function = launch.kernel.py_func
        code = function.__code__
        compiler = "mlir" if type(launch.kernel).__module__.startswith("numba_cuda_mlir") else "numba-cuda"
        noted = {
            "kernel": f"{compiler} {code.co_filename}:{code.co_firstlineno} {code.co_name}",
            "test": self.test,
            "size": prod(launch.blocks) * prod(launch.threads),
            "bits": {},
        }
        try:
            self.on_all_ways(launch, arguments, noted)
        finally:
            self.note(noted)

    def on_all_ways(self, launch, arguments, noted):
        arrays = list(_arrays_in(arguments))
        before = [each.copy() for each in arrays]
        results, error = {}, None
        for way, run in self.ways.items():
            for each, old in zip(arrays, before, strict=True):
                if isinstance(each, np.void) or each.flags.writeable:
                    each[...] = old
            if way == "trace" and noted["size"] > _MOST_THREADS:
                noted[way] = "too big to trace"
                continue
            try:
                found = run(launch, arguments)
            except Exception as raised:  # what the kernel raised, too
                noted[way] = f"{type(raised).__name__}: {raised}"
                if "lines the kernel still runs" in noted[way] or "too long for" in noted[way]:
                    noted[way] = "too big to trace"
                else:
                    error = error or raised
                continue
            noted[way] = "ran"
            if found:
                noted["found"] = [str(each) for each in found]
            results[way] = [each.copy() for each in arrays]
            noted["bits"][way] = hashlib.md5(b"".join(_bits(arrays))).hexdigest()
        if results:
            for each, new in zip(arrays, next(iter(results.values())), strict=True):
                if isinstance(each, np.void) or each.flags.writeable:
                    each[...] = new
        if error:
            noted["compiler"] = _compiles(launch.kernel, arguments, noted["kernel"].split()[0])
        if not results and error:
            raise error


def _ways():
    """Return what runs a launch, by name; a simulator that is not there yet is left out."""
    from firstlight_kernels import trace

    def traced(launch, arguments):
        found = trace(
            launch.kernel, launch.blocks, launch.threads, *arguments, limit=_MOST_LINES, shared_bytes=launch.shared_bytes
        )
        return found.problems

    yield "trace", traced
    for name in ("lockstep", "threads"):
        with contextlib.suppress(ImportError):
            run = importlib.import_module(f"firstlight_kernels.{name}").run
            yield name, lambda launch, arguments, run=run: run(
                launch.kernel.py_func, *map(_dim3, (launch.blocks, launch.threads)), arguments, launch.shared_bytes
            )


def _dim3(size):
    from firstlight_kernels.findings import Dim3

    return Dim3(*(*size, 1, 1)[:3])


def _compiles(kernel, arguments, compiler):
    """Return whether the kernel's own compiler takes it with these arguments, or what it says."""
    name = "numba_cuda_mlir.numba_cuda" if compiler == "mlir" else "numba.cuda"
    try:
        typeof = importlib.import_module(f"{name}.typing.typeof").typeof
        cuda = importlib.import_module("numba_cuda_mlir.cuda" if compiler == "mlir" else "numba.cuda")
        found = [typeof(np.asarray(each) if isinstance(each, DeviceArray) and each.ndim else each) for each in arguments]
        wanted = {key: value for key, value in kernel.targetoptions.items() if key in ("fastmath", "opt") and value is not None}
        for dispatcher, own in _COMPILE.items():
            dispatcher.compile = own
        cuda.compile_ptx(kernel.py_func, tuple(found), cc=_CC, **wanted)
    except BaseException as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    finally:
        for dispatcher in _COMPILE:
            dispatcher.compile = lambda self, *_, **__: None
    return "takes it"


def _without_a_gpu():
    """Let both compilers' libraries be imported and used where no driver is."""
    for part in ("", ".matcher", ".options", ".parser", ".finput"):
        sys.modules.setdefault("filecheck" + part, MagicMock())
    for package in _PACKAGES:
        with contextlib.suppress(ImportError):
            for part in ("api", "cudadrv.devices", "cudadrv.devicearray", "dispatcher", "kernels.reduction"):
                importlib.import_module(f"{package}.{part}")
            if "mlir" in package:
                importlib.import_module("numba_cuda_mlir.cuda")
                importlib.import_module("numba_cuda_mlir.tools")._cached_cc = _CC
                dispatchers = [importlib.import_module("numba_cuda_mlir.descriptor").MLIRDispatcher]
            else:
                dispatchers = [importlib.import_module("numba.cuda.dispatcher").CUDADispatcher]
            originals = {}
            for part in ("api", "cudadrv.devices", "cudadrv.devicearray", "device_init"):
                with contextlib.suppress(ImportError):
                    module = importlib.import_module(f"{package}.{part}")
                    originals |= {id(value): _HOST[name] for name, value in vars(module).items() if name in _HOST and callable(value)}
            prefix = package.split(".")[0] + "."
            for name, module in list(sys.modules.items()):
                if name.startswith(prefix) and isinstance(module, types.ModuleType):
                    for key, value in list(vars(module).items()):
                        if id(value) in originals:
                            setattr(module, key, originals[id(value)])
            for dispatcher in dispatchers:
                dispatcher.__getitem__ = lambda self, given: Launch(self, *given)
                dispatcher.configure = lambda self, *given, **more: Launch(self, *given)
                dispatcher.forall = lambda self, *given, **more: ForAll(self, *given, **more)
                _COMPILE[dispatcher] = dispatcher.compile
                dispatcher.compile = lambda self, *_, **__: None
                dispatcher.disable_compile = lambda self, *_: None
                dispatcher.specialize = lambda self, *_: self


# -- As a plugin of pytest ---------------------------------------------------------------------------------------------


def pytest_configure(config):
    global _PLAYER
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "0")
    _without_a_gpu()
    warnings.simplefilter("ignore")
    _PLAYER = Player()
    config.addinivalue_line("markers", "foreign: of another project")


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Numba-cuda's tests ask for it."""
    request.cls._dump_failed_filechecks = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    _PLAYER.test = item.nodeid
    signal.alarm(_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" or not report.passed:
        why = str(getattr(call.excinfo, "value", "")) if call.excinfo else ""
        kind = call.excinfo.type.__name__ if call.excinfo else ""
        text = str(report.longrepr) if report.failed else ""
        _PLAYER.note({"test": item.nodeid, "outcome": report.outcome, "why": f"{kind}: {why}"[:400], "text": text[-1500:]})
    return report


# -- As a command ------------------------------------------------------------------------------------------------------


def half_of(path):
    """Return which half of the material a file belongs to."""
    return hashlib.md5(Path(path).name.encode()).digest()[0] % 2


def run(out, half, folders):
    """Run the tests of some folders, a process for each few files."""
    files = sorted(each for one in folders for each in ([Path(one)] if one.endswith(".py") else Path(one).rglob("test_*.py")))
    files = [each for each in files if half == "all" or half_of(each) == int(half)]
    done = {line for record in Path(out).glob("*.done") for line in record.read_text().splitlines()}
    files = [each for each in files if str(each) not in done and re.search(r"jit\b|reduce|vectorize", each.read_text())]
    for number in range(0, len(files), _FILES_AT_ONCE):
        some = files[number : number + _FILES_AT_ONCE]
        record = Path(out) / f"{some[0].stem}{len(done) + number}.jsonl"
        environment = os.environ | {"FOREIGN_OUT": str(record), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        options = ("-p", "foreign_kernels", "-p", "no:xdist", "-q", "-W", "ignore", "-c", os.devnull, "--rootdir=/")
        options += ("-p", "no:cacheprovider", "--continue-on-collection-errors")
        names = list(map(str, some))
        if "/numba_cuda/numba/cuda/" in names[0]:  # a namespace of Numba's, which pytest does not find by paths
            options += ("-o", "consider_namespace_packages=true", "--pyargs")
            names = ["numba.cuda." + each.rpartition("/numba/cuda/")[2].removesuffix(".py").replace("/", ".") for each in names]
        command = [sys.executable, "-m", "pytest", *options, *names]
        ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        record.with_suffix(".done").write_text("\n".join(map(str, some)))
        print(some[0].name, len(some), *ended.stdout.strip().splitlines()[-1:], flush=True)


def judged(out):
    """Return each kernel's verdict and reason, from the records of a run."""
    launches, outcomes = collections.defaultdict(list), {}
    for record in sorted(Path(out).glob("*.jsonl")):
        for line in record.read_text().splitlines():
            entry = json.loads(line)
            if "kernel" in entry:
                launches[entry["kernel"]].append(entry)
            else:
                outcomes[entry["test"]] = entry
    return {kernel: (*_verdict(each, outcomes), {way: _of_way(each, way) for way in WAYS}) for kernel, each in launches.items()}


def _of_way(launches, way):
    """Return what one way made of a kernel's launches: ran, too big, refused or failed, or None where it is not there."""
    said = [each[way] for each in launches if way in each]
    for one in said:
        if one not in ("ran", "too big to trace"):
            return "refused" if one.startswith(_REFUSALS) else "failed", one
    return ("ran" if "ran" in said else "too big" if said else None), ""


def _verdict(launches, outcomes):
    """Return what came of a kernel, and why."""
    ways = {way: _of_way(launches, way) for way in WAYS}
    refused = [(way, why) for way, (state, why) in ways.items() if state in ("refused", "failed")]
    ran = [way for way, (state, _) in ways.items() if state == "ran"]
    if refused and not ran:
        taken = next(each["compiler"] for each in launches if "compiler" in each)
        return ("refused" if taken == "takes it" else "compiler refuses too"), f"{refused[0][1]} | {taken}"
    for each in launches:
        if len(set(each["bits"].values())) > 1:
            return "ways differ", str(each["bits"])
    if not ran:
        return "too big", ""
    tests = {each["test"]: outcomes.get(each["test"], {"outcome": "cut off"}) for each in launches}
    failed = [one for one in tests.values() if one["outcome"] not in ("passed", "skipped")]
    ours = [one for one in failed if not any(word in one.get("why", "") + one.get("text", "") for word in _OF_A_GPU)]
    for each in launches:
        if each.get("found"):
            return "finding", each["found"][0]
    if ours:
        return "other", f"{ours[0].get('test')}: {ours[0].get('why', ours[0]['outcome'])}"
    if len(failed) == len(tests):
        return "test needs a GPU", failed[0].get("why", "")
    return "equal", ""


def table(out, stream=sys.stdout):
    verdicts = judged(out)
    counted = collections.defaultdict(collections.Counter)
    for kernel, (verdict, _, ways) in verdicts.items():
        counted[kernel.split()[0]][verdict] += 1
        counted["together"][verdict] += 1
        for way, (state, _) in ways.items():
            if state:
                counted[kernel.split()[0]][f"({way}: {state})"] += 1
                counted["together"][f"({way}: {state})"] += 1
    names = list(counted)
    print("|", " | ".join(("verdict", *names)), "|", file=stream)
    for verdict in sorted({each for one in counted.values() for each in one}):
        print("|", " | ".join((verdict, *(str(counted[name][verdict]) for name in names))), "|", file=stream)
    print("|", " | ".join(("all", *(str(sum(n for verdict, n in counted[name].items() if verdict[0] != "(")) for name in names))), "|", file=stream)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        run(sys.argv[1], sys.argv[2], sys.argv[3:])
    table(sys.argv[1])
