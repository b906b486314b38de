"""Real trainings, one run of them killed: the ledger, the table and the tuning that come of them."""

import json
import re
import shutil
import signal
import subprocess

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from tiny_trainings import SPEC, lines, run

import hpobench_nmt as hb
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.runner.devices import find_devices
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.specs.spec import SAME_SEED, select
from hpobench_nmt.runner.specs.spec_file import load_spec

pytestmark = pytest.mark.usefixtures("spec_file")

N_CONFIGS, N_TRAININGS = 6, 8


@pytest.fixture(scope="module")
def trained(place, spec_file, start, wait_for):
    """The folder of a run that was killed halfway and started again; asserts on the way."""
    folder, ledger = place / "out", place / "out" / "ledger.jsonl"
    train = ("train", "tiny.toml", "--out", folder, "--jobs", "2", "--device", "cpu", "--quiet")
    process = start(place, *train)
    wait_for(lambda: len(lines(ledger)) >= 2)
    process.send_signal(signal.SIGKILL)  # the run alone: its trainings must end by themselves
    process.wait()
    before = lines(ledger)
    assert 2 <= len(before) < N_TRAININGS
    done = run(place, *train)
    assert done.returncode == 0, done.stderr
    assert lines(ledger)[: len(before)] == before  # nothing of it was touched or trained again
    assert "6 trained, 2 failed, 0 to do" in done.stdout
    return folder


def test_a_run_that_is_killed_goes_on_where_it_was(trained):
    records = [json.loads(line) for line in lines(trained / "ledger.jsonl")]
    keys = [(json.dumps(r["config"]), r["replicate"]) for r in records]
    assert len(keys) == len(set(keys)) == N_TRAININGS
    assert not (trained / "work").exists()
    assert not (trained / "reserve").exists()


def test_what_a_kill_after_the_last_record_has_left_is_removed(trained, place):
    (trained / "work").mkdir()
    (trained / "work" / "0123.claim").touch()
    done = run(place, "train", "tiny.toml", "--out", trained, "--jobs", "2", "--device", "cpu", "--quiet")
    assert (done.returncode, (trained / "work").exists()) == (0, False)


def test_paused_trainings_show_in_the_status_and_end_as_if_they_had_not_paused(place, trained):
    folder = place / "paused"
    train = (
        "train",
        "tiny.toml",
        "--out",
        folder,
        "--jobs",
        "1",
        "--device",
        "cpu",
        "--only",
        "hidden_size=4",
    )
    done = run(place, *train, "--updates", "20")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("are paused: 'train' resumes them") == 1
    shown = run(place, "train", "tiny.toml", "--out", folder, "--status").stdout
    paused = [line for line in shown.splitlines() if line.startswith("  paused ")]
    assert len(paused) == done.stderr.count("Paused: hidden_size=4")
    assert paused and all(int(line.partition("at update ")[2].split()[0]) >= 20 for line in paused)
    ended = run(place, *train)
    assert ended.returncode == 0, ended.stderr
    expected = {r.key: r for r in read_ledger(trained / "ledger.jsonl").records}
    for record in read_ledger(folder / "ledger.jsonl").records:
        other = expected[record.key]
        assert record.status == other.status
        for name in ("dev_ppl", "test_ppl", "num_updates"):
            assert record.metrics.get(name) == other.metrics.get(name)
        assert [p["dev_ppl"] for p in record.curve] == [p["dev_ppl"] for p in other.curve]
    # Neither this run nor the one that was killed has left a state.
    assert list((place / "home" / "training" / "states").glob("*/*")) == []


def test_a_record_tells_how_it_came_about(trained):
    for record in read_ledger(trained / "ledger.jsonl").records:
        assert record.seconds > 0
        assert record.device.startswith("cpu")
        assert {"python", "numpy", "torch", "hpobench-nmt"} <= set(record.versions)
        assert record.started.endswith("+00:00")
        if record.status == "done":
            assert not record.converged  # after four epochs
            assert record.metrics["dev_ppl"] > 1
            points = [point["dev_ppl"] for point in record.curve]
            assert len(points) >= 2
            assert min(points) < 14  # what a guess has
        else:
            assert record.config["learning_rate"] == 10000
            assert "diverged" in record.reason or "learned nothing" in record.reason


