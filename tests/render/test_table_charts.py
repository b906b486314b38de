"""The picture of a table in a terminal."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.terminal.table_charts import histogram, print_charts, scatter


def picture(table, width=80, encoding="utf-8", colour=False, **options):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
    )
    print_charts(table, console, **options)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("values", [(0.3, 0.30000000000000004), (1e16, 1e16 + 2), (2.0, 2.0)])
def test_values_that_differ_in_their_last_bits_are_one_bar(values):
    assert len(histogram(np.array([*values, np.nan]), 24)) == 1


@pytest.mark.parametrize("width", [50, 80, 160])
def test_it_fits_and_is_plain_without_colours(toy, width):
    text = picture(toy, width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "\x1b" in picture(toy, width, colour=True)


def test_a_terminal_of_a_few_columns_folds_the_lines(toy):
    assert max(map(len, picture(toy, 4).splitlines())) <= 4


def test_it_shows_ranges_medians_and_the_front(toy):
    text = picture(toy)
    for metric in toy.metrics:
        line = next(line for line in text.splitlines() if line.startswith(metric.name))
        assert f"{toy.column(metric.name).min():.5g}" in line
        assert f"{toy.column(metric.name).max():.5g}" in line
    median = np.median(toy.column("bleu")[toy.configs[:, 1] == 512])
    assert f"512: {median:.4g}" in text
    front = toy.front(["bleu", "seconds"])
    assert f"on the Pareto front ({len(front)})" in text
    for row in front:
        assert f"{toy.column('bleu')[row]:.2f}" in text


def test_a_terminal_with_ascii_only(toy):
    assert picture(toy, encoding="ascii").isascii()


def test_every_row_and_the_front_are_in_the_scatter():
    x = np.array([0.0, 10, 5, 5, 10])
    y = np.array([0.0, 10, 5, 5, 0])
    axis = Hyperparameter("a", (1.0, 2.0, 3.0, 4.0, 5.0))
    metrics = (Metric("gain", "max", "BLEU"), Metric("cost", "min"))
    table = Table(
        "t", (axis,), metrics, np.array(axis.values)[:, None], np.column_stack([y, x]), ("gain", "cost")
    )
    up, across = table.objective("gain"), table.objective("cost")
    front = table.front([up, across])
    lines = [line.plain for line in scatter(table, across, up, front, width=27, height=3)]
    # Row 4 costs most and gains least; the others trade one for the other.
    assert lines == [
        "gain (BLEU, higher is better)",
        "10 │                      ●",
        "   │           ●           ",
        " 0 │●                     ·",
        "   └───────────────────────",
        "    0                    10",
        "     cost (lower is better)",
        "· a row   : several   ● on the Pareto front (4)",
    ]
    nothing = [line.plain for line in scatter(table, across, up, front[:0], width=60, height=3)]
    assert nothing[2].count(":") == 1
    assert nothing[5].split() == ["0", "cost", "(lower", "is", "better)", "10"]


def test_histogram():
    values = np.array([0.0] * 80 + [1.0] + [4.0] * 20 + [np.nan])
    assert histogram(values, 4) == "█▁ ▂"
    assert histogram(values, 4, "_.:-=+*#") == "#_ ."
    assert histogram(np.array([2.0, 2.0]), 4) == "█"


def test_missing_values_and_odd_names(toy):
    values = toy.values.copy()
    values[:, 2] = np.nan
    values[::2, 0] = np.nan
    odd = replace(
        toy,
        values=values,
        hyperparameters=(replace(toy.hyperparameters[0], name="[red]layers"), *toy.hyperparameters[1:]),
    )
    text = picture(odd)
    assert any(line.startswith("[red]layers") for line in text.splitlines())
    assert next(line for line in text.splitlines() if line.startswith("memory")).split()[2:5] == ["–"] * 3


def test_without_a_front(toy):
    single = picture(replace(toy, objectives=("bleu",)))
    assert "Pareto" not in single
    assert "Median bleu" in single
    chosen = picture(replace(toy, objectives=()), objectives=("memory", "seconds"))
    assert "memory (MB, lower is better)" in chosen
    untold = picture(replace(toy, values=toy.values * np.nan))
    assert "Pareto" not in untold
    assert "Median" not in untold


def test_constant_metrics_and_one_row(toy):
    constant = picture(replace(toy, values=np.full_like(toy.values, 3.0)))
    assert "on the Pareto front (36)" in constant
    assert "and 24 more." in constant
    one = picture(replace(toy, configs=toy.configs[:1], values=toy.values[:1]))
    assert "on the Pareto front (1)" in one


def test_many_values_are_put_together():
    axis = Hyperparameter("a", tuple(float(v) for v in range(100)))
    table = Table(
        "t", (axis,), (Metric("loss", "min"),), np.array(axis.values)[:, None], np.arange(100.0)[:, None]
    )
    text = picture(table)
    assert "0 to 8: 4," in text
    assert text.count(" to ") == 12 + 1  # and "from the lowest value to the highest"
