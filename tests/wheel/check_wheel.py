"""Check a built wheel: everything is in it, and nothing at top level but hpobench_nmt.

    python tests/wheel/check_wheel.py dist/*.whl

The wheel is then installed into an empty environment and used with the sources out of reach.
"""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "hpobench_nmt": ROOT / "hpobench_nmt",
    "hpobench_nmt/methods": ROOT / "methods",
    "hpobench_nmt/evaluation": ROOT / "evaluation",
    "hpobench_nmt/tables": ROOT / "tables",
}
NOT_PACKED = {"ledger.jsonl", "ledger.jsonl.lock", "ledger.jsonl.torn", "reserve", "work"}
LINKS = {"methods", "evaluation", "tables"}

USE = """
import sys
import hpobench_nmt as hb
from hpobench_nmt.lookup.catalogue import installed
assert "src" not in hb.__file__ and "site-packages" in hb.__file__, hb.__file__
for name in ("methods", "evaluation", "tables"):
    assert __import__("importlib.util").util.find_spec(name) is None, f"{name} is a top-level package"
tables = installed()
assert tables, "no table ships"
results = hb.run(tables=list(tables)[0], methods=["RS", "BO_EI_M", "GB_EIF_M"], trials=2)
assert not results.failures(), results.failures()
print(results.scores().to_string())
"""


def expected_files() -> set[str]:
    """Every file that the package folders hold, under the name it has in the wheel."""
    files = set()
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*"):
            inside = path.relative_to(folder)
            skipped = "__pycache__" in path.parts or (package == "hpobench_nmt" and inside.parts[0] in LINKS)
            if path.is_file() and not skipped and not NOT_PACKED & set(inside.parts):
                files.add(f"{package}/{inside.as_posix()}")
    return files


def main(wheel: Path) -> None:
    """Compare the wheel with the folders, then install and use it."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    top_level = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    packed = {name for name in names if ".dist-info/" not in name}
    missing, extra = expected_files() - packed, packed - expected_files()
    if top_level != {"hpobench_nmt"} or missing or extra:
        sys.exit(f"top level: {top_level}; missing: {sorted(missing)}; extra: {sorted(extra)}")
    with tempfile.TemporaryDirectory() as work:
        venv.create(Path(work) / "env", with_pip=True)
        python = str(Path(work) / "env" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel.resolve())], check=True)
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "HPOBENCH_NMT_TABLES")}
        environment["HPOBENCH_NMT_HOME"] = str(Path(work) / "home")
        subprocess.run([python, "-c", USE], check=True, cwd=work, env=environment)
        command = str(Path(work) / "env" / "bin" / "hpobench-nmt")
        run = [command, "run", "--trials", "2", "--out", "results"]
        subprocess.run(run, check=True, cwd=work, env=environment)
    print(f"{wheel.name}: {len(packed)} files, nothing missing, used from an empty environment")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
