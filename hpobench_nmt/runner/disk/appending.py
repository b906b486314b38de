"""Files to which lines are only appended."""

from __future__ import annotations

import os
from pathlib import Path


def append_whole(path: Path, content: bytes) -> None:
    """Add to the end of a file, or start it. When it returns, the content is on the disk.

    Raises OSError, for instance if the disk is full. The file then is as it was.
    """
    with path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        written = 0
        try:
            while written < len(content):
                written += file.write(content[written:])
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise
