"""Metrics of a trained language model: static, with a neural cache, and with dynamic evaluation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpobench_nmt.core.arrays import Floats, Tokens
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.corpora.vocabulary import words_and_characters
from hpobench_nmt.runner.family import Architecture, Job, Outcome, TrainingFailed
from hpobench_nmt.runner.lm.dynamic import Rms, UpdateRule, dynamic_nll, gradient_rms
from hpobench_nmt.runner.lm.fit import fit
from hpobench_nmt.runner.lm.kept_files import save_language_model
from hpobench_nmt.runner.lm.language_model import LanguageModel
from hpobench_nmt.runner.lm.mc_dropout import mc_nll
from hpobench_nmt.runner.lm.neural_cache import NeuralCache, cache_nll, tuned_cache
from hpobench_nmt.runner.lm.settings import DynamicSettings, EvaluationSettings
from hpobench_nmt.runner.lm.static import bits, perplexity, static_nll, timed
from hpobench_nmt.runner.torch_training.clock import alone, lock_of
from hpobench_nmt.runner.torch_training.loop import TrainingSummary
from hpobench_nmt.runner.torch_training.memory import forget_gpu_peak, memory_of_phases, size_metrics
from hpobench_nmt.runner.torch_training.training_state import checkpoints_of

# Krause et al. (2018), sections 5 and 7.3.
_SEGMENTS = {"word": 5, "subword": 5, "character": 20}

# The learning rate matters most (Krause et al. 2018, section 5), so it is searched first and longest.
_LEARNING_RATE_TRIALS = 6
_DECAY_TRIALS = 4
# How often a tuned learning rate may be halved: it suits the first tokens of dev, but not always the rest.
_HALVINGS = 4
# The seed of the masks of Monte-Carlo averaging. It is the same for all models, so that masks add no noise.
_MASK_SEED = 0
# A model whose loss is this many times that of a uniform guess has not learned the tokens.
_SLACK = 2.0
# A relative change of the learning rate, and the largest change of the loss (nats) that it may cause.
_NUDGE, _CHAOS = 1e-6, 1e-3


def train_and_measure(job: Job[Any], architecture: Architecture[Any], corpus: TextCorpus) -> Outcome:
    """Train a language model, measure it as its EvaluationSettings say, and put both into one outcome."""
    checkpoints = checkpoints_of(job, corpus.provenance["sha256"])
    model, training = fit(architecture, job.settings, corpus, job.seed, job.device, checkpoints)
    if training.paused:
        return Outcome({}, learning_curve(corpus, training), paused=True)
    trained = {"train_time": training.seconds, "num_updates": float(training.updates)}
    if hasattr(job.settings, "optimizer"):
        trained["state_size"] = training.state_size
    held = forget_gpu_peak(next(model.parameters()).device)
    measured = measure(model, corpus, job.settings, lock_of(job))
    trained |= memory_of_phases(held, measured.metrics.get("gpu_memory"))
    metrics, curve = {**measured.metrics, **trained}, learning_curve(corpus, training)
    return replace(measured, metrics=metrics, curve=curve, converged=training.converged)


def measure(
    model: LanguageModel, corpus: TextCorpus, settings: EvaluationSettings, lock: Path | None = None
) -> Outcome:
    """Metrics of a trained model on dev and test; the model is not changed, and the outcome has no curve.

    The metrics are perplexities, or bits per character for a corpus of characters; the seconds of each kind
    of evaluation on dev, under the lock (clock.py) if there is one; memory; and the number of parameters.

    Cache and dynamic evaluation are tuned on the first `tuning_tokens` of dev. If dynamic evaluation then
    diverges or is chaotic on dev, its tuned learning rate is halved, at most four times. If it still fails,
    its metrics are left out, because the model itself is sound.

    Raises TrainingFailed if the model itself is far worse than a guess among all tokens.
    """
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
        with alone(lock):
            dev, taken = timed(nll, corpus.dev, model.output_weight.device)
        refuse_diverged(corpus, dev, _SLACK)
        refuse(dev)
        test = nll(corpus.test)
        metrics[clock] = taken
        metrics.update(loss_metrics(corpus, suffix, dev, test))
        losses[suffix.removeprefix("_") or "static"] = dev, test

    evaluate("", "eval_time", lambda tokens: static_nll(model, tokens))
    tuning = corpus.dev[: settings.tuning_tokens]
    if settings.cache_window:
        cache = NeuralCache(settings.cache_window, settings.cache_theta, settings.cache_lambda)
        if len(tuning) > 1:
            cache = tuned_cache(model, tuning, cache)
        evaluate("_cache", "cache_time", lambda tokens: cache_nll(model, tokens, cache))
        used |= {"cache_theta": cache.theta, "cache_lambda": cache.weight}
    if settings.dynamic_rule != "none":
        rule = rule_of(settings, corpus)
        rms = statistics(model, corpus.train, rule, settings)
        if len(tuning) > 1:
            rule = tuned_rule(model, tuning, rule, rms)
        for halvings in range(1 + (_HALVINGS if len(tuning) > 1 else 0)):
            slow = replace(rule, learning_rate=rule.learning_rate / 2**halvings)
            with contextlib.suppress(TrainingFailed):
                refuse = partial(refuse_chaotic, model, corpus.dev, slow, rms, losses["static"][0].mean())
                evaluate("_dynamic", "dynamic_time", partial(dynamic_nll, model, rule=slow, rms=rms), refuse)
                used |= {"dynamic_learning_rate": slow.learning_rate, "dynamic_decay": slow.decay}
                break
    if settings.mc_masks:

        def averaged(tokens: Tokens) -> Floats:
            masks = torch.Generator(model.output_weight.device).manual_seed(_MASK_SEED)
            return mc_nll(model, tokens, settings.mc_masks, settings.mc_steps, masks)

        evaluate("_mc", "mc_time", averaged)
    metrics.update(size_metrics(model))
    save = partial(
        save_language_model, model=model, corpus=corpus, settings=settings, losses=losses, statistics=rms
    )
    return Outcome(metrics, tuned=used if len(tuning) > 1 else {}, save=save)


def refuse_diverged(corpus: TextCorpus, dev: Floats, slack: float = 1.0) -> None:
    """Raise TrainingFailed if the loss is NaN, or `slack` times that of a guess among all tokens or more.

    The test part is not used, so that it does not decide which configurations are rows of a table.
    """
    if _diverged(corpus, dev, slack):
        raise TrainingFailed(f"diverged: the loss on dev is {dev.mean():.4g} nats per token")


def refuse_chaotic(
    model: LanguageModel,
    tokens: Tokens,
    rule: UpdateRule,
    rms: Rms,
    static: float,
    adapted: Floats,
    cache: NeuralCache | None = None,
) -> None:
    """Raise TrainingFailed if rounding decides the result of dynamic evaluation.

    Near divergence, a change of the learning rate by a millionth can double the perplexity. If adaptation
    makes the loss worse, the tokens are therefore read again with a rate that is changed in this way.

    Args:
        static: the mean loss (nats) without adaptation.
        adapted: the losses of `dynamic_nll` with this rule and cache.
    """
    loss = float(adapted.mean())
    if loss <= static:
        return
    nudged = replace(rule, learning_rate=rule.learning_rate * (1 + _NUDGE))
    again = float(dynamic_nll(model, tokens, nudged, rms, cache).mean())
    if not math.isclose(loss, again, abs_tol=_CHAOS):
        raise TrainingFailed(
            f"chaotic: the loss on dev is {loss:.4g} nats per token, and {again:.4g} with a learning rate "
            f"that is a millionth larger"
        )


def _diverged(corpus: TextCorpus, nll: Floats, slack: float) -> bool:
    return not nll.mean() < slack * math.log(len(corpus.vocabulary))


def loss_metrics(corpus: TextCorpus, suffix: str, dev: Floats, test: Floats) -> dict[str, float]:
    """The scores of both parts by the metrics' names. If test diverged, its scores are left out."""
    found: dict[str, float] = {}
    for part, tokens, nll in (("dev", corpus.dev, dev), ("test", corpus.test, test)):
        if part == "test" and _diverged(corpus, nll, _SLACK):
            continue
        found |= {f"{part}_{name}{suffix}": x for name, x in scores_of(corpus, tokens, nll).items()}
    return found


