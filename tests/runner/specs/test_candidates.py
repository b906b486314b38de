"""Candidates drawn from ranges, and tuning among them."""

import numpy as np
import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import hpobench_nmt as hb
from hpobench_nmt.cli.main import main
from hpobench_nmt.cli.tune import known_of_spec
from hpobench_nmt.core.candidates import draw
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.specs.spec_file import load_spec

AXES = (
    Hyperparameter("rate", (1e-4, 1e-2), "log", continuous=True),
    Hyperparameter("share", (0.2, 0.7), continuous=True),
    Hyperparameter("layers", (1, 3), integer=True, continuous=True),
    Hyperparameter("size", (4, 400), "log", integer=True, continuous=True),
    Hyperparameter("batch", (10, 20, 40)),
)

SPEC = """
name = "drawn"
family = "awd-lstm"
candidates = 50
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
learning_rate = {from = 1, to = 10, scale = "log"}
hidden_size = {from = 4, to = 8}
bptt = [5, 10]
[fixed]
layers = 1
embedding_size = 4
batch_size = 10
max_epochs = 1
cache_window = 0
dynamic_rule = "none"
"""


def test_each_axis_is_drawn_uniformly_on_its_scale():
    rate, share, layers, size, batch = draw(AXES, 4000, np.random.default_rng(1)).T
    off = 4 * np.sqrt(0.25 / 4000)  # four standard errors of a share of one half
    for column, middle in ((rate, 1e-3), (share, 0.45), (size, 37.5)):  # sqrt(3.5 * 400.5)
        assert abs((column < middle).mean() - 0.5) < off
    for column, values in ((layers, [1, 2, 3]), (batch, [10, 20, 40])):
        found, counts = np.unique(column, return_counts=True)
        assert found.tolist() == values
        assert (abs(counts / 4000 - 1 / 3) < off).all()
    assert rate.min() >= 1e-4 and rate.max() <= 1e-2 and rate.min() < 1.05e-4 and rate.max() > 0.95e-2
    assert (size == np.rint(size)).all() and size.min() == 4
    assert all(value == float(f"{value:.4g}") for value in [*rate, *share])
    assert abs(np.corrcoef(np.log(rate), share)[0, 1]) < 0.07  # axes are independent


def test_more_candidates_begin_with_the_same_and_none_is_there_twice():
    few, many = draw(AXES, 100, np.random.default_rng(3)), draw(AXES, 300, np.random.default_rng(3))
    assert many[: len(few)].tolist() == few.tolist()
    assert draw(AXES, 100, np.random.default_rng(4)).tolist() != few.tolist()
    small = draw(AXES[2:3], 100, np.random.default_rng(0))
    assert sorted(small.ravel()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("from = 1, to = 10", "from = 10, to = 1", "learning_rate: from must be smaller than to"),
        ("from = 1, to = 10", "from = 0, to = 1", r'value 0, .*write scale = "linear" in the range\.$'),
        ("from = 1,", "frm = 1,", "frm"),
        ("from = 4, to = 8", "from = 4, to = 1e9", "hidden_size is"),
        ("from = 4, to = 8", "from = 4.5, to = 8", "hidden_size must be a whole number"),
        ("candidates = 50", "candidates = 100001", "at most 100,000"),
        (
            "[fixed]",
            "[replicates]\nconfigurations = 1\ntrainings = 1\n[fixed]",
            "replicates. are only for a grid",
        ),
    ],
)
def test_a_wrong_range_is_told_in_one_line(tmp_path, old, new, message):
    assert old in SPEC
    (tmp_path / "spec.toml").write_text(SPEC.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        load_spec(tmp_path / "spec.toml")
    assert "\n" not in str(caught.value)


def test_ranges_of_whole_numbers_are_taken_whole_unless_the_spec_says_how_many(tmp_path):
    text = SPEC.replace('{from = 1, to = 10, scale = "log"}', "[1, 10]")
    for candidates, size in (("", 20), ("candidates = 20", 20), ("candidates = 19", None)):
        (tmp_path / "spec.toml").write_text(text.replace("candidates = 50", candidates))
        spec = load_spec(tmp_path / "spec.toml")
        assert len(np.unique(spec.configs, axis=0)) == spec.size
        assert spec.size == size if size else spec.size < 20


def test_candidates_that_the_family_refuses_are_left_out(tmp_path):
    text = SPEC.replace("awd-lstm", "sockeye").partition("[corpus]")[0] + (
        '[corpus]\nname = "lohelp"\nsource = "de"\ntarget = "en"\n[grid]\nnum_embed = {from = 4, to = 64}\n'
        "num_heads = {from = 1, to = 8}\n[fixed]\nbpe_symbols = 100\nnum_layers = 1\nnum_hidden = 8\n"
        "learning_rate = 0.1\n"
    )
    (tmp_path / "spec.toml").write_text(text)
    spec = load_spec(tmp_path / "spec.toml")
    assert 0 < spec.size < 50
    assert (spec.configs[:, 0] % spec.configs[:, 1] == 0).all()
    assert [spec.row(spec.configuration(row)) for row in range(spec.size)] == list(range(spec.size))
    (tmp_path / "spec.toml").write_text(text.replace("from = 1, to = 8", "from = 65, to = 80"))
    with pytest.raises(InputError, match="no candidate can be trained: num_embed"):
        load_spec(tmp_path / "spec.toml")


def test_tuning_among_candidates_goes_on_and_makes_a_table(place, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    monkeypatch.chdir(place)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(place / "home"))
    (place / "drawn.toml").write_text(SPEC)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([*words])
        return ended.value.code or 0, capsys.readouterr()

    tune = ("tune", "drawn.toml", "--methods", "BO_EI_M_std", "--device", "cpu")
    code, _ = run(*tune, "--lookups", "2")
    assert code == 0
    code, said = run(*tune, "--lookups", "3")
    assert code == 0
    assert said.out.count("from the ledger") == 2
    spec, ledger = load_spec(place / "drawn.toml"), read_ledger(place / "drawn" / "ledger.jsonl")
    assert ledger.spec["ranges"]["learning_rate"] == [1, 10, "log"]
    assert all(spec.row(record.config) is not None for record in ledger.records)
    code, said = run("tables", "build", "drawn")
    assert code == 0
    assert f"3 of {spec.size} configurations" in said.out
    table = hb.load_table(place / "drawn")
    assert len(table) == 3 and table.claims["complete"] is False
    code, said = run("train", "drawn.toml")
    assert code == 2
    assert "has ranges, which only 'tune' can use" in said.err
    (place / "drawn.toml").write_text(SPEC.replace("to = 10", "to = 20"))
    code, said = run(*tune)
    assert code == 2
    assert "belongs to another spec: ranges is" in said.err


def test_what_is_known_is_centred_on_the_defaults_of_the_family(tmp_path, capsys):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC.replace("from = 1, to = 10", "from = 0.01, to = 1000"))
    spec = load_spec(path)
    prior = known_of_spec(spec)
    assert capsys.readouterr().out == "Expected: learning_rate around 30; BO_auto expects nothing.\n"
    rates = spec.configs[:, spec.space.names.index("learning_rate")]
    assert prior.argmax() == abs(np.log(rates / 30)).argmin()
