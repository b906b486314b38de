"""Archives of somebody else: what is read of them, and hostile ones."""

import enum
import gzip
import io
import tarfile
import warnings
import zipfile

import pytest

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.lookup.collections.archives import folder_members, gunzipped, tar_members, zip_members

WANTED = r"(?:[^/]+/)?logs/\w+\.json"


class Kind(enum.Enum):
    LINK = tarfile.SYMTYPE
    HARD_LINK = tarfile.LNKTYPE
    DEVICE = tarfile.CHRTYPE
    PIPE = tarfile.FIFOTYPE
    FOLDER = tarfile.DIRTYPE


def tar(entries, compress="gz"):
    """An archive of names and contents; a content may be a kind of entry."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{compress}") as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if not isinstance(content, Kind):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content.value, "/etc/passwd"
                archive.addfile(info)
    return out.getvalue()


def zipped(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            mode = 0o120777 if content is None else 0o100644
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            with warnings.catch_warnings():  # of a name that is there twice
                warnings.simplefilter("ignore")
                archive.writestr(info, b"/etc/passwd" if content is None else content)
    return out.getvalue()


@pytest.mark.parametrize("compress", ["gz", ""])
def test_only_ordinary_files_of_wanted_names(compress):
    content = tar(
        [
            ("top/logs/a.json", b"1"),
            ("top/../../logs/b.json", b"evil"),
            ("/logs/c.json", b"evil"),
            ("top/logs/link.json", Kind.LINK),
            ("top/logs/hard.json", Kind.HARD_LINK),
            ("top/logs/device.json", Kind.DEVICE),
            ("top/logs/pipe.json", Kind.PIPE),
            ("top/logs", Kind.FOLDER),
            ("top/logs/d.json", b"22"),
        ],
        compress,
    )
    assert list(tar_members(content, "it", WANTED, 100)) == [
        ("top/logs/a.json", b"1"),
        ("top/logs/d.json", b"22"),
    ]
    content = zipped([("logs/a.json", b"1"), ("../../logs/b.json", b"evil"), ("logs/link.json", None)])
    assert list(zip_members(content, "it", WANTED, 100)) == [("logs/a.json", b"1")]


def test_bombs_and_twins():
    bomb = bytes(10_000)
    for read, content in (
        (tar_members, tar([("logs/a.json", bomb)])),
        (zip_members, zipped([("logs/a.json", bomb)])),
    ):
        with pytest.raises(InputError, match=r"it: .*larger than 9,999 bytes"):
            list(read(content, "it", WANTED, 9_999))
        assert len(list(read(content, "it", WANTED, 10_000))) == 1
    with pytest.raises(InputError, match="it: its content is larger"):  # what is skipped counts, too
        list(tar_members(tar([("other", bomb), ("logs/a.json", b"1")]), "it", WANTED, 9_999))
    with pytest.raises(InputError, match=r"it: .*larger than 9,999 bytes"):
        gunzipped(gzip.compress(bomb), "it", 9_999)
    for read, content in (
        (tar_members, tar([("logs/a.json", b"1")] * 2)),
        (zip_members, zipped([("logs/a.json", b"1"), ("logs/a.json", b"2")])),
    ):
        with pytest.raises(InputError, match=r"it: 'logs/a\.json' is there twice"):
            list(read(content, "it", WANTED, 100))


def test_a_zip_that_lies_about_its_sizes():
    content = zipped([("logs/a.json", bytes(10_000))])
    lied = content.replace((10_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(InputError, match="it: "):
        list(zip_members(lied, "it", WANTED, 100))


@pytest.mark.parametrize("read", [tar_members, zip_members])
@pytest.mark.parametrize("content", [b"", b"no archive", gzip.compress(b"no archive", mtime=0)])
def test_another_format_is_one_line(read, content):
    with pytest.raises(InputError, match=r"^it: not a (tar|ZIP) archive that can be read \(.*\)\.$"):
        list(read(content, "it", WANTED, 100))


@pytest.mark.parametrize("make", [tar, zipped])
def test_a_cut_archive_is_one_line_or_what_is_whole(make):
    content = make([(f"logs/a{i}.json", bytes(range(256)) * 20) for i in range(4)])
    read = tar_members if make is tar else zip_members
    for end in range(0, len(content), 97):
        try:
            assert all(
                found == bytes(range(256)) * 20 for _, found in read(content[:end], "it", WANTED, 10**6)
            )
        except InputError as error:
            assert str(error).startswith("it: ") and "\n" not in str(error)


def test_a_folder_is_read_without_following_links(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.json").write_bytes(b"1")
    (tmp_path / "secret.json").write_bytes(b"secret")
    (tmp_path / "logs" / "b.json").symlink_to(tmp_path / "secret.json")
    assert list(folder_members(tmp_path, WANTED, 100)) == [("logs/a.json", b"1")]
