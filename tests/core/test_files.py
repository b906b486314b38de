"""Files are written whole or not at all, and names are checked."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from killed_writers import killed, names

from hpobench_nmt.core.system import files
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.files import (
    check_column,
    check_name,
    locked_folder,
    no_folder,
    save_file,
    sole_writer,
    write_whole,
)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "new" / "newer" / "f"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(path.parent) == ["f"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_links_are_followed_where_the_user_names_a_file_and_make_no_folders_elsewhere(tmp_path):
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    save_file(tmp_path / "link", b"text")
    assert (tmp_path / "link").is_symlink()
    write_whole(tmp_path / "link", b"other")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"text"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at" / "all")
    with pytest.raises(RunError, match="dangling: cannot be written"):
        save_file(tmp_path / "dangling", b"text")
    with pytest.raises(RunError, match="dangling: cannot be written"), sole_writer(tmp_path / "dangling"):
        pass
    assert names(tmp_path) == ["dangling", "link", "target"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(TypeError):
        write_whole(tmp_path / "f", "text")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert names(tmp_path) == ["f"]


def test_ctrl_c_just_after_a_file_is_in_its_place_is_passed_on(tmp_path, monkeypatch):
    def stopped(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "sync_folder", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "f", b"new")
    assert names(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b"new"


def test_what_a_killed_writer_left_goes_with_the_next_file(tmp_path):
    write_whole(tmp_path / "f", b"old")
    killed("os.fsync = die\nfiles.write_whole(folder / 'f', b'new' * 1000)", tmp_path)
    assert len(names(tmp_path)) == 2 and names(tmp_path)[0].startswith(".f.")
    assert (tmp_path / "f").read_bytes() == b"old"
    write_whole(tmp_path / "other", b"")
    assert names(tmp_path) == ["f", "other"]


def test_one_process_at_a_time_is_in_a_block_for_a_folder(tmp_path):
    order = []

    def second():
        with locked_folder(tmp_path, lambda: order.append("waits")):
            order.append("second")

    with locked_folder(tmp_path, lambda: pytest.fail("it waits")):
        waiting = Thread(target=second)
        waiting.start()
        deadline = time.monotonic() + 30
        while not order and time.monotonic() < deadline:
            time.sleep(0.01)
        order.append("first")
    waiting.join(30)
    assert order == ["waits", "first", "second"]
    for other in (tmp_path, tmp_path / "none"):
        with locked_folder(other, lambda: pytest.fail("it waits")):
            pass


def test_why_a_path_is_no_folder(tmp_path):
    (tmp_path / "f").touch()
    assert no_folder(tmp_path / "f") == "a file, not a folder"
    assert no_folder(tmp_path / "g") == no_folder(tmp_path / ("x" * 5000)) == "no such folder"


@pytest.mark.parametrize("name", ["a", "BO_EI_M", "a.b+c-d", "9", "x" * 100, "CON1", "console"])
def test_names_that_can_be_files_everywhere(name):
    assert check_name("table", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "a/b",
        "a\\b",
        "a.",
        "a b",
        "x" * 101,
        "CON",
        "nul.txt",
        "COM1",
        "a\n",
        "é",
        None,
        3,
    ],
)
def test_names_that_cannot(name):
    with pytest.raises(InputError, match=r"table name .* cannot be used"):
        check_name("table", name)


@pytest.mark.parametrize(
    ("name", "unit", "message"),
    [
        ("", "", "a metric has an empty name."),
        ("bleu ", "", "metric 'bleu ' begins or ends with a space: remove it."),
        ("bleu", "\x07", r"the unit of metric 'bleu', '\x07' contains the character \x07: remove it."),
        (
            "bleu",
            "s" * 201,
            f"the unit of metric 'bleu', '{'s' * 100}'… has 201 characters; at most 200 are allowed.",
        ),
    ],
)
def test_a_column_that_cannot_be_shown_is_refused(name, unit, message):
    with pytest.raises(InputError) as error:
        check_column("metric", name, unit)
    assert str(error.value) == message
    check_column("metric", "bleu", "")
    check_column("metric", "x" * 200, "y" * 200)
    with pytest.raises(InputError, match=r"^the name of a metric must be a text, not 3\.$"):
        check_column("metric", 3, "")
