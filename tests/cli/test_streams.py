"""Output that cannot be written, and Ctrl-C: commands in processes of their own, as a shell starts them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FULL = Path("/dev/full")
COMMANDS = (
    "--help",
    "methods",
    "suites",
    "tables list",
    "tables show toy",
    "tables check toy",
    "tables analyze toy",
    "tables add given",
    "pareto toy --objectives bleu,seconds",
    "run --tables toy --methods RS --trials 2 --jobs 1 --out results/again",
    "run --tables toy --methods RS --trials 2 --jobs 1 --out results/again --quiet",
    "score results/done",
    "score results/done --format csv",
    "export results/done --out out",
    "report results/done --jobs 1 --format latex",
    "methods --check mine.py:Mine",
)
# One of each kind: help, a table, a run, its quiet sibling, scores.
FEW = [COMMANDS[k] for k in (0, 4, 9, 10, 12)]
RUNS = [command for command in COMMANDS if command.startswith("run ")]
MINE = """
class Mine:
    def __init__(self, problem, rng):
        self.order = iter(rng.permutation(len(problem.candidates)))

    def ask(self):
        return next(self.order)

    def tell(self, index, losses):
        pass
"""
SLOW = """
import time

class Slow:
    def __init__(self, problem, rng):
        open(f"started-{time.monotonic_ns()}", "w").close()

    def ask(self):
        time.sleep(600)

    def tell(self, index, losses):
        pass
"""


@pytest.fixture
def place(toy_home, run_here):
    """A folder with results, a table to add and a method; the current folder of the commands."""
    run_here(
        "run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--jobs", "1", "--out", "results/done"
    )
    (toy_home / "tables" / "toy-missing").rename("given")
    Path("mine.py").write_text(MINE)
    return Path.cwd()


def lines_of(text):
    return [line for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "commands", [FEW, pytest.param(COMMANDS, marks=pytest.mark.hosts)], ids=["few", "all"]
)
def test_a_full_disk_behind_stdout_is_one_line(place, commands):
    """One test for all commands: they share what is slow to make."""
    if not FULL.exists():
        pytest.skip("there is no /dev/full here")
    for command in commands:
        with FULL.open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "hpobench_nmt", *command.split()],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=300,
            )
        silent = "--quiet" in command
        assert done.returncode == (0 if silent else 1), (command, done.returncode, done.stderr)
        errors = [line for line in lines_of(done.stderr) if line.startswith("Error: ")]
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, (
            command,
            done.stderr,
        )
        assert len(errors) == (0 if silent else 1), (command, done.stderr)
        assert all("No space left on device" in line for line in errors), (command, done.stderr)
    # What the commands write to files is there whole all the same.
    assert (place / "results" / "again" / "observations" / "toy" / "RS.parquet").is_file()


@pytest.mark.parametrize(
    ("closed", "commands"),
    [
        pytest.param(">&-", COMMANDS[2::4], marks=pytest.mark.hosts),
        pytest.param("2>&-", COMMANDS[:2], marks=pytest.mark.hosts),
        ("<&- >&- 2>&-", []),
    ],
)
def test_closed_streams_give_no_traceback(place, run_command, closed, commands):
    for command in [*RUNS[:1], *commands]:
        done = subprocess.run(
            f"{sys.executable} -m hpobench_nmt {command} {closed}", shell=True, capture_output=True, text=True
        )
        assert done.returncode in (0, 1), (command, done.returncode, done.stderr)
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, (
            command,
            done.stderr,
        )
    program = "import sys; from hpobench_nmt.cli.main import _fill_closed_streams; _fill_closed_streams(); "
    read = f"{sys.executable} -c '{program} print(repr(sys.stdin.buffer.read()))' <&-"
    assert subprocess.run(read, shell=True, capture_output=True, text=True).stdout == "b''\n"
    # With stdout closed the next file that is opened gets its number: nothing may be written into that.
    done = run_command("score", "results/again")
    assert "RS" in done.stdout


@pytest.mark.parametrize("commands", [COMMANDS[4:5], pytest.param(COMMANDS[5:8], marks=pytest.mark.hosts)])
def test_a_reader_that_leaves_is_no_error(place, commands):
    for command in commands:
        done = subprocess.run(
            f"{sys.executable} -m hpobench_nmt {command} | true", shell=True, capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, (
            command,
            done.stderr,
        )


def children_of(process):
    """Numbers of the processes in a process group that still run."""
    found = subprocess.run(["ps", "-e", "-o", "pid=,pgid=,stat="], capture_output=True, text=True).stdout
    rows = [line.split() for line in found.splitlines()]
    return [int(pid) for pid, group, state in rows if int(group) == process.pid and not state.startswith("Z")]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize(
    "when", [0.7, *(pytest.param(when, marks=pytest.mark.hosts) for when in (0.1, 2.0)), "in a worker"]
)
def test_ctrl_c_at_any_moment_is_one_line_and_ends_all_workers(toy_home, when):
    Path("slow.py").write_text(SLOW)
    method = "slow.py:Slow" if when == "in a worker" else "RS,GB_EIF_M"
    command = [
        "run",
        "--tables",
        "toy",
        "--methods",
        method,
        "--trials",
        "300",
        "--jobs",
        "2",
        "--out",
        "results/x",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "hpobench_nmt", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        if when == "in a worker":
            assert until(lambda: list(Path.cwd().glob("started-*")))
        else:
            assert until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().count(b"hpobench_nmt"))
            time.sleep(when)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to the whole group
        out, err = process.communicate(timeout=60)
        assert until(lambda: not children_of(process)), "workers are left"
        if "Failed to import the site module" in err:
            pytest.skip("on this busy machine, Ctrl-C came before Python itself had started")
    finally:
        for child in children_of(process):
            os.kill(child, signal.SIGKILL)
    if process.returncode == -signal.SIGINT:
        assert ", in main\n" not in err, err  # Python itself was still starting
        return
    assert "Exception ignored" not in err and "resource_tracker" not in err, err
    if process.returncode == 0:
        assert "Results: " in out
        return
    assert process.returncode == 130, (process.returncode, err)
    assert "Traceback" not in err, err
    assert [line for line in lines_of(err) if line.startswith("Error")] == [
        "Error: stopped. Run the same command again to resume."
    ], err


LATE = """
import signal, time
from hpobench_nmt.cli.main import cli, main

class Late:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@cli.command()
def late():
    Late()
    time.sleep(60)
    print("went on")

main(["late"])
"""


def test_ctrl_c_while_an_object_is_deleted_is_not_lost():
    # Python prints an exception in __del__ and goes on: there the interrupt has to be given again.
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "Error: stopped. Run the same command again to resume."
