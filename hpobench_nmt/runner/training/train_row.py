"""One row of the ledger: a training is claimed, run in a process of its own, and recorded."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from filelock import Timeout

from hpobench_nmt.core.system.errors import InputError, RunError, not_written, one_line
from hpobench_nmt.core.system.files import file_sha256
from hpobench_nmt.core.system.folders import remove_folder, replace_folder
from hpobench_nmt.runner.corpora import filled_section
from hpobench_nmt.runner.devices import device_name, library_versions
from hpobench_nmt.runner.disk.kept_model import ABOUT, FORMAT, KEPT, KeptModel
from hpobench_nmt.runner.family import Job, TrainingFailed, TrainingStarved
from hpobench_nmt.runner.ledgers import ledger as ledgers
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.ledgers.ledger_tail import recorded
from hpobench_nmt.runner.settings import Settings
from hpobench_nmt.runner.specs.spec import Spec, describe
from hpobench_nmt.runner.training.processes import Crashed, Killed, Processes
from hpobench_nmt.runner.training.training_process import TrainingResult, train_one
from hpobench_nmt.runner.training.workspace import Workspace, claim

GO_ON = "Run the same command again to resume."
_ASKED_SECONDS = 0.1  # `is_held`, which checks whether a training runs, holds its lock for a moment
_POLL_SECONDS = 1.0  # between checks whether another run has finished a training, or this run must stop
_LEAST_FREE_BYTES = 2**16
_AS_IN_THE_LEDGER = [name for name in KeptModel.__struct_fields__ if name in Record.__struct_fields__]


@dataclass(frozen=True)
class Unfinished:
    """A training without a record.

    Attributes:
        kind: "elsewhere" if another run trains it; "again" if it ran out of memory or was killed, perhaps
            because of other trainings, and should be tried once more, alone; "error" if it ended in an error
            that is not due to its configuration; "paused" if it paused because of Workspace.until.
        reason: for people.
        curve: the curve of a paused training so far.
    """

    kind: Literal["elsewhere", "again", "error", "paused"]
    reason: str = ""
    curve: Sequence[Mapping[str, float]] = ()


def train_and_record(
    workspace: Workspace, row: int, replicate: int, device: str, processes: Processes, wait: bool, last: bool
) -> Record | Unfinished:
    """Train one configuration and append its record, unless the ledger already has it.

    A training that was paused or killed resumes from the last state that it saved.

    Args:
        replicate: 0 for the table's own row.
        wait: if another run is training it, wait for that run.
        last: this is the second try. A training that runs out of memory or is killed again has failed.

    Raises:
        InputError: the spec or the corpus is wrong.
        RunError: the run cannot continue, for instance because the disk is full. If only the model could
            not be kept, the training is recorded nevertheless.
    """
    configuration = workspace.spec.configuration(row)
    key = ledgers.training_key(configuration, replicate)
    folder = workspace.training_folder(configuration, replicate)
    while True:
        if known := recorded(workspace.ledger, key):
            return known
        if processes.stopped:
            raise RunError(f"stopped. {GO_ON}")
        lock = claim(folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            held = lock.acquire(timeout=_POLL_SECONDS if wait else _ASKED_SECONDS)
            break
        except Timeout:
            if not wait:
                return Unfinished("elsewhere")
        except FileNotFoundError:
            continue  # another run has just finished the ledger and removed the folder
        except OSError as error:
            raise not_written(folder.parent, error, GO_ON) from error
    not_kept = ""
    with held:
        known = recorded(workspace.ledger, key)
        if known is None:
            trained = _train(workspace, row, replicate, device, processes, last)
            if isinstance(trained, Unfinished):
                return trained  # its folder is not removed, because the reason may name its log
            known, not_kept = trained
            ledgers.append(workspace.ledger, known)
            remove_folder(workspace.state_folder(configuration, replicate))
        remove_folder(folder)
    if not_kept:
        told = f"is recorded, but its model could not be kept ({not_kept})"
        raise RunError(f"{describe(configuration)}: {told}. {GO_ON}")
    return known


def _train(
    workspace: Workspace, row: int, replicate: int, device: str, processes: Processes, last: bool
) -> tuple[Record, str] | Unfinished:
    """The record, which is not yet in the ledger, and why the model could not be kept, or ""."""
    spec, configuration = workspace.spec, workspace.spec.configuration(row)
    folder = workspace.training_folder(configuration, replicate)
    scratch = folder / "scratch"
    seed = spec.training_seed(configuration, replicate)
    settings = spec.settings(configuration)
    job = Job(
        settings,
        seed,
        spec.corpus,
        spec.base,
        workspace.cache,
        scratch,
        device,
        keep=workspace.keep,
        state=workspace.state_folder(configuration, replicate),
        until=workspace.until,
        corpus_sha256=workspace.provenance.get("sha256", ""),
    )
    started, clock = datetime.now(UTC), time.perf_counter()
    log = workspace.log_folder / f"{folder.name}.log" if spec.family.program else folder / "log"
    result = _attempt(spec, job, processes, log, last)
    if isinstance(result, Unfinished):
        return result
    if result.wrong_input:
        raise InputError(f"{describe(configuration)}: {result.wrong_input}")
    outcome = result.outcome
    if outcome and outcome.paused:
        return Unfinished("paused", curve=outcome.curve)
    record = Record(
        config=configuration,  # type: ignore[arg-type]  # of settings: no None, no tuples
        replicate=replicate,
        seed=seed,
        status="done" if outcome else "failed",
        reason=result.failure,
        metrics=dict(outcome.metrics) if outcome else {},
        curve=tuple(dict(point) for point in outcome.curve) if outcome else (),
        converged=outcome.converged if outcome else True,
        tuned=dict(outcome.tuned) if outcome else {},
        # If the training died, a GPU's model is left out, because its name would open CUDA in this process.
        device=result.device or (device_name(device) if device == "cpu" else device),
        versions=dict(result.versions) or library_versions("cpu"),  # CUDA's versions would also open CUDA
        started=started.isoformat(timespec="seconds"),
        seconds=round(result.seconds or time.perf_counter() - clock, 3),
        nondeterministic=result.nondeterministic,
    )
    if not workspace.keep or not outcome or result.not_kept:
        return record, result.not_kept
    target = workspace.model_folder(configuration, replicate)
    try:
        section = filled_section(spec.corpus)
        keep_model(scratch / KEPT, target, spec.family.name, settings, section, workspace.provenance, record)
    except (OSError, ValueError) as error:
        return record, one_line(error)
    return record, ""


def _attempt(
    spec: Spec, job: Job[Any], processes: Processes, log: Path, last: bool
) -> TrainingResult | Unfinished:
    remove_folder(job.scratch.parent)  # left by a training that was killed
    try:
        job.scratch.mkdir(parents=True)
    except OSError as error:
        raise RunError(f"{job.scratch}: cannot be made: {error.strerror}. {GO_ON}") from error
    try:
        result: TrainingResult
        if spec.family.program:  # of a user, which needs no process of this package
            outcome = spec.family.program(job, log, processes.refuse_stopped)
            result = TrainingResult(outcome, device=job.device)
        else:
            result = processes.run(train_one, spec.family.name, job, log=log, state=job.state)
    except TrainingFailed as error:
        starved = isinstance(error, TrainingStarved)
        result = TrainingResult(failure=str(error), device=job.device, starved=starved)
    except Killed as error:
        if processes.stopped:
            raise RunError(f"stopped. {GO_ON}") from None
        if not last:
            return Unfinished("again", f"it was {error}")
        if error.asked_to_stop:  # by somebody, so the configuration is not to blame
            return Unfinished("error", f"it was {error}, twice.")
        return TrainingResult(failure=f"{error}, 2 times (out of memory?)")
    except Crashed as error:
        _refuse_full_disk(job)
        return Unfinished("error", f"{error} Its output is in {log}.")
    if result.starved and not last:
        return Unfinished("again", result.failure)
    return result


def _refuse_full_disk(job: Job[Any]) -> None:
    """Raise RunError if the disk is full, which libraries report by errors of their own."""
    for folder in (job.scratch, job.cache):
        if shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
            raise RunError(f"{folder}: no space left on the disk. Free some space. {GO_ON}")


def keep_model(
    new: Path,
    target: Path,
    family: str,
    settings: Settings,
    corpus: Mapping[str, Any],
    provenance: Mapping[str, str],
    record: Record,
) -> None:
    """Describe a folder that a family has saved a model in, and move it to its place on the same file system.

    An older model is replaced. `corpus` is the [corpus] section with defaults filled in, and `provenance` is
    that of the corpus. Raises OSError if the disk is full, or the folder cannot be written.
    """
    files = {path.name: file_sha256(path) for path in sorted(new.iterdir())}
    about = KeptModel(
        format=FORMAT,
        family=family,
        configuration=dict(record.config),
        settings=asdict(settings),
        corpus=dict(corpus),
        provenance=dict(provenance),
        files=files,
        **{name: getattr(record, name) for name in _AS_IN_THE_LEDGER},
    )
    text = json.dumps(msgspec.to_builtins(about), indent=1, ensure_ascii=False, allow_nan=False)
    (new / ABOUT).write_text(text + "\n", encoding="utf-8")
    for path in new.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    target.parent.mkdir(exist_ok=True)
    replace_folder(new, target)
