"""Runs one of Sockeye's commands."""

from __future__ import annotations

import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.core.system.processes import Program, run_program
from hpobench_nmt.runner.disk.locks import is_held
from hpobench_nmt.runner.family import STOPPING, TrainingStarved, tells_of_no_memory

_LOG_PREFIX = re.compile(r"^\[(INFO|WARNING|ERROR|CRITICAL):[^\]]*\]\s*")


def run_command(
    module: str,
    arguments: Sequence[str],
    log: Path,
    pauses_for: Path | None = None,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Run `python -m module arguments` to its end, on one thread.

    Args:
        module, arguments: for example "sockeye.train" and its command line.
        log: file that its output is added to.
        pauses_for: the path of the lock (`exclusive`) that a process holds while it measures a time.
            Meanwhile the command stands still. The seconds of all pauses are in `pauses_file(log)`.
        watch: called a few times a second while the command runs.

    Raises:
        TrainingStarved: it ran out of memory, or was killed.
        RunError: it failed, was asked to stop, or the disk is full. None of these is known to be the fault of
            the configuration. A broken installation must not fill a ledger with failures.
    """
    paused, since = 0.0, math.nan

    def pause_and_watch(program: Program) -> None:
        nonlocal paused, since
        pause = pauses_for is not None and is_held(pauses_for)
        if pause and math.isnan(since):
            program.signal(signal.SIGSTOP)
            since = time.perf_counter()
        elif not pause and not math.isnan(since):
            paused, since = paused + time.perf_counter() - since, math.nan
            pauses_file(log).write_text(str(paused), "utf-8")
            program.signal(signal.SIGCONT)
        watch()

    words = [sys.executable, "-m", module, *arguments]
    ended = run_program(words, log, os.environ | _ENVIRONMENT, watch=pause_and_watch)
    if ended is not None and ended.code:
        raise _failure(module, ended.code, log)


def pauses_file(log: Path) -> Path:
    """The file with the seconds for which a command with that log has stood still."""
    return log.with_name(f"{log.name}.pauses")


_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",  # otherwise earlier output would come after an error in the log
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # With these, glibc keeps freed memory. Every update allocates and frees the same large tensors, and on a
    # CPU a third of its time went into fresh pages.
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
}


def _failure(module: str, code: int, log: Path) -> Exception:
    """The error for a command that ended with that code and that log."""
    text = log.read_text("utf-8", errors="replace")
    # If a training has several processes, each writes its own log (sockeye_workers.py).
    others = [path.read_text("utf-8", errors="replace") for path in sorted(log.parent.glob("worker-*.log"))]
    reason = last_words(text)
    if -code in STOPPING or "KeyboardInterrupt" in reason:
        return RunError(f"{module} was stopped.")
    if code == -signal.SIGKILL:
        return TrainingStarved(f"{module} was killed, most likely for lack of memory.")
    # In CUDA's error, further lines follow the line about memory.
    tracebacks = [each.rpartition("Traceback (most recent call last)")[2] for each in (text, *others)]
    if "No space left on device" in tracebacks[0]:  # a training continues if it cannot save its state
        return RunError(f"{module}: no space left on the disk. Free some space and run again.")
    if told := [line for each in tracebacks for line in each.splitlines() if tells_of_no_memory(line)]:
        return TrainingStarved(f"{module}: out of memory ({last_words(told[-1])})")
    if code < 0:
        return TrainingStarved(f"{module} was ended by signal {-code}: {reason or 'it wrote no log'}")
    return RunError(f"{module} failed with exit code {code}: {reason or 'it wrote nothing'} (see {log})")


def last_words(text: str) -> str:
    """The last line of a log with a message, without its prefix and at most 300 characters long.

    Sockeye prints an exception with its traceback, whose last line names the exception.
    """
    for line in reversed(text.splitlines()):
        words = _LOG_PREFIX.sub("", line).strip()
        if words and not words.startswith(("^", "~", "File ", "warnings.warn")):
            return words[:300]
    return ""
