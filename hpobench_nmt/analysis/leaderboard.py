"""The leaderboard: every score of every method on every table, with intervals and ties with the best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.chosen_rows import OPTIMISM, RECOMMENDED, TRUE_REGRET, chosen_rows
from hpobench_nmt.analysis.fewer_trainings import FewerTrainings, reference_text
from hpobench_nmt.analysis.paired import SIMULATED
from hpobench_nmt.analysis.verdicts import (
    Statistics,
    decimals,
    number,
    rounded,
    run_statistics,
    without_noise,
)
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import exact_scores
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.benchmarking.task.suite_files import load_suite, published_figures, suite_files
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import NONE, VAST, counted, short
from hpobench_nmt.evaluation.scores import SCORES, Summary
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.methods import CONTROLS

# The paper's figures are over this many trials, and the same is assumed for other published figures.
_PUBLISHED_TRIALS = 100


@dataclass(frozen=True)
class Cell:
    """One score of one method on one table.

    Attributes:
        table, method, score: their names.
        summary: the score in this run.
        low, high: 95% interval of the mean, NaN if there is none.
        best: whether no other method's mean is better.
        tied: whether it is not the best, but not shown to be worse.
        published_mean, published_std: figures to compare with, NaN if there are none.
        decimals: the number of decimals with which figures are shown.
    """

    table: str
    method: str
    score: str
    summary: Summary
    low: float
    high: float
    best: bool
    tied: bool
    published_mean: float
    published_std: float
    decimals: int

    @property
    def distance(self) -> float:
        """This run's mean minus the published mean, in standard errors of the difference."""
        error = math.hypot(self.summary.stderr, self.published_std / math.sqrt(_PUBLISHED_TRIALS))
        difference = self.summary.mean - self.published_mean
        if difference == 0.0:
            return 0.0
        return difference / error if error > 0 else np.nan


def cells(results: Results, statistics: Statistics | None = None) -> Iterator[Cell]:
    """Every cell of the leaderboard, by table, method and score. Statistics are computed if not given."""
    statistics = statistics or run_statistics(results)
    published = _published(results)
    columns = (statistics.scores[name] for name in ("table", "method", "score", "low", "high"))
    found = {(t, m, s): (low, high) for t, m, s, low, high in zip(*columns, strict=True)}
    verdicts = {(v.table, v.score): v for v in statistics.verdicts}
    for table in results.instances:
        summaries = {m: results.summary(table, m) for m in results.methods if (table, m) in results.trials}
        for j, score in enumerate(results.suite.scores):
            verdict, digits = verdicts[table, score], decimals(results.instances[table], score)
            best = summaries[verdict.best][j].mean if verdict.best else np.nan
            equal = rounded(np.array([row[j].mean for row in summaries.values()])) == rounded(np.array(best))
            for (method, row), same in zip(summaries.items(), equal.tolist(), strict=True):
                mean, std = published.get((method, table, score), (np.nan, np.nan))
                low, high = found[table, method, score]
                tied = method in verdict.tied
                # If several means are equal, each of them is the best.
                is_best = method == verdict.best or (tied and same)
                marks = (is_best, tied and not is_best)
                bounds = (float(low), float(high))
                yield Cell(table, method, score, row[j], *bounds, *marks, mean, std, digits)


def ranked_methods(results: Results, statistics: Statistics, table: str) -> list[str]:
    """The methods on a table by their mean rank in its scores, best first; those without a mean come last.

    Runtimes are ranked by restricted means, which also methods have that sometimes miss the target.
    """
    part = statistics.scores[statistics.scores["table"] == table]
    methods = [m for m in results.methods if (table, m) in results.trials]
    ranks = []
    for score in results.suite.scores:
        cells = part[part["score"] == score].set_index("method").loc[methods]
        # Trials that failed are missing from a mean, so that it cannot be compared with other means.
        whole = cells["mean"].where(cells["failed"] == 0)
        means = rounded((whole if SCORES[score].needs_score_at else cells["restricted"]).to_numpy(np.float64))
        losses = pd.Series(means if SCORES[score].lower_is_better else -means)
        ranks.append(losses.rank(na_option="bottom").to_numpy())
    return [methods[place] for place in np.argsort(np.mean(ranks, axis=0), kind="stable")]


def exact(results: Results, table: str) -> list[tuple[float, float]]:
    """Mean and standard deviation of each score under random search, without simulation."""
    return exact_scores(results.instances[table], results.seed, results.suite.trials)


def figure(mean: float, std: float, decimals: int) -> str:
    """mean±std; a dash without a mean."""
    if np.isnan(mean):
        return NONE
    if np.isnan(std):
        return number(mean, decimals)
    return f"{number(mean, decimals)}±{number(std, decimals)}"


