"""Settings after a method's name: read with care, part of its name and fingerprint, and in effect."""

import dataclasses
import json
import re

import click
import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.run_curves import surrogate_curves
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.method_settings import (
    settings_of,
    spec_text,
    split_spec,
    with_settings,
)
from hpobench_nmt.benchmarking.contestants.plugins import load_method, resolve_methods
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.cli.options import listed
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.gaussian_process import BO_M_std
from hpobench_nmt.methods.kernels import matern52

MINE = """
class Mine:
    def __init__(self, problem, rng, step=3, greedy=True, start="low", *, factor=0.5, other=None):
        self.order = rng.permutation(len(problem.features)).tolist()
        assert (step, greedy, start, factor) == (7, False, "high", -2.0), (step, greedy, start, factor)

    def ask(self):
        return self.order[-1]

    def tell(self, index, losses):
        self.order.remove(index)
"""


@pytest.mark.parametrize(
    ("spec", "base", "settings"),
    [
        ("RS", "RS", {}),
        ("A(x=0.5)", "A", {"x": 0.5}),
        ("A (x=-1, y=+2.5, on=true, off=False, s='a b', t=1e-3)", "A", None),
        ("/tmp/a(1)/m.py:B(k=3)", "/tmp/a(1)/m.py:B", {"k": 3}),
        ("A()", "A", {}),
    ],
)
def test_what_a_spec_says(spec, base, settings):
    expected = {"x": -1, "y": 2.5, "on": True, "off": False, "s": "a b", "t": 1e-3}
    settings = expected if settings is None else settings
    assert split_spec(spec) == (base, settings)
    assert split_spec(spec_text(base, settings)) == (base, settings)


NOTHING = ("0.5", "x=y", "x=1, x=2", "**x", "x=[1]", "x=1+1", "x=b'1'", "x=None", "x=f'{1}'", "x=1j", "x==1")
NOR_THIS = ("x=1;y=2", "x=-'a'", "x='a\\0b", "lambda: 0", "x=" + "9" * 600, "x=" + "-" * 400 + "1")


@pytest.mark.parametrize("inside", NOTHING + NOR_THIS)
def test_nothing_else_is_read(inside):
    with pytest.raises(InputError, match=r"settings are written NAME\(setting=value"):
        split_spec(f"A({inside})")


def test_commas_in_parentheses_do_not_part_methods():
    text = " RS, A(x=1, y='a,)'),m.py:B(k=2) ,, C"
    assert listed(None, None, text) == ("RS", "A(x=1, y='a,)')", "m.py:B(k=2)", "C")
    assert listed(None, None, None) == ()
    with pytest.raises(InputError, match="--methods is empty"):
        listed(None, click.Option(["--methods"]), " ,")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("BO_EI_M_std(length_scal=1)", "unknown setting 'length_scal'. Did you mean 'length_scale'?"),
        ("BO_EI_M_std(length_scale='a')", "length_scale must be a number, such as 1.0, not 'a'"),
        ("BO_EI_M_std(length_scale=true)", "length_scale must be a number, such as 1.0, not true"),
        ("BO_EI_M_std(length_scale=1e999)", "length_scale must be a number, such as 1.0, not inf"),
        ("BO_EI_M_std(length_scale=0)", "length_scale must be from 1e-6 to 1e6, not 0"),
        ("BO_EI_M_std(noise_sd=-1)", "noise_sd must be 0 or more, not -1"),
        ("BO_EI_M_std(standardise=true)", "unknown setting 'standardise'"),
        ("GB_EI_M(neighbours=2.5)", "neighbours must be a whole number, such as 0, not 2.5"),
        ("RS(x=1)", "unknown setting 'x'. Method 'RS' has no settings"),
    ],
)
def test_wrong_settings_are_one_line(spec, message):
    with pytest.raises(InputError) as error:
        resolve_methods([spec])
    assert message in str(error.value)


def test_names_and_fingerprints():
    def resolved(spec):
        (method,) = resolve_methods([spec])
        return method

    plain, varied = resolved("BO_EI_M_std"), resolved("BO_EI_M_std(noise_sd=1e-2, length_scale=2)")
    assert varied.name == "BO_EI_M_std+length_scale-2.0+noise_sd-0.01"
    assert varied.spec == "BO_EI_M_std(length_scale=2.0, noise_sd=0.01)"
    assert varied.built_in
    assert varied.objectives == plain.objectives
    names = {resolved(f"BO_EI_M_std(length_scale={x})").name for x in (0.5, 0.25, 2)}
    assert len(names | {plain.name, varied.name}) == 5
    assert plain.entry.same_rows(varied.entry)  # only methods of one name are compared
    # Defaults are no other method.
    assert resolved("BO_EI_M_std(length_scale=1)") == plain
    with pytest.raises(InputError, match="method 'BO_EI_M_std' is given twice"):
        resolve_methods(["BO_EI_M_std", "BO_EI_M_std(noise_sd=0.001)"])


