import random

import pytest

sacrebleu = pytest.importorskip("sacrebleu", reason="needs: pip install sacrebleu")

from hpobench_nmt.runner.nmt.pairwise_scores import pairwise_scores  # noqa: E402

WORDS = ["the", "menu", "File", "-", "(x)", "opens", "a", "dialog,", "12.5", "it's", "é", "."]


def lines():
    """Variants of a few sentences, with an empty line and one letter."""
    draws = random.Random(1)
    for _ in range(8):
        words = draws.choices(WORDS, k=draws.randrange(16))
        variants = ([w if draws.random() < 0.8 else draws.choice(WORDS) for w in words] for _ in range(6))
        yield list(dict.fromkeys([*(" ".join(variant) for variant in variants), "", "a"]))


@pytest.mark.parametrize(
    ("name", "tokenizer", "metric"),
    [
        ("chrf", "13a", sacrebleu.CHRF()),
        ("bleu", "13a", sacrebleu.BLEU(tokenize="13a", force=True, effective_order=True)),
        ("bleu", "char", sacrebleu.BLEU(tokenize="char", force=True, effective_order=True)),
    ],
)
def test_the_scores_of_all_pairs_are_those_of_sacrebleu(name, tokenizer, metric):
    scores = pairwise_scores(name, tokenizer)
    for texts in lines():
        assert scores(texts) == [
            [metric.sentence_score(own, [other]).score for other in texts] for own in texts
        ]
