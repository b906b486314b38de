"""The metrics of translation models, in every family. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.nmt.text_scores import Tokenizer, bleu, chrf

MIN_BLEU = 0.5
"""With a lower dev BLEU, chrF decides whether a configuration has learned anything (`scores`)."""
_LEAST_GAIN = 1.2

METRICS = (
    Metric("dev_bleu", "max", "BLEU", None, 0.5, "sacrebleu of the best checkpoint's translations of dev"),
    Metric(
        "dev_gpu_time",
        "min",
        "s",
        description="wall-clock time of decoding dev, on the device of training (the name is that of the "
        "published tables), while other trainings pause; other work on the machine makes it longer, so "
        "on a CPU dev_cpu_time is the better objective",
    ),
    Metric("dev_cpu_time", "min", "s", description="processor time of decoding dev"),
    Metric(
        "dev_ppl",
        "min",
        description="best dev perplexity of a checkpoint, with the label smoothing of training; it is per "
        "subword, so it cannot be compared across bpe_symbols",
    ),
    Metric("test_bleu", "max", "BLEU", None, 0.5, "sacrebleu of the best checkpoint's translations of test"),
    Metric("dev_chrf", "max", "chrF", None, 0.5, "chrF2 of the same translations of dev"),
    Metric("test_chrf", "max", "chrF", None, 0.5, "chrF2 of the same translations of test"),
    Metric("num_updates", "min", description="updates until training ended"),
    Metric(
        "train_time",
        "min",
        "s",
        description="time of training, including checkpoints but not pauses: processor time on a CPU, "
        "wall-clock time on a CUDA device and in ledgers of versions before 0.2",
    ),
    Metric("gpu_memory", "min", "MB", description="peak memory of tensors on the GPU in training"),
    Metric("memory", "min", "MB", description="peak resident memory of training"),
    Metric("num_param", "min", description="trained parameters"),
)

BITS = Metric(
    "dev_bpc",
    "min",
    "bits",
    description="bits per character of dev's target lines for the best checkpoint, without label smoothing; "
    "it can be compared across label_smoothing and bpe_symbols",
)
"""A metric that Sockeye's logs do not allow to measure."""

CANNOT_RANK = {"dev_ppl": ("label_smoothing", "bpe_symbols", "bpe_count", "vocabularies")}
"""Of each metric, the settings whose values it cannot compare. Perplexity is per subword, and has the label
smoothing of training."""


def scores(
    translations: Mapping[str, Sequence[str]],
    references: Mapping[str, Sequence[str]],
    tokenizer: Tokenizer,
    updates: int,
) -> dict[str, float]:
    """BLEU and chrF of the translations of dev and test, by the metrics' names.

    BLEU of short segments is 0 even for perfect translations. So where BLEU of dev is below MIN_BLEU, chrF of
    the translations is compared with that of the translations of other lines, which is as good if they do
    not depend on their sources.

    Raises TrainingFailed if BLEU is below MIN_BLEU, and chrF at most 20% above that of other lines.
    """
    found = {}
    for part, lines in translations.items():
        found[f"{part}_bleu"] = bleu(lines, references[part], tokenizer)
        found[f"{part}_chrf"] = chrf(lines, references[part])
    if found["dev_bleu"] < MIN_BLEU:
        lines = translations["dev"]
        half = len(lines) // 2  # neighbours may be alike
        others = chrf([*lines[half:], *lines[:half]], references["dev"])
        if found["dev_chrf"] <= _LEAST_GAIN * others:
            raise TrainingFailed(
                f"dev BLEU {found['dev_bleu']:.2f} is below {MIN_BLEU}, and chrF {found['dev_chrf']:.1f} "
                f"hardly above {others:.1f}, that of other lines: nothing was learned in {updates} updates."
            )
    return found
