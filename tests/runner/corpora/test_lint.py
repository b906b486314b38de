"""Findings about corpora against counts made by hand."""

from pathlib import Path
from typing import Any

import pytest

from hpobench_nmt.runner.corpora import corpus_report, load_corpus

CLEAN = {
    "train": "a first line of five words\nanother line of just five\n",
    "dev": "here are five other words\n",
    "test": "and here are five more\n",
}


def texts(base: Path, parts: dict[str, str], **options: Any) -> list[str]:
    for part, content in parts.items():
        (base / part).write_text(content, encoding="utf-8")
    section = {"name": "text", **{part: part for part in parts}, **options}
    corpus = load_corpus(section, base, base / "cache")
    report = corpus_report(section, corpus)
    assert all(line in report for line in corpus.provenance.get("findings", "").split("; ") if line)
    return report[1:]  # without the sizes


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        ({}, None),
        (
            {"dev": CLEAN["dev"] + CLEAN["train"]},
            "lines with 5 tokens or more of dev that are in train: 2 of 3",
        ),
        (
            {"test": "a b\n" + CLEAN["test"], "train": "a b\n" + CLEAN["train"]},
            None,
        ),  # short ones do not count
        ({"train": CLEAN["train"] * 3}, "lines with 5 tokens or more of train that occur before: 4 of 6"),
        ({"train": "u\u0308ber q\u0308 über\n" + CLEAN["train"]}, "words with decomposed letters (NFD): 1"),
        (
            {"train": CLEAN["train"] + "\ufeffa soft\u00adened zero\u200bwidth e\u200d\n"},
            "words with invisible characters (U+FEFF, U+00AD or U+200B): 3",
        ),
        (
            {"train": "a </s> b\n" + CLEAN["train"]},
            "</s> is a word of train, beside the <eos> at the end of every",
        ),
    ],
)
def test_findings_about_texts(tmp_path: Path, changed: dict[str, str], finding: str | None) -> None:
    report = texts(tmp_path, CLEAN | changed)
    assert len(report) == (finding is not None)
    assert finding is None or report[0].startswith(finding)


def test_decomposed_letters_among_characters(tmp_path: Path) -> None:
    train = "u\u0308ber नमस्ते\n" + CLEAN["train"]
    assert texts(tmp_path, CLEAN | {"train": train}, unit="character") == [
        "characters with decomposed letters (NFD): 1"
    ]


def test_options_in_vain(tmp_path: Path) -> None:
    assert texts(tmp_path, CLEAN, dev_tokens=9, test_tokens=6, vocabulary=50) == [
        "dev_tokens asks for 9 tokens of dev, and there are 6",
        "vocabulary asks for 50 words in the vocabulary, and there are 10",
    ]


def test_findings_about_pairs(tmp_path: Path) -> None:
    sides = {
        "train_source": "eins\nzwei\neins\nCafe\u0301 </s>\nsame\n",
        "train_target": "one\ntwo\none\ncoffee now\nsame\n",
        "dev_source": "zwei\n\ufeffsechs\n",
        "dev_target": "second\nsix\n",
        "test_source": "sieben\n",
        "test_target": "one\n",
    }
    for name, content in sides.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    section = {"name": "parallel", "source": "de", "target": "en", **{name: name for name in sides}}
    corpus = load_corpus(section, tmp_path, tmp_path / "cache")
    assert corpus.provenance["findings"].split("; ") == [
        "source lines of dev that are in train: 1 of 2",
        "target lines of test that are in train: 1 of 1",
        "pairs of train that occur before: 1 of 5",
        "both sides of 1 pair of train are the same",
        "lines of train that end in <eos> or </s>: 1",
        "lines of train with decomposed letters (NFD): 1",
        "lines of dev with invisible characters (U+FEFF, U+00AD or U+200B): 1",
        '0 of 2 target lines of dev have 4 words, which BLEU needs: use dev_chrf, or bleu_tokenizer = "char"',
    ]
    assert corpus_report(section, corpus)[1] == (
        "tokens per line of train: de median 1, 99% up to 2, longest 2; en median 1, 99% up to 2, longest 2"
    )
