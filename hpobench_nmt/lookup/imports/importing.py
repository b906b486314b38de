"""An old sweep as an installed table, or as files to edit first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple

import tomli_w

from hpobench_nmt.core.system.errors import InputError, as_list, foreign, shortened, warn
from hpobench_nmt.core.system.files import check_name, is_name, read_toml, write_whole
from hpobench_nmt.core.system.text import brief, printable, some_of
from hpobench_nmt.lookup.disk.csv_writing import Progress
from hpobench_nmt.lookup.disk.file_names import DATASHEET
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder
from hpobench_nmt.lookup.imports.build import build
from hpobench_nmt.lookup.imports.decide import Decision, decide, decisions_of
from hpobench_nmt.lookup.imports.read import fingerprint, read_sweep
from hpobench_nmt.lookup.imports.roles import stated
from hpobench_nmt.lookup.imports.sweep import About, Choices, Sweep
from hpobench_nmt.lookup.table import Table

_LONGEST_NAME = 24
_FINGERPRINT = "imported_sha256"
# The approximate share of an import's time after which the table has been made.
_MADE = 0.7
_ORDER = ("objective", "metric", "hyperparameter", "seed", "curves", "replicates", "rows", "left out")


class Imported(NamedTuple):
    """A table made from a sweep, and how: the decisions, notes on how the source was read, and the roles of
    columns, with doubts about those that are only guesses.
    """

    table: Table
    kind: str
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]
    about: Mapping[str, About]

    @property
    def doubts(self) -> dict[str, str]:
        """Why roles are only guesses, by column."""
        return {column: about.doubt for column, about in self.about.items() if about.doubt}


class Unsure(InputError):
    """The roles of some columns are only guesses: what would be imported."""

    def __init__(self, source: Path, imported: Imported) -> None:
        self.imported = imported
        about, doubts = imported.about, imported.doubts
        shown = printable(some_of([f"{c} ({about[c].shown}: {doubt})" for c, doubt in doubts.items()]))
        super().__init__(
            f"{source}: some roles are only guesses: {shown}. State the roles, or accept them all."
        )


def make_table(
    source: Path, name: str = "", choices: Choices | None = None, progress: Progress = lambda share: None
) -> Imported:
    """The table of an old sweep. O(cells).

    Args:
        source: a file or folder of another program.
        name: name of the table. By default, it is derived from the name of the study or file.
        choices: the user's choices.
        progress: called with the share that is done.

    Raises:
        InputError: the sweep cannot be imported. The message states what is wrong, where, and what to do.
        Unsure: some roles are only guesses, and the user's choices do not accept these.
    """
    choices = choices or Choices()
    if name:
        check_name("table", name)
    with foreign(source, "has content that its program does not write"):
        sweep = read_sweep(source, choices)
        plan = decide(sweep, choices)
        provenance = {
            "source": f"{sweep.kind}: {printable(source.name)[:200]}",
            _FINGERPRINT: fingerprint(source, choices),
        }
        table, more = build(sweep, plan, name or _name_of(sweep), provenance)
    progress(_MADE)
    decisions = sorted((*decisions_of(plan), *more), key=lambda decision: _ORDER.index(decision.part))
    imported = Imported(table, sweep.kind, tuple(decisions), sweep.notes, plan.about)
    if imported.doubts and not choices.guessed:
        raise Unsure(source, imported)
    return imported


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
        source: a file or folder of Optuna, W&B, MLflow, Ray Tune, Syne Tune, NePS, SMAC, Keras Tuner, HPO-B
            or scikit-learn, a state of `minimize`, JSON lines, or a CSV file.
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
            raise InputError(f"{key} must be a text, not {brief(text)}.")
    known = read_toml(Path(roles)) if isinstance(roles, str | Path) else roles
    choices = Choices(
        stated(
            _texts("metrics", metrics, str),
            _texts("hyperparameters", hyperparameters, str),
            _texts("ignored", ignored, str),
            seed or "",
            known,
            "roles" if known is roles else roles,
        ),
        study or "",
        tuple(map(Path, _texts("curves", curves, str | Path))),
        guessed,
    )
    imported = make_table(Path(source), name, choices)
    for note in imported.notes:
        warn(f"{source}: {note}.")
    return imported.table


def _texts(key: str, given: object, types: UnionType | type) -> list[Any]:
    """An argument as a list of values of these types: from one value, a list of them, or None."""
    found = [given] if isinstance(given, types) else [] if given is None else as_list(key, given)
    for each in found:
        if not isinstance(each, types):
            example = ", such as 'dev_bleu:max'" if key == "metrics" else ""
            raise InputError(f"{key} must hold texts{example}, not {brief(each)}.")
    return found


def _name_of(sweep: Sweep) -> str:
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", sweep.title).strip("-.")[:_LONGEST_NAME].strip("-.")
    if not is_name(name):
        title = shortened(sweep.title)
        raise InputError(f"{sweep.path}: {title} cannot be the name of a table. Give a name: --as NAME.")
    return name


def is_known(table: Table, folder: Path, named: bool) -> bool:
    """Whether a folder of tables has this table, with equal rows, objectives and curves.

    Raises InputError if the new table would replace a table of another source, and the user has not named the
    new table.
    """
    target = folder / table.name
    if not (target / DATASHEET).exists():
        return False
    try:
        known = load_folder(target)
    except InputError:  # the table is damaged, and the new table may replace it
        return False
    same = known.provenance.get(_FINGERPRINT) == table.provenance[_FINGERPRINT]
    if not named and not same:
        raise InputError(
            f"{target}: there is a table of this name from another source. Give another name: --as NAME."
        )
    curves = [each.curves and each.curves.sha256 for each in (known, table)]
    equal = known.sha256 == table.sha256 and known.objectives == table.objectives and curves[0] == curves[1]
    return same and equal


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
    save_folder(imported.table, folder)
    sheet = read_toml(folder / DATASHEET)
    for key in ("count", "sha256"):
        for section in ("replicates", "curves"):
            sheet.get(section, {}).pop(key, None)
    edited = tomli_w.dumps({key: entry for key, entry in sheet.items() if key not in ("claims", "rows")})
    head = "\n".join(f"# {line}" for line in decision_lines(imported.decisions))
    note = f"# Edit this, then: hpobench-nmt tables add {folder.name}\n#\n"
    write_whole(folder / DATASHEET, f"{note}{head}\n\n{edited}".encode())


def decision_lines(decisions: Sequence[Decision]) -> list[str]:
    """The decisions, one per line, with part and name in columns. Left-out columns are listed by reason."""
    reasons: dict[str, list[str]] = {}
    for each in decisions:
        if each.part == "left out":
            reasons.setdefault(each.text, []).append(each.name or "(no name)")
    shown = [each for each in decisions if each.part != "left out"]
    shown += [Decision("left out", "", f"{some_of(names)}: {reason}") for reason, names in reasons.items()]
    part = max(len(each.part) for each in shown)
    name = min(max(len(each.name) for each in shown), _LONGEST_NAME)
    texts = (f"{f'{each.name:{name}}  ' if each.name else ''}{each.text}" for each in shown)
    return [printable(f"{each.part:{part}}  {text}") for each, text in zip(shown, texts, strict=True)]
