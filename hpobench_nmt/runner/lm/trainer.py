"""Training a language model by truncated back-propagation until it no longer improves on dev."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from hpobench_nmt.core.arrays import Tokens
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.lm.clock import Watch, seconds
from hpobench_nmt.runner.lm.gradient import GraphedGradient, gradient
from hpobench_nmt.runner.lm.language_model import detach, streams
from hpobench_nmt.runner.lm.precision import loss_scaler, rounded_products
from hpobench_nmt.runner.lm.scanned_cells import compiled_steps
from hpobench_nmt.runner.lm.schedule import TrainingSchedule, check_interval, draw_length
from hpobench_nmt.runner.lm.static import perplexity, static_nll
from hpobench_nmt.runner.lm.training_state import Checkpoints, StateFile

# In nats per token. The loss of a model that has learned only the frequencies of words is a little below or
# above that of a guess by these frequencies.
_LEAST_GAIN = 0.02


class Optimiser(Protocol):
    """Updates parameters, and decides which of their values to evaluate and when training has converged."""

    def step(self, scale: float) -> None:
        """One update with the parameters' gradients and `scale` times the learning rate."""

    def skipped(self) -> None:
        """An update was left out, because its gradients overflowed in 16 bits."""

    def evaluated(self) -> AbstractContextManager[None]:
        """Inside, the parameters have the values to evaluate, such as averages."""

    def checked(self, dev_loss: float) -> bool:
        """Record the dev loss (nats per token). Returns whether training has converged."""

    def state_dict(self) -> dict[str, Any]:
        """All that further steps depend on, except the parameters: numbers, tensors, lists and dicts."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from such a state."""


@dataclass(frozen=True)
class TrainingSummary:
    """The course of a training. The model is left with the weights of the best dev loss.

    Attributes:
        curve: at each check, the update's number, epochs passed, dev_ppl, and seconds spent in training.
        updates: made until the end, including updates of fp16 that were skipped because gradients overflowed.
        best_update: the update that the weights are from.
        seconds: spent in training, by the clock of clock.py, without dev evaluations.
        converged: whether the optimiser ended it, not a limit of epochs or updates.
        paused: whether it paused, as asked, before its end. Then the weights are not the best ones.
    """

    curve: tuple[dict[str, float], ...]
    updates: int
    best_update: int
    seconds: float
    converged: bool = True
    paused: bool = False


@dataclass
class _Course:
    """The progress of a training. With the model, the optimiser and the generators, it is the whole state.

    The best values of the parameters are averages if averages were evaluated. The best loss is in nats per
    token. `epoch` counts complete passes, and `position` the time steps of the present pass. `stream` has the
    model's state there, one for each batch of an update; None at the start of a pass. `spent` is in seconds
    of training. A training may end without having converged.
    """

    best_values: list[Tensor]
    best: float = math.inf
    best_update: int = 0
    update: int = 0
    epoch: int = 0
    position: int = 0
    stream: Any = None
    spent: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    converged: bool = False
    ended: bool = False

    def paused(self, until: int | None) -> bool:
        """Whether dev was evaluated after at least that many updates, and the training has not ended."""
        return not self.ended and until is not None and bool(self.curve) and self.curve[-1]["update"] >= until


def train(
    model: nn.Module,
    train_tokens: Tokens,
    dev_tokens: Tokens,
    optimiser: Optimiser,
    schedule: TrainingSchedule,
    generator: torch.Generator,
    checkpoints: Checkpoints | None = None,
) -> TrainingSummary:
    """Train to convergence on dev and keep the best weights. Each check writes a line to stdout, the log.

    A state that the same training saved is resumed, and the results have the same bits as without the break.

    Args:
        model: a LanguageModel, with its random generator as an attribute.
        train_tokens, dev_tokens: one stream each.
        generator: on the CPU; draws the lengths of sequences.
        checkpoints: where and when to save the state, and whether to pause; None: neither.

    Raises:
        InputError: the device cannot compute in the schedule's precision.
        TrainingFailed: the training data is too short; the loss is not finite; the result is no better than a
            uniform guess; or the training has converged, and the result is no better than a guess by the
            frequencies of words.
    """
    checkpoints = checkpoints or Checkpoints()
    parameters = list(model.parameters())
    device = parameters[0].device
    data = streams(torch.from_numpy(np.array(train_tokens, dtype=np.int64)), schedule.streams).to(device)
    if len(data) < (2 * schedule.bptt if schedule.windows else 2):
        raise TrainingFailed(f"the training data is too short for a batch size of {schedule.streams}")
    run = _Run(
        model,
        parameters,
        device,
        data,
        dev_tokens,
        optimiser,
        schedule,
        generator,
        loss_scaler(schedule.precision, device),
        SimpleNamespace(param_groups=[{"params": parameters}], step=partial(_step, optimiser)),
        checkpoints,
        StateFile(checkpoints),
    )
    course = _begun(run)
    model.train()
    with run.file.listening():
        _learn(run, course)
    if course.ended:
        with torch.no_grad():
            for p, best_value in zip(parameters, course.best_values, strict=True):
                p.copy_(best_value)
        _refuse_guess(run, course, train_tokens)
    return TrainingSummary(
        tuple(course.curve),
        course.update,
        course.best_update,
        course.spent,
        course.converged,
        paused=not course.ended,
    )


