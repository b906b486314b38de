"""Each choice of BO_auto against a twin that inverts every matrix, written from docs/explanation/auto.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from moocore import hypervolume
from scipy.stats import multivariate_t, norm

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.methods import auto
from hpobench_nmt.methods.auto import AutoBO

ROWS = 14


def matern52(squared):
    r = np.sqrt(5.0 * squared)
    return (1.0 + r + r * r / 3.0) * np.exp(-r)


CAP = math.log1p(3.0)


def naive_warp(losses, cap=CAP):
    finite = losses[np.isfinite(losses)]
    middle = np.median(finite)
    scale = math.sqrt(np.mean([(y - middle) ** 2 for y in finite if y < middle]))
    found = []
    for y in losses:
        u = (y - middle) / scale
        found.append(cap if not math.isfinite(y) else min(math.log1p(u), cap) if u > 0 else u)
    return (np.array(found) - np.mean(found)) / np.std(found)


def naive_violations(violations):
    """The violations as they are modelled, and where their bound is then."""
    known = np.abs(violations[np.isfinite(violations)])
    found = np.sign(violations) * np.minimum(np.log1p(np.abs(violations) / np.median(known)), CAP)
    return (found - found.mean()) / found.std(), -found.mean() / found.std()


class Twin:
    """What BO_auto expects of all rows, by columns of features: how many each hyperparameter has."""

    def __init__(
        self, features, columns, isotropic=True, vectors=24, length_sd=1.0, additive=0.5, weight=0.95
    ):
        count = len(columns)
        draws = np.random.default_rng(0).standard_normal((vectors, count))
        lengths = [[length] * count for length in (0.15, 0.3, 0.6, 1.0, 2.0)] if isotropic else []
        lengths += [[0.35 * math.sqrt(count) * math.exp(length_sd * x) for x in draw] for draw in draws]
        parts = np.split(features, np.cumsum(columns)[:-1], axis=1)
        squares = [((part[:, None] - part) ** 2).sum(axis=2) for part in parts]
        self.members = []
        for each in lengths:
            scaled = [square / length**2 for square, length in zip(squares, each, strict=True)]
            alone = sum(map(matern52, scaled)) / count
            whole = (1 - additive) * matern52(sum(scaled)) + additive * alone
            self.members += [(whole, 1e-4), (whole, 3e-2)]
        self.weight = weight

    def fields(self, seen, y, running=()):
        """Weight, mean and variance of the heaviest members."""
        n, logs, fields = len(seen), [], []
        for kernel, noise in self.members:
            inverse = np.linalg.inv(kernel[np.ix_(seen, seen)] + noise * np.eye(n))
            fit = 1 + y @ inverse @ y
            logs.append(0.5 * np.linalg.slogdet(inverse)[1] - (n + 1) / 2 * math.log(fit))
            known = [*seen, *running]
            later = np.linalg.inv(kernel[np.ix_(known, known)] + noise * np.eye(len(known)))
            explained = np.einsum("ik,ij,jk->k", kernel[known], later, kernel[known])
            fields.append((kernel[:, seen] @ inverse @ y, (1 - explained) * fit / (n + 1)))
        weights = np.exp(np.array(logs) - max(logs))
        weights /= weights.sum()
        kept, held = [], 0.0
        for b in sorted(range(len(weights)), key=lambda b: (-weights[b], b)):
            if held < self.weight and len(kept) < max(auto._MOST_VALUES // len(self.members[0][0]), 8):
                kept.append((weights[b], *fields[b]))
                held += weights[b]
        return kept

    def mixture(self, seen, y, running=()):
        kept = self.fields(seen, y, running)
        shares = np.array([weight for weight, *_ in kept])
        shares /= shares.sum()
        mean = sum(s * m for s, (_, m, _) in zip(shares, kept, strict=True))
        second = sum(s * (v + m**2) for s, (_, m, v) in zip(shares, kept, strict=True))
        return mean, second - mean**2

    def improvement(self, seen, y, best, running=()):
        total = 0.0
        for weight, mean, var in self.fields(seen, y, running):
            sd = np.sqrt(np.maximum(var, 1e-300))
            total = total + weight * gain(best, mean, sd)
        return total


def gain(threshold, mean, sd):
    """The mean of max(threshold - x, 0) of a normal x."""
    u = (threshold - mean) / sd
    return sd * (u * norm.cdf(u) + norm.pdf(u))


def hypervolume_gain(means, sds, points, reference):
    """The mean of what x adds: the chance to dominate, summed over the strips between neighbours."""
    dominated = [any((q <= p).all() and (q < p).any() for q in points) for p in points]
    front = sorted({tuple(p) for p, worse in zip(points, dominated, strict=True) if not worse})
    total, left, top = 0.0, -np.inf, reference[1]
    for first, second in [*front, (reference[0], None)]:
        before = 0.0 if left == -np.inf else gain(left, means[0], sds[0])
        total = total + (gain(first, means[0], sds[0]) - before) * gain(top, means[1], sds[1])
        left, top = first, second
    return total


def places(seed=0):
    """Two numbers and a category of three."""
    rng = np.random.default_rng(seed)
    axes = [Hyperparameter(name, (0.0, 1.0), continuous=True, integer=False) for name in ("x", "y")]
    space = Space((*axes, Hyperparameter("kind", ("a", "b", "c"), kind="categorical")))
    codes = np.column_stack([rng.random((ROWS, 2)), np.arange(ROWS) % 3])
    features = space.features(codes)
    features.setflags(write=False)
    return space, codes, features, rng


def best(values, seen, running=()):
    return int(np.argmax([-np.inf if i in seen or i in running else value for i, value in enumerate(values)]))


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (0, {}),
        (1, {"isotropic": False, "vectors": 3, "length_sd": 0.5}),
        (2, {"vectors": 0, "additive": 0.0}),
        (3, {"vectors": 2, "additive": 1.0, "weight": 0.6}),
        (4, {"vectors": 0, "cap": 0.5}),
    ],
)
def test_one_loss(seed, settings):
    space, codes, features, rng = places(seed)
    losses = ((features[:, :2] - 0.3) ** 2).sum(axis=1) + 0.2 * codes[:, 2] + 0.1 * rng.random(ROWS)
    losses[2], losses[6] = np.nan, 1e16
    method = AutoBO(Problem(features, 1, ROWS, 3, space, codes), rng, **settings)
    cap = math.log1p(settings.pop("cap", 3.0))
    twin, seen = Twin(features, (1, 1, 3), **settings), [0, 2, 5]
    for row in seen:
        method.tell(row, losses[[row]])
    while len(seen) < 9:
        y = naive_warp(losses[seen], cap)
        expected = best(twin.improvement(seen, y, y.min()), seen)
        assert method.ask() == expected
        running = [expected]
        running.append(best(twin.improvement(seen, y, y.min(), running), seen, running))
        assert method.suggest({expected: 1.0}) == running[1]
        seen.append(expected)
        method.tell(expected, losses[[expected]])
        mean, _ = twin.mixture(seen, naive_warp(losses[seen], cap))
        assert method.recommend(seen) == seen[int(np.argmin(mean[seen]))]


def log_evidence(twin, seen, losses, warp):
    """log p(losses) if the warped losses, standardised, are Student; the warp's slopes by differences."""
    step = 1e-5 * np.ptp(losses)
    y = warp(losses)
    slopes = (warp(losses + step) - warp(losses - step)) / (2 * step * y.std())
    y = (y - y.mean()) / y.std()
    logs = [
        multivariate_t(shape=kernel[np.ix_(seen, seen)] + noise * np.eye(len(seen)), df=1).logpdf(y)
        for kernel, noise in twin.members
    ]
    return np.logaddexp.reduce(logs) + np.log(slopes).sum()


