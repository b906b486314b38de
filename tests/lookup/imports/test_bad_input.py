"""Whatever is wrong in a sweep is one clear line; nothing is guessed, and nothing else is raised."""

import io
import json
import zipfile

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError

HEAD = "lr,val_loss\n"


def lines(n, **others):
    """A file of n lines, and others by their number."""
    return HEAD + "".join(others.get(f"line_{k}", f"{k / 1000},{k}.5") + "\n" for k in range(2, n + 2))


def zipped(*names):
    """A ZIP archive with these members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            # Without the time of day, which would differ between the workers that collect this test.
            archive.writestr(zipfile.ZipInfo(name), "<x/>")
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv: is empty"),
        ("a.csv", HEAD.encode(), "a.csv: has no rows"),
        ("a.csv", b"just a text\nand another\n", "a.csv, line 1: only one column, 'just a text'"),
        ("a.csv", b"lr,lr,loss\n1,2,3\n", "a.csv: column 'lr' occurs twice"),
        ("a.csv", lines(5, line_4="0.4").encode(), "a.csv, line 4: 1 cells, where the header has 2"),
        ("a.csv", lines(5, line_4="0.4,1,2").encode(), "a.csv, line 4: 3 cells, where the header has 2"),
        ("a.csv", lines(5, line_4="0.4,1_5").encode(), "a.csv, line 4: 'val_loss' is '1_5', not a number"),
        ("a.csv", lines(70_000, line_69998="oops,1").encode(), "a.csv, line 69998: 'lr' is 'oops', but its"),
        (
            "a.csv",
            lines(70_000, line_69998="99,oops").encode(),
            "line 69998: 'val_loss' is 'oops', not a number",
        ),
        ("a.csv", "# naïve\n".encode("latin-1") + lines(3).encode(), ""),
        ("a.csv", lines(3).encode() + "ö,1\n".encode("latin-1"), "a.csv, line 5: not UTF-8 text"),
        ("a.csv", b"l\x1br,val_loss\n1,2\n2,3\n", "contains the character \\x1b: remove it"),
        ("a.csv", b"opt,val_loss\na\x1bb,2\nc,3\n", "contains the character \\x1b: remove it"),
        ("a.csv", b"lr,val_loss\n1,2\n1,3\n", "no column that varies is a hyperparameter"),
        ("a.csv", b"lr,opt\n1,a\n2,b\n", "no column is a metric. Name one: --metric COLUMN:min"),
        ("a.csv", b"state,lr,val_loss\nFAIL,1,2\nFAIL,2,3\n", "none of its 2 trainings is finished"),
        ("a.pkl", b"\x80\x04\x95", "a pickle, which is never unpickled"),
        ("a.xlsx", b"PK\x03\x04..", "not a ZIP archive that can be read"),
        ("a.xlsx", zipped("xl/workbook.xml", "xl/styles.xml"), "an Excel workbook or another ZIP archive"),
        ("a.bin", b"lr\0loss", "neither text nor a database of SQLite"),
        ("a.jsonl", b'{"lr": 1}\n{"lr": \n{"lr": 2}\n', "a.jsonl, line 2: not valid JSON"),
        ("a.jsonl", b'{"lr": 1}\n[1]\n', "a.jsonl, line 2: not a JSON object"),
        ("a.jsonl", b'{"a":' * 100_000, "nested too deeply"),
        ("a.json", b"[1, 2]", "a.json: not a list of objects"),
        (
            "a.json",
            b'[{"lr": 1' + b"0" * 400 + b', "loss": 1}, {"lr": 2, "loss": 2}]',
            "no column that varies is a hyperparameter. These are not: lr (numbers that are too large",
        ),
        ("a.db", b"SQLite format 3\0" + b"x" * 2000, "a.db: not a database that can be read"),
    ],
)
def test_one_clear_line(tmp_path, imported, name, content, message):
    (tmp_path / name).write_bytes(content)
    if not message:
        assert len(imported(tmp_path / name).table) == 3
        return
    with pytest.raises(InputError) as error:
        imported(tmp_path / name)
    assert message in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ((10**320, None, 1), "numbers that are too large, or not finite in a list"),
        ((10**320, "auto", 1), "numbers that are too large, or not finite in a list"),
        (
            ([0.9, float("nan")], [0.9, 0.99], [0.8, 0.99]),
            "numbers that are too large, or not finite in a list",
        ),
        ((float("inf"), "auto", 1), "infinite values"),
        ((float("inf"),) * 3, "always inf"),
    ],
)
def test_numbers_that_cannot_be_a_label_or_a_metric(tmp_path, imported, cells, reason):
    path = tmp_path / "a.jsonl"
    rows = [{"odd": cell, "lr": k, "val_loss": k + 0.5} for k, cell in enumerate(cells * 3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for choices in ({}, {"hyperparameters": ("odd",)}):
        table, _, decisions, _, _ = imported(path, **choices)
        assert table.space.names == ("lr",) and ("left out", "odd", reason) in decisions
    if cells[0] == 10**320:
        with pytest.raises(InputError, match=r"line 1: 'odd' is '10+', not a number\. Correct it, or leave"):
            imported(path, metrics=("val_loss", "odd:min"))


def test_folders_that_are_no_sweep(tmp_path, imported, toy):
    from hpobench_nmt.lookup.disk.folder import save_folder

    save_folder(toy, tmp_path / "toy")
    with pytest.raises(InputError, match=r"is already a table folder\. Install it with"):
        imported(tmp_path / "toy")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="does not have a known kind of sweep"):
        imported(tmp_path / "empty")
    for name in ("a.csv", "b.csv"):
        (tmp_path / "empty" / name).write_text(lines(3))
    with pytest.raises(InputError, match=r"holds several files \(a\.csv, b\.csv\); name the one"):
        imported(tmp_path / "empty")
    (tmp_path / "empty" / "b.csv").unlink()
    (tmp_path / "empty" / "b.csv").symlink_to(tmp_path / "secret.csv")
    assert len(imported(tmp_path / "empty").table) == 3
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        imported(tmp_path / "nowhere")


def test_what_a_user_names_must_be_there(sweeps, imported):
    with pytest.raises(InputError, match=r"--curves is only for a CSV file of W&B's runs"):
        imported(sweeps / "study.db", curves=(sweeps / "wandb" / "chart.csv",))
    for choices in (
        {"metrics": ("rmsee",)},
        {"ignored": ("rmsee:min",)},
        {"hyperparameters": ("rmsee",)},
        {"seed": "rmsee"},
    ):
        with pytest.raises(InputError, match=r"unknown column 'rmsee.*Did you mean 'rmse'"):
            imported(sweeps / "search_runs.csv", **choices)


@pytest.mark.parametrize("name", ["trials.csv", "lines.jsonl", "ray", "wandb"])
def test_a_study_is_named_only_where_there_are_studies(sweeps, imported, name):
    with pytest.raises(InputError, match=r"--study is only for a storage or journal of Optuna, or a folder"):
        imported(sweeps / name, study="x", metrics=("value:max",) if name == "trials.csv" else ())


@pytest.mark.parametrize("name", ["ray", "mlruns"])
def test_charts_belong_to_no_folder_of_another_program(sweeps, imported, name):
    with pytest.raises(InputError, match=r"--curves is only for a CSV file of W&B's runs"):
        imported(sweeps / name, curves=(sweeps / "wandb" / "chart.csv",))
    chart = sweeps / "wandb" / "chart.csv"
    with pytest.raises(
        InputError, match=r"chart\.csv: has learning curves, not hyperparameters\. Export the table"
    ):
        imported(chart, curves=(chart,))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"metrics": ("value:min", "value:max")}, "'value' is given as both min and max"),
        ({"metrics": ("acc", "user_attrs_acc:min", "acc:max")}, "'acc' is given as both min and max"),
        (
            {"metrics": ("value:max", "acc"), "ignored": ("user_attrs_acc",)},
            "'acc' is given as both metric and ignored. Give one",
        ),
        (
            {"hyperparameters": ("lr",), "ignored": ("lr",)},
            "'lr' is given as both hyperparameter and ignored",
        ),
        ({"metrics": ("lr:min",), "seed": "lr"}, "'lr' is given as both metric and seed"),
    ],
)
def test_a_column_has_one_role_and_one_direction(sweeps, imported, choices, message):
    with pytest.raises(InputError, match=message):
        imported(sweeps / "trials.csv", **choices)


def test_the_same_choice_twice_is_one_choice(sweeps, imported):
    table = imported(sweeps / "trials.csv", metrics=("value", "value:max", "value:max")).table
    assert table.objectives == ("value",) and table.metrics[0].direction == "max"


FILES = (
    "trials.csv",
    "study.db",
    "search_runs.csv",
    "page.csv",
    "lines.jsonl",
    "reports.csv",
    "cv.csv",
    "nni.csv",
    "api.csv",
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", [0, pytest.param(range(1, 12), marks=pytest.mark.fuzz)])
def test_mutated_files_come_in_or_are_refused(tmp_path, sweeps, imported, name, seed):
    content = (sweeps / name).read_bytes()
    for number in [seed] if isinstance(seed, int) else seed:
        rng = np.random.default_rng([number, len(name)])
        for _ in range(12):
            (tmp_path / name).write_bytes(mutated(rng, content))
            try:
                imported(tmp_path / name, metrics=("value:max",) if name == "trials.csv" else ())
            except InputError as error:
                assert "\n" not in str(error)


def mutated(rng, content):
    """The content with some bytes changed, removed or repeated, or cut short."""
    content = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        place, length = int(rng.integers(len(content))), int(rng.integers(1, 12))
        kind = rng.integers(5)
        if kind == 0:
            content[place] = int(rng.integers(256))
        elif kind == 1:
            del content[place : place + length]
        elif kind == 2:
            content[place:place] = content[max(0, place - length) : place]
        elif kind == 3:
            content[place:place] = rng.choice(
                [b"NaN", b"null", b",", b'"', b"1e999", b"\n", b"-", b"None", b"{}"]
            )
        elif len(content) > 40:
            del content[int(rng.integers(20, len(content))) :]
        if not content:
            return b" "
    return bytes(content)
