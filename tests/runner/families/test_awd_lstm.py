import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.families import awd_lstm  # noqa: E402

# For tests/runner/test_every_family.py.
SPEC = """
objectives = ["dev_ppl"]
[grid]
layers = [1]
hidden_size = [8, 9]
[fixed]
embedding_size = 8
batch_size = 4
bptt = 10
max_epochs = 3
learning_rate = 5
cache_window = 20
dynamic_rule = "none"
tuning_tokens = 0
"""


def test_the_awd_lstm_family_trains_and_measures(small_job, reproducible):
    family = awd_lstm.FAMILY
    one = small_job(family, tuning_tokens=0)
    first, again = (family.train(one) for _ in range(2))
    assert reproducible(first.metrics) == reproducible(again.metrics)
    assert first.metrics["dev_ppl"] < 100
    assert first.metrics["num_updates"] == first.curve[-1]["update"]
    expected = {metric.name for metric in family.metrics if "bpc" not in metric.name}
    expected = {name for name in expected if not name.endswith("gpu_memory")}  # of CUDA alone
    assert set(first.metrics) == {name for name in expected if "mc" not in name and "word" not in name}
    assert not first.converged  # after so few epochs
    flops = 6 * awd_lstm.parameters(one.settings, 100)
    assert [(point["tokens"], point["flops"]) for point in first.curve] == [
        (4000, 4000 * flops),
        (8000, 8000 * flops),
    ]


def test_checks_in_one_stream_measure_the_same_as_the_end(small_job):
    one = awd_lstm.FAMILY.train(small_job(awd_lstm.FAMILY, tuning_tokens=0, dev_streams=1))
    assert one.metrics["dev_ppl"] == min(point["dev_ppl"] for point in one.curve)


@pytest.mark.oracle
def test_a_seed_matters_and_a_training_converges_once_or_twice(small_job, reproducible):
    family = awd_lstm.FAMILY
    one = small_job(family, tuning_tokens=0)
    first, other = family.train(one), family.train(dataclasses.replace(one, seed=8))
    assert reproducible(other.metrics) != reproducible(first.metrics)
    easy = {"averaging_window": 0, "patience": 1, "min_improvement": 10.0, "max_epochs": 200}
    once = family.train(small_job(family, tuning_tokens=0, **easy))
    assert once.converged
    twice = family.train(small_job(family, tuning_tokens=0, fine_tune=True, check_updates=9, **easy))
    assert twice.converged
    assert twice.metrics["num_updates"] > once.metrics["num_updates"]
    assert all(point["update"] % 9 == 0 for point in twice.curve)
