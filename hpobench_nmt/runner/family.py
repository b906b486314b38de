"""The interface of a model family: named settings, metrics, and a function that trains one model."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from hpobench_nmt.core.errors import unknown
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Value
from hpobench_nmt.runner.disk.kept_model import KeptModel
from hpobench_nmt.runner.settings import Setting, Settings, settings_of

S = TypeVar("S", bound=Settings)
S_contra = TypeVar("S_contra", bound=Settings, contravariant=True)

Unit = Literal["word", "character", "subword"]
"""The tokens of a text."""


class TrainingFailed(Exception):
    """A configuration could not be trained. The ledger keeps the message as the reason."""


class TrainingStarved(TrainingFailed):
    """The training ran out of memory or was killed, perhaps because of another one: it is tried once more."""


# In small letters. Without memory for their work space, cuBLAS, cuSOLVER and cuDNN fail to start.
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
"""Signals by which somebody asks a process to end; the system itself, short of memory, sends SIGKILL."""


def tells_of_no_memory(error: str) -> bool:
    """Whether an error's text says that memory ran out; some of torch's errors have no type of their own."""
    return any(text in error.lower() for text in _NO_MEMORY)


@dataclass(frozen=True)
class Job(Generic[S]):
    """One configuration to train.

    Attributes:
        seed: all of the training's randomness comes from it.
        corpus: the spec's [corpus] section.
        base: the folder that relative paths in the corpus section start from.
        cache: folder shared by all jobs of all specs: prepared corpora, vocabularies.
        scratch: an empty folder of this job's own, removed afterwards.
        device: "cpu", "cuda" or "cuda:1".
        keep: whether the best model is saved, by Outcome.save.
        state: a folder of this training's own in which it keeps its state, to resume after a pause or
            a kill; None: it keeps none. In the user's own cache, because a state may be a pickle.
        until: pause at the first checkpoint after this many updates; None: train to the end.
        corpus_sha256: of the corpus that the ledger is of; "": of any.
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
        metrics: measured values by name; a metric that does not apply is left out.
        curve: dev metrics at every checkpoint, each with "update" (the learning curve, a fidelity axis).
        tuned, versions, converged: as in the ledger.
        nondeterministic: as in the ledger; torch's own warnings are added there.
        save: writes the best model, and what it makes of dev and test, into an empty folder. Called in the
            training's own process, where the model is kept (training/train_row.py). None: it cannot be kept.
        paused: whether the training was paused, as Job.until asks. Then it has a curve and no metrics.
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
    """How a family's language models are made and trained (lm/fit.py), so that a kept one can be made again.

    Attributes:
        build: a model with fresh weights on the generator's device, from the settings, the number of tokens
            in the vocabulary, the unit of tokens, and a torch.Generator. InputError if there is none.
        parameters: the number of its parameters, from the first three, without making it.
        course: the optimiser and the TrainingSchedule (lm/trainer.py), from the settings, the unit, and the
            model's parameters.
    """

    build: Callable[[S_contra, int, Unit, Any], Any]
    parameters: Callable[[S_contra, int, Unit], int]
    course: Callable[[S_contra, Unit, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Translator(Generic[S_contra]):
    """How a family's kept translation models are used.

    Attributes:
        read: a model from its folder, the description there, and its settings. InputError if a file is
            missing, damaged, or not of such a model.
        translate: translations of lines by such a model on a device.
    """

    read: Callable[[Path, KeptModel, S_contra], Any]
    translate: Callable[[Any, Sequence[str], str], Translated]


@dataclass(frozen=True)
class Translated:
    """Translations of a text, a line for each of its lines; empty for an empty line.

    `outside` counts the text's subwords that are not in the model's vocabulary. The seconds are of decoding,
    by the clock, without the start of a program or the loading of a model.
    """

    lines: list[str]
    subwords: int
    outside: int
    seconds: float


@dataclass(frozen=True)
class Family(Generic[S]):
    """A model family.

    Attributes:
        name: in a spec.
        models, source: what it trains, and the papers that it is from, for people.
        corpus: the kind of corpus it trains on.
        train: trains and measures one configuration; raises TrainingFailed for one that cannot be. It saves
            its state in Job.state, resumes from the one that it finds there, and pauses at Job.until.
        seed: of a training, from its settings and the number of the replicate (0: the table's own row),
            where trainings share one; otherwise each has its own.
        check: refuses combinations of settings that can never be trained (InputError).
        corpus_check: the same for combinations that cannot be trained on a corpus; None: there are none.
        missing: the command that installs missing packages, or "" if there are none.
        architecture, translator: how its kept models are used, of language and of translation.
        pauses: whether a training can be paused after some updates.
    """

    name: str
    models: str
    source: str
    corpus: Literal["text", "parallel"]
    settings: type[S]
    metrics: tuple[Metric, ...]
    train: Callable[[Job[S]], Outcome]
    seed: Callable[[S, int], int] | None = None
    check: Callable[[S], None] = lambda settings: None
    corpus_check: Callable[[S, Any], None] | None = None
    missing: Callable[[], str] = lambda: ""
    architecture: Architecture[S] | None = None
    translator: Translator[S] | None = None
    pauses: bool = True

    @property
    def defaults(self) -> dict[str, Value | None]:
        """The default of every setting."""
        return {name: setting.default for name, setting in settings_of(self.settings).items()}

    def setting(self, name: str, where: str) -> Setting:
        """The setting of that name; an error names the nearest one."""
        known = settings_of(self.settings)
        if name not in known:
            raise unknown("setting", name, known, f"({where}, family {self.name!r})")
        return known[name]
