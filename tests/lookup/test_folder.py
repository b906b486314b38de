import tomllib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.folder import add_table, load_folder, save_folder
from hpobench_nmt.lookup.table import Table

SHEET = """
name = "mine"
[hyperparameters.lr]
scale = "log"
[metrics.ppl]
direction = "min"
"""
CSV = "lr,ppl\n0.001,50.5\n0.01,40\n0.1,\n"


@pytest.fixture
def own(tmp_path):
    """A user's CSV file and its datasheet."""
    (tmp_path / "mine.csv").write_text(CSV)
    (tmp_path / "mine.toml").write_text(SHEET)
    return tmp_path


def test_a_table_survives_the_disk_exactly(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    again = load_folder(tmp_path / "toy")
    np.testing.assert_array_equal(again.values, toy.values)
    np.testing.assert_array_equal(again.features, toy.features)
    assert again.sha256 == toy.sha256
    for name in ("name", "hyperparameters", "metrics", "objectives", "provenance"):
        assert getattr(again, name) == getattr(toy, name)


@given(
    st.lists(
        st.one_of(st.none(), st.floats(-1e150, 1e150)),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_survives_the_disk_exactly(tmp_path, numbers):
    values = np.array([[np.nan if n is None else n] for n in numbers])
    table = Table(
        "n", (Hyperparameter("x", (0.1, 0.3)),), (Metric("m", "min"),), np.array([[0.1], [0.3]]), values
    )
    save_folder(table, tmp_path / "n")
    np.testing.assert_array_equal(load_folder(tmp_path / "n").values, values)


def test_saving_again_replaces_the_old_table_and_leaves_nothing_else(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    save_folder(toy, tmp_path / "toy")
    assert [p.name for p in tmp_path.iterdir()] == ["toy"]
    assert sorted(p.name for p in (tmp_path / "toy").iterdir()) == ["datasheet.toml", "table.csv"]


def test_add_takes_a_csv_and_a_short_datasheet(own, tmp_path):
    table, folder = add_table(own / "mine.csv", None, tmp_path / "installed")
    assert len(table) == 3
    assert table.objectives == ("ppl",)
    assert table.hyperparameters[0].values == (0.001, 0.01, 0.1)
    np.testing.assert_array_equal(load_folder(folder).column("ppl"), [50.5, 40, np.nan])
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    assert sheet["rows"]["count"] == 3
    assert len(sheet["rows"]["sha256"]) == 64


def test_add_takes_a_folder_with_and_without_a_hash(own, tmp_path, toy):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "table.csv").write_text(CSV)
    (folder / "datasheet.toml").write_text(SHEET)
    assert add_table(folder, None, tmp_path / "installed")[0].name == "mine"
    save_folder(toy, tmp_path / "toy")
    assert add_table(tmp_path / "toy", None, tmp_path / "installed")[0].sha256 == toy.sha256


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("lr,ppl\n0.001,50\n0.01,forty\n", "mine.csv, line 3: 'ppl' is 'forty', not a number"),
        ("lr,ppl\n0.001,50\n,40\n", "mine.csv, line 3: hyperparameter 'lr' is missing or not finite"),
        ("lr,ppl\n0.001,50\n0.01,inf\n", "mine.csv, line 3: metric 'ppl' is infinite"),
        ("lr,ppl\n0.001,50\n0.01,-1e151\n", "mine.csv, line 3: metric 'ppl' is -1e+151, beyond 1e+150"),
        ("lr,ppl\n0.001,50\n1e200,40\n", "mine.toml: hyperparameter 'lr' has a value beyond 1e+150"),
        ("lr,ppl\n1e-200,50\n1,40\n", "mine.toml: hyperparameter 'lr': a log scale needs values of 1e-150"),
        ("lr,ppl\n0.001,50\n0.001,40\n", "rows 0, 1 have the same configuration"),
        ("lr,ppl\n0.001,True\n0.01,False\n", "not a number"),
        ("lr,pl\n0.001,50\n", "unknown column 'ppl'. Did you mean 'pl'?"),
        ("lr,ppl,extra\n0.001,50,1\n", "column 'extra' is not described"),
        ("lr,ppl\n", "has no rows"),
        ("", "not a CSV table"),
        ("lr,ppl\n1,2,3\n4,5,6,7\n", "not a CSV table"),
        ("lr,ppl\n-1,50\n2,40\n", "a log scale needs positive values"),
        (b"lr,ppl\n0.001,\xff\n", "not UTF-8 text"),
    ],
)
def test_add_names_what_is_wrong_with_a_csv(own, tmp_path, csv, message):
    (own / "mine.csv").write_bytes(csv if isinstance(csv, bytes) else csv.encode())
    with pytest.raises(InputError) as error:
        add_table(own / "mine.csv", None, tmp_path / "installed")
    assert message in str(error.value)
    assert not (tmp_path / "installed").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("scale", "scal"),
            "unknown key 'hyperparameters.lr.scal'. Did you mean 'hyperparameters.lr.scale'?",
        ),
        (('"log"', '"logarithmic"'), "scale must be 'linear' or 'log'"),
        (
            ('direction = "min"', 'unit = "x"'),
            "mine.toml: metrics.ppl.direction is missing; it must be 'max' or 'min'",
        ),
        (('"min"', '"down"'), "direction must be 'max' or 'min', not 'down'"),
        (('name = "mine"', 'name = "a/b"'), "cannot be used"),
        (('name = "mine"', "name = mine"), "not valid TOML"),
        (('name = "mine"', "format = 7"), "format 7 is not supported"),
        (("[metrics.ppl]", "[metrics.pp]"), "unknown column 'pp'. Did you mean 'ppl'?"),
        (('scale = "log"', "values = [0.001, 0.01]"), "row 2: lr is 0.1, which is not among its values"),
        (('scale = "log"', 'values = ["a"]'), "values[0] must be a finite number, not 'a'"),
    ],
)
def test_add_names_what_is_wrong_with_a_datasheet(own, tmp_path, change, message):
    (own / "mine.toml").write_text(SHEET.replace(*change))
    with pytest.raises(InputError) as error:
        add_table(own / "mine.csv", None, tmp_path / "installed")
    assert message in str(error.value)


