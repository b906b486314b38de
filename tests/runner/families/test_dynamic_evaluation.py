import dataclasses
import os
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.folders import remove_leftovers  # noqa: E402
from hpobench_nmt.runner.families import dynamic_evaluation  # noqa: E402
from hpobench_nmt.runner.family import TrainingFailed  # noqa: E402
from hpobench_nmt.runner.lm import fit as lm_fit  # noqa: E402
from hpobench_nmt.runner.lm import measure  # noqa: E402

# For tests/runner/test_every_family.py.
SPEC = """
objectives = ["dev_ppl", "dev_time"]
[grid]
dynamic_learning_rate = [0.001, 0.002]
dynamic_segment = [10]
[fixed]
layers = 1
embedding_size = 8
hidden_size = 8
batch_size = 4
bptt = 10
max_epochs = 3
learning_rate = 5
[replicates]
configurations = 1
trainings = 1
"""


def test_one_model_serves_all_dynamic_evaluations(small_job, reproducible, tmp_path):
    family = dynamic_evaluation.FAMILY
    first = family.train(small_job(family))
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
    assert len(kept) == 2  # the model, and its gradients' statistics
    assert first.metrics["dev_updates"] == 60  # 299 tokens to predict, 5 at a time
    assert first.metrics["num_updates"] > 0 and first.metrics["train_time"] > 0
    again = family.train(small_job(family))
    other = family.train(small_job(family, dynamic_batch=5))
    assert reproducible(first.metrics) == reproducible(again.metrics)
    assert again.metrics["train_time"] == first.metrics["train_time"]  # of the one training
    assert other.metrics["dev_ppl"] != first.metrics["dev_ppl"]
    assert other.metrics["dev_ppl_static"] == first.metrics["dev_ppl_static"]
    now = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
    assert len(now) == 3
    assert all(now[path] == time for path, time in kept.items())
    replicate = family.train(dataclasses.replace(small_job(family), seed=8))
    assert replicate.metrics["dev_ppl_static"] != first.metrics["dev_ppl_static"]


def test_a_cache_reads_the_model_as_it_was_trained_or_as_it_is_adapted(small_job):
    family = dynamic_evaluation.FAMILY
    cached = {"cache_window": 50, "cache_theta": 0.5, "cache_lambda": 0.2}
    found = {
        kind: family.train(small_job(family, adaptation=kind, **cached)).metrics
        for kind in ("dynamic", "cache", "both")
    }
    assert len({metrics["dev_ppl"] for metrics in found.values()}) == 3
    assert len({metrics["dev_ppl_static"] for metrics in found.values()}) == 1
    reads = 50 * 51 // 2 - 50 + (299 - 50) * 50  # the first positions have fewer vectors before them
    assert [(m["dev_updates"], m["cache_reads"]) for m in found.values()] == [
        (60, 0),
        (0, reads),
        (60, reads),
    ]
    size = found["cache"]["num_param"]
    vectors = 2 * 8 * reads
    assert found["cache"]["dev_flops"] == 2 * 299 * size + vectors
    assert found["dynamic"]["dev_flops"] == (6 * 299 + 10 * 60) * size
    assert found["both"]["dev_flops"] == found["dynamic"]["dev_flops"] + vectors
    none = family.train(small_job(family, adaptation="both", **cached | {"cache_lambda": 0.0})).metrics
    assert none["dev_ppl"] == pytest.approx(found["dynamic"]["dev_ppl"], rel=1e-6)
    still = {"dynamic_learning_rate": 0.0, "dynamic_rule": "sgd"}
    alone = family.train(small_job(family, adaptation="both", **cached, **still)).metrics
    assert alone["dev_ppl"] == pytest.approx(found["cache"]["dev_ppl"], rel=1e-5)


def test_a_model_that_takes_more_than_a_day_is_kept(small_job, tmp_path, monkeypatch):
    fit = lm_fit.fit

    def slow(*arguments):
        found = fit(*arguments)
        (scratch,) = (tmp_path / "models").glob(".*hpobench-tmp")
        os.utime(scratch, (0, 0))
        remove_leftovers(tmp_path / "models")  # as other jobs do
        assert scratch.exists()
        return found

    monkeypatch.setattr(lm_fit, "fit", slow)
    assert dynamic_evaluation.FAMILY.train(small_job(dynamic_evaluation.FAMILY)).metrics
    names = {path.suffix for path in (tmp_path / "models").iterdir()}
    assert names == {"", ".lock", ".pt"}  # nothing half-written is left


def test_the_seed_of_a_dynamic_evaluation_is_its_models():
    settings = dynamic_evaluation.FAMILY.settings(model_seed=5)
    assert [dynamic_evaluation.FAMILY.seed(settings, replicate) for replicate in (0, 2)] == [5, 7]


def test_settings_that_diverge_are_a_failed_configuration(small_job):
    family = dynamic_evaluation.FAMILY
    with pytest.raises(TrainingFailed, match="diverged"):
        family.train(small_job(family, dynamic_learning_rate=100.0))


def test_a_model_that_cannot_be_trained_fails_its_configurations_and_is_tried_once(small_job, tmp_path):
    family = dynamic_evaluation.FAMILY
    with pytest.raises(TrainingFailed, match=r"the model cannot be trained: .*too short"):
        family.train(small_job(family, batch_size=3000))
    assert not list(tmp_path.rglob("*.pt"))
    (kept,) = tmp_path.rglob("failure.txt")
    before = kept.stat().st_mtime_ns
    with pytest.raises(TrainingFailed, match=r"the model cannot be trained: .*too short"):
        family.train(small_job(family, batch_size=3000, dynamic_learning_rate=0.5))
    assert kept.stat().st_mtime_ns == before


def test_statistics_are_kept_for_all_that_they_depend_on(small_job, tmp_path, monkeypatch):
    """One part of the key left out, and a configuration would take the statistics of another."""
    made = []

    def statistics(model, tokens, rule, settings):
        made.append(settings)
        return [torch.full((1,), float(len(made)))]

    monkeypatch.setattr(measure, "statistics", statistics)
    model = SimpleNamespace(output_weight=torch.zeros(1))
    corpus = SimpleNamespace(train=None)

    def kept(segment=5, name="rms", **changes):
        job = small_job(dynamic_evaluation.FAMILY, **changes)
        rule = SimpleNamespace(needs_rms=True, name=name, segment=segment)
        return dynamic_evaluation._statistics(job, tmp_path / "model", model, corpus, rule)[0].item()

    usual = kept()
    found = [usual, kept(segment=6), kept(dynamic_batch=7), kept(dynamic_statistics=77)]
    found += [kept(name="sparse", dynamic_units=units) for units in (3, 4)]
    assert len(set(found)) == len(found) == len(made)
    assert kept() == usual
    assert kept(dynamic_units=4) == usual  # of the sparse rule alone


def test_losses_per_word_of_subwords_reach_the_table():
    names = {metric.name for metric in dynamic_evaluation.FAMILY.metrics}
    assert names >= {f"{part}_ppl_word{suffix}" for part in ("dev", "test") for suffix in ("", "_static")}
