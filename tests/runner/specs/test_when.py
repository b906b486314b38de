"""Conditions of a spec: where a setting has no effect, configurations leave it out."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import LEDGER, SPEC, load_folder
from hpobench_nmt.runner.ledgers.build_table import build
from hpobench_nmt.runner.ledgers.ledger import Ledger, Record, append, open_ledger
from hpobench_nmt.runner.ledgers.plan import pending
from hpobench_nmt.runner.specs.spec import configuration_key, select
from hpobench_nmt.runner.specs.spec_file import load_spec

HEAD = 'name = "t"\nfamily = "awd-lstm"\nobjectives = ["dev_ppl"]\nseed = 5\n'
CORPUS = '[corpus]\nname = "text"\ntrain = "a"\ndev = "a"\ntest = "a"\n'
VALUES = {
    "cell": ["lstm", "qrnn"],
    "layers": [1, 2, 3],
    "hidden_size": [8, 16],
    "learning_rate": [0.5, 1, 10],
    "fine_tune": [False, True],
}
GRID = """[grid]
cell = ["lstm", "qrnn"]
layers = [1, 2, 3]
hidden_size = [8, 16]
zoneout = [0.1, 0.2, 0.3]
[when]
hidden_size = {layers = [2, 3]}
zoneout = {cell = ["qrnn"], hidden_size = [8, 16]}
"""


def toml(section):
    """Lists of values by name as TOML."""
    return [f"{name} = {json.dumps(values)}" for name, values in section.items()]


def load(folder, grid, keys=""):
    path = folder / SPEC
    path.write_text(HEAD + keys + CORPUS + grid)
    return load_spec(path)


@st.composite
def conditions(draw):
    """For some settings, the values of one or two settings earlier in a random order: never circular."""
    order = draw(st.permutations(list(VALUES)))
    found = {}
    for i, name in enumerate(order):
        parents = draw(st.lists(st.sampled_from(order[:i]), max_size=2, unique=True)) if i else []
        if parents:
            some = {p: st.lists(st.sampled_from(VALUES[p]), min_size=1, unique=True) for p in parents}
            found[name] = {p: draw(values) for p, values in some.items()}
    return found


def naively_active(configuration, when):
    """The configuration without inactive values: drop values until none has a condition that fails."""
    while lost := [
        name
        for name in configuration
        if any(
            parent not in configuration or configuration[parent] not in values
            for parent, values in when.get(name, {}).items()
        )
    ]:
        configuration = {name: v for name, v in configuration.items() if name not in lost}
    return configuration


@settings(max_examples=60, deadline=None)
@given(when=conditions(), points=st.integers(0, 40))
def test_no_two_rows_are_one_training(tmp_path_factory, when, points):
    lines = ["[grid]", *toml(VALUES), "[when]"]
    lines += [f"{name} = {{{', '.join(toml(condition))}}}" for name, condition in when.items()]
    spec = load(tmp_path_factory.mktemp("when"), "\n".join(lines), f"points = {points}\n")
    every = (dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values()))
    wanted = {configuration_key(naively_active(c, when)) for c in every}

    found = [spec.configuration(row) for row in range(spec.size)]
    assert {configuration_key(c) for c in found} == wanted
    assert len(found) == len(wanted)
    assert [spec.row(c) for c in found] == list(range(spec.size))
    assert np.array_equal(spec.space.encode_all(found), spec.configs, equal_nan=True)
    assert len(set(spec.sample.tolist())) == (min(points, spec.size) or spec.size)
    assert set(spec.sample.tolist()) <= set(range(spec.size))
    seeds = [spec.training_seed(c, 0) for c in found]
    assert len(set(seeds)) == len(seeds)
    for row, configuration in enumerate(found):
        near = spec.neighbours_of(row)
        assert row not in near
        assert len(set(near)) == len(near)
        # No configuration has a value of an inactive hyperparameter, or lacks one of an active one.
        for name in VALUES.keys() - configuration.keys():
            assert spec.row(configuration | {name: VALUES[name][0]}) is None
        for name in configuration:
            assert spec.row({n: v for n, v in configuration.items() if n != name}) is None


def test_a_condition_makes_a_grid_that_can_be_trained(tmp_path):
    with pytest.raises(InputError, match="zoneout is only for the QRNN"):
        load(tmp_path, GRID.partition("[when]")[0])
    spec = load(tmp_path, GRID)
    assert spec.size == 1 + 1 + 2 * 2 + 2 * 2 * 3  # lstm or qrnn of one layer, lstm, qrnn
    assert spec.settings({"cell": "lstm", "layers": 1, "hidden_size": 8, "zoneout": 0.3}).zoneout == 0
    assert len(pending(spec, Ledger({}, {}, ()), range(spec.size))) == spec.size


def test_only_finds_a_value_where_it_is_active(tmp_path):
    spec = load(tmp_path, GRID)
    rows = select(spec, ["zoneout=0.1", "layers=2"])
    assert [spec.configuration(row) for row in rows] == [
        {"cell": "qrnn", "layers": 2, "hidden_size": size, "zoneout": 0.1} for size in (8, 16)
    ]
    assert select(spec, []).tolist() == list(range(spec.size))


def test_the_ledger_and_the_table_have_only_active_values(tmp_path):
    spec = load(tmp_path, GRID)
    open_ledger(tmp_path / LEDGER, spec.identity, {"licence": "MIT"})
    for row in range(spec.size):
        for again in (0, 1):
            config = spec.configuration(row)
            outcome = {"status": "done", "metrics": {"dev_ppl": 50.0 + row}}
            if config.get("zoneout") == 0.2 or config["layers"] == 3:
                outcome = {"status": "failed"}
            append(tmp_path / LEDGER, Record(config, again, row, started="2026", **outcome))
    built, folder = build(tmp_path)
    table = load_folder(folder)
    assert np.array_equal(table.configs, built.configs, equal_nan=True)
    conditions = {h.name: h.active_if for h in table.hyperparameters}
    assert conditions == {
        "cell": (),
        "layers": (),
        "hidden_size": (("layers", (2,)),),  # all trainings of three layers failed
        "zoneout": (("cell", ("qrnn",)), ("hidden_size", (8, 16))),
    }
    assert len(table) == 1 + 1 + 2 + 2 * 2
    assert table.provenance["trained"] == f"{len(table)} of {spec.size} configurations"
    again = table.replicates.to_frame()
    assert len(again) == len(table)
    assert again["zoneout"].isna().sum() == 4


def test_a_hyperparameter_that_only_failed_trainings_had_is_left_out(tmp_path):
    spec = load(tmp_path, GRID)
    open_ledger(tmp_path / LEDGER, spec.identity, {"licence": "MIT"})
    for row in range(spec.size):
        config = spec.configuration(row)
        done = {"status": "done", "metrics": {"dev_ppl": 50.0}}
        append(
            tmp_path / LEDGER,
            Record(config, 0, row, started="2026", **({"status": "failed"} if "zoneout" in config else done)),
        )
    assert [h.name for h in build(tmp_path)[0].hyperparameters] == ["cell", "layers", "hidden_size"]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("zoneoot = {cell = ['qrnn']}", r"Did you mean 'zoneout'.*\[when\]"),
        ("zoneout = {sell = ['qrnn']}", "Did you mean 'cell'"),
        ("zoneout = {cell = ['qrn']}", "Did you mean 'qrnn'"),
        ("zoneout = {cell = []}", "cell needs at least one value"),
        ("zoneout = {layers = [4]}", r"layers is 4, which is not one of"),
        ("zoneout = {cell = ['qrnn']}\ncell = {zoneout = [0.1]}", "depends on itself"),
        ("zoneout = ['qrnn']", "when.zoneout must be a section"),
    ],
)
def test_a_wrong_condition_is_told_in_one_line(tmp_path, when, message):
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, GRID.partition("[when]")[0] + "[when]\n" + when)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / SPEC) in str(caught.value)


def test_conditions_are_not_for_ranges(tmp_path):
    ranges = GRID.replace("[0.1, 0.2, 0.3]", "{from = 0.1, to = 0.3}")
    with pytest.raises(InputError, match=r"\[when\] are only for a grid of lists"):
        load(tmp_path, ranges, "candidates = 4\n")
