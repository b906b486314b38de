"""Every built-in method looks up the rows that it looked up in version 1.0, in every suite.

`rows_of_methods.json` has a hash for each suite, table and method, of three trials with the root seeds
0 to 2: the rows, how far each one was trained, and whether the method failed. Trials of look-ups end after
MOST_LOOKUPS. After a change that is meant to change rows, write the file again:

    python tests/benchmarking/test_rows_of_methods.py

A sum's last bits, and with them ties, depend on which kernels OpenBLAS chooses for the processor. So rows are
made in a process that has those of Haswell, whose instructions every x86 processor of the last decade has.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Container, Sequence
from itertools import islice
from pathlib import Path

import pytest

from hpobench_nmt.benchmarking.instance import suite_instances
from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.suite import Suite, changed
from hpobench_nmt.benchmarking.suite_files import load_suite, suite_files, tracks
from hpobench_nmt.lookup.collections import nmthpo, nmtlc
from hpobench_nmt.methods import BUILT_IN

KNOWN = Path(__file__).with_name("rows_of_methods.json")
SHARED = Path(__file__).parents[3] / "shared"
SEEDS = (0, 1, 2)
OFTEN = (
    "quick",
    "cost",
    "parallel-4",
    "multi-fidelity",
)  # suites that are quick enough with their own methods
MOST_LOOKUPS = 120
# Their tables come from further collections; the methods are those of the suite `transfer`.
ELSEWHERE = ("scale", *tracks("lm-2026").values())


def fetch_published(home: Path) -> None:
    """Install the published tables from the authors' files, where they are there."""
    for collection in (nmthpo, nmtlc):
        if (SHARED / collection.NAME).is_dir():
            collection.fetch(home / "cache", source=SHARED / collection.NAME)


def hash_of(trials) -> str:
    """One hash of the trials of a method."""
    digest = hashlib.sha256()
    for trial in trials:
        digest.update(trial.rows.astype("<i4").tobytes())
        digest.update(trial.timeline.resources.astype("<f8").tobytes())
        digest.update(b"failed" if trial.failure else b"")
    return digest.hexdigest()[:16]


def fitting(suite: Suite) -> list[str]:
    """Every built-in method that the suite can run."""
    return [
        method.name
        for method in BUILT_IN.values()
        if suite.n_objectives in method.objectives
        and (suite.workers == 1 or hasattr(method.load(), "suggest"))
    ]


Hashes = dict[str, dict[str, str]]
"""By table and method."""


def rows_of(
    name: str, methods: Sequence[str], most_tables: int = 99, known: Sequence[str] | None = None
) -> Hashes:
    """The hash of each of these methods on the first tables of a suite, with the kernels of Haswell.

    Args:
        known: leave out other tables, which came later.
    """
    wanted = json.dumps([name, methods, most_tables, known])
    environment = os.environ | {"OPENBLAS_CORETYPE": "Haswell"}
    done = subprocess.run(
        [sys.executable, __file__, wanted], env=environment, stdout=subprocess.PIPE, text=True
    )
    if done.returncode == -signal.SIGSEGV:
        pytest.skip("OpenBLAS 0.3.34 crashes on Zen 4 if the kernels are chosen (OpenMathLib/OpenBLAS#6021)")
    done.check_returncode()
    found: Hashes = json.loads(done.stdout)
    return found


def _rows_of(name: str, names: Sequence[str], most_tables: int, known: Container[str] | None) -> Hashes:
    """`rows_of`, with the kernels that this process has."""
    suite = changed(load_suite(name), trials=1, methods=tuple(names))
    if suite.lookups is None and not suite.curves:
        score_at = {key: min(at, MOST_LOOKUPS // suite.workers) for key, at in suite.score_at.items()}
        suite = changed(suite, lookups=MOST_LOOKUPS, score_at=score_at)
    of_old = (pair for pair in suite_instances(suite).items() if known is None or pair[0] in known)
    instances = dict(islice(of_old, most_tables))
    methods = resolve_methods(suite.methods)
    found = [run_suite(suite, instances, methods, seed=seed).trials for seed in SEEDS]
    return {
        table: {name: hash_of([trials[table, name][0] for trials in found]) for name in names}
        for table in instances
    }


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A home with all published tables that are to be had here."""
    home = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HPOBENCH_NMT_HOME", str(home))
        fetch_published(home)
        yield home


def check_rows(suite: Suite, names: Sequence[str], most_tables: int = 99) -> None:
    from other_sums import OTHER_SUMS, TABLES  # only pytest finds it

    if not (SHARED / nmthpo.NAME).is_dir() and suite.tables[0] in nmthpo.TABLES:
        pytest.skip("the authors' table files are not in ../shared/nmthpo")
    known = json.loads(KNOWN.read_text())[suite.name]
    found = rows_of(suite.name, names, most_tables, list(known))
    assert found
    for table, hashes in found.items():
        same = [name for name in names if not (OTHER_SUMS and table in TABLES and name.startswith("GB_"))]
        assert {name: hashes[name] for name in same} == {name: known[table][name] for name in same}, table


@pytest.mark.parametrize("name", OFTEN)
def test_the_methods_of_a_suite_look_up_the_rows_of_version_1(name, everything):
    suite = load_suite(name)
    names = [method for method in of_version_1(suite) if method in suite.methods]
    check_rows(suite, names, most_tables=1)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name in suite_files() if name not in ELSEWHERE])
def test_all_methods_look_up_the_rows_of_version_1(name, everything):
    suite = load_suite(name)
    check_rows(suite, of_version_1(suite))


def of_version_1(suite: Suite) -> list[str]:
    """The built-in methods that the suite can run, without newer ones."""
    known = {name for table in json.loads(KNOWN.read_text())[suite.name].values() for name in table}
    return [method for method in fitting(suite) if method in known]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_rows_of(*json.loads(sys.argv[1]))))
        sys.exit()
    with tempfile.TemporaryDirectory() as home:
        os.environ["HPOBENCH_NMT_HOME"] = home
        fetch_published(Path(home))
        suites = [load_suite(name) for name in suite_files() if name not in ELSEWHERE]
        written = {suite.name: rows_of(suite.name, fitting(suite)) for suite in suites}
    KNOWN.write_text(json.dumps(written, indent=1) + "\n")
