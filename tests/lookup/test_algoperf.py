"""The tables of AlgoPerf, from files made of the authors', and from small trees of the shape of theirs."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_collections import COLUMNS, algoperf, declare, write

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import find_check
from hpobench_nmt.lookup.collections import COLLECTIONS, declared
from hpobench_nmt.lookup.disk.folder import load_folder

FOLDER = Path(__file__).parents[3] / "shared" / "sources" / "algoperf"
LOGS = COLLECTIONS["algoperf"].given.folder
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the authors' files are not in ../shared/sources")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folders = COLLECTIONS["algoperf"].fetch(tmp_path_factory.mktemp("tables"), FOLDER)
    return {folder.name: load_folder(folder) for folder in folders}


@here
def test_every_evaluation_belongs_to_a_row_or_a_replicate(tables):
    columns = pq.read_table(FOLDER / "curves.parquet", use_threads=False).to_pydict()
    best = {}
    for place, key in enumerate(columns["id"]):
        _, algorithm, workload, study, trial = key.split("/")
        workload = workload.removesuffix("_jax").removesuffix("_pytorch")
        for metric, sign in (("bleu", -1), ("wer", 1)):
            value = columns[f"validation/{metric}"][place]
            if value is not None and value == value:
                known = best.setdefault((workload, algorithm, study, trial), [])
                known.append((sign * value, columns[f"test/{metric}"][place]))
    for name, workload, sign in (
        ("algoperf-wmt", "wmt", -1),
        ("algoperf-deepspeech", "librispeech_deepspeech", 1),
        ("algoperf-conformer-layernorm", "librispeech_conformer_layernorm", 1),
    ):
        table = tables[name]
        held = np.vstack([table.values, table.replicates.rows.values])
        upstream = [min(several) for key, several in best.items() if key[0] == workload]
        assert len(held) == len(upstream)
        np.testing.assert_array_equal(np.sort(held[:, 0]), np.sort([sign * value for value, _ in upstream]))


@here
def test_algorithms_have_settings_of_their_own(tables):
    sizes = {name: (len(t), len(t) + len(t.replicates.rows.values)) for name, t in tables.items()}
    assert sizes == {
        "algoperf-wmt": (55, 275),
        "algoperf-wmt-glu-tanh": (50, 250),
        "algoperf-conformer": (55, 275),
        "algoperf-conformer-layernorm": (55, 268),
        "algoperf-deepspeech": (52, 254),
    }
    for table in tables.values():
        configs = [table.config(row) for row in range(len(table))]
        assert {len(c) for c in configs if c["algorithm"] == "schedule_free_prodigy"} == {2}
        assert all(
            ("learning_rate" in c) == (c["algorithm"] not in ("amos", "schedule_free_prodigy"))
            for c in configs
        )
        assert set(table.replicates.rows.seeds) <= {0.0, 1.0, 2.0, 3.0, 4.0}


@here
def test_noise_of_the_seed_is_what_the_files_say(tables):
    """The standard deviation of validation BLEU over studies, among the better half: 0.08."""
    table = tables["algoperf-wmt"]
    place, values = table.replicates.by_row(table.configs)
    by_row = [[v, *values[place == row, 0]] for row, v in enumerate(table.column("validation_bleu"))]
    means = [np.mean(each) for each in by_row]
    better = [
        np.var(each, ddof=1) for each, mean in zip(by_row, means, strict=True) if mean >= np.median(means)
    ]
    assert round(np.sqrt(np.mean(better)), 2) == 0.08


@here
def test_check_finds_what_is_claimed(tables):
    facts = [(f.table, f.fact) for f in find_check("algoperf", [(t, None) for t in tables.values()])]
    assert ("algoperf", "267 rows, as the source says") in facts
    for name, trainings, tried, failed in (
        ("algoperf-wmt", 275, 55, 0),
        ("algoperf-wmt-glu-tanh", 250, 55, 5),
        ("algoperf-conformer-layernorm", 268, 55, 0),
        ("algoperf-deepspeech", 254, 52, 0),
    ):
        assert (name, f"{trainings} trainings, as the source says") in facts
        told = f"all {tried} configurations of its source were trained; {failed} failed and have no row"
        assert (name, told) in facts


def tree():
    """Paths and contents of logs in a clone."""
    return {f"{LOGS}/{name}": content.encode() for name, content in algoperf().items()}


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, content in reversed(files.items()):
            info = tarfile.TarInfo(f"submissions_algorithms-12c8e4e/{name}")
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_a_clone_and_its_archive_have_the_same_trainings(tmp_path, monkeypatch):
    collection = declare("algoperf", tmp_path)
    (clone,) = collection.fetch(tmp_path / "a", write(tmp_path / "clone", tree()))
    monkeypatch.setattr(declared, "download", lambda address, sha256, limits: archive(tree()))
    (packed,) = collection.fetch(tmp_path / "b")
    contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (clone, packed)]
    assert contents[0] == contents[1]
    assert {*contents[0]} == {
        "table.csv", "curves.csv", "replicates.csv", "replicate_curves.csv", "datasheet.toml"
    }  # fmt: skip


def test_tables_of_a_small_tree(tmp_path):
    (folder,) = declare("algoperf", tmp_path).fetch(tmp_path / "t", write(tmp_path / "clone", tree()))
    table = load_folder(folder)
    assert [table.config(row) for row in range(len(table))] == [
        {"algorithm": "lawa_ema", "learning_rate": 0.001, "dropout_rate": 0.0},
        {"algorithm": "nadamp", "learning_rate": 0.001, "dropout_rate": 0.0, "use_nadam": True},
        {"algorithm": "nadamp", "learning_rate": 0.002, "dropout_rate": 0.1, "use_nadam": True},
    ]
    # Of the first one, study 1 is the row, since study 0 has no evaluation.
    assert table.values.tolist() == [
        [20.5, 20.25, 2.75, 80.25],
        [23.5, 19.5, 2.25, 140.5],
        [0.1, 0.2, 9.5, 140.0],
    ]
    assert table.curves.lengths.tolist() == [2, 3, 2]  # the last ends at its first NaN
    assert table.curve(2).costs.tolist() == [3.5, 70.0] and np.isnan(table.curve(2).values[1, 2])
    place, values = table.replicates.by_row(table.configs)
    assert place.tolist() == [1] and values.tolist() == [[22.5, 20.5, 2.5, 71.25]]
    assert table.replicates.rows.seeds.tolist() == [1.0]


@here
def test_other_trainings_install_nothing(tmp_path, monkeypatch):
    """The hash of the tables is that of the commit, whatever form the files have."""
    frames = declared._frames

    def changed(*given):
        found = frames(*given)
        found["curves.parquet"].loc[7, "test/wer"] += 1e-9
        return found

    monkeypatch.setattr(declared, "_frames", changed)
    with pytest.raises(InputError, match=r"SHA-256 \w{12}… instead of \w{12}…: not those of commit"):
        COLLECTIONS["algoperf"].fetch(tmp_path / "tables", FOLDER)
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("hparams.json", b"{", "not valid JSON"),
        ("eval_measurements.csv", COLUMNS.encode() + b"\nmany,1,1,1,1,1", "not the files of commit"),
    ],
)
def test_other_files_install_nothing(tmp_path, file, content, message):
    broken = tree() | {f"{LOGS}/nadamp/study_1/wmt_jax/trial_1/{file}": content}
    with pytest.raises(InputError, match=message):
        declare("algoperf", tmp_path).fetch(tmp_path / "tables", write(tmp_path / "clone", broken))
    assert not (tmp_path / "tables").exists()