def interval(cell: Cell) -> str:
    """The interval of a cell's mean, empty if there is none."""
    low, high = (number(bound, cell.decimals) for bound in (cell.low, cell.high))
    return "" if np.isnan(cell.low) else f"{low}–{high}"


def shown(cell: Cell) -> str:
    """A cell's figure, with the numbers of censored and failed trials."""
    s = cell.summary
    if not np.isnan(s.mean):
        text = figure(s.mean, s.std, cell.decimals)
    elif not np.isnan(s.at_least):
        digits = cell.decimals if s.at_least < VAST else 2 - math.floor(math.log10(s.at_least))
        unit = 10.0**digits
        # Rounded up, it would not be a lower bound.
        below = np.floor(without_noise(s.at_least, digits) * unit) / unit
        text = f"≥{number(below, cell.decimals)}"
    else:
        text = NONE
    notes = []
    if s.unanswered:
        notes.append(f"{s.unanswered} not reached")
    if s.failed:
        notes.append(f"{s.failed} failed")
    return f"{text} ({', '.join(notes)})" if notes else text


def meaning(suite: Suite, score: str) -> str:
    """The meaning of a suite's score, in look-ups or in time on its clock."""
    return SCORES[score].meaning(suite.timed)


def setting(results: Results, table: str) -> str:
    """The setting of a table's scores: rows, objectives, trials, clock, noise, and ftc's tolerance."""
    instance, suite = results.instances[table], results.suite
    objectives = ", ".join(str(o) for o in instance.objectives)
    told = f"{counted(len(instance.table), 'row')}, {objectives}, {counted(suite.trials, 'trial')}"
    if suite.timed:
        told += f", {counted(suite.workers, 'worker')}, time in {instance.time_unit}"
    if suite.noise:
        told += "; a look-up draws one of the row's trainings, and scores use the row's mean"
    if near := [score for score in suite.scores if SCORES[score].needs_tolerance]:
        told += f"; {', '.join(near)}: within {tolerance(instance)} of the best"
    return told


def score_setting(results: Results, table: str, score: str) -> dict[str, Any]:
    """The setting of a score on a table, for files; None for values that do not apply to the score.

    Keys: score_at, the amount after which it is measured; tolerance, how near the best counts; unit, of its
    mean (None for a number of rows, and for a metric without a unit); clock; workers.
    """
    instance, suite, kind = results.instances[table], results.suite, SCORES[score]
    unit = "" if kind.needs_score_at else instance.time_unit
    if kind.needs_score_at and kind.n_objectives == 1:
        unit = instance.table.metric(instance.objectives[0].metric).unit
    return {
        "score_at": suite.score_at_for(table) if kind.needs_score_at else None,
        "tolerance": float(instance.tolerance) if kind.needs_tolerance else None,
        "unit": unit or None,
        "clock": suite.clock,
        "workers": suite.workers,
    }


def file_setting(results: Results, table: str) -> str:
    """The setting of a table's scores in one line, for files that are read alone."""
    instance, suite = results.instances[table], results.suite
    late = [score for score in suite.scores if SCORES[score].needs_score_at]
    at = suite.score_at_for(table)
    taken = f"; {', '.join(late)}: after {at:.10g} {instance.time_unit}" if late and at else ""
    ran = "" if suite.timed else f"; clock {suite.clock}, {counted(suite.workers, 'worker')}"
    return f"{table}: {setting(results, table)}{taken}{ran}"


def first_on(results: Results, found: FewerTrainings, table: str) -> str:
    """The method that reaches a table's target first, and when random search reaches it; "" if unknown."""
    chosen, cells = (frame[frame["table"] == table] for frame in (found.tables, found.cells))
    cells = cells[cells["times_fewer"].notna() & ~cells["method"].isin([SIMULATED, *CONTROLS])]
    if not len(chosen) or not len(cells):
        return ""
    line, unit = chosen.iloc[0], results.instances[table].time_unit
    best = cells.iloc[int(cells["times_fewer"].to_numpy().argmax())]
    time, reference = short(best["restricted"], commas=True), reference_text(line)
    if not best["times_fewer"] > 1.0:
        return f"random search {reference} {unit}; no method is faster"
    fewer = f"{short(best['times_fewer'])} times fewer"
    return f"{best['method']} {time} {unit}, random search {reference}, {fewer}"


def fewer_setting(results: Results, found: FewerTrainings, table: str) -> str:
    """What the figure counts on a table: the target, its number of rows, and the budget; "" without them."""
    chosen = found.tables[found.tables["table"] == table]
    if not len(chosen):
        return ""
    line, unit = chosen.iloc[0], results.instances[table].time_unit
    return (
        f"times fewer: to {found.aim} ({short(line['targets'])} of {counted(int(line['rows']), 'row')}), in "
        f"{short(line['budget'], commas=True)} {unit} at most; random search takes "
        f"{reference_text(line)}"
    )


