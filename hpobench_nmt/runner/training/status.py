"""The state of a spec's trainings, read by a process that does not train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.processes import last_line
from hpobench_nmt.runner.disk.curve_file import read_curve
from hpobench_nmt.runner.disk.locks import is_held
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.ledgers.plan import planned
from hpobench_nmt.runner.specs.spec import describe
from hpobench_nmt.runner.training.workspace import Workspace, claim_path, entries

_LAST_BYTES = 4096


@dataclass(frozen=True)
class Begun:
    """A training that has started: its configuration, for people, its dev metrics, and its log's last line.

    A paused training, which has a state to resume from, has no line.
    """

    name: str
    curve: tuple[Mapping[str, float], ...]
    last_line: str = ""


@dataclass(frozen=True)
class Status:
    """The state of a spec's trainings: their records, those that run on this machine, and paused trainings.

    `left` counts all trainings without a record, including those that run.
    """

    done: tuple[Record, ...]
    failed: tuple[Record, ...]
    running: tuple[Begun, ...]
    paused: tuple[Begun, ...]
    left: int

    @property
    def hours_left(self) -> float | None:
        """An estimate from the mean time of a training so far; None if no training runs or none has ended."""
        ended = (*self.done, *self.failed)
        if not ended or not self.running:
            return None
        mean = sum(record.seconds for record in ended) / len(ended)
        return mean * self.left / len(self.running) / 3600


def read_status(workspace: Workspace, shard: tuple[int, int] = (1, 1)) -> Status:
    """The state of the trainings of a workspace, or of one of its shards. No file is changed.

    Raises InputError if there is no ledger yet, or if it belongs to another spec.
    """
    path = workspace.ledger
    if not path.exists():
        raise InputError(f"{path}: there is no ledger yet: nothing has been trained there.")
    ledger, todo = planned(workspace.spec, path, range(workspace.spec.size), shard)
    running: list[Begun] = []
    paused: list[Begun] = []
    held = {p.name for p in entries(workspace.work) if p.is_dir() and is_held(claim_path(p))}
    begun = held | {path.name for path in entries(workspace.states)}
    for row, replicate in todo:
        if len(running) + len(paused) == len(begun):
            break
        configuration = workspace.spec.configuration(row)
        folder = workspace.training_folder(configuration, replicate)
        if folder.name not in begun:
            continue
        name = describe(configuration) + (f" (again, {replicate})" if replicate else "")
        curve = tuple(read_curve(workspace.state_folder(configuration, replicate)))
        if folder.name in held:
            running.append(Begun(name, curve, _last_line(folder / "log")))
        else:
            paused.append(Begun(name, curve))
    done, failed = (tuple(r for r in ledger.records if r.status == which) for which in ("done", "failed"))
    return Status(done, failed, tuple(running), tuple(paused), len(todo))


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LAST_BYTES))
            return last_line(file.read())
    except OSError:  # the training has just ended
        return ""
