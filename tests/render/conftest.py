"""A clock that makes every search for the place of a legend slow."""

import itertools
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch):
    """Matplotlib warns if the search for the best place of a legend takes a second, which depends on the
    machine: here it always does, so no figure may ask for that search.
    """
    ticks = itertools.count(step=2)
    monkeypatch.setattr("matplotlib.legend.time", SimpleNamespace(perf_counter=lambda: next(ticks)))
