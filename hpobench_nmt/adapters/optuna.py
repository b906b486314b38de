"""The public path of `hpobench_nmt.exports.optuna`."""

from hpobench_nmt.exports.optuna import MethodSampler, suggest, table_objective

__all__ = ["MethodSampler", "suggest", "table_objective"]
