"""A Ctrl-C is not lost where C code calls Python and drops what it raises, as msgspec does in a lookup."""

from __future__ import annotations

import signal
import sys
import threading

_pressed = threading.Event()


def remember_ctrl_c() -> None:
    """Call this in a program's main thread; from then on, `raise_lost_ctrl_c` raises a Ctrl-C again."""

    def interrupt(number: int, frame: object) -> None:
        _pressed.set()
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, interrupt)


def raise_lost_ctrl_c() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed, but not in the clean-up after an error."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if _pressed.is_set() and in_main_thread and sys.exc_info()[0] is None:
        raise KeyboardInterrupt
