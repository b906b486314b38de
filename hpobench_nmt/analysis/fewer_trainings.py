"""Times fewer trainings than random search: the figure that sums up a method in a run.

evaluation/fewer_trainings.py defines it, and benchmarking/task/target.py the target and the budget of
a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.selection import families, same_run
from hpobench_nmt.benchmarking.records.frozen import part_note
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.target import Target, target_of
from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.evaluation.comparisons import holm
from hpobench_nmt.evaluation.fewer_trainings import (
    TimesFewer,
    family_means,
    signed_rank_direction,
    signed_rank_exact,
    times_fewer,
)
from hpobench_nmt.evaluation.intervals import CONFIDENCE
from hpobench_nmt.evaluation.restricted import runtime_within

TITLE = "Times fewer trainings than random search"
SIMULATED = "RS"
# If a larger share of trials is capped, of random search and of the method, their ratio means little.
_MOST_CAPPED = 0.5
_MOST_TARGETS = 1 / 20
_DEVELOPMENT, _TEST = "development", "test"
_METHODS = ["method", "times_fewer", "low", "high", "by_tables", "families_low", "families_high", "capped"]
_METHODS += ["development", "hypervolume"]
_HYPERVOLUME = "fbh"
_TABLES = ["table", "family", "half", "budget", "targets", "rows", "tolerance", "from_seeds"]
_TABLES += ["random_search", "random_search_capped", "exact"]
_CELLS = ["table", "method", "restricted", "times_fewer", "capped"]
_TESTS = ["a", "b", "tables", "p", "p_holm", "families", "p_families", "p_families_holm", "fewer"]


@dataclass(frozen=True, eq=False)
class FewerTrainings:
    """The figure of each method, its parts, and the tests of methods over tables.

    Attributes:
        methods: one row for each method: method; times_fewer, the figure; low and high, its interval over
            trials; by_tables, the figure with equal weights of tables; families_low and families_high, its
            interval over families and tables; capped, a share of the trials; development, the figure over
            the tables of the development half, NaN without halves; hypervolume, the mean share over
            families, NaN without fbh.
        tables: one row for each table: table; family; half, "test" if the figures include the table, else
            "development"; budget; targets, their number; rows; tolerance; from_seeds; random_search, its
            restricted mean; random_search_capped; exact, whether that mean is exact, not simulated.
        cells: one row for each table and method: table, method, restricted (mean), times_fewer, capped.
        tests: signed-rank tests over tables, of each method with random search (b is empty) and of every
            pair: a, b, tables, p, p_holm, families, p_families, p_families_holm; fewer, the method that is
            shown to need fewer trainings over the tables, or "" if neither is.
        reason: why there is no figure, in words; "" if there is a figure.
        notes: notes on the figures, in sentences.
    """

    methods: pd.DataFrame
    tables: pd.DataFrame
    cells: pd.DataFrame
    tests: pd.DataFrame
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def counted(self) -> pd.DataFrame:
        """The tables that the figures include."""
        return self.tables[self.tables["half"] == _TEST]


Runtimes = Mapping[tuple[str, str], Floats]
"""Runtimes of trials by table and method, infinite for capped trials."""


def fewer_trainings(results: Results, others: Runtimes = MappingProxyType({})) -> FewerTrainings:
    """How many times fewer trainings than random search each method of a run needs.

        results = hb.run("quick", tables=["sotu-ngram"], trials=20)
        hb.fewer_trainings(results).methods

    Only tables that every method has finished count. If a suite has a development half, its tables do not
    count, unless the results have no other tables.

    Args:
        results: results of a run.
        others: runtimes of further methods on the same tables, as in the digest of an archive. A method that
            lacks one of the tables is left out.
    """
    targets, reasons = _targets(results)
    if not targets:
        return _without(listed(reasons) or "no table has been finished by every method.")
    tables = list(targets)
    further = [m for m in dict.fromkeys(m for _, m in others) if all((t, m) in others for t in tables)]
    methods = [*results.methods, *further]
    by_family = {t: family for family, members in families(results).items() for t in members}
    copies = {
        t: [*(same_run(results, t, m) for m in results.methods), *[False] * len(further)] for t in tables
    }
    runtimes = {t: _runtimes(results, t, targets[t], [others[t, m] for m in further]) for t in tables}

    def figures(some: Sequence[str]) -> TimesFewer:
        budgets, exact = [targets[t].budget for t in some], [targets[t].random_search for t in some]
        own, same = [runtimes[t] for t in some], np.array([copies[t] for t in some])
        return times_fewer(own, budgets, exact, [by_family[t] for t in some], same)

    halves = _halves(results, tables)
    counted_to = [t for t in tables if halves[t] == _TEST]
    developed = [t for t in tables if halves[t] != _TEST]
    found, rest = figures(counted_to), figures(developed) if developed else None
    capped = np.array([[np.isinf(line).mean() for line in runtimes[t]] for t in counted_to]).mean(axis=0)
    columns = (found.figure, found.low, found.high, found.by_tables, found.families_low, found.families_high)
    development = np.full(len(methods), np.nan) if rest is None else rest.figure
    volume = np.full(len(methods), np.nan)
    volume[: len(results.methods)] = _hypervolume(results, counted_to, [by_family[t] for t in counted_to])
    frame = pd.DataFrame(dict(zip(_METHODS, (methods, *columns, capped, development, volume), strict=True)))
    cells = pd.DataFrame(_cells(methods, counted_to, found, targets), columns=_CELLS)
    tests = _tests(
        methods, found.ratios, [by_family[t] for t in counted_to], np.array([copies[t] for t in counted_to])
    )
    lines = [_line(results, t, by_family[t], halves[t], target) for t, target in targets.items()]
    tables_frame = pd.DataFrame(lines, columns=_TABLES)
    of_figures = tables_frame[tables_frame["half"] == _TEST]
    notes = [part_note(results.suite, results.instances), *_notes(frame, of_figures, cells), *reasons]
    if rest is not None:
        more = pd.DataFrame(_cells(methods, developed, rest, targets), columns=_CELLS)
        cells = pd.concat([cells, more], ignore_index=True)
    return FewerTrainings(frame, tables_frame, cells, tests, notes=tuple(note for note in notes if note))


def _cells(
    methods: Sequence[str], tables: Sequence[str], found: TimesFewer, targets: Mapping[str, Target]
) -> list[tuple[object, ...]]:
    """A line for each table and method."""
    return [
        (t, m, targets[t].random_search / found.ratios[i, j], found.ratios[i, j], found.capped[i, j])
        for i, t in enumerate(tables)
        for j, m in enumerate(methods)
    ]


def _hypervolume(results: Results, tables: Sequence[str], family: Sequence[str]) -> Floats:
    """Each method's mean share of the hypervolume, over trials, tables of a family, and families."""
    scores = results.suite.scores
    if _HYPERVOLUME not in scores:
        return np.full(len(results.methods), np.nan)
    place = scores.index(_HYPERVOLUME)
    found = [[results.summary(t, m)[place] for m in results.methods] for t in tables]
    # A mean over the trials that did not fail cannot be compared with other means.
    means = np.array([[np.nan if s.failed else s.mean for s in row] for row in found], dtype=np.float64)
    return np.asarray(family_means(means, family).mean(axis=0))


