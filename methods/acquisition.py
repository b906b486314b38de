"""The public path of acquisitions/belief.py."""

from hpobench_nmt.methods.acquisitions.belief import Belief

__all__ = ["Belief"]
