"""Suites with priors: what methods get, and that nothing else of a run changes."""

import json

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.core.system.errors import InputError


def test_good_and_misleading_priors_lie_around_rows_of_that_kind(toy):
    suite = Suite("s", ("ftb",))
    plain = make_instance(suite, toy)
    assert plain.problem.prior is None
    ranks = np.argsort(np.argsort(plain.losses[:, 0]))
    centre = {}
    for kind in ("good", "misleading"):
        made = make_instance(changed(suite, prior=kind), toy)
        assert not made.problem.prior.flags.writeable
        np.testing.assert_array_equal(
            made.problem.prior, make_instance(changed(suite, prior=kind), toy).problem.prior
        )
        centre[kind] = int(made.problem.prior.argmax())
    # The best of 25 rows is in the best fifth with a probability of 0.996; the draw is seeded.
    assert ranks[centre["good"]] < len(toy) / 5
    assert ranks[centre["misleading"]] > len(toy) * 4 / 5


def test_a_guess_in_a_suite_and_in_a_call(toy, tmp_path):
    name = toy.space.names[0]
    value = toy.space[name].values[0]
    (tmp_path / "mine.toml").write_text(f'scores = ["ftb"]\n[prior]\n{name} = {value}\n')
    suite = load_suite(str(tmp_path / "mine.toml"))
    first = make_instance(suite, toy).problem
    assert (first.prior == first.prior.max()).tolist() == (toy.configs[:, 0] == value).tolist()
    run = hb.run(suite, tables=[toy], methods=["piBO_M_std", "RS"], trials=2)
    same = benchmark([toy], ["piBO_M_std", "RS"], scores=["ftb"], trials=2, prior={name: value})
    other = benchmark([toy], ["piBO_M_std", "RS"], scores=["ftb"], trials=2, prior="misleading")

    def rows(results, method):
        return [trial.rows.tolist() for trial in results.trials[toy.name, method]]

    assert rows(run, "piBO_M_std") == rows(same, "piBO_M_std") != rows(other, "piBO_M_std")
    assert rows(run, "RS") == rows(other, "RS")
    with pytest.raises(InputError, match="unknown hyperparameter 'depht'"):
        benchmark([toy], ["RS"], trials=1, prior={"depht": 1})
    with pytest.raises(InputError, match="prior"):
        benchmark([toy], ["RS"], trials=1, prior="bad")


def test_a_prior_is_a_setting_of_the_results_folder(toy, tmp_path):
    def run(**settings):
        hb.run("quick", tables=[toy], methods=["RS"], trials=1, out=tmp_path / "out", **settings)

    run()
    written = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "prior" not in written["suite"]
    with pytest.raises(InputError, match="prior"):
        run(prior="good")


def test_worker_processes_get_the_prior(toy):
    def rows(jobs):
        found = benchmark(
            [toy], ["piBO_M_std"], scores=["ftb"], trials=2, jobs=jobs, prior="good", n_initial=0
        )
        return [trial.rows.tolist() for trial in found.trials[toy.name, "piBO_M_std"]]

    assert rows(1) == rows(2)
