"""The front of a table, a data frame and a CSV file, and over the checkpoints of a table, by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.table_front import checkpoint_front, pareto
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import save_folder


def naive(curved, second, rows=range(36)):
    """(row, update) of every checkpoint that no other one dominates; of equal ones of a row the first."""
    curves, found = curved.curves, []
    models = []
    for row in rows:
        for update, cost, (bleu,) in zip(*curves[row], strict=True):
            models.append((row, update, -bleu, cost if second is None else second[row]))
    for row, update, *values in models:
        others = [other[2:] for other in models]
        if not any(o[0] <= values[0] and o[1] <= values[1] and list(o) != values for o in others):
            found.append((row, update, *values))
    return [f[:2] for f in found if not any(g[0] == f[0] and g[2:] == f[2:] and g[1] < f[1] for g in found)]


@pytest.mark.parametrize("objective", ["training_cost", "seconds"])
def test_every_checkpoint_is_a_model(curved, objective):
    second = None if objective == "training_cost" else curved.column("seconds")
    front = checkpoint_front(curved, ["bleu", objective])
    found = list(zip(front.rows.tolist(), front.frame["update"].tolist(), strict=True))
    assert sorted(found) == sorted(naive(curved, second))
    assert len(front.points) == len(curved.curves.costs) and front.maximised == (True, False)
    assert (np.diff(front.frame["bleu"]) <= 0).all()


def test_constraints_are_of_the_row_where_the_curves_lack_the_metric(curved):
    bound = float(np.median(curved.column("seconds")))
    front = checkpoint_front(curved, ["bleu", "training_cost"], [Constraint.parse(f"seconds<={bound}")])
    kept = np.flatnonzero(curved.column("seconds") <= bound)
    found = list(zip(front.rows.tolist(), front.frame["update"].tolist(), strict=True))
    assert sorted(found) == sorted(naive(curved, None, kept))


@pytest.mark.parametrize("objective", ["training_cost", "seconds"])
def test_the_cost_of_a_checkpoint_may_have_a_bound(curved, objective):
    bound = float(np.median(curved.curves.costs))
    rules = [Constraint.parse(f"training_cost<={bound}")]
    front = checkpoint_front(curved, ["bleu", objective], rules)
    assert front.frame["training_cost"].max() <= bound
    assert front.kept.sum() == (curved.curves.costs <= bound).sum()
    with pytest.raises(InputError, match="Did you mean 'training_cost'"):
        checkpoint_front(curved, ["bleu", "training_cost"], [Constraint.parse("training_cots<=1")])


def test_of_equal_checkpoints_the_first_that_keeps_a_bound_counts(curved):
    level = replace(curved.curves, values=np.full_like(curved.curves.values, 20.0))
    front = replace(curved, curves=level).pareto(["bleu", "seconds"], ["training_cost>=3"], curves=True)
    (row,) = front.rows.tolist()
    assert curved.column("seconds")[row] == curved.column("seconds")[level.lengths > 0].min()
    assert front.frame[["update", "training_cost"]].to_numpy().tolist() == [[2, 4]]


def test_what_has_no_curves_is_refused(toy, home, tmp_path):
    save_folder(toy, home / "tables" / "toy")
    with pytest.raises(
        InputError, match=r"table 'toy' has no learning curves\. To use its rows, leave out curves"
    ):
        pareto("toy", ["bleu", "training_cost"], curves=True)
    with pytest.raises(InputError, match="a CSV file has no learning curves"):
        pareto("some.csv", ["a:min", "b:min"], curves=True)


COSTS = ["training_cost", "bleu"]
GOALS, GOALS_AB = ["bleu:max", "seconds:min"], ["a:min", "b:min"]
FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]})


def test_a_table_a_frame_and_a_file_have_the_same_front(toy, tmp_path):
    toy.to_frame().to_csv(tmp_path / "toy.csv", index=False)
    fronts = [toy.pareto(constraints=["memory<=1500"])]
    shuffled = toy.to_frame().set_index(np.arange(36)[::-1])  # rows are counted, whatever the index
    sources = (toy, toy.to_frame(), shuffled, tmp_path / "toy.csv", str(tmp_path / "toy.csv"))
    fronts += [hb.pareto(source, GOALS, ["memory<=1500"]) for source in sources]
    kept = np.flatnonzero(toy.column("memory") <= 1500)
    losses = toy.losses(GOALS)
    expected = [r for r in kept if not any((losses[o] <= losses[r]).all() and o != r for o in kept)]
    for front in fronts:
        assert sorted(front.rows) == expected
        assert (np.diff(front.frame["bleu"]) <= 0).all()
        assert front.hypervolume == pytest.approx(fronts[0].hypervolume, rel=1e-9)
        pd.testing.assert_frame_equal(front.steps, fronts[0].steps)
    assert list(fronts[0].shown) == [
        "row",
        *(h.name for h in toy.hyperparameters),
        "bleu",
        "seconds",
        "memory",
    ]
    assert "of 24 rows that keep memory<=1500 are on the front. 12 rows lack an" in str(fronts[0])


def test_numbered_columns_are_named_by_their_numbers():
    frame = pd.DataFrame([[1.0, 3.0], [2.0, 2.0], [2.0, 3.0]])
    front = hb.pareto(frame, ["0:min", "1:min"], ["0<=2"])
    assert front.rows.tolist() == [0, 1] and list(front.shown) == ["row", "0", "1"]
    assert list(frame.columns) == [0, 1]


def test_of_two_equal_names_only_those_that_are_used_are_refused():
    frame = pd.DataFrame([[1.0, 3.0, 0, 0], [2.0, 2.0, 0, 0]], columns=["a", "b", "x", "x"])
    assert hb.pareto(frame, GOALS_AB).rows.tolist() == [0, 1]
    with pytest.raises(InputError, match=r"data frame: two columns are named 'x'\. Rename one of them"):
        hb.pareto(frame, ["a:min", "x:min"])


def test_the_cost_may_be_the_first_objective_of_checkpoints(curved):
    one, other = (curved.pareto(names, curves=True) for names in (COSTS, COSTS[::-1]))
    assert sorted(one.rows) == sorted(other.rows) and one.metrics == other.metrics[::-1]


def test_hypervolume_and_steps_by_hand():
    frame = pd.DataFrame({"acc": [9.0, 7.0, 7.0, 5.0, 4.0, None], "size": [50, 30, 30, 10, 20, 1]})
    front = hb.pareto(frame, ["acc:max", "size:min"])
    assert front.rows.tolist() == [0, 1, 2, 3]
    # Scaled, the front is (0, 1), (1/2, 1/2) twice and (1, 0); the reference point is (1.1, 1.1).
    assert front.hypervolume == pytest.approx(1.1 * 0.1 + 0.6 * 0.5 + 0.1 * 0.5)
    assert front.steps.to_numpy().tolist() == [[0, 1, -2, -20, -10], [2, 3, -2, -20, -10]]
    assert list(front.steps) == ["from", "to", "acc", "size", "size per acc"]
    assert list(hb.pareto(frame.assign(n=1), ["acc:max", "size:min", "n:min"]).steps)[-1] == "n"


def test_a_front_of_checkpoints_is_drawn_where_it_lies(curved):
    front = curved.pareto(curves=True)
    assert front.metrics == ("bleu", "training_cost")
    drawn = np.sort(front.plot().axes[0].collections[1].get_offsets(), axis=0)
    np.testing.assert_array_equal(drawn, np.sort(front.frame[list(front.metrics)], axis=0))


@pytest.mark.parametrize("objectives", [["bleu", "seconds"], ["bleu", "seconds", "memory"]])
def test_rows_that_break_a_bound_are_hollow_so_that_no_filled_point_lies_beyond_the_front(toy, objectives):
    bound = f"seconds>={toy.to_frame()['seconds'].quantile(0.6)}"
    front = hb.pareto(toy, objectives, [bound])
    for axes in front.plot().axes:
        filled, line, hollow = axes.collections[:3]
        assert len(filled.get_facecolor()) and not len(hollow.get_facecolor())
        assert hollow.get_label() == f"break {bound}"
        assert len(filled.get_offsets()) + len(hollow.get_offsets()) == len(toy)
        of_front = {tuple(point) for point in line.get_offsets()}
        assert of_front <= {tuple(point) for point in filled.get_offsets()}
        if len(objectives) == 2:
            for bleu, seconds in filled.get_offsets():
                assert (bleu, seconds) in of_front or any(b >= bleu and s <= seconds for b, s in of_front)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda toy: pareto_front(toy, ["bleu"]), r"call hb\.pareto\(source, objectives\)"),
        (lambda toy: pareto_front("toy"), r"call hb\.pareto\(source, objectives\)"),
        (lambda toy: hb.pareto(toy, "bleu"), "needs two or more objectives"),
        (
            lambda toy: hb.pareto(toy, ["bleu"]),
            "needs two or more objectives. Table 'toy' has bleu, ",
        ),
        (lambda toy: hb.pareto(toy.to_frame()), "data frame: a front needs two or more objectives, such as"),
        (
            lambda toy: hb.pareto(toy.to_frame(), ["bleu", "seconds"]),
            "a data frame does not record the direction",
        ),
        (lambda toy: hb.pareto(toy.to_frame(), ["blue:max", "seconds:min"]), "Did you mean 'bleu'?"),
        (lambda toy: hb.pareto(toy, [1, "bleu"]), "objective 1: write it as a text, such as 'loss:min'"),
        (lambda toy: hb.pareto(toy, 5), "objectives must be a list, not 5"),
        (lambda toy: hb.pareto(toy, GOALS, [5]), "constraint 5: write it as a text"),
        (lambda toy: hb.pareto(toy, "bleu,seconds", "blue>=1"), "Did you mean 'bleu'?"),
        (
            lambda toy: hb.pareto(FRAME.assign(b="x"), GOALS_AB),
            "data frame, row 0: 'b' is 'x', not a number. For a missing value, use NaN or None\\.$",
        ),
        (lambda toy: hb.pareto(FRAME.assign(b=1j), GOALS_AB), "row 0: 'b' is '1j', not a number"),
        (lambda toy: hb.pareto(FRAME.set_axis(["a", "a"], axis=1), GOALS_AB), "two columns are named 'a'"),
        (
            lambda toy: hb.pareto(FRAME.set_axis([0, "0"], axis=1), ["0:min", "0:max"]),
            "two columns are named '0'",
        ),
        (lambda toy: hb.load_table("mine.csv"), r"mine\.csv is a CSV file, not a table\. hb\.import_table"),
        (lambda toy: toy.pareto(["bleu", "seconds", "memory"]).plot(ax=object()), "cannot be drawn on ax"),
    ],
)
def test_a_wrong_call_names_the_right_one(toy, call, message):
    with pytest.raises(InputError, match=message):
        call(toy)
