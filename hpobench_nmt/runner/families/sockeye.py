"""Translation: transformers trained, decoded and scored by Sockeye's own commands (Zhang & Duh, Table 1).

Each side has its own subwords and vocabulary. The target embedding is tied to the output layer. The optimiser
is Adam. By default, its learning rate is lowered when dev perplexity stops improving, and training ends when
it has not improved for `max_not_improved` checkpoints. The best checkpoint translates dev and test.
"""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.devices import first_devices
from hpobench_nmt.runner.family import Family, Job, Outcome, TrainingFailed, Translator
from hpobench_nmt.runner.nmt.commands import run_command
from hpobench_nmt.runner.nmt.kept_files import read_translation_model, save_translation_model
from hpobench_nmt.runner.nmt.metrics import CANNOT_RANK, METRICS, scores
from hpobench_nmt.runner.nmt.prepare_corpus import Prepared, prepare
from hpobench_nmt.runner.nmt.settings import SockeyeSettings, check_translation
from hpobench_nmt.runner.nmt.sockeye_logs import read_parameter_count
from hpobench_nmt.runner.nmt.sockeye_train import curve_of
from hpobench_nmt.runner.nmt.text_scores import bleu, refuse_unspaced, signature
from hpobench_nmt.runner.nmt.timed_translate import read_times
from hpobench_nmt.runner.nmt.train_model import Training, decode_arguments, train_model
from hpobench_nmt.runner.nmt.translate_kept import translate

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import ParallelCorpus

SOCKEYE = "3.1.34"
"""The version with which the commands and the lines of logs were checked."""


def corpus_check(settings: SockeyeSettings, corpus: ParallelCorpus) -> None:
    """Refuse a tokenizer with which BLEU would be near 0 for any translations."""
    refuse_unspaced(corpus.dev[1], settings.bleu_tokenizer)


def missing() -> str:
    """The command that installs missing packages, or "".

    Sockeye cannot be an ordinary extra: it works with a current torch, but its own requirements refuse it.
    """
    modules = {"torch": "torch", "yaml": "pyyaml", "sacrebleu": "sacrebleu", "sentencepiece": "sentencepiece"}
    absent = [package for module, package in modules.items() if importlib.util.find_spec(module) is None]
    commands = [f"pip install {' '.join(absent)}"] if absent else []
    try:
        installed = version("sockeye")
    except PackageNotFoundError:
        installed = ""
    if installed != SOCKEYE:
        commands.append(f"pip install --no-deps sockeye=={SOCKEYE}")
    return " && ".join(commands)


def train(job: Job[SockeyeSettings]) -> Outcome:
    """Prepare the corpus (or reuse it), train, translate dev and test, and score the translations."""
    from hpobench_nmt.runner.corpora import corpus_of
    from hpobench_nmt.runner.torch_training.clock import alone, timing_lock

    if job.device == "cpu" and job.settings.amp:
        raise InputError("amp = true needs a CUDA device: on a CPU, Sockeye trains with 32-bit numbers only.")
    corpus: ParallelCorpus = corpus_of(job)
    settings = job.settings
    first_devices([job.device], settings.workers)  # raises an error if there are too few GPUs
    # This job stands still while another job on this GPU measures the time of its decoding.
    measuring = timing_lock(job)
    prepared = prepare(job, corpus, measuring)
    training = train_model(job, prepared, measuring)
    checkpoints, model = training.checkpoints, training.model
    last = checkpoints[-1]
    if last.diverged:
        raise TrainingFailed(f"diverged: dev perplexity {last.perplexity:.6g} after {last.update} updates.")
    curve = _curve(job, prepared, training)
    if not last.converged and last.update < settings.max_updates:
        return Outcome({}, curve, paused=True)

    bpe = prepared.target_bpe()
    translations = {}
    for part in ("dev", "test"):
        output = job.scratch / f"{part}.translated"
        command = decode_arguments(job, model, prepared.file(part, "source"), output)
        decode_log = job.scratch / f"{part}.log"
        if part == "dev":
            with alone(measuring):
                times = str(settings.decode_times)
                run_command("hpobench_nmt.runner.nmt.timed_translate", [times, *command], decode_log)
            clock, processor = read_times(decode_log.read_text("utf-8"))
        else:
            run_command("sockeye.translate", command, decode_log, measuring)
        translations[part] = bpe.decode(_lines(output))
    tokenizer = settings.bleu_tokenizer
    found = scores(translations, {"dev": corpus.dev[1], "test": corpus.test[1]}, tokenizer, last.update)
    metrics = {
        **found,
        "dev_gpu_time": clock,
        "dev_cpu_time": processor,
        "dev_ppl": min(c.perplexity for c in checkpoints),
        "num_updates": last.update,
        "train_time": training.costs[-1].seconds,
        "memory": training.costs[-1].memory,
        "num_param": read_parameter_count(training.log),
    }
    if job.device != "cpu":
        metrics["gpu_memory"] = max(c.gpu_memory for c in checkpoints)  # a process that resumes counts from 0
    return Outcome(
        metrics,
        curve,
        versions=_versions() | {"bleu": signature(translations["dev"], corpus.dev[1], tokenizer)},
        converged=last.converged,
        # Sockeye does not ask torch for a fixed order of sums.
        nondeterministic="" if job.device == "cpu" else "Sockeye on a GPU",
        save=lambda folder: save_translation_model(folder, model, prepared.folder, translations),
    )


def _curve(job: Job[SockeyeSettings], prepared: Prepared, training: Training) -> list[dict[str, float]]:
    """Dev perplexity and cost at every checkpoint, and BLEU of the sentences that Sockeye decoded there.

    Sockeye decodes the same sentences of dev each time, with a beam of 5. Its own BLEU is computed on
    subwords. The curve's BLEU is computed on the text, as the metric dev_bleu is. BLEU of a sample has
    another name, because it may differ from dev_bleu by several points.
    """
    curve = curve_of(training.costs)
    reference = training.model / "decode.target.0"
    if reference.exists():
        bpe, tokenizer = prepared.target_bpe(), job.settings.bleu_tokenizer
        references = bpe.decode(_lines(reference))
        name = "dev_bleu" if job.settings.checkpoint_sentences == -1 else "dev_bleu_sample"
        for cost, point in zip(training.costs, curve, strict=True):
            decoded = _lines(training.model / f"decode.output.0.{cost.checkpoint:05d}")
            point[name] = bleu(bpe.decode(decoded), references, tokenizer)
    return curve


def _lines(path: Path) -> list[str]:
    """The lines of a file. Unlike in str.splitlines, only a newline ends a line."""
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in ("sockeye", "torch", "sacrebleu", "sentencepiece", "numpy")}
    with suppress(PackageNotFoundError):
        found["apex"] = version("apex")  # if it is installed, Sockeye uses its optimiser on a GPU
    return found


FAMILY = Family(
    name="sockeye",
    models="transformers for translation, by Sockeye's own commands",
    source="Zhang and Duh 2020",
    corpus="parallel",
    settings=SockeyeSettings,
    metrics=METRICS,
    train=train,
    check=check_translation,
    corpus_check=corpus_check,
    cannot_rank=CANNOT_RANK,
    missing=missing,
    translator=Translator(read_translation_model, translate),
)