@pytest.mark.parametrize("plane", [True, False])
def test_renewed_candidates_are_modelled_with_or_without_the_warp(plane):
    """Losses are taken as they are if that explains them better, unless few are far above others."""
    space, codes, features, rng = places(3)
    losses = features[:, :2].sum(axis=1)
    losses = losses if plane else np.exp(9 * losses)
    problem = Problem(features, 1, ROWS, 3, space, codes)
    method, twin, seen = AutoBO(problem, rng), Twin(features, (1, 1, 3)), [0, 2, 5, 7]
    method.renew(problem)
    for row in seen:
        method.tell(row, losses[[row]])
    straight = 0
    while len(seen) < 11:
        told = losses[seen]
        middle = np.median(told)
        scale = math.sqrt(np.mean([(y - middle) ** 2 for y in told if y < middle]))

        def bent(y, middle=middle, scale=scale):
            u = (y - middle) / scale
            return np.where(u > 0, np.log1p(np.maximum(u, 0)), u)

        as_it_is = log_evidence(twin, seen, told, lambda y: y) > log_evidence(twin, seen, told, bent)
        y = (told - told.mean()) / told.std() if as_it_is else naive_warp(told)
        straight += as_it_is
        expected = best(twin.improvement(seen, y, y.min()), seen)
        assert method.ask() == expected
        seen.append(expected)
        method.tell(expected, losses[[expected]])
    assert straight >= 6 if plane else straight == 0


