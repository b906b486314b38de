"""Decisions on small sweeps: what columns and rows are, and which way is better."""

import json

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.axes import scale_of
from hpobench_nmt.lookup.imports.cells import are_dates, as_seconds, column_of, states_of
from hpobench_nmt.lookup.imports.importing import Unsure, import_table
from hpobench_nmt.lookup.imports.names import direction, is_identity, is_seconds, is_seed, part_of_data


@pytest.fixture
def table_of(tmp_path, imported):
    """The table of a text, imported with these choices."""

    def table_of(text, name="sweep.csv", encoding="utf-8", **choices):
        (tmp_path / name).write_text(text, encoding=encoding)
        return imported(tmp_path / name, **choices)

    return table_of


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            "loss val_loss valLoss val/loss eval_loss_1 dev_ppl wer test.rmse train_error seconds latency_ms",
            "min",
        ),
        (
            "acc val_acc acc@1 Accuracy BLEU dev_bleu f1 macro_f1 roc_auc R2 neg_mean_squared_error reward",
            "max",
        ),
        ("value score objective lr dropout lossy accuracy_loss metric_3 l2 neg_log_likelihood", None),
    ],
)
def test_directions_by_name(names, expected):
    assert {name: direction(name) for name in names.split()} == dict.fromkeys(names.split(), expected)


def test_what_names_tell():
    assert all(
        map(is_identity, ("", "id", "run_id", "Run ID", "trial", "Unnamed: 0", "_timestamp", "uuid", "host"))
    )
    assert not any(map(is_identity, ("width", "valid", "hidden", "period", "n_trials_width")))
    assert all(map(is_seed, ("seed", "random_seed", "random_state", "np.seed"))) and not is_seed("seedling")
    assert all(map(is_seconds, ("duration", "train_time", "time_total_s", "Runtime"))) and not is_seconds(
        "timeout"
    )
    assert [part_of_data(n) for n in ("val_loss", "dev-ppl", "test_acc", "trainLoss", "loss")] == [
        "held out",
        "held out",
        "test",
        "train",
        "",
    ]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 3, 4], "linear"),
        ([1, 2, 4, 8], "log"),
        ([64, 128, 256], "log"),
        ([0.1, 0.2, 0.3, 0.5], "linear"),
        ([1e-5, 3e-5, 1e-4, 3e-4, 1e-3], "log"),
        ([0, 1e-4, 1e-3], "linear"),
        ([-1, 10, 100], "linear"),
        ([1e-4, 1e-2], "log"),
        ([2, 4], "linear"),
        ([5], "linear"),
    ],
)
def test_scales_of_grids(values, scale):
    assert scale_of(np.array(values, dtype=float))[0] == scale


@pytest.mark.parametrize("seed", range(20))
def test_scales_of_what_was_drawn(seed):
    rng = np.random.default_rng(seed)
    assert scale_of(np.sort(10 ** rng.uniform(-5, -1, 30)))[0] == "log"
    assert scale_of(np.sort(rng.uniform(0, 1, 30)))[0] == "linear"


def test_durations_dates_and_states():
    cells = ["0 days 00:02:27.201905", "1 days 01:00:00", "1.5min", "250ms", "1h 2m 3s", "7", "soon", ""]
    np.testing.assert_allclose(
        as_seconds(column_of(cells)), [147.201905, 90_000, 90, 0.25, 3723, 7, np.nan, np.nan]
    )
    assert are_dates(column_of(["2024-01-01", "2024-01-01 10:00:00+00:00", "2024-01-01_10-00-00", ""]))
    assert not are_dates(column_of(["2024", "2024-01-01x"])) and not are_dates(column_of([1.0]))
    assert states_of(["TrialState.COMPLETE", "crashed", "Pruned", "killed"]).tolist() == [
        "finished",
        "failed",
        "pruned",
        "unfinished",
    ]
    assert states_of(["good", "bad"]) is None


