"""Whether a table can distinguish methods.

If a control, a rule that sees no loss (methods/controls.py), is much faster than random search, the place of
a row in the grid gives away how good it is. If the hyperparameters hardly predict which rows are good, the
best row is a lucky training.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from hpobench_nmt.analysis.fewer_trainings import fewer_trainings
from hpobench_nmt.benchmarking.call import run
from hpobench_nmt.benchmarking.contestants.plugins import MethodSpec
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.importance import predictable_share
from hpobench_nmt.lookup.checks.facts import Finding
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import CONTROLS

SAMPLES = Suite("controls", ("ftc",), sample=0.6, lookups=100, trials=200)
"""Each trial sees a random 60% of a table's rows, and looks up at most 100 of these."""
MOST_CONTROL = 2.5
"""A control that is faster by its whole interval is too fast."""
LEAST_R2 = 0.1
"""The least R^2 of `predictable_share` with which ranks of methods mean something."""
MOST_ROWS = 5000
"""Larger tables are not checked, because it takes minutes."""


def times_fewer(suite: Suite, table: Table, methods: Sequence[MethodSpec] = CONTROLS) -> pd.DataFrame:
    """Times fewer trainings than random search, by method: times_fewer and its interval, low and high.

    Raises InputError if the suite cannot use the table, or if the figure is not defined there.
    """
    found = fewer_trainings(run(suite, tables=[table], methods=methods, notify=lambda message: None))
    if found.reason:
        raise InputError(found.reason)
    return found.methods.set_index("method")[["times_fewer", "low", "high"]]


def too_fast(figures: pd.DataFrame) -> list[str]:
    """The controls that are too fast."""
    return figures.index[figures["low"] > MOST_CONTROL].tolist()


def in_words(figures: pd.DataFrame) -> str:
    """Figures with their intervals."""
    lines = figures.itertuples()
    return ", ".join(f"{name} {at:.2f} [{low:.2f}, {high:.2f}]" for name, at, low, high in lines)


def ability_findings(table: Table) -> list[Finding]:
    """Whether the table can distinguish methods."""
    return [*_lucky_findings(table), *control_findings(table)]


def _lucky_findings(table: Table) -> list[Finding]:
    """A warning if the rows' order in the first objective can hardly be predicted."""
    if not table.objectives or len(table) > MOST_ROWS:
        return []
    share = predictable_share(table.features, table.losses(table.objectives[:1])[:, 0])
    if not share < LEAST_R2:  # unknown shares as well
        return []
    fact = f"{table.objectives[0]}: random forests predict the ranks of rows left out with R2 {share:.2f}"
    meaning = "the best row is a lucky training, so the ranks of methods on this table mean nothing."
    return [Finding(table.name, "warning", fact, meaning)]


def control_findings(table: Table) -> list[Finding]:
    """How fast the controls find a row among the best 2%; empty for large tables, or if it is undefined."""
    if len(table) > MOST_ROWS:
        return []
    try:
        figures = times_fewer(SAMPLES, table)
    except InputError:
        return []
    fact = f"times fewer trainings than random search, by rules that see no loss: {in_words(figures)}"
    fast = " and ".join(too_fast(figures))
    if not fast:
        return [Finding(table.name, "note", fact, "the layout of the grid does not give its best rows away.")]
    meaning = f"{fast}: above {MOST_CONTROL} by the whole interval, so the layout gives the best rows away."
    return [Finding(table.name, "warning", fact, meaning)]
