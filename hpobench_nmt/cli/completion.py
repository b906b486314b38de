"""Shell completion of names of suites, methods and tables. Click itself completes commands and options.

    eval "$(_HPOBENCH_NMT_COMPLETE=bash_source hpobench-nmt)"

in ~/.bashrc enables it. zsh_source and fish_source are for other shells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from hpobench_nmt.core.system.files import is_name

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(names: Callable[[], Iterable[str]]) -> Complete:
    """A completion by names. In a comma-separated list, it completes the last part.

    The shell inserts a completion without escaping it. Names such as `$(…)`, which a folder or a collection
    in a datasheet may have, are therefore not offered.
    """

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last) and is_name(name)]

    return complete


def suite_names() -> Iterable[str]:
    """The suites of the package."""
    from hpobench_nmt.benchmarking.task.suite_files import suite_files

    return [*suite_files(), "lm-2026"]


def method_names() -> Iterable[str]:
    """All methods that have a name."""
    from hpobench_nmt.methods import KNOWN

    return KNOWN


def table_names() -> Iterable[str]:
    """The installed tables, and their groups."""
    from hpobench_nmt.lookup.catalogue import groups, installed

    return [*installed(), *groups()]


def collection_names() -> Iterable[str]:
    """The published collections, and the benchmark that needs several of them."""
    from hpobench_nmt.lookup.collections import COLLECTIONS

    return [*COLLECTIONS, "lm-2026"]


def removable_names() -> Iterable[str]:
    """The tables that were added or fetched, and their groups."""
    from hpobench_nmt.lookup.catalogue import collections, own_tables

    return [*own_tables(), *collections()]
