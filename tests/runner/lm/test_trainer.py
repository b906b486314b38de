import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.family import TrainingFailed  # noqa: E402
from hpobench_nmt.runner.lm.language_model import streams  # noqa: E402
from hpobench_nmt.runner.lm.ntasgd import NTASGD  # noqa: E402
from hpobench_nmt.runner.lm.schedule import TrainingSchedule  # noqa: E402
from hpobench_nmt.runner.lm.static import bits, perplexity, static_nll  # noqa: E402
from hpobench_nmt.runner.lm.trainer import _log_line, train, unigram_loss  # noqa: E402

# A text with something to learn: each word is followed by the next one, most of the time.
RNG = np.random.default_rng(0)
TEXT = (np.cumsum(np.where(RNG.random(1400) < 0.9, 1, 3)) % 9).astype(np.int64)
TRAIN, DEV = TEXT[:1200], TEXT[1200:]
SCHEDULE = TrainingSchedule(batch_size=4, bptt=10, vary=True, clip=0.25, max_epochs=4)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def descent(model, **changes):
    options = {"learning_rate": 5.0, "weight_decay": 1e-6, "averaging_window": 2, "patience": 2, **changes}
    return NTASGD(list(model.parameters()), **options)


def nll_of(model, words, double):
    """Each word's loss by torch's own layers."""
    stack = double(model)
    zeros = [tuple(part[None].double() for part in pair) for pair in model.initial_state(1)]
    with torch.no_grad():
        logits, _ = stack(torch.from_numpy(words[:-1, None]), zeros)
    each = torch.nn.functional.cross_entropy(logits[:, 0], torch.from_numpy(words[1:]), reduction="none")
    return each.numpy()


def test_static_evaluation_reads_one_stream_to_its_end(tiny, double):
    words = np.random.default_rng(1).integers(9, size=600)
    model = tiny(dropout_input=0.5)
    found = static_nll(model, words)
    assert found == pytest.approx(nll_of(model, words, double), abs=1e-5)
    assert model.training
    assert perplexity(found) == pytest.approx(math.exp(found.mean()))
    assert bits(found) == pytest.approx(math.log2(perplexity(found)))


def test_streams_are_read_side_by_side(tiny, double):
    words = np.random.default_rng(1).integers(9, size=43)
    model = tiny()
    parts = np.stack([nll_of(model, words[i * 14 : (i + 1) * 14], double) for i in range(3)], axis=1)
    assert static_nll(model, words, batch=3) == pytest.approx(parts.ravel(), abs=1e-5)
    assert (streams(torch.from_numpy(words), 3)[:, 1].numpy() == words[14:28]).all()


def test_the_average_is_that_of_all_steps_since_the_switch():
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimiser = NTASGD([parameter], learning_rate=0.1, weight_decay=0.01, averaging_window=1, patience=3)
    naive, seen = torch.tensor([1.0, -2.0], dtype=torch.float64), []
    gradients = torch.randn(12, 2, generator=seeded())
    for i, gradient in enumerate(gradients):
        parameter.grad = gradient.clone()
        scale = 0.5 if i % 2 else 1.0
        optimiser.step(scale)
        naive -= 0.1 * scale * (gradient.double() + 0.01 * naive)
        if optimiser.state_dict()["_averages"]:
            seen.append(naive.clone())
        if i == 2:
            for loss in (2.0, 3.0, 4.0):
                optimiser.checked(loss)
            assert optimiser.state_dict()["_averages"]
    assert len(seen) == 9
    assert torch.allclose(parameter.double(), naive)
    before = parameter.detach().clone()
    with optimiser.evaluated():
        assert torch.allclose(parameter.double(), torch.stack(seen).mean(0))
    assert (parameter == before).all()


@pytest.mark.parametrize(
    ("losses", "window", "switch"),
    [
        ([5, 4, 3, 2, 1], 2, None),
        ([5, 6, 7], 0, 1),  # worse than the best so far
        ([5, 6, 7, 8], 1, 2),  # the second check has but one before it, which the window hides
        ([5, 6, 7, 8], 2, 3),
        ([5, 4, 4.5, 4.2, 4.1], 2, 4),  # 4.1 is worse than 4, which is no longer in the window
        ([5, 3, 4, 2], 2, None),
    ],
)
def test_averaging_starts_when_dev_has_not_improved_for_a_while(losses, window, switch):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = NTASGD([parameter], learning_rate=1.0, weight_decay=0.0, averaging_window=window, patience=9)
    switched = None
    for i, loss in enumerate(losses):
        optimiser.checked(loss)
        if optimiser.state_dict()["_averages"] and switched is None:
            switched = i
    assert switched == switch


def test_training_ends_when_averages_stop_improving():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = NTASGD([parameter], learning_rate=1.0, weight_decay=0.0, averaging_window=0, patience=2)
    answers = [optimiser.checked(loss) for loss in (5, 6, 4, 4.5, 3, 3, 3.1)]
    assert answers == [False] * 5 + [False, True]


