"""Language models and translation on a device that is not the CPU: its numbers, operations and waits.

benchmarks/speed/operations.py counts them for sizes of real trainings.
"""

import math
from contextlib import ExitStack, nullcontext

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from pretend_accelerator import Refused, accelerator, counted  # noqa: E402
from small_models import CASES, STEPS, chain, settings_of  # noqa: E402

from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.lm import trainer  # noqa: E402
from hpobench_nmt.runner.lm.dynamic import UpdateRule, adapting_reader, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402
from hpobench_nmt.runner.lm.language_model import pieces  # noqa: E402
from hpobench_nmt.runner.lm.measure import measure  # noqa: E402
from hpobench_nmt.runner.nmt.bpe import Bpe, learn  # noqa: E402
from hpobench_nmt.runner.nmt.marian_batches import batches  # noqa: E402
from hpobench_nmt.runner.nmt.marian_gradient import Gradients  # noqa: E402
from hpobench_nmt.runner.nmt.marian_model import build  # noqa: E402
from hpobench_nmt.runner.nmt.marian_model import trained as trained_parameters  # noqa: E402
from hpobench_nmt.runner.nmt.marian_numbers import NumberLines, Pairs, encode  # noqa: E402
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings  # noqa: E402
from hpobench_nmt.runner.torch_training.precision import loss_scaler  # noqa: E402

pytestmark = pytest.mark.skipif(
    not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this version of torch cannot pretend to have a device",
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def corpus():
    return chain(2000)


class Enough(Exception):
    """The updates that a test needs are made."""


def trained(case, corpus, device, monkeypatch, updates=2, **changes):
    """The model's parameters after some updates, and what each of these did on the device."""
    counts, models, own, counting = [], [], trainer._Training.update, ExitStack()

    def noted(training):
        models.append(training.model)
        if len(counts) == updates:
            raise Enough
        counts.append(None if device == CPU else counting.enter_context(counted()))
        return own(training)

    def after(training):  # the loop has looked at the loss
        counting.close()
        return False

    with monkeypatch.context() as patched, pytest.raises(Enough):
        patched.setattr(trainer._Training, "update", noted)
        patched.setattr(trainer._Training, "check_is_due", after)
        fit(load_family(case.family).architecture, settings_of(case, **changes), corpus, 1, str(device))
    return [p.detach().cpu() for p in models[0].parameters()], counts


# Two more cells of a family that has others by default.
MORE = {"tied", "nas"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.hosts if name in MORE else ()) for name in CASES]
)
def test_training_has_the_cpus_numbers_and_few_operations(name, corpus, monkeypatch):
    case = CASES[name]
    expected, _ = trained(case, corpus, CPU, monkeypatch)
    with accelerator() as device:
        found, (first, second) = trained(case, corpus, device, monkeypatch)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-5)
    # Whether the loss is finite is looked at every 50 updates. No other update waits for the device.
    assert first.waits == {"_local_scalar_dense": 1}
    assert not second.waits
    assert second.total <= case.update


@pytest.mark.parametrize("name", ["awd-lstm", "melis", "mlstm"])
def test_training_in_16_bits_does_not_hold_all_logits(name, corpus, monkeypatch):
    monkeypatch.setattr("hpobench_nmt.runner.lm.softmax._CHUNK_ELSEWHERE", 7)
    expected, _ = trained(CASES[name], corpus, CPU, monkeypatch, updates=1)
    with accelerator() as device:
        found, (counts,) = trained(CASES[name], corpus, device, monkeypatch, updates=1, precision="bf16")
    for mine, exact in zip(found, expected, strict=True):
        assert float((mine - exact).norm()) < 0.05 * float(exact.norm()) + 0.05
    assert counts.operations["logsumexp"] == math.ceil(STEPS * 4 / 7) or name == "awd-lstm"
    assert counts.operations["nll_loss_forward"] == 0


def test_tf32_is_allowed_in_training_alone(corpus, monkeypatch):
    seen, own = [], trainer.gradient

    def noted(*given):
        seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return own(*given)

    monkeypatch.setattr(trainer, "gradient", noted)
    with accelerator() as device:
        trained(CASES["awd-lstm"], corpus, device, monkeypatch, updates=1, precision="tf32")
    assert seen == [("high", True)]
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("highest", False)


def dynamic(case, corpus, device, rule):
    """Losses of three segments of dynamic evaluation, and what the last one did on the device."""
    settings = settings_of(case)
    build = load_family(case.family).architecture.build
    model = build(settings, 40, "word", torch.Generator(device).manual_seed(1))
    asked = UpdateRule(rule, 0.01, 5, 0.02, 0.001, 8)
    units = 8 if rule == "sparse" else 0
    rms = gradient_rms(model, corpus.train[:24], 2, 5, units) if asked.needs_rms else None
    losses = []
    with adapting_reader(model, asked, rms) as reader:
        for piece in pieces(model, corpus.dev[:16], 1, 5):
            if device == CPU:
                losses.append(reader.read(piece))
                continue
            with counted() as counts:
                nll = reader.read(piece)
            losses.append(nll.cpu())
    return torch.cat(losses), None if device == CPU else counts


