"""Translation by transformers' models: tiny ones are really trained, killed and resumed."""

import math
import shutil
from dataclasses import replace

import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Job, TrainingFailed
from hpobench_nmt.runner.settings import settings_of

FAMILY = load_family("marian")
if FAMILY.missing():
    pytest.skip(f"needs: {FAMILY.missing()}", allow_module_level=True)

import sacrebleu  # noqa: E402
import torch  # noqa: E402

from hpobench_nmt.runner.corpora import load_corpus  # noqa: E402
from hpobench_nmt.runner.families.kept import load_translation_model  # noqa: E402
from hpobench_nmt.runner.ledgers.ledger import Record  # noqa: E402
from hpobench_nmt.runner.nmt import marian_measure, marian_training  # noqa: E402
from hpobench_nmt.runner.nmt.marian_corpus import encode_corpus  # noqa: E402
from hpobench_nmt.runner.nmt.marian_numbers import decode  # noqa: E402
from hpobench_nmt.runner.specs.spec_file import load_spec  # noqa: E402
from hpobench_nmt.runner.training.run import refuse_in_vain  # noqa: E402
from hpobench_nmt.runner.training.train_row import keep_model  # noqa: E402
from hpobench_nmt.runner.training.workspace import open_workspace  # noqa: E402
from hpobench_nmt.runner.tuning.tune import pick_metrics, tune  # noqa: E402

# For tests/runner/test_every_family.py. It is also a spec of Sockeye's family.
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
TINY = {
    "bpe_symbols": 35,
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
}
MEASURED_TIMES = ("dev_gpu_time", "dev_cpu_time", "train_time", "memory")


def settings(**changes):
    return FAMILY.settings(**TINY | changes)


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


def test_a_model_is_trained_scored_kept_and_translates(job, base, tmp_path, capsys):
    this = job(decode_times=2)
    outcome = FAMILY.train(this)
    metrics = outcome.metrics
    assert set(metrics) == {m.name for m in FAMILY.metrics} - {"gpu_memory"}
    assert all(math.isfinite(v) and v > 0 for v in metrics.values())

    # The words are so few and regular that 120 updates translate many of them.
    assert 50 < metrics["dev_bleu"] <= 100
    assert 1 < metrics["dev_ppl"] < 5
    assert metrics["num_updates"] == 120
    assert metrics["dev_cpu_time"] < metrics["train_time"]

    # The learning curve: every 40 updates, and better at the end than at the start.
    assert [point["update"] for point in outcome.curve] == [40, 80, 120]
    assert all(set(point) == {"update", "dev_ppl", "dev_bleu", "seconds"} for point in outcome.curve)
    costs = [point["seconds"] for point in outcome.curve]
    assert 0 < costs[0] < costs[1] < costs[2] == metrics["train_time"]
    assert outcome.curve[0]["dev_ppl"] > outcome.curve[-1]["dev_ppl"]
    assert outcome.curve[0]["dev_bleu"] < outcome.curve[-1]["dev_bleu"]
    best = min(outcome.curve, key=lambda point: point["dev_ppl"])
    assert best["dev_bleu"] == metrics["dev_bleu"]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words[1] for words in lines if words[0] == "update"] == ["40", "80", "120"]
    assert {"transformers", "sacrebleu", "sentencepiece", "bleu"} <= set(outcome.versions)

    # The kept model translates the text of dev as the training did, and its empty lines into empty ones.
    new, folder = tmp_path / "kept", tmp_path / "models" / "key"
    new.mkdir()
    outcome.save(new)
    keep_model(new, folder, "marian", this.settings, CORPUS, {}, Record({"a": 1}, 0, 5, "done"))
    kept = (folder / "dev.translations").read_text().splitlines()
    references = (base / "dev.target").read_text().splitlines()
    assert metrics["dev_bleu"] == pytest.approx(sacrebleu.corpus_bleu(kept, [references], force=True).score)
    source = (base / "dev.source").read_text().splitlines()
    lines = [source[0], "", *source[1:], "  ", "Zürich"]
    found = FAMILY.translator.translate(load_translation_model(folder), lines, "cpu")
    assert [found.lines[0], *found.lines[2:-2]] == kept
    assert found.lines[1] == found.lines[-2] == ""
    assert 1 <= found.outside <= len("Zürich") < found.subwords
    assert found.seconds > 0
    long = FAMILY.translator.translate(load_translation_model(folder), ["eins " * 200], "cpu")  # is cut
    assert long.subwords >= 200 and len(long.lines) == 1


class Killed(Exception):
    """Stands for a signal: nothing after it is done."""


