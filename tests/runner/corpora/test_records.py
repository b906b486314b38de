"""Every format and archive gives the same texts, and errors name the line."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import ParallelCorpus, TextCorpus, load_corpus

PARTS = ("train", "dev", "test")
PAIRS = {
    "train": [("ein Haus", "a house"), ("zwei\u2028Häuser", 'two "houses"'), ("drei", "three")],
    "dev": [("vier", "four")],
    "test": [("fünf", "five"), ("sechs", "six")],
}


def zst(content: bytes) -> bytes:
    """A Zstandard archive, as the program zstd writes it."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACK = {"": bytes, "gz": gzip.compress, "xz": lzma.compress, "zst": zst}


def write(path: Path, pairs: list[tuple[str, str]], kind: str, pack: str = "") -> None:
    if kind == "parquet":
        rows = [{"de": s, "en": t} for s, t in pairs]
        pq.write_table(pa.table({"id": list(range(len(rows))), "translation": rows}), path)
        return
    if kind == "tsv":
        lines = [f"{s}\tx\t{t}" for s, t in pairs]
    else:
        lines = [
            json.dumps({"translation": {"de": s, "en": t}, "id": 1}, ensure_ascii=False) for s, t in pairs
        ]
    path.write_bytes(PACK[pack]("".join(f"{line}\n" for line in lines).encode()))


COLUMNS = {
    "tsv": {"source_column": "1", "target_column": "3"},
    "jsonl": {"source_column": "translation.de", "target_column": "translation.en"},
    "parquet": {"source_column": "translation.de", "target_column": "translation.en"},
}


def pairs(base: Path, kind: str, **options: Any) -> ParallelCorpus:
    files = {part: f"{part}.{kind}" for part in PARTS}
    section = {"name": "pairs", "source": "de", "target": "en", "format": kind, **files, **COLUMNS[kind]}
    corpus = load_corpus({**section, **options}, base, base / "cache")
    assert isinstance(corpus, ParallelCorpus)
    return corpus


def text(base: Path, **options: Any) -> TextCorpus:
    corpus = load_corpus({"name": "text", **options}, base, base / "cache")
    assert isinstance(corpus, TextCorpus)
    return corpus


def words(corpus: TextCorpus, part: str = "train") -> list[str]:
    return [corpus.vocabulary[number] for number in getattr(corpus, part)]


@pytest.mark.parametrize(
    ("kind", "pack"),
    [("tsv", ""), ("jsonl", ""), ("parquet", ""), ("tsv", "gz"), ("jsonl", "xz"), ("jsonl", "zst")],
)
def test_pairs_of_every_format(tmp_path: Path, kind: str, pack: str) -> None:
    for part in PARTS:
        write(tmp_path / f"{part}.{kind}", PAIRS[part], kind, pack)
    corpus = pairs(tmp_path, kind, unpack=bool(pack))
    assert corpus.train == (("ein Haus", "zwei Häuser", "drei"), ("a house", 'two "houses"', "three"))
    assert corpus.test == (("fünf", "sechs"), ("five", "six"))


def test_tsv_with_headings(tmp_path: Path) -> None:
    for part in PARTS:
        (tmp_path / f"{part}.tsv").write_text("en\tscore\tde\none\t0.5\teins\n")
    assert pairs(tmp_path, "tsv", source_column="de", target_column="en").dev == (("eins",), ("one",))
    with pytest.raises(InputError, match=r"line 1: has no heading 'fr'\. Its headings: 'en', 'score', 'de'"):
        pairs(tmp_path, "tsv", source_column="fr", target_column="en")


def test_columns_of_tsv_count_from_1(tmp_path: Path) -> None:
    for part in PARTS:
        write(tmp_path / f"{part}.tsv", PAIRS[part], "tsv")
    with pytest.raises(InputError, match=r"\.tsv: column '0' does not exist\. .* numbered from 1"):
        pairs(tmp_path, "tsv", source_column="0", target_column="1")


