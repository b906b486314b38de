"""Samples of a tiny model with fresh weights, against those that `generate` of transformers draws singly."""

import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
pytest.importorskip("transformers", reason="needs: pip install transformers")
pytest.importorskip("sentencepiece")

from hpobench_nmt.runner.nmt.marian_model import build  # noqa: E402
from hpobench_nmt.runner.nmt.marian_numbers import END, PAD  # noqa: E402
from hpobench_nmt.runner.nmt.marian_sampling import Sampling, nucleus, sampled  # noqa: E402
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings  # noqa: E402

SIZES = {"num_layers": 2, "num_embed": 12, "num_hidden": 20, "num_heads": 3, "bpe_symbols": 30}
SOURCE = torch.tensor([[7, 8, 9, 5, END], [9, 6, END, PAD, PAD], [5, END, PAD, PAD, PAD]])
MOST = 12


def model_of(norm, seed=1):
    model = build(
        MarianSettings(**SIZES, learning_rate=0.1, norm=norm), 14, 11, torch.Generator().manual_seed(seed)
    )
    return model.eval()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"samples": 1, "temperature": 0.1},  # most rows are alike
        {"temperature": 3.0, "no_repeat": 2},
        {"top_p": 0.6, "repetition_penalty": 1.5},
        {"top_p": 0.01},
    ],
)
def test_samples_are_those_of_transformers(norm, changes):
    usual = {"samples": 8, "temperature": 1.0, "top_p": 1.0, "no_repeat": 0, "repetition_penalty": 1.0}
    sampling, model = Sampling(**usual | changes), model_of(norm)
    mask = (SOURCE != PAD).long()
    torch.manual_seed(3)
    expected = model.generate(
        input_ids=SOURCE,
        attention_mask=mask,
        max_new_tokens=MOST,
        do_sample=True,
        num_return_sequences=sampling.samples,
        temperature=sampling.temperature,
        top_k=0,
        top_p=sampling.top_p,
        no_repeat_ngram_size=sampling.no_repeat,
        repetition_penalty=sampling.repetition_penalty,
    )
    draws = torch.Generator().manual_seed(3)
    found = sampled(model, SOURCE, mask, MOST, sampling, draws)
    assert found.tolist() == expected[:, 1:].tolist()
    assert bool(torch.equal(draws.get_state(), torch.get_rng_state()))  # so the next batch draws the same


def test_the_nucleus_is_the_fewest_words_with_the_share():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25], [0.97, 0.01, 0.01, 0.01]]).log()
    kept = nucleus(logits, 0.7).isfinite().tolist()
    assert kept == [[False, True, False, True], [True, False, False, False]]
    assert nucleus(logits, 0.8).isfinite()[0].tolist() == [False, True, True, True]
