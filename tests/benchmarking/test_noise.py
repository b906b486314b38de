"""Suites with noise: look-ups draw one of a row's trainings, scores are of the row's mean."""

import json
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.chosen_rows import chosen_rows
from hpobench_nmt.analysis.run_curves import surrogate_curves
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.noise import noisy as with_noise
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.replicates import ReplicateLosses
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder

TIMES = 4


def trainings_of(table, moves):
    """A frame of trainings, TIMES of each row, moved from the table's values."""
    frame = pd.concat([table.to_frame()] * TIMES, ignore_index=True)
    names = [m.name for m in table.metrics]
    frame[names] += np.concatenate(moves)
    return frame.assign(
        replicate=np.repeat(np.arange(1, TIMES + 1), len(table)), seed=np.repeat(np.arange(TIMES), len(table))
    )


@pytest.fixture
def noisy(toy, home):
    """The toy table as means of four trainings, installed; and the trainings, shape (TIMES, N, metrics)."""
    moves = np.random.default_rng(4).normal(scale=2.0, size=(TIMES, *toy.values.shape)).round(3)
    moves -= moves.mean(axis=0)
    frame = trainings_of(toy, moves).sample(frac=1.0, random_state=1)  # in any order
    save_folder(toy.with_replicates(frame, averaged=True), home / "tables" / "toy")
    return load_folder(home / "tables" / "toy"), toy.values + moves


class Told:
    """Random search that keeps what it is told."""

    told: ClassVar[list[tuple[int, float]]] = []

    def __init__(self, problem, rng):
        self.order = rng.permutation(len(problem.features)).tolist()

    def ask(self):
        return self.order[-1]

    def tell(self, index, losses):
        self.order.remove(index)
        self.told.append((index, float(losses[0])))


def test_every_look_up_is_a_training_of_its_row_and_scores_are_of_means(noisy):
    table, trainings = noisy
    Told.told = []
    results = benchmark("toy", [Told, "RS"], trials=30, noise="replicates", stop="exhausted")
    for trial, number in zip(results.trials["toy", "Told"], range(30), strict=True):
        np.testing.assert_array_equal(trial.losses[:, 0], -table.column("bleu")[trial.rows])
        told = Told.told[number * len(table) : (number + 1) * len(table)]
        assert [row for row, _ in told] == trial.rows.tolist()
    places = np.array([np.abs(-trainings[:, row, 0] - loss).argmin() for row, loss in Told.told])
    for (row, loss), place in zip(Told.told, places, strict=True):
        assert loss == pytest.approx(-trainings[place, row, 0], abs=1e-12)
    # Each training is drawn about as often as the others, and not the same one in all trials.
    shares = np.bincount(places, minlength=TIMES) / len(places)
    assert np.abs(shares - 1 / TIMES).max() < 0.06
    plain = benchmark(table, ["RS"], trials=30, stop="exhausted")
    # It does not look at losses. (A NaN is not itself.)
    assert repr(results.summary("toy", "RS")) == repr(plain.summary("toy", "RS"))


def test_all_methods_meet_the_same_luck_for_any_number_of_jobs(noisy):
    Told.told = []

    class Other(Told):
        told: ClassVar[list[tuple[int, float]]] = []

    benchmark("toy", [Told, Other], trials=2, noise="replicates", stop="exhausted")
    n = len(noisy[0])
    for trial in (0, 1):
        part = slice(trial * n, trial * n + n)
        assert dict(Told.told[part]) == dict(Other.told[part])
    assert dict(Told.told[:n]) != dict(Told.told[n:])
    settings = {"trials": 30, "noise": "replicates", "score_at": 10, "scores": ["fb"]}
    one, two = (benchmark("toy", ["BO_EI_M_std"], jobs=jobs, **settings) for jobs in (1, 2))
    rows = [[t.rows.tolist() for t in r.trials["toy", "BO_EI_M_std"]] for r in (one, two)]
    assert rows[0] == rows[1]
    quiet = benchmark("toy", ["BO_EI_M_std"], trials=30, scores=["fb"], score_at=10)
    assert one.summary("toy", "BO_EI_M_std")[0].mean > quiet.summary("toy", "BO_EI_M_std")[0].mean


