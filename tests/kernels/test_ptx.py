"""The facts hold for any GPU and without one; in this process Numba's simulator is on, as on a reader's laptop."""

import math
import os
import signal
import subprocess
import sys
import time
from inspect import currentframe
from types import ModuleType

import numpy as np
import pytest

from firstlight.kernels import cuda, ptx, ptx_process
from firstlight.kernels.ptx import CompileError, NoCompilerError

from numba import float32, float64, int32, njit, types  # isort: skip (firstlight.kernels decides on the simulator)

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="NVIDIA has no compiler for macOS")
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
both = pytest.mark.parametrize("cc", [(7, 5), (9, 0)], ids=["7.5", "9.0"])

ONE = "void(float32[:])"
TWO = "void(float32[:], float32[:])"
MATVEC = "void(float32[:], float32[:,::1], float32[:])"
SCALE = 3.0
SIZES = (4, 8)
TABLE = np.arange(5, dtype=np.float32)
BIG = np.zeros(100_000, dtype=np.float32)
NOTES = ["a", "list"]


def doubles(mix):
    return {name: count for name, count in mix.items() if "f64" in name}


@cuda.jit
def matvec(u, a, b):
    i = cuda.grid(1)
    if i < u.size:
        tmp = 0.0
        for j in range(a.shape[1]):
            tmp += a[i, j] * b[j]
        u[i] = tmp


@cuda.jit
def matvec_numpy(u, a, b):
    i = cuda.grid(1)
    if i < u.size:
        tmp = np.float32(0)
        for j in range(a.shape[1]):
            tmp += a[i, j] * b[j]
        u[i] = tmp


@cuda.jit
def matvec_numba(u, a, b):
    i = cuda.grid(1)
    if i < u.size:
        tmp = float32(0)
        for j in range(a.shape[1]):
            tmp += a[i, j] * b[j]
        u[i] = tmp


@cuda.jit(device=True)
def square(x):
    return x * x


@cuda.jit(device=True)
def adds_text(x):
    return x + "x"


def plain_function(x):
    return x + 1


# -- What the compiler made --------------------------------------------------------------


@both
def test_a_python_zero_makes_the_sum_a_double_and_a_float32_zero_does_not(cc):
    hidden = ptx.compile(matvec, MATVEC, cc)
    assert hidden.mix["cvt.f64.f32"] == hidden.mix["add.f64"] == hidden.mix["mul.f32"] >= 1
    assert hidden.mix["fma.f32"] == 0
    for kernel in (matvec_numpy, matvec_numba):
        single = ptx.compile(kernel, MATVEC, cc)
        assert not doubles(single.mix)
        assert single.mix["fma.f32"] == hidden.mix["add.f64"]
        assert single.mix["mul.f32"] == 0


@both
def test_the_text_is_for_the_gpu_that_was_asked_for_and_has_the_kernels_name(cc):
    compiled = ptx.compile(matvec, MATVEC, cc)
    assert f".target sm_{cc[0]}{cc[1]}" in compiled.text
    assert ".visible .entry matvec(" in compiled.text
    assert 16 <= compiled.registers <= 64
    assert compiled.spill_bytes == compiled.shared_bytes == 0
    assert sum(compiled.mix.values()) > 50
    assert list(compiled.mix.values()) == sorted(compiled.mix.values(), reverse=True)


@both
def test_the_machine_code_is_written_down_for_that_gpu(cc):
    sass = ptx.compile(matvec_numpy, MATVEC, cc).sass
    assert f"sm_{cc[0]}{cc[1]}" in sass
    assert "FFMA" in sass
    assert "DADD" not in sass


@both
def test_shared_memory_and_barriers_are_counted(cc):
    @cuda.jit
    def turn(out):
        tile = cuda.shared.array((3, 37), dtype=float64)
        i = cuda.threadIdx.x
        tile[2, i] = out[i]
        cuda.syncthreads()
        out[i] = tile[2, 36 - i]

    compiled = ptx.compile(turn, ONE, cc)
    assert compiled.shared_bytes == 3 * 37 * 8
    assert compiled.mix["bar.sync"] == compiled.mix["st.shared.f64"] == compiled.mix["ld.shared.f64"] == 1


