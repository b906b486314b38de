"""Commands on ledgers of `train`: `hpobench-nmt tables build` and `ledger merge`."""

from __future__ import annotations

from pathlib import Path

import click

from hpobench_nmt.cli.common import Commands, say, writing
from hpobench_nmt.cli.options import PATH, listed_option, path_option
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import counted

_ACCEPTED = ("devices", "first", "edited")


@click.command("build")
@click.argument("ledger", type=PATH)
def build(ledger: Path) -> None:
    """Make a table folder from a LEDGER of 'train', next to the ledger."""
    from hpobench_nmt.runner.ledgers.build_table import build as make

    with writing(ledger):
        table, folder = make(ledger, lambda message: say(message, err=True))
    claims = table.claims
    say(
        f"{folder}: table {table.name!r}, {len(table)} of "
        f"{counted(claims['configurations'], 'configuration')}, {claims['failed']} failed, "
        f"{'complete' if claims['complete'] else 'not complete'}."
    )
    if "devices_differ" in table.provenance:
        say(table.provenance["devices_differ"])
    say(f"Install it: hpobench-nmt tables add {folder}")


@click.group(cls=Commands)
def ledger() -> None:
    """Work with ledgers of 'train'."""


@ledger.command("merge")
@click.argument("ledgers", nargs=-1, required=True, type=PATH)
@path_option("-o --out", "", "Folder of the merged ledger.", required=True)
@listed_option(
    "--accept",
    "devices,first,edited",
    "Accept rows of different devices; the first ledger's line of a training that has two different "
    "lines; lines that you edited, which start a new chain of hashes.",
)
def merge(ledgers: tuple[Path, ...], out: Path, accept: tuple[str, ...]) -> None:
    """Merge LEDGERS of one spec, such as those of shards, into one.

    If the ledgers do not fit together, the command lists every conflict and does not write a ledger. A ledger
    in the folder --out is merged as well, so the command can be repeated after more trainings.
    """
    from hpobench_nmt.runner.ledgers.merge import merge as run

    check_known("value of --accept", accept, _ACCEPTED)
    merged = run(
        ledgers,
        out,
        mix_devices="devices" in accept,
        keep="first" if "first" in accept else None,
        edited="edited" in accept,
    )
    for note in merged.notes:
        say(note, err=True)
    for conflict in merged.conflicts:
        say(f"Conflict: {conflict}", err=True)
    if merged.conflicts:
        count = len(merged.conflicts)
        raise InputError(f"{count} conflict{'s' if count > 1 else ''}: {out} was not changed.")
    say(f"{out}: {counted(merged.records, 'training')}, {merged.new:,} of them new.")
    say(f"Make the table: hpobench-nmt tables build {out}")


COMMANDS = (ledger,)
