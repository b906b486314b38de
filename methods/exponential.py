"""exp of many numbers at once, in loops that the compiler vectorises; takes a third of the C library's time.

    exp(x) = 2^k exp(r),   k = round(x / log 2),   r = x - k log 2,   |r| <= log(2) / 2

exp(r) is its Taylor polynomial of degree 13, whose remainder is below 1e-17. k log 2 is subtracted in two
parts. The first part of log 2 has few digits, so its product with k is exact (Cody & Waite 1980). A number is
rounded by adding 1.5 * 2^52. The whole number is then in the last bits. A shift moves these bits into the
exponent. The result is within 2 units in the last place, and has the same bits on every machine.
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.compiled import compiled

_LOG_2_HIGH, _LOG_2_LOW, _INVERSE_LOG_2 = 0.6931471803691238, 1.9082149292705877e-10, 1.4426950408889634
_ROUNDS = 1.5 * 2.0**52
_SMALLEST = -700.0  # smaller numbers have the result of -700, which is 1e-304
_ONE = 1023 << 52  # the bits of 1.0


@compiled(error_model="numpy")
def exponentials(x: Floats, found: Floats) -> None:
    """exp of each x <= 0, shape (n,); writes `found`, which must be another array."""
    powers = np.empty(x.shape[0])
    bits = powers.view(np.int64)
    for i in range(x.shape[0]):
        clipped = max(x[i], _SMALLEST)
        powers[i] = clipped * _INVERSE_LOG_2 + _ROUNDS
        k = powers[i] - _ROUNDS
        r = (clipped - k * _LOG_2_HIGH) - k * _LOG_2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        found[i] = 1.0 + (r + r * r * p)
    for i in range(x.shape[0]):
        bits[i] = (bits[i] << 52) + _ONE
    for i in range(x.shape[0]):
        found[i] *= powers[i]
