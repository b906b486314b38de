"""Kept models: saved by a training, beside a ledger, read back, and evaluated on text."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import torch
from small_kept_models import MODELS, TEXT, kept_model

from hpobench_nmt.cli.main import main
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import load_corpus, split_text
from hpobench_nmt.runner.disk.kept_model import read_kept
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.families.kept import load_language_model
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.lm.evaluate_kept import evaluate, numbered
from hpobench_nmt.runner.lm.kept_files import LOSSES
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.torch_training.memory import parameter_count
from hpobench_nmt.runner.training.workspace import open_workspace

CHARACTERS = {"unit": "character", "dev_tokens": 150, "test_tokens": 90}


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
    losses = np.load(folder / LOSSES)
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


def test_how_a_model_adapts_to_a_text(place, awd_lstm, tmp_path, capsys):
    folder, _ = awd_lstm
    out = tmp_path / "out"
    arguments = [
        "model",
        "adaptation",
        folder,
        "--out",
        out,
        "--set",
        "parts=2,window=10,word=w3,sample=12",
        "--set",
        "context=50",
        "--text",
        f"{place / 'test.txt'},{place / 'dev.txt'}",
        "--device",
        "cpu",
    ]
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert not ended.value.code
    kept = load_language_model(folder, "cpu")
    test, dev = kept.corpus.test, kept.corpus.dev
    losses = np.load(folder / LOSSES)
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
        main(["model", "adaptation", str(folder), "--out", str(out), "--set", "word=nobody"])
    assert ended.value.code == 2
    assert "'nobody' is not in the vocabulary" in capsys.readouterr().err


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

    code, output = run(
        "model", "evaluate", str(folder), "--text", "dev.txt", "--device", "cpu", "--format", "json"
    )
    found = json.loads(output.out)
    assert [each["evaluation"] for each in found["evaluations"]] == ["static"]
    assert found["evaluations"][0]["ppl"] == record.metrics["dev_ppl"]
    assert found["out_of_vocabulary"] == 0
    code, output = run(
        "model", "evaluate", str(folder), "--text", "dev.txt", "--device", "cpu", "--set", "cache=true"
    )
    assert [line.split()[0] for line in output.out.splitlines()[-2:]] == ["static", "cache"]
    Path("o.txt").write_text("w1 w2 zebra\n")
    code, output = run("model", "evaluate", str(folder), "--text", "o.txt", "--device", "cpu")
    assert "o.txt: 4 words, 1 (25.00%) out of the vocabulary of 14" in output.out
    Path("o.txt").write_text("")
    for arguments, message in (
        (("model", "evaluate", str(folder), "--text", "o.txt"), "o.txt: has 0 tokens but needs at least 2"),
        (
            ("model", "evaluate", str(folder), "--text", "dev.txt", "--set", "dynamic=sdg"),
            "Did you mean 'sgd'?",
        ),
        (("model", "evaluate", "tiny", "--text", "o.txt"), "tiny: is not a kept model: it has no model.json"),
        (
            ("model", "translate", str(folder), "--text", "dev.txt"),
            "is a language model: use `hpobench-nmt model evaluate`",
        ),
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
