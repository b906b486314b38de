"""Methods that are programs: real processes, which answer, misbehave, are killed and resumed."""

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.contestants.plugins import load_method, resolve_methods
from hpobench_nmt.benchmarking.contestants.program import one_trial
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PYTHON = shlex.quote(sys.executable)

LOOP = """
import json, sys, time, os
seen, n = set(), 0
for line in sys.stdin:
    message = json.loads(line)
    if message["message"] == "problem":
        problem = message
    if message["message"] == "tell":
        seen.add(message["row"])
        while n in seen:
            n += 1
    if message["message"] == "ask":
        {answer}
        sys.stdout.flush()
"""


@pytest.fixture
def spec(tmp_path):
    """Writes a program that does something when it is asked, and gives its spec."""

    def written(answer: str, settings: str = "", whole: bool = False) -> str:
        path = tmp_path / "agent.py"
        path.write_text(answer if whole else LOOP.format(answer=answer))
        return f"cmd{settings}:{PYTHON} {path}"

    return written


def problem_of(n_rows=8, **rules) -> Problem:
    features = np.linspace(0.0, 1.0, n_rows)[:, None]
    features.setflags(write=False)
    return Problem(features, 1, n_rows, 1, **rules)


def trial(spec: str, transcript: Path | None = None, problem: Problem | None = None):
    problem = problem or problem_of()
    losses = (np.arange(float(len(problem.features))) - 5.0)[:, None] ** 2
    losses[2] = np.nan
    with one_trial(load_method(spec), transcript) as make:
        return run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(0), [0])


def test_rows_and_configurations_are_answers(spec):
    by_row = trial(spec('print(json.dumps({"row": n}))'))
    assert (by_row.rows.tolist(), by_row.failure) == (list(range(8)), "")
    by_config = trial(spec('print(json.dumps({"config": {"x1": problem["rows"][n][0]}}))'))
    assert by_config.rows.tolist() == list(range(8))


def test_a_program_is_told_of_a_prior(spec):
    best = 'max((k for k in range(8) if k not in seen), key=lambda k: problem["prior"][k])'
    found = trial(
        spec(f'print(json.dumps({{"row": {best}}}))'), problem=problem_of(prior=-np.arange(8.0) % 3)
    )
    assert found.rows.tolist() == [0, 1, 4, 7, 2, 5, 3, 6]
    assert "KeyError" in trial(spec(f'print(json.dumps({{"row": {best}}}))')).failure  # there is none


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("time.sleep(60)", "no answer within 1 s"),
        ('print("{", end="")\n        sys.stdout.flush(); time.sleep(60)', "its line does not end"),
        ('sys.exit("out of money")', "exit code 1: out of money"),
        ("os.kill(os.getpid(), 9)", "signal 9"),
        ("os.close(1); time.sleep(60)", "closed its standard output"),
        ('print("Let me think.")', "answered 'Let me think.', which is not JSON"),
        ('print("[" * 5000)', "which is not JSON"),
        ("print(17)", "which has no row"),
        ("print('{\"row\": 1.5}')", "in which row is not a whole number"),
        ("print('{\"row\": true}')", "in which row is not a whole number"),
        ("print('{\"row\": 8}')", "rows go from 0 to 7"),
        ("print('{\"row\": 0}')", "returned row 0, whose training has ended"),
        ('print(\'{"row": 1, "resource": "all"}\')', "which is not a resource"),
        ('print(\'{"config": {"x1": 0.3}}\')', "a configuration that the table does not have"),
        ('print(\'{"config": {"lr": 0.3}}\')', "whose config must have x1"),
        ("print('{\"row\": null}')", "nothing is running"),
        ('print("x" * 100_000)', "longer than 65,536 bytes"),
        ("print('{\"row\": %d}\\nDone.' % n)", "wrote 'Done.' without being asked"),
        ("while True: print('Thinking')", "answered 'Thinking', which is not JSON"),
        ("while True: sys.stderr.write('x' * 100_000)", "no answer within 1 s"),
    ],
)
def test_each_way_of_misbehaving_has_its_reason(spec, answer, reason):
    start = time.monotonic()
    found = trial(spec(answer, "(seconds=1)"))
    assert reason in found.failure
    assert "\n" not in found.failure
    assert time.monotonic() - start < 10


