"""Restricted means of runtimes, and the order of methods by them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from in_order import InOrder

from hpobench_nmt.analysis.leaderboard import ranked_methods
from hpobench_nmt.analysis.verdicts import rounded, run_statistics
from hpobench_nmt.benchmarking.call import benchmark


class Broken(InOrder):
    def __init__(self, problem, rng):
        raise ValueError("broken")


def test_runtimes_that_are_not_reached_count_the_budget(toy):
    class Fails(InOrder):
        """On one table only."""

        def ask(self):
            return -1 if self.features is tables[3].features else super().ask()

    tables = [dataclasses.replace(toy, name=f"t{i}", values=np.roll(toy.values, i, axis=0)) for i in range(8)]
    found = benchmark(tables, ["RS", Broken, "BO_EI_M_std", Fails], trials=5, scores=["ftb"])
    statistics = run_statistics(found)
    assert ranked_methods(found, statistics, "t3")[-1] == "Broken"
    failed = sum(bool(trial.failure) for trial in found.trials["t3", "Fails"])
    assert failed
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


def test_a_gap_with_failed_trials_comes_last(toy):
    found = benchmark(toy, ["RS", Broken, "BO_EI_M_std", InOrder], trials=3, scores=["fb"], score_at=5)
    assert ranked_methods(found, run_statistics(found), "toy")[-1] == "Broken"


def test_means_that_differ_by_rounding_errors_are_equal():
    ragged = np.array([0.1 + 0.2, 0.3, 1e9, 1e9 + 1e-6])
    np.testing.assert_array_equal(rounded(ragged), [0.3, 0.3, 1e9, 1e9])
    near = np.array([1.0, 1.0 + 1e-11, np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(rounded(near), near)


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
