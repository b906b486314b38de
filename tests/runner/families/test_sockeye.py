"""The translation family: tiny transformers are really trained, by Sockeye's own commands."""

import math
import os
import re
import shutil
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import corpus_of
from hpobench_nmt.runner.disk.curve_file import read_curve
from hpobench_nmt.runner.family import Job, TrainingFailed, TrainingStarved
from hpobench_nmt.runner.nmt.prepare_corpus import Prepared, prepare
from hpobench_nmt.runner.nmt.train_model import decode_arguments, train_arguments, train_model
from hpobench_nmt.runner.settings import settings_of

sockeye = pytest.importorskip("hpobench_nmt.runner.families.sockeye")
MISSING = sockeye.FAMILY.missing()
needs_sockeye = pytest.mark.skipif(bool(MISSING), reason=f"needs: {MISSING}")

# For tests/runner/test_every_family.py.
SPEC = """
objectives = ["dev_bleu", "dev_gpu_time"]
[grid]
num_layers = [1]
learning_rate = [0.01, 0.02]
[fixed]
bpe_symbols = 30
num_embed = 32
num_hidden = 48
num_heads = 2
max_length = 20
batch_size = 400
dropout = 0
checkpoint_interval = 40
max_updates = 80
checkpoint_sentences = 10
beam_size = 2
"""
CORPUS = {"name": "parallel", "source": "de", "target": "en"} | {
    f"{part}_{side}": f"{part}.{side}" for part in ("train", "dev", "test") for side in ("source", "target")
}
TIMES = ("dev_gpu_time", "dev_cpu_time", "train_time")
TINY = {
    "bpe_symbols": 30,
    "num_layers": 1,
    "num_embed": 32,
    "num_hidden": 48,
    "num_heads": 2,
    "learning_rate": 0.01,
    "max_length": 20,
    "batch_size": 400,
    "dropout": 0.0,
    "checkpoint_interval": 40,
    "max_updates": 120,
    "beam_size": 5,
}


def settings(**changes):
    return sockeye.FAMILY.settings(**TINY | changes)


@pytest.fixture(scope="module")
def base(tmp_path_factory, parallel_files):
    folder = tmp_path_factory.mktemp("corpus")
    parallel_files(folder)
    return folder


@pytest.fixture
def job(base, tmp_path):
    def make(**changes):
        return Job(settings(**changes), 5, CORPUS, base, base / "cache", tmp_path, "cpu")

    return make


@pytest.fixture(scope="module")
def undisturbed(base, tmp_path_factory):
    """A training from its beginning to its end, and its outcome."""
    twice = settings(decode_times=2)
    this = Job(twice, 5, CORPUS, base, base / "cache", tmp_path_factory.mktemp("scratch"), "cpu")
    return this, sockeye.FAMILY.train(this)


