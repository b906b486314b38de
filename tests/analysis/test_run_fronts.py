import dataclasses

import numpy as np
import pandas as pd
import pytest
from parts_of_results import failing, of

import hpobench_nmt as hb
from hpobench_nmt.analysis.replay import moving_front
from hpobench_nmt.analysis.run_fronts import attainment, pairs_of_objectives
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale

TWO = ["bleu", "seconds"]


def test_fronts_move_to_the_tables_front(multi):
    found = moving_front(multi, "toy", "RS", lookups=(3, 10, 36), trial=2)
    trial, instance = multi.trials["toy", "RS"][2], multi.instances["toy"]
    assert found.lookups == tuple(sorted({3, 10, len(trial.rows)}))
    for n, rows in zip(found.lookups, found.fronts, strict=True):
        assert set(rows) == set(trial.rows[:n][pareto_front(trial.losses[:n])])
        assert (np.diff(instance.losses[rows, 0]) >= 0).all()
    assert set(found.fronts[-1]) == set(found.front)
    np.testing.assert_array_equal(found.points[:, 0], instance.table.column("bleu"))
    assert found.labels == ("bleu (BLEU)", "seconds (s)")


def test_the_typical_trial_has_the_median_hypervolume(multi):
    found = moving_front(multi, "toy", "NSGA2", lookups=(10,))
    scale = table_scale(multi.instances["toy"].losses)

    def mean_share(trial):
        return np.mean([hypervolume(scale.scaled(trial.losses[: t + 1])) for t in range(10)])

    shares = [mean_share(t) for t in multi.trials["toy", "NSGA2"]]
    assert shares[found.trial] == pytest.approx(np.sort(shares)[5])
    broken = failing(multi, "toy", "NSGA2", trial=found.trial)
    assert moving_front(broken, "toy", "NSGA2", lookups=(10,)).trial != found.trial


def test_attainment_in_the_tables_own_units(multi):
    found = attainment(multi, "toy", 10)
    assert set(found.frame["method"]) == {*multi.methods, EXACT}
    losses = multi.instances["toy"].losses
    for method in multi.methods:
        steps = of(found.frame, method)[["x", "y"]].to_numpy() * [-1, 1]
        # Horizontal and vertical in turn, from the worst of one objective to the worst of the other.
        moves = np.diff(steps, axis=0)
        assert (np.count_nonzero(moves, axis=1) <= 1).all()
        assert steps[0, 1] == losses[:, 1].max()
        assert steps[-1, 0] == losses[:, 0].max()
        for x, y in steps[1:-1:2]:
            attained = [((t.losses[:10] <= [x, y]).all(axis=1)).any() for t in multi.trials["toy", method]]
            assert np.mean(attained) >= 0.5


def test_three_objectives_are_seen_two_at_a_time(toy):
    three = ["bleu", "seconds", "memory"]
    results = benchmark(toy, ["RS"], objectives=three, scores=["fta"], trials=9, stop="exhausted")
    assert pairs_of_objectives(3) == [(0, 1), (0, 2), (1, 2)]
    assert len(pairs_of_objectives(4)) == 6
    assert pairs_of_objectives(5) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    # The same trials, of which only two objectives are known.
    two = benchmark(toy, ["RS"], objectives=["seconds", "memory"], trials=9, stop="exhausted")
    found = attainment(results, "toy", 7, pair=(1, 2))
    pd.testing.assert_frame_equal(found.frame, attainment(two, "toy", 7).frame)
    moves = moving_front(results, "toy", "RS", (5, 36), trial=1, pair=(0, 2))
    trial = results.trials["toy", "RS"][1]
    assert set(moves.fronts[0]) == set(trial.rows[:5][pareto_front(trial.losses[:5])])
    assert set(moves.front) == set(pareto_front(toy.losses(three)))
    np.testing.assert_array_equal(moves.points[:, 1], toy.column("memory"))
    assert moves.labels == ("bleu (BLEU)", "memory (MB)")
    assert (np.diff(moves.points[moves.front, 0]) <= 0).all()


def test_attainment_is_not_made_up_after_the_end_of_a_trial(toy):
    results = benchmark(toy, ["RS", "BO_M_std"], objectives=TWO, scores=["fto"], trials=12)
    found = attainment(results, "toy", 30)
    assert set(found.frame["method"]) == {EXACT}
    assert any(note.startswith("RS: left out, because") for note in found.notes)


def test_failed_trials_are_left_out_of_fronts_and_named(multi):
    broken = failing(multi, "toy", "NSGA2", trial=4)
    assert "NSGA2: 1 of 12 trials failed and is left out." in attainment(broken, "toy", 5).notes


def test_what_fronts_are_not_for_is_refused(single, multi):
    for call, message in (
        (lambda: attainment(single, "toy", 5), "for two or more; the run has 1"),
        (lambda: moving_front(single, "toy", "RS"), "for two or more; the run has 1"),
        (lambda: moving_front(multi, "toy", "NSGA"), "Did you mean 'NSGA2'"),
        (lambda: moving_front(multi, "toy", "RS", trial=12), "there are trials 0 to 11"),
        (lambda: moving_front(multi, "toy", "RS", lookups=()), "1 or more"),
        (lambda: attainment(multi, "toy", 0), "at least 1"),
    ):
        with pytest.raises(hb.InputError, match=message):
            call()


def test_fronts_of_rows_without_values(toy):
    values = toy.values.copy()
    values[::5, 0] = np.nan
    holed = dataclasses.replace(toy, values=values)
    multi = benchmark(holed, ["RS", "BO_M_std"], objectives=TWO, trials=20)
    assert len(attainment(multi, "toy", 5).frame)
