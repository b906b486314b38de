"""Curves of a run against look-ups or the time on its clock: regret, error of the surrogates, hypervolume.

Each function takes results and returns data; `hpobench_nmt.render.plots.run_progress` draws them. How a
quantity is computed is said in `hpobench_nmt.evaluation`, in the module of its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import (
    EXACT,
    failure_notes,
    instance_of,
    methods_on,
    sound_trials,
)
from hpobench_nmt.benchmarking.clock import counted_gaps
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.scoring import gap_trial
from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.curves import Curve, simple_regret, summarise_curves
from hpobench_nmt.evaluation.hypervolume import hypervolume_shares, table_scale
from hpobench_nmt.evaluation.random_search import (
    random_search_hypervolume,
    random_search_regret,
    random_search_squared_error,
)
from hpobench_nmt.evaluation.timed_curves import spaced_times, timed_hypervolume, timed_regret
from hpobench_nmt.methods import BUILT_IN

if TYPE_CHECKING:
    from hpobench_nmt.methods.model_based import Surrogate


# A mean over a smaller share of the trials depends mostly on which trials are left.
_LEAST_SHARE = 0.5
_STEPS = 40
# Of a curve against time.
_TIMES = 200
LOOKUPS = "look-ups"


def time_in(unit: str) -> str:
    """What is counted, as a subject: "look-ups", "look-ups per worker", or "time in s" on a clock."""
    return unit if unit.startswith(LOOKUPS) else f"time in {unit}"


_NOTHING_FEASIBLE = (
    "Until a trial has found a feasible row, its regret is that of the worst feasible one, as in fb."
)


@dataclass(frozen=True, eq=False)
class Curves:
    """A quantity of every method on one table, against look-ups or time.

    Attributes:
        table: its name.
        quantity: its name and unit, for an axis.
        frame: method, lookups (or times), mean, low, median, high (quartiles), trials (behind the mean). Of
            method EXACT trials is 0, and what has no closed form is NaN.
        n_initial: look-ups of the initial design.
        lower_is_better: which way is good.
        notes: what is missing, in words.
        unit: of the look-ups or times.
    """

    table: str
    quantity: str
    frame: pd.DataFrame
    n_initial: int
    lower_is_better: bool
    notes: tuple[str, ...] = ()
    unit: str = LOOKUPS


def regret_curves(results: Results, table: str, also: Sequence[float] = ()) -> Curves:
    """Simple regret: the gap between the best value so far and the best of the table.

    The frame has best_value besides, the mean of the best value so far in the metric's own unit. A method's
    mean begins where each of its trials has found a value, and ends where one stopped short of the best, so
    that it is over the same trials throughout. A trial that ended at the best stays there, for as many
    look-ups as any method made. Under constraints, a trial that has found no feasible row is as far away as
    the worst of them, as in fb.

    Args:
        also: times to have a point at, on a clock.
    """
    instance = instance_of(results, table, 1)
    best = float(np.nanmin(instance.scored[:, 0]))
    objective = instance.objectives[0]
    quantity = f"simple regret in {instance.table.metric(objective.metric).label}"
    gaps = counted_gaps(instance.losses, instance.scored, instance.scored_trainings)
    rule = [_NOTHING_FEASIBLE] if results.suite.constraints else []
    if instance.trainings is not None:
        found = _timed(
            results, table, quantity, True, lambda t, times: timed_regret(t, best, times), also, _gap_trials
        )
        frame = found.frame
        if instance.problem.clock == "lookups" and len(frame):
            workers, rounds = instance.problem.workers, np.arange(1, int(frame["lookups"].max()) + 1)
            exact = random_search_regret(gaps, len(rounds) * workers)
            last = np.minimum(rounds * workers, len(exact.mean)) - 1
            curve = Curve(rounds, exact.mean[last], exact.quantiles[:, last], exact.trials[last])
            frame = pd.concat([frame, _frame({EXACT: curve})], ignore_index=True)
        return replace(found, frame=_with_best_value(frame, objective, best), notes=(*found.notes, *rule))
    curves, notes = {}, [*failure_notes(results, table), *rule]
    width = _longest(results, table)
    for method in methods_on(results, table):
        trials = _gap_trials(results, table, method)
        if trials:
            curve = curves[method] = summarise_curves(_carried_on(simple_regret(trials, best), width, 0.0))
            longest = max(len(t.rows) for t in trials)
            if len(curve.lookups) < longest:
                notes.append(
                    f"{method}: its curve ends at look-up {len(curve.lookups)}, where a trial stopped."
                )
            begun = ~np.isnan(curve.mean)
            if not begun[results.suite.n_initial - 1 :].all():
                at = f"begins at look-up {int(begun.argmax()) + 1}" if begun.any() else "never begins"
                notes.append(f"{method}: its mean {at}, because before that some trial has found no value.")
    longest = max((len(curve.lookups) for curve in curves.values()), default=0)
    curves[EXACT] = random_search_regret(gaps, longest)
    frame = _with_best_value(_frame(curves), objective, best)
    return Curves(table, quantity, frame, results.suite.n_initial, True, tuple(notes))


def _gap_trials(results: Results, table: str, method: str) -> list[Trajectory]:
    """The trials that did not fail, with losses as gaps count them."""
    instance = results.instances[table]
    return [gap_trial(instance, trial) for trial in results.trials[table, method] if not trial.failure]


def _with_best_value(frame: pd.DataFrame, objective: Objective, best: float) -> pd.DataFrame:
    return frame.assign(best_value=objective.to_raw((best + frame["mean"]).to_numpy()))


def _timed(
    results: Results,
    table: str,
    quantity: str,
    lower: bool,
    curves_of: Callable[[Sequence[Trajectory], Floats], Floats],
    also: Sequence[float],
    trials_of: Callable[[Results, str, str], list[Trajectory]] = sound_trials,
) -> Curves:
    """Curves against time: at evenly spaced times on a log scale, and at those of `also`."""
    instance, notes = results.instances[table], failure_notes(results, table)
    sound = {method: trials_of(results, table, method) for method in methods_on(results, table)}
    spaced = spaced_times([trial for trials in sound.values() for trial in trials], _TIMES)
    if instance.problem.clock == "lookups" and len(spaced):
        spaced = np.arange(1.0, spaced[-1] + 1)
    times = np.union1d(spaced, [t for t in also if len(spaced) and spaced[0] <= t <= spaced[-1]])
    curves = {}
    for method, trials in sound.items():
        if trials:
            curve = curves[method] = summarise_curves(curves_of(trials, times), lookups=times)
            if len(curve.lookups) < len(times):
                end = curve.lookups[-1] if len(curve.lookups) else 0.0
                notes.append(f"{method}: its curve ends at {end:,.4g} {instance.time_unit}, "
                             "where a trial had ended.")  # fmt: skip
    return Curves(
        table,
        quantity,
        _frame(curves) if curves else pd.DataFrame(columns=["method", "lookups", "mean"]),
        results.suite.n_initial,
        lower,
        tuple(notes),
        instance.time_unit,
    )


def surrogate_curves(
    results: Results, table: str, lookups: int = 100, jobs: int = 1, also: Sequence[int] = ()
) -> tuple[Curves, ...]:
    """Mean squared error of each surrogate over the unseen rows, one Curves per objective.

    Each point is over the trials that had not ended yet, and a curve ends where fewer than half are left.
    Trials end early once their scores are settled. EXACT is the error of a prediction with the mean of the
    values that random search had seen. Methods without a surrogate are named in the notes.

    Args:
        lookups: the most to replay; the cost grows with their square. The error is computed after some
            40 numbers of look-ups up to there, evenly spaced on a log scale.
        jobs: threads.
        also: further numbers of look-ups after which it is computed, up to there.
    """
    import joblib
    from threadpoolctl import threadpool_limits

    from hpobench_nmt.evaluation.surrogate_error import squared_errors

    instance = instance_of(results, table)
    if instance.trainings is not None:
        raise InputError("surrogates are not replayed for trials on a clock.")
    if results.suite.noise:
        raise InputError("the surrogates saw one training of each row, and results hold the rows' means.")
    if lookups < 1:
        raise InputError(f"the number of look-ups must be at least 1, not {lookups}.")
    spaced = np.rint(np.geomspace(1, lookups, _STEPS)).astype(np.int64)
    steps = np.union1d(spaced, [n for n in also if 1 <= n <= lookups]).astype(np.int64)
    notes = failure_notes(results, table)
    tasks: list[tuple[str, Surrogate]] = []
    for method in methods_on(results, table):
        surrogate = _surrogate(results, method, instance.problem)
        if surrogate is None:
            notes.append(_why_no_surrogate(results, method))
        elif sound_trials(results, table, method):
            tasks.append((method, surrogate))
    one_thread: Any = threadpool_limits
    with one_thread(1):
        found = joblib.Parallel(n_jobs=jobs, prefer="threads")(
            joblib.delayed(squared_errors)(
                surrogate, _as_told(results, table, method), instance.losses, steps
            )
            for method, surrogate in tasks
        )
    errors = {method: error for (method, _), error in zip(tasks, found, strict=True)}
    if errors:
        notes.append(f"{EXACT}: every unseen row is predicted with the mean of the values seen.")
        notes.append(
            "Means are over the trials that had not ended; curves stop where fewer than half were left."
        )
    curves = []
    for j, objective in enumerate(instance.objectives):
        by_method = {
            method: summarise_curves(error[:, :, j], least_share=_LEAST_SHARE, lookups=steps)
            for method, error in errors.items()
        }
        longest = max((len(c.lookups) for c in by_method.values()), default=0)
        exact = random_search_squared_error(instance.losses[:, j], steps[:longest])
        by_method[EXACT] = _mean_only(exact, steps[:longest])
        unit = instance.table.metric(objective.metric).unit
        quantity = f"squared error in {objective.metric}" + (f" ({unit}²)" if unit else "")
        frame = _frame(by_method)
        curves.append(Curves(table, quantity, frame, results.suite.n_initial, True, tuple(notes)))
    return tuple(curves)


def _as_told(results: Results, table: str, method: str) -> list[Trajectory]:
    """Trials that did not fail, with the losses of all rows: surrogates learn from infeasible ones too."""
    return [t for t in results.trials[table, method] if not t.failure]


def _surrogate(results: Results, method: str, problem: Problem) -> Surrogate | None:
    """The surrogate of a method that bayesian_optimisation or its like made, if its source is known.

    A user's class is asked nothing: an attribute named surrogate would mean something else there.
    """
    if method in BUILT_IN:
        factory: Any = BUILT_IN[method].load()
    elif method in results.sources:
        factory = results.sources[method].load()
    else:
        return None
    if inspect.isclass(factory) or not hasattr(factory, "surrogate"):
        return None
    surrogate: Surrogate = factory.surrogate(problem)
    return surrogate


def _why_no_surrogate(results: Results, method: str) -> str:
    if method in BUILT_IN or method in results.sources:
        return f"{method}: left out, because it has no surrogate."
    return (
        f"{method}: left out, because its code is not known here. If it is a variant with a surrogate, name "
        "it with --methods (report) or methods= (load_results)."
    )


def hypervolume_curves(results: Results, table: str, also: Sequence[float] = ()) -> Curves:
    """Hypervolume of what was found, as a share of that of the table's whole front.

    Args:
        also: times to have a point at, on a clock.
    """
    instance = instance_of(results, table)
    scale = table_scale(instance.scored)
    if instance.trainings is not None:
        return _timed(
            results,
            table,
            "share of the table's hypervolume",
            False,
            lambda trials, times: timed_hypervolume(trials, scale, times),
            also,
        )
    curves, notes = {}, failure_notes(results, table)
    width = _longest(results, table)
    for method in methods_on(results, table):
        trials = sound_trials(results, table, method)
        if trials:
            shares = _carried_on(hypervolume_shares(trials, scale), width, 1.0)
            curve = curves[method] = summarise_curves(shares)
            if len(curve.lookups) < max(len(t.rows) for t in trials):
                notes.append(
                    f"{method}: its curve ends at look-up {len(curve.lookups)}, where a trial stopped."
                )
    longest = max((len(curve.lookups) for curve in curves.values()), default=0)
    try:
        exact = random_search_hypervolume(instance.scored, scale, longest)
        curves[EXACT] = _mean_only(exact, np.arange(1, len(exact) + 1))
    except InputError as error:
        notes.append(f"{EXACT}: left out: {error}")
    quantity = "share of the table's hypervolume"
    return Curves(table, quantity, _frame(curves), results.suite.n_initial, False, tuple(notes))


def _longest(results: Results, table: str) -> int:
    """The most look-ups of any sound trial on a table."""
    trials = (t for m in methods_on(results, table) for t in sound_trials(results, table, m))
    return max((len(t.rows) for t in trials), default=0)


def _carried_on(curves: Floats, width: int, end: float) -> Floats:
    """Curves of trials, shape (trials, width): those that reached the end stay there, others are unknown.

    Without this a method that is done before the others would have no value where they are compared.
    """
    more = np.full((len(curves), width - curves.shape[1]), np.nan)
    more[np.isclose(curves[:, -1], end, rtol=0.0, atol=1e-9 * end)] = end
    return np.hstack([curves, more])


def _frame(curves: Mapping[str, Curve]) -> pd.DataFrame:
    frames = []
    for method, curve in curves.items():
        low, median, high = curve.quantiles
        columns = {"mean": curve.mean, "low": low, "median": median, "high": high, "trials": curve.trials}
        frames.append(pd.DataFrame({"method": method, "lookups": curve.lookups, **columns}))
    return pd.concat(frames, ignore_index=True)


def _mean_only(mean: Floats, lookups: Rows) -> Curve:
    return Curve(lookups, mean, np.full((3, len(mean)), np.nan), np.zeros(len(mean), dtype=np.int64))
