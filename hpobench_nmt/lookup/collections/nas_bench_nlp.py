"""The reader of NAS-Bench-NLP: recurrent cells as graphs, of which it computes features.

The only hyperparameter is the cell, a category from which methods learn nothing, so they use features of the
graph. Graphs are code, and not a setting of nas-bench-nlp.toml, because no other collection has any. The file
names 344 cells, many of which are the same graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import parse_json
from hpobench_nmt.lookup.collections.archives import zip_members

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

_MEMBER = r"log_stats_model_[0-9_-]+\.json"
_MOST_BYTES = 64 * 2**20
OPERATIONS = (
    "linear",
    "blend",
    "elementwise_prod",
    "elementwise_sum",
    "activation_tanh",
    "activation_sigm",
    "activation_leaky_relu",
)
_PARTS = ("val", "test", "train")


def nas_bench_nlp(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """A line for each training and for each epoch, the first training of a graph first.

    A graph has the name of its first training, and diverged trainings are the last of their graph. Replicates
    have no epochs here.
    """
    import pandas as pd

    logs = [
        parse_json(log.replace(b"NaN", b"null"), member)
        for name, content in members
        for member, log in zip_members(content, name, _MEMBER, _MOST_BYTES)
    ]
    graphs: dict[str, int] = {}
    runs: list[dict[str, Any]] = []
    curves = []
    for log in sorted(logs, key=lambda log: (log["recepie_id"], log["init_time"], log["experiment_id"])):
        nodes = parse_json(log["recepie"].encode(), log["recepie_id"])  # codespell:ignore recepie
        graph = {name: (node["op"], node["input"]) for name, node in nodes.items()}
        losses = np.array([log[f"{part}_losses"] for part in _PARTS], dtype=np.float64)
        best = np.nan_to_num(losses[0], nan=np.inf).argmin()
        about = {
            "training": len(runs),
            "graph": graphs.setdefault(str(sorted(graph.items())), len(graphs)),
            "name": str(log["recepie_id"]),
            "diverged": bool(np.isnan(losses[0]).any()),
            "val_loss": losses[0, best],
            "test_loss": losses[1, best],
            "seconds": float(sum(log["wall_times"])),
            "parameters": log["num_params"],
        }
        runs.append({**about, **features_of(graph)})
        epochs = pd.DataFrame(losses.T, columns=[f"{part}_loss" for part in _PARTS])
        cost = np.cumsum(log["wall_times"])
        curves.append(epochs.assign(training=about["training"], epoch=epochs.index + 1, cost=cost))
    frame = pd.DataFrame(runs).sort_values(["graph", "diverged"], kind="stable")
    rows = frame.drop_duplicates("graph")
    names = pd.CategoricalDtype(rows["name"].tolist())  # in this order
    cells = frame.groupby("graph")["name"].transform("first").astype(names)
    epochs = pd.concat(curves)
    return {"logs.zip": frame.assign(cell=cells), "epochs": epochs[epochs["training"].isin(rows["training"])]}


def features_of(nodes: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, float]:
    """Features of a cell's graph. A node is given by its operation and the names of its inputs.

    The features are the numbers of nodes, of edges, of hidden states that the cell updates, and of nodes with
    each operation, and the depth, which is the largest number of nodes on a path. Names that are not nodes
    are inputs of the cell.
    """
    depths: dict[str, int] = {}
    try:
        order = list(TopologicalSorter({name: inputs for name, (_, inputs) in nodes.items()}).static_order())
    except CycleError:
        raise InputError("the graph of a cell has a cycle.") from None
    for name in order:
        depths[name] = 1 + max(map(depths.__getitem__, nodes[name][1]), default=0) if name in nodes else 0
    operations = [operation for operation, _ in nodes.values()]
    return {
        "nodes": float(len(nodes)),
        "edges": float(sum(len(inputs) for _, inputs in nodes.values())),
        "depth": float(max(depths.values())),
        "states": float(sum(name.startswith("h_new_") for name in nodes)),
        **{operation: float(operations.count(operation)) for operation in OPERATIONS},
    }
