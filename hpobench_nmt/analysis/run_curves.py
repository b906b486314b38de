"""Curves of a run against look-ups or the time on its clock: regret, error of the surrogates, hypervolume.

`hpobench_nmt.evaluation` computes each quantity; `hpobench_nmt.render.plots.curves` draws it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import EXACT, failure_notes, instance_of, methods_on
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.goals import counted_gaps
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import by_checkpoints, gap_trial, length_of
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.curves import (
    Curve,
    hypervolume_shares,
    simple_regret,
    spaced_times,
    summarise_curves,
)
from hpobench_nmt.evaluation.hypervolume import table_scale
from hpobench_nmt.evaluation.random_search import (
    random_search_hypervolume,
    random_search_regret,
    random_search_squared_error,
)
from hpobench_nmt.evaluation.scores import design_finish
from hpobench_nmt.methods import BUILT_IN

if TYPE_CHECKING:
    from hpobench_nmt.methods.model_based import Surrogate


# A mean over a smaller share of the trials depends mostly on which trials are left.
_LEAST_SHARE = 0.5
_STEPS = 40
# Points of a curve against time.
_TIMES = 200
LOOKUPS = "look-ups"


def time_in(unit: str) -> str:
    """What is counted, in words: "look-ups", "look-ups per worker", or "time in s" on a clock."""
    return unit if unit.startswith(LOOKUPS) else f"time in {unit}"


_NOTHING_FEASIBLE = (
    "Until a trial has found a feasible row, its regret is that of the worst feasible row, as in fb."
)


@dataclass(frozen=True, eq=False)
class Curves:
    """A quantity of every method on one table, against look-ups or time.

    Attributes:
        table: the table's name.
        quantity: the quantity's name and unit, for an axis.
        frame: method, lookups (or times), mean, low, median, high (quartiles), trials (behind the mean). For
            the method EXACT, trials is 0, and values without a closed form are NaN.
        n_initial: look-ups of the initial design.
        lower_is_better: whether lower is better.
        notes: what is missing, in words.
        unit: the unit of the look-ups or times.
    """

    table: str
    quantity: str
    frame: pd.DataFrame
    n_initial: int
    lower_is_better: bool
    notes: tuple[str, ...] = ()
    unit: str = LOOKUPS


def regret_curves(results: Results, table: str, also: Sequence[float] = ()) -> Curves:
    """Simple regret: the gap between the best value so far and the best of the rows that the trial saw.

    The frame also has best_value, the regret as a value in the metric's own unit, for the mean best of the
    samples if trials see samples. A method's
    mean begins when each of its trials has found a value, and ends when a trial stopped short of the best, so
    that it is over the same trials throughout. A trial that ended at the best value keeps it, for as many
    look-ups as any method made. Under constraints, a trial that has not found a feasible row has the regret
    of the worst feasible row, as in fb. On a clock, curves also have points at the times in `also`.
    """
    instance = instance_of(results, table, 1)
    objective = instance.objectives[0]
    quantity = f"simple regret in {instance.table.metric(objective.metric).label}"

    def regret(seen: Instance) -> _CurveOf:
        best = _best(seen)
        return lambda trial, times: simple_regret([gap_trial(seen, trial)], best, times)

    def exact(seen: Instance, lookups: int) -> Curve:
        return random_search_regret(counted_gaps(seen.losses, seen.scored_trainings), lookups)

    found = _with_exact(_curves(results, table, quantity, True, regret, also), results, exact)
    best = float(np.mean([_best(seen) for seen in _seen(results, instance)]))
    rule = (_NOTHING_FEASIBLE,) if results.suite.constraints else ()
    frame = found.frame.assign(best_value=objective.to_raw(best + found.frame["mean"].to_numpy()))
    return replace(found, frame=frame, notes=(*found.notes, *rule))


def _best(instance: Instance) -> float:
    return float(np.nanmin(instance.scored[:, 0]))


def _seen(results: Results, instance: Instance) -> list[Instance]:
    """The instance, or what each trial sees of it if trials see samples."""
    trials = range(1 if results.suite.sample is None else results.suite.trials)
    return [instance.of_trial(results.seed, trial) for trial in trials]


# From a trial and T times to the values at these times, shape (1, T).
_CurveOf = Callable[[Trajectory, Floats], Floats]


def _curves(
    results: Results,
    table: str,
    quantity: str,
    lower: bool,
    curve_on: Callable[[Instance], _CurveOf],
    also: Sequence[float],
) -> Curves:
    """Curves of the trials that did not fail: at each look-up, or at times evenly spaced on a log scale.

    `also` has further times. `curve_on` makes the curves of the trials that saw an instance.
    """
    instance, notes = results.instances[table], failure_notes(results, table)
    sound = {
        method: [trial for trial in results.trials[table, method] if not trial.failure]
        for method in methods_on(results, table)
    }
    spaced = spaced_times([trial for trials in sound.values() for trial in trials], _TIMES)
    if instance.problem.clock == "lookups" and len(spaced):
        spaced = np.arange(1.0, spaced[-1] + 1)
    times = np.union1d(spaced, [t for t in also if len(spaced) and spaced[0] <= t <= spaced[-1]])
    if instance.problem.counts_lookups:
        times = times.astype(np.int64)
    curves = {}
    values = _values(results, instance, curve_on, times)
    for method, trials in sound.items():
        if not trials:
            continue
        curve = curves[method] = summarise_curves(values[method], lookups=times)
        begun = ~np.isnan(curve.mean)
        if not begun[times[: len(begun)] >= _first_values(trials, results.suite.n_initial)].all():
            at = f"begins at {times[begun.argmax()]:,.4g}" if begun.any() else "never begins"
            notes.append(f"{method}: its mean {at}, because some trials had not found a value before.")
        if len(curve.lookups) < max(np.searchsorted(times, length_of(trial), "right") for trial in trials):
            end = curve.lookups[-1] if len(curve.lookups) else 0
            notes.append(
                f"{method}: its curve ends at {end:,.4g} {instance.time_unit}, where a trial had ended."
            )
    frame = _frame(curves) if curves else pd.DataFrame(columns=["method", "lookups", "mean"])
    return Curves(table, quantity, frame, results.suite.n_initial, lower, tuple(notes), instance.time_unit)


def _values(
    results: Results, instance: Instance, curve_on: Callable[[Instance], _CurveOf], times: Any
) -> dict[str, Floats]:
    """The curves of each method's trials that did not fail, shape (trials, T)."""
    curve_of = cache(curve_on)
    rows: dict[str, list[Floats]] = {method: [] for method in methods_on(results, instance.table.name)}
    for method, found in rows.items():
        for number, trial in enumerate(results.trials[instance.table.name, method]):
            if not trial.failure:
                seen = instance.of_trial(results.seed, number)
                found.append(curve_of(seen)(seen.own(trial), times))
    return {method: np.concatenate(found) for method, found in rows.items() if found}