def test_small_improvements_add_up_before_they_count():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = NTASGD(
        [parameter], learning_rate=1.0, weight_decay=0.0, averaging_window=0, patience=3, min_improvement=0.5
    )
    answers = [optimiser.checked(loss) for loss in (5, 6, 4.8, 4.7, 4.4, 4.2, 4.1, 4)]
    assert answers == [False] * 7 + [True]


@pytest.mark.parametrize(
    "losses, start",
    [((1.5, 1.6), 3.0), ((2.5,), 1.0)],
    ids=["averages are the best", "plain descent had the best"],
)
def test_a_second_pass_begins_with_the_best_weights_and_averages_from_its_first_step(losses, start):
    parameter = torch.nn.Parameter(torch.ones(1))
    optimiser = NTASGD(
        [parameter], learning_rate=1.0, weight_decay=0.0, averaging_window=1, patience=1, fine_tune=True
    )

    def step(gradient):
        parameter.grad = torch.tensor([-gradient])
        optimiser.step(1.0)

    def evaluated():
        with optimiser.evaluated():
            return parameter.item()

    assert [optimiser.checked(loss) for loss in (3.0, 2.0, 4.0)] == [False] * 3  # now it averages
    step(1.0)
    step(2.0)
    assert evaluated() == 3.0  # of 2 and 4
    for loss in losses:  # the last is no better than the best: the first pass is over
        assert not optimiser.checked(loss)
        step(5.0) if loss != losses[-1] else None
    assert parameter.item() == start
    step(1.0)
    assert evaluated() == start + 1
    step(4.0)
    assert evaluated() == start + 3  # nothing of the first pass is left
    # Worse than the best of this pass that is two or more checks old: losses of the first do not count.
    ended = [optimiser.checked(loss) for loss in (9.0, 8.0, 8.5, 8.4, 8.3)]
    assert ended == [False, False, False, True, True]


def test_without_averages_there_is_no_second_pass(tiny):
    model = tiny()
    once = train(model, TRAIN, DEV, descent(model, fine_tune=True), SCHEDULE, seeded())
    again = tiny()
    twice = train(again, TRAIN, DEV, descent(again), SCHEDULE, seeded())
    assert [p["dev_ppl"] for p in once.curve] == [p["dev_ppl"] for p in twice.curve]


def test_training_learns_and_keeps_the_best_weights(tiny):
    model = tiny()
    before = static_nll(model, DEV).mean()
    done = train(model, TRAIN, DEV, descent(model), SCHEDULE, seeded())
    assert static_nll(model, DEV).mean() < 0.6 * before
    best = min(done.curve, key=lambda point: point["dev_ppl"])
    assert best["update"] == done.best_update
    assert perplexity(static_nll(model, DEV, batch=10)) == pytest.approx(best["dev_ppl"], rel=1e-6)
    assert [point["epoch"] for point in done.curve] == [1, 2, 3, 4]
    assert done.updates == done.curve[-1]["update"]
    assert done.seconds == pytest.approx(done.curve[-1]["seconds"], rel=0.2)


def test_the_same_seeds_give_the_same_bytes_and_others_do_not(tiny):
    def weights(model_seed, data_seed):
        model = tiny(
            seed=model_seed,
            dropout_input=0.2,
            dropout_hidden=0.2,
            dropout_output=0.2,
            dropout_embedding=0.2,
            weight_drop=0.2,
        )
        train(model, TRAIN, DEV, descent(model), SCHEDULE, seeded(data_seed))
        return b"".join(p.detach().numpy().tobytes() for p in model.parameters())

    first = weights(1, 1)
    assert first == weights(1, 1)
    assert first != weights(2, 1)
    assert first != weights(1, 2)


def test_the_best_weights_are_kept_when_training_goes_wrong(tiny):
    model = tiny()
    optimiser = descent(model)
    step, taken = optimiser.step, []

    def spoil(scale):
        step(scale)
        taken.append(scale)
        if len(taken) > 70:
            with torch.no_grad():
                model.output_weight.mul_(3)

    optimiser.step = spoil
    done = train(model, TRAIN, DEV, optimiser, SCHEDULE, seeded())
    best = min(point["dev_ppl"] for point in done.curve)
    assert done.best_update < done.updates
    assert perplexity(static_nll(model, DEV, batch=10)) == pytest.approx(best, rel=1e-6)


def test_training_is_gradient_descent_on_the_mean_loss_and_regularisation(tiny, double):
    model = tiny(1, alpha=0.3, beta=0.7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.2)  # so that one pass makes it better than guessing
    stack = double(model)
    words = TEXT[:41]
    schedule = TrainingSchedule(batch_size=2, bptt=8, vary=False, clip=0.25, max_epochs=1)
    train(model, words, words, descent(model, learning_rate=1.0), schedule, seeded())
    columns = torch.from_numpy(words[:40]).view(2, 20).t()
    state = [tuple(torch.zeros(1, 2, 5).double() for _ in range(2))]
    updates = torch.optim.SGD(stack.parameters(), lr=1.0, weight_decay=1e-6)
    for start, end in ((0, 8), (8, 16), (16, 19)):
        hidden, state = stack.hidden(columns[start:end], [tuple(s.detach() for s in state[0])])
        logits = stack.decoder(hidden)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), columns[start + 1 : end + 1].flatten())
        loss = loss + 0.3 * (hidden**2).mean() + 0.7 * (hidden.diff(dim=0) ** 2).mean()
        updates.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(stack.parameters(), 0.25)
        updates.step()
    for own, expected in zip(model.parameters(), stack.parameters(), strict=True):
        assert torch.allclose(own.double(), expected, atol=1e-6)


