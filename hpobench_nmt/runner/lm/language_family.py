"""A family of language models, made from its architecture. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable
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
) -> Family[S]:
    """A family of language models, which are trained and then measured as their EvaluationSettings say."""

    def train(job: Job[S]) -> Outcome:
        from hpobench_nmt.runner.corpora import corpus_of
        from hpobench_nmt.runner.lm.measure import train_and_measure

        return train_and_measure(job, architecture, corpus_of(job))

    def checkpoint_check(settings: S, corpus: Any, metric: str) -> None:
        measured = "dev_bpc" if corpus.unit == "character" else "dev_ppl"
        if metric != measured:
            raise InputError(
                f"it is not measured at checkpoints. Name another with --objectives: {measured}."
            )

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
