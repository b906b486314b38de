"""What a run shows about its methods, by two tests, and what these tests could have shown.

*On these tables*: whether two methods differ on these tables. A t test over paired trials, which start from
the same rows of the same sample.

*On other families*: whether they would differ on families of tables like these. A t test over the means of
families, without those on which one of the two methods was tuned. Under five families it is not made.

The comparisons are fixed before results are seen: each method with random search, and with the methods of
`BESIDE`. Another method in the archive changes the p-values of none of them. Benjamini and Hochberg's
correction is over the comparisons that a page shows. Controls are not among these.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.paired import SIMULATED, Paired
from hpobench_nmt.core.system.text import short
from hpobench_nmt.evaluation.intervals import CONFIDENCE
from hpobench_nmt.evaluation.verdicts import (
    FEWEST_FAMILIES,
    Verdict,
    benjamini_hochberg,
    on_other_families,
    on_these_tables,
)
from hpobench_nmt.methods import CONTROLS, KNOWN

BESIDE = ("BO_auto", "BO_EI_M")
_OF_VERDICT = ["ratio", "low", "high", "p", "p_page", "smallest", "smallest_low", "smallest_high", "can_show"]
_FAMILIES = "families_"
COMPARISONS = ["a", "b", "tables", *_OF_VERDICT, "families", *(_FAMILIES + name for name in _OF_VERDICT)]
RANDOM_SEARCH = ""
"""The name of exact random search among the methods that are compared."""


def tuned_on(method: str) -> tuple[str, ...] | None:
    """The families on which a method was tuned; None if that is not known, as for a user's method."""
    if method == RANDOM_SEARCH:
        return ()
    return KNOWN[method].tuned_on if method in KNOWN else None


def verdicts(paired: Paired, a: str, b: str = RANDOM_SEARCH) -> tuple[Verdict, Verdict, int]:
    """Both verdicts on two methods, and the number of families that the second is about."""
    figure = paired.figure(a, b)
    best = paired.best_possible(b)
    inside = None if None in (tuned_on(a), tuned_on(b)) else {*(tuned_on(a) or ()), *(tuned_on(b) or ())}
    outside = [i for i, name in enumerate(figure.families) if inside is not None and name not in inside]
    most = float(np.exp(best[outside].mean())) if outside else math.nan
    others = on_other_families(figure.family_logs[outside, 0], most)
    return on_these_tables(figure, 0, float(np.exp(best.mean()))), others, len(outside)


def compared(paired: Paired) -> pd.DataFrame:
    """The planned comparisons, one in each row.

    Columns: a; b, empty for random search; tables; for the verdict on these tables ratio, low and high, p,
    p_page (corrected for the comparisons of the page), smallest, smallest_low and smallest_high (the smallest
    ratio that the test would have shown), can_show (whether a method could be so good); families, the number
    of families of the second verdict, and its values with "families_" before the names.
    """
    rows = []
    for b in (RANDOM_SEARCH, *BESIDE):
        for a in paired.methods:
            if a in (b, SIMULATED) or b not in (RANDOM_SEARCH, *paired.methods):
                continue
            here, others, families = verdicts(paired, a, b)
            parts = {**_parts(here), **{_FAMILIES + k: v for k, v in _parts(others).items()}}
            rows.append({"a": a, "b": b, "tables": len(paired.runtimes), "families": families, **parts})
    frame = pd.DataFrame(rows, columns=COMPARISONS)
    shown = ~frame["a"].isin(CONTROLS)
    for part in ("", _FAMILIES):
        values = np.where(shown, frame[f"{part}p"].to_numpy(np.float64), np.nan)
        frame[f"{part}p_page"] = benjamini_hochberg(values)
    return frame.assign(p_holm=np.nan, p_families_holm=np.nan)  # of version 1.1


def _parts(verdict: Verdict) -> dict[str, float | bool]:
    return {**asdict(verdict), "can_show": verdict.could_be_shown}


def decision_sentences(tests: pd.DataFrame) -> list[str]:
    """What the comparisons with random search show, on these tables and on other families."""
    against = tests[(tests["b"] == RANDOM_SEARCH) & ~tests["a"].isin(CONTROLS)]
    if not len(against):
        return []
    tables = int(against["tables"].iloc[0])
    lines = [_sentence(against, "", f"On {'this table' if tables == 1 else f'these {tables} tables'}")]
    known = against[against["families_p"].notna()]
    if len(known):
        lines.append(_sentence(known, _FAMILIES, "On other families, of those that did not tune the method"))
    if few := against[against["families_p"].isna()]["a"].tolist():
        lines.append(
            f"No verdict on other families, which takes {FEWEST_FAMILIES} families that did not tune the "
            f"method: {listed(few)}."
        )
    lines = [line for line in lines if line]
    return [*lines, "t tests at 5% after Benjamini and Hochberg's correction."] if lines else []


def _sentence(against: pd.DataFrame, part: str, where: str) -> str:
    known = against[against[f"{part}p_page"].notna()]
    shown = known[f"{part}p_page"] < 1 - CONFIDENCE
    better, cannot = known[f"{part}ratio"] > 1, ~known[f"{part}can_show"].astype(bool)
    rest = known[~shown & ~cannot]
    pairs = zip(rest["a"], rest[f"{part}smallest"], strict=True)
    open_ = [f"{a} (with {short(least)} it would be)" for a, least in pairs]
    groups = (
        ("shown to need fewer trainings than random search", known[shown & better]["a"].tolist()),
        ("shown to need more", known[shown & ~better]["a"].tolist()),
        ("not shown to differ", open_),
        ("cannot be shown to differ with so few trials", known[~shown & cannot]["a"].tolist()),
    )
    results = "; ".join(f"{what}: {listed(names)}" for what, names in groups if names)
    return f"{where}, {results}." if results else ""
