"""What learning curves tell early, against a loop over rows and scipy's coefficient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.evaluation.early_ranks import early_ranks

N_ROWS = 40


@pytest.fixture(scope="module")
def curves():
    """Of each row: its resources and losses; some begin late, some end early, two have no value."""
    rng = np.random.default_rng(2)
    found = []
    for row in range(N_ROWS):
        resources = np.cumsum(rng.integers(1, 4, rng.integers(1, 9))).astype(float)
        level = rng.normal()
        losses = level + rng.normal(scale=0.7, size=len(resources)) + 2 / resources
        found.append((resources, np.full_like(losses, np.nan) if row in (3, 11) else np.round(losses, 1)))
    return found


def trainings_of(curves):
    starts = np.cumsum([0, *(len(r) for r, _ in curves)])
    resources, losses = (np.concatenate(part) for part in zip(*curves, strict=True))
    return Trainings(starts, resources, resources, losses[:, None])


@pytest.mark.parametrize("direction", ["min", "max"])
def test_every_column_is_what_a_loop_over_the_rows_finds(curves, direction):
    objective = Objective("quality", direction)
    found = early_ranks("t", objective, "updates", trainings_of(curves), np.arange(N_ROWS) + 100)
    final = np.array([np.nan if np.isnan(losses).all() else losses.min() for _, losses in curves])
    good = [row for row in range(N_ROWS) if final[row] <= np.sort(final)[3]]  # 4 of the 38 with a value
    assert found.frame["resource"].tolist() == sorted({r for resources, _ in curves for r in resources})
    for line in found.frame.itertuples():
        so_far, going = {}, []
        for row, (resources, losses) in enumerate(curves):
            seen = losses[resources <= line.resource]
            if len(seen) and not np.isnan(seen[0]):
                so_far[row] = seen.min()
                if len(seen) < len(losses):
                    going.append(row)
        values = sorted(so_far.values())
        assert (line.rows, line.going) == (len(so_far), len(going))
        raw = objective.to_raw(np.array([values[0], *np.quantile(values, [0.25, 0.5, 0.75])]))
        raw[1:].sort()
        np.testing.assert_allclose((line.best, line.low, line.median, line.high), raw)
        for rows, order in ((list(so_far), line.order), (going, line.order_going)):
            if len(rows) < 5:
                assert np.isnan(order)
            else:
                expected = spearmanr([so_far[r] for r in rows], final[rows]).statistic
                np.testing.assert_allclose(order, expected, rtol=1e-9)
        limit = values[max(1, len(values) // 3) - 1]
        assert line.kept == sum(r in so_far and so_far[r] <= limit for r in good) / len(good)
        for entry in found.ranks[found.ranks["resource"] == line.resource].itertuples():
            assert entry.rank == 1 + sum(x < so_far[entry.row - 100] for x in values)
    best = found.ranks[found.ranks["place"] == 1]
    assert set(best["row"]) == {int(np.nanargmin(final)) + 100}
    assert best["rank"].iloc[-1] == 1
    assert (found.n_rows, found.maximised) == (N_ROWS, direction == "max")
    assert (found.table, found.metric, found.resource) == ("t", "quality", "updates")
    followed = np.argsort(final, kind="stable")[:10]
    end = found.ranks[found.ranks["resource"] == found.frame["resource"].iloc[-1]]
    assert dict(zip(end["row"] - 100, end["place"], strict=True)) == {r: i for i, r in enumerate(followed, 1)}


def test_many_resources_are_thinned_out_and_the_last_order_is_the_final_one():
    rng = np.random.default_rng(0)
    curves = [(np.arange(1.0, 501), rng.normal(size=500)) for _ in range(12)]
    frame = early_ranks("t", Objective("loss", "min"), "x", trainings_of(curves)).frame
    assert 30 < len(frame) <= 60
    assert frame["resource"].iloc[[0, -1]].tolist() == [1.0, 500.0]
    assert frame["order"].iloc[-1] == 1.0
    assert frame["kept"].iloc[-1] == 1.0


def test_five_rows_are_enough_and_are_numbered_from_0():
    curves = [(np.arange(1.0, 3), np.array([5.0 - row, 4.0 - row])) for row in range(5)]
    found = early_ranks("t", Objective("x", "min"), "", trainings_of(curves))
    assert found.frame["order"].tolist() == [1.0, 1.0] and found.frame["kept"].tolist() == [1.0, 1.0]
    assert np.isnan(found.frame["order_going"].iloc[-1])
    assert found.ranks["row"].tolist() == [4, 3, 2, 1, 0] * 2


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="4 rows have a learning curve with values, too few"):
        early_ranks("t", Objective("x", "min"), "", trainings_of([(np.ones(1), np.ones(1))] * 4))
