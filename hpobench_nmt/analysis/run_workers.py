"""What the workers did in one trial on a clock: which row each of them trained when, and how far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import instance_of, trials_of
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.scoring import length_of, scored_trial
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, short

_MOST_ROWS_NAMED = 8


@dataclass(frozen=True, eq=False)
class WorkerTimes:
    """The trainings of one trial.

    Attributes:
        table, method, trial: the table, the method and the number of the trial.
        workers: the number of workers.
        unit: the unit of the times.
        quantity: the name and unit of `value`.
        lower_is_better: whether a smaller value is better.
        frame: one line per training in the order of finishing: row, worker, start, finish, resource, value
            (raw, of the row's best checkpoint so far; NaN if there is none, or the row misses a
            constraint), best (whether it was the best so far), again (whether the row had been trained
            before).
        notes: what should be known, in words.
        constraints: the constraints of the run.
    """

    table: str
    method: str
    trial: int
    workers: int
    unit: str
    quantity: str
    lower_is_better: bool
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def end(self) -> float:
        """When the last training ended."""
        return float(self.frame["finish"].max())


def worker_times(results: Results, table: str, method: str, trial: int | None = None) -> WorkerTimes:
    """The trainings of a trial, by worker; by default of the trial of median length that did not fail."""
    instance = instance_of(results, table)
    trials = trials_of(results, table, method, trial)
    if instance.problem.counts_lookups:
        raise InputError(
            f"table {table!r}: the trials do not have a clock, so there is nothing to show for workers."
        )
    if trial is None:
        sound = [number for number, each in enumerate(trials) if not each.failure and len(each.rows)]
        if not sound:
            raise InputError(f"{method}: every trial failed, or ended before a training had finished.")
        order = sorted(sound, key=lambda number: length_of(trials[number]))
        trial = order[(len(order) - 1) // 2]
    chosen = trials[trial]
    time, objective = chosen.timeline, instance.objectives[0]
    scored = scored_trial(instance, chosen).losses[:, 0]
    losses = np.where(np.isnan(scored), np.inf, scored)
    before = np.append(np.inf, np.minimum.accumulate(losses)[:-1])
    frame = pd.DataFrame({"row": chosen.rows, "worker": time.workers, "start": time.starts})
    frame = frame.assign(finish=time.finishes, resource=time.resources, value=objective.to_raw(scored))
    frame = frame.assign(best=losses < before, again=frame.duplicated("row"))
    notes = ("Trainings that were still running when the trial ended are not recorded.",)
    which, workers, rules = (table, method, trial), instance.problem.workers, instance.problem.constraints
    quantity, lower = instance.table.metric(objective.metric).label, objective.direction == "min"
    return WorkerTimes(*which, workers, instance.time_unit, quantity, lower, frame, notes, rules)


def workers_finding(found: WorkerTimes) -> str:
    """How many trainings and rows there were, and how busy the workers were."""
    frame = found.frame
    busy = float((frame["finish"] - frame["start"]).sum()) / (found.workers * found.end) if found.end else 0.0
    again = int(frame["again"].sum())
    more = f", {again} of which resumed a row that had been stopped" if again else ""
    whole = "its worker was" if found.workers == 1 else f"its {found.workers} workers were"
    end = short(found.end, commas=True)
    return (
        f"A typical trial of {found.method} (number {found.trial}): {counted(len(frame), 'training')} of "
        f"{counted(frame['row'].nunique(), 'row')}{more}; {whole} busy for {busy:.0%} of {end} {found.unit} "
        f"with trainings that finished by then."
    )


def worker_rows(found: WorkerTimes) -> list[tuple[str, ...]]:
    """One line per worker: how many trainings, how much time, and the first rows."""
    lines: list[tuple[str, ...]] = []
    for worker in range(found.workers):
        own = found.frame[found.frame["worker"] == worker]
        rows = ", ".join(map(str, own["row"].head(_MOST_ROWS_NAMED)))
        more = ", …" if len(own) > _MOST_ROWS_NAMED else ""
        busy = short(float((own["finish"] - own["start"]).sum()))
        lines.append((str(worker), str(len(own)), busy, f"{rows}{more}"))
    return lines
