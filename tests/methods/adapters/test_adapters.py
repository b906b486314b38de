"""What every adapter must do, whatever its library."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import ADAPTERS, BUILT_IN, BuiltIn
from hpobench_nmt.testing import CONFORMANCE_CHECKS, survives_small_tables

# BoTorch's import warns of a function of torch that it uses.
pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

# These fit models for so long that a whole conformance check would take CI minutes.
SLOW = [n for n in ADAPTERS if n in ("optuna.GP", "optuna.MOTPE", "botorch.LogEI", "botorch.LogEHVI")]


def missing(name):
    try:
        ADAPTERS[name].require()
    except InputError as error:
        return str(error)
    return ""


def each(names=ADAPTERS):
    """Parameters: every adapter, skipped with a reason where its library is missing."""
    return [pytest.param(n, marks=pytest.mark.skipif(bool(missing(n)), reason=missing(n))) for n in names]


@pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", each(n for n in ADAPTERS if n not in SLOW))
def test_conformance(name, check):
    method = ADAPTERS[name]
    check(method.load(), method.objectives[0])


@pytest.mark.parametrize("name", each(SLOW))
def test_conformance_of_slow_ones(name):
    method = ADAPTERS[name]
    survives_small_tables(method.load(), method.objectives[0])


@pytest.mark.parametrize("name", each(n for n in ADAPTERS if 3 in ADAPTERS[n].objectives and n not in SLOW))
def test_three_objectives(name):
    survives_small_tables(ADAPTERS[name].load(), 3)


@pytest.mark.parametrize("name", each(n for n in ADAPTERS if n not in SLOW))
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_numbers_of_many_digits(name, scale):
    rates = np.sort(np.random.default_rng(0).random((8, 1)), axis=0)
    space = Space((Hyperparameter("rate", tuple(rates[:, 0].tolist()), scale),))
    n_losses = ADAPTERS[name].objectives[0]
    problem = Problem(space.features(rates), n_losses, 8, 2, space, rates)
    losses = np.random.default_rng(1).random((8, n_losses))
    trial = run_trial(
        problem, Trainings.whole(losses), ADAPTERS[name].load(), np.random.default_rng(0), [3, 4]
    )
    assert trial.failure == "" and sorted(trial.rows.tolist()) == list(range(8))


def labelled():
    """Numbers on a log scale, ordered labels, categories, and one that is inactive for some of them."""
    space = Space(
        (
            Hyperparameter("rate", (1e-4, 3e-4, 1e-3, 1e-2), "log"),
            Hyperparameter("size", ("small", "base", "big"), kind="ordinal"),
            Hyperparameter("optimizer", ("sgd", "adam", "lamb"), kind="categorical"),
            Hyperparameter("momentum", (0.0, 0.5, 0.9), active_if=(("optimizer", ("sgd",)),)),
        )
    )
    configs = [
        {"rate": rate, "size": size, "optimizer": optimizer} | extra
        for rate in (1e-4, 3e-4, 1e-3, 1e-2)
        for size in ("small", "base", "big")
        for optimizer in ("sgd", "adam", "lamb")
        for extra in ([{"momentum": m} for m in (0.0, 0.5, 0.9)] if optimizer == "sgd" else [{}])
    ]
    codes = space.encode_all(configs)[np.random.default_rng(0).permutation(60)]
    return space, codes


def labelled_trial(name, seed=0, lookups=13, descriptors=0):
    space, codes = labelled()
    n_objectives = ADAPTERS[name].objectives[0]
    features = np.hstack([space.features(codes), np.random.default_rng(2).random((60, descriptors))])
    weights = np.random.default_rng(1).normal(size=(features.shape[1], n_objectives))
    losses = np.sin(2.0 * features @ weights)
    losses[[5, 17, 30]] = np.nan
    problem = Problem(features, n_objectives, lookups, 3, space, codes)
    make = ADAPTERS[name].load()
    return run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(seed), [1, 5, 9])


@pytest.mark.parametrize("name", each())
def test_labels_and_inactive_hyperparameters_and_failures(name):
    trial = labelled_trial(name)
    assert not trial.failure
    assert len(set(trial.rows.tolist())) == 13


@pytest.mark.parametrize("name", each())
def test_twenty_hyperparameters_with_tiny_values_a_feature_and_failures(name):
    values = {"linear": tuple(np.linspace(0.0, 1.0, 5)), "log": tuple(np.geomspace(1e-12, 1.0, 5))}
    axes = [Hyperparameter(f"x{k}", values[scale], scale) for k, scale in enumerate(["linear", "log"] * 10)]
    space, rng = Space(tuple(axes)), np.random.default_rng(3)
    codes = np.column_stack([np.array(axis.values)[rng.integers(5, size=50)] for axis in axes])
    features = np.hstack([space.features(codes), rng.random((50, 1))])
    n_objectives = ADAPTERS[name].objectives[0]
    losses = features @ rng.normal(size=(21, n_objectives))
    losses[[4, 7, 21]] = np.nan
    problem = Problem(features, n_objectives, 12, 3, space, codes)
    trial = run_trial(
        problem, Trainings.whole(losses), ADAPTERS[name].load(), np.random.default_rng(0), [1, 4, 9]
    )
    assert not trial.failure
    assert len(set(trial.rows.tolist())) == 12


@pytest.mark.parametrize("name", each())
def test_descriptors_which_are_no_hyperparameters(name):
    trial = labelled_trial(name, descriptors=2)
    assert not trial.failure
    assert len(set(trial.rows.tolist())) == 13


def digest_of(names):
    rows = [labelled_trial(name).rows.tolist() for name in names]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


@pytest.mark.parametrize("name", each(["smac.RF"]))
def test_tiny_values_on_a_log_scale(name):
    values = tuple(np.geomspace(1e-30, 1e-10, 40))
    space = Space((Hyperparameter("epsilon", values, "log"),))
    codes = np.array(values)[:, None]
    problem = Problem(space.features(codes), 1, 12, 3, space, codes)
    losses = (problem.features - 0.3) ** 2
    rng = np.random.default_rng(0)
    found = run_trial(problem, Trainings.whole(losses), ADAPTERS[name].load(), rng, [0, 20, 39])
    assert not found.failure and len(found.rows) == 12


def test_the_same_rows_in_a_fresh_process():
    names = [n for n in ADAPTERS if not missing(n)]
    code = f"import runpy; print(runpy.run_path({__file__!r})['digest_of']({names!r}))"
    environment = os.environ | {"PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "1"}
    # torch 2.15 warns of what GPyTorch uses, and where there is CUDA but no GPU.
    environment["PYTHONWARNINGS"] = "ignore::FutureWarning"
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    said = [line for line in found.stderr.splitlines() if "No CUDA runtime is found" not in line]
    assert said == [], "a library has said something"
    assert found.stdout.strip() == digest_of(names)


@pytest.mark.parametrize("name", each(n for n in ADAPTERS if n.startswith(("nevergrad", "optuna.CMAES"))))
def test_large_budgets_draw_from_the_seed_alone(name):
    """For these, NGOpt chooses an optimizer in a thread, whose library seeds NumPy with the time."""
    space = Space(tuple(Hyperparameter(f"x{j}", tuple(np.linspace(0.0, 1.0, 9).tolist())) for j in range(8)))
    configs = np.random.default_rng(0).integers(0, 9, (700, 8)) / 8
    losses = ((configs - 0.4) ** 2).sum(axis=1, keepdims=True)
    problem = Problem(space.features(configs), 1, 600, 3, space, configs)

    def rows(seed):
        np.random.seed(seed)  # noqa: NPY002
        method = ADAPTERS[name].load()(problem, np.random.default_rng(5))
        found = [0, 1, 2]
        for row in found:
            method.tell(row, losses[row])
        for _ in range(40):
            found.append(method.ask())
            method.tell(found[-1], losses[found[-1]])
            np.random.random(3)  # noqa: NPY002
        return found

    assert rows(1) == rows(2)


@pytest.mark.parametrize("name", each(["optuna.CMAES", "smac.RF", "botorch.LogEI", "syneTune.BORE"]))
def test_any_number_of_jobs_and_a_kill_change_no_row(name, tmp_path):
    def run(folder, jobs):
        command = ["run", "--tables", "sotu-awd-lstm", "--methods", name, "--trials", "27", "--lookups", "9"]
        command += ["--set", "score_at=9", "--jobs", str(jobs), "--quiet", "--out", str(folder)]
        return subprocess.Popen([sys.executable, "-m", "hpobench_nmt", *command], stderr=subprocess.PIPE)

    def files(folder):
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("observations/*/*"))}

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    undisturbed, victim = run(whole, 1), run(killed, 2)
    while victim.poll() is None and not list(killed.rglob("unfinished/*/*/*.parquet")):
        time.sleep(0.01)
    victim.kill()  # while one block is done and others are not
    victim.communicate()
    again = run(killed, 2)
    assert (again.communicate()[1], again.returncode) == (b"", 0)
    assert (undisturbed.communicate()[1], undisturbed.returncode) == (b"", 0)
    assert files(killed) == files(whole) != {}


def test_a_missing_library_is_one_line_with_the_command(monkeypatch):
    gone = BuiltIn("gone.X", "adapters.gone:X", (1,), "", "gone", ("no_such_library",))
    monkeypatch.setattr("hpobench_nmt.benchmarking.contestants.plugins.KNOWN", {**BUILT_IN, "gone.X": gone})
    with pytest.raises(InputError) as raised:
        resolve_methods(["RS", "gone.X"])
    assert str(raised.value) == (
        "method 'gone.X' needs no_such_library, which is not installed: pip install 'hpobench-nmt[gone]'."
    )


def test_a_suite_names_all_libraries_that_are_missing(tmp_path):
    """In a process that finds none of them, as in an environment without them; nothing is run or written."""
    code = (
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name in ('optuna', 'smac') else found(name)\n"
        "from hpobench_nmt.cli.main import main\n"
        "main(['run', 'frameworks', '--methods', 'RS,optuna.TPE,optuna.GP,smac.RF', '--out', 'r'])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "Error: method 'optuna.TPE' needs optuna; method 'optuna.GP' needs optuna; method 'smac.RF' needs "
        "smac, which are not installed: pip install 'hpobench-nmt[optuna,optuna-gp,smac]'.\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", each())
def test_results_of_another_version_of_the_library_are_not_reused(name, monkeypatch):
    before = resolve_methods([name])[0].entry
    monkeypatch.setattr("hpobench_nmt.benchmarking.contestants.fingerprints.version", lambda library: "0.0.1")
    assert not resolve_methods([name])[0].entry.same_rows(before)
