"""An encoder-decoder Transformer (Vaswani et al. 2017) of the library transformers, with fresh weights.

Normalisation comes before each sublayer (its class M2M100) or after the sum (its class Marian). In both,
positions are sines and cosines, embeddings are multiplied by the root of the width, and the activation is
ReLU. Initial weights are as in Sockeye:

    linear maps             uniform, +-sqrt(6 / (a + b)) for a inputs and b outputs (Glorot & Bengio 2010)
    q, k, v of attention    the same over sqrt(2), because they are one map of b = 3 a outputs
    embeddings              uniform, +-0.07; one that is also the output's is initialised as a linear map
    biases                  0

The multiplication of embeddings matters most. By default, the library's Marian does without it. Then small
vectors of words are lost beside positions of size 1. With all weights drawn as in the library (deviation
0.02), 320 updates on a tiny language reached BLEU 96 with the multiplication and 60 without it (norm "pre";
93 and 56 with "post"; means of three seeds).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpobench_nmt.runner.nmt.marian_batches import Batch, PaddedBatch
from hpobench_nmt.runner.nmt.marian_numbers import BEGIN, END, PAD
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings, longest
from hpobench_nmt.runner.torch_training.repeatable import seeds_of

_EMBEDDED = 0.07


def build(settings: MarianSettings, source: int, target: int, generator: torch.Generator) -> Any:
    """A model with fresh weights from the generator, on its device.

    Args:
        source, target: numbers of subwords in the two vocabularies, PAD included.
    """
    import transformers

    pre = settings.norm == "pre"
    common = {
        "vocab_size": target,
        "d_model": settings.num_embed,
        "encoder_layers": settings.num_layers,
        "decoder_layers": settings.num_layers,
        "encoder_ffn_dim": settings.num_hidden,
        "decoder_ffn_dim": settings.num_hidden,
        "encoder_attention_heads": settings.num_heads,
        "decoder_attention_heads": settings.num_heads,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "activation_function": "relu",
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.feed_forward_dropout,
        "scale_embedding": True,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "forced_eos_token_id": None,
        "decoder_start_token_id": BEGIN,
        "max_position_embeddings": longest(settings),
    }
    if pre:
        model: Any = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**common))
    else:
        model = transformers.MarianMTModel(transformers.MarianConfig(**common))
    _embed(model, settings, source, target)
    _initialise(model, generator)
    model.to(generator.device)
    if settings.tied != "none":  # on some kinds of device, each module gets its own copy
        model.lm_head.weight = model.model.decoder.embed_tokens.weight
    return model


@contextmanager
def fresh(
    settings: MarianSettings, sizes: tuple[int, int], seed: int, device: torch.device
) -> Iterator[tuple[Any, int]]:
    """A model to train, with the sizes of its two vocabularies, and the seed of the order of its data.

    Inside, torch's global generator, from which dropout draws, has the training's seed.
    """
    of_model, of_data = seeds_of(seed)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(of_model)
        yield build(settings, *sizes, torch.Generator(device).manual_seed(of_model)), of_data


def parameters(settings: MarianSettings, source: int, target: int) -> int:
    """The number of a model's trained parameters, without making it; a tied one counts once."""
    e, h = settings.num_embed, settings.num_hidden
    attention, forward, norm = 4 * (e + 1) * e, (e + 1) * h + (h + 1) * e, 2 * e
    layer = 3 * attention + 2 * forward + 5 * norm  # one layer of the encoder and one of the decoder
    ends = 2 * norm if settings.norm == "pre" else 0
    matrices = {"none": source + 2 * target, "target": source + target, "all": target}[settings.tied]
    return settings.num_layers * layer + ends + matrices * e + target


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The trained parameters, each once. Positions are fixed."""
    return [p for p in model.parameters() if p.requires_grad]


def _embed(model: Any, settings: MarianSettings, source: int, target: int) -> None:
    """Tie the embeddings as the settings ask; the library ties all or none."""
    inner = model.model
    decoder = inner.decoder.embed_tokens
    inner.encoder.embed_tokens = decoder if settings.tied == "all" else _alike(decoder, source)
    inner.shared = decoder
    model.lm_head = nn.Linear(settings.num_embed, target)
    if settings.tied != "none":
        model.lm_head.weight = decoder.weight
    if settings.embed_dropout:
        for embedding in {inner.encoder.embed_tokens, decoder}:
            embedding.register_forward_hook(
                lambda module, _, output: functional.dropout(output, settings.embed_dropout, module.training)
            )


def _alike(embedding: Any, size: int) -> nn.Embedding:
    """A new embedding of the same class, width and scale."""
    width, scale = embedding.embedding_dim, getattr(embedding, "embed_scale", None)
    more = {} if scale is None else {"embed_scale": scale}
    return type(embedding)(size, width, PAD, **more)  # type: ignore[no-any-return]


@torch.no_grad()
def _initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Draw the initial weights above, on the CPU, so that they are the same on every device."""
    own = torch.Generator().manual_seed(generator.initial_seed())
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.weight.requires_grad:
            module.weight.uniform_(-_EMBEDDED, _EMBEDDED, generator=own)
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            a, b = module.in_features, module.out_features
            one_of_three = name.endswith(("q_proj", "k_proj", "v_proj"))
            bound = math.sqrt(6 / (a + b) / (2 if one_of_three else 1))
            module.weight.uniform_(-bound, bound, generator=own)
            if module.bias is not None:
                module.bias.zero_()


def loss(model: Any, batch: Batch, smoothing: float) -> Tensor:
    """The sum of the batch's smoothed cross-entropies, in nats.

    The smoothed distribution spreads `smoothing` evenly over all words, including the correct word.
    """
    hidden = model.model(
        input_ids=batch.source, attention_mask=batch.mask, decoder_input_ids=batch.read, use_cache=False
    ).last_hidden_state
    logits = model.lm_head(hidden[batch.real]).float()
    return functional.cross_entropy(logits, batch.written, label_smoothing=smoothing, reduction="sum")


def padded_loss(model: Any, batch: PaddedBatch, smoothing: float) -> Tensor:
    """`loss` of a padded batch, divided by its words."""
    hidden = model.model(
        input_ids=batch.source,
        attention_mask=batch.mask,
        decoder_input_ids=batch.read,
        decoder_attention_mask=batch.seen,
        use_cache=False,
    ).last_hidden_state
    logits = model.lm_head(hidden).float().flatten(0, 1)
    total = functional.cross_entropy(
        logits, batch.written.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    return total / batch.words
