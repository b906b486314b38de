from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.random_search import exact_random_search, random_search_share_met
from hpobench_nmt.evaluation.runtime_distribution import (
    Runtimes,
    defining_value,
    expected_runtimes,
    front_goals,
    gap_goals,
    is_settled,
    runtimes,
    share_met,
)
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.methods.early.successive_halving import ASHA

CELLS = st.sampled_from([np.nan, 0.0, 0.5, 1.0, 2.0, 7.0])


def trials_of(losses, rng, lengths):
    orders = [rng.permutation(len(losses))[:n] for n in lengths]
    return [Trajectory(rows, losses[rows]) for rows in orders]


def naive_runtime(target, rows, n_initial):
    met = 0
    for t, row in enumerate(rows, start=1):
        met += bool(target.targets[row])
        if met >= target.needed:
            return max(t, n_initial)
    return np.inf


@pytest.fixture(params=["ranks", "front"])
def ladder(request):
    rng = np.random.default_rng(0)
    losses = np.round(rng.normal(size=(40, 1 if request.param == "ranks" else 2)), 1)
    ladder_of = gap_goals if request.param == "ranks" else front_goals
    targets = ladder_of(Trainings.whole(losses))
    return losses, targets


def test_runtimes_and_their_distribution_by_a_naive_count(ladder):
    losses, targets = ladder
    trials = trials_of(losses, np.random.default_rng(1), [40, 25, 12, 40, 5])
    found = runtimes(trials, targets, n_initial=3)
    naive = [[naive_runtime(target, trial.rows, 3) for target in targets] for trial in trials]
    np.testing.assert_array_equal(found.times, naive)
    np.testing.assert_array_equal(found.lengths, [40, 25, 12, 40, 5])
    budgets = np.arange(1.0, 42.0)
    counted = [sum(time <= b for line in naive for time in line) / np.size(naive) for b in budgets]
    np.testing.assert_allclose(share_met(found.times, budgets), counted)


def test_shares_are_exact_until_the_first_trial_that_ended_with_targets_open(ladder):
    losses, targets = ladder
    rng = np.random.default_rng(1)
    whole = trials_of(losses, rng, [40] * 6)
    cut = [Trajectory(t.rows[:n], t.losses[:n]) for t, n in zip(whole, [40, 9, 14, 40, 22, 11], strict=True)]
    complete, found = runtimes(whole, targets, 3), runtimes(cut, targets, 3)
    assert complete.exact_until == np.inf
    open_ended = [n for n, line in zip(found.lengths, found.times, strict=True) if np.isinf(line).any()]
    assert found.exact_until == min(open_ended)
    for budget in np.arange(1.0, 41.0):
        lower, truth = (share_met(r.times, np.array([budget]))[0] for r in (found, complete))
        assert lower == truth if budget <= found.exact_until else lower <= truth


def test_a_short_trial_that_met_every_target_leaves_nothing_open():
    found = Runtimes(np.array([[3.0, 4.0], [3.0, np.inf], [5.0, 9.0]]), np.array([4.0, 12.0, 9.0]))
    assert found.exact_until == 12.0


def test_expected_runtimes_by_hand():
    times = np.array([[3.0, 10.0, np.inf], [5.0, np.inf, np.inf], [4.0, 20.0, np.inf]])
    found = expected_runtimes(Runtimes(times, np.array([12.0, 30.0, 20.0])))
    np.testing.assert_allclose(found.ert, [4.0, (10 + 30 + 20) / 2, np.inf])
    np.testing.assert_array_equal(found.successes, [3, 2, 0])
    np.testing.assert_array_equal(found.lookups, [12, 60, 62])
    assert found.low[0] == 3.0
    assert found.high[0] == 5.0
    assert found.low[1] <= 30 <= found.high[1] == np.inf
    assert found.low[2] == np.inf


def test_intervals_of_expected_runtimes_cover_them():
    # Runs that succeed with probability 0.7 after a geometric number of look-ups, or give up at 30.
    rng = np.random.default_rng(0)
    reached = rng.geometric(0.05, (60, 400)).astype(float)
    times = np.where(reached <= 30, reached, np.inf)
    found = expected_runtimes(Runtimes(times, np.full(60, 30.0)), resamples=999)
    success = 1 - 0.95**30
    expected = sum(min(k, 30) * 0.05 * 0.95 ** (k - 1) for k in range(1, 5000)) / success
    coverage = ((found.low <= expected) & (expected <= found.high)).mean()
    assert 0.9 < coverage < 0.985
    assert np.mean(found.ert) == pytest.approx(expected, rel=0.03)


