"""Training a language model by truncated back-propagation until it no longer improves on dev."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpobench_nmt.core.arrays import Tokens
from hpobench_nmt.runner.disk.training_log import progress
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.lm.gradient import GraphedGradient, gradient
from hpobench_nmt.runner.lm.language_model import LanguageModel, detach, streams
from hpobench_nmt.runner.lm.optimiser import Optimiser
from hpobench_nmt.runner.lm.scanned_cells import compiled_steps
from hpobench_nmt.runner.lm.schedule import TrainingSchedule, check_interval, draw_length
from hpobench_nmt.runner.lm.static import perplexity, static_nll
from hpobench_nmt.runner.torch_training.loop import Course, TrainingSummary, learn, moved
from hpobench_nmt.runner.torch_training.precision import loss_scaler, rounded_products
from hpobench_nmt.runner.torch_training.training_state import Checkpoints

# In nats per token. The loss of a model that has learned only the frequencies of words is a little below or
# above that of a guess by these frequencies.
_LEAST_GAIN = 0.02


@dataclass
class _Course(Course):
    """The progress of a training. With the model, the optimiser and the generators, it is the whole state.

    The best loss is in nats per token. `position` counts the time steps of the present pass. `stream` has the
    model's state there, one for each batch of an update; None at the start of a pass.
    """

    best: float = math.inf
    position: int = 0
    stream: Any = None


def train(
    model: LanguageModel,
    train_tokens: Tokens,
    dev_tokens: Tokens,
    optimiser: Optimiser,
    schedule: TrainingSchedule,
    generator: torch.Generator,
    checkpoints: Checkpoints | None = None,
) -> TrainingSummary:
    """Train to convergence on dev and keep the best weights (see `learn` of loop.py).

    Args:
        train_tokens, dev_tokens: one stream each.
        generator: on the CPU; draws the lengths of sequences.
        checkpoints: where and when to save the state, and whether to pause; None: neither.

    Raises:
        InputError: the device cannot compute in the schedule's precision.
        TrainingFailed: the training data is too short; the loss is not finite; the result is no better than a
            uniform guess; or the training has converged, and the result is no better than a guess by the
            frequencies of words.
    """
    training = _Training(model, train_tokens, dev_tokens, optimiser, schedule, generator)
    summary = learn(training, checkpoints or Checkpoints())
    if not summary.paused:
        _refuse_guess(training)
    size = sum(p.numel() for p in training.parameters)
    return replace(summary, state_size=state_numbers(optimiser.state_dict()) / size)


def state_numbers(state: Any) -> int:
    """How many numbers the tensors of a state of dicts, lists and tuples have."""
    if isinstance(state, Tensor):
        return state.numel()
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return sum(map(state_numbers, parts))


@dataclass(eq=False)
class _Training:
    """The training of a language model, for loop.py."""

    model: LanguageModel
    train_tokens: Tokens
    dev: Tokens
    optimiser: Optimiser
    schedule: TrainingSchedule
    generator: torch.Generator

    times_checks = False

    def __post_init__(self) -> None:
        schedule = self.schedule
        self.parameters: list[nn.Parameter] = list(self.model.parameters())
        self.device = self.parameters[0].device
        tokens = torch.from_numpy(np.array(self.train_tokens, dtype=np.int64))
        self.data = streams(tokens, schedule.streams).to(self.device)  # shape (T, streams)
        if len(self.data) < (2 * schedule.bptt if schedule.windows else 2):
            raise TrainingFailed(f"the training data is too short for a batch size of {schedule.streams}")
        self.last = len(self.data) - 1  # time steps of a pass
        self.interval = check_interval(len(self.data), schedule)
        self.scaler = loss_scaler(schedule.precision, self.device)
        # The optimiser in the form that the scaler needs.
        self.steps: Any = SimpleNamespace(
            param_groups=[{"params": self.parameters}], step=partial(_step, self.optimiser)
        )
        self.course = _Course()
        self.graph: GraphedGradient | None = None  # made in the first update that uses a graph

    def update(self) -> Tensor:
        """One update with the mean gradient of its batches."""
        schedule, scaler, course = self.schedule, self.scaler, self.course
        if course.stream is None:
            course.stream = (self.model.initial_state(schedule.batch_size),) * schedule.accumulate
            if schedule.windows:
                course.position = int(torch.randint(schedule.bptt, (), generator=self.generator))
        steps = min(draw_length(schedule, self.generator), self.last - course.position)
        piece = self.data[course.position : course.position + steps + 1]
        with compiled_steps(schedule.compile), rounded_products(schedule.precision, self.device):
            given = self.model, piece, course.stream, schedule.precision, scaler
            if schedule.windows and self.device.type == "cuda":
                if self.graph is None:
                    self.graph = GraphedGradient(*given)
                loss = self.graph(piece)
            else:
                loss, after = gradient(*given)
                course.stream = detach(after)
        scaler.unscale_(self.steps)
        if schedule.clip:
            nn.utils.clip_grad_norm_(self.parameters, schedule.clip)
        if not scaler.step(self.steps, steps / schedule.bptt if schedule.vary else 1.0):
            self.optimiser.skipped()
        scaler.update()
        course.position, course.update = course.position + steps, course.update + 1
        if self.last - course.position < (schedule.bptt if schedule.windows else 1):
            course.epoch, course.position, course.stream = course.epoch + 1, 0, None
        return loss

    def check_is_due(self) -> bool:
        """Whether dev is evaluated now: at the schedule's interval, or at the end of each pass."""
        if not self.interval:
            return self.course.position == 0
        return self.course.update % self.interval == 0 or self.is_last()

    def is_last(self) -> bool:
        """Whether all epochs or updates of the schedule have been made."""
        return self.schedule.done(self.course.update, self.course.epoch) >= 1

    def check(self) -> dict[str, float]:
        """Evaluate dev, keep the best weights, and return the point of the curve."""
        course = self.course
        with self.optimiser.evaluated():
            nll = static_nll(self.model, self.dev, min(self.schedule.dev_streams, max(1, len(self.dev) // 2)))
            loss = float(nll.mean())
            if not math.isfinite(loss):
                raise TrainingFailed(f"diverged: the dev loss is {loss} after {course.update} updates")
            if loss < course.best:
                course.best = loss
                course.keep_best(self.parameters)
        course.converged = self.optimiser.checked(loss)
        epochs = course.epoch + course.position / self.last
        return {"update": course.update, "epoch": epochs, "dev_ppl": perplexity(nll)}

    def log_line(self) -> str:
        """The progress, dev perplexity, speed, and the longest time left."""
        return _log_line(self.course.curve[-1], self.last * self.schedule.streams, self.schedule)

    def state(self) -> dict[str, Any]:
        """The generators and the optimiser. Tensors are not copied."""
        return {
            "masks": self.model.generator.get_state(),
            "optimiser": self.optimiser.state_dict(),
            "lengths": self.generator.get_state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from such a state."""
        self.model.generator.set_state(state["masks"])
        self.optimiser.load_state_dict(moved(state["optimiser"], self.device))
        self.generator.set_state(state["lengths"])


def _step(optimiser: Optimiser, scale: float) -> bool:
    """One update; True, which the scaler returns unless it leaves the update out."""
    optimiser.step(scale)
    return True


def _refuse_guess(training: _Training) -> None:
    """Raise TrainingFailed if the best weights are no better than a guess."""
    course, words = training.course, len(training.model.output_bias)
    guess = math.log(words)
    # A training with a budget, or one that was cut off, may have only started to learn.
    if course.converged and not training.schedule.max_updates:
        guess = unigram_loss(training.train_tokens, training.dev, words) - _LEAST_GAIN
    if course.best >= guess:
        ppl, of_guess = math.exp(min(course.best, 700.0)), math.exp(guess)
        raise TrainingFailed(f"learned nothing: dev perplexity {ppl:.4g}; a guess has {of_guess:.4g}")


def unigram_loss(train: Tokens, dev: Tokens, words: int) -> float:
    """Mean loss, in nats per token, of a model that knows only the frequencies of words.

    The frequencies are those of the training data, with 1 added to each count (Laplace).
    """
    counts = np.bincount(train, minlength=words) + 1.0
    return float(-np.log(counts / counts.sum())[dev[1:]].mean())


def _log_line(point: Mapping[str, float], epoch_tokens: int, schedule: TrainingSchedule) -> str:
    """A line of a training's log: its progress, dev perplexity, speed, and the longest time left."""
    update, epochs, spent = int(point["update"]), point["epoch"], max(point["seconds"], 1e-9)
    left = spent * (1 / schedule.done(update, epochs) - 1)
    far = f"update {update}, epoch {epochs:.2f} of at most {schedule.max_epochs}"
    if schedule.max_updates:
        far = f"update {update} of {schedule.max_updates}, epoch {epochs:.2f}"
    return progress(far, point["dev_ppl"], f"{epochs * epoch_tokens / spent:,.0f} tokens/s", left)
