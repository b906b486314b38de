"""Sweeps as other programs write them, made here after their formats."""

import csv
import json
import sqlite3

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.lookup.imports.importing import make_table
from hpobench_nmt.lookup.imports.roles import stated
from hpobench_nmt.lookup.imports.sweep import Choices


def chosen(study="", curves=(), guessed=False, **roles):
    """Choices; the roles as `stated` takes them."""
    return Choices(stated(**roles), study, curves, guessed)


START = 1_700_000_000_000  # ms


@pytest.fixture(scope="session")
def imported():
    """Imports a file or folder with these choices."""

    def imported(path, name="", **choices):
        return make_table(path, name, chosen(**choices))

    return imported


@pytest.fixture(scope="module")
def read(tmp_path_factory, imported):
    """Imports a text as a file; guesses are accepted if `guessed`."""

    def read(text, name="sweep.csv", guessed=False, **choices):
        path = tmp_path_factory.mktemp("kind") / name
        path.write_text(text)
        return imported(path, guessed=guessed, **choices)

    return read


def write_csv(path, rows, quoting=csv.QUOTE_MINIMAL):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, quoting=quoting)
        lines.writerow(rows[0])
        lines.writerows(row.values() for row in rows)
    return path


def wandb(folder):
    """W&B's table of runs, and the CSV of a chart of val_loss: run 3 crashed, run 4 still runs."""
    rows, chart = [], {"Step": range(0, 50, 10)}
    for k in range(8):
        losses = [round(3 - 0.4 * i + 0.1 * k, 3) for i in range(5 if k != 3 else 2)]
        rows.append(
            {
                "Name": f"sweep-{k}",
                "State": {3: "crashed", 4: "running"}.get(k, "finished"),
                "Notes": "-",
                "User": "anna",
                "Tags": "",
                "Created": f"2024-03-0{k + 1}T10:00:00.000Z",
                "Runtime": 100 + k,
                "Sweep": "x1y2z3",
                "batch_size": 16 * 2 ** (k % 3),
                "data.path": "/data",
                "epochs": 5,
                "lr": 10.0 ** -(1 + k / 2),
                "optimizer": "adam" if k % 2 else "sgd",
                "_step": 49,
                "_wandb.runtime": 99,
                "train_loss": losses[-1] - 0.2,
                "val_loss": "NaN" if k == 3 else losses[-1],
            }
        )
        losses += [""] * (5 - len(losses))
        chart |= {f"sweep-{k} - val_loss{end}": losses for end in ("", "__MIN", "__MAX")}
        chart |= {f"sweep-{k} - _step{end}": range(0, 50, 10) for end in ("", "__MIN", "__MAX")}
    write_csv(folder / "runs.csv", rows, csv.QUOTE_ALL)
    lines = [dict(zip(chart, cells, strict=True)) for cells in zip(*chart.values(), strict=True)]
    write_csv(folder / "chart.csv", lines, csv.QUOTE_ALL)


def mlruns(folder):
    """MLflow's folder: run 2 failed, run 7 was deleted."""
    (folder / "0").mkdir(parents=True)
    (folder / "0" / "meta.yaml").write_text("experiment_id: '0'\nlifecycle_stage: active\nname: Default\n")
    experiment = folder / "123456"
    experiment.mkdir()
    (experiment / "meta.yaml").write_text(
        "experiment_id: '123456'\nlifecycle_stage: active\nname: de-en sweep\n"
    )
    for k in range(8):
        run = experiment / f"{k:032x}"
        for part in ("params", "metrics", "tags"):
            (run / part).mkdir(parents=True)
        (run / "meta.yaml").write_text(
            f"artifact_uri: file:///x\nend_time: {START + 60_000 + 1000 * k}\nentry_point_name: ''\n"
            f"experiment_id: '123456'\n"
            f"lifecycle_stage: {'deleted' if k == 7 else 'active'}\nrun_id: {k:032x}\nrun_name: calm-{k}\n"
            f"start_time: {START + k}\nstatus: {4 if k == 2 else 3}\ntags: []\nuser_id: anna\n"
        )
        params = {
            "lr": 10.0 ** -(k % 3 + 2),
            "layers": k % 2 + 1,
            "amp": "True",
            "decay": "None" if k < 4 else "0.1",
        }
        for name, value in params.items():
            (run / "params" / name).write_text(str(value))
        for name, first, sign in (("val_bleu", 20 + k, 1), ("train_loss", 3 + k, -0.5)):
            points = [f"{START + 10_000 * (i + 1)} {first + sign * i} {i}" for i in range(4)]
            (run / "metrics" / name).write_text("\n".join(points) + "\n")
        (run / "tags" / "mlflow.user").write_text("anna")