def _halves(results: Results, tables: Sequence[str]) -> dict[str, str]:
    """The half of each table. Without any table of the test half, all tables count as if they were in it."""
    own = results.suite.development
    return {t: _DEVELOPMENT if t in own and not set(tables) <= {*own} else _TEST for t in tables}


def _without(reason: str) -> FewerTrainings:
    methods, tables, cells, tests = (
        pd.DataFrame(columns=names) for names in (_METHODS, _TABLES, _CELLS, _TESTS)
    )
    return FewerTrainings(methods, tables, cells, tests, reason)


def _targets(results: Results) -> tuple[dict[str, Target], list[str]]:
    """The target of each table that counts, and why other tables do not count."""
    found, reasons = {}, []
    for table, instance in results.instances.items():
        if not all(len(results.trials.get((table, m), ())) for m in results.methods):
            reasons.append(f"{table} does not count: not every method has finished it.")
            continue
        try:
            found[table] = target_of(results.suite, instance)
        except InputError as error:
            reasons.append(f"{table} does not count: {str(error).rstrip('.')}.")
    return found, reasons


def trial_runtimes(results: Results) -> dict[str, Floats]:
    """When each trial reached the target of its table, by table: shape (methods, trials) each."""
    return {table: _runtimes(results, table, target) for table, target in _targets(results)[0].items()}


