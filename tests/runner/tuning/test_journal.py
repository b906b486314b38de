"""Journals of tuning runs: what has finished, and which method a folder's run began with."""

import hashlib
import json
import os

import pytest

from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.runner.tuning.journal import Journal, Line, begun_with

SETTINGS = {"lookups": 5, "workers": 2, "updates": (20, 60), "seed": 0}
FIRST = Line(number=1, row=7, worker=0, start=0.0, finish=2.5, checkpoint=2, done=True)
SECOND = Line(
    number=2,
    row=0,
    worker=1,
    start=0.5,
    finish=3.0,
    checkpoint=1,
    done=False,
    points=[(20.0, 2.5, [0.25, None])],
)


def test_the_settings_name_the_journal_in_whatever_order_they_are(tmp_path):
    journal = Journal.of(tmp_path, {"workers": 2, "lookups": 5})
    digest = hashlib.sha256(b'{"lookups": 5, "workers": 2}').hexdigest()
    assert journal.path == tmp_path / f"tuning-{digest[:12]}.jsonl"
    assert Journal.of(tmp_path, {"lookups": 5, "workers": 2}).path == journal.path


def test_lines_are_read_in_their_order_and_a_torn_one_is_removed(tmp_path):
    journal = Journal.of(tmp_path, SETTINGS)
    assert journal.read() == []
    journal.append(FIRST)
    journal.append(SECOND)
    whole = journal.path.read_bytes()
    head, *lines = whole.splitlines()
    assert json.loads(head) == {"tuning": 1, **SETTINGS, "updates": [20, 60]} and len(lines) == 2
    assert json.loads(lines[1])["points"] == [[20.0, 2.5, [0.25, None]]]
    assert journal.read() == [FIRST, SECOND] and journal.path.read_bytes() == whole
    journal.path.write_bytes(whole + b'{"number": 3, "row"')
    assert journal.read() == [FIRST, SECOND] and journal.path.read_bytes() == whole
    journal.path.write_bytes(whole[:10])  # a run that was killed in the first line
    assert journal.read() == [] and journal.path.read_bytes() == b""
    journal.append(SECOND)
    assert journal.read() == [SECOND]


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (0, '{"tuning": 2}', "line 1: this version starts the journal of these settings with another line"),
        (0, "{", "line 1: not valid JSON"),
        (1, '{"number": 0}', "line 2: number must be a whole number of 1 or more, not 0"),
        (2, "[", "line 3: not valid JSON"),
    ],
)
def test_a_line_that_is_damaged_is_named(number, line, message, tmp_path):
    journal = Journal.of(tmp_path, SETTINGS)
    journal.append(FIRST)
    journal.append(SECOND)
    lines = journal.path.read_text().splitlines()
    lines[number] = line
    journal.path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=f"{journal.path.name}, {message}"):
        journal.read()


def test_a_journal_is_neither_read_nor_written_through_a_link(tmp_path):
    journal = Journal.of(tmp_path, SETTINGS)
    journal.path.symlink_to(tmp_path / "elsewhere")
    for use in (journal.read, lambda: journal.append(FIRST)):
        with pytest.raises(InputError, match="is a symbolic link"):
            use()
    assert not (tmp_path / "elsewhere").exists()


def test_one_run_of_the_same_settings_at_a_time(tmp_path):
    journal, other = Journal.of(tmp_path, SETTINGS), Journal.of(tmp_path, SETTINGS | {"seed": 1})
    with journal.held():
        with pytest.raises(InputError, match=r"another run with the same settings .* use another --seed"):
            journal.held().__enter__()
        with other.held():
            pass
        assert {path.name for path in tmp_path.glob("*.lock")} >= {f"{journal.path.name}.lock"}
    with journal.held():
        pass


def test_a_journal_that_cannot_be_written_is_named(tmp_path):
    journal = Journal.of(tmp_path / "none", SETTINGS)
    with pytest.raises(RunError, match=f"{journal.path.name}: cannot be written: No such file"):
        journal.append(FIRST)


def test_a_run_is_found_by_its_method_and_the_settings_that_are_known(tmp_path):
    settings = {"method": "BO_EI_M_std", "fingerprint": "x", "metrics": ["a"], **SETTINGS}
    journal = Journal.of(tmp_path, settings)
    journal.path.write_text(json.dumps({"tuning": 1, **journal.settings}) + "\n")
    assert begun_with(tmp_path, "BO_EI_M_std", SETTINGS)
    assert not begun_with(tmp_path, "ASHA", SETTINGS)
    for key, other in {"lookups": 6, "workers": 1, "updates": None, "seed": 1}.items():
        assert not begun_with(tmp_path, "BO_EI_M_std", SETTINGS | {key: other})
    assert not begun_with(tmp_path / "none", "BO_EI_M_std", SETTINGS)


def test_a_long_journal_is_searched_as_well(tmp_path):
    path = tmp_path / "tuning-1.jsonl"
    path.write_text(json.dumps({"tuning": 1, "method": "ASHA", **SETTINGS}) + "\n")
    path.write_bytes(path.read_bytes() + b'{"number": 1}\n')  # the first line alone is read
    os.truncate(path, 2**26 + 1)  # a sparse file
    (tmp_path / "tuning-0.jsonl").touch()
    assert begun_with(tmp_path, "ASHA", SETTINGS)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"tuning-1\.jsonl: is a symbolic link"):
        begun_with(tmp_path, "ASHA", SETTINGS)


@pytest.mark.parametrize("content", ["", "[]\n", "1\n"])
def test_a_journal_without_settings_is_none(content, tmp_path):
    (tmp_path / "tuning-0.jsonl").write_text(content)
    assert not begun_with(tmp_path, "BO_EI_M_std", SETTINGS)


def test_a_damaged_journal_is_named(tmp_path):
    (tmp_path / "tuning-0.jsonl").write_text("{\n")
    with pytest.raises(InputError, match="line 1"):
        begun_with(tmp_path, "BO_EI_M_std", SETTINGS)