def test_a_finished_run_has_nothing_to_do(trained, place):
    before = (trained / "ledger.jsonl").read_bytes()
    done = run(place, "train", "tiny.toml", "--out", trained, "--device", "cpu", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (trained / "ledger.jsonl").read_bytes() == before


def test_the_table_of_a_ledger(trained, place):
    done = run(place, "tables", "build", trained / "ledger.jsonl")
    assert done.returncode == 0, done.stderr
    assert "4 of 6 configurations, 2 failed, complete" in done.stdout
    table = hb.load_table(trained)
    assert [h.name for h in table.hyperparameters] == ["hidden_size", "learning_rate"]
    assert table.hyperparameters[1].values == (1, 5)  # where everything failed there is nothing to look up
    assert [m.name for m in table.metrics] == ["dev_ppl", "test_ppl", "num_param", "num_updates"]
    assert table.objectives == ("dev_ppl", "num_param")
    assert table.claims == {"configurations": 6, "failed": 2, "complete": True}
    assert table.provenance["not_converged"].startswith("4 (a limit of epochs")
    assert "learned nothing" in table.provenance["failed"] or "diverged" in table.provenance["failed"]
    by_config = {
        tuple(r.config.values()): r for r in read_ledger(trained / "ledger.jsonl").records if not r.replicate
    }
    for config, values in zip(table.configs.tolist(), table.to_frame().to_dict("records"), strict=True):
        assert values["dev_ppl"] == by_config[tuple(config)].metrics["dev_ppl"]


def test_replicates_stand_beside_the_table_and_are_installed_with_it(trained, place, monkeypatch):
    run(place, "tables", "build", trained)
    again = load_folder(trained).replicates.to_frame()
    spec = load_spec(trained / "spec.toml")
    expected = {
        r.key for r in read_ledger(trained / "ledger.jsonl").records if r.replicate and r.status == "done"
    }
    assert len(again) == len(expected)
    assert set(again["replicate"]) <= {1.0}
    table = hb.load_table(trained).to_frame()
    for row in again.to_dict("records"):
        twin = table[
            (table.hidden_size == row["hidden_size"]) & (table.learning_rate == row["learning_rate"])
        ]
        assert row["dev_ppl"] != twin["dev_ppl"].item()
        config = {"hidden_size": row["hidden_size"], "learning_rate": row["learning_rate"]}
        assert row["seed"] == spec.training_seed(config, 1)
    assert run(place, "tables", "add", trained).returncode == 0
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(place / "home"))
    installed = place / "home" / "tables" / "tiny"
    assert load_folder(installed).replicates.to_frame().equals(again)
    for name in ("spec.toml", "ledger.jsonl"):  # with the learning curves
        assert (installed / name).read_bytes() == (trained / name).read_bytes()
    assert "✓ built from the ledger beside it" in run(place, "tables", "check", "tiny").stdout
    (installed / "replicates.csv").write_text("x\n1\n")
    with pytest.raises(hb.InputError, match="SHA-256"):
        load_folder(installed).replicates.to_frame()


def test_the_same_seed_gives_the_same_rows_however_they_are_trained(trained, place):
    out = place / "again"
    only = ("--only", "hidden_size=8", "--limit", "2")
    done = run(place, "train", "tiny.toml", "--out", out, "--jobs", "1", "--device", "cpu", *only)
    assert done.returncode == 0, done.stderr
    first = {r.key: r for r in read_ledger(trained / "ledger.jsonl").records}
    second = {r.key: r for r in read_ledger(out / "ledger.jsonl").records}
    assert [json.loads(key)["hidden_size"] for key, _ in second] == [8.0, 8.0]
    for key, record in second.items():
        twin = first[key]
        assert (record.status, record.seed) == (twin.status, twin.seed)
        for metric in ("dev_ppl", "test_ppl", "num_updates"):  # not the times
            assert record.metrics.get(metric) == twin.metrics.get(metric)
        assert [p["dev_ppl"] for p in record.curve] == [p["dev_ppl"] for p in twin.curve]