def test_a_data_set_folder_of_hugging_face(tmp_path: Path) -> None:
    """Shards by the part's name, in their order; validation is dev."""
    data = tmp_path / "wmt" / "data"
    data.mkdir(parents=True)
    for number, pair in enumerate(PAIRS["train"]):
        write(data / f"train-0000{number}-of-00003.parquet", [pair], "parquet")
    write(data / "validation-00000-of-00001.parquet", PAIRS["dev"], "parquet")
    write(data / "test-00000-of-00001.parquet", PAIRS["test"], "parquet")
    (data / "train-00000-of-00003.parquet.md5").write_text("")
    folder = dict.fromkeys(PARTS, "wmt")
    corpus = pairs(tmp_path, "parquet", **folder)
    assert corpus.train[1] == ("a house", 'two "houses"', "three")
    assert corpus.dev == (("vier",), ("four",))
    (data / "validation-00000-of-00001.parquet").unlink()
    with pytest.raises(InputError, match=r"dev: .*wmt has 4 parquet files, but none with dev or valid"):
        pairs(tmp_path, "parquet", **folder)


def test_several_files_are_joined(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b\nc")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"d\r\n") + gzip.compress(b"e\n"))
    options: dict[str, Any] = {
        "train": ["a.txt", "b.txt.gz"],
        "dev": "a.txt",
        "test": ["a.txt"],
        "unpack": True,
    }
    assert words(text(tmp_path, **options)) == ["a", "b", "<eos>", "c", "<eos>", "d", "<eos>", "e", "<eos>"]
    assert "".join(words(text(tmp_path, unit="character", **options))) == "a b\nc\nd\ne\n"
    with pytest.raises(InputError, match=r"train: is an empty list"):
        text(tmp_path, **{**options, "train": []})


def test_texts_of_json_lines(tmp_path: Path) -> None:
    """A document has lines of its own; null is no text, and so is a blank line of the file."""
    documents = [{"doc": {"body": "a b\n\nc"}}, {"doc": {"body": None}}, {"doc": {"body": "d\n"}}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, documents)) + "\n\n")
    files = dict.fromkeys(PARTS, "x.jsonl")
    corpus = text(tmp_path, **files, format="jsonl", column="doc.body")
    assert words(corpus) == ["a", "b", "<eos>", "<eos>", "c", "<eos>", "d", "<eos>"]
    with pytest.raises(InputError, match=r"x\.jsonl, line 1: has no key 'text'\. Its keys: 'doc'\.$"):
        text(tmp_path, **files, format="jsonl")
    with pytest.raises(InputError, match=r"column has no effect"):
        text(tmp_path, **files, column="doc.body")


