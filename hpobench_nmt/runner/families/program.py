"""A user's own program as a family: one run of the program is one training.

The program is started without a shell, in the current folder. Its arguments have names of hyperparameters in
braces, such as `--lr {learning_rate}`, and it reports metrics by what it prints, or in a file.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.space import Value
from hpobench_nmt.core.system.errors import InputError, check_known, not_written
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.processes import Program, run_program
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.runner.disk.curve_file import read_curve, write_curve
from hpobench_nmt.runner.family import Job, Outcome, TrainingFailed, TrainingStarved

PLACES = ("seed", "config", "checkpoint", "folder", "gpu")
"""Names in braces that are not hyperparameters."""

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_MOST_LOG = 2**30
_CHUNK = 2**24
_TAIL_BYTES, _TAIL_LINES = 2000, 3


@dataclass(frozen=True)
class Command:
    """How a program is run, and how its metrics are read.

    Attributes:
        words: the program and its arguments, with names in braces.
        metrics: the names of the metrics.
        flags: arguments that are added where a hyperparameter is true, by its name.
        pattern: a regular expression whose last match in the output has the metrics: in a group, or in
            groups with their names. If empty, the output has lines of JSON with the metrics.
        file: a JSON file in {folder} that has the metrics instead; empty: the output has them.
        key: the key of a line of JSON that has the resource of a checkpoint, such as "epoch"; empty: none.
        timeout: the seconds after which a training is stopped.
    """

    words: tuple[str, ...]
    metrics: tuple[str, ...]
    flags: Mapping[str, str]
    pattern: str = ""
    file: str = ""
    key: str = ""
    timeout: float = math.inf

    @property
    def names(self) -> set[str]:
        """The names in braces."""
        return {name for word in self.words for name in _PLACE.findall(word) if name}

    def check(self, hyperparameters: list[str]) -> None:
        """Refuse a command with an unknown name, or without one of the hyperparameters."""
        known = (*hyperparameters, *PLACES)
        check_known("name in braces", sorted(self.names), known, "(write a brace as {{)")
        unused = [name for name in hyperparameters if name not in self.names | self.flags.keys()]
        if unused and "config" not in self.names:
            raise InputError(
                f"the program does not receive {', '.join(unused)}: write {{{unused[0]}}} in an argument, or "
                f"{{config}} for a JSON file of the configuration."
            )
        if self.file and "folder" not in self.names:
            raise InputError(
                f"the metrics are read from {self.file} in the training's own folder, so one argument of the "
                f"program must be {{folder}}."
            )

    def filled(self, configuration: Mapping[str, Value], places: Mapping[str, object]) -> list[str]:
        """The program and its arguments for a configuration.

        An argument with an inactive hyperparameter is left out, and so is the option before its value.
        """
        values = {**places, **configuration}
        found: list[str] = []
        before = ""
        for word in self.words:
            names = [name for name in _PLACE.findall(word) if name]
            if all(name in values for name in names):
                found.append(_PLACE.sub(lambda at: _text(values[at[1]]) if at[1] else at[0][0], word))
            elif _PLACE.fullmatch(word) and before.startswith("-") and not _PLACE.search(before):
                found.pop()
            before = word
        return found + [flag for name, flag in self.flags.items() if configuration.get(name) is True]

    def __call__(self, job: Job[Any], log: Path, refuse_stopped: Callable[[], None]) -> Outcome:
        """Train one configuration, of `job.settings`, and append the program's output to a log.

        A program with checkpoints is stopped, by SIGTERM and then SIGKILL, at its first checkpoint from
        `job.until` on. The folder {checkpoint} is the same each time, so that it can resume there.

        Raises TrainingFailed, with the last lines of the output, if the program fails, prints too much or
        takes too long, or if a metric is missing or not finite. Raises InputError if it cannot be started.
        """
        before = read_curve(job.state) if job.state and self.key else []
        if job.until and before and before[-1]["update"] >= job.until:  # a kill came before this was told
            return Outcome({}, before, paused=True)
        gpu = job.device.partition("cuda:")[2]
        words = self.filled(job.settings, _places(self, job, gpu))
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"$ {shlex.join(words)}\n")
        except OSError as error:
            raise not_written(log, error) from error
        output = _Output(self, log, before)
        paused = False

        def watch(program: Program) -> None:
            nonlocal paused
            refuse_stopped()
            if log.stat().st_size - output.start > _MOST_LOG:
                raise TrainingFailed(f"printed more than {_MOST_LOG / 1e9:.0f} GB")
            if output.read() and job.state:
                write_curve(job.state, output.curve)
            if job.until and output.new and output.curve[-1]["update"] >= job.until:
                paused = True
                program.stop()

        environment = os.environ | {"PYTHONUNBUFFERED": "1"} | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})
        try:
            ended = run_program(words, log, environment, self.timeout, watch)
        except OSError as error:
            raise InputError(f"{words[0]}: cannot be started: {error}.") from None
        output.read()
        if paused:
            if job.state:
                write_curve(job.state, output.curve)
            return Outcome({}, output.curve, paused=True)
        if ended is None:
            raise TrainingFailed(f"stopped after {self.timeout:g} s (--timeout){output.tail}")
        if ended.code:
            kind = TrainingStarved if ended.signal == signal.SIGKILL else TrainingFailed
            raise kind(f"{ended}{output.tail}")
        metrics = output.metrics
        if self.file:
            metrics = _of_file(job.scratch / self.file, self)
        for name in self.metrics:
            if name not in metrics:
                raise TrainingFailed(f"ended without {name}{output.tail}")
            if not math.isfinite(metrics[name]):
                raise TrainingFailed(f"{name} is {metrics[name]}{output.tail}")
        return Outcome({name: metrics[name] for name in self.metrics}, output.curve)


class _Output:
    """Reads metrics and checkpoints from a log while a program appends to it.

    Attributes:
        start: the size of the log before.
        metrics: the latest values.
        curve: the checkpoints, including those of earlier runs of the same configuration.
        new: how many checkpoints this run has printed.
    """

    def __init__(self, command: Command, log: Path, before: list[dict[str, float]]) -> None:
        self._command, self._log = command, log
        self.start = self._at = log.stat().st_size
        self.metrics: dict[str, float] = {}
        self.curve = before
        self.new = 0

    def read(self) -> bool:
        """Read the lines that are complete; returns whether there were any."""
        at = self._at
        with self._log.open("rb") as file:
            while True:
                file.seek(self._at)
                chunk = file.read(_CHUNK)
                whole = chunk.rfind(b"\n") + 1 or len(chunk) * (len(chunk) == _CHUNK)
                if not whole:
                    return self._at > at
                self._at += whole
                for line in chunk[:whole].splitlines():
                    self._read_line(line.decode(errors="replace"))

    def _read_line(self, line: str) -> None:
        if self._command.pattern:
            if found := re.search(self._command.pattern, line):
                given = found.groupdict() or {self._command.metrics[0]: found[1]}
                numbers = {name: _number(text) for name, text in given.items()}
                self.metrics |= {name: value for name, value in numbers.items() if value is not None}
            return
        told = _object_in(line)
        values = _metrics_in(told, self._command)
        self.metrics |= values
        at = told.get(self._command.key)
        if not self._command.key or not is_number(at) or not at > 0 or not values:
            return
        if self.new == 0:  # the program has started again, from its state or from the beginning
            self.curve = [point for point in self.curve if point["update"] < at]
        if not self.curve or at > self.curve[-1]["update"]:
            self.curve.append({"update": float(at), **{k: v for k, v in values.items() if math.isfinite(v)}})
            self.new += 1

    @property
    def tail(self) -> str:
        """The last lines of this run's output, for a reason."""
        with self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.start, size - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
        last = [printable(line) for line in lines if line][-_TAIL_LINES:]
        return f": {'; '.join(last)}" if last else ""


