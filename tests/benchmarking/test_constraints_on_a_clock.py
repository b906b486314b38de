"""Suites with constraints on a clock: scores, exact values and figures are of feasible rows only."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpobench_nmt.analysis.leaderboard import score_records
from hpobench_nmt.analysis.run_curves import hypervolume_curves, regret_curves
from hpobench_nmt.analysis.run_workers import worker_times
from hpobench_nmt.analysis.runtimes import target_runtimes
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.scoring import exact_score, score_of
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.plots.workers import plot_workers

NAN = np.nan
# bleu at each checkpoint, a second apart, and the seconds that decoding takes
ROWS = [
    ([25.0, 30.0], 90.0),  # the best, but too slow
    ([10.0, 28.0], 60.0),  # the best of those in time
    ([27.6, 27.0], 40.0),
    ([15.0, 20.0], 30.0),
    ([29.0], NAN),  # nobody knows how slow
    ([NAN], 10.0),  # failed
]


@pytest.fixture
def small() -> Table:
    lengths = [len(bleu) for bleu, _ in ROWS]
    values = np.array([[max(bleu), seconds, 3.0 * n] for n, (bleu, seconds) in enumerate(ROWS)])
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    bleu = np.concatenate([bleu for bleu, _ in ROWS])[:, None]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    curves = Curves("update", (Metric("bleu", "max"),), ("best",), starts, steps, steps, bleu, "s")
    axis = Hyperparameter("layers", tuple(np.arange(1.0, 7.0)))
    metrics = (Metric("bleu", "max", tolerance=0.5), Metric("seconds", "min"), Metric("price", "min"))
    return Table("small", (axis,), metrics, np.arange(1.0, 7.0)[:, None], values, ("bleu",), curves=curves)


def trial_of(instance, trained):
    """One worker's trial, of (row, number of checkpoints) one after the other."""
    rows = np.array([row for row, _ in trained])
    starts = instance.trainings.starts[rows]
    ends = starts + [count for _, count in trained] - 1
    costs = instance.trainings.costs[ends]
    finishes = np.cumsum(costs)
    time = Timeline(
        instance.trainings.resources[ends], costs, finishes - costs, finishes, np.zeros(len(rows), np.int32)
    )
    return Trajectory(rows, instance.trainings.best[ends], timing=time)


def test_scores_of_a_trial_by_hand(small):
    def scores(*trained, at=3.0, **changes):
        rules = {"constraints": ("seconds<=60",)} | changes
        suite = Suite("s", ("ftb", "ftc", "fb"), clock="cost", curves=True, n_initial=0,
                      score_at={"default": at}, **rules)  # fmt: skip
        instance = make_instance(suite, small)
        return [score_of(instance, goal, trial_of(instance, trained)) for goal in instance.goals]

    trained = [(0, 2), (4, 1), (3, 1), (2, 1), (1, 2)]  # they finish at 2, 3, 4, 5 and 7 s
    # After 3 s nothing feasible: that counts as 10 BLEU, the worst checkpoint of a feasible row.
    np.testing.assert_allclose(scores(*trained), [7.0, 5.0, 28.0 - 10.0])
    np.testing.assert_allclose(scores(*trained, at=4.0), [7.0, 5.0, 28.0 - 15.0])
    np.testing.assert_allclose(scores(*trained, at=5.0), [7.0, 5.0, 28.0 - 27.6])
    np.testing.assert_allclose(scores(*trained, constraints=()), [2.0, 2.0, 0.0])
    # The first checkpoint of row 1 is not good enough, and a failed training is no row.
    np.testing.assert_allclose(scores((1, 1), (5, 1), (2, 1)), [NAN, 3.0, 28.0 - 27.6])
    np.testing.assert_allclose(scores((5, 1), (0, 2), at=1.0), [NAN, NAN, NAN])
    np.testing.assert_allclose(scores((5, 1), (0, 2), at=1.0, constraints=("seconds>=20",)), [3.0, 3.0, NAN])


def test_what_is_not_feasible_is_as_bad_as_the_worst_that_is(small):
    for rules, worst in (({}, 2.4), ({"cost": "price"}, 2.4), ({"curves": True, "n_initial": 0}, 20.0)):
        suite = Suite("s", ("fb",), score_at={"default": 4}, constraints=("seconds>=35",), workers=2,
                      clock="cost" if rules else "lookups", **{"n_initial": 1} | rules)  # fmt: skip
        (goal,) = make_instance(suite, small).goals
        np.testing.assert_allclose(goal.gaps, [0.0, 2.0, 2.4, worst, worst, NAN])


