"""Settings of translation models: those of every family, and those of Sockeye alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.nmt.text_scores import Tokenizer, check_tokenizer
from hpobench_nmt.runner.settings import Settings, setting
from hpobench_nmt.runner.torch_training.settings import TimingSettings

_MOST_DROPPED = 0.95


@dataclass(frozen=True, kw_only=True)
class TranslationSettings(Settings):
    """Settings of one configuration in every family. A spec that sets only these works with every family.

    The first six are those of the paper's Table 1, with their names in the published tables. In the published
    tables, bpe_symbols counts merges. Here it counts the vocabulary, unless bpe_count says otherwise.
    """

    bpe_symbols: int = setting(..., "number of subwords of each side, including characters", 10, 200_000)
    num_layers: int = setting(..., "number of layers of the encoder, and of the decoder", 1, 100)
    num_embed: int = setting(..., "model size", 4, 16_384, scale="log")
    num_hidden: int = setting(..., "feed-forward size", 1, 65_536, scale="log")
    num_heads: int = setting(..., "attention heads", 1, 256, scale="log")
    learning_rate: float = setting(..., "Adam's initial step", 1e-7, 1.0, scale="log")
    bpe_count: Literal["vocabulary", "merges"] = setting(
        "vocabulary", "what bpe_symbols counts: all subwords, or only merges, as in the published tables"
    )
    bpe_sentences: int = setting(
        0, "number of training pairs, evenly spaced, from which subwords are learned; 0: all. Characters "
        "that occur only in other pairs are unknown", 0, 10**9, on_grid=False,
    )  # fmt: skip
    max_length: int = setting(95, "longest training sentence", 1, 10_000, unit="subwords")
    batch_size: int = setting(4096, "number of target words in a batch", 1, 10**6, unit="subwords")
    dropout: float = setting(0.1, "dropout between layers", 0.0, _MOST_DROPPED)
    attention_dropout: float = setting(0.1, "dropout of attention weights", 0.0, _MOST_DROPPED)
    feed_forward_dropout: float = setting(0.1, "dropout inside feed-forward layers", 0.0, _MOST_DROPPED)
    embed_dropout: float = setting(0.0, "dropout of embeddings", 0.0, _MOST_DROPPED)
    label_smoothing: float = setting(0.1, "probability that is spread over all words", 0.0, _MOST_DROPPED)
    warmup: int = setting(
        0, "updates in which the learning rate rises; not used if learning_rate_scheduler is none, or if "
        "it is plateau-reduce and reduce_factor is 1", 0, 1_000_000, unit="updates",
    )  # fmt: skip
    reduce_factor: float = setting(0.7, "factor of the learning rate; 1 never lowers it", 0.01, 1.0)
    reduce_after: int = setting(
        3, "checkpoints without improvement before the rate is lowered", 1, 1000, unit="checkpoints"
    )
    checkpoint_interval: int = setting(1000, "updates between checkpoints", 1, 1_000_000)
    max_not_improved: int = setting(
        8, "checkpoints without improvement before training ends", 1, 1000, unit="checkpoints"
    )
    stop_on: Literal["perplexity", "bleu"] = setting(
        "perplexity", "score on dev that decides on the best checkpoint, the learning rate and the end of "
        "training; bleu is computed on the subwords of checkpoint_sentences", on_grid=False,
    )  # fmt: skip
    bleu_tokenizer: Tokenizer = setting(
        "13a", "sacrebleu's tokenizer: zh for Chinese, ja-mecab for Japanese, char for any script",
        on_grid=False,
    )  # fmt: skip
    min_improvement: float = setting(0.0, "smallest improvement of stop_on over max_not_improved", 0.0, 1e6)
    max_updates: int = setting(10**6, "maximum number of updates", 1, 10**8)
    checkpoint_sentences: int = setting(
        -1, "number of dev sentences decoded at each checkpoint, for the curve's dev_bleu; -1: all, 0: "
        "none. For a sample, the metric is called dev_bleu_sample", -1, 1_000_000,
    )  # fmt: skip
    update_interval: int = setting(
        1, "number of batches in an update, which uses their mean gradient", 1, 1000
    )
    learning_rate_scheduler: Literal["plateau-reduce", "inv-sqrt-decay", "linear-decay", "none"] = setting(
        "plateau-reduce", "learning rate lowered when dev perplexity stops improving, divided by the root "
        "of the update, linear to 0 at max_updates, or constant",
    )  # fmt: skip
    workers: int = setting(
        1, "number of processes of one training, each with one batch of an update. On CUDA, each has a "
        "GPU, starting with the training's own GPU. Times and memory are measured in the first process",
        1, 64, on_grid=False,
    )  # fmt: skip
    beam_size: int = setting(5, "beam size for decoding dev and test", 1, 100)
    decode_batch_size: int = setting(16, "sentences that are decoded at once", 1, 10_000, unit="sentences")
    decode_times: int = setting(
        1, "how often dev is decoded; its time is the smallest, which other work disturbs least",
        1, 100, on_grid=False,
    )  # fmt: skip


def check_translation(settings: TranslationSettings) -> None:
    """Refuse settings that are impossible in every family, with errors that name them."""
    if settings.num_embed % settings.num_heads:
        raise InputError(
            f"num_embed {settings.num_embed} must be a multiple of num_heads {settings.num_heads}."
        )
    if settings.num_embed % 2:
        raise InputError(
            f"num_embed {settings.num_embed} must be even, because positions are sines and cosines."
        )
    if settings.stop_on == "bleu" and not settings.checkpoint_sentences:
        raise InputError(
            "stop_on 'bleu' needs checkpoint_sentences: -1 for all of dev, or a number of sentences."
        )
    check_tokenizer(settings.bleu_tokenizer)


@dataclass(frozen=True, kw_only=True)
class SockeyeSettings(TimingSettings, TranslationSettings):
    """Settings of one configuration of Sockeye."""

    amp: bool = setting(False, "mixed precision in training, only on a CUDA device")
    tf32: bool = setting(True, "products of 32-bit numbers in lower precision, on GPUs that support it")
    decode_dtype: Literal["float32", "float16", "bfloat16"] = setting(
        "float32", "number type of the model that decodes dev and test"
    )
