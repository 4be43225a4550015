"""Lockstep gives the bits that a trace gives, tells what is wrong with a kernel, and refuses what it can't run."""

from importlib import import_module

import numpy as np
import pytest
from broken import BROKEN, RIGHT, ones, zeros
from compiler import PACKAGE, cuda, float32, in_compilers_only, int32
from planted import LOOKS_WRONG, PLANTED
from puzzle_answers import RIGHT as ANSWERS

from firstlight_kernels import lockstep, trace
from firstlight_kernels.compilers import python_function
from firstlight_kernels.findings import LaunchError
from firstlight_kernels.launch import bound
from firstlight_kernels.lockstep import Unsupported
from firstlight_kernels.puzzles import PUZZLES

F = np.float32
TABLE = np.arange(10, dtype=F)


def run(kernel, blocks, threads, *arguments, shared_bytes=0) -> None:
    lockstep.run(bound(kernel, blocks, threads, arguments, shared_bytes))


def name_of(case) -> str:
    return python_function(case[0]).__name__


def assert_same_bits(kernel, blocks, threads, make, **more) -> None:
    traced, ours = make(), make()
    trace(kernel, blocks, threads, *traced, **more)
    run(kernel, blocks, threads, *ours, **more)
    for one, other in zip(traced, ours, strict=True):
        if isinstance(one, np.ndarray):
            assert one.tobytes() == other.tobytes(), (one, other)


WAIT_FOR_OTHERS = ("lock", "spins_until_a_later_thread_acts", "spins_while_a_warp_meets")
LAUNCHES = [
    *((kernel, blocks, threads, lambda given=given: [each.copy() for each in given])
      for kernel, blocks, threads, given, *_ in RIGHT),
    *(case for case in LOOKS_WRONG if name_of(case) not in WAIT_FOR_OTHERS),
]  # fmt: skip


@pytest.mark.parametrize("case", LAUNCHES, ids=name_of)
def test_right_kernels_give_the_bits_of_a_trace(case) -> None:
    assert_same_bits(*case)


@pytest.mark.parametrize("name", PUZZLES)
def test_answers_to_puzzles_give_the_bits_of_a_trace(name) -> None:
    for kernel in ANSWERS[name]:
        for launch in PUZZLES[name].launches[:2]:
            make = lambda: PUZZLES[name].inputs(np.random.default_rng(0), *launch.sizes)  # noqa: B023, E731
            assert_same_bits(kernel, launch.blocks, launch.threads, make)


@cuda.jit
def complex_product(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * y[i] + (x[i] * 2.5) ** 3


def test_products_of_complex_numbers_are_rounded_alike() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 400)).view(np.complex128)
    assert_same_bits(complex_product, 7, 32, lambda: [x, y, np.zeros(200, np.complex128)])


# -- Awkward ones ------------------------------------------------------------------------------------------------------


@cuda.jit(device=True)
def collatz(n):
    steps = 0
    while n != 1:
        if steps > 40:
            return -1
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@cuda.jit(device=True)
def first_above(x, limit, begin=0):
    for i in range(begin, x.size):
        if x[i] > limit:
            return i
    return x.size


