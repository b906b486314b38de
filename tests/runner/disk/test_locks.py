"""Files that several processes need are made once, and a killed maker leaves nothing behind."""

import errno
import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system import files
from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.core.system.files import locked_folder, why_no_locks
from hpobench_nmt.runner.disk import locks
from hpobench_nmt.runner.disk.locks import exclusive, is_held, make_once

_MAKER = """
import sys, time
from pathlib import Path
from hpobench_nmt.runner.disk.locks import exclusive, is_held, make_once

def make(path):
    path.mkdir()
    (path / "half").write_text("half of it")
    Path(sys.argv[2]).touch()
    time.sleep(60)

make_once(Path(sys.argv[1]), make)
"""


def test_what_a_killed_maker_left_is_removed(tmp_path):
    cache, begun = tmp_path / "cache", tmp_path / "begun"
    maker = subprocess.Popen([sys.executable, "-c", _MAKER, str(cache / "a"), str(begun)])
    while not begun.exists():
        assert maker.poll() is None
        time.sleep(0.01)
    maker.kill()
    maker.wait()
    assert not (cache / "a").exists()
    make_once(cache / "b", lambda path: path.write_text("whole"))
    assert sorted(path.name for path in cache.iterdir() if path.suffix != ".lock") == ["b"]
    assert make_once(cache / "b", lambda path: path.write_text("again")).read_text() == "whole"


def test_a_maker_that_fails_leaves_nothing(tmp_path):
    def fail(path):
        path.write_text("half of it")
        raise OSError("no room left on the disk")

    with pytest.raises(OSError, match="no room"):
        make_once(tmp_path / "a", fail)
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


_ASKS = """
import sys
from pathlib import Path
from hpobench_nmt.runner.disk.locks import is_held

print("begun", flush=True)
print(sum(is_held(Path(sys.argv[1])) for _ in range(3000)))
"""


def test_who_asks_is_not_inside(tmp_path):
    path = tmp_path / "lock"
    assert not is_held(path)
    with exclusive(path):
        assert is_held(path)
    asking = [
        subprocess.Popen([sys.executable, "-c", _ASKS, path], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [each.communicate()[0] for each in asking] == ["begun\n0\n"] * 2
    assert not is_held(path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_refused_with_advice(tmp_path, monkeypatch, number):
    """But results, whose files are written whole, are written there."""
    with exclusive(tmp_path / "a.lock"):
        pass

    def flock(handle, operation):
        raise OSError(number, os.strerror(number))

    why_no_locks.cache_clear()
    for module in (files, locks):
        monkeypatch.setattr(module.fcntl, "flock", flock)
    advice = (
        r"does not support locks \(.* or mount it with locks \(NFS: .*local_lock=flock; Lustre: -o flock\)\.$"
    )
    for lock in (lambda path: exclusive(path).__enter__(), is_held):
        with pytest.raises(RunError, match=advice) as error:
            lock(tmp_path / "a.lock")
        assert str(tmp_path) in str(error.value)
    with locked_folder(tmp_path, lambda: pytest.fail("it waits")):
        pass
    monkeypatch.undo()
    why_no_locks.cache_clear()
    with exclusive(tmp_path / "a.lock"):
        assert is_held(tmp_path / "a.lock")
