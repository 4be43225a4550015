"""The instructions of a small FFT, of vectors of neighbouring columns.

Numba's loops would first ask whether the rows overlap, which takes longer than the work; so these write their
instructions themselves, for `fused_columns` to compile.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types

BYTES = 32  # of a vector

intrinsic: Any = extending.intrinsic


class Lanes:
    """A vector of numbers in a function that is being compiled."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: Lanes) -> Lanes:
        return Lanes(self.builder, self.builder.fadd(self.value, other.value, flags=("contract",)))

    def __sub__(self, other: Lanes) -> Lanes:
        return Lanes(self.builder, self.builder.fsub(self.value, other.value, flags=("contract",)))

    def __mul__(self, other: Lanes | float) -> Lanes:
        if not isinstance(other, Lanes):
            other = Lanes(self.builder, ir.Constant(self.value.type, [other] * self.value.type.count))
        return Lanes(self.builder, self.builder.fmul(self.value, other.value, flags=("contract",)))


Number = tuple[Lanes, Lanes]


def added(a: Number, b: Number) -> Number:
    """Add two complex numbers."""
    return a[0] + b[0], a[1] + b[1]


def taken(a: Number, b: Number) -> Number:
    """Subtract two complex numbers."""
    return a[0] - b[0], a[1] - b[1]


def turned(a: Number, b: Number) -> Number:
    """Multiply two complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def combined(start: Number | None, numbers: list[Number], factors: list[float]) -> Number | None:
    """Add up multiples of numbers, without multiplying by 0, 1 and -1."""
    total = start
    for number, factor in zip(numbers, factors, strict=True):
        if abs(factor) < 1e-9:
            continue
        part = number if abs(abs(factor) - 1) < 1e-9 else (number[0] * abs(factor), number[1] * abs(factor))
        if total is None:
            total = part if factor > 0 else (part[0] * -1.0, part[1] * -1.0)
        else:
            total = added(total, part) if factor > 0 else taken(total, part)
    return total


def transformed(a: list[Number]) -> list[Number]:
    """Transform a few numbers: those at equal distances from both ends share cosines, and sines but for the sign."""
    n = len(a)
    sums = [added(a[p], a[n - p]) for p in range(1, (n + 1) // 2)]
    apart = [taken(a[p], a[n - p]) for p in range(1, (n + 1) // 2)]
    out = list(a)
    for q in range(n // 2 + 1):
        angles = [2 * math.pi * p * q / n for p in range(1, (n + 1) // 2)]
        middle = a[0] if n % 2 else (taken if q % 2 else added)(a[0], a[n // 2])
        even = combined(middle, sums, [math.cos(angle) for angle in angles])
        odd = combined(None, apart, [math.sin(angle) for angle in angles])
        assert even
        if odd is None:
            out[q] = even
        else:
            out[q], out[n - q] = (even[0] + odd[1], even[1] - odd[0]), (even[0] - odd[1], even[1] + odd[0])
    return out


def butterfly(factor: int, after: bool) -> Any:
    """Make what transforms some rows of a small array, and turns them before or after."""

    @intrinsic
    def function(_typing, x, turn, re, im, start, apart, step):
        def generate(context, builder, _signature, arguments):
            x_, turn_, re_, im_, start_, apart_, step_ = arguments
            table, align = context.make_array(turn)(context, builder, turn_), x.dtype.bitwidth // 8
            half = builder.udiv(builder.extract_value(table.shape, 0), ir.Constant(step_.type, 2))

            def turn_of(row: int) -> Any:
                at = builder.mul(step_, ir.Constant(step_.type, row))
                both = [builder.load(builder.gep(table.data, [i])) for i in (at, builder.add(at, half))]
                return tuple(Lanes(builder, splat(builder, one, BYTES // align)) for one in both)

            starts = [builder.add(start_, builder.mul(apart_, ir.Constant(apart_.type, row))) for row in range(factor)]
            places = [
                [pointer(context, builder, x, x_, builder.add(begin, plane)) for plane in (re_, im_)]
                for begin in starts
            ]
            numbers: Any = [
                tuple(Lanes(builder, builder.load(place, align=align)) for place in both) for both in places
            ]
            if not after:
                numbers[1:] = [turned(numbers[row], turn_of(row)) for row in range(1, factor)]
            numbers = transformed(numbers)
            if after:
                numbers[1:] = [turned(numbers[row], turn_of(row)) for row in range(1, factor)]
            for both, number in zip(places, numbers, strict=True):
                for place, lanes in zip(both, number, strict=True):
                    builder.store(lanes.value, place, align=align)
            return context.get_dummy_value()

        return types.void(x, turn, re, im, start, apart, step), generate

    return function


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """Fill a vector with one number."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return picked(builder, one, one, [0] * lanes)


def pointer(context, builder, kind, array, at):
    """Point to the vector that begins at an index of a flat array."""
    vector = ir.VectorType(context.get_value_type(kind.dtype), BYTES * 8 // kind.dtype.bitwidth)
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def picked(builder: Any, first: Any, second: Any, indices: list[int]) -> Any:
    """Pick numbers out of two vectors."""
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), len(indices)), indices))


@intrinsic
def split(_typing, pairs, at, x, re, im):
    """Store pairs of real and imaginary parts as a vector of each."""

    def generate(context, builder, _signature, arguments):
        pairs_, at_, x_, re_, im_ = arguments
        size = pairs.dtype.bitwidth // 8
        lanes = BYTES // size
        ends = [builder.add(at_, ir.Constant(at_.type, i * lanes)) for i in range(2)]
        both = [builder.load(pointer(context, builder, pairs, pairs_, end), align=size) for end in ends]
        for offset, place in enumerate((re_, im_)):
            values = picked(builder, both[0], both[1], list(range(offset, 2 * lanes, 2)))
            builder.store(values, pointer(context, builder, x, x_, place), align=size)
        return context.get_dummy_value()

    return types.void(pairs, at, x, re, im), generate


@intrinsic
def join(_typing, x, re, im, pairs, at):
    """Store a vector of real and one of imaginary parts as pairs."""

    def generate(context, builder, _signature, arguments):
        x_, re_, im_, pairs_, at_ = arguments
        size = pairs.dtype.bitwidth // 8
        lanes = BYTES // size
        both = [builder.load(pointer(context, builder, x, x_, place), align=size) for place in (re_, im_)]
        mixed = [lane for pair in zip(range(lanes), range(lanes, 2 * lanes), strict=True) for lane in pair]
        for i in range(2):
            values = picked(builder, both[0], both[1], mixed[i * lanes : (i + 1) * lanes])
            end = builder.add(at_, ir.Constant(at_.type, i * lanes))
            builder.store(values, pointer(context, builder, pairs, pairs_, end), align=size)
        return context.get_dummy_value()

    return types.void(x, re, im, pairs, at), generate
