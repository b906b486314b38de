"""A program that answers a line with a line: one process, with a time limit for each answer.

It is guarded as all child processes are (core/system/processes.py), so it ends with this process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Sequence

from hpobench_nmt.core.guard import MethodFailure
from hpobench_nmt.core.system.errors import shortened
from hpobench_nmt.core.system.processes import Program, last_line

LONGEST_ANSWER = 65_536
"""The maximum length of an answer, in bytes."""

# After the line which reports that its trial has ended, a program has this long to end by itself.
_GRACE_SECONDS = 1.0
_CHUNK = 65_536


class Conversation:
    """A running program. The constructor starts it, and raises MethodFailure if that fails.

    Lines that need no answer are sent with the next question. Until then, a program that does not read its
    input causes no delay.
    """

    def __init__(self, words: Sequence[str], seconds: float) -> None:
        self._seconds = seconds
        self._to_send = bytearray()
        self._heard = bytearray()
        self._errors = b""
        (reads, stdin), (stdout, writes), (stderr, complains) = (os.pipe() for _ in range(3))
        self._stdin = os.fdopen(stdin, "wb", buffering=0)
        self._stdout, self._stderr = (os.fdopen(file, "rb", buffering=0) for file in (stdout, stderr))
        self._files = self._stdin, self._stdout, self._stderr
        try:
            self._program = Program(words, (reads, writes, complains))
        except OSError as error:
            self._close()
            raise MethodFailure(f"the program {words[0]!r} cannot be started: {error}") from error
        finally:
            for file in (reads, writes, complains):
                os.close(file)
        self._selector = selectors.DefaultSelector()
        for each in self._files:
            os.set_blocking(each.fileno(), False)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)

    def tell(self, line: str) -> None:
        """Queue a line that needs no answer."""
        self._to_send += line.encode() + b"\n"

    def ask(self, line: str) -> str:
        """Send the queued lines and this one, and return the answer, which is one line, without its line end.

        Raises MethodFailure if there is no answer, it is too long, or the program wrote without being asked.
        """
        self._exchange(0.0, sending=False)
        self._refuse_unasked()
        self.tell(line)
        deadline = time.monotonic() + self._seconds
        while b"\n" not in self._heard:
            if len(self._heard) > LONGEST_ANSWER:
                raise MethodFailure(f"the program's answer is longer than {LONGEST_ANSWER:,} bytes")
            left = deadline - time.monotonic()
            if left <= 0:
                raise MethodFailure(self._too_slow())
            if not self._exchange(left):
                raise MethodFailure(self._how_it_ended(deadline))
        answer, _, rest = bytes(self._heard).partition(b"\n")
        if len(answer) > LONGEST_ANSWER:
            raise MethodFailure(f"the program's answer is longer than {LONGEST_ANSWER:,} bytes")
        self._heard = bytearray(rest)
        return answer.decode(errors="replace").rstrip("\r")

    def end(self, line: str) -> None:
        """Send a last line, close the program's input, and end it with its process group."""
        self.tell(line)
        with contextlib.suppress(OSError):
            os.write(self._stdin.fileno(), self._to_send)
        self._stdin.close()
        self._program.wait(_GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the program and all processes of its group."""
        self._program.close()
        self._selector.close()
        self._close()

    def _close(self) -> None:
        for file in self._files:
            file.close()

    def _exchange(self, seconds: float, sending: bool = True) -> bool:
        """Wait for at most some seconds to write and read; False if the program has closed its output."""
        registered = self._stdin in self._selector.get_map()
        if sending and self._to_send and not registered:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        elif registered and not (sending and self._to_send):
            self._selector.unregister(self._stdin)
        is_open = True
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._stdin:
                self._send()
                continue
            with contextlib.suppress(BlockingIOError):
                read = os.read(key.fd, _CHUNK)
                if key.fileobj is self._stdout:
                    self._heard += read
                    is_open = is_open and bool(read)
                elif read:
                    self._errors = (self._errors + read)[-_CHUNK:]
                else:
                    self._selector.unregister(self._stderr)
        return is_open

    def _send(self) -> None:
        try:
            sent = os.write(self._stdin.fileno(), self._to_send[:_CHUNK])
            del self._to_send[:sent]
        except BlockingIOError:
            return
        except OSError:  # it no longer reads; its answer or its end comes through the other pipe
            self._to_send.clear()

    def _refuse_unasked(self) -> None:
        if self._heard:
            line = bytes(self._heard).partition(b"\n")[0].decode(errors="replace")
            raise MethodFailure(
                f"the program wrote {shortened(line)} without being asked: an answer is one line, and "
                f"everything else must go to standard error"
            )

    def _too_slow(self) -> str:
        problem = f"the program gave no answer within {self._seconds:g} s"
        if self._to_send:
            return f"{problem}: it does not read its standard input"
        if self._heard:
            return f"{problem}: its line does not end"
        return f"{problem}: if it has written one, it must flush its standard output"

    def _how_it_ended(self, deadline: float) -> str:
        ended = self._program.wait(max(min(deadline - time.monotonic(), _GRACE_SECONDS), 0.0))
        if ended is None:
            return "the program closed its standard output"
        self._selector.unregister(self._stdout)
        self._exchange(0.0, sending=False)  # read its last error messages
        said = last_line(self._errors)
        how = f"signal {ended.signal}" if ended.signal else str(ended)
        return f"the program ended without an answer ({how}{': ' + said if said else ''})"
