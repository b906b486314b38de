"""Folders are replaced whole, and what a killed process leaves behind is cleaned up."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from killed_writers import killed, names

from hpobench_nmt.core.system import folders
from hpobench_nmt.core.system.folders import _abandoned, remove_leftovers, replace_folder, scratch_folder


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux numbers its boots")
def test_a_machine_that_was_booted_again_is_another_one():
    assert folders._boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text()


def test_what_a_killed_writer_of_a_folder_left_goes_with_the_next_folder(tmp_path):
    killed(
        "with folders.scratch_folder(folder / 't') as w:\n    (w / 'f').write_bytes(b'')\n    die()", tmp_path
    )
    assert len(names(tmp_path)) == 1
    with scratch_folder(tmp_path / "other"):
        pass
    assert names(tmp_path) == []


def test_a_folder_that_was_being_replaced_comes_back(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f").write_bytes(b"old")
    killed(
        "folders._exchange = lambda one, other: False\n"
        "rename = Path.rename\n"
        "Path.rename = lambda path, to: die() if path.name == 'new' else rename(path, to)\n"
        "(folder / 'new').mkdir()\nfolders.replace_folder(folder / 'new', folder / 't')",
        tmp_path,
    )
    assert not (tmp_path / "t").exists()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["new", "t"]
    assert (tmp_path / "t" / "f").read_bytes() == b"old"


def test_a_folder_is_replaced(tmp_path):
    target = tmp_path / "new" / "newer" / "t"
    for content in (b"one", b"two"):
        with scratch_folder(target) as work:
            (work / "f").write_bytes(content)
            replace_folder(work, target)
        assert (target / "f").read_bytes() == content
        assert names(target.parent) == ["t"]


def test_a_folder_that_cannot_be_replaced_stays(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f").write_bytes(b"old")
    ctypes.set_errno(0)  # of an earlier call
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "missing", tmp_path / "t")
    assert (tmp_path / "t" / "f").read_bytes() == b"old"
    assert names(tmp_path) == ["t"]


def test_an_older_folder_does_not_come_back_where_there_is_a_new_one(tmp_path):
    with scratch_folder(tmp_path / "t") as work:
        left = tmp_path / work.name.replace(f".{os.getpid()}.", ".999999999.")
    for folder, content in ((left / "replaced", b"old"), (tmp_path / "t", b"new")):
        folder.mkdir(parents=True)
        (folder / "f").write_bytes(content)
    remove_leftovers(tmp_path)
    assert (tmp_path / "t" / "f").read_bytes() == b"new"
    assert names(tmp_path) == ["t"]


def test_leftovers_are_known_whatever_the_machine_is_called(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "Büro.pc_1 " * 10)
    with scratch_folder(tmp_path / "t.2") as work:
        assert work.name.startswith(f".t.2.{'B-ro-pc-1-' * 4}-")
        assert f".{os.getpid()}." in work.name
        (tmp_path / work.name.replace(f".{os.getpid()}.", ".999999999.")).mkdir()
        remove_leftovers(tmp_path)
        assert names(tmp_path) == [work.name]


GROUP = """
import os, signal, sys
from pathlib import Path
from hpobench_nmt.core.system import files, folders
home, moment = Path(sys.argv[1]), int(sys.argv[2])
steps = 0
def step(*_):
    global steps
    steps += 1
    if steps > moment:
        os.kill(os.getpid(), signal.SIGKILL)
for name in ("rename", "replace"):
    real = getattr(Path, name)
    setattr(Path, name, lambda *a, real=real: (step(), real(*a), step())[1])
exchange, remove = folders._exchange, folders.remove_folder
folders._exchange = lambda *a: sys.argv[3] == "exchange" and (step(), exchange(*a), step())[1]
folders.remove_folder = lambda *a: (step(), remove(*a))[1]
with folders.scratch_folder(home / "group") as work:
    for name in "abc":
        (work / name).mkdir()
        (work / name / "file").write_text("new")
    folders.replace_folders(work)
