"""Several processes that train one model of transformers: really started, paused and killed."""

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Job

FAMILY = load_family("marian")
if FAMILY.missing():
    pytest.skip(f"needs: {FAMILY.missing()}", allow_module_level=True)

from hpobench_nmt.runner.disk.curve_file import read_curve  # noqa: E402
from hpobench_nmt.runner.training.processes import Killed, Processes  # noqa: E402

TINY = {
    "bpe_symbols": 35, "num_layers": 1, "num_embed": 32, "num_hidden": 48, "num_heads": 2,
    "learning_rate": 0.01, "max_length": 20, "batch_size": 400, "checkpoint_interval": 40,
    "max_updates": 80, "checkpoint_sentences": 10, "beam_size": 2,
}  # fmt: skip
TIMES = ("dev_gpu_time", "dev_cpu_time", "train_time", "memory")


@pytest.fixture(scope="module")
def base(tmp_path_factory, parallel_files):
    folder = tmp_path_factory.mktemp("corpus")
    parallel_files(folder)
    return folder


@pytest.fixture
def job(base, tmp_path):
    parts = [(part, side) for part in ("train", "dev", "test") for side in ("source", "target")]
    corpus = {"name": "parallel", "source": "de", "target": "en"}
    corpus |= {f"{part}_{side}": f"{part}.{side}" for part, side in parts}

    def make(name, **changes):
        (tmp_path / name).mkdir(exist_ok=True)
        settings = FAMILY.settings(**TINY | changes)
        return Job(settings, 5, corpus, base, base / "cache", tmp_path / name, "cpu")

    return make


def figures(outcome):
    """The metrics but times, and the curve but seconds."""
    metrics = {name: value for name, value in outcome.metrics.items() if name not in TIMES}
    return metrics, [{k: v for k, v in point.items() if k != "seconds"} for point in outcome.curve]


def test_two_workers_make_the_updates_of_one_with_twice_the_batches(job):
    still = {"dropout": 0.0, "attention_dropout": 0.0, "feed_forward_dropout": 0.0}
    one = FAMILY.train(job("one", update_interval=2, **still))
    two = FAMILY.train(job("two", workers=2, **still))
    assert two.curve[0]["update"] == one.curve[0]["update"] == 40
    assert two.curve[0]["dev_ppl"] == pytest.approx(one.curve[0]["dev_ppl"], rel=1e-3)
    other = FAMILY.train(job("other", **still)).curve[0]["dev_ppl"]
    assert abs(other - one.curve[0]["dev_ppl"]) > 0.01 * other


@pytest.mark.hosts
def test_a_pause_changes_no_bit(job, tmp_path):
    expected = FAMILY.train(job("whole", workers=2))
    state = tmp_path / "state"
    paused = FAMILY.train(replace(job("first", workers=2), state=state, until=40))
    assert paused.paused and [point["update"] for point in paused.curve] == [40]
    ended = FAMILY.train(replace(job("second", workers=2), state=state))
    assert figures(ended) == figures(expected)


@pytest.mark.hosts
@pytest.mark.parametrize("victim", [0, 1])
def test_where_one_is_killed_all_end(job, tmp_path, victim):
    this = replace(
        job("killed", workers=2, max_updates=10**6, max_not_improved=10**3), state=tmp_path / "state"
    )
    log = tmp_path / "log"

    def of_worker(number):
        """The processes whose output goes to the log of a worker."""
        own = log if number == 0 else this.scratch / f"worker-{number}.log"
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "fd" / "1").readlink() == own:
                    found.append(int(entry.name))
        return found

    def kill():
        while not read_curve(this.state):
            time.sleep(0.02)
        for pid in of_worker(victim):
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(Killed, match="killed by SIGKILL"):
        Processes().run(FAMILY.train, this, log=log, state=this.state)
    killer.join()
    deadline = time.monotonic() + 30
    while of_worker(0) or of_worker(1):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_more_workers_than_gpus(job):
    this = replace(job("many", workers=64), device="cuda:1")
    with pytest.raises(
        InputError, match="workers = 64 needs as many CUDA devices from cuda:1 on, but there are"
    ):
        FAMILY.train(this)
