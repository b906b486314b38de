"""Old sweeps of other programs as tables.

`read.py` finds the reader of a file or folder, and every reader returns a `Sweep`. `decide.py` decides what
the sweep's columns and rows are, with reasons. `build.py` makes the table. `importing.py` runs all steps.
"""
