"""The conformance checks of a method, each in a worker process: one that ends it fails that check alone."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

from hpobench_nmt.benchmarking.plugins import load_method, resolve_methods
from hpobench_nmt.benchmarking.processes import Ended, Workers
from hpobench_nmt.core.errors import one_line
from hpobench_nmt.testing import CONFORMANCE_CHECKS, Check, NonConformance, checks_for


def check_method(spec: str, n_objectives: int = 1) -> Iterator[tuple[str, str]]:
    """The name of each check of a method, with the reason why it fails, empty if it does not.

    Args:
        spec: as on the command line.
        n_objectives: of the checks' problems.

    Raises:
        InputError: there is no such method.
    """
    (method,) = resolve_methods([spec])
    with Workers() if hasattr(os, "fork") else nullcontext() as workers:
        ask = workers.ask if workers else operator.call
        checks = ask(partial(_checks_for, method.source, n_objectives))
        for check in CONFORMANCE_CHECKS if isinstance(checks, Ended) else checks:
            reason = ask(partial(_reason, check, method.source, n_objectives))
            yield check.__name__, reason.of_the_method if isinstance(reason, Ended) else reason


def _checks_for(source: str, n_objectives: int) -> tuple[Check, ...]:
    """The checks for a method, in a worker process; all of the usual ones if it cannot be made."""
    try:
        return checks_for(load_method(source), n_objectives)
    except BaseException:
        return CONFORMANCE_CHECKS


def _reason(check: Check, source: str, n_objectives: int) -> str:
    """Why a method fails a check, in a worker process; empty if it does not."""
    try:
        check(load_method(source), n_objectives)
    except NonConformance as error:
        return str(error) or "no reason given"
    except BaseException as error:
        return f"its code outside of its calls raised {one_line(error)}"
    return ""