def test_a_tampered_or_truncated_table_is_refused(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    rows = tmp_path / "toy" / "table.csv"
    good = rows.read_bytes()
    for bad in (good[:-20], good.replace(b"256", b"512", 1), b""):
        rows.write_bytes(bad)
        with pytest.raises(InputError, match="SHA-256"):
            load_folder(tmp_path / "toy")
    rows.unlink()
    with pytest.raises(InputError, match=r"has no table\.csv"):
        load_folder(tmp_path / "toy")


def test_a_folder_without_datasheet_or_with_a_wrong_count_is_refused(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    sheet = tmp_path / "toy" / "datasheet.toml"
    good = sheet.read_text()
    sheet.write_text(good.replace("count = 36", "count = 35"))
    with pytest.raises(InputError, match="count is 35, the file has 36 rows"):
        load_folder(tmp_path / "toy")
    sheet.unlink()
    with pytest.raises(InputError, match=r"has no datasheet\.toml"):
        load_folder(tmp_path / "toy")
    with pytest.raises(InputError, match="no such folder"):
        load_folder(tmp_path / "nowhere")


def test_the_sentinel_stands_for_missing(tmp_path):
    (tmp_path / "t.csv").write_text("x,memory\n1,0\n2,512\n")
    (tmp_path / "t.toml").write_text(
        '[hyperparameters.x]\n[metrics.memory]\ndirection = "min"\nmissing = 0\n'
    )
    table, folder = add_table(tmp_path / "t.csv", None, tmp_path / "installed")
    np.testing.assert_array_equal(table.column("memory"), [np.nan, 512])
    assert (folder / "table.csv").read_text() == "x,memory\n1,0\n2,512\n"
