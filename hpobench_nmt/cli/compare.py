"""`hpobench-nmt compare` and `power`: whether methods differ, and what it takes to show it."""

from __future__ import annotations

from pathlib import Path

import click

from hpobench_nmt.cli.common import make_console, say
from hpobench_nmt.cli.options import PATH, count_option, listed_option
from hpobench_nmt.core.system.errors import InputError


@click.command()
@click.argument("sources", metavar="FOLDER [FOLDER]|CSV", nargs=-1, required=True, type=PATH)
@listed_option("-m --methods", "A,B", "The two methods. Not needed if each folder has only one.")
def compare(sources: tuple[Path, ...], methods: tuple[str, ...]) -> None:
    """Compare two methods of a results FOLDER, those of two folders, or those of a CSV file.

    Prints by how much they differ, whether that is shown on these tables and on other families of tables,
    what these tests could have shown, and a sentence for a paper.

    A CSV file has results that were made elsewhere, in the columns method, task, family, trial, budget and
    value. Lower values are better, and B is the baseline.
    """
    from hpobench_nmt.analysis.compare import compare as compared
    from hpobench_nmt.benchmarking.records.store import load_results
    from hpobench_nmt.render.terminal.grids import print_text

    if len(sources) > 2:
        raise InputError(f"compare takes one or two folders, not {len(sources)}.")
    console = make_console()
    results = [path if path.suffix == ".csv" else load_results(path) for path in sources]
    for line in compared(*results, methods=methods).lines:
        print_text(line, console)


@click.command()
@click.argument("source", metavar="SUITE|FOLDER|CSV")
@listed_option(
    "-m --methods",
    "A[,B]",
    "Whose results give the variance: a method against random search, or two.  [default: BO_auto]",
)
@count_option("--families", "Families of tables in the planned study.  [default: those of the results]")
@count_option("--tables", "Tables of each family.")
@count_option("--trials", "Trials on each table.")
def power(
    source: str, methods: tuple[str, ...], families: int | None, tables: int | None, trials: int | None
) -> None:
    """Print what a study would show: the power of its verdict on other families.

    The variance is that of the archive on a SUITE such as lm-2026-plain, of a results FOLDER, or of a CSV
    file as in `compare`.
    """
    from hpobench_nmt.arena.power import power as planned
    from hpobench_nmt.benchmarking.records.store import load_results
    from hpobench_nmt.render.terminal.grids import print_grid

    if len(methods) > 2:
        raise InputError(f"power takes one or two methods, not {len(methods)}.")
    results = load_results(Path(source)) if Path(source).is_dir() else source
    frame = planned(results, *methods, families=families, tables=tables, trials=trials)
    rows = [
        (
            f"{line['ratio']:g}",
            f"{line['power']:.2f}",
            f"{line['low']:.2f} to {line['high']:.2f}",
            _families(line["families"]),
            f"{_families(line['fewest'])} to {_families(line['most'])}",
        )
        for line in frame.to_dict("records")
    ]
    print_grid(["true ratio", "power", "90% range", "families for 0.8", "90% range"], rows, make_console())
    say("The range comes from the few families on which the variance is known.")


def _families(count: float) -> str:
    return "over 10,000" if count == float("inf") else f"{count:.0f}"


COMMANDS = (compare, power)
