"""Try `archive fetch` with a wheel whose metadata have an address of this machine.

    python tests/wheel/fetched_archive.py          # needs: pip install build, and the network for pip

The wheel is built from a copy of the commit with `Archive` under [project.urls], as RELEASING.md describes,
and installed into an empty environment. A server on this machine has the archive, and then a damaged one.
"""

import os
import subprocess
import sys
import tempfile
import threading
import venv
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "lm-2026.parquet"


def main() -> None:
    """Build, install, fetch, and compare."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        served = work / "served"
        served.mkdir()
        content = (ROOT / "archive" / NAME).read_bytes()
        (served / NAME).write_bytes(content)
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=served))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(work / "source")], check=True)
        project = work / "source" / "pyproject.toml"
        urls = f'\n[project.urls]\nArchive = "http://127.0.0.1:{server.server_port}/{NAME}"\n'
        kept = project.read_text(encoding="utf-8").partition("\n[project.urls]\n")
        project.write_text(kept[0] + urls + kept[2].partition("\n\n")[2], encoding="utf-8")
        build = [
            sys.executable,
            "-m",
            "build",
            "--quiet",
            "--wheel",
            "--outdir",
            str(work),
            str(work / "source"),
        ]
        subprocess.run(build, check=True)
        venv.create(work / "env", with_pip=True)
        (wheel,) = work.glob("*.whl")
        binaries = work / "env" / "bin"
        subprocess.run([str(binaries / "pip"), "install", "--quiet", str(wheel)], check=True)
        environment = {**os.environ, "HPOBENCH_NMT_HOME": str(work / "home")}
        fetch = [str(binaries / "hpobench-nmt"), "archive", "fetch"]
        subprocess.run(fetch, check=True, cwd=work, env=environment)
        fetched = [path for path in (work / "home").rglob(NAME) if path.read_bytes() == content]
        (served / NAME).write_bytes(content[:-1])
        refused = subprocess.run(fetch, cwd=work, env=environment, capture_output=True, text=True)
        server.shutdown()
    if len(fetched) != 1 or refused.returncode == 0 or "SHA-256" not in refused.stderr:
        sys.exit(f"fetched {fetched}; a damaged archive: {refused.returncode}, {refused.stderr}")
    print("The archive was fetched from the address in the wheel, and a damaged one was refused.")


if __name__ == "__main__":
    main()
