"""The contents of a report apart from its figures: headline, winners, and pairwise comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.number_text import p_cell
from hpobench_nmt.analysis.report_runs import Run
from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.system.text import NONE, short


@dataclass(frozen=True)
class Matrix:
    """Who beats whom in one score: (text, percent or None, whether shown) by row and column."""

    score: str
    methods: tuple[str, ...]
    lines: tuple[tuple[str, tuple[tuple[str, int | None, bool], ...]], ...]
    pairs: tuple[tuple[str, ...], ...]


def headline(run: Run) -> list[str]:
    """The main results of a run in sentences, and the limits of its statistics."""
    statistics, suite = run.statistics, run.results.suite
    judged = [v for v in statistics.verdicts if v.best]
    lines = []
    if judged:
        alone = [v for v in judged if v.alone]
        where, n_all = f"{len(judged)} table-and-score pairs", len(statistics.verdicts)
        if n_all == 1:
            where = "the one table and score"
        elif len(judged) < n_all:
            where = f"the {len(judged)} of {n_all} table-and-score pairs in which some method has a best mean"
        if alone and len(judged) > 1:
            named = "; ".join(f"{v.best} ({v.score} on {v.table})" for v in alone)
            lines.append(
                f"Of {where}, {len(alone)} {'has' if len(alone) == 1 else 'have'} a method that is shown to "
                f"be better than every other: {named}. Each was tested at 5%, without a correction over all "
                f"{len(judged)}."
            )
        elif alone:
            lines.append(f"In {where}, {alone[0].best} is shown to be better than every other method.")
        else:
            lines.append(f"In {where}, no method is shown to be better than every other.")
        rest = [1 + len(v.tied) for v in judged if v.tied]
        if rest and len(judged) > 1:
            span = f"{min(rest)}" if min(rest) == max(rest) else f"{min(rest)} to {max(rest)}"
            where = "Elsewhere" if alone else "There,"
            lines.append(f"{where} {span} methods share the lead: none is shown to be worse than the best.")
    if len(judged) <= len(suite.scores):
        lines += [v.sentence for v in statistics.verdicts]
    return lines or [v.sentence for v in statistics.verdicts]


def winners(run: Run) -> list[tuple[str, list[tuple[str, str, tuple[str, ...]]]]]:
    """By table: (score, best method, methods not shown to be worse) for every score."""
    by_table: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {}
    for v in run.statistics.verdicts:
        by_table.setdefault(v.table, []).append((v.score, v.best, v.tied))
    return list(by_table.items())


def matrices(run: Run, table: str) -> list[Matrix]:
    """Who beats whom on a table: one matrix per score."""
    comparisons = run.statistics.comparisons
    found = []
    for score in run.results.suite.scores:
        names, share, shown = win_shares(comparisons, table, score)
        if not names:
            continue
        rows = zip(names, share.tolist(), shown.tolist(), strict=True)
        lines = tuple((name, tuple(map(_win, *of))) for name, *of in rows)
        chosen = comparisons[(comparisons["table"] == table) & (comparisons["score"] == score)]
        found.append(Matrix(score, tuple(names), lines, tuple(map(_pair, chosen.to_dict("records")))))
    return found


def win_shares(comparisons: pd.DataFrame, table: str, score: str) -> tuple[list[str], Floats, Bools]:
    """The methods that were compared in a score on a table, and the shares of trials that each wins.

    `comparisons` are those of Statistics. Both arrays have shape (methods, methods): how often the method of
    the row beats that of the column, NaN if that is not known, and whether the two are shown to differ.
    """
    chosen = comparisons[(comparisons["table"] == table) & (comparisons["score"] == score)]
    names = list(dict.fromkeys([*chosen["a"], *chosen["b"]]))
    share = np.full((len(names), len(names)), np.nan)
    shown = np.zeros(share.shape, dtype=bool)
    a, b = (np.array([names.index(name) for name in chosen[side]], dtype=int) for side in ("a", "b"))
    share[a, b], share[b, a] = chosen["p_a_better"], 1.0 - chosen["p_a_better"]
    shown[a, b] = shown[b, a] = chosen["better"] != ""
    return names, share, shown


def _win(share: float, shown: bool) -> tuple[str, int | None, bool]:
    if np.isnan(share):
        return ("", None, False)
    percent = round(100 * share)
    return (f"{percent}", percent, shown)


def _pair(row: Mapping[Any, Any]) -> tuple[str, ...]:
    difference = short(row["difference"])
    if not np.isnan(row["low"]):
        difference += f" ({short(row['low'])} to {short(row['high'])})"
    wins = NONE
    if not np.isnan(row["p_a_better"]):
        wins = f"{row['p_a_better']:.0%} ({row['p_low']:.0%} to {row['p_high']:.0%})"
    return (
        f"{row['a']} and {row['b']}",
        difference,
        p_cell(row["p_holm"]),
        wins,
        NONE if np.isnan(row["rank_biserial"]) else f"{row['rank_biserial']:+.2f}",
        str(row["better"]) or "neither",
    )