@dataclass(eq=False)
class _Run:
    """The arguments of `train`, and values that are computed from them once.

    The data has parallel streams, shape (T, streams). `steps_of` is the optimiser in the form that the scaler
    needs. `graph` is made in the first update that uses a graph.
    """

    model: Any
    parameters: list[nn.Parameter]
    device: torch.device
    data: Tensor
    dev: Tokens
    optimiser: Optimiser
    schedule: TrainingSchedule
    generator: torch.Generator
    scaler: torch.amp.GradScaler
    steps_of: Any
    checkpoints: Checkpoints
    file: StateFile
    graph: GraphedGradient | None = None

    @property
    def last(self) -> int:
        """Time steps of a pass."""
        return len(self.data) - 1


def _begun(run: _Run) -> _Course:
    """The progress of the training: none, or that of the last saved state."""
    saved = run.file.read()
    if saved is None:
        return _Course([p.detach().clone() for p in run.parameters])
    course = _restored(run, saved)
    run.file.write_curve(course.curve)
    return course


def _learn(run: _Run, course: _Course) -> None:
    """Make updates, with checks between them, until the training ends or pauses."""
    until, watch = run.checkpoints.until, Watch(run.checkpoints.stands_still_for)
    every = check_interval(len(run.data), run.schedule)
    started = seconds(run.device)
    while not course.ended and not course.paused(until):
        if watch.is_disturbing():
            course.spent += seconds(run.device) - started
            watch.wait()
            started = seconds(run.device)
        _update(run, course)
        final = run.schedule.done(course.update, course.epoch) >= 1
        check_now = (course.update % every == 0 or final) if every else course.position == 0
        if check_now or run.file.due:
            course.spent += seconds(run.device) - started
            if check_now:
                _check(run, course)
            course.ended = course.converged or final
            if run.file.due or course.ended or course.paused(until):
                run.file.write(_state(run, course))
            started = seconds(run.device)


def _update(run: _Run, course: _Course) -> None:
    """One update with the mean gradient of its batches."""
    schedule, scaler = run.schedule, run.scaler
    if course.stream is None:
        course.stream = (run.model.initial_state(schedule.batch_size),) * schedule.accumulate
        if schedule.windows:
            course.position = int(torch.randint(schedule.bptt, (), generator=run.generator))
    steps = min(draw_length(schedule, run.generator), run.last - course.position)
    piece = run.data[course.position : course.position + steps + 1]
    stream = detach(course.stream)
    with compiled_steps(schedule.compile), rounded_products(schedule.precision, run.device):
        given = run.model, piece, stream, schedule.precision, scaler
        if schedule.windows and run.device.type == "cuda":
            if run.graph is None:
                run.graph = GraphedGradient(*given)
            loss = run.graph(piece)
        else:
            loss, course.stream = gradient(*given)
    if course.update % 50 == 0 and not math.isfinite(value := float(loss)):
        raise TrainingFailed(f"diverged: the training loss is {value} after {course.update} updates")
    scaler.unscale_(run.steps_of)
    if schedule.clip:
        nn.utils.clip_grad_norm_(run.parameters, schedule.clip)
    if not scaler.step(run.steps_of, steps / schedule.bptt if schedule.vary else 1.0):
        run.optimiser.skipped()
    scaler.update()
    course.position, course.update = course.position + steps, course.update + 1
    if run.last - course.position < (schedule.bptt if schedule.windows else 1):
        course.epoch, course.position, course.stream = course.epoch + 1, 0, None


