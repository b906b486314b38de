from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.board import figure_board
from hpobench_nmt.analysis.fewer_trainings import fewer_headline, fewer_sentences, fewer_trainings
from hpobench_nmt.analysis.leaderboard import fewer_setting
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.task.target import target_of
from hpobench_nmt.evaluation.noise import pooled_noise
from hpobench_nmt.lookup.replicates import Replicates


class InOrder:
    """Asks for the rows in order: all its trials are the same run."""

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))

    def ask(self):
        return self.left[0]

    def tell(self, index, losses):
        self.left.remove(index)


def rolled(toy, count, group=lambda i: ""):
    return [
        dataclasses.replace(
            toy,
            name=f"t{i}",
            values=np.roll(toy.values, 5 * i, axis=0),
            claims={"collection": group(i)} if group(i) else {},
        )
        for i in range(count)
    ]


def naive_ratio(results, table, method, budget):
    """Times fewer on one table, from the rows that the trials looked up."""
    instance = results.instances[table]
    loss, n_initial = instance.losses[:, 0], instance.problem.n_initial
    near = {i for i, x in enumerate(loss) if x <= np.nanmin(loss) + instance.tolerance + 1e-9}
    runtimes = []
    for trial in results.trials[table, method]:
        hits = [t for t, row in enumerate(trial.rows.tolist(), start=1) if row in near]
        runtimes.append(min(max(hits[0], n_initial) if hits else math.inf, budget))
    n, k = len(loss), len(near)
    missed = [1.0 if t < n_initial else math.comb(n - k, t) / math.comb(n, t) for t in range(budget)]
    return sum(missed) / np.mean(runtimes), np.mean([r == math.inf for r in runtimes])


def test_the_figure_is_that_of_its_definition(toy):
    tables = rolled(toy, 3, lambda i: "pair" if i < 2 else "")
    results = hb.benchmark(tables, ["RS", "BO_EI_M_std"], trials=12, lookups=9, score_at=5)
    found = fewer_trainings(results)
    for j, method in enumerate(results.methods):
        logs = [math.log(naive_ratio(results, t.name, method, 9)[0]) for t in tables]
        line = found.methods.iloc[j]
        assert line["times_fewer"] == pytest.approx(math.exp(((logs[0] + logs[1]) / 2 + logs[2]) / 2))
        assert line["by_tables"] == pytest.approx(math.exp(sum(logs) / 3))
        assert line["low"] < line["times_fewer"] < line["high"]
    assert found.tables["family"].tolist() == ["pair", "pair", "t2"]
    assert found.tables["budget"].tolist() == [9.0] * 3
    assert found.tests[["a", "b"]].to_numpy().tolist() == [["BO_EI_M_std", ""]]
    assert found.tests["p"].iloc[0] >= 0.25
    assert "cannot show a difference: its p is at least 0.25" in " ".join(fewer_sentences(results, found))


def test_many_tables_show_what_is_better_than_random_search(toy):
    tables = rolled(toy, 7, lambda i: "abc"[i % 3])
    results = hb.benchmark(tables, ["RS", "BO_EI_M_std", "BO_EI_M"], trials=8, scores=["ftb"])
    found = fewer_trainings(results)
    tests = found.tests.set_index(["a", "b"])
    assert tests.loc[("BO_EI_M_std", ""), "p"] == pytest.approx(2 / 2**7)
    assert tests.loc[("BO_EI_M_std", ""), "p_families"] == pytest.approx(2 / 2**3)
    assert (found.tests["tables"] == 7).all()
    assert (found.tests["families"] == 3).all()
    assert tests.loc[("BO_EI_M_std", ""), "fewer"] == "BO_EI_M_std"
    text = " ".join(fewer_sentences(results, found))
    assert "Over 7 tables, shown to need fewer trainings than random search: BO_EI_M_std" in text
    assert "this holds for these 3 families only" in text
    heads, rows = figure_board(results, found).texts()
    assert heads == ["times fewer", "95%", "by table", "p", "p, families", "capped"]
    assert all(len(row) == 1 + len(heads) for row in rows)
    assert rows[-1][:2] == ["RS (exact)", "1"]
    values = found.methods.set_index("method")["times_fewer"]
    assert [row[0] for row in rows[:-1]] == list(values.sort_values(ascending=False).index)


