"""Steps of Bayesian optimisation and of graph-based search by dense inverses, anew at every step."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx
from scipy.stats import norm

NOISE_SD = 1e-3


def random_table(seed, n_rows, n_objectives, missing=()):
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(n_rows, 3))
    slopes = rng.normal(size=(3, n_objectives))
    losses = (
        -14.0 + 6.0 * np.sin(3.0 * features @ slopes) + rng.normal(scale=0.3, size=(n_rows, n_objectives))
    )
    losses[list(missing)] = np.nan
    return features, losses


def matern52_matrix(features):
    r = np.sqrt(5.0) * np.sqrt(((features[:, None] - features[None]) ** 2).sum(axis=2))
    return (1.0 + r + r**2 / 3.0) * np.exp(-r)


def rbf_matrix(features):
    return np.exp(-0.5 * ((features[:, None] - features[None]) ** 2).sum(axis=2))


def gaussian_process(covariance, seen, unseen, targets, noise_sd):
    inner = np.linalg.inv(covariance[np.ix_(seen, seen)] + noise_sd**2 * np.eye(len(seen)))
    cross = covariance[np.ix_(unseen, seen)]
    var = covariance[unseen, unseen] - np.einsum("ij,jk,ik->i", cross, inner, cross)
    return cross @ inner @ targets, np.sqrt(np.maximum(var, 0.0))


def log_improvement(threshold, mean, sd):
    """log E[max(threshold - Y, 0)]; below 0, phi(u) is taken out of u Phi(u) + phi(u)."""
    u = (threshold - mean) / sd
    below, above = np.minimum(u, 0.0), np.maximum(u, 0.0)
    mills = np.sqrt(np.pi / 2.0) * erfcx(-below / np.sqrt(2.0))
    far = norm.logpdf(below) + np.log1p(below * mills)
    return np.log(sd) + np.where(u < 0.0, far, np.log(above * norm.cdf(above) + norm.pdf(above)))


def naive_ei(matrix, noise_sd=NOISE_SD, standardise=False):
    def choose(features, seen, unseen, losses):
        targets = losses[seen, 0]
        if standardise:
            targets = (targets - targets.mean()) / targets.std()
        mean, sd = gaussian_process(matrix(features), seen, unseen, targets, noise_sd)
        return log_improvement(targets.min(), mean, sd)

    return choose


def naive_ehvi(matrix, noise_sd=NOISE_SD, standardise=False):
    """Every strip of the free area under the front, from left to right.

    Where the values of all rows underflow, the row whose mean is the fewest standard deviations away.
    """

    def choose(features, seen, unseen, losses):
        targets = losses[seen]
        if standardise:
            targets = (targets - targets.mean(axis=0)) / targets.std(axis=0)
        means, sd = gaussian_process(matrix(features), seen, unseen, targets, noise_sd)
        reference = targets.max(axis=0) + 0.1 * (targets.max(axis=0) - targets.min(axis=0))
        front = sorted(
            tuple(p) for p in targets if not any((q <= p).all() and (q < p).any() for q in targets)
        )

        def below(threshold, loss):
            if threshold == -np.inf:
                return 0.0
            u = (threshold - means[:, loss]) / sd
            return sd * (u * norm.cdf(u) + norm.pdf(u))

        values = np.zeros(len(unseen))
        ends = [-np.inf, *[a for a, _ in front], reference[0]]
        tops = [reference[1], *[b for _, b in front]]
        for left, right, top in zip(ends, ends[1:], tops, strict=False):
            values += (below(right, 0) - below(left, 0)) * below(top, 1)
        if values.max() > 0.0:
            return values
        corners = np.array(list(zip(ends[1:], tops, strict=True)))
        beyond = np.maximum(means[:, None, :] - corners, 0.0) / sd[:, None, None]
        return -np.linalg.norm(beyond, axis=2).min(axis=1)

    return choose


def neighbour_laplacian(features, matrix, n_neighbours):
    """Continuous features have no ties, so the neighbours of a row are the first in order of distance."""
    similarity = matrix(features)
    weights = np.zeros_like(similarity)
    for i in range(len(features)):
        order = np.argsort(-similarity[i])
        nearest = order[order != i][:n_neighbours]
        weights[i, nearest] = weights[nearest, i] = similarity[i, nearest]
    return np.diag(weights.sum(axis=1)) - weights


def harmonic(laplacian, known, labels, unknown):
    """Labels of the unknown; 0 in parts of the graph where nothing is known."""
    inner = laplacian[np.ix_(unknown, unknown)] + 1e-9 * np.eye(len(unknown))
    return -np.linalg.solve(inner, laplacian[np.ix_(unknown, known)] @ labels)


def naive_eif(matrix, n_neighbours=20):
    """Propagates the labels of both futures of every candidate."""

    def choose(features, seen, unseen, losses):
        laplacian = neighbour_laplacian(features, matrix, n_neighbours)
        targets = losses[seen, 0]
        labels = (targets.max() - targets) / (targets.max() - targets.min())
        # Labels spread through rows whose training failed, but those are nobody's business any more.
        unlabelled = np.setdiff1d(np.arange(len(features)), seen)
        counts = np.isin(unlabelled, unseen)
        f = harmonic(laplacian, seen, labels, unlabelled)[counts]
        values = np.zeros(len(unseen))
        for i, candidate in enumerate(unseen):
            others = unlabelled != candidate
            known = np.append(seen, candidate)
            both = np.column_stack([np.append(labels, label) for label in (0.0, 1.0)])
            spread = harmonic(laplacian, known, both, unlabelled[others])
            futures = spread[counts[others]].sum(axis=0)
            values[i] = f[i] * (1.0 + futures[1]) + (1.0 - f[i]) * (len(unseen) - futures[0])
        return values

    return choose


def naive_graph_ei(matrix, n_neighbours):
    """Harmonic labels of the losses themselves, and the inverse Laplacian as their covariance."""

    def choose(features, seen, unseen, losses):
        laplacian = neighbour_laplacian(features, matrix, n_neighbours)
        mean = harmonic(laplacian, seen, losses[seen, 0], unseen)
        sd = np.sqrt(np.diag(np.linalg.inv(laplacian[np.ix_(unseen, unseen)])))
        return log_improvement(losses[seen, 0].min(), mean, sd)

    return choose


def naive_trial(choose, features, losses, initial, n_steps):
    rows = list(initial)
    while len(rows) < n_steps:
        seen = np.array([row for row in rows if not np.isnan(losses[row]).any()])
        unseen = np.setdiff1d(np.arange(len(losses)), rows)
        rows.append(int(unseen[np.argmax(choose(features, seen, unseen, losses))]))
    return rows