def test_the_copy_of_the_spec_trains_the_same_from_where_it_lies(trained, place):
    copy = trained / "spec.toml"
    before = copy.read_bytes()
    done = run(place, "train", copy, "--out", trained, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "6 trained, 2 failed, 0 to do" in done.stdout
    assert copy.read_bytes() == before
    elsewhere = place / "deep" / "er"
    done = run(
        place, "train", copy, "--out", elsewhere, "--device", "cpu", "--only", "hidden_size=4", "--limit", "1"
    )
    assert done.returncode == 0, done.stderr
    again = (elsewhere / "spec.toml").read_text()
    assert again.count("base") == 1
    assert load_spec(elsewhere / "spec.toml").base.resolve() == place


def unchained(ledger):
    """The text of a ledger without its hashes, as an earlier version wrote it."""
    return re.sub(r',"chain":"\w+"', "", ledger.read_text()).replace('{"ledger":2', '{"ledger":1')


def test_devices_are_not_mixed_unawares(trained, place):
    if find_devices("auto") != ["cpu"]:
        pytest.skip("there is a CUDA device here")
    mixed = place / "mixed"
    shutil.copytree(trained, mixed)
    ledger = mixed / "ledger.jsonl"
    ledger.write_text(unchained(ledger).replace('"device":"cpu, ', '"device":"cuda:0: Some GPU, '))
    for command in (("train",), ("tune", "--lookups", "1")):
        done = run(place, *command, "tiny.toml", "--out", "mixed")
        assert done.returncode == 2
        assert "Some GPU" in done.stderr
        assert "--device cpu" in done.stderr
    assert run(place, "train", "tiny.toml", "--out", "mixed", "--device", "cpu").returncode == 0


@pytest.mark.hosts
def test_two_runs_at_one_ledger_share_the_work(place, start):
    out = place / "shared"
    arguments = ("train", "tiny.toml", "--out", out, "--jobs", "1", "--device", "cpu", "--quiet")
    arguments += ("--only", "hidden_size=4")
    runs = [start(place, *arguments, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate(timeout=240)[1] for process in runs]
    assert [process.returncode for process in runs] == [0, 0], errors
    records = [json.loads(line) for line in lines(out / "ledger.jsonl")]
    assert len(records) == len({(json.dumps(r["config"]), r["replicate"]) for r in records})
    only = select(load_spec(place / "tiny.toml"), ["hidden_size=4"])
    assert len(records) == 3 + len(set(only) & set(load_spec(place / "tiny.toml").replicate_rows))


def test_rows_of_two_processors_in_one_ledger_are_told_of(trained, place):
    mixed = place / "processors"
    shutil.copytree(trained, mixed)
    ledger = unchained(mixed / "ledger.jsonl")
    old = re.sub(r'(?m)^(.*"hidden_size":4.*"device":"cpu, one thread: )[^"]*"', r'\1Old One"', ledger)
    (mixed / "ledger.jsonl").write_text(old)
    rows = sum("Old One" in line and '"status":"done"' in line for line in old.splitlines())
    sentence = rf"Rows were trained on .*cpu, one thread: Old One \({rows} rows\).*: times of different"
    done = run(place, "train", "tiny.toml", "--out", "processors", "--device", "cpu")
    assert re.search(sentence, done.stderr)
    done = run(place, "tables", "build", "processors")
    assert "Old One" in (said := hb.load_table(mixed).provenance["devices_differ"])
    assert said in done.stdout
    done = run(place, "train", "tiny.toml", "--out", trained, "--device", "cpu")
    assert "Rows were" not in done.stderr


def test_where_no_training_succeeded_no_table_is_suggested(place):
    (place / "hopeless.toml").write_text(SPEC.replace("[1, 5, 10000]", "[10000]").replace("[4, 8]", "[4]"))
    done = run(place, "train", "hopeless.toml", "--out", "hopeless", "--device", "cpu", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "No training has succeeded" in done.stdout
    assert "tables build" not in done.stdout


def test_the_best_row_is_trained_again_in_the_same_run(place):
    text = SPEC.replace("configurations = 2\ntrainings = 1", "best = 1\nsame_seed = 1")
    (place / "best.toml").write_text(text.replace("[1, 5, 10000]", "[1, 5]").replace("[4, 8]", "[4]"))
    done = run(place, "train", "best.toml", "--out", "best", "--device", "cpu", "--jobs", "1", "--quiet")
    assert done.returncode == 0, done.stderr
    first, second, again = read_ledger(place / "best" / "ledger.jsonl").records
    best = min(first, second, key=lambda record: record.metrics["dev_ppl"])
    assert (again.config, again.seed, again.replicate) == (best.config, best.seed, SAME_SEED + 1)
    assert again.metrics["dev_ppl"] == best.metrics["dev_ppl"]  # on the same machine


def test_tuning_trains_what_a_method_asks_for_and_goes_on_where_it_was(trained, place):
    tune = ("tune", "tiny.toml", "--methods", "BO_EI_M", "--out", "tuned", "--device", "cpu", "--seed", "1")
    first = run(place, *tune, "--lookups", "4")
    assert first.returncode == 0, first.stderr
    ledger = place / "tuned" / "ledger.jsonl"
    assert len(lines(ledger)) == 4
    second = run(place, *tune, "--lookups", "6")
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("from the ledger") == 4
    assert len(lines(ledger)) == N_CONFIGS
    steps = [line.split("  (")[0] for line in first.stdout.splitlines() if "->" in line]
    assert [line.split("  (")[0] for line in second.stdout.splitlines() if "->" in line][:4] == steps
    assert "failed: " in second.stdout
    best = min(
        (r for r in read_ledger(ledger).records if r.status == "done"), key=lambda r: r.metrics["dev_ppl"]
    )
    assert f"Best: hidden_size={best.config['hidden_size']}" in second.stdout


def test_after_so_many_hours_tuning_starts_no_training(place):
    tune = ("tune", "tiny.toml", "--methods", "RS", "--out", "hours", "--device", "cpu", "--lookups", "4")
    done = run(place, *tune, "--time-limit", "0.01s")
    assert done.returncode == 0, done.stderr
    assert len(lines(place / "hours" / "ledger.jsonl")) == 3  # the initial design
    more = run(place, *tune, "--time-limit", "1h")
    assert len(lines(place / "hours" / "ledger.jsonl")) == 4, more.stderr


def test_a_method_that_fails_is_not_passed_over(trained, place):
    (place / "sulky.py").write_text(
        "class Sulky:\n"
        "    def __init__(self, problem, rng): pass\n"
        "    def ask(self): raise ValueError('no idea')\n"
        "    def tell(self, index, losses): pass\n"
    )
    tune = ("tune", "tiny.toml", "--methods", "sulky.py:Sulky", "--lookups", "5", "--out", trained)
    done = run(place, *tune, "--device", "cpu")
    assert done.returncode == 1
    assert "Best: " in done.stdout
    assert re.search("Sulky failed after 3 look-ups: .*no idea", done.stderr)
    assert not (trained / "reserve").exists()


def test_a_ledger_of_another_spec_is_refused_and_kept(trained, place):
    (place / "other.toml").write_text(SPEC.replace("max_epochs = 4", "max_epochs = 5"))
    before = (trained / "ledger.jsonl").read_bytes()
    done = run(place, "train", "other.toml", "--out", trained, "--device", "cpu")
    assert done.returncode == 2
    assert "belongs to another spec: max_epochs is 4 there, 5 here" in done.stderr
    assert (trained / "ledger.jsonl").read_bytes() == before


def test_a_corpus_that_changed_is_refused(trained, place, tmp_path):
    for name in ("dev.txt", "test.txt", "tiny.toml"):
        (tmp_path / name).write_text((place / name).read_text())
    (tmp_path / "train.txt").write_text((place / "train.txt").read_text() + "w1 w2\n")
    done = run(place, "train", tmp_path / "tiny.toml", "--out", trained, "--device", "cpu")
    assert done.returncode == 2
    assert "the corpus has changed" in done.stderr


def test_tuning_by_what_is_not_measured_is_refused(place, tmp_path):
    text = SPEC.replace('"num_param", "num_updates"', '"num_param", "num_updates", "dev_ppl_mc"')
    (place / "blind.toml").write_text(text)
    tune = ("tune", "blind.toml", "--out", tmp_path / "t", "--device", "cpu", "--objectives", "dev_ppl_mc")
    done = run(place, *tune, "--methods", "RS", "--lookups", "6")
    assert done.returncode == 2
    assert re.search(
        r"none of 3 trainings measured dev_ppl_mc\. Name a measured metric with --objectives: .*dev_ppl",
        done.stderr,
    )
