"""Spaces for ConfigSpace and Optuna, and from them, with the real libraries."""

import math

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.space_exchange import suggested_by_optuna, to_optuna
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.optimizer import Optimizer

SPACE = Space(
    (
        Hyperparameter("rate", (1e-4, 3e-4, 1e-3), "log"),
        Hyperparameter("layers", (1, 2, 3)),
        Hyperparameter("only", (7,)),
        Hyperparameter("size", ("small", "medium", "large"), kind="ordinal"),
        Hyperparameter("rule", ("sgd", "rms", "adam"), kind="categorical"),
        Hyperparameter("tied", (False, True), kind="categorical"),
        Hyperparameter("decay", (0.0, 0.5), active_if=(("rule", ("rms", "adam")), ("tied", (True,)))),
        Hyperparameter("extra", ("a", "b"), kind="categorical", active_if=(("decay", (0.5,)),)),
    )
)
RANGES = Space.of(
    {"rate": (1e-4, 1e-1, "log"), "size": (16, 64), "share": (0.0, 1.0), "wide": (1, 100, "log")}
)


def test_every_configuration_that_configspace_draws_is_one_of_ours():
    pytest.importorskip("ConfigSpace")
    drawn = [dict(config) for config in SPACE.to_configspace(seed=0).sample_configuration(200)]
    codes = SPACE.encode_all(drawn)
    assert SPACE.wrongly_active(codes) is None
    assert [SPACE.decode(line) for line in codes] == [
        {name: c[name] for name in SPACE.names if name in c} for c in drawn
    ]
    for j, h in enumerate(SPACE):  # every value is drawn, and inactive where there is a condition
        assert set(codes[:, j][codes[:, j] == codes[:, j]]) == set(h.numbers)
        assert any(map(math.isnan, codes[:, j])) == bool(h.active_if)


def test_configspace_and_back():
    pytest.importorskip("ConfigSpace")
    back = Space.from_configspace(SPACE.to_configspace())
    assert back.names == SPACE.names  # ConfigSpace sorts them by name
    for h in SPACE:
        there = back[h.name]
        assert dict(there.active_if).keys() == dict(h.active_if).keys()
        assert {p: set(v) for p, v in there.active_if} == {p: set(v) for p, v in h.active_if}
        if h.name == "only":
            assert there.labels == ("7",)  # a constant
        else:
            assert (there.kind, there.values, there.scale) == (h.kind, h.values, h.scale)
    ranges = Space.from_configspace(RANGES.to_configspace())
    assert {h.name: h for h in ranges} == {h.name: h for h in RANGES}


def test_what_configspace_has_and_we_have_not():
    cs = pytest.importorskip("ConfigSpace")
    space = cs.ConfigurationSpace({"a": (1, 5), "b": (0.0, 1.0), "c": (0.0, 1.0)})
    space.add(cs.GreaterThanCondition(space["b"], space["c"], 0.5))
    with pytest.raises(InputError, match=r"the condition b \| c > 0.5 cannot be expressed here"):
        Space.from_configspace(space)
    space = cs.ConfigurationSpace({"a": (1, 5), "b": ["x", "y"]})
    space.add(cs.OrConjunction(*(cs.EqualsCondition(space["a"], space["b"], v) for v in "xy")))
    with pytest.raises(InputError, match=r"the condition .* cannot be expressed here"):
        Space.from_configspace(space)
    space = cs.ConfigurationSpace({"a": (1, 5)})
    space.add(cs.ForbiddenEqualsClause(space["a"], 4))
    with pytest.raises(InputError, match="a forbidden clause cannot be expressed here: Forbidden: a == 4"):
        Space.from_configspace(space)
    space = cs.ConfigurationSpace({"a": [1, 2], "b": [1, 2]})
    both = [cs.ForbiddenEqualsClause(space[name], 2) for name in "ab"]
    space.add(cs.ForbiddenAndConjunction(*both))
    with pytest.raises(InputError, match=r"a forbidden clause cannot be expressed here: .*a == 2.*b == 2"):
        Space.from_configspace(space)