@needs_sockeye
@pytest.mark.hosts
def test_a_model_is_trained_decoded_and_scored(undisturbed, base):
    import torch

    this, outcome = undisturbed
    metrics = outcome.metrics

    # The parameters are counted in the model itself: tied ones share their memory, positions are fixed.
    parameters = torch.load(this.scratch / "model" / "params.best", weights_only=True)
    trained = {t.data_ptr(): t.numel() for name, t in parameters.items() if "pos_embedding" not in name}
    assert metrics["num_param"] == sum(trained.values())
    assert set(metrics) == {m.name for m in sockeye.FAMILY.metrics} - {"gpu_memory"}
    assert all(math.isfinite(v) and v > 0 for v in metrics.values())

    # The words are so few and regular that 120 updates translate many of them.
    assert 20 < metrics["dev_bleu"] <= 100
    assert 1 < metrics["dev_ppl"] < 30
    assert metrics["num_updates"] == 120
    assert metrics["dev_gpu_time"] < metrics["train_time"]
    # Decoding takes less than starting Python with torch and loading the model, which is left out.
    assert 0.05 < metrics["dev_cpu_time"] < 5
    log = (this.scratch / "dev.log").read_text("utf-8")
    times = [float(found) for found in re.findall(r"([0-9.]+) s of processor time", log)]
    assert len(times) == 2
    assert metrics["dev_cpu_time"] == min(times)

    # BLEU is of words: the score of the translations with their subwords put together by hand.
    import sacrebleu

    pieces = (this.scratch / "dev.translated").read_text("utf-8").splitlines()
    texts = [line.replace(" ", "").replace("▁", " ").strip() for line in pieces]
    references = (base / "dev.target").read_text().splitlines()
    assert metrics["dev_bleu"] == pytest.approx(sacrebleu.corpus_bleu(texts, [references], force=True).score)

    # The learning curve: every 40 updates, and better at the end than at the start.
    assert [point["update"] for point in outcome.curve] == [40, 80, 120]
    assert all(set(point) == {"update", "dev_ppl", "dev_bleu", "seconds"} for point in outcome.curve)
    costs = [point["seconds"] for point in outcome.curve]
    assert 0 < costs[0] < costs[1] < costs[2] == metrics["train_time"]
    assert metrics["dev_ppl"] == min(point["dev_ppl"] for point in outcome.curve)
    assert outcome.curve[0]["dev_ppl"] > outcome.curve[-1]["dev_ppl"]
    assert outcome.curve[0]["dev_bleu"] < outcome.curve[-1]["dev_bleu"]
    best = min(outcome.curve, key=lambda point: point["dev_ppl"])
    assert best["dev_bleu"] == pytest.approx(metrics["dev_bleu"])  # of all of dev, with the same beam
    assert outcome.versions["sockeye"] == sockeye.SOCKEYE

    # Sockeye does not spend its time on scores that nothing reads.
    written = (this.scratch / "model" / "metrics").read_text("utf-8")
    assert re.findall(r"ter-val=(\S+)", written) == ["nan"] * 3

    # The kept model translates the text of dev as the training did, and its empty lines into empty ones.
    from hpobench_nmt.runner.families.kept import load_translation_model
    from hpobench_nmt.runner.ledgers.ledger import Record
    from hpobench_nmt.runner.nmt.translate_kept import translate
    from hpobench_nmt.runner.training.train_row import keep_model

    new, folder = this.scratch / "kept", this.scratch / "models" / "key"
    new.mkdir()
    outcome.save(new)
    keep_model(new, folder, "sockeye", this.settings, CORPUS, {}, Record({"a": 1}, 0, 5, "done"))
    shutil.rmtree(this.scratch / "model")  # the folder is enough
    source = (base / "dev.source").read_text().splitlines()
    found = translate(load_translation_model(folder), [source[0], "", *source[1:], "  ", "Zürich"], "cpu")
    kept = (folder / "dev.translations").read_text().splitlines()
    assert kept == texts
    assert [found.lines[0], *found.lines[2:-2]] == kept
    assert found.lines[1] == found.lines[-2] == ""
    assert 1 <= found.outside <= len("Zürich") < found.subwords
    assert found.seconds > 0


@needs_sockeye
@pytest.mark.hosts
def test_paused_killed_and_gone_on_with_it_has_the_same_bits(undisturbed, job, tmp_path, capsys):
    _, expected = undisturbed
    state = tmp_path / "state"

    def attempt(name, until=None):
        (tmp_path / name).mkdir()
        this = replace(job(), scratch=tmp_path / "scratch", state=state, until=until)
        shutil.rmtree(this.scratch, ignore_errors=True)
        this.scratch.mkdir()
        return sockeye.FAMILY.train(this)

    paused = attempt("first", until=30)
    assert paused.paused and not paused.metrics
    assert [point["update"] for point in paused.curve] == [40]
    again = attempt("again", until=40)  # nothing is left to do
    assert again.curve == paused.curve

    def kill():
        while len(read_curve(state)) < 2:
            time.sleep(0.02)
        own = f"{os.getpid()}"
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if parent == own and b"sockeye_train" in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(TrainingStarved, match="killed"):
        attempt("killed")
    killer.join()
    assert len(read_curve(state)) == 2
    ended = attempt("last")

    def values(outcome):
        curve = [{k: v for k, v in point.items() if k != "seconds"} for point in outcome.curve]
        return curve, {k: v for k, v in outcome.metrics.items() if k not in ("memory", *TIMES)}

    assert values(ended) == values(expected)
    costs = [point["seconds"] for point in ended.curve]
    assert costs[:1] == [paused.curve[0]["seconds"]]
    assert costs == sorted(costs) and ended.metrics["train_time"] == costs[-1]
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("update")]
    assert [line.split()[1] for line in lines][-3:] == ["40", "80", "120"]