@pytest.mark.parametrize(
    "changes",
    [
        {"dropout": 0.2, "average": 2, "norm": "post", "tied": "none", "update_interval": 2},
        pytest.param(
            {"embed_dropout": 0.1, "ema": 0.9, "precision": "bf16", "vocabularies": "joint", "tied": "all"},
            marks=pytest.mark.oracle,
        ),
        # BLEU is the same at each checkpoint: the rate falls, and the training goes back to the first one.
        pytest.param({"stop_on": "bleu", "reduce_after": 1, "max_not_improved": 9}, marks=pytest.mark.oracle),
    ],
)
def test_killed_between_checkpoints_and_paused_it_has_the_same_bits(changes, job, tmp_path, monkeypatch):
    given = {"checkpoint_interval": 6, "max_updates": 18, "checkpoint_sentences": 3, "warmup": 4} | changes
    monkeypatch.setattr("hpobench_nmt.runner.nmt.metrics.MIN_BLEU", -1.0)  # so little training learns nothing
    if "stop_on" in changes:
        monkeypatch.setattr(marian_training, "bleu", lambda *args: 1.0)
    expected = FAMILY.train(job(**given))

    this = replace(job(**given), state=tmp_path / "state")
    update = marian_training._Training.update
    often = marian_measure.checkpoints_of
    monkeypatch.setattr(marian_measure, "checkpoints_of", lambda *args: replace(often(*args), seconds=0.0))
    monkeypatch.setattr("hpobench_nmt.runner.torch_training.training_state._MOST_TIME", 0)
    for last in (4, 10):

        def until_killed(training, last=last):
            if training.course.update == last:
                raise Killed
            return update(training)

        monkeypatch.setattr(marian_training._Training, "update", until_killed)
        with pytest.raises(Killed):
            FAMILY.train(this)
    monkeypatch.setattr(marian_training._Training, "update", update)
    paused = FAMILY.train(replace(this, until=11))
    assert paused.paused and not paused.metrics
    assert [point["update"] for point in paused.curve] == [6, 12]
    ended = FAMILY.train(this)

    def values(outcome):
        curve = [{k: v for k, v in point.items() if k != "seconds"} for point in outcome.curve]
        return curve, {k: v for k, v in outcome.metrics.items() if k not in MEASURED_TIMES}

    assert values(ended) == values(expected)
    own, other = (dict(each.save.keywords["model"].named_parameters()) for each in (ended, expected))
    assert all(torch.equal(own[name], other[name]) for name in other)
    costs = [point["seconds"] for point in ended.curve]
    assert costs[:2] == [point["seconds"] for point in paused.curve]
    assert costs == sorted(costs)
    again = FAMILY.train(this)  # nothing is left to do
    assert values(again) == values(expected)


def test_one_seed_one_training(job):
    given = {"max_updates": 4, "checkpoint_interval": 4, "checkpoint_sentences": 0, "dropout": 0.1}
    three = [job(**given), job(**given), replace(job(**given), seed=6)]
    first, second, third = (_of_first_checkpoint(each) for each in three)
    assert first == second != third


def _of_first_checkpoint(job):
    return FAMILY.train(replace(job, until=1, settings=replace(job.settings, max_updates=99))).curve[0][
        "dev_ppl"
    ]


def test_training_that_diverges_reports_it(job):
    with pytest.raises(TrainingFailed, match=r"diverged: (dev perplexity|the training loss is) \S+"):
        FAMILY.train(job(learning_rate=1.0, norm="post", checkpoint_interval=20, checkpoint_sentences=0))


def test_a_model_that_learned_nothing_has_failed(job, monkeypatch):
    monkeypatch.setattr("hpobench_nmt.runner.nmt.metrics.MIN_BLEU", 99.0)  # for "nothing", in so few updates
    with pytest.raises(
        TrainingFailed, match=r"dev BLEU .* is below 99.0, .*: nothing was learned in 10 updates"
    ):
        FAMILY.train(job(max_updates=10))


