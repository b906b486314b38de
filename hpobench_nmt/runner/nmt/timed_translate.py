"""Runs sockeye.translate once or several times, and adds a line with the time of decoding to its log.

    python -m hpobench_nmt.runner.nmt.timed_translate TIMES <arguments of sockeye.translate>

The times do not include the start of Python and the loading of the model, which take as long as decoding with
a small model. Sockeye logs when decoding starts and ends. The times are taken at these two messages.
"""

from __future__ import annotations

import importlib
import logging
import re
import sys
import time

_LOGGER = "sockeye.translate"
_DECODED = re.compile(r"Decoding took ([0-9.]+) s, ([0-9.]+) s of processor time")


class _Clock(logging.Handler):
    """Takes the time at Sockeye's first and last message about decoding."""

    def __init__(self) -> None:
        super().__init__()
        self.started = self.ended = (0.0, 0.0)

    def emit(self, record: logging.LogRecord) -> None:
        """Record the wall-clock and processor times of the two messages."""
        now = time.perf_counter(), time.process_time()
        if record.getMessage().startswith("Translating"):
            self.started = now
        elif record.getMessage().startswith("Processed"):
            self.ended = now


def main() -> None:
    """Run Sockeye's own command with the arguments after the first one, and log the two times."""
    times = int(sys.argv.pop(1))
    clock = _Clock()
    logger = logging.getLogger(_LOGGER)
    logger.addHandler(clock)
    translate = importlib.import_module(_LOGGER).main
    for _ in range(times):
        translate()
        seconds, cpu_seconds = (end - start for start, end in zip(clock.started, clock.ended, strict=True))
        logger.info("Decoding took %.4f s, %.4f s of processor time", seconds, cpu_seconds)


def read_times(log: str) -> tuple[float, float]:
    """The least wall-clock seconds and the least processor seconds in the log of this command."""
    seconds, cpu_seconds = zip(*_DECODED.findall(log), strict=True)
    return min(map(float, seconds)), min(map(float, cpu_seconds))


if __name__ == "__main__":
    main()
