"""sockeye.translate with one line more at the end of its log: what the decoding itself took.

Without the start of Python and the loading of the model, which take as long as a small model's decoding.
Sockeye logs when decoding starts and ends; the times are taken at these two messages.
"""

from __future__ import annotations

import importlib
import logging
import re
import time

_LOGGER = "sockeye.translate"
_DECODED = re.compile(r"Decoding took ([0-9.]+) s, ([0-9.]+) s of processor time")


class _Clock(logging.Handler):
    """Takes the time at Sockeye's first and last message about decoding."""

    def __init__(self) -> None:
        super().__init__()
        self.started = self.ended = (0.0, 0.0)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the clock and the processor time of the two messages."""
        now = time.perf_counter(), time.process_time()
        if record.getMessage().startswith("Translating"):
            self.started = now
        elif record.getMessage().startswith("Processed"):
            self.ended = now


def main() -> None:
    """Run Sockeye's own command with this process's arguments, then log the two times."""
    clock = _Clock()
    logger = logging.getLogger(_LOGGER)
    logger.addHandler(clock)
    importlib.import_module(_LOGGER).main()
    seconds, cpu_seconds = (end - start for start, end in zip(clock.started, clock.ended, strict=True))
    logger.info("Decoding took %.4f s, %.4f s of processor time", seconds, cpu_seconds)


def read_times(log: str) -> tuple[float, float]:
    """Seconds by the clock and of the processor, from the log of this command."""
    seconds, cpu_seconds = _DECODED.findall(log)[-1]
    return float(seconds), float(cpu_seconds)


if __name__ == "__main__":
    main()
