"""Kept models: saved by a training, read back, evaluated on text, and refused where they are not whole."""

import hashlib
import json
import math
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import torch

from hpobench_nmt.cli.main import main
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.files import remove_leftovers
from hpobench_nmt.runner.corpora import filled_section, load_corpus, split_text
from hpobench_nmt.runner.disk.kept_model import KEPT, kept_file, read_kept
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.families.kept import load_language_model
from hpobench_nmt.runner.family import Job
from hpobench_nmt.runner.ledgers.ledger import Record, read_ledger
from hpobench_nmt.runner.lm.evaluate_kept import evaluate, numbered
from hpobench_nmt.runner.lm.kept_files import load_losses
from hpobench_nmt.runner.lm.language_model import parameter_count
from hpobench_nmt.runner.settings import Settings
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.training.train_row import keep_model
from hpobench_nmt.runner.training.training_process import train_one
from hpobench_nmt.runner.training.workspace import open_workspace

TEXT = {"name": "text", "train": "train.txt", "dev": "dev.txt", "test": "test.txt"}
CHARACTERS = {"unit": "character", "dev_tokens": 150, "test_tokens": 90}
QUICK = {"batch_size": 4, "bptt": 10, "max_epochs": 1, "tuning_tokens": 60, "cache_window": 50}
QUICK |= {"dynamic_statistics": 500}
MODELS = {
    "awd-lstm": {"layers": 2, "embedding_size": 6, "hidden_size": 5, "learning_rate": 5.0, **QUICK},
    "melis": {"budget": 1686, "input_embedding_ratio": 0.5, "check_updates": 30, "drops": 0, **QUICK},
    "mlstm": {
        "hidden_size": 8,
        "embedding_size": 6,
        "check_updates": 30,
        "dynamic_rule": "sparse",
        **QUICK,
        "batch_size": 20,
    },
    "dynamic-evaluation": {
        "layers": 1,
        "embedding_size": 6,
        "batch_size": 4,
        "bptt": 10,
        "max_epochs": 1,
        "learning_rate": 5.0,
        "dynamic_learning_rate": 0.002,
    },
}


def trained(place, scratch, family, section=TEXT, keep=True, **settings):
    """The result of a training in this process; its model is kept in scratch/kept."""
    scratch.mkdir(parents=True)
    job = Job(
        load_family(family).settings(**settings),
        7,
        section,
        place,
        place / "cache",
        scratch,
        "cpu",
        keep=keep,
    )
    return job, train_one(family, job)


def kept_model(place, folder, family, section=TEXT, **settings):
    """A kept model of a training, at `folder`, and its metrics."""
    job, result = trained(place, folder.with_name(f"{folder.name}-scratch"), family, section, **settings)
    assert (result.failure, result.not_kept) == ("", "")
    record = Record({"a": 1}, 0, 7, "done", metrics=result.outcome.metrics, tuned=result.outcome.tuned)
    provenance = load_corpus(section, place, place / "cache").provenance
    keep_model(job.scratch / KEPT, folder, family, job.settings, filled_section(section), provenance, record)
    return result.outcome.metrics


@pytest.fixture(scope="module")
def awd_lstm(place):
    folder = place / "models" / "awd-lstm"
    return folder, kept_model(place, folder, "awd-lstm", **MODELS["awd-lstm"])


