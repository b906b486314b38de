"""From raw pairs of texts to a parallel corpus: clean, remove duplicates, split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.runner.corpora.corpus import ParallelCorpus
from hpobench_nmt.runner.corpora.lines import Lines
from hpobench_nmt.runner.corpora.tokenise import tokenise

Pair = tuple[str, str]
_RATIO, _SLACK = 3, 3


def clean(texts: Iterable[Pair], languages: Pair, min_words: int, max_words: int) -> list[Pair]:
    """Tokenised pairs in which no source and no target occurs twice, ignoring case.

    A pair is dropped if a side has fewer than min_words or more than max_words tokens, if a side has no
    letter (of the language's script), or if the sides are the same or differ too much in length. If a source
    has several translations, the most frequent is kept, and likewise if a target has several sources. If
    counts are equal, the first pair in alphabetical order is kept.
    """
    counts = Counter(texts)
    seen_sources, seen_targets = set[str](), set[str]()
    kept = []
    for source, target in sorted(counts, key=lambda pair: (-counts[pair], pair)):
        sides = (tokenise(source), tokenise(target))
        line = (" ".join(sides[0]), " ".join(sides[1]))
        keys = (line[0].casefold(), line[1].casefold())
        short, long = sorted(len(side) for side in sides)
        if not min_words <= short <= long <= max_words or too_unlike(short, long, _RATIO):
            continue
        if keys[0] == keys[1] or not all(map(written_in, (source, target), languages)):
            continue
        if keys[0] not in seen_sources and keys[1] not in seen_targets:
            seen_sources.add(keys[0])
            seen_targets.add(keys[1])
            kept.append(line)
    return kept


def too_unlike(short: int, long: int, ratio: float) -> bool:
    """Whether the longer side has more tokens than `ratio` times the shorter side, plus 3."""
    return long > ratio * short + _SLACK


_OTHER_SCRIPT = {
    "el": ("\u0370", "\u03ff"),
    "ja": ("\u3040", "\u9fff"),
    "ko": ("\uac00", "\ud7a3"),
    "ru": ("\u0400", "\u04ff"),
    "zh": ("\u3400", "\u9fff"),
    "zh-tw": ("\u3400", "\u9fff"),
}


def written_in(text: str, language: str) -> bool:
    """Whether a text has a letter of the language's script. Texts left in English often have none."""
    if language not in _OTHER_SCRIPT:
        return any(map(str.isalpha, text))
    first, last = _OTHER_SCRIPT[language]
    return any(first <= character <= last for character in text)


def split(
    name: str,
    languages: Pair,
    pairs: Iterable[Pair],
    sizes: Mapping[str, int],
    seed: int,
    provenance: Mapping[str, str],
) -> ParallelCorpus:
    """A corpus with `sizes` pairs in each part, drawn at random. dev and test do not depend on train's size.

    Raises InputError if there are fewer pairs.
    """
    ordered = sorted(pairs)
    held_out = sizes["dev"] + sizes["test"]
    wanted = sizes["train"] + held_out
    if wanted > len(ordered):
        raise InputError(
            f"corpus {name!r}: only {counted(len(ordered), 'pair')} {'-'.join(languages)} "
            f"{'is' if len(ordered) == 1 else 'are'} left after cleaning, not {wanted:,}: set train to at "
            f"most {max(len(ordered) - held_out, 0)}, or set a smaller min_words."
        )
    drawn = [ordered[i] for i in np.random.default_rng(seed).permutation(len(ordered))[:wanted]]
    parts = {"dev": drawn[: sizes["dev"]], "test": drawn[sizes["dev"] : held_out], "train": drawn[held_out:]}
    return parallel_corpus(name, languages, {p: _sides(pairs) for p, pairs in parts.items()}, provenance)


def _sides(pairs: Iterable[Pair]) -> tuple[Lines, Lines]:
    sources, targets = zip(*pairs, strict=True)
    return Lines.of(sources), Lines.of(targets)


def parallel_corpus(
    name: str, languages: Pair, parts: Mapping[str, tuple[Lines, Lines]], provenance: Mapping[str, str]
) -> ParallelCorpus:
    """A corpus of these parts, with its size in the provenance."""
    train, dev, test = parts["train"], parts["dev"], parts["test"]
    size = f"train {len(train[0]):,} pairs, dev {len(dev[0]):,}, test {len(test[0]):,}"
    return ParallelCorpus(name, *languages, train, dev, test, {**provenance, "size": size})
