"""One process compiles for all; it may hang, crash, be killed or find no compiler, and the next one is asked."""

import os
import signal
import subprocess
import sys

import pytest
from test_ptx import MATVEC, matvec, matvec_numpy

from firstlight.kernels import ptx
from firstlight.kernels.ptx import CompileError, NoCompilerError

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="NVIDIA has no compiler for macOS")
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


@pytest.fixture
def anew():
    """Begin and end without a process and without remembered answers."""

    def forget():
        ptx.stop()
        ptx.answered.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def unasked():
    """Let the next compilation be a real one."""
    ptx.compile(matvec, MATVEC)
    ptx.answered.cache_clear()


@posix
@pytest.mark.usefixtures("unasked")
def test_a_process_that_hangs_is_cut_off_and_replaced(monkeypatch):
    hangs = ptx.CHILDREN[0]
    os.kill(hangs.pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(ptx, "LIMIT_SECONDS", 0.3)
        with pytest.raises(CompileError, match=r"^matvec: .*0\.3"):
            ptx.compile(matvec, MATVEC)
    assert hangs.poll() == -signal.SIGKILL
    assert ptx.compile(matvec, MATVEC).registers


@pytest.mark.usefixtures("anew")
def test_a_compiler_that_crashes_is_told_and_replaced(monkeypatch, tmp_path):
    crash = tmp_path / "crash.py"
    crash.write_text("import os, sys; sys.stdin.buffer.read(1); os._exit(3)")
    with monkeypatch.context() as patch:
        patch.setattr(ptx, "CHILD", crash)
        with pytest.raises(CompileError, match=r"^matvec: "):
            ptx.compile(matvec, MATVEC)
    assert ptx.compile(matvec, MATVEC).registers


PAGE = """
import numpy as np
from firstlight.kernels import cuda, ptx

@cuda.jit(max_registers=24)
def matvec(u, a, b):
    i = cuda.grid(1)
    if i < u.size:
        tmp = np.float32(0)
        for j in range(a.shape[1]):
            tmp += a[i, j] * b[j]
        u[i] = tmp

@cuda.jit(launch_bounds=64)
def clear(out):
    out[0] = 0

bounded = ".maxntid 64" in ptx.compile(clear, "float32[:]").text
compiled = ptx.compile(matvec, "void(float32[:], float32[:,::1], float32[:])")
print(type(matvec).__name__, ptx.CHILDREN[0].pid, compiled.registers, bounded)
print(compiled.mix)
"""


@posix
@pytest.mark.slow
def test_without_the_simulator_it_is_the_same_and_the_process_ends_with_the_program(tmp_path):
    (tmp_path / "page.py").write_text(PAGE)
    command = [sys.executable, "-W", "error", str(tmp_path / "page.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0"})
    assert done.stderr == ""
    (kind, pid, registers, bounded), mix = (line.split(maxsplit=3) for line in done.stdout.splitlines())
    assert (kind, registers, bounded) == ("CUDADispatcher", "24", "True")
    assert " ".join(mix) == str(ptx.compile(matvec_numpy, MATVEC).mix)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def start_with(monkeypatch, folder, code):
    """Let every Python that is started run this first."""
    (folder / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


NO_NUMBA_CUDA = "import sys; sys.modules['numba.cuda'] = None"
NO_PTXAS = """
import shutil, cuda.pathfinder as finder
finder.find_nvidia_binary_utility = shutil.which = lambda *a, **k: None
"""


@pytest.mark.parametrize(("platform", "named"), [("linux", "numba-cuda"), ("darwin", "macOS")])
@pytest.mark.usefixtures("anew")
def test_without_cudas_packages_it_says_what_to_install(monkeypatch, tmp_path, platform, named):
    start_with(monkeypatch, tmp_path, NO_NUMBA_CUDA)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(NoCompilerError, match=named):
        ptx.compile(matvec, MATVEC)


@pytest.mark.slow
@pytest.mark.usefixtures("anew")
def test_without_ptxas_there_is_ptx_alone(monkeypatch, tmp_path):
    start_with(monkeypatch, tmp_path, NO_PTXAS)
    compiled = ptx.compile(matvec, MATVEC)
    assert compiled.mix["add.f64"] >= 1
    assert (compiled.registers, compiled.shared_bytes, compiled.spill_bytes, compiled.sass) == (None,) * 4
