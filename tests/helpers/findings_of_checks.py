"""What the checks of a table find, as tests compare it, and the findings on the toy table."""

import dataclasses

from hpobench_nmt.lookup.checks.facts import check_table


def with_values(table, values, **kwargs):
    return dataclasses.replace(table, values=values, **kwargs)


def told(table, folder=None):
    return [(f.kind, f.fact, f.meaning) for f in check_table(table, folder)]


COMPLETE = ("ok", "all 36 configurations of the grid have a row", "the space is complete.")
ADDITIVE = (
    "warning",
    "bleu is nearly additive: the hyperparameters one by one explain 99% of its variance",
    "any local method wins on such a surface, so it is poor at distinguishing methods.",
)
FRONT = (
    "note",
    "8 rows are on the Pareto front of bleu:max and seconds:min",
    "fta and fbp count this many rows.",
)