@pytest.mark.parametrize(("values", "members"), [(9 * ROWS, 9), (ROWS, 8)])
def test_fewer_members_where_there_are_many_candidates(values, members, monkeypatch):
    monkeypatch.setattr(auto, "_MOST_VALUES", values)
    space, codes, features, rng = places(4)
    losses = rng.random(ROWS)
    method = AutoBO(Problem(features, 1, ROWS, 3, space, codes), rng, weight=1.0)
    twin, seen = Twin(features, (1, 1, 3), weight=1.0), [1, 2, 3, 4]
    for row in seen:
        method.tell(row, losses[[row]])
    y = naive_warp(losses[seen])
    assert len(twin.fields(seen, y)) == members
    expected = twin.improvement(seen, y, y.min())
    top = best(expected, seen)
    found = method._values([], np.array([row not in seen for row in range(ROWS)]))
    assert method.ask() == top and found[top] == pytest.approx(math.log(expected[top]), abs=1e-6)


def test_two_losses():
    space, codes, features, rng = places(5)
    losses = np.stack([((features[:, :2] - c) ** 2).sum(axis=1) for c in (0.2, 0.8)], axis=1)
    losses[4, 1] = 1e12
    method = AutoBO(Problem(features, 2, ROWS, 3, space, codes), rng)
    twin, seen = Twin(features, (1, 1, 3)), [0, 4, 5, 7]
    for row in seen:
        method.tell(row, losses[row])
    while len(seen) < 9:
        y = np.array([naive_warp(column) for column in losses[seen].T])
        running = [row for row in range(ROWS) if row not in seen][:1]
        for pending in ([], running):
            mean, var = zip(*(twin.mixture(seen, each, pending) for each in y), strict=True)
            reference = y.max(axis=1) + 0.1 * (y.max(axis=1) - y.min(axis=1))
            values = hypervolume_gain(mean, np.sqrt(var), list(y.T), reference)
            assert method.suggest(dict.fromkeys(pending, 1.0)) == best(values, seen, pending)
        seen.append(best(values, seen))
        method.tell(seen[-1], losses[seen[-1]])


def test_three_losses():
    """The hypervolume that the lower confidence bounds add, where the best seen is 0 and the worst is 1."""
    space, codes, features, rng = places(8)
    losses = np.stack([((features[:, :2] - c) ** 2).sum(axis=1) for c in (0.2, 0.5, 0.8)], axis=1)
    losses[:, 1] += 0.3 * codes[:, 2]
    method = AutoBO(Problem(features, 3, ROWS, 3, space, codes), rng)
    twin, seen = Twin(features, (1, 1, 3)), [0, 4, 5, 7]
    for row in seen:
        method.tell(row, losses[row])
    while len(seen) < 9:
        y = np.array([naive_warp(column) for column in losses[seen].T])
        low, high = y.min(axis=1)[:, None], y.max(axis=1)[:, None]
        fields = [twin.mixture(seen, each) for each in y]
        hopes = (np.array([mean - np.sqrt(var) for mean, var in fields]) - low) / (high - low)
        scaled = ((y - low) / (high - low)).T
        before = hypervolume(scaled, ref=1.1)
        points = [np.vstack([scaled, np.minimum(point, 1.1)]) for point in hopes.T]
        values = [hypervolume(each, ref=1.1) - before for each in points]
        expected = best(values, seen)
        assert values[expected] > 0 and method.ask() == expected
        seen.append(expected)
        method.tell(expected, losses[expected])


