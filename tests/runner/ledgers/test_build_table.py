"""Tables from ledgers: what is refused, and texts that no file can hold."""

import shutil
from pathlib import Path

import msgspec
import pandas as pd
import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import DATASHEET, LEDGER, SPEC, load_folder
from hpobench_nmt.runner.ledgers.build_table import build
from hpobench_nmt.runner.ledgers.ledger import Record, append, open_ledger, read_ledger
from hpobench_nmt.runner.ledgers.plan import refuse_other_spec
from hpobench_nmt.runner.specs.spec import SAME_SEED
from hpobench_nmt.runner.specs.spec_file import load_spec

TEXT = """
name = "small"
family = "awd-lstm"
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
layers = [1, 2]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / SPEC).write_text(TEXT)
    open_ledger(tmp_path / LEDGER, load_spec(tmp_path / SPEC).identity, {"licence": "MIT"})
    return tmp_path


def record(layers, **changes):
    usual = {"metrics": {"dev_ppl": 50.0}, "started": "2026-01-01T00:00:00+00:00"}
    return Record({"layers": layers}, 0, 1, "done", **(usual | changes))


def test_a_lone_surrogate_in_a_text_is_escaped(folder):
    append(folder / LEDGER, record(1, started="2026\ud800"))
    table, _ = build(folder)
    assert table.provenance["first"] == "2026\\ud800"


def test_the_specs_baseline_is_claimed_if_its_metric_was_measured(folder):
    append(folder / LEDGER, record(1))
    spec = folder / SPEC
    for metric in ("test_ppl", "dev_ppl"):
        text = f'[baseline]\nname = "trigrams"\nmetric = "{metric}"\nvalue = 60\nhow = "counted"\n[corpus]'
        spec.write_text(TEXT.replace("[corpus]", text))
        table, _ = build(folder)
        assert ("baseline" in table.claims) == (metric == "dev_ppl")
    assert load_folder(folder).claims["baseline"] == {
        "name": "trigrams",
        "metric": "dev_ppl",
        "value": 60,
        "how": "counted",
    }
    spec.write_text(spec.read_text().replace("dev_ppl", "dev_pol"))
    with pytest.raises(InputError, match=r"'dev_pol'.*dev_ppl.*\[baseline\]"):
        load_spec(spec)


def test_rows_that_cannot_be_repeated_are_told(folder):
    append(folder / LEDGER, record(1, nondeterministic="put_"))
    append(folder / LEDGER, record(2))
    told = build(folder)[0].provenance
    assert told["not_repeatable"] == "1 (not the same each time: put_)"
    assert (
        "except for its times and the metrics of the rows in not_repeatable; on another"
        in told["reproducible"]
    )


def test_the_noise_of_a_row_is_told(folder):
    for layers, again, ppl in ((1, 0, 50.0), (1, 1, 52.0), (2, 0, 53.0)):
        append(
            folder / LEDGER,
            msgspec.structs.replace(record(layers, metrics={"dev_ppl": ppl}), replicate=again),
        )
    told = build(folder)[0].provenance
    # The spread of 50 and 52 is the root of 2; Student's quantile for one degree of freedom is 12.7.
    assert told["seed_noise"] == (
        "dev_ppl: standard deviation 1.41 between trainings of a configuration (1 degree of freedom); "
        "rows less than 25.4 apart cannot be distinguished, and 2 of 2, including the best, are that near to "
        "the best"
    )
    assert "except for its times; on another" in told["reproducible"]


def test_a_metric_without_noise_is_told_so(folder):
    for again in (0, 1):
        append(folder / LEDGER, msgspec.structs.replace(record(1), replicate=again))
    told = build(folder)[0].provenance
    assert told["seed_noise"] == "dev_ppl: the same in all trainings of a configuration"


def test_a_configuration_that_failed_has_no_replicates(folder):
    failed = msgspec.structs.replace(record(1, metrics={}), status="failed", reason="diverged")
    append(folder / LEDGER, failed)
    append(folder / LEDGER, msgspec.structs.replace(record(1), replicate=1))
    append(folder / LEDGER, record(2))
    append(folder / LEDGER, msgspec.structs.replace(record(2), replicate=1))
    table, _ = build(folder)
    assert table.configs.tolist() == [[2.0]]
    assert load_folder(folder).replicates.to_frame()["layers"].tolist() == [2.0]


def test_a_row_off_the_grid_makes_no_table(folder):
    append(folder / LEDGER, record(1))
    append(folder / LEDGER, record(3))
    with pytest.raises(InputError, match="layers = 3, which is not on the grid"):
        build(folder)
    assert not (folder / "table.csv").exists()


def test_records_without_metrics_make_no_table(folder):
    append(folder / LEDGER, record(1, metrics={}))
    with pytest.raises(InputError, match="no record has one of the spec's metrics"):
        build(folder)


def test_a_table_without_an_objective_is_told_of(folder):
    append(folder / LEDGER, record(1, metrics={"num_param": 50.0}))
    told = []
    table, _ = build(folder, told.append)
    assert table.objectives == ()
    assert "no training measured dev_ppl, so the table has no objective. Name a measured metric" in told[-1]
    append(folder / LEDGER, record(2))
    told.clear()
    assert build(folder, told.append)[0].objectives == ("dev_ppl",)
    assert not any("no objective" in line for line in told)


@pytest.mark.parametrize("name", ["lohelp-de-en", "sotu-awd-lstm", "sotu-dyneval", "sotu-dyneval-short"])
def test_the_shipped_tables_are_built_from_their_ledgers_and_these_can_go_on(tmp_path, name):
    shipped = Path(__file__).parents[3] / "tables" / name  # an installed package leaves ledgers out
    for file in (SPEC, LEDGER, DATASHEET):
        shutil.copy(shipped / file, tmp_path)
    build(tmp_path)
    known = {file.name: file.read_bytes() for file in shipped.iterdir()}
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == known
    spec = load_spec(tmp_path / SPEC)
    refuse_other_spec(tmp_path / LEDGER, read_ledger(tmp_path / LEDGER), spec.identity, spec.family.defaults)


def test_how_to_cite_a_table_is_kept_when_it_is_built_again(folder):
    append(folder / LEDGER, record(1))
    build(folder)
    sheet = folder / DATASHEET
    by_hand = 'citation = "A 2026"\ncreator = "A"\nseed_noise = "none"\n'
    sheet.write_text(sheet.read_text().replace("[provenance]\n", f"[provenance]\n{by_hand}"))
    append(folder / LEDGER, record(2))
    provenance = build(folder)[0].provenance
    assert (provenance["citation"], provenance["creator"]) == ("A 2026", "A")
    assert "seed_noise" not in provenance  # it is computed from the ledger
    assert load_folder(folder).provenance == provenance
    sheet.write_text("[provenance")
    assert "citation" not in build(folder)[0].provenance


def test_trainings_again_with_a_rows_own_seed_are_told_and_are_no_replicates(folder):
    for again, ppl in ((0, 50.0), (1, 52.0), (SAME_SEED + 1, 50.25), (SAME_SEED + 2, 49.5)):
        append(folder / LEDGER, msgspec.structs.replace(record(1, metrics={"dev_ppl": ppl}), replicate=again))
    table, _ = build(folder)
    assert table.provenance["same_seed"] == (
        "2 trainings again with a row's own seed: dev_ppl is at most 0.5 away from the row's"
    )
    assert pd.read_csv(folder / "replicates.csv")["replicate"].tolist() == [1]


def test_a_spec_that_is_a_link_is_not_followed(folder, tmp_path):
    append(folder / LEDGER, record(1))
    (folder / SPEC).rename(folder / "elsewhere.toml")
    (folder / SPEC).symlink_to(folder / "elsewhere.toml")
    with pytest.raises(InputError, match="is a symbolic link"):
        build(folder)


def test_texts_and_booleans_on_a_grid_become_categories(tmp_path):
    grid = 'dynamic_rule = ["sgd", "rms-prior", "none"]\nfine_tune = [true, false]\nlearning_rate = [10, 1]'
    (tmp_path / SPEC).write_text(TEXT.replace("layers = [1, 2]", grid))
    spec = load_spec(tmp_path / SPEC)
    assert spec.size == 12 and [spec.row(spec.configuration(row)) for row in range(12)] == list(range(12))
    assert spec.configuration(0) == {"dynamic_rule": "sgd", "fine_tune": True, "learning_rate": 1}
    assert spec.settings(spec.configuration(0)).fine_tune is True
    assert len({spec.training_seed(spec.configuration(row), 0) for row in range(12)}) == 12
    open_ledger(tmp_path / LEDGER, spec.identity, {"licence": "MIT"})
    for row in (5, 0, 7):
        record = Record(
            spec.configuration(row), 0, 1, "done", metrics={"dev_ppl": 50.0 + row}, started="2026"
        )
        append(tmp_path / LEDGER, record)
    append(
        tmp_path / LEDGER,
        Record(spec.configuration(7), 1, 2, "done", metrics={"dev_ppl": 9.0}, started="2026"),
    )
    table, _ = build(tmp_path)
    assert [table.config(row) for row in range(3)] == [spec.configuration(row) for row in (0, 5, 7)]
    assert table.space["dynamic_rule"].values == ("sgd", "rms-prior")  # no row has the third
    assert table.space["fine_tune"].kind == "categorical"
    again = pd.read_csv(tmp_path / "replicates.csv")
    assert again[["dynamic_rule", "fine_tune"]].to_numpy().tolist() == [["rms-prior", False]]
    append(tmp_path / LEDGER, Record({**spec.configuration(1), "dynamic_rule": "sdg"}, 0, 1, "done"))
    with pytest.raises(InputError, match="dynamic_rule = sdg, which is not on the grid"):
        build(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ("neighbours = 1\n", "", 8),
        ("points = 8", "points = 6", 6),
        ("points = 8", "points = 12", 8),
        ("points = 8\nneighbours = 1\n", "", 8 + 2),  # the whole grid
    ],
)
def test_neighbours_stay_no_rows_when_the_spec_is_edited(tmp_path, old, new, rows):
    spec, sample = with_neighbours(tmp_path)
    more = tmp_path / "more.toml"
    more.write_text((tmp_path / SPEC).read_text().replace("points = 8", "points = 12"))
    near = sorted(set(spec.neighbours_of(sample[3])) - set(load_spec(more).sample.tolist()))[:2]
    assert len(near) == 2
    for row in sample + near:
        metrics = {"dev_ppl": 40.0 if row == sample[3] else 39.5 if row == near[0] else 50.0 + row}
        done = Record(spec.configuration(row), 0, 1, "done", metrics=metrics, started="2026")
        append(tmp_path / LEDGER, done)
    (tmp_path / SPEC).write_text((tmp_path / SPEC).read_text().replace(old, new))
    table, _ = build(tmp_path)
    assert len(table) == rows
    assert ("neighbours" in table.provenance) == (rows < 10)


def test_the_rows_of_a_search_make_a_table_even_if_the_spec_has_points(tmp_path):
    """`tune` chooses among the whole grid."""
    spec, sample = with_neighbours(tmp_path)
    others = [row for row in range(spec.size) if row not in sample][:5]
    for row in (*others, *sample[:3]):
        metrics = {"dev_ppl": 40.0 + row}
        done = Record(spec.configuration(row), 0, 1, "done", metrics=metrics, started="2026")
        append(tmp_path / LEDGER, done)
    assert len(build(tmp_path)[0]) == 8


def with_neighbours(folder):
    """A spec with points and neighbours, and the rows of its sample. Its ledger is empty."""
    grid = "layers = [1, 2, 3, 4]\nembedding_size = [8, 16, 24, 32, 40]"
    text = TEXT.replace("layers = [1, 2]", grid).replace("[corpus]", "points = 8\nneighbours = 1\n[corpus]")
    (folder / SPEC).write_text(text)
    spec = load_spec(folder / SPEC)
    open_ledger(folder / LEDGER, spec.identity, {})
    return spec, spec.sample.tolist()


def test_neighbours_of_the_best_points_are_no_rows_that_show_where_the_best_is(tmp_path):
    spec, sample = with_neighbours(tmp_path)
    near = sorted(set(spec.neighbours_of(sample[3])) - set(sample))
    for row in sample + near:
        loss = 40.0 if row == sample[3] else 39.5 if row == near[0] else 50.0 + row
        for replicate in (0, 1):
            config, metrics = spec.configuration(row), {"dev_ppl": loss}
            done = Record(config, replicate, 1, "done", metrics=metrics, started="2026")
            append(tmp_path / LEDGER, done)
    table, _ = build(tmp_path)
    assert len(table) == 8 and table.column("dev_ppl").min() == 40.0
    assert table.claims["configurations"] == 8 and table.claims["complete"]
    assert table.provenance["neighbours"] == (
        f"{len(near)} grid neighbours of the best points were trained as well, and are in the ledger alone: "
        "their best dev_ppl is 39.5, that of the rows 40"
    )
