"""The trace finds each planted defect in its line and none where there is none; its counts agree with closed forms."""

import math
from collections import namedtuple
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from broken import BROKEN, RIGHT
from compiler import PACKAGE, cuda, float32, float64, in_compilers_only, int32, int64, numba
from planted import LOOKS_WRONG, PLANTED, draws_from_one_state, random

from firstlight_kernels import trace
from firstlight_kernels.compilers import python_function
from firstlight_kernels.tracing import TraceError

LISTS = ("out_of_bounds", "races", "divergent_barriers", "uninitialized")


def name_of(case) -> str:
    return python_function(case[0]).__name__


@pytest.mark.parametrize("case", BROKEN + PLANTED, ids=name_of)
def test_a_planted_defect_is_found_in_its_line_and_nothing_else_is(case) -> None:
    kernel, blocks, threads, arrays, where = case
    t = trace(kernel, blocks, threads, *(arrays() if callable(arrays) else (array.copy() for array in arrays)))
    found = getattr(t, where)
    assert found
    assert all(str(each).count("# here") for each in found)
    assert "# here" in str(found[0])
    assert "thread" in str(found[0])
    assert all(not getattr(t, other) for other in LISTS if other != where)


@pytest.mark.parametrize("case", RIGHT, ids=name_of)
def test_right_kernels_are_right_and_nothing_is_found(case) -> None:
    kernel, blocks, threads, (given, out), expected = case
    out = out.copy()
    t = trace(kernel, blocks, threads, given, out)
    np.testing.assert_allclose(out, expected)
    assert t.problems == []


@pytest.mark.parametrize("case", LOOKS_WRONG, ids=name_of)
def test_what_looks_wrong_and_is_right(case) -> None:
    kernel, blocks, threads, arrays = case
    t = trace(kernel, blocks, threads, *arrays())
    assert t.problems == []


@pytest.mark.skipif(random.__name__[:10] == "numba_cuda", reason="numba-cuda-mlir has no random numbers")
@pytest.mark.filterwarnings("ignore")  # Numba's, about its own functions
def test_threads_that_share_a_state_of_the_generator_race() -> None:
    states = np.ones(4, random.xoroshiro128p_dtype)
    races = trace(draws_from_one_state, 1, 4, states, np.zeros(4)).races
    assert {race.array for race in races} == {"states"}


@pytest.mark.parametrize("case", RIGHT, ids=name_of)
def test_a_launch_agrees(case) -> None:
    kernel, blocks, threads, (given, out), _ = case
    ours, theirs = out.copy(), cuda.to_device(out)
    trace(kernel, blocks, threads, given, ours)
    kernel[blocks, threads](cuda.to_device(given), theirs)
    np.testing.assert_array_equal(ours, theirs.copy_to_host())


def test_what_is_found_names_array_index_threads_and_line() -> None:
    kernel, blocks, threads, arrays, _ = next(case for case in BROKEN if name_of(case) == "no_guard")
    load, store = trace(kernel, blocks, threads, *arrays).out_of_bounds
    assert (load.array, load.index, load.kind, load.thread, load.block) == ("x", (63,), "load", (31, 0, 0), (1, 0, 0))
    assert (store.array, store.index, store.kind) == ("out", (63,), "store")
    kernel, blocks, threads, arrays, _ = next(case for case in BROKEN if name_of(case) == "missing_barrier")
    (race,) = trace(kernel, blocks, threads, *arrays).races
    assert (race.array, race.threads, race.times) == ("s", ((0, 0, 0), (63, 0, 0)), 64)
    assert (race.first.kind, race.second.kind) == ("store", "load")


def test_a_lane_that_has_returned_is_told_from_one_that_does_not_exist() -> None:
    @cuda.jit
    def kernel(x, out):
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = cuda.shfl_down_sync(0xFFFFFFFF, x[t], 1)

    for threads, why in ((32, "has returned"), (16, "does not exist")):
        (found,) = trace(kernel, 1, threads, np.ones(32), np.zeros(32)).divergent_barriers
        assert (found.missing[0].x, found.why) == (16, why)


def test_what_is_in_tuples_is_named_and_written() -> None:
    @cuda.jit
    def kernel(xs, p):
        i = cuda.grid(1)
        xs[1][0][i] = p.scale * xs[0][i] + p.inner[0]

    kind = namedtuple("Pair", "scale inner")
    x, out = np.arange(4, dtype=np.float32), np.zeros(4)
    t = trace(kernel, 1, 5, (x, (out,)), kind(np.float32(0.1), (1,)))
    assert [each.name for each in t.arrays] == ["xs[0]", "xs[1][0]"]
    assert [str(found).split(": ")[1].split(",")[0] for found in t.out_of_bounds] == [
        "load of xs[0][4]",
        "store of xs[1][0][4]",
    ]
    np.testing.assert_array_equal(out, (np.float32(0.1) * x).astype(np.float64) + 1)


