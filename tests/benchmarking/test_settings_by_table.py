"""Settings by table, such as a tolerance: which tables they may name in a call and in a suite."""

from dataclasses import replace
from pathlib import Path

import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.suite_files import published_figures
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import save_folder

ONE = {"methods": ["RS"], "trials": 1}
SUITE = 'scores = ["ftb", "ftc"]\nmethods = ["RS"]\ntrials = 1\n'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tolerance", {"default": 1, "tooy": 1}),
        ("score_at", {"toy": 9, "tooy": 9}),
        ("time", {"tooy": 9}),
        ("source_of", {"tooy": "sotu-ngram"}),
        ("development", ["tooy"]),
    ],
)
def test_a_setting_of_an_unknown_table_is_ignored_with_a_warning(toy, key, value):
    wanted = rf"^A setting is ignored: unknown table 'tooy'\. Did you mean 'toy'\? \(suite '{{}}', {key}\)$"
    with pytest.warns(UserWarning, match=wanted.format("quick")):
        hb.run("quick", tables=toy, **ONE, **{key: value})
    with pytest.warns(UserWarning, match=wanted.format("benchmark")):
        benchmark(toy, **ONE, **{key: value})


def test_only_a_setting_that_has_a_default_may_name_it(toy):
    for given in ({"source_of": {"default": "sotu-ngram"}}, {"development": ["default"]}):
        with pytest.warns(UserWarning, match=r"unknown table 'default'\. Known: .* \(suite 'benchmark'"):
            benchmark(toy, **ONE, **given)


def test_settings_may_be_for_other_tables(toy):
    """One dictionary can serve for runs on several tables, each by itself."""
    found = benchmark(toy, **ONE, tolerance={"toy": 1, "sotu-ngram": 2})
    assert found.suite.tolerance_for("toy") == 1
    with pytest.warns(UserWarning, match="unknown table 'mine'"):  # it is only in memory
        assert benchmark(toy, **ONE, tolerance={"toy": 1, "mine": 2}).scores().equals(found.scores())


def test_a_table_that_does_not_exist_is_named_before_its_settings(toy_home):
    with pytest.raises(InputError, match=r"unknown table 'tooy'\. Did you mean 'toy'\? \('hpobench-nmt tab"):
        benchmark("tooy", **ONE, tolerance={"toy": 1})


def test_a_groups_name_and_a_folder_are_not_the_names_of_tables(home, toy):
    hb.run(tables="shipped", **ONE, scores=["ftb", "ftc"], tolerance={"sotu-ngram": 9})
    with pytest.warns(UserWarning, match="unknown table 'shipped'"):
        benchmark("shipped", **ONE, tolerance={"shipped": 1})
    save_folder(toy, Path("kept/toy"))
    assert benchmark("kept/toy", **ONE, tolerance={"toy": 2}).suite.tolerance_for("toy") == 2
    with pytest.warns(UserWarning, match=r"unknown table 'kept/toy'\. Did you mean 'toy'\?"):
        benchmark("kept/toy", **ONE, tolerance={"kept/toy": 1})


def test_a_part_of_a_suite_keeps_the_settings_of_its_other_tables(toy):
    """The suite has them for en-ja, sw-en and so-en."""
    part = {"tables": [replace(toy, name="en-ja")], "objectives": ["bleu"], **ONE}
    single = hb.run("paper-single", **part)
    assert single.instances["en-ja"].tolerance == 1.0
    assert single.suite.tolerance == {"default": 0.5, "en-ja": 1.0}
    assert ("RS", "sw-en", "ftb") in published_figures(single.suite)
    given = {"en-ja": 2.0, "zh-en": 3.0}
    assert hb.run("paper-single", **part, tolerance=given).suite.tolerance == given
    other = {**part, "tables": [replace(toy, name="zh-en")], "objectives": ["bleu", "seconds"]}
    multi = hb.run("paper-multi", **{**other})
    assert multi.suite.score_at == {"default": 50, "sw-en": 200, "so-en": 200}
    assert hb.run(multi.suite, **other).scores().equals(multi.scores())  # of a suite without sw-en and so-en
    with pytest.warns(UserWarning, match=r"unknown table 'en-jp'\. Did you mean 'en-ja'\?"):
        hb.run("paper-single", **part, tolerance={"en-jp": 2.0})


def test_all_suites_that_ship_run_on_a_part(toy, home):
    """Their settings name tables that are not installed, and tables of collections."""
    for name in ("modern-single", "modern-multi", "multi-fidelity-cost", "lm-2026-plain"):
        hb.run(name, tables="sotu-ngram-curves" if "cost" in name else "sotu-ngram", **ONE)


@pytest.mark.parametrize(
    "tables", ['"installed"', '["shipped"]', '["kept/toy"]', '["kept/toy", "kept/gone"]']
)
def test_a_file_whose_tables_are_not_all_named_is_checked_when_it_runs(toy, home, tables):
    save_folder(toy, Path("kept/toy"))
    names = ["toy", "sotu-ngram", "sw-en", *(["gone"] if "gone" in tables else [])]
    text = f"{SUITE}tables = {tables}\n[tolerance]\n" + "".join(f"{name} = 1\n" for name in names)
    Path("mine.toml").write_text(text)
    assert hb.run("mine.toml", tables="kept/toy").suite.tolerance_for("toy") == 1
    Path("mine.toml").write_text(f"{text}sotu-ngrm = 1\n")
    with pytest.warns(UserWarning, match=r"'sotu-ngrm'\. Did you mean 'sotu-ngram'\? \(suite 'mine', toler"):
        hb.run("mine.toml", tables="kept/toy")


def test_a_suite_made_in_python_is_checked_when_it_runs(toy):
    suite = hb.Suite("mine", ("ftc",), tolerance={"tooy": 1.0})
    with pytest.warns(UserWarning, match=r"'tooy'\. Did you mean 'toy'\? \(suite 'mine', tolerance\)"):
        hb.run(suite, tables=toy, **ONE)


def test_settings_of_a_frozen_suites_missing_tables_are_kept(toy, home):
    save_folder(toy, home / "tables" / "toy")
    pinned = {"toy": "0", "gone": "0"}
    suite = hb.Suite("mine", ("ftc",), tables=("toy",), pinned=pinned, tolerance={"gone": 1.0})
    with pytest.raises(InputError, match="table 'toy' has hash"):  # all else is right
        hb.run(suite, **ONE)


def test_a_file_that_names_all_its_tables_is_checked_when_it_is_read(home):
    Path("mine.toml").write_text(f'{SUITE}tables = ["toy"]\n[source_of]\ndefault = "other"\n')
    with pytest.raises(InputError, match=r"unknown table 'default'\. Known: toy\. \(mine\.toml, source_of\)"):
        hb.run("mine.toml")
