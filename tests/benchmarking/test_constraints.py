"""Suites with constraints: scores of feasible rows only, and results folders that keep such runs apart."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.leaderboard import score_records
from hpobench_nmt.analysis.provenance import command
from hpobench_nmt.analysis.replay import moving_front
from hpobench_nmt.analysis.report_runs import load_runs
from hpobench_nmt.analysis.run_curves import hypervolume_curves, regret_curves
from hpobench_nmt.analysis.run_fronts import attainment
from hpobench_nmt.analysis.runtimes import target_runtimes
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.table_front import pareto
from hpobench_nmt.analysis.tables.sections import analyze_tables
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.scoring import score_of
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.lookup.table import Table

VALUES = np.array(
    [  # bleu, seconds
        [30.0, 90.0],  # the best, but too slow
        [28.0, 60.0],  # the best of those in time
        [27.6, 40.0],
        [20.0, 30.0],
        [29.0, np.nan],  # nobody knows how slow
        [np.nan, 10.0],  # failed
    ]
)


@pytest.fixture
def small() -> Table:
    axis = Hyperparameter("layers", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    metrics = (Metric("bleu", "max", tolerance=0.5), Metric("seconds", "min"))
    return Table("small", (axis,), metrics, np.arange(1.0, 7.0)[:, None], VALUES, ("bleu", "seconds"))


def made(table, scores, **settings):
    suite = Suite("s", scores, constraints=("seconds<=60",), score_at={"default": 2}, n_initial=1, **settings)
    return make_instance(suite, table)


def test_scores_of_feasible_rows_by_hand(small):
    best, close, gap = made(small, ("ftb", "ftc", "fb")).goals
    assert np.flatnonzero(best.targets).tolist() == [1]
    assert np.flatnonzero(close.targets).tolist() == [1, 2]
    # Infeasible rows count as the worst feasible one, a failed training as nothing.
    np.testing.assert_allclose(gap.gaps, [8.0, 0.0, 0.4, 8.0, 8.0, np.nan])
    first, front, count, _ = made(small, ("fto", "fta", "fbp", "fbh")).goals
    assert np.flatnonzero(front.targets).tolist() == [1, 2, 3]
    assert (first.needed, front.needed, count.needed) == (1, 3, 3)
    assert made(small, ("ftb",)).n_feasible == 4


def test_a_constraint_does_not_change_the_tolerance(small):
    untold = replace(small, metrics=(Metric("bleu", "max"), Metric("seconds", "min")))
    free = make_instance(Suite("s", ("ftc",), n_initial=1), untold)
    assert free.tolerance == untold.tolerance("bleu") == pytest.approx(0.05 * 2)
    assert made(untold, ("ftc",)).tolerance == free.tolerance
    sections = analyze_tables([untold], constraints=["seconds<=60"])
    (sensitive,) = [s.analysis for s in sections if s.kind == "sensitivity"]
    assert sensitive.tolerance == free.tolerance
    assert made(small, ("ftc",)).tolerance == 0.5
    assert made(untold, ("ftc",), tolerance={"small": 0.7}).tolerance == 0.7


@pytest.mark.parametrize("scores", [("ftb", "ftc", "fb"), ("fto", "fta", "fbp")])
def test_exact_values_of_random_search_are_those_of_all_orders(small, scores):
    orders = [np.array(order) for order in itertools.permutations(range(6))]
    one = made(small, scores)
    for goal in one.goals:
        found = np.array([score_of(one, goal, Trajectory(order, one.losses[order])) for order in orders])
        np.testing.assert_allclose(exact_random_search(goal, 1), (np.nanmean(found), np.nanstd(found)))


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (("second<=60",), "unknown metric 'second'. Did you mean 'seconds'?"),
        (("seconds<60",), "write METRIC<=NUMBER"),
        (("seconds<=5",), "no row keeps seconds<=5: the nearest has seconds 10"),
        (("bleu>=28", "seconds<=30"), "no row that has all objectives keeps bleu>=28 and seconds<=30"),
        (("seconds<=60", "seconds<=50"), "two bounds of one kind on the same metric"),
    ],
)
def test_constraints_that_make_no_sense(small, constraints, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        make_instance(Suite("s", ("ftb",), constraints=constraints), small)


def test_methods_look_for_what_is_feasible_and_rows_are_the_same_for_any_jobs(toy):
    settings = {
        "trials": 12,
        "constraints": ("seconds<=25",),
        "lookups": 12,
        "score_at": 10,
        "stop": "exhausted",
    }
    methods = ["RS", "BO_EI_M_std", "GB_EIF_M"]
    found = benchmark(toy, methods, **settings)
    again = benchmark(toy, methods, jobs=2, **settings)
    free = benchmark(toy, methods, **{**settings, "constraints": ()})
    feasible = toy.column("seconds") <= 25
    share = {m: np.mean([feasible[t.rows].mean() for t in found.trials["toy", m]]) for m in methods}
    gaps = {m: found.summary("toy", m)[2].mean for m in methods}
    assert share["BO_EI_M_std"] > share["RS"]
    assert gaps["BO_EI_M_std"] < 0.1 * gaps["RS"]
    for method in methods:
        rows = [t.rows.tolist() for t in found.trials["toy", method]]
        assert rows == [t.rows.tolist() for t in again.trials["toy", method]]
        assert (rows == [t.rows.tolist() for t in free.trials["toy", method]]) == (method == "RS")


def test_trials_without_a_feasible_row_are_counted_and_named(toy, tmp_path, run_here, toy_home):
    best = ("--constraint", f"seconds<={np.sort(toy.column('seconds'))[1]}")
    arguments = ("--tables", "toy", "--methods", "RS", "--lookups", 6, "--set", "score_at=5", "--trials", 20)
    shown = run_here(
        "run", "quick", *arguments, "--explain", *best, "--jobs", 1, "--out", tmp_path / "r"
    ).stdout
    results = hb.load_results(tmp_path / "r")
    assert np.isfinite(results.instances["toy"].goals[-1].gaps).all()
    lost = results.without_feasible_row()["toy", "RS"]
    violated = toy.column("seconds") > np.sort(toy.column("seconds"))[1]
    assert lost == sum(violated[t.rows].all() for t in results.trials["toy", "RS"]) > 0
    assert f"RS on toy: {lost} of 20 trials found no feasible row." in shown
    assert ": 2 of 36 rows" in shown
    (run,) = load_runs([tmp_path / "r"])
    assert best[1] in run.goal
    assert f"--constraint '{best[1]}'" in command(run)
    assert score_records(results)
    # The curve of regret counts as fb does, and so does that of random search.
    frame = regret_curves(results, "toy").frame
    goal = results.instances["toy"].goals[-1]
    for method, fb in (
        ("RS", results.scores().set_index("score")["mean"]["fb"]),
        (EXACT, exact_random_search(goal, 3)[0]),
    ):
        own = frame[frame["method"] == method].set_index("lookups")
        assert own.loc[goal.score_at, "mean"] == pytest.approx(fb)
        assert own["mean"].notna().all()


def test_figures_are_of_feasible_rows(toy):
    bound = float(np.median(toy.column("seconds")))
    one = benchmark(toy, ["RS"], trials=5, constraints=(f"seconds<={bound}",), stop="exhausted")
    best = toy.column("bleu")[toy.column("seconds") <= bound].max()
    curve = regret_curves(one, "toy").frame
    assert curve[curve["method"] == "RS"]["best_value"].iloc[-1] == best
    assert target_runtimes(one).targets["toy"][-1].targets.sum() == 1
    two = benchmark(toy, ["RS"], scores=["fta"], trials=5, constraints=("bleu>=18",), stop="exhausted")
    front = two.instances["toy"].goals[0].targets
    assert (toy.column("bleu")[front] >= 18).all()
    moves = moving_front(two, "toy", "RS", [36])
    assert set(moves.front) == set(moves.fronts[-1]) == set(np.flatnonzero(front))
    shares = hypervolume_curves(two, "toy").frame
    assert shares["mean"].max() == pytest.approx(1.0)
    assert (attainment(two, "toy", 36).frame["x"] >= 18).all()


def test_a_folder_is_of_one_set_of_constraints_and_keeps_its_bytes_without(toy_home, run_here, tmp_path):
    run = ("run", "quick", "--tables", "toy", "--methods", "RS", "--trials", 3, "--quiet", "--jobs", 1)
    limit = ("--constraint", "seconds<=40", "--constraint", "bleu>=15")
    run_here(*run, *limit, "--out", tmp_path / "limited")
    assert hb.load_results(tmp_path / "limited").suite.constraints == ("seconds<=40", "bleu>=15")
    refused = run_here(*run, "--out", tmp_path / "limited", check=2).stderr
    assert "has a run with constraints ['seconds<=40', 'bleu>=15'], but this run has []" in refused
    run_here(*run, "--out", tmp_path / "free")
    assert "constraints" not in json.loads((tmp_path / "free" / "manifest.json").read_text())["suite"]
    assert hb.load_results(tmp_path / "free").suite.constraints == ()
    wrong = run_here(*run, "--constraint", "second<=4", "--out", tmp_path / "wrong", check=2)
    assert "Did you mean 'seconds'?" in wrong.stderr
    assert not (tmp_path / "wrong").exists()


def test_the_front_of_rows_that_keep_a_bound(toy_home, toy, tmp_path):
    toy.to_frame().to_csv(tmp_path / "toy.csv", index=False)
    kept = np.flatnonzero(toy.column("memory") <= 1500)
    expected = kept[pareto_front(toy.losses(["bleu", "seconds"])[kept])]
    for source in ("toy", str(tmp_path / "toy.csv")):
        front = pareto(source, ["bleu:max", "seconds:min"], ["memory<=1500"])
        assert sorted(front.rows) == expected.tolist()
        assert (len(front.points), front.kept.sum()) == (36, len(kept))
        for wrong, message in (
            ("memory<=1", "no row that has all objectives keeps memory<=1"),
            ("memry<=1", "memory"),
        ):
            with pytest.raises(InputError, match=message):
                pareto(source, ["bleu:max", "seconds:min"], [wrong])