def mlflow_database(path):
    """MLflow's SQLite database, with the tables that matter."""
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER, name TEXT, lifecycle_stage TEXT);"
            "CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time BIGINT, end_time BIGINT,"
            " lifecycle_stage TEXT, experiment_id INTEGER);"
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INT, run_uuid TEXT, step INT, is_nan INT);"
            "INSERT INTO experiments VALUES (1, 'de-en', 'active');"
        )
        for k in range(6):
            state = ("FINISHED", START + 100 * k, START + 5000 + 101 * k, "active")
            database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, 1)", (f"r{k}", f"run {k}", *state))
            database.execute("INSERT INTO params VALUES ('lr', ?, ?)", (str(0.1 * (k + 1)), f"r{k}"))
            database.execute("INSERT INTO metrics VALUES ('loss', ?, 0, ?, 0, 0)", (2.0 + k, f"r{k}"))
    database.close()


def ray(folder, last="result.json"):
    """Ray Tune's folder of results: trial 4 ran out of memory, trial 5 has no report yet."""
    for k in range(6):
        trial = folder / f"train_a1b2c_0000{k}_{k}_lr=0.0{k}_2024-01-01_12-00-00"
        trial.mkdir(parents=True)
        config = {"lr": round(0.01 * (k + 1), 2), "model": {"layers": k % 2 + 1}, "seed": 1}
        (trial / "params.json").write_text(json.dumps(config))
        (trial / "params.pkl").write_bytes(b"\x80\x04.")
        reports = [
            {
                "loss": float("nan") if k == 4 and i == 3 else 1 / i + k,
                "timestamp": 1_700_000_000 + i,
                "done": False,
                "checkpoint_dir_name": None,
                "training_iteration": i,
                "trial_id": f"a1b2c_0000{k}",
                "pid": 7,
                "date": "2024-01-01_12-00-03",
                "time_this_iter_s": 1.5,
                "time_total_s": 1.5 * i,
                "hostname": "node",
                "node_ip": "10.0.0.1",
                "config": config,
                "time_since_restore": 1.5 * i,
                "iterations_since_restore": i,
            }
            for i in range(1, 3 if k % 2 else 5)
        ]
        if k != 5:
            (trial / "result.json").write_text("".join(json.dumps(report) + "\n" for report in reports))
        if k == 4:
            (trial / "error.txt").write_text("CUDA out of memory")


def ray_frame(path):
    """Ray Tune's get_dataframe() as CSV: the last report of each trial. Trial 4 has none of its loss."""
    rows = [
        {
            "loss": "" if k == 4 else 1.5 + k / 3,
            "timestamp": 1_700_000_000 + k,
            "checkpoint_dir_name": "",
            "done": True,
            "training_iteration": 4,
            "trial_id": f"a1b2c_0000{k}",
            "date": "2024-01-01_12-00-03",
            "time_this_iter_s": 1.5,
            "time_total_s": 6.0 + k,
            "pid": 7,
            "hostname": "node",
            "node_ip": "10.0.0.1",
            "time_since_restore": 6.0 + k,
            "iterations_since_restore": 4,
            "config/lr": 0.001 * 10 ** (k % 3),
            "config/model/layers": k % 2 + 1,
            "config/seed": 1,
            "logdir": f"a1b2c_0000{k}",
        }
        for k in range(6)
    ]
    pd.DataFrame(rows).to_csv(path, index=False)


def keras_tuner(folder):
    """A project of Keras Tuner: a folder for each trial, the third of which failed."""
    for k, (lr, layers) in enumerate([(0.1, 2), (0.1, 4), (0.01, 2), (0.01, 4)]):
        metrics = {"val_acc": {"direction": "max", "observations": [{"value": [k / 4], "step": 0}]}}
        values = {"lr": lr, "layers": layers}
        trial = {
            "trial_id": f"{k:04}",
            "hyperparameters": {"space": [{"class_name": "Int"}], "values": values},
        }
        trial |= {"metrics": {"metrics": metrics}, "score": k / 4, "best_step": k, "message": None}
        trial["status"] = "FAILED" if k == 2 else "COMPLETED"
        (folder / f"trial_{k:04}").mkdir(parents=True)
        (folder / f"trial_{k:04}" / "trial.json").write_text(json.dumps(trial))
    for name in ("oracle.json", "tuner0.json"):
        (folder / name).write_text("{}")


