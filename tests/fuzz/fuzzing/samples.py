"""Valid files of formats that come from elsewhere, made after their programs' own."""

import gzip
import io
import json
import lzma
import pickle
import runpy
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from libreoffice_tree import write_packages

import hpobench_nmt as hb
from fuzzing.mutations import json_text

TESTS = Path(__file__).parents[2]
SPACE = {"lr": (1e-5, 1e-1, "log"), "layers": [1, 2, 4]}
PARTS = ("train", "dev", "test")


@cache
def _sweep(name):
    """A function of the importers' tests that writes a sweep."""
    return runpy.run_path(str(TESTS / "lookup" / "imports" / "conftest.py"))[name]


def sweep(name, path):
    """Writes such a sweep at a path in the folder."""
    return lambda folder: _sweep(name)(folder / path)


def wandb_runs(folder):
    """W&B's table of runs, and its chart."""
    _sweep("wandb")(folder)


def lines(records):
    """JSON lines."""
    return b"".join(json_text(record) + b"\n" for record in records)


def optuna_journal():
    """The operations in a journal of Optuna."""
    attributes = {"low": 1e-05, "high": 0.1, "step": None, "log": True}
    float_of = json.dumps({"name": "FloatDistribution", "attributes": attributes})
    yield {"op_code": 0, "worker_id": "w", "study_name": "s", "directions": [1]}
    for k in range(6):
        yield {"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": f"2026-01-01T00:00:0{k}"}
        known = {"param_name": "lr", "param_value_internal": 10.0 ** -(1 + k % 4), "distribution": float_of}
        yield {"op_code": 5, "worker_id": "w", "trial_id": k} | known
        ended = {"state": 1, "values": [0.5 + k], "datetime_complete": f"2026-01-01T00:00:1{k}"}
        yield {"op_code": 6, "worker_id": "w", "trial_id": k} | ended


# fmt: off
SYNE_TUNE = (
    "trial_id,st_decision,epoch,error,config_lr,config_layers,st_worker_time,st_tuner_time,st_worker_iter\n"
    + "".join(f"{k},CONTINUE,{e},{1 / e + k},{0.1 * (k + 1)},{k % 2 + 1},{10.0 * e},{k}.0,{e - 1}\n"
              for k in range(5) for e in (1, 3, 9))
).encode()
NEPS = (
    "id,config.lr,config.opt,objective_to_minimize,evaluation_duration,reported_as,state,time_sampled\n"
    + "".join(f"{k},0.{k + 1},{'ab'[k % 2]},{k},{9 + k},success,success,17.{k}\n" for k in range(6))
).encode()
AX = (
    "trial_index,arm_name,trial_status,generation_node,val_loss,lr,layers\n"
    + "".join(f"{k},{k}_0,{'FAILED' if k == 2 else 'COMPLETED'},Sobol,{1 + k},{0.1 + k},{k % 2}\n"
              for k in range(6))
).encode()
NEVERGRAD = lines(
    {"#num-ask": k, "#num-tell": k, "#uid": f"u{k}", "#generation": k // 2, "#parents_uids": [], "#loss": k,
     "lr": 10.0**-k, "layers": k % 2} for k in range(6)
)
SMAC = json.dumps({
    "data": [[k, None, 0, budget, 0.5 + k, 10.0 * budget, 1 + (k == 3), 100.0, 110.0, {}]
             for k in (1, 2, 3) for budget in (1.0, 9.0)],
    "configs": {str(k): {"lr": 0.1 * k, "opt": "016"} for k in (1, 2, 3)},
}).encode()
_TABLE = {"X": [[0.1 * k, k % 2] for k in range(4)], "y": [[k / 9] for k in range(4)]}
HPO_B = json.dumps({"5860": {"a": _TABLE}}).encode()
SWEEP = b"lr,layers,val_loss,bits,seed\n" + b"".join(
    b"%g,%d,%g,%d,%d\n" % (lr, n, lr * n + s / 7, 4 * n, s)
    for lr in (0.1, 0.01) for n in (1, 2) for s in (0, 1))
