"""Translation: transformers trained, decoded and scored by Sockeye's own commands (Zhang & Duh, Table 1).

Subwords are learned per side, the source and target vocabularies are separate, and the target embedding
is tied to the output layer. Adam; the learning rate is lowered where dev perplexity stops improving, and
training ends where it has not improved for `max_not_improved` checkpoints. The best checkpoint is decoded.
"""

from __future__ import annotations

import importlib.util
import math
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.runner.curve_file import read_curve
from hpobench_nmt.runner.family import Family, Job, Outcome, Setting, TrainingFailed
from hpobench_nmt.runner.locks import exclusive
from hpobench_nmt.runner.nmt.commands import pauses_file, run_command
from hpobench_nmt.runner.nmt.kept_files import save_translation_model
from hpobench_nmt.runner.nmt.prepare_corpus import ParallelText, Prepared, prepare
from hpobench_nmt.runner.nmt.sockeye_logs import Checkpoint, read_checkpoints, read_parameter_count
from hpobench_nmt.runner.nmt.sockeye_train import LOG, Cost, latest_copy, put_back, read_costs
from hpobench_nmt.runner.nmt.timed_translate import read_times

SOCKEYE = "3.1.34"
"""The version that the commands and the log lines were checked with."""

MIN_BLEU = 0.5
"""A configuration with a lower dev BLEU has learned nothing and counts as failed."""

SETTINGS = (
    # The six of the paper's Table 1, by their names in the published tables. There bpe_symbols counts merges,
    # here the vocabulary, unless bpe_count says otherwise.
    Setting("bpe_symbols", None, int, 10, 200_000, description="subwords of each side, characters included"),
    Setting("num_layers", None, int, 1, 100, description="layers of the encoder, and of the decoder"),
    Setting("num_embed", None, int, 4, 16_384, scale="log", description="model size"),
    Setting("num_hidden", None, int, 1, 65_536, scale="log", description="feed-forward size"),
    Setting("num_heads", None, int, 1, 256, scale="log", description="attention heads"),
    Setting("learning_rate", None, float, 1e-7, 1.0, scale="log", description="Adam's initial step"),
    Setting(
        "bpe_count",
        "vocabulary",
        str,
        choices=("vocabulary", "merges"),
        description="what bpe_symbols counts: all subwords, or merges alone as in the published tables",
    ),
    Setting("max_length", 95, int, 1, 10_000, unit="subwords", description="longest training sentence"),
    Setting("batch_size", 4096, int, 1, 1_000_000, unit="subwords", description="target words of an update"),
    Setting("dropout", 0.1, float, 0.0, 0.95, description="between layers"),
    Setting("attention_dropout", 0.1, float, 0.0, 0.95, description="of attention weights"),
    Setting("feed_forward_dropout", 0.1, float, 0.0, 0.95, description="inside feed-forward layers"),
    Setting("embed_dropout", 0.0, float, 0.0, 0.95, description="of embeddings"),
    Setting("label_smoothing", 0.1, float, 0.0, 0.95, description="probability spread over all words"),
    Setting("warmup", 0, int, 0, 1_000_000, unit="updates", description="rise of the learning rate"),
    Setting("reduce_factor", 0.7, float, 0.01, 1.0, description="of the learning rate; 1 never lowers it"),
    Setting("reduce_after", 3, int, 1, 1000, unit="checkpoints", description="without improvement"),
    Setting("checkpoint_interval", 1000, int, 1, 1_000_000, description="updates between checkpoints"),
    Setting("max_not_improved", 8, int, 1, 1000, unit="checkpoints", description="then training ends"),
    Setting(
        "stop_on",
        "perplexity",
        str,
        choices=("perplexity", "bleu"),
        on_grid=False,
        description="of dev: decides on the best checkpoint, the learning rate and the end of training; "
        "bleu is that of the subwords of checkpoint_sentences",
    ),
    Setting("min_improvement", 0.0, float, 0.0, 1e6, description="of stop_on over max_not_improved"),
    Setting("max_updates", 10**6, int, 1, 10**8, description="updates after which training ends anyway"),
    Setting(
        "checkpoint_sentences",
        -1,
        int,
        -1,
        10**6,
        description="dev sentences decoded at each checkpoint, the curve's dev_bleu; -1: all, 0: none; "
        "of a sample it is called dev_bleu_sample",
    ),
    Setting("update_interval", 1, int, 1, 1000, description="batches of an update, their gradients added"),
    Setting(
        "learning_rate_scheduler",
        "plateau-reduce",
        str,
        choices=("plateau-reduce", "inv-sqrt-decay", "linear-decay", "none"),
        description="Sockeye's --learning-rate-scheduler-type: lowered where dev perplexity stops improving, "
        "over the root of the update, to 0 at max_updates, or not at all",
    ),
    Setting("amp", False, bool, description="mixed precision in training; on a CUDA device only"),
    Setting("tf32", True, bool, description="short products of 32-bit numbers, on GPUs that have them"),
    Setting(
        "decode_dtype",
        "float32",
        str,
        choices=("float32", "float16", "bfloat16"),
        description="numbers of the model that decodes dev and test",
    ),
    Setting("beam_size", 5, int, 1, 100, description="of decoding dev and test"),
    Setting("decode_batch_size", 16, int, 1, 10_000, unit="sentences", description="decoded at once"),
)