def test_text_of_every_kind_is_read(table_of):
    """The same table with other separators, marks, comments and encodings."""
    lines = [f"{k}{{0}}5{{1}}{8 - k}{{0}}25{{1}}{'ab'[k % 2]}" for k in range(1, 6)]

    def text(separator, point, head=""):
        body = "\n".join(line.format(point, separator) for line in lines)
        return head + f"lr{separator}val_loss{separator}kind\n{body}\n"

    wanted = table_of(text(",", ".")).table
    assert wanted.config(0) == {"lr": 1.5, "kind": "b"} and wanted.column("val_loss")[0] == 7.25
    for separator, point, head, encoding in (
        (";", ",", "", "utf-8-sig"),
        ("\t", ".", "# a comment\n\n# another\n", "utf-8"),
        ("|", ",", "", "utf-8"),
        (";", ".", "sep=;\n", "utf-8"),
        ("\t", ",", "", "utf-16"),
    ):
        assert table_of(text(separator, point, head), encoding=encoding).table.sha256 == wanted.sha256
    quoted = table_of(
        text(",", ".").replace("\na", '\n"a"').replace("kind", '"kind"').replace("\n", "\r\n")
    ).table
    assert quoted.sha256 == wanted.sha256
    saved = table_of(
        "# lr val_loss\n".replace(" val", "|val") + "1|2\n3|4\n"
    ).table  # as numpy.savetxt writes a header
    assert saved.column("val_loss").tolist() == [2, 4]


@pytest.mark.parametrize("separator", ["\t", "|", ";"])
def test_commas_are_decimal_only_if_no_number_has_a_point(table_of, separator):
    rows = [("width", "layers", "val_loss")]
    rows += [(f"{k},000", f"{k % 2 + 1}6,64", f"{9 - k}.5") for k in range(1, 7)]
    text = "".join(separator.join(row) + "\n" for row in rows)
    table = table_of(text).table
    assert table.config(0) == {"width": "1,000", "layers": "26,64"}
    table = table_of(text.replace(".", ",")).table
    assert table.config(0) == {"width": 1, "layers": 26.64} and table.column("val_loss")[0] == 8.5
    table = table_of(text.replace(".", ",").replace("16,64", "1.16.64").replace("26,64", "v2.6")).table
    assert table.config(1) == {"width": 2, "layers": "1.16.64"} and table.column("val_loss")[0] == 8.5


def test_comments_between_rows_and_blank_lines_are_no_rows(table_of):
    table = table_of("# mine\nlr,val_loss\n0.1,1\n# restarted\n\n0.2,2\n").table
    assert table.column("val_loss").tolist() == [1, 2]
    with pytest.raises(InputError, match=r"line 6: 'val_loss' is 'x'"):
        table_of("# mine\nlr,val_loss\n0.1,1\n# restarted\n\n0.2,x\n")


def test_the_objective_is_on_held_out_data(table_of):
    head = "lr,train_loss,val_loss,test_loss\n"
    rows = "".join(f"0.{k},{k + 1},{k + 2},{k + 3}\n" for k in range(1, 5))
    assert table_of(head + rows).table.objectives == ("val_loss",)
    assert table_of(head.replace("val_", "") + rows).table.objectives == ("loss",)
    with pytest.raises(Unsure, match="it is one of 2 metrics that may be the objective"):
        table_of(head.replace("test_loss", "val_acc") + rows)
    chosen = table_of(head + rows, metrics=("test_loss:max", "train_loss")).table
    assert (chosen.objectives, chosen.metrics[0].direction) == (("test_loss",), "max")


