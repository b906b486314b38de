"""Specs: what is refused, and with which words; what a grid, a seed and a replicate are."""

import itertools
import tomllib

import msgspec
import numpy as np
import pytest

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.ledgers.ledger import Ledger, Record
from hpobench_nmt.runner.ledgers.plan import best_rows, pending, placed, planned_rows
from hpobench_nmt.runner.specs.spec import SAME_SEED, configuration_key, copy_for, select, short_key
from hpobench_nmt.runner.specs.spec_file import load_spec

SPEC = """
name = "tiny"
family = "awd-lstm"
seed = 3
objectives = ["dev_ppl"]

[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"

[grid]
layers = [2, 1]
hidden_size = [8, 16, 32]
learning_rate = [1, 10]

[fixed]
embedding_size = 8

[replicates]
configurations = 4
trainings = 2
"""


@pytest.fixture
def load(tmp_path):
    def load(*changes):
        text = SPEC
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "spec.toml"
        path.write_text(text)
        return load_spec(path)

    return load


def test_the_grid_is_the_product_of_its_values_in_ascending_order(load):
    spec = load()
    assert [a.name for a in spec.axes] == ["layers", "hidden_size", "learning_rate"]
    assert spec.configs.tolist() == [list(c) for c in itertools.product([1, 2], [8, 16, 32], [1, 10])]
    assert [a.scale for a in spec.axes] == ["linear", "linear", "log"]
    assert load(("[fixed]", '[scale]\nhidden_size = "log"\n[fixed]')).axes[1].scale == "log"


@pytest.mark.parametrize(
    "note",
    ['"""\nSee\n[1] Merity et al.\n"""', '"""\nbase = "elsewhere"\n"""', '"base"'],
)
@pytest.mark.parametrize("value", ['"train.txt"', '["absent.txt", "train.txt"]'])
def test_a_copy_finds_the_corpus_and_keeps_the_note(tmp_path, note, value):
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.txt").write_text("a")
    text = f'name = "t"\nfamily = "awd-lstm"\nnote = {note}\nbase = "data"\n' + (
        f'[corpus]\nname = "text"\ntrain = {value}\ndev = {value}\ntest = {value}\n[grid]\nlayers = [1, 2]\n'
    )
    (tmp_path / "t.toml").write_text(text)
    spec = load_spec(tmp_path / "t.toml")
    copy = tomllib.loads(copy_for(spec, tmp_path / "out" / "deep"))
    assert copy == tomllib.loads(text) | {"base": "../../data"}


def test_a_spec_may_begin_with_the_mark_that_some_editors_write(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8-sig")
    (tmp_path / "train.txt").touch()
    spec = load_spec(tmp_path / "spec.toml")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "spec.toml").write_text(copy_for(spec, tmp_path / "out"), encoding="utf-8")
    assert load_spec(tmp_path / "out" / "spec.toml").identity == spec.identity