# -- Counts ------------------------------------------------------------------------------------------------------------


@cuda.jit
def strided(x, stride, offset, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride + offset]


def sectors(n: int, stride: int, offset: int, itemsize: int) -> float:
    """Count by hand: for each 32 threads in a row, the pieces of 32 bytes that their elements touch."""
    warps = [range(first, min(first + 32, n)) for first in range(0, n, 32)]
    touched = [{(i * stride + offset) * itemsize // 32 for i in warp} for warp in warps]
    return sum(map(len, touched)) / len(warps)


@pytest.mark.parametrize(("stride", "offset"), [(1, 0), (1, 5), (1, 8), (1, 13), (2, 1), (8, 0), (31, 2), (64, 0)])
@pytest.mark.parametrize("n", [1, 31, 33, 100])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8, np.complex128])
def test_sectors_with_strides_offsets_ragged_sizes_and_other_types(stride, offset, n, kind) -> None:
    x, out = np.zeros(100 * stride + offset, kind), np.zeros(n, kind)
    t = trace(strided, math.ceil(n / 64), 64, x, stride, offset, out)
    assert t.sectors_per_load["x"] == sectors(n, stride, offset, x.itemsize)


def test_a_part_of_an_array_begins_where_it_begins() -> None:
    whole, out = np.zeros(200, np.float32), np.zeros(32, np.float32)
    assert trace(strided, 1, 32, whole[1:], 1, 0, out).sectors_per_load["x"] == 5
    assert trace(strided, 1, 32, whole[8:], 1, 0, out).sectors_per_load["x"] == 4
    assert trace(strided, 1, 32, whole[::2], 1, 0, out).sectors_per_load["x"] == 8


@cuda.jit
def row_per_thread(a, x, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        total = float32(0)
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        out[i] = total


def test_three_levels_of_a_matrix_and_a_vector() -> None:
    """A thread a row touches 32 sectors a load, but the next columns find them in the cache."""
    a, x, out = np.ones((64, 32), np.float32), np.ones(32, np.float32), np.zeros(64, np.float32)
    t = trace(row_per_thread, 2, 32, a, x, out)
    assert t.sectors_per_load == {"a": 32, "x": 1}
    traffic = t.traffic
    assert traffic.l1_wavefronts == 2 * 32 * (32 + 1) + 2
    assert traffic.l2_sectors == 64 * 32 * 4 // 32 + 2 * 4 + 2 * 4
    assert traffic.dram_bytes == a.nbytes + x.nbytes + out.nbytes == traffic.useful_bytes
    assert np.all(t.counts("load", array="a") == 32)


@cuda.jit
def shared_stride(stride, out):
    s = cuda.shared.array(2048, float32)
    t = cuda.threadIdx.x
    s[t * stride] = t
    out[t] = s[t * stride]


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 16, 17, 32, 33, 64])
def test_bank_conflicts_are_the_common_divisor(stride) -> None:
    t = trace(shared_stride, 1, 32, stride, np.zeros(32, np.float32))
    ways = math.gcd(stride, 32)
    assert {each.ways for each in t.bank_conflicts} == ({ways} if ways > 1 else set())
    assert all(len(each.threads) == ways and each.array == "s" for each in t.bank_conflicts)
    assert trace(doubles, 1, 64, np.zeros(64)).bank_conflicts == []  # eight bytes in a row, and one word for all


@cuda.jit
def doubles(out):
    s = cuda.shared.array(64, float64)
    t = cuda.threadIdx.x
    s[t] = t
    out[t] = s[0]


# -- Kernels as readers write them -------------------------------------------------------------------------------------


def test_closures_and_numba_itself_are_found() -> None:
    factor, package = 3, import_module(PACKAGE)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        s = package.cuda.shared.array(32, float32)
        s[i] = factor * x[i]
        package.cuda.syncthreads()
        out[i] = s[31 - i]

    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    t = trace(kernel, 1, 32, x, out)
    assert t.problems == []
    assert out.tolist() == (3 * x[::-1]).tolist()