def test_values_that_fit_in_no_register_are_spilled():
    loads = "\n".join(f"    v{i} = out[{i}]" for i in range(200))
    stores = "\n".join(f"    out[{i}] = v{i * 7 % 200}" for i in range(200))
    scope = {"cuda": cuda}
    exec(f"@cuda.jit\ndef many(out):\n{loads}\n    cuda.syncthreads()\n{stores}\n", scope)
    compiled = ptx.compile(scope["many"], "void(float64[::1])")
    assert compiled.registers >= 250
    assert compiled.spill_bytes >= 2 * 8 * (200 - 127)


def test_the_names_leave_out_how_it_rounds_and_caches_and_nothing_else():
    text = """
    .visible .entry k( .param .u64 k_param_0 )
    {
        .reg .f32 %f<4>; .shared .align 4 .b8 tile[16];
        // fma.rn.f64 in a comment; add.f64
        /* add.f64 %a; */ ld.param.u64 %rd1, [k_param_0];
        ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    $L__BB0_1:
        @!%p1 bra.uni $L__BB0_1;
        fma.rn.ftz.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3;
        cvt.rzi.s32.f32 %r1, %f1;
        div.approx.f32 %f1, %f1, %f2;
        st.shared::cta.f32 [tile], %f1;
        { // callseq 0, 0
        call.uni (retval0),
        vprintf,
        (
        param0
        );
        } // callseq 0
    }
    .visible .entry empty() { ret; }
    """
    assert ptx.mix_of(text) == {
        "ld.param.u64": 1,
        "ld.global.v4.f32": 1,
        "bra.uni": 1,
        "fma.f32": 2,
        "cvt.s32.f32": 1,
        "div.approx.f32": 1,
        "st.shared.f32": 1,
        "call.uni": 1,
        "ret": 1,
    }


def test_the_decorators_options_are_kept():
    def root(out):
        out[0] = math.sqrt(out[1]) / out[2]

    exact, fast = ptx.compile(cuda.jit(root), ONE).mix, ptx.compile(cuda.jit(fastmath=True)(root), ONE).mix
    assert exact["sqrt.f32"] == 1
    assert fast["sqrt.approx.f32"] == 1


def test_the_same_kernel_gives_the_same_text_whatever_was_compiled_between():
    first = ptx.compile(matvec, MATVEC).text
    ptx.compile(matvec_numpy, MATVEC)
    ptx_process.asked.cache_clear()
    assert ptx.compile(matvec, MATVEC).text == first


def test_kernels_of_one_name_and_type_are_told_apart():
    def made(value):
        @cuda.jit(device=True)
        def give():
            return value

        @cuda.jit
        def fill(out):
            out[0] = give()

        return fill

    texts = {ptx.compile(made(float32(value)), ONE).text for value in (1.0, 2.0, 1.0)}
    assert len(texts) == 2


# -- What travels ------------------------------------------------------------------------


def test_device_functions_closures_globals_and_modules_travel():
    offset, own = np.float32(0.25), ModuleType("own_constants")
    own.POWER, own.twice, own.unused = 5, cuda.jit(device=True)(lambda x: x + x), object()

    @cuda.jit(device=True)
    def inner(x, more=SIZES[0]):
        return square(x) + offset + more

    @cuda.jit
    def kernel(out, a):
        i = cuda.grid(1)
        local = cuda.local.array(SIZES[1], float64)
        local[0] = math.sin(a[i]) * SCALE
        out[i] = inner(a[i]) + own.twice(own.POWER * a[i]) + np.float32(int32(i)) + local[0]

    mix = ptx.compile(kernel, TWO).mix
    assert mix["fma.f32"] >= 1
    assert mix["add.f64"] + mix["fma.f64"] >= 1


def test_a_small_table_is_built_into_the_code():
    @cuda.jit
    def look_up(out):
        out[0] = cuda.const.array_like(TABLE)[cuda.threadIdx.x]

    compiled = ptx.compile(look_up, ONE)
    assert compiled.mix["ld.const.f32"] == 1
    assert ".const" in compiled.text