@pytest.mark.parametrize("cost", ["", "seconds"])
def test_on_a_clock_a_training_is_drawn_and_what_is_recorded_are_the_means(noisy, home, cost):
    table, trainings = noisy
    rules = {"clock": "cost", "cost": cost} if cost else {}

    class Watch(Told):
        told: ClassVar[list[tuple[int, float]]] = []

        def suggest(self, running):
            return next((row for row in reversed(self.order) if row not in running), None)

    settings = {
        "trials": 3,
        "stop": "exhausted",
        "workers": 3,
        "scores": ["ftb", "fb"],
        "score_at": 30,
        **rules,
    }
    found = benchmark("toy", [Watch, "RS"], noise="replicates", **settings)
    assert found.failures() == []
    n = len(table)
    for number, trial in enumerate(found.trials["toy", "Watch"]):
        np.testing.assert_array_equal(trial.losses[:, 0], -table.column("bleu")[trial.rows])
        if cost:
            np.testing.assert_array_equal(trial.timing.costs, table.column(cost)[trial.rows])
        told = Watch.told[number * n : (number + 1) * n]
        assert [row for row, _ in told] == trial.rows.tolist()
        gaps = [np.abs(-trainings[:, row, 0] - loss).min() for row, loss in told]
        assert max(gaps) < 1e-12
        assert np.abs(-trainings.mean(axis=0)[trial.rows, 0] - [loss for _, loss in told]).max() > 1
    plain = benchmark(table, ["RS"], **settings)
    assert repr(found.summary("toy", "RS")) == repr(plain.summary("toy", "RS"))  # it does not look at losses


def test_noise_of_the_rows_that_have_a_curve(curved, home):
    """Whole trainings, whose cost is that of their curves."""
    frame = trainings_of(curved, np.random.default_rng(4).normal(size=(TIMES, *curved.values.shape)))
    save_folder(curved.with_replicates(frame), home / "tables" / "toy")
    found = benchmark("toy", ["RS", "BO_EI_M_std"], trials=3, noise="replicates", clock="cost", workers=2,
                         scores=["ftb"])  # fmt: skip
    assert found.failures() == []
    instance = found.instances["toy"]
    assert len(instance.losses) == 33
    mean = frame.groupby(["layers", "width", "learning_rate"])["bleu"].mean().to_numpy()
    own = curved.column("bleu")
    np.testing.assert_allclose(
        -instance.losses[:, 0], ((TIMES * mean + own) / (TIMES + 1))[instance.numbers], rtol=1e-12
    )


def test_rows_that_are_single_trainings_count_as_one_more(toy):
    moves = np.random.default_rng(4).normal(size=(TIMES, *toy.values.shape))
    frame = trainings_of(toy, moves)
    frame.loc[frame.index[:3], "bleu"] = np.nan
    goals = [toy.objective("bleu"), toy.objective("seconds")]
    found, measured = with_noise(toy.with_replicates(frame), goals, [])
    means = measured.losses(goals)
    assert np.diff(found.starts).tolist() == [TIMES + 1] * len(toy)
    expected = toy.losses(goals) + np.vstack([np.zeros((1, *toy.values.shape)), moves])[..., :2].mean(
        axis=0
    ) * [-1, 1]
    np.testing.assert_allclose(means[3:], expected[3:], rtol=1e-12)
    assert np.isnan(means[:3, 0]).all()  # a training of these failed
    assert not np.isnan(means[:, 1]).any()
    np.testing.assert_array_equal(found.losses[found.starts[:-1]], toy.losses(goals))


@pytest.mark.parametrize("averaged", [False, True])
def test_constraints_and_costs_are_of_the_mean_too(toy, averaged):
    frame = trainings_of(toy, np.full((TIMES, *toy.values.shape), 30.0))
    table = toy.with_replicates(frame, averaged)
    rules = {"noise": "replicates", "clock": "cost", "cost": "seconds", "constraints": ["memory<=1500"]}
    found = benchmark(table, ["RS"], trials=2, scores=["ftb"], **rules).instances["toy"]
    # Of the four trainings, 30 above the table's own, or of all five.
    shift = 0 if averaged else 30 * TIMES / (TIMES + 1)
    np.testing.assert_allclose(found.violations[:, 0], toy.column("memory") + shift - 1500)
    np.testing.assert_allclose(found.trainings.costs, toy.column("seconds") + shift)
    np.testing.assert_allclose(found.losses[:, 0], toy.losses(["bleu"])[:, 0] - shift)
    # Results are of these trainings.
    frame["memory"] += 1
    table = toy.with_replicates(frame, averaged)
    again = benchmark(table, ["RS"], trials=2, scores=["ftb"], **rules).instances["toy"]
    assert (again.replicates.sha256 == found.replicates.sha256) == averaged


