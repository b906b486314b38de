import ast
import inspect

import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.task.suite import Suite, changed, overridden
from hpobench_nmt.benchmarking.task.suite_files import load_suite, published_figures, suite_files
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.scores import score_names
from hpobench_nmt.methods import ADAPTERS

# The names themselves are tested in tests/evaluation/test_scores.py.
ONE, SEVERAL = (", ".join(score_names(n)) for n in (1, 2))

SUITE = """
scores = ["ftb", "fb"]
tables = ["toy"]
methods = ["RS"]
trials = 3
[score_at]
default = 10
toy = 5
[tolerance]
default = 1
"""


@pytest.mark.parametrize("name", suite_files())
def test_the_suites_that_ship_are_sound(name):
    suite = load_suite(name)
    assert suite.description
    # A library of somebody else may be missing. Its method's numbers of objectives are known all the same.
    others = [name for name in suite.methods if name in ADAPTERS]
    assert all(suite.n_objectives in ADAPTERS[name].objectives for name in others)
    for method in resolve_methods([name for name in suite.methods if name not in ADAPTERS]):
        assert suite.n_objectives in method.objectives


def test_the_paper_suites_are_the_papers():
    single, multi = load_suite("paper-single"), load_suite("paper-multi")
    assert len(single.methods) + len(multi.methods) == 12
    for suite in (single, multi):
        assert (suite.trials, suite.n_initial, len(suite.tables)) == (100, 3, 6)
        figures = published_figures(suite)
        for method in suite.methods:
            for table in suite.tables:
                assert {(method, table, score) for score in suite.scores} <= set(figures)
    assert single.ties == "first"
    assert single.tolerance_for("en-ja") == 1.0
    assert single.tolerance_for("zh-en") == 0.5
    assert multi.score_at_for("sw-en") == multi.score_at_for("so-en") == 200
    assert multi.score_at_for("ja-en") == 50


def test_a_suite_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text(SUITE)
    suite = load_suite(str(tmp_path / "mine.toml"))
    assert (suite.name, suite.trials, suite.score_at_for("toy"), suite.score_at_for("other")) == (
        "mine",
        3,
        5,
        10,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("trials = 3", "trails = 3"), "unknown key 'trails'. Did you mean 'trials'?"),
        (("trials = 3", "trials = 0"), "trials must be a whole number from 1 to 100000, not 0"),
        (("trials = 3", 'name = "mine"'), "the name of a suite is the name of its file: remove name"),
        (("trials = 3", "trials = true"), "trials must be a whole number"),
        (
            ("trials = 3", "trials = 1000000000000"),
            "trials must be a whole number from 1 to 100000, not 1000000",
        ),
        (("trials = 3", "lookups = 2"), "2 look-ups are fewer than the 3 initial rows"),
        (("trials = 3", 'ties = "all"'), "ties must be 'any' or 'first', not 'all'"),
        (('"ftb", "fb"', '"ftb", "fta"'), f"scores must be some of {ONE}, or of {SEVERAL}"),
        (('"ftb", "fb"', '"ftb", "fbb"'), "unknown score 'fbb'. Did you mean 'fb'?"),
        (('"ftb", "fb"', ""), "scores must be some of"),
        (("default = 10", "default = 0"), "score_at.default must be a finite number above 0, not 0"),
        (("toy = 5", "tooy = 5"), "unknown table 'tooy'. Did you mean 'toy'?"),
        (('methods = ["RS"]', "methods = []"), "methods must name at least one"),
        (('"ftb", "fb"', '"ftb", "ftb"'), "scores has the same name twice"),
        (("trials = 3", 'published = "figures.csv"'), "'figures.csv', which is not a file beside it"),
        (("default = 10", "default = 1.5"), "score_at must be a whole number, not 1.5"),
        (("default = 1\n", "default = -0.5\n"), "tolerance.default must be a finite number of 0 or more"),
        (("default = 1\n", "default = nan\n"), "tolerance.default must be a finite number of 0 or more"),
        (('methods = ["RS"]', 'methods = "RS"'), "methods must be a list of strings"),
        (('methods = ["RS"]', 'objectives = ["a", "b"]'), "need one objective, not 2"),
    ],
)
def test_a_wrong_suite_is_refused(tmp_path, change, message):
    text = SUITE.replace(*change)
    assert text != SUITE
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(InputError) as error:
        load_suite(str(tmp_path / "mine.toml"))
    assert message in str(error.value)


