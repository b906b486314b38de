"""Lookup-table benchmarks for hyperparameter optimisation of translation and language models.

import hpobench_nmt as hb

table = hb.load_table("sotu-ngram")
results = hb.benchmark(table, ["RS", "BO_EI_M_std"], trials=20)
print(results.scores())
hb.plot_regret(results).savefig("regret.png")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpobench_nmt.catalog import load_table
    from hpobench_nmt.errors import InputError, RunError
    from hpobench_nmt.experiment import Results, benchmark
    from hpobench_nmt.pareto import pareto_front
    from hpobench_nmt.plots.runs import plot_regret
    from hpobench_nmt.problem import Method, Problem
    from hpobench_nmt.results import load_results
    from hpobench_nmt.table import Metric, Objective, Table
    from hpobench_nmt.trajectory import Trajectory

# Imported on first use: `import hpobench_nmt` stays fast, and so does the command line's help.
_LOCATION = {
    "InputError": "errors",
    "Method": "problem",
    "Metric": "table",
    "Objective": "table",
    "Problem": "problem",
    "Results": "experiment",
    "RunError": "errors",
    "Table": "table",
    "Trajectory": "trajectory",
    "benchmark": "experiment",
    "load_results": "results",
    "load_table": "catalog",
    "pareto_front": "pareto",
    "plot_regret": "plots.runs",
}

__all__ = [
    "InputError",
    "Method",
    "Metric",
    "Objective",
    "Problem",
    "Results",
    "RunError",
    "Table",
    "Trajectory",
    "benchmark",
    "load_results",
    "load_table",
    "pareto_front",
    "plot_regret",
]


def __getattr__(name: str) -> Any:
    if name not in _LOCATION:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LOCATION[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
