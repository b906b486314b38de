"""Suites on a clock: the candidates, what the clock counts, what is kept of a trial, and exact scores."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.observations import read_trials, to_parquet
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.clock import (
    Clock,
    own_objectives,
    rows_with_curve,
    with_metrics_of_curves,
)
from hpobench_nmt.benchmarking.task.instance import make_instance, suite_instances
from hpobench_nmt.benchmarking.task.scoring import exact_score, score_of
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Timeline
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder

SETTINGS = {"clock": "cost", "curves": True, "n_initial": 0, "scores": ("ftb", "ftc")}
SUITE = Suite("s", **SETTINGS)
WITHOUT_CURVE = [0, 7, 20]


def test_the_rows_that_have_a_curve_are_the_candidates(curved):
    instance = make_instance(SUITE, curved)
    rows = np.setdiff1d(np.arange(36), WITHOUT_CURVE)
    assert instance.numbers.tolist() == rows.tolist()
    np.testing.assert_array_equal(instance.problem.configs, curved.configs[rows])
    np.testing.assert_allclose(instance.losses[:, 0], -curved.column("bleu")[rows])
    assert instance.problem.resources.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert instance.left_out == "3 of the 36 rows of table 'toy': no learning curve"
    assert (instance.installed, instance.time_unit) == (curved, "s")
    whole = make_instance(Suite("s", ("fto",), clock="cost"), curved)
    np.testing.assert_array_equal(whole.losses, curved.losses(["bleu", "seconds"])[rows])
    ends = curved.curves.starts[1:][rows] - 1
    np.testing.assert_array_equal(whole.trainings.costs, curved.curves.costs[ends])
    named = make_instance(Suite("s", ("ftb",), clock="cost", cost="seconds"), curved)
    np.testing.assert_array_equal(named.trainings.costs, curved.column("seconds"))
    assert (named.numbers, named.time_unit, named.left_out) == (None, "s", "")


def test_an_objective_may_be_a_metric_that_only_the_curves_have(curved, home, tmp_path):
    curves = curved.curves
    sample = np.random.default_rng(0).random(len(curves.values)) - 5
    sample[curves.starts[4] - 1] = np.nan
    more = dataclasses.replace(
        curves,
        metrics=(*curves.metrics, hb.Metric("sample", "min")),
        own=(*curves.own, None),
        values=np.column_stack([curves.values, sample]),
    )
    table = dataclasses.replace(curved, curves=more)
    save_folder(table, home / "tables" / "toy")
    found = benchmark("toy", ["ASHA"], trials=2, workers=2, objectives=("sample:min",), **SETTINGS)
    instance = found.instances["toy"]
    expected = [np.nanmin(sample[curves.starts[row] : curves.starts[row + 1]]) for row in instance.numbers]
    np.testing.assert_array_equal(instance.losses[:, 0], expected)
    assert instance.installed.sha256 == table.sha256
    assert len(instance.numbers) == 33
    trials = found.trials["toy", "ASHA"]
    (tmp_path / "f").write_bytes(to_parquet("toy", "ASHA", 0, trials))
    again = read_trials(
        tmp_path / "f", 0, 2, "ASHA", make_instance(found.suite, load_folder(home / "tables/toy"))
    )
    for one, other in zip(trials, again, strict=True):
        np.testing.assert_array_equal(one.losses, other.losses)
    every = dataclasses.replace(table, configs=table.configs[instance.numbers],
                                values=table.values[instance.numbers],
                                curves=more.of_rows(instance.numbers))  # fmt: skip
    whole = make_instance(found.suite, every)
    assert (whole.left_out, whole.installed, len(whole.numbers)) == ("", every, 33)
    for wrong in ("sampl", "sampl:min"):
        with pytest.raises(
            InputError, match=r"'sampl'\. Did you mean 'sample'\? \(table 'toy' and its learn"
        ):
            make_instance(changed(found.suite, objectives=(wrong,)), table)
    with pytest.raises(InputError, match="unknown metric 'sample'"):  # whole trainings have no such metric
        make_instance(Suite("s", ("ftb",), clock="cost", objectives=("sample",)), table)


@pytest.mark.parametrize(
    ("curves", "objectives", "found"),
    [
        (False, ("seconds", "bleu", "memory"), ("seconds", "bleu")),
        (True, ("seconds", "bleu:max", "memory"), ("bleu:max", "seconds")),  # bleu is in the curves
        (True, ("seconds",), ("bleu", "seconds")),
        (True, ("seconds", "memory"), ("bleu", "seconds")),
        (True, ("bleu",), ("bleu",)),
    ],
)
def test_of_a_tables_own_objectives_the_first_is_in_the_curves(curved, curves, objectives, found):
    table = dataclasses.replace(curved, objectives=objectives)
    two = Suite("s", ("fto",), clock="cost", curves=curves)
    assert own_objectives(two, table) == found
    assert own_objectives(changed(two, scores=("ftb",)), table) == found[:1]
    if curves:  # a metric that only the curves have is no objective of the table's own
        of_curves = dataclasses.replace(table.curves, metrics=(hb.Metric("sample", "min"),), own=(None,))
        assert own_objectives(two, dataclasses.replace(table, curves=of_curves)) == ()
        # What checkpoints measure in another way stands for the table's metric, and never beside it.
        renamed = hb.Metric("bleu_at_checkpoints", "max")
        other = dataclasses.replace(
            table, curves=dataclasses.replace(table.curves, metrics=(renamed,), own=(None,))
        )
        stand_ins = tuple(spec.replace("bleu:max", "bleu") for spec in found)
        stand_ins = tuple(spec.replace("bleu", "bleu_at_checkpoints") for spec in stand_ins)
        assert own_objectives(two, other) == stand_ins
        instance = make_instance(changed(two, scores=("ftb",)), other)
        assert [each.metric for each in instance.objectives] == ["bleu_at_checkpoints"]
        np.testing.assert_array_equal(
            instance.losses, make_instance(changed(two, scores=("ftb",)), table).losses
        )


def test_a_curve_may_have_one_checkpoint(curved):
    bounds = curved.curves.starts
    lengths = np.minimum(np.diff(bounds), 1)
    firsts = bounds[:-1][lengths > 0]
    curves = dataclasses.replace(
        curved.curves,
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        resources=curved.curves.resources[firsts],
        costs=curved.curves.costs[firsts],
        values=curved.curves.values[firsts],
        own=(None,),
    )
    rows = rows_with_curve(dataclasses.replace(curved, curves=curves))
    assert rows.tolist() == np.setdiff1d(np.arange(36), WITHOUT_CURVE).tolist()


def test_replicates_do_not_have_the_metrics_that_only_curves_have(curved, again):
    every = curved.curves.of_rows(rows := rows_with_curve(curved))
    more = dataclasses.replace(every, metrics=(hb.Metric("sample", "min"),), own=(None,))
    table = dataclasses.replace(curved, configs=curved.configs[rows], values=curved.values[rows], curves=more)
    table = table.with_replicates(again(table, [0, 1]))
    assert with_metrics_of_curves(table, ["bleu"]).replicates is not None
    assert with_metrics_of_curves(table, ["sample"]).replicates is None


def test_what_the_clock_counts(curved):
    def unit_of(suite, table):
        return Clock.of(suite, table, [table.objective("bleu")]).unit

    curved = make_instance(SUITE, curved).table  # the rows that have a curve
    assert unit_of(Suite("s", ("ftb",)), curved) == "look-ups"
    assert unit_of(Suite("s", ("ftb",), workers=2), curved) == "look-ups per worker"
    cost = Suite("s", ("ftb",), clock="cost")
    bare = dataclasses.replace(
        curved,
        curves=dataclasses.replace(curved.curves, cost_unit=""),
        metrics=(curved.metrics[0], hb.Metric("seconds", "min"), curved.metrics[2]),
    )
    assert [unit_of(cost, table) for table in (curved, bare)] == ["s", "cost"]
    named = changed(cost, cost="seconds")
    assert [unit_of(named, table) for table in (curved, bare)] == ["s", "seconds"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clock": "lookups"}, 'curves needs clock = "cost"'),
        (
            {"curves": False, "clock": "lookups", "cost": "seconds", "n_initial": 3},
            'cost needs clock = "cost"',
        ),
        ({"cost": "seconds"}, "curves have their own cost"),
        ({"curves": False}, "n_initial must be at least 1, not 0"),
        ({"curves": False, "n_initial": 3, "resume": False}, "resume = false needs curves"),
        ({"clock": "hours"}, "clock must be 'cost' or 'lookups'"),
        ({"workers": 0}, "workers must be a whole number of 1 or more"),
        ({"time": {"toy": -1.0}}, "time.toy must be a finite number above 0"),
        ({"score_at": {"toy": float("nan")}}, "score_at.toy must be a finite number above 0"),
        ({"workers": 34}, "has 33 rows, fewer than the 34 workers"),
        ({"objectives": ("seconds",)}, "table 'toy': its learning curves lack 'seconds'"),
        ({"curves": False, "n_initial": 3, "cost": "bleus"}, "unknown metric 'bleus'. Did you mean 'bleu'?"),
        (
            {"scores": ("fb",), "score_at": {"toy": 9.5}, "time": {"toy": 9}},
            "measured at time 9.5, but a trial ends at 9",
        ),
        ({"scores": ("fb",)}, "needs score_at, a time on the clock"),
        ({"constraints": ("seconds<=1",)}, "no row keeps seconds<=1: the nearest has seconds "),
    ],
)
def test_what_makes_no_sense_is_refused(curved, changes, message):
    with pytest.raises(InputError) as error:
        make_instance(changed(SUITE, **changes), curved)
    assert message in str(error.value)


def test_a_table_without_curves_or_with_costs_that_are_none_is_refused(toy, curved):
    with pytest.raises(InputError, match="table 'toy' has no learning curves"):
        make_instance(SUITE, toy)
    free = dataclasses.replace(toy, values=np.where(np.arange(3) == 1, 0.0, toy.values))
    with pytest.raises(InputError, match="every row costs 0, so time would not pass"):
        make_instance(Suite("s", ("ftb",), clock="cost", cost="seconds"), free)
    values = toy.values.copy()
    values[5, 1] = np.nan
    with pytest.raises(InputError, match="row 5: seconds is nan, which is not a cost"):
        make_instance(
            Suite("s", ("ftb",), clock="cost", cost="seconds"), dataclasses.replace(toy, values=values)
        )


def test_trials_come_back_from_a_file_with_their_times_and_the_tables_own_row_numbers(curved, tmp_path):
    results = benchmark(curved, ["ASHA", "RS"], trials=3, workers=4, stop="exhausted", **SETTINGS)
    instance, path = results.instances["toy"], tmp_path / "f.parquet"
    for method in ("ASHA", "RS"):
        trials = results.trials["toy", method]
        path.write_bytes(to_parquet("toy", method, 0, trials))
        found = read_trials(path, 0, 3, method, instance)
        for one, other in zip(trials, found, strict=True):
            np.testing.assert_array_equal(one.rows, other.rows)
            np.testing.assert_array_equal(one.losses, other.losses)
            for name in ("resources", "costs", "starts", "finishes", "workers"):
                np.testing.assert_array_equal(getattr(one.timing, name), getattr(other.timing, name))
        frame = pq.read_table(path).to_pandas()
        assert list(frame.columns)[-5:] == ["resource", "cost", "start", "finish", "worker"]
        assert not set(frame["row"]) & set(WITHOUT_CURVE)
        for row, loss, resource in frame[["row", "loss_1", "resource"]].itertuples(index=False):
            assert loss == -curved.curve(row).values[: int(resource), 0].max()


@pytest.mark.parametrize("read", [False, True])
def test_the_rows_of_trials_are_those_of_the_table_as_it_is_loaded(curved, home, tmp_path, read):
    save_folder(curved, home / "tables" / "toy")
    suite = Suite("s", tables=("toy",), methods=("RS", "ASHA"), trials=3, workers=2, **SETTINGS)
    instances = suite_instances(suite)
    results = run_suite(suite, instances, resolve_methods(suite.methods), folder=tmp_path / "r")
    if read:
        results = load_results(tmp_path / "r")
    table, instance = hb.load_table("toy"), results.instances["toy"]
    for method in ("RS", "ASHA"):
        path = tmp_path / "r" / "observations" / "toy" / f"{method}.parquet"
        frame = pq.read_table(path, columns=["trial", "row"]).to_pandas()
        trials = results.trials["toy", method]
        for number, trial in enumerate(trials):
            assert trial.rows.tolist() == frame.loc[frame["trial"] == number, "row"].tolist()
            assert not np.isin(trial.rows, WITHOUT_CURVE).any()
            assert (trial.rows != trial.candidates).any()
            for row, candidate in zip(trial.rows.tolist(), trial.candidates.tolist(), strict=True):
                assert table.config(row) == instance.problem.config(candidate)
            whole = trial.timing.resources == table.curves.lengths[trial.rows]
            np.testing.assert_array_equal(
                trial.losses[whole, 0],
                [-table.curve(row).values[:, 0].max() for row in trial.rows[whole].tolist()],
            )
            # Scored by hand from the table as it is loaded: when the best row's best checkpoint was met.
            best = np.nanmax(table.curves.values[:, 0])
            met = trial.timing.finishes[trial.losses[:, 0] == -best]
            expected = np.append(met, np.nan)[0]
            np.testing.assert_equal(score_of(instance, instance.goals[0], trial), expected)
        assert [t.rows.tolist() for t in trials.part(1, 3)] == [t.rows.tolist() for t in trials[1:]]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("resources", lambda x: x + 0.5, "are not those of table"),
        ("resources", lambda x: np.where(np.arange(len(x)) == 3, np.nan, x), "a time in it is missing"),
        ("costs", lambda x: x + 1, "a cost in it is not that of table 'toy'"),
        ("starts", lambda x: x - 1, "do not finish when they should"),
        ("workers", lambda x: x + 1, "workers are not numbered from 0 to 2"),
        ("workers", lambda x: x * 0, "a worker in it trains two rows at a time"),
        ("losses", lambda x: x + 1, "are not those of table"),
    ],
)
def test_times_that_cannot_be_are_refused(curved, tmp_path, name, change, message):
    results = benchmark(curved, ["ASHA"], trials=2, workers=3, **SETTINGS)
    instance, trials = results.instances["toy"], results.trials["toy", "ASHA"]
    if name == "losses":
        wrong = dataclasses.replace(trials, losses=change(trials.losses))
    else:
        timing = dataclasses.replace(trials.timing, **{name: change(getattr(trials.timing, name))})
        wrong = dataclasses.replace(trials, timing=timing)
    path = tmp_path / "f.parquet"
    path.write_bytes(to_parquet("toy", "ASHA", 0, wrong))
    with pytest.raises(InputError) as error:
        read_trials(path, 0, 2, "ASHA", instance)
    assert message in str(error.value)


def test_trainings_out_of_order_or_done_twice_are_refused(curved, tmp_path):
    results = benchmark(curved, ["RS"], trials=1, stop="exhausted", **SETTINGS)
    instance, trials = results.instances["toy"], results.trials["toy", "RS"]
    path = tmp_path / "f.parquet"
    for order, message in (
        ([*range(31), 32, 31], "not in the order of finishing"),
        ([*range(32), 31], "requested a row without training it further"),
    ):
        arrays = dataclasses.asdict(trials.timing)
        timing = Timeline(**{name: array[order] for name, array in arrays.items()})
        starts = np.array([0, 33])
        wrong = dataclasses.replace(
            trials,
            looked_up=trials.looked_up[order],
            starts=starts,
            timing=timing,
            losses=trials.losses[order],
        )
        path.write_bytes(to_parquet("toy", "RS", 0, wrong))
        with pytest.raises(InputError, match=message):
            read_trials(path, 0, 1, "RS", instance)


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        {"clock": "cost", "cost": "seconds", "scores": ("fto", "fta"), "objectives": ("bleu", "seconds")},
        {"workers": 3, "scores": ("ftb", "fb"), "score_at": 4},
        {"workers": 3, "scores": ("fto", "fta", "fbp"), "objectives": ("bleu", "seconds"), "score_at": 4},
        SETTINGS | {"constraints": ("seconds<=25",)},
        {"workers": 3, "scores": ("ftb", "fb"), "score_at": 4, "constraints": ("seconds<=25",)},
    ],
    ids=["curves", "cost", "workers", "workers-front", "limited-curves", "limited-workers"],
)
def test_random_search_has_its_exact_scores(curved, settings):
    results = benchmark(curved, ["RS"], trials=700, **settings)
    instance = results.instances["toy"]
    for goal, found in zip(instance.goals, results.summary("toy", "RS"), strict=True):
        mean, std = exact_score(instance, goal)
        assert abs(found.mean - mean) < 4 * found.stderr, goal.name
        if not np.isnan(std):
            np.testing.assert_allclose(found.std, std, rtol=0.15)


@pytest.mark.parametrize("change", [{"workers": 2}, {"scores": ("fb",), "score_at": {"toy": 9.0}}])
def test_exact_costs_are_known_of_runtimes_with_one_worker(curved, change):
    known, unknown = (make_instance(Suite("s", **(SETTINGS | more)), curved) for more in ({}, change))
    assert exact_score(known, known.goals[0])[0] > 0
    assert np.isnan(exact_score(unknown, unknown.goals[0])).all()


def test_several_workers_are_at_most_so_many_times_faster_and_never_idle(curved):
    means = {}
    for workers in (1, 4):
        results = benchmark(curved, ["RS"], trials=300, workers=workers, **SETTINGS)
        means[workers] = results.summary("toy", "RS")[0]
        for trial in results.trials["toy", "RS"][:30]:
            for worker in range(workers):
                time = trial.timing.part(0, len(trial.rows))
                own = time.workers == worker
                np.testing.assert_array_equal(
                    time.starts[own], np.append(0.0, time.finishes[own][:-1])[: own.sum()]
                )
    assert means[1].mean / 4 - 4 * means[1].stderr < means[4].mean < means[1].mean


def test_a_users_method_needs_only_suggest_and_observe(curved, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "class Twice:\n"
        "    def __init__(self, problem, rng): self.todo = [(row, at) for row in (5, 2) for at in (1, 2)]\n"
        "    def suggest(self, running): return self.todo[0]\n"
        "    def observe(self, progress): self.todo = self.todo[1:] or [None]\n"
    )
    results = benchmark(curved, [f"{path}:Twice"], trials=1, lookups=2, stop="exhausted", **SETTINGS)
    (trial,) = results.trials["toy", "Twice"]
    assert trial.candidates.tolist() == [5, 5, 2, 2]
    assert trial.timing.resources.tolist() == [1.0, 2.0, 1.0, 2.0]
    assert trial.rows.tolist() == [6, 6, 3, 3]  # of the table, whose row 0 has no curve
