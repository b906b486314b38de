"""Shards of one spec, trained by processes that know nothing of each other, and merged into one ledger."""

import subprocess

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import hpobench_nmt as hb
from hpobench_nmt.cli.main import main
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.file_names import LEDGER
from hpobench_nmt.runner.devices import mixed_devices
from hpobench_nmt.runner.ledgers.ledger import Ledger, Record, append, open_ledger, read_ledger, split
from hpobench_nmt.runner.ledgers.merge import merge
from hpobench_nmt.runner.ledgers.plan import pending
from hpobench_nmt.runner.specs.spec_file import load_spec

SPEC = """
name = "tiny"
family = "awd-lstm"
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
hidden_size = [4, 8]
learning_rate = [1, 5]
[fixed]
layers = 1
embedding_size = 8
batch_size = 4
bptt = 10
max_epochs = 1
cache_window = 0
dynamic_rule = "none"
[replicates]
configurations = 1
trainings = 2
"""
CORPUS = {"sha256": "ab" * 32}
CPU, GPU = "cpu, one thread: A", "cuda:0: B"


@pytest.fixture
def shard(tmp_path):
    """Makes a ledger of some rows in a folder, each with its number as dev_ppl."""

    def make(name, rows, text=SPEC, corpus=CORPUS, device=CPU, value=0.0):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "spec.toml").write_text(text)
        spec = load_spec(folder / "spec.toml")
        open_ledger(folder / LEDGER, spec.identity, corpus)
        for row in rows:
            metrics = {"dev_ppl": 10.0 + row + value}
            done = Record(spec.configuration(row), 0, row, "done", metrics=metrics, device=device, seconds=1)
            append(folder / LEDGER, done)
        return folder

    return make


def bodies(folder):
    return [split(line)[0] for line in (folder / LEDGER).read_bytes().splitlines()]


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 9])
def test_each_training_is_in_one_shard_whatever_has_been_trained(shard, parts):
    spec = load_spec(shard("a", []) / "spec.toml")
    nothing = Ledger({}, {}, ())
    everything = pending(spec, nothing, range(4))
    shards = [pending(spec, nothing, range(4), (i + 1, parts)) for i in range(parts)]
    assert shards == [everything[i::parts] for i in range(parts)]
    done = Ledger({}, {}, tuple(Record(spec.configuration(r), n, 0, "failed") for r, n in everything[:3]))
    for i in range(parts):
        left = [t for t in shards[i] if t not in everything[:3] and t[0] != 1]
        assert pending(spec, done, [0, 2, 3], (i + 1, parts)) == left


def test_the_lines_of_all_are_there_once_and_as_they_were(shard, tmp_path):
    a, b = shard("a", [0, 1]), shard("b", [2])
    merged = merge([a, b / LEDGER], tmp_path / "c")
    assert (merged.conflicts, merged.records, merged.new) == ((), 3, 3)
    lines, of_a, of_b = (bodies(folder)[1:] for folder in (tmp_path / "c", a, b))
    assert lines == of_a + of_b
    assert read_ledger(tmp_path / "c" / LEDGER).merged == tuple(read_ledger(f / LEDGER).head for f in (a, b))
    before = (tmp_path / "c" / LEDGER).read_bytes()
    assert merge([b, a], tmp_path / "c").new == 0
    assert (tmp_path / "c" / LEDGER).read_bytes() == before
    shard("b", [3])
    assert merge([a, b], tmp_path / "c").new == 1
    assert bodies(tmp_path / "c")[1:4] == lines
    assert len(read_ledger(tmp_path / "c" / LEDGER).merged) == 4  # both, c as it was, and b as it is now
    spec = load_spec(tmp_path / "c" / "spec.toml")
    assert [spec.row(r.config) for r in read_ledger(tmp_path / "c" / LEDGER).records] == [0, 1, 2, 3]


