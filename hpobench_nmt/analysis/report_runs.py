"""The results folders of a report, read together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpobench_nmt.analysis.verdicts import Statistics, run_statistics
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.benchmarking.records.manifest import Manifest
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.lookup.table import Table


@dataclass(frozen=True, eq=False)
class Run:
    """Results with their statistics and manifest."""

    name: str
    results: Results
    statistics: Statistics
    manifest: Manifest

    @property
    def goal(self) -> str:
        """The objectives, for a heading."""
        objectives = {tuple(str(o) for o in i.objectives) for i in self.results.instances.values()}
        one = len(objectives) == 1
        goal = " and ".join(next(iter(objectives))) if one else "each table's own objectives"
        rules = self.results.suite.constraints
        return f"{goal}, subject to {' and '.join(rules)}" if rules else goal


def read_run(name: str, results: Results) -> Run:
    """The run of these results; InputError if they do not come from a run."""
    if results.manifest is None:
        raise InputError("a report needs the results of a run.")
    return Run(name, results, run_statistics(results), results.manifest)


def load_runs(sources: Sequence[Results | Path], methods: Sequence[NamedMethod] = ()) -> list[Run]:
    """The runs of some results or results folders, one run each, with their statistics.

    The methods come from resolve_methods, as for load_results. Each must belong to at least one run. Raises
    InputError if a method does not, or a folder is empty, damaged, or made with another version of a method
    or table.
    """
    folders = [source.resolve() for source in sources if isinstance(source, Path)]
    if len(set(folders)) < len(folders):
        raise InputError("the same results folder twice.")
    loaded = [each if isinstance(each, Results) else load_results(each, methods) for each in sources]
    run_methods = dict.fromkeys(name for results in loaded for name in results.methods)
    named = [method.name for method in methods]
    check_known("method", named, run_methods, "The results do not have this name.")
    suites = [results.suite.name for results in loaded]
    labels = [printable(each.resolve().name) if isinstance(each, Path) else "" for each in sources]
    runs = []
    for number, (label, suite, results) in enumerate(zip(labels, suites, loaded, strict=True), 1):
        told = label if label and labels.count(label) == 1 else str(number)
        runs.append(read_run(suite if suites.count(suite) == 1 else f"{suite} ({told})", results))
    check_same_tables(runs)
    return runs


def check_same_tables(runs: Iterable[Run]) -> None:
    """Refuse runs on different versions of a table."""
    known: dict[str, str] = {}
    for run in runs:
        for name, instance in run.results.instances.items():
            if known.setdefault(name, instance.installed.sha256) != instance.installed.sha256:
                raise InputError(f"table {name!r} differs between the folders: make a report of each folder.")


def all_methods(runs: Iterable[Run]) -> list[str]:
    """Methods of all runs, each once. The place of a method determines its colour."""
    return list(dict.fromkeys(m for run in runs for m in run.results.methods))


def all_tables(runs: Iterable[Run]) -> list[Table]:
    """Tables of all runs as they are installed, each once."""
    return list({name: i.installed for run in runs for name, i in run.results.instances.items()}.values())


def run_slugs(runs: Sequence[Run]) -> list[str]:
    """A different prefix of ids and file names for each run, in characters that both allow."""
    slugs: list[str] = []
    for place, run in enumerate(runs):
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", run.results.suite.name).strip("-") or "run"
        # A table's name follows, so no prefix may begin with another one, or with that of tables' figures.
        taken = ("table", *slugs)
        while any(f"{slug}-".startswith(f"{s}-") or f"{s}-".startswith(f"{slug}-") for s in taken):
            slug = f"run{place + 1}-{slug}"
        slugs.append(slug)
    return slugs
