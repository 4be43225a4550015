"""What the compiler makes of a kernel is the same on any computer."""

import importlib
import math
import zipfile
from types import ModuleType

import numpy as np
import pytest
from compiler import PACKAGE, cuda, float64, int32, numba

from firstlight_kernels import ptx
from firstlight_kernels.ptx import CompileError

needs_ptxas = pytest.mark.skipif(ptx._tool("ptxas") is None, reason="without ptxas there is PTX alone")
both = pytest.mark.parametrize("cc", [(9, 0), pytest.param((7, 5), marks=pytest.mark.slow)], ids=["9.0", "7.5"])

ONE = "void(float32[:])"
TWO = "void(float32[:], float32[:])"
MATVEC = "void(float32[:], float32[:,::1], float32[:])"
SCALE = 3.0
SIZES = (4, 8)


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


@cuda.jit(device=True)
def square(x):
    return x * x


# -- What the compiler made --------------------------------------------------------------


@both
def test_a_python_zero_makes_the_sum_a_double_and_a_float32_zero_does_not(cc):
    hidden = ptx.compile(matvec, MATVEC, cc)
    assert hidden.mix["cvt.f64.f32"] == hidden.mix["add.f64"] == hidden.mix["mul.f32"] >= 1
    assert hidden.mix["fma.f32"] == 0
    single = ptx.compile(matvec_numpy, MATVEC, cc)
    assert not doubles(single.mix)
    assert single.mix["fma.f32"] == hidden.mix["add.f64"]
    assert single.mix["mul.f32"] == 0


@both
def test_the_text_is_for_the_gpu_that_was_asked_for_and_has_the_kernels_name(cc):
    compiled = ptx.compile(matvec, MATVEC, cc)
    assert f".target sm_{cc[0]}{cc[1]}" in compiled.text
    assert ".visible .entry matvec(" in compiled.text
    assert sum(compiled.mix.values()) > 50
    assert list(compiled.mix.values()) == sorted(compiled.mix.values(), reverse=True)


@both
@needs_ptxas
def test_the_machine_code_is_for_the_gpu_that_was_asked_for(cc):
    compiled = ptx.compile(matvec, MATVEC, cc)
    assert 16 <= compiled.registers <= 64
    assert compiled.spill_bytes == compiled.shared_bytes == 0
    if compiled.sass is None:
        pytest.skip("no nvdisasm")
    assert f"sm_{cc[0]}{cc[1]}" in compiled.sass
    assert "DADD" in compiled.sass


@both
@needs_ptxas
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


@needs_ptxas
def test_values_that_fit_in_no_register_are_spilled():
    loads = "\n".join(f"    v{i} = out[{i}]" for i in range(140))
    stores = "\n".join(f"    out[{i}] = v{i * 9 % 140}" for i in range(140))
    scope = {"cuda": cuda}
    exec(f"@cuda.jit\ndef many(out):\n{loads}\n    cuda.syncthreads()\n{stores}\n", scope)
    compiled = ptx.compile(scope["many"], "void(float64[::1])")
    assert compiled.registers >= 250
    assert compiled.spill_bytes >= 2 * 8 * (140 - 127)


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
        { .reg .u32 r0, alo; mov.b64 {alo,r0}, %rd1; mov.b64 %rd1, { r0, alo }; }
        { }
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
    once = "ld.param.u64 ld.global.v4.f32 bra.uni cvt.s32.f32 div.approx.f32 st.shared.f32 call.uni ret"
    assert ptx.mix_of(text) == dict.fromkeys(once.split(), 1) | {"fma.f32": 2, "mov.b64": 2}


def test_what_nvidias_library_writes_is_counted_by_instructions_alone():
    @cuda.jit
    def sine(out):
        out[0] = math.sin(out[0])

    mix = ptx.compile(sine, "void(float64[:])").mix
    assert mix["mad.lo.cc.u32"] > 0
    assert all("." in name or name in ("bra", "ret") for name in mix)


def test_a_device_function_may_call_itself_with_arguments_of_the_same_types():
    @cuda.jit(device=True)
    def fibonacci(n):
        if n < 2:
            return n
        return fibonacci(n - 1) + fibonacci(n - 2)

    @cuda.jit
    def kernel(out):
        out[0] = fibonacci(out[0])

    assert ptx.compile(kernel, "void(int64[:])").mix["call.uni"] >= 1
    says = r"^fibonacci, line \d+ .*int32\(n - 1\)" if PACKAGE == "numba" else "type mismatch"
    with pytest.raises(CompileError, match=says):  # n - 1 is an int64
        ptx.compile(kernel, "void(int32[:])")


def test_a_kernel_may_lie_in_an_archive(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a b.zip", "w") as archive:
        archive.writestr("zipped.py", "from compiler import cuda\n@cuda.jit\ndef one(x):\n    x[0] = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "a b.zip")
    assert ptx.compile(importlib.import_module("zipped").one, ONE).mix["st.global.u32"] == 1


def test_the_decorators_options_are_kept():
    def root(out):
        out[0] = math.sqrt(out[1]) / out[2]

    exact, fast = ptx.compile(cuda.jit(root), ONE).mix, ptx.compile(cuda.jit(fastmath=True)(root), ONE).mix
    assert exact["sqrt.f32"] == 1
    assert fast["sqrt.approx.f32"] == (PACKAGE == "numba")  # numba-cuda-mlir 0.6 leaves it out
    assert ".maxntid 64" in ptx.compile(cuda.jit(launch_bounds=64)(root), ONE).text


@cuda.jit(max_registers=24)
def turned(out):
    tile = cuda.shared.array(64, float64)
    i = cuda.threadIdx.x
    tile[i] = square(out[i])
    cuda.syncthreads()
    out[i] = tile[63 - i]


def test_the_same_kernel_gives_the_same_text_whatever_was_compiled_between():
    first = ptx.compile(turned, ONE).text
    ptx.compile(matvec_numpy, MATVEC)
    assert ptx.compile(turned, ONE).text == first


def test_without_ptxas_there_is_ptx_alone(monkeypatch):
    monkeypatch.setattr(ptx, "_tool", lambda name: None)
    compiled = ptx.compile(matvec, MATVEC)
    assert compiled.mix["add.f64"] >= 1
    assert (compiled.registers, compiled.shared_bytes, compiled.spill_bytes, compiled.sass) == (None,) * 4


# -- What a kernel uses ------------------------------------------------------------------


def test_device_functions_closures_globals_and_modules_are_found():
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


@pytest.mark.skipif(PACKAGE != "numba", reason="numba-cuda alone takes functions of Numba")
def test_a_kernel_may_call_what_njit_compiles_for_the_cpu():
    @numba.njit
    def first(x):
        return x[0]

    @cuda.jit
    def kernel(out):
        out[1] = first(out)

    assert ptx.compile(kernel, ONE).text


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


def test_a_kernel_without_source_text_compiles_and_fails_with_its_line():
    scope = {"cuda": cuda}
    exec("@cuda.jit\ndef typed(out):\n    out[0] = 1\n", scope)
    assert ptx.compile(scope["typed"], ONE).text
    exec("@cuda.jit\ndef typed(out):\n    out[0] = out[1] + 'x'\n", scope)
    with pytest.raises(CompileError, match=r"^typed, line 3: .*add\(float32, "):
        ptx.compile(scope["typed"], ONE)
