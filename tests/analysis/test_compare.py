"""Comparisons of two methods, in one run and in two."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError


@pytest.fixture(scope="module")
def tables():
    return [hb.load_table(name) for name in ("sotu-gpt-30k", "sotu-awd-lstm", "lohelp-de-en")]


@pytest.fixture(scope="module")
def both(tables):
    return hb.run("quick", tables=tables, methods=["RS", "BO_EI_M", "BO_EI_M_std", "corner"], trials=10)


def test_the_difference_is_that_of_paired_trials(both):
    found = hb.compare(both, methods=["BO_EI_M_std", "BO_EI_M"])
    logs = []
    for table in both.instances:
        times = {m: found.paired.runtimes[table][found.paired.methods.index(m)] for m in (found.a, found.b)}
        a, b = times["BO_EI_M_std"], times["BO_EI_M"]
        bias = (np.var(b, ddof=1) / b.mean() ** 2 - np.var(a, ddof=1) / a.mean() ** 2) / (2 * len(a))
        logs.append(np.log(b.mean() / a.mean()) + bias)
    assert found.here.ratio == pytest.approx(np.exp(np.mean(logs)))
    assert found.here.low < found.here.ratio < found.here.high
    back = hb.compare(both, methods=["BO_EI_M", "BO_EI_M_std"])
    assert back.here.ratio == pytest.approx(1 / found.here.ratio)
    assert back.here.p == pytest.approx(found.here.p)


def test_it_is_said_in_words(both):
    found = hb.compare(both)  # two methods beside random search and a control
    text = str(found)
    assert len(found.lines) == 5 and all(line in text for line in found.lines)
    assert "over 3 tables of 3 families" in found.lines[0]
    assert "On other families: no verdict. It takes 5 that tuned neither, and there are 2." in text
    assert found.lines[-1] == f"In a paper: {found.sentence}"
    assert "10 trials a table on random 60% of the rows, suite quick, seed 0" in found.sentence


def test_two_runs_are_compared_as_one(tables, both):
    runs = [hb.run("quick", tables=tables, methods=[m], trials=10) for m in ("BO_EI_M", "BO_EI_M_std")]
    assert hb.compare(*runs).here == hb.compare(both, methods=["BO_EI_M", "BO_EI_M_std"]).here
    same = hb.compare(runs[0], runs[0])
    assert (same.a, same.b) == ("BO_EI_M", "BO_EI_M (second run)")
    assert same.here.ratio == 1.0 and np.isnan(same.here.p)
    assert "no test" in same.lines[1]


def test_runs_that_differ_are_refused_by_name(tables, both):
    with pytest.raises(InputError, match="other tables: only one of them has lohelp-de-en, sotu-awd-lstm"):
        hb.compare(both, hb.run("quick", tables=tables[:1], methods=["BO_EI_M"], trials=2))
    with pytest.raises(InputError, match="other seeds: 0 and 1"):
        hb.compare(both, dataclasses.replace(both, seed=1))
    other = hb.run("quick", tables=tables, methods=["BO_EI_M"], trials=2, sample=0.5)
    with pytest.raises(InputError, match="other settings: sample"):
        hb.compare(both, other)
    with pytest.raises(InputError, match="unknown method 'BO_EI_N'"):
        hb.compare(both, methods=["BO_EI_M", "BO_EI_N"])
    with pytest.raises(InputError, match="name the methods to compare: a run has BO_EI_M, BO_EI_M_std"):
        hb.compare(both, both)


def test_power_is_that_of_the_components_of_the_results(both):
    frame = hb.power(both, "BO_EI_M_std", families=8, tables=2, trials=20)
    assert frame["ratio"].tolist() == [1.3, 1.5, 2.0]
    assert (np.diff(frame["power"]) > 0).all() and (np.diff(frame["families"]) <= 0).all()
    assert ((frame["low"] <= frame["power"]) & (frame["power"] <= frame["high"])).all()
    more = hb.power(both, "BO_EI_M_std", families=16, tables=2, trials=20)
    assert (more["power"] > frame["power"]).all()
    assert more["families"].tolist() == frame["families"].tolist()
    with pytest.raises(InputError, match="two or more families, not 1"):
        hb.power(hb.run("quick", tables=["sotu-ngram"], methods=["RS", "BO_EI_M"], trials=2), "BO_EI_M")
    with pytest.raises(InputError, match="unknown method 'BO_auto'"):
        hb.power(both)
