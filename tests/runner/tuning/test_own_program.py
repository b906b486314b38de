"""`hpobench-nmt tune SEARCH.toml -- PROGRAM`: real programs, which fail in every way, and kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_trainings import run

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.specs.search_file import NEW, load_search

SEARCH = """
objectives = ["loss:min"]
[grid]
x = [1, 2, 3, 4, 5, 6]
"""
PROGRAM = "import sys, json; x = float(sys.argv[1]); print(json.dumps({'loss': (x - 4) ** 2}))"


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(tmp_path / "home"))
    return tmp_path


def started(arguments, program, *words):
    command = [sys.executable, "-m", "hpobench_nmt", "tune", "s.toml", *arguments]
    return subprocess.Popen(
        [*command, "--", sys.executable, program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def tuned(at, program, words=("{x}",), arguments=("--lookups", "6"), search=SEARCH):
    """Tune a program; returns the output and the records."""
    (at / "s.toml").write_text(search)
    (at / "p.py").write_text(program)
    done = run(at, "tune", "s.toml", *arguments, "--", sys.executable, "p.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, read_ledger(at / "s" / "ledger.jsonl").records


def built(at):
    """The table of a search."""
    done = run(at, "tables", "build", "s")
    assert done.returncode == 0, done.stdout + done.stderr
    return hb.load_table(at / "s")


def refused(at, words, search=SEARCH):
    (at / "s.toml").write_text(search)
    with pytest.raises(InputError) as error:
        load_search(at / "s.toml", words)
    return str(error.value)


def test_the_best_of_a_grid_is_found_the_run_resumes_and_a_table_is_built(at):
    out, records = tuned(at, PROGRAM)
    assert "Best: x=4 (loss=0)\n" in out and "best so far" in out
    assert sorted(record.metrics["loss"] for record in records) == [0, 1, 1, 4, 4, 9]
    again, same = tuned(at, "import sys; sys.exit('must not run again')")
    assert same == records and again.count("from the ledger") == 6
    logs = [path.read_text() for path in (at / "s" / "logs").iterdir()]
    assert len(logs) == 6 and all(log.startswith("$ ") and '{"loss":' in log for log in logs)
    assert len(built(at).configs) == 6


def test_lines_of_a_narrow_terminal_break_before_the_outcome(at, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out, _ = tuned(at, PROGRAM)
    lines = out.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("  1  x="))
    assert lines[first + 1].startswith("     ->  loss=") and "->" not in lines[first]
    assert all(len(line) <= 40 for line in lines[first : first + 2])


def test_arguments_braces_flags_config_seed_and_inactive_values(at):
    search = """
    objectives = ["loss:min"]
    start = {rule = "adam", amp = true}
    [grid]
    rule = ["sgd", "adam"]
    momentum = [0.5, 0.9]
    amp = [false, true]
    [when]
    momentum = {rule = ["sgd"]}
    [flags]
    amp = "--amp"
    """
    program = """
