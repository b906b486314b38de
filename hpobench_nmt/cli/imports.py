"""`hpobench-nmt tables import`: turn an old sweep of another program into a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.cli.common import late_progress_bar, say, writing
from hpobench_nmt.cli.options import PATH
from hpobench_nmt.core.system.text import counted, printable

if TYPE_CHECKING:
    from hpobench_nmt.lookup.imports.importing import Imported
    from hpobench_nmt.lookup.imports.sweep import Ambiguous
    from hpobench_nmt.lookup.table import Table

_MULTIPLE: Any = {"multiple": True, "metavar": "COLUMN"}


@click.command("import")
@click.argument("source", metavar="FILE_OR_FOLDER", type=PATH)
@click.option(
    "--as", "name", default="", metavar="NAME", help="Name of the table.  [default: the study's or file's]"
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="COLUMN[:min|max]",
    help="A metric and its direction. May be repeated; the first metric is the objective.",
)
@click.option("--hyperparameter", "hyperparameters", **_MULTIPLE, help="A hyperparameter. May be repeated.")
@click.option(
    "--ignore", "ignored", **_MULTIPLE, help="Columns to leave out, separated by commas. May be repeated."
)
@click.option("--seed", default="", metavar="COLUMN", help="Column of the seeds.")
@click.option("--study", default="", metavar="NAME", help="The study or experiment, if there are several.")
@click.option(
    "--curves", multiple=True, type=PATH, help="A W&B export of the runs' learning curves. May be repeated."
)
@click.option("--roles", type=PATH, metavar="FILE", help="The roles of columns, as this command writes them.")
@click.option("--yes", "guessed", is_flag=True, help="Import with roles that are only guesses.")
@click.option(
    "-o",
    "--out",
    type=PATH,
    metavar="FOLDER",
    help="Write files for editing to this folder, and do not install.",
)
def tables_import(
    source: Path,
    name: str,
    curves: tuple[Path, ...],
    out: Path | None,
    roles: Path | None,
    guessed: bool,
    ignored: tuple[str, ...],
    **given: Any,
) -> None:
    """Make a table from an old sweep of another program.

    \b
    FILE_OR_FOLDER is one of these, unchanged:
        Optuna     trials_dataframe() as CSV, an SQLite storage, a journal file
        W&B        the table of runs as CSV, also in a folder with the CSV of a chart
        MLflow     runs as CSV, a folder mlruns, its SQLite database
        Ray Tune   a folder of results, or their data frame as CSV
        others     JSON lines, CSV with any separator, scikit-learn's search results

    The command works out what each column means, prints its decisions and the reasons, and installs the
    table. If a role is only a guess, it asks once in a terminal. Elsewhere it writes all roles to a file, for
    you to correct, and exits with status 2. --roles FILE imports with these roles, --yes with the guesses.

    \b
    To change its decisions, write the files, edit datasheet.toml, and add the folder:
        hpobench-nmt tables import study.db --out draft
        hpobench-nmt tables add draft
    """
    from hpobench_nmt.core.system.files import read_toml
    from hpobench_nmt.lookup.catalogue import installed
    from hpobench_nmt.lookup.disk.file_names import DATASHEET
    from hpobench_nmt.lookup.imports.importing import (
        Unsure,
        install_table,
        known_as,
        make_table,
        with_roles,
        write_draft,
    )
    from hpobench_nmt.lookup.imports.sweep import Choices
    from hpobench_nmt.lookup.user_folders import added_folder

    split = tuple(column for text in ignored for column in text.split(","))
    choices = Choices(curves=curves, ignored=split, guessed=guessed, **given)
    if roles is not None:
        choices = with_roles(choices, read_toml(roles), roles)
    ask = _ask if sys.stdin.isatty() and sys.stderr.isatty() else None
    with late_progress_bar(source.name) as progress:
        try:
            imported = make_table(source, name, choices, ask, progress)
        except Unsure as unsure:
            imported = unsure.imported
            if ask is None or not _accepted(imported, unsure.doubts):
                _refuse(source, imported, unsure.doubts, shown=ask is not None)
        if out is not None:
            with writing(out):
                write_draft(imported, out)
            _tell(imported)
            say(f"Wrote {out}. Edit {out / DATASHEET}, then: hpobench-nmt tables add {out}")
            return
        before, there = installed(), {path.name for path in added_folder().glob("*")}
        if known := known_as(imported.table, added_folder(), named=bool(name)):
            say(f"{source} was imported before, as {known}. Nothing is changed.")
            return
        with writing(added_folder()):
            folder = install_table(imported.table, added_folder(), progress)
    _tell(imported)
    tell_added(imported.table, folder, before, there)
    say("To change these decisions, write the files with --out FOLDER, edit them, and add the folder.")


def _tell(imported: Imported, doubts: Mapping[str, str] | None = None) -> None:
    """Print the decisions on stdout, and notes about the reading on stderr."""
    from hpobench_nmt.lookup.imports.importing import decision_lines

    for note in imported.notes:
        say(f"Note: {note}.", err=True)
    say(f"{imported.table.name}: {counted(len(imported.table), 'row')} from {imported.kind}")
    doubts = doubts or {}
    decisions = [
        each._replace(text=f"a guess: {doubts[each.name]}; {each.text}") if each.name in doubts else each
        for each in imported.decisions
    ]
    for line in decision_lines(decisions):
        say(f"  {line}")


def _accepted(imported: Imported, doubts: Mapping[str, str]) -> bool:
    """Show the decisions, and ask once whether the guesses among them are right."""
    _tell(imported, doubts)
    return click.confirm("Are these roles right?", err=True)


def _refuse(source: Path, imported: Imported, doubts: Mapping[str, str], shown: bool) -> None:
    """Print the decisions, write them to a file of roles, and say what to run. Raises InputError."""
    from hpobench_nmt.core.system.errors import InputError
    from hpobench_nmt.core.system.files import save_file
    from hpobench_nmt.lookup.imports.importing import roles_file

    if not shown:
        _tell(imported, doubts)
    path = Path(f"{imported.table.name}.roles.toml")
    save_file(path, roles_file(imported, doubts).encode())
    guesses = ", ".join(map(printable, doubts))
    raise InputError(
        f"{source}: these roles are only guesses: {guesses}. Correct {path}, then run: hpobench-nmt tables "
        f"import {shlex.quote(str(source))} --roles {shlex.quote(str(path))}"
    )


def _ask(question: Ambiguous) -> str:
    """Ask the user, and return the chosen answer."""
    answers = list(question.answers)
    say(question.question[0].upper() + question.question[1:], err=True)
    found: str = click.prompt("Answer", type=click.Choice(answers), err=True)
    return found


def tell_added(table: Table, folder: Path, before: Mapping[str, Path], there: Collection[str]) -> None:
    """Print where a table was installed, and what it replaces or hides."""
    from hpobench_nmt.lookup import catalogue

    means = ", means over seeds" if table.replicates and table.replicates.averaged else ""
    other = before.get(table.name, folder)
    done = "Replaced" if table.name in there else "Installed"
    say(f"{done} {table.name} ({counted(len(table), 'row')}{means}) in {folder}.")
    if catalogue.installed()[table.name] != folder:
        say(f"It is hidden by the table of the same name in {other}.", err=True)
    elif other != folder:
        say(
            f"It hides the table of the same name in {other}, until "
            f"'hpobench-nmt tables remove {table.name}'.",
            err=True,
        )