"""


@pytest.mark.parametrize("how", ["exchange", "two steps"])
def test_a_group_of_folders_is_old_or_new_whenever_its_process_is_killed(tmp_path, how):
    found = []
    for moment in range(40):
        home = tmp_path / str(moment)
        for name in "ab":  # c is new
            (home / name).mkdir(parents=True)
            (home / name / "file").write_text("old")
        done = subprocess.run([sys.executable, "-c", GROUP, str(home), str(moment), how])
        assert done.returncode in (0, -signal.SIGKILL)
        for _ in range(2):  # what is restored first may be moved only then
            remove_leftovers(home)
        found.append({path.parent.name: path.read_text() for path in sorted(home.glob("*/file"))})
        assert found[-1] in ({"a": "old", "b": "old"}, {"a": "new", "b": "new", "c": "new"}), moment
        assert sorted(path.name for path in home.iterdir()) == sorted(found[-1])
        if done.returncode == 0:
            break
    assert done.returncode == 0 and len(found) > 8 and found[0] != found[-1]


def test_only_leftovers_of_processes_that_are_gone_are_removed(tmp_path):
    with scratch_folder(tmp_path / "t") as work:
        # As this process made it, but for the process and the machine.
        mine = work.name
        number = f".{os.getpid()}."
        keep = [
            mine,
            mine.replace(number, ".1."),
            mine.replace(number, ".9999999999."),  # no process can have this number
            mine.replace(".t.", ".t.elsewhere"),
            mine[:-1],
            mine[1:],
            mine.replace(".hpobench-tmp", ""),
            ".f-abcd1234",
            "f",
        ]
        old, link = mine.replace(".t.", ".old.elsewhere"), mine.replace(number, ".999999999.")
        victim = tmp_path / "victim"
        victim.mkdir()
        (victim / "f").write_bytes(b"")
        for name in keep[1:]:
            (tmp_path / name).write_bytes(b"")
        (tmp_path / old).mkdir()
        (tmp_path / link).symlink_to(victim)
        day_ago = time.time() - 25 * 3600
        os.utime(tmp_path / old, (day_ago, day_ago))
        remove_leftovers(tmp_path)
        assert names(tmp_path) == sorted([*keep, "victim"])
        assert (victim / "f").exists()


@pytest.mark.parametrize(("hours", "stays"), [(23.9, True), (24.1, False)])
def test_what_another_machine_left_goes_after_a_day(tmp_path, hours, stays):
    with scratch_folder(tmp_path / "t") as work:
        name = work.name.replace(".t.", ".t.elsewhere")
    (tmp_path / name).mkdir()
    then = time.time() - hours * 3600
    os.utime(tmp_path / name, (then, then))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [name] * stays


def test_a_clock_that_was_set_makes_no_leftover_of_what_is_being_written(tmp_path):
    """A process that lives is asked, whatever the clock shows: its folder may be the table to come."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        with scratch_folder(tmp_path / "t") as work:
            other = tmp_path / work.name.replace(f".{os.getpid()}.", f".{sleeper.pid}.")
            other.mkdir()
            for folder in (work, other):
                os.utime(folder, (0, 0))
            remove_leftovers(tmp_path)
            assert names(tmp_path) == sorted([work.name, other.name])
    finally:
        sleeper.kill()
        sleeper.wait()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_what_another_process_removes_meanwhile_is_no_error(tmp_path, monkeypatch):
    remove_leftovers(tmp_path / "missing")
    with scratch_folder(tmp_path / "t") as work:
        name = work.name.replace(f".{os.getpid()}.", ".999999999.")
    (tmp_path / name).write_bytes(b"")
    with os.scandir(tmp_path) as entries:
        (entry,) = entries
        (tmp_path / name).unlink()
        assert not _abandoned("elsewhere", 999999999, entry)
    (tmp_path / name).mkdir()
    (tmp_path / name.replace(".t.", ".u.")).write_bytes(b"")

    def removed_by_another(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr("shutil.rmtree", removed_by_another)
    remove_leftovers(tmp_path)
    assert [each.split(".")[1] for each in names(tmp_path)] == ["t"]


@pytest.fixture
def old_and_new(tmp_path):
    """A folder t, and one called new that is to replace it."""
    for name in ("t", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)


@pytest.mark.usefixtures("old_and_new")
def test_a_folder_stays_where_ctrl_c_comes_while_it_is_replaced(tmp_path, monkeypatch):
    rename = Path.rename

    def stopped(path, to):
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(folders, "_exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "rename", stopped)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(tmp_path / "new", tmp_path / "t")
    assert (tmp_path / "t" / "f").read_text() == "t"
    assert names(tmp_path) == ["new", "t"]


@pytest.mark.usefixtures("old_and_new")
def test_a_folder_that_cannot_be_put_back_is_not_lost(tmp_path, monkeypatch):
    rename = Path.rename

    def failing(path, to):
        if path.name in ("new", "replaced"):
            raise OSError("no more names")
        return rename(path, to)

    with monkeypatch.context() as failures:
        failures.setattr(folders, "_exchange", lambda one, other: False)
        failures.setattr(Path, "rename", failing)
        with pytest.raises(OSError, match="no more names"):
            replace_folder(tmp_path / "new", tmp_path / "t")
    (left,) = tmp_path.glob(".t.*")
    assert (left / "replaced" / "f").read_text() == "t"
    left.rename(tmp_path / left.name.replace(f".{os.getpid()}.", ".999999999."))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["new", "t"]
    assert (tmp_path / "t" / "f").read_text() == "t"


@pytest.mark.usefixtures("old_and_new")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders in one step")
def test_a_folder_is_never_absent_while_it_is_replaced(tmp_path):
    """Whatever the call at which the process is killed: the target is the old folder or the new one."""
    killed(
        "folders.shutil.rmtree = lambda *a, **k: die()\nfolders.replace_folder(folder / 'new', folder / 't')",
        tmp_path,
    )
    assert (tmp_path / "t" / "f").read_text() == "new"
    assert (tmp_path / "new" / "f").read_text() == "t"


@pytest.mark.usefixtures("old_and_new")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders in one step")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, None])
def test_a_folder_is_replaced_in_two_steps_where_the_system_cannot_in_one(tmp_path, monkeypatch, number):
    """Older kernels and some file systems have no exchange, older C libraries (None) no name for it."""
    asked = []

    def renameat2(*arguments):
        asked.append(arguments)
        ctypes.set_errno(number)
        return -1

    library = SimpleNamespace() if number is None else SimpleNamespace(renameat2=renameat2)
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: library)
    removed = shutil.rmtree

    def busy(path, ignore_errors=False):
        if not ignore_errors:
            raise OSError("busy")
        removed(path)

    monkeypatch.setattr(shutil, "rmtree", busy)
    replace_folder(tmp_path / "new", tmp_path / "t")
    assert names(tmp_path) == ["t"] and (tmp_path / "t" / "f").read_text() == "new"
    new, target = os.fsencode(tmp_path / "new"), os.fsencode(tmp_path / "t")
    assert asked == ([] if number is None else [(-100, new, -100, target, 2)])


@pytest.mark.usefixtures("old_and_new")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders in one step")
def test_a_disk_that_fails_while_folders_are_exchanged_is_an_error(tmp_path, monkeypatch):
    library = SimpleNamespace(renameat2=lambda *_: ctypes.set_errno(errno.EIO) or -1)
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: library)
    with pytest.raises(OSError, match=f"{tmp_path}/new") as error:
        replace_folder(tmp_path / "new", tmp_path / "t")
    assert error.value.errno == errno.EIO
    assert (tmp_path / "t" / "f").read_text() == "t" and names(tmp_path) == ["new", "t"]


_IN_A_CONTAINER = """
import sys, time
from pathlib import Path
from hpobench_nmt.core.system import files, folders
folder = Path(sys.argv[1])
with folders.scratch_folder(folder / "t") as work:
    (work / "f").write_bytes(b"")
    (folder / "ready").write_bytes(b"")
    deadline = time.monotonic() + 30
    while not (folder / "stop").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    sys.exit(0 if (work / "f").exists() else 3)
"""


def test_a_container_keeps_its_scratch_files(tmp_path):
    """It has the name of this machine and a folder in common with it, but its own numbers for processes."""
    container = ["unshare", "-rpf", "--mount-proc"]
    try:
        subprocess.run([*container, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no namespaces can be made here")
    number = next(n for n in range(3, 9999) if not Path(f"/proc/{n}").exists())  # no process has it here
    until = f'{"/bin/true; " * (number - 2)} "$@"; exit $?'
    command = [*container, "sh", "-c", until, "sh", sys.executable, "-c", _IN_A_CONTAINER, tmp_path]
    with subprocess.Popen(command) as running:
        deadline = time.monotonic() + 30
        while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        remove_leftovers(tmp_path)
        (tmp_path / "stop").write_bytes(b"")
        assert running.wait(30) == 0