def nni(path):
    """The CSV file of `nnictl experiment export`, with the intermediate results of each trial."""
    rows = [
        {
            "intermediate": f"[{k}.5,{k}.75]",
            "lr": lr,
            "layers": layers,
            "reward": k + 0.75,
            "trialJobId": f"t{k}",
        }
        for k, (lr, layers) in enumerate([(0.1, 2), (0.1, 4), (0.01, 2), (0.01, 4)])
    ]
    return write_csv(path, rows)


def search_runs(path):
    """MLflow's search_runs() as CSV: run 3 failed."""
    rows = [
        {
            "run_id": f"{k:032x}",
            "experiment_id": 0,
            "status": "FAILED" if k == 3 else "FINISHED",
            "artifact_uri": "file:///x",
            "start_time": f"2024-05-01 10:00:0{k}.123000+00:00",
            "end_time": f"2024-05-01 10:0{k}:09.123000+00:00",
            "metrics.rmse": "" if k == 3 else 0.7 + k / 10,
            "params.alpha": 0.1 * k,
            "params.warm": "None" if k == 2 else "0.5",
            "params.fit": "True",
            "tags.mlflow.user": "anna",
            "tags.mlflow.runName": f"run-{k}",
        }
        for k in range(6)
    ]
    write_csv(path, rows)


def mlflow_page(path):
    """What the page of an MLflow server downloads."""
    rows = [
        {
            "Start Time": f"2024-05-01 10:00:0{k}",
            "Duration": f"{k + 1}.5min",
            "Run ID": f"{k:032x}",
            "Name": f"run-{k}",
            "Source Type": "LOCAL",
            "Source Name": "train.py",
            "User": "anna",
            "Status": "FINISHED",
            "alpha": 0.1 * k,
            "l1_ratio": 0.5,
            "rmse": 0.8 - k / 20,
        }
        for k in range(6)
    ]
    write_csv(path, rows)


