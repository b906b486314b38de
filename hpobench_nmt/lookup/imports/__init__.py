"""Old sweeps of other programs as tables.

`read.py` finds the reader of a file or folder, each of which gives a `Sweep`; `decide.py` says what its
columns and rows are, with reasons; `build.py` makes the table; `importing.py` does it all.
"""
