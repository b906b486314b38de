from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.captions import curves_finding
from hpobench_nmt.analysis.replay import moving_front
from hpobench_nmt.analysis.run_curves import hypervolume_curves, regret_curves, surrogate_curves
from hpobench_nmt.analysis.run_fronts import attainment, pairs_of_objectives
from hpobench_nmt.analysis.runtimes import expected_runtime_frame, runtime_distribution, target_runtimes
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.seeds import sampled_rows
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.evaluation.scores import answer
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.render.plots.curves import plot_regret

TWO = ["bleu", "seconds"]


@pytest.fixture
def single(toy):
    other = dataclasses.replace(toy, name="other", configs=toy.configs[:30], values=toy.values[5:35])
    return benchmark([toy, other], ["RS", "BO_EI_M_std", "GB_EIF_M"], trials=12)


@pytest.fixture
def multi(toy):
    return benchmark(toy, ["RS", "BO_M_std", "NSGA2"], objectives=TWO, trials=12)


def of(frame, method):
    return frame[frame["method"] == method]


def failing(results, table, method, trial=0):
    """The same results, but one trial failed after its initial design."""
    trials = list(results.trials[table, method])
    start = trials[trial]
    trials[trial] = Trajectory(start.rows[:3], start.losses[:3], "broke")
    return dataclasses.replace(results, trials={**results.trials, (table, method): trials})


def test_a_regret_that_never_begins_is_told_and_drawn(toy):
    values = toy.values.copy()
    values[np.random.default_rng(1).permutation(36)[:26], 0] = np.nan
    few = dataclasses.replace(toy, values=values)
    rules = {"trials": 10, "scores": ["fb"], "score_at": 5, "n_initial": 2, "lookups": 5}
    results = benchmark(few, ["RS", "BO_EI_M_std"], **rules)
    found = regret_curves(results, "toy")
    assert found.frame[found.frame["method"] == "RS"]["mean"].isna().all()
    assert any(note.startswith("RS: its mean never begins, because") for note in found.notes)
    text = curves_finding(found, 5)
    assert "Without a mean, because some trials have not found a value yet: RS" in text
    assert text.startswith("Mean simple regret in bleu (BLEU) after 5 look-ups: no method has one.")
    assert plot_regret(results).axes


def test_regret_curves_by_hand(single):
    found = regret_curves(single, "toy")
    values = single.instances["toy"].table.column("bleu")
    assert found.quantity == "simple regret in bleu (BLEU)"
    assert list(found.frame["method"].unique()) == ["RS", "BO_EI_M_std", "GB_EIF_M", EXACT]
    for method in single.methods:
        curve = of(found.frame, method).set_index("lookups")
        for t in (1, 3, 4):
            best = [values[trial.rows[:t]].max() for trial in single.trials["toy", method]]
            assert curve.loc[t, "best_value"] == pytest.approx(np.mean(best))
            assert curve.loc[t, "mean"] == pytest.approx(values.max() - np.mean(best))
            assert curve.loc[t, "low"] <= curve.loc[t, "median"] <= curve.loc[t, "high"]
        # All end at the best row.
        assert curve["mean"].iloc[-1] == 0.0
        assert (curve["trials"] == 12).all()
    exact = of(found.frame, EXACT)
    assert exact["mean"].is_monotonic_decreasing
    assert exact["lookups"].max() == found.frame["lookups"].max()


