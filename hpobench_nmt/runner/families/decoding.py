"""Settings of decoding one trained translation model of the family `marian`.

A configuration costs the decoding of dev and test, not a training. The model is trained once for each corpus,
set of model settings and seed, and the cache keeps the weights of its last checkpoints. As in
`dynamic-evaluation`, the seed of a row is the seed of its model: model_seed in the table's own rows, and the
following numbers in replicates.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.runner.disk.locks import key_of
from hpobench_nmt.runner.families.marian import FAMILY as MARIAN
from hpobench_nmt.runner.families.shared_models import shared_model
from hpobench_nmt.runner.family import Family, Job, Outcome
from hpobench_nmt.runner.nmt import metrics as of_translation
from hpobench_nmt.runner.nmt.decoding_settings import KEPT, DecodingSettings, check
from hpobench_nmt.runner.nmt.marian_corpus import corpus_check
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.settings import settings_of

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import ParallelCorpus
    from hpobench_nmt.runner.nmt.marian_corpus import EncodedCorpus

_FORMAT = 1
_WEIGHTS = "weights.pt"
# Settings of MarianSettings that a trained model does not depend on, or that are the same for all.
_NOT_OF_THE_MODEL = (
    "average", "beam_size", "checkpoint_sentences", "decode_batch_size", "decode_times", "length_penalty",
)  # fmt: skip


_NAMES = ("dev_bleu", "test_bleu", "dev_chrf", "test_chrf", "dev_cpu_time", "num_param", "num_updates")
METRICS = (
    *(metric for metric in of_translation.METRICS if metric.name in _NAMES),
    Metric("positions", "min", "positions", description="subwords of all hypotheses for dev, ends included"),
    Metric("length_ratio", "max", description="words of translations of dev for each word of references"),
)


def _train(job: Job[DecodingSettings]) -> Outcome:
    import torch

    from hpobench_nmt.runner.corpora import corpus_of
    from hpobench_nmt.runner.nmt.decoding import translated
    from hpobench_nmt.runner.nmt.marian_corpus import encode_corpus
    from hpobench_nmt.runner.nmt.marian_model import build, trained
    from hpobench_nmt.runner.torch_training.loop import put
    from hpobench_nmt.runner.torch_training.repeatable import set_up

    settings, where = job.settings, set_up(job.device)
    corpus: ParallelCorpus = corpus_of(job)
    encoded = encode_corpus(corpus, settings, job.cache)
    kept = torch.load(_checkpoints(job, corpus, encoded) / _WEIGHTS, map_location=where, weights_only=True)
    model = build(settings, *encoded.sizes, torch.Generator(where))
    chosen = kept["checkpoints"][-settings.averaged :]
    put(trained(model), [torch.stack(several).mean(0) for several in zip(*chosen, strict=True)])
    (sources, dev_lines), (test_sources, test_lines) = (
        [list(side)[: settings.sentences or None] for side in part] for part in (corpus.dev, corpus.test)
    )
    started = time.process_time()
    dev, positions = translated(model, encoded.source, encoded.target, sources, settings, job.seed)
    taken = time.process_time() - started
    test, _ = translated(model, encoded.source, encoded.target, test_sources, settings, job.seed)
    words = [sum(len(line.split()) for line in lines) for lines in (dev, dev_lines)]
    translations, references = {"dev": dev, "test": test}, {"dev": dev_lines, "test": test_lines}
    found = of_translation.scores(translations, references, settings.bleu_tokenizer, int(kept["updates"]))
    return Outcome(
        {
            **found,
            "dev_cpu_time": taken,
            "num_param": float(sum(p.numel() for p in trained(model))),
            "num_updates": float(kept["updates"]),
            "positions": float(positions),
            "length_ratio": words[0] / words[1],
        }
    )


def _checkpoints(job: Job[DecodingSettings], corpus: ParallelCorpus, encoded: EncodedCorpus) -> Path:
    """The folder in the cache with the weights of the model's last checkpoints."""
    import torch
    import transformers

    from hpobench_nmt.runner.nmt.marian_model import fresh
    from hpobench_nmt.runner.nmt.marian_training import last_checkpoints
    from hpobench_nmt.runner.torch_training.repeatable import set_up
    from hpobench_nmt.runner.torch_training.training_state import Checkpoints

    own = {name: getattr(job.settings, name) for name in settings_of(MarianSettings)}
    named = {name: value for name, value in own.items() if name not in _NOT_OF_THE_MODEL}
    identity = [_FORMAT, job.seed, named, corpus.provenance["sha256"], job.device.partition(":")[0]]
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}

    def make(folder: Path, state: Path) -> None:
        settings = MarianSettings(**own | {"average": KEPT, "checkpoint_sentences": 0})
        saved = Checkpoints(state, {"model": identity, **versions})
        with fresh(settings, encoded.sizes, job.seed, set_up(job.device)) as (model, of_data):
            summary, last = last_checkpoints(model, encoded, settings, of_data, saved)
        folder.mkdir(parents=True)
        torch.save({"checkpoints": last, "updates": summary.updates}, folder / _WEIGHTS)

    return shared_model(job.cache / "models" / f"marian-{key_of(identity)}", make)


FAMILY = Family(
    name="decoding",
    models="beam search and minimum Bayes risk decoding of one trained marian",
    source="Eikema & Aziz 2020",
    corpus="parallel",
    settings=DecodingSettings,
    metrics=METRICS,
    train=_train,
    seed=lambda settings, replicate: settings.model_seed + replicate,
    check=check,
    corpus_check=corpus_check,
    missing=MARIAN.missing,
    pauses=False,
    shares_models=True,
)
