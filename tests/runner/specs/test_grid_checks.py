"""A check of a whole grid against one of every configuration."""

import itertools
from types import SimpleNamespace

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.specs.grid_checks import check_all

GRID = {"a": [1, 2, 3], "b": [1, 2], "c": [1, 2, 3, 4], "d": [1, 2]}


def of_two(s):
    if s.a + s.c == s.limit:
        raise InputError("sum")


def by_and_by(s):
    """Reads c only where b is 2, and a only where c is 3."""
    if s.b == 2 and s.c == 3 and s.a > 1:
        raise InputError("late")


def of_all(s):
    if s.a + s.b + s.c + s.d + s.limit == 12:
        raise InputError("all")


def of_none(s):
    raise InputError("never")


@pytest.mark.parametrize("check", [of_two, by_and_by, of_all, of_none, lambda s: None])
def test_the_first_wrong_configuration_is_that_of_a_full_search(check):
    calls = []

    def settings(configuration):
        calls.append(dict(configuration))
        return SimpleNamespace(**configuration, limit=6)

    first = next(iter(check_all(GRID, settings, check)), None)
    called = len(calls)
    naive = None
    for values in itertools.product(*GRID.values()):
        configuration = dict(zip(GRID, values, strict=True))
        try:
            check(settings(configuration))
        except InputError as error:
            naive = naive or (configuration, str(error))
    assert (first and (first[0], first[2])) == naive
    assert called <= {of_two: 13, by_and_by: 40, of_all: 49}.get(check, 1)


def test_each_combination_of_what_is_read_is_named_once():
    found = list(check_all(GRID, lambda c: SimpleNamespace(**c, limit=4), of_two))
    assert {names for _, names, _ in found} == {("a", "c")}
    wrong = [configuration for configuration, _, _ in found]
    assert wrong == [{"a": a, "b": 1, "c": 4 - a, "d": 1} for a in (1, 2, 3)]
