"""Numbers as text for people, however large or small."""

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.analysis.leaderboard import figure
from hpobench_nmt.analysis.number_text import column_text
from hpobench_nmt.core.system.text import short


def test_large_numbers_are_short():
    assert short(2.1677e18) == "2.17e+18" and short(-1e9) == "-1e+09"
    assert short(123456.0) == "123456" and short(9.99e8) == "999000000"
    assert column_text(pd.Series([2.1677123e18, 5.0, np.nan])) == ["2.1677e+18", "5", "–"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([2.0**-12, 0.5, np.nan], ["0.000244140625", "0.5", "–"]),
        ([0.0013572088082974532, 512.0], ["0.0013572088082974532", "512"]),
        ([0.00024414, 0.5, np.nan], ["0.00024414", "0.50000000", "–"]),
        ([0.0003, 0.001, -0.25], ["0.0003", "0.0010", "-0.2500"]),
        ([1e-5, 0.25], ["1e-05", "0.25"]),
        ([512.0, 1e6], ["512", "1000000"]),
        ([1e300, 2.0**60, 3.0], ["1e+300", "1.152921504606847e+18", "3"]),
        ([np.inf, 0.5], ["inf", "0.5"]),
        ([3, 40], ["3", "40"]),
    ],
)
def test_an_exact_column_is_read_back_as_it_is(values, texts):
    assert column_text(pd.Series(values), exact=True) == texts
    assert [np.nan if text == "–" else float(text) for text in texts] == pytest.approx(values, 0, 0, True)
    assert column_text(pd.Series([0.1, 1e-4], dtype="float32"), exact=True) == ["0.1000", "0.0001"]
    assert column_text(pd.Series([0.1, None], dtype="Float64"), exact=True) == ["0.1", "–"]


def test_one_function_writes_measured_numbers():
    assert short(1.30257, unit="BLEU") == "1.3 BLEU" and short(0.125) == "0.125" and short(2.0) == "2"
    assert short(2713451.23456, commas=True) == "2,713,451" and short(999.6) == "1000"
    assert short(-np.inf) == "−∞" and short(np.nan) == "–" and short(-0.000123456) == "-0.000123"


@pytest.mark.parametrize(
    ("mean", "std", "decimals", "text"),
    [
        (2167712321251977984.0, 1935693357072765440.0, 2, "2.17e+18±1.94e+18"),
        (2.5e-100, 0.0, 101, "2.50e-100±0"),
        (0.29, 0.01, 2, "0.29±0.01"),
        (1e8, 0.0, 0, "100000000±0"),
        (306798391296.0, 74678045728.0, 0, "3.07e+11±7.47e+10"),
        (3.14159265e-4, 1e-5, 8, "0.00031416±0.00001000"),
    ],
)
def test_a_score_of_any_scale_is_readable(mean, std, decimals, text):
    assert figure(mean, std, decimals) == text