@pytest.fixture
def copy(awd_lstm, tmp_path):
    """A kept model that a test may damage."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in awd_lstm[0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def text_of(place, kept, part):
    path = place / f"{part}.txt"
    tokens = split_text(kept.about.corpus, path.read_bytes(), path)
    return numbered(kept.corpus.vocabulary, tokens, str(path))


@pytest.mark.parametrize("family", MODELS)
def test_the_corpus_own_text_has_the_scores_of_the_training(place, awd_lstm, family):
    folder, metrics = awd_lstm
    section = TEXT
    if family != "awd-lstm":
        section = TEXT | (CHARACTERS if family == "mlstm" else {})
        folder = place / "models" / family
        metrics = kept_model(place, folder, family, section, **MODELS[family])
    kept = load_language_model(folder, "cpu")
    corpus = load_corpus(section, place, place / "cache")
    score = "bpc" if family == "mlstm" else "ppl"
    expected = {"static": "", "cache": "_cache", "dynamic": "_dynamic"}
    if family == "dynamic-evaluation":
        expected = {"static": "_static", "dynamic": ""}
    losses = load_losses(folder)
    assert set(losses) == {f"{part}_{name}" for part in ("dev", "test") for name in expected}
    for part in ("dev", "test"):
        tokens, outside = text_of(place, kept, part)
        assert outside == 0
        tokens = tokens[: section.get(f"{part}_tokens")]
        np.testing.assert_array_equal(tokens, getattr(corpus, part))
        np.testing.assert_array_equal(getattr(kept.corpus, part), tokens)
        found = evaluate(kept, tokens, kept.settings.dynamic_rule, cache="cache" in expected)
        assert {e.name for e in found} == {kept.settings.dynamic_rule, *expected} - {"dynamic"}
        for each, suffix in zip(found, expected.values(), strict=True):
            assert each.scores == {score: metrics[f"{part}_{score}{suffix}"]}
        for name, suffix in expected.items():
            mean = losses[f"{part}_{name}"].mean()
            assert losses[f"{part}_{name}"].shape == (len(tokens) - 1,)
            assert metrics[f"{part}_{score}{suffix}"] == (
                mean / math.log(2) if score == "bpc" else math.exp(mean)
            )


def test_another_rule_is_tuned_on_the_kept_dev_part(place, awd_lstm):
    kept = load_language_model(awd_lstm[0], "cpu")
    tokens, _ = text_of(place, kept, "test")
    static, dynamic = evaluate(kept, tokens, "sparse")
    assert dynamic.name == "sparse" and dynamic.scores != static.scores
    first = kept.settings.dynamic_learning_rate
    assert dynamic.used["dynamic_learning_rate"] != first  # 60 tokens of dev ask for a higher one
    untuned = replace(kept, settings=replace(kept.settings, tuning_tokens=0))
    assert evaluate(untuned, tokens, "sparse")[1].used["dynamic_learning_rate"] == first


@pytest.mark.parametrize(
    ("family", "unit", "settings"),
    [
        ("awd-lstm", "word", {"layers": 1, "embedding_size": 5}),
        ("awd-lstm", "word", {"layers": 3, "embedding_size": 5, "hidden_size": 7}),
        ("mlstm", "character", {"hidden_size": 7, "embedding_size": 5}),
        ("mlstm", "character", {"hidden_size": 7, "embedding_size": 5, "weight_norm": False}),
        ("melis", "word", {"budget": 5079, "input_embedding_ratio": 0.5}),
        ("melis", "character", {"budget": 5000, "cell": "rhn", "depth": 2}),
        ("dynamic-evaluation", "word", {"layers": 2, "embedding_size": 5, "hidden_size": 7}),
    ],
)
def test_the_number_of_parameters_is_known_before_a_model_is_made(family, unit, settings):
    found = load_family(family)
    every = found.settings(**settings)
    model = found.architecture.build(every, 11, unit, torch.Generator().manual_seed(0))
    assert found.architecture.parameters(every, 11, unit) == parameter_count(model)


def test_words_out_of_the_vocabulary_are_counted():
    words = ("<unk>", "<eos>", "a")
    tokens, outside = numbered(words, ["a", "b", "<unk>", "<eos>", "c"], "text")
    assert tokens.tolist() == [2, 0, 0, 1, 0] and outside == 3
    with pytest.raises(InputError, match="has 1 tokens but needs at least 2"):
        numbered(words, ["a"], "text")
    with pytest.raises(InputError, match=r"2 characters .* such as 'x'.*remove or replace"):
        numbered(("a", "b"), ["a", "x", "b", "x"], "text")


@pytest.mark.parametrize(
    ("section", "content", "tokens"),
    [
        (TEXT, b"a  b\r\n\nc", ["a", "b", "<eos>", "<eos>", "c", "<eos>"]),
        (TEXT | {"tokenise": True}, b"don't, a.\n", ["don't", ",", "a", ".", "<eos>"]),
        (TEXT | {"unit": "character"}, "a\u00e9\n".encode(), ["a", "\u00e9", "\n"]),
        ({"name": "enwik8", "file": "x"}, b"a\n\xff", ["a", "<0A>", "<FF>"]),
        ({"name": "sotu"}, b"My Fellow [Applause] citizens.", ["my", "fellow", "citizens", ".", "<eos>"]),
        ({"name": "sotu", "unit": "character"}, b"A  b\n\n c", ["A", " ", "b", "\n", "c", "<eos>"]),
        ({"name": "lohelp", "source": "de", "target": "en"}, "a\u0308b,c\n\n".encode(), ["\u00e4b , c", ""]),
    ],
)
def test_another_text_is_split_as_the_corpus_is(section, content, tokens):
    assert split_text(section, content, Path("t")) == tokens


def rewrite(folder, name, content):
    """Another content of a file, with its right SHA-256 in model.json: as somebody might who means harm."""
    (folder / name).write_bytes(content)
    about = json.loads((folder / "model.json").read_text())
    about["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "model.json").write_text(json.dumps(about))


def edit(folder, **changes):
    about = json.loads((folder / "model.json").read_text())
    for key, value in changes.items():
        if isinstance(value, dict):
            value = about[key] | value
        about[key] = value
    (folder / "model.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, r"model.json: format 2; this version reads format 1"),
        ({"family": "awd-lstn"}, "unknown model family 'awd-lstn'. Did you mean 'awd-lstm'"),
        ({"settings": {"hidden_sise": 3}}, "unknown setting 'hidden_sise'. Did you mean 'hidden_size'"),
        ({"settings": {"hidden_size": 10**7}}, "hidden_size is 10000000, but goes from 1 to 100000"),
        ({"settings": {"hidden_size": 100_000}}, r"weights.pt: holds 670 numbers; a model .* has 40,0"),
        ({"settings": {"embedding_size": "6"}}, "embedding_size must be a whole number, not '6'"),
        ({"corpus": [1]}, "corpus must be a section"),
        ({"metrics": {"dev_ppl": "abc"}}, "metrics.dev_ppl must be a finite number, not 'abc'"),
        ({"extra": 1}, "unknown key 'extra'"),
    ],
)
def test_a_description_that_is_wrong_is_one_line(copy, changes, message):
    edit(copy, **changes)
    with pytest.raises(InputError, match=message) as error:
        load_language_model(copy, "cpu")
    assert "\n" not in str(error.value)


def test_files_that_are_damaged_links_or_compressed_are_refused(copy, tmp_path):
    path = copy / "weights.pt"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"weights.pt: its SHA-256"):
        load_language_model(copy, "cpu")
    rewrite(copy, "weights.pt", content[:-100])
    with pytest.raises(InputError, match=r"weights.pt: cannot be used"):
        load_language_model(copy, "cpu")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights/data.pkl", b"0" * 1000)
    rewrite(copy, "weights.pt", path.read_bytes())
    with pytest.raises(InputError, match="it is compressed"):
        load_language_model(copy, "cpu")
    outside = tmp_path / "elsewhere"
    outside.write_bytes(content)
    path.unlink()
    path.symlink_to(outside)
    with pytest.raises(InputError, match="links are not followed"):
        load_language_model(copy, "cpu")
    path.unlink()
    with pytest.raises(InputError, match="incomplete"):
        load_language_model(copy, "cpu")


class Evil:
    """Its pickle makes a file."""

    def __reduce__(self):
        return Path.touch, (Path("evil"),)


def test_tensors_that_are_not_the_models_are_refused(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = torch.load(copy / "weights.pt", weights_only=True)

    def refused(value, message, name="weights.pt"):
        torch.save(value, tmp_path / "new.pt")
        rewrite(copy, name, (tmp_path / "new.pt").read_bytes())
        with pytest.raises(InputError, match=message):
            load_language_model(copy, "cpu")

    statistics = torch.load(copy / "statistics.pt", weights_only=True)
    refused(statistics[::-1], "its tensors do not fit this model", "statistics.pt")
    refused({name: w.double() for name, w in weights.items()}, "do not fit a model with these settings")
    refused({name: torch.zeros(1).expand(w.shape) for name, w in weights.items()}, "in one piece")
    bias = {"output_bias": weights["output_bias"][:, None]}
    refused(weights | bias, "do not fit a model with these settings")
    refused({"x" + name: w for name, w in weights.items()}, "do not fit a model with these settings")
    refused(list(weights.values()), "does not have tensors by name")
    refused({"a": Evil()}, "cannot be used")
    assert not Path("evil").exists()


def test_tokens_out_of_the_vocabulary_are_refused(copy, tmp_path):
    np.savez(tmp_path / "t.npz", train=np.array([1, 2], "u1"), dev=np.array([1, 99], "u1"))
    rewrite(copy, "tokens.npz", (tmp_path / "t.npz").read_bytes())
    with pytest.raises(InputError, match=r"tokens.npz: dev must be numbers of the vocabulary"):
        load_language_model(copy, "cpu")


def test_how_a_model_adapts_to_a_text(place, awd_lstm, tmp_path, capsys):
    folder, _ = awd_lstm
    out = tmp_path / "out"
    arguments = [
        "adaptation",
        folder,
        "--out",
        out,
        "--parts",
        2,
        "--window",
        10,
        "--then",
        place / "dev.txt",
    ]
    arguments += ["--word", "w3", "--sample", 12, "--context", 50, "--device", "cpu"]
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert not ended.value.code
    kept = load_language_model(folder, "cpu")
    test, dev = kept.corpus.test, kept.corpus.dev
    losses = load_losses(folder)
    scales = pd.read_csv(out / "timescales.csv")
    length = len(test) // 2
    assert scales.tokens.sum() == length - 1
    carried = (
        losses["test_dynamic"][: length - 1].mean() + losses["test_dynamic"][length : 2 * length - 1].mean()
    )
    assert (scales.dynamic_carried * scales.tokens).sum() / scales.tokens.sum() == pytest.approx(carried / 2)
    shift = pd.read_csv(out / "shift.csv")
    assert (shift.position >= 0).sum() == math.ceil(len(dev) / 10)
    before = shift[shift.position < 0]
    static = losses["test_static"]
    assert (before.static * before.tokens).sum() == pytest.approx(static.sum())
    drawn = sorted(path.name for path in out.glob("*.p*"))
    assert drawn == ["shift.pdf", "shift.png", "timescales.pdf", "timescales.png"]
    related = pd.read_csv(out / "related.csv")
    assert sorted(related.word) == sorted(kept.corpus.vocabulary)
    assert related.word[0] == "w3" and related.cosine.is_monotonic_decreasing
    assert "median" in capsys.readouterr().out
    text = (out / "samples.txt").read_text()
    static, dynamic = text.removeprefix("static:\n").removesuffix("\n").split("\n\ndynamic:\n")
    assert len(static.split(" ")) == len(dynamic.split(" ")) == 12
    with pytest.raises(SystemExit) as ended:
        main(["adaptation", str(folder), "--out", str(out), "--word", "nobody"])
    assert ended.value.code == 2
    assert "'nobody' is not in the vocabulary" in capsys.readouterr().err


_SAVE = """
import resource, signal, sys
from functools import partial
from pathlib import Path
from hpobench_nmt.runner.family import Outcome
from hpobench_nmt.runner.families.kept import load_language_model
from hpobench_nmt.runner.lm.kept_files import save_language_model
from hpobench_nmt.runner.training.training_process import _save
kept = load_language_model(Path(sys.argv[1]), "cpu")
save = partial(save_language_model, model=kept.model, corpus=kept.corpus, settings=kept.settings,
               losses={}, statistics=kept.statistics)
