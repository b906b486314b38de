from __future__ import annotations

import dataclasses
import hashlib

import msgspec
import numpy as np
import pytest
from fuzzing.mutations import mutate_csv
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.validation import checked
from hpobench_nmt.core.trainings import checkpoint_text
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk import curve_files
from hpobench_nmt.lookup.disk.curve_files import CurvesSection, curves_csv, curves_section, read_curves

PPL, BLEU = Metric("ppl", "min", "nats"), Metric("bleu", "max", description="of a sample")
# Row 1 has no curve; row 2's training diverged at its last checkpoint.
GOOD = {
    "resource": "update",
    "metrics": (PPL, BLEU),
    "own": ("best", None),
    "starts": [0, 3, 3, 5],
    "resources": [10.0, 20.0, 40.0, 10.0, 20.0],
    "costs": [1.5, 2.5, 7.25, 0.1, 0.3],
    "values": [[9.0, 1.0], [8.0, 2.0], [8.5, 1.5], [7.0, 3.0], [np.nan, np.nan]],
    "cost_unit": "s",
    "resource_unit": "updates",
}


def curves(**change):
    return Curves(**(GOOD | change))


def test_a_rows_curve():
    found = curves()
    assert len(found) == 3
    assert found.lengths.tolist() == [3, 0, 2]
    assert found[0].resources.tolist() == [10.0, 20.0, 40.0]
    assert found[-1].costs.tolist() == [0.1, 0.3]
    assert found[0].values[:, 1].tolist() == [1.0, 2.0, 1.5]
    assert found[1].values.shape == (0, 2)
    assert found.column("bleu")[3] == 3.0
    with pytest.raises(IndexError):
        found[3]
    with pytest.raises(InputError, match="Did you mean 'bleu'"):
        found.column("blue")
    assert repr(found) == "Curves(3 rows, 5 checkpoints of ppl, bleu)"
    for array in (found.starts, found.resources, found.costs, found.values):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"costs": [1.0, 1.0, 2.0, 1.0, 2.0]}, "row 0, checkpoint 2: cost must increase"),
        ({"costs": [1.0, 2.0, 1.5, 1.0, 2.0]}, "row 0, checkpoint 3: cost must increase"),
        ({"costs": [1.0, 2.0, 3.0, -1.0, 2.0]}, "row 2, checkpoint 1: cost is below 0"),
        ({"costs": [1.0, np.nan, 3.0, 1.0, 2.0]}, "row 0, checkpoint 2: cost is missing or not finite"),
        ({"costs": [1.0, 2.0, 3.0, 1.0, np.inf]}, "row 2, checkpoint 2: cost is missing or not finite"),
        ({"costs": [1.0, 2.0, 3.0, 1.0, 1e151]}, "row 2, checkpoint 2: cost is beyond 1e\\+150"),
        ({"costs": [1.0, 2.0, 1e150, 1.0, 1e150]}, None),
        ({"resources": [10.0, 20.0, 40.0, -1.0, 20.0]}, "row 2, checkpoint 1: update is below 0"),
        ({"resources": [10.0, 20.0, 2e150, 10.0, 20.0]}, "row 0, checkpoint 3: update is beyond"),
        ({"resources": [10.0, 5.0, 40.0, 10.0, 20.0]}, "row 0, checkpoint 2: update must increase"),
        ({"resources": [10.0, 20.0, 40.0, np.nan, 20.0]}, "row 2, checkpoint 1: update is missing"),
        ({"resources": [10.0, 20.0]}, "2 resources, 5 costs and 5 values"),
        ({"starts": [0, 3, 5]}, None),
        ({"starts": [0, 3, 2, 5]}, "starts must go from 0 up to 5"),
        ({"starts": [0, 3, 3, 4]}, "starts must go from 0 up to 5"),
        ({"starts": [1, 3, 3, 5]}, "starts must go from 0 up to 5"),
        ({"metrics": (PPL,)}, "for each of them how it gives the row's own value"),
        ({"metrics": (PPL, PPL)}, "'ppl' is used more than once"),
        ({"resource": "ppl"}, "'ppl' is used more than once"),
        ({"resource": "cost"}, "'cost' is used more than once"),
        ({"resource": "row"}, "'row' is used more than once"),
        ({"resource": "checkpoint"}, "'checkpoint' is used more than once"),
        ({"metrics": (), "own": ()}, "one metric or more"),
        ({"values": np.ones((5, 3))}, "values must have shape"),
    ],
)
def test_what_is_no_curve_is_refused(change, reason):
    if reason is None:
        curves(**change)
        return
    with pytest.raises(InputError, match=reason):
        curves(**change)


