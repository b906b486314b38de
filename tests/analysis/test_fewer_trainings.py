from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import false_discovery_control, t, ttest_1samp

import hpobench_nmt as hb
from hpobench_nmt.analysis.board import figure_board
from hpobench_nmt.analysis.fewer_trainings import fewer_headline, fewer_sentences, fewer_trainings
from hpobench_nmt.analysis.leaderboard import fewer_setting
from hpobench_nmt.analysis.selection import FAMILIES, families
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.records.frozen import pin_of
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.core.seeds import sampled_rows
from hpobench_nmt.methods import TUNED_ON


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


def naive_log_ratio(results, table, method, budget):
    """log r on one table, and the share of capped trials, from the rows that the trials looked up."""
    instance = results.instances[table]
    runtimes, given = [], []
    for number, trial in enumerate(results.trials[table, method]):
        size = len(instance.table)
        sample = range(size)
        if results.suite.sample:
            shown = max(math.floor(results.suite.sample * size), min(40, size))
            sample = sampled_rows(results.seed, table, number, size, shown).tolist()
        loss = {row: instance.losses[row, 0] for row in sample}
        worst = sorted(loss.values())[math.ceil(len(loss) / 50) - 1]
        near = {row for row, x in loss.items() if x <= worst}
        rows, n_initial = trial.rows.tolist(), instance.problem.n_initial
        hits = [t for t, row in enumerate(rows, start=1) if row in near]
        runtimes.append(max(hits[0], n_initial) if hits and hits[0] <= budget else math.inf)
        start = set(rows[:n_initial])
        m, k = len(loss) - n_initial, len(near - start)
        missed = [1.0] * n_initial
        for s in range(budget - n_initial):
            missed.append(0.0 if near & start else math.comb(m - k, s) / math.comb(m, s))
        given.append(math.fsum(missed))
    t, g = np.minimum(runtimes, budget), np.array(given)
    bias = (np.var(t, ddof=1) / t.mean() ** 2 - np.var(g, ddof=1) / g.mean() ** 2) / (2 * len(t))
    return math.log(g.mean() / t.mean()) - bias, np.mean(np.isinf(runtimes))


@pytest.mark.parametrize("sample", [None, 0.9])
def test_the_figure_is_that_of_its_definition(toy, sample):
    tables = rolled(toy, 3, lambda i: "pair" if i < 2 else "")
    rules = {"trials": 12, "lookups": 9, "score_at": 5, "sample": sample}
    results = benchmark(tables, ["RS", "BO_EI_M_std"], **rules)
    found = fewer_trainings(results)
    for j, method in enumerate(results.methods):
        logs, capped = zip(*(naive_log_ratio(results, t.name, method, 9) for t in tables), strict=True)
        line = found.methods.iloc[j]
        assert line["times_fewer"] == pytest.approx(math.exp(((logs[0] + logs[1]) / 2 + logs[2]) / 2))
        assert line["capped"] == pytest.approx(np.mean(capped))
        assert line["low"] < line["times_fewer"] < line["high"]
    assert found.tables["family"].tolist() == ["pair", "pair", "t2"]
    assert found.tables["budget"].tolist() == [9.0] * 3
    assert found.tests[["a", "b"]].to_numpy().tolist() == [["BO_EI_M_std", ""]]


def test_columns_of_version_1_1_have_no_value(toy):
    found = fewer_trainings(benchmark(toy, ["RS", "BO_EI_M"], trials=4))
    for frame, names in (
        (found.methods, ["by_tables", "families_low", "families_high", "development"]),
        (found.tables, ["half", "tolerance", "from_seeds", "random_search_capped"]),
        (found.tests, ["p_holm", "p_families_holm"]),
    ):
        assert frame[names].isna().all(axis=None) and len(frame)


def test_two_verdicts(toy):
    """On other families there is none under five, nor for a user's method, of which nothing is known."""
    tables = rolled(toy, 6, lambda i: "abcde"[i % 5])
    results = benchmark(tables, ["RS", "BO_EI_M_std", "corner", InOrder], trials=8, scores=["ftb"])
    found = fewer_trainings(results)
    tests = found.tests.set_index(["a", "b"])
    figure = found.paired.figure("BO_EI_M_std")
    line = tests.loc[("BO_EI_M_std", "")]
    reach = t.ppf(0.975, 4) * np.std(figure.family_logs[:, 0], ddof=1) / 5**0.5
    assert line["families"] == 5
    assert line["families_ratio"] == pytest.approx(math.exp(figure.family_logs.mean()))
    assert line["families_low"] == pytest.approx(math.exp(figure.family_logs.mean() - reach))
    expected = ttest_1samp(figure.family_logs[:, 0], 0.0).pvalue
    assert line["families_p"] == pytest.approx(expected)
    assert np.isnan(tests.loc[("InOrder", ""), "families_p"])
    # Controls are not among the comparisons that are corrected for.
    assert np.isnan(tests.loc[("corner", ""), "p_page"])
    ours = tests.loc[[("BO_EI_M_std", ""), ("InOrder", "")]]
    np.testing.assert_allclose(ours["p_page"], false_discovery_control(ours["p"].to_numpy(np.float64)))
    text = " ".join(fewer_sentences(results, found))
    assert "On these 6 tables, shown to need fewer trainings than random search: BO_EI_M_std" in text
    assert "that did not tune the method: InOrder." in text
    heads, rows = figure_board(results, found).texts()
    assert heads == ["times fewer", "95%", "other families", "places", "capped"]
    values = found.methods.set_index("method")["times_fewer"]
    assert [row[0] for row in rows[:-1]] == list(values.sort_values(ascending=False).index)
    few = fewer_trainings(benchmark(tables[:4], ["RS", "BO_EI_M_std"], trials=4, scores=["ftb"]))
    assert few.tests["families_p"].isna().all() and few.tests["p"].notna().all()


