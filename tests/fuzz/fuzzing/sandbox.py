"""A world of its own for each input, in which the command line runs in this process and is watched."""

import io
import json
import os
import signal
import time
import traceback
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpobench_nmt.cli.main import main

SECRET = b"what lies outside stays outside\n"
SEEN = "home/seen"  # where the first leaderboard of a user is noted
VICTIMS = ("victim", "work/victim", "work/results/victim", "home/victim")
_SECONDS = 20  # for all commands of an input
_RESIDENT = 2 * 1024**3  # bytes
_LONGEST = 1000  # characters of an error message: one line that can be read
_OF_OLD = "ledger.jsonl: no hashes, because an earlier version wrote"
_NOTES = (
    "Left out: ",
    "Note: ",
    "Cannot be used: ",
    "Not finished, and left out: ",
    "Not installed: ",
    "method ",
)


def _got_hashes(before, after):
    """Whether a manifest that had no hashes has them now, and is the same otherwise."""
    try:
        old, new = (json.loads(content) for content in (before, after))
        return "sha256" not in old and {**new, "format": old["format"]} == {
            **old, "observations": new["observations"], "sha256": new["sha256"]
        }  # fmt: skip
    except (TypeError, ValueError, KeyError, RecursionError):
        return False


class _Hangs(BaseException):
    """No error that a command would catch."""


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Sandbox:
    """A world of its own for one input: a home, a folder to work in, and files around them that must stay.

    Attributes:
        root: holds everything; `home` and `work` are below it.
        told: how to repeat the test, what was mutated, which commands ran: the message if it fails.
        seconds: how long its commands may still take.
    """

    root: Path
    told: list[str] = field(default_factory=list)
    seconds: float = _SECONDS

    @property
    def home(self):
        return self.root / "home"

    @property
    def work(self):
        return self.root / "work"

    def write(self, files):
        """Write files, given as contents by path below the root."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def mutated(self, name, content):
        """Write the file that was mutated, and remember it for the message."""
        self.told.append(f"{name}: {len(content)} bytes: {content[:1500]!r}")
        self.write({name: content})

    def held(self):
        """Every file, folder and link below the root, with what is in it.

        Python's own caches beside the methods that it imports are left out.
        """
        found = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in [*folders, *files]:
                path = Path(folder, name)
                key = str(path.relative_to(self.root))
                if path.is_symlink():
                    found[key] = f"-> {path.readlink()}".encode()
                else:
                    found[key] = path.read_bytes() if path.is_file() else b"folder"
        return found

    def run(self, *arguments, into=(), codes=(0, 2)):
        """Run a command and check how it ended.

        Args:
            into: folders below the root that it may write to, if the input is not refused.
            codes: exit codes that it may end with.
        """
        before = self.held()
        done = self._call([str(argument) for argument in arguments])
        self._check_words(done, codes)
        after = self.held()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        changed -= {name for name in changed if _got_hashes(before.get(name), after.get(name))}
        allowed = () if done.code == 2 else (*into, SEEN)
        strange = {name for name in changed if not _below_any(name, allowed) or _below_any(name, VICTIMS)}
        if strange:
            self.fail(f"changed: {sorted(strange)}", done)
        left = [name for name in changed & after.keys() if Path(name).name.startswith(".")]
        if left:
            self.fail(f"left behind: {left}", done)
        copied = [name for name in changed & after.keys() if SECRET in after[name]]
        if copied:
            self.fail(f"copied from outside: {copied}", done)
        return done

    def _call(self, arguments):
        self.told.append("$ " + " ".join(arguments)[:500])
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        code, started = 0, time.monotonic()
        _forget_peak()
        before = _peak()  # the tests that ran here before may have loaded torch
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]), _at_most(self.seconds):
            try:
                main(arguments)
            except SystemExit as end:
                code = end.code or 0
            except BaseException:
                self.fail(traceback.format_exc())
        self.seconds -= time.monotonic() - started
        if (more := _peak() - before) > _RESIDENT:
            self.fail(f"{more / 1e9:.1f} GB more of resident memory")
        out, err = (_text(stream) for stream in streams)
        return Done(code, out, err)

    def _check_words(self, done, codes):
        if done.code not in codes:
            self.fail(f"exit code {done.code}", done)
        lines = done.err.splitlines()
        errors = [line for line in lines if line.startswith("Error: ")]
        if done.code == 2 and (len(errors) != 1 or lines[-1] != errors[0] or len(errors[0]) > _LONGEST):
            self.fail("not one clear line", done)
        others = [
            line
            for line in lines
            if line.strip() and line not in errors and not line.startswith(_NOTES) and _OF_OLD not in line
        ]
        if others and not others[0].startswith("Usage: "):
            self.fail(f"noise on stderr: {others}", done)
        if "Traceback" in done.err:
            self.fail("a traceback", done)
        raw = {c for c in done.out + done.err if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)}
        if raw:
            self.fail(f"control characters reached the terminal: {raw}", done)

    def fail(self, what, done=None):
        """Fail the test with all that is needed to see why."""
        if done is not None:
            what += f"\nexit code {done.code}\nstdout: {done.out[-2000:]}\nstderr: {done.err[-3000:]}"
        told = "\n".join([*self.told, what])
        pytest.fail(
            told.encode(errors="backslashreplace").decode(), pytrace=False
        )  # xdist takes no other text


def _below_any(name, folders):
    return any(Path(name).is_relative_to(folder) for folder in folders)


def _forget_peak():
    """Count the peak of this process's resident memory from now on, where Linux can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak():
    """Bytes of resident memory at most since it was last forgotten; 0 where that is not known."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 0


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")


@contextmanager
def _at_most(seconds):
    def stop(number, frame):
        raise _Hangs(f"the commands of this input took more than {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