def _first_values(trials: Sequence[Trajectory], n_initial: int) -> float:
    """The time by which all trials have a first value, if their initial designs have one."""
    firsts = [float(trial.timeline.finishes[:1].max(initial=0.0)) for trial in trials]
    return max(*firsts, *(design_finish(trial, n_initial) for trial in trials))


def surrogate_curves(
    results: Results, table: str, lookups: int = 100, also: Sequence[int] = ()
) -> tuple[Curves, ...]:
    """Mean squared error of each surrogate over the unseen rows, one Curves per objective.

    Each point is over the trials that had not ended yet, and a curve ends when fewer than half are left.
    Trials end early once their scores are settled. EXACT is the error of predicting the mean of the values
    that random search has seen. Methods without a surrogate are named in the notes.

    `lookups` is the maximum number of look-ups to replay; the cost grows with its square. The error is
    computed after about 40 numbers of look-ups up to this one, evenly spaced on a log scale, and after those
    in `also`.
    """
    from threadpoolctl import threadpool_limits

    from hpobench_nmt.evaluation.surrogate_error import squared_errors

    instance = instance_of(results, table)
    if not instance.problem.counts_lookups:
        raise InputError("error curves of surrogates are not available for trials on a clock.")
    if results.suite.noise:
        raise InputError(
            "error curves of surrogates are not available with noise: the surrogates saw one training of "
            "each row, but results have the rows' means."
        )
    if lookups < 1:
        raise InputError(f"the number of look-ups must be at least 1, not {lookups}.")
    spaced = np.rint(np.geomspace(1, lookups, _STEPS)).astype(np.int64)
    steps = np.union1d(spaced, [n for n in also if 1 <= n <= lookups]).astype(np.int64)
    notes = failure_notes(results, table)
    errors = {}
    for method in methods_on(results, table):
        surrogate = _surrogate(results, method, instance.problem)
        # Surrogates learn from infeasible rows as well.
        trials = [trial for trial in results.trials[table, method] if not trial.failure]
        if isinstance(surrogate, str):
            notes.append(f"{method}: left out, because {surrogate}")
        elif trials:
            with threadpool_limits(limits=1):
                errors[method] = squared_errors(surrogate, trials, instance.losses, steps)
    if errors:
        notes.append(f"{EXACT}: the prediction for every unseen row is the mean of the values seen.")
        notes.append(
            "Means are over the trials that had not ended yet. Curves stop where fewer than half of the "
            "trials were left."
        )
    curves = []
    for j, objective in enumerate(instance.objectives):
        by_method = {
            method: summarise_curves(error[:, :, j], least_share=_LEAST_SHARE, lookups=steps)
            for method, error in errors.items()
        }
        longest = max((len(c.lookups) for c in by_method.values()), default=0)
        exact = random_search_squared_error(instance.losses[:, j], steps[:longest])
        by_method[EXACT] = replace(_mean_only(exact), lookups=steps[:longest])
        unit = instance.table.metric(objective.metric).unit
        quantity = f"squared error in {objective.metric}" + (f" ({unit}²)" if unit else "")
        frame = _frame(by_method)
        curves.append(Curves(table, quantity, frame, results.suite.n_initial, True, tuple(notes)))
    return tuple(curves)


