"""Optimizers by name: each learns, counts its state, and resumes from a saved state with the same bits."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.families.awd_lstm import AwdLstmSettings  # noqa: E402
from hpobench_nmt.runner.families.gpt import GptSettings  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402
from hpobench_nmt.runner.lm.scheduled import USUAL_RATES  # noqa: E402
from hpobench_nmt.runner.torch_training.training_state import Checkpoints  # noqa: E402

RATES = {"adamw": 0.02, "sgd": 2, "muon": 0.02, "adafactor": 0.1, "lion": 0.01, "soap": 0.01}
DRY = dict.fromkeys(
    ("dropout_input", "dropout_output", "dropout_embedding", "weight_drop", "alpha", "beta"), 0
)
LSTM = AwdLstmSettings(
    layers=1, embedding_size=16, batch_size=4, bptt=10, clip=1, tokens=2400, checks=4, **DRY
)
GPT = GptSettings(depth=1, width=8, heads=2, context=10, batch_size=4, tokens=2400, checks=4)


class Corpus:
    unit = "word"
    vocabulary = tuple("abcdefghijk")
    train = np.tile(np.arange(11), 200)
    dev = np.tile(np.arange(11), 10)


def trained(name, family="awd-lstm", checkpoints=None, **changes):
    if name in ("lion", "soap"):
        pytest.importorskip("pytorch_optimizer", reason="pip install 'hpobench-nmt[optimizers]'")
    usual = LSTM if family == "awd-lstm" else GPT
    settings = replace(usual, optimizer=name, learning_rate=RATES.get(name, 1.0), **changes)
    return fit(load_family(family).architecture, settings, Corpus, 1, "cpu", checkpoints)


@pytest.mark.parametrize("family", ["awd-lstm", "gpt"])
@pytest.mark.parametrize("name", RATES)
def test_each_optimizer_learns_a_text_that_repeats_itself(name, family):
    _, summary = trained(name, family)
    ppl = [point["dev_ppl"] for point in summary.curve]
    assert len(ppl) == 4
    assert summary.updates == 60
    assert ppl[-1] < 0.9 * 11
    assert ppl[-1] <= ppl[0]


@pytest.mark.parametrize("name", RATES)
def test_a_training_that_pauses_ends_with_the_same_bits(name, tmp_path):
    whole, told = trained(name)
    _, paused = trained(name, checkpoints=Checkpoints(tmp_path, {}, until=20))
    assert paused.paused
    resumed, again = trained(name, checkpoints=Checkpoints(tmp_path, {}))
    assert [p["dev_ppl"] for p in again.curve] == [p["dev_ppl"] for p in told.curve]
    assert all(map(torch.equal, whole.parameters(), resumed.parameters()))
    assert again.state_size == told.state_size


def test_the_numbers_of_the_state_are_counted():
    # AdamW and Muon also count their steps; SGD has one number for each parameter, and none without momentum.
    assert trained("adamw")[1].state_size == pytest.approx(2, rel=0.02)
    assert trained("sgd")[1].state_size == 1
    assert trained("sgd", momentum=0.0)[1].state_size == 0
    assert 1 < trained("muon")[1].state_size < 2
    assert trained("adafactor")[1].state_size < 1
    assert trained("lion")[1].state_size == 1
    assert trained("soap")[1].state_size > 2


def test_the_rate_of_muons_adam_is_a_share(monkeypatch):
    weights = [trained("muon", adam_rate=share)[0].output_weight.detach().clone() for share in (0.1, 1.0)]
    assert not torch.equal(*weights)


def test_muon_has_the_matrices_of_layers_and_adamw_the_embeddings():
    of_lstm, of_gpt = load_family("awd-lstm").architecture, load_family("gpt").architecture
    # The recurrent weights have 4 x 16 rows, as many as the vocabulary.
    lstm = replace(LSTM, optimizer="muon"), of_lstm, 64, ["output_weight"]
    untied = replace(GPT, optimizer="muon", tied=False, positions="learnt")
    gpt = untied, of_gpt, 24, ["output_weight", "input_weight", "positions"]
    for settings, architecture, vocabulary, embeddings in (lstm, gpt):
        model = architecture.build(settings, vocabulary, "word", torch.Generator().manual_seed(0))
        optimiser, _ = architecture.course(settings, "word", model)
        names = {id(p): name for name, p in model.named_parameters()}
        groups = {name: each.param_groups for name, each in optimiser.optimizers.items()}
        found = {name: [names[id(p)] for p in group[0]["params"]] for name, group in groups.items()}
        matrices = [name for name, p in model.named_parameters() if p.ndim > 1]
        assert found["adam"] == embeddings
        assert found["muon"] == [name for name in matrices if name not in embeddings]


@pytest.mark.parametrize("name", RATES)
def test_a_relative_rate_is_a_multiple_of_the_usual_one(name):
    usual = USUAL_RATES[name]
    one, _ = trained(name, relative_rate=0.5)
    changes = {"learning_rate": 0.5 * usual}
    other, _ = fit(
        load_family("awd-lstm").architecture, replace(LSTM, optimizer=name, **changes), Corpus, 1, "cpu"
    )
    assert all(map(torch.equal, one.parameters(), other.parameters()))


def test_the_penalty_of_sgd_is_its_own():
    plain, decayed = (trained("sgd", weight_decay=decay)[0] for decay in (0.0, 0.1))
    assert all(map(torch.equal, plain.parameters(), decayed.parameters()))
    penalised, _ = trained("sgd", l2=0.01)
    assert penalised.output_weight.norm() < 0.9 * plain.output_weight.norm()


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pytorch_optimizer", None)
    from hpobench_nmt.runner.lm.scheduled import scheduled

    for name in ("lion", "soap"):
        with pytest.raises(InputError, match=r"pip install 'hpobench-nmt\[optimizers\]'"):
            scheduled(replace(LSTM, optimizer=name), torch.nn.Linear(2, 3), 10)


def test_a_budget_without_an_update_is_refused():
    check = load_family("awd-lstm").check
    check(replace(LSTM, tokens=39))  # nt-asgd has no budget
    with pytest.raises(InputError, match="tokens 39 are too few for one update"):
        check(replace(LSTM, optimizer="adamw", tokens=39))
