"""The table of NAS-Bench-NLP, from the authors' file."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import check_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.collections.nas_bench_nlp import features_of
from hpobench_nmt.lookup.disk.folder import load_folder

FOLDER = Path(__file__).parents[3] / "shared" / "sources" / "nas-bench-nlp-wikitext2"
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the authors' file is not in ../shared/sources")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    (folder,) = COLLECTIONS["nas-bench-nlp"].fetch(tmp_path_factory.mktemp("tables"), FOLDER)
    return load_folder(folder)


@here
def test_every_training_is_a_row_or_a_replicate(table):
    archive = zipfile.ZipFile(io.BytesIO((FOLDER / "logs.zip").read_bytes()))
    logs = [json.loads(archive.read(name)) for name in archive.namelist()]
    assert len(logs) == 345 and len({log["recepie_id"] for log in logs}) == 344
    graphs = {log["recepie"] for log in logs}
    assert len(graphs) == len(table) == 291
    again = table.replicates.rows
    held = np.concatenate([table.column("val_loss"), again.values[:, 0]])
    best = [np.nan if np.isnan(log["val_losses"]).all() else np.nanmin(log["val_losses"]) for log in logs]
    np.testing.assert_array_equal(np.sort(held), np.sort(best))
    assert sum(log["status"] != "OK" for log in logs) == 4
    assert int(np.isnan(table.column("val_loss")).sum()) == 1
    by_id = {str(log["recepie_id"]): log for log in logs if str(log["recepie_id"]) != "1002429"}
    for row in range(len(table)):
        log = by_id.get(table.config(row)["cell"])
        if log is None or log["status"] != "OK":
            continue
        curve = table.curve(row)
        assert curve.values[:, 0].tolist() == log["val_losses"]
        np.testing.assert_allclose(curve.costs, np.cumsum(log["wall_times"]))
        assert (
            table.lookup(table.config(row))["test_loss"] == log["test_losses"][np.argmin(log["val_losses"])]
        )


@here
def test_models_see_the_graph_and_not_the_name(table):
    assert table.features.shape == (291, 11)
    assert table.features.min() == 0 and table.features.max() == 1
    assert len(np.unique(table.features, axis=0)) > 100
    told = [f.fact for f in check_table(table)]
    assert "345 trainings, as the source says" in told and "291 rows, as the source says" in told
    results = benchmark(table, ["BO_EI_M_std"], trials=5, scores=["fb"])
    assert np.isfinite(results.scores()["mean"]).all()


def test_features_of_a_graph():
    nodes = {
        "f": ("linear", ["x", "h_prev_0"]),
        "g": ("activation_tanh", ["f"]),
        "h_new_0": ("elementwise_prod", ["f", "g", "g"]),
    }
    found = features_of(nodes)
    assert (found["nodes"], found["edges"], found["depth"], found["states"]) == (3, 6, 3, 1)
    assert (found["linear"], found["blend"], found["elementwise_prod"]) == (1, 0, 1)
    with pytest.raises(InputError, match="has a cycle"):
        features_of({"a": ("linear", ["b"]), "b": ("linear", ["a"])})