def _runtimes(results: Results, table: str, target: Target, others: Sequence[Floats] = ()) -> Floats:
    """Runtimes of all methods on a table, shape (methods, trials), in the trials that all methods have."""
    instance = results.instances[table]
    problem, every = instance.problem, [results.trials[table, m] for m in results.methods]
    common = min([*(len(trials) for trials in every), *(len(each) for each in others)])
    rules = (target.budget, problem.n_initial, problem.lookups)
    own = [[runtime_within(target.goal, trials[i], *rules) for i in range(common)] for trials in every]
    return np.array([*own, *(each[:common] for each in others)])


def _line(results: Results, table: str, family: str, half: str, target: Target) -> tuple[object, ...]:
    shown = (target.tolerance, target.from_seeds, target.random_search, target.random_search_capped)
    rows = len(results.instances[table].table)
    return (table, family, half, target.budget, target.count, rows, *shown, target.exact)


def _tests(methods: Sequence[str], ratios: Floats, families: Sequence[str], copies: Bools) -> pd.DataFrame:
    """All comparisons. Those with random search and those of pairs have separate Holm's corrections."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(ratios)
    own = [j for j, m in enumerate(methods) if m != SIMULATED]
    known = {j for j in own if not copies[:, j].any() and np.isfinite(logs[:, j]).all()}
    groups = [[(j, -1) for j in own], list(combinations(own, 2))]
    rows = []
    for group in groups:
        raw = np.full((2, len(group)), np.nan)
        differences = []
        for i, (a, b) in enumerate(group):
            d = logs[:, a] - (logs[:, b] if b >= 0 else 0.0)
            differences.append(d)
            if a in known and (b < 0 or b in known) and len(d) > 1:
                means = family_means(d[:, None], families)[:, 0]
                raw[:, i] = signed_rank_exact(d), signed_rank_exact(means) if len(means) > 1 else np.nan
        # All comparisons were planned, so one that could not be made still counts.
        corrected = [np.where(np.isnan(p), np.nan, holm(np.nan_to_num(p, nan=1.0))) for p in raw]
        for i, ((a, b), d) in enumerate(zip(group, differences, strict=True)):
            names = (methods[a], methods[b] if b >= 0 else "")
            fewer = ""
            if corrected[0][i] < 1 - CONFIDENCE:
                fewer = {1: names[0], 0: "", -1: names[1] or "random search"}[signed_rank_direction(d)]
            counts = (len(d), len(set(families)))
            rows.append(
                (*names, counts[0], raw[0][i], corrected[0][i], counts[1], raw[1][i], corrected[1][i], fewer)
            )
    return pd.DataFrame(rows, columns=_TESTS)


def _notes(methods: pd.DataFrame, tables: pd.DataFrame, cells: pd.DataFrame) -> list[str]:
    notes = []
    lacking = list(methods[methods["times_fewer"].isna()]["method"])
    if lacking:
        where = cells[cells["times_fewer"].isna()]["table"].unique().tolist()
        notes.append(
            f"No figure: {listed(lacking)}, of which trials stopped before the budget without the target (on "
            f"{listed(where)})."
        )
    stuck = tables[tables["random_search_capped"] > _MOST_CAPPED]["table"]
    hard = cells[cells["table"].isin(stuck) & (cells["capped"] > _MOST_CAPPED)]
    told = [
        f"{method} on {listed(list(part['table']))}"
        for method, part in hard.groupby("method", sort=False)
        if method != SIMULATED
    ]
    if told:
        notes.append(
            "More than half of the trials of random search and of the method are capped, so the ratio means "
            f"little: {'; '.join(told)}."
        )
    one = list(tables[tables["targets"] == 1]["table"])
    many = list(tables[tables["targets"] > _MOST_TARGETS * tables["rows"]]["table"])
    if one:
        notes.append(f"There is only one target row: {listed(one)}. The figure depends on that row alone.")
    if many:
        notes.append(f"More than a twentieth of the rows are targets: {listed(many)}. The task is easy.")
    if not tables["exact"].all():
        notes.append("≈: random search on a clock of costs is computed from 100,000 permutations.")
    return notes


def _largest(results: Results, found: FewerTrainings) -> float:
    """The largest possible figure, as a trial begins with the initial design; NaN if unknown."""
    tables = found.counted
    problems = [results.instances[table].problem for table in tables["table"]]
    if not problems or any(p.clock != "lookups" or p.n_initial == 0 for p in problems):
        return np.nan
    least = np.array([-(-p.n_initial // p.workers) for p in problems])
    logs = np.log(tables["random_search"].to_numpy(np.float64) / least)
    return float(np.exp(family_means(logs[:, None], list(tables["family"])).mean()))


def fewer_sentences(results: Results, found: FewerTrainings) -> list[str]:
    """Sentences that explain the figures, and state what the tests over tables show, and notes."""
    until = "a row is within a tolerance of the best" if _one(found) else "a row of the front is found"
    first = (
        f"Trainings until {until}. A trial that does not reach this is capped: it counts as the whole budget."
    )
    if len(found.counted) > 1:
        first += " Geometric mean over families with equal weights. Interval: over trials on these tables."
    most = _largest(results, found)
    if most == most:
        first += f" No figure can exceed {short(most)}, because of the initial design."
    return [first, *_of_tests(found), *found.notes]


def fewer_headline(found: FewerTrainings) -> list[str]:
    """The best figure in a sentence; empty without figures, or if no method is better than random search.

    The simulation of random search may be luckier than its exact mean, so it does not count as a method.
    """
    better = (found.methods["times_fewer"] > 1.0) & (found.methods["method"] != SIMULATED)
    known = found.methods[better]
    if not len(known):
        return []
    best = known.sort_values("times_fewer", kind="stable").iloc[-1]
    interval = "" if np.isnan(best["low"]) else f" (95%: {short(best['low'])} to {short(best['high'])})"
    where = counted(len(found.counted), "table")
    if len(found.counted) < len(found.tables):
        where += " of the test half"
    times = short(best["times_fewer"])
    aim = "to come within the tolerance of the best" if _one(found) else "to find a row of the front"
    fewer = f"{best['method']} takes {times} times fewer trainings than random search{interval}"
    return [f"{fewer} {aim}, over {where}."]


def _one(found: FewerTrainings) -> bool:
    """Whether the figures are for one objective."""
    return bool(found.tables["tolerance"].notna().all())


def can_show(tables: int) -> bool:
    """Whether the signed-rank test can be significant at all over this many tables."""
    return 2.0 ** (1 - tables) < 1 - CONFIDENCE


def _of_tests(found: FewerTrainings) -> list[str]:
    """Sentences on what the tests over tables show, and which conclusions they allow."""
    tests = found.tests
    known = tests[tests["p"].notna()]
    if not len(known):
        return []
    n, n_families = int(tests["tables"].iloc[0]), int(tests["families"].iloc[0])
    over = f"Over {counted(n, 'table')}"
    if not can_show(n):
        least = f"{2.0 ** (1 - n):.3g}"
        return [f"{over} the signed-rank test cannot show a difference: its p is at least {least}."]
    lines = []
    against = known[known["b"] == ""]
    better = [m for m in against["fewer"] if m not in ("", "random search")]
    worse = list(against[against["fewer"] == "random search"]["a"])
    rest = list(against[against["fewer"] == ""]["a"])
    parts = [
        f"{verb}: {listed(names)}"
        for verb, names in (
            ("shown to need fewer trainings than random search", better),
            ("shown to need more trainings than random search", worse),
            ("not shown to differ from it", rest),
        )
        if names
    ]
    lines.append(f"{over}, {'; '.join(parts)}.")
    pairs = known[(known["b"] != "") & (known["fewer"] != "")]
    if len(pairs):
        told = [
            f"{w} than {b if w == a else a}"
            for a, b, w in zip(pairs["a"], pairs["b"], pairs["fewer"], strict=True)
        ]
        lines.append(f"Shown to need fewer trainings: {listed(told)}.")
    claim = "Signed-rank tests of log ratios, exact, at 5% after Holm's correction."
    if n_families < n:
        claim += (
            f" Tables of a family resemble each other, so this holds for {_these(n_families)} only. The "
            f"test over the means of families allows conclusions about others"
        )
        claim += "." if n_families > 1 else ", and takes more than one."
    return [*lines, claim]


def _these(families: int) -> str:
    return "this family" if families == 1 else f"these {families} families"
