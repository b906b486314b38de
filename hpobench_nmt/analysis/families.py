"""Families: tables of one group, which resemble each other and so are summarised before they count."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import families
from hpobench_nmt.analysis.table_ranks import ranked_by
from hpobench_nmt.analysis.verdicts import Statistics
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.evaluation.ranks import rounded
from hpobench_nmt.evaluation.scores import SCORES


def family_frame(results: Results, statistics: Statistics) -> pd.DataFrame:
    """One row per family, score and method: family, score, method, tables, mean_rank, best.

    `tables` counts the family's tables on which all methods were run, and `mean_rank` is over these. Rank 1
    is the best mean (for runtimes, the best restricted mean), and methods without a mean share the last
    ranks. `best` counts the tables on which the method is the best, or not shown to be worse.
    """
    rows = []
    cells = statistics.scores
    keys = list(zip(cells["table"], cells["score"], cells["method"], strict=True))
    means = dict(zip(keys, ranked_by(cells).tolist(), strict=True))
    leads = dict(zip(keys, (cells["best"] | cells["tied"]).tolist(), strict=True))
    for family, tables in families(results).items():
        whole = [t for t in tables if all((t, m) in results.trials for m in results.methods)]
        for score in results.suite.scores:
            ranks = [ranks_of([means[t, score, m] for m in results.methods], score) for t in whole]
            for i, method in enumerate(results.methods):
                mean = float(np.mean([of[i] for of in ranks])) if ranks else np.nan
                best = sum(bool(leads[t, score, method]) for t in whole)
                rows.append((family, score, method, len(whole), mean, best))
    return pd.DataFrame(rows, columns=["family", "score", "method", "tables", "mean_rank", "best"])


def ranks_of(means: list[float], score: str) -> list[float]:
    """Ranks of a score's means, 1 for the best; methods without a mean share the last ranks."""
    from scipy.stats import rankdata  # slow to import

    values = rounded(np.array(means, dtype=np.float64))
    losses = values if SCORES[score].lower_is_better else -values
    ranks: list[float] = rankdata(np.where(np.isnan(losses), np.inf, losses)).tolist()
    return ranks


def family_sentences(results: Results, statistics: Statistics) -> list[str]:
    """The frame in words, a sentence for each family of several tables and score; empty for one method."""
    if len(results.methods) < 2:
        return []
    lines = []
    frame = family_frame(results, statistics)
    for (family, score), part in frame[frame["tables"] > 1].groupby(["family", "score"], sort=False):
        ordered = part.sort_values("mean_rank", kind="stable")
        told = [f"{row.method} {row.mean_rank:.2f} ({row.best})" for row in ordered.itertuples()]
        tables = counted(int(part["tables"].iloc[0]), "table")
        lines.append(f"{score} on {family}, {tables}: mean ranks {', '.join(told)}.")
    if lines:
        lines.append("In brackets: the number of tables on which a method is best, or not shown to be worse.")
    return lines
