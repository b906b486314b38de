"""Numbers as people round them, against decimal arithmetic by hand."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.core.rounding import percent, rounded


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (36.5, ".0f", "37"),
        (35.5, ".0f", "36"),
        (-36.5, ".0f", "-37"),
        (9.499999999999998, ".0f", "10"),  # 9.5 but for the noise of a sum
        (9.4999, ".0f", "9"),
        (1.0000000000000002, ".3g", "1"),
        (0.125, ".2f", "0.13"),
        (1.005, ".2f", "1.01"),
        (12.25, ".3g", "12.3"),
        (999.5, ".3g", "1e+03"),
        (0.00012345, ".4g", "0.0001235"),
        (1234567.5, ",.0f", "1,234,568"),
        (123456789.12345, ".4f", "123456789.1235"),
        (12481744.145485967, ".1%", "1248174414.5%"),  # rounded once, not first to 414.55
        (0.5, "+.0f", "+1"),
        (-0.004, "z.2f", "0.00"),
        (0.0, ".2f", "0.00"),
        (7, ".1f", "7.0"),
        (1e150, ".3g", "1e+150"),
        (1.7976931348623157e308, ".3g", "1.8e+308"),
        (math.inf, ".2f", "inf"),
        (-math.inf, ".2f", "-inf"),
        (math.nan, ".2f", "nan"),
    ],
)
def test_numbers_are_rounded_half_up(value, spec, text):
    assert rounded(value, spec) == text


@given(st.integers(-(10**7), 10**7), st.integers(0, 4), st.integers(0, 3))
def test_decimals_are_those_of_exact_arithmetic(number, places, decimals):
    step = Fraction(1, 10**decimals)
    exact = abs(Fraction(number, 10**places))
    expected = math.floor(exact / step + Fraction(1, 2)) * step * (1 if number > 0 else -1)
    assert Fraction(rounded(number / 10**places, f".{decimals}f")) == expected


def test_shares():
    assert (percent(2 / 3), percent(0.365), percent(0.3645)) == ("67%", "37%", "36%")
    assert (percent(0.3645, 1), percent(1.0), percent(0.0005, 1)) == ("36.5%", "100%", "0.1%")