def _step(optimiser: Optimiser, scale: float) -> bool:
    """One update; True, which the scaler returns unless it leaves the update out."""
    optimiser.step(scale)
    return True


def _check(run: _Run, course: _Course) -> None:
    """Evaluate dev, keep the best weights, and report the progress."""
    with run.optimiser.evaluated():
        nll = static_nll(run.model, run.dev, min(run.schedule.dev_streams, max(1, len(run.dev) // 2)))
        loss = float(nll.mean())
        if not math.isfinite(loss):
            raise TrainingFailed(f"diverged: the dev loss is {loss} after {course.update} updates")
        if loss < course.best:
            course.best, course.best_update = loss, course.update
            course.best_values = [p.detach().clone() for p in run.parameters]
    point = {
        "update": course.update,
        "epoch": course.epoch + course.position / run.last,
        "dev_ppl": perplexity(nll),
        "seconds": course.spent,
    }
    if run.schedule.windows:
        point["tokens"] = course.update * run.schedule.streams * run.schedule.bptt
    course.curve.append(point)
    run.file.write_curve(course.curve)
    sys.stdout.write(_log_line(point, run.last * run.schedule.streams, run.schedule))
    sys.stdout.flush()  # the process's log can be followed while it trains
    course.converged = run.optimiser.checked(loss)


def _refuse_guess(run: _Run, course: _Course, train_tokens: Tokens) -> None:
    """Raise TrainingFailed if the best weights are no better than a guess."""
    words = len(run.model.output_bias)
    guess = math.log(words)
    # A training with a budget, or one that was cut off, may have only started to learn.
    if course.converged and not run.schedule.max_updates:
        guess = unigram_loss(train_tokens, run.dev, words) - _LEAST_GAIN
    if course.best >= guess:
        ppl, of_guess = math.exp(min(course.best, 700.0)), math.exp(guess)
        raise TrainingFailed(f"learned nothing: dev perplexity {ppl:.4g}; a guess has {of_guess:.4g}")


def unigram_loss(train: Tokens, dev: Tokens, words: int) -> float:
    """Mean loss, in nats per token, of a model that knows only the frequencies of words.

    The frequencies are those of the training data, with 1 added to each count (Laplace).
    """
    counts = np.bincount(train, minlength=words) + 1.0
    return float(-np.log(counts / counts.sum())[dev[1:]].mean())


def _state(run: _Run, course: _Course) -> dict[str, Any]:
    """The whole state of a training between two updates. Tensors are not copied."""
    stream = None if course.stream is None else detach(course.stream)
    return {
        "course": {f.name: getattr(course, f.name) for f in fields(course)} | {"stream": stream},
        "model": run.model.state_dict(),
        "masks": run.model.generator.get_state(),
        "optimiser": run.optimiser.state_dict(),
        "scaler": run.scaler.state_dict(),
        "lengths": run.generator.get_state(),
    }


def _restored(run: _Run, saved: dict[str, Any]) -> _Course:
    """Restore everything from a saved state, and return the progress of the training."""
    run.model.load_state_dict(saved["model"])
    run.model.generator.set_state(saved["masks"])
    run.optimiser.load_state_dict(_moved(saved["optimiser"], run.device))
    run.scaler.load_state_dict(saved["scaler"])
    run.generator.set_state(saved["lengths"])
    return _Course(**_moved(saved["course"], run.device))


def _moved(value: Any, device: torch.device) -> Any:
    """A value with its tensors on the device, also those in dicts, lists and tuples."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(part, device) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(part, device) for part in value)
    return value


def _log_line(point: Mapping[str, float], epoch_tokens: int, schedule: TrainingSchedule) -> str:
    """A line of a training's log: its progress, dev perplexity, speed, and the longest time left."""
    update, epochs, spent = int(point["update"]), point["epoch"], max(point["seconds"], 1e-9)
    left = spent * (1 / schedule.done(update, epochs) - 1)
    far = f"update {update}, epoch {epochs:.2f} of at most {schedule.max_epochs}"
    if schedule.max_updates:
        far = f"update {update} of {schedule.max_updates}, epoch {epochs:.2f}"
    return (
        f"{far}: dev perplexity {point['dev_ppl']:.2f}, {epochs * epoch_tokens / spent:,.0f} tokens/s, "
        f"at most {left:.0f} s of training left\n"
    )
