"""The ledger: appended under a lock, mended after a crash, refused when it is not the spec's."""

import json
import resource
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.lookup.disk.folder import LEDGER
from hpobench_nmt.runner.ledgers.ledger import Record, append, open_ledger, read_ledger, reserve, training_key
from hpobench_nmt.runner.ledgers.plan import refuse_other_corpus, refuse_other_spec, refuse_rows_off_the_grid
from hpobench_nmt.runner.specs.spec_file import load_spec

SPEC = {"name": "t", "seed": 1, "fixed": {"layers": 2}, "defaults": {"dropout": 0.1}}
CORPUS = {"source": "here", "sha256": "ab" * 32}


def record(number, **changes):
    fields = {
        "config": {"a": number},
        "replicate": 0,
        "seed": 7,
        "status": "done",
        "metrics": {"ppl": 1.5 * number},
    }
    return Record(**{**fields, **changes})


@pytest.fixture
def path(tmp_path):
    open_ledger(tmp_path / LEDGER, SPEC, CORPUS)
    return tmp_path / LEDGER


def test_what_is_appended_is_read_back(path):
    curve = ({"update": 10, "dev_ppl": 3.25},)
    records = [
        record(1, curve=curve, versions={"torch": "2"}, started="2026-01-01T00:00:00+00:00", seconds=1.25),
        record(2, status="failed", reason="out of memory", metrics={}),
        record(1, replicate=1, seed=8),
    ]
    for r in records:
        append(path, r)
    found = read_ledger(path)
    assert [r.key for r in found.records] == [r.key for r in records]
    assert found.records[0].metrics == {"ppl": 1.5}
    assert list(found.records[0].curve) == list(curve)
    assert found.records[1].reason == "out of memory"
    assert found.spec == SPEC
    assert found.corpus == CORPUS


def test_the_first_record_of_a_training_counts(path):
    append(path, record(1))
    append(path, record(1, metrics={"ppl": 9.0}))
    assert [r.metrics["ppl"] for r in read_ledger(path).records] == [1.5]


