"""A suite on a table: what is minimised, what counts, and which tables a suite is about."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hpobench_nmt.benchmarking.task.instance import make_instance, suite_instances
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup import catalogue
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table

SINGLE = Suite("s", ("ftb", "ftc", "fb"), score_at={"default": 4})
MULTI = Suite("s", ("fto", "fta", "fbp"), score_at={"default": 4})


def small(values=((10, 5), (12, 7), (12, 6), (11, 1), (np.nan, 0), (9, np.nan)), **changes):
    """Six rows: two share the best score, and one of two metrics is missing in two others."""
    axis = Hyperparameter("x", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    metrics = (Metric("bleu", "max", tolerance=0.5), Metric("time", "min"))
    configs = np.arange(1.0, len(values) + 1)[:, None]
    table = Table("t", (axis,), metrics, configs, np.array(values, float), ("bleu", "time"))
    return dataclasses.replace(table, **changes)


def targets(suite, table=None):
    instance = make_instance(suite, table or small())
    return {goal.name: np.flatnonzero(goal.targets).tolist() for goal in instance.goals}


def test_one_objective_by_hand():
    instance = make_instance(SINGLE, small())
    assert instance.objectives == (Objective("bleu", "max"),)
    np.testing.assert_array_equal(instance.losses, [[-10], [-12], [-12], [-11], [np.nan], [-9]])
    assert instance.stopping_goals == (*instance.goals, instance.target)
    problem = instance.problem
    assert (problem.n_objectives, problem.lookups, problem.n_initial) == (1, 6, 3)
    np.testing.assert_allclose(problem.features[:, 0], np.arange(6) / 5)
    assert [(g.name, g.needed, g.score_at) for g in instance.goals] == [
        ("ftb", 1, None),
        ("ftc", 1, None),
        ("fb", 1, 4),
    ]
    assert targets(SINGLE) == {"ftb": [1, 2], "ftc": [1, 2], "fb": [1, 2]}
    assert targets(changed(SINGLE, ties="first"))["ftb"] == [1]
    np.testing.assert_array_equal(instance.goals[2].gaps, [2, 0, 0, 1, np.nan, 3])


def test_two_objectives_by_hand():
    """Rows 2 and 3 are on the front; a row of which a loss is missing is not."""
    instance = make_instance(MULTI, small())
    assert instance.objectives == (Objective("bleu", "max"), Objective("time", "min"))
    np.testing.assert_array_equal(instance.losses[:3], [[-10, 5], [-12, 7], [-12, 6]])
    assert instance.problem.n_objectives == 2
    assert targets(MULTI) == {"fto": [2, 3], "fta": [2, 3], "fbp": [2, 3]}
    assert [(g.needed, g.score_at) for g in instance.goals] == [(1, None), (2, None), (2, 4)]


def test_settings_of_the_suite():
    suite = changed(
        SINGLE,
        n_initial=2,
        lookups=5,
        stop="exhausted",
        objectives=("time:max",),
        tolerance={"default": 0.0, "t": 2.0},
        score_at={"t": 5, "default": 3},
    )
    instance = make_instance(suite, small())
    assert instance.objectives == (Objective("time", "max"),)
    assert instance.stopping_goals == ()
    assert (instance.problem.lookups, instance.problem.n_initial) == (5, 2)
    assert instance.goals[2].score_at == 5
    assert targets(suite) == {"ftb": [1], "ftc": [0, 1, 2], "fb": [1]}
    assert targets(suite, small(name="other"))["ftc"] == [1]
    assert make_instance(changed(suite, lookups=7), small()).problem.lookups == 6
    # Three objectives of the table's own, of which the suite takes as many as its scores need.
    assert len(make_instance(SINGLE, small(objectives=("time", "bleu"))).objectives) == 1
    assert make_instance(SINGLE, small(objectives=("time", "bleu"))).objectives[0].metric == "time"


@pytest.mark.parametrize(
    ("suite", "table", "message"),
    [
        (
            MULTI,
            small(objectives=("bleu",)),
            r"table 't' names 1 objective of its own, but fto, fta, fbp need 2",
        ),
        (
            SINGLE,
            small(objectives=()),
            r"table 't' names no objective of its own, but ftb, ftc, fb need 1\. Choose from its metrics "
            r"with --objectives: bleu, time\.$",
        ),
        (
            changed(SINGLE, n_initial=7, score_at={"default": 7}),
            small(),
            r"table 't' has 6 rows, fewer than the 7 initial ones",
        ),
        (
            SINGLE,
            small([(np.nan, 1), (np.nan, 2), (np.nan, 3)]),
            "table 't': objective 'bleu' is missing in every",
        ),
        (SINGLE, small([(3, 1), (3, 2), (3, 3)]), "table 't': objective 'bleu' is 3 in every row"),
        (SINGLE, small([(3, 1), (np.nan, 2), (3, 3)]), "'bleu' is 3 in each row that has it, 2 of 3."),
        (SINGLE, small([(np.nan, 1), (1, 2), (np.nan, 3)]), "'bleu' is 1 in each row that has it, 1 of 3."),
        (
            changed(MULTI, objectives=("bleu", "bleu:max")),
            small(),
            "table 't': the same objective twice",
        ),
        (MULTI, small([(1, 7), (2, 7), (3, 7)]), "table 't': objective 'time' is 7 in every row"),
        (MULTI, small([(1, np.nan), (2, np.nan), (np.nan, 1), (np.nan, 2)]), "no row has all of bleu, time"),
        (
            changed(SINGLE, score_at={"u": 4}),
            small(),
            "suite 's', table 't': score 'fb' needs score_at",
        ),
        (
            changed(SINGLE, lookups=3),
            small(),
            "suite 's', table 't': fb is measured after 4 look-ups, but a trial may make only 3",
        ),
        (
            changed(SINGLE, tolerance={"t": 3.0}),
            small(),
            "suite 's', table 't': every row is within the tolerance of 3",
        ),
    ],
)
def test_what_gives_nothing_to_optimise_is_refused(suite, table, message):
    with pytest.raises(InputError, match=message):
        make_instance(suite, table)


def test_what_is_just_enough():
    for suite in (
        changed(SINGLE, n_initial=6, score_at={"default": 6}),
        changed(SINGLE, lookups=4),
        changed(SINGLE, tolerance={"t": 2.9}),
        # A tolerance and score_at that no score needs do no harm.
        Suite("s", ("ftb",), tolerance={"t": 3.0}, score_at={"t": 9}, lookups=4),
    ):
        make_instance(suite, small())


def test_it_says_what_it_is():
    assert repr(make_instance(MULTI, small())) == "Instance(t: 6 rows, bleu:max, time:min; fto, fta, fbp)"


@pytest.fixture
def bare(home, tmp_path, monkeypatch):
    """A home without any table, also not those that ship."""
    monkeypatch.setattr(catalogue, "shipped_folder", lambda: tmp_path / "shipped")
    return home


def put(table, root, name):
    save_folder(dataclasses.replace(table, name=name), root / name)


def test_tables_by_name_by_folder_and_by_collection(bare, tmp_path):
    for name in ("b", "a"):
        put(small(claims={"collection": "mine"}), bare / "tables", name)
    put(small(), bare / "tables", "c")
    put(small(), tmp_path, "d")
    suite = changed(SINGLE, tables=("c", str(tmp_path / "d"), "mine"))
    found = suite_instances(suite)
    assert list(found) == ["c", "d", "a", "b"]
    assert all(instance.table.name == name for name, instance in found.items())
    put(small(), tmp_path, "C")
    for twice in (("c", str(tmp_path / "C")), ("a", "mine")):
        with pytest.raises(InputError, match=r"table '[Ca]' is asked for twice\."):
            suite_instances(changed(SINGLE, tables=twice))
    with pytest.raises(InputError, match=r"table 'c' names 1 objective"):
        put(small(objectives=("bleu",)), bare / "tables", "c")
        suite_instances(changed(MULTI, tables=("c",)))


def test_installed_tables_that_cannot_be_used_are_left_out_and_named(bare):
    put(small(), bare / "tables", "good")
    put(small(objectives=("bleu",)), bare / "tables", "few")
    (bare / "tables" / "damaged").mkdir()
    (bare / "tables" / "damaged" / "datasheet.toml").write_text("[")
    reasons = []
    assert list(suite_instances(MULTI, reasons.append)) == ["good"]
    assert len(reasons) == 2
    assert all(reason.startswith("Left out: ") for reason in reasons)
    assert "damaged/datasheet.toml: not valid TOML" in reasons[0]
    assert "table 'few' names 1 objective of" in reasons[1]
    assert list(suite_instances(SINGLE)) == ["few", "good"]


def test_no_table_that_can_be_used(bare):
    with pytest.raises(InputError) as error:
        suite_instances(MULTI)
    assert str(error.value) == (
        "no installed table can be used. 'hpobench-nmt tables fetch NAME' downloads published tables: "
        f"{', '.join(COLLECTIONS)}."
    )
    put(small(objectives=("bleu",)), bare / "tables", "few")
    with pytest.raises(InputError, match=r"no installed table can be used\. table 'few' names 1 objective"):
        suite_instances(MULTI)
