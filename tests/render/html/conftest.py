"""Results folders for the report, and a browser for what is made of them."""

import dataclasses
import hashlib
import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder
from hpobench_nmt.lookup.table import Table

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def make_table(name="toy", seed=0):
    """A 4 x 3 x 2 grid with two metrics that disagree."""
    axes = (
        Hyperparameter("layers", (1.0, 2.0, 4.0, 8.0), "log"),
        Hyperparameter("width", (256.0, 512.0, 1024.0)),
        Hyperparameter("heads", (4.0, 8.0)),
    )
    configs = np.array([(a, b, c) for a in axes[0].values for b in axes[1].values for c in axes[2].values])
    rng = np.random.default_rng(seed)
    scaled = np.column_stack([h.scaled(configs[:, j]) for j, h in enumerate(axes)])
    quality = (
        20 - 8 * ((scaled - (0.6, 0.5, 0.4)) ** 2).sum(axis=1) + rng.normal(scale=0.3, size=len(configs))
    )
    seconds = 10 + 30 * scaled[:, 0] + 20 * scaled[:, 1] + rng.random(len(configs))
    return Table(
        name=name,
        hyperparameters=axes,
        metrics=(Metric("bleu", "max", "BLEU", tolerance=0.5), Metric("seconds", "min", "s")),
        configs=configs,
        values=np.column_stack([np.round(quality, 2), np.round(seconds, 3)]),
        objectives=("bleu", "seconds"),
        provenance={"source": "made for the tests"},
    )


def small_suite(name="small", **changes):
    settings = {
        "scores": ("ftb", "ftc", "fb"),
        "objectives": ("bleu",),
        "trials": 8,
        "score_at": {"default": 8},
    }
    return Suite(**({"name": name} | settings | changes))


def make_run(folder, tables, suite, methods=("RS", "BO_EI_M_std", "GB_EIF_M")):
    """Write tables and the results of a suite on them; returns the results folder."""
    instances, sources = {}, {}
    for table in tables:
        place = folder.parent / "tables" / table.name
        if not place.exists():
            save_folder(table, place)
        loaded = load_folder(place)
        instances[loaded.name] = make_instance(suite, loaded)
        sources[loaded.name] = str(place)
    run_suite(suite, instances, resolve_methods(methods), folder=folder, table_folders=sources)
    return folder


def hostile_table():
    """A table whose every free text tries to be a script."""
    table = make_table("toy")
    metrics = [dataclasses.replace(m, description=ATTACK) for m in table.metrics]
    metrics[0] = dataclasses.replace(metrics[0], unit=ATTACK)
    return dataclasses.replace(
        table, metrics=tuple(metrics), provenance={"source": ATTACK, "licence": "</style>"}
    )


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Two suites on two tables: one and two objectives, hostile texts, failed trials."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    root = tmp_path_factory.mktemp("report")
    tables = [hostile_table(), make_table("other", seed=5)]
    single = make_run(root / "single", tables, small_suite(f"small {ATTACK}"))
    two = small_suite("two", scores=("fto", "fta", "fbp"), objectives=("bleu", "seconds"))
    multi = make_run(root / "multi", tables, two, ("RS", "BO_M_std", "NSGA2"))
    fail(single, "toy", "GB_EIF_M", ATTACK)
    return [single, multi]


def fail(folder, table, method, reason, trials=(0,)):
    """Let trials of a results folder fail for a reason."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "observations" / table / f"{method}.parquet"
    frame = pq.read_table(path).to_pandas()
    frame["failure"] = frame["failure"].astype(str)
    failed = frame["trial"].isin(trials)
    frame = frame[~failed | (frame["step"] <= 3)].copy()
    failed = frame["trial"].isin(trials)
    frame.loc[failed, "failed"] = True
    frame.loc[failed, "failure"] = reason
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    rehash(folder, table, method)


def rehash(folder, table, method):
    """Let the manifest have the hash of a changed file of observations."""
    path = folder / "observations" / table / f"{method}.parquet"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["observations"][table][method] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.pop("sha256", None)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """Results whose report is quick to draw: one trial of one method on one table."""
    return make_run(tmp_path_factory.mktemp("quick") / "quick", [make_table()], small_suite(trials=1), ["RS"])


@pytest.fixture(scope="session")
def quick_page(quick, tmp_path_factory):
    """Their report."""
    from hpobench_nmt.render.report import report

    return report([quick], tmp_path_factory.mktemp("page") / "quick.html", jobs=1)[0]


@pytest.fixture
def copied(folders, tmp_path):
    """A copy of the single-objective results, to be spoilt."""
    shutil.copytree(folders[0], tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture(scope="session")
def page(folders, tmp_path_factory):
    """The report of both suites."""
    from hpobench_nmt.render.report import report

    return report(folders, tmp_path_factory.mktemp("page") / "report.html", jobs=1)[0]


@pytest.fixture(scope="session")
def means(folders):
    """Mean simple regret on the table "other", by method and look-ups, computed the long way."""
    from hpobench_nmt.benchmarking.records.store import load_results

    results = load_results(folders[0])
    table = results.instances["other"].table
    values = table.column("bleu")
    found = {}
    for method in results.methods:
        trials = results.trials["other", method]
        found[method] = {
            n: np.mean([values.max() - values[t.rows[:n]].max() for t in trials]) for n in range(1, 9)
        }
    return found


@pytest.fixture
def tools():
    """Functions that make, run and spoil small benchmarks."""
    return SimpleNamespace(
        table=make_table, suite=small_suite, run=make_run, fail=fail, rehash=rehash, attack=ATTACK
    )


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """One browser for all tests of a file; what it asks the network for is logged."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (the test extra)")
    browsers = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    browser, binary = next(filter(None, browsers), None), shutil.which("chromedriver")
    if not (browser and binary):
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,900")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(binary))
    driver.set_page_load_timeout(120)
    yield driver
    driver.quit()
