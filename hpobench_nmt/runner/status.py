"""The state of a spec's trainings, read from another process than the one that trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.text import printable
from hpobench_nmt.runner.ledger import (
    Ledger,
    Record,
    read_ledger,
    refuse_other_spec,
    refuse_rows_off_the_grid,
)
from hpobench_nmt.runner.locks import is_held
from hpobench_nmt.runner.plan import pending
from hpobench_nmt.runner.spec import describe
from hpobench_nmt.runner.workspace import Workspace, claim_path

_LAST_BYTES = 4096


@dataclass(frozen=True)
class Running:
    """A training that runs now.

    Attributes:
        name: its configuration, for people.
        log: its log file.
        last_line: the log's last line, "" if it is empty.
    """

    name: str
    log: Path
    last_line: str


@dataclass(frozen=True)
class Status:
    """The state of a spec's trainings.

    Attributes:
        done: records of successful trainings.
        failed: records of failed ones.
        running: trainings that run now, on this machine.
        left: how many have no record, those that run among them.
    """

    done: tuple[Record, ...]
    failed: tuple[Record, ...]
    running: tuple[Running, ...]
    left: int

    @property
    def hours_left(self) -> float | None:
        """An estimate from the mean time of a training so far; None if nothing runs or has ended."""
        ended = (*self.done, *self.failed)
        if not ended or not self.running:
            return None
        mean = sum(record.seconds for record in ended) / len(ended)
        return mean * self.left / len(self.running) / 3600


def read_status(workspace: Workspace) -> Status:
    """The state of the trainings of a workspace, which is not changed.

    Raises:
        InputError: there is no ledger yet, or it is of another spec.
    """
    path = workspace.ledger
    if not path.exists():
        raise InputError(f"{path}: there is no ledger yet: nothing has been trained there.")
    ledger: Ledger = read_ledger(path)
    refuse_other_spec(path, ledger, workspace.spec.identity, workspace.spec.family.defaults)
    refuse_rows_off_the_grid(path, ledger, workspace.spec.grid)
    todo = pending(workspace.spec, ledger, range(workspace.spec.size))
    running: list[Running] = []
    present = workspace.work.iterdir() if workspace.work.is_dir() else ()
    held = {path.name for path in present if _is_running(path)}
    for row, replicate in todo:
        if len(running) == len(held):
            break
        configuration = workspace.spec.configuration(row)
        folder = workspace.training_folder(configuration, replicate)
        if folder.name in held:
            name = describe(configuration) + (f" (again, {replicate})" if replicate else "")
            running.append(Running(name, folder / "log", _last_line(folder / "log")))
    return Status(
        tuple(r for r in ledger.records if r.status == "done"),
        tuple(r for r in ledger.records if r.status == "failed"),
        tuple(running),
        len(todo),
    )


def _is_running(path: Path) -> bool:
    """Whether it is the folder of a training that runs now."""
    return path.is_dir() and is_held(claim_path(path))


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LAST_BYTES))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    except OSError:  # it ended just now
        return ""
    return printable(lines[-1]) if lines else ""
