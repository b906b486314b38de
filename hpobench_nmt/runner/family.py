"""The interface of a model family: named settings, metrics, and a function that trains one model."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Value
from hpobench_nmt.core.system.errors import check_known
from hpobench_nmt.runner.disk.kept_model import KeptModel
from hpobench_nmt.runner.settings import Setting, Settings, settings_of

S = TypeVar("S", bound=Settings)
S_contra = TypeVar("S_contra", bound=Settings, contravariant=True)

Unit = Literal["word", "character", "subword"]
"""The tokens of a text."""


class TrainingFailed(Exception):
    """A configuration could not be trained. The ledger keeps the message as the reason."""


class TrainingStarved(TrainingFailed):
    """The training ran out of memory or was killed, perhaps because of another one. It is tried once more."""


# In lower case. Without memory for their workspace, cuBLAS, cuSOLVER and cuDNN fail to start.
_NO_MEMORY = (
    "out of memory",
    "out_of_memory",
    "allocate memory",
    "memoryallocation",
    "alloc_failed",
    "allocation_failed",
    "memoryerror",
    "not enough memory",
    "calling `cublascreate",
    "calling `cusolverdncreate",
    "cudnn_status_not_initialized",
)


STOPPING = {getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")}
"""Signals by which somebody asks a process to end. A system without memory sends SIGKILL instead."""


def tells_of_no_memory(error: str) -> bool:
    """Whether an error's text reports that memory ran out. Some of torch's errors have no special type."""
    return any(text in error.lower() for text in _NO_MEMORY)


@dataclass(frozen=True)
class Job(Generic[S]):
    """One configuration to train.

    Attributes:
        seed: the source of all the training's randomness.
        corpus: the spec's [corpus] section.
        base: the folder that relative paths in the corpus section start from.
        cache: folder shared by all jobs of all specs: prepared corpora, vocabularies.
        scratch: an empty folder for this job alone, removed afterwards.
        device: "cpu", "cuda" or "cuda:1".
        keep: whether the best model is saved, by Outcome.save.
        state: a folder for this training alone. It keeps its state there, to resume after a pause or a kill.
            None: it does not keep a state. The folder is in the user's own cache, because a state may be a
            pickle.
        until: pause at the first checkpoint after this many updates; None: train to the end.
        corpus_sha256: the hash of the ledger's corpus, which the training must find; "": any corpus.
    """

    settings: S
    seed: int
    corpus: Mapping[str, Any]
    base: Path
    cache: Path
    scratch: Path
    device: str
    keep: bool = False
    state: Path | None = None
    until: int | None = None
    corpus_sha256: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of a training.

    Attributes:
        metrics: measured values by name, without metrics that do not apply.
        curve: dev metrics at every checkpoint, each with "update" (the learning curve, a fidelity axis).
        tuned, versions, converged: as in the ledger.
        nondeterministic: as in the ledger, which also has torch's own warnings.
        save: writes the best model, and its output on dev and test, into an empty folder. It is called in the
            training's own process if the model is kept (training/train_row.py). None: the model cannot be
            kept.
        paused: whether the training was paused because of Job.until. It then has a curve but no metrics.
    """

    metrics: Mapping[str, float]
    curve: Sequence[Mapping[str, float]] = ()
    tuned: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    converged: bool = True
    nondeterministic: str = ""
    save: Callable[[Path], None] | None = None
    paused: bool = False