def test_trials_that_looked_up_nothing():
    targets = gap_goals(Trainings.whole(np.array([[0.0], [1.0], [2.0], [3.0]])))
    found = runtimes([Trajectory(np.empty(0, np.int64), np.empty((0, 1)))] * 3, targets, 3)
    assert np.isinf(found.times).all()
    assert found.exact_until == 0.0
    ert = expected_runtimes(found)
    assert np.isinf([ert.ert, ert.low, ert.high]).all()


def test_one_trial_has_no_interval():
    found = expected_runtimes(Runtimes(np.array([[3.0]]), np.array([3.0])))
    assert found.ert[0] == 3.0
    assert np.isnan([found.low[0], found.high[0]]).all()


@settings(max_examples=60, deadline=None)
@given(gaps=st.lists(CELLS, min_size=1, max_size=40), n_targets=st.integers(1, 25))
def test_rank_targets_lead_from_the_better_half_to_the_best(gaps, n_targets):
    gaps = np.array(gaps)
    assume(not np.isnan(gaps).all())
    gaps -= np.nanmin(gaps)
    targets = gap_goals(Trainings.whole(gaps[:, None]), n_targets)
    counts = [int(t.targets.sum()) for t in targets]
    assert 1 <= len(targets) <= n_targets
    assert counts == sorted(set(counts), reverse=True)
    assert counts[-1] == (gaps == 0).sum()
    assert targets[-1].name == "the best value"
    for target in targets:
        np.testing.assert_array_equal(target.targets, gaps <= defining_value(target))
    if n_targets > 1:
        # The easiest is met by half of the rows, and by no more than those that tie with the last of these.
        half = np.sort(gaps[~np.isnan(gaps)])[max(1, (~np.isnan(gaps)).sum() // 2) - 1]
        assert defining_value(targets[0]) == half


def test_front_targets_ask_for_one_row_after_another():
    losses = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [3.0, 3.0], [np.nan, 0.0]])
    targets = front_goals(Trainings.whole(losses))
    assert [t.name for t in targets] == ["1 of 3 front rows", "2 of 3 front rows", "3 of 3 front rows"]
    for n, target in enumerate(targets, start=1):
        np.testing.assert_array_equal(target.targets, [True, True, True, False, False])
        assert target.needed == n


@settings(max_examples=100, deadline=None)
@given(data=st.data(), n_rows=st.integers(1, 5))
def test_settled_targets_are_those_that_every_order_meets_before_it_may_stop(data, n_rows):
    rows = st.lists(st.booleans(), min_size=n_rows, max_size=n_rows).map(np.array)

    def goal():
        targets = data.draw(rows.filter(lambda t: t.any()))
        return Goal(targets, data.draw(st.integers(1, int(targets.sum()))))

    target, goals = goal(), [goal() for _ in range(data.draw(st.integers(1, 2)))]

    def seen(asked, order):
        return sum(asked.targets[list(order)]) >= asked.needed

    escapes = False
    for order in itertools.permutations(range(n_rows)):
        stop = next(t for t in range(n_rows + 1) if all(seen(g, order[:t]) for g in goals))
        escapes = escapes or not seen(target, order[:stop])
    # With several goals together the rule may miss a target, but never takes one that can stay open.
    if len(goals) == 1:
        assert is_settled(target, goals) == (not escapes)
    elif is_settled(target, goals):
        assert not escapes


def test_what_the_papers_scores_settle():
    gaps = np.array([0.0, 0.2, 0.4, 0.4, 1.0, 3.0, 5.0, 6.0])
    losses = gaps[:, None]
    ftb, ftc = make_goal("ftb", losses), make_goal("ftc", losses, tolerance=0.5)
    fb = make_goal("fb", losses, score_at=3)
    targets = gap_goals(Trainings.whole(gaps[:, None]))
    assert all(is_settled(t, [ftb, ftc, fb]) for t in targets)
    # Within the tolerance is as far as ftc goes; the rows that tie there count.
    assert [defining_value(t) for t in targets if is_settled(t, [ftc, fb])] == [0.4]
    assert all(is_settled(t, [fb]) for t in targets)
    front = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [3.0, 3.0]])
    one, whole = make_goal("fto", front), make_goal("fta", front)
    assert [is_settled(t, [one]) for t in front_goals(Trainings.whole(front))] == [True, False, False]
    assert all(is_settled(t, [one, whole]) for t in front_goals(Trainings.whole(front)))