def test_a_method_without_randomness_has_neither_interval_nor_test(toy):
    tables = rolled(toy, 6)
    results = hb.benchmark(tables, ["RS", InOrder, "BO_EI_M_std"], trials=10)
    # With an initial design trials differ; without one, as in suites with sources, they are copies.
    same = {(t.name, "InOrder"): list(results.trials[t.name, "InOrder"])[:1] * 10 for t in tables}
    results = dataclasses.replace(results, trials={**results.trials, **same})
    statistics = run_statistics(results)
    line = statistics.fewer.methods.set_index("method").loc["InOrder"]
    assert line["times_fewer"] > 0
    assert np.isnan([line["low"], line["high"]]).all()
    tests = statistics.fewer.tests
    assert tests[(tests["a"] == "InOrder") | (tests["b"] == "InOrder")]["p"].isna().all()
    assert tests[tests["a"] == "BO_EI_M_std"]["p"].notna().all()
    cells = statistics.scores[statistics.scores["method"] == "InOrder"]
    assert cells[["low", "high"]].isna().all(axis=None)
    pairs = statistics.comparisons
    those = pairs[(pairs["a"] == "InOrder") | (pairs["b"] == "InOrder")]
    assert (those["trials"] == 1).all()
    assert not those["better"].any()
    assert any(
        note.startswith("All trials of InOrder are the same run (on t0, t1") for note in statistics.notes
    )


@pytest.mark.parametrize(("n_rows", "named"), [(8, ["SH, Hyperband on toy"]), (20, [])])
def test_hyperband_whose_first_bracket_is_larger_than_the_table_is_named(curved, n_rows, named):
    """Checkpoints at 1 to 4 make the levels 1, 3 and the end: the first bracket has 9 rows."""
    rows = np.flatnonzero(curved.curves.lengths > 0)[:n_rows]
    parts = {"configs": curved.configs[rows], "values": curved.values[rows]}
    small = dataclasses.replace(curved, **parts, curves=curved.curves.of_rows(rows))
    rules = {"clock": "cost", "curves": True, "workers": 2, "n_initial": 0, "scores": ["ftb"], "trials": 3}
    notes = run_statistics(hb.benchmark(small, ["RS", "SH", "Hyperband", "ASHA"], **rules)).notes
    assert [note.split(":")[0] for note in notes if "the first bracket is larger" in note] == named


def test_tables_that_do_not_count(toy):
    tables = rolled(toy, 2)
    results = hb.benchmark(tables, ["RS", "BO_EI_M_std"], trials=4, scores=["ftb"])
    part = {key: trials for key, trials in results.trials.items() if key != ("t1", "BO_EI_M_std")}
    found = fewer_trainings(dataclasses.replace(results, trials=part))
    assert found.tables["table"].tolist() == ["t0"]
    assert found.notes[-1] == "t1 does not count: not every method has finished it."
    none = {key: trials for key, trials in part.items() if key[1] == "RS"}
    assert fewer_trainings(dataclasses.replace(results, trials=none)).reason


def test_with_two_objectives_the_target_is_a_row_of_the_front(toy):
    rules = {"objectives": ["bleu", "seconds"], "scores": ["fto", "fbh"], "score_at": 9, "time": 9}
    results = hb.benchmark(toy, ["RS", "BO_M_std"], trials=8, **rules)
    found, instance = fewer_trainings(results), results.instances["toy"]
    losses = instance.losses
    front = {i for i, a in enumerate(losses) if not any((b <= a).all() and (b < a).any() for b in losses)}
    runtimes = [
        min(max(next((t for t, r in enumerate(trial.rows.tolist(), 1) if r in front), 9), 3), 9)
        for trial in results.trials["toy", "BO_M_std"]
    ]
    n, k = len(losses), len(front)
    missed = [1.0 if t < 3 else math.comb(n - k, t) / math.comb(n, t) for t in range(9)]
    line = found.methods.iloc[1]
    assert line["times_fewer"] == pytest.approx(sum(missed) / np.mean(runtimes))
    assert line["hypervolume"] == pytest.approx(results.summary("toy", "BO_M_std")[1].mean)
    assert "Trainings until a row of the front is found." in fewer_sentences(results, found)[0]
    assert f"to a row of the front ({k} rows)" in fewer_setting(results, found, "toy")
    assert figure_board(results, found).columns[-1].heading == "hypervolume"


class FailsOften:
    """Raises an error in all trials but some."""

    def __init__(self, problem, rng):
        self.left, self.fails = list(range(len(problem.features))), rng.random() < 0.6

    def ask(self):
        if self.fails:
            raise ValueError
        return self.left[0]

    def tell(self, index, losses):
        self.left.remove(index)


