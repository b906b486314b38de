"""A table with learning curves as a benchmark of mf-prior-bench.

It asks for NumPy 1, but works with NumPy 2: `pip install 'hpobench-nmt[smac]' more_itertools`, and then
`pip install --no-deps mf-prior-bench`.

Fidelity k is the k-th checkpoint. A curve that ends before others keeps its last values and cost. The metrics
are those of the curves, in their own units and directions. The id of a configuration is its row. An inactive
hyperparameter is None.

    benchmark = benchmark_of("lohelp-de-en")
    benchmark.query(benchmark.sample(seed=0), at=3).error  # dev_bleu, to be minimised
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
from mfpbench import Metric, Result, TabularBenchmark
from mfpbench.config import TabularConfig

import hpobench_nmt as hb

COST = "training_cost"  # results of mf-prior-bench have a property `cost`


def benchmark_of(
    name: str, metric: str | None = None, seed: int | None = None, **options: Any
) -> TabularBenchmark:
    """The benchmark of a table; `options` are those of `TabularBenchmark`, such as a prior."""
    table = hb.load_table(name)
    curves = table.curves
    if curves is None:
        raise hb.InputError(f"table {name!r} has no learning curves.")
    held = [each.name for each in curves.metrics]
    metric = metric or (table.main_metric if table.main_metric in held else held[0])
    metrics = {each.name: Metric(minimize=each.direction == "min") for each in curves.metrics}
    metrics[COST] = Metric(minimize=True, bounds=(0, np.inf))
    frames = []
    for row, curve in enumerate(curves):
        places = np.minimum(np.arange(curves.lengths.max()), len(curve.costs) - 1)
        frame = pd.DataFrame(curve.values[places], columns=held)
        frame[COST] = curve.costs[places]
        frames.append(frame.assign(id=str(row), checkpoint=np.arange(1, len(places) + 1)))
    configs = pd.DataFrame([table.config(row) for row in range(len(table))], columns=table.space.names)
    configs = configs.astype(object).where(configs.notna(), None)
    return TabularBenchmark(
        name,
        pd.concat(frames).join(configs.set_axis(configs.index.astype(str)), on="id"),
        id_key="id",
        fidelity_key="checkpoint",
        result_type=_result_type(metrics, metric),
        config_type=dataclasses.make_dataclass(
            "Config",
            [(each, object) for each in table.space.names],
            bases=(TabularConfig,),
            frozen=True,
            eq=False,
            unsafe_hash=True,
        ),
        space=table.space.to_configspace(seed),
        seed=seed,
        **options,
    )


def _result_type(metrics: dict[str, Metric], metric: str) -> type[Result]:
    """A class of results with a field for each metric."""
    settings = {
        "metric_defs": metrics,
        "default_value_metric": metric,
        "default_value_metric_test": None,
        "default_cost_metric": COST,
    }
    fields = [(each, Metric.Value) for each in metrics]
    return dataclasses.make_dataclass("Result", fields, bases=(Result,), namespace=settings, frozen=True)
