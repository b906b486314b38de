"""The front over the checkpoints of a table, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from hpobench_nmt.analysis.table_front import checkpoint_front, front_of
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.lookup.folder import save_folder


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
    found = list(zip(front.rows.index.tolist(), front.rows["update"].tolist(), strict=True))
    assert sorted(found) == sorted(naive(curved, second))
    assert front.n_rows == len(curved.curves.costs) and front.maximised == (True, False)
    assert (np.diff(front.rows["bleu"]) <= 0).all()


def test_constraints_are_of_the_row_where_the_curves_lack_the_metric(curved):
    bound = float(np.median(curved.column("seconds")))
    front = checkpoint_front(curved, ["bleu", "training_cost"], [Constraint.parse(f"seconds<={bound}")])
    kept = np.flatnonzero(curved.column("seconds") <= bound)
    found = list(zip(front.rows.index.tolist(), front.rows["update"].tolist(), strict=True))
    assert sorted(found) == sorted(naive(curved, None, kept))


def test_what_has_no_curves_is_refused(toy, home, tmp_path):
    save_folder(toy, home / "tables" / "toy")
    with pytest.raises(InputError, match="table 'toy' has no learning curves"):
        front_of("toy", ["bleu", "training_cost"], curves=True)
    with pytest.raises(InputError, match="a CSV file has no learning curves"):
        front_of("some.csv", ["a:min", "b:min"], curves=True)
