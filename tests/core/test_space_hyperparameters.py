"""One hyperparameter: its scales, grids, ranges and labels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.space import Hyperparameter, Space, label, short_label
from hpobench_nmt.core.system.errors import InputError

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
    for values in ((0.0, 1.001e150), (-1.001e150, 0.0), (1, 10**400)):
        with pytest.raises(InputError, match=r"hyperparameter 'x' has a value beyond 1e\+150\."):
            Hyperparameter("x", values)
    with pytest.raises(InputError, match=r"a log scale needs values of 1e-150 or more\."):
        Hyperparameter("x", (0.999e-150, 1.0), "log")
    for axis in (Hyperparameter("x", (1, 2)), Hyperparameter("x", (1, 2), continuous=True)):
        with pytest.raises(InputError, match="x is 10000"):
            axis.code(10**400)


def test_zero_is_fine_on_a_linear_scale():
    assert Hyperparameter("x", (0.0, 0.5)).scaled(np.array([0.5]))[0] == 1.0


@pytest.mark.parametrize(("name", "unit"), [("a\x1b[31m", ""), ("lr", "\u202e"), ("", "")])
def test_names_and_units_that_cannot_be_shown(name, unit):
    with pytest.raises(InputError, match="hyperparameter"):
        Hyperparameter(name, (1.0,), unit=unit)


def test_any_two_categories_are_1_apart_and_numbers_of_a_category_have_no_order():
    batch = Hyperparameter("batch", (64, 16, 32), kind="categorical")
    features = batch.features(np.arange(3.0))
    distance = np.sqrt(((features[:, None] - features) ** 2).sum(axis=2))
    np.testing.assert_allclose(distance, 1 - np.eye(3))
    assert [batch.value(code) for code in range(3)] == [64, 16, 32]
    assert batch.code(16) == batch.code(16.0) == batch.code(np.int64(16)) == 1.0
    assert batch.labels == ("64", "16", "32")


def test_a_logarithm_and_its_inverse_lead_back_to_the_grid():
    rates = Hyperparameter("rate", (1e-4, 3e-4, 1e-3), "log")
    for rate in rates.numbers:
        assert rates.code(math.exp(math.log(rate))) == rate
        assert rates.code(rate * (1 + 1e-12)) == rate
    with pytest.raises(InputError):
        rates.code(3.0001e-4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"values": ("a", "b")}, "['a', 'b'] are not all numbers; labels need kind = 'categorical'."),
        ({"values": (1, True)}, "[1, True] are not all numbers"),
        ({"values": ("a", "a"), "kind": "categorical"}, "the label 'a' occurs twice."),
        ({"values": ("1", 1), "kind": "ordinal"}, "the label '1' occurs twice."),
        ({"values": ("a", ""), "kind": "ordinal"}, "an empty text is not a label"),
        (
            {"values": ("a", {1}), "kind": "ordinal"},
            "a label must be a text, a boolean, a number, None or a tuple of these, not {1}.",
        ),
        ({"values": ("a", ({},)), "kind": "ordinal"}, "or a tuple of these, not ({},)."),
        ({"values": ("None", None), "kind": "ordinal"}, "the label 'None' occurs twice."),
        (
            {"values": ("a", None), "kind": "categorical", "active_if": (("y", (1,)),)},
            "None would mean that it is inactive. Use the text 'none' instead.",
        ),
        (
            {"values": ("a", math.nan), "kind": "ordinal"},
            "a label must be a text, a boolean, a number, None or a tuple of these, not nan.",
        ),
        (
            {"values": ("a", math.inf), "kind": "ordinal"},
            "a label must be a text, a boolean, a number, None or a tuple of these, not inf.",
        ),
        ({"values": ("a ", "b"), "kind": "ordinal"}, "begins or ends with a space"),
        ({"values": ("a\x1b", "b"), "kind": "ordinal"}, r"contains the character \x1b"),
        (
            {"values": ("a", "b"), "kind": "nominal"},
            "kind must be 'numeric', 'ordinal' or 'categorical', not 'nominal'.",
        ),
        ({"values": ("a", "b"), "kind": "ordinal", "scale": "log"}, "scales and ranges are only for numbers"),
        ({"values": (1, 2.5), "integer": True}, "takes whole numbers only, not [1.0, 2.5]."),
        ({"values": (1, 2, 3), "continuous": True}, "a range needs two ends, not [1.0, 2.0, 3.0]."),
        ({"values": (1, 2), "default": 1}, "that may be inactive: add active_if."),
        ({"values": (1, 2), "active_if": {"rule": ("adam",)}}, "active_if must be pairs such as "),
        ({"values": (1, 2), "active_if": (("rule", "adam"),)}, "active_if must be pairs such as "),
        ({"values": (1, 2), "active_if": ((3, (1,)),)}, "active_if must be pairs such as "),
        (
            {"values": (1, 2), "default": 3, "active_if": (("y", (1,)),)},
            "x is 3, which is not one of [1.0, 2.0].",
        ),
    ],
)
def test_a_wrong_hyperparameter_is_explained(given, message):
    with pytest.raises(InputError) as error:
        Hyperparameter("x", **given)
    assert message in str(error.value)


def test_a_range_takes_what_lies_between_its_ends():
    size = Hyperparameter("size", (16, 64), "log", integer=True, continuous=True)
    assert (
        size.code(20) == 20.0
        and size.value(20.0) == 20
        and size.scaled(np.array([32.0])) == pytest.approx(0.5)
    )
    for wrong, message in (
        (15, "size is 15, which is not between 16 and 64"),
        (20.5, "whole numbers only, not 20.5"),
    ):
        with pytest.raises(InputError, match=message):
            size.code(wrong)


@pytest.mark.parametrize(("ends", "whole"), [((0.0, 1.0), False), ((0, 1), True), ((0, 1.0), False)])
def test_a_range_is_of_whole_numbers_if_its_ends_are_of_type_int(ends, whole):
    axis = Hyperparameter("x", ends, continuous=True)
    assert axis.whole == whole and axis == replace(axis, unit="")
    assert Space.of({"x": ends})["x"] == axis
    assert Hyperparameter("x", np.linspace(0, 1, 5)).values == (0, 0.25, 0.5, 0.75, 1)


def test_whole_numbers_are_int_if_all_of_the_grid_are():
    assert isinstance(Hyperparameter("x", (1.0, 2.0)).value(2.0), int)
    assert isinstance(Hyperparameter("x", (1.0, 2.5)).value(1.0), float)
    assert isinstance(Hyperparameter("x", (1.0, 2.0), integer=False).value(2.0), float)


def test_labels_as_people_and_files_see_them():
    values = [True, False, 3, 3.0, -2.0, 0.1, 2.0**53 - 1, 2.0**53, "3"]
    assert [label(v) for v in values] == [
        "true", "false", "3", "3", "-2", "0.1", "9007199254740991", "9007199254740992.0", "3",
    ]  # fmt: skip
    assert [short_label(v) for v in (None, True, "a", 3.0, 1234567.0, 0.1234567)] == [
        "inactive", "true", "a", "3", "1.23457e+06", "0.123457",
    ]  # fmt: skip


def test_a_number_near_the_grid_is_on_it_and_one_farther_off_is_not():
    rates = Hyperparameter("rate", (1e-4, 3e-4, 1e-3), "log")
    assert rates.code(3e-4 * (1 + 0.9e-6)) == rates.code(3e-4 * (1 - 0.9e-6)) == 3e-4
    for wrong in (3e-4 * (1 + 1.5e-6), 3e-4 * (1 - 1.5e-6)):
        with pytest.raises(InputError, match="which is not one of"):
            rates.code(wrong)


def test_what_is_no_number_is_not_in_a_range_and_long_ones_are_cut():
    size = Hyperparameter("size", (16, 64), integer=True, continuous=True)
    assert (size.code(16), size.code(64), size.code(np.int64(17)), size.code(20.0)) == (16, 64, 17, 20)
    for wrong, shown in (
        ("16", "'16'"),
        (True, "True"),
        ([20], "[20]"),
        (64.1, "64.1"),
        ("a" * 99, f"'{'a' * 79}"),
    ):
        with pytest.raises(InputError) as error:
            size.code(wrong)
        assert str(error.value) == f"size is {shown}, which is not between 16 and 64."
    with pytest.raises(InputError) as error:
        Hyperparameter("x", ("b" * 99, "c"))
    assert f"hyperparameter 'x': ['{'b' * 59}, 'c'] are not all numbers" in str(error.value)


def test_none_and_tuples_are_labels():
    depth = Hyperparameter("depth", (None, 3, 5), kind="categorical")
    sizes = Hyperparameter("sizes", ((64,), (64, True), (64, 1), [None, 2.0]), kind="categorical")
    assert depth.labels == ("None", "3", "5") and sizes.labels == (
        "(64,)",
        "(64, true)",
        "(64, 1)",
        "(None, 2)",
    )
    space = Space((depth, sizes))
    configs = [{"depth": d, "sizes": s} for d in depth.values for s in sizes.values]
    assert [space.decode(codes) for codes in space.encode_all(configs)] == configs
    assert sizes.code([64, True]) == 1 and sizes.code((64, 1)) == 2 and sizes.value(3.0) == (None, 2)
    assert sizes.column(np.array([3.0, 0.0])).tolist() == [(None, 2), (64,)]
    for wrong in (None, (64, 2), (64, 64, 64)):
        with pytest.raises(InputError):
            sizes.code(wrong)
    with pytest.raises(InputError, match="the configuration lacks the hyperparameter 'depth'"):
        space.encode({"sizes": (64,)})
    assert Space.of({"depth": [None, 3, 5]})["depth"] == depth


def test_a_number_that_was_rounded_is_the_value_it_was_made_of_if_only_one_is_as_near():
    rates = Hyperparameter("rate", (0.001, 0.1, 0.999999, 0.9999995), integer=False)
    for value in (0.001, 0.1):
        assert rates.code(np.float32(value)) == rates.code(float(np.float32(value))) == value
    assert rates.code(np.float32(0.9999995)) == 0.9999995 and rates.code(np.float16(0.1)) == 0.1
    for wrong in (0.1 * (1 + 2e-6), 0.9999992):  # too far away; two are as near
        with pytest.raises(InputError):
            rates.code(wrong)
    assert rates.code(0.9999995 * (1 + 1e-12)) == 0.9999995
    sizes = Hyperparameter("size", (1_000_000, 2_000_000, 10**11))
    with pytest.raises(InputError):
        sizes.code(1_000_001)  # a whole number that float32 has
    assert sizes.code(float(np.float32(1e11))) == 1e11 != float(np.float32(1e11))
    codes = np.array([0.1, np.float32(0.1), np.nan, 0.5])
    np.testing.assert_array_equal(rates.snapped(codes), [0.1, 0.1, np.nan, 0.5])
    np.testing.assert_array_equal(Hyperparameter("x", (0.1,)).snapped(codes), [0.1, 0.1, np.nan, 0.5])


@pytest.mark.parametrize("values", [(2**53 - 4, 2**53 + 4), (2**53, 2**53 + 9), (0, -(2**60))])
def test_whole_numbers_that_are_not_exact_are_refused(values):
    with pytest.raises(InputError, match=r"whole numbers beyond 2\^53 cannot be told apart"):
        Hyperparameter("n", values, continuous=True)
    assert Hyperparameter("n", (2**53 - 4, 2**53), continuous=True).whole


def test_a_default_is_one_of_the_values():
    with pytest.raises(InputError, match=r"mom.*: a default must be one of the values, not nan"):
        Hyperparameter("mom", (0.0, 0.9), active_if=(("opt", ("sgd",)),), default=math.nan)
