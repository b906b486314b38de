import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
pytest.importorskip("transformers", reason="needs: pip install transformers")
pytest.importorskip("sentencepiece")

from hpobench_nmt.runner.nmt.marian_batches import batch_of, padded_batch  # noqa: E402
from hpobench_nmt.runner.nmt.marian_model import build, loss, padded_loss, parameters, trained  # noqa: E402
from hpobench_nmt.runner.nmt.marian_numbers import END, NumberLines, Pairs  # noqa: E402
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings, check  # noqa: E402

CPU = torch.device("cpu")
SIZES = {
    "bpe_symbols": 30,
    "num_layers": 2,
    "num_embed": 12,
    "num_hidden": 20,
    "num_heads": 3,
    "learning_rate": 0.1,
}
PAIRS = [([7, 8, 9, END], [4, END]), ([9, END], [5, 6, 10, END]), ([5, 5, END], [6, END])]
NUMBERED = Pairs(*map(NumberLines.of, zip(*PAIRS, strict=True)))


def settings(**changes):
    found = MarianSettings(
        **SIZES | {"dropout": 0.0, "attention_dropout": 0.0, "feed_forward_dropout": 0.0} | changes
    )
    check(found)
    return found


def model_of(source=14, target=11, seed=1, **changes):
    return build(settings(**changes), source, target, torch.Generator().manual_seed(seed)).eval()


@pytest.mark.parametrize(("norm", "tied"), [*itertools.product(("pre", "post"), ("none", "target", "all"))])
def test_parameters_are_counted_and_tied_as_asked_for(norm, tied):
    joint = {"vocabularies": "joint"} if tied == "all" else {}
    model = model_of(11, 11, norm=norm, tied=tied, **joint)
    assert sum(p.numel() for p in trained(model)) == parameters(
        settings(norm=norm, tied=tied, **joint), 11, 11
    )
    if tied != "all":
        model = model_of(14, 11, norm=norm, tied=tied)
        assert sum(p.numel() for p in trained(model)) == parameters(settings(norm=norm, tied=tied), 14, 11)
    inner = model.model
    assert (model.lm_head.weight is inner.decoder.embed_tokens.weight) == (tied != "none")
    assert (inner.encoder.embed_tokens.weight is inner.decoder.embed_tokens.weight) == (tied == "all")


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_padding_changes_neither_loss_nor_gradients(norm):
    model, words = model_of(norm=norm).double(), sum(len(target) for _, target in PAIRS)
    losses = (
        loss(model, batch_of(NUMBERED, [0, 1, 2], CPU), 0.1) / words,
        padded_loss(model, padded_batch(NUMBERED, [0, 1, 2], words, CPU), 0.1),
    )
    assert float(losses[0].detach()) == pytest.approx(float(losses[1].detach()), rel=1e-6)
    plain, padded = (torch.autograd.grad(each, trained(model)) for each in losses)
    for mine, other in zip(padded, plain, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_loss_by_hand(norm):
    model = model_of(norm=norm)
    batch = batch_of(NUMBERED, [0, 1, 2], CPU)
    expected = 0.0
    for source, target in PAIRS:  # one by one, so without padding
        read = torch.tensor([[2, *target[:-1]]])
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=read).logits[0].double()
        p = torch.softmax(logits, 1).detach().numpy()
        wanted = np.full(p.shape, 0.1 / p.shape[1])
        wanted[np.arange(len(target)), target] += 0.9
        expected -= (wanted * np.log(p)).sum()
    assert float(loss(model, batch, 0.1).detach()) == pytest.approx(expected, rel=1e-5)


def test_weights_are_drawn_as_described():
    model = model_of(1000, 1000, num_embed=60, num_hidden=240)
    layer = model.model.encoder.layers[0]
    for name, bound in (
        ("fc1", math.sqrt(6 / 300)),
        ("self_attn.q_proj", math.sqrt(6 / 240)),
        ("self_attn.out_proj", math.sqrt(6 / 120)),
    ):
        weight = layer.get_submodule(name).weight
        assert 0.98 * bound < weight.abs().max() <= bound
        assert float(weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert not layer.get_submodule(name).bias.any()
    source = model.model.encoder.embed_tokens.weight
    assert 0.069 < source.abs().max() <= 0.07
    bound = math.sqrt(6 / 1060)
    assert 0.98 * bound < model.lm_head.weight.abs().max() <= bound  # and of the target's embedding with it
    again, other = model_of(1000, 1000, num_embed=60, num_hidden=240), model_of(1000, 1000, 2, num_embed=60)
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)
    assert not torch.equal(other.lm_head.weight, model.lm_head.weight)


@pytest.mark.parametrize("place", ["dropout", "attention_dropout", "feed_forward_dropout", "embed_dropout"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_every_dropout_is_there_in_training_alone(place, norm):
    batch = batch_of(NUMBERED, [0, 1, 2], CPU)
    model = model_of(norm=norm, **{place: 0.5})
    expected = float(loss(model_of(norm=norm), batch, 0.1))
    assert float(loss(model, batch, 0.1)) == expected
    model.train()
    assert float(loss(model, batch, 0.1)) != float(loss(model, batch, 0.1))
