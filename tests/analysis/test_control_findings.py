"""The findings of `tables check` on whether a table can distinguish methods."""

import re
from dataclasses import replace

import numpy as np
import pytest

from hpobench_nmt.analysis.tables.controls import (
    SAMPLES,
    ability_findings,
    control_findings,
    times_fewer,
)
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.importance import predictable_share
from hpobench_nmt.lookup.table import Table

AXES = tuple(Hyperparameter(name, tuple(map(float, range(9)))) for name in ("depth", "width"))
GRID = np.array([(a, b) for a in range(9) for b in range(9)], dtype=float)
AWAY = np.linalg.norm(GRID - 4, axis=1)


def with_losses(losses):
    return Table("grid", AXES, (Metric("ppl", "min"),), GRID, np.array(losses)[:, None], ("ppl",))


@pytest.mark.parametrize(("losses", "fast"), [(AWAY, "centre"), (-AWAY, "corner")])
def test_a_grid_whose_layout_gives_the_best_rows_away_is_a_warning(losses, fast):
    (found,) = control_findings(with_losses(losses))
    assert found.kind == "warning"
    assert found.meaning.startswith(f"{fast}: above 2.5 by the whole interval")


def test_the_figures_of_controls_on_random_losses_are_a_note():
    (found,) = control_findings(with_losses(np.random.default_rng(0).permutation(len(GRID))))
    assert found.kind == "note"
    assert re.search(r": corner \d\.\d\d \[.+\], centre \d.+, maximin \d.+\]$", found.fact)


def test_a_table_on_which_the_figure_is_undefined_has_no_finding():
    constant = with_losses(np.ones(len(GRID)))
    assert control_findings(constant) == []
    assert control_findings(replace(constant, objectives=())) == []
    with pytest.raises(InputError, match="ppl"):
        times_fewer(changed(SAMPLES, trials=2), constant)


@pytest.mark.parametrize("lucky", [False, True])
def test_a_table_whose_best_row_is_a_lucky_training_is_a_warning(lucky):
    noise = np.random.default_rng(1).normal(size=len(GRID))
    losses = noise if lucky else AWAY + 0.1 * noise
    losses[3] = np.nan
    found = [f for f in ability_findings(with_losses(losses)) if "lucky" in f.meaning]
    assert [f.kind for f in found] == ["warning"] * lucky
    assert all(re.search(r"^ppl: .+ with R2 -?0\.\d\d$", f.fact) for f in found)


def test_the_share_that_forests_predict():
    rng = np.random.default_rng(0)
    x = rng.random((200, 2))
    assert predictable_share(x, np.exp(9 * x[:, 0])) > 0.9  # ranks count, not values
    assert abs(predictable_share(x, rng.random(200))) < 0.4
    failed = np.where(x[:, 1] > 0.5, np.nan, 0.0)
    assert predictable_share(x, failed) > 0.9  # failed rows are the last
    assert np.isnan(predictable_share(x[:9], x[:9, 0]))
    assert np.isnan(predictable_share(x, np.ones(200)))
