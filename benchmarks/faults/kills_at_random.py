"""Kill commands at random moments: the same command must resume, and end as one that was not disturbed.

    python benchmarks/faults/kills_at_random.py               # 20 kills of each kind
    python benchmarks/faults/kills_at_random.py group tune    # these kinds; dask and ray need these packages
    python benchmarks/faults/kills_at_random.py --kills 5

A command runs undisturbed. Then it runs again from the same start, and all its processes are killed
(SIGKILL) at a moment that is drawn from the time the undisturbed run took. If the command ends before, the
moment is drawn again, from the time of this run: other programs may have slowed down the earlier one. After
the kill, the command runs to its end, and what it wrote must have the same bytes. Of the lines of a ledger,
times do not count. An archive that was complete when the kill came refuses the method, because it has it.
Of `archive add`, the part after the repeated trials runs. `fetch` installs a collection from made-up files,
which a server on this machine sends slowly.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
HPO = [sys.executable, "-m", "hpobench_nmt"]
SHEET = """\
split_by = ["model"]
[hyperparameters.layers]
[hyperparameters.lr]
[metrics.bleu]
direction = "max"
"""
SEARCH = """\
objectives = ["loss:min"]
candidates = 30
[grid]
lr = {from = 1e-4, to = 1.0, scale = "log"}
layers = [1, 2, 4]
"""
PROGRAM = (
    "import sys; lr, layers = map(float, sys.argv[1:]); print('{\"loss\": %r}' % ((lr - 0.1) ** 2 + layers))"
)
ADD = """
import sys
from pathlib import Path
from hpobench_nmt.arena.archive import Card, archive_of, read_archive
from hpobench_nmt.arena.digest import digest_bytes, digest_path, load_digest
from hpobench_nmt.arena.submissions import save_archive, with_results
from hpobench_nmt.benchmarking.records.store import load_results
path = Path("a.parquet")
archive = read_archive(path)
if "BO_EI_M_std" in archive.methods("plain"):
    sys.exit("the name is taken")
card = Card(**dict.fromkeys(Card.__struct_fields__, "x"))
content = with_results(archive, "plain", load_results("r"), card)
digest = digest_bytes(archive_of(content, path), load_digest(digest_path(path)))
save_archive(content, path, (digest_path(path), digest))
"""
ARCHIVE = """
from pathlib import Path
import hpobench_nmt as hb
from hpobench_nmt.arena.archive import archive_bytes, archive_of
from hpobench_nmt.arena.digest import digest_bytes, digest_path
run = dict(suite="lm-2026", track="plain", tables=["sotu-gpt-30k"], trials=3)
content, path = archive_bytes({"plain": [hb.run(**run, methods=["RS"])]}), Path("a.parquet")
path.write_bytes(content)
digest_path(path).write_bytes(digest_bytes(archive_of(content, path)))
hb.run(**run, methods=["BO_EI_M_std"], out="r")
"""
Command = Sequence[str]


def started(home: Path, command: Command) -> subprocess.Popen[bytes]:
    """A command in a session of its own, with its data in this home.

    Its messages go to a file: Ray's own processes outlive the command, and would keep a pipe open.
    """
    environment = {**os.environ, "HPOBENCH_NMT_HOME": str(home / "home"), "OMP_NUM_THREADS": "1"}
    with (home / "messages").open("wb") as file:
        return subprocess.Popen(
            command, cwd=home, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=file
        )


def finished(home: Path, command: Command) -> tuple[int, str]:
    """Exit code and messages of a command that runs to its end."""
    code = started(home, command).wait()
    return code, (home / "messages").read_text(errors="replace")


def files(folder: str) -> Callable[[Path], str]:
    """A function that returns the hashes of the files in a folder, or of files of this name."""

    def state(home: Path) -> str:
        paths = sorted(path for path in home.glob(folder) if path.is_file())
        hashes = {str(p.relative_to(home)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}
        return json.dumps(hashes)

    return state


def grid(home: Path, shift: int, models: int) -> None:
    """Write a CSV file of several tables, and its datasheet."""
    lines = [
        f"m{model},{layers},{lr},{20 + (model * layers * lr + shift) % 7 + model / 100}"
        for model in range(1, models + 1)
        for layers in (1, 2, 3)
        for lr in (1, 2, 5)
    ]
    (home / "grid.csv").write_text("model,layers,lr,bleu\n" + "\n".join(lines) + "\n")
    (home / "grid.toml").write_text(SHEET)


def group(home: Path) -> Command:
    """A home with a group of 40 tables; the command replaces it by one with other values."""
    grid(home, 0, 40)
    finished(home, [*HPO, "tables", "add", "grid.csv"])
    grid(home, 3, 40)
    return [*HPO, "tables", "add", "grid.csv"]


def archive(home: Path) -> Command:
    """A home with an archive, and the results of a method; the command adds them."""
    code, message = finished(home, [sys.executable, "-c", ARCHIVE])
    if code:
        raise SystemExit(message)
    return [sys.executable, "-c", ADD]


def tune(home: Path) -> Command:
    """A home with a search; the command tunes a program."""
    (home / "search.toml").write_text(SEARCH)
    (home / "train.py").write_text(PROGRAM)
    return [
        *HPO,
        "tune",
        "search.toml",
        "--lookups",
        "12",
        "--",
        sys.executable,
        "train.py",
        "{lr}",
        "{layers}",
    ]


def ledger(home: Path) -> str:
    """What was trained, in order, without times."""
    path = home / "search" / "ledger.jsonl"
    records = [json.loads(line) for line in path.read_bytes().splitlines()[1:]] if path.exists() else []
    kept = ("config", "replicate", "seed", "status", "metrics")
    return json.dumps([{key: record.get(key) for key in kept} for record in records])


def on(backend: str) -> Callable[[Path], Command]:
    """A function that sets up a home with a table; the command runs two methods on a cluster."""

    def prepare(home: Path) -> Command:
        grid(home, 0, 2)
        finished(home, [*HPO, "tables", "add", "grid.csv"])
        methods = ["--methods", "RS,BO_EI_M_std", "--trials", "40", "--jobs", "2", "--quiet"]
        return [*HPO, "run", "quick", "--tables", "grid", *methods, "--backend", backend, "--out", "r"]

    return prepare


class Slow(SimpleHTTPRequestHandler):
    """Sends files in parts, so that a kill can come while a file arrives."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Copy what is sent."""
        for part in iter(lambda: source.read(200), b""):
            outputfile.write(part)
            time.sleep(0.02)

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""