def test_an_unknown_suite_gets_the_nearest_name():
    with pytest.raises(InputError, match="Did you mean 'paper-single'"):
        load_suite("paper-singel")


def test_settings_leave_out_what_may_grow():
    suite = load_suite("quick")
    more = changed(suite, tables=("a", "b"), methods=("RS",))
    assert suite.settings() == more.settings()
    assert suite.settings() != changed(suite, trials=7).settings()


def test_score_at_of_the_members_of_a_collection(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('scores = ["fb"]\ntables = ["nmthpo"]\n[score_at]\ndefault = 50\nsw-en = 200\n')
    assert load_suite(str(path)).score_at_for("sw-en") == 200


def test_what_a_suite_just_allows():
    suite = Suite(
        "s",
        ("ftb",),
        trials=1,
        n_initial=1,
        lookups=1,
        tolerance={"a": 0.0},
        score_at={"a": 1},
        objectives=("bleu",),
        ties="first",
        stop="exhausted",
    )
    assert suite.n_objectives == 1
    assert Suite("s", ("fbp", "fto"), objectives=("a", "b")).n_objectives == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a\x07"}, r"suite name 'a\x07' contains the character"),
        ({"scores": ("ftb", "fbb")}, "suite 's': unknown score 'fbb'. Did you mean 'fb'?"),
        ({"scores": ()}, f"suite 's': scores must be some of {ONE}, or of {SEVERAL}."),
        ({"scores": ("ftb", "ftb")}, "suite 's': scores has the same name twice."),
        ({"tables": ()}, "suite 's': tables must name at least one."),
        ({"tables": ("a", "b", "a")}, "suite 's': tables has the same name twice."),
        ({"methods": ()}, "suite 's': methods must name at least one."),
        ({"methods": ("RS", "RS")}, "suite 's': methods has the same name twice."),
        (
            {"objectives": ("a", "b")},
            "suite 's': ftb, fb need one objective, not 2. "
            f"For two or more there is the suite modern-multi, and the scores are {SEVERAL}.",
        ),
        (
            {"scores": ("fto",), "objectives": ("a",)},
            "suite 's': fto needs two or more objectives, not 1. "
            f"For one there is the suite modern-single, and the scores are {ONE}.",
        ),
        ({"scores": ("fto",), "objectives": ("a", "a")}, "suite 's': the same objective twice."),
        ({"trails": 1}, "unknown key 'trails'. Did you mean 'trials'? (suite 's')"),
        ({"trials": 0}, "suite 's': trials must be a whole number from 1 to 100000, not 0."),
        ({"n_initial": 0}, "suite 's': n_initial must be at least 1, not 0."),
        ({"lookups": 2}, "suite 's': 2 look-ups are fewer than the 3 initial rows."),
        (
            {"tolerance": {"b": 1.0, "a": -0.5}},
            "suite 's': tolerance.a must be a finite number of 0 or more, not -0.5.",
        ),
        (
            {"tolerance": {"a": float("inf")}},
            "tolerance.a must be a finite number of 0 or more, not inf.",
        ),
        (
            {"tolerance": {"a": float("nan")}},
            "tolerance.a must be a finite number of 0 or more, not nan.",
        ),
        ({"score_at": {"a": 3, "b": 2}}, "suite 's': score_at of 'b' is 2, less than the 3 initial rows."),
        ({"ties": "all"}, "suite 's': ties must be 'any' or 'first', not 'all'."),
        ({"stop": "never"}, "suite 's': stop must be 'exhausted' or 'settled', not 'never'."),
    ],
)
def test_a_suite_that_is_changed_in_python_is_checked_as_well(change, message):
    with pytest.raises(InputError) as error:
        changed(Suite("s", ("ftb", "fb")), **change)
    assert message in str(error.value)


