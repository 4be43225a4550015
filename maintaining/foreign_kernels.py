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
import warnings
from math import prod
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from firstlight_kernels import lockstep, trace
from firstlight_kernels import threads as one_by_one
from firstlight_kernels.arguments import host_array
from firstlight_kernels.compilers import MLIR, compiler_of, imported
from firstlight_kernels.host import DeviceArray
from firstlight_kernels.launch import bound

launching = importlib.import_module("firstlight_kernels.launch")

_MOST_THREADS, _MOST_LINES = 1024, 60_000  # of a launch that is traced
_SECONDS, _LAUNCHES, _FILES_AT_ONCE = 6, 3, 4  # of a test; of a kernel that are compared; of a process
_CC = (9, 0)
_TOO_BIG = ("lines the kernel still runs", "too long for this table", "too much work to simulate")
_REFUSALS = ("TraceError", "LaunchError", "Unsupported", "TypeError: ", "ValueError: ")
#: What a test that fails for want of a GPU says.
_OF_A_GPU = (
    *(
        "CudaSupportError",
        "libcuda",
        "inspect_",
        "MagicMock",
        "cuda.core",
        "cupy",
        "filecheck",
        "Filecheck",
        "LinkerError",
    ),
    *(
        "CudaAPIError",
        "nvrtc",
        "NVRTC",
        "overloads",
        "ctypes",
        "CUDAError",
        "nvdisasm",
        "gpu_data",
        "subprocess",
        "StopIteration",
        "driver.py",
        "metadata",
        "compile_device",
    ),
)


class _Devices:
    """One card, which has no driver, for tests that ask what it can."""

    lst = property(lambda self: [_DEVICE])
    current = property(lambda self: _DEVICE)

    def __len__(self):
        return 1

    def __getitem__(self, number):
        return _DEVICE


_DEVICE = MagicMock(compute_capability=_CC, id=0, name=b"none", MAX_THREADS_PER_BLOCK=1024, WARP_SIZE=32)
_CONTEXT = MagicMock(device=_DEVICE)
_CONTEXT.get_memory_info.return_value = (1 << 33, 1 << 33)
_HOST = {
    **dict.fromkeys(("get_context", "current_context"), lambda *_: _CONTEXT),
    **dict.fromkeys(("get_current_device", "select_device"), lambda *_: _DEVICE),
    "gpus": _Devices(),
    "is_available": lambda: True,
    "list_devices": lambda: [_DEVICE],
    "detect": lambda: True,
}
_COMPILE = {}  # what each compiler's dispatcher does by itself


def _arrays_in(arguments):
    for each in arguments:
        if isinstance(each, tuple):
            yield from _arrays_in(each)
        elif (data := host_array(each)) is not None:
            yield data
        elif isinstance(each, np.void | np.ndarray):
            yield each


def _restored(arrays, saved):
    for each, old in zip(arrays, saved, strict=True):
        if isinstance(each, np.void) or each.flags.writeable:
            each[...] = old


class Player:
    """Runs each launch on all simulators, and keeps what came of it."""

    def __init__(self):
        self.test, self.out = "", Path(os.environ["FOREIGN_OUT"]).open("a")  # noqa: SIM115 -- for the whole run
        signal.signal(signal.SIGPROF, self.too_long)
        signal.signal(signal.SIGALRM, self.too_long)  # of who only waits
        self.times, self.compiles = collections.Counter(), {}

    def note(self, entry):
        self.out.write(json.dumps(entry) + "\n")
        self.out.flush()

    def too_long(self, *_):
        raise RuntimeError("too long for this table")

    def play(self, kernel, blocks, threads, arguments=(), shared_bytes=0):
        """Run a launch, in the place of ``firstlight_kernels.launch.launch``."""
        code = kernel.py_func.__code__
        noted = {
            "kernel": f"{compiler_of(kernel).name} {code.co_filename}:{code.co_firstlineno} {code.co_name}",
            "test": self.test,
            "bits": {},
        }
        try:
            launch = bound(kernel, blocks, threads, arguments, int(shared_bytes))
            noted["size"] = prod(launch.blocks) * prod(launch.threads)
            self.on_all_ways(kernel, launch, noted)
        finally:
            self.note(noted)

    def on_all_ways(self, kernel, launch, noted):
        arrays = list(_arrays_in(launch.arguments))
        before = [each.copy() for each in arrays]
        results, error = {}, None
        self.times[noted["kernel"]] += 1
        enough = self.times[noted["kernel"]] > _LAUNCHES
        for way, run in reversed(WAYS.items()) if enough else WAYS.items():
            if enough and results:
                break
            _restored(arrays, before)
            if way == "trace" and noted["size"] > _MOST_THREADS:
                noted[way] = "too big"
                continue
            try:
                found = run(kernel, launch)
            except Exception as raised:  # what the kernel raised, too
                noted[way] = f"{type(raised).__name__}: {raised}"
                if any(words in noted[way] for words in _TOO_BIG):
                    noted[way] = "too big"
                error = error or raised
                continue
            noted[way] = "ran"
            if found:
                noted["found"] = [str(each) for each in found]
            results[way] = [each.copy() for each in arrays]
            noted["bits"][way] = hashlib.md5(b"".join(each.tobytes() for each in arrays)).hexdigest()
        if results:
            _restored(arrays, next(iter(results.values())))
        if any(noted.get(way, "ran") not in ("ran", "too big") for way in WAYS):
            if noted["kernel"] not in self.compiles:
                self.compiles[noted["kernel"]] = _compiles(kernel, launch.arguments)
            noted["compiler"] = self.compiles[noted["kernel"]]
        if not results and error:
            raise error


