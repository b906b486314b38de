"""sacrebleu's scores of sentences for all pairs of some texts. The n-grams of a text are counted once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.runner.nmt.text_scores import Tokenizer

PairwiseScores = Callable[[Sequence[str]], list[list[float]]]
"""From n texts to n lists of n scores, 0 to 100: each text as a translation, and each as its reference."""


def pairwise_scores(name: Literal["chrf", "bleu"], tokenizer: Tokenizer) -> PairwiseScores:
    """sacrebleu's chrF2, or smoothed BLEU, with the same bits."""
    import sacrebleu

    if name == "chrf":
        return lambda texts: _chrf(*_counted(["".join(text.split()) for text in texts], 6)).tolist()

    metric = sacrebleu.BLEU(tokenize=tokenizer)

    def scores(texts: Sequence[str]) -> list[list[float]]:
        lines = [tuple(metric.tokenizer(text.rstrip()).split()) for text in texts]
        totals, matches = _counted(lines, 4)
        rows, lengths = matches.transpose(1, 2, 0).tolist(), list(map(len, lines))
        return [
            [
                metric.compute_bleu(correct, total, own, other, "exp", effective_order=True).score
                for correct, other in zip(row, lengths, strict=True)
            ]
            for row, total, own in zip(rows, totals.T.tolist(), lengths, strict=True)
        ]

    return scores


def _counted(sequences: Sequence[Sequence[Hashable]], orders: int) -> tuple[Ints, Ints]:
    """The n-grams of each of S sequences (orders, S), and those that two have in common (orders, S, S)."""
    totals, matches = [], []
    for n in range(1, orders + 1):
        ngrams = [[each[i : i + n] for i in range(len(each) - n + 1)] for each in sequences]
        numbers = {ngram: i for i, ngram in enumerate({ngram for own in ngrams for ngram in own})}
        counts = np.array([np.bincount([numbers[x] for x in own], minlength=len(numbers)) for own in ngrams])
        totals.append(counts.sum(1))
        matches.append([np.minimum(own, counts).sum(1) for own in counts])
    return np.array(totals), np.array(matches)


def _chrf(totals: Ints, matches: Ints) -> Floats:
    """chrF2 from `_counted`; its sums have sacrebleu's order."""
    some = np.maximum(totals, 1)
    orders = np.maximum(((totals[:, :, None] > 0) & (totals[:, None] > 0)).sum(0), 1)
    precision = (matches / some[:, :, None]).sum(0) / orders
    recall = (matches / some[:, None]).sum(0) / orders
    denominator = 4 * precision + recall
    found: Floats = 100 * (5 * precision * recall / np.where(denominator, denominator, 1))
    return found
