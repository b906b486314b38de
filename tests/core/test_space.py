"""Search spaces: configurations as codes and back, conditions, features, and short descriptions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.space import Hyperparameter, Space, config_key, row_index, scaled_features
from hpobench_nmt.core.system.errors import InputError


def test_features_are_one_column_per_hyperparameter_in_their_order():
    axes = (Hyperparameter("x", (1.0, 2.0, 5.0)), Hyperparameter("y", (1.0, 10.0, 100.0), "log"))
    configs = np.array([[1.0, 100.0], [2.0, 1.0], [5.0, 10.0]])
    np.testing.assert_allclose(scaled_features(axes, configs), [[0.0, 1.0], [0.25, 0.0], [1.0, 0.5]])


ORDERED = Hyperparameter("size", ("small", "medium", "large"), kind="ordinal")
RULE = Hyperparameter("rule", ("sgd", "rms", "adam"), kind="categorical")
TIED = Hyperparameter("tied", (False, True), kind="categorical")
RATE = Hyperparameter("rate", (0.1, 0.2, 0.4), "log")
DECAY = Hyperparameter("decay", (0.0, 0.5, 0.9), active_if=(("rule", ("rms", "adam")),), default=0.9)
EXTRA = Hyperparameter("extra", ("a", "b"), kind="categorical", active_if=(("decay", (0.5, 0.9)),))
MIXED = Space((RATE, RULE, ORDERED, TIED, DECAY, EXTRA))
FULL = {"rate": 0.2, "rule": "adam", "size": "large", "tied": True, "decay": 0.5, "extra": "b"}
PLAIN = {"rate": 0.4, "rule": "sgd", "size": "small", "tied": False}


def test_configurations_as_codes_and_back():
    codes = MIXED.encode_all([FULL, PLAIN, {**FULL, "decay": 0.0, "extra": None}])
    np.testing.assert_array_equal(
        codes,
        [[0.2, 2, 2, 1, 0.5, 1], [0.4, 0, 0, 0, np.nan, np.nan], [0.2, 2, 2, 1, 0.0, np.nan]],
    )
    assert [MIXED.decode(line) for line in codes] == [
        FULL,
        PLAIN,
        {k: v for k, v in FULL.items() if k != "extra"} | {"decay": 0.0},
    ]
    assert MIXED.decode(codes[0])["tied"] is True
    assert list(MIXED.decode(codes[0])) == list(MIXED.names)
    np.testing.assert_array_equal(MIXED.active(codes), ~np.isnan(codes))


def test_features_of_labels():
    features = MIXED.features(MIXED.encode_all([FULL, PLAIN]))
    half = 1 / math.sqrt(2)
    expected = [
        [0.5, 0, 0, half, 1, 0, half, 0.5 / 0.9, 0, half],
        [
            1.0,
            half,
            0,
            0,
            0,
            half,
            0,
            1.0,
            half,
            0,
        ],  # an inactive one counts as its default, or else its first
    ]
    np.testing.assert_allclose(features, expected)
    assert MIXED.features(np.empty((0, 6))).shape == (0, 10)
    one = Hyperparameter("only", ("a",), kind="categorical")
    np.testing.assert_array_equal(one.features(np.zeros(2)), np.zeros((2, 1)))


def test_labels_of_numpys_types_are_pythons():
    axes = {"a": list(np.array(["x", "y"])), "b": list(np.array([True, False]))}
    space = Space.of(axes)
    assert [[type(v) for v in h.values] for h in space] == [[str, str], [bool, bool]]
    assert space == Space.of({"a": ["x", "y"], "b": [True, False]})
    assert str(Hyperparameter("x", (-0.0, 1)).values) == "(0.0, 1.0)"


def test_true_is_not_one():
    both = Hyperparameter("x", (True, 1, "1.0"), kind="categorical")
    assert [both.code(v) for v in (True, 1, "1.0")] == [0.0, 1.0, 2.0]
    with pytest.raises(InputError, match=r"x is False, which is not one of \[True, 1, '1\.0'\]\."):
        both.code(False)
    with pytest.raises(InputError, match="tied is 1, which is not one of"):
        TIED.code(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": "sdg"}, "unknown value of rule 'sdg'. Did you mean 'sgd'?"),
        ({"rate": 0.3}, "rate is 0.3, which is not one of [0.1, 0.2, 0.4]."),
        ({"rate": "fast"}, "rate is 'fast', which is not one of [0.1, 0.2, 0.4]."),
        ({"rate": True}, "rate is True, which is not one of"),
        ({"rate": [0.1]}, "rate is [0.1], which is not one of"),
        ({"rate": None}, "hyperparameter 'rate' is always active: give it a value."),
        ({"raet": 1}, "unknown hyperparameter 'raet'. Did you mean 'rate'?"),
        ({"decay": None, "extra": None}, "decay has no value, but it is active if rule is rms or adam."),
        ({"extra": None}, "extra has no value, but it is active if decay is 0.5 or 0.9."),
        ({"rule": "sgd"}, "decay has a value, but it is only active if rule is rms or adam: leave it out."),
    ],
)
def test_a_wrong_configuration_is_explained(change, message):
    with pytest.raises(InputError) as error:
        MIXED.encode({**FULL, **change})
    assert message in str(error.value)


@pytest.mark.parametrize("config", [None, 5, "size", ["size"]])
def test_what_is_no_mapping_is_no_configuration(config):
    with pytest.raises(InputError, match="a configuration must be values by name, such as"):
        MIXED.encode(config)


def test_a_missing_hyperparameter_is_named():
    with pytest.raises(InputError, match="the configuration lacks the hyperparameter 'size'"):
        MIXED.encode({name: value for name, value in FULL.items() if name != "size"})


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((), "at least one hyperparameter"),
        ((RATE, RATE), "two hyperparameters 'rate'"),
        ((RATE, DECAY), "unknown hyperparameter 'rule'. Did you mean 'rate'? (active_if of 'decay')"),
        ((RULE, Hyperparameter("x", (1, 2), active_if=(("rule", ()),))), "rule needs at least one value"),
        ((RULE, Hyperparameter("x", (1, 2), active_if=(("rule", ("add",)),))), "unknown value of rule 'add'"),
        (
            (Hyperparameter("x", (1, 2), active_if=(("x", (1,)),)),),
            "of 'x': the condition depends on itself",
        ),
        (
            (
                RULE,
                Hyperparameter("x", (1, 2), active_if=(("y", (1,)),)),
                Hyperparameter("y", (1, 2), active_if=(("x", (1,)),)),
            ),
            "of 'x': the condition depends on itself",
        ),
    ],
)
def test_a_wrong_space_is_explained(axes, message):
    with pytest.raises(InputError) as error:
        Space(axes)
    assert message in str(error.value)


def test_a_condition_may_stand_before_what_it_depends_on():
    space = Space((EXTRA, DECAY, RULE))
    codes = space.encode({"rule": "rms", "decay": 0.9, "extra": "a"})
    assert space.active(codes[None]).all()
    assert space.decode(space.encode({"rule": "sgd"})) == {"rule": "sgd"}


def test_a_short_description_of_a_space():
    space = Space.of(
        {
            "layers": [4, 1, 2],
            "rule": ["sgd", "rms", "adam"],
            "tied": [True, False],
            "rate": (1e-4, 1e-1, "log"),
            "size": (16, 64),
            "share": (0, 1.0),
            "decay": DECAY,
        }
    )
    assert [h.kind for h in space] == ["numeric", "categorical", "categorical"] + ["numeric"] * 4
    assert space["layers"].values == (1.0, 2.0, 4.0)
    assert space["rate"].scale == "log" and space["rate"].continuous and not space["rate"].whole
    assert space["size"].whole and space["size"].continuous and not space["share"].whole
    assert space["decay"] == DECAY and "decay" in space and "nothing" not in space and len(space) == 7
    assert space.encode(
        {"layers": 2, "rule": "sgd", "tied": True, "rate": 0.05, "size": 20, "share": 0.3}
    ).shape == (7,)
    with pytest.raises(InputError, match=r"a search space must be a Space, or .*, not \['x'\]\."):
        Space.of(["x"])
    for wrong in ("adam", (1, 2, 3), (1,), {1, 2}, None, []):
        with pytest.raises(InputError, match="hyperparameter 'x'"):
            Space.of({"x": wrong})


@pytest.mark.parametrize(
    ("axis", "given", "scale"),
    [
        ([1, 10, 100, "log"], "log", "log"),
        ((1, 10, 100, "log"), "log", "log"),
        (["Log10", 0.1, 0.001], "Log10", "log"),
        ([1, 8, "uniform"], "uniform", "linear"),
        ([10**400, 1, "log"], "log", "log"),
        ([*np.logspace(-4, -1, 40), "log"], "log", "log"),
    ],
)
def test_a_scale_beside_numbers_is_no_category(axis, given, scale):
    with pytest.raises(InputError) as error:
        Space.of({"x": axis})
    assert str(error.value) == (
        f"hyperparameter 'x' lists {given!r} beside numbers. A range on a scale is (low, high, {scale!r}), a "
        f"grid hb.Hyperparameter('x', (1, 10, 100), {scale!r}), and if {given!r} is one of several labels, "
        "hb.Hyperparameter('x', values, kind='categorical')."
    )


def test_what_an_error_says_to_write_is_what_was_meant():
    grid = Space.of({"x": Hyperparameter("x", (1, 10, 100), "log")})["x"]
    assert grid.scaled(np.array([10.0])) == pytest.approx(0.5) and not grid.continuous
    labels = Space.of({"x": Hyperparameter("x", (1, 10, "log"), kind="categorical")})["x"]
    assert labels.kind == "categorical"


class Unspeakable:
    def __str__(self):
        raise RuntimeError("no text")


def test_labels_among_numbers_are_categories():
    for labels in (
        ["log", "linear"],
        [1, "auto", "log"],
        [1, 10, "none"],
        [0.3, 0.5, "log2"],
        ["linear", 1],
        [1, "log", 10],
        ["log", 1, 2, "linear"],
    ):
        assert Space.of({"x": labels})["x"].kind == "categorical"
    with pytest.raises(InputError, match="hyperparameter 'x'"):
        Space.of({"x": [1, 2, Unspeakable()]})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_rows_are_found_by_configuration(seed):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.choice(h.numbers, 40) for h in MIXED])
    codes[~MIXED.active(codes)] = np.nan
    codes[~MIXED.active(codes)] = np.nan  # what depends on an inactive one
    codes = codes[sorted({config_key(line): row for row, line in enumerate(codes)}.values())]
    index = row_index(codes)
    assert MIXED.wrongly_active(codes) is None
    for row, line in enumerate(codes):
        config = MIXED.decode(line)
        shuffled = dict(rng.permutation(np.array(list(config.items()), dtype=object)).tolist())
        assert index[config_key(MIXED.encode(shuffled))] == row
    assert config_key(np.array([0.0, np.nan])) == config_key(np.array([-0.0, -np.nan]))


def test_what_depends_on_an_inactive_one_is_inactive_whatever_stands_first():
    for space in (MIXED, Space((EXTRA, DECAY, RULE))):
        named = dict.fromkeys(MIXED.names, 0.0) | {"rule": 0.0, "decay": 0.5, "extra": 1.0}
        codes = np.array([[named[name] for name in space.names]])
        active = dict(zip(space.names, space.active(codes)[0].tolist(), strict=True))
        assert (
            not active["decay"] and not active["extra"]
        )  # decay has a value that extra needs, but no right to it
        assert active["rule"]


def test_the_first_wrong_configuration_of_several_is_named():
    codes = MIXED.encode_all([PLAIN, FULL, FULL])
    codes[1, MIXED.names.index("decay")] = np.nan
    codes[2, MIXED.names.index("extra")] = np.nan
    assert MIXED.wrongly_active(codes) == (1, "decay has no value, but it is active if rule is rms or adam.")


def test_hyperparameters_by_name_by_position_and_themselves():
    assert MIXED["size"] is ORDERED and MIXED[1] is RULE and MIXED[-1] is EXTRA and next(iter(MIXED)) is RATE
    assert RATE in MIXED and "rate" in MIXED
    assert Hyperparameter("rate", (0.1,)) not in MIXED
    with pytest.raises(InputError, match="unknown hyperparameter 'sise'"):
        MIXED["sise"]
    assert MIXED.encode_all([]).shape == (0, 6)


def test_of_equal_rows_the_first_is_found():
    codes = np.array([[1.0, np.nan], [2.0, 0.0], [1.0, np.nan], [2.0, -0.0]])
    assert row_index(codes) == {config_key(codes[0]): 0, config_key(codes[1]): 1}
    assert (
        len(row_index(np.array([[0.0], [1e-300], [2e-300], [1e-20], [1.0], [np.nextafter(1.0, 2.0)]]))) == 6
    )


def test_two_conditions_in_words():
    both = Hyperparameter(
        "x", (1, 2), active_if=(("rule", ("rms", "adam")), ("tied", (True,)), ("k", (0.5,)))
    )
    assert both.condition == "rule is rms or adam and tied is true and k is 0.5"
    assert RATE.condition == ""


def test_places_and_columns_of_values_and_of_what_is_inactive():
    codes = np.array([2.0, np.nan, 0.0])
    assert RULE.places(codes).tolist() == [2, 3, 0]
    assert RULE.column(codes).tolist() == ["adam", None, "sgd"]
    assert RATE.places(np.array([0.4, np.nan, 0.1])).tolist() == [2, 3, 0]
    assert RATE.column(codes) is codes
    assert ORDERED.numbers == (0.0, 1.0, 2.0) and ORDERED.ends == (0.0, 2.0) and not ORDERED.whole


def test_a_range_with_its_scale_named():
    assert Space.of({"x": (1, 8, "linear")})["x"] == Hyperparameter(
        "x", (1, 8), integer=True, continuous=True
    )
    assert Space.of({"x": (1.0, 8.0, "log")})["x"].scale == "log"
    with pytest.raises(InputError) as error:
        Space.of({"x": {"a" * 99}})
    assert str(error.value).endswith(f"or a Hyperparameter, not {{'{'a' * 78}.")
