"""On a CUDA device: the same seed gives the same bytes, and the figures are those of the CPU."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.corpora import TextCorpus  # noqa: E402
from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.families.awd_lstm import ARCHITECTURE, build  # noqa: E402
from hpobench_nmt.runner.lm.dynamic import RULES, UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402
from hpobench_nmt.runner.lm.language_model import set_up  # noqa: E402
from hpobench_nmt.runner.lm.measure import measure  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
FAMILY = load_family("awd-lstm")


def settings(**changes):
    given = {
        "layers": 2,
        "embedding_size": 16,
        "hidden_size": 24,
        "batch_size": 4,
        "bptt": 10,
        "max_epochs": 2,
    }
    given |= {"learning_rate": 5, "dynamic_rule": "none", "cache_window": 50, "tuning_tokens": 0, **changes}
    return FAMILY.settings(**given)


@pytest.fixture(scope="module")
def corpus():
    """Words each of which depends on the one before it."""
    rng = np.random.default_rng(0)
    stream = [0]
    for step in rng.integers(3, size=6000):
        stream.append((stream[-1] * 5 + int(step)) % 40)
    tokens = np.array(stream)
    words = tuple(f"w{i}" for i in range(40))
    return TextCorpus("chain", "word", words, tokens[:5000], tokens[5000:5500], tokens[5500:], {})


def test_a_seed_gives_the_same_bytes(corpus):
    def trained():
        model, training = fit(ARCHITECTURE, settings(), corpus, 3, "cuda")
        return b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()), training.updates

    assert trained() == trained()


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "none"])
def test_dynamic_evaluation_is_that_of_the_cpu(corpus, rule):
    found = {}
    for device in ("cpu", "cuda"):
        model = build(settings(), 40, "word", torch.Generator("cpu").manual_seed(1)).to(set_up(device))
        asked = UpdateRule(rule, 0.01, 5, 0.02, 0.001, 8)
        units = asked.units if rule == "sparse" else 0
        rms = gradient_rms(model, corpus.train[:500], 2, 5, units) if asked.needs_rms else None
        found[device] = dynamic_nll(model, corpus.dev[:200], asked, rms)
    np.testing.assert_allclose(found["cuda"], found["cpu"], rtol=2e-3)


def test_all_that_is_measured(corpus):
    chosen = settings(dynamic_rule="rms-rms-prior", dynamic_statistics=500)
    model, _ = fit(ARCHITECTURE, chosen, corpus, 1, "cuda")
    metrics = measure(model, corpus, chosen).metrics
    assert metrics["gpu_memory"] > 0
    assert metrics["dev_ppl_dynamic"] < 40
    assert np.exp(static_nll(model, corpus.dev).mean()) == pytest.approx(metrics["dev_ppl"])


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_training_in_16_bits_ends_near_one_in_32(corpus, precision):
    found = {}
    for chosen in ("fp32", precision):
        model, _ = fit(
            ARCHITECTURE, settings(precision=chosen, accumulate=2, max_epochs=4), corpus, 1, "cuda"
        )
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        found[chosen] = np.exp(static_nll(model, corpus.dev).mean())
    assert found[precision] == pytest.approx(found["fp32"], rel=0.1)
