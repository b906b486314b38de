"""`hpobench-nmt pareto`: the Pareto front of a table or of a CSV file."""

from __future__ import annotations

from pathlib import Path

import click

from hpobench_nmt.cli.common import check_plot, make_console, say
from hpobench_nmt.cli.completion import completing, table_names
from hpobench_nmt.cli.options import PATH, constraint_option, listed
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.text import counted


@click.command()
@click.argument("source", metavar="TABLE_OR_CSV", shell_complete=completing(table_names))
@click.option(
    "--objectives",
    callback=listed,
    required=True,
    help="Two or more of METRIC[:min|max], e.g. dev_bleu:max,dev_gpu_time:min.",
)
@click.option(
    "--curves", is_flag=True, help="Of all checkpoints of its curves; training_cost is an objective then."
)
@click.option("--plot", type=PATH, help="Draw it to this PNG, PDF or SVG file.")
@constraint_option("Only rows that keep this bound")
@click.option("--format", "form", default="text", show_default=True, help="text or csv.")
def pareto(
    source: str,
    objectives: tuple[str, ...],
    curves: bool,
    plot: Path | None,
    constraints: tuple[str, ...],
    form: str,
) -> None:
    """Show the Pareto front of a table.

    Any CSV file with the objectives as columns can take the place of the table.
    """
    if form not in ("text", "csv"):
        raise unknown("format", form, ["text", "csv"])
    if len(objectives) < 2:
        raise InputError("a front needs two or more objectives, comma-separated.")
    from hpobench_nmt.analysis.table_front import front_of, with_row_numbers
    from hpobench_nmt.render.data_text import csv_text
    from hpobench_nmt.render.section_files import write_front
    from hpobench_nmt.render.terminal.grids import print_frame, print_text

    if plot:
        check_plot(plot)
    front = front_of(source, objectives, constraints, curves)
    rows = with_row_numbers(front.rows)
    if form == "csv":
        click.echo(csv_text(rows), nl=False)
    else:
        console = make_console()
        print_frame(rows, console, digits=10)
        kept = f" that keep {' and '.join(constraints)}" if constraints else ""
        what = "checkpoint" if curves else "row"
        print_text(
            f"{len(rows)} of {counted(front.n_complete, what)}{kept} {'is' if len(rows) == 1 else 'are'} on "
            "the front.",
            console,
        )
        if front.n_complete < front.n_rows:
            count = front.n_rows - front.n_complete
            lack, miss = (f"{what} lacks", "misses") if count == 1 else (f"{what}s lack", "miss")
            rest = f" or {miss} a constraint" if constraints else ""
            print_text(f"{count} {lack} an objective{rest}.", console)
    if plot:
        write_front(front, plot)
        say(f"Plot: {plot}", err=form == "csv")


COMMANDS = (pareto,)
