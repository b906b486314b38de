"""Methods that stop trainings early, against Optuna's pruners and naive twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from twins.halving import NaiveASHA, NaiveBrackets
from twins.made import curves

from hpobench_nmt.core.problem import Problem, Progress
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.early.median_stopping import STARTUP, MedianStopping, _running_averages
from hpobench_nmt.methods.early.partial_training import training_levels
from hpobench_nmt.methods.early.successive_halving import ASHA, ASHAStopping, Hyperband, SuccessiveHalving
from hpobench_nmt.methods.random_search import RandomSearch
from hpobench_nmt.testing import PARALLEL_CHECKS

METHODS = [ASHA, ASHAStopping, SuccessiveHalving, Hyperband, MedianStopping]


def test_all_of_them_can_be_named():
    assert {method.load() for method in BUILT_IN.values() if method.partial} >= set(METHODS)


def problem_of(given, workers=4, **options):
    n_rows = len(given)
    rules = {"resources": np.unique(given.resources), "resume": given.resume, "lookups": n_rows} | options
    lookups = rules.pop("lookups")
    return Problem(np.zeros((n_rows, 1)), 1, lookups, 0, workers=workers, clock="cost", **rules)


def run(method, given, workers=4, seed=0, initial=(), **options):
    problem = problem_of(given, workers, **options)
    return run_trial(problem, given, method, np.random.default_rng(seed), initial)


def test_levels():
    def of(*resources, eta=3):
        return training_levels(Problem(np.zeros((2, 1)), 1, 2, 0, resources=np.array(resources)), eta)

    assert of(1.0, 27.0) == [1.0, 3.0, 9.0, math.inf]
    assert of(2.0, 28.0, eta=2) == [2.0, 4.0, 8.0, 16.0, math.inf]
    assert of(1.0) == [math.inf]
    assert of(5.0, 6.0, eta=math.inf) == [5.0, math.inf]
    assert of(0.0, 1.0, 27.0) == of(1.0, 27.0)  # evaluated before the first update, too
    assert of(0.0) == [math.inf]
    tenths = of(*(k / 10 for k in range(1, 28)))  # 0.1 * 3 is 0.30000000000000004
    assert tenths == [0.1, 0.3, 0.9, math.inf]
    assert of(*(k / 7 for k in range(1, 82))) == [1 / 7, 3 / 7, 9 / 7, 27 / 7, math.inf]
    for eta in (1, 0, -3, math.nan):
        with pytest.raises(InputError, match=f"eta must be above 1, not {eta}"):
            of(1.0, 27.0, eta=eta)


@pytest.mark.parametrize("method", [*METHODS, RandomSearch])
@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
def test_conformance(method, check):
    check(method)


@pytest.mark.parametrize("method", METHODS)
def test_curves_that_begin_before_the_first_update(method):
    steps, losses = np.tile([0.0, 1.0, 2.0, 3.0], 9), np.random.default_rng(0).random((36, 1))
    trial = run(method, Trainings(np.arange(10) * 4, steps, steps, losses))
    assert trial.failure == "" and set(trial.rows.tolist()) == set(range(9))
    assert (trial.timeline.resources > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_on_rows_that_can_only_be_looked_up_whole_they_take_them_all(method):
    plain = Trainings.whole(np.arange(9.0)[:, None], np.arange(1.0, 10))
    assert sorted(run(method, plain, 4).rows.tolist()) == list(range(9))


@pytest.mark.parametrize("method", METHODS)
def test_good_rows_are_found_sooner_than_by_training_all_to_their_end(method):
    given = curves(4, n_rows=100)
    final = given.best[given.starts[1:] - 1, 0]
    target = final.min() + 0.05

    def time_until(trial):
        found = np.flatnonzero(trial.losses[:, 0] <= target)
        return trial.timeline.finishes[found[0]]

    ours, theirs = (
        np.mean([time_until(run(m, given, seed=seed)) for seed in range(15)]) for m in (method, RandomSearch)
    )
    assert ours < 0.8 * theirs


# --- ASHA ------------------------------------------------------------------------------------------


def test_asha_looks_from_the_top_again_when_an_ended_training_moves_up():
    """The row may complete a share of the level above, from which another one is then promoted."""
    for seed in range(12):
        given = curves(seed, n_rows=40, shortest=1)
        ours, naive = run(ASHA, given, 3, seed), run(NaiveASHA, given, 3, seed)
        assert ours.rows.tolist() == naive.rows.tolist()
        assert ours.timeline.finishes.tolist() == naive.timeline.finishes.tolist()


def test_asha_looks_below_a_level_where_only_rows_without_a_loss_wait():
    problem = Problem(np.zeros((9, 1)), 1, 9, 0, resources=np.array([1.0, 3.0, 9.0, 27.0]), clock="cost")
    method = ASHA(problem, np.random.default_rng(0))

    def observe(row, loss, resource):
        steps, losses = np.array([resource]), np.array([[loss]])
        method.observe(Progress(row, steps, steps, losses, losses[-1], False, 0.0))

    for row in (0, 1, 2):
        observe(row, math.nan, 9.0)  # at three levels, the first loss to come
    for row, loss in enumerate([0.4, 0.3, 0.5], start=3):
        observe(row, loss, 3.0)
    for row, loss in enumerate([0.7, 0.1, 0.9], start=6):
        observe(row, loss, 1.0)
    # At 9, one of three could be promoted, but has no loss. At 3, two of six are.
    assert method.suggest({}) == (4, 9.0)


@pytest.mark.parametrize(
    ("workers", "uneven", "ties"), [(1, False, False), (4, True, False), (9, True, True)]
)
def test_asha_promotes_what_the_algorithm_says(workers, uneven, ties):
    for seed in range(4):
        given = curves(seed, n_rows=50, uneven=uneven, failing=0.1, ties=ties, resume=seed % 2 == 0)
        options = {"lookups": 50 if seed else 30}
        ours = run(ASHA, given, workers, seed, **options)
        naive = run(NaiveASHA, given, workers, seed, **options)
        assert ours.failure == naive.failure == ""
        assert ours.rows.tolist() == naive.rows.tolist()
        assert ours.timeline.resources.tolist() == naive.timeline.resources.tolist()
        assert ours.timeline.finishes.tolist() == naive.timeline.finishes.tolist()


@pytest.mark.parametrize("eta", [2, 3, 4])
def test_asha_by_stopping_decides_as_optunas_pruner_does(eta):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for seed in range(3):
        given = curves(seed, n_rows=40, uneven=False, longest=32)
        decided = []

        class Noting(ASHAStopping):
            def observe(self, progress, decided=decided):
                super().observe(progress)
                if not progress.done:
                    step, goes_on = int(progress.resources[-1]), progress.row in self._going
                    decided.append((progress.row, step, progress.best[0], goes_on))

        def make(problem, rng, made=Noting):
            return made(problem, rng, eta)

        assert run(make, given, workers=6, seed=seed).failure == ""
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=eta)
        study = optuna.create_study(pruner=pruner)
        trials, stopped = {}, set()
        for row, step, loss, goes_on in decided:
            if row in stopped:
                break  # no new row is left; a training that Optuna has ended goes on here
            trial = trials.setdefault(row, None) or study.ask()
            trials[row] = trial
            trial.report(loss, step)
            assert trial.should_prune() != goes_on
            if not goes_on:
                stopped.add(row)
        assert len(trials) >= 30
        assert 0 < len(stopped) < len(trials)


@pytest.mark.parametrize("eta", [2, 3])
def test_asha_by_stopping_where_trainings_end_early_fail_and_tie(eta):
    """Each decision from the losses that had come to the same level until then, as the algorithm says."""
    for seed in range(4):
        given = curves(seed, n_rows=50, failing=0.2, ties=True)
        levels = training_levels(problem_of(given), eta)
        at_level, reached, decided = [[] for _ in levels], {}, []

        class Noting(ASHAStopping):
            def observe(self, progress, levels=levels, at_level=at_level, reached=reached, decided=decided):
                super().observe(progress)
                loss = progress.best[0] if progress.best[0] == progress.best[0] else math.inf
                now = sum(level <= progress.resources[-1] for level in levels)
                expected = not progress.done
                if progress.done:
                    now = max(now, reached.get(progress.row, 0) + 1)
                for losses in at_level[reached.get(progress.row, 0) : now]:
                    losses.append(loss)
                    expected &= loss <= sorted(losses)[max(len(losses) // eta, 1) - 1]
                reached[progress.row] = now
                decided.append((progress.row in self._going, expected))

        assert (
            run(lambda p, r, made=Noting, eta=eta: made(p, r, eta), given, workers=5, seed=seed).failure == ""
        )
        assert all(ours == expected for ours, expected in decided)
        assert 10 < sum(ours for ours, _ in decided) < len(decided) - 50


# --- synchronous -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "sizes"), [(SuccessiveHalving, [(0, 27)]), (Hyperband, [(0, 27), (1, 12), (2, 6), (3, 4)])]
)
@pytest.mark.parametrize(("workers", "initial"), [(1, ()), (5, (3, 7))])
def test_brackets_as_a_naive_twin_has_them(method, sizes, workers, initial):
    """Brackets that cannot be filled, trainings that end early or fail, and ties."""
    for seed in range(3):
        given = curves(seed, n_rows=70, failing=0.15, ties=seed > 0, resume=seed != 1)
        trials = [
            run(make, given, workers, seed, initial, lookups=70 if seed else 50)
            for make in (method, lambda problem, rng: NaiveBrackets(problem, rng, sizes))
        ]
        ours, naive = trials
        assert ours.failure == naive.failure == ""
        assert ours.rows.tolist() == naive.rows.tolist()
        assert ours.timeline.resources.tolist() == naive.timeline.resources.tolist()
        assert ours.timeline.finishes.tolist() == naive.timeline.finishes.tolist()


@pytest.mark.parametrize("method", [SuccessiveHalving, Hyperband])
@pytest.mark.parametrize("workers", [1, 4])
def test_brackets_keep_the_best_of_each_level(method, workers):
    """The brackets of the papers' tables, computed from whole curves without any loop."""
    given = curves(5, n_rows=120, uneven=False)
    order = np.random.default_rng(0).permutation(120)[::-1].tolist()
    levels = [1.0, 3.0, 9.0, math.inf]
    sizes = [(0, 27)] if method is SuccessiveHalving else [(0, 27), (1, 12), (2, 6), (3, 4)]
    expected = {}
    for first, size in sizes:
        rows, order = order[:size], order[size:]
        for level in range(first, 4):
            asked = min(levels[level], 27.0)
            for row in rows:
                expected.setdefault(row, []).append(asked)
            place = int(asked) - 1
            rows = sorted(rows, key=lambda row: given.best[given.starts[row] + place, 0])
            rows = rows[: max(len(rows) // 3, 1)]
    trial = run(method, given, workers)
    asked_for = {}
    for row, resource in zip(trial.rows.tolist(), trial.timeline.resources.tolist(), strict=True):
        if len(asked_for) <= sum(size for _, size in sizes):
            asked_for.setdefault(row, []).append(resource)
    for row, resources in expected.items():
        assert asked_for[row][: len(resources)] == resources
    stopped = [row for row, resources in expected.items() if resources[-1] < 27.0]
    assert len(stopped) > len(expected) / 2


def test_hyperbands_sizes_are_those_of_the_paper():
    """Li et al. 2018, Table 1: R = 81, eta = 3, but with the end of a training as the last level."""
    given = curves(6, n_rows=300, longest=81, uneven=False)
    made = Hyperband(problem_of(given), np.random.default_rng(0))
    assert made._sizes(4, 3) == [(0, 81), (1, 34), (2, 15), (3, 8), (4, 5)]


# --- the median ------------------------------------------------------------------------------------


def test_the_median_rule_stops_what_its_definition_says():
    given = curves(7, n_rows=50, failing=0.1)
    curve_of = [given.losses[a:b, 0] for a, b in zip(given.starts[:-1], given.starts[1:], strict=True)]
    events = []

    class Noting(MedianStopping):
        def observe(self, progress):
            super().observe(progress)
            events.append((progress.row, len(progress.losses), progress.done, progress.row in self._going))

    run(Noting, given, time=600.0)
    assert STARTUP == 5
    ended, stopped = [], 0
    for row, at, done, goes_on in events:
        if done:
            ended.append(row)
            assert not goes_on
            continue
        best = np.nanmin(curve_of[row][:at])
        averages = [np.mean(curve_of[other][: min(at, len(curve_of[other]))]) for other in ended]
        averages = [math.inf if np.isnan(average) else average for average in averages]
        stops = len(ended) >= STARTUP and best > np.median(averages)
        assert goes_on != stops
        stopped += stops
    assert stopped > 5


def test_running_averages_are_infinite_from_a_missing_loss_on():
    assert _running_averages(np.array([1.0, 3.0, np.nan, 2.0])).tolist() == [1.0, 2.0, np.inf, np.inf]
