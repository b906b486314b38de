"""`hpobench-nmt tables import`: turn an old sweep of another program into a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.cli.common import late_progress_bar, say, writing
from hpobench_nmt.cli.options import PATH, flag, option, path_option
from hpobench_nmt.core.system.text import counted, printable

if TYPE_CHECKING:
    from hpobench_nmt.lookup.imports.importing import Imported
    from hpobench_nmt.lookup.table import Table

_several = partial(option, multiple=True)


@click.command("import")
@click.argument("source", metavar="FILE_OR_FOLDER", type=PATH)
@option("--as name", "NAME", "Name of the table.  [default: the study's or file's]", default="")
@_several(
    "--metric metrics",
    "COLUMN[:min|max]",
    "A metric and its direction. May be repeated; the first metric is the objective.",
)
@_several("--hyperparameter hyperparameters", "COLUMN", "A hyperparameter. May be repeated.")
@_several("--ignore ignored", "COLUMN", "Columns to leave out, separated by commas. May be repeated.")
@option("--seed", "COLUMN", "Column of the seeds.", default="")
@option("--study", "NAME", "The study or experiment, if there are several.", default="")
@path_option("--curves", "", "A W&B export of the runs' learning curves. May be repeated.", multiple=True)
@path_option("--roles", "FILE", "The roles of columns, as this command writes them.")
@flag("--yes guessed", "Import with roles that are only guesses.")
@path_option("-o --out", "FOLDER", "Write files for editing to this folder, and do not install.")
def tables_import(
    source: Path,
    name: str,
    curves: tuple[Path, ...],
    out: Path | None,
    roles: Path | None,
    guessed: bool,
    study: str,
    ignored: tuple[str, ...],
    **given: Any,
) -> None:
    """Make a table from an old sweep of another program.

    \b
    FILE_OR_FOLDER is one of these, unchanged:
        Optuna     trials_dataframe() as CSV, an SQLite storage, a journal file
        W&B        the table of runs as CSV, also beside the CSV of a chart
        MLflow     runs as CSV, a folder mlruns, its SQLite database
        Ray Tune   a folder of results, or their data frame as CSV
        programs   results of Syne Tune, NePS, SMAC, Keras Tuner, NNI, HPO-B, Ax,
                   Nevergrad, scikit-learn; a state of hb.minimize
        others     JSON lines, CSV with any separator

    The command works out what each column means, prints its decisions and the reasons, and installs the
    table. If a role is only a guess, it asks once in a terminal. Elsewhere it writes all roles to a file, for
    you to correct, and exits with status 2. --roles FILE imports with these roles, --yes with the guesses.

    \b
    To change its decisions, write the files, edit datasheet.toml, and add them:
        hpobench-nmt tables import study.db --out draft
        hpobench-nmt tables add draft
    """
    from hpobench_nmt.core.system.files import read_toml
    from hpobench_nmt.lookup.catalogue import installed
    from hpobench_nmt.lookup.disk.file_names import DATASHEET
    from hpobench_nmt.lookup.imports import importing
    from hpobench_nmt.lookup.imports.roles import stated
    from hpobench_nmt.lookup.imports.sweep import Choices
    from hpobench_nmt.lookup.user_folders import added_folder

    split = [column for text in ignored for column in text.split(",")]
    known = stated(ignored=split, roles=read_toml(roles) if roles else None, where=roles, **given)
    with late_progress_bar(source.name) as progress:
        try:
            imported = importing.make_table(source, name, Choices(known, study, curves, guessed), progress)
        except importing.Unsure as unsure:
            imported = unsure.imported
            _tell(imported)
            terminal = sys.stdin.isatty() and sys.stderr.isatty()
            if not (terminal and click.confirm("Are these roles right?", err=True)):
                options = {"--as": [name], "--study": [study], "--curves": curves, "--out": [out]}
                _refuse(imported, source, options)
        if out is not None:
            with writing(out):
                importing.write_draft(imported, out)
            _tell(imported)
            say(f"Wrote {out}. Edit {out / DATASHEET}, then: hpobench-nmt tables add {out}")
            return
        before, there = installed(), {path.name for path in added_folder().glob("*")}
        if importing.is_known(imported.table, added_folder(), named=bool(name)):
            say(f"{source} was imported before, as {imported.table.name}. Nothing is changed.")
            return
        with writing(added_folder()):
            folder = importing.install_table(imported.table, added_folder(), progress)
    _tell(imported)
    tell_added(imported.table, folder, before, there)
    say("To change these decisions, write the files with --out FOLDER, edit them, and add the folder.")


def _tell(imported: Imported) -> None:
    """Print the decisions on stdout, and notes about the reading on stderr."""
    from hpobench_nmt.lookup.imports.importing import decision_lines

    for note in imported.notes:
        say(f"Note: {note}.", err=True)
    say(f"{imported.table.name}: {counted(len(imported.table), 'row')} from {imported.kind}")
    for line in decision_lines(imported.decisions):
        say(f"  {line}")


def _refuse(imported: Imported, source: Path, options: Mapping[str, Sequence[Any]]) -> None:
    """Write the roles to a file, and raise InputError, which ends in the command that imports with them."""
    from hpobench_nmt.core.system.errors import InputError
    from hpobench_nmt.core.system.files import save_file
    from hpobench_nmt.lookup.imports.roles import roles_file

    path = Path(f"{imported.table.name}.roles.toml")
    save_file(path, roles_file(imported.about).encode())
    guesses = ", ".join(map(printable, imported.doubts))
    words = [
        str(word) for option, texts in options.items() for text in texts if text for word in (option, text)
    ]
    command = shlex.join(["hpobench-nmt", "tables", "import", str(source), *words, "--roles", str(path)])
    raise InputError(
        f"{source}: these roles are only guesses: {guesses}. Correct {path}, then run: {command}"
    )


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
