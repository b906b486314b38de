"""Numbers rounded for people: half up in decimal, as they are taught to."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal

_PRECISION = re.compile(r"\.(\d+)([fg%])$")
_HALF_UP = Context(prec=400, rounding=ROUND_HALF_UP)
# What comes after so many digits is the noise of floating-point sums.
_KNOWN_DIGITS = 12
# More are kept where more are shown, but a float has no more than 17.
_GUARD, _DIGITS = 4, 17
_LARGEST = 1e300


def rounded(value: float, spec: str) -> str:
    """A number as a format specification such as ".0f", ".3g" or ".1%" gives it, but rounded half up.

    36.5 becomes 37, where Python's own rounding gives 36, the even one. A number that is short of 9.5 only by
    the noise of floating-point sums, such as 9.499999999999998, is 9.5, and becomes 10.

    Args:
        value: any number; NaN, and those of 1e300 or more, are left to Python.
        spec: a precision and one of f, g and %, at its end.
    """
    precision, kind = _PRECISION.findall(spec)[0]
    if not 0 < abs(value) < _LARGEST:
        return format(value, spec)
    before = math.floor(math.log10(abs(value))) + 1  # digits before the point
    places = int(precision) + {"f": 0, "%": 2, "g": -before}[kind]
    digits = min(max(_KNOWN_DIGITS, before + places + _GUARD), _DIGITS)
    known = Decimal(f"{value:.{digits}g}")
    # What is rounded is no longer near to half of a step, so that Python rounds its float to the same.
    return format(float(known.quantize(Decimal(1).scaleb(-places), context=_HALF_UP)), spec)


def percent(share: float, decimals: int = 0) -> str:
    """A share as a text such as 67%, rounded half up."""
    return rounded(share, f".{decimals}%")
