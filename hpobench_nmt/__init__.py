"""Lookup-table benchmarks for hyperparameter optimisation of translation and language models.

import hpobench_nmt as hb

table = hb.load_table("sotu-ngram")
results = hb.benchmark(table, ["RS", "BO_EI_M_std"], trials=20)
print(results.scores())
hb.plot(results).savefig("regret.png")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpobench_nmt.adapters.minimize import Minimum, minimize
    from hpobench_nmt.adapters.optimizer import Optimizer
    from hpobench_nmt.benchmarking.results import Results
    from hpobench_nmt.benchmarking.run import benchmark
    from hpobench_nmt.benchmarking.store import load_results
    from hpobench_nmt.core.errors import InputError, RunError
    from hpobench_nmt.core.objectives import Metric, Objective
    from hpobench_nmt.core.pareto import pareto_front
    from hpobench_nmt.core.problem import Method, Problem
    from hpobench_nmt.core.space import Hyperparameter, Space
    from hpobench_nmt.core.trajectory import Trajectory
    from hpobench_nmt.lookup.catalogue import load_table
    from hpobench_nmt.lookup.table import Table
    from hpobench_nmt.render.figures import plot
    from hpobench_nmt.render.plots.curves import plot_regret

# Imported on first use: `import hpobench_nmt` stays fast, and so does the command line's help.
_LOCATION = {
    "Hyperparameter": "core.space",
    "InputError": "core.errors",
    "Method": "core.problem",
    "Metric": "core.objectives",
    "Minimum": "adapters.minimize",
    "Objective": "core.objectives",
    "Optimizer": "adapters.optimizer",
    "Problem": "core.problem",
    "Results": "benchmarking.results",
    "RunError": "core.errors",
    "Space": "core.space",
    "Table": "lookup.table",
    "Trajectory": "core.trajectory",
    "benchmark": "benchmarking.run",
    "load_results": "benchmarking.store",
    "load_table": "lookup.catalogue",
    "minimize": "adapters.minimize",
    "pareto_front": "core.pareto",
    "plot": "render.figures",
    "plot_regret": "render.plots.curves",
}

__all__ = [
    "Hyperparameter",
    "InputError",
    "Method",
    "Metric",
    "Minimum",
    "Objective",
    "Optimizer",
    "Problem",
    "Results",
    "RunError",
    "Space",
    "Table",
    "Trajectory",
    "benchmark",
    "load_results",
    "load_table",
    "minimize",
    "pareto_front",
    "plot",
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
