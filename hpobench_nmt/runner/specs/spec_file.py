"""Training specs: the models to train, their corpus, and the metrics to measure.

Keys of a spec file, of which name, family, [corpus] and [grid] are required:

    name          name of the table
    title         one line for people
    note          a text for users of the table, which goes into its datasheet
    family        the kind of model; each family has its own settings and metrics (runner/families/)
    seed          a whole number; the same seed gives the same models
    keep          whether the best model of each training is kept, as with `train --keep`
    [baseline]    a simpler model that rows should beat: its name, its value of a metric, and how that was
                  computed; it goes into the table's datasheet
    objectives    objectives of the table, the single objective first; if left out, the first metric that
                  trainings on the corpus measure
    metrics       columns of the table; if left out, all metrics of the family
    base          folder that paths of the corpus start from; if left out, the spec's own folder
    [corpus]      the name of a corpus, and its settings (runner/corpora/)
    [grid]        settings that make up the search space, each with a list of values; texts and booleans
                  are categories. For `tune`, a range may replace a list:
                  learning_rate = {from = 1e-4, to = 1e-2, scale = "log"}
    candidates    with ranges, the number of configurations that are drawn from them, among which `tune`
                  chooses; a smaller space is used whole. If left out, 1000 are drawn from a space with
                  more than 100,000 configurations
    points        number of configurations of a grid that are trained, spread evenly over it (Sobol); if left
                  out, all
    neighbours    number of best configurations whose neighbours on the grid are trained as well
    [when]        the condition under which a setting of the grid has an effect, such as
                  momentum = {optimizer = ["sgd", "muon"]}: values of the others. Where it has none, the
                  setting is left out of the configuration, so that no two rows are one training
    [scale]       "linear" or "log" for settings of the grid; if left out, the setting's own scale
    [fixed]       settings that are the same in every configuration
    [replicates]  configurations: number of configurations that are trained again; trainings: how often each
                  of them is trained again with other seeds; best: number of best rows that are also trained
                  again, after all rows have ended; same_seed: how often all of these rows are also trained
                  again with the seed of the row itself
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from hpobench_nmt.core.candidates import MOST_CANDIDATES, whole_or_drawn
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Hyperparameter, Scale, Space
from hpobench_nmt.core.system.errors import InputError, prefixed, unknown
from hpobench_nmt.core.system.files import check_name
from hpobench_nmt.core.system.validation import Finite, Natural, Strict, Whole, load_toml
from hpobench_nmt.lookup.baselines import Baseline
from hpobench_nmt.runner.disk.user_paths import user_path
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Family
from hpobench_nmt.runner.settings import Setting
from hpobench_nmt.runner.specs.grid_checks import check_all
from hpobench_nmt.runner.specs.spec import Replicates, Spec, among, describe

_MAX_GRID = 10_000_000
_MAX_REPLICATES = 100_000
_CANDIDATES = 1000


class Range(Strict, frozen=True):
    """A range of numbers in [grid]."""

    low: Whole | Finite = msgspec.field(name="from")
    high: Whole | Finite = msgspec.field(name="to")
    scale: Scale | None = None


class _SpecFile(Strict, frozen=True):
    """A spec file. Values of [corpus] and [fixed] are checked by the settings that they belong to."""

    name: str
    family: str
    corpus: dict[str, Any]
    grid: dict[str, list[bool | Whole | Finite | str] | Range]
    scale: dict[str, Scale] = msgspec.field(default_factory=dict)
    when: dict[str, dict[str, list[bool | Whole | Finite | str]]] = msgspec.field(default_factory=dict)
    fixed: dict[str, Any] = msgspec.field(default_factory=dict)
    replicates: Replicates | None = None
    title: str = ""
    note: str = ""
    seed: Natural = 0
    baseline: Baseline | None = None
    objectives: list[str] = msgspec.field(default_factory=list)
    metrics: list[str] = msgspec.field(default_factory=list)
    base: str = ""
    keep: bool = False
    candidates: Natural = 0
    points: Natural = 0
    neighbours: Natural = 0


def load_spec(path: Path, follow_link: bool = True) -> Spec:
    """Read a spec and check all of it: keys, settings, ranges, the corpus section, every configuration.

    Raises InputError with what is wrong and the nearest valid name.
    """
    file = load_toml(path, _SpecFile, follow_link)
    with prefixed(path):
        return _checked(file, path)


def _checked(file: _SpecFile, path: Path) -> Spec:
    """The spec of a file. Errors do not name the file, which `load_spec` does."""
    from hpobench_nmt.runner.corpora import corpus_kind, filled_section

    family = load_family(file.family)
    axes = _axes(family, file)
    fixed = {k: family.setting(k, "[fixed]").check(v, "[fixed]") for k, v in file.fixed.items()}
    for axis in axes:
        if axis.name in fixed:
            raise InputError(f"{axis.name} is both in [grid] and in [fixed].")
    needed = (name for name, default in family.defaults.items() if default is None)
    if lacking := [name for name in needed if name not in fixed and name not in file.grid]:
        needs = f"family {family.name!r} needs {', '.join(lacking)}"
        raise InputError(f"{needs}, each in [grid] or in [fixed].")
    kind = corpus_kind(file.corpus)
    if kind != family.corpus:
        raise InputError(
            f"family {family.name!r} trains on a {family.corpus} corpus, and {file.corpus['name']!r} is a "
            f"{kind} corpus."
        )
    known = {metric.name: metric for metric in family.metrics}
    _refuse_wrong("metric", file.metrics, known, f"family {family.name!r}")
    names = file.metrics or list(known)
    _refuse_wrong("objective", file.objectives, names, "objectives")
    if file.baseline:
        _refuse_wrong("metric", [file.baseline.metric], names, "[baseline]")
    section = filled_section(file.corpus)
    usual = next((name for name in names if not family.never_measured(name, section)), names[0])
    again = file.replicates or Replicates()
    size = math.prod(len(axis.values) for axis in axes)
    rows, turns = again.configurations + again.best, again.trainings + again.same_seed
    if file.replicates and not (rows and turns):
        raise InputError(
            "[replicates] does not ask for trainings. It needs configurations or best (how many rows), and "
            "trainings or same_seed (how often)."
        )
    if min(rows, size) * turns > _MAX_REPLICATES:
        raise InputError(f"[replicates] asks for more than {_MAX_REPLICATES:,} trainings.")
    spec = Spec(
        name=check_name("table", file.name),
        title=file.title,
        note=file.note,
        family=family,
        seed=file.seed,
        objectives=tuple(file.objectives) or (usual,),
        metrics=tuple(known[name] for name in names),
        corpus=file.corpus,
        axes=axes,
        fixed=fixed,
        replicates=again,
        base=user_path(path.resolve().parent, file.base, "base"),
        path=path,
        keep=file.keep,
        points=file.points,
        neighbours=file.neighbours,
        baseline=file.baseline,
    )
    if file.neighbours and not file.points:
        raise InputError("neighbours are only for points of a grid, but the whole grid is trained.")
    if file.candidates or _ranges(file):
        return _with_candidates(spec, file)
    for configuration, _, wrong in check_all(spec.grid, spec.settings, family.check):
        raise InputError(f"{describe(configuration)}: {wrong}")
    return spec


def _ranges(file: _SpecFile) -> dict[str, Range]:
    return {name: values for name, values in file.grid.items() if isinstance(values, Range)}


def _with_candidates(spec: Spec, file: _SpecFile) -> Spec:
    """The spec with configurations drawn from its ranges, without those that the family refuses."""
    ranges = _ranges(file)
    if not ranges:
        raise InputError("candidates are drawn from ranges, but [grid] has only lists.")
    of_grids = {
        "[replicates]": file.replicates,
        "[when]": file.when,
        "points": file.points,
        "neighbours": file.neighbours,
    }
    for key in (key for key, given in of_grids.items() if given):
        raise InputError(f"{key} are only for a grid of lists, but [grid] has ranges.")
    if file.candidates > MOST_CANDIDATES:
        raise InputError(f"{file.candidates:,} candidates; at most {MOST_CANDIDATES:,} are allowed.")
    rng = generator(spec.seed, "candidates")
    drawn = whole_or_drawn(spec.axes, file.candidates or _CANDIDATES, rng, file.candidates or MOST_CANDIDATES)
    candidates = replace(spec, drawn=drawn)
    trainable, wrong = [], ""
    for row in range(len(drawn)):
        try:
            spec.family.check(spec.settings(candidates.configuration(row)))
            trainable.append(row)
        except InputError as error:
            wrong = wrong or str(error)
    if not trainable:
        raise InputError(f"[grid]: no candidate can be trained: {wrong}")
    return among(spec, drawn[trainable])


def _axes(family: Family[Any], file: _SpecFile) -> tuple[Hyperparameter, ...]:
    if not file.grid:
        raise InputError("[grid] needs at least one hyperparameter, such as layers = [1, 2].")
    axes = []
    for name, values in file.grid.items():
        setting = family.setting(name, "[grid]")
        if not setting.about.on_grid:
            told = f"{name} ({setting.about.description})"
            raise InputError(f"{told} cannot be on the grid: put it in [fixed].")
        axes.append(_axis(setting, values, file.scale.get(name)))
    for section, of in (("scale", file.scale), ("when", file.when)):
        _refuse_wrong("hyperparameter", list(of), file.grid, f"[{section}]")
    size = math.prod(len(axis.values) for axis in axes)
    if size > _MAX_GRID:
        raise InputError(f"the grid has {size:,} configurations; at most {_MAX_GRID:,} are allowed.")
    conditions = {name: tuple((p, tuple(of)) for p, of in each.items()) for name, each in file.when.items()}
    return Space(tuple(replace(a, active_if=conditions.get(a.name, ())) for a in axes)).hyperparameters


def _axis(setting: Setting, values: list[Any] | Range, scale: Scale | None) -> Hyperparameter:
    name, about = setting.name, setting.about
    of_numbers, ranged = setting.kind in (int, float), isinstance(values, Range)
    if not of_numbers and (scale or ranged):
        raise InputError(f"[grid]: {name} has labels: it needs a list of labels, without a scale.")
    if isinstance(values, Range):
        if values.low >= values.high:
            raise InputError(f"[grid] {name}: from must be smaller than to.")
        scale, values = values.scale or scale, [values.low, values.high]
    if not values:
        raise InputError(f"[grid] {name} has no values.")
    found = [setting.check(v, "[grid]") for v in values]
    if len(set(found)) < len(found):
        raise InputError(f"[grid] {name} has a value twice.")
    if not of_numbers:
        return Hyperparameter(name, tuple(found), unit=about.unit, kind="categorical")
    numbers, scale = tuple(sorted(map(float, found))), scale or about.scale
    if scale == "log" and numbers[0] <= 0:
        instead = 'scale = "linear" in the range' if ranged else f'{name} = "linear" in [scale]'
        raise InputError(
            f"[grid]: {name} has the value {numbers[0]:g}, which is not possible on a log scale. Use values "
            f"above 0, or write {instead}."
        )
    whole = setting.kind is int if ranged else None
    return Hyperparameter(name, numbers, scale, about.unit, integer=whole, continuous=ranged)


def _refuse_wrong(kind: str, names: Sequence[str], known: Collection[str], where: str) -> None:
    """Refuse a name that is not known, or occurs twice."""
    for name in names:
        if name not in known:
            raise unknown(kind, name, known, f"({where})")
        if names.count(name) > 1:
            raise InputError(f"{where}: {kind} {name!r} occurs twice.")
