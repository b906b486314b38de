"""Typed settings: what is read of a class, and what a value must be."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.settings import About, Setting, Settings, setting, settings_of

Texts = Literal["a", "b"]


@dataclass(frozen=True, kw_only=True)
class Base(Settings):
    rate: float = setting(0.5, "a rate", low=0.0, high=1.0, scale="log", unit="nats")
    count: int = setting(..., "a number", low=1, on_grid=False)


@dataclass(frozen=True, kw_only=True)
class Mine(Base):
    text: Texts | Literal["none"] = setting("a", "a text")
    name: str = setting("", "a name")
    flag: bool = setting(False, "a flag")
    rate: float = setting(2.0, "another rate")


def test_fields_of_all_bases_are_settings_in_the_classes_order():
    found = settings_of(Mine)
    assert list(found) == ["rate", "count", "text", "name", "flag"]
    assert found["rate"] == Setting("rate", float, (), 2.0, About("another rate"))
    assert found["count"].default is None and not found["count"].about.on_grid
    assert (found["text"].kind, found["text"].choices) == (str, ("a", "b", "none"))
    assert (found["name"].kind, found["name"].choices) == (str, ())
    assert settings_of(Base)["rate"].about.scale == "log"


def test_a_value_gets_the_type_of_its_field():
    found = settings_of(Base)
    assert isinstance(found["rate"].check(1, "here"), float)
    assert isinstance(found["count"].check(3.0, "here"), int)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rate", 1.5, "here: rate is 1.5, but goes from 0 to 1."),
        ("rate", "1", "here: rate must be a number, not '1'."),
        ("rate", float("nan"), "here: rate must be a number, not nan."),
        ("count", 0, "here: count is 0, but goes from 1 to inf."),
        ("count", 1.5, "here: count must be a whole number, not 1.5."),
        ("count", True, "here: count must be a whole number, not True."),
        ("flag", 1, "here: flag must be true or false, not 1."),
        ("text", 1, "here: text must be a text, not 1."),
        ("text", "nome", "unknown text 'nome'. Did you mean 'none'? (here)"),
    ],
)
def test_a_wrong_value_is_one_line(name, value, message):
    kind = Base if name in ("rate", "count") else Mine
    with pytest.raises(InputError) as error:
        settings_of(kind)[name].check(value, "here")
    assert str(error.value) == message


# An installed package leaves ledgers out.
SHIPPED = sorted((Path(__file__).parents[2] / "tables").glob("*/ledger.jsonl"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_ledgers_of_the_shipped_tables_are_those_of_their_specs(path):
    pytest.importorskip("filelock", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    from hpobench_nmt.runner.ledgers.ledger import read_ledger
    from hpobench_nmt.runner.ledgers.plan import refuse_other_spec, refuse_rows_off_the_grid
    from hpobench_nmt.runner.specs.spec_file import load_spec

    spec, ledger = load_spec(path.with_name("spec.toml")), read_ledger(path)
    refuse_other_spec(path, ledger, spec.identity, spec.family.defaults)
    refuse_rows_off_the_grid(path, ledger, spec)
    seeds = {record.seed: spec.training_seed(record.config, record.replicate) for record in ledger.records}
    assert all(seed == found for seed, found in seeds.items())
    assert len(SHIPPED) == 12
