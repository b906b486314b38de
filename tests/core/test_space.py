from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.space import Hyperparameter, scaled_features

SCALES = pytest.mark.parametrize("scale", ["linear", "log"])


def grids(scale):
    low = 1e-9 if scale == "log" else -1e9
    return st.lists(st.floats(low, 1e9), min_size=2, max_size=8, unique=True).map(sorted)


@pytest.mark.parametrize(
    ("values", "scale", "scaled"),
    [
        ((10_000.0, 30_000.0, 50_000.0), "linear", [0.0, 0.5, 1.0]),
        ((256.0, 512.0, 1024.0), "log", [0.0, 0.5, 1.0]),
        ((1_000.0, 2_000.0, 4_000.0, 8_000.0, 16_000.0, 32_000.0), "log", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ((0.0003, 0.0006, 0.001), "linear", [0.0, 3 / 7, 1.0]),
        ((-1.0, 0.0, 3.0), "linear", [0.0, 0.25, 1.0]),
        ((8.0,), "linear", [0.0]),
        ((8.0,), "log", [0.0]),
    ],
)
def test_scaling(values, scale, scaled):
    axis = Hyperparameter("x", values, scale)
    np.testing.assert_allclose(axis.scaled(np.array(values)), scaled, rtol=1e-12, atol=1e-15)


def test_scaling_keeps_the_shape():
    axis = Hyperparameter("x", (1.0, 2.0, 3.0))
    np.testing.assert_array_equal(axis.scaled(np.array([[1.0, 2.0], [3.0, 1.0]])), [[0.0, 0.5], [1.0, 0.0]])
    single = Hyperparameter("x", (4.0,))
    np.testing.assert_array_equal(single.scaled(np.full((2, 3), 4.0)), np.zeros((2, 3)))


@SCALES
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_grid_maps_into_the_unit_interval_in_order(scale, data):
    values = np.array(data.draw(grids(scale)))
    scaled = Hyperparameter("x", tuple(values.tolist()), scale).scaled(values)
    assert scaled[0] == 0.0
    # A logarithm may be wrong in its last bit.
    rounding = 0.0 if scale == "linear" else 1e-15
    assert scaled[-1] == pytest.approx(1.0, rel=0.0, abs=rounding)
    assert (scaled >= 0.0).all()
    assert (scaled <= 1.0 + rounding).all()
    assert (np.diff(scaled) >= -rounding).all()
    apart = np.diff(values) > 1e-6 * max(abs(values[0]), abs(values[-1]))
    assert (np.diff(scaled)[apart] > 0.0).all()


@settings(max_examples=100, deadline=None)
@given(grids("log"), st.floats(1e-3, 1e3))
def test_log_scale_does_not_depend_on_the_unit(values, unit):
    values = np.array(values)
    if (np.diff(values) < 1e-6 * values[1:]).any():
        return
    plain = Hyperparameter("x", tuple(values.tolist()), "log").scaled(values)
    other = Hyperparameter("x", tuple((unit * values).tolist()), "log").scaled(unit * values)
    np.testing.assert_allclose(other, plain, atol=1e-8)


@pytest.mark.parametrize(
    ("values", "scale", "message"),
    [
        ((), "linear", "has no values"),
        ((1.0, math.nan), "linear", "not finite"),
        ((1.0, math.inf), "linear", "not finite"),
        ((2.0, 1.0), "linear", "ascending and distinct"),
        ((1.0, 1.0), "linear", "ascending and distinct"),
        ((1.0, 2.0), "cubic", "scale must be 'linear' or 'log', not 'cubic'"),
        ((0.0, 1.0), "log", "positive values, not 0"),
        ((-1.0, 1.0), "log", "positive values, not -1"),
    ],
)
def test_grids_that_cannot_be_scaled(values, scale, message):
    with pytest.raises(InputError, match=message) as caught:
        Hyperparameter("dropout", values, scale)
    assert "'dropout'" in str(caught.value)


@pytest.mark.parametrize("n_values", [3, 10, 11])
def test_of_many_values_ten_are_shown(n_values):
    values = [*map(float, range(n_values - 1)), 0.0]
    shown = f"{values[:10]}{'…' if n_values == 11 else ''}"
    with pytest.raises(InputError) as error:
        Hyperparameter("x", tuple(values))
    assert str(error.value) == f"hyperparameter 'x': values must be ascending and distinct, not {shown}."


def test_values_whose_squares_overflow_are_refused():
    for values in ((0.0, 1e150), (-1e150, 0.0)):
        assert Hyperparameter("x", values).scaled(np.array(values)).tolist() == [0.0, 1.0]
    assert Hyperparameter("x", (1e-150, 1.0, 1e150), "log").scaled(np.array([1.0])) == pytest.approx(0.5)
    for values in ((0.0, 1.001e150), (-1.001e150, 0.0)):
        with pytest.raises(InputError, match=r"hyperparameter 'x' has a value beyond 1e\+150\."):
            Hyperparameter("x", values)
    with pytest.raises(InputError, match=r"a log scale needs values of 1e-150 or more\."):
        Hyperparameter("x", (0.999e-150, 1.0), "log")


def test_zero_is_fine_on_a_linear_scale():
    assert Hyperparameter("x", (0.0, 0.5)).scaled(np.array([0.5]))[0] == 1.0


def test_features_are_one_column_per_hyperparameter_in_their_order():
    axes = (Hyperparameter("x", (1.0, 2.0, 5.0)), Hyperparameter("y", (1.0, 10.0, 100.0), "log"))
    configs = np.array([[1.0, 100.0], [2.0, 1.0], [5.0, 10.0]])
    np.testing.assert_allclose(scaled_features(axes, configs), [[0.0, 1.0], [0.25, 0.0], [1.0, 0.5]])


@pytest.mark.parametrize(("name", "unit"), [("a\x1b[31m", ""), ("lr", "\u202e"), ("", "")])
def test_names_and_units_that_cannot_be_shown(name, unit):
    with pytest.raises(InputError, match="hyperparameter"):
        Hyperparameter(name, (1.0,), unit=unit)
