"""Processes that are killed while they write, and what they leave."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path


def killed(code: str, folder: Path) -> None:
    """Run code in a process that kills itself; what it wrote stays as it was then."""
    head = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from hpobench_nmt.core.system import files, folders\n"
        "folder = Path(sys.argv[1])\ndef die(*_):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", head + code, folder], check=False)
    assert done.returncode == -signal.SIGKILL


def names(folder: Path) -> list[str]:
    """The names in a folder, hidden ones as well."""
    return sorted(path.name for path in folder.iterdir())
