"""Optuna's own storages, against what Optuna itself reads in them; and storages that are none."""

import json
import math
import sqlite3

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.read import read_sweep
from hpobench_nmt.lookup.imports.sweep import Choices

optuna = pytest.importorskip("optuna")
NAMES = ("one", "two")


def trials(seed):
    """Trials in every state, with parameters of every kind; some of an old study lack one."""
    from optuna.distributions import CategoricalDistribution as Categorical
    from optuna.distributions import FloatDistribution as Float
    from optuna.distributions import IntDistribution as Int
    from optuna.trial import TrialState, create_trial

    rng = np.random.default_rng(seed)
    space = {
        "lr": Float(1e-5, 0.1, log=True),
        "layers": Int(1, 6),
        "opt": Categorical(["adam", None, True, 3]),
        "dropout": Float(0, 0.5),
    }
    states = (
        TrialState.COMPLETE,
        TrialState.COMPLETE,
        TrialState.PRUNED,
        TrialState.FAIL,
        TrialState.COMPLETE,
    )
    for k, state in enumerate(states):
        params = {
            "lr": 10 ** rng.uniform(-5, -1),
            "layers": int(rng.integers(1, 7)),
            "opt": space["opt"].choices[k % 4],
        }
        params |= {"dropout": 0.25} if k else {}
        finished = state == TrialState.COMPLETE
        yield create_trial(
            state=state,
            value=(math.inf if k == 4 else float(k)) if finished else None,
            params=params,
            distributions={name: space[name] for name in params},
            intermediate_values={s: float(s + k) for s in range(3)} if state != TrialState.FAIL else {},
            user_attrs={"acc": k / 10, "note": "x"},
        )


@pytest.fixture(scope="module")
def storages(tmp_path_factory):
    """The same two studies in an SQLite storage and in a journal."""
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = tmp_path_factory.mktemp("optuna")
    found = {}
    for name, storage in (
        ("study.db", RDBStorage(f"sqlite:///{folder / 'study.db'}")),
        ("study.log", JournalStorage(JournalFileBackend(str(folder / "study.log")))),
    ):
        for number, study_name in enumerate(NAMES):
            study = optuna.create_study(
                storage=storage, study_name=study_name, direction=["minimize", "maximize"][number]
            )
            study.add_trials(trials(number))
            running = study.ask()
            running.suggest_float("lr", 1e-5, 0.1, log=True)
            found[name, study_name] = study
        if isinstance(storage, RDBStorage):
            storage.engine.dispose()
    return folder, found


@pytest.mark.parametrize("file", ["study.db", "study.log"])
@pytest.mark.parametrize("name", NAMES)
def test_it_holds_what_optuna_reads(storages, file, name):
    folder, studies = storages
    sweep = read_sweep(folder / file, Choices(study=name))
    study = studies[file, name]
    about = sweep.about
    assert about["value"].objective and about["value"].direction == ("min" if name == "one" else "max")
    assert about["params_lr"].scale == "log" and about["params_layers"].scale == "linear"
    states = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "unfinished"}
    assert sweep.states.tolist() == [states[t.state.name] for t in study.trials]
    for row, trial in enumerate(study.trials):
        for param in ("lr", "layers", "opt", "dropout"):
            cell = sweep.columns[f"params_{param}"][row]
            given = trial.params.get(param, "absent")
            assert (
                (cell == given and type(cell) is not bool)
                or cell is given
                or (given == "absent" and (cell == "" or cell != cell))
            )
        if trial.state.name == "COMPLETE":
            assert sweep.columns["value"][row] == trial.value
        here = sweep.points.rows == row
        steps = dict(zip(sweep.points.steps[here], sweep.points.values["value"][here], strict=True))
        assert steps == trial.intermediate_values
        assert sweep.columns["user_attrs_acc"][row] == trial.user_attrs.get("acc", "") or row == 5


def test_one_of_several_studies_is_asked_for(storages, imported):
    folder, _ = storages
    with pytest.raises(InputError, match=r"has more than one study: .one., .two.\. Name one: --study one"):
        imported(folder / "study.db")
    with pytest.raises(InputError, match=r"has no study 'three'\. It has 'one', 'two'"):
        imported(folder / "study.db", study="three")
    one, two = (imported(folder / file, study="one").table for file in ("study.db", "study.log"))
    assert [one.config(row) for row in range(len(one))] == [two.config(row) for row in range(len(two))]
    np.testing.assert_array_equal(one.values, two.values)
    assert one.curves.sha256 == two.curves.sha256
    assert np.isnan(one.column("value")[-1])  # it was infinite: the training diverged


