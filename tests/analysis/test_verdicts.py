from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from in_order import InOrder

from hpobench_nmt.analysis.leaderboard import cells
from hpobench_nmt.analysis.verdicts import run_statistics, score_values
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.comparisons import compare_pairs
from hpobench_nmt.evaluation.intervals import mean_intervals
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.render.latex import run_latex


class Worst(InOrder):
    """It also fails in a share of the trials."""

    failing = 0

    def __init__(self, problem, rng):
        if self.failing and rng.random() < self.failing:
            raise RuntimeError("no luck")
        super().__init__(problem, rng)


class Broken(Worst):
    failing = 1.0


class Flaky(Worst):
    failing = 0.3


@pytest.fixture
def results(toy):
    other = dataclasses.replace(toy, name="other", values=toy.values[::-1])
    return benchmark([toy, other], ["RS", "BO_EI_M_std", "BO_EI_R_std", Worst], trials=30)


def with_trials(results, trials):
    return dataclasses.replace(results, trials=trials)


def trials_of(results, lengths):
    """Trials that reach the best row at a given look-up; 0: not within 36; negative: failed after so many."""
    instance = results.instances["toy"]
    best = int(np.argmin(instance.losses[:, 0]))
    others = [row for row in range(36) if row != best]

    def trial(i, at):
        left = [*others[i % 35 :], *others[: i % 35]]  # no trial is a copy of another
        rows = np.array([*left[: at - 1], best] if at > 0 else left[: -at or None])
        return Trajectory(rows, instance.losses[rows], "crashed" if at < 0 else "")

    return {("toy", m): [trial(i, at) for i, at in enumerate(found)] for m, found in lengths.items()}


def test_values_are_the_scores_of_each_trial(results):
    methods, values = score_values(results, "toy")
    assert methods == results.methods
    for i, method in enumerate(methods):
        for j, score in enumerate(results.suite.scores):
            summary = results.summary("toy", method)[j]
            assert values[score][i].mean() == pytest.approx(summary.mean)
            assert values[score][i].std() == pytest.approx(summary.std)


def test_every_cell_has_its_interval_and_its_reference(results):
    scores = run_statistics(results).scores
    assert len(scores) == 2 * 4 * 3
    cell = scores[(scores.table == "other") & (scores.method == "Worst") & (scores.score == "ftc")].iloc[0]
    methods, values = score_values(results, "other")
    low, high = mean_intervals(values["ftc"][methods.index("Worst")][:, None])
    assert (cell["low"], cell["high"]) == (low[0], high[0])
    asked = results.instances["other"].goals[1]
    assert cell["random_search"] == exact_random_search(asked, 3)[0]


def test_comparisons_are_of_all_pairs_by_name(results):
    frame = run_statistics(results).comparisons
    assert len(frame) == 2 * 3 * 6
    methods, values = score_values(results, "toy")
    expected = compare_pairs(values["ftb"])
    for row, pair in zip(
        frame[(frame.table == "toy") & (frame.score == "ftb")].itertuples(), expected, strict=True
    ):
        assert (row.a, row.b) == (methods[pair.a], methods[pair.b])
        assert row.p_holm == pair.p_holm
        assert row.better == {"a": row.a, "b": row.b, "": ""}[pair.better]


def test_verdicts_agree_with_the_comparisons_and_say_so(results):
    statistics = run_statistics(results)
    frame, scores = statistics.comparisons, statistics.scores
    assert len(statistics.verdicts) == 2 * 3
    for verdict in statistics.verdicts:
        means = scores[(scores.table == verdict.table) & (scores.score == verdict.score)].set_index("method")[
            "mean"
        ]
        assert verdict.best == means.idxmin()
        for row in frame[(frame.table == verdict.table) & (frame.score == verdict.score)].itertuples():
            if verdict.best in (row.a, row.b):
                other = row.b if row.a == verdict.best else row.a
                assert other in (verdict.worse if row.better == verdict.best else verdict.tied)
        assert {verdict.best, *verdict.tied, *verdict.worse} == set(results.methods)
        for name in verdict.tied:
            assert name in verdict.sentence
    for verdict in statistics.verdicts:
        cell = scores[(scores.table == verdict.table) & (scores.score == verdict.score)]
        assert set(cell["method"][cell["best"]]) == {verdict.best}
        assert set(cell["method"][cell["tied"]]) == set(verdict.tied)
    assert any(v.worse for v in statistics.verdicts)


