"""Training a Transformer for translation until it no longer improves on dev, as Sockeye's training does.

Checkpoints evaluate dev: its perplexity, with the loss of training, and BLEU of the sentences that the
settings ask for. They evaluate the weights, their moving average, or the mean of the weights of the last
checkpoints. The best of the evaluated weights are kept. When dev stops improving, the rate is lowered
("plateau-reduce") and the training returns to its best checkpoint.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.lm.clock import Watch, seconds
from hpobench_nmt.runner.lm.precision import loss_scaler
from hpobench_nmt.runner.lm.trainer import TrainingSummary
from hpobench_nmt.runner.lm.training_state import Checkpoints, StateFile
from hpobench_nmt.runner.nmt.learning_rate import has_converged, learning_rate
from hpobench_nmt.runner.nmt.marian_batches import batch_of, batches
from hpobench_nmt.runner.nmt.marian_corpus import EncodedCorpus
from hpobench_nmt.runner.nmt.marian_decoding import translate_lines
from hpobench_nmt.runner.nmt.marian_gradient import Gradients
from hpobench_nmt.runner.nmt.marian_model import loss, trained
from hpobench_nmt.runner.nmt.marian_numbers import Pairs
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.nmt.marian_workers import Workers
from hpobench_nmt.runner.nmt.text_scores import bleu

_DIVERGED = 2  # times the perplexity of a uniform guess
_DEV_PAIRS = 32


@dataclass
class _Course:
    """The progress of a training. With the model, Adam and torch's random state, it is the whole state.

    `epoch` counts complete passes, and `batch` the batches that were read in the present pass. `best` has the
    best score so far after each checkpoint. `last` has the weights of the checkpoints to average. `moving`
    has the moving average. `back` has the weights, their averages and Adam's state to which the training
    returns when the rate is lowered.
    """

    best: list[float] = field(default_factory=list)
    best_values: list[Tensor] = field(default_factory=list)
    best_update: int = 0
    update: int = 0
    epoch: int = 0
    batch: int = 0
    spent: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    not_improved: int = 0
    lowered: float = 1.0
    moving: list[Tensor] = field(default_factory=list)
    last: list[list[Tensor]] = field(default_factory=list)
    back: dict[str, Any] = field(default_factory=dict)
    converged: bool = False
    ended: bool = False

    def paused(self, until: int | None) -> bool:
        """Whether there was a checkpoint after at least that many updates, and the training has not ended."""
        return not self.ended and until is not None and bool(self.curve) and self.curve[-1]["update"] >= until


@dataclass(frozen=True, eq=False)
class _Run:
    model: Any
    parameters: list[nn.Parameter]
    corpus: EncodedCorpus
    settings: MarianSettings
    seed: int
    device: torch.device
    adam: torch.optim.Optimizer
    gradients: Gradients
    scaler: torch.amp.GradScaler
    checkpoints: Checkpoints
    file: StateFile
    workers: Workers
    order: dict[int, list[Any]]


def train(
    model: Any,
    corpus: EncodedCorpus,
    settings: MarianSettings,
    seed: int,
    checkpoints: Checkpoints | None = None,
    workers: Workers | None = None,
) -> TrainingSummary:
    """Train to convergence, or to the last update, and leave the model with its best weights.

    Dropout draws from torch's global generator, which the caller seeds. A state that the same training saved
    is resumed, and the results have the same bits as without the break.

    Args:
        seed: of the order of the sentence pairs.
        checkpoints: where and when to save the state, and whether to pause; None: neither.
        workers: the processes that share the batches of this training; None: this process alone.

    Raises:
        TrainingFailed: the loss is not finite, or dev perplexity is over twice that of a uniform guess.
    """
    checkpoints, workers = checkpoints or Checkpoints(), workers or Workers()
    saved = StateFile(checkpoints).read()
    if workers.number:  # only the first writes files and pauses for measurements; the others wait for it
        checkpoints = Checkpoints(until=checkpoints.until)
    parameters = trained(model)
    device = parameters[0].device
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = settings.beta1, settings.beta2
    adam = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, eps=settings.epsilon, fused=True)
    scaler, file = loss_scaler(settings.precision, device), StateFile(checkpoints)
    given = model, parameters, corpus.train, settings.label_smoothing, settings.precision, scaler
    run = _Run(
        model,
        parameters,
        corpus,
        settings,
        seed,
        device,
        adam,
        Gradients(*given),
        scaler,
        checkpoints,
        file,
        workers,
        {},
    )
    course = _begun(run, saved)
    model.train()
    with run.file.listening():
        _learn(run, course)
    if course.ended:
        _put(parameters, course.best_values)
    model.eval()
    return TrainingSummary(
        tuple(course.curve),
        course.update,
        course.best_update,
        course.spent,
        course.converged,
        paused=not course.ended,
    )


def _begun(run: _Run, saved: dict[str, Any] | None) -> _Course:
    """The progress of the training: none, or that of the last saved state."""
    if saved is None:
        return _Course(moving=_copies(run.parameters) if run.settings.ema else [])
    run.model.load_state_dict(saved["model"])
    run.adam.load_state_dict(saved["adam"])
    run.scaler.load_state_dict(saved["scaler"])
    torch.set_rng_state(saved["random"])
    if run.device.type == "cuda":
        torch.cuda.set_rng_state(saved["random_cuda"], run.device)
    course = _Course(**saved["course"])
    for name in ("best_values", "moving"):
        setattr(course, name, [value.to(run.device) for value in getattr(course, name)])
    course.last = [[value.to(run.device) for value in values] for values in course.last]
    run.file.write_curve(course.curve)
    return course


def _state(run: _Run, course: _Course) -> dict[str, Any]:
    """The whole state of a training between two updates. Tensors are not copied."""
    state = {
        "course": {each.name: getattr(course, each.name) for each in fields(course)},
        "model": run.model.state_dict(),
        "adam": run.adam.state_dict(),
        "scaler": run.scaler.state_dict(),
        "random": torch.get_rng_state(),
    }
    if run.device.type == "cuda":
        state["random_cuda"] = torch.cuda.get_rng_state(run.device)
    return state


def _learn(run: _Run, course: _Course) -> None:
    """Make updates, with checkpoints between them, until the training ends or pauses."""
    until, watch = run.checkpoints.until, Watch(run.checkpoints.stands_still_for)
    interval, most = run.settings.checkpoint_interval, run.settings.max_updates
    started = seconds(run.device)
    while not course.ended and not course.paused(until):
        if watch.is_disturbing():
            course.spent += seconds(run.device) - started
            watch.wait()
            started = seconds(run.device)
        _update(run, course)
        check_now = course.update % interval == 0 or course.update == most
        if check_now:
            _check(run, course)
            course.ended = course.converged or course.update == most
        if check_now or run.file.due:
            course.spent += seconds(run.device) - started
            if check_now:
                course.curve[-1]["seconds"] = course.spent
                _tell(run, course)
            if run.file.due or course.ended or course.paused(until):
                run.file.write(_state(run, course))
            started = seconds(run.device)


def _update(run: _Run, course: _Course) -> None:
    """One update with the gradient of the mean loss of all words in its batches."""
    settings, course.update = run.settings, course.update + 1
    for group in run.adam.param_groups:
        group["lr"] = learning_rate(settings, course.update, course.lowered)
    found = [_next(run, course) for _ in range(settings.update_interval * run.workers.count)]
    words = sum(map(run.corpus.train.words, found))
    run.workers.begin_update(run.seed, course.update)
    run.gradients.clear()
    total = torch.zeros((), device=run.device)
    for chosen in run.workers.own(found):
        total += run.gradients.add(chosen, words)
    run.workers.add_up([total, *(p.grad for p in run.parameters if p.grad is not None)])
    look = course.update % 50 == 1 and run.workers.number == 0  # if the first worker ends, all end
    if look and not math.isfinite(value := float(total)):
        raise TrainingFailed(f"diverged: the training loss is {value} after {course.update} updates")
    if settings.clip:
        run.scaler.unscale_(run.adam)
        nn.utils.clip_grad_norm_(run.parameters, settings.clip)
    run.scaler.step(run.adam)
    run.scaler.update()
    if settings.ema:
        now: list[Tensor] = [*run.parameters]
        with torch.no_grad():
            torch._foreach_lerp_(course.moving, now, 1 - settings.ema)


def _next(run: _Run, course: _Course) -> Ints:
    """The numbers of the pairs of the next batch."""
    if course.epoch not in run.order:
        run.order.clear()
        run.order[course.epoch] = batches(
            run.corpus.train, run.settings.batch_size, run.seed, course.epoch, run.corpus.short
        )
    order = run.order[course.epoch]
    chosen: Ints = order[course.batch]
    course.batch += 1
    if course.batch == len(order):
        course.epoch, course.batch = course.epoch + 1, 0
    return chosen


def _check(run: _Run, course: _Course) -> None:
    """Evaluate dev, keep the best weights, and lower the rate if they have not improved for long enough."""
    settings = run.settings
    with _evaluated(run, course):
        point, score = run.workers.of_first(lambda: _measured(run, course.update))
        improved = not course.best or score > course.best[-1]
        course.best.append(score if improved else course.best[-1])
        if improved:
            course.best_values, course.best_update = _copies(run.parameters), course.update
    course.curve.append(point)
    course.converged = has_converged(settings, course.best)
    _lower(run, course, improved)


def _measured(run: _Run, update: int) -> tuple[dict[str, float], float]:
    """The curve's point of these weights, and the score that decides on the best weights: more is better."""
    settings = run.settings
    perplexity = _perplexity(run.model, run.corpus.dev, settings.label_smoothing, run.device)
    if not perplexity <= _DIVERGED * run.model.config.vocab_size:
        raise TrainingFailed(f"diverged: dev perplexity {perplexity:.6g} after {update} updates.")
    point, score = {"update": update, "dev_ppl": perplexity}, -perplexity
    if settings.checkpoint_sentences:
        name, sources, references = run.corpus.sample(settings.checkpoint_sentences)
        found = translate_lines(run.model, run.corpus.source, run.corpus.target, sources, settings)
        point[name] = bleu(found, references, settings.bleu_tokenizer)
        score = point[name] if settings.stop_on == "bleu" else score
    return point, score


