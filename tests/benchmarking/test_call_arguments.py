"""Arguments of hb.run, hb.benchmark and results folders: wrong ones, and those of NumPy's types."""

import json
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.system.errors import InputError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lookup": 9}, r"unknown setting 'lookup'\. Did you mean 'lookups'\? \(of hb\.benchmark\)"),
        ({"seeds": "abc"}, r"unknown setting 'seeds'\. Did you mean 'seed'\?"),
        ({"methods": 5}, "methods must be a list of one or more names or classes"),
        ({"tables": 5}, "tables must be a table, a name or a folder, or a list of these, not 5"),
        ({"seed": "1"}, "seed must be a whole number of 0 or more, not '1'"),
        ({"methods": []}, "methods must be a list of one or more names or classes"),
        ({"methods": hb.Optimizer}, "methods must be a list of one or more names or classes"),
        ({"seed": -1}, "seed must be a whole number of 0 or more, not -1"),
        ({"seed": None}, "seed must be a whole number of 0 or more, not None"),
        ({"seed": 10**300}, "seed must be a whole number from 0 to 9,.*, not 1000"),
        ({"objectives": {"bleu": "min"}}, "objectives must be a list, not {'bleu': 'min'}"),
        ({"objectives": {"bleu"}}, "objectives must be a list, not {'bleu'}"),
        ({"scores": b"ftb"}, "scores must be a list, not b'ftb'"),
        ({"trials": 2.5}, r"hb\.benchmark: trials must be a whole number"),
        ({"n_initial": 1.5}, r"hb\.benchmark: n_initial must be a whole number"),
        ({"workers": 1.5}, r"hb\.benchmark: workers must be a whole number"),
        ({"score_at": "x"}, r"hb\.benchmark: score_at\.default must be "),
        ({"tolerance": "x"}, r"hb\.benchmark: tolerance\.default must be "),
        ({"timeout": "x"}, "the time limit must be a number of seconds above 0, not 'x'"),
        ({"jobs": 1.5}, "jobs must be a whole number of 1 or more, not 1.5"),
        ({"constraints": [3]}, r"hb\.benchmark: constraints\[0\] must be a string"),
        ({"objectives": [3]}, r"hb\.benchmark: objectives\[0\] must be a string"),
        ({"scores": [3]}, "."),
        ({"time": "x"}, r"hb\.benchmark: time\.default must be "),
        ({"sources": [1]}, r"hb\.benchmark: sources\[0\] must be a string"),
    ],
)
def test_arguments_of_another_kind_are_named(toy, given, message):
    with pytest.raises(InputError, match=message):
        benchmark(**({"tables": toy, "methods": ["RS"]} | given))


def test_numbers_of_numpys_types_are_numbers(toy):
    results = benchmark(
        toy, ["RS"], trials=np.int64(2), score_at=np.int64(5), n_initial=np.int32(2), jobs=np.int64(1)
    )
    assert (results.suite.trials, results.suite.n_initial, results.suite.score_at_for("toy")) == (2, 2, 5)


def test_arrays_of_texts_are_lists_of_texts(toy, tmp_path):
    given = {"scores": np.array(["ftb"]), "objectives": np.array(["bleu"])}
    benchmark(toy, np.array(["RS"]), trials=1, **given).save(tmp_path / "out")
    suite = json.loads((tmp_path / "out" / "manifest.json").read_text())["suite"]
    assert (suite["scores"], suite["objectives"]) == (["ftb"], ["bleu"])