def test_all_settings_that_a_spec_lacks_are_named(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(
        'name = "t"\nfamily = "sockeye"\n[corpus]\nname = "lohelp"\n[grid]\nnum_layers = [1, 2]\n'
        "[fixed]\nbpe_symbols = 1000\n"
    )
    with pytest.raises(InputError, match=r"needs num_embed, num_hidden, .*, each in \[grid\]"):
        load_spec(path)


def test_settings_have_the_familys_types_and_defaults(load):
    spec = load()
    settings = spec.settings(spec.configuration(5))
    assert (settings.layers, settings.hidden_size, settings.learning_rate) == (1, 32, 10.0)
    assert isinstance(settings.layers, int)
    assert isinstance(settings.learning_rate, float)
    assert settings.embedding_size == 8
    assert settings.bptt == 70


def test_every_training_has_a_seed_of_its_own_that_never_changes(load):
    spec = load()
    seeds = {(row, r): spec.training_seed(spec.configuration(row), r) for row in range(12) for r in range(3)}
    assert len(set(seeds.values())) == 36
    # Later values on the grid, or another order, change no seed.
    grown = load(("layers = [2, 1]", "layers = [1, 3, 2]"))
    for row in range(12):
        assert grown.training_seed(spec.configuration(row), 1) == seeds[row, 1]
    assert load(("seed = 3", "seed = 4")).training_seed(spec.configuration(0), 0) != seeds[0, 0]


def test_replicates_are_drawn_before_any_result_is_known(load):
    rows = load().replicate_rows
    assert len(set(rows)) == 4
    assert rows == load().replicate_rows
    assert set(rows) <= set(range(12))
    assert len(load(("configurations = 4", "configurations = 40")).replicate_rows) == 12


def test_keys_do_not_depend_on_order_or_type():
    assert configuration_key({"a": 1, "b": 0.5}) == configuration_key({"b": 0.5, "a": 1.0})
    keys = {short_key({"a": a}, r) for a in (1, 2, 1.0) for r in (0, 1)}
    assert len(keys) == 4


def test_only_selects_rows(load):
    spec = load()
    rows = select(spec, ["layers=2", "hidden_size=16"])
    assert spec.configs[rows].tolist() == [[2, 16, 1], [2, 16, 10]]
    assert select(spec, []).tolist() == list(range(12))
    for condition, message in [
        ("layer=2", "Did you mean 'layers'"),
        ("layers=3", "layers has the values 1, 2"),
        ("layers=two", "layers has the values 1, 2"),
        ("layers", "layers has the values 1, 2"),
    ]:
        with pytest.raises(InputError, match=message):
            select(spec, [condition])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[grid]", "[gird]", r"unknown key 'gird'. Did you mean 'grid'"),
        ("seed = 3", "sede = 3", r"Did you mean 'seed'"),
        ("seed = 3", "seed = -3", "seed must be a whole number of 0 or more"),
        ("seed = 3", 'seed = "x"', "seed must be a whole number"),
        ('family = "awd-lstm"', 'family = "adw-lstm"', "Did you mean 'awd-lstm'"),
        ('family = "awd-lstm"', "", "family is missing"),
        ("name = 'tiny'".replace("'", '"'), 'name = "ti/ny"', "table name 'ti/ny' cannot be used"),
        ("layers = [2, 1]", "layer = [2, 1]", r"unknown setting 'layer'. Did you mean 'layers'"),
        ("layers = [2, 1]", "layers = [0, 1]", "layers is 0, but goes from 1 to"),
        ("layers = [2, 1]", "layers = [1.5]", "layers must be a whole number, not 1.5"),
        ("layers = [2, 1]", "layers = [true]", r"\[grid\]: layers must be a whole number, not True"),
        ("layers = [2, 1]", "layers = [1, 1]", "layers has a value twice"),
        (
            "layers = [2, 1]",
            "weight_decay = [0, 1e-6]",
            r'weight_decay has the value 0, .*or write weight_decay = "linear" in \[scale\]\.$',
        ),
        ('["dev_ppl"]', '["dev_ppl", "dev_ppl"]', "objective 'dev_ppl' occurs twice"),
        ("layers = [2, 1]", "layers = 1", "grid.layers must be a list of .*numbers"),
        ("layers = [2, 1]", "layers = []", "layers has no values"),
        ("layers = [2, 1]", 'layers = ["a"]', r"\[grid\]: layers must be a whole number, not 'a'"),
        (
            "layers = [2, 1]",
            "weight_drop = [nan]",
            r"weight_drop\[0\] must be true or false, a finite number .*, not nan",
        ),
        (
            "embedding_size = 8",
            "embedding_size = 8\nlayers = 1",
            r"layers is both in \[grid\] and in \[fixed\]",
        ),
        ("embedding_size = 8", 'dynamic_rule = "sdg"', "Did you mean 'sgd'"),
        ("embedding_size = 8", "embeding_size = 8", "Did you mean 'embedding_size'"),
        ('objectives = ["dev_ppl"]', 'objectives = ["dev_pll"]', "Did you mean 'dev_ppl'"),
        ('objectives = ["dev_ppl"]', 'objectives = "dev_ppl"', "objectives must be a list of strings"),
        ('objectives = ["dev_ppl"]', 'metrics = ["ppl"]', "unknown metric 'ppl'"),
        ('name = "text"', 'name = "txet"', "Did you mean 'text'"),
        ('dev = "dev.txt"', 'dve = "dev.txt"', "Did you mean 'dev'"),
        ("configurations = 4", "configurations = 0", "does not ask for trainings"),
        ("configurations = 4", "", "does not ask for trainings"),
        (
            "[fixed]",
            '[scale]\nlayers = "cubic"\n[fixed]',
            "scale.layers must be 'linear' or 'log', not 'cubic'",
        ),
        ("[fixed]", '[scale]\nbptt = "log"\n[fixed]', "unknown hyperparameter 'bptt'"),
        (
            "layers = [2, 1]",
            f"bptt = {list(range(1, 20000))}\nbatch_size = {list(range(1, 200))}",
            "at most 10,000,000",
        ),
        ("[grid]", "[grid", "not valid TOML"),
        # Numbers that no float can hold, wherever they stand.
        ("layers = [2, 1]", f"layers = [1{'0' * 400}]", "layers"),
        ("layers = [2, 1]", "weight_drop = [1e999]", "weight_drop"),
        ("embedding_size = 8", f"embedding_size = 1{'0' * 400}", "embedding_size must be a whole number"),
        ("embedding_size = 8", f"embedding_size = 1{'0' * 5000}", "not valid TOML"),
        ("seed = 3", f"seed = 1{'0' * 400}", "seed must be a whole number"),
        ("trainings = 2", f"trainings = 1{'0' * 400}", "trainings must be a whole number"),
        ("embedding_size = 8", "embedding_size = 2020-01-01", "embedding_size must be a whole number"),
        ('[corpus]\nname = "text"', "[corpus]\nname = 3", "must name the corpus"),
        ("trainings = 2", f"trainings = {10**15}", "more than 100,000 trainings"),
        # Names that paths are made of.
        ('name = "tiny"', 'name = "../../x"', "cannot be used"),
        ('name = "tiny"', 'name = "/tmp/x"', "cannot be used"),
        ('name = "tiny"', 'name = "tiny"\nbase = "a\\u0000b"', "is not a path"),
        ('family = "awd-lstm"', 'family = "../../x"', "unknown model family"),
    ],
)
def test_a_wrong_spec_is_told_in_one_line(load, tmp_path, old, new, message):
    with pytest.raises(InputError, match=message) as caught:
        load((old, new))
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "spec.toml") in str(caught.value)


