import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.runner.corpora import ParallelCorpus, TextCorpus, load_corpus
from hpobench_nmt.runner.corpora.corpus import read_prepared, write_prepared

TEXT = {"name": "text", "train": "train.txt", "dev": "dev.txt", "test": "test.txt"}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.txt").write_text(f"one line of {part}\n" * 50)
    return tmp_path


@given(
    st.lists(st.text(), min_size=1, max_size=300, unique=True),
    st.lists(st.integers(0, 299), max_size=50),
    st.sampled_from(["word", "character"]),
)
def test_a_text_corpus_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, vocabulary: list[str], numbers: list[int], unit: Any
) -> None:
    stream = np.array([n % len(vocabulary) for n in numbers], np.int64)
    before = TextCorpus("c", unit, tuple(vocabulary), stream, stream[:3], stream[3:], {"source": "é"})
    path = tmp_path_factory.mktemp("c") / "c.npz"
    write_prepared(before, path)
    after = read_prepared(path)
    assert isinstance(after, TextCorpus)
    assert (after.name, after.unit, after.vocabulary) == ("c", unit, tuple(vocabulary))
    for part in ("train", "dev", "test"):
        np.testing.assert_array_equal(getattr(after, part), getattr(before, part))
        assert getattr(after, part).dtype == np.int64
        assert getattr(after, part).flags.writeable  # torch warns of arrays that are not
    assert after.provenance["source"] == "é"


LINES = st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8")), min_size=1, max_size=5)


@given(LINES, LINES, LINES)
def test_a_parallel_corpus_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, train: list[str], dev: list[str], test: list[str]
) -> None:
    parts = [(tuple(lines), tuple(f"{line}!" for line in lines)) for lines in (train, dev, test)]
    path = tmp_path_factory.mktemp("c") / "c.npz"
    write_prepared(ParallelCorpus("c", "de", "en", *parts, {}), path)
    after = read_prepared(path)
    assert isinstance(after, ParallelCorpus)
    assert [after.train, after.dev, after.test] == parts
    assert (after.source, after.target) == ("de", "en")


def test_parts_and_sides_that_are_the_same_text_are_told(tmp_path: Path) -> None:
    one, other, third = np.arange(5), np.arange(6), np.arange(1, 6)
    lines, others, thirds = (("a", "A"), ("b", "B"), ("c", "c"))

    def caution(corpus: TextCorpus | ParallelCorpus) -> str:
        write_prepared(corpus, tmp_path / "c.npz")
        return read_prepared(tmp_path / "c.npz").provenance.get("caution", "")

    def text(*parts: Any) -> TextCorpus:
        return TextCorpus("c", "word", tuple("abcdef"), *parts, {})

    def parallel(*parts: Any) -> ParallelCorpus:
        return ParallelCorpus("c", "de", "en", *(((a,), (b,)) for a, b in parts), {})

    assert caution(text(one, other, third)) == ""
    assert caution(text(one, other, one)) == "train and test: the same text"
    assert caution(text(one, one, one)) == "train and dev, train and test, dev and test: the same text"
    assert caution(parallel(lines, others, ("c", "C"))) == ""
    assert caution(parallel(lines, others, others)) == "dev and test: the same text"
    assert caution(parallel(lines, others, thirds)) == "the two sides of test: the same text"


def test_the_hash_is_of_the_data_and_its_parts(tmp_path: Path) -> None:
    def digest(words: tuple[str, ...], *parts: list[int], about: str = "") -> str:
        streams = [np.array(part, np.int64) for part in parts]
        write_prepared(TextCorpus("c", "word", words, *streams, {"version": about}), tmp_path / "c.npz")
        return read_prepared(tmp_path / "c.npz").provenance["sha256"]

    plain = digest(("a", "b"), [0, 1, 1], [1, 1], [0, 0])
    assert plain == digest(("a", "b"), [0, 1, 1], [1, 1], [0, 0], about="2")
    others = [
        digest(("a", "c"), [0, 1, 1], [1, 1], [0, 0]),
        digest(("a", "b"), [0, 0, 1], [1, 1], [0, 0]),
        digest(("a", "b"), [0, 1], [1, 1, 1], [0, 0]),
    ]
    assert len({plain, *others}) == 4


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(base: Path) -> None:
    first = load_corpus(TEXT, base, base / "cache")
    prepared = list((base / "cache" / "corpora").glob("*.npz"))
    written = prepared[0].stat().st_mtime_ns
    same = load_corpus(dict(reversed(TEXT.items())), base, base / "cache")
    assert same.provenance == first.provenance
    assert prepared[0].stat().st_mtime_ns == written
    (base / "dev.txt").write_text("two line of dev\n" * 50)  # of the same size
    second = load_corpus(TEXT, base, base / "cache")
    assert second.provenance["sha256"] != first.provenance["sha256"]
    shorter = load_corpus({**TEXT, "dev_tokens": 5}, base, base / "cache")
    assert len(shorter.dev) == 5


