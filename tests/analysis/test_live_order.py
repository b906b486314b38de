"""benchmarks/methods/live_order.py: differences of methods, live and on the table."""

import importlib.util
import math
import tomllib
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks/methods/live_order"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("live_order", FOLDER.with_suffix(".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def searches(**best):
    """Searches of two trainings each, of which the second is the best: by method, the best of each trial."""
    lines = [
        {"method": method.replace("_", "."), "trial": trial, "budget": k, "value": value}
        for method, values in best.items()
        for trial, last in enumerate(values)
        for k, value in ((1, 200.0), (2, last))
    ]
    return pd.DataFrame(lines).replace({"BO.auto": "BO_auto"})


def test_differences_by_hand(script):
    # The third seed of TPE has not ended, so the third of the others does not count.
    found = script.differences(searches(RS=[110, 120, 130], BO_auto=[108, 114, 1], optuna_TPE=[110, 120]))
    assert found["optuna.TPE"] == (0, 0, 0)
    mean, low, high = found["BO_auto"]
    assert mean == -4
    # The standard deviation of -2 and -6 is 8 ** 0.5, and t(0.975) with one degree of freedom is 12.7062.
    assert (low, high) == pytest.approx((-4 - 12.7062 * 2, -4 + 12.7062 * 2), abs=1e-3)


def test_one_seed_has_no_interval_and_no_verdict(script, capsys):
    one = searches(RS=[110], BO_auto=[108], optuna_TPE=[109])
    assert all(math.isnan(end) for end in script.differences(one)["BO_auto"][1:])
    script.report(one, searches(RS=[110, 112], BO_auto=[108, 109], optuna_TPE=[109, 113]))
    assert (
        "BO_auto: live -2.00 [+nan, +nan], on the table -2.50 [-8.85, +3.85]: not known"
        in capsys.readouterr().out
    )


def test_without_a_whole_seed_there_is_nothing_to_compare(script, capsys):
    script.report(searches(RS=[110], BO_auto=[108]), searches(RS=[1], BO_auto=[1], optuna_TPE=[1]))
    assert capsys.readouterr().out == "Best of 30 trainings, minus RS: 0 live seeds, 1 trial on the table\n"


def test_the_order_holds_where_intervals_overlap(script, capsys):
    assert script.overlap((0, -1, 1), (3, 1, 5))
    assert not script.overlap((3, 1.5, 5), (0, -1, 1))
    table = searches(RS=[110, 110.1], BO_auto=[108, 108.1], optuna_TPE=[120, 120.1])
    script.report(searches(RS=[110, 110.1], BO_auto=[108, 108.2], optuna_TPE=[111, 111.2]), table)
    ends = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert ends == ["holds", "differs"]


def test_the_ranges_are_those_of_the_grid_of_the_table():
    live, table = (
        tomllib.loads((folder / "spec.toml").read_text()) for folder in (FOLDER, ROOT / "tables/sotu-gpt-30k")
    )
    for key in ("family", "corpus", "fixed", "seed", "objectives"):
        assert live[key] == table[key], key
    ends = {name: (values["from"], values["to"]) for name, values in live["grid"].items()}
    assert ends == {name: (min(values), max(values)) for name, values in table["grid"].items()}
    scales = (ROOT / "tables/sotu-gpt-30k/datasheet.toml").read_text()
    for name, values in live["grid"].items():
        assert tomllib.loads(scales)["hyperparameters"][name]["scale"] == values["scale"], name