def test_replicates_of_dynamic_evaluation_are_no_rows_of_the_grid(load):
    other = ("layers = [2, 1]\nhidden_size = [8, 16, 32]\nlearning_rate = [1, 10]", "model_seed = [1, 2]")
    with pytest.raises(InputError, match=r"model_seed .*cannot be on the grid: put it in \[fixed\]"):
        load(('family = "awd-lstm"', 'family = "dynamic-evaluation"'), other)


@pytest.mark.parametrize(
    ("family", "unit", "usual"),
    [("gpt", "word", "dev_ppl"), ("gpt", "character", "dev_bpc"), ("mlstm", "word", "dev_ppl")],
)
def test_the_usual_objective_is_the_first_metric_that_is_measured(tmp_path, family, unit, usual):
    parts = "".join(f'{part} = "{part}.txt"\n' for part in ("train", "dev", "test"))
    (tmp_path / "s.toml").write_text(
        f'name = "s"\nfamily = "{family}"\n[corpus]\nname = "text"\nunit = "{unit}"\n{parts}'
        "[grid]\nlearning_rate = [0.001, 0.002]\n"
    )
    assert load_spec(tmp_path / "s.toml").objectives == (usual,)


def test_a_family_wants_its_own_kind_of_corpus(load):
    with pytest.raises(InputError, match=r"trains on a text corpus, and .* is a parallel corpus"):
        load(
            (
                'name = "text"\ntrain = "train.txt"\ndev = "dev.txt"\ntest = "test.txt"',
                'name = "lohelp"\nsource = "de"\ntarget = "en"',
            )
        )


