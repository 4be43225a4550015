# ruff: noqa: ARG001 -- all kernels have the same parameters
"""More kernels with a planted defect each, in a line that ends in "# here", and some that look wrong and are right."""

import math
import warnings
from collections import namedtuple
from importlib import import_module

import numpy as np
import pytest
from broken import F, ones, zeros
from compiler import PACKAGE, cuda, float32, int32
from variants import edited

with warnings.catch_warnings():  # where kernels are simulated, Numba finds fault with this module of its own
    warnings.simplefilter("ignore")
    random = import_module(f"{PACKAGE}.cuda.random")

ALL = 0xFFFFFFFF
TABLE = np.arange(32, dtype=F)


@cuda.jit
def neighbours(x, out):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        out[i] = x[i - 1] + x[i + 1]  # here


def twice(make):
    """Return one array, given twice."""

    def arrays():
        array = make()
        return array, array

    return arrays


def overlapping(make):
    """Return two parts of one array, one element apart."""

    def arrays():
        array = make()
        return array[1:], array[:-1]

    return arrays


def windows():
    whole = zeros(64)
    return np.lib.stride_tricks.as_strided(whole, (63,), (4,)), whole


def numbers_and_their_parts():
    z = np.zeros(32, np.complex64)
    return z.view(F)[:32], z.view(F)[1:33]


def two_of_one_buffer():
    memory = bytearray(256)
    return np.frombuffer(memory, F), np.frombuffer(memory, F, offset=4)


# -- What does not order memory ----------------------------------------------------------------------------------------


