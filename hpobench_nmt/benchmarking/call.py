"""A benchmark as one call: `hb.run` runs a suite, and `hb.benchmark` runs methods without a suite."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.contestants.method_settings import split_spec
from hpobench_nmt.benchmarking.contestants.plugins import MethodSpec, method_list, resolve_methods
from hpobench_nmt.benchmarking.records.frozen import check_pinned, chosen_part
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.results_folder import ResultsFolder
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.suite import DEFAULT, INSTALLED, Suite, changed, overridden
from hpobench_nmt.benchmarking.task.suite_files import FROZEN, load_suite, track_of
from hpobench_nmt.benchmarking.task.suite_tables import WITH_DEFAULT, note_ignored
from hpobench_nmt.core.system.clusters import Backend
from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.errors import InputError, Notify, as_list, unknown, warn
from hpobench_nmt.core.system.text import brief, split_names
from hpobench_nmt.core.system.validation import checked
from hpobench_nmt.evaluation.scores import SCORES, score_names
from hpobench_nmt.lookup.catalogue import groups, installed
from hpobench_nmt.lookup.disk.folder import table_name
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import BUILT_IN, KNOWN

TableOrName = Table | str | Path

_LOOKUPS_SCORED = 20  # the default at which fb and similar scores are measured
_LISTS = ("scores", "objectives", "constraints", "sources")
_SETTINGS = {*Suite.__struct_fields__} - {"name", "tables", "methods"}
_ARGUMENTS = {"tables", "methods", "seed", "jobs", "timeout", "debug"}


def run(
    suite: str | Path | Suite = "quick",
    *,
    track: str = "",
    tables: TableOrName | Iterable[TableOrName] = (),
    methods: Iterable[MethodSpec] = (),
    scores: Sequence[str] = (),
    objectives: Sequence[str] = (),
    trials: int | None = None,
    score_at: float | Mapping[str, float] | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    seed: int = 0,
    jobs: int | None = 1,
    backend: Backend = "local",
    timeout: float | None = None,
    out: str | Path | None = None,
    progress: Callable[[float, float], None] | None = None,
    notify: Notify = warn,
    debug: bool = False,
    **settings: Any,
) -> Results:
    """Run a suite, as `hpobench-nmt run` does.

        results = hb.run("quick", tables=["sotu-ngram"], methods=["RS", "BO_auto"], trials=20)
        print(results.scores())

    Args:
        suite: a name from `hb.list_suites()`, a .toml file, or a Suite. The following arguments replace its
            settings. In a frozen suite, only the number of trials can be replaced.
        track: the track of a benchmark that has several, such as "plain" of "lm-2026".
        tables: one or more tables, names, collections or folders.
        methods: names from `hb.list_methods()`, "file.py:Class", "cmd:python agent.py", or classes; "all"
            means all methods that fit the suite.
        scores: some of ftb, ftc and fb for one objective, or of fto, fta, fbp and fbh for two and more.
        objectives: "metric" or "metric:min|max".
        trials: number of seeded trials per method and table.
        score_at: number of look-ups, or time on the clock, after which scores such as fb are measured; the
            trial continues after it. One number for all tables, or a dictionary by table.
        tolerance: tolerance of ftc in the metric's unit; one number for all tables, or a dictionary by table.
        seed: root seed.
        jobs: number of worker processes; None means one for each processor core. With 1, methods of the
            package and methods given as classes run in this process, and a class that ends its process ends
            this process. Methods given as a file or module always have processes of their own.
        backend: where methods of the package run: in worker processes of this machine, or on a cluster.
        timeout: time limit in seconds for each call of a user's method; None means no limit. If a call takes
            longer, its trial fails. With a limit, classes also have processes of their own, and must be
            picklable. Methods of the package are never limited.
        out: results folder, new or of the same run. Every block of trials is saved there when it ends, and
            the same call resumes a run that was stopped. By default, results are only in memory, and
            `Results.save` writes them.
        progress: called with (work done, total work) as blocks of trials end.
        notify: called with each message for the user, for example when a table is left out. By
            default, messages are warnings.
        debug: run one trial of each method on each table in this process, and raise the errors of your
            methods, so that a debugger stops there. No folder is written, and there is no time limit.
        settings: other keys of a suite, such as `constraints=["dev_gpu_time<=60"]`, `noise`, `lookups` (the
            maximum number of rows that a trial may look up) or `time` (the maximum time of a trial).

    Raises:
        InputError: an unknown suite, table, method or setting; settings that contradict each other; or a
            folder with another run.
        RunError: the folder cannot be written.
    """
    if not isinstance(suite, Suite | str | Path):
        raise InputError(f"suite must be a name, a .toml file or a Suite, not {brief(suite)}.")
    folder = None if out is None else ResultsFolder.of(out, "out").path
    debug = _plain(debug)
    _check_kinds(track, progress, notify, debug)
    if track:
        suite = track_of(suite.name if isinstance(suite, Suite) else str(suite), track)
    usual = suite if isinstance(suite, Suite) else load_suite(str(suite))
    if debug:
        if folder:
            raise InputError("a run with debug does not write results: leave out the folder.")
        trials, timeout = 1, None
    named: dict[str, Any] = {"scores": scores, "objectives": objectives, "trials": trials}
    named |= {"score_at": score_at, "tolerance": tolerance}
    given = _given("hb.run", named, settings)
    chosen = overridden(usual, given)
    for score in (score for score in usual.scores if score not in chosen.scores and "scores" not in given):
        notify(f"Left out: {score}. On this clock it needs a time, score_at.")
    how = {"seed": seed, "backend": backend, "timeout": timeout, "progress": progress, "debug": debug}
    part = _tables(tables)
    note_ignored(chosen, part[1], part[0], notify)
    return _run(chosen, part, methods, notify, jobs, folder, **how)


def benchmark(
    tables: TableOrName | Iterable[TableOrName],
    methods: Iterable[MethodSpec],
    *,
    scores: Sequence[str] = (),
    objectives: Sequence[str] = (),
    trials: int = 100,
    seed: int = 0,
    score_at: float | None = None,
    tolerance: float | None = None,
    jobs: int = 1,
    timeout: float | None = None,
    **settings: Any,
) -> Results:
    """Run methods on tables without a suite, with only these settings.

    Args:
        tables, methods, objectives, trials, seed, tolerance, jobs, timeout, settings: as in `run`.
        scores: by default ftb, ftc and fb, or for two and more objectives fto, fta, fbp and fbh. With
            `clock="cost"`, scores such as fb are included only if `score_at` is given.
        score_at: as in `run`; by default 20 look-ups.

    Raises:
        InputError: an unknown table or method, or settings that contradict each other.
    """
    if "suite" in settings:
        raise InputError("hb.benchmark does not take a suite: use hb.run(suite, tables=…, methods=…).")
    if "budget" in settings:
        warn_deprecated("hb.benchmark(budget=…)", "score_at=…", since="1.1", removed_in="2.0")
        score_at = settings.pop("budget")
    methods = method_list(methods)
    if not methods:
        raise InputError("methods must be a list of one or more names or classes, such as ['RS', 'BO_EI_M'].")
    if score_at is None and _clock(settings) != "cost":
        score_at = _LOOKUPS_SCORED
    usual = tuple(
        name
        for name in score_names(len(objectives) or 1)
        if SCORES[name].default and (score_at is not None or not SCORES[name].needs_score_at)
    )
    if not any(SCORES[name].needs_score_at for name in scores or usual if name in SCORES):
        score_at = None
    named: dict[str, Any] = {"scores": scores or usual, "objectives": objectives, "trials": trials}
    named |= {"score_at": score_at, "tolerance": tolerance}
    given = _given("hb.benchmark", named, settings)
    chosen = _tables(tables)
    about = {"name": "benchmark", "tables": chosen[1] or (INSTALLED,)}
    suite = checked(about | given, Suite, "hb.benchmark")
    note_ignored(suite, chosen[1], chosen[0], warn)
    return _run(suite, chosen, methods, lambda message: None, jobs, seed=seed, timeout=timeout)


def _check_kinds(track: object, progress: object, notify: object, debug: object) -> None:
    """Refuse arguments of another kind, which would fail only after trials, or mean something else."""
    arguments = (
        ("track", track, isinstance(track, str | None), 'the name of a track, such as "plain"'),
        (
            "progress",
            progress,
            progress is None or callable(progress),
            "a function of work done and total work",
        ),
        ("notify", notify, callable(notify), "a function of a message, such as print"),
        ("debug", debug, isinstance(debug, bool), "True or False"),
    )
    for name, value, right, wanted in arguments:
        if not right:
            raise InputError(f"{name} must be {wanted}, not {brief(value)}.")


def _given(where: str, named: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a suite that were given, in the form of a suite file.

    `named` has the arguments of the function `where`, which are None or empty if they were left out.
    """
    for name in settings:
        if name not in _SETTINGS:
            raise unknown("setting", name, _SETTINGS | _ARGUMENTS, f"(of {where})")
    given = {
        key: value
        for key, value in named.items()
        if not (value is None or (isinstance(value, list | tuple) and not value))
    }
    given |= settings
    if clock := _clock(given):
        given["clock"] = clock
    for name in _LISTS:
        if name in given:
            given[name] = as_list(name, given[name])
    for name, value in given.items():
        value = _plain(value)
        for_all = name in WITH_DEFAULT and not isinstance(value, Mapping)
        given[name] = {DEFAULT: value} if for_all else value
    return given


