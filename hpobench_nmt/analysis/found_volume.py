"""Share of the hypervolume that each method finds, over the tables of a run with several objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.paired import SIMULATED
from hpobench_nmt.analysis.selection import families
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import by_checkpoints
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.curves import hypervolume_shares
from hpobench_nmt.evaluation.figure import family_means
from hpobench_nmt.evaluation.hypervolume import table_scale
from hpobench_nmt.evaluation.intervals import CONFIDENCE, RESAMPLES, resampled_sums
from hpobench_nmt.evaluation.random_search import random_search_hypervolume


@dataclass(frozen=True, eq=False)
class FoundVolume:
    """How much of the hypervolume the methods of a run find.

    Attributes:
        methods: one row per method, the best first: method, share, low, high (the interval over trials).
        random_search: random search's share: exact, or else that of the method RS; NaN if neither is known.
        exact: whether random search's share is exact.
        tables: one row per table: table, family, at (when the share is measured), unit, random_search.
        notes: what is missing, in sentences.
    """

    methods: pd.DataFrame
    random_search: float
    exact: bool
    tables: pd.DataFrame
    notes: tuple[str, ...] = ()


def found_volume(results: Results, at: Mapping[str, float]) -> FoundVolume:
    """The mean share of the hypervolume that each method has found, over trials, tables and families.

    Only tables that every method has finished count. A method without a value on one of them, because a trial
    failed or ended earlier, is left out.

    Args:
        results: results of a run with several objectives.
        at: by table, the number of look-ups or the time on the clock at which the share is measured.

    Raises:
        InputError: no table counts.
    """
    methods = results.methods
    tables = [t for t in results.instances if all(len(results.trials.get((t, m), ())) for m in methods)]
    if not tables:
        raise InputError("no table has been finished by every method.")
    by_table = families(results)
    family = [by_table[t] for t in tables]
    found = [_shares(results, t, at[t]) for t in tables]
    mean = family_means(np.array([shares.mean(axis=1) for shares in found]), family).mean(axis=0)
    low, high = _interval(found, family)
    shown = pd.DataFrame({"method": methods, "share": mean, "low": low, "high": high})
    missing = list(shown[shown["share"].isna()]["method"])
    notes = []
    if missing:
        notes.append(f"Without a value, because a trial failed or ended before: {listed(missing)}.")
    reference = np.array([_random_search(results.instances[t], at[t]) for t in tables])
    exact = not np.isnan(reference).any()
    if not exact:
        own = [each[methods.index(SIMULATED)].mean() for each in found] if SIMULATED in methods else np.nan
        reference = np.broadcast_to(own, len(tables))
    frame = pd.DataFrame(
        {
            "table": tables,
            "family": family,
            "at": [at[t] for t in tables],
            "unit": [results.instances[t].time_unit for t in tables],
            "random_search": reference,
        }
    )
    return FoundVolume(
        shown.dropna(subset=["share"]).sort_values("share", ascending=False, kind="stable"),
        float(family_means(reference[:, None], family).mean()),
        exact,
        frame,
        tuple(notes),
    )


def _shares(results: Results, table: str, at: float) -> Floats:
    """Each trial's share on a table, shape (methods, trials), for the trials that all methods have."""
    instance = results.instances[table]
    scale = table_scale(instance.scored_trainings.models)
    common = min(len(results.trials[table, m]) for m in results.methods)
    own = []
    for method in results.methods:
        trials = results.trials[table, method]
        counted = [by_checkpoints(instance, trials[i]) for i in range(common)]
        shares = hypervolume_shares(counted, scale, np.array([at]))[:, 0]
        own.append(np.where([bool(trials[i].failure) for i in range(common)], np.nan, shares))
    return np.array(own)


def _random_search(instance: Instance, at: float) -> float:
    """The exact share of random search; NaN if it is not known."""
    problem = instance.problem
    if problem.clock != "lookups":
        return np.nan
    lookups = min(int(at) * problem.workers, len(instance.table))
    scale = table_scale(instance.scored_trainings.models)
    try:
        return float(random_search_hypervolume(instance.scored, scale, lookups)[-1])
    except InputError:  # more than two objectives, or too many rows
        return np.nan


def _interval(found: list[Floats], family: list[str]) -> tuple[Floats, Floats]:
    """The interval of each method's mean over resampled trials on fixed tables, as for fewer trainings."""
    total = np.zeros((RESAMPLES, len(found[0])))
    n_families = len(set(family))
    for i, shares in enumerate(found):
        means = resampled_sums(shares.T, RESAMPLES, i) / shares.shape[1]
        total += means / (family.count(family[i]) * n_families)
    low, high = np.quantile(total, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    if min(len(shares.T) for shares in found) < 2:  # resamples of one trial are all the same
        low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
    return low, high
