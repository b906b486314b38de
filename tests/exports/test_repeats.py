import json

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.recommended import recommendation
from hpobench_nmt.methods.replicates import MODELLED, informative

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def bowl(config):
    return (config["x"] - 0.3) ** 2 + (config["y"] - 0.6) ** 2


class Noisy:
    """A bowl with noise that depends on the configuration and the seed; it remembers its calls."""

    def __init__(self, sd=0.05):
        self.sd, self.calls = sd, []

    def __call__(self, config, seed):
        self.calls.append((tuple(config.values()), seed))
        rng = np.random.default_rng([seed, *np.array(list(config.values())).view(np.uint32)])
        return bowl(config) + self.sd * rng.standard_normal()


def search(optimizer, loss, n):
    for _ in range(n):
        config = optimizer.ask()
        optimizer.tell(config, loss(config, seed=optimizer.count(config)))
    return optimizer


@pytest.mark.parametrize("method", [None, "RS", "BO_EI_M_std"])
def test_at_most_15_percent_are_repeats_each_with_another_seed(method):
    loss = Noisy()
    optimizer = search(hb.Optimizer(SPACE, method, repeats="auto", candidates=200), loss, 40)
    again = len(optimizer.evaluations) - len(optimizer.told)
    assert 1 <= again <= 6
    assert len(set(loss.calls)) == 40 and sum(seed > 0 for _, seed in loss.calls) == again
    own = {}
    for config, losses in optimizer.evaluations:
        own.setdefault(tuple(config.values()), []).append(losses[0])
    for config, losses in optimizer.told:
        assert losses[0] == pytest.approx(np.mean(own[tuple(config.values())]))


def test_a_deterministic_function_is_evaluated_twice_once():
    found = hb.minimize(bowl, SPACE, budget=30, repeats="auto")
    plain = hb.minimize(bowl, SPACE, budget=29)
    assert [*map(str, dict.fromkeys(map(str, found.configs)))] == [*map(str, plain.configs)]
    assert "looks deterministic" in str(found.recommended)
    assert found.recommended.config == found.best and found.recommended.noise == 0


def test_a_search_with_repeats_resumes(tmp_path):
    path, loss = tmp_path / "state.json", Noisy()
    whole = search(hb.Optimizer(SPACE, repeats="auto", candidates=200, start={"x": 0.5, "y": 0.5}), loss, 25)
    whole.save(path)
    half = hb.Optimizer.load(path)
    assert search(half, loss, 5).evaluations == search(whole, loss, 5).evaluations
    assert half.recommend() == whole.recommend()


def test_pending_configurations_are_not_repeated():
    optimizer = search(hb.Optimizer(SPACE, repeats="auto", candidates=200), Noisy(), 20)
    batch = optimizer.ask(4)
    assert len({tuple(config.values()) for config in batch}) == 4
    for config in batch:
        optimizer.tell(config, bowl(config))
    assert not optimizer.pending


def test_failed_repeats_do_not_count_unless_all_failed():
    optimizer = hb.Optimizer(SPACE, repeats="auto")
    good, bad = {"x": 0.2, "y": 0.2}, {"x": 0.4, "y": 0.2}
    for config, loss in [(good, 1.0), (good, None), (good, 2.0), (bad, None), (bad, None)]:
        optimizer.tell(config, loss)
    (_, mean), (_, nothing) = optimizer.told
    assert mean[0] == 1.5 and np.isnan(nothing[0]) and len(optimizer.evaluations) == 5


