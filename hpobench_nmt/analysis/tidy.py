"""Results that were made elsewhere, as a data frame or CSV file with one row for each evaluation.

    column   meaning
    method   name of the method
    task     what it was run on
    family   tasks of a family resemble each other; all families have the same weight
    trial    a run of the method on the task; runs of two methods with the same label are paired
    budget   spent until the evaluation ended, above 0: evaluations, seconds, or any other unit
    value    what it measured; lower is better; missing if it failed

Without a table, neither the best 2% nor exact random search is known. A baseline takes their place:

    tau      budget of a task: the smallest that a trial of the baseline was run to
    target   the median, over the baseline's trials, of the best value after tau / 2
    T        min(budget until the target was reached, tau), of each trial
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.paired import Paired
from hpobench_nmt.analysis.table_front import numbers_of_column, read_columns
from hpobench_nmt.benchmarking.task.target import Aims
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.lookup.disk.rows import line_of

LABELS, NUMBERS = ["method", "task", "family", "trial"], ["budget", "value"]
Tidy = pd.DataFrame | str | Path
"""A data frame, or the path of a CSV file."""


def paired_with_baseline(source: Tidy, methods: Sequence[str]) -> Paired:
    """The trials of a method and of a baseline, which is the second of the two names.

    Raises:
        InputError: a column, method or trial is missing, or a trial ended before tau without the target.
    """
    path, frame = _checked(source)
    there = list(frame["method"].unique())
    if len(methods) != 2:
        raise InputError(f"name a method and then the baseline, of {listed(there)}.")
    check_known("method", methods, there, f"({path})")
    families, runtimes, aims, copies = {}, {}, {}, {}
    for label, rows in frame[frame["method"].isin(methods)].groupby("task", sort=False):
        task, where = str(label), f"{path}, task {label}"
        if rows["family"].nunique() > 1:
            raise InputError(f"{where}: is in two families, {listed(sorted(rows['family'].unique()))}.")
        runs = [_trials(rows[rows["method"] == name]) for name in methods]
        for k in (0, 1):
            if lacking := sorted(set(runs[1 - k]) - set(runs[k])):
                raise InputError(
                    f"{where}: {methods[k]} lacks trials that {methods[1 - k]} has ({listed(lacking)}). Name "
                    "the trials of all methods 0, 1, 2, …, and leave out those that only one method has."
                )
        baseline = list(runs[1].values())
        tau = min(float(budgets[-1]) for budgets, _ in baseline)
        target = float(np.median([_best_at(*trial, tau / 2) for trial in baseline]))
        if not np.isfinite(target):
            raise InputError(f"{where}: {methods[1]} has no value after half of the budget, {tau / 2:g}.")
        found = np.array([[_until(*each[trial], target) for trial in runs[0]] for each in runs])
        ends = np.array([[each[trial][0][-1] for trial in runs[0]] for each in runs])
        short = np.argwhere((found > tau) & (ends < tau))
        if len(short):
            k, place = short[0]
            trial, end = list(runs[0])[place], ends[k, place]
            raise InputError(
                f"{where}, trial {trial} of {methods[k]}: ended at {end:g} of {tau:g} "
                "without the target. To compare up to there, leave out rows with a larger budget."
            )
        count, least = found.shape[1], float(rows["budget"].min())
        unknowns = np.full(count, np.nan)
        families[task], runtimes[task] = rows["family"].iloc[0], np.minimum(found, tau)
        aims[task] = Aims(unknowns, unknowns, np.full(count, tau), unknowns, np.full(count, least))
        copies[task] = [_same(list(each.values())) for each in runs]
    return Paired(tuple(methods), families, runtimes, aims, copies)


def _checked(source: Tidy) -> tuple[Path, pd.DataFrame]:
    """The frame with labels as texts and two columns of numbers, and its name for messages."""
    path, frame, given = read_columns(source)
    if lacking := [name for name in (*LABELS, *NUMBERS) if name not in frame]:
        raise InputError(f"{path}: has no column {listed(lacking)}. It needs {listed([*LABELS, *NUMBERS])}.")
    numbers = {name: numbers_of_column(frame, name, path, given) for name in NUMBERS}
    labels = frame[LABELS]
    empty = labels.isna() | (labels.astype(str).apply(lambda cells: cells.str.strip()) == "")
    wrong = np.flatnonzero(empty.any(axis=1) | ~(np.isfinite(numbers["budget"]) & (numbers["budget"] > 0)))
    if len(wrong):
        where = f"{path}, row {wrong[0]}" if given else line_of(path, wrong[0])
        raise InputError(
            f"{where}: needs a method, a task, a family, a trial and a budget above 0. Only the value may be "
            "missing."
        )
    return path, labels.astype(str).assign(**numbers)


def _trials(rows: pd.DataFrame) -> dict[str, tuple[Floats, Floats]]:
    """By trial, its budgets in ascending order, and the best value until each; infinite before the first."""
    found = {}
    for label, own in rows.sort_values("budget", kind="stable").groupby("trial"):
        values = own["value"].fillna(np.inf).to_numpy(np.float64)
        found[str(label)] = own["budget"].to_numpy(np.float64), np.minimum.accumulate(values)
    return found


def _best_at(budgets: Floats, best: Floats, budget: float) -> float:
    count = int(np.searchsorted(budgets, budget, side="right"))
    return float(best[count - 1]) if count else np.inf


def _until(budgets: Floats, best: Floats, target: float) -> float:
    reached = best <= target
    return float(budgets[reached.argmax()]) if reached.any() else np.inf


def _same(trials: Sequence[tuple[Floats, Floats]]) -> bool:
    """Whether several trials are the same run."""
    first, *others = trials
    return bool(others) and all(all(map(np.array_equal, first, other)) for other in others)
