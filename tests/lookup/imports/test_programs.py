"""Files of tuning programs whose layout is their own: rungs, runs in runs, histories, states."""

import json
from shutil import copytree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_rows import texts

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.importing import Unsure, import_table, make_table
from hpobench_nmt.lookup.imports.sweep import Choices


def test_states_and_bookkeeping_of_programs(read):
    states = ["COMPLETED", "FAILED", "COMPLETED", "EARLY_STOPPED", "COMPLETED", "ABANDONED"]
    rows = [
        {"trial_index": k, "arm_name": f"{k}_0", "trial_status": state, "generation_node": "Sobol",
         "val_loss": "" if state in ("FAILED", "ABANDONED") else 1 + k, "lr": 0.1 + k, "layers": k % 2}
        for k, state in enumerate(states)
    ]  # fmt: skip
    table = read(texts(rows)).table
    assert table.space.names == ("lr", "layers")
    np.testing.assert_array_equal(table.column("val_loss"), [1, np.nan, 3, 5, np.nan])
    log = [
        {
            "#num-ask": k,
            "#num-tell": k,
            "#uid": f"u{k}",
            "#generation": k // 2,
            "#parents_uids": [],
            "#loss": k,
        }
        | {"lr": 10.0**-k, "layers": k % 2}
        for k in range(4)
    ]
    table = read("".join(json.dumps(row) + "\n" for row in log), "log.jsonl").table
    assert (table.space.names, [str(table.objective(o)) for o in table.objectives]) == (
        ("lr", "layers"), ["loss:min"],
    )  # fmt: skip


def test_rounds_of_a_halving_search_are_a_curve(read):
    """The score of the last round counts; what was dropped is pruned."""
    rows = [
        {"iter": round_, "n_resources": n, "mean_fit_time": 0.1 * n, "param_lr": lr, "param_depth": d,
         "params": "{}", "mean_test_score": score}
        for round_, n, lr, d, score in [
            (0, 20, 0.1, 2, 0.5), (0, 20, 0.1, 4, 0.6), (0, 20, 0.01, 2, 0.4), (0, 20, 0.01, 4, 0.62),
            (1, 60, 0.1, 4, 0.9), (1, 60, 0.01, 4, 0.8),
        ]
    ]  # fmt: skip
    table = read(texts(rows)).table
    np.testing.assert_array_equal(table.column("score"), [np.nan, 0.9, np.nan, 0.8])
    assert table.curves.lengths.tolist() == [1, 2, 1, 2] and table.curves[1].resources.tolist() == [20, 60]


def test_a_run_that_is_the_parent_of_others_is_left_out(read, sweeps, tmp_path):
    rows = [
        {"run_id": run, "experiment_id": 0, "status": "FINISHED", "tags.mlflow.parentRunId": parent,
         "params.lr": lr, "metrics.val_loss": loss}
        for run, parent, lr, loss in [("p", "", 1, 4), ("a", "p", 2, 5), ("b", "p", 1, 4)]
    ]  # fmt: skip
    table, _, _, notes, _ = read(texts(rows))
    assert len(table) == 2 and notes == ("1 run with nested runs left out: the nested runs count",)
    folder = copytree(sweeps / "mlruns", tmp_path / "mlruns")
    for run in sorted((folder / "123456").glob("0*"))[1:]:
        (run / "tags" / "mlflow.parentRunId").write_text(f"{0:032x}")
    for path in (folder / "123456" / f"{0:032x}" / "params").iterdir():
        path.unlink()
    table, _, _, notes, _ = make_table(folder, "", Choices())
    assert notes == ("1 run with nested runs left out: the nested runs count",)
    assert table.space["layers"].values == (1, 2)


def test_a_frame_of_ray_says_which_trainings_ended_early(read):
    rows = [
        {"val_loss": 1 - k / 9, "training_iteration": step, "trial_id": f"a{k}", "config/lr": 0.1 * (k + 1)}
        for k, step in enumerate((1, 1, 100, 10))
    ]
    assert read(texts(rows)).notes[0].startswith("3 of 4 trainings ended before training_iteration 100")


def test_json_over_several_lines(read):
    """SMAC's run history, also with budgets; anything else is described in one line."""
    data = [[1, None, 0, 1.0, 0.5, 10.0, 1, 100.0, 110.0, {}], [1, None, 0, 9.0, 0.25, 90.0, 1, 0.0, 1.0, {}]]
    data += [[2, None, 0, 1.0, 0.75, 9.0, 1, 100.0, 110.0, {}], [3, None, 0, 1.0, 9e9, 3.0, 2, 0.0, 1.0, {}]]
    history = {"data": data, "configs": {str(k): {"lr": 0.1 * k, "opt": "016"} for k in (1, 2, 3)}}
    table = read(json.dumps(history, indent=2), "runhistory.json").table
    assert table.space.names == ("lr",) and table.curves.lengths.tolist()[:2] == [2, 1]
    np.testing.assert_array_equal(table.column("cost_"), [0.25, 0.75, np.nan])
    one = json.dumps({**history, "data": data[:1]}, indent=2)
    with pytest.raises(
        InputError, match=r"varies is a hyperparameter. These are not: config.lr \(always 0.1\)"
    ):
        read(one, "runhistory.json")
    with pytest.raises(
        InputError, match=r"is one JSON object \(with 'best_metric', 'log_history'\), not lines"
    ):
        read(json.dumps({"best_metric": 1, "log_history": []}, indent=2), "trainer_state.json")


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 9))
def test_rungs_of_syne_tune_are_curves(read, scale):
    """A training that the scheduler stopped is pruned; one that reached the last rung has its last report."""
    rows = [
        {"": k, "trial_id": trial, "st_decision": "CONTINUE", "st_status": "InProgress", "epoch": epoch,
         "error": scale / epoch + trial, "config_lr": 0.1 * (trial + 1), "config_layers": trial % 2 + 1,
         "st_worker_time": 10.0 * epoch, "st_tuner_time": float(k), "st_worker_iter": epoch - 1}
        for k, (trial, epoch) in enumerate([(0, 1), (1, 1), (0, 3), (2, 1), (2, 3), (2, 9), (0, 9), (3, 1)])
    ]  # fmt: skip
    table = read(texts(rows)).table
    assert table.space.names == ("lr", "layers") and table.curves.lengths.tolist() == [3, 1, 3, 1]
    np.testing.assert_array_equal(table.column("error"), [scale / 9, np.nan, scale / 9 + 2, np.nan])
    np.testing.assert_array_equal(table.curves[0].costs, [10, 30, 90])
    rows[1]["trial_id"] = 0
    with pytest.raises(InputError, match="several lines for one step of a training"):
        read(texts(rows))