BAD = {
    "jsonl-as-text": (
        b'{"text": "a"}\n{"text": "b"}\n',
        {},
        r'holds JSON lines, not plain.*Set format = "jsonl"',
    ),
    "gz-as-text": (gzip.compress(b"a b\n"), {}, r"holds a gzip archive, not plain.*Set unpack = true in"),
    "xz-as-text": (lzma.compress(b"a b\n"), {}, r"holds an xz archive, not plain text\. Set unpack = true"),
    "zst-as-text": (zst(b"a b\n"), {}, r"holds a Zstandard archive, not plain text\. Set unpack = true"),
    "jsonl-in-gz": (gzip.compress(b'{"text": "a"}\n'), {"unpack": True}, r"holds JSON lines, not plain text"),
    "zip": (b"PK\x03\x04...", {"unpack": True}, r"holds a zip archive, not plain text\. Unpack it first"),
    "text-as-jsonl": (b"a b\n", {"format": "jsonl"}, r"line 1: is not a JSON object: 'a b'"),
    "jsonl-cut-off": (b'{"text": "a"}\n{"te', {"format": "jsonl"}, r"line 2: is not a JSON object: '\{.te"),
    "number": (b'{"text": 3}\n', {"format": "jsonl"}, r"line 1: text is 3, not a text"),
    "deep": (b'{"text":' + b"[" * 100_000 + b"\n", {"format": "jsonl"}, r"line 1: is not a JSON object"),
    "text-as-parquet": (b"a b\n", {"format": "parquet"}, r"holds plain text, not Parquet"),
    "parquet-cut-off": (b"PAR1\x15\x00", {"format": "parquet"}, r"x, after row 0: the file is cut off"),
    "utf-16": ("a\nb\n".encode("utf-16"), {}, r"line 1: not UTF-8.*iconv -f UTF-16"),
    "latin-1": (b"a\n" * 70_000 + b"\xfc\n", {}, r"x, line 70001: not UTF-8.*iconv -f LATIN1"),
    "latin-1-in-gz": (gzip.compress(b"a\n\xfc\n"), {"unpack": True}, r"x, line 2: not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_file_holds_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    content, options, message = BAD[name]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        text(tmp_path, **dict.fromkeys(PARTS, "x"), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pack", "damage"),
    # A Zstandard archive may have no checksum.
    [("gz", "cut off"), ("xz", "cut off"), ("zst", "cut off"), ("gz", "flipped"), ("xz", "flipped")],
)
def test_a_damaged_archive(tmp_path: Path, pack: str, damage: str) -> None:
    lines = "".join(f"{number * 7919 % 10007} {number}\n" for number in range(9000)).encode()
    content = bytearray(PACK[pack](lines))
    if damage == "flipped":
        content[len(content) // 2] ^= 255
    (tmp_path / "x").write_bytes(content[: -len(content) // 3] if damage == "cut off" else content)
    with pytest.raises(InputError, match=r"x, after line \d+: the file is cut off or damaged") as caught:
        text(tmp_path, **dict.fromkeys(PARTS, "x"), unpack=True)
    assert "\n" not in str(caught.value)


def test_a_column_that_is_missing_in_line_70000(tmp_path: Path) -> None:
    lines = ["ein\tx\tone"] * 69_999 + ["zwei\tx"]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    for part in ("dev", "test"):
        write(tmp_path / f"{part}.tsv", PAIRS[part], "tsv")
    with pytest.raises(InputError, match=r"train\.tsv, line 70000: column '3' is missing"):
        pairs(tmp_path, "tsv")


def test_texts_that_no_file_can_hold_and_columns_twice(tmp_path: Path) -> None:
    section = {"name": "pairs", "source": "de", "target": "en", **{part: f"{part}.jsonl" for part in PARTS}}
    for part in PARTS:
        (tmp_path / f"{part}.jsonl").write_text(
            '{"de": "ein", "en": "one"}\n{"de": "caf\\udce9", "en": "x"}\n'
        )
        columns = [pa.array(["ein"]), pa.array(["one"]), pa.array(["two"])]
        pq.write_table(pa.Table.from_arrays(columns, ["de", "en", "en"]), tmp_path / f"{part}.parquet")
    with pytest.raises(InputError, match=r"dev\.jsonl, line 2: de contains a lone surrogate"):
        load_corpus({**section, "format": "jsonl"}, tmp_path, tmp_path / "cache")
    section |= {part: f"{part}.parquet" for part in PARTS}
    with pytest.raises(InputError, match=r"dev\.parquet: has no column 'en'\. Its columns: de .*en .*en "):
        load_corpus({**section, "format": "parquet"}, tmp_path, tmp_path / "cache")


def test_parquet_columns_are_checked(tmp_path: Path) -> None:
    for part in PARTS:
        write(tmp_path / f"{part}.parquet", PAIRS[part], "parquet")
    with pytest.raises(InputError, match=r"dev\.parquet: has no column 'translation\.fr'\. Its columns: id "):
        pairs(tmp_path, "parquet", source_column="translation.fr")
    with pytest.raises(InputError, match=r"dev\.parquet: column 'id' has the type int64, not text"):
        pairs(tmp_path, "parquet", source_column="id")


@pytest.mark.parametrize("pack", ["gz", "xz", "zst"])
def test_an_archive_that_unpacks_to_far_more_than_a_text_is_refused(
    tmp_path: Path, pack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpobench_nmt.runner.corpora.records._SLACK", 10_000)
    monkeypatch.setattr("hpobench_nmt.runner.corpora.records._LONGEST_LINE", 100_000)
    (tmp_path / "lines").write_bytes(PACK[pack]((b"x" * 1000 + b"\n") * 2000))
    (tmp_path / "one").write_bytes(PACK[pack](b"x" * 200_000))
    with pytest.raises(InputError, match=r"lines, line \d+: the archive unpacks to more than 200 times"):
        text(tmp_path, **dict.fromkeys(PARTS, "lines"), unpack=True)
    with pytest.raises(InputError, match=r"one, line 1: has more than 100,000 bytes"):
        text(tmp_path, **dict.fromkeys(PARTS, "one"), unpack=True)


def test_a_text_with_one_line_in_json_among_others_stays_a_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('a = {"b": 1}\n{"b": 1}\n')
    assert words(text(tmp_path, **dict.fromkeys(PARTS, "x")))[-3:] == ['{"b":', "1}", "<eos>"]