@dataclass(frozen=True)
class Architecture(Generic[S_contra]):
    """How a family's language models are built and trained (lm/fit.py), so that a kept model can be rebuilt.

    Attributes:
        build: makes a model with fresh weights on the generator's device, from the settings, the number of
            tokens in the vocabulary, the unit of tokens, and a torch.Generator. Raises InputError if no model
            has these settings.
        parameters: the model's number of parameters, from the first three arguments, without building it.
        course: the optimiser and the TrainingSchedule (lm/trainer.py), from the settings, the unit, and the
            model.
    """

    build: Callable[[S_contra, int, Unit, Any], Any]
    parameters: Callable[[S_contra, int, Unit], int]
    course: Callable[[S_contra, Unit, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Translator(Generic[S_contra]):
    """How a family's kept translation models are used.

    Attributes:
        read: reads a model, given its folder, its description from there, and its settings. Raises InputError
            if a file is missing, damaged, or not of such a model.
        translate: translates lines with such a model on a device.
    """

    read: Callable[[Path, KeptModel, S_contra], Any]
    translate: Callable[[Any, Sequence[str], str], Translated]


@dataclass(frozen=True)
class Translated:
    """Translations of a text, one line for each of its lines; empty for an empty line.

    `outside` counts the text's subwords that are not in the model's vocabulary. `seconds` is the wall-clock
    time of decoding, without starting a program or loading a model.
    """

    lines: list[str]
    subwords: int
    outside: int
    seconds: float


class Program(Protocol):
    """A user's own program (families/program.py)."""

    def filled(self, configuration: Mapping[str, Value], places: Mapping[str, object]) -> list[str]:
        """The program and its arguments for a configuration."""

    def __call__(self, job: Job[Any], log: Path, refuse_stopped: Callable[[], None]) -> Outcome:
        """Run it for a job, until it has ended or the function, which is called while it runs, raises."""


@dataclass(frozen=True)
class Family(Generic[S]):
    """A model family.

    Attributes:
        name: its name in a spec.
        models, source: the models it trains, and the papers that they come from, for people.
        corpus: the kind of corpus it trains on.
        train: trains and measures one configuration. Raises TrainingFailed if it cannot be trained. It saves
            its state in Job.state, resumes from a state that it finds there, and pauses at Job.until.
        seed: the seed of a training, from its settings and the number of the replicate (0: the table's own
            row), if several trainings share a seed. None: each training has its own.
        check: refuses combinations of settings that can never be trained (InputError).
        corpus_check: the same for combinations that cannot be trained on a given corpus; None: no such check.
        never_measured: why no training measures a metric, by its name, on a corpus with given options, and
            which metric to use instead; "" if trainings can measure it.
        cannot_rank: by a metric's name, the settings that change how it is measured, so that it cannot
            compare trainings with different values of them.
        checkpoint_check: refuses a metric, by its name, that the checkpoints of a training do not have with
            given settings and corpus (InputError). None: no such check.
        missing: the command that installs missing packages, or "" if all are installed.
        architecture: how its kept language models are used.
        translator: how its kept translation models are used.
        pauses: whether a training can be paused after some updates.
        shares_models: whether trainings with one seed share a model, which is trained only once.
        program: a user's own program, which has no corpus and no `train`. None: `train` is called in a
            process of its own.
    """

    name: str
    models: str
    source: str
    corpus: Literal["text", "parallel"]
    settings: type[S]
    metrics: tuple[Metric, ...]
    train: Callable[[Job[S]], Outcome] | None = None
    seed: Callable[[S, int], int] | None = None
    check: Callable[[S], None] = lambda settings: None
    corpus_check: Callable[[S, Any], None] | None = None
    never_measured: Callable[[str, Mapping[str, Any]], str] = lambda metric, corpus: ""
    cannot_rank: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    checkpoint_check: Callable[[S, Any, str], None] | None = None
    missing: Callable[[], str] = lambda: ""
    architecture: Architecture[S] | None = None
    translator: Translator[S] | None = None
    pauses: bool = True
    shares_models: bool = False
    program: Program | None = None

    @property
    def defaults(self) -> dict[str, Value | None]:
        """The default of every setting."""
        return {name: setting.default for name, setting in settings_of(self.settings).items()}

    def setting(self, name: str, where: str) -> Setting:
        """The setting of that name. An error names the nearest setting."""
        known = settings_of(self.settings)
        check_known("setting", [name], known, f"({where}, family {self.name!r})")
        return known[name]
