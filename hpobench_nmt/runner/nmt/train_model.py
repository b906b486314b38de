"""One training with Sockeye's own commands, from a kept checkpoint or from the beginning."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.runner.disk.curve_file import read_curve
from hpobench_nmt.runner.disk.training_log import progress, say
from hpobench_nmt.runner.family import Job
from hpobench_nmt.runner.nmt.commands import pauses_file, run_command
from hpobench_nmt.runner.nmt.prepare_corpus import Prepared
from hpobench_nmt.runner.nmt.settings import SockeyeSettings
from hpobench_nmt.runner.nmt.sockeye_logs import Checkpoint, read_checkpoints
from hpobench_nmt.runner.nmt.sockeye_train import LOG, Cost, latest_copy, put_back, read_costs


@dataclass(frozen=True)
class Training:
    """A trained model: Sockeye's folder, the checkpoints with their costs, and the log."""

    model: Path
    checkpoints: list[Checkpoint]
    costs: list[Cost]
    log: str


def train_model(job: Job[SockeyeSettings], prepared: Prepared, measuring: Path | None) -> Training:
    """Train from the last checkpoint that was kept, or from the beginning, to the end or to a pause."""
    kept = job.state or job.scratch / "state"
    model, log = job.scratch / "model", job.scratch / "train.log"
    arguments = train_arguments(job, prepared, model)

    def read() -> Training:
        text = log.read_text("utf-8")
        checkpoints = read_checkpoints((model / "metrics").read_text("utf-8"), text)
        return Training(model, checkpoints, read_costs(model), text)

    if copy := latest_copy(kept, arguments):
        put_back(copy, model)
        shutil.copy(copy / LOG, log)
        known = read()
        last = known.checkpoints[-1]
        # Sockeye would continue a training that has converged.
        if last.converged or last.diverged or last.update >= updates_of(job):
            return known
    clock = "processor" if job.device == "cpu" else str(pauses_file(log))
    words = [str(kept), str(log), clock, str(job.settings.workers), str(job.settings.max_updates), *arguments]
    telling = _telling(kept, updates_of(job))
    run_command("hpobench_nmt.runner.nmt.sockeye_train", words, log, measuring, telling)
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
                speed = f"{told / max(spent, 1e-9):.1f} updates/s"
                position, left = f"update {told} of at most {updates}", spent * (updates / told - 1)
                say(progress(position, point["dev_ppl"], speed, left))

    return tell


def updates_of(job: Job[SockeyeSettings]) -> int:
    """The number of updates to make: all, or those up to the checkpoint at which the job pauses."""
    interval, most = job.settings.checkpoint_interval, job.settings.max_updates
    return most if job.until is None else min(most, interval * math.ceil(job.until / interval))


def train_arguments(job: Job[SockeyeSettings], prepared: Prepared, model: Path) -> list[str]:
    """The command line of sockeye.train for a job."""
    s = job.settings
    options = {
        "prepared-data": prepared.data,
        "validation-source": prepared.file("dev", "source"),
        "validation-target": prepared.file("dev", "target"),
        "output": model,
        "seed": job.seed % 2**32,
        "max-seq-len": f"{s.max_length}:{s.max_length}",
        "num-layers": f"{s.num_layers}:{s.num_layers}",
        "transformer-model-size": f"{s.num_embed}:{s.num_embed}",
        "transformer-feed-forward-num-hidden": f"{s.num_hidden}:{s.num_hidden}",
        "transformer-attention-heads": f"{s.num_heads}:{s.num_heads}",
        # The sides have separate vocabularies, so only the target embedding can be tied.
        "weight-tying-type": "trg_softmax",
        "transformer-dropout-prepost": f"{s.dropout}:{s.dropout}",
        "transformer-dropout-attention": f"{s.attention_dropout}:{s.attention_dropout}",
        "transformer-dropout-act": f"{s.feed_forward_dropout}:{s.feed_forward_dropout}",
        "embed-dropout": f"{s.embed_dropout}:{s.embed_dropout}",
        "label-smoothing": s.label_smoothing,
        # The same loss as Sockeye's own, computed faster.
        "label-smoothing-impl": "torch",
        "batch-type": "word",
        "batch-size": s.batch_size,
        "initial-learning-rate": s.learning_rate,
        "learning-rate-warmup": s.warmup,
        "learning-rate-scheduler-type": s.learning_rate_scheduler,
        "learning-rate-reduce-factor": s.reduce_factor,
        "learning-rate-reduce-num-not-improved": s.reduce_after,
        "optimized-metric": s.stop_on,
        "checkpoint-interval": s.checkpoint_interval,
        "max-num-checkpoint-not-improved": s.max_not_improved,
        # Sockeye's BLEU is between 0 and 1.
        "checkpoint-improvement-threshold": s.min_improvement / (100 if s.stop_on == "bleu" else 1),
        "max-updates": updates_of(job),
        "decode-and-evaluate": s.checkpoint_sentences,
        "keep-last-params": 1,
        "update-interval": s.update_interval,
        "tf32": s.tf32,
    }
    # Its own log file would lose its beginning when it gets long. What it prints is kept in full.
    flags = ["--no-logfile", *["--amp"] * s.amp, *["--dist"] * (s.workers > 1)]
    return [*_command_line(options), *flags, *_device(job.device)]


def decode_arguments(job: Job[SockeyeSettings], model: Path, source: Path, output: Path) -> list[str]:
    """The command line of sockeye.translate: the best checkpoint translates the file source into output."""
    s = job.settings
    options: dict[str, object] = {"models": model, "input": source, "output": output}
    options |= {"beam-size": s.beam_size, "batch-size": s.decode_batch_size}
    if s.decode_dtype != "float32":
        options["dtype"] = s.decode_dtype
    if not s.tf32:  # the default of the setting is Sockeye's own
        options["tf32"] = False
    return _command_line(options) + _device(job.device)


def _command_line(options: Mapping[str, object]) -> list[str]:
    """The options as words. Paths are absolute, so that a training can resume in any working directory."""
    values = {k: value.resolve() if isinstance(value, Path) else value for k, value in options.items()}
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def _device(device: str) -> list[str]:
    if device == "cpu":
        return ["--use-cpu"]
    _, _, number = device.partition(":")
    return ["--device-id", number or "0"]