def test_atomics_return_the_old_value_and_do_what_cuda_does() -> None:
    @cuda.jit
    def kernel(out, counts):
        cuda.atomic.max(out, 0, 5)
        cuda.atomic.min(out, (1,), -5)
        cuda.atomic.inc(counts, 0, 1)
        cuda.atomic.dec(counts, 1, 7)
        out[4] = cuda.atomic.exch(out, 5, 9)
        out[6] = cuda.atomic.cas(out, 7, 0, 3)

    out, counts = np.zeros(8, np.int32), np.zeros(2, np.uint32)
    trace(kernel, 1, 1, out, counts)
    assert out.tolist() == [5, -5, 0, 0, 0, 9, 0, 3]
    assert counts.tolist() == [1, 7]


def test_indices_imported_by_their_names() -> None:
    threadIdx, blockIdx, blockDim = cuda.threadIdx, cuda.blockIdx, cuda.blockDim

    @cuda.jit
    def kernel(out):
        out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x ** (blockIdx.x > 0)

    out = np.zeros(6)
    assert trace(kernel, 2, 3, out).problems == []
    assert out.tolist() == [1, 1, 1, 0, 1, 2]


def test_votes_and_shuffles() -> None:
    @cuda.jit
    def kernel(out):
        lane = cuda.laneid
        out[lane, 0] = cuda.ballot_sync(0xFFFFFFFF, lane % 2)
        out[lane, 1] = cuda.shfl_xor_sync(0xFFFFFFFF, lane, 3)
        out[lane, 2] = cuda.shfl_up_sync(0xFFFFFFFF, lane, 2)
        out[lane, 3] = cuda.shfl_sync(0xFFFFFFFF, lane, 7)
        out[lane, 4] = cuda.any_sync(0xFFFFFFFF, lane > 30) and not cuda.all_sync(0xFFFFFFFF, lane > 30)

    out = np.zeros((32, 5), np.int64)
    assert trace(kernel, 1, 32, out).problems == []
    lane = np.arange(32)
    expected = [np.full(32, 0xAAAAAAAA), lane ^ 3, np.where(lane < 2, lane, lane - 2), np.full(32, 7), np.ones(32)]
    np.testing.assert_array_equal(out.T, expected)


@(numba.njit if numba else cuda.jit(device=True))
def times_two(values, i):
    return 2 * values[i]


@cuda.jit(device=True)
def factorial_of_local(n):
    own = cuda.local.array(1, int64)
    own[0] = n
    rest = factorial_of_local(n - 1) if n > 1 else 1
    for _ in range(2):
        again = cuda.local.array(1, int64)
        again[0] = own[0]
    return again[0] * rest


def test_functions_under_njit_of_a_module_and_recursive_ones() -> None:
    module = ModuleType("module")
    module.position, module.OFFSET = cuda.jit(device=True)(lambda: cuda.threadIdx.x + OFFSET), 1

    @cuda.jit
    def kernel(x, out):
        i = module.position()
        out[i] = times_two(x, i - module.OFFSET) + factorial_of_local(i)

    out = np.zeros(5, np.int64)
    assert trace(kernel, 1, 4, np.arange(4), out).problems == []
    assert out.tolist() == [0, 0 + 1, 2 + 2, 4 + 6, 6 + 24]


OFFSET = 1


def test_slices_are_written_and_ufuncs_have_outputs() -> None:
    @cuda.jit
    def kernel(x, rows, out):
        own = cuda.local.array(4, float32)
        own[:] = 1.5
        own[1:3] = x[:2]
        np.sqrt(own, out[0])
        np.add(x, 1, out[1])
        np.multiply(rows, x, out[2:5])
        out[5] = rows[0, 0]

    x, rows, out = np.array([4, 9, 16, 25], np.uint8), np.array([[2], [3], [4]]), np.zeros((6, 4))
    t = trace(kernel, 1, 1, x, rows, out)
    assert out[:2].tolist() == [np.sqrt(np.float32([1.5, 4, 9, 1.5])).tolist(), [5, 10, 17, 26]]
    assert out[2:].tolist() == [*(rows * x).tolist(), [2] * 4]
    assert t.counts("store", space="local").tolist() == [6]
    assert t.counts("load", array="x").tolist() == [2 + 4 + 12]


def test_views_of_an_array() -> None:
    @cuda.jit
    def kernel(x, z, out):
        out[0] = x.reshape(2, 3)[1, 2]
        out[1] = x.reshape((3, 2)).T[1, 0]
        out[2] = x.view(np.int64).ravel()[0]
        z.imag[1] = z.real[0]

    x, z, out = np.arange(6.0), np.array([5 + 1j, 0]), np.zeros(3)
    t = trace(kernel, 1, 1, x, z, out)
    assert (out.tolist(), z[1]) == ([5, 1, 0], 5j)
    assert t.accesses["offset"].tolist() == [40, 0, 8, 8, 0, 16, 0, 24]


