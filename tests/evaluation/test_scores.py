from __future__ import annotations

import functools
import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.scores import (
    SCORES,
    Summary,
    answer,
    make_goal,
    score_names,
    summary_of,
)

NEEDS_BUDGET = ("fb", "fbp", "fbh")
SINGLE, MULTI = ("ftb", "ftc", "fb"), ("fto", "fta", "fbp", "fbh")


def as_losses(cents):
    """Losses with two decimals, as tables have them, from whole hundredths; None where one is missing."""
    return np.array([[np.nan if cell is None else cell / 100 for cell in row] for row in cents])


def score_of(goal, losses, rows, n_initial=1):
    """The score of a trial that looked up these rows."""
    rows = np.array(rows, dtype=np.int64)
    return answer(goal, Trajectory(rows, losses[rows]), n_initial)


def naive_targets(score, cents, tolerance, ties):
    """Rows that count, in exact arithmetic, and how many of them are needed."""
    complete = [row for row in range(len(cents)) if None not in cents[row]]
    if SCORES[score].n_objectives == 2:

        def beats(a, b):
            return a != b and all(x <= y for x, y in zip(a, b, strict=True))

        front = [r for r in complete if not any(beats(cents[other], cents[r]) for other in complete)]
        return front, 1 if score == "fto" else len(front)
    best = min(cents[row][0] for row in complete)
    reach = tolerance if score == "ftc" else 0
    targets = [row for row in complete if cents[row][0] - best <= reach]
    if score == "ftb" and ties == "first":
        targets = targets[:1]
    return targets, 1


def naive_score(score, cents, rows, n_initial, tolerance=0, budget=None, ties="any"):
    """The score as section 4 of the paper defines it; None where the trial stopped too early to say."""
    targets, needed = naive_targets(score, cents, tolerance, ties)
    if score not in NEEDS_BUDGET:
        found = 0
        for time, row in enumerate(rows, start=1):
            found += row in targets
            if found == needed:
                return max(time, n_initial)
        return None
    within = rows[:budget]
    found = sum(row in targets for row in within)
    if len(within) < budget and len(within) < len(cents) and found < needed:
        return None
    if score == "fbp":
        return found
    if score == "fbh":
        return naive_volume(cents, within, targets) / naive_volume(cents, targets, targets)
    known = [cents[row][0] for row in within if cents[row][0] is not None]
    best = min(row[0] for row in cents if row[0] is not None)
    return (min(known) - best) / 100 if known else None


def naive_volume(cents, rows, front):
    """The volume that rows dominate up to 1.1, by inclusion and exclusion of their boxes."""
    complete = [row for row in cents if None not in row]
    m = len(cents[0])
    low = [min(cents[row][j] for row in front) for j in range(m)]
    high = [max(cents[row][j] for row in front) for j in range(m)]
    high = [max(row[j] for row in complete) if high[j] == low[j] else high[j] for j in range(m)]
    # Where all rows agree, the unit is that of the loss, of which these are hundredths.
    spread = [(high[j] - low[j]) or 100 for j in range(m)]
    points = [[(cents[r][j] - low[j]) / spread[j] for j in range(m)] for r in rows if None not in cents[r]]
    points = [p for p in points if max(p) < 1.1]
    volume = 0.0
    for k in range(1, len(points) + 1):
        for some in itertools.combinations(points, k):
            volume -= (-1) ** k * math.prod(1.1 - max(p[j] for p in some) for j in range(m))
    return volume


@st.composite
def trials(draw, score):
    """A table in hundredths, some with holes, and the rows that a trial looked up."""
    cell = st.sampled_from([None, -1466, -1465, -1416, -1415, -1366, 7, 14])
    n_objectives = 1 if SCORES[score].n_objectives == 1 else draw(st.integers(2, 3))
    cents = draw(st.lists(st.tuples(*[cell] * n_objectives), min_size=1, max_size=9))
    assume(any(None not in row for row in cents))
    order = draw(st.permutations(range(len(cents))))
    return cents, order[: draw(st.integers(0, len(cents)))]


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    n_initial=st.integers(1, 4),
    tolerance=st.sampled_from([0, 1, 49, 50, 51, 100]),
    budget=st.integers(1, 12),
    ties=st.sampled_from(["any", "first"]),
)
def test_score_is_that_of_its_definition(score, data, n_initial, tolerance, budget, ties):
    cents, rows = data.draw(trials(score))
    losses = as_losses(cents)
    asked = make_goal(score, losses, tolerance=tolerance / 100, score_at=budget, ties=ties)
    given_answer = score_of(asked, losses, rows, n_initial)
    expected = naive_score(score, cents, rows, n_initial, tolerance, budget, ties)
    assert given_answer == pytest.approx(math.nan if expected is None else expected, nan_ok=True, abs=1e-9)
    targets, needed = naive_targets(score, cents, tolerance, ties)
    assert np.flatnonzero(asked.targets).tolist() == targets
    assert asked.needed == needed


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=50, deadline=None)
@given(data=st.data(), n_initial=st.integers(1, 3), budget=st.integers(1, 12))
def test_what_comes_after_a_settled_goal_cannot_change_the_score(score, data, n_initial, budget):
    cents, _ = data.draw(trials(score))
    order = data.draw(st.permutations(range(len(cents))))
    losses = as_losses(cents)
    asked = make_goal(score, losses, score_at=budget)
    settled = next(
        (
            time
            for time in range(1, len(order) + 1)
            if asked.targets[list(order[:time])].sum() >= asked.needed
            or (asked.score_at is not None and time >= asked.score_at)
        ),
        len(order),
    )
    answers = [score_of(asked, losses, order[:time], n_initial) for time in range(settled, len(order) + 1)]
    np.testing.assert_array_equal(answers, answers[-1])