METRICS = (
    Metric("dev_bleu", "max", "BLEU", None, 0.5, "sacrebleu of the best checkpoint's translations of dev"),
    Metric(
        "dev_gpu_time",
        "min",
        "s",
        description="decoding dev by the clock, on the device of training (the name is that of the published "
        "tables), while other trainings stand still; other work on the machine makes it longer, so that on a "
        "CPU dev_cpu_time is the better objective",
    ),
    Metric("dev_cpu_time", "min", "s", description="processor time of that decoding: the CPU's own clock"),
    Metric(
        "dev_ppl",
        "min",
        description="best dev perplexity of a checkpoint, with training's label smoothing; per subword, so "
        "that it can't be compared across bpe_symbols",
    ),
    Metric("test_bleu", "max", "BLEU", None, 0.5, "sacrebleu of the best checkpoint's translations of test"),
    Metric("num_updates", "min", description="updates until training ended"),
    Metric(
        "train_time",
        "min",
        "s",
        description="training, checkpoints included, pauses not: processor time on a CPU, by the clock on a "
        "CUDA device and in ledgers of versions before 0.2",
    ),
    Metric("gpu_memory", "min", "MB", description="peak memory of tensors on the GPU in training"),
    Metric("memory", "min", "MB", description="peak resident memory of training"),
    Metric("num_param", "min", description="trained parameters"),
)


def check(settings: Mapping[str, Any]) -> None:
    """Refuse sizes that no transformer can have, in the words of the settings."""
    if settings["num_embed"] % settings["num_heads"]:
        raise InputError(
            f"num_embed {settings['num_embed']} can't be divided among num_heads {settings['num_heads']}: "
            "take a multiple."
        )
    if settings["stop_on"] == "bleu" and not settings["checkpoint_sentences"]:
        raise InputError("stop_on 'bleu' needs checkpoint_sentences: -1 for all of dev, or a number of them.")
    if settings["num_embed"] % 2:
        raise InputError(f"num_embed {settings['num_embed']} must be even: positions are sines and cosines.")


def missing() -> str:
    """The command that installs missing packages, or "".

    Sockeye's own requirements refuse a current torch, with which it works; hence no ordinary extra.
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


def train(job: Job) -> Outcome:
    """Prepare (or reuse), train, translate dev and test, and score."""
    if job.device == "cpu" and job.settings["amp"]:
        raise InputError("amp = true needs a CUDA device: on a CPU, Sockeye trains with 32-bit numbers only.")
    corpus = _load(job)
    settings = job.settings
    # While another job on this machine measures the time of its decoding, this one stands still.
    measuring = job.cache / f"measuring-{platform.node()}.lock"
    prepared = prepare(
        corpus,
        settings["bpe_symbols"],
        settings["max_length"],
        job.cache,
        job.scratch / "prepare.log",
        measuring,
        settings["bpe_count"] == "merges",
    )
    training = _train_model(job, prepared, measuring)
    checkpoints, model = training.checkpoints, training.model
    last = checkpoints[-1]
    if last.diverged:
        raise TrainingFailed(f"diverged: dev perplexity {last.perplexity:.6g} after {last.update} updates.")
    curve = _curve(job, prepared, training)
    if not last.converged and last.update < settings["max_updates"]:
        return Outcome({}, curve, paused=True)

    bpe = prepared.target_bpe()
    translations = {}
    for part in ("dev", "test"):
        output = job.scratch / f"{part}.translated"
        command = decode_arguments(job, model, prepared.file(part, "source"), output)
        decode_log = job.scratch / f"{part}.log"
        if part == "dev":
            with exclusive(measuring):
                run_command("hpobench_nmt.runner.nmt.timed_translate", command, decode_log)
            clock, processor = read_times(decode_log.read_text("utf-8"))
        else:
            run_command("sockeye.translate", command, decode_log, measuring)
        translations[part] = bpe.decode(_lines(output))
    dev_bleu = bleu(translations["dev"], corpus.dev[1])
    if dev_bleu < MIN_BLEU:
        raise TrainingFailed(
            f"dev BLEU {dev_bleu:.2f} is below {MIN_BLEU}: nothing was learned in {last.update} updates."
        )
    metrics = {
        "dev_bleu": dev_bleu,
        "dev_gpu_time": clock,
        "dev_cpu_time": processor,
        "dev_ppl": min(c.perplexity for c in checkpoints),
        "test_bleu": bleu(translations["test"], corpus.test[1]),
        "num_updates": last.update,
        "train_time": training.costs[-1].seconds,
        "memory": training.costs[-1].memory,
        "num_param": read_parameter_count(training.log),
    }
    if job.device != "cpu":
        metrics["gpu_memory"] = last.gpu_memory
    return Outcome(
        metrics,
        curve,
        versions=_versions(),
        converged=last.converged,
        nondeterministic=""
        if job.device == "cpu"
        else "Sockeye on a GPU",  # it asks for no fixed order of sums
        save=lambda folder: save_translation_model(folder, model, prepared.folder, translations),
    )


@dataclass(frozen=True)
class _Training:
    """A model of Sockeye's: its folder, its checkpoints with their costs, and the log."""

    model: Path
    checkpoints: list[Checkpoint]
    costs: list[Cost]
    log: str