@pytest.mark.parametrize("view", [np.asarray, lambda a: a.view(np.recarray)])
def test_fields_of_records_are_loaded_and_stored(view) -> None:
    @cuda.jit
    def kernel(r, out):
        i = cuda.grid(1)
        own = r[i]
        own.n = i
        r[i]["pair"][1] = own["n"] + 0.5
        r.inner[i].value = r["n"][i] + own.pair[1]
        r["n"][i] += 1
        out[i] = r[i]
        out[i]["pair"] = 7
        cuda.atomic.add(r.n, 0, 10)

    kind = np.dtype([("n", np.int32), ("pair", np.float32, 2), ("inner", [("value", np.float64)])])
    r, out = view(np.zeros(32, kind)), view(np.zeros(32, kind))
    t = trace(kernel, 1, 32, r, out)
    i = np.arange(32)
    assert out["n"].tolist() == (i + 1).tolist()
    assert r["n"].tolist() == (i + 1 + 320 * (i == 0)).tolist()
    assert r["pair"][:, 1].tolist() == (i + 0.5).tolist()
    assert r["inner"]["value"].tolist() == (2 * i + 0.5).tolist()
    assert out["pair"].tolist() == [[7, 7]] * 32
    assert (t.counts("store", array="r")[0], t.counts("load", array="r")[0]) == (4, 5)
    assert t.counts("store", array="out")[0] == 3


def test_a_field_of_wide_records_touches_a_sector_each() -> None:
    @cuda.jit
    def kernel(r, out):
        i = cuda.grid(1)
        out[i] = r[i].x

    r = np.zeros(32, [("x", np.float32), ("rest", np.float32, 15)])
    t = trace(kernel, 1, 32, r, np.zeros(32, np.float32))
    assert t.sectors_per_load["r"] == 32
    assert t.traffic.useful_bytes == 2 * 128


def test_dynamic_shared_memory_and_alignment() -> None:
    @cuda.jit
    def kernel(out):
        t = cuda.threadIdx.x
        s, own = cuda.shared.array(0, float32), cuda.local.array(2, float64, alignment=16)
        s[t] = own[0] = t
        cuda.syncthreads()
        out[t] = s[31 - t] + own[0]
        cuda.syncthreads()
        whole = cuda.shared.array(0, int32)
        whole[t] = 7

    out = np.zeros(32)
    t = trace(kernel, 1, 32, out, shared_bytes=128)
    assert (out.tolist(), t.problems) == ([31] * 32, [])
    assert len(trace(kernel, 1, 33, np.zeros(33), shared_bytes=128).out_of_bounds) > 0
    assert "shared_bytes" in trouble(kernel, out, threads=32)


def test_arguments_that_are_only_copied_in_or_out() -> None:
    @cuda.jit
    def kernel(given, both, out):
        out[0] = given[0] + both[0]
        given[0] = both[0] = 7

    given, both, out = np.ones(1), np.ones(1), np.zeros(1)
    trace(kernel, 1, 1, cuda.In(given), cuda.InOut(both), cuda.Out(out))
    assert (given[0], both[0], out[0]) == (1, 7, 2)


def test_elements_that_lie_in_several_sectors() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    for kind in ([("a", np.float32, 3)], [("a", np.float64, 12)]):
        x = np.zeros(32, kind)
        t = trace(kernel, 1, 32, x, x.copy())
        assert t.sectors_per_load["x"] == x.nbytes / 32
        assert t.traffic.dram_bytes == t.traffic.useful_bytes == 2 * x.nbytes


# -- Bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "threads", "said"),
    [(0, 1, "blocks=0"), (1, 1025, "1024 threads"), (1, (32, 33), "1024 threads"), (1, (1, 1, 65), "64 along z"),
     ((1, 1, 1, 1), 1, "one to three"), (1.5, 1, "whole numbers"), ("2", 1, "whole numbers"), ((), 1, "one to three")],
)  # fmt: skip
def test_grids_that_cuda_does_not_have(blocks, threads, said) -> None:
    with pytest.raises(ValueError, match=said):
        trace(RIGHT[0][0], blocks, threads, np.zeros(1), np.zeros(1))


def trouble(body, *arguments, threads=4, **more) -> str:
    with pytest.raises(TraceError) as found:
        trace(body, 1, threads, *arguments, **more)
    return str(found.value)