ROLES = b"""\
[lr]
role = "hyperparameter"
scale = "log"
unit = "1"
[layers]
role = "hyperparameter"
guess = "it has few values"
reason = "by its name"
[val_loss]
role = "objective"
direction = "min"
[bits]
role = "ignore"
[seed]
role = "seed"
"""
POINTS = b"model,accuracy,ms\n" + b"".join(b"m%d,%d.5,%d\n" % (k, 70 + k, k * k) for k in range(9))
TIDY = b"method,task,family,trial,budget,value\n" + b"".join(
    b"%s,t%d,f%d,%d,%d,%g\n" % (m, task, task // 2, trial, b, 9 - b * (1 + (m == b"A")) - task - trial / 3)
    for m in (b"A", b"B") for task in range(4) for trial in range(3) for b in (1, 2, 4))
SEARCH = b"""\
objectives = ["loss:min"]
start = {lr = 0.01, layers = 2}
candidates = 30
seed = 1
[grid]
lr = {from = 1e-4, to = 1.0, scale = "log"}
layers = [1, 2, 4]
[curve]
key = "epoch"
whole = 9
"""
SUITE = b"""\
description = "for the tests"
scores = ["ftb", "ftc", "fb"]
tables = ["toy"]
methods = ["RS", {name = "BO_auto", budget = 3}]
objectives = ["bleu:max"]
trials = 3
n_initial = 2
published = "figures.csv"
[tolerance]
default = 0.5
toy = 0.25
"""
FIGURES = b"method,table,metric,mean,std\nRS,toy,ftb,6.5,3.1\nRS,toy,ftc,5,2\nRS,toy,fb,0.3,0.2\n"
HELP = {"name": "lohelp", "source": "de", "target": "en", "train": 10, "dev": 3, "test": 2}
HELP |= {"folder": "packages"}
PICKLE = pickle.dumps([{"name": "a", "values": [0.5, 1, True, None, ("x", "y")]}, "text", 10**30], 4)
LOG = b"""\
[INFO:sockeye.training] Checkpoint [1]\tUpdates=500 Epoch=1
[INFO:sockeye.model] # of parameters: 123456 | trainable: 123456
"""
METRICS = b"1\tperplexity-val=12.5\tmax-gpu-memory=1000000\tdiverged=False\tconverged=False\n"
CARD = b"""\
what = "random search with a twist"
source = "https://example.org"
licence = "MIT"
hardware = "a laptop"
tuned_on = "none"
"""
JOURNAL = {"lookups": 5, "workers": 2, "updates": [20, 60], "seed": 0}
FINISHED = lines([
    {"tuning": 1, **JOURNAL},
    {"number": 1, "row": 7, "worker": 0, "start": 0.0, "finish": 2.5, "checkpoint": 2, "done": True,
     "points": []},
    {"number": 2, "row": 0, "worker": 1, "start": 0.5, "finish": 3.0, "checkpoint": 1, "done": False,
     "points": [[20.0, 2.5, [0.25, None]]]},
])
CURVE = lines({"update": 10.0 * k, "dev_ppl": 60.0 - k} for k in range(1, 5))
DECLARATION = """\
title = "made up"
licence = "none"
repository = "someone/something"
commit = "abc"
folder = "data"
levels = ["method"]
[headings]
dat = ["cfg-lr", "obj-score"]
[files."runs{suffix}"]
sha256 = "{sha256}"
adds = {{kind = "x"}}
[tables.made-up]
file = "runs{suffix}"
objectives = ["score"]
prefixes = {{cfg- = "hyperparameter", obj- = "metric"}}
provenance = {{title = "made up"}}
"""
# fmt: on
TRAININGS = [{"cfg-lr": 0.1 * k, "obj-score": 3.0 + k} for k in range(1, 6)]


def columns(records):
    """A Parquet file of records."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(records)), sink)
    return sink.getvalue().to_pybytes()


PUBLISHED = {  # a file of a collection, by its suffix
    ".json": json.dumps({"a": TRAININGS}).encode(),
    ".jsonl": lines(TRAININGS),
    ".csv": b"cfg-lr,obj-score\n" + b"".join(b"%g,%g\n" % tuple(line.values()) for line in TRAININGS),
    ".dat": b"".join(b"%g %g\n" % tuple(line.values()) for line in TRAININGS),
    ".parquet": columns(TRAININGS),
}


def packed(kind):
    """A ZIP or tar archive with a CSV file and another."""
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo("a.csv"), SWEEP)
            archive.writestr(zipfile.ZipInfo("b/c.txt"), b"others")
    else:
        with tarfile.open(fileobj=file, mode=f"w:{kind.partition('.')[2]}") as archive:
            for name, content in (("x/a.csv", SWEEP), ("x/b.txt", b"others")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def packed_one():
    """A ZIP archive of one sweep, as Syne Tune writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("results.csv"), SYNE_TUNE)
    return file.getvalue()


def gzipped(content):
    """The content, compressed."""
    return gzip.compress(content, mtime=0)


def optimizer(folder):
    """The state of an optimizer that was told four values."""
    found = hb.Optimizer(SPACE)
    for k in range(4):
        found.tell(found.ask(), float(k))
    found.save(folder / "state.json")


@cache
def _archive_files():
    from hpobench_nmt.arena.archive import archive_bytes, archive_of
    from hpobench_nmt.arena.digest import digest_bytes

    results = hb.run("lm-2026", track="plain", tables="sotu-gpt-30k", methods=["RS"], trials=2)
    content = archive_bytes({"plain": [results]})
    with tempfile.TemporaryDirectory() as folder:
        digest = digest_bytes(archive_of(content, Path(folder) / "a.parquet"))
    return {"lm-2026.parquet": content, "digest.parquet": digest}