def fetch(home: Path) -> Command:
    """A home with two tables of a collection; the command replaces them by those of other files."""
    files_of: Any = import_module("small_collections")
    command = [*HPO, "tables", "fetch", "mlperf-training", "--from"]
    finished(home, [*command, str(files_of.clone("mlperf-training", home / "authors"))])
    with tarfile.open(home / "new.tar.gz", "w:gz") as archive:
        for path, text in files_of.mlperf().items():
            content = text.replace("0.92", "0.91").encode()
            member = tarfile.TarInfo(f"training_results-1/{path}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Slow, directory=str(home)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return [*command, f"http://127.0.0.1:{server.server_port}/new.tar.gz"]


KINDS: dict[str, tuple[Callable[[Path], Command], Callable[[Path], str]]] = {
    "group": (group, files("home/tables/*/*")),
    "fetch": (fetch, files("home/cache/*/*")),
    "archive": (archive, files("*.parquet")),
    "tune": (tune, ledger),
    "dask": (on("dask"), files("r/observations/*/*")),
    "ray": (on("ray"), files("r/observations/*/*")),
}


def killed(kind: str, kills: int, seed: int) -> bool:
    """Kill a kind's command so often, print what came of it, and return whether all is well."""
    prepare, state = KINDS[kind]
    draw, found = random.Random(f"{kind} {seed}"), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kills-", ignore_cleanup_errors=True) as name:
        start, home = Path(name, "start"), Path(name, "home")
        start.mkdir()
        command = prepare(start)
        old = state(start)
        for _ in range(2):  # the second time, code is compiled and files are cached
            again(start, home)
            begun = time.monotonic()
            code, message = finished(home, command)
            took, new = time.monotonic() - begun, state(home)
            if code or new == old:
                raise SystemExit(f"{kind}: {message[-500:]}")
        for _ in range(kills):
            while True:
                again(start, home)
                begun, process = time.monotonic(), started(home, command)
                try:
                    process.wait(draw.uniform(0.2, 1.0) * took)
                except subprocess.TimeoutExpired:
                    break
                took = time.monotonic() - begun
                found["drawn again"] += 1
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            left = state(home)
            found[{old: "old", new: "new"}.get(left, "part")] += 1
            begun = time.monotonic()
            code, message = finished(home, command)
            if left == old:  # also an undisturbed run
                took = time.monotonic() - begun
            if state(home) != new or (code and left != new):
                found["WRONG"] += 1
                print(f"  {kind}: exit code {code}: {message[-500:]}", flush=True)
    print(f"{kind}: {kills} kills within {took:.1f} s: {dict(found)}", flush=True)
    return not found["WRONG"]


def again(start: Path, home: Path) -> None:
    """Make the home as it was at the start."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(start, home)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", help=f"{', '.join(KINDS)}; left out: all")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    well = [killed(kind, asked.kills, asked.seed) for kind in asked.kinds or KINDS]
    sys.exit(not all(well))
