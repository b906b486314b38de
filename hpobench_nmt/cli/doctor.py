"""`hpobench-nmt doctor`: what is installed, where it is, and whether this machine computes correctly."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import click

from hpobench_nmt.cli.common import make_console, say
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.files import why_no_locks

_DISTRIBUTION = "hpobench-nmt"
# Extras for people who work on this package.
_OURS = ("test", "docs", "dev", "benchmark")
# The first rows that these methods look up in sotu-awd-lstm (seed 0, trial 0), which are the same on every
# machine.
_EXPECTED = {
    "RS": [30, 92, 106, 23, 36, 32, 121, 80, 37, 111, 73, 143],
    "BO_EI_M_std": [30, 92, 106, 83, 2, 131, 129, 130, 138, 81, 108, 132],
    "GB_EIF_M": [30, 92, 106, 94, 67, 58, 91, 85, 95, 142, 82, 93],
}
_LOOKUPS = 12
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_NO_LIMIT = 2**60
_TABLE = "sotu-awd-lstm"


@click.command()
def doctor() -> None:
    """Check this installation.

    The output lists the versions and extras that are installed, and the folders of tables and caches, and
    tests whether this machine computes correctly. If something that every run needs does not work, the exit
    code is 1.
    """
    from hpobench_nmt.render.terminal.grids import print_grid

    console = make_console()
    print_grid(("what", "where"), _places(), console, wrapped=("where",))
    required, extras = _requirements()
    found = [(name, _version(name) or "missing") for name in required]
    print_grid(("package", "version"), found, console)
    rows = []
    for extra, names in extras.items():
        lacks = ", ".join(name for name in names if _version(name) is None)
        rows.append((extra, f"lacks {lacks}: pip install '{_DISTRIBUTION}[{extra}]'" if lacks else "yes"))
    print_grid(("extra", "installed"), rows, console, wrapped=("installed",))
    wrong = [f"{name} is missing." for name, version in found if version == "missing"]
    wrong += _self_check()
    for problem in wrong if len(wrong) > 1 else []:
        say(f"Wrong: {problem}", err=True)
    if wrong:
        raise RunError(f"This installation has {len(wrong)} faults." if len(wrong) > 1 else wrong[0])
    say("All is well.")


def _places() -> list[tuple[str, str]]:
    """Versions of this package, Python and the system, the folders in use, locks, and memory limits."""
    import platform

    import hpobench_nmt
    from hpobench_nmt.core.system.compiled_folder import compiled_folder
    from hpobench_nmt.lookup.user_folders import added_folder, fetched_folder, training_cache

    places = [
        ("version", f"{_version(_DISTRIBUTION)}, Python {platform.python_version()}"),
        ("machine", f"{platform.platform()}, {os.cpu_count()} processors"),
        ("this package", str(Path(hpobench_nmt.__file__).parent)),
        ("tables that you added", str(added_folder())),
        ("tables that were fetched", str(fetched_folder())),
        ("corpora and states of trainings", str(training_cache())),
        ("compiled code", str(compiled_folder())),
    ]
    for what, folder in (("training cache", training_cache()), ("working folder", Path.cwd())):
        places.append((f"locks in the {what}", _locks(folder)))
    places += [("memory limit", limit) for limit in _memory_limits()]
    if more := os.environ.get("HPOBENCH_NMT_TABLES"):
        places.append(("HPOBENCH_NMT_TABLES", more))
    return places


def _locks(folder: Path) -> str:
    """Whether files can be locked in a folder, or in the place where it is going to be made."""
    there = next(place for place in (folder, *folder.parents) if place.is_dir())
    if not os.access(there, os.W_OK):
        return f"{there}: cannot be written"
    return why_no_locks(there) or "yes"


def _memory_limits() -> list[str]:
    """Limits of this process's memory, by the shell (ulimit -v) and by its control group."""
    found = []
    with contextlib.suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(f"{limit / 2**20:,.0f} MiB of addresses (ulimit -v)")
    for path in _CGROUP_LIMITS:
        with contextlib.suppress(OSError):
            text = path.read_text(encoding="ascii").strip()
            if text.isdecimal() and int(text) < _NO_LIMIT:
                found.append(f"{int(text) / 2**20:,.0f} MiB (control group, {path})")
    return found or ["none"]


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Names of the packages that this Python always needs, and those of each extra."""
    from importlib import metadata

    from packaging.requirements import Requirement

    offered = [
        name for name in metadata.metadata(_DISTRIBUTION).get_all("Provides-Extra", ()) if name not in _OURS
    ]
    always: list[Requirement] = []
    optional: list[Requirement] = []
    for each in map(Requirement, metadata.requires(_DISTRIBUTION) or []):
        (always if each.marker is None or each.marker.evaluate({"extra": ""}) else optional).append(each)
    extras = {
        extra: [each.name for each in optional if each.marker and each.marker.evaluate({"extra": extra})]
        for extra in offered
    }
    return [each.name for each in always], extras


def _version(name: str) -> str | None:
    from importlib import metadata  # takes long to import, and --help does not need it

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _self_check() -> list[str]:
    """Errors in the shipped tables, or in the rows that methods look up in one of them."""
    import hpobench_nmt as hb
    from hpobench_nmt.benchmarking.call import benchmark
    from hpobench_nmt.lookup.catalogue import installed

    wrong, started = [], time.perf_counter()
    for name in installed():
        try:
            hb.load_table(name)
        except InputError as error:
            wrong.append(f"table {name!r} cannot be used: {error}")
    try:
        table = hb.load_table(Path(hb.__file__).parent / "tables" / _TABLE)
        results = benchmark(table, list(_EXPECTED), trials=1, lookups=_LOOKUPS, score_at=_LOOKUPS)
    except Exception as error:  # the command reports any error
        return [*wrong, f"a run of three methods failed: {type(error).__name__}: {error}"]
    for method, expected in _EXPECTED.items():
        rows = [int(row) for row in results.trials[_TABLE, method][0].rows]
        if rows != expected:
            wrong.append(
                f"{method} looked up rows {rows}, not {expected}: this machine or one of its libraries "
                f"computes other values, so results will differ from those elsewhere."
            )
    if not wrong:
        seconds = time.perf_counter() - started
        say(f"The tables can be read, and three methods look up the expected rows ({seconds:.1f} s).")
    return wrong


COMMANDS = (doctor,)