def test_forbidden_values_of_a_list_are_left_out():
    cs = pytest.importorskip("ConfigSpace")
    space = cs.ConfigurationSpace({"a": [1, 2, 3, 4], "b": ["x", "y"]})
    space.add(cs.ForbiddenInClause(space["a"], [2, 4]), cs.ForbiddenEqualsClause(space["b"], "y"))
    assert {h.name: h.values for h in Space.of(space)} == {"a": (1, 3), "b": ("x",)}


def test_conditions_that_compare_are_those_of_the_values_for_which_they_hold():
    cs = pytest.importorskip("ConfigSpace")
    space = cs.ConfigurationSpace({"n": (1, 9), "kind": ["a", "b", "c"], "u": (0.0, 1.0), "v": (0.0, 1.0)})
    size = cs.OrdinalHyperparameter("size", ["s", "m", "l"])
    space.add(size)
    space.add(
        cs.AndConjunction(
            cs.GreaterThanCondition(space["u"], space["n"], 3),
            cs.LessThanCondition(space["u"], space["n"], 6),
        ),
        cs.AndConjunction(
            cs.NotEqualsCondition(space["v"], space["kind"], "b"),
            cs.GreaterThanCondition(space["v"], size, "s"),
        ),
    )
    ours = Space.of(space)
    assert ours["u"].active_if == (("n", (4, 5, 6, 7, 8, 9)), ("n", (1, 2, 3, 4, 5)))
    assert ours["v"].active_if == (("kind", ("a", "c")), ("size", ("m", "l")))
    drawn = [dict(config) for config in space.sample_configuration(200)]
    assert ours.wrongly_active(ours.encode_all(drawn)) is None
    assert 5 < sum("u" in config for config in drawn) < 150


def test_a_space_of_configspace_or_optuna_is_taken_as_it_is():
    cs, optuna = pytest.importorskip("ConfigSpace"), pytest.importorskip("optuna")
    found = hb.minimize(
        lambda config: config["x"] + config["k"],
        cs.ConfigurationSpace({"x": (0.0, 1.0), "k": [2, 4]}),
        budget=4,
    )
    assert found.space.names == ("k", "x") and len(found.configs) == 4
    rate = optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True)
    assert Space.of({"rate": rate, "k": [1, 2]}) == Space.of({"rate": (1e-4, 1e-1, "log"), "k": [1, 2]})
    assert Space.of(SPACE.to_optuna()) == SPACE


def test_normal_and_beta_distributions_of_configspace_are_priors():
    cs = pytest.importorskip("ConfigSpace")
    space = cs.ConfigurationSpace(
        {
            "normal": cs.Float("normal", (0.0, 1.0), distribution=cs.Normal(0.5, 0.1)),
            "beta": cs.Float("beta", (1e-4, 1.0), distribution=cs.Beta(3, 3), log=True),
            "whole": cs.Integer("whole", (1, 100), distribution=cs.Normal(40, 10)),
            "flat": (0.0, 1.0),
        }
    )
    prior = Optimizer(space, "piBO_M_std").state.prior
    assert prior.keys() == {"normal", "beta", "whole"}
    assert prior["normal"] == pytest.approx((0.5 - 0.128, 0.5 + 0.128), abs=0.01)
    assert prior["whole"] == pytest.approx((27, 53), abs=1)
    # the central 80% of Beta(3, 3), which is symmetric, on the log scale: from 0.2466 to 0.7534
    assert np.log10(prior["beta"]) == pytest.approx((4 * 0.2466 - 4, 4 * 0.7534 - 4), abs=0.06)
    assert Optimizer(space, "piBO_M_std", prior={"beta": 0.5}).state.prior == prior | {"beta": 0.5}
    assert Space.of(space)["whole"] == Hyperparameter("whole", (1, 100), integer=True, continuous=True)


def test_every_configuration_that_optuna_draws_is_one_of_ours():
    optuna = pytest.importorskip("optuna")
    flat = Space(tuple(h for h in SPACE if not h.active_if))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [study.ask(flat.to_optuna()).params for _ in range(100)]
    codes = flat.encode_all(drawn)
    assert [flat.decode(line) for line in codes] == drawn
    assert isinstance(drawn[0]["layers"], int) and isinstance(drawn[0]["tied"], bool)
    for j, h in enumerate(flat):
        assert set(codes[:, j]) == set(h.numbers)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for params in (study.ask(RANGES.to_optuna()).params for _ in range(50)):
        assert RANGES.decode(RANGES.encode(params)) == params


