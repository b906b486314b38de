"""Trainings in processes of their own: what they take down, and what takes them down."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.disk.save_requests import LISTENS, request_saves
from hpobench_nmt.runner.nmt.commands import run_command
from hpobench_nmt.runner.torch_training.training_state import Checkpoints, StateFile
from hpobench_nmt.runner.training.processes import (
    Crashed,
    Killed,
    Processes,
    StopAsked,
    saves_when_stopped,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX processes")


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def gone(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def read_when_there(path, lines=1):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if path.exists() and len(found := path.read_text().split("\n")[:-1]) >= lines:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")


def test_a_result_comes_back_and_output_goes_to_the_log(tmp_path):
    processes = Processes()
    assert processes.run(os.path.join, "a", "b", log=tmp_path / "log") == os.path.join("a", "b")  # noqa: PTH118
    processes.run(print, "said", "much", log=tmp_path / "log")
    assert "said much" in (tmp_path / "log").read_text()


def test_every_call_has_a_process_of_its_own(tmp_path):
    processes = Processes()
    pids = {processes.run(os.getpid, log=tmp_path / "log") for _ in range(3)}
    assert len(pids | {os.getpid()}) == 4


def test_an_error_is_told_with_its_last_line_and_logged_whole(tmp_path):
    with pytest.raises(Crashed, match="ValueError: invalid literal"):
        Processes().run(int, "x", log=tmp_path / "log")
    assert "Traceback" in (tmp_path / "log").read_text()
    with pytest.raises(Crashed, match=r"^no_such_module failed with exit code 1"):  # words meant for people
        Processes().run(run_command, "no_such_module", (), tmp_path / "command", log=tmp_path / "log")


def test_how_a_process_died_is_told(tmp_path):
    with pytest.raises(Crashed, match="exit code 3"):
        Processes().run(os._exit, 3, log=tmp_path / "log")
    with pytest.raises(Killed, match="killed by SIGABRT"):
        Processes().run(os.abort, log=tmp_path / "log")


@pytest.mark.parametrize(("number", "asked"), [(signal.SIGHUP, True), (signal.SIGKILL, False)])
def test_being_asked_to_stop_is_told_from_being_killed(tmp_path, number, asked):
    with pytest.raises(Killed) as caught:
        Processes().run(signal.raise_signal, number, log=tmp_path / "log")
    assert caught.value.asked_to_stop == asked


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_under_the_log_hides_neither_result_nor_error():
    log = Path("/dev/full")
    assert Processes().run(int, "3", log=log) == 3
    with pytest.raises(Crashed, match="No space left"):
        Processes().run(print, "a line that finds no room", log=log)
    with pytest.raises(Crashed, match="ValueError: invalid literal"):
        Processes().run(int, "x", log=log)


def test_stop_ends_what_runs_with_all_that_it_started(tmp_path):
    processes, pids = Processes(), tmp_path / "pids"
    command = f"echo $$ >> {pids}; sleep 60 & echo $! >> {pids}; wait"
    died = []

    def run():
        try:
            processes.run(os.system, command, log=tmp_path / "log")
        except Killed as error:
            died.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    found = [int(pid) for pid in read_when_there(pids, 2)]
    processes.stop()
    thread.join(20)
    assert died == ["killed by SIGKILL"]
    assert all(gone(pid) for pid in found)
    with pytest.raises(Killed, match="stopped"):
        processes.run(os.getpid, log=tmp_path / "log")


def test_how_a_process_ended_is_known_however_often_it_is_stopped(tmp_path):
    """Once, two threads that asked for it at the same time could take the end for another one."""

    def run(processes, log):
        with pytest.raises(Killed) as caught:
            processes.run(time.sleep, 60, log=log)
        died.append(str(caught.value))

    died = []
    for number in range(30):
        processes, log = Processes(), tmp_path / f"log{number}"
        thread = threading.Thread(target=run, args=(processes, log))
        thread.start()
        while not log.exists():
            time.sleep(0.001)
        while thread.is_alive():
            processes.stop()
    assert died == ["killed by SIGKILL"] * 30


_PARENT = """
import os, sys
from pathlib import Path
from hpobench_nmt.runner.training.processes import Processes