def test_lengths_vary_and_the_learning_rate_with_them(tiny):
    model = tiny()
    lengths, scales = [], []
    model.register_forward_hook(
        lambda module, inputs, output: lengths.append(len(inputs[0])) if module.training else None
    )
    optimiser = descent(model)
    step = optimiser.step
    optimiser.step = lambda scale: (scales.append(scale), step(scale))
    words = np.tile(TRAIN, 20)
    schedule = TrainingSchedule(batch_size=2, bptt=40, vary=True, clip=0.25, max_epochs=1)
    train(model, words, DEV, optimiser, schedule, seeded())
    assert scales == [length / 40 for length in lengths]
    assert sum(lengths) == len(words) // 2 - 1
    near_half = np.array(lengths[:-1]) < 30
    assert 0 < near_half.mean() < 0.15
    full = np.array(lengths[:-1])[~near_half]
    assert full.mean() == pytest.approx(40, abs=1)
    assert full.std() == pytest.approx(5, abs=1)


def test_checks_within_an_epoch(tiny):
    model = tiny()
    schedule = TrainingSchedule(
        batch_size=4, bptt=10, vary=False, clip=0.25, max_epochs=2, checks_per_epoch=3
    )
    done = train(model, TRAIN, DEV, descent(model), schedule, seeded())
    assert [point["update"] for point in done.curve] == [10, 20, 30, 40, 50, 60]
    every = TrainingSchedule(batch_size=4, bptt=10, vary=False, clip=0.25, max_epochs=2, check_updates=25)
    model = tiny()
    done = train(model, TRAIN, DEV, descent(model), every, seeded())
    assert [point["update"] for point in done.curve] == [25, 50, 60]


def test_a_loss_that_is_no_number_is_a_failed_training(tiny):
    model = tiny()
    schedule = TrainingSchedule(batch_size=4, bptt=10, vary=False, clip=0.0, max_epochs=2)
    with pytest.raises(TrainingFailed, match=r"diverged|learned nothing"):
        train(model, TRAIN, DEV, descent(model, learning_rate=1e30), schedule, seeded())


def test_a_model_that_only_guesses_is_a_failed_training(tiny):
    model = tiny()
    noise = np.random.default_rng(5).integers(9, size=400)
    with pytest.raises(TrainingFailed, match="learned nothing"):
        train(model, noise, noise[::-1].copy(), descent(model, learning_rate=0.0), SCHEDULE, seeded())


def test_a_model_that_knows_no_more_than_how_frequent_words_are_is_a_failed_training(tiny):
    # Words in any order, some more frequent than others: there is nothing to learn beside that.
    text = np.random.default_rng(5).choice(9, size=1600, p=[0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.03])
    learned, dev = text[:1200], text[1200:]
    frequencies = [(np.sum(learned == word) + 1) / (1200 + 9) for word in range(9)]
    by_hand = -np.mean([math.log(frequencies[word]) for word in dev[1:]])
    assert unigram_loss(learned, dev, 9) == pytest.approx(by_hand, abs=1e-12)
    model = tiny()
    schedule = replace(SCHEDULE, max_epochs=30)
    converging = {"learning_rate": 1.0, "averaging_window": 0, "patience": 1, "min_improvement": 1.0}
    with pytest.raises(TrainingFailed, match=f"learned nothing.*a guess has {math.exp(by_hand - 0.02):.4g}"):
        train(model, learned, dev, descent(model, **converging), schedule, seeded())
    # Cut off before it has converged, it is only no worse than a uniform guess.
    model = tiny()
    assert not train(model, learned, dev, descent(model, learning_rate=1.0), SCHEDULE, seeded()).converged


def test_too_little_data_for_the_batch_is_a_failed_training(tiny):
    model = tiny()
    schedule = TrainingSchedule(batch_size=200, bptt=10, vary=False, clip=0.25, max_epochs=1)
    with pytest.raises(TrainingFailed, match="batch size of 200"):
        train(model, TRAIN[:300], DEV, descent(model), schedule, seeded())


def test_a_log_line_tells_how_far_a_training_is():
    point = {"update": 50, "epoch": 2.0, "dev_ppl": 12.345, "seconds": 4.0}
    line = _log_line(point, 1000, replace(SCHEDULE, max_epochs=10))
    assert line == (
        "update 50, epoch 2.00 of at most 10: dev perplexity 12.35, 500 tokens/s, "
        "at most 16 s of training left"
    )
    line = _log_line(point, 1000, replace(SCHEDULE, max_updates=200))
    assert line.startswith("update 50 of 200, epoch 2.00: ") and "at most 12 s" in line
