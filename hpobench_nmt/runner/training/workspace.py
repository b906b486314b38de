"""The folder that a spec is trained in: a copy of the spec, the ledger, and scratch folders of trainings."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from hpobench_nmt.core.system.errors import InputError, not_written
from hpobench_nmt.core.system.files import refuse_link
from hpobench_nmt.core.system.folders import remove_folder
from hpobench_nmt.lookup.disk.file_names import LEDGER
from hpobench_nmt.runner.disk.kept_model import MODELS
from hpobench_nmt.runner.disk.locks import file_lock
from hpobench_nmt.runner.ledgers import ledger as ledgers
from hpobench_nmt.runner.ledgers.ledger import Ledger
from hpobench_nmt.runner.ledgers.plan import refuse_misfit
from hpobench_nmt.runner.specs.spec import Configuration, Spec, short_key, write_copy

_CLAIM = ".claim"


@dataclass(frozen=True)
class Workspace:
    """A spec and the folders that its trainings read and write.

    Attributes:
        folder: holds the copy of the spec, the ledger and, in the end, the table.
        cache: holds prepared corpora and models that trainings of all specs share.
        keep: whether the best model of each training is kept.
        until: updates after which a training pauses; None: it runs to its end.
        provenance: the provenance of the corpus, for kept models.
    """

    spec: Spec
    folder: Path
    cache: Path
    keep: bool = False
    until: int | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / LEDGER

    @property
    def work(self) -> Path:
        """The folder of running trainings, with a folder and a lock file for each of them."""
        return self.folder / "work"

    @property
    def log_folder(self) -> Path:
        """The folder of the logs of a user's program, one for each training. They are kept."""
        return self.folder / "logs"

    def model_folder(self, configuration: Configuration, replicate: int) -> Path:
        """The folder of a training's kept model."""
        return self.folder / MODELS / short_key(configuration, replicate)

    def training_folder(self, configuration: Configuration, replicate: int) -> Path:
        """The folder of one training: its log and its scratch folder. Removed once it is recorded."""
        return self.work / short_key(configuration, replicate)

    @property
    def states(self) -> Path:
        """The folder of the states that trainings of this ledger resume from, in the user's own cache.

        It is not beside the ledger, because Sockeye's states are pickles, and a ledger's folder may come from
        somebody else.
        """
        owner = json.dumps([str(self.folder.resolve()), self.spec.identity], sort_keys=True)
        return self.cache / "states" / hashlib.sha256(owner.encode()).hexdigest()[:20]

    def state_folder(self, configuration: Configuration, replicate: int) -> Path:
        """The folder of one training's state. Removed once the training is recorded."""
        return self.states / short_key(configuration, replicate)


def open_workspace(
    spec: Spec, folder: Path, cache: Path, keep: bool = False, until: int | None = None
) -> tuple[Workspace, Ledger]:
    """Prepare the corpus and open the ledger, or start it, with a copy of the spec beside it.

    Models are kept if `keep` or the spec says so. Trainings pause after `until` updates, unless it is None.

    Raises:
        InputError: the ledger in the folder belongs to another spec or to another version of the corpus, or
            the family cannot pause.
        RunError: the folder cannot be written.
    """
    from hpobench_nmt.runner.corpora import load_corpus

    if until is not None and not spec.family.pauses:
        raise InputError(f"trainings of family {spec.family.name!r} cannot be paused.")
    provenance = load_corpus(spec.corpus, spec.base, cache).provenance if spec.corpus else {}
    workspace = Workspace(spec, folder, cache, keep or spec.keep, until, provenance)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (workspace.work, folder / MODELS, workspace.log_folder):
            refuse_link(path)
        ledgers.reserve(folder)
        ledger = ledgers.open_ledger(workspace.ledger, spec.identity, provenance)
        refuse_misfit(workspace.ledger, ledger, spec, corpus=provenance)
        write_copy(spec, folder)
    except OSError as error:
        raise not_written(error.filename or folder, error) from error
    return workspace, ledger


def claim(training_folder: Path) -> FileLock:
    """The lock of the process that trains in this folder. The system releases it when the process ends."""
    return file_lock(refuse_link(claim_path(training_folder)))


def claim_path(training_folder: Path) -> Path:
    """The file of the lock of `claim`."""
    return training_folder.with_name(training_folder.name + _CLAIM)


def clear_workspace(workspace: Workspace) -> None:
    """Remove the folders of trainings that have ended. Unless another run is active, release the reserve."""
    busy = False
    for path in workspace.work.glob(f"*{_CLAIM}"):
        folder = path.with_suffix("")
        try:
            held = claim(folder).acquire(blocking=False)
        except Timeout:
            busy = True
            continue
        with held:
            remove_folder(folder)
            with contextlib.suppress(OSError):  # some systems do not remove a file that is open
                path.unlink()
    if not busy:
        with contextlib.suppress(OSError):  # another run may have just started
            workspace.work.rmdir()
        (workspace.folder / ledgers.RESERVE).unlink(missing_ok=True)
    _clear_states(workspace)
    if not busy:  # otherwise, the other run may be about to make a folder inside
        with contextlib.suppress(OSError):  # not empty if trainings are paused
            workspace.states.rmdir()


def entries(folder: Path) -> tuple[Path, ...]:
    """The content of a folder. It is empty if another run has removed the folder."""
    try:
        return tuple(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _clear_states(workspace: Workspace) -> None:
    """Remove the states of recorded trainings. A run may be killed after it has recorded a training."""
    if not (found := entries(workspace.states)):
        return
    records = ledgers.read_ledger(workspace.ledger).records
    recorded = {short_key(record.config, record.replicate) for record in records}
    for path in found:
        if path.name in recorded:
            remove_folder(path)