@cuda.jit
def variables_of_a_branch(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total, last = float32(0), 0
        for k in range(x.shape[1]):
            last = k
            if x[i, k] > 8:
                break
            if x[i, k] == 3:
                continue
            part = x[i, k] * x[i // 2, k]
            if k == 4:
                last = -k
                if part == 0:
                    out[i, 0] = -1
                    return
            total += part
        out[i, 0] = total
        out[i, 1] = last
    else:
        last = i
        out[i, 1] = last


def test_variables_that_only_some_threads_have() -> None:
    x = np.random.default_rng(0).integers(0, 10, (70, 9)).astype(F)
    assert_same_bits(variables_of_a_branch, 3, 32, lambda: [x, np.full((96, 2), np.nan)])


@cuda.jit
def loops_left_in_every_way(x, out):
    i = cuda.grid(1)
    total, turns = 0, 0
    while True:
        turns += 1
        if turns > i:
            break
        for k in range(i, 0, -2):
            if k % 3 == 0:
                continue
            if k == 7:
                break
            for m in range(k):
                if m == i - 3:
                    out[i] = -total
                    return
                total += m * k
        if total % 5 == 4:
            continue
        total += turns
    out[i] = total + collatz(i + 1) + first_above(x, i, begin=2)


@cuda.jit
def nothing_is_read_that_is_not_there(x, out):
    i = cuda.grid(1)
    inside = i < x.size and x[i] > 2
    outside = i >= x.size or not x[i] > 3
    value = x[i - 1] if 0 < i <= x.size else 0
    out[i] = inside + 2 * outside + (value if i < 4 else -value) + (i in (1, 5)) * 10
    if -1 < x.size - i - 1 < x[i]:
        out[i] -= 1000
    if i < 3 or (i < x.size and x[i] == 5):
        out[i] += (y := i * 100) + y
    if 0 < i < x.size - i < x[i] + 9 < 12:
        out[i] += 5000


@cuda.jit
def names_take_their_turns(x, out):
    i = cuda.grid(1)
    a, (b, c) = i, (x[i % 8], -1)
    for step in (4, 2, 1):
        a, b = b, a + step
        if i & step:
            (b, c), a = (c, b), step
    for number, (one, other) in enumerate(zip(x, (5, 6, 7)), 3):  # noqa: B905 -- no kernel has strict
        a += number * one + other
    where, split = min(a, b, c), max((a, b))  # lockstep calls functions of its own by these names
    out[i] = where + split * abs(c)


@cuda.jit
def integers_wrap(x, out):
    i = cuda.grid(1)
    state = np.uint64(i + 1)
    for _ in range(5):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    small = np.uint8(i * 37)
    out[i] = (state >> np.uint64(33)) % 1000 + small + -i + ~(small > 200) + int(x[i % 8] * 1e10) // (i - 3)


@cuda.jit
def arrays_of_their_own(x, out):
    i, t = cuda.grid(1), cuda.threadIdx.x
    mine = cuda.local.array((2, 3), float32)
    for row in range(2):
        for column in range(3):
            mine[row, column] = x[(i + row) % 8] * column
    part = mine[1]
    part[2] += TABLE[i % 10] + len(part) + mine.size
    whole = cuda.shared.array(0, int32)
    again = cuda.shared.array(0, float32)
    whole[t] = i
    cuda.syncthreads()
    out[i] = part[2] + whole[t ^ 1] + again[t]  # of which the bits are those of whole
    view = out[40:]
    view[i] = mine[0, 1]


@cuda.jit(device=True)
def corners(part):
    return part[0, 0] - 2 * part[-1 + len(part), 2]


@cuda.jit
def windows(x, out):
    i = cuda.grid(1)
    square = x.reshape(2, 4)
    if i < 2:
        out[i] = corners(square[:, i : i + 3]) + corners(square[0:2, 1:])
        part = out[10 * i + 10 : 10 * i + 14]
        part[i], part[3] = i + 1, square[i][i : i + 3][1]


@cuda.jit
def tickets(x, out):
    i = cuda.grid(1)
    place = cuda.atomic.add(x, 0, 1)
    out[int(place)] = i
    cuda.atomic.max(x, 1 + i % 3, i)
    out[50 + cuda.atomic.exch(x, 4, i % 2)] = 1
    if cuda.atomic.cas(x, 5, 9, 1) == 9:
        out[70] += 7
    cuda.atomic.sub(x, 6, i)
    cuda.atomic.min(x, 7, 3 - i)


@cuda.jit
def warps_vote(x, out):
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 37:
        names = 0xFFFFFFFF if t < 32 else 0x1F
        odd = cuda.ballot_sync(names, i % 2 == 1)
        out[i] = cuda.popc(odd) + cuda.ffs(odd) + cuda.all_sync(names, t < 35) + 2 * cuda.any_sync(names, t == 33)
        out[i] += cuda.shfl_xor_sync(names, x[t % 8], 1) + cuda.shfl_up_sync(names, t, 2) + cuda.eq_sync(names, t // 32)
    out[40 + i] = cuda.syncthreads_count(t % 3 == 0) + cuda.syncthreads_or(t > 30) + cuda.syncthreads_and(t < 30)


@cuda.jit
def warps_match(x, out):
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t % 3 != 1:
        out[i] = cuda.popc(cuda.activemask() & cuda.lanemask_lt())
    names = 0xFFFFFFFF if t < 32 else 0xFF
    out[40 + i] = cuda.match_any_sync(names, x[t % 5])
    same, whole = cuda.match_all_sync(names, t // 32)
    if whole:
        out[i] += same
    if not cuda.match_all_sync(names, x[t % 5])[1]:
        out[i] += 0.5


@cuda.jit
def cache_hints(x, out):
    i = cuda.grid(1)
    cuda.stcg(out, i, cuda.ldca(x, i % 8) + cuda.ldcg(x, 0) - cuda.ldcs(x, 7) + cuda.ldlu(x, 1) + cuda.ldcv(x, 2))
    cuda.stcs(out, 40 + i, 2)
    if i % 2:
        cuda.stwb(out, 40 + i, 3)
        cuda.stwt(out, i, i)
    for j in cuda.literal_unroll((1, 2.5)):
        out[i] += j


AWKWARD = [
    (kernel, 2, 20, lambda: [np.array([3, 1, 4, 1, 5, 9, 2, 6], F), zeros(80)])
    for kernel in (
        loops_left_in_every_way,
        nothing_is_read_that_is_not_there,
        names_take_their_turns,
        integers_wrap,
        windows,
        cache_hints,
    )
]
AWKWARD.append((tickets, 2, 20, lambda: [np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32), zeros(80)]))


@pytest.mark.parametrize(
    "case", [*AWKWARD, *((kernel, 1, 40, AWKWARD[0][3]) for kernel in (warps_vote, warps_match))], ids=name_of
)
def test_threads_that_part_and_meet_give_the_bits_of_a_trace(case) -> None:
    assert_same_bits(*case)


@in_compilers_only
def test_halves_are_rounded_once() -> None:
    half = import_module(f"{PACKAGE}.cuda.fp16")
    hadd = half.hadd

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[0, i] = half.hfma(x[i], x[i + 1], hadd(x[i], x[i + 2]))
        out[1, i] = half.hsin(half.hdiv(x[i], x[i + 1]))
        out[2, i] = half.hmax(x[i], half.hrsqrt(half.habs(x[i + 1])))
        if half.hlt(x[i], x[i + 1]) and not half.heq(x[i], x[i + 2]):
            out[3, i] = half.habs(half.hneg(x[i]))

    x = np.array([60000, 0.1, np.nan, -1, 6e-8, 7, 60000, 2049, 1, 0], np.float16)
    assert_same_bits(kernel, 2, 4, lambda: [x, np.zeros((4, 8), np.float16)])
    out = np.zeros((4, 8), np.float16)
    run(kernel, 2, 4, x, out)
    first, second, third = (x[at : at + 8].astype(float) for at in range(3))
    with np.errstate(all="ignore"):
        added = (first + third).astype(np.float16).astype(float)
        np.testing.assert_array_equal(out[0], (first * second + added).astype(np.float16))


def test_arrays_of_blocks_and_of_threads() -> None:
    assert_same_bits(arrays_of_their_own, 2, 20, AWKWARD[0][3], shared_bytes=80)


@cuda.jit
def all_axes(out):
    x, y, z = cuda.grid(3)
    width, height, depth = cuda.gridsize(3)
    thread = cuda.threadIdx.x + 10 * cuda.threadIdx.y + 100 * cuda.threadIdx.z
    block = cuda.blockIdx.x + 10 * cuda.blockIdx.y + 100 * cuda.blockIdx.z
    out[x, y, z] = thread + 1000 * block + 0.5 * (cuda.laneid + width * height * depth + cuda.blockDim.y)


def test_every_thread_knows_its_place_in_any_number_of_chunks(monkeypatch) -> None:
    make = lambda: [np.zeros((8, 6, 6))]  # noqa: E731
    assert_same_bits(all_axes, (2, 3, 2), (4, 2, 3), make)
    monkeypatch.setattr(lockstep, "_THREADS_AT_ONCE", 60)
    assert_same_bits(all_axes, (2, 3, 2), (4, 2, 3), make)
    for case in (*AWKWARD, *(case for case in LAUNCHES if name_of(case) in ("histogram", "last_block_adds_up"))):
        assert_same_bits(*case)


def test_records_complex_and_tuples_of_arrays() -> None:
    @cuda.jit
    def kernel(parts, records, out):
        i = cuda.grid(1)
        (x, z), scale = parts
        records[i].n = i
        records[i]["pair"][1] = x[i] * scale
        records[i + 4] = records[i]
        z[i] = z[i] * z[i].real + 2j
        out[i] = abs(z[i]) + records[i + 4].pair[1] + records[i]["n"]

    def make():
        records = np.zeros(8, [("n", np.int32), ("pair", F, 2)])
        return [((TABLE.copy(), TABLE.astype(np.complex64)), 3), records, zeros(4)]

    assert_same_bits(kernel, 1, 4, make)


def test_a_million_threads_fit() -> None:
    n = 1_000_003
    x, out, total = np.arange(n), np.zeros(n, np.int64), np.zeros(1, np.int64)

    @cuda.jit
    def kernel(x, out, total):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = 2 * x[i]
            cuda.atomic.add(total, 0, 1)

    run(kernel, -(-n // 128), 128, x, out, total)
    assert total[0] == n
    np.testing.assert_array_equal(out, 2 * x)


# -- What is wrong -----------------------------------------------------------------------------------------------------

NOT_REFUSED = (  # they get no number from the lane that is not there
    *("shuffle_without_all_lanes", "shuffle_from_a_lane_that_has_returned", "all_read_a_lane_that_the_mask_lacks"),
    *("shuffle_from_lanes_that_a_block_does_not_have", "the_last_keeps_what_the_mask_lacks"),
)


@pytest.mark.parametrize("case", [case for case in BROKEN + PLANTED if case[4] == "out_of_bounds"], ids=name_of)
def test_an_access_out_of_bounds_is_told_with_the_line(case) -> None:
    kernel, blocks, threads, arrays, _ = case
    with pytest.raises(LaunchError, match=r"thread .* of block .*line \d+: .*# here"):
        run(kernel, blocks, threads, *(arrays() if callable(arrays) else (array.copy() for array in arrays)))


MISSED = [case for case in BROKEN + PLANTED if case[4] == "divergent_barriers" and name_of(case) not in NOT_REFUSED]


@pytest.mark.parametrize("case", MISSED, ids=name_of)
def test_a_missed_barrier_is_refused_with_its_line_and_a_wrong_mask_is_told(case) -> None:
    kernel, blocks, threads, arrays, _ = case
    with pytest.raises((Unsupported, LaunchError), match=r"line \d+: .*# here"):
        run(kernel, blocks, threads, *(arrays() if callable(arrays) else (array.copy() for array in arrays)))


def test_an_index_out_of_bounds_names_thread_block_and_element() -> None:
    @cuda.jit
    def kernel(x, out):
        i, j = cuda.grid(2)
        if i > 0 and (j > 0 or x.shape[1] == 4):
            out[i, j] = x[i, j - 1]

    with pytest.raises(
        LaunchError, match=r"thread \(1, 2\) of block \(0, 1\): store of out\[1, 6\], where .* \(4, 6\)"
    ):
        run(kernel, (1, 2), (2, 4), ones(4, 9), zeros(4, 6)[:, ::-1])
    with pytest.raises(LaunchError, match=r"thread 1 of block 0: load of x\[1, -1\], where the shape is \(4, 4\)"):
        run(kernel, 1, (2, 4), ones(4, 4).T, zeros(4, 4))


def test_a_lost_update_is_lost_and_nothing_is_unwritten_and_right() -> None:
    @cuda.jit
    def kernel(x, out):
        t = cuda.threadIdx.x
        unwritten = cuda.shared.array(4, float32)
        out[0] += x[t]
        out[1 + t] = unwritten[t]

    out = zeros(5)
    run(kernel, 1, 4, np.arange(1, 5, dtype=F), out)
    assert out[0] == 4
    assert np.isnan(out[1:]).all()


def test_blocks_meet_at_a_barrier_of_the_grid(monkeypatch) -> None:
    monkeypatch.setattr(lockstep, "_THREADS_AT_ONCE", 8)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        x[i] += i
        if i < x.size - 1 or out.size > 1:
            cuda.cg.this_grid().sync()  # here
        out[i % out.size] = x[x.size - 1 - i]

    x, out = zeros(24), zeros(24)
    run(kernel, 3, 8, x, out)
    assert out.tolist() == [*range(23, -1, -1)]
    with pytest.raises(LaunchError, match=r"thread 0 of block 0 waits for thread 7 of block 2.*# here"):
        run(kernel, 3, 8, x, out[:1])


def test_a_truth_is_true_as_numba_has_it() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        inside = x[i] > 1
        out[i] = (inside is True) + 2 * (inside is not False) + 4 * (~inside)

    out = zeros(2)
    run(kernel, 1, 2, np.array([0, 2], F), out)
    assert out.tolist() == [4, 3]


def test_a_loop_without_end_is_told(monkeypatch) -> None:
    @cuda.jit
    def kernel(out):
        while out[0] == 0:
            out[1] += 1

    @cuda.jit
    def in_turns(out):
        for _ in range(10**12):
            cuda.atomic.add(out, 0, 1)

    monkeypatch.setattr(lockstep, "MOST_TURNS", 1000)
    with pytest.raises(LaunchError, match=r"1,000 turns .*no end.*line \d+: while"):
        run(kernel, 1, 2, zeros(2))
    out = zeros(2)
    with pytest.raises(Unsupported, match="turns"):
        run(in_turns, 1, 2, out)
    assert not out.any()


# -- What needs its threads one after the other ------------------------------------------------------------------------


def test_what_is_refused_has_its_line_and_changes_nothing() -> None:
    @cuda.jit
    def waits(out):
        out[0] = 1
        while cuda.atomic.cas(out, 1, 0, 1) != 0:  # here
            pass

    @cuda.jit
    def a_list(out):
        out[0] = 1
        numbers = [1, 2]  # here
        out[1] = numbers[0]

    @cuda.jit
    def unknown(out):
        out[0] = 1
        if out[0] > 0:
            print(out[0])  # here

    @cuda.jit
    def found_on_the_way(out):
        out[0] = 1
        part = out[cuda.threadIdx.x : 2]  # here
        out[1] = part[0]

    for kernel in (waits, a_list, unknown, found_on_the_way):
        out = zeros(2)
        with pytest.raises(Unsupported) as refused:
            run(kernel, 1, 2, out)
        assert str(refused.value.line).endswith("# here")
        assert not out.any()


def test_a_function_without_source_is_refused() -> None:
    scope = {"cuda": cuda}
    exec("def kernel(out):\n    out[0] = 1", scope)
    with pytest.raises(Unsupported, match="source of kernel cannot be read"):
        run(cuda.jit(scope["kernel"]), 1, 1, zeros(1))


def test_globals_are_those_of_the_moment() -> None:
    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = factor * numba_constant

    out, factor, numba_constant = zeros(2), 2, float32(1.5)
    run(kernel, 1, 2, out)
    factor = 4
    assert out.tolist() == [3, 3]
    run(kernel, 1, 2, out)
    assert out.tolist() == [6, 6]
