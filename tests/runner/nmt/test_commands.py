import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.runner.disk.locks import exclusive
from hpobench_nmt.runner.family import TrainingStarved
from hpobench_nmt.runner.nmt.commands import last_words, pauses_file, run_command

NOT_SAVED = "checkpoint 3 cannot be kept in states: [Errno 28] No space left on device"


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs Python code as a module, the way that Sockeye's commands are run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def run(code, *arguments):
        (tmp_path / "some_module.py").write_text(code)
        return run_command("some_module", arguments, tmp_path / "log", tmp_path / "measuring.lock")

    run.log = tmp_path / "log"
    return run


def test_arguments_output_and_threads(command):
    command(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['OMP_NUM_THREADS'], flush=True)\n"
        "print('x', file=sys.stderr)",
        "--a",
        "b c",
    )
    assert command.log.read_text() == "['--a', 'b c'] 1\nx\n"


RUNS = """
from pathlib import Path
from hpobench_nmt.runner.nmt.commands import run_command
run_command("some_module", (), Path("log"))
"""


def test_it_ends_with_this_process(tmp_path):
    (tmp_path / "some_module.py").write_text(
        "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS], cwd=tmp_path, env=os.environ | {"PYTHONPATH": "."}
    )
    log = tmp_path / "log"
    while not log.exists() or not log.read_text().endswith("\n"):
        time.sleep(0.01)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(int(log.read_text()), 0)
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "some_module was killed, most likely for lack of memory"),
        (
            f"import os; print({NOT_SAVED!r}, flush=True); os.kill(os.getpid(), 9)",
            "some_module was killed, most likely for lack of memory",
        ),
        ("import os; os.abort()", "some_module was ended by signal 6"),
        ("raise MemoryError('out of memory')", r"some_module: out of memory \(MemoryError"),
        (
            "raise RuntimeError('CUDA error: out of memory\\nCompile with `TORCH_USE_CUDA_DSA`.\\n')",
            r"some_module: out of memory \(RuntimeError: CUDA error",
        ),
        (
            "raise RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`')",
            "some_module: out of memory",
        ),
    ],
)
def test_a_failure_names_its_reason(command, code, message):
    with pytest.raises(TrainingStarved, match=message):
        command(code)


def test_memory_may_have_run_out_in_another_process_of_the_training(command):
    spoken = "Traceback (most recent call last)\ntorch.OutOfMemoryError: CUDA out of memory. Tried …\n"
    command.log.with_name("worker-1.log").write_text(spoken, encoding="utf-8")
    with pytest.raises(TrainingStarved, match=r"some_module: out of memory \(torch.OutOfMemoryError"):
        command("print('worker 1 failed with exit code 1'); raise SystemExit(1)")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            f"print({NOT_SAVED!r}, flush=True)\nraise ValueError('too bad')",
            r"failed with exit code 1: ValueError: too bad \(see .*log",
        ),
        (
            # A warning about memory is no error about it.
            "print('CUDA out of memory, decoding one by one')\nraise ValueError('bad option')",
            "failed with exit code 1: ValueError: bad option",
        ),
        ("import sys; sys.exit(3)", r"some_module failed with exit code 3: it wrote nothing"),
        ("import os; os.kill(os.getpid(), 15)", "some_module was stopped"),
        ("raise KeyboardInterrupt", "some_module was stopped"),
        ("raise OSError(28, 'No space left on device')", "no space left on the disk"),
    ],
)
def test_what_is_no_fault_of_the_configuration(command, code, message):
    with pytest.raises(RunError, match=message):
        command(code)


def test_a_command_stands_still_while_another_process_measures(command, tmp_path):
    """The log holds what the clock said every 10 ms; a hole in it is a pause."""
    code = "import time\nfor _ in range(200): print(time.monotonic(), flush=True); time.sleep(0.01)"
    measured = []

    def measure():
        while not command.log.exists() or not command.log.read_text().count("\n"):
            time.sleep(0.01)
        with exclusive(tmp_path / "measuring.lock"):
            start = time.monotonic()
            time.sleep(1.5)
            measured.append((start, time.monotonic()))

    thread = threading.Thread(target=measure)
    thread.start()
    start = time.monotonic()
    command(code)
    taken = time.monotonic() - start
    thread.join()
    [(begin, end)] = measured
    ticks = [float(line) for line in command.log.read_text().split()]
    assert len(ticks) == 200  # it was paused, not ended
    assert [t for t in ticks if begin + 0.5 < t < end] == []
    assert 1.0 < float(pauses_file(command.log).read_text()) < min(2.0, taken)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_an_interrupted_training_leaves_no_child(command):
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    try:
        with pytest.raises(Interrupt):
            command("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 30  # it was ended, not waited for
    with pytest.raises(ProcessLookupError):
        os.kill(int(command.log.read_text()), 0)


def test_last_words_of_a_real_traceback():
    text = (
        "[INFO:sockeye.utils] Sockeye: 3.1.34\n"
        "[ERROR:root] Uncaught exception\nTraceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n    main()\n'
        "RuntimeError: DefaultCPUAllocator: can't allocate memory\n\n"
    )
    assert last_words(text) == "RuntimeError: DefaultCPUAllocator: can't allocate memory"
    assert last_words("[ERROR:__main__] no such model\n") == "no such model"
    assert last_words("") == ""
    assert len(last_words("x" * 1000)) == 300