@pytest.mark.parametrize("any_kept", [True, False])
def test_one_loss_under_two_constraints(any_kept):
    space, codes, features, rng = places(6)
    losses = features[:, 0] + 0.1 * rng.random(ROWS)
    violations = np.stack([0.5 - features[:, 0], features[:, 1] - 0.7 + 0.1 * codes[:, 2]], axis=1)
    violations = violations if any_kept else violations + 2.0
    problem = Problem(features, 1, ROWS, 3, space, codes, constraints=("a<=1", "b<=1"))
    method, twin, seen = AutoBO(problem, rng), Twin(features, (1, 1, 3)), [0, 3, 5, 6]
    for row in seen:
        method.tell_constrained(row, losses[[row]], violations[row])

    def expected(running):
        y, values = naive_warp(losses[seen]), 0.0
        for column in violations[seen].T:
            modelled, bound = naive_violations(column)
            mean, var = twin.mixture(seen, modelled, running)
            values = values + norm.logcdf((bound - mean) / np.sqrt(var))
        kept = (violations[seen] <= 0).all(axis=1)
        assert kept.any() == any_kept
        if any_kept:
            values = values + np.log(twin.improvement(seen, y, y[kept].min(), running))
        row = best(values, seen, running)
        free = np.array([other not in [*seen, *running] for other in range(ROWS)])
        assert method._values(running, free)[row] == pytest.approx(values[row], abs=1e-6)
        return row

    while len(seen) < 9:
        row = expected([])
        assert method.ask() == row
        running = [row, *[other for other in range(ROWS) if other not in [*seen, row]][:2]]
        assert method.suggest(dict.fromkeys(running, 1.0)) == expected(running)
        seen.append(row)
        method.tell_constrained(row, losses[[row]], violations[row])


def test_other_candidates_and_more_rows_than_there_is_room_for_at_first():
    """Rows that were told keep their numbers; beyond 64 there is room made."""
    rng = np.random.default_rng(7)
    whole = rng.random((90, 2))
    losses = ((whole - 0.4) ** 2).sum(axis=1)
    method, again = (
        AutoBO(Problem(whole[:70], 1, 90, 3), np.random.default_rng(0), vectors=0) for _ in range(2)
    )
    other = np.concatenate([whole[:66], whole[76:90]])
    fresh = AutoBO(Problem(other, 1, 90, 3), np.random.default_rng(0), vectors=0)
    for row in range(66):
        for each in (method, fresh):
            each.tell(row, losses[[row]])
    method.renew(Problem(other, 1, 90, 3))
    chosen = method.ask()
    assert chosen >= 66 and chosen == fresh.ask()
    assert len({again.ask() for _ in range(40)}) > 10  # random: nothing was told
    assert again.suggest(dict.fromkeys(range(69), 1.0)) == 69


@pytest.mark.parametrize(("m", "seed"), [(2, 18), (2, 24), (3, 9)])
def test_several_losses_under_a_constraint(m, seed):
    """Where good losses and the constraint disagree, neither the losses nor the constraint alone decide."""
    space, codes, features, rng = places(seed)
    losses = np.stack([((features[:, :2] - c) ** 2).sum(axis=1) for c in (0.2, 0.8, 0.5)[:m]], axis=1)
    violations = 0.6 - features[:, :1] + 0.3 * rng.random((ROWS, 1))
    problem = Problem(features, m, ROWS, 3, space, codes, constraints=("a<=1",))
    method, twin = AutoBO(problem, rng), Twin(features, (1, 1, 3))
    seen = [int(violations.argmin()), *np.argsort(violations[:, 0])[-3:].tolist()]
    for row in seen:
        method.tell_constrained(row, losses[row], violations[row])
    differs = 0
    while len(seen) < 12:
        y = np.array([naive_warp(column) for column in losses[seen].T])
        modelled, bound = naive_violations(violations[seen][:, 0])
        mean, var = twin.mixture(seen, modelled)
        kept = violations[seen][:, 0] <= 0
        fields = [twin.mixture(seen, each) for each in y]
        low, high = y.min(axis=1)[:, None], y.max(axis=1)[:, None]
        if m == 2:
            means, variances = zip(*fields, strict=True)
            reference = (high + 0.1 * (high - low))[:, 0]
            gains = hypervolume_gain(means, np.sqrt(variances), list(y[:, kept].T), reference)
        else:
            hopes = (np.array([each - np.sqrt(v) for each, v in fields]) - low) / (high - low)
            front = ((y[:, kept] - low) / (high - low)).T
            points = [np.vstack([front, np.minimum(point, 1.1)]) for point in hopes.T]
            gains = np.array([hypervolume(each, ref=1.1) for each in points]) - hypervolume(front, ref=1.1)
        values = np.log(np.maximum(gains, 1e-300)) + norm.logcdf((bound - mean) / np.sqrt(var))
        row = best(values, seen)
        differs += row != best(gains, seen)
        assert method.ask() == row
        seen.append(row)
        method.tell_constrained(row, losses[row], violations[row])
    assert differs > 1
