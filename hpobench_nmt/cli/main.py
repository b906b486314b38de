"""The command line.

Exit codes: 0 done; 1 a run failed, or every trial of a method failed on a table; 2 wrong usage or input;
141 the reader has gone.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hpobench_nmt.cli.adaptation import adaptation

# Everything else is imported where it is used: --help answers in a fraction of a second.
from hpobench_nmt.cli.common import (
    AMOUNT,
    Commands,
    check_plot,
    constraint_option,
    listed,
    make_console,
    progress_bar,
    say,
    writing,
)
from hpobench_nmt.cli.completion import completing, method_names, suite_names, table_names
from hpobench_nmt.cli.doctor import doctor
from hpobench_nmt.cli.methods import methods as methods_command
from hpobench_nmt.cli.methods import with_every_method
from hpobench_nmt.cli.models import evaluate, translate
from hpobench_nmt.cli.report import report
from hpobench_nmt.cli.tables import tables
from hpobench_nmt.cli.train import ledger, train
from hpobench_nmt.cli.tune import tune
from hpobench_nmt.core.errors import InputError, RunError, unknown
from hpobench_nmt.core.text import printable

_DEFAULT_SUITE = "quick"
_LONGEST = 800  # characters of an error message
# The exit code of a shell for a program whose reader has gone (`| head`): 128 + the number of SIGPIPE.
_READER_GONE = 141


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hpobench-nmt", message="%(package)s %(version)s")
def cli() -> None:
    """Benchmark hyperparameter optimization on lookup tables of trained NMT and language models."""


@cli.command()
@click.argument("suite", default=_DEFAULT_SUITE, shell_complete=completing(suite_names))
@click.option(
    "--tables",
    callback=listed,
    shell_complete=completing(table_names),
    help="Table names or folders, comma-separated.",
)
@click.option(
    "--methods",
    callback=listed,
    shell_complete=completing(method_names),
    help="Names, FILE.py:CLASS or MODULE:CLASS, comma-separated; or all.",
)
@click.option("--objectives", callback=listed, help="METRIC[:min|max], comma-separated.")
@constraint_option("A bound that a row must keep to be of use")
@click.option("--trials", type=click.IntRange(min=1), help="Seeded trials per method and table.")
@click.option(
    "--score-at", type=AMOUNT, help="Look-ups, or time on the clock, after which fb, fbp and fbh are taken."
)
@click.option("--budget", type=AMOUNT, hidden=True, help="Another name of --score-at.")
@click.option("--lookups", type=click.IntRange(min=1), help="The most that a trial may look up.")
@click.option("--clock", metavar="CLOCK", help="lookups, or cost: a training takes its cost.")
@click.option("--cost", metavar="METRIC", help="What a training cost.  [default: that of its learning curve]")
@click.option("--curves", is_flag=True, help="Rows can be trained part of the way, along their curves.")
@click.option("--workers", type=click.IntRange(min=1), help="How many trainings run at a time.")
@click.option("--time", type=AMOUNT, help="The most time that a trial may take on the clock.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root seed.")
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes.  [default: all cores]")
@click.option("--backend", default="loky", show_default=True, help="loky (this machine), dask or ray.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time limit for each call of a method of yours; a trial that breaks it fails.  [default: none]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Results folder.  [default: results/SUITE]")
@click.option("--quiet", is_flag=True, help="No progress bar and no table of scores.")
def run(
    suite: str,
    tables: tuple[str, ...],
    methods: tuple[str, ...],
    objectives: tuple[str, ...],
    constraints: tuple[str, ...],
    trials: int | None,
    score_at: float | None,
    budget: float | None,
    lookups: int | None,
    clock: str | None,
    cost: str | None,
    curves: bool,
    workers: int | None,
    time: float | None,
    seed: int,
    jobs: int | None,
    backend: str,
    timeout: float | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Run a SUITE (default: quick) and show the scores.

    A run that was stopped goes on where it was when the same command is given again. The exit code is 1 if
    every trial of a method failed on a table, after everything else was run and written.
    """
    from hpobench_nmt.benchmarking.execution import BACKENDS
    from hpobench_nmt.benchmarking.instance import suite_instances
    from hpobench_nmt.benchmarking.plugins import resolve_methods
    from hpobench_nmt.benchmarking.run import run_to_folder
    from hpobench_nmt.benchmarking.suite import load_suite, overridden

    if backend not in BACKENDS:
        raise unknown("backend", backend, BACKENDS)
    score_at = score_at or budget
    given: dict[str, Any] = {
        "tables": tables,
        "methods": methods,
        "objectives": objectives,
        "constraints": constraints,
        "trials": trials,
        "lookups": lookups,
        "score_at": score_at and {"default": score_at},
        # A cost, and checkpoints, are known on one clock only.
        "clock": clock or ("cost" if cost or curves else None),
        "cost": cost,
        "curves": curves,
        "workers": workers,
        "time": time and {"default": time},
    }
    usual = load_suite(suite)
    chosen = overridden(usual, {key: value for key, value in given.items() if value})
    for score in (score for score in usual.scores if score not in chosen.scores):
        say(f"Left out: {score}. On this clock it needs a time, --score-at.", err=True)
    chosen = with_every_method(chosen)
    resolved = resolve_methods(chosen.methods)
    instances = suite_instances(chosen, lambda reason: say(f"Left out: {reason}", err=True))
    results_folder = out or Path("results") / chosen.name
    with progress_bar(quiet, chosen.name) as progress:
        results = run_to_folder(
            results_folder,
            chosen,
            instances,
            resolved,
            seed=seed,
            jobs=jobs or _cores(),
            backend=backend,
            timeout=timeout,
            table_sources=_sources(chosen.tables),
            progress=progress,
            notify=lambda message: say(message, err=True),
        )
    if not quiet:
        from hpobench_nmt.render.terminal.leaderboard import print_leaderboard

        console = make_console()
        print_leaderboard(results, console)
        console.print(f"Results: {results_folder}", highlight=False, soft_wrap=True, markup=False)
    lost = results.all_failed()
    if lost:
        names = ", ".join(f"{method} on {table}" for table, method in lost[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise RunError(
            f"every trial failed: {names}{more}. The first reason: {results.trials[lost[0]][0].failure}. "
            f"Everything else was run; the results are in {results_folder}."
        )


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--format", "form", default="text", show_default=True, help="text, csv, json or latex.")
def score(folder: Path, form: str) -> None:
    """Show the scores of a results FOLDER."""
    from hpobench_nmt.benchmarking.store import load_results, unfinished
    from hpobench_nmt.render.data_text import scores_csv, scores_json
    from hpobench_nmt.render.latex import run_latex
    from hpobench_nmt.render.terminal.leaderboard import print_leaderboard

    formats = {"text": None, "csv": scores_csv, "json": scores_json, "latex": run_latex}
    if form not in formats:
        raise unknown("format", form, formats)
    results = load_results(folder)
    missing = unfinished(results)
    if missing:
        names = ", ".join(f"{method} on {table}" for table, method in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        say(f"Not finished, and left out: {names}{more}.", err=True)
    write = formats[form]
    if write is None:
        print_leaderboard(results, make_console())
    else:
        click.echo(write(results), nl=False)


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--format", "form", default="sequences", show_default=True, help="sequences.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write to.")
def export(folder: Path, form: str, out: Path) -> None:
    """Write results for the scoring scripts of Zhang & Duh.

    Each table and method of the results in FOLDER becomes a file OUT/TABLE/METHOD.ss, with one line of row
    numbers per trial. Rows that a trial did not look up, because no score could change any
    more, follow in ascending order.
    """
    from hpobench_nmt.benchmarking.sequences import export_sequences
    from hpobench_nmt.benchmarking.store import load_results

    if form != "sequences":
        raise unknown("format", form, ["sequences"])
    results = load_results(folder)
    with writing(out):
        written = export_sequences(results, out)
    say(f"{len(written)} files in {out}")


@cli.command()
def suites() -> None:
    """List the suites."""
    from hpobench_nmt.benchmarking.suite import load_suite, suite_files
    from hpobench_nmt.render.terminal.grids import print_grid

    found = [(name, load_suite(name)) for name in suite_files()]
    rows = [(name, ", ".join(suite.scores), suite.description) for name, suite in found]
    head = ("suite", "scores", "what it is")
    print_grid(head, rows, make_console(), wrapped=head[-1:])


@cli.command()
@click.argument("source", metavar="TABLE_OR_CSV")
@click.option(
    "--objectives",
    callback=listed,
    required=True,
    help="Two or more of METRIC[:min|max], e.g. dev_bleu:max,dev_gpu_time:min.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw it to this PNG, PDF or SVG file.")
@constraint_option("Only rows that keep this bound")
@click.option("--format", "form", default="text", show_default=True, help="text or csv.")
def pareto(
    source: str, objectives: tuple[str, ...], plot: Path | None, constraints: tuple[str, ...], form: str
) -> None:
    """Show the Pareto front of a table.

    Any CSV file with the objectives as columns can take the place of the table.
    """
    if form not in ("text", "csv"):
        raise unknown("format", form, ["text", "csv"])
    if len(objectives) < 2:
        raise InputError("a front needs two or more objectives, comma-separated.")
    from hpobench_nmt.analysis.table_front import front_of
    from hpobench_nmt.render.data_text import csv_text
    from hpobench_nmt.render.section_files import write_front
    from hpobench_nmt.render.terminal.grids import print_frame, print_text

    if plot:
        check_plot(plot)
    front = front_of(source, objectives, constraints)
    rows = front.rows.copy()
    rows.insert(0, "row", rows.index)
    if form == "csv":
        click.echo(csv_text(rows), nl=False)
    else:
        console = make_console()
        print_frame(rows, console, digits=10)
        kept = f" that keep {' and '.join(constraints)}" if constraints else ""
        print_text(f"{len(rows)} of {front.n_complete} rows{kept} are on the front.", console)
        if front.n_complete < front.n_rows:
            rest = "lack an objective or miss a constraint" if constraints else "lack an objective"
            print_text(f"{front.n_rows - front.n_complete} rows {rest}.", console)
    if plot:
        write_front(front, plot)
        say(f"Plot: {plot}", err=form == "csv")


cli.add_command(methods_command)
cli.add_command(report)
cli.add_command(tables)
cli.add_command(train)
cli.add_command(tune)
cli.add_command(translate)
cli.add_command(evaluate)
cli.add_command(adaptation)
cli.add_command(ledger)
cli.add_command(doctor)


def program() -> None:
    """The whole process: `main`, and an end that leaves out the destructors of C++ libraries.

    Arrow's threads may still be ending then, and now and then one of them aborted a process that had done its
    work ("terminate called without an active exception"). Everything of Python's ends as usual before.
    """
    code = 1

    def leave() -> None:
        _give_up_output()
        os._exit(code)

    atexit.register(leave)  # the first that is registered is the last that is called
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: every expected error becomes one message on stderr and an exit code."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that lacks ± must not end the program
    sys.unraisablehook = _repeat_interrupt
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = _READER_GONE
    except SystemExit as end:  # click ends the program so where the reader has gone, and after completions
        code = 0 if end.code == 0 else _READER_GONE
    except OSError as error:
        what = f"{error.filename}:" if error.filename else "the output cannot be written:"
        # A name that is too long is of something that the user named.
        code = _complain(f"{what} {error.strerror or error}.", 2 if error.errno == errno.ENAMETOOLONG else 1)
    if code:
        _give_up_output()
    sys.exit(code)


def _repeat_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """Ctrl-C while an object is being deleted: Python only prints such an exception, and would go on."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    main_thread = threading.main_thread().ident

    def interrupt() -> None:
        if main_thread is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main_thread, signal.SIGINT)  # also ends what waits in the system
        else:
            signal.raise_signal(signal.SIGINT)

    # Not at once: here the exception would be lost again.
    again = threading.Timer(0.05, interrupt)
    again.daemon = True
    again.start()


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = cli.main(args=arguments, prog_name="hpobench-nmt", standalone_mode=False)
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
        # Click repeats what was typed, and would print it as it is.
        return _complain(error.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        return _complain("stopped. Run the same command again to go on.", 130)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    if len(message) > _LONGEST:  # such as the name of a file that cannot exist
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    with contextlib.suppress(OSError):
        click.echo(f"Error: {printable(message)}", err=True)
    return code


def _fill_closed_streams() -> None:
    """Put the null device where standard input, output or errors were closed before the start (`>&-`).

    Else the next file or pipe that is opened gets that number, and a library that prints writes into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free


def _give_up_output() -> None:
    """Drop what a closed pipe or a full disk does not take: Python would complain of it when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            with contextlib.suppress(OSError, io.UnsupportedOperation):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _cores() -> int:
    import joblib

    return int(joblib.cpu_count())


def _sources(specs: Sequence[str]) -> dict[str, str]:
    """Where tables that were given as folders are, so that their scores can be shown later."""
    from hpobench_nmt.benchmarking.suite import INSTALLED
    from hpobench_nmt.lookup.catalogue import collections, installed
    from hpobench_nmt.lookup.folder import table_name

    named = {INSTALLED, *installed(), *collections()}
    folders = [Path(spec).resolve() for spec in specs if spec not in named]
    return {table_name(folder): str(folder) for folder in folders}