def test_a_cost_of_0_everywhere_is_refused():
    ones = {"starts": [0, 1, 1, 2], "resources": [1.0, 1.0], "values": [[1.0, 1.0]] * 2}
    with pytest.raises(InputError, match="cost is 0 everywhere"):
        curves(**ones, costs=[0.0, 0.0])
    curves(**ones, costs=[0.0, 1.0])


def test_a_value_may_be_missing_at_the_end_or_everywhere_but_not_in_the_middle():
    values = np.array(GOOD["values"])
    values[:3, 1] = np.nan  # row 0 has no bleu at all
    curves(values=values)
    values[1, 0] = np.nan
    with pytest.raises(InputError, match="row 0, checkpoint 2: ppl is missing before the last checkpoint"):
        curves(values=values)
    values = np.array(GOOD["values"])
    values[0, 1] = np.nan
    with pytest.raises(InputError, match="row 0, checkpoint 1: bleu is missing before"):
        curves(values=values)
    values = np.array(GOOD["values"])
    values[2] = [np.inf, -1.1e150]  # of a training that diverged: as if they were not there
    lost = curves(values=values)
    assert np.isnan(lost.values[2]).all() and not np.isnan(lost.values[:2]).any()
    values[1, 1] = -np.inf
    with pytest.raises(InputError, match="row 0, checkpoint 2: bleu is missing before"):
        curves(values=values)


def test_curves_of_some_rows():
    some = curves().of_rows([2, 1, 0])
    assert some.lengths.tolist() == [2, 0, 3]
    for row, place in ((2, 0), (0, 2)):
        for one, other in zip(curves()[row], some[place], strict=True):
            np.testing.assert_array_equal(one, other)
    assert some.of_rows([2, 1, 0]).sha256 == curves().sha256 != some.sha256


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("costs", [1.5, 2.5, 7.25, 0.1, 0.4]),
        ("resource", "epoch"),
        ("resources", [10.0, 20.0, 41.0, 10.0, 20.0]),
        ("values", [[9.0, 1.0], [8.0, 2.5], [8.5, 1.5], [7.0, 3.0], [np.nan, np.nan]]),
        ("metrics", (PPL, dataclasses.replace(BLEU, name="chrf"))),
        ("starts", [0, 3, 5, 5]),
        ("metrics", (PPL, dataclasses.replace(BLEU, direction="min"))),
    ],
)
def test_the_hash_is_of_all_that_matters(name, value):
    assert curves(**{name: value}).sha256 != curves().sha256


def test_zeros_and_missing_values_of_any_sign_have_one_hash():
    plus, minus = (
        curves(costs=[zero, 2.5, 7.25, 0.1, 0.3], values=[*GOOD["values"][:4], [nan, nan]])
        for zero, nan in ((0.0, np.nan), (-0.0, -np.nan))
    )
    assert plus.sha256 == minus.sha256 != curves().sha256
    assert curves(cost_unit="h", own=(None, None)).sha256 == curves().sha256


def test_rows_without_a_curve_may_stand_anywhere():
    values = np.array(GOOD["values"])
    values[3:, 1] = np.nan
    found = curves(starts=[0, 0, 3, 3, 5, 5], values=values)
    assert found.lengths.tolist() == [0, 3, 0, 2, 0]
    places = [(1, 1), (1, 2), (1, 3), (3, 1), (3, 2)]
    texts = [f"row {row}, checkpoint {checkpoint}" for row, checkpoint in places]
    assert [checkpoint_text(found.starts, at) for at in range(5)] == texts
    values[1, 0] = np.nan
    with pytest.raises(InputError, match="row 1, checkpoint 2: ppl is missing before the last checkpoint"):
        curves(starts=[0, 0, 3, 3, 5, 5], values=values)
    assert len(curves(starts=[0, 0], resources=[], costs=[], values=np.empty((0, 2)))) == 1