def test_one_configuration_is_one_training_however_its_numbers_are_written():
    assert training_key({"a": 1, "b": 0.5}, 0) == training_key({"b": 0.5, "a": 1.0}, 0)
    assert training_key({"a": 1}, 0) != training_key({"a": 1}, 1)


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_last_line_is_set_aside_and_the_rest_goes_on(path, cut):
    append(path, record(1))
    append(path, record(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    torn = whole[:-cut].rsplit(b"\n", 1)[1]
    found = read_ledger(path)
    assert ([r.config["a"] for r in found.records], found.torn) == ([1], len(torn))
    append(path, record(3))
    assert [r.config["a"] for r in read_ledger(path).records] == [1, 3]
    assert path.with_name(LEDGER + ".torn").read_bytes() == torn + b"\n"


def test_a_head_that_was_torn_is_written_again(tmp_path):
    path = tmp_path / LEDGER
    path.write_bytes(b'{"ledger":1,"sp')
    assert open_ledger(path, SPEC, CORPUS).records == ()
    assert read_ledger(path).spec == SPEC


def test_a_damaged_line_in_the_middle_is_named(path):
    append(path, record(1))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{{{\n" + lines[1])
    with pytest.raises(
        InputError, match=r"line 2: not valid JSON.* remove it: that training will then be repeated"
    ):
        read_ledger(path)
    path.write_bytes(lines[0] + b'{"config": {"a": 1}}\n')
    with pytest.raises(InputError, match=r"line 2: replicate is missing"):
        read_ledger(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": {"ppl": "abc"}}, "metrics.ppl must be a finite number, not 'abc'"),
        ({"metrics": {"ppl": None}}, "metrics.ppl must be a finite number"),
        ({"metrics": [1]}, "metrics must be"),
        ({"metrics": {"ppl": 10**400}}, "metrics.ppl must be a finite number"),
        ({"config": {"a": [1]}}, "config.a must be"),
        ({"config": {"a": 10**400}}, "config.a must be"),
        ({"config": [["a", 1]]}, "config must be"),
        ({"curve": [{"dev_ppl": "x"}]}, r"curve\[0\].dev_ppl must be"),
        ({"curve": {"dev_ppl": 1}}, "curve must be a list"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"replicate": -1}, "replicate must be a whole number"),
        ({"status": "finished"}, "status must be 'done' or 'failed'"),
        ({"seconds": -1}, "seconds must be"),
        ({"reason": 3}, "reason must be a string"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_a_record_of_wrong_types_is_told_in_one_line(path, changes, message):
    entry = {"config": {"a": 1}, "replicate": 0, "seed": 1, "status": "done", "metrics": {"ppl": 1.5}}
    with path.open("a") as file:
        file.write(json.dumps(entry | changes) + "\n")
    with pytest.raises(InputError, match=message) as caught:
        read_ledger(path)
    assert f"{path}, line 2" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(path, number):
    with path.open("a") as file:
        file.write(
            f'{{"config":{{"a":1}},"replicate":0,"seed":1,"status":"done","metrics":{{"ppl":{number}}}}}\n'
        )
    with pytest.raises(InputError, match="line 2: "):
        read_ledger(path)


def test_rows_off_the_grid_are_named(path):
    def refuse(*grid):
        text = f'name = "t"\nfamily = "awd-lstm"\n[corpus]\nname = "sotu"\n[grid]\n{chr(10).join(grid)}\n'
        path.with_name("spec.toml").write_text(text)
        refuse_rows_off_the_grid(path, read_ledger(path), load_spec(path.with_name("spec.toml")))

    append(path, record(1, config={"layers": 1}))
    append(path, record(7, config={"layers": 7}))
    refuse("layers = [1, 7]")
    with pytest.raises(InputError, match="a record with layers = 7, which is not on the grid"):
        refuse("layers = [1, 2]")
    with pytest.raises(InputError, match="a record of layers, but the grid has layers, bptt"):
        refuse("layers = [1, 7]", "bptt = [30]")
    # Values are there where they are active, and only there.
    active = ("layers = [1, 7]", "hidden_size = [8]", "[when]", "hidden_size = {layers = [7]}")
    with pytest.raises(InputError, match="a record of layers, but the grid has layers, hidden_size"):
        refuse(*active)
    append(path, record(1, config={"layers": 1, "hidden_size": 8}))
    with pytest.raises(
        InputError, match=r"a record of layers, hidden_size, but the grid has layers\. Remove"
    ):
        refuse("layers = [1, 2, 7]", *active[1:3], "hidden_size = {layers = [2]}")


@pytest.mark.parametrize("name", [LEDGER, f"{LEDGER}.lock", f"{LEDGER}.torn"])
def test_links_out_of_the_folder_are_not_followed(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("a line\nand one without an end")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with pytest.raises(InputError, match="is a symbolic link, which is not followed"):
        open_ledger(folder / LEDGER, SPEC, CORPUS)
    assert victim.read_text() == "a line\nand one without an end"
    if name == LEDGER:
        with pytest.raises(InputError, match="is a symbolic link, which is not followed"):
            read_ledger(folder / LEDGER)


def test_lines_are_written_without_blanks_in_a_new_folder(tmp_path):
    path = tmp_path / "new" / "folder" / LEDGER
    assert open_ledger(path, {"name": "t"}, {"sha256": "ab"}).torn == 0
    append(path, record(1))
    first, second = path.read_bytes().splitlines()
    assert first.startswith(b'{"ledger":2,"spec":{"name":"t"},"corpus":{"sha256":"ab"},"chain":"')
    assert second.startswith(
        b'{"config":{"a":1},"replicate":0,"seed":7,"status":"done","metrics":{"ppl":1.5},"chain":"'
    )


def test_the_reserve_is_not_written_through_a_link(tmp_path):
    (tmp_path / "reserve").symlink_to(tmp_path / "victim")
    reserve(tmp_path)
    assert not (tmp_path / "victim").exists()


def test_bytes_that_are_not_text_are_a_damaged_line(path):
    with path.open("ab") as file:
        file.write(b"\xff\xfe\n")
    with pytest.raises(InputError, match="line 2"):
        read_ledger(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        "[]\n",
        "null\n",
        '{"ledger":2,"spec":{}}\n',
        '{"ledger":1,"spec":null}\n',
        '{"ledger":1,"spec":{"fixed":3}}\n',
        '{"ledger":1,"spec":{},"corpus":[]}\n',
        "a,b\n1,2\n",
    ],
)
def test_what_is_not_a_ledger_is_refused(tmp_path, content):
    path = tmp_path / LEDGER
    path.write_text(content)
    with pytest.raises(InputError, match=r"ledger"):
        read_ledger(path)


def opened_for(path, spec, corpus, usual=None):
    """The ledger, if it belongs to a spec with this identity."""
    ledger = open_ledger(path, spec, corpus)
    refuse_other_spec(path, ledger, spec, usual or {})
    return ledger


def test_a_ledger_of_another_spec_or_corpus_is_refused_untouched(path):
    append(path, record(1))
    before = path.read_bytes()
    for other, message in (
        ({"fixed": {"layers": 3}}, "layers is 2 there, 3 here"),
        ({"fixed": {"layers": 2, "dropout": 0.5}}, "dropout is 0.1 there, 0.5 here"),
        ({"fixed": {"layers": 2, "new": 1}}, "new is None there, 1 here"),
        ({"seed": 2}, "seed is 1 there, 2 here"),
    ):
        with pytest.raises(InputError, match=f"{path}: belongs to another spec: {message}"):
            opened_for(path, SPEC | other, CORPUS)
    with pytest.raises(InputError, match="corpus has changed"):
        refuse_other_corpus(path, read_ledger(path), {**CORPUS, "sha256": "cd" * 32})
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        (
            {"dropout": 0.2},
            r"dropout was 0\.1; now it is 0\.2\. To resume, write dropout = 0\.1 in",
        ),
        ({}, r"dropout = 0\.1, which this version does not have"),
    ],
)
def test_a_default_that_changed_matters_to_training_and_not_to_a_table(path, defaults, message):
    now = SPEC | {"defaults": defaults}
    with pytest.raises(InputError, match=message):
        opened_for(path, now, CORPUS)
    refuse_other_spec(path, read_ledger(path), now, {}, to_train=False)
    if defaults:
        opened_for(path, SPEC | {"defaults": {}, "fixed": {"layers": 2, "dropout": 0.1}}, CORPUS)


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"fixed": {"layers": 2, "dropout": 0.1}, "defaults": {}},
        {"fixed": {}, "defaults": {"layers": 2, "dropout": 0.1}},
        {"defaults": {"dropout": 0.1, "new": 3}},
    ],
)
def test_a_default_that_is_said_or_not_and_a_new_setting_make_no_other_spec(path, same):
    append(path, record(1))
    assert len(opened_for(path, SPEC | same, CORPUS).records) == 1


def test_a_setting_that_a_ledger_does_not_know_had_its_default(path):
    usual = {"layers": 3, "dropout": 0.1, "new": 1}
    for same in ({"fixed": {"layers": 2, "new": 1}}, {"defaults": {"dropout": 0.1, "new": 1}}):
        opened_for(path, SPEC | same, CORPUS, usual)
    with pytest.raises(InputError, match="another spec: new is 1 there, 2 here"):
        opened_for(path, SPEC | {"fixed": {"layers": 2, "new": 2}}, CORPUS, usual)
    on_the_grid = {"hyperparameters": ["a", "new"]}
    with pytest.raises(InputError, match="another spec: hyperparameters"):
        opened_for(path, SPEC | on_the_grid, CORPUS, usual)


def test_a_file_that_cannot_be_written_is_told_in_one_line(path):
    path.unlink()
    path.mkdir()
    with pytest.raises(RunError, match=r"ledger.jsonl: cannot be written: Is a directory"):
        append(path, record(1))


def test_a_metric_that_is_not_finite_is_never_written(path):
    with pytest.raises(ValueError, match="ppl is nan"):
        append(path, record(1, metrics={"ppl": float("nan")}))
    assert read_ledger(path).records == ()


_WRITER = """
import sys
from pathlib import Path
from hpobench_nmt.runner.ledgers.ledger import Record, append
path, writer, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    config = {"writer": writer, "number": number}
    curve = [{"update": i} for i in range(99)]
    append(path, Record(config, 0, 1, "done", metrics={"x": number}, curve=curve))
"""


def test_several_writers_at_once_lose_nothing(path):
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(w), "40"]) for w in range(3)]
    assert [w.wait(60) for w in writers] == [0, 0, 0]
    found = {(r.config["writer"], r.config["number"]) for r in read_ledger(path).records}
    assert found == {(w, n) for w in range(3) for n in range(40)}


