"""The valid files that are mutated: a table and its sources, a suite and its results, a training spec."""

import hashlib
import json
import shutil
import tomllib

import numpy as np
import pytest

from fuzzing.mutations import toml
from fuzzing.sandbox import Sandbox

SHEET = """\
name = "toy"
objectives = ["bleu", "seconds"]
[hyperparameters.layers]
values = [1, 2, 4]
scale = "log"
[hyperparameters.width]
unit = "units"
[metrics.bleu]
direction = "max"
unit = "BLEU"
tolerance = 0.5
description = "of the dev set"
[metrics.seconds]
direction = "min"
[metrics.memory]
direction = "min"
missing = 0.0
[provenance]
source = "made for the tests"
"""
SUITE = """\
description = "for the tests"
scores = ["ftb", "ftc", "fb"]
tables = ["toy"]
methods = ["RS"]
objectives = ["bleu:max"]
trials = 3
n_initial = 2
ties = "first"
stop = "settled"
lookups = 9
[tolerance]
default = 0.5
toy = 0.25
[score_at]
default = 5
"""
SPEC = """\
name = "small"
title = "small models"
note = "for the tests"
family = "awd-lstm"
seed = 1
objectives = ["dev_ppl", "num_updates"]
metrics = ["dev_ppl", "test_ppl", "num_updates"]
base = ""
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
layers = [1, 2]
learning_rate = [5, 10.5]
[scale]
learning_rate = "log"
[fixed]
embedding_size = 8
hidden_size = 16
max_epochs = 2
dynamic_rule = "sgd"
[replicates]
configurations = 1
trainings = 2
"""


def _rows():
    rng = np.random.default_rng(4)
    lines = ["layers,width,bleu,seconds,memory"]
    for layers in (1, 2, 4):
        for width in (64, 128, 256, 512):
            bleu = "" if (layers, width) == (2, 128) else f"{20 + layers + 3 * rng.random():.2f}"
            lines.append(f"{layers},{width},{bleu},{layers * width / 100 + rng.random():.3f},{width % 100}")
    return "\n".join(lines) + "\n"


def _again(rows):
    """Trainings of three configurations again, three times each, as `replicates.csv` has them."""
    rng = np.random.default_rng(5)
    lines = ["layers,width,replicate,seed,bleu,seconds,memory"]
    for k, row in enumerate(rows.splitlines()[1:4]):
        layers, width, bleu, seconds, memory = row.split(",")
        for i in (1, 2, 3):
            bleu_ = round(float(bleu) + rng.normal(scale=0.2), 2)
            lines.append(f"{layers},{width},{i},{10 * k + i},{bleu_},{seconds},{memory}")
    return "\n".join(lines) + "\n"


def valid_files(root):
    """The valid files by kind, made in a folder: contents by path below a sandbox's root."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HPOBENCH_NMT_HOME", str(root / "home"))
        patch.delenv("HPOBENCH_NMT_TABLES", raising=False)
        sandbox = Sandbox(root.resolve())
        rows = _rows()
        source = {"work/toy.csv": rows.encode(), "work/toy.toml": SHEET.encode()}
        sandbox.write({**source, "work/mine.toml": SUITE.encode()})
        patch.chdir(sandbox.work)
        assert sandbox.run("tables", "add", "toy.csv", into=["home"]).code == 0
        table = _below(sandbox, "home")
        again = _again(rows).encode()
        sheet = tomllib.loads(table["home/tables/toy/datasheet.toml"].decode())
        sheet["replicates"] = {"count": 9, "sha256": ""}
        table["home/tables/toy/replicates.csv"] = again
        table["home/tables/toy/datasheet.toml"] = toml(sheet).encode()
        table = hashed(table, "home/tables/toy")
        shutil.rmtree(sandbox.home)
        sandbox.write(table)
        run = ("run", "mine.toml", "--jobs", "1", "--quiet", "--out", "results/r")
        assert sandbox.run(*run, into=["work/results"]).code == 0
        results = _without_hashes(_below(sandbox, "work/results"), "work/results/r/manifest.json")
    return {
        "source": source,
        "table": table,
        "suite": {"work/mine.toml": SUITE.encode()},
        "results": results,
        "spec": {"work/small.toml": SPEC.encode()},
    }


def _without_hashes(results, name):
    """Results as an earlier version wrote them: what is mutated must be read, not refused for its hash."""
    manifest = json.loads(results[name])
    del manifest["observations"], manifest["sha256"]
    return results | {name: json.dumps(manifest | {"format": 1}).encode()}


def _below(sandbox, folder):
    return {
        str(path.relative_to(sandbox.root)): path.read_bytes()
        for path in sorted((sandbox.root / folder).rglob("*"))
        if path.is_file()
    }


def hashed(files, folder):
    """Files of a table folder, the hashes in its datasheet made right again; as they are if it is no TOML.

    Those of the datasheet's own sections go, so that they can be mutated.
    """
    try:
        sheet = tomllib.loads(files[f"{folder}/datasheet.toml"].decode())
        for key in ("sections_sha256", "features_sha256"):
            sheet["claims"].pop(key, None)
        for section, name in (("rows", "table.csv"), ("replicates", "replicates.csv")):
            if f"{folder}/{name}" in files:
                sheet[section]["sha256"] = hashlib.sha256(files[f"{folder}/{name}"]).hexdigest()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return files
    return files | {f"{folder}/datasheet.toml": toml(sheet).encode("utf-8", "surrogatepass")}
