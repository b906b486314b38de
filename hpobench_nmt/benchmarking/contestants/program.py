"""Methods that are programs: `cmd:python agent.py`. They read and write lines of JSON.

The first message describes the problem. Further messages report results and ask for the next row;
docs/how-to/agents.md lists them. The program answers each question with one line, which names a row,
{"row": 17}, or a configuration, {"config": {"x1": 3}}.

Each trial starts a process of its own and writes all lines to a transcript. A trial that resumes takes
answers from the transcript as long as its messages are the same. It then starts the program and sends the
results so far, like those of an initial design, so that no question is asked twice. The number of questions
that have an answer is then in the first message.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.contestants.conversation import LONGEST_ANSWER, Conversation
from hpobench_nmt.benchmarking.contestants.masks import masked, unmasked
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.guard import MethodFailure
from hpobench_nmt.core.problem import MethodFactory, Problem, Progress, Request
from hpobench_nmt.core.space import Space
from hpobench_nmt.core.system.errors import InputError, shortened, warn
from hpobench_nmt.core.system.files import is_file, parse_json, read_bytes

PREFIX = "cmd"
VERSION = 1
"""The version of the messages."""

_MOST_TRANSCRIPT = 2**30
_LONGEST_NAME = 60
_EXAMPLE = '{"row": 17}'


@dataclass(frozen=True)
class Program:
    """A method that is a program.

    Attributes:
        command: the program and its arguments, in one text that is split as by a shell. No shell is used.
        name: the method's name.
        names: "shown" or "hidden". If hidden, hyperparameters are x1, x2, …, without units, and constraints
            c1, c2, ….
        values: "shown" or "hidden". If hidden, numbers and losses are mapped to others in the same order,
            labels are renamed, and rows have another order (masks.py). Each trial has its own maps.
        seconds: the time limit for an answer.
        transcript: the file of the trial's lines; None for no transcript.
    """

    command: str
    name: str = ""
    names: str = "shown"
    values: str = "shown"
    seconds: float = 60.0
    transcript: Path | None = None

    def __post_init__(self) -> None:
        """Refuse a command that cannot be run, and invalid settings."""
        where = f"method {shortened(f'{PREFIX}:{self.command}')}"
        if not hasattr(os, "fork"):
            raise InputError(f"{where}: methods that are programs need Linux or macOS.")
        words = words_of(self.command)
        if shutil.which(words[0]) is None:
            raise InputError(f"{where}: the program {words[0]!r} is not on this machine.")
        for key in ("names", "values"):
            if (given := getattr(self, key)) not in ("shown", "hidden"):
                raise InputError(f"{where}: {key} must be 'shown' or 'hidden', not {shortened(given)}.")
        if not 0 < self.seconds <= 86_400:
            raise InputError(f"{where}: seconds must be above 0 and at most 86400, not {self.seconds:g}.")

    def __call__(self, problem: Problem, rng: np.random.Generator) -> ProgramMethod:
        """The program at the start of a trial."""
        return ProgramMethod(self, problem, rng)


def words_of(command: str) -> list[str]:
    """The words of a command; InputError if there are none, or a quote is not closed."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"method {shortened(f'{PREFIX}:{command}')}: {str(error).lower()}.") from None
    if not words:
        raise InputError("a method that is a program needs a command: 'cmd:python agent.py'.")
    return words


def files_of_command(command: str) -> list[Path]:
    """The files that a command names, including those in --option=FILE."""
    found = [Path(part) for word in words_of(command) for part in (word, word.partition("=")[2]) if part]
    return list(filter(is_file, found))  # a prompt, for example, may be too long for a name


def name_of_command(command: str) -> str:
    """A name that is valid for files: the words from the script on, without files' folders and extensions."""
    words = words_of(command)
    script = next((place for place, word in enumerate(words) if place and is_file(Path(word))), 0)
    words = words[script:]
    plain = (Path(word).stem if is_file(Path(word)) else word for word in words)
    name = re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(plain)).strip("-_")
    return name[:_LONGEST_NAME].rstrip("-_") or "program"


@contextlib.contextmanager
def one_trial(make: MethodFactory, transcript: Path | None) -> Iterator[MethodFactory]:
    """The factory for one trial. A program's process ends with it, and its lines are in the transcript."""
    if not isinstance(make, Program):
        yield make
        return
    made: list[ProgramMethod] = []
    program = replace(make, transcript=transcript)

    def kept(problem: Problem, rng: np.random.Generator) -> ProgramMethod:
        made.append(program(problem, rng))
        return made[-1]

    kept.__name__ = make.name
    try:
        yield kept
    finally:
        for method in made:
            method.close()


