"""Every family through the command line: trained for a few updates, killed, gone on with, made a table."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import hpobench_nmt as hb
from hpobench_nmt.runner.families import load_family

TEXT = """
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
"""
SPECS = {
    "dynamic-evaluation": """
objectives = ["dev_ppl", "dev_time"]
[grid]
dynamic_learning_rate = [0.001, 0.002]
dynamic_segment = [10]
[fixed]
layers = 1
embedding_size = 8
hidden_size = 8
batch_size = 4
bptt = 10
max_epochs = 3
learning_rate = 5
[replicates]
configurations = 1
trainings = 1
""",
    "melis": """
objectives = ["dev_ppl", "train_time"]
[grid]
depth = [2]
learning_rate = [0.005, 0.01]
[fixed]
budget = 20320
input_embedding_ratio = 0.5
batch_size = 4
bptt = 10
check_updates = 30
drops = 0
max_epochs = 2
""",
    "mlstm": """
objectives = ["dev_bpc", "train_time"]
[grid]
hidden_size = [8]
learning_rate = [0.005, 0.01]
[fixed]
embedding_size = 8
batch_size = 20
bptt = 20
check_updates = 30
max_epochs = 1
""",
    "sockeye": """
objectives = ["dev_bleu", "dev_gpu_time"]
[grid]
num_layers = [1]
learning_rate = [0.01, 0.02]
[fixed]
bpe_symbols = 30
num_embed = 32
num_hidden = 48
num_heads = 2
max_length = 20
batch_size = 400
dropout = 0
checkpoint_interval = 40
max_updates = 80
checkpoint_sentences = 10
beam_size = 2
""",
}
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


@pytest.mark.parametrize("family", SPECS)
def test_killed_gone_on_with_and_made_a_table(family, place, start, wait_for, parallel_files):
    missing = load_family(family).missing()
    if missing:
        pytest.skip(f"needs: {missing}")
    corpus = {"text": TEXT, "parallel": PARALLEL}[load_family(family).corpus]
    parallel_files(place)
    if family == "mlstm":
        corpus = TEXT + 'unit = "character"\n'
    head, _, rest = SPECS[family].partition("[grid]")
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
