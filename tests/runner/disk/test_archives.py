"""Archives of tensors from elsewhere: what asks for more than it holds is refused before it is read."""

import struct
import zipfile

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.disk.archives import load_arrays, read_archive


def never(path):
    raise AssertionError("it was read")


@pytest.fixture
def arrays(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(5000), b=np.arange(10_000))
    return path


def test_an_honest_archive_is_read(arrays):
    assert read_archive(arrays, load_arrays)["b"][-1] == 9999


def overlapping(content):
    """The archive with an entry "c.npy" of the bytes of "b.npy"."""
    end = content.rindex(b"PK\x05\x06")
    count, size, start = struct.unpack("<HII", content[end + 10 : end + 20])
    entries = content[start : start + size]
    second = entries[entries.index(b"PK\x01\x02", 4) :].replace(b"b.npy", b"c.npy")
    closed = struct.pack(
        "<4sHHHHIIH", b"PK\x05\x06", 0, 0, count + 1, count + 1, size + len(second), start, 0
    )
    return content[:end] + second + closed


def test_entries_that_share_bytes_are_refused(arrays):
    """A thousand of them would make gigabytes of a file of megabytes, without compression."""
    arrays.write_bytes(overlapping(arrays.read_bytes()))
    assert len(zipfile.ZipFile(arrays).infolist()) == 3
    with pytest.raises(InputError, match=r"a.npz: cannot be used: its entries overlap"):
        read_archive(arrays, never)


def test_two_entries_of_one_name_are_refused(arrays):
    arrays.write_bytes(overlapping(arrays.read_bytes()).replace(b"c.npy", b"b.npy"))
    with pytest.raises(InputError, match="two entries have the same name"):
        read_archive(arrays, never)


def test_a_compressed_archive_is_refused(arrays):
    np.savez_compressed(arrays, a=np.zeros(10**6))
    with pytest.raises(InputError, match="it is compressed"):
        read_archive(arrays, never)
