"""Mixed precision and accumulated gradients: what changes, and what does not."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.families import awd_lstm, melis, mlstm  # noqa: E402
from hpobench_nmt.runner.family import TrainingFailed  # noqa: E402
from hpobench_nmt.runner.lm import gradient as gradients  # noqa: E402
from hpobench_nmt.runner.lm.language_model import streams  # noqa: E402
from hpobench_nmt.runner.lm.ntasgd import NTASGD  # noqa: E402
from hpobench_nmt.runner.lm.schedule import TrainingSchedule  # noqa: E402
from hpobench_nmt.runner.lm.scheduled import Scheduled, rate_at  # noqa: E402
from hpobench_nmt.runner.lm.settings import OptimizerSettings  # noqa: E402
from hpobench_nmt.runner.lm.softmax import linear_cross_entropy  # noqa: E402
from hpobench_nmt.runner.lm.static import perplexity, static_nll  # noqa: E402
from hpobench_nmt.runner.lm.trainer import train  # noqa: E402
from hpobench_nmt.runner.settings import settings_of  # noqa: E402
from hpobench_nmt.runner.torch_training.precision import loss_scaler, products_in  # noqa: E402
from hpobench_nmt.runner.torch_training.training_state import Checkpoints  # noqa: E402

RNG = np.random.default_rng(0)
TEXT = (np.cumsum(np.where(RNG.random(1400) < 0.9, 1, 3)) % 9).astype(np.int64)
TRAIN, DEV = TEXT[:1200], TEXT[1200:]
SCHEDULE = TrainingSchedule(batch_size=4, bptt=10, vary=True, clip=0.25, max_epochs=4)
CPU = torch.device("cpu")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def descent(model, learning_rate=5.0):
    return NTASGD(
        list(model.parameters()),
        learning_rate=learning_rate,
        weight_decay=1e-6,
        averaging_window=2,
        patience=2,
    )


def build(name, seed=1):
    """A model of every kind of cell, with sizes that no processor pads."""
    module, cell, gates = {
        "awd-lstm": (awd_lstm, "lstm", ""),
        "capped": (melis, "lstm", "capped"),
        "tied": (melis, "lstm", "tied"),
        "rhn": (melis, "rhn", "capped"),
        "nas": (melis, "nas", "capped"),
        "mlstm": (mlstm, "", ""),
        "qrnn": (awd_lstm, "qrnn", ""),
    }[name]
    family = module.FAMILY
    known = settings_of(family.settings)
    settings = {name: 0.0 for name in known if name.startswith("dropout") or name == "weight_drop"}
    settings |= {"embedding_size": 48, "hidden_size": 52, "layers": 2, "cell": cell}
    if module is melis:
        settings |= {
            "cell": cell,
            "gates": gates,
            "depth": 2,
            "budget": 38_972 if cell == "nas" else 40_000,
            "zero_state": 0.0,
        }
        settings |= {"embeddings": "separate", "input_embedding_ratio": 0.9}
    chosen = family.settings(**{name: value for name, value in settings.items() if name in known})
    return family.architecture.build(chosen, 9, "word", seeded(seed))


KINDS = ("awd-lstm", "capped", "tied", "rhn", "nas", "mlstm", "qrnn")


def gradient(model, precision, batch=4, parts=1):
    """The gradients of one update, as 64-bit numbers, and the states after it."""
    piece = streams(torch.from_numpy(TRAIN[:240]), batch * parts)[:31]
    scaler = loss_scaler(precision, CPU)
    states = (model.initial_state(batch),) * parts
    loss, states = gradients.gradient(model.train(), piece, states, precision, scaler)
    assert loss.dtype == torch.float32  # the softmax has 32 bits
    scale = scaler.get_scale() if precision == "fp16" else 1.0
    return [p.grad.to_dense().double() / scale for p in model.parameters()], states


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_16_bits_are_near_those_in_32(kind, precision):
    model = build(kind)
    if (kind, precision) == ("awd-lstm", "fp16"):
        with pytest.raises(InputError, match=r'fp16": torch has no LSTM of it on a CPU\. Take "bf16"'):
            gradient(model, precision)
        return
    exact, _ = gradient(model, "fp32")
    rounded, states = gradient(model, precision)
    # Numbers of 8 or 11 bits; half of the last one is the error of each product's factors.
    bound = {"bf16": 0.03, "fp16": 0.006}[precision]
    for name, found, expected in zip(dict(model.named_parameters()), rounded, exact, strict=True):
        error = float((found - expected).norm() / expected.norm())
        assert error < bound, name
    assert max(float((f - e).norm() / e.norm()) for f, e in zip(rounded, exact, strict=True)) > bound / 100
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    # What is carried on to the next update has 32 bits too.
    flat = list(states)
    while not all(isinstance(part, torch.Tensor) for part in flat):
        flat = [part for several in flat for part in ([several] if torch.is_tensor(several) else several)]
    assert {part.dtype for part in flat} == {torch.float32}


def test_a_single_stream_of_few_steps_is_read_in_16_bits_too():
    model = build("awd-lstm")
    piece = torch.from_numpy(TRAIN[:9, None])
    found = {}
    for precision in ("fp32", "bf16"):
        gradients.gradient(
            model.train(), piece, (model.initial_state(1),), precision, loss_scaler(precision, CPU)
        )
        found[precision] = model.layers[0][1].grad.clone()
    assert 0 < (found["bf16"] - found["fp32"]).norm() < 0.03 * found["fp32"].norm()


def test_an_lstm_gets_numbers_of_the_precision_asked_for(monkeypatch):
    """Autocast on a CUDA device would make fp16 of all that it casts for an LSTM itself."""
    lstm, seen = torch.lstm, []

    def note(x, state, weights, *rest):
        seen.append({t.dtype for t in (x, *state, *weights)} | {torch.is_autocast_enabled("cpu")})
        return lstm(x, state, weights, *rest)

    monkeypatch.setattr(torch, "lstm", note)
    model, tokens = build("awd-lstm").train(), torch.from_numpy(TRAIN[:80]).view(20, 4)
    with products_in("bf16", CPU):
        hidden, state = model(tokens, model.initial_state(4))
    assert seen == [{torch.bfloat16, False}] * 2
    assert {hidden.dtype, *(part.dtype for layer in state for part in layer)} == {torch.float32}


def test_a_training_in_16_bits_ends_near_one_in_32_and_dev_is_evaluated_in_32(tiny):
    found = {}
    for precision in ("fp32", "bf16"):
        model = tiny(dropout_input=0.05, weight_drop=0.05)
        schedule = replace(SCHEDULE, precision=precision, max_epochs=3)
        done = train(model, TRAIN, DEV, descent(model, 1.5), schedule, seeded())
        found[precision] = min(point["dev_ppl"] for point in done.curve)
        # The losses that decide are those of the kept weights, in 32 bits, to the last bit.
        assert perplexity(static_nll(model, DEV, batch=10)) == found[precision]
    assert found["fp32"] < 4
    assert found["bf16"] != found["fp32"]
    assert found["bf16"] == pytest.approx(found["fp32"], rel=0.05)


def test_a_training_in_fp16_makes_the_steps_of_one_in_32_bits():
    curves = []
    for precision in ("fp32", "fp16"):
        model = build("qrnn")
        schedule = replace(SCHEDULE, precision=precision, max_epochs=1, checks_per_epoch=3, clip=0.05)
        done = train(model, TRAIN, DEV, descent(model, 20.0), schedule, seeded())
        curves.append([point["dev_ppl"] for point in done.curve])
    assert curves[0] != curves[1] == pytest.approx(curves[0], rel=0.02)
    assert curves[0][-1] < 0.8 * curves[0][0]  # it learned


def test_with_the_defaults_an_update_is_the_plain_one_to_the_bit(tiny):
    """A loop without precision or accumulation, as one would write it: every weight is the same."""
    names = ("dropout_input", "dropout_hidden", "dropout_output", "weight_drop")
    rates = dict.fromkeys(names, 0.2) | {"alpha": 0.3, "beta": 0.7}
    trained, model = tiny(**rates), tiny(**rates)
    schedule = TrainingSchedule(batch_size=4, bptt=10, vary=False, clip=0.25, max_epochs=1)
    train(trained, TRAIN, DEV, descent(trained), schedule, seeded())
    data, optimiser = streams(torch.from_numpy(TRAIN), 4), descent(model)
    state = model.initial_state(4)
    model.train()
    for start in range(0, len(data) - 1, 10):
        piece = data[start : start + 11]
        model.zero_grad()
        hidden, state = model(piece[:-1], tuple((h.detach(), c.detach()) for h, c in state))
        weight, bias = model.output_weight, model.output_bias
        loss = linear_cross_entropy(hidden.reshape(-1, 5), weight, bias, piece[1:].reshape(-1))
        (loss + model.regularisation()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimiser.step(1.0)
    for mine, plain in zip(trained.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, plain)


@pytest.mark.parametrize("kind", KINDS)
def test_several_batches_have_the_gradient_of_one_of_all_their_streams(kind):
    model = build(kind)
    whole, (state,) = gradient(model, "fp32", batch=6)
    summed, states = gradient(model, "fp32", batch=2, parts=3)
    for found, expected in zip(summed, whole, strict=True):
        assert torch.allclose(found, expected, atol=1e-6)
    assert len(states) == 3
    last = states[2][0] if kind == "mlstm" else states[2][0][0]
    assert torch.allclose(last, (state[0] if kind == "mlstm" else state[0][0])[4:], atol=1e-6)


def test_a_training_with_accumulation_is_that_of_the_large_batch(tiny):
    curves = []
    for batch, accumulate in ((4, 1), (2, 2), (1, 4)):
        model = tiny()
        schedule = replace(
            SCHEDULE, batch_size=batch, accumulate=accumulate, max_epochs=1, checks_per_epoch=3
        )
        done = train(model, TRAIN, DEV, descent(model), schedule, seeded())
        curves.append([(point["update"], point["dev_ppl"]) for point in done.curve])
    for curve in curves[1:]:
        assert [update for update, _ in curve] == [update for update, _ in curves[0]]
        assert [ppl for _, ppl in curve] == pytest.approx([ppl for _, ppl in curves[0]], rel=1e-4)
    schedule = replace(SCHEDULE, batch_size=100, accumulate=20)
    with pytest.raises(TrainingFailed, match="batch size of 2000"):
        train(tiny(), TRAIN, DEV, descent(tiny()), schedule, seeded())


def test_an_update_whose_gradients_overflow_is_left_out_and_the_scale_is_halved(tmp_path):
    model = build("mlstm")
    optimiser = descent(model)
    seen, steps = [], []
    step = optimiser.step
    optimiser.step = lambda scale: (steps.append(scale), step(scale))

    def spoil(parameter):
        seen.append(parameter.detach().clone())
        if len(seen) == 3:
            parameter.grad.fill_(math.inf)

    model.output_bias.register_post_accumulate_grad_hook(spoil)
    schedule = replace(SCHEDULE, vary=False, precision="fp16", max_epochs=1)
    done = train(model, TRAIN, DEV, optimiser, schedule, seeded(), Checkpoints(tmp_path, {}))
    assert len(steps) == done.updates - 1
    assert torch.equal(seen[3], seen[2])  # the third update changed nothing
    assert not torch.equal(seen[4], seen[3])
    saved = torch.load(tmp_path / "training.pt", weights_only=True)["state"]["scaler"]
    assert saved["scale"] == 2.0**15


def test_a_schedule_also_counts_updates_whose_gradients_overflow():
    """Otherwise it would not reach its end, and the training would not have converged."""
    model = build("mlstm")
    rates = partial(rate_at, OptimizerSettings(warm_up=0.0), 0.01, 8)
    adam = torch.optim.AdamW(model.parameters())
    optimiser = Scheduled({"adam": adam}, rates, 8)
    seen, steps = [], []
    step = optimiser.step
    optimiser.step = lambda scale: (step(scale), steps.append(adam.param_groups[0]["lr"]))

    def spoil(parameter):
        seen.append(None)
        if len(seen) == 3:
            parameter.grad.fill_(math.inf)

    model.output_bias.register_post_accumulate_grad_hook(spoil)
    schedule = replace(SCHEDULE, vary=False, precision="fp16", max_epochs=0, max_updates=8, check_updates=8)
    done = train(model, TRAIN, DEV, optimiser, schedule, seeded())
    assert (done.updates, optimiser.updates, done.converged) == (8, 8, True)
    assert steps == [rates(update) for update in range(8) if update != 2]


def test_a_device_without_such_numbers_is_refused_in_one_line():
    with pytest.raises(InputError, match=r'^precision = "bf16" is not possible on .*$'):
        products_in("bf16", torch.device("meta"))
