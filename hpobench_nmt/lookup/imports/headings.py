"""What the headings of a table show: which program wrote it, and what that program's columns mean."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.text import counted, free_name
from hpobench_nmt.lookup.imports.cells import absent, as_seconds, between, columns_of, flattened, states_of
from hpobench_nmt.lookup.imports.names import is_progress, is_seconds
from hpobench_nmt.lookup.imports.sweep import Column, Role, Sweep

SECONDS = "seconds"
_MOST_TEXT = 100_000


@dataclass(frozen=True)
class Format:
    """The headings of one kind of table.

    Attributes:
        kind: description, for messages.
        needs: headings that the table must have. Of an entry with |, it must have one.
        needs_prefix: at least one heading must begin with one of these, unless this is empty.
        prefixes: the role of columns by the prefix of their heading, which is not part of their name.
        aside: headings of columns to leave out, in lower case.
        state: heading of the column of states.
        seconds: heading of the duration, or the headings of start and end.
        objectives: headings, or prefixes of headings, of the optimised metrics.
        direction: direction of the metrics, if it is always the same.
    """

    kind: str
    needs: tuple[str, ...] = ()
    needs_prefix: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, Role], ...] = ()
    aside: frozenset[str] = frozenset()
    state: str = ""
    seconds: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    direction: Direction | None = None


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(","))


def _before(words: str, marks: str, role: Role) -> list[tuple[str, Role]]:
    return [(word + mark, role) for word in words.split() for mark in marks]


_GENERIC_PREFIXES: tuple[tuple[str, Role], ...] = (
    *_before("params param config hparams hparam hp hyperparameters parameters", "./", "hyperparameter"),
    *_before("metrics metric results result summary scores values", "./", "metric"),
    ("cfg-", "hyperparameter"), ("obj-", "metric"), ("cost-", "metric"), ("hw-", "identity"),
    *_before("user_attrs attrs", ".", "extra"),
    *_before("tags tag system_attrs meta", "./", "identity"),
)  # fmt: skip

_FORMATS = (
    Format(
        "Optuna's trials_dataframe()",
        needs=("number", "state"),
        needs_prefix=("params_", "value"),
        prefixes=(
            ("params_", "hyperparameter"), ("values_", "metric"), ("user_attrs_", "extra"),
            ("system_attrs_", "identity"),
        ),
        aside=_words(",unnamed: 0,number,trial_id,datetime_start,datetime_complete"),
        state="state",
        seconds=("duration",),
        objectives=("value", "values_"),
    ),
    Format(
        "MLflow's search_runs()",
        needs=("run_id", "status", "experiment_id"),
        prefixes=(("params.", "hyperparameter"), ("metrics.", "metric"), ("tags.", "identity")),
        aside=_words(",unnamed: 0,run_id,experiment_id,artifact_uri"),
        state="status",
        seconds=("start_time", "end_time"),
    ),
    Format(
        "an MLflow export",
        needs=("Run ID", "Status", "Start Time|Duration|Source Name"),
        aside=_words(
            "start time,run id,name,run name,source type,source name,source,user,version,models,dataset,"
            "created,experiment id,experiment name"
        ),
        state="Status",
        seconds=("Duration",),
    ),
    Format(
        "a W&B export of runs",
        needs=("Name", "State", "Created|Runtime|Sweep|ID|User"),
        prefixes=(("config.", "hyperparameter"), ("summary.", "metric"), ("_wandb.", "identity")),
        aside=_words(
            "name,id,notes,user,tags,created,sweep,updated,end time,hostname,description,commit,github,"
            "host,group,job type,agent,command,python version,os,gpu type,gpu count,cpu count,heartbeat,"
            "entity,project,_runtime,_step,_timestamp,displayname"
        ),
        state="State",
        seconds=("Runtime",),
    ),
    Format(
        "a W&B export of runs",
        needs=("config", "summary"),
        prefixes=(("config.", "hyperparameter"), ("summary._", "identity"), ("summary.", "metric")),
        aside=_words(",unnamed: 0,name,id,tags"),
        state="state",
        seconds=("summary._runtime",),
    ),
    Format(
        "Ray Tune's results",
        needs=("training_iteration", "trial_id"),
        prefixes=(("config/", "hyperparameter"),),
        aside=_words(
            ",unnamed: 0,timestamp,checkpoint_dir_name,done,training_iteration,trial_id,date,"
            "time_this_iter_s,pid,hostname,node_ip,time_since_restore,iterations_since_restore,logdir,experiment_id,should_checkpoint,timesteps_total,"
            "timesteps_since_restore,episodes_total,experiment_tag,warmup_time"
        ),
        seconds=("time_total_s",),
    ),
    Format(
        "an Ax experiment",
        needs=("trial_index", "arm_name", "trial_status"),
        aside=_words(",unnamed: 0,trial_index,arm_name,generation_node,generation_method,generation_step"),
        state="trial_status",
    ),
    Format(
        "a log of Nevergrad",
        needs=("#num-ask", "#loss"),
        prefixes=(("#", "identity"), ("", "hyperparameter")),
        objectives=("#loss",),
        direction="min",
    ),
    Format(
        "scikit-learn's cv_results_",
        needs=("mean_fit_time", "params"),
        prefixes=(
            ("param_", "hyperparameter"), ("mean_test_", "metric"), ("mean_train_", "identity"),
            ("std_", "identity"), ("rank_", "identity"), ("split", "identity"),
        ),
        aside=_words(",unnamed: 0,params,mean_score_time,iter,n_resources"),
        seconds=("mean_fit_time",),
        direction="max",
    ),
)  # fmt: skip
TABLE, JSON_LINES = "a table", "JSON lines"
_PLAIN = Format(TABLE, prefixes=_GENERIC_PREFIXES)
_STATES = ("state", "status", "success")


def headed(
    columns: Mapping[str, Column], path: Path, title: str, place: Callable[[int], str], kind: str = ""
) -> Sweep:
    """The sweep of a table's columns, by its headings. `kind` describes a table of an unknown program."""
    columns = _opened(dict(columns))
    found = next((form for form in _FORMATS if _fits(form, columns)), _PLAIN)
    columns = {name: cells for name, cells in columns.items() if cells is not _OPENED}
    if found is _PLAIN and kind:
        found = replace(found, kind=kind)
    lowered = {name.lower(): name for name in columns}
    roles: dict[str, Role] = {}
    names: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for name in columns:
        prefix, role = next(
            ((p, r) for p, r in found.prefixes if name.startswith(p) and name != p), ("", None)
        )
        if name.lower() in found.aside:
            progress = is_progress(name) or name == "n_resources"
            roles[name] = "aside" if progress else "identity"
            reasons[name] = f"bookkeeping of {found.kind}"
        elif role is not None:
            roles[name], names[name] = role, name.removeprefix(prefix)
            reasons[name] = f"called {prefix}…" if prefix else f"not bookkeeping of {found.kind}"
    if found is _PLAIN and not any(role == "hyperparameter" for role in roles.values()):
        roles = {name: role for name, role in roles.items() if role in ("aside", "identity", "metric")}
    states = None
    for word in [found.state] if found.state else _STATES:
        name = lowered.get(word.lower(), "")
        if name and columns[name].dtype == object and roles.get(name) != "hyperparameter":
            states = states_of(columns[name])
            if states is not None or found.state:
                roles[name], reasons[name] = "identity", "the state of each training"
                break
    sources = found.seconds if found is not _PLAIN and found.seconds else _durations(columns, roles)
    seconds = _seconds(columns, sources)
    if seconds is not None:
        for name in sources:
            roles[name], reasons[name] = "identity", f"it is in {SECONDS}"
        name = SECONDS if SECONDS in sources else free_name(SECONDS, columns)
        columns[name], roles[name], names[name] = seconds, "seconds", SECONDS
        reasons[name] = f"from {' and '.join(sources)}"
    objectives = [
        n for n in columns for o in found.objectives if n == o or (o.endswith("_") and n.startswith(o))
    ]
    for name in objectives:
        roles[name], reasons[name] = "metric", "what the study optimised"
        bare = name.removeprefix("values_").removeprefix("#")
        names[name] = name if bare.isdecimal() else bare
    directions = {n: found.direction for n, r in roles.items() if r == "metric"} if found.direction else {}
    sweep = Sweep(
        found.kind, path, title, columns, roles, names, reasons, tuple(objectives), directions, {}, states,
        notes=tuple(_unread(columns[n], n) for n in sources if len(sources) == 1 and n in columns),
        place=place,
    )  # fmt: skip
    return without_parents(replace(sweep, notes=tuple(filter(None, sweep.notes))))


