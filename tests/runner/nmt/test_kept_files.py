"""Folders of kept Sockeye models that are not whole. A real one is trained in families/test_sockeye.py."""

import json

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
pytest.importorskip("sentencepiece")
pytest.importorskip("yaml")

import torch

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.families.kept import load_translation_model
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.nmt.bpe import learn
from hpobench_nmt.runner.training.train_row import keep_model

SIZES = {"num_layers": 2, "num_embed": 8, "num_hidden": 16, "num_heads": 2}
SETTINGS = SIZES | {"bpe_symbols": 12, "learning_rate": 0.01, "max_length": 20}
# 12 E^2 + 4 E H numbers a layer at least, and E for each word of the two vocabularies.
NUMBERS = 2 * (12 * 64 + 4 * 8 * 16) + 8 * (5 + 6)
TRANSFORMER = """config_{part}: !TransformerConfig
  attention_heads: 2
  depth_key_value: 8
  feed_forward_num_hidden: 16
  max_seq_len_source: 21
  max_seq_len_target: 21
  model_size: 8
  num_layers: 2
"""
CONFIG = (
    """!ModelConfig
config_data: !DataConfig
  buckets:
  - !!python/tuple
    - 8
    - 8
config_embed_source: !EmbeddingConfig
  num_embed: 8
  vocab_size: 5
config_embed_target: !EmbeddingConfig
  num_embed: 8
  vocab_size: 6
"""
    + TRANSFORMER.format(part="encoder")
    + TRANSFORMER.format(part="decoder")
    + "vocab_source_size: 5\nvocab_target_size: 6\n"
)
# 10^30 pairs of a key and its value, if they were merged.
MERGES = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 31))]
).encode()


def model_files():
    """The content of each file."""
    subwords = learn(["a b ab ba abba", "b a b"], 8, "source")
    return {
        "config": CONFIG.encode(),
        "version": b"3.1.34",
        "vocab.src.0.json": json.dumps({f"s{i}": i for i in range(5)}).encode(),
        "vocab.trg.0.json": json.dumps({f"t{i}": i for i in range(6)}).encode(),
        "source.model": subwords,
        "target.model": subwords,
    }


@pytest.fixture(scope="module")
def files():
    return model_files()


@pytest.fixture
def load(files, tmp_path):
    """Loads a kept model with some files changed."""

    def loaded(numbers=NUMBERS, family="sockeye", settings=SETTINGS, **changes):
        new, folder = tmp_path / "new", tmp_path / "models" / "key"
        new.mkdir()
        changed = {name.replace("__", "."): content for name, content in changes.items()}
        for name, content in (files | changed).items():
            (new / name).write_bytes(content)
        torch.save({"w": torch.zeros(numbers)}, new / "params.best")
        chosen = load_family(family).settings(**settings)
        keep_model(new, folder, family, chosen, {}, {}, Record({}, 0, 5, "done"))
        return load_translation_model(folder)

    return loaded


def test_a_folder_that_is_whole_is_read(load):
    kept = load()
    assert kept.known == {"s0", "s1", "s2", "s3", "s4"}
    assert kept.source.decode(kept.source.encode(["a  b"])) == ["a b"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"numbers": NUMBERS - 1},
            rf"params.best: holds {NUMBERS - 1:,} numbers; .* has {NUMBERS:,} or more",
        ),
        ({"vocab__src__0__json": b'{"a": 0, "b": 2}'}, "its numbers must be 0, 1, 2"),
        ({"vocab__src__0__json": b'["a"]'}, r"vocab.src.0.json: the content must be a section"),
        ({"vocab__trg__0__json": b'{"a": 0}'}, r"config: vocab_target_size is 6, where the model's is 1"),
        ({"source__model": b"no model"}, r"source.model: is not a sentencepiece model"),
        ({"config": b"a: [1"}, r"config: cannot be used"),
        ({"config": b"[1, 2]"}, r"vocab_source_size is None, where the model's is 5"),
        ({"config": b"!!python/object/apply:os.system [ls]"}, r"config: cannot be used: ConstructorError"),
        ({"config": MERGES}, r"config: cannot be used: ConstructorError"),
        ({"family": "awd-lstm", "settings": {}}, "is a language model: use `hpobench-nmt model evaluate`"),
    ],
)
def test_a_folder_that_is_not_is_one_line(load, changes, message):
    with pytest.raises(InputError, match=message) as error:
        load(**changes)
    assert "\n" not in str(error.value)


LINES = CONFIG.split("\n")


@pytest.mark.parametrize("at", [i for i, line in enumerate(LINES) if line[-1:].isdigit() and ": " in line])
def test_every_size_in_the_configuration_is_checked(load, at):
    key = LINES[at].partition(":")[0]
    changed = [*LINES[:at], f"{key}: {10**9}", *LINES[at + 1 :]]
    with pytest.raises(InputError, match=rf"config: .*{key.strip()} is"):
        load(config="\n".join(changed).encode())
