"""The readers of files that come from elsewhere: for each, how valid files are made, and how they are read.

An entry of `READERS` is all that a reader needs. tries.py tries mutated files of it.
"""

import hashlib
import io
import json
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path

import numpy as np
import small_collections

import hpobench_nmt as hb
from fuzzing import samples
from fuzzing.tries import Reader
from fuzzing.world import SPEC, hashed, valid_files
from hpobench_nmt.core.arrays import frozen
from hpobench_nmt.runner.family import TrainingFailed


def _files(**contents):
    """Writes files with these contents; "__" in a name stands for a full stop."""

    def make(folder):
        for name, content in contents.items():
            (folder / name.replace("__", ".")).write_bytes(content)

    return make


def _with(make, **contents):
    """Files of another maker, and these."""

    def both(folder):
        make(folder)
        _files(**contents)(folder)

    return both


def _import(name, **choices):
    return lambda: hb.import_table(name, guessed=True, **choices)


def _sweep(kind, name, **choices):
    """A sweep that the importers' tests write."""
    return Reader(samples.sweep(kind, name), _import(name, **choices))


def _export(name, content, **choices):
    """A sweep in one file of this content."""
    return Reader(lambda folder: (folder / name).write_bytes(content), _import(name, **choices))


def _world(kinds):
    """Files of the world that the tests of the command line share."""

    def make(folder):
        with tempfile.TemporaryDirectory() as root:
            world = valid_files(Path(root))
        for kind in kinds:
            for name, content in world[kind].items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    return make


def _hash_table(folder):
    """Make the hashes of the installed table right again."""
    files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.glob("home/tables/toy/*")}
    for name, content in hashed(files, "home/tables/toy").items():
        (folder / name).write_bytes(content)


def _read_table():
    table = hb.load_table("toy")
    return table.values, table.curves, table.replicates


def _suite():
    from hpobench_nmt.benchmarking.task.suite_files import load_suite, published_figures

    return published_figures(load_suite("mine.toml"))


def _archive():
    from hpobench_nmt.arena.archive import read_archive
    from hpobench_nmt.arena.submissions import archived_results

    archive = read_archive(Path("lm-2026.parquet"))
    return archive.groups, archive.hashes, archived_results(archive, "plain", ["sotu-gpt-30k"])


def _digest():
    from hpobench_nmt.arena.digest import load_digest

    return load_digest(Path("digest.parquet"))


def _card():
    from hpobench_nmt.arena.archive import Card
    from hpobench_nmt.core.system.validation import load_toml

    return load_toml(Path("card.toml"), Card)


def _spec(name):
    def read():
        from hpobench_nmt.runner.specs.search_file import load_any, load_search

        path = Path(name)
        return (
            load_search(path, ["python", "x.py", "{lr}", "{layers}"])
            if name == "search.toml"
            else load_any(path)
        )

    return read


def _ledger(folder):
    """The ledger of four trainings, with its spec, in the format without hashes."""
    from hpobench_nmt.runner.specs.spec_file import load_spec

    (folder / "small").mkdir()
    (folder / "small" / "spec.toml").write_text(SPEC)
    spec = load_spec(folder / "small" / "spec.toml")
    corpus = {"source": "made", "licence": "MIT", "sha256": "0" * 64}
    lines = [{"ledger": 1, "spec": spec.identity, "corpus": corpus}]
    for row in range(4):
        metrics = {"dev_ppl": 50.0 + row, "test_ppl": 55.5 + row, "num_updates": 20}
        ended = {"status": "done", "metrics": metrics} if row else {"status": "failed", "reason": "no memory"}
        about = {"device": "cpu", "versions": {"torch": "2.13.0"}, "started": "2025-01-01T00:00:00+00:00"}
        curve = [{"update": 10 * k, "dev_ppl": 60.0 - k} for k in (1, 2)]
        known = {
            "config": spec.configuration(row),
            "replicate": 0,
            "seed": row,
            "seconds": 1.5,
            "curve": curve,
        }
        lines.append(known | about | ended)
    (folder / "small" / "ledger.jsonl").write_bytes(samples.lines(lines))


def _build():
    from hpobench_nmt.runner.ledgers.build_table import build
    from hpobench_nmt.runner.ledgers.merge import merge

    build(Path("small"))
    return merge([Path("small")], Path("merged"))


