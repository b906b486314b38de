"""The tables of TaskSet, from the authors' files and from a small one of their shape."""

import dataclasses
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from small_collections import taskset

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import check_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.disk.folder import load_folder

FOLDER = Path(__file__).parents[3] / "shared" / "sources" / "taskset-rnn"
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the authors' files are not in ../shared/sources")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folders = COLLECTIONS["taskset"].fetch(tmp_path_factory.mktemp("tables"), FOLDER)
    return {folder.name: load_folder(folder) for folder in folders}


@here
def test_every_loss_up_to_the_first_nan_is_on_a_curve(tables):
    for name, file in (
        (
            "taskset-irnn64-relu-avg",
            "patch32_IRNN64_relu_avg_bs128",
        ),  # test losses become NaN at other places
        ("taskset-lstm128-patch128", "patch128_LSTM128_bs64"),
    ):
        path = FOLDER / f"FixedTextRNNClassification_imdb_{file}.json.gz"
        entries, table = json.loads(gzip.decompress(path.read_bytes())), tables[name]
        ended = 0
        for row, entry in enumerate(entries):
            losses = np.array([entry[part]["loss"] for part in ("valid", "test", "train")]).T
            wrong = np.isnan(losses).any(axis=1)
            end = int(wrong.argmax()) if wrong.any() else len(losses)
            curve = table.curve(row)
            np.testing.assert_array_equal(curve.values[:end], losses[:end])
            assert len(curve.values) == min(end + 1, 51) and np.isnan(curve.values[end:]).all()
            assert curve.resources.tolist() == [200 * i for i in range(len(curve.values))]
            np.testing.assert_array_equal(table.values[row], losses[-1])
            config = table.config(row)
            assert config["learning_rate"] == entry["hp"]["learning_rate"]
            assert config["one_minus_beta2"] == pytest.approx(1 - entry["hp"]["beta2"], rel=1e-9)
            ended += bool(wrong.any())
        assert ended == int(np.isnan(table.column("valid_loss")).sum()) > 90


@here
def test_they_have_the_same_settings_and_no_grid(tables):
    assert set(tables) == set(COLLECTIONS["taskset"].tables) and {len(t) for t in tables.values()} == {1000}
    first = tables["taskset-gru64-avg"]
    for table in tables.values():
        np.testing.assert_array_equal(table.configs, first.configs)
        assert {h.scale for h in table.hyperparameters} == {"log"} and len(table.hyperparameters) == 8
    assert first.column("valid_loss").max() > 1e16
    assert "1,000 rows, as the source says" in [f.fact for f in check_table(first)]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Files of the shape of the authors', with other hashes."""
    hashes, content = {}, next(iter(taskset().values())).encode()
    for name in COLLECTIONS["taskset"].sha256:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        hashes[name] = hashlib.sha256(content).hexdigest()
    changed = dataclasses.replace(COLLECTIONS["taskset"], sha256=hashes)
    monkeypatch.setitem(COLLECTIONS, "taskset", changed)
    return tmp_path


def test_files_as_they_are_upstream_and_compressed_anew_are_the_same(small, tmp_path):
    packed = [load_folder(folder).sha256 for folder in COLLECTIONS["taskset"].fetch(tmp_path / "a", small)]
    upstream = tmp_path / "clone" / "data" / "taskset"
    upstream.mkdir(parents=True)
    for name in COLLECTIONS["taskset"].sha256:
        (upstream / name).write_bytes(gzip.decompress((small / f"{name}.gz").read_bytes()))
    plain = COLLECTIONS["taskset"].fetch(tmp_path / "b", tmp_path / "clone")
    assert [load_folder(folder).sha256 for folder in plain] == packed
    table = load_folder(plain[0])
    assert table.curves.lengths.tolist() == [51, 31, 1]
    assert np.isnan(table.column("valid_loss")).tolist() == [False, True, True]


def test_a_bomb_is_refused(small, tmp_path):
    path = small / f"{next(iter(COLLECTIONS['taskset'].sha256))}.gz"
    path.write_bytes(gzip.compress(bytes(64 * 2**20)))
    with pytest.raises(InputError, match=r"json\.gz: its content is larger than 16,777,216 bytes\."):
        COLLECTIONS["taskset"].fetch(tmp_path / "a", small)
    path.write_bytes(b"no gzip")
    with pytest.raises(InputError, match=r"json\.gz: not a gzip file"):
        COLLECTIONS["taskset"].fetch(tmp_path / "a", small)