def test_a_spec_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_spec(tmp_path / "none.toml")


def test_configs_are_numbers(load):
    assert load().configs.dtype == np.float64


def test_the_best_rows_are_trained_again_once_all_have_ended(load):
    spec = load(("configurations = 4", "configurations = 4\nbest = 3\nsame_seed = 2"))
    done = [
        Record(spec.configuration(row), 0, 0, "done", metrics={spec.objectives[0]: float(-row % 5)})
        for row in range(12)
    ]
    done[10] = msgspec.structs.replace(done[10], metrics={})
    turns = [turn + 1 for turn in range(spec.replicates.trainings)] + [SAME_SEED + 1, SAME_SEED + 2]
    chosen = [(row, turn) for row in spec.replicate_rows for turn in turns]
    assert pending(spec, Ledger({}, {}, tuple(done[1:])), range(12)) == [(0, 0), *chosen]
    # Losses are 0 for the rows 0, 5 and 10, of which the last has none; then 1 for 4 and 9.
    best = [(row, turn) for row in (0, 5, 4) if row not in spec.replicate_rows for turn in turns]
    assert pending(spec, Ledger({}, {}, tuple(done)), range(12)) == [*chosen, *best]
    assert best_rows(spec, placed(spec, Ledger({}, {}, tuple(done))), 3) == [0, 5, 4]


POINTS = """
name = "points"
family = "gpt"
objectives = ["dev_ppl"]
points = 40
neighbours = 2
[corpus]
name = "sotu"
[grid]
depth = [1, 2, 3, 4]
width = [WIDTHS]
learning_rate = [1e-3, 2e-3, 4e-3, 8e-3, 16e-3]
[replicates]
configurations = 5
trainings = 2
"""


def of_points(tmp_path, widths="16, 32, 64, 96", points=40):
    path = tmp_path / "points.toml"
    path.write_text(POINTS.replace("WIDTHS", widths).replace("points = 40", f"points = {points}"))
    return load_spec(path)


def test_points_are_spread_evenly_and_the_same_for_grids_of_one_shape(tmp_path):
    spec = of_points(tmp_path)
    assert len(spec.sample) == len(set(spec.sample.tolist())) == 40
    # Of 40 points 10 are near each of four values, and 8 near each of five.
    for axis, expected in zip(spec.configs[spec.sample].T, (10, 10, 8), strict=True):
        assert np.abs(np.unique(axis, return_counts=True)[1] - expected).max() <= 2
    assert of_points(tmp_path, "24, 40, 56, 80").sample.tolist() == spec.sample.tolist()
    assert of_points(tmp_path, points=25).sample.tolist() == spec.sample[:25].tolist()
    assert of_points(tmp_path, points=200).sample.tolist() == list(range(80))
    assert set(spec.replicate_rows) <= set(spec.sample.tolist())
    assert len(spec.replicate_rows) == 5


def test_the_neighbours_of_the_best_points_follow_them(tmp_path):
    spec = of_points(tmp_path)
    assert spec.row({"depth": 2, "width": 16, "learning_rate": 1e-3}) == 20
    assert sorted(spec.neighbours_of(20)) == [0, 21, 25, 40]

    def record(row, loss):
        return Record(spec.configuration(row), 0, 0, "done", metrics={"dev_ppl": loss})

    def rows(records):
        ledger = Ledger({}, {}, tuple(records))
        return [row for row, turn in pending(spec, ledger, range(spec.size)) if not turn]

    sample = spec.sample.tolist()
    assert sorted(rows([])) == sorted(sample)
    best = sample[7], sample[20]
    done = [record(row, 5.0 if row in best else 9.0) for row in sample]
    assert rows(done[1:]) == [sample[0]]
    near = {row for one in best for row in spec.neighbours_of(one)} - set(sample)
    assert near and set(rows(done)) == near
    # A neighbour that is better still has no neighbours of its own trained.
    later = [*done, *(record(row, 1.0) for row in near)]
    assert rows(later) == []
    assert planned_rows(spec, placed(spec, Ledger({}, {}, tuple(later)))).tolist() == sample + sorted(near)


