"""The Parquet files of a results folder: written and read by pyarrow, cell by cell."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hpobench_nmt.benchmarking.records.observations import read_trials, to_parquet, wrong_times
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Timeline, Trajectory, Trials
from hpobench_nmt.lookup.table import Table

N_ROWS = 300
FIRST = 25
REASONS = {1: "b: ä\n", 2: "a", 4: "b: ä\n"}


@pytest.fixture(scope="module")
def instance():
    """A table of some hundred rows, of whose two losses one or both are missing in some."""
    values = np.random.default_rng(0).normal(size=(N_ROWS, 2))
    values[::7, 0] = np.nan
    values[::5, 1] = np.nan
    axis = Hyperparameter("x", tuple(map(float, range(N_ROWS))))
    metrics = (Metric("up", "max"), Metric("down", "min"))
    table = Table("t", (axis,), metrics, np.arange(N_ROWS)[:, None], values, ("up", "down"))
    return make_instance(Suite("s", ("fto",)), table)


@pytest.fixture(scope="module")
def trials(instance):
    """Trials of several lengths that share rows; three of them failed, two for the same reason."""
    rng = np.random.default_rng(1)
    rows = [rng.permutation(N_ROWS)[:n] for n in (5, 1, 3, N_ROWS, 2)]
    return Trials.of(
        instance.losses, [Trajectory(r, instance.losses[r], REASONS.get(i, "")) for i, r in enumerate(rows)]
    )


@pytest.fixture
def path(tmp_path, trials):
    (tmp_path / "f.parquet").write_bytes(to_parquet("t", "RS", FIRST, trials))
    return tmp_path / "f.parquet"


def test_a_file_has_one_row_per_look_up(path, trials, instance):
    found = pq.read_table(path)
    text = pa.dictionary(pa.int32(), pa.string())
    assert {field.name: field.type for field in found.schema} == {
        "table": text,
        "method": text,
        "trial": pa.int32(),
        "step": pa.int32(),
        "row": pa.int32(),
        "loss_1": pa.float64(),
        "loss_2": pa.float64(),
        "failed": pa.bool_(),
        "failure": text,
    }
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    expected = [
        ("t", "RS", FIRST + i, step, row, *instance.losses[row], i in REASONS, REASONS.get(i, ""))
        for i, trial in enumerate(trials)
        for step, row in enumerate(trial.rows.tolist(), start=1)
    ]
    rows = list(zip(*(found.column(name).to_pylist() for name in found.column_names), strict=True))
    assert len(rows) == len(expected) == 311
    for row, other in zip(rows, expected, strict=True):
        assert row[:5] == other[:5]
        assert row[7:] == other[7:]
        np.testing.assert_array_equal(row[5:7], other[5:7])
    assert np.isnan(found.column("loss_1").to_numpy()).any()
    assert to_parquet("t", "RS", FIRST, trials) == path.read_bytes()


def test_a_file_is_read_as_it_was_written(path, trials, instance):
    found = read_trials(path, FIRST, 5, "RS", instance)
    assert found.table_losses is instance.losses
    np.testing.assert_array_equal(found.looked_up, trials.looked_up)
    np.testing.assert_array_equal(found.starts, trials.starts)
    assert found.looked_up.dtype == np.int32
    assert found.starts.dtype == np.int64
    assert found.failures == REASONS


def test_trials_without_a_look_up_are_kept_where_there_is_no_initial_design(tmp_path, instance):
    free = dataclasses.replace(instance, problem=dataclasses.replace(instance.problem, n_initial=0))
    timed = dataclasses.replace(free, problem=dataclasses.replace(free.problem, clock="cost"))
    nothing = np.empty((0, 2))
    for case, rows in enumerate(([[], [3, 5], []], [[], []])):
        reasons = ["broken", *[""] * (len(rows) - 1)]
        for kind, where in (("look-ups", free), ("clock", timed)):
            each = [
                Trajectory(
                    np.array(row, np.int64),
                    free.losses[row] if row else nothing,
                    reason,
                    Timeline.of_lookups(len(row)) if kind == "clock" else None,
                )
                for row, reason in zip(rows, reasons, strict=True)
            ]
            path = tmp_path / f"{case}-{kind}.parquet"
            path.write_bytes(to_parquet("t", "RS", 0, Trials.of(free.losses, each)))
            again = read_trials(path, 0, len(rows), "RS", where)
            assert [trial.rows.tolist() for trial in again] == rows
            assert [trial.failure for trial in again] == reasons
            assert [len(trial.timeline.finishes) for trial in again] == [len(row) for row in rows]
            with pytest.raises(InputError, match="its steps are not numbered from 1"):
                read_trials(path, 0, len(rows), "RS", instance if kind == "look-ups" else with_design(timed))
    found = pq.read_table(tmp_path / "0-clock.parquet").to_pydict()
    assert (found["trial"], found["step"]) == ([0, 1, 1, 2], [0, 1, 2, 0])
    assert (found["row"], found["failed"]) == ([-1, 3, 5, -1], [True, False, False, False])
    assert np.isnan([found["loss_1"][0], found["loss_2"][3]]).all()
    assert (found["finish"], found["worker"]) == ([0, 1, 2, 0], [0] * 4)


def with_design(instance):
    return dataclasses.replace(instance, problem=dataclasses.replace(instance.problem, n_initial=1))


def test_a_file_without_failures_or_of_one_look_up(tmp_path, instance):
    path = tmp_path / "f.parquet"
    trials = Trials.of(instance.losses, [Trajectory(np.array([N_ROWS - 1]), instance.losses[-1:])])
    path.write_bytes(to_parquet("t", "RS", 0, trials))
    found = read_trials(path, 0, 1, "RS", instance)
    assert (found.looked_up.tolist(), found.starts.tolist(), found.failures) == ([N_ROWS - 1], [0, 1], {})


def replaced(name, edit):
    """A change of the cells of one column, which keeps its type."""

    def change(found):
        cells = found.column(name).to_pylist()
        edit(cells)
        column = pa.array(cells, type=found.schema.field(name).type)
        return found.set_column(found.column_names.index(name), name, column)

    return change


def cell(name, place, value):
    return replaced(name, lambda cells: cells.__setitem__(place, value))


def cast(name, kind):
    return lambda f: f.set_column(f.column_names.index(name), name, f.column(name).cast(kind))


def again(found):
    """The second look-up of trial 28 repeats its first, with the losses that belong to it."""
    for name in ("row", "loss_1", "loss_2"):
        found = cell(name, 10, found.column(name)[9].as_py())(found)
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop_columns("step"), "is damaged"),
        (lambda f: f.append_column("loss_3", f.column("loss_2")), "is damaged"),
        (lambda f: f.rename_columns(["method", "table", *f.column_names[2:]]), "is damaged"),
        (lambda f: f.slice(0, 0), "is damaged"),
        (cast("row", pa.string()), "is damaged"),
        (cast("loss_1", pa.string()), "is damaged"),
        (cell("table", 3, None), "is damaged"),
        (cell("row", 310, None), "is damaged"),
        (cell("failed", 0, None), "is damaged"),
        (cell("failure", 0, None), "is damaged"),
        (cell("table", 310, "u"), "holds look-ups of ['RS'] on ['t', 'u'], not of RS on t"),
        (cell("method", 310, "BO"), "holds look-ups of ['RS', 'BO'] on ['t'], not of RS on t"),
        (lambda f: f.slice(0, 309), "has 4 trials instead of 5"),
        (cell("trial", 310, 30), "has 6 trials instead of 5"),
        (cell("trial", 4, 24), "has 6 trials instead of 5"),
        (replaced("trial", lambda t: t.reverse()), "its trials are not numbered from 25 to 29"),
        (replaced("trial", lambda t: t.__setitem__(slice(309, 311), [30, 30])), "not numbered from 25 to 29"),
        (cell("step", 0, 0), "its steps are not numbered from 1 in each trial"),
        (cell("step", 310, 3), "its steps are not numbered from 1 in each trial"),
        (replaced("step", lambda s: s.__setitem__(slice(None), range(1, 312))), "its steps are not numbered"),
        (cell("row", 2, N_ROWS), "its look-ups are not those of table 't' with these objectives"),
        (cell("row", 2, -1), "its look-ups are not those"),
        (cell("loss_1", 300, 0.5), "its look-ups are not those"),
        (cell("loss_2", 300, 0.5), "its look-ups are not those"),
        (again, "a trial in it looked up a row twice"),
        (cell("failed", 5, False), "its failures are not the same in all rows of a trial"),
        (cell("failed", 0, True), "its failures are not the same"),
        (cell("failure", 8, ""), "its failures are not the same"),
        (cell("failure", 8, "b: ä\n"), "its failures are not the same"),
        (cell("failure", 310, "a"), "its failures are not the same"),
    ],
)
def test_a_well_formed_file_with_wrong_contents_is_refused(path, instance, change, message):
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(InputError) as error:
        read_trials(path, FIRST, 5, "RS", instance)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert str(error.value).endswith(". Delete it and run again.")


@pytest.mark.parametrize(
    "change",
    [
        cast("row", pa.int64()),
        cast("trial", pa.float64()),
        cast("failed", pa.int8()),
        cast("table", pa.string()),
        cast("failure", pa.large_string()),
    ],
)
def test_other_types_of_the_same_content_are_read(path, instance, trials, change):
    pq.write_table(change(pq.read_table(path)), path, row_group_size=100)
    found = read_trials(path, FIRST, 5, "RS", instance)
    np.testing.assert_array_equal(found.looked_up, trials.looked_up)
    assert found.failures == REASONS


def with_losses(instance, losses):
    clock = dataclasses.replace(instance.clock, trainings=Trainings.whole(losses))
    return dataclasses.replace(instance, clock=clock)


def test_a_file_of_something_else_is_refused(path, instance, tmp_path):
    good = path.read_bytes()
    for bad in (b"", b"PAR1", good[:-1], good[: len(good) // 2], b"table,method\n"):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"f\.parquet: is damaged\. Delete it and run again\."):
            read_trials(path, FIRST, 5, "RS", instance)
    path.write_bytes(good)
    for asked, message in (
        ((24, 5, "RS"), "its trials are not numbered from 24 to 28"),
        ((25, 4, "RS"), "has 5 trials instead of 4"),
        ((25, 5, "BO"), r"holds look-ups of \['RS'\] on \['t'\], not of BO on t"),
    ):
        with pytest.raises(InputError, match=message):
            read_trials(path, *asked, instance)
    one = with_losses(instance, instance.losses[:, :1])
    with pytest.raises(InputError, match="is damaged"):
        read_trials(path, FIRST, 5, "RS", one)
    with pytest.raises(InputError, match="not those of table"):
        read_trials(path, FIRST, 5, "RS", with_losses(instance, -instance.losses))
    with pytest.raises(InputError, match="not those of table"):
        read_trials(path, FIRST, 5, "RS", with_losses(instance, instance.losses[:-1]))


# Row 0 to both of its checkpoints, row 1 beside it, and row 1 again in the next trial.
TRIALS, ROWS, LOSSES = np.array([0, 0, 0, 1]), np.array([0, 1, 0, 1]), [[2.0], [3.0], [1.0], [3.0]]
TIMES = {
    "resources": [1.0, 1.0, 2.0, 1.0],
    "costs": [3.0, 4.0, 2.0, 4.0],
    "starts": [0.0, 0.0, 3.0, 0.0],
    "finishes": [3.0, 4.0, 5.0, 4.0],
    "workers": [0, 1, 0, 0],
}


@pytest.mark.parametrize(
    ("resume", "change", "message"),
    [
        (True, {}, ""),
        (False, {}, ""),  # the same worker at once
        (False, {"costs": [3.0, 4.0, 5.0, 4.0], "finishes": [3.0, 4.0, 8.0, 4.0]}, ""),  # from its beginning
        (True, {"costs": [3.0, 4.0, 5.0, 4.0], "finishes": [3.0, 4.0, 8.0, 4.0]}, "a cost in it is not"),
        (False, {"costs": [3.0, 4.0, 4.0, 4.0], "finishes": [3.0, 4.0, 7.0, 4.0]}, "a cost in it is not"),
        (True, {"workers": [0, 0, 1, 0]}, "a worker in it trains two rows at a time"),
        (True, {"workers": [0, 2, 0, 0]}, "its workers are not numbered from 0 to 1"),
        (True, {"resources": [1.0, 1.0, 1.5, 1.0]}, "its look-ups are not those of table"),
        (True, {"finishes": [3.0, 4.0, 5.5, 4.0]}, "its trainings do not finish when they should"),
        (True, {"starts": [1.5, 0.0, 4.5, 0.0], "finishes": [4.5, 4.0, 6.5, 4.0]}, "the order of finishing"),
    ],
)
def test_times_on_two_workers_by_hand(resume, change, message):
    trainings = Trainings([0, 2, 3], [1.0, 2.0, 1.0], [3.0, 5.0, 4.0], [[2.0], [1.0], [3.0]], resume)
    times = Timeline(**{name: np.array(values) for name, values in (TIMES | change).items()})
    found = wrong_times(trainings, 2, TRIALS, ROWS, np.array(LOSSES), times)
    assert message in found and bool(message) == bool(found)