def test_a_hyperparameter_may_be_called_row(toy, noisy, home):
    usual, measured = with_noise(noisy[0], [toy.objective("bleu")], [])
    assert measured is noisy[0]
    names = {"width": "row"}
    axes = tuple(replace(h, name=names.get(h.name, h.name)) for h in toy.hyperparameters)
    frame = trainings_of(noisy[0], noisy[1] - noisy[0].values).rename(columns=names)
    table = replace(toy, hyperparameters=axes).with_replicates(frame, averaged=True)
    save_folder(table, home / "tables" / "toy")
    found, same = with_noise(load_folder(home / "tables" / "toy"), [toy.objective("bleu")], [])
    np.testing.assert_array_equal(found.starts, usual.starts)
    np.testing.assert_array_equal(same.values, measured.values)


def test_two_trainings_are_enough_and_one_may_lack_a_metric(toy, home):
    frame = trainings_of(toy, np.ones((TIMES, *toy.values.shape)))
    frame.loc[:2, "memory"] = 0.0  # the datasheet says that 0 stands for a missing value
    save_folder(toy.with_replicates(frame[frame["replicate"] == 1]), home / "tables" / "toy")
    found, measured = with_noise(load_folder(home / "tables" / "toy"), [toy.objective("memory")], [])
    means = measured.losses(["memory"])
    assert np.diff(found.starts).tolist() == [2] * len(toy)
    assert np.isnan(found.losses[found.starts[:3] + 1, 0]).all() and np.isnan(means[:3, 0]).all()
    np.testing.assert_array_equal(means[3:, 0], toy.column("memory")[3:] + 0.5)


def test_rows_that_were_trained_once_are_left_out(toy, home):
    again = np.arange(3, 36, 2)
    frame = trainings_of(toy.of_rows(again), np.ones((TIMES, len(again), toy.values.shape[1])))
    save_folder(toy.with_replicates(frame), home / "tables" / "toy")
    rules = {"methods": ["RS"], "scores": ["ftb"], "trials": 2, "noise": "replicates", "stop": "exhausted"}
    told = []
    results = hb.run("quick", tables=["toy"], sample=None, notify=told.append, **rules)
    assert told[-1] == f"Left out: {36 - len(again)} of the 36 rows of table 'toy': trained only once."
    for trial in results.trials["toy", "RS"]:
        assert sorted(trial.rows) == again.tolist()
        objective = toy.objective(toy.objectives[0])  # of five trainings, four are 1 larger
        means = toy.column(objective.metric)[trial.rows] + 0.8
        np.testing.assert_allclose(trial.losses[:, 0], objective.to_loss(means))
    sampled = hb.run("quick", tables=["toy"], notify=told.append, **rules)
    assert sampled.trials["toy", "RS"][0].rows.size == len(again)  # fewer than the 40 of a sample


def test_a_draw_is_one_of_the_rows_own():
    replicates = ReplicateLosses(np.array([0, 2, 5]), np.arange(10.0).reshape(5, 2))
    drawn = np.array([replicates.losses[replicates.places(np.random.default_rng(i))] for i in range(300)])
    assert set(drawn[:, 0, 0]) == {0.0, 2.0}
    assert set(drawn[:, 1, 0]) == {4.0, 6.0, 8.0}
    assert (drawn[..., 1] == drawn[..., 0] + 1).all()
    moved = ReplicateLosses(np.array([0, 3, 5]), replicates.losses)
    assert moved.sha256 != replicates.sha256
    missing = [ReplicateLosses(np.array([0, 2]), np.array([[nan], [1.0]])) for nan in (np.nan, -np.nan)]
    assert missing[0].sha256 == missing[1].sha256
    changed = ReplicateLosses(replicates.starts, replicates.losses + 1e-9)
    assert changed.sha256 != replicates.sha256 == ReplicateLosses(replicates.starts, replicates.losses).sha256


def test_what_cannot_be_done_is_refused_in_one_line(toy, toy_home, noisy):
    def refused(message, tables="toy", **settings):
        with pytest.raises(InputError, match=message):
            benchmark(tables, ["RS"], trials=2, **{"noise": "replicates", **settings})

    refused("noise must be '' or 'replicates', not 'some'", noise="some")
    early = {"curves": True, "clock": "cost"}
    refused("whole trainings, which cannot be stopped early: remove noise, or remove curves", **early)
    refused("needs several trainings of a row, and no row has these", tables="toy-missing")
    # A table in memory has the replicates that it is given, not those of an installed one of its name.
    refused("and no row has these", tables=toy)
    refused(
        "and no row has these", tables=toy, **{key: AGAIN[key] for key in ("again", "scores", "score_at")}
    )
    refused("again needs noise = .replicates., the score fb, one worker", again=True, scores=["ftb"])
    refused("again needs noise = .replicates., the score fb, one worker", again=True, noise="", score_at=5)