def test_every_conflict_is_named_and_nothing_written(shard, tmp_path, run_here):
    first = shard("first", [0, 1])
    others = [
        shard("twice", [0, 1], value=0.5),
        shard("corpus", [2], corpus={"sha256": "cd" * 32}),
        shard("spec", [2], text=SPEC.replace("max_epochs = 1", "max_epochs = 2")),
        shard("grid", [3], text=SPEC.replace("[1, 5]", "[1, 7]")),
        shard("gpu", [2], device=GPU),
    ]
    merged = merge([first, *others], tmp_path / "c")
    assert not (tmp_path / "c" / LEDGER).exists()
    found = "\n".join(merged.conflicts)
    for message in (
        r"corpus/ledger.jsonl: has another corpus (SHA-256 cdcdcdcdcdcd…)",
        "spec/ledger.jsonl: belongs to another spec: max_epochs is 2 there, 1 here",
        "grid/ledger.jsonl: has a record with learning_rate = 7",
        f"different devices, so their times cannot be compared: {CPU} in",
        "cuda: B in",
        f"twice/ledger.jsonl, line 2, and {first / LEDGER}, line 2: two lines for hidden_size=4",
        "dev_ppl 10 there, 10.5 here",
        "dev_ppl 11 there, 11.5 here",
    ):
        assert message in found
    # Row 2 is in three ledgers besides: the corpus's, the other spec's and the GPU's, with the same value.
    assert found.count("two lines for") == 2 + 1
    assert "their metrics are the same, but the time or way" in found
    assert all("\n" not in conflict for conflict in merged.conflicts)
    mix = "ledger", "merge", first, shard("gpu2", [2], device=GPU), "--out", tmp_path / "d"
    assert "To mix them anyway, use --accept devices." in run_here(*mix, check=2).stderr
    assert "3 trainings, 3 of them new" in run_here(*mix, "--accept", "devices").stdout


def test_the_first_of_two_lines_counts_where_that_is_asked_for(shard, tmp_path, run_here):
    first, second = shard("a", [0, 1]), shard("b", [1, 2], value=0.5)
    done = run_here("ledger", "merge", first, second, "--out", tmp_path / "c", check=2)
    assert "To keep the first, use --accept first." in done.stderr
    done = run_here("ledger", "merge", first, second, "--accept", "first", "--out", tmp_path / "c")
    assert "1 training had two different lines: the first one counts." in done.stderr
    values = [r.metrics["dev_ppl"] for r in read_ledger(tmp_path / "c" / LEDGER).records]
    assert values == [10.0, 11.0, 12.5]


def test_a_last_line_that_was_cut_short_is_reported(shard, tmp_path):
    first, second = shard("a", [0]), shard("b", [1])
    (second / LEDGER).write_bytes((second / LEDGER).read_bytes()[:-40])
    merged = merge([first, second], tmp_path / "c")
    assert merged.records == 1
    (note,) = merged.notes
    assert str(second / LEDGER) in note
    assert "its last line was cut short after" in note


def test_lines_that_were_edited_on_purpose_begin_a_new_chain(shard, tmp_path):
    folder = shard("a", [0, 1, 2])
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    (folder / LEDGER).write_bytes(b"".join([*lines[:2], *lines[3:]]))
    with pytest.raises(InputError, match=r"line 3: its hash does not follow .* --accept edited"):
        merge([folder], tmp_path / "c")
    assert merge([folder], tmp_path / "c", edited=True).records == 2
    assert len(read_ledger(tmp_path / "c" / LEDGER).records) == 2
    assert merge([folder], folder, edited=True).records == 2
    assert len(read_ledger(folder / LEDGER).records) == 2


def test_a_ledger_of_an_earlier_version_is_merged_and_reported(shard, tmp_path):
    folder = shard("a", [0, 1])
    head, *lines = bodies(folder)
    old = [head.replace(b'"ledger":2', b'"ledger":1'), *lines]
    (folder / LEDGER).write_bytes(b"".join(line + b"}\n" for line in old))
    merged = merge([folder], tmp_path / "c")
    assert "no hashes, because an earlier version wrote its 3 lines" in merged.notes[0]
    assert bodies(tmp_path / "c")[1:] == lines
    assert read_ledger(tmp_path / "c" / LEDGER).uncovered == 0


