"""Mutated training specs and ledgers: `train --dry-run` and `tables build`."""

import json
import tomllib

import pytest
from fuzzing.cases import cases
from fuzzing.mutations import json_text, mutate_bytes, mutate_value, odd_file, pick, toml

pytest.importorskip("torch")
SPEC = "work/small.toml"


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    """A spec and its ledger of five trainings, as `train` leaves them."""
    from hpobench_nmt.runner.specs.spec_file import load_spec

    folder = tmp_path_factory.mktemp("trained")
    (folder / "small.toml").write_bytes(world["spec"][SPEC])
    spec = load_spec(folder / "small.toml")
    head = {
        "ledger": 1,
        "spec": spec.identity,
        "corpus": {"source": "made", "licence": "MIT", "sha256": "0" * 64},
    }
    rows = [row for row in range(4) for _ in range(3 if row in spec.replicate_rows else 1)]
    lines = [_record(spec.configuration(row), row, rows[:k].count(row)) for k, row in enumerate(rows)]
    ledger = "".join(json.dumps(line) + "\n" for line in [head, *lines]).encode()
    return {
        SPEC: world["spec"][SPEC],
        "work/small/spec.toml": world["spec"][SPEC],
        "work/small/ledger.jsonl": ledger,
    }


def _record(configuration, row, replicate):
    known = {"config": configuration, "replicate": replicate, "seed": 7 * row + replicate}
    known |= {"device": "cpu", "versions": {"torch": "2.13.0"}, "started": "2025-01-01T00:00:00+00:00"}
    known |= {"curve": [{"update": 10, "dev_ppl": 60.0}, {"update": 20, "dev_ppl": 50.0 + row}]}
    if row == 0:
        return known | {"status": "failed", "reason": "out of memory: 12 MB", "seconds": 0.5}
    metrics = {"dev_ppl": 50.0 + row, "test_ppl": 55.5 + row, "num_updates": 20}
    return known | {"status": "done", "metrics": metrics, "seconds": 1.5}


def test_the_ledger_that_is_mutated_is_a_valid_one(empty, trained):
    empty.write(trained)
    assert "To do: " in empty.run("train", "small.toml", "--dry-run").out
    done = empty.run("tables", "build", "small", into=["work/small"])
    assert done.code == 0, done.err


@cases(260)
def test_specs(empty, trained, rng):
    empty.write(trained)
    content = tomllib.loads(trained[SPEC].decode())
    if rng.random() < 0.85:
        text = toml(mutate_value(rng, content, empty.root)).encode()
    else:
        text = mutate_bytes(rng, trained[SPEC], trained.values())
    name = pick(rng, (SPEC, SPEC, "work/small/spec.toml"))
    empty.mutated(name, text)
    if name == SPEC:
        empty.run("train", "small.toml", "--dry-run")
    else:
        empty.run("tables", "build", "small", into=["work/small"])


@cases(260)
def test_ledgers(empty, trained, rng):
    empty.write(trained)
    ledger = trained["work/small/ledger.jsonl"]
    if rng.random() < 0.75:
        lines = [json.loads(line) for line in ledger.splitlines()]
        at = int(rng.integers(len(lines)))
        lines[at] = mutate_value(rng, lines[at], empty.root)
        text = b"".join(json_text(line) + b"\n" for line in lines)
    else:
        text = mutate_bytes(rng, ledger, trained.values())
    empty.mutated("work/small/ledger.jsonl", text)
    if rng.random() < 0.4:
        empty.run("train", "small.toml", "--dry-run")
    elif empty.run("tables", "build", "small", into=["work/small"]).code == 0 and rng.random() < 0.3:
        empty.run("tables", "add", "small", into=["home/tables"])


@cases(50)
def test_folders_of_ledgers_with_odd_files(empty, trained, rng):
    empty.write(trained)
    path = empty.work / "small" / pick(rng, ("spec.toml", "ledger.jsonl", "table.csv", "datasheet.toml", ""))
    empty.told.append(f"{path}: {odd_file(rng, path, empty.root)}")
    empty.run("train", "small.toml", "--dry-run")
    empty.run("tables", "build", "small", into=["work/small"], codes=(0, 1, 2))  # 1: the disk refuses
