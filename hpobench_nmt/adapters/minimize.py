"""The public path of `hpobench_nmt.exports.minimize`."""

from hpobench_nmt.exports.minimize import Minimum, minimize

__all__ = ["Minimum", "minimize"]
