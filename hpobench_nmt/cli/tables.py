"""`hpobench-nmt tables`: list, show, analyze, check, describe, fetch, add, import, remove, build tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click
from msgspec import UNSET, Meta, UnsetType

from hpobench_nmt.cli.common import Commands, late_progress_bar, make_console, say, writing
from hpobench_nmt.cli.completion import collection_names, completing, removable_names, table_names
from hpobench_nmt.cli.imports import tables_import, tell_added
from hpobench_nmt.cli.ledgers import build
from hpobench_nmt.cli.options import (
    PATH,
    constraint_option,
    count_option,
    format_option,
    listed_option,
    option,
    path_option,
    settings_option,
)
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, some_of
from hpobench_nmt.core.system.validation import NonNegative, Strict, checked

# The number of a collection's tables that are named.
_MOST_NAMES = 8


class _Analysis(Strict, frozen=True):
    """The settings of `tables analyze --set`. Its defaults stand in analyze_tables."""

    metric: str | UnsetType = UNSET
    best_share: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET
    tolerance: NonNegative | UnsetType = UNSET


@click.group(cls=Commands)
def tables() -> None:
    """List, check, analyze, add and build lookup tables."""


@tables.command("list")
def tables_list() -> None:
    """List the installed tables."""
    from hpobench_nmt.lookup import catalogue
    from hpobench_nmt.lookup.collections import COLLECTIONS
    from hpobench_nmt.render.terminal.grids import print_grid

    if there := catalogue.table_rows(lambda message: say(message, err=True)):
        lines = [tuple(map(str, line)) for line in there]
        right = ("rows", "hyperparameters")
        print_grid(catalogue.COLUMNS, lines, make_console(), right=right, wrapped=("folder",))
    found = catalogue.installed()
    for collection in COLLECTIONS.values():
        if absent := [name for name in collection.tables if name not in found]:
            get = f"Get them with 'hpobench-nmt tables fetch {collection.name}': {collection.given.title}."
            say(f"Not installed: {some_of(absent, _MOST_NAMES)}. {get}", err=True)


@tables.command("show")
@click.argument("name", shell_complete=completing(table_names))
@count_option("--rows", "Number of best rows to show.", usual=5)
@constraint_option("Show the best rows and the front of only those rows that keep this bound")
def tables_show(name: str, rows: int, constraints: tuple[str, ...]) -> None:
    """Describe a table, and show its best rows and its front.

    NAME is a table, or a group such as nmthpo.
    """
    from hpobench_nmt.benchmarking.task.feasibility import table_violations
    from hpobench_nmt.lookup.catalogue import load_table, members
    from hpobench_nmt.render.terminal.table_charts import print_charts
    from hpobench_nmt.render.terminal.table_summary import print_summary

    several, console = [load_table(member) for member in members(name)], make_console()
    for table in several:
        table_violations(table, constraints)  # raises before anything is printed
    for table in several:
        print_summary(table, console, rows, constraints)
        console.print()
        print_charts(table, console, constraints=constraints)


@tables.command("analyze")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=completing(table_names))
@listed_option("--objectives", "METRIC,...", "Two metrics, for the front.  [default: the table's own]")
@settings_option(
    "metric=METRIC to analyse, by default the first objective; best_share=0.25, the share of the rows that "
    "counts as best; tolerance=GAP to the best that is small enough, by default the datasheet's or 5% of the "
    "way to the median."
)
@constraint_option("Use only rows that keep this bound")
@path_option("-o --out", "", "Folder for tables (CSV) and figures (PNG, PDF).")
def tables_analyze(
    names: tuple[str, ...],
    objectives: tuple[str, ...],
    constraints: tuple[str, ...],
    out: Path | None,
    settings: dict[str, Any],
) -> None:
    """Analyse tables: importance, fronts, noise and more.

    NAME is a table or a group. The output has the importance of the hyperparameters, the Pareto front, the
    sensitivity of the best row, the noise of the seed, and the learning curves. For several tables, it also
    shows how similarly they rank configurations.
    """
    from hpobench_nmt.analysis.tables.sections import analyze_tables, kept_rows
    from hpobench_nmt.lookup.catalogue import load_table, members
    from hpobench_nmt.render.section_files import write_sections
    from hpobench_nmt.render.terminal.grids import print_sections

    checked(settings, _Analysis, "--set")
    if len(objectives) not in (0, 2):
        raise InputError(f"--objectives takes two metrics, not {len(objectives)}.")
    loaded = [load_table(member) for name in names for member in members(name)]
    rules = " and ".join(constraints)
    for table in loaded:
        if constraints:
            kept = kept_rows(table, constraints).sum()
            say(f"Table {table.name!r}: the {kept:,} of {len(table):,} rows that keep {rules}.")
    pair = (objectives[0], objectives[1]) if objectives else None
    sections = analyze_tables(loaded, objectives=pair, constraints=constraints, **settings)
    print_sections(sections, make_console())
    if out:
        written = write_sections(sections, out)
        say(f"{counted(len(written), 'file')} in {out}")


@tables.command("check")
@click.argument("name", shell_complete=completing(table_names))
def tables_check(name: str) -> None:
    """Check a table, and explain what the findings mean for a benchmark.

    NAME is a table, or a group such as nmthpo.
    """
    from hpobench_nmt.analysis.tables.controls import ability_findings
    from hpobench_nmt.lookup.catalogue import find_folder, load_table, members
    from hpobench_nmt.lookup.checks.facts import find_check
    from hpobench_nmt.render.terminal.grids import print_hanging

    loaded = [(load_table(member), find_folder(member)) for member in members(name)]
    marks = {"ok": ("✓", "green"), "note": ("·", "cyan"), "warning": ("!", "yellow")}
    console = make_console()
    current, told = "", set()
    for finding in find_check(name, loaded, ability_findings):
        if finding.table != current:
            current = finding.table
            console.print(current, style="bold", markup=False, highlight=False)
        mark, colour = marks[finding.kind]
        print_hanging(f" {mark} ", finding.fact, console, colour)
        if finding.meaning not in told:  # once, because many tables of a group have the same finding
            told.add(finding.meaning)
            print_hanging("   → ", finding.meaning, console, "dim", "dim")


@tables.command("publish")
@click.argument("name", shell_complete=completing(table_names))
@format_option("hub", "croissant")
@path_option("-o --out", "", "A new folder for hub, a file for croissant.  [default: print it]")
def tables_publish(name: str, form: str, out: Path | None) -> None:
    """Write a table as a data set of the Hugging Face hub, or its metadata.

    With --format hub, the new folder has the rows as Parquet, with curves and replicates, a card, and the
    metadata. The command refuses a table whose authors do not state a licence. It does not upload anything.

    With --format croissant, you get the metadata alone, for data set catalogues (JSON-LD). Put the file into
    the folder of the table. For a group, it has a list of the metadata of its tables.
    """
    import json

    from hpobench_nmt.core.system.files import save_file
    from hpobench_nmt.lookup.catalogue import find_folder, members
    from hpobench_nmt.lookup.disk.card import croissant
    from hpobench_nmt.lookup.disk.hugging_face import write_data_set

    if form == "hub":
        if out is None:
            raise InputError("--format hub needs a new folder: name it with --out.")
        with writing(out):
            say(f"{counted(len(write_data_set(find_folder(name), out)), 'file')} in {out}")
        return
    cards = [croissant(find_folder(member)) for member in members(name)]
    text = json.dumps(cards[0] if len(cards) == 1 else cards, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    save_file(out, text.encode())
    say(f"Wrote {out}.")


@tables.command("fetch")
@click.argument("name", metavar="COLLECTION", shell_complete=completing(collection_names))
@option(
    "--from source",
    "FOLDER|ADDRESS",
    "Take the authors' files from this folder, or from a copy at this base address.",
    default=None,
)
def tables_fetch(name: str, source: str | None) -> None:
    """Download a collection of tables, or all tables of the benchmark lm-2026.

    'hpobench-nmt tables list' names the collections that are not installed. Wherever a file comes from, its
    hash must be the one that this package knows.
    """
    from hpobench_nmt.benchmarking.fetching import collections_for, fetch
    from hpobench_nmt.lookup.collections import COLLECTIONS
    from hpobench_nmt.lookup.user_folders import fetched_folder

    mirror = source if source and source.startswith(("https://", "http://")) else ""
    fetched = fetch(name, None if mirror else source, mirror)
    if not fetched:
        say("All collections are installed.")
        return
    say(f"Installed {', '.join(fetched)} in {fetched_folder()}.")
    for collection in map(COLLECTIONS.__getitem__, collections_for(name)):
        of = "" if collection.name == name else f" of {collection.name}"
        say(f"Licence{of}: {collection.given.licence}.")


@tables.command("add")
@click.argument("source", metavar="FOLDER_OR_FILE", type=PATH)
@path_option("--datasheet", "", "Datasheet of the file.  [default: the same name, .toml]")
@option(
    "--accept",
    "",
    "other: leave out columns that the datasheet does not describe.",
    type=click.Choice(["other"]),
)
def tables_add(source: Path, datasheet: Path | None, accept: str | None) -> None:
    """Install a table of your own, with its datasheet.

    The table is a folder, or a CSV or Parquet file with a short datasheet in TOML.

    \b
    A datasheet needs at least one section for each column of the file:
        name = "my-table"
        [hyperparameters.learning_rate]
        scale = "log"              # or "linear", the default
        [metrics.dev_ppl]
        direction = "min"          # or "max"

    \b
    It may also have, for a hyperparameter:
        values             all values of the grid
        unit
        integer            true: whole numbers only
        kind               "numeric", "ordinal" or "categorical" (as texts are)
        active_if          such as {optimizer = ["adam"]}; elsewhere, its cells
                           are empty
        default            what surrogates use where it is inactive

    \b
    For a metric:
        unit, description
        tolerance          the gap to the best that counts as reached in ftc
        missing            the number or word that stands for "no value"

    \b
    At the top:
        objectives = ["dev_ppl", "seconds"]   # by default, the first metric
        ignore = ["run_id"]                   # columns that are left out
        only = {state = ["COMPLETE"]}         # only rows with these values
        split_by = ["model", "tokens"]        # a table for each combination of
                                              # values, all in one group

    \b
    For a column that surrogates use, but that is not a hyperparameter:
        [features.depth]           # values, scale, unit and kind

    \b
    If configurations were trained several times, name the column of the seeds:
        [replicates]
        seed = "seed"
    The file then has one training on each line, and the means become the
    table's rows. To keep single trainings as rows, put the other trainings into
    a file replicates.csv, with the columns replicate (1, 2, ...) and seed in
    addition to the table's own, and do not name a column in the section:
        [replicates]

    \b
    Learning curves are in a file curves.csv beside the rows, with the columns
        row,checkpoint,update,cost,dev_ppl
    in ascending order (rows from 0, checkpoints from 1). The datasheet has:
        [curves]
        resource = "update"        # the column of the progress of a training
        cost_unit = "s"            # the unit of the column cost
        truncate_at = "nan"        # a curve ends where a metric is missing
        [curves.metrics.dev_ppl]   # a section for each column of a metric
        own = "best"               # the row's value is the best of its curve;
                                   # or "last"; or left out
    """
    from hpobench_nmt.lookup import catalogue
    from hpobench_nmt.lookup.disk.folder import add_tables
    from hpobench_nmt.lookup.user_folders import added_folder

    before, there = catalogue.installed(), {path.name for path in added_folder().glob("*")}
    with writing(added_folder()), late_progress_bar(source.name) as progress:
        notify = lambda message: say(f"Left out: {message}", err=True)  # noqa: E731
        added = add_tables(source, datasheet, added_folder(), progress, notify, accept == "other")
    for table, folder in added:
        tell_added(table, folder, before, there)
    if len(added) > 1:
        say(
            f"They are the group {added[0][0].claims['collection']!r}; you can give its name for all of them."
        )
    for name in catalogue.left_from_before(added):
        say(
            f"The group also has {name}, which {source.name} does not make. If it is from an earlier version "
            f"of the file, remove it: hpobench-nmt tables remove {name}",
            err=True,
        )


@tables.command("remove")
@click.argument("name", shell_complete=completing(removable_names))
def tables_remove(name: str) -> None:
    """Remove a table that was added or fetched, or a group of them."""
    from hpobench_nmt.lookup.catalogue import installed, remove_tables
    from hpobench_nmt.lookup.user_folders import added_folder

    with writing(added_folder()):
        folders = remove_tables(name)
    for folder in folders:
        say(f"Removed {folder}.")
        if folder.name in installed():
            say(f"The table of the same name in {installed()[folder.name]} is now used.")


tables.add_command(tables_import)
tables.add_command(build)


COMMANDS = (tables,)
