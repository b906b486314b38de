import dataclasses

import pytest

from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.benchmarking.suite import load_suite, published_figures, suite_files
from hpobench_nmt.core.errors import InputError

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
    for method in resolve_methods(suite.methods):
        assert suite.n_objectives in method.objectives
    assert suite.description


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
        (("trials = 3", "trials = 0"), "trials must be a whole number of 1 or more, not 0"),
        (("trials = 3", "trials = true"), "trials must be a whole number"),
        (("trials = 3", "lookups = 2"), "2 look-ups are fewer than the 3 initial rows"),
        (("trials = 3", 'ties = "all"'), "ties must be 'any' or 'first', not 'all'"),
        (('"ftb", "fb"', '"ftb", "fta"'), "scores must be some of ftb, ftc, fb, or of fto, fta, fbp"),
        (('"ftb", "fb"', '"ftb", "fbb"'), "unknown score 'fbb'. Did you mean 'fb'?"),
        (('"ftb", "fb"', ""), "scores must be some of"),
        (("default = 10", "default = 0"), "score_at.default must be a whole number of 1 or more, not 0"),
        (("toy = 5", "tooy = 5"), "unknown table 'tooy'. Did you mean 'toy'?"),
        (('methods = ["RS"]', "methods = []"), "methods must name at least one"),
        (('"ftb", "fb"', '"ftb", "ftb"'), "scores has the same name twice"),
        (("trials = 3", 'published = "figures.csv"'), "'figures.csv', which is no file beside it"),
        (("default = 10", "default = 1.5"), "score_at.default must be a whole number of 1 or more, not 1.5"),
        (("default = 1\n", "default = -0.5\n"), "tolerance.default must be a finite number of 0 or more"),
        (("default = 1\n", "default = nan\n"), "tolerance.default must be a finite number of 0 or more"),
        (('methods = ["RS"]', 'methods = "RS"'), "methods must be a list of strings"),
        (('methods = ["RS"]', 'objectives = ["a", "b"]'), "need 1 objective(s), not 2"),
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
    more = dataclasses.replace(suite, tables=("a", "b"), methods=("RS",))
    assert suite.settings() == more.settings()
    assert suite.settings() != dataclasses.replace(suite, trials=7).settings()


def test_score_at_of_the_members_of_a_collection(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('scores = ["fb"]\ntables = ["nmthpo"]\n[score_at]\ndefault = 50\nsw-en = 200\n')
    assert load_suite(str(path)).score_at_for("sw-en") == 200