def _lower(run: _Run, course: _Course, improved: bool) -> None:
    """Lower the rate after checkpoints without improvement, and return to the best checkpoint."""
    settings = run.settings
    if settings.learning_rate_scheduler != "plateau-reduce" or settings.reduce_factor == 1:
        return
    if improved:
        course.not_improved = 0
        adam = _copied(run.adam.state_dict()["state"])
        averages = {"moving": _copies(course.moving), "last": course.last}
        course.back = {"values": _copies(run.parameters), "adam": adam, **averages}
        return
    course.not_improved += 1
    if course.not_improved >= settings.reduce_after and course.update >= settings.warmup:
        course.lowered *= settings.reduce_factor
        course.not_improved = 0
        _put(run.parameters, course.back["values"])
        course.moving = [value.to(run.device, copy=True) for value in course.back["moving"]]
        course.last = [[value.to(run.device) for value in values] for values in course.back["last"]]
        now = run.adam.state_dict()
        run.adam.load_state_dict({**now, "state": _copied(course.back["adam"])})


@contextmanager
def _evaluated(run: _Run, course: _Course) -> Iterator[None]:
    """Inside, the parameters have the values to evaluate."""
    settings = run.settings
    values: Sequence[Tensor] | None = None
    if settings.ema:
        values = course.moving
    elif settings.average > 1:
        course.last = [*course.last, _copies(run.parameters)][-settings.average :]
        values = [torch.stack(several).mean(0) for several in zip(*course.last, strict=True)]
    run.model.eval()
    own = _copies(run.parameters) if values else []
    if values:
        _put(run.parameters, values)
    yield
    if values:
        _put(run.parameters, own)
    run.model.train()