def test_writers_that_are_killed_leave_a_ledger_that_goes_on(path):
    for turn in range(4):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(turn), "100000"])
        deadline = time.monotonic() + 30
        size = path.stat().st_size
        while path.stat().st_size < size + 20_000 and time.monotonic() < deadline:
            time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    append(path, record(1))
    found = read_ledger(path).records
    numbers = {
        turn: sorted(r.config["number"] for r in found if r.config.get("writer") == turn) for turn in range(4)
    }
    assert all(numbers[turn] == list(range(len(numbers[turn]))) and numbers[turn] for turn in numbers)
    assert found[-1].config == {"a": 1}


_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.runner.ledgers.ledger import Record, append
path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    append(path, Record({"a": 2.0}, 0, 1, "done", metrics={"x": 1.0}, reason="z" * 5000))
except (RunError, OSError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the system has no limit on file sizes")
def test_a_write_that_stops_half_way_leaves_no_torn_line(path):
    append(path, record(1))
    before = path.read_bytes()
    limit = len(before) + 100
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(path), str(limit)], capture_output=True, text=True, timeout=60
    )
    assert "Error" in done.stdout
    assert path.read_bytes() == before


def test_room_is_kept_for_a_last_record(tmp_path, path):
    reserve(tmp_path)
    assert (tmp_path / "reserve").stat().st_size >= 2**20


