"""The analyses of a table in sentences. No sentence claims more than its interval supports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.evaluation.correlation import RankCorrelation, spearman, spearman_interval
from hpobench_nmt.evaluation.importance import Importance
from hpobench_nmt.evaluation.noise import SeedNoise
from hpobench_nmt.evaluation.sensitivity import Sensitivity

Notes = tuple[str, ...]

# Below this share of explained variance, a forest's shares describe the forest more than the table.
_POOR_FIT = 0.5
# If a smaller share of the grid's points has a row, nothing is reported about grid searches.
SPARSE = 0.1
# The places of rows whose distance from the best row is reported.
_PLACES = {2: "the 2nd", 5: "the 5th", 10: "the 10th"}
# A grid size is sufficient if this share of its choices of values succeeds.
_ENOUGH = 0.95


def of_correlation(every: RankCorrelation, pairs: RankCorrelation) -> Notes:
    """Sentences on rank correlations, over configurations that all tables have, and that each pair has."""
    n, n_tables = int(every.n_common[0, 0]), len(every.names)
    found = pairs if np.isnan(every.coefficient).all() else every
    by = ", ".join(sorted(set(every.objectives)))
    ranked = f"Ranked by {by}; Spearman's coefficient, with its 95% interval."
    if n:
        common = f"{counted(n, 'configuration is', 'configurations are')} common to the {n_tables} tables"
    else:
        common = f"No configuration is common to the {n_tables} tables: each pair is compared on those that "
        common += "both have"
    notes = [f"{common}. {ranked}"]
    if every.taken_as_equal:
        notes.append(f"Taken as equal: {', '.join(every.taken_as_equal)}.")
    lines = found.to_frame().dropna(subset="spearman").sort_values("spearman", ascending=False)
    said = [_pair(*line) for line in lines.itertuples(index=False, name=None)]
    if len(said) > 1:
        notes += [f"Most alike: {said[0]}", f"Least alike: {said[-1]}"]
    elif said:
        notes.append(said[0])
    none = pairs.to_frame().query("n_common == 0")
    apart = zip(none["table"], none["other"], strict=True)
    notes += [f"{a} and {b} have no configuration in common." for a, b in apart]
    return tuple(notes)


def _pair(table: str, other: str, n: int, r: float, low: float, high: float) -> str:
    if np.isnan(low):
        return f"{table} and {other}, {r:.3f} ({counted(n, 'configuration')}, too few for an interval)."
    note = f"{table} and {other}, {r:.3f} ({low:.2f} to {high:.2f}, {n:,} configurations)"
    return f"{note}." if low > 0 or high < 0 else f"{note}, so there may not be a relation at all."


def of_importance(parts: Sequence[Importance], rules: str = "") -> Notes:
    """Sentences on the importance over parts of a table's space, first over the whole, under some rules."""
    return (_method(parts[0], rules), *map(_part, parts))


def of_far_rows(count: int, share: float, rest: Importance) -> str:
    """A sentence on rows that carry most of the variance, and on the importance without them."""
    shares = ", ".join(
        f"{name} {part:.0%}" for name, part in zip(rest.singles["first"], rest.singles["share"], strict=True)
    )
    return (
        f"{counted(count, 'row is', 'rows are')} far worse than the rest and "
        f"{'has' if count == 1 else 'have'} {share:.0%} of the variance. Over the other rows, the shares, "
        f"estimated with a random forest, are: {shares}."
    )


def _method(found: Importance, rules: str) -> str:
    if found.method == "exact":
        grid = f"the grid of values that keep {rules}" if rules else "the grid"
        return f"Exact: all {found.n_grid:,} configurations of {grid} have a row."
    because = (
        f"only {found.n_rows:,} of the {found.n_grid:,} configurations of the grid "
        f"{f'keep {rules} and ' if rules else ''}have {found.metric}"
    )
    if found.inactive:
        verb = "is" if len(found.inactive) == 1 else "are"
        because = f"{', '.join(found.inactive)} {verb} inactive in some rows"
    note = f"Estimated with a random forest of {found.trees} trees, because {because}."
    fit = found.out_of_bag_r2
    if np.isnan(fit):
        return note
    if fit < _POOR_FIT:
        return (
            f"{note} It explains only {max(0.0, fit):.0%} of the variance of rows that its trees did not "
            "see, so the shares below may not hold for the table."
        )
    return f"{note} It explains {fit:.0%} of the variance of rows that its trees did not see."


