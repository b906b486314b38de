import math

import pytest

from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.nmt.sockeye_logs import Checkpoint, read_checkpoints, read_parameter_count
from hpobench_nmt.runner.nmt.timed_translate import read_times

# Written by a training of this family.
METRICS = """\
1	bleu-val=0.005085180993112008	chrf-val=14.518519805240496	converged=False	decode-walltime-val=3.2674500942230225	diverged=False	epoch=0	learning-rate=0.004	max-gpu-memory=0	perplexity-train=400.2757511523642	perplexity-val=139.49168176384543	time-elapsed=0.0
2	bleu-val=0.09191918588517972	chrf-val=34.270051888029016	converged=True	decode-walltime-val=1.6060678958892822	diverged=False	epoch=1	learning-rate=0.004	max-gpu-memory=3145728	perplexity-train=91.775225887307	perplexity-val=58.636036321822715	time-elapsed=169.69238829612732
"""  # noqa: E501
LOG = """\
[INFO:sockeye.utils] # of parameters: 341784 | trainable: 333976 (97.72%) | shared: 124416 (36.40%) | fixed: 7808 (2.28%)
[INFO:sockeye.training] E=0 B=250	s/sec=164.15 tok/sec=3593.88 u/sec=2.52	ppl=474.042504
[INFO:sockeye.training] Checkpoint [1]	Updates=300 Epoch=0 Samples=19496 Time-cost=162.106 Updates/sec=1.851
[INFO:sockeye.training] Checkpoint [1]	Train-ppl=400.275751
[INFO:sockeye.training] Checkpoint [1]	Learning-rate=0.004000
[INFO:sockeye.training] Checkpoint [2]	Updates=520 Epoch=1 Samples=39024 Time-cost=124.677 Updates/sec=2.406
"""  # noqa: E501


def test_checkpoints():
    assert read_checkpoints(METRICS, LOG) == [
        Checkpoint(1, 300, 139.49168176384543, 0.0, False, False),
        Checkpoint(2, 520, 58.636036321822715, 3.145728, False, True),
    ]


def test_trained_parameters():
    assert read_parameter_count(LOG) == 333976


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_divergence(value):
    diverged = METRICS.replace("58.636036321822715", value).replace(
        "diverged=False\tepoch=1", "diverged=True"
    )
    last = read_checkpoints(diverged, LOG)[-1]
    assert last.diverged
    assert not math.isfinite(last.perplexity)


@pytest.mark.parametrize(
    ("metrics", "log", "message"),
    [
        ("", LOG, "before its first checkpoint"),
        (METRICS, "", "metrics file can't be read"),
        (METRICS.replace("perplexity-val", "loss"), LOG, "can't be read .'perplexity-val'"),
        ("garbage", LOG, "can't be read .*garbage"),
        (METRICS, LOG.replace("Checkpoint [1]", f"Checkpoint [{'9' * 5000}]"), "can't be read .1."),
        (METRICS, LOG.replace("Updates=300", f"Updates={'9' * 5000}"), "can't be read .1."),
    ],
)
def test_what_can_not_be_read(metrics, log, message):
    with pytest.raises(TrainingFailed, match=message):
        read_checkpoints(metrics, log)


def test_a_log_without_the_parameters():
    with pytest.raises(TrainingFailed, match="number of parameters"):
        read_parameter_count("")


def test_decoding_times():
    text = "[INFO:sockeye.translate] Decoding took 12.5000 s, 11.2500 s of processor time\n"
    assert read_times("[INFO:x] Translating...\n" + text) == (12.5, 11.25)
    again = text.replace("12.5", "13.5").replace("11.25", "10.25")
    assert read_times(text + again) == (12.5, 10.25)
