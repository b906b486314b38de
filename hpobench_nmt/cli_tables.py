"""`hpobench-nmt tables`: list, show, check, fetch, add and build lookup tables."""

from __future__ import annotations

from pathlib import Path

import click

from hpobench_nmt.cli_common import Commands, make_console, writing
from hpobench_nmt.cli_train import build
from hpobench_nmt.errors import InputError, unknown


@click.group(cls=Commands)
def tables() -> None:
    """List, show, check, fetch, add and build lookup tables."""


@tables.command("list")
def tables_list() -> None:
    """List the installed tables."""
    from rich.table import Table as Grid

    from hpobench_nmt import catalog, nmthpo

    found = catalog.installed()
    grid = Grid(box=None, pad_edge=False)
    for heading in ("table", "rows", "hyperparameters", "objectives", "folder"):
        grid.add_column(heading, justify="right" if heading == "rows" else "left", overflow="fold")
    for name, folder in found.items():
        try:
            table = catalog.load_table(name)
        except InputError as error:
            click.echo(f"Cannot be used: {error}", err=True)
            continue
        grid.add_row(
            name, str(len(table)), str(len(table.hyperparameters)), ", ".join(table.objectives), str(folder)
        )
    console = make_console()
    if found:
        console.print(grid, markup=False)
    absent = [name for name in nmthpo.TABLES if name not in found]
    if absent:
        click.echo(
            f"Not installed: {', '.join(absent)}. Get them with 'hpobench-nmt tables fetch nmthpo'.", err=True
        )


@tables.command("show")
@click.argument("name")
@click.option(
    "--rows", type=click.IntRange(min=1), default=5, show_default=True, help="How many of the best rows."
)
def tables_show(name: str, rows: int) -> None:
    """Show a table: its search space, its metrics, where it is from, its best rows."""
    from hpobench_nmt.catalog import load_table
    from hpobench_nmt.describe import print_table

    print_table(load_table(name), make_console(), rows)


@tables.command("check")
@click.argument("name")
def tables_check(name: str) -> None:
    """Check a table, or a collection such as nmthpo, and say what the facts mean for a benchmark."""
    from hpobench_nmt.catalog import collections, load_table
    from hpobench_nmt.checks import find_check

    members = collections().get(name)
    loaded = [load_table(member) for member in members] if members else [load_table(name)]
    marks = {"ok": ("✓", "green"), "note": ("·", "cyan"), "warning": ("!", "yellow")}
    console = make_console()
    current = ""
    for finding in find_check(name, loaded):
        if finding.table != current:
            current = finding.table
            console.print(current, style="bold", markup=False, highlight=False)
        mark, colour = marks[finding.kind]
        console.print(f" [{colour}]{mark}[/{colour}] ", end="", highlight=False)
        console.print(f"{finding.fact}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"   → {finding.meaning}", style="dim", markup=False, highlight=False, soft_wrap=True)


@tables.command("fetch")
@click.argument("name")
@click.option("--from", "source", type=click.Path(path_type=Path), help="Take the files from this folder.")
@click.option("--mirror", help="Base address of a copy of the files, instead of the authors' own.")
def tables_fetch(name: str, source: Path | None, mirror: str | None) -> None:
    """Download published tables into the user's cache: nmthpo, the six of Zhang & Duh (2020)."""
    from hpobench_nmt import catalog, nmthpo

    if name != "nmthpo":
        raise unknown("collection", name, ["nmthpo"])
    if source is not None and not source.is_dir():
        raise InputError(f"{source}: no such folder.")
    with writing(catalog.fetched_folder()):
        folders = nmthpo.fetch(catalog.fetched_folder(), source, mirror or nmthpo.ADDRESS)
    click.echo(f"Installed {', '.join(f.name for f in folders)} in {folders[0].parent}.")


@tables.command("add")
@click.argument("source", metavar="FOLDER_OR_CSV", type=click.Path(path_type=Path))
@click.option(
    "--datasheet", type=click.Path(path_type=Path), help="Of a CSV file.  [default: the same name, .toml]"
)
def tables_add(source: Path, datasheet: Path | None) -> None:
    """Install a table of your own: a CSV file with a header, and a short datasheet in TOML.

    \b
    The least that a datasheet needs, one section a column of the CSV file:
        name = "my-table"
        [hyperparameters.learning_rate]
        scale = "log"              # or "linear", the default
        [metrics.dev_ppl]
        direction = "min"          # or "max"
    """
    from hpobench_nmt import catalog
    from hpobench_nmt.table_folder import add_table

    with writing(catalog.added_folder()):
        table, folder = add_table(source, datasheet, catalog.added_folder())
    click.echo(f"Installed {table.name} ({len(table)} rows) in {folder}.")


tables.add_command(build)
