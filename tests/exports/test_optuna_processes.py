"""Processes that share an Optuna study by its storage."""

import subprocess
import sys
import time

import pytest

pytest.importorskip("optuna", reason="needs: pip install 'hpobench-nmt[optuna]'")

import optuna

from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.optuna import MethodSampler, suggest

GRID = Space((Hyperparameter("x", tuple(range(12))), Hyperparameter("k", ("a", "b"), kind="categorical")))

WORKER = """
import random, sys, time
from pathlib import Path
import optuna
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.exports.optuna import MethodSampler, suggest

kind, method, name = sys.argv[1:]
optuna.logging.set_verbosity(optuna.logging.ERROR)
if kind == "sqlite":
    options = {"connect_args": {"timeout": 60}}
    storage = optuna.storages.RDBStorage("sqlite:///study.db", engine_kwargs=options)
else:
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend("study.log"))
space = Space((Hyperparameter("x", tuple(range(12))), Hyperparameter("k", ("a", "b"), kind="categorical")))
study = optuna.load_study(study_name="s", storage=storage, sampler=MethodSampler(space, method))

def objective(trial):
    config = suggest(trial, space)
    time.sleep(random.random() / 20)
    return (config["x"] - 7) ** 2 + (config["k"] == "a")

Path(name).touch()
while not Path("go").exists():
    time.sleep(0.001)
study.optimize(objective, n_trials=8)
"""


def storage_of(kind, folder):
    if kind == "sqlite":
        return optuna.storages.RDBStorage(f"sqlite:///{folder / 'study.db'}")
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "study.log"))
    return optuna.storages.JournalStorage(backend)


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["sqlite", "journal"])
@pytest.mark.parametrize("method", ["BO_EI_M_std", "RS"])
def test_processes_that_share_a_study_try_nothing_twice(kind, method, tmp_path):
    storage = storage_of(kind, tmp_path)
    optuna.create_study(storage=storage, study_name="s")
    names = ["first", "second", "third"]
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER, kind, method, name], cwd=tmp_path) for name in names
    ]
    until = time.monotonic() + 100
    while not all((tmp_path / name).exists() for name in names) and time.monotonic() < until:
        time.sleep(0.01)
    (tmp_path / "go").touch()  # all at the same time
    assert [process.wait(timeout=100) for process in processes] == [0, 0, 0]
    trials = optuna.load_study(study_name="s", storage=storage_of(kind, tmp_path)).trials
    assert len(trials) == 24 == len({tuple(sorted(trial.params.items())) for trial in trials})
    assert all(trial.state == optuna.trial.TrialState.COMPLETE for trial in trials)


def studies(count, **options):
    """Studies of one storage, each with a sampler of its own, as processes have them."""
    storage = optuna.storages.InMemoryStorage()
    return [
        optuna.create_study(
            storage=storage, study_name="s", load_if_exists=True, sampler=MethodSampler(GRID, **options)
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("method", ["BO_EI_M_std", "RS", "GB_EIF_M"])
def test_trials_that_another_process_runs_are_pending(method):
    proposed = []
    shared = studies(3, method=method)
    for _ in range(8):
        running = [(study, trial, suggest(trial, GRID)) for study in shared for trial in [study.ask()]]
        for study, trial, config in running:
            proposed.append(tuple(config.items()))
            study.tell(trial, (config["x"] - 7) ** 2)
    assert len(proposed) == 24 == len(set(proposed))


def test_a_trial_beyond_the_last_configuration_fails_and_says_so():
    first, second = studies(2)
    trials = [study.ask() for _ in range(12) for study in (first, second)]
    assert len({tuple(suggest(trial, GRID).items()) for trial in trials}) == 24
    with pytest.raises(InputError, match="all 24 candidates are pending or evaluated"):
        suggest(first.ask(), GRID)  # Optuna asks the sampler in one or the other
    assert first.trials[-1].state == optuna.trial.TrialState.FAIL


def test_what_a_trial_is_to_try_is_known_as_soon_as_it_suggests_one_of_its_values():
    first, second = studies(2, method="RS")
    trials = [study.ask() for _ in range(12) for study in (first, second)]
    for trial in trials:
        trial.suggest_int("x", 0, 11)
    assert len({tuple(suggest(trial, GRID).items()) for trial in trials}) == 24


def test_of_two_that_choose_the_same_at_once_one_gives_way(monkeypatch):
    first, second = studies(2)
    read, inner, tried = MethodSampler._read, [], []

    def before_it_writes(sampler, study, optimizer, but=None):
        read(sampler, study, optimizer, but)
        if study is first and not inner:  # the second one chooses between reading and writing of the first
            inner.append(second.ask())
            tried.append(suggest(inner[0], GRID))

    monkeypatch.setattr(MethodSampler, "_read", before_it_writes)
    outer = first.ask()
    tried.append(suggest(outer, GRID))
    assert outer.number < inner[0].number and tried[0] != tried[1]


def test_each_process_draws_from_a_seed_of_its_own():
    first, second = studies(2, method="RS", n_initial=0)
    orders = [suggest(study.ask(), GRID) for study in (first, second)]
    generators = [study.sampler._optimizer._generator().random() for study in (first, second)]
    assert orders[0] != orders[1] and generators[0] != generators[1]
