"""`hpobench-nmt run` and `suites`: run a suite, and list the suites."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.cli.common import make_console, pairs_text, progress_bar, say, show_leaderboard
from hpobench_nmt.cli.completion import completing, method_names, suite_names, table_names
from hpobench_nmt.cli.options import (
    JOIN_WITH_COMMAS,
    backend_option,
    constraint_option,
    count_option,
    explain_option,
    flag,
    listed_option,
    option,
    path_option,
    seed_option,
    settings_option,
)
from hpobench_nmt.core.system.errors import InputError, RunError

if TYPE_CHECKING:
    from rich.console import Console

    from hpobench_nmt.arena.archive import Archive
    from hpobench_nmt.arena.digest import Digest
    from hpobench_nmt.benchmarking.records.results import Results

_DEFAULT_SUITE = "quick"


@click.command()
@click.argument("suite", default=_DEFAULT_SUITE, shell_complete=completing(suite_names))
@option("--track", "TRACK", "The track of a suite that has several, such as plain in lm-2026.")
@listed_option(
    "-t --tables",
    "TABLE,...",
    "Table names or folders, comma-separated.",
    shell_complete=completing(table_names),
)
@listed_option(
    "-m --methods",
    "METHOD,...",
    "Names, FILE.py:CLASS, MODULE:CLASS or cmd:COMMAND, comma-separated; or all.",
    shell_complete=completing(method_names),
)
@listed_option(
    "--objectives", "METRIC[:min|max],...", "Metrics to optimise.  [default: the table's objectives]"
)
@constraint_option("A bound that a row must keep to count")
@count_option("--trials", "Seeded trials per method and table.")
@count_option("--lookups", "Maximum number of rows that a trial may look up.")
@settings_option(
    "Other keys of a suite. On a clock: clock=cost, cost=METRIC, curves=true (methods may stop trainings at "
    "checkpoints), time=LIMIT, workers=N. score_at=N (for scores such as fb), prior=good, noise=replicates."
)
@seed_option()
@count_option("-j --jobs", "Worker processes.  [default: all cores]")
@backend_option
@option(
    "--timeout",
    "SECONDS",
    "Time limit for each call of your own methods; a trial that exceeds it fails.  [default: none]",
    type=click.FloatRange(min=0, min_open=True),
)
@path_option(
    "-o --out", "", "Results folder.  [default: results/SUITE, with a hash of what differs from the suite]"
)
@explain_option
@path_option(
    "--beside",
    "ARCHIVE",
    "Show the methods of an archive as well: a file, or 'archive' for the archive of lm-2026.",
)
@flag("--quiet", "Show neither a progress bar nor scores.")
@flag(
    "--debug",
    "Run one trial of each method in this process, raise errors of your code for a debugger, and do "
    "not write results.",
)
def run(
    suite: str,
    jobs: int | None,
    backend: str,
    out: Path | None,
    explain: bool,
    beside: Path | None,
    quiet: bool,
    debug: bool,
    settings: dict[str, Any],
    **given: Any,
) -> None:
    """Run a SUITE (default: quick) and show the scores.

    The same command resumes a run that was stopped. If every trial of a method failed on a table, the
    other trials still run and are written, and the exit code is 1.
    """
    from hpobench_nmt.benchmarking import call
    from hpobench_nmt.benchmarking.task.suite import changed
    from hpobench_nmt.benchmarking.task.suite_files import load_suite, track_of
    from hpobench_nmt.core.system.clusters import known_backend
    from hpobench_nmt.core.system.compiled_folder import has_compiled
    from hpobench_nmt.render.terminal.run_screen import print_run

    place = known_backend(backend)
    track = given.pop("track")
    if suite not in suite_names() and suite in {*method_names(), *table_names()}:
        raise InputError(f"{suite!r} is not a suite. {JOIN_WITH_COMMAS}")
    chosen = load_suite(track_of(suite, track) if track else suite)
    known = None
    if beside:  # read before the run, so that an archive that does not fit is an error at once
        from hpobench_nmt.arena.digest import archive_or_digest

        own = changed(chosen, trials=given["trials"]) if given["trials"] else chosen
        known = archive_or_digest(beside, own, given["seed"] or 0)
    if debug and out:
        raise InputError("--debug does not write results: leave out --out.")
    asked = {key: value for key, value in given.items() if value} | settings
    results_folder = None if debug else out or _usual_folder(chosen.name, asked)
    # A debugger's prompt and a progress bar would overwrite each other.
    at_first = "" if has_compiled() else f"{chosen.name}: compiling, once"
    with progress_bar(quiet or debug, chosen.name, at_first) as progress:
        how = {"jobs": jobs, "backend": place, "out": results_folder, "progress": progress, "debug": debug}
        results = call.run(chosen, notify=lambda message: say(message, err=True), **how | asked)
    if not quiet:
        console = make_console()
        shown = _with_archive(results, known, console) if known else results
        if explain:
            show_leaderboard(shown, console, explain)
        else:
            print_run(shown, console)
        if results_folder:
            told = f"The scores of each table: hpobench-nmt score {shlex.quote(str(results_folder))}"
            console.print(told, highlight=False, soft_wrap=True, markup=False)
    if lost := results.all_failed():
        kept = f" Everything else was run; the results are in {results_folder}." if results_folder else ""
        raise RunError(
            f"every trial failed: {pairs_text(lost)}. The first reason: "
            f"{results.trials[lost[0]][0].failure}.{kept}"
        )


def _usual_folder(suite: str, asked: dict[str, Any]) -> Path:
    """The folder of a run. What was asked for is in its name, so that each run resumes only itself."""
    if not asked:
        return Path("results") / suite
    text = json.dumps(asked, sort_keys=True, default=str)
    return Path("results") / f"{suite}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _with_archive(results: Results, known: Archive | Digest, console: Console) -> Results:
    """The results with the methods of an archive. A digest has only the figures, which are printed."""
    from hpobench_nmt.arena.beside import beside
    from hpobench_nmt.arena.digest import Digest
    from hpobench_nmt.render.terminal.leaderboard import print_fewer

    if not isinstance(known, Digest):
        return beside(results, known, lambda message: say(message, err=True))
    say(
        "The archive is not installed: its methods appear only in the figure, which comes from the digest.",
        err=True,
    )
    print_fewer(results, known.beside(results), console, explain=False)
    say("Your methods alone:")
    return results


@click.command()
def suites() -> None:
    """List the suites."""
    from hpobench_nmt.benchmarking.task.suite_files import list_suites
    from hpobench_nmt.render.terminal.grids import print_frame

    print_frame(list_suites(), make_console(), wrapped=("description",))


COMMANDS = (run, suites)