SCRIPT = """
import json, sys, time
from pathlib import Path
from hpobench_nmt.runner.corpora import load_corpus
import hpobench_nmt.runner.corpora.load as module

original = module.write_prepared
def slow_save(*arguments):
    with open(sys.argv[3], "a") as file:
        file.write("prepared\\n")
    time.sleep(0.5)
    original(*arguments)
module.write_prepared = slow_save

while not Path(sys.argv[4]).exists():
    time.sleep(0.005)
corpus = load_corpus(json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[2]) / "cache")
print(corpus.provenance["sha256"], len(corpus.train))
"""


def test_processes_that_ask_at_once_prepare_it_once(base: Path) -> None:
    arguments = [sys.executable, "-c", SCRIPT, json.dumps(TEXT), base, base / "log", base / "go"]
    processes = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    (base / "go").touch()
    answers = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(answers) == 1
    assert (base / "log").read_text() == "prepared\n"


def test_a_killed_preparation_is_done_again(base: Path) -> None:
    arguments = [sys.executable, "-c", SCRIPT, json.dumps(TEXT), base, base / "log", base / "go"]
    (base / "go").touch()
    process = subprocess.Popen(arguments)
    while not (base / "log").exists():
        assert process.poll() is None
    process.kill()
    process.wait()
    assert not list(base.rglob("*.npz"))
    assert len(load_corpus(TEXT, base, base / "cache").train) == 250


FULL = """
import resource, sys, json
from pathlib import Path
from hpobench_nmt.runner.corpora import load_corpus
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    load_corpus(json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[2]) / "cache")
except Exception as error:
    print(type(error).__name__, error)
"""


def test_no_room_for_the_prepared_corpus(base: Path) -> None:
    """Files may grow to 1000 bytes: what a full disk does, without one."""
    arguments = [sys.executable, "-c", FULL, json.dumps(TEXT), base]
    answer = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert answer.startswith("RunError cannot keep the prepared corpus in")
    assert len(answer.splitlines()) == 1
    assert not [path for path in (base / "cache" / "corpora").iterdir() if path.stat().st_size]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written(base: Path) -> None:
    (base / "cache").mkdir(mode=0o500)
    with pytest.raises(RunError, match="cannot keep the prepared corpus"):
        load_corpus(TEXT, base, base / "cache")


def test_a_cache_that_is_a_file(base: Path) -> None:
    (base / "cache").touch()
    with pytest.raises(RunError, match="cannot keep the prepared corpus"):
        load_corpus(TEXT, base, base / "cache")


def test_a_changed_byte_of_prepared_lines_is_noticed(tmp_path: Path) -> None:
    x, y, z = (tuple(tuple(f"{part} {side} {i}" for i in range(50)) for side in "ab") for part in "xyz")
    write_prepared(ParallelCorpus("c", "de", "en", x, y, z, {}), tmp_path / "c.npz")
    whole = (tmp_path / "c.npz").read_bytes()
    for part, side in itertools.product(b"xyz", b"ab"):
        place = whole.index(bytes([part]) + b" " + bytes([side]) + b" 49")
        (tmp_path / "c.npz").write_bytes(whole[:place] + b"w" + whole[place + 1 :])
        with pytest.raises(InputError, match=r"is damaged \(Bad CRC-32"):
            read_prepared(tmp_path / "c.npz")


@pytest.mark.parametrize("keep", [0, 10, 500])
def test_a_damaged_prepared_file(base: Path, keep: int) -> None:
    load_corpus(TEXT, base, base / "cache")
    [path] = (base / "cache" / "corpora").glob("*.npz")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="is damaged"):
        load_corpus(TEXT, base, base / "cache")
    path.unlink()
    load_corpus(TEXT, base, base / "cache")