@pytest.mark.parametrize("n_initial", [1, 3])
def test_random_search_over_all_permutations(n_initial):
    losses = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [3.0, 3.0], [np.nan, 0.0], [4.0, 4.0]])
    orders = list(itertools.permutations(range(6)))
    for targets in (front_goals(Trainings.whole(losses)), gap_goals(Trainings.whole(losses[:, :1]))):
        times = np.array([[naive_runtime(t, order, n_initial) for t in targets] for order in orders])
        budgets = np.array([0.5, 1.0, 2.0, 2.99, 3.0, 4.0, 5.0, 6.0, 10.0])
        expected = [(times <= b).mean() for b in budgets]
        np.testing.assert_allclose(random_search_share_met(targets, budgets, n_initial), expected)


def test_expected_runtime_of_random_search_is_its_score():
    losses = np.random.default_rng(0).normal(size=(50, 1))
    target = gap_goals(Trainings.whole(losses))[-1]
    rng = np.random.default_rng(1)
    found = expected_runtimes(runtimes(trials_of(losses, rng, [50] * 800), [target], 3))
    mean, std = exact_random_search(make_goal("ftb", losses), 3)
    assert abs(found.ert[0] - mean) < 4 * std / np.sqrt(800)


def test_targets_of_nothing_are_refused():
    with pytest.raises(InputError, match="no row has a value"):
        gap_goals(Trainings.whole(np.array([[np.nan]])))
    with pytest.raises(InputError, match="all objectives"):
        front_goals(Trainings.whole(np.array([[np.nan, 1.0]])))
    with pytest.raises(InputError, match="at least one target"):
        gap_goals(Trainings.whole(np.array([[0.0]])), 0)


# --- on a clock --------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2])
def test_runtimes_to_goals(m, made, trials_on):
    given = made(m)
    goals = gap_goals(given) if m == 1 else front_goals(given)
    trials = trials_on(given, m=m, n_initial=2)
    found = runtimes(trials, goals, 2)
    assert found.lengths.tolist() == [t.timing.finishes[-1] for t in trials]
    for trial, line in zip(trials, found.times, strict=True):
        least = max(given.costs[given.starts[1:3] - 1])  # the initial design: rows 0 and 1, at once
        for goal, time in zip(goals, line, strict=True):
            met, rows = np.inf, set()
            for row, losses, finish, at in zip(
                trial.rows, trial.losses, trial.timing.finishes, trial.timing.resources, strict=True
            ):
                if m == 1 and losses[0] - np.nanmin(given.final) <= goal.gaps[goal.targets].max():
                    rows.add(row)
                if m == 2:  # every checkpoint that lies on the front over all of them
                    here = range(given.starts[row], given.starts[row + 1])
                    rows |= {p for p in here if goal.targets[p] and given.resources[p] <= at}
                if len(rows) >= goal.needed:
                    met = max(finish, least)
                    break
            assert time == met


def test_goals_that_need_more_training_than_the_score_may_stay_open():
    """Row 0 is within the tolerance after one epoch, and has the best value only after two."""
    steps, losses = np.array([1.0, 2.0] * 3), np.array([[0.4], [0.0], [3.0], [2.0], [9.0], [8.0]])
    trainings = Trainings(np.array([0, 2, 4, 6]), steps, steps, losses)
    ftc, ftb = make_goal("ftc", trainings, tolerance=0.5), make_goal("ftb", trainings)
    (best,) = gap_goals(trainings)
    assert best.targets.tolist() == ftc.targets.tolist() == [True, False, False]
    assert best.counts_from[0] == 2 and ftc.counts_from[0] == 1
    assert not is_settled(best, [ftc])
    assert is_settled(best, [ftb]) and is_settled(best, [ftc, ftb])


@pytest.mark.parametrize("tolerance", [0.3, 0.6, 0.9])
def test_settled_goals_are_met_in_every_trial_that_ends_early(made, tolerance):
    given, rules = made(1), {"workers": 3, "resources": np.arange(1.0, 6), "clock": "cost"}
    goal = make_goal("ftc", given, tolerance=tolerance)
    problem = Problem(np.zeros((30, 1)), 1, 30, 2, **rules)
    trials = [
        run_trial(problem, given, ASHA, np.random.default_rng(seed), range(2), goals=[goal])
        for seed in range(30)
    ]
    ladder = gap_goals(given)
    settled = [is_settled(rung, [goal]) for rung in ladder]
    met = np.isfinite(runtimes(trials, ladder, 2).times).all(axis=0)
    assert any(settled) and not all(settled)
    assert met[settled].all()