def test_another_method_changes_no_p_value(toy):
    tables = rolled(toy, 3)
    rules = {"trials": 8, "scores": ["ftb"]}
    small = fewer_trainings(benchmark(tables, ["RS", "BO_EI_M_std"], **rules)).tests
    large = fewer_trainings(benchmark(tables, ["RS", "BO_EI_M_std", "TPE", "LS"], **rules)).tests
    own = large[(large["a"] == "BO_EI_M_std") & (large["b"] == "")]
    assert own["p"].tolist() == small["p"].tolist()


def test_a_method_without_randomness_has_neither_interval_nor_test(toy):
    tables = rolled(toy, 6)
    results = benchmark(tables, ["RS", InOrder, "BO_EI_M_std"], trials=10)
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
    notes = run_statistics(benchmark(small, ["RS", "SH", "Hyperband", "ASHA"], **rules)).notes
    assert [note.split(":")[0] for note in notes if "the first bracket is larger" in note] == named


def test_tables_that_do_not_count(toy):
    tables = rolled(toy, 2)
    results = benchmark(tables, ["RS", "BO_EI_M_std"], trials=4, scores=["ftb"])
    part = {key: trials for key, trials in results.trials.items() if key != ("t1", "BO_EI_M_std")}
    found = fewer_trainings(dataclasses.replace(results, trials=part))
    assert found.tables["table"].tolist() == ["t0"]
    assert found.notes[-1] == "t1 does not count: not every method has finished it."
    none = {key: trials for key, trials in part.items() if key[1] == "RS"}
    assert fewer_trainings(dataclasses.replace(results, trials=none)).reason


def test_with_two_objectives_the_target_is_a_row_of_the_front(toy):
    rules = {"objectives": ["bleu", "seconds"], "scores": ["fto", "fbh"], "score_at": 9, "time": 9}
    results = benchmark(toy, ["RS", "BO_M_std"], trials=8, **rules)
    found, instance = fewer_trainings(results), results.instances["toy"]
    losses = instance.losses
    front = {i for i, a in enumerate(losses) if not any((b <= a).all() and (b < a).any() for b in losses)}
    runtimes = [
        min(max(next((t for t, r in enumerate(trial.rows.tolist(), 1) if r in front), 9), 3), 9)
        for trial in results.trials["toy", "BO_M_std"]
    ]
    k = len(front)
    line = found.methods.iloc[1]
    starts = [set(t.rows[:3].tolist()) for t in results.trials["toy", "BO_M_std"]]
    given = [3.0 if start & front else 3 + sum(
        math.comb(33 - k, s) / math.comb(33, s) for s in range(6)) for start in starts]  # fmt: skip
    cv = [np.var(x, ddof=1) / np.mean(x) ** 2 for x in (runtimes, given)]
    bias = math.exp(-(cv[0] - cv[1]) / 16)
    assert line["times_fewer"] == pytest.approx(bias * np.mean(given) / np.mean(runtimes))
    assert line["hypervolume"] == pytest.approx(results.summary("toy", "BO_M_std")[1].mean)
    assert "Trainings until a row of the front is found." in fewer_sentences(results, found)[0]
    assert f"to a row of the front ({k} of 36 rows)" in fewer_setting(results, found, "toy")
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
    results = benchmark(toy, ["RS", FailsOften], trials=8, **rules)
    assert 0 < results.summary("toy", "FailsOften")[1].failed < 8
    shares = fewer_trainings(results).methods["hypervolume"]
    assert np.isfinite(shares[0]) and np.isnan(shares[1])


def test_a_method_with_a_failed_trial_has_no_figure_but_keeps_its_other_tables(toy):
    results = benchmark(rolled(toy, 3), ["RS", FailsOften, "BO_EI_M"], trials=3, scores=["ftb"])
    failed = {t: sum(bool(x.failure) for x in results.trials[t, "FailsOften"]) for t in results.instances}
    assert any(failed.values())
    found = fewer_trainings(results)
    assert np.isnan(found.methods["times_fewer"][1]) and found.methods["failed"][1] == sum(failed.values())
    cells = found.cells[found.cells["method"] == "FailsOften"].set_index("table")
    for table, count in failed.items():
        assert np.isnan(cells.loc[table, "times_fewer"]) == (count > 0)
    assert any(note.startswith("No figure: FailsOften failed in ") for note in found.notes)