def _train_model(job: Job, prepared: Prepared, measuring: Path) -> _Training:
    """Train from the last checkpoint that was kept, or from the beginning, to the end or to a pause."""
    kept = job.state or job.scratch / "state"
    model, log = job.scratch / "model", job.scratch / "train.log"
    arguments = train_arguments(job, prepared, model)

    def read() -> _Training:
        text = log.read_text("utf-8")
        checkpoints = read_checkpoints((model / "metrics").read_text("utf-8"), text)
        return _Training(model, checkpoints, read_costs(model), text)

    if copy := latest_copy(kept, arguments):
        put_back(copy, model)
        shutil.copy(copy / LOG, log)
        known = read()
        last = known.checkpoints[-1]
        # Sockeye would go on with a training that has converged.
        if last.converged or last.diverged or last.update >= _updates(job):
            return known
    clock = "processor" if job.device == "cpu" else str(pauses_file(log))
    run_command(
        "hpobench_nmt.runner.nmt.sockeye_train",
        [str(kept), str(log), clock, *arguments],
        log,
        measuring,
        _telling(kept, _updates(job)),
    )
    training = read()
    if job.device != "cpu" and "defaulting to CPU" in training.log:
        raise RunError(f"there is no CUDA device for {job.device!r}: set device to 'cpu' or install CUDA.")
    return training


def _telling(kept: Path, updates: int) -> Callable[[], None]:
    """A function that prints a line for each new checkpoint to stdout, the training's log."""
    told = 0.0

    def tell() -> None:
        nonlocal told
        for point in read_curve(kept):
            if point["update"] > told:
                told, spent = point["update"], point["seconds"]
                left = spent * (updates / told - 1)
                sys.stdout.write(
                    f"update {told} of at most {updates}: dev perplexity {point['dev_ppl']:.2f}, "
                    f"{told / max(spent, 1e-9):.1f} updates/s, at most {left:.0f} s of training left\n"
                )
                sys.stdout.flush()

    return tell


def _updates(job: Job) -> int:
    """The updates to make: all, or as many as end with the checkpoint that the job pauses at."""
    interval, most = job.settings["checkpoint_interval"], int(job.settings["max_updates"])
    return most if job.until is None else min(most, interval * math.ceil(job.until / interval))


