"""Hashes from a results folder down to the trainings of its tables, compared on request."""

from __future__ import annotations

from pathlib import Path

from hpobench_nmt.benchmarking.records.manifest import read_manifest
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.catalogue import find_folder
from hpobench_nmt.lookup.checks.facts import ledger_facts
from hpobench_nmt.lookup.disk.folder import described_files


def verify_results(folder: str | Path, results: Results) -> list[str]:
    """Compare the hashes of results that were loaded from a folder; returns a sentence for each comparison.

    `load_results` has already compared the manifest and the observations. This function also reads the files
    of each table, and the ledger beside them.

    Raises:
        InputError: a hash is missing or differs.
    """
    manifest = read_manifest(Path(folder))
    if not manifest.hashed:
        raise InputError(
            f"{folder}: has no hashes, because an earlier version wrote it. To get results with hashes, "
            f"run the suite again with another --out."
        )
    files = counted(len(results.trials), "file")
    facts = [f"{folder}: the hashes of the manifest and of {files} of observations are correct."]
    for name, entry in manifest.tables.items():
        if name not in results.instances:
            continue
        place = find_folder(entry.source or name)
        facts.append(f"{place}: the hashes of {', '.join(described_files(place))} are correct.")
        for status, fact, advice in ledger_facts(results.instances[name].table, place):
            if status != "ok":
                raise InputError(f"{place}: {fact}: {advice}")
            facts.append(f"{place}: {fact}.")
    return facts
