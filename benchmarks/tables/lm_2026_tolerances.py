"""The effect in lm-2026 of widening tolerances to the third best row: figures with and without it.

    python benchmarks/tables/lm_2026_tolerances.py TRACK ...

For each track with halves (plain, early, early-1), it runs the archive's methods on the tables of the test
half with tolerances of the first rule alone: the datasheet's, one deviation between seeds, or 5% of the way
to the median. It prints their figures next to the archive's figures. All tables must be installed.
"""

from __future__ import annotations

import sys

from lm_2026 import tolerance

import hpobench_nmt as hb
from hpobench_nmt.arena.archive import NAME
from hpobench_nmt.arena.beside import load_archive
from hpobench_nmt.arena.submissions import archived_results
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite, track_of
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.methods import KNOWN


def compare(track: str) -> None:
    """Print a track's figures with both rules."""
    archive, frozen = load_archive(), load_suite(track_of(NAME, track))
    tables = [name for name in frozen.tables if name not in frozen.development]
    methods = [m for m in archive.methods(track) if m in KNOWN and not KNOWN[m].missing()]
    bare = changed(frozen, tables=tables, pinned={}, development=[], methods=methods)
    narrow = {name: narrow_tolerance(bare, name) for name in tables}
    print(f"{track}: tolerance and target rows, as it is and by the first rule alone")
    ran = hb.run(
        changed(bare, name=f"{track}-narrow", tolerance=narrow), methods=methods, trials=frozen.trials
    )
    wide = hb.fewer_trainings(archived_results(archive, track, tables, methods))
    first = hb.fewer_trainings(ran)
    targets = [found.tables.set_index("table")["targets"] for found in (wide, first)]
    for name in tables:
        own = f"{frozen.tolerance[name]:g} ({targets[0][name]})"
        print(f"  {name}: {own}, {narrow[name]:g} ({targets[1][name]})")
    print("method, times fewer as it is, by the first rule alone, and their shares of capped trials")
    columns = ["times_fewer", "low", "high", "capped"]
    a, b = (found.methods.set_index("method")[columns] for found in (wide, first))
    for name in a.sort_values("times_fewer", ascending=False).index:
        one, other = a.loc[name], b.loc[name]
        print(
            f"  {name}: {one['times_fewer']:.2f} [{one['low']:.2f}, {one['high']:.2f}], "
            f"{other['times_fewer']:.2f} [{other['low']:.2f}, {other['high']:.2f}]; "
            f"{one['capped']:.0%}, {other['capped']:.0%}"
        )


def narrow_tolerance(suite: hb.Suite, name: str) -> float:
    """A table's tolerance by the first rule alone."""
    table = load_table(name)
    alone = changed(suite, tables=[name], tolerance={}, time={}, score_at={})
    if suite.clock == "lookups":
        alone = changed(alone, score_at={"default": 5})
    return tolerance(suite, table, make_instance(alone, table), fewest=1)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        compare(each)
