"""Files that several processes need are made once, and a killed maker leaves nothing behind."""

import subprocess
import sys
import time

import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.locks import make_once

_MAKER = """
import sys, time
from pathlib import Path
from hpobench_nmt.runner.locks import make_once

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
