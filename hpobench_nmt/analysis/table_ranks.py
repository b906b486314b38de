"""Methods ranked over the tables of a run by their means; runtimes by restricted means.

If some trials do not reach the target, the runtime does not have a mean, but it has a restricted mean, in
which these trials count as the whole budget. So a table is not lost when a single trial of one method does
not reach the target. (Otherwise Friedman's test would drop the table for all methods.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.number_text import listed, p_text
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.ranks import RankTest, rank_test, rounded
from hpobench_nmt.evaluation.scores import SCORES


@dataclass(frozen=True, eq=False)
class RankOutcome:
    """Methods, in the order of the test's arrays, ranked over some tables in one score.

    The test is None if it is impossible. The sentence explains the figure, or why the test is impossible.
    """

    score: str
    methods: tuple[str, ...]
    tables: tuple[str, ...]
    test: RankTest | None
    sentence: str


def ranked_by(cells: pd.DataFrame) -> pd.Series:
    """The value by which each line of the scores of Statistics is ranked; NaN without a value."""
    # Trials that failed are missing from a mean, so that it cannot be compared with other means.
    runtime = cells["score"].map(lambda name: not SCORES[name].needs_score_at)
    whole = cells["mean"].where(cells["failed"] == 0)
    return whole.where(~runtime, cells["restricted"]).astype(np.float64)


def ranks_of(means: Sequence[float], score: str) -> list[float]:
    """Ranks of a score's means, 1 for the best; methods without a mean share the last ranks."""
    from scipy.stats import rankdata  # slow to import

    values = rounded(np.array(means, dtype=np.float64))
    losses = values if SCORES[score].lower_is_better else -values
    ranks: list[float] = rankdata(np.where(np.isnan(losses), np.inf, losses)).tolist()
    return ranks


def rank_outcome(results: Results, score: str, cells: pd.DataFrame) -> RankOutcome:
    """Friedman's and Nemenyi's tests over the tables on which all methods have a value.

    Methods without a value on any table are left out. The cells are the scores of Statistics.
    """
    chosen = cells[cells["score"] == score]
    keys = list(zip(chosen["table"], chosen["method"], strict=True))
    values_of = dict(zip(keys, ranked_by(chosen).tolist(), strict=True))
    means_of = {m: {t: values_of.get((t, m), np.nan) for t in results.instances} for m in results.methods}
    methods = tuple(m for m, of_tables in means_of.items() if not np.isnan(list(of_tables.values())).all())
    rows = {table: [means_of[m][table] for m in methods] for table in results.instances}
    whole = {table: row for table, row in rows.items() if not np.isnan(row).any()}
    lacking = [
        f"{table} ({listed([m for m, mean in zip(methods, row, strict=True) if np.isnan(mean)])})"
        for table, row in rows.items()
        if table not in whole
    ]
    omitted = ""
    if lacking:
        omitted = f" Tables left out, because a method has no mean over all its trials: {listed(lacking)}."
    unranked = [m for m in results.methods if m not in methods]
    if unranked:
        have = "has" if len(unranked) == 1 else "have"
        omitted += f" Not ranked: {listed(unranked)}, which {have} no mean over all trials on any table."
    omitted += _capped(chosen[chosen["table"].isin(whole)])
    values = np.array(list(whole.values())).reshape(len(whole), len(methods))
    try:
        test = rank_test(values, SCORES[score].lower_is_better)
    except InputError as error:
        return RankOutcome(
            score, methods, tuple(whole), None, f"{score}: no ranking over tables. {error}{omitted}"
        )
    if not test.can_show:
        told = f"{test.n_tables} tables are too few to show that one of {len(methods)} methods ranks better."
        return RankOutcome(score, methods, tuple(whole), test, told + omitted)
    told = (
        f"Mean ranks in {score} over {test.n_tables} tables (Friedman's test, {p_text(test.p)}). A bar joins "
        f"methods that differ by less than Nemenyi's critical difference, {test.critical_difference:.2f}."
    )
    return RankOutcome(score, methods, tuple(whole), test, told + omitted)


def _capped(cells: pd.DataFrame) -> str:
    """Which methods have trials that count as the whole budget, and their share."""
    found = []
    for method, part in cells.groupby("method", sort=False):
        count, trials = (part["capped"] * part["trials"]).sum(), part["trials"].sum()
        if count > 0:
            found.append(f"{method} {count / trials:.0%}")
    if not found:
        return ""
    return f" Trials that did not reach the target, and count as the whole budget: {listed(found)}."
