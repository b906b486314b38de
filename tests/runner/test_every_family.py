"""Every family through the command line: trained for a few updates, killed, gone on with, made a table."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import hpobench_nmt as hb
from hpobench_nmt.runner.families import FAMILIES, load_family
from hpobench_nmt.runner.settings import settings_of

TEXT = """
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
"""


def spec_of(path):
    """The constant SPEC of a file of tests: a small spec of its family, without a [corpus]."""
    for statement in ast.parse(path.read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "SPEC":
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{path}: has no SPEC")


TESTS = Path(__file__).with_name("families")
PARALLEL = '[corpus]\nname = "parallel"\nsource = "de"\ntarget = "en"\n' + "".join(
    f'{part}_{side} = "{part}.{side}"\n' for part in ("train", "dev", "test") for side in ("source", "target")
)


def records(folder):
    ledger = folder / "ledger.jsonl"
    return [json.loads(line) for line in ledger.read_text().split("\n")[1:-1]] if ledger.exists() else []


def running(*words):
    """Processes whose command lines hold all these words."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if all(word in line for word in words):
                found.append(int(entry.name))
    return found


# In every run of the tests, training/test_train.py kills an AWD-LSTM.
@pytest.mark.hosts
@pytest.mark.parametrize("family", FAMILIES)
def test_killed_gone_on_with_and_made_a_table(family, place, start, wait_for, parallel_files):
    missing = load_family(family).missing()
    if missing:
        pytest.skip(f"needs: {missing}")
    corpus = {"text": TEXT, "parallel": PARALLEL}[load_family(family).corpus]
    parallel_files(place)
    if "_bpc" in load_family(family).metrics[0].name:
        corpus += 'unit = "character"\n'
    head, _, rest = spec_of(TESTS / f"test_{family.replace('-', '_')}.py").partition("[grid]")
    spec = f'name = "{family}-tiny"\nfamily = "{family}"\n{head}{corpus}[grid]{rest}'
    (place / f"{family}.toml").write_text(spec)
    folder = place / family
    train = ("train", f"{family}.toml", "--out", folder, "--jobs", "1", "--device", "cpu", "--quiet")
    # Sockeye itself warns of what it uses.
    strict = family != "sockeye"
    first = start(place, *train, strict=strict)
    if family == "sockeye" and sys.platform == "linux":
        # A command of Sockeye's own that is killed is tried once more.
        wait_for(lambda: running("sockeye_train", str(folder)))
        for process in running("sockeye_train", str(folder)):
            os.kill(process, signal.SIGKILL)
    wait_for(lambda: len(records(folder)) >= 1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = records(folder)
    second = start(place, *train, strict=strict)
    assert second.wait(timeout=240) == 0
    after = records(folder)
    assert after[: len(before)] == before
    keys = [(json.dumps(record["config"]), record["replicate"]) for record in after]
    assert len(keys) == len(set(keys))
    assert {record["status"] for record in after} == {"done"}
    assert start(place, "tables", "build", folder).wait(timeout=60) == 0
    table = hb.load_table(folder)
    assert table.claims["complete"] is True
    assert len(table) == sum(record["replicate"] == 0 for record in after)
    for objective in table.objectives:
        assert (table.column(objective) > 0).all()


def test_families_can_be_read_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from hpobench_nmt.runner.families import FAMILIES, load_family\n"
        "print([load_family(name).missing() for name in FAMILIES])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.count("pip install") >= len(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_are_in_range_and_everything_is_described(family):
    found = load_family(family)
    assert found.models and found.source
    for setting in settings_of(found.settings).values():
        assert setting.default is None or setting.check(setting.default, "here") == setting.default
        assert setting.about.description
    assert all(metric.description for metric in found.metrics)