def test_functions_may_call_each_other_in_a_circle_without_a_hang():
    @cuda.jit(device=True)
    def down(n):
        return up(n - 1) if n > 0 else n

    @cuda.jit(device=True)
    def up(n):
        return down(n - 1) if n > 0 else n

    @cuda.jit
    def kernel(out):
        out[0] = down(3)

    with pytest.raises(CompileError, match=r"kernel|down|up"):
        ptx.compile(kernel, ONE)


def test_an_attribute_that_has_the_name_of_a_global_is_not_that_global(monkeypatch):
    monkeypatch.setitem(globals(), "x", NOTES)
    monkeypatch.setitem(globals(), "size", NOTES)

    @cuda.jit
    def kernel(out):
        if cuda.threadIdx.x < out.size:
            out[cuda.threadIdx.x] = 1

    assert ptx.compile(kernel, ONE).registers


def test_a_kernel_without_source_text_compiles_and_fails_with_its_line():
    scope = {"cuda": cuda}
    exec("@cuda.jit\ndef typed(out):\n    out[0] = 1\n", scope)
    assert ptx.compile(scope["typed"], ONE).registers
    exec("@cuda.jit\ndef typed(out):\n    out[0] = out[1] + 'x'\n", scope)
    with pytest.raises(CompileError, match=r"^typed, line 3: no implementation of add\(float32, "):
        ptx.compile(scope["typed"], ONE)


# -- What no GPU can run -----------------------------------------------------------------


def refusal(kernel, signature=TWO):
    with pytest.raises(CompileError) as caught:
        ptx.compile(kernel, signature)
    return str(caught.value)


def test_a_type_error_that_the_simulator_hides_names_the_line():
    @cuda.jit
    def add(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + "x"

    line = currentframe().f_lineno - 2
    assert refusal(add).startswith(f'add, line {line} `out[i] = a[i] + "x"`: no implementation of add(float32, ')
    assert "\n" not in refusal(add)


def test_an_error_in_a_device_function_names_that_function():
    @cuda.jit
    def outer(out, a):
        out[0] = adds_text(a[0])

    line = adds_text.fn.__code__.co_firstlineno + 2
    assert refusal(outer).startswith(f'adds_text, line {line} `return x + "x"`: no implementation of add(')


def _indexes_twice(out, a):
    out[0, 0] = a[0]


def _asks_math(out, a):
    out[0] = math.sinus(a[0])


def _makes_an_array(out, a):
    out[0] = np.zeros(3)[0] + a[0]


def _makes_a_list(out, a):
    out[0] = [1, 2][int32(a[0])]


def _names_nothing(out, a):
    out[0] = a[0] + nowhere  # noqa: F821


def _shares_by_size(out, a):
    out[0] = cuda.shared.array(a.size, float32)[0]


def _tries(out, a):
    try:
        out[0] = 1 / a[0]
    except Exception:
        out[0] = 0


def _asks_numpy(out, a):
    out[0] = np.random.rand() + a[0]  # noqa: NPY002


def _imports(out, a):
    import math as again

    out[0] = again.sin(a[0])


@pytest.mark.parametrize(
    ("function", "source", "says"),
    [
        (_indexes_twice, "out[0, 0] = a[0]", "cannot index array(float32, 1d, A) with 2 indices"),
        (_asks_math, "out[0] = math.sinus(a[0])", "module 'math' has no attribute 'sinus'"),
        (_makes_an_array, "out[0] = np.zeros(3)[0] + a[0]", "no implementation of zeros("),
        (_makes_a_list, "out[0] = [1, 2][int32(a[0])]", "a kernel cannot make an array, a list"),
        (_names_nothing, "out[0] = a[0] + nowhere", "NameError: name 'nowhere' is not defined"),
        (_shares_by_size, "out[0] = cuda.shared.array(a.size, float32)[0]", "no implementation of array(int64, "),
        (_tries, "out[0] = 1 / a[0]", "this is nothing for a GPU"),
        (_asks_numpy, "out[0] = np.random.rand() + a[0]", "Unknown attribute 'rand' of type Module(numpy.random)"),
        (_imports, "import math as again", "Use of unsupported opcode (IMPORT_NAME) found"),
    ],
)
def test_the_reason_is_one_sentence_with_the_line_before_it(function, source, says):
    message = refusal(cuda.jit(function))
    assert message.startswith(f"{function.__name__}, line ")
    assert f"`{source}" in message
    assert says in message
    assert "Failed in" not in message
    assert len(message) < 300


def test_a_kernel_that_returns_something_is_refused():
    @cuda.jit
    def returns(out, a):
        return out[0] + a[0]

    assert "must have void return type" in refusal(returns)


def test_more_shared_memory_than_a_block_may_have_is_refused():
    @cuda.jit
    def greedy(out):
        tile = cuda.shared.array(20_000, float64)
        tile[cuda.threadIdx.x] = out[0]
        cuda.syncthreads()
        out[0] = tile[cuda.threadIdx.x + 1]

    assert "too much shared data" in refusal(greedy, ONE)


class Box:
    side = 1


HELD = Box()
on_cpu = njit(lambda x: x)


def _reads_big(out, a):
    out[0] = a[0] + BIG[0]


def _reads_list(out, a):
    out[0] = a[0] + len(NOTES)


def _reads_object(out, a):
    out[0] = a[0] + HELD.side


def _calls_plain(out, a):
    out[0] = plain_function(a[0])


def _calls_njit(out, a):
    out[0] = on_cpu(a[0])


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_reads_big, "BIG is an array of 400000 bytes, and a kernel has room for 65536"),
        (_reads_list, "NOTES is of type list, which no kernel can use"),
        (_reads_object, "HELD is of type Box, which no kernel can use"),
        (_calls_plain, "plain_function is a plain function, which no kernel can call. Put @cuda.jit(device=True)"),
        (_calls_njit, "on_cpu is a plain function"),
    ],
)
def test_a_global_that_no_kernel_can_use_is_named_with_its_line(function, says):
    message = refusal(cuda.jit(function))
    assert message.startswith(f"{function.__name__}, line {function.__code__.co_firstlineno + 1} `out[0] = ")
    assert says in message


