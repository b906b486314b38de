"""Trials replayed: the rows taken in order, and the trial's own front after each."""

import dataclasses

import numpy as np
import pytest

from hpobench_nmt.analysis.replay import replay
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.system.errors import InputError


@pytest.fixture
def results(toy):
    return benchmark(toy, ["RS", "NSGA2"], objectives=["bleu", "seconds"], scores=["fta"], trials=5)


def dominates(a, b):
    return (a <= b).all() and (a < b).any()


def front_of(losses, rows):
    """The rows that none of the others dominates, in their order."""
    return [r for r in rows if not any(dominates(losses[s], losses[r]) for s in rows)]


def test_the_front_after_each_look_up(results):
    found = replay(results, "toy")
    losses = results.instances["toy"].losses
    assert list(found.trials) == ["RS", "NSGA2"]
    for method, each in found.trials.items():
        taken = results.trials["toy", method][each.trial].rows.tolist()
        assert each.rows.tolist() == taken
        for n in range(1, len(taken) + 1):
            assert each.front_after(n).tolist() == front_of(losses, taken[:n])
        assert each.front_after(10**6).tolist() == front_of(losses, taken)
    assert sorted(found.front) == front_of(losses, range(len(losses)))


def test_what_is_known_of_the_rows_that_were_taken(results):
    found, table = replay(results, "toy", lookups=4), results.instances["toy"].table
    taken = {int(row) for each in found.trials.values() for row in each.rows}
    assert set(found.configs) == taken and all(len(each.rows) == 4 for each in found.trials.values())
    for row, values in found.configs.items():
        assert dict(zip(found.hyperparameters, values, strict=True)) == table.config(row)
        assert found.points[row].tolist() == [table.column(m)[row] for m in ("bleu", "seconds")]


def test_one_trial_and_what_there_is_none_of(results):
    found = replay(results, "toy", ["RS"], trial=3)
    assert found.trials["RS"].trial == 3
    assert np.array_equal(found.trials["RS"].rows, results.trials["toy", "RS"][3].rows)
    with pytest.raises(InputError, match="trial 5 of RS on toy does not exist: there are trials 0 to 4"):
        replay(results, "toy", ["RS"], trial=5)
    with pytest.raises(InputError, match=r"unknown method 'NSGA'. Did you mean 'NSGA2'"):
        replay(results, "toy", ["NSGA"])
    with pytest.raises(InputError, match="at least 1, not 0"):
        replay(results, "toy", lookups=0)


def test_a_method_whose_trials_failed_has_none(results):
    every = [dataclasses.replace(t, failure="no luck") for t in results.trials["toy", "NSGA2"]]
    some = dataclasses.replace(results, trials=dict(results.trials) | {("toy", "NSGA2"): every})
    assert list(replay(some, "toy").trials) == ["RS"]
    with pytest.raises(InputError, match="every trial failed"):
        replay(some, "toy", ["NSGA2"])
