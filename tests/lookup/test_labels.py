"""Tables whose hyperparameters have labels, or are inactive in some rows."""

import itertools

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.analysis.tables.sections import analyze_tables
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import check_table
from hpobench_nmt.lookup.disk.folder import add_table, load_folder, save_folder
from hpobench_nmt.lookup.table import Table

AXES = (
    Hyperparameter("rate", (0.1, 0.2, 0.4), "log"),
    Hyperparameter("rule", ("sgd", 'a "b", c', "adam"), kind="categorical"),
    Hyperparameter("tied", (False, True), kind="categorical"),
    Hyperparameter("size", ("small", "large"), kind="ordinal", unit="words"),
    Hyperparameter("decay", (0.5, 0.9), active_if=(("rule", ("adam",)),), default=0.9),
)
SPACE = Space(AXES)


def configurations():
    for rate, rule, tied, size in itertools.product(
        (0.1, 0.2, 0.4), AXES[1].values, (False, True), ("small", "large")
    ):
        for decay in (0.5, 0.9) if rule == "adam" else (None,):
            config = {"rate": rate, "rule": rule, "tied": tied, "size": size, "decay": decay}
            yield {name: value for name, value in config.items() if value is not None}


CONFIGS = list(configurations())


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    effect = {"sgd": 0.0, 'a "b", c': 5.0, "adam": 1.0}
    values = [[effect[c["rule"]] + c["rate"] + 0.1 * rng.normal(), c["rate"]] for c in CONFIGS]
    metrics = (Metric("ppl", "min", tolerance=0.5), Metric("time", "min"))
    return Table("labels", AXES, metrics, SPACE.encode_all(CONFIGS), np.array(values), ("ppl", "time"))


def test_a_row_by_configuration_and_back(table):
    assert [table.config(row) for row in range(len(table))] == CONFIGS
    assert [table.row(config) for config in CONFIGS] == list(range(len(CONFIGS)))
    absent = {**CONFIGS[0], "rate": 0.1}
    short = Table("short", AXES, table.metrics, table.configs[1:], table.values[1:])
    with pytest.raises(
        InputError, match=r"table 'short': no row has rate=0.1, rule=sgd, .*: it was not trained, or its"
    ):
        short.row(absent)


def test_it_survives_the_disk_exactly(table, tmp_path):
    again = pd.DataFrame(
        [
            {**CONFIGS[-1], "replicate": 1, "seed": 5, "ppl": 2.0, "time": 1.0},
            {**CONFIGS[0], "decay": None, "replicate": 1, "seed": 6, "ppl": 3.0, "time": 1.0},
        ]
    )
    save_folder(table.with_replicates(again), tmp_path / "labels")
    back = load_folder(tmp_path / "labels")
    assert back.hyperparameters == AXES and back.sha256 == table.sha256
    np.testing.assert_array_equal(back.configs, table.configs)
    np.testing.assert_array_equal(back.features, table.features)
    text = (tmp_path / "labels" / "table.csv").read_text()
    assert text.splitlines()[:2] == [
        "rate,rule,tied,size,decay,ppl,time",
        f"0.1,sgd,false,small,,{float(table.values[0, 0])!r},0.1",
    ]
    assert '"a ""b"", c"' in text
    assert "format = 2" in (tmp_path / "labels" / "datasheet.toml").read_text()
    replicates = load_folder(tmp_path / "labels").replicates.to_frame()
    assert replicates["rule"].tolist() == ["adam", "sgd"] and replicates["tied"].tolist() == [True, False]
    assert np.isnan(replicates["decay"][1]) and replicates["size"].tolist() == ["large", "small"]


def test_the_hash_tells_kinds_apart(table):
    numbers = Table("n", (Hyperparameter("x", (0, 1)),), table.metrics[:1], [[0], [1]], [[1], [2]])
    labels = Table(
        "n", (Hyperparameter("x", (0, 1), kind="ordinal"),), table.metrics[:1], [[0], [1]], [[1], [2]]
    )
    assert numbers.sha256 != labels.sha256


CSV = "rate,rule,tied,ppl\n0.1,sgd,True,1\n0.1,adam,false,2\n0.2,sgd,false,3\n0.2,adam,TRUE,4\n"
SHEET = """[hyperparameters.rate]
[hyperparameters.rule]
[hyperparameters.tied]
[metrics.ppl]
direction = 'min'
"""


def added(tmp_path, csv=CSV, sheet=SHEET):
    (tmp_path / "own.csv").write_text(csv)
    (tmp_path / "own.toml").write_text(sheet)
    return add_table(tmp_path / "own.csv", None, tmp_path / "tables")[0]


def test_kinds_are_told_by_the_columns(tmp_path):
    table = added(tmp_path, CSV.replace("adam,false", "adam,False"))
    assert [h.kind for h in table.hyperparameters] == ["numeric", "categorical", "categorical"]
    assert table.hyperparameters[1].values == ("adam", "sgd") and table.hyperparameters[2].values == (
        False,
        True,
    )
    assert table.config(0) == {"rate": 0.1, "rule": "sgd", "tied": True}
    again = load_folder(tmp_path / "tables" / "own")
    assert again.sha256 == table.sha256 and again.hyperparameters == table.hyperparameters