def test_a_journal_that_is_cut_short_is_read_as_far_as_it_goes(storages, tmp_path, imported):
    """At any byte: what is whole is taken, and the line that is not is named."""
    whole = (storages[0] / "study.log").read_bytes()
    cut = tmp_path / "cut.log"
    first = whole.index(b"\n") + 1
    for end in [*range(first + 1, len(whole), len(whole) // 23), len(whole) - 5]:
        cut.write_bytes(whole[:end])
        try:
            notes = imported(cut, study="one").notes
        except InputError as error:  # not a finished trial yet
            assert "\n" not in str(error) and str(error).startswith(str(cut))
            continue
        if not whole[:end].endswith(b"}"):
            assert (
                whole[:end].endswith(b"\n")
                or f"line {whole[:end].count(10) + 1}, the last one, is cut short" in notes[0]
            )


def test_a_journal_with_a_torn_line_inside_is_refused_with_its_line(storages, tmp_path, imported):
    lines = (storages[0] / "study.log").read_bytes().splitlines(keepends=True)
    (tmp_path / "torn.log").write_bytes(b"".join([*lines[:4], lines[4][:20] + b"\n", *lines[5:]]))
    with pytest.raises(InputError, match=r"torn\.log, line 5: not valid JSON"):
        imported(tmp_path / "torn.log", study="one")
    record = json.loads(lines[3]) | {"study_id": "x", "trial_id": "x"}
    (tmp_path / "torn.log").write_bytes(
        b"".join([*lines[:3], json.dumps({**record, "op_code": 5}).encode() + b"\n"])
    )
    with pytest.raises(InputError, match=r"torn\.log, line 4: not a line of an Optuna journal"):
        imported(tmp_path / "torn.log")


def test_a_storage_of_an_old_version(tmp_path, imported):
    """Optuna 1 kept the direction with the study and the value with the trial."""
    with sqlite3.connect(tmp_path / "old.db") as database:
        database.executescript(
            "CREATE TABLE studies (study_id INTEGER, study_name TEXT, direction TEXT);"
            "CREATE TABLE trials (trial_id INTEGER, study_id INT, state TEXT, value FLOAT,"
            " datetime_start TEXT, datetime_complete TEXT);"
            "CREATE TABLE trial_params (trial_id INT, param_name TEXT, param_value REAL, distribution_json);"
            "CREATE TABLE trial_values (trial_id INTEGER, step INTEGER, value FLOAT);"
            "INSERT INTO studies VALUES (1, 'old', 'MAXIMIZE');"
        )
        log = '{"name": "LogUniformDistribution", "attributes": {"low": 0.001, "high": 1.0}}'
        for k in range(4):
            database.execute("INSERT INTO trials VALUES (?, 1, 'COMPLETE', ?, NULL, NULL)", (k, 0.5 + k))
            database.execute("INSERT INTO trial_params VALUES (?, 'lr', ?, ?)", (k, 0.1 * (k + 1), log))
    database.close()
    table = imported(tmp_path / "old.db").table
    assert table.column("value").tolist() == [0.5, 1.5, 2.5, 3.5]
    assert (table.metrics[0].direction, table.space["lr"].scale) == ("max", "log")


def test_several_objectives_have_their_names(tmp_path, imported, sweeps):
    """One of them is called as the durations are."""
    path = tmp_path / "study.db"
    path.write_bytes((sweeps / "study.db").read_bytes())
    with sqlite3.connect(path) as database:
        database.executescript(
            "INSERT INTO study_directions VALUES ('MINIMIZE', 1, 1);"
            "INSERT INTO trial_values VALUES (10, 1, 7.0, 'FINITE'), (11, 1, 8.0, 'FINITE');"
            "CREATE TABLE study_system_attributes (study_id INT, key TEXT, value_json TEXT);"
            """INSERT INTO study_system_attributes VALUES (1, 'study:metric_names', '["bleu", "seconds"]');"""
        )
    database.close()
    table = imported(path).table
    assert [str(table.objective(each)) for each in table.objectives] == ["bleu:max", "seconds:min"]
    np.testing.assert_array_equal(
        table.column("seconds"), [7, 8, np.nan]
    )  # pruned trials have no curves here
    assert [metric.name for metric in table.metrics] == ["bleu", "seconds", "seconds_"]


def test_databases_that_are_no_storage(tmp_path, imported, sweeps):
    with sqlite3.connect(tmp_path / "notes.db") as database:
        database.execute("CREATE TABLE notes (text TEXT)")
    database.close()
    with pytest.raises(InputError, match=r"neither Optuna nor MLflow \(its tables: notes\)"):
        imported(tmp_path / "notes.db")
    content = (sweeps / "study.db").read_bytes()
    (tmp_path / "cut.db").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"cut\.db: not a database that can be read"):
        imported(tmp_path / "cut.db")
    with sqlite3.connect(tmp_path / "views.db") as database:  # a view may run for ever
        database.executescript(
            "CREATE TABLE studies (study_id, study_name); CREATE TABLE trial_params (trial_id);"
            "CREATE VIEW trials AS WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x FROM n) "
            "SELECT x AS trial_id FROM n;"
        )
    database.close()
    with pytest.raises(InputError, match="neither Optuna nor MLflow"):
        imported(tmp_path / "views.db")


def test_a_database_is_left_as_it_is(tmp_path, imported, sweeps):
    path = tmp_path / "study.db"
    path.write_bytes((sweeps / "study.db").read_bytes())
    path.chmod(0o444)
    before = path.read_bytes()
    imported(path)
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["study.db"]
    (tmp_path / "study.db-wal").write_bytes(b"not yet written")
    with pytest.raises(InputError, match="a program has not written all of it yet"):
        imported(path)