def test_a_folder_is_of_these_trainings(noisy, run_here, tmp_path, home):
    table, trainings = noisy
    (tmp_path / "noisy.toml").write_text(
        'scores = ["fb"]\ntables = ["toy"]\nnoise = "replicates"\ntrials = 3\nscore_at = {default = 10}\n'
    )
    run = ("run", tmp_path / "noisy.toml", "--jobs", 1, "--explain", "--out", tmp_path / "r")
    assert (
        "; a look-up draws one of the row's trainings, and scores use the row's mean"
        in " ".join(run_here(*run).stdout.split())  # lines may be folded
    )
    results = hb.load_results(tmp_path / "r")
    assert results.suite.noise == "replicates"
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert manifest["tables"]["toy"]["trainings"] == results.instances["toy"].replicates.sha256
    with pytest.raises(InputError, match="one training of each row"):
        surrogate_curves(results, "toy")
    # The same means of other trainings.
    other = trainings_of(table, (trainings - table.values) * 0.5)
    save_folder(table.with_replicates(other, averaged=True), home / "tables" / "toy")
    with pytest.raises(InputError, match="the trainings of table 'toy' have changed"):
        hb.load_results(tmp_path / "r")
    assert "has a run with trainings of 'toy' of hash" in run_here(*run, check=2).stderr


def test_a_drawn_training_costs_what_its_own_curve_says(curved, home):
    """Each replicate has a curve of its own, of another length and price."""
    rows = np.flatnonzero(curved.curves.lengths > 0)
    table = curved.of_rows(rows)
    rng = np.random.default_rng(3)
    frame = trainings_of(table, rng.normal(size=(TIMES, *table.values.shape)))
    own = table.with_replicates(frame).replicates.rows
    lengths = rng.integers(1, 5, len(own.values))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    price = np.repeat(rng.uniform(10, 20, len(lengths)), lengths)
    values = rng.normal(size=(len(steps), len(table.curves.metrics)))
    curves = replace(table.curves, starts=starts, resources=steps, costs=steps * price, values=values)
    again = replace(table.with_replicates(frame).replicates, read=lambda: own._replace(curves=curves))
    save_folder(replace(table, replicates=again), home / "tables" / "toy")
    saved = load_table("toy")
    np.testing.assert_array_equal(saved.replicates.rows.curves.costs, curves.costs)
    assert saved.replicates.rows.curves.sha256 == curves.sha256

    found = benchmark("toy", ["RS"], trials=4, noise="replicates", clock="cost", stop="exhausted")
    replicates = found.instances["toy"].replicates
    assert found.failures() == []
    place, _ = saved.replicates.by_row(saved.configs)
    ends = {row: {saved.curve(row).costs[-1]} for row in range(len(saved))}
    for row, training in zip(place, range(len(place)), strict=True):
        ends[row].add(curves[training].costs[-1])
    drawn = set()
    for trial in found.trials["toy", "RS"]:
        assert all(cost in ends[row] for row, cost in zip(trial.rows, trial.timing.costs, strict=True))
        drawn.add(trial.timing.costs[np.argsort(trial.rows)].tobytes())
    assert len(drawn) == 4
    assert replicates.sha256 != replace(replicates, costs=None).sha256
    # Without curves of the replicates, the row's own costs count.
    save_folder(table.with_replicates(frame), home / "tables" / "toy")
    plain = benchmark("toy", ["RS"], trials=1, noise="replicates", clock="cost")
    assert plain.instances["toy"].replicates.costs is None


class Again(Told):
    """Looks up its first row three more times, and then others; it recommends its last but one."""

    told: ClassVar[list[tuple[int, float]]] = []

    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        assert problem.again
        self.rows = []

    def ask(self):
        return self.rows[0] if 3 <= len(self.rows) < 6 else next(r for r in self.order if r not in self.rows)

    def tell(self, index, losses):
        self.rows.append(index)
        self.told.append((index, float(losses[0])))

    def recommend(self, rows):
        assert rows == list(dict.fromkeys(self.rows))
        return rows[-2]


class Forgets(Again):
    """The same, without a recommendation."""

    told: ClassVar[list[tuple[int, float]]] = []
    recommend = None


AGAIN = {"noise": "replicates", "again": True, "scores": ["fb"], "score_at": 8, "lookups": 10, "trials": 6}


