"""A family of language models, made from its architecture. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.family import Architecture, Family, Job, Outcome, S
from hpobench_nmt.runner.lm.settings import METRICS, missing, never_measured


def language_model_family(
    name: str,
    models: str,
    source: str,
    settings: type[S],
    architecture: Architecture[S],
    metrics: tuple[Metric, ...] = METRICS,
    check: Callable[[S], None] = lambda settings: None,
    corpus_check: Callable[[S, Any], None] | None = None,
    costed: Callable[[S, Any, Outcome], Outcome] = lambda settings, corpus, outcome: outcome,
) -> Family[S]:
    """A family of language models, which are trained and then measured as their EvaluationSettings say.

    `costed` adds what a training has cost to its outcome, given its settings and the corpus.
    """

    def train(job: Job[S]) -> Outcome:
        from hpobench_nmt.runner.corpora import corpus_of
        from hpobench_nmt.runner.lm.measure import train_and_measure

        corpus = corpus_of(job)
        return costed(job.settings, corpus, train_and_measure(job, architecture, corpus))

    def checkpoint_check(settings: S, corpus: Any, metric: str) -> None:
        own = "dev_bpc" if corpus.unit == "character" else "dev_ppl"
        if metric != own:
            raise InputError(f"it is not measured at checkpoints. Name another with --objectives: {own}.")

    return Family(
        name=name,
        models=models,
        source=source,
        corpus="text",
        settings=settings,
        metrics=metrics,
        train=train,
        check=check,
        corpus_check=corpus_check,
        never_measured=never_measured,
        checkpoint_check=checkpoint_check,
        missing=missing,
        architecture=architecture,
    )


def with_flops(outcome: Outcome, tokens: Callable[[Mapping[str, float]], float], flops: int) -> Outcome:
    """An outcome whose curve has the tokens that were read so far, and their floating-point operations.

    Args:
        tokens: the number of tokens at a point of the curve.
        flops: operations of training on one token.
    """
    counted = [(point, tokens(point)) for point in outcome.curve]
    return replace(outcome, curve=[{**point, "tokens": n, "flops": n * flops} for point, n in counted])