def _journal():
    from hpobench_nmt.runner.tuning.journal import Journal, begun_with

    begun_with(Path(), "RS", {"seed": 0})
    return Journal(Path("tuning-0.jsonl"), samples.JOURNAL).read()


def _program(command):
    """A trial of a program on eight rows, whose transcript is talk.jsonl."""
    from hpobench_nmt.benchmarking.contestants.plugins import load_method
    from hpobench_nmt.benchmarking.contestants.program import one_trial
    from hpobench_nmt.core.problem import Problem
    from hpobench_nmt.core.trainings import Trainings
    from hpobench_nmt.core.trial_loop import run_trial

    problem = Problem(frozen(np.linspace(0.0, 1.0, 8)[:, None]), 1, 8, 1)
    losses = (np.arange(8.0) - 5.0)[:, None] ** 2
    with one_trial(load_method(f"cmd:{command}"), Path("talk.jsonl")) as make:
        return run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(0), [0])


def _talk(folder):
    """The transcript of a program that names one row after another."""
    code = """
import json, sys
for n, line in enumerate(line for line in sys.stdin if '"ask"' in line):
    print(json.dumps({"row": n + 1}), flush=True)
"""
    (folder / "agent.py").write_text(code)
    with chdir(folder):
        _program(f"{shlex.quote(sys.executable)} agent.py")


def _state():
    return hb.Optimizer.load("state.json").ask()


def _published(suffix):
    """A collection that declares a file of this kind, in the authors' folder."""

    def make(folder):
        (folder / f"runs{suffix}").write_bytes(samples.PUBLISHED[suffix])
        declare(folder)

    def declare(folder):
        digest = hashlib.sha256((folder / f"runs{suffix}").read_bytes()).hexdigest()
        text = samples.DECLARATION.format(suffix=suffix, sha256=digest)
        text = text if suffix == ".json" else text.replace('levels = ["method"]\n', "")
        (folder / "made.toml").write_text(text)

    def read():
        from hpobench_nmt.lookup.collections.declared import read_declaration

        return read_declaration(Path("made.toml")).fetch(Path("tables"), Path().absolute())

    return Reader(make, read, (f"runs{suffix}",), declare)


def _collection(name, *files):
    """A collection of the package, from made-up files in the form of its authors'."""

    def make(folder):
        small_collections.clone(name, folder)
        declare(folder)

    def declare(folder):
        small_collections.declare(name, folder)

    def read():
        from hpobench_nmt.lookup.collections.declared import read_declaration

        return read_declaration(Path(f"{name}.toml")).fetch(Path("tables"), Path().absolute())

    return Reader(make, read, files, declare)


def _members(kind):
    """An archive of a repository, read member by member."""
    name = f"a.{kind}"

    def read():
        from hpobench_nmt.lookup.collections.archives import tar_members, zip_members

        members = zip_members if kind == "zip" else tar_members
        return list(members(Path(name).read_bytes(), name, ".*", 10**6))

    return Reader(lambda folder: (folder / name).write_bytes(samples.packed(kind)), read)


def _pickle():
    from hpobench_nmt.lookup.collections.plain_pickle import read_plain_pickle

    return read_plain_pickle(Path("a.pickle").read_bytes(), Path("a.pickle"))


def _corpus(make, section, files):
    """The files of a corpus, prepared from a spec's section."""

    def read():
        from hpobench_nmt.runner.corpora import load_corpus

        return load_corpus(section, Path(), Path("cache"))

    return Reader(make, read, files)


def _pairs(kind):
    return {"name": "pairs", "source": "de", "target": "en", "format": kind} | {
        part: f"{part}.{kind}" for part in samples.PARTS
    } | ({"source_column": "de", "target_column": "en"} if kind == "tsv" else {})  # fmt: skip


def _sides(ending, **options):
    return {"name": "parallel", "source": "de", "target": "en", **options} | {
        f"{part}_{side}": f"{part}.{language}{ending}"
        for part in samples.PARTS
        for side, language in (("source", "de"), ("target", "en"))
    }


def _prepared():
    from hpobench_nmt.runner.corpora.corpus import read_prepared

    return [read_prepared(path) for path in Path("cache/corpora").glob("*.npz")]


def _kept(load):
    def read():
        from hpobench_nmt.runner.families import kept

        folder = Path("models/key").absolute()
        return (
            kept.load_language_model(folder, "cpu") if load == "text" else kept.load_translation_model(folder)
        )

    return read


