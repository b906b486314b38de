"""What `hpobench-nmt tune` adds for a program of the user, which follows --."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpobench_nmt.cli.common import check_out_file, say
from hpobench_nmt.core.system.errors import InputError

if TYPE_CHECKING:
    from hpobench_nmt.runner.specs.spec import Spec


class WithProgram(click.Command):
    """A command whose words after -- are a program, which the context's `meta` has under "program"."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words before --."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["program"] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage, with the program."""
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM ...]"]


def spec_of(path: Path, words: Sequence[str], seed: int, timeout: float) -> Spec:
    """The spec of a file of `tune`, with the program that follows it, if there is one."""
    from hpobench_nmt.runner.specs.search_file import load_any, load_search

    if path.suffix != ".toml":
        raise InputError(
            f"{path}: not a search. To tune a program, write one by 'tune --new search.toml', and "
            f"run 'tune search.toml -- python train.py --lr {{learning_rate}}'."
        )
    if words:
        return load_search(path, words, seed, timeout)
    spec = load_any(path)
    return load_search(path, (), seed, timeout) if spec.family.program else spec


def write_new(path: Path) -> None:
    """Write a commented search file, and say what comes next."""
    from hpobench_nmt.core.system.files import create_file
    from hpobench_nmt.runner.specs.search_file import NEW

    check_out_file(path)
    create_file(path, NEW)
    say(f"{path}: edit it, then run: hpobench-nmt tune {path} -- python train.py --lr {{learning_rate}} ...")


def own_devices(spec: Spec, device: str, workers: int) -> list[str]:
    """Devices for a user's program: several workers have a GPU each, and a single one has all."""
    from hpobench_nmt.runner.devices import visible_gpus

    if device != "auto":
        return device.split(",")
    wanted = workers > 1 or "{gpu}" in str(spec.fixed["program"])
    return [f"cuda:{gpu}" for gpu in visible_gpus() if wanted] or ["this machine"]


def print_first(spec: Spec, seed: int, most: int) -> None:
    """Print how a user's program would be run first."""
    import shlex

    from hpobench_nmt.core.seeds import initial_rows
    from hpobench_nmt.runner.families.program import PLACES

    if not spec.family.program:
        raise InputError("--dry-run is for a program; 'train --dry-run' describes a spec.")
    drawn = initial_rows(seed, spec.name, 0, spec.size, min(3, most))
    row = drawn[0] if spec.start is None else spec.start
    shown = {name: f"<{name}>" for name in PLACES} | {"seed": seed}
    say(shlex.join(spec.family.program.filled(spec.configuration(row), shown)))
