"""Times fewer trainings than random search: the figure that sums up a method in a run.

evaluation/figure.py defines it, benchmarking/task/target.py the target and the budget of a trial, and
analysis/decisions.py the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.decisions import COMPARISONS, compared, decision_sentences
from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.paired import SIMULATED, Paired
from hpobench_nmt.analysis.selection import families, same_run
from hpobench_nmt.benchmarking.records.frozen import part_note
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.target import Aims, aims_of, check_target, runtimes_to_target
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.evaluation.figure import family_means
from hpobench_nmt.methods import CONTROLS

TITLE = "Times fewer trainings than random search"
_HYPERVOLUME = "fbh"
_METHODS = ["method", "times_fewer", "low", "high", "capped", "failed", "hypervolume"]
_TABLES = ["table", "family", "rows", "targets", "budget", "random_search", "exact"]
_CELLS = ["table", "method", "restricted", "times_fewer", "capped", "failed"]
# Columns of version 1.1 that have no value any more. They leave with version 2.0.
_GONE_METHODS = ["by_tables", "families_low", "families_high", "development"]
_GONE_TABLES = ["half", "tolerance", "from_seeds", "random_search_capped"]


@dataclass(frozen=True, eq=False)
class FewerTrainings:
    """The figure of each method, its parts, and the tests.

    Attributes:
        methods: one row for each method: method; times_fewer, the figure, NaN if a trial failed or does not
            have a value; low and high, its interval over trials on these tables; capped, a share of the
            trials; failed, a number of trials; hypervolume, the mean share over families, NaN without fbh.
        tables: one row for each table: table; family; rows that a trial sees; targets, their mean number;
            budget and random_search, means over trials; exact, whether random search is exact.
        cells: one row for each table and method: table, method, restricted (mean), times_fewer, capped,
            failed.
        tests: the comparisons with random search, and with other methods (see `decisions.COMPARISONS`).
        aim: what trials look for, in a few words.
        paired: the trials; None without a figure.
        reason: why there is no figure, in words; "" if there is a figure.
        notes: notes on the figures, in sentences.
    """

    methods: pd.DataFrame
    tables: pd.DataFrame
    cells: pd.DataFrame
    tests: pd.DataFrame
    aim: str = ""
    paired: Paired | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()


Runtimes = Mapping[tuple[str, str], Floats]
"""Runtimes of trials by table and method, infinite for capped trials."""


def fewer_trainings(results: Results, others: Runtimes = MappingProxyType({})) -> FewerTrainings:
    """How many times fewer trainings than random search each method of a run needs.

        results = hb.run("quick", tables=["sotu-ngram"], trials=20)
        hb.fewer_trainings(results).methods

    Only tables that every method has finished count.

    Args:
        results: results of a run.
        others: runtimes of further methods on the same tables, as in the digest of an archive. A method that
            lacks one of the tables is left out.
    """
    reached, reasons = _reached(results)
    if not reached:
        return _without(listed(reasons) or "no table has been finished by every method.")
    tables = list(reached)
    further = [m for m in dict.fromkeys(m for _, m in others) if all((t, m) in others for t in tables)]
    methods = (*results.methods, *further)
    runtimes, aims, capped = {}, {}, np.empty((len(tables), len(methods)))
    for i, table in enumerate(tables):
        every = [*reached[table], *(others[table, m] for m in further)]
        common = min(map(len, every))
        found = np.array([values[:common] for values in every])
        capped[i] = np.where(np.isnan(found).any(axis=1), np.nan, np.isinf(found).mean(axis=1))
        aims[table] = aims_of(results.instances[table], results.seed, common)
        runtimes[table] = np.minimum(found, aims[table].budget)
    by_table = families(results)
    same = {t: [*(same_run(results, t, m) for m in results.methods), *[False] * len(further)] for t in tables}
    paired = Paired(methods, {t: by_table[t] for t in tables}, runtimes, aims, same)
    figure = paired.figure()
    low, high = figure.interval
    failed = np.array([[_failures(results, t, m) for m in methods] for t in tables])
    volume = np.full(len(methods), np.nan)
    volume[: len(results.methods)] = _hypervolume(results, tables, by_table)
    columns = (figure.figure, low, high, capped.mean(axis=0), failed.sum(axis=0), volume)
    frame = pd.DataFrame(dict(zip(_METHODS, (methods, *columns), strict=True)))
    cells = [
        (t, m, float(runtimes[t][j].mean()), float(np.exp(figure.logs[i, j])), capped[i, j], failed[i, j])
        for i, t in enumerate(tables)
        for j, m in enumerate(methods)
    ]
    lines = [_line(results, t, by_table[t], aims[t]) for t in tables]
    cell_frame = pd.DataFrame(cells, columns=_CELLS)
    table_frame = pd.DataFrame(lines, columns=_TABLES)
    notes = [part_note(results.suite, results.instances), *_notes(frame, table_frame, cell_frame), *reasons]
    return FewerTrainings(
        frame.assign(**dict.fromkeys(_GONE_METHODS, np.nan)),
        table_frame.assign(**dict.fromkeys(_GONE_TABLES, np.nan)),
        cell_frame,
        compared(paired),
        _aim(results, tables[0]),
        paired,
        notes=tuple(note for note in notes if note),
    )


def _aim(results: Results, table: str) -> str:
    if len(results.instances[table].objectives) > 1:
        return "a row of the front"
    if results.suite.on_whole_tables:
        return "a row within the tolerance of ftc"
    return "a row among the best 2%"


def _failures(results: Results, table: str, method: str) -> int:
    return sum(bool(trial.failure) for trial in results.trials.get((table, method), ()))


def _hypervolume(results: Results, tables: Sequence[str], family: Mapping[str, str]) -> Floats:
    """Each method's mean share of the hypervolume, over trials, tables of a family, and families."""
    scores = results.suite.scores
    if _HYPERVOLUME not in scores:
        return np.full(len(results.methods), np.nan)
    place = scores.index(_HYPERVOLUME)
    found = [[results.summary(t, m)[place] for m in results.methods] for t in tables]
    # A mean over the trials that did not fail cannot be compared with other means.
    means = np.array([[np.nan if s.failed else s.mean for s in row] for row in found], dtype=np.float64)
    return np.asarray(family_means(means, [family[t] for t in tables]).mean(axis=0))


