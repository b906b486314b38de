"""Trainings of a tiny model by the command line, which runs in the process of a test."""

import contextlib
import io
from dataclasses import dataclass

import pytest

from hpobench_nmt.cli.main import main

SPEC = """
name = "tiny"
title = "a tiny AWD-LSTM"
family = "awd-lstm"
seed = 3
objectives = ["dev_ppl", "num_param"]
metrics = ["dev_ppl", "test_ppl", "num_param", "num_updates", "gpu_memory"]

[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"

[grid]
hidden_size = [4, 8]
learning_rate = [1, 5, 10000]

[fixed]
layers = 1
embedding_size = 8
batch_size = 8
bptt = 10
max_epochs = 4
clip = 0
cache_window = 0
dynamic_rule = "none"

[replicates]
configurations = 2
trainings = 1
"""


@dataclass
class Done:
    """How a command that ran in this process ended."""

    returncode: int
    stdout: str
    stderr: str


def run(place, *arguments):
    """The command in this process, which spares the imports; its trainings have processes of their own."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.chdir(place)
        patch.setenv("HPOBENCH_NMT_HOME", str(place / "home"))
        try:
            main([str(a) for a in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def lines(ledger):
    return ledger.read_text().split("\n")[1:-1] if ledger.exists() else []
