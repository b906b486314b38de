"""The neural cache predicts recent words that came after similar hidden states (Grave et al. 2017).

Krause et al. 2018, eq. 3. With h_t the hidden vector that predicts token t+1 and W the window,

    p_cache(w) = sum_i exp(theta h_t.h_i) [x_i+1 = w] / sum_i exp(theta h_t.h_i),   t - W <= i < t
    p(w) = (1 - lambda) p_model(w) + lambda p_cache(w)

Time O(N W D), in matrix products over blocks of queries; memory N D for the hidden vectors, and
block (W + block) for the scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpobench_nmt.core.arrays import Floats, Tokens
from hpobench_nmt.runner.lm.language_model import LanguageModel
from hpobench_nmt.runner.lm.softmax import linear_nll
from hpobench_nmt.runner.lm.static import evaluating, hidden_vectors

_BLOCK = 256
# Tuning tries these multiples of a cache's own values.
_THETA_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_LAMBDA_FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0)
_MOST_CACHE = 0.95


@dataclass(frozen=True)
class NeuralCache:
    """A cache of the last `window` hidden vectors, with theta (0: equal weights) and the weight lambda."""

    window: int
    theta: float
    weight: float


def cache_nll(model: LanguageModel, tokens: Tokens, cache: NeuralCache) -> Floats:
    """Negative log-likelihood (nats) of every token except the first, shape (N - 1,)."""
    log_model, log_cache = _read(model, tokens, cache.window, [cache.theta])
    return _mixed(log_model, log_cache[0], cache.weight)


def mixed_with_cache(nll: Floats, hidden: Tensor, targets: Tokens, cache: NeuralCache) -> Floats:
    """Negative log-likelihoods (nats) of tokens, shape (N,), from a model's own, mixed with its cache.

    Args:
        hidden: the vectors that predicted the tokens, shape (N, D).
    """
    words = torch.from_numpy(np.array(targets, dtype=np.int64)).to(hidden.device)
    (log_cache,) = _log_caches(hidden, words, cache.window, [cache.theta])
    return _mixed(-nll, log_cache, cache.weight)


def tuned_cache(model: LanguageModel, tokens: Tokens, start: NeuralCache) -> NeuralCache:
    """The cache with the best theta and lambda on these tokens, among multiples of its own values.

    The model reads the tokens once.
    """
    thetas = sorted({start.theta * factor for factor in _THETA_FACTORS})
    weights = sorted({min(start.weight * factor, _MOST_CACHE) for factor in _LAMBDA_FACTORS})
    log_model, log_caches = _read(model, tokens, start.window, thetas)
    losses = {
        (theta, weight): float(_mixed(log_model, log_cache, weight).mean())
        for (theta, log_cache), weight in itertools.product(zip(thetas, log_caches, strict=True), weights)
    }
    theta, weight = min(losses, key=lambda pair: losses[pair])
    return NeuralCache(start.window, theta, weight)


def _read(
    model: LanguageModel, tokens: Tokens, window: int, thetas: Sequence[float]
) -> tuple[Floats, list[Floats]]:
    """log p_model of every token except the first, and log p_cache for each theta."""
    with evaluating(model):
        pieces = list(hidden_vectors(model, tokens))
        parts = [-linear_nll(h, model.output_weight, model.output_bias, t) for h, t in pieces]
    hidden, targets = (torch.cat(tensors) for tensors in zip(*pieces, strict=True))
    log_model = torch.cat(parts).cpu().numpy().astype(np.float64)
    return log_model, _log_caches(hidden, targets, window, thetas)


def _log_caches(hidden: Tensor, targets: Tensor, window: int, thetas: Sequence[float]) -> list[Floats]:
    """log p_cache of every target for each theta."""
    log_caches: list[list[Tensor]] = [[] for _ in thetas]
    for start in range(0, len(hidden), _BLOCK):
        queries = hidden[start : start + _BLOCK]
        first = max(0, start - window)
        last = start + len(queries) - 1
        scores = queries @ hidden[first:last].t()
        t = torch.arange(start, last + 1, device=hidden.device)[:, None]
        i = torch.arange(first, last, device=hidden.device)[None, :]
        outside = (i >= t) | (i < t - window)
        other = outside | (targets[None, first:last] != targets[start : last + 1, None])
        for theta, logs in zip(thetas, log_caches, strict=True):
            scaled = scores * theta
            whole = scaled.masked_fill(outside, -torch.inf).logsumexp(1)
            logs.append(scaled.masked_fill_(other, -torch.inf).logsumexp(1) - whole)
    # The cache is empty at the first position: there log p_cache is -inf minus -inf, which is NaN.
    return [torch.cat(logs).cpu().numpy().astype(np.float64) for logs in log_caches]


def _mixed(log_model: Floats, log_cache: Floats, weight: float) -> Floats:
    """-log of the mixture; the model alone where the cache is still empty (NaN)."""
    if not weight:
        return -log_model
    with np.errstate(invalid="ignore"):
        mixed = np.logaddexp(np.log1p(-weight) + log_model, np.log(weight) + log_cache)
    return -np.where(np.isnan(log_cache), log_model, mixed)
