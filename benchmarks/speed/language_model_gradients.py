"""Each hand-written gradient of the language models against torch's own, in the runner's training.

    pip install 'hpobench-nmt[train]'
    python benchmarks/speed/language_model_gradients.py [--only softmax] [--turns 5]

A hand-written gradient stays in the library only if it is faster in a whole training update (forward,
backward, clipping, optimiser). Functions of dynamic evaluation must be faster in a whole pass of it. The bar
is 1.2 times. The softmax may be equally fast, because torch's own needs several times the memory or, in
chunks, torch 2.13. Every contender is the same model with one function replaced by its plain version. Rates
are words per second of processor time on one core, the best of several turns. The contenders take turns, so
that other load affects them equally.

Hand-written gradients of the LSTM, RHN, NAS and mLSTM cells were measured in the same way and deleted. In a
training update they were 0.94 to 1.12 times as fast as automatic differentiation for words (vocabulary
10,000, 128 to 400 units). For characters (vocabulary 60, 128 to 512 units) they were 1.04 to 1.07 times as
fast (tied LSTM), 1.00 to 1.06 (RHN), 1.15 to 1.33 (other LSTMs), 1.13 to 1.22 (NAS) and 0.95 to 1.37 (mLSTM),
with a noise of 0.2 between runs.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hpobench_nmt.runner.lm import (
    awd_lstm_model,
    dynamic,
    gradient,
    single_stream_lstm,
)
from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
from hpobench_nmt.runner.lm.awd_lstm_settings import ModelSettings
from hpobench_nmt.runner.lm.dynamic import UpdateRule, dynamic_nll, gradient_rms
from hpobench_nmt.runner.lm.language_model import detach
from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam
from hpobench_nmt.runner.lm.settings import PlateauSettings
from hpobench_nmt.runner.torch_training.precision import loss_scaler
from hpobench_nmt.runner.torch_training.repeatable import set_up

BAR = 1.2
WORDS = 10_000
Contenders = dict[str, Callable[[], int]]


def plain_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(functional.linear(hidden, weight, bias), targets)


def torch_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Torch's own loss in chunks, which version 2.13 introduced."""
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=128)
    return functional.linear_cross_entropy(hidden, weight, targets, linear_bias=bias, options=options)


