"""Groups, the console, progress bars and checks, which the commands share."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.core.system.errors import InputError, not_written, unknown
from hpobench_nmt.core.system.files import no_folder
from hpobench_nmt.core.system.text import printable, some_of

if TYPE_CHECKING:
    from rich.console import Console

    from hpobench_nmt.benchmarking.records.results import Results
    from hpobench_nmt.runner.family import Family


_LEADS_TO = {
    "download": "'hpobench-nmt tables fetch' downloads tables.",
    "list": "'hpobench-nmt tables list', 'suites' and 'methods' list what there is.",
    "optimize": "'hpobench-nmt tune' lets a method choose what to train.",
    "plot": "'hpobench-nmt report FOLDER' draws results, and 'pareto TABLE --out FILE.png' draws a front.",
}
"""What people look for under names that are not commands."""
# Width of output that is not shown on a terminal: that of a paper, a mail or a log.
_PIPE = 80
# The period from which the time left is estimated. A training may take hours, so all that have ended count.
_WEEK = 7 * 24 * 3600.0


class Commands(click.Group):
    """A group that keeps its commands in order and suggests the nearest name for a wrong one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands in the order of their definition."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The named command. Raises an error with the nearest name if it does not exist."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            if args[0] in _LEADS_TO:
                raise InputError(f"there is no command {args[0]!r}. {_LEADS_TO[args[0]]}")
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


def say(text: str, err: bool = False) -> None:
    """Print a text, on stderr if err is set, wrapped between words. Control characters are escaped.

    A line that ends in a command to copy stays whole.
    """
    width = terminal_width()
    for line in printable(text, lines=True).split("\n"):
        indent = " " * (len(line) - len(line.lstrip()))
        wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        wrap.subsequent_indent = indent + "  " * bool(indent)
        whole = len(line) <= width or ": hpobench-nmt " in line
        click.echo(line if whole else wrap.fill(line), err=err)


def terminal_width() -> int:
    """How many columns the terminal has."""
    return shutil.get_terminal_size((_PIPE, 0)).columns


def pairs_text(pairs: Sequence[tuple[str, str]]) -> str:
    """A text with the first three of several pairs (table, method), and the number of the others."""
    return some_of([f"{method} on {table}" for table, method in pairs], 3)


def make_console() -> Console:
    """The console for results. Piped output has 80 columns, unless COLUMNS is set."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            """Let the command line handle the error, which ends without a message."""
            raise BrokenPipeError

    return Output() if sys.stdout.isatty() or "COLUMNS" in os.environ else Output(width=_PIPE)


def show_leaderboard(results: Results, console: Console, explain: bool) -> None:
    """Print the leaderboard, and the name of the option that prints more."""
    from hpobench_nmt.render.terminal.leaderboard import print_leaderboard

    print_leaderboard(results, console, explain)
    if not explain:
        console.print("--explain explains how figures, intervals and tests are made.", style="dim")


@contextmanager
def progress_bar(quiet: bool, name: str, at_first: str = "") -> Iterator[Any]:
    """A progress bar on stderr with the time left. Yields a function of (done, total) that updates it.

    Until the first update above 0, the bar has the name `at_first`, if it is given.
    """
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    options: Any = {"console": Console(stderr=True), "transient": True, "speed_estimate_period": _WEEK}
    bar = Progress(*columns, TextColumn("left"), Left(), **options)
    task = bar.add_task(name, total=None)

    def progress(done: float, total: float) -> None:
        bar.start()  # does nothing if the bar is already running
        bar.update(task, completed=done, total=total, description=name if done else at_first or name)

    try:
        yield progress
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def late_progress_bar(name: str, after: float = 2.0) -> Iterator[Callable[[float], None]]:
    """A progress bar for work that is usually quick. It appears on a terminal's stderr after some seconds.

    Yields a function of the share of the work that is done.
    """
    start = time.monotonic()
    with ExitStack() as stack:
        bars: list[Any] = []

        def progress(share: float) -> None:
            if not bars and time.monotonic() - start > after:
                quiet = not sys.stderr.isatty()
                bars.append(stack.enter_context(progress_bar(quiet, name)))
            if bars and bars[0]:
                bars[0](share, 1.0)

        yield progress


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into a message of one line."""
    try:
        yield
    except OSError as error:
        raise not_written(error.filename or folder, error) from error


def require_installed(*modules: str) -> None:
    """Raise InputError if a package of the extra `train` is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise InputError(f"{module} is not installed: pip install 'hpobench-nmt[train]'")


def require_family(family: Family[Any]) -> None:
    """Raise InputError if packages that the family needs are missing."""
    if missing := family.missing():
        raise InputError(
            f"family {family.name!r} needs packages that are not installed. Install them: {missing}"
        )


def check_plot(path: Path) -> None:
    """Refuse a plot that cannot be written, before anything is computed."""
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"{path}: the name of a plot must end in .png, .pdf or .svg.")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: {no_folder(path.parent)}.")


def check_out_file(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed. Its folder need not exist."""
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a file: name a file for --out.")
    check_out_folder(path.parent)


def check_out_folder(path: Path) -> None:
    """Refuse a folder that cannot be made, before anything is computed."""
    with writing(path):
        there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise InputError(f"{there}: {no_folder(there)}: name another --out.")
