"""Lookup-table benchmarks for hyperparameter optimisation of translation and language models.

import hpobench_nmt as hb

results = hb.run(tables=["sotu-ngram"], methods=["RS", "BO_EI_M_std"], trials=20)
print(results.scores())
hb.plot(results).savefig("regret.png")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpobench_nmt.analysis.compare import compare as compare
    from hpobench_nmt.analysis.fewer_trainings import fewer_trainings as fewer_trainings
    from hpobench_nmt.analysis.table_front import pareto as pareto
    from hpobench_nmt.arena.beside import beside as beside
    from hpobench_nmt.arena.power import power as power
    from hpobench_nmt.benchmarking.call import benchmark as benchmark
    from hpobench_nmt.benchmarking.call import run as run
    from hpobench_nmt.benchmarking.contestants.plugins import list_methods as list_methods
    from hpobench_nmt.benchmarking.fetching import fetch as fetch
    from hpobench_nmt.benchmarking.records.results import Results as Results
    from hpobench_nmt.benchmarking.records.store import load_results as load_results
    from hpobench_nmt.benchmarking.task.suite import Suite as Suite
    from hpobench_nmt.benchmarking.task.suite_files import list_suites as list_suites
    from hpobench_nmt.core.objectives import Metric as Metric
    from hpobench_nmt.core.objectives import Objective as Objective
    from hpobench_nmt.core.pareto import pareto_front as pareto_front
    from hpobench_nmt.core.problem import Method as Method
    from hpobench_nmt.core.problem import Problem as Problem
    from hpobench_nmt.core.problem import Progress as Progress
    from hpobench_nmt.core.problem import Request as Request
    from hpobench_nmt.core.space import Hyperparameter as Hyperparameter
    from hpobench_nmt.core.space import Space as Space
    from hpobench_nmt.core.system.errors import InputError as InputError
    from hpobench_nmt.core.system.errors import RunError as RunError
    from hpobench_nmt.core.trajectory import Trajectory as Trajectory
    from hpobench_nmt.exports.confirm import confirm as confirm
    from hpobench_nmt.exports.minimize import Minimum as Minimum
    from hpobench_nmt.exports.minimize import minimize as minimize
    from hpobench_nmt.exports.optimizer import Optimizer as Optimizer
    from hpobench_nmt.lookup.catalogue import list_tables as list_tables
    from hpobench_nmt.lookup.catalogue import load_table as load_table
    from hpobench_nmt.lookup.imports.importing import import_table as import_table
    from hpobench_nmt.lookup.table import Table as Table
    from hpobench_nmt.render.figures import plot as plot
    from hpobench_nmt.render.plots.curves import plot_regret as plot_regret
    from hpobench_nmt.render.report import report as report

    __version__: str

# Imported on first use: `import hpobench_nmt` stays fast, and so does the command line's help.
_LOCATION = {
    "Hyperparameter": "core.space",
    "InputError": "core.system.errors",
    "Method": "core.problem",
    "Metric": "core.objectives",
    "Minimum": "exports.minimize",
    "Objective": "core.objectives",
    "Optimizer": "exports.optimizer",
    "Problem": "core.problem",
    "Progress": "core.problem",
    "Request": "core.problem",
    "Results": "benchmarking.records.results",
    "RunError": "core.system.errors",
    "Space": "core.space",
    "Suite": "benchmarking.task.suite",
    "Table": "lookup.table",
    "Trajectory": "core.trajectory",
    "benchmark": "benchmarking.call",
    "beside": "arena.beside",
    "compare": "analysis.compare",
    "confirm": "exports.confirm",
    "fetch": "benchmarking.fetching",
    "fewer_trainings": "analysis.fewer_trainings",
    "import_table": "lookup.imports.importing",
    "list_methods": "benchmarking.contestants.plugins",
    "list_suites": "benchmarking.task.suite_files",
    "list_tables": "lookup.catalogue",
    "load_results": "benchmarking.records.store",
    "load_table": "lookup.catalogue",
    "minimize": "exports.minimize",
    "pareto": "analysis.table_front",
    "pareto_front": "core.pareto",
    "plot": "render.figures",
    "plot_regret": "render.plots.curves",
    "power": "arena.power",
    "report": "render.report",
    "run": "benchmarking.call",
}

_DEPRECATED = {
    "benchmark": "hb.run",
    "beside": "hpobench_nmt.arena.beside.beside",
    "pareto_front": "hb.pareto",
    "plot_regret": 'hb.plot(results, "regret")',
}
"""What to use instead of names that leave with version 2.0."""

__all__ = sorted(_LOCATION.keys() - _DEPRECATED.keys())


def __getattr__(name: str) -> Any:
    value: object
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version("hpobench-nmt")
    elif name in _LOCATION:
        value = getattr(importlib.import_module(f"{__name__}.{_LOCATION[name]}"), name)
        if name in _DEPRECATED:
            deprecated = importlib.import_module(f"{__name__}.core.system.deprecated")
            deprecated.warn_deprecated(f"hb.{name}", _DEPRECATED[name], since="1.2", removed_in="2.0")
            return value  # not kept, so that each use warns
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
