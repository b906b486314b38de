"""NAS-Bench-NLP (Klyuchnikov et al. 2020), its part on WikiText-2: recurrent cells as graphs.

There are 345 trainings of 291 cells. The file names 344 cells, many of which are the same graph. The only
hyperparameter is the cell, a category from which methods learn nothing, so they use features of the graph.
Other trainings of a graph are replicates. The file stays with its authors (Apache-2.0,
github.com/fmsnew/nas-bench-nlp-release). It is a ZIP archive, read member by member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.archives import zip_members
from hpobench_nmt.lookup.collections.collection import Collection, Origin, replicates_of
from hpobench_nmt.lookup.curves import Curves, until_missing
from hpobench_nmt.lookup.descriptors import Descriptors
from hpobench_nmt.lookup.table import Table

NAME = "nas-bench-nlp"
FILE = "logs.zip"
TABLES = (f"{NAME}-wikitext2",)
# The trainings in the authors' file, and the distinct graphs among them as counted here.
_TRAININGS, _DISTINCT = 345, 291

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
_METRICS = (
    Metric("val_loss", "min", "nats", description="the smallest value of the 50 epochs, per word"),
    Metric("test_loss", "min", "nats", description="where val_loss is least"),
    Metric("seconds", "min", "s", description="time of training up to the last epoch"),
    Metric("parameters", "min", description="number of parameters"),
)
_CURVE_METRICS = (*_METRICS[:2], Metric("train_loss", "min", "nats"))


class _Node(msgspec.Struct, frozen=True):
    op: str
    input: list[str]


class _Log(msgspec.Struct, frozen=True):
    recipe: str = msgspec.field(name="recepie")  # codespell:ignore recepie
    recepie_id: int
    init_time: str
    experiment_id: int
    num_params: int
    wall_times: list[float]
    train_losses: list[float | None]
    val_losses: list[float | None]
    test_losses: list[float | None]


@dataclass(frozen=True)
class _Training:
    """A log, and its cell as a text with sorted names, so that equal graphs have equal texts."""

    log: _Log
    cell: bytes
    nodes: Mapping[str, _Node]


def _tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
    (content,) = collection.contents(origin).values()
    return [_table([_read(name, log) for name, log in zip_members(content, FILE, _MEMBER, _MOST_BYTES)])]


def features_of(nodes: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, float]:
    """Features of a cell's graph. A node is given by its operation and the names of its inputs.

    The features are the numbers of nodes, of edges, of hidden states that the cell updates, and of nodes with
    each operation, and the depth, which is the largest number of nodes on a path. Names that are not nodes
    are inputs of the cell.
    """
    depths: dict[str, int] = {}

    def depth(name: str, above: frozenset[str]) -> int:
        if name not in nodes:
            return 0
        if name in above:
            raise InputError("the graph of a cell has a cycle.")
        if name not in depths:
            depths[name] = 1 + max((depth(i, above | {name}) for i in nodes[name][1]), default=0)
        return depths[name]

    operations = [operation for operation, _ in nodes.values()]
    return {
        "nodes": float(len(nodes)),
        "edges": float(sum(len(inputs) for _, inputs in nodes.values())),
        "depth": float(max(depth(name, frozenset()) for name in nodes)),
        "states": float(sum(name.startswith("h_new_") for name in nodes)),
        **{operation: float(operations.count(operation)) for operation in OPERATIONS},
    }


def _read(name: str, content: bytes) -> _Training:
    try:
        log = msgspec.json.decode(content.replace(b"NaN", b"null"), type=_Log, strict=False)
        nodes = msgspec.json.decode(log.recipe, type=dict[str, _Node])
    except msgspec.MsgspecError as error:
        raise InputError(f"{FILE}, {name}: {error}.") from None
    cell = msgspec.json.encode(dict(sorted((key, [n.op, n.input]) for key, n in nodes.items())))
    return _Training(log, cell, nodes)


def _table(trainings: Sequence[_Training]) -> Table:
    cells: dict[bytes, list[_Training]] = {}
    for training in sorted(trainings, key=lambda t: (t.log.recepie_id, t.log.init_time, t.log.experiment_id)):
        cells.setdefault(training.cell, []).append(training)
    # A diverged training becomes the row only if all trainings of its graph diverged.
    several = [sorted(group, key=lambda t: None in t.log.val_losses) for group in cells.values()]
    rows = [group[0] for group in several]
    again = [training for group in several for training in group[1:]]
    cell = Hyperparameter("cell", tuple(str(t.log.recepie_id) for t in rows), kind="categorical")
    features = [features_of({k: (n.op, n.input) for k, n in t.nodes.items()}) for t in rows]
    columns = {name: [each[name] for each in features] for name in features[0]}
    others = [len(group) - 1 for group in several]
    places = np.repeat(np.arange(float(len(rows))), others)
    return Table(
        TABLES[0],
        (cell,),
        _METRICS,
        np.arange(float(len(rows)))[:, None],
        np.array(list(map(_values, rows))),
        objectives=("val_loss",),
        provenance=COLLECTION.provenance(
            "Recurrent cells of 3-layer language models of WikiText-2, 50 epochs",
            f"file {COLLECTION.folder}/{FILE}",
            citation="Klyuchnikov et al. 2020, arXiv 2006.07116: NAS-Bench-NLP: neural architecture "
            "search benchmark for natural language processing",
            measured="one or more trainings of each graph; the row is a diverged training only if all of "
            "them diverged",
            changed="a cell has the first of the names that the file has for its graph; a curve ends "
            "where a loss is NaN",
            sha256=COLLECTION.sha256[FILE],
        ),
        claims=COLLECTION.claims(rows=_DISTINCT, trainings=_TRAININGS),
        curves=_curves(rows),
        replicates=replicates_of(
            (cell,), _METRICS, others, places[:, None], np.full(len(again), np.nan), list(map(_values, again))
        ),
        descriptors=Descriptors(
            tuple(Hyperparameter(name, tuple(sorted(set(column)))) for name, column in columns.items()),
            np.array(list(columns.values())).T,
        ),
    )


def _losses(training: _Training) -> Floats:
    """Validation, test and training loss after each epoch, shape (epochs, 3)."""
    log = training.log
    return np.array([log.val_losses, log.test_losses, log.train_losses], dtype=np.float64).T


def _values(training: _Training) -> list[float]:
    losses = _losses(training)
    best = 0 if np.isnan(losses[:, 0]).all() else int(np.nanargmin(losses[:, 0]))
    log = training.log
    return [*losses[best, :2].tolist(), float(sum(log.wall_times)), float(log.num_params)]


def _curves(rows: Sequence[_Training]) -> Curves:
    lengths = [len(t.log.wall_times) for t in rows]
    starts = np.cumsum([0, *lengths])
    values = np.concatenate(list(map(_losses, rows)))
    kept = until_missing(starts, values)
    epochs = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    seconds = np.concatenate([np.cumsum(t.log.wall_times) for t in rows])
    return Curves(
        "epoch",
        _CURVE_METRICS,
        ("best", None, None),
        np.concatenate([[0], np.cumsum(kept)])[starts],
        epochs[kept],
        seconds[kept],
        values[kept],
        "s",
        "epochs",
    )


COLLECTION = Collection(
    name=NAME,
    title="NAS-Bench-NLP (2020): 291 recurrent cells as language models of WikiText-2",
    tables=TABLES,
    rows=_DISTINCT,
    licence="Apache-2.0, of the authors' repository",
    repository="fmsnew/nas-bench-nlp-release",
    commit="a6d90a3b19e3966b1d009c0970b3761aa46707d1",
    folder="train_logs_wikitext-2",
    sha256={FILE: "f5052d6bea6398001e32c986322a243e8cdedffa906caf242eb0a62ee105aa12"},
    tables_from=_tables,
)