@pytest.mark.parametrize(("family", "varied"), [("marian", "label_smoothing"), ("sockeye", "bpe_symbols")])
@pytest.mark.parametrize(
    ("objective", "count"), [("dev_ppl", 2), ("dev_bleu", 2), ("dev_bpc", 2), ("dev_ppl", 1)]
)
def test_an_objective_that_cannot_compare_the_grid(base, tmp_path, family, varied, objective, count):
    values = {"label_smoothing": [0.0, 0.1], "bpe_symbols": [30, 35]}[varied][:count]
    fixed = {key: value for key, value in TINY.items() if key not in ("learning_rate", varied)}
    (tmp_path / "spec.toml").write_text(
        f'name = "wmt"\nfamily = "{family}"\nobjectives = ["num_param", "{objective}"]\nbase = "{base}"\n'
        + "[corpus]\n"
        + "".join(f'{key} = "{value}"\n' for key, value in CORPUS.items())
        + f"[grid]\nlearning_rate = [0.01, 0.02]\n{varied} = {values}\n[fixed]\n"
        + "".join(f"{key} = {value}\n" for key, value in fixed.items())
    )
    if (family, objective) == ("sockeye", "dev_bpc"):
        with pytest.raises(InputError, match="dev_bpc"):
            load_spec(tmp_path / "spec.toml")
        return
    spec = load_spec(tmp_path / "spec.toml")  # a table of a ledger that exists can still be built
    if objective != "dev_ppl" or count == 1:
        refuse_in_vain(spec)
        return
    with pytest.raises(InputError, match=rf"dev_ppl cannot compare values of {varied}.*dev_bleu.*\[fixed\]"):
        refuse_in_vain(spec)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_bits_per_character_are_without_label_smoothing(job, base, smoothing):
    """Without smoothing they are the perplexity of subwords, on another scale. With it they are fewer."""
    this = job(label_smoothing=smoothing, max_updates=80)
    metrics = FAMILY.train(this).metrics
    encoded = encode_corpus(load_corpus(CORPUS, base, this.cache), this.settings, this.cache)
    subwords = len(encoded.dev.target.numbers)
    characters = len((base / "dev.target").read_text())
    scaled = math.log2(metrics["dev_ppl"]) * subwords / characters
    if smoothing:
        assert metrics["dev_bpc"] < 0.8 * scaled
    else:
        assert metrics["dev_bpc"] == pytest.approx(scaled)


def test_bleu_of_a_sample_at_checkpoints_has_a_name_of_its_own(job):
    this = job(checkpoint_interval=2, max_updates=4, checkpoint_sentences=3)
    outcome = FAMILY.train(replace(this, until=2))
    assert [set(point) for point in outcome.curve] == [{"update", "dev_ppl", "dev_bleu_sample", "seconds"}]


@pytest.mark.parametrize(
    ("sentences", "metric", "right"),
    [
        (3, "dev_bleu", False),
        (0, "dev_bleu", False),
        (-1, "dev_bleu", True),
        (10**6, "dev_bleu", True),
        (3, "dev_ppl", True),
        (-1, "num_param", False),
    ],
)
def test_trainings_are_stopped_only_by_what_checkpoints_measure(base, tmp_path, sentences, metric, right):
    (tmp_path / "spec.toml").write_text(
        f'name = "wmt"\nfamily = "marian"\nobjectives = ["{metric}"]\nbase = "{base}"\n[corpus]\n'
        + "".join(f'{key} = "{value}"\n' for key, value in CORPUS.items())
        + "[grid]\nlearning_rate = [0.01, 0.02]\n[fixed]\n"
        + "".join(f"{key} = {value}\n" for key, value in TINY.items() if key != "learning_rate")
        + f"checkpoint_sentences = {sentences}\n"
    )
    spec = load_spec(tmp_path / "spec.toml")
    workspace, _ = open_workspace(spec, tmp_path / "out", tmp_path / "cache")
    (named,) = resolve_methods(["ASHA"])
    method = named.load(), named.name, named.entry.identity
    arguments = (workspace, *method, pick_metrics(spec, ()), 2, 0, ["cpu"], 1, (40, 120))
    if right:
        # Without time, nothing is trained: the metric was accepted.
        assert len(tune(*arguments, seconds=0.0).rows) == 0
        return
    advice = "checkpoint_sentences = -1, or name another" if metric == "dev_bleu" else "Name another"
    with pytest.raises(InputError, match=rf"stopped early by {metric} \(--updates\): .*{advice}.*dev_ppl"):
        tune(*arguments)
    assert not workspace.work.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_embed": 30, "num_heads": 4}, "num_embed 30 must be a multiple of num_heads 4"),
        ({"num_embed": 9, "num_heads": 3}, "num_embed 9 must be even"),
        ({"stop_on": "bleu", "checkpoint_sentences": 0}, "stop_on 'bleu' needs checkpoint_sentences"),
        ({"tied": "all"}, 'tied = "all" needs vocabularies = "joint"'),
        ({"ema": 0.9, "average": 2}, "ema and average > 1 both average"),
        ({"warmup": 500}, "warmup 500 is longer than the training"),
    ],
)
def test_impossible_settings(changes, message):
    with pytest.raises(InputError, match=message):
        FAMILY.check(settings(**changes))
    FAMILY.check(settings())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bpe_symbols": 9000}, "bpe_symbols 9000: the source side has no more than"),
        ({"bpe_symbols": 10}, "bpe_symbols 10: the source side alone has"),
        ({"bpe_symbols": 9000, "vocabularies": "joint"}, "bpe_symbols 9000: the joint side has no more than"),
    ],
)
def test_vocabularies_that_the_corpus_cannot_have_are_refused_before_training(changes, message, job):
    from hpobench_nmt.runner.corpora import corpus_of

    corpus = corpus_of(job())
    with pytest.raises(InputError, match=message):
        FAMILY.corpus_check(settings(**changes), corpus)
    FAMILY.corpus_check(settings(), corpus)