def test_failed_trials_leave_no_share_of_the_hypervolume(toy):
    rules = {"objectives": ["bleu", "seconds"], "scores": ["fto", "fbh"], "score_at": 9, "time": 9}
    results = hb.benchmark(toy, ["RS", FailsOften], trials=8, **rules)
    assert 0 < results.summary("toy", "FailsOften")[1].failed < 8
    shares = fewer_trainings(results).methods["hypervolume"]
    assert np.isfinite(shares[0]) and np.isnan(shares[1])


def test_a_suite_with_halves_has_the_figure_of_its_test_half(toy):
    tables = rolled(toy, 4, lambda i: "ab"[i % 2])
    names = [t.name for t in tables]
    rules = {"trials": 6, "scores": ["ftb"]}
    whole = hb.benchmark(tables, ["RS", "BO_EI_M_std"], development=names[:2], **rules)
    halved = fewer_trainings(whole)
    test, development = (
        fewer_trainings(hb.benchmark(some, ["RS", "BO_EI_M_std"], **rules)).methods["times_fewer"].tolist()
        for some in (tables[2:], tables[:2])
    )
    assert halved.methods["times_fewer"].tolist() == pytest.approx(test)
    assert halved.methods["development"].tolist() == pytest.approx(development)
    assert halved.tables["half"].tolist() == ["development"] * 2 + ["test"] * 2
    assert set(halved.cells["table"]) == set(names)
    assert "2 tables of the test half" in fewer_headline(halved)[0]
    board = figure_board(whole, halved)
    assert board.columns[-1].heading == "development"
    assert "over 2 tables" in board.columns[0].meaning
    of_one = hb.benchmark(tables[:2], ["RS", "BO_EI_M_std"], development=names[:2], **rules)
    assert fewer_trainings(of_one).methods["times_fewer"].tolist() == pytest.approx(development)


def test_the_tolerance_is_the_deviation_between_seeds_where_replicates_are(toy, again):
    results = hb.benchmark(toy, ["RS"], trials=2, scores=["ftb"], tolerance=0.7)
    assert fewer_trainings(results).tables["tolerance"].tolist() == [0.7]
    bare = dataclasses.replace(
        toy, metrics=tuple(dataclasses.replace(m, tolerance=None) for m in toy.metrics)
    )
    names = tuple(m.name for m in bare.metrics)
    frame = again(bare, list(range(0, 36, 4)))
    repeated = dataclasses.replace(bare, replicates=Replicates.of_frame(frame, bare.hyperparameters, names))
    results = hb.benchmark(repeated, ["RS"], trials=2, scores=["ftb"])
    found = fewer_trainings(results)
    row, values = repeated.replicates.by_row(repeated.configs)
    name = results.instances["toy"].objectives[0].metric
    column = [m.name for m in repeated.metrics].index(name)
    groups = [np.append(repeated.values[i, column], values[row == i, column]) for i in np.unique(row)]
    assert found.tables["tolerance"].iloc[0] == pytest.approx(pooled_noise(groups).sd)
    assert found.tables["from_seeds"].iloc[0]
    assert "the standard deviation between seeds" in fewer_setting(results, found, "toy")
    loss = repeated.losses([results.instances["toy"].objectives[0]])[:, 0]
    assert found.tables["targets"].iloc[0] == (loss <= loss.min() + found.tables["tolerance"].iloc[0]).sum()


def test_hard_tables_and_single_targets_are_named(toy):
    results = hb.benchmark(toy, ["RS", InOrder], trials=10, lookups=4, scores=["ftb"], tolerance=0.0)
    found = fewer_trainings(results)
    assert found.tables["targets"].tolist() == [1]
    text = " ".join(found.notes)
    assert "There is only one target row: toy." in text
    assert "InOrder on toy" in text
    assert "RS on toy" not in text
    assert target_of(results.suite, results.instances["toy"]).random_search_capped == pytest.approx(32 / 36)


def test_a_clock_of_costs_is_nearly_exact_and_says_so(toy):
    results = hb.benchmark(toy, ["RS"], trials=3, scores=["ftb"], clock="cost", cost="seconds")
    found = fewer_trainings(results)
    assert not found.tables["exact"].any()
    assert "≈" in fewer_setting(results, found, "toy")
    assert any("permutations" in note for note in found.notes)


def test_the_headline_never_names_a_lucky_simulation_of_random_search(toy):
    results = hb.benchmark(rolled(toy, 2), ["RS", "BO_EI_M_std"], trials=4, lookups=9, score_at=5)
    found = fewer_trainings(results)
    times = found.methods["method"].map({"RS": 99.0, "BO_EI_M_std": 2.0})
    lucky = dataclasses.replace(found, methods=found.methods.assign(times_fewer=times))
    assert fewer_headline(lucky)[0].startswith("BO_EI_M_std takes 2 times fewer")
