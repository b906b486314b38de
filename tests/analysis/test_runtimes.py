import dataclasses

import numpy as np
import pytest
from parts_of_results import failing, of

import hpobench_nmt as hb
from hpobench_nmt.analysis.runtimes import expected_runtime_frame, runtime_distribution, target_runtimes
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.seeds import sampled_rows
from hpobench_nmt.evaluation.scores import answer

TWO = ["bleu", "seconds"]


def test_runtimes_are_the_scores(single, multi):
    for results, scores in ((single, {"ftb": -1}), (multi, {"fto": 0, "fta": -1})):
        found = target_runtimes(results)
        assert found.notes == ()
        for (table, method), times in found.found.items():
            for score, place in scores.items():
                asked = next(g for g in results.instances[table].goals if g.name == score)
                expected = [answer(asked, t, 3) for t in results.trials[table, method]]
                np.testing.assert_array_equal(times.times[:, place], expected)
            assert times.exact_until == np.inf


def test_the_distribution_counts_pairs_and_weighs_tables_alike(single):
    found = target_runtimes(single)
    both = runtime_distribution(found)
    parts = [runtime_distribution(found, [table]) for table in ("toy", "other")]
    assert both.tables == ("toy", "other")
    assert both.n_targets == sum(part.n_targets for part in parts)
    for method in (*single.methods, EXACT):
        pooled = of(both.frame, method).set_index("budget")["share"]
        alone = [of(part.frame, method).set_index("budget")["share"] for part in parts]
        for budget in (1, 3, 8, 20):
            assert pooled[budget] == pytest.approx(np.mean([share[budget] for share in alone]))
        assert pooled.iloc[-1] == pytest.approx(1.0)
        assert pooled.is_monotonic_increasing
    times = found.found["toy", "RS"].times
    assert of(parts[0].frame, "RS").set_index("budget")["share"][8] == pytest.approx((times <= 8).mean())
    assert both.frame["exact"].all()


def test_look_ups_by_the_size_of_the_table(single):
    found = target_runtimes(single)
    scaled = runtime_distribution(found, per_row=True)
    assert scaled.unit == "look-ups / rows of the table"
    for row in of(scaled.frame, "BO_EI_M_std").iloc[::40].itertuples():
        shares = [
            (found.found[t, "BO_EI_M_std"].times / n <= row.budget + 1e-9).mean()
            for t, n in ((t, found.size(t)) for t in found.targets)
        ]
        assert row.share == pytest.approx(np.mean(shares))


def test_a_distribution_has_a_point_where_one_is_asked_for(single):
    found = runtime_distribution(target_runtimes(single), per_row=True, also=[0.1, 7.0])
    shares = of(found.frame, EXACT).set_index("budget")["share"]
    assert 0.1 in shares.index and 7.0 not in shares.index
    assert shares.is_monotonic_increasing


def test_targets_that_the_scores_do_not_settle_are_left_out():
    name = "sotu-gpt-30k"  # six of its 300 rows are the best 2%, which every trial waits for
    found = target_runtimes(benchmark(name, ["RS"], trials=5, scores=["ftc"]))
    assert min(target.gaps[target.targets].max() for target in found.targets[name]) > 0
    assert "harder targets left out, because trials end once their scores (ftc)" in found.notes[0]
    assert np.isfinite(found.found[name, "RS"].times).all()
    whole = target_runtimes(benchmark(name, ["RS"], trials=5, scores=["ftc"], stop="exhausted"))
    assert whole.targets[name][-1].name == "the best value"


def test_a_limit_on_look_ups_makes_the_rest_a_lower_bound(toy):
    results = benchmark(toy, ["RS"], trials=30, lookups=10, score_at=10)
    found = target_runtimes(results)
    frame = runtime_distribution(found, ["toy"]).frame
    rs = of(frame, "RS")
    assert (rs["exact"] == (rs["budget"] <= 10)).all()
    ert = expected_runtime_frame(found)
    hardest = of(ert, "RS").iloc[-1]
    reached = [len(t.rows) for t in results.trials["toy", "RS"] if len(t.rows) < 10]
    assert hardest["successes"] >= len(reached)
    lookups = sum(len(t.rows) for t in results.trials["toy", "RS"])
    assert hardest["ert"] == pytest.approx(lookups / hardest["successes"])
    assert of(ert, EXACT).iloc[-1]["ert"] == pytest.approx(37 / 2, rel=0.05)