class ProgramMethod:
    """Exchanges lines with a program for one trial. It starts at the first question without an answer."""

    def __init__(self, program: Program, problem: Problem, rng: np.random.Generator) -> None:
        self._program = program
        seed = int(rng.integers(2**31))
        self._mask = masked(problem, rng) if program.values == "hidden" else unmasked(problem)
        self._places = np.argsort(self._mask.rows).tolist()
        self._problem = problem = self._mask.problem
        hidden = program.names == "hidden"
        self._rows: list[int] = []  # of the results so far
        self._names = [f"x{j}" if hidden else h.name for j, h in enumerate(problem.space, 1)]
        self._told: list[str] = []
        self._answers = 0
        self._conversation: Conversation | None = None
        self._transcript = _Transcript(program.transcript) if program.transcript else None
        self._tell(_problem_message(problem, self._names, hidden, seed))

    def suggest(self, running: Mapping[int, float]) -> int | Request | None:
        """Ask for a row, or a row and a resource; None if the program waits."""
        shown = sorted(self._places[row] for row in running)
        started = len(self._rows) if self._problem.again else len({*self._rows, *shown})
        line = _line({"message": "ask", "running": shown, "left": self._problem.lookups - started})
        answer = self._transcript.answer_to(line) if self._transcript else None
        if answer is None:
            answer = self._asked(line)
        self._answers += 1
        request = self._request(answer)
        if isinstance(request, Request):
            return request._replace(row=int(self._mask.rows[request.row]))
        return None if request is None else int(self._mask.rows[request])

    def tell(self, index: int, losses: Floats) -> None:
        """Tell a row's losses."""
        self._tell(self._told_message(index, losses))

    def tell_constrained(self, index: int, losses: Floats, violations: Floats) -> None:
        """Tell a row's losses, and by how much it misses each bound."""
        self._tell(
            self._told_message(index, losses) | {"violations": _plain(self._mask.violations(violations))}
        )

    def observe(self, progress: Progress) -> None:
        """Tell the progress of a row's training."""
        curve = [
            {"resource": r, "cost": c, "losses": _plain(self._mask.losses(losses))}
            for r, c, losses in zip(
                _plain(progress.resources), _plain(progress.costs), progress.losses, strict=True
            )
        ]
        message = self._told_message(progress.row, progress.best)
        self._tell(message | {"curve": curve, "done": progress.done, "time": progress.time})

    def close(self) -> None:
        """End the program, if it was started."""
        if self._conversation is not None:
            self._conversation.end(_line({"message": "end"}))
            self._conversation = None
        if self._transcript is not None:
            self._transcript.close()

    def _asked(self, line: str) -> str:
        """Ask the program. If it is not running, start it and send it the trial's messages so far."""
        if self._conversation is None:
            self._conversation = Conversation(words_of(self._program.command), self._program.seconds)
            problem, *others = self._told
            if self._answers:  # by this number, a program with a seed knows which draws it has made
                problem = _line(json.loads(problem) | {"asked": self._answers})
            for told in (problem, *others):
                self._conversation.tell(told)
        start = time.monotonic()
        try:
            answer = self._conversation.ask(line)
        except MethodFailure:
            self._conversation.kill()
            self._conversation = None
            raise
        if self._transcript:
            self._transcript.add({"from": answer, "seconds": round(time.monotonic() - start, 3)})
        return answer

    def _tell(self, message: dict[str, Any]) -> None:
        line = _line(message)
        self._told.append(line)
        if self._transcript:
            self._transcript.told(line)
        if self._conversation is not None:
            self._conversation.tell(line)

    def _told_message(self, row: int, losses: Floats) -> dict[str, Any]:
        row = self._places[row]
        self._rows.append(row)
        config = _config(self._problem, row, self._names)
        return {"message": "tell", "row": row, "config": config, "losses": _plain(self._mask.losses(losses))}

    def _request(self, answer: str) -> int | Request | None:
        shown = f"the program answered {shortened(answer)}"
        if len(answer) > LONGEST_ANSWER:  # in a transcript that was changed
            raise MethodFailure(f"the program's answer is longer than {LONGEST_ANSWER:,} bytes")
        try:
            said = parse_json(answer.encode(), "the answer")
        except (InputError, RecursionError):
            raise MethodFailure(f"{shown}, which is not JSON: it must be a line such as {_EXAMPLE}") from None
        if not isinstance(said, dict) or ("row" in said) == ("config" in said):
            raise MethodFailure(f"{shown}, which has no row: it must be a line such as {_EXAMPLE}")
        row = said["row"] if "row" in said else self._row_of(said["config"], shown)
        if row is None:
            return None
        if type(row) is not int:
            raise MethodFailure(f"{shown}, in which row is not a whole number")
        n_rows = len(self._problem.configs)
        if not 0 <= row < n_rows:
            raise MethodFailure(f"{shown}, but rows go from 0 to {n_rows - 1}")
        if said.get("resource") is None:
            return row
        return Request(row, said["resource"])  # the loop checks it

    def _row_of(self, config: object, shown: str) -> int:
        real = dict(zip(self._names, self._problem.space.names, strict=True))
        if not isinstance(config, dict) or not set(config) <= set(real):
            raise MethodFailure(f"{shown}, whose config must have {', '.join(self._names)}")
        try:
            return self._problem.row({real[name]: value for name, value in config.items()})
        except InputError:
            raise MethodFailure(f"{shown}, a configuration that the table does not have") from None