@cuda.jit
def after_a_shuffle(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.shfl_sync(ALL, t, 0)
    out[t] = s[31 - t]  # here


SHUFFLE, VOTE = "cuda.shfl_sync(ALL, t, 0)", "cuda.ballot_sync(ALL, t > 3)"
after_a_vote = edited(after_a_shuffle, ("def after_a_shuffle", "def after_a_vote"), (SHUFFLE, VOTE))


@cuda.jit
def half_a_warp_waits_for_itself(x, out):
    s = cuda.shared.array(16, float32)
    t = cuda.threadIdx.x
    if t < 16:
        cuda.syncwarp(0xFFFF)
        s[t] = x[t]  # here
    else:
        out[t] = s[t - 16]


@cuda.jit
def warps_wait_for_themselves(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[63 - t]  # here


@cuda.jit
def lock_without_fences(x, out):
    while cuda.atomic.cas(x, 0, 0, 1) != 0:
        pass
    out[0] += 1  # here
    cuda.atomic.exch(x, 0, 0)


@cuda.jit
def lock_without_a_fence_after_it_is_taken(x, out):
    while cuda.atomic.cas(x, 0, 0, 1) != 0:
        pass
    out[0] += 1  # here
    cuda.threadfence()
    cuda.atomic.exch(x, 0, 0)


@cuda.jit
def unlocked_by_a_store(x, out):
    while cuda.atomic.cas(x, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    out[cuda.grid(1)] = 1
    cuda.threadfence()
    x[0] = 0  # here


@cuda.jit
def fence_for_the_own_block_only(x, out):
    if cuda.blockIdx.x == 0:
        out[0] = 5  # here
        cuda.threadfence_block()
        cuda.atomic.exch(x, 0, 1)
    else:
        while cuda.atomic.add(x, 0, 0) == 0:
            pass
        cuda.threadfence()
        out[0] += 1


@cuda.jit
def a_later_thread_tells_without_a_fence(x, out):
    t = cuda.threadIdx.x
    if t == 3:
        while cuda.atomic.add(x, 0, 0) == 0:
            pass
        cuda.threadfence_block()
        out[t] = out[40] + 1  # here
    elif t == 40:
        out[t] = 5  # here
        cuda.atomic.exch(x, 0, 1)


# -- Records, states, constants ----------------------------------------------------------------------------------------


@cuda.jit
def a_field_of_all(x, out):
    x[0]["n"] = cuda.grid(1)  # here


@cuda.jit
def a_field_and_its_record(x, out):
    i = cuda.grid(1)
    x[i].n = 1
    if i:
        out[i] = x[i - 1]  # here


@cuda.jit
def constant_before_the_first(x, out):
    i = cuda.grid(1)
    out[i] = TABLE[i - 1]  # here


@cuda.jit
def constant_memory_before_the_first(x, out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    out[i] = table[i - 1]  # here


# -- Memory that nobody has written ------------------------------------------------------------------------------------


@cuda.jit
def shared_guarded_but_read_by_all(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < 20:
        s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[t]  # here


@cuda.jit
def sum_that_starts_from_nothing(x, out):
    total = cuda.shared.array(1, float32)
    cuda.atomic.add(total, 0, x[cuda.threadIdx.x])  # here
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        out[0] = total[0]


@cuda.jit
def local_sum_that_starts_from_nothing(x, out):
    a = cuda.local.array(2, float32)
    a[0] = 0
    i = cuda.grid(1)
    a[0] += x[i]
    a[1] += x[i]  # here
    out[i] = a[0]


@cuda.jit(device=True)
def keeps_nothing(first, value):
    a = cuda.local.array(1, float32)
    if first:
        a[0] = value
    return a[0]  # here


@cuda.jit
def local_array_of_a_call_that_is_over(x, out):
    i = cuda.grid(1)
    keeps_nothing(True, x[i])
    out[i] = keeps_nothing(False, x[i])


@cuda.jit
def shared_of_the_block_before(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        s[t] = x[t]
    cuda.syncthreads()
    out[t + 32 * cuda.blockIdx.x] = s[t]  # here


# -- Barriers ----------------------------------------------------------------------------------------------------------


@cuda.jit
def barrier_in_both_branches(x, out):
    if cuda.threadIdx.x % 2:
        cuda.syncthreads()  # here
    else:
        cuda.syncthreads()  # here


@cuda.jit
def some_leave_the_loop_before(x, out):
    for i in range(cuda.threadIdx.x % 2 + 1):
        cuda.syncthreads()  # here
        out[cuda.grid(1)] = i
    out[cuda.grid(1)] += 1


@cuda.jit
def shuffle_from_a_lane_that_has_returned(x, out):
    i = cuda.grid(1)
    if i >= 20:
        return
    out[i] = cuda.shfl_down_sync(ALL, x[i], 1)  # here


@cuda.jit
def shuffle_from_lanes_that_a_block_does_not_have(x, out):
    t = cuda.threadIdx.x + 8 * cuda.threadIdx.y
    value = x[t]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(ALL, value, step)  # here
    if t % 32 == 0:
        out[t // 32] = value


@cuda.jit
def half_a_mask_for_all(x, out):
    t = cuda.threadIdx.x
    value = x[t] + cuda.shfl_down_sync(0xFFFF, x[t], 8)  # here
    if t == 0:
        out[t] = value


@cuda.jit
def a_vote_of_others(x, out):
    out[cuda.threadIdx.x] = cuda.ballot_sync(0x1, x[0] > 0)  # here


@cuda.jit
def all_read_a_lane_that_the_mask_lacks(x, out):
    t = cuda.threadIdx.x
    if t < 16:
        out[t] = cuda.shfl_sync(0xFFFF, x[t], 20)  # here


@cuda.jit
def the_last_keeps_what_the_mask_lacks(x, out):
    t = cuda.threadIdx.x
    if t >= 16:
        return
    value = int32(x[t])
    for step in (8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFF, value, step)  # here
    out[t] = value


@cuda.jit
def one_of_a_tuple_for_all(xs, out):
    xs[0][0] += xs[1][cuda.threadIdx.x]  # here


@cuda.jit
def a_field_before_the_first(p, out):
    i = cuda.threadIdx.x
    out[i] = p.scale * p.inner[1][i - 1]  # here


Pair = namedtuple("Pair", "scale inner")


@cuda.jit
def draws_from_one_state(states, out):
    out[cuda.grid(1)] = random.xoroshiro128p_uniform_float32(states, 0)


def record() -> np.ndarray:
    return np.zeros(32, [("n", np.int32), ("pair", F, 2)])


pair = lambda: (ones(64), zeros(64))  # noqa: E731
PLANTED = [  # kernel, blocks, threads, what makes its arguments, and in which list the defect must be found
    *(
        (neighbours, 1, 32, arrays, "races")
        for arrays in (
            twice(lambda: ones(32)),
            overlapping(lambda: ones(33)),
            twice(lambda: cuda.to_device(ones(32))),
            overlapping(lambda: cuda.to_device(ones(33))),
            twice(lambda: pytest.importorskip("torch").ones(32)),
            overlapping(lambda: pytest.importorskip("torch").ones(33)),
            *(windows, numbers_and_their_parts, two_of_one_buffer),
        )
    ),
    (after_a_shuffle, 1, 32, pair, "races"),
    (after_a_vote, 1, 32, pair, "races"),
    (half_a_warp_waits_for_itself, 1, 32, pair, "races"),
    (warps_wait_for_themselves, 1, 64, pair, "races"),
    (lock_without_fences, 2, 4, lambda: (np.zeros(1, np.int32), zeros(1)), "races"),
    (lock_without_a_fence_after_it_is_taken, 2, 4, lambda: (np.zeros(1, np.int32), zeros(1)), "races"),
    (unlocked_by_a_store, 2, 4, lambda: (np.zeros(1, np.int32), zeros(8)), "races"),
    (fence_for_the_own_block_only, 2, 1, lambda: (np.zeros(1, np.int32), zeros(1)), "races"),
    (a_later_thread_tells_without_a_fence, 1, 64, lambda: (np.zeros(1, np.int32), zeros(64)), "races"),
    (a_field_of_all, 1, 8, lambda: (record(), zeros(1)), "races"),
    (a_field_and_its_record, 1, 8, lambda: (record(), record()), "races"),
    (constant_before_the_first, 1, 32, pair, "out_of_bounds"),
    (constant_memory_before_the_first, 1, 32, pair, "out_of_bounds"),
    (shared_guarded_but_read_by_all, 1, 32, pair, "uninitialized"),
    (sum_that_starts_from_nothing, 1, 32, pair, "uninitialized"),
    (local_sum_that_starts_from_nothing, 1, 32, pair, "uninitialized"),
    (local_array_of_a_call_that_is_over, 1, 32, pair, "uninitialized"),
    (shared_of_the_block_before, 2, 32, pair, "uninitialized"),
    (barrier_in_both_branches, 1, 32, pair, "divergent_barriers"),
    (some_leave_the_loop_before, 1, 32, pair, "divergent_barriers"),
    (shuffle_from_a_lane_that_has_returned, 1, 32, pair, "divergent_barriers"),
    (half_a_mask_for_all, 1, 32, pair, "divergent_barriers"),
    (a_vote_of_others, 1, 32, pair, "divergent_barriers"),
    (all_read_a_lane_that_the_mask_lacks, 1, 32, pair, "divergent_barriers"),
    (the_last_keeps_what_the_mask_lacks, 1, 32, pair, "divergent_barriers"),
    (one_of_a_tuple_for_all, 1, 32, lambda: ((zeros(1), ones(32)), zeros(1)), "races"),
    (a_field_before_the_first, 1, 32, lambda: (Pair(2, (7, ones(32))), zeros(32)), "out_of_bounds"),
    *(
        (shuffle_from_lanes_that_a_block_does_not_have, 1, threads, pair, "divergent_barriers")
        for threads in (5, (8, 5))
    ),
]


# -- Right ones that look wrong ----------------------------------------------------------------------------------------


@cuda.jit
def lock(x, out):
    while cuda.atomic.cas(x, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    out[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(x, 0, 0)


@cuda.jit
def spins_until_a_later_thread_acts(x, out):
    t = cuda.threadIdx.x
    if t == 3:
        while cuda.atomic.add(x, 0, 0) == 0:
            pass
        cuda.threadfence_block()
        out[t] = out[40] + 1
    elif t == 40:
        out[t] = 5
        cuda.threadfence_block()
        cuda.atomic.exch(x, 0, 1)


@cuda.jit
def spins_while_a_warp_meets(x, out):
    t = cuda.threadIdx.x
    if t < 32:
        while cuda.atomic.cas(x, 0, 1, 2) == 0:
            cuda.nanosleep(100)
    else:
        total = out[t]
        for step in (16, 8, 4, 2, 1):
            total += cuda.shfl_down_sync(ALL, total, step)
        cuda.syncwarp()
        if t == 32:
            cuda.atomic.exch(x, 0, 1)
    cuda.syncthreads()
    out[t] = t


@cuda.jit
def last_block_adds_up(x, out):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    out[1 + cuda.grid(1)] = 2
    cuda.syncthreads()
    if t == 0:
        cuda.threadfence()
        s[0] = cuda.atomic.add(x, 0, 1)
    cuda.syncthreads()
    if s[0] == cuda.gridDim.x - 1:
        total = 0
        for i in range(t, 32, cuda.blockDim.x):
            total += out[1 + i]
        cuda.atomic.add(out, 0, total)


@cuda.jit
def halves_of_a_warp_in_turn(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < 16:
        s[t] = 1
        cuda.syncwarp(0xFFFF)
        s[t ^ 1] += 1
    else:
        s[t] = 2
        cuda.syncwarp(0xFFFF0000)
        s[t ^ 1] += 1
    cuda.syncwarp()
    out[t] = s[31 - t]


@cuda.jit
def returned_lanes_that_nobody_asks(x, out):
    t = cuda.threadIdx.x
    if t >= 16:
        return
    for step in (8, 4, 2, 1):
        value = cuda.shfl_down_sync(0xFFFF, x[t], step)
    if t < 15:
        out[t] = value


@cuda.jit
def halves_find_their_greatest(x, out):  # what lanes beyond a half give is dropped, or compared and dropped
    t = cuda.threadIdx.x
    mask = 0xFFFF if t < 16 else 0xFFFF0000
    own = cuda.local.array(1, float32)
    own[0] = x[t]
    best, where, count = x[t], t, t
    for step in (8, 4, 2, 1):
        own[0] += cuda.shfl_down_sync(mask, own[0], step)
        count = max(count, int32(cuda.shfl_down_sync(mask, count, step)))
        other, there = cuda.shfl_down_sync(mask, best, step), cuda.shfl_down_sync(mask, where, step)
        if other > best:
            best, where = other, there
        before = cuda.shfl_up_sync(mask, math.sqrt(x[t]), step)
        if t % 16 >= step:
            out[t] = before
    if t % 16 == 0:
        out[t] = best + where + own[0] + count


@cuda.jit
def two_fields(x, out):
    i = cuda.grid(1)
    if i < 8:
        x[i].n = i
    else:
        x[i - 8].pair[1] = i
    out[i] = 0


@cuda.jit
def both_parts_of_one(x, out):
    i = cuda.grid(1)
    out[i] = 2 * x[i]


def parts():
    whole = ones(64)
    return whole[:32], whole[32:]


LOOKS_WRONG = [
    (lock, 2, 4, lambda: (np.zeros(1, np.int32), zeros(1))),
    (spins_until_a_later_thread_acts, 1, 64, lambda: (np.zeros(1, np.int32), zeros(64))),
    (spins_while_a_warp_meets, 1, 64, lambda: (np.zeros(1, np.int32), ones(64))),
    (last_block_adds_up, 4, 8, lambda: (np.zeros(1, np.int32), zeros(33))),
    (halves_of_a_warp_in_turn, 1, 32, pair),
    (returned_lanes_that_nobody_asks, 1, 32, pair),
    (halves_find_their_greatest, 1, 32, pair),
    (two_fields, 1, 16, lambda: (record(), zeros(16))),
    (both_parts_of_one, 1, 32, parts),
    (both_parts_of_one, 1, 32, twice(lambda: ones(32))),
]
