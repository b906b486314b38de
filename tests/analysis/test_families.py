"""Tables of one group are summed up as a family."""

import dataclasses

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.families import family_frame, family_sentences, ranks_of
from hpobench_nmt.analysis.selection import families
from hpobench_nmt.analysis.verdicts import run_statistics


@pytest.fixture
def results(toy):
    tables = [
        dataclasses.replace(
            toy, name=name, claims={"collection": group} if group else {}, values=toy.values * scale
        )
        for name, group, scale in (("a", "both", 1.0), ("b", "both", 2.0), ("c", "", 3.0))
    ]
    return hb.benchmark(tables, ["RS", "BO_EI_M_std"], trials=10, scores=["ftb", "fb"], score_at=10)


def test_tables_by_family(results):
    assert families(results) == {"both": ("a", "b"), "c": ("c",)}


def test_mean_ranks_and_how_often_best(results):
    statistics = run_statistics(results)
    frame = family_frame(results, statistics).set_index(["family", "score", "method"])
    assert frame["tables"].tolist() == [2] * 4 + [1] * 4
    scores = statistics.scores.set_index(["table", "score", "method"])
    for family, tables in families(results).items():
        for score in ("ftb", "fb"):
            means = np.array([[scores.loc[(t, score, m), "mean"] for t in tables] for m in results.methods])
            expected = 1 + (means > means[::-1]).mean(axis=1) + 0.5 * (means == means[::-1]).mean(axis=1)
            for method, rank in zip(results.methods, expected, strict=True):
                assert frame.loc[(family, score, method), "mean_rank"] == pytest.approx(rank)
                marks = [scores.loc[(t, score, method), ["best", "tied"]].any() for t in tables]
                assert frame.loc[(family, score, method), "best"] == sum(marks)


def test_only_families_of_several_tables_are_told_of(results):
    lines = family_sentences(results, run_statistics(results))
    assert [line.split(":")[0] for line in lines[:-1]] == ["ftb on both, 2 tables", "fb on both, 2 tables"]
    assert "mean ranks BO_EI_M_std 1.00" in lines[0]
    assert lines[-1].startswith("In brackets")


def test_means_that_differ_by_rounding_errors_share_their_rank():
    assert ranks_of([0.1 + 0.2, 0.3, np.nan, 0.1], "fb") == [2.5, 2.5, 4.0, 1.0]
