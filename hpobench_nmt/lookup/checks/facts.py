"""Facts about a table, found in its rows, that matter in a benchmark, each with its meaning."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.space import covered_share, short_label
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.text import counted, printable, short
from hpobench_nmt.core.trainings import owners_of
from hpobench_nmt.lookup.baselines import baseline_of, baseline_sentence, rows_that_beat
from hpobench_nmt.lookup.checks.curve_checks import Fact, curve_facts, listed, note, ok, rows_text, warning
from hpobench_nmt.lookup.checks.surface_checks import far_rows, surface_facts, variance_share
from hpobench_nmt.lookup.disk.datasheet import Claims
from hpobench_nmt.lookup.disk.folder import LEDGER, undescribed_files
from hpobench_nmt.lookup.disk.rows import MAX_BYTES
from hpobench_nmt.lookup.groups import group_ids, in_groups, ranks
from hpobench_nmt.lookup.table import Table

# Two rows that agree to the last digit in this many metrics are probably one training.
_SUSPICIOUS_AGREEMENT = 4


@dataclass(frozen=True)
class Finding:
    """One fact about a table or a collection of tables, and its consequence for a benchmark.

    The kind is "ok" for a claim that was verified, "note" for a fact that is worth knowing, and "warning" for
    a fact that distorts a benchmark if it is ignored.
    """

    table: str
    kind: Literal["ok", "note", "warning"]
    fact: str
    meaning: str


def check_table(table: Table, folder: Path | None = None) -> list[Finding]:
    """All findings on a loaded table and, if its folder is given, on the other files in that folder."""
    curves = () if table.curves is None else curve_facts(table, table.curves)
    facts: list[Fact] = [*_facts(table), *curves]
    if folder:
        facts += [*ledger_facts(table, folder), *(warning(*each) for each in undescribed_files(folder))]
    if not any(kind == "warning" for kind, _, _ in facts):
        facts.append(ok("hash, types and ranges are in order", "nothing to watch for."))
    return [Finding(table.name, *fact) for fact in facts]


def check_collection(name: str, tables: Sequence[Table]) -> list[Finding]:
    """Findings on tables that were published together."""
    members = [table for table in tables if table.claims.get("collection") == name]
    return [Finding(name, *fact) for fact in _collection_facts(members)]


def _collection_facts(tables: Sequence[Table]) -> Iterator[Fact]:
    claims = {int(t.claims["collection_rows"]) for t in tables if "collection_rows" in t.claims}
    expected = {int(t.claims["collection_tables"]) for t in tables if "collection_tables" in t.claims}
    if expected and len(tables) < max(expected):
        fact = f"of its {max(expected)} tables, {counted(len(tables), 'is', 'are')} installed"
        yield note(fact, "statements of the source about all of them cannot be checked.")
        return
    if len(claims) != 1:
        return
    claimed, held = claims.pop(), sum(len(t) for t in tables)
    if claimed == held:
        yield ok(f"{counted(held, 'row')}, as the source says", "no row is lacking.")
    else:
        yield warning(
            f"{'the one table holds' if len(tables) == 1 else f'the {len(tables)} tables hold'} "
            f"{counted(held, 'row')}, but the source states {claimed:,} systems",
            f"{abs(claimed - held):,} systems are missing: compare only with figures from these rows.",
        )
    missing: Counter[str] = Counter()
    for table in tables:
        for metric, values in zip(table.metrics, table.values.T, strict=True):
            missing[metric.name] += int(np.isnan(values).sum())
    for name, count in missing.items():
        if count:
            fact = f"{counted(count, 'row in all has', 'rows in all have')} no {name}"
            yield note(fact, "see the tables above.")


def twins(table: Table) -> list[Rows]:
    """Groups of rows that look like one training under several configurations.

    Two rows are linked if their configurations differ in a single hyperparameter, and four or more metrics
    agree exactly, among them the first objective. If the table has fewer than four metrics, all must agree.
    Rows that are linked directly or through other rows form a group. O(N log N) for each hyperparameter and
    choice of metrics.
    """
    n_metrics = len(table.metrics)
    needed = max(min(_SUSPICIOUS_AGREEMENT, n_metrics), 2)
    if n_metrics < needed or not table.objectives:
        return []
    axes = [h.places(column) for h, column in zip(table.hyperparameters, table.configs.T, strict=True)]
    # The rank of each value among the distinct values, -1 where it is missing.
    metrics = [np.where(np.isnan(column), -1, ranks(column)) for column in table.values.T]
    first = metrics.pop([m.name for m in table.metrics].index(table.objective(table.objectives[0]).metric))
    everywhere = np.arange(len(table))
    links: list[tuple[Rows, Rows]] = []
    for j in range(len(axes)):
        # Configurations are distinct, so rows that agree in all other hyperparameters differ in this one.
        others = group_ids([np.zeros_like(first), *axes[:j], *axes[j + 1 :]])
        known = np.flatnonzero(first >= 0)
        rows = known[in_groups(group_ids([others[known], first[known]]))[0]]
        for chosen in combinations(metrics, needed - 1):
            there = rows[(np.array([first, *chosen])[:, rows] >= 0).all(axis=0)]
            members, follows = in_groups(group_ids([column[there] for column in (others, first, *chosen)]))
            found = there[members]
            links.append((found[:-1][follows[1:]], found[1:][follows[1:]]))
    left = np.concatenate([left for left, _ in links] or [everywhere[:0]])
    right = np.concatenate([right for _, right in links] or [everywhere[:0]])
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(len(table), len(table)))
    _, label = connected_components(graph, directed=False)
    members, follows = in_groups(label.astype(np.int64))
    return np.split(members, np.flatnonzero(~follows)[1:]) if len(members) else []


def _facts(table: Table) -> Iterator[Fact]:
    n_rows = len(table)
    grid = math.prod(len(h.values) for h in table.hyperparameters)
    columns = zip(table.hyperparameters, np.isnan(table.configs).T, strict=True)
    if inactive := [h.name for h, holes in columns if holes.any()]:
        covered = covered_share(table.hyperparameters, table.configs)
        yield note(
            f"{listed(inactive)} {'is' if len(inactive) == 1 else 'are'} inactive in some rows; the rows "
            f"cover {_share_of_grid(covered)} of the grid",
            "surrogates use the default there. A row covers all values of its inactive hyperparameters.",
        )
    elif n_rows < grid:
        yield note(
            f"{n_rows:,} of the {_count(grid)} configurations of the grid {'has' if n_rows == 1 else 'have'} "
            f"a row ({_share_of_grid(n_rows / grid)})",
            "a method can only choose among these, so it avoids configurations that failed to train.",
        )
    else:
        every = f"all {_count(grid)} configurations of the grid have"
        yield ok(f"{every if grid > 1 else 'the one configuration has'} a row", "the space is complete.")
    for h, column in zip(table.hyperparameters, table.configs.T, strict=True):
        absent = np.setdiff1d(h.numbers, column)
        if len(absent):
            values = listed([short_label(h.value(code)) for code in absent])
            yield note(f"no row has {h.name} of {values}", "this part of the search space is empty.")
    for metric, values in zip(table.metrics, table.values.T, strict=True):
        missing = int(np.isnan(values).sum())
        known = values[~np.isnan(values)]
        if missing == n_rows:
            yield warning(f"{metric.name} is missing in every row", "it cannot be an objective.")
        elif missing:
            sentinel = f" (written as {metric.missing:g})" if metric.missing is not None else ""
            kept = _with_checkpoints(table, metric.name, values)
            yield warning(
                f"no {metric.name} in {missing} of {counted(n_rows, 'row')}{sentinel}",
                "if it is an objective, these rows are never best and never on a front."
                + (f" Along curves, the best checkpoint counts in {kept} of them." if kept else ""),
            )
        if len(known) > 1 and (known == known[0]).all():
            which = "every row that has it" if missing else "every row"
            yield warning(f"{metric.name} is {known[0]:g} in {which}", "it cannot be optimised.")
    for name in table.objectives:
        yield from _ties(table, name)
        yield from _outliers(table, name)
    if len(table.objectives) > 1:
        front = table.front(table.objectives[:2])
        names = " and ".join(str(table.objective(o)) for o in table.objectives[:2])
        yield note(
            f"{counted(len(front), 'row is', 'rows are')} on the Pareto front of {names}",
            "fta and fbp count this many rows.",
        )
    if others := [key for key in table.claims if key not in Claims.__struct_fields__]:
        fact = f"nothing verifies the claim{'s' * (len(others) > 1)} {printable(listed(others))}"
        yield note(fact, f"these claims can be verified: {', '.join(Claims.__struct_fields__)}.")
    yield from _counts(table)
    yield from _trained(table)
    yield from _published_front(table)
    yield from _baseline(table)
    yield from _twins(table)
    if table.objectives:
        yield from surface_facts(table, table.objectives[0])


def _with_checkpoints(table: Table, metric: str, values: Floats) -> int:
    """How many rows lack the metric, but have it at a checkpoint of their curve."""
    if table.curves is None or all(m.name != metric for m in table.curves.metrics):
        return 0
    measured = np.unique(owners_of(table.curves.starts)[~np.isnan(table.curves.column(metric))])
    return int(np.isnan(values[measured]).sum())


def _ties(table: Table, name: str) -> Iterator[Fact]:
    best = table.best_rows(name)
    if len(best) > 1:
        value = table.column(table.objective(name).metric)[best[0]]
        yield warning(
            f"{len(best)} rows share the best {name}, {value:g}: rows {listed(best)}",
            "ftb depends on whether any of them or only the first meets the target: random search needs "
            f"{(len(table) + 1) / (len(best) + 1):.1f} look-ups on average for any, and "
            f"{(len(table) + 1) / 2:.1f} for the first.",
        )
        return
    metric = table.metric(table.objective(name).metric)
    losses = np.sort(table.losses([name])[:, 0])
    if metric.tolerance is not None and len(losses) > 1 and losses[1] - losses[0] > metric.tolerance:
        yield warning(
            f"the best {name} is {short(losses[1] - losses[0])} ahead of the next, more than the "
            f"tolerance of {short(metric.tolerance)}",
            "ftc is the same as ftb unless a suite sets a larger tolerance.",
        )


def _outliers(table: Table, name: str) -> Iterator[Fact]:
    objective = table.objective(name)
    values = table.column(objective.metric)
    losses = objective.to_loss(values)
    far = far_rows(losses)
    if len(far):
        nearest, share = values[far[-1]], variance_share(losses, far)
        yield warning(
            f"{len(far)} of {counted(len(table), 'row')} {'is' if len(far) == 1 else 'are'} far worse in "
            f"{name} than the rest, {nearest:g} or worse, and {'has' if len(far) == 1 else 'have'} "
            f"{share:.0%} of its variance ({rows_text(np.sort(far))})",
            "analyses of importance and noise mostly describe these rows: check whether their models "
            "learned anything.",
        )


def _published_front(table: Table) -> Iterator[Fact]:
    if "front" not in table.claims:
        return
    objectives = [str(o) for o in table.claims.get("front_objectives", table.objectives[:2])]
    if not objectives:
        return
    claimed = {int(row) for row in table.claims["front"]}
    computed = set(table.front(objectives).tolist())
    names = " and ".join(objectives)
    if claimed == computed:
        yield ok(
            f"the published Pareto front of {names} agrees with a recomputation "
            f"({counted(len(computed), 'row')})",
            "scores of fronts can be compared with published ones.",
        )
    else:
        yield warning(
            f"the published Pareto front of {names} differs from a recomputation: rows "
            f"{listed(sorted(claimed ^ computed))} are on only one of them",
            "scores of fronts cannot be compared with published ones.",
        )


def _counts(table: Table) -> Iterator[Fact]:
    """Whether the table holds as many rows, trainings and checkpoints as its source states."""
    again = 0 if table.replicates is None else int((table.replicates.rows.numbers != 0).sum())
    averaged = table.replicates is not None and table.replicates.averaged
    held = {
        "rows": len(table),
        "trainings": again if averaged else len(table) + again,
        "checkpoints": 0 if table.curves is None else len(table.curves.costs),
    }
    for key, count in held.items():
        claimed = table.claims.get(key)
        if claimed == count:
            yield ok(f"{counted(count, key[:-1])}, as the source says", "none is lacking.")
        elif claimed is not None:
            yield warning(
                f"{counted(count, key[:-1])}, and the source speaks of {claimed:,}",
                "the table does not match its datasheet: get it again.",
            )


def _trained(table: Table) -> Iterator[Fact]:
    """Whether the table holds the trainings that its datasheet claims."""
    if "configurations" not in table.claims:
        return
    wanted, failed = int(table.claims["configurations"]), int(table.claims.get("failed", 0))
    plan = "source" if "collection" in table.claims else "spec"
    ended = len(table) + failed
    if table.claims.get("complete") and ended == wanted:
        fact = f"all {wanted:,} configurations of its {plan} were trained; {failed:,} failed and have no row"
        yield ok(fact, "methods cannot choose configurations that are not in the table.")
    elif table.claims.get("complete"):
        yield warning(
            f"called complete, but {counted(len(table), 'row')} and {counted(failed, 'failure')} are "
            f"{ended:,} of {counted(wanted, 'configuration')}",
            "build the table from its ledger again.",
        )
    else:
        yield warning(
            f"{ended:,} of the {wanted:,} configurations of its {plan} were trained so far "
            f"({failed:,} failed)",
            "the best configuration may not be in it yet.",
        )


def ledger_facts(table: Table, folder: Path) -> Iterator[Fact]:
    """Whether the table was built from the ledger that lies beside it."""
    claimed, path = table.provenance.get("ledger_sha256"), folder / LEDGER
    if claimed is None or not path.is_file():
        return
    if hashlib.sha256(read_bytes(path, MAX_BYTES, follow_link=False)).hexdigest() == claimed:
        yield ok("built from the ledger beside it", "every row can be traced to its training.")
    else:
        fact = "the ledger beside it is not the ledger from which it was built"
        yield warning(fact, f"build it again: hpobench-nmt tables build {path}")


def _baseline(table: Table) -> Iterator[Fact]:
    baseline = baseline_of(table.claims)
    if baseline is None:
        return
    if rows_that_beat(table, baseline):
        yield note(baseline_sentence(table), f"computed as {baseline.how}.")
    else:
        meaning = f"a search here compares models that nobody would use. Computed as {baseline.how}."
        yield warning(baseline_sentence(table), meaning)


def _twins(table: Table) -> Iterator[Fact]:
    groups = twins(table)
    if not groups:
        return
    rows = np.concatenate(groups)
    heads = np.repeat([group[0] for group in groups], [len(group) for group in groups])
    same = (table.values[rows] == table.values[heads]).all(axis=0)
    agreeing = [m.name for m, agrees in zip(table.metrics, same, strict=True) if agrees]
    configs = np.nan_to_num(table.configs, nan=-np.inf)
    varies = (configs[rows] != configs[heads]).any(axis=0)
    one = "s" * (len(groups) == 1)
    differing = [h.name for h, differs in zip(table.hyperparameters, varies, strict=True) if differs]
    yield warning(
        f"{len(rows):,} of {len(table):,} rows fall into {counted(len(groups), 'group')} that agree{one} "
        f"exactly in {', '.join(agreeing)} and differ{one} only in {', '.join(differing)} "
        f"(rows {listed(groups[0])}, for one)",
        f"each group is probably one training that was entered several times: {', '.join(differing)} has no "
        f"effect there, the table has fewer independent rows than it seems, and ties are likely.",
    )


def _share_of_grid(share: float) -> str:
    """A share in percent. It is never rounded up to 100% or down to 0%."""
    text = f"{share:.0%}"
    if share < 1 - 1e-9 and text == "100%":
        return "more than 99%"
    return "less than 1%" if share > 0 and text == "0%" else text


def _count(number: int) -> str:
    """A whole number as text; from 10^12 on, the nearest power of ten."""
    return f"{number:,}" if number < 10**12 else f"about 10^{round(math.log10(number))}"


def find_check(
    name: str, tables: Sequence[tuple[Table, Path]], more: Callable[[Table], Sequence[Finding]] = lambda _: ()
) -> list[Finding]:
    """Findings and `more` on each table, given with its folder, and on all as the collection `name`."""
    if not tables:
        raise InputError("no table to check.")
    findings = [f for table, folder in tables for f in (*check_table(table, folder), *more(table))]
    return findings + check_collection(name, [table for table, _ in tables])
