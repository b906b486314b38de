"""The results of a benchmark in memory: their scores by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.lookup.table import Table


def trajectory(instance, *rows, failure=""):
    return Trajectory(np.array(rows), instance.losses[list(rows)], failure)


@pytest.fixture
def results():
    """Two tables of five rows, of which the last (u: the first) is best, and two methods; one fails."""
    suite = Suite("s", ("ftb", "fb"), trials=3, n_initial=2, score_at={"default": 3}, tables=("t", "u"))
    axis = (Hyperparameter("x", (1.0, 2.0, 3.0, 4.0, 5.0)),)
    instances = {}
    for name, values in (("t", [1, 2, 3, 4, 6]), ("u", [9, 2, 3, 4, 5])):
        values = np.array(values, float)[:, None]
        table = Table(name, axis, (Metric("m", "max"),), np.arange(1.0, 6)[:, None], values, ("m",))
        instances[name] = make_instance(suite, table)
    t, u = instances.values()
    trials = {
        ("t", "A"): [trajectory(t, 4, 0), trajectory(t, 0, 1, 2, 4), trajectory(t, 3, 0, 4)],
        ("t", "B<"): [trajectory(t, 0, 1, failure="no"), trajectory(t, 0, 3, 4), trajectory(t, 0, 1)],
        ("u", "A"): [trajectory(u, 1, 0)] * 3,
        ("u", "B<"): [trajectory(u, 1, 2, failure=f"reason {i}") for i in range(3)],
    }
    return Results(suite, 7, instances, ("A", "B<"), trials)


def test_scores_by_hand(results):
    frame = results.scores()
    assert list(frame) == [
        "table",
        "method",
        "score",
        "trials",
        "unanswered",
        "failed",
        "at_least",
        "mean",
        "std",
    ]
    assert frame[["table", "method", "score"]].to_numpy().tolist() == [
        [table, method, score] for table in "tu" for method in ("A", "B<") for score in ("ftb", "fb")
    ]
    by = frame.set_index(["table", "method", "score"])
    # A meets the best of t in its first (counted as the design of 2), fourth and third look-up.
    assert by.loc[("t", "A", "ftb"), ["mean", "trials", "unanswered", "failed"]].tolist() == [3, 3, 0, 0]
    assert by["std"]["t", "A", "ftb"] == pytest.approx(np.sqrt(2 / 3))
    # After three look-ups it is 0, 3 and 0 from the best.
    assert by["mean"]["t", "A", "fb"] == 1
    assert by["std"]["t", "A", "fb"] == pytest.approx(np.sqrt(2))
    # B fails once, meets it in the third look-up, and stops once after two.
    assert by.loc[("t", "B<", "ftb"), ["trials", "unanswered", "failed", "at_least"]].tolist() == [
        3,
        1,
        1,
        2.5,
    ]
    assert by["mean"].isna().tolist() == [False, False, True, True, False, False, True, True]
    assert by.loc[("u", "A", "ftb"), ["mean", "std"]].tolist() == [2, 0]
    assert by.loc[("u", "B<", "fb"), ["trials", "failed"]].tolist() == [3, 3]
    assert [s.mean for s in results.summary("u", "A")] == [2, 0]


def test_failures(results):
    assert results.all_failed() == [("u", "B<")]
    assert results.failures() == [
        ("t", "B<", 0, "no"),
        ("u", "B<", 0, "reason 0"),
        ("u", "B<", 1, "reason 1"),
        ("u", "B<", 2, "reason 2"),
    ]


def test_what_a_notebook_shows(results):
    assert repr(results) == "Results(s: 3 trials of A, B< on t, u, seed 7, 4 failed)"
    html = results._repr_html_()
    assert html.startswith("<p>Results(s: 3 trials of A, B&lt; on t, u, seed 7, 4 failed)</p><table")
    assert "<td>B&lt;</td>" in html
    assert "NaN" not in html
    assert html.count("<tr>") + html.count("<tr ") == 9
    assert html.count("<th>") == 9  # no column of row numbers
    fine = Results(results.suite, 0, results.instances, ("A",), {("t", "A"): results.trials["t", "A"]})
    assert repr(fine) == "Results(s: 3 trials of A on t, u, seed 0)"
    assert fine.all_failed() == fine.failures() == []


def test_the_old_name_of_the_loaded_methods_warns_and_works(results):
    with pytest.warns(FutureWarning, match=r"^Results\.sources is deprecated .*: use Results\.loaded\.$"):
        assert results.sources is results.loaded