def text(folder, count=60):
    """A corpus: train.txt, dev.txt and test.txt."""
    rng = np.random.default_rng(0)
    for part in PARTS:
        words = [" ".join(f"w{k}" for k in rng.integers(12, size=8)) for _ in range(count)]
        (folder / f"{part}.txt").write_text("\n".join(words) + "\n")


def pairs(folder):
    """A corpus of sentence pairs, in files of several formats."""
    rng = np.random.default_rng(1)
    for part in PARTS:
        records = [
            {side: " ".join(f"{side}{k}" for k in numbers) for side in ("de", "en")}
            for numbers in (rng.integers(9, size=5) for _ in range(20))
        ]
        (folder / f"{part}.jsonl").write_bytes(lines(records))
        (folder / f"{part}.parquet").write_bytes(columns(records))
        rows = ["de\ten", *(f"{record['de']}\t{record['en']}" for record in records)]
        (folder / f"{part}.tsv").write_text("\n".join(rows) + "\n")
        for side in ("de", "en"):
            content = "".join(record[side] + "\n" for record in records).encode()
            (folder / f"{part}.{side}").write_bytes(content)
            (folder / f"{part}.{side}.gz").write_bytes(gzipped(content))
            (folder / f"{part}.{side}.xz").write_bytes(lzma.compress(content))


def help_pages(folder):
    """An unpacked tree of LibreOffice's help."""
    write_packages(folder / "packages")


LANGUAGE_MODEL = {"layers": 2, "embedding_size": 6, "hidden_size": 5, "learning_rate": 5.0, "batch_size": 4}
LANGUAGE_MODEL |= {"bptt": 10, "max_epochs": 1, "tuning_tokens": 60, "dynamic_statistics": 500}
TEXT = {"name": "text", "train": "train.txt", "dev": "dev.txt", "test": "test.txt"}


def language_model(folder):
    """A kept language model of one epoch."""
    from small_kept_models import kept_model

    text(folder)
    kept_model(folder, folder / "models" / "key", "awd-lstm", TEXT, **LANGUAGE_MODEL)


def sockeye_model(folder):
    """A kept Sockeye model whose weights are zeros."""
    import torch

    from hpobench_nmt.runner.families import load_family
    from hpobench_nmt.runner.ledgers.ledger import Record
    from hpobench_nmt.runner.training.train_row import keep_model

    known = runpy.run_path(str(TESTS / "runner" / "nmt" / "test_kept_files.py"))
    new = folder / "new"
    new.mkdir()
    for name, content in known["model_files"]().items():
        (new / name).write_bytes(content)
    torch.save({"w": torch.zeros(known["NUMBERS"])}, new / "params.best")
    settings = load_family("sockeye").settings(**known["SETTINGS"])
    keep_model(new, folder / "models" / "key", "sockeye", settings, {}, {}, Record({}, 0, 5, "done"))


MARIAN = {"bpe_symbols": 10, "num_layers": 1, "num_embed": 8, "num_hidden": 8, "num_heads": 2}
MARIAN |= {"learning_rate": 0.01}


def marian_model(folder):
    """A kept translation model of transformers', whose weights are those at its start."""
    import torch

    from hpobench_nmt.runner.families import load_family
    from hpobench_nmt.runner.ledgers.ledger import Record
    from hpobench_nmt.runner.nmt.bpe import Bpe, learn
    from hpobench_nmt.runner.nmt.marian_files import save_model
    from hpobench_nmt.runner.nmt.marian_model import build
    from hpobench_nmt.runner.nmt.marian_numbers import vocabulary_size
    from hpobench_nmt.runner.training.train_row import keep_model

    subwords = learn(["a b ab ba abba", "b a b"], 8, "source")
    settings = load_family("marian").settings(**MARIAN)
    size = vocabulary_size(Bpe(subwords))
    new = folder / "new"
    new.mkdir()
    model = build(settings, size, size, torch.Generator())
    save_model(new, model=model, subwords=(subwords, subwords), translations={"dev": ["a"]})
    keep_model(new, folder / "models" / "key", "marian", settings, {}, {}, Record({}, 0, 5, "done"))


def training_state(folder):
    """The state of a training, with tensors."""
    import torch

    from hpobench_nmt.runner.torch_training.training_state import Checkpoints, StateFile

    StateFile(Checkpoints(folder)).write({"model": [torch.arange(12.0)], "course": {"update": 3}})


def prepared(folder):
    """Two prepared corpora: of a text and of sentence pairs."""
    from hpobench_nmt.runner.corpora import load_corpus

    text(folder)
    pairs(folder)
    several = {part: f"{part}.jsonl" for part in PARTS}
    both = {"name": "pairs", "source": "de", "target": "en", "format": "jsonl", **several}
    for section in (TEXT, both):
        load_corpus(section, folder, folder / "cache")


def archive(folder):
    """A small archive and its digest."""
    for name, content in _archive_files().items():
        (folder / name).write_bytes(content)
