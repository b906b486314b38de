"""How a run was made, in words: what is said of settings that only some scores have."""

import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.provenance import facts
from hpobench_nmt.analysis.report_runs import Run
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.manifest import manifest_of
from hpobench_nmt.benchmarking.plugins import resolve_methods


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
    results = hb.benchmark(
        toy, ["RS"], objectives=objectives, scores=scores, trials=2, tolerance=0.5, score_at=5
    )
    manifest = manifest_of(results.suite, results.instances, resolve_methods(["RS"]), 0, {})
    said = dict(facts(Run("toy", results, run_statistics(results), manifest)))
    assert [name for name in said if name.endswith("taken after")] == ([taken] if taken else [])
    assert taken is None or said[taken] == "default 5 look-ups"
    assert ("tolerance" in said) is tolerance
