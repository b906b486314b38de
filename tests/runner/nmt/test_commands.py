import os
import signal
import sys
import time

import pytest

from hpobench_nmt.errors import RunError
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.nmt.commands import last_words, run_command


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs Python code as a module, the way that Sockeye's commands are run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(code, *arguments):
        (tmp_path / "some_module.py").write_text(code)
        return run_command("some_module", arguments, tmp_path / "log")

    run.log = tmp_path / "log"
    return run


def test_what_it_used(command):
    here = bytearray(500_000_000)  # what this process holds is not counted
    usage = command(
        "import time\nblock = bytearray(200_000_000)\nwhile time.process_time() < 0.5: pass\ntime.sleep(0.7)"
    )
    assert 0.5 <= usage.cpu_seconds < 1.1
    assert usage.seconds >= usage.cpu_seconds + 0.6
    assert 200 < usage.memory < 260
    assert len(here)


def test_arguments_output_and_threads(command):
    command(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['OMP_NUM_THREADS'], flush=True)\n"
        "print('x', file=sys.stderr)",
        "--a",
        "b c",
    )
    assert command.log.read_text() == "['--a', 'b c'] 1\nx\n"


def test_it_stays_in_the_group_of_this_process(command):
    """The runner ends a training by ending its group."""
    command("import os; print(os.getpgrp())")
    assert int(command.log.read_text()) == os.getpgrp()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "some_module was killed, most likely for lack of memory"),
        ("import os; os.abort()", "some_module was ended by signal 6"),
        ("raise MemoryError('out of memory')", r"some_module: out of memory \(MemoryError"),
    ],
)
def test_a_failure_names_its_reason(command, code, message):
    with pytest.raises(TrainingFailed, match=message):
        command(code)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "raise ValueError('too bad')",
            r"failed with exit code 1: ValueError: too bad \(see .*log",
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