@pytest.mark.parametrize("n_initial", [1, 3])
def test_exact_values_of_random_search_are_those_of_all_orders(small, n_initial):
    suite = Suite("s", ("ftb", "ftc"), clock="cost", cost="price", n_initial=n_initial,
                  constraints=("seconds<=60",))  # fmt: skip
    instance = make_instance(suite, small)
    trials = [trial_of(instance, [(row, 1) for row in order]) for order in itertools.permutations(range(6))]
    for goal in instance.goals:
        found = np.array([score_of(instance, goal, trial) for trial in trials])
        mean, std = exact_score(instance, goal)
        np.testing.assert_allclose(mean, found.mean())
        assert n_initial > 1 or np.isclose(std, found.std())


@pytest.mark.parametrize("scores", [("ftb", "ftc", "fb"), ("fto", "fta", "fbp", "fbh")])
def test_two_workers_on_look_ups_have_the_scores_of_one_after_twice_as_many(toy, scores):
    rules = {"constraints": ("seconds<=25",), "tolerance": {"default": 3.0}, "n_initial": 1}
    one = make_instance(Suite("s", scores, score_at={"default": 8}, **rules), toy)
    two = make_instance(Suite("s", scores, score_at={"default": 4}, workers=2, **rules), toy)
    rng, found = np.random.default_rng(5), set()
    for _ in range(40):
        rows = rng.permutation(36)
        finishes = np.arange(36) // 2 + 1.0
        time = Timeline(np.ones(36), np.ones(36), finishes - 1, finishes, np.arange(36, dtype=np.int32) % 2)
        for goal, other in zip(one.goals, two.goals, strict=True):
            alone = score_of(one, goal, Trajectory(rows, one.losses[rows]))
            both = score_of(two, other, Trajectory(rows, two.losses[rows], timing=time))
            assert both == pytest.approx(alone if goal.score_at else np.ceil(alone / 2)), goal.name
            found.add((goal.name, round(both, 3)))
    assert len(found) > 5 * len(scores)


KINDS = {
    "curves": {"clock": "cost", "curves": True, "n_initial": 0},
    "restarted": {"clock": "cost", "curves": True, "n_initial": 0, "resume": False},
    "cost": {"clock": "cost", "cost": "seconds"},
    "workers": {},
}
# BO_EI_M_std and its like model what is constrained, so that they take other rows even if all are feasible.
NOT_MODELLED = [
    "RS",
    "ASHA",
    "ASHA_stop",
    "Hyperband",
    "median_stop",
    "BO_levels",
    "GB_EIF_M",
    "BO_EIpC_M_std",
]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    workers=st.integers(2, 5),
    seed=st.integers(0, 99),
    method=st.sampled_from(NOT_MODELLED),
)
def test_a_bound_that_excludes_nothing_changes_nothing(curved, kind, workers, seed, method):
    rules = KINDS[kind] | {"workers": workers, "scores": ("ftb", "fb"), "score_at": 6, "trials": 2}
    bound = (f"seconds<={curved.column('seconds').max()}",)
    free, kept = (
        benchmark(curved, [method], seed=seed, **rules, constraints=constraints)
        for constraints in ((), bound)
    )
    for one, other in zip(free.trials["toy", method], kept.trials["toy", method], strict=True):
        assert one.failure == other.failure == ""
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_array_equal(one.losses, other.losses)
        np.testing.assert_array_equal(one.timing.finishes, other.timing.finishes)
    assert free.scores().equals(kept.scores())


LIMIT = 25.0
RULES = {"constraints": (f"seconds<={LIMIT}",), "workers": 3}


def test_what_cannot_be_deployed_is_not_trained_on(curved):
    methods = ["ASHA", "ASHA_stop", "Hyperband", "median_stop"]
    found = benchmark(curved, methods, trials=4, stop="exhausted", **KINDS["curves"], **RULES)
    assert found.failures() == []
    instance = found.instances["toy"]
    feasible = (instance.violations <= 0).all(axis=1)
    assert 5 < feasible.sum() < 20
    for method in methods:
        for trial in found.trials["toy", method]:
            begun, first = np.unique(trial.rows, return_index=True)
            new = np.isin(np.arange(len(trial.rows)), first)
            assert len(begun) == 33
            # As long as there are new rows, what violates is trained to where it was begun, and no further.
            again = np.flatnonzero(~new)
            last_start = trial.timing.starts[first].max()
            early = again[trial.timing.starts[again] < last_start]
            assert len(early), method
            assert feasible[trial.candidates[early]].all(), method