if __name__ == "__main__":
    command = f"echo $$ >> {sys.argv[1]}; sleep 60 & echo $! >> {sys.argv[1]}; wait"
    Processes().run(os.system, command, log=Path(sys.argv[1] + ".log"))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_processes_end_with_their_parent(tmp_path, number):
    script, pids = tmp_path / "parent.py", tmp_path / "pids"
    script.write_text(_PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(pids)])
    found = [int(pid) for pid in read_when_there(pids, 2)]
    parent.send_signal(number)
    parent.wait(20)
    assert all(gone(pid) for pid in found)


_LEARNER = """
import time
from pathlib import Path
from hpobench_nmt.runner.torch_training.training_state import Checkpoints, StateFile

def learn(folder):
    state = StateFile(Checkpoints(Path(folder)))
    with state.listening():
        while True:
            if state.due:
                state.write({"update": 1})
            time.sleep(0.001)
"""
_STOPPABLE = """
import sys
from pathlib import Path
from learner import learn
from hpobench_nmt.runner.training.processes import Processes, StopAsked, saves_when_stopped

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    try:
        with saves_when_stopped():
            Processes().run(learn, folder, log=folder.with_name("log"), state=folder)
    except StopAsked as stop:
        print(stop)
"""


def descendants(pid):
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [found for child in children for found in (child, *descendants(child))]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")
def test_a_sigterm_to_all_processes_at_once_loses_no_state(tmp_path):
    """As Slurm and systemd send it. Trainings must live on until they have saved."""
    (tmp_path / "learner.py").write_text(_LEARNER)
    (tmp_path / "stoppable.py").write_text(_STOPPABLE)
    state = tmp_path / "state"
    command = [sys.executable, str(tmp_path / "stoppable.py"), str(state)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_for_file(state / LISTENS)
    others = descendants(parent.pid)
    assert len(others) == 2  # the server and the training
    for pid in (*others, parent.pid):
        os.kill(pid, signal.SIGTERM)
    told, _ = parent.communicate(timeout=60)
    assert told == "stopped by SIGTERM; the state of every training is saved\n"
    assert (state / "training.pt").exists()
    assert all(gone(pid) for pid in others)


def learn(state, over, saved):
    """A training that does nothing but save when it is due."""
    with state.listening():
        while not over.is_set():
            if state.due:
                saved.append(time.monotonic())
                state.write({"update": 1})
            time.sleep(0.001)


def wait_for_file(path):
    while not path.exists():
        time.sleep(0.001)


@pytest.mark.parametrize("limit", [None, 0.3])
def test_sigterm_and_a_time_limit_make_trainings_save_at_once(tmp_path, monkeypatch, limit):
    monkeypatch.setattr("hpobench_nmt.runner.training.processes._states", {tmp_path, tmp_path / "not-begun"})
    over, saved = threading.Event(), []
    thread = threading.Thread(target=learn, args=(StateFile(Checkpoints(tmp_path)), over, saved))
    thread.start()
    try:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(StopAsked, match=r"state of every training is saved$") as stop:  # noqa: SIM117
            with saves_when_stopped(limit):
                wait_for_file(tmp_path / LISTENS)
                asked = time.monotonic()
                if limit is None:
                    os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(30)
        assert (tmp_path / "training.pt").exists()
        assert stop.value.in_time == (limit is not None)
        assert len(saved) == 1
        assert saved[0] - asked < 5
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        over.set()
        thread.join()
    assert not (tmp_path / LISTENS).exists()


def test_a_training_answers_every_request(tmp_path):
    over, saved = threading.Event(), []
    thread = threading.Thread(target=learn, args=(StateFile(Checkpoints(tmp_path)), over, saved))
    thread.start()
    try:
        wait_for_file(tmp_path / LISTENS)
        for requests in (1, 2, 3):
            assert request_saves([tmp_path], 5) == (1, 0)
            assert len(saved) == requests
    finally:
        over.set()
        thread.join()


def test_a_training_that_does_not_answer_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr("hpobench_nmt.runner.training.processes._states", {tmp_path})
    monkeypatch.setattr("hpobench_nmt.runner.training.processes._SAVE_SECONDS", 0.05)
    (tmp_path / LISTENS).touch()
    with pytest.raises(StopAsked, match=r"stopped by SIGTERM; .* is saved, except 1 training$"):  # noqa: SIM117
        with saves_when_stopped():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)


def test_where_no_training_can_be_asked_none_is_said_to_have_saved():
    told = r"^stopped by SIGTERM; trainings resume from their last saved state$"
    with pytest.raises(StopAsked, match=told):  # noqa: SIM117
        with saves_when_stopped():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
