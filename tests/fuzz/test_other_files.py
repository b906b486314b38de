"""Mutated files of other programs and of this one: sweeps, fronts, searches, states, archives and digests."""

import json
import tomllib

import pytest
from fuzzing import samples
from fuzzing.cases import cases
from fuzzing.mutations import json_text, mutate_bytes, mutate_csv, mutate_value, toml

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError

# fmt: off
_TABLES = {  # files of lines and commas, by what wrote them
    "optuna": "number,value,params_lr,params_layers,state\n" + "".join(
        f"{k},{20 + k % 7},{10.0 ** -(1 + k % 5)},{1 + k % 3},COMPLETE\n" for k in range(12)),
    "wandb": "Name,State,lr,batch_size,val/loss,_runtime\n" + "".join(
        f"run-{k},finished,{10.0 ** -(1 + k % 5)},{2 ** (k % 3)},{0.1 * k:.2f},{k}\n" for k in range(12)),
    "ray": "trial_id,loss,training_iteration,done,config/lr,config/layers\n" + "".join(
        f"a{k},{0.1 * k:.2f},3,True,{10.0 ** -(1 + k % 5)},{1 + k % 3}\n" for k in range(12)),
    "sklearn": "mean_fit_time,param_C,param_gamma,params,mean_test_score,rank_test_score\n" + "".join(
        f"0.1,{10 ** (k % 4)},{0.1 * (k % 3 + 1):.1f},{{}},{0.5 + k / 30:.3f},{k + 1}\n" for k in range(12)),
}
# fmt: on
_RECORDS = {
    "lines": [{"lr": 10.0 ** -(1 + k % 5), "layers": 1 + k % 3, "loss": 0.1 * k} for k in range(12)],
    "journal": list(samples.optuna_journal()),
}


def _import(sandbox, name):
    sandbox.run("tables", "import", name, "--yes", "--out", "draft", into=["work/draft"])


@pytest.mark.parametrize("name", _TABLES)
@cases(50)
def test_sweeps_of_commas(empty, rng, name):
    content = _TABLES[name].encode()
    text = mutate_csv(rng, content) if rng.random() < 0.7 else mutate_bytes(rng, content)
    empty.mutated("work/sweep.csv", text)
    _import(empty, "sweep.csv")


@pytest.mark.parametrize("name", _RECORDS)
@cases(50)
def test_sweeps_of_json_lines(empty, rng, name):
    records = _RECORDS[name]
    at = int(rng.integers(len(records)))
    changed = [*records[:at], mutate_value(rng, records[at], empty.root), *records[at + 1 :]]
    text = samples.lines(changed) if rng.random() < 0.7 else mutate_bytes(rng, samples.lines(records))
    empty.mutated("work/sweep.jsonl", text)
    _import(empty, "sweep.jsonl")


@cases(50)
def test_fronts_of_csv_files(empty, rng):
    text = (mutate_csv if rng.random() < 0.7 else mutate_bytes)(rng, samples.POINTS)
    empty.mutated("work/points.csv", text)
    empty.run("pareto", "points.csv", "--objectives", "accuracy:max,ms:min")


@cases(50)
def test_searches_of_programs(empty, rng):
    content = tomllib.loads(samples.SEARCH.decode())
    text = toml(mutate_value(rng, content, empty.root)).encode("utf-8", "surrogatepass")
    empty.mutated("work/search.toml", text if rng.random() < 0.7 else mutate_bytes(rng, samples.SEARCH))
    empty.run("tune", "search.toml", "--dry-run", "--", "python", "x.py", "{lr}", "{layers}")


@cases(50)
def test_states_of_optimizers(empty, rng):
    path = empty.work / "state.json"
    samples.optimizer(empty.work)
    valid = path.read_bytes()
    changed = json_text(mutate_value(rng, json.loads(valid), empty.root))
    empty.mutated("work/state.json", changed if rng.random() < 0.7 else mutate_bytes(rng, valid))
    try:
        hb.Optimizer.load(path).ask()
    except InputError as error:
        assert len(str(error).splitlines()) == 1, empty.told


@cases(50)
def test_archives_and_digests(empty, rng):
    samples.archive(empty.work)
    names = ("lm-2026.parquet", "digest.parquet")
    valid = [(empty.work / name).read_bytes() for name in names]
    which = int(rng.integers(2))
    changed = mutate_bytes(rng, valid[which], valid)
    empty.mutated(f"work/{names[which]}", changed)
    empty.run("archive", "show", "--from", names[0])
    if which:
        verify = ("--digest", names[1], "--seed", "1", "--tables", "none")
        empty.run("archive", "verify", "plain", "--from", names[0], *verify)


def test_what_is_mutated_is_valid(empty):
    names = [*_TABLES, *_RECORDS]
    files = {name: content.encode() for name, content in _TABLES.items()}
    files |= {name: samples.lines(records) for name, records in _RECORDS.items()}
    for name in names:
        ending = "csv" if name in _TABLES else "jsonl"
        empty.write({f"work/{name}.{ending}": files[name]})
        done = empty.run(
            "tables", "import", f"{name}.{ending}", "--yes", "--out", name, into=[f"work/{name}"]
        )
        assert done.code == 0, done.err
    empty.write({"work/search.toml": samples.SEARCH})
    samples.archive(empty.work)
    search = ("tune", "search.toml", "--dry-run", "--", "python", "x.py", "{lr}", "{layers}")
    for command in (search, ("archive", "show", "--from", "lm-2026.parquet")):
        done = empty.run(*command)
        assert done.code == 0, done.err
