"""Hashes of a ledger's lines: whatever changes a record is noticed, and old ledgers are read and resumed."""

import hashlib
import json
import random

import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import LEDGER
from hpobench_nmt.runner.ledgers.ledger import Reader, Record, append, open_ledger, read_ledger, split

OLD = [
    b'{"ledger":1,"spec":{"name":"t"},"corpus":{"sha256":"ab"}}',
    b'{"config":{"a":1},"replicate":0,"seed":7,"status":"done","metrics":{"ppl":1.5}}',
    b'{"config":{"a":2},"replicate":0,"seed":8,"status":"done","metrics":{"ppl":2.5}}',
]


def record(number):
    return Record({"a": number}, 0, 7, "done", metrics={"ppl": 1.25 * number}, seconds=3.5)


@pytest.fixture
def new(tmp_path):
    open_ledger(tmp_path / LEDGER, {"name": "t"}, {"sha256": "ab"})
    for number in range(3):
        append(tmp_path / LEDGER, record(number))
    return tmp_path / LEDGER


@pytest.fixture
def resumed(tmp_path):
    """A ledger of an earlier version, to which this one has appended."""
    path = tmp_path / LEDGER
    path.write_bytes(b"".join(line + b"\n" for line in OLD))
    assert len(open_ledger(path, {"name": "t"}, {"sha256": "ab"}).records) == 2
    append(path, record(3))
    append(path, record(4))
    return path


def test_each_hash_is_that_of_the_hash_before_and_the_line(new):
    head = hashlib.sha256().hexdigest()
    for line in new.read_bytes().splitlines():
        entry = json.loads(line)
        body = line[: line.rindex(b',"chain":')]
        head = hashlib.sha256(head.encode() + body).hexdigest()
        assert entry["chain"] == head
    assert read_ledger(new).head == head


def test_the_first_hash_in_an_old_ledger_covers_all_before_it(resumed):
    lines = resumed.read_bytes().splitlines()
    assert lines[:3] == OLD
    before = hashlib.sha256(b"".join(line + b"\n" for line in OLD)).hexdigest()
    body = lines[3][: lines[3].rindex(b',"chain":')]
    assert json.loads(lines[3])["chain"] == hashlib.sha256(before.encode() + body).hexdigest()
    assert read_ledger(resumed).uncovered == 0
    assert len(read_ledger(resumed).records) == 4


def test_an_old_ledger_is_read_and_its_lines_are_counted(tmp_path):
    path = tmp_path / LEDGER
    path.write_bytes(b"".join(line + b"\n" for line in OLD))
    ledger = read_ledger(path)
    assert (ledger.uncovered, ledger.head) == (3, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize("kind", ["new", "resumed"])
def test_a_byte_that_changes_anywhere_is_noticed(kind, request):
    path = request.getfixturevalue(kind)
    whole = path.read_bytes()
    draw = random.Random(0)
    for place in range(len(whole)):
        for value in {whole[place] ^ 1, draw.choice(b'\n"{9'), draw.randrange(256)} - {whole[place]}:
            with pytest.raises(InputError):
                Reader.of(whole[:place] + bytes([value]) + whole[place + 1 :], path)
    Reader.of(whole, path)


@pytest.mark.parametrize("kind", ["new", "resumed"])
def test_a_line_that_was_removed_moved_or_doubled_is_noticed(kind, request):
    path = request.getfixturevalue(kind)
    lines = path.read_bytes().splitlines(keepends=True)
    for i in range(1, len(lines) - 1):
        for changed in (
            lines[:i] + lines[i + 1 :],
            [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]],
            lines[: i + 1] + lines[i:],
        ):
            path.write_bytes(b"".join(changed))
            with pytest.raises(InputError, match="a line was changed, removed or added here"):
                read_ledger(path)


def test_a_lines_parts(new):
    line = new.read_bytes().splitlines()[-1]
    mark = line.rindex(b',"chain":')
    assert split(line) == (line[:mark], json.loads(line)["chain"])
    assert split(b' {"a":1} \r') == (b' {"a":1', "")  # an earlier version's, edited by hand


def test_a_line_end_that_changed_costs_no_training(new):
    """Such a line is not one that was cut short: it would be set aside and trained again."""
    whole = new.read_bytes()
    new.write_bytes(whole[:-1] + b"x")
    for read in (read_ledger, lambda path: append(path, record(5))):
        with pytest.raises(InputError, match="its last line does not end where it should"):
            read(new)
    assert new.read_bytes() == whole[:-1] + b"x"
