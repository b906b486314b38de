"""An old sweep as an installed table, or as files to edit first."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args

import tomli_w

from hpobench_nmt.core.hyperparameter import Scale
from hpobench_nmt.core.system.errors import InputError, as_list, shortened, warn
from hpobench_nmt.core.system.files import check_name, is_name, read_toml, write_whole
from hpobench_nmt.core.system.folders import replace_folder, scratch_folder
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.lookup.disk.file_names import DATASHEET
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder, table_files
from hpobench_nmt.lookup.disk.rows import Progress
from hpobench_nmt.lookup.imports.build import build
from hpobench_nmt.lookup.imports.decide import Decision, decide
from hpobench_nmt.lookup.imports.read import fingerprint, read_sweep
from hpobench_nmt.lookup.imports.sweep import Ambiguous, Choices, Sweep
from hpobench_nmt.lookup.table import Table

_ROLES = ("objective", "metric", "hyperparameter", "seed")
_LONGEST_NAME = 24
_FINGERPRINT = "imported_sha256"
# The approximate shares of an import's time after which the sweep has been read, and the table has been made.
_READ, _MADE = 0.3, 0.7
# At most this many columns that were left out for the same reason are named.
_MOST_NAMES = 12


class Imported(NamedTuple):
    """A table made from a sweep, the decisions, and notes for the user on how the source was read."""

    table: Table
    kind: str
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]


class Unsure(InputError):
    """The roles of some columns are only guesses: what would be imported, and the doubts by column."""

    def __init__(self, source: Path, imported: Imported, doubts: Mapping[str, str]) -> None:
        self.imported, self.doubts = imported, doubts
        guesses = [
            f"{each.name} ({each.part}: {doubts[each.name]})"
            for each in imported.decisions
            if each.name in doubts
        ]
        shown = ", ".join(map(printable, guesses[:_MOST_NAMES])) + (
            ", …" if len(guesses) > _MOST_NAMES else ""
        )
        super().__init__(
            f"{source}: some roles are only guesses: {shown}. State the roles, or accept them all."
        )


def make_table(
    source: Path,
    name: str = "",
    choices: Choices | None = None,
    ask: Callable[[Ambiguous], str] | None = None,
    progress: Progress = lambda share: None,
) -> Imported:
    """The table of an old sweep. O(cells).

    Args:
        source: a file or folder of another program.
        name: name of the table. By default, it is derived from the name of the study or file.
        choices: the user's choices.
        ask: returns one of the answers to a question. By default, an ambiguous sweep is an error.
        progress: called with the share that is done.

    Raises:
        InputError: the sweep cannot be imported. The message states what is wrong, where, and what to do.
    """
    choices = choices or Choices()
    if name:
        check_name("table", name)
    sweep = None
    while True:
        try:
            if sweep is None:
                sweep = read_sweep(source, choices, lambda share: progress(_READ * share))
            plan = decide(sweep, choices)
            break
        except Ambiguous as question:
            choices = _answered(question, choices, ask)
    provenance = {
        "source": f"{sweep.kind}: {printable(source.name)[:200]}",
        _FINGERPRINT: fingerprint(source, choices),
    }
    table, more = build(sweep, plan, name or _name_of(sweep), provenance)
    progress(_MADE)
    order = ("objective", "metric", "hyperparameter", "seed", "curves", "replicates", "rows", "left out")
    decisions = sorted((*plan.decisions, *more), key=lambda decision: order.index(decision.part))
    imported = Imported(table, sweep.kind, tuple(decisions), sweep.notes)
    if plan.doubts and not choices.guessed:
        raise Unsure(source, imported, plan.doubts)
    return imported


def roles_file(imported: Imported, doubts: Mapping[str, str]) -> str:
    """The roles of all columns as TOML, for the user to correct: `with_roles` reads it."""
    tables: dict[str, dict[str, str]] = {}
    for part, name, text in imported.decisions:
        if not name or part not in (*_ROLES, "left out") or name.startswith("curves of "):
            continue
        entry = {"role": "ignore" if part == "left out" else part}
        if name in imported.table.space.names:
            hyperparameter = imported.table.space[name]
            entry |= {"scale": hyperparameter.scale} if hyperparameter.is_numeric else {}
        elif entry["role"] in ("objective", "metric"):
            (metric,) = (each for each in imported.table.metrics if each.name == name)
            entry |= {"direction": metric.direction} | ({"unit": metric.unit} if metric.unit else {})
        if name in doubts:
            entry["guess"] = doubts[name]
        tables[name] = {**entry, "reason": printable(text)}
    head = (
        "# The role of each column: objective, metric, hyperparameter, seed or ignore. Metrics have a\n"
        "# direction, min or max, and numeric hyperparameters a scale, linear or log.\n\n"
    )
    return head + tomli_w.dumps(tables)


def with_roles(choices: Choices, given: Mapping[str, Any], where: object) -> Choices:
    """The choices with the roles of columns: a table of each, as in a file of roles, or a role such as
    "metric:max". Raises InputError if a role is not known.
    """
    found: dict[str, list[str]] = {role: [] for role in (*_ROLES, "ignore")}
    scales: dict[str, Scale] = {}
    for column, entry in given.items():
        about = (
            dict(zip(("role", "direction"), entry.split(":"), strict=False))
            if isinstance(entry, str)
            else entry
        )
        role = about.get("role") if isinstance(about, Mapping) else None
        if role not in found:
            raise InputError(
                f"{where}: {shortened(column)} has the role {printable(repr(role))[:40]}. Roles are "
                f"{', '.join(_ROLES)} and ignore."
            )
        way = about.get("direction", "")
        found[role].append(f"{column}:{way}" if way and role in ("objective", "metric") else column)
        if role == "hyperparameter" and (scale := about.get("scale")) in get_args(Scale):
            scales[column] = scale  # type: ignore[assignment]  # it is one of them
    if len(found["seed"]) > 1:
        raise InputError(f"{where}: {shortened(found['seed'][1])} is a second column of seeds. Ignore one.")
    metrics = [*found["objective"], *found["metric"]]
    return replace(
        choices,
        metrics=(*choices.metrics, *metrics),
        hyperparameters=(*choices.hyperparameters, *found["hyperparameter"]),
        ignored=(*choices.ignored, *found["ignore"]),
        seed=choices.seed or "".join(found["seed"]),
        scales={**choices.scales, **scales},
    )


def import_table(
    source: str | Path,
    name: str = "",
    *,
    metrics: str | Sequence[str] | None = (),
    hyperparameters: str | Sequence[str] | None = (),
    ignored: str | Sequence[str] | None = (),
    seed: str = "",
    study: str = "",
    curves: str | Path | Sequence[str | Path] | None = (),
    roles: Mapping[str, Any] | str | Path | None = None,
    guessed: bool = False,
) -> Table:
    """Make a table from an old sweep of another program, without installing it. O(cells).

    `hpobench-nmt tables import --help` and the site describe what it can read and how it decides.

    Args:
        source: a file or folder of Optuna, W&B, MLflow, Ray Tune or scikit-learn, JSON lines, or a CSV file.
        name: name of the table. By default, it is derived from the name of the study or file.
        metrics: columns of metrics, with ":min" or ":max" if the name does not show the direction. The first
            is the objective.
        hyperparameters, ignored: columns that are hyperparameters, and columns to leave out.
        seed: the column of the seeds.
        study: the study to import, if the source has several.
        curves: exports of W&B's charts, with the learning curves of the runs.
        roles: roles by column, such as `{"lr": "hyperparameter", "wer": "objective:min", "host": "ignore"}`,
            or a file of roles that `tables import` has written.
        guessed: accept roles that are only guesses.

    Raises:
        InputError: the source cannot be read, or some roles are only guesses, which the message names. It is
            also raised if an argument has another type.
    """
    if not isinstance(source, str | Path):
        raise InputError(
            f"source must be the path of a file or folder, not a {type(source).__name__}. Write a data frame "
            "to a file first: frame.to_csv(path)."
        )
    for key, text in (("name", name), ("seed", seed), ("study", study)):
        if not isinstance(text, str | None):
            raise InputError(f"{key} must be a text, not {printable(repr(text))[:80]}.")
    choices = Choices(
        _names("metrics", metrics),
        _names("hyperparameters", hyperparameters),
        _names("ignored", ignored),
        seed or "",
        study or "",
        tuple(map(Path, _texts("curves", curves, str | Path))),
    )
    if roles is not None:
        known = roles if isinstance(roles, Mapping) else read_toml(Path(roles))
        choices = with_roles(choices, known, "roles" if isinstance(roles, Mapping) else roles)
    imported = make_table(Path(source), name, replace(choices, guessed=guessed))
    for note in imported.notes:
        warn(f"{source}: {note}.")
    return imported.table


def _names(key: str, given: object) -> tuple[str, ...]:
    return tuple(_texts(key, given, str))


def _texts(key: str, given: object, types: UnionType | type) -> list[Any]:
    """An argument as a list of values of these types: from one value, a list of them, or None."""
    found = [given] if isinstance(given, types) else [] if given is None else as_list(key, given)
    for each in found:
        if not isinstance(each, types):
            example = ", such as 'dev_bleu:max'" if key == "metrics" else ""
            raise InputError(f"{key} must hold texts{example}, not {printable(repr(each))[:80]}.")
    return found


def _answered(question: Ambiguous, choices: Choices, ask: Callable[[Ambiguous], str] | None) -> Choices:
    if ask is None:
        raise question
    return question.answered(choices, ask(question))


def _name_of(sweep: Sweep) -> str:
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", sweep.title).strip("-.")[:_LONGEST_NAME].strip("-.")
    if not is_name(name):
        raise InputError(
            f"{sweep.path}: {shortened(sweep.title)} cannot be the name of a table. Give a name: --as NAME."
        )
    return name


def known_as(table: Table, folder: Path, named: bool) -> str:
    """The name of an equal table of the same source in a folder of tables, or "".

    Raises InputError if the new table would replace a table of another source, and the user has not named the
    new table.
    """
    wanted = table.provenance[_FINGERPRINT]
    found = {
        sheet.parent.name: _fingerprint_in(sheet)
        for sheet in sorted(folder.glob(f"*/{DATASHEET}"))
        if not sheet.parent.name.startswith(".")
    }
    if not named and table.name in found and found[table.name] != wanted:
        raise InputError(
            f"{folder / table.name}: there is a table of this name from another source. Give another name: "
            f"--as NAME."
        )
    twins = [name for name, known in found.items() if known == wanted and (name == table.name or not named)]
    return next((name for name in twins if _holds(folder / name, table)), "")


def _holds(folder: Path, table: Table) -> bool:
    """Whether a folder holds the rows, objectives and curves of a table."""
    try:
        known = load_folder(folder)
    except InputError:  # the table is damaged, and the new table may replace it
        return False
    curves = [each.curves and each.curves.sha256 for each in (known, table)]
    return known.sha256 == table.sha256 and known.objectives == table.objectives and curves[0] == curves[1]


def _fingerprint_in(sheet: Path) -> object:
    try:
        about = read_toml(sheet).get("provenance")
    except InputError:  # loading this table reports it
        return None
    return about.get(_FINGERPRINT) if isinstance(about, dict) else None


def install_table(table: Table, folder: Path, progress: Progress = lambda share: None) -> Path:
    """Write a table into a folder of tables, whole or not at all, and return its new folder."""
    target = folder / table.name
    save_folder(table, target, progress=lambda share: progress(_MADE + (1 - _MADE) * share))
    return target


def write_draft(imported: Imported, folder: Path) -> None:
    """Write a table's files for the user to edit and add. The datasheet has the reasons, but no hashes.

    Raises InputError if the folder exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already. Name a new folder.")
    files = table_files(imported.table)
    sheet = tomllib.loads(files[DATASHEET].decode())
    for section in ("rows", "replicates", "curves"):
        for key in ("count", "sha256"):
            sheet.get(section, {}).pop(key, None)
    sheet.pop("claims", None)
    sheet.pop("rows", None)
    with scratch_folder(folder) as work:
        for name, content in files.items():
            if name != DATASHEET:
                write_whole(work / name, content)
        head = "\n".join(f"# {line}" for line in decision_lines(imported.decisions))
        note = f"# Edit this, then: hpobench-nmt tables add {folder.name}\n#\n"
        write_whole(work / DATASHEET, f"{note}{head}\n\n{tomli_w.dumps(sheet)}".encode())
        work.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        replace_folder(work, folder)


def decision_lines(decisions: Sequence[Decision]) -> list[str]:
    """The decisions, one per line, with part and name in columns. Left-out columns are listed by reason."""
    reasons: dict[str, list[str]] = {}
    for each in decisions:
        if each.part == "left out":
            reasons.setdefault(each.text, []).append(each.name or "(no name)")
    decisions = [each for each in decisions if each.part != "left out"]
    for reason, names in reasons.items():
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        decisions.append(Decision("left out", "", f"{', '.join(names[:_MOST_NAMES])}{more}: {reason}"))
    part = max((len(each.part) for each in decisions), default=0)
    name = min(max((len(each.name) for each in decisions), default=0), 30)
    return [
        printable(
            f"{each.part:{part}}  {each.name:{name}}  {each.text}"
            if each.name
            else f"{each.part:{part}}  {each.text}"
        )
        for each in decisions
    ]
