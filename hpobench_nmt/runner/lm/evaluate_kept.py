"""Evaluation of a kept language model on other text: static, with a neural cache, or dynamic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.runner.corpora.vocabulary import UNKNOWN
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.lm.dynamic import UpdateRule, dynamic_nll
from hpobench_nmt.runner.lm.kept_files import KeptLanguageModel
from hpobench_nmt.runner.lm.measure import rule_of, scores_of, statistics, tuned_rule
from hpobench_nmt.runner.lm.neural_cache import NeuralCache, cache_nll, tuned_cache
from hpobench_nmt.runner.lm.settings import RULES, EvaluationSettings
from hpobench_nmt.runner.lm.static import static_nll, timed
from hpobench_nmt.runner.settings import settings_of


@dataclass(frozen=True)
class Evaluation:
    """One way of evaluating a model on a text.

    Attributes:
        name: "static", "cache", or the rule of dynamic evaluation.
        scores: those of `scores_of` by name; NaN or infinite if dynamic evaluation diverged.
        seconds: processor time on a CPU, wall clock on a CUDA device.
    """

    name: str
    scores: Mapping[str, float]
    seconds: float
    used: Mapping[str, float]


def numbered(vocabulary: Sequence[str], tokens: Sequence[str], where: str) -> tuple[Ints, int]:
    """The numbers of tokens, and how many of them are <unk>, including tokens outside the vocabulary.

    Raises InputError for fewer than two tokens, or for a token outside a vocabulary that has no <unk>.
    """
    if len(tokens) < 2:
        raise InputError(f"{where}: has {len(tokens)} tokens but needs at least 2.")
    number = {token: i for i, token in enumerate(vocabulary)}
    found = np.array([number.get(token, -1) for token in tokens], dtype=np.int64)
    outside = found < 0
    if UNKNOWN in number:
        found[outside] = number[UNKNOWN]
        return found, int((found == number[UNKNOWN]).sum())
    if outside.any():
        first = tokens[int(np.argmax(outside))]
        raise InputError(
            f"{where}: {outside.sum():,} characters are not in the model's vocabulary, such as {first!a}. It "
            f"has no {UNKNOWN}: remove or replace them."
        )
    return found, 0


def evaluate(kept: KeptLanguageModel, tokens: Ints, rule: str = "", cache: bool = False) -> list[Evaluation]:
    """Static evaluation of a text, and on request evaluation with the cache and dynamic evaluation.

    Values that the training tuned are reused. A cache or rule that the training did not have is first tuned
    on the beginning of the kept dev part, as in a training.

    Raises InputError for an unknown rule, or if the kept training text is too short for its gradient
    statistics.
    """
    check_known("dynamic-evaluation rule", [rule] if rule else [], RULES)
    model = kept.model
    found: list[Evaluation] = []

    def add(name: str, nll: Callable[[Ints], Floats], used: Mapping[str, float]) -> None:
        losses, taken = timed(nll, tokens, model.output_weight.device)
        scores = scores_of(kept.corpus, tokens, losses)
        if not math.isfinite(losses.mean()):
            scores = dict.fromkeys(scores, math.nan)
        found.append(Evaluation(name, scores, taken, used))

    add("static", partial(static_nll, model), {})
    if cache:
        chosen = _cache(kept)
        used = {"cache_window": chosen.window, "cache_theta": chosen.theta, "cache_lambda": chosen.weight}
        add("cache", partial(cache_nll, model, cache=chosen), used)
    if rule:
        adapted, rms = kept_rule(kept, rule)
        used = {f"dynamic_{name}": getattr(adapted, name) for name in ("learning_rate", "decay", "segment")}
        add(rule, partial(dynamic_nll, model, rule=adapted, rms=rms), used)
    return found


def _cache(kept: KeptLanguageModel) -> NeuralCache:
    """The cache of the training, or the default cache, tuned as in a training."""
    window = kept.settings.cache_window if isinstance(kept.settings, EvaluationSettings) else 0
    values = _evaluation(kept, kept.about.tuned)
    cache = NeuralCache(window or EvaluationSettings.cache_window, values.cache_theta, values.cache_lambda)
    tuning = kept.corpus.dev[: values.tuning_tokens]
    return cache if window or len(tuning) < 2 else tuned_cache(kept.model, tuning, cache)


def kept_rule(kept: KeptLanguageModel, name: str) -> tuple[UpdateRule, list[Tensor] | None]:
    """The rule of the training, or another rule, tuned as in a training; and its gradient statistics.

    Raises InputError if the kept training text is too short for the statistics.
    """
    own = kept.settings.dynamic_rule
    values = _evaluation(kept, {**(kept.about.tuned if name == own else {}), "dynamic_rule": name})
    rule = rule_of(values, kept.corpus)
    rms = kept.statistics
    if rms is None or not rule.needs_rms or (name == "sparse") != (own == "sparse"):
        try:
            rms = statistics(kept.model, kept.corpus.train, rule, values)
        except TrainingFailed as error:
            raise InputError(f"dynamic evaluation with {name}: {error}") from None
    tuning = kept.corpus.dev[: values.tuning_tokens]
    if name != own and len(tuning) > 1:
        rule = tuned_rule(kept.model, tuning, rule, rms)
    return rule, rms


def _evaluation(kept: KeptLanguageModel, others: Mapping[str, Any]) -> EvaluationSettings:
    """The settings of the training with other values. Settings that its family lacks have their defaults."""
    values = {**asdict(kept.settings), **others}
    known = settings_of(EvaluationSettings)
    return EvaluationSettings(**{name: value for name, value in values.items() if name in known})
