"""A small model of every family of language models and of each of its cells, for tests on any device."""

from dataclasses import dataclass

import numpy as np

from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.families import load_family

WORDS, STEPS = 40, 8


@dataclass(frozen=True)
class Case:
    """A small model, with the most operations of an update of STEPS steps and of a segment of 5 tokens."""

    family: str
    settings: dict
    update: int
    segment: int
    sparse: int = 0


SIZES = {"batch_size": 4, "bptt": STEPS, "max_epochs": 1}
AWD = {"layers": 3, "embedding_size": 12, "hidden_size": 16, **SIZES}
MELIS = {"budget": 19816, "depth": 4, "check_updates": 1, **SIZES}
GPT = {"depth": 2, "width": 16, "heads": 2, "batch_size": 4, "context": STEPS, "tokens": 30 * STEPS * 4}
CASES = {
    "awd-lstm": Case("awd-lstm", AWD, 114, 42, 277),
    "qrnn": Case("awd-lstm", {**AWD, "cell": "qrnn", "layers": 4}, 286, 190, 183),
    "melis": Case("melis", MELIS, 716, 456, 1034),
    "tied": Case("melis", {**MELIS, "gates": "tied", "budget": 20312}, 596, 372, 764),
    "rhn": Case("melis", {**MELIS, "cell": "rhn", "depth": 5, "budget": 20242}, 411, 233, 406),
    "nas": Case("melis", {**MELIS, "cell": "nas", "depth": 2, "budget": 21040}, 1008, 604, 653),
    "mlstm": Case("mlstm", {"hidden_size": 16, "embedding_size": 8, **SIZES}, 240, 157, 227),
    "gpt": Case("gpt", GPT, 284, 254),
}


def settings_of(case, **changes):
    return load_family(case.family).settings(**case.settings | changes)


def chain(train):
    """A corpus of `train` words and two small further parts. Each word depends on the one before it."""
    rng = np.random.default_rng(0)
    stream = [0]
    for step in rng.integers(3, size=train + 100):
        stream.append((stream[-1] * 5 + int(step)) % WORDS)
    tokens = np.array(stream)
    words = tuple(f"w{i}" for i in range(WORDS))
    parts = tokens[:train], tokens[train : train + 31], tokens[train + 31 : train + 51]
    return TextCorpus("chain", "word", words, *parts, {"sha256": ""})