def _part(found: Importance) -> str:
    if found.best_share is None:
        note = "Over the whole space"
    else:
        note = f"Among the best {found.best_share:.0%} ({counted(found.n_best, 'row')}, {found.best_values})"
    names, shares, spreads = (found.singles[c].tolist() for c in ("first", "share", "spread"))
    note += f", {names[0]} explains the most, {shares[0]:.0%} of the variance"
    if len(names) > 1:
        note += f", then {names[1]}, {shares[1]:.0%}"
        # Exact shares have a spread of NaN, so the comparison is false.
        if shares[0] - shares[1] < np.hypot(spreads[0], spreads[1]):
            note += " (a lead smaller than the spread between the trees)"
    for first, second, share in found.pairs[["first", "second", "share"]].to_numpy().tolist()[:1]:
        note += f"; the strongest pair is {first} × {second}, {share:.0%}"
    return f"{note}."


def of_front(objectives: Sequence[str], losses: Floats, n_front: int) -> Notes:
    """Sentences on two metrics, as "metric:direction", by losses, shape (N, 2), and their front's size."""
    complete = ~np.isnan(losses).any(axis=1)
    n = int(complete.sum())
    notes = [
        f"{n_front} of the {counted(n, 'row')} with both {'is' if n_front == 1 else 'are'} on the Pareto "
        f"front of {objectives[0]} and {objectives[1]}."
    ]
    if lost := len(losses) - n:
        notes.append(f"{lost:,} of the {len(losses):,} rows lack{'s' * (lost == 1)} one of them.")
    r = spearman(losses[complete, 0], losses[complete, 1])
    low, high = spearman_interval(r, n)
    if not np.isnan(r) and np.isnan(low):
        notes.append(f"Spearman's coefficient between the two is {r:.2f}, on too few rows for an interval.")
    elif not np.isnan(r):
        alike = f"rows that are better in one tend to be {'better' if r > 0 else 'worse'} in the other"
        notes.append(
            f"Spearman's coefficient between the two is {r:.2f} ({low:.2f} to {high:.2f}): "
            f"{alike if low > 0 or high < 0 else 'no clear relation'}."
        )
    return tuple(notes)


def of_sensitivity(found: Sensitivity, unit: str) -> Notes:
    """Sentences on how a metric falls off around the best row, and on the cost of a search."""
    within, n_rows = int(found.by_steps["within"].sum()), int(found.by_steps["rows"].sum())
    mean, median, most = found.random_trials
    notes = [
        f"{within:,} of {counted(n_rows, 'configuration')} ({within / n_rows:.1%}), including the best, "
        f"{'is' if within == 1 else 'are'} within {short(found.tolerance, unit=unit)} of the best. "
        + _near_and_far(found),
        f"A search in random order finds {'it' if within == 1 else f'one of these {within:,}'} after "
        f"{counted(int(mean + 0.5), 'training')} on average ({median:,} or fewer in half of all orders, "
        f"{most:,} or fewer in 95%).",
    ]
    if found.coverage < SPARSE:
        notes.append(
            f"Only {found.coverage:.1%} of the grid's points have a row, which is too few to compute what a "
            f"grid search needs."
        )
        return tuple(notes)
    enough = found.grids[found.grids["success"] >= _ENOUGH]
    if len(enough):
        g, trials = int(enough["values"].iloc[0]), float(enough["trials"].iloc[0])
        notes.append(
            "The smallest grid that contains one of them, for 95% of the choices of its values, has "
            f"{counted(g, 'value')} per hyperparameter: {counted(int(trials + 0.5), 'training')}."
        )
    if found.interval_trials > 1:
        notes.append(
            "Around the best configuration, each hyperparameter can be changed alone over a range of its "
            "values without leaving the tolerance. A grid with one value in every such range has "
            f"{counted(found.interval_trials, 'configuration')}."
        )
    return tuple(notes)


