"""Files from elsewhere: by their size and not by their limit, and only regular ones."""

import os
import tracemalloc

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import parse_json, read_bytes, read_toml
from hpobench_nmt.core.system.folders import remove_folder


@pytest.mark.parametrize("limit", [2**30, 2**32])
def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path, limit):
    (tmp_path / "small.csv").write_bytes(b"a,b\n1,2\n")
    tracemalloc.start()
    try:
        assert read_bytes(tmp_path / "small.csv", limit) == b"a,b\n1,2\n"
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="larger than 4,294,967,296 bytes"):
            read_bytes(path, 2**32)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()
    for size in (9, 10, 11):
        path.write_bytes(b"x" * size)
        if size > 10:
            with pytest.raises(InputError, match="larger than 10 bytes"):
                read_bytes(path, 10)
        else:
            assert len(read_bytes(path, 10)) == size


def test_a_pipe_or_a_folder_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(InputError, match=r"is not a file|cannot be read"):
            read_bytes(tmp_path / name)


def test_the_key_that_is_there_twice_is_named():
    with pytest.raises(InputError, match=r"^line 3: not valid JSON: the key 'b' occurs twice\.$"):
        parse_json(b'{"a": 1, "b": 2, "b": 3, "c": 4}', "line 3")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=rf"^{tmp_path}/none: cannot be read: No such file or directory\.$"):
        read_bytes(tmp_path / "none")
    with pytest.raises(InputError, match=r"a\\x00b': cannot be the name of a file\.$"):
        read_bytes(tmp_path / "a\0b")
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "link").symlink_to("f")
    assert read_bytes(tmp_path / "link") == b"x" == read_bytes(tmp_path / "f", follow_link=False)
    with pytest.raises(InputError, match=rf"^{tmp_path}/link: is a symbolic link, which is not followed"):
        read_bytes(tmp_path / "link", follow_link=False)


def test_a_folder_is_removed_and_nothing_that_stands_in_its_place(tmp_path):
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    os.mkfifo(tmp_path / "folder" / "inner" / "pipe")
    os.mkfifo(tmp_path / "pipe")  # shutil.rmtree would wait for a writer
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    for name in ("folder", "pipe", "link", "file", "none", "x" * 5000):
        remove_folder(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "pipe", "real"]


@pytest.mark.parametrize(
    "text", ["a." * 3000 + "a = 1", "[" + "a." * 3000 + "a]", "x = {" + "'a' . " * 3000 + "a = 1}"]
)
def test_a_key_of_toml_has_no_thousands_of_parts(tmp_path, text):
    (tmp_path / "k.toml").write_text(text)
    with pytest.raises(InputError, match="a key has more than 1000 parts"):
        read_toml(tmp_path / "k.toml")


def test_long_lists_of_numbers_and_texts_are_no_keys(tmp_path):
    (tmp_path / "k.toml").write_text(f"values = [{'0.5, ' * 5000}]\ntext = '{'a sentence. ' * 900}'\n")
    assert len(read_toml(tmp_path / "k.toml")["values"]) == 5000
    (tmp_path / "k.toml").write_text("a." * 200 + "a = 1")
    assert list(read_toml(tmp_path / "k.toml")) == ["a"]
