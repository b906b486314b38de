"""Whether the optimum of a pilot lies inside its grid, how additive its effects are, and the cost of a row.

    python benchmarks/tables/table_pilot.py FOLDER [--objective dev_ppl] [--resamples 500]

FOLDER has the ledger and the spec of a pilot (`hpobench-nmt train`). A quadratic with all interactions is
fitted to the log of the objective, or to minus that log where larger is better. Every axis is scaled to [-1,
1], as a method sees it. The penalty of the ridge regression minimises the error of predicting each row from
all others. The optimum is the minimum of the quadratic in the box. Bootstrap resamples of the rows give an
interval for each axis. An axis is "inside" if at most a tenth of the resamples have their minimum within a
twentieth of an end.

R2 is that of predicting rows that were left out. It is printed for the model with and without interactions.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from hpobench_nmt.core.space import Space
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.specs.spec_file import load_spec

Floats = NDArray[np.float64]

_PENALTIES = np.geomspace(1e-4, 1e2, 25)
_STARTS = 8
_NEAR_END, _MOST_AT_ENDS = 0.1, 0.1  # distance in [-1, 1], whose length is 2; share of resamples


def terms(x: Floats, interactions: bool) -> Floats:
    """The terms of a quadratic of rows x, shape (n, H), without the constant."""
    columns = [*x.T, *(x**2).T]
    if interactions:
        columns += [x[:, i] * x[:, j] for i, j in combinations(range(x.shape[1]), 2)]
    return np.column_stack(columns)


def fitted(a: Floats, y: Floats, penalty: float) -> tuple[float, Floats]:
    """Constant and coefficients of the ridge regression."""
    middle, mean = a.mean(axis=0), y.mean()
    centred = a - middle
    weights = np.linalg.solve(centred.T @ centred + penalty * np.eye(a.shape[1]), centred.T @ (y - mean))
    return float(mean - middle @ weights), weights


def left_out(a: Floats, y: Floats, penalty: float) -> Floats:
    """Each row's prediction by the regression on all other rows (hat matrix, the constant included)."""
    centred = a - a.mean(axis=0)
    hat = centred @ np.linalg.solve(centred.T @ centred + penalty * np.eye(a.shape[1]), centred.T) + 1 / len(
        y
    )
    predicted: Floats = y - (y - hat @ y) / (1 - np.diag(hat))
    return predicted


def best_penalty(a: Floats, y: Floats) -> tuple[float, float]:
    """The penalty with the smallest error of rows left out, and R2 there."""
    errors = [float(((y - left_out(a, y, penalty)) ** 2).mean()) for penalty in _PENALTIES]
    best = int(np.argmin(errors))
    return float(_PENALTIES[best]), 1 - errors[best] / float(y.var())


def minimum(x: Floats, y: Floats, penalty: float, rng: np.random.Generator) -> Floats:
    """The minimum of the fitted quadratic in the box, the best from several starts."""
    constant, weights = fitted(terms(x, True), y, penalty)
    axes = x.shape[1]

    def value(at: Floats) -> float:
        return constant + float(terms(at[None], True)[0] @ weights)

    starts = rng.uniform(-1, 1, (_STARTS, axes))
    found = [minimize(value, start, bounds=[(-1, 1)] * axes, method="L-BFGS-B") for start in starts]
    best = min(found, key=lambda result: result.fun)
    return np.asarray(best.x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--objective", default="dev_ppl")
    parser.add_argument("--resamples", type=int, default=500)
    arguments = parser.parse_args()
    spec = load_spec(arguments.folder / "spec.toml")
    records = [r for r in read_ledger(arguments.folder / "ledger.jsonl").records if r.replicate == 0]
    done = [r for r in records if arguments.objective in r.metrics]
    space = Space(spec.axes)
    codes = space.encode_all(r.config for r in done)
    x = np.column_stack([2 * axis.scaled(codes[:, j]) - 1 for j, axis in enumerate(spec.axes)])
    directions = {metric.name: metric.direction for metric in spec.family.metrics}
    sign = -1 if directions[arguments.objective] == "max" else 1
    y = sign * np.log([r.metrics[arguments.objective] for r in done])
    seconds = np.array([r.seconds for r in done])
    print(
        f"{len(done)} rows, {len(records) - len(done)} failed; {np.median(seconds):.0f} s a row in the median"
    )
    penalty, r2 = best_penalty(terms(x, True), y)
    _, additive = best_penalty(terms(x, False), y)
    print(f"R2 of rows left out: {r2:.2f} with interactions, {additive:.2f} without")
    best = done[int(np.argmin(y))]
    print(f"best row: {arguments.objective} {np.exp(sign * y.min()):.2f} at {dict(best.config)}")
    rng = np.random.default_rng(0)
    places = []
    for _ in range(arguments.resamples):
        rows = rng.integers(len(y), size=len(y))
        places.append(minimum(x[rows], y[rows], penalty, rng))
    for j, axis in enumerate(spec.axes):
        column = np.array(places)[:, j]
        low, middle, high = np.quantile(column, [0.1, 0.5, 0.9])
        at_low, at_high = (column < _NEAR_END - 1).mean(), (column > 1 - _NEAR_END).mean()
        verdict = "inside"
        if max(at_low, at_high) > _MOST_AT_ENDS:
            verdict = f"AT ITS {'LOWEST' if at_low > at_high else 'HIGHEST'} VALUE"
        first, last = axis.values[0], axis.values[-1]
        print(
            f"{axis.name} ({first} to {last}): optimum at {middle:+.2f} of [-1, 1], 80% of resamples in "
            f"[{low:+.2f}, {high:+.2f}]; {at_low:.0%} and {at_high:.0%} at the ends: {verdict}"
        )


if __name__ == "__main__":
    main()