BY_DEFAULT = {(rule, name) for rule in ("sparse", "sgd-prior") for name in ("awd-lstm", "mlstm")}
BY_DEFAULT |= {("rms-rms-prior", name) for name in set(CASES) - MORE}
RULES = [
    (rule, name)
    for rule in ("rms-rms-prior", "sgd-prior", "sparse")
    for name in CASES
    if rule != "sparse" or CASES[name].sparse
]
RULES = [pair if pair in BY_DEFAULT else pytest.param(*pair, marks=pytest.mark.hosts) for pair in RULES]


@pytest.mark.parametrize(("rule", "name"), RULES)
def test_dynamic_evaluation_has_the_cpus_numbers_and_few_operations(rule, name, corpus):
    case = CASES[name]
    most = case.sparse if rule == "sparse" else case.segment
    expected, _ = dynamic(case, corpus, CPU, rule)
    with accelerator() as device:
        found, counts = dynamic(case, corpus, device, rule)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not counts.waits
    assert counts.total <= most


@pytest.mark.parametrize("name", ["awd-lstm", pytest.param("qrnn", marks=pytest.mark.hosts)])
def test_all_that_is_measured_is_that_of_the_cpu(name, corpus):
    case = CASES[name]
    settings = settings_of(case, cache_window=20, tuning_tokens=0, dynamic_statistics=200, mc_masks=2)
    found = {}
    for device in ("cpu", "pretend"):
        with accelerator():
            generator = torch.Generator(device).manual_seed(1)
            model = load_family(case.family).architecture.build(settings, 40, "word", generator)
            metrics = measure(model, corpus, settings).metrics
        found[device] = {k: v for k, v in metrics.items() if "time" not in k and k != "memory"}
    assert found["pretend"] == pytest.approx(found["cpu"], rel=1e-4)


# Translation

LINES = ["eins zwei drei", "vier und fünf", "zwei oder drei oder eins", "sechs", "eins und eins und zwei"]
SIDES = [LINES * 12, [line[::-1] for line in LINES * 12]]


def translator(device, norm):
    """Weights after five updates without dropout, and what the last one did.

    Beam search is not tried: transformers makes tensors in ways that this device does not know.
    """
    settings = MarianSettings(
        bpe_symbols=24, num_layers=2, num_embed=16, num_hidden=24, num_heads=2, learning_rate=0.01, norm=norm,
        dropout=0.0, attention_dropout=0.0, feed_forward_dropout=0.0, batch_size=90,
    )  # fmt: skip
    source, target = (Bpe(learn(lines, 24, "source")) for lines in SIDES)
    pairs = Pairs(
        *(NumberLines.of(encode(bpe, lines)) for bpe, lines in zip((source, target), SIDES, strict=True))
    )
    model = build(settings, 25, 25, torch.Generator(device).manual_seed(1)).train()
    parameters, scaler = trained_parameters(model), loss_scaler("fp32", device)
    # With a large epsilon, for keys' biases have a gradient of 0 but for rounding.
    adam = torch.optim.AdamW(parameters, lr=0.01, eps=1e-3, fused=True)
    gradients = Gradients(model, pairs, settings, scaler)
    for chosen in batches(pairs, settings.batch_size, 1, 0)[:5]:
        with counted() if device != CPU else nullcontext() as counts:
            gradients.clear()
            gradients.add(chosen, pairs.words(chosen))
            scaler.step(adam)
    return [p.detach().cpu() for p in parameters], counts


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_translator_has_the_cpus_numbers_and_waits_for_nothing(norm):
    for package in ("transformers", "sentencepiece"):
        pytest.importorskip(package, reason="needs: pip install 'hpobench-nmt[train,marian]'")
    expected, _ = translator(CPU, norm)
    with accelerator() as device:
        found, counts = translator(device, norm)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-5)
    assert not counts.waits
    assert counts.total <= 420


# The accelerator itself


def test_what_a_device_refuses_is_refused():
    with accelerator() as device:
        there, here = torch.zeros(3, device=device), torch.zeros(3)
        with pytest.raises(Refused, match=r"^add: tensors on pretend and on cpu"):
            there + here
        with pytest.raises(Refused, match="a generator of the CPU draws on pretend"):
            there.bernoulli_(0.5, generator=torch.Generator())
        with pytest.raises(Refused, match="draws without a generator"):
            torch.nn.functional.dropout(there, 0.5)
        drawn = torch.rand(3, device=device, generator=torch.Generator(device).manual_seed(5))
        assert torch.equal(drawn.cpu(), torch.rand(3, generator=torch.Generator().manual_seed(5)))
        assert (there + torch.tensor(2.0)).tolist() == [2.0] * 3
    with accelerator(global_generator=True) as device:
        torch.nn.functional.dropout(torch.zeros(3, device=device), 0.5)
    assert torch.Generator is type(torch.Generator())


def test_operations_and_waits_are_counted():
    with accelerator() as device:
        x = torch.arange(6.0, device=device).view(2, 3)
        with counted() as counts:
            y = (x.t() @ x)[0].add_(1.0)
            assert y.device == x.device
            assert float(y.sum()) == 39.0
            bool(y[0] > 0)
            y.cpu()
        assert counts.operations == {
            "mm": 1,
            "add_": 1,
            "sum": 1,
            "gt": 1,
            "_local_scalar_dense": 2,
            "_to_copy": 1,
        }
        assert counts.waits == {"_local_scalar_dense": 2, "_to_copy": 1}
        x[0, 0] = 7.0
        assert x.view(-1)[0].item() == 7.0  # a view and what it is of share their memory