def test_columns_that_are_neither(table_of):
    rows = [
        {"trial": k, "when": f"2024-01-{k:02d}", "lr": 10.0**-k, "host": "a", "batch": 32, "opt": "ab"[k % 2]}
        | {"val_loss": k / 10, "empty": None, "remark": f"n{k}", "order": k}
        for k in range(1, 13)
    ]
    table, _, decisions, _, _ = table_of("".join(json.dumps(row) + "\n" for row in rows), "rows.jsonl")
    assert [h.name for h in table.hyperparameters] == ["lr", "opt"]
    left = {d.name: d.text for d in decisions if d.part == "left out"}
    assert left["when"] == "dates" and left["trial"] == "it names or dates a training"
    assert left["remark"] == "another text in every row: it names them" and left["empty"] == "always None"
    assert left["order"] == "it counts the rows" and left["batch"] == "always 32"


def test_an_unknown_column_is_asked_about(table_of):
    rng = np.random.default_rng(0)
    text = "lr,val_loss,foo,bar\n" + "".join(
        f"0.{k},{k},{a},{b}\n" for k, (a, b) in enumerate(rng.random((9, 2)), 1)
    )
    with pytest.raises(
        Unsure, match=r"guesses: foo \(hyperparameter: its name shows neither .*, bar \(hyperparameter: its"
    ):
        table_of(text)
    table = table_of(text, ignored=("foo",), hyperparameters=("bar",)).table
    assert [h.name for h in table.hyperparameters] == ["lr", "bar"] and len(table.metrics) == 1