def _unread(cells: Column, name: str) -> str:
    """A note on the cells of a column of durations that are none; "" if there are none."""
    wrong = np.isnan(as_seconds(cells)) & ~absent(cells)
    if not wrong.any():
        return ""
    first = cells[wrong][0]
    return f"{int(wrong.sum()):,} of {len(cells):,} cells of {name} are not durations, such as {first!r}"


def without_parents(sweep: Sweep) -> Sweep:
    """The sweep without runs that are the parent of others: they only repeat the best of their children."""
    parents, ids = (sweep.columns.get(name) for name in ("tags.mlflow.parentRunId", "run_id"))
    if parents is None or ids is None:
        return sweep
    kept = np.flatnonzero(~np.isin(ids.astype(str), np.unique(parents[~absent(parents)].astype(str))))
    lost = len(sweep) - len(kept)
    if not lost:
        return sweep
    return replace(
        sweep,
        columns={name: cells[kept] for name, cells in sweep.columns.items()},
        states=None if sweep.states is None else sweep.states[kept],
        place=lambda row: sweep.place(int(kept[row])),
        notes=(*sweep.notes, f"{counted(lost, 'run')} with nested runs left out: the nested runs count"),
    )


def _fits(form: Format, columns: Mapping[str, Column]) -> bool:
    if not all(any(name in columns for name in need.split("|")) for need in form.needs):
        return False
    return not form.needs_prefix or any(name.startswith(form.needs_prefix) for name in columns)


