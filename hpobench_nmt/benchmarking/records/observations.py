"""The Parquet files of a results folder: one row per look-up.

column             type                   content
table, method      dictionary of strings  the same in every row
trial              int32                  from 0
step               int32                  from 1 in each trial
row                int32                  row of the table, from 0
loss_1, loss_2..   double                 minimised: a metric to maximise is negated; NaN if missing
failed             bool                   whether the trial failed
failure            dictionary of strings  the reason, in every row of a failed trial
recommended        int32                  only if rows may be looked up again: a step of the row that the
                                          method recommends in the end, in every row; 0 if there is none

On a clock there is one row per training, in the order of finishing, the losses are those of the
row's best checkpoint so far, and these columns follow:

resource           double                 how far the row was trained
cost               double                 the worker's time that this took
start, finish      double                 when, on the trial's clock
worker             int32                  number of the worker, from 0

The metadata of a file of all trials has the metric and direction of each loss, such as loss_1 =
dev_bleu:max. (DuckDB reads them by `parquet_kv_metadata`, and pyarrow by `read_schema`.)

A trial without a look-up (format 2) has one row with step 0, row -1, losses that are NaN, and zeros for its
times. An example is a method that fails at once, without an initial design.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.records.bounded_parquet import open_bounded
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.arrays import Floats, Ints, Rows
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import parquet_bytes, read_bytes
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Timeline, Trials

MAX_OBSERVATIONS = 2**32
"""The size of the largest file that is read, in bytes."""
_MOST_TEXT, _MOST_A_ROW = 2**24, 1024  # bytes, decompressed; a row may have a reason of its own
NO_HASH = "the manifest does not have its hash"
_Numbers = NDArray[np.integer[Any]]

# Column, attribute of a Timeline, and type.
_TIMES = {
    "resource": ("resources", "float64"),
    "cost": ("costs", "float64"),
    "start": ("starts", "float64"),
    "finish": ("finishes", "float64"),
    "worker": ("workers", "int32"),
}


def wrong_file(path: Path, what: str) -> InputError:
    """The error for a file that cannot belong to this run."""
    return InputError(f"{path}: {what}. Delete it and run again.")


def to_parquet(
    table: str,
    method: str,
    first: int,
    trials: Trials,
    checksums: bool = False,
    objectives: Sequence[str] = (),
) -> bytes:
    """The content of a file: the trials of a method on a table, numbered from `first`.

    With `checksums`, its pages have checksums, for a file whose hash is not recorded elsewhere. The
    objectives, as "metric:direction", become the file's metadata.
    """
    import pyarrow as pa

    lengths = np.maximum(trials.lengths, 1)
    there = np.repeat(trials.lengths > 0, lengths)  # False for trials without a look-up
    total = len(there)

    def spread(values: NDArray[Any], missing: float) -> NDArray[Any]:
        if total == len(values):
            return values
        found = np.full(total, missing, dtype=values.dtype)
        found[there] = values
        return found

    def repeated(value: str) -> Any:
        return pa.DictionaryArray.from_arrays(np.zeros(total, np.int32), pa.array([value], pa.string()))

    by_trial = [trials.failures.get(i, "") for i in range(len(trials))]
    reasons = sorted(set(by_trial))
    codes = np.array([reasons.index(reason) for reason in by_trial], dtype=np.int32)
    losses = trials.table_losses[trials.looked_up] if trials.losses is None else trials.losses
    numbers = trials.numbers
    rows = trials.looked_up if numbers is None else numbers[trials.looked_up].astype(np.int32)
    steps = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    columns: dict[str, Any] = {
        "table": repeated(table),
        "method": repeated(method),
        "trial": np.repeat(np.arange(first, first + len(trials), dtype=np.int32), lengths),
        "step": np.where(there, steps, 0).astype(np.int32),
        "row": spread(rows, -1),
        **{f"loss_{j + 1}": spread(losses[:, j], np.nan) for j in range(losses.shape[1])},
        "failed": np.repeat([i in trials.failures for i in range(len(trials))], lengths),
        "failure": pa.DictionaryArray.from_arrays(np.repeat(codes, lengths), pa.array(reasons, pa.string())),
    }
    if trials.recommended is not None:
        columns["recommended"] = np.repeat(trials.recommended.astype(np.int32) + 1, lengths)
    if trials.timing is not None:
        columns |= {name: spread(getattr(trials.timing, each), 0) for name, (each, _) in _TIMES.items()}
    named = {f"loss_{j + 1}": objective for j, objective in enumerate(objectives)}
    return parquet_bytes(pa.table(columns, metadata=named or None), write_page_checksum=checksums)


def read_trials(
    path: Path, first: int, n_trials: int, method: str, instance: Instance, sha256: str | None = None
) -> Trials:
    """The trials in a file.

    It must hold this many trials of this method on the instance's table, numbered from `first`, with the
    table's losses. If `sha256` is not None, it must be the file's SHA-256.

    Raises:
        InputError: the file cannot be read, or holds anything else.
    """
    table = instance.table.name

    def wrong(what: str) -> InputError:
        return wrong_file(path, what)

    most_rows = n_trials * len(instance.trainings.costs)  # every checkpoint of every row, once
    content = read_bytes(path, MAX_OBSERVATIONS)
    if sha256 is not None:
        found = hashlib.sha256(content).hexdigest()
        if not sha256:
            raise wrong(NO_HASH)
        if found != sha256:
            raise wrong(f"was changed: its SHA-256 is {found[:12]}…, in the manifest {sha256[:12]}…")
    more = {"recommended": "int32"} if instance.problem.again else {}
    more |= {} if instance.problem.counts_lookups else {name: kind for name, (_, kind) in _TIMES.items()}
    columns = _columns(content, instance.losses.shape[1], more, most_rows)
    if columns is None:
        raise wrong("is damaged")
    held = [columns[key].unique().to_pylist() for key in ("table", "method")]
    if held != [[table], [method]]:
        raise wrong(f"holds look-ups of {held[1]} on {held[0]}, not of {method} on {table}")
    trial, step, row = (columns[key].to_numpy() for key in ("trial", "step", "row"))
    starts = np.flatnonzero(np.append(True, trial[1:] != trial[:-1]))
    if len(starts) != n_trials:
        raise wrong(f"has {counted(len(starts), 'trial')} instead of {n_trials}")
    if not np.array_equal(trial[starts], first + np.arange(n_trials)):
        raise wrong(f"its trials are not numbered from {first} to {first + n_trials - 1}")
    lengths = np.diff(np.append(starts, len(trial)))
    failures = _failures(columns, starts, lengths)
    if failures is None:
        raise wrong("its failures are not the same in all rows of a trial")
    losses = np.column_stack([columns[f"loss_{j + 1}"].to_numpy() for j in range(instance.losses.shape[1])])
    times = [columns[name].to_numpy() for name in _TIMES if name in columns]
    none = (lengths == 1) & (step[starts] == 0) & (row[starts] == -1) & np.isnan(losses[starts]).all(axis=1)
    if instance.problem.n_initial == 0 and none.any():  # trials without a look-up
        there = np.repeat(~none, lengths)
        step, row, losses, *times = (array[there] for array in (step, row, losses, *times))
        lengths = lengths - none
    bounds = np.append(0, np.cumsum(lengths))
    if not np.array_equal(step, np.arange(len(step)) - np.repeat(bounds[:-1], lengths) + 1):
        raise wrong("its steps are not numbered from 1 in each trial")
    timing = Timeline(*times) if times else None
    trials = checked_trials(instance, row, bounds, failures, wrong, losses, timing)
    if not instance.problem.again:
        return trials
    places = columns["recommended"].to_numpy()[starts] - 1
    if (places < -1).any() or (places >= lengths).any():
        raise wrong("a trial in it recommends a row that it did not look up")
    return replace(trials, recommended=places.astype(np.int64))


def checked_trials(
    instance: Instance,
    row: Rows,
    bounds: Rows,
    failures: Mapping[int, str],
    wrong: Callable[[str], InputError],
    losses: Floats | None = None,
    timing: Timeline | None = None,
) -> Trials:
    """Trials from arrays that were read from a file, one trial after the other.

    Args:
        instance: the suite on the table.
        row: row numbers of the installed table, shape (n,).
        bounds: where each trial begins, and n at the end, shape (trials + 1,).
        failures: reasons of the trials that failed, by trial number.
        wrong: makes the error from a description of the fault.
        losses: losses, shape (n, m); None if the file lacks them. Required with `timing`.
        timing: timelines of trials on a clock.
    """
    table, numbers = instance.table.name, instance.numbers
    rows = candidates_of(instance, row)
    if (rows < 0).any() or (rows >= len(instance.losses)).any():
        raise wrong(_NOT_THE_TABLES.format(table))
    trials_of_steps = np.repeat(np.arange(len(bounds) - 1, dtype=np.int64), np.diff(bounds))
    if instance.problem.counts_lookups:
        if losses is not None and not np.array_equal(losses, instance.losses[rows], equal_nan=True):
            raise wrong(_NOT_THE_TABLES.format(table))
        visits = trials_of_steps * len(instance.losses) + rows
        if len(np.unique(visits)) < len(visits) and not instance.problem.again:
            raise wrong("a trial in it looked up a row twice")
        return Trials(instance.losses, rows, bounds.astype(np.int64), failures, numbers=numbers)
    if timing is None or losses is None:
        raise wrong("its times are missing")
    reason = wrong_times(instance.trainings, instance.problem.workers, trials_of_steps, rows, losses, timing)
    if reason:
        raise wrong(reason.format(table))
    return Trials(instance.losses, rows, bounds.astype(np.int64), failures, timing, losses, numbers)


def candidates_of(instance: Instance, rows: Rows) -> NDArray[np.int32]:
    """The candidates that are these rows of the installed table, -1 for a row that is not a candidate."""
    numbers = instance.numbers
    if numbers is None:
        return np.asarray(rows, dtype=np.int32)
    places = np.searchsorted(numbers, rows).clip(max=len(numbers) - 1)
    return np.where(numbers[places] == rows, places, -1).astype(np.int32)


_NOT_THE_TABLES = "its look-ups are not those of table {!r} with these objectives"


def wrong_times(
    trainings: Trainings, workers: int, trials: Rows, rows: _Numbers, losses: Floats, timing: Timeline
) -> str:
    """What is wrong in a file of trials on a clock; empty if nothing is found. O(n log n).

    The n trainings are in the order of finishing within each trial. `trials` has their trial numbers,
    ascending, shape (n,).
    """
    if not all(np.isfinite(getattr(timing, name)).all() for name, _ in _TIMES.values()):
        return "a time in it is missing"
    places = trainings.place_of(rows.astype(np.int64), timing.resources).clip(max=len(trainings.costs) - 1)
    there = (trainings.owners[places] == rows) & (trainings.resources[places] == timing.resources)
    if not there.all() or not np.array_equal(losses, trainings.best[places], equal_nan=True):
        return _NOT_THE_TABLES
    # The cost that a row's training has already had in the same trial.
    order = np.lexsort((np.arange(len(rows)), rows, trials))
    follows = np.append(False, (np.diff(trials[order]) == 0) & (np.diff(rows[order]) == 0))
    at = places[order]
    if (np.diff(at)[follows[1:]] <= 0).any():
        return "a trial in it requested a row without training it further"
    whole = trainings.costs[at]
    rest = np.where(follows, whole - np.append(0.0, whole[:-1]), whole)
    costs = timing.costs[order]
    if not ((costs == rest) | ((costs == whole) & (not trainings.resume))).all():
        return "a cost in it is not that of table {!r}"
    same_trial = np.diff(trials) == 0
    if (timing.starts < 0).any() or (timing.starts + timing.costs != timing.finishes).any():
        return "its trainings do not finish when they should"
    if (np.diff(timing.finishes)[same_trial] < 0).any():
        return "its trainings are not in the order of finishing"
    if (timing.workers < 0).any() or (timing.workers >= workers).any():
        return f"its workers are not numbered from 0 to {workers - 1}"
    order = np.lexsort((np.arange(len(rows)), timing.workers, trials))
    follows = (np.diff(trials[order]) == 0) & (np.diff(timing.workers[order]) == 0)
    if (timing.starts[order][1:] < timing.finishes[order][:-1])[follows].any():
        return "a worker in it trains two rows at a time"
    return ""


def _columns(content: bytes, n_losses: int, more: Mapping[str, str], most_rows: int) -> dict[str, Any] | None:
    """The usual columns, and `more` by their types, without nulls.

    None if the file has others, is too large or damaged.
    """
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    types = {"table": text, "method": text, "trial": pa.int32(), "step": pa.int32(), "row": pa.int32()}
    types |= {f"loss_{j + 1}": pa.float64() for j in range(n_losses)}
    types |= {"failed": pa.bool_(), "failure": text}
    types |= {name: getattr(pa, kind)() for name, kind in more.items()}
    try:
        texts = [key for key, kind in types.items() if kind == text]
        most_bytes = _MOST_TEXT + most_rows * (_MOST_A_ROW + 8 * n_losses)
        found = open_bounded(content, texts, most_rows, most_bytes).read()
        if found.column_names != list(types) or len(found) == 0:
            return None
        numbers = {key: found.column(key).type for key in types if types[key] != text}
        if not all(pa.types.is_primitive(kind) for kind in numbers.values()):
            return None  # digits in strings would be converted
        columns = {key: found.column(key).combine_chunks().cast(kind) for key, kind in types.items()}
    except (pa.ArrowException, KeyError, OSError, ValueError, MemoryError):
        return None
    return None if any(column.null_count for column in columns.values()) else columns


def _failures(columns: dict[str, Any], starts: Ints, lengths: Ints) -> dict[int, str] | None:
    """Reason by trial; None if the rows of a trial disagree."""
    column, failed = columns["failure"], columns["failed"].to_numpy(zero_copy_only=False)
    codes, reasons = column.indices.to_numpy(), column.dictionary.to_pylist()
    says = np.array([bool(reason) for reason in reasons])[codes]
    alike = (codes == np.repeat(codes[starts], lengths)) & (failed == says)
    if not alike.all():
        return None
    return {i: reasons[codes[start]] for i, start in enumerate(starts.tolist()) if says[start]}