_SMALL_DISK = """
import sys
from pathlib import Path
from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.runner.ledgers.ledger import Record, append, open_ledger, read_ledger, reserve
from hpobench_nmt.lookup.disk.folder import LEDGER
folder = Path(sys.argv[1])
reserve(folder)
open_ledger(folder / LEDGER, {}, {})
number = 0
try:
    while True:
        append(folder / LEDGER, Record({"a": number}, 0, 1, "done", reason="z" * 20000))
        number += 1
except RunError as error:
    print(error)
found = [r.config["a"] for r in read_ledger(folder / LEDGER).records]
assert number > 10 and found == list(range(number + 1)), (number, found)  # the one that met the full disk too
try:
    reserve(folder)
except RunError as error:
    print(error)
"""


def _in_a_small_disk(folder, program):
    mount = 'mount -t tmpfs -o size=2m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", str(folder), sys.executable, program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_full_disk_costs_no_record(tmp_path):
    try:
        probe = _in_a_small_disk(tmp_path, "pass")
    except FileNotFoundError:
        pytest.skip("needs the command unshare")
    if probe.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {probe.stderr.strip()}")
    done = _in_a_small_disk(tmp_path, _SMALL_DISK)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "Nothing is lost" in first
    assert "no space left" in second


def test_every_line_that_was_cut_short_is_kept_aside(path):
    for number, torn in enumerate([b'{"config":{"a"', b'{"config":{"b"']):
        with path.open("ab") as file:
            file.write(torn)
        append(path, record(number))
    assert path.with_name(LEDGER + ".torn").read_bytes() == b'{"config":{"a"\n{"config":{"b"\n'
    assert len(read_ledger(path).records) == 2