def test_labels_that_python_would_take_for_numbers(tmp_path):
    table = added(tmp_path, CSV.replace("sgd", "64_64").replace("adam", "128_128"))
    assert table.hyperparameters[1].values == ("128_128", "64_64")


def test_kinds_are_told_by_the_datasheet(tmp_path):
    csv = CSV.replace("rate", "batch").replace("0.1", "16").replace("0.2", "8.0")
    sheet = SHEET.replace(
        "[hyperparameters.rate]", "[hyperparameters.batch]\nkind = 'categorical'\nvalues = [16, 8]"
    )
    sheet = sheet.replace(
        "[hyperparameters.rule]", "[hyperparameters.rule]\nkind = 'ordinal'\nvalues = ['sgd', 'adam']"
    )
    table = added(tmp_path, csv, sheet)
    assert [h.kind for h in table.hyperparameters] == ["categorical", "ordinal", "categorical"]
    assert table.config(2) == {"batch": 8, "rule": "sgd", "tied": False}
    assert table.configs[:, 1].tolist() == [0, 1, 0, 1]


def test_numbers_of_a_parquet_file_may_be_labels(tmp_path):
    frame = pd.DataFrame(
        {"rule": ["sgd", "sgd", "adam"], "batch": [16.0, 8.0, np.nan], "ppl": [1.0, 2.0, 3.0]}
    )
    frame.to_parquet(tmp_path / "own.parquet")
    (tmp_path / "own.toml").write_text(
        "[hyperparameters.rule]\n[hyperparameters.batch]\nkind = 'categorical'\nvalues = [16, 8]\n"
        "active_if = {rule = ['sgd']}\n[metrics.ppl]\ndirection = 'min'\n"
    )
    table, _ = add_table(tmp_path / "own.parquet", None, tmp_path / "tables")
    configs = [{"rule": "sgd", "batch": 16}, {"rule": "sgd", "batch": 8}, {"rule": "adam"}]
    assert [table.config(row) for row in range(3)] == configs