def test_the_recommended_configuration_is_better_than_the_luckiest():
    lucky, recommended, covered = [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        found = hb.minimize(
            lambda config, rng=rng: bowl(config) + 0.1 * rng.standard_normal(),
            SPACE, budget=40, seed=seed, candidates=200, repeats="auto",
        )  # fmt: skip
        lucky.append(bowl(found.best))
        recommended.append(bowl(found.recommended.config))
        covered.append(found.recommended.noise_interval[0] < 0.1 < found.recommended.noise_interval[1])
    assert sum(covered) >= 5  # an interval of 95%
    assert np.mean(recommended) < np.mean(lucky)


def test_a_start_is_evaluated_first_and_compared():
    start = {"x": 0.95, "y": 0.05}
    found = hb.minimize(Noisy(0.01), SPACE, budget=25, repeats="auto", start=start, candidates=200)
    best = found.recommended
    assert found.configs[0] == start and best.surely_better and best.gain > best.gain_error > 0
    assert str(best).startswith(f"Configuration {best.number} is better than the start by ")
    low, high = best.noise_interval
    assert f"The noise of one training is {best.noise:.2g} ({low:.2g} to {high:.2g})" in str(best)
    assert found.configs[best.number - 1] == best.config
    assert 0 < best.real_improvements <= best.improvements


def test_what_is_claimed_can_be_read_from_the_interval():
    space, ratios = hb.Space.of(SPACE), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        configs = [{"x": float(x), "y": 0.5} for x in rng.random(12)] * 2
        losses = np.array([bowl(config) for config in configs]) + 0.1 * rng.standard_normal(24)
        best = recommendation(space, configs, losses, 1, has_start=True)
        assert best.surely_better == (best.gain > best.gain_error) and best.repeated
        ratios += [best.gain / best.gain_error] if best.gain_error else []
    assert sum(0.84 < ratio < 1 for ratio in ratios) >= 2 and max(ratios) > 1  # 0.84: one-sided 95%


def test_nothing_is_claimed_until_a_configuration_was_trained_twice():
    """Where hyperparameters do nothing, a search without repeats sees only luck, and cannot know."""
    claims = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        lucky = {"budget": 10, "seed": seed, "start": {"x": 0.5, "y": 0.5}, "candidates": 100}
        alone = hb.minimize(lambda config, rng=rng: rng.standard_normal(), SPACE, **lucky).recommended
        assert not alone.surely_better and not alone.repeated
        assert "No configuration was trained twice" in str(alone) and "is better" not in str(alone)
        lucky |= {"budget": 24, "repeats": "auto"}
        again = hb.minimize(lambda config, rng=rng: rng.standard_normal(), SPACE, **lucky).recommended
        assert again.repeated
        claims += again.surely_better
    assert claims <= 2  # 0.5 are expected


def no_loss_at_the_start(config):
    return None if config["x"] == 0.9 else bowl(config)


def slow_at_the_start(config):
    return bowl(config), {"seconds": 9.0 if config["x"] == 0.9 else 1.0}


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (no_loss_at_the_start, {}, "but the start has no loss to compare it with"),
        (slow_at_the_start, {"constraints": ["seconds<=5"]}, "but the start has no loss to compare it with"),
        (bowl, {"start": None, "n_initial": 0}, "but the initial design has no loss to compare it with"),
    ],
)
def test_a_start_without_a_loss_is_not_compared_with(function, arguments, expected):
    start = {"start": {"x": 0.9, "y": 0.5}}
    best = hb.minimize(function, SPACE, budget=8, **start | arguments).recommended
    assert str(best).startswith(f"Configuration {best.number} is recommended, {expected}.")
    assert np.isnan(best.gain) and not best.surely_better


def test_a_small_grid_is_evaluated_whole_and_then_repeated():
    grid = {"x": [0.1, 0.3, 0.5, 0.7, 0.9], "y": [0.2]}
    found = hb.minimize(Noisy(), grid, budget=20, repeats="auto")
    count = [sum(config["x"] == x for config in found.configs) for x in grid["x"]]
    assert sum(count) == 20 and min(count) >= 1 and found.recommended.repeated
    low, high = found.recommended.noise_interval
    assert low < 0.05 < high
    assert len(hb.minimize(bowl, grid, budget=20, repeats="auto").configs) == 6  # it looks deterministic
    assert len(hb.minimize(bowl, grid, budget=20).configs) == 5


def test_of_many_configurations_those_that_tell_most_are_modelled():
    rng = np.random.default_rng(0)
    losses = rng.random(1000)
    trainings = [np.array([loss]) for loss in losses]
    trainings[7] = np.array([5.0, 5.1])
    first = losses > 0.05
    chosen = informative(trainings, first)
    assert len(chosen) == MODELLED and (np.diff(chosen) > 0).all()
    assert {7, *np.argsort(np.where(first, losses, 9.0))[:100]} <= {*chosen}
    assert np.diff(chosen).max() < 40  # the others are spread over the search
    few = informative(trainings[:MODELLED], first[:MODELLED])
    assert (few == np.arange(MODELLED)).all()
    optimizer = hb.Optimizer(SPACE, "RS", repeats="auto")
    for x in np.sort(rng.random(400)):
        optimizer.tell({"x": float(x), "y": 0.5}, bowl({"x": x, "y": 0.5}) + 0.01 * rng.standard_normal())
    assert bowl(optimizer.recommend()) < 0.01 + bowl({"x": 0.3, "y": 0.5})


