"""What several tests share: tables, an empty home for the package, and the command line."""

import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path

# Tests run in parallel, so more threads would only compete. This must be set before a library reads it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

from hpobench_nmt.analysis.tables import controls, sections
from hpobench_nmt.cli.main import main
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.evaluation import importance
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table

ROOT = Path(__file__).parents[1]
NMTHPO = ROOT.parent / "shared" / "nmthpo"
# Without a deadline, no test fails because the machine is busy.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")
_SLOW_FIRST = (
    *("render/html", "benchmarking/test_rows_of_methods.py", "analysis/test_table_sections.py"),
    *("test_docs.py", "runner", "test_readme.py", "benchmarking", "cli", "render", "fuzz"),
)


def pytest_configure() -> None:
    """Restore Ctrl-C and SIGHUP. A script that runs the tests in the background may have them ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # By default, Ray's workers have a low priority, so they would hardly run beside other tests.
    os.environ.setdefault("RAY_worker_niceness", "0")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Let no test's output be wrapped, so that it finds its texts. Tests of the width set or delete this."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "10000"
    try:
        return (yield)
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def pytest_xdist_auto_num_workers() -> int:
    """One process more than processors, because many tests wait for programs that they have started."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first, so that with -n no process is left working alone at the end."""
    if not (ROOT / "hpobench_nmt" / "methods").is_dir():
        # This is an unpacked source distribution, whose package lacks the folders that are installed into it.
        # Programs that tests start must find the installed package, and not this one in the current folder.
        os.chdir(ROOT / "tests" / "wheel")
    slow = [ROOT / "tests" / name for name in _SLOW_FIRST]

    @cache
    def place(path: Path) -> int:
        return next((k for k, first in enumerate(slow) if first in (path, *path.parents)), len(slow))

    items.sort(key=lambda item: place(item.path))


def make_table(name: str = "toy", seed: int = 0, missing: bool = False) -> Table:
    """A 4 x 3 x 3 grid with two conflicting metrics and a third; `missing` removes values of two of them."""
    axes = (
        Hyperparameter("layers", (1.0, 2.0, 4.0, 8.0), "log"),
        Hyperparameter("width", (256.0, 512.0, 1024.0)),
        Hyperparameter("learning_rate", (0.001, 0.003, 0.01), "log"),
    )
    configs = np.array([(a, b, c) for a in axes[0].values for b in axes[1].values for c in axes[2].values])
    rng = np.random.default_rng(seed)
    scaled = np.column_stack([h.scaled(configs[:, j]) for j, h in enumerate(axes)])
    quality = (
        20 - 8 * ((scaled - (0.6, 0.5, 0.4)) ** 2).sum(axis=1) + rng.normal(scale=0.3, size=len(configs))
    )
    seconds = 10 + 30 * scaled[:, 0] + 20 * scaled[:, 1] + rng.random(len(configs))
    memory = np.round(1000 * (1 + scaled[:, 1]))
    if missing:
        quality[::7] = np.nan
        memory[::5] = np.nan
    return Table(
        name=name,
        hyperparameters=axes,
        metrics=(
            Metric("bleu", "max", "BLEU", tolerance=0.5),
            Metric("seconds", "min", "s"),
            Metric("memory", "min", "MB", missing=0.0),
        ),
        configs=configs,
        values=np.column_stack([np.round(quality, 2), np.round(seconds, 3), memory]),
        objectives=("bleu", "seconds"),
        provenance={"source": "made for the tests"},
    )


@pytest.fixture(scope="session", autouse=True)
def forests_of_a_table_once() -> Generator[None]:
    """Let analyses predict the order of the same rows once: many tests analyse the same tables."""
    known: dict[tuple[bytes, bytes], float] = {}

    def predictable_share(features, losses) -> float:
        key = features.tobytes(), losses.tobytes()
        if key not in known:
            known[key] = importance.predictable_share(features, losses)
        return known[key]

    with pytest.MonkeyPatch.context() as patched:
        for module in (sections, controls):
            patched.setattr(module, "predictable_share", predictable_share)
        yield


