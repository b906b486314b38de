"""The statistics of a run, in frames and in words: intervals and paired comparisons.

`hpobench_nmt.evaluation.intervals` and `.comparisons` compute them as plain functions of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.fewer_trainings import FewerTrainings, fewer_trainings
from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.run_notes import run_notes
from hpobench_nmt.analysis.selection import methods_on, same_run
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import exact_scores, trial_scores
from hpobench_nmt.benchmarking.task.target import budget_of, random_search_within
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.text import VAST
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.evaluation.comparisons import Comparison, compare_pairs
from hpobench_nmt.evaluation.intervals import mean_intervals
from hpobench_nmt.evaluation.restricted import restricted_mean, runtime_within
from hpobench_nmt.evaluation.scores import SCORES, Summary

_MOST_DECIMALS = 8
# Mean and its interval by (table, score, method).
_Means = dict[tuple[str, str, str], tuple[float, ...]]

METHOD_NOTE = (
    "Intervals: BCa bootstrap over trials, 95% each. A method is called better than another on a table and "
    "score only if two things hold: a permutation test of their mean difference, over trials with the same "
    "start, is significant at 5% after Holm's correction over all pairs of the table and score, and the "
    "interval of the difference excludes 0. Not shown to differ is not the same as equal."
)
ENDLESS_NOTE = (
    "If a trial ended or failed without a value, there is no mean over all trials. Methods are then "
    "compared by a signed-rank test, in which a missing value counts as the worst, and the interval of the "
    "probability to win must exclude a half."
)
FAMILIES_NOTE = (
    "The correction covers the pairs of one table and score, not all tables and scores together: if no "
    "method differed from another, about 5% of the tables and scores would still show a false difference."
)
ALL_NOTES = f"{METHOD_NOTE} {ENDLESS_NOTE} {FAMILIES_NOTE}"


@dataclass(frozen=True)
class Verdict:
    """Which method is the best in one score on one table, as far as the trials show.

    Attributes:
        table, score: their names.
        best: the method with the best mean over all its trials. Empty if no method has a mean, if a method
            without a mean is shown to be ahead of it, or if only one method was run.
        tied: methods that are not shown to be worse than the best, in order.
        worse: methods that are shown to be worse than the best.
        unknown: methods that have no trial in common with the best.
        sentence: the same in words.
        failed: methods whose trials all failed; they are shown neither to be worse nor to be as good.
    """

    table: str
    score: str
    best: str
    tied: tuple[str, ...]
    worse: tuple[str, ...]
    unknown: tuple[str, ...]
    sentence: str
    failed: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        """Whether the best is shown to be better than every other method."""
        return bool(self.best and self.worse and not (self.tied or self.unknown or self.failed))


@dataclass(frozen=True, eq=False)
class Statistics:
    """All statistics of a run.

    Attributes:
        scores: one row per table, method and score: mean, std, low, high (the interval of the mean), trials,
            unanswered, failed, at_least (see scores.Summary), random_search (its exact mean), restricted,
            capped, random_search_restricted (for runtimes; see evaluation.restricted), best, tied.
        comparisons: one row per table, score and pair of methods a, b (see comparisons.Comparison).
        verdicts: a verdict for each table and score.
        notes: what is missing or should be known, in words.
        fewer: how many times fewer trainings than random search.
    """

    scores: pd.DataFrame
    comparisons: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    fewer: FewerTrainings


def shown_method(results: Results, table: str, statistics: Statistics | None) -> str:
    """The method whose single trials are shown: the best in the last score with a best one, or the last."""
    best = [v.best for v in (statistics.verdicts if statistics else ()) if v.table == table and v.best]
    return best[-1] if best else methods_on(results, table)[-1]


def run_statistics(results: Results) -> Statistics:
    """Intervals, comparisons and verdicts of a run; the notes name what cannot be computed."""
    by_trial = {table: score_values(results, table) for table in results.instances}
    scores = _score_frame(results, by_trial)
    comparisons, verdicts = [], []
    cells = scores.set_index(["table", "score", "method"])[["mean", "low", "high"]]
    # Trials that failed are missing from a method's mean, so it cannot be compared with other means.
    cells[(scores["failed"] > 0).to_numpy()] = np.nan
    means: _Means = {key: tuple(row) for key, *row in cells.itertuples(name=None)}
    for table, (methods, values) in by_trial.items():
        failed = [m for m in methods if all(t.failure for t in results.trials[table, m])]
        nothing = ""
        if not methods:
            nothing = "no method has finished yet"
        elif len(failed) == len(methods):
            nothing = "every trial failed"
        for score in results.suite.scores:
            found = compare_pairs(values[score], SCORES[score].lower_is_better)
            comparisons += [_named(table, score, methods, pair) for pair in found]
            if nothing:
                verdicts.append(Verdict(table, score, "", (), (), (), f"{score} on {table}: {nothing}."))
                continue
            digits = decimals(results.instances[table], score)
            verdicts.append(_verdict(table, score, methods, failed, values[score], means, found, digits))
    by_cell = {(v.table, v.score): v for v in verdicts}
    pairs = list(zip(scores.table, scores.score, scores.method, strict=True))
    scores["best"] = [m == by_cell[t, s].best for t, s, m in pairs]
    scores["tied"] = [m in by_cell[t, s].tied for t, s, m in pairs]
    columns = ["table", "score", *Comparison.__dataclass_fields__]
    return Statistics(
        scores=scores,
        comparisons=pd.DataFrame(comparisons, columns=columns),
        verdicts=tuple(verdicts),
        notes=tuple(run_notes(results)),
        fewer=fewer_trainings(results),
    )


def score_values(results: Results, table: str) -> tuple[tuple[str, ...], Mapping[str, Floats]]:
    """Each trial's scores on a table: the methods that were run there, and an array by score.

    Arrays have shape (methods, trials). A score is NaN if the trial was not run, and infinite if it ended or
    failed without an answer. If all trials of a method are the same run, only the first of them counts.
    """
    methods = tuple(m for m in results.methods if (table, m) in results.trials)
    width = max((len(results.trials[table, m]) for m in methods), default=0)
    instance = results.instances[table]
    array = np.full((len(instance.goals), len(methods), width), np.nan)
    for i, method in enumerate(methods):
        trials = results.trials[table, method]
        found = trial_scores(instance, results.seed, trials)
        array[:, i, : len(trials)] = np.where(np.isnan(found), np.inf, found)
        if same_run(results, table, method):
            array[:, i, 1:] = np.nan
    values = dict(zip(results.suite.scores, array, strict=True))
    return methods, values


def decimals(instance: Instance, score: str) -> int:
    """The number of decimals with which a score is shown: that of the paper, or more if values are small.

    A gap (fb) has at least two digits of the table's median gap. A time on the cost clock has at least one
    digit of the median cost of a training.
    """
    usual = SCORES[score].digits
    (goal,) = (goal for goal in instance.goals if goal.name == score)
    if goal.gaps is not None:
        sizes, digits = goal.gaps, 2
    elif goal.score_at is None and instance.problem.clock == "cost":
        sizes, digits = instance.trainings.whole_costs, 1
    else:
        return usual
    sizes = sizes[sizes > 0]
    return max(usual, digits - 1 - math.floor(math.log10(np.median(sizes)))) if len(sizes) else usual


def number(value: float, decimals: int) -> str:
    """A score with this many decimals, rounded half up, while Python rounds 36.5 to the even number 36.

    Numbers of 1e9 and beyond, and those that would need more than eight decimals, are written as 2.17e+18.
    """
    if abs(value) >= VAST or decimals > _MOST_DECIMALS:
        return f"{value:.2e}" if value else "0"
    return f"{without_noise(value, decimals):z.{decimals}f}"  # z: no "-0.00"


def without_noise(value: float, decimals: int) -> float:
    """A number to round to these decimals, moved past a half that it misses only by rounding errors."""
    return value + math.copysign(min(abs(value) * 1e-12, 1e-6 * 10.0**-decimals), value)


def rounded(means: Floats) -> Floats:
    """Means to twelve significant digits, so that those which differ only by rounding errors are equal."""
    return np.array([float(f"{mean:.12g}") for mean in means.ravel().tolist()]).reshape(means.shape)


def _score_frame(
    results: Results, by_trial: Mapping[str, tuple[tuple[str, ...], Mapping[str, Floats]]]
) -> pd.DataFrame:
    rows = []
    for table, instance in results.instances.items():
        methods, values = by_trial[table]
        intervals = {score: mean_intervals(array.T) for score, array in values.items()}
        exact = [mean for mean, _ in exact_scores(instance, results.seed, results.suite.trials)]
        budget = budget_of(instance)
        for i, method in enumerate(methods):
            summaries = zip(results.summary(table, method), instance.goals, exact, strict=True)
            for summary, goal, mean in summaries:
                # Failed trials may have answered before they failed, but this mean does not include them.
                low, high = (np.nan if summary.failed else bound[i] for bound in intervals[goal.name])
                cell = {"table": table, "method": method, "score": goal.name, **vars(summary)}
                cell |= {"low": low, "high": high, "random_search": mean}
                over = summary.failed > 0 or bool((values[goal.name][i] > budget).any())
                rows.append(cell | _restricted(results, table, method, goal, summary, budget, over))
    columns = ["table", "method", "score", "mean", "std", "low", "high", "trials", "unanswered", "failed"]
    columns += ["at_least", "random_search", "restricted", "capped", "random_search_restricted"]
    return pd.DataFrame(rows, columns=columns)


def _restricted(
    results: Results, table: str, method: str, goal: Goal, summary: Summary, budget: float, over: bool
) -> dict[str, float]:
    """The restricted mean of a runtime, the share of capped trials, and the mean of random search.

    `over`: whether a trial failed, or did not reach the target within the budget. An initial design may take
    longer than the budget.
    """
    names = ("restricted", "capped", "random_search_restricted")
    if goal.score_at is not None:
        return dict.fromkeys(names, np.nan)
    instance = results.instances[table]
    exact = random_search_within(instance, goal, budget)
    if not over:
        return dict(zip(names, (summary.mean, 0.0, exact), strict=True))
    rules = (budget, instance.problem.n_initial, instance.problem.lookups)
    runtimes = np.array([runtime_within(goal, trial, *rules) for trial in results.trials[table, method]])
    return dict(zip(names, (*restricted_mean(runtimes, budget), exact), strict=True))


def _named(table: str, score: str, methods: Sequence[str], pair: Comparison) -> dict[str, object]:
    a, b = methods[pair.a], methods[pair.b]
    better = {"a": a, "b": b, "": ""}[pair.better]
    return {"table": table, "score": score, **asdict(pair), "a": a, "b": b, "better": better}


def _verdict(
    table: str,
    score: str,
    methods: tuple[str, ...],
    all_failed: Sequence[str],
    values: Floats,
    means: _Means,
    found: Sequence[Comparison],
    digits: int,
) -> Verdict:
    where = f"{score} on {table}"
    if len(methods) < 2:
        return Verdict(table, score, "", (), (), (), f"{where}: only {listed(methods)} was run.")
    there = values[np.isfinite(values)]
    if len(there) == (~np.isnan(values)).sum() and len(there) and (there == there[0]).all():
        sentence = f"{where}: every method scores {number(there[0], digits)} in every trial."
        first, *others = (m for m in methods if m not in all_failed)
        return Verdict(table, score, first, tuple(others), (), (), sentence, tuple(all_failed))
    sign = 1.0 if SCORES[score].lower_is_better else -1.0
    mean = np.array([means[table, score, m][0] for m in methods])
    if np.isnan(mean).all():
        return Verdict(table, score, "", (), (), (), f"{where}: {_no_best(methods, found)}")
    shown = rounded(mean)
    best = int(np.nanargmin(sign * shown))
    tied, worse, unknown, ahead, failed = [], [], [], [], []
    for pair in (pair for pair in found if best in (pair.a, pair.b)):
        other = pair.b if pair.a == best else pair.a
        if pair.trials == 0:
            unknown.append(methods[other])
        elif pair.better and (pair.a if pair.better == "a" else pair.b) == best:
            worse.append(methods[other])
        elif methods[other] in all_failed:
            failed.append(methods[other])
        elif pair.better:
            ahead.append(methods[other])
        else:
            tied.append(methods[other])
    _, low, high = means[table, score, methods[best]]
    interval = "" if np.isnan(low) else f", 95% interval {number(low, digits)} to {number(high, digits)}"
    equal = [m for m, value in zip(methods, shown, strict=True) if value == shown[best] and m in tied]
    *before, last = [methods[best], *equal]
    holders = f"{methods[best]} has" if ahead or not before else f"{listed(before)} and {last} have"
    sentence = f"{where}: {holders} the best mean ({number(mean[best], digits)}{interval})"
    if ahead:
        verb = "is" if len(ahead) == 1 else "are"
        sentence += (
            f" of the methods with a value in every trial, but is not called best: {listed(ahead)}, without "
            f"a value in some trials, {verb} shown to be ahead of it in trials with the same start."
        )
        return Verdict(table, score, "", (), (), (), sentence)
    sentence += "."
    if len(tied) > len(equal):
        sentence += f" Not shown to be worse: {listed([m for m in tied if m not in equal])}."
    if worse:
        sentence += f" Shown to be worse: {listed(worse) if tied or unknown or failed else 'all others'}."
    if unknown:
        sentence += f" Without a trial to compare: {listed(unknown)}."
    if failed:
        sentence += f" Every trial failed: {listed(failed)}."
    return Verdict(
        table, score, methods[best], tuple(tied), tuple(worse), tuple(unknown), sentence, tuple(failed)
    )


def _no_best(methods: Sequence[str], found: Sequence[Comparison]) -> str:
    """The sentence of a verdict if no method has a mean."""
    beaten: dict[str, list[str]] = {}
    for pair in found:
        if pair.better:
            ahead, behind = (pair.a, pair.b) if pair.better == "a" else (pair.b, pair.a)
            beaten.setdefault(methods[ahead], []).append(methods[behind])
    text = "no method has a value in every trial, so there is no best mean."
    for winner, losers in beaten.items():
        text += f" {winner} is ahead of {listed(losers)} in trials with the same start."
    return text
