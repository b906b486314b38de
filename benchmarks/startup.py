"""Time of `hpobench-nmt --help` and of `import hpobench_nmt`, best of ten.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import time

BAR_SECONDS = 0.5


def best_of_ten(arguments: list[str]) -> float:
    """Seconds of the fastest of ten runs."""
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    for name, arguments in (
        ("hpobench-nmt --help", ["-m", "hpobench_nmt", "--help"]),
        ("import hpobench_nmt", ["-c", "import hpobench_nmt"]),
    ):
        seconds = best_of_ten(arguments)
        verdict = "ok" if seconds <= BAR_SECONDS else "ABOVE THE BAR"
        print(f"{name}: {seconds:.2f} s (bar: {BAR_SECONDS}) {verdict}")


if __name__ == "__main__":
    main()