@pytest.mark.parametrize(
    ("csv", "sheet", "message"),
    [
        (
            ("0.2,sgd", "0.2,sdg"),
            ("rule]", "rule]\nvalues = ['sgd', 'adam']"),
            "own.csv, line 4: unknown value of rule 'sdg'. Did you mean 'sgd'?",
        ),
        (
            ("0.2,sgd", "0.2,"),
            ("", ""),
            "own.csv, line 4: hyperparameter 'rule' has no value. If it is inactive there, add active_if.",
        ),
        (("0.2,sgd", ",sgd"), ("", ""), "own.csv, line 4: hyperparameter 'rate' has no value."),
        (
            ("0.1,sgd", "fast,sgd"),
            ("rate]", "rate]\nkind = 'numeric'"),
            "own.csv, line 2: 'rate' is 'fast', not a number.",
        ),
        (("0.1,sgd", "inf,sgd"), ("", ""), "own.csv, line 2: hyperparameter 'rate' is not finite."),
        (
            ("", ""),
            ("rule]", "rule]\nkind = 'ordinal'"),
            "hyperparameter 'rule' is ordinal, so it needs values, in their order.",
        ),
        (
            ("", ""),
            ("rule]", "rule]\nkind = 'nominal'"),
            "hyperparameters.rule.kind must be 'categorical', 'numeric' or 'ordinal'",
        ),
        (("", ""), ("rule]", "rule]\nvalues = ['sgd', 1979-05-27]"), "values"),
        (
            ("", ""),
            ("tied]", "tied]\nactive_if = {rule = ['sgd']}"),
            "own.csv, line 3: tied has a value, but it is only active if rule is sgd: leave it out.",
        ),
        (
            ("0.1,sgd,True", "0.1,sgd,"),
            ("tied]", "tied]\nactive_if = {rule = ['sgd', 'adam']}"),
            "own.csv, line 2: tied has no value, but it is active if rule is",
        ),
        (
            ("", ""),
            ("tied]", "tied]\nactive_if = {rle = ['sgd']}"),
            "unknown hyperparameter 'rle'. Did you mean 'rule'?",
        ),
        (("0.1,sgd,True", "0.1,sgd,yes"), ("", ""), None),  # texts: three categories
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(tmp_path, csv, sheet, message):
    csv, sheet = CSV.replace(*csv), SHEET.replace(*sheet)
    if message is None:
        assert added(tmp_path, csv, sheet).hyperparameters[2].values == ("TRUE", "false", "yes")
        return
    with pytest.raises(InputError) as error:
        added(tmp_path, csv, sheet)
    assert message in str(error.value) and "\n" not in str(error.value)
    if message.startswith("own.csv"):
        assert str(error.value).startswith(str(tmp_path / "own.csv"))
    assert not (tmp_path / "tables").exists() or not list((tmp_path / "tables").iterdir())


def test_a_later_format_is_refused(tmp_path):
    with pytest.raises(InputError, match="format 6 is not supported; this version reads 1, 2, 3, 4 and 5"):
        added(tmp_path, CSV, "format = 6\n" + SHEET)


def test_empty_cells_of_inactive_hyperparameters(tmp_path):
    csv = "rule,decay,ppl\nsgd,,1\nadam,0.5,2\nadam,0.9,3\n"
    active = "[hyperparameters.decay]\nactive_if = {rule = ['adam']}"
    sheet = SHEET.replace("[hyperparameters.rate]\n", "").replace("[hyperparameters.tied]", active)
    table = added(tmp_path, csv, sheet)
    assert table.config(0) == {"rule": "sgd"} and table.row({"rule": "sgd"}) == 0
    assert table.to_frame()["rule"].tolist() == ["sgd", "adam", "adam"]
    np.testing.assert_array_equal(table.features[:, -1], [0, 0, 1])


def test_it_is_checked(table):
    facts = {finding.fact for finding in check_table(table)}
    assert "decay is inactive in some rows; the rows cover 100% of the grid" in facts
    part = table.configs[:, 1] != 1
    short = Table("labels", AXES, table.metrics, table.configs[part], table.values[part], table.objectives)
    found = {finding.fact for finding in check_table(short)}
    assert 'no row has rule of a "b", c' in found
    assert "decay is inactive in some rows; the rows cover 67% of the grid" in found


def test_twins_that_differ_in_a_label_are_found(table):
    values = table.values.copy()
    same = [table.row({**CONFIGS[0], "tied": tied}) for tied in (False, True)]
    values[same[1]] = values[same[0]]
    twin = Table("labels", AXES, table.metrics, table.configs, values, table.objectives)
    assert any(
        "agrees exactly in" in finding.fact and "differs only in tied" in finding.fact
        for finding in check_table(twin)
    )


def test_it_is_shown_and_analysed(table, tmp_path, run_here):
    save_folder(table, tmp_path / "labels")
    shown = run_here("tables", "show", str(tmp_path / "labels"))
    for text in ("decay is active if rule is adam", "categorical", "ordinal", "inactive"):
        assert text in shown.stdout
    sections = {section.kind: section for section in analyze_tables([table])}
    assert not any(section.problem for section in sections.values())
    effects = sections["importance"].analysis[0].singles.set_index("first")["share"]
    assert effects["rule"] > 0.9 and len(effects) == 5
    reach = sections["sensitivity"].analysis.reach.set_index("hyperparameter")
    assert reach.loc["rule", "lowest"] == "sgd" and reach.loc["rule", "share"] == pytest.approx(1 / 3)


def test_methods_run_on_it_and_see_its_space(table):
    seen = {}

    class Looker:
        def __init__(self, problem, rng):
            seen["problem"] = problem
            self.left = set(range(len(problem.features)))

        def ask(self):
            return min(self.left)

        def tell(self, index, losses):
            self.left.discard(index)

    results = benchmark(table, [Looker, "BO_EI_M_std", "GB_EI_M", "RS"], trials=2)
    assert len(results.scores()) > 0
    problem = seen["problem"]
    assert problem.space.names == table.space.names
    assert [problem.config(row) for row in range(len(table))] == CONFIGS
    assert problem.row(CONFIGS[7]) == 7


def test_none_and_tuples_survive_the_disk(tmp_path):
    depth = Hyperparameter("depth", (None, 3, 5), kind="categorical")
    sizes = Hyperparameter("sizes", ((64,), (64, 64), (None, True)), kind="ordinal")
    after = Hyperparameter("decay", (0.5, 0.9), active_if=(("depth", (None,)), ("sizes", ((64,),))))
    space = Space((depth, sizes, after))
    configs = [{"depth": d, "sizes": s} for d in depth.values for s in sizes.values]
    configs[0]["decay"] = 0.9
    values = np.arange(9.0)[:, None]
    made = Table("labels", tuple(space), (Metric("ppl", "min"),), space.encode_all(configs), values)
    save_folder(made, tmp_path / "labels")
    loaded = load_folder(tmp_path / "labels")
    assert loaded.hyperparameters == made.hyperparameters and loaded.sha256 == made.sha256
    assert [loaded.config(row) for row in range(9)] == configs
    assert "format = 3" in (tmp_path / "labels" / "datasheet.toml").read_text()
    sheet = (tmp_path / "labels" / "datasheet.toml").read_text()
    sheet = sheet.replace("sections_sha256", "another").replace("none = true", "none = false")
    (tmp_path / "labels" / "datasheet.toml").write_text(sheet)
    with pytest.raises(InputError, match=r"only \{none = true\} is one, for None"):
        load_folder(tmp_path / "labels")