def test_settings_are_plain_values():
    suite = Suite("s", ("ftb", "fb"), objectives=("bleu",), tolerance={"toy": 0.5}, score_at={"toy": 7})
    assert suite.settings() == {
        "name": "s",
        "scores": ["ftb", "fb"],
        "objectives": ["bleu"],
        "trials": 100,
        "n_initial": 3,
        "ties": "any",
        "stop": "settled",
        "lookups": None,
        "tolerance": {"toy": 0.5},
        "score_at": {"toy": 7},
        "published": "",
    }


def test_settings_on_a_clock_are_only_there_where_they_are_not_the_usual_ones():
    suite = Suite("s", ("ftb",), clock="cost", curves=True, workers=8, time={"default": 9.5})
    plain = Suite("s", ("ftb",)).settings()
    added = {"clock": "cost", "curves": True, "workers": 8, "time": {"default": 9.5}}
    assert suite.settings() == plain | added


def test_what_is_not_said_of_a_table_is_the_default_or_nothing():
    suite = Suite("s", ("ftb",), tolerance={"a": 1.0, "default": 2.0}, score_at={"a": 5})
    assert (suite.tolerance_for("a"), suite.tolerance_for("b")) == (1.0, 2.0)
    assert (suite.score_at_for("a"), suite.score_at_for("b")) == (5, None)
    assert Suite("s", ("ftb",)).tolerance_for("a") is None


def test_every_key_of_a_suite_file_is_described():
    (described,) = ast.parse(inspect.getsource(Suite)).body
    pairs = zip(described.body, described.body[1:], strict=False)
    fields = [(node.target.id, below) for node, below in pairs if isinstance(node, ast.AnnAssign)]
    assert tuple(key for key, _ in fields) == Suite.__struct_fields__
    assert [key for key, below in fields if not isinstance(below, ast.Expr)] == ["name"]
    with pytest.raises(AttributeError, match="immutable"):
        Suite("s", ("ftb",)).lookups = 3


def written(tmp_path, *lines):
    (tmp_path / "mine.toml").write_text("\n".join(['scores = ["ftb", "fb"]', *lines]))
    return str(tmp_path / "mine.toml")


def test_tables_that_are_installed_in_either_spelling(tmp_path):
    for line in ('tables = "installed"', 'tables = ["installed"]', ""):
        assert load_suite(written(tmp_path, line)).tables == ("installed",)
    with pytest.raises(InputError, match=rf"{tmp_path}/mine\.toml: tables must be a list of strings"):
        load_suite(written(tmp_path, 'tables = "toy"'))


def test_score_at_under_both_of_its_names(tmp_path):
    with pytest.raises(InputError, match=r"mine\.toml: score_at and budget are the same: remove budget\."):
        load_suite(written(tmp_path, "budget = {default = 7}", "score_at = {default = 7}"))


def test_scores_after_look_ups_are_left_out_on_another_clock():
    quick = load_suite("quick")
    other = overridden(quick, {"clock": "cost", "curves": True})
    assert other.scores == ("ftb", "ftc") and other.score_at == {}
    assert overridden(quick, {"workers": 4}).scores == quick.scores == ("ftb", "ftc", "fb")
    timed = overridden(quick, {"clock": "cost", "score_at": {"default": 2000.0}})
    assert timed.scores == quick.scores and timed.score_at == {"default": 2000.0}
    with pytest.raises(InputError, match="fb needs score_at, a time on the clock"):
        overridden(changed(quick, scores=("fb",)), {"clock": "cost"})
    costly = changed(quick, clock="cost", score_at={"default": 2.5})
    assert overridden(costly, {"clock": "lookups"}).scores == ("ftb", "ftc")


