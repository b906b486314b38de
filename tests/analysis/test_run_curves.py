import dataclasses

import numpy as np
import pytest
from parts_of_results import failing, of

import hpobench_nmt as hb
from hpobench_nmt.analysis.captions import curves_finding
from hpobench_nmt.analysis.run_curves import hypervolume_curves, regret_curves, surrogate_curves
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.render.plots.curves import plot_regret

TWO = ["bleu", "seconds"]


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
    assert "NSGA2: 1 of 12 trials failed and is left out." in hypervolume_curves(broken, "toy").notes
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


def test_curves_have_a_point_where_one_is_asked_for(multi):
    usual, asked = (surrogate_curves(multi, "toy", also=also)[0].frame for also in ([], [0, 10, 101]))
    added = set(of(asked, EXACT)["lookups"]) - set(of(usual, EXACT)["lookups"])
    assert added == {10}


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


def test_surrogate_curves_are_in_squares_of_the_metrics_units(multi):
    found = surrogate_curves(multi, "toy")
    assert [c.quantity for c in found] == ["squared error in bleu (BLEU²)", "squared error in seconds (s²)"]


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


def test_what_curves_are_not_for_is_refused(single, multi):
    for call, message in (
        (lambda: regret_curves(multi, "toy"), "for one objective; the run has 2"),
        (lambda: hypervolume_curves(single, "toy"), "the hypervolume is for two and more objectives"),
        (lambda: regret_curves(single, "toi"), "Did you mean 'toy'"),
        (lambda: surrogate_curves(multi, "toy", lookups=0), "at least 1"),
    ):
        with pytest.raises(hb.InputError, match=message):
            call()


def test_curves_of_rows_without_values(toy):
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