# -- Mistakes in the call ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (plain_function, "plain_function is no kernel: put @cuda.jit above plain_function"),
        (on_cpu, "is no kernel"),
        (None, "None is no kernel: give a function with @cuda.jit above it"),
        (square, "square is a device function: give the kernel that calls it"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, says):
    with pytest.raises(TypeError, match=says):
        ptx.compile(kernel, ONE)


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        ("void(float31[:])", "cannot be read: NameError: name 'float31' is not defined"),
        ("void(float32[:]", "cannot be read: SyntaxError"),
        ("", "cannot be read"),
        ("float32(float32[:])", "a kernel returns nothing"),
        ("void(7)", "cannot be read"),
        ("float32[:], float32[:]", r"matvec takes 3 arguments, and signature .* has 2"),
        ("void()", "matvec takes 3 arguments, and signature .* has 0"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(signature, says):
    with pytest.raises(ValueError, match=says):
        ptx.compile(matvec, signature)


def test_a_signature_without_void_is_the_same():
    @cuda.jit
    def clear(out):
        out[0] = 0

    assert ptx.compile(clear, "float32[:]").text == ptx.compile(clear, ONE).text


@pytest.mark.parametrize("cc", [(6, 1), (9, 9), (99, 0)])
def test_a_capability_that_cuda_does_not_know_is_refused_with_those_it_knows(cc):
    with pytest.raises(ValueError, match=r"compiles for \(7, 5\), .*\(9, 0\)"):
        ptx.compile(matvec, MATVEC, cc)


@pytest.mark.parametrize(("signature", "cc"), [(types.void(float32[:]), (9, 0)), (ONE, 9.0), (ONE, "90")])
def test_what_is_written_in_another_way_is_a_type_error(signature, cc):
    with pytest.raises(TypeError, match="write the"):
        ptx.compile(matvec, signature, cc)


# -- The process -------------------------------------------------------------------------


@pytest.fixture
def anew():
    """Begin and end without a process and without remembered answers."""

    def forget():
        ptx_process.PROCESS.stop()
        ptx_process.asked.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def unasked():
    """Let the next compilation be a real one."""
    ptx.compile(matvec, MATVEC)
    ptx_process.asked.cache_clear()


@pytest.mark.usefixtures("unasked")
def test_one_process_answers_all_questions():
    before = ptx_process.PROCESS._child.pid
    ptx.compile(matvec, MATVEC)
    refusal(cuda.jit(_makes_a_list))
    assert ptx_process.PROCESS._child.pid == before


@pytest.mark.usefixtures("unasked")
def test_the_same_question_is_answered_at_once():
    first = ptx.compile(matvec, MATVEC)
    start = time.perf_counter()
    assert ptx.compile(matvec, MATVEC) == first
    assert time.perf_counter() - start < 0.05


@posix
@pytest.mark.usefixtures("unasked")
def test_a_process_that_was_killed_is_replaced():
    os.kill(ptx_process.PROCESS._child.pid, signal.SIGKILL)
    assert ptx.compile(matvec, MATVEC).registers


@posix
@pytest.mark.usefixtures("unasked")
def test_a_process_that_hangs_is_cut_off_and_replaced(monkeypatch):
    hangs = ptx_process.PROCESS._child
    os.kill(hangs.pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(ptx_process, "LIMIT_SECONDS", 0.3)
        with pytest.raises(CompileError, match=r"^matvec: the compiler needed more than 0.3 seconds and was stopped"):
            ptx.compile(matvec, MATVEC)
    assert hangs.poll() == -signal.SIGKILL
    assert ptx.compile(matvec, MATVEC).registers


@pytest.mark.usefixtures("anew")
def test_a_compiler_that_crashes_is_asked_twice_and_no_more(monkeypatch, tmp_path):
    crash = tmp_path / "crash.py"
    crash.write_text(
        "import os, sys; open(sys.argv[0] + '.log', 'a').write('x'); sys.stdin.buffer.read(1); os._exit(3)"
    )
    monkeypatch.setattr(ptx_process, "CHILD", crash)
    with pytest.raises(CompileError, match=r"^matvec: the compiler crashed"):
        ptx.compile(matvec, MATVEC)
    assert (tmp_path / "crash.py.log").read_text() == "xx"


PAGE = """
import numpy as np
from firstlight.kernels import cuda, ptx, ptx_process

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
print(type(matvec).__name__, ptx_process.PROCESS._child.pid, compiled.registers, bounded)
print(compiled.mix)
"""


@posix
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
NO_TOOLKIT = """
import cuda.pathfinder as finder
def absent(name):
    raise finder.DynamicLibNotFoundError(f"Failure finding {name}")
finder.load_nvidia_dynamic_lib = absent
"""
NO_PTXAS = """
import shutil, cuda.pathfinder as finder
finder.find_nvidia_binary_utility = shutil.which = lambda *a, **k: None
"""


@pytest.mark.parametrize("code", [NO_NUMBA_CUDA, NO_TOOLKIT], ids=["no numba.cuda", "no toolkit"])
@pytest.mark.usefixtures("anew")
def test_without_cudas_packages_it_says_what_to_install(monkeypatch, tmp_path, code):
    start_with(monkeypatch, tmp_path, code)
    with pytest.raises(
        NoCompilerError, match=r'pip install "numba-cuda\[cu13\]".*pages show what it printed elsewhere'
    ):
        ptx.compile(matvec, MATVEC)
    monkeypatch.undo()
    assert ptx.compile(matvec, MATVEC).text  # as after an installation, in the same session


@pytest.mark.usefixtures("anew")
def test_on_macos_there_is_nothing_to_install(monkeypatch, tmp_path):
    start_with(monkeypatch, tmp_path, NO_NUMBA_CUDA)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NoCompilerError, match="There is none for macOS"):
        ptx.compile(matvec, MATVEC)


@pytest.mark.usefixtures("anew")
def test_without_ptxas_there_is_ptx_alone(monkeypatch, tmp_path):
    start_with(monkeypatch, tmp_path, NO_PTXAS)
    compiled = ptx.compile(matvec, MATVEC)
    assert compiled.mix["add.f64"] >= 1
    assert (compiled.registers, compiled.shared_bytes, compiled.spill_bytes, compiled.sass) == (None,) * 4
