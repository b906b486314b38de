"""Every analysis of some tables, in sentences and frames.

An analysis that a table does not allow becomes a section that states why, so that the others are not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.table_front import table_front, with_row_numbers
from hpobench_nmt.analysis.tables import findings
from hpobench_nmt.analysis.tables.controls import MOST_ROWS
from hpobench_nmt.analysis.tables.curve_sections import curve_section
from hpobench_nmt.analysis.tables.section import Section, section_on
from hpobench_nmt.benchmarking.task.feasibility import table_violations, why_infeasible
from hpobench_nmt.core.arrays import Bools
from hpobench_nmt.core.constraints import is_feasible
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.correlation import rank_correlation
from hpobench_nmt.evaluation.importance import (
    BEST_SHARE,
    Importance,
    check_share,
    importance,
    model_grid,
    predictable_share,
)
from hpobench_nmt.evaluation.noise import seed_noise
from hpobench_nmt.evaluation.sensitivity import sensitivity
from hpobench_nmt.lookup.checks.surface_checks import far_rows, variance_share
from hpobench_nmt.lookup.replicates import Replicates
from hpobench_nmt.lookup.table import Table

_PAIRS_SHOWN = 5
KINDS = ("correlation", "importance", "front", "sensitivity", "noise", "curves")


def kept_rows(table: Table, constraints: Sequence[str]) -> Bools:
    """Which rows satisfy all constraints, shape (N,). InputError for a wrong constraint, or if none does."""
    violations = table_violations(table, constraints)
    kept = np.ones(len(table), dtype=bool) if violations is None else is_feasible(violations)
    if not kept.any():
        raise InputError(f"table {table.name!r}: {why_infeasible(table, constraints)}")
    return kept


def without_others(table: Table, kept: Bools) -> Table:
    """A table with the metrics, curves and replicates of only some rows.

    Rows keep their numbers. Other rows have no metrics, as if their training had failed.
    """
    return replace(
        table,
        values=np.where(kept[:, None], table.values, np.nan),
        curves=table.curves and table.curves.only(kept),
        replicates=table.replicates and table.replicates.only(table.configs[kept]),
    )


def analyze_tables(
    tables: Sequence[Table],
    *,
    metric: str | None = None,
    objectives: tuple[str, str] | None = None,
    best_share: float = BEST_SHARE,
    tolerance: float | None = None,
    constraints: Sequence[str] = (),
    seed: int = 0,
    kinds: Collection[str] = KINDS,
) -> list[Section]:
    """All analyses of some tables: first between the tables, then of each table.

    Args:
        tables: one or more tables.
        metric: the metric to analyse; by default each table's first objective.
        objectives: the objectives of the front; by default each table's first two.
        best_share: share of the rows that make up the best part for importance.
        tolerance: the tolerance for sensitivity, in the metric's unit; by default the metric's own.
        constraints: only rows that keep these bounds are analysed; they keep their numbers.
        seed: the seed of the forests and samples.
        kinds: some of `KINDS`. A table that lacks what a kind of analysis needs is left out of it.

    Raises:
        InputError: an argument does not fit any of the tables, or a constraint does not fit all of them. If
            another argument does not fit a table, a section has the reason as its `problem`.
    """
    names = [t.name for t in tables]
    if not tables:
        raise InputError("no table to analyse.")
    if len(set(names)) < len(names):
        raise InputError(f"the same table twice: {', '.join(sorted(names))}.")
    check_share(best_share)
    if tolerance is not None and not tolerance >= 0:
        raise InputError(f"the tolerance must be 0 or more, not {tolerance:g}.")
    for wanted in [*([metric] if metric else []), *(objectives or ())]:
        _known_somewhere(tables, wanted)
    rules = " and ".join(constraints)
    whole = {table.name: table for table in tables}
    if rules:
        tables = [without_others(table, kept_rows(table, constraints)) for table in tables]
    sections = _correlations(tables, metric) if len(tables) > 1 and "correlation" in kinds else []
    for table in tables:
        about = metric or table.main_metric
        parts: dict[str, Callable[[], Section]] = {
            "importance": partial(_importance, table, about, best_share, rules, seed),
            "front": partial(_front, table, objectives),
            "sensitivity": partial(_sensitivity, table, whole[table.name], about, tolerance, seed),
        }
        if table.replicates is not None:
            parts["noise"] = partial(_noise, table, about, table.replicates, rules)
        if table.curves is not None:
            parts["curves"] = partial(curve_section, table, metric)
        sections += [
            _attempt(table.name, kind, f"{table.name}: {kind}", make)
            for kind, make in parts.items()
            if kind in kinds
        ]
    return sections


def _known_somewhere(tables: Sequence[Table], spec: str) -> None:
    """Refuse a metric that no table has."""
    for i, table in enumerate(tables):
        try:
            table.objective(spec)
            return
        except InputError:
            if i == len(tables) - 1:
                raise


def _attempt(table: str, kind: str, title: str, make: Callable[[], Section]) -> Section:
    try:
        return make()
    except InputError as error:
        return Section(table, kind, title, problem=str(error))


def _correlations(tables: Sequence[Table], metric: str | None) -> list[Section]:
    """A section for every set of tables with the same hyperparameters."""
    groups: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        groups.setdefault(tuple(sorted(h.name for h in table.hyperparameters)), []).append(table)
    sections: list[Section] = []
    for group in groups.values():
        names = ", ".join(table.name for table in group)
        title = "Rank correlation between tables" if len(groups) == 1 else f"Rank correlation: {names}"
        stem = f"correlation-{group[0].name}" if any(s.files for s in sections) else "correlation"
        make = partial(_correlation, group, metric, title, stem)
        sections.append(_attempt("", "correlation", title, make))
    return sections


def _correlation(tables: Sequence[Table], metric: str | None, title: str, stem: str) -> Section:
    if len(tables) == 1:
        raise InputError(
            f"{tables[0].name} shares no configuration with the others: no other table has the "
            f"hyperparameters {', '.join(sorted(h.name for h in tables[0].hyperparameters))}."
        )
    responses = [table.response(metric) for table in tables]
    every = rank_correlation(responses, common="all")
    pairs = rank_correlation(responses, common="pair")
    telling = pairs if np.isnan(every.coefficient).all() else every
    return Section(
        table="",
        kind="correlation",
        title=title,
        stem=stem,
        notes=findings.of_correlation(every, pairs),
        shown=telling.to_frame().round(3),
        files={stem: every.to_frame(), f"{stem}-of-pairs": pairs.to_frame()},
        analysis=telling,
    )


def _importance(table: Table, metric: str, best_share: float, rules: str, seed: int) -> Section:
    response = table.response(metric)
    model = model_grid(response, seed=seed)
    parts = [importance(response, model=model)]
    problem: tuple[str, ...] = ()
    try:
        parts.append(importance(response, best_share=best_share, model=model))
    except InputError as error:
        # The whole space can still be analysed.
        problem = (str(error),)
    effects = pd.concat([p.effects.assign(part=_part_name(p)) for p in parts])
    return section_on(
        table,
        "importance",
        f"importance for {parts[0].metric}",
        {"": effects[["part", "first", "second", "share", "spread"]]},
        notes=(
            *findings.of_importance(parts, rules),
            *_predicted(table, response),
            *_without_far_rows(response, seed),
            *problem,
        ),
        shown=_effects_shown(parts),
        analysis=tuple(parts),
    )


def _predicted(table: Table, response: Response) -> tuple[str, ...]:
    """A sentence on how well forests predict ranks, unless the table is large or it is unknown."""
    share = np.nan if len(table) > MOST_ROWS else predictable_share(table.features, response.losses)
    if np.isnan(share):
        return ()
    return (f"Random forests predict the ranks of rows left out (failed ones last) with R2 {share:.2f}.",)


def _without_far_rows(response: Response, seed: int) -> tuple[str, ...]:
    """A sentence on the importance without the few rows that have most of the variance, if there are any."""
    far = far_rows(response.losses)
    if not len(far):
        return ()
    values = response.values.copy()
    values[far] = np.nan
    try:
        rest = importance(replace(response, values=values), seed=seed)
    except InputError:  # too few rows are left
        return ()
    return (findings.of_far_rows(len(far), variance_share(response.losses, far), rest),)


def _part_name(part: Importance) -> str:
    return "whole" if part.best_share is None else f"best {part.best_share:.0%}"


def _effects_shown(parts: Sequence[Importance]) -> pd.DataFrame:
    """Shares in percent: every hyperparameter, and the strongest pairs of any part."""
    columns = [p.effects.set_index(["first", "second"])["share"].rename(_part_name(p)) for p in parts]
    # The order is that of the first part.
    shares = pd.concat(columns, axis=1)
    single = shares.index.get_level_values("second") == ""
    strongest = shares[~single].max(axis=1).nlargest(_PAIRS_SHOWN).index
    shares = pd.concat([shares[single], shares.loc[strongest]])
    names = [f"{first} × {second}" if second else first for first, second in shares.index]
    percent = {f"{name} (%)": shares[name].mul(100).round(1).to_numpy() for name in shares.columns}
    return pd.DataFrame({"explained by": names, **percent})


def _front(table: Table, objectives: tuple[str, str] | None) -> Section:
    specs = objectives or table.objectives[:2]
    chosen = [table.objective(spec) for spec in specs]
    names = [o.metric for o in chosen]
    if len(set(names)) < 2:
        raise InputError(f"table {table.name!r} does not have two objectives for a front; name two metrics.")
    front = table_front(table, specs)
    rows = with_row_numbers(front.frame)
    trained = ~np.isnan(table.values).all(axis=1)  # neither failed nor left out by a constraint
    return section_on(
        table,
        "front",
        f"{names[0]} and {names[1]}",
        {"": rows},
        notes=findings.of_front([str(o) for o in chosen], table.losses(chosen)[trained], len(rows)),
        shown=rows[[rows.columns[0], *names, *front.exact]],
        exact=front.exact,
        analysis=front,
    )


def _sensitivity(table: Table, whole: Table, metric: str, tolerance: float | None, seed: int) -> Section:
    # A constraint does not change the tolerance, as in the scores.
    near_enough = whole.tolerance(metric) if tolerance is None else tolerance
    found = sensitivity(table.response(metric), near_enough, seed=seed)
    name = found.objective.rpartition(":")[0]
    unit = table.metric(name).unit
    grids = found.grids
    shown = pd.DataFrame(
        {
            "values tried of each": grids["values"],
            "trainings": grids["trials"].round(2 if (grids["trials"] < 1).any() else 0),
            "probability to come that close (%)": grids["success"].mul(100).round(1),
        }
    )
    return section_on(
        table,
        "sensitivity",
        f"sensitivity of {name}",
        {"-by-steps": found.by_steps, "-reach": found.reach, "-grids": grids},
        notes=findings.of_sensitivity(found, unit),
        shown=shown if found.coverage >= findings.SPARSE else None,
        analysis=found,
        unit=unit,
    )


def _noise(table: Table, metric: str, replicates: Replicates, rules: str) -> Section:
    frame = replicates.to_frame()
    if not len(frame):
        raise InputError(
            f"no configuration that satisfies {rules} was trained again, so a spread cannot be measured."
        )
    found = seed_noise(table.response(metric), frame, replicates.averaged)
    unit = table.metric(found.metric).unit
    shown = found.configurations[["row", "in_table", "n", "mean", "sd", "range", "luck"]]
    files = {"": found.configurations, "-trainings": found.trainings}
    files |= {"-order": found.agreement, "-best": found.ranked}
    return section_on(
        table,
        "noise",
        f"seed noise of {found.metric}",
        files,
        notes=findings.of_noise(found, unit),
        shown=shown.assign(row=[str(row) if row >= 0 else "none" for row in shown["row"]]),
        analysis=found,
        unit=unit,
    )
