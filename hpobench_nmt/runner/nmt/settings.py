"""Settings of translation models: those of every family, and those of Sockeye alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.nmt.text_scores import Tokenizer, check_tokenizer
from hpobench_nmt.runner.settings import About, Settings
from hpobench_nmt.runner.torch_training.settings import TimingSettings

_MOST_DROPPED = 0.95


@dataclass(frozen=True, kw_only=True)
class TranslationSettings(Settings):
    """Settings of one configuration in every family. A spec that sets only these works with every family.

    The first six are those of the paper's Table 1, with their names in the published tables. In the published
    tables, bpe_symbols counts merges. Here it counts the vocabulary, unless bpe_count says otherwise.
    """

    bpe_symbols: Annotated[int, About("number of subwords of each side, including characters", 10, 200_000)]
    num_layers: Annotated[int, About("number of layers of the encoder, and of the decoder", 1, 100)]
    num_embed: Annotated[int, About("model size", 4, 16_384, scale="log")]
    num_hidden: Annotated[int, About("feed-forward size", 1, 65_536, scale="log")]
    num_heads: Annotated[int, About("attention heads", 1, 256, scale="log")]
    learning_rate: Annotated[float, About("Adam's initial step", 1e-7, 1.0, scale="log")]
    bpe_count: Annotated[
        Literal["vocabulary", "merges"],
        About("what bpe_symbols counts: all subwords, or only merges, as in the published tables"),
    ] = "vocabulary"
    bpe_sentences: Annotated[
        int,
        About(
            "number of training pairs, evenly spaced, from which subwords are learned; 0: all. Characters "
            "that occur only in other pairs are unknown",
            0, 10**9, on_grid=False,
        ),
    ] = 0  # fmt: skip
    max_length: Annotated[int, About("longest training sentence", 1, 10_000, unit="subwords")] = 95
    batch_size: Annotated[int, About("number of target words in a batch", 1, 10**6, unit="subwords")] = 4096
    dropout: Annotated[float, About("dropout between layers", 0.0, _MOST_DROPPED)] = 0.1
    attention_dropout: Annotated[float, About("dropout of attention weights", 0.0, _MOST_DROPPED)] = 0.1
    feed_forward_dropout: Annotated[
        float, About("dropout inside feed-forward layers", 0.0, _MOST_DROPPED)
    ] = 0.1
    embed_dropout: Annotated[float, About("dropout of embeddings", 0.0, _MOST_DROPPED)] = 0.0
    label_smoothing: Annotated[
        float, About("probability that is spread over all words", 0.0, _MOST_DROPPED)
    ] = 0.1
    warmup: Annotated[
        int,
        About(
            "updates in which the learning rate rises; not used if learning_rate_scheduler is none, or if it "
            "is plateau-reduce and reduce_factor is 1",
            0, 1_000_000, unit="updates",
        ),
    ] = 0  # fmt: skip
    reduce_factor: Annotated[float, About("factor of the learning rate; 1 never lowers it", 0.01, 1.0)] = 0.7
    reduce_after: Annotated[
        int, About("checkpoints without improvement before the rate is lowered", 1, 1000, unit="checkpoints")
    ] = 3
    checkpoint_interval: Annotated[int, About("updates between checkpoints", 1, 1_000_000)] = 1000
    max_not_improved: Annotated[
        int, About("checkpoints without improvement before training ends", 1, 1000, unit="checkpoints")
    ] = 8
    stop_on: Annotated[
        Literal["perplexity", "bleu"],
        About(
            "score on dev that decides on the best checkpoint, the learning rate and the end of training; "
            "bleu is computed on the subwords of checkpoint_sentences",
            on_grid=False,
        ),
    ] = "perplexity"
    bleu_tokenizer: Annotated[
        Tokenizer,
        About(
            "sacrebleu's tokenizer: zh for Chinese, ja-mecab for Japanese, char for any script", on_grid=False
        ),
    ] = "13a"
    min_improvement: Annotated[
        float, About("smallest improvement of stop_on over max_not_improved", 0.0, 1e6)
    ] = 0.0
    max_updates: Annotated[int, About("maximum number of updates", 1, 10**8)] = 10**6
    checkpoint_sentences: Annotated[
        int,
        About(
            "number of dev sentences decoded at each checkpoint, for the curve's dev_bleu; -1: all, 0: "
            "none. For a sample, the metric is called dev_bleu_sample",
            -1, 1_000_000,
        ),
    ] = -1  # fmt: skip
    update_interval: Annotated[
        int, About("number of batches in an update, which uses their mean gradient", 1, 1000)
    ] = 1
    learning_rate_scheduler: Annotated[
        Literal["plateau-reduce", "inv-sqrt-decay", "linear-decay", "none"],
        About(
            "learning rate lowered when dev perplexity stops improving, divided by the root of the update, "
            "linear to 0 at max_updates, or constant"
        ),
    ] = "plateau-reduce"
    workers: Annotated[
        int,
        About(
            "number of processes of one training, each with one batch of an update. On CUDA, each has a "
            "GPU, starting with the training's own GPU. Times and memory are measured in the first process",
            1, 64, on_grid=False,
        ),
    ] = 1  # fmt: skip
    beam_size: Annotated[int, About("beam size for decoding dev and test", 1, 100)] = 5
    decode_batch_size: Annotated[
        int, About("sentences that are decoded at once", 1, 10_000, unit="sentences")
    ] = 16
    decode_times: Annotated[
        int,
        About(
            "how often dev is decoded; its time is the smallest, which other work disturbs least",
            1, 100, on_grid=False,
        ),
    ] = 1  # fmt: skip


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

    amp: Annotated[bool, About("mixed precision in training, only on a CUDA device")] = False
    tf32: Annotated[bool, About("products of 32-bit numbers in lower precision, on GPUs that support it")] = (
        True
    )
    decode_dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], About("number type of the model that decodes dev and test")
    ] = "float32"
