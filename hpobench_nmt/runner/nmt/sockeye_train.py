"""Runs sockeye.train, and copies its folder after every checkpoint, so that it can resume after a kill.

    python -m hpobench_nmt.runner.nmt.sockeye_train FOLDER LOG CLOCK WORKERS UPDATES <arguments of Sockeye>

Sockeye writes the files of a checkpoint one after the other. If it is killed meanwhile, its folder has parts
of two checkpoints. A copy gets its name, such as `checkpoint-00007`, when it is complete. Only then is the
copy before it removed. A copy also holds the log so far and the cost of each checkpoint.

CLOCK is "processor", or a file with the seconds of pauses. With a file, the cost is wall-clock time without
these pauses. WORKERS is the number of processes that train. UPDATES is the limit of the whole training,
whereas --max-updates may be the limit of a pause.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.folders import remove_folder
from hpobench_nmt.runner.disk.curve_file import write_curve
from hpobench_nmt.runner.disk.training_log import say
from hpobench_nmt.runner.nmt.sockeye_logs import read_checkpoints
from hpobench_nmt.runner.nmt.sockeye_workers import end_with, join, keep_gpu_state, rank

_COPY = re.compile(r"checkpoint-(\d{5})")
COSTS = "costs.json"
LOG = "train.log"
ARGUMENTS = "arguments.json"
# The same training may have another limit of updates, and may resume on another GPU.
_MAY_DIFFER = ("--max-updates", "--device-id")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Cost:
    """The cost of a training up to a checkpoint, numbered from 1, with the perplexity on dev.

    The seconds are processor time on a CPU, and wall-clock time without pauses on a CUDA device. The memory
    is the peak resident memory in MB; 0 if the system does not report it.
    """

    checkpoint: int
    update: int
    perplexity: float
    seconds: float
    memory: float


def latest_copy(folder: Path, arguments: list[str]) -> Path | None:
    """The copy of the last checkpoint of a training with these arguments; None if there is none."""
    if not folder.is_dir():
        return None
    copies = sorted(path for path in folder.iterdir() if _COPY.fullmatch(path.name))
    if not copies:
        return None
    with suppress(OSError, ValueError):
        if _fixed(json.loads((copies[-1] / ARGUMENTS).read_text("utf-8"))) == _fixed(arguments):
            return copies[-1]
    return None


def put_back(copy: Path, model: Path) -> None:
    """Replace Sockeye's folder by a copy of a checkpoint."""
    remove_folder(model)
    shutil.copytree(copy, model, symlinks=True)


def read_costs(model: Path) -> list[Cost]:
    """The costs of the checkpoints in Sockeye's folder."""
    path = model / COSTS
    return [Cost(**cost) for cost in json.loads(path.read_text("utf-8"))] if path.exists() else []


def curve_of(costs: Sequence[Cost]) -> list[dict[str, float]]:
    """The learning curve of a training with these costs."""
    return [{"update": cost.update, "dev_ppl": cost.perplexity, "seconds": cost.seconds} for cost in costs]


def copy_after_checkpoint(
    model: Path, folder: Path, log: Path, arguments: list[str], elapsed: Callable[[], float]
) -> Callable[[int], None]:
    """A function for Sockeye to call after each checkpoint: it records the cost and makes a copy in `folder`.

    `model`, `log` and `arguments` are Sockeye's own. `elapsed` gives the seconds of training in this process.
    """
    costs = read_costs(model)
    before = costs[-1].seconds if costs else 0.0

    def after(checkpoint: int) -> None:
        memory = max([_peak(), *(cost.memory for cost in costs)])
        checkpoints = read_checkpoints((model / "metrics").read_text("utf-8"), log.read_text("utf-8"))
        last = checkpoints[-1]
        seconds = round(before + elapsed(), 3)
        costs.append(Cost(checkpoint, last.update, last.perplexity, seconds, memory))
        part = folder / "part"
        try:
            (model / COSTS).write_text(json.dumps([asdict(cost) for cost in costs]), "utf-8")
            (model / ARGUMENTS).write_text(json.dumps(_fixed(arguments)), "utf-8")
            folder.mkdir(parents=True, exist_ok=True)
            remove_folder(part)
            shutil.copytree(model, part, symlinks=True)
            shutil.copy(log, part / LOG)
            target = folder / f"checkpoint-{checkpoint:05d}"
            remove_folder(target)  # of another training
            part.replace(target)
        except OSError as error:  # training continues: the copy before, if any, is still complete
            say(f"checkpoint {checkpoint} cannot be kept in {folder}: {error}")
            remove_folder(part)
            return
        write_curve(folder, curve_of(costs))
        for path in folder.iterdir():
            if (found := _COPY.fullmatch(path.name)) and int(found[1]) != checkpoint:
                remove_folder(path)

    return after


