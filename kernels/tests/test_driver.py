"""The driver is asked through libraries made for the purpose: what is on this machine must not matter."""

import ctypes
import shutil
import subprocess
import sys

import pytest
from new_python import environment, printed_by

from firstlight_kernels.driver import cuda_device_count

TWO_DEVICES = "int cuInit(unsigned flags) { return 0; } int cuDeviceGetCount(int *count) { *count = 2; return 0; }"
REFUSES = "int cuInit(unsigned flags) { return 100; } int cuDeviceGetCount(int *count) { *count = 2; return 0; }"
CANNOT_COUNT = "int cuInit(unsigned flags) { return 0; } int cuDeviceGetCount(int *count) { *count = 7; return 3; }"
COUNTS_ONLY_AFTER_INIT = """
static int ready = 0;
int cuInit(unsigned flags) { ready = flags == 0; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return ready ? 0 : 3; }
"""
NOT_THE_DRIVER = "int something_else(void) { return 0; }"

needs_compiler = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="a stand-in for the CUDA driver is made with the C compiler cc, on Linux",
)


def fake_driver(folder, source):
    """Compile a library named like the driver, and give an environment in which it is found first."""
    command = ["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", "-x", "c", "-"]
    made = subprocess.run(command, input=source.encode(), capture_output=True)
    if made.returncode:
        pytest.skip(f"cc makes no library here: {made.stderr.decode(errors='replace').strip()}")
    return environment(LD_LIBRARY_PATH=str(folder))


@needs_compiler
@pytest.mark.parametrize(
    ("source", "count"),
    [(TWO_DEVICES, 2), (COUNTS_ONLY_AFTER_INIT, 1), (REFUSES, 0), (CANNOT_COUNT, 0), (NOT_THE_DRIVER, 0)],
    ids=["two devices", "counts only after init", "init refuses", "cannot count", "not the driver"],
)
def test_the_count_is_the_drivers(tmp_path, source, count):
    code = "from firstlight_kernels.driver import cuda_device_count; print(cuda_device_count())"
    assert printed_by(code, fake_driver(tmp_path, source)) == str(count)


@pytest.mark.parametrize(("platform", "library"), [("win32", "nvcuda.dll"), ("linux", "libcuda.so.1")])
def test_without_a_driver_there_are_no_devices(monkeypatch, platform, library):
    asked = []

    def absent(name):
        asked.append(name)
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", absent)
    monkeypatch.setattr(sys, "platform", platform)
    assert cuda_device_count() == 0
    assert asked == [library]


def test_counting_devices_imports_neither_numba_nor_torch():
    code = """
import sys
from firstlight_kernels.driver import cuda_device_count
cuda_device_count()
print(*sorted({"numba", "torch", "numpy", "matplotlib"} & set(sys.modules)))
"""
    assert printed_by(code, environment()) == ""


@needs_compiler
@pytest.mark.parametrize(
    ("driver", "expected"),
    [(REFUSES, "True function"), (TWO_DEVICES, "False _LaunchConfiguration")],
    ids=["no device", "devices"],
)
def test_launches_are_simulated_where_there_is_no_device_and_only_there(tmp_path, driver, expected):
    pytest.importorskip("numba")
    code = """
from numba import cuda
from firstlight_kernels import simulated
print(simulated(), type(cuda.jit(lambda: None)[200, 1]).__name__)
"""
    assert printed_by(code, fake_driver(tmp_path, driver)) == expected
