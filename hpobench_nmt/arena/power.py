"""How many families, tables and trials a test over families takes to show a ratio."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.compare import variance_components
from hpobench_nmt.analysis.decisions import RANDOM_SEARCH
from hpobench_nmt.analysis.fewer_trainings import fewer_trainings
from hpobench_nmt.analysis.paired import Paired
from hpobench_nmt.analysis.tidy import Tidy, paired_with_baseline
from hpobench_nmt.arena.beside import ARCHIVE, load_archive, track_of_suite
from hpobench_nmt.arena.submissions import archived_results
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.errors import InputError, check_known, check_whole
from hpobench_nmt.evaluation.power import power_at

RATIOS = (1.3, 1.5, 2.0)
_DRAWS = 10_000


def power(
    source: Results | Tidy,
    method: str = "BO_auto",
    other: str = RANDOM_SEARCH,
    *,
    families: int | None = None,
    tables: int | None = None,
    trials: int | None = None,
) -> pd.DataFrame:
    """The power of the verdict on other families, from the variance of results that exist.

        hb.power(results, "BO_EI_M_std", families=8, tables=2, trials=10)

    One row for each true ratio of 1.3, 1.5 and 2: ratio; power, the probability that the t test over families
    shows it, with its 90% range low and high; families, the number that a power of 0.8 takes, with its range
    fewest and most. The range comes from the few families on which the variance is known.

    Args:
        source: results; the name of a track's suite, such as "lm-2026-plain", for those of the archive; or a
            data frame or the path of a CSV file, as in `hb.compare`.
        method, other: the comparison whose variance is used; by default with random search. With a frame or
            file, `other` is the baseline.
        families, tables, trials: of the planned study: families, tables of each, trials on each. By default,
            those of the results.

    Raises:
        InputError: there are results of fewer than two families, or of one trial.
    """
    paired = _paired(source, [method, *([other] if other else [])])
    names = list(paired.families.values())
    of_each = float(np.mean([each.shape[1] for each in paired.runtimes.values()]))
    planned = families or len(set(names)), tables or len(names) / len(set(names)), trials or of_each
    for what, value in (("families", families), ("tables", tables), ("trials", trials)):
        if value is not None:
            check_whole(what, value, 2 if what == "families" else 1)
    estimated = variance_components(paired, method, other)
    plausible = variance_components(paired, method, other, _DRAWS)
    rows = pd.DataFrame([power_at(ratio, *planned, estimated, plausible) for ratio in RATIOS])
    return rows.rename(columns={"needed": "families"})


def _paired(source: Results | Tidy, methods: list[str]) -> Paired:
    if isinstance(source, str) and Path(source).suffix != ".csv":
        source = archived_results(load_archive(ARCHIVE), track_of_suite(source), methods=methods)
    if not isinstance(source, Results):
        return paired_with_baseline(source, methods)
    found = fewer_trainings(source)
    if found.paired is None:
        raise InputError(found.reason)
    check_known("method", methods, found.paired.methods)
    return found.paired
