"""Optimizers in continuous spaces, where new candidates are drawn at every step; batches; recommendations."""

import json
import math

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports import live_method
from hpobench_nmt.exports.optimizer import Optimizer
from hpobench_nmt.methods.auto import AutoBO

CONTINUOUS = {"x": (0.0, 1.0), "lr": (1e-4, 1.0, "log"), "n": (1, 1000), "rule": ["a", "b"]}


def far(config):
    """The distance to a point that no configuration drawn at random comes near."""
    distances = abs(config["x"] - 0.123), abs(math.log10(config["lr"]) + 2) / 4, abs(config["n"] - 77) / 1000
    return sum(d * d for d in distances) + (config["rule"] == "b")


def test_in_a_continuous_space_new_candidates_are_drawn_near_the_best():
    found = [hb.minimize(far, CONTINUOUS, budget=40, seed=seed).loss for seed in range(3)]
    fixed = [hb.minimize(far, CONTINUOUS, "BO_EI_M_std", budget=40, seed=seed).loss for seed in range(3)]
    assert max(found) < min(fixed) / 5 and max(found) < 1e-4


def test_answers_are_refined(monkeypatch):
    """In ten dimensions, no draw is near the best point."""
    space = {f"x{j}": (0.0, 1.0) for j in range(10)}
    centre = np.linspace(0.2, 0.8, 10)

    def bowl(config):
        return float(((np.array(list(config.values())) - centre) ** 2).sum())

    refined = [hb.minimize(bowl, space, budget=25, seed=seed).loss for seed in range(4)]
    monkeypatch.setattr(live_method, "REFINEMENTS", 0)
    drawn = [hb.minimize(bowl, space, budget=25, seed=seed).loss for seed in range(4)]
    assert np.mean(refined) < np.mean(drawn) / 1.5


def test_new_candidates_depend_on_what_was_told_and_on_nothing_else(tmp_path):
    """An optimizer that is loaded, also with evaluations pending, asks for the same."""
    optimizer = Optimizer(CONTINUOUS, seed=3, candidates=50)
    for k in range(12):
        config = optimizer.ask()
        if k % 4:
            optimizer.tell(config, far(config))
        optimizer.save(tmp_path / "state.json")
        again = Optimizer.load(tmp_path / "state.json")
        assert again.ask() == Optimizer.load(tmp_path / "state.json").ask()
    assert len(optimizer.pending) == 3
    assert again.told[-1][0] == optimizer.told[-1][0]


class Told(AutoBO):
    """BO_auto that counts what it was told."""

    most = 0

    def tell(self, index, losses):
        super().tell(index, losses)
        Told.most = max(Told.most, len(self._posterior.seen))


@pytest.fixture
def forgetful(monkeypatch):
    """A method knows 12 to 15 evaluations of a longer search."""
    monkeypatch.setattr(live_method, "MODELLED", 16)
    monkeypatch.setattr(live_method, "FORGOTTEN", 4)
    Told.most = 0


@pytest.mark.usefixtures("forgetful")
def test_a_search_with_forgotten_evaluations_resumes_and_asks_for_none_of_them_again(tmp_path):
    optimizer = Optimizer(CONTINUOUS, seed=1, candidates=30)
    for k in range(45):
        config = optimizer.ask()
        if k in {16, 17, 30, 40}:
            assert Optimizer.load(tmp_path / "state.json").ask() == config
        optimizer.tell(config, None if k % 9 == 5 else far(config))
        optimizer.save(tmp_path / "state.json")
    assert len({str(config) for config, _ in optimizer.evaluations}) == 45
    losses = [float(loss[0]) for _, loss in optimizer.told]
    assert far(optimizer.recommend()) < 2 * np.nanmin(losses) < 0.02
    assert set(optimizer.importance()) == set(CONTINUOUS)


@pytest.mark.usefixtures("forgetful")
def test_the_best_are_not_forgotten():
    optimizer = Optimizer(CONTINUOUS, Told, seed=2, candidates=30)
    for _ in range(42):
        config = optimizer.ask()
        optimizer.tell(config, far(config))
    optimizer.ask()
    live, losses = optimizer._live, [float(loss[0]) for _, loss in optimizer.told]
    numbers = list(optimizer._known.losses)
    known = [number in live.numbers for number in numbers]
    assert sum(known) == 14 and all(known[40:]) and Told.most == 15
    assert known[int(np.argmin(losses))]
    gaps = np.diff([k for k, kept in enumerate(known) if kept])
    assert gaps.max() <= 12  # the others are from the whole search


class First:
    """It asks for the first candidate that it was not told."""

    def __init__(self, problem, rng):
        self.told = set()

    def renew(self, problem):
        self.left = [row for row in range(len(problem.configs)) if row not in self.told]

    def ask(self):
        return self.left[0]

    def tell(self, index, losses):
        self.told.add(index)
        self.left.remove(index)


@pytest.mark.usefixtures("forgetful")
def test_the_candidates_of_the_start_keep_their_numbers_when_evaluations_are_forgotten():
    optimizer = Optimizer(CONTINUOUS, First, n_initial=0, candidates=30)
    for k in range(28):
        config = optimizer.ask()
        assert config == optimizer._candidates.config(k)
        optimizer.tell(config, far(config))


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("extra", [{"constraints": ["size<=0"]}, {"objectives": 2}])
def test_a_search_with_constraints_or_two_losses_goes_on_after_evaluations_are_forgotten(extra):
    def value(c):
        return (c["x"], {"size": 0.5 - c["x"]}) if "constraints" in extra else (c["x"], 1 - c["x"])

    found = hb.minimize(value, CONTINUOUS, budget=50, candidates=30, **extra)
    assert len(found.configs) == 50
    if "constraints" in extra:
        assert 0.5 <= found.best["x"] < 0.505
    else:
        assert len(found.front) == 50


