"""Methods ranked over tables, and the restricted means by which runtimes are ranked."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hpobench_nmt.analysis.table_ranks import rank_outcome
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.call import benchmark


class InOrder:
    """Requests the rows in their order."""

    def __init__(self, problem, rng):
        self.features = problem.features
        self.left = list(range(len(problem.features)))

    def ask(self):
        return self.left[0]

    def tell(self, index, losses):
        self.left.remove(index)


class Broken(InOrder):
    def __init__(self, problem, rng):
        raise ValueError("broken")


def outcome_of(results):
    """Of the first score."""
    return rank_outcome(results, results.suite.scores[0], run_statistics(results).scores)


def test_ranks_over_tables(toy):
    tables = [dataclasses.replace(toy, name=f"t{i}", values=np.roll(toy.values, i, axis=0)) for i in range(8)]
    results = benchmark(tables, ["RS", "BO_EI_M_std", "BO_EI_R_std"], trials=10)
    statistics = run_statistics(results)
    outcome = outcome_of(results)
    assert outcome.tables == tuple(t.name for t in tables)
    assert outcome.test is not None
    table_means = statistics.scores[statistics.scores.score == "ftb"].pivot(
        index="table", columns="method", values="mean"
    )
    ranks = table_means[list(outcome.methods)].rank(axis=1).mean()
    np.testing.assert_allclose(outcome.test.mean_ranks, ranks)
    assert f"critical difference, {outcome.test.critical_difference:.2f}." in outcome.sentence


def test_runtimes_that_are_not_reached_count_the_budget_in_ranks(toy):
    class Fails(InOrder):
        """On one table only."""

        def ask(self):
            return -1 if self.features is tables[3].features else super().ask()

    tables = [dataclasses.replace(toy, name=f"t{i}", values=np.roll(toy.values, i, axis=0)) for i in range(8)]
    found = benchmark(tables, ["RS", Broken, "BO_EI_M_std", Fails], trials=5, scores=["ftb"])
    statistics = run_statistics(found)
    outcome = outcome_of(found)
    assert outcome.methods == ("RS", "Broken", "BO_EI_M_std", "Fails")
    assert outcome.tables == tuple(f"t{i}" for i in range(8))
    failed = sum(bool(trial.failure) for trial in found.trials["t3", "Fails"])
    told = f"count as the whole budget: Broken 100%, Fails {failed / 40:.0%}."
    assert failed and told in outcome.sentence
    cells = statistics.scores.set_index(["table", "method"])
    assert (cells.loc[(slice(None), "Broken"), "restricted"] == 36).all()
    reached = [float(len(t.rows)) for t in found.trials["t3", "Fails"] if not t.failure]
    restricted, capped = cells.loc[("t3", "Fails"), ["restricted", "capped"]]
    assert restricted == pytest.approx((sum(max(x, 3.0) for x in reached) + 36 * failed) / 5)
    assert capped == failed / 5
    whole = cells.loc[(slice(None), "RS"), :]
    assert (whole["restricted"] == whole["mean"]).all()
    exact = whole["random_search"].to_numpy()
    assert whole["random_search_restricted"].to_numpy() == pytest.approx(exact)


def test_gaps_of_failed_trials_have_no_rank(toy):
    tables = [dataclasses.replace(toy, name=f"t{i}", values=np.roll(toy.values, i, axis=0)) for i in range(3)]
    found = benchmark(tables, ["RS", Broken, "BO_EI_M_std", InOrder], trials=3, scores=["fb"], score_at=5)
    outcome = outcome_of(found)
    assert outcome.methods == ("RS", "BO_EI_M_std", "InOrder")
    assert "Not ranked: Broken, which has no mean over all trials on any table." in outcome.sentence


def test_a_restricted_mean_is_within_the_budget_even_if_the_initial_design_is_longer(toy):
    gaps = toy.column("bleu").max() - toy.column("bleu")
    rules = {"scores": ["ftc"], "tolerance": float(np.quantile(gaps, 0.8)), "n_initial": 12}
    limit = float(toy.column("seconds").mean()) * 6
    found = benchmark(toy, ["RS"], trials=40, clock="cost", cost="seconds", time=limit, **rules)
    (cell,) = run_statistics(found).scores.to_dict("records")
    assert cell["mean"] > limit and not cell["unanswered"]
    assert cell["restricted"] == pytest.approx(limit) and cell["capped"] == 1.0


def test_a_trial_that_failed_after_it_met_the_target_is_capped(toy):
    """It never meets the next target, and the mean of the others would be too good."""

    class Crashes(InOrder):
        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            self.crashes = rng.random() < 0.5

        def ask(self):
            if self.crashes and len(self.left) == 1:
                raise RuntimeError("at the last row")
            return super().ask()

    rules = {"scores": ["ftc", "ftb"], "stop": "exhausted"}
    found = benchmark(toy, [Crashes], trials=20, **rules)
    (cell, _) = run_statistics(found).scores.to_dict("records")
    assert 0 < cell["failed"] < 20
    assert cell["capped"] == cell["failed"] / 20
    expected = (cell["mean"] * (20 - cell["failed"]) + 36 * cell["failed"]) / 20
    assert cell["restricted"] == pytest.approx(expected)