@torch.no_grad()
def _perplexity(model: Any, pairs: Pairs, smoothing: float, device: torch.device) -> float:
    """The perplexity of the target's subwords, with the label smoothing of training."""
    order = np.argsort(pairs.target.lengths, kind="stable")
    total, words = 0.0, 0
    for start in range(0, len(order), _DEV_PAIRS):
        batch = batch_of(pairs, order[start : start + _DEV_PAIRS], device)
        total += float(loss(model, batch, smoothing))
        words += len(batch.written)
    return float(np.exp(min(total / words, 700.0))) if math.isfinite(total) else math.nan


def _tell(run: _Run, course: _Course) -> None:
    """Write the curve, and a line to stdout, the training's log."""
    run.file.write_curve(course.curve)
    point, most = course.curve[-1], run.settings.max_updates
    speed = course.update / max(course.spent, 1e-9)
    sys.stdout.write(
        f"update {course.update} of at most {most}, epoch {course.epoch}: dev perplexity "
        f"{point['dev_ppl']:.2f}, {speed:.1f} updates/s, at most {(most - course.update) / speed:.0f} s of "
        "training left\n"
    )
    sys.stdout.flush()


def _copies(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [p.detach().clone() for p in parameters]


def _copied(value: Any) -> Any:
    """A dict with copies of its tensors, also of those in nested dicts."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return value.clone() if isinstance(value, Tensor) else value


@torch.no_grad()
def _put(parameters: Sequence[nn.Parameter], values: Sequence[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)