@pytest.mark.parametrize(
    ("suite", "given", "message"),
    [
        ("quik", {}, "unknown suite 'quik'. Did you mean 'quick'"),
        (5, {}, "suite must be a name, a .toml file or a Suite, not 5"),
        ("quick", {"lookup": 9}, r"unknown setting 'lookup'\. Did you mean 'lookups'\? \(of hb\.run\)"),
        ("quick", {"method": ["RS"]}, "unknown setting 'method'. Did you mean 'methods'"),
        ("quick", {"trials": 0}, "trials must be a whole number from 1 to 100000"),
        ("quick", {"tables": "toi"}, "unknown table 'toi'. Did you mean 'toy'"),
        ("quick", {"methods": "RS,RE,RSS"}, "unknown method 'RSS'. Did you mean 'RS'"),
        ("quick", {"methods": ["RS", "RS"]}, "method 'RS' is given twice"),
        ("quick", {"jobs": 0}, "jobs must be a whole number of 1 or more"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(toy_home, suite, given, message):
    with pytest.raises(InputError, match=message):
        hb.run(suite, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"out": 5}, "out must be the path of a results folder, not 5"),
        ({"out": ["a"]}, r"out must be the path of a results folder, not \['a'\]"),
        ({"out": ""}, "out: '' cannot be the path of a results folder"),
        ({"out": "a\0b"}, r"out: 'a\\x00b' cannot be the path of a results folder"),
        ({"out": "\ud800"}, r"out: '\\ud800' cannot be the path of a results folder"),
        ({"out": "x" * 300}, "x: cannot be written: File name too long"),
        ({"backend": 5}, "backend must be one of local, dask, ray, not 5"),
        ({"backend": ["local"]}, "backend must be one of local, dask, ray, not"),
        ({"progress": 5}, "progress must be a function of work done and total work, not 5"),
        ({"notify": 5}, "notify must be a function of a message, such as print, not 5"),
        ({"notify": None}, "notify must be a function of a message, such as print, not None"),
        ({"debug": "yes"}, "debug must be True or False, not 'yes'"),
        ({"debug": 1}, "debug must be True or False, not 1"),
        ({"suite": "lm-2026", "track": 5}, 'track must be the name of a track, such as "plain", not 5'),
        ({"tables": [5]}, r"tables must be a table, a name or a folder, or a list of these, not \[5\]"),
        ({"tables": b"toy"}, "tables must be a table, a name or a folder, or a list of these, not b'toy'"),
    ],
)
def test_arguments_of_a_run_of_another_kind_are_named(home, toy, given, message):
    with pytest.raises(InputError, match=message) as error:
        hb.run(**({"tables": toy, "methods": ["RS"], "trials": 1} | given))
    assert "\n" not in str(error.value)
    assert not list(Path().iterdir())


def test_paths_of_results_of_another_kind_are_named(home, toy):
    with pytest.raises(InputError, match="folder must be the path of a results folder, not 5"):
        hb.run(tables=toy, methods=["RS"], trials=1).save(5)
    with pytest.raises(InputError, match="folder must be the path of a results folder, not None"):
        hb.load_results(None)


def test_flags_of_numpys_type_are_flags(toy):
    assert hb.run(tables=toy, methods=["RS"], debug=np.bool_(True)).suite.trials == 1
    assert hb.run(tables=toy, methods=["RS"], trials=2, debug=np.bool_(False)).suite.trials == 2


def test_a_benchmark_has_no_suite(toy):
    with pytest.raises(
        InputError, match=r"hb\.benchmark does not take a suite: use hb\.run\(suite, tables=…, methods=…\)"
    ):
        benchmark(toy, ["RS"], suite="quick")


def test_names_may_stand_in_one_text(toy_home):
    of_lists = hb.run(
        tables=["toy"], methods=["RS", "BO_EI_M(length_scale=0.5)"], objectives=["bleu"], trials=2
    )
    text = "RS, BO_EI_M(length_scale=0.5)"
    of_texts = hb.run(tables="toy,", methods=text, objectives="bleu", scores="ftb,fb", trials=2)
    assert of_texts.methods == of_lists.methods and of_texts.suite.scores == ("ftb", "fb")
    assert [t.rows.tolist() for t in of_texts.trials["toy", "RS"]] == [
        t.rows.tolist() for t in of_lists.trials["toy", "RS"]
    ]
    assert set(hb.run(tables="toy,toy-missing", methods="RS", trials=1).instances) == {"toy", "toy-missing"}
