"""Mutated files of other programs and of this one: sweeps, fronts, searches, states, archives and digests."""

import json
import tomllib

import pytest
from fuzzing.cases import cases
from fuzzing.mutations import json_text, mutate_bytes, mutate_csv, mutate_value, toml

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError

_RANGE = {"low": 1e-05, "high": 0.1, "step": None, "log": True}
SPACE = {"lr": (1e-5, 1e-1, "log"), "layers": [1, 2, 4]}


def _lines(records):
    return b"".join(json_text(record) + b"\n" for record in records)


def _optuna_journal():
    float_of = json.dumps({"name": "FloatDistribution", "attributes": _RANGE})
    yield {"op_code": 0, "worker_id": "w", "study_name": "s", "directions": [1]}
    for k in range(6):
        yield {"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": f"2026-01-01T00:00:0{k}"}
        known = {"param_name": "lr", "param_value_internal": 10.0 ** -(1 + k % 4), "distribution": float_of}
        yield {"op_code": 5, "worker_id": "w", "trial_id": k} | known
        ended = {"state": 1, "values": [0.5 + k], "datetime_complete": f"2026-01-01T00:00:1{k}"}
        yield {"op_code": 6, "worker_id": "w", "trial_id": k} | ended


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
    "journal": list(_optuna_journal()),
}
SEARCH = b"""\
objectives = ["loss:min"]
start = {lr = 0.01, layers = 2}
candidates = 30
seed = 1
[grid]
lr = {from = 1e-4, to = 1.0, scale = "log"}
layers = [1, 2, 4]
[curve]
key = "epoch"
whole = 9
"""


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
    text = _lines(changed) if rng.random() < 0.7 else mutate_bytes(rng, _lines(records))
    empty.mutated("work/sweep.jsonl", text)
    _import(empty, "sweep.jsonl")


@cases(50)
def test_fronts_of_csv_files(empty, rng):
    content = b"model,accuracy,ms\n" + b"".join(b"m%d,%d.5,%d\n" % (k, 70 + k, k * k) for k in range(9))
    text = mutate_csv(rng, content) if rng.random() < 0.7 else mutate_bytes(rng, content)
    empty.mutated("work/points.csv", text)
    empty.run("pareto", "points.csv", "--objectives", "accuracy:max,ms:min")


@cases(50)
def test_searches_of_programs(empty, rng):
    content = tomllib.loads(SEARCH.decode())
    text = toml(mutate_value(rng, content, empty.root)).encode("utf-8", "surrogatepass")
    empty.mutated("work/search.toml", text if rng.random() < 0.7 else mutate_bytes(rng, SEARCH))
    empty.run("tune", "search.toml", "--dry-run", "--", "python", "x.py", "{lr}", "{layers}")


@cases(50)
def test_states_of_optimizers(empty, rng):
    path = empty.work / "state.json"
    optimizer = hb.Optimizer(SPACE)
    for k in range(4):
        optimizer.tell(optimizer.ask(), float(k))
    optimizer.save(path)
    valid = path.read_bytes()
    changed = json_text(mutate_value(rng, json.loads(valid), empty.root))
    empty.mutated("work/state.json", changed if rng.random() < 0.7 else mutate_bytes(rng, valid))
    try:
        hb.Optimizer.load(path).ask()
    except InputError as error:
        assert len(str(error).splitlines()) == 1, empty.told


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The bytes of a small archive and of its digest."""
    from hpobench_nmt.arena.archive import archive_bytes, archive_of
    from hpobench_nmt.arena.digest import digest_bytes

    results = hb.run("lm-2026", track="plain", tables="sotu-gpt-30k", methods=["RS"], trials=2)
    content = archive_bytes({"plain": [results]})
    return content, digest_bytes(archive_of(content, tmp_path_factory.mktemp("archive") / "a.parquet"))


@cases(50)
def test_archives_and_digests(empty, archive, rng):
    names = ("lm-2026.parquet", "lm-2026.digest.parquet")
    empty.write({f"work/{name}": content for name, content in zip(names, archive, strict=True)})
    which = int(rng.integers(2))
    changed = mutate_bytes(rng, archive[which], archive)
    empty.mutated(f"work/{names[which]}", changed)
    empty.run("archive", "show", "--from", names[0])
    if which:
        verify = ("--digest", names[1], "--seed", "1", "--tables", "none")
        empty.run("archive", "verify", "plain", "--from", names[0], *verify)


def test_what_is_mutated_is_valid(empty, archive):
    names = [*_TABLES, *_RECORDS]
    files = {name: content.encode() for name, content in _TABLES.items()}
    files |= {name: _lines(records) for name, records in _RECORDS.items()}
    for name in names:
        ending = "csv" if name in _TABLES else "jsonl"
        empty.write({f"work/{name}.{ending}": files[name]})
        done = empty.run(
            "tables", "import", f"{name}.{ending}", "--yes", "--out", name, into=[f"work/{name}"]
        )
        assert done.code == 0, done.err
    empty.write({"work/search.toml": SEARCH, "work/a.parquet": archive[0]})
    search = ("tune", "search.toml", "--dry-run", "--", "python", "x.py", "{lr}", "{layers}")
    for command in (search, ("archive", "show", "--from", "a.parquet")):
        done = empty.run(*command)
        assert done.code == 0, done.err
