"""The compiler says of each line what the page says, and the check tells kernels that compile."""

import math

import numpy as np
import pytest
from numba import cuda
from pages import judged

from firstlight_kernels import blocks_for, ptx, trace

PAGE = "3_kernels/15_what_a_kernel_may_contain.py"


def weighted(*ends):
    """A kernel as the exercise asks for it, with other neighbours."""
    before, after = ends
    scope = {"cuda": cuda, "np": np}
    lines = ["i = cuda.grid(1)", "if i < x.size:", f"    b, a = {before}, {after}"]
    lines += ["    out[i] = np.float32(0.25) * (x[b] + x[a]) + np.float32(0.5) * x[i]"]
    exec("@cuda.jit\ndef smooth(x, out):\n    " + "\n    ".join(lines), scope)
    return scope["smooth"]


WRONG = {
    "round the corner": (weighted("i - 1", "(i + 1) % x.size"), "x[-1]"),
    "no edge": (weighted("max(i - 1, 0)", "i + 1"), "x[65]"),
    "twice the one before": (weighted("max(i - 1, 0)", "max(i - 1, 0)"), "should be"),
    "only what has two neighbours": (weighted("i - 1", "i + 1"), "x[-1]|x[65]"),
    "the wrong end": (weighted("max(i - 1, 1)", "min(i + 1, x.size - 1)"), "x[1]|should be"),
    "one too far": (weighted("max(i - 1, 0)", "min(i + 1, x.size)"), "x[65]"),
    "no kernel": (lambda x, out: out.fill(1), "@cuda.jit above"),
}


@pytest.fixture(scope="module")
def compiler():
    try:
        ptx.compile(weighted("i", "i"), "float32[::1], float32[::1]")
    except ptx.NoCompilerError:
        pytest.skip("NVIDIA's compiler is not installed")


needs_compiler = pytest.mark.usefixtures("compiler")
test_answers = judged(["smooth_solution", weighted("max(i - 1, 0)", "min(i + 1, x.size - 1)")], WRONG)


@needs_compiler
def test_the_start_is_refused_by_the_compiler(page) -> None:
    assert "CompileError" in page["check"](page["smooth"])


@pytest.mark.usefixtures("compiler", "recorded_compiler")
def test_the_record_is_what_the_compiler_says(page) -> None:
    said = {number: text for number, text in enumerate(page["answers"].values()) if text}
    random = page["LINES"].index("out[i] = np.random.random()")  # is told in two ways, by what else Numba has compiled
    circle = "this is nothing for a GPU: Numba's compiler goes round in a circle on it"
    assert said.pop(random) in (page["SAID"][random], circle)
    assert said == {number: text for number, text in page["SAID"].items() if number != random}
    assert page["own_words"](page["reverse_n"], "float32[::1], float32[::1], int64").startswith(page["TEXT"][:200])


@needs_compiler
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a = [x[k] for k in range(3)]", "append"),
        ("out[0] = (x[0], 1)[i % 2]", "getitem"),
        ("import random", "IMPORT_NAME"),
        ("return x[0]", "void return type"),
        ("a = (1, 2) if i else 3", "Cannot unify"),
        ("out[:] = x + x", "_allocate"),
        ("try:\n        out[0] = 1\n    except Exception:\n        out[0] = 2", "set_try_status"),
    ],
)
def test_the_table_of_errors_has_what_the_compiler_says(line, says) -> None:
    made = {"cuda": cuda}
    exec(f"@cuda.jit\ndef short(x, out):\n    i = cuda.grid(1)\n    {line}", made)
    with pytest.raises(ptx.CompileError, match=says):
        ptx.compile(made["short"], "float32[::1], float32[::1]")


@needs_compiler
@pytest.mark.parametrize(
    "line",
    ["out[i] = 1 if 0 < x[0] < 1 else 0", "r = x[1:]; out[i] = r[0]", "print(i)", "assert i < 9"],
)
def test_what_a_kernel_may_contain_compiles(line) -> None:
    made = {"cuda": cuda}
    exec(f"@cuda.jit\ndef short(x, out):\n    i = cuda.grid(1)\n    {line}", made)
    assert ptx.compile(made["short"], "float32[::1], float32[::1]").mix["ret"] == 1


def test_a_thread_has_255_registers_at_most_and_all_of_a_block_fit(page) -> None:
    assert [page["registers"](threads) for threads in (1024, 512, 256, 32)] == [64, 128, 255, 255]


def test_each_thread_has_numbers_of_its_own(page) -> None:
    noisy = page["noisy"]
    assert len(set(noisy.tolist())) > 490
    assert abs(noisy.mean()) < 4 * 2 / math.sqrt(noisy.size)


@pytest.mark.parametrize("threads", [32, 96])
def test_dynamic_shared_memory_that_is_too_small_is_found(page, threads) -> None:
    x, out = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
    seen = trace(page["reverse"], blocks_for(96, threads), threads, x, out, shared_bytes=4 * threads - 4)
    assert seen.problems


# -- The table of both compilers ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_both_compilers_differ_as_the_table_says() -> None:
    mlir = pytest.importorskip("numba_cuda_mlir")
    from numba_cuda_mlir import cuda as its
    from numba_cuda_mlir import tools, types

    if mlir.__version__ != "0.6.0":
        pytest.skip("another version than the page's")
    floats = types.float32[::1]

    def takes(line):
        made = {"cuda": its, "np": np}
        exec(f"def short(x, out, n):\n    i = cuda.grid(1)\n    {line}", made)
        try:
            return its.compile_ptx(made["short"], (floats, floats, types.int32), cc=(9, 0))[0]
        except Exception:
            return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "_cached_cc", (9, 0))  # it asks a GPU for it
        assert takes("a = np.zeros(3, np.float32); out[0] = a[0]")
        assert takes("out[0] = np.exp(x[0])")
        assert "dynamic_shmem" in takes(
            "a = cuda.shared.array(n, np.float32); a[i] = x[i]; cuda.syncthreads(); out[i] = a[0]"
        )
        for line in ("out[0] = np.sqrt(x[0])", "out[0] = np.maximum(x[0], 1)", "out[0] = min(x[0], x[1], x[2])"):
            assert not takes(line), line
        assert not takes("for a, b in zip(x, out): out[0] += a * b")
        assert not takes("y = x.reshape(2, -1); out[0] = y[0, 0]")
        assert "mad.lo.s32" in takes("out[i] = 1")  # in 32 bits
