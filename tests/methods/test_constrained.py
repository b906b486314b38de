"""EI and EHVI times the probability of feasibility, against the same written out with scipy and numpy."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm

from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.acquisitions.improvement import (
    log_ehvi_of_all,
    log_ei_of_all,
    log_probability_below,
)
from hpobench_nmt.methods.constrained import ConstrainedModelBased
from hpobench_nmt.methods.gaussian_process import BO_M, BO_M_std
from hpobench_nmt.methods.graph_based import GB_EIF_M
from hpobench_nmt.methods.kernels import matern52

RNG = np.random.default_rng(5)
FEATURES = RNG.random((40, 2))
BEST = np.array([math.sin(5 * x) + y for x, y in FEATURES])
LOSSES = np.column_stack([BEST, -BEST + RNG.random(40)])
VIOLATIONS = np.column_stack([100 * (0.6 - FEATURES[:, 0]), FEATURES[:, 1] - 0.8])  # of unequal units


def problem(m: int) -> Problem:
    return Problem(FEATURES, m, 40, 3, constraints=("a<=0", "b<=0"))


def test_log_probability_to_the_last_digits_far_into_both_tails():
    u = np.array([-1e4, -300.0, -31.0, -29.0, -5.0, 0.0, 0.3, 9.0, 40.0])
    found = log_probability_below(np.zeros(1), -u[None], np.ones(9))
    np.testing.assert_allclose(found, log_ndtr(u), rtol=1e-12)
    two = log_probability_below(np.array([1.0, 2.0]), np.array([[0.5], [0.0]]), np.array([4.0]))
    np.testing.assert_allclose(two, log_ndtr(0.25) + log_ndtr(1.0), rtol=1e-13)
    sure = log_probability_below(np.zeros(1), np.array([[-1.0, 0.0, 1.0]]), np.zeros(3))
    assert sure.tolist() == [0.0, 0.0, -np.inf]


def test_improvement_of_all_against_the_formula():
    mean, var = np.array([0.0, 0.5, 2.0, 1.0, 3.0]), np.array([1.0, 4.0, 0.25, 0.0, 0.0])
    u = (1.5 - mean[:3]) / np.sqrt(var[:3])
    expected = np.sqrt(var[:3]) * (u * norm.cdf(u) + norm.pdf(u))
    np.testing.assert_allclose(np.exp(log_ei_of_all(mean, var, 1.5)), [*expected, 0.5, 0.0], rtol=1e-12)


def test_hypervolume_of_all_against_a_simulation_and_without_ties_in_the_far():
    front, reference = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([2.0, 2.0])
    mean, var = np.array([[0.5, 1.5, 90.0, 95.0], [0.4, 1.0, 90.0, 95.0]]), np.array([0.3, 0.1, 1e-3, 1e-3])
    found = log_ehvi_of_all(mean, var, front, reference)
    draws = RNG.normal(mean.T[:2, None], np.sqrt(var)[:2, None, None], (2, 50_000, 2))
    x, y = np.minimum(draws, 2.0).transpose(2, 0, 1)
    # The area between the point and the reference, less what the two points dominate of it.
    taken = (2 - np.maximum(x, 0)) * (2 - np.maximum(y, 1)) + (2 - np.maximum(x, 1)) * (2 - np.maximum(y, 0))
    gain = (2 - x) * (2 - y) - (taken - (2 - np.maximum(x, 1)) * (2 - np.maximum(y, 1)))
    np.testing.assert_allclose(np.exp(found[:2]), gain.mean(axis=1), rtol=0.05)
    assert found[1] > -745 > found[2] > found[3] > -np.inf


def centre_and_spread(values):
    """Mean and standard deviation, of equal values exactly the value, and 1."""
    apart = np.ptp(values, axis=0) > 0
    return np.where(apart, values.mean(axis=0), values[0]), np.where(apart, values.std(axis=0), 1.0)


def naive_row(m, seen, standardise, running=(), losses=LOSSES, violations=VIOLATIONS):
    """The row to ask for, with matrices and scipy. What is running counts for the variance alone."""
    K, s = matern52(FEATURES, FEATURES), 1e-3
    y, c = losses[seen, :m], violations[seen]
    c_mean, c_std = centre_and_spread(c)
    y_mean, y_std = centre_and_spread(y) if standardise else (np.zeros(m), np.ones(m))
    solved = np.linalg.solve(K[np.ix_(seen, seen)] + s * s * np.eye(len(seen)), K[seen])
    mean = solved.T @ np.column_stack([(y - y_mean) / y_std, (c - c_mean) / c_std])
    known = [*seen, *running]
    solved = np.linalg.solve(K[np.ix_(known, known)] + s * s * np.eye(len(known)), K[known])
    sd = np.sqrt(np.maximum(1.0 - (K[known] * solved).sum(axis=0), 0))
    value = log_ndtr((-c_mean / c_std - mean[:, m:]) / sd[:, None]).sum(axis=1)
    kept = ((y - y_mean) / y_std)[(c <= 0).all(axis=1)]
    if len(kept) and m == 1:
        u = (kept.min() - mean[:, 0]) / sd
        improvement = sd * (u * norm.cdf(u) + norm.pdf(u))
        assert improvement.max() > 1e-200
        value += np.log(np.maximum(improvement, 1e-300))
    elif len(kept):
        scaled = (y - y_mean) / y_std
        low, high = scaled.min(axis=0), scaled.max(axis=0)
        front = kept[pareto_front(kept)]
        reference = high + 0.1 * (high - low)
        value += log_ehvi_of_all(mean[:, :2].T.copy(), sd**2, front[front[:, 0].argsort()], reference)
    value[known] = -np.inf
    return int(value.argmax())


def told_of(rows, factory=BO_M_std, m=1, losses=LOSSES, violations=VIOLATIONS):
    """A method that is told of these rows."""
    method = factory(problem(m), np.random.default_rng(0))
    for row in rows:
        method.tell_constrained(row, losses[row, :m], violations[row])
    return method


each_kind = pytest.mark.parametrize(
    ("factory", "m", "standardise"),
    [(BO_M_std, 1, True), (BO_M, 1, False), (BO_M_std, 2, True), (BO_M, 2, False)],
)


@each_kind
def test_every_row_of_a_trial_is_that_of_the_formulas(factory, m, standardise):
    infeasible = np.flatnonzero((VIOLATIONS > 0).any(axis=1))
    seen = infeasible[:3].tolist()  # none is feasible: the first steps look for one
    method = told_of(seen, factory, m)
    assert isinstance(method, ConstrainedModelBased)
    for _ in range(9):
        row = method.ask()
        assert row == naive_row(m, seen, standardise)
        method.tell_constrained(row, LOSSES[row, :m], VIOLATIONS[row])
        seen.append(row)
    assert len({*seen} - {*infeasible.tolist()}) > 5


@each_kind
def test_with_several_workers_too(factory, m, standardise):
    method = factory(problem(m), np.random.default_rng(0))
    running, seen = {}, []
    for step in range(14):
        while len(running) < 3:
            row = method.suggest(running)
            if len(seen) > 1:
                assert row == naive_row(m, seen, standardise, list(running))
            running[row] = math.inf
        done = list(running)[step % 3]
        del running[done]
        method.tell_constrained(done, LOSSES[done, :m], VIOLATIONS[done])
        seen.append(done)
    assert len(seen) == len(set(seen))


def test_rows_that_lack_a_loss_or_a_violation_only_leave():
    told, spared = (told_of(range(3)) for _ in range(2))
    for row, losses, violations in ((7, [np.nan], [0.0, 0.0]), (8, [1.0], [np.nan, 0.0])):
        told.tell_constrained(row, np.array(losses), np.array(violations))
    rows = []
    for _ in range(38):  # all but those seen, and those that have left
        rows.append((told.ask(), spared.ask()))
        if rows[-1][0] != rows[-1][1]:
            break
        for method in (told, spared):
            method.tell_constrained(rows[-1][0], LOSSES[rows[-1][0], :1], VIOLATIONS[rows[-1][0]])
    assert rows[-1][1] in (7, 8)  # nothing else makes a difference
    assert rows[-1][0] not in (7, 8)


def test_told_without_violations_or_without_any_loss_a_row_only_leaves():
    method, asked = told_of([]), set()
    for _ in range(40):
        asked.add(row := method.ask())
        method.tell(row, np.zeros(1))
    assert asked == set(range(40))


def test_where_nothing_is_to_be_expected_the_first_row_left_is_asked_for():
    """The bound is missed by so much that no row has a probability above 0."""
    method = BO_M_std(Problem(FEATURES, 1, 40, 3, constraints=("a<=0",)), np.random.default_rng(0))
    for row in (0, 1, 4):
        method.tell_constrained(row, LOSSES[row, :1], np.array([1e200]))
    assert method.ask() == 2


def test_what_has_no_constrained_form_does_not_know_constraints():
    method = GB_EIF_M(problem(1), np.random.default_rng(0))
    assert not hasattr(method, "tell_constrained")
    assert not hasattr(BO_M(Problem(FEATURES, 1, 40, 3), np.random.default_rng(0)), "tell_constrained")


@pytest.mark.parametrize(("factory", "standardise"), [(BO_M_std, True), (BO_M, False)])
def test_equal_violations_and_equal_losses_are_centred_and_not_scaled(factory, standardise):
    """Three times 0.1 is not 0.3, so that the standard deviation of equal values may be a rounding error."""
    losses = np.where(np.arange(40) < 3, 0.1, LOSSES[:, 0])[:, None] if standardise else LOSSES[:, :1]
    violations = np.column_stack([np.full(40, 0.1), VIOLATIONS[:, 1]])
    asked = told_of(range(3), factory, 1, losses, violations).ask()
    assert asked == naive_row(1, [0, 1, 2], standardise, (), losses, violations)
    for row in range(40):
        assert told_of([row], factory).ask() == naive_row(1, [row], standardise)


def test_more_rows_than_the_budget_can_be_told():
    few, many = (
        BO_M_std(Problem(FEATURES, 1, lookups, 1, constraints=("a<=0", "b<=0")), np.random.default_rng(0))
        for lookups in (2, 40)
    )
    for method in (few, many):
        for row in range(7):
            method.tell_constrained(row, LOSSES[row, :1], VIOLATIONS[row])
    assert few.ask() == many.ask()


def test_each_of_two_losses_has_its_own_reference():
    losses = LOSSES[:, :2] * (1.0, 100.0)
    feasible = np.flatnonzero((VIOLATIONS <= 0).all(axis=1)).tolist()
    for start in range(8):
        seen = feasible[start : start + 4]
        assert told_of(seen, BO_M, 2, losses).ask() == naive_row(2, seen, False, (), losses)
