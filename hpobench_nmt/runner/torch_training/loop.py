"""The loop of every training with torch: updates, checks on dev, saved states, and pauses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from hpobench_nmt.runner.disk.training_log import say
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.torch_training.clock import Watch, seconds
from hpobench_nmt.runner.torch_training.repeatable import without_denormals
from hpobench_nmt.runner.torch_training.training_state import Checkpoints, StateFile

_LOOK_UPDATES = 50  # between two looks at the training loss, for which a GPU must finish its work


@dataclass
class Course:
    """The progress of a training. Saved states have the fields by name.

    `epoch` counts complete passes over the training data, and `spent` seconds of training. The best values of
    the parameters are averages if averages were evaluated. A training may end without having converged.
    """

    best_values: list[Tensor] = field(default_factory=list)
    best_update: int = 0
    update: int = 0
    epoch: int = 0
    spent: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    converged: bool = False
    ended: bool = False

    def keep_best(self, parameters: Sequence[Tensor]) -> None:
        """Record that these values of the parameters are the best so far."""
        self.best_values, self.best_update = copies(parameters), self.update

    def paused(self, until: int | None) -> bool:
        """Whether dev was evaluated after at least that many updates, and the training has not ended."""
        return not self.ended and until is not None and bool(self.curve) and self.curve[-1]["update"] >= until


@dataclass(frozen=True)
class TrainingSummary:
    """The course of a training.

    Attributes:
        curve: at each check, the update's number, dev metrics, and seconds spent in training.
        updates: made until the end, including updates of fp16 that were skipped because gradients overflowed.
        best_update: the update that the weights are from.
        seconds: spent in training, by the clock of clock.py.
        converged: whether the training converged, and was not ended by a limit of epochs or updates.
        paused: whether it paused, as asked, before its end. Then the weights are not the best ones.
        state_size: numbers in the optimizer's state for each parameter, where they are counted.
    """

    curve: tuple[dict[str, float], ...]
    updates: int
    best_update: int
    seconds: float
    converged: bool = True
    paused: bool = False
    state_size: float = 0.0


class Training(Protocol):
    """What differs between the trainings of language models and of translation models.

    Together, the model, the scaler, the course and `state` are everything that further updates depend on.
    """

    model: Any
    """The model, whose parameters are trained."""
    scaler: torch.amp.GradScaler
    """The scaler of the loss in 16 bits."""
    times_checks: bool
    """Whether the seconds of training include evaluations of dev."""

    @property
    def parameters(self) -> Sequence[nn.Parameter]:
        """The parameters that are trained, all on one device."""

    @property
    def course(self) -> Course:
        """The progress, which `update` and `check` advance."""

    def update(self) -> Tensor:
        """Make one update. Returns its training loss, a scalar."""

    def check_is_due(self) -> bool:
        """Whether dev is evaluated after the present number of updates."""

    def check(self) -> dict[str, float]:
        """Evaluate dev, keep the best values, and decide whether the training has converged.

        Returns the point of the curve, without its seconds. Raises TrainingFailed if the loss is not finite.
        """

    def is_last(self) -> bool:
        """Whether the present number of updates or epochs is the largest that the settings allow."""

    def log_line(self) -> str:
        """A line that reports the last check."""

    def state(self) -> dict[str, Any]:
        """The rest of the state. Tensors are not copied."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from such a state."""


def learn(training: Training, checkpoints: Checkpoints, leads: bool = True) -> TrainingSummary:
    """Train until the training ends or pauses. If it ends, the model is left with its best values.

    A state that the same training saved is resumed, and the results have the same bits as without the break.
    Each check writes a line to stdout, the log.

    Args:
        checkpoints: where and when to save the state, and whether to pause.
        leads: False for the other processes of a training. They resume from the state, but write no files,
            and do not look for locks or at the loss.

    Raises:
        TrainingFailed: the loss is not finite.
    """
    course = training.course
    _resume(training, StateFile(checkpoints))
    if not leads:
        checkpoints = Checkpoints(until=checkpoints.until)
    file = StateFile(checkpoints)
    if course.curve:
        file.write_curve(course.curve)
    training.model.train()
    with file.listening(), without_denormals():
        _update_and_check(training, checkpoints, file, leads)
    if course.ended:
        put(training.parameters, course.best_values)
    told = course.update, course.best_update, course.spent, course.converged
    return TrainingSummary(tuple(course.curve), *told, paused=not course.ended)