def _surrogate(results: Results, method: str, problem: Problem) -> Surrogate | str:
    """The surrogate of a method that bayesian_optimisation or a similar function made, or why it has none.

    A user's class is not asked for it, because an attribute named surrogate may mean something else there.
    """
    known = BUILT_IN.get(method) or results.loaded.get(method)
    if known is None:
        return (
            "its code is not known here. If it is a variant with a surrogate, name it with --methods "
            "(report) or methods= (load_results)."
        )
    factory: Any = known.load()
    if inspect.isclass(factory) or not hasattr(factory, "surrogate"):
        return "it gives no predictions."
    surrogate: Surrogate = factory.surrogate(problem)
    return surrogate


def hypervolume_curves(results: Results, table: str, also: Sequence[float] = ()) -> Curves:
    """The share found of the whole front's hypervolume. On a clock, `also` has further times for points."""
    instance_of(results, table)

    def shares(seen: Instance) -> _CurveOf:
        scale = table_scale(seen.scored_trainings.models)
        return lambda trial, times: hypervolume_shares([by_checkpoints(seen, trial)], scale, times)

    def exact(seen: Instance, lookups: int) -> Curve:
        scale = table_scale(seen.scored_trainings.models)
        return _mean_only(random_search_hypervolume(seen.scored, scale, lookups))

    found = _curves(results, table, "share of the table's hypervolume", False, shares, also)
    try:
        return _with_exact(found, results, exact)
    except InputError as error:
        return replace(found, notes=(*found.notes, f"{EXACT}: left out: {error}"))


def _with_exact(found: Curves, results: Results, exact_of: Callable[[Instance, int], Curve]) -> Curves:
    """The curves with that of random search, if time is counted in look-ups.

    If trials see samples, it is the mean over these, without quantiles.
    """
    instance = results.instances[found.table]
    if instance.problem.clock != "lookups" or not len(found.frame):
        return found
    times, workers = np.unique(found.frame["lookups"].to_numpy()), instance.problem.workers
    each = [exact_of(seen, int(times[-1]) * workers) for seen in _seen(results, instance)]
    exact = each[0] if len(each) == 1 else _mean_only(np.mean([curve.mean for curve in each], axis=0))
    last = np.minimum(times.astype(np.int64) * workers, len(exact.mean)) - 1
    curve = Curve(times, exact.mean[last], exact.quantiles[:, last], exact.trials[last])
    return replace(found, frame=pd.concat([found.frame, _frame({EXACT: curve})], ignore_index=True))


def _frame(curves: Mapping[str, Curve]) -> pd.DataFrame:
    frames = []
    for method, curve in curves.items():
        low, median, high = curve.quantiles
        columns = {"mean": curve.mean, "low": low, "median": median, "high": high, "trials": curve.trials}
        frames.append(pd.DataFrame({"method": method, "lookups": curve.lookups, **columns}))
    return pd.concat(frames, ignore_index=True)


def _mean_only(mean: Floats) -> Curve:
    nothing = np.full((3, len(mean)), np.nan)
    return Curve(np.arange(1, len(mean) + 1), mean, nothing, np.zeros(len(mean), dtype=np.int64))
