"""Time of the analyses of the six published tables: functional ANOVA first, with all pairs.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/speed/analyses.py [--figures]

Functional ANOVA is timed over the whole space, including its imports, which is compared with the bar, and
over the best quarter. Use an idle machine: other work on its cores changes the figures.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.collections import COLLECTIONS

BAR_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", action="store_true", help="also draw and write every figure")
    arguments = parser.parse_args()
    tables = [load_table(name) for name in COLLECTIONS["nmthpo"].tables]

    start = time.perf_counter()
    from hpobench_nmt.evaluation.importance import importance

    for table in tables:
        found = importance(table.response())
        print(
            f"  {table.name}: {found.method}, {len(found.singles)} hyperparameters, {len(found.pairs)} pairs"
        )
    seconds = time.perf_counter() - start
    verdict = "ok" if seconds <= BAR_SECONDS else "ABOVE THE BAR"
    print(f"fANOVA, all pairs, {len(tables)} tables:  {seconds:6.2f} s (bar: {BAR_SECONDS:.0f} s)  {verdict}")

    start = time.perf_counter()
    for table in tables:
        importance(table.response(), best_share=0.25)
    print(f"the same over the best quarter:    {time.perf_counter() - start:6.2f} s")

    from hpobench_nmt.analysis.tables.sections import analyze_tables
    from hpobench_nmt.render.section_files import write_sections

    start = time.perf_counter()
    sections = analyze_tables(tables)
    print(f"every analysis, {len(sections)} sections:      {time.perf_counter() - start:6.2f} s")
    if arguments.figures:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            files = write_sections(sections, Path(folder))
        print(f"{len(files)} files written (PNG, PDF, CSV):   {time.perf_counter() - start:6.2f} s")


if __name__ == "__main__":
    main()