for size in map(int, sys.argv[3:]):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    print(_save(Outcome({}, save=save), Path(sys.argv[2])), Path(sys.argv[2]).exists())
"""


def test_a_full_disk_leaves_no_half_of_a_model_and_ends_nothing(awd_lstm, tmp_path):
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "RLIMIT_FSIZE"):
        pytest.skip("the system has no limit on file sizes")
    # The weights take 5 kB, the tokens 4 kB.
    done = subprocess.run(
        [sys.executable, "-c", _SAVE, awd_lstm[0], tmp_path / "new", "1000", "4500", "100000"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["OSError: [Errno 27] File too large False"] * 2 + [" True"]


_KEEP = """
import os, signal, sys
from pathlib import Path
from hpobench_nmt.runner.training.train_row import keep_model
from hpobench_nmt.runner.ledgers.ledger import Record, read_ledger
from hpobench_nmt.runner.settings import Settings
left = int(sys.argv[3])
def counted(function):
    def call(*arguments):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return function(*arguments)
    return call
os.fsync, Path.rename = counted(os.fsync), counted(Path.rename)
new = Path(sys.argv[1])
new.mkdir()
(new / "a").write_text("new")
keep_model(new, Path(sys.argv[2]), "melis", Settings(), {}, {}, Record({"a": 2}, 0, 1, "done"))
print("kept")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_kill_leaves_the_old_model_or_the_new_one(tmp_path):
    target = tmp_path / "models" / "key"
    old = tmp_path / "old"
    old.mkdir()
    (old / "a").write_text("old")
    keep_model(old, target, "melis", Settings(), {}, {}, Record({"a": 1}, 0, 1, "done"))
    for step in range(10):
        command = [sys.executable, "-c", _KEEP, tmp_path / f"new{step}", target, str(step)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        remove_leftovers(target.parent)
        about = read_kept(target)
        kept_file(target, about, "a")
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        found = about.configuration["a"], (target / "a").read_text()
        assert found in ((1, "old"), (2, "new"))  # the second where the two folders had been exchanged
    assert step >= 3 and about.configuration == {"a": 2} and (target / "a").read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["key"]


SPEC = """
name = "tiny"
family = "awd-lstm"
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
hidden_size = [4, 5, 6]
[fixed]
layers = 1
embedding_size = 6
batch_size = 20
bptt = 20
learning_rate = 5
max_epochs = 1
cache_window = 0
dynamic_rule = "none"
"""


def test_a_ledger_goes_on_with_and_without_keeping_models(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(tmp_path / "home"))
    for part in ("train", "dev", "test"):
        shutil.copy(place / f"{part}.txt", tmp_path)
    Path("tiny.toml").write_text(SPEC)
    Path("kept.toml").write_text("keep = true\n" + SPEC)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return ended.value.code, capsys.readouterr()

    train = ("--out", "tiny", "--device", "cpu", "--jobs", "1", "--quiet")
    assert run("train", "tiny.toml", *train, "--limit", "1")[0] == 0
    assert not Path("tiny/models").exists()
    # What cannot be written costs the model, not the training.
    Path("tiny/models").write_text("")
    code, output = run("train", "tiny.toml", *train, "--limit", "1", "--keep")
    assert code == 1
    assert "is recorded, but its model could not be kept (FileExistsError" in output.err
    assert len(read_ledger(Path("tiny/ledger.jsonl")).records) == 2
    Path("tiny/models").unlink()
    # The spec may ask for it, too.
    code, output = run("train", "kept.toml", *train)
    assert code == 0
    assert (
        "models of 1 training. 2 of the trainings have no model, because models were not kept then."
        in output.out
    )
    *_, record = read_ledger(Path("tiny/ledger.jsonl")).records
    (folder,) = Path("tiny/models").iterdir()
    assert f"The best dev_ppl, {record.metrics['dev_ppl']:.6g}" in output.out and str(folder) in output.out
    about = read_kept(folder)
    assert (about.seed, about.metrics, about.configuration) == (record.seed, record.metrics, record.config)
    assert about.provenance["sha256"] == read_ledger(Path("tiny/ledger.jsonl")).corpus["sha256"]

    code, output = run("evaluate", str(folder), "--text", "dev.txt", "--device", "cpu", "--format", "json")
    found = json.loads(output.out)
    assert found["evaluations"][0]["ppl"] == record.metrics["dev_ppl"]
    assert found["out_of_vocabulary"] == 0
    Path("o.txt").write_text("w1 w2 zebra\n")
    code, output = run("evaluate", str(folder), "--text", "o.txt", "--device", "cpu")
    assert "o.txt: 4 words, 1 (25.00%) out of the vocabulary of 14" in output.out
    Path("o.txt").write_text("")
    for arguments, message in (
        (("evaluate", str(folder), "--text", "o.txt"), "o.txt: has 0 tokens but needs at least 2"),
        (("evaluate", str(folder), "--text", "dev.txt", "--dynamic", "sdg"), "Did you mean 'sgd'?"),
        (("evaluate", "tiny", "--text", "o.txt"), "tiny: is not a kept model: it has no model.json"),
        (("translate", str(folder), "--text", "dev.txt"), "is a language model: use `hpobench-nmt evaluate`"),
    ):
        code, output = run(*arguments)
        assert code == 2 and message in output.err


def test_a_folder_of_models_that_is_a_link_is_not_written_to(place, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC.replace('"text"', '"text"\nunit = "word"'))
    for part in ("train", "dev", "test"):
        shutil.copy(place / f"{part}.txt", tmp_path)
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "models").symlink_to(tmp_path)
    with pytest.raises(InputError, match="models: is a symbolic link"):
        open_workspace(load_spec(tmp_path / "spec.toml"), tmp_path / "ledger", tmp_path / "cache", keep=True)
