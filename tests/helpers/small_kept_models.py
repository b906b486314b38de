"""Small language models of every family, each trained and kept in the process of a test."""

from hpobench_nmt.runner.corpora import filled_section, load_corpus
from hpobench_nmt.runner.disk.kept_model import KEPT
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Job
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.training.train_row import keep_model
from hpobench_nmt.runner.training.training_process import train_one

TEXT = {"name": "text", "train": "train.txt", "dev": "dev.txt", "test": "test.txt"}
QUICK = {"batch_size": 4, "bptt": 10, "max_epochs": 1, "tuning_tokens": 60, "cache_window": 50}
QUICK |= {"dynamic_statistics": 500}
MODELS = {
    "awd-lstm": {"layers": 2, "embedding_size": 6, "hidden_size": 5, "learning_rate": 5.0, **QUICK},
    "melis": {"budget": 1686, "input_embedding_ratio": 0.5, "check_updates": 30, "drops": 0, **QUICK},
    "mlstm": {
        "hidden_size": 8,
        "embedding_size": 6,
        "check_updates": 30,
        "dynamic_rule": "sparse",
        **QUICK,
        "batch_size": 20,
    },
    "dynamic-evaluation": {
        "layers": 1,
        "embedding_size": 6,
        "batch_size": 4,
        "bptt": 10,
        "max_epochs": 1,
        "learning_rate": 5.0,
        "dynamic_learning_rate": 0.002,
    },
}


def trained(place, scratch, family, section=TEXT, keep=True, **settings):
    """The result of a training in this process; its model is kept in scratch/kept."""
    scratch.mkdir(parents=True)
    job = Job(
        load_family(family).settings(**settings),
        7,
        section,
        place,
        place / "cache",
        scratch,
        "cpu",
        keep=keep,
    )
    return job, train_one(family, job)


def kept_model(place, folder, family, section=TEXT, **settings):
    """A kept model of a training, at `folder`, and its metrics."""
    job, result = trained(place, folder.with_name(f"{folder.name}-scratch"), family, section, **settings)
    assert (result.failure, result.not_kept) == ("", "")
    record = Record({"a": 1}, 0, 7, "done", metrics=result.outcome.metrics, tuned=result.outcome.tuned)
    provenance = load_corpus(section, place, place / "cache").provenance
    keep_model(job.scratch / KEPT, folder, family, job.settings, filled_section(section), provenance, record)
    return result.outcome.metrics
