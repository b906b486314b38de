"""Curves as part of a table: in memory, in its folder, in its checks."""

from __future__ import annotations

import dataclasses
import tomllib

import numpy as np
import pytest
import tomli_w

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import check_table
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.folder import add_table, load_folder, save_folder


@pytest.fixture
def curved(toy):
    """The toy table with curves of 1 to 3 checkpoints, whose best is the row's own bleu."""
    lengths = np.arange(len(toy)) % 3 + 1
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    bleu = np.repeat(toy.column("bleu"), lengths) - 0.5 * (np.repeat(lengths, lengths) - steps)
    curves = Curves(
        "update",
        (Metric("bleu", "max", "BLEU"), Metric("ppl", "min")),
        ("best", None),
        np.concatenate([[0], np.cumsum(lengths)]),
        100 * steps,
        0.1 * steps,
        np.column_stack([bleu, 30 - steps]),
        "s",
    )
    return dataclasses.replace(toy, curves=curves)


def test_a_rows_curve(curved, toy):
    assert curved.curve(2).resources.tolist() == [100.0, 200.0, 300.0]
    assert curved.curve(2).values[-1, 0] == curved.column("bleu")[2]
    assert curved.sha256 == toy.sha256  # what is looked up has not changed
    with pytest.raises(InputError, match="has no learning curves"):
        toy.curve(0)


def test_curves_must_fit_the_table(curved, toy):
    with pytest.raises(InputError, match="curves of 2 rows"):
        dataclasses.replace(toy, curves=curved.curves.of_rows([0, 1]))
    other = dataclasses.replace(curved.curves, metrics=(Metric("bleu", "min"), Metric("ppl", "min")))
    with pytest.raises(InputError, match="bleu has another direction in the curves"):
        dataclasses.replace(toy, curves=other)
    unknown = dataclasses.replace(curved.curves, own=("best", "last"))
    with pytest.raises(InputError, match="curves' ppl is not one of its metrics"):
        dataclasses.replace(toy, curves=unknown)


def test_the_trainings_of_a_table(curved, toy):
    made = curved.trainings(["bleu", "seconds"], resume=False)
    assert not made.resume
    np.testing.assert_array_equal(made.losses[:, 0], -curved.curves.column("bleu"))
    np.testing.assert_array_equal(made.losses[:, 1], np.repeat(toy.column("seconds"), curved.curves.lengths))
    np.testing.assert_array_equal(made.best[made.starts[1:] - 1, 0], -toy.column("bleu"))
    assert made.costs is not curved.curves.costs
    np.testing.assert_array_equal(made.costs, curved.curves.costs)
    with pytest.raises(InputError, match=r"curves lack 'seconds', .*They have bleu, ppl: name one"):
        curved.trainings(["seconds", "bleu"])
    with pytest.raises(InputError, match="has no learning curves"):
        toy.trainings(["bleu"])
    lengths = curved.curves.lengths.copy()
    kept = np.repeat(np.arange(len(toy)) != 1, lengths)
    lengths[1] = 0
    without = dataclasses.replace(
        curved.curves,
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        **{name: getattr(curved.curves, name)[kept] for name in ("resources", "costs", "values")},
    )
    with pytest.raises(InputError, match=f"1 of {len(toy)} rows has no learning curve, row 1 for one"):
        dataclasses.replace(toy, curves=without).trainings(["bleu"])


