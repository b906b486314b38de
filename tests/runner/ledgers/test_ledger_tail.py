"""One training's record in a growing ledger: what `read_ledger` says, whatever happened to the file."""

import json

import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import LEDGER
from hpobench_nmt.runner.ledgers import ledger_tail
from hpobench_nmt.runner.ledgers.ledger import Record, append, open_ledger, read_ledger, training_key
from hpobench_nmt.runner.ledgers.ledger_tail import recorded


def record(number, value=1.0):
    return Record({"a": number}, 0, 7, "done", metrics={"ppl": value})


@pytest.fixture
def path(tmp_path):
    open_ledger(tmp_path / LEDGER, {"name": "t"}, {"sha256": "ab"})
    return tmp_path / LEDGER


@pytest.fixture
def old(tmp_path):
    """A ledger of an earlier version, without hashes."""
    (tmp_path / LEDGER).write_text('{"ledger":1,"spec":{"name":"t"},"corpus":{"sha256":"ab"}}\n')
    return tmp_path / LEDGER


def old_line(number, value=1.0):
    entry = {"config": {"a": number}, "replicate": 0, "seed": 7, "status": "done", "metrics": {"ppl": value}}
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def agrees(path):
    """Whether every training is found as `read_ledger` finds it."""
    finished = {record.key: record for record in read_ledger(path).records}
    return all(recorded(path, key := training_key({"a": n}, 0)) == finished.get(key) for n in range(8))


def test_what_is_appended_is_found_and_only_that_is_read(path, monkeypatch):
    assert agrees(path)
    contents = []
    reader, before = ledger_tail._tails[path]._reader, path.read_bytes()
    read = reader.read
    monkeypatch.setattr(reader, "read", lambda content: contents.append(content) or read(content))
    monkeypatch.setattr(ledger_tail, "read_content", lambda path: pytest.fail("the whole file is read"))
    for number in range(5):
        append(path, record(number))
        assert agrees(path)
    append(path, record(2, 9.0))  # the first one counts
    assert agrees(path)
    assert recorded(path, training_key({"a": 2}, 0)).metrics == {"ppl": 1.0}
    assert before + b"".join(contents) == path.read_bytes()


def test_a_line_without_an_end_is_no_record_yet(old):
    path = old
    line = json.dumps({"config": {"a": 3}, "replicate": 0, "seed": 1, "status": "done"}).encode() + b"\n"
    assert agrees(path)
    for cut in (10, len(line) - 1):
        whole = path.read_bytes()
        path.write_bytes(whole + line[:cut])
        assert recorded(path, training_key({"a": 3}, 0)) is None
        path.write_bytes(whole)
    with path.open("ab") as file:
        file.write(line)
    assert recorded(path, training_key({"a": 3}, 0)) is not None


@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_a_line_that_was_removed_or_changed_is_noticed(old, how):
    path = old
    with path.open("ab") as file:
        file.writelines(map(old_line, range(4)))
    assert agrees(path)
    head, *lines = path.read_bytes().splitlines(keepends=True)
    for changed in (
        [head, *lines[1:]],
        [head, *lines[1:], lines[1].replace(b'"a":1', b'"a":6'), lines[1].replace(b'"a":1', b'"a":7')],
        [head],
    ):
        if how == "replaced":
            path.with_name("new").write_bytes(b"".join(changed))
            path.with_name("new").replace(path)
        else:
            path.write_bytes(b"".join(changed))
        assert agrees(path)


def test_errors_are_those_of_the_whole_file_and_pass(path):
    append(path, record(1))
    assert agrees(path)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"{{{\n")
    for _ in range(2):
        with pytest.raises(InputError, match="line 3: not valid JSON"):
            recorded(path, training_key({"a": 1}, 0))
    path.with_name("other").write_bytes(whole + b"{{{\n")  # read for the first time
    with pytest.raises(InputError, match="other, line 3: not valid JSON"):
        recorded(path.with_name("other"), training_key({"a": 1}, 0))
    path.write_bytes(whole)
    assert agrees(path)
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        recorded(path, training_key({"a": 1}, 0))


def test_hashes_are_followed_as_lines_are_appended_to_an_old_ledger_or_a_new_one(path):
    new, old = path, path.with_name("old.jsonl")
    old.write_bytes(b'{"ledger":1,"spec":{"name":"t"},"corpus":{"sha256":"ab"}}\n' + old_line(1))
    for each in (new, old):
        assert recorded(each, training_key({"a": 5}, 0)) is None
        append(each, record(5))
        append(each, record(6))
        assert recorded(each, training_key({"a": 6}, 0)).metrics == {"ppl": 1.0}
        with each.open("ab") as file:
            file.write(old_line(7))
        with pytest.raises(InputError, match="has no hash, although the line before it has one"):
            recorded(each, training_key({"a": 7}, 0))
