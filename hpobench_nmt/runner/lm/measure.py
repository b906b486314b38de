"""Metrics of a trained language model: static, with a neural cache, and with dynamic evaluation."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hpobench_nmt.core.arrays import Floats, Tokens
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.corpora.vocabulary import words_and_characters
from hpobench_nmt.runner.family import Architecture, Job, Outcome, TrainingFailed
from hpobench_nmt.runner.lm.clock import alone, lock_of, seconds
from hpobench_nmt.runner.lm.dynamic import UpdateRule, dynamic_nll, gradient_rms
from hpobench_nmt.runner.lm.fit import fit
from hpobench_nmt.runner.lm.kept_files import save_language_model
from hpobench_nmt.runner.lm.language_model import LanguageModel, parameter_count
from hpobench_nmt.runner.lm.mc_dropout import mc_nll
from hpobench_nmt.runner.lm.neural_cache import NeuralCache, cache_nll, tuned_cache
from hpobench_nmt.runner.lm.settings import DynamicSettings, EvaluationSettings
from hpobench_nmt.runner.lm.static import WARM_UP, bits, perplexity, static_nll
from hpobench_nmt.runner.lm.trainer import TrainingSummary
from hpobench_nmt.runner.lm.training_state import checkpoints_of

# Krause et al. (2018), sections 5 and 7.3.
_SEGMENTS = {"word": 5, "subword": 5, "character": 20}

# Around the settings' own values.
_THETA_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_LAMBDA_FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0)
_MOST_CACHE = 0.95
# The learning rate matters most (Krause et al. 2018, section 5), so it is searched first and longest.
_LEARNING_RATE_TRIALS = 6
_DECAY_TRIALS = 4
# A learning rate that the first tokens of dev allow may be too high for the rest.
_HALVINGS = 4
# Of the masks of Monte-Carlo averaging: the same for all models, so that the masks do not add to their noise.
_MASK_SEED = 0
# A model whose loss is this many times that of a uniform guess has not learned the tokens.
_SLACK = 2.0
# A change of the learning rate, as a share, and how much of the loss (nats) it may move.
_NUDGE, _CHAOS = 1e-6, 1e-3


def train_and_measure(job: Job[Any], architecture: Architecture[Any], corpus: TextCorpus) -> Outcome:
    """Train a language model, measure it as its EvaluationSettings say, and put both into one outcome."""
    checkpoints = checkpoints_of(job, corpus.provenance["sha256"])
    model, training = fit(architecture, job.settings, corpus, job.seed, job.device, checkpoints)
    if training.paused:
        return Outcome({}, learning_curve(corpus, training), paused=True)
    trained = {"train_time": training.seconds, "num_updates": float(training.updates)}
    held = forget_gpu_peak(next(model.parameters()).device)
    measured = measure(model, corpus, job.settings, lock_of(job))
    trained |= memory_of_phases(held, measured.metrics.get("gpu_memory"))
    return replace(
        measured,
        metrics={**measured.metrics, **trained},
        curve=learning_curve(corpus, training),
        converged=training.converged,
    )


def measure(
    model: nn.Module, corpus: TextCorpus, settings: EvaluationSettings, lock: Path | None = None
) -> Outcome:
    """Metrics of a trained model on dev and test; the model is not changed, and the outcome has no curve.

    Perplexities, or bits per character where the corpus is one of characters; the seconds that each way of
    evaluating takes on dev, under the lock (clock.py) if there is one; memory and the number of parameters.
    Cache and dynamic evaluation are tuned on the first `tuning_tokens` of dev. Where dynamic evaluation then
    diverges on dev, its tuned learning rate is halved, four times at most. If it still diverges, its metrics
    are left out, because the model itself is sound.

    Raises TrainingFailed if the model itself is far worse than a guess among all tokens.
    """
    lm: Any = model
    metrics: dict[str, float] = {}
    used: dict[str, float] = {}
    losses: dict[str, tuple[Floats, Floats]] = {}
    rms: list[Tensor] | None = None

    def evaluate(
        suffix: str,
        clock: str,
        nll: Callable[[Tokens], Floats],
        refuse: Callable[[Floats], None] = lambda dev: None,
    ) -> None:
        device = lm.output_weight.device
        with alone(lock):
            nll(corpus.dev[:WARM_UP])
            started = seconds(device)
            dev = nll(corpus.dev)
            taken = seconds(device) - started
        refuse_diverged(corpus, dev, _SLACK)
        refuse(dev)
        test = nll(corpus.test)
        metrics[clock] = taken
        metrics.update(loss_metrics(corpus, suffix, dev, test))
        losses[suffix.removeprefix("_") or "static"] = dev, test

    evaluate("", "eval_time", lambda tokens: static_nll(lm, tokens))
    tuning = corpus.dev[: settings.tuning_tokens]
    if settings.cache_window:
        cache = NeuralCache(settings.cache_window, settings.cache_theta, settings.cache_lambda)
        if len(tuning) > 1:
            cache = tune_cache(lm, tuning, cache)
        evaluate("_cache", "cache_time", lambda tokens: cache_nll(lm, tokens, cache))
        used |= {"cache_theta": cache.theta, "cache_lambda": cache.weight}
    if settings.dynamic_rule != "none":
        rule = rule_of(settings, corpus)
        rms = statistics(model, corpus.train, rule, settings)
        if len(tuning) > 1:
            rule = tuned_rule(lm, tuning, rule, rms)
        for halvings in range(1 + (_HALVINGS if len(tuning) > 1 else 0)):
            slower = replace(rule, learning_rate=rule.learning_rate / 2**halvings)
            with contextlib.suppress(TrainingFailed):
                chaotic = partial(refuse_chaotic, lm, corpus.dev, slower, rms, losses["static"][0].mean())
                evaluate("_dynamic", "dynamic_time", partial(dynamic_nll, lm, rule=slower, rms=rms), chaotic)
                used |= {"dynamic_learning_rate": slower.learning_rate, "dynamic_decay": slower.decay}
                break
    if settings.mc_masks:

        def averaged(tokens: Tokens) -> Floats:
            masks = torch.Generator(lm.output_weight.device).manual_seed(_MASK_SEED)
            return mc_nll(lm, tokens, settings.mc_masks, settings.mc_steps, masks)

        evaluate("_mc", "mc_time", averaged)
    metrics.update(size_metrics(model))
    save = partial(
        save_language_model, model=model, corpus=corpus, settings=settings, losses=losses, statistics=rms
    )
    return Outcome(metrics, tuned=used if len(tuning) > 1 else {}, save=save)


def refuse_diverged(corpus: TextCorpus, dev: Floats, slack: float = 1.0) -> None:
    """Raise TrainingFailed where the loss is `slack` times that of a guess among all tokens, or no number.

    The test part is not looked at, so that it does not decide which configurations are rows of a table.
    """
    if _diverged(corpus, dev, slack):
        raise TrainingFailed(f"diverged: the loss on dev is {dev.mean():.4g} nats per token")


def refuse_chaotic(
    model: LanguageModel,
    tokens: Tokens,
    rule: UpdateRule,
    rms: Sequence[Tensor] | None,
    static: float,
    adapted: Floats,
) -> None:
    """Raise TrainingFailed where rounding decides what dynamic evaluation comes to.

    Near divergence, a change of the learning rate by a millionth can double the perplexity. Where adaptation
    makes the loss worse, the tokens are therefore read again with such a rate.

    Args:
        static: the mean loss (nats) without adaptation.
        adapted: the losses of `dynamic_nll` with this rule.
    """
    loss = float(adapted.mean())
    if loss <= static:
        return
    nudged = replace(rule, learning_rate=rule.learning_rate * (1 + _NUDGE))
    again = float(dynamic_nll(model, tokens, nudged, rms).mean())
    if not math.isclose(loss, again, abs_tol=_CHAOS):
        raise TrainingFailed(
            f"chaotic: the loss on dev is {loss:.4g} nats per token, and {again:.4g} with a learning rate "
            f"that "
            "is a millionth larger"
        )


def _diverged(corpus: TextCorpus, nll: Floats, slack: float) -> bool:
    return not nll.mean() < slack * math.log(len(corpus.vocabulary))


def loss_metrics(corpus: TextCorpus, suffix: str, dev: Floats, test: Floats) -> dict[str, float]:
    """The scores of both parts by the metrics' names; without test's where test diverged."""
    found: dict[str, float] = {}
    for part, tokens, nll in (("dev", corpus.dev, dev), ("test", corpus.test, test)):
        if part == "test" and _diverged(corpus, nll, _SLACK):
            continue
        found |= {f"{part}_{name}{suffix}": x for name, x in scores_of(corpus, tokens, nll).items()}
    return found


def scores_of(corpus: TextCorpus, tokens: Tokens, nll: Floats) -> dict[str, float]:
    """Perplexity ("ppl") of a stream of words, or bits per character ("bpc") of one of characters.

    Subwords have a perplexity a token ("ppl") and a word ("ppl_word"), and bits per character, so that
    vocabularies can be compared.

    Args:
        nll: negative log-likelihood (nats) of all tokens but the first.
    """
    if corpus.unit == "character":
        return {"bpc": bits(nll)}
    if corpus.unit == "word":
        return {"ppl": perplexity(nll)}
    words, characters = words_and_characters(corpus.vocabulary, tokens[1:])
    return {
        "ppl": perplexity(nll),
        "ppl_word": perplexity(nll * (len(nll) / words)),
        "bpc": bits(nll * (len(nll) / characters)),
    }


def learning_curve(corpus: TextCorpus, training: TrainingSummary) -> list[dict[str, float]]:
    """The curve of a training, with dev_bpc in place of dev_ppl where the corpus is one of characters."""
    if corpus.unit != "character":
        return [dict(point) for point in training.curve]
    return [
        {key: value for key, value in point.items() if key != "dev_ppl"}
        | {"dev_bpc": math.log2(point["dev_ppl"])}
        for point in training.curve
    ]


def size_metrics(model: nn.Module) -> dict[str, float]:
    """num_param and memory (not on Windows); gpu_memory where the model is on a CUDA device."""
    found = {"num_param": float(parameter_count(model))}
    with contextlib.suppress(ImportError):
        import resource

        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["memory"] = resident * (1 if sys.platform == "darwin" else 1024) / 1e6
    device = next(model.parameters()).device
    if device.type == "cuda":
        found["gpu_memory"] = torch.cuda.max_memory_allocated(device) / 1e6
    return found


def forget_gpu_peak(device: torch.device) -> float | None:
    """The most MB that tensors held on a CUDA device until now, and from now on again; None on a CPU."""
    if device.type != "cuda":
        return None
    held = torch.cuda.max_memory_allocated(device) / 1e6
    torch.cuda.reset_peak_memory_stats(device)
    return held


def memory_of_phases(training: float | None, measuring: float | None) -> dict[str, float]:
    """gpu_memory of both, and of each, where there is a GPU."""
    if training is None or measuring is None:
        return {}
    parts = {"train_gpu_memory": training, "eval_gpu_memory": measuring}
    return {**parts, "gpu_memory": max(parts.values())}


def forget_peak(device: torch.device) -> None:
    """Start `memory` again from what the process holds now, where the system can (Linux)."""
    gc.collect()
    # glibc: what is free goes back to the system.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    forget_gpu_peak(device)


def rule_of(settings: DynamicSettings, corpus: TextCorpus) -> UpdateRule:
    """The dynamic-evaluation rule that the settings ask for."""
    return UpdateRule(
        settings.dynamic_rule,
        settings.dynamic_learning_rate,
        settings.dynamic_segment or _SEGMENTS[corpus.unit],
        settings.dynamic_decay,
        settings.dynamic_epsilon,
        settings.dynamic_units,
        settings.dynamic_decay_scale,
        settings.dynamic_horizon,
    )


def statistics(
    model: nn.Module, train: Tokens, rule: UpdateRule, settings: DynamicSettings
) -> list[Tensor] | None:
    """sqrt(MS_g) for the rule, from as much of the training data as the settings say; None: not needed.

    Raises TrainingFailed if there are too few tokens for the configuration's batch.
    """
    if not rule.needs_rms:
        return None
    lm: Any = model
    train = train[: settings.dynamic_statistics or len(train)]
    units = rule.units if rule.name == "sparse" else 0
    try:
        return gradient_rms(lm, train, settings.dynamic_batch, rule.segment, units)
    except InputError as error:
        raise TrainingFailed(str(error)) from error


def tune_cache(lm: Any, tokens: Tokens, start: NeuralCache) -> NeuralCache:
    """The cache with the best theta and lambda on tokens, of some values around its own."""
    thetas = sorted({start.theta * factor for factor in _THETA_FACTORS})
    weights = sorted({min(start.weight * factor, _MOST_CACHE) for factor in _LAMBDA_FACTORS})
    return tuned_cache(lm, tokens, start.window, thetas, weights)


def tuned_rule(lm: Any, tokens: Tokens, start: UpdateRule, rms: list[Tensor] | None) -> UpdateRule:
    """The rule with a learning rate, then a decay, doubled or halved for as long as that helps on tokens."""

    def loss(rule: UpdateRule) -> float:
        mean = float(dynamic_nll(lm, tokens, rule, rms).mean())
        return mean if math.isfinite(mean) else math.inf

    best, best_loss = start, loss(start)
    for name, trials in (("learning_rate", _LEARNING_RATE_TRIALS), ("decay", _DECAY_TRIALS)):
        if name == "decay" and start.name == "sgd":
            break
        for factor in (2.0, 0.5):
            improved = False
            while trials:
                value = getattr(best, name) * factor
                if value == getattr(best, name) or (name == "decay" and value > 1):
                    break
                candidate = replace(best, **{name: value})
                trials -= 1
                found = loss(candidate)
                if found >= best_loss:
                    break
                best, best_loss, improved = candidate, found, True
            if improved:
                break
    return best