import json, sys
words = sys.argv[1:]
amp = words[-1] == "--amp" and words.pop()
config = json.load(open(words.pop()))
print(json.dumps({"loss": 1.0, "words": words, "amp": bool(amp), "config": config}))
"""
    words = ["--rule={rule}", "--momentum", "{momentum}", "m={momentum}", "{{x}}", "{seed}", "{config}"]
    tuned(at, program, words, ("--lookups", "6", "--seed", "7"), search)
    told = [json.loads(p.read_text().splitlines()[-1]) for p in (at / "s" / "logs").iterdir()]
    assert len(told) == 6
    for each in told:
        momentum = each["config"].get("momentum")
        active = ["--momentum", str(momentum), f"m={momentum}"] if momentum else []
        assert each["words"] == [f"--rule={each['config']['rule']}", *active, "{x}", "7"]
        assert each["amp"] == each["config"]["amp"] and each["config"]["seed"] == 7
    first = read_ledger(at / "s" / "ledger.jsonl").records[0]
    assert first.config == {"rule": "adam", "amp": True}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; print('oh'); sys.exit('no data')", "exit code 1: oh; no data"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV -11"),
        ("print('{\"loss\": NaN}')", "loss is nan"),
        ("print('loss=1')", "ended without loss: loss=1"),
    ],
)
def test_a_training_that_fails_is_recorded_with_its_reason_and_the_search_goes_on(at, program, reason):
    program = f"import sys\nif sys.argv[1] in '123':\n    {program}\n    sys.exit()\n{PROGRAM}"
    out, records = tuned(at, program)
    failed = [record for record in records if record.status == "failed"]
    assert len(records) == 6 and {record.config["x"] for record in failed} == {1, 2, 3}
    assert all(reason in record.reason for record in failed) and "Best: x=4" in out


EXAMPLES = Path(__file__).parents[3] / "examples" / "tune"
BY_LR = """
objectives = ["val_loss:min"]
[grid]
lr = {from = 1e-4, to = 1e-1, scale = "log"}
layers = [1, 2]
"""


def example(at, name, words, arguments=()):
    (at / "s.toml").write_text(BY_LR)
    program = [sys.executable, str(EXAMPLES / name), *words]
    done = run(at, "tune", "s.toml", "--lookups", "2", *arguments, "--", *program)
    assert done.returncode == 0 and "Best: lr=" in done.stdout, done.stdout + done.stderr
    assert all(record.status == "done" for record in read_ledger(at / "s" / "ledger.jsonl").records)


def test_the_example_with_argparse_is_tuned(at):
    example(at, "train.py", ["--lr", "{lr}", "--degree", "{layers}", "--seed", "{seed}"])


@pytest.mark.hosts
@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("hydra", ["lr={lr}", "layers={layers}", "hydra.run.dir={folder}"]),
        ("lightning", ["--lr", "{lr}", "--layers={layers}", "--seed", "{seed}"]),
        (
            "transformers",
            [
                "--learning_rate",
                "{lr}",
                "--layers",
                "{layers}",
                "--output_dir",
                "{folder}",
                "--report_to=none",
            ],
        ),
    ],
)
def test_an_example_with_another_library_is_tuned(at, package, words):
    pytest.importorskip(package)
    if package == "transformers":
        pytest.importorskip("accelerate", reason="its Trainer needs accelerate")
    name = {"transformers": "hugging_face_train.py"}.get(package, f"{package}_train.py")
    example(at, name, words)


def test_a_flood_does_not_hide_the_result(at):
    flood = "import sys; sys.stdout.write('x' * 40_000_000 + chr(10)); "
    assert "Best: x=4" in tuned(at, flood + PROGRAM)[0]


def running(text):
    """Whether a process has this text among its arguments."""
    found = subprocess.run(["pgrep", "-f", text], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_what_hangs_and_forks_is_stopped_with_all_its_processes(at):
    program = """