@needs_sockeye
@pytest.mark.hosts
def test_two_workers_train_one_model_and_go_on_with_the_same_bits(job, tmp_path):
    this = job(workers=2, dropout=0.1, checkpoint_interval=20, max_updates=40, checkpoint_sentences=0)
    prepared = prepare(this, corpus_of(this), tmp_path / "measuring")

    def attempt(name, state):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / name).mkdir()
        return train_model(
            replace(this, scratch=tmp_path / name, state=state), prepared, tmp_path / "measuring"
        )

    undisturbed = attempt("undisturbed", None)
    assert [c.update for c in undisturbed.checkpoints] == [20, 40]

    def workers():
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if b"sockeye_train" in command and str(tmp_path / "killed").encode() in command:
                    found[int(entry.name)] = b"RANK=1\0" in (entry / "environ").read_bytes()
        return found

    state = tmp_path / "state"

    def kill():
        while not read_curve(state):
            time.sleep(0.02)
        (first,) = (pid for pid, second in workers().items() if not second)
        os.kill(first, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(TrainingStarved, match="killed"):
        attempt("killed", state)
    killer.join()
    deadline = time.monotonic() + 60
    while workers():  # the second worker does not live on
        assert time.monotonic() < deadline
        time.sleep(0.1)
    ended = attempt("killed", state)
    assert "Training State: epoch=" in (tmp_path / "killed" / "worker-1.log").read_text("utf-8")
    for name in ("params.00002", "worker-1.order", "worker-1.random"):
        assert (ended.model / name).read_bytes() == (undisturbed.model / name).read_bytes()
    assert ended.checkpoints[-1].perplexity == undisturbed.checkpoints[-1].perplexity


def test_more_workers_than_gpus(job):
    pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    this = replace(job(workers=64), device="cuda:1")
    with pytest.raises(
        InputError, match="workers = 64 needs as many CUDA devices from cuda:1 on, but there are"
    ):
        sockeye.FAMILY.train(this)


@needs_sockeye
@pytest.mark.hosts
def test_training_that_diverges_says_so(job):
    with pytest.raises(TrainingFailed, match=r"diverged: dev perplexity \S+ after 20 updates"):
        sockeye.FAMILY.train(job(learning_rate=1.0, checkpoint_interval=20, checkpoint_sentences=0))


@needs_sockeye
@pytest.mark.hosts
def test_bleu_of_a_sample_at_checkpoints_has_a_name_of_its_own(job):
    outcome = sockeye.FAMILY.train(job(checkpoint_interval=20, max_updates=20, checkpoint_sentences=3))
    assert [set(point) for point in outcome.curve] == [{"update", "dev_ppl", "dev_bleu_sample", "seconds"}]


@needs_sockeye
@pytest.mark.hosts
def test_training_may_go_by_bleu_instead_of_perplexity(job):
    # No BLEU rises by more than 100, but perplexity falls from infinity to its first value.
    this = job(
        stop_on="bleu", min_improvement=100.0, max_not_improved=1, checkpoint_interval=20, max_updates=60
    )
    outcome = sockeye.FAMILY.train(this)
    assert outcome.converged
    assert [point["update"] for point in outcome.curve] == [20]


@needs_sockeye
def test_more_subwords_than_the_text_has(job):
    with pytest.raises(TrainingFailed, match="bpe_symbols 9000: the source side has no more than"):
        sockeye.FAMILY.train(job(bpe_symbols=9000))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_embed": 30, "num_heads": 4}, "num_embed 30 must be a multiple of num_heads 4"),
        ({"num_embed": 9, "num_heads": 3}, "num_embed 9 must be even"),
        ({"stop_on": "bleu", "checkpoint_sentences": 0}, "stop_on 'bleu' needs checkpoint_sentences"),
    ],
)
def test_impossible_settings(changes, message):
    with pytest.raises(InputError, match=message):
        sockeye.FAMILY.check(settings(**changes))
    sockeye.FAMILY.check(settings())