def json_lines(path):
    """Lines of JSON with sections: one pruned, one failed, seeds, None and lists among the values."""
    lines = [
        {
            "config": {"lr": 10.0 ** -(k % 3), "hidden": [64] * (k % 2 + 1), "norm": ["layer", None][k % 2]},
            "state": {7: "PRUNED", 8: "FAIL"}.get(k, "COMPLETE"),
            "metrics": {"dev_ppl": 9.0 + k if k < 7 else None},
            "intermediate_values": {str(i): 20.0 + k - i for i in range(1, 3)},
            "seed": k // 6,
            "started": "2024-01-01",
        }
        for k in range(9)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def reports(path):
    """A log of one's own with a line for each epoch, as a program in Germany may write it."""
    lines = [f"r{k};{e};0,{k + 1};{30 - e},{k};{10 * e + k}" for k in range(4) for e in range(1, 4)]
    head = "\ufeff# of my cluster\nrun_id;epoch;lr;val_loss;train_time\n"
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def sklearn(path):
    """scikit-learn's cv_results_ as CSV."""
    rows = [
        {
            "": k,
            "mean_fit_time": 0.1 + k / 100,
            "std_fit_time": 0,
            "mean_score_time": 0,
            "std_score_time": 0,
            "param_C": 10.0 ** (k % 3),
            "param_gamma": ["scale", 0.1, "auto"][k // 3],
            "params": "{'C': 1}",
            "split0_test_score": 0.5,
            "mean_test_score": 0.5 + k / 100,
            "std_test_score": 0,
            "rank_test_score": 9 - k,
        }
        for k in range(9)
    ]
    write_csv(path, rows)


def wandb_api(path):
    """The recipe of W&B's documentation: a column of summaries and one of configurations, as texts."""
    rows = [
        {
            "": k,
            "summary": str(
                {
                    "val/loss": 1.5 + k if k else np.nan,
                    "_step": 9,
                    "_runtime": 12.5 + k,
                    "_wandb": {"runtime": 1},
                }
            ),
            "config": str({"lr": 10.0**-k, "opt": "adam", "act": "relu" if k % 2 else None}),
            "name": f"run{k}",
        }
        for k in range(5)
    ]
    write_csv(path, rows)


def trials_dataframe(path):
    """Optuna's trials_dataframe() as CSV: 4 failed, 5 was pruned, 6 runs; momentum is of sgd alone."""
    rows = []
    for k in range(8):
        state = {4: "FAIL", 5: "PRUNED", 6: "RUNNING"}.get(k, "COMPLETE")
        rows.append(
            {
                "": k,
                "number": k,
                "value": "" if state in ("FAIL", "RUNNING") else 20 + k,
                "datetime_start": f"2024-06-18 23:4{k}:30.802001",
                "datetime_complete": f"2024-06-18 23:5{k}:17.007052",
                "duration": f"0 days 00:0{k}:46.205051",
                "params_lr": 10.0 ** -(1 + k / 2),
                "params_depth": ["", 3, 5][k % 3],
                "params_momentum": 0.9 - k / 100 if k % 2 else "",
                "params_opt": "sgd" if k % 2 else "adam",
                "user_attrs_acc": k / 10,
                "user_attrs_host": "n1",
                "state": state,
            }
        )
    write_csv(path, rows)


def optuna_tables(path, study="nmt"):
    """An SQLite storage of Optuna, as far as it is read: two finished trials, a pruned and a failed one."""
    log = (
        '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}'
    )
    choice = '{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", null, [1, 2]]}}'
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE studies (study_id INTEGER, study_name TEXT);"
            "CREATE TABLE study_directions (direction TEXT, study_id INTEGER, objective INTEGER);"
            "CREATE TABLE trials (trial_id INTEGER, number INT, study_id INT, state TEXT,"
            " datetime_start TEXT, datetime_complete TEXT);"
            "CREATE TABLE trial_params (trial_id INT, param_name TEXT, param_value REAL, distribution_json);"
            "CREATE TABLE trial_values (trial_id INTEGER, objective INTEGER, value FLOAT, value_type TEXT);"
            "CREATE TABLE trial_intermediate_values (trial_id INT, step INT, intermediate_value FLOAT,"
            " intermediate_value_type TEXT);"
            "INSERT INTO study_directions VALUES ('MAXIMIZE', 1, 0);"
        )
        database.execute("INSERT INTO studies VALUES (1, ?)", (study,))
        for k, state in enumerate(("COMPLETE", "COMPLETE", "PRUNED", "FAIL", "WAITING")):
            times = (f"2024-01-01 10:00:0{k}.5", f"2024-01-01 10:0{k + 1}:10.5")
            database.execute("INSERT INTO trials VALUES (?, ?, 1, ?, ?, ?)", (k + 10, k, state, *times))
            database.execute(
                "INSERT INTO trial_params VALUES (?, 'lr', ?, ?)", (k + 10, 0.001 * (k + 1), log)
            )
            database.execute("INSERT INTO trial_params VALUES (?, 'opt', ?, ?)", (k + 10, k % 3, choice))
            if state == "COMPLETE":
                database.execute("INSERT INTO trial_values VALUES (?, 0, ?, 'FINITE')", (k + 10, 20.0 + k))
            for step in range({"COMPLETE": 3, "PRUNED": 2}.get(state, 0)):
                value = (k + 10, step, 20.0 + k - 2 + step, "FINITE")
                database.execute("INSERT INTO trial_intermediate_values VALUES (?, ?, ?, ?)", value)
    database.close()


@pytest.fixture(scope="session")
def sweeps(tmp_path_factory):
    """A folder with one sweep of every kind."""
    folder = tmp_path_factory.mktemp("sweeps")
    (folder / "wandb").mkdir()
    wandb(folder / "wandb")
    mlruns(folder / "mlruns")
    ray(folder / "ray")
    keras_tuner(folder / "keras")
    for write, name in (
        (mlflow_database, "mlflow.db"),
        (ray_frame, "ray.csv"),
        (search_runs, "search_runs.csv"),
        (mlflow_page, "page.csv"),
        (json_lines, "lines.jsonl"),
        (reports, "reports.csv"),
        (sklearn, "cv.csv"),
        (nni, "nni.csv"),
        (wandb_api, "api.csv"),
        (trials_dataframe, "trials.csv"),
        (optuna_tables, "study.db"),
    ):
        write(folder / name)
    return folder