def test_what_models_the_constraint_finds_more_that_is_feasible(curved):
    methods = ["RS", "BO_EI_M_std"]
    for kind in ("cost", "workers"):
        found = benchmark(curved, methods, trials=20, lookups=12, stop="exhausted", scores=("ftb",),
                             **KINDS[kind], **RULES)  # fmt: skip
        assert found.failures() == []
        feasible = (found.instances["toy"].violations <= 0).all(axis=1)
        rows = {m: [t.candidates for t in found.trials["toy", m]] for m in methods}
        share = {m: np.mean([feasible[own].mean() for own in rows[m]]) for m in methods}
        assert share["BO_EI_M_std"] > share["RS"] + 0.05


def test_figures_are_of_feasible_rows(curved):
    one = benchmark(curved, ["RS", "ASHA"], trials=6, stop="exhausted", **KINDS["curves"], **RULES)
    instance = one.instances["toy"]
    feasible = (instance.violations <= 0).all(axis=1)
    best = instance.losses[feasible, 0].min()
    assert best > instance.losses[:, 0].min()
    frame = regret_curves(one, "toy").frame
    for method in ("RS", "ASHA"):
        own = frame[frame["method"] == method]
        assert own["best_value"].iloc[-1] == pytest.approx(-best)
        # At any time, the mean is that of fb, before anything feasible is found, too.
        assert own["mean"].notna().sum() > 100
        goal = make_goal("fb", instance.scored_trainings, score_at=1.0)
        for time, mean in zip(own["lookups"][::7], own["mean"][::7], strict=True):
            at = replace(goal, score_at=time)
            scores = [score_of(instance, at, trial) for trial in one.trials["toy", method]]
            np.testing.assert_allclose(mean, np.mean(scores))  # both NaN until each has a training
        begins = int(own["mean"].notna().to_numpy().argmax())
        time = own["lookups"].iloc[begins]
        by_then = [t.candidates[t.timing.finishes <= time] for t in one.trials["toy", method]]
        assert not all(feasible[rows].any() for rows in by_then)
    targets = target_runtimes(one)
    assert targets.targets["toy"][0].targets.sum() <= feasible.sum()
    hardest = targets.found["toy", "ASHA"].times[:, -1]
    np.testing.assert_allclose(
        hardest, [score_of(instance, instance.goals[0], t) for t in one.trials["toy", "ASHA"]]
    )
    times = worker_times(one, "toy", "ASHA")
    assert feasible[np.searchsorted(instance.numbers, times.frame.loc[times.frame["best"], "row"])].all()
    shown = feasible[np.searchsorted(instance.numbers, times.frame["row"])]
    assert (times.frame["value"].notna() == shown).all()
    assert not shown.all()
    labels = [text.get_text() for text in plot_workers(times).legends[0].get_texts()]
    assert "failed, or misses seconds<=25" in labels
    assert score_records(one)
    two = benchmark(
        curved,
        ["RS"],
        scores=("fta",),
        trials=5,
        stop="exhausted",
        objectives=("bleu", "seconds"),
        clock="cost",
        cost="memory",
        workers=3,
        constraints=("bleu>=18",),
    )
    goal = two.instances["toy"].goals[0]
    assert (curved.column("bleu")[goal.targets] >= 18).all()
    shares = hypervolume_curves(two, "toy").frame
    assert shares["mean"].max() == pytest.approx(1.0)
    kept = curved.column("bleu") >= 18
    assert (np.flatnonzero(goal.targets) == np.flatnonzero(kept)[
        pareto_front(curved.losses(["bleu", "seconds"])[kept])
    ]).all()  # fmt: skip


def test_trials_without_a_feasible_row_are_counted(curved):
    bound = np.sort(curved.column("seconds"))[1]
    rules = KINDS["cost"] | {"workers": 2, "constraints": (f"seconds<={bound}",)}
    found = benchmark(curved, ["RS"], trials=20, lookups=6, scores=("ftb", "fb"), score_at=40, **rules)
    lost = found.without_feasible_row()["toy", "RS"]
    violated = curved.column("seconds") > bound
    assert 0 < lost == sum(violated[t.candidates].all() for t in found.trials["toy", "RS"]) < 20
    assert found.summary("toy", "RS")[0].unanswered >= lost