def test_a_program_that_never_reads_is_not_waited_for_longer_than_a_step(spec):
    large = problem_of(40_000)  # more than a pipe holds
    found = trial(spec("import time; time.sleep(60)", "(seconds=1)", whole=True), problem=large)
    assert "does not read its standard input" in found.failure


def test_a_program_that_floods_before_it_is_asked(spec):
    found = trial(spec("print('hello\\n' * 100_000)\n" + LOOP.format(answer="pass"), whole=True))
    assert "'hello'" in found.failure


def test_its_children_end_with_the_trial(spec, tmp_path):
    child = tmp_path / "child"
    start_child = f"""
        import subprocess
        if n == 1:
            process = subprocess.Popen(["sleep", "300"])
            open({str(child)!r}, "w").write(str(process.pid))
        print(json.dumps({{"row": n}}))"""
    assert trial(spec(start_child.strip())).failure == ""
    assert has_ended(int(child.read_text()))


def test_its_processes_end_when_ours_is_killed(spec, toy, tmp_path):
    pid = tmp_path / "pid"
    command = spec(f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(300)")
    results = hb.run("quick", tables=[toy], methods=[command], trials=1, timeout=2)
    (trials,) = results.trials.values()
    assert "longer than the time limit of 2 s" in trials[0].failure
    assert has_ended(int(pid.read_text()))


def has_ended(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_the_problem_describes_the_table_and_can_hide_its_names(spec, toy, tmp_path):
    for settings, names, unit in (("", list(toy.space.names), True), ('(names="hidden")', None, False)):
        out = tmp_path / "out"
        command = spec('print(json.dumps({"row": n}))', settings)
        results = hb.run("quick", tables=[toy], methods=[command], trials=1, seed=3, out=out)
        (trials,) = results.trials.values()
        assert not trials[0].failure, trials[0].failure
        (path,) = out.glob("transcripts/*/*/000000.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        problem, *others = [json.loads(line["to"]) for line in lines if "to" in line]
        wanted = names or [f"x{j}" for j in range(1, len(toy.space) + 1)]
        assert [h["name"] for h in problem["hyperparameters"]] == wanted
        assert any(h["unit"] for h in problem["hyperparameters"]) <= unit
        assert [h["scale"] for h in problem["hyperparameters"]] == [h.scale for h in toy.space]
        # A trial of the suite sees the rows in a random order.
        shown, known = (np.array(rows, dtype=float) for rows in (problem["rows"], toy.configs))
        np.testing.assert_allclose(np.unique(shown, axis=0), np.unique(known, axis=0))
        assert (problem["seed"], problem["n_initial"], problem["workers"]) == (problem["seed"], 3, 1)
        tells = [message for message in others if message["message"] == "tell"]
        assert set(tells[0]["config"]) == set(wanted)
        assert "nan" not in path.read_text().lower()
        shutil.rmtree(out)


def test_a_failed_training_is_told_as_null(spec, tmp_path):
    trial(spec('print(json.dumps({"row": n}))'), tmp_path / "lines.jsonl")
    told = [
        json.loads(json.loads(line).get("to", "{}"))
        for line in (tmp_path / "lines.jsonl").read_text().splitlines()
    ]
    losses = {message["row"]: message["losses"] for message in told if message.get("message") == "tell"}
    assert losses[2] == [None]
    assert losses[3] == [4.0]


COUNTING = """
        open(os.environ["ASKED"], "a").write(f"{n} ")
        print(json.dumps({"row": n}))"""


def test_a_stopped_trial_does_not_ask_twice(spec, tmp_path, monkeypatch):
    lines, asked = tmp_path / "lines.jsonl", tmp_path / "asked"
    monkeypatch.setenv("ASKED", str(asked))
    command = spec(COUNTING.strip())
    whole = trial(command, lines)
    complete = lines.read_text()
    assert asked.read_text().split() == [str(n) for n in range(1, 8)]
    for cut in (0, 40, len(complete) // 2, len(complete) - 5, len(complete)):
        lines.write_text(complete[:cut])
        answered = sum("from" in json.loads(line) for line in complete[:cut].splitlines(keepends=True)
                       if line.endswith("\n"))  # fmt: skip
        asked.write_text("")
        again = trial(command, lines)
        assert again.rows.tolist() == whole.rows.tolist()
        assert len(asked.read_text().split()) == 7 - answered
        assert without_times(lines.read_text()) == without_times(complete)


def without_times(text: str) -> list[dict]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_a_seeded_program_goes_on_where_it_was_wherever_it_is_stopped(tmp_path):
    spec = f"cmd:{PYTHON} {EXAMPLES / 'seeded_agent.py'}"
    whole = tmp_path / "whole.jsonl"
    rows = trial(spec, whole).rows.tolist()
    lines = whole.read_text().splitlines()
    untimed = [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]
    for kept in range(0, len(lines), 2):
        stopped = tmp_path / f"{kept}.jsonl"
        stopped.write_text("".join(line + "\n" for line in lines[:kept]))
        assert trial(spec, stopped).rows.tolist() == rows
        again = [json.loads(line) for line in stopped.read_text().splitlines()]
        assert [{k: v for k, v in entry.items() if k != "seconds"} for entry in again] == untimed
    assert sorted(rows) == list(range(8)) and rows[1:] != sorted(rows[1:])


def test_a_transcript_of_another_trial_is_dropped_with_a_warning(spec, tmp_path):
    lines = tmp_path / "lines.jsonl"
    command = spec('print(json.dumps({"row": n}))')
    trial(command, lines)
    changed = [json.loads(line) for line in lines.read_text().splitlines()]
    at = next(i for i, line in enumerate(changed) if '"row": 3' in line.get("to", ""))
    changed[at]["to"] = changed[at]["to"].replace("4.0", "5.0")
    lines.write_text("".join(json.dumps(line) + "\n" for line in changed))
    with pytest.warns(UserWarning, match="From here on, this trial differs"):
        again = trial(command, lines)
    assert again.rows.tolist() == list(range(8))
    assert sum("note" in line for line in without_times(lines.read_text())) == 1


def test_a_transcript_that_differs_from_its_first_line_on_is_resumed_from_the_next_time(
    spec, tmp_path, monkeypatch
):
    lines, asked = tmp_path / "lines.jsonl", tmp_path / "asked"
    monkeypatch.setenv("ASKED", str(asked))
    command = spec(COUNTING.strip())
    trial(command, lines)
    with pytest.warns(UserWarning, match="From here on, this trial differs"):
        trial(command, lines, problem_of(6))
    assert json.loads(lines.read_text().splitlines()[0]).keys() == {"note"}
    before = lines.read_text()
    asked.write_text("")
    trial(command, lines, problem_of(6))
    assert asked.read_text() == ""
    assert lines.read_text() == before


def test_a_word_of_a_command_may_be_longer_than_a_files_name_can_be(spec):
    command = spec('print(json.dumps({"row": n}))') + f" --prompt '{'word ' * 60}' \\0"
    assert trial(command).rows.tolist() == list(range(8))


def test_a_transcript_that_is_a_link_is_not_followed(spec, tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "lines.jsonl").symlink_to(target)
    found = trial(spec('print(json.dumps({"row": n}))'), tmp_path / "lines.jsonl")
    assert "symbolic link" in found.failure
    assert target.read_text() == "mine"


def test_the_fingerprint_covers_the_command_and_its_files(spec, tmp_path):
    command = spec("pass")
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("one")

    def printed(text):
        return resolve_methods([text])[0].entry.fingerprint

    base, with_file = printed(command), printed(f"{command} --prompt={prompt}")
    assert len({base, with_file, printed(f"{command} --fast"), printed(spec("pass", "(seconds=9)"))}) == 4
    assert printed(command) == base
    prompt.write_text("two")
    assert printed(f"{command} --prompt={prompt}") != with_file
    spec("n = 1")
    assert printed(command) != base


def test_names_of_programs(spec):
    command = spec("pass")
    (method,) = resolve_methods([spec("pass", '(names="hidden", seconds=5)')])
    assert method.name == "agent+names-hidden+seconds-5.0"
    assert resolve_methods([method.spec])[0] == method
    (other,) = resolve_methods([f"{command} --model big (beta)"])
    assert (other.name, other.built_in, other.is_program) == ("agent-model-big-beta", False, True)
    with pytest.raises(InputError, match="given twice"):
        resolve_methods([command, command])


@pytest.mark.parametrize(
    ("spec_text", "reason"),
    [
        ("cmd:", "needs a command"),
        ("cmd:'python", "no closing quotation"),
        ("cmd:no-such-program-anywhere x", "the program 'no-such-program-anywhere' is not on this machine"),
        ('cmd(names="secret"):sh x', "names must be 'shown' or 'hidden'"),
        ("cmd(seconds=0):sh x", "seconds must be above 0"),
        ("cmd(second=1):sh x", "Did you mean|seconds"),
        ("cmd(seconds=1:sh x", "settings are written|does not exist"),
    ],
)
def test_wrong_specs(spec_text, reason):
    with pytest.raises(InputError, match=reason):
        resolve_methods([spec_text])


def test_no_shell_reads_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = trial("cmd:echo $(touch harm) ; touch harm2")
    assert "'$(touch harm) ; touch harm2'" in found.failure
    assert not list(tmp_path.iterdir())


def test_the_examples(run_command, toy_home, tmp_path):
    examples = {EXAMPLES / "agent.py": PYTHON, EXAMPLES / "agent.sh": "sh"}
    assert all(len(example.read_text().splitlines()) <= 25 for example in examples)
    commands = [f"cmd:{interpreter} {example}" for example, interpreter in examples.items()]
    done = run_command(
        "run", "quick", "--tables", "toy", "--trials", "2", "--methods", commands[0], "--out", "out"
    )
    assert done.returncode == 0, done.stderr
    assert "not reproducible" in " ".join(done.stdout.split())
    kept = {path: path.read_bytes() for path in Path("out").rglob("*.jsonl")}
    assert len(kept) == 2
    results = hb.run(
        "quick", tables=["toy"], methods=commands[:1], trials=2, out="out"
    )  # nothing is run again
    assert {path: path.read_bytes() for path in Path("out").rglob("*.jsonl")} == kept
    results = hb.run("quick", tables=["toy"], methods=commands[1:], trials=2)
    assert not any(trial.failure for trials in results.trials.values() for trial in trials)


def test_several_workers_and_curves(spec, toy, curved):
    answer = 'print(json.dumps({"row": next(r for r in range(len(problem["rows"])) if r not in seen)}))'
    program = LOOP.replace("{answer}", answer)
    program = program.replace("    message = json.loads(line)\n", """    message = json.loads(line)
    seen |= {message["row"]} if message["message"] == "tell" else set(message.get("running", ()))
    assert message["message"] != "tell" or message["curve"][-1]["resource"] >= 1
""")  # fmt: skip
    results = hb.run(
        "quick", tables=[curved], methods=[spec(program, whole=True)], trials=1, workers=3, curves=True,
        clock="cost", scores=["ftb"], lookups=12, notify=lambda message: None,
    )  # fmt: skip
    (trials,) = results.trials.values()
    assert trials[0].failure == ""
    assert len(set(trials[0].rows.tolist())) > 3
