"""The conformance checks of a method, each in a process: a method that ends it fails only that check."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hpobench_nmt.benchmarking.contestants.plugins import PREPARE, load_method, resolve_methods
from hpobench_nmt.benchmarking.running.worker import how_a_method_ended
from hpobench_nmt.core.system.errors import one_line
from hpobench_nmt.core.system.process_server import answer
from hpobench_nmt.core.system.processes import Ended, Process, outcome, shared_server
from hpobench_nmt.testing import CONFORMANCE_CHECKS, Check, NonConformance, checks_for


def check_method(spec: str, n_objectives: int = 1) -> Iterator[tuple[str, str]]:
    """The name of each check of a method (as on the command line), and why it fails: empty if it passes."""
    (method,) = resolve_methods([spec])
    checks = _apart(partial(_checks_for, method.source, n_objectives))
    for check in CONFORMANCE_CHECKS if isinstance(checks, str) else checks:
        yield check.__name__, _apart(partial(_reason, check, method.source, n_objectives))


def _apart(function: Callable[[], Any]) -> Any:
    """A function's result in a process of its own, or a text that states how a method ended the process."""
    if not hasattr(os, "fork"):
        return function()
    found = outcome(Process(shared_server(PREPARE), partial(answer, function, None)))
    return how_a_method_ended(found) if isinstance(found, Ended) else found[0] or found[1]


def _checks_for(source: str, n_objectives: int) -> tuple[Check, ...]:
    """The checks for a method, in a worker process; all usual checks if it cannot be constructed."""
    try:
        return checks_for(load_method(source), n_objectives)
    except BaseException:
        return CONFORMANCE_CHECKS


def _reason(check: Check, source: str, n_objectives: int) -> str:
    """Why a method fails a check, in a worker process; empty if it passes."""
    try:
        check(load_method(source), n_objectives)
    except NonConformance as error:
        return str(error) or "no reason given"
    except BaseException as error:
        return f"its code outside of its calls raised {one_line(error)}"
    return ""