def test_pairs_that_are_all_too_long(job):
    with pytest.raises(TrainingFailed, match="max_length 1: every training pair has more subwords"):
        FAMILY.train(job(max_length=1))


def test_the_command_that_installs_what_is_missing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "transformers" else object())
    assert FAMILY.missing() == "pip install 'hpobench-nmt[train,marian]'"


def test_a_spec_of_sockeyes_runs_with_either_family():
    theirs = settings_of(load_family("sockeye").settings)
    ours = settings_of(FAMILY.settings)
    own = {"amp", "tf32", "decode_dtype"}
    assert set(theirs) - own <= set(ours)
    assert list(ours)[:6] == list(theirs)[:6]
    assert all(ours[name] == theirs[name] for name in set(theirs) - own)
    assert FAMILY.metrics[:-1] == load_family("sockeye").metrics and FAMILY.metrics[-1].name == "dev_bpc"


@pytest.mark.parametrize("broken", ["weights.pt", "source.model"])
def test_kept_models_that_are_not_whole(broken, job, tmp_path):
    outcome = FAMILY.train(replace(job(max_updates=40, checkpoint_sentences=0)))
    new, folder = tmp_path / "kept", tmp_path / "models" / "key"
    new.mkdir()
    outcome.save(new)
    if broken == "weights.pt":
        weights = torch.load(new / broken, weights_only=True)
        torch.save({name: w[..., :-1].contiguous() for name, w in weights.items()}, new / broken)
    else:
        (new / broken).write_bytes(b"nothing")
    keep_model(new, folder, "marian", job().settings, CORPUS, {}, Record({"a": 1}, 0, 5, "done"))
    with pytest.raises(InputError, match=f"{broken}: (holds|is not a sentencepiece model)"):
        load_translation_model(folder)
    shutil.rmtree(folder)


def test_subwords_of_a_sample_are_another_preparation(tmp_path, parallel_files):
    parallel_files(tmp_path)
    corpus = load_corpus(CORPUS, tmp_path, tmp_path / "cache")
    whole, again, sample = (
        encode_corpus(corpus, FAMILY.settings(**TINY | {"bpe_sentences": count}), tmp_path / "cache")
        for count in (0, 0, 10)
    )
    assert whole.models == again.models != sample.models
    assert (
        len(list(tmp_path.glob("cache/encoded-*-of0")))
        == len(list(tmp_path.glob("cache/encoded-*-of10")))
        == 1
    )
    for found in (whole, again, sample):
        for bpe, lines, texts in zip(
            (found.source, found.target), (found.train.source, found.train.target), corpus.train, strict=True
        ):
            assert [decode(bpe, line.tolist()) for line in map(lines.__getitem__, range(200))] == texts
        assert all(1 < len(found.train.source[i]) <= 21 for i in found.short)


@pytest.mark.parametrize("averages", [{"ema": 0.5}, {"average": 2}])
def test_going_back_to_the_best_checkpoint_takes_the_averages_along(averages, job, monkeypatch):
    """BLEU is the same at each checkpoint, so the second one goes back to the first."""
    given = {"checkpoint_interval": 6, "max_updates": 12, "checkpoint_sentences": 3, "warmup": 4}
    given |= {"stop_on": "bleu", "reduce_after": 1, "max_not_improved": 9}
    monkeypatch.setattr("hpobench_nmt.runner.nmt.metrics.MIN_BLEU", -1.0)
    monkeypatch.setattr(marian_training, "bleu", lambda *args: 1.0)
    lower, seen = marian_training._Training._lower, []

    def noted(training, improved):
        lower(training, improved)
        course = training.course
        held = [*training.parameters, *course.moving, *(value for values in course.last for value in values)]
        seen.append([value.detach().clone() for value in held])

    monkeypatch.setattr(marian_training._Training, "_lower", noted)
    FAMILY.train(job(**given | averages))
    first, second = seen
    assert len(first) == len(second)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_lines_of_dev_that_are_longer_than_the_model_reads_are_cut(norm, job, base, tmp_path):
    for name in ("dev.source", "dev.target"):
        lines = (base / name).read_text().splitlines()
        (tmp_path / name).write_text("\n".join([" ".join(lines[:30]), *lines[1:]]) + "\n")
    corpus = CORPUS | {f"dev_{side}": str(tmp_path / f"dev.{side}") for side in ("source", "target")}
    here = replace(job(norm=norm, max_updates=9, checkpoint_interval=6), corpus=corpus, until=6)
    assert FAMILY.train(here).curve[0]["dev_ppl"] < 1e6