def test_a_recommendation_draws_nothing_and_changes_nothing():
    """It is among what was told, adopted candidates as well, and the next question has the same answer."""
    asked, plain = (Optimizer(CONTINUOUS, seed=5, candidates=50) for _ in range(2))
    for _ in range(12):
        config = asked.ask()
        assert plain.ask() == config
        for optimizer in (asked, plain):
            optimizer.tell(config, far(config))
        before = asked._live.problem
        assert asked.recommend() in [told for told, _ in asked.told]
        assert set(asked.importance()) == set(CONTINUOUS)
        # That of the last question, or of all that are numbered by now.
        assert asked._live.problem is before or len(asked._live.problem.configs) == asked.n_candidates
    losses = {tuple(config.items()): losses[0] for config, losses in asked.told}
    assert losses[tuple(asked.recommend().items())] < np.median(list(losses.values()))
    assert asked.n_candidates > 50 and asked.ask() == plain.ask()


def test_more_evaluations_than_candidates_in_a_continuous_space():
    found = hb.minimize(far, CONTINUOUS, budget=30, candidates=8)
    assert len({tuple(config.items()) for config in found.configs}) == 30


def test_new_candidates_under_constraints_and_for_two_losses():
    found = hb.minimize(
        lambda c: (c["x"], {"size": 0.5 - c["x"]}), CONTINUOUS, budget=25, constraints=["size<=0"]
    )
    assert 0.5 <= found.best["x"] < 0.51
    two = hb.minimize(lambda c: (c["x"], 1 - c["x"]), CONTINUOUS, budget=12, objectives=2, candidates=40)
    assert len(two.front) == 12


def test_conditional_and_whole_hyperparameters_stay_in_the_space():
    space = Space(
        (
            Hyperparameter("kind", ("a", "b"), kind="categorical"),
            Hyperparameter("rate", (0.001, 1.0), scale="log", continuous=True),
            Hyperparameter("size", (1, 10**6), continuous=True, integer=True, active_if=(("kind", ("b",)),)),
        )
    )
    asked = []
    hb.minimize(lambda c: asked.append(c) or c["rate"], space, budget=30)
    for config in asked:
        assert ("size" in config) == (config["kind"] == "b") and 0.001 <= config["rate"] <= 1
        assert config.get("size", 1) == int(config.get("size", 1)) and 1 <= config.get("size", 1) <= 10**6
        space.encode(config)


def test_a_batch_is_asked_for_at_once():
    optimizer = Optimizer(CONTINUOUS, candidates=60)
    batch = optimizer.ask(5)
    assert optimizer.pending == batch and len({str(config) for config in batch}) == 5
    with pytest.raises(InputError, match="n must be a whole number"):
        optimizer.ask(0)


def test_what_is_recommended_is_not_the_luckiest():
    """Of a quadratic with much noise, whose second hyperparameter does nothing."""
    rng = np.random.default_rng(0)
    true = lambda c: (c["x"] - 5) ** 2 / 25  # noqa: E731
    recommended = luckiest = 0.0
    for seed in range(10):
        optimizer = Optimizer({"x": list(range(11)), "y": list(range(20))}, seed=seed)
        for _ in range(40):
            config = optimizer.ask()
            optimizer.tell(config, true(config) + 0.3 * rng.standard_normal())
        recommended += true(optimizer.recommend())
        luckiest += true(min(optimizer.told, key=lambda pair: pair[1][0])[0])
    assert recommended < 0.6 * luckiest


def test_recommended_is_what_keeps_the_constraints_and_nothing_where_none_does():
    optimizer = Optimizer({"x": list(range(30))}, "RS", constraints=["size<=3"])
    with pytest.raises(InputError, match="no configuration with a loss and satisfies all"):
        optimizer.recommend()
    for x, loss in ((1, 5.0), (2, 1.0), (9, 0.0), (3, None)):
        optimizer.tell({"x": x}, loss, {"size": x})
    assert optimizer.recommend() == {"x": 2}
    with pytest.raises(InputError, match=r"no configuration with a loss is known yet\.$"):
        Optimizer({"x": [1, 2]}, "RS").recommend()
    with pytest.raises(InputError, match="Pareto front"):
        Optimizer({"x": [1, 2]}, objectives=2).recommend()


@pytest.mark.parametrize(("objectives", "method"), [(1, "BO_EI_M_std"), (2, "BO_M_std"), (3, "ParEGO_M")])
def test_a_state_of_version_1_continues_with_the_method_that_it_began_with(objectives, method, tmp_path):
    value = lambda c: [c["x"]] * objectives if objectives > 1 else c["x"]  # noqa: E731
    call = {"objectives": objectives, "state": tmp_path / "state.json"}
    hb.minimize(value, {"x": list(range(30))}, method, budget=5, **call)
    hb.minimize(value, {"x": list(range(30))}, budget=7, **call)
    assert json.loads((tmp_path / "state.json").read_text())["method"] == method
    with pytest.raises(InputError, match="is of the method"):
        hb.minimize(value, {"x": list(range(30))}, "RS", budget=8, **call)
