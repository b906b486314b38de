"""Every built-in method looks up the rows that it looked up before; other rows need a new version.

`rows_of_methods.json` has a hash for each suite, table and method, of three trials with the root seeds 0 to
2: the rows, how far each one was trained, and whether the method failed. Trials of look-ups end after
MOST_LOOKUPS. Beside the suites of version 1.0, which had no samples, it covers samples of a table of `quick`,
a trial on a table of each track of lm-2026 of version 1.1, and a trial on a synthetic table of 5,000 rows
with features and missing values, with one worker and with eight.
`versions_of_methods.json` has the `rows_version` of each method, the trial version, a hash of what trials are
made of, and the version of scikit-learn: with another one, the rows of CQR are not compared.

After a change that is meant to change rows, raise the `rows_version` of methods (methods/__init__.py), or
TRIAL_VERSION (core/trial_loop.py) if trials have changed. Then write both files again:

    python tests/benchmarking/test_rows_of_methods.py [SUITE ...]

The command refuses to write other rows of a method whose version has not risen.

Whoever adds up with OpenBLAS gets other last bits, and with them other ties, on other processors. So the
methods that would be affected make rows in processes with OpenBLAS's kernels for several processors.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Container, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import Instance, make_instance, suite_instances
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite, suite_files, tracks
from hpobench_nmt.benchmarking.task.suite_tables import OF_A_TABLE
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.trial_loop import TRIAL_VERSION
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.descriptors import Descriptors
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import BUILT_IN

KNOWN = Path(__file__).with_name("rows_of_methods.json")
VERSIONS = Path(__file__).with_name("versions_of_methods.json")
SHARED = Path(__file__).parents[3] / "shared"
SEEDS = (0, 1, 2)
OFTEN = ("quick", "cost", "parallel-4", "multi-fidelity")  # quick enough with their own methods
MOST_LOOKUPS = 120
_LOOKUPS = {"table": "sotu-gpt-30k", "scores": ("ftc", "fb"), "time": 60, "score_at": 30}
_COSTS = {"table": "sotu-gpt-30k", "scores": ("ftc",), "clock": "cost", "curves": True, "n_initial": 0}
TRACKS = {
    "lm-2026-plain": {**_LOOKUPS, "tolerance": 1.654},
    "lm-2026-early": {**_COSTS, "tolerance": 1.654, "time": 9e11, "workers": 8},
    "lm-2026-early-1": {**_COSTS, "tolerance": 1.654, "time": 3.6e12},
    "lm-2026-multi": {"table": "lohelp-de-en", "scores": ("fto", "fbh"), "time": 20, "score_at": 20},
    "lm-2026-scale": {
        **_LOOKUPS,
        "table": "sotu-gpt-80k",
        "tolerance": 2.035,
        "time": 20,
        "score_at": 5,
        "n_initial": 0,
        "prior": "source",
        "source_of": "sotu-gpt-30k",
    },
}
"""The tracks of version 1.1, on one table that comes with the package."""
SYNTHETIC = {
    "synthetic": (1, 1),
    "synthetic-8": (1, 8),
    "synthetic-multi": (2, 1),
    "synthetic-multi-8": (2, 8),
}
"""Suites of the synthetic table, with their numbers of objectives and workers."""
SAMPLES = "quick-samples"
"""The suite quick on a table, with samples. Without the ending, it is the suite of version 1.0."""
SLOW_ON_LARGE_TABLES = "GB_"
KERNELS = ("Haswell", "SkylakeX", "Zen", "Sandybridge", "Nehalem")
"""OpenBLAS's kernels for processors of these names."""
ELSEWHERE = ("scale", *tracks("lm-2026").values())
"""Their tables come from further collections. The methods of `scale` are those of the suite `transfer`."""

Hashes = dict[str, dict[str, str]]
"""By table and method."""


