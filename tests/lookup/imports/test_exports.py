"""Exports of every kind come in as they are; and what is decided on each is what a person would."""

import json

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.archives import folder_members
from hpobench_nmt.lookup.imports.importing import Unsure

# The choices it needs, kind, rows, hyperparameters (* on a log scale), objective, metrics, checkpoints.
KINDS = {
    "trials.csv": (
        {"metrics": ("value:max",)},
        "Optuna's trials_dataframe()",
        6,
        "lr* depth momentum opt",
        "value:max",
        "acc seconds",
        None,
    ),
    "study.db": ({}, "an Optuna storage", 4, "lr* opt", "value:max", "seconds", 8),
    "wandb": (
        {"metrics": ("val_loss",)},
        "a W&B export of runs",
        7,
        "batch_size* lr* optimizer",
        "val_loss:min",
        "train_loss seconds",
        32,
    ),
    "search_runs.csv": ({}, "MLflow's search_runs()", 6, "alpha warm", "rmse:min", "seconds", None),
    "page.csv": ({}, "an MLflow export", 6, "alpha", "rmse:min", "seconds", None),
    "mlruns": (
        {},
        "a folder of MLflow's runs",
        7,
        "decay layers lr*",
        "val_bleu:max",
        "train_loss seconds",
        28,
    ),
    "mlflow.db": ({}, "MLflow's database", 6, "lr", "loss:min", "seconds", None),
    "ray": ({}, "a folder of Ray Tune's results", 5, "lr model/layers", "loss:min", "seconds", 15),
    "ray.csv": ({}, "Ray Tune's results", 6, "lr* model/layers", "loss:min", "seconds", None),
    "lines.jsonl": ({}, "JSON lines", 6, "lr* hidden norm", "dev_ppl:min", "", 12),
    "reports.csv": ({}, "a table", 4, "lr", "val_loss:min", "seconds", 12),
    "cv.csv": ({}, "scikit-learn's cv_results_", 9, "C* gamma", "score:max", "seconds", None),
    "api.csv": ({}, "a W&B export of runs", 5, "lr* act", "val/loss:min", "seconds", None),
}


@pytest.mark.parametrize("name", KINDS)
def test_it_comes_in_as_it_is(sweeps, imported, name):
    choices, kind, rows, axes, objective, others, checkpoints = KINDS[name]
    table, found, _, _, _ = imported(sweeps / name, **choices)
    assert found == kind
    assert len(table) == rows
    assert [h.name + "*" * (h.scale == "log") for h in table.hyperparameters] == axes.split()
    assert [str(table.objective(each)) for each in table.objectives] == [objective]
    assert [m.name for m in table.metrics[1:]] == others.split()
    assert (table.curves and len(table.curves.costs)) == checkpoints


def test_states_of_trials(sweeps, imported):
    """Failed: no value. Pruned: its last value is no result. Running: no row."""
    table, _, decisions, _, _ = imported(sweeps / "trials.csv", metrics=("value:max",))
    np.testing.assert_array_equal(table.column("value"), [20, 21, 22, 23, np.nan, 27])
    np.testing.assert_allclose(table.column("seconds")[1], 60 + 46.205051)
    assert {d.text for d in decisions if d.part == "rows"} == {
        "1 training failed (metrics missing)",
        "1 training pruned, without intermediate values here (left out)",
        "1 training not finished (left out)",
    }


def test_empty_cells_are_none_or_inactive(sweeps, imported):
    table = imported(sweeps / "trials.csv", metrics=("value:max",)).table
    assert table.space["momentum"].active_if == (("opt", ("sgd",)),)
    assert table.space["depth"].values == (None, 3, 5)
    assert table.config(0) == {"lr": 0.1, "depth": None, "opt": "adam"}


def test_pruned_trials_are_curves(sweeps, imported):
    table = imported(sweeps / "study.db").table
    np.testing.assert_array_equal(table.column("value"), [20, 21, np.nan, np.nan])
    assert table.curves.lengths.tolist() == [3, 3, 2, 0]
    assert table.curves.own == ("best",)  # the last value of the pruned trial is not its own
    np.testing.assert_array_equal(table.curves[2].values[:, 0], [20, 21])
    np.testing.assert_array_equal(table.curves[2].resources, [1, 2])  # steps from 0 are counted from 1
    assert table.space["opt"].values == (None, (1, 2), "adam")


def test_charts_are_the_curves_of_their_runs(sweeps, imported):
    table = imported(sweeps / "wandb", metrics=("val_loss",)).table
    assert (table.curves.resource, table.curves.metrics[0].name) == ("step", "val_loss")
    np.testing.assert_array_equal(table.curves[0].values[:, 0], [3, 2.6, 2.2, 1.8, 1.4])
    assert table.curves.lengths.tolist() == [5, 5, 5, 2, 5, 5, 5]  # the run that goes on has no row
    apart = imported(
        sweeps / "wandb" / "runs.csv", metrics=("val_loss",), curves=(sweeps / "wandb" / "chart.csv",)
    ).table
    assert (apart.sha256, apart.curves.sha256) == (table.sha256, table.curves.sha256)


def test_reports_of_a_training_are_one_row(sweeps, imported):
    table = imported(sweeps / "reports.csv").table
    np.testing.assert_array_equal(table.column("val_loss"), [27.0, 27.1, 27.2, 27.3])
    np.testing.assert_array_equal(table.column("seconds"), [30, 31, 32, 33])
    np.testing.assert_array_equal(table.curves[1].costs, [11, 21, 31])
    assert table.curves.cost_unit == "s"