def _places(command: Command, job: Job[Any], gpu: str) -> dict[str, object]:
    places: dict[str, object] = {"seed": job.seed, "folder": job.scratch.resolve()}
    if gpu:
        places["gpu"] = gpu
    if "config" in command.names:
        places["config"] = path = job.scratch.resolve() / "config.json"
        path.write_text(json.dumps({**job.settings, "seed": job.seed}) + "\n", encoding="utf-8")
    if "checkpoint" in command.names and job.state:
        places["checkpoint"] = state = job.state.resolve() / "checkpoint"
        state.mkdir(parents=True, exist_ok=True)
    return places


def _of_file(path: Path, command: Command) -> dict[str, float]:
    try:
        return _metrics_in(_object_in(read_bytes(path).decode()), command)
    except (OSError, UnicodeDecodeError, InputError) as error:
        raise TrainingFailed(f"{path.name} cannot be read: {error}") from None


def _object_in(text: str) -> dict[str, Any]:
    """The JSON object at the end of a line. A progress bar may stand before it."""
    at = text.find("{")
    if at < 0:
        return {}
    try:
        found = json.loads(text[at:])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _metrics_in(told: Mapping[str, Any], command: Command) -> dict[str, float]:
    return {name: float(told[name]) for name in command.metrics if is_number(told.get(name))}


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
