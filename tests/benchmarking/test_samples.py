"""Suites with samples: what each trial sees, and that it is run and scored on that alone."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.task.instance import make_instance, sample_size
from hpobench_nmt.benchmarking.task.scoring import trial_scores
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.seeds import sampled_rows
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import same_trial
from hpobench_nmt.lookup.disk.folder import save_folder

SUITE = Suite("s", ("ftb", "ftc", "fb"), score_at={"default": 20}, sample=0.6, trials=3)


def big(toy, times=4):
    """A table of 144 rows: the toy table for four values of another hyperparameter."""
    axis = dataclasses.replace(
        toy.hyperparameters[0], name="copy", values=tuple(map(float, range(1, times + 1)))
    )
    configs = np.vstack([np.column_stack([np.full(len(toy), i + 1.0), toy.configs]) for i in range(times)])
    noise = np.random.default_rng(5).normal(size=(len(configs), toy.values.shape[1]))
    values = np.tile(toy.values, (times, 1)) + noise
    return dataclasses.replace(
        toy, name="big", hyperparameters=(axis, *toy.hyperparameters), configs=configs, values=values
    )


@pytest.mark.parametrize(
    ("n_rows", "expected"), [(30, 30), (40, 40), (50, 40), (70, 42), (95, 57), (500, 300), (1163, 697)]
)
def test_size_of_a_sample(n_rows, expected):
    assert sample_size(0.6, n_rows) == expected == max(3 * n_rows // 5, min(40, n_rows))


@given(n_rows=st.integers(1, 3000))
def test_the_size_is_exact_in_decimals(n_rows):
    assert sample_size(0.6, n_rows) == max(3 * n_rows // 5, min(40, n_rows))


@given(trial=st.integers(0, 9), n_rows=st.integers(5, 60), data=st.data())
def test_samples_are_distinct_rows(trial, n_rows, data):
    size = data.draw(st.integers(1, n_rows))
    rows = sampled_rows(0, "t", trial, n_rows, size)
    assert len(set(rows.tolist())) == size and 0 <= rows.min() <= rows.max() < n_rows


def test_every_row_is_as_likely_in_every_place():
    """Chi-squared over rows and places; 5 sd of the number of times that a row is sampled."""
    drawn = np.array([sampled_rows(0, "t", i, 10, 6) for i in range(4000)])
    for counts, chance in ((np.bincount(drawn.ravel(), minlength=10), 0.6), (np.bincount(drawn[:, 0]), 0.1)):
        assert np.abs(counts - 4000 * chance).max() < 5 * math.sqrt(4000 * chance * (1 - chance))


def test_a_trial_sees_its_sample_alone(toy):
    table = big(toy)
    whole = make_instance(SUITE, table)
    seen = whole.of_trial(0, 2)
    rows = seen.rows
    assert len(rows) == 86 == len(seen.table) == len(seen.problem.features) == seen.problem.lookups
    np.testing.assert_array_equal(rows, sampled_rows(0, "big", 2, 144, 86))
    np.testing.assert_array_equal(seen.problem.features, whole.problem.features[rows])
    np.testing.assert_array_equal(seen.losses, whole.losses[rows])
    best = whole.losses[rows, 0].min()
    ftb = seen.goals[0]
    np.testing.assert_array_equal(np.flatnonzero(ftb.targets), np.flatnonzero(whole.losses[rows, 0] == best))
    assert seen.goals[2].best == best
    # The target: the best 2% of 86 rows are two.
    assert set(np.flatnonzero(seen.target.targets)) == set(np.argsort(seen.losses[:, 0])[:2])
    assert [goal.name for goal in seen.stopping_goals] == ["ftb", "ftc", "fb", "target"]
    assert whole.of_trial(0, 2) is seen
    assert not np.array_equal(whole.of_trial(0, 1).rows, rows)
    assert make_instance(changed(SUITE, sample=None), table).of_trial(0, 1).rows is None


def test_trials_are_run_and_scored_on_their_samples(toy, home, tmp_path):
    table = big(toy)
    save_folder(table, home / "tables" / "big")
    methods = ["RS", "BO_EI_M_std"]
    results = hb.run(SUITE, tables=["big"], methods=methods, trials=6, lookups=30, out=tmp_path / "run")
    instance = results.instances["big"]
    loss = instance.losses[:, 0]
    for method in results.methods:
        scores = trial_scores(instance, 0, results.trials["big", method])
        for number, trial in enumerate(results.trials["big", method]):
            sample = sampled_rows(0, "big", number, 144, 86)
            assert set(trial.rows.tolist()) <= set(sample.tolist())
            assert len(trial.rows) <= 30
            best = loss[sample].min()
            hits = np.flatnonzero(loss[trial.rows] == best)
            expected = max(hits[0] + 1, 3) if len(hits) else np.nan
            np.testing.assert_equal(scores[0, number], expected)
            if len(trial.rows) >= 20 or len(hits):
                assert scores[2, number] == pytest.approx(loss[trial.rows[:20]].min() - best)
        starts = [set(t.rows[:3].tolist()) for t in results.trials["big", method]]
        assert starts == [set(t.rows[:3].tolist()) for t in results.trials["big", "RS"]]
    again = hb.load_results(tmp_path / "run")
    for key, trials in results.trials.items():
        assert all(same_trial(a, b) for a, b in zip(trials, again.trials[key], strict=True))


def test_workers_do_not_change_a_sampled_run(toy):
    table = big(toy)
    runs = [
        hb.run(SUITE, tables=[table], methods=["RS", "BO_EI_M", "TPE"], trials=4, jobs=jobs)
        for jobs in (1, 2)
    ]
    for key, trials in runs[0].trials.items():
        assert all(same_trial(a, b) for a, b in zip(trials, runs[1].trials[key], strict=True))


def test_a_sample_without_a_value_is_drawn_again(toy):
    table = big(toy)
    values = table.values.copy()
    values[5:, 0] = np.nan
    instance = make_instance(
        changed(SUITE, scores=("ftb",), score_at={}), dataclasses.replace(table, values=values)
    )
    rejected = 0
    for trial in range(200):
        seen = instance.of_trial(1, trial)
        assert np.isfinite(seen.losses[:, 0]).any()
        rejected += not np.array_equal(seen.rows, sampled_rows(1, "big", trial, 144, 86))
    assert rejected == sum(sampled_rows(1, "big", t, 144, 86).tolist().count(0) == 0 and
                           not {0, 1, 2, 3, 4} & set(sampled_rows(1, "big", t, 144, 86).tolist())
                           for t in range(200))  # fmt: skip
    assert rejected > 0


def test_constraints_hold_in_samples(toy):
    table = big(toy)
    suite = changed(SUITE, constraints=("seconds<=30",))
    instance = make_instance(suite, table)
    for trial in range(5):
        seen = instance.of_trial(0, trial)
        np.testing.assert_array_equal(seen.violations, instance.violations[seen.rows])
        assert np.isfinite(seen.scored[seen.target.targets]).all()


def test_a_row_outside_of_its_sample_is_refused(toy):
    results = hb.run(SUITE, tables=[big(toy)], methods=["RS"], trials=2)
    with pytest.raises(InputError, match="which is not in its sample"):
        dataclasses.replace(results, seed=1).summary("big", "RS")


def test_a_clock_of_costs_gives_the_time_of_random_search(curved):
    suite = Suite("s", ("ftb",), clock="cost", curves=True, n_initial=0, sample=0.6, lookups=10, workers=2)
    instance = make_instance(suite, curved)
    seen = instance.of_trial(0, 0)
    assert seen.problem.lookups == len(seen.table)
    assert seen.problem.time == pytest.approx(10 * seen.trainings.whole_costs.mean() / 2)
    for place, row in enumerate(seen.rows):
        whole, part = instance.trainings, seen.trainings
        own = slice(part.starts[place], part.starts[place + 1])
        theirs = slice(whole.starts[row], whole.starts[row + 1])
        np.testing.assert_array_equal(part.losses[own], whole.losses[theirs])
        np.testing.assert_array_equal(part.costs[own], whole.costs[theirs])
    results = hb.run(suite, tables=[curved], methods=["RS", "ASHA"], trials=3, notify=lambda message: None)
    for number, trial in enumerate(results.trials["toy", "ASHA"]):
        assert set(trial.rows.tolist()) <= set(instance.of_trial(0, number).numbers.tolist())
        assert trial.timeline.finishes[-1] <= instance.of_trial(0, number).problem.time


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(InputError, match="sample"):
        changed(SUITE, sample=share)