def _plain(value: Any) -> Any:
    """A value in Python's own type, if it has one of NumPy's."""
    return value.item() if isinstance(value, np.generic) else value


def _clock(settings: Mapping[str, Any]) -> str:
    """The clock that was given, or the one that `cost` or `curves` need; "" if none of them is set."""
    return settings.get("clock", "") or ("cost" if settings.get("cost") or settings.get("curves") else "")


def _run(
    suite: Suite,
    tables: tuple[dict[str, Table], tuple[str, ...]],
    methods: Iterable[MethodSpec],
    notify: Notify,
    jobs: int | None,
    folder: Path | None = None,
    **how: Any,
) -> Results:
    """Run a suite on tables as `_tables` returns them."""
    loaded, specs = tables
    if suite.on_whole_tables and suite.name.startswith(f"{FROZEN}-"):
        raise InputError(
            f"{suite.name} of version 1.1 can be read and scored, but not run: run {FROZEN} of this version."
        )
    suite = chosen_part(suite, specs, notify)
    named = resolve_methods(_with_every_method(suite, method_list(methods) or list(suite.methods), notify))
    suite = changed(suite, methods=tuple(method.spec for method in named))
    early = ", ".join(m.name for m in named if m.built_in and BUILT_IN[split_spec(m.spec)[0]].partial)
    if early and not suite.curves:
        notify(f"Without curves every training runs to its end: {early} cannot stop trainings early.")
    instances = suite_instances(suite, notify, loaded)
    check_pinned(suite, instances)
    return run_suite(
        suite,
        instances,
        named,
        jobs=processors() if jobs is None else _plain(jobs),
        folder=folder,
        table_folders=_folders(spec for spec in suite.tables if spec not in loaded),
        notify=notify,
        **how,
    )