def test_three_rows_share_the_best_value():
    losses = -np.array([[10.0], [14.66], [12.0], [14.66], [14.66]])
    rows = [0, 4, 2, 1, 3]
    assert score_of(make_goal("ftb", losses), losses, rows) == 2
    assert score_of(make_goal("ftb", losses, ties="first"), losses, rows) == 4


@pytest.mark.parametrize(
    ("best", "other", "tolerance"),
    [(14.66, 14.16, 0.5), (33.74, 33.24, 0.5), (20.15, 19.15, 1.0), (0.3, 0.2, 0.1), (1e6 + 0.3, 1e6, 0.3)],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_gap_that_equals_the_tolerance_counts(best, other, tolerance, sign):
    losses = np.array([[-best], [-other]]) if sign < 0 else np.array([[other], [best]])
    assert make_goal("ftc", losses, tolerance=tolerance).targets.all()
    assert make_goal("ftc", losses, tolerance=0.9 * tolerance).targets.sum() == 1


def test_target_met_in_the_initial_design_counts_the_whole_design():
    losses = np.array([[1.0], [2.0], [3.0], [4.0]])
    asked = make_goal("ftb", losses)
    assert [score_of(asked, losses, rows, 3) for rows in ([0, 1, 2], [1, 2, 0], [1, 2, 3, 0])] == [3, 3, 4]


def test_missing_values_are_never_targets():
    losses = np.array([[np.nan, 0.0], [5.0, 5.0], [0.0, np.nan], [np.nan, np.nan]])
    for score in MULTI:
        assert make_goal(score, losses, score_at=2).targets.tolist() == [False, True, False, False]
    for score in SINGLE:
        asked = make_goal(score, losses[:, :1], tolerance=9.0, score_at=2)
        assert not asked.targets[[0, 3]].any()
        assert asked.targets[2]


def test_budget_larger_than_the_table_is_spent_when_the_table_is():
    losses = np.array([[3.0], [1.0], [np.nan]])
    asked = make_goal("fb", losses, score_at=50)
    assert score_of(asked, losses, [2, 0, 1]) == 0.0
    assert math.isnan(score_of(asked, losses, [2, 0]))
    assert score_of(asked, losses, [1]) == 0.0  # nothing can change it any more
    two = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])
    front = make_goal("fbp", two, score_at=50)
    assert math.isnan(score_of(front, two, [0, 2]))
    assert score_of(front, two, [0, 2, 1]) == 2.0


def test_trial_that_saw_only_failed_trainings_has_no_gap():
    losses = np.array([[np.nan], [np.nan], [1.0]])
    assert math.isnan(score_of(make_goal("fb", losses, score_at=2), losses, [0, 1]))


@pytest.mark.parametrize(
    ("score", "losses", "options", "message"),
    [
        ("ftb", np.zeros((3, 2)), {}, "one objective, not 2"),
        ("fto", np.zeros((3, 1)), {}, "two or more objectives"),
        ("ftb", np.full((3, 1), np.nan), {}, "no row has a value for every objective"),
        ("fto", np.array([[1.0, np.nan], [np.nan, 1.0]]), {}, "no row has a value for every objective"),
        ("fb", np.zeros((3, 1)), {}, "above 0"),
        ("fbp", np.zeros((3, 2)), {"score_at": 0}, "above 0"),
        ("ftc", np.zeros((3, 1)), {"tolerance": -0.1}, "0 or more, not -0.1"),
        ("ftc", np.zeros((3, 1)), {"tolerance": np.nan}, "0 or more, not nan"),
        ("ftx", np.zeros((3, 1)), {}, "unknown score 'ftx'"),
    ],
)
def test_questions_that_make_no_sense(score, losses, options, message):
    with pytest.raises(InputError, match=message):
        make_goal(score, losses, **options)


def test_what_is_known_of_each_score():
    assert score_names(1) == SINGLE
    assert score_names(2) == score_names(3) == MULTI
    assert [s.name for s in SCORES.values() if not s.lower_is_better] == ["fbp", "fbh"]
    assert tuple(s.name for s in SCORES.values() if s.needs_score_at) == NEEDS_BUDGET
    assert [s.name for s in SCORES.values() if s.needs_tolerance] == ["ftc"]
    assert [s.name for s in SCORES.values() if s.counts_front] == ["fto", "fta", "fbp"]
    assert [s.name for s in SCORES.values() if s.of_choice] == ["fb"]
    assert [score.digits for score in SCORES.values()] == [0, 0, 2, 0, 0, 1, 3]
    assert [s.arrow for s in SCORES.values()] == ["↓"] * 5 + ["↑"] * 2


