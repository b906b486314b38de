"""Archives of somebody else: what is read of them, and hostile ones."""

import enum
import gzip
import io
import tarfile
import threading
import warnings
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hpobench_nmt.core.system.errors import InputError
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
        with pytest.raises(InputError, match=r"it: .*larger than (the )?9,999 bytes"):
            list(read(content, "it", WANTED, 9_999))
        assert len(list(read(content, "it", WANTED, 10_000))) == 1
    with pytest.raises(InputError, match="it: its content is larger"):  # what is skipped counts, too
        list(tar_members(tar([("other", bomb), ("logs/a.json", b"1")]), "it", WANTED, 9_999))
    with pytest.raises(InputError, match=r"it: .*larger than (the )?9,999 bytes"):
        gunzipped(gzip.compress(bomb), "it", 9_999)
    for read, content in (
        (tar_members, tar([("logs/a.json", b"1")] * 2)),
        (zip_members, zipped([("logs/a.json", b"1"), ("logs/a.json", b"2")])),
    ):
        with pytest.raises(InputError, match=r"it: 'logs/a\.json' occurs twice"):
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


class Archive(BaseHTTPRequestHandler):
    content = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *arguments):
        pass


def claiming(size):
    """An archive whose entry claims so many bytes."""
    content = bytearray(tar([("top/logs/a.json", b"1")], ""))
    content[124:136] = b"%011o\0" % size
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    return gzip.compress(bytes(content))


MEMBER = "top/logs/algoperf_scoring_v05/external_tuning/AdamW/study_0/wmt_jax/trial_1/hparams.json"
HOSTILE = {
    "names": [
        (f"../../{MEMBER}", b"{}"),
        (f"/{MEMBER}", b"{}"),
        ("../pwned", b"pwned"),
        ("/pwned", b"pwned"),
    ],
    "kinds": [(MEMBER, kind) for kind in Kind],
    "twins": [(MEMBER, b"{}"), (MEMBER, b"{}")],
    "a page": b"<html>sign in</html>",
    "nothing": b"",
    "size": claiming(8**11 - 1),
    "a bomb": gzip.compress(bytes(2**26)),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_the_command_that_reads_archives_of_the_network(home, run_here, tmp_path, content):
    """`tables fetch algoperf` has no hash of its archive, whose host may compress it anew."""
    Archive.content = tar(content) if isinstance(content, list) else content
    server = ThreadingHTTPServer(("127.0.0.1", 0), Archive)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    before = sorted(tmp_path.rglob("*"))
    try:
        mirror = f"http://127.0.0.1:{server.server_port}/a.tar.gz"
        done = run_here("tables", "fetch", "algoperf", "--from", mirror, check=2)
    finally:
        server.shutdown()
        server.server_close()
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: http://127.0.0.1")
    assert "Traceback" not in line
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/pwned").exists()


def test_the_command_that_reads_compressed_files_of_a_folder(home, run_here, tmp_path):
    from hpobench_nmt.lookup.collections import COLLECTIONS

    copy = tmp_path / "copy"
    copy.mkdir()
    for name in COLLECTIONS["nmthpo"].sha256:
        (copy / f"{name}.gz").write_bytes(gzip.compress(bytes(2**23)))
    done = run_here("tables", "fetch", "nmthpo", "--from", copy, check=2)
    assert "its content is larger than 4,194,304 bytes" in done.stderr
    assert not list(home.rglob("*.csv"))