@pytest.mark.parametrize("sample", [None, 0.9])
def test_a_row_that_is_looked_up_again_draws_another_training_and_the_recommended_row_is_judged(
    noisy, tmp_path, sample
):
    table, trainings = noisy
    Again.told, Forgets.told = [], []
    results = hb.run(tables="toy", methods=[Again, Forgets], out=tmp_path / "out", sample=sample, **AGAIN)
    chosen = {each.name: each.values for each in chosen_rows(results, "toy")}
    assert list(chosen)[-2:] == ["frr", "optimism"]
    means = -table.column("bleu")
    for method, told in (("Again", Again.told), ("Forgets", Forgets.told)):
        for number, trial in enumerate(results.trials["toy", method]):
            own = told[10 * number : 10 * (number + 1)]
            rows = [row for row, _ in own]
            sampled = results.instances["toy"].of_trial(0, number)
            whole = rows if sampled.rows is None else sampled.rows[rows].tolist()
            assert trial.rows.tolist() == whole and rows[3:6] == [rows[0]] * 3
            np.testing.assert_array_equal(trial.losses[:, 0], means[whole])
            first = sorted(loss for row, loss in own if row == rows[0])
            assert first == pytest.approx(sorted(-trainings[:, whole[0], 0]))
            seen = {row: np.mean([loss for r, loss in own if r == row]) for row in rows}
            row = rows[-2] if method == "Again" else min(seen, key=seen.get)
            true = means[whole[rows.index(row)]]
            best = means.min() if sampled.rows is None else means[sampled.rows].min()
            assert chosen["frr"][method][number] == pytest.approx(true - best)
            assert chosen["optimism"][method][number] == pytest.approx(true - seen[row])
    again = hb.load_results(tmp_path / "out")
    assert [t.recommended for t in again.trials["toy", "Again"]] == [8] * 6
    assert [t.recommended for t in again.trials["toy", "Forgets"]] == [-1] * 6


def test_bo_repeats_rows_of_a_table_and_without_again_it_may_not(noisy):
    method = "hpobench_nmt.methods.repeats:RepeatingBO"
    settings = AGAIN | {"lookups": 30, "trials": 2}
    trials = benchmark("toy", [method], **settings).trials["toy", "RepeatingBO"]
    assert all(1 <= 30 - len(set(trial.rows)) <= 4 and trial.recommended >= 0 for trial in trials)
    trials = benchmark("toy", [method], **settings | {"again": False}).trials["toy", "RepeatingBO"]
    assert all(len(set(trial.rows)) == len(trial.rows) for trial in trials)


def test_a_row_with_one_training_borrows_the_noise_of_rows_with_a_similar_loss(toy, home):
    order = np.argsort(toy.column("bleu"), kind="stable")
    sd = np.empty(len(toy))
    sd[order] = np.where(np.arange(len(toy)) < len(toy) // 2, 1.0, 0.01)
    moves = np.random.default_rng(0).normal(size=(TIMES, *toy.values.shape)) * sd[:, None]
    frame = trainings_of(toy, moves)
    alone = order[1::3]
    frame = frame[~np.isin(np.tile(np.arange(len(toy)), TIMES), alone)]
    save_folder(toy.with_replicates(frame), home / "tables" / "toy")
    table = load_folder(home / "tables" / "toy")
    found, measured = with_noise(table, [toy.objective("bleu")], ["memory"])
    assert found.borrowed == len(alone)
    for row in alone:
        own = found.losses[found.starts[row] : found.starts[row + 1], 0]
        assert len(own) == 8 and own.mean() == pytest.approx(-toy.column("bleu")[row])
        if row in (alone[0], alone[-1]):  # the ten nearest rows that lend their noise have the same
            assert 0.4 < own.std(ddof=1) / sd[row] < 1.8
    assert measured.column("memory")[alone] == pytest.approx(toy.column("memory")[alone])
    same, _ = with_noise(table, [toy.objective("bleu")], ["memory"])
    assert same.sha256 == found.sha256
    notes = []
    failed = frame.assign(bleu=np.nan)
    with pytest.raises(InputError, match=r"table 'toy': .* needs a row with several results"):
        benchmark(toy.with_replicates(failed), ["RS"], **AGAIN)
    suite_instances(load_suite_of(AGAIN), notes.append)
    assert notes == [
        f"table 'toy': {len(alone)} of {len(toy)} rows have one training and borrow the noise of rows with a "
        f"similar loss."
    ]


def load_suite_of(settings):
    return changed(Suite("again", ("fb",)), **settings | {"tables": ["toy"], "score_at": {"default": 8}})
