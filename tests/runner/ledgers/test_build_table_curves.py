from __future__ import annotations

import numpy as np
import pytest

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.ledgers.build_table import ledger_curves
from hpobench_nmt.runner.ledgers.ledger import Record

PPL, BLEU = Metric("dev_ppl", "min", description="least on dev"), Metric("dev_bleu", "max", "BLEU")


def record(ppl, own, **more):
    """A training with these perplexities, 100 updates a checkpoint, and other columns of the same length."""
    curve = [
        {"update": 100 * n, "dev_ppl": value} | {name: column[n - 1] for name, column in more.items()}
        for n, value in enumerate(ppl, start=1)
    ]
    return Record({"x": 1}, 0, 0, "done", metrics={"dev_ppl": own, "dev_bleu": 9.0}, curve=curve)


def test_curves_of_trainings():
    records = [
        record([9.0, 7.0, 8.0], 7.0, seconds=[1.0, 2.5, 4.0], epoch=[1.0, 2.0, 3.0]),
        Record({"x": 2}, 0, 0, "done", metrics={"dev_ppl": 5.0}),
        record([6.0], 6.0, seconds=[0.5], epoch=[1.0]),
    ]
    found = ledger_curves(records, [BLEU, PPL])
    assert (found.resource, found.resource_unit, found.cost_unit) == ("update", "updates", "s")
    assert found.metrics == (Metric("dev_ppl", "min"),)
    assert found.own == ("best",)
    assert found.starts.tolist() == [0, 3, 3, 4]
    assert found.resources.tolist() == [100.0, 200.0, 300.0, 100.0]
    assert found.costs.tolist() == [1.0, 2.5, 4.0, 0.5]
    assert found.values[:, 0].tolist() == [9.0, 7.0, 8.0, 6.0]


def test_the_cost_is_updates_where_some_checkpoint_has_no_time_or_the_time_stands_still():
    for seconds in ({}, {"seconds": [1.0, 1.0]}):
        found = ledger_curves(
            [record([9.0, 7.0], 7.0, seconds=[1.0, 2.0]), record([6.0, 5.0], 5.0, **seconds)], [PPL]
        )
        assert found.costs.tolist() == found.resources.tolist()
        assert found.cost_unit == "updates"


def test_tokens_are_the_resource_and_operations_the_cost_where_every_checkpoint_has_them():
    of_one = {"tokens": [800, 1600], "flops": [4e9, 8e9], "seconds": [1.0, 2.0]}
    of_other = {"tokens": [400, 1600], "flops": [3e9, 12e9], "seconds": [1.0, 2.0]}
    found = ledger_curves([record([9.0, 7.0], 7.0, **of_one), record([6.0, 5.0], 5.0, **of_other)], [PPL])
    assert (found.resource, found.resource_unit, found.cost_unit) == ("tokens", "tokens", "FLOPs")
    assert found.resources.tolist() == [800, 1600, 400, 1600]
    assert found.costs.tolist() == [4e9, 8e9, 3e9, 12e9]
    mixed = ledger_curves([record([9.0, 7.0], 7.0, **of_one), record([6.0], 6.0, seconds=[1.0])], [PPL])
    assert (mixed.resource, mixed.cost_unit) == ("update", "s")


@pytest.mark.parametrize(
    ("values", "own"), [([7.0, 6.0], "best"), ([8.0, 6.5], "last"), ([7.0, 6.5], None), ([7.01, 6.0], None)]
)
def test_what_the_rows_own_values_are(values, own):
    records = [record([9.0, 7.0, 8.0], values[0]), record([6.0, 6.5], values[1])]
    assert ledger_curves(records, [PPL]).own == (own,)


def test_what_checkpoints_measure_in_another_way_has_a_name_of_its_own_but_in_old_ledgers():
    records = [record([9.0, 7.0], 7.1), record([6.0, 6.5], 6.2)]
    (found,) = ledger_curves(records, [PPL]).metrics
    assert (found.name, found.direction) == ("dev_ppl_at_checkpoints", "min")
    assert "in another way than the rows' own dev_ppl" in found.description
    (old,) = ledger_curves(records, [PPL], renamed=False).metrics
    assert old == Metric("dev_ppl", "min")


def test_metrics_of_checkpoints_only():
    records = [record([9.0, 7.0], 7.0, dev_bleu_sample=[1.0, 2.0], odd=[5.0, 5.0])]
    found = ledger_curves(records, [PPL])
    assert [(m.name, m.direction) for m in found.metrics] == [("dev_ppl", "min"), ("dev_bleu_sample", "max")]
    assert found.own == ("best", None)
    # One that is not measured at every checkpoint of every row is left out.
    assert len(ledger_curves([*records, record([9.0], 9.0)], [PPL]).metrics) == 1


def test_a_training_that_diverged_stops_there():
    found = ledger_curves([record([9.0, 7.0, 1e200, 8.0], 7.0), record([5.0], 5.0)], [PPL])
    np.testing.assert_array_equal(found.values[:, 0], [9.0, 7.0, np.nan, 5.0])
    assert found.starts.tolist() == [0, 3, 4]
    assert found.own == ("best",)


def test_no_curves():
    bare = Record({"x": 2}, 0, 0, "done", metrics={"dev_ppl": 5.0})
    assert ledger_curves([bare, bare], [PPL]) is None
    assert ledger_curves([record([9.0], 9.0)], [BLEU]) is None
    odd = Record({"x": 2}, 0, 0, "done", metrics={"dev_ppl": 5.0}, curve=[{"dev_ppl": 5.0}])
    assert ledger_curves([odd], [PPL]) is None


def test_curves_that_make_no_sense_are_refused():
    twice = Record({"x": 2}, 0, 0, "done", metrics={}, curve=[{"update": 1, "dev_ppl": 5.0}] * 2)
    with pytest.raises(InputError, match="row 0, checkpoint 2: update must increase"):
        ledger_curves([twice], [PPL])


def test_a_row_without_a_value_is_one_with_its_diverged_last_checkpoint():
    diverged = record([9.0, 1e200], 0.0)
    lost = Record({"x": 2}, 0, 0, "done", metrics={}, curve=diverged.curve)
    assert ledger_curves([record([9.0, 8.0, 8.5], 8.5), lost], [PPL]).own == ("last",)