def _update_and_check(training: Training, checkpoints: Checkpoints, file: StateFile, leads: bool) -> None:
    course, device = training.course, training.parameters[0].device
    watch, started = Watch(checkpoints.stands_still_for), seconds(device)

    @contextmanager
    def clock_stopped() -> Iterator[None]:
        nonlocal started
        course.spent += seconds(device) - started
        yield
        started = seconds(device)

    while not course.ended and not course.paused(checkpoints.until):
        if watch.is_disturbing():
            with clock_stopped():
                watch.wait()
        loss = training.update()
        if leads and course.update % _LOOK_UPDATES == 1 and not math.isfinite(value := float(loss)):
            raise TrainingFailed(f"diverged: the training loss is {value} after {course.update} updates")
        check_now = training.check_is_due()
        if check_now and training.times_checks:
            point = training.check()
        if check_now or file.due:
            with clock_stopped():
                if check_now:
                    point = point if training.times_checks else training.check()
                    _report(training, file, point)
                if file.due or course.ended or course.paused(checkpoints.until):
                    file.write(_state(training))


def _report(training: Training, file: StateFile, point: dict[str, float]) -> None:
    """Add a point to the curve, and tell who watches the training of it."""
    course = training.course
    course.curve.append(point | {"seconds": course.spent})
    course.ended = course.converged or training.is_last()
    file.write_curve(course.curve)
    say(training.log_line())


def _state(training: Training) -> dict[str, Any]:
    """The whole state of a training between two updates. Tensors are not copied."""
    course = training.course
    return {
        "course": {each.name: getattr(course, each.name) for each in fields(course)},
        "model": training.model.state_dict(),
        "scaler": training.scaler.state_dict(),
        **training.state(),
    }


def _resume(training: Training, file: StateFile) -> None:
    """Restore everything from the last saved state, if there is one."""
    saved = file.read()
    if saved is None:
        return
    training.model.load_state_dict(saved["model"])
    training.scaler.load_state_dict(saved["scaler"])
    for name, value in moved(saved["course"], training.parameters[0].device).items():
        setattr(training.course, name, value)
    training.load_state(saved)


def moved(value: Any, device: torch.device) -> Any:
    """A value with its tensors on the device, also those in dicts, lists and tuples."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(part, device) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(moved(part, device) for part in value)
    return value


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of tensors, without their gradients."""
    return [each.detach().clone() for each in tensors]


def adam_options(settings: Any, rate: float) -> dict[str, Any]:
    """Arguments of torch's optimizers that are like Adam."""
    return {"lr": rate, "betas": (settings.beta1, settings.beta2), "eps": settings.epsilon}


def matrices_and_vectors(parameters: Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of parameters for an optimizer. Weight decay does not act on vectors."""
    matrices, vectors = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim < 2]
    groups = ((matrices, weight_decay), (vectors, 0.0))
    return [{"params": group, "weight_decay": decay} for group, decay in groups]


@torch.no_grad()
def put(parameters: Sequence[nn.Parameter], values: Sequence[Tensor]) -> None:
    """Replace the values of parameters."""
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)


@contextmanager
def swapped(parameters: Sequence[nn.Parameter], values: Sequence[Tensor]) -> Iterator[None]:
    """Inside, the parameters hold other values; afterwards they hold their own again."""
    own = [p.data for p in parameters]
    for p, value in zip(parameters, values, strict=True):
        p.data = value
    try:
        yield
    finally:
        for p, value in zip(parameters, own, strict=True):
            p.data = value
