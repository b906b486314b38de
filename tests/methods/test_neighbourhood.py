"""Regularised evolution and local search against naive twins, and on tables where they must do well."""

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.neighbourhood import LocalSearch, RegularisedEvolution


def grid(per_axis=5, seed=0):
    axes = np.meshgrid(*[np.linspace(0.0, 1.0, per_axis)] * 3, indexing="ij")
    features = np.stack([a.ravel() for a in axes], axis=1)
    features.setflags(write=False)
    noise = np.random.default_rng(seed).normal(scale=0.05, size=len(features))
    losses = ((features - 0.4) ** 2).sum(axis=1) + noise
    losses[::17] = np.nan
    return Problem(features, 1, len(features), 3), losses[:, None]


def naive_neighbours(problem, row):
    """On a whole grid: one axis differs, by one place."""
    places = np.rint(problem.features * 4).astype(int)
    return [r for r in range(len(places)) if np.abs(places[r] - places[row]).sum() == 1]


def value(losses, row):
    return np.inf if np.isnan(losses[row, 0]) else losses[row, 0]


def draw(rng, near, seen, n):
    free = [r for r in near if r not in seen] or [r for r in range(n) if r not in seen]
    return int(rng.choice(free))


def naive_evolution(problem, losses, rng, initial, population, sample):
    rows = list(initial)
    while len(rows) < len(losses):
        near = []
        if len(rows) >= population:
            living = rows[-population:]
            drawn = [living[i] for i in rng.integers(len(living), size=sample)]
            near = naive_neighbours(problem, min(drawn, key=lambda r: value(losses, r)))
        rows.append(draw(rng, near, set(rows), len(losses)))
    return rows


def naive_local(problem, losses, rng, initial):
    rows, here = [], None

    def look(row):
        nonlocal here
        rows.append(row)
        near = [] if here is None else naive_neighbours(problem, here)
        stuck = here is None or (row not in near and not set(near) - set(rows))
        if stuck or value(losses, row) < value(losses, here):
            here = row

    for row in initial:
        look(row)
    while len(rows) < len(losses):
        look(draw(rng, naive_neighbours(problem, here), set(rows), len(losses)))
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_the_rows_are_those_of_naive_twins(seed):
    problem, losses = grid(seed=seed)
    initial = [int(r) for r in np.random.default_rng(seed).choice(len(losses), 3, replace=False)]

    def rows(make):
        rng = np.random.default_rng(seed)
        found = run_trial(problem, Trainings.whole(losses), make, rng, initial)
        assert not found.failure
        return found.rows.tolist()

    assert rows(LocalSearch) == naive_local(problem, losses, np.random.default_rng(seed), initial)
    for population, sample in ((10, 3), (4, 1), (200, 3)):

        def make(problem, rng, population=population, sample=sample):
            return RegularisedEvolution(problem, rng, population, sample)

        twin = naive_evolution(problem, losses, np.random.default_rng(seed), initial, population, sample)
        assert rows(make) == twin


@pytest.mark.parametrize("make", [LocalSearch, RegularisedEvolution])
def test_on_a_smooth_grid_they_beat_random_search(make):
    axes = np.meshgrid(*[np.linspace(0.0, 1.0, 6)] * 3, indexing="ij")
    features = np.stack([a.ravel() for a in axes], axis=1)
    losses = ((features - 0.4) ** 2).sum(axis=1)[:, None]
    best, found = int(losses.argmin()), []
    for seed in range(10):
        problem = Problem(features, 1, len(features), 1)
        rng = np.random.default_rng(seed)
        rows = run_trial(problem, Trainings.whole(losses), make, rng, [int(rng.integers(216))]).rows.tolist()
        found.append(rows.index(best) + 1)
    assert np.mean(found) < 0.5 * (216 + 1) / 2


@pytest.mark.parametrize("make", [LocalSearch, RegularisedEvolution])
def test_a_table_without_neighbours_is_searched_at_random(make):
    features = np.random.default_rng(0).random((12, 2))
    problem = Problem(np.column_stack([features]), 1, 12, 2)
    losses = np.arange(12.0)[:, None]
    rows = run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(1), [0, 1]).rows
    assert sorted(rows.tolist()) == list(range(12))


def test_it_can_be_asked_without_workers():
    problem, losses = grid()
    asked, suggested = (LocalSearch(problem, np.random.default_rng(3)) for _ in range(2))
    for _ in range(20):
        row = asked.ask()
        assert row == suggested.suggest({})
        for method in (asked, suggested):
            method.tell(row, losses[row])


def test_a_population_of_one_walks_and_an_empty_one_is_refused():
    problem, losses = grid()
    method = RegularisedEvolution(problem, np.random.default_rng(0), population=1, sample=1)
    method.tell(62, losses[62])
    assert method.ask() in naive_neighbours(problem, 62)
    for wrong in ("population", "sample"):
        with pytest.raises(InputError, match=wrong):
            RegularisedEvolution(problem, np.random.default_rng(0), **{wrong: 0})