def scores_of(corpus: TextCorpus, tokens: Tokens, nll: Floats) -> dict[str, float]:
    """Perplexity ("ppl") of a stream of words, or bits per character ("bpc") of a stream of characters.

    Subwords have a perplexity per token ("ppl") and per word ("ppl_word"), and bits per character, so that
    vocabularies can be compared.

    Args:
        nll: negative log-likelihood (nats) of all tokens except the first.
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
    """The curve of a training. For a corpus of characters, it has dev_bpc instead of dev_ppl."""
    curve = [dict(point) for point in training.curve]
    for point in curve if corpus.unit == "character" else ():
        point["dev_bpc"] = math.log2(point.pop("dev_ppl"))
    return curve


def rule_of(settings: DynamicSettings, corpus: TextCorpus) -> UpdateRule:
    """The dynamic-evaluation rule that the settings ask for."""
    names = ("learning_rate", "decay", "epsilon", "units", "decay_scale", "horizon")
    values = {name: getattr(settings, f"dynamic_{name}") for name in names}
    segment = settings.dynamic_segment or _SEGMENTS[corpus.unit]
    return UpdateRule(settings.dynamic_rule, segment=segment, **values)


def statistics(
    model: LanguageModel, train: Tokens, rule: UpdateRule, settings: DynamicSettings
) -> list[Tensor] | None:
    """sqrt(MS_g), from as much of the training data as the settings say; None if the rule does not need it.

    Raises TrainingFailed if there are too few tokens for the configuration's batch.
    """
    if not rule.needs_rms:
        return None
    train = train[: settings.dynamic_statistics or len(train)]
    units = rule.units if rule.name == "sparse" else 0
    try:
        return gradient_rms(model, train, settings.dynamic_batch, rule.segment, units)
    except InputError as error:
        raise TrainingFailed(str(error)) from error


def tuned_rule(
    model: LanguageModel, tokens: Tokens, start: UpdateRule, rms: list[Tensor] | None
) -> UpdateRule:
    """The rule after its learning rate, and then its decay, is doubled or halved while the loss improves."""

    def loss(rule: UpdateRule) -> float:
        mean = float(dynamic_nll(model, tokens, rule, rms).mean())
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
