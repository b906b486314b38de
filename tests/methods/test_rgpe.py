"""RGPE against a naive twin, and what transfer does where sources help and where they mislead."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem, Source
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.methods.transfer.rgpe import (
    DRAWS,
    RGPE,
    PortfolioBO,
    RankedDraws,
    ensemble_weights,
    own_misranked,
)
from hpobench_nmt.methods.transfer.transfer_models import (
    TransferModel,
    dominated_by,
    portfolio,
    transfer_models,
)
from hpobench_nmt.testing import checks_for

N_ROWS = 80
# The others ask nothing of a method with sources that they do not ask without (test_methods.py).
CHECKS = (
    "keeps_trials_apart",
    "survives_small_tables",
    "leaves_its_input_alone",
    "depends_on_its_generator_alone_on_a_clock",
    "keeps_to_its_budget_of_rows",
)


def smooth(features, shift, n_losses=1):
    """Bowls with waves."""
    bowls = [
        ((features - at) ** 2 + 0.1 * np.sin(12 * (features - at))).sum(axis=1) for at in (shift, 1 - shift)
    ]
    return np.stack(bowls[:n_losses], axis=1)


def problem_with(sources, n_losses=1, n_initial=0):
    features = np.random.default_rng(0).uniform(size=(N_ROWS, 2))
    return Problem(features, n_losses, N_ROWS, n_initial, sources=tuple(sources))


def source(shift, seed, n_losses=1, sign=1.0, missing=()):
    features = np.random.default_rng(seed).uniform(-0.2, 1.2, size=(50, 2))
    losses = 30.0 + 10.0 * sign * smooth(features, shift, n_losses)
    losses[list(missing)] = np.nan
    return Source(f"source{seed}", features, losses)


def dense(given, features):
    """Mean and covariance that a source expects, by one solve."""
    known = ~np.isnan(given.losses).any(axis=1)
    at, y = given.features[known], given.losses[known]
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    cross = matern52(features, at)
    gain = np.linalg.solve(matern52(at, at) + 0.01 * np.eye(len(at)), cross.T).T
    return (gain @ y).T, matern52(features, features) - gain @ cross.T


@pytest.mark.parametrize("factory", [RGPE, PortfolioBO])
@pytest.mark.parametrize("n_losses", [1, 2])
def test_conformance(factory, n_losses):
    """With sources, too: the checks make their own problems, so these are put into them."""

    def make(problem, rng):
        width = problem.features.shape[1]
        given = np.random.default_rng(1).uniform(size=(20, width))
        told = tuple(
            Source(f"s{i}", given, np.cos(i + given[:, :1] * np.arange(1, n_losses + 1))) for i in (0, 1)
        )
        with_sources = Problem(
            problem.features, n_losses, problem.lookups, problem.n_initial, workers=problem.workers,
            resources=problem.resources, resume=problem.resume, clock=problem.clock, sources=told,
        )  # fmt: skip
        return factory(with_sources, rng)

    for check in checks_for(make, n_losses):
        if check.__name__ in CHECKS:
            check(make, n_losses)


def test_a_sources_model_is_a_dense_posterior():
    given = source(0.3, 1, n_losses=2, missing=(0, 7))
    problem = problem_with([given], 2)
    model = TransferModel(given, problem.features)
    mean, covariance = dense(given, problem.features)
    np.testing.assert_allclose(model.mean, mean, atol=1e-9)
    np.testing.assert_allclose(model.var, np.diag(covariance), atol=1e-9)
    np.testing.assert_allclose(model.covariance(3, np.array([3, 9, 1])), covariance[3, [3, 9, 1]], atol=1e-9)


def test_draws_of_a_source_have_the_moments_of_its_joint_posterior():
    given = source(0.3, 1)
    problem = problem_with([given])
    model, rows = TransferModel(given, problem.features), [4, 20, 4, 63, 7]
    mean, covariance = dense(given, problem.features)
    values = []
    for seed in range(40):
        draws = RankedDraws(model, 0, np.random.default_rng(seed))
        for row in rows:
            draws.observe(row, 0.0)
        values.append(draws._values)
    values = np.concatenate(values)
    sd = np.sqrt(np.diag(covariance)[rows])
    assert (np.abs(values.mean(axis=0) - mean[0, rows]) < 4.5 * sd / len(values) ** 0.5).all()
    error = np.abs(np.cov(values.T) - covariance[np.ix_(rows, rows)])
    assert (error < 6 * np.outer(sd, sd) / len(values) ** 0.5).all()


def naive_misranked(draws, y, against=None):
    """Over all ordered pairs, one by one; `against`: what the second of a pair is compared by."""
    counts = np.zeros(len(draws), int)
    for d, f in enumerate(draws):
        other = f if against is None else against
        for j, k in itertools.permutations(range(len(y)), 2):
            counts[d] += (f[j] < other[k]) != (y[j] < y[k])
    return counts


def naive_weights(own, others):
    """The share of draws in which a model is the best, by the letter."""
    limit, weights = np.percentile(own, 95), np.zeros(1 + len(others))
    left = [i for i, wrong in enumerate(others) if np.median(wrong) <= limit]
    for d in range(len(own)):
        found = {0: own[d], **{1 + i: others[i][d] for i in left}}
        winners = [i for i, wrong in found.items() if wrong == min(found.values())]
        for winner in [0] if 0 in winners else winners:
            weights[winner] += 1 / (1 if 0 in winners else len(winners))
    return weights / len(own)


@pytest.mark.parametrize("ties", [False, True])
def test_weights_as_a_naive_twin_counts_them(ties):
    given = [source(0.3, 1), source(0.35, 2), source(0.8, 3), source(0.3, 4, sign=-1.0)]
    problem = problem_with(given)
    losses = smooth(problem.features, 0.3)
    losses = np.round(losses * 4) / 4 if ties else losses
    method = RGPE(problem, np.random.default_rng(0))
    rows = [3, 40, 41, 17, 60, 22, 9]
    for n, row in enumerate(rows, 1):
        method.tell(row, losses[row])
        y = standardised(losses[rows[:n], 0])
        state = method.rng.bit_generator.state
        found = method.weights(0, y)
        assert found.sum() == pytest.approx(1.0)
        if n < 3:
            assert found.tolist() == [0.2] * 5
            continue
        # The problem's own model, fitted anew without each of the rows.
        method.rng.bit_generator.state = state
        inner = matern52(problem.features[rows[:n]], problem.features[rows[:n]]) + 1e-6 * np.eye(n)
        mean, var = np.empty(n), np.empty(n)
        for j in range(n):
            others = np.delete(np.arange(n), j)
            gain = np.linalg.solve(inner[np.ix_(others, others)], inner[others, j])
            mean[j], var[j] = gain @ y[others], inner[j, j] - gain @ inner[others, j]
        draws = mean + np.sqrt(var) * method.rng.standard_normal((DRAWS, n))
        own = naive_misranked(draws, y, against=y)
        of_sources = [naive_misranked(d._values, losses[rows[:n], 0]) for d in method._draws[0]]
        for ours, naive in zip(method._draws[0], of_sources, strict=True):
            np.testing.assert_array_equal(ours.misranked, naive)
        np.testing.assert_array_equal(own_misranked(draws, y), own)
        np.testing.assert_allclose(found, naive_weights(own, of_sources))
    assert found[1:3].sum() > 0.5  # those that are alike
    assert found[3:].sum() < 0.05  # those that are not


def test_a_single_source_is_weighed_too():
    problem = problem_with([source(0.3, 4, sign=-1.0)])
    method, losses = RGPE(problem, np.random.default_rng(0)), smooth(problem.features, 0.3)
    rows = [3, 40, 41, 17, 60, 22, 9]
    for row in rows:
        method.tell(row, losses[row])
    own, other = method.weights(0, standardised(losses[rows, 0]))
    assert own + other == pytest.approx(1.0) and other < 0.05


def test_weights_of_ties_and_of_poor_sources_by_hand():
    own = [4, 4, 4, 4]
    assert ensemble_weights(np.array([own, [4, 3, 3, 9], [5, 3, 2, 9], [9, 9, 0, 9]])).tolist() == [
        0.5, 0.125, 0.375, 0.0,
    ]  # fmt: skip


def test_a_source_is_poor_above_the_95th_percentile_of_the_problems_own_model():
    own = np.arange(101)  # whose 95th percentile is 95
    for misranked, weight in ((95, 5 / 101), (96, 0.0)):
        found = ensemble_weights(np.array([own, np.full(101, misranked)]))
        np.testing.assert_allclose(found, [1 - weight, weight])


def test_each_objective_is_weighed_by_its_own_losses(monkeypatch):
    given = [source(0.3, 1, 2), source(0.5, 2, 2)]
    problem = problem_with(given, 2)
    method = RGPE(problem, np.random.default_rng(0))
    for row in (5, 6, 7, 8):
        method.tell(row, smooth(problem.features, 0.3, 2)[row])
    y = np.array([[1.0, -1.0, 0.5, -0.5], [-1.0, 1.0, 0.25, -0.25]])
    asked, weights = [], method.weights
    monkeypatch.setattr(method, "weights", lambda t, own: asked.append((t, own.tolist())) or weights(t, own))
    method.belief(y, method.posterior.var)
    assert asked == [(0, y[0].tolist()), (1, y[1].tolist())]


@pytest.mark.parametrize("ours", [(1, 1), (1, -1), (-1, 1)])
@pytest.mark.parametrize("theirs", [(1, -1), (-1, 1), (-1, -1)])
def test_each_loss_of_a_source_is_compared_with_the_same_loss_of_the_problem(ours, theirs):
    """Both losses are one function or its reverse: a source ranks all pairs of a loss right, or none."""
    features = np.random.default_rng(2).random((40, 2))
    loss = ((features - 0.3) ** 2).sum(axis=1)[:, None]
    problem = Problem(features, 2, 40, 0, sources=(Source("s", features, loss * np.array(theirs)),))
    method = RGPE(problem, np.random.default_rng(0))
    for row in range(12):
        method.tell(row, loss[row] * np.array(ours))
    y = standardised(loss[:12, 0])
    for t in (0, 1):
        _, weight = method.weights(t, ours[t] * y)
        assert (weight > 0.2) == (ours[t] == theirs[t])


def test_the_ensemble_is_the_weighted_sum():
    given = [source(0.3, 1, 2), source(0.5, 2, 2)]
    problem = problem_with(given, 2)
    losses = smooth(problem.features, 0.3, 2)
    method = RGPE(problem, np.random.default_rng(0))
    for row in (5, 6):
        method.tell(row, losses[row])
    y = np.array([[1.0, -1.0], [-1.0, 1.0]])
    mean, var = method.belief(y, method.posterior.var)  # before three rows, all weights are a third
    parts = [dense(s, problem.features) for s in given]
    for t in range(2):
        expected = (method.posterior.mean(y[t]) + parts[0][0][t] + parts[1][0][t]) / 3
        np.testing.assert_allclose(mean[t], expected, atol=1e-9)
        spread = (method.posterior.var + np.diag(parts[0][1]) + np.diag(parts[1][1])) / 9
        np.testing.assert_allclose(var[t], spread, atol=1e-9)


def test_portfolio_by_hand():
    """Three sources: two agree on row 1, the third prefers row 3; row 0 is a compromise."""

    class Known:
        def __init__(self, mean):
            self.mean = np.array([mean], dtype=float)

    ranks = [[1, 0, 2, 3], [1, 0, 3, 2], [1, 3, 2, 0]]
    for size, expected in ((1, (0,)), (2, (0, 1)), (3, (0, 1, 3)), (9, (0, 1, 3))):
        problem = Problem(np.zeros((4, 1)), 1, 4, 0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "hpobench_nmt.methods.transfer.transfer_models.transfer_models",
                lambda _: tuple(map(Known, ranks)),
            )
            assert portfolio(problem, size) == expected


@pytest.mark.parametrize("factory", [RGPE, PortfolioBO])
def test_it_begins_with_the_five_rows_of_the_portfolio_that_are_left(factory):
    given = [source(shift, seed) for seed, shift in enumerate((0.1, 0.3, 0.5, 0.7, 0.8, 0.95))]
    problem = problem_with(given)
    rows = list(portfolio(problem, 5))
    assert len(set(rows)) == 5
    method, losses = factory(problem, np.random.default_rng(0)), smooth(problem.features, 0.3)
    assert method.suggest({rows[0]: 1.0}) == rows[1]
    method.tell(rows[1], losses[rows[1]])
    method.tell(rows[2], np.full(1, np.nan))
    for row in (rows[0], rows[3], rows[4]):
        assert method.ask() == row
        method.tell(row, losses[row])
    assert len(method.posterior.seen) == 4
    assert method.ask() not in rows
    with pytest.raises(InputError, match="supports 1 or 2 objectives, not 3"):
        factory(Problem(problem.features, 3, 9, 3), np.random.default_rng(0))


def test_sources_without_a_whole_row_and_constant_losses():
    nothing, constant = source(0.3, 1, 2), source(0.3, 2, 2)
    nothing.losses[:, 1] = np.nan
    constant.losses[:, 0] = 7.0
    problem = problem_with([nothing, constant], 2)
    [model] = transfer_models(problem)
    assert model.mean[0].tolist() == [0.0] * N_ROWS
    np.testing.assert_allclose(model.mean[1], TransferModel(source(0.3, 2, 2), problem.features).mean[1])
    assert portfolio(problem_with([nothing], 2), 5) == ()
    assert (model.var >= 0).all()
    here = Source("here", problem.features[:30], smooth(problem.features[:30], 0.3))
    assert (TransferModel(here, problem.features).var[:30] < 0.01).all()


def test_dominated_by():
    losses = np.array([[1.0, 2.0, 2.0, 3.0, 1.0], [3.0, 2.0, 2.0, 3.0, 3.0]])
    assert dominated_by(losses).tolist() == [0, 0, 0, 4, 0]
    assert dominated_by(losses[:1]).tolist() == [0, 2, 2, 4, 0]
    some = np.array([[1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 0.0, 3.0]])  # the second by the first alone
    for each, counts in ((some, [0, 1, 0, 0]), (some[:1], [1, 2, 3, 0])):
        assert dominated_by(each).tolist() == counts and dominated_by(each).dtype == np.int64


@pytest.mark.parametrize("n_losses", [1, 2])
def test_without_sources_it_is_bayesian_optimisation(n_losses):
    problem = problem_with((), n_losses, n_initial=3)
    losses = smooth(problem.features, 0.3, n_losses) ** 3
    name = "BO_EI_M_std" if n_losses == 1 else "BO_M_std"
    rows = [
        run_trial(problem, Trainings.whole(losses), method, np.random.default_rng(0), [0, 1, 2]).rows.tolist()
        for method in (RGPE, PortfolioBO, BUILT_IN[name].load())
    ]
    assert rows[0][:40] == rows[1][:40] == rows[2][:40]


def lookups_until_best(sources, method, seed):
    problem = problem_with(sources)
    losses = smooth(problem.features, 0.3)
    rng = np.random.default_rng(seed)
    rows = run_trial(problem, Trainings.whole(losses), method, rng, []).rows.tolist()
    return 1 + rows.index(int(losses.argmin()))


def test_sources_that_are_alike_save_look_ups_and_others_do_little_harm():
    alike = [source(0.3, 1), source(0.32, 2)]
    contrary = [source(0.3, 3, sign=-1.0)]
    plain = np.mean([lookups_until_best((), RGPE, seed) for seed in range(6)])
    assert max(lookups_until_best(alike, RGPE, seed) for seed in range(3)) <= 0.5 * plain
    assert max(lookups_until_best(contrary, RGPE, seed) for seed in range(3)) <= 2 * plain
