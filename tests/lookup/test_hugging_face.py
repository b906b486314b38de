"""A table as a data set of the hub: files, card, Croissant, and what may not be passed on."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.core.hyperparameter import Hyperparameter, label
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import find_folder, load_table
from hpobench_nmt.lookup.descriptors import Descriptors
from hpobench_nmt.lookup.disk.folder import add_table, save_folder
from hpobench_nmt.lookup.disk.hugging_face import write_data_set
from hpobench_nmt.lookup.replicates import Replicates
from hpobench_nmt.lookup.table import Table

pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # of mlcroissant's


def front_matter(folder):
    """The card's head: each value is JSON."""
    _, head, text = (folder / "README.md").read_text().split("---\n", 2)
    pairs = (line.split(": ", 1) for line in head.splitlines())
    return {key: json.loads(value) for key, value in pairs}, text


def test_a_shipped_table_with_curves_and_replicates(tmp_path):
    files = write_data_set(find_folder("sotu-awd-lstm"), tmp_path / "out")
    assert {path.name for path in files} == {
        *("table.parquet", "curves.parquet", "replicates.parquet"),
        *("croissant.json", "datasheet.toml", "README.md"),
    }
    table, frame = load_table("sotu-awd-lstm"), pd.read_parquet(tmp_path / "out" / "table.parquet")
    np.testing.assert_array_equal(frame["dev_ppl"], table.column("dev_ppl"))
    np.testing.assert_array_equal(frame[list(table.space.names)], table.configs)
    assert len(pd.read_parquet(tmp_path / "out" / "curves.parquet")) == len(table.curves.costs)
    head, text = front_matter(tmp_path / "out")
    assert head["license"] == "mit"
    assert head["size_categories"] == ["n<1K"]
    assert {"config_name": "rows", "data_files": "table.parquet", "default": True} in head["configs"]
    assert "| dev\\_ppl | " in text


def test_labels_keep_their_types(tmp_path):
    labels = [("01", "1"), ("2024-01-31", "2024-02-01"), (True, 1), (True, False), (8, 1)]
    axes = tuple(Hyperparameter(f"h{k}", values, kind="categorical") for k, values in enumerate(labels))
    codes = np.array([[k >> j & 1 for j in range(len(axes))] for k in range(32)], dtype=float)
    told = {"licence": "MIT"}
    table = Table("t", axes, (Metric("loss", "min"),), codes, codes.sum(axis=1)[:, None], ("loss",), told)
    save_folder(table, tmp_path / "t")
    write_data_set(tmp_path / "t", tmp_path / "out")
    frame = pd.read_parquet(tmp_path / "out" / "table.parquet")
    for axis, column in zip(axes[:3], codes.T, strict=False):
        assert frame[axis.name].tolist() == [label(axis.value(code)) for code in column]
    assert (frame["h3"].dtype, frame["h4"].dtype) == (bool, np.int64)
    rows, sheet = (tmp_path / "out" / name for name in ("table.parquet", "datasheet.toml"))
    assert add_table(rows, sheet, tmp_path / "in")[0].sha256 == table.sha256


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of mlcroissant's
def test_another_reader_of_croissant_finds_the_rows(tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant")
    write_data_set(find_folder("lohelp-de-en"), tmp_path / "out")
    dataset = mlcroissant.Dataset(jsonld=tmp_path / "out" / "croissant.json")
    assert not dataset.metadata.issues.errors
    rows = list(dataset.records("rows"))
    assert [row["rows/dev_bleu"] for row in rows] == load_table("lohelp-de-en").column("dev_bleu").tolist()


@pytest.mark.parametrize(
    "licence",
    [
        *("", "none: the authors state no licence, so ask them", "None", "No licence stated", "no license"),
        *("no known licence", "unknown", "Unknown licence", "(unspecified)", "licence not stated", "N/A"),
        *("not specified", "unlicensed", "without a licence", "?", "–"),
    ],
)
def test_a_table_without_a_licence_is_refused(toy, tmp_path, licence):
    save_folder(
        dataclasses.replace(toy, provenance={"licence": licence} if licence else {}), tmp_path / "toy"
    )
    with pytest.raises(InputError, match="'toy' has no licence, so it must not be shared") as error:
        write_data_set(tmp_path / "toy", tmp_path / "out")
    assert str(error.value).endswith(f"; there it is {licence!r}." if licence else "; the key is licence.")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "licence", ["Nonexclusive use", "The Unlicense", "Unlicense", "nobody's: CC0", "NAIST"]
)
def test_a_licence_with_a_negative_name_is_one(toy, tmp_path, licence):
    save_folder(dataclasses.replace(toy, provenance={"licence": licence}), tmp_path / "toy")
    write_data_set(tmp_path / "toy", tmp_path / "out")
    assert front_matter(tmp_path / "out")[0]["license_name"] == licence


def test_the_card_says_what_the_rows_and_columns_are(toy, tmp_path, again):
    features = Descriptors(
        (Hyperparameter("params", (1.0, 2.0), unit="M"),), np.resize([1.0, 2.0], (len(toy), 1))
    )
    told = dataclasses.replace(toy, provenance={"licence": "MIT"}, descriptors=features)
    frame = again(told, [0, 1])
    single = "further trainings of configurations of table.parquet"
    means = "the trainings whose means are the metrics of table.parquet"
    for averaged, about in ((False, single), (True, means)):
        folder = tmp_path / f"{averaged}"
        axes, names = told.hyperparameters, tuple(metric.name for metric in told.metrics)
        trainings = Replicates.of_frame(frame, axes, names, averaged)
        save_folder(dataclasses.replace(told, replicates=trainings), folder)
        write_data_set(folder, folder / "out")
        _, text = front_matter(folder / "out")
        card = json.loads((folder / "out" / "croissant.json").read_text())
        assert f"- `replicates.parquet`: {about}\n" in text
        assert about in [part["description"] for part in card["recordSet"]]
        assert ("which are means of its trainings in replicates.parquet\n" in text) == averaged
        assert "trained once" not in text
        assert "| params | feature (M) |" in text
        assert "min; 0 in `table.parquet` means missing |" in text and text.count("means missing") == 1


def test_texts_of_others_are_texts(toy, tmp_path):
    told = {"licence": 'Mine"\n', "title": "a\n---\nlicense: mit | <script>", "note": "[x](http://y)\x1b[2J"}
    save_folder(dataclasses.replace(toy, provenance=told), tmp_path / "toy")
    write_data_set(tmp_path / "toy", tmp_path / "out")
    head, text = front_matter(tmp_path / "out")
    assert (head["license"], head["license_name"], head["pretty_name"]) == (
        "other",
        told["licence"],
        told["title"],
    )
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\\[x\\](http://y)" in text


def test_a_folder_that_holds_something_is_left_alone(tmp_path, run_here):
    (tmp_path / "mine.txt").write_text("x")
    done = run_here("tables", "publish", "sotu-ngram", "-o", tmp_path, check=2)
    assert "is not an empty folder" in done.stderr
    done = run_here("tables", "publish", "sotu-ngram", "-o", tmp_path / "new")
    assert done.stdout.startswith("4 files in ")