def test_with_few_look_ups_scores_are_measured_at_the_end_of_the_trial():
    quick = load_suite("quick")
    assert overridden(quick, {"lookups": 10}).score_at == {"default": 10}
    assert overridden(quick, {"lookups": 10, "workers": 4}).score_at == {"default": 2}
    assert overridden(quick, {"lookups": 50}).score_at == quick.score_at == {"default": 20}
    assert overridden(quick, {"lookups": 10, "score_at": {"default": 12}}).score_at == {"default": 12}


def test_a_time_limit_is_not_taken_over_to_another_clock():
    limited = changed(load_suite("quick"), time={"default": 50}, score_at={"default": 20})
    assert overridden(limited, {"workers": 2}).time == {"default": 50}
    assert overridden(limited, {"clock": "cost", "time": {"default": 9.5}}).time == {"default": 9.5}
    wanted = (
        r"limits the time of a trial on the clock 'lookups': give a limit for the clock 'cost' as time=LIMIT"
    )
    with pytest.raises(InputError, match=wanted):
        overridden(limited, {"clock": "cost"})


def test_settings_of_tables_that_the_suite_lacks(tmp_path):
    """They are refused where the names of all tables are in the file, and only there."""
    for key in ("tolerance", "score_at"):
        for tables in ('"installed"', '["toy", "nmthpo"]', '["toy", "../folder"]'):
            suite = load_suite(written(tmp_path, f"tables = {tables}", f"{key} = {{other = 5}}"))
            assert getattr(suite, key) == {"other": 5}
        text = written(tmp_path, 'tables = ["toy", "other"]', f"{key} = {{default = 5, toi = 5}}")
        with pytest.raises(
            InputError, match=rf"unknown table 'toi'\. Did you mean 'toy'\? \({text}, {key}\)"
        ):
            load_suite(text)


FIGURES = "method,table,metric,mean,std,note\nRS,toy,ftb,18.5,10,a\nRS,toy,fb,0.25,1e-3,\nBO,toy,ftb,9,0,b\n"


def test_published_figures_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "figures.csv").write_text("\ufeff" + FIGURES)
    path = written(tmp_path, 'published = "figures.csv"')
    expected = {
        ("RS", "toy", "ftb"): (18.5, 10.0),
        ("RS", "toy", "fb"): (0.25, 0.001),
        ("BO", "toy", "ftb"): (9.0, 0.0),
    }
    suite = load_suite(path)
    assert suite.published == str(tmp_path / "figures.csv")
    assert published_figures(suite) == expected
    assert published_figures(changed(suite, published="")) == {}
    monkeypatch.chdir(tmp_path)
    assert published_figures(load_suite("mine.toml")) == expected
    with pytest.raises(
        InputError, match="suite 's': published must be the name of a file or an absolute path"
    ):
        published_figures(Suite("s", ("ftb",), published="sub/figures.csv"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("mean,std", "means,stds"), "it lacks the columns mean, std."),
        (("18.5", "inf"), "row 2 must have finite numbers as mean and std."),
        (("1e-3", "nan"), "row 3 must have"),
        (("9,0", "9,x"), "row 4 must have"),
        (("9,0", ",0"), "row 4 must have"),
        (("BO,toy,ftb,9,0,b", "BO,toy,ftb"), "row 4 must have"),
        (("18.5", "\x00\udcff"), "'utf-8' codec can't decode byte 0xff"),
        (("18.5", '"18'), "is not a table of published figures: "),
    ],
)
def test_a_wrong_file_of_published_figures_is_named(tmp_path, change, message):
    text = FIGURES.replace(*change)
    assert text != FIGURES
    (tmp_path / "figures.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError) as error:
        load_suite(written(tmp_path, 'published = "figures.csv"'))
    assert f"{tmp_path}/figures.csv: is not a table of published figures" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["nowhere.csv", "folder", "\\u0000", "x" * 5000])
def test_a_file_of_published_figures_that_is_not_there(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"mine\.toml: published names .*, which is not a file beside it\."):
        load_suite(written(tmp_path, f'published = "{name}"'))


def test_an_empty_suite_lacks_its_scores(tmp_path):
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(InputError, match=r"mine\.toml: .*scores"):
        load_suite(str(tmp_path / "mine.toml"))
