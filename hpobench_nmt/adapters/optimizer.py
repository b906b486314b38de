"""The public path of `hpobench_nmt.exports.optimizer`."""

from hpobench_nmt.exports.optimizer import Optimizer
from hpobench_nmt.exports.optimizer_state import Event, State

__all__ = ["Event", "Optimizer", "State"]