def _without(reason: str) -> FewerTrainings:
    names = ([*_METHODS, *_GONE_METHODS], [*_TABLES, *_GONE_TABLES], _CELLS, COMPARISONS)
    methods, tables, cells, tests = (pd.DataFrame(columns=each) for each in names)
    return FewerTrainings(methods, tables, cells, tests, reason=reason)


def _reached(results: Results) -> tuple[dict[str, list[Floats]], list[str]]:
    """Each method's runtimes to the target on the tables that count, and why other tables do not count."""
    found, reasons = {}, []
    for table, instance in results.instances.items():
        if not all(len(results.trials.get((table, m), ())) for m in results.methods):
            reasons.append(f"{table} does not count: not every method has finished it.")
            continue
        try:
            check_target(instance)
        except InputError as error:
            reasons.append(f"{table} does not count: {str(error).rstrip('.')}.")
            continue
        of_methods = [results.trials[table, method] for method in results.methods]
        found[table] = runtimes_to_target(instance, results.seed, of_methods)
    return found, reasons


def trial_runtimes(results: Results) -> dict[str, list[Floats]]:
    """When each trial reached its target, by table: an array of shape (trials,) for each method."""
    return _reached(results)[0]


def _line(results: Results, table: str, family: str, aims: Aims) -> tuple[object, ...]:
    exact = results.instances[table].problem.clock == "lookups"
    means = (float(values.mean()) for values in (aims.targets, aims.budget, aims.random_search))
    return (table, family, int(aims.rows[0]), *means, exact)


def _notes(methods: pd.DataFrame, tables: pd.DataFrame, cells: pd.DataFrame) -> list[str]:
    notes = []
    for method, count in zip(methods["method"], methods["failed"].tolist(), strict=True):
        if count:
            where = cells[(cells["method"] == method) & (cells["failed"] > 0)]["table"].tolist()
            notes.append(f"No figure: {method} failed in {counted(count, 'trial')} (on {listed(where)}).")
    if lacking := methods[methods["times_fewer"].isna() & (methods["failed"] == 0)]["method"].tolist():
        there = cells[cells["method"].isin(lacking) & cells["times_fewer"].isna()]["table"]
        notes.append(
            f"No figure: {listed(lacking)}, of which trials stopped before the budget without the target (on "
            f"{listed(there.unique().tolist())})."
        )
    if not tables["exact"].all():
        notes.append("≈: random search on a clock of costs is computed from 100,000 permutations.")
    return notes


def fewer_headline(found: FewerTrainings) -> list[str]:
    """The best figure in a sentence; empty without figures, or if no method is better than random search.

    The simulation of random search may be luckier than its exact mean, so it does not count as a method, and
    neither do controls.
    """
    known = found.methods[~found.methods["method"].isin([SIMULATED, *CONTROLS])]
    known = known[known["times_fewer"] > 1.0]
    if not len(known):
        return []
    best = known.sort_values("times_fewer", kind="stable").iloc[-1]
    interval = "" if np.isnan(best["low"]) else f" (95%: {short(best['low'])} to {short(best['high'])})"
    tables, n_families = len(found.tables), found.tables["family"].nunique()
    where = counted(tables, "table")
    if 1 < n_families < tables:
        where += f" of {counted(n_families, 'family', 'families')}"
    times = short(best["times_fewer"])
    fewer = f"{best['method']} takes {times} times fewer trainings than random search{interval}"
    return [f"{fewer} to find {found.aim}, over {where}."]


def fewer_answer(found: FewerTrainings) -> list[str]:
    """The headline, or that no method is better than random search."""
    return fewer_headline(found) or ["No method takes fewer trainings than random search."]


def reference_text(line: Any) -> str:
    """How long random search takes on a table, from its line of `FewerTrainings.tables`."""
    return f"{'' if line['exact'] else '≈'}{short(line['random_search'], commas=True)}"


def fewer_sentences(results: Results, found: FewerTrainings) -> list[str]:
    """Sentences that explain the figures, and state what the tests show, and notes."""
    lines = [
        f"Trainings until {found.aim} is found. A trial that does not reach this is capped: it counts as the "
        f"whole budget."
    ]
    if len(found.tables) > 1:
        lines[0] += " Geometric mean over families with equal weights. Interval: over trials on these tables."
    tau, low = found.paired.agreement() if found.paired else (np.nan, np.nan)
    if not np.isnan(tau):
        lines.append(
            f"Random halves of the families order the methods with Kendall's tau of {tau:.2f} in the mean, "
            f"and of at least {low:.2f} in nine of ten (without controls and random search)."
        )
    return [*lines, *decision_sentences(found.tests), *found.notes]