def processors() -> int:
    """Number of processor cores that this process may use."""
    import joblib  # imported here because its import is slow

    return int(joblib.cpu_count())


def _tables(given: TableOrName | Iterable[TableOrName]) -> tuple[dict[str, Table], tuple[str, ...]]:
    """The tables that were given as Table, by name, and the names or folders of all tables."""
    if isinstance(given, str) and not Path(given).exists():
        given = split_names(given) or [given]
    several = [given] if isinstance(given, Table | str | Path) else given
    several = list(several) if isinstance(several, Iterable) else [several]
    if not all(isinstance(each, Table | str | os.PathLike) for each in several):
        shown = brief(given)
        raise InputError(f"tables must be a table, a name or a folder, or a list of these, not {shown}.")
    loaded = {table.name: table for table in several if isinstance(table, Table)}
    return loaded, tuple(each.name if isinstance(each, Table) else _spec(each) for each in several)


def _spec(table: str | Path) -> str:
    """A table's name, or its folder with a path separator, which distinguishes it from a name."""
    text = str(table)
    return text if isinstance(table, str) or os.sep in text else f"{os.curdir}{os.sep}{text}"


def _folders(specs: Iterable[str]) -> dict[str, str]:
    """By name, the folders of tables that were given as folders, so that their results can be read later."""
    known = {INSTALLED, *installed(), *groups()}
    folders = [Path(spec).resolve() for spec in specs if spec not in known]
    return {table_name(folder): str(folder) for folder in folders}


def _with_every_method(suite: Suite, methods: Sequence[MethodSpec], notify: Notify) -> list[MethodSpec]:
    """The methods, with "all" replaced by the names of all methods that fit the suite."""
    if "all" not in methods:
        return list(methods)
    own = [method for method in methods if method != "all"]
    return list(dict.fromkeys([*every_method(suite, notify), *own]))


def every_method(suite: Suite, notify: Notify) -> tuple[str, ...]:
    """The methods that "all" means: those that fit the suite and whose libraries are installed."""
    # Optimizers of other libraries do not have `suggest`.
    known = KNOWN if suite.workers == 1 else BUILT_IN
    fits = [m for m in known.values() if suite.n_objectives in m.objectives]
    fitting = [m for m in fits if suite.curves or not m.partial]
    absent = [m.name for m in fitting if m.missing()]
    if absent:
        notify(f"Left out, because their libraries are not installed: {', '.join(absent)}.")
    return tuple(m.name for m in fitting if m.name not in absent)
