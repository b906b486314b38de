"""`hpobench-nmt pareto`: the Pareto front of a table or of a CSV file."""

from __future__ import annotations

from pathlib import Path

import click

from hpobench_nmt.cli.common import check_plot, make_console, say
from hpobench_nmt.cli.completion import completing, table_names
from hpobench_nmt.cli.options import constraint_option, flag, format_option, listed_option, path_option


@click.command()
@click.argument("source", metavar="TABLE_OR_CSV", shell_complete=completing(table_names))
@listed_option(
    "--objectives",
    "METRIC[:min|max],...",
    "Two or more, e.g. dev_bleu:max,dev_gpu_time:min.  [default: the table's own]",
)
@flag("--curves", "Use all checkpoints of the learning curves, with training_cost as an objective.")
@path_option("-o --out plot", "FILE", "Draw the front to this PNG, PDF or SVG file.")
@constraint_option("Use only rows that keep this bound")
@format_option("text", "csv")
def pareto(
    source: str,
    objectives: tuple[str, ...],
    curves: bool,
    plot: Path | None,
    constraints: tuple[str, ...],
    form: str,
) -> None:
    """Show the Pareto front of a table.

    Instead of a table, you can give any CSV file that has the objectives as columns. The text output has each
    row's hyperparameters and objectives; --format csv has all columns.
    """
    from hpobench_nmt.analysis.table_front import pareto as front_of
    from hpobench_nmt.analysis.table_front import with_row_numbers
    from hpobench_nmt.render.data_text import csv_text
    from hpobench_nmt.render.section_files import write_front
    from hpobench_nmt.render.terminal.grids import print_frame, print_text

    if plot:
        check_plot(plot)
    front = front_of(source, objectives, constraints, curves)
    if form == "csv":
        click.echo(csv_text(with_row_numbers(front.frame)), nl=False)
    else:
        console = make_console()
        print_frame(front.shown, console, exact=front.exact)
        print_text(front.summary, console)
    if plot:
        write_front(front, plot)
        say(f"Plot: {plot}", err=form == "csv")


COMMANDS = (pareto,)
