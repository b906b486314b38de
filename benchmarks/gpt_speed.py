"""A training step of our GPT against GPT-2 and Llama of `transformers`, of the same shape, on one core.

    pip install 'hpobench-nmt[train]' transformers
    python benchmarks/gpt_speed.py [--times 14]

A step is forward, loss and backward, in 32 bits, without compiling, and with torch's fused attention in both
models. The two models take turns in one process. The ratio is that of the processor times of the five best
steps of each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from hpobench_nmt.runner.lm.gpt_model import GPT
from hpobench_nmt.runner.lm.gpt_shape import GPTShape
from hpobench_nmt.runner.lm.softmax import linear_cross_entropy

BAR_RATIO = 1.05
BATCH, BEST = 16, 5
# Vocabulary, depth, width, heads and context.
SIZES = ((512, 2, 32, 2, 64), (2000, 4, 64, 4, 64), (512, 4, 96, 4, 128), (8000, 4, 128, 4, 128))

Step = Callable[[Tensor], None]


def our_step(shape: GPTShape) -> Step:
    model = GPT(shape, dropout=0.0, generator=torch.Generator().manual_seed(0)).train()

    def step(windows: Tensor) -> None:
        for p in model.parameters():
            p.grad = None
        stream = windows.t()
        hidden, _ = model(stream[:-1], model.initial_state(BATCH))
        flat = hidden.reshape(-1, shape.width)
        linear_cross_entropy(flat, model.output_weight, model.output_bias, stream[1:].reshape(-1)).backward()

    return step


def their_step(model: Any) -> Step:
    model.train()

    def step(windows: Tensor) -> None:
        for p in model.parameters():
            p.grad = None
        logits = model(windows[:, :-1], use_cache=False).logits
        cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).backward()

    return step


def pair(kind: str, vocabulary: int, depth: int, width: int, heads: int, context: int) -> tuple[Step, Step]:
    """Our step and theirs, on models of the same shape."""
    common: dict[str, Any] = {"vocab_size": vocabulary, "attn_implementation": "sdpa"}
    common |= {"bos_token_id": 0, "eos_token_id": 0}
    if kind == "GPT-2":
        shape = GPTShape(
            vocabulary, depth, width, heads, 4 * width, context, "layernorm", "learnt", "gelu", True
        )
        own: dict[str, Any] = {"n_positions": context, "n_embd": width, "n_layer": depth, "n_head": heads}
        own |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return our_step(shape), their_step(GPT2LMHeadModel(GPT2Config(**common | own)))
    hidden = 8 * width // 3
    shape = GPTShape(vocabulary, depth, width, heads, hidden, context, activation="swiglu")
    own = {"hidden_size": width, "intermediate_size": hidden, "num_hidden_layers": depth}
    own |= {"num_attention_heads": heads, "max_position_embeddings": context, "tie_word_embeddings": True}
    return our_step(shape), their_step(LlamaForCausalLM(LlamaConfig(**common | own)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=14)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for kind in ("GPT-2", "Llama"):
        for size in SIZES:
            steps = pair(kind, *size)
            windows = torch.randint(size[0], (BATCH, size[-1] + 1))
            taken: tuple[list[float], list[float]] = ([], [])
            for _ in range(arguments.times):
                for step, times in zip(steps, taken, strict=True):
                    start = time.process_time()
                    step(windows)
                    times.append(time.process_time() - start)
            ours, theirs = (sum(sorted(times)[:BEST]) for times in taken)
            vocabulary, depth, width, heads, context = size
            print(
                f"{kind}, vocabulary {vocabulary}, depth {depth}, width {width}, heads {heads}, context "
                f"{context}: {BATCH * context * BEST / ours:,.0f} tokens/s, {ours / theirs:.2f} of their "
                f"time (bar: {BAR_RATIO}) {'ok' if ours <= BAR_RATIO * theirs else 'ABOVE THE BAR'}"
            )


if __name__ == "__main__":
    main()
