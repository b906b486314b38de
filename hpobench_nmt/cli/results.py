"""`hpobench-nmt score` and `report`: show and report results."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from hpobench_nmt.cli.common import make_console, pairs_text, progress_bar, say, show_leaderboard, writing
from hpobench_nmt.cli.options import (
    PATH,
    count_option,
    explain_option,
    flag,
    format_option,
    listed_option,
    option,
    path_option,
)
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted


@click.command()
@click.argument("folder", type=PATH)
@format_option("text", "csv", "json", "latex", "sequences")
@path_option("-o --out", "", "Folder for the format sequences.")
@flag("--check verify", "Check all hashes, and stop if a file has none.")
@explain_option
def score(folder: Path, form: str, out: Path | None, verify: bool, explain: bool) -> None:
    """Show the scores of a results FOLDER.

    The hashes of the results files are always checked. --check also checks the tables' files and ledgers,
    and prints what it checked. Files without a hash, which earlier versions wrote, are then an error.

    With --format sequences, each table and method becomes a file OUT/TABLE/METHOD.ss for the scoring scripts
    of Zhang & Duh, with one line of row numbers per trial. Rows that a trial did not look up, because no
    score could change any more, follow in ascending order.
    """
    if (form == "sequences") != (out is not None):
        raise InputError("--format sequences needs a folder, and only it: name it with --out.")
    from hpobench_nmt.benchmarking.records.store import load_results, unfinished
    from hpobench_nmt.render.data_text import scores_csv, scores_json
    from hpobench_nmt.render.latex import run_latex

    results = load_results(folder)
    if verify:
        from hpobench_nmt.benchmarking.records.verification import verify_results

        for fact in verify_results(folder, results):
            say(fact, err=True)
    if out:
        from hpobench_nmt.benchmarking.sequences import export_sequences

        with writing(out):
            written = export_sequences(results, out)
        say(f"{counted(len(written), 'file')} in {out}")
        return
    if missing := unfinished(results):
        say(f"Not finished, and left out: {pairs_text(missing)}.", err=True)
    if form == "text":
        show_leaderboard(results, make_console(), explain)
    else:
        write = {"csv": scores_csv, "json": scores_json, "latex": run_latex}[form]
        click.echo(write(results), nl=False)


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PATH)
@format_option("html", "pdf", "png", "latex")
@path_option(
    "-o --out",
    "",
    "File for html, folder for other formats.  [default: DIR/report.html, -figures or -tables]",
)
@listed_option(
    "-m --methods",
    "SPEC,...",
    "Your own variants of Bayesian optimisation or graph-based search in these results, as given to "
    "'run' (FILE.py:NAME or MODULE:NAME). The report then has error curves of their surrogates.",
)
@count_option("-j --jobs", "Worker processes.  [default: all cores]")
@option(
    "--beside", "", "Add the methods of the archive of lm-2026 to the report.", type=click.Choice(["archive"])
)
@flag("--open show", "Open the report in a browser.")
def report(
    folders: tuple[Path, ...], form: str, out: Path | None, show: bool, beside: str | None, **given: Any
) -> None:
    """Report on results in one HTML file.

    DIR is a results folder. Several folders make one report, such as those of the paper's two suites. The
    HTML file is self-contained. The other formats write the figures (pdf, png) or the tables of scores
    (latex, with booktabs) for a paper.

    A report never runs code that a results folder names. So the surrogate of your own method is analysed
    only if you name the method with --methods, and if its code has not changed since the run.
    """
    if show and form != "html":
        raise InputError("--open is for --format html.")
    from hpobench_nmt.render.report import report as write

    with progress_bar(not sys.stderr.isatty(), "report") as progress:
        sources: list[str | Path] = [*folders, beside] if beside else [*folders]
        written = write(sources, out, format=form, progress=progress, **given)
    if form != "html":
        say(f"{counted(len(written), 'file')} in {written[0].parent}")
        return
    say(f"Report: {written[0]}")
    if show and not webbrowser.open(written[0].resolve().as_uri()):
        say("No browser was found here: open the file in one yourself.", err=True)


COMMANDS = (score, report)
