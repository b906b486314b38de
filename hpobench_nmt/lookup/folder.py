"""The public path of lookup/disk/folder.py."""

from hpobench_nmt.lookup.disk.folder import add_table, save_folder

__all__ = ["add_table", "save_folder"]