def test_every_setting_of_a_method_of_the_package_can_be_set():
    shown = {name: settings_of(method.load()) for name, method in BUILT_IN.items()}
    assert shown["BO_EI_M_std"] == {"length_scale": 1.0, "noise_sd": 0.001}
    assert shown["GB_EI_M"] == {"length_scale": 1.0, "neighbours": 0, "steps": 0}
    assert (shown["NSGA2"], shown["ASHA"], shown["RS"]) == ({"population": 20}, {"eta": 3}, {})
    for name, settings in shown.items():
        for key, value in settings.items():
            other = not value if type(value) is bool else value + 2 if type(value) is int else value * 1.5
            load_method(spec_text(name, {key: other}))


def test_settings_of_a_function_and_of_a_class():
    def made(problem, rng, step=3, greedy=True, start="low", *, factor=0.5, other=None, pair=(1, 2), **rest):
        return problem, rng, step, greedy, start, factor

    assert settings_of(made) == {"step": 3, "greedy": True, "start": "low", "factor": 0.5}
    make, name, text = with_settings("made", made, {"factor": 2, "step": 7, "greedy": True})
    assert make("the problem", "the rng") == ("the problem", "the rng", 7, True, "low", 2.0)
    assert name == make.__name__ == "made+step-7+factor-2.0"
    assert text == "step=7, factor=2.0"
    assert with_settings("made", made, {"step": 3}) == (made, "made", "")

    @dataclasses.dataclass
    class Made:
        problem: Problem
        rng: np.random.Generator
        eta: int = 2

    assert settings_of(Made) == {"eta": 2}
    again, name, _ = with_settings("Made", Made, {"eta": 5})
    assert again("the problem", "the rng").eta == 5 and name == "Made+eta-5"


def test_a_length_scale_stretches_the_features(toy):
    problem = Problem(toy.features, 1, len(toy), 3)
    half = load_method("BO_EI_M_std(length_scale=0.5)")
    expected = matern52(toy.features[4:5] * 2, toy.features * 2)[0]
    np.testing.assert_array_equal(half.surrogate(problem).prior.row(4), expected)
    whole = dataclasses.replace(BO_M_std, length_scale=1.0)
    np.testing.assert_array_equal(
        whole.surrogate(problem).prior.row(4), BO_M_std.surrogate(problem).prior.row(4)
    )
    graph = load_method("GB_EI_M(neighbours=3)").surrogate(problem).prior
    assert not np.array_equal(graph.row(0), load_method("GB_EI_M").surrogate(problem).prior.row(0))


def test_in_a_run_a_folder_and_a_report(toy_home, run_here, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "suite.toml").write_text(
        'scores = ["fb"]\ntables = ["toy"]\ntrials = 3\nscore_at = {default = 10}\n'
        'methods = ["RS", {name = "BO_EI_M_std", length_scale = 0.5}, '
        f'{{name = "{tmp_path}/mine.py:Mine", step = 7, greedy = false, start = "high", factor = -2}}]\n'
    )
    run_here("run", tmp_path / "suite.toml", "--quiet", "--jobs", 2, "--out", tmp_path / "r")
    results = hb.load_results(tmp_path / "r")
    mine = "Mine+step-7+greedy-false+start-high+factor--2.0"
    assert results.methods == ("RS", "BO_EI_M_std+length_scale-0.5", mine)
    assert not results.failures()
    entry = json.loads((tmp_path / "r" / "manifest.json").read_text())["methods"][results.methods[1]]
    assert entry["spec"] == "BO_EI_M_std(length_scale=0.5)"
    # A report draws the surrogate of a method of the package with other settings, and runs no other code.
    assert list(results.loaded) == [results.methods[1]]
    drawn = surrogate_curves(results, "toy", lookups=5)[0].frame["method"].unique()
    assert results.methods[1] in drawn
    # What a folder says of a method is not believed.
    path = tmp_path / "r" / "manifest.json"
    written = re.sub(r',\s*"sha256": "\w+"\s*}\s*$', "}", path.read_text())  # the hash of the manifest itself
    for spec in (
        "BO_EI_M_std(length_scale=0.25)",
        "BO_EI_M_std(length_scale=0)",
        "BO_EI_M_std",
        "x.py:Y(a=1)",
        "A(",
    ):
        path.write_text(written.replace("BO_EI_M_std(length_scale=0.5)", spec))
        assert not hb.load_results(tmp_path / "r").loaded
    again = benchmark("toy", ["BO_EI_M_std(length_scale=0.5)"], scores=["fb"], score_at=10, trials=3)
    ours = [t.rows.tolist() for t in results.trials["toy", results.methods[1]]]
    assert ours == [t.rows.tolist() for t in again.trials["toy", results.methods[1]]]


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ("[{length_scale = 1}]", "a method with settings needs its name"),
        ('[{name = "RS", x = [1]}]', "setting 'x' of a method must be a number, a string, true or false"),
        ('[{name = "RS", "x y" = 1}]', "setting 'x y' of a method must be"),
    ],
)
def test_tables_of_settings_that_make_no_sense(tmp_path, methods, message):
    (tmp_path / "s.toml").write_text(f'scores = ["ftb"]\nmethods = {methods}\n')
    with pytest.raises(InputError, match=message):
        load_suite(str(tmp_path / "s.toml"))