def test_a_folder_keeps_the_curves_exactly(curved, tmp_path):
    save_folder(curved, tmp_path / "toy")
    sheet = tomllib.loads((tmp_path / "toy" / "datasheet.toml").read_text())
    assert sheet["format"] == 2
    assert sheet["curves"]["metrics"]["bleu"] == {"own": "best"}
    again = load_folder(tmp_path / "toy")
    assert again.curves.sha256 == curved.curves.sha256
    assert (again.curves.metrics, again.curves.own) == (curved.curves.metrics, curved.curves.own)
    assert again.sha256 == curved.sha256
    save_folder(again, tmp_path / "again")
    for name in ("table.csv", "curves.csv", "datasheet.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "toy" / name).read_bytes()
    table, folder = add_table(tmp_path / "toy", None, tmp_path / "installed")
    assert load_folder(folder).curves.sha256 == table.curves.sha256 == curved.curves.sha256


def test_a_table_without_curves_is_written_as_before(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    assert sorted(path.name for path in (tmp_path / "toy").iterdir()) == ["datasheet.toml", "table.csv"]
    assert tomllib.loads((tmp_path / "toy" / "datasheet.toml").read_text())["format"] == 1
    assert load_folder(tmp_path / "toy").curves is None


def test_curves_of_no_row_leave_a_folder_that_can_be_read(curved, tmp_path):
    none = curved.curves.only(np.zeros(len(curved), dtype=bool))
    save_folder(dataclasses.replace(curved, curves=none), tmp_path / "toy")
    assert load_folder(tmp_path / "toy").curves is None
    assert not (tmp_path / "toy" / "curves.csv").exists()


def test_changed_missing_and_linked_curves_are_refused(curved, tmp_path):
    save_folder(curved, tmp_path / "toy")
    path = tmp_path / "toy" / "curves.csv"
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    with pytest.raises(InputError, match=r"curves.csv: SHA-256 is .* was changed or cut short"):
        load_folder(tmp_path / "toy")
    path.unlink()
    with pytest.raises(InputError, match=r"has no curves\.csv"):
        load_folder(tmp_path / "toy")
    (tmp_path / "elsewhere.csv").write_bytes(content)
    path.symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(InputError, match="symbolic link"):
        load_folder(tmp_path / "toy")


def test_a_datasheet_that_says_something_odd_of_the_curves_is_refused(curved, tmp_path):
    save_folder(curved, tmp_path / "toy")
    path = tmp_path / "toy" / "datasheet.toml"
    sheet = tomllib.loads(path.read_text())
    del sheet["claims"]  # the hash of what is changed here
    for change, reason in (
        ({"count": 5}, r"curves.csv: has \d+ checkpoints; \[curves\] count is 5"),
        ({"sha256": None}, r"\[curves\] has no sha256"),
        ({"resource": None}, "curves.resource is missing"),
        ({"unit": "s"}, "unknown key 'curves.unit'"),
        ({"metrics": {"bleu": {"own": "first"}}}, "curves.metrics.bleu.own must be 'best' or 'last'"),
        ({"metrics": {"ppl": {}}}, "curves.csv"),
    ):
        changed = sheet["curves"] | change
        section = {key: value for key, value in changed.items() if value is not None}
        path.write_text(tomli_w.dumps(sheet | {"curves": section}))
        with pytest.raises(InputError, match=reason):
            load_folder(tmp_path / "toy")


def test_a_users_own_table_may_have_curves(tmp_path):
    (tmp_path / "mine.csv").write_text("lr,ppl\n0.001,50.5\n0.01,40\n")
    (tmp_path / "curves.csv").write_text(
        "row,checkpoint,epoch,cost,ppl\n0,1,1,2.5,60\n0,2,2,5,50.5\n1,1,1,2,40\n"
    )
    (tmp_path / "mine.toml").write_text(
        '[hyperparameters.lr]\n[metrics.ppl]\ndirection = "min"\n'
        '[curves]\nresource = "epoch"\ncost_unit = "h"\n[curves.metrics.ppl]\nown = "best"\n'
    )
    table, folder = add_table(tmp_path / "mine.csv", None, tmp_path / "installed")
    assert load_folder(folder).curve(0).values.tolist() == [[60.0], [50.5]]
    facts = [finding.fact for finding in check_table(table)]
    assert "ppl of every row is the best of its curve" in facts
    (tmp_path / "curves.csv").write_text(
        "row,checkpoint,epoch,cost,ppl\n0,1,1,2.5,60\n0,2,2,1,50.5\n1,1,1,2,40\n"
    )
    with pytest.raises(InputError, match=r"curves\.csv: curves, row 0, checkpoint 2: cost must increase"):
        add_table(tmp_path / "mine.csv", None, tmp_path / "installed")
    (tmp_path / "curves.csv").unlink()
    with pytest.raises(InputError, match=r"has no curves\.csv"):
        add_table(tmp_path / "mine.csv", None, tmp_path / "installed")