def test_the_halves_of_version_1_1_are_ignored(toy):
    tables = rolled(toy, 4)
    rules = {"trials": 6, "scores": ["ftb"]}
    halved = benchmark(tables, ["RS", "BO_EI_M_std"], development=["t0", "t1"], **rules)
    whole = benchmark(tables, ["RS", "BO_EI_M_std"], **rules)
    assert fewer_trainings(halved).methods.equals(fewer_trainings(whole).methods)


def test_trials_of_frozen_suites_on_whole_tables_have_the_target_with_which_they_ended():
    suite = Suite("mine-2025", ("ftc",), tables=("sotu-gpt-30k",), trials=2)
    pin = pin_of(suite, make_instance(suite, hb.load_table("sotu-gpt-30k")))
    results = hb.run(changed(suite, pinned={"sotu-gpt-30k": pin}), methods=["RS"])
    found = fewer_trainings(results)
    assert found.aim == "a row within the tolerance of ftc"
    instance = results.instances["sotu-gpt-30k"]
    loss = instance.losses[:, 0]
    assert found.tables["targets"].tolist() == [(loss <= np.nanmin(loss) + instance.tolerance).sum()]


def test_a_clock_of_costs_is_nearly_exact_and_says_so(toy):
    results = benchmark(toy, ["RS"], trials=3, scores=["ftb"], clock="cost", cost="seconds")
    found = fewer_trainings(results)
    assert not found.tables["exact"].any()
    assert "≈" in fewer_setting(results, found, "toy")
    assert any("permutations" in note for note in found.notes)


def test_the_headline_never_names_a_lucky_simulation_of_random_search(toy):
    results = benchmark(rolled(toy, 2), ["RS", "BO_EI_M_std"], trials=4, lookups=9, score_at=5)
    found = fewer_trainings(results)
    times = found.methods["method"].map({"RS": 99.0, "BO_EI_M_std": 2.0})
    lucky = dataclasses.replace(found, methods=found.methods.assign(times_fewer=times))
    assert fewer_headline(lucky)[0].startswith("BO_EI_M_std takes 2 times fewer")


@pytest.mark.filterwarnings("ignore:Left out")
@pytest.mark.parametrize("workers", [1, 2])
def test_the_least_is_what_a_method_that_knows_the_targets_takes(curved, workers):
    rules = {"clock": "cost", "curves": True, "workers": workers, "n_initial": 0, "scores": ["ftb"]}
    results = benchmark(curved, ["ASHA"], trials=1, **rules)
    goal, trainings = results.instances["toy"].target, results.instances["toy"].trainings
    rows = np.flatnonzero(goal.targets)
    costs = trainings.costs[trainings.place_of(rows, goal.resources[rows])]
    place = costs.argmin()

    class Knows:
        """Trains the row that reaches the target first, up to there."""

        def __init__(self, problem, rng):
            self.row, self.resource = int(rows[place]), float(goal.resources[rows[place]])

        def suggest(self, running):
            return None if self.row in running else (self.row, self.resource)

        def observe(self, progress):
            """After this the trial has ended, because its goals are settled."""

    assert fewer_trainings(results).paired.aims["toy"].least.tolist() == [costs.min()]
    found = benchmark(curved, [Knows], trials=1, **rules)
    assert fewer_trainings(found).paired.runtimes["toy"].tolist() == [[costs.min()]]


def test_places_when_a_family_is_left_out(toy):
    tables = rolled(toy, 4, lambda i: "abcd"[i])
    rules = {"trials": 6, "scores": ["ftb"]}
    methods = ["RS", "BO_EI_M_std", "BO_EI_M", "corner"]
    places = fewer_trainings(benchmark(tables, methods, **rules)).paired.places()
    assert list(places) == methods[:3]
    found = {name: [] for name in places}
    for left_out in range(4):
        some = [table for i, table in enumerate(tables) if i != left_out]
        figures = fewer_trainings(benchmark(some, methods[:3], **rules)).methods
        for name, figure in zip(figures["method"], figures["times_fewer"], strict=True):
            found[name].append(1 + (figures["times_fewer"] > figure).sum())
    assert places == {name: (min(each), max(each)) for name, each in found.items()}
    assert fewer_trainings(benchmark(toy, methods, **rules)).paired.places() == {}


def test_tables_that_ship_and_collections_have_the_families_that_methods_name():
    """Else a method would have a verdict on families on which it was tuned."""
    named = {name for families in TUNED_ON.values() for name in families}
    assert named <= {*FAMILIES.values(), *load_suite("quick").family.values()}
    results = benchmark(["sotu-awd-lstm", "sotu-gpt-30k"], ["RS"], trials=2, scores=["ftb"])
    assert list(dict.fromkeys(families(results).values())) == ["LSTM language models", "small GPTs"]