def _hash_model(folder):
    """Make the hashes of a kept model's files right again."""
    place = folder / "models" / "key"
    try:
        about = json.loads((place / "model.json").read_bytes())
        files = about["files"]
        for name in files:
            files[name] = hashlib.sha256((place / name).read_bytes()).hexdigest()
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return
    (place / "model.json").write_text(json.dumps(about))


def _curve():
    from hpobench_nmt.runner.disk.curve_file import read_curve

    return read_curve(Path())


def _training_state():
    """A state that cannot be read is reported, and the training starts again."""
    from hpobench_nmt.runner.torch_training.training_state import Checkpoints, StateFile

    with redirect_stdout(io.StringIO()):
        return StateFile(Checkpoints(Path())).read()


def _sockeye_logs():
    from hpobench_nmt.runner.nmt.sockeye_logs import read_checkpoints, read_parameter_count

    log = Path("log").read_text("utf-8", errors="replace")
    metrics = Path("metrics").read_text("utf-8", errors="replace")
    return read_checkpoints(metrics, log), read_parameter_count(log)


_TORCH = ("torch",)
_SOCKEYE = ("torch", "sentencepiece", "yaml")
_MARIAN = ("torch", "transformers", "sacrebleu", "sentencepiece")
# Each reader's name: how valid files are made, and the call that reads them.
READERS = {
    "sweep: Optuna, trials_dataframe()": _sweep("trials_dataframe", "trials.csv", metrics=("value:max",)),
    "sweep: Optuna, SQLite": _sweep("optuna_tables", "study.db"),
    "sweep: Optuna, journal": _export("journal.jsonl", samples.lines(samples.optuna_journal())),
    "sweep: MLflow, SQLite": _sweep("mlflow_database", "mlflow.db"),
    "sweep: MLflow, folder": _sweep("mlruns", "mlruns"),
    "sweep: MLflow, search_runs()": _sweep("search_runs", "search_runs.csv"),
    "sweep: MLflow, page": _sweep("mlflow_page", "page.csv"),
    "sweep: W&B, runs and chart": Reader(samples.wandb_runs, _import("runs.csv", curves="chart.csv")),
    "sweep: W&B, its API": _sweep("wandb_api", "api.csv"),
    "sweep: Ray Tune, folder": _sweep("ray", "ray"),
    "sweep: Ray Tune, get_dataframe()": _sweep("ray_frame", "ray.csv"),
    "sweep: scikit-learn": _sweep("sklearn", "cv.csv"),
    "sweep: Syne Tune": _export("results.csv", samples.SYNE_TUNE),
    "sweep: Syne Tune, ZIP": Reader(_files(a__zip=samples.packed_one()), _import("a.zip")),
    "sweep: Keras Tuner, folder": _sweep("keras_tuner", "keras", metrics=("score:max",)),
    "sweep: NNI's export": _sweep("nni", "nni.csv"),
    "sweep: NePS": _export("full.csv", samples.NEPS),
    "sweep: SMAC": _export("runhistory.json", samples.SMAC),
    "sweep: HPO-B": _export("hpob.json", samples.HPO_B),
    "sweep: Ax": _export("ax.csv", samples.AX),
    "sweep: Nevergrad": _export("log.jsonl", samples.NEVERGRAD),
    "sweep: JSON lines": _sweep("json_lines", "lines.jsonl"),
    "sweep: a log by epoch": _sweep("reports", "reports.csv"),
    "sweep: a CSV file": _export("sweep.csv", samples.SWEEP),
    "sweep: gzip": _export("sweep.csv.gz", samples.gzipped(samples.SWEEP)),
    "sweep: our own state": Reader(samples.optimizer, _import("state.json")),
    "roles.toml": Reader(
        _files(sweep__csv=samples.SWEEP, roles__toml=samples.ROLES),
        _import("sweep.csv", roles="roles.toml"),
        ("roles.toml",),
    ),
    "table folder": Reader(_world(["table"]), _read_table, repair=_hash_table),
    "collection: JSON": _published(".json"),
    "collection: JSON lines": _published(".jsonl"),
    "collection: CSV": _published(".csv"),
    "collection: numbers": _published(".dat"),
    "collection: Parquet": _published(".parquet"),
    "collection: ZIP": _members("zip"),
    "collection: tar": _members("tar"),
    "collection: tar.gz": _members("tar.gz"),
    "collection: tar.bz2": _members("tar.bz2"),
    "collection: tar.xz": _members("tar.xz"),
    "collection: AlgoPerf": _collection("algoperf", "hparams.json", "*.csv"),
    "collection: LLM-Pilot": _collection("llm-pilot", "*.csv"),
    "collection: Marin": _collection("marin-optimizers", "*.json"),
    "collection: MLPerf": _collection("mlperf-training", "*.txt"),
    "collection: modded-nanogpt": _collection("nanogpt-track-3", "*.txt"),
    "collection: NAS-Bench-NLP": _collection("nas-bench-nlp", "*.zip"),
    "collection: NMTLC": _collection("nmtlc", "*.pkl"),
    "collection: PEFT": _collection("peft", "*.json"),
    "collection: Step Law": _collection("steplaw", "*.csv"),
    "collection: TaskSet": _collection("taskset", "*.json"),
    "collection: pickle": Reader(_files(a__pickle=samples.PICKLE), _pickle),
    "front of a CSV file": Reader(
        _files(points__csv=samples.POINTS), lambda: hb.pareto("points.csv", ["accuracy:max", "ms:min"])
    ),
    "tidy CSV of compare": Reader(
        _files(tidy__csv=samples.TIDY), lambda: str(hb.compare("tidy.csv", methods=["A", "B"]))
    ),
    "suite": Reader(
        _with(_world(["table"]), mine__toml=samples.SUITE, figures__csv=samples.FIGURES),
        _suite,
        ("mine.toml", "figures.csv"),
    ),
    "results folder": Reader(
        _world(["table", "results"]), lambda: hb.load_results("work/results/r").scores(), ("results/**/*",)
    ),
    "archive": Reader(samples.archive, _archive, ("lm-2026.parquet",)),
    "digest": Reader(samples.archive, _digest, ("digest.parquet",)),
    "submission card": Reader(_files(card__toml=samples.CARD), _card),
    "state of Optimizer and minimize": Reader(samples.optimizer, _state),
    "search.toml": Reader(_files(search__toml=samples.SEARCH), _spec("search.toml")),
    "spec": Reader(_files(small__toml=SPEC.encode()), _spec("small.toml"), needs=_TORCH),
    "ledger": Reader(_ledger, _build, ("ledger.jsonl",), needs=_TORCH),
    "spec beside a ledger": Reader(_ledger, _build, ("spec.toml",), needs=_TORCH),
    "journal of tune": Reader(_files(**{"tuning-0__jsonl": samples.FINISHED}), _journal),
    "curve of a training": Reader(_files(curve__jsonl=samples.CURVE), _curve),
    "transcript of a program": Reader(_talk, lambda: _program("false"), ("talk.jsonl",)),
    "corpus: text": _corpus(samples.text, samples.TEXT, ("*.txt",)),
    "corpus: pairs, TSV": _corpus(samples.pairs, _pairs("tsv"), ("*.tsv",)),
    "corpus: pairs, JSON lines": _corpus(samples.pairs, _pairs("jsonl"), ("*.jsonl",)),
    "corpus: pairs, Parquet": _corpus(samples.pairs, _pairs("parquet"), ("*.parquet",)),
    "corpus: two files": _corpus(samples.pairs, _sides(""), ("*.de", "*.en")),
    "corpus: gzip": _corpus(samples.pairs, _sides(".gz", unpack=True), ("*.gz",)),
    "corpus: xz": _corpus(samples.pairs, _sides(".xz", unpack=True), ("*.xz",)),
    "corpus: LibreOffice's help": _corpus(samples.help_pages, samples.HELP, ("*.html", "*.mo", "*.gz")),
    "prepared corpus": Reader(samples.prepared, _prepared, ("*.npz",)),
    "kept language model": Reader(
        samples.language_model, _kept("text"), ("models/key/*",), _hash_model, needs=_TORCH
    ),
    "kept Sockeye model": Reader(
        samples.sockeye_model, _kept("pairs"), ("models/key/*",), _hash_model, needs=_SOCKEYE
    ),
    "kept Marian model": Reader(
        samples.marian_model, _kept("pairs"), ("models/key/*",), _hash_model, needs=_MARIAN
    ),
    "state of a training": Reader(samples.training_state, _training_state, ("training.pt",), needs=_TORCH),
    "logs of Sockeye": Reader(
        _files(log=samples.LOG, metrics=samples.METRICS), _sockeye_logs, refusal=TrainingFailed
    ),
}
