"""One training of a Transformer of the library transformers, from its job to its outcome."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

from hpobench_nmt.runner.corpora import ParallelCorpus, corpus_of
from hpobench_nmt.runner.family import Job, Outcome
from hpobench_nmt.runner.nmt.marian_corpus import EncodedCorpus, encode_corpus
from hpobench_nmt.runner.nmt.marian_decoding import translate_lines
from hpobench_nmt.runner.nmt.marian_files import save_model
from hpobench_nmt.runner.nmt.marian_model import fresh, trained
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.nmt.marian_training import bits_per_character, train
from hpobench_nmt.runner.nmt.marian_workers import Workers, workers_of
from hpobench_nmt.runner.nmt.metrics import scores
from hpobench_nmt.runner.nmt.text_scores import signature
from hpobench_nmt.runner.torch_training.clock import alone, seconds, timing_lock
from hpobench_nmt.runner.torch_training.loop import TrainingSummary
from hpobench_nmt.runner.torch_training.memory import size_metrics
from hpobench_nmt.runner.torch_training.repeatable import set_up
from hpobench_nmt.runner.torch_training.training_state import checkpoints_of


def train_and_measure(job: Job[MarianSettings]) -> Outcome:
    """Train from the last saved state or from the beginning; translate dev and test; and score.

    Raises TrainingFailed if the configuration cannot be trained, or learned nothing.
    """
    corpus: ParallelCorpus = corpus_of(job)
    encoded = encode_corpus(corpus, job.settings, job.cache)
    settings, measuring = job.settings, timing_lock(job)
    with workers_of(job, train_beside) as workers:
        model, training = _trained(job, corpus, encoded, workers)
    if training.paused:
        return Outcome({}, training.curve, paused=True)
    held = size_metrics(model) | {"num_param": float(sum(p.numel() for p in trained(model)))}
    with alone(measuring):
        dev, clock, processor = _timed(model, encoded, corpus.dev[0], settings)
    test = translate_lines(model, encoded.source, encoded.target, corpus.test[0], settings)
    translations = {"dev": dev, "test": test}
    references = {"dev": corpus.dev[1], "test": corpus.test[1]}
    metrics = {
        **scores(translations, references, settings.bleu_tokenizer, training.updates),
        "dev_gpu_time": clock,
        "dev_cpu_time": processor,
        "dev_ppl": min(point["dev_ppl"] for point in training.curve),
        "dev_bpc": bits_per_character(model, encoded),
        "num_updates": float(training.updates),
        "train_time": training.seconds,
        **held,
    }
    versions = {name: version(name) for name in ("transformers", "sacrebleu", "sentencepiece")}
    return Outcome(
        metrics,
        training.curve,
        versions=versions | {"bleu": signature(dev, corpus.dev[1], settings.bleu_tokenizer)},
        converged=training.converged,
        save=partial(save_model, model=model, subwords=encoded.models, translations=translations),
    )


def train_beside(job: Job[MarianSettings], workers: Workers) -> None:
    """Train in a worker that is not the first. The first has prepared the corpus and writes all files."""
    corpus: ParallelCorpus = corpus_of(job)
    _trained(job, corpus, encode_corpus(corpus, job.settings, job.cache), workers)


def _trained(
    job: Job[MarianSettings], corpus: ParallelCorpus, encoded: EncodedCorpus, workers: Workers
) -> tuple[Any, TrainingSummary]:
    """The model with its best weights, and the course of its training."""
    settings, where = job.settings, set_up(job.device)
    found = checkpoints_of(job, corpus.provenance["sha256"])
    identity = {**found.identity, "transformers": version("transformers")}
    checkpoints = replace(found, identity=identity, stands_still_for=timing_lock(job))
    with fresh(settings, encoded.sizes, job.seed, where) as (model, of_data):
        return model, train(model, encoded, settings, of_data, checkpoints, workers)


def _timed(
    model: Any, encoded: EncodedCorpus, lines: Sequence[str], settings: MarianSettings
) -> tuple[list[str], float, float]:
    """Translations, and the least wall-clock and processor seconds that they take."""
    device = next(model.parameters()).device
    times = []
    for _ in range(settings.decode_times):
        started = time.perf_counter(), time.process_time()
        found = translate_lines(model, encoded.source, encoded.target, lines, settings)
        seconds(device)  # waits for pending work
        times.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    clock, processor = (min(each) for each in zip(*times, strict=True))
    return found, clock, processor