def test_trainings_that_ended_early_are_told(sweeps, imported):
    """Ray's schedulers leave no trace of what they stopped."""
    notes = imported(sweeps / "ray").notes
    assert len(notes) == 1 and notes[0].startswith(
        "2 of 6 trainings ended before training_iteration 4, which"
    )
    assert imported(sweeps / "reports.csv").notes == ()


def test_ray_takes_progress_where_there_are_no_lines(tmp_path, sweeps, imported):
    """The CSV file beside them holds the same reports."""
    from shutil import copytree

    copytree(sweeps / "ray", tmp_path / "ray")
    for path in (tmp_path / "ray").glob("*/result.json"):
        lines = path.read_text().splitlines()
        path.unlink()
        from json import loads

        reports = [{**loads(line), "config": ""} for line in lines]
        rows = [",".join(reports[0])] + [
            ",".join("" if v is None else str(v) for v in report.values()) for report in reports
        ]
        (path.parent / "progress.csv").write_text("\n".join(rows) + "\n")
    table, whole = (imported(folder / "ray").table for folder in (tmp_path, sweeps))
    assert (table.sha256, table.curves.sha256) == (whole.sha256, whole.curves.sha256)


@pytest.mark.parametrize(("done", "results"), [(True, 6), (False, 5)])
def test_a_trial_of_ray_that_recovered_from_an_error_has_its_result(tmp_path, imported, done, results):
    for k in range(6):
        trial = tmp_path / "ray" / f"trial_{k}"
        trial.mkdir(parents=True)
        (trial / "params.json").write_text(json.dumps({"lr": k / 10}))
        steps = [1, 2, 2, 3] if k == 2 else [1, 2, 3]  # it was restarted from step 1
        (trial / "result.json").write_text(
            "".join(
                json.dumps({"training_iteration": i, "loss": k + 1 / i, "done": i == 3 and (done or k != 2)})
                + "\n"
                for i in steps
            )
        )
    (tmp_path / "ray" / "trial_2" / "error.txt").write_text("a node was lost")
    assert np.isfinite(imported(tmp_path / "ray").table.column("loss")).sum() == results
    for path in (tmp_path / "ray").glob("*/result.json"):  # progress.csv has the same as texts
        reports = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        rows = [",".join(reports[0])] + [",".join(map(str, report.values())) for report in reports]
        (path.parent / "progress.csv").write_text("\n".join(rows) + "\n")
    assert np.isfinite(imported(tmp_path / "ray").table.column("loss")).sum() == results


def test_repeated_configurations_are_replicates_with_their_seeds(sweeps, imported):
    table, _, decisions, _, _ = imported(sweeps / "lines.jsonl")
    again = table.replicates.rows
    assert again.seeds.tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_array_equal(
        again.values[:, 0], [15, np.nan, np.nan]
    )  # the others were pruned, and failed
    assert table.curves.own == (None,)  # dev_ppl was measured in another way
    assert table.column("dev_ppl").tolist() == [9.0, 10.0, 11.0, 12.0, 13.0, 14.0]
    assert "9 trainings of 6 configurations" in " ".join(d.text for d in decisions)


def test_nothing_is_unpickled(sweeps):
    names = [name for name, _ in folder_members(sweeps / "ray", r".*\.pkl", 100)]
    assert len(names) == 6  # and the import above has read none of them


@pytest.mark.parametrize(
    "case",
    [
        "07-optuna-export-as-it-is/optuna.csv",
        "08-missing-markers/mlflow.csv",
        "11-semicolons-decimal-commas/eu.csv",
        "16-infinite-metric-of-a-diverged-run/diverged.csv",
    ],
)
def test_the_files_of_users(request, imported, case):
    path = request.config.rootpath.parent / "shared" / "cases" / case
    if not path.is_file():
        pytest.skip("the files are not in ../shared/cases")
    table = imported(path, metrics=("value:max",) if case.startswith("07") else ()).table
    assert {
        "07": lambda: (
            table.column("value")[:3].tolist() == [0.586, 0.681, 0.859] and np.isnan(table.column("value")[3])
        ),
        "08": lambda: np.isnan(table.column("val_loss")).tolist() == [False, True, True, True],
        "11": lambda: table.config(0) == {"lr": 0.1} and table.column("loss").tolist() == [1.5, 2.5],
        "16": lambda: np.isnan(table.column("val_loss")).tolist() == [True, False, False],
    }[case[:2]]()


def test_what_cannot_be_known_is_asked(sweeps, imported):
    with pytest.raises(Unsure, match="it is not known whether smaller or larger is better"):
        imported(sweeps / "trials.csv")
    with pytest.raises(InputError, match="has learning curves, not hyperparameters"):
        imported(sweeps / "wandb" / "chart.csv")


@pytest.mark.parametrize("odd", [{}, {"x": {}}, [[1, 2], [2]], [{"x": 1}], {"a": [[{"b": 1}]]}])
def test_nested_values_of_json_are_labels_or_nothing(tmp_path, imported, odd):
    path = tmp_path / "lines.jsonl"
    lines = [
        {"config": {"lr": k / 10, "odd": odd if k % 2 else "plain"}, "loss": 2.0 - k / 9} for k in range(1, 9)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = imported(path)[0]
    assert len(table.configs) == 8