def test_optuna_and_back():
    optuna = pytest.importorskip("optuna")
    assert Space.from_optuna(RANGES.to_optuna()) == RANGES
    back = Space.from_optuna(SPACE.to_optuna())
    assert back["layers"].ends == (1.0, 3.0) and back["layers"].whole
    assert back["rule"] == SPACE["rule"] and back["tied"] == SPACE["tied"]
    stepped = {"x": optuna.distributions.FloatDistribution(0.1, 0.5, step=0.2)}
    assert Space.from_optuna(stepped)["x"].values == pytest.approx((0.1, 0.3, 0.5))


def test_a_missing_library_is_one_line_with_the_command(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ConfigSpace", None)
    monkeypatch.setitem(sys.modules, "optuna", None)
    for call, extra in ((SPACE.to_configspace, "smac"), (SPACE.to_optuna, "optuna")):
        with pytest.raises(InputError, match=rf"is not installed: pip install 'hpobench-nmt\[{extra}\]'\."):
            call()


def test_a_condition_on_true_does_not_hold_for_1():
    optuna = pytest.importorskip("optuna")
    axes = (
        Hyperparameter("parent", (1, True, "x"), kind="categorical"),
        Hyperparameter("child", (1, 2, 3), active_if=(("parent", (True,)),)),
    )
    distributions = to_optuna(axes)
    for parent in axes[0].values:
        trial = optuna.trial.FixedTrial({"parent": parent, "child": 2})
        config = suggested_by_optuna(trial, axes, distributions)
        assert ("child" in config) == (config["parent"] is True)
        Space(axes).encode(config)


def test_the_seed_is_that_of_what_configspace_draws():
    pytest.importorskip("ConfigSpace")
    first, again, other = (
        [dict(config) for config in SPACE.to_configspace(seed).sample_configuration(9)] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_what_configspace_calls_ordinal_constant_or_equal():
    cs = pytest.importorskip("ConfigSpace")
    space = cs.ConfigurationSpace()
    ups, downs, words = (
        cs.OrdinalHyperparameter(name, sequence)
        for name, sequence in (("ups", [1, 2, 4]), ("downs", [4, 2, 1]), ("words", ["s", "m", "l"]))
    )
    rule, flags = (
        cs.CategoricalHyperparameter(name, v) for name, v in (("rule", ["a", "b"]), ("flags", [1, 0]))
    )
    space.add(ups, downs, words, rule, flags, cs.Constant("fixed", 0.5), cs.Float("child", (0.0, 1.0)))
    space.add(cs.EqualsCondition(space["child"], rule, "b"))
    ours = Space.from_configspace(space)
    assert (ours["ups"].kind, ours["ups"].values) == ("numeric", (1.0, 2.0, 4.0))
    assert (ours["downs"].kind, ours["downs"].values) == ("ordinal", (4, 2, 1))
    assert (ours["words"].kind, ours["words"].values) == ("ordinal", ("s", "m", "l"))
    assert (ours["flags"].kind, ours["flags"].values) == ("categorical", (1, 0))
    assert (ours["fixed"].kind, ours["fixed"].values) == ("categorical", (0.5,))
    assert ours["child"].active_if == (("rule", ("b",)),) and ours["child"].continuous


def test_steps_and_logarithms_for_optuna_and_from_it():
    optuna = pytest.importorskip("optuna")
    known = optuna.distributions
    space = Space(
        (
            Hyperparameter("even", (2, 6, 10)),
            Hyperparameter("uneven", (1, 2, 4)),
            Hyperparameter("log", (1, 2, 3), "log"),
            Hyperparameter("halves", (0.5, 1.0, 1.5)),
            Hyperparameter("one", (3,)),
        )
    )
    there = space.to_optuna()
    assert there["even"] == known.IntDistribution(2, 10, step=4)
    assert there["uneven"] == known.CategoricalDistribution([1, 2, 4])
    assert there["log"] == known.CategoricalDistribution([1, 2, 3])
    assert there["halves"] == known.CategoricalDistribution([0.5, 1.0, 1.5])
    assert there["one"] == known.CategoricalDistribution([3])
    back = Space.from_optuna(
        {
            "even": there["even"],
            "log": known.IntDistribution(1, 64, log=True),
            "whole": known.IntDistribution(3, 3),
            "single": known.FloatDistribution(0.5, 0.5),
            "tenths": known.FloatDistribution(0.0, 0.3, step=0.1),
            "ones": known.FloatDistribution(0.0, 2.0, step=1.0),
        }
    )
    assert back["even"] == Hyperparameter("even", (2, 6, 10), integer=True)
    assert back["log"] == Hyperparameter("log", (1, 64), "log", integer=True, continuous=True)
    assert back["whole"] == Hyperparameter("whole", (3,), integer=True)
    assert back["single"] == Hyperparameter("single", (0.5,), integer=False)
    assert back["tenths"].values == pytest.approx((0.0, 0.1, 0.2, 0.3)) and not back["tenths"].continuous
    assert back["ones"] == Hyperparameter("ones", (0, 1, 2), integer=False)
    with pytest.raises(InputError, match=r"x: a str cannot be expressed here\."):
        Space.from_optuna({"x": "normal"})


def test_a_step_of_optuna_that_makes_a_grid_without_limit_is_refused():
    optuna = pytest.importorskip("optuna", reason="needs: pip install 'hpobench-nmt[optuna]'")
    steps = optuna.distributions.IntDistribution(0, 2_000_000_000, step=2)
    with pytest.raises(InputError, match="a: 1,000,000,001 steps are too many; at most 100,000 are allowed"):
        Space.from_optuna({"a": steps})
    assert (
        len(Space.from_optuna({"a": optuna.distributions.IntDistribution(2, 200_000, step=2)})["a"].values)
        == 100_000
    )


LOG = Space(
    (
        Hyperparameter("rate", (0.0003, 0.0006, 0.001), "log", "per step"),
        Hyperparameter("size", ("s", "m", "l"), kind="ordinal"),
        Hyperparameter("width", (256, 512, 1024), "log", active_if=(("size", ("m", "l")),)),
        Hyperparameter("one", (3,), "log"),
    )
)


def test_scales_and_order_survive_configspace_and_its_files(tmp_path):
    cs = pytest.importorskip("ConfigSpace")
    there = LOG.to_configspace()
    assert {h.name: h for h in Space.from_configspace(there)} == {h.name: h for h in LOG}
    there.to_json(tmp_path / "space.json")
    read = Space.from_configspace(cs.ConfigurationSpace.from_json(tmp_path / "space.json"))
    assert {h.name: h for h in read} == {h.name: h for h in LOG}
    assert read["rate"].features(np.array([6e-4]))[0, 0] == pytest.approx(0.576, abs=5e-4)


def test_meta_of_others_is_not_trusted():
    cs = pytest.importorskip("ConfigSpace")
    for meta in (
        {"hpobench-nmt": {"kind": "numeric", "scale": "cubic"}},
        {"hpobench-nmt": 3},
        {"hpobench-nmt": {}},
    ):
        space = cs.ConfigurationSpace()
        space.add(cs.OrdinalHyperparameter("x", [1, 10, 100], meta=meta))
        assert Space.from_configspace(space)["x"] == Hyperparameter("x", (1, 10, 100), "log")  # by its ratios


def test_scales_and_order_survive_optuna():
    pytest.importorskip("optuna")
    given = LOG.to_optuna()
    assert Space.from_optuna(given) == LOG
    changed = LOG.to_optuna()
    changed["rate"] = changed["width"]
    assert Space.from_optuna(changed)["rate"].values == (256.0, 512.0, 1024.0)
    back = Space.from_optuna(dict(given))  # a copy knows values alone
    assert (back["width"].kind, back["width"].scale) == ("numeric", "log")
    assert back["size"].kind == "categorical"


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ((1, 10, 100), "log"),
        ((32, 64, 128, 256), "log"),
        ((1, 2, 3, 4), "linear"),
        ((1, 2), "linear"),
        ((0, 1, 10), "linear"),
        ((0.1, 0.2, 0.3), "linear"),
    ],
)
def test_the_scale_of_numbers_is_inferred(values, scale):
    optuna = pytest.importorskip("optuna")
    axis = Space.from_optuna({"x": optuna.distributions.CategoricalDistribution(values)})["x"]
    assert (axis.kind, axis.scale, axis.values) == ("numeric", scale, tuple(map(float, values)))