def fetch_published(home: Path, download: bool = False) -> None:
    """Install the published tables from the authors' files, if they are in a folder or may be downloaded."""
    for name in ("nmthpo", "nmtlc"):
        folder = SHARED / name
        if download or folder.is_dir():
            COLLECTIONS[name].fetch(home / "cache", source=folder if folder.is_dir() else None)


def synthetic_table(rows: int = 5000) -> Table:
    """Rows of hyperparameters of every kind, with two features. One row in twenty has no loss."""
    rng = np.random.default_rng(2026)
    axes = (
        Hyperparameter("learning_rate", tuple(np.geomspace(1e-5, 1e-1, 25).round(8)), "log"),
        Hyperparameter("layers", (1.0, 2.0, 3.0, 4.0)),
        Hyperparameter("dropout", tuple(np.linspace(0, 0.9, 10).round(2))),
        Hyperparameter("optimizer", ("adam", "lion", "sgd"), kind="categorical"),
        Hyperparameter("tied", (False, True), kind="categorical"),
    )
    counts = [len(axis.values) for axis in axes]
    places = np.unravel_index(np.sort(rng.permutation(np.prod(counts))[:rows]), counts)
    configs = np.column_stack([np.asarray(a.numbers)[at] for a, at in zip(axes, places, strict=True)])
    x = np.column_stack([at / (n - 1) for at, n in zip(places, counts, strict=True)])
    loss = 3 + 5 * (x[:, 0] - 0.6) ** 2 + (x[:, 2] - 0.2) ** 2 + 0.3 * x[:, 3] - 0.2 * x[:, 1]
    values = np.column_stack([loss + 0.05 * rng.random(rows), 1 + 3 * x[:, 1] + rng.random(rows)]).round(6)
    values[rng.random(rows) < 0.05, 0] = np.nan
    described = np.column_stack([np.floor(4 * x[:, 0]), np.round(x[:, 1] + x[:, 4], 3)])
    features = [
        Hyperparameter(f"feature_{i}", tuple(np.unique(column))) for i, column in enumerate(described.T)
    ]
    return Table(
        name="synthetic",
        hyperparameters=axes,
        metrics=(Metric("loss", "min"), Metric("seconds", "min")),
        configs=configs,
        values=values,
        objectives=("loss", "seconds"),
        descriptors=Descriptors(tuple(features), described),
    )


