"""What tests of whole trainings share: a text to learn from, and the command line."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest


def _sentences(rng, count):
    """Text in which every word depends on the one before it."""
    words = [f"w{i}" for i in range(12)]
    lines = []
    for _ in range(count):
        at = int(rng.integers(12))
        line = []
        for _ in range(int(rng.integers(3, 12))):
            at = (at * 5 + int(rng.integers(3))) % 12
            line.append(words[at])
        lines.append(" ".join(line))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a corpus to train on."""
    folder = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    for part, count in (("train", 300), ("dev", 40), ("test", 40)):
        (folder / f"{part}.txt").write_text(_sentences(rng, count))
    return folder


@pytest.fixture(scope="session")
def parallel_files():
    """Writes a language in which every word has its translation, and the order stays: train.source, ..."""
    words = {"eins": "one", "zwei": "two", "drei": "three", "vier": "four", "und": "and", "oder": "or"}

    def write(folder):
        rng = random.Random(1)
        for part, size in (("train", 200), ("dev", 20), ("test", 20)):
            lines = [rng.choices(list(words), k=rng.randint(4, 7)) for _ in range(size)]
            sides = {"source": lines, "target": [[words[word] for word in line] for line in lines]}
            for side, text in sides.items():
                (folder / f"{part}.{side}").write_text("".join(" ".join(line) + "\n" for line in text))

    return write


@pytest.fixture(scope="session")
def start():
    """Starts the command line in a folder, in a process group of its own; what is left is ended.

    strict: warnings are errors."""
    started = []

    def popen(place, *arguments, strict=True, **streams):
        environment = os.environ | {"HPOBENCH_NMT_HOME": str(place / "home")}
        environment |= {"PYTHONWARNINGS": "error"} if strict else {}
        command = [sys.executable, "-m", "hpobench_nmt", *map(str, arguments)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | streams
        started.append(
            subprocess.Popen(command, cwd=place, env=environment, text=True, start_new_session=True, **quiet)
        )
        return started[-1]

    yield popen
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def wait_for():
    """Waits until a condition holds."""

    def wait(condition, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.01)

    return wait


@pytest.fixture
def tiny():
    """Makes an AWD-LSTM of 9 words, layers of 6 and 5 units, without regularisation unless it is given."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")
    from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
    from hpobench_nmt.runner.lm.awd_lstm_settings import ModelSettings

    dropped = ("dropout_input", "dropout_hidden", "dropout_output", "dropout_embedding", "weight_drop")
    plain = dict.fromkeys((*dropped, "alpha", "beta"), 0.0)

    def make(layers=2, vocabulary=9, seed=0, **rates):
        sizes = {"embedding_size": 5, "hidden_size": 6}
        settings = ModelSettings(layers=layers, **{**sizes, **plain, **rates})
        model = AWDLSTM(vocabulary, settings, torch.Generator().manual_seed(seed))
        with torch.no_grad():
            # Weights far from zero, so that what a test changes shows.
            for parameter in model.parameters():
                parameter.mul_(2.5)
            model.output_bias.uniform_(-1, 1, generator=model.generator)
        return model

    return make
