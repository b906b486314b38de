import math

import pytest

from hpobench_nmt.runner.nmt.learning_rate import has_converged, learning_rate
from hpobench_nmt.runner.nmt.settings import TranslationSettings
from hpobench_nmt.runner.settings import settings_of

SIZES = {"bpe_symbols": 30, "num_layers": 1, "num_embed": 8, "num_hidden": 8, "num_heads": 2}


def settings(**changes):
    return TranslationSettings(**SIZES | {"learning_rate": 0.5, "max_updates": 100} | changes)


@pytest.mark.parametrize(
    ("name", "warmup", "expected"),
    [
        ("none", 4, {1: 0.5, 3: 0.5, 50: 0.5}),
        ("plateau-reduce", 0, {1: 0.1, 50: 0.1}),
        ("plateau-reduce", 4, {1: 0.125, 4: 0.5, 5: 0.1, 50: 0.1}),
        ("inv-sqrt-decay", 4, {1: 0.125 / 2, 4: 0.25, 16: 0.125}),
        ("inv-sqrt-decay", 0, {1: 0.5, 25: 0.1}),
        ("linear-decay", 4, {1: 0.125 * 0.99, 50: 0.25, 100: 0.0}),
    ],
)
def test_rates_by_hand(name, warmup, expected):
    these = settings(learning_rate_scheduler=name, warmup=warmup)
    for update, rate in expected.items():
        assert learning_rate(these, update, lowered=0.2) == pytest.approx(rate)


def test_a_factor_of_one_is_no_schedule():
    assert learning_rate(settings(warmup=4, reduce_factor=1.0), 1) == 0.5
    # It has no warm-up either, which the setting's text says.
    described = settings_of(TranslationSettings)["warmup"].about.description
    assert "not used if learning_rate_scheduler is none" in described
    assert "plateau-reduce and reduce_factor is 1" in described


@pytest.mark.parametrize("warmup", [0, 3])
@pytest.mark.parametrize("name", ["plateau-reduce", "inv-sqrt-decay", "linear-decay"])
def test_rates_are_those_of_sockeye(name, warmup):
    schedulers = pytest.importorskip("sockeye.lr_scheduler", reason="needs: pip install --no-deps sockeye")
    import torch

    kind, arguments = schedulers.get_lr_scheduler(name, 0.5, 0.7, 3, warmup, 20)
    parameter = torch.nn.Parameter(torch.zeros(1))
    theirs = kind(optimizer=torch.optim.SGD([parameter], lr=0.5), **arguments)
    ours = settings(learning_rate_scheduler=name, warmup=warmup, max_updates=20)
    for update in range(1, 21):
        theirs.step()
        assert learning_rate(ours, update) == pytest.approx(theirs.get_lr()[0], rel=1e-12)


def test_convergence_by_hand():
    best = [10.0, 12.0, 12.0, 12.4, 12.5]
    patient = settings(max_not_improved=2, min_improvement=0.6)
    # Sockeye compares with the first checkpoint where there are as few as max_not_improved.
    assert [has_converged(patient, best[:count]) for count in range(1, 6)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert has_converged(settings(max_not_improved=1), [3.0])
    assert not has_converged(settings(max_not_improved=2), [3.0, 4.0])
    assert has_converged(settings(max_not_improved=1, min_improvement=math.inf), [3.0, 9.0])