def test_a_long_search_is_still_compared_with_its_beginning():
    rng = np.random.default_rng(0)
    configs = [{"x": float(x), "y": float(y)} for x, y in rng.random((400, 2))]
    configs[:3] = {"x": 0.9, "y": 0.0}, {"x": 0.8, "y": 0.8}, {"x": 1.0, "y": 1.0}  # 0.72, 0.29, 0.65
    losses = np.array([bowl(config) for config in configs]) + 0.02 * rng.random(400)
    best = recommendation(hb.Space.of(SPACE), configs, losses, 3, has_start=False)
    assert best.gain == pytest.approx(0.29, abs=0.05)


def test_without_a_start_the_initial_design_is_compared():
    assert "the best of the initial design" in str(hb.minimize(bowl, SPACE, budget=12).recommended)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repeats": 3}, 'repeats must be None or "auto", not 3'),
        ({"repeats": "auto", "objectives": 2}, "repeats need one loss"),
        ({"start": {"x": 2.0, "y": 0.0}}, "x"),
        ({"method": 6}, "give the budget as budget=6"),
        ({"method": np.float64(6.0)}, "give the budget as budget=6.0"),
        ({"start": 3}, "start must be a configuration, values by name, not 3"),
        ({"start": {"x": 0.5}}, "^start: the configuration lacks"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        hb.minimize(bowl, SPACE, **{"budget": 6} | arguments)


def test_a_seed_is_given_only_where_it_is_wanted():
    seeds = []

    def own_seed(config, seed=7):
        seeds.append(seed)
        return bowl(config)

    hb.minimize(own_seed, SPACE, budget=4)
    assert seeds == [7] * 4
    hb.minimize(own_seed, SPACE, budget=4, repeats="auto")
    assert seeds[4:] == [0] * 4
    with pytest.raises(InputError, match="the function needs a seed"):
        hb.minimize(Noisy(), SPACE, budget=4)
    with pytest.raises(InputError, match="cannot be given by name"):
        hb.minimize(lambda config, seed, /: 0.0, SPACE, budget=4, repeats="auto")
    with pytest.raises(InputError, match="the function needs 'random_state' in addition"):
        hb.minimize(lambda config, random_state: 0.0, SPACE, budget=4, repeats="auto")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("random_state", lambda config, random_state=0: bowl(config)),
        ("rng", lambda config, rng=0: bowl(config)),
        ("RandomState", lambda config, RandomState=0: bowl(config)),
        ("random_seed", lambda config, random_seed=0: bowl(config)),
        ("seed_", lambda config, seed_=0: bowl(config)),
        ("torchSeed", lambda config, torchSeed=0: bowl(config)),
    ],
)
def test_a_seed_by_another_name_is_refused_where_all_repeats_would_have_it(name, function):
    found = hb.minimize(function, SPACE, budget=4)
    for search in (
        lambda: hb.minimize(function, SPACE, budget=4, repeats="auto"),
        lambda: hb.confirm(function, found, k=2, runs=4),
    ):
        with pytest.raises(InputError, match=f"'{name}' would be 0 in every training. Name it"):
            search()
    hb.minimize(lambda config: function(config), SPACE, budget=4, repeats="auto")


def test_other_defaults_are_no_fixed_seed():
    """None is a new seed in each call, a generator draws other numbers, and `seed` gets its own."""
    rng = np.random.default_rng(0)
    for function in (
        lambda config, random_state=None: bowl(config),
        lambda config, rng=rng: bowl(config),
        lambda config, seed=0, data_seed=1: bowl(config),
        lambda config, n_seeds=3, use_seed=False: bowl(config),
    ):
        hb.minimize(function, SPACE, budget=4, repeats="auto")


def test_one_of_several_losses_may_be_missing():
    found = hb.minimize(
        lambda config: (config["x"], float("nan") if config["y"] < 0.5 else config["y"]),
        SPACE,
        budget=12,
        objectives=2,
    )
    assert len(found.front) and not np.isnan(found.losses[found.front]).any()
    with pytest.raises(InputError, match="use `front`"):
        _ = found.recommended


def test_all_evaluations_failed():
    assert hb.minimize(lambda config: None, SPACE, budget=12, repeats="auto").recommended is None


def test_a_state_without_repeats_resumes(tmp_path):
    path = tmp_path / "state.json"
    hb.minimize(bowl, SPACE, budget=6, state=path)
    content = json.loads(path.read_text())
    del content["repeats"], content["start"]
    path.write_text(json.dumps(content | {"format": 2}))  # as version 1.1 wrote it
    found = hb.minimize(bowl, SPACE, budget=8, state=path)
    assert len(found.configs) == 8