def plain_nll_with_gradients(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    grad_weight: Tensor | None,
    grad_bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    leaves = [x.detach().requires_grad_() for x in (hidden, weight, bias)]
    logits = functional.linear(*leaves)
    nll = functional.cross_entropy(logits, targets, reduction="none")
    wanted = leaves if grad_weight is not None else leaves[:1]
    gradients = torch.autograd.grad(nll.mean(), wanted)
    for kept, own in zip((grad_weight, grad_bias), gradients[1:], strict=False):
        if kept is not None:
            kept.copy_(own)
    return nll.detach(), gradients[0]


def torch_lstm(x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    grad = torch.is_grad_enabled()
    output, h, c = torch.lstm(
        x[:, None], (h[None, None], c[None, None]), weights, True, 1, 0.0, grad, False, False
    )
    return output[:, 0], h[0, 0], c[0, 0]


def torch_lstm_cell(x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    h, c, outputs = h[None], c[None], []
    for step in x.split(1):
        h, c = torch.lstm_cell(step, (h, c), *weights)
        outputs.append(h)
    return torch.cat(outputs), h[0], c[0]


def torch_descend_rms(*arrays_and_numbers: Any) -> None:
    local, whole, gradient, rms = map(torch.from_numpy, arrays_and_numbers[:4])
    eta, epsilon, decay, per_rms = map(float, arrays_and_numbers[4:])
    pull = rms.mul(per_rms).add_(decay).clamp_(max=1.0)
    local.addcdiv_(gradient, rms + epsilon, value=-eta)
    local.add_(pull.mul_(whole - local))


def text(vocabulary: int, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Random words with Zipf's frequencies."""
    p = 1.0 / np.arange(1, vocabulary + 1)
    return np.random.default_rng(0).choice(vocabulary, size=n, p=p / p.sum()).astype(np.int64)


def update(model: Any, vocabulary: int, batch: int, steps: int) -> Callable[[], int]:
    """One training update of a model."""
    model.train()
    piece = torch.from_numpy(text(vocabulary, batch * (steps + 1))).view(steps + 1, batch)
    optimiser = PlateauAdam(
        model.parameters(),
        PlateauSettings(learning_rate=1e-4, beta1=0.0, epsilon=1e-9, patience=5, drop=0.1, drops=1),
    )
    state, scaler = [(model.initial_state(batch),)], loss_scaler("fp32", piece.device)

    def run() -> int:
        _, after = gradient.gradient(model, piece, detach(state[0]), "fp32", scaler)
        state[0] = detach(after)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimiser.step(1.0)
        return batch * steps

    return run


def replaced(run: Callable[[], int], *replacements: tuple[Any, str, Any]) -> Callable[[], int]:
    """The same run with some functions of modules replaced."""

    def with_replacements() -> int:
        with contextlib.ExitStack() as stack:
            for module, name, function in replacements:
                stack.enter_context(mock.patch.object(module, name, function))
            return run()

    return with_replacements


def awd_lstm(**changes: Any) -> AWDLSTM:
    """With the default rates of dropout and regularisation, unless they are given."""
    settings = ModelSettings(layers=2, embedding_size=200, hidden_size=400, **changes)
    return AWDLSTM(WORDS, settings, torch.Generator().manual_seed(0))


def output_layer() -> Iterator[tuple[str, Contenders]]:
    for batch in (20, 64):
        run = update(awd_lstm(), WORDS, batch, 35)
        plain = replaced(run, (gradient, "linear_cross_entropy", plain_cross_entropy))
        contenders = {"by hand": run, "autograd": plain}
        if hasattr(functional, "linear_cross_entropy"):
            own = replaced(run, (gradient, "linear_cross_entropy", torch_cross_entropy))
            contenders["linear_cross_entropy"] = own
        yield f"softmax, AWD-LSTM, {batch} x 35", contenders


def dynamic_evaluation() -> Iterator[tuple[str, Contenders]]:
    model = awd_lstm().eval()
    for segment in (5, 20):
        tokens = text(WORDS, 40 * segment + 1)
        rms = gradient_rms(model, tokens, 5, segment)
        rule = UpdateRule("rms-rms-prior", 1e-4, segment, 0.005, 1e-4)

        def run(tokens: Any = tokens, rule: UpdateRule = rule, rms: Any = rms) -> int:
            return len(dynamic_nll(model, tokens, rule, rms))

        size = f"dynamic evaluation, segments of {segment}"
        yield (
            f"single-stream lstm, {size}",
            {
                "by hand": replaced(run, (awd_lstm_model, "_FEW_STEPS", 1000)),
                "torch.lstm": replaced(
                    run,
                    (single_stream_lstm, "lstm", torch_lstm),
                    (awd_lstm_model, "_FEW_STEPS", 1000),
                ),
                "torch.lstm_cell": replaced(
                    run, (single_stream_lstm, "lstm", torch_lstm_cell), (awd_lstm_model, "_FEW_STEPS", 1000)
                ),
            },
        )
        plain = replaced(run, (dynamic, "nll_with_gradients", plain_nll_with_gradients))
        yield f"softmax, {size}", {"by hand": run, "autograd": plain}
        plain = replaced(run, (dynamic, "descend_rms", torch_descend_rms))
        yield f"update rule, {size}", {"by hand": run, "torch": plain}


def take_turns(contenders: Contenders, turns: int) -> dict[str, float]:
    """Words per second of each contender, in the best turn of at least a fifth of a second."""
    best = dict.fromkeys(contenders, 0.0)
    for turn in range(turns + 1):
        for name, run in contenders.items():
            started, read = time.process_time(), 0
            while time.process_time() - started < 0.2:
                read += run()
            if turn:  # the first turn loads code
                best[name] = max(best[name], read / (time.process_time() - started))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="names that begin with one of these")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    set_up("cpu")
    for group in (output_layer, dynamic_evaluation):
        for name, contenders in group():
            if not name.startswith(tuple(arguments.only.split(","))):
                continue
            rates = take_turns(contenders, arguments.turns)
            others = {k: rates["by hand"] / rate for k, rate in rates.items() if k != "by hand"}
            ratios = ", ".join(f"{ratio:.2f} times {other}" for other, ratio in others.items())
            verdict = "" if min(others.values()) >= BAR else f"  (below {BAR})"
            print(f"{name:55} {rates['by hand']:8,.0f} words/s, {ratios}{verdict}", flush=True)


if __name__ == "__main__":
    main()