def test_the_score_fb_is_on_the_curve(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std"], trials=12, score_at=8)
    frame = regret_curves(results, "toy").frame
    for method in results.methods:
        curve = of(frame, method).set_index("lookups")["mean"]
        assert curve.get(8, 0.0) == pytest.approx(results.summary("toy", method)[2].mean)


def test_a_curve_ends_where_its_first_trial_stopped_short(toy):
    rules = {"trials": 12, "scores": ["fb"], "score_at": 9, "lookups": 9}
    results = benchmark(toy, ["RS", "BO_EI_M_std"], **rules)
    longer = {key: list(trials) for key, trials in results.trials.items()}
    rows = np.arange(12)
    longer["toy", "RS"][0] = Trajectory(rows, results.instances["toy"].losses[rows])
    found = regret_curves(dataclasses.replace(results, trials=longer), "toy")
    assert of(found.frame, "RS")["lookups"].max() == 9
    assert "RS: its curve ends at 9 look-ups, where a trial had ended." in found.notes


def test_failed_trials_are_left_out_of_curves_and_named(single, multi):
    found = regret_curves(failing(single, "toy", "RS"), "toy")
    assert (of(found.frame, "RS")["trials"] == 11).all()
    assert found.notes == ("RS: 1 of 12 trials failed and is left out.",)
    broken = failing(multi, "toy", "NSGA2", trial=4)
    for data in (hypervolume_curves(broken, "toy"), attainment(broken, "toy", 5)):
        assert "NSGA2: 1 of 12 trials failed and is left out." in data.notes
    everything = dataclasses.replace(
        single,
        trials={
            k: [Trajectory(t.rows[:3], t.losses[:3], "broke") for t in v] for k, v in single.trials.items()
        },
    )
    assert list(regret_curves(everything, "toy").frame["method"].unique()) in ([], [EXACT])


def test_surrogate_curves_are_over_the_trials_that_still_run(single):
    (found,) = surrogate_curves(single, "toy", lookups=30)
    assert found.quantity == "squared error in bleu (BLEU²)"
    assert "RS: left out, because it gives no predictions." in found.notes
    assert set(found.frame["method"]) == {"BO_EI_M_std", "GB_EIF_M", EXACT}
    for method in ("BO_EI_M_std", "GB_EIF_M"):
        lengths = np.array([len(t.rows) for t in single.trials["toy", method]])
        for row in of(found.frame, method).itertuples():
            # Standardised losses predict nothing before the first, and nothing is left after the last row.
            assert row.trials == (lengths >= row.lookups).sum() >= 6
    truth = single.instances["toy"].losses[:, 0]
    assert of(found.frame, EXACT).iloc[0]["mean"] == pytest.approx(2 * truth.var(ddof=1))


def test_curves_have_a_point_where_one_is_asked_for(single, multi):
    usual, asked = (surrogate_curves(multi, "toy", also=also)[0].frame for also in ([], [0, 10, 101]))
    added = set(of(asked, EXACT)["lookups"]) - set(of(usual, EXACT)["lookups"])
    assert added == {10}
    found = runtime_distribution(target_runtimes(single), per_row=True, also=[0.1, 7.0])
    shares = of(found.frame, EXACT).set_index("budget")["share"]
    assert 0.1 in shares.index and 7.0 not in shares.index
    assert shares.is_monotonic_increasing


def test_surrogate_curves_of_ones_own_variants(toy, tmp_path):
    """A variant of a user's has curves, and with the settings of a built-in one, those of the built-in."""
    path = tmp_path / "variant.py"
    path.write_text(
        "from hpobench_nmt.methods.gaussian_process import bayesian_optimisation\n"
        "from hpobench_nmt.methods.kernels import rbf\n"
        "Mine = bayesian_optimisation(rbf, acquisition=lambda belief: belief.var - belief.mean[0])\n"
    )
    same = bayesian_optimisation(matern52, standardise=True, name="Same")
    results = benchmark(toy, ["BO_EI_M_std", same, f"{path}:Mine", Wandering], trials=3)
    results = dataclasses.replace(
        results, trials=dict(results.trials) | {("toy", "Same"): results.trials["toy", "BO_EI_M_std"]}
    )
    (found,) = surrogate_curves(results, "toy")
    assert list(found.frame["method"].unique()) == ["BO_EI_M_std", "Same", "Mine", EXACT]
    same, built_in = (of(found.frame, m).drop(columns="method") for m in ("Same", "BO_EI_M_std"))
    assert same.reset_index(drop=True).equals(built_in.reset_index(drop=True))
    assert "Wandering: left out, because it gives no predictions." in found.notes


def test_surrogate_curves_of_results_from_a_folder(toy, toy_home, tmp_path):
    """Variants are given anew: a folder is never trusted to name code that is run."""
    mine = bayesian_optimisation(matern52, name="Mine")
    suite = Suite("s", ("ftb",), trials=2)
    instances = {"toy": make_instance(suite, toy)}
    methods = resolve_methods(["BO_EI_R", mine])
    ran = run_suite(suite, instances, methods, folder=tmp_path / "r")
    alone, told = load_results(tmp_path / "r"), load_results(tmp_path / "r", methods)
    (expected,), (without,), (found,) = (surrogate_curves(r, "toy") for r in (ran, alone, told))
    assert any(n.startswith("Mine: left out, because its code is not known here.") for n in without.notes)
    assert set(without.frame["method"]) == {"BO_EI_R", EXACT}
    assert found.frame.equals(expected.frame)
    assert set(found.frame["method"]) == {"BO_EI_R", "Mine", EXACT}
    changed = dataclasses.replace(methods[1], entry=MethodEntry(spec="Mine", fingerprint="0"))
    with pytest.raises(InputError, match="another version of method 'Mine'"):
        load_results(tmp_path / "r", [changed])


class Wandering:
    """Has a method by the name of surrogate that means something else."""

    def __init__(self, problem, rng):
        self.order = list(rng.permutation(len(problem.features)))

    def ask(self):
        return self.order[-1]

    def tell(self, index, losses):
        self.order.remove(index)

    def surrogate(self, x):
        raise AssertionError


def test_surrogate_curves_do_not_depend_on_the_number_of_threads(multi):
    one, two = surrogate_curves(multi, "toy", jobs=1), surrogate_curves(multi, "toy", jobs=2)
    assert [c.quantity for c in one] == ["squared error in bleu (BLEU²)", "squared error in seconds (s²)"]
    for a, b in zip(one, two, strict=True):
        assert a.frame.equals(b.frame)


def test_hypervolume_curves_by_hand(multi):
    found = hypervolume_curves(multi, "toy")
    losses = multi.instances["toy"].losses
    scale = table_scale(losses)
    for method in multi.methods:
        curve = of(found.frame, method).set_index("lookups")["mean"]
        for t in (1, 4, 10):
            shares = [
                hypervolume(scale.scaled(x.losses[:t])) / scale.total for x in multi.trials["toy", method]
            ]
            assert curve[t] == pytest.approx(np.mean(shares))
        assert curve.iloc[-1] == pytest.approx(1.0)
    assert of(found.frame, EXACT)["mean"].is_monotonic_increasing
    assert not found.lower_is_better


def test_random_search_runs_along_its_exact_curves(toy):
    single = benchmark(toy, ["RS"], trials=200, stop="exhausted")
    multi = benchmark(toy, ["RS"], trials=200, objectives=TWO, stop="exhausted")
    for found in (regret_curves(single, "toy"), hypervolume_curves(multi, "toy")):
        rs, exact = (of(found.frame, m).set_index("lookups")["mean"] for m in ("RS", EXACT))
        for t in (1, 3, 10, 25):
            # The spread of one trial is at most about that of the first look-up.
            assert abs(rs[t] - exact[t]) < 0.25 * max(exact.max() - exact.min(), 0.1)
        assert rs[36] == pytest.approx(exact[36])


def test_curves_of_samples_end_at_the_best_of_the_sample():
    name, two = "sotu-awd-lstm", ["dev_ppl", "train_time"]
    rules = {"trials": 40, "sample": 0.6, "stop": "exhausted"}
    single = benchmark(name, ["RS"], scores=["fb"], score_at=20, **rules)
    multi = benchmark(name, ["RS"], scores=["fta"], objectives=two, **rules)
    for found, end in ((regret_curves(single, name), 0.0), (hypervolume_curves(multi, name), 1.0)):
        rs, exact = (of(found.frame, m).set_index("lookups")["mean"] for m in ("RS", EXACT))
        assert rs.index.max() == 93 and rs.iloc[-1] == exact.iloc[-1] == pytest.approx(end)
        for t in (3, 10, 25):
            assert abs(rs[t] - exact[t]) < 0.25 * (exact.max() - exact.min())
    curve = of(regret_curves(single, name).frame, "RS").set_index("lookups")
    assert curve["mean"].get(20) == pytest.approx(single.summary(name, "RS")[0].mean)
    best = [np.nanmin(t.losses) for t in single.trials[name, "RS"]]
    assert curve["best_value"].iloc[-1] == pytest.approx(np.mean(best))


def test_fronts_move_to_the_tables_front(multi):
    found = moving_front(multi, "toy", "RS", lookups=(3, 10, 36), trial=2)
    trial, instance = multi.trials["toy", "RS"][2], multi.instances["toy"]
    assert found.lookups == tuple(sorted({3, 10, len(trial.rows)}))
    for n, rows in zip(found.lookups, found.fronts, strict=True):
        assert set(rows) == set(trial.rows[:n][pareto_front(trial.losses[:n])])
        assert (np.diff(instance.losses[rows, 0]) >= 0).all()
    assert set(found.fronts[-1]) == set(found.front)
    np.testing.assert_array_equal(found.points[:, 0], instance.table.column("bleu"))
    assert found.labels == ("bleu (BLEU)", "seconds (s)")


def test_the_typical_trial_has_the_median_hypervolume(multi):
    found = moving_front(multi, "toy", "NSGA2", lookups=(10,))
    scale = table_scale(multi.instances["toy"].losses)

    def mean_share(trial):
        return np.mean([hypervolume(scale.scaled(trial.losses[: t + 1])) for t in range(10)])

    shares = [mean_share(t) for t in multi.trials["toy", "NSGA2"]]
    assert shares[found.trial] == pytest.approx(np.sort(shares)[5])
    broken = failing(multi, "toy", "NSGA2", trial=found.trial)
    assert moving_front(broken, "toy", "NSGA2", lookups=(10,)).trial != found.trial


def test_attainment_in_the_tables_own_units(multi):
    found = attainment(multi, "toy", 10)
    assert set(found.frame["method"]) == {*multi.methods, EXACT}
    losses = multi.instances["toy"].losses
    for method in multi.methods:
        steps = of(found.frame, method)[["x", "y"]].to_numpy() * [-1, 1]
        # Horizontal and vertical in turn, from the worst of one objective to the worst of the other.
        moves = np.diff(steps, axis=0)
        assert (np.count_nonzero(moves, axis=1) <= 1).all()
        assert steps[0, 1] == losses[:, 1].max()
        assert steps[-1, 0] == losses[:, 0].max()
        for x, y in steps[1:-1:2]:
            attained = [((t.losses[:10] <= [x, y]).all(axis=1)).any() for t in multi.trials["toy", method]]
            assert np.mean(attained) >= 0.5


def test_three_objectives_are_seen_two_at_a_time(toy):
    three = ["bleu", "seconds", "memory"]
    results = benchmark(toy, ["RS"], objectives=three, scores=["fta"], trials=9, stop="exhausted")
    assert pairs_of_objectives(3) == [(0, 1), (0, 2), (1, 2)]
    assert len(pairs_of_objectives(4)) == 6
    assert pairs_of_objectives(5) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    # The same trials, of which only two objectives are known.
    two = benchmark(toy, ["RS"], objectives=["seconds", "memory"], trials=9, stop="exhausted")
    found = attainment(results, "toy", 7, pair=(1, 2))
    pd.testing.assert_frame_equal(found.frame, attainment(two, "toy", 7).frame)
    moves = moving_front(results, "toy", "RS", (5, 36), trial=1, pair=(0, 2))
    trial = results.trials["toy", "RS"][1]
    assert set(moves.fronts[0]) == set(trial.rows[:5][pareto_front(trial.losses[:5])])
    assert set(moves.front) == set(pareto_front(toy.losses(three)))
    np.testing.assert_array_equal(moves.points[:, 1], toy.column("memory"))
    assert moves.labels == ("bleu (BLEU)", "memory (MB)")
    assert (np.diff(moves.points[moves.front, 0]) <= 0).all()


def test_attainment_is_not_made_up_after_the_end_of_a_trial(toy):
    results = benchmark(toy, ["RS", "BO_M_std"], objectives=TWO, scores=["fto"], trials=12)
    found = attainment(results, "toy", 30)
    assert set(found.frame["method"]) == {EXACT}
    assert any(note.startswith("RS: left out, because") for note in found.notes)


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


def test_what_an_analysis_is_not_for_is_refused(single, multi):
    for call, message in (
        (lambda: regret_curves(multi, "toy"), "for one objective; the run has 2"),
        (lambda: hypervolume_curves(single, "toy"), "the hypervolume is for two and more objectives"),
        (lambda: attainment(single, "toy", 5), "for two or more; the run has 1"),
        (lambda: moving_front(single, "toy", "RS"), "for two or more; the run has 1"),
        (lambda: regret_curves(single, "toi"), "Did you mean 'toy'"),
        (lambda: runtime_distribution(target_runtimes(single), ["toi"]), "Did you mean 'toy'"),
        (lambda: moving_front(multi, "toy", "NSGA"), "Did you mean 'NSGA2'"),
        (lambda: moving_front(multi, "toy", "RS", trial=12), "there are trials 0 to 11"),
        (lambda: moving_front(multi, "toy", "RS", lookups=()), "1 or more"),
        (lambda: attainment(multi, "toy", 0), "at least 1"),
        (lambda: surrogate_curves(multi, "toy", lookups=0), "at least 1"),
    ):
        with pytest.raises(hb.InputError, match=message):
            call()


def test_rows_without_values(toy):
    values = toy.values.copy()
    values[::5, 0] = np.nan
    holed = dataclasses.replace(toy, values=values)
    single = benchmark(holed, ["RS", "BO_EI_M_std"], trials=20)
    frame = regret_curves(single, "toy").frame
    # A fifth of first look-ups has no value.
    assert of(frame, "RS").iloc[0]["trials"] < 20
    # Of 36 rows 8 have none: they are all that is seen in 0.1% of trials after 4 look-ups, in 0.01% after 5.
    exact = of(frame, EXACT)["mean"].to_numpy()
    assert np.isnan(exact[:4]).all() and np.isfinite(exact[4:]).all()
    assert np.isfinite(of(surrogate_curves(single, "toy")[0].frame, "BO_EI_M_std")["mean"].iloc[2:8]).all()
    multi = benchmark(holed, ["RS", "BO_M_std"], objectives=TWO, trials=20)
    assert of(hypervolume_curves(multi, "toy").frame, "BO_M_std")["mean"].iloc[-1] == pytest.approx(1.0)
    assert len(attainment(multi, "toy", 5).frame)
    assert of(runtime_distribution(target_runtimes(multi)).frame, "RS")["share"].iloc[-1] == 1.0


@pytest.mark.parametrize("objectives", [["bleu"], TWO])
def test_a_caption_names_methods_that_were_done_before(toy, objectives):
    """One method finds everything at once and its trials end; it is the best, and not left out."""

    class Lucky:
        def __init__(self, problem, rng):
            self.order = [*best, *(row for row in range(len(problem.features)) if row not in best)]

        def ask(self):
            return int(self.order.pop(0))

        def tell(self, index, losses):
            if index in self.order:
                self.order.remove(index)

    best = pareto_front(toy.losses(objectives))
    results = benchmark(toy, ["RS", Lucky], objectives=objectives, trials=6, score_at=8)
    ended = max(len(t.rows) for t in results.trials["toy", "Lucky"])
    assert ended < 30 < max(len(t.rows) for t in results.trials["toy", "RS"])
    curves = (regret_curves if len(objectives) == 1 else hypervolume_curves)(results, "toy")
    value = "0" if len(objectives) == 1 else "1"
    assert f"after 30 look-ups: Lucky {value}, RS " in curves_finding(curves, 30)


def test_a_caption_says_which_curves_end_before(toy):
    one = benchmark(toy, ["RS", "BO_EI_M"], trials=6, lookups=30, score_at=8)
    (table, method), trials = next(iter(one.trials.items()))
    cut = [
        dataclasses.replace(t, rows=t.rows[:5], losses=t.losses[:5] + 1.0) if i == 0 else t
        for i, t in enumerate(trials)
    ]
    short = dataclasses.replace(one, trials={**one.trials, (table, method): cut})
    text = curves_finding(regret_curves(short, table), 8)
    assert "Curves that end earlier: RS (at 5)." in text
    assert "Curves that end earlier" not in curves_finding(regret_curves(one, table), 3)


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
