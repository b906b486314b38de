"""Made-up learning curves."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.trainings import Trainings


def curves(
    seed, n_rows=60, longest=27, uneven=True, resume=True, failing=0.0, ties=False, shortest=9, others=0
):
    """Falling curves with noise, some of which end early or fail; other losses are noise."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(shortest, longest + 1, n_rows) if uneven else np.full(n_rows, longest)
    parts = [
        rng.uniform(1, 3) + rng.uniform(0.5, 3) / np.arange(1, n + 1) ** 0.7 + rng.normal(0, 0.1, n)
        for n in lengths
    ]
    losses = np.round(np.concatenate(parts), 1) if ties else np.concatenate(parts)
    ends = np.cumsum(lengths) - 1
    losses[ends[rng.random(n_rows) < failing]] = np.nan
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    costs = steps * np.repeat(rng.uniform(1, 2, n_rows), lengths)
    columns = np.column_stack([losses, rng.random((len(losses), others))])
    return Trainings(np.concatenate([[0], np.cumsum(lengths)]), steps, costs, columns, resume)


def smooth_curves(seed, n_rows=50, longest=27, failing=()):
    """Curves that fall towards a smooth function of the features, some of which rise again or fail."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(n_rows, 2))
    lengths = rng.integers(longest // 2, longest + 1, n_rows)
    ends = 3.0 * ((features - 0.3) ** 2).sum(axis=1) + 1.0
    parts = [
        ends[row] + rng.uniform(0.5, 2) / np.arange(1, n + 1) ** 0.7 + rng.normal(0, 0.03, n)
        for row, n in enumerate(lengths)
    ]
    for row in failing:
        parts[row][-1] = np.nan
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return features, Trainings(starts, steps, steps.copy(), np.concatenate(parts)[:, None])