def test_two_gpus_of_one_model_are_one_device(shard, tmp_path):
    ledgers = [shard(f"gpu{n}", [n], device=f"cuda:{n}: B") for n in range(2)]
    ledgers.append(shard("both", [2], device="cuda:0: B, then cuda:1: B"))
    assert merge(ledgers, tmp_path / "c").records == 3
    names = ["cuda:0: B", "cuda:0: B, then cuda:1: B", "cuda:1: B, then cuda:0: C, then cuda:0: B"]
    assert mixed_devices(names[:2]) == ""
    assert "cuda: B (2 rows), cuda: B, then cuda: C (1 row)" in mixed_devices(names)


def test_a_failed_training_is_on_no_device(shard, tmp_path):
    """Its process may have died before it knew the name of its GPU, and it has no times."""
    first, second = shard("a", [0], device=GPU), shard("b", [1], device=GPU)
    died = Record(load_spec(second / "spec.toml").configuration(2), 0, 2, "failed", "killed", device="cuda:0")
    append(second / LEDGER, died)
    assert merge([first, second], tmp_path / "c").conflicts == ()


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3"])
def test_a_wrong_shard_is_refused(text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "none.toml", "--shard", text])
    assert ended.value.code == 2
    assert f"--shard {text!r}: must be I/N" in capsys.readouterr().err


def test_shards_trained_one_by_one_make_the_table_of_a_single_run(place, run_here, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(place / "home"))
    (place / "few.toml").write_text(SPEC.replace("tiny", "few").replace("[1, 5]", "[5]"))
    train = ("train", "few.toml", "--device", "cpu", "--jobs", "1", "--quiet")
    for n in (1, 2):
        run_here(*train, "--shard", f"{n}/2")
    run_here(*train, "--out", "alone")
    run_here("ledger", "merge", "few/shard-1-of-2", "few/shard-2-of-2", "--out", "few")
    for folder in ("few", "alone"):
        run_here("tables", "build", folder)
    one, other = (hb.load_table(place / folder) for folder in ("few", "alone"))
    assert one.claims["complete"] is True
    assert one.configs.tolist() == other.configs.tolist()
    assert one.column("dev_ppl").tolist() == other.column("dev_ppl").tolist()


@pytest.mark.hosts
def test_shards_trained_at_once_make_the_table_of_a_single_run(place, start):
    (place / "tiny.toml").write_text(SPEC)
    quick = ("--device", "cpu", "--jobs", "1", "--quiet")
    runs = [start(place, "train", "tiny.toml", *quick, "--shard", f"{n}/3") for n in (1, 2, 3)]
    runs.append(start(place, "train", "tiny.toml", *quick, "--out", "single"))
    assert [process.wait(timeout=240) for process in runs] == [0] * 4
    shards = [f"tiny/shard-{n}-of-3" for n in (1, 2, 3)]
    together = start(place, "ledger", "merge", *shards, "--out", "tiny", stdout=subprocess.PIPE)
    assert "tiny: 6 trainings, 6 of them new." in together.communicate(timeout=60)[0]
    for folder in ("tiny", "single"):
        assert start(place, "tables", "build", folder).wait(timeout=60) == 0
    one, other = (hb.load_table(place / folder) for folder in ("tiny", "single"))
    assert one.claims["complete"] is True
    assert one.configs.tolist() == other.configs.tolist()
    assert one.column("dev_ppl").tolist() == other.column("dev_ppl").tolist()


def test_what_is_no_ledger_is_told(shard, tmp_path):
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(InputError, match="x, line 1"):
        merge([shard("a", [0]), tmp_path / "x"], tmp_path / "c")
    with pytest.raises(InputError, match="missing"):
        merge([tmp_path / "missing"], tmp_path / "c")
    assert not (tmp_path / "c").exists()