def main() -> None:
    """Run Sockeye's own command with the arguments after the first five."""
    folder, log, clock, workers, updates, *arguments = sys.argv[1:]
    sys.argv[1:] = arguments
    options: Any = importlib.import_module("sockeye.arguments")
    parser = options.ConfigArgumentParser()
    options.add_train_cli_args(parser)
    chosen = parser.parse_args(arguments)

    _repair_loading()
    _decay_until(int(updates))
    _score_bleu_alone()
    model = Path(chosen.output)
    others = join(int(workers), None if chosen.use_cpu else chosen.device_id, model)
    if not chosen.use_cpu:
        keep_gpu_state(model)
    over = end_with(others)
    train: Any = importlib.import_module("sockeye.train").train
    elapsed = _watch(clock)  # without imports, which every pause would add again
    after = copy_after_checkpoint(model, Path(folder), Path(log), arguments, elapsed) if not rank() else None
    train(chosen, checkpoint_callback=after)
    over.set()
    for other in others:
        other.wait()


def _watch(clock: str) -> Callable[[], float]:
    """A function that returns the seconds since now: processor time, or wall-clock time without pauses."""

    def now() -> float:
        if clock == "processor":
            return time.process_time()
        paused = Path(clock)
        return time.perf_counter() - (float(paused.read_text("utf-8")) if paused.exists() else 0.0)

    started = now()
    return lambda: now() - started


def _repair_loading() -> None:
    """Sockeye 3.1.34 resumes one batch too early: it would train on the last batch of a checkpoint again."""
    data: Any = importlib.import_module("sockeye.data_io").ParallelSampleIter
    load = data.load_state

    def load_state(self: Any, name: str) -> None:
        load(self, name)
        self.curr_batch_index += 1

    data.load_state = load_state


def _decay_until(updates: int) -> None:
    """Make a linearly falling learning rate reach 0 after this many updates, not at the training's pause."""
    schedulers: Any = importlib.import_module("sockeye.lr_scheduler")
    make = schedulers.get_lr_scheduler
    schedulers.get_lr_scheduler = lambda *arguments: make(*arguments[:-1], updates)


def _score_bleu_alone() -> None:
    """Leave out all scores except BLEU of sentences that Sockeye decodes at checkpoints: nothing reads them.

    With a small model, TER alone takes as long as decoding the sentences, or longer.
    """
    evaluate: Any = importlib.import_module("sockeye.evaluate")
    for name in ("chrf", "rouge1", "rouge2", "rougel", "ter"):
        setattr(evaluate, f"raw_corpus_{name}", lambda **_: math.nan)


def _fixed(arguments: list[str]) -> list[str]:
    """The arguments without those that may differ when a training resumes."""
    at = [i for i, word in enumerate(arguments) if word in _MAY_DIFFER]
    return [word for i, word in enumerate(arguments) if i not in at and i - 1 not in at]


def _peak() -> float:
    with suppress(OSError):
        found = _PEAK.search(Path("/proc/self/status").read_text("utf-8"))
        return int(found[1]) * 1024 / 1e6 if found else 0.0
    return 0.0


if __name__ == "__main__":
    main()
