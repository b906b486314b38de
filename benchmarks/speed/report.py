"""Time to write the report of the paper's two suites, and to open it in a browser.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/speed/report.py [--jobs 2] [--results FOLDER]

Runs `paper-single` and `paper-multi` into FOLDER first, unless FOLDER already has them. Without --results, a
temporary folder is used. The report is written in separate processes. Their processor time is printed as
well, for machines with other work. The browser is a headless Chromium, if one is installed.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BAR_SECONDS, BAR_BYTES, BAR_MEMORY, BAR_OPEN = 20.0, 3_000_000, 1 << 30, 2.0
SUITES = ("paper-single", "paper-multi")
WRITE = (
    "import sys\nfrom pathlib import Path\nfrom hpobench_nmt.render.report import report\n"
    "from joblib.externals.loky import get_reusable_executor\n"
    "report([Path(a) for a in sys.argv[3:]], Path(sys.argv[1]), jobs=int(sys.argv[2]))\n"
    # The workers must end, so that their processor time counts.
    "get_reusable_executor().shutdown(wait=True)\n"
)


def run_suites(folder: Path, jobs: int) -> list[Path]:
    for suite in SUITES:
        if not (folder / suite).is_dir():
            command = [sys.executable, "-m", "hpobench_nmt", "run", suite, "--out", str(folder / suite)]
            subprocess.run([*command, "--jobs", str(jobs), "--quiet"], check=True)
    return [folder / suite for suite in SUITES]


def resident(root: int) -> int:
    """Memory of a process and its descendants in bytes, with shared memory counted once; Linux only."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                rollup = (entry / "smaps_rollup").read_text() if int(entry.name) >= root else ""
                pages = next((int(line.split()[1]) for line in rollup.splitlines() if line[:4] == "Pss:"), 0)
            except (OSError, ValueError):
                continue
            parents[int(entry.name)], sizes[int(entry.name)] = int(fields[1]), pages
    below = {root}
    for _ in range(6):
        below |= {child for child, parent in parents.items() if parent in below}
    return sum(sizes.get(pid, 0) for pid in below) * 1024


def open_in_browser(page: Path) -> float | None:
    """Seconds until the page is loaded; None without a browser."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        return None
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        browser.get(page.as_uri())
        end = browser.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
        return float(end) / 1000
    finally:
        browser.quit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folders = run_suites(arguments.results or Path(work), arguments.jobs)
        page = Path(work) / "report.html"
        command = [sys.executable, "-c", WRITE, str(page), str(arguments.jobs), *map(str, folders)]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        process = subprocess.Popen(command)
        peak = 0

        def watch() -> None:
            nonlocal peak
            while process.poll() is None:
                peak = max(peak, resident(process.pid))
                time.sleep(0.1)

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        watcher.join()
        if code:
            raise SystemExit(code)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        size, opened = page.stat().st_size, open_in_browser(page)
    met = {True: "met", False: "MISSED"}
    print(
        f"written in {wall:.1f} s with {arguments.jobs} processes (bar {BAR_SECONDS:.0f} s: "
        f"{met[wall <= BAR_SECONDS]}); {processor:.1f} s of processor time"
    )
    print(f"peak memory {peak / 2**20:.0f} MiB together (bar 1024: {met[peak <= BAR_MEMORY]})")
    print(f"size {size / 1e6:.2f} MB (bar 3: {met[size <= BAR_BYTES]})")
    if opened is None:
        print("not opened: no chromium and chromedriver here")
    else:
        print(f"opened in {opened:.2f} s (bar {BAR_OPEN:.0f} s: {met[opened <= BAR_OPEN]})")


if __name__ == "__main__":
    main()
