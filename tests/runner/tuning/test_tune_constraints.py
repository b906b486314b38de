"""Tuning live under a constraint: the best configuration that keeps it is announced, and methods are told.

The ledger holds all trainings beforehand, so that none has to be run.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.cli.main import main
from hpobench_nmt.runner.ledgers import ledger as ledgers
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.training.workspace import open_workspace
from hpobench_nmt.runner.tuning.tune import pick_constraints, pick_metrics, tune

pytest.importorskip("torch", reason="torch is not installed: pip install 'hpobench-nmt[train]'")
pytest.importorskip("filelock")

SPEC = """
name = "limited"
title = "a tiny AWD-LSTM"
family = "awd-lstm"
objectives = ["dev_ppl"]
metrics = ["dev_ppl", "num_param"]

[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"

[grid]
hidden_size = [2, 4, 8, 16, 32]

[fixed]
layers = 1
embedding_size = 4
"""
# By hidden_size: perplexity at two checkpoints, and the time of training, None where it was not measured.
TRAININGS = {
    2: ([30.0, 20.0], 60.0),
    4: ([28.0, 18.0], 100.0),
    8: ([16.0, 14.0], 101.0),
    16: ([15.0, 13.0], None),
    32: ([26.0, 19.0], 90.0),
}
BEST = "hidden_size=4"
LIMIT = "train_time<=100"


@pytest.fixture
def at(place, tmp_path, monkeypatch):
    """A folder with the corpus, the spec and its whole ledger."""
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.txt").symlink_to(place / f"{part}.txt")
    (tmp_path / "limited.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(tmp_path / "home"))
    workspace = workspace_at(tmp_path)
    for size, (curve, seconds) in TRAININGS.items():
        points = [{"update": 10.0 * n, "seconds": 1.0 * n, "dev_ppl": ppl} for n, ppl in enumerate(curve, 1)]
        metrics = {"dev_ppl": curve[-1]} | ({} if seconds is None else {"train_time": seconds})
        ledgers.append(
            workspace.ledger,
            Record({"hidden_size": size}, 0, 1, "done", metrics=metrics, curve=points, seconds=7.0),
        )
    return tmp_path


def workspace_at(folder):
    workspace, _ = open_workspace(
        load_spec(folder / "limited.toml"), folder / "out", folder / "home" / "training"
    )
    return workspace


@pytest.fixture
def call(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main(["tune", "limited.toml", "--out", "out", "--device", "cpu", *arguments])
        out, err = capsys.readouterr()
        return exit_.value.code or 0, out, err

    return call


def test_the_best_are_confirmed_with_replicates(at, call):
    """All trainings are in the ledger."""
    workspace = workspace_at(at)
    again = {
        16: [13.1, 12.9, 13.0, 13.2],
        8: [13.0, 13.1, 13.2, 12.9],
        4: [18.0, 18.1],
        32: [19.1, 18.9],
        2: [20.1, 20.0],
    }
    for size, values in again.items():
        for replicate, value in enumerate(values, 1):
            ledgers.append(
                workspace.ledger,
                Record({"hidden_size": size}, replicate, replicate + 1, "done", metrics={"dev_ppl": value}),
            )
    for _ in range(2):  # the second time, the search has ended
        code, shown, _ = call("--methods", "RS", "--lookups", "5", "--confirm", "14")
        assert code == 0 and "Confirmed with 14 more trainings of the best 5:" in shown, shown
        assert "  remains: hidden_size=16  ->  dev_ppl=13.05 in the mean of 4\n" in shown
        assert "  remains: hidden_size=8  ->  dev_ppl=13.05 in the mean of 4\n" in shown
        assert shown.count("is worse: ") == 3
    code, _, err = call("--objectives", "dev_ppl,num_param", "--confirm", "14")
    assert code == 2 and "--confirm 14: needs one objective" in err


WAYS = {
    "sequential": ("--methods", "BO_EI_M_std"),
    "workers": ("--methods", "BO_EI_M_std", "--jobs", "2"),
    "stopping": ("--methods", "ASHA", "--jobs", "2", "--updates", "10,20"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_best_that_keeps_the_bound_is_announced(at, call, way):
    code, shown, _ = call(*WAYS[way], "--constraint", LIMIT)
    assert (code, f"Best that satisfies {LIMIT}: {BEST} (dev_ppl=18" in shown) == (0, True), shown
    assert f"dev_ppl=14, misses {LIMIT} by 1  (" in shown
    assert "dev_ppl=13, train_time was not measured" in shown
    for line in shown.splitlines():
        if any(text in line for text in ("misses", "not measured", "to checkpoint")):
            assert "best so far" not in line  # of what is stopped, nobody knows yet
    assert "Best: hidden_size=16 (dev_ppl=" in call(*WAYS[way])[1]
    none = call(*WAYS[way], "--constraint", "train_time<=5")[1]
    assert "No configuration that was trained satisfies train_time<=5.\n" in none
    if way == "sequential":
        return
    again = call(*WAYS[way], "--constraint", LIMIT)[1]
    assert [line.split("  (")[0] for line in again.splitlines()] == [
        line.split("  (")[0] for line in shown.splitlines()
    ]
    assert again.count("(before)") == again.count("->")
    headers = [json.loads(path.read_text().splitlines()[0]) for path in (at / "out").glob("tuning-*.jsonl")]
    assert sorted(header.get("constraints", []) for header in headers) == [[], [LIMIT], ["train_time<=5"]]


METHODS = """
from pathlib import Path
class Asks:
    def __init__(self, problem, rng):
        self.next = 0
        assert problem.constraints == ("train_time<=100",)
        Path("told").write_text("")
    def note(self, *values):
        with open("told", "a") as file:
            print(*values, file=file)
    def ask(self):
        return self.next
    def suggest(self, running):
        return next((row for row in range(5) if row not in running and row >= self.next), None)
    def tell(self, index, losses):
        self.next = index + 1
        self.note(index, *losses)
class Knows(Asks):
    def tell_constrained(self, index, losses, violations):
        self.next = index + 1
        self.note(index, *losses, *violations)
class Observes(Asks):
    def suggest(self, running):
        row, at = divmod(self.next, 2)
        return None if running or row > 4 else (row, 10.0 * (at + 1))
    def observe(self, progress):
        self.next += 1
        self.note(progress.row, *progress.best)
"""


def test_what_methods_are_told(at):
    (at / "watch.py").write_text(METHODS)
    nan = np.nan
    plain = [(0, 20), (1, 18), (2, 20), (3, 20), (4, 19)]  # the worst of the feasible ones so far
    knows = [(0, 20, -40), (1, 18, 0), (2, 14, 1), (3, 13, nan), (4, 19, -10)]
    # What is only measured at the end is not held against a training before.
    curves = [(0, 30), (0, 20), (1, 28), (1, 18), (2, 16), (2, nan), (3, 15), (3, nan), (4, 26), (4, 19)]
    for name, expected, updates in (
        ("Asks", plain, None),
        ("Knows", knows, None),
        ("Observes", curves, (10, 20)),
    ):
        (named,) = resolve_methods([f"watch.py:{name}"])
        workspace = workspace_at(at)
        spec = workspace.spec
        settings = {"lookups": 5, "seed": 0, "n_initial": 0, "constraints": pick_constraints(spec, [LIMIT])}
        metrics = pick_metrics(spec, ())
        for seconds in (np.inf, 3600.0):  # in order, and with a journal
            trial = tune(
                workspace,
                named.load(),
                named.name,
                named.entry.identity,
                metrics,
                devices=["cpu"],
                updates=updates,
                seconds=seconds,
                **settings,
            )
            assert trial.failure == ""
            np.testing.assert_array_equal(np.loadtxt("told"), np.array(expected))


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (
            "train_tim<=7",
            "unknown metric 'train_tim'. Did you mean 'train_time'? (--constraint; family 'awd-lstm')",
        ),
        ("dev_cpu_time<7", "write METRIC<=NUMBER or METRIC>=NUMBER"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_trains(at, call, limit, message):
    code, _, error = call("--out", "new", "--constraint", limit)
    assert (code, message in error, error.count("\n")) == (2, True, 1), error
    assert not (at / "new").exists()
    code, _, error = call("--constraint", "train_time<=7", "--constraint", "train_time<=9")
    assert (code, error) == (2, "Error: --constraint: two bounds of one kind on the same metric.\n")