def train_arguments(job: Job, prepared: Prepared, model: Path) -> list[str]:
    """The command line of sockeye.train for a job."""
    s = job.settings
    options = {
        "prepared-data": prepared.data,
        "validation-source": prepared.file("dev", "source"),
        "validation-target": prepared.file("dev", "target"),
        "output": model,
        "seed": job.seed % 2**32,
        "max-seq-len": f"{s['max_length']}:{s['max_length']}",
        "num-layers": f"{s['num_layers']}:{s['num_layers']}",
        "transformer-model-size": f"{s['num_embed']}:{s['num_embed']}",
        "transformer-feed-forward-num-hidden": f"{s['num_hidden']}:{s['num_hidden']}",
        "transformer-attention-heads": f"{s['num_heads']}:{s['num_heads']}",
        # The two sides have vocabularies of their own.
        "weight-tying-type": "trg_softmax",
        "transformer-dropout-prepost": f"{s['dropout']}:{s['dropout']}",
        "transformer-dropout-attention": f"{s['attention_dropout']}:{s['attention_dropout']}",
        "transformer-dropout-act": f"{s['feed_forward_dropout']}:{s['feed_forward_dropout']}",
        "embed-dropout": f"{s['embed_dropout']}:{s['embed_dropout']}",
        "label-smoothing": s["label_smoothing"],
        # The same loss as Sockeye's own, computed faster.
        "label-smoothing-impl": "torch",
        "batch-type": "word",
        "batch-size": s["batch_size"],
        "initial-learning-rate": s["learning_rate"],
        "learning-rate-warmup": s["warmup"],
        "learning-rate-scheduler-type": s["learning_rate_scheduler"],
        "learning-rate-reduce-factor": s["reduce_factor"],
        "learning-rate-reduce-num-not-improved": s["reduce_after"],
        "optimized-metric": s["stop_on"],
        "checkpoint-interval": s["checkpoint_interval"],
        "max-num-checkpoint-not-improved": s["max_not_improved"],
        # Sockeye's BLEU goes from 0 to 1.
        "checkpoint-improvement-threshold": s["min_improvement"] / (100 if s["stop_on"] == "bleu" else 1),
        "max-updates": _updates(job),
        "decode-and-evaluate": s["checkpoint_sentences"],
        "keep-last-params": 1,
        "update-interval": s["update_interval"],
        "tf32": s["tf32"],
    }
    # What it prints is kept whole; a log file of its own would drop its beginning when it gets long.
    return [*_command_line(options), "--no-logfile", *(["--amp"] if s["amp"] else []), *_device(job.device)]


def decode_arguments(job: Job, model: Path, source: Path, output: Path) -> list[str]:
    """The command line of sockeye.translate: the best checkpoint translates the file source into output."""
    options = {
        "models": model,
        "input": source,
        "output": output,
        "beam-size": job.settings["beam_size"],
        "batch-size": job.settings["decode_batch_size"],
    }
    # Models that an earlier version kept have settings without it.
    if job.settings.get("decode_dtype", "float32") != "float32":
        options["dtype"] = job.settings["decode_dtype"]
    return _command_line(options) + _device(job.device)


def bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU, 0 to 100, with sacrebleu's defaults.

    force: lines may be tokenised already, as those of the built-in corpora are.
    """
    import sacrebleu

    return float(sacrebleu.corpus_bleu(list(translations), [list(references)], force=True).score)


def _load(job: Job) -> ParallelText:
    from hpobench_nmt.runner.corpora import ParallelCorpus, load_corpus

    corpus = load_corpus(job.corpus, job.base, job.cache)
    if not isinstance(corpus, ParallelCorpus):
        raise InputError(f"corpus {corpus.name!r} has one language: family 'sockeye' needs a parallel one.")
    return corpus


def _curve(job: Job, prepared: Prepared, training: _Training) -> list[dict[str, float]]:
    """Dev perplexity and cost at every checkpoint, and BLEU of what Sockeye decoded in training.

    Sockeye decodes the same sentences of dev each time, with a beam of 5. Its own BLEU counts subwords;
    this one is of the text, as the metric dev_bleu is. That of a sample has a name of its own, because it
    may differ by points.
    """
    bpe = prepared.target_bpe()
    model = training.model
    seconds = {cost.checkpoint: cost.seconds for cost in training.costs}
    reference = model / "decode.target.0"
    references = bpe.decode(_lines(reference)) if reference.exists() else None
    name = "dev_bleu" if job.settings["checkpoint_sentences"] == -1 else "dev_bleu_sample"
    curve = []
    for checkpoint in training.checkpoints:
        point: dict[str, float] = {"update": checkpoint.update, "dev_ppl": checkpoint.perplexity}
        point["seconds"] = seconds[checkpoint.number]
        if references is not None:
            decoded = _lines(model / f"decode.output.0.{checkpoint.number:05d}")
            point[name] = bleu(bpe.decode(decoded), references)
        curve.append(point)
    return curve


def _lines(path: Path) -> list[str]:
    """The lines of a file; unlike str.splitlines, only a newline ends one."""
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def _command_line(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def _device(device: str) -> list[str]:
    if device == "cpu":
        return ["--use-cpu"]
    _, _, number = device.partition(":")
    return ["--device-id", number or "0"]


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("sockeye", "torch", "sacrebleu", "sentencepiece", "numpy")}


FAMILY = Family(
    name="sockeye",
    corpus="parallel",
    settings=SETTINGS,
    metrics=METRICS,
    train=train,
    check=check,
    missing=missing,
)