def _durations(columns: Mapping[str, Column], roles: Mapping[str, Role]) -> tuple[str, ...]:
    """The column with the duration of each training in a table of an unknown program, or no column."""
    return tuple(
        n for n in columns if is_seconds(n) and roles.get(n) not in ("hyperparameter", "aside", "identity")
    )[:1]


def _seconds(columns: Mapping[str, Column], sources: Sequence[str]) -> Floats | None:
    """The duration of each training, from one column or from two columns of dates; None if unknown."""
    if not sources or not all(name in columns for name in sources):
        return None
    given = [columns[name] for name in sources]
    found = as_seconds(given[0]) if len(given) == 1 else between(given[0], given[1])
    return None if np.isnan(found).all() else found


_OPENED: Column = np.empty(0, dtype=object)  # marks a column that was opened


def _opened(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns. Cells from W&B's API may be dictionaries; each of their keys becomes a column."""
    for name in [name for name in ("config", "summary") if name in columns]:
        cells = columns[name]
        if cells.dtype != object or not all(isinstance(c, str) and c.startswith("{") for c in cells):
            return columns
        records = [_literal(cell) for cell in cells]
        if any(record is None for record in records):
            return columns
        rest = {key: column for key, column in columns.items() if key != name}
        flat: Sequence[dict[str, Any]] = [
            flattened(record, f"{name}.") for record in records if record is not None
        ]
        inner = {
            key: column
            for key, column in columns_of(flat).items()
            if not key.startswith((f"{name}._wandb", f"{name}.wandb_version"))
        }
        columns = {**rest, **inner, name: _OPENED}
    return columns


class _Numbers(ast.NodeTransformer):
    """Replaces the names nan and inf, which Python prints for numbers, by these numbers."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(float(node.id)) if node.id in ("nan", "inf") else node


def _literal(text: str) -> dict[str, Any] | None:
    """A dictionary in Python's syntax, read without running it; None if the text is not a dictionary."""
    if len(text) > _MOST_TEXT:
        return None
    try:
        found = ast.literal_eval(_Numbers().visit(ast.parse(text.strip(), mode="eval")))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
    return found if isinstance(found, dict) and all(isinstance(key, str) for key in found) else None