def suite_of(name: str, methods: Sequence[str] = ("RS",)) -> Suite:
    """A suite by name, or one of the synthetic table, with one trial of these methods."""
    if name in TRACKS:
        own = {**TRACKS[name], "pinned": "0" * 64}  # so its trials end without regard to the target
        table = own.pop("table")
        by_table = {key: {table: own.pop(key)} for key in OF_A_TABLE if key in own}
        return changed(
            Suite(name, own["scores"]), tables=(table,), methods=methods, trials=1, **own, **by_table
        )
    if name not in SYNTHETIC:
        rules = {"trials": 1, "methods": tuple(methods)}
        if name == SAMPLES:
            return changed(load_suite("quick"), name=SAMPLES, tables=("lohelp-de-en",), **rules)
        return changed(
            load_suite(name), sample=None, **({"lookups": None} if name == "quick" else {}), **rules
        )
    objectives, workers = SYNTHETIC[name]
    scores = ("ftb", "fb") if objectives == 1 else ("fto", "fbh")
    return Suite(
        name,
        scores,
        tables=("synthetic",),
        methods=tuple(methods),
        trials=1,
        score_at={"default": 24 // workers},
        lookups=24,
        workers=workers,
    )


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


def rows_of(
    name: str,
    methods: Sequence[str],
    most_tables: int = 99,
    known: Sequence[str] | None = None,
    kernels: str = "",
) -> Hashes:
    """The hash of each of these methods on the first tables of a suite.

    Args:
        known: leave out other tables, which came later.
        kernels: of OpenBLAS, for which a process of its own is started; "" for those of this processor.
    """
    if not kernels:
        return _rows_of(name, methods, most_tables, known)
    wanted = json.dumps([name, methods, most_tables, known])
    environment = os.environ | {"OPENBLAS_CORETYPE": kernels}
    done = subprocess.run(
        [sys.executable, __file__, wanted], env=environment, stdout=subprocess.PIPE, text=True
    )
    if done.returncode == -signal.SIGSEGV:
        pytest.skip("OpenBLAS 0.3.34 crashes on Zen 4 if the kernels are chosen (OpenMathLib/OpenBLAS#6021)")
    done.check_returncode()
    found: Hashes = json.loads(done.stdout)
    return found


def instances_of(suite: Suite) -> dict[str, Instance]:
    """The tables of a suite."""
    if suite.name in SYNTHETIC:
        return {"synthetic": make_instance(suite, synthetic_table())}
    return dict(suite_instances(suite))


def _rows_of(name: str, names: Sequence[str], most_tables: int, known: Container[str] | None) -> Hashes:
    """`rows_of`, in this process."""
    suite = suite_of(name, names)
    if suite.lookups is None and not suite.curves:
        score_at = {key: min(at, MOST_LOOKUPS // suite.workers) for key, at in suite.score_at.items()}
        suite = changed(suite, lookups=MOST_LOOKUPS, score_at=score_at)
    of_old = (pair for pair in instances_of(suite).items() if known is None or pair[0] in known)
    instances = dict(islice(of_old, most_tables))
    methods = resolve_methods(suite.methods)
    seeds = SEEDS[:1] if name in (*TRACKS, *SYNTHETIC) else SEEDS
    found = [run_suite(suite, instances, methods, seed=seed).trials for seed in seeds]
    return {
        table: {name: hash_of([trials[table, name][0] for trials in found]) for name in names}
        for table in instances
    }


def trials_hash() -> str:
    """A hash of what trials are made of: features, losses, seeds and the clock of random search."""
    digest = hashlib.sha256()
    for name in (*TRACKS, *SYNTHETIC):
        suite = suite_of(name)
        for instance in instances_of(suite).values():
            digest.update(instance.problem.features.round(12).astype("<f8").tobytes())
            digest.update(instance.losses.round(12).astype("<f8").tobytes())
            ran = run_suite(suite, {instance.table.name: instance}, resolve_methods(["RS"]))
            (trials,) = ran.trials.values()
            digest.update(hash_of(trials).encode())
            for each in ("costs", "starts", "finishes", "workers"):
                digest.update(getattr(trials[0].timeline, each).round(9).astype("<f8").tobytes())
    return digest.hexdigest()[:16]


def versions_now() -> dict[str, object]:
    """The content of versions_of_methods.json for the code as it is."""
    methods = {method.name: method.rows_version for method in BUILT_IN.values()}
    return {
        "scikit-learn": version("scikit-learn"),
        "trial_version": TRIAL_VERSION,
        "trials": trials_hash(),
        "rows_versions": methods,
    }


def must_rise(
    before: Mapping[str, Hashes], after: Mapping[str, Hashes], old: Mapping, new: Mapping
) -> list[str]:
    """The versions that must rise before other rows may replace known ones; `old` and `new` are versions."""
    if new["trial_version"] > old["trial_version"]:
        return []
    trials = ["TRIAL_VERSION"] if new["trials"] != old["trials"] else []
    other = {
        method
        for suite, tables in before.items()
        for table, hashes in tables.items()
        for method, known in hashes.items()
        if after.get(suite, {}).get(table, {}).get(method, known) != known
    }
    risen = {m for m, version in new["rows_versions"].items() if version > old["rows_versions"].get(m, 0)}
    return trials + sorted(other - risen)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A home with all published tables that are to be had here."""
    home = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HPOBENCH_NMT_HOME", str(home))
        fetch_published(home)
        yield home


def check_rows(suite: Suite, names: Sequence[str], most_tables: int = 99, kernels: str = "") -> None:
    if not (SHARED / "nmthpo").is_dir() and suite.tables[0] in COLLECTIONS["nmthpo"].tables:
        pytest.skip("the authors' table files are not in ../shared/nmthpo")
    other_trees = version("scikit-learn") != json.loads(VERSIONS.read_text())["scikit-learn"]
    known = json.loads(KNOWN.read_text())[suite.name]
    found = rows_of(suite.name, names, most_tables, list(known), kernels)
    assert found
    for table, hashes in found.items():
        same = [name for name in names if not (other_trees and name.startswith("CQR"))]
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


@pytest.mark.parametrize("kernels", KERNELS)
def test_the_rows_do_not_depend_on_the_processor(kernels):
    suite = suite_of(SAMPLES)
    check_rows(suite, [name for name in of_version_1(suite) if name.startswith("GB_")], kernels=kernels)


@pytest.mark.oracle
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", ["modern-single", "modern-multi", "transfer"])
def test_no_rows_depend_on_the_processor(name, kernels, everything):
    suite = load_suite(name)
    check_rows(suite, of_version_1(suite), kernels=kernels)


def of_version_1(suite: Suite) -> list[str]:
    """The built-in methods that the suite can run, without newer ones."""
    known = {name for table in json.loads(KNOWN.read_text())[suite.name].values() for name in table}
    return [method for method in fitting(suite) if method in known]


@pytest.mark.parametrize("name", [SAMPLES, *TRACKS, "synthetic", "synthetic-8"])
def test_methods_look_up_the_known_rows_in_tracks_and_on_a_large_table(name):
    names = of_version_1(suite_of(name))
    check_rows(
        suite_of(name), [n for n in names if name not in SYNTHETIC or not n.startswith(SLOW_ON_LARGE_TABLES)]
    )


@pytest.mark.oracle
@pytest.mark.parametrize("name", SYNTHETIC)
def test_all_methods_look_up_the_known_rows_on_a_large_table(name):
    check_rows(suite_of(name), of_version_1(suite_of(name)))


def test_versions_are_those_of_the_known_rows(home):
    assert versions_now() | {"scikit-learn": ""} == json.loads(VERSIONS.read_text()) | {"scikit-learn": ""}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"rows": "y"}, ["BO"]),
        ({"rows": "y", "version": 2}, []),
        ({"rows": "y", "trial_version": 2, "trials": "u"}, []),
        ({"trials": "u"}, ["TRIAL_VERSION"]),
    ],
)
def test_other_rows_need_a_new_version(change, expected):
    def made(rows="x", version=1, trial_version=1, trials="t"):
        versions = {
            "trial_version": trial_version,
            "trials": trials,
            "rows_versions": {"BO": version, "RS": 1},
        }
        return {"quick": {"toy": {"BO": rows, "RS": "z"}}}, versions

    (before, old), (after, new) = made(), made(**change)
    assert must_rise(before, after, old, new) == expected
    after["quick"]["toy"]["NEW"] = "n"
    assert (
        must_rise(before, after, old, new | {"rows_versions": {**new["rows_versions"], "NEW": 1}}) == expected
    )


def write_again(names: Sequence[str]) -> None:
    """Write both files, with new rows of these suites, unless the version of a method must rise first."""
    before, old = (json.loads(path.read_text()) if path.exists() else {} for path in (KNOWN, VERSIONS))
    with tempfile.TemporaryDirectory() as home:
        os.environ["HPOBENCH_NMT_HOME"] = home
        fetch_published(Path(home), download=True)
        after = before | {name: rows_of(name, fitting(suite_of(name))) for name in names}
        new = versions_now()
    if old and (lacking := must_rise(before, after, old, new)):
        sys.exit(f"Nothing was written: rows have changed, so raise the version of {', '.join(lacking)}.")
    KNOWN.write_text(json.dumps(after, indent=1) + "\n")
    VERSIONS.write_text(json.dumps(new, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("["):
        print(json.dumps(_rows_of(*json.loads(sys.argv[1]))))
    else:
        every = [*(name for name in suite_files() if name not in ELSEWHERE), SAMPLES, *TRACKS, *SYNTHETIC]
        write_again(sys.argv[1:] or every)
