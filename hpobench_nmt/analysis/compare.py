"""Two methods compared: by how much they differ, what two tests say, and the sentence for a paper.

The methods have results of this package, or of any other program as a tidy frame (tidy.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from hpobench_nmt.analysis.decisions import RANDOM_SEARCH, tuned_on, verdicts
from hpobench_nmt.analysis.fewer_trainings import fewer_trainings, trial_runtimes
from hpobench_nmt.analysis.number_text import listed, p_text
from hpobench_nmt.analysis.paired import SIMULATED, Paired
from hpobench_nmt.analysis.selection import only_methods
from hpobench_nmt.analysis.tidy import Tidy, paired_with_baseline
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.evaluation.intervals import CONFIDENCE
from hpobench_nmt.evaluation.power import Components, components
from hpobench_nmt.evaluation.verdicts import FEWEST_FAMILIES, Verdict, on_these_tables
from hpobench_nmt.methods import CONTROLS


@dataclass(frozen=True, eq=False, repr=False)
class Compared:
    """Two methods on the same tables. `print` shows it in words.

    Attributes:
        a, b: their names.
        here: the verdict on these tables; its ratio is how many times fewer trainings a needs than b.
        others: the verdict on other families.
        families: the number of families of the second verdict.
        sentence: the result as a sentence for a paper.
        paired: the trials.
        lines: everything in words.
    """

    a: str
    b: str
    here: Verdict
    others: Verdict
    families: int
    sentence: str
    paired: Paired
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"Compared({self.a} and {self.b}: {short(self.here.ratio)} times fewer)"


def compare(
    first: Results | Tidy, second: Results | Tidy | None = None, *, methods: Sequence[str] = ()
) -> Compared:
    """Compare two methods of one run, of two runs on the same tables, or of results from elsewhere.

        print(hb.compare(results, methods=["BO_auto", "BO_EI_M"]))
        print(hb.compare("theirs.csv", methods=["TPE", "random"]))

    Args:
        first, second: results of runs with the same suite, tables and seed. Or first alone: a data frame, or
            the path of a CSV file, with the columns method, task, family, trial, budget and value. Lower
            values are better. The target on a task is then the median of the second method, the baseline,
            after half of the budget, and there is no verdict on other families.
        methods: the two methods; those of two runs may have the same name. They may be left out if each run
            has only one method, controls and random search apart.

    Raises:
        InputError: the runs or methods cannot be compared, by name.
    """
    if not isinstance(first, Results) and second is None:
        return _compare_tidy(paired_with_baseline(first, methods))
    if not isinstance(first, Results) or not isinstance(second, Results | None):
        raise InputError("put the results of both methods into one data frame or CSV file.")
    paired, a, b, aim = _paired(first, second, methods)
    here, others, families = verdicts(paired, a, b)
    sentence = _sentence(first, paired, a, b, here, aim)
    lines = (
        f"{_fewer(a, b, here)}, {_where(paired)}.",
        f"On these tables: {_told(here)}",
        f"On other families: {_of_families(a, b, others, families)}",
        f"Random search takes {_times(paired, a)}, and {_times(paired, b)}.",
        f"In a paper: {sentence}",
    )
    return Compared(a, b, here, others, families, sentence, paired, lines)


def _compare_tidy(paired: Paired) -> Compared:
    """A method and its baseline, from results of another program."""
    (a, b), runtimes = paired.methods, list(paired.runtimes.values())
    here = on_these_tables(paired.figure(a, b), 0, float(np.exp(paired.best_possible(b).mean())))
    before = [t < aims.budget for t, aims in zip(runtimes, paired.aims.values(), strict=True)]
    reached = [sum(int(each[k].sum()) for each in before) for k in (0, 1)]
    trials = [t.shape[1] for t in runtimes]
    headline = f"{_fewer(a, b, here, 'less budget')}, {_where(paired, 'task')}"
    aim = f"the median value of {b} after half of the budget"
    sentence = f"{headline}, to reach {aim}{_test(here)}; {counted(min(trials), 'trial')} a task."
    lines = (
        f"{headline}.",
        f"On these tasks: {_told(here)}",
        f"On other families: no verdict, because it is not known on which tasks {a} and {b} were tuned.",
        f"The target is {aim}. Of {counted(sum(trials), 'trial')}, {a} reached it in {reached[0]} before the "
        f"end, and {b} in {reached[1]}.",
        f"In a paper: {sentence}",
    )
    return Compared(a, b, here, Verdict(nan), len(set(paired.families.values())), sentence, paired, lines)


def variance_components(paired: Paired, a: str, b: str = RANDOM_SEARCH, draws: int = 0) -> Components:
    """The variance components of a comparison (evaluation/power.py)."""
    figure, tables = paired.figure(a, b), list(paired.runtimes)
    trials = [float(paired.runtimes[table].shape[1]) for table in tables]
    names = [paired.families[table] for table in tables]
    return components(figure.logs[:, 0], figure.variances[:, 0], np.array(trials), names, draws)


def _paired(first: Results, second: Results | None, methods: Sequence[str]) -> tuple[Paired, str, str, str]:
    if second is None:
        if len(methods) != 2:
            names = _candidates(first)
            if len(names) != 2:
                raise InputError(f"name two methods to compare, of {listed(first.methods)}.")
            methods = names
        check_known("method", methods, first.methods)
        found = fewer_trainings(only_methods(first, methods))
    else:
        _check_same(first, second)
        wanted = list(methods) or [_single(first), _single(second)]
        if len(wanted) != 2:
            raise InputError("name two methods: that of the first run, then that of the second.")
        a, b = wanted
        check_known("method", [a], first.methods)
        check_known("method", [b], second.methods)
        other = b if b != a else f"{b} (second run)"
        reached = trial_runtimes(only_methods(second, [b]))
        others = {(table, other): of_method for table, (of_method,) in reached.items()}
        found = fewer_trainings(only_methods(first, [a]), others)
        methods = [a, other]
    if found.paired is None:
        raise InputError(found.reason)
    if lost := set(methods) - set(found.paired.methods):
        raise InputError(f"{listed(sorted(lost))}: not finished on every table of the first run.")
    return found.paired, methods[0], methods[1], found.aim


def _candidates(results: Results) -> list[str]:
    return [name for name in results.methods if name not in (SIMULATED, *CONTROLS)]


def _single(results: Results) -> str:
    names = _candidates(results)
    if len(names) != 1:
        raise InputError(f"name the methods to compare: a run has {listed(names) or 'none'}.")
    return names[0]


def _check_same(first: Results, second: Results) -> None:
    """Refuse runs whose trials of one number are not about the same rows and starts."""
    if set(first.instances) != set(second.instances):
        only = sorted(set(first.instances) ^ set(second.instances))
        raise InputError(f"the runs have other tables: only one of them has {listed(only)}.")
    for name, instance in first.instances.items():
        if instance.installed.sha256 != second.instances[name].installed.sha256:
            raise InputError(f"the runs have other versions of table {name!r}.")
    if first.seed != second.seed:
        raise InputError(f"the runs have other seeds: {first.seed} and {second.seed}.")
    ours, theirs = (each.suite.without_names.settings() for each in (first, second))
    keys = {*ours, *theirs} - {"name", "trials", "family"}
    if other := sorted(key for key in keys if ours.get(key) != theirs.get(key)):
        raise InputError(f"the runs have other settings: {listed(other)}.")


def _fewer(a: str, b: str, verdict: Verdict, what: str = "fewer trainings") -> str:
    ratio, low, high = verdict.ratio, verdict.low, verdict.high
    if ratio < 1:
        a, b, ratio, low, high = b, a, 1 / ratio, 1 / high, 1 / low
    interval = f" (95%: {short(low)} to {short(high)})" if low == low else ""
    return f"{a} takes {short(ratio)} times {what} than {b}{interval}"


def _times(paired: Paired, method: str) -> str:
    return f"{short(float(paired.figure(method).figure[0]))} times as many as {method}"


def _where(paired: Paired, what: str = "table") -> str:
    tables, families = len(paired.runtimes), len(set(paired.families.values()))
    return f"over {counted(tables, what)} of {counted(families, 'family', 'families')}"


def _told(verdict: Verdict) -> str:
    if verdict.p != verdict.p:
        return "no test, which takes two trials or more that are not all the same."
    could = f"{short(verdict.smallest)} ({short(verdict.smallest_low)} to {short(verdict.smallest_high)})"
    if not verdict.could_be_shown and not verdict.p < 1 - CONFIDENCE:
        most = short(verdict.best_possible)
        return f"cannot be shown: it would take a ratio of {could}, and none above {most} exists."
    shown = "shown" if verdict.p < 1 - CONFIDENCE else "not shown"
    return f"{shown}, {p_text(verdict.p)}. A ratio of {could} would be shown in 80% of repetitions."


def _of_families(a: str, b: str, verdict: Verdict, families: int) -> str:
    if unknown_to := [name for name in (a, b) if tuned_on(name) is None]:
        return f"no verdict, because it is not known on which tables {listed(unknown_to)} was tuned."
    if families < FEWEST_FAMILIES:
        there = "is" if families == 1 else "are"
        return f"no verdict. It takes {FEWEST_FAMILIES} that tuned neither, and there {there} {families}."
    return f"{short(verdict.ratio)}, {_told(verdict)}"


def _sentence(results: Results, paired: Paired, a: str, b: str, verdict: Verdict, aim: str) -> str:
    from importlib.metadata import version

    trials = min(values.shape[1] for values in paired.runtimes.values())
    share = f" on random {results.suite.sample:.0%} of the rows" if results.suite.sample else ""
    made = f"suite {results.suite.name}, seed {results.seed}, hpobench-nmt {version('hpobench-nmt')}"
    found = f"{_fewer(a, b, verdict)} to find {aim}, {_where(paired)}{_test(verdict)}"
    return f"{found}; {counted(trials, 'trial')} a table{share}, {made}."


def _test(verdict: Verdict) -> str:
    return f", t test over paired trials, {p_text(verdict.p)}" if verdict.p == verdict.p else ""
