"""The public path of `hpobench_nmt.exports.optimizer`."""

from hpobench_nmt.exports.optimizer import Event, Optimizer, State

__all__ = ["Event", "Optimizer", "State"]