@pytest.fixture
def toy() -> Table:
    return make_table()


@pytest.fixture
def curved(toy):
    """The toy table with curves of 2 to 4 checkpoints of 1 to 3 s each. Three rows have no curve."""
    lengths = np.arange(len(toy)) % 3 + 2
    lengths[[0, 7, 20]] = 0
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    own, last = (np.repeat(x, lengths) for x in (toy.column("bleu"), lengths))
    bleu = own - 1.5 * (last - steps) * np.random.default_rng(3).random(len(steps))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    costs = steps * np.repeat(np.arange(len(toy)) % 3 + 1.0, lengths)
    curves = Curves("update", (Metric("bleu", "max"),), ("best",), starts, steps, costs, bleu[:, None], "s")
    return replace(toy, curves=curves)


@pytest.fixture
def two(toy) -> list[Table]:
    """The toy table, and a second table with the same rows and other metric values."""
    other = np.random.default_rng(9).normal(size=toy.values.shape)
    return [toy, replace(toy, name="other", values=toy.values + other)]


@pytest.fixture
def again():
    """A function that makes replicates of some rows of a table, with noise added to their metrics."""

    def replicates(table, rows, times=5, scale=0.2):
        rng = np.random.default_rng(5)
        frame = pd.concat([table.to_frame().iloc[rows]] * times, ignore_index=True)
        names = [m.name for m in table.metrics]
        frame[names] += rng.normal(scale=scale, size=(len(frame), len(names)))
        return frame.assign(
            replicate=np.repeat(np.arange(1, times + 1), len(rows)), seed=np.arange(len(frame))
        )

    return replicates


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty place for added and fetched tables, and a current folder that nobody else uses."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(folder))
    monkeypatch.delenv("HPOBENCH_NMT_TABLES", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return folder


@pytest.fixture(scope="session")
def toy_tables(tmp_path_factory) -> Path:
    """A home with the toy tables "toy" and "toy-missing", which no test may change."""
    home = tmp_path_factory.mktemp("toys")
    save_folder(make_table(), home / "tables" / "toy")
    save_folder(make_table("toy-missing", missing=True), home / "tables" / "toy-missing")
    return home


@pytest.fixture
def toy_home(home, toy_tables) -> Path:
    """A home for one test, in which the toy tables "toy" and "toy-missing" are installed."""
    shutil.copytree(toy_tables, home)
    return home


@pytest.fixture(scope="session")
def authors_files() -> Path:
    """The folder of the authors' table files, which are never part of the project."""
    if not NMTHPO.is_dir():
        pytest.skip("the authors' table files are not in ../shared/nmthpo")
    return NMTHPO


@pytest.fixture(scope="session")
def nmthpo_home(tmp_path_factory, authors_files) -> Path:
    """A home with the six published tables, from the authors' files."""
    from hpobench_nmt.lookup.collections import COLLECTIONS

    folder = tmp_path_factory.mktemp("nmthpo")
    COLLECTIONS["nmthpo"].fetch(folder / "cache", source=authors_files)
    return folder


def command(*arguments: str, check: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, as a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "hpobench_nmt", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
    )
    if check is not None:
        assert done.returncode == check, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done


def command_here(
    *arguments: str, check: int | None = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Like `command`, but in this process, which saves the time to start another one."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        for name, value in environment.items():
            patched.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    code = ended.value.code if isinstance(ended.value.code, int) else int(ended.value.code is not None)
    if check is not None:
        assert code == check, f"exit code {code}\n{out.getvalue()}\n{err.getvalue()}"
    return subprocess.CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())


def files_below(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder, except the timings, which differ between runs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "timings" not in path.relative_to(folder).parts
    }


@pytest.fixture(scope="session")
def run_command():
    return command


@pytest.fixture(scope="session")
def run_here():
    return command_here


@pytest.fixture(scope="session")
def contents():
    return files_below