def test_curves_of_some_rows_only():
    some = curves().only(np.array([False, True, True]))
    assert some.lengths.tolist() == [0, 0, 2]
    for one, other in zip(curves()[2], some[2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert curves().only(np.ones(3, bool)).sha256 == curves().sha256
    assert (some.resource, some.metrics, some.own, some.cost_unit) == (
        "update",
        (PPL, BLEU),
        ("best", None),
        "s",
    )
    assert (curves().of_rows([0]).cost_unit, curves().of_rows([0]).resource_unit) == ("s", "updates")


# --- on disk ---------------------------------------------------------------------------------------


def section_of(found, metrics=(PPL,)):
    content = curves_csv(found)
    counted = {"count": len(found.costs), "sha256": hashlib.sha256(content).hexdigest()}
    return content, checked(counted | curves_section(found, metrics), CurvesSection, "datasheet")


def test_the_file_is_what_the_page_says(tmp_path):
    content, section = section_of(curves())
    assert content.decode() == (
        "row,checkpoint,update,cost,ppl,bleu\n0,1,10,1.5,9,1\n0,2,20,2.5,8,2\n0,3,40,7.25,8.5,1.5\n"
        "2,1,10,0.1,7,3\n2,2,20,0.3,,\n"
    )
    assert section.count == 5
    assert section.metrics["ppl"].own == "best"
    assert section.metrics["ppl"].direction is None
    assert section.metrics["bleu"].direction == "max"
    found = read_curves(content, section, (PPL,), 3, tmp_path / "curves.csv")
    assert found.sha256 == curves().sha256
    assert (found.metrics, found.own) == (curves().metrics, curves().own)
    assert (found.cost_unit, found.resource_unit) == ("s", "updates")


@given(st.data(), st.sampled_from([2**23, 40, 90]))
@settings(max_examples=40, deadline=None)
def test_any_curves_survive_the_disk_exactly_in_parts_of_any_size(data, part):
    lengths = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=8).filter(any))
    count = sum(lengths)
    numbers = st.floats(1e-3, 1e3)
    steps = [np.cumsum(data.draw(st.lists(numbers, min_size=n, max_size=n))) for n in lengths]
    values = data.draw(st.lists(st.tuples(*[st.floats(-1e150, 1e150)] * 2), min_size=count, max_size=count))
    steps = np.concatenate(steps)
    made = curves(starts=np.cumsum([0, *lengths]), resources=steps, costs=steps / 3, values=values)
    content, section = section_of(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curve_files, "_PART", part)
        found = read_curves(content, section, (PPL,), len(lengths), curve_files.Path("curves.csv"))
    assert found.sha256 == made.sha256


def test_a_unit_and_a_description_that_the_table_does_not_have_are_kept(tmp_path):
    made = curves(
        metrics=(dataclasses.replace(PPL, description="of a part"), dataclasses.replace(BLEU, unit="%"))
    )
    in_table = (Metric("ppl", "min", "bits", description="of the whole"),)
    content, section = section_of(made, in_table)
    found = read_curves(content, section, in_table, 3, tmp_path / "curves.csv")
    assert found.metrics == made.metrics


