"""How much a metric varies when only the seed changes (Zhang & Duh 2020, 7.2; Melis et al. 2018, 7.2).

A table has one training of each configuration. If some configurations were trained again with other seeds
(replicates), the spread within a configuration is the noise of a row:

    s^2 = sum_c sum_r (y_cr - mean_c)^2 / df,   df = sum_c (n_c - 1)

for n_c trainings of configuration c. This assumes that the noise is the same everywhere, so compare the
spreads of the configurations first. The difference of two single trainings of equally good configurations has
the standard deviation s sqrt(2), so with probability 0.95 it stays below

    smallest difference worth believing = t(0.975, df) s sqrt(2)

where t is Student's quantile. It is 1.96 for many trainings, and larger for few, because s itself is
uncertain.

Configurations that were trained again with the same seeds may share more than noise. In dynamic evaluation,
for example, one model is used for all settings, so a seed means a model, and another seed changes all
settings in the same way. Such a common change does not show which configuration is better. It is estimated by
least squares of y_cr = mean_c + effect_r, relative to the table's own trainings, and subtracted before
spreads and orders are computed. Every seed costs one degree of freedom. Values and means are not changed. If
the table's best rows were lucky, all their trainings with other seeds are worse, and this would look like an
effect of the seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import chi2, kendalltau, t

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.space import Hyperparameter, Value, label
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import free_name

_MOST_CONFIGURATIONS = 50


@dataclass(frozen=True)
class PooledNoise:
    """Spread within groups of repeated measurements: standard deviation, its df, and its 95% interval.

    The interval is chi-squared, for normal noise. Two single measurements that differ only by noise are
    farther apart than `smallest_difference` in 5% of cases.
    """

    sd: float
    df: int
    low: float
    high: float
    smallest_difference: float


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """The seed noise of a table's metric, measured by replicates.

    Attributes:
        table, metric: names of the table and of the metric.
        trainings: one line per training: configuration (a number, best table row first), row (of the table,
            -1 if the table lacks the configuration), source ("table" or "replicate"), value (as measured).
        configurations: one line per configuration: row, its hyperparameters (with "_" appended to a name that
            another column has), in_table (the table's value), n (number of trainings, including the table's
            own), mean (as measured), sd and range (without the effects of shared seeds), luck (how much
            better the table's value is than the mean of the replicates, in units of the sd of a single
            training that includes the effect of its seed; NaN if the table's values are means).
        n_again: how many configurations were trained again; if more than 50, `configurations` has a part of
            them.
        pooled: noise over all of `configurations`, without the effects of shared seeds.
        averaged_over: the number of trainings whose mean a row is; the median over configurations.
        between_rows: the smallest difference worth believing between two rows: that of `pooled` for single
            trainings, divided by sqrt(n) for means of n trainings.
        shared_seeds: seeds that several configurations were trained with.
        kendall: mean over rounds r of Kendall's tau between the table's order and the order of the r-th
            replicates; NaN for fewer than 2 configurations, and for means, because the replicates determine
            the table's order.
        agreement: for each pair of configurations: their rows, their difference in the table, and the
            probability that two replicates, one of each, are ordered as in the table (ties count half). Empty
            for means.
        pairs_within: share of all pairs of the table's rows that differ by no more than `between_rows`.
        rows_within: number of the table's rows within `between_rows` of the best, including the best.
        n_rows: number of the table's rows that have the metric.
        ranked: these rows, the best first (equal rows in the table's order): row, value, gap to the best.
    """

    table: str
    metric: str
    trainings: pd.DataFrame
    configurations: pd.DataFrame
    n_again: int
    pooled: PooledNoise
    averaged_over: int
    between_rows: float
    shared_seeds: int
    kendall: float
    agreement: pd.DataFrame
    pairs_within: float
    rows_within: int
    n_rows: int
    ranked: pd.DataFrame

    @property
    def order_holds(self) -> float:
        """Mean of the agreement over pairs; NaN without pairs."""
        return float(self.agreement["probability"].mean()) if len(self.agreement) else np.nan


def pooled_noise(groups: Sequence[Floats], effects: int = 0) -> PooledNoise:
    """Spread within groups of repeated measurements, without NaN; groups of one measurement do not count.

    Each estimated effect that was subtracted from the values costs a degree of freedom. Raises InputError if
    no group has two values, or if the effects use up all degrees of freedom.
    """
    df = sum(len(g) - 1 for g in groups if len(g) > 1) - effects
    if df <= 0 and effects:
        raise InputError("the trainings share too many seeds for a spread to be estimated.")
    if df <= 0:
        raise InputError("no configuration was trained twice, so no spread can be measured.")
    squares = sum(float(((g - g.mean()) ** 2).sum()) for g in groups if len(g) > 1)
    sd = (squares / df) ** 0.5
    low, high = (float((squares / chi2.ppf(level, df)) ** 0.5) for level in (0.975, 0.025))
    return PooledNoise(sd, df, low, high, smallest_difference=float(t.ppf(0.975, df)) * 2**0.5 * sd)


def seed_noise(response: Response, replicates: pd.DataFrame, averaged: bool = False) -> SeedNoise:
    """Noise of a table's metric from trainings with other seeds.

    If more than 50 configurations were trained again, 50 are analysed, in equal steps from the best to the
    median. A single diverged training in the worse half would outweigh all others. A configuration that was
    chosen because it is the best of the table has, on average, a lucky value in the table. This widens the
    spread slightly; its `luck` shows how much.

    Args:
        response: one training of each configuration, which counts as a further training; or, if averaged, the
            means of the trainings.
        replicates: one line per training, with a column for each hyperparameter and for the metric, in raw
            units, and `seed` if it is known. Lines whose `replicate` is 0 are the table's own trainings, and
            are left out, as are lines without the metric.

    Raises InputError if a column is absent, or no configuration has two trainings.
    """
    objective, in_table = response.objective, response.values
    names = [h.name for h in response.hyperparameters]
    wanted, there = [*names, objective.metric], list(map(str, replicates.columns))
    check_known("column", wanted, there, f"(replicates of {response.table!r})")
    if "replicate" in replicates.columns:
        replicates = replicates[replicates["replicate"] != 0]
    replicates = replicates[replicates[objective.metric].notna()]
    axes = response.hyperparameters
    in_order = _configs([h.column(codes).tolist() for h, codes in zip(axes, response.configs.T, strict=True)])
    row_of = {config: row for row, config in enumerate(in_order)}
    configs = _configs([_column(h, replicates[h.name]) for h in axes])
    own_values = {c: float(in_table[row_of[c]]) if c in row_of else np.nan for c in configs}
    n_again = len(own_values)
    if n_again > _MOST_CONFIGURATIONS:
        own_values = _some(own_values, objective.to_loss(1.0))
        chosen = np.array([config in own_values for config in configs])
        replicates, configs = replicates[chosen], [c for c in configs if c in own_values]
    measured = replicates[objective.metric].to_numpy(np.float64)
    known = dict.fromkeys(own_values, np.nan) if averaged else own_values
    adjusted, shared, lost = _without_shared_seeds(configs, measured, _seeds(replicates), known)
    # Best in the table first. NaN, for a configuration without a value in the table, last.
    sign = objective.to_loss(1.0)
    best_first = sorted(own_values.items(), key=lambda item: (np.isnan(item[1]), sign * item[1]))
    groups = []
    for config, own in best_first:
        its = np.array([c == config for c in configs], dtype=bool)
        row = row_of.get(config, -1)
        groups.append(_Group(row, config, own, measured[its], adjusted[its], averaged))
    pooled = pooled_noise([g.with_own(g.adjusted) for g in groups], lost)
    ranked = _ranked(sign * in_table)
    losses = ranked["gap"].to_numpy()
    each = int(np.median([len(g.measured) for g in groups])) if averaged else 1
    limit = pooled.smallest_difference / each**0.5
    return SeedNoise(
        table=response.table,
        metric=objective.metric,
        trainings=_trainings(groups),
        configurations=_configurations(groups, names, sign),
        n_again=n_again,
        pooled=pooled,
        averaged_over=each,
        between_rows=limit,
        shared_seeds=shared,
        kendall=np.nan if averaged else _kendall(groups),
        agreement=_agreement([] if averaged else groups),
        pairs_within=_pairs_within(losses, limit),
        rows_within=int((losses <= limit).sum()),
        n_rows=len(losses),
        ranked=ranked.assign(value=sign * ranked["value"]),
    )


_Config = tuple[float | str | None, ...]
"""Numbers and labels, None where inactive."""


@dataclass(frozen=True, eq=False)
class _Group:
    """The trainings of one configuration: its row (-1 for none), the table's value and the replicates."""

    row: int
    config: _Config
    own: float
    measured: Floats
    adjusted: Floats
    averaged: bool

    def with_own(self, replicates: Floats) -> Floats:
        """The replicates, with the table's value as a further training unless it is missing or their mean."""
        return replicates if self.averaged or np.isnan(self.own) else np.append(replicates, self.own)


def _configs(columns: Sequence[Sequence[Value | None]]) -> list[_Config]:
    texts = [[label(v) if isinstance(v, str | bool) else v for v in column] for column in columns]
    return [tuple(None if v != v else v for v in config) for config in zip(*texts, strict=True)]


def _column(h: Hyperparameter, values: pd.Series) -> list[Value | None]:
    """A column of a frame. Numbers need not be on the grid."""
    return list(values.astype(np.float64) if h.is_numeric else values)


def _seeds(replicates: pd.DataFrame) -> list[float]:
    """The seed of each training, NaN if unknown."""
    if "seed" not in replicates.columns:
        return [np.nan] * len(replicates)
    return [float(seed) for seed in pd.to_numeric(replicates["seed"], errors="coerce")]


def _without_shared_seeds(
    configs: Sequence[_Config], values: Floats, seeds: Sequence[float], own_values: Mapping[_Config, float]
) -> tuple[Floats, int, int]:
    """Values without the effects of shared seeds, the number of shared seeds, degrees of freedom lost."""
    trained_with: dict[float, set[_Config]] = {}
    for config, seed in zip(configs, seeds, strict=True):
        if not np.isnan(seed):
            trained_with.setdefault(seed, set()).add(config)
    shared = [seed for seed, members in trained_with.items() if len(members) > 1]
    if not shared:
        return values, 0, 0
    # The design has one line per training, the table's own last, with indicators of configurations and shared
    # seeds.
    own = [(config, value) for config, value in own_values.items() if not np.isnan(value)]
    member = {config: j for j, config in enumerate(own_values)}
    lines = [*configs, *(config for config, _ in own)]
    of_config = np.array([[float(member[c] == j) for j in range(len(member))] for c in lines])
    of_seed = np.zeros((len(lines), len(shared)))
    of_seed[: len(configs)] = np.equal.outer(np.array(seeds), np.array(shared))
    design = np.column_stack([of_config, of_seed])
    fitted = np.linalg.lstsq(design, np.append(values, [value for _, value in own]), rcond=None)[0]
    lost = int(np.linalg.matrix_rank(design)) - len(member)
    effects = of_seed[: len(configs)] @ fitted[len(member) :]
    if not own:  # then effects are relative to their mean
        effects -= effects.mean()
    return values - effects, len(shared), lost


def _some(own_values: Mapping[_Config, float], sign: float) -> dict[_Config, float]:
    """Some of the configurations, in equal steps from the best to the median, both included."""
    known = sorted((sign * value, i, c) for i, (c, value) in enumerate(own_values.items()) if value == value)
    ends = np.linspace(0, len(known) // 2, min(len(known), _MOST_CONFIGURATIONS))
    return {known[i][2]: own_values[known[i][2]] for i in np.round(ends).astype(int).tolist()}


def _trainings(groups: Sequence[_Group]) -> pd.DataFrame:
    lines = []
    for number, group in enumerate(groups):
        if not (group.averaged or np.isnan(group.own)):
            lines.append((number, group.row, "table", group.own))
        lines += [(number, group.row, "replicate", value) for value in group.measured.tolist()]
    return pd.DataFrame(lines, columns=["configuration", "row", "source", "value"])


def _configurations(groups: Sequence[_Group], names: Sequence[str], sign: float) -> pd.DataFrame:
    every = [group.with_own(group.measured) for group in groups]
    of_one = pooled_noise(every).sd
    lines = []
    for group, values in zip(groups, every, strict=True):
        alike = group.with_own(group.adjusted)
        spread = alike.std(ddof=1) if len(alike) > 1 else np.nan
        worse = sign * (group.measured.mean() - group.own)
        luck = worse / of_one if of_one > 0 and not group.averaged else np.nan
        measured = (group.own, len(values), values.mean(), spread, np.ptp(alike), luck)
        lines.append((group.row, *group.config, *measured))
    ours = ("row", "in_table", "n", "mean", "sd", "range", "luck")
    theirs = [free_name(name, (*ours, *names)) if name in ours else name for name in names]
    return pd.DataFrame(lines, columns=["row", *theirs, *ours[1:]])


def _ranked(losses: Floats) -> pd.DataFrame:
    """Rows that have a loss, the best first: row, value (the loss), gap to the best."""
    order = np.argsort(losses, kind="stable")
    order = order[~np.isnan(losses[order])]
    best = losses[order[:1]]
    return pd.DataFrame({"row": order, "value": losses[order], "gap": losses[order] - best})


def _kendall(groups: Sequence[_Group]) -> float:
    ranked = [(g.own, g.adjusted) for g in groups if not np.isnan(g.own)]
    taus = []
    for r in range(max((len(values) for _, values in ranked), default=0)):
        here = [(own, values[r]) for own, values in ranked if len(values) > r]
        own, value = np.array(here).T
        # Tau is not defined if one side is constant.
        if len(set(own)) > 1 and len(set(value)) > 1:
            taus.append(float(kendalltau(own, value).statistic))
    return float(np.mean(taus)) if taus else np.nan


def _agreement(groups: Sequence[_Group]) -> pd.DataFrame:
    lines = []
    for a, b in combinations(groups, 2):
        if np.isnan(a.own) or np.isnan(b.own) or a.own == b.own:
            continue
        apart = np.sign(a.adjusted[:, None] - b.adjusted[None, :]) * np.sign(a.own - b.own)
        lines.append((a.row, b.row, abs(a.own - b.own), float((apart.mean() + 1) / 2)))
    return pd.DataFrame(lines, columns=["row", "other_row", "difference", "probability"])


def _pairs_within(ordered: Floats, limit: float) -> float:
    """Share of pairs of sorted values that differ by at most limit. O(N log N)."""
    n = len(ordered)
    if n < 2:
        return np.nan
    reach = np.searchsorted(ordered, ordered + limit, side="right") - np.arange(n) - 1
    return float(reach.sum() / (n * (n - 1) / 2))
