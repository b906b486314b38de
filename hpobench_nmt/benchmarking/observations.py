"""The Parquet files of a results folder: one row per look-up.

column             type                   content
table, method      dictionary of strings  the same in every row
trial              int32                  from 0
step               int32                  from 1 in each trial
row                int32                  row of the table, from 0
loss_1, loss_2..   double                 minimised: a metric to maximise is negated; NaN where missing
failed             bool                   whether the trial failed
failure            dictionary of strings  the reason, in every row of a failed trial
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.instance import Instance
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.files import read_bytes
from hpobench_nmt.core.trajectory import Trials

_MAX_BYTES = 2**32


def to_parquet(table: str, method: str, first: int, trials: Trials) -> bytes:
    """The content of a file.

    Args:
        table, method: names.
        first: number of the first trial.
        trials: of this method on this table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    lengths, total = trials.lengths, len(trials.looked_up)

    def repeated(value: str) -> Any:
        return pa.DictionaryArray.from_arrays(np.zeros(total, np.int32), pa.array([value], pa.string()))

    by_trial = [trials.failures.get(i, "") for i in range(len(trials))]
    reasons = sorted(set(by_trial))
    codes = np.array([reasons.index(reason) for reason in by_trial], dtype=np.int32)
    losses = trials.table_losses[trials.looked_up]
    columns: dict[str, Any] = {
        "table": repeated(table),
        "method": repeated(method),
        "trial": np.repeat(np.arange(first, first + len(trials), dtype=np.int32), lengths),
        "step": (np.arange(total) - np.repeat(trials.starts[:-1], lengths) + 1).astype(np.int32),
        "row": trials.looked_up,
        **{f"loss_{j + 1}": losses[:, j] for j in range(losses.shape[1])},
        "failed": np.repeat([i in trials.failures for i in range(len(trials))], lengths),
        "failure": pa.DictionaryArray.from_arrays(np.repeat(codes, lengths), pa.array(reasons, pa.string())),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_trials(path: Path, first: int, n_trials: int, method: str, instance: Instance) -> Trials:
    """The trials in a file.

    Args:
        path: the file.
        first: number of the first trial that it must hold.
        n_trials: how many it must hold.
        method: name of the method that it must be of.
        instance: the table that it must be of; the losses must be its own.

    Raises:
        InputError: it cannot be read, or holds anything else than that.
    """
    table = instance.table.name

    def wrong(what: str) -> InputError:
        return InputError(f"{path}: {what}. Delete it and run again.")

    columns = _columns(path, instance.losses.shape[1])
    if columns is None:
        raise wrong("is damaged")
    held = [columns[key].unique().to_pylist() for key in ("table", "method")]
    if held != [[table], [method]]:
        raise wrong(f"holds look-ups of {held[1]} on {held[0]}, not of {method} on {table}")
    trial, step, row = (columns[key].to_numpy() for key in ("trial", "step", "row"))
    starts = np.flatnonzero(np.append(True, trial[1:] != trial[:-1]))
    if len(starts) != n_trials:
        raise wrong(f"has {len(starts)} trials instead of {n_trials}")
    if not np.array_equal(trial[starts], first + np.arange(n_trials)):
        raise wrong(f"its trials are not numbered from {first} to {first + n_trials - 1}")
    bounds = np.append(starts, len(trial))
    lengths = np.diff(bounds)
    if not np.array_equal(step, np.arange(len(step)) - np.repeat(starts, lengths) + 1):
        raise wrong("its steps are not numbered from 1 in each trial")
    losses = np.column_stack([columns[f"loss_{j + 1}"].to_numpy() for j in range(instance.losses.shape[1])])
    known = (row >= 0) & (row < len(instance.losses))
    if not known.all() or not np.array_equal(losses, instance.losses[row], equal_nan=True):
        raise wrong(f"its look-ups are not those of table {table!r} with these objectives")
    visits = np.repeat(np.arange(n_trials, dtype=np.int64), lengths) * len(instance.losses) + row
    if len(np.unique(visits)) < len(visits):
        raise wrong("a trial in it looked up a row twice")
    failures = _failures(columns, starts, lengths)
    if failures is None:
        raise wrong("its failures are not the same in all rows of a trial")
    return Trials(instance.losses, row, bounds.astype(np.int64), failures)


def _columns(path: Path, n_losses: int) -> dict[str, Any] | None:
    """The columns in their types and without nulls; None where the file has others, or is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.dictionary(pa.int32(), pa.string())
    types = {"table": text, "method": text, "trial": pa.int32(), "step": pa.int32(), "row": pa.int32()}
    types |= {f"loss_{j + 1}": pa.float64() for j in range(n_losses)}
    types |= {"failed": pa.bool_(), "failure": text}
    content = read_bytes(path, _MAX_BYTES)
    try:
        found = pq.read_table(pa.BufferReader(content))
        if found.column_names != list(types) or len(found) == 0:
            return None
        numbers = {key: found.column(key).type for key in types if types[key] != text}
        if not all(pa.types.is_primitive(kind) for kind in numbers.values()):
            return None  # digits in strings would be converted
        columns = {key: found.column(key).combine_chunks().cast(kind) for key, kind in types.items()}
    except (pa.ArrowException, KeyError, OSError, ValueError, MemoryError):
        return None
    if any(column.null_count for column in columns.values()):
        return None
    return columns


def _failures(
    columns: dict[str, Any], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> dict[int, str] | None:
    """Reason by trial; None where the rows of a trial disagree."""
    column, failed = columns["failure"], columns["failed"].to_numpy(zero_copy_only=False)
    codes, reasons = column.indices.to_numpy(), column.dictionary.to_pylist()
    says = np.array([bool(reason) for reason in reasons])[codes]
    alike = (codes == np.repeat(codes[starts], lengths)) & (failed == says)
    if not alike.all():
        return None
    return {i: reasons[codes[start]] for i, start in enumerate(starts.tolist()) if says[start]}