def test_a_large_file_is_read_in_parts(monkeypatch):
    monkeypatch.setattr(curve_files, "_PART", 50)  # bytes, beside the first line; a line has 12 to 15
    content, section = section_of(curves())
    names = ["row", "checkpoint", "update", "cost", *section.metrics]
    parts = list(curve_files._parts(content, curve_files.Wanted(names), curve_files.Path("curves.csv")))
    assert [(part["update"].tolist(), line) for part, line in parts] == [
        ([10.0, 20.0, 40.0], 2),
        ([10.0, 20.0], 5),
    ]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("2,1,10,", "3,1,10,", "line 5: row 3, checkpoint 1: rows go from 0 to 2"),
        ("2,1,10,", "1.5,1,10,", "line 5: row 1.5, checkpoint 1: rows go from 0 to 2"),
        ("2,1,10,", ",1,10,", "rows go from 0 to 2"),
        ("2,1,10,", "-1,1,10,", "line 5: row -1, checkpoint 1: rows go"),
        ("0,3,40,", "0,4,40,", "line 4: row 0, checkpoint 4: a row's checkpoints must be numbered 1, 2, 3"),
        ("0,2,20,", "0,1,20,", "line 3: row 0, checkpoint 1: a row's checkpoints must be numbered"),
        ("0,1,10,", "0,0,10,", "line 2: row 0, checkpoint 0: a row's checkpoints must be numbered"),
        ("2,1,10,", "2,2,10,", "line 5: row 2, checkpoint 2: a row's checkpoints must be numbered"),
        ("0,2,20,", "2,1,20,", "line 4: row 0, checkpoint 3: rows must be in ascending order"),
        ("0,3,40,7.25,8.5,1.5\n", "", "has 4 checkpoints; \\[curves\\] count is 5"),
        ("0.1,7", "x,7", "line 5: '?cost'? is 'x', not a number"),
        (",cost,", ",price,", "cost"),
        ("8,2", "8,", "row 0, checkpoint 2: bleu is missing before the last checkpoint"),
        ("8,2", "8", "line 3: only 5 of 6 cells"),
        ("2,1,10,0.1,7,3", "2,1,10,0.1", "line 5: only 4 of 6 cells"),
    ],
)
@pytest.mark.parametrize("part", [2**23, 50])
def test_a_file_that_is_out_of_order_is_refused_with_its_line(tmp_path, monkeypatch, old, new, reason, part):
    monkeypatch.setattr(curve_files, "_PART", part)
    content, section = section_of(curves())
    changed = content.decode().replace(old, new, 1).encode()
    assert changed != content
    with pytest.raises(InputError, match=reason) as caught:
        read_curves(changed, section, (PPL,), 3, tmp_path / "curves.csv")
    assert str(caught.value).startswith(str(tmp_path / "curves.csv"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"row" * 40,
        b"\xff\xfe" * 40,
        b"row,checkpoint,update,cost,ppl,bleu\n",
        b"\x1f\x8b\x08\r\x00row\n",  # as a file that is compressed may begin
        b"row," + b"a" * 200_000 + b"\n1,2\n",  # a cell longer than Python's reader of CSV files takes
    ],
)
@pytest.mark.parametrize("part", [2**23, 20])
def test_what_is_no_table_of_numbers_is_refused(tmp_path, monkeypatch, content, part):
    monkeypatch.setattr(curve_files, "_PART", part)
    _, section = section_of(curves())
    with pytest.raises(InputError, match=r"curves\.csv"):
        read_curves(content, section, (PPL,), 3, tmp_path / "curves.csv")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_without_costs_is_told_what_to_do(tmp_path, mark):
    content, section = section_of(curves())
    lines = [line.split(b",") for line in content.splitlines()]
    without = mark + b"".join(b",".join(cells[:3] + cells[4:]) + b"\n" for cells in lines)
    said = r"curves\.csv: has no column cost, .*repeat the column update under this name\.$"
    with pytest.raises(InputError, match=said):
        read_curves(without, section, (PPL,), 3, tmp_path / "curves.csv")
    for cells in lines[1:]:
        cells[3] = cells[2]  # what the message says to do
    repeated = mark + b"".join(b",".join(cells) + b"\n" for cells in lines)
    section = msgspec.structs.replace(section, sha256=None)
    found = read_curves(repeated, section, (PPL,), 3, tmp_path / "curves.csv")
    assert found.costs.tolist() == found.resources.tolist() == GOOD["resources"]


def test_lines_may_end_as_on_an_old_mac(tmp_path):
    content, section = section_of(curves())
    section = msgspec.structs.replace(section, sha256=None)
    found = read_curves(
        content.replace(b"\n", b"\r")[:-1] + b"\n", section, (PPL,), 3, tmp_path / "curves.csv"
    )
    assert found.costs.tolist() == curves().costs.tolist()


def test_curves_need_a_metric(tmp_path):
    with pytest.raises(InputError, match=r"needs a section \[curves.metrics.NAME\]"):
        read_curves(b"", CurvesSection(resource="update", metrics={}), (PPL,), 3, tmp_path / "curves.csv")


@pytest.mark.parametrize(
    ("metrics", "name", "change", "reason"),
    [
        ((), "ppl", {}, r"\[curves.metrics.ppl\]: own is 'best', but the table has no ppl"),
        ((), "ppl", {"own": None}, r"\[curves.metrics.ppl\]: direction is missing"),
        ((PPL,), "ppl", {"direction": "max"}, "direction is 'max', the table's is not"),
    ],
)
def test_a_section_that_does_not_fit_the_table_is_refused(tmp_path, metrics, name, change, reason):
    content, section = section_of(curves())
    entry = msgspec.structs.replace(section.metrics[name], **change)
    section = msgspec.structs.replace(section, metrics={**section.metrics, name: entry})
    with pytest.raises(InputError, match=reason):
        read_curves(content, section, metrics, 3, tmp_path / "curves.csv")


@pytest.mark.parametrize("part", [2**23, 60])
def test_a_mutated_file_gives_other_curves_or_an_error_in_one_line(tmp_path, monkeypatch, part):
    monkeypatch.setattr(curve_files, "_PART", part)
    content, section = section_of(curves())
    section = msgspec.structs.replace(section, count=None)
    refused = 0
    for seed in range(300):
        changed = mutate_csv(np.random.default_rng(seed), content)
        try:
            read_curves(changed, section, (PPL,), 3, tmp_path / "curves.csv")
        except InputError as error:
            refused += 1
            assert "curves.csv" in str(error)
            assert "\n" not in str(error)
    assert refused > 50
