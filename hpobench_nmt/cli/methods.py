"""`hpobench-nmt methods`: list the methods, describe one of them, check or start a method of your own."""

from __future__ import annotations

from pathlib import Path

import click

from hpobench_nmt.cli.common import make_console, say
from hpobench_nmt.cli.completion import completing, method_names
from hpobench_nmt.cli.options import PATH, option
from hpobench_nmt.core.system.errors import InputError, RunError


@click.command()
@click.argument("name", metavar="[NAME|new]", required=False, shell_complete=completing(method_names))
@click.argument("file", metavar="[FILE.py]", required=False, type=PATH)
@option("--check spec", "METHOD", "Run the conformance checks on a method, e.g. my_file.py:MyMethod.")
@option("--objectives n_objectives", "N", "Number of objectives for --check.", 1, type=click.IntRange(1, 10))
def methods(name: str | None, file: Path | None, spec: str | None, n_objectives: int) -> None:
    """List the methods, check one of your own, or start one.

    With a NAME, describe that method and its settings. To change settings, write them after the name:
    --methods "BO_EI_M_std(length_scale=0.5)". They become part of the method's name in results.

        "new FILE.py" writes a new file with a small method that works, for you to start from.
    """
    if "" in (name, spec):
        raise InputError("the name of the method is empty: give a name, or no argument to list all methods.")
    if spec and name:
        raise InputError(f"--check names the method: leave {name!r} out.")
    if file and name != "new":
        raise InputError(f"one method at a time: leave {str(file)!r} out.")
    if spec:
        _check(spec, n_objectives)
    elif name == "new":
        _new(file)
    elif name:
        from hpobench_nmt.analysis.method_card import method_card

        for line in method_card(name):
            say(line)
    else:
        _list()


def _list() -> None:
    from hpobench_nmt.benchmarking.contestants.plugins import list_methods, method_groups
    from hpobench_nmt.render.terminal.grids import print_frame, print_text

    every, console = list_methods().set_index("method", drop=False), make_console()
    for number, (group, names) in enumerate(method_groups().items()):
        if number:
            console.print()
        print_text(f"{group}:", console)
        chosen = every.loc[names]
        chosen = chosen if chosen["extra"].any() else chosen.drop(columns="extra")
        print_frame(chosen, console, wrapped=("description",))


def _new(file: Path | None) -> None:
    from hpobench_nmt.benchmarking.contestants.skeleton import write_skeleton

    if file is None:
        raise InputError("'methods new' needs the name of a new file, such as my_method.py.")
    spec = write_skeleton(file)
    say(f"Written: {file}. Check it with 'hpobench-nmt methods --check {spec}'.")


def _check(spec: str, n_objectives: int) -> None:
    from hpobench_nmt.benchmarking.running.conformance import check_method

    reasons = []
    for check, reason in check_method(spec, n_objectives):
        reasons.append(reason)
        say(f"FAILED  {check}: {reason}" if reason else f"ok      {check}")
    if failed := sum(map(bool, reasons)):
        raise RunError(f"{spec.rpartition(':')[2]} fails {failed} of {len(reasons)} checks.")


COMMANDS = (methods,)