import os, signal, sys, time
mark = "own-program-" + sys.argv[2]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        os.execvp(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", mark])
time.sleep(600)
"""
    mark = str(os.getpid())
    (record,) = tuned(at, program, ("{x}", mark), ("--lookups", "1", "--timeout", "1"))[1]
    assert record.reason.startswith("stopped after 1 s")
    assert not running(f"own-program-{mark}")


def test_metrics_are_read_by_a_pattern_from_a_file_and_after_a_progress_bar(at):
    program = "import sys; print('loss: 7'); print('loss:', (float(sys.argv[1]) - 4) ** 2)"
    by_pattern = SEARCH.replace("[grid]", "read = 'loss[=:] *(\\S+)'\n[grid]")
    assert "Best: x=4" in tuned(at, program, search=by_pattern)[0]
    (at / "s" / "ledger.jsonl").unlink()
    program = "import sys; open(sys.argv[2] + '/m.json', 'w').write('{\"loss\": %s}' % sys.argv[1])"
    by_file = SEARCH.replace("[grid]", 'read = {file = "m.json"}\n[grid]')
    assert "Best: x=1" in tuned(at, program, ("{x}", "{folder}"), search=by_file)[0]
    (at / "s" / "ledger.jsonl").unlink()
    program = "import sys; sys.stderr.write('50%|##  | 1/2 '); sys.stderr.flush()\n" + PROGRAM
    assert "Best: x=4" in tuned(at, program)[0]


CURVE = (
    SEARCH
    + """
[curve]
key = "epoch"
whole = 9
"""
)
EPOCHS = """
import json, os, sys, time
x, place = float(sys.argv[1]), sys.argv[2] + "/epoch"
begun = int(open(place).read()) if os.path.exists(place) else 0
for epoch in range(begun + 1, 10):
    with open(place + ".new", "w") as file:
        file.write(str(epoch))
    os.replace(place + ".new", place)
    print(json.dumps({"epoch": epoch, "loss": (x - 4) ** 2 + 1 / epoch}))
    time.sleep(0.1)
"""


def test_trainings_with_curves_are_stopped_early_and_resume_from_their_checkpoints(at):
    arguments = ("--lookups", "3", "--methods", "ASHA", "--jobs", "2", "--device", "cpu")
    out, records = tuned(at, EPOCHS, ("{x}", "{checkpoint}"), arguments, CURVE)
    assert "to checkpoint" in out and records
    for log in (at / "s" / "logs").iterdir():
        epochs = [json.loads(line)["epoch"] for line in log.read_text().splitlines() if line[0] == "{"]
        assert len(set(epochs)) == len(epochs)  # none was trained twice
    assert all([point["update"] for point in record.curve] == [*range(1, 10)] for record in records)
    assert not list((at / "home").rglob("checkpoint"))  # those of losers are removed


@pytest.mark.hosts
def test_a_search_survives_kills_at_random(at):
    chance = random.Random(5)
    (at / "s.toml").write_text(SEARCH)
    (at / "p.py").write_text("import time; time.sleep(0.2)\n" + PROGRAM)
    for _ in range(20):
        process = started(("--lookups", "6"), "p.py", "{x}")
        time.sleep(chance.uniform(0.3, 2.0))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    process = started(("--lookups", "6"), "p.py", "{x}")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Best: x=4" in out, err
    assert len(read_ledger(at / "s" / "ledger.jsonl").records) == 6
    assert not running(str(at / "p.py"))


def test_wrong_files_and_commands_are_refused_before_any_training(at):
    assert "Did you mean 'x'?" in refused(at, ["p", "{xx}", "{x}"])
    assert "does not receive x" in refused(at, ["p"])
    assert "unknown hyperparameter 'y'" in refused(at, ["p", "{x}"], SEARCH + "[flags]\ny = '--y'\n")
    assert "NAME:min" in refused(at, ["p", "{x}"], SEARCH.replace("loss:min", "loss"))
    assert "one group" in refused(at, ["p", "{x}"], SEARCH.replace("[grid]", "read = 'x'\n[grid]"))
    assert "{folder}" in refused(at, ["p", "{x}"], SEARCH.replace("[grid]", "read = {file = 'm'}\n[grid]"))
    process = started((), "p.py")
    assert "does not receive x" in process.communicate(timeout=60)[1]


def test_a_new_search_is_read(at):
    (at / "new.toml").write_text(NEW)
    spec = load_search(at / "new.toml", ["p", "{learning_rate}", "{layers}"])
    assert {axis.name for axis in spec.axes} == {"learning_rate", "layers"} and spec.size > 900


def test_ranges_have_conditions(at):
    search = """
    objectives = ["loss:min", "seconds:min"]
    start = {rule = "sgd", rate = 0.01}
    [grid]
    rule = ["sgd", "adam"]
    rate = {from = 1e-4, to = 1e-1, scale = "log"}
    decay = {from = 0.0, to = 1.0}
    [when]
    decay = {rule = ["adam"]}
    """
    (at / "s.toml").write_text(search)
    spec = load_search(at / "s.toml", ["p", "{rule}", "{rate}", "{decay}"])
    assert spec.configuration(spec.start) == {"rule": "sgd", "rate": 0.01}
    for row in range(spec.size):
        config = spec.configuration(row)
        assert ("decay" in config) == (config["rule"] == "adam") and spec.row(config) == row


NOISY = """
import json, random, sys
x, seed = float(sys.argv[1]), int(sys.argv[2])
if seed == 7 + FAILING or x > 0.9:
    sys.exit("out of memory")
random.seed(f"{x} {seed}")
print(json.dumps({"loss": (x - 0.4) ** 2 + random.gauss(0, 0.02)}))
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_repeats_have_other_seeds_and_a_row_of_the_table_is_their_mean(at, jobs):
    search = SEARCH.replace("[1, 2, 3, 4, 5, 6]", "{from = 0.0, to = 1.0}")
    arguments = ("--lookups", "24", "--repeats", "auto", "--seed", "7", "--jobs", jobs)
    out, records = tuned(at, NOISY.replace("FAILING", "0.5"), ("{x}", "{seed}"), arguments, search)
    again = [record for record in records if record.replicate]
    assert 1 <= len(again) <= 3 and len(records) == 24 and out.count(", again") == len(again)
    assert all(record.seed == 7 + record.replicate for record in records)
    assert "Recommended: x=" in out and "Best:" not in out
    same, unchanged = tuned(
        at, "import sys; sys.exit('must not run again')", ("{x}", "{seed}"), arguments, search
    )
    assert unchanged == records and same.split("Recommended")[1] == out.split("Recommended")[1]
    table = built(at)
    done = [record for record in records if record.status == "done"]
    means = {
        x: [r.metrics["loss"] for r in done if r.config["x"] == x] for x in {r.config["x"] for r in done}
    }
    assert table.replicates.averaged and len(table.replicates.rows.values) == len(done)
    assert {table.config(row)["x"]: value for row, value in enumerate(table.column("loss"))} == pytest.approx(
        {x: sum(own) / len(own) for x, own in means.items()}
    )
    assert table.provenance["rows_are_means"].startswith(f"{len(again)} trainings again")


SLOW_START = """
import json, sys, time
x = float(sys.argv[1])
time.sleep(1.5 if x == 1 else 0)
print(json.dumps({"loss": x}))
"""


def test_what_is_recommended_is_compared_with_the_start_though_it_ends_last(at):
    """The start is the best, but slower than what runs beside it."""
    search = "start = {x = 1}\n" + SEARCH
    out, _ = tuned(at, SLOW_START, ("{x}",), ("--lookups", "5", "--jobs", "2"), search)
    assert "Best: x=1 " in out and "Configuration 1 is the start, and nothing better was found." in out


def test_repeats_of_a_search_do_not_confirm_it(at):
    """The best by their expected losses are trained with seeds that the search did not use."""
    search = SEARCH.replace("[1, 2, 3, 4, 5, 6]", "{from = 0.0, to = 1.0}")
    arguments = ("--lookups", "24", "--repeats", "auto", "--seed", "7", "--confirm", "10")
    out, records = tuned(at, NOISY.replace("FAILING", "0.5"), ("{x}", "{seed}"), arguments, search)
    assert len(records) == 34 and len({(record.config["x"], record.seed) for record in records}) == 34
    recommended = out.split("Recommended: ")[1].splitlines()[0]
    assert f"{recommended}  ->  " in out.split("Confirmed with 10 more")[1]


TOGETHER = """
import json, pathlib, sys, time
x, seed, folder = float(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
if seed != 7:
    (folder / f"{x} {seed}").touch()
    end = time.monotonic() + 30
    while len(list(folder.iterdir())) < 2:
        if time.monotonic() > end:
            sys.exit("alone")
        time.sleep(0.01)
print(json.dumps({"loss": x + seed % 3 / 100}))
"""


def test_several_trainings_confirm_at_a_time(at):
    """The first training again waits until another has begun."""
    begun = at / "begun"
    begun.mkdir()
    arguments = ("--lookups", "6", "--jobs", "2", "--seed", "7", "--confirm", "11")
    out, records = tuned(at, TOGETHER, ("{x}", "{seed}", str(begun)), arguments)
    assert all(record.status == "done" for record in records)
    assert len(list(begun.iterdir())) == 10 == len(records) - 6
    assert "remains: x=1  ->  loss=1.0" in out.split("Confirmed with 10 more trainings of the best 5:")[1]


def test_a_repeat_that_failed_is_counted_but_its_row_stays(at):
    search = SEARCH.replace("[1, 2, 3, 4, 5, 6]", "{from = 0.0, to = 1.0}")
    arguments = ("--lookups", "20", "--repeats", "auto", "--seed", "7")
    _, records = tuned(at, NOISY.replace("FAILING", "1"), ("{x}", "{seed}"), arguments, search)
    again = [record for record in records if record.replicate]
    assert again and all(record.status == "failed" for record in again if record.replicate == 1)
    table = built(at)
    first_done = [record for record in records if not record.replicate and record.status == "done"]
    assert len(table.configs) == len(first_done)
    failed = [record for record in again if record.status == "failed"]
    assert f"{len(failed)} failed: {len(failed)} (exit code" in table.provenance["rows_are_means"]
