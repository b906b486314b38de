from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hpobench_nmt.analysis.board import CHOSEN, table_boards
from hpobench_nmt.analysis.chosen_rows import chosen_rows
from hpobench_nmt.analysis.leaderboard import chosen_meanings
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.running.trials import generator
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.lookup.replicates import Replicates


@pytest.fixture
def repeated(toy, again):
    """The toy table with four more trainings of each row, and with its BLEU on dev and on test."""
    names = ("dev_bleu", *(m.name for m in toy.metrics[1:]), "test_bleu")
    test = toy.column("bleu") + np.random.default_rng(8).normal(size=len(toy))
    metrics = [*toy.metrics, Metric("test_bleu", "max")]
    metrics = tuple(dataclasses.replace(m, name=name) for m, name in zip(metrics, names, strict=True))
    made = dataclasses.replace(
        toy, metrics=metrics, values=np.column_stack([toy.values, test]), objectives=("dev_bleu", "seconds")
    )
    frame = again(made, list(range(36)), times=4, scale=0.8)
    return dataclasses.replace(made, replicates=Replicates.of_frame(frame, made.hyperparameters, names))


def by_hand(table):
    """Means of all trainings of each row, in BLEU."""
    number, values = table.replicates.by_row(table.configs)
    return np.array([np.mean([table.values[row, 0], *values[number == row, 0]]) for row in range(len(table))])


def test_true_regret_and_test_of_the_row_that_looks_best(repeated):
    results = benchmark(repeated, ["RS", "BO_EI_M_std"], trials=6, scores=["fb"], score_at=9)
    regret, test = chosen_rows(results, "toy")
    assert (regret.name, regret.lower_is_better) == ("fbr", True)
    assert (test.name, test.lower_is_better) == ("test_bleu", False)
    mean = by_hand(repeated)
    for method in results.methods:
        for i, trial in enumerate(results.trials["toy", method]):
            row = max(trial.rows[:9].tolist(), key=lambda r: repeated.values[r, 0])
            assert regret.values[method][i] == pytest.approx(mean.max() - mean[row])
            assert test.values[method][i] == repeated.values[row, -1]
    draws = np.random.default_rng(0)
    rows = [max(draws.permutation(36)[:9], key=lambda r: repeated.values[r, 0]) for _ in range(4000)]
    assert regret.random_search == pytest.approx(np.mean(mean.max() - mean[rows]), abs=0.05)
    assert test.random_search == pytest.approx(np.mean(repeated.values[rows, -1]), abs=0.08)
    columns = table_boards(results, run_statistics(results))["toy"].columns
    fbr, bleu = (column for column in columns if column.side == CHOSEN)
    assert (fbr.heading, bleu.heading) == ("fbr ↓", "test_bleu ↑")
    assert fbr.entries["RS"].value == pytest.approx(regret.values["RS"].mean())
    assert len(chosen_meanings(results)) == 2


def test_with_noise_the_row_is_chosen_by_what_the_trial_saw(repeated):
    rules = {"trials": 5, "scores": ["fb"], "score_at": 9, "noise": "replicates"}
    results = benchmark(repeated, ["RS"], **rules)
    regret = chosen_rows(results, "toy")[0]
    mean, instance = by_hand(repeated), results.instances["toy"]
    lucky = 0
    for i, trial in enumerate(results.trials["toy", "RS"]):
        noise = instance.replicates
        seen = noise.losses[noise.places(generator(results.seed, "noise", "toy", i)), 0]
        row = min(trial.rows[:9].tolist(), key=lambda r: seen[r])
        lucky += row != max(trial.rows[:9].tolist(), key=lambda r: mean[r])
        assert regret.values["RS"][i] == pytest.approx(mean.max() - mean[row])
    assert lucky
    assert np.isnan(regret.random_search)


def test_with_noise_the_chosen_row_does_not_depend_on_when_trials_end(repeated):
    """A trial that has looked up the best mean cannot know it, and may still choose another row."""
    rules = {"trials": 20, "scores": ["fb"], "score_at": 30, "noise": "replicates"}
    settled, exhausted = (
        benchmark(repeated, ["RS", "BO_EI_M_std"], stop=stop, **rules) for stop in ("settled", "exhausted")
    )
    lengths = {len(trial.rows) for trial in settled.trials["toy", "RS"]}
    assert min(lengths) == 30 and {len(trial.rows) for trial in exhausted.trials["toy", "RS"]} == {36}
    (regret, *_), (expected, *_) = (chosen_rows(results, "toy") for results in (settled, exhausted))
    for method in settled.methods:
        np.testing.assert_array_equal(regret.values[method], expected.values[method])


def test_with_noise_a_trial_that_ended_before_the_row_is_chosen_has_none(repeated):
    rules = {"trials": 2, "scores": ["fb"], "score_at": 30, "noise": "replicates"}
    results = benchmark(repeated, ["RS"], **rules)
    short, whole = results.trials["toy", "RS"]
    short = dataclasses.replace(short, rows=short.rows[:20], losses=short.losses[:20])
    results = dataclasses.replace(results, trials={("toy", "RS"): [short, whole]})
    assert np.isnan(chosen_rows(results, "toy")[0].values["RS"]).tolist() == [True, False]
    limited = {"clock": "cost", "cost": "seconds", "lookups": 12, "score_at": 1e6}
    with_limit = benchmark(repeated, ["RS"], **{**rules, **limited})  # all look-ups were used
    assert not np.isnan(chosen_rows(with_limit, "toy")[0].values["RS"]).any()


def test_only_where_there_are_replicates_or_a_test_metric(toy, repeated):
    assert chosen_rows(benchmark(toy, ["RS"], trials=2, scores=["fb"], score_at=5), "toy") == []
    assert chosen_rows(benchmark(repeated, ["RS"], trials=2, scores=["ftb"]), "toy") == []
    bare = dataclasses.replace(repeated, replicates=None)
    (only,) = chosen_rows(benchmark(bare, ["RS"], trials=2, scores=["fb"], score_at=5), "toy")
    assert only.name == "test_bleu"
