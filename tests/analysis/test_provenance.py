"""How runs were made, in words, and the tables of several runs."""

import dataclasses

import numpy as np
import pytest

from hpobench_nmt.analysis.leaderboard import setting
from hpobench_nmt.analysis.provenance import facts, provenance
from hpobench_nmt.analysis.report_runs import Run, all_tables, check_same_tables, run_slugs
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.manifest import manifest_of
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.core.system.errors import InputError


def run_of(results: Results) -> Run:
    manifest = manifest_of(results.suite, results.instances, resolve_methods(results.methods), 0, {})
    return Run("toy", results, run_statistics(results), manifest)


@pytest.mark.parametrize(
    ("scores", "taken", "tolerance"),
    [
        (("ftb", "ftc", "fb"), "fb taken after", True),
        (("fto", "fbp"), "fbp taken after", False),
        (("ftb",), None, False),
    ],
)
def test_settings_are_named_with_the_scores_that_they_are_of(toy, scores, taken, tolerance):
    objectives = ["bleu", "seconds"] if "fto" in scores else ["bleu"]
    results = benchmark(
        toy, ["RS"], objectives=objectives, scores=scores, trials=2, tolerance=0.5, score_at=5
    )
    said = dict(facts(run_of(results)))
    assert [name for name in said if name.endswith("taken after")] == ([taken] if taken else [])
    assert taken is None or said[taken] == "default 5 look-ups"
    assert said.get("tolerance of ftc") == ("toy 0.5 BLEU" if tolerance else None)


def test_a_tolerance_that_nobody_has_given_is_said_too(toy):
    (metric, *others) = toy.metrics
    untold = dataclasses.replace(toy, metrics=(dataclasses.replace(metric, tolerance=None), *others))
    results = benchmark(untold, ["RS"], scores=("ftc",), trials=2)
    bleu = toy.column("bleu")
    expected = 0.05 * (bleu.max() - np.median(bleu))
    assert dict(facts(run_of(results)))["tolerance of ftc"] == f"toy {expected:.3g} BLEU"
    assert f"; ftc: within {expected:.3g} BLEU of the best" in setting(results, "toy")
    assert "ftc" not in setting(benchmark(untold, ["RS"], scores=("ftb",), trials=2), "toy")


def test_runs_on_a_table_with_and_without_its_curves_are_of_the_same_table(curved):
    settings = {"scores": ("ftb",), "trials": 2}
    whole = run_of(benchmark(curved, ["RS"], **settings))
    along = run_of(benchmark(curved, ["RS"], clock="cost", curves=True, **settings))
    assert len(along.results.instances["toy"].table) == 33
    check_same_tables([whole, along])
    for runs in ([along], [whole, along], [along, whole]):
        assert [table.sha256 for table in all_tables(runs)] == [curved.sha256]
        ((name, rows, sha256, _),) = provenance(runs)
        assert (name, rows, sha256) == ("toy", "36", curved.sha256)
    other = run_of(benchmark(dataclasses.replace(curved, values=curved.values + 1), ["RS"], **settings))
    with pytest.raises(InputError, match="table 'toy' differs between the folders"):
        check_same_tables([along, other])


def test_the_tables_that_methods_learned_from_are_named(toy):
    results = benchmark(toy, ["RS"], scores=("ftb",), trials=2)
    assert "sources" not in dict(facts(run_of(results)))
    suite = changed(results.suite, sources=("sotu-ngram", "nmthpo"))
    said = dict(facts(run_of(dataclasses.replace(results, suite=suite))))
    assert said["sources"] == "methods may learn from sotu-ngram, nmthpo, except the table itself"


def test_a_suite_of_ones_own_may_have_the_name_of_one_of_the_package(toy):
    results = benchmark(toy, ["RS"], objectives=["bleu", "seconds"], scores=("fto",), trials=2)
    run = run_of(dataclasses.replace(results, suite=changed(results.suite, name="quick")))
    assert dict(facts(run))["command"].startswith("hpobench-nmt run quick.toml --tables toy --methods RS")


def test_no_figure_of_a_run_has_the_name_of_another(toy):
    results = benchmark(toy, ["RS"], scores=("ftb",), trials=2)
    runs = [
        run_of(dataclasses.replace(results, suite=changed(results.suite, name=name)))
        for name in ("quick", "quick", "quick-2", "table", "table-3", "tables", "a b")
    ]
    slugs = run_slugs(runs)
    assert slugs == ["quick", "run2-quick", "run3-quick-2", "run4-table", "run5-table-3", "tables", "a-b"]
