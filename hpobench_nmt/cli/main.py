"""The command line.

Exit codes: 0 success; 1 a run failed, or every trial of a method failed on a table; 2 wrong usage or input;
130 stopped with Ctrl-C; 141 the reader of a pipe ended; 143 stopped with SIGTERM.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib
import io
import os
import pkgutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

import hpobench_nmt.cli
from hpobench_nmt.cli.common import Commands
from hpobench_nmt.cli.old_names import renewed
from hpobench_nmt.cli.options import JOIN_WITH_COMMAS, listed
from hpobench_nmt.core.system.ctrl_c import remember_ctrl_c
from hpobench_nmt.core.system.errors import InputError, RunError, unknown
from hpobench_nmt.core.system.text import printable

# In the order of the help.
_GROUPS = {
    "Compare methods": "run score compare report suites methods",
    "Tables": "tables pareto",
    "Train models": "tune train model",
    "This installation": "doctor",
}
_MORE = "power archive ledger"
"""Commands that the help only names."""
_LONGEST = 800  # characters of an error message
# A shell's exit code for a program whose reader has ended (`| head`): 128 + the number of SIGPIPE.
_READER_GONE = 141


class _Program(Commands):
    """All commands, in groups."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups of the help, with the first line of each command."""
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(width)) for name in names.split()],
                    col_max=max(map(len, self.commands)),
                )
        formatter.write_paragraph()
        formatter.write_text(f"More commands: {', '.join(_MORE.split())}. Each has a --help.")


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="hpobench-nmt", message="%(package)s %(version)s")
def cli() -> None:
    """Benchmark hyperparameter optimization on lookup tables of trained NMT and language models."""


def _commands() -> Iterator[click.Command]:
    """The COMMANDS of every module of this package. What a command needs is imported when it runs."""
    for module in pkgutil.iter_modules(hpobench_nmt.cli.__path__, f"{hpobench_nmt.cli.__name__}."):
        if module.name != __name__:
            yield from getattr(importlib.import_module(module.name), "COMMANDS", ())


_order = [*" ".join(_GROUPS.values()).split(), *_MORE.split()]
for command in sorted(_commands(), key=lambda each: _order.index(str(each.name))):
    cli.add_command(command)


def program() -> None:
    """The whole process: `main`, then an exit that skips the destructors of C++ libraries.

    During these destructors Arrow's threads may still be ending. Occasionally such a thread aborted a process
    that had done its work ("terminate called without an active exception"). Python itself ends as usual.
    """
    code = 1
    warnings.formatwarning = _warning_line

    def leave() -> None:
        _give_up_output()
        os._exit(code)

    atexit.register(leave)  # registered first, so that it is called last
    remember_ctrl_c()
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning as it is printed. A warning for users is one line, without the place in the code."""
    if category in (FutureWarning, UserWarning):
        return f"Warning: {printable(str(message))}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point, which turns every expected error into one message on stderr and an exit code."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that lacks ± must not end the program
    sys.unraisablehook = _repeat_interrupt
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        code = _READER_GONE
    except SystemExit as end:  # from click, after completions and if the reader has ended
        code = 0 if end.code == 0 else _READER_GONE
    except OSError as error:
        what = f"{error.filename}:" if error.filename else "the output cannot be written:"
        # A name that is too long comes from the user.
        code = _complain(f"{what} {error.strerror or error}.", 2 if error.errno == errno.ENAMETOOLONG else 1)
    if code:
        _give_up_output()
    sys.exit(code)


def _repeat_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C that came while an object was deleted, because Python only prints such exceptions."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    main_thread = threading.main_thread().ident

    def interrupt() -> None:
        if main_thread is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main_thread, signal.SIGINT)  # also interrupts system calls that wait
        else:
            signal.raise_signal(signal.SIGINT)

    # Repeated later, because at this point the exception would be lost again.
    again = threading.Timer(0.05, interrupt)
    again.daemon = True
    again.start()


def _run(arguments: Sequence[str] | None) -> int:
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            return _complain(
                f"{word!a}: is not valid Unicode text, so it cannot be the name of a file or table.", 2
            )
    try:
        words = renewed(words)
        code = cli.main(args=words, prog_name="hpobench-nmt", standalone_mode=False)
    except InputError as error:
        return _complain(str(error), 2)
    except RunError as error:
        return _complain(str(error), 1)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is not None:
            path = error.ctx.command_path
            click.echo(f"{error.ctx.get_usage()}\nTry '{path} --help' for help.\n", err=True)
        # Click's message repeats the user's input, and click itself would not escape it.
        return _complain(_message(error, words), 2)
    except (click.Abort, KeyboardInterrupt):
        return _complain("stopped. Run the same command again to resume.", 130)
    return code if isinstance(code, int) else 0


def _message(error: click.ClickException, words: Sequence[str]) -> str:
    """Click's message of wrong usage, with the nearest name or what else to do."""
    message = error.format_message()
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is None:
        return message
    parameters = ctx.command.params
    if isinstance(error, click.NoSuchOption):
        name = error.option_name.lstrip("-")
        if name in {each.name for each in parameters if isinstance(each, click.Argument)}:
            return f"{error.option_name} is not an option: write {ctx.command_path} {name.upper()}."
        options = [option for each in parameters for option in each.opts if option.startswith("--")]
        return str(unknown("option", error.option_name, options, usual="--trials" if name == "n" else ""))
    lists = {option for each in parameters if each.callback is listed for option in each.opts}
    extra = message.startswith("Got unexpected extra argument") and lists & {*words}
    return f"{message}. {JOIN_WITH_COMMAS}" if extra else message


def _complain(message: str, code: int) -> int:
    if len(message) > _LONGEST:  # such as the name of a file that cannot exist
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    with contextlib.suppress(OSError):
        click.echo(f"Error: {printable(message)}", err=True)
    return code


def _fill_closed_streams() -> None:
    """Open the null device for standard streams that were closed before the start (`>&-`).

    Otherwise the next file or pipe that is opened would get the number of the closed stream, and a library
    that prints would write into it. In Python such a stream is None, so that a library that prints when it is
    imported would fail.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # stays open to the end


def _give_up_output() -> None:
    """Drop output that a closed pipe or a full disk rejects. Python would report an error when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, io.UnsupportedOperation):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