def test_the_full_table_of_neps(read):
    """The column evaluation_duration occurs twice there, with the same cells."""
    head = "id,config.lr,config.opt,objective_to_minimize,evaluation_duration,reported_as,state,time_sampled,"
    head += "evaluation_duration\n"
    rows = [f"{k},0.{k + 1},{'ab'[k % 2]},{k},{9 + k},{s},{s},17.{k},{9 + k}" for k, s in
            enumerate(["success", "success", "crashed", "success"])]  # fmt: skip
    table = read(head + "\n".join(rows) + "\n", "full.csv").table
    assert table.space.names == ("lr", "opt")
    assert [str(table.objective(o)) for o in table.objectives] == ["objective_to_minimize:min"]
    np.testing.assert_array_equal(table.column("objective_to_minimize"), [0, 1, np.nan, 3])
    np.testing.assert_array_equal(table.column("seconds"), [9, 10, np.nan, 12])
    with pytest.raises(InputError, match="column 'evaluation_duration' occurs twice"):
        read(head + "\n".join(rows).replace(",11", ",12", 1) + "\n", "full.csv")


def test_a_table_of_hpo_b_is_named(read):
    tasks = {
        task: {"X": [[0.1 * k, k % 2] for k in range(4)], "y": [[k / 9] for k in range(4)]} for task in "ab"
    }
    text = json.dumps({"5860": tasks})
    table = read(text, "hpob.json", study="5860/b").table
    assert table.name == "5860-b" and table.space.names == ("x0", "x1")
    assert [str(table.objective(o)) for o in table.objectives] == ["y:max"]
    assert table.column("y").tolist() == [k / 9 for k in range(4)]
    with pytest.raises(
        InputError, match=r"more than one table: '5860/a', '5860/b'\. Name one: --study 5860/a"
    ):
        read(text, "hpob.json")


def test_our_own_state_comes_back_exactly(tmp_path):
    """Configurations, losses, failures, the space and its kinds."""
    space = hb.Space(
        (
            hb.Hyperparameter("lr", (1e-5, 0.1), "log", continuous=True),
            hb.Hyperparameter("layers", (1, 2, 4), unit="layers"),
            hb.Hyperparameter("size", ("small", "large", "16", "016"), kind="ordinal"),
            hb.Hyperparameter("opt", ("sgd", True, None, (1, 2)), kind="categorical"),
            hb.Hyperparameter("momentum", (0.1, 0.9), active_if=(("opt", ("sgd",)),)),
        )
    )
    told = []

    def loss(config):
        told.append((config, None if len(told) == 5 else config["lr"] / 3 + len(told)))
        return told[-1][1]

    path = tmp_path / "state.json"
    hb.minimize(loss, space, budget=16, state=path)
    table = import_table(path)
    assert [str(table.objective(o)) for o in table.objectives] == ["loss:min"]
    assert [table.config(row) for row in range(len(table))] == [config for config, _ in told]
    wanted = [np.nan if value is None else value for _, value in told]
    np.testing.assert_array_equal(table.column("loss"), wanted)
    assert table.hyperparameters[1:] == space.hyperparameters[1:]
    assert (table.space["lr"].scale, table.space["lr"].kind) == ("log", "numeric")


def test_folders_of_keras_tuner_and_of_nni(tmp_path, imported, sweeps):
    """The score is asked about, because its direction is not in these files. NNI has an export of its own."""
    with pytest.raises(Unsure, match=r"guesses: score .objective: it is not known whether smaller or larger"):
        imported(sweeps / "keras")
    table = imported(sweeps / "keras", name="tuned", metrics=("score:max",)).table
    assert table.space.names == ("lr", "layers") and [m.name for m in table.metrics] == ["score"]
    np.testing.assert_array_equal(table.column("score"), [0, 0.25, np.nan, 0.75])
    (tmp_path / "nni" / "db").mkdir(parents=True)
    (tmp_path / "nni" / "db" / "nni.sqlite").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"is a folder of NNI\. Import the file that 'nnictl experiment export"
    ):
        imported(tmp_path / "nni")


def test_intermediate_results_of_nni_are_curves(imported, sweeps):
    table = imported(sweeps / "nni.csv").table
    assert table.space.names == ("lr", "layers") and [m.name for m in table.metrics] == ["reward"]
    assert table.column("reward").tolist() == [0.75, 1.75, 2.75, 3.75]
    assert [table.curve(row).values[:, 0].tolist() for row in (0, 3)] == [[0.5, 0.75], [3.5, 3.75]]