def test_what_cannot_be_traced_is_refused() -> None:
    def plain(x):
        x[0] = 1

    @cuda.jit
    def endless(x):
        while cuda.threadIdx.x == 2:
            x[0] = 3

    @cuda.jit
    def idle(x):
        x[0] = 1
        while True:
            pass

    for kernel, arguments, said in (
        (plain, [np.zeros(1)], r"@cuda\.jit above plain"),
        (3.7, [], r"3\.7"),
        (RIGHT[0][0], [np.zeros(1)], r"guarded\(x, out\)"),
    ):
        with pytest.raises(TypeError, match=said):
            trace(kernel, 1, 1, *arguments)
    assert "1,000" in trouble(endless, np.zeros(1), limit=1000)
    assert "thread 2 of block 0, line" in trouble(endless, np.zeros(1), limit=1000)
    assert "while True" in trouble(idle, np.zeros(1)) or "pass" in trouble(idle, np.zeros(1))


def test_what_was_out_of_bounds_before_a_trace_is_too_long_is_told():
    @cuda.jit
    def fills(ends, out):
        at = 0
        while at < ends[cuda.grid(1) + 1]:  # the last one has no next
            out[0] = at
            at += 1

    assert "Before that, thread 1 of block 0: load of ends[2]" in trouble(
        fills, np.zeros(2, np.int32), np.zeros(1), limit=900
    )


def test_wrong_ranks_and_what_raises_name_thread_and_line() -> None:
    @cuda.jit
    def kernel(x, what):
        if what == 0:
            x[0, 0] = 1
        elif what == 1:
            x[:] = x[:2]
        elif what == 2:
            raise ValueError("no")
        elif what == 3:
            x[0.5] = 1
        else:
            cuda.nosuch()

    for what, said in enumerate(("1 axis", "x", "ValueError: no", "TypeError", "nosuch")):
        message = trouble(kernel, np.zeros(3), what)
        assert said in message
        assert "thread 0 of block 0, line" in message


def test_an_empty_array_and_a_kernel_that_does_nothing() -> None:
    t = trace(RIGHT[0][0], 1, 32, np.zeros(0, np.float32), np.zeros(0, np.float32))
    assert (t.problems, t.bank_conflicts, t.sectors_per_load) == ([], [], {})
    assert t.traffic.dram_bytes == 0
    assert t.counts().tolist() == [0] * 32
    assert "races: none" in str(t)


@pytest.mark.parametrize(("dtype", "counted"), [(np.int32, [32, 0, 1]), (np.int64, [64, 0, 1]), (np.uint8, [8, 0, 1])])
def test_bits_are_as_many_as_the_type_has(dtype, counted) -> None:
    @cuda.jit
    def count(x, out):
        out[0] = cuda.popc(x[0])
        out[1] = cuda.clz(x[0])
        out[2] = cuda.ffs(x[0])

    out = np.zeros(3)
    trace(count, 1, 1, np.array([-1]).astype(dtype), out)
    assert out.tolist() == counted


def test_brev_of_64_bits() -> None:
    @cuda.jit
    def turn(x, out):
        out[0] = cuda.brev(x[0])

    out = np.zeros(1, np.uint64)
    trace(turn, 1, 1, np.array([0x30F0], np.uint64), out)
    assert out[0] == 0x0F0C << 48


def test_a_range_of_a_float() -> None:
    @cuda.jit
    def count(x, out):
        for i in range(math.ceil(x.size / 2)):
            out[0] += i

    out = np.zeros(1)
    trace(count, 1, 1, np.zeros(5), out)
    assert out[0] == 3


@in_compilers_only
def test_types_that_a_kernel_takes_from_cuda() -> None:
    @cuda.jit
    def halves(x, out):
        i = cuda.grid(1)
        kept = cuda.local.array(1, cuda.float32)
        kept[0] = x[i] * cuda.float64(0.5)
        out[i] = kept[0]

    out = np.zeros(4)
    assert trace(halves, 1, 4, np.full(4, 0.2), out).problems == []
    assert out.tolist() == [np.float32(0.1)] * 4


# -- Picture and table -------------------------------------------------------------------------------------------------


def test_picture_shows_who_was_where() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    kernel, blocks, threads, arrays, _ = next(case for case in RIGHT if name_of(case) == "turned")
    t = trace(kernel, blocks, threads, arrays[0], arrays[1].copy())
    figure = t.plot()
    assert [ax.get_title(loc="left").split(" (")[0] for ax in figure.axes] == ["image", "out", "tile", "tile"]
    assert "image: 99 elements" in figure.get_label()
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert labels[:9] == ["0", "1", "2", "3", "4", "5", "6", "7", "64"]
    with pytest.raises(ValueError, match="there are image, out, tile"):
        t.plot("nothing")
    idle = trace(RIGHT[0][0], 1, 32, np.zeros(0, np.float32), np.zeros(0, np.float32))
    assert "guarded" in idle.plot().get_label()
    plt.close("all")
