"""Every name of `import hpobench_nmt as hb`: it is there whatever was imported before, and can be used."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest

import hpobench_nmt as hb

EVERY_MODULE = """
import importlib, pkgutil, warnings
import hpobench_nmt as hb
warnings.simplefilter("ignore")
for module in pkgutil.walk_packages(hb.__path__, "hpobench_nmt."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except (ImportError, ValueError):  # what needs an extra
            pass
"""
CALLS = """
import types
from pathlib import Path
assert isinstance(hb.tables, types.ModuleType) and isinstance(hb.methods, types.ModuleType)
table = hb.load_table("toy")
Path("sweep.csv").write_text("lr,loss\\n0.1,2\\n0.2,3\\n")
results = hb.run(tables="toy", methods=["RS", "BO_EI_M_std"], trials=2, out="r")
used = {
    "Hyperparameter": lambda: hb.Hyperparameter("x", (1.0, 2.0)),
    "InputError": lambda: hb.InputError("x"),
    "Method": lambda: hb.Method,
    "Metric": lambda: hb.Metric("m", "max"),
    "Minimum": lambda: hb.Minimum,
    "Objective": lambda: hb.Objective("m", "max"),
    "Optimizer": lambda: hb.Optimizer({"x": [1, 2]}, "RS").ask(),
    "Problem": lambda: hb.Problem(table.features, 1, 5, 3).config(0),
    "Progress": lambda: hb.Progress(0, *[table.features[:1, 0]] * 4, True, 1.0),
    "Request": lambda: hb.Request(3, 2.0),
    "Results": lambda: results.save("saved"),
    "RunError": lambda: hb.RunError("x"),
    "Space": lambda: hb.Space.of({"x": [1, 2]}),
    "Suite": lambda: hb.Suite("s", ("ftb",)),
    "Table": lambda: hb.Table,
    "Trajectory": lambda: hb.Trajectory,
    "compare": lambda: hb.compare(results, methods=["RS", "BO_EI_M_std"]),
    "fetch": lambda: fails(lambda: hb.fetch("nmtpho"), "Did you mean 'nmthpo'?"),
    "import_table": lambda: hb.import_table("sweep.csv", metrics="loss"),
    "list_methods": lambda: hb.list_methods(),
    "list_suites": lambda: hb.list_suites(),
    "list_tables": lambda: hb.list_tables(),
    "fewer_trainings": lambda: hb.fewer_trainings(results),
    "load_results": lambda: hb.load_results("r", methods=["RS"]),
    "load_table": lambda: hb.load_table("toy"),
    "confirm": lambda: hb.confirm(len, hb.minimize(lambda c: 1.0, {"x": [1, 2, 3]}, "RS", 3), runs=6),
    "minimize": lambda: hb.minimize(lambda c: c["x"], {"x": [1, 2, 3, 4]}, "RS", budget=3),
    "pareto": lambda: hb.pareto(table, ["bleu", "seconds"]).plot(),
    "plot": lambda: hb.plot(results, "scores"),
    "power": lambda: fails(lambda: hb.power(results, "RS"), "of two or more families, not 1"),
    "report": lambda: hb.report([results], out="tables", format="latex", jobs=1),
    "run": lambda: hb.run(tables=table, methods=["RS"], trials=1),
}

def fails(call, message):
    try:
        call()
    except hb.InputError as error:
        assert message in str(error)
        return "refused"

assert sorted(used) == sorted(hb.__all__), set(used) ^ set(hb.__all__)
for name, call in used.items():
    assert call() is not None, name
assert callable(hb.run) and callable(hb.report)
"""


PACKAGES = "import hpobench_nmt as hb\nimport hpobench_nmt.methods, hpobench_nmt.tables\n"
LOADED = "import types\nassert all(getattr(hb, name) is not None for name in hb.__all__)\n"
LOADED += "assert isinstance(hb.tables, types.ModuleType) and isinstance(hb.methods, types.ModuleType)\n"
LOADED += "assert callable(hb.run) and callable(hb.report)\n"


@pytest.mark.parametrize(
    "program",
    [PACKAGES + LOADED, pytest.param(PACKAGES + CALLS, marks=pytest.mark.hosts), EVERY_MODULE + CALLS],
)
def test_every_public_name_is_there_whatever_was_imported(toy_home, program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_module_hides_a_public_name():
    """`import hpobench_nmt.NAME` sets hb.NAME."""
    assert not {module.name for module in pkgutil.iter_modules(hb.__path__)} & set(hb.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'bench'"):
        _ = hb.bench
    assert {*hb.__all__, "__version__"} == set(dir(hb))


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("benchmark", "hb.run"),
        ("beside", "hpobench_nmt.arena.beside.beside"),
        ("pareto_front", "hb.pareto"),
        ("plot_regret", 'hb.plot(results, "regret")'),
    ],
)
def test_names_that_leave_still_work_and_warn_each_time(name, instead):
    for _ in range(2):
        with pytest.warns(FutureWarning, match=f"^hb.{name} is deprecated since version 1.2 ") as caught:
            assert callable(getattr(hb, name))
        assert str(caught[0].message).endswith(f"use {instead}.") and caught[0].filename == __file__
    assert name not in dir(hb) and len(hb.__all__) <= 33


def test_importing_the_package_is_fast_and_loads_no_library():
    code = (
        "import sys, time; start = time.perf_counter()\n"
        "import hpobench_nmt as hb; print(time.perf_counter() - start)\n"
        "print({'numpy', 'pandas', 'torch', 'importlib.metadata'} & {*sys.modules}, hb.__version__)"
    )
    best, found = np.inf, ""
    for _ in range(3):
        seconds, found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        best = min(best, float(seconds))
    assert best < 0.1
    assert found == f"set() {version('hpobench-nmt')}"


def test_what_there_is_to_run_is_listed_in_frames(toy_home):
    tables, methods, suites = hb.list_tables(), hb.list_methods(), hb.list_suites()
    assert list(tables) == ["table", "rows", "hyperparameters", "objectives", "folder", "group"]
    assert tables.set_index("table").loc["toy"].tolist()[:3] == [36, 3, "bleu, seconds"]
    assert "sotu-ngram" in set(tables["table"])
    methods = methods.set_index("method")
    assert methods.loc["BO_EI_M_std", "objectives"] == "1"
    assert methods.loc["optuna.TPE", "extra"] == "optuna"
    assert suites.set_index("suite").loc["quick", "scores"] == "ftb, ftc, fb"
    (toy_home / "tables" / "toy" / "table.csv").write_text("no table")
    with pytest.warns(UserWarning, match=r"Cannot be used: .*toy"):
        assert "toy" not in set(hb.list_tables()["table"])


def test_a_collection_is_fetched_from_a_folder(home, authors_files, tmp_path):
    fetched = hb.fetch("nmthpo", source=authors_files)
    assert fetched == ["zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en"]
    assert set(fetched) < set(hb.list_tables()["table"])
    with pytest.raises(hb.InputError, match=r"nowhere: no such folder\. Give "):
        hb.fetch("nmthpo", source=tmp_path / "nowhere")
    with pytest.raises(hb.InputError, match=r"unknown collection 'nmtpho'\. Did you mean 'nmthpo'"):
        hb.fetch("nmtpho")


def test_a_report_is_made_of_results_or_folders(toy_home):
    results = hb.run(tables="toy", methods=["RS"], trials=2, out="r")
    (of_folder,) = hb.report("r", jobs=1)
    seen = []
    (in_memory,) = hb.report(results, out="memory.html", jobs=1, progress=lambda *done: seen.append(done))
    assert seen == sorted(seen) and seen[0][0] == 0 and seen[-1][0] == seen[-1][1] and len(seen) > 2
    assert str(of_folder) == "r/report.html"
    assert in_memory.read_bytes() == of_folder.read_bytes()
    both = hb.report(
        [results, hb.run("modern-multi", tables="toy", methods=["RS"], trials=2)], format="latex"
    )
    assert [str(path) for path in both] == [
        "report-tables/quick.tex",
        "report-tables/quick-toy.tex",
        "report-tables/modern-multi.tex",
        "report-tables/modern-multi-toy.tex",
    ]
    with pytest.raises(hb.InputError, match="unknown format 'word'"):
        hb.report(results, format="word")
    with pytest.raises(hb.InputError, match="there are no results to report on"):
        hb.report([])
    with pytest.raises(hb.InputError, match=r"a report needs results of hb\.run or results folders, not 5"):
        hb.report(5)


def test_parts_of_the_interface_have_short_texts(toy_home):
    results = hb.run(tables="toy", methods=["RS"], trials=2)
    assert repr(results) == "Results(quick: 2 trials of RS on toy, seed 0)"
    assert isinstance(hb.list_tables(), pd.DataFrame)
    assert importlib.import_module("hpobench_nmt.methods") is hb.methods