class _Transcript:
    """The lines of a trial in a file: first an earlier run's, while the trial repeats them, then its own.

    A line is {"to": the sent line}, {"from": the answer, "seconds": the time it took} or {"note": …}.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._old: deque[tuple[dict[str, Any], int]] = deque()  # lines not repeated yet, and where they end
        self._end = 0  # bytes of the lines that were repeated, and of the notes after them
        self._read()
        self._file: int | None = None

    def told(self, line: str) -> None:
        """Record a sent line. If the earlier run sent another line here, the rest of that run is dropped."""
        if self._old:
            if self._old[0][0] == {"to": line}:
                self._end = self._old.popleft()[1]
                return
            self._differs()
        self.add({"to": line})

    def answer_to(self, line: str) -> str | None:
        """The earlier run's answer to this question; None if the program must be asked."""
        self.told(line)
        if self._old:
            answer = self._old[0][0].get("from")
            if isinstance(answer, str):
                self._end = self._old.popleft()[1]
                return answer
            self._differs()
        return None

    def add(self, entry: dict[str, Any]) -> None:
        """Write a line."""
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o666)
            os.ftruncate(self._file, self._end)
            os.lseek(self._file, self._end, os.SEEK_SET)
        os.write(self._file, (_line(entry) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _differs(self) -> None:
        self._old.clear()
        note = (
            "From here on, this trial differs from that of the stopped run, whose other answers are dropped."
        )
        warn(f"{self._path}: {note}")
        self.add({"note": note})

    def _read(self) -> None:
        """Read an earlier run's complete lines, up to an incomplete one, without notes."""
        if self._path.is_symlink() or not self._path.is_file():
            return
        end = 0
        for line in read_bytes(self._path, _MOST_TRANSCRIPT).splitlines(keepends=True):
            try:
                entry = parse_json(line, str(self._path))
            except (InputError, RecursionError):
                break
            if not line.endswith(b"\n") or not isinstance(entry, dict):
                break
            end += len(line)
            if "note" not in entry:
                self._old.append((entry, end))
            elif self._old:
                self._old[-1] = self._old[-1][0], end
            else:
                self._end = end


def _problem_message(problem: Problem, names: list[str], hidden: bool, seed: int) -> dict[str, Any]:
    infinite = math.isinf(problem.time)
    rows = range(len(problem.configs))
    return {
        "message": "problem",
        "version": VERSION,
        "hyperparameters": _hyperparameters(problem.space, names, hidden),
        "rows": [list(_config(problem, row, names, whole=True).values()) for row in rows],
        "objectives": [{"name": f"loss{j}", "direction": "min"} for j in range(1, problem.n_objectives + 1)],
        "constraints": [
            f"c{j}" if hidden else text for j, text in enumerate(problem.constraints, 1)
        ],
        "budget": problem.lookups,
        "clock": problem.clock,
        "time": None if infinite else problem.time,
        "n_initial": problem.n_initial,
        "workers": problem.workers,
        "resources": _plain(problem.resources),
        "resume": problem.resume,
        "seed": seed,
    } | ({} if problem.prior is None else {"prior": _plain(problem.prior)}) | (
        {"again": True} if problem.again else {}
    )  # fmt: skip


def _hyperparameters(space: Space, names: list[str], hidden: bool) -> list[dict[str, Any]]:
    known = dict(zip(space.names, names, strict=True))
    return [
        {
            "name": name,
            "kind": h.kind,
            "scale": h.scale,
            "unit": "" if hidden else h.unit,
            "values": [h.value(code) for code in h.numbers],
            "active_if": {known[parent]: list(values) for parent, values in h.active_if},
        }
        for name, h in zip(names, space, strict=True)
    ]


def _config(problem: Problem, row: int, names: list[str], whole: bool = False) -> dict[str, Any]:
    """A row's values by name. Inactive hyperparameters are left out, or None if `whole` is set."""
    values = problem.config(row)
    pairs = [(name, h, values.get(h.name)) for name, h in zip(names, problem.space, strict=True)]
    return {name: value for name, h, value in pairs if whole or h.name in values}


def _plain(values: Floats) -> list[float | None]:
    """Numbers for JSON, with None for NaN and infinity, which JSON does not have."""
    return [value if math.isfinite(value) else None for value in np.asarray(values).tolist()]


def _line(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))
