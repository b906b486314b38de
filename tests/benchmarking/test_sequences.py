"""Sequence files for the authors' scripts, written from trials of a table of a few rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.sequences import export_sequences
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.lookup.table import Table


def results(*sequences, values=(1, 2, 3, 4, 6), failure="", **settings):
    """Trials of methods A and B on a table of five rows; the last trial fails if there is a reason."""
    suite = Suite("s", ("ftb", "fb"), score_at={"default": 3}, **settings)
    axis = (Hyperparameter("x", (1.0, 2.0, 3.0, 4.0, 5.0)),)
    column = np.array(values, float)[:, None]
    table = Table("t", axis, (Metric("m", "max"),), np.arange(1.0, 6)[:, None], column, ("m",))
    instance = make_instance(suite, table)
    trials = [Trajectory(np.array(rows), instance.losses[list(rows)]) for rows in sequences]
    trials[-1] = dataclasses.replace(trials[-1], failure=failure)
    both = {("t", "A"): trials[:1], ("t", "B"): trials}
    return Results(suite, 0, {"t": instance}, ("A", "B"), both)


def test_sequences_are_completed_with_the_other_rows(tmp_path):
    paths = export_sequences(results((3, 1, 4), (4, 2, 0), (2, 0, 3, 1, 4)), tmp_path / "out")
    assert paths == [tmp_path / "out" / "t" / "A.ss", tmp_path / "out" / "t" / "B.ss"]
    assert paths[0].read_text() == "3 1 4 0 2\n"
    assert paths[1].read_text() == "3 1 4 0 2\n4 2 0 1 3\n2 0 3 1 4\n"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            results((3, 1, 4), (3, 1, 4), failure="no"),
            r"t, B, trial 1: failed \(no\), so there is no "
            r"sequence",
        ),
        (results((3, 1, 4), (3, 1, 0)), "t, B, trial 1: stopped before ftb was settled"),
        (results((3, 1, 4), (3, 1)), "t, B, trial 1: stopped before ftb was settled"),
        (results((3, 1, 4), (0, 1, 2, 3)), "t, B, trial 1: stopped before ftb was settled"),
        (
            results((3, 1, 4), values=(6, 2, 3, 4, 6)),
            "t: 2 rows share the best value, and the scripts credit",
        ),
        # The best row that is feasible was found: the scripts would look for row 4.
        (results((3, 1, 0), (3, 1, 0), constraints=("m<=4",)), "suite 's' has constraints"),
    ],
)
def test_what_the_scripts_would_misread_is_refused(tmp_path, made, message):
    with pytest.raises(InputError, match=message):
        export_sequences(made, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_of_several_best_rows_the_first_may_be_credited(tmp_path):
    made = results((3, 1, 0), values=(6, 2, 3, 4, 6), ties="first")
    assert export_sequences(made, tmp_path)[0].read_text() == "3 1 0 2 4\n"