def test_the_command_that_installs_what_is_missing(monkeypatch):
    def absent(name):
        raise sockeye.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sockeye, "version", absent)
    assert sockeye.FAMILY.missing() == (
        "pip install torch pyyaml sacrebleu sentencepiece && pip install --no-deps sockeye==3.1.34"
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert sockeye.FAMILY.missing() == "pip install --no-deps sockeye==3.1.34"
    monkeypatch.setattr(sockeye, "version", lambda name: sockeye.SOCKEYE)
    assert sockeye.FAMILY.missing() == ""


def test_tables_have_the_names_of_the_published_ones():
    assert list(settings_of(sockeye.FAMILY.settings))[:6] == [
        "bpe_symbols",
        "num_layers",
        "num_embed",
        "num_hidden",
        "num_heads",
        "learning_rate",
    ]
    published = {"dev_bleu", "dev_gpu_time", "dev_ppl", "num_updates", "gpu_memory", "num_param"}
    assert published <= {m.name for m in sockeye.FAMILY.metrics}


@needs_sockeye
@pytest.mark.hosts
def test_sockeye_takes_every_setting_as_it_was_meant(job, tmp_path):
    from argparse import ArgumentParser

    from sockeye.arguments import add_train_cli_args, add_translate_cli_args

    train, decode = ArgumentParser(), ArgumentParser()
    add_train_cli_args(train)
    add_translate_cli_args(decode)
    own = {
        "update_interval": 4,
        "learning_rate_scheduler": "inv-sqrt-decay",
        "amp": True,
        "tf32": False,
        "decode_dtype": "bfloat16",
    }
    (tmp_path / "data").mkdir()
    for side in ("source", "target"):
        (tmp_path / f"dev.{side}").touch()
    dev = [str(tmp_path / "dev.source"), str(tmp_path / "dev.target")]
    least = ["--prepared-data", str(tmp_path / "data"), "-vs", dev[0], "-vt", dev[1], "-o", "out"]
    defaults = train.parse_args(least)
    for this, changed in ((job(), False), (job(**own), True)):
        found = train.parse_args(train_arguments(this, Prepared(tmp_path), tmp_path / "model"))
        names = ("update_interval", "learning_rate_scheduler_type", "amp", "tf32")
        values = [getattr(found, name) for name in names]
        assert values == (
            [4, "inv-sqrt-decay", True, False] if changed else [1, "plateau-reduce", False, True]
        )
        if not changed:  # what was done before the settings were there
            assert values == [getattr(defaults, name) for name in names]
        found = decode.parse_args(decode_arguments(this, tmp_path, Path(dev[0]), tmp_path / "b"))
        assert (found.dtype, found.tf32) == (("bfloat16", False) if changed else (None, True))
    action = next(a for a in train._actions if a.dest == "learning_rate_scheduler_type")
    ours = settings_of(sockeye.FAMILY.settings)["learning_rate_scheduler"].choices
    assert sorted(ours) == sorted(action.choices)


def test_mixed_precision_needs_a_gpu(job):
    pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    with pytest.raises(InputError, match="amp = true needs a CUDA device"):
        sockeye.FAMILY.train(job(amp=True))


@needs_sockeye
@pytest.mark.hosts
def test_gradients_are_added_and_the_rate_falls_linearly(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = {"update_interval": 2, "learning_rate_scheduler": "linear-decay", "checkpoint_sentences": 0}
    this = job(**changes, decode_dtype="bfloat16", max_updates=80)
    scratch, rates = Path("scratch"), []
    # To a pause, which changes nothing; then to the end, from another folder.
    for until, place in ((40, scratch), (None, scratch.resolve())):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        ended = sockeye.FAMILY.train(replace(this, scratch=place, state=tmp_path / "state", until=until))
        assert ended.paused == (until is not None)
        written = (scratch / "model" / "metrics").read_text()
        rates.append([float(rate) for rate in re.findall(r"learning-rate=(\S+)", written)])
    assert rates == [[0.005], [0.005, 0.0]]
    assert ended.metrics["num_updates"] == 80
    log = (scratch / "train.log").read_text()
    assert "Gradient accumulation over 2 batch(es)" in log
    assert "Resuming from saved state" in log