def test_the_sentence_in_full(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std", Worst], trials=40)
    # A always reaches the best at 4, B nearly always, C never before 20.
    lengths = {"RS": [30] * 40, "BO_EI_M_std": [4] * 40, "Worst": [4] * 39 + [6]}
    made = trials_of(results, lengths)
    verdict = run_statistics(with_trials(results, made)).verdicts[0]
    assert verdict.sentence == (
        "ftb on toy: BO_EI_M_std has the best mean (4, 95% interval 4 to 4). Not shown to be worse: Worst. "
        "Shown to be worse: RS."
    )


def test_equal_best_means_are_shared(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std", Worst], trials=40)
    made = trials_of(results, {"RS": [30] * 40, "BO_EI_M_std": [4, 6] * 20, "Worst": [6, 4] * 20})
    verdict = run_statistics(with_trials(results, made)).verdicts[0]
    assert verdict.sentence.startswith(
        "ftb on toy: BO_EI_M_std and Worst have the best mean (5, 95% interval "
    )
    assert verdict.sentence.endswith("). Shown to be worse: RS.")


def test_the_best_is_the_highest_where_more_is_better(toy):
    results = benchmark(
        toy, [Worst, "RS", "BO_M_std"], objectives=["bleu", "seconds"], trials=20, score_at=12
    )
    statistics = run_statistics(results)
    verdict = next(v for v in statistics.verdicts if v.score == "fbp")
    means = statistics.scores[statistics.scores.score == "fbp"].set_index("method")["mean"]
    assert verdict.best == means.idxmax() == "BO_M_std"
    assert verdict.worse == ("Worst", "RS")


def test_no_method_is_best_that_one_without_a_mean_is_ahead_of(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std"], trials=30)
    made = trials_of(results, {"RS": [20, 21, 22] * 10, "BO_EI_M_std": [4] * 29 + [0]})
    statistics = run_statistics(with_trials(results, made))
    verdict = statistics.verdicts[0]
    assert (verdict.best, verdict.tied, verdict.worse, verdict.alone) == ("", (), (), False)
    assert "RS has the best mean (21" in verdict.sentence
    assert (
        "not called best: BO_EI_M_std, without a value in some trials, is shown to be ahead of it"
        in verdict.sentence
    )
    assert not statistics.scores[statistics.scores.score == "ftb"][["best", "tied"]].any(axis=None)


def test_failing_where_it_gets_hard_wins_nothing(toy):
    rng = np.random.default_rng(3)
    results = benchmark(toy, ["RS", "BO_EI_M_std"], trials=60)
    first, second = rng.integers(3, 30, size=(2, 60))
    lengths = {"RS": first.tolist(), "BO_EI_M_std": [n if n <= 12 else -12 for n in second.tolist()]}
    statistics = run_statistics(with_trials(results, trials_of(results, lengths)))
    verdict = statistics.verdicts[0]
    survivors = statistics.scores.set_index(["score", "method"])["mean"]["ftb"]
    assert survivors["BO_EI_M_std"] < survivors["RS"] - 5
    assert verdict.best in ("", "RS")
    assert not any(v.best == "BO_EI_M_std" for v in statistics.verdicts if v.score == "ftb")


def test_better_than_every_other_needs_trials_of_every_other(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std", Worst], trials=30)
    made = trials_of(results, {"RS": [20, 21, 22] * 10, "BO_EI_M_std": [4] * 30, "Worst": []})
    verdict = run_statistics(with_trials(results, made)).verdicts[0]
    assert (verdict.best, verdict.worse, verdict.unknown) == ("BO_EI_M_std", ("RS",), ("Worst",))
    assert not verdict.alone
    assert verdict.sentence.endswith("Shown to be worse: RS. Without a trial to compare: Worst.")


def test_what_is_not_shown_is_tied_wherever_the_methods_stand(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std"], trials=8)
    near = {"RS": [9, 12, 20, 5, 7, 30, 4, 8], "BO_EI_M_std": [8, 13, 19, 5, 8, 29, 4, 7]}
    for order in (("RS", "BO_EI_M_std"), ("BO_EI_M_std", "RS")):
        made = trials_of(results, {m: near[m] for m in order})
        verdict = run_statistics(dataclasses.replace(results, methods=order, trials=made)).verdicts[0]
        assert (verdict.best, verdict.tied, verdict.worse) == ("BO_EI_M_std", ("RS",), ())


def test_scores_that_never_differ(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std", Worst], trials=5, scores=["ftb"])
    made = trials_of(results, {m: [7] * 5 for m in results.methods})
    statistics = run_statistics(with_trials(results, made))
    for verdict in statistics.verdicts:
        assert "every method scores" in verdict.sentence
        assert verdict.worse == ()
        assert set(verdict.tied) == {"BO_EI_M_std", "Worst"}
    assert (statistics.scores["low"] == statistics.scores["mean"]).all()
    assert not statistics.comparisons["better"].any()


def test_failed_trials_lose_and_are_named(toy):
    results = benchmark(toy, ["RS", Flaky, Broken], trials=30)
    failed = sum(bool(t.failure) for t in results.trials["toy", "Flaky"])
    assert 0 < failed < 30
    statistics = run_statistics(results)
    pair = statistics.comparisons.iloc[0]
    assert (pair.a, pair.b, pair.trials, pair.test) == ("RS", "Flaky", 30, "signed-rank")
    assert any(note.startswith(f"Flaky on toy: {failed} of 30 trials failed") for note in statistics.notes)
    for verdict in statistics.verdicts:
        assert (verdict.best, "Broken" in verdict.worse) == ("RS", True)
    flaky = statistics.scores[statistics.scores.method == "Flaky"]
    assert not flaky[["best"]].any(axis=None)
    assert flaky["mean"].notna().all()  # of those that did not fail, shown with their number
    broken = statistics.scores[statistics.scores.method == "Broken"]
    assert broken[["mean", "low", "high"]].isna().all(axis=None)


def test_a_mean_of_what_did_not_fail_has_no_interval_though_failed_trials_had_answered(results):
    trials = dict(results.trials)
    trials["toy", "RS"] = [
        dataclasses.replace(trial, failure="crashed" if i % 3 == 0 else "")
        for i, trial in enumerate(trials["toy", "RS"])
    ]
    scores = run_statistics(with_trials(results, trials)).scores
    spoilt = scores[(scores.table == "toy") & (scores.method == "RS")]
    assert (spoilt["failed"] == 10).all() and spoilt["mean"].notna().all()
    assert spoilt[["low", "high"]].isna().all(axis=None)
    assert scores.drop(spoilt.index)[["low", "high"]].notna().all(axis=None)


def test_a_table_on_which_every_trial_failed(toy):
    results = benchmark(toy, [Broken, "RS"], trials=12)
    only = {("toy", m): results.trials["toy", "Broken"] for m in results.methods}
    verdict = run_statistics(with_trials(results, only)).verdicts[0]
    assert (verdict.best, verdict.sentence) == ("", "ftb on toy: every trial failed.")


def test_means_of_trials_that_were_not_finished_are_not_shown_but_order_is_compared(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std", Worst], trials=100, lookups=8, score_at=8)
    statistics = run_statistics(results)
    ftb = statistics.scores[statistics.scores.score == "ftb"].set_index("method")
    assert (ftb["unanswered"] > 0).all()
    assert ftb[["mean", "low", "high"]].isna().all(axis=None)
    verdict = statistics.verdicts[0]
    assert (verdict.best, verdict.tied) == ("", ())
    assert "no method has a value in every trial" in verdict.sentence
    assert "BO_EI_M_std is ahead of" in verdict.sentence
    pairs = statistics.comparisons[statistics.comparisons.score == "ftb"]
    assert set(pairs["test"]) == {"signed-rank"}
    assert pairs["difference"].isna().all()
    fb = statistics.scores[statistics.scores.score == "fb"]
    assert fb[["mean", "low", "high"]].notna().all(axis=None)


def test_a_method_with_a_mean_is_the_best_even_if_one_without_is_not_shown_to_be_worse(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std", Worst], trials=40, lookups=30, score_at=10)
    statistics = run_statistics(results)
    ftc = statistics.scores[statistics.scores.score == "ftc"].set_index("method")
    assert ftc.loc["RS", "unanswered"] > 0
    assert ftc.loc["BO_EI_M_std", "unanswered"] == 0
    assert statistics.verdicts[1].best == "BO_EI_M_std"
    assert "RS" in statistics.verdicts[1].worse


def test_methods_with_different_numbers_of_trials(results):
    fewer = {key: trials[: 12 if key[1] == "RS" else 30] for key, trials in results.trials.items()}
    statistics = run_statistics(with_trials(results, fewer))
    assert (
        "Methods have 12 to 30 trials. Two methods are compared by the trials that both have."
        in statistics.notes
    )
    pairs = statistics.comparisons
    assert set(pairs[pairs.a == "RS"]["trials"]) == {12}
    assert set(pairs[pairs.a != "RS"]["trials"]) == {30}


def test_a_run_that_is_not_finished(results):
    partial = {key: trials for key, trials in results.trials.items() if key != ("other", "Worst")}
    statistics = run_statistics(with_trials(results, partial))
    assert "Not finished, and left out: Worst on other." in statistics.notes
    assert len(statistics.scores) == 7 * 3


def test_one_method_has_nothing_to_be_compared_with(toy):
    statistics = run_statistics(benchmark(toy, ["RS"], trials=12))
    assert statistics.verdicts[0].sentence == "ftb on toy: only RS was run."
    assert statistics.notes == ("Only one method was run, so it can only be compared with random search.",)
    assert len(statistics.comparisons) == 0
    assert list(statistics.comparisons.columns[:4]) == ["table", "score", "a", "b"]


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_few_trials_are_said_and_show_nothing(toy, trials):
    statistics = run_statistics(benchmark(toy, ["RS", "BO_EI_M_std", Worst], trials=trials))
    assert any(note.startswith(f"With {trials} trial{'s' * (trials > 1)}, ") for note in statistics.notes)
    assert not statistics.comparisons["better"].any()
    if trials == 1:
        assert statistics.scores[["low", "high"]].isna().all(axis=None)
        assert "interval" not in statistics.verdicts[0].sentence


def test_the_same_results_give_the_same_statistics(results):
    one, other = run_statistics(results), run_statistics(results)
    assert one.scores.equals(other.scores)
    assert one.comparisons.equals(other.comparisons)
    assert one.verdicts == other.verdicts


@pytest.mark.parametrize("trials", [3, 20])
def test_a_method_whose_trials_all_failed_is_never_called_as_good(toy, trials):
    """With few trials nothing is shown of it, and that was taken for a tie with the best."""

    class Broken:
        def __init__(self, problem, rng):
            raise ValueError("broken")

        def ask(self):
            pass

        def tell(self, index, losses):
            pass

    class BrokenLater:
        """Its score fb is settled when it fails: by the figures it is no worse than another."""

        def __init__(self, problem, rng):
            self.asked, self.left = 0, set(range(len(problem.features)))

        def ask(self):
            self.asked += 1
            if self.asked > 4:
                raise ValueError("broken")
            return min(self.left)

        def tell(self, index, losses):
            self.left.discard(index)

    results = benchmark(toy, ["RS", "BO_EI_M_std", Broken, BrokenLater], trials=trials, score_at=5)
    assert {len(results.trials["toy", m]) for m in results.methods} == {trials}
    statistics = run_statistics(results)
    broken = {"Broken", "BrokenLater"}
    for verdict in statistics.verdicts:
        assert verdict.best in {"RS", "BO_EI_M_std"}
        assert not broken & {*verdict.tied, *verdict.unknown}
        assert broken <= {*verdict.worse, *verdict.failed}
        if verdict.failed:
            assert f"Every trial failed: {', '.join(verdict.failed)}." in verdict.sentence
            assert not verdict.alone
    chosen = statistics.scores[statistics.scores["method"].isin(broken)]
    assert len(chosen) == 6 and not chosen[["best", "tied"]].to_numpy().any()
    assert not any(cell.tied or cell.best for cell in cells(results, statistics) if cell.method in broken)
    for line in run_latex(results).splitlines():
        assert not (line.startswith("Broken") and ("underline" in line or "textbf" in line))


def test_means_of_the_same_values_in_another_order_share_the_best_place(toy):
    found = benchmark(toy, ["RS", "BO_EI_M_std"], trials=30, scores=["fb"], score_at=5)
    trials = found.trials["toy", "RS"]
    values = score_values(found, "toy")[1]["fb"][0]
    rng = np.random.default_rng(0)
    order = next(o for o in (rng.permutation(30) for _ in range(1000)) if values[o].mean() > values.mean())
    changed = with_trials(found, {("toy", "RS"): [trials[i] for i in order], ("toy", "BO_EI_M_std"): trials})
    statistics = run_statistics(changed)
    assert "RS and BO_EI_M_std have the best mean" in statistics.verdicts[0].sentence
    assert [cell.best for cell in cells(changed, statistics)] == [True, True]