def test_a_row_as_good_as_a_best_of_zero_is_within_a_tolerance_of_zero():
    """There is no slack for rounding there."""
    losses = np.array([[0.5], [0.0], [0.0], [1e-300]])
    goal = make_goal("ftc", Trainings.whole(losses), tolerance=0.0)
    assert goal.targets.tolist() == [False, True, True, False]


# --- over trials -----------------------------------------------------------------------------------

FIVE = np.array([[4.0], [3.0], [2.0], [1.0], [0.0]])


def trial(rows, losses=FIVE, failure=""):
    return Trajectory(np.array(rows, dtype=np.int64), losses[rows], failure)


def summarise(goal, trials, n_initial):
    sound = [t for t in trials if not t.failure]
    answers = np.array([answer(goal, t, n_initial) for t in sound])
    lengths = np.array([float(len(t.rows)) for t in sound])
    return summary_of(goal, answers, lengths, len(trials) - len(sound))


NAN = math.nan
approx = functools.partial(pytest.approx, nan_ok=True)


def numbers(summary):
    """All that a summary has: its values, and how many trials there were, lacked an answer and failed."""
    values = summary.mean, summary.std, summary.stderr, summary.at_least
    return *values, summary.trials, summary.unanswered, summary.failed


def test_mean_and_population_spread():
    summary = summarise(make_goal("ftb", FIVE), [trial([4, 0]), trial([0, 1, 4]), trial([3, 2, 1, 0, 4])], 1)
    std = statistics.pstdev([1, 3, 5])
    assert numbers(summary) == approx((3.0, std, std / 3**0.5, NAN, 3, 0, 0))


def test_one_censored_trial_leaves_only_a_lower_bound():
    summary = summarise(make_goal("ftb", FIVE), [trial([4]), trial([0, 1, 2, 3]), trial([0, 4])], 1)
    assert numbers(summary) == approx((NAN, NAN, NAN, (1 + 4 + 2) / 3, 3, 1, 0))


def test_gaps_have_no_lower_bound():
    summary = summarise(make_goal("fb", FIVE, score_at=3), [trial([0]), trial([0, 1, 2])], 1)
    assert numbers(summary) == approx((NAN, NAN, NAN, NAN, 2, 1, 0))


def test_failed_trials_count_in_no_mean():
    trials = [trial([4]), trial([0, 4], failure="ask raised ZeroDivisionError"), trial([0, 1, 4])]
    summary = summarise(make_goal("ftb", FIVE), trials, 1)
    assert numbers(summary) == approx((2.0, 1.0, 1.0 / 2**0.5, NAN, 3, 0, 1))
    # Nor in the bound of the others.
    summary = summarise(make_goal("ftb", FIVE), [*trials, trial([0, 1, 2, 3])], 1)
    assert numbers(summary) == approx((NAN, NAN, NAN, (1 + 3 + 4) / 3, 4, 1, 1))


@pytest.mark.parametrize("trials", [[], [trial([4], failure="no"), trial([0], failure="no")]])
def test_no_sound_trial_no_mean(trials):
    summary = summarise(make_goal("ftb", FIVE), trials, 1)
    assert numbers(summary) == approx((NAN, NAN, NAN, NAN, len(trials), 0, len(trials)))


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_initial=st.integers(1, 3), budget=st.integers(1, 6))
def test_summary_of_naive_scores(score, data, n_initial, budget):
    cents, _ = data.draw(trials(score))
    losses = as_losses(cents)
    runs = data.draw(
        st.lists(
            st.tuples(st.permutations(range(len(cents))), st.integers(0, len(cents)), st.booleans()),
            max_size=6,
        )
    )
    trajectories = [trial(list(o[:n]), losses, "stopped" if failed else "") for o, n, failed in runs]
    summary = summarise(make_goal(score, losses, score_at=budget), trajectories, n_initial)
    sound = [list(o[:n]) for o, n, failed in runs if not failed]
    scores = [naive_score(score, cents, rows, n_initial, budget=budget) for rows in sound]
    mean, std, _, at_least, *counts = numbers(summary)
    assert counts == [len(runs), scores.count(None), len(runs) - len(sound)]
    complete = scores and None not in scores
    assert mean == approx(statistics.fmean(scores) if complete else NAN, abs=1e-9)
    assert std == approx(statistics.pstdev(scores) if complete else NAN, abs=1e-6)
    bounded = None in scores and score not in NEEDS_BUDGET
    bounds = [len(rows) if s is None else s for rows, s in zip(sound, scores, strict=True)]
    assert at_least == approx(statistics.fmean(bounds) if bounded else NAN)


def test_standard_error_of_no_trial_is_unknown():
    assert math.isnan(Summary(np.nan, np.nan, 2, failed=2).stderr)
