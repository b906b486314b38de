"""Runs with several objectives along curves: the whole road, from the suite to the page."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.run_curves import hypervolume_curves
from hpobench_nmt.analysis.runtimes import expected_runtime_frame, target_runtimes
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.scoring import by_checkpoints
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.lookup.disk.folder import save_folder

METHODS = ["RS", "BO_auto", "MOASHA"]


def suite_of(*objectives, scores=("fto", "fta", "fbp", "fbh"), **settings):
    settings = {"score_at": {"default": 40.0}, "trials": 3, "n_initial": 0} | settings
    return Suite("s", scores, objectives=objectives, clock="cost", curves=True, **settings)


COSTLY = suite_of("bleu", "training_cost")


def test_what_a_training_had_cost_is_an_objective_of_its_checkpoints(curved):
    instance = make_instance(COSTLY, curved)
    assert [str(each) for each in instance.objectives] == ["bleu:max", "training_cost:min"]
    trainings = instance.trainings
    np.testing.assert_array_equal(trainings.losses[:, 1], trainings.costs)
    np.testing.assert_array_equal(instance.table.column("training_cost"), trainings.whole_costs)
    assert instance.table.metric("training_cost").unit == "s"
    # The table as it is installed is the same, and so are the hashes of it.
    assert instance.installed is curved and instance.curves_sha256 == curved.curves.sha256
    with pytest.raises(hb.InputError, match="training_cost cannot be the first objective"):
        make_instance(changed(COSTLY, objectives=("training_cost", "bleu")), curved)
    # A metric of that name of the table's own is meant where there is one.
    named = dataclasses.replace(curved.metrics[1], name="training_cost")
    metrics = (curved.metrics[0], named, curved.metrics[2])
    own = make_instance(COSTLY, dataclasses.replace(curved, metrics=metrics, objectives=("bleu",)))
    np.testing.assert_array_equal(
        own.trainings.losses[:, 1], curved.column("seconds")[own.numbers][own.trainings.owners]
    )


@pytest.mark.filterwarnings("ignore:Left out")  # rows without a curve
@pytest.mark.parametrize("objectives", [("bleu", "training_cost"), ("bleu", "seconds")])
def test_a_run_is_kept_read_scored_and_shown(objectives, curved, home, tmp_path):
    save_folder(curved, home / "tables" / "toy")
    settings = {"curves": True, "n_initial": 0, "score_at": 40.0, "trials": 3, "jobs": 1}
    scores = ["fto", "fta", "fbp", "fbh"]
    found = hb.run("multi-fidelity-multi", tables="toy", methods=METHODS, scores=scores,
                   objectives=list(objectives), out=tmp_path / "out", **settings)  # fmt: skip
    assert not found.failures()
    read = hb.load_results(tmp_path / "out")
    assert read.scores().equals(found.scores())
    instance = read.instances["toy"]
    goals = {goal.name: goal for goal in instance.goals}
    frame = read.scores().set_index(["method", "score"])["mean"]
    assert (frame[:, "fto"] <= frame[:, "fta"]).all()
    assert frame[:, "fbp"].between(0, goals["fta"].needed).all() and frame[:, "fbh"].between(0, 1).all()
    # The hypervolume's curve at the time of the score is the score.
    curve = hypervolume_curves(read, "toy", also=[40.0]).frame
    at = curve[curve["lookups"] == 40.0].set_index("method")["mean"]
    np.testing.assert_allclose(at[METHODS], frame[:, "fbh"][METHODS], rtol=1e-9)
    exact = expected_runtime_frame(target_runtimes(read))
    known = exact[exact["method"] == "RS (exact)"]["ert"]
    assert len(known) == goals["fta"].needed and (np.diff(known) >= -1e-9).all()
    if "training_cost" in objectives:  # one page is enough, which takes seconds
        (page,) = hb.report(tmp_path / "out", out=tmp_path / "page.html", jobs=1)
        assert "MOASHA" in page.read_text()


def test_every_checkpoint_that_a_training_came_to_is_seen(curved):
    instance = make_instance(COSTLY, curved)
    results = benchmark(
        curved, ["MOASHA"], scores=["fbh"], objectives=COSTLY.objectives, curves=True, n_initial=0,
        score_at=40.0, trials=1,
    )  # fmt: skip
    trial = results.trials["toy", "MOASHA"][0]
    seen, given = by_checkpoints(instance, trial), instance.trainings
    expected = []
    furthest = {}
    for row, resource, finish in zip(
        trial.candidates, trial.timeline.resources, trial.timeline.finishes, strict=True
    ):
        expected += [
            (int(row), finish, *given.losses[k].tolist())
            for k in range(given.starts[row], given.starts[row + 1])
            if furthest.get(row, -1.0) < given.resources[k] <= resource
        ]
        furthest[row] = resource
    got = zip(seen.candidates, seen.timeline.finishes, *seen.losses.T, strict=True)
    assert [tuple(map(float, each)) for each in got] == [tuple(map(float, each)) for each in expected]
    share = hypervolume(table_scale(given.losses).scaled(seen.losses))
    assert share <= table_scale(given.losses).total * (1 + 1e-12)
    assert isinstance(seen, Trajectory) and len(seen.rows) > len(trial.rows)


def test_a_row_that_misses_a_constraint_is_on_no_front(curved):
    bound = float(np.median(curved.column("seconds")))
    suite = changed(COSTLY, constraints=(f"seconds<={bound}",))
    instance = make_instance(suite, curved)
    kept = curved.column("seconds")[instance.numbers] <= bound
    for goal in instance.goals:
        assert kept[goal.by_row > 0].all()
    results = benchmark(
        curved, ["RS", "MOASHA"], scores=["fta"], objectives=suite.objectives,
        constraints=list(suite.constraints), curves=True, n_initial=0, trials=1,
    )  # fmt: skip
    assert not results.failures() and results.scores()["mean"].notna().all()


def test_a_long_front_names_the_table_and_the_way_out(curved):
    places = np.arange(len(curved.curves.costs))
    long = dataclasses.replace(
        curved.curves, costs=1.0 + places, values=np.linspace(1.0, 2.0, len(places))[:, None]
    )
    with pytest.raises(hb.InputError, match=r"suite 's', table 'toy': the front has .* use fbh"):
        make_instance(COSTLY, dataclasses.replace(curved, curves=long))
    assert make_instance(changed(COSTLY, scores=("fbh",)), dataclasses.replace(curved, curves=long)).goals


def test_the_suites_of_the_package():
    cost, time = load_suite("multi-fidelity-cost"), load_suite("multi-fidelity-multi")
    assert cost.scores == ("fbh",) and cost.objectives == ("dev_ppl", "training_cost")
    assert time.objectives == ("dev_ppl", "dev_gpu_time") and set(time.score_at) == set(time.tables)
