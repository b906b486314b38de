"""`hpobench-nmt score` and `export`: what a results folder says."""

from __future__ import annotations

from pathlib import Path

import click

from hpobench_nmt.cli.common import make_console, pairs_text, say, writing
from hpobench_nmt.cli.options import PATH
from hpobench_nmt.core.errors import unknown
from hpobench_nmt.core.text import counted


@click.command()
@click.argument("folder", type=PATH)
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
        say(f"Not finished, and left out: {pairs_text(missing)}.", err=True)
    write = formats[form]
    if write is None:
        print_leaderboard(results, make_console())
    else:
        click.echo(write(results), nl=False)


@click.command()
@click.argument("folder", type=PATH)
@click.option("--format", "form", default="sequences", show_default=True, help="sequences.")
@click.option("--out", type=PATH, required=True, help="Folder to write to.")
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
    say(f"{counted(len(written), 'file')} in {out}")


COMMANDS = (score, export)