def test_failed_trials_never_meet_what_they_had_not_met(single):
    found = target_runtimes(failing(single, "toy", "RS"))
    frame = of(runtime_distribution(found, ["toy"]).frame, "RS")
    assert frame["share"].max() < 1.0
    assert not frame.loc[frame["budget"] > 3, "exact"].any()


def test_tables_where_a_method_is_missing_are_not_pooled(single):
    partial = {key: trials for key, trials in single.trials.items() if key != ("other", "GB_EIF_M")}
    found = target_runtimes(dataclasses.replace(single, trials=partial))
    pooled = runtime_distribution(found)
    assert pooled.tables == ("toy",)
    assert "Left out, because not all methods were run there: other." in pooled.notes
    assert runtime_distribution(found, ["other"]).tables == ("other",)


def test_expected_runtimes_are_means_where_all_trials_succeed(single):
    frame = expected_runtime_frame(target_runtimes(single))
    assert list(frame.columns) == [
        *("table", "method", "target", "value", "rows", "on_front"),
        *("ert", "low", "high", "successes", "trials"),
    ]
    row = frame[(frame.table == "toy") & (frame.method == "RS") & (frame.target == "the best value")].iloc[0]
    assert row["ert"] == pytest.approx(single.summary("toy", "RS")[0].mean)
    assert row["low"] < row["ert"] < row["high"]
    assert set(frame["method"]) == {*single.methods, EXACT}


def test_runtimes_of_an_unknown_table_are_refused(single):
    with pytest.raises(hb.InputError, match="Did you mean 'toy'"):
        runtime_distribution(target_runtimes(single), ["toi"])


def test_runtimes_of_rows_without_values(toy):
    values = toy.values.copy()
    values[::5, 0] = np.nan
    holed = dataclasses.replace(toy, values=values)
    multi = benchmark(holed, ["RS", "BO_M_std"], objectives=TWO, trials=20)
    assert of(runtime_distribution(target_runtimes(multi)).frame, "RS")["share"].iloc[-1] == 1.0


def test_trials_that_see_samples_have_targets_of_their_own():
    name = "sotu-awd-lstm"
    results = benchmark(name, ["RS"], trials=3, scores=["ftb"], sample=0.6)
    losses = results.instances[name].losses[:, 0]
    found = target_runtimes(results)
    ranks = [int(goal.name.split()[3]) if "among" in goal.name else 1 for goal in found.targets[name]]
    assert ranks == sorted(set(ranks), reverse=True) and ranks[-1] == 1
    for i, trial in enumerate(results.trials[name, "RS"]):
        sample = np.sort(losses[sampled_rows(0, name, i, 156, 93, 0)])
        for j, rank in enumerate(ranks):
            first = 1 + np.flatnonzero(losses[trial.rows] <= sample[rank - 1])[0]
            assert found.found[name, "RS"].times[i, j] == max(first, 3)
    exact = expected_runtime_frame(found).query("method == @EXACT")
    hardest = exact.iloc[-1]  # a design of three rows that has it counts as three look-ups
    assert hardest["target"] == "the best value" and hardest["ert"] == pytest.approx(47 + 3 / 93)
    frame = runtime_distribution(found, per_row=True).frame
    assert frame[frame["method"] == "RS"]["share"].iloc[-1] == 1.0
    front = benchmark(
        name, ["RS"], trials=3, scores=["fta"], objectives=["dev_ppl", "train_time"], sample=0.6
    )
    assert len({len(ladder) for ladder in target_runtimes(front).ladders[name]}) == 1
