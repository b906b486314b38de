"""Training a Transformer for translation until it no longer improves on dev, as Sockeye's training does.

Checkpoints evaluate dev: its perplexity, with the loss of training, and BLEU of the sentences that the
settings ask for. They evaluate the weights, their moving average, or the mean of the weights of the last
checkpoints. The best of the evaluated weights are kept. When dev stops improving, the rate is lowered
("plateau-reduce") and the training returns to its best checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.runner.disk.training_log import progress
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.nmt.learning_rate import has_converged, learning_rate
from hpobench_nmt.runner.nmt.marian_batches import batch_of, batches
from hpobench_nmt.runner.nmt.marian_corpus import EncodedCorpus
from hpobench_nmt.runner.nmt.marian_decoding import translate_lines
from hpobench_nmt.runner.nmt.marian_gradient import Gradients
from hpobench_nmt.runner.nmt.marian_model import loss, trained
from hpobench_nmt.runner.nmt.marian_numbers import Pairs, decode
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.nmt.marian_workers import Workers
from hpobench_nmt.runner.nmt.text_scores import bleu
from hpobench_nmt.runner.torch_training.loop import (
    Course,
    TrainingSummary,
    adam_options,
    copies,
    learn,
    matrices_and_vectors,
    put,
    swapped,
)
from hpobench_nmt.runner.torch_training.precision import loss_scaler
from hpobench_nmt.runner.torch_training.training_state import Checkpoints

_DIVERGED = 2  # times the perplexity of a uniform guess
_DEV_PAIRS = 32


@dataclass
class _Course(Course):
    """The progress of a training. With the model, Adam and torch's random state, it is the whole state.

    `batch` counts the batches that were read in the present pass. `best` has the best score so far after each
    checkpoint. `last` has the weights of the checkpoints to average. `moving` has the moving average. `back`
    has the weights, their averages and Adam's state to which the training returns when the rate is lowered.
    """

    best: list[float] = field(default_factory=list)
    batch: int = 0
    not_improved: int = 0
    lowered: float = 1.0
    moving: list[Tensor] = field(default_factory=list)
    last: list[list[Tensor]] = field(default_factory=list)
    back: dict[str, Any] = field(default_factory=dict)


def train(
    model: Any,
    corpus: EncodedCorpus,
    settings: MarianSettings,
    seed: int,
    checkpoints: Checkpoints | None = None,
    workers: Workers | None = None,
) -> TrainingSummary:
    """Train to convergence, or to the last update, and leave the model with its best weights.

    Dropout draws from torch's global generator, which the caller seeds. See also `learn` of loop.py.

    Args:
        seed: of the order of the sentence pairs.
        checkpoints: where and when to save the state, and whether to pause; None: neither.
        workers: the processes that share the batches of this training; None: this process alone. Only the
            first writes files and pauses for measurements. The others wait for it.

    Raises:
        TrainingFailed: the loss is not finite, or dev perplexity is over twice that of a uniform guess.
    """
    workers = workers or Workers()
    training = _Training(model, corpus, settings, seed, workers)
    summary = learn(training, checkpoints or Checkpoints(), leads=workers.number == 0)
    model.eval()
    return summary


def last_checkpoints(
    model: Any, corpus: EncodedCorpus, settings: MarianSettings, seed: int, checkpoints: Checkpoints
) -> tuple[TrainingSummary, list[list[Tensor]]]:
    """Train as `train` does, and return the weights of the last checkpoints, settings.average at most."""
    training = _Training(model, corpus, settings, seed, Workers())
    return learn(training, checkpoints), training.course.last


class _Training:
    """The training of a translation model, for loop.py."""

    times_checks = True  # as in Sockeye's training

    def __init__(
        self, model: Any, corpus: EncodedCorpus, settings: MarianSettings, seed: int, workers: Workers
    ) -> None:
        self.model, self.corpus, self.settings = model, corpus, settings
        self.seed, self.workers = seed, workers
        self.parameters = trained(model)
        self.device = self.parameters[0].device
        groups = matrices_and_vectors(self.parameters, settings.weight_decay)
        self.adam = torch.optim.AdamW(groups, **adam_options(settings, settings.learning_rate), fused=True)
        self.scaler = loss_scaler(settings.precision, self.device)
        self.gradients = Gradients(model, corpus.train, settings, self.scaler)
        self.course = _Course(moving=copies(self.parameters) if settings.ema else [])
        self.order: dict[int, list[Ints]] = {}  # the batches of the present epoch

    def update(self) -> Tensor:
        """One update with the gradient of the mean loss of all words in its batches."""
        settings, course = self.settings, self.course
        course.update += 1
        for group in self.adam.param_groups:
            group["lr"] = learning_rate(settings, course.update, course.lowered)
        found = [self._next() for _ in range(settings.update_interval * self.workers.count)]
        words = sum(map(self.corpus.train.words, found))
        self.workers.begin_update(self.seed, course.update)
        self.gradients.clear()
        total = torch.zeros((), device=self.device)
        for chosen in self.workers.own(found):
            total += self.gradients.add(chosen, words)
        self.workers.add_up([total, *(p.grad for p in self.parameters if p.grad is not None)])
        if settings.clip:
            self.scaler.unscale_(self.adam)
            nn.utils.clip_grad_norm_(self.parameters, settings.clip)
        self.scaler.step(self.adam)
        self.scaler.update()
        if settings.ema:
            with torch.no_grad():
                torch._foreach_lerp_(course.moving, list[Tensor](self.parameters), 1 - settings.ema)
        return total

    def _next(self) -> Ints:
        """The numbers of the pairs of the next batch."""
        course = self.course
        if course.epoch not in self.order:
            words, corpus = self.settings.batch_size, self.corpus
            self.order = {course.epoch: batches(corpus.train, words, self.seed, course.epoch, corpus.short)}
        order = self.order[course.epoch]
        chosen = order[course.batch]
        course.batch += 1
        if course.batch == len(order):
            course.epoch, course.batch = course.epoch + 1, 0
        return chosen

    def check_is_due(self) -> bool:
        """Whether this update is a checkpoint."""
        return self.course.update % self.settings.checkpoint_interval == 0 or self.is_last()

    def is_last(self) -> bool:
        """Whether all updates of the settings have been made."""
        return self.course.update == self.settings.max_updates

    def check(self) -> dict[str, float]:
        """Evaluate dev, keep the best weights, and lower the rate if they stop improving."""
        course = self.course
        with self._evaluated():
            point, score = self.workers.of_first(self._measured)
            improved = not course.best or score > course.best[-1]
            course.best.append(score if improved else course.best[-1])
            if improved:
                course.keep_best(self.parameters)
        course.converged = has_converged(self.settings, course.best)
        self._lower(improved)
        return point

    def _measured(self) -> tuple[dict[str, float], float]:
        """The curve's point of these weights, and the score by which weights are chosen: more is better."""
        settings, update = self.settings, self.course.update
        perplexity = _perplexity(self.model, self.corpus.dev, settings.label_smoothing, self.device)
        if not perplexity <= _DIVERGED * self.model.config.vocab_size:
            raise TrainingFailed(f"diverged: dev perplexity {perplexity:.6g} after {update} updates.")
        point, score = {"update": update, "dev_ppl": perplexity}, -perplexity
        if settings.checkpoint_sentences:
            name, sources, references = self.corpus.sample(settings.checkpoint_sentences)
            found = translate_lines(self.model, self.corpus.source, self.corpus.target, sources, settings)
            point[name] = bleu(found, references, settings.bleu_tokenizer)
            score = point[name] if settings.stop_on == "bleu" else score
        return point, score

    def _lower(self, improved: bool) -> None:
        """Lower the rate after checkpoints without improvement, and return to the best checkpoint."""
        settings, course = self.settings, self.course
        if settings.learning_rate_scheduler != "plateau-reduce" or settings.reduce_factor == 1:
            return
        if improved:
            course.not_improved = 0
            adam = _copied(self.adam.state_dict()["state"])
            averages = {"moving": copies(course.moving), "last": course.last}
            course.back = {"values": copies(self.parameters), "adam": adam, **averages}
            return
        course.not_improved += 1
        if course.not_improved >= settings.reduce_after and course.update >= settings.warmup:
            course.lowered *= settings.reduce_factor
            course.not_improved = 0
            put(self.parameters, course.back["values"])
            course.moving, course.last = copies(course.back["moving"]), course.back["last"]
            self.adam.load_state_dict({**self.adam.state_dict(), "state": _copied(course.back["adam"])})

    @contextmanager
    def _evaluated(self) -> Iterator[None]:
        """Inside, the parameters have the values to evaluate."""
        settings, course = self.settings, self.course
        values: Sequence[Tensor] = []
        if settings.ema:
            values = course.moving
        elif settings.average > 1:
            course.last = [*course.last, copies(self.parameters)][-settings.average :]
            values = [torch.stack(several).mean(0) for several in zip(*course.last, strict=True)]
        self.model.eval()
        with swapped(self.parameters, values) if values else nullcontext():
            yield
        self.model.train()

    def log_line(self) -> str:
        """The progress, dev perplexity, speed, and the longest time left."""
        course, most = self.course, self.settings.max_updates
        speed = course.update / max(course.spent, 1e-9)
        position = f"update {course.update} of at most {most}, epoch {course.epoch}"
        left = (most - course.update) / speed
        return progress(position, course.curve[-1]["dev_ppl"], f"{speed:.1f} updates/s", left)

    def state(self) -> dict[str, Any]:
        """Adam and torch's random state. Tensors are not copied."""
        state = {"adam": self.adam.state_dict(), "random": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from such a state."""
        self.adam.load_state_dict(state["adam"])
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"], self.device)


def _perplexity(model: Any, pairs: Pairs, smoothing: float, device: torch.device) -> float:
    """The perplexity of the target's subwords, with the label smoothing of training."""
    total, words = _loss_of(model, pairs, smoothing, device), int(pairs.target.lengths.sum())
    return float(np.exp(min(total / words, 700.0))) if math.isfinite(total) else math.nan


def bits_per_character(model: Any, corpus: EncodedCorpus) -> float:
    """Bits per character of dev's target lines and their ends, without label smoothing.

    So it can compare models with other subwords, and trainings with other label smoothing. Of lines that are
    cut to the length that the model reads, the rest does not count.
    """
    lines, device = corpus.dev.target, next(model.parameters()).device
    characters = sum(len(decode(corpus.target, lines[k].tolist())) + 1 for k in range(len(lines)))
    return _loss_of(model, corpus.dev, 0.0, device) / math.log(2.0) / characters


@torch.no_grad()
def _loss_of(model: Any, pairs: Pairs, smoothing: float, device: torch.device) -> float:
    """The sum of the losses of all subwords of the target, in nats."""
    order = np.argsort(pairs.target.lengths, kind="stable")
    parts = [order[start : start + _DEV_PAIRS] for start in range(0, len(order), _DEV_PAIRS)]
    return sum(float(loss(model, batch_of(pairs, part, device), smoothing)) for part in parts)


def _copied(value: Any) -> Any:
    """A dict with copies of its tensors, also of those in nested dicts."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return value.clone() if isinstance(value, Tensor) else value
