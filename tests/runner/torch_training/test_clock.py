"""Times that are measured alone, on a CPU: the lock is the same on a GPU."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.corpora import TextCorpus  # noqa: E402
from hpobench_nmt.runner.family import Job  # noqa: E402
from hpobench_nmt.runner.lm.measure import measure  # noqa: E402
from hpobench_nmt.runner.lm.ntasgd import NTASGD  # noqa: E402
from hpobench_nmt.runner.lm.schedule import TrainingSchedule  # noqa: E402
from hpobench_nmt.runner.lm.settings import EvaluationSettings  # noqa: E402
from hpobench_nmt.runner.lm.trainer import train  # noqa: E402
from hpobench_nmt.runner.torch_training import clock, loop  # noqa: E402
from hpobench_nmt.runner.torch_training.clock import (  # noqa: E402
    Watch,
    alone,
    is_disturbing,
    lock_of,
    seconds,
    timing_lock,
)
from hpobench_nmt.runner.torch_training.training_state import Checkpoints, checkpoints_of  # noqa: E402

RNG = np.random.default_rng(0)
TEXT = (np.cumsum(np.where(RNG.random(700) < 0.9, 1, 3)) % 9).astype(np.int64)


@dataclass(frozen=True)
class Timed:
    """A family with settings of time alone."""

    exclusive_timing: str = "gpu"
    workers: int = 1


def job(device, **settings):
    return Job(Timed(**settings), 1, {}, Path("base"), Path("cache"), Path("scratch"), device)


@pytest.fixture
def gpus(monkeypatch):
    """What torch tells of two GPUs, of which "cuda" is the first."""
    uuids = {"cuda": "GPU-a", "cuda:0": "GPU-a", "cuda:1": "GPU-b"}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda d: SimpleNamespace(uuid=uuids[d]))


def test_only_times_on_a_gpu_are_measured_alone_on_it(gpus):
    assert lock_of(job("cpu")) is None
    assert lock_of(job("cuda")) == lock_of(job("cuda:0")) != lock_of(job("cuda:1"))
    assert lock_of(job("cuda")).name.endswith("-GPU-a.lock")
    assert checkpoints_of(job("cuda"), "").stands_still_for == lock_of(job("cuda"))
    assert not is_disturbing(None)
    with alone(None):
        pass


def test_times_are_measured_alone_on_the_whole_machine_where_asked_for_or_several_gpus_train(gpus):
    whole = {lock_of(job(device, exclusive_timing="machine")) for device in ("cuda:0", "cuda:1")}
    assert whole == {lock_of(job("cuda:0", workers=2))} == {timing_lock(job("cpu"))}


def test_nothing_stands_still_where_times_do_not_matter(gpus):
    for device in ("cpu", "cuda:0"):
        assert lock_of(job(device, exclusive_timing="never")) is None
        assert timing_lock(job(device, exclusive_timing="never")) is None


def test_a_training_looks_for_the_lock_ten_times_a_second_at_most(tmp_path, monkeypatch):
    looks = []
    monkeypatch.setattr(clock, "is_held", lambda path: looks.append(path))
    watch = Watch(tmp_path / "lock")
    until = time.monotonic() + 0.25
    while time.monotonic() < until:
        watch.is_disturbing()
    assert 2 <= len(looks) <= 3
    assert not Watch(None).is_disturbing()


def test_who_measures_waits_until_the_others_have_looked(tmp_path):
    began = time.monotonic()
    with alone(tmp_path / "lock"):
        assert time.monotonic() - began >= 0.1


def test_a_training_stands_still_while_another_process_measures(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "seconds", lambda device: time.perf_counter())  # as on a GPU
    lock, updates, done = tmp_path / "lock", [], []

    def training(checkpoints, model):
        optimiser = NTASGD(
            list(model.parameters()), learning_rate=5.0, weight_decay=0.0, averaging_window=2, patience=2
        )
        step = optimiser.step
        optimiser.step = lambda scale: (updates.append(1), reached.set(), step(scale))
        schedule = TrainingSchedule(batch_size=4, bptt=10, vary=True, clip=0.25, max_epochs=2)
        generator = torch.Generator().manual_seed(1)
        done.append(train(model, TEXT[:500], TEXT[500:], optimiser, schedule, generator, checkpoints))

    reached = threading.Event()
    undisturbed, disturbed = tiny(), tiny()
    training(Checkpoints(), undisturbed)
    updates.clear()
    reached.clear()
    thread = threading.Thread(target=training, args=(Checkpoints(stands_still_for=lock), disturbed))
    with alone(lock):
        assert is_disturbing(lock)
        began = time.perf_counter()
        thread.start()
        assert not reached.wait(1.0)  # without the lock it is done in a tenth of that
        held = time.perf_counter() - began
    thread.join(60)
    assert not is_disturbing(lock)
    assert len(updates) == done[0].updates == done[1].updates
    assert done[1].seconds < time.perf_counter() - began - held / 2
    for one, other in zip(undisturbed.parameters(), disturbed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_every_evaluation_of_dev_is_measured_inside_the_lock(tiny, tmp_path):
    model, lock, inside = tiny(), tmp_path / "lock", {}
    words = tuple(str(i) for i in range(9))
    corpus = TextCorpus("chain", "word", words, TEXT[:300], TEXT[300:420], TEXT[420:520], {})
    settings = EvaluationSettings(cache_window=20, dynamic_rule="sgd", tuning_tokens=0, mc_masks=2)

    def note(module, inputs, output):
        inside.setdefault(is_disturbing(lock), []).append(len(inputs[0]))

    model.register_forward_hook(note)
    metrics = measure(model, corpus, settings, lock).metrics
    # Dev, after as much of it as a warm-up takes, which is all of these 120 tokens; test is not timed. Three
    # evaluations of one pass, and one of two.
    assert sum(inside[True]) == 5 * (119 + 119)
    assert sum(inside[False]) == 5 * 99
    expected = measure(tiny(), corpus, settings).metrics
    timeless = [name for name in expected if not name.endswith("time") and name != "memory"]
    assert {name: metrics[name] for name in timeless} == {name: expected[name] for name in timeless}
    assert seconds(torch.device("cpu")) > 0
