"""exp and log for the loops of the fused step: polynomials on the bits of a number, as Numba has none for vectors."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import extending, types

njit: Any = numba.njit
intrinsic: Any = extending.intrinsic
overload: Any = extending.overload

EXACT = {"error_model": "numpy", "fastmath": {"contract"}}  # for what a change of order would spoil

# Of each type: unsigned integers of its size, bits of its mantissa, its bias, terms for exp and log, digits of ln 2.
KINDS: dict[Any, Any] = {
    types.float32: (np.float32, np.uint32, 23, 127, 8, 5, 9),
    types.float64: (np.float64, np.uint64, 52, 1023, 14, 10, 32),
}


@intrinsic
def bits_of(_typing, x):
    """Take the bits of a number as an integer."""
    return (types.uint32 if x == types.float32 else types.uint64)(x), bit_cast


@intrinsic
def real_of(_typing, bits):
    """Take an integer for the bits of a number."""
    return (types.float32 if bits == types.uint32 else types.float64)(bits), bit_cast


def bit_cast(context, builder, signature, arguments):
    """Leave the bits as they are."""
    return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))


def halves(real, coefficients):
    """Take a polynomial's even and odd coefficients, the highest powers first."""
    return tuple(tuple(real(value) for value in coefficients[first::2][::-1]) for first in range(2))


@njit(**EXACT)
def polynomial(even, odd, x):
    """Sum up both halves at once: a processor waits for the end of one multiplication before it begins the next."""
    square, evens, odds = x * x, even[0], odd[0]
    for coefficient in even[1:]:
        evens = evens * square + coefficient
    for coefficient in odd[1:]:
        odds = odds * square + coefficient
    return evens + odds * x


def exp(x):
    """Take the exponential of a number that is not positive."""


def log(x):
    """Take the logarithm of a number that is positive, and not tiny."""


def log1p(x):
    """Take the logarithm of one more than a number between 0 and 1."""


@overload(exp, jit_options=EXACT)
def overload_exp(x):
    """2^n e^r, with n an integer and r at most ln 2 / 2: a Taylor series, and n put where an exponent belongs."""
    real, whole, mantissa, bias, terms, _, digits = KINDS[x]
    even, odd = halves(real, [1 / math.factorial(k) for k in range(terms)])
    least, octaves = real(-0.69 * bias), real(1 / math.log(2))
    high = round(math.log(2) * 2**digits) / 2**digits  # times n without rounding
    high, low = real(high), real(math.log(2) - high)
    rounder, bias, mantissa = real(1.5 * 2**mantissa), whole(bias), whole(mantissa)

    def implementation(x):
        x = max(x, least)
        shifted = x * octaves + rounder  # its last bits are n
        n = shifted - rounder
        rest = x - n * high - n * low
        return polynomial(even, odd, rest) * real_of(whole(whole(bits_of(shifted) + bias) << mantissa))

    return implementation


def atanh_series(kind):
    """2 atanh(s) = ln((1 + s) / (1 − s)) = s (2 + 2 s²/3 + 2 s⁴/5 + …)."""
    return halves(kind[0], [2 / (2 * k + 1) for k in range(kind[5])])


@overload(log, jit_options=EXACT)
def overload_log(x):
    """ln(2^n m) = n ln 2 + ln m, with m between 1/√2 and √2."""
    real, whole, mantissa, bias, *_ = kind = KINDS[x]
    (even, odd), ln2, one = atanh_series(kind), real(math.log(2)), real(1)
    rounder = real(1.5 * 2**mantissa)
    zero = rounder.view(whole) - whole(bias)
    shift = one.view(whole) - real(math.sqrt(0.5)).view(whole)
    bias, mantissa = whole(bias), whole(mantissa)

    def implementation(x):
        bits = bits_of(x)
        biased = whole(whole(bits + shift) >> mantissa)
        n = real_of(whole(biased + zero)) - rounder
        m = real_of(whole(bits - whole(whole(biased - bias) << mantissa)))
        s = (m - one) / (m + one)
        return n * ln2 + s * polynomial(even, odd, s * s)

    return implementation


@overload(log1p, jit_options=EXACT)
def overload_log1p(x):
    """Of 1 + x or half of it, whichever is nearer to 1; x itself is never rounded to 1 + x."""
    real = KINDS[x][0]
    (even, odd), ln2, one, limit = atanh_series(KINDS[x]), real(math.log(2)), real(1), real(math.sqrt(2) - 1)

    def implementation(x):
        halved = x > limit
        s = (x - one if halved else x) / ((one if halved else real(0)) + (real(2) + x))
        return s * polynomial(even, odd, s * s) + (ln2 if halved else real(0))

    return implementation
