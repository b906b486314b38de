"""Deprecated names work, and warn with the versions and the name to use instead."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.cli.main import main


def problem_budget(toy):
    problem = hb.Problem(np.zeros((5, 1)), 1, lookups=4, n_initial=1)
    return problem.budget, problem.lookups


def budget_of_benchmark(toy):
    old, new = (benchmark(toy, ["RS"], trials=3, **{name: 7}) for name in ("budget", "score_at"))
    return (old.suite, old.scores().to_csv()), (new.suite, new.scores().to_csv())


def averaged(toy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert not toy.averaged
    rows = toy.to_frame().assign(replicate=1, seed=7)
    return toy.with_replicates(rows, averaged=True).averaged, True


def budget_in_a_suite(toy):
    Path("s.toml").write_text('scores = ["fb"]\n[budget]\ndefault = 7\n')
    old = load_suite("s.toml")
    Path("s.toml").write_text('scores = ["fb"]\n[score_at]\ndefault = 7\n')
    return old, load_suite("s.toml")


def budget_of_run(toy):
    def manifest(option, value, out):
        run = ["run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--quiet"]
        with pytest.raises(SystemExit) as end:
            main([*run, option, value, "--out", out])
        assert not end.value.code
        return Path(out, "manifest.json").read_bytes()

    return manifest("--budget", "5", "old"), manifest("--set", "score_at=5", "new")


@pytest.mark.parametrize(
    ("use", "old", "new"),
    [
        (problem_budget, "Problem.budget", "Problem.lookups"),
        (averaged, "Table.averaged", "Table.replicates.averaged"),
        (budget_of_benchmark, "hb.benchmark(budget=…)", "score_at=…"),
        (budget_in_a_suite, "budget in s.toml", "score_at"),
        (budget_of_run, "--budget", "--set score_at=5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_deprecated_name_works_and_warns_at_the_users_line(toy_home, toy, use, old, new):
    text = f"{old} is deprecated since version 1.1 and will be removed in version 2.0: use {new}."
    with pytest.warns(FutureWarning, match=f"^{re.escape(text)}$") as caught:
        by_old, by_new = use(toy)
    assert by_old == by_new
    assert len(caught) == 1
    assert caught[0].filename == __file__ or old.startswith("--")


def test_the_newest_names_do_not_warn(toy_home, toy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hb.run("quick", tables=["toy"], methods=["RS", "BO_EI_M"], trials=2, score_at=5, lookups=6)