def _traced(kernel, launch):
    more = {"limit": _MOST_LINES, "shared_bytes": launch.shared_bytes}
    return trace(kernel, launch.blocks, launch.threads, *launch.arguments, **more).problems


WAYS = {
    "trace": _traced,
    "threads": lambda _, launch: one_by_one.run(launch),
    "lockstep": lambda _, launch: lockstep.run(launch),
}


def _compiles(kernel, arguments):
    """Return whether the kernel's own compiler takes it with these arguments, or what it says."""
    compiler = compiler_of(kernel)
    package = "numba_cuda_mlir.numba_cuda" if compiler is MLIR else "numba.cuda"
    dispatcher, ours = compiler.dispatcher, compiler.dispatcher.compile
    try:
        typeof = importlib.import_module(f"{package}.typing.typeof").typeof
        types = [typeof(each.data if isinstance(each, DeviceArray) else each) for each in arguments]
        wanted = {
            name: value
            for name, value in kernel.targetoptions.items()
            if name in ("fastmath", "opt") and value is not None
        }
        dispatcher.compile = _COMPILE[compiler.name]
        compiler.cuda.compile_ptx(kernel.py_func, tuple(types), cc=_CC, **wanted)
    except BaseException as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    finally:
        dispatcher.compile = ours
    return "takes it"


def _not_yet(self, given, *_, **__):
    """Compile nothing, and keep the types that a signature asks for."""
    if isinstance(given, tuple):
        vars(self)["_wanted"] = (*vars(self).get("_wanted", ()), given)


def _without_a_gpu():
    """Let both compilers' tests be imported where no driver is, and their launches be played."""
    for part in ("", ".matcher", ".options", ".parser", ".finput"):
        sys.modules.setdefault("filecheck" + part, MagicMock())
    for name, package in (("numba.cuda", "numba.cuda"), ("numba_cuda_mlir.cuda", "numba_cuda_mlir.numba_cuda")):
        with contextlib.suppress(ImportError):
            cuda = importlib.import_module(name)
            devices = importlib.import_module(f"{package}.cudadrv.devices")
            originals = {id(getattr(cuda, key)): new for key, new in _HOST.items() if hasattr(cuda, key)}
            originals |= {id(getattr(devices, key)): new for key, new in _HOST.items() if hasattr(devices, key)}
            for module in [each for key, each in sys.modules.items() if key.startswith(name.split(".")[0] + ".")]:
                for key, value in list(vars(module).items()):
                    if (
                        id(value) in originals
                        and key in _HOST
                        and not module.__name__.endswith(("dispatcher", "descriptor"))
                    ):
                        setattr(module, key, originals[id(value)])
    for compiler in imported():
        _COMPILE[compiler.name] = compiler.dispatcher.compile
        compiler.dispatcher.compile = _not_yet
        compiler.dispatcher.specialize = lambda self, *_: self
    with contextlib.suppress(ImportError):
        importlib.import_module("numba_cuda_mlir.tools")._cached_cc = _CC


# -- As a plugin of pytest ---------------------------------------------------------------------------------------------


def pytest_configure(config):
    global _PLAYER
    _PLAYER = Player()
    _without_a_gpu()
    launching.launch = _PLAYER.play
    warnings.simplefilter("ignore")
    config.addinivalue_line("markers", "foreign: of another project")


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Numba-cuda's tests ask for it."""
    request.cls._dump_failed_filechecks = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    _PLAYER.test = item.nodeid
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)  # again for the next way
    signal.setitimer(signal.ITIMER_REAL, 20 * _SECONDS, 20 * _SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" or not report.passed:
        why = str(getattr(call.excinfo, "value", "")) if call.excinfo else ""
        kind = call.excinfo.type.__name__ if call.excinfo else ""
        text = str(report.longrepr) if report.failed else ""
        _PLAYER.note(
            {"test": item.nodeid, "outcome": report.outcome, "why": f"{kind}: {why}"[:400], "text": text[-1500:]}
        )
    return report


# -- As a command ------------------------------------------------------------------------------------------------------


def half_of(path):
    """Return which half of the material a file belongs to."""
    return hashlib.md5(Path(path).name.encode()).digest()[0] % 2


def run(out, half, folders):
    """Run the tests of some folders, a process for each few files."""
    files = sorted(
        each for one in folders for each in ([Path(one)] if one.endswith(".py") else Path(one).rglob("test_*.py"))
    )
    files = [each for each in files if half == "all" or half_of(each) == int(half)]
    done = {line for record in Path(out).glob("*.done") for line in record.read_text().splitlines()}
    files = [
        each for each in files if str(each) not in done and re.search(r"jit\b|cuda|reduce|vectorize", each.read_text())
    ]
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
            names = [
                "numba.cuda." + each.rpartition("/numba/cuda/")[2].removesuffix(".py").replace("/", ".")
                for each in names
            ]
        command = [sys.executable, "-m", "pytest", *options, *names]
        ended = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
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
    return {
        kernel: (*_verdict(each, outcomes), {way: _of_way(each, way) for way in WAYS})
        for kernel, each in launches.items()
    }


def _of_way(launches, way):
    """Return what one way made of a kernel's launches: ran, too big, refused, failed, or None."""
    said = [each[way] for each in launches if way in each]
    for one in said:
        if one not in ("ran", "too big"):
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
    print(
        "|",
        " | ".join(
            ("all", *(str(sum(n for verdict, n in counted[name].items() if verdict[0] != "(")) for name in names))
        ),
        "|",
        file=stream,
    )


if __name__ == "__main__":
    if len(sys.argv) > 3:
        run(sys.argv[1], sys.argv[2], sys.argv[3:])
    table(sys.argv[1])