def _near_and_far(found: Sensitivity) -> str:
    if not found.n_near:
        return "The best configuration does not have neighbours within 2 grid steps."
    near = f"Of the {found.n_near:,} that are 1 or 2 grid steps from the best, {found.near:.1%} are"
    return f"{near}; of the {found.n_far:,} farther off, {found.far:.1%}." if found.n_far else f"{near}."


def of_noise(found: SeedNoise, unit: str) -> Notes:
    """Sentences on trainings with other seeds."""
    pooled = found.pooled
    count, looked_at = found.n_again, len(found.configurations)
    again = counted(count, "configuration was", "configurations were")
    some = f"; the following is about {looked_at} of them, from the best to the median"
    some = some if looked_at < count else ""
    notes = [
        f"{again} trained again with other seeds{some}. Standard deviation within a configuration: "
        f"{short(pooled.sd, unit=unit)} (95% interval {pooled.low:.3g} to {pooled.high:.3g}, {pooled.df} "
        f"degree{'s' * (pooled.df != 1)} of freedom).",
        f"The smallest difference between two single trainings that is more than seed noise is "
        f"{short(pooled.smallest_difference, unit=unit)}: two equally good configurations differ by more in "
        "5% of cases.",
    ]
    if found.shared_seeds:
        notes.insert(
            1,
            f"They share {counted(found.shared_seeds, 'seed')}. The effect that a seed has on all of them "
            f"alike is removed from this spread, because it does not change their order.",
        )
    if found.averaged_over > 1:
        notes.append(
            f"The rows are means of {found.averaged_over} trainings: between two of them it is "
            f"{short(found.between_rows, unit=unit)}."
        )
    if not np.isnan(found.pairs_within):
        alike = f"{found.rows_within:,} rows, including the best, cannot be distinguished from the best"
        if found.rows_within == 1:
            alike = "the best row can be distinguished from all others"
        notes.append(
            f"{found.pairs_within:.1%} of all pairs of the table's {found.n_rows:,} rows differ by no more; "
            f"{alike}."
        )
    notes += _at_the_top(found, unit)
    if not np.isnan(found.order_holds):
        tau = "" if np.isnan(found.kendall) else f" (Kendall's tau {found.kendall:.2f})"
        notes.append(
            "Trained again, two of these configurations come out in the table's order in "
            f"{found.order_holds:.0%} of cases{tau}."
        )
    return tuple(notes)


def _at_the_top(found: SeedNoise, unit: str) -> list[str]:
    """Sentences on what separates the best rows, and on the best row trained again."""
    gaps = found.ranked["gap"].to_numpy()
    leads = [f"{name} by {gaps[place - 1]:.3g}" for place, name in _PLACES.items() if place <= len(gaps)]
    if not leads:
        return []
    leads[0] = f"{leads[0]} {unit}".strip()
    two = "trainings" if found.averaged_over == 1 else f"means of {found.averaged_over} trainings"
    apart = (2 / found.averaged_over) ** 0.5 * found.pooled.sd
    notes = [
        f"The best row leads {', '.join(leads)}. For one and the same configuration, the difference of two "
        f"{two} has standard deviation {apart:.3g}."
    ]
    if found.averaged_over > 1:
        return notes
    best = found.configurations[found.configurations["row"] == found.ranked["row"].iloc[0]]
    for own, n, mean in best[["in_table", "n", "mean"]].itertuples(index=False, name=None):
        # The mean includes the table's own training, which was the lucky one.
        again = (n * mean - own) / (n - 1)
        result = f"{n - 1} times, {again:.3g} on average" if n > 2 else f"once, {again:.3g}"
        notes.append(f"The best row has {short(own, unit=unit)}; trained again {result}.")
    return notes
