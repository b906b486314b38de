"""What can be reached on a table: lines to compare methods with, each by a definition.

    random search       exact, which is also what any other policy that is blind to structure reaches
    clairvoyant GP      BO_auto with one kernel, whose evidence on all rows is the largest
    best method         that of the run or of the archive
    least possible      a method that knows the targets, and looks one up after the initial design

The clairvoyant Gaussian process knows more than a method can, but it is not a bound: averaging over kernels,
or a kernel that is not stationary, may be faster. Its kernel has the form of kernel_bank.py, with the losses
warped as in BO_auto. With squared distances D_h of hyperparameter h, and log evidence as in kernel_bank.py,

    d log p / dt = (n + 1) / 2 a' (dK/dt) a / (1 + y'a) - 1/2 tr(K^-1 dK/dt),   a = K^-1 y

for t = log W_h and t = log s^2. It is maximised by L-BFGS-B from BO_auto's median length scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize
from scipy.spatial.distance import pdist, squareform

from hpobench_nmt.analysis.fewer_trainings import FewerTrainings
from hpobench_nmt.analysis.paired import SIMULATED
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.target import budget_of
from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import method_generator
from hpobench_nmt.core.system.text import short
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.figure import log_ratio
from hpobench_nmt.evaluation.restricted import runtime_within
from hpobench_nmt.methods.auto import MEDIAN_LENGTH, NOISES, AutoBO
from hpobench_nmt.methods.surrogates.columns import feature_counts
from hpobench_nmt.methods.surrogates.kernel_bank import Bank, BankPosterior, points_of
from hpobench_nmt.methods.surrogates.warping import warped

_CAP, _ADDITIVE = math.log1p(3.0), 0.5  # those of BO_auto
_MOST_ROWS, _MOST_TRIALS = 2_000, 20
_LENGTHS, _NOISES = (0.03, 30.0), (1e-6, 1.0)


def limits(results: Results, found: FewerTrainings, table: str) -> pd.DataFrame:
    """The lines of a table: line; time, the mean until the target or the budget, in `time_unit`; times_fewer.

    The clairvoyant Gaussian process is left out for several objectives, constraints or noise, and beyond
    2,000 rows. It is fitted in O(n^3) for n rows, which takes seconds for a thousand, and has the run's first
    20 trials.
    """
    if found.paired is None or table not in found.paired.aims:
        return pd.DataFrame(columns=["line", "time", "times_fewer"])
    aims, instance = found.paired.aims[table], results.instances[table]
    lines = {"random search, exact": aims.random_search}
    simple = instance.violations is None and instance.replicates is None
    if len(instance.objectives) == 1 and simple and len(instance.losses) <= _MOST_ROWS:
        numbers = range(min(len(aims.budget), _MOST_TRIALS))
        lines["clairvoyant GP"] = np.array([_clairvoyant(instance, results.seed, n) for n in numbers])
    best = [m for m in found.paired.ranked_on(table) if m != SIMULATED][:1]
    lines |= {f"best method, {m}": found.paired.runtimes[table][found.paired.methods.index(m)] for m in best}
    lines["least possible"] = aims.least
    ratios = [math.exp(log_ratio(own[None], aims.random_search[: len(own)])[0][0]) for own in lines.values()]
    means = [float(values.mean()) for values in lines.values()]
    return pd.DataFrame({"line": list(lines), "time": means, "times_fewer": ratios})


def limit_lines(results: Results, found: FewerTrainings, table: str) -> list[tuple[str, ...]]:
    """The same as text, for a page, below a line of headings; empty if there is nothing to compare with."""
    frame = limits(results, found, table)
    lines = [(line, short(n), short(times)) for line, n, times in frame.itertuples(index=False, name=None)]
    return [("line", results.instances[table].time_unit, "times fewer"), *lines] if lines else []


def _clairvoyant(instance: Instance, seed: int, number: int) -> float:
    """When a trial reached the target, at most the budget."""
    seen, problem = instance.of_trial(seed, number), instance.problem
    bank = _fitted(instance.losses.tobytes(), problem.features.tobytes(), tuple(feature_counts(problem)))
    rng = method_generator(seed, instance.table.name, "clairvoyant", number)
    method = partial(_Clairvoyant, bank=bank)
    trial = run_trial(seen.problem, seen.trainings, method, rng, seen.initial(seed, number), (seen.target,))
    tau = budget_of(seen)
    return min(runtime_within(seen.target, trial, tau, problem.n_initial, seen.problem.lookups), tau)


class _Clairvoyant(AutoBO):
    """BO_auto with a bank of its own."""

    def __init__(self, problem: Problem, rng: np.random.Generator, bank: Bank) -> None:
        super().__init__(problem, rng)
        self._posterior = BankPosterior(bank, points_of(problem.features, feature_counts(problem)))


@lru_cache(maxsize=64)
def _fitted(losses: bytes, features: bytes, columns: tuple[int, ...]) -> Bank:
    """The bank of the kernel with the largest evidence; cached by content, for a table in several tracks."""
    from threadpoolctl import threadpool_limits

    y = warped(np.frombuffer(losses), _CAP)
    parts = np.split(np.frombuffer(features).reshape(len(y), -1), np.cumsum(columns)[:-1], axis=1)
    squares = [np.unique(pdist(part, "sqeuclidean"), return_inverse=True) for part in parts]

    def loss(t: Floats) -> tuple[float, Floats]:
        return _minus_log_evidence(t, squares, y)

    start = np.full(len(columns) + 1, -2 * math.log(MEDIAN_LENGTH * math.sqrt(len(columns))))
    start[-1] = math.log(NOISES[0])
    inside = [(-2 * math.log(_LENGTHS[1]), -2 * math.log(_LENGTHS[0]))] * len(columns)
    ends = [*inside, (math.log(_NOISES[0]), math.log(_NOISES[1]))]
    with threadpool_limits(limits=1):  # the same bits for any number of threads
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=ends, options={"maxiter": 40})
    best = np.exp(found.x)
    return Bank(best[None, :-1], best[-1:], np.zeros(1), _ADDITIVE)


def _minus_log_evidence(t: Floats, squares: Sequence[tuple[Floats, Ints]], y: Floats) -> tuple[float, Floats]:
    """Minus log p and its gradient, for t = (log W_1, ..., log W_H, log s^2).

    For each hyperparameter, `squares` has its distinct squared distances, which are few, and for each pair of
    rows, in the order of `pdist`, which of them it has.
    """
    weights, noise, share = np.exp(t[:-1]), math.exp(t[-1]), _ADDITIVE / len(squares)
    places = [place for _, place in squares]
    scaled = [w * each for w, (each, _) in zip(weights, squares, strict=True)]
    whole, slope = _matern(sum((own[at] for own, at in zip(scaled, places, strict=True)), np.zeros(1)))
    alone = [_matern(each) for each in scaled]
    parts = sum((k[place] for (k, _), place in zip(alone, places, strict=True)), np.zeros(1))
    kernel = squareform((1.0 - _ADDITIVE) * whole + share * parts)
    np.fill_diagonal(kernel, 1.0 + noise)
    factor = cho_factor(kernel)
    a, (inverse, _) = cho_solve(factor, y), dpotri(factor[0])
    square = float(y @ a)
    value = 0.5 * (len(y) + 1) * math.log1p(square) + float(np.log(np.diag(factor[0])).sum())
    # d/dt of minus log p is the sum of dK/dt times this matrix, over two. Each pair is in it twice.
    above, outer = np.triu_indices(len(y), 1), (len(y) + 1) / (1.0 + square)
    left = inverse[above] - outer * a[above[0]] * a[above[1]]
    steep = (1.0 - _ADDITIVE) * slope * left
    slopes = [
        float(each @ (np.bincount(place, steep) + share * own * np.bincount(place, left)))
        for each, place, (_, own) in zip(scaled, places, alone, strict=True)
    ]
    return value, np.array([*slopes, 0.5 * noise * float(np.trace(inverse) - outer * (a @ a))])


def _matern(squared: Floats) -> tuple[Floats, Floats]:
    """Matern-5/2 of squared scaled distances, and its derivative by them."""
    r = np.sqrt(5.0 * squared)
    decay = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * decay, -5.0 / 6.0 * (1.0 + r) * decay
