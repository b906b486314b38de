"""Corpora as values, and their prepared form on disk."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.lines import Bytes, Lines
from hpobench_nmt.runner.family import Unit

PARTS = ("train", "dev", "test")


@dataclass(frozen=True, eq=False)
class TextCorpus:
    """A corpus for language models.

    Attributes:
        vocabulary: the token of each number.
        train, dev, test: token numbers, one stream each, shape (T,).
        provenance: source, version, licence, sha256 of the data, and sizes.
    """

    name: str
    unit: Unit
    vocabulary: tuple[str, ...]
    train: Ints
    dev: Ints
    test: Ints
    provenance: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """A corpus for translation models.

    Attributes:
        source, target: language codes.
        train, dev, test: source lines and target lines, the same number of each. Each line is tokenised, with
            single spaces between its tokens.
        provenance: source, version, licence, sha256 of the data, and sizes.
    """

    name: str
    source: str
    target: str
    train: tuple[Lines, Lines]
    dev: tuple[Lines, Lines]
    test: tuple[Lines, Lines]
    provenance: Mapping[str, str]


Corpus = TextCorpus | ParallelCorpus

_NAME_LENGTH = 26  # offset in a zip member's header of the length of its name, then of its extra field
_LONGEST_HEAD = 4096


def fingerprint(arrays: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> str:
    """The sha256 of a corpus: of its words or languages, and of each array with its name and length."""
    digest = hashlib.sha256(json.dumps(names).encode())
    for name, array in arrays.items():
        digest.update(f"{name} {len(array)}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def same_texts(corpus: Corpus) -> str:
    """A sentence that names parts or sides of a corpus with the same text; "" if all differ."""
    parts = {part: getattr(corpus, part) for part in PARTS}
    if isinstance(corpus, TextCorpus):
        same = [f"{a} and {b}" for a, b in combinations(PARTS, 2) if np.array_equal(parts[a], parts[b])]
    else:
        same = [f"{a} and {b}" for a, b in combinations(PARTS, 2) if parts[a] == parts[b]]
        same += [f"the two sides of {part}" for part, (source, target) in parts.items() if source == target]
    return f"{', '.join(same)}: the same text" if same else ""


def write_prepared(corpus: Corpus, path: Path) -> None:
    """Write a corpus to one npz file, with its sha256 and a caution on equal texts in the provenance."""
    if isinstance(corpus, TextCorpus):
        # One or two bytes per token are enough for most corpora, and quicker to read than eight.
        small = np.min_scalar_type(len(corpus.vocabulary))
        # Any, because a type checker assumes that a keyword of savez may be its allow_pickle.
        arrays: dict[str, Any] = {part: getattr(corpus, part).astype(small) for part in PARTS}
        names = corpus.vocabulary
        about: dict[str, Any] = {"name": corpus.name, "unit": corpus.unit, "vocabulary": names}
    else:
        arrays = {f"{p}_{side}": Lines.of(getattr(corpus, p)[side]).data for p in PARTS for side in (0, 1)}
        names = (corpus.source, corpus.target)
        about = {"name": corpus.name, "source": corpus.source, "target": corpus.target}
    about["provenance"] = {**corpus.provenance, "sha256": fingerprint(arrays, names)}
    if same := same_texts(corpus):
        about["provenance"]["caution"] = same
    with path.open("wb") as file:
        np.savez(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)


def read_prepared(path: Path) -> Corpus:
    """The corpus that `write_prepared` wrote. Raises InputError for a damaged file.

    Lines of text stay in the file, so that all processes share their memory.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            if "unit" in about:
                about["vocabulary"] = tuple(about["vocabulary"])
                return TextCorpus(**about, **{p: arrays[p].astype(np.int64, casting="safe") for p in PARTS})
            train, dev, test = ((_lines(path, f"{p}_0"), _lines(path, f"{p}_1")) for p in PARTS)
            return ParallelCorpus(**about, train=train, dev=dev, test=test)
    except Exception as error:  # numpy and zipfile raise many kinds for a damaged file
        raise InputError(f"{path} is damaged ({error}). Remove it; it will be prepared again.") from error


def _lines(path: Path, name: str) -> Lines:
    """The lines of an array of an npz file, memory-mapped. Raises BadZipFile if its checksum is wrong."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        member = archive.getinfo(f"{name}.npy")
        file.seek(member.header_offset + _NAME_LENGTH)
        after = int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little")
        start = member.header_offset + _NAME_LENGTH + 4 + after
    held = np.memmap(path, np.uint8, "r", start, (member.file_size,))
    if zlib.crc32(held.data) != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file '{name}.npy'")
    head = io.BytesIO(held[:_LONGEST_HEAD].tobytes())
    np.lib.format.read_magic(head)
    np.lib.format.read_array_header_1_0(head)
    data: Bytes = held[head.tell() :]
    return Lines(data)