def test_only_points_are_trained_again_as_the_best_rows(tmp_path):
    """Neighbours are not rows of the table, which would drop their repetitions."""
    of_points(tmp_path)
    path = tmp_path / "points.toml"
    path.write_text(path.read_text().replace("configurations = 5", "best = 2"))
    spec = load_spec(path)
    sample = spec.sample.tolist()
    near = sorted(set(spec.neighbours_of(sample[7]) + spec.neighbours_of(sample[20])) - set(sample))
    losses = dict.fromkeys(sample, 9.0) | {sample[7]: 5.0, sample[20]: 6.0} | dict.fromkeys(near, 1.0)
    records = [
        Record(spec.configuration(row), 0, 0, "done", metrics={"dev_ppl": loss})
        for row, loss in losses.items()
    ]
    todo = pending(spec, Ledger({}, {}, tuple(records)), range(spec.size))
    assert todo == [(sample[7], 1), (sample[7], 2), (sample[20], 1), (sample[20], 2)]


def test_the_same_seed_is_the_rows_own(load):
    spec = load()
    for row in (0, 5):
        seeds = [spec.training_seed(spec.configuration(row), r) for r in (0, SAME_SEED + 1, SAME_SEED + 2, 1)]
        assert seeds[0] == seeds[1] == seeds[2] != seeds[3]


def test_what_is_left_is_what_a_search_through_all_trainings_leaves(load):
    spec = load()
    for row in range(spec.size):
        assert list(spec.configuration(row).values()) == spec.configs[row].tolist()
        assert spec.row(spec.configuration(row)) == row
    assert spec.row({**spec.configuration(0), "layers": 99}) is None
    assert spec.row({"layers": 1}) is None
    rng = np.random.default_rng(0)
    for rows in (range(12), [3, 4, 8], []):
        order = generator(spec.seed, "order").permutation(12).tolist()
        wanted = [(row, 0) for row in order]
        wanted += [
            (row, turn + 1) for row in spec.replicate_rows for turn in range(spec.replicates.trainings)
        ]
        ended = [wanted[i] for i in rng.choice(len(wanted), 6, replace=False)]
        ledger = Ledger({}, {}, tuple(Record(spec.configuration(r), n, 0, "failed") for r, n in ended))
        expected = [(row, n) for row, n in wanted if row in rows and (row, n) not in ended]
        assert pending(spec, ledger, rows) == expected


def test_labels_on_the_grid_are_chosen_by_their_text(load):
    spec = load(("layers = [2, 1]", 'dynamic_rule = ["sgd", "none"]'))
    assert select(spec, ["dynamic_rule=none", "learning_rate=1e1"]).tolist() == [7, 9, 11]
    with pytest.raises(InputError, match="dynamic_rule has the values sgd, none"):
        select(spec, ["dynamic_rule=rms"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ('dynamic_rule = ["sdg"]', "unknown dynamic_rule 'sdg'. Did you mean 'sgd'?"),
        ('dynamic_rule = ["sgd", "sgd"]', "dynamic_rule has a value twice"),
        ("dynamic_rule = [1]", "dynamic_rule must be a text, not 1"),
        ("dynamic_rule = []", "dynamic_rule has no values"),
        (
            "dynamic_rule = {from = 1, to = 2}",
            "dynamic_rule has labels: it needs a list of labels, without a scale",
        ),
        ("fine_tune = [1]", "fine_tune must be true or false, not 1"),
        ("layers = [true]", "layers must be a whole number, not True"),
    ],
)
def test_wrong_labels_on_a_grid(load, values, message):
    with pytest.raises(InputError, match=message):
        load(("layers = [2, 1]", values))