def test_conditions_may_have_conditions(table_of):
    """beta is of adam, and amsgrad of the larger beta: each explains the holes of the next."""
    rows = ["opt,beta,decay,val_loss"]
    for k in range(12):
        opt, beta = ("adam", "sgd")[k % 2], (0.9, 0.99)[k // 2 % 2]
        decay = f"0.{k + 1}" if (opt, beta) == ("adam", 0.99) else ""
        rows.append(f"{opt},{beta if opt == 'adam' else ''},{decay},{k}")
    table = table_of("\n".join(rows) + "\n", hyperparameters=("decay",)).table
    assert table.space["beta"].active_if == (("opt", ("adam",)),)
    assert table.space["decay"].active_if == (("beta", (0.99,)),)


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_list_of_numbers_is_a_value_or_a_curve(table_of):
    """Adam's betas and the widths of layers are values, and losses after each epoch are a curve."""
    rows = [
        {"lr": k // 2 / 10, "betas": [0.9, 0.99 + k % 2 / 200], "layers": [8] * (k % 2 + 1), "loss": k}
        for k in range(12)
    ]
    table = table_of(lines_of(rows), "values.jsonl").table
    assert table.space.names == ("lr", "betas", "layers") and table.curves is None
    assert table.space["betas"].values == ((0.9, 0.99), (0.9, 0.995))
    curved = [row | {"val_loss": [3 + k, 2 + k, 1 + k], "rate": [1, 2, 3]} for k, row in enumerate(rows)]
    table = table_of(lines_of(curved), "curves.jsonl", metrics=("val_loss",)).table
    assert table.space.names == ("lr", "betas", "layers")
    assert [m.name for m in table.curves.metrics] == ["val_loss"]  # "rate" goes with it, and has no direction


def test_curves_may_be_equal_where_trainings_diverged(table_of):
    rows = [{"lr": k / 10, "width": k % 3, "history": [3.5 + k, 2.5, 1.5 - k], "loss": k} for k in range(6)]
    for row in rows[:2]:
        row["history"] = [1e9, 1e9, 1e9]
    with pytest.raises(Unsure, match=r"history .hyperparameter: it has lists, which may be"):
        table_of(lines_of(rows), "rows.jsonl")
    table = table_of(lines_of(rows), "rows.jsonl", metrics=("loss", "history:min")).table
    assert table.space.names == ("lr", "width") and table.curves.lengths.tolist() == [3] * 6


def test_one_name_is_a_list_of_one(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("lr,rest,loss\n" + "".join(f"{k / 10},{k * 0.37},{k % 5}.5\n" for k in range(1, 13)))
    assert import_table(path, hyperparameters="rest").space.names == ("lr", "rest")
    assert import_table(path, ignored="rest").space.names == ("lr",)
    with pytest.raises(InputError, match="cannot be read"):
        import_table(path, ignored="rest", curves="charts.csv")


def test_arguments_of_another_type_are_one_line(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("lr,val_acc\n" + "".join(f"0.{k},{k % 5}.5\n" for k in range(1, 9)))
    none = dict.fromkeys(("metrics", "hyperparameters", "ignored", "curves", "seed", "study"))
    table = import_table(path, **none)
    assert table.metrics[0].direction == "max"
    assert import_table(str(path), metrics=np.array(["val_acc:min"])).metrics[0].direction == "min"
    frame = table.to_frame()
    for given, message in (
        ({"metrics": {"val_acc": "min"}}, r"metrics must be a list, not \{'val_acc': 'min'\}"),
        ({"metrics": [("val_acc", "max")]}, r"metrics must hold texts, such as 'dev_bleu:max', not \('val_"),
        ({"hyperparameters": {"lr"}}, r"hyperparameters must be a list, not \{'lr'\}"),
        ({"ignored": [3]}, "ignored must hold texts, not 3"),
        ({"curves": 3}, "curves must be a list, not 3"),
        ({"seed": ["seed"]}, r"seed must be a text, not \['seed'\]"),
        ({"name": path}, "name must be a text"),
        ({"source": frame}, "source must be the path of a file or folder, not a DataFrame. Write a data"),
    ):
        with pytest.raises(InputError, match=message) as error:
            import_table(**{"source": path, **given})
        assert "\n" not in str(error.value)


def test_what_a_list_of_numbers_is_can_be_chosen(table_of):
    rows = [{"lr": k / 10, "history": [k + 1, k], "shape": [k, k, k], "loss": k} for k in range(1, 7)]
    chosen = {"metrics": ("loss", "history:min"), "hyperparameters": ("shape",)}
    table = table_of(lines_of(rows), "rows.jsonl", **chosen).table
    assert table.space["shape"].values[0] == (1, 1, 1)
    assert [m.name for m in table.curves.metrics] == ["history"]
    table = table_of(lines_of(rows), "others.jsonl", ignored=("history", "shape"))[0]
    assert table.space.names == ("lr",) and "history" not in [m.name for m in table.metrics]


def test_rows_without_a_value_are_left_out_where_nothing_explains_them(table_of):
    rows = "".join(f"{'' if k == 7 else k / 100},{k}\n" for k in range(1, 25))
    table, _, decisions, _, _ = table_of("lr,val_loss\n" + rows)
    assert len(table) == 23
    assert "1 training without a value of a hyperparameter (left out)" in [d.text for d in decisions]


def test_a_failed_training_that_was_repeated_is_no_replicate(table_of):
    head = "state,lr,val_loss,seed\n"
    rows = "FAIL,0.1,,1\nCOMPLETE,0.1,2,1\nCOMPLETE,0.2,3,1\nCOMPLETE,0.2,5,2\nFAIL,0.3,,1\n"
    table, _, decisions, _, _ = table_of(head + rows)
    np.testing.assert_array_equal(table.column("val_loss"), [2, 4, np.nan])
    assert table.replicates.averaged
    assert table.replicates.rows.seeds.tolist() == [1, 1, 2, 1]
    assert [d.text for d in decisions if d.part == "rows"][-1].startswith(
        "1 training failed or pruned, and repeated"
    )


@pytest.mark.parametrize(
    ("seed", "used", "left"),
    [
        ("", "data_seed", "the seeds come from data_seed"),
        ("seed", "seed", "the seeds come from seed"),
    ],
)
def test_of_two_columns_of_seeds_the_named_one_counts_and_the_other_is_told(table_of, seed, used, left):
    rows = "".join(f"{k % 2},{10 + k},{k % 3 / 10},{k}\n" for k in range(6))
    table, _, decisions, _, _ = table_of("data_seed,seed,lr,val_loss\n" + rows, seed=seed)
    place = ("data_seed", "seed").index(used)
    assert sorted(table.replicates.rows.seeds) == sorted((k % 2, 10 + k)[place] for k in range(6))
    assert ("seed", used) in [d[:2] for d in decisions]
    assert left in [d.text for d in decisions if d.part == "left out" and d.name != used]


def test_a_column_of_seeds_that_never_vary_hides_no_other(table_of):
    rows = "".join(f"7,{k % 2},{k % 3 / 10},{k}\n" for k in range(6))
    table, _, decisions, _, _ = table_of("random_state,seed,lr,val_loss\n" + rows)
    assert set(table.replicates.rows.seeds) == {0, 1}
    assert ("left out", "random_state", "always 7") in decisions


def test_a_second_column_of_seeds_may_hold_texts(table_of):
    rows = "".join(f"{k % 2},{'abc'[k % 3]},{k % 3 / 10},{k}\n" for k in range(6))
    for head in ("seed,random_state", "data_seed,random_state"):
        table, _, decisions, _, _ = table_of(f"{head},lr,val_loss\n" + rows)
        assert set(table.replicates.rows.seeds) == {0, 1}
        assert [d.name for d in decisions if d.part == "left out"] == ["random_state"]
    rows = "".join(f"0,{'abc'[k % 3]},{k % 3 / 10},{k}\n" for k in range(6))
    _, _, decisions, _, _ = table_of("seed,random_state,lr,val_loss\n" + rows)
    assert ("left out", "random_state", "texts") in decisions
    with pytest.raises(InputError, match="'random_state' is 'a', not a number"):
        table_of("seed,random_state,lr,val_loss\n" + rows, seed="random_state")


def test_names_that_files_use_for_themselves_are_changed(table_of):
    table = table_of(
        "cost,row,val_loss\n" + "".join(f"{k},{k % 3},{k}\n" for k in range(1, 7)),
        metrics=("val_loss", "cost:min"),
        hyperparameters=("row",),
    ).table
    assert [h.name for h in table.hyperparameters] == ["row_"]
    assert [m.name for m in table.metrics] == ["val_loss", "cost_"]


def test_lines_with_other_hyperparameters_are_other_trainings(table_of):
    """Three models were trained with three budgets of tokens, each with its own learning rate."""
    grid = [(m, t) for m in range(3) for t in (1, 2, 4)]
    text = "".join(f"m{m},{t},0.{m + 1}{t},{9 - m - t / 8}\n" for m, t in grid)
    table, _, _, notes, _ = table_of("name,tokens,lr,val_loss\n" + text, guessed=True)
    assert len(table) == 9 and table.space.names == ("lr",) and table.curves is None
    with pytest.raises(Unsure, match=r"tokens .ignore: it may be a setting, or how far a training was"):
        table_of("name,tokens,lr,val_loss\n" + text)
    assert notes[:1] == (
        "lines with the same name differ in 'lr', so each line counts as a training. If this "
        "changes during a training, leave it out: --ignore lr. If name is a hyperparameter, use "
        "--hyperparameter name",
    )
    table = table_of("name,tokens,lr,val_loss\n" + text, hyperparameters=("name", "tokens")).table
    assert len(table) == 9 and table.space.names == ("name", "tokens", "lr")
    text = text.replace(",0.", ",x0.")  # not a number, and not a hyperparameter by its name
    chosen = {"hyperparameters": ("name", "tokens"), "ignored": ("extra",)}
    table = table_of("name,tokens,extra,val_loss\n" + text, **chosen).table
    assert len(table) == 9 and table.space.names == ("name", "tokens") and table.curves is None
    rows = [f"{k // 3},{k % 3 + 1},0.{k + 1},{'ab'[k % 2]},{k}\n" for k in range(6)]
    assert len(table_of("run,updates,lr,optimizer,dev_bleu\n" + "".join(rows), guessed=True).table) == 6
    rows = [
        {"trial": k // 3, "epoch": k % 3 + 1, "params": {"x": k, "y": k // 3}, "loss": k} for k in range(9)
    ]
    assert len(table_of(lines_of(rows), "a.jsonl").table) == 9
    table = table_of(lines_of(rows), "b.jsonl", ignored=("x",)).table
    assert len(table) == 3 and table.curves.resource == "epoch"
    assert len(table_of(lines_of(rows), "c.jsonl", ignored=("params.x",)).table) == 3


def test_metrics_and_schedules_may_change_during_a_training(table_of):
    """error_rate has the word rate, but it is a metric. The user ignores the rate of a schedule."""
    rows = [f"{k // 3},{k % 3 + 1},{k // 3 * 8 + 8},0.{k + 1},{9 - k}\n" for k in range(9)]
    text = "run,epoch,width,{},val_loss\n" + "".join(rows)
    table, _, _, notes, _ = table_of(text.format("error_rate"))
    assert len(table) == 3 and {m.name for m in table.curves.metrics} == {"error_rate", "val_loss"}
    assert notes == ()
    table, _, _, notes, _ = table_of(text.format("lr"), ignored=("lr",))
    assert len(table) == 3 and table.space.names == ("width",) and notes == ()
    assert len(table_of(text.format("lr"), metrics=("val_loss", "lr:min")).table) == 3
    assert len(table_of(text.format("power"), hyperparameters=("power",), guessed=True).table) == 9


def test_the_first_metric_named_is_the_first_objective(table_of):
    rows = "".join(f"{k},{k},{9 - k},{k % 4},0.{k + 1},COMPLETE\n" for k in range(6))
    text = "number,values_0,values_1,user_attrs_acc,params_lr,state\n" + rows
    for metrics, objectives in (
        (("values_0:max", "values_1:min"), ("values_0", "values_1")),
        (("values_1:min", "values_0:max"), ("values_1", "values_0")),
        (("values_1:min", "acc", "values_0:max"), ("values_1", "values_0")),
        (("acc", "values_1:min", "values_0:max"), ("acc",)),
    ):
        table = table_of(text, metrics=metrics).table
        assert table.objectives == objectives and table.metrics[0].name == objectives[0]
    text = text.replace("values_0", "value").replace("values_1", "user_attrs_ppl")
    assert table_of(text, metrics=("value:max", "acc")).table.objectives == ("value",)


@pytest.mark.parametrize(
    "cells",
    [["1", "1.0", "sqrt"], ["0.10", "0.1", "sqrt"], ["16", "016", "v2"], ["TRUE", "true", "auto"]],
)
def test_two_texts_are_never_one_label(table_of, cells):
    rows = [{"kind": cell, "width": k // 3, "val_loss": k + 0.5} for k, cell in enumerate(cells * 3)]
    table = table_of(lines_of(rows), "rows.jsonl").table
    assert set(table.space["kind"].values) == set(cells) and len(table) == 9
    text = "".join(f"{row['kind']},{row['width']},{row['val_loss']}\n" for row in rows)
    assert len(table_of("kind,width,val_loss\n" + text).table) == 9


@pytest.mark.parametrize("cells", [[16, "16", "x"], [None, "None", "x"], [True, "true", "x"]])
def test_values_of_two_types_that_look_alike_are_refused(table_of, cells):
    rows = [{"kind": cell, "width": k // 3, "val_loss": k + 0.5} for k, cell in enumerate(cells * 3)]
    with pytest.raises(InputError, match="has a text and another value that look alike"):
        table_of(lines_of(rows), "rows.jsonl")


def test_texts_that_are_one_number_are_refused(table_of):
    text = "tok,val_loss\n16,1\n016,2\n32,3\n"
    with pytest.raises(InputError, match=r"'tok' has '16' and '016', which are one number but two texts"):
        table_of(text, hyperparameters=("tok",))