def chosen_meanings(results: Results) -> list[str]:
    """The meanings of the columns on the rows that trials choose."""
    names = dict.fromkeys(c.name for table in results.instances for c in chosen_rows(results, table))
    told = []
    if TRUE_REGRET in names:
        told.append(f"{TRUE_REGRET}: true regret of the row chosen then, from the mean of its trainings")
    if RECOMMENDED in names:
        told.append(f"{RECOMMENDED}: true regret of the row that the method recommends in the end")
        told.append(f"{OPTIMISM}: by how much what the trial saw of that row is better than its mean")
    if tests := ", ".join(name for name in names if name not in (TRUE_REGRET, RECOMMENDED, OPTIMISM)):
        told.append(f"{tests}: value of the row that is then chosen on dev")
    return told


def tolerance(instance: Instance) -> str:
    """The tolerance of ftc on a table, with the metric's unit."""
    return short(instance.tolerance, unit=instance.table.metric(instance.objectives[0].metric).unit)


def subject_to(results: Results, table: str) -> str:
    """The constraints, and how many rows of a table satisfy them; "" if there are none."""
    instance = results.instances[table]
    if instance.violations is None:
        return ""
    kept = f"{instance.n_feasible} of {counted(len(instance.table), 'row')}"
    return f"{', '.join(results.suite.constraints)}: {kept}"


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds with two significant digits; empty if they are not known."""
    ms = 1e3 * seconds
    digits = 0 if ms >= 9.95 else 1 if ms >= 0.995 else 2
    return f"{ms:.{digits}f}" if np.isfinite(ms) else ""


def heading(results: Results, table: str, score: str) -> str:
    """A score's heading in a table: its name, when it is measured, and an arrow for the better direction."""
    score_at = results.suite.score_at_for(table) if SCORES[score].needs_score_at else None
    return f"{score}{f' @{score_at:.10g}' if score_at else ''} {SCORES[score].arrow}"


def score_records(results: Results) -> list[dict[str, Any]]:
    """One record per cell, together with the exact random-search value; None for unknown values."""
    exact_by_table = {table: exact(results, table) for table in results.instances}
    statistics = run_statistics(results)
    names = ("restricted", "capped", "random_search_restricted")
    columns = (statistics.scores[name].tolist() for name in ("table", "method", "score", *names))
    restricted = {(t, m, s): dict(zip(names, v, strict=True)) for t, m, s, *v in zip(*columns, strict=True)}
    records = []
    for cell in cells(results, statistics):
        s = cell.summary
        mean, std = exact_by_table[cell.table][results.suite.scores.index(cell.score)]
        values = {"mean": s.mean, "std": s.std, "stderr": s.stderr, "ci_low": cell.low, "ci_high": cell.high}
        values |= {"at_least": s.at_least, "random_search_mean": mean, "random_search_std": std}
        values |= {"published_mean": cell.published_mean, "published_std": cell.published_std}
        values |= {"distance_se": cell.distance}
        values |= restricted[cell.table, cell.method, cell.score]
        records.append(
            {"table": cell.table, "method": cell.method, "score": cell.score, "best": cell.best}
            | {"trials": s.trials, "not_reached": s.unanswered, "failed": s.failed, "tied": cell.tied}
            | {key: None if np.isnan(value) else float(value) for key, value in values.items()}
            | score_setting(results, cell.table, cell.score)
        )
    return records


def _published(results: Results) -> Mapping[tuple[str, str, str], tuple[float, float]]:
    """Published figures to compare with: all of a user's suite, or those of the paper for the same task."""
    try:
        figures = published_figures(results.suite)
    except InputError:  # the file of somebody else's suite: trial_notes reports it
        return {}
    if Path(results.suite.published).is_absolute():
        return figures
    comparable = {name for name, instance in results.instances.items() if _is_the_papers(results, instance)}
    return {key: figure for key, figure in figures.items() if key[1] in comparable}


def _is_the_papers(results: Results, instance: Instance) -> bool:
    """Whether the task on a table is the same as in a suite of the paper."""
    suite, name = results.suite, instance.table.name
    for paper in map(load_suite, suite_files()):
        if paper.published == suite.published and paper.scores == suite.scores:
            return (
                instance.table.claims.get("collection") in COLLECTIONS
                and tuple(str(o) for o in instance.objectives) == paper.objectives
                and (suite.ties, suite.n_initial, suite.lookups) == (paper.ties, paper.n_initial, None)
                and not (suite.constraints or suite.noise or suite.timed or suite.time)
                and suite.tolerance_for(name) == paper.tolerance_for(name)
                and suite.score_at_for(name) == paper.score_at_for(name)
            )
    return False
