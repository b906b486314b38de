"""The public path of lookup/collections/plain_pickle.py."""

from hpobench_nmt.lookup.collections.plain_pickle import read_plain_pickle

__all__ = ["read_plain_pickle"]
