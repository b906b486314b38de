"""Suites with sources: what methods are given of other tables, and what happens if these change."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.benchmarking.task.transfer import (
    shared_rows,
    transfer_table,
    transfer_tables,
    transfer_tables_sha256,
)
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.problem import Source
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table

BLEU = (Objective("bleu", "max"),)


def table_of(name, axes, configs, bleu):
    values = np.array(bleu, dtype=float)[:, None]
    return Table(name, axes, (Metric("bleu", "max"),), np.array(configs, dtype=float), values, ("bleu",))


def target():
    axes = (
        Hyperparameter("rate", (0.001, 0.01, 0.1), "log"),
        Hyperparameter("width", (100.0, 200.0)),
        Hyperparameter("cell", ("lstm", "gru", "sru"), kind="categorical"),
    )
    return table_of("target", axes, [[0.001, 100, 0], [0.1, 200, 1], [0.01, 100, 2]], [1, 2, 3])


def test_rows_of_a_source_are_placed_on_the_targets_scales():
    axes = (
        Hyperparameter("cell", ("rhn", "gru", "lstm"), kind="categorical"),
        Hyperparameter("depth", (1.0, 2.0)),
        Hyperparameter("width", (50.0, 150.0, 400.0)),
        Hyperparameter("rate", (0.001, 1.0), "linear"),
    )
    configs = [[1, 1, 50, 1.0], [2, 2, 400, 0.001], [0, 1, 150, 0.001], [2, 1, 150, 1.0]]
    found = transfer_table(table_of("other", axes, configs, [7, 8, 9, math.nan]), target(), BLEU)
    assert found.name == "other"
    one = 1 / math.sqrt(2)
    # Ranges may be left on either side; the row with an unknown cell and the one without BLEU are not there.
    np.testing.assert_allclose(found.features, [[1.5, -0.5, 0, one, 0], [0.0, 3.0, one, 0, 0]], atol=1e-12)
    assert found.losses.tolist() == [[-7.0], [-8.0]]
    assert not found.features.flags.writeable and not found.losses.flags.writeable


def test_true_and_1_are_two_labels_of_a_source():
    ours, theirs = (
        table_of(name, (Hyperparameter("odd", values, kind="categorical"),), [[0], [1], [2]], [7, 8, 9])
        for name, values in (("ours", (1, True, "x")), ("theirs", (True, "x", 1)))
    )
    found = transfer_table(theirs, ours, BLEU)
    np.testing.assert_array_equal(found.features.argmax(axis=1), [1, 2, 0])
    np.testing.assert_array_equal(shared_rows(ours, theirs), [[0, 1, 2], [2, 0, 1]])


def test_a_row_without_a_place_on_a_scale_is_left_out():
    axes = (*target().hyperparameters[1:], Hyperparameter("rate", (0.0, 0.1)))
    found = transfer_table(table_of("other", axes, [[100, 0, 0.0], [100, 0, 0.1]], [7, 8]), target(), BLEU)
    assert found.losses.tolist() == [[-8.0]]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (lambda a: a[:2], "'other' as a source for 'target': it has no hyperparameter 'cell'"),
        (lambda a: (*a[:2], Hyperparameter("cell", (0.0, 1.0))), "'cell' has numbers in one and labels in"),
        (lambda a: (*a[:2], replace(a[2], values=("x", "y"))), "none of its rows can be used"),
    ],
)
def test_sources_that_do_not_fit_are_refused(axes, message):
    others = axes(target().hyperparameters)
    with pytest.raises(InputError, match=message):
        transfer_table(table_of("other", others, [[0.1, 100, 1][: len(others)]], [7]), target(), BLEU)


def test_a_source_without_the_objective_is_refused():
    with pytest.raises(InputError, match="dev_ppl"):
        transfer_table(target(), replace(target(), name="b"), (Objective("dev_ppl", "min"),))


def test_the_table_itself_is_never_a_source(home, two):
    toy, other = two
    for table in (toy, other, replace(toy, name="copy")):
        save_folder(table, home / "tables" / table.name)
    suite = Suite("s", ("ftb",), tables=("toy", "other"), n_initial=0, sources=("toy", "other", "copy"))
    instances = suite_instances(suite)
    assert [s.name for s in instances["toy"].problem.sources] == ["other"]
    assert [s.name for s in instances["other"].problem.sources] == ["toy", "copy"]
    assert transfer_tables((), toy, BLEU) == ()
    hashes = {transfer_tables_sha256(each.problem.sources) for each in instances.values()}
    assert len(hashes) == 2 and transfer_tables_sha256(()) == ""


def test_sources_of_a_benchmark_in_memory(home, two):
    toy, _ = two
    for table in two:
        save_folder(table, home / "tables" / table.name)
    seen = []

    class Sees:
        def __init__(self, problem, rng):
            seen.append([s.name for s in problem.sources])
            self.left = list(range(len(problem.features)))

        def ask(self):
            return self.left[-1]

        def tell(self, row, losses):
            self.left.remove(row)

    benchmark([toy, "other"], [Sees], trials=1, sources=["toy", "other"])
    assert seen == [["other"], ["toy"]]


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="n_initial must be at least 1"):
        Suite("s", ("ftb",), n_initial=0)
    with pytest.raises(InputError, match="sources work only with whole trainings"):
        Suite("s", ("ftb",), n_initial=0, sources=("toy",), curves=True, clock="cost")


@pytest.mark.parametrize("name", ["transfer", "automl2022"])
def test_shipped_suites(name):
    suite = load_suite(name)
    assert suite.sources == ("nmthpo",) and suite.n_initial == 0
    if name == "automl2022":  # the competition's rules
        assert (suite.lookups, suite.trials, suite.tables) == (200, 10, ("so-en", "sw-en"))
        assert suite.score_at_for("so-en") == 200


SUITE = """
scores = ["ftb"]
tables = ["toy"]
methods = ["RS", "RGPE_M"]
trials = 2
n_initial = 0
sources = ["other"]
"""


def test_a_run_with_sources_goes_on_only_with_the_same_ones(home, two, run_here):
    for table in two:
        save_folder(table, home / "tables" / table.name)
    (home.parent / "work" / "mine.toml").write_text(SUITE)
    first = run_here("run", "mine.toml", "--out", "one", "--jobs", "2")
    assert "failed" not in first.stdout
    assert "RGPE_M takes" in run_here("run", "mine.toml", "--out", "one").stdout
    changed = replace(two[1], values=two[1].values + 1.0)
    shutil.rmtree(home / "tables" / "other")
    save_folder(changed, home / "tables" / "other")
    refused = run_here("run", "mine.toml", "--out", "one", check=2)
    assert "sources of 'toy'" in refused.stderr


def test_the_hash_of_sources_is_of_names_features_losses_and_their_order():
    one = Source("a", np.arange(6.0).reshape(3, 2), np.arange(3.0)[:, None])
    others = [
        [replace(one, name="b")],
        [replace(one, features=one.features + 1)],
        [replace(one, features=one.features.reshape(6, 1))],
        [replace(one, losses=one.losses + 1)],
        [replace(one, losses=one.losses.T)],
        [one, one],
        [one, replace(one, name="b")],
        [replace(one, name="b"), one],
    ]
    hashes = [transfer_tables_sha256(given) for given in ([one], *others)]
    assert len(set(hashes)) == len(hashes)
    assert transfer_tables_sha256([replace(one)]) == hashes[0] and len(hashes[0]) == 64


def test_an_inactive_label_of_a_source_counts_as_the_default_here():
    rule = Hyperparameter("rule", ("a", "b"), kind="categorical")
    kind = Hyperparameter("kind", ("x", "y", "z"), kind="ordinal", active_if=(("rule", ("b",)),), default="y")
    here = table_of("here", (rule, kind), [[0, math.nan], [1, 2]], [1, 2])
    half = 1 / math.sqrt(2)
    for values in (("z", "y"), ("z",)):
        axes = (replace(kind, values=values, default=None), rule)
        found = transfer_table(table_of("there", axes, [[math.nan, 0], [0, 1]], [7, 8]), here, BLEU)
        np.testing.assert_allclose(found.features, [[half, 0, 0.5], [0, half, 1.0]])


# --- one source for a table ------------------------------------------------------------------------


def pair(tmp_path, rates=(0.001, 0.01, 0.1, 1.0)):
    """A large and a small table on grids that share the middle two rates, in the home."""
    for name, kept, best in (("large", rates[:3], 0.01), ("small", rates[1:], 0.1)):
        axes = (Hyperparameter("rate", kept, "log"), Hyperparameter("width", (100.0, 200.0, 300.0)))
        configs = [[rate, width] for rate in kept for width in axes[1].values]
        bleu = [20 - 3 * abs(math.log10(rate / best)) + width / 100 for rate, width in configs]
        save_folder(table_of(name, axes, configs, bleu), tmp_path / "home" / "tables" / name)


ONE_SOURCE = Suite("s", ("ftb", "ftc"), n_initial=0, tables=("large",), source_of={"large": "small"})


def test_of_a_table_and_its_source_only_shared_configurations_are_used(home, tmp_path):
    pair(tmp_path)
    notes = []
    instance = suite_instances(ONE_SOURCE, notes.append)["large"]
    assert notes == [
        "Left out: 3 of the 9 rows of table 'large': their configurations are not in its source."
    ]
    assert instance.numbers.tolist() == [3, 4, 5, 6, 7, 8] and len(instance.installed) == 9
    (source,) = instance.problem.sources
    np.testing.assert_array_equal(source.features, instance.table.features)
    assert instance.problem.prior is None
    # The prior lies around the source's best: rate 0.1, width 300, the last of the shared rows.
    prior = suite_instances(changed(ONE_SOURCE, prior="source"))["large"].problem.prior
    assert prior.argmax() == 5
    assert instance.losses.argmin() == 2
    with pytest.raises(InputError, match="source_of works only with whole trainings: remove curves"):
        changed(ONE_SOURCE, curves=True, clock="cost")
    with pytest.raises(InputError, match='prior = "source" needs source_of'):
        changed(ONE_SOURCE, prior="source", source_of={})


def test_runs_with_a_source_keep_the_tables_row_numbers(home, tmp_path):
    pair(tmp_path)
    suite = changed(ONE_SOURCE, trials=2, prior="source", methods=("RS", "RGPE_M", "CTS", "piBO_M_std"))
    results = run_suite(
        suite, suite_instances(suite), resolve_methods(suite.methods), folder=tmp_path / "out"
    )
    assert not results.failures()
    assert all(trial.rows.min() >= 3 for trials in results.trials.values() for trial in trials)
    read = hb.load_results(tmp_path / "out")
    assert read.scores().equals(results.scores()) and read.suite.source_of == {"large": "small"}
    # What the prior says comes first: row 8 is the source's best.
    assert results.trials["large", "piBO_M_std"][0].rows[0] == 8


def test_tables_that_share_nothing_are_refused(home, tmp_path):
    pair(tmp_path)
    other = table_of(
        "small", (Hyperparameter("rate", (7.0, 8.0)), Hyperparameter("width", (1.0, 2.0))), [[7, 1]], [1]
    )
    shutil.rmtree(tmp_path / "home" / "tables" / "small")
    save_folder(other, tmp_path / "home" / "tables" / "small")
    with pytest.raises(
        InputError, match="'small' as the source of 'large': they have no configuration in common"
    ):
        suite_instances(ONE_SOURCE)
    less = table_of("small", (Hyperparameter("rate", (0.01, 0.1)),), [[0.01]], [1])
    shutil.rmtree(tmp_path / "home" / "tables" / "small")
    save_folder(less, tmp_path / "home" / "tables" / "small")
    with pytest.raises(InputError, match="its rows have other hyperparameters"):
        suite_instances(ONE_SOURCE)
